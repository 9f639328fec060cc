// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Two threads sleep exclusively on one queue for different conditions: the
 * waiter for an item, waiter-2 in front of it for the end of the run. wake_up()
 * wakes the first exclusive waiter, which goes back to sleep.
 *
 *   waiter-2		waiter			waker
 *   sleeps for the end
 *			sleeps for an item
 *						publish, wake one: waiter-2
 *   not the end; sleeps
 *
 * Repaired: a queue for each condition. (Waiting without exclusive entries would
 * also work, and wake both each time.)
 */
#include "gallery.h"

static DECLARE_WAIT_QUEUE_HEAD(mixed_queue);
static DECLARE_WAIT_QUEUE_HEAD(end_queue);

static int mix_up_waiter(void)
{
	gallery_await_asleep(WAITER_2);
	return gallery_wait(&mixed_queue, true, GALLERY_PATIENCE);
}

/* The end is never published: this wait ends with its timeout, as it should. */
static int mix_up_waiter_2(void)
{
	struct wait_queue_head *queue = gallery_fixed ? &end_queue :
							&mixed_queue;
	long patience = 2 * GALLERY_PATIENCE;
	DEFINE_WAIT(wait);

	while (patience) {
		prepare_to_wait_exclusive(queue, &wait, TASK_INTERRUPTIBLE);
		patience = schedule_timeout(patience);
	}
	finish_wait(queue, &wait);
	return -ETIMEDOUT;
}

static int mix_up_waker(void)
{
	gallery_await_asleep(WAITER_2);
	gallery_await_asleep(WAITER);
	gallery_publish();
	wake_up(&mixed_queue);
	return 0;
}

const struct gallery_entry gallery_mix_up = {
	.name = "mix-up",
	.roles = {
		[WAITER] = { "waiter", mix_up_waiter },
		[WAKER] = { "waker", mix_up_waker },
		[WAITER_2] = { "waiter-2", mix_up_waiter_2 },
	},
};
