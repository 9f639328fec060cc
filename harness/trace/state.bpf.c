// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Part of the tracer's program: its types, maps and small helpers.
 *
 * kernelpart.py puts the parts together in this order, since bcc rewrites only one file:
 * records.h, state.bpf.c (types and maps), keyed.bpf.c (waits for a bit, a variable or a
 * folio), queues.bpf.c (which queues are traced), aims.bpf.c (completions with a known end),
 * waits.bpf.c (begin and end of waits), wakes.bpf.c (wake calls), works.bpf.c (work items),
 * locks.bpf.c (sleeping locks), scheduler.bpf.c (the scheduler's events), marks.bpf.c (marked
 * functions). Each part uses those before it.
 *
 * The program traces every wait queue of the kernel at the functions that sleep and wake:
 *
 *   prepare_to_wait*, add_wait_queue*    a wait begins; with the same entry: the next
 *                                        iteration of its loop; with a pending signal,
 *                                        prepare_to_wait_event and prepare_to_swait_event
 *                                        end the wait
 *   finish_wait, remove_wait_queue       the wait ends
 *   __wake_up_common                     a wake call, under the queue's lock
 *   default_wake_function                the wake call reaches one sleeper
 *   sched_waking                         ... and asks the scheduler to wake it
 *   wait_for_completion*, complete*      the same for completions
 *   prepare_to_swait_*, finish_swait,    the same for simple wait queues (swait); the
 *   swake_up_*                           kernel's own queues of RCU are left out
 *   folio_wait_bit*, __folio_lock*,      a wait for a folio begins; finish_wait ends it
 *   folio_put_wait_locked
 *   __wait_on_bit*,                      a wait for a bit begins; the functions within are
 *   out_of_line_wait_on_bit*             inlined, so it ends once the thread runs again
 *   wake_up_bit, wake_up_var             a wake call that may find an empty wait queue
 *   futex_wait_queue, futex_do_wait      a wait for a futex begins; it ends once the thread
 *                                        runs again
 *   futex_wake                           a wake call of a futex
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
 * MODULE_NAME and other offsets in a module; TASK_PID, TASK_COMM, TASK_EXIT_STATE,
 * TASK_SLEEP (the offset of a task's state, needed
 * without PREEMPT_RT, too), TASK_PENDING, TASK_BLOCKED, TASK_SIGNAL, SIGNAL_SHARED and
 * SIGPENDING_SET (offsets of sets of signals and on the way to them); QUEUE_LIST and
 * SWAITS_LIST (offsets of the sleepers in a wait queue and in a completion's, after a lock
 * of any size); QUEUE_BYTES, the size of a wait queue;
 * WORK_FUNCTION and WORK_TIMER (offsets in work items);
 * FUTEX_KEY (the offset of a futex sleeper's key), TASK_LEADER;
 * MUTEX_OWNER, RWSEM_OWNER, RT_MUTEX_OWNER and RT_RWSEM_MUTEX (offsets in locks; 0 if this
 * kernel has no such member, and therefore never needs it); BY_THREAD with PREEMPT_RT.
 *
 * Other names in capitals are numbers that the loader puts into the compiled program
 * (harness/probes/compiled.py), so that one program serves all traces: OWN_TGID,
 * WITH_STACKS, WITH_USER_STACKS; PROG_ACTIVE and CURRENT_KPROBE, variables of each CPU; the
 * addresses COMPLETION_BEGIN and _END, ENTRY_TEXT and _END, SOFTIRQ_TEXT and _END,
 * SCHED_TEXT and _END, WAKE_UP_COMMON and COMPLETE_ALL, those of the
 * functions and tables below; one of BY_MODULE, BY_QUEUE (an address) and BY_TREE; ONLY_TREE
 * if only its threads count. The verifier removes the code that a number switches off.
 *
 * The kernel's functions by these numbers: WAIT_EVENT (prepare_to_wait_event),
 * SWAIT_EXCLUSIVE and SWAIT_EVENT (prepare_to_swait_*), TRY_WAIT (try_wait_for_completion), SWAKE_ONE, SWAKE_ALL and
 * SWAKE_LOCKED (swake_up_*), FOLIO_BIT and
 * FOLIO_BIT_KILLABLE (folio_wait_bit*), FOLIO_LOCK, FOLIO_LOCK_KILLABLE and FOLIO_PUT (waits
 * for the lock of a folio), WAIT_ON_BIT and WAIT_ON_BIT_LOCK, OUT_OF_LINE, OUT_OF_LINE_TIMEOUT
 * and OUT_OF_LINE_LOCK (out_of_line_wait_on_bit*), NOTE_BIT and NOTE_VARIABLE (wake_up_bit,
 * wake_up_var), FUTEX_QUEUE, FUTEX_DO and FUTEX_WAKE (futex_wait_queue, futex_do_wait,
 * futex_wake), WAKE_BIT and WAKE_VARIABLE (the wake functions of their sleepers); with a
 * _SIZE: SWAKERS, where the kernel itself calls swake_up_locked(), and those of aims.bpf.c.
 * The kernel's variables: BIT_TABLE and FOLIO_TABLE (the hashed wait queues), RCU_STATE, each
 * with its _SIZE. A number is 0 if the kernel does not have it.
 */

/* The kernel's struct pt_regs, whose header would cost the compiler a second. */
struct regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di,
	    orig_ax, ip, cs, flags, sp, ss;
};

/* The kinds from KIND_MUTEX to KIND_SEMAPHORE are locks. */
enum { KIND_QUEUE = 1, KIND_COMPLETION, KIND_MUTEX, KIND_RWSEM, KIND_RT_MUTEX,
       KIND_RT_RWSEM, KIND_PERCPU_RWSEM, KIND_SEMAPHORE };
/* KIND_BIT: the sleeper's entry is not seen; KIND_VARIABLE: it is, as on a wait queue. */
enum { KIND_SWAIT = 16, KIND_BIT, KIND_FOLIO, KIND_VARIABLE,
       KIND_FUTEX };
/* Only for names. */
enum { KIND_THREAD = 32, KIND_FLUSH, KIND_RCU, KIND_WORK };
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
enum { TASK_WAKEKILL = 0x100 };
#define SIGKILL_SET (1 << 8)	/* the set that holds only SIGKILL */
#define NO_THREAD 0x80000000U

/* Offsets in the kernel's structures, unchanged since 4.13. */
enum { ENTRY_PRIVATE = 8, ENTRY_FUNCTION = 16, ENTRY_LIST = 24, SWAIT_LIST = 8 };
enum { COMPLETION_QUEUE = 8 };
#define STACK_MASK (~0x3fffULL)
/* Has this breakpoint been set in this function? */
#define IN(ctx, function) ((ctx)->ip - (function) < FUNCTION_HEAD)

#define FCLASS_QUEUE 64
#define FCLASS_LOCK 65
#define FCLASS_EVENT 66
#define NO_STACK (-1)

struct queue {
	u64 address, site, other_site;
	u32 number;
	s32 stack;
	u32 depth, own;		/* open waits, and those of our own threads */
	u32 tid;		/* the latest sleeper */
	u32 due;		/* the count that a completion must have */
	u32 awake, pad;		/* open waits for a futex that have been woken */
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
	u32 sleeps_before, ender;	/* the thread that can end it, if that is known */
	u8 kind, cause, pad[6];
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
	s32 stack, user_stack;
	u8 kind, context, pad[2];
};

/*
 * A breakpoint's arguments. They are stored and read again, so that the verifier follows the
 * rest of the program once, and not once for each function of the kernel.
 */
struct request {
	u64 address, entry;
	u64 table;		/* the wait queue that has the sleepers of a key; or 0 */
	u64 site, sp;		/* from where the function was called */
	u64 object, shared;	/* take_aim() */
	u32 many, what;
	u32 mode;		/* the states that a wake call asks for */
	u8 kind, named;
	u8 fresh;		/* a new wait, and no iteration of a known one */
	u8 pad;
};

struct cpu {
	struct call call, outer;
	struct request request;
	u64 entry, alias, task, t_entry;	/* the sleeper that the call has reached */
	u32 cause, context;	/* of the wake-up to come; take_cause() */
	u32 noted, pad;		/* noted_call() */
};

struct range {
	u64 start, end;
};

BPF_HASH(queues, u64, struct queue, MAX_QUEUES);
/* Those of keys (keyed.bpf.c): any number in the course of time, few at once. */
BPF_TABLE("lru_hash", u64, struct queue, key_queues, 8192);
BPF_HASH(sites, u64, struct queue, MAX_QUEUES);
BPF_F_TABLE("array", int, struct stats, stats, MAX_QUEUES, BPF_F_MMAPABLE);
BPF_HASH(open_waits, u64, struct open_wait, 16384);
BPF_HASH(sleepers, u32, struct sleeper, 16384);
BPF_TABLE("lru_hash", u32, u64, slept_at, 16384);
BPF_HASH(inlines, u32, struct open_wait, 4096);
/* By thread: its last swake_up_all(), which may be preempted between two wake-ups. */
BPF_TABLE("lru_hash", u32, struct call, long_calls, 1024);
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

static __always_inline int is_lock(u8 kind)
{
	return kind >= KIND_MUTEX && kind <= KIND_SEMAPHORE;
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

/* In the program of the current thread; a kernel thread has none. */
static __always_inline s32 user_stack_of(struct regs *ctx)
{
	int stack;

	if (!WITH_USER_STACKS)
		return NO_STACK;
	stack = stacks.get_stackid(ctx, BPF_F_USER_STACK);
	return stack >= 0 ? stack : NO_STACK;
}
