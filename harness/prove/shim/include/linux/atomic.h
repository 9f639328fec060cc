/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_ATOMIC_H
#define PROVE_SHIM_LINUX_ATOMIC_H

#include <linux/compiler.h>
#include <linux/types.h>

/*
 * As in the kernel: operations that return a value are full barriers unless their
 * name says otherwise, the others order nothing. A compare-and-exchange that fails
 * orders as one that succeeds; the kernel promises less.
 */
#define ATOMIC_INIT(n)		{ (n) }
#define ATOMIC64_INIT(n)	{ (n) }
#define ATOMIC_LONG_INIT(n)	{ (n) }

s64 shim_fetch_add(void *at, int size, s64 n, enum pv_order order);
s64 shim_fetch_and(void *at, int size, s64 mask, enum pv_order order);
s64 shim_fetch_or(void *at, int size, s64 mask, enum pv_order order);
s64 shim_fetch_xor(void *at, int size, s64 mask, enum pv_order order);
s64 shim_xchg(void *at, int size, s64 new, enum pv_order order);
s64 shim_cmpxchg(void *at, int size, s64 old, s64 new, enum pv_order order);
s64 shim_fetch_add_unless(void *at, int size, s64 n, s64 unless, enum pv_order order);

#define SHIM_ATOMIC_RETURNING(name, type, suffix, order)		\
static inline type name##_fetch_add##suffix(type n, name##_t *v)	\
{									\
	return shim_fetch_add(v, sizeof(*v), n, order);			\
}									\
static inline type name##_fetch_sub##suffix(type n, name##_t *v)	\
{									\
	return shim_fetch_add(v, sizeof(*v), -n, order);		\
}									\
static inline type name##_fetch_inc##suffix(name##_t *v)		\
{									\
	return shim_fetch_add(v, sizeof(*v), 1, order);			\
}									\
static inline type name##_fetch_dec##suffix(name##_t *v)		\
{									\
	return shim_fetch_add(v, sizeof(*v), -1, order);		\
}									\
static inline type name##_fetch_and##suffix(type mask, name##_t *v)	\
{									\
	return shim_fetch_and(v, sizeof(*v), mask, order);		\
}									\
static inline type name##_fetch_or##suffix(type mask, name##_t *v)	\
{									\
	return shim_fetch_or(v, sizeof(*v), mask, order);		\
}									\
static inline type name##_add_return##suffix(type n, name##_t *v)	\
{									\
	return shim_fetch_add(v, sizeof(*v), n, order) + n;		\
}									\
static inline type name##_sub_return##suffix(type n, name##_t *v)	\
{									\
	return shim_fetch_add(v, sizeof(*v), -n, order) - n;		\
}									\
static inline type name##_inc_return##suffix(name##_t *v)		\
{									\
	return shim_fetch_add(v, sizeof(*v), 1, order) + 1;		\
}									\
static inline type name##_dec_return##suffix(name##_t *v)		\
{									\
	return shim_fetch_add(v, sizeof(*v), -1, order) - 1;		\
}									\
static inline type name##_xchg##suffix(name##_t *v, type new)		\
{									\
	return shim_xchg(v, sizeof(*v), new, order);			\
}									\
static inline type name##_cmpxchg##suffix(name##_t *v, type old, type new) \
{									\
	return shim_cmpxchg(v, sizeof(*v), old, new, order);		\
}									\
static inline bool name##_try_cmpxchg##suffix(name##_t *v, type *old, type new) \
{									\
	type found = shim_cmpxchg(v, sizeof(*v), *old, new, order);	\
									\
	if (found == *old)						\
		return true;						\
	*old = found;							\
	return false;							\
}									\
static inline bool name##_inc_not_zero##suffix(name##_t *v)		\
{									\
	return shim_fetch_add_unless(v, sizeof(*v), 1, 0, order);	\
}

#define SHIM_ATOMIC(name, type)						\
static inline type name##_read(const name##_t *v)			\
{									\
	return READ_ONCE(v->counter);					\
}									\
static inline type name##_read_acquire(const name##_t *v)		\
{									\
	return smp_load_acquire(&v->counter);				\
}									\
static inline void name##_set(name##_t *v, type n)			\
{									\
	WRITE_ONCE(v->counter, n);					\
}									\
static inline void name##_set_release(name##_t *v, type n)		\
{									\
	smp_store_release(&v->counter, n);				\
}									\
static inline void name##_add(type n, name##_t *v)			\
{									\
	shim_fetch_add(v, sizeof(*v), n, PV_RELAXED);			\
}									\
static inline void name##_sub(type n, name##_t *v)			\
{									\
	shim_fetch_add(v, sizeof(*v), -n, PV_RELAXED);			\
}									\
static inline void name##_inc(name##_t *v)				\
{									\
	shim_fetch_add(v, sizeof(*v), 1, PV_RELAXED);			\
}									\
static inline void name##_dec(name##_t *v)				\
{									\
	shim_fetch_add(v, sizeof(*v), -1, PV_RELAXED);			\
}									\
static inline void name##_and(type mask, name##_t *v)			\
{									\
	shim_fetch_and(v, sizeof(*v), mask, PV_RELAXED);		\
}									\
static inline void name##_or(type mask, name##_t *v)			\
{									\
	shim_fetch_or(v, sizeof(*v), mask, PV_RELAXED);			\
}									\
SHIM_ATOMIC_RETURNING(name, type, , PV_FULL)				\
SHIM_ATOMIC_RETURNING(name, type, _relaxed, PV_RELAXED)			\
SHIM_ATOMIC_RETURNING(name, type, _acquire, PV_ACQUIRE)			\
SHIM_ATOMIC_RETURNING(name, type, _release, PV_RELEASE)			\
static inline bool name##_dec_and_test(name##_t *v)			\
{									\
	return !name##_dec_return(v);					\
}									\
static inline bool name##_inc_and_test(name##_t *v)			\
{									\
	return !name##_inc_return(v);					\
}									\
static inline bool name##_sub_and_test(type n, name##_t *v)		\
{									\
	return !name##_sub_return(n, v);				\
}									\
static inline bool name##_add_negative(type n, name##_t *v)		\
{									\
	return name##_add_return(n, v) < 0;				\
}									\
static inline type name##_fetch_add_unless(name##_t *v, type n, type unless) \
{									\
	return shim_fetch_add_unless(v, sizeof(*v), n, unless, PV_FULL); \
}									\
static inline bool name##_add_unless(name##_t *v, type n, type unless)	\
{									\
	return name##_fetch_add_unless(v, n, unless) != unless;		\
}

SHIM_ATOMIC(atomic, int)
SHIM_ATOMIC(atomic64, s64)

#define atomic_long_read(v)		atomic64_read(v)
#define atomic_long_set(v, n)		atomic64_set(v, n)
#define atomic_long_inc(v)		atomic64_inc(v)
#define atomic_long_dec(v)		atomic64_dec(v)
#define atomic_long_add(n, v)		atomic64_add(n, v)
#define atomic_long_sub(n, v)		atomic64_sub(n, v)
#define atomic_long_inc_return(v)	atomic64_inc_return(v)
#define atomic_long_dec_return(v)	atomic64_dec_return(v)
#define atomic_long_add_return(n, v)	atomic64_add_return(n, v)
#define atomic_long_dec_and_test(v)	atomic64_dec_and_test(v)

/* On plain variables, of any type that a register holds. */
#define xchg(at, new)							\
	((typeof(*(at)))shim_xchg(at, sizeof(*(at)), (s64)(new), PV_FULL))
#define cmpxchg(at, old, new)						\
	((typeof(*(at)))shim_cmpxchg(at, sizeof(*(at)), (s64)(old),	\
				     (s64)(new), PV_FULL))

#endif /* PROVE_SHIM_LINUX_ATOMIC_H */
