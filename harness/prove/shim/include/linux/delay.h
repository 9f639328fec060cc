/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_DELAY_H
#define PROVE_SHIM_LINUX_DELAY_H

#include <linux/sched.h>

/* Time of itself orders nothing: a pause is a step before which others may run. */
void shim_pause(const char *what);

#define usleep_range(min, max)	shim_pause("usleep_range()")
#define msleep(ms)		shim_pause("msleep()")
#define udelay(us)		yield()
#define ndelay(ns)		yield()
#define mdelay(ms)		yield()

#endif /* PROVE_SHIM_LINUX_DELAY_H */
