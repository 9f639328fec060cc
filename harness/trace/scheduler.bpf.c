// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Part of the tracer's program: the scheduler's events, as raw tracepoints.
 *
 * They find out which wake-ups come from a wake call (wakes.bpf.c) and which do not, and
 * when threads sleep and run. Uses all parts before this one.
 */

static __always_inline void foreign(struct open_wait *w, u32 cause, u64 now)
{
	bump(&w->r.foreign);
	w->r.t_foreign = now;
	w->r.foreign_tid = bpf_get_current_pid_tgid();
	w->r.foreign_context = context_below(TRACEPOINT);
	w->cause = cause;
}

/*
 * The wake call on this CPU that is about the thread's newest wait, if there is one. An
 * interrupt between the call and this event may have made a wake call of its own.
 */
static __always_inline struct call *called(struct cpu *c, struct open_wait *w)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct call *call = call_of(c, w->address);

	if ((!call && w->kind == KIND_SWAIT) ||
	    ((!call || !call->left) && w->kind == KIND_FUTEX))
		call = long_calls.lookup(&tid);
	if (!call || call->address != w->address || !call->left ||
	    call->kind != w->kind || has_entry(w->kind) || call->tid != tid ||
	    call->context != context_below(TRACEPOINT))
		return NULL;
	return call;
}

/*
 * Were breakpoints ignored on this CPU just now? That is so while their programs run,
 * with interrupts off, while a marked function returns, and during a map look-up by
 * system call.
 */
static __always_inline int blind(void)
{
	u64 base = percpu_base();

	return load32(base + PROG_ACTIVE) || load64(base + CURRENT_KPROBE);
}

static __always_inline void lose_wake(struct open_wait *w)
{
	struct queue *q = queue_at(w->address);

	if (q && q->wanted && w->r.tgid != OWN_TGID)
		lose(LOST_UNPAIRED);
}

enum { FORK_PARENT, FORK_CHILD };	/* arguments of sched_process_fork */

RAW_TRACEPOINT_PROBE(sched_waking)
{
	u32 tid = tid_of(ctx->args[WOKEN_TASK]);
	u64 now = bpf_ktime_get_ns();
	struct cpu *c = this_cpu(TRACEPOINT);
	struct sleeper *s = sleepers.lookup(&tid);
	struct open_wait *w = NULL;
	struct call *call = NULL;
	u64 entry, t_wake;
	u32 cause;
	int ours;

	if (!c || switched_off() || on_spin_lock(ctx->args[WOKEN_TASK]))
		return 0;
	/* With PREEMPT_RT waking a sleeper on a spin lock fires no event: a stale entry. */
	entry = c->task == ctx->args[WOKEN_TASK] ? c->entry : 0;
	cause = take_cause(c);
	t_wake = c->t_entry;
	/*
	 * With PREEMPT_RT an interrupt may come between the wake function and this event; as
	 * it ends, the kernel wakes ksoftirqd in the name of the thread below.
	 */
	if (entry || !BY_THREAD)
		c->entry = 0;
	if (entry)
		w = open_waits.lookup(&entry);
	ours = w && w->r.tid == tid;
	if (entry && !ours) {
		struct queue *q = queue_at(c->call.address);

		if (q && q->wanted && c->call.seq && !is_key(c->call.address)) {
			woken_inline(c, tid, now);
			return 0;
		}
	}
	if (ours) {
		call = call_of(c, w->address);
	} else {
		if (!s)
			return 0;
		entry = s->entry;
		w = open_waits.lookup(&entry);
		if (!w || w->r.tid != tid)
			return 0;
		if (is_lock(w->kind) && is_signalled(ctx->args[WOKEN_TASK]))
			cause = CAUSE_SIGNAL;
		if (cause)
			call = NULL;
		else if (is_lock(w->kind))
			call = unlocked((struct regs *)ctx, c, w);
		else
			call = called(c, w);
		ours = call != NULL;
		t_wake = call ? call->t : 0;
	}
	/* One call of woken() for all cases: each copy costs the compiler half a second. */
	if (ours) {
		woken(call, s, w, t_wake, now);
		return 0;
	}
	if (blind())
		lose_wake(w);
	foreign(w, cause, now);
	/* Before it leaves: then its leaving may wake the next waiter, which gets the lock. */
	if (is_lock(w->kind))
		note_holder(w, now, 0);
	return 0;
}

RAW_TRACEPOINT_PROBE(sched_wakeup)
{
	u32 tid = tid_of(ctx->args[WOKEN_TASK]);
	struct sleeper *s = sleepers.lookup(&tid);
	struct open_wait *w;
	u64 entry;

	if (!s || !s->woken || switched_off())
		return 0;
	entry = s->woken;
	w = open_waits.lookup(&entry);
	if (w && w->r.t_waking && !w->r.wakeup_ns)
		note_wakeup(&w->r);
	return 0;
}

/* A thread runs again; returns the wait that ends with that, if there is one. */
static __always_inline struct open_wait *runs(u32 tid, u64 now)
{
	struct sleeper *s = sleepers.lookup(&tid);
	struct open_wait *w;
	u64 entry;

	if (!s)
		return inlines.lookup(&tid);
	s->t_ran = now;
	entry = s->woken;
	w = entry ? open_waits.lookup(&entry) : NULL;
	if (w && w->r.t_wake && !w->r.t_running)
		w->r.t_running = now;
	entry = s->entry;
	w = open_waits.lookup(&entry);
	if (w && ends_by_running(w->kind) && (w->r.t_running == now || w->cause))
		return w;
	/* Its function sleeps once, and ends by whatever wakes it. */
	if (w && w->kind == KIND_FUTEX && s->sleeps != w->sleeps_before)
		return w;
	return inlines.lookup(&tid);
}

static __always_inline void sleeps(u32 tid, u32 state, u64 now)
{
	struct sleeper *s = sleepers.lookup(&tid);
	struct stats *st;

	slept_at.update(&tid, &now);
	if (!s)
		return;
	/* Spurious: woken, on a CPU since, and asleep again in the same wait. */
	if (s->t_slept && s->t_wake > s->t_slept && s->t_ran > s->t_wake) {
		st = stats_of(s->wake_number);
		if (st)
			__sync_fetch_and_add(&st->spurious, 1);
	}
	s->sleeps++;
	s->t_slept = now;
	s->state = state;
}

/* A thread sleeps, in no wait that was seen to begin: is that a traced module's business? */
static __always_inline void note_sleeper(void *ctx, u32 tid)
{
	s32 stack;

	if (sleepers.lookup(&tid))
		return;
	if (!of_module(ctx, 0)) {
		of_modules.delete(&tid);
		return;
	}
	stack = stack_of(ctx);
	of_modules.update(&tid, &stack);
	remember(tid);
}

RAW_TRACEPOINT_PROBE(sched_switch)
{
	/* The thread that leaves the CPU is still the current one. */
	u32 prev = bpf_get_current_pid_tgid();
	u32 next = tid_of(ctx->args[SWITCH_NEXT]);
	u64 now = bpf_ktime_get_ns();
	struct cpu *c = this_cpu(TRACEPOINT);
	struct open_wait *w;
	bool asleep = to_sleep(ctx->args[SWITCH_PREEMPTED],
			       ctx->args[SWITCH_PREV_STATE]);

	if (!c || switched_off())
		return 0;
	/* With PREEMPT_RT a waker may be preempted during a wake call. */
	if (asleep || !BY_THREAD) {
		c->entry = 0;
		c->cause = CAUSE_NONE;
		c->call.left = 0;
		c->outer.left = 0;
	}
	if (prev && asleep)
		sleeps(prev, ctx->args[SWITCH_PREV_STATE], now);
	if (BY_MODULE && prev && asleep)
		note_sleeper(ctx, prev);
	if (!next)
		return 0;
	w = runs(next, now);
	if (w) {
		close_wait(w, now);
		inlines.delete(&next);
	}
	return 0;
}

/* Only loaded if the trace follows processes. */
RAW_TRACEPOINT_PROBE(sched_process_fork)
{
	u32 child = tid_of(ctx->args[FORK_CHILD]);
	u8 one = 1;

	if (in_tree(bpf_get_current_pid_tgid() >> 32))
		tree.update(&child, &one);
	return 0;
}
