/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_RCULIST_H
#define PROVE_SHIM_LINUX_RCULIST_H

#include <linux/list.h>
#include <linux/rcupdate.h>

static inline void __list_add_rcu(struct list_head *new, struct list_head *prev,
				  struct list_head *next)
{
	new->next = next;
	new->prev = prev;
	rcu_assign_pointer(prev->next, new);
	next->prev = new;
}

static inline void list_add_rcu(struct list_head *new, struct list_head *head)
{
	__list_add_rcu(new, head, head->next);
}

static inline void list_add_tail_rcu(struct list_head *new, struct list_head *head)
{
	__list_add_rcu(new, head->prev, head);
}

/* Readers may stand on the entry: its next stays. */
static inline void list_del_rcu(struct list_head *entry)
{
	__list_del(entry->prev, entry->next);
	entry->prev = LIST_POISON2;
}

#define list_entry_rcu(pointer, type, member)				\
	container_of(READ_ONCE(pointer), type, member)
#define list_for_each_entry_rcu(at, head, member, ...)			\
	for (at = list_entry_rcu((head)->next, typeof(*at), member);	\
	     !list_entry_is_head(at, head, member);			\
	     at = list_entry_rcu((at)->member.next, typeof(*at), member))

#endif /* PROVE_SHIM_LINUX_RCULIST_H */
