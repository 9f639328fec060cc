/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Readers that sleep until a buffer is filled to a level of their own.
 */
#ifndef WATERMARK_H
#define WATERMARK_H

#include <linux/spinlock.h>
#include <linux/wait.h>

/**
 * struct watermark - how far a buffer is filled, and who waits for how much
 * @lock:	guards @filled and @shortest
 * @filled:	units in the buffer
 * @shortest:	the least level that a sleeper waits for; 0: nobody waits
 * @wait:	the sleepers
 */
struct watermark {
	spinlock_t lock;	/* taken in interrupts */
	unsigned int filled;
	unsigned int shortest;
	wait_queue_head_t wait;
};

void watermark_init(struct watermark *mark);
void watermark_write(struct watermark *mark);
void watermark_wait(struct watermark *mark, unsigned int level);

#endif
