// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Registration of memory by event. A region is usable when the call that registers or
 * enables it returns; if an EQ is bound to its domain with KFI_REG_MR, KFI_MR_COMPLETE
 * says so there.
 *
 * Each region has a slot of its own in the EQ, so its event always finds room.
 */
#include "core.h"

/**
 * kfi_domain_bind_eq() - bind the EQ that learns of registrations
 * @base: the domain
 * @eq: of the same fabric; a reference is held until the domain is closed
 * @flags: KFI_REG_MR
 *
 * Regions that are there already report nothing.
 *
 * Context: process; takes no lock.
 * Return: 0; -EINVAL: one is bound already, or it is of another fabric or being closed;
 * -ENOSYS: other flags.
 */
int kfi_domain_bind_eq(struct kfi_domain_base *base, struct kfid_eq *eq, u64 flags)
{
	if (flags != KFI_REG_MR)
		return -KFI_ENOSYS;
	if (kfi_eq_source(eq)->fabric != base->fabric || !kfi_fid_get(&eq->fid))
		return -KFI_EINVAL;
	if (cmpxchg(&base->mr_eq, NULL, eq)) {
		kfi_fid_put(&eq->fid);
		return -KFI_EINVAL;
	}
	return 0;
}

/**
 * kfi_mr_event_init() - make room for the event of a region
 * @ev: of the region, zeroed
 * @base: its domain, which the region keeps open
 *
 * Context: process, may sleep; takes no lock.
 * Return: 0, or -ENOMEM. Ended by kfi_mr_event_fini().
 */
int kfi_mr_event_init(struct kfi_mr_event *ev, struct kfi_domain_base *base)
{
	struct kfid_eq *eq = READ_ONCE(base->mr_eq);
	int ret;

	if (!eq)
		return 0;
	ret = kfi_eq_share_init(&ev->share, 1);
	if (!ret)
		ev->eq = eq;
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_mr_event_init);

/**
 * kfi_mr_event_report() - the region is usable
 * @ev: of the region; not reported yet
 * @mr: the region; whoever reads the event may close it
 *
 * Nothing happens without an EQ. No other access of the caller's to the region may follow.
 *
 * Context: as kfi_eq_report().
 */
void kfi_mr_event_report(struct kfi_mr_event *ev, struct kfid_mr *mr)
{
	struct kfi_eq_entry entry = {
		.fid = &mr->fid,
		.context = mr->fid.context,
	};
	struct kfi_event event = {
		.event = KFI_MR_COMPLETE,
		.buf = &entry,
		.len = sizeof(entry),
	};

	if (!ev->eq)
		return;
	/* Whoever reads the event may close region, domain and EQ, which RCU frees. */
	rcu_read_lock();
	kfi_eq_report(ev->eq, &ev->share, &event);
	rcu_read_unlock();
}
EXPORT_SYMBOL_GPL(kfi_mr_event_report);

/**
 * kfi_mr_event_fini() - take back an unread event, and its room
 * @ev: of a region that reports no more; nothing happens without an EQ
 * @mr: the region
 *
 * Context: process, may sleep; the caller holds no lock; takes source->lock.
 */
void kfi_mr_event_fini(struct kfi_mr_event *ev, const struct kfid_mr *mr)
{
	if (!ev->eq)
		return;
	kfi_eq_forget(ev->eq, &ev->share, &mr->fid);
	kfi_eq_share_fini(&ev->share);
}
EXPORT_SYMBOL_GPL(kfi_mr_event_fini);
