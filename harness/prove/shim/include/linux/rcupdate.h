/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_RCUPDATE_H
#define PROVE_SHIM_LINUX_RCUPDATE_H

#include <linux/compiler.h>
#include <linux/types.h>

/*
 * A grace period ends at the first moment at which it may: memory is freed by the
 * call itself, or by the last reader that was inside when it was called.
 */
void rcu_read_lock(void);
void rcu_read_unlock(void);
bool rcu_read_lock_held(void);
void synchronize_rcu(void);
void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head));
void rcu_barrier(void);
void shim_kfree_rcu(void *memory);

#define kfree_rcu(pointer, member)					\
	((void)&(pointer)->member, shim_kfree_rcu(pointer))
#define kvfree_rcu(pointer, member)	kfree_rcu(pointer, member)
#define kfree_rcu_mightsleep(pointer)	shim_kfree_rcu(pointer)

/* An address dependency orders as an acquire where it is used. */
#define rcu_dereference(pointer)	smp_load_acquire(&(pointer))
#define rcu_dereference_protected(pointer, condition)	(pointer)
#define rcu_access_pointer(pointer)	READ_ONCE(pointer)
#define rcu_assign_pointer(pointer, new)				\
	smp_store_release(&(pointer), new)
#define RCU_INIT_POINTER(pointer, new)	WRITE_ONCE(pointer, new)

#endif /* PROVE_SHIM_LINUX_RCUPDATE_H */
