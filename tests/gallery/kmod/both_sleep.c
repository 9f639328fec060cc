// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Two threads look for a token, find none, and enqueue. Each then sleeps without a
 * second look if it is not alone on the queue: another thread sleeps there, so a
 * wake-up is due. But the token came before both enqueued.
 *
 *   waiter		waiter-2		waker
 *   no token
 *			no token
 *						publish, wake: the queue is empty
 *   enqueue
 *			enqueue
 *   not alone: sleep
 *			not alone: sleep
 *
 * Repaired: the thread that enqueues on an empty queue looks again.
 *
 * Upstream: 11c7aa0ddea8 ("rq-qos: fix missed wake-ups in rq_qos_throttle try two").
 * The token stands for a place among the requests in flight. rq_qos_wait() asked
 * wq_has_single_sleeper(), whose answer may change after the enqueuing; since then
 * prepare_to_wait_exclusive() returns whether the queue was empty.
 */
#include "gallery.h"

enum { LOOKED = 1, LOOKED_2, RELEASED, QUEUED, QUEUED_2, SLEEPS };

static DECLARE_WAIT_QUEUE_HEAD(token_queue);

/* The end of a request wakes the next thread. */
static int token_return(void)
{
	gallery_publish();
	wake_up(&token_queue);
	return 1;
}

static int token_wait(int looked, int queued, int sleeps)
{
	DEFINE_WAIT(wait);
	bool look, took;

	gallery_await(looked - 1);
	if (gallery_consume())
		return 1;
	gallery_reach(looked);
	gallery_await(queued - 1);
	look = prepare_to_wait_exclusive(&token_queue, &wait,
					 TASK_INTERRUPTIBLE);
	gallery_reach(queued);
	gallery_await(sleeps);
	/* Of two sleepers the verdict names the first. */
	if (sleeps == SLEEPS && !gallery_fixed)
		gallery_await_asleep(WAITER);
	if (!gallery_fixed)
		look = wq_has_single_sleeper(&token_queue);
	took = look && gallery_consume();
	gallery_reach(SLEEPS);
	if (!took && gallery_sleep(GALLERY_PATIENCE))
		took = gallery_consume();
	finish_wait(&token_queue, &wait);
	return took ? token_return() : -ETIMEDOUT;
}

static int token_waiter(void)
{
	return token_wait(LOOKED, QUEUED, QUEUED_2);
}

static int token_waiter_2(void)
{
	return token_wait(LOOKED_2, QUEUED_2, SLEEPS);
}

static int token_waker(void)
{
	gallery_await(LOOKED_2);
	gallery_publish();
	wake_up(&token_queue);
	gallery_reach(RELEASED);
	return 0;
}

const struct gallery_entry gallery_both_sleep = {
	.name = "both-sleep",
	.roles = {
		[WAITER] = { "waiter", token_waiter },
		[WAKER] = { "waker", token_waker },
		[WAITER_2] = { "waiter-2", token_waiter_2 },
	},
	.race = true,
};
