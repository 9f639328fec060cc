// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Part of the tracer's program: begin and end of waits, and their records.
 *
 * Uses state.bpf.c and queues.bpf.c. Its programs are on_enqueue and on_finish; waits
 * also end in locks.bpf.c and scheduler.bpf.c, by close_wait().
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
		w->r.ended = !w->r.ret;
	} else if (w->r.t_foreign > ours && !is_lock(w->kind)) {
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
	struct queue *q = queue_at(address);

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
	if (q && w->kind == KIND_FUTEX && w->r.t_wake)
		__sync_fetch_and_add(&q->awake, -1);
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

/* The end of the kernel's function is not traced: the wait ends once its thread runs. */
static __always_inline int ends_by_running(u8 kind)
{
	return kind == KIND_COMPLETION || kind == KIND_BIT || kind == KIND_FUTEX;
}

/*
 * Drop a wait whose thread has left the queue unseen: a completion that was done just
 * before the sleep, or a queue entry that was removed without the traced functions.
 */
static __always_inline void forget_wait(struct open_wait *w)
{
	struct sleeper *s = sleepers.lookup(&w->r.tid);
	struct queue *q = queue_at(w->address);
	u64 entry = w->entry;

	if (s && s->open)
		s->open--;
	if (s && s->entry == entry)
		s->entry = w->outer;
	if (q)
		__sync_fetch_and_add(&q->depth, -1);
	if (q && w->kind == KIND_FUTEX && w->r.t_wake)
		__sync_fetch_and_add(&q->awake, -1);
	if (q && q->wanted && !ends_by_running(w->kind) && !is_lock(w->kind))
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

/* Does the kernel's wake function find the sleeper by its entry? */
static __always_inline int has_entry(u8 kind)
{
	return kind == KIND_QUEUE || kind == KIND_VARIABLE;
}

static __always_inline u8 exclusive(u64 entry, u8 kind)
{
	if (kind == KIND_SWAIT || kind == KIND_FUTEX)
		return WAIT_EXCLUSIVE;
	if (has_entry(kind) && (load32(entry) & FLAG_EXCLUSIVE))
		return WAIT_EXCLUSIVE;
	return 0;
}

static __always_inline int begin(struct regs *ctx, struct request *rq)
{
	u64 address = rq->address, entry = rq->entry;
	u8 kind = rq->kind;
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id, tgid = id >> 32;
	u64 now = bpf_ktime_get_ns();
	struct open_wait *known = open_waits.lookup(&entry);
	struct stats *s;
	struct queue *q;

	if (known && known->r.tid == tid && known->address == address && !rq->fresh)
		return 0;	/* the next iteration of its loop */
	if (known)
		forget_wait(known);
	q = queue_slept_on(ctx, rq);
	if (!q)
		return 0;
	if (!q->wanted && tgid != OWN_TGID &&
	    (is_lock(kind) || qualifies(ctx, address, tgid)))
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
			.fclass = is_lock(kind) ? FCLASS_LOCK :
				  rq->what ? FCLASS_EVENT : FCLASS_QUEUE,
			.flags = exclusive(entry, kind),
		},
		.stack = {
			.kind = REC_STACK,
			.queue = q->number,
			.t_begin = now,
			.tid = tid,
			.sleeper = NO_STACK,
			.waker = NO_STACK,
			.user_sleeper = NO_STACK,
			.user_waker = NO_STACK,
		},
		.address = address,
		.entry = entry,
		.kind = kind,
	};
	if (tgid == OWN_TGID) {
		__sync_fetch_and_add(&q->own, 1);
	} else if (q->wanted) {
		w.stack.sleeper = stack_of(ctx);
		w.stack.user_sleeper = user_stack_of(ctx);
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
	if (rq->what && q->wanted && tgid != OWN_TGID)
		w.ender = note_aim(rq, &w.r);
	enter(tid, entry, &w);
	return 0;
}

static __always_inline void take_early(u64 address, u32 count)
{
	struct queue *q = queue_at(address);

	if (q)
		take_one(q, count);
}

/* RCU's own threads sleep there, and the traced code wakes them without knowing of it. */
static __always_inline int is_of_rcu(u64 address)
{
	return !BY_QUEUE && address - RCU_STATE < RCU_STATE_SIZE;
}

/* A wait for a futex; false if its process is not traced, or if it is in a shared file. */
static __always_inline bool request_futex(struct regs *ctx, struct request *rq)
{
	u64 id = bpf_get_current_pid_tgid(), key = ctx->di, second = ctx->si;
	u32 tid = id, tgid = id >> 32, offset;

	/* Both are read: the verifier refuses a choice between two places in @ctx. */
	asm volatile("" : "+r"(key), "+r"(second));
	if (!IN(ctx, FUTEX_DO))
		key = second;
	key += FUTEX_KEY;
	offset = load32(key + FUTEX_OFFSET);
	if (!in_tree(tgid) || (offset & FUTEX_OF_FILE))
		return false;
	rq->site = load64(key + FUTEX_ADDRESS) + (offset & ~FUTEX_FLAGS);
	rq->address = address_of_futex(rq->site, tgid);
	rq->kind = KIND_FUTEX;
	rq->fresh = 1;
	rq->entry = entry_of_thread(tid, KIND_FUTEX);
	name_task(load64(bpf_get_current_task() + TASK_LEADER), tgid);
	return true;
}

/* The arguments of a function that sleeps; false if the wait does not count. */
static __always_inline bool request_wait(struct regs *ctx, struct request *rq)
{
	u32 tid = bpf_get_current_pid_tgid();

	rq->address = ctx->di;
	rq->entry = ctx->si;
	rq->kind = KIND_QUEUE;
	rq->fresh = 0;
	rq->site = load64(ctx->sp);
	if (waits_for_futex(ctx))
		return request_futex(ctx, rq);
	if (IN(ctx, TRY_WAIT) || (ctx->ip >= COMPLETION_BEGIN && ctx->ip < COMPLETION_END)) {
		u32 count = load32(rq->address);

		rq->address += COMPLETION_QUEUE;
		if (count)	/* done already */
			take_early(rq->address, count);
		if (count || IN(ctx, TRY_WAIT))
			return false;
		/* Its entry is made later; the thread id takes its place. */
		rq->entry = tid;
		rq->kind = KIND_COMPLETION;
		rq->fresh = 1;
	} else if (IN(ctx, SWAIT_EXCLUSIVE) || IN(ctx, SWAIT_EVENT)) {
		rq->kind = KIND_SWAIT;
		return !is_of_rcu(rq->address);
	} else if (waits_for_folio(ctx)) {
		rq->address = address_of_key(ctx->di, folio_bit(ctx));
		rq->kind = KIND_FOLIO;
		rq->fresh = 1;
		rq->entry = entry_of_thread(tid, KIND_FOLIO);
	} else if (has_bit(ctx) || has_bit_entry(ctx)) {
		rq->address = has_bit(ctx) ? address_of_key(ctx->di, ctx->si) : key_at(ctx->si);
		rq->kind = KIND_BIT;
		/* The function with the entry is called by the others, unless it is inlined. */
		rq->fresh = has_bit(ctx);
		rq->entry = entry_of_thread(tid, KIND_BIT);
	} else if (waits_for_bit(rq->entry)) {
		u64 entry = entry_of_thread(tid, KIND_BIT);
		struct open_wait *outer = open_waits.lookup(&entry);

		rq->address = key_at(rq->entry - BIT_TO_ENTRY);
		rq->kind = KIND_VARIABLE;
		/* It is known from the functions above, if it has not been inlined there. */
		return !outer || outer->address != rq->address;
	}
	return true;
}

/*
 * Has a task a signal that ends a sleep in this state? The kernel's own flag for that has
 * another number in each kernel.
 */
static __always_inline int has_signal(u64 task, u32 state)
{
	u64 group = load64(task + TASK_SIGNAL);
	u64 pending = load64(task + TASK_PENDING + SIGPENDING_SET) |
		      load64(group + SIGNAL_SHARED + SIGPENDING_SET);

	pending &= ~load64(task + TASK_BLOCKED);
	if (state & TASK_INTERRUPTIBLE)
		return pending != 0;
	return (state & TASK_WAKEKILL) && (pending & SIGKILL_SET);
}

/* Has a task that is being woken such a signal? Then the signal may have woken it. */
static __always_inline int is_signalled(u64 task)
{
	return has_signal(task, load32(task + TASK_SLEEP));
}

/*
 * Does the function see a signal? Then it takes the sleeper off the queue, and
 * wait_event_interruptible() returns without a call of finish_wait().
 */
static __always_inline int leaves_for_signal(struct regs *ctx)
{
	u64 state = ctx->dx;

	if (!IN(ctx, WAIT_EVENT) && !IN(ctx, SWAIT_EVENT))
		return 0;
	return has_signal(bpf_get_current_task(), state);
}

static __always_inline void end_for_signal(struct request *rq)
{
	u64 entry = rq->entry;
	struct open_wait *w = open_waits.lookup(&entry);

	if (!w || w->r.tid != (u32)bpf_get_current_pid_tgid() || w->address != rq->address)
		return;
	if (!w->r.t_waking)
		w->r.ret = RET_EINTR;
	close_wait(w, bpf_ktime_get_ns());
}

/* One program for all functions: each program costs the compiler a second. */
int on_enqueue(struct regs *ctx)
{
	struct cpu *c = this_cpu(BREAKPOINT);
	struct request *rq;

	if (!c || switched_off())
		return 0;
	rq = &c->request;
	if (!request_wait(ctx, rq))
		return 0;
	if (leaves_for_signal(ctx)) {
		end_for_signal(rq);
		return 0;
	}
	rq->sp = ctx->sp;
	rq->named = rq->kind == KIND_VARIABLE ? KIND_BIT : rq->kind;
	rq->shared = 0;
	rq->what = 0;
	if (rq->kind == KIND_COMPLETION)
		take_aim(rq);
	forget_values();
	return begin(ctx, rq);
}

int on_finish(struct regs *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	u8 kind = kind_of_table(ctx->di);
	u64 entry = ctx->si;
	struct open_wait *w = open_waits.lookup(&entry);

	if (!w && kind) {
		entry = entry_of_thread(tid, kind);
		w = open_waits.lookup(&entry);
	}
	if (!w || w->r.tid != tid || switched_off())
		return 0;
	w->r.flags = exclusive(entry, w->kind);
	close_wait(w, bpf_ktime_get_ns());
	return 0;
}
