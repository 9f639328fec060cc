/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_MUTEX_H
#define PROVE_SHIM_LINUX_MUTEX_H

#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/types.h>

struct mutex {
	struct lockdep_map dep_map;
};

#define __MUTEX_INITIALIZER(name)	{ SHIM_LOCKDEP_MAP(#name, SHIM_MUTEX) }
#define DEFINE_MUTEX(name)						\
	struct mutex name = { SHIM_LOCKDEP_MAP(#name, SHIM_MUTEX) }

#define mutex_init(mutex)						\
	do {								\
		static const struct pv_class __class =			\
			SHIM_CLASS(#mutex, SHIM_MUTEX);			\
		shim_lock_init(&(mutex)->dep_map, &__class);		\
	} while (0)

void shim_mutex_lock(struct lockdep_map *map, int subclass);
bool shim_mutex_trylock(struct lockdep_map *map);
void shim_mutex_unlock(struct lockdep_map *map);

#define mutex_lock(mutex)		shim_mutex_lock(&(mutex)->dep_map, 0)
#define mutex_lock_nested(mutex, n)	shim_mutex_lock(&(mutex)->dep_map, n)
#define mutex_trylock(mutex)		shim_mutex_trylock(&(mutex)->dep_map)
#define mutex_unlock(mutex)		shim_mutex_unlock(&(mutex)->dep_map)
#define mutex_is_locked(mutex)		shim_lock_is_locked(&(mutex)->dep_map)
#define mutex_destroy(mutex)		((void)(mutex))

#endif /* PROVE_SHIM_LINUX_MUTEX_H */
