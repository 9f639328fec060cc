// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Waiters are spread over several queues. The waker chooses a queue that is not empty,
 * but the only thread on it has not slept yet: it looks again, takes an item and
 * leaves. The wake-up finds an empty queue, and a thread on another queue sleeps on.
 *
 *   waiter		waiter-2		waker
 *   sleeps on queue_b
 *			enqueues on queue_a
 *						publish, publish
 *						queue_a is not empty
 *			takes one, leaves
 *						wake two of queue_a: it is empty
 *
 * Repaired: a queue without a thread to wake is passed over, and the next one tried.
 *
 * Upstream: 26edb30dd1c0 ("sbitmap: Try each queue to wake up at least one waiter").
 * The items are a batch of freed bits.
 */
#include <linux/spinlock.h>

#include "gallery.h"

enum { ENQUEUED = 1, CHOSEN, LEFT };

#define BATCH	2

static DECLARE_WAIT_QUEUE_HEAD(queue_a);
static DECLARE_WAIT_QUEUE_HEAD(queue_b);

static int emptied_waiter(void)
{
	return gallery_wait(&queue_b, true, GALLERY_PATIENCE);
}

static int emptied_waiter_2(void)
{
	DEFINE_WAIT(wait);
	int ret;

	gallery_await_asleep(WAITER);
	prepare_to_wait_exclusive(&queue_a, &wait, TASK_INTERRUPTIBLE);
	gallery_reach(ENQUEUED);
	gallery_await(CHOSEN);
	ret = gallery_consume() ? 1 : -ETIMEDOUT;
	finish_wait(&queue_a, &wait);
	gallery_reach(LEFT);
	return ret;
}

/* Wakes one thread; false if there is none. */
static bool emptied_wake(struct wait_queue_head *queue)
{
	unsigned long flags;
	bool there;

	spin_lock_irqsave(&queue->lock, flags);
	/* Under the queue's lock. */
	there = waitqueue_active(queue);
	if (there)
		wake_up_locked(queue);
	spin_unlock_irqrestore(&queue->lock, flags);
	return there;
}

static int emptied_waker(void)
{
	struct wait_queue_head *chosen;

	gallery_await(ENQUEUED);
	gallery_publish();
	gallery_publish();
	/* A thread is there, and has been for long; whether it stays is open. */
	chosen = waitqueue_active(&queue_a) ? &queue_a : &queue_b;
	gallery_reach(CHOSEN);
	gallery_await(LEFT);
	if (!gallery_fixed)
		wake_up_nr(chosen, BATCH);
	else if (!emptied_wake(chosen))
		emptied_wake(&queue_b);
	return 0;
}

const struct gallery_entry gallery_emptied_queue = {
	.name = "emptied-queue",
	.roles = {
		[WAITER] = { "waiter", emptied_waiter },
		[WAKER] = { "waker", emptied_waker },
		[WAITER_2] = { "waiter-2", emptied_waiter_2 },
	},
};
