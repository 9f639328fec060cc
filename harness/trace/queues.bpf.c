// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Part of the tracer's program: which queues are wanted, and their numbers.
 *
 * Uses the maps and helpers of state.bpf.c. The scope selects a branch of qualifies().
 */

static __always_inline int in_tree(u32 tgid)
{
	return tree.lookup(&tgid) != NULL;
}

struct frames {
	u64 ip[FRAMES];
};

/* The address ranges of the modules; empty ones at the end. ``init`` is freed after it ran. */
struct places {
	struct range text[RANGES], data[RANGES], init[RANGES];
};

struct module_name {
	char text[56];
};

BPF_ARRAY(modules, struct places, 1);
BPF_HASH(module_numbers, struct module_name, u32, RANGES);
BPF_ARRAY(comings, u64, RANGES);	/* when each module was loaded last */
BPF_PERCPU_ARRAY(unwound, struct frames, 1);

static __always_inline int within(struct range *ranges, u64 address)
{
#pragma clang loop unroll(disable)
	for (int i = 0; i < RANGES; i++)
		if (address >= ranges[i].start && address < ranges[i].end)
			return 1;
	return 0;
}

static __always_inline int of_module(void *ctx, u64 address)
{
	int zero = 0;
	struct frames *f = unwound.lookup(&zero);
	struct places *p = modules.lookup(&zero);
	u64 depth;
	long n;

	if (!f || !p)
		return 0;
	if (within(p->data, memory_of(address)))
		return 1;
	n = bpf_get_stack(ctx, f, sizeof(*f), 0);
	if (n < 0)
		return 0;
	depth = (u64)n / sizeof(f->ip[0]);
	/* Hides the value, so that the compiler keeps the mask for the verifier. */
	asm volatile("" : "+r"(depth));
	if (depth < FRAMES)
		f->ip[depth & (FRAMES - 1)] = 0;
#pragma clang loop unroll(disable)
	for (int i = 0; i < FRAMES; i++) {
		u64 ip = f->ip[i];

		/* The code below an interrupt is unrelated. */
		if (!ip || ip - ENTRY_TEXT < ENTRY_TEXT_END - ENTRY_TEXT ||
		    ip - SOFTIRQ_TEXT < SOFTIRQ_TEXT_END - SOFTIRQ_TEXT)
			break;
		if (within(p->text, ip) || within(p->init, ip))
			return 1;
	}
	return 0;
}

static __always_inline void set_range(struct range *range, u64 base, u64 from, u64 to)
{
	range->start = base + from;
	range->end = base + to;
}

/*
 * A module has been loaded, and its init function comes next: the trace knows its
 * addresses before any of its code runs.
 */
RAW_TRACEPOINT_PROBE(module_load)
{
	u64 mod = ctx->args[0], now = bpf_ktime_get_ns();
	struct places *p;
	struct module_name name = {};
	int zero = 0;
	u32 *number, at;

	bpf_probe_read_kernel_str(&name, sizeof(name), (void *)(mod + MODULE_NAME));
	number = module_numbers.lookup(&name);
	p = modules.lookup(&zero);
	if (!number || !p)
		return 0;
	at = *number & (RANGES - 1);
	set_range(&p->text[at], load64(mod + MODULE_TEXT), 0, load32(mod + MODULE_TEXT_SIZE));
	set_range(&p->data[at], load64(mod + MODULE_DATA), MODULE_DATA_FROM ?
		  load32(mod + MODULE_DATA_FROM) : 0, load32(mod + MODULE_DATA_SIZE));
	set_range(&p->init[at], load64(mod + MODULE_INIT), 0, load32(mod + MODULE_INIT_SIZE));
	comings.update(&at, &now);
	return 0;
}

/* Addresses in kfabric; 0 if it is not loaded. */
struct kfabric {
	u64 wake_function, layout;
};

BPF_ARRAY(kfabric, struct kfabric, 1);

/* The owner of several objects' queues, one after the other in the same memory. */
#define SEVERAL_OBJECTS 0xffffffff

/* If a sleeper is one of kfabric's, note which object owns the queue. Under its lock. */
static __always_inline void note_owner(struct stats *s, u64 address)
{
	int zero = 0;
	struct kfabric *k = kfabric.lookup(&zero);
	u64 head = address + QUEUE_LIST, node = load64(head), owner;
	u32 object;

	if (!k || !k->wake_function || node == head ||
	    load64(node - ENTRY_LIST + ENTRY_FUNCTION) != k->wake_function)
		return;
	object = load32(address + load32(k->layout));
	if (s->object && s->object != object)
		object = SEVERAL_OBJECTS;
	s->object = object;
	owner = load64(address + load32(k->layout + sizeof(u32)));
	s->fclass = load64(owner + load32(k->layout + 2 * sizeof(u32)));
}

static __always_inline int qualifies(struct regs *ctx, u64 address, u32 tgid)
{
	if (BY_MODULE)
		return of_module(ctx, address);
	if (BY_TREE)
		return in_tree(tgid) && context_below(BREAKPOINT) == CTX_PROCESS;
	return address == BY_QUEUE || memory_of(address) == BY_QUEUE;
}

static __always_inline u32 new_number(void)
{
	int zero = 0;
	u64 *next = numbers.lookup(&zero);
	u64 number;

	if (!next)
		return 0;
	number = __sync_fetch_and_add(next, 1) + 1;
	return number < MAX_QUEUES ? number : 0;
}

static __always_inline struct queue *queue_at(u64 address)
{
	if (is_key(address))
		return key_queues.lookup(&address);
	return queues.lookup(&address);
}

/* Queues with the same number share @shared, which is 0 if the queue has its own. */
static __always_inline struct queue *add_queue(u64 address, u64 site, u8 kind,
					       u8 on_stack, u64 shared)
{
	struct queue q = {
		.address = address,
		.site = site,
		.stack = NO_STACK,
		.kind = kind,
		.on_stack = on_stack,
	};
	struct queue *known = NULL;
	long failed;

	if (shared)
		known = sites.lookup(&shared);
	q.number = known ? known->number : new_number();
	if (is_key(address))
		failed = key_queues.update(&address, &q);
	else
		failed = queues.update(&address, &q);
	if (!q.number || failed) {
		lose(LOST_QUEUES);
		return NULL;
	}
	if (shared && !known)
		sites.update(&shared, &q);
	return queue_at(address);
}

/* Queues in short-lived memory share a number if their sleepers have the same stack. */
static __always_inline u64 shared_by_stack(struct regs *ctx, struct request *rq)
{
	if (rq->named == KIND_FUTEX)
		return 0;
	if (rq->named != KIND_THREAD && !short_lived(rq->address))
		return 0;
	return 1ULL << 32 | (u32)stacks.get_stackid(ctx, 0);
}

/*
 * A queue on a stack lives only as long as its wait. All such queues from one place in the
 * code share a number.
 */
static __always_inline struct queue *queue_slept_on(struct regs *ctx, struct request *rq)
{
	u64 address = rq->address, site = rq->site, shared = rq->shared;
	u8 on_stack = (memory_of(address) & STACK_MASK) == (rq->sp & STACK_MASK);
	struct queue *q = queue_at(address);

	if (q && !q->depth &&
	    (q->kind != rq->named || (on_stack && q->site != site)))
		q = NULL;
	if (!q) {
		if (!shared)
			shared = on_stack ? site : shared_by_stack(ctx, rq);
		return add_queue(address, site, rq->named, on_stack, shared);
	}
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

/* For the reader. Of the queues on stacks that share a number any one will do. */
static __always_inline void describe(struct stats *s, struct queue *q)
{
	s->address = q->address;
	s->site = q->site;
	s->stack = q->stack;
	s->depth = q->depth;
	s->kind = q->kind;
	s->on_stack = q->on_stack;
	s->slept_on = q->slept_on;
	s->wanted = q->wanted;
}
