/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_LOG2_H
#define PROVE_SHIM_LINUX_LOG2_H

#include <linux/bits.h>
#include <linux/types.h>

#define ilog2(n)		((int)(63 - __builtin_clzll(n)))

static inline bool is_power_of_2(unsigned long n)
{
	return n && !(n & (n - 1));
}

static inline unsigned long roundup_pow_of_two(unsigned long n)
{
	return n <= 1 ? 1 : 1UL << (BITS_PER_LONG - __builtin_clzl(n - 1));
}

static inline unsigned long rounddown_pow_of_two(unsigned long n)
{
	return 1UL << ilog2(n);
}

#endif /* PROVE_SHIM_LINUX_LOG2_H */
