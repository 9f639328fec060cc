// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Atomic operations: one point, then plain C. No other thread runs until the next
 * point.
 */
#include <linux/atomic.h>

#include "shim.h"

static s64 value_at(const void *at, int size)
{
	switch (size) {
	case 1:
		return *(const s8 *)at;
	case 2:
		return *(const s16 *)at;
	case 4:
		return *(const s32 *)at;
	default:
		return *(const s64 *)at;
	}
}

static void put_value(void *at, int size, s64 value)
{
	switch (size) {
	case 1:
		*(s8 *)at = value;
		break;
	case 2:
		*(s16 *)at = value;
		break;
	case 4:
		*(s32 *)at = value;
		break;
	default:
		*(s64 *)at = value;
	}
}

s64 shim_fetch_add(void *at, int size, s64 n, enum pv_order order)
{
	s64 old;

	pv_add(at, size, n, order);
	old = value_at(at, size);
	put_value(at, size, old + n);
	return old;
}

s64 shim_fetch_and(void *at, int size, s64 mask, enum pv_order order)
{
	s64 old;

	pv_update(at, size, order);
	old = value_at(at, size);
	put_value(at, size, old & mask);
	return old;
}

s64 shim_fetch_or(void *at, int size, s64 mask, enum pv_order order)
{
	s64 old;

	pv_update(at, size, order);
	old = value_at(at, size);
	put_value(at, size, old | mask);
	return old;
}

s64 shim_fetch_xor(void *at, int size, s64 mask, enum pv_order order)
{
	s64 old;

	pv_update(at, size, order);
	old = value_at(at, size);
	put_value(at, size, old ^ mask);
	return old;
}

s64 shim_xchg(void *at, int size, s64 new, enum pv_order order)
{
	s64 old;

	pv_update(at, size, order);
	old = value_at(at, size);
	put_value(at, size, new);
	return old;
}

/* Both sides are compared as the variable's type would hold them. */
static bool same_value(s64 a, s64 b, int size)
{
	const int unused = 64 - 8 * size;

	return (u64)a << unused == (u64)b << unused;
}

s64 shim_cmpxchg(void *at, int size, s64 old, s64 new, enum pv_order order)
{
	s64 found;

	pv_update(at, size, order);
	found = value_at(at, size);
	if (same_value(found, old, size))
		put_value(at, size, new);
	return found;
}

s64 shim_fetch_add_unless(void *at, int size, s64 n, s64 unless, enum pv_order order)
{
	s64 old;

	if (unless)
		pv_update(at, size, order);
	else
		pv_add(at, size, n, order);
	old = value_at(at, size);
	if (!same_value(old, unless, size))
		put_value(at, size, old + n);
	return old;
}
