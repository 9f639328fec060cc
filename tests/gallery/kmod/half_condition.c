// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A thread waits until its own stock has an item and the number in use in all stocks
 * is low. Each stock has its queue. The second half of the condition becomes true with
 * an item of another stock, which wakes that stock's queue.
 *
 *   waiter				waker
 *   sleeps on own_queue
 *					publish, wake own_queue
 *   too many in use; sleeps
 *					publish, wake other_queue: it is empty
 *
 * Repaired: one queue, since the condition is about all stocks.
 *
 * Upstream: 6ab2a4b806ae ("RAID5: revert e9e4c377e2f563 to fix a livelock"). The stocks
 * are the inactive stripes by hash value. A thread waited on the queue of its hash
 * value, also for the number of active stripes of all values.
 */
#include "gallery.h"

#define MANY	2

static DECLARE_WAIT_QUEUE_HEAD(own_queue);
static DECLARE_WAIT_QUEUE_HEAD(other_queue);
static atomic_t in_use;

static int half_waiter(void)
{
	long patience = GALLERY_PATIENCE;
	DEFINE_WAIT(wait);
	bool took = false;

	atomic_set(&in_use, MANY);
	while (patience) {
		prepare_to_wait(&own_queue, &wait, TASK_INTERRUPTIBLE);
		took = !atomic_read(&in_use) && gallery_consume();
		if (took)
			break;
		patience = schedule_timeout(patience);
	}
	finish_wait(&own_queue, &wait);
	return took ? 1 : -ETIMEDOUT;
}

static void half_release(struct wait_queue_head *queue)
{
	gallery_publish();
	atomic_dec(&in_use);
	wake_up(queue);
}

static int half_waker(void)
{
	gallery_await_asleep(WAITER);
	half_release(&own_queue);
	gallery_await_asleep(WAITER);
	half_release(gallery_fixed ? &own_queue : &other_queue);
	return 0;
}

const struct gallery_entry gallery_half_condition = {
	.name = "half-condition",
	.roles = {
		[WAITER] = { "waiter", half_waiter },
		[WAKER] = { "waker", half_waker },
	},
};
