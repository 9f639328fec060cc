// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * From a report to its wake-ups: kfi_publish() is the second phase of every
 * report. kfi_ep_complete() runs both phases for a completion. Each store
 * fills in a target for the second phase, so no producer can forget to wake.
 */
#include "core.h"

/* Does an earlier target have the same queue? */
static bool kfi_shares_queue(const struct kfi_target *targets, unsigned int i)
{
	unsigned int k;

	for (k = 0; k < i; k++)
		if (targets[k].src &&
		    targets[k].src->queue == targets[i].src->queue)
			return true;
	return false;
}

/*
 * Number the publication on each distinct queue. A target that shares the queue of
 * an earlier one keeps number 0: that queue is woken once, for both. The increment
 * is a full barrier: a thread that reads the number sees the stored entries.
 */
static void kfi_number(struct kfi_target *targets, unsigned int n)
{
	struct kfi_source *src;
	unsigned int i;

	for (i = 0; i < n; i++) {
		src = targets[i].src;
		if (src && src->queue && !kfi_shares_queue(targets, i))
			targets[i].wake.seq =
				atomic64_inc_return(&src->queue->pubs);
		if (targets[i].channel)
			targets[i].event =
				kfi_channel_number(targets[i].channel);
	}
}

/* Wake threads that poll a descriptor of a member; the set's queue has others. */
static void kfi_source_watchers(struct kfi_source *src, enum kfi_why why)
{
	unsigned long flags;

	if (!READ_ONCE(src->own.watch))
		return;
	spin_lock_irqsave(&src->own.head.lock, flags);
	kfi_watch_wake(&src->own, why);
	spin_unlock_irqrestore(&src->own.head.lock, flags);
}

/**
 * kfi_publish() - wake for stored entries
 * @targets: the objects, all of which have stored; at most a handful
 * @n: their number
 *
 * A provider keeps the objects open by its bindings. A ULP that publishes by a call
 * of the API on its own object cannot: a thread that finds the stored entry may
 * close the object before the wake-up. Such a call holds the RCU read lock from
 * before its store, and objects are freed by RCU:
 *
 *	kfi_eq_write()			T
 *	--------------			-
 *	rcu_read_lock(); stores
 *					looks, finds the event, takes it
 *					kfi_close(): kfree_rcu()
 *	wakes: the queue is empty
 *	rcu_read_unlock()		freed
 *
 * Context: any; the caller holds none of our locks but kfi_pep_lock or
 * domain->lock; takes the locks of each source and of each queue in turn.
 */
void kfi_publish(struct kfi_target *targets, unsigned int n)
{
	struct kfi_source *src;
	unsigned int i;

	kfi_number(targets, n);
	for (i = 0; i < n; i++) {
		src = targets[i].src;
		if (!src)
			continue;
		kfi_test_hook_point(KFI_HOOK_D3, src->id);
		if (targets[i].fire)
			kfi_source_fire(src);
		if (src->set)
			kfi_source_watchers(src, targets[i].wake.why);
		if (targets[i].wake.seq)
			kfi_waitq_wake(src->queue, &targets[i].wake);
		if (targets[i].channel)
			kfi_channel_announce(targets[i].channel, src->id,
					     targets[i].event);
	}
}

/**
 * kfi_hand_on() - give a wake-up that was not used to another waiter
 * @src: a CQ or EQ with a queue of its own
 * @have: entries in it
 *
 *	T1 (woken for the entry)	T2 (asleep)
 *	------------------------	-----------
 *	off the queue, marked
 *	a signal ends its call
 *	entry still there: hand on
 *					woken, takes the entry
 *
 * Context: any; takes the queue's lock.
 */
void kfi_hand_on(struct kfi_source *src, u64 have)
{
	struct kfi_wake wake = {
		.have = have,
		.source = src->id,
		.why = KFI_WHY_HANDON,
	};

	if (have)
		kfi_waitq_wake(src->queue, &wake);
}

static enum kfi_ep_cntr kfi_completion_cntr(u64 flags)
{
	if (flags & KFI_REMOTE_WRITE)
		return KFI_EP_CNTR_REMOTE_WRITE;
	if (flags & KFI_REMOTE_READ)
		return KFI_EP_CNTR_REMOTE_READ;
	if (flags & KFI_RECV)
		return KFI_EP_CNTR_RECV;
	if (flags & KFI_SEND)
		return KFI_EP_CNTR_SEND;
	return flags & KFI_WRITE ? KFI_EP_CNTR_WRITE : KFI_EP_CNTR_READ;
}

static bool kfi_completion_is_rx(u64 flags)
{
	return flags & (KFI_RECV | KFI_REMOTE_READ | KFI_REMOTE_WRITE |
			KFI_MULTI_RECV);
}

/* Does it only give back a multi-receive buffer, without a message? */
static bool kfi_completion_is_release(u64 flags)
{
	return flags & KFI_MULTI_RECV && !(flags & KFI_RECV);
}

/* Count a completion, store it, and wake the waiters. */
static void kfi_completion_publish(struct kfi_ep_base *base,
				   const struct kfi_completion *comp,
				   bool want_entry)
{
	enum kfi_ep_cntr dir = kfi_completion_cntr(comp->flags);
	struct kfi_target targets[2] = { };
	struct kfid_cntr *cntr = kfi_completion_is_release(comp->flags) ?
				 NULL : base->cntr[dir];
	struct kfid_cq *cq;

	atomic64_inc(&base->completions);
	if (unlikely(comp->err)) {
		/* In this order: see counts.c. */
		smp_wmb();
		atomic64_inc(&base->errors);
	}
	cq = kfi_completion_is_rx(comp->flags) ? base->rx_cq : base->tx_cq;
	if (cq && (want_entry || comp->err))
		kfi_cq_store(cq, comp, &targets[0]);
	if (cntr)
		kfi_cntr_count(cntr,
			       comp->err ? KFI_WHY_ERROR : KFI_WHY_EVENT,
			       &targets[1]);
	kfi_publish(targets, ARRAY_SIZE(targets));
}

/**
 * kfi_ep_complete() - report a finished operation
 * @base: the endpoint that it was posted to, or that it arrived at
 * @comp: the completion; copied
 * @want_entry: its success writes a CQ entry, see kfi_ep_wants_tx(). Errors
 *		always do, and counters count in any case.
 *
 * Shows the completion to the endpoint's watcher, stores it in the CQ and counts it,
 * then wakes the waiters of both.
 * Cannot fail: a full CQ is overrun, and its readers get that error.
 *
 * Context: any; the caller keeps the endpoint open and its bindings in place, and
 * holds no lock of the core; takes source->lock and queue->head.lock.
 */
void kfi_ep_complete(struct kfi_ep_base *base, const struct kfi_completion *comp,
		     bool want_entry)
{
	struct kfi_completion watched;

	if (base->watch && comp->state != KFI_OP_NONE && comp->context) {
		watched = *comp;
		base->watch(&base->ep, &watched);
		comp = &watched;
	}
	kfi_completion_publish(base, comp, want_entry);
}
EXPORT_SYMBOL_GPL(kfi_ep_complete);

/**
 * kfi_ep_watch() - see the completions of an endpoint before their readers do
 * @ep: the endpoint, or a context of a scalable one; no operation was posted on it yet
 * @watch: called with each completion of a posted operation, also with one that writes
 *	   no entry; not called for operations that the endpoint's close, or the loss of
 *	   its device, ends without a report
 *
 * Context: process; takes no lock.
 */
void kfi_ep_watch(struct kfid_ep *ep, kfi_ep_watch_fn watch)
{
	container_of(ep, struct kfi_ep_base, ep)->watch = watch;
}
EXPORT_SYMBOL_GPL(kfi_ep_watch);
