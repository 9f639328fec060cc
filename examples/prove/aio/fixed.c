// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A queue of completion events. A reader wants a number of events, takes those that
 * are there and sleeps until the rest is there too. A completion wakes only a reader
 * that can then return.
 */
#include <linux/minmax.h>
#include <linux/sched.h>

#include "events.h"

/**
 * struct event_waiter - a reader that sleeps, on its own stack
 * @entry:	in the queue
 * @missing:	events that the reader still needs; written before it enters the queue,
 *		or before it enters it again
 */
struct event_waiter {
	struct wait_queue_entry entry;
	unsigned int missing;
};

void events_init(struct events *events)
{
	spin_lock_init(&events->lock);
	events->ready = 0;
	init_waitqueue_head(&events->wait);
}

static int events_wake(struct wait_queue_entry *entry, unsigned int mode, int sync, void *key)
{
	struct event_waiter *waiter = container_of(entry, struct event_waiter, entry);
	const unsigned int *ready = key;

	if (*ready < READ_ONCE(waiter->missing))
		return 0;
	return autoremove_wake_function(entry, mode, sync, key);
}

/**
 * events_complete() - add one event
 * @events:	the queue
 *
 * Context: any.
 */
void events_complete(struct events *events)
{
	unsigned int ready;
	unsigned long flags;

	spin_lock_irqsave(&events->lock, flags);
	ready = ++events->ready;
	spin_unlock_irqrestore(&events->lock, flags);

	__wake_up(&events->wait, TASK_NORMAL, 1, &ready);
}

/* Takes at most so many events; returns how many it took. */
static unsigned int events_take(struct events *events, unsigned int most)
{
	unsigned int taken;
	unsigned long flags;

	spin_lock_irqsave(&events->lock, flags);
	taken = min(most, events->ready);
	events->ready -= taken;
	spin_unlock_irqrestore(&events->lock, flags);
	return taken;
}

/**
 * events_read() - take so many events, and sleep until all of them were there
 * @events:	the queue
 * @wanted:	how many; at least 1
 *
 * Context: process; sleeps.
 */
void events_read(struct events *events, unsigned int wanted)
{
	struct event_waiter waiter;
	unsigned int taken;

	init_wait(&waiter.entry);
	waiter.entry.func = events_wake;
	for (;;) {
		/*
		 * An event that was taken changes what is missing. So the reader sleeps
		 * only if it has taken nothing since it said what it misses.
		 */
		WRITE_ONCE(waiter.missing, wanted);
		prepare_to_wait(&events->wait, &waiter.entry, TASK_UNINTERRUPTIBLE);
		taken = events_take(events, wanted);
		wanted -= taken;
		if (!wanted)
			break;
		if (!taken)
			schedule();
	}
	finish_wait(&events->wait, &waiter.entry);
}
