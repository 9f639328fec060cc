// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A pool of tags. Tags are taken and freed without a lock; the lock of the queue is
 * taken only if a request sleeps.
 */
#include <linux/sched.h>

#include "tags.h"

void tag_pool_init(struct tag_pool *pool)
{
	int tag;

	for (tag = 0; tag < TAGS; tag++)
		pool->taken[tag] = false;
	init_waitqueue_head(&pool->wait);
}

/* Reads first, so that a tag that is taken costs no atomic operation. */
static int tag_try(struct tag_pool *pool)
{
	int tag;

	for (tag = 0; tag < TAGS; tag++) {
		if (!READ_ONCE(pool->taken[tag]) && !cmpxchg(&pool->taken[tag], false, true))
			return tag;
	}
	return -1;
}

/**
 * tag_put() - free a tag
 * @pool:	where the tag is from
 * @tag:	its number
 *
 * Context: any.
 */
void tag_put(struct tag_pool *pool, int tag)
{
	/* The request is done with the tag before another one may take it. */
	smp_store_release(&pool->taken[tag], false);
	smp_mb();	/* the tag is free before the sleepers are looked for */
	/* Pairs with a barrier in tag_get(). */
	if (waitqueue_active(&pool->wait))
		wake_up(&pool->wait);
}

/**
 * tag_get() - take a tag, and sleep until one is free
 * @pool:	where the tag is from
 *
 * Context: process; sleeps.
 * Return: the tag.
 */
int tag_get(struct tag_pool *pool)
{
	DECLARE_WAITQUEUE(wait, current);
	int tag = tag_try(pool);

	if (tag >= 0)
		return tag;

	add_wait_queue_exclusive(&pool->wait, &wait);
	for (;;) {
		/*
		 * The bug: no barrier. The processor may look at the tags before others
		 * see the state, and a wake-up then finds a thread that runs.
		 */
		__set_current_state(TASK_UNINTERRUPTIBLE);
		tag = tag_try(pool);
		if (tag >= 0)
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	remove_wait_queue(&pool->wait, &wait);
	return tag;
}
