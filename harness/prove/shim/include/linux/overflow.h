/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_OVERFLOW_H
#define PROVE_SHIM_LINUX_OVERFLOW_H

#include <linux/types.h>

static inline size_t size_mul(size_t a, size_t b)
{
	size_t product;

	return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static inline size_t size_add(size_t a, size_t b)
{
	size_t sum;

	return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

#define struct_size(p, member, n)					\
	size_add(sizeof(*(p)), size_mul(n, sizeof(*(p)->member)))
#define array_size(a, b)		size_mul(a, b)
#define check_add_overflow(a, b, sum)	__builtin_add_overflow(a, b, sum)
#define check_mul_overflow(a, b, product)	__builtin_mul_overflow(a, b, product)

#endif /* PROVE_SHIM_LINUX_OVERFLOW_H */
