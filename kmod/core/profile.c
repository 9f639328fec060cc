// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Profiles: a view of the counts that an object keeps (counts.c) and of the values
 * that its provider keeps, and callbacks for the object's events.
 *
 * DOC: Events and callbacks
 *
 * A provider reports an event under profile_lock, the lock that protects the data
 * behind its variables. Callbacks are registered under the same lock, and profiles
 * leave the list under it. So no callback runs after kfi_profile_close() has had the
 * lock:
 *
 *	provider			closing
 *	--------			-------
 *	lock; changes its queue
 *	callback: reads variables	lock: waits
 *	unlock
 *					leaves the list; unlock; frees
 *	lock; event: the list is empty
 *
 * A callback that reads variables of its profile does not take that lock again: its
 * thread holds it. kfi_callers identifies the threads inside a callback; nothing
 * interrupts such a thread. Every other call on a profile would have to take a lock
 * whose holder may wait for this thread; such calls are refused.
 */
#include <linux/sched.h>
#include <linux/slab.h>

#include <kfi_enosys.h>

#include "core.h"
#include "profile.h"

/**
 * struct kfi_caller - a callback in progress, on the stack of its thread
 * @link: on kfi_callers, a thread's innermost callback first; kfi_callers_lock
 * @task: the thread; not its CPU, which another thread may get on PREEMPT_RT
 * @p: the profile that has the callback
 */
struct kfi_caller {
	struct list_head link;
	const struct task_struct *task;
	const struct kfi_profile *p;
};

static LIST_HEAD(kfi_callers);
static DEFINE_RAW_SPINLOCK(kfi_callers_lock);

/**
 * kfi_profile_of() - the profile around its public object
 * @prof: the public object
 *
 * Context: any; takes no lock.
 * Return: the profile.
 */
struct kfi_profile *kfi_profile_of(struct kfid_profile *prof)
{
	return container_of(prof, struct kfi_profile, prof);
}

/**
 * kfi_profile_queue() - the queue of a profile
 * @prof: the profile
 *
 * Context: any; takes no lock.
 * Return: valid as long as the profile.
 */
struct kfi_waitq *kfi_profile_queue(struct kfid_profile *prof)
{
	return &kfi_profile_of(prof)->queue;
}

/* The profile whose callback this thread is in, or NULL. */
static const struct kfi_profile *kfi_profile_calling(void)
{
	const struct kfi_profile *p = NULL;
	struct kfi_caller *caller;
	unsigned long flags;

	/* Without the lock: a thread inside a callback sees its own entry. */
	if (list_empty(&kfi_callers))
		return NULL;
	raw_spin_lock_irqsave(&kfi_callers_lock, flags);
	list_for_each_entry(caller, &kfi_callers, link) {
		if (caller->task == current) {
			p = caller->p;
			break;
		}
	}
	raw_spin_unlock_irqrestore(&kfi_callers_lock, flags);
	return p;
}

/**
 * kfi_in_callback() - is this thread inside a callback of any profile?
 *
 * Context: any; takes kfi_callers_lock.
 * Return: true if it is.
 */
bool kfi_in_callback(void)
{
	return kfi_profile_calling();
}

/**
 * kfi_in_callback_of() - is this thread's innermost callback one of a profile?
 * @p: the profile
 *
 * Context: any; takes kfi_callers_lock.
 * Return: true if it is. Then the thread holds the endpoint's profile_lock.
 */
bool kfi_in_callback_of(const struct kfi_profile *p)
{
	return kfi_profile_calling() == p;
}

/**
 * kfi_profile_ep() - the endpoint that a profile profiles
 * @p: a profile of an endpoint
 *
 * Context: any; takes no lock.
 * Return: the endpoint; it stays open as long as the profile.
 */
struct kfi_ep_base *kfi_profile_ep(const struct kfi_profile *p)
{
	return container_of(p->target, struct kfi_ep_base, ep.fid);
}

/**
 * kfi_profile_lock() - take the provider's profile_lock, if there is one
 * @p: the profile
 *
 * sparse cannot follow a conditional lock, so for sparse nothing is taken.
 *
 * Context: any; takes profile_lock.
 * Return: for kfi_profile_unlock().
 */
unsigned long kfi_profile_lock(struct kfi_profile *p)
{
	unsigned long flags = 0;

	if (p->ops) {
		spin_lock_irqsave(kfi_profile_ep(p)->profile_lock, flags);
		__release(kfi_profile_ep(p)->profile_lock);
	}
	return flags;
}

/**
 * kfi_profile_unlock() - the mirror of kfi_profile_lock()
 * @p: the profile
 * @flags: from kfi_profile_lock()
 *
 * Context: any; releases profile_lock.
 */
void kfi_profile_unlock(struct kfi_profile *p, unsigned long flags)
{
	if (p->ops) {
		__acquire(kfi_profile_ep(p)->profile_lock);
		spin_unlock_irqrestore(kfi_profile_ep(p)->profile_lock, flags);
	}
}

/**
 * kfi_profile_event_index() - the place of an event in the provider's table
 * @p: the profile
 * @id: the event
 *
 * Context: any; takes no lock.
 * Return: the index; -EINVAL if the table does not have it.
 */
int kfi_profile_event_index(const struct kfi_profile *p, u32 id)
{
	unsigned int i;

	for (i = 0; i < p->nevents; i++)
		if (p->ops->events[i].id == id)
			return i;
	return -KFI_EINVAL;
}

/*
 * Call a callback. The caller holds the endpoint's profile_lock. A callback may cause
 * an event on another endpoint, so calls nest.
 */
static void kfi_profile_call(struct kfi_profile *p,
			     const struct kfi_profile_listener *listener,
			     const struct kfi_profile_desc *event,
			     const void *data, size_t size)
{
	struct kfi_caller caller = { .task = current, .p = p };
	unsigned long flags;

	lockdep_assert_held(kfi_profile_ep(p)->profile_lock);
	raw_spin_lock_irqsave(&kfi_callers_lock, flags);
	list_add(&caller.link, &kfi_callers);
	raw_spin_unlock_irqrestore(&kfi_callers_lock, flags);
	listener->callback(&p->prof, event, data, size, listener->context);
	raw_spin_lock_irqsave(&kfi_callers_lock, flags);
	list_del(&caller.link);
	raw_spin_unlock_irqrestore(&kfi_callers_lock, flags);
}

/**
 * __kfi_profile_event() - kfi_profile_event() for an endpoint with open profiles
 * @base: the endpoint
 * @id: the event
 * @data: what it carries, or NULL
 * @size: bytes of @data
 *
 * Context: any; the caller holds the endpoint's profile_lock; takes profile->lock and
 * the profile's head.lock.
 */
void __kfi_profile_event(struct kfi_ep_base *base, u32 id, const void *data,
			 size_t size)
{
	struct kfi_profile_listener *listener;
	struct kfi_profile *p;
	unsigned long flags;
	int i;

	lockdep_assert_held(base->profile_lock);
	flags = kfi_irqs_off();
	list_for_each_entry(p, &base->profiles, on_ep) {
		i = kfi_profile_event_index(p, id);
		if (WARN_ON_ONCE(i < 0))
			break;
		listener = &p->listeners[i];
		if (listener->callback)
			kfi_profile_call(p, listener, &p->ops->events[i], data,
					 size);
		if (listener->logged)
			kfi_profile_log_add(p, id, data, size);
	}
	kfi_irqs_on(flags);
}
EXPORT_SYMBOL_GPL(__kfi_profile_event);

/**
 * kfi_profile_register_callback() - have a function called at an event
 * @prof: the profile
 * @event_id: one of those that kfi_profile_query_events() lists
 * @callback: see kfi_profile_callback; replaces the previous one; NULL: none
 * @context: for @callback
 *
 * Context: any, but not in a callback; takes profile_lock.
 * Return: 0; -EINVAL for an event that is not listed; -EBUSY in a callback.
 */
int kfi_profile_register_callback(struct kfid_profile *prof, uint32_t event_id,
				  kfi_profile_callback callback, void *context)
{
	struct kfi_profile *p = kfi_profile_of(prof);
	unsigned long flags;
	int i;

	if (kfi_in_callback())
		return -KFI_EBUSY;
	i = kfi_profile_event_index(p, event_id);
	if (i < 0)
		return i;
	flags = kfi_profile_lock(p);
	p->listeners[i].callback = callback;
	p->listeners[i].context = context;
	kfi_profile_unlock(p, flags);
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_profile_register_callback);

/**
 * kfi_profile_query_vars() - list the variables
 * @prof: the profile
 * @varlist: room for @count descriptions, or NULL: only count them
 * @count: in: see @varlist; out: the number of variables
 *
 * Context: any, but not in a callback; takes no profile_lock.
 * Return: descriptions written; -EINVAL without @count; -EBUSY in a callback.
 */
ssize_t kfi_profile_query_vars(struct kfid_profile *prof,
			       struct kfi_profile_desc *varlist, size_t *count)
{
	const struct kfi_profile *p = kfi_profile_of(prof);
	size_t i, n = 0;

	if (kfi_in_callback())
		return -KFI_EBUSY;
	if (!count)
		return -KFI_EINVAL;
	if (varlist)
		n = min(*count, kfi_profile_nvars(p));
	for (i = 0; i < n; i++)
		varlist[i] = *kfi_profile_var(p, i);
	*count = kfi_profile_nvars(p);
	return n;
}
EXPORT_SYMBOL_GPL(kfi_profile_query_vars);

/**
 * kfi_profile_query_events() - list the events
 * @prof: the profile
 * @eventlist: room for @count descriptions, or NULL: only count them
 * @count: in: see @eventlist; out: the number of events
 *
 * Context: any, but not in a callback; takes no profile_lock.
 * Return: descriptions written; -EINVAL without @count; -EBUSY in a callback.
 */
ssize_t kfi_profile_query_events(struct kfid_profile *prof,
				 struct kfi_profile_desc *eventlist,
				 size_t *count)
{
	const struct kfi_profile *p = kfi_profile_of(prof);
	size_t n = 0;

	if (kfi_in_callback())
		return -KFI_EBUSY;
	if (!count)
		return -KFI_EINVAL;
	if (eventlist)
		n = min(*count, p->nevents);
	if (n)
		memcpy(eventlist, p->ops->events, n * sizeof(*eventlist));
	*count = p->nevents;
	return n;
}
EXPORT_SYMBOL_GPL(kfi_profile_query_events);

/**
 * kfi_profile_reset() - let the object count from 0
 * @prof: the profile
 * @flags: 0
 *
 * The variables with KFI_PROFILE_RESETS become 0 in all profiles of the object. A
 * domain's are sums: those of its CQs, counters and endpoints become 0, too.
 *
 * Context: any, but not in a callback; takes the locks of kfi_fid_counts_reset().
 * Return: 0; -EINVAL for flags; -EBUSY in a callback.
 */
int kfi_profile_reset(struct kfid_profile *prof, uint64_t flags)
{
	if (kfi_in_callback())
		return -KFI_EBUSY;
	if (flags)
		return -KFI_EINVAL;
	kfi_fid_counts_reset(kfi_profile_of(prof)->target);
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_profile_reset);

/*
 * Sleepers hold a reference. After this has had profile_lock, no callback runs and no
 * event is added to the log.
 */
static int kfi_profile_op_close(struct kfid *fid)
{
	struct kfi_profile *p = container_of(fid, struct kfi_profile, prof.fid);
	unsigned long flags;
	int ret;

	if (kfi_in_callback())
		return -KFI_EBUSY;
	ret = kfi_waitq_kill(&p->queue);
	if (ret)
		return ret;
	flags = kfi_profile_lock(p);
	list_del_init(&p->on_ep);
	kfi_profile_unlock(p, flags);

	kfi_trace(object_free, p->queue.id, KFI_CLASS_PROFILE,
		  kfi_fid_id(p->target));
	kfi_waitq_fini(&p->queue);
	kfi_timing_off();
	kfi_fid_put(p->target);
	kfi_profile_snap_free(p->snap);
	kvfree(p->log.ring);
	kfree(p);
	return 0;
}

static struct kfi_ops kfi_profile_fid_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops),
	.close = kfi_profile_op_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

/*
 * No event will come any more: waiting threads must return. The caller holds the
 * endpoint's profile_lock.
 */
static void kfi_profile_lose(struct kfi_profile *p)
{
	struct kfi_wake wake = {
		.source = p->queue.id,
		.why = KFI_WHY_LOST,
		.all = true,
	};

	lockdep_assert_held(kfi_profile_ep(p)->profile_lock);
	if (p->lost)
		return;
	p->lost = true;
	kfi_waitq_lose(&p->queue);
	/*
	 * No barrier: the end is noted with the queue's lock held, which a sleeper
	 * takes between number and look; see "A flag, then a lock" in core.h.
	 */
	wake.seq = atomic64_inc_return_relaxed(&p->queue.pubs);
	kfi_waitq_wake(&p->queue, &wake);
}

/**
 * kfi_profiles_lose() - the device of a domain's endpoints is gone
 * @domain: the domain, marked as lost: a profile opened later reads that mark
 *
 * Context: any; takes eps_lock, and under it each profile_lock and head.lock.
 */
void kfi_profiles_lose(struct kfi_domain_base *domain)
{
	struct kfi_ep_base *base;
	struct kfi_profile *p;
	unsigned long flags;

	spin_lock_irqsave(&domain->eps_lock, flags);
	list_for_each_entry(base, &domain->eps, sibling) {
		/* Pairs with kfi_ep_base_profile(). */
		if (!smp_load_acquire(&base->profile_ops))
			continue;
		spin_lock(base->profile_lock);
		list_for_each_entry(p, &base->profiles, on_ep)
			kfi_profile_lose(p);
		spin_unlock(base->profile_lock);
	}
	spin_unlock_irqrestore(&domain->eps_lock, flags);
}

/* kfi_profile_close() is its mirror, whatever it returns. Return: 0 or -ENOSPC. */
static int kfi_profile_begin(struct kfi_profile *p, struct kfid *fid,
			     void *context)
{
	struct kfi_ep_base *base;
	unsigned long flags;
	int ret = 0;

	p->target = fid;
	spin_lock_init(&p->lock);
	INIT_LIST_HEAD(&p->on_ep);
	kfi_fid_init(&p->prof.fid, KFI_CLASS_PROFILE, context,
		     &kfi_profile_fid_ops);
	kfi_waitq_init(&p->queue, &p->prof.fid, kfi_new_id());
	kfi_waitq_join(&p->queue);
	kfi_trace(object_new, p->queue.id, KFI_CLASS_PROFILE, kfi_fid_id(fid));
	kfi_timing_on();
	if (!p->nevents)
		return 0;
	base = kfi_profile_ep(p);
	flags = kfi_profile_lock(p);
	if (kfi_list_length(&base->profiles) < KFI_OBSERVERS_MAX)
		list_add_tail(&p->on_ep, &base->profiles);
	else
		ret = -KFI_ENOSPC;
	if (READ_ONCE(base->domain->lost))
		kfi_profile_lose(p);
	kfi_profile_unlock(p, flags);
	return ret;
}

/**
 * kfi_profile_open() - profile an object
 * @fid: a domain, endpoint, wait set, poll set or CQ
 * @flags: 0
 * @prof: the new profile; @fid cannot be closed before it
 * @context: the caller's
 *
 * Context: process, may sleep; not in a callback; takes profile_lock.
 * Return: 0; -ENOSYS for another class; -EINVAL for flags or a missing argument, or if
 * @fid is being closed; -ENOSPC for an endpoint that has KFI_OBSERVERS_MAX profiles;
 * -ENOMEM; -EBUSY in a callback.
 */
int kfi_profile_open(struct kfid *fid, uint64_t flags,
		     struct kfid_profile **prof, void *context)
{
	const struct kfi_profile_ops *ops = NULL;
	struct kfi_profile *p;
	size_t nevents;
	int ret;

	if (!fid || !prof || flags)
		return -KFI_EINVAL;
	if (kfi_in_callback())
		return -KFI_EBUSY;
	if (!kfi_core_vars(fid->fclass))
		return -KFI_ENOSYS;
	if (kfi_is_ep(fid->fclass))
		ops = container_of(fid, struct kfi_ep_base, ep.fid)->profile_ops;
	nevents = ops ? ops->nevents : 0;
	p = kzalloc(struct_size(p, listeners, nevents), GFP_KERNEL_ACCOUNT);
	if (!p)
		return -KFI_ENOMEM;
	if (!kfi_fid_get(fid)) {
		kfree(p);
		return -KFI_EINVAL;
	}
	p->ops = ops;
	p->nevents = nevents;
	ret = kfi_profile_begin(p, fid, context);
	if (ret) {
		kfi_profile_close(&p->prof);
		return ret;
	}
	*prof = &p->prof;
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_profile_open);

/**
 * kfi_profile_close() - end a profile
 * @prof: the profile
 *
 * After it has returned, none of its callbacks runs. The same as kfi_close().
 *
 * Context: process, may sleep; not in a callback; takes profile_lock.
 * Return: 0; -EBUSY while a thread waits for its events, or in a callback: then
 * nothing changed.
 */
int kfi_profile_close(struct kfid_profile *prof)
{
	return kfi_close(&prof->fid);
}
EXPORT_SYMBOL_GPL(kfi_profile_close);
