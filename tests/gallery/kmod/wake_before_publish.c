// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waker wakes, and only then publishes. The waiter is faster: it checks,
 * finds nothing and sleeps again before the item is published.
 *
 *   waiter				waker
 *   sleeps
 *					wake
 *   nothing there?
 *   sleeps
 *					publish
 *
 * Repaired: publish, wake.
 */
#include "gallery.h"

enum { LOOKED_AGAIN = 1 };

static DECLARE_WAIT_QUEUE_HEAD(early_queue);

static int early_waiter(void)
{
	long patience = GALLERY_PATIENCE;
	DEFINE_WAIT(wait);
	int looks = 0;

	for (;;) {
		prepare_to_wait(&early_queue, &wait, TASK_INTERRUPTIBLE);
		if (gallery_ready() || !patience)
			break;
		if (looks++)
			gallery_reach(LOOKED_AGAIN);
		patience = gallery_sleep(patience);
	}
	finish_wait(&early_queue, &wait);
	return patience && gallery_consume() ? 1 : -ETIMEDOUT;
}

static int early_waker(void)
{
	gallery_await_asleep(WAITER);
	if (gallery_fixed)
		gallery_publish();
	wake_up(&early_queue);
	if (gallery_fixed)
		return 0;
	gallery_await(LOOKED_AGAIN);
	gallery_await_asleep(WAITER);
	gallery_publish();
	return 0;
}

const struct gallery_entry gallery_wake_before_publish = {
	.name = "wake-before-publish",
	.roles = {
		[WAITER] = { "waiter", early_waiter },
		[WAKER] = { "waker", early_waker },
	},
	.race = true,
};
