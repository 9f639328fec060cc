// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waker wakes although nothing was published, "to be on the safe side". The
 * waiter checks and goes back to sleep.
 *
 *   waiter				waker
 *   sleeps
 *					wake
 *   nothing there; sleeps
 *
 * Repaired: wake only after a publication.
 */
#include "gallery.h"

static DECLARE_WAIT_QUEUE_HEAD(idle_queue);

static int spurious_waiter(void)
{
	return gallery_wait(&idle_queue, false, GALLERY_PATIENCE);
}

static int spurious_waker(void)
{
	gallery_await_asleep(WAITER);
	if (gallery_fixed)
		gallery_publish();
	wake_up(&idle_queue);
	return 0;
}

const struct gallery_entry gallery_spurious = {
	.name = "spurious",
	.roles = {
		[WAITER] = { "waiter", spurious_waiter },
		[WAKER] = { "waker", spurious_waker },
	},
};
