// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Events of a profile that are kept for a reader: a ring of fixed size, allocated
 * before the first event may come. An event that finds no room is counted as dropped;
 * the kept ones stay in order. A reader may sleep, as on any queue of ours.
 */
#include <linux/slab.h>

#include "profile.h"

#define KFI_PROFILE_LOG 256

/* Events kept and not read. The caller holds p->lock. */
static u32 kfi_log_fill(const struct kfi_profile *p)
{
	lockdep_assert_held(&p->lock);
	return p->log.tail - p->log.head;
}

/* The caller holds p->lock. */
static struct kfi_profile_record *kfi_log_slot(const struct kfi_profile *p,
					       u32 at)
{
	lockdep_assert_held(&p->lock);
	return &p->log.ring[at % KFI_PROFILE_LOG];
}

/* The queue has one member, this log. The caller holds p->lock. */
static void kfi_log_set_ready(struct kfi_profile *p)
{
	lockdep_assert_held(&p->lock);
	atomic_set(&p->queue.nready, kfi_log_fill(p) ? 1 : 0);
}

/* Return: events kept now; 0: this one was dropped. */
static u32 kfi_log_store(struct kfi_profile *p,
			 const struct kfi_profile_desc *desc, const void *data,
			 size_t size)
{
	struct kfi_profile_log *log = &p->log;
	struct kfi_profile_record *record;
	unsigned long flags;
	u32 fill = 0;

	spin_lock_irqsave(&p->lock, flags);
	log->seq++;
	if (kfi_log_fill(p) == KFI_PROFILE_LOG) {
		log->dropped++;
	} else {
		record = kfi_log_slot(p, log->tail++);
		record->seq = log->seq;
		record->desc = desc;
		record->size = size;
		memcpy(record->data, data, size);
		kfi_log_set_ready(p);
		fill = kfi_log_fill(p);
	}
	spin_unlock_irqrestore(&p->lock, flags);
	return fill;
}

/**
 * kfi_profile_log_add() - keep an event
 * @p: the profile
 * @id: one of its events
 * @data: what it carries, or NULL
 * @size: bytes of @data
 *
 * Context: any; the caller holds the endpoint's profile_lock, which keeps the profile;
 * takes profile->lock, then the profile's head.lock.
 */
void kfi_profile_log_add(struct kfi_profile *p, u32 id, const void *data,
			 size_t size)
{
	struct kfi_wake wake = {
		.source = p->queue.id,
		.why = KFI_WHY_EVENT,
	};
	const int i = kfi_profile_event_index(p, id);

	lockdep_assert_held(kfi_profile_ep(p)->profile_lock);
	if (WARN_ON_ONCE(size > KFI_PROFILE_DATA_MAX))
		return;
	wake.have = kfi_log_store(p, &p->ops->events[i], data, data ? size : 0);
	if (!wake.have)
		return;
	wake.seq = atomic64_inc_return(&p->queue.pubs);
	kfi_waitq_wake(&p->queue, &wake);
}

/* Allocate the ring, before the first event may be kept. */
static int kfi_log_prepare(struct kfi_profile *p)
{
	struct kfi_profile_record *ring;

	if (READ_ONCE(p->log.ring))
		return 0;
	ring = kvcalloc(KFI_PROFILE_LOG, sizeof(*ring), GFP_KERNEL_ACCOUNT);
	if (!ring)
		return -KFI_ENOMEM;
	spin_lock_irq(&p->lock);
	if (!p->log.ring) {
		/* Whether there is one is looked at without the lock. */
		WRITE_ONCE(p->log.ring, ring);
		ring = NULL;
	}
	spin_unlock_irq(&p->lock);
	kvfree(ring);
	return 0;
}

/**
 * kfi_profile_keep() - start or stop keeping an event for kfi_profile_peek()
 * @prof: the profile
 * @event_id: one of those that kfi_profile_query_events() lists
 * @on: keep it
 *
 * Context: process, may sleep; not in a callback; takes profile->lock and
 * profile_lock.
 * Return: 0; -EINVAL for an event that is not listed; -ENOMEM; -EBUSY in a
 * callback.
 */
int kfi_profile_keep(struct kfid_profile *prof, u32 event_id, bool on)
{
	struct kfi_profile *p = kfi_profile_of(prof);
	const int i = kfi_profile_event_index(p, event_id);
	unsigned long flags;
	int ret;

	if (kfi_in_callback())
		return -KFI_EBUSY;
	if (i < 0)
		return i;
	ret = on ? kfi_log_prepare(p) : 0;
	if (ret)
		return ret;
	flags = kfi_profile_lock(p);
	p->listeners[i].logged = on;
	kfi_profile_unlock(p, flags);
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_profile_keep);

/**
 * kfi_profile_peek() - look at events without removing them
 * @prof: the profile
 * @to: room for @count
 * @count: most events wanted
 * @dropped: number of events dropped so far
 *
 * Context: any; takes profile->lock.
 * Return: events written, oldest first.
 */
size_t kfi_profile_peek(struct kfid_profile *prof, struct kfi_profile_record *to,
			size_t count, u64 *dropped)
{
	struct kfi_profile *p = kfi_profile_of(prof);
	unsigned long flags;
	size_t i, n;

	spin_lock_irqsave(&p->lock, flags);
	n = min_t(size_t, count, kfi_log_fill(p));
	for (i = 0; i < n; i++)
		to[i] = *kfi_log_slot(p, p->log.head + i);
	*dropped = p->log.dropped;
	spin_unlock_irqrestore(&p->lock, flags);
	return n;
}
EXPORT_SYMBOL_GPL(kfi_profile_peek);

/**
 * kfi_profile_consume() - remove events that kfi_profile_peek() returned
 * @prof: the profile
 * @count: at most the return value of kfi_profile_peek()
 *
 * Context: any; the caller serialises readers; takes profile->lock.
 */
void kfi_profile_consume(struct kfid_profile *prof, size_t count)
{
	struct kfi_profile *p = kfi_profile_of(prof);
	unsigned long flags;

	spin_lock_irqsave(&p->lock, flags);
	p->log.head += count;
	kfi_log_set_ready(p);
	spin_unlock_irqrestore(&p->lock, flags);
}
EXPORT_SYMBOL_GPL(kfi_profile_consume);

/* An event is kept, or none will come. */
static bool kfi_log_found(void *arg)
{
	struct kfi_profile *p = arg;

	return atomic_read(&p->queue.nready) > 0 || READ_ONCE(p->queue.dead);
}

/**
 * kfi_profile_wait_take() - a blocking read of events with a caller's own way to take
 * @prof: the profile
 * @deadline: absolute, monotonic
 * @take: one attempt to read; called without a lock, never while enqueued
 * @arg: for @take
 *
 * An event wakes every thread that waits here.
 *
 * Context: process, may sleep; takes the profile's head.lock.
 * Return: the result of @take, unless that was -EAGAIN; then -ETIMEDOUT or -EINTR.
 * -ENODEV: no event is kept, and the device is gone. -EINVAL if the profile is being
 * closed, or has no events: a wait for one would never end.
 */
ssize_t kfi_profile_wait_take(struct kfid_profile *prof, ktime_t deadline,
			      kfi_take_fn take, void *arg)
{
	struct kfi_profile *p = kfi_profile_of(prof);
	struct kfi_waiter w;
	bool dead;
	ssize_t n;

	if (!p->nevents || !kfi_fid_get(&prof->fid))
		return -KFI_EINVAL;
	kfi_waiter_init(&w, &p->queue, 1, false);
	do {
		n = kfi_waitq_sleep(&w, kfi_log_found, p, deadline);
		if (n)
			break;
		/*
		 * Read before the take: earlier events are still taken. No acquire:
		 * events are kept, and taken, with p->lock held; see "A flag, then a
		 * lock" in core.h. What the caller does next comes after the full
		 * barrier of kfi_fid_put().
		 */
		dead = READ_ONCE(p->queue.dead);
		n = take(arg);
		if (n == -KFI_EAGAIN && dead)
			n = -KFI_ENODEV;
	} while (n == -KFI_EAGAIN);
	kfi_waiter_end(&w, n);
	kfi_fid_put(&prof->fid);
	return n;
}
EXPORT_SYMBOL_GPL(kfi_profile_wait_take);
