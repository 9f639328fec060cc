// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The wake-up is correct and in time, but the waiter does not get its CPU: the
 * waker keeps it with preemption disabled.
 *
 *   waiter (CPU 0)			waker (CPU 0)
 *   sleeps
 *					publish, wake
 *   runnable				keeps running for 1.5 s
 *
 * Repaired: the waker runs on another CPU.
 */
#include <linux/preempt.h>

#include "gallery.h"

enum { BOUND = 1 };

static DECLARE_WAIT_QUEUE_HEAD(hogged_queue);

static int hogged_waiter(void)
{
	set_cpus_allowed_ptr(current, cpumask_of(0));
	gallery_reach(BOUND);
	return gallery_wait(&hogged_queue, false, 8 * GALLERY_PATIENCE);
}

static int hogged_waker(void)
{
	unsigned long until;

	gallery_await(BOUND);
	gallery_await_asleep(WAITER);
	set_cpus_allowed_ptr(current, cpumask_of(0));
	preempt_disable();
	gallery_publish();
	wake_up(&hogged_queue);
	until = jiffies + 6 * GALLERY_PATIENCE;
	while (!gallery_fixed && time_before(jiffies, until))
		cpu_relax();
	preempt_enable();
	return 0;
}

const struct gallery_entry gallery_never_ran = {
	.name = "never-ran",
	.roles = {
		[WAITER] = { "waiter", hogged_waiter },
		[WAKER] = { "waker", hogged_waker },
	},
};
