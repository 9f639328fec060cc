// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The common part of a CQ, an EQ and a counter: a place in a wait set or a queue of
 * their own, memberships in poll sets, a handler, a parent.
 */
#include <linux/module.h>

#include "core.h"

static unsigned int handler_delay_us;
module_param(handler_delay_us, uint, 0644);
MODULE_PARM_DESC(handler_delay_us, "delay of completion and event handlers, so that one call handles more (us; default 0)");

/* Choose the queue for the object's waiters. Takes a reference to the wait set. */
static int kfi_source_choose_queue(struct kfi_source *src,
				   const struct kfi_source_attr *attr)
{
	if (attr->set && attr->wait_obj != KFI_WAIT_SET)
		return -EINVAL;

	switch (attr->wait_obj) {
	case KFI_WAIT_NONE:
		return 0;
	case KFI_WAIT_UNSPEC:
	case KFI_WAIT_QUEUE:
	case KFI_WAIT_MUTEX_COND:
		src->queue = &src->own;
		return 0;
	case KFI_WAIT_SET:
		if (!attr->set || !kfi_wait_on_fabric(attr->set, attr->fabric))
			return -EINVAL;
		if (!kfi_fid_get(&attr->set->kfid))
			return -EINVAL;
		src->set = attr->set;
		src->queue = kfi_wait_queue(attr->set);
		kfi_waitq_join(src->queue);
		return 0;
	case KFI_WAIT_FD:
	case KFI_WAIT_POLLFD:
	case KFI_WAIT_YIELD:
		return -ENOSYS;
	default:
		return -EINVAL;
	}
}

static void kfi_source_leave_queue(struct kfi_source *src)
{
	if (!src->set)
		return;
	kfi_waitq_leave(src->queue, src->lost);
	kfi_trace(member_del, src->queue->id, src->id, src->fid->fclass);
	kfi_fid_put(&src->set->kfid);
}

static struct kfid *kfi_source_parent(const struct kfi_source *src)
{
	return src->domain ? &src->domain->domain.fid :
			     &src->fabric->fabric.fid;
}

/* Takes a reference to the parent. A domain whose device is gone refuses. */
static int kfi_source_join_parent(struct kfi_source *src)
{
	struct kfi_domain_base *domain = src->domain;
	int ret = 0;

	if (!kfi_fid_get(kfi_source_parent(src)))
		return -EINVAL;
	if (!domain)
		return 0;

	spin_lock_irq(&domain->lock);
	if (domain->lost) {
		ret = -ENODEV;
	} else {
		src->number = ++domain->opens;
		list_add_tail_rcu(&src->sibling, &domain->sources);
	}
	spin_unlock_irq(&domain->lock);
	if (ret)
		kfi_fid_put(kfi_source_parent(src));
	return ret;
}

static enum hrtimer_restart kfi_source_moderated(struct hrtimer *timer)
{
	struct kfi_source *src = container_of(timer, struct kfi_source,
					      moderation);

	queue_work_on(src->cpu, kfi_handler_wq, &src->handler);
	return HRTIMER_NORESTART;
}

static void kfi_source_set_handler(struct kfi_source *src, work_func_t handler)
{
	src->handled = handler;
	src->armed = handler;
	kfi_hrtimer_setup(&src->moderation, kfi_source_moderated, CLOCK_MONOTONIC,
			  HRTIMER_MODE_REL_SOFT);
	if (handler)
		INIT_WORK(&src->handler, handler);
}

static void kfi_source_flush(struct kfi_source *src)
{
	if (!src->handler.func)
		return;
	/* In this order: the timer queues the work. */
	hrtimer_cancel(&src->moderation);
	cancel_work_sync(&src->handler);
}

static void kfi_source_leave_parent(struct kfi_source *src)
{
	struct kfi_domain_base *domain = src->domain;

	if (domain) {
		spin_lock_irq(&domain->lock);
		list_del_rcu(&src->sibling);
		src->left = true;
		kfi_source_keep_counts(src);
		spin_unlock_irq(&domain->lock);
	}
	kfi_notify_fini(src);
	kfi_fid_put(kfi_source_parent(src));
}

/**
 * kfi_source_init() - begin a CQ, EQ or counter
 * @src: zeroed, inside the object
 * @fid: the object's base, complete
 * @attr: how it is opened
 *
 * The last step of an open: from here on device loss may be published on it.
 *
 * Context: process, may sleep; takes domain->lock and kfi_listed_lock.
 * Return: 0; -EINVAL for attributes that do not fit, or if the parent or the wait
 * set is being closed; -ENOSYS for a wait object that is not offered; -ENODEV if
 * the domain's device is gone.
 */
int kfi_source_init(struct kfi_source *src, struct kfid *fid,
		    const struct kfi_source_attr *attr)
{
	int ret;

	spin_lock_init(&src->lock);
	INIT_LIST_HEAD(&src->members);
	src->fid = fid;
	src->fabric = attr->fabric;
	src->domain = attr->domain;
	src->wait_obj = attr->wait_obj;
	src->cpu = attr->cpu;
	kfi_source_set_handler(src, attr->handler);

	ret = kfi_source_choose_queue(src, attr);
	if (ret)
		return ret;
	src->id = kfi_new_id();
	kfi_waitq_init(&src->own, fid, src->id);
	kfi_waitq_join(&src->own);
	kfi_trace(object_new, src->id, fid->fclass,
		  kfi_fid_id(kfi_source_parent(src)));
	if (src->set)
		kfi_trace(member_add, src->queue->id, src->id, fid->fclass);

	ret = kfi_source_join_parent(src);
	if (ret) {
		kfi_source_leave_queue(src);
		kfi_waitq_fini(&src->own);
		kfi_trace(object_free, src->id, fid->fclass, 0);
		return ret;
	}
	kfi_listed_add(&src->listed, fid);
	return 0;
}

/**
 * kfi_source_set_ready() - update readiness after a store or a read
 * @src: the source
 * @ready: something can be read. A source that is being closed is not ready,
 *	   whatever is left in it.
 *
 * Context: any; the caller holds @src->lock.
 */
void kfi_source_set_ready(struct kfi_source *src, bool ready)
{
	lockdep_assert_held(&src->lock);
	ready = ready && !src->closing;
	if (src->ready == ready)
		return;
	/* Pairs with the acquire of a poll set that looks without the lock. */
	smp_store_release(&src->ready, ready);
	atomic_add(ready ? 1 : -1, &src->own.nready);
	if (src->set)
		atomic_add(ready ? 1 : -1, &src->queue->nready);
}

/**
 * kfi_source_kill() - the point of no return of a close
 * @src: the source
 *
 * Waits until a running handler of the ULP returns; none runs afterwards.
 *
 * Context: process, may sleep; not in the object's own handler; takes @src->lock.
 * Return: 0; -EBUSY if the object is in use or the caller is its handler; nothing
 * has changed then.
 */
int kfi_source_kill(struct kfi_source *src)
{
	int ret;

	/* Another close may have begun. */
	if (READ_ONCE(src->handled) && current_work() == &src->handler)
		return -EBUSY;
	ret = kfi_waitq_kill(&src->own);
	if (ret)
		return ret;

	/* From here on, a read in the running handler does not arm it again. */
	spin_lock_irq(&src->lock);
	WRITE_ONCE(src->handled, false);
	src->armed = false;
	src->closing = true;
	kfi_source_taken(src, 0);
	spin_unlock_irq(&src->lock);
	kfi_watch_end(&src->own);
	kfi_source_flush(src);
	return 0;
}

/**
 * kfi_source_fire() - have the handler called
 * @src: the source
 *
 * Does nothing once the close has begun: the close waits for earlier calls. With
 * handler_delay_us, a timer that is already queued covers this call, too.
 *
 * Context: any; takes @src->lock.
 */
void kfi_source_fire(struct kfi_source *src)
{
	u64 delay = READ_ONCE(handler_delay_us);
	unsigned long flags;

	spin_lock_irqsave(&src->lock, flags);
	if (src->handled && !delay)
		queue_work_on(src->cpu, kfi_handler_wq, &src->handler);
	else if (src->handled && !hrtimer_is_queued(&src->moderation))
		hrtimer_start(&src->moderation,
			      ns_to_ktime(delay * NSEC_PER_USEC),
			      HRTIMER_MODE_REL_SOFT);
	spin_unlock_irqrestore(&src->lock, flags);
}

/**
 * kfi_source_fini() - end a killed source
 * @src: unlinked from everything on return; may be freed by RCU
 *
 * Context: process, may sleep; takes kfi_listed_lock and domain->lock.
 */
void kfi_source_fini(struct kfi_source *src)
{
	WARN_ON_ONCE(!list_empty(&src->members));
	kfi_listed_del(&src->listed);
	kfi_source_leave_parent(src);
	kfi_source_leave_queue(src);
	kfi_waitq_fini(&src->own);
	kfi_trace(object_free, src->id, src->fid->fclass, 0);
}

/**
 * kfi_source_taken_elsewhere() - entries were read, by a thread that is not known
 * @src: the source
 * @left: entries that can still be read
 *
 * Context: any; the caller holds @src->lock.
 */
void kfi_source_taken_elsewhere(struct kfi_source *src, u64 left)
{
	lockdep_assert_held(&src->lock);
	kfi_source_set_ready(src, left);
	if (src->set)
		kfi_turn_used_elsewhere(src, left);
}

/**
 * kfi_source_taken() - this thread has read entries
 * @src: the source
 * @left: entries that can still be read
 *
 * Context: any; the caller holds @src->lock.
 */
void kfi_source_taken(struct kfi_source *src, u64 left)
{
	lockdep_assert_held(&src->lock);
	kfi_source_set_ready(src, left);
	if (src->set)
		kfi_turn_used(src, left);
}

/**
 * kfi_source_lose() - the device is gone
 * @src: the source; its last entry is stored
 *
 * The caller publishes afterwards.
 *
 * Context: any; the caller holds domain->lock.
 */
void kfi_source_lose(struct kfi_source *src)
{
	lockdep_assert_held(&src->domain->lock);
	/* No release: src->lock orders the last entry, see kfi_source_lost(). */
	WRITE_ONCE(src->lost, true);
	kfi_waitq_lose(&src->own);
	if (src->set)
		kfi_waitq_lose(src->queue);
	kfi_notify_lose(src);
}

/**
 * kfi_source_stored() - an entry was stored and can be read
 * @src: the source
 * @why: kind of entry; KFI_WHY_OVERRUN: there was no room for it
 * @fill: entries stored now; 0 for a counter
 *
 * The caller publishes afterwards.
 *
 * Context: any; the caller holds @src->lock.
 * Return: true if the object's handler is to run.
 */
bool kfi_source_stored(struct kfi_source *src, enum kfi_why why, u64 fill)
{
	bool fire = src->armed;

	lockdep_assert_held(&src->lock);
	if (why == KFI_WHY_OVERRUN)
		src->counts.overruns++;
	if (fill > src->counts.deepest)
		src->counts.deepest = fill;
	kfi_source_set_ready(src, true);
	kfi_poll_notify(src, why);
	src->armed = false;
	return fire;
}

/**
 * kfi_source_blocking() - may a thread block on this object itself?
 * @src: the source
 *
 * Context: any; takes no lock.
 * Return: 0, or -EINVAL for KFI_WAIT_NONE and members of a wait set.
 */
int kfi_source_blocking(const struct kfi_source *src)
{
	return src->queue && !src->set ? 0 : -EINVAL;
}

/**
 * kfi_source_control() - kfi_control() of CQs, EQs and counters
 * @fid: a CQ, EQ or counter
 * @command: KFI_GETWAIT or KFI_GETWAITOBJ
 * @arg: wait_queue_head_t **, struct kfi_mutex_cond * or enum kfi_wait_obj *
 *
 * Context: any; takes no lock.
 * Return: 0; -EINVAL without @arg, or for KFI_GETWAIT on an object without a wait
 * object of its own; -ENOSYS for another command.
 */
int kfi_source_control(struct kfid *fid, int command, void *arg)
{
	struct kfi_source *src = kfi_fid_source(fid);

	if (!arg)
		return -EINVAL;
	switch (command) {
	case KFI_GETWAIT:
		return kfi_waitq_getwait(&src->own, src->wait_obj, arg);
	case KFI_GETWAITOBJ:
		*(enum kfi_wait_obj *)arg = src->wait_obj;
		return 0;
	default:
		return -ENOSYS;
	}
}

/**
 * kfi_fid_source() - the common part of an object
 * @fid: any object
 *
 * Context: any; takes no lock.
 * Return: NULL if it is not a CQ, EQ or counter.
 */
struct kfi_source *kfi_fid_source(struct kfid *fid)
{
	switch (fid->fclass) {
	case KFI_CLASS_CQ:
		return kfi_cq_source(container_of(fid, struct kfid_cq, fid));
	case KFI_CLASS_EQ:
		return kfi_eq_source(container_of(fid, struct kfid_eq, fid));
	case KFI_CLASS_CNTR:
		return kfi_cntr_source(container_of(fid, struct kfid_cntr, fid));
	default:
		return NULL;
	}
}
