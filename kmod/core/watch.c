// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Readiness for descriptors. A watch answers poll(2) for an object, for as long as
 * the object is open, and outlives the object.
 *
 * DOC: Why no poll(2) sleeps on a ready object
 *
 *	publisher				poller
 *	---------				------
 *						poll_wait(): on the watch's queue
 *	store, nready + 1
 *	lock queue; lock watch; wake		lock watch; nready is still 0
 *						sleeps: is woken, looks again
 *
 * No thread clears anything: readability is the object's state at that moment. So
 * one reader cannot take away the readiness that another one waits for.
 */
#include <linux/kref.h>
#include <linux/poll.h>
#include <linux/slab.h>

#include "core.h"

/**
 * struct kfi_watch - the readiness of an object, for descriptors
 * @ref: one for the object, and one for each descriptor
 * @head: threads that poll; @head.lock protects @queue
 * @queue: the object's queue; NULL once the object is closed; @head.lock
 */
struct kfi_watch {
	struct kref ref;
	wait_queue_head_t head;
	struct kfi_waitq *queue;
};

static void kfi_watch_free(struct kref *ref)
{
	kfree(container_of(ref, struct kfi_watch, ref));
}

static struct kfi_watch *kfi_watch_new(struct kfi_waitq *q)
{
	struct kfi_watch *watch = kzalloc(sizeof(*watch), GFP_KERNEL_ACCOUNT);

	if (!watch)
		return NULL;
	kref_init(&watch->ref);
	init_waitqueue_head(&watch->head);
	watch->queue = q;
	return watch;
}

/**
 * kfi_watch_get() - watch an object
 * @fid: a wait set, CQ, EQ, counter, completion channel or profile, kept open by
 *	 the caller
 *
 * Context: process, may sleep; takes the queue's lock.
 * Return: with a reference that kfi_watch_put() drops; NULL: no memory.
 */
struct kfi_watch *kfi_watch_get(struct kfid *fid)
{
	struct kfi_waitq *q = kfi_fid_queue(fid);
	struct kfi_watch *watch, *fresh = kfi_watch_new(q);

	if (!fresh)
		return NULL;
	spin_lock_irq(&q->head.lock);
	watch = q->watch;
	if (!watch) {
		watch = fresh;
		fresh = NULL;
		/* Publishers look without the lock. */
		WRITE_ONCE(q->watch, watch);
	}
	kref_get(&watch->ref);
	spin_unlock_irq(&q->head.lock);
	kfree(fresh);
	return watch;
}
EXPORT_SYMBOL_GPL(kfi_watch_get);

/**
 * kfi_watch_put() - stop watching
 * @watch: from kfi_watch_get()
 *
 * Context: any; takes no lock.
 */
void kfi_watch_put(struct kfi_watch *watch)
{
	kref_put(&watch->ref, kfi_watch_free);
}
EXPORT_SYMBOL_GPL(kfi_watch_put);

/**
 * kfi_watch_poll() - file_operations.poll of a descriptor
 * @watch: the descriptor's watch
 * @file: the descriptor's
 * @wait: as given to the poll method
 *
 * Context: process, may sleep (in poll_wait()); takes @watch->head.lock.
 * Return: EPOLLIN exactly while the object is ready; EPOLLERR and EPOLLHUP once
 * it is closed, or its device (for a wait set: that of every member) is gone.
 */
__poll_t kfi_watch_poll(struct kfi_watch *watch, struct file *file,
			struct poll_table_struct *wait)
{
	__poll_t mask = EPOLLERR | EPOLLHUP;
	struct kfi_waitq *q;

	poll_wait(file, &watch->head, wait);
	spin_lock_irq(&watch->head.lock);
	q = watch->queue;
	if (q) {
		mask = READ_ONCE(q->dead) ? mask : 0;
		if (atomic_read(&q->nready) > 0)
			mask |= EPOLLIN | EPOLLRDNORM;
	}
	spin_unlock_irq(&watch->head.lock);
	return mask;
}
EXPORT_SYMBOL_GPL(kfi_watch_poll);

/*
 * All descriptors of an object share the queue, so EPOLLEXCLUSIVE on one of them
 * must not keep the wake-up from the others.
 */
static void kfi_watch_wake_all(struct kfi_watch *watch, __poll_t events)
{
	__wake_up(&watch->head, TASK_NORMAL, 0, poll_to_key(events));
}

/**
 * kfi_watch_wake() - wake the pollers after a publication
 * @q: the object's queue
 *
 * Context: any; the caller holds @q->head.lock; takes the watch's head.lock.
 */
void kfi_watch_wake(struct kfi_waitq *q)
{
	/* A poller is woken only by the events that it asked for, and by hang-ups. */
	const __poll_t end = q->dead ? EPOLLERR | EPOLLHUP : 0;

	lockdep_assert_held(&q->head.lock);
	if (q->watch)
		kfi_watch_wake_all(q->watch, EPOLLIN | EPOLLRDNORM | end);
}

/**
 * kfi_watch_end() - the object is being closed
 * @q: its queue; no thread can get a watch of it any more
 *
 * Context: process, interrupts on; takes @q->head.lock and the watch's head.lock.
 */
void kfi_watch_end(struct kfi_waitq *q)
{
	struct kfi_watch *watch;

	spin_lock_irq(&q->head.lock);
	watch = q->watch;
	WRITE_ONCE(q->watch, NULL);
	spin_unlock_irq(&q->head.lock);
	if (!watch)
		return;
	spin_lock_irq(&watch->head.lock);
	watch->queue = NULL;
	spin_unlock_irq(&watch->head.lock);
	kfi_watch_wake_all(watch, EPOLLERR | EPOLLHUP);
	kfi_watch_put(watch);
}
