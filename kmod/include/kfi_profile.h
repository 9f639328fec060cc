/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Profiles: counts and values that an object keeps about itself, and callbacks for its
 * events, as in fi_profile(3).
 *
 * A profile can be opened on a domain, an endpoint, a wait set, a poll set or a CQ. All
 * profiles of an object show the same values, which belong to the object and not to the
 * profile. The object cannot be closed before they are.
 */
#ifndef _KFI_PROFILE_H_
#define _KFI_PROFILE_H_

#include <kfabric.h>
#include <kfi_domain.h>
#include <kfi_eq.h>

/**
 * struct kfid_profile - a profile
 * @fid: its base; kfi_close() ends it
 */
struct kfid_profile {
	struct kfid fid;
};

/* The member of kfi_profile_desc.datatype that is set. */
enum kfi_profile_type {
	kfi_primitive_type,
	kfi_defined_type,
};

/* kfi_profile_desc.flags */
#define KFI_PROFILE_LIST	BIT_ULL(0)	/* size is of one entry of many */
#define KFI_PROFILE_RESETS	BIT_ULL(1)	/* kfi_profile_reset() makes it 0 */

/**
 * struct kfi_profile_desc - a variable or an event
 * @id: of it; the same name has the same id wherever it is listed
 * @datatype_sel: selects the member of @datatype
 * @datatype: type of the value, or of what an event carries
 * @flags: KFI_PROFILE_*
 * @size: bytes of the value; of one entry, with KFI_PROFILE_LIST. Several times
 *	the size of its type: an array.
 * @name: of it; valid until the profile is closed
 * @desc: its meaning, one sentence; valid as long
 */
struct kfi_profile_desc {
	uint32_t id;
	enum kfi_profile_type datatype_sel;
	union {
		enum kfi_datatype primitive;
		enum kfi_type defined;
	} datatype;
	uint64_t flags;
	size_t size;
	const char *name;
	const char *desc;
};

/* Ids of variables. */
enum kfi_profile_var_id {
	/* Of endpoints that keep messages for which no receive is posted yet. */
	KFI_VAR_UNEXP_MSG_CNT,		/* u64 */
	KFI_VAR_UNEXP_MSG_QUEUE,	/* list of struct kfi_cq_err_entry */

	/* kfabric's own, u64 unless noted. Endpoints and domains: */
	KFI_VAR_COMPLETIONS = 0x1000,
	KFI_VAR_ERRORS,
	/* wait sets, poll sets, CQs, and their sums in domains: */
	KFI_VAR_SIGNALS,
	KFI_VAR_WAKES,
	KFI_VAR_OVERTAKEN,
	KFI_VAR_SPURIOUS,
	KFI_VAR_TIMEOUTS,
	KFI_VAR_INTERRUPTS,
	KFI_VAR_HANDED_ON,
	KFI_VAR_OVERRUNS,
	KFI_VAR_DEEPEST_FILL,
	KFI_VAR_SLEEPS,
	KFI_VAR_ASLEEP,
	KFI_VAR_MOST_ASLEEP,
	KFI_VAR_ASLEEP_NS,
	KFI_VAR_LONGEST_NS,
	KFI_VAR_LATENCY,		/* u64[KFI_PROFILE_BUCKETS] */

	/* From here on a provider numbers its own. */
	KFI_VAR_PROVIDER = 0x10000,
};

/* Ids of events. Both carry a struct kfi_cq_err_entry: the message. */
enum kfi_profile_event_id {
	KFI_EVENT_UNEXP_MSG_RECVD,
	KFI_EVENT_UNEXP_MSG_MATCHED,

	/* From here on a provider numbers its own. */
	KFI_EVENT_PROVIDER = 0x10000,
};

/* Bucket n of a histogram counts 2^n ns to 2^(n+1); the last one all longer times. */
#define KFI_PROFILE_BUCKETS 32

/**
 * typedef kfi_profile_callback - called at an event
 * @prof: the profile that it was registered on
 * @event: the event
 * @param: what the event carries, or NULL; valid during the call
 * @size: bytes of @param
 * @context: as registered
 *
 * May read variables of @prof, which have the values of that very moment. Every other
 * call on any profile is refused with -EBUSY.
 *
 * Context: any, with the provider's profile_lock held, and interrupts off except on
 * PREEMPT_RT: must not sleep or take long, and must not post to the endpoint.
 * Return: ignored.
 */
typedef int (*kfi_profile_callback)(struct kfid_profile *prof,
				    const struct kfi_profile_desc *event,
				    const void *param, size_t size,
				    void *context);

int kfi_profile_open(struct kfid *fid, uint64_t flags,
		     struct kfid_profile **prof, void *context);
int kfi_profile_close(struct kfid_profile *prof);
int kfi_profile_reset(struct kfid_profile *prof, uint64_t flags);
ssize_t kfi_profile_query_vars(struct kfid_profile *prof,
			       struct kfi_profile_desc *varlist, size_t *count);
ssize_t kfi_profile_query_events(struct kfid_profile *prof,
				 struct kfi_profile_desc *eventlist,
				 size_t *count);
int kfi_profile_register_callback(struct kfid_profile *prof, uint32_t event_id,
				  kfi_profile_callback callback, void *context);
int kfi_profile_read_u64(struct kfid_profile *prof, uint32_t var_id,
			 uint64_t *data);
int kfi_profile_read(struct kfid_profile *prof, uint32_t var_id, void *buf,
		     size_t *size);
int kfi_profile_start_reads(struct kfid_profile *prof, uint64_t flags);
int kfi_profile_end_reads(struct kfid_profile *prof, uint64_t flags);

#endif /* _KFI_PROFILE_H_ */
