/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_PRINTK_H
#define PROVE_SHIM_LINUX_PRINTK_H

#include <linux/compiler.h>

#define KERN_EMERG	"0"
#define KERN_ALERT	"1"
#define KERN_CRIT	"2"
#define KERN_ERR	"3"
#define KERN_WARNING	"4"
#define KERN_NOTICE	"5"
#define KERN_INFO	"6"
#define KERN_DEBUG	"7"
#define KERN_DEFAULT	""

#ifndef pr_fmt
#define pr_fmt(format)	format
#endif

/* No output: a message of one execution of millions helps no reader. */
static inline __printf(1, 2) int printk(const char *format, ...)
{
	return 0;
}

#define no_printk(format, ...)	printk(format, ##__VA_ARGS__)
#define pr_emerg(format, ...)	printk(pr_fmt(format), ##__VA_ARGS__)
#define pr_err(format, ...)	printk(pr_fmt(format), ##__VA_ARGS__)
#define pr_warn(format, ...)	printk(pr_fmt(format), ##__VA_ARGS__)
#define pr_notice(format, ...)	printk(pr_fmt(format), ##__VA_ARGS__)
#define pr_info(format, ...)	printk(pr_fmt(format), ##__VA_ARGS__)
#define pr_debug(format, ...)	printk(pr_fmt(format), ##__VA_ARGS__)
#define pr_err_ratelimited(format, ...)	pr_err(format, ##__VA_ARGS__)
#define pr_warn_once(format, ...)	pr_warn(format, ##__VA_ARGS__)

#endif /* PROVE_SHIM_LINUX_PRINTK_H */
