/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* Short names for the engine's points, for the programs that test it. */
#ifndef MARKED_H
#define MARKED_H

#include <engine.h>
#include <prove.h>

#define UNCHECKED __attribute__((no_sanitize_thread, noinline, unused))

#define READ(x)			(__typeof__(x))pv_load(&(x), sizeof(x), PV_RELAXED)
#define READ_ACQUIRE(x)		((__typeof__(x))pv_load(&(x), sizeof(x), PV_ACQUIRE))
#define WRITE(x, v)		pv_store(&(x), (pv_u64)(v), sizeof(x), PV_RELAXED)
#define WRITE_RELEASE(x, v)	pv_store(&(x), (pv_u64)(v), sizeof(x), PV_RELEASE)
#define BARRIER()		pv_fence(PV_FENCE_FULL)

/* An atomic addition; returns the new value. */
static UNCHECKED int add(int *p, int n)
{
	pv_update(p, sizeof(*p), PV_FULL);
	*(volatile int *)p += n;
	return *(volatile int *)p;
}

/* Sleeps until *p is not zero. */
static UNCHECKED _Bool is_set(void *p)
{
	return *(volatile int *)p;
}

static inline void wait_for(int *p)
{
	pv_block(p, is_set, p, "the flag");
}

static __attribute__((unused)) const struct pv_class class_a = { .name = "a" };
static __attribute__((unused)) const struct pv_class class_b = { .name = "b" };
static __attribute__((unused)) const struct pv_class mutex_class = { .name = "mutex", .sleeps = 1 };

#endif
