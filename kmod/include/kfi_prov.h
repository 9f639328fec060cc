/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * For providers only: registration, and reference counts for providers and objects.
 */
#ifndef _KFI_PROV_H_
#define _KFI_PROV_H_

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/types.h>

#include <kfabric.h>

/**
 * struct kfi_provider - a provider, as it registers itself
 * @version: its own version
 * @kfi_version: the API that it was written for, KFI_VERSION(1, 7)
 * @context: the core's
 * @name: unique; the prov_name of its infos
 * @kgetinfo: answers kfi_getinfo() for this provider; may sleep; called under
 *	kfi_providers_lock
 * @kfabric: opens a fabric for kfi_fabric(); may sleep; called without a lock, by
 *	several threads at once
 * @cleanup: called when the provider deregisters, before the wait for its last
 *	references; may be NULL
 * @comp: the core's: completed by the last kfi_deref_provider()
 * @ref_cnt: the core's; atomic
 *
 * The other fields are constant while the provider is registered.
 */
struct kfi_provider {
	uint32_t version;
	uint32_t kfi_version;
	struct kfi_context context;
	const char *name;
	int (*kgetinfo)(uint32_t version, const char *node,
			const char *service, uint64_t flags,
			struct kfi_info *hints, struct kfi_info **info);
	int (*kfabric)(struct kfi_fabric_attr *attr,
		       struct kfid_fabric **fabric, void *context);
	void (*cleanup)(void);
	struct completion comp;
	atomic_t ref_cnt;
};

/* Exported by kfabric.ko and documented there. */
int kfi_provider_register(struct kfi_provider *provider);
int kfi_provider_deregister(struct kfi_provider *provider);

/**
 * kfi_ref_provider() - keep a provider registered, for an open fabric
 * @provider: the provider
 *
 * kfi_provider_deregister() waits for the mirror, kfi_deref_provider().
 *
 * Context: any; takes no lock.
 */
static inline void kfi_ref_provider(struct kfi_provider *provider)
{
	atomic_inc(&provider->ref_cnt);
}

/**
 * kfi_deref_provider() - the mirror of kfi_ref_provider()
 * @provider: the provider
 *
 * Context: any; does not sleep.
 */
static inline void kfi_deref_provider(struct kfi_provider *provider)
{
	if (atomic_dec_and_test(&provider->ref_cnt))
		complete(&provider->comp);
}

/**
 * kfi_init_id() - start the reference count of a new object at 1
 * @fid: the object
 *
 * Context: any; takes no lock.
 */
static inline void kfi_init_id(struct kfid *fid)
{
	init_completion(&fid->comp);
	atomic_set(&fid->ref_cnt, 1);
}

/**
 * kfi_ref_id() - take a reference to an object
 * @fid: the object, which the caller keeps from being closed meanwhile
 *
 * Context: any; takes no lock.
 */
static inline void kfi_ref_id(struct kfid *fid)
{
	atomic_inc(&fid->ref_cnt);
}

/**
 * kfi_deref_id() - drop a reference to an object
 * @fid: the object
 *
 * The last one completes fid->comp.
 *
 * Context: any; does not sleep.
 */
static inline void kfi_deref_id(struct kfid *fid)
{
	if (atomic_dec_and_test(&fid->ref_cnt))
		complete(&fid->comp);
}

/**
 * kfi_close_id() - drop the first reference and wait until all are gone
 * @fid: the object
 *
 * Context: process, may sleep, without limit and not interruptibly.
 */
static inline void kfi_close_id(struct kfid *fid)
{
	kfi_deref_id(fid);
	wait_for_completion(&fid->comp);
}

#endif /* _KFI_PROV_H_ */
