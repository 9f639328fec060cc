/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the checker's own files share.
 *
 * Words: a thread is a coroutine of the scenario.  A process is what the
 * scheduler picks: a thread, or a lane, which drains stores that a thread has
 * buffered.  A step is what a process does from one point to its next.  An
 * execution is a sequence of steps from the state after setup().
 */
#ifndef PV_INTERNAL_H
#define PV_INTERNAL_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine.h"
#include "prove.h"

/*
 * State that is not put back before an execution.  Everything else that the
 * program's files define is.
 */
#define ENGINE_STATE __attribute__((section("pv_engine")))

#define MAX_PROCESSES	64
#define MAX_STEPS	20000
#define MAX_CLASSES	64
#define MAX_READY	8
#define MAX_REFERENCES	16
#define MAX_HELD	16
#define MAX_BUFFERED	32
#define STACK_SIZE	(64UL << 10)

typedef uint64_t set_t;			/* of processes */
typedef unsigned __int128 hash_t;
typedef int16_t clock_row[MAX_PROCESSES];	/* last step of each, plus one */
#define BIT(n)		(1ULL << (n))
#define FIRST(set)	__builtin_ctzll(set)

enum kind {
	OP_START, OP_READ, OP_WRITE, OP_UPDATE, OP_FENCE, OP_LOCK, OP_TRYLOCK, OP_UNLOCK,
	OP_SLEEP, OP_CHOICE, OP_HOOK, OP_DRAIN,
	/* Only in the trace: no points. */
	OP_WAKE, OP_ALLOC, OP_FREE, OP_EVENT, OP_END, OP_UNLOCKED,
	OP_PLAIN_READ, OP_PLAIN_WRITE, OP_RACE,
};

/*
 * How an operation meets others about the same object.  Reads go with reads, and counts
 * with counts: see references.c.
 */
enum access { ACCESS_NONE, ACCESS_READ, ACCESS_COUNT, ACCESS_WRITE, ACCESS_LOCK };

struct op {
	uint8_t kind;
	uint8_t access;
	uint8_t size;
	uint8_t order;
	bool drains;			/* enabled when the stores before it are visible */
	bool blocks;			/* may be disabled by other reasons */
	uint16_t choices;
	struct object *object;
	const void *address;
	bool (*ready)(void *);
	void *arg;
	const char *what;
	const void *place;
};

/* Clocks that order marked and plain accesses, for data races. */
struct sync {
	uint16_t at[PV_MAX_THREADS];
};

/*
 * What points are about.  Last accesses are indices of steps plus one; 0 is
 * none.  An object of an earlier execution is recognised by its epoch.
 */
struct object {
	const void *key;
	uint32_t epoch;
	uint8_t bytes;			/* of the aligned eight, as a mask */
	int8_t owner;			/* a lock's thread plus one */
	bool vague;			/* its size is not yet known */
	uint16_t write;
	uint16_t released;		/* a lock's last unlock: the step it was in */
	uint16_t acquired;
	uint16_t location;		/* in weak.c, plus one */
	set_t readers;
	set_t counters;
	uint16_t read[MAX_PROCESSES];
	uint16_t count[MAX_PROCESSES];
	struct sync sync;
};

/* A count of references: what each thread has added of what is in it. */
struct references {
	const volatile void *at;
	int64_t sum;
	int64_t of[PV_MAX_THREADS];
};

struct store {
	void *address;			/* of a lock, if object is one */
	struct object *object;
	uint64_t value;
	uint8_t size;
	bool unlock;
	uint8_t process;		/* its lane */
	uint16_t step;			/* in which it was issued, plus one */
	uint32_t seq;
	uint32_t after;			/* stores up to this one go first */
	struct sync sync;
	bool releases;
	const void *place;
};

/* A store that has become visible: by which step. */
struct drained {
	uint32_t seq;
	uint16_t step;
};

struct buffer {
	int count;
	int drained;			/* number in the log */
	uint32_t seq;			/* of the last store issued */
	uint32_t barrier;		/* of the last store before a write barrier */
	struct store store[MAX_BUFFERED];
};

struct held {
	struct object *object;
	const void *lock;
	uint8_t class;
	bool sleeps;
};

struct thread {
	void *sp;
	const char *name;
	void (*fn)(void *);
	void *arg;
	unsigned int flags;
	long value;			/* prove_arg() */
	bool done;
	uint8_t process;
	uint16_t atomic;
	uint16_t irqs_off;
	uint16_t racy;
	uint8_t nheld;
	struct held held[MAX_HELD];
	struct sync now;		/* what it has seen */
	struct sync acquirable;		/* seen by relaxed loads, for a read fence */
	struct sync published;		/* at its last write fence, for relaxed stores */
};

struct process {
	uint8_t thread;
	bool lane;
	const void *key;		/* PSO: the eight bytes that it drains */
	uint16_t last;			/* its last step plus one */
	uint16_t parent;		/* the step that started it, plus one */
	uint16_t spawned;		/* how many it has started */
	uint64_t identity;		/* the same in whatever order others are started */
	struct op pending;
};

enum phase { PHASE_SETUP, PHASE_PLAY, PHASE_FINISH };

struct class_use {
	const struct pv_class *class;
	int subclass;
	uint64_t after;			/* classes taken while it was held, transitively */
	bool in_irq;
	bool irqs_on;
};

/* Everything of the checker that is put back before an execution. */
struct world {
	enum phase phase;
	int running;			/* thread, or PV_ALONE */
	int nthreads;
	int nprocesses;
	int failures;			/* allocations that may still fail */
	set_t alive;			/* processes that can have a next step */
	set_t blocking;			/* whose pending operation may be disabled */
	int nclasses;
	int nready;
	bool (*ready[MAX_READY])(void);
	int nreferences;
	struct references references[MAX_REFERENCES];
	unsigned int heap_used[PV_MAX_THREADS + 1];
	unsigned int nblocks;
	struct class_use class[MAX_CLASSES];
	struct process process[MAX_PROCESSES];
	struct thread alone;		/* setup and finish */
	struct thread thread[PV_MAX_THREADS];
};

extern struct world world;

static inline struct thread *self(void)
{
	return world.running < 0 ? &world.alone : &world.thread[world.running];
}

enum mode { MODE_DPOR, MODE_BOUND, MODE_ENUMERATE, MODE_RANDOM, MODE_PCT, MODE_REPLAY };
enum memory { MEMORY_SC, MEMORY_TSO, MEMORY_PSO, MEMORY_WEAK };

struct options {
	const struct prove_scenario *scenario;
	enum mode mode;
	enum memory memory;
	int bound;
	bool hooks;			/* preempt threads at delay hooks only */
	bool past_races;		/* a data race ends no execution */
	uint64_t seed;
	long executions;
	double seconds;
	const char *replay;
	long records;
};

/* One step of the current execution, and what exploring knows at it. */
struct step {
	uint8_t process;
	int8_t last;			/* the process that another thread would preempt, or -1 */
	uint16_t after;			/* the step that released the lock, or issued the store */
	uint32_t upto;			/* a lane's: the stores that went before */
	uint16_t choice;
	uint16_t choices;
	struct op op;
	set_t enabled, backtrack, done, sleep;
};

/* A step as bound.c knows it. */
struct event {
	hash_t hash;
	hash_t state;			/* after it: the sum of all events */
};

/* The exploration: everything that outlives an execution. */
struct engine {
	struct options options;
	uint32_t epoch;			/* of the execution */
	int depth;
	int depth_settled;		/* steps that are accounted for */
	int prefix;			/* steps that repeat the last execution */
	int deepest;
	bool playing;			/* scenario code may run */
	bool tracing;
	bool recording;
	bool unlocks_are_steps;		/* the scenario uses trylock */
	bool restart;			/* what was learnt changes the steps */
	bool learnt;			/* a place is contended */
	bool redundant;			/* nothing but sleeping processes could go on */
	bool too_many_lanes;
	set_t sleep;			/* at the next step */
	int last;			/* process that ran last, -1 */
	int preemptions;
	const volatile void *updated;	/* an atomic update whose effect is not yet known */
	uint64_t before;
	struct sync carried;		/* what it releases, if it changes anything */
	enum pv_finding finding;
	char text[512];
	int finder;			/* the thread, or PV_ALONE */
	long executed, pruned, steps;
	struct step *step;		/* [MAX_STEPS] */
	clock_row *clock;		/* [MAX_STEPS + 1] */
	struct event *event;		/* [MAX_STEPS] */
	void *main_sp;
	jmp_buf out;			/* to play() */
	long alone_points;		/* of threads that run while finish waits */
	const void *place;		/* of the last access that was checked */
	const void *other_place;	/* of the one that it races with */
};

extern struct engine engine;

/* Does the running thread load and store by views? */
static inline bool weak(void)
{
	return engine.options.memory == MEMORY_WEAK && world.phase == PHASE_PLAY &&
	       world.running >= 0;
}

/* sched.c */
void point(const struct op *op);
void wait_alone(struct object *lock, const char *what);
set_t enabled_processes(void);
void play(void);
void declare_threads(void);
void __attribute__((noreturn)) leave(void);
int new_process(int thread, bool lane, const void *key);
void thread_stack(int thread, uintptr_t *low, uintptr_t *high);
int stack_owner(uintptr_t address);
bool stack_is_dead(int owner, uintptr_t address);
void make_stacks(void);

/* explore.c */
int choose_process(set_t enabled);
void commit_step(int process);
void settle_step(void);
void end_of_execution(void);
bool next_execution(void);
void join_clock(int16_t *to, unsigned int step);
void wake_dependent(const struct op *op);

/* bound.c */
hash_t mix(hash_t a, hash_t b);
void learn_access(int thread, const struct object *o, enum access access);
bool is_contended(const struct op *op);
void hash_step(int index);
void sleep_after(const struct step *s);
void forget_states(void);
bool seen_before(set_t enabled);

/* sample.c */
void sample_reset(void);
int sample_process(set_t enabled);
int sample_value(int choices);
bool replay_parse(const char *schedule);
void replay_recorded(void);
void print_schedule(FILE *out);

/* order.c */
bool has_buffers(void);
bool buffering(void);
bool stores_drained(int thread);
bool lane_ready(int process);
struct store *lane_head(int process);
void drain(int process);
bool buffer_store(struct store *store);
bool forwarded(const volatile void *p, int size, uint64_t *value);
bool partly_buffered(const volatile void *p, int size);
void settle_own_stores(const volatile void *p, unsigned long size, const void *place);
void join_drained(int16_t *clock, int thread, uint32_t upto);
void order_reset(void);

/* weak.c */
void weak_reset(void);
uint64_t weak_load(struct object *o, const volatile void *p, int size, enum pv_order order);
void weak_store(struct object *o, enum pv_order order);
void weak_plain_write(uintptr_t at, unsigned long size);
void weak_see_newest(struct object *o, enum pv_order order);
void weak_update(struct object *o, enum pv_order order);
void weak_updated(struct object *o);
void weak_unlock(struct object *o);
void weak_spawn(int parent, int child);
void weak_fence(enum pv_fence fence, const void *place);
void weak_due_fence(void);

/* references.c */
bool stays_above_zero(const volatile void *p, int size, int64_t n);
void add_references(const volatile void *p, int64_t n);

/* access.c */
int step_choice(int n);
uint64_t value_at(const volatile void *p, int size);
int64_t signed_value_at(const volatile void *p, int size);
void write_value(volatile void *p, uint64_t value, int size);

/* races.c */
void races_init(void);
void learn_race(uintptr_t at);
void print_races(FILE *out);
void check_access(const volatile void *p, unsigned long size, bool write, bool marked,
		  const void *place);
void sync_load(const struct sync *of, enum pv_order order);
void sync_carry(struct sync *out, enum pv_order order);
void sync_join(struct sync *to, const struct sync *from);

/* heap.c */
void heap_init(void);
void heap_save(void);
void heap_restore(size_t kept);
void heap_check(const volatile void *p, unsigned long size);
void heap_leaks(void);
bool heap_describe(const void *p, char *out, size_t size);
const void *heap_block(const void *p, unsigned long *size, const void **place);

/* locks.c */
void locks_at_end(void);
void unlock_now(struct object *o);

/* objects.c */
struct object *object_at(const volatile void *p, int size);
struct object *object_around(const void *p);
struct object *lock_at(const void *p);

/* state.c */
void state_save(void);
void state_restore(void);

/* report.c */
void report_scenario(const struct prove_scenario *s);
void report_result(bool complete, const char *why_not, double seconds);
void report_trace(void);
void trace_as(int thread, enum kind kind, const void *object, uint64_t value,
	      const void *place);
void trace(enum kind kind, const void *object, uint64_t value, const void *place);
void trace_access(const volatile void *p, unsigned long size, bool write, bool marked,
		  const void *place);
void trace_race(const void *at, bool write, bool marked, const void *place);
void trace_update(uint64_t value);
void trace_older(uint64_t newest);
void trace_event(const struct pv_event_type *type, const void *fields);
void name_object(const void *object, char *out, size_t size);

/* symbols.c */
const char *symbol_at(const void *p, unsigned long *offset);

/* main.c */
void play_again(void);
void *map_zeroed(size_t size);

#define PLACE __builtin_return_address(0)

#endif
