// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Part 3 of 6 of the tracer's program: begin and end of waits, and their records.
 *
 * Uses state.bpf.c and queues.bpf.c. Its programs are on_enqueue and on_finish; waits
 * also end in scheduler.bpf.c, by close_wait().
 */

static __always_inline void emit_wait(struct open_wait *w)
{
	struct stats *s = stats_of(w->r.queue);

	if (!s)
		return;
	__sync_fetch_and_add(&s->waits, 1);
	if (w->r.sleeps)
		__sync_fetch_and_add(&s->slept, 1);
	if (w->r.t_wake)
		__sync_fetch_and_add(&s->ended_wakes, 1);
	if (w->r.ret == RET_ETIMEDOUT)
		__sync_fetch_and_add(&s->timeouts, 1);
	if (w->r.ret == RET_EINTR)
		__sync_fetch_and_add(&s->interrupted, 1);
	if (w->r.t_wake && w->r.t_running) {
		/* Without branches, since the verifier would follow each of them. */
		u32 bucket = bpf_log2l(w->r.t_running - w->r.t_wake) - 1;

		__sync_fetch_and_add(&s->latency[bucket & (BUCKETS - 1)], 1);
	}
	put(&w->r, sizeof(w->r) + (WITH_STACKS ? sizeof(w->stack) : 0));
}

/* A wake that the next one of the same wait overwrites. */
static __always_inline void emit_earlier(struct open_wait *w)
{
	struct stats *s = stats_of(w->r.queue);
	struct wake_rec r;

	fill_wake(&r, &w->r);
	if (s)
		__sync_fetch_and_add(&s->earlier, 1);
	put(&r, sizeof(r));
}

static __always_inline void set_end(struct open_wait *w, u64 now)
{
	u64 ours = w->r.t_waking;

	w->r.t_end = now;
	/*
	 * Comparing with t_slept is not enough: a thread that is woken while it goes to
	 * sleep may be switched out after that.
	 */
	if (ours && ours >= w->r.t_foreign &&
	    (w->r.t_slept <= ours || w->r.t_slept <= w->r.t_running)) {
		w->r.ended = 1;
	} else if (w->r.t_foreign > ours) {
		if (w->cause == CAUSE_TIMER)
			w->r.ret = RET_ETIMEDOUT;
		else if (w->cause == CAUSE_SIGNAL)
			w->r.ret = RET_EINTR;
	}
}

/* A thread that waits for a completion finds this count, and takes one if there is one. */
static __always_inline void take_one(struct queue *q, u32 count)
{
	q->due = count && count != DONE_FOR_EVER ? count - 1 : count;
}

static __always_inline void close_wait(struct open_wait *w, u64 now)
{
	u64 entry = w->entry, address = w->address;
	u32 tid = w->r.tid;
	/* Without an entry the begin was not seen, so nothing was counted. */
	struct sleeper *s = entry ? sleepers.lookup(&tid) : NULL;
	struct queue *q = queues.lookup(&address);

	if (!entry)
		w->r.t_running = now;
	if (s) {
		u32 sleeps = s->sleeps - w->sleeps_before;

		w->r.sleeps = sleeps < 255 ? sleeps : 255;
		if (sleeps) {
			w->r.t_slept = s->t_slept;
			w->r.state = s->state;
		}
		/* Sleeps of an inner wait are not sleeps of the outer one. */
		if (s->entry == entry && w->outer) {
			s->sleeps = w->sleeps_before;
			s->t_slept = w->slept_before;
		}
		if (s->entry == entry)
			s->entry = w->outer;
		/* Later sleeps have nothing to do with the wake that ended this one. */
		if (s->woken == entry) {
			s->woken = 0;
			s->t_wake = 0;
		}
		s->open--;
		if (!s->open)
			sleepers.delete(&tid);
	}
	set_end(w, now);
	if (q && entry && w->kind == KIND_COMPLETION)
		take_one(q, load32(address - COMPLETION_QUEUE));
	if (q) {
		if (entry)
			__sync_fetch_and_add(&q->depth, -1);
		if (w->r.tgid == OWN_TGID)
			__sync_fetch_and_add(&q->own, -1);
		else if (q->wanted)
			emit_wait(w);
		if (q->on_stack)
			queues.delete(&address);
	}
	if (entry)
		open_waits.delete(&entry);
}

/*
 * Drop a wait whose thread has left the queue unseen: a completion that was done just
 * before the sleep, or a queue entry that was removed without the traced functions.
 */
static __always_inline void forget_wait(struct open_wait *w)
{
	struct sleeper *s = sleepers.lookup(&w->r.tid);
	struct queue *q = queues.lookup(&w->address);
	u64 entry = w->entry;

	if (s && s->open)
		s->open--;
	if (s && s->entry == entry)
		s->entry = w->outer;
	if (q)
		__sync_fetch_and_add(&q->depth, -1);
	if (q && q->wanted && w->kind == KIND_QUEUE)
		lose(LOST_UNPAIRED);
	open_waits.delete(&entry);
}

static __always_inline void enter(u32 tid, u64 entry, struct open_wait *w)
{
	struct sleeper fresh = {};
	struct sleeper *s = sleepers.lookup_or_try_init(&tid, &fresh);

	if (!s) {
		lose(LOST_WAITS);
		return;
	}
	w->outer = s->entry;
	w->sleeps_before = s->sleeps;
	w->slept_before = s->t_slept;
	s->entry = entry;
	s->open++;
	if (open_waits.update(&entry, w))
		lose(LOST_WAITS);
}

static __always_inline u8 exclusive(u64 entry, u8 kind)
{
	if (kind == KIND_QUEUE && (load32(entry) & FLAG_EXCLUSIVE))
		return WAIT_EXCLUSIVE;
	return 0;
}

static __always_inline int begin(struct regs *ctx, u64 address, u64 entry,
				 u8 kind)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id, tgid = id >> 32;
	u64 now = bpf_ktime_get_ns();
	struct open_wait *known = open_waits.lookup(&entry);
	struct stats *s;
	struct queue *q;

	if (known && known->r.tid == tid && known->address == address &&
	    kind == KIND_QUEUE)
		return 0;	/* the next iteration of its loop */
	if (known)
		forget_wait(known);
	q = queue_slept_on(address, ctx->sp, load64(ctx->sp), kind);
	if (!q)
		return 0;
	if (!q->wanted && tgid != OWN_TGID && qualifies(ctx, address, tgid))
		q->wanted = 1;
	if (ONLY_TREE && !in_tree(tgid))
		return 0;
	struct open_wait w = {
		.r = {
			.kind = REC_WAIT,
			.queue = q->number,
			.t_begin = now,
			.tid = tid,
			.tgid = tgid,
			.fclass = FCLASS_QUEUE,
			.flags = exclusive(entry, kind),
		},
		.stack = {
			.kind = REC_STACK,
			.queue = q->number,
			.t_begin = now,
			.tid = tid,
			.sleeper = NO_STACK,
			.waker = NO_STACK,
		},
		.address = address,
		.entry = entry,
		.kind = kind,
	};
	if (tgid == OWN_TGID) {
		__sync_fetch_and_add(&q->own, 1);
	} else if (q->wanted) {
		w.stack.sleeper = stack_of(ctx);
		remember(tid);
	}
	if (!q->slept_on)
		name_by_stack(q, q->wanted && w.stack.sleeper >= 0 ?
			      w.stack.sleeper : stacks.get_stackid(ctx, 0));
	__sync_fetch_and_add(&q->depth, 1);
	q->tid = tid;
	if (kind == KIND_COMPLETION) {
		/* On a stack it may be another one by now. */
		if (!q->on_stack)
			w.r.gone = q->due;
		q->due = 0;
	}
	s = stats_of(q->number);
	if (s && q->depth > s->deepest)
		s->deepest = q->depth;
	if (s && q->wanted)
		describe(s, q);
	enter(tid, entry, &w);
	return 0;
}

static __always_inline void take_early(u64 address, u32 count)
{
	struct queue *q = queues.lookup(&address);

	if (q)
		take_one(q, count);
}

/* One program for all functions: each program costs the compiler a second. */
int on_enqueue(struct regs *ctx)
{
	u64 address = ctx->di, entry = ctx->si;
	u8 kind = KIND_QUEUE;

	if (switched_off())
		return 0;
	if (ctx->ip - TRY_WAIT < FUNCTION_HEAD ||
	    (ctx->ip >= COMPLETION_BEGIN && ctx->ip < COMPLETION_END)) {
		u32 count = load32(address);

		address += COMPLETION_QUEUE;
		if (count)	/* done already */
			take_early(address, count);
		if (count || ctx->ip - TRY_WAIT < FUNCTION_HEAD)
			return 0;
		/* Its entry is made later; the thread id takes its place. */
		entry = (u32)bpf_get_current_pid_tgid();
		kind = KIND_COMPLETION;
	}
	return begin(ctx, address, entry, kind);
}

int on_finish(struct regs *ctx)
{
	u64 entry = ctx->si;
	struct open_wait *w = open_waits.lookup(&entry);

	if (!w || w->r.tid != (u32)bpf_get_current_pid_tgid() || switched_off())
		return 0;
	w->r.flags = exclusive(entry, KIND_QUEUE);
	close_wait(w, bpf_ktime_get_ns());
	return 0;
}
