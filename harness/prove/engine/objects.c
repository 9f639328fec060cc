// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The objects that points are about, by address.
 *
 * Accesses of one place with one size are one object.  If accesses of different
 * sizes overlap, the whole eight bytes are one object in a new exploration:
 * then more is dependent than need be, but nothing is missed.
 */
#include "internal.h"

#define TABLE		8192U
#define MAX_COARSE	256
#define LOCK_KEY	1UL		/* odd: never the key of an access */

static ENGINE_STATE struct object table[TABLE];
static ENGINE_STATE const void *coarse[MAX_COARSE];
static ENGINE_STATE int ncoarse;

static unsigned int hash(uintptr_t key)
{
	return (key >> 3) * 0x9e3779b97f4a7c15ULL >> 51 & (TABLE - 1);
}

static bool is_coarse(const void *key)
{
	for (int i = 0; i < ncoarse; i++)
		if (coarse[i] == key)
			return true;
	return false;
}

/* What was taken for two objects is one: the exploration begins anew. */
static void make_coarse(const void *key)
{
	if (ncoarse == MAX_COARSE)
		pv_fail(PV_LIMIT, "more than %d places with accesses of mixed size", MAX_COARSE);
	coarse[ncoarse++] = key;
	engine.restart = true;
	leave();
}

static struct object *new_object(struct object *o, const void *key, uint8_t bytes, bool vague)
{
	o->key = key;
	o->epoch = engine.epoch;
	o->bytes = bytes;
	o->vague = vague;
	o->owner = 0;
	o->write = 0;
	o->released = 0;
	o->acquired = 0;
	o->location = 0;
	o->readers = 0;
	o->counters = 0;
	o->sync = (struct sync){ 0 };
	return o;
}

static struct object *find(const void *key, uint8_t bytes, bool vague)
{
	unsigned int slot = hash((uintptr_t)key);

	for (unsigned int tries = 0; tries < TABLE; tries++, slot = (slot + 1) % TABLE) {
		struct object *o = &table[slot];

		if (o->epoch != engine.epoch) {
			if (ncoarse && is_coarse(key))
				bytes = 0xff;
			return new_object(o, key, bytes, vague);
		}
		if (o->key != key || !(o->bytes & bytes))
			continue;
		if (o->bytes != bytes && vague)
			return o;
		if (o->bytes != bytes && o->vague)
			o->bytes = bytes;
		if (o->bytes != bytes && !is_coarse(key))
			make_coarse(key);
		o->vague &= vague;
		return o;
	}
	pv_fail(PV_LIMIT, "more than %u objects", TABLE);
}

struct object *object_at(const volatile void *p, int size)
{
	uintptr_t at = (uintptr_t)p, key = at & ~7UL;
	unsigned int bytes = ((1U << size) - 1) << (at - key);

	if (bytes > 0xff)
		pv_fail(PV_BUG, "a marked access of %d bytes at %p is not aligned", size, p);
	return find((const void *)key, bytes, false);
}

/* What a sleeper waits for: the object at p, whatever its size. */
struct object *object_around(const void *p)
{
	uintptr_t at = (uintptr_t)p;

	return find((const void *)(at & ~7UL), 1U << (at & 7), true);
}

/* A lock's object; p is its address. */
struct object *lock_at(const void *p)
{
	return find((const void *)((uintptr_t)p | LOCK_KEY), 1, false);
}
