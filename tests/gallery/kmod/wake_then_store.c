// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Publishing and waking are one function, which wakes first. The waiter is
 * faster: it checks, finds nothing and sleeps again before the item is stored.
 *
 *   waiter				waker: gallery_give()
 *   sleeps
 *					wake
 *   nothing there?
 *   sleeps
 *					store
 *
 * Repaired: store, wake.
 */
#include "gallery.h"

enum { LOOKED_AGAIN = 1 };

static DECLARE_WAIT_QUEUE_HEAD(hasty_queue);

static int hasty_waiter(void)
{
	long patience = GALLERY_PATIENCE;
	DEFINE_WAIT(wait);
	int looks = 0;

	for (;;) {
		prepare_to_wait(&hasty_queue, &wait, TASK_INTERRUPTIBLE);
		if (gallery_ready() || !patience)
			break;
		if (looks++)
			gallery_reach(LOOKED_AGAIN);
		patience = gallery_sleep(patience);
	}
	finish_wait(&hasty_queue, &wait);
	return patience && gallery_consume() ? 1 : -ETIMEDOUT;
}

/* Only a buggy run leaves the waiter time to look before the item is stored. */
noinline void gallery_give(struct wait_queue_head *queue)
{
	if (gallery_fixed) {
		gallery_store();
		wake_up(queue);
		return;
	}
	wake_up(queue);
	gallery_await(LOOKED_AGAIN);
	gallery_await_asleep(WAITER);
	gallery_store();
}

static int hasty_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_give(&hasty_queue);
	return 0;
}

const struct gallery_entry gallery_wake_then_store = {
	.name = "wake-then-store",
	.roles = {
		[WAITER] = { "waiter", hasty_waiter },
		[WAKER] = { "waker", hasty_waker },
	},
	.race = true,
};
