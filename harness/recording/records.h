/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The records that the kernel parts write, the ring for them, and their counts.
 *
 * Two programs write these records: harness/probes/wakeups.bpf.c from kfabric's
 * tracepoints, those of harness/trace from the kernel's own wait functions. In both
 * this text comes first. records.py decodes the structs.
 *
 * The loader defines RING_PAGES; PERCPU_OFFSETS and PREEMPT_COUNT (kernel
 * addresses, constants of the loaded program only); HARDIRQ_SHIFT, the lowest bit of the
 * interrupts in the preemption count; and TASK_SOFTIRQ and TASK_STATE, the offsets in a task of its softirq count
 * and of its state. Without PREEMPT_RT the last two are 0.
 */

enum { REC_WAIT = 1, REC_SIGNAL, REC_WAKE, REC_OBJECT, REC_MARK, REC_STACK, REC_TALLY,
       REC_ENDER, REC_WORK };
enum { OBJ_NEW = 1, OBJ_FREE, OBJ_ADD, OBJ_DEL };
enum { ENDER_HOLDER = 1, ENDER_READER, ENDER_STOP = 16, ENDER_PARK, ENDER_WORK, ENDER_RCU };
enum { CTX_UNKNOWN, CTX_PROCESS, CTX_SOFTIRQ, CTX_HARDIRQ };
enum {
	WAIT_PENDING = 1,	/* woken, the scheduler has not been asked yet */
	WAIT_EXCLUSIVE = 2,	/* one sleeper is enough for a publication */
	WAIT_NAMELESS = 4,	/* its thread did not have its name yet */
};
enum { LOST_RING, LOST_WAITS, LOST_QUEUES, LOST_UNPAIRED, LOST_MAX };
enum { CPUS = 256 };		/* on further CPUs the look-up is only slower */

struct wait_rec {
	u32 kind, queue;
	u64 t_begin, t_slept, t_wake, t_waking, t_running, t_end, t_foreign;
	u64 seq, need, seen;
	u32 tid, tgid, source;
	s32 ret;
	u32 waker, wakeup_ns, foreign_tid;
	u8 fclass, why, ended, context, cpu, ready, sleeps, wakes, foreign,
	   foreign_context;
	u8 flags;	/* WAIT_... */
	u8 kernel_wakes;/* how often the kernel's wake function ran for it */
	u32 state;	/* the thread's, in its last sleep; 0: unknown */
	u32 gone;	/* what a completion had counted, and had forgotten by t_begin */
};

struct signal_rec {
	u32 kind, queue;
	u64 t, seq, have;
	u32 source, sleepers, waker;
	u8 why, context, cpu, pad;
	u32 mode;	/* the states of the sleepers that it asked for; 0: unknown */
	u32 count;	/* of a completion: its count before the call */
};

struct wake_rec {
	u32 kind, queue;
	u64 t_begin, t_wake, t_waking, t_running, seq;
	u32 tid, source, waker;
	u8 why, context, cpu, pad;
};

struct object_rec {
	u32 kind, id;
	u64 t;
	u32 change, fclass, other, tid;
};

/* Written when the function begins, and again when it returns: then with t_end. */
struct mark_rec {
	u32 kind, queue;
	u64 t, t_end;
	u32 tid, tgid;
	s32 stack;
	u8 what, context, cpu, pad;
};

struct stack_rec {
	u32 kind, queue;
	u64 t_begin;
	u32 tid;
	s32 sleeper, waker;		/* in the kernel */
	s32 user_sleeper, user_waker;	/* in their programs */
	u32 pad;
};

/* The counts of a queue that was freed. */
struct tally_rec {
	u32 kind, queue;
	u64 signals, wakes, begins, ends;
};

/* A thread that can end a wait: what it was at t. */
struct ender_rec {
	u32 kind, queue;
	u64 t_begin, t;
	u32 tid, ender, what, exited;
};

/* A work item that was pending for long. */
struct work_rec {
	u32 kind, queue;
	u64 t;			/* since when it is pending */
	u64 t_queued;		/* 0: its timer has not queued it */
	u64 t_deleted;		/* when that timer was deleted; or 0 */
	u64 t_end;		/* when a worker began to run it, or its timer was set again */
	u64 t_busy;		/* when @busy ran another item (@busy_queue) there; or 0 */
	u32 tid, deleter, busy, busy_queue;
	u8 context, delete_context, pad[6];
};

_Static_assert(sizeof(struct wait_rec) == 136, "wait_rec");
_Static_assert(sizeof(struct signal_rec) == 56, "signal_rec");
_Static_assert(sizeof(struct wake_rec) == 64, "wake_rec");
_Static_assert(sizeof(struct object_rec) == 32, "object_rec");
_Static_assert(sizeof(struct mark_rec) == 40, "mark_rec");
_Static_assert(sizeof(struct stack_rec) == 40, "stack_rec");
_Static_assert(sizeof(struct tally_rec) == 40, "tally_rec");
_Static_assert(sizeof(struct ender_rec) == 40, "ender_rec");
_Static_assert(sizeof(struct work_rec) == 72, "work_rec");

/* Counts of a queue, and its last signal: a stack is kept only if that looks wrong. */
struct tally {
	u64 signals, wakes, begins, ends;
	u64 last_t, last_seq;
	u32 last_wakes, last_waker;
	s32 last_stack;
	u32 named;	/* thread id + 1 of a waker whose name is kept; 0: none */
};

struct comm {
	char text[16];
};

BPF_RINGBUF_OUTPUT(ring, RING_PAGES);
BPF_HASH(tallies, u32, struct tally, 4096);
BPF_TABLE("lru_hash", u32, struct comm, threads, 4096);
/* Can be mapped: a look-up keeps other programs from running on its CPU. */
BPF_F_TABLE("array", int, u64, losses, LOST_MAX, BPF_F_MMAPABLE);
BPF_ARRAY(contexts, u64, CPUS);		/* address of each CPU's count; 0: not read yet */

static __always_inline void lose(int what)
{
	losses.atomic_increment(what);
}

#ifndef RING_TRIES
#define RING_TRIES 1
#endif

/*
 * The reader polls: a wake-up from here would disturb the run.
 *
 * A breakpoint's program counts as NMI code, where the ring only tries its lock.
 * Another CPU holds that lock for a moment only, so such programs try RING_TRIES times.
 */
static __always_inline void emit(void *rec, u64 size)
{
	for (int i = 0; i < RING_TRIES; i++)
		if (!ring.ringbuf_output(rec, size, BPF_RB_NO_WAKEUP))
			return;
	lose(LOST_RING);
}

static __always_inline struct tally *tally_of(u32 queue)
{
	struct tally zero = {};
	struct tally *t = tallies.lookup_or_try_init(&queue, &zero);

	if (!t)
		lose(LOST_QUEUES);
	return t;
}

/* Interrupts have four bits of a CPU's count; the NMI bits follow. */
enum { IN_INTERRUPT = 0x1f << HARDIRQ_SHIFT };

static __always_inline u64 context_place(void)
{
	u32 cpu = bpf_get_smp_processor_id();
	u64 *known = contexts.lookup(&cpu);
	u64 base = 0;

	if (known && *known)
		return *known;
	if (bpf_probe_read_kernel(&base, sizeof(base),
				  (void *)(PERCPU_OFFSETS + 8ULL * cpu)))
		return 0;
	if (known)
		*known = base + PREEMPT_COUNT;
	return base + PREEMPT_COUNT;
}

/* Is a softirq being served? With PREEMPT_RT the task counts that, else the CPU. */
static __always_inline bool serves_softirq(u32 count)
{
#if TASK_SOFTIRQ
	u64 task = bpf_get_current_task();

	count = 0;
	bpf_probe_read_kernel(&count, sizeof(count), (void *)(task + TASK_SOFTIRQ));
#endif
	return count & 0x00000100;
}

/* States of a task; RTLOCK_WAIT: it sleeps on a spin lock. */
enum { TASK_INTERRUPTIBLE = 1, RTLOCK_WAIT = 0x1000 };

/*
 * Does this task, which is being woken, sleep on a spin lock? Such a sleep belongs to
 * no wait: the task is on no queue, and the unlock wakes it.
 */
static __always_inline bool on_spin_lock(u64 task)
{
	u32 state = 0;

#if TASK_STATE
	bpf_probe_read_kernel(&state, sizeof(state), (void *)(task + TASK_STATE));
#endif
	return state & RTLOCK_WAIT;
}

/* Does a task leave its CPU to sleep, and not on a spin lock? */
static __always_inline bool to_sleep(u8 preempted, u32 state)
{
	return !preempted && state && !(state & RTLOCK_WAIT);
}

static __always_inline u8 context_of(u32 count)
{
	if (count & IN_INTERRUPT)
		return CTX_HARDIRQ;
	return serves_softirq(count) ? CTX_SOFTIRQ : CTX_PROCESS;
}

/* No helper returns the context of a tracepoint, so read the CPU's count. */
static __always_inline u8 context(void)
{
	u64 place = context_place();
	u32 count = 0;

	if (!place ||
	    bpf_probe_read_kernel(&count, sizeof(count), (void *)place))
		return CTX_UNKNOWN;
	return context_of(count);
}

/* "kthreadd" as a number: the name of a kernel thread until it gets its own. */
#define NAMELESS 0x646461657268746bULL

/* Keep the name of the current thread; true if the thread has its own name by now. */
static __always_inline bool remember(u32 tid)
{
	struct comm comm = {};
	struct comm *known = threads.lookup(&tid);

	if (known && *(u64 *)known->text != NAMELESS)
		return true;
	bpf_get_current_comm(&comm, sizeof(comm));
	threads.update(&tid, &comm);
	return *(u64 *)comm.text != NAMELESS;
}

static __always_inline void bump(u8 *n)
{
	if (*n != 255)
		(*n)++;
}

/* The last wake of a wait, as a record of its own. */
static __always_inline void fill_wake(struct wake_rec *r, struct wait_rec *w)
{
	*r = (struct wake_rec){
		.kind = REC_WAKE,
		.queue = w->queue,
		.t_begin = w->t_begin,
		.t_wake = w->t_wake,
		.t_waking = w->t_waking,
		.t_running = w->t_running,
		.seq = w->seq,
		.tid = w->tid,
		.source = w->source,
		.waker = w->waker,
		.why = w->why,
		.context = w->context,
		.cpu = w->cpu,
	};
}

/* sched_wakeup came after a wake: note how long after. */
static __always_inline void note_wakeup(struct wait_rec *w)
{
	u64 delay = bpf_ktime_get_ns() - w->t_waking;

	w->wakeup_ns = delay < 0xffffffff ? delay : 0xffffffff;
}

/* Arguments of the scheduler's tracepoints. */
enum { WOKEN_TASK };
enum { SWITCH_PREEMPTED, SWITCH_PREV, SWITCH_NEXT, SWITCH_PREV_STATE };
