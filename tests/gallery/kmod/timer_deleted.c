// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A delayed work item is pending. Another thread deletes its timer and does not
 * cancel the item, which therefore never runs and cannot be queued again.
 *
 *   waiter				waker
 *   queue the delayed item
 *					delete its timer
 *
 * Repaired: cancel the item.
 */
#include <linux/workqueue.h>

#include "gallery.h"

enum { ARMED = 1, RAN };

static void deleted_item(struct work_struct *unused)
{
	gallery_reach(RAN);
}

static DECLARE_DELAYED_WORK(deleted_work, deleted_item);

static int deleted_waiter(void)
{
	schedule_delayed_work(&deleted_work, 4 * GALLERY_PATIENCE);
	gallery_reach(ARMED);
	return 0;
}

static int deleted_waker(void)
{
	gallery_await(ARMED);
	if (gallery_fixed) {
		cancel_delayed_work_sync(&deleted_work);
		return 0;
	}
	timer_delete_sync(&deleted_work.timer);
	schedule_timeout_uninterruptible(2 * GALLERY_PATIENCE);
	gallery_judge();
	/* The item must not stay pending after this run. */
	mod_timer(&deleted_work.timer, jiffies + 1);
	gallery_await(RAN);
	flush_delayed_work(&deleted_work);
	return 0;
}

const struct gallery_entry gallery_timer_deleted = {
	.name = "timer-deleted",
	.roles = {
		[WAITER] = { "waiter", deleted_waiter },
		[WAKER] = { "waker", deleted_waker },
	},
};
