/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Inside kfabric.ko: what the parts of profiles share.
 */
#ifndef _KFABRIC_PROFILE_H_
#define _KFABRIC_PROFILE_H_

#include <kfi_profile.h>

#include "core.h"

/**
 * struct kfi_profile_listener - who wants one event; protected by the provider's lock
 * @callback: called, or NULL
 * @context: for it
 * @logged: it is kept for who reads events
 */
struct kfi_profile_listener {
	kfi_profile_callback callback;
	void *context;
	bool logged;
};

/**
 * struct kfi_profile_snap - all values of one instant
 * @counts: the core's
 * @lens: sizes of the provider's, in the order of its table
 * @room: bytes of @data
 * @data: the provider's, one after the other
 */
struct kfi_profile_snap {
	struct kfi_counts counts;
	size_t *lens;
	size_t room;
	u8 data[];
};

/**
 * struct kfi_profile_log - events that nobody has read yet; protected by profile->lock
 * @ring: room for KFI_PROFILE_LOG of them; NULL until somebody wants it
 * @head: events read so far
 * @tail: events kept so far
 * @seq: events so far
 * @dropped: those of them for which there was no room
 */
struct kfi_profile_log {
	struct kfi_profile_record *ring;
	u32 head;
	u32 tail;
	u64 seq;
	u64 dropped;
};

/**
 * struct kfi_profile - an open profile
 * @prof: the public object
 * @target: what is profiled; a reference is held
 * @ops: its provider's table, or NULL
 * @on_ep: on the list of an endpoint that has events; the provider's lock
 * @queue: where threads wait for its events
 * @lock: protects @snap and @log
 * @snap: between kfi_profile_start_reads() and _end_reads(), else NULL
 * @log: the events that are kept
 * @lost: the endpoint's device is gone; the provider's lock
 * @nevents: events of @ops
 * @listeners: one for each of them
 */
struct kfi_profile {
	struct kfid_profile prof;
	struct kfid *target;
	const struct kfi_profile_ops *ops;
	struct list_head on_ep;
	struct kfi_waitq queue;
	spinlock_t lock;	/* snap, log */
	struct kfi_profile_snap *snap;
	struct kfi_profile_log log;
	bool lost;
	size_t nevents;
	struct kfi_profile_listener listeners[];
};

/* profile.c */
struct kfi_profile *kfi_profile_of(struct kfid_profile *prof);
int kfi_profile_event_index(const struct kfi_profile *p, u32 id);
bool kfi_in_callback(void);
bool kfi_in_callback_of(const struct kfi_profile *p);
struct kfi_ep_base *kfi_profile_ep(const struct kfi_profile *p);
unsigned long kfi_profile_lock(struct kfi_profile *p);
void kfi_profile_unlock(struct kfi_profile *p, unsigned long flags);

/* profile_read.c */
const struct kfi_profile_desc *kfi_profile_var(const struct kfi_profile *p,
					       size_t i);
size_t kfi_profile_nvars(const struct kfi_profile *p);
void kfi_profile_snap_free(struct kfi_profile_snap *snap);

/* profile_vars.c */
size_t kfi_core_vars(size_t fclass);
const struct kfi_profile_desc *kfi_core_var(size_t fclass, size_t i);
size_t kfi_core_offset(u32 id);

/* profile_log.c */
void kfi_profile_log_add(struct kfi_profile *p, u32 id, const void *data,
			 size_t size);

#endif /* _KFABRIC_PROFILE_H_ */
