// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A thread waits for any event, and enqueues on two queues, one after the other. The
 * second prepare_to_wait() sets its state again, after a wake-up through the first
 * queue has ended its wait.
 *
 *   waiter				waker
 *   nothing there?
 *   enqueue on data_queue
 *					publish, wake data_queue: waiter
 *   enqueue on room_queue: about to
 *   sleep again
 *   sleep
 *
 * Repaired: enqueue on both, check, sleep.
 *
 * Upstream: 472e5b056f00 ("pipe: remove pipe_wait() and fix wakeup race with
 * splice"). pipe_wait() enqueued for readers and for writers, after its caller's
 * check; it was safe as long as there was one queue for both. The fix replaced it by
 * waits on one queue each, with the check after the enqueuing.
 */
#include "gallery.h"

enum { ENQUEUED = 1, WOKEN };

static DECLARE_WAIT_QUEUE_HEAD(data_queue);
static DECLARE_WAIT_QUEUE_HEAD(room_queue);

static int second_queue_waiter(void)
{
	long left = GALLERY_PATIENCE;
	DEFINE_WAIT(data);
	DEFINE_WAIT(room);

	if (gallery_consume())
		return 1;
	prepare_to_wait(&data_queue, &data, TASK_INTERRUPTIBLE);
	gallery_reach(ENQUEUED);
	gallery_await(WOKEN);
	prepare_to_wait(&room_queue, &room, TASK_INTERRUPTIBLE);
	if (!gallery_fixed || !gallery_ready())
		left = gallery_sleep(left);
	finish_wait(&data_queue, &data);
	finish_wait(&room_queue, &room);
	return left && gallery_consume() ? 1 : -ETIMEDOUT;
}

static int second_queue_waker(void)
{
	gallery_await(ENQUEUED);
	gallery_publish();
	wake_up(&data_queue);
	gallery_reach(WOKEN);
	return 0;
}

const struct gallery_entry gallery_second_queue = {
	.name = "second-queue",
	.roles = {
		[WAITER] = { "waiter", second_queue_waiter },
		[WAKER] = { "waker", second_queue_waker },
	},
	.race = true,
};
