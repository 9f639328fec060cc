// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * One wake-up is sent for a batch of items. The batch becomes smaller, but the count
 * of items that are still missing keeps its old value: the item that completes the
 * new batch wakes no thread.
 *
 *   waiter				waker
 *   sleeps
 *					batch of 1 instead of 4; 4 are missing
 *					publish; 3 are missing: no wake
 *
 * Repaired: a change of the batch starts the count anew.
 *
 * Upstream: 6c0ca7ae292a ("sbitmap: fix wakeup hang after sbq resize"). The items are
 * freed bits. The resize limited the batch to the number of bits that can be in use,
 * so that the rest of the old batch could never come.
 */
#include "gallery.h"

#define OLD_BATCH	4
#define NEW_BATCH	1

static DECLARE_WAIT_QUEUE_HEAD(batch_queue);
static int batch, missing;

static int batch_waiter(void)
{
	return gallery_wait(&batch_queue, true, GALLERY_PATIENCE);
}

static void batch_release(void)
{
	gallery_publish();
	if (--missing > 0)
		return;
	missing = batch;
	wake_up_nr(&batch_queue, batch);
}

static int batch_waker(void)
{
	missing = OLD_BATCH;
	gallery_await_asleep(WAITER);
	batch = NEW_BATCH;
	if (gallery_fixed)
		missing = NEW_BATCH;
	batch_release();
	return 0;
}

const struct gallery_entry gallery_stale_batch = {
	.name = "stale-batch",
	.roles = {
		[WAITER] = { "waiter", batch_waiter },
		[WAKER] = { "waker", batch_waker },
	},
};
