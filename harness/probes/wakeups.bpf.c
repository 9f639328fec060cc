// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Counts every wait, signal and wake of kfabric from outside.
 *
 * Waits are paired here, since the reader is too slow to pair them: one record
 * for a finished wait, written when it ends; one for each signal; one more only
 * for a wake that did not end its wait. What was not seen or could not be kept
 * is counted in "losses", and then the recording proves nothing.
 *
 * Our own tracepoints are taken raw. An ordinary tracepoint program is skipped,
 * without a word, while another one runs on the same CPU, and a signal in a
 * softirq that interrupts a program does happen; a raw one is skipped only if it
 * interrupts itself, which none of ours can. The scheduler's events all fire with
 * interrupts off, so that these programs, the only ordinary ones, do not meet.
 *
 * The scheduler's events are looked up by thread: only threads inside a wait
 * cost more than that look-up, so the reader cannot trigger itself.
 *
 * The loader puts records.h before this text: bcc rewrites only one file.
 */

/* Where the raw tracepoints' arguments are: in the order of their TP_PROTO. */
enum { WAIT_BEGIN_QUEUE, WAIT_BEGIN_FCLASS, WAIT_BEGIN_NEED };
enum {
	WAIT_END_QUEUE, WAIT_END_FCLASS, WAIT_END_RET, WAIT_END_WHY, WAIT_END_SEQ,
	WAIT_END_SEEN, WAIT_END_SOURCE, WAIT_END_READY
};
enum {
	SIGNAL_QUEUE, SIGNAL_SOURCE, SIGNAL_WHY, SIGNAL_SEQ, SIGNAL_HAVE,
	SIGNAL_SLEEPERS
};
enum { WAKE_QUEUE, WAKE_SOURCE, WAKE_WHY, WAKE_SEQ, WAKE_PID };
enum { OBJECT_ID, OBJECT_FCLASS, OBJECT_PARENT };
enum { MEMBER_SET, MEMBER_MEMBER, MEMBER_FCLASS };

RAW_TRACEPOINT_PROBE(wait_begin)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id;
	struct wait_rec w = {
		.kind = REC_WAIT,
		.queue = ctx->args[WAIT_BEGIN_QUEUE],
		.t_begin = bpf_ktime_get_ns(),
		.need = ctx->args[WAIT_BEGIN_NEED],
		.tid = tid,
		.tgid = id >> 32,
		.fclass = ctx->args[WAIT_BEGIN_FCLASS],
	};
	struct tally *t = tally_of(w.queue);

	if (t)
		__sync_fetch_and_add(&t->begins, 1);
	remember(tid);
	if (waits.lookup(&tid))
		lose(LOST_UNPAIRED);
	if (waits.update(&tid, &w))
		lose(LOST_WAITS);
	return 0;
}

RAW_TRACEPOINT_PROBE(wait_end)
{
	u32 tid = bpf_get_current_pid_tgid();
	u32 queue = ctx->args[WAIT_END_QUEUE];
	u64 seq = ctx->args[WAIT_END_SEQ];
	struct tally *t = tally_of(queue);
	struct wait_rec *w = waits.lookup(&tid);

	if (t)
		__sync_fetch_and_add(&t->ends, 1);
	if (!w || w->queue != queue) {
		lose(LOST_UNPAIRED);
		return 0;
	}
	if (ctx->args[WAIT_END_WHY] && (!w->t_wake || w->seq != seq))
		lose(LOST_UNPAIRED);
	w->t_end = bpf_ktime_get_ns();
	w->ret = ctx->args[WAIT_END_RET];
	w->ended = ctx->args[WAIT_END_WHY];
	w->ready = ctx->args[WAIT_END_READY];
	w->seen = ctx->args[WAIT_END_SEEN];
	emit(w, sizeof(*w));
	waits.delete(&tid);
	return 0;
}

RAW_TRACEPOINT_PROBE(signal)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct signal_rec s = {
		.kind = REC_SIGNAL,
		.queue = ctx->args[SIGNAL_QUEUE],
		.t = bpf_ktime_get_ns(),
		.seq = ctx->args[SIGNAL_SEQ],
		.have = ctx->args[SIGNAL_HAVE],
		.source = ctx->args[SIGNAL_SOURCE],
		.sleepers = ctx->args[SIGNAL_SLEEPERS],
		.waker = tid,
		.why = ctx->args[SIGNAL_WHY],
		.context = context(),
		.cpu = bpf_get_smp_processor_id(),
	};
	struct tally *t = tally_of(s.queue);

	if (t)
		__sync_fetch_and_add(&t->signals, 1);
	remember(tid);
	emit(&s, sizeof(s));
	return 0;
}

/* A wake that is about to be overwritten by the next one of the same wait. */
static __always_inline void emit_earlier(struct wait_rec *w)
{
	struct wake_rec r = {
		.kind = REC_WAKE,
		.queue = w->queue,
		.t_begin = w->t_begin,
		.t_wake = w->t_wake,
		.t_waking = w->t_waking,
		.t_running = w->t_running,
		.seq = w->seq,
		.tid = w->tid,
		.source = w->source,
		.waker = w->waker,
		.why = w->why,
		.context = w->context,
		.cpu = w->cpu,
	};

	emit(&r, sizeof(r));
}

/* A wake for a thread that no open wait of this queue is known of. */
static __always_inline void emit_stray(u32 tid, struct wait_rec *from)
{
	struct wake_rec r = {
		.kind = REC_WAKE,
		.queue = from->queue,
		.t_wake = from->t_wake,
		.seq = from->seq,
		.tid = tid,
		.source = from->source,
		.waker = from->waker,
		.why = from->why,
		.context = from->context,
		.cpu = from->cpu,
	};

	emit(&r, sizeof(r));
}

RAW_TRACEPOINT_PROBE(wake)
{
	u32 tid = ctx->args[WAKE_PID];
	struct wait_rec now = {
		.queue = ctx->args[WAKE_QUEUE],
		.t_wake = bpf_ktime_get_ns(),
		.seq = ctx->args[WAKE_SEQ],
		.source = ctx->args[WAKE_SOURCE],
		.waker = bpf_get_current_pid_tgid(),
		.why = ctx->args[WAKE_WHY],
		.context = context(),
		.cpu = bpf_get_smp_processor_id(),
	};
	struct tally *t = tally_of(now.queue);
	struct wait_rec *w = waits.lookup(&tid);

	if (t)
		__sync_fetch_and_add(&t->wakes, 1);
	if (!w || w->queue != now.queue) {
		emit_stray(tid, &now);
		return 0;
	}
	if (w->t_wake)
		emit_earlier(w);
	bump(&w->wakes);
	w->seq = now.seq;
	w->source = now.source;
	w->waker = now.waker;
	w->why = now.why;
	w->context = now.context;
	w->cpu = now.cpu;
	w->t_waking = 0;
	w->t_running = 0;
	w->wakeup_ns = 0;
	w->pending = 1;
	w->t_wake = now.t_wake;
	return 0;
}

TRACEPOINT_PROBE(sched, sched_waking)
{
	u32 tid = args->pid;
	struct wait_rec *w = waits.lookup(&tid);

	if (!w)
		return 0;
	/* Ours comes from the CPU that announced it, under the queue's lock. */
	if (w->pending && w->cpu == (u8)bpf_get_smp_processor_id()) {
		w->pending = 0;
		w->t_waking = bpf_ktime_get_ns();
		return 0;
	}
	bump(&w->foreign);
	w->t_foreign = bpf_ktime_get_ns();
	w->foreign_tid = bpf_get_current_pid_tgid();
	w->foreign_context = context();
	return 0;
}

TRACEPOINT_PROBE(sched, sched_wakeup)
{
	u32 tid = args->pid;
	struct wait_rec *w = waits.lookup(&tid);
	u64 delay;

	if (!w || !w->t_waking || w->wakeup_ns)
		return 0;
	delay = bpf_ktime_get_ns() - w->t_waking;
	w->wakeup_ns = delay < 0xffffffff ? delay : 0xffffffff;
	return 0;
}

TRACEPOINT_PROBE(sched, sched_switch)
{
	u32 prev = args->prev_pid, next = args->next_pid;
	struct wait_rec *w = waits.lookup(&prev);

	/* Bits above the low eight say "preempted", which is not asleep. */
	if (w && (args->prev_state & 0xff)) {
		w->t_slept = bpf_ktime_get_ns();
		bump(&w->sleeps);
	}
	w = waits.lookup(&next);
	if (w && w->t_wake && !w->t_running)
		w->t_running = bpf_ktime_get_ns();
	return 0;
}

static __always_inline void emit_object(u32 change, u32 id, u32 fclass, u32 other)
{
	struct object_rec o = {
		.kind = REC_OBJECT,
		.id = id,
		.t = bpf_ktime_get_ns(),
		.change = change,
		.fclass = fclass,
		.other = other,
		.tid = bpf_get_current_pid_tgid(),
	};

	emit(&o, sizeof(o));
}

RAW_TRACEPOINT_PROBE(object_new)
{
	emit_object(OBJ_NEW, ctx->args[OBJECT_ID],
		    ctx->args[OBJECT_FCLASS], ctx->args[OBJECT_PARENT]);
	return 0;
}

RAW_TRACEPOINT_PROBE(object_free)
{
	emit_object(OBJ_FREE, ctx->args[OBJECT_ID],
		    ctx->args[OBJECT_FCLASS], ctx->args[OBJECT_PARENT]);
	return 0;
}

RAW_TRACEPOINT_PROBE(member_add)
{
	emit_object(OBJ_ADD, ctx->args[MEMBER_MEMBER],
		    ctx->args[MEMBER_FCLASS], ctx->args[MEMBER_SET]);
	return 0;
}

RAW_TRACEPOINT_PROBE(member_del)
{
	emit_object(OBJ_DEL, ctx->args[MEMBER_MEMBER],
		    ctx->args[MEMBER_FCLASS], ctx->args[MEMBER_SET]);
	return 0;
}
