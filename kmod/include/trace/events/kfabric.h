/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The stable interface for tracing. Objects are named by their ids, threads by their
 * pids, never by an address.
 *
 * "queue" is the id of the object that threads sleep on: a wait set, a completion
 * channel, a profile, or a CQ, EQ or counter with a wait object of its own. "source" is
 * the id of the CQ, EQ or counter of the publication (0: none, the queue itself was
 * signalled). "seq" numbers the publications on one queue, from 1; a wake-up without a
 * publication (one that was handed on) has 0.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kfabric

#if !defined(_TRACE_KFABRIC_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KFABRIC_H

#include <linux/tracepoint.h>

#ifndef KFI_WHY_DEFINED
#define KFI_WHY_DEFINED
/* The reason of a signal; part of the stable interface. */
enum kfi_why {
	KFI_WHY_EVENT	= 1,	/* an entry, an event, a count */
	KFI_WHY_ERROR	= 2,	/* an error entry, an error count */
	KFI_WHY_OVERRUN	= 3,	/* the queue overflowed */
	KFI_WHY_SIGNAL	= 4,	/* kfi_cq_signal(), kfi_cntr_add(), kfi_cntr_set() */
	KFI_WHY_LOST	= 5,	/* the device is gone */
	KFI_WHY_HANDON	= 6,	/* a woken thread left without taking anything */
	KFI_WHY_ACKED	= 7,	/* the last event of a CQ that closes was acked */
	KFI_WHY_CLOSED	= 8,	/* a completion channel was closed */
};
#endif

#define KFI_SHOW_CLASS(c) __print_symbolic(c,			\
	{ 1, "fabric" }, { 2, "domain" }, { 3, "ep" },		\
	{ 9, "pep" }, { 11, "av" }, { 12, "mr" }, { 13, "eq" },	\
	{ 14, "cq" }, { 15, "cntr" }, { 16, "wait" }, { 17, "poll" },	\
	{ 19, "profile" }, { 24, "channel" })

#define KFI_SHOW_WHY(w) __print_symbolic(w,			\
	{ 0, "-" }, { 1, "event" }, { 2, "error" },		\
	{ 3, "overrun" }, { 4, "signal" }, { 5, "lost" },	\
	{ 6, "handon" }, { 7, "acked" }, { 8, "closed" })

/* An object was opened, or is about to be freed. */
DECLARE_EVENT_CLASS(kfabric_object,
	TP_PROTO(u32 id, u32 fclass, u32 parent),
	TP_ARGS(id, fclass, parent),
	TP_STRUCT__entry(
		__field(u32, id)
		__field(u32, fclass)
		__field(u32, parent)
	),
	TP_fast_assign(
		__entry->id = id;
		__entry->fclass = fclass;
		__entry->parent = parent;
	),
	TP_printk("id=%u class=%s parent=%u", __entry->id,
		  KFI_SHOW_CLASS(__entry->fclass), __entry->parent)
);

DEFINE_EVENT(kfabric_object, object_new,
	TP_PROTO(u32 id, u32 fclass, u32 parent),
	TP_ARGS(id, fclass, parent));
DEFINE_EVENT(kfabric_object, object_free,
	TP_PROTO(u32 id, u32 fclass, u32 parent),
	TP_ARGS(id, fclass, parent));

/* A CQ, EQ or counter joined or left a wait set or a poll set. */
DECLARE_EVENT_CLASS(kfabric_member,
	TP_PROTO(u32 set, u32 member, u32 fclass),
	TP_ARGS(set, member, fclass),
	TP_STRUCT__entry(
		__field(u32, set)
		__field(u32, member)
		__field(u32, fclass)
	),
	TP_fast_assign(
		__entry->set = set;
		__entry->member = member;
		__entry->fclass = fclass;
	),
	TP_printk("set=%u member=%u class=%s", __entry->set, __entry->member,
		  KFI_SHOW_CLASS(__entry->fclass))
);

DEFINE_EVENT(kfabric_member, member_add,
	TP_PROTO(u32 set, u32 member, u32 fclass),
	TP_ARGS(set, member, fclass));
DEFINE_EVENT(kfabric_member, member_del,
	TP_PROTO(u32 set, u32 member, u32 fclass),
	TP_ARGS(set, member, fclass));
DEFINE_EVENT(kfabric_member, poll_add,
	TP_PROTO(u32 set, u32 member, u32 fclass),
	TP_ARGS(set, member, fclass));
DEFINE_EVENT(kfabric_member, poll_del,
	TP_PROTO(u32 set, u32 member, u32 fclass),
	TP_ARGS(set, member, fclass));
/* kfi_poll() returned this member's context. */
DEFINE_EVENT(kfabric_member, poll_report,
	TP_PROTO(u32 set, u32 member, u32 fclass),
	TP_ARGS(set, member, fclass));

/*
 * A thread entered a blocking call, and may sleep or not. exclusive: a publication wakes
 * only one of the exclusive sleepers of the queue.
 */
TRACE_EVENT(wait_begin,
	TP_PROTO(u32 queue, u32 fclass, u64 need, bool exclusive),
	TP_ARGS(queue, fclass, need, exclusive),
	TP_STRUCT__entry(
		__field(u64, need)
		__field(u32, queue)
		__field(u32, fclass)
		__field(u32, exclusive)
	),
	TP_fast_assign(
		__entry->need = need;
		__entry->queue = queue;
		__entry->fclass = fclass;
		__entry->exclusive = exclusive;
	),
	TP_printk("queue=%u class=%s need=%llu exclusive=%u", __entry->queue,
		  KFI_SHOW_CLASS(__entry->fclass), __entry->need,
		  __entry->exclusive)
);

/*
 * A blocking call returns; every wait_begin has one. ret: 0, a count or a negative
 * errno. why, seq, source: the wake-up that ended its last sleep, 0 if none did (it was
 * ready, or a deadline or a signal ended the call). seen: the publications up to this
 * one came before its last look, so they need not wake it. ready: was something readable
 * on the queue at that moment?
 */
TRACE_EVENT(wait_end,
	TP_PROTO(u32 queue, u32 fclass, int ret, u32 why, u64 seq, u64 seen,
		 u32 source, bool ready),
	TP_ARGS(queue, fclass, ret, why, seq, seen, source, ready),
	TP_STRUCT__entry(
		__field(u64, seq)
		__field(u64, seen)
		__field(u32, queue)
		__field(u32, fclass)
		__field(u32, source)
		__field(u32, why)
		__field(int, ret)
		__field(u32, ready)
	),
	TP_fast_assign(
		__entry->seq = seq;
		__entry->seen = seen;
		__entry->queue = queue;
		__entry->fclass = fclass;
		__entry->source = source;
		__entry->why = why;
		__entry->ret = ret;
		__entry->ready = ready;
	),
	TP_printk("queue=%u class=%s ret=%d why=%s seq=%llu seen=%llu source=%u ready=%u",
		  __entry->queue, KFI_SHOW_CLASS(__entry->fclass), __entry->ret,
		  KFI_SHOW_WHY(__entry->why), __entry->seq, __entry->seen,
		  __entry->source, __entry->ready)
);

/*
 * A publication is about to wake: emitted under the queue's lock, with the number of our
 * waiters on the queue at that moment.
 */
TRACE_EVENT(signal,
	TP_PROTO(u32 queue, u32 source, u32 why, u64 seq, u64 have, u32 sleepers),
	TP_ARGS(queue, source, why, seq, have, sleepers),
	TP_STRUCT__entry(
		__field(u64, seq)
		__field(u64, have)
		__field(u32, queue)
		__field(u32, source)
		__field(u32, why)
		__field(u32, sleepers)
	),
	TP_fast_assign(
		__entry->seq = seq;
		__entry->have = have;
		__entry->queue = queue;
		__entry->source = source;
		__entry->why = why;
		__entry->sleepers = sleepers;
	),
	TP_printk("queue=%u source=%u why=%s seq=%llu have=%llu sleepers=%u",
		  __entry->queue, __entry->source, KFI_SHOW_WHY(__entry->why),
		  __entry->seq, __entry->have, __entry->sleepers)
);

/* One sleeper is taken off the queue and woken, by the publication seq. */
TRACE_EVENT(wake,
	TP_PROTO(u32 queue, u32 source, u32 why, u64 seq, pid_t pid),
	TP_ARGS(queue, source, why, seq, pid),
	TP_STRUCT__entry(
		__field(u64, seq)
		__field(u32, queue)
		__field(u32, source)
		__field(u32, why)
		__field(pid_t, pid)
	),
	TP_fast_assign(
		__entry->seq = seq;
		__entry->queue = queue;
		__entry->source = source;
		__entry->why = why;
		__entry->pid = pid;
	),
	TP_printk("queue=%u source=%u why=%s seq=%llu pid=%d", __entry->queue,
		  __entry->source, KFI_SHOW_WHY(__entry->why), __entry->seq,
		  __entry->pid)
);

#endif /* _TRACE_KFABRIC_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH trace/events
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE kfabric
#include <trace/define_trace.h>
