/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Triggered operations: operations that start when a counter reaches a value.
 *
 * Declared for source compatibility with kfabric 1.7. No provider here
 * implements them: kfi_control() with KFI_QUEUE_WORK, KFI_CANCEL_WORK or
 * KFI_FLUSH_WORK fails, and so does a post with the flag KFI_TRIGGER.
 *
 * In the interface, an operation is triggered in one of two ways: the caller
 * posts it with KFI_TRIGGER and a triggered context, or queues deferred work on
 * the domain. Operations that wait for one counter start in the order of their
 * thresholds, then in the order of posting.
 */
#ifndef _KFI_TRIGGER_H_
#define _KFI_TRIGGER_H_

#include <kfabric.h>
#include <kfi_atomic.h>
#include <kfi_rma.h>
#include <kfi_tagged.h>

enum kfi_trigger_event {
	KFI_TRIGGER_THRESHOLD
};

/* The pointer in use in the union of struct kfi_deferred_work. */
enum kfi_op_type {
	KFI_OP_RECV,
	KFI_OP_SEND,
	KFI_OP_TRECV,
	KFI_OP_TSEND,
	KFI_OP_READ,
	KFI_OP_WRITE,
	KFI_OP_ATOMIC,
	KFI_OP_FETCH_ATOMIC,
	KFI_OP_COMPARE_ATOMIC,
	KFI_OP_CNTR_SET,
	KFI_OP_CNTR_ADD
};

struct kfi_trigger_threshold {
	struct kfid_cntr *cntr;
	size_t threshold;
};

struct kfi_op_msg {
	struct kfid_ep *ep;
	struct kfi_msg msg;
	uint64_t flags;
};

struct kfi_op_tagged {
	struct kfid_ep *ep;
	struct kfi_msg_tagged msg;
	uint64_t flags;
};

struct kfi_op_rma {
	struct kfid_ep *ep;
	struct kfi_msg_rma msg;
	uint64_t flags;
};

struct kfi_op_atomic {
	struct kfid_ep *ep;
	struct kfi_msg_atomic msg;
	uint64_t flags;
};

struct kfi_op_fetch_atomic {
	struct kfid_ep *ep;
	struct kfi_msg_atomic msg;
	struct kfi_msg_fetch fetch;
	uint64_t flags;
};

struct kfi_op_compare_atomic;

struct kfi_op_cntr {
	struct kfid_cntr *cntr;
	uint64_t value;
};

#ifdef KFABRIC_DIRECT
#include <kfi_direct_trigger.h>
#else /* !KFABRIC_DIRECT */

/* Replaces a kfi_context and has its size. */
struct kfi_triggered_context {
	enum kfi_trigger_event event_type;
	union {
		struct kfi_trigger_threshold threshold;
		void *internal[3];
	} trigger;
};

/* Replaces a kfi_context2 and has its size. */
struct kfi_triggered_context2 {
	enum kfi_trigger_event event_type;
	union {
		struct kfi_trigger_threshold threshold;
		void *internal[7];
	} trigger;
};

/* Belongs to the provider until the work is done, cancelled or flushed. */
struct kfi_deferred_work {
	struct kfi_context2 context;
	uint64_t threshold;			/* of triggering_cntr */
	struct kfid_cntr *triggering_cntr;
	struct kfid_cntr *completion_cntr;	/* counts the work; may be NULL */
	enum kfi_op_type op_type;
	union {
		struct kfi_op_msg *msg;
		struct kfi_op_tagged *tagged;
		struct kfi_op_rma *rma;
		struct kfi_op_atomic *atomic;
		struct kfi_op_fetch_atomic *fetch_atomic;
		struct kfi_op_compare_atomic *compare_atomic;
		struct kfi_op_cntr *cntr;
	} op;
};

#endif /* !KFABRIC_DIRECT */

#endif /* _KFI_TRIGGER_H_ */
