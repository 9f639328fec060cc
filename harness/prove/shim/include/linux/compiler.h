/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_COMPILER_H
#define PROVE_SHIM_LINUX_COMPILER_H

#include <engine.h>

#include <linux/compiler_attributes.h>
#include <linux/types.h>

#define likely(condition)	__builtin_expect(!!(condition), 1)
#define unlikely(condition)	__builtin_expect(!!(condition), 0)

/* Marked accesses: each is a step of the exploration. */
#define SHIM_LOAD(x, order) ({						\
	union { typeof(x) value; pv_u64 raw; } __loaded = {		\
		.raw = pv_load(&(x), sizeof(x), order) };		\
	__loaded.value; })
#define SHIM_STORE(x, new, order)					\
	do {								\
		union { typeof(x) value; pv_u64 raw; } __stored = { .raw = 0 }; \
									\
		__stored.value = (new);					\
		pv_store(&(x), __stored.raw, sizeof(x), order);		\
	} while (0)

#define READ_ONCE(x)		SHIM_LOAD(x, PV_RELAXED)
#define WRITE_ONCE(x, new)	SHIM_STORE(x, new, PV_RELAXED)

#define smp_load_acquire(p)		SHIM_LOAD(*(p), PV_ACQUIRE)
#define smp_store_release(p, new)	SHIM_STORE(*(p), new, PV_RELEASE)
#define smp_store_mb(x, new)						\
	do {								\
		WRITE_ONCE(x, new);					\
		smp_mb();						\
	} while (0)

#define smp_mb()			pv_fence(PV_FENCE_FULL)
#define smp_rmb()			pv_fence(PV_FENCE_READ)
#define smp_wmb()			pv_fence(PV_FENCE_WRITE)
#define smp_mb__before_atomic()		smp_mb()
#define smp_mb__after_atomic()		smp_mb()
#define smp_mb__after_spinlock()	smp_mb()
#define mb()				smp_mb()
#define rmb()				smp_rmb()
#define wmb()				smp_wmb()

/* The compiler moves nothing over a step of the exploration anyway. */
#define barrier()			__asm__ volatile("" : : : "memory")

/* No race, says the author. Memory that is gone is still a finding. */
#define data_race(expression) ({					\
	typeof(expression) __raced = ({					\
		pv_racy(1);						\
		expression;						\
	});								\
	pv_racy(-1);							\
	__raced; })

#endif /* PROVE_SHIM_LINUX_COMPILER_H */
