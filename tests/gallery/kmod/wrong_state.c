// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waker wakes only interruptible sleepers, and the waiter does not sleep
 * interruptibly.
 *
 *   waiter				waker
 *   sleeps uninterruptibly
 *					publish
 *					wake_up_interruptible
 *
 * Repaired: wake_up.
 */
#include "gallery.h"

static DECLARE_WAIT_QUEUE_HEAD(state_queue);

static int state_waiter(void)
{
	long patience = GALLERY_PATIENCE;
	DEFINE_WAIT(wait);
	int ret;

	for (;;) {
		prepare_to_wait(&state_queue, &wait, TASK_UNINTERRUPTIBLE);
		ret = gallery_consume() ? 1 : -ETIMEDOUT;
		if (ret == 1 || !patience)
			break;
		patience = schedule_timeout(patience);
	}
	finish_wait(&state_queue, &wait);
	return ret;
}

static int state_waker(void)
{
	unsigned long limit = jiffies + 2 * HZ;

	/* It is uninterruptible before it begins, too, but not on the queue. */
	while (!waitqueue_active(&state_queue))
		if (gallery_too_late(limit))
			return -ETIMEDOUT;
	gallery_await_state(WAITER, TASK_UNINTERRUPTIBLE);
	gallery_publish();
	if (gallery_fixed)
		wake_up(&state_queue);
	else
		wake_up_interruptible(&state_queue);
	return 0;
}

const struct gallery_entry gallery_wrong_state = {
	.name = "wrong-state",
	.roles = {
		[WAITER] = { "waiter", state_waiter },
		[WAKER] = { "waker", state_waker },
	},
};
