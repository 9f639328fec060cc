/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_LIST_H
#define PROVE_SHIM_LINUX_LIST_H

#include <linux/compiler.h>
#include <linux/kernel.h>
#include <linux/types.h>

/* Marked accesses are where the kernel has them; the others are plain. */
#define LIST_POISON1	((void *)0x100)
#define LIST_POISON2	((void *)0x122)

#define LIST_HEAD_INIT(name)	{ &(name), &(name) }
#define LIST_HEAD(name)		struct list_head name = LIST_HEAD_INIT(name)

static inline void INIT_LIST_HEAD(struct list_head *list)
{
	WRITE_ONCE(list->next, list);
	list->prev = list;
}

static inline void __list_add(struct list_head *new, struct list_head *prev,
			      struct list_head *next)
{
	next->prev = new;
	new->next = next;
	new->prev = prev;
	WRITE_ONCE(prev->next, new);
}

static inline void list_add(struct list_head *new, struct list_head *head)
{
	__list_add(new, head, head->next);
}

static inline void list_add_tail(struct list_head *new, struct list_head *head)
{
	__list_add(new, head->prev, head);
}

static inline void __list_del(struct list_head *prev, struct list_head *next)
{
	next->prev = prev;
	WRITE_ONCE(prev->next, next);
}

static inline void list_del(struct list_head *entry)
{
	__list_del(entry->prev, entry->next);
	entry->next = LIST_POISON1;
	entry->prev = LIST_POISON2;
}

static inline void list_del_init(struct list_head *entry)
{
	__list_del(entry->prev, entry->next);
	INIT_LIST_HEAD(entry);
}

static inline void list_replace(struct list_head *old, struct list_head *new)
{
	new->next = old->next;
	new->next->prev = new;
	new->prev = old->prev;
	new->prev->next = new;
}

static inline void list_replace_init(struct list_head *old, struct list_head *new)
{
	list_replace(old, new);
	INIT_LIST_HEAD(old);
}

static inline void list_move(struct list_head *entry, struct list_head *head)
{
	__list_del(entry->prev, entry->next);
	list_add(entry, head);
}

static inline void list_move_tail(struct list_head *entry, struct list_head *head)
{
	__list_del(entry->prev, entry->next);
	list_add_tail(entry, head);
}

static inline bool list_empty(const struct list_head *head)
{
	return READ_ONCE(head->next) == head;
}

/* The other half of list_empty_careful(). */
static inline void list_del_init_careful(struct list_head *entry)
{
	__list_del(entry->prev, entry->next);
	WRITE_ONCE(entry->prev, entry);
	smp_store_release(&entry->next, entry);
}

static inline bool list_empty_careful(const struct list_head *head)
{
	struct list_head *next = smp_load_acquire(&head->next);

	return next == head && next == READ_ONCE(head->prev);
}

static inline bool list_is_singular(const struct list_head *head)
{
	return !list_empty(head) && head->next == head->prev;
}

static inline bool list_is_last(const struct list_head *entry,
				const struct list_head *head)
{
	return entry->next == head;
}

static inline void __list_splice(const struct list_head *list,
				 struct list_head *prev, struct list_head *next)
{
	struct list_head *first = list->next;
	struct list_head *last = list->prev;

	first->prev = prev;
	prev->next = first;
	last->next = next;
	next->prev = last;
}

static inline void list_splice(const struct list_head *list,
			       struct list_head *head)
{
	if (!list_empty(list))
		__list_splice(list, head, head->next);
}

static inline void list_splice_tail(const struct list_head *list,
				    struct list_head *head)
{
	if (!list_empty(list))
		__list_splice(list, head->prev, head);
}

static inline void list_splice_init(struct list_head *list, struct list_head *head)
{
	list_splice(list, head);
	INIT_LIST_HEAD(list);
}

static inline void list_splice_tail_init(struct list_head *list,
					 struct list_head *head)
{
	list_splice_tail(list, head);
	INIT_LIST_HEAD(list);
}

#define list_entry(pointer, type, member)	container_of(pointer, type, member)
#define list_first_entry(head, type, member)				\
	list_entry((head)->next, type, member)
#define list_last_entry(head, type, member)				\
	list_entry((head)->prev, type, member)
#define list_first_entry_or_null(head, type, member) ({			\
	struct list_head *__head = (head);				\
	struct list_head *__first = READ_ONCE(__head->next);		\
	__first != __head ? list_entry(__first, type, member) : NULL; })
#define list_next_entry(at, member)					\
	list_entry((at)->member.next, typeof(*(at)), member)
#define list_prev_entry(at, member)					\
	list_entry((at)->member.prev, typeof(*(at)), member)
#define list_entry_is_head(at, head, member)	(&(at)->member == (head))

#define list_for_each(at, head)						\
	for (at = (head)->next; at != (head); at = at->next)
#define list_for_each_safe(at, after, head)				\
	for (at = (head)->next, after = at->next; at != (head);		\
	     at = after, after = at->next)
#define list_for_each_entry(at, head, member)				\
	for (at = list_first_entry(head, typeof(*at), member);		\
	     !list_entry_is_head(at, head, member);			\
	     at = list_next_entry(at, member))
#define list_for_each_entry_reverse(at, head, member)			\
	for (at = list_last_entry(head, typeof(*at), member);		\
	     !list_entry_is_head(at, head, member);			\
	     at = list_prev_entry(at, member))
#define list_for_each_entry_continue(at, head, member)			\
	for (at = list_next_entry(at, member);				\
	     !list_entry_is_head(at, head, member);			\
	     at = list_next_entry(at, member))
#define list_for_each_entry_from(at, head, member)			\
	for (; !list_entry_is_head(at, head, member);			\
	     at = list_next_entry(at, member))
#define list_for_each_entry_safe(at, after, head, member)		\
	for (at = list_first_entry(head, typeof(*at), member),		\
	     after = list_next_entry(at, member);			\
	     !list_entry_is_head(at, head, member);			\
	     at = after, after = list_next_entry(after, member))
#define list_for_each_entry_safe_from(at, after, head, member)		\
	for (after = list_next_entry(at, member);			\
	     !list_entry_is_head(at, head, member);			\
	     at = after, after = list_next_entry(after, member))

#endif /* PROVE_SHIM_LINUX_LIST_H */
