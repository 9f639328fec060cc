// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Part of the tracer's program: waits for sleeping locks, and their holders.
 *
 * Uses state.bpf.c, queues.bpf.c, waits.bpf.c and wakes.bpf.c. The kernel has tracepoints
 * at the begin and the end of contention, so a thread that does not have to wait for a lock
 * costs nothing:
 *
 *   contention_begin		a wait begins; again: the next iteration of its loop
 *   sched_waking		the unlock wakes the waiter: unlocked()
 *   contention_end		the wait ends, with the lock or with an error
 *
 * A thread waits for one lock at a time. With PREEMPT_RT a lock may consist of others; the
 * outermost one counts. A wait whose thread got the lock without a sleep is not recorded.
 *
 * Only wanted locks are followed: the unlock alone does not make a lock wanted.
 */

/* Arguments of the tracepoints, and flags of the first. */
enum { CONTENTION_LOCK, CONTENTION_FLAGS, CONTENTION_RET = 1 };
enum { LOCK_SPIN = 1, LOCK_READ = 2, LOCK_WRITE = 4, LOCK_RT = 8, LOCK_PERCPU = 16,
       LOCK_MUTEX = 32,
       /* Set by the loader: have a look at the wait of the thread in place of the lock. */
       LOCK_LOOK = 1 << 16 };
enum { CHAIN = 8 };
/* The entry of a thread's wait for a lock is this and its id. */
#define LOCK_ENTRY (1ULL << 32)

/* Not that of a breakpoint, which may interrupt the tracepoint. */
BPF_PERCPU_ARRAY(lock_requests, struct request, 1);

static __always_inline u8 lock_kind(u32 flags)
{
	if (flags & LOCK_MUTEX)
		return KIND_MUTEX;
	if (flags & LOCK_PERCPU)
		return KIND_PERCPU_RWSEM;
	if (flags & LOCK_RT)
		return flags & (LOCK_READ | LOCK_WRITE) ? KIND_RT_RWSEM : KIND_RT_MUTEX;
	return flags & (LOCK_READ | LOCK_WRITE) ? KIND_RWSEM : KIND_SEMAPHORE;
}

enum { MUTEX_PICKUP = 4 };	/* a flag in a mutex's owner */

/* The task that a lock names as its owner; 0 if it names none. */
static __always_inline u64 holder_of(u64 lock, u8 kind, u32 *what)
{
	u64 owner = 0;

	*what = ENDER_HOLDER;
	if (kind == KIND_MUTEX) {
		owner = load64(lock + MUTEX_OWNER);
		/* It is passed on to a thread that was woken for it and has yet to run. */
		if (owner & MUTEX_PICKUP)
			return 0;
	} else if (kind == KIND_RWSEM)
		owner = load64(lock + RWSEM_OWNER);
	else if (kind == KIND_RT_MUTEX)
		owner = load64(lock + RT_MUTEX_OWNER);
	else if (kind == KIND_RT_RWSEM)
		owner = load64(lock + RT_RWSEM_MUTEX + RT_MUTEX_OWNER);
	/* The readers of a semaphore leave their names there when they unlock it. */
	if (kind == KIND_RWSEM && (owner & 1))
		*what = ENDER_READER;
	return owner & ~7ULL;
}

/* @late: the thread may have got the lock since; it is not waiting for itself then. */
static __always_inline u32 note_holder(struct open_wait *w, u64 now, u32 late)
{
	u32 what;
	u64 task = holder_of(w->address, w->kind, &what);
	struct ender_rec r = {
		.kind = REC_ENDER,
		.queue = w->r.queue,
		.t_begin = w->r.t_begin,
		.t = now,
		.tid = w->r.tid,
		.what = what,
	};

	if (!task)
		return 0;
	r.ender = tid_of(task);
	/*
	 * A writer waits for the readers of a real-time semaphore as its owner. A thread that
	 * was woken may have got its lock.
	 */
	if (!r.ender || ((late || w->r.t_wake || w->kind == KIND_RT_RWSEM) && r.ender == r.tid))
		return 0;
	r.exited = load32(task + TASK_EXIT_STATE) != 0;
	name_task(task, r.ender);
	put(&r, sizeof(r));
	return r.ender;
}

/*
 * Note the holder of the lock that a thread waits for, the holder of the lock that this one
 * waits for, and so on: all at the same time, so that a circle is certain.
 */
static __always_inline void note_holders(u32 tid, u64 now, u32 late)
{
	u32 first = tid;

#pragma clang loop unroll(disable)
	for (int i = 0; i < CHAIN; i++) {
		u64 entry = LOCK_ENTRY | tid;
		struct open_wait *w = open_waits.lookup(&entry);

		if (!w)
			break;
		tid = note_holder(w, now, late);
		if (!tid || tid == first)
			break;
	}
}

/* The first function outside of the lock's own ones, which are in the scheduler's text. */
static __always_inline u64 locking_site(void *ctx)
{
	int zero = 0;
	struct frames *f = unwound.lookup(&zero);
	u8 inside = 0;

	if (!f || bpf_get_stack(ctx, f, sizeof(*f), 0) < 0)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < FRAMES; i++) {
		u8 sched = f->ip[i] - SCHED_TEXT < SCHED_TEXT_END - SCHED_TEXT;

		if (inside && !sched)
			return f->ip[i];
		inside |= sched;
	}
	return 0;
}

static __always_inline int wants_lock(struct regs *ctx, u64 address, u32 tgid)
{
	struct queue *q = queues.lookup(&address);

	if (tgid == OWN_TGID || (ONLY_TREE && !in_tree(tgid)))
		return 0;
	if (q && q->wanted)
		return 1;
	if (BY_MODULE)
		return of_module(ctx, address);
	return BY_TREE ? in_tree(tgid) : address == BY_QUEUE;
}

RAW_TRACEPOINT_PROBE(contention_begin)
{
	u64 address = ctx->args[CONTENTION_LOCK];
	u32 flags = ctx->args[CONTENTION_FLAGS];
	u64 id = bpf_get_current_pid_tgid();
	u64 entry = LOCK_ENTRY | (u32)id;
	int zero = 0;
	struct request *rq = lock_requests.lookup(&zero);

	/* No hash is accessed before this: hashes have spin locks, too. */
	if (!rq || (flags & LOCK_SPIN))
		return 0;
	if (flags & LOCK_LOOK) {
		id = address;
	} else {
		if (switched_off() || on_spin_lock(bpf_get_current_task()) ||
		    open_waits.lookup(&entry) ||
		    !wants_lock((struct regs *)ctx, address, id >> 32))
			return 0;
		rq->address = address;
		rq->entry = entry;
		rq->kind = lock_kind(flags);
		rq->named = rq->kind;
		rq->sp = 0;
		rq->site = locking_site(ctx);
		rq->shared = 0;
		rq->what = 0;
		rq->fresh = 1;
		begin((struct regs *)ctx, rq);
	}
	note_holders(id, bpf_ktime_get_ns(), flags & LOCK_LOOK);
	return 0;
}

RAW_TRACEPOINT_PROBE(contention_end)
{
	u32 tid = bpf_get_current_pid_tgid();
	u64 entry = LOCK_ENTRY | tid, now;
	struct open_wait *w = open_waits.lookup(&entry);
	struct sleeper *s;

	if (!w || w->address != ctx->args[CONTENTION_LOCK] || switched_off())
		return 0;
	s = sleepers.lookup(&tid);
	if (!s || s->sleeps == w->sleeps_before) {
		forget_wait(w);
		return 0;
	}
	now = bpf_ktime_get_ns();
	w->r.ret = ctx->args[CONTENTION_RET];
	close_wait(w, now);
	return 0;
}

/*
 * The current thread wakes one that waits for a lock: it has unlocked it. That is a wake call
 * of its own, which the kernel does not make on a queue.
 */
static __always_inline struct call *unlocked(struct regs *ctx, struct cpu *c,
					     struct open_wait *w)
{
	struct queue *q = queues.lookup(&w->address);
	struct stats *s = stats_of(w->r.queue);
	struct signal_rec r = {
		.kind = REC_SIGNAL,
		.queue = w->r.queue,
		.t = bpf_ktime_get_ns(),
		.have = 1,
		.waker = bpf_get_current_pid_tgid(),
		.why = 1,
		.context = context_below(TRACEPOINT),
		.cpu = bpf_get_smp_processor_id(),
	};

	/* Only a semaphore may be released by an interrupt. */
	if (!q || !s || (r.context != CTX_PROCESS && w->kind != KIND_SEMAPHORE))
		return NULL;
	r.sleepers = q->depth;
	r.seq = __sync_fetch_and_add(&s->seq, 1) + 1;
	__sync_fetch_and_add(&s->found, 1);
	remember(r.waker);
	put(&r, sizeof(r));
	c->outer = c->call;
	c->call.address = w->address;
	c->call.t = r.t;
	c->call.seq = r.seq;
	c->call.number = r.queue;
	c->call.tid = r.waker;
	c->call.left = 0;
	c->call.context = r.context;
	c->call.kind = w->kind;
	c->call.stack = stack_of(ctx);
	return &c->call;
}
