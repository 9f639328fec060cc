// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Threads wait while the space in use is over a limit. The waker takes the level for
 * the question whether a thread waits. But the level has fallen in the meantime, and
 * a fall alone wakes no thread.
 *
 *   waiter				waker
 *   over the limit: sleeps
 *					space shrinks below the limit
 *					publish (a new start with no space in use)
 *					not over the limit: no wake
 *
 * Repaired: look at the queue, under the lock that the waiter enqueues under.
 *
 * Upstream: 19f4e7cc8197 ("xfs: Fix CIL throttle hang when CIL space used going
 * backwards"). The space is that of the log's current checkpoint. A push starts the
 * next checkpoint, and let the waiting transactions go on only if the old one was
 * over its limit.
 */
#include <linux/spinlock.h>

#include "gallery.h"

#define LIMIT	8

static DECLARE_WAIT_QUEUE_HEAD(throttle_queue);
static DEFINE_SPINLOCK(throttle_lock);
static int space;	/* protected by throttle_lock */

/* Goes over the limit. */
static int throttle_waiter(void)
{
	DEFINE_WAIT(wait);
	long left;

	spin_lock(&throttle_lock);
	space = LIMIT + 1;
	prepare_to_wait(&throttle_queue, &wait, TASK_INTERRUPTIBLE);
	spin_unlock(&throttle_lock);
	left = schedule_timeout(GALLERY_PATIENCE);
	finish_wait(&throttle_queue, &wait);
	return left && gallery_consume() ? 1 : -ETIMEDOUT;
}

static int throttle_waker(void)
{
	bool wake;

	gallery_await_asleep(WAITER);
	spin_lock(&throttle_lock);
	space -= 2;
	spin_unlock(&throttle_lock);
	spin_lock(&throttle_lock);
	gallery_publish();
	wake = space > LIMIT;
	if (gallery_fixed)
		wake = waitqueue_active(&throttle_queue); /* under the waiter's lock */
	space = 0;
	if (wake)
		wake_up_all(&throttle_queue);
	spin_unlock(&throttle_lock);
	return 0;
}

const struct gallery_entry gallery_throttle = {
	.name = "throttle",
	.roles = {
		[WAITER] = { "waiter", throttle_waiter },
		[WAKER] = { "waker", throttle_waker },
	},
};
