// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Part of the tracer's program: wake calls, and the sleepers that they reach.
 *
 * Uses state.bpf.c, queues.bpf.c and waits.bpf.c. A wake call leaves its state in this
 * CPU's struct cpu; sched_waking in scheduler.bpf.c completes the wake with woken().
 */

/* The number of threads on a queue; without branches in the loop, for the verifier. */
static __always_inline u32 count_sleepers(u64 address, u8 kind)
{
	u64 head = address + (kind == KIND_QUEUE ? QUEUE_LIST : SWAITS_LIST);
	u64 node = load64(head);
	u64 n = 0;

#pragma clang loop unroll(disable)
	for (int i = 0; i < LIST_LIMIT; i++) {
		u64 task;

		if (!node || node == head)
			break;
		if (kind == KIND_QUEUE)
			task = load64(node - ENTRY_LIST + ENTRY_PRIVATE);
		else
			task = load64(node - SWAIT_LIST);
		n += (task | -task) >> 63;
		node = load64(node);
	}
	return n;
}

/* Does a thread sleep there that slept in code of a traced module? */
static __always_inline int for_module(u64 address, u8 kind)
{
	u64 head = address + QUEUE_LIST;
	u64 node = load64(head);

	if (!BY_MODULE || kind != KIND_QUEUE)
		return 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < LIST_LIMIT; i++) {
		u32 tid;

		if (!node || node == head)
			break;
		tid = tid_of(load64(node - ENTRY_LIST + ENTRY_PRIVATE));
		if (of_modules.lookup(&tid))
			return 1;
		node = load64(node);
	}
	return 0;
}

static __always_inline void forget_thread(u32 tid, u8 kind)
{
	u64 entry = kind == KIND_COMPLETION ? tid : entry_of_thread(tid, kind);
	struct open_wait *w = open_waits.lookup(&entry);

	/* One that was woken ends by that. */
	if (w && w->kind == kind && !w->r.t_wake)
		forget_wait(w);
}

static __always_inline int wake(struct regs *ctx, struct cpu *c)
{
	u64 address = c->request.address, table = c->request.table;
	u8 kind = c->request.kind;
	u32 many = c->request.many;
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id, tgid = id >> 32;
	struct queue *q = queue_at(address);
	struct stats *s;
	u32 count = 0;

	c->entry = 0;
	c->alias = 0;
	c->cause = CAUSE_NONE;
	c->outer = c->call;
	c->call.address = address;
	c->call.number = 0;
	c->call.left = 0;
	c->call.seq = 0;
	if ((!q || !q->wanted) && tgid != OWN_TGID &&
	    (qualifies(ctx, address, tgid) || for_module(address, kind))) {
		if (!q)
			q = add_queue(address, c->request.site, kind, 0,
				      kind != KIND_FUTEX && short_lived(address) ?
				      kind : 0);
		if (q)
			q->wanted = 1;
	}
	if (!q)
		return 0;
	c->call.number = q->number;
	c->call.t = bpf_ktime_get_ns();
	c->call.tid = tid;
	c->call.context = context_below(BREAKPOINT);
	c->call.kind = kind;
	c->call.stack = NO_STACK;
	c->call.user_stack = NO_STACK;
	if (kind == KIND_FUTEX)
		c->call.left = count_on_futex(q);
	else
		c->call.left = table ? count_keyed(table, address, kind) :
				       count_sleepers(address, kind);
	forget_values();
	if (kind == KIND_COMPLETION) {
		count = load32(address - COMPLETION_QUEUE);
		q->due = !many || count == DONE_FOR_EVER ? DONE_FOR_EVER : count + 1;
	}
	if (!q->wanted)
		return 0;
	/* The thread has not slept yet, and will not: as if the completion was done before. */
	if (ends_by_running(kind) && !c->call.left && q->depth) {
		forget_thread(q->tid, kind);
		if (kind == KIND_COMPLETION)
			take_one(q, q->due);
	}
	/* Sleepers and wakers of the tracer itself do not count. */
	if (q->own || tgid == OWN_TGID) {
		c->call.left = c->call.left > q->own ? c->call.left - q->own : 0;
		if (!c->call.left)
			return 0;
	}
	if (c->call.left || q->stack < 0) {
		c->call.stack = stack_of(ctx);
		/* An interrupt has nothing to do with the program that it interrupts. */
		if (c->call.context == CTX_PROCESS)
			c->call.user_stack = user_stack_of(ctx);
		if (!q->site && q->stack < 0)
			q->stack = c->call.stack >= 0 ? c->call.stack :
				   stacks.get_stackid(ctx, 0);
	}
	s = stats_of(q->number);
	if (!s)
		return 0;
	describe(s, q);
	if (kind == KIND_QUEUE)
		note_owner(s, address);
	c->call.seq = __sync_fetch_and_add(&s->seq, 1) + 1;
	if (c->call.left) {
		__sync_fetch_and_add(&s->found, 1);
		if (c->call.left > s->deepest)
			s->deepest = c->call.left;
	}
	struct signal_rec r = {
		.kind = REC_SIGNAL,
		.queue = q->number,
		.t = c->call.t,
		.seq = c->call.seq,
		.have = many,
		.sleepers = c->call.left,
		.waker = tid,
		.why = 1,
		.context = c->call.context,
		.cpu = bpf_get_smp_processor_id(),
		.mode = c->request.mode,
		.count = count,
	};
	remember(tid);
	put(&r, sizeof(r));
	/* Without a lock: a thread may come to sleep between the count and the wake-up. */
	if (kind == KIND_SWAIT || kind == KIND_FUTEX) {
		c->call.left++;
		if (!many || kind == KIND_FUTEX)
			long_calls.update(&tid, &c->call);
	}
	return 0;
}

/* A wake call on a simple wait queue; false if the call is a part of another one. */
static __always_inline bool request_swake(struct regs *ctx, struct request *rq)
{
	rq->kind = KIND_SWAIT;
	rq->many = IN(ctx, SWAKE_ALL) ? 0 : 1;
	if (IN(ctx, SWAKE_LOCKED) && load64(ctx->sp) - SWAKERS < SWAKERS_SIZE)
		return false;
	return !is_of_rcu(rq->address);
}

/* A call of __wake_up_common(), whose fifth argument may be a key; false as above. */
static __always_inline bool request_common(struct regs *ctx, struct cpu *c)
{
	struct request *rq = &c->request;
	u8 kind = kind_of_table(rq->address);
	struct call *noted;

	/* A long queue is walked in several parts, which are one wake call. */
	if (BOOKMARKS && ctx->r9 && (load32(ctx->r9) & FLAG_BOOKMARK))
		return false;
	if (!kind)
		return true;
	rq->kind = kind;
	rq->table = rq->address;
	rq->address = key_at(ctx->r8);
	noted = noted_call(c, rq->address);
	if (!noted)
		return true;
	noted->left = count_keyed(rq->table, rq->address, kind);
	return false;
}

static __always_inline void request_bit(struct request *rq, u64 word, u32 bit)
{
	rq->kind = KIND_BIT;
	rq->table = bit_queue(word, bit);
	rq->address = address_of_key(word, bit);
	rq->many = 1;
}

/* A wake call of a futex; it may be in a shared file unless a thread waits for it here. */
static __always_inline bool request_futex_wake(struct regs *ctx, struct request *rq)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;

	if (!in_tree(tgid))
		return false;
	rq->kind = KIND_FUTEX;
	rq->mode = TASK_NORMAL;
	rq->site = ctx->di;
	rq->address = address_of_futex(rq->site, tgid);
	if ((ctx->si & FUTEX_SHARED) && !queue_at(rq->address))
		return false;
	name_task(load64(bpf_get_current_task() + TASK_LEADER), tgid);
	return true;
}

/* The arguments of a wake call; false if it does not count. */
static __always_inline bool request_wake(struct regs *ctx, struct cpu *c)
{
	struct request *rq = &c->request;

	rq->address = ctx->di;
	rq->table = 0;
	rq->site = 0;
	rq->many = ctx->dx;
	rq->mode = ctx->si;
	rq->kind = KIND_QUEUE;
	if (IN(ctx, WAKE_UP_COMMON))
		return request_common(ctx, c);
	if (IN(ctx, FUTEX_WAKE))
		return request_futex_wake(ctx, rq);
	rq->mode = TASK_NORMAL;
	if (IN(ctx, SWAKE_ONE) || IN(ctx, SWAKE_ALL) || IN(ctx, SWAKE_LOCKED))
		return request_swake(ctx, rq);
	if (IN(ctx, NOTE_BIT) || IN(ctx, NOTE_VARIABLE)) {
		c->noted = 1;
		request_bit(rq, ctx->di, IN(ctx, NOTE_BIT) ? ctx->si : VARIABLE);
		return true;
	}
	rq->kind = KIND_COMPLETION;
	rq->address += COMPLETION_QUEUE;
	rq->many = IN(ctx, COMPLETE_ALL) ? 0 : 1;
	return true;
}

int on_wake(struct regs *ctx)
{
	struct cpu *c = this_cpu(BREAKPOINT);

	if (!c || switched_off() || !request_wake(ctx, c))
		return 0;
	forget_values();
	return wake(ctx, c);
}

/* poll() passes an entry of its own to default_wake_function. */
int on_pollwake(struct regs *ctx)
{
	struct cpu *c = this_cpu(BREAKPOINT);

	if (c)
		c->alias = ctx->di;
	return 0;
}

int on_wake_function(struct regs *ctx)
{
	struct cpu *c = this_cpu(BREAKPOINT);

	if (!c)
		return 0;
	/* pollwake()'s entry is on this stack. Any other entry stands for itself. */
	if (!c->alias || (ctx->di ^ ctx->sp) & STACK_MASK)
		c->alias = ctx->di;
	c->entry = c->alias;
	c->alias = 0;
	c->task = load64(ctx->di + ENTRY_PRIVATE);
	c->t_entry = bpf_ktime_get_ns();
	return 0;
}

static __always_inline int set_cause(u32 cause)
{
	struct cpu *c = this_cpu(BREAKPOINT);

	if (c) {
		c->cause = cause;
		c->context = context_below(BREAKPOINT);
	}
	return 0;
}

int on_timer(struct regs *ctx)
{
	return set_cause(CAUSE_TIMER);
}

int on_signal(struct regs *ctx)
{
	return set_cause(CAUSE_SIGNAL);
}

/* The cause does not apply to wake-ups by an interrupt that came after the breakpoint. */
static __always_inline u32 take_cause(struct cpu *c)
{
	u32 cause = c->cause;

	if (cause == CAUSE_NONE || c->context != context_below(TRACEPOINT))
		return CAUSE_NONE;
	c->cause = CAUSE_NONE;
	return cause;
}

static __always_inline struct call *call_of(struct cpu *c, u64 address)
{
	if (c->call.address == address)
		return &c->call;
	if (c->outer.address == address)
		return &c->outer;
	return NULL;
}

static __always_inline void set_wake(struct open_wait *w, struct call *call,
				     u64 t_wake, u64 now)
{
	w->r.t_wake = t_wake;
	w->r.t_waking = now;
	w->r.t_running = 0;
	w->r.wakeup_ns = 0;
	w->r.waker = bpf_get_current_pid_tgid();
	w->r.why = 1;
	w->r.context = context_below(TRACEPOINT);
	w->r.cpu = bpf_get_smp_processor_id();
	w->r.seq = call ? call->seq : 0;
	w->stack.waker = call ? call->stack : NO_STACK;
	w->stack.user_waker = call ? call->user_stack : NO_STACK;
	bump(&w->r.wakes);
}

static __always_inline void woken(struct call *call, struct sleeper *s,
				  struct open_wait *w, u64 t_wake, u64 now)
{
	struct queue *q = queue_at(w->address);
	struct stats *st = stats_of(w->r.queue);
	int wanted = q && q->wanted && w->r.tgid != OWN_TGID;

	if (w->r.t_wake && wanted)
		emit_earlier(w);
	if (q && w->kind == KIND_FUTEX && !w->r.t_wake)
		__sync_fetch_and_add(&q->awake, 1);
	if (st && wanted)
		__sync_fetch_and_add(&st->wakes, 1);
	set_wake(w, call, t_wake, now);
	if (call && call->left)
		call->left--;
	if (s) {
		s->woken = w->entry;
		s->t_wake = now;
		s->wake_number = w->r.queue;
	}
}

/* A sleeper that entered the queue unseen; its wait is known from here on. */
static __always_inline void woken_inline(struct cpu *c, u32 tid, u64 now)
{
	u64 *slept = slept_at.lookup(&tid);
	s32 *stack = of_modules.lookup(&tid);
	struct stats *s = stats_of(c->call.number);
	struct open_wait w = {
		.r = {
			.kind = REC_WAIT,
			.queue = c->call.number,
			.t_begin = slept ? *slept : c->call.t,
			.t_slept = slept ? *slept : 0,
			.sleeps = slept ? 1 : 0,
			.tid = tid,
			.fclass = FCLASS_QUEUE,
			.ended = 1,
		},
		.stack = {
			.kind = REC_STACK,
			.queue = c->call.number,
			.t_begin = slept ? *slept : c->call.t,
			.tid = tid,
			.sleeper = stack ? *stack : NO_STACK,
			.user_sleeper = NO_STACK,
		},
		.address = c->call.address,
	};

	if (s) {
		__sync_fetch_and_add(&s->wakes, 1);
		if (!s->owner_tid)
			s->owner_tid = tid;
	}
	set_wake(&w, &c->call, c->t_entry, now);
	if (inlines.update(&tid, &w))
		lose(LOST_WAITS);
}
