// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Completions, by the kernel's algorithm: a count under the lock of a wait queue.
 */
#include <linux/completion.h>

#define DONE_FOR_ALL	U32_MAX

void complete(struct completion *c)
{
	unsigned long flags;

	spin_lock_irqsave(&c->wait.lock, flags);
	if (c->done != DONE_FOR_ALL)
		c->done++;
	wake_up_locked(&c->wait);
	spin_unlock_irqrestore(&c->wait.lock, flags);
}

void complete_all(struct completion *c)
{
	unsigned long flags;

	spin_lock_irqsave(&c->wait.lock, flags);
	c->done = DONE_FOR_ALL;
	wake_up_all_locked(&c->wait);
	spin_unlock_irqrestore(&c->wait.lock, flags);
}

/* Return: ticks that are left, at least 1; 0: none; -ERESTARTSYS. Holds the lock. */
static long wait_done(struct completion *c, long ticks, unsigned int state)
{
	struct wait_queue_entry entry;

	init_wait_entry(&entry, WQ_FLAG_EXCLUSIVE);
	while (!c->done && ticks > 0) {
		if (signal_pending_state(state, current)) {
			ticks = -ERESTARTSYS;
			break;
		}
		if (list_empty(&entry.entry))
			__add_wait_queue_entry_tail(&c->wait, &entry);
		__set_current_state(state);
		spin_unlock_irq(&c->wait.lock);
		ticks = schedule_timeout(ticks);
		spin_lock_irq(&c->wait.lock);
	}
	if (!list_empty(&entry.entry))
		list_del_init(&entry.entry);
	if (!c->done)
		return ticks;
	if (c->done != DONE_FOR_ALL)
		c->done--;
	return ticks > 0 ? ticks : 1;
}

static long wait_common(struct completion *c, long ticks, unsigned int state)
{
	might_sleep();
	spin_lock_irq(&c->wait.lock);
	ticks = wait_done(c, ticks, state);
	spin_unlock_irq(&c->wait.lock);
	return ticks;
}

void wait_for_completion(struct completion *c)
{
	wait_common(c, MAX_SCHEDULE_TIMEOUT, TASK_UNINTERRUPTIBLE);
}

int wait_for_completion_interruptible(struct completion *c)
{
	return min(wait_common(c, MAX_SCHEDULE_TIMEOUT, TASK_INTERRUPTIBLE), 0L);
}

int wait_for_completion_killable(struct completion *c)
{
	return min(wait_common(c, MAX_SCHEDULE_TIMEOUT, TASK_KILLABLE), 0L);
}

unsigned long wait_for_completion_timeout(struct completion *c, unsigned long ticks)
{
	return wait_common(c, ticks, TASK_UNINTERRUPTIBLE);
}

bool try_wait_for_completion(struct completion *c)
{
	unsigned long flags;
	bool done;

	spin_lock_irqsave(&c->wait.lock, flags);
	done = c->done;
	if (done && c->done != DONE_FOR_ALL)
		c->done--;
	spin_unlock_irqrestore(&c->wait.lock, flags);
	return done;
}

bool completion_done(struct completion *c)
{
	unsigned long flags;
	bool done;

	spin_lock_irqsave(&c->wait.lock, flags);
	done = c->done;
	spin_unlock_irqrestore(&c->wait.lock, flags);
	return done;
}
