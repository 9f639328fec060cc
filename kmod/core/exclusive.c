// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Exclusive waiting: a publication wakes one sleeper of a wait set.
 *
 * DOC: Turns
 *
 * A turn is an exclusive wake-up token. A woken thread holds a turn until it reads
 * from the set or waits on it again. The set records the holders, and hands the
 * wake-up on to another sleeper where a turn was not used:
 *
 *	T1 (holds a turn)		T2 (asleep)
 *	-----------------		-----------
 *	waits again, set still ready
 *	returns its turn: hand on
 *	returns 0 at once		woken, holds a turn
 *
 *	T1 (holds a turn)		T2 (asleep)
 *	-----------------		-----------
 *	reads one entry of three
 *	fewer turns held than entries
 *	left: hand on			woken, holds a turn
 *
 * The entries left are counted over the set, not over the member that was read: a
 * completion wakes one thread for a CQ and a counter together. A thread that reads
 * only one of them, or reads a counter that has not changed, leaves the other for
 * another sleeper.
 *
 * A thread that got a signal returns its turn as in the first table, since it may
 * be about to die. When the set is drained, all turns end. So a turn that was never
 * used (its thread neither reads nor waits) has no effect beyond the next
 * publication.
 */
#include <linux/slab.h>

#include "core.h"

#define KFI_TURNS 64

/**
 * struct kfi_turns - the turns (exclusive wake-up tokens) of one wait set
 * @n: entries of @holders
 * @more: turns of threads that found no room in @holders
 * @holders: their threads; compared, never dereferenced: a thread may be gone
 *
 * A waiter gets a turn when it is woken, and holds it until it reads or waits
 * again. All fields are protected by the queue's head.lock.
 */
struct kfi_turns {
	unsigned int n;
	unsigned int more;
	const struct task_struct *holders[KFI_TURNS];
};

/**
 * kfi_turns_set() - turn exclusive waiting on or off
 * @q: the queue of a wait set
 * @on: on
 *
 * Context: process, may sleep; takes @q->head.lock.
 * Return: 0, -ENOMEM, -EBUSY if a thread sleeps there.
 */
int kfi_turns_set(struct kfi_waitq *q, bool on)
{
	struct kfi_turns *turns = NULL, *old;
	int ret = -KFI_EBUSY;

	if (on) {
		turns = kzalloc(sizeof(*turns), GFP_KERNEL_ACCOUNT);
		if (!turns)
			return -KFI_ENOMEM;
	}
	old = turns;
	spin_lock_irq(&q->head.lock);
	if (list_empty(&q->head.head)) {
		old = q->turns;
		/* Whether there are any is looked at without the lock. */
		WRITE_ONCE(q->turns, turns);
		ret = 0;
	}
	spin_unlock_irq(&q->head.lock);
	kfree(old);
	return ret;
}

/**
 * kfi_turn_given() - a waiter was woken and gets a turn
 * @q: its queue
 * @task: the waiter's thread
 *
 * Context: any; the caller holds @q->head.lock.
 */
void kfi_turn_given(struct kfi_waitq *q, struct task_struct *task)
{
	struct kfi_turns *turns = q->turns;

	lockdep_assert_held(&q->head.lock);
	if (!turns)
		return;
	if (turns->n < KFI_TURNS)
		turns->holders[turns->n++] = task;
	else
		turns->more++;
}

/*
 * End the turn of this thread. A thread that is not recorded may be one of @more.
 * The caller holds the queue's lock. Return: it held a turn.
 */
static bool kfi_turn_over(struct kfi_waitq *q)
{
	struct kfi_turns *turns = q->turns;
	unsigned int i;

	lockdep_assert_held(&q->head.lock);
	for (i = 0; i < turns->n; i++) {
		if (turns->holders[i] != current)
			continue;
		turns->holders[i] = turns->holders[--turns->n];
		return true;
	}
	if (!turns->more)
		return false;
	turns->more--;
	return true;
}

/* The set is drained: all turns end. The caller holds the queue's lock. */
static void kfi_turns_forget(struct kfi_waitq *q)
{
	lockdep_assert_held(&q->head.lock);
	q->turns->n = 0;
	q->turns->more = 0;
}

/* Another sleeper gets a turn. The caller holds the queue's lock. */
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
 * kfi_turn_return() - this thread returns its turn, if it holds one
 * @q: where it waits again, or where it was woken and will not read
 *
 * Context: any; takes @q->head.lock.
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

/* The least number of entries in a set, with @left in the member just read. */
static u64 kfi_turns_due(const struct kfi_waitq *q, u64 left)
{
	int ready = atomic_read(&q->nready);

	if (ready <= 0)
		return 0;
	/* Each other member that is ready has at least one entry. */
	return left ? left + ready - 1 : ready;
}

/*
 * Entries were read, by this thread if @here. Otherwise the turn of the reader may still
 * be out, and cover nothing, so another sleeper gets one in any case.
 */
static void kfi_turn_read(struct kfi_source *src, u64 left, bool here)
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
		else if (!here || due > q->turns->n + q->turns->more)
			kfi_turn_pass(q, src->id, due);
	}
	spin_unlock(&q->head.lock);
}

/**
 * kfi_turn_used() - this thread has read an entry of a member
 * @src: the member of a wait set
 * @left: entries that can still be read of it
 *
 * Context: any; the caller holds @src->lock; takes the set's head.lock.
 */
void kfi_turn_used(struct kfi_source *src, u64 left)
{
	kfi_turn_read(src, left, true);
}

/**
 * kfi_turn_used_elsewhere() - some thread, perhaps this one, has read an entry of a member
 * @src: the member of a wait set
 * @left: entries that can still be read of it
 *
 * Context: any; the caller holds @src->lock; takes the set's head.lock.
 */
void kfi_turn_used_elsewhere(struct kfi_source *src, u64 left)
{
	kfi_turn_read(src, left, false);
}
