/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_WAIT_H
#define PROVE_SHIM_LINUX_WAIT_H

#include <linux/list.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/spinlock.h>

struct wait_queue_entry;

typedef int (*wait_queue_func_t)(struct wait_queue_entry *entry,
				 unsigned int mode, int flags, void *key);

#define WQ_FLAG_EXCLUSIVE	0x01
#define WQ_FLAG_PRIORITY	0x10

typedef struct wait_queue_entry {
	unsigned int flags;
	void *private;
	wait_queue_func_t func;
	struct list_head entry;
} wait_queue_entry_t;

typedef struct wait_queue_head {
	spinlock_t lock;
	struct list_head head;
} wait_queue_head_t;

#define __WAITQUEUE_INITIALIZER(name, task) {				\
	.private = task, .func = default_wake_function,			\
	.entry = { NULL, NULL } }
#define DECLARE_WAITQUEUE(name, task)					\
	struct wait_queue_entry name = __WAITQUEUE_INITIALIZER(name, task)
#define __WAIT_QUEUE_HEAD_INITIALIZER(name) {				\
	.lock = __SPIN_LOCK_UNLOCKED(name.lock),			\
	.head = LIST_HEAD_INIT((name).head) }
#define DECLARE_WAIT_QUEUE_HEAD(name)					\
	struct wait_queue_head name = __WAIT_QUEUE_HEAD_INITIALIZER(name)

#define DEFINE_WAIT_FUNC(name, function)				\
	struct wait_queue_entry name = {				\
		.private = current, .func = function,			\
		.entry = LIST_HEAD_INIT((name).entry) }
#define DEFINE_WAIT(name)	DEFINE_WAIT_FUNC(name, autoremove_wake_function)

#define init_waitqueue_head(wq)						\
	do {								\
		spin_lock_init(&(wq)->lock);				\
		INIT_LIST_HEAD(&(wq)->head);				\
	} while (0)

static inline void init_waitqueue_func_entry(struct wait_queue_entry *entry,
					     wait_queue_func_t func)
{
	entry->flags = 0;
	entry->private = NULL;
	entry->func = func;
}

static inline void __add_wait_queue(struct wait_queue_head *wq,
				    struct wait_queue_entry *entry)
{
	struct list_head *head = &wq->head;
	struct wait_queue_entry *at;

	/* After those with priority. */
	list_for_each_entry(at, &wq->head, entry) {
		if (!(at->flags & WQ_FLAG_PRIORITY))
			break;
		head = &at->entry;
	}
	list_add(&entry->entry, head);
}

static inline void __add_wait_queue_entry_tail(struct wait_queue_head *wq,
					       struct wait_queue_entry *entry)
{
	list_add_tail(&entry->entry, &wq->head);
}

static inline void __remove_wait_queue(struct wait_queue_head *wq,
				       struct wait_queue_entry *entry)
{
	list_del(&entry->entry);
}

static inline bool waitqueue_active(struct wait_queue_head *wq)
{
	return !list_empty(&wq->head);
}

/* Pairs with the barrier of set_current_state(). */
static inline bool wq_has_sleeper(struct wait_queue_head *wq)
{
	smp_mb();
	return waitqueue_active(wq);
}

static inline bool wq_has_single_sleeper(struct wait_queue_head *wq)
{
	return list_is_singular(&wq->head);
}

int default_wake_function(struct wait_queue_entry *entry, unsigned int mode,
			  int flags, void *key);
int autoremove_wake_function(struct wait_queue_entry *entry, unsigned int mode,
			     int flags, void *key);
void add_wait_queue(struct wait_queue_head *wq, struct wait_queue_entry *entry);
void add_wait_queue_exclusive(struct wait_queue_head *wq,
			      struct wait_queue_entry *entry);
void remove_wait_queue(struct wait_queue_head *wq, struct wait_queue_entry *entry);
void __wake_up(struct wait_queue_head *wq, unsigned int mode, int n, void *key);
void __wake_up_locked(struct wait_queue_head *wq, unsigned int mode, int n);
void __wake_up_locked_key(struct wait_queue_head *wq, unsigned int mode, void *key);
void prepare_to_wait(struct wait_queue_head *wq, struct wait_queue_entry *entry,
		     int state);
bool prepare_to_wait_exclusive(struct wait_queue_head *wq,
			       struct wait_queue_entry *entry, int state);
long prepare_to_wait_event(struct wait_queue_head *wq,
			   struct wait_queue_entry *entry, int state);
void finish_wait(struct wait_queue_head *wq, struct wait_queue_entry *entry);
void init_wait_entry(struct wait_queue_entry *entry, int flags);

static inline void init_wait(struct wait_queue_entry *entry)
{
	init_wait_entry(entry, 0);
}

#define poll_to_key(events)	((void *)(uintptr_t)(events))
#define key_to_poll(key)	((__poll_t)(uintptr_t)(key))

#define wake_up(wq)			__wake_up(wq, TASK_NORMAL, 1, NULL)
#define wake_up_nr(wq, n)		__wake_up(wq, TASK_NORMAL, n, NULL)
#define wake_up_all(wq)			__wake_up(wq, TASK_NORMAL, 0, NULL)
#define wake_up_interruptible(wq)	__wake_up(wq, TASK_INTERRUPTIBLE, 1, NULL)
#define wake_up_interruptible_nr(wq, n)	__wake_up(wq, TASK_INTERRUPTIBLE, n, NULL)
#define wake_up_interruptible_all(wq)	__wake_up(wq, TASK_INTERRUPTIBLE, 0, NULL)
/* "sync" is a hint to the scheduler about who runs next. */
#define wake_up_sync(wq)		wake_up(wq)
#define wake_up_interruptible_sync(wq)	wake_up_interruptible(wq)
#define wake_up_interruptible_sync_poll(wq, events)			\
	wake_up_interruptible_poll(wq, events)
#define wake_up_locked(wq)		__wake_up_locked(wq, TASK_NORMAL, 1)
#define wake_up_all_locked(wq)		__wake_up_locked(wq, TASK_NORMAL, 0)
#define wake_up_poll(wq, events)					\
	__wake_up(wq, TASK_NORMAL, 1, poll_to_key(events))
#define wake_up_interruptible_poll(wq, events)				\
	__wake_up(wq, TASK_INTERRUPTIBLE, 1, poll_to_key(events))

/* Sleep until the condition holds; a signal ends it in the states that it may. */
#define ___wait_event(wq, condition, state, flags, pause) ({		\
	struct wait_queue_entry __entry;				\
	long __result = 0;						\
									\
	init_wait_entry(&__entry, flags);				\
	for (;;) {							\
		long __signal = prepare_to_wait_event(&(wq), &__entry, state); \
									\
		if (condition)						\
			break;						\
		if (((state) & (TASK_INTERRUPTIBLE | TASK_WAKEKILL)) &&	\
		    __signal) {						\
			__result = __signal;				\
			break;						\
		}							\
		pause;							\
	}								\
	finish_wait(&(wq), &__entry);					\
	__result; })

#define wait_event(wq, condition)					\
	do {								\
		might_sleep();						\
		if (!(condition))					\
			___wait_event(wq, condition, TASK_UNINTERRUPTIBLE, 0, \
				      schedule());			\
	} while (0)
#define wait_event_interruptible(wq, condition) ({			\
	int __ret = 0;							\
	might_sleep();							\
	if (!(condition))						\
		__ret = ___wait_event(wq, condition, TASK_INTERRUPTIBLE, 0, \
				      schedule());			\
	__ret; })
#define wait_event_killable(wq, condition) ({				\
	int __ret = 0;							\
	might_sleep();							\
	if (!(condition))						\
		__ret = ___wait_event(wq, condition, TASK_KILLABLE, 0,	\
				      schedule());			\
	__ret; })
#define wait_event_interruptible_exclusive(wq, condition) ({		\
	int __ret = 0;							\
	might_sleep();							\
	if (!(condition))						\
		__ret = ___wait_event(wq, condition, TASK_INTERRUPTIBLE, \
				      WQ_FLAG_EXCLUSIVE, schedule());	\
	__ret; })
/* The lock is released while the thread sleeps. */
#define wait_event_lock_irq(wq, condition, lock)			\
	do {								\
		if (!(condition))					\
			___wait_event(wq, condition, TASK_UNINTERRUPTIBLE, 0, \
				      spin_unlock_irq(&(lock)); schedule(); \
				      spin_lock_irq(&(lock)));		\
	} while (0)
#define wait_event_timeout(wq, condition, ticks) ({			\
	long __left = (ticks);						\
	might_sleep();							\
	if (!(condition))						\
		___wait_event(wq, (condition) || !__left,		\
			      TASK_UNINTERRUPTIBLE, 0,			\
			      __left = schedule_timeout(__left));	\
	(condition) && !__left ? 1 : __left; })
#define wait_event_interruptible_timeout(wq, condition, ticks) ({	\
	long __left = (ticks), __ret = 0;				\
	might_sleep();							\
	if (!(condition))						\
		__ret = ___wait_event(wq, (condition) || !__left,	\
				      TASK_INTERRUPTIBLE, 0,		\
				      __left = schedule_timeout(__left)); \
	__ret ? __ret : (condition) && !__left ? 1 : __left; })

#endif /* PROVE_SHIM_LINUX_WAIT_H */
