/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_MODULE_H
#define PROVE_SHIM_LINUX_MODULE_H

#include <linux/export.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/moduleparam.h>
#include <linux/rculist.h>

#define MODULE_AUTHOR(text)
#define MODULE_DESCRIPTION(text)
#define MODULE_LICENSE(text)
#define MODULE_VERSION(text)
#define MODULE_ALIAS(text)
#define module_init(function)
#define module_exit(function)

/* No module is ever unloaded. */
static inline bool try_module_get(struct module *module)
{
	return true;
}

static inline void module_put(struct module *module)
{
}

static inline void __module_get(struct module *module)
{
}

#endif /* PROVE_SHIM_LINUX_MODULE_H */
