/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A limit on the requests in flight: callers over the limit sleep.
 */
#ifndef THROTTLE_H
#define THROTTLE_H

#include <linux/atomic.h>
#include <linux/wait.h>

/**
 * struct throttle - a limit on the requests in flight
 * @inflight:	requests that have entered and not left
 * @limit:	the most that @inflight may be; constant
 * @wait:	callers that sleep until a request leaves
 */
struct throttle {
	atomic_t inflight;
	int limit;
	wait_queue_head_t wait;
};

void throttle_init(struct throttle *t, int limit);
void throttle_enter(struct throttle *t);
void throttle_leave(struct throttle *t);

#endif
