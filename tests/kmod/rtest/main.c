// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* One file a case; to read it is to run it. */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "rtest.h"

static char *addr = "";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "IPv4 address of the RDMA device");

static char *second = "";
module_param(second, charp, 0444);
MODULE_PARM_DESC(second, "another IPv4 address of it");

static struct dentry *rt_dir;

const char *rt_address(void)
{
	return addr;
}

const char *rt_second_address(void)
{
	return second;
}

bool rt_equal(struct rt *rt, const char *file, int line, const char *what,
	      s64 got, s64 want)
{
	if (got == want)
		return true;
	seq_printf(rt->seq, "%s:%d: %s: %lld instead of %lld\n",
		   kbasename(file), line, what, got, want);
	rt->failed = true;
	return false;
}

/* The output is short: a second run for want of room would repeat the case. */
static int rt_run_show(struct seq_file *seq, void *unused)
{
	const struct rt_case *c = seq->private;
	struct rt *rt = kzalloc(sizeof(*rt), GFP_KERNEL);

	if (!rt)
		return -ENOMEM;
	rt->seq = seq;
	c->run(rt);
	rt_close(rt);
	if (!rt->failed)
		seq_puts(seq, "ok\n");
	kfree(rt);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(rt_run);

static void rt_create(const struct rt_case *cases)
{
	for (; cases->name; cases++)
		debugfs_create_file(cases->name, 0400, rt_dir, (void *)cases,
				    &rt_run_fops);
}

static int __init rt_init(void)
{
	rt_dir = debugfs_create_dir("kfi_rtest", NULL);
	if (IS_ERR(rt_dir))
		return PTR_ERR(rt_dir);
	rt_create(rt_message_cases);
	rt_create(rt_keep_cases);
	rt_create(rt_rma_cases);
	rt_create(rt_refuse_cases);
	rt_create(rt_hostile_cases);
	rt_create(rt_greedy_cases);
	rt_create(rt_bare_cases);
	rt_create(rt_untrue_cases);
	rt_create(rt_forged_cases);
	rt_create(rt_pump_cases);
	rt_create(rt_idle_cases);
	rt_create(rt_flow_cases);
	rt_create(rt_served_cases);
	rt_create(rt_caps_cases);
	rt_create(rt_region_cases);
	return 0;
}

static void __exit rt_exit(void)
{
	debugfs_remove(rt_dir);
}

module_init(rt_init);
module_exit(rt_exit);

MODULE_DESCRIPTION("Tests of RDM endpoints from inside the kernel");
MODULE_AUTHOR("The kfabric authors");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_SOFTDEP("pre: kfi_verbs");
