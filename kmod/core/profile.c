// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Profiles: a view of the numbers that an object keeps (counts.c) and of those
 * that its provider keeps, and callbacks for what happens to it.
 *
 * DOC: Events and callbacks
 *
 * A provider tells of an event under the lock that protects what its variables
 * show. Under the same lock callbacks are registered and profiles leave the
 * list, so none runs once kfi_profile_close() has had the lock:
 *
 *	provider			closing
 *	--------			-------
 *	lock; changes its queue
 *	callback: reads variables	lock: waits
 *	unlock
 *					leaves the list; unlock; frees
 *	lock; event: nobody listens
 *
 * A callback that reads does not take that lock again, it has it. Which calls
 * are made by a callback is known by the thread: nothing interrupts it while one
 * runs. All calls but reads of the same profile would have to take a lock that
 * somebody may hold who waits for this one; they are refused.
 */
#include <linux/sched.h>
#include <linux/slab.h>

#include <kfi_enosys.h>

#include "core.h"
#include "profile.h"

/**
 * struct kfi_caller - a callback that runs; on the stack of the thread that calls it
 * @link: on the list of all, the innermost of a thread before its others
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

struct kfi_profile *kfi_profile_of(struct kfid_profile *prof)
{
	return container_of(prof, struct kfi_profile, prof);
}

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

	/* Whoever is in a callback has put itself there. */
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

bool kfi_in_callback(void)
{
	return kfi_profile_calling();
}

bool kfi_in_callback_of(const struct kfi_profile *p)
{
	return kfi_profile_calling() == p;
}

struct kfi_ep_base *kfi_profile_ep(const struct kfi_profile *p)
{
	return container_of(p->target, struct kfi_ep_base, ep.fid);
}

/* sparse cannot follow a lock that only some take: for it, nobody does. */
unsigned long kfi_profile_lock(struct kfi_profile *p)
{
	unsigned long flags = 0;

	if (p->ops) {
		spin_lock_irqsave(kfi_profile_ep(p)->profile_lock, flags);
		__release(kfi_profile_ep(p)->profile_lock);
	}
	return flags;
}

void kfi_profile_unlock(struct kfi_profile *p, unsigned long flags)
{
	if (p->ops) {
		__acquire(kfi_profile_ep(p)->profile_lock);
		spin_unlock_irqrestore(kfi_profile_ep(p)->profile_lock, flags);
	}
}

/**
 * kfi_profile_event_index() - where an event is in the provider's table
 * @p: the profile
 * @id: the event
 *
 * Return: -EINVAL if there is none such.
 */
int kfi_profile_event_index(const struct kfi_profile *p, u32 id)
{
	unsigned int i;

	for (i = 0; i < p->nevents; i++)
		if (p->ops->events[i].id == id)
			return i;
	return -KFI_EINVAL;
}

/* What a callback does to another endpoint may be an event there. */
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
 * __kfi_profile_event() - kfi_profile_event() where somebody profiles
 * @base: the endpoint
 * @id: the event
 * @data: what it carries, or NULL
 * @size: bytes of @data
 *
 * Context: any; the caller holds the endpoint's profile_lock.
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
 * @callback: see there; takes the place of the one before; NULL: none
 * @context: for it
 *
 * Context: any, but not in a callback.
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
 * kfi_profile_query_vars() - which variables there are
 * @prof: the profile
 * @varlist: room for @count descriptions, or NULL: only count them
 * @count: in: see @varlist; out: how many there are
 *
 * Context: any, but not in a callback.
 * Return: how many were written; -EINVAL without @count; -EBUSY in a callback.
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
 * kfi_profile_query_events() - which events there are
 * @prof: the profile
 * @eventlist: room for @count descriptions, or NULL: only count them
 * @count: in: see @eventlist; out: how many there are
 *
 * Context: any, but not in a callback.
 * Return: how many were written; -EINVAL without @count; -EBUSY in a callback.
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
 * The variables with KFI_PROFILE_RESETS become 0, for all who profile the
 * object. A domain's are sums: those of its CQs, counters and endpoints do.
 *
 * Context: any, but not in a callback.
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
 * Sleepers hold a reference. Once the lock was had no callback runs, and nobody
 * adds to the log.
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

/* Nothing more comes, which who waits has to know. Holds the provider's lock. */
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
	wake.seq = atomic64_inc_return(&p->queue.pubs);
	kfi_waitq_wake(&p->queue, &wake);
}

/**
 * kfi_profiles_lose() - the device of a domain's endpoints is gone
 * @domain: the domain, marked as lost; a profile that is opened later looks there
 *
 * Context: any; takes the domain's eps_lock and the providers' locks.
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

/* Never fails: at worst the object may not be closed, and goes on. */
static void kfi_profile_begin(struct kfi_profile *p, struct kfid *fid,
			      void *context)
{
	unsigned long flags;

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
		return;
	flags = kfi_profile_lock(p);
	list_add_tail(&p->on_ep, &kfi_profile_ep(p)->profiles);
	if (READ_ONCE(kfi_profile_ep(p)->domain->lost))
		kfi_profile_lose(p);
	kfi_profile_unlock(p, flags);
}

/**
 * kfi_profile_open() - profile an object
 * @fid: a domain, endpoint, wait set, poll set or CQ
 * @flags: 0
 * @prof: the new profile; @fid cannot be closed before it
 * @context: the caller's
 *
 * Context: process, may sleep; not in a callback.
 * Return: 0; -ENOSYS for another class; -EINVAL; -ENOMEM; -EBUSY in a callback.
 */
int kfi_profile_open(struct kfid *fid, uint64_t flags,
		     struct kfid_profile **prof, void *context)
{
	const struct kfi_profile_ops *ops = NULL;
	struct kfi_profile *p;
	size_t nevents;

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
	kfi_profile_begin(p, fid, context);
	*prof = &p->prof;
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_profile_open);

/**
 * kfi_profile_close() - end a profile
 * @prof: the profile
 *
 * Once it has returned none of its callbacks runs. The same as kfi_close().
 *
 * Context: process, may sleep; not in a callback.
 * Return: 0; -EBUSY while a thread waits for its events, or in a callback: then
 * nothing changed.
 */
int kfi_profile_close(struct kfid_profile *prof)
{
	return kfi_close(&prof->fid);
}
EXPORT_SYMBOL_GPL(kfi_profile_close);
