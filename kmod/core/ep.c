// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The common part of every provider's endpoint: its bindings, and its reports on its
 * EQ. A reference to each
 * bound object is held, and bindings end only with the endpoint, so a report needs no
 * lock to find its CQ, EQ and counters.
 */
#include <kfi_enosys.h>

#include "core.h"

#define KFI_CQ_BIND_FLAGS	(KFI_TRANSMIT | KFI_RECV | KFI_SELECTIVE_COMPLETION)

static const u64 kfi_cntr_flags[KFI_EP_CNTR_MAX] = {
	[KFI_EP_CNTR_READ] = KFI_READ,
	[KFI_EP_CNTR_WRITE] = KFI_WRITE,
	[KFI_EP_CNTR_RECV] = KFI_RECV,
	[KFI_EP_CNTR_SEND] = KFI_SEND,
	[KFI_EP_CNTR_REMOTE_READ] = KFI_REMOTE_READ,
	[KFI_EP_CNTR_REMOTE_WRITE] = KFI_REMOTE_WRITE,
};

/**
 * kfi_ep_base_init() - begin an endpoint
 * @base: zeroed, first member of the provider's endpoint
 * @domain: parent; a reference is held until kfi_ep_base_fini()
 * @fclass: KFI_CLASS_EP or another class of KFI_ENDPOINTS
 * @fid_ops: the provider's; close begins with kfi_fid_kill()
 * @context: the ULP's
 *
 * Context: process, may sleep; takes eps_lock and kfi_listed_lock.
 * Return: 0, or -EINVAL if the domain is being closed.
 */
int kfi_ep_base_init(struct kfi_ep_base *base, struct kfid_domain *domain,
		     size_t fclass, struct kfi_ops *fid_ops, void *context)
{
	if (!kfi_fid_get(&domain->fid))
		return -KFI_EINVAL;
	base->domain = kfi_domain_of(domain);
	base->id = kfi_new_id();
	INIT_LIST_HEAD(&base->profiles);
	spin_lock_init(&base->zero);
	spin_lock_irq(&base->domain->eps_lock);
	list_add_tail(&base->sibling, &base->domain->eps);
	spin_unlock_irq(&base->domain->eps_lock);
	kfi_fid_init(&base->ep.fid, fclass, context, fid_ops);
	kfi_trace(object_new, base->id, fclass, base->domain->id);
	kfi_listed_add(&base->listed, &base->ep.fid);
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_ep_base_init);

static int kfi_ep_bind_cq(struct kfi_ep_base *base, struct kfid_cq *cq, u64 flags)
{
	bool tx = flags & KFI_TRANSMIT, rx = flags & KFI_RECV;

	if ((flags & ~KFI_CQ_BIND_FLAGS) || !(tx || rx))
		return -KFI_EINVAL;
	if ((tx && base->tx_cq) || (rx && base->rx_cq))
		return -KFI_EINVAL;
	if (kfi_cq_source(cq)->domain != base->domain)
		return -KFI_EDOMAIN;

	if (!kfi_fid_get(&cq->fid))
		return -KFI_EINVAL;
	/* One reference is held, so a second one cannot fail. */
	if (tx) {
		kfi_fid_get(&cq->fid);
		base->tx_cq = cq;
		base->tx_selective = flags & KFI_SELECTIVE_COMPLETION;
	}
	if (rx) {
		kfi_fid_get(&cq->fid);
		base->rx_cq = cq;
		base->rx_selective = flags & KFI_SELECTIVE_COMPLETION;
	}
	kfi_fid_put(&cq->fid);
	return 0;
}

static int kfi_ep_bind_cntr(struct kfi_ep_base *base, struct kfid_cntr *cntr,
			    u64 flags)
{
	u64 known = 0;
	int i;

	for (i = 0; i < KFI_EP_CNTR_MAX; i++) {
		known |= kfi_cntr_flags[i];
		if ((flags & kfi_cntr_flags[i]) && base->cntr[i])
			return -KFI_EINVAL;
	}
	if (!flags || (flags & ~known))
		return -KFI_EINVAL;
	if (kfi_cntr_source(cntr)->domain != base->domain)
		return -KFI_EDOMAIN;

	if (!kfi_fid_get(&cntr->fid))
		return -KFI_EINVAL;
	/* One reference is held, so more of them cannot fail. */
	for (i = 0; i < KFI_EP_CNTR_MAX; i++) {
		if (!(flags & kfi_cntr_flags[i]))
			continue;
		kfi_fid_get(&cntr->fid);
		base->cntr[i] = cntr;
	}
	kfi_fid_put(&cntr->fid);
	return 0;
}

/**
 * kfi_ep_base_room() - make the slots for the events of an endpoint
 * @base: the endpoint, which keeps them
 *
 * The bind of an EQ allocates nothing then. A second call does nothing.
 *
 * Context: process, may sleep; the caller serialises calls that alter the endpoint; takes
 * no lock.
 * Return: 0 or -ENOMEM.
 */
int kfi_ep_base_room(struct kfi_ep_base *base)
{
	if (base->share.slots)
		return 0;
	return kfi_eq_share_init(&base->share, KFI_EP_EVENTS);
}
EXPORT_SYMBOL_GPL(kfi_ep_base_room);

static int kfi_ep_bind_eq(struct kfi_ep_base *base, struct kfid_eq *eq, u64 flags)
{
	int ret;

	if (flags || base->eq)
		return -KFI_EINVAL;
	if (kfi_eq_source(eq)->fabric != base->domain->fabric)
		return -KFI_EINVAL;
	ret = kfi_ep_base_room(base);
	if (ret)
		return ret;
	if (!kfi_fid_get(&eq->fid))
		return -KFI_EINVAL;
	base->eq = eq;
	return 0;
}

/**
 * kfi_ep_base_bind() - kfi_ep_bind() of every provider
 * @base: the endpoint
 * @bfid: CQ, counter or EQ
 * @flags: directions for a CQ or a counter, 0 for an EQ
 *
 * Context: process; the caller serialises calls that alter the endpoint; takes no
 * lock.
 * Return: 0; -EOPBADSTATE after enable; -ENOSYS for another class; -EDOMAIN for
 * a CQ or counter of another domain; -EINVAL for a direction that is bound already,
 * wrong flags, or another fabric's EQ; -ENOMEM. After an error nothing is bound.
 */
int kfi_ep_base_bind(struct kfi_ep_base *base, struct kfid *bfid, u64 flags)
{
	if (!bfid)
		return -KFI_EINVAL;
	if (base->enabled)
		return -KFI_EOPBADSTATE;

	switch (bfid->fclass) {
	case KFI_CLASS_CQ:
		return kfi_ep_bind_cq(base,
				      container_of(bfid, struct kfid_cq, fid),
				      flags);
	case KFI_CLASS_CNTR:
		return kfi_ep_bind_cntr(base,
					container_of(bfid, struct kfid_cntr, fid),
					flags);
	case KFI_CLASS_EQ:
		return kfi_ep_bind_eq(base,
				      container_of(bfid, struct kfid_eq, fid),
				      flags);
	default:
		return -KFI_ENOSYS;
	}
}
EXPORT_SYMBOL_GPL(kfi_ep_base_bind);

/**
 * kfi_ep_base_profile() - add a provider's own variables and events to profiles
 * @base: the endpoint, begun and not given to the ULP yet
 * @ops: valid as long as the endpoint lives
 * @lock: profile_lock: protects the data that @ops reads. The core takes it with
 *	  interrupts off, inside none of its locks but eps_lock. Valid until
 *	  kfi_ep_base_fini() returns.
 *
 * Context: process; takes no lock.
 */
void kfi_ep_base_profile(struct kfi_ep_base *base,
			 const struct kfi_profile_ops *ops, spinlock_t *lock)
{
	base->profile_lock = lock;
	/* Pairs with kfi_ep_profile_ops(): the lock first. */
	smp_store_release(&base->profile_ops, ops);
}
EXPORT_SYMBOL_GPL(kfi_ep_base_profile);

/**
 * kfi_ep_base_enable() - make the bindings final
 * @base: the endpoint
 *
 * Context: process; the caller serialises calls that alter the endpoint; takes no
 * lock.
 * Return: 0; -ENOCQ unless there is a CQ for each direction.
 */
int kfi_ep_base_enable(struct kfi_ep_base *base)
{
	if (!base->tx_cq || !base->rx_cq)
		return -KFI_ENOCQ;
	base->enabled = true;
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_ep_base_enable);

static void kfi_ep_unbind_queues(struct kfi_ep_base *base)
{
	int i;

	for (i = 0; i < KFI_EP_CNTR_MAX; i++)
		if (base->cntr[i])
			kfi_fid_put(&base->cntr[i]->fid);
	if (base->tx_cq)
		kfi_fid_put(&base->tx_cq->fid);
	if (base->rx_cq)
		kfi_fid_put(&base->rx_cq->fid);
}

/**
 * kfi_ep_base_fini() - end an endpoint
 * @base: killed, and reporting no more
 *
 * Drops the references to the bound objects, and takes back the endpoint's unread
 * events. The caller frees the structure.
 *
 * Context: process, may sleep; takes kfi_listed_lock, eps_lock and the EQ's
 * source->lock.
 */
void kfi_ep_base_fini(struct kfi_ep_base *base)
{
	kfi_listed_del(&base->listed);
	kfi_ep_keep_counts(base);
	kfi_ep_unbind_queues(base);
	if (base->eq) {
		kfi_eq_forget(base->eq, &base->share, &base->ep.fid);
		kfi_fid_put(&base->eq->fid);
	}
	kfi_eq_share_fini(&base->share);
	kfi_trace(object_free, base->id, base->ep.fid.fclass, base->domain->id);
	kfi_fid_put(&base->domain->domain.fid);
}
EXPORT_SYMBOL_GPL(kfi_ep_base_fini);

/**
 * kfi_ep_report() - report an event of an endpoint
 * @base: the endpoint
 * @event: as for kfi_eq_report()
 *
 * Context: as kfi_eq_report(); the caller keeps the endpoint and its bindings.
 * Return: as kfi_eq_report(), or -ENOEQ. -EAGAIN: KFI_EP_EVENTS of its events are
 * unread. A provider that reports no more than that in an endpoint's life never gets it.
 */
int kfi_ep_report(struct kfi_ep_base *base, const struct kfi_event *event)
{
	if (!base->eq)
		return -KFI_ENOEQ;
	return kfi_eq_report(base->eq, &base->share, event);
}
EXPORT_SYMBOL_GPL(kfi_ep_report);

/**
 * kfi_ep_report_err() - report an error event of an endpoint
 * @base: the endpoint
 * @entry: as for kfi_eq_report_err()
 *
 * Context: as kfi_ep_report().
 * Return: as kfi_ep_report().
 */
int kfi_ep_report_err(struct kfi_ep_base *base,
		      const struct kfi_eq_err_entry *entry)
{
	if (!base->eq)
		return -KFI_ENOEQ;
	return kfi_eq_report_err(base->eq, &base->share, entry);
}
EXPORT_SYMBOL_GPL(kfi_ep_report_err);
