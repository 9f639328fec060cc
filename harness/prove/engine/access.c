// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Marked accesses, choices and hooks: the points that read and write. */
#include "internal.h"

uint64_t value_at(const volatile void *p, int size)
{
	switch (size) {
	case 1:
		return *(const volatile uint8_t *)p;
	case 2:
		return *(const volatile uint16_t *)p;
	case 4:
		return *(const volatile uint32_t *)p;
	default:
		return *(const volatile uint64_t *)p;
	}
}

int64_t signed_value_at(const volatile void *p, int size)
{
	int unused = 64 - 8 * size;

	return (int64_t)(value_at(p, size) << unused) >> unused;
}

void write_value(volatile void *p, uint64_t value, int size)
{
	switch (size) {
	case 1:
		*(volatile uint8_t *)p = value;
		break;
	case 2:
		*(volatile uint16_t *)p = value;
		break;
	case 4:
		*(volatile uint32_t *)p = value;
		break;
	default:
		*(volatile uint64_t *)p = value;
	}
}

pv_u64 pv_load(const volatile void *p, int size, enum pv_order order)
{
	struct op op = {
		.kind = OP_READ, .access = ACCESS_READ, .size = size, .order = order,
		.address = (const void *)p, .place = PLACE,
	};
	uint64_t value;

	if (world.phase != PHASE_PLAY) {
		check_access(p, size, false, true, PLACE);
		return value_at(p, size);
	}
	op.object = object_at(p, size);
	if (buffering() && partly_buffered(p, size)) {
		op.drains = true;
		op.blocks = true;
	}
	point(&op);
	check_access(p, size, false, true, PLACE);
	if (weak()) {
		value = weak_load(op.object, p, size, order);
	} else if (!buffering() || !forwarded(p, size, &value)) {
		value = value_at(p, size);
		sync_load(&op.object->sync, order);
	}
	trace(OP_READ, op.address, value, PLACE);
	if (weak() && engine.step[engine.depth - 1].choice)
		trace_older(value_at(p, size));
	return value;
}

/* Into the buffer: no point.  False if it has to be stored at once. */
static bool store_later(volatile void *p, uint64_t value, int size, enum pv_order order,
			const void *place)
{
	struct store s = {
		.address = (void *)p, .object = object_at(p, size), .value = value,
		.size = size, .releases = order >= PV_RELEASE, .place = place,
	};

	sync_carry(&s.sync, order);
	return buffer_store(&s);
}

static void store_now(volatile void *p, uint64_t value, int size, enum pv_order order,
		      const void *place)
{
	struct op op = {
		.kind = OP_WRITE, .access = ACCESS_WRITE, .size = size, .order = order,
		.object = object_at(p, size), .address = (void *)p, .place = place,
	};

	point(&op);
	check_access(p, size, true, true, place);
	if (weak())
		weak_store(op.object, order);
	write_value(p, value, size);
	sync_carry(&op.object->sync, order);
}

void pv_store(volatile void *p, pv_u64 value, int size, enum pv_order order)
{
	if (world.phase != PHASE_PLAY) {
		check_access(p, size, true, true, PLACE);
		write_value(p, value, size);
		return;
	}
	if (buffering()) {
		check_access(p, size, true, true, PLACE);
		if (store_later(p, value, size, order, PLACE)) {
			trace(OP_WRITE, (void *)p, value, PLACE);
			if (order == PV_FULL)
				pv_fence(PV_FENCE_FULL);
			return;
		}
	}
	store_now(p, value, size, order, PLACE);
	trace(OP_WRITE, (void *)p, value, PLACE);
	if (order == PV_FULL)
		pv_fence(PV_FENCE_FULL);
}

/* An update of the running thread acquires what others have released. */
static void see_others(const struct op *op)
{
	enum pv_order order = op->order;

	if (weak())
		weak_see_newest(op->object, order);
	sync_load(&op->object->sync, order == PV_RELEASE ? PV_RELAXED : order);
	if (order == PV_FULL)
		sync_join(&self()->now, &self()->acquirable);
}

/* Does the order of additions matter after all?  Others may have written meanwhile. */
static void settle_count(struct op *op, int64_t n)
{
	if (stays_above_zero(op->address, op->size, n))
		add_references(op->address, n);
	else
		op->access = ACCESS_WRITE;
}

static void update(volatile void *p, int size, int64_t n, enum pv_order order, const void *place)
{
	struct op op = {
		.kind = OP_UPDATE, .access = ACCESS_WRITE, .size = size, .order = order,
		.address = (void *)p, .place = place,
	};
	struct op *done;

	if (world.phase != PHASE_PLAY) {
		check_access(p, size, true, true, place);
		return;
	}
	if (n && stays_above_zero(p, size, n))
		op.access = ACCESS_COUNT;
	op.object = object_at(p, size);
	op.drains = buffering();
	op.blocks = buffering();
	if (weak() && order == PV_FULL)
		weak_fence(PV_FENCE_FULL, place);
	point(&op);
	check_access(p, size, true, true, place);
	done = &engine.step[engine.depth - 1].op;
	if (done->access == ACCESS_COUNT)
		settle_count(done, n);
	if (done->access != ACCESS_COUNT)
		see_others(&op);
	if (weak())
		weak_update(op.object, order);
	sync_carry(&engine.carried, order);
	engine.before = value_at(p, size);
	engine.updated = p;
	trace(OP_UPDATE, (void *)p, 0, place);
}

void pv_update(volatile void *p, int size, enum pv_order order)
{
	update(p, size, 0, order, PLACE);
}

void pv_add(volatile void *p, int size, pv_s64 n, enum pv_order order)
{
	update(p, size, n, order, PLACE);
}

static void choice_point(int n, const char *what, const void *place)
{
	struct op op = { .kind = OP_CHOICE, .choices = n, .what = what, .place = place };

	point(&op);
}

/* Which of n: of the step that has just been done. */
int step_choice(int n)
{
	struct step *s = &engine.step[engine.depth - 1];

	s->op.choices = n;
	return engine.options.mode <= MODE_ENUMERATE ? s->choice : sample_value(n);
}

static int chosen(int n, const void *place)
{
	int value = step_choice(n);

	trace(OP_CHOICE, NULL, value, place);
	return value;
}

int pv_choose(int n)
{
	if (n < 1)
		pv_fail(PV_BUG, "a choice of %d", n);
	if (world.phase == PHASE_SETUP)
		pv_fail(PV_BUG, "setup makes a choice");
	if (world.phase != PHASE_PLAY)
		return 0;
	choice_point(n, "a choice", PLACE);
	return chosen(n, PLACE);
}

int prove_choose(int n)
{
	return pv_choose(n);
}

/* Others may use up the failures that are left while this thread stands at the point. */
_Bool pv_may_fail(const char *what)
{
	bool fails;

	if (!engine.options.scenario->fails || world.phase != PHASE_PLAY)
		return false;
	choice_point(2, what, PLACE);
	fails = chosen(world.failures ? 2 : 1, PLACE);
	world.failures -= fails;
	return fails;
}

void pv_hook(const char *name)
{
	struct op op = { .kind = OP_HOOK, .what = name, .place = PLACE };

	trace(OP_HOOK, name, 0, PLACE);
	if (world.phase == PHASE_PLAY)
		point(&op);
}

void pv_event(const struct pv_event_type *type, const void *fields)
{
	trace_event(type, fields);
}
