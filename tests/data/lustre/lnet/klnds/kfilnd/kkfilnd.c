// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Stands in for the driver for kfabric: it finds our first device by the name that it is given. */
#include <linux/module.h>

#include <kfabric.h>

static int __init kkfilnd_init(void)
{
	struct kfi_info *info;
	int err;

	err = kfi_getinfo(0, "cxi0", "0", KFI_SOURCE, NULL, &info);
	if (!err)
		kfi_freeinfo(info);
	return err;
}

static void __exit kkfilnd_exit(void)
{
}

module_init(kkfilnd_init);
module_exit(kkfilnd_exit);

MODULE_DESCRIPTION("A stand-in");
MODULE_AUTHOR("The kfabric authors");
MODULE_LICENSE("Dual BSD/GPL");
