// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Which interleavings are played.
 *
 * MODE_DPOR: source-DPOR with sleep sets (Abdulla, Aronis, Jonsson, Sagonas:
 * Optimal Dynamic Partial Order Reduction, POPL 2014).  Of all executions that
 * differ only in the order of independent steps at least one is played.  For
 * each step that races with an earlier one, some process that can begin the
 * reversed order is added where the earlier one was chosen.
 *
 * MODE_BOUND: schedules with at most so many preemptions, see bound.c.
 *
 * MODE_ENUMERATE: every schedule with at most so many preemptions, and no reduction:
 * what the others are compared with.
 *
 * A clock of a step holds, for each process, its last step that happens before.
 * Steps that repeat the last execution keep their clocks.
 */
#include <string.h>

#include "internal.h"

static void join(int16_t *restrict to, const int16_t *restrict from)
{
	for (int i = 0; i < MAX_PROCESSES; i++)
		to[i] = from[i] > to[i] ? from[i] : to[i];
}

void join_clock(int16_t *to, unsigned int step)
{
	if (step)
		join(to, engine.clock[step - 1]);
}

static bool dependent(const struct op *a, const struct op *b)
{
	return a->object && a->object == b->object &&
	       !(a->access == b->access && a->access <= ACCESS_COUNT);
}

/* What has happened before the process' next step, by itself. */
static void start_clock(const struct process *p, int16_t *clock)
{
	unsigned int from = p->last ? p->last : p->parent;

	if (from)
		memcpy(clock, engine.clock[from - 1], sizeof(clock_row));
	else
		memset(clock, 0, sizeof(clock_row));
}

/* Since the last write: who has read, or counted, and conflicts with the operation. */
static set_t readers_before(const struct op *op)
{
	return op->access == ACCESS_READ ? 0 : op->object->readers;
}

static set_t counters_before(const struct op *op)
{
	return op->access == ACCESS_COUNT ? 0 : op->object->counters;
}

/* Joins what the operation comes after: earlier accesses that conflict. */
static void join_accesses(int16_t *clock, const struct op *op)
{
	const struct object *o = op->object;

	if (!o || op->access == ACCESS_NONE)
		return;
	join_clock(clock, o->write);
	for (set_t s = readers_before(op); s; s &= s - 1)
		join_clock(clock, o->read[FIRST(s)]);
	for (set_t s = counters_before(op); s; s &= s - 1)
		join_clock(clock, o->count[FIRST(s)]);
}

static void step_clock(int index, int16_t *clock)
{
	const struct step *s = &engine.step[index];
	const struct process *p = &world.process[s->process];

	start_clock(p, clock);
	join_accesses(clock, &s->op);
	join_clock(clock, s->after);
	if (s->op.drains || s->upto)
		join_drained(clock, p->thread, s->op.drains ? UINT32_MAX : s->upto);
	clock[s->process] = index + 1;
}

/* Does nothing of what began since happen before this clock? */
static bool begins(const int16_t *clock, set_t seen, const uint16_t *first)
{
	for (; seen; seen &= seen - 1)
		if (clock[FIRST(seen)] >= first[FIRST(seen)])
			return false;
	return true;
}

/*
 * The processes that can begin what happened since step e, without what happened
 * after e because of it, and then this process' operation.
 */
static set_t initials(int e, int process, const int16_t *clock)
{
	int by = engine.step[e].process;
	uint16_t first[MAX_PROCESSES];
	set_t seen = 0, found = 0;

	for (int j = e + 1; j < engine.depth_settled; j++) {
		int q = engine.step[j].process;

		if (seen & BIT(q) || engine.clock[j][by] > e)
			continue;
		if (begins(engine.clock[j], seen, first))
			found |= BIT(q);
		seen |= BIT(q);
		first[q] = j + 1;
	}
	if (!(seen & BIT(process)) && begins(clock, seen, first))
		found |= BIT(process);
	return found;
}

/* Step e, plus one, and this process' operation could be the other way round. */
static void reverse(unsigned int e, int process, const int16_t *clock)
{
	struct step *s = &engine.step[e - 1];
	set_t found = initials(e - 1, process, clock) & s->enabled;

	if (!found || found & (s->backtrack | s->sleep))
		return;
	s->backtrack |= found & BIT(process) ? BIT(process) : BIT(FIRST(found));
}

/* Not ordered with it by anything else? */
static bool concurrent(unsigned int e, int process, const int16_t *before)
{
	int by;

	if (!e)
		return false;
	by = engine.step[e - 1].process;
	return by != process && before[by] < (int)e;
}

/* Has one of these last accesses happened after step e of that process? */
static bool after(const uint16_t *last, set_t of, unsigned int e, int by)
{
	for (; of; of &= of - 1) {
		unsigned int step = last[FIRST(of)];

		if (step != e && engine.clock[step - 1][by] >= (int)e)
			return true;
	}
	return false;
}

/* Reverses those of these last accesses that race, unless another one is in between. */
static void reverse_last(const struct op *op, const uint16_t *last, set_t of, int process,
			 const int16_t *before, const int16_t *clock)
{
	const struct object *o = op->object;

	for (; of; of &= of - 1) {
		int q = FIRST(of);

		if (concurrent(last[q], process, before) &&
		    !after(o->read, readers_before(op), last[q], q) &&
		    !after(o->count, counters_before(op), last[q], q))
			reverse(last[q], process, clock);
	}
}

/*
 * Finds the earlier steps that race with the operation.  before: what happened
 * before it anyway; clock: with the conflicting accesses.
 */
static void find_races(const struct op *op, int process, const int16_t *before,
		       const int16_t *clock)
{
	const struct object *o = op->object;
	set_t readers, counters;

	if (!o || op->access == ACCESS_NONE)
		return;
	readers = readers_before(op);
	counters = counters_before(op);
	if (op->access == ACCESS_LOCK && concurrent(o->acquired, process, before))
		reverse(o->acquired, process, before);
	if (op->access != ACCESS_LOCK && !readers && !counters &&
	    concurrent(o->write, process, before))
		reverse(o->write, process, clock);
	reverse_last(op, o->read, readers, process, before, clock);
	reverse_last(op, o->count, counters, process, before, clock);
}

static void note_access(int index, const struct step *s)
{
	struct object *o = s->op.object;

	if (!o || s->op.access == ACCESS_NONE)
		return;
	if (s->op.kind == OP_LOCK ||
	    (s->op.kind == OP_TRYLOCK && s->op.access == ACCESS_WRITE))
		o->acquired = index + 1;
	if (s->op.access == ACCESS_READ) {
		o->readers |= BIT(s->process);
		o->read[s->process] = index + 1;
	} else if (s->op.access == ACCESS_COUNT) {
		o->counters |= BIT(s->process);
		o->count[s->process] = index + 1;
	} else {
		o->write = index + 1;
		o->readers = 0;
		o->counters = 0;
	}
}

/* Sleeping processes whose next step depends on the operation sleep no more. */
void wake_dependent(const struct op *op)
{
	for (set_t q = engine.sleep; q; q &= q - 1)
		if (dependent(&world.process[FIRST(q)].pending, op))
			engine.sleep &= ~(q & -q);
}

static void effect_of_update(struct object *o)
{
	if (weak())
		weak_updated(o);
	sync_join(&o->sync, &engine.carried);
}

/* The effect of an atomic update is known now: one that changed nothing has read. */
static void settle_update(struct step *s)
{
	uint64_t now;

	if (!engine.updated)
		return;
	now = value_at(engine.updated, s->op.size);
	trace_update(now);
	if (now == engine.before)
		s->op.access = ACCESS_READ;
	else
		effect_of_update(s->op.object);
	engine.updated = NULL;
}

/* What exploring has to know of a step that was not played before. */
static void account(int index)
{
	struct step *s = &engine.step[index];
	clock_row before;

	if (engine.options.mode == MODE_BOUND) {
		hash_step(index);
		sleep_after(s);
		return;
	}
	step_clock(index, engine.clock[index]);
	start_clock(&world.process[s->process], before);
	find_races(&s->op, s->process, before, engine.clock[index]);
	engine.sleep = s->sleep & ~BIT(s->process);
	wake_dependent(&s->op);
}

/* Accounts for the last step, whose effect is known when the next one is due. */
void settle_step(void)
{
	int index = engine.depth - 1;
	struct step *s = &engine.step[index];
	struct process *p;

	if (index < 0 || engine.depth_settled == engine.depth)
		return;
	settle_update(s);
	p = &world.process[s->process];
	if (engine.options.mode <= MODE_BOUND) {
		if (engine.depth >= engine.prefix)
			account(index);
		note_access(index, s);
		p->last = index + 1;
	}
	engine.depth_settled = engine.depth;
}

/* What the operation of a disabled process would race with. */
static void find_disabled_races(int process)
{
	struct process *p = &world.process[process];
	clock_row before, clock;

	start_clock(p, before);
	memcpy(clock, before, sizeof(clock));
	join_accesses(clock, &p->pending);
	find_races(&p->pending, process, before, clock);
}

void end_of_execution(void)
{
	set_t left = world.alive;

	if (engine.options.mode != MODE_DPOR)
		return;
	left &= ~enabled_processes();
	for (; left; left &= left - 1)
		find_disabled_races(FIRST(left));
}

/* Lanes among these: of one thread, or of all. */
static set_t lanes(set_t among, int thread)
{
	set_t found = 0;

	for (set_t s = among; s; s &= s - 1) {
		const struct process *p = &world.process[FIRST(s)];

		if (p->lane && (thread < 0 || p->thread == thread))
			found |= s & -s;
	}
	return found;
}

/* The thread that ran last, if to run another one is a preemption; or else -1. */
static int would_be_preempted(set_t enabled)
{
	return engine.last >= 0 && enabled & BIT(engine.last) ? engine.last : -1;
}

/* May a thread that could go on be preempted here, if any preemption is left? */
static bool is_place_to_preempt(const struct op *pending)
{
	if (engine.options.mode == MODE_BOUND)
		return is_contended(pending);
	return !engine.options.hooks || pending->kind == OP_HOOK;
}

/* With the preemptions that are left, what may run: lanes always may. */
static set_t within_bound(set_t enabled)
{
	int last = would_be_preempted(enabled);

	if (last < 0)
		return enabled;
	if (!is_place_to_preempt(&world.process[last].pending))
		return lanes(enabled, world.process[last].thread) | BIT(last);
	if (engine.preemptions < engine.options.bound)
		return enabled;
	return lanes(enabled, -1) | BIT(last);
}

/* What may be the next step; nothing if that is explored elsewhere. */
static set_t candidates(set_t enabled)
{
	set_t found;

	if (engine.options.mode == MODE_DPOR)
		return enabled & ~engine.sleep;
	found = within_bound(enabled);
	if (engine.options.mode == MODE_ENUMERATE)
		return found;
	if (engine.last >= 0 && !(enabled & BIT(engine.last)))
		wake_dependent(&world.process[engine.last].pending);
	found &= ~engine.sleep;
	if (found & (found - 1) && seen_before(enabled))
		return 0;
	return found;
}

static int new_step(struct step *s, set_t enabled)
{
	bool dpor = engine.options.mode == MODE_DPOR;
	set_t may = candidates(enabled);

	if (!may) {
		engine.redundant = enabled;
		return -1;
	}
	s->enabled = enabled;
	s->sleep = engine.sleep;
	s->last = would_be_preempted(enabled);
	s->done = 0;
	s->choice = 0;
	s->process = engine.last >= 0 && may & BIT(engine.last) ? engine.last : FIRST(may);
	s->backtrack = dpor ? BIT(s->process) : may;
	return s->process;
}

/* The process of the next step, or -1 if the execution ends. */
int choose_process(set_t enabled)
{
	struct step *s = &engine.step[engine.depth];

	if (engine.depth == MAX_STEPS)
		pv_fail(PV_STEPS, "more than %d steps: does a thread spin?", MAX_STEPS);
	if (engine.options.mode > MODE_ENUMERATE)
		return sample_process(enabled);
	if (engine.depth < engine.prefix)
		return s->process;
	return new_step(s, enabled);
}

static void count_preemption(int process)
{
	if (world.process[process].lane)
		return;
	if (engine.last >= 0 && engine.last != process &&
	    engine.step[engine.depth].enabled & BIT(engine.last))
		engine.preemptions++;
	engine.last = process;
}

/* The process does its pending operation as the next step. */
void commit_step(int process)
{
	struct step *s = &engine.step[engine.depth];
	const struct process *p = &world.process[process];

	s->process = process;
	s->op = p->pending;
	s->after = s->op.kind == OP_LOCK ? s->op.object->released : 0;
	s->upto = 0;
	if (p->lane) {
		s->after = lane_head(process)->step;
		s->upto = lane_head(process)->after;
	}
	count_preemption(process);
	engine.depth++;
	engine.steps++;
}

/* Sets out for the next execution; false if there is none. */
bool next_execution(void)
{
	for (int d = engine.depth - 1; d >= 0; d--) {
		struct step *s = &engine.step[d];
		set_t left;

		engine.prefix = d + 1;
		if (s->choice + 1 < s->op.choices) {
			s->choice++;
			return true;
		}
		s->done |= BIT(s->process);
		left = s->backtrack & ~s->done & ~s->sleep;
		if (engine.options.mode == MODE_DPOR)
			s->sleep |= s->done;
		if (left) {
			s->process = FIRST(left);
			s->choice = 0;
			return true;
		}
	}
	return false;
}
