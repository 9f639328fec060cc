// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * As wrong-queue, but another thread sleeps on the other queue: it is woken, finds
 * nothing and goes back to sleep, and the waiter is not woken.
 *
 *   waiter		waiter-2		waker
 *   sleeps on read_queue
 *			sleeps on write_queue
 *						publish, wake write_queue
 *			not for it; sleeps
 *
 * Repaired: wake the queue that belongs to the publication.
 */
#include "gallery.h"

static DECLARE_WAIT_QUEUE_HEAD(read_queue);
static DECLARE_WAIT_QUEUE_HEAD(write_queue);

static int wrong_waiter_waiter(void)
{
	return gallery_wait(&read_queue, false, GALLERY_PATIENCE);
}

/* Its condition never becomes true: the wait ends with its timeout. */
static int wrong_waiter_waiter_2(void)
{
	long patience = 2 * GALLERY_PATIENCE;
	DEFINE_WAIT(wait);

	while (patience) {
		prepare_to_wait(&write_queue, &wait, TASK_INTERRUPTIBLE);
		patience = schedule_timeout(patience);
	}
	finish_wait(&write_queue, &wait);
	return -ETIMEDOUT;
}

static int wrong_waiter_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_await_asleep(WAITER_2);
	gallery_publish();
	wake_up(gallery_fixed ? &read_queue : &write_queue);
	return 0;
}

const struct gallery_entry gallery_wrong_waiter = {
	.name = "wrong-waiter",
	.roles = {
		[WAITER] = { "waiter", wrong_waiter_waiter },
		[WAKER] = { "waker", wrong_waiter_waker },
		[WAITER_2] = { "waiter-2", wrong_waiter_waiter_2 },
	},
};
