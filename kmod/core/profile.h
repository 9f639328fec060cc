/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Profiles: shared by profile.c (events, callbacks, open and close),
 * profile_read.c, profile_vars.c, profile_log.c, and by listing.c, which prints
 * the same variables.
 */
#ifndef _KFABRIC_PROFILE_H_
#define _KFABRIC_PROFILE_H_

#include <kfi_profile.h>

#include "core.h"

/**
 * struct kfi_profile_listener - the receivers of one event of a profile
 * @callback: called, or NULL
 * @context: for @callback
 * @logged: the event is kept for a reader
 *
 * Protected by the provider's profile_lock.
 */
struct kfi_profile_listener {
	kfi_profile_callback callback;
	void *context;
	bool logged;
};

/**
 * struct kfi_profile_snap - all values of one instant
 * @counts: the core's values
 * @lens: sizes of the provider's values, in the order of its table
 * @room: bytes of @data
 * @data: the provider's values, one after the other
 *
 * Protected by profile->lock once a profile points to it.
 */
struct kfi_profile_snap {
	struct kfi_counts counts;
	size_t *lens;
	size_t room;
	u8 data[];
};

/**
 * struct kfi_profile_log - kept events that have not been read
 * @ring: room for KFI_PROFILE_LOG events; NULL until the first kfi_profile_keep()
 * @head: events read so far
 * @tail: events kept so far
 * @seq: events so far
 * @dropped: events for which there was no room
 *
 * Protected by profile->lock.
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
 * @target: the profiled object; a reference is held; constant
 * @ops: its provider's table, or NULL; constant
 * @on_ep: on the list of an endpoint that has events; the provider's profile_lock
 * @queue: where threads wait for its events
 * @lock: protects @snap and @log
 * @snap: set between kfi_profile_start_reads() and _end_reads(), else NULL; @lock
 * @log: the kept events; @lock
 * @lost: the endpoint's device is gone; the provider's profile_lock
 * @nevents: number of events of @ops; constant
 * @listeners: one for each event; the provider's profile_lock
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
