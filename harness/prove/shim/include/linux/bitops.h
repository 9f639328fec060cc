/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_BITOPS_H
#define PROVE_SHIM_LINUX_BITOPS_H

#include <linux/atomic.h>
#include <linux/bits.h>

#define BIT_MASK(n)	(1UL << ((n) % BITS_PER_LONG))
#define BIT_WORD(n)	((n) / BITS_PER_LONG)
#define BITS_TO_LONGS(n)	(((n) + BITS_PER_LONG - 1) / BITS_PER_LONG)
#define DECLARE_BITMAP(name, bits)	unsigned long name[BITS_TO_LONGS(bits)]

static inline bool test_bit(unsigned int n, const volatile unsigned long *bits)
{
	return READ_ONCE(bits[BIT_WORD(n)]) & BIT_MASK(n);
}

static inline void set_bit(unsigned int n, volatile unsigned long *bits)
{
	shim_fetch_or((void *)&bits[BIT_WORD(n)], sizeof(*bits), BIT_MASK(n),
		      PV_RELAXED);
}

static inline void clear_bit(unsigned int n, volatile unsigned long *bits)
{
	shim_fetch_and((void *)&bits[BIT_WORD(n)], sizeof(*bits), ~BIT_MASK(n),
		       PV_RELAXED);
}

static inline void clear_bit_unlock(unsigned int n, volatile unsigned long *bits)
{
	shim_fetch_and((void *)&bits[BIT_WORD(n)], sizeof(*bits), ~BIT_MASK(n),
		       PV_RELEASE);
}

static inline bool test_and_set_bit(unsigned int n, volatile unsigned long *bits)
{
	return shim_fetch_or((void *)&bits[BIT_WORD(n)], sizeof(*bits),
			     BIT_MASK(n), PV_FULL) & BIT_MASK(n);
}

static inline bool test_and_set_bit_lock(unsigned int n,
					 volatile unsigned long *bits)
{
	return shim_fetch_or((void *)&bits[BIT_WORD(n)], sizeof(*bits),
			     BIT_MASK(n), PV_ACQUIRE) & BIT_MASK(n);
}

static inline bool test_and_clear_bit(unsigned int n, volatile unsigned long *bits)
{
	return shim_fetch_and((void *)&bits[BIT_WORD(n)], sizeof(*bits),
			      ~BIT_MASK(n), PV_FULL) & BIT_MASK(n);
}

static inline unsigned long __ffs(unsigned long word)
{
	return __builtin_ctzl(word);
}

static inline unsigned long ffz(unsigned long word)
{
	return __builtin_ctzl(~word);
}

#endif /* PROVE_SHIM_LINUX_BITOPS_H */
