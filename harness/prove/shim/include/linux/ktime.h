/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_KTIME_H
#define PROVE_SHIM_LINUX_KTIME_H

#include <linux/jiffies.h>
#include <linux/limits.h>
#include <linux/time64.h>
#include <linux/types.h>

typedef s64 ktime_t;

#define KTIME_MAX	((s64)~((u64)1 << 63))

/* The time of the exploration: only a timer that fires moves it. */
ktime_t ktime_get(void);

static inline u64 ktime_get_ns(void)
{
	return ktime_get();
}

static inline ktime_t ns_to_ktime(u64 ns)
{
	return ns;
}

static inline s64 ktime_to_ns(ktime_t time)
{
	return time;
}

static inline ktime_t us_to_ktime(u64 us)
{
	return us * NSEC_PER_USEC;
}

static inline ktime_t ms_to_ktime(u64 ms)
{
	return ms * NSEC_PER_MSEC;
}

static inline s64 ktime_to_us(ktime_t time)
{
	return time / NSEC_PER_USEC;
}

static inline s64 ktime_to_ms(ktime_t time)
{
	return time / NSEC_PER_MSEC;
}

static inline ktime_t ktime_add(ktime_t a, ktime_t b)
{
	return a + b;
}

static inline ktime_t ktime_sub(ktime_t a, ktime_t b)
{
	return a - b;
}

static inline ktime_t ktime_add_ns(ktime_t time, u64 ns)
{
	return time + ns;
}

static inline ktime_t ktime_add_us(ktime_t time, u64 us)
{
	return time + us * NSEC_PER_USEC;
}

static inline ktime_t ktime_add_ms(ktime_t time, u64 ms)
{
	return time + ms * NSEC_PER_MSEC;
}

static inline ktime_t ktime_add_safe(ktime_t a, ktime_t b)
{
	return a > KTIME_MAX - b ? KTIME_MAX : a + b;
}

static inline bool ktime_after(ktime_t a, ktime_t b)
{
	return a > b;
}

static inline bool ktime_before(ktime_t a, ktime_t b)
{
	return a < b;
}

#endif /* PROVE_SHIM_LINUX_KTIME_H */
