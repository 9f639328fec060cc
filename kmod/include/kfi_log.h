/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * printf-like log macros, one for each level. Each line begins with the string
 * MODULE_NAME, which the including file may define first. The macros add the
 * newline.
 *
 * Part of the kfabric 1.7 interface, for ULPs. Nothing here uses it.
 */
#ifndef _KFI_LOG_H_
#define _KFI_LOG_H_

#include <linux/printk.h>

#ifndef MODULE_NAME
#define MODULE_NAME "KFI"
#endif

/* A line without and with its position in the source. */
#define _KFI_LOG(print, fmt, ...) \
	print("%s: " fmt "\n", MODULE_NAME, ##__VA_ARGS__)
#define _KFI_LOG_AT(print, fmt, ...) \
	print("%s - %s:%d: " fmt "\n", MODULE_NAME, __func__, __LINE__, \
	      ##__VA_ARGS__)

#define LOG_DEBUG(fmt, ...) _KFI_LOG_AT(pr_debug, fmt, ##__VA_ARGS__)
#define LOG_DEFAULT(fmt, ...) \
	printk(KERN_DEFAULT "%s: " fmt "\n", MODULE_NAME, ##__VA_ARGS__)
#define LOG_INFO(fmt, ...) _KFI_LOG(pr_info, fmt, ##__VA_ARGS__)
#define LOG_NOTICE(fmt, ...) _KFI_LOG(pr_notice, fmt, ##__VA_ARGS__)
#define LOG_WARN(fmt, ...) _KFI_LOG_AT(pr_warn, fmt, ##__VA_ARGS__)
#define LOG_ERR(fmt, ...) _KFI_LOG_AT(pr_err, fmt, ##__VA_ARGS__)
#define LOG_ERR_RL(fmt, ...) \
	_KFI_LOG_AT(pr_err_ratelimited, fmt, ##__VA_ARGS__)
#define LOG_CRIT(fmt, ...) _KFI_LOG_AT(pr_crit, fmt, ##__VA_ARGS__)
#define LOG_ALERT(fmt, ...) _KFI_LOG_AT(pr_alert, fmt, ##__VA_ARGS__)
#define LOG_EMERG(fmt, ...) _KFI_LOG_AT(pr_emerg, fmt, ##__VA_ARGS__)

#endif /* _KFI_LOG_H_ */
