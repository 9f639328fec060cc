/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A queue of completion events, whose readers sleep for several at once.
 */
#ifndef EVENTS_H
#define EVENTS_H

#include <linux/spinlock.h>
#include <linux/wait.h>

/**
 * struct events - completions that were not read yet
 * @lock:	guards @ready
 * @ready:	completions that a reader may take
 * @wait:	the readers that sleep; its entries are struct event_waiter
 */
struct events {
	spinlock_t lock;	/* taken in interrupts */
	unsigned int ready;
	wait_queue_head_t wait;
};

void events_init(struct events *events);
void events_complete(struct events *events);
void events_read(struct events *events, unsigned int wanted);

#endif
