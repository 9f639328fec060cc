// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * An exclusive waiter is woken for an item, but when it runs, its deadline has
 * passed. It leaves with -ETIMEDOUT, and the only wake-up is lost.
 *
 *   waiter		waiter-2		waker
 *   sleeps		sleeps
 *						publish, wake one: waiter
 *   woken
 *   its deadline passes
 *   leaves: -ETIMEDOUT
 *			sleeps on
 *
 * Repaired: a waiter that leaves without the item wakes the next one.
 */
#include "gallery.h"

static DECLARE_WAIT_QUEUE_HEAD(deadline_queue);

static int deadline_waiter(void)
{
	unsigned long deadline = jiffies + GALLERY_PATIENCE;
	DEFINE_WAIT(wait);

	prepare_to_wait_exclusive(&deadline_queue, &wait, TASK_INTERRUPTIBLE);
	schedule_timeout(GALLERY_PATIENCE);
	while (time_before(jiffies, deadline))
		cond_resched();
	finish_wait(&deadline_queue, &wait);
	if (gallery_fixed)
		wake_up(&deadline_queue);
	return -ETIMEDOUT;
}

static int deadline_waiter_2(void)
{
	gallery_await_asleep(WAITER);
	return gallery_wait(&deadline_queue, true, 2 * GALLERY_PATIENCE);
}

static int deadline_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_await_asleep(WAITER_2);
	gallery_publish();
	wake_up(&deadline_queue);
	return 0;
}

const struct gallery_entry gallery_baton_timeout = {
	.name = "baton-timeout",
	.roles = {
		[WAITER] = { "waiter", deadline_waiter },
		[WAKER] = { "waker", deadline_waker },
		[WAITER_2] = { "waiter-2", deadline_waiter_2 },
	},
};
