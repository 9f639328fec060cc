// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Completion channels: the events of many CQs in the order in which they happened.
 *
 * DOC: Why no event is lost
 *
 * An event is put on the channel's list together with the entry that makes it,
 * under the CQ's lock. It is announced like any publication: first everything is
 * stored, then the channel's queue is woken, one sleeper for one event. The table
 * is that of waitq.c; the look is "an event is on the list".
 *
 * DOC: Why no thread stays in a channel that is closed
 *
 *	kfi_close()				getter
 *	-----------				------
 *						enqueues; looks: nothing
 *	gone = true
 *	lock queue; finds it, marks it		sleeps, is woken
 *						gone: -EBADF; drops its reference
 *	drops its own reference
 *
 * A getter that comes later sees gone when it looks. The last reference frees.
 */
#include <linux/slab.h>

#include <kfi_enosys.h>

#include "channel.h"

/**
 * kfi_event_free() - free an event that is over
 * @event: on no list
 *
 * Context: any; takes no lock.
 */
void kfi_event_free(struct kfi_cq_event *event)
{
	if (event != &event->notify->first)
		kfree(event);
}

/**
 * kfi_channel_drop() - take an event off the lists
 * @ch: the channel
 * @event: one of its events; the caller frees it
 *
 * Context: any; the caller holds @ch->lock.
 */
void kfi_channel_drop(struct kfi_channel *ch, struct kfi_cq_event *event)
{
	lockdep_assert_held(&ch->lock);
	list_del_init(&event->link);
	list_del_init(&event->mine);
	event->notify->count--;
	atomic_dec(&ch->queue.nready);
}

/**
 * kfi_channel_number() - number the publication of an event
 * @ch: the channel; the event is stored
 *
 * Context: any; takes no lock.
 * Return: the number, for kfi_channel_announce().
 */
u64 kfi_channel_number(struct kfi_channel *ch)
{
	return atomic64_inc_return(&ch->queue.pubs);
}

/**
 * kfi_channel_announce() - wake for an event, or for the end of the last device
 * @ch: the channel
 * @source: id of the CQ
 * @seq: the publication's number
 *
 * Context: any; the caller holds none of our locks but domain->lock; takes the
 * channel's head.lock.
 */
void kfi_channel_announce(struct kfi_channel *ch, u32 source, u64 seq)
{
	const bool dead = READ_ONCE(ch->queue.dead);
	struct kfi_wake wake = {
		.seq = seq,
		.have = atomic_read(&ch->queue.nready),
		.source = source,
		.why = dead ? KFI_WHY_LOST : KFI_WHY_EVENT,
		.all = dead,
	};

	kfi_test_hook_point(KFI_HOOK_D3, ch->queue.id);
	kfi_waitq_wake(&ch->queue, &wake);
}

/* A woken thread leaves without its event; as kfi_hand_on(). */
static void kfi_channel_hand_on(struct kfi_channel *ch)
{
	struct kfi_wake wake = {
		.have = atomic_read(&ch->queue.nready),
		.source = ch->queue.id,
		.why = KFI_WHY_HANDON,
	};

	if (wake.have)
		kfi_waitq_wake(&ch->queue, &wake);
}

/**
 * kfi_channel_peek() - hold the oldest event, to hand it out
 * @channel: the channel
 * @cq: its CQ, which stays allocated while the event is held
 *
 * kfi_channel_settle() must follow.
 *
 * Context: any; the caller serialises the two calls against other getters of the
 * channel; takes channel->lock.
 * Return: 0, or -EAGAIN: there is none.
 */
int kfi_channel_peek(struct kfid_comp_channel *channel, struct kfid_cq **cq)
{
	struct kfi_channel *ch = kfi_channel_of(channel);
	struct kfi_cq_event *event;
	unsigned long flags;

	spin_lock_irqsave(&ch->lock, flags);
	event = list_first_entry_or_null(&ch->events, struct kfi_cq_event, link);
	ch->held = event;
	if (event)
		*cq = container_of(event->notify->src->fid, struct kfid_cq, fid);
	spin_unlock_irqrestore(&ch->lock, flags);
	return event ? 0 : -KFI_EAGAIN;
}
EXPORT_SYMBOL_GPL(kfi_channel_peek);

/**
 * kfi_channel_settle() - end holding an event: it was handed out, or could not be
 * @channel: the channel
 * @fate: what becomes of it; an event of a CQ that is being closed is never kept
 *
 * Context: any; serialised as kfi_channel_peek(); takes channel->lock and the CQ's
 * head.lock.
 */
void kfi_channel_settle(struct kfid_comp_channel *channel,
			enum kfi_event_fate fate)
{
	struct kfi_channel *ch = kfi_channel_of(channel);
	struct kfi_cq_event *event;
	struct kfi_notify *n;
	unsigned long flags;
	bool gone;

	/* The CQ's close waits for this event; RCU keeps the CQ until it is woken. */
	rcu_read_lock();
	spin_lock_irqsave(&ch->lock, flags);
	event = ch->held;
	ch->held = NULL;
	n = event->notify;
	gone = fate != KFI_EVENT_KEPT || n->closing;
	n->got += fate == KFI_EVENT_GOT && !n->discarded;
	if (gone) {
		kfi_channel_drop(ch, event);
		kfi_event_free(event);
	}
	gone = n->closing && kfi_notify_drained(n);
	spin_unlock_irqrestore(&ch->lock, flags);
	if (gone)
		kfi_notify_wake_closer(n);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(kfi_channel_settle);

static bool kfi_channel_found(void *arg)
{
	struct kfi_channel *ch = arg;

	return READ_ONCE(ch->gone) || READ_ONCE(ch->queue.dead) ||
	       atomic_read(&ch->queue.nready) > 0;
}

/*
 * Look, sleep, take. A thread that finds the event taken by another one sleeps again.
 * The end of the channel is read before the take: earlier events are still taken.
 */
static ssize_t kfi_channel_wait_loop(struct kfi_channel *ch, struct kfi_waiter *w,
				     ktime_t deadline, kfi_take_fn take, void *arg)
{
	bool gone, dead;
	ssize_t n;
	int ret;

	for (;;) {
		ret = kfi_waitq_sleep(w, kfi_channel_found, ch, deadline);
		if (ret == -EINTR)
			return ret;
		gone = READ_ONCE(ch->gone);
		/* Pairs with kfi_waitq_check_dead(). */
		dead = smp_load_acquire(&ch->queue.dead);
		n = take(arg);
		if (n != -KFI_EAGAIN)
			return n;
		if (gone)
			return -EBADF;
		if (dead)
			return -KFI_ENODEV;
		if (ret)
			return ret;
	}
}

/**
 * kfi_channel_wait_take() - a blocking get with a caller's own way to take
 * @channel: the channel; the caller keeps its memory, but it may be closed
 * @deadline: absolute, monotonic
 * @take: one attempt; called without a lock, never while enqueued
 * @arg: for @take
 *
 * Context: process, may sleep; takes the channel's head.lock. With
 * %KFI_DEADLINE_NOW any, as far as @take allows.
 * Return: the result of @take, unless that was -EAGAIN; then -EAGAIN with
 * %KFI_DEADLINE_NOW, -ETIMEDOUT, -EINTR, -EBADF: the channel was closed, -ENODEV:
 * the devices of all its CQs are gone.
 */
ssize_t kfi_channel_wait_take(struct kfid_comp_channel *channel, ktime_t deadline,
			      kfi_take_fn take, void *arg)
{
	struct kfi_channel *ch = kfi_channel_of(channel);
	struct kfi_waiter w;
	ssize_t n;

	kfi_waiter_init(&w, &ch->queue, 1, true);
	n = kfi_channel_wait_loop(ch, &w, deadline, take, arg);
	if (n == -KFI_ETIMEDOUT && deadline == KFI_DEADLINE_NOW)
		n = -KFI_EAGAIN;
	if (n < 0 && w.why)
		kfi_channel_hand_on(ch);
	kfi_waiter_end(&w, n);
	return n;
}
EXPORT_SYMBOL_GPL(kfi_channel_wait_take);

struct kfi_event_args {
	struct kfid_comp_channel *channel;
	struct kfid_cq *cq;
	void *context;
};

/* Get and remove in one step: nothing between the two can fail. */
static ssize_t kfi_event_take(void *arg)
{
	struct kfi_event_args *a = arg;
	struct kfi_channel *ch = kfi_channel_of(a->channel);
	struct kfi_cq_event *event;
	unsigned long flags;

	spin_lock_irqsave(&ch->lock, flags);
	event = list_first_entry_or_null(&ch->events, struct kfi_cq_event, link);
	if (event) {
		a->cq = container_of(event->notify->src->fid, struct kfid_cq, fid);
		a->context = a->cq->fid.context;
		event->notify->got++;
		kfi_channel_drop(ch, event);
		kfi_event_free(event);
	}
	spin_unlock_irqrestore(&ch->lock, flags);
	return event ? 1 : -KFI_EAGAIN;
}

/**
 * kfi_get_cq_event() - wait for the next event of a channel
 * @channel: the channel
 * @cq: the CQ of the event; stays open until the event is acknowledged
 * @context: of that CQ; or NULL
 * @timeout: milliseconds; 0: one check, negative: no limit
 *
 * kfi_ack_cq_events() must follow. The channel may be closed during the call (if it
 * has no CQs), but not before.
 *
 * Context: process, may sleep, interrupts on; takes channel->lock and the channel's
 * head.lock. With @timeout 0 it does not sleep.
 * Return: 0; -EAGAIN: no event, with @timeout 0; -ETIMEDOUT; -EINTR; -EBADF: the
 * channel was closed; -ENODEV: the devices of all its CQs are gone, and no event is
 * left; -EINVAL without @cq.
 */
int kfi_get_cq_event(struct kfid_comp_channel *channel, struct kfid_cq **cq,
		     void **context, int timeout)
{
	struct kfi_event_args args = { .channel = channel };
	ssize_t ret;

	if (!cq)
		return -KFI_EINVAL;
	kfi_channel_hold(channel);
	ret = kfi_channel_wait_take(channel, kfi_deadline(timeout),
				    kfi_event_take, &args);
	if (ret > 0) {
		*cq = args.cq;
		if (context)
			*context = args.context;
	}
	kfi_channel_put(channel);
	return ret < 0 ? ret : 0;
}
EXPORT_SYMBOL_GPL(kfi_get_cq_event);

/**
 * kfi_channel_hold() - keep a channel's memory beyond its close
 * @channel: the channel
 *
 * Context: any; takes no lock.
 */
void kfi_channel_hold(struct kfid_comp_channel *channel)
{
	kref_get(&kfi_channel_of(channel)->ref);
}
EXPORT_SYMBOL_GPL(kfi_channel_hold);

static void kfi_channel_free(struct kref *ref)
{
	struct kfi_channel *ch = container_of(ref, struct kfi_channel, ref);

	WARN_ON_ONCE(!list_empty(&ch->events));
	kfi_waitq_fini(&ch->queue);
	kfi_trace(object_free, ch->queue.id, KFI_CLASS_COMP_CHANNEL, 0);
	kfree_rcu(ch, rcu);
}

/**
 * kfi_channel_put() - the mirror of kfi_channel_hold()
 * @channel: the channel
 *
 * Context: process, interrupts on; the last reference takes the channel's head.lock.
 */
void kfi_channel_put(struct kfid_comp_channel *channel)
{
	kref_put(&kfi_channel_of(channel)->ref, kfi_channel_free);
}
EXPORT_SYMBOL_GPL(kfi_channel_put);

/* Unlike other objects, a channel can be closed while threads sleep in it. */
static int kfi_channel_close(struct kfid *fid)
{
	struct kfi_channel *ch = container_of(fid, struct kfi_channel, channel.fid);
	struct kfi_wake wake = {
		.source = ch->queue.id,
		.why = KFI_WHY_CLOSED,
		.all = true,
	};
	int ret;

	ret = kfi_fid_kill(fid);
	if (ret)
		return ret;
	WRITE_ONCE(ch->gone, true);
	kfi_waitq_wake(&ch->queue, &wake);
	kfi_watch_end(&ch->queue);
	kfi_fid_put(&ch->fabric->fabric.fid);
	kfi_listed_del(&ch->listed);
	kfi_channel_put(&ch->channel);
	return 0;
}

static struct kfi_ops kfi_channel_fid_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops),
	.close = kfi_channel_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

/**
 * kfi_channel_queue() - the queue of a channel
 * @fid: a channel
 *
 * Context: any; takes no lock.
 * Return: valid as long as the channel's memory.
 */
struct kfi_waitq *kfi_channel_queue(struct kfid *fid)
{
	return &container_of(fid, struct kfi_channel, channel.fid)->queue;
}

/**
 * kfi_comp_channel_open() - make a completion channel
 * @fabric: parent; the CQs of all its domains may share the channel
 * @channel: the new channel
 * @context: the user's
 *
 * kfi_close() ends it: -EBUSY while it has CQs; threads asleep in it get -EBADF.
 *
 * Context: process, may sleep.
 * Return: 0; -EINVAL without @fabric or @channel, or if the fabric is being closed;
 * -ENOMEM.
 */
int kfi_comp_channel_open(struct kfid_fabric *fabric,
			  struct kfid_comp_channel **channel, void *context)
{
	struct kfi_channel *ch;

	if (!fabric || !channel)
		return -KFI_EINVAL;
	ch = kzalloc(sizeof(*ch), GFP_KERNEL_ACCOUNT);
	if (!ch)
		return -KFI_ENOMEM;
	if (!kfi_fid_get(&fabric->fid)) {
		kfree(ch);
		return -KFI_EINVAL;
	}
	ch->fabric = kfi_fabric_of(fabric);
	kref_init(&ch->ref);
	spin_lock_init(&ch->lock);
	INIT_LIST_HEAD(&ch->events);
	kfi_fid_init(&ch->channel.fid, KFI_CLASS_COMP_CHANNEL, context,
		     &kfi_channel_fid_ops);
	kfi_waitq_init(&ch->queue, &ch->channel.fid, kfi_new_id());
	kfi_trace(object_new, ch->queue.id, KFI_CLASS_COMP_CHANNEL,
		  ch->fabric->id);
	kfi_listed_add(&ch->listed, &ch->channel.fid);
	*channel = &ch->channel;
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_comp_channel_open);
