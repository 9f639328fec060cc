// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Records every wait, signal and wake of kfabric from its tracepoints.
 *
 * Waits are paired here, since the reader is too slow for that: one record for a
 * finished wait, written at its end; one for each signal; and one for each wake that did
 * not end its wait. Events that were missed or could not be kept are counted in
 * "losses"; then the recording proves nothing.
 *
 * All tracepoints are raw. An ordinary tracepoint program is skipped silently while
 * another one runs on the same CPU, and softirqs that interrupt a program do signal. A
 * raw program is skipped only if it interrupts itself, which cannot happen here: the
 * scheduler's events fire with interrupts off, ours with preemption off (kfi_trace()),
 * under a queue's lock or in the waiting thread. Raw tracepoints are also cheaper, since
 * no event is formatted for them.
 *
 * The scheduler's events are those of the whole system. An array shows without a helper
 * call whether a thread with the same hash is in a wait; only then is it looked up.
 *
 * A thread keeps its wait's map element after the wait, for its next one: deleting and
 * adding elements costs more than all look-ups together. If thread ids are few, the map
 * is an array, whose look-up is inlined. The element is freed at the thread's exit.
 *
 * The kernel's own functions give a second view. They know neither queues nor
 * publications, only the module's text: wakes by a wake function of the module, and
 * sleeps in the module. verdict.py compares both views. These functions are traced by
 * fentry: a kprobe would be skipped, or make another program skipped, if an interrupt
 * came during it, like an ordinary tracepoint.
 *
 * A stack costs as much as everything else together. With the option "stacks", a stack
 * is taken when sleepers are signalled, and emitted if the signal then looks wrong. The
 * sleeper's is taken only if the end of the wait looks wrong.
 *
 * The loader puts records.h before this text, since bcc rewrites only one file. It
 * defines TASK_PID and TASK_SLEEP, the offsets of a task's pid and state, and PID_MAX, which
 * no pid reaches.
 */

/* Arguments of the raw tracepoints, in the order of their TP_PROTO. */
enum {
	WAIT_BEGIN_QUEUE, WAIT_BEGIN_FCLASS, WAIT_BEGIN_NEED, WAIT_BEGIN_EXCLUSIVE
};
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

enum { OPTION_STACKS, OPTION_QUIET, OPTION_TEXT_START, OPTION_TEXT_END, OPTION_MAX };
enum { STACKS = 2048, CALLERS = 6, FRESH = BPF_F_REUSE_STACKID, LATE_NS = 100000000 };

/* Bits of the hash of a task's address; the array should fit into a page. */
enum { FILTER_BITS = 9 };

struct stray {
	u32 wakes, sleeps;
};

/* By thread. Outside a wait "kind" is 0, before the first wait "tid". */
#if PID_MAX <= 65536
BPF_ARRAY(waits, struct wait_rec, PID_MAX);
#else
BPF_HASH(waits, u32, struct wait_rec, 4096);
#endif
/* The threads that have an element there. */
BPF_HASH(waiters, u32, u8, 4096);
/* The number of threads in a wait, by the hash of their task. */
BPF_ARRAY(filter, u64, 1 << FILTER_BITS);

BPF_ARRAY(options, u64, OPTION_MAX);
BPF_HASH(strays, u32, struct stray, 256);
BPF_TABLE("stacktrace", int, struct bpf_stacktrace, stacks, STACKS);

static __always_inline u64 option(int which)
{
	u64 *value = options.lookup(&which);

	return value ? *value : 0;
}

static __always_inline void emit_stack(u32 queue, u32 tid, u64 t_begin,
				       s32 sleeper, s32 waker)
{
	struct stack_rec r = {
		.kind = REC_STACK,
		.queue = queue,
		.t_begin = t_begin,
		.tid = tid,
		.sleeper = sleeper,
		.waker = waker,
		.user_sleeper = -1,
		.user_waker = -1,
	};

	if (sleeper >= 0 || waker >= 0)
		emit(&r, sizeof(r));
}

/* If the queue's last signal woke no thread, emit its stack. */
static __always_inline void emit_last_stack(u32 queue, struct tally *t)
{
	if (t->last_stack > 0 && !t->last_wakes)
		emit_stack(queue, t->last_waker, t->last_t, -1, t->last_stack - 1);
	t->last_stack = 0;
}

static __always_inline u64 *filter_of(u64 task)
{
	u32 key = ((u32)(task >> 6) * 0x9e3779b1U) >> (32 - FILTER_BITS);

	return filter.lookup(&key);
}

/* The open wait of a thread. */
static __always_inline struct wait_rec *open_wait(u32 tid)
{
	struct wait_rec *w = waits.lookup(&tid);

	return w && w->kind ? w : 0;
}

static __always_inline u32 tid_of(u64 task)
{
	u32 tid = 0;

	if (bpf_probe_read_kernel(&tid, sizeof(tid), (void *)(task + TASK_PID)))
		lose(LOST_UNPAIRED);
	return tid;
}

/* The open wait of a task; most have none. */
static __always_inline struct wait_rec *task_wait(u64 task)
{
	u64 *inside = filter_of(task);

	return inside && *inside ? open_wait(tid_of(task)) : 0;
}

/* The current thread enters a wait (1), or leaves it (-1). */
static __always_inline void count_inside(s64 change)
{
	u64 *inside = filter_of(bpf_get_current_task());

	if (inside)
		__sync_fetch_and_add(inside, change);
}

/* The element for a thread's waits, which the thread keeps. */
static __always_inline struct wait_rec *place_of(u32 tid)
{
	struct wait_rec none = {};
	struct wait_rec *w = waits.lookup_or_try_init(&tid, &none);
	u8 yes = 1;

	if (w && (w->tid == tid || !waiters.update(&tid, &yes)))
		return w;
	lose(LOST_WAITS);
	return 0;
}

RAW_TRACEPOINT_PROBE(wait_begin)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id;
	u32 queue = ctx->args[WAIT_BEGIN_QUEUE];
	struct tally *t = tally_of(queue);
	struct wait_rec *w = place_of(tid);
	u8 flags = (u8)ctx->args[WAIT_BEGIN_EXCLUSIVE] ? WAIT_EXCLUSIVE : 0;

	if (t)
		__sync_fetch_and_add(&t->begins, 1);
	if (!w)
		return 0;
	if (w->kind)
		lose(LOST_UNPAIRED);
	else
		count_inside(1);
	if ((!w->tid || (w->flags & WAIT_NAMELESS)) && !remember(tid))
		flags |= WAIT_NAMELESS;
	__builtin_memset(w, 0, sizeof(*w));
	w->queue = queue;
	w->t_begin = bpf_ktime_get_ns();
	w->need = ctx->args[WAIT_BEGIN_NEED];
	w->tid = tid;
	w->tgid = id >> 32;
	w->fclass = ctx->args[WAIT_BEGIN_FCLASS];
	w->flags = flags;
	/* Last: from now on other programs may read the element. */
	asm volatile("" ::: "memory");
	w->kind = REC_WAIT;
	return 0;
}

/* The id of an ended thread may be used again. */
RAW_TRACEPOINT_PROBE(sched_process_exit)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct wait_rec *w = waits.lookup(&tid);

	if (!w || w->kind || !w->tid)
		return 0;
	waiters.delete(&tid);
	w->tid = 0;
#if PID_MAX > 65536
	waits.delete(&tid);
#endif
	return 0;
}

RAW_TRACEPOINT_PROBE(wait_end)
{
	u32 tid = bpf_get_current_pid_tgid();
	u32 queue = ctx->args[WAIT_END_QUEUE];
	u64 seq = ctx->args[WAIT_END_SEQ];
	struct tally *t = tally_of(queue);
	struct wait_rec *w = open_wait(tid);

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
	/* Slept, and ended without a wake-up: by its deadline, or past its queue. */
	if (t && w->sleeps && !w->ended && option(OPTION_STACKS)) {
		emit_stack(queue, tid, w->t_begin, stacks.get_stackid(ctx, FRESH), -1);
		emit_last_stack(queue, t);
	}
	emit(w, sizeof(*w));
	w->kind = 0;
	count_inside(-1);
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

	/* Skip the signals of queues on which no thread has ever waited. */
	if (t && !t->begins && option(OPTION_QUIET))
		return 0;
	emit(&s, sizeof(s));
	if (!t)
		return 0;
	if (t->named != tid + 1 && remember(tid))
		t->named = tid + 1;
	__sync_fetch_and_add(&t->signals, 1);
	emit_last_stack(s.queue, t);
	t->last_t = s.t;
	t->last_seq = s.seq;
	t->last_waker = tid;
	t->last_wakes = 0;
	/* Plus 1, since 0 means none. */
	if (s.sleepers && option(OPTION_STACKS))
		t->last_stack = stacks.get_stackid(ctx, FRESH) + 1;
	return 0;
}

/* A wake that the next one of the same wait overwrites; or one outside its wait. */
static __always_inline void emit_wake(struct wait_rec *w, u32 tid)
{
	struct wake_rec r;

	fill_wake(&r, w);
	r.tid = tid;
	emit(&r, sizeof(r));
}

/* Not from the queue's last signal, or late, or a second exclusive sleeper. */
static __always_inline bool looks_wrong(struct tally *t, struct wait_rec *w,
					struct wait_rec *now)
{
	if (!w || !t->last_t || t->last_seq != now->seq)
		return true;
	if (t->last_wakes > 1 && (w->flags & WAIT_EXCLUSIVE))
		return true;
	return now->t_wake - t->last_t > LATE_NS;
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
	struct wait_rec *w = open_wait(tid);

	if (t) {
		__sync_fetch_and_add(&t->wakes, 1);
		t->last_wakes++;
		if (looks_wrong(t, w, &now) && option(OPTION_STACKS))
			emit_stack(now.queue, tid, w ? w->t_begin : 0, -1,
				   stacks.get_stackid(ctx, FRESH));
	}
	if (!w || w->queue != now.queue) {
		emit_wake(&now, tid);
		return 0;
	}
	if (w->t_wake)
		emit_wake(w, tid);
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
	w->flags |= WAIT_PENDING;
	w->t_wake = now.t_wake;
	return 0;
}

#if TASK_STATE
/* With PREEMPT_RT most timers expire in softirq threads; these are at it now. */
BPF_HASH(expiring, u32, u8, 64);

RAW_TRACEPOINT_PROBE(hrtimer_expire_entry)
{
	u32 tid = bpf_get_current_pid_tgid();
	u8 one = 1;

	if (context() == CTX_SOFTIRQ)
		expiring.update(&tid, &one);
	return 0;
}

RAW_TRACEPOINT_PROBE(hrtimer_expire_exit)
{
	u32 tid = bpf_get_current_pid_tgid();

	if (context() == CTX_SOFTIRQ)
		expiring.delete(&tid);
	return 0;
}
#endif

/* The context of a wake-up past the queue; that of a timer counts as an interrupt. */
static __always_inline u8 foreign_context(void)
{
#if TASK_STATE
	u32 tid = bpf_get_current_pid_tgid();

	if (expiring.lookup(&tid))
		return CTX_HARDIRQ;
#endif
	return context();
}

/*
 * Is this the wake-up that our tracepoint announced, under the queue's lock? With
 * PREEMPT_RT that lock keeps neither interrupts nor other threads from the CPU.
 */
static __always_inline bool announced(struct wait_rec *w)
{
	return (w->flags & WAIT_PENDING) &&
	       w->waker == (u32)bpf_get_current_pid_tgid() &&
	       w->cpu == (u8)bpf_get_smp_processor_id() &&
	       w->context == context();
}

/*
 * A wait sleeps on its queue interruptibly, always. A thread may also sleep elsewhere
 * during the call: while its buffer is paged in, or at delay hook D7. It is on no queue
 * then, and what ends that sleep does not end the wait. A timer may end it before the
 * thread is off its CPU, so the state counts at the wake-up, too.
 */
static __always_inline bool sleeps_elsewhere(u64 task)
{
	u32 state = TASK_INTERRUPTIBLE;

	bpf_probe_read_kernel(&state, sizeof(state), (void *)(task + TASK_SLEEP));
	return !(state & TASK_INTERRUPTIBLE);
}

RAW_TRACEPOINT_PROBE(sched_waking)
{
	struct wait_rec *w = task_wait(ctx->args[WOKEN_TASK]);

	if (!w || on_spin_lock(ctx->args[WOKEN_TASK]))
		return 0;
	if (announced(w)) {
		w->flags &= ~WAIT_PENDING;
		w->t_waking = bpf_ktime_get_ns();
		return 0;
	}
	if (sleeps_elsewhere(ctx->args[WOKEN_TASK]))
		return 0;
	bump(&w->foreign);
	w->t_foreign = bpf_ktime_get_ns();
	w->foreign_tid = bpf_get_current_pid_tgid();
	w->foreign_context = foreign_context();
	return 0;
}

RAW_TRACEPOINT_PROBE(sched_wakeup)
{
	struct wait_rec *w = task_wait(ctx->args[WOKEN_TASK]);

	if (w && w->t_waking && !w->wakeup_ns)
		note_wakeup(w);
	return 0;
}

RAW_TRACEPOINT_PROBE(sched_switch)
{
	u32 state = ctx->args[SWITCH_PREV_STATE];
	struct wait_rec *w;

	if (to_sleep(ctx->args[SWITCH_PREEMPTED], state) && (state & TASK_INTERRUPTIBLE)) {
		w = task_wait(ctx->args[SWITCH_PREV]);
		if (w) {
			w->t_slept = bpf_ktime_get_ns();
			bump(&w->sleeps);
		}
	}
	w = task_wait(ctx->args[SWITCH_NEXT]);
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

/* Ids are not used again, so a queue's counts are freed with it. */
static __always_inline void emit_tally(u32 queue)
{
	struct tally *t = tallies.lookup(&queue);
	struct tally_rec r = {
		.kind = REC_TALLY,
		.queue = queue,
	};

	if (!t)
		return;
	r.signals = t->signals;
	r.wakes = t->wakes;
	r.begins = t->begins;
	r.ends = t->ends;
	emit_last_stack(queue, t);
	emit(&r, sizeof(r));
	tallies.delete(&queue);
}

RAW_TRACEPOINT_PROBE(object_free)
{
	emit_tally(ctx->args[OBJECT_ID]);
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

static __always_inline bool in_module(u64 address)
{
	return address >= option(OPTION_TEXT_START) &&
	       address < option(OPTION_TEXT_END);
}

static __always_inline struct stray *stray_of(u32 tid)
{
	struct stray zero = {};
	struct stray *s = strays.lookup_or_try_init(&tid, &zero);

	if (!s)
		lose(LOST_UNPAIRED);
	return s;
}

/* A wake function of the module wakes the thread of this entry. */
KFUNC_PROBE(default_wake_function, void *wqe)
{
	/* The verifier knows the type, so that it can be read directly. */
	struct {
		u32 flags;
		u64 task;
		u64 func;
	} *entry = wqe;
	struct wait_rec *w;
	struct stray *s;
	u32 tid;

	if (!in_module(entry->func))
		return 0;
	tid = tid_of(entry->task);
	w = open_wait(tid);
	if (w) {
		bump(&w->kernel_wakes);
		return 0;
	}
	s = stray_of(tid);
	if (s)
		__sync_fetch_and_add(&s->wakes, 1);
	return 0;
}

/*
 * A thread goes to sleep; in the module only ever within a wait. Few other threads
 * sleep by this function, so its stack can be read: the first callers are the probe
 * itself and its trampoline.
 */
KFUNC_PROBE(schedule_hrtimeout)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 callers[CALLERS] = {};
	struct stray *s;
	bool found = false;

	if (open_wait(tid))
		return 0;
	bpf_get_stack(ctx, callers, sizeof(callers), 0);
#pragma unroll
	for (int i = 0; i < CALLERS; i++)
		found |= in_module(callers[i]);
	if (!found)
		return 0;
	s = stray_of(tid);
	if (s)
		__sync_fetch_and_add(&s->sleeps, 1);
	return 0;
}
