// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A part of the tracer's program, after wakes.bpf.c: work items from queueing to execution.
 *
 *   __queue_delayed_work	an item is pending: its timer will queue it
 *   timer_start, timer_cancel	... that timer is set, or removed
 *   workqueue_queue_work	an item is pending: a worker will run it
 *   try_to_grab_pending	an item is cancelled, or will be queued anew
 *   workqueue_execute_start	a worker begins to run it
 *   workqueue_execute_end	... and has ended
 *
 * All items are followed, since one item may keep another one from running. Records are
 * written for those of the traced modules, or queued by the traced processes, that were
 * pending or without a timer for WORK_LATE; the loader writes those that still are.
 */

enum { WORK_LATE = 100 * 1000 * 1000 };
/* Arguments of the tracepoints. */
enum { QUEUE_PWQ = 1, QUEUE_WORK };
enum { EXECUTE_WORK };
enum { TIMER };

struct pending {
	struct work_rec r;
	u64 pwq;
	u32 wanted, pad;
};

BPF_TABLE("lru_hash", u64, struct pending, works, 8192);
BPF_TABLE("lru_hash", u64, struct runner, busy, 4096);	/* by pool_workqueue: the last */

static __always_inline int wants_work(u64 function)
{
	int zero = 0;
	struct places *p = modules.lookup(&zero);

	if (BY_MODULE)
		return p && within(p->text, function);
	return in_tree(bpf_get_current_pid_tgid() >> 32) &&
	       context_below(TRACEPOINT) == CTX_PROCESS;
}

/* The number of a function's items. */
static __always_inline u32 number_of_items(u64 function)
{
	struct queue *q = queue_at(function);
	struct stats *s;

	if (!q)
		q = add_queue(function, function, KIND_WORK, 0, 0);
	if (!q)
		return 0;
	q->wanted = 1;
	s = stats_of(q->number);
	if (s)
		describe(s, q);
	return q->number;
}

/* A worker that runs an item on the same pool_workqueue. */
static __always_inline void note_busy(struct pending *p, u64 now)
{
	struct runner *runner = busy.lookup(&p->pwq);

	if (!runner)
		return;
	p->r.busy = runner->tid;
	p->r.busy_queue = number_of_items(runner->function);
	p->r.t_busy = now;
	name_task(runner->task, runner->tid);
}

static __always_inline void add_pending(u64 work, u64 pwq, u32 probe)
{
	struct pending *known = works.lookup(&work);
	u64 now = bpf_ktime_get_ns(), function = load64(work + WORK_FUNCTION);
	struct pending p = {
		.r = {
			.kind = REC_WORK,
			.t = now,
			.t_queued = pwq ? now : 0,
			.tid = bpf_get_current_pid_tgid(),
			.context = context_below(probe),
		},
		.pwq = pwq,
		.wanted = wants_work(function),
	};

	/* Its timer has expired in the context of any thread. */
	if (known && !known->r.t_queued) {
		p.r.t = known->r.t;
		p.r.tid = known->r.tid;
		p.r.context = known->r.context;
		p.wanted = known->wanted;
	}
	if (p.wanted) {
		p.r.queue = number_of_items(function);
		remember(p.r.tid);
		note_busy(&p, now);
	}
	works.update(&work, &p);
}

int on_delay(struct regs *ctx)
{
	/* Without a delay it is queued at once. */
	if (!switched_off() && ctx->cx)
		add_pending(ctx->dx, 0, BREAKPOINT);
	return 0;
}

int on_grab(struct regs *ctx)
{
	u64 work = ctx->di;

	works.delete(&work);
	return 0;
}

RAW_TRACEPOINT_PROBE(workqueue_queue_work)
{
	if (!switched_off())
		add_pending(ctx->args[QUEUE_WORK], ctx->args[QUEUE_PWQ], TRACEPOINT);
	return 0;
}

RAW_TRACEPOINT_PROBE(workqueue_execute_start)
{
	u64 work = ctx->args[EXECUTE_WORK];
	struct pending *p = works.lookup(&work);
	struct runner runner = {
		.task = bpf_get_current_task(),
		.function = load64(work + WORK_FUNCTION),
		.pwq = p ? p->pwq : 0,
		.tid = bpf_get_current_pid_tgid(),
	};

	if (switched_off())
		return 0;
	runners.update(&work, &runner);
	if (!p)
		return 0;
	busy.update(&runner.pwq, &runner);
	p->r.t_end = bpf_ktime_get_ns();
	if (p->wanted && p->r.t_end - p->r.t > WORK_LATE)
		put(&p->r, sizeof(p->r));
	works.delete(&work);
	return 0;
}

RAW_TRACEPOINT_PROBE(workqueue_execute_end)
{
	u64 work = ctx->args[EXECUTE_WORK];
	struct runner *runner = runners.lookup(&work);
	struct runner *last;
	u64 pwq;

	if (!runner)
		return 0;
	pwq = runner->pwq;
	last = busy.lookup(&pwq);
	if (last && last->tid == runner->tid)
		busy.delete(&pwq);
	runners.delete(&work);
	return 0;
}

static __always_inline struct pending *pending_of_timer(u64 timer)
{
	u64 work = timer - WORK_TIMER;
	struct pending *p = works.lookup(&work);

	return p && !p->r.t_queued && !switched_off() ? p : NULL;
}

RAW_TRACEPOINT_PROBE(timer_start)
{
	struct pending *p = pending_of_timer(ctx->args[TIMER]);

	u64 now = bpf_ktime_get_ns();

	if (!p)
		return 0;
	if (p->wanted && p->r.t_deleted && now - p->r.t_deleted > WORK_LATE) {
		p->r.t_end = now;
		put(&p->r, sizeof(p->r));
		p->r.t_end = 0;
	}
	p->r.t_deleted = 0;
	return 0;
}

/* This is also so if the timer expires; then the item is queued next. */
RAW_TRACEPOINT_PROBE(timer_cancel)
{
	struct pending *p = pending_of_timer(ctx->args[TIMER]);

	if (!p)
		return 0;
	p->r.t_deleted = bpf_ktime_get_ns();
	p->r.deleter = bpf_get_current_pid_tgid();
	p->r.delete_context = context_below(TRACEPOINT);
	if (p->wanted)
		remember(p->r.deleter);
	return 0;
}
