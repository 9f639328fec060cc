/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_JIFFIES_H
#define PROVE_SHIM_LINUX_JIFFIES_H

#include <linux/limits.h>
#include <linux/time64.h>
#include <linux/types.h>

#define HZ			250
#define TICK_NSEC		(NSEC_PER_SEC / HZ)
#define MAX_JIFFY_OFFSET	((LONG_MAX >> 1) - 1)

/* The exploration's time in ticks. */
unsigned long shim_jiffies(void);

#define jiffies			shim_jiffies()

static inline unsigned long msecs_to_jiffies(unsigned int ms)
{
	return ((u64)ms * HZ + MSEC_PER_SEC - 1) / MSEC_PER_SEC;
}

static inline unsigned int jiffies_to_msecs(unsigned long ticks)
{
	return ticks * (MSEC_PER_SEC / HZ);
}

static inline unsigned long usecs_to_jiffies(unsigned int us)
{
	return ((u64)us * HZ + USEC_PER_SEC - 1) / USEC_PER_SEC;
}

#define time_after(a, b)	((long)((b) - (a)) < 0)
#define time_before(a, b)	time_after(b, a)
#define time_after_eq(a, b)	((long)((a) - (b)) >= 0)
#define time_before_eq(a, b)	time_after_eq(b, a)

#endif /* PROVE_SHIM_LINUX_JIFFIES_H */
