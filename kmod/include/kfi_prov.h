/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What a provider needs beside the objects' headers: its registration, and
 * reference counts for providers and objects. Nothing here is for consumers.
 */
#ifndef _KFI_PROV_H_
#define _KFI_PROV_H_

#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/types.h>

#include <kfabric.h>

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

int kfi_provider_register(struct kfi_provider *provider);

int kfi_provider_deregister(struct kfi_provider *provider);

static inline void kfi_ref_provider(struct kfi_provider *provider)
{
	atomic_inc(&provider->ref_cnt);
}

static inline void kfi_deref_provider(struct kfi_provider *provider)
{
	if (atomic_dec_and_test(&provider->ref_cnt))
		complete(&provider->comp);
}

static inline void kfi_init_id(struct kfid *fid)
{
	init_completion(&fid->comp);
	atomic_set(&fid->ref_cnt, 1);
}

static inline void kfi_ref_id(struct kfid *fid)
{
	atomic_inc(&fid->ref_cnt);
}

static inline void kfi_deref_id(struct kfid *fid)
{
	if (atomic_dec_and_test(&fid->ref_cnt))
		complete(&fid->comp);
}

static inline void kfi_close_id(struct kfid *fid)
{
	kfi_deref_id(fid);
	wait_for_completion(&fid->comp);
}

#endif /* _KFI_PROV_H_ */
