/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the author of a scenario includes.
 *
 * A scenario is a few threads over objects that setup() opens.  The checker
 * plays their interleavings, each from the same state, and stops at the first
 * finding:
 *
 *	setup()		runs alone, once.  Every allocation succeeds.  It must
 *			not sleep, and makes no choices.
 *	the threads	run in every order that the mode asks for.
 *	finish()	runs when every thread has ended.  It checks and closes.
 *			Where it has to wait, threads that were spawned
 *			meanwhile (work items, RCU callbacks) run to their end.
 *			Memory still allocated after it is a leak.
 *
 * Every variable of the program and all memory of the checker's allocator are
 * put back before each execution.  The C library's malloc() is not: do not
 * use it in a scenario.
 *
 * The header needs no other, so that it can stand beside kernel headers.
 */
#ifndef PROVE_H
#define PROVE_H

#define PROVE_MAX_THREADS 8	/* declared by a scenario; more may be spawned */

/* Flags of a thread. */
#define PROVE_IRQ	1u	/* an interrupt handler: it must not sleep */
#define PROVE_KTHREAD	2u	/* a kernel thread: prove_stop() may name it */
#define PROVE_STAYS	4u	/* it may still sleep when the others have ended, but
				 * not while a prove_ready() is true */

struct prove_thread {
	const char *name;
	void (*run)(void);
	unsigned int flags;
	long arg;			/* prove_arg() returns it */
};

struct prove_scenario {
	const char *name;		/* an identifier; printed with dashes */
	const char *file;
	int line;
	const char *says;		/* what it plays, in one sentence */
	const char *rules;		/* rules that it stands for, blank separated */
	const char *tables;		/* likewise the tables of the documents */
	void (*setup)(void);
	void (*finish)(void);
	struct prove_thread threads[PROVE_MAX_THREADS];
	int bound;			/* preemptions to explore; 0: all of them */
	int fails;			/* allocation failures that may be injected */
};

/*
 * Defines a scenario.  The linker gathers pointers to all of them in one
 * section, from which the checker's main() lists them.  It stands at the start of a
 * line, so that names are known before anything is compiled.
 */
#define PROVE_SCENARIO(id, ...)						\
	static const struct prove_scenario prove_scenario_##id = {	\
		.name = #id, .file = __FILE__, .line = __LINE__,	\
		__VA_ARGS__						\
	};								\
	static const struct prove_scenario *const prove_listed_##id	\
		__attribute__((used, section("prove_scenarios"))) =	\
		&prove_scenario_##id

/* Reports a failed check, with its text, if the condition is false. */
#define prove_check(condition, text)					\
	do {								\
		if (!(condition))					\
			prove_failed(text);				\
	} while (0)
void prove_failed(const char *text);

/* Returns a choice from 0 to n - 1; every one of them is explored. */
int prove_choose(int n);

/* The number of the running thread as it is declared, -1 in setup and finish. */
int prove_self(void);

/* The .arg of the running thread; 0 for spawned threads, setup and finish. */
long prove_arg(void);

/*
 * Registers what must not be true while a thread sleeps for ever: the finding
 * is then "asleep beside something ready".  Registered by setup(); at most
 * eight.  The function is called when nothing can run any more.
 */
void prove_ready(_Bool (*ready)(void));

/*
 * Names a count of references, of 8 bytes at most.  Nothing but zero matters of what
 * an atomic addition to it returns.  Then the order in which threads take and drop
 * references is not played, unless the count may come to zero.  Registered by setup();
 * at most 16.  Later calls do nothing.
 */
void prove_references(const volatile void *count);

/*
 * A signal, SIGKILL, or kthread_stop() for a thread, by its number as it is
 * declared.  The shim that stands for the kernel defines these three.
 */
void prove_signal(int thread);
void prove_kill(int thread);
void prove_stop(int thread);

#endif
