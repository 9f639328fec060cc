/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_LOCKDEP_H
#define PROVE_SHIM_LINUX_LOCKDEP_H

#include <linux/compiler.h>
#include <linux/types.h>

/**
 * struct lockdep_map - what every lock begins with
 * @class: where it was initialised; NULL: never
 */
struct lockdep_map {
	const struct pv_class *class;
};

#define SHIM_SPIN			0
#define SHIM_MUTEX			1
#define SHIM_CLASS(text, may_sleep)	{ .name = text, .sleeps = may_sleep }
#define SHIM_LOCKDEP_MAP(text, may_sleep)				\
	{ .class = &(const struct pv_class)SHIM_CLASS(text, may_sleep) }

void shim_lock_init(struct lockdep_map *map, const struct pv_class *class);
bool shim_lock_is_locked(struct lockdep_map *map);
bool shim_lock_is_held(const struct lockdep_map *map);
void shim_assert_held(bool held, const char *what);

#define lockdep_is_held(lock)		shim_lock_is_held(&(lock)->dep_map)
#define lockdep_assert_held(lock)					\
	shim_assert_held(lockdep_is_held(lock), "lock not held: " #lock)
#define lockdep_assert_not_held(lock)					\
	shim_assert_held(!lockdep_is_held(lock), "lock held: " #lock)
#define lockdep_assert(condition)	\
	shim_assert_held(condition, "assertion failed: " #condition)

#endif /* PROVE_SHIM_LINUX_LOCKDEP_H */
