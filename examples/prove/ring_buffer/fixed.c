// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Readers that sleep until a buffer is filled to a level of their own. A writer wakes
 * nobody before the least of these levels, since most writes concern no sleeper.
 */
#include <linux/sched.h>

#include "watermark.h"

void watermark_init(struct watermark *mark)
{
	spin_lock_init(&mark->lock);
	mark->filled = 0;
	mark->shortest = 0;
	init_waitqueue_head(&mark->wait);
}

/**
 * watermark_write() - one unit more is in the buffer
 * @mark:	of this buffer
 *
 * Context: any.
 */
void watermark_write(struct watermark *mark)
{
	unsigned long flags;
	bool reached;

	spin_lock_irqsave(&mark->lock, flags);
	mark->filled++;
	reached = mark->shortest && mark->filled >= mark->shortest;
	/* All sleepers wake up, and those that sleep again note their level again. */
	if (reached)
		mark->shortest = 0;
	spin_unlock_irqrestore(&mark->lock, flags);

	if (reached)
		wake_up_all(&mark->wait);
}

/* Notes the level if it is not reached: under the lock, no write comes between. */
static bool watermark_hit(struct watermark *mark, unsigned int level)
{
	unsigned long flags;
	bool hit;

	spin_lock_irqsave(&mark->lock, flags);
	hit = mark->filled >= level;
	if (!hit && (!mark->shortest || mark->shortest > level))
		mark->shortest = level;
	spin_unlock_irqrestore(&mark->lock, flags);
	return hit;
}

/**
 * watermark_wait() - sleep until so many units are in the buffer
 * @mark:	of this buffer
 * @level:	how many; at least 1
 *
 * Context: process; sleeps.
 */
void watermark_wait(struct watermark *mark, unsigned int level)
{
	DEFINE_WAIT(wait);

	for (;;) {
		prepare_to_wait(&mark->wait, &wait, TASK_UNINTERRUPTIBLE);
		if (watermark_hit(mark, level))
			break;
		schedule();
	}
	finish_wait(&mark->wait, &wait);
}
