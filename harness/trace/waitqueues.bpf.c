// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Watches every wait queue of the kernel, by the functions that sleep and wake.
 *
 *   prepare_to_wait*, add_wait_queue*    a wait begins; again with the same entry:
 *                                        the next turn of its loop
 *   finish_wait, remove_wait_queue       it ends
 *   __wake_up_common                     a wake call, under the queue's lock
 *   default_wake_function                it comes to one sleeper
 *   sched_waking                         ... and the scheduler is asked to wake it
 *   wait_for_completion*, complete*      the same for completions
 *
 * A wait is found by its entry, which lies on the sleeper's stack, so that a
 * thread in poll() has one wait on each queue. The scheduler's events are looked
 * up by thread. Waits are followed on all queues, since a queue may turn out to be
 * wanted only when it is woken; only those of wanted queues are told.
 *
 * Who enters a queue without these functions (epoll, kfabric) is known from the
 * wake call on: its wait is told as beginning when the thread went to sleep.
 *
 * The loader sets the probes behind the functions' first instruction, as plain
 * breakpoints: those run with interrupts off. A program that an interrupt could
 * get into would cost the interrupt's own events, without a word.
 *
 * The loader puts records.h before this text, and defines, besides what that
 * needs: OWN_TGID, CPUS, MAX_QUEUES, WITH_STACKS, BOOKMARKS, the addresses of
 * COMPLETION_BEGIN and _END, WAKE_UP_COMMON and COMPLETE_ALL, one of BY_MODULE,
 * BY_QUEUE (an address) and BY_TREE, and ONLY_TREE if just its threads count.
 */

/* As the kernel passes it; its header would cost the compiler a second. */
struct regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di,
	    orig_ax, ip, cs, flags, sp, ss;
};

enum { KIND_QUEUE = 1, KIND_COMPLETION };
enum { CAUSE_NONE, CAUSE_TIMER, CAUSE_SIGNAL };
enum { LIST_LIMIT = 24, FRAMES = 32, RANGES = 4, BUCKETS = 32 };
enum { FLAG_EXCLUSIVE = 1, FLAG_BOOKMARK = 4 };
/* A probe is within so many bytes of its function's begin. */
enum { FUNCTION_HEAD = 16 };
/* What a breakpoint adds to the preemption count: an NMI and an interrupt. */
enum { BREAKPOINT = 0x00110000, TRACEPOINT = 0 };
enum { RET_EINTR = -4, RET_ETIMEDOUT = -110 };

/* Offsets in the kernel's structures; they have been so since 4.13. */
enum { HEAD_LIST = 8, ENTRY_PRIVATE = 8, ENTRY_LIST = 24, SWAIT_LIST = 8 };
enum { COMPLETION_QUEUE = 8 };
#define STACK_MASK (~0x3fffULL)

#define FCLASS_QUEUE 64
#define NO_STACK (-1)

struct queue {
	u64 address, site, other_site;
	u32 number;
	s32 stack;
	u32 depth, own;		/* waits, and those of our own threads */
	u32 tid;		/* who came last */
	u8 kind, wanted, on_stack;
	u8 slept_on;	/* its stack is a sleeper's, not a waker's */
};

struct stats {
	u64 seq;		/* wake calls, numbered */
	u64 waits, slept, wakes, found, spurious, timeouts, interrupted;
	u64 earlier;		/* wakes that did not end their wait */
	u64 ended_wakes;	/* waits that were woken at all */
	u32 deepest, pad;
	u32 latency[BUCKETS];
};

struct open_wait {
	struct wait_rec r;
	u64 address, entry, outer, slept_before;
	u32 sleeps_before;
	s32 sleeper_stack, waker_stack;
	u8 kind, cause, pad[2];
};

/* A thread with at least one open wait. */
struct sleeper {
	u64 entry;		/* of its newest wait */
	u64 woken;		/* entry by which it was woken last */
	u64 t_slept, t_wake, t_ran;
	u32 sleeps, open, wake_number;
	u32 pad;
};

/* The wake call that this CPU is in, or was in last. */
struct call {
	u64 address, t, seq;
	u32 number, tid, left;
	s32 stack;
	u8 kind, context, pad[6];
};

struct cpu {
	struct call call, outer;
	u64 entry, alias, t_entry;	/* the sleeper that it has come to */
	u32 cause, pad;
};

struct range {
	u64 start, end;
};

BPF_HASH(queues, u64, struct queue, MAX_QUEUES);
BPF_HASH(sites, u64, struct queue, MAX_QUEUES);
BPF_ARRAY(stats, struct stats, MAX_QUEUES);
BPF_HASH(open_waits, u64, struct open_wait, 16384);
BPF_HASH(sleepers, u32, struct sleeper, 16384);
BPF_TABLE("lru_hash", u32, u64, slept_at, 16384);
BPF_HASH(inlines, u32, struct open_wait, 4096);
BPF_HASH(tree, u32, u8, 16384);
BPF_PERCPU_ARRAY(cpus, struct cpu, 1);
BPF_TABLE("array_of_maps$ring", int, int, rings, CPUS);
BPF_ARRAY(numbers, u64, 1);
BPF_ARRAY(unstacked, u64, 1);
BPF_TABLE("stacktrace", int, struct bpf_stacktrace, stacks, 8192);

/*
 * What has been stored is read anew, as a value of which nothing is known: the
 * verifier follows the rest once, and not once for each value that it could have.
 */
static __always_inline void forget_values(void)
{
	asm volatile("" : : : "memory");
}

static __always_inline u64 load64(u64 address)
{
	u64 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}

static __always_inline u32 load32(u64 address)
{
	u32 value = 0;

	bpf_probe_read_kernel(&value, sizeof(value), (void *)address);
	return value;
}

/*
 * A breakpoint's handler counts as one of an NMI, where a ring is given up at once
 * if another CPU writes to it: therefore each CPU has its own.
 */
static __always_inline void put(void *record, u64 size)
{
	int cpu = bpf_get_smp_processor_id();
	void *own = rings.lookup(&cpu);

	if (!own || bpf_ringbuf_output(own, record, size, BPF_RB_NO_WAKEUP))
		lose(LOST_RING);
}

/* In what context the code runs that this probe, which counts itself, has hit. */
static __always_inline u8 context_below(u32 probe)
{
	u64 base = load64(PERCPU_OFFSETS + 8ULL * bpf_get_smp_processor_id());
	u32 count = load32(base + PREEMPT_COUNT) - probe;

	if (!base)
		return CTX_UNKNOWN;
	if (count & 0x00ff0000)
		return CTX_HARDIRQ;
	return count & 0x00000100 ? CTX_SOFTIRQ : CTX_PROCESS;
}

static __always_inline struct cpu *this_cpu(void)
{
	int zero = 0;

	return cpus.lookup(&zero);
}

static __always_inline s32 stack_of(struct regs *ctx)
{
#if WITH_STACKS
	int stack = stacks.get_stackid(ctx, 0);

	if (stack >= 0)
		return stack;
	unstacked.atomic_increment(0);
#endif
	return NO_STACK;
}

/* Which queues are told. */

static __always_inline int in_tree(u32 tgid)
{
	return tree.lookup(&tgid) != NULL;
}

#if BY_MODULE
struct frames {
	u64 ip[FRAMES];
};

BPF_ARRAY(texts, struct range, RANGES);
BPF_ARRAY(datas, struct range, RANGES);
BPF_PERCPU_ARRAY(unwound, struct frames, 1);

static __always_inline int in_data(u64 address)
{
	for (int i = 0; i < RANGES; i++) {
		int key = i;
		struct range *r = datas.lookup(&key);

		if (r && address >= r->start && address < r->end)
			return 1;
	}
	return 0;
}

static __always_inline int in_text(struct frames *f, u64 start, u64 end)
{
	for (int i = 0; i < FRAMES; i++) {
		u64 ip = f->ip[i];

		if (!ip)
			break;
		if (ip >= start && ip < end)
			return 1;
	}
	return 0;
}

static __always_inline int from_module(struct regs *ctx)
{
	int zero = 0;
	struct frames *f = unwound.lookup(&zero);
	u64 depth;
	long n;

	if (!f)
		return 0;
	n = bpf_get_stack(ctx, f, sizeof(*f), 0);
	if (n < 0)
		return 0;
	depth = (u64)n / sizeof(f->ip[0]);
	/* Keeps the compiler from knowing the mask to be needless. */
	asm volatile("" : "+r"(depth));
	if (depth < FRAMES)
		f->ip[depth & (FRAMES - 1)] = 0;
	for (int i = 0; i < RANGES; i++) {
		int key = i;
		struct range *r = texts.lookup(&key);

		if (!r || !r->end)
			break;
		if (in_text(f, r->start, r->end))
			return 1;
	}
	return 0;
}
#endif

static __always_inline int qualifies(struct regs *ctx, u64 address, u32 tgid)
{
#if BY_MODULE
	return in_data(address) || from_module(ctx);
#elif BY_TREE
	return in_tree(tgid) && context_below(BREAKPOINT) == CTX_PROCESS;
#else
	return address == BY_QUEUE;
#endif
}

/* Queues and their numbers. */

static __always_inline u32 new_number(void)
{
	int zero = 0;
	u64 *next = numbers.lookup(&zero);
	u64 number;

	if (!next)
		return 0;
	number = __sync_fetch_and_add(next, 1) + 1;
	if (number < MAX_QUEUES)
		return number;
	return 0;
}

static __always_inline struct queue *add_queue(u64 address, u64 site, u8 kind,
					       u8 on_stack)
{
	struct queue q = {
		.address = address,
		.site = site,
		.stack = NO_STACK,
		.kind = kind,
		.on_stack = on_stack,
	};
	struct queue *known = NULL;

	if (on_stack)
		known = sites.lookup(&site);
	q.number = known ? known->number : new_number();
	if (!q.number || queues.update(&address, &q)) {
		lose(LOST_QUEUES);
		return NULL;
	}
	if (on_stack && !known)
		sites.update(&site, &q);
	return queues.lookup(&address);
}

/*
 * A queue on a stack lives as long as its wait: all that one place in the code
 * makes share a number.
 */
static __always_inline struct queue *queue_slept_on(u64 address, u64 sp,
						    u64 site, u8 kind)
{
	u8 on_stack = (address & STACK_MASK) == (sp & STACK_MASK);
	struct queue *q = queues.lookup(&address);

	if (q && on_stack && q->site != site && !q->depth) {
		queues.delete(&address);
		q = NULL;
	}
	if (!q)
		return add_queue(address, site, kind, on_stack);
	if (!q->site)
		q->site = site;
	else if (site != q->site && !q->other_site)
		q->other_site = site;
	return q;
}

static __always_inline struct stats *stats_of(u32 number)
{
	int key = number;

	return stats.lookup(&key);
}

static __always_inline void name_by_stack(struct queue *q, s32 stack)
{
	struct queue *shared;

	q->stack = stack;
	q->slept_on = 1;
	if (!q->on_stack)
		return;
	shared = sites.lookup(&q->site);
	if (shared) {
		shared->stack = stack;
		shared->wanted |= q->wanted;
	}
}

/* Telling. */

static __always_inline void tell_wait(struct open_wait *w)
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
		/* Without a branch, of which the verifier would have to follow each. */
		u32 bucket = bpf_log2l(w->r.t_running - w->r.t_wake) - 1;

		__sync_fetch_and_add(&s->latency[bucket & (BUCKETS - 1)], 1);
	}
	put(&w->r, sizeof(w->r));
#if WITH_STACKS
	struct stack_rec stack = {
		.kind = REC_STACK,
		.queue = w->r.queue,
		.t_begin = w->r.t_begin,
		.tid = w->r.tid,
		.sleeper = w->sleeper_stack,
		.waker = w->waker_stack,
	};

	put(&stack, sizeof(stack));
#endif
}

/* A wake that is about to be overwritten by the next one of the same wait. */
static __always_inline void tell_earlier(struct open_wait *w)
{
	struct stats *s = stats_of(w->r.queue);
	struct wake_rec r = {
		.kind = REC_WAKE,
		.queue = w->r.queue,
		.t_begin = w->r.t_begin,
		.t_wake = w->r.t_wake,
		.t_waking = w->r.t_waking,
		.t_running = w->r.t_running,
		.seq = w->r.seq,
		.tid = w->r.tid,
		.waker = w->r.waker,
		.why = w->r.why,
		.context = w->r.context,
		.cpu = w->r.cpu,
	};

	if (s)
		__sync_fetch_and_add(&s->earlier, 1);
	put(&r, sizeof(r));
}

/* Waits. */

static __always_inline void set_end(struct open_wait *w, u64 now)
{
	u64 ours = w->r.t_waking;

	w->r.t_end = now;
	/*
	 * Not by comparing with t_slept alone: a thread that is woken while it goes to
	 * sleep may be switched out only after that.
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

static __always_inline void close_wait(struct open_wait *w, u64 now)
{
	u64 entry = w->entry, address = w->address;
	u32 tid = w->r.tid;
	/* Without an entry: nobody saw it begin, so nothing was counted. */
	struct sleeper *s = entry ? sleepers.lookup(&tid) : NULL;
	struct queue *q = queues.lookup(&address);

	if (!entry)
		w->r.t_running = now;
	if (s) {
		u32 sleeps = s->sleeps - w->sleeps_before;

		w->r.sleeps = sleeps < 255 ? sleeps : 255;
		if (sleeps)
			w->r.t_slept = s->t_slept;
		/* What was slept inside is no sleep of the wait around it. */
		if (s->entry == entry && w->outer) {
			s->sleeps = w->sleeps_before;
			s->t_slept = w->slept_before;
		}
		if (s->entry == entry)
			s->entry = w->outer;
		/* Sleeps to come are no matter of the wake that ended this one. */
		if (s->woken == entry) {
			s->woken = 0;
			s->t_wake = 0;
		}
		s->open--;
		if (!s->open)
			sleepers.delete(&tid);
	}
	set_end(w, now);
	if (q) {
		if (entry)
			__sync_fetch_and_add(&q->depth, -1);
		if (w->r.tgid == OWN_TGID)
			__sync_fetch_and_add(&q->own, -1);
		else if (q->wanted)
			tell_wait(w);
		if (q->on_stack)
			queues.delete(&address);
	}
	if (entry)
		open_waits.delete(&entry);
}

/*
 * Its thread has left the queue by a way that is not seen: a completion that was
 * done just before it would have slept, a queue by a hand-made removal.
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
		return 0;	/* once more round its loop */
	if (known)
		forget_wait(known);
	q = queue_slept_on(address, ctx->sp, load64(ctx->sp), kind);
	if (!q)
		return 0;
	if (!q->wanted && tgid != OWN_TGID && qualifies(ctx, address, tgid))
		q->wanted = 1;
#if ONLY_TREE
	if (!in_tree(tgid))
		return 0;
#endif
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
		.address = address,
		.entry = entry,
		.sleeper_stack = NO_STACK,
		.waker_stack = NO_STACK,
		.kind = kind,
	};
	if (tgid == OWN_TGID) {
		__sync_fetch_and_add(&q->own, 1);
	} else if (q->wanted) {
		w.sleeper_stack = stack_of(ctx);
		remember(tid);
	}
	if (!q->slept_on)
		name_by_stack(q, q->wanted && w.sleeper_stack >= 0 ?
			      w.sleeper_stack : stacks.get_stackid(ctx, 0));
	__sync_fetch_and_add(&q->depth, 1);
	q->tid = tid;
	s = stats_of(q->number);
	if (s && q->depth > s->deepest)
		s->deepest = q->depth;
	enter(tid, entry, &w);
	return 0;
}

/* One program for all of them: each costs the compiler a second. */
int on_enqueue(struct regs *ctx)
{
	u64 address = ctx->di, entry = ctx->si;
	u8 kind = KIND_QUEUE;

	if (ctx->ip >= COMPLETION_BEGIN && ctx->ip < COMPLETION_END) {
		if (load32(address))	/* done already */
			return 0;
		/* Its entry is made further in, so the thread stands for it. */
		entry = (u32)bpf_get_current_pid_tgid();
		address += COMPLETION_QUEUE;
		kind = KIND_COMPLETION;
	}
	return begin(ctx, address, entry, kind);
}

int on_finish(struct regs *ctx)
{
	u64 entry = ctx->si;
	struct open_wait *w = open_waits.lookup(&entry);

	if (!w || w->r.tid != (u32)bpf_get_current_pid_tgid())
		return 0;
	w->r.flags = exclusive(entry, KIND_QUEUE);
	close_wait(w, bpf_ktime_get_ns());
	return 0;
}

/* Wakes. */

/* Threads on the queue; not one branch in the loop, see above. */
static __always_inline u32 count_sleepers(u64 address, u8 kind)
{
	u64 head = address + HEAD_LIST;
	u64 node = load64(head);
	u64 n = 0;

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

static __always_inline void close_completion(u32 tid, u64 now)
{
	u64 entry = tid;
	struct open_wait *w = open_waits.lookup(&entry);

	if (w && w->kind == KIND_COMPLETION)
		close_wait(w, now);
}

static __always_inline int wake(struct regs *ctx, u64 address, u64 many, u8 kind)
{
	u64 id = bpf_get_current_pid_tgid();
	u32 tid = id, tgid = id >> 32;
	struct queue *q = queues.lookup(&address);
	struct cpu *c = this_cpu();
	struct stats *s;

	if (!c)
		return 0;
	c->entry = 0;
	c->alias = 0;
	c->cause = CAUSE_NONE;
	c->outer = c->call;
	c->call.address = address;
	c->call.number = 0;
	c->call.left = 0;
	c->call.seq = 0;
	if ((!q || !q->wanted) && tgid != OWN_TGID && qualifies(ctx, address, tgid)) {
		if (!q)
			q = add_queue(address, 0, kind, 0);
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
	c->call.left = count_sleepers(address, kind);
	forget_values();
	if (!q->wanted)
		return 0;
	/* It comes before the sleep, which thus will not be. */
	if (kind == KIND_COMPLETION && !c->call.left && q->depth)
		close_completion(q->tid, c->call.t);
	/* What only our own threads sleep on, or wake, is nobody's matter. */
	if (q->own || tgid == OWN_TGID) {
		c->call.left = c->call.left > q->own ? c->call.left - q->own : 0;
		if (!c->call.left)
			return 0;
	}
	if (c->call.left || q->stack < 0) {
		c->call.stack = stack_of(ctx);
		if (!q->site && q->stack < 0)
			q->stack = c->call.stack >= 0 ? c->call.stack :
				   stacks.get_stackid(ctx, 0);
	}
	s = stats_of(q->number);
	if (!s)
		return 0;
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
	};
	remember(tid);
	put(&r, sizeof(r));
	return 0;
}

int on_wake(struct regs *ctx)
{
	u64 address = ctx->di, many = (u32)ctx->dx;
	u8 kind = KIND_QUEUE;

	if (ctx->ip - WAKE_UP_COMMON < FUNCTION_HEAD) {
		/* A long queue is walked in parts, which are one call. */
		if (BOOKMARKS && ctx->r9 && (load32(ctx->r9) & FLAG_BOOKMARK))
			return 0;
	} else {
		many = ctx->ip - COMPLETE_ALL >= FUNCTION_HEAD;
		address += COMPLETION_QUEUE;
		kind = KIND_COMPLETION;
	}
	return wake(ctx, address, many, kind);
}

/* poll() hands an entry of its own to default_wake_function. */
int on_pollwake(struct regs *ctx)
{
	struct cpu *c = this_cpu();

	if (c)
		c->alias = ctx->di;
	return 0;
}

int on_wake_function(struct regs *ctx)
{
	struct cpu *c = this_cpu();

	if (!c)
		return 0;
	c->entry = c->alias ? c->alias : ctx->di;
	c->alias = 0;
	c->t_entry = bpf_ktime_get_ns();
	return 0;
}

int on_timer(struct regs *ctx)
{
	struct cpu *c = this_cpu();

	if (c)
		c->cause = CAUSE_TIMER;
	return 0;
}

int on_signal(struct regs *ctx)
{
	struct cpu *c = this_cpu();

	if (c)
		c->cause = CAUSE_SIGNAL;
	return 0;
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
	w->waker_stack = call ? call->stack : NO_STACK;
	bump(&w->r.wakes);
}

static __always_inline void woken(struct cpu *c, struct sleeper *s,
				  struct open_wait *w, u64 t_wake, u64 now)
{
	struct queue *q = queues.lookup(&w->address);
	struct call *call = call_of(c, w->address);
	struct stats *st = stats_of(w->r.queue);
	int told = q && q->wanted && w->r.tgid != OWN_TGID;

	if (w->r.t_wake && told)
		tell_earlier(w);
	if (st && told)
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

/* Someone who got onto the queue unseen: known from here on. */
static __always_inline void woken_inline(struct cpu *c, u32 tid, u64 now)
{
	u64 *slept = slept_at.lookup(&tid);
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
		.address = c->call.address,
		.sleeper_stack = NO_STACK,
	};

	if (s)
		__sync_fetch_and_add(&s->wakes, 1);
	set_wake(&w, &c->call, c->t_entry, now);
	if (inlines.update(&tid, &w))
		lose(LOST_WAITS);
}

static __always_inline void foreign(struct open_wait *w, u32 cause, u64 now)
{
	bump(&w->r.foreign);
	w->r.t_foreign = now;
	w->r.foreign_tid = bpf_get_current_pid_tgid();
	w->r.foreign_context = context_below(TRACEPOINT);
	w->cause = cause;
}

/* Is the thread's newest wait what this CPU's wake call is about? */
static __always_inline int called(struct cpu *c, struct open_wait *w)
{
	return c->call.left && c->call.address == w->address &&
	       c->call.kind == KIND_COMPLETION && w->kind == KIND_COMPLETION &&
	       c->call.tid == (u32)bpf_get_current_pid_tgid() &&
	       c->call.context == context_below(TRACEPOINT);
}

TRACEPOINT_PROBE(sched, sched_waking)
{
	u32 tid = args->pid;
	u64 now = bpf_ktime_get_ns();
	struct cpu *c = this_cpu();
	struct sleeper *s = sleepers.lookup(&tid);
	struct open_wait *w;
	u64 entry, newest;
	u32 cause;

	if (!c)
		return 0;
	entry = c->entry;
	cause = c->cause;
	c->entry = 0;
	c->cause = CAUSE_NONE;
	if (entry) {
		w = open_waits.lookup(&entry);
		if (w && w->r.tid == tid) {
			woken(c, s, w, c->t_entry, now);
			return 0;
		}
		struct queue *q = queues.lookup(&c->call.address);

		if (q && q->wanted && c->call.seq) {
			woken_inline(c, tid, now);
			return 0;
		}
	}
	if (!s)
		return 0;
	newest = s->entry;
	w = open_waits.lookup(&newest);
	if (!w || w->r.tid != tid)
		return 0;
	if (called(c, w))
		woken(c, s, w, c->call.t, now);
	else
		foreign(w, cause, now);
	return 0;
}

TRACEPOINT_PROBE(sched, sched_wakeup)
{
	u32 tid = args->pid;
	struct sleeper *s = sleepers.lookup(&tid);
	struct open_wait *w;
	u64 entry, delay;

	if (!s || !s->woken)
		return 0;
	entry = s->woken;
	w = open_waits.lookup(&entry);
	if (!w || !w->r.t_waking || w->r.wakeup_ns)
		return 0;
	delay = bpf_ktime_get_ns() - w->r.t_waking;
	w->r.wakeup_ns = delay < 0xffffffff ? delay : 0xffffffff;
	return 0;
}

/* A thread runs again; the wait that is over with that, if one is. */
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
	/* Nothing tells when it leaves a completion: take it as left once it runs. */
	entry = s->entry;
	w = open_waits.lookup(&entry);
	if (w && w->kind == KIND_COMPLETION && (w->r.t_running == now || w->cause))
		return w;
	return inlines.lookup(&tid);
}

static __always_inline void sleeps(u32 tid, u64 now)
{
	struct sleeper *s = sleepers.lookup(&tid);
	struct stats *st;

	slept_at.update(&tid, &now);
	if (!s)
		return;
	/* Woken, on a CPU since, and asleep again in the same wait. */
	if (s->t_slept && s->t_wake > s->t_slept && s->t_ran > s->t_wake) {
		st = stats_of(s->wake_number);
		if (st)
			__sync_fetch_and_add(&st->spurious, 1);
	}
	s->sleeps++;
	s->t_slept = now;
}

TRACEPOINT_PROBE(sched, sched_switch)
{
	u32 prev = args->prev_pid, next = args->next_pid;
	u64 now = bpf_ktime_get_ns();
	struct cpu *c = this_cpu();
	struct open_wait *w;

	if (c) {
		c->entry = 0;
		c->cause = CAUSE_NONE;
		c->call.left = 0;
	}
	/* Bits above the low eight say "preempted", which is not asleep. */
	if (prev && (args->prev_state & 0xff))
		sleeps(prev, now);
	if (!next)
		return 0;
	w = runs(next, now);
	if (w) {
		close_wait(w, now);
		inlines.delete(&next);
	}
	return 0;
}

#if BY_TREE || ONLY_TREE
TRACEPOINT_PROBE(sched, sched_process_fork)
{
	u32 child = args->child_pid;
	u8 one = 1;

	if (in_tree(bpf_get_current_pid_tgid() >> 32))
		tree.update(&child, &one);
	return 0;
}
#endif

/* Functions of a module that publish or take what its sleepers wait for. */

static __always_inline int mark(struct regs *ctx, u8 what)
{
	u64 id = bpf_get_current_pid_tgid();
	struct mark_rec m = {
		.kind = REC_MARK,
		.t = bpf_ktime_get_ns(),
		.tid = id,
		.tgid = id >> 32,
		.stack = stack_of(ctx),
		.what = what,
		.context = context_below(BREAKPOINT),
		.cpu = bpf_get_smp_processor_id(),
	};

	remember(m.tid);
	put(&m, sizeof(m));
	return 0;
}

int on_publish(struct regs *ctx)
{
	return mark(ctx, 1);
}

int on_take(struct regs *ctx)
{
	return mark(ctx, 2);
}
