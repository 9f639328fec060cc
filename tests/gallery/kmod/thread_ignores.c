// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A thread is asked to stop, or to park, and does not look at that: it sleeps for
 * an order. The waiter, which asked, sleeps until the thread has done so.
 *
 *   waiter				target
 *					sleeps for an order
 *   kthread_stop / kthread_park
 *   sleeps
 *
 * Repaired: the thread sleeps for an order, or until it should stop or park.
 */
#include <linux/kthread.h>

#include "gallery.h"

enum { TARGET_RUNS = 1, ASKS };

static DECLARE_WAIT_QUEUE_HEAD(order_queue);
static bool ordered;

static bool target_asked(void)
{
	return kthread_should_stop() || kthread_should_park();
}

static int target(void *unused)
{
	gallery_reach(TARGET_RUNS);
	wait_event_timeout(order_queue,
			   READ_ONCE(ordered) ||
			   (gallery_fixed && target_asked()),
			   8 * GALLERY_PATIENCE);
	while (!kthread_should_stop()) {
		if (kthread_should_park())
			kthread_parkme();
		schedule_timeout_uninterruptible(1);
	}
	return 0;
}

static struct task_struct *target_start(void)
{
	struct task_struct *task;

	WRITE_ONCE(ordered, false);
	task = kthread_run(target, NULL, "target");
	if (!IS_ERR(task))
		gallery_await(TARGET_RUNS);
	gallery_reach(ASKS);
	return task;
}

static int stop_waiter(void)
{
	struct task_struct *task = target_start();

	return IS_ERR(task) ? PTR_ERR(task) : kthread_stop(task);
}

static int park_waiter(void)
{
	struct task_struct *task = target_start();

	if (IS_ERR(task))
		return PTR_ERR(task);
	kthread_park(task);
	kthread_unpark(task);
	return kthread_stop(task);
}

static int ignored_judge(void)
{
	gallery_await(ASKS);
	schedule_timeout_uninterruptible(2 * GALLERY_PATIENCE);
	gallery_judge();
	WRITE_ONCE(ordered, true);
	wake_up(&order_queue);
	return 0;
}

const struct gallery_entry gallery_stop_ignored = {
	.name = "stop-ignored",
	.roles = {
		[WAITER] = { "waiter", stop_waiter },
		[WAKER] = { "judge", ignored_judge },
	},
};

const struct gallery_entry gallery_park_ignored = {
	.name = "park-ignored",
	.roles = {
		[WAITER] = { "waiter", park_waiter },
		[WAKER] = { "judge", ignored_judge },
	},
};
