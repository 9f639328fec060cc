// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Wait queues, by the kernel's algorithm: a wake-up walks the list under the queue's
 * lock, and ends at the last exclusive entry that it may wake.
 */
#include <linux/wait.h>

int default_wake_function(struct wait_queue_entry *entry, unsigned int mode,
			  int flags, void *key)
{
	return shim_try_to_wake_up(entry->private, mode);
}

int autoremove_wake_function(struct wait_queue_entry *entry, unsigned int mode,
			     int flags, void *key)
{
	int woken = default_wake_function(entry, mode, flags, key);

	if (woken)
		list_del_init_careful(&entry->entry);
	return woken;
}

static void wake_up_common(struct wait_queue_head *wq, unsigned int mode, int n,
			   void *key)
{
	struct wait_queue_entry *at, *next;
	unsigned int flags;
	int woken;

	lockdep_assert_held(&wq->lock);
	at = list_first_entry(&wq->head, struct wait_queue_entry, entry);
	list_for_each_entry_safe_from(at, next, &wq->head, entry) {
		flags = at->flags;
		woken = at->func(at, mode, 0, key);
		if (woken < 0)
			break;
		if (woken && (flags & WQ_FLAG_EXCLUSIVE) && !--n)
			break;
	}
}

void __wake_up_locked(struct wait_queue_head *wq, unsigned int mode, int n)
{
	wake_up_common(wq, mode, n, NULL);
}

void __wake_up_locked_key(struct wait_queue_head *wq, unsigned int mode, void *key)
{
	wake_up_common(wq, mode, 1, key);
}

void __wake_up(struct wait_queue_head *wq, unsigned int mode, int n, void *key)
{
	unsigned long flags;

	spin_lock_irqsave(&wq->lock, flags);
	wake_up_common(wq, mode, n, key);
	spin_unlock_irqrestore(&wq->lock, flags);
}

void add_wait_queue(struct wait_queue_head *wq, struct wait_queue_entry *entry)
{
	unsigned long flags;

	entry->flags &= ~WQ_FLAG_EXCLUSIVE;
	spin_lock_irqsave(&wq->lock, flags);
	__add_wait_queue(wq, entry);
	spin_unlock_irqrestore(&wq->lock, flags);
}

void add_wait_queue_exclusive(struct wait_queue_head *wq,
			      struct wait_queue_entry *entry)
{
	unsigned long flags;

	entry->flags |= WQ_FLAG_EXCLUSIVE;
	spin_lock_irqsave(&wq->lock, flags);
	__add_wait_queue_entry_tail(wq, entry);
	spin_unlock_irqrestore(&wq->lock, flags);
}

void remove_wait_queue(struct wait_queue_head *wq, struct wait_queue_entry *entry)
{
	unsigned long flags;

	spin_lock_irqsave(&wq->lock, flags);
	__remove_wait_queue(wq, entry);
	spin_unlock_irqrestore(&wq->lock, flags);
}

void init_wait_entry(struct wait_queue_entry *entry, int flags)
{
	entry->flags = flags;
	entry->private = current;
	entry->func = autoremove_wake_function;
	INIT_LIST_HEAD(&entry->entry);
}

/*
 * The state is set under the lock: its barrier comes after the entry is on the list.
 * The flags are, too. The kernel sets them before, which for an entry that is still on
 * the list writes what is there, and would be reported as a race with the waker's look.
 */
void prepare_to_wait(struct wait_queue_head *wq, struct wait_queue_entry *entry,
		     int state)
{
	unsigned long flags;

	spin_lock_irqsave(&wq->lock, flags);
	entry->flags &= ~WQ_FLAG_EXCLUSIVE;
	if (list_empty(&entry->entry))
		__add_wait_queue(wq, entry);
	set_current_state(state);
	spin_unlock_irqrestore(&wq->lock, flags);
}

bool prepare_to_wait_exclusive(struct wait_queue_head *wq,
			       struct wait_queue_entry *entry, int state)
{
	unsigned long flags;
	bool first = false;

	spin_lock_irqsave(&wq->lock, flags);
	entry->flags |= WQ_FLAG_EXCLUSIVE;
	if (list_empty(&entry->entry)) {
		first = list_empty(&wq->head);
		__add_wait_queue_entry_tail(wq, entry);
	}
	set_current_state(state);
	spin_unlock_irqrestore(&wq->lock, flags);
	return first;
}

/* A signal removes the entry, so that no exclusive wake-up is lost to this thread. */
long prepare_to_wait_event(struct wait_queue_head *wq,
			   struct wait_queue_entry *entry, int state)
{
	unsigned long flags;
	long ret = 0;

	spin_lock_irqsave(&wq->lock, flags);
	if (signal_pending_state(state, current)) {
		list_del_init(&entry->entry);
		ret = -ERESTARTSYS;
	} else {
		if (list_empty(&entry->entry)) {
			if (entry->flags & WQ_FLAG_EXCLUSIVE)
				__add_wait_queue_entry_tail(wq, entry);
			else
				__add_wait_queue(wq, entry);
		}
		set_current_state(state);
	}
	spin_unlock_irqrestore(&wq->lock, flags);
	return ret;
}

void finish_wait(struct wait_queue_head *wq, struct wait_queue_entry *entry)
{
	unsigned long flags;

	__set_current_state(TASK_RUNNING);
	if (list_empty_careful(&entry->entry))
		return;
	spin_lock_irqsave(&wq->lock, flags);
	list_del_init(&entry->entry);
	spin_unlock_irqrestore(&wq->lock, flags);
}
