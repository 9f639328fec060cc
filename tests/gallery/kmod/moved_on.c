// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * There are two stocks of tags, each with its queue. An exclusive waiter is woken for
 * a tag, but needs the other stock now and waits there. The wake-up is lost for the
 * next thread on the first queue.
 *
 *   waiter		waiter-2		waker
 *   sleeps on tag_queue
 *			sleeps on tag_queue
 *						publish, wake one: waiter
 *   sleeps on other_tag_queue
 *			sleeps on
 *
 * Repaired: a waiter that changes queues wakes the next one on the old queue.
 *
 * Upstream: e6fc46498784 ("blk-mq: avoid starving tag allocation after allocating
 * process migrates"). The stocks belong to hardware queues; a thread uses that of its
 * CPU, and may run on another CPU once it is woken.
 */
#include "gallery.h"

static DECLARE_WAIT_QUEUE_HEAD(tag_queue);
static DECLARE_WAIT_QUEUE_HEAD(other_tag_queue);

/* No tag of the other stock is returned: this wait ends with its timeout. */
static int other_tag_wait(void)
{
	DEFINE_WAIT(wait);

	prepare_to_wait_exclusive(&other_tag_queue, &wait, TASK_INTERRUPTIBLE);
	schedule_timeout(GALLERY_PATIENCE);
	finish_wait(&other_tag_queue, &wait);
	return -ETIMEDOUT;
}

static int tag_waiter(void)
{
	DEFINE_WAIT(wait);

	prepare_to_wait_exclusive(&tag_queue, &wait, TASK_INTERRUPTIBLE);
	if (!gallery_ready())
		schedule_timeout(GALLERY_PATIENCE);
	finish_wait(&tag_queue, &wait);
	if (gallery_fixed)
		wake_up(&tag_queue);
	return other_tag_wait();
}

static int tag_waiter_2(void)
{
	gallery_await_asleep(WAITER);
	return gallery_wait(&tag_queue, true, GALLERY_PATIENCE);
}

static int tag_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_await_asleep(WAITER_2);
	gallery_publish();
	wake_up(&tag_queue);
	return 0;
}

const struct gallery_entry gallery_moved_on = {
	.name = "moved-on",
	.roles = {
		[WAITER] = { "waiter", tag_waiter },
		[WAKER] = { "waker", tag_waker },
		[WAITER_2] = { "waiter-2", tag_waiter_2 },
	},
};
