// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Part 1 of 6 of the tracer's program: its types, maps and small helpers.
 *
 * tracer.py puts the parts together in this order, since bcc rewrites only one file:
 * records.h, state.bpf.c (types and maps), queues.bpf.c (which queues are traced),
 * waits.bpf.c (begin and end of waits), wakes.bpf.c (wake calls), scheduler.bpf.c (the
 * scheduler's events), marks.bpf.c (marked functions). Each part uses those before it.
 *
 * The program traces every wait queue of the kernel at the functions that sleep and wake:
 *
 *   prepare_to_wait*, add_wait_queue*    a wait begins; with the same entry: the next
 *                                        iteration of its loop
 *   finish_wait, remove_wait_queue       the wait ends
 *   __wake_up_common                     a wake call, under the queue's lock
 *   default_wake_function                the wake call reaches one sleeper
 *   sched_waking                         ... and asks the scheduler to wake it
 *   wait_for_completion*, complete*      the same for completions
 *
 * A wait is identified by its entry on the sleeper's stack, so a thread in poll() has
 * one wait on each queue. The scheduler's events are looked up by thread. Waits are
 * followed on all queues, since a queue may become wanted only when it is woken; records
 * are written only for wanted queues.
 *
 * Sleepers that enter a queue without these functions (epoll, kfabric) are known from
 * the wake call on: their wait begins, in its record, when the thread went to sleep. If
 * they slept in code of a traced module, the queue is wanted.
 *
 * The loader sets the probes after the functions' first instruction, as breakpoints,
 * whose programs run with interrupts off. If an interrupt could come during a program,
 * its own events would be lost silently. The scheduler's events are raw tracepoints,
 * which other programs cannot make skipped.
 *
 * A map look-up by system call keeps breakpoints' programs from running on its CPU. So
 * the reader maps the memory that it needs while the probes are set. If an interrupt
 * wakes a thread during such a look-up all the same, that is counted as a loss.
 *
 * Setting or removing all probes takes a second. If only the begin of a wait were seen,
 * the wait would seem never to end. Hence the switch.
 *
 * The loader defines, in addition to the macros of records.h: MAX_QUEUES, BOOKMARKS,
 * TASK_PID; MODULE_NAME and other offsets in a module; QUEUE_LIST and SWAITS_LIST (offsets of the sleepers in a wait queue and in a
 * completion's, after a lock of any size); BY_THREAD with PREEMPT_RT.
 *
 * Other names in capitals are numbers that the loader puts into the compiled program
 * (harness/probes/compiled.py), so that one program serves all traces: OWN_TGID,
 * WITH_STACKS; PROG_ACTIVE and CURRENT_KPROBE, variables of each CPU; the addresses
 * COMPLETION_BEGIN and _END, TRY_WAIT, ENTRY_TEXT and _END, SOFTIRQ_TEXT and _END,
 * WAKE_UP_COMMON and COMPLETE_ALL; one of BY_MODULE, BY_QUEUE (an address) and BY_TREE; ONLY_TREE if only
 * its threads count. The verifier removes the code that a number switches off.
 */

/* The kernel's struct pt_regs, whose header would cost the compiler a second. */
struct regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di,
	    orig_ax, ip, cs, flags, sp, ss;
};

enum { KIND_QUEUE = 1, KIND_COMPLETION };
enum { CAUSE_NONE, CAUSE_TIMER, CAUSE_SIGNAL };
enum { LIST_LIMIT = 24, FRAMES = 32, RANGES = 4, BUCKETS = 32 };
enum { FLAG_EXCLUSIVE = 1, FLAG_BOOKMARK = 4 };
/* The distance of a probe from its function's begin is less than this. */
enum { FUNCTION_HEAD = 16 };
/* A breakpoint adds an NMI and an interrupt to the preemption count. */
enum { BREAKPOINT = 0x11 << HARDIRQ_SHIFT, TRACEPOINT = 0 };
enum { RET_EINTR = -4, RET_ETIMEDOUT = -110 };
/* The states that complete() asks for, and the count of a completion after complete_all(). */
enum { TASK_NORMAL = 3, DONE_FOR_EVER = 0xffffffff };
#define NO_THREAD 0x80000000U

/* Offsets in the kernel's structures, unchanged since 4.13. */
enum { ENTRY_PRIVATE = 8, ENTRY_FUNCTION = 16, ENTRY_LIST = 24, SWAIT_LIST = 8 };
enum { COMPLETION_QUEUE = 8 };
#define STACK_MASK (~0x3fffULL)

#define FCLASS_QUEUE 64
#define NO_STACK (-1)

struct queue {
	u64 address, site, other_site;
	u32 number;
	s32 stack;
	u32 depth, own;		/* open waits, and those of our own threads */
	u32 tid;		/* the latest sleeper */
	u32 due;		/* the count that a completion must have */
	u8 kind, wanted, on_stack;
	u8 slept_on;	/* the stack is a sleeper's, not a waker's */
};

/* Mapped by the reader, which reads nothing else while the probes are set. */
struct stats {
	u64 address, site;
	s32 stack;
	u32 depth;
	u8 kind, on_stack, slept_on, wanted;
	u32 object;		/* id of the object of kfabric that owns it; 0: unknown */
	u64 seq;		/* wake calls, numbered */
	u64 waits, slept, wakes, found, spurious, timeouts, interrupted;
	u64 earlier;		/* wakes that did not end their wait */
	u64 ended_wakes;	/* waits that were woken at all */
	u32 deepest;
	u32 fclass, owner_tid;	/* class of the object; the first thread that slept */
	u32 pad;
	u32 latency[BUCKETS];
};

struct open_wait {
	struct wait_rec r;
	struct stack_rec stack;		/* written together with it */
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
	u32 state;		/* of its latest sleep */
};

/* The present or last wake call of a CPU. */
struct call {
	u64 address, t, seq;
	u32 number, tid, left;
	s32 stack;
	u8 kind, context, pad[6];
};

struct cpu {
	struct call call, outer;
	u64 entry, alias, task, t_entry;	/* the sleeper that the call has reached */
	u32 cause, context;	/* of the wake-up to come; take_cause() */
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
/* Threads that sleep outside of these functions in code of a traced module; their stacks. */
BPF_TABLE("lru_hash", u32, s32, of_modules, 4096);
#if BY_THREAD
BPF_TABLE("lru_hash", u32, struct cpu, cpus, 4096);
BPF_ARRAY(no_cpu, struct cpu, 1);
#else
BPF_PERCPU_ARRAY(cpus, struct cpu, 1);
#endif
BPF_TABLE("array_of_maps$ring", int, int, rings, 1);	/* the loader sets the number */
BPF_ARRAY(numbers, u64, 1);
BPF_F_TABLE("array", int, u64, switches, 1, BPF_F_MMAPABLE);
BPF_ARRAY(unstacked, u64, 1);
BPF_TABLE("stacktrace", int, struct bpf_stacktrace, stacks, 8192);

/*
 * Makes the compiler read stored values again, as unknown values: the verifier then
 * follows the rest of a program once, and not once for each possible value.
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

static __always_inline u32 tid_of(u64 task)
{
	return load32(task + TASK_PID);
}

/*
 * A breakpoint's handler counts as NMI code, where a ring refuses a record while another
 * CPU writes to it. Therefore each CPU has its own ring.
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

/* The CPU's preemption count without the part of this probe. */
static __always_inline u32 count_below(u64 base, u32 probe)
{
	return load32(base + PREEMPT_COUNT) - probe;
}

/* The context of the code that has hit this probe. */
static __always_inline u8 context_below(u32 probe)
{
	u64 base = percpu_base();

	return base ? context_of(count_below(base, probe)) : CTX_UNKNOWN;
}

/*
 * The state of the wake call that runs on this CPU. With PREEMPT_RT a queue's lock keeps
 * neither other threads nor interrupts from the CPU, so each thread has its own state.
 * There the CPU's state serves only its interrupts and its idle thread (all idle threads
 * have the same id).
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
	int stack;

	if (!WITH_STACKS)
		return NO_STACK;
	stack = stacks.get_stackid(ctx, 0);
	if (stack >= 0)
		return stack;
	unstacked.atomic_increment(0);
	return NO_STACK;
}
