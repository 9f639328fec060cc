// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Makes the kernel misbehave on request, so that the harness can be seen to
 * notice: insmod provoke.ko what=warn|freeze. It never stays loaded.
 */
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/smp.h>
#include <linux/string.h>

static char *what = "";
module_param(what, charp, 0);
MODULE_PARM_DESC(what, "warn: print a warning; freeze: stop every CPU");

/* Called with interrupts off, so neither the tick nor a watchdog ends it. */
static void provoke_stop_cpu(void *unused)
{
	for (;;)
		cpu_relax();
}

static int __init provoke_init(void)
{
	if (!strcmp(what, "warn"))
		WARN(1, "provoked on request\n");
	else if (!strcmp(what, "freeze"))
		on_each_cpu(provoke_stop_cpu, NULL, 0);
	else
		return -EINVAL;
	/* Done: nothing is left that could be unloaded. */
	return -ECANCELED;
}
module_init(provoke_init);

MODULE_DESCRIPTION("Provokes kernel warnings and hangs for tests of the harness");
MODULE_AUTHOR("kfabric developers");
MODULE_LICENSE("Dual BSD/GPL");
