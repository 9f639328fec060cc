// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A handler is called for one item and then has to be armed again. The waiter
 * takes the item and sleeps without arming the handler.
 *
 *   waiter				waker
 *   arm, sleep
 *					publish; armed: disarm, wake
 *   takes it
 *   sleep
 *					publish; not armed
 *
 * Repaired: arm, check, sleep.
 */
#include "gallery.h"

enum { TOOK = 1 };

static DECLARE_WAIT_QUEUE_HEAD(handler_queue);
static atomic_t armed;

/* Like a device's completion handler: called once for each arming. */
static void handler_notify(void)
{
	gallery_publish();
	if (atomic_xchg(&armed, 0))
		wake_up(&handler_queue);
}

static int handler_waiter(void)
{
	int ret;

	atomic_set(&armed, 1);
	ret = gallery_wait(&handler_queue, false, GALLERY_PATIENCE);
	if (ret != 1)
		return ret;
	if (gallery_fixed)
		atomic_set(&armed, 1);
	gallery_reach(TOOK);
	return gallery_wait(&handler_queue, false, GALLERY_PATIENCE);
}

static int handler_waker(void)
{
	gallery_await_asleep(WAITER);
	handler_notify();
	gallery_await(TOOK);
	gallery_await_asleep(WAITER);
	handler_notify();
	return 0;
}

const struct gallery_entry gallery_not_rearmed = {
	.name = "not-rearmed",
	.roles = {
		[WAITER] = { "waiter", handler_waiter },
		[WAKER] = { "waker", handler_waker },
	},
};
