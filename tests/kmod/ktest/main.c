// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* One file a case; to read it is to run it. */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "ktest.h"

static struct dentry *kt_dir;

bool kt_holds(struct kt *kt, const char *file, int line, const char *what,
	      bool cond)
{
	if (!cond) {
		seq_printf(kt->seq, "%s:%d: %s\n", kbasename(file), line,
			   what);
		kt->failed = true;
	}
	return cond;
}

bool kt_equal(struct kt *kt, const char *file, int line, const char *what,
	      s64 got, s64 want)
{
	if (!kt_holds(kt, file, line, what, got == want))
		seq_printf(kt->seq, "  %lld instead of %lld\n", got, want);
	return got == want;
}

/* The output is short: a second run for want of room would repeat the case. */
static int kt_run_show(struct seq_file *seq, void *unused)
{
	const struct kt_case *c = seq->private;
	struct kt *kt = kzalloc(sizeof(*kt), GFP_KERNEL);

	if (!kt)
		return -ENOMEM;
	kt->seq = seq;
	init_completion(&kt->started);
	init_completion(&kt->called);
	c->run(kt);
	kt_close(kt);
	if (!kt->failed)
		seq_puts(seq, "ok\n");
	kfree(kt);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(kt_run);

static void kt_create(const struct kt_case *cases)
{
	for (; cases->name; cases++)
		debugfs_create_file(cases->name, 0400, kt_dir, (void *)cases,
				    &kt_run_fops);
}

static int __init kt_init(void)
{
	kt_dir = debugfs_create_dir("kfi_ktest", NULL);
	if (IS_ERR(kt_dir))
		return PTR_ERR(kt_dir);
	kt_create(kt_registry_cases);
	kt_create(kt_handler_cases);
	kt_create(kt_wait_cases);
	kt_create(kt_serve_cases);
	kt_create(kt_timeout_cases);
	kt_create(kt_cond_cases);
	kt_create(kt_exclusive_cases);
	kt_create(kt_profile_cases);
	kt_create(kt_channel_cases);
	return 0;
}

static void __exit kt_exit(void)
{
	debugfs_remove(kt_dir);
}

module_init(kt_init);
module_exit(kt_exit);

MODULE_DESCRIPTION("Tests of kfabric from inside the kernel");
MODULE_AUTHOR("The kfabric authors");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_SOFTDEP("pre: kfi_mock");
