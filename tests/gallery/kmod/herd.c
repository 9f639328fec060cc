// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Three workers sleep on one queue, not exclusively: each item wakes all of
 * them, and two find nothing.
 *
 *   waiter		waiter-2, waiter-3	waker
 *   sleeps		sleep
 *						publish, wake: all three
 *   takes it
 *			nothing there; sleep
 *
 * Repaired: sleep exclusively.
 */
#include "gallery.h"

static DECLARE_WAIT_QUEUE_HEAD(herd_queue);

static int herd_waiter(void)
{
	return gallery_wait(&herd_queue, gallery_fixed, GALLERY_PATIENCE);
}

static int herd_waiter_2(void)
{
	gallery_await_asleep(WAITER);
	return herd_waiter();
}

static int herd_waiter_3(void)
{
	gallery_await_asleep(WAITER);
	gallery_await_asleep(WAITER_2);
	return herd_waiter();
}

static int herd_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_await_asleep(WAITER_2);
	gallery_await_asleep(WAITER_3);
	gallery_publish();
	wake_up(&herd_queue);
	return 0;
}

const struct gallery_entry gallery_herd = {
	.name = "herd",
	.roles = {
		[WAITER] = { "waiter", herd_waiter },
		[WAKER] = { "waker", herd_waker },
		[WAITER_2] = { "waiter-2", herd_waiter_2 },
		[WAITER_3] = { "waiter-3", herd_waiter_3 },
	},
};
