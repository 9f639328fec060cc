/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Debug output, selected by a mask. The including file defines DRV_PFX, a string
 * literal that begins each line. With CONFIG_KFI_DEBUG the module also defines
 * the variable debug_level.
 *
 * Part of the kfabric 1.7 interface, for ULPs. Nothing here uses it.
 */
#ifndef _KFI_DEBUG_H_
#define _KFI_DEBUG_H_

#include <linux/moduleparam.h>
#include <linux/printk.h>

enum {
	DEBUG_NONE	= 0,
	DEBUG_LOW	= 1 << 0,
	DEBUG_MED	= 1 << 1,
	DEBUG_HIGH	= 1 << 2,
	DEBUG_TRACE	= 1 << 3,
	DEBUG_NEXT	= 1 << 4,	/* first bit for other use */

	DEBUG_LEVEL_LOW	= DEBUG_LOW,
	DEBUG_LEVEL_MED	= DEBUG_LOW | DEBUG_MED,
	DEBUG_LEVEL_HI	= DEBUG_LOW | DEBUG_MED | DEBUG_HIGH
};

/* Defines a variable that is also a writable module parameter. */
#ifndef MODULE_PARAM
#define MODULE_PARAM(name, var, type, value, desc) \
	type var = value; \
	module_param_named(name, var, type, 0644); \
	MODULE_PARM_DESC(name, desc)
#endif

#ifdef CONFIG_KFI_DEBUG

extern int debug_level;

#define set_debug_level(val) (debug_level = (val))
#define update_debug_level(val) (debug_level |= (val))

#define _KFI_DPRINT(mask, level, fmt, ...) \
do { \
	if ((mask) & debug_level) \
		printk(level DRV_PFX "%s(%d) " fmt, __func__, __LINE__, \
		       ##__VA_ARGS__); \
} while (0)

#else /* !CONFIG_KFI_DEBUG */

#define set_debug_level(val) do { } while (0)
#define update_debug_level(val) do { } while (0)

/* Prints nothing. The compiler still checks the arguments. */
#define _KFI_DPRINT(mask, level, fmt, ...) no_printk(level fmt, ##__VA_ARGS__)

#endif /* !CONFIG_KFI_DEBUG */

#define print_info(fmt, ...) pr_info(fmt, ##__VA_ARGS__)
#define print_err(fmt, ...) \
	pr_err(DRV_PFX "%s(%d) " fmt, __func__, __LINE__, ##__VA_ARGS__)
#define print_msg(fmt, ...) print_err(fmt, ##__VA_ARGS__)

#define dprint(mask, fmt, ...) \
	_KFI_DPRINT(mask, KERN_DEBUG, fmt, ##__VA_ARGS__)
#define print_dbg(fmt, ...) dprint(DEBUG_LOW, fmt, ##__VA_ARGS__)
#define print_trace(fmt, ...) \
	_KFI_DPRINT(DEBUG_TRACE, KERN_ERR, fmt, ##__VA_ARGS__)

#endif /* _KFI_DEBUG_H_ */
