// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Locks, and the context in which threads are.
 *
 * An unlock is no point by itself: nobody can tell when it was, but for trylock.  It is
 * a step in a scenario where a trylock was seen, where unlocks are buffered stores, and
 * where preemptions are counted: another thread blocks, for free, while the lock is held.
 */
#include "internal.h"

void unlock_now(struct object *o)
{
	o->owner = 0;
	o->released = engine.depth;
}

static struct held *find_held(const void *lock)
{
	struct thread *t = self();

	for (int i = t->nheld - 1; i >= 0; i--)
		if (t->held[i].lock == lock)
			return &t->held[i];
	return NULL;
}

_Bool pv_holds(const void *lock)
{
	return find_held(lock);
}

static int class_number(const struct pv_class *class, int subclass)
{
	int n = world.nclasses;

	for (int i = 0; i < n; i++)
		if (world.class[i].class == class && world.class[i].subclass == subclass)
			return i;
	if (n == MAX_CLASSES)
		pv_fail(PV_LIMIT, "more than %d lock classes", MAX_CLASSES);
	world.class[n] = (struct class_use){ .class = class, .subclass = subclass };
	world.nclasses++;
	return n;
}

/* "after" may be taken while "first" is held, and nothing the other way round. */
static void note_order(int first, int after)
{
	struct class_use *uses = world.class;

	if (uses[first].after & BIT(after))
		return;
	if (first == after || uses[after].after & BIT(first))
		pv_fail(PV_LOCK_ORDER, "%s takes %s and holds %s; elsewhere it is the other way",
			self()->name, uses[after].class->name, uses[first].class->name);
	for (int i = 0; i < world.nclasses; i++)
		if (i == first || uses[i].after & BIT(first))
			uses[i].after |= uses[after].after | BIT(after);
}

static void note_context(struct class_use *use)
{
	const struct thread *t = self();

	if (use->class->sleeps)
		return;
	if (t->flags & PROVE_IRQ)
		use->in_irq = true;
	else if (!t->irqs_off)
		use->irqs_on = true;
	if (use->in_irq && use->irqs_on)
		pv_fail(PV_IRQ_UNSAFE, "%s is taken in an interrupt, and elsewhere with them on",
			use->class->name);
}

static void hold(struct object *o, void *lock, int number)
{
	struct thread *t = self();

	if (t->nheld == MAX_HELD)
		pv_fail(PV_LIMIT, "%s holds more than %d locks", t->name, MAX_HELD);
	t->held[t->nheld++] = (struct held){
		.object = o, .lock = lock, .class = number,
		.sleeps = world.class[number].class->sleeps,
	};
	t->atomic += !world.class[number].class->sleeps;
	o->owner = world.running + 1;
	sync_join(&t->now, &o->sync);
	if (weak())
		weak_see_newest(o, PV_ACQUIRE);
	note_context(&world.class[number]);
}

static struct op lock_op(enum kind kind, void *lock, const struct pv_class *class,
			 const void *place)
{
	return (struct op){
		.kind = kind, .access = kind == OP_LOCK ? ACCESS_LOCK : ACCESS_WRITE,
		.drains = true, .blocks = true, .object = lock_at(lock), .address = lock,
		.what = class->name, .place = place,
	};
}

void pv_lock(void *lock, const struct pv_class *class, int subclass)
{
	struct op op = lock_op(OP_LOCK, lock, class, PLACE);
	struct thread *t = self();
	int number = class_number(class, subclass);

	engine.place = PLACE;
	heap_check(lock, 1);
	if (class->sleeps)
		pv_might_sleep(class->name);
	if (find_held(lock))
		pv_fail(PV_SELF_LOCK, "%s takes %s, which it holds", t->name, class->name);
	for (int i = 0; i < t->nheld; i++)
		note_order(t->held[i].class, number);
	if (world.phase == PHASE_FINISH)
		wait_alone(op.object, class->name);
	point(&op);
	heap_check(lock, 1);
	hold(op.object, lock, number);
	trace(OP_LOCK, lock, 0, PLACE);
}

/* From now on unlocks are steps: the exploration begins anew. */
static void see_trylock(void)
{
	if (engine.unlocks_are_steps || has_buffers())
		return;
	engine.unlocks_are_steps = true;
	if (world.phase == PHASE_SETUP)
		return;
	engine.restart = true;
	leave();
}

_Bool pv_trylock(void *lock, const struct pv_class *class, int subclass)
{
	struct op op = lock_op(OP_TRYLOCK, lock, class, PLACE);
	int number = class_number(class, subclass);
	bool taken;

	engine.place = PLACE;
	heap_check(lock, 1);
	see_trylock();
	point(&op);
	taken = !op.object->owner;
	if (taken)
		hold(op.object, lock, number);
	else if (world.phase == PHASE_PLAY)
		engine.step[engine.depth - 1].op.access = ACCESS_READ;
	trace(OP_TRYLOCK, lock, taken, PLACE);
	return taken;
}

/* Out of the list of held locks; the lock itself is still taken. */
static struct object *let_go(void *lock)
{
	struct thread *t = self();
	struct held *h = find_held(lock);
	struct object *o;

	if (!h)
		pv_fail(PV_NOT_HELD, "%s unlocks what it does not hold", t->name);
	o = h->object;
	t->atomic -= !h->sleeps;
	for (t->nheld--; h < &t->held[t->nheld]; h++)
		h[0] = h[1];
	return o;
}

static bool unlock_later(struct object *o, void *lock, const void *place)
{
	struct store s = {
		.address = lock, .object = o, .unlock = true, .releases = true, .place = place,
	};

	sync_carry(&s.sync, PV_RELEASE);
	if (!buffer_store(&s))
		return false;
	trace(OP_UNLOCK, lock, 0, place);
	return true;
}

void pv_unlock(void *lock)
{
	struct object *o;
	struct op op = {
		.kind = OP_UNLOCK, .access = ACCESS_WRITE, .address = lock, .place = PLACE,
	};

	engine.place = PLACE;
	heap_check(lock, 1);
	o = let_go(lock);
	op.object = o;
	if (world.phase == PHASE_PLAY && buffering() && unlock_later(o, lock, PLACE))
		return;
	if (world.phase == PHASE_PLAY && engine.unlocks_are_steps)
		point(&op);
	if (weak())
		weak_unlock(o);
	if (world.running >= 0)
		sync_carry(&o->sync, PV_RELEASE);
	unlock_now(o);
	trace(OP_UNLOCK, lock, 0, PLACE);
}

void locks_at_end(void)
{
	const struct thread *t = self();

	engine.place = NULL;
	if (t->nheld)
		pv_fail(PV_HELD_AT_END, "%s ends while it holds %s", t->name,
			world.class[t->held[0].class].class->name);
	if (t->atomic || t->irqs_off)
		pv_fail(PV_HELD_AT_END, "%s ends in atomic context", t->name);
}

void pv_atomic(int change)
{
	self()->atomic += change;
}

void pv_irqs_off(int change)
{
	self()->irqs_off += change;
}

_Bool pv_irqs_are_off(void)
{
	return self()->irqs_off;
}

_Bool pv_in_atomic(void)
{
	return self()->atomic || self()->irqs_off || self()->flags & PROVE_IRQ;
}

void pv_might_sleep(const char *what)
{
	const struct thread *t = self();

	engine.place = PLACE;
	if (t->flags & PROVE_IRQ)
		pv_fail(PV_ATOMIC_SLEEP, "%s, an interrupt, may sleep: %s", t->name, what);
	if (pv_in_atomic())
		pv_fail(PV_ATOMIC_SLEEP, "%s may sleep in atomic context: %s", t->name, what);
}
