// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waker calls waitqueue_active() without a barrier after its store. Its load
 * may happen before the store is visible; so may the waiter's load.
 *
 *   waiter				waker
 *					no sleepers  (load, too early)
 *   enqueue
 *   nothing there?  (load)
 *   sleep
 *					publish  (store, seen too late)
 *					no wake
 *
 * No test can force a CPU to reorder, so the source has the order that the CPU
 * may choose: the load stands before the store.
 *
 * Repaired: wq_has_sleeper(), which has the barrier, after the store.
 */
#include "gallery.h"

enum { ASKED = 1 };

static DECLARE_WAIT_QUEUE_HEAD(active_queue);

static int active_waiter(void)
{
	gallery_await(ASKED);
	return gallery_wait(&active_queue, false, GALLERY_PATIENCE);
}

static int active_waker(void)
{
	bool active;

	/* A barrier would not help here: this load is before the store. */
	active = !gallery_fixed && waitqueue_active(&active_queue);
	gallery_reach(ASKED);
	gallery_await_asleep(WAITER);
	gallery_publish();
	if (gallery_fixed)
		active = wq_has_sleeper(&active_queue);
	if (active)
		wake_up(&active_queue);
	return 0;
}

const struct gallery_entry gallery_waitqueue_active = {
	.name = "waitqueue-active",
	.roles = {
		[WAITER] = { "waiter", active_waiter },
		[WAKER] = { "waker", active_waker },
	},
	.race = true,
};
