// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * As check-then-enqueue, but on a simple wait queue.
 *
 *   waiter				waker
 *   nothing there?
 *					publish, wake: the queue is empty
 *   enqueue, sleep
 *
 * Repaired: enqueue, check, sleep.
 */
#include <linux/swait.h>

#include "gallery.h"

enum { LOOKED = 1, WOKEN };

static DECLARE_SWAIT_QUEUE_HEAD(simple_queue);

static int swait_waiter(void)
{
	DECLARE_SWAITQUEUE(wait);

	if (gallery_consume())
		return 1;
	gallery_reach(LOOKED);
	gallery_await(WOKEN);
	if (gallery_fixed)
		return gallery_swait(&simple_queue, GALLERY_PATIENCE);
	prepare_to_swait_exclusive(&simple_queue, &wait, TASK_INTERRUPTIBLE);
	gallery_sleep(GALLERY_PATIENCE);
	finish_swait(&simple_queue, &wait);
	return -ETIMEDOUT;
}

static int swait_waker(void)
{
	gallery_await(LOOKED);
	gallery_publish();
	swake_up_one(&simple_queue);
	gallery_reach(WOKEN);
	return 0;
}

const struct gallery_entry gallery_swait_early = {
	.name = "swait-early",
	.roles = {
		[WAITER] = { "waiter", swait_waiter },
		[WAKER] = { "waker", swait_waker },
	},
	.race = true,
};
