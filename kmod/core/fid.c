// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Lifetime of objects. Each user of an object holds a reference: a child, a binding,
 * a membership, a sleeping thread. The open itself is the first reference, which only
 * a close drops. So an object in use cannot be closed, and a refused close has changed
 * nothing.
 */
#include <kfi_channel.h>

#include "core.h"

static atomic_t kfi_last_id;

/**
 * kfi_new_id() - name a new object for tracing
 *
 * Context: any; takes no lock.
 * Return: never 0, and never used twice until it wraps after 2^32 objects.
 */
u32 kfi_new_id(void)
{
	return (u32)atomic_inc_return_relaxed(&kfi_last_id);
}

/**
 * kfi_fid_init() - begin an object
 * @fid: its base
 * @fclass: KFI_CLASS_*
 * @context: the user's
 * @ops: its close, bind, control and ops_open
 *
 * Context: any; takes no lock.
 */
void kfi_fid_init(struct kfid *fid, size_t fclass, void *context,
		  struct kfi_ops *ops)
{
	kfi_init_id(fid);
	fid->fclass = fclass;
	fid->context = context;
	fid->ops = ops;
}
EXPORT_SYMBOL_GPL(kfi_fid_init);

/**
 * kfi_fid_get() - take a reference to an object
 * @fid: the object, whose memory the caller keeps
 *
 * Context: any; takes no lock.
 * Return: false if it is being closed.
 */
bool kfi_fid_get(struct kfid *fid)
{
	return atomic_inc_not_zero(&fid->ref_cnt);
}
EXPORT_SYMBOL_GPL(kfi_fid_get);

/**
 * kfi_fid_put() - drop a reference to an object
 * @fid: the object, from kfi_fid_get()
 *
 * The object may be closed and freed at once; the caller must not touch it again.
 *
 * Context: any; takes no lock.
 */
void kfi_fid_put(struct kfid *fid)
{
	WARN_ON_ONCE(atomic_dec_return(&fid->ref_cnt) <= 0);
}
EXPORT_SYMBOL_GPL(kfi_fid_put);

/**
 * kfi_fid_kill() - begin to close an object
 * @fid: the object
 *
 * Context: any; takes no lock.
 * Return: 0, and kfi_fid_get() fails from now on; -EBUSY if the object is in use.
 */
int kfi_fid_kill(struct kfid *fid)
{
	return atomic_cmpxchg(&fid->ref_cnt, 1, 0) == 1 ? 0 : -EBUSY;
}
EXPORT_SYMBOL_GPL(kfi_fid_kill);

/**
 * kfi_fid_id() - the name of an object in tracepoints
 * @fid: an object of a provider that is built on kfi_core.h
 *
 * Context: any; takes no lock.
 * Return: the id; 0 for classes that have none.
 */
u32 kfi_fid_id(const struct kfid *fid)
{
	struct kfid *f = (struct kfid *)fid;

	if (kfi_is_ep(fid->fclass))
		return container_of(f, struct kfi_ep_base, ep.fid)->id;
	switch (fid->fclass) {
	case KFI_CLASS_FABRIC:
		return container_of(f, struct kfi_fabric_base, fabric.fid)->id;
	case KFI_CLASS_DOMAIN:
		return container_of(f, struct kfi_domain_base, domain.fid)->id;
	case KFI_CLASS_PEP:
		return container_of(f, struct kfi_pep_base, pep.fid)->id;
	case KFI_CLASS_EQ:
	case KFI_CLASS_CQ:
	case KFI_CLASS_CNTR:
		return kfi_fid_source(f)->id;
	case KFI_CLASS_WAIT:
		return kfi_wait_queue(container_of(f, struct kfid_wait, kfid))->id;
	case KFI_CLASS_COMP_CHANNEL:
		return kfi_channel_queue(f)->id;
	case KFI_CLASS_PROFILE:
		return kfi_fid_queue(f)->id;
	case KFI_CLASS_POLL:
		return kfi_poll_id(container_of(f, struct kfid_poll, fid));
	default:
		return 0;
	}
}
EXPORT_SYMBOL_GPL(kfi_fid_id);
