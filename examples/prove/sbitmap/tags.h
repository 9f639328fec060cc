/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A pool of tags: a request takes one, and sleeps while all are taken.
 */
#ifndef TAGS_H
#define TAGS_H

#include <linux/atomic.h>
#include <linux/wait.h>

#define TAGS	2

/**
 * struct tag_pool - a pool of tags
 * @taken:	true for a tag that a request has
 * @wait:	requests that sleep until a tag is free
 */
struct tag_pool {
	u32 taken[TAGS];
	wait_queue_head_t wait;
};

void tag_pool_init(struct tag_pool *pool);
int tag_get(struct tag_pool *pool);
void tag_put(struct tag_pool *pool, int tag);

#endif
