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
 *
 * DOC: Why many pollers hold up no publisher
 *
 * A publisher often has interrupts off, and users decide how many descriptors they
 * poll, and how many threads sleep in each epoll instance. If an object has had more than
 * KFI_WATCH_FEW entries of pollers at once, a work item wakes them from then on; and so it
 * does if the device is gone, which all members of a set report at once:
 *
 *	publisher				work item
 *	---------				---------
 *	store, nready + 1
 *	queue the item
 *						clear pending (full barrier)
 *						lock watch; wake
 *	store, nready + 1
 *	queue the item: it runs again
 *
 * An item that is still pending begins after the store, so its wake-up is for both.
 *
 * An entry may be an epoll instance, whose own pollers the kernel wakes there and then,
 * as it does for every file: their number is not limited here.
 */
#include <linux/kref.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "core.h"

#define KFI_WATCH_FEW	4
/* Each file of an object multiplies what epoll lets a wake-up cost. */
#define KFI_WATCH_FILES	16

/* Wakes the pollers of objects that have many. */
struct workqueue_struct *kfi_watch_wq;

/**
 * struct kfi_watch - the readiness of an object, for descriptors
 * @ref: one for the object, one for each descriptor, and one for @work while queued
 * @files: descriptors
 * @head: threads that poll; @head.lock protects @queue
 * @queue: the object's queue; NULL once the object is closed; @head.lock
 * @many: there were more than %KFI_WATCH_FEW entries on @head; set once, @head.lock,
 *	  also read without
 * @work: wakes the pollers if there are @many
 */
struct kfi_watch {
	struct kref ref;
	atomic_t files;
	wait_queue_head_t head;
	struct kfi_waitq *queue;
	bool many;
	struct work_struct work;
};

static void kfi_watch_work(struct work_struct *work);

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
	INIT_WORK(&watch->work, kfi_watch_work);
	watch->queue = q;
	return watch;
}

/**
 * kfi_watch_get() - watch an object
 * @fid: a wait set, CQ, EQ, counter, completion channel or profile, kept open by
 *	 the caller
 *
 * Context: process, may sleep; takes the queue's lock.
 * Return: with a reference that kfi_watch_put() drops; -ENOMEM; -EMFILE: the object has
 * %KFI_WATCH_FILES descriptors.
 */
struct kfi_watch *kfi_watch_get(struct kfid *fid)
{
	struct kfi_waitq *q = kfi_fid_queue(fid);
	struct kfi_watch *watch, *fresh = kfi_watch_new(q);

	if (!fresh)
		return ERR_PTR(-ENOMEM);
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
	if (atomic_inc_return(&watch->files) > KFI_WATCH_FILES) {
		kfi_watch_put(watch);
		return ERR_PTR(-EMFILE);
	}
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
	atomic_dec(&watch->files);
	kref_put(&watch->ref, kfi_watch_free);
}
EXPORT_SYMBOL_GPL(kfi_watch_put);

/* What the object's descriptors show now. */
static __poll_t kfi_watch_mask(const struct kfi_watch *watch)
{
	const struct kfi_waitq *q = watch->queue;
	__poll_t mask = 0;

	lockdep_assert_held(&watch->head.lock);
	if (!q || READ_ONCE(q->dead))
		mask |= EPOLLERR | EPOLLHUP;
	if (q && atomic_read(&q->nready) > 0)
		mask |= EPOLLIN | EPOLLRDNORM;
	return mask;
}

/* Are the pollers many? Each of them asks, after it has joined. */
static void kfi_watch_count(struct kfi_watch *watch)
{
	const struct list_head *entry;
	unsigned int n = 0;

	lockdep_assert_held(&watch->head.lock);
	if (watch->many)
		return;
	list_for_each(entry, &watch->head.head)
		if (++n > KFI_WATCH_FEW)
			break;
	WRITE_ONCE(watch->many, n > KFI_WATCH_FEW);
}

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
	__poll_t mask;

	poll_wait(file, &watch->head, wait);
	spin_lock_irq(&watch->head.lock);
	kfi_watch_count(watch);
	mask = kfi_watch_mask(watch);
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

/* The wake-up of many pollers, which no publisher waits for. */
static void kfi_watch_work(struct work_struct *work)
{
	struct kfi_watch *watch = container_of(work, struct kfi_watch, work);
	__poll_t mask;

	spin_lock_irq(&watch->head.lock);
	mask = kfi_watch_mask(watch);
	spin_unlock_irq(&watch->head.lock);
	/* What was published may be read already: the pollers look again. */
	kfi_watch_wake_all(watch, mask | EPOLLIN | EPOLLRDNORM);
	kref_put(&watch->ref, kfi_watch_free);
}

static void kfi_watch_wake_later(struct kfi_watch *watch)
{
	kref_get(&watch->ref);
	if (!queue_work(kfi_watch_wq, &watch->work))
		kref_put(&watch->ref, kfi_watch_free);
}

/**
 * kfi_watch_wake() - wake the pollers after a publication
 * @q: the object's queue
 * @why: the kind of publication
 *
 * Context: any; the caller holds @q->head.lock; takes the watch's head.lock.
 */
void kfi_watch_wake(struct kfi_waitq *q, enum kfi_why why)
{
	/* A poller is woken only by the events that it asked for, and by hang-ups. */
	const __poll_t end = q->dead ? EPOLLERR | EPOLLHUP : 0;

	lockdep_assert_held(&q->head.lock);
	if (!q->watch)
		return;
	if (READ_ONCE(q->watch->many) || why == KFI_WHY_LOST)
		kfi_watch_wake_later(q->watch);
	else
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
	kref_put(&watch->ref, kfi_watch_free);
}
