// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A limit on the requests in flight. Entering callers queue in turn: a caller
 * that finds sleepers does not take a free slot itself, it sleeps behind them.
 */
#include <linux/sched.h>

#include "throttle.h"

/**
 * struct throttle_waiter - a caller that sleeps, on its own stack
 * @entry:	in the throttle's queue
 * @throttle:	what the caller waits for
 * @granted:	a leaving request has taken the slot for this caller; written under
 *		the queue's lock
 */
struct throttle_waiter {
	struct wait_queue_entry entry;
	struct throttle *throttle;
	bool granted;
};

void throttle_init(struct throttle *t, int limit)
{
	atomic_set(&t->inflight, 0);
	t->limit = limit;
	init_waitqueue_head(&t->wait);
}

static bool throttle_take(struct throttle *t)
{
	int now = atomic_read(&t->inflight);

	while (now < t->limit) {
		int seen = atomic_cmpxchg(&t->inflight, now, now + 1);

		if (seen == now)
			return true;
		now = seen;
	}
	return false;
}

/* Takes the slot on the sleeper's behalf; no slot ends the walk over the queue. */
static int throttle_grant(struct wait_queue_entry *entry, unsigned int mode, int sync, void *key)
{
	struct throttle_waiter *waiter = container_of(entry, struct throttle_waiter, entry);

	if (!throttle_take(waiter->throttle))
		return -1;
	WRITE_ONCE(waiter->granted, true);
	return autoremove_wake_function(entry, mode, sync, key);
}

/**
 * throttle_leave() - a request has ended
 * @t:	the limit that it had entered
 *
 * Context: any.
 */
void throttle_leave(struct throttle *t)
{
	atomic_dec(&t->inflight);
	if (wq_has_sleeper(&t->wait))
		wake_up_all(&t->wait);
}

/**
 * throttle_enter() - start a request, once the limit allows it
 * @t:	the limit
 *
 * Context: process; sleeps.
 */
void throttle_enter(struct throttle *t)
{
	struct throttle_waiter waiter = { .throttle = t };
	bool others;

	if (!wq_has_sleeper(&t->wait) && throttle_take(t))
		return;

	init_wait(&waiter.entry);
	waiter.entry.func = throttle_grant;
	/*
	 * Only a caller that is alone in the queue looks once more. The bug: two
	 * callers may both enter the queue before either looks at it.
	 */
	prepare_to_wait_exclusive(&t->wait, &waiter.entry, TASK_UNINTERRUPTIBLE);
	spin_lock_irq(&t->wait.lock);
	others = !list_is_singular(&t->wait.head);
	spin_unlock_irq(&t->wait.lock);
	while (!READ_ONCE(waiter.granted)) {
		if (!others && throttle_take(t)) {
			finish_wait(&t->wait, &waiter.entry);
			if (READ_ONCE(waiter.granted))
				throttle_leave(t);
			return;
		}
		schedule();
		others = true;
		set_current_state(TASK_UNINTERRUPTIBLE);
	}
	finish_wait(&t->wait, &waiter.entry);
}
