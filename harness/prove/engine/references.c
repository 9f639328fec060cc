// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Counts of references.
 *
 * Two threads that take and drop references to the same object do not notice in which
 * order, as long as the count stays above zero in every order.  Then their updates are
 * independent, which saves most of the executions of some scenarios.
 *
 * The scenario names such counts.  It promises that what an addition returns is compared
 * with zero only.  What follows is checked at each addition.  The count consists of what
 * each thread has added so far, and of the rest.  If the rest is above zero, and no
 * thread drops more than it has taken, then the count stays above zero in every order of
 * these additions.  Any other update is a write, and depends on all of them: one that
 * drops what another thread has taken, or that ends the object, or that fails because
 * the object has ended.
 *
 * An addition releases what its thread has done before, but acquires nothing: in another
 * order, the other thread's addition comes later.  This is for sequential consistency only.
 */
#include "internal.h"

void prove_references(const volatile void *count)
{
	if (world.phase != PHASE_SETUP)
		return;
	if (world.nreferences == MAX_REFERENCES)
		pv_fail(PV_LIMIT, "more than %d counts of references", MAX_REFERENCES);
	world.references[world.nreferences++].at = count;
}

static struct references *references_at(const volatile void *p)
{
	for (int i = 0; i < world.nreferences; i++)
		if (world.references[i].at == p)
			return &world.references[i];
	return NULL;
}

/* The running thread is about to add n. */
bool stays_above_zero(const volatile void *p, int size, int64_t n)
{
	const struct references *r = references_at(p);

	if (!r || engine.options.memory != MEMORY_SC)
		return false;
	return signed_value_at(p, size) - r->sum > 0 && r->of[world.running] + n >= 0;
}

void add_references(const volatile void *p, int64_t n)
{
	struct references *r = references_at(p);

	r->of[world.running] += n;
	r->sum += n;
}
