// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waiter checks, and only then enqueues. A wake-up between the two finds an
 * empty queue, and the waiter does not check again.
 *
 *   waiter				waker
 *   nothing there?
 *					publish, wake: the queue is empty
 *   enqueue, sleep
 *
 * Repaired: enqueue, check, sleep.
 */
#include "gallery.h"

enum { LOOKED = 1, WOKEN };

static DECLARE_WAIT_QUEUE_HEAD(check_queue);

static int check_waiter(void)
{
	DEFINE_WAIT(wait);

	if (gallery_consume())
		return 1;
	gallery_reach(LOOKED);
	gallery_await(WOKEN);
	if (gallery_fixed)
		return gallery_wait(&check_queue, false, GALLERY_PATIENCE);
	prepare_to_wait(&check_queue, &wait, TASK_INTERRUPTIBLE);
	gallery_sleep(GALLERY_PATIENCE);
	finish_wait(&check_queue, &wait);
	return -ETIMEDOUT;
}

static int check_waker(void)
{
	gallery_await(LOOKED);
	gallery_publish();
	wake_up(&check_queue);
	gallery_reach(WOKEN);
	return 0;
}

const struct gallery_entry gallery_check_then_enqueue = {
	.name = "check-then-enqueue",
	.roles = {
		[WAITER] = { "waiter", check_waiter },
		[WAKER] = { "waker", check_waker },
	},
	.race = true,
};
