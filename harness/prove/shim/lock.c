// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Spinlocks, mutexes, and interrupts that are off. A spinlock's unlock gives
 * everything before it to the next holder; the engine watches order and context.
 */
#include <linux/bug.h>
#include <linux/irqflags.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>

#include "shim.h"

void shim_lock_init(struct lockdep_map *map, const struct pv_class *class)
{
	map->class = class;
}

/* A lock in zeroed memory works, too; such locks are one class. */
static const struct pv_class lock_unnamed = { .name = "a lock without initialisation" };

static const struct pv_class *lock_class(const struct lockdep_map *map)
{
	return map->class ? map->class : &lock_unnamed;
}

void shim_spin_lock(struct lockdep_map *map, int subclass)
{
	pv_lock(map, lock_class(map), subclass);
}

bool shim_spin_trylock(struct lockdep_map *map)
{
	return pv_trylock(map, lock_class(map), 0);
}

void shim_spin_unlock(struct lockdep_map *map)
{
	pv_unlock(map);
}

void shim_mutex_lock(struct lockdep_map *map, int subclass)
{
	shim_might_sleep("mutex_lock()");
	pv_lock(map, lock_class(map), subclass);
}

bool shim_mutex_trylock(struct lockdep_map *map)
{
	return pv_trylock(map, lock_class(map), 0);
}

void shim_mutex_unlock(struct lockdep_map *map)
{
	pv_unlock(map);
}

bool shim_lock_is_held(const struct lockdep_map *map)
{
	return pv_holds(map);
}

/* As another thread might see it: taken or not, at this moment. */
bool shim_lock_is_locked(struct lockdep_map *map)
{
	if (!pv_trylock(map, lock_class(map), 0))
		return true;
	pv_unlock(map);
	return false;
}

void shim_assert_held(bool held, const char *what)
{
	if (!held)
		pv_fail(PV_NOT_HELD, "%s", what);
}

/* No step: interrupts are threads, and whether one may run here is for the engine. */
unsigned long shim_irq_save(void)
{
	const unsigned long flags = pv_irqs_are_off();

	pv_irqs_off(1);
	return flags;
}

void shim_irq_restore(unsigned long flags)
{
	pv_irqs_off(-1);
}

void shim_irq_enable(void)
{
	pv_irqs_off(-1);
	if (pv_irqs_are_off())
		pv_fail(PV_IRQ_UNSAFE,
			"interrupts are enabled inside a section that has them off");
}

bool irqs_disabled(void)
{
	return pv_irqs_are_off();
}

void shim_warn(const char *condition)
{
	pv_fail(PV_WARN, "%s", condition);
}

void shim_bug(const char *condition)
{
	pv_fail(PV_BUG, "%s", condition);
}
