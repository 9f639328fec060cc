// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* One file a case; to read it is to run it. */
#include <linux/debugfs.h>
#include <linux/inet.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "vtest.h"

static char *addr = "";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "IPv4 address of the RDMA device");

static struct dentry *vt_dir;

__be32 vt_address(void)
{
	return in_aton(addr);
}

bool vt_equal(struct vt *vt, const char *file, int line, const char *what,
	      s64 got, s64 want)
{
	if (got == want)
		return true;
	seq_printf(vt->seq, "%s:%d: %s: %lld instead of %lld\n",
		   kbasename(file), line, what, got, want);
	vt->failed = true;
	return false;
}

/* The output is short: a second run for want of room would repeat the case. */
static int vt_run_show(struct seq_file *seq, void *unused)
{
	const struct vt_case *c = seq->private;
	struct vt *vt = kzalloc(sizeof(*vt), GFP_KERNEL);

	if (!vt)
		return -ENOMEM;
	vt->seq = seq;
	init_completion(&vt->done);
	c->run(vt);
	vt_close(vt);
	if (!vt->failed)
		seq_puts(seq, "ok\n");
	kfree(vt);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(vt_run);

static void vt_create(const struct vt_case *cases)
{
	for (; cases->name; cases++)
		debugfs_create_file(cases->name, 0400, vt_dir, (void *)cases,
				    &vt_run_fops);
}

static int __init vt_init(void)
{
	vt_dir = debugfs_create_dir("kfi_vtest", NULL);
	if (IS_ERR(vt_dir))
		return PTR_ERR(vt_dir);
	vt_create(vt_accept_cases);
	vt_create(vt_data_cases);
	vt_create(vt_listener_cases);
	vt_create(vt_raw_cases);
	vt_create(vt_refuse_cases);
	vt_create(vt_domain_cases);
	vt_create(vt_sequence_cases);
	return 0;
}

static void __exit vt_exit(void)
{
	debugfs_remove(vt_dir);
}

module_init(vt_init);
module_exit(vt_exit);

MODULE_DESCRIPTION("Tests of kfi_verbs from inside the kernel");
MODULE_AUTHOR("The kfabric authors");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_SOFTDEP("pre: kfi_verbs");
