// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * RCU. A read section is held by a thread and ends at its outermost unlock. A grace
 * period begins with the call, waits for the threads that are inside at that moment,
 * and ends with the last of them, at once: memory is freed as early as it may be, so a
 * reader that comes too late, or stays too long, finds it freed.
 *
 * Sections read one word at their beginning and at their end, and the beginning of a
 * grace period updates it. So the order of sections and grace periods is explored, and
 * that of sections among themselves is not. A thread that sleeps or ends in a section
 * has a fault.
 *
 * The end of a section drains the thread's stores, which a CPU does only when it is
 * asked for a grace period: a barrier that is missing right there is not found.
 */
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "shim.h"

static u32 rcu_periods;

/* Of each thread: its sections so far, their release; and how deep it is in one. */
static u32 rcu_sections[SHIM_TASKS];
static bool rcu_was_inside[SHIM_TASKS];
static unsigned int rcu_nested[SHIM_TASKS];

/**
 * struct grace - a grace period
 * @due: it has ended; the object of those that wait for it
 * @waits: threads whose sections it waits for, a bit each
 * @before: threads whose sections come before its end, and the one that began it
 * @memory: to be freed then, or NULL
 * @head: to be passed to its function then, or NULL
 */
struct grace {
	u32 due;
	u32 waits;
	u32 before;
	void *memory;
	struct rcu_head *head;
};

/* Each thread has places of its own, as in timer.c. */
#define GRACES		16

static struct grace graces[SHIM_TASKS][GRACES];
static unsigned int graces_used[SHIM_TASKS];

/* Grace periods that wait for a thread. */
static unsigned int graces_waiting;

/* Callbacks that were given and have not run. */
static u32 rcu_callbacks;

void rcu_read_lock(void)
{
	const int slot = shim_slot();

	if (!rcu_nested[slot])
		pv_load(&rcu_periods, sizeof(rcu_periods), PV_FULL);
	rcu_nested[slot]++;
	pv_atomic(1);
}

bool rcu_read_lock_held(void)
{
	return rcu_nested[shim_slot()];
}

/* Everything that a thread did in its sections comes first. */
static void acquire_sections(int slot)
{
	pv_load(&rcu_sections[slot], sizeof(rcu_sections[slot]), PV_FULL);
}

static void release_sections(int slot)
{
	pv_update(&rcu_sections[slot], sizeof(rcu_sections[slot]), PV_RELEASE);
	rcu_sections[slot]++;
}

/* Everything that the readers did, and the caller before, comes first. */
static void grace_acquire(const struct grace *grace)
{
	int i;

	for (i = 0; i < SHIM_TASKS; i++)
		if (grace->before & BIT(i))
			acquire_sections(i);
}

static void grace_end(struct grace *grace)
{
	if (grace->memory) {
		grace_acquire(grace);
		pv_free(grace->memory);
		return;
	}
	pv_update(&grace->due, sizeof(grace->due), PV_FULL);
	grace->due = 1;
}

/* The section of a thread has ended: one grace period that ends with it, or NULL. */
static struct grace *grace_ended_by(int slot)
{
	unsigned int i, k;

	for (i = 0; graces_waiting && i < SHIM_TASKS; i++) {
		for (k = 0; k < graces_used[i]; k++) {
			struct grace *grace = &graces[i][k];

			if (!(grace->waits & BIT(slot)))
				continue;
			grace->waits &= ~BIT(slot);
			if (!grace->waits) {
				graces_waiting--;
				return grace;
			}
		}
	}
	return NULL;
}

void rcu_read_unlock(void)
{
	const int slot = shim_slot();
	struct grace *grace;

	if (!rcu_nested[slot])
		pv_fail(PV_NOT_HELD, "rcu_read_unlock() without rcu_read_lock()");
	pv_atomic(-1);
	if (rcu_nested[slot] > 1) {
		rcu_nested[slot]--;
		return;
	}
	release_sections(slot);
	pv_load(&rcu_periods, sizeof(rcu_periods), PV_NEWEST);
	rcu_was_inside[slot] = true;
	rcu_nested[slot] = 0;
	while ((grace = grace_ended_by(slot)))
		grace_end(grace);
}

static struct grace *grace_new(void *memory, struct rcu_head *head)
{
	const int slot = shim_slot();
	struct grace *grace;

	if (graces_used[slot] == GRACES)
		pv_fail(PV_LIMIT, "one thread begins more than %d grace periods", GRACES);
	grace = &graces[slot][graces_used[slot]++];
	*grace = (struct grace) { .before = BIT(slot), .memory = memory, .head = head };
	return grace;
}

/* In one step: sections that have begun and not ended are waited for. */
static struct grace *grace_begin(void *memory, struct rcu_head *head)
{
	struct grace *grace = grace_new(memory, head);
	int i;

	release_sections(shim_slot());
	pv_update(&rcu_periods, sizeof(rcu_periods), PV_FULL);
	rcu_periods++;
	for (i = 0; i < SHIM_TASKS; i++) {
		if (rcu_nested[i])
			grace->waits |= BIT(i);
		if (rcu_nested[i] || rcu_was_inside[i])
			grace->before |= BIT(i);
	}
	graces_waiting += grace->waits != 0;
	return grace;
}

void shim_kfree_rcu(void *memory)
{
	struct grace *grace;

	if (!memory)
		return;
	if (pv_self() == PV_ALONE) {
		pv_free(memory);	/* no thread is left that reads */
		return;
	}
	grace = grace_begin(memory, NULL);
	if (!grace->waits)
		grace_end(grace);
}

static bool grace_due(void *arg)
{
	return ((struct grace *)arg)->due;
}

void synchronize_rcu(void)
{
	struct grace *grace;

	shim_might_sleep("synchronize_rcu()");
	grace = grace_begin(NULL, NULL);
	if (grace->waits)
		pv_block(&grace->due, grace_due, grace, "synchronize_rcu()");
	grace_acquire(grace);
}

static void callback_run(void *arg)
{
	struct grace *grace = arg;

	grace_acquire(grace);
	pv_plain_read(grace->head, sizeof(*grace->head), CALLER);
	grace->head->func(grace->head);
	pv_update(&rcu_callbacks, sizeof(rcu_callbacks), PV_FULL);
	rcu_callbacks--;
}

void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head))
{
	struct grace *grace;

	head->func = func;
	pv_update(&rcu_callbacks, sizeof(rcu_callbacks), PV_FULL);
	rcu_callbacks++;
	grace = grace_begin(NULL, head);
	if (!grace->waits)
		grace_end(grace);
	pv_spawn("rcu callback", callback_run, grace, PROVE_IRQ, grace_due, &grace->due);
}

static bool callbacks_over(void *arg)
{
	return !rcu_callbacks;
}

void rcu_barrier(void)
{
	pv_block(&rcu_callbacks, callbacks_over, NULL, "rcu_barrier()");
}
