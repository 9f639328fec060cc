// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The common part of every provider's fabric, domain and passive endpoint.
 */
#include <linux/slab.h>

#include <kfi_enosys.h>

#include "core.h"

/*
 * The module reference is dropped here, in a module that the caller pins, so that no
 * code of the provider is left to run when the provider's module may be unloaded.
 */
static int kfi_fabric_close(struct kfid *fid)
{
	struct kfi_fabric_base *base =
		container_of(fid, struct kfi_fabric_base, fabric.fid);
	struct module *owner = base->owner;
	int ret;

	ret = kfi_fid_kill(fid);
	if (ret)
		return ret;
	kfi_listed_del(&base->listed);
	kfi_trace(object_free, base->id, KFI_CLASS_FABRIC, 0);
	base->release(base);
	module_put(owner);
	return 0;
}

/* No flag has a meaning yet, and no table of a provider uses the context. */
static int kfi_find_ops(const struct kfi_named_ops *tables, const char *name,
			u64 flags, void **ops)
{
	if (!name || !ops || flags)
		return -KFI_EINVAL;
	for (; tables && tables->name; tables++) {
		if (!strcmp(tables->name, name)) {
			*ops = tables->ops;
			return 0;
		}
	}
	return -KFI_ENOSYS;
}

static int kfi_fabric_ops_open(struct kfid *fid, const char *name, u64 flags,
			       void **ops, void *context)
{
	struct kfi_fabric_base *base =
		container_of(fid, struct kfi_fabric_base, fabric.fid);

	return kfi_find_ops(base->tables, name, flags, ops);
}

static struct kfi_ops kfi_fabric_fid_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops),
	.close = kfi_fabric_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_fabric_ops_open,
};

/**
 * kfi_fabric_base_init() - begin a fabric
 * @base: zeroed, first member of the provider's fabric
 * @owner: THIS_MODULE of the provider; pinned until the fabric is closed
 * @ops: the provider's table
 * @release: frees the provider's fabric
 * @api_version: version that the ULP requested
 * @context: the ULP's
 *
 * Context: process, may sleep; takes kfi_listed_lock.
 * Return: 0, or -ENODEV if the module is being unloaded.
 */
int kfi_fabric_base_init(struct kfi_fabric_base *base, struct module *owner,
			 struct kfi_ops_fabric *ops,
			 void (*release)(struct kfi_fabric_base *base),
			 u32 api_version, void *context)
{
	if (!try_module_get(owner))
		return -KFI_ENODEV;
	base->owner = owner;
	base->release = release;
	base->id = kfi_new_id();
	kfi_fid_init(&base->fabric.fid, KFI_CLASS_FABRIC, context,
		     &kfi_fabric_fid_ops);
	base->fabric.ops = ops;
	base->fabric.api_version = api_version;
	kfi_trace(object_new, base->id, KFI_CLASS_FABRIC, 0);
	kfi_listed_add(&base->listed, &base->fabric.fid);
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_fabric_base_init);

static int kfi_domain_close(struct kfid *fid)
{
	struct kfi_domain_base *base =
		container_of(fid, struct kfi_domain_base, domain.fid);
	struct kfi_fabric_base *fabric = base->fabric;
	int ret;

	ret = kfi_fid_kill(fid);
	if (ret)
		return ret;
	kfi_listed_del(&base->listed);
	cancel_work_sync(&base->progressing);
	if (base->mr_eq)
		kfi_fid_put(&base->mr_eq->fid);
	kfi_trace(object_free, base->id, KFI_CLASS_DOMAIN, fabric->id);
	base->release(base);
	kfi_fid_put(&fabric->fabric.fid);
	return 0;
}

static int kfi_domain_bind_fid(struct kfid *fid, struct kfid *bfid, u64 flags)
{
	struct kfi_domain_base *base =
		container_of(fid, struct kfi_domain_base, domain.fid);

	if (!bfid || bfid->fclass != KFI_CLASS_EQ)
		return -KFI_EINVAL;
	return kfi_domain_bind_eq(base, container_of(bfid, struct kfid_eq, fid),
				  flags);
}

static int kfi_domain_ops_open(struct kfid *fid, const char *name, u64 flags,
			       void **ops, void *context)
{
	struct kfi_domain_base *base =
		container_of(fid, struct kfi_domain_base, domain.fid);

	return kfi_find_ops(base->tables, name, flags, ops);
}

static struct kfi_ops kfi_domain_fid_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops),
	.close = kfi_domain_close,
	.bind = kfi_domain_bind_fid,
	.control = kfi_no_control,
	.ops_open = kfi_domain_ops_open,
};

static void kfi_domain_progress_work(struct work_struct *work)
{
	struct kfi_domain_base *base =
		container_of(work, struct kfi_domain_base, progressing);

	base->progress(base);
}

/* Does the domain have a source with a queue, a handler or a channel? */
static bool kfi_domain_notifies(struct kfi_domain_base *base)
{
	struct kfi_source *src;
	bool found = false;
	unsigned long flags;

	spin_lock_irqsave(&base->lock, flags);
	list_for_each_entry(src, &base->sources, sibling)
		found |= src->queue || READ_ONCE(src->handled) || src->notify;
	spin_unlock_irqrestore(&base->lock, flags);
	return found;
}

/**
 * kfi_domain_pending() - a domain with manual progress has something to report
 * @base: the domain
 *
 * Reads and polls make progress themselves. A sleeping thread cannot, so a work item
 * makes it where a thread could sleep or a handler could run.
 *
 * Context: any; the caller keeps the domain open; takes domain->lock.
 */
void kfi_domain_pending(struct kfi_domain_base *base)
{
	if (kfi_domain_notifies(base))
		queue_work(kfi_handler_wq, &base->progressing);
}
EXPORT_SYMBOL_GPL(kfi_domain_pending);

/**
 * kfi_domain_base_init() - begin a domain
 * @base: zeroed, first member of the provider's domain
 * @fabric: parent; a reference is held until the domain is closed
 * @ops: the provider's table
 * @mr: the provider's table
 * @release: frees the provider's domain; everything in it is closed by then
 * @context: the ULP's
 *
 * Context: process, may sleep; takes kfi_listed_lock.
 * Return: 0, or -EINVAL if the fabric is being closed.
 */
int kfi_domain_base_init(struct kfi_domain_base *base,
			 struct kfid_fabric *fabric,
			 struct kfi_ops_domain *ops, struct kfi_ops_mr *mr,
			 void (*release)(struct kfi_domain_base *base),
			 void *context)
{
	if (!kfi_fid_get(&fabric->fid))
		return -KFI_EINVAL;
	base->fabric = kfi_fabric_of(fabric);
	base->release = release;
	spin_lock_init(&base->lock);
	INIT_LIST_HEAD(&base->sources);
	INIT_LIST_HEAD(&base->walks);
	spin_lock_init(&base->eps_lock);
	INIT_LIST_HEAD(&base->eps);
	INIT_WORK(&base->progressing, kfi_domain_progress_work);
	base->id = kfi_new_id();
	base->owner = base->id;
	kfi_fid_init(&base->domain.fid, KFI_CLASS_DOMAIN, context,
		     &kfi_domain_fid_ops);
	base->domain.ops = ops;
	base->domain.mr = mr;
	kfi_trace(object_new, base->id, KFI_CLASS_DOMAIN, base->fabric->id);
	kfi_listed_add(&base->listed, &base->domain.fid);
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_domain_base_init);

/* The last publication on a source, for device loss. Caller holds domain->lock. */
static void kfi_source_last(struct kfi_source *src)
{
	static const struct kfi_completion gone = {
		.err = KFI_ENODEV,
		.src = KFI_ADDR_NOTAVAIL,
	};
	struct kfi_target target = { };

	lockdep_assert_held(&src->domain->lock);
	if (src->fid->fclass == KFI_CLASS_CQ)
		kfi_cq_store(container_of(src->fid, struct kfid_cq, fid), &gone,
			     &target);
	else
		kfi_cntr_count(container_of(src->fid, struct kfid_cntr, fid),
			       KFI_WHY_LOST, &target);
	target.wake.why = KFI_WHY_LOST;
	target.wake.all = true;
	kfi_source_lose(src);
	/* Also without an event: the channel may have lost its last CQ. */
	target.channel = kfi_notify_channel(src);
	kfi_publish(&target, 1);
}

/**
 * kfi_domain_lose() - the domain's device is gone
 * @base: the domain
 *
 * Each CQ gets a last error entry (ENODEV), and each counter an error change. Sleeping
 * threads return by the ordinary rules, and so do threads that wait for a profile's
 * events. (A CQ that is full is overrun instead: nothing is stored after a gap.)
 * Nothing new can be opened in the domain, and a blocking read of a drained object
 * returns -ENODEV.
 *
 * The provider calls this once or more often, before it tears down what its
 * completions need.
 *
 * Context: any; the caller holds no endpoint's profile_lock; takes domain->lock,
 * eps_lock and each profile_lock.
 */
void kfi_domain_lose(struct kfi_domain_base *base)
{
	struct kfi_source *src;
	unsigned long flags;

	spin_lock_irqsave(&base->lock, flags);
	if (!base->lost) {
		WRITE_ONCE(base->lost, true);
		list_for_each_entry(src, &base->sources, sibling)
			kfi_source_last(src);
	}
	spin_unlock_irqrestore(&base->lock, flags);
	kfi_profiles_lose(base);
}
EXPORT_SYMBOL_GPL(kfi_domain_lose);

/*
 * Protects kfi_pep_base.eq and .bound. The EQ may be closed first (ULPs rely on it), so
 * there is no reference between the two: a report reads the pointer under this lock,
 * and closing the EQ clears the pointers under it.
 */
static DEFINE_SPINLOCK(kfi_pep_lock);

/**
 * kfi_pep_base_init() - begin a passive endpoint
 * @base: zeroed, first member of the provider's passive endpoint
 * @fabric: parent; a reference is held until kfi_pep_base_fini()
 * @fid_ops: the provider's; close begins with kfi_fid_kill()
 * @context: the ULP's
 *
 * Context: process, may sleep; takes kfi_listed_lock.
 * Return: 0, or -EINVAL if the fabric is being closed.
 */
int kfi_pep_base_init(struct kfi_pep_base *base, struct kfid_fabric *fabric,
		      struct kfi_ops *fid_ops, void *context)
{
	if (!kfi_fid_get(&fabric->fid))
		return -KFI_EINVAL;
	base->fabric = kfi_fabric_of(fabric);
	INIT_LIST_HEAD(&base->bound);
	base->id = kfi_new_id();
	base->owner = base->id;
	kfi_fid_init(&base->pep.fid, KFI_CLASS_PEP, context, fid_ops);
	kfi_trace(object_new, base->id, KFI_CLASS_PEP, base->fabric->id);
	kfi_listed_add(&base->listed, &base->pep.fid);
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_pep_base_init);

/**
 * struct kfi_pep_room - slots of an EQ for the events of a passive endpoint
 * @requests: for connection requests, as many as the EQ's user asked for. A peer makes
 *	      them at will, so they have a limit of their own.
 * @loss: for the loss of the device
 */
struct kfi_pep_room {
	struct kfi_eq_share requests;
	struct kfi_eq_share loss;
};

/* None of the events is unread; the caller holds no lock. */
static void kfi_pep_room_free(struct kfi_pep_room *room)
{
	if (!room)
		return;
	kfi_eq_share_fini(&room->loss);
	kfi_eq_share_fini(&room->requests);
	kfree(room);
}

static struct kfi_pep_room *kfi_pep_room_new(struct kfid_eq *eq)
{
	struct kfi_pep_room *room = kzalloc(sizeof(*room), GFP_KERNEL_ACCOUNT);

	if (!room)
		return NULL;
	if (kfi_eq_share_init(&room->requests, kfi_eq_size(eq)) ||
	    kfi_eq_share_init(&room->loss, 1)) {
		kfi_pep_room_free(room);
		return NULL;
	}
	return room;
}

static int kfi_pep_bind_eq(struct kfi_pep_base *base, struct kfid_eq *eq)
{
	struct kfi_pep_room *room = kfi_pep_room_new(eq);
	int ret = -KFI_EINVAL;

	if (!room)
		return -KFI_ENOMEM;
	spin_lock_irq(&kfi_pep_lock);
	if (base->lost) {
		ret = -KFI_ENODEV;
	} else if (!base->eq && kfi_fid_get(&eq->fid)) {
		base->eq = eq;
		base->room = room;
		list_add_tail(&base->bound, kfi_eq_peps(eq));
		kfi_fid_put(&eq->fid);
		ret = 0;
	}
	spin_unlock_irq(&kfi_pep_lock);
	if (ret)
		kfi_pep_room_free(room);
	return ret;
}

/**
 * kfi_pep_base_bind() - kfi_pep_bind() of every provider
 * @base: the passive endpoint
 * @bfid: an EQ of the same fabric
 * @flags: 0
 *
 * Context: process, may sleep; takes kfi_pep_lock.
 * Return: 0; -ENOSYS for another class; -EINVAL for another fabric's EQ, a
 * second EQ, an EQ that is being closed, or flags; -ENODEV after
 * kfi_pep_report_err(); -ENOMEM.
 */
int kfi_pep_base_bind(struct kfi_pep_base *base, struct kfid *bfid, u64 flags)
{
	if (!bfid || flags)
		return -KFI_EINVAL;
	if (bfid->fclass != KFI_CLASS_EQ)
		return -KFI_ENOSYS;
	if (kfi_fid_source(bfid)->fabric != base->fabric)
		return -KFI_EINVAL;
	return kfi_pep_bind_eq(base, container_of(bfid, struct kfid_eq, fid));
}
EXPORT_SYMBOL_GPL(kfi_pep_base_bind);

/* Leave the EQ; none of the events is unread. The caller holds the lock. */
static void kfi_pep_detach(struct kfi_pep_base *base,
			   struct kfi_pep_room **room)
{
	lockdep_assert_held(&kfi_pep_lock);
	*room = base->room;
	base->room = NULL;
	base->eq = NULL;
	list_del_init(&base->bound);
}

/*
 * Take back one unread event, or, if there is none, leave the EQ. The caller holds the
 * lock, which keeps the EQ open; it frees the event's resources and @room without it. An
 * EQ that was closed first has taken back all events.
 */
static bool kfi_pep_take_back(struct kfi_pep_base *base,
			      struct kfi_eq_slot *slot,
			      struct kfi_pep_room **room)
{
	const struct kfid *fid = &base->pep.fid;

	lockdep_assert_held(&kfi_pep_lock);
	if (base->eq &&
	    (kfi_eq_extract(base->eq, &base->room->requests, fid, slot) ||
	     kfi_eq_extract(base->eq, &base->room->loss, fid, slot)))
		return true;
	kfi_pep_detach(base, room);
	return false;
}

/* The same for a passive endpoint that ends. */
static bool kfi_pep_fini_step(struct kfi_pep_base *base,
			      struct kfi_eq_slot *slot,
			      struct kfi_pep_room **room)
{
	bool found;

	spin_lock_irq(&kfi_pep_lock);
	found = kfi_pep_take_back(base, slot, room);
	spin_unlock_irq(&kfi_pep_lock);
	return found;
}

/**
 * kfi_pep_base_fini() - end a passive endpoint
 * @base: killed, and reporting no more
 *
 * Takes back its unread events. The caller frees the structure.
 *
 * Context: process, may sleep; takes kfi_pep_lock and kfi_listed_lock.
 */
void kfi_pep_base_fini(struct kfi_pep_base *base)
{
	struct kfi_pep_room *room;
	struct kfi_eq_slot slot;

	while (kfi_pep_fini_step(base, &slot, &room))
		kfi_eq_drop(&slot);
	kfi_pep_room_free(room);
	kfi_listed_del(&base->listed);
	kfi_trace(object_free, base->id, KFI_CLASS_PEP, base->fabric->id);
	kfi_fid_put(&base->fabric->fabric.fid);
}
EXPORT_SYMBOL_GPL(kfi_pep_base_fini);

/*
 * One step of kfi_pep_detach_all(): take an unread event of a passive endpoint from the
 * EQ, or take the endpoint off it.
 * Return: false if no passive endpoint is left.
 */
static bool kfi_pep_detach_step(struct kfid_eq *eq, struct kfi_eq_slot *slot,
				bool *found, struct kfi_pep_room **room)
{
	struct kfi_pep_base *base;

	spin_lock_irq(&kfi_pep_lock);
	base = list_first_entry_or_null(kfi_eq_peps(eq), struct kfi_pep_base,
					bound);
	*found = base && kfi_pep_take_back(base, slot, room);
	spin_unlock_irq(&kfi_pep_lock);
	return base;
}

/**
 * kfi_pep_detach_all() - an EQ is being closed
 * @eq: killed
 *
 * Its passive endpoints take their unread events with them, since the slots are theirs.
 * They report no others: peers that keep asking would keep this thread here.
 *
 * Context: process, may sleep; takes kfi_pep_lock.
 */
void kfi_pep_detach_all(struct kfid_eq *eq)
{
	struct kfi_pep_room *room;
	struct kfi_eq_slot slot;
	bool found;

	while (kfi_pep_detach_step(eq, &slot, &found, &room)) {
		if (found)
			kfi_eq_drop(&slot);
		else
			kfi_pep_room_free(room);
	}
}

/* Has it an EQ that is not being closed? The caller holds the lock. */
static bool kfi_pep_heard(const struct kfi_pep_base *base)
{
	lockdep_assert_held(&kfi_pep_lock);
	return base->eq && atomic_read(&base->eq->fid.ref_cnt);
}

/**
 * kfi_pep_report() - report a connection request
 * @base: the passive endpoint
 * @event: as for kfi_eq_report()
 *
 * Context: any; takes kfi_pep_lock, and under it the locks of kfi_eq_report().
 * Return: as kfi_eq_report(), or -ENOEQ: it has no EQ, or the EQ was closed. After an
 * error the caller still owns the event's resources. -EAGAIN: as many requests are
 * unread as the EQ's user has asked for events.
 */
int kfi_pep_report(struct kfi_pep_base *base, const struct kfi_event *event)
{
	unsigned long flags;
	int ret;

	spin_lock_irqsave(&kfi_pep_lock, flags);
	ret = kfi_pep_heard(base) ?
	      kfi_eq_report(base->eq, &base->room->requests, event) :
	      -KFI_ENOEQ;
	spin_unlock_irqrestore(&kfi_pep_lock, flags);
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_pep_report);

/**
 * kfi_pep_report_err() - report that the device of a passive endpoint is gone
 * @base: the passive endpoint
 * @entry: as for kfi_eq_report_err()
 *
 * Context: as kfi_pep_report().
 * Return: as kfi_eq_report_err(), or -ENOEQ.
 */
int kfi_pep_report_err(struct kfi_pep_base *base,
		       const struct kfi_eq_err_entry *entry)
{
	unsigned long flags;
	int ret;

	spin_lock_irqsave(&kfi_pep_lock, flags);
	base->lost = true;
	ret = kfi_pep_heard(base) ?
	      kfi_eq_report_err(base->eq, &base->room->loss, entry) :
	      -KFI_ENOEQ;
	spin_unlock_irqrestore(&kfi_pep_lock, flags);
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_pep_report_err);

/**
 * kfi_pep_take_request() - take back a connection request that was not read
 * @base: the passive endpoint, which the caller keeps open
 * @request: as in struct kfi_event
 * @slot: the event; what it owns is the caller's on success
 *
 * Context: any; takes kfi_pep_lock and the EQ's source->lock.
 * Return: false if the request is a reader's, or a close takes its event back.
 */
bool kfi_pep_take_request(struct kfi_pep_base *base, const struct kfid *request,
			  struct kfi_eq_slot *slot)
{
	unsigned long flags;
	bool found;

	spin_lock_irqsave(&kfi_pep_lock, flags);
	found = base->eq && kfi_eq_extract(base->eq, &base->room->requests,
					   request, slot);
	spin_unlock_irqrestore(&kfi_pep_lock, flags);
	/* Without it a reader holds the event, and frees what it owns. */
	return found && slot->drop;
}
EXPORT_SYMBOL_GPL(kfi_pep_take_request);
