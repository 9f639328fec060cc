/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_KREF_H
#define PROVE_SHIM_LINUX_KREF_H

#include <linux/refcount.h>

struct kref {
	refcount_t refcount;
};

static inline void kref_init(struct kref *kref)
{
	refcount_set(&kref->refcount, 1);
}

static inline unsigned int kref_read(const struct kref *kref)
{
	return refcount_read(&kref->refcount);
}

static inline void kref_get(struct kref *kref)
{
	refcount_inc(&kref->refcount);
}

static inline bool kref_get_unless_zero(struct kref *kref)
{
	return refcount_inc_not_zero(&kref->refcount);
}

static inline int kref_put(struct kref *kref, void (*release)(struct kref *kref))
{
	if (!refcount_dec_and_test(&kref->refcount))
		return 0;
	release(kref);
	return 1;
}

#endif /* PROVE_SHIM_LINUX_KREF_H */
