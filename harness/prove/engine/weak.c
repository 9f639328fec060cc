// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Weak loads: MEMORY_WEAK.
 *
 * A place remembers its last stores.  A load may return any of them that is not
 * older than what the thread has to see of the place: which one is a choice of the
 * load's step, and all are explored.  What a thread has to see is its view, a store for each
 * place.  Its own loads and stores raise it, for that place (coherence).  A store
 * carries a view: with a release that of the thread, else that of the thread's last
 * write fence.  An acquire joins the view of the store that it reads; a read fence
 * joins those of all stores that were read before it.  Locks, wake-ups and threads'
 * starts carry views.  Full fences join one view that all of them share, in both
 * directions, and are steps that depend on one another.  Atomic updates, sleepers, and
 * loads with PV_NEWEST or PV_FULL read the newest store;
 * an update passes on the view that it has read.  PV_FULL updates have a full
 * fence on either side.
 *
 * What is covered: a load that is done before an earlier load or store (message
 * passing without a read fence, store buffering, IRIW), and stores that become visible
 * to another thread in another order than they were done (message passing without
 * a write fence).  What is not:
 *
 * - A load never returns a store that is done later (load buffering, also where
 *   nothing but a dependency or a barrier forbids it).
 * - All threads agree on the order in which stores to a place were done, and it is
 *   that of the execution: two stores of a thread to two places do not end up
 *   the other way round in both (2+2W), which PSO shows.
 * - Fences are those of C11, which are stronger than smp_rmb() and smp_wmb() where
 *   a load stands before the write fence or a store after the read fence.
 * - Address dependencies do not order loads: what relies on them needs PV_ACQUIRE.
 * - A load returns one of the last KEPT stores, and one that is not the newest at most
 *   MOST_STALE times in a row to one thread, so that a loop which waits for a store ends.
 * - Plain loads return the newest store: those that could return another one race.
 */
#include <string.h>

#include "internal.h"

#define KEPT		4
#define MOST_STALE	3
#define MAX_LOCATIONS	256

/* The number of the store that has to be seen, of each location. */
struct view {
	uint16_t at[MAX_LOCATIONS];
};

struct version {
	uint16_t number;
	uint64_t word;			/* the aligned eight bytes, once there is a newer one */
	struct sync sync;		/* the same */
	struct view view;
};

struct location {
	const struct object *object;
	int count;
	struct version kept[KEPT];	/* the newest first */
	uint8_t stale[PV_MAX_THREADS];	/* loads in a row that were not of the newest */
};

struct thread_view {
	struct view now, acquirable, published;
	bool fence_due;			/* after an update */
};

static ENGINE_STATE struct location locations[MAX_LOCATIONS];
static ENGINE_STATE int nlocations;
static ENGINE_STATE struct thread_view views[PV_MAX_THREADS];
static ENGINE_STATE struct view fences;
static ENGINE_STATE struct view carried;	/* by the update under way */
static ENGINE_STATE char fence_key;

void weak_reset(void)
{
	if (engine.options.memory != MEMORY_WEAK)
		return;
	nlocations = 0;
	memset(&fences, 0, sizeof(fences));
	memset(views, 0, world.nthreads * sizeof(views[0]));
}

static struct thread_view *own_view(void)
{
	return &views[world.running];
}

static void join(struct view *restrict to, const struct view *restrict from)
{
	for (int i = 0; i < MAX_LOCATIONS; i++)
		to->at[i] = from->at[i] > to->at[i] ? from->at[i] : to->at[i];
}

static bool includes(const struct view *all, const struct view *part)
{
	for (int i = 0; i < nlocations; i++)
		if (part->at[i] > all->at[i])
			return false;
	return true;
}

static struct location *location_of(struct object *o)
{
	struct location *l;

	if (o->location)
		return &locations[o->location - 1];
	if (nlocations == MAX_LOCATIONS)
		pv_fail(PV_LIMIT, "more than %d places with weak loads", MAX_LOCATIONS);
	l = &locations[nlocations++];
	o->location = nlocations;
	l->object = o;
	l->count = 1;
	memset(l->stale, 0, sizeof(l->stale));
	memset(&l->kept[0], 0, sizeof(l->kept[0]));
	return l;
}

static uint64_t word_of(const struct object *o)
{
	return *(const uint64_t *)((uintptr_t)o->key & ~7UL);
}

/* The newest store is about to get a successor: what can be read of it later. */
static void keep_newest(struct location *l, struct object *o)
{
	l->kept[0].word = word_of(o);
	l->kept[0].sync = o->sync;
}

/* A new store of the running thread, with the view of the one before. */
static struct version *new_version(struct location *l)
{
	struct version *v = &l->kept[0];

	if (l->count < KEPT)
		l->count++;
	memmove(v + 1, v, (l->count - 1) * sizeof(*v));
	v->number++;
	own_view()->now.at[l - locations] = v->number;
	v->view.at[l - locations] = v->number;
	return v;
}

/* The view that a store gives to those who read it. */
static const struct view *given(enum pv_order order)
{
	return order == PV_RELEASE || order == PV_FULL ? &own_view()->now :
							 &own_view()->published;
}

/* A marked store, before it is done. */
void weak_store(struct object *o, enum pv_order order)
{
	struct location *l = location_of(o);
	struct view view = *given(order);
	struct version *v;

	keep_newest(l, o);
	v = new_version(l);
	view.at[l - locations] = v->number;
	v->view = view;
}

/* A plain write, before it is done: older stores are not to be read any more. */
void weak_plain_write(uintptr_t at, unsigned long size)
{
	for (int i = 0; i < nlocations; i++) {
		struct object *o = (struct object *)locations[i].object;
		uintptr_t base = (uintptr_t)o->key;
		int first = __builtin_ctz(o->bytes);

		if (base & 7 || base + first >= at + size ||
		    base + first + __builtin_popcount(o->bytes) <= at)
			continue;
		keep_newest(&locations[i], o);
		new_version(&locations[i]);
	}
}

static void see(struct object *o, const struct version *v, enum pv_order order)
{
	struct thread_view *me = own_view();

	me->now.at[o->location - 1] = v->number;
	join(order == PV_ACQUIRE || order == PV_FULL ? &me->now : &me->acquirable, &v->view);
}

/* The newest store is read: by an update, a sleeper, or who takes a lock. */
void weak_see_newest(struct object *o, enum pv_order order)
{
	see(o, &location_of(o)->kept[0], order);
}

/* What an update will give, if it changes anything. */
void weak_update(struct object *o, enum pv_order order)
{
	keep_newest(location_of(o), o);
	carried = *given(order);
	own_view()->fence_due = order == PV_FULL;
}

void weak_updated(struct object *o)
{
	join(&new_version(location_of(o))->view, &carried);
}

/* What a lock gives to its next owner. */
void weak_unlock(struct object *o)
{
	location_of(o)->kept[0].view = own_view()->now;
}

void weak_spawn(int parent, int child)
{
	memset(&views[child], 0, sizeof(views[child]));
	if (parent >= 0)
		views[child].now = views[parent].now;
}

/* How many stores the running thread may read. */
static int admissible(const struct location *l)
{
	unsigned int oldest = own_view()->now.at[l - locations];
	int n = 1;

	if (l->stale[world.running] == MOST_STALE)
		return 1;
	while (n < l->count && l->kept[n].number >= oldest)
		n++;
	return n;
}

static uint64_t part_of(uint64_t word, const volatile void *p, int size)
{
	word >>= 8 * ((uintptr_t)p & 7);
	return size == 8 ? word : word & ((1ULL << 8 * size) - 1);
}

/* A marked load: chooses the store, and returns its value. */
uint64_t weak_load(struct object *o, const volatile void *p, int size, enum pv_order order)
{
	struct location *l = location_of(o);
	int n = order >= PV_FULL ? 1 : admissible(l);
	int choice = n > 1 ? step_choice(n) : 0;
	const struct version *v = &l->kept[choice];

	see(o, v, order);
	if (!choice) {
		l->stale[world.running] = 0;
		sync_load(&o->sync, order);
		return value_at(p, size);
	}
	l->stale[world.running]++;
	sync_load(&v->sync, order);
	return part_of(v->word, p, size);
}

/* Returns whether other full fences can tell when this one was. */
static bool exchange_views(struct view *now)
{
	bool adds = !includes(&fences, now);

	if (adds)
		join(&fences, now);
	*now = fences;
	return adds;
}

void weak_fence(enum pv_fence fence, const void *place)
{
	struct thread_view *me = own_view();
	struct op op = {
		.kind = OP_FENCE, .access = ACCESS_WRITE, .object = lock_at(&fence_key),
		.place = place,
	};

	if (fence == PV_FENCE_FULL) {
		trace(OP_FENCE, NULL, 0, place);
		point(&op);
	} else {
		/* No point: an update just before is done, but not accounted for. */
		settle_step();
	}
	if (fence != PV_FENCE_WRITE)
		join(&me->now, &me->acquirable);
	if (fence == PV_FENCE_FULL && !exchange_views(&me->now))
		engine.step[engine.depth - 1].op.access = ACCESS_READ;
	if (fence != PV_FENCE_READ)
		me->published = me->now;
}

/* The fence after an update, before the thread's next point. */
void weak_due_fence(void)
{
	if (!own_view()->fence_due)
		return;
	own_view()->fence_due = false;
	weak_fence(PV_FENCE_FULL, engine.place);
}
