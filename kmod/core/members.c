// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The members of a queue, and waiting for any of them. A queue knows only how many
 * members are ready, how many have a device and how many have lost it.
 */
#include <linux/sched/signal.h>

#include <kfi_channel.h>

#include "core.h"

/*
 * Are there members, and has each lost its device? Then no publication will come.
 * The caller holds the queue's lock.
 */
static void kfi_waitq_check_dead(struct kfi_waitq *q)
{
	lockdep_assert_held(&q->head.lock);
	/* Pairs with kfi_waitq_now(): the last entries are stored already. */
	smp_store_release(&q->dead, q->lost && !q->living);
}

/**
 * kfi_waitq_join() - add a member whose device is there
 * @q: its queue
 *
 * Context: process, interrupts on; takes @q->head.lock.
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
 * The member's last entry is stored and not yet published.
 *
 * Context: any; takes @q->head.lock.
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
 * kfi_waitq_leave() - remove a member
 * @q: the queue of a wait set or of a completion channel
 * @lost: the member's device was gone
 *
 * If the devices of all members left are gone, this wakes every waiter: no later
 * publication would.
 *
 * Context: process, interrupts on; takes @q->head.lock.
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
	/* Read first: a member counted as lost has made its last entry readable. */
	bool dead = smp_load_acquire(&q->dead);

	if (atomic_read(&q->nready) > 0)
		return 0;
	return dead ? -KFI_ENODEV : -KFI_EAGAIN;
}

/* One wait for any member: the queue, and the result of the last look. */
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

/* The last look's result, or 0 after a wake-up that was not the last device's end. */
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
	/* The thread may be about to die and never act on the 0. */
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
 * Context: process, may sleep; the caller holds @mutex, on return too; takes
 * @q->head.lock. With %KFI_DEADLINE_NOW any: one look.
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
 * Context: any; takes no lock.
 * Return: 0; -EINVAL for a wait object that cannot be given away, and for an
 * exclusive set, since a foreign entry takes no turns.
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
 * kfi_fid_queue() - an object's own queue
 * @fid: a wait set, CQ, EQ, counter, completion channel or profile
 *
 * Context: any; takes no lock. The caller keeps the object open.
 * Return: for a member of a wait set its own, not the set's; NULL for any other
 * class.
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
 * kfi_fid_trywait() - may a thread block on an object's wait object?
 * @fabric: the fabric that the object must belong to
 * @fid: a wait set, CQ, EQ or counter; for a member of a wait set the answer is
 *	 that of the set
 *
 * Consumes nothing. Nothing has to be cleared first: a wait object is the state of
 * its members, not a signal that was set.
 *
 * Context: any; takes no lock.
 * Return: 0: nothing is readable, and the next publication will wake; -EAGAIN:
 * do not block, there is something to read; -ENODEV: all devices are gone and
 * nothing is left to read (neither a block nor a read would succeed); -EINVAL:
 * an object of another fabric, or one without a wait object.
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
 * Context: any; takes no lock.
 * Return: true if its device (for a wait set: that of every member) is gone and
 * it is drained.
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
 * Threads that wait on it give the CPU away after every look and never sleep.
 *
 * Context: any, before the first wait; takes no lock.
 */
void kfi_fid_yield(struct kfid *fid)
{
	kfi_fid_queue(fid)->yields = true;
}
EXPORT_SYMBOL_GPL(kfi_fid_yield);
