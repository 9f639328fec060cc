/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_KERNEL_H
#define PROVE_SHIM_LINUX_KERNEL_H

#include <stdio.h>

#include <linux/bits.h>
#include <linux/bug.h>
#include <linux/compiler.h>
#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/printk.h>
#include <linux/stddef.h>
#include <linux/string.h>
#include <linux/types.h>

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

#define container_of(pointer, type, member) ({				\
	const void *__member = (pointer);				\
	(type *)((char *)__member - offsetof(type, member)); })

#define __smaller(a, b) ({						\
	typeof(a) __a = (a);						\
	typeof(b) __b = (b);						\
	__a < __b ? __a : __b; })
#define __larger(a, b) ({						\
	typeof(a) __a = (a);						\
	typeof(b) __b = (b);						\
	__a > __b ? __a : __b; })
#define min(a, b)		__smaller(a, b)
#define max(a, b)		__larger(a, b)
#define min3(a, b, c)		min(a, min(b, c))
#define max3(a, b, c)		max(a, max(b, c))
#define min_t(type, a, b)	__smaller((type)(a), (type)(b))
#define max_t(type, a, b)	__larger((type)(a), (type)(b))
#define clamp_t(type, n, low, high)	min_t(type, max_t(type, n, low), high)
#define clamp(n, low, high)	min(max(n, low), high)

#define swap(a, b)							\
	do {								\
		typeof(a) __swapped = (a);				\
		(a) = (b);						\
		(b) = __swapped;					\
	} while (0)

#define round_up(n, to)		((((n) - 1) | ((typeof(n))(to) - 1)) + 1)
#define roundup(n, to)		((((n) + (to) - 1) / (to)) * (to))
#define DIV_ROUND_UP(n, by)	(((n) + (by) - 1) / (by))

/* No configuration option is set: PREEMPT_RT, KUnit and others. */
#define IS_ENABLED(option)	0
#define THIS_MODULE		((struct module *)0)

struct module;

#endif /* PROVE_SHIM_LINUX_KERNEL_H */
