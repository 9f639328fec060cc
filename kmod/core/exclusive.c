// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Exclusive waiting: a publication wakes one sleeper of a wait set.
 *
 * DOC: Turns
 *
 * Whom a wake-up was given has a turn: it owes a read, or another wait. The set
 * remembers who has one, and wakes somebody else where a turn was not used:
 *
 *	T1 (has a turn)			T2 (asleep)
 *	---------------			-----------
 *	waits again, set still ready
 *	gives its turn back: hand on
 *	returns 0 at once		woken, has a turn
 *
 *	T1 (has a turn)			T2 (asleep)
 *	---------------			-----------
 *	reads one entry of three
 *	fewer turns out than entries
 *	left: hand on			woken, has a turn
 *
 * What is left is counted over the set, not over the member that was read: one
 * completion wakes one thread for a CQ and a counter, and whoever reads only the
 * one, or reads a counter that has not changed, owes the other to a sleeper.
 *
 * A thread that a signal was sent to gives its turn back like the first, since
 * it may be about to die. Once the set is drained no turn counts any more, so
 * one that was never used (a thread that neither reads nor waits) does no harm
 * beyond the next publication.
 */
#include <linux/slab.h>

#include "core.h"

#define KFI_TURNS 64

/**
 * struct kfi_turns - who was woken and has not used it yet
 * @n: entries of @who
 * @more: threads that found no room in @who
 * @who: compared, never followed: the thread may be gone
 */
struct kfi_turns {
	unsigned int n;
	unsigned int more;
	const struct task_struct *who[KFI_TURNS];
};

/**
 * kfi_turns_set() - turn exclusive waiting on or off
 * @q: the queue of a wait set
 * @on: on
 *
 * Context: process, may sleep.
 * Return: 0, -ENOMEM, -EBUSY if anybody sleeps there.
 */
int kfi_turns_set(struct kfi_waitq *q, bool on)
{
	struct kfi_turns *turns = NULL;
	int ret = -KFI_EBUSY;

	if (on) {
		turns = kzalloc(sizeof(*turns), GFP_KERNEL_ACCOUNT);
		if (!turns)
			return -KFI_ENOMEM;
	}
	spin_lock_irq(&q->head.lock);
	if (list_empty(&q->head.head)) {
		swap(q->turns, turns);
		ret = 0;
	}
	spin_unlock_irq(&q->head.lock);
	kfree(turns);
	return ret;
}

/**
 * kfi_turn_given() - a waiter was woken
 * @q: its queue, locked
 * @task: the waiter
 *
 * Context: any.
 */
void kfi_turn_given(struct kfi_waitq *q, struct task_struct *task)
{
	struct kfi_turns *turns = q->turns;

	lockdep_assert_held(&q->head.lock);
	if (!turns)
		return;
	if (turns->n < KFI_TURNS)
		turns->who[turns->n++] = task;
	else
		turns->more++;
}

/* This thread's turn is over. One that is not on record may be one of @more. */
static bool kfi_turn_over(struct kfi_waitq *q)
{
	struct kfi_turns *turns = q->turns;
	unsigned int i;

	lockdep_assert_held(&q->head.lock);
	for (i = 0; i < turns->n; i++) {
		if (turns->who[i] != current)
			continue;
		turns->who[i] = turns->who[--turns->n];
		return true;
	}
	if (!turns->more)
		return false;
	turns->more--;
	return true;
}

/* The set is drained: what they were given for has been read. */
static void kfi_turns_forget(struct kfi_waitq *q)
{
	lockdep_assert_held(&q->head.lock);
	q->turns->n = 0;
	q->turns->more = 0;
}

/* Another sleeper gets one. */
static void kfi_turn_pass(struct kfi_waitq *q, u32 source, u64 have)
{
	struct kfi_wake wake = {
		.have = have,
		.source = source,
		.why = KFI_WHY_HANDON,
	};

	lockdep_assert_held(&q->head.lock);
	kfi_waitq_wake_locked(q, &wake);
}

/**
 * kfi_turn_return() - a thread gives its turn back, if it has one
 * @q: where it waits again, or where it was woken and will not come to read
 *
 * Context: any.
 */
void kfi_turn_return(struct kfi_waitq *q)
{
	unsigned long flags;
	int ready;

	if (!READ_ONCE(q->turns))
		return;
	spin_lock_irqsave(&q->head.lock, flags);
	ready = atomic_read(&q->nready);
	if (q->turns && ready <= 0)
		kfi_turns_forget(q);
	else if (q->turns && kfi_turn_over(q))
		kfi_turn_pass(q, q->id, ready);
	spin_unlock_irqrestore(&q->head.lock, flags);
}

/* The least that can be read in a set, with @left in the member at hand. */
static u64 kfi_turns_due(const struct kfi_waitq *q, u64 left)
{
	int ready = atomic_read(&q->nready);

	if (ready <= 0)
		return 0;
	/* Of each other member that is ready at least one thing. */
	return left ? left + ready - 1 : ready;
}

/**
 * kfi_turn_used() - something of a member was read
 * @src: the member of a wait set
 * @left: what can still be read of it
 *
 * Context: any; the caller holds @src->lock.
 */
void kfi_turn_used(struct kfi_source *src, u64 left)
{
	struct kfi_waitq *q = src->queue;
	u64 due;

	lockdep_assert_held(&src->lock);
	if (!READ_ONCE(q->turns))
		return;
	spin_lock(&q->head.lock);
	if (q->turns) {
		due = kfi_turns_due(q, left);
		if (in_task())
			kfi_turn_over(q);
		if (!due)
			kfi_turns_forget(q);
		else if (due > q->turns->n + q->turns->more)
			kfi_turn_pass(q, src->id, due);
	}
	spin_unlock(&q->head.lock);
}
