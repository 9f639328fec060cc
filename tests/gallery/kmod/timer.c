// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * As check-then-enqueue, but a timer fires between check and sleep: it publishes
 * and wakes in a softirq, in the context of an unrelated thread.
 *
 *   waiter				timer
 *   nothing there?
 *					publish, wake: the queue is empty
 *   enqueue, sleep
 *
 * Repaired: enqueue, check, sleep.
 */
#include <linux/timer.h>

#include "gallery.h"

enum { LOOKED = 1, WOKEN };

static DECLARE_WAIT_QUEUE_HEAD(timer_queue);

static void timer_fires(struct timer_list *unused)
{
	gallery_publish();
	wake_up(&timer_queue);
	gallery_reach(WOKEN);
}

static DEFINE_TIMER(timer_soon, timer_fires);

static int timer_waiter(void)
{
	DEFINE_WAIT(wait);

	if (gallery_consume())
		return 1;
	gallery_reach(LOOKED);
	gallery_await(WOKEN);
	if (gallery_fixed)
		return gallery_wait(&timer_queue, false, GALLERY_PATIENCE);
	prepare_to_wait(&timer_queue, &wait, TASK_INTERRUPTIBLE);
	gallery_sleep(GALLERY_PATIENCE);
	finish_wait(&timer_queue, &wait);
	return -ETIMEDOUT;
}

/* Waits for the timer, which must not outlive this run or the module. */
static int timer_starter(void)
{
	gallery_await(LOOKED);
	mod_timer(&timer_soon, jiffies + 1);
	gallery_follow(WOKEN);
	timer_delete_sync(&timer_soon);
	return 0;
}

const struct gallery_entry gallery_timer = {
	.name = "timer",
	.roles = {
		[WAITER] = { "waiter", timer_waiter },
		[WAKER] = { "starter", timer_starter },
	},
	.race = true,
};
