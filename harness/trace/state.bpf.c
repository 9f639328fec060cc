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
 * get into would cost the interrupt's own events, without a word. The scheduler's
 * events are taken raw, which no other program can get skipped.
 *
 * Whoever looks up something in a map by a system call keeps breakpoints' programs
 * from running on its CPU for as long. So the reader maps what it needs while they
 * run; what an interrupt woke all the same in such a moment is counted as lost.
 *
 * Setting all probes takes a second, and taking them away again. A wait of which
 * one end only is seen would be told as one that never ended. So there is a switch.
 *
 * bcc rewrites only one file: the loader puts records.h, this one, queues.bpf.c,
 * waits.bpf.c, wakes.bpf.c, scheduler.bpf.c and marks.bpf.c in a row. It defines,
 * besides what records.h needs: OWN_TGID, RINGS, MAX_QUEUES, WITH_STACKS, BOOKMARKS,
 * TASK_PID, QUEUE_LIST and SWAITS_LIST (where the sleepers are in a wait queue and in
 * a completion's: behind a lock, of whatever size), PROG_ACTIVE, the addresses of
 * COMPLETION_BEGIN and _END, ENTRY_TEXT and _END, SOFTIRQ_TEXT and _END,
 * WAKE_UP_COMMON and COMPLETE_ALL, one of BY_MODULE, BY_QUEUE (an address) and
 * BY_TREE, ONLY_TREE if just its threads count, PUBLISH and TAKE if functions are
 * marked: what nobody needs costs the compiler a second.
 * BY_THREAD is 1 with PREEMPT_RT.
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
enum { BREAKPOINT = 0x11 << HARDIRQ_SHIFT, TRACEPOINT = 0 };
enum { RET_EINTR = -4, RET_ETIMEDOUT = -110 };
#define NO_THREAD 0x80000000U

/* Offsets in the kernel's structures; they have been so since 4.13. */
enum { ENTRY_PRIVATE = 8, ENTRY_LIST = 24, SWAIT_LIST = 8 };
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

/* Mapped by the reader, which must get along with these while the probes are set. */
struct stats {
	u64 address, site;
	s32 stack;
	u32 depth;
	u8 kind, on_stack, slept_on, wanted, pad[4];
	u64 seq;		/* wake calls, numbered */
	u64 waits, slept, wakes, found, spurious, timeouts, interrupted;
	u64 earlier;		/* wakes that did not end their wait */
	u64 ended_wakes;	/* waits that were woken at all */
	u32 deepest, unused;
	u32 latency[BUCKETS];
};

struct open_wait {
	struct wait_rec r;
	struct stack_rec stack;		/* told together with it */
	u64 address, entry, outer, slept_before;
	u32 sleeps_before;
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
	u64 entry, alias, task, t_entry;	/* the sleeper that it has come to */
	u32 cause, context;	/* why who is about to wake does, and where; take_cause() */
};

struct range {
	u64 start, end;
};

BPF_HASH(queues, u64, struct queue, MAX_QUEUES);
BPF_HASH(sites, u64, struct queue, MAX_QUEUES);
BPF_F_TABLE("array", int, struct stats, stats, MAX_QUEUES, BPF_F_MMAPABLE);
BPF_HASH(open_waits, u64, struct open_wait, 16384);
BPF_HASH(sleepers, u32, struct sleeper, 16384);
BPF_TABLE("lru_hash", u32, u64, slept_at, 16384);
BPF_HASH(inlines, u32, struct open_wait, 4096);
BPF_HASH(tree, u32, u8, 16384);
#if BY_THREAD
BPF_TABLE("lru_hash", u32, struct cpu, cpus, 4096);
BPF_ARRAY(no_cpu, struct cpu, 1);
#else
BPF_PERCPU_ARRAY(cpus, struct cpu, 1);
#endif
BPF_TABLE("array_of_maps$ring", int, int, rings, RINGS);
BPF_ARRAY(numbers, u64, 1);
BPF_F_TABLE("array", int, u64, switches, 1, BPF_F_MMAPABLE);
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

static __always_inline int switched_off(void)
{
	int zero = 0;
	u64 *on = switches.lookup(&zero);

	return !on || !*on;
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

static __always_inline u64 percpu_base(void)
{
	return load64(PERCPU_OFFSETS + 8ULL * bpf_get_smp_processor_id());
}

/* What the CPU counted before this probe, which counts itself. */
static __always_inline u32 count_below(u64 base, u32 probe)
{
	return load32(base + PREEMPT_COUNT) - probe;
}

/* In what context the code runs that this probe has hit. */
static __always_inline u8 context_below(u32 probe)
{
	u64 base = percpu_base();
	u32 count = count_below(base, probe);

	if (!base)
		return CTX_UNKNOWN;
	if (count & IN_INTERRUPT)
		return CTX_HARDIRQ;
	return serves_softirq(count) ? CTX_SOFTIRQ : CTX_PROCESS;
}

/*
 * With PREEMPT_RT a queue's lock keeps neither other threads nor interrupts from the
 * CPU: what would be the CPU's matter is the thread's there, and the CPU's only in
 * its interrupts and in its idle thread, of which all have the same id.
 *
 *   thread				an interrupt on top of it
 *   default_wake_function(waiter)
 *					sched_waking(another thread)
 *   sched_waking(waiter)
 */
static __always_inline struct cpu *this_cpu(u32 probe)
{
	int zero = 0;
#if BY_THREAD
	u32 key = bpf_get_current_pid_tgid();
	struct cpu *none = no_cpu.lookup(&zero);
	struct cpu *c;

	if (!key || (count_below(percpu_base(), probe) & IN_INTERRUPT))
		key = NO_THREAD | bpf_get_smp_processor_id();
	c = cpus.lookup(&key);
	if (c || !none)
		return c;
	cpus.update(&key, none);
	return cpus.lookup(&key);
#else
	return cpus.lookup(&zero);
#endif
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
