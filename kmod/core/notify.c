// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A CQ's side of its channel: the request, the event that the request becomes, and
 * the condition that the close of the CQ waits for.
 *
 * DOC: Memory
 *
 * A request prepares its event, so that a completion allocates no memory. The first
 * event is part of the CQ's binding. Only a request made while an event is still
 * unread allocates another one, so only a request can fail.
 *
 * DOC: Why no request misses its completion
 *
 * A request and a completion of one CQ exclude each other (source->lock). An entry
 * stored before the request makes no event, and KFI_CQ_REPORT_MISSED reports it; an
 * entry stored after it makes one. A reader that requests and then reads until the
 * CQ is empty misses nothing:
 *
 *	provider		reader
 *	--------		------
 *	stores entry 1
 *				requests
 *				reads entry 1; empty
 *	stores entry 2: event
 *
 *				requests
 *	stores entry 1: event
 *				reads entry 1; empty
 *				gets an event without an entry: legal
 */
#include <linux/slab.h>

#include "channel.h"

/* Prepare one more event. The caller holds source->lock. */
static int kfi_notify_reserve(struct kfi_notify *n)
{
	struct kfi_cq_event *event = &n->first;
	bool first, full;

	lockdep_assert_held(&n->src->lock);
	spin_lock(&n->channel->lock);
	first = list_empty(&n->first.link) && n->next != &n->first;
	full = n->count >= KFI_CQ_EVENTS_MAX;
	spin_unlock(&n->channel->lock);
	if (full)
		return -ENOBUFS;
	if (!first)
		event = kmalloc(sizeof(*event), GFP_ATOMIC | __GFP_ACCOUNT |
						__GFP_NOWARN);
	if (!event)
		return -KFI_ENOMEM;
	INIT_LIST_HEAD(&event->link);
	INIT_LIST_HEAD(&event->mine);
	event->notify = n;
	n->next = event;
	return 0;
}

/* The caller holds source->lock. */
static int kfi_notify_request(struct kfi_notify *n, enum kfi_request request)
{
	int ret;

	lockdep_assert_held(&n->src->lock);
	if (n->closing)
		return -KFI_EINVAL;
	if (n->request == KFI_REQUEST_NONE) {
		ret = kfi_notify_reserve(n);
		if (ret)
			return ret;
	}
	n->request = max(n->request, request);
	return 0;
}

/**
 * kfi_cq_request() - request one event, without progress
 * @cq: a CQ that is bound to a channel. Under RCU it may be closed, and so may its
 *	domain.
 * @flags: as for kfi_req_notify()
 *
 * Context: any; takes source->lock and channel->lock.
 * Return: as kfi_req_notify().
 */
int kfi_cq_request(struct kfid_cq *cq, u32 flags)
{
	struct kfi_source *src = kfi_cq_source(cq);
	enum kfi_request request;
	unsigned long irq;
	int ret = -KFI_EINVAL;

	if (flags & ~(KFI_CQ_SOLICITED | KFI_CQ_NEXT_COMP | KFI_CQ_REPORT_MISSED))
		return -KFI_EINVAL;
	if (flags & KFI_CQ_NEXT_COMP)
		request = KFI_REQUEST_NEXT;
	else if (flags & KFI_CQ_SOLICITED)
		request = KFI_REQUEST_SOLICITED;
	else
		return -KFI_EINVAL;

	spin_lock_irqsave(&src->lock, irq);
	if (src->notify)
		ret = kfi_notify_request(src->notify, request);
	if (!ret && (flags & KFI_CQ_REPORT_MISSED))
		ret = src->ready;
	spin_unlock_irqrestore(&src->lock, irq);
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_cq_request);

/**
 * kfi_req_notify() - request one event
 * @cq: a CQ that is bound to a channel
 * @flags: KFI_CQ_SOLICITED: of the next solicited or failed completion;
 *	   KFI_CQ_NEXT_COMP, or both: of the next completion; in addition
 *	   KFI_CQ_REPORT_MISSED
 *
 * Takes effect before it returns. Only a stronger request replaces one that has not
 * made its event yet. An overrun and the loss of the device count as failures.
 *
 * Context: any; the caller holds no lock; takes source->lock and channel->lock.
 * Return: 0; 1 with KFI_CQ_REPORT_MISSED: an entry can be read that came before the
 * request and makes no event (the request stands all the same); -EINVAL for wrong
 * flags, or a CQ that has no channel or is being closed; -ENOMEM: an event of the
 * CQ is unread and there is no memory for another; -ENOBUFS: %KFI_CQ_EVENTS_MAX of
 * its events are unread.
 */
int kfi_req_notify(struct kfid_cq *cq, u32 flags)
{
	/* With manual progress: pending entries came before, and count as missed. */
	kfi_domain_progress(kfi_cq_source(cq)->domain);
	return kfi_cq_request(cq, flags);
}
EXPORT_SYMBOL_GPL(kfi_req_notify);

/**
 * kfi_notify_stored() - a completion was stored: does it make an event?
 * @src: its CQ
 * @solicited: it is solicited or failed
 *
 * Context: any; the caller holds @src->lock; takes channel->lock.
 * Return: the channel that the caller is to announce the event on, or NULL.
 */
struct kfi_channel *kfi_notify_stored(struct kfi_source *src, bool solicited)
{
	struct kfi_notify *n = src->notify;
	enum kfi_request least = solicited ? KFI_REQUEST_SOLICITED :
					     KFI_REQUEST_NEXT;
	struct kfi_channel *ch;

	lockdep_assert_held(&src->lock);
	if (!n || n->request < least)
		return NULL;
	ch = n->channel;
	n->request = KFI_REQUEST_NONE;
	spin_lock(&ch->lock);
	list_add_tail(&n->next->link, &ch->events);
	list_add_tail(&n->next->mine, &n->unread);
	n->count++;
	n->next = NULL;
	atomic_inc(&ch->queue.nready);
	spin_unlock(&ch->lock);
	return ch;
}

/**
 * kfi_notify_channel() - the channel of a CQ
 * @src: any source of the domain
 *
 * Context: any; the caller holds domain->lock, which keeps the source linked.
 * Return: NULL if it has none.
 */
struct kfi_channel *kfi_notify_channel(const struct kfi_source *src)
{
	lockdep_assert_held(&src->domain->lock);
	return src->notify ? src->notify->channel : NULL;
}

/**
 * kfi_notify_lose() - the device of a CQ is gone
 * @src: any source of the domain
 *
 * Context: any; the caller holds domain->lock; takes the channel's head.lock.
 */
void kfi_notify_lose(struct kfi_source *src)
{
	lockdep_assert_held(&src->domain->lock);
	if (src->notify)
		kfi_waitq_lose(&src->notify->channel->queue);
}

/* Join the channel unless the device is gone or another channel was bound first. */
static int kfi_notify_join(struct kfi_source *src, struct kfi_notify *n)
{
	int ret = 0;

	spin_lock_irq(&src->domain->lock);
	spin_lock(&src->lock);
	if (src->lost)
		ret = -KFI_ENODEV;
	else if (src->notify)
		ret = -KFI_EINVAL;
	else
		/* Pairs with kfi_notify_of(). */
		smp_store_release(&src->notify, n);
	spin_unlock(&src->lock);
	spin_unlock_irq(&src->domain->lock);
	return ret;
}

/**
 * kfi_cq_bind_channel() - have the events of a CQ go to a channel
 * @cq: the CQ; it can be bound once, and stays bound
 * @channel: of the same fabric; cannot be closed before the CQ
 *
 * Context: process, may sleep; the caller keeps both open; takes domain->lock and
 * source->lock.
 * Return: 0; -EINVAL: another fabric's channel, a channel that is being closed, or
 * a CQ that is bound already; -ENODEV if its device is gone; -ENOMEM.
 */
int kfi_cq_bind_channel(struct kfid_cq *cq, struct kfid_comp_channel *channel)
{
	struct kfi_channel *ch = kfi_channel_of(channel);
	struct kfi_source *src = kfi_cq_source(cq);
	struct kfi_notify *n;
	int ret;

	if (ch->fabric != src->fabric)
		return -KFI_EINVAL;
	n = kzalloc(sizeof(*n), GFP_KERNEL_ACCOUNT);
	if (!n)
		return -KFI_ENOMEM;
	n->src = src;
	n->channel = ch;
	INIT_LIST_HEAD(&n->first.link);
	INIT_LIST_HEAD(&n->unread);
	if (!kfi_fid_get(&channel->fid)) {
		kfree(n);
		return -KFI_EINVAL;
	}
	kfi_waitq_join(&ch->queue);
	ret = kfi_notify_join(src, n);
	if (ret) {
		kfi_waitq_leave(&ch->queue, false);
		kfi_fid_put(&channel->fid);
		kfree(n);
	}
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_cq_bind_channel);

/* Without a lock: another thread may be binding the CQ. */
static struct kfi_notify *kfi_notify_of(struct kfid_cq *cq)
{
	/* Pairs with kfi_notify_join(). */
	return smp_load_acquire(&kfi_cq_source(cq)->notify);
}

/**
 * kfi_notify_drained() - do the events of a CQ permit its close to end?
 * @n: of a CQ that is being closed
 *
 * Context: any; the caller holds channel->lock, since getting an event moves it
 * from one count to the other.
 * Return: true if no event is unread and none waits for an acknowledgment.
 */
bool kfi_notify_drained(const struct kfi_notify *n)
{
	lockdep_assert_held(&n->channel->lock);
	return !n->got && !n->count;
}

/**
 * kfi_notify_wake_closer() - wake the close of a CQ: its last event was acked
 * @n: its CQ may be closed by now
 *
 * The close sleeps on the CQ's own queue, where no other thread can be by then:
 *
 *	kfi_ack_cq_events()			kfi_close()
 *	-------------------			-----------
 *						closing; got is 1
 *						enqueues; looks: got is 1
 *	got = 0
 *	lock queue; finds it, wakes it		sleeps, is woken; got is 0
 *
 * Context: any; the caller has held the RCU read lock since before the CQ was
 * drained, which keeps @n and the CQ allocated; takes the queue's lock.
 */
void kfi_notify_wake_closer(struct kfi_notify *n)
{
	struct kfi_wake wake = {
		.source = n->src->id,
		.why = KFI_WHY_ACKED,
		.all = true,
	};

	lockdep_assert(rcu_read_lock_held());
	kfi_waitq_wake(&n->src->own, &wake);
}

/**
 * kfi_ack_cq_events() - acknowledge events that were got
 * @cq: their CQ; it may be being closed
 * @nevents: how many, at most as many as were got
 *
 * Context: any; takes channel->lock and the CQ's head.lock.
 * Return: 0; -EINVAL: more than were got; nothing was acknowledged then.
 */
int kfi_ack_cq_events(struct kfid_cq *cq, unsigned int nevents)
{
	struct kfi_notify *n;
	unsigned long flags;
	bool last;

	/* After the last ack the CQ may be freed before its closer is woken. */
	rcu_read_lock();
	n = kfi_notify_of(cq);
	if (!n) {
		rcu_read_unlock();
		return nevents ? -KFI_EINVAL : 0;
	}
	spin_lock_irqsave(&n->channel->lock, flags);
	if (nevents > n->got) {
		spin_unlock_irqrestore(&n->channel->lock, flags);
		rcu_read_unlock();
		return -KFI_EINVAL;
	}
	n->got -= nevents;
	last = nevents && n->closing && kfi_notify_drained(n);
	spin_unlock_irqrestore(&n->channel->lock, flags);
	if (last)
		kfi_notify_wake_closer(n);
	rcu_read_unlock();
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_ack_cq_events);

/**
 * kfi_notify_close() - the close of a CQ has begun
 * @src: the CQ; no thread reports to it or requests any more, but device loss may
 *	 still be published
 *
 * Its unread events are dropped, except one that is being handed out.
 *
 * Context: process, interrupts on; takes @src->lock and channel->lock.
 */
void kfi_notify_close(struct kfi_source *src)
{
	struct kfi_notify *n = src->notify;
	struct kfi_cq_event *event, *next;
	LIST_HEAD(over);

	if (!n)
		return;
	spin_lock_irq(&src->lock);
	n->request = KFI_REQUEST_NONE;
	if (n->next)
		list_add(&n->next->link, &over);
	n->next = NULL;
	spin_lock(&n->channel->lock);
	WRITE_ONCE(n->closing, true);
	list_for_each_entry_safe(event, next, &n->unread, mine) {
		if (event == n->channel->held)
			continue;
		kfi_channel_drop(n->channel, event);
		list_add(&event->link, &over);
	}
	spin_unlock(&n->channel->lock);
	spin_unlock_irq(&src->lock);
	list_for_each_entry_safe(event, next, &over, link)
		kfi_event_free(event);
}

static bool kfi_notify_acked(void *arg)
{
	struct kfi_notify *n = arg;
	unsigned long flags;
	bool acked;

	spin_lock_irqsave(&n->channel->lock, flags);
	acked = kfi_notify_drained(n);
	spin_unlock_irqrestore(&n->channel->lock, flags);
	return acked;
}

/**
 * kfi_notify_drain() - wait until all events of a CQ are acknowledged
 * @src: the CQ, being closed
 *
 * Context: process, may sleep; takes channel->lock and the CQ's head.lock.
 * Return: 0 or -EINTR; then it is still being closed.
 */
int kfi_notify_drain(struct kfi_source *src)
{
	struct kfi_notify *n = src->notify;
	struct kfi_waiter w;
	int ret;

	if (!n || kfi_notify_acked(n))
		return 0;
	kfi_waiter_init(&w, &src->own, 0, false);
	do {
		ret = kfi_waitq_sleep(&w, kfi_notify_acked, n, KFI_DEADLINE_NONE);
	} while (!ret && !kfi_notify_acked(n));
	kfi_waiter_end(&w, ret);
	return ret;
}

/**
 * kfi_notify_fini() - end a CQ's side of its channel
 * @src: the CQ, closed and off its domain's list
 *
 * Context: process, interrupts on; takes the channel's head.lock.
 */
void kfi_notify_fini(struct kfi_source *src)
{
	struct kfi_notify *n = src->notify;

	if (!n)
		return;
	kfi_waitq_leave(&n->channel->queue, src->lost);
	kfi_fid_put(&n->channel->channel.fid);
	kfree_rcu(n, rcu);
}

/**
 * kfi_cq_unacked() - does the close of a CQ have to wait?
 * @cq: the CQ; its close has begun
 *
 * Context: any; takes channel->lock.
 * Return: true while events wait for an acknowledgment or are being handed out.
 */
bool kfi_cq_unacked(struct kfid_cq *cq)
{
	struct kfi_notify *n = kfi_notify_of(cq);

	return n && !kfi_notify_acked(n);
}
EXPORT_SYMBOL_GPL(kfi_cq_unacked);

/**
 * kfi_cq_discard_events() - stop waiting for acknowledgments
 * @cq: the CQ; its close has begun, or the last reader of its events is gone
 *
 * No event of the CQ needs an acknowledgment any more, also not one that is being
 * handed out. Wakes a close that waits.
 *
 * Context: any; takes channel->lock and the CQ's head.lock.
 */
void kfi_cq_discard_events(struct kfid_cq *cq)
{
	struct kfi_notify *n;
	unsigned long flags;
	bool over;

	rcu_read_lock();
	n = kfi_notify_of(cq);
	if (!n) {
		rcu_read_unlock();
		return;
	}
	spin_lock_irqsave(&n->channel->lock, flags);
	n->discarded = true;
	n->got = 0;
	over = n->closing && kfi_notify_drained(n);
	spin_unlock_irqrestore(&n->channel->lock, flags);
	if (over)
		kfi_notify_wake_closer(n);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(kfi_cq_discard_events);
