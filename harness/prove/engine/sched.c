// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Threads, points, and one execution from its beginning to its end.
 *
 * The scheduler is a function that the running thread calls at a point.  If the
 * same thread goes on, nothing is switched.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"
#include "layout.h"
#include "switch.h"

#define GUARD	4096UL		/* below each stack */

ENGINE_STATE struct world world;
ENGINE_STATE struct engine engine;

void thread_stack(int thread, uintptr_t *low, uintptr_t *high)
{
	*low = STACKS_START + thread * STACK_SIZE;
	*high = *low + STACK_SIZE;
}

/* The thread in whose stack an address is, or -1. */
int stack_owner(uintptr_t address)
{
	uintptr_t offset = address - STACKS_START;

	return offset < STACKS_SIZE ? (int)(offset / STACK_SIZE) : -1;
}

/* A frame that has returned, of a thread that does not run just now. */
bool stack_is_dead(int owner, uintptr_t address)
{
	const struct thread *t = &world.thread[owner];

	return owner >= world.nthreads || t->done || address < (uintptr_t)t->sp;
}

void make_stacks(void)
{
	void *span = mmap((void *)SPAN_START, SPAN_END - SPAN_START, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
			  -1, 0);

	if (span != (void *)SPAN_START) {
		perror("prove: the memory at its fixed address");
		exit(2);
	}
	for (int i = 0; i < PV_MAX_THREADS; i++)
		mprotect((void *)(STACKS_START + i * STACK_SIZE), GUARD, PROT_NONE);
}

/* Ends the execution, from wherever it is. */
void leave(void)
{
	longjmp(engine.out, 1);
}

static bool is_ready(int process)
{
	struct process *p = &world.process[process];
	const struct op *op = &p->pending;

	if (p->lane)
		return lane_ready(process);
	if (op->drains && !stores_drained(p->thread))
		return false;
	if (op->kind == OP_LOCK)
		return !op->object->owner;
	return !op->ready || op->ready(op->arg);
}

set_t enabled_processes(void)
{
	set_t enabled = world.alive;

	for (set_t s = world.alive & world.blocking; s; s &= s - 1)
		if (!is_ready(FIRST(s)))
			enabled &= ~(s & -s);
	return enabled;
}

/* Chooses steps, and does those of lanes, until a thread is due; -1: none is. */
static int next_thread(void)
{
	for (;;) {
		int process;

		settle_step();
		process = choose_process(enabled_processes());
		if (process < 0)
			return -1;
		commit_step(process);
		if (!world.process[process].lane)
			return world.process[process].thread;
		drain(process);
	}
}

/* In finish: a thread goes on while it can, then finish does. */
static void go_on_alone(struct thread *me)
{
	if (++engine.alone_points > MAX_STEPS)
		pv_fail(PV_STEPS, "%s does not end", me->name);
	if (!me->done && is_ready(me->process))
		return;
	world.running = PV_ALONE;
	pv_switch(&me->sp, engine.main_sp);
}

static void go_on(struct thread *me)
{
	int next;

	if (world.phase == PHASE_FINISH) {
		go_on_alone(me);
		return;
	}
	next = next_thread();
	if (next < 0) {
		pv_switch(&me->sp, engine.main_sp);	/* finish() may let it go on */
		return;
	}
	if (next == me - world.thread)
		return;
	world.running = next;
	pv_switch(&me->sp, world.thread[next].sp);
}

/* The running thread is about to do op: returns when it may. */
void point(const struct op *op)
{
	struct thread *me = self();
	set_t bit;

	if (me == &world.alone) {
		if (++engine.alone_points > MAX_STEPS)
			pv_fail(PV_STEPS, "more than %d steps in %s: does it spin?", MAX_STEPS,
				me->name);
		return;
	}
	if (weak())
		weak_due_fence();
	if (engine.options.mode == MODE_BOUND)
		learn_access(me - world.thread, op->object, op->access);
	bit = BIT(me->process);
	world.process[me->process].pending = *op;
	if (op->blocks)
		world.blocking |= bit;
	else
		world.blocking &= ~bit;
	go_on(me);
}

static void thread_entry(void)
{
	struct thread *me = self();
	uintptr_t low, high;

	trace(OP_START, NULL, 0, (void *)me->fn);
	if (pv_on_start)
		pv_on_start();
	me->fn(me->arg);
	if (pv_on_end)
		pv_on_end();
	locks_at_end();
	thread_stack(me - world.thread, &low, &high);
	settle_own_stores((void *)low, high - low, PLACE);
	trace(OP_END, NULL, 0, NULL);
	me->done = true;
	world.alive &= ~BIT(me->process);
	go_on(me);
	__builtin_unreachable();
}

/* Of a lane of this thread, or of a thread that is spawned now. */
static uint64_t new_identity(int thread, bool lane)
{
	struct process *parent;

	if (world.running < 0)
		return mix(1, thread);
	parent = &world.process[lane ? world.thread[thread].process : self()->process];
	return mix(parent->identity, ++parent->spawned);
}

/* Returns its number, or -1 if there are too many. */
int new_process(int thread, bool lane, const void *key)
{
	int n = world.nprocesses;

	if (n == MAX_PROCESSES)
		return -1;
	world.nprocesses++;
	world.process[n] = (struct process){
		.thread = thread,
		.lane = lane,
		.key = key,
		.parent = world.phase == PHASE_PLAY ? engine.depth : 0,
		.identity = new_identity(thread, lane),
	};
	if (!lane)
		world.alive |= BIT(n);
	return n;
}

static struct thread *new_thread(const char *name, void (*fn)(void *), void *arg,
				 unsigned int flags)
{
	int n = world.nthreads;
	struct thread *t = &world.thread[n];
	int process = n < PV_MAX_THREADS ? new_process(n, false, NULL) : -1;
	uintptr_t low, high;

	if (process < 0)
		pv_fail(PV_LIMIT, "more than %d threads, or %d with their lanes", PV_MAX_THREADS,
			MAX_PROCESSES);
	world.nthreads++;
	thread_stack(n, &low, &high);
	*t = (struct thread){
		.name = name, .fn = fn, .arg = arg, .flags = flags, .process = process,
		.sp = pv_new_context((char *)high, thread_entry),
	};
	t->now = self()->now;
	t->now.at[n] = 1;
	return t;
}

int pv_spawn(const char *name, void (*fn)(void *), void *arg, unsigned int flags,
	     _Bool (*enabled)(void *), const void *object)
{
	struct thread *t = new_thread(name, fn, arg, flags);
	struct process *p = &world.process[t->process];

	p->pending = (struct op){
		.kind = OP_START, .ready = enabled, .arg = arg, .blocks = enabled,
		.access = enabled ? ACCESS_READ : ACCESS_NONE, .address = object,
		.what = "its start", .place = PLACE,
	};
	if (enabled) {
		p->pending.object = object_around(object);
		learn_access(t - world.thread, p->pending.object, ACCESS_READ);
		world.blocking |= BIT(t->process);
	}
	if (weak())
		weak_spawn(world.running, t - world.thread);
	if (world.running >= 0)
		self()->now.at[world.running]++;
	return t - world.thread;
}

static void run_declared(void *arg)
{
	((const struct prove_thread *)arg)->run();
}

/* The declared threads have the first numbers, before what setup() spawns. */
void declare_threads(void)
{
	const struct prove_scenario *s = engine.options.scenario;

	world.running = PV_ALONE;
	world.alone.name = "setup";
	for (int i = 0; i < PROVE_MAX_THREADS && s->threads[i].name; i++) {
		const struct prove_thread *d = &s->threads[i];
		struct thread *t = new_thread(d->name, run_declared, (void *)d, d->flags);

		t->value = d->arg;
		world.process[t->process].pending = (struct op){ .kind = OP_START };
	}
}

/* Lets a thread that can run do so, until it cannot; false if there is none. */
static bool run_another(void)
{
	set_t enabled = enabled_processes();

	if (!enabled)
		return false;
	world.running = world.process[FIRST(enabled)].thread;
	world.process[FIRST(enabled)].pending.ready = NULL;
	pv_switch(&engine.main_sp, world.thread[world.running].sp);
	return true;
}

/* setup() and finish() block: only in finish can others help. */
static void block_alone(const struct op *op)
{
	while (!op->ready(op->arg))
		if (world.phase == PHASE_SETUP || !run_another())
			pv_fail(PV_ASLEEP, "%s sleeps for ever: %s", world.alone.name, op->what);
}

static bool lock_is_free(void *object)
{
	return !((struct object *)object)->owner;
}

/* finish() needs a lock: threads that can run may give it back. */
void wait_alone(struct object *lock, const char *what)
{
	struct op op = { .ready = lock_is_free, .arg = lock, .what = what };

	if (world.running < 0)
		block_alone(&op);
}

void pv_block(const void *object, _Bool (*ready)(void *), void *arg, const char *what)
{
	struct op op = {
		.kind = OP_SLEEP, .access = ACCESS_READ, .drains = true, .blocks = true,
		.ready = ready, .arg = arg, .what = what, .address = object, .place = PLACE,
	};

	pv_might_sleep(what);
	if (world.running < 0) {
		block_alone(&op);
		return;
	}
	op.object = object_around(object);
	trace(OP_SLEEP, object, 0, PLACE);
	point(&op);
	if (weak())
		weak_see_newest(op.object, PV_ACQUIRE);
	sync_load(&op.object->sync, PV_ACQUIRE);
	trace(OP_WAKE, object, 0, PLACE);
}

static bool any_ready(void)
{
	for (int i = 0; i < world.nready; i++)
		if (world.ready[i]())
			return true;
	return false;
}

static void judge_waiter(int thread)
{
	const struct thread *t = &world.thread[thread];
	const struct op *op = &world.process[t->process].pending;
	bool beside;

	if (op->kind == OP_START && t->flags & PV_MAYBE)
		return;
	beside = any_ready();
	if (op->kind == OP_SLEEP && t->flags & PROVE_STAYS && !beside)
		return;
	engine.finder = thread;
	engine.place = op->place;
	if (op->kind == OP_LOCK)
		pv_fail(PV_DEADLOCK, "%s waits for ever for %s, which %s holds", t->name, op->what,
			world.thread[op->object->owner - 1].name);
	if (beside)
		pv_fail(PV_ASLEEP_READY, "%s sleeps for ever beside something ready: %s", t->name,
			op->what);
	pv_fail(PV_ASLEEP, "%s sleeps for ever: %s", t->name, op->what);
}

/* Nothing can run any more. */
static void judge_end(void)
{
	world.running = PV_ALONE;
	world.alone.name = "finish";
	for (int i = 0; i < world.nthreads; i++)
		if (!world.thread[i].done)
			judge_waiter(i);
	world.phase = PHASE_FINISH;
	engine.alone_points = 0;
	if (engine.options.scenario->finish)
		engine.options.scenario->finish();
	while (run_another())
		;
	locks_at_end();
	heap_leaks();
}

/* The first frames are on the stacks, which are not put back otherwise. */
static void renew_stacks(void)
{
	for (int i = 0; i < world.nthreads; i++) {
		uintptr_t low, high;

		thread_stack(i, &low, &high);
		world.thread[i].sp = pv_new_context((char *)high, thread_entry);
	}
}

/* Plays one execution from the state after setup(). */
void play(void)
{
	int first;

	renew_stacks();
	world.phase = PHASE_PLAY;
	if (!_setjmp(engine.out)) {
		first = next_thread();
		if (first >= 0) {
			world.running = first;
			pv_switch(&engine.main_sp, world.thread[first].sp);
		}
	}
	if (engine.finding || engine.restart)
		return;
	end_of_execution();
	if (!engine.redundant && !_setjmp(engine.out))
		judge_end();
}
