// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waiter polls, arms the handler and sleeps without checking for a missed
 * item: as with ib_req_notify_cq() without IB_CQ_REPORT_MISSED_EVENTS and
 * without a second poll.
 *
 *   waiter				waker
 *   nothing there?
 *					publish; not armed
 *   arm, sleep
 *
 * Repaired: arm, poll again, sleep.
 */
#include "gallery.h"

enum { POLLED = 1, PUBLISHED };

static DECLARE_WAIT_QUEUE_HEAD(notify_queue);
static atomic_t notify_armed;

static int notify_waiter(void)
{
	DEFINE_WAIT(wait);
	int left = 1;

	atomic_set(&notify_armed, 0);
	if (gallery_consume())
		return 1;
	gallery_reach(POLLED);
	gallery_await(PUBLISHED);
	prepare_to_wait(&notify_queue, &wait, TASK_INTERRUPTIBLE);
	/* With a barrier: armed before the second poll. */
	atomic_xchg(&notify_armed, 1);
	if (!gallery_fixed || !gallery_ready())
		left = gallery_sleep(GALLERY_PATIENCE);
	finish_wait(&notify_queue, &wait);
	return left && gallery_consume() ? 1 : -ETIMEDOUT;
}

static int notify_waker(void)
{
	gallery_await(POLLED);
	gallery_publish();
	if (atomic_xchg(&notify_armed, 0))
		wake_up(&notify_queue);
	gallery_reach(PUBLISHED);
	return 0;
}

const struct gallery_entry gallery_missed_report = {
	.name = "missed-report",
	.roles = {
		[WAITER] = { "waiter", notify_waiter },
		[WAKER] = { "waker", notify_waker },
	},
	.race = true,
};
