// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Stands in for the driver for TCP. */
#include <linux/module.h>

MODULE_DESCRIPTION("A stand-in");
MODULE_AUTHOR("The kfabric authors");
MODULE_LICENSE("Dual BSD/GPL");
