/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_SPINLOCK_H
#define PROVE_SHIM_LINUX_SPINLOCK_H

#include <linux/atomic.h>
#include <linux/irqflags.h>
#include <linux/lockdep.h>
#include <linux/preempt.h>
#include <linux/types.h>

typedef struct spinlock {
	struct lockdep_map dep_map;
} spinlock_t;

typedef spinlock_t raw_spinlock_t;

#define __SPIN_LOCK_UNLOCKED(name)	{ SHIM_LOCKDEP_MAP(#name, SHIM_SPIN) }
#define DEFINE_SPINLOCK(name)						\
	spinlock_t name = { SHIM_LOCKDEP_MAP(#name, SHIM_SPIN) }
#define DEFINE_RAW_SPINLOCK(name)	DEFINE_SPINLOCK(name)

#define spin_lock_init(lock)						\
	do {								\
		static const struct pv_class __class =			\
			SHIM_CLASS(#lock, SHIM_SPIN);			\
		shim_lock_init(&(lock)->dep_map, &__class);		\
	} while (0)

void shim_spin_lock(struct lockdep_map *map, int subclass);
bool shim_spin_trylock(struct lockdep_map *map);
void shim_spin_unlock(struct lockdep_map *map);

#define spin_lock(lock)			shim_spin_lock(&(lock)->dep_map, 0)
#define spin_lock_nested(lock, n)	shim_spin_lock(&(lock)->dep_map, n)
#define spin_trylock(lock)		shim_spin_trylock(&(lock)->dep_map)
#define spin_unlock(lock)		shim_spin_unlock(&(lock)->dep_map)
#define spin_is_locked(lock)		shim_lock_is_locked(&(lock)->dep_map)

#define spin_lock_irqsave_nested(lock, flags, n)			\
	do {								\
		local_irq_save(flags);					\
		spin_lock_nested(lock, n);				\
	} while (0)
#define spin_lock_irqsave(lock, flags)	spin_lock_irqsave_nested(lock, flags, 0)
#define spin_unlock_irqrestore(lock, flags)				\
	do {								\
		spin_unlock(lock);					\
		local_irq_restore(flags);				\
	} while (0)
#define spin_lock_irq(lock)						\
	do {								\
		local_irq_disable();					\
		spin_lock(lock);					\
	} while (0)
#define spin_unlock_irq(lock)						\
	do {								\
		spin_unlock(lock);					\
		local_irq_enable();					\
	} while (0)

/* Softirqs are interrupts here. */
#define spin_lock_bh(lock)		spin_lock_irq(lock)
#define spin_unlock_bh(lock)		spin_unlock_irq(lock)

#define raw_spin_lock_init(lock)	spin_lock_init(lock)
#define raw_spin_lock(lock)		spin_lock(lock)
#define raw_spin_unlock(lock)		spin_unlock(lock)
#define raw_spin_lock_irq(lock)		spin_lock_irq(lock)
#define raw_spin_unlock_irq(lock)	spin_unlock_irq(lock)
#define raw_spin_lock_irqsave(lock, flags)	spin_lock_irqsave(lock, flags)
#define raw_spin_unlock_irqrestore(lock, flags)				\
	spin_unlock_irqrestore(lock, flags)

#endif /* PROVE_SHIM_LINUX_SPINLOCK_H */
