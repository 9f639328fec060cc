// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * MODE_BOUND: schedules with at most so many preemptions, reduced in three ways.
 *
 * 1. A thread is preempted only before contended operations.  An operation is
 *    contended if another thread does a conflicting one on the same place, and no
 *    lock is held at every access of that place.  While a thread stands before any
 *    other operation, nothing that other processes do conflicts with it: it can as
 *    well be done first, and the preemption comes later or not at all.  So a
 *    schedule has an equivalent one with no more preemptions.  Which places are
 *    contended is learnt from executions.  Whenever one is learnt, the exploration
 *    begins anew; what is complete at the end was explored with all of them.
 *    (A first conflict that is never played would come after a prefix without one,
 *    which has an equivalent that is played, and the conflict can follow it.)
 *
 * 2. A thread that was preempted sleeps until something conflicts with the operation
 *    that it stands before: a step of another process, or the operation that another
 *    thread blocks in.  Without either, the operation can be done before the
 *    preemption, which is explored first.  (No other processes sleep: to let them go
 *    first may take a preemption more.)
 *
 * 3. A state is not explored again with as many or fewer preemptions left.  It is
 *    known by its events: each event has a hash of its process, of the event before
 *    it in that process, and of the accesses that it comes after.  The sum of the
 *    hashes is that of all executions that differ only in the order of independent
 *    steps, as happens-before caching has it (Musuvathi, Qadeer: Partial-Order
 *    Reduction for Context-Bounded State Exploration, 2007).  What may follow depends on
 *    the state, the thread that ran last and the number of preemptions.  Hashes have
 *    120 bits: that two of a billion states share one has a chance below 1e-18.
 *
 * Each says of a schedule that an equivalent one with no more preemptions is played
 * below this point, or was played before it.  So none relies on another in a circle.
 */
#include <string.h>
#include <sys/mman.h>

#include "internal.h"

#define PLACES		4096U
#define COMMON		4		/* locks of a place that are remembered */
#define FEWEST_SEEN	(1UL << 16)
#define MOST_SEEN	(1UL << 26)	/* one GiB; beyond it nothing is remembered */

/* What is known of a place from all executions. */
struct place {
	const void *key;
	uint32_t readers;		/* threads */
	uint32_t counters;
	uint32_t writers;
	int nlocks;
	const void *lock[COMMON];	/* held at each access */
	bool contended;
};

/* A state, with the preemptions before it in the lowest byte. */
struct seen {
	hash_t entry;			/* 0: free */
};

static ENGINE_STATE struct place places[PLACES];
static ENGINE_STATE struct seen *seen;
static ENGINE_STATE unsigned long nseen, room;

/* Of both, in this order; not 0 for zeros. */
hash_t mix(hash_t a, hash_t b)
{
	static const hash_t odd = (hash_t)0x9e3779b97f4a7c15ULL << 64 | 0xf39cc0605cedc835ULL;

	a = (a + odd) * odd + b;
	a = (a ^ a >> 67) * odd;
	a = (a ^ a >> 71) * odd;
	return a ^ a >> 64;
}

static struct place *find_place(const void *key)
{
	unsigned int slot = (uintptr_t)key * 0x9e3779b97f4a7c15ULL >> 52;

	for (unsigned int tries = 0; tries < PLACES; tries++, slot = (slot + 1) % PLACES)
		if (!places[slot].key || places[slot].key == key)
			return &places[slot];
	pv_fail(PV_LIMIT, "more than %u places", PLACES);
}

static void keep_common_locks(struct place *p, const struct thread *t)
{
	int kept = 0;

	for (int i = 0; i < p->nlocks; i++)
		for (int j = 0; j < t->nheld; j++)
			if (t->held[j].lock == p->lock[i])
				p->lock[kept++] = p->lock[i];
	p->nlocks = kept;
}

static void first_locks(struct place *p, const struct thread *t)
{
	while (p->nlocks < COMMON && p->nlocks < t->nheld) {
		p->lock[p->nlocks] = t->held[p->nlocks].lock;
		p->nlocks++;
	}
}

/* Do accesses of two threads conflict? */
static bool conflicts(const struct place *p)
{
	uint32_t all = p->readers | p->counters | p->writers;

	return all & (all - 1) && (p->writers || (p->readers && p->counters));
}

/*
 * The thread is about to access the object, or will when its store is drained.  One
 * that waits for ever counts as well: others decide whether it can go on.
 */
void learn_access(int thread, const struct object *o, enum access access)
{
	const struct thread *t = &world.thread[thread];
	struct place *p;

	if (engine.options.mode != MODE_BOUND || engine.depth < engine.prefix || !o ||
	    access == ACCESS_NONE)
		return;
	p = find_place(o->key);
	if (p->contended)
		return;
	if (p->key)
		keep_common_locks(p, t);
	else
		first_locks(p, t);
	p->key = o->key;
	if (access == ACCESS_READ)
		p->readers |= 1U << thread;
	else if (access == ACCESS_COUNT)
		p->counters |= 1U << thread;
	else
		p->writers |= 1U << thread;
	if (p->nlocks || !conflicts(p))
		return;
	p->contended = true;
	engine.learnt = true;
}

/* May another process' step conflict with this operation? */
bool is_contended(const struct op *op)
{
	return op->object && op->access != ACCESS_NONE && find_place(op->object->key)->contended;
}

static hash_t hash_at(unsigned int step)
{
	return step ? engine.event[step - 1].hash : 0;
}

/* The hash of the step's event, before it is noted as an access. */
void hash_step(int index)
{
	const struct step *s = &engine.step[index];
	struct event *e = &engine.event[index];
	const struct process *p = &world.process[s->process];
	const struct object *o = s->op.object;
	hash_t before = 0;

	if (o && s->op.access != ACCESS_NONE)
		before = hash_at(o->write);
	if (o && s->op.access > ACCESS_READ)
		for (set_t q = o->readers; q; q &= q - 1)
			before += hash_at(o->read[FIRST(q)]);
	if (o && s->op.access != ACCESS_NONE && s->op.access != ACCESS_COUNT)
		for (set_t q = o->counters; q; q &= q - 1)
			before += hash_at(o->count[FIRST(q)]);
	e->hash = mix(mix(p->identity, hash_at(p->last ? p->last : p->parent)), before);
	e->hash = mix(e->hash + s->choice, p->lane ? hash_at(s->after) : 0);
	e->state = (index ? e[-1].state : 0) + e->hash;
}

/* Who still sleeps after the step: its own lane changes what a thread does next. */
void sleep_after(const struct step *s)
{
	const struct process *by = &world.process[s->process];

	engine.sleep = s->sleep;
	if (!by->lane && s->last >= 0)
		engine.sleep |= BIT(s->last);
	wake_dependent(&s->op);
	engine.sleep &= ~BIT(world.thread[by->thread].process);
}

void forget_states(void)
{
	if (seen)
		munmap(seen, room * sizeof(*seen));
	seen = NULL;
	nseen = 0;
	room = 0;
}

static struct seen *find_seen(hash_t entry)
{
	unsigned long slot = (entry >> 64) & (room - 1);

	while (seen[slot].entry && (seen[slot].entry ^ entry) >> 8)
		slot = (slot + 1) & (room - 1);
	return &seen[slot];
}

/* Twice the room, or the first one. */
static void make_room(void)
{
	unsigned long old_room = room;
	struct seen *old = seen;

	room = room ? 2 * room : FEWEST_SEEN;
	seen = map_zeroed(room * sizeof(*seen));
	for (unsigned long i = 0; i < old_room; i++)
		if (old[i].entry)
			*find_seen(old[i].entry) = old[i];
	if (old)
		munmap(old, old_room * sizeof(*old));
}

/* The fewest preemptions with which it was seen; many if it was not. */
static int fewest(hash_t state)
{
	hash_t entry = room ? find_seen(state)->entry : 0;

	return entry ? (int)(entry & 0xff) : 0xff;
}

static void remember(hash_t state, int preemptions)
{
	struct seen *s;

	if (nseen >= room / 2 && room < MOST_SEEN)
		make_room();
	s = find_seen(state);
	if (!s->entry && nseen >= MOST_SEEN / 4 * 3)
		return;
	nseen += !s->entry;
	if (!s->entry || (int)(s->entry & 0xff) > preemptions)
		s->entry = (state & ~(hash_t)0xff) | preemptions;
}

/*
 * The thread that ran last, if it matters: one that cannot go on does not, unless a
 * lane lets it go on before another thread runs.
 */
static hash_t last_thread(set_t enabled)
{
	int last = engine.last;

	if (last < 0 || !(world.alive & BIT(last)))
		return 0;
	return enabled & BIT(last) || buffering() ? world.process[last].identity : 0;
}

/*
 * Is everything that may follow here explored elsewhere?  If another thread ran last,
 * one preemption less is enough: it can be spent to get the same thread.
 */
bool seen_before(set_t enabled)
{
	hash_t state = engine.depth ? engine.event[engine.depth - 1].state : 0;
	hash_t own = mix(state, last_thread(enabled));
	hash_t any = mix(state, ~(hash_t)0), free = mix(state, 0);
	int n = engine.preemptions;

	if (fewest(own) <= n || fewest(free) <= n || fewest(any) < n)
		return true;
	remember(own, n);
	if (n < fewest(any))
		remember(any, n);
	return false;
}
