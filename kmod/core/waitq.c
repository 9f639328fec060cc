// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Every sleep and every wake-up of kfabric.
 *
 * DOC: Why no wake-up is lost
 *
 * The sleeper enters the queue (A), looks (B) and sleeps (C). The publisher
 * stores (1), then takes the queue's lock and wakes the waiters it finds (2).
 *
 *	publisher			sleeper
 *	---------			-------
 *					A  lock; enqueue; unlock
 *					   set_current_state(); (full barrier)
 *	1  store			B  look: not there yet
 *	2  lock; found, mark, wake; unlock
 *					C  schedule() returns at once: the wake-up
 *					   made the thread runnable again
 *
 *	1  store
 *	2  lock; queue empty; unlock
 *					A  lock; enqueue; unlock: every store before
 *					   the publisher's unlock is visible
 *					B  look: it is there; no sleep
 *
 * Both take the queue's lock, so no third order exists: either (2) finds the
 * waiter that (A) enqueued, or (B) sees the store of (1).
 *
 * DOC: Why no wake-up is swallowed
 *
 * A wake-up marks the waiter, makes it runnable and takes it off the queue in one
 * step under the queue's lock. The next wake-up therefore reaches the next
 * waiter. A mark stays with its waiter: a deadline or a signal that comes at the
 * same moment finds it (see the end of kfi_waitq_sleep()). A caller that was woken
 * for an entry and leaves without it calls kfi_hand_on().
 *
 * DOC: Why a wake-up reaches only the waiters that it concerns
 *
 * Between the number of a publication and its wake-up, other threads may read and
 * new sleepers may come. A publication gets its number after it has stored. A
 * waiter notes the last number before it looks, so its look has covered every
 * publication up to that number, and the wake function skips the waiter:
 *
 *	publisher		reader		sleeper
 *	---------		------		-------
 *	store, number 7
 *				reads all
 *						note 7; enqueue; look: nothing
 *	wake 7: skips the sleeper
 *
 * (If the sleeper comes before the number is given out, it is woken: an event did
 * happen during its call. Numbering before the store would close that gap, and
 * would lose wake-ups.)
 *
 * The look that must cover the publications is look (B), before the sleep. A full
 * barrier stands between the number and this look, that of set_current_state(), and
 * between the store and its number, which is a full barrier itself. The numbers of
 * kfi_cq_op_signal() and kfi_profile_lose() are none: what they announce is stored
 * under a lock that the sleeper takes after it has noted the number.
 */
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "core.h"

/*
 * A tracer finds the owner of a list by these: the owner's id and the owner in
 * struct kfi_waitq, which begins with the list, and the class in the owner.
 */
const u32 kfi_waitq_layout[] = {
	offsetof(struct kfi_waitq, id),
	offsetof(struct kfi_waitq, fid),
	offsetof(struct kfid, fclass),
};

/**
 * kfi_deadline() - turn a timeout of the API into a deadline
 * @timeout_ms: milliseconds; 0: one check, negative: no limit
 *
 * To be computed once in each call, so that a repeated sleep does not extend it.
 *
 * Context: any; takes no lock.
 * Return: absolute, on the monotonic clock.
 */
ktime_t kfi_deadline(int timeout_ms)
{
	if (timeout_ms < 0)
		return KFI_DEADLINE_NONE;
	if (!timeout_ms)
		return KFI_DEADLINE_NOW;
	return ktime_add_ms(ktime_get(), timeout_ms);
}
EXPORT_SYMBOL_GPL(kfi_deadline);

/* Does this wake-up concern that waiter? Its fields are constant on the queue. */
static bool kfi_wakes(const struct kfi_wake *wake, const struct kfi_waiter *w)
{
	if (wake->seq && wake->seq <= w->seen)
		return false;
	return wake->all || wake->have >= w->need;
}

/*
 * Called for each waiter on a wake-up. The caller holds the queue's lock, and often
 * a publisher's lock outside it. The waiter's thread leaves kfi_waitq_sleep() only
 * after it has taken the queue's lock itself. So until this lock is released, the
 * waiter exists, and so does the queue, which its thread may close and free next.
 *
 * The wake-up is passed by @wake of the queue, not as the key: foreign entries on
 * the list would interpret a key as poll flags.
 */
static int kfi_wake_function(struct wait_queue_entry *wqe, unsigned int mode,
			     int flags, void *key)
{
	struct kfi_waiter *w = container_of(wqe, struct kfi_waiter, wqe);
	const struct kfi_wake *wake = w->queue->wake;
	struct task_struct *task = wqe->private;

	lockdep_assert_held(&w->queue->head.lock);
	/* A ULP's own wake_up() on the list: only a hint to look again. */
	if (!wake)
		return default_wake_function(wqe, mode, flags, NULL);
	if (!kfi_wakes(wake, w))
		return 0;

	w->seq = wake->seq;
	w->have = wake->have;
	w->source = wake->source;
	w->counted = wake->counted;
	w->at = wake->at;
	w->queue->sleepers--;
	w->queue->counts.wakes++;
	kfi_turn_given(w->queue, task);
	kfi_trace(wake, w->queue->id, wake->source, wake->why, wake->seq,
		  task->pid);
	WRITE_ONCE(w->why, wake->why);
	default_wake_function(wqe, mode, flags, NULL);
	list_del_init(&wqe->entry);
	return 1;
}

/**
 * kfi_waitq_walk() - wake the waiters that a wake-up concerns
 * @q: the queue
 * @wake: the wake-up
 *
 * Context: any; the caller holds @q->head.lock. Does not sleep.
 */
void kfi_waitq_walk(struct kfi_waitq *q, const struct kfi_wake *wake)
{
	lockdep_assert_held(&q->head.lock);
	q->wake = wake;
	__wake_up_locked(&q->head, TASK_NORMAL, wake->all ? 0 : 1);
	q->wake = NULL;
}

/* Count a signal: plain numbers under the queue's lock, which the caller holds. */
static void kfi_waitq_count_signal(struct kfi_waitq *q, struct kfi_wake *wake)
{
	const u64 fill = max(atomic_read(&q->nready), 0);

	lockdep_assert_held(&q->head.lock);
	if (wake->why == KFI_WHY_HANDON)
		q->counts.handed_on++;
	else
		q->counts.signals++;
	if (wake->why == KFI_WHY_OVERRUN)
		q->counts.overruns++;
	if (fill > q->counts.deepest)
		q->counts.deepest = fill;
	wake->counted = true;
	if (q->sleepers)
		wake->at = kfi_stamp();
}

/**
 * kfi_waitq_wake_locked() - the one place that wakes
 * @q: the queue
 * @wake: the wake-up; a fault point may change it
 *
 * Wakes every non-exclusive waiter that @wake concerns, and one exclusive waiter,
 * or all of them with @wake->all. Does not allocate and cannot fail.
 *
 * Context: any; the caller holds @q->head.lock. Does not sleep.
 */
void kfi_waitq_wake_locked(struct kfi_waitq *q, struct kfi_wake *wake)
{
	lockdep_assert_held(&q->head.lock);
	kfi_trace(signal, q->id, wake->source, wake->why, wake->seq, wake->have,
		  q->sleepers);
	kfi_waitq_count_signal(q, wake);
	if (kfi_test_fault_point(q, wake))
		return;
	kfi_waitq_walk(q, wake);
	kfi_watch_wake(q, wake->why);
}

/**
 * kfi_waitq_wake() - kfi_waitq_wake_locked() for callers without the lock
 * @q: the queue
 * @wake: the wake-up
 *
 * Context: any; takes @q->head.lock. Does not sleep.
 */
void kfi_waitq_wake(struct kfi_waitq *q, struct kfi_wake *wake)
{
	unsigned long flags;

	spin_lock_irqsave(&q->head.lock, flags);
	kfi_waitq_wake_locked(q, wake);
	spin_unlock_irqrestore(&q->head.lock, flags);
}

/**
 * kfi_waitq_init() - initialise a queue
 * @q: the queue, zeroed
 * @fid: its owner
 * @id: of the owner
 *
 * Context: process, interrupts on; takes kfi_test_lock in the test-option build.
 */
void kfi_waitq_init(struct kfi_waitq *q, struct kfid *fid, u32 id)
{
	init_waitqueue_head(&q->head);
	mutex_init(&q->cond.mutex);
	q->fid = fid;
	q->id = id;
	kfi_test_queue_add(q);
}

/**
 * kfi_waitq_fini() - the mirror of kfi_waitq_init()
 * @q: a queue that no thread can reach any more
 *
 * Context: process, interrupts on; takes @q->head.lock.
 */
void kfi_waitq_fini(struct kfi_waitq *q)
{
	kfi_test_queue_del(q);
	WARN_ON_ONCE(q->sleepers);
	kfi_watch_end(q);
	WARN_ON_ONCE(kfi_turns_set(q, false));
}

/**
 * kfi_waitq_kill() - begin to close the owner of a queue
 * @q: the owner's own queue
 *
 * Context: process, interrupts on; takes @q->head.lock.
 * Return: 0; -EBUSY if the owner is in use, or a foreign entry is on the list (our
 * own waiters hold a reference).
 */
int kfi_waitq_kill(struct kfi_waitq *q)
{
	int ret = -EBUSY;

	spin_lock_irq(&q->head.lock);
	if (list_empty(&q->head.head))
		ret = kfi_fid_kill(q->fid);
	spin_unlock_irq(&q->head.lock);
	return ret;
}

/**
 * kfi_waiter_init() - begin a blocking call
 * @w: the waiter, on the caller's stack
 * @q: where it will sleep
 * @need: the least amount in the source that wakes it
 * @exclusive: a publication wakes only one of the exclusive waiters
 *
 * kfi_waiter_end() is its mirror.
 *
 * Context: the thread that will sleep; takes no lock.
 */
void kfi_waiter_init(struct kfi_waiter *w, struct kfi_waitq *q, u64 need,
		     bool exclusive)
{
	memset(w, 0, sizeof(*w));
	w->wqe.flags = exclusive ? WQ_FLAG_EXCLUSIVE : 0;
	w->wqe.private = current;
	w->wqe.func = kfi_wake_function;
	INIT_LIST_HEAD(&w->wqe.entry);
	w->queue = q;
	w->need = need;
	kfi_trace(wait_begin, q->id, q->fid->fclass, need,
		  exclusive || READ_ONCE(q->turns));
}

/* Add the waiter's misses to the queue's; the caller holds the queue's lock. */
static void kfi_waiter_count_misses(struct kfi_waiter *w)
{
	struct kfi_counts *counts = &w->queue->counts;

	lockdep_assert_held(&w->queue->head.lock);
	counts->overtaken += w->overtaken;
	counts->spurious += w->spurious;
	w->overtaken = 0;
	w->spurious = 0;
}

/* A deadline, a signal or a miss ended the call; no wake-up has counted it yet. */
static void kfi_waiter_count_end(struct kfi_waiter *w, int ret)
{
	struct kfi_waitq *q = w->queue;
	unsigned long flags;

	spin_lock_irqsave(&q->head.lock, flags);
	q->counts.timeouts += ret == -ETIMEDOUT;
	q->counts.interrupts += ret == -EINTR;
	kfi_waiter_count_misses(w);
	spin_unlock_irqrestore(&q->head.lock, flags);
}

/* Was it woken on a wait set by a counted signal for an entry? */
static bool kfi_waiter_in_vain(const struct kfi_waiter *w)
{
	return w->queue->fid->fclass == KFI_CLASS_WAIT && w->why && w->counted &&
	       w->why != KFI_WHY_SIGNAL;
}

/**
 * kfi_waiter_end() - end a blocking call
 * @w: the waiter, off the queue
 * @ret: the return value of the call
 *
 * Context: the thread that slept; takes @w->queue->head.lock.
 */
void kfi_waiter_end(struct kfi_waiter *w, int ret)
{
	struct kfi_waitq *q = w->queue;
	bool ready = atomic_read(&q->nready) > 0;

	kfi_trace(wait_end, q->id, q->fid->fclass, ret, w->why, w->seq, w->seen,
		  w->source, ready);
	if (!ret && !ready && kfi_waiter_in_vain(w))
		w->overtaken++;
	if (ret == -ETIMEDOUT || ret == -EINTR || w->overtaken || w->spurious)
		kfi_waiter_count_end(w, ret);
}

static void kfi_waiter_enqueue(struct kfi_waiter *w)
{
	struct kfi_waitq *q = w->queue;
	unsigned long flags;

	spin_lock_irqsave(&q->head.lock, flags);
	w->began = jiffies;
	w->since = kfi_stamp();
	if (q->turns)
		w->wqe.flags = WQ_FLAG_EXCLUSIVE;
	/* Exclusive waiters come last: the walk ends at the first that it wakes. */
	if (w->wqe.flags & WQ_FLAG_EXCLUSIVE)
		__add_wait_queue_entry_tail(&q->head, &w->wqe);
	else
		__add_wait_queue(&q->head, &w->wqe);
	q->sleepers++;
	q->counts.sleeps++;
	if (q->sleepers > q->counts.most_asleep)
		q->counts.most_asleep = q->sleepers;
	spin_unlock_irqrestore(&q->head.lock, flags);
}

/*
 * Time on the queue: exact to the tick, or better while times are measured. The
 * caller holds the queue's lock, under which a reset begins the age anew.
 */
static u64 kfi_waiter_age(const struct kfi_waiter *w, u64 now)
{
	lockdep_assert_held(&w->queue->head.lock);
	if (now && w->since)
		return now - w->since;
	return (u64)(jiffies - w->began) * TICK_NSEC;
}

/*
 * Takes the waiter off the queue, on every path. Takes the lock even if a waker has
 * removed the waiter: that waker may still walk the queue, and our caller may close
 * the queue next.
 */
static void kfi_waiter_dequeue(struct kfi_waiter *w)
{
	struct kfi_waitq *q = w->queue;
	unsigned long flags;
	u64 now;

	spin_lock_irqsave(&q->head.lock, flags);
	/* Under the lock: a reset may have begun the age anew. */
	now = kfi_stamp();
	if (!list_empty(&w->wqe.entry)) {
		list_del_init(&w->wqe.entry);
		q->sleepers--;
	}
	q->counts.asleep_ns += kfi_waiter_age(w, now);
	if (w->why) {
		if (now && w->at)
			kfi_count_latency(&q->counts, w->at, now);
		w->spurious += !w->counted;
	}
	kfi_waiter_count_misses(w);
	spin_unlock_irqrestore(&q->head.lock, flags);
}

/**
 * kfi_interrupted() - must this thread not sleep?
 *
 * A kthread that is being stopped counts as interrupted.
 *
 * Context: process; takes no lock.
 * Return: true with a signal pending, or in a kthread that shall stop.
 */
bool kfi_interrupted(void)
{
	if (signal_pending(current))
		return true;
	return (current->flags & PF_KTHREAD) && kthread_should_stop();
}

/* Return: 0: woken or ready; an errno: the call ends; 1: sleep. */
static int kfi_waiter_look(struct kfi_waiter *w, kfi_ready_fn ready,
			   void *arg, ktime_t deadline)
{
	if (READ_ONCE(w->why) || ready(arg))
		return 0;
	if (kfi_interrupted())
		return -EINTR;
	if (deadline != KFI_DEADLINE_NONE && ktime_get() >= deadline)
		return -ETIMEDOUT;
	return 1;
}

/* One sleep; KFI_WAIT_YIELD stays runnable and lets others go first. */
static void kfi_waiter_pause(struct kfi_waiter *w, ktime_t deadline)
{
	if (w->queue->yields) {
		__set_current_state(TASK_RUNNING);
		yield();
		return;
	}
	schedule_hrtimeout(deadline == KFI_DEADLINE_NONE ? NULL : &deadline,
			   HRTIMER_MODE_ABS);
	w->pauses++;
}

/* A new sleep in the same call: another thread took the entry it was woken for. */
static void kfi_waiter_again(struct kfi_waiter *w)
{
	if (w->why && w->counted && w->why != KFI_WHY_SIGNAL)
		w->overtaken++;
	w->why = 0;
	w->pauses = 0;
}

/**
 * kfi_waitq_sleep() - the one place that sleeps
 * @w: the waiter
 * @ready: the condition
 * @arg: for @ready
 * @deadline: absolute, monotonic; %KFI_DEADLINE_NOW, %KFI_DEADLINE_NONE
 *
 * Sleeps until @ready holds, or until a publication wakes this waiter. The wake-up
 * is only a hint that something happened: a caller that waits for its own object
 * looks again and, if it must, calls again with the same deadline.
 *
 * @w->mutex, which the caller then holds, is released after the waiter is on the
 * queue, so a publication after the release finds the waiter. The caller takes the
 * mutex again.
 *
 * Context: process, may sleep; takes the queue's lock; holds no spinlock. With
 * %KFI_DEADLINE_NOW any: it looks once, and leaves the task's state alone.
 * Return: 0 if @ready holds or the waiter was woken (then @w->why is the reason);
 * -EINTR with a signal pending or the kthread being stopped; -ETIMEDOUT after the
 * deadline, never before it, and only if @ready does not hold.
 */
int kfi_waitq_sleep(struct kfi_waiter *w, kfi_ready_fn ready, void *arg,
		    ktime_t deadline)
{
	int ret;

	/*
	 * As in wait_event(): a thread that this one has just woken may run now,
	 * and may make the condition true before the first look.
	 */
	if (deadline != KFI_DEADLINE_NOW)
		might_sleep();
	kfi_waiter_again(w);
	/*
	 * Number first, look second. The look before the sleep sees every publication
	 * up to the number; this one needs no barrier, since it only saves a sleep.
	 */
	w->seen = atomic64_read(&w->queue->pubs);
	if (!w->mutex && ready(arg))
		return 0;
	if (deadline == KFI_DEADLINE_NOW)
		return -ETIMEDOUT;

	kfi_waiter_enqueue(w);
	if (w->mutex)
		mutex_unlock(w->mutex);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		ret = kfi_waiter_look(w, ready, arg, deadline);
		if (ret <= 0)
			break;
		kfi_test_hook_point(KFI_HOOK_D1, w->queue->id);
		kfi_waiter_pause(w, deadline);
	}
	__set_current_state(TASK_RUNNING);
	/* After each pause but the last, the look found nothing. */
	if (w->pauses > 1)
		w->spurious += w->pauses - 1;

	if (ret == -ETIMEDOUT)
		kfi_test_hook_point(KFI_HOOK_D5, w->queue->id);
	kfi_waiter_dequeue(w);
	kfi_test_hook_point(KFI_HOOK_D4, w->queue->id);
	/*
	 * Off the queue now, so no later wake-up can mark this waiter. A wake-up
	 * that came together with the deadline or the signal counts; otherwise it
	 * would be swallowed.
	 */
	if (ret && (w->why || ready(arg)))
		ret = 0;
	return ret;
}

/* The waiter of an entry; NULL for a foreign entry. */
static struct kfi_waiter *kfi_waiter_of(struct wait_queue_entry *wqe)
{
	return wqe->func == kfi_wake_function ?
		       container_of(wqe, struct kfi_waiter, wqe) : NULL;
}

/**
 * kfi_waitq_counts() - the counts of a queue, as of now
 * @q: the queue
 * @counts: filled in
 *
 * Context: any; takes @q->head.lock.
 */
void kfi_waitq_counts(struct kfi_waitq *q, struct kfi_counts *counts)
{
	struct wait_queue_entry *wqe;
	struct kfi_waiter *w;
	unsigned long flags;
	u64 now, age;

	spin_lock_irqsave(&q->head.lock, flags);
	*counts = q->counts;
	counts->asleep = q->sleepers;
	now = kfi_stamp();
	list_for_each_entry(wqe, &q->head.head, entry) {
		w = kfi_waiter_of(wqe);
		if (!w)
			continue;
		age = kfi_waiter_age(w, now);
		counts->asleep_ns += age;
		counts->longest_ns = max(counts->longest_ns, age);
	}
	spin_unlock_irqrestore(&q->head.lock, flags);
}

/**
 * kfi_waitq_counts_reset() - let a queue count from 0
 * @q: the queue
 *
 * Context: any; takes @q->head.lock.
 */
void kfi_waitq_counts_reset(struct kfi_waitq *q)
{
	struct wait_queue_entry *wqe;
	struct kfi_waiter *w;
	unsigned long flags;

	spin_lock_irqsave(&q->head.lock, flags);
	memset(&q->counts, 0, sizeof(q->counts));
	q->counts.most_asleep = q->sleepers;
	list_for_each_entry(wqe, &q->head.head, entry) {
		w = kfi_waiter_of(wqe);
		if (!w)
			continue;
		w->began = jiffies;
		w->since = kfi_stamp();
	}
	spin_unlock_irqrestore(&q->head.lock, flags);
}
