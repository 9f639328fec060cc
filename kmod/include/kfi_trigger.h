/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Operations that start when a counter reaches a value: by a KFI_TRIGGER flag,
 * where the context is a triggered one, or by queueing deferred work on the
 * domain (KFI_QUEUE_WORK, KFI_CANCEL_WORK, KFI_FLUSH_WORK). Those that wait for
 * one counter start in the order of their thresholds, then of their posting.
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

/* Which pointer of a deferred work's union is used. */
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

/* In place of a kfi_context, and as large. */
struct kfi_triggered_context {
	enum kfi_trigger_event event_type;
	union {
		struct kfi_trigger_threshold threshold;
		void *internal[3];
	} trigger;
};

/* In place of a kfi_context2, and as large. */
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
	struct kfid_cntr *completion_cntr;	/* counts the work; or NULL */
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
