/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What a shim calls: the points at which threads may be switched, memory,
 * locks, and findings.  All functions are called by the running thread.
 *
 * The code between two points runs without a switch.  A point names the object
 * that it is about, by address; two points are dependent if they are about the
 * same object and at least one of them writes.  A shim must therefore reach
 * everything that threads share, and that no lock protects, through points;
 * what it reaches otherwise must be reached in the files under test, compiled
 * with -fsanitize=thread, where the checker watches for data races.
 *
 * setup() and finish() call the same functions; there nothing is switched.
 *
 * The header needs no other, so that it can stand beside kernel headers.
 */
#ifndef PV_ENGINE_H
#define PV_ENGINE_H

#define PV_MAX_THREADS	24	/* declared and spawned, in one execution */

typedef unsigned long long pv_u64;
typedef long long pv_s64;

/*
 * The order of a marked access.  PV_FULL is that of a value-returning atomic:
 * a full barrier before and after it.  Two are for loads of a shim's own state, such as a
 * clock, which return the newest store on any memory: PV_NEWEST, which is else
 * relaxed, and PV_FULL, which is else an acquire.
 */
enum pv_order {
	PV_RELAXED,
	PV_ACQUIRE,
	PV_RELEASE,
	PV_FULL,
	PV_NEWEST,
};

enum pv_fence {
	PV_FENCE_FULL,		/* smp_mb() */
	PV_FENCE_READ,		/* smp_rmb() */
	PV_FENCE_WRITE,		/* smp_wmb() */
	PV_FENCE_COMPILER,	/* barrier(): does nothing */
};

/* What can be wrong.  report.c holds their printed names. */
enum pv_finding {
	PV_NO_FINDING,
	PV_ASLEEP,		/* a thread sleeps for ever */
	PV_ASLEEP_READY,	/* the same, while a prove_ready() is true */
	PV_DEADLOCK,		/* a thread waits for a lock for ever */
	PV_CHECK,
	PV_RACE,
	PV_USE_AFTER_FREE,
	PV_OUT_OF_BOUNDS,	/* beyond the end of an allocation */
	PV_DOUBLE_FREE,
	PV_BAD_FREE,		/* not the start of an allocation */
	PV_LEAK,
	PV_DEAD_STACK,		/* a stack frame that has returned */
	PV_LOCK_ORDER,		/* classes taken in opposite orders */
	PV_SELF_LOCK,		/* the lock is already held by this thread */
	PV_NOT_HELD,
	PV_HELD_AT_END,		/* a thread ended with a lock */
	PV_ATOMIC_SLEEP,	/* may sleep in atomic context */
	PV_IRQ_UNSAFE,
	PV_WARN,
	PV_BUG,
	PV_CRASH,		/* a bad address */
	PV_STEPS,		/* too many steps in one execution */
	PV_LIMIT,		/* more threads or memory than the checker has */
};

/* Marked accesses.  Each is a point.  size is 1, 2, 4 or 8. */
pv_u64 pv_load(const volatile void *p, int size, enum pv_order order);
void pv_store(volatile void *p, pv_u64 value, int size, enum pv_order order);

/*
 * The point of an atomic read-modify-write, which the shim does itself just
 * after, in plain C in a file that is not instrumented.  Nothing intervenes
 * until the next point.  An update that leaves the value as it was counts as a
 * read, and gives no release.
 */
void pv_update(volatile void *p, int size, enum pv_order order);

/* The same for one that adds n, or nothing if the value is 0. */
void pv_add(volatile void *p, int size, pv_s64 n, enum pv_order order);

/*
 * A point only where stores are buffered.  Full waits until the thread's stores
 * are visible; write orders the stores before it and after it.
 */
void pv_fence(enum pv_fence fence);

/*
 * Locks.  A lock is known by its address, its order by its class and subclass:
 * classes taken in opposite orders in one execution are a finding.  Locks of
 * one class and subclass may not be nested.
 */
struct pv_class {
	const char *name;
	_Bool sleeps;		/* a mutex: taking it may sleep */
};

void pv_lock(void *lock, const struct pv_class *class, int subclass);
_Bool pv_trylock(void *lock, const struct pv_class *class, int subclass);
void pv_unlock(void *lock);
_Bool pv_holds(const void *lock);	/* the running thread does */

/*
 * Atomic context and disabled interrupts, counted for each thread: +1 enters,
 * -1 leaves.  A held lock that does not sleep is atomic context by itself.
 * A class taken in a PROVE_IRQ thread and elsewhere with interrupts enabled is
 * a finding.
 */
void pv_atomic(int change);
void pv_irqs_off(int change);
_Bool pv_irqs_are_off(void);
_Bool pv_in_atomic(void);
/* A finding in atomic context and in interrupts; what names the caller. */
void pv_might_sleep(const char *what);

/*
 * Sleeps until ready(arg): a point that is enabled only then.  ready() may read
 * only what points about the same object change.  Returning from it is an
 * acquire of the object.  "what" appears in the finding if it never ends.  Calls
 * pv_might_sleep() itself.  Finish may block too: then threads that can run do.
 */
void pv_block(const void *object, _Bool (*ready)(void *), void *arg, const char *what);

/*
 * Starts a thread.  enabled(arg), if given, must hold for it to begin, on the
 * terms of pv_block()'s ready.  name is not copied.  Returns its number.
 * A thread spawned by setup() begins with the declared ones.  Flags: PROVE_*;
 * PV_MAYBE: it need not begin for the execution to end (a timer that is
 * cancelled, a callback that is not due).
 */
#define PV_MAYBE 0x100u
int pv_spawn(const char *name, void (*fn)(void *), void *arg, unsigned int flags,
	     _Bool (*enabled)(void *), const void *object);

/* The running thread; PV_ALONE in setup and finish. */
#define PV_ALONE (-1)
int pv_self(void);
const char *pv_thread_name(int thread);
unsigned int pv_thread_flags(int thread);

/*
 * Memory: zeroed or not as asked, aligned to 16; filled with 0x6b when it is
 * freed, and never used again in that execution.  Addresses depend only on what
 * the allocating thread allocated before.  pv_alloc() does not fail; the shim
 * asks pv_may_fail() first, where the kernel's function may: a choice that is
 * explored in scenarios with .fails, and false elsewhere and in setup.  The place is
 * the address in the code under test that pv_alloc() allocates for.
 */
void *pv_alloc(unsigned long size, _Bool zeroed, const void *place);
void pv_free(void *p);
unsigned long pv_size(const void *p);	/* as allocated */
_Bool pv_may_fail(const char *what);
int pv_choose(int n);

/* A tracepoint's record; it becomes part of the trace. */
enum pv_field_kind {
	PV_UNSIGNED,
	PV_SIGNED,
	PV_POINTER,		/* printed as the object's name */
	PV_STRING,		/* characters in place */
	PV_STRING_POINTER,	/* const char * to what outlives the execution */
};

struct pv_field {
	const char *name;
	unsigned short offset;
	unsigned short size;
	enum pv_field_kind kind;
};

struct pv_event_type {
	const char *name;
	unsigned short size;
	unsigned short count;
	const struct pv_field *fields;
};

void pv_event(const struct pv_event_type *type, const void *fields);

/* A delay hook: a point about nothing, named in the trace.  name is not copied. */
void pv_hook(const char *name);

/* Names an object for the trace, where no symbol does.  name is not copied. */
void pv_name(const void *object, const char *name);

/* Reports a finding and ends the execution: it does not return. */
void pv_fail(enum pv_finding kind, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));

/*
 * Plain accesses by uninstrumented code of the shim on behalf of the files under
 * test (memcpy, list walks): checked as if they were instrumented.  The
 * place is the address in those files.
 */
void pv_plain_read(const volatile void *p, unsigned long size, const void *place);
void pv_plain_write(const volatile void *p, unsigned long size, const void *place);

/*
 * Accesses of the running thread that race with none, counted: +1 begins, -1 ends.
 * Nothing else about them is exempt.
 */
void pv_racy(int change);

/*
 * What a shim may define: called before setup, at each thread's start, and at
 * each thread's end, by that thread.
 */
void pv_on_setup(void) __attribute__((weak));
void pv_on_start(void) __attribute__((weak));
void pv_on_end(void) __attribute__((weak));

#endif
