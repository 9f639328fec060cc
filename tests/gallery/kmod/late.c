// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waker leaves the wake-up to a delayed work item, to combine several. The
 * only waiter sleeps although its item is there.
 *
 *   waiter			waker			work item
 *   sleeps
 *				publish
 *							(0.75 s later) wake
 *
 * Repaired: wake at once.
 */
#include <linux/workqueue.h>

#include "gallery.h"

enum { WOKEN = 1 };

static DECLARE_WAIT_QUEUE_HEAD(late_queue);

static void late_work(struct work_struct *unused)
{
	wake_up(&late_queue);
	gallery_reach(WOKEN);
}

static DECLARE_DELAYED_WORK(late_later, late_work);

static int late_waiter(void)
{
	return gallery_wait(&late_queue, false, 8 * GALLERY_PATIENCE);
}

/* Waits for the work item, which must not outlive this run or the module. */
static int late_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_publish();
	if (gallery_fixed) {
		wake_up(&late_queue);
		return 0;
	}
	schedule_delayed_work(&late_later, 3 * GALLERY_PATIENCE);
	gallery_await(WOKEN);
	flush_delayed_work(&late_later);
	return 0;
}

const struct gallery_entry gallery_late = {
	.name = "late",
	.roles = {
		[WAITER] = { "waiter", late_waiter },
		[WAKER] = { "waker", late_waker },
	},
};
