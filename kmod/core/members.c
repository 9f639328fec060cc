// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What a queue knows of its members, which is no more than how many are ready
 * and how many are still alive, and waiting for any of them.
 */
#include <linux/sched/signal.h>

#include <kfi_channel.h>

#include "core.h"

/* The last one that lived is gone: nothing will ever be published here. */
static void kfi_waitq_check_dead(struct kfi_waitq *q)
{
	lockdep_assert_held(&q->head.lock);
	/* Pairs with kfi_waitq_now(): the last entries were stored before. */
	smp_store_release(&q->dead, q->lost && !q->living);
}

/**
 * kfi_waitq_join() - a member more, whose device is there
 * @q: its queue
 *
 * Context: process.
 */
void kfi_waitq_join(struct kfi_waitq *q)
{
	spin_lock_irq(&q->head.lock);
	q->living++;
	kfi_waitq_check_dead(q);
	spin_unlock_irq(&q->head.lock);
}

/**
 * kfi_waitq_lose() - a member's device is gone
 * @q: its queue
 *
 * Context: any; the member's last entry is stored and not yet published.
 */
void kfi_waitq_lose(struct kfi_waitq *q)
{
	unsigned long flags;

	spin_lock_irqsave(&q->head.lock, flags);
	q->living--;
	q->lost++;
	kfi_waitq_check_dead(q);
	spin_unlock_irqrestore(&q->head.lock, flags);
}

/**
 * kfi_waitq_leave() - a member less
 * @q: the queue of a wait set
 * @lost: its device was gone
 *
 * If only such are left, who sleeps here would sleep for ever.
 *
 * Context: process.
 */
void kfi_waitq_leave(struct kfi_waitq *q, bool lost)
{
	struct kfi_wake wake = {
		.source = q->id,
		.why = KFI_WHY_LOST,
		.all = true,
	};

	spin_lock_irq(&q->head.lock);
	if (lost)
		q->lost--;
	else
		q->living--;
	kfi_waitq_check_dead(q);
	if (q->dead)
		kfi_waitq_wake_locked(q, &wake);
	spin_unlock_irq(&q->head.lock);
}

/* One full check: 0 is ready, -EAGAIN not now, -ENODEV never again. */
static int kfi_waitq_now(struct kfi_waitq *q)
{
	/* First: a member that dies now has made its last entry readable. */
	bool dead = smp_load_acquire(&q->dead);

	if (atomic_read(&q->nready) > 0)
		return 0;
	return dead ? -KFI_ENODEV : -KFI_EAGAIN;
}

/* What one wait is about, and what its last look found. */
struct kfi_any {
	struct kfi_waitq *queue;
	int found;
};

static bool kfi_any_found(void *arg)
{
	struct kfi_any *any = arg;

	any->found = kfi_waitq_now(any->queue);
	return any->found != -KFI_EAGAIN;
}

/* What was found; or that it was woken, unless for the end of the last device. */
static int kfi_any_result(const struct kfi_any *any, const struct kfi_waiter *w)
{
	if (!w->why)
		return any->found;
	if (w->why == KFI_WHY_LOST && kfi_waitq_now(any->queue) == -KFI_ENODEV)
		return -KFI_ENODEV;
	return 0;
}

static int kfi_any_sleep(struct kfi_any *any, struct mutex *mutex,
			 ktime_t deadline)
{
	struct kfi_waiter w;
	int ret;

	kfi_waiter_init(&w, any->queue, 0, false);
	w.mutex = mutex;
	ret = kfi_waitq_sleep(&w, kfi_any_found, any, deadline);
	if (!ret)
		ret = kfi_any_result(any, &w);
	/* Its 0 may never be seen: this may be the end of the thread. */
	if (w.why && kfi_interrupted())
		kfi_turn_return(any->queue);
	kfi_waiter_end(&w, ret);
	return ret;
}

/**
 * kfi_waitq_wait() - wait until a member is ready
 * @q: the queue
 * @mutex: released while it waits, if it waits; or NULL
 * @deadline: absolute, monotonic
 *
 * Context: may sleep, except with %KFI_DEADLINE_NOW, which is one look.
 * Return: 0 if a member is ready or was signalled during the call; -ETIMEDOUT;
 * -EINTR; -ENODEV if all devices are gone and nothing is left to read; -EINVAL
 * if the owner is being closed.
 */
int kfi_waitq_wait(struct kfi_waitq *q, struct mutex *mutex, ktime_t deadline)
{
	struct kfi_any any = { .queue = q };
	int ret;

	if (mutex)
		lockdep_assert_held(mutex);
	kfi_turn_return(q);
	if (deadline == KFI_DEADLINE_NOW) {
		ret = kfi_waitq_now(q);
		return ret == -KFI_EAGAIN ? -KFI_ETIMEDOUT : ret;
	}
	if (!kfi_fid_get(q->fid))
		return -KFI_EINVAL;
	ret = kfi_any_sleep(&any, mutex, deadline);
	if (mutex)
		mutex_lock(mutex);
	kfi_fid_put(q->fid);
	return ret;
}

/**
 * kfi_waitq_getwait() - KFI_GETWAIT on a wait set, CQ, EQ or counter
 * @q: its own queue
 * @wait_obj: how it was opened
 * @arg: wait_queue_head_t ** or struct kfi_mutex_cond *
 *
 * Return: 0; -EINVAL where there is nothing to give, and for an exclusive set,
 * whose turns a stranger would not keep.
 */
int kfi_waitq_getwait(struct kfi_waitq *q, enum kfi_wait_obj wait_obj, void *arg)
{
	struct kfi_mutex_cond *pair = arg;

	if (READ_ONCE(q->turns))
		return -KFI_EINVAL;
	switch (wait_obj) {
	case KFI_WAIT_QUEUE:
		*(wait_queue_head_t **)arg = &q->head;
		return 0;
	case KFI_WAIT_MUTEX_COND:
		pair->mutex = &q->cond.mutex;
		pair->cond = &q->cond;
		return 0;
	default:
		return -KFI_EINVAL;
	}
}

/**
 * kfi_fid_queue() - the queue of an object's own
 * @fid: a wait set, CQ, EQ, counter, completion channel or profile
 *
 * Return: for a member of a wait set its own, not the set's; NULL for anything
 * else.
 */
struct kfi_waitq *kfi_fid_queue(struct kfid *fid)
{
	struct kfi_source *src = kfi_fid_source(fid);

	if (src)
		return &src->own;
	if (fid->fclass == KFI_CLASS_WAIT)
		return kfi_wait_queue(container_of(fid, struct kfid_wait, kfid));
	if (fid->fclass == KFI_CLASS_COMP_CHANNEL)
		return kfi_channel_queue(fid);
	if (fid->fclass == KFI_CLASS_PROFILE)
		return kfi_profile_queue(container_of(fid, struct kfid_profile,
						      fid));
	return NULL;
}

/**
 * kfi_fid_trywait() - may one block on the wait object of an object?
 * @fabric: that it must live on
 * @fid: a wait set, CQ, EQ or counter; a member of a wait set is judged as part
 *	 of the set
 *
 * Consumes nothing. There is nothing to clear first: a wait object is what its
 * members are, not something that was signalled.
 *
 * Context: any.
 * Return: 0: nothing is readable, and the next publication will wake; -EAGAIN:
 * do not block, there is something to read; -ENODEV: all devices are gone and
 * nothing is left to read (neither to block nor to read would get anywhere);
 * -EINVAL: another fabric's, or nothing to wait on.
 */
int kfi_fid_trywait(struct kfid_fabric *fabric, struct kfid *fid)
{
	struct kfi_source *src = kfi_fid_source(fid);
	struct kfi_waitq *q = src ? src->queue : kfi_fid_queue(fid);
	bool ours = src ? src->fabric == kfi_fabric_of(fabric) :
			  kfi_wait_on_fabric(container_of(fid, struct kfid_wait, kfid),
					     kfi_fabric_of(fabric));

	if (!ours || !q)
		return -KFI_EINVAL;
	kfi_test_hook_point(KFI_HOOK_D2, q->id);
	switch (kfi_waitq_now(q)) {
	case 0:
		return -KFI_EAGAIN;
	case -KFI_ENODEV:
		return -KFI_ENODEV;
	default:
		return 0;
	}
}
EXPORT_SYMBOL_GPL(kfi_fid_trywait);

/**
 * kfi_fid_ended() - will nothing ever be readable here again?
 * @fid: a wait set, CQ, EQ or counter
 *
 * Context: any.
 * Return: its device is gone (that of every member) and it is drained.
 */
bool kfi_fid_ended(struct kfid *fid)
{
	return kfi_waitq_now(kfi_fid_queue(fid)) == -KFI_ENODEV;
}
EXPORT_SYMBOL_GPL(kfi_fid_ended);

/**
 * kfi_fid_yield() - make it a KFI_WAIT_YIELD
 * @fid: a wait set, CQ, EQ or counter, just opened as KFI_WAIT_UNSPEC
 *
 * Threads that wait on it give the CPU away on every turn and never sleep.
 *
 * Context: any; before anybody waits.
 */
void kfi_fid_yield(struct kfid *fid)
{
	kfi_fid_queue(fid)->yields = true;
}
EXPORT_SYMBOL_GPL(kfi_fid_yield);
