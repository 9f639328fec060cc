// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Two items are published with one wake-up. It removes one exclusive waiter from
 * the queue; the other one sleeps although the second item is there.
 *
 *   waiter		waiter-2		waker
 *   sleeps		sleeps
 *						publish, publish
 *						wake one: waiter
 *   takes the first
 *			sleeps on
 *
 * Repaired: as many wake-ups as items.
 */
#include "gallery.h"

static DECLARE_WAIT_QUEUE_HEAD(pair_queue);

static int pair_waiter(void)
{
	return gallery_wait(&pair_queue, true, GALLERY_PATIENCE);
}

static int pair_waiter_2(void)
{
	gallery_await_asleep(WAITER);
	return gallery_wait(&pair_queue, true, GALLERY_PATIENCE);
}

static int pair_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_await_asleep(WAITER_2);
	gallery_publish();
	gallery_publish();
	wake_up_nr(&pair_queue, gallery_fixed ? 2 : 1);
	return 0;
}

const struct gallery_entry gallery_one_wake_for_two = {
	.name = "one-wake-for-two",
	.roles = {
		[WAITER] = { "waiter", pair_waiter },
		[WAKER] = { "waker", pair_waker },
		[WAITER_2] = { "waiter-2", pair_waiter_2 },
	},
};
