// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Many healthy wake-ups of every kind, unstepped: none of them may raise an
 * alarm, whatever the interleaving.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/rtmutex.h>
#include <linux/rwsem.h>
#include <linux/wait_bit.h>

#include "compat.h"
#include "gallery.h"

/* Timeout of every wait, so that an error of one thread does not hang another. */
#define HEALTHY_LIMIT	(10 * HZ)
/* Most items that are not taken yet; with more the waiters would never sleep. */
#define HEALTHY_AHEAD	2
#define HEALTHY_WAITERS	3
#define HEALTHY_BATCH	2
#define HEALTHY_PERIOD	(20 * NSEC_PER_USEC)
/* Short enough to interrupt wakes, long enough to leave the CPU to them. */
#define HEALTHY_INTERRUPTS	(200 * NSEC_PER_USEC)

enum { PREPARED = 1 };

static DECLARE_WAIT_QUEUE_HEAD(healthy_queue);
static DECLARE_WAIT_QUEUE_HEAD(healthy_queue_2);	/* of the poller */
static DECLARE_SWAIT_QUEUE_HEAD(healthy_swait);
static atomic_t healthy_left;	/* items that no waiter has claimed */
static atomic_t healthy_ahead;	/* items that were published and not taken */
static bool healthy_over;

/* A waiter claims an item before it waits, so that each wait gets one. */
static int healthy_consume(bool exclusive)
{
	int n = 0;

	gallery_await(PREPARED);
	while (atomic_dec_return(&healthy_left) >= 0) {
		if (gallery_wait(&healthy_queue, exclusive,
				 HEALTHY_LIMIT) != 1)
			return -ETIMEDOUT;
		atomic_dec(&healthy_ahead);
		n++;
	}
	return n;
}

static int healthy_exclusive_waiter(void)
{
	return healthy_consume(true);
}

static int healthy_plain_waiter(void)
{
	return healthy_consume(false);
}

static int healthy_swait_waiter(void)
{
	int n = 0;

	gallery_await(PREPARED);
	while (atomic_dec_return(&healthy_left) >= 0) {
		if (gallery_swait(&healthy_swait, HEALTHY_LIMIT) != 1)
			return -ETIMEDOUT;
		atomic_dec(&healthy_ahead);
		n++;
	}
	return n;
}

static void healthy_prepare(void)
{
	atomic_set(&healthy_left, gallery_rounds);
	atomic_set(&healthy_ahead, 0);
	WRITE_ONCE(healthy_over, false);
	gallery_reach(PREPARED);
}

/*
 * On an emulated CPU of its own a spinning waker does not speed up the others:
 * the first tenth of the rounds runs on all CPUs, the rest on one.
 */
static void healthy_gather(uint round)
{
	int i;

	if (round < gallery_rounds / 10 || current->nr_cpus_allowed == 1)
		return;
	for (i = 0; i < GALLERY_ROLES; i++)
		if (gallery_task(i))
			set_cpus_allowed_ptr(gallery_task(i), cpumask_of(0));
}

/* Entries on the queue: all of them, or only those of sleeping threads. */
static uint healthy_sleepers(bool asleep)
{
	struct wait_queue_entry *entry;
	struct task_struct *task;
	unsigned long flags;
	uint n = 0;

	spin_lock_irqsave(&healthy_queue.lock, flags);
	list_for_each_entry(entry, &healthy_queue.head, entry) {
		task = entry->private;
		n += !asleep || gallery_asleep(task);
	}
	spin_unlock_irqrestore(&healthy_queue.lock, flags);
	return n;
}

/* The same for the simple wait queue. */
static uint healthy_swait_sleepers(bool asleep)
{
	struct swait_queue *entry;
	unsigned long flags;
	uint n = 0;

	raw_spin_lock_irqsave(&healthy_swait.lock, flags);
	list_for_each_entry(entry, &healthy_swait.task_list, task_list)
		n += !asleep || gallery_asleep(entry->task);
	raw_spin_unlock_irqrestore(&healthy_swait.lock, flags);
	return n;
}

/*
 * Wait until fewer than @below items are left and @n waiters are on the queue.
 * Every other time they have to be asleep; otherwise they may still be on their
 * way to sleep.
 */
static bool healthy_await_waiters(uint n, int below,
				  uint (*sleepers)(bool asleep))
{
	unsigned long limit = jiffies + HEALTHY_LIMIT;
	static bool asleep;

	asleep = !asleep;
	while (atomic_read(&healthy_ahead) >= below ||
	       sleepers(asleep) < n)
		if (gallery_too_late(limit))
			return false;
	atomic_add(n, &healthy_ahead);
	return true;
}

static bool healthy_offer(uint n, int below, uint (*sleepers)(bool asleep))
{
	if (!healthy_await_waiters(n, below, sleepers))
		return false;
	while (n--)
		gallery_publish();
	return true;
}

static int healthy_waker(void)
{
	uint i;

	healthy_prepare();
	for (i = 0; i < gallery_rounds; i++) {
		if (!healthy_offer(1, HEALTHY_AHEAD, healthy_sleepers))
			break;
		wake_up(&healthy_queue);
		healthy_gather(i);
	}
	return i;
}

/* Publishing and waking are one marked function. */
static int healthy_giver(void)
{
	uint i;

	healthy_prepare();
	for (i = 0; i < gallery_rounds; i++) {
		if (!healthy_await_waiters(1, HEALTHY_AHEAD, healthy_sleepers))
			break;
		gallery_give(&healthy_queue);
		healthy_gather(i);
	}
	return i;
}

/* Wakes in both ways, of which the second one finds one or two sleepers. */
static int healthy_swait_waker(void)
{
	uint i, n;

	healthy_prepare();
	for (i = 0; i < gallery_rounds; i += n) {
		n = min_t(uint, 1 + i / 16 % 2, gallery_rounds - i);
		if (!healthy_offer(n, 1, healthy_swait_sleepers))
			break;
		if (n == 1)
			swake_up_one(&healthy_swait);
		else
			swake_up_all(&healthy_swait);
		healthy_gather(i);
	}
	return i;
}

static int healthy_waker_of_all(void)
{
	uint i, n;

	healthy_prepare();
	for (i = 0; i < gallery_rounds; i += n) {
		n = min_t(uint, HEALTHY_WAITERS, gallery_rounds - i);
		if (!healthy_offer(n, 1, healthy_sleepers))
			break;
		wake_up_all(&healthy_queue);
		healthy_gather(i);
	}
	return i;
}

/* As sbitmap does: a batch of items, and then one call that wakes as many threads. */
static int healthy_batch_waker(void)
{
	uint i, n;

	healthy_prepare();
	for (i = 0; i < gallery_rounds; i += n) {
		n = min_t(uint, HEALTHY_BATCH, gallery_rounds - i);
		if (!healthy_offer(n, 1, healthy_sleepers))
			break;
		wake_up_nr(&healthy_queue, n);
		healthy_gather(i);
	}
	return i;
}

/* One call for several items: each waiter wakes the next while an item is left. */
static int healthy_chain_waker(void)
{
	uint i, n;

	healthy_prepare();
	for (i = 0; i < gallery_rounds; i += n) {
		n = min_t(uint, HEALTHY_WAITERS, gallery_rounds - i);
		if (!healthy_offer(n, 1, healthy_sleepers))
			break;
		wake_up(&healthy_queue);
		healthy_gather(i);
	}
	return i;
}

static int healthy_chain_waiter(void)
{
	int n = 0;

	gallery_await(PREPARED);
	while (atomic_dec_return(&healthy_left) >= 0) {
		if (gallery_wait(&healthy_queue, true, HEALTHY_LIMIT) != 1)
			return -ETIMEDOUT;
		if (gallery_ready())
			wake_up(&healthy_queue);
		atomic_dec(&healthy_ahead);
		n++;
	}
	return n;
}

/* As poll() does: one thread on two queues, woken through either. */
static int healthy_wait_on_two(void)
{
	long patience = HEALTHY_LIMIT;
	DEFINE_WAIT(one);
	DEFINE_WAIT(two);
	int ret;

	for (;;) {
		prepare_to_wait(&healthy_queue, &one, TASK_INTERRUPTIBLE);
		prepare_to_wait(&healthy_queue_2, &two, TASK_INTERRUPTIBLE);
		ret = gallery_consume() ? 1 : -ETIMEDOUT;
		if (ret == 1 || !patience)
			break;
		patience = schedule_timeout(patience);
	}
	finish_wait(&healthy_queue, &one);
	finish_wait(&healthy_queue_2, &two);
	return ret;
}

static int healthy_poller(void)
{
	int n = 0;

	gallery_await(PREPARED);
	while (atomic_dec_return(&healthy_left) >= 0) {
		if (healthy_wait_on_two() != 1)
			return -ETIMEDOUT;
		atomic_dec(&healthy_ahead);
		n++;
	}
	return n;
}

static int healthy_waker_of_two(void)
{
	uint i;

	healthy_prepare();
	for (i = 0; i < gallery_rounds; i++) {
		if (!healthy_offer(1, HEALTHY_AHEAD, healthy_sleepers))
			break;
		wake_up(i & 1 ? &healthy_queue : &healthy_queue_2);
		healthy_gather(i);
	}
	return i;
}

/* In softirq context, once per period unless the waiters fall behind. */
struct healthy_timer {
	struct hrtimer timer;
	uint fired;
};

static enum hrtimer_restart healthy_fires(struct hrtimer *timer)
{
	struct healthy_timer *t = container_of(timer, struct healthy_timer,
					       timer);

	if (atomic_read(&healthy_ahead) < HEALTHY_AHEAD &&
	    healthy_sleepers(t->fired & 1)) {
		atomic_inc(&healthy_ahead);
		gallery_publish();
		wake_up(&healthy_queue);
		WRITE_ONCE(t->fired, t->fired + 1);
	}
	if (t->fired == gallery_rounds)
		return HRTIMER_NORESTART;
	hrtimer_forward_now(timer, HEALTHY_PERIOD);
	return HRTIMER_RESTART;
}

static int healthy_starter(void)
{
	unsigned long limit = jiffies + HEALTHY_LIMIT;
	struct healthy_timer t = {};
	uint seen = 0;

	kfi_hrtimer_setup_on_stack(&t.timer, healthy_fires, CLOCK_MONOTONIC,
				   HRTIMER_MODE_REL_SOFT);
	healthy_prepare();
	hrtimer_start(&t.timer, HEALTHY_PERIOD, HRTIMER_MODE_REL_SOFT);
	while (READ_ONCE(t.fired) < gallery_rounds && !gallery_too_late(limit)) {
		if (READ_ONCE(t.fired) != seen)
			limit = jiffies + HEALTHY_LIMIT;
		seen = READ_ONCE(t.fired);
		msleep(20);
	}
	hrtimer_cancel(&t.timer);
	destroy_hrtimer_on_stack(&t.timer);
	return t.fired;
}

/*
 * An interrupt that wakes another thread. With PREEMPT_RT a queue's lock does not
 * disable interrupts, so that it may interrupt the waker's wakes.
 */
struct healthy_interrupt {
	struct hrtimer timer;
	struct task_struct *bystander;
};

static enum hrtimer_restart healthy_interrupts(struct hrtimer *timer)
{
	struct healthy_interrupt *irq;

	irq = container_of(timer, struct healthy_interrupt, timer);
	wake_up_process(irq->bystander);
	hrtimer_forward_now(timer, HEALTHY_INTERRUPTS);
	return HRTIMER_RESTART;
}

/* Sleeps on no queue, on the CPU of the rounds; the next interrupt wakes it. */
static int healthy_bystander(void)
{
	struct healthy_interrupt irq = { .bystander = current };
	int n = 0;

	set_cpus_allowed_ptr(current, cpumask_of(0));
	kfi_hrtimer_setup_on_stack(&irq.timer, healthy_interrupts,
				   CLOCK_MONOTONIC,
				   HRTIMER_MODE_REL_PINNED_HARD);
	gallery_await(PREPARED);
	hrtimer_start(&irq.timer, HEALTHY_INTERRUPTS,
		      HRTIMER_MODE_REL_PINNED_HARD);
	while (!READ_ONCE(healthy_over)) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule();
		n++;
	}
	hrtimer_cancel(&irq.timer);
	destroy_hrtimer_on_stack(&irq.timer);
	return n;
}

static int healthy_interrupted_waker(void)
{
	int n = healthy_waker();

	WRITE_ONCE(healthy_over, true);
	return n;
}

/* Nothing is published: each wait ends with its timeout. */
static int healthy_timeout_waiter(void)
{
	uint i;

	for (i = 0; i < gallery_rounds; i++)
		if (!wait_event_interruptible_hrtimeout(healthy_queue,
							gallery_ready(),
							HEALTHY_PERIOD))
			break;
	return i;
}

enum { HEALTHY_BUSY = 5 };

static unsigned long healthy_word;

static int healthy_bit_waiter(void)
{
	uint i;

	gallery_await(PREPARED);
	for (i = 0; i < gallery_rounds; i++) {
		set_bit(HEALTHY_BUSY, &healthy_word);
		if (wait_on_bit_timeout(&healthy_word, HEALTHY_BUSY,
					TASK_INTERRUPTIBLE, HEALTHY_LIMIT) ||
		    !gallery_consume())
			break;
	}
	return i;
}

/* Every other time the waiter may still be on its way to sleep. */
static int healthy_bit_waker(void)
{
	struct task_struct *waiter = gallery_task(WAITER);
	uint i;

	healthy_prepare();
	for (i = 0; i < gallery_rounds; i++) {
		unsigned long limit = jiffies + HEALTHY_LIMIT;

		while (!test_bit(HEALTHY_BUSY, &healthy_word) ||
		       !(i & 1 || gallery_asleep(waiter)))
			if (gallery_too_late(limit))
				return i;
		gallery_publish();
		clear_bit_unlock(HEALTHY_BUSY, &healthy_word);
		/* wake_up_bit() looks for sleepers without a lock. */
		smp_mb__after_atomic();
		wake_up_bit(&healthy_word, HEALTHY_BUSY);
		healthy_gather(i);
	}
	return i;
}

static DECLARE_COMPLETION(healthy_ping);
static DECLARE_COMPLETION(healthy_pong);

static int healthy_play(struct completion *mine, struct completion *other)
{
	uint i;

	for (i = 0; i < gallery_rounds; i++) {
		complete(other);
		if (!wait_for_completion_timeout(mine, HEALTHY_LIMIT))
			break;
	}
	return i;
}

static int healthy_completion_waiter(void)
{
	return healthy_play(&healthy_ping, &healthy_pong);
}

static int healthy_completion_waker(void)
{
	return healthy_play(&healthy_pong, &healthy_ping);
}

static DEFINE_MUTEX(healthy_mutex);
static DECLARE_RWSEM(healthy_rwsem);
static DEFINE_RT_MUTEX(healthy_rt_mutex);

/* Hold a lock while asleep, so that the other threads sleep for it, too. */
static void healthy_lock(uint round)
{
	switch (round % 4) {
	case 0:
		mutex_lock(&healthy_mutex);
		usleep_range(10, 20);
		mutex_unlock(&healthy_mutex);
		break;
	case 1:
		down_write(&healthy_rwsem);
		usleep_range(10, 20);
		up_write(&healthy_rwsem);
		break;
	case 2:
		down_read(&healthy_rwsem);
		usleep_range(10, 20);
		up_read(&healthy_rwsem);
		break;
	default:
		rt_mutex_lock(&healthy_rt_mutex);
		usleep_range(10, 20);
		rt_mutex_unlock(&healthy_rt_mutex);
	}
}

/* The threads take the same sort of lock for a while, and then the next one. */
static int healthy_locker(void)
{
	uint i;

	for (i = 0; i < gallery_rounds / 2; i++)
		healthy_lock(i / 64);
	return i;
}

const struct gallery_entry gallery_healthy[] = {
	{ "exclusive", {
		[WAITER] = { "waiter", healthy_exclusive_waiter },
		[WAKER] = { "waker", healthy_waker },
		[WAITER_2] = { "waiter-2", healthy_exclusive_waiter },
	} },
	{ "non-exclusive", {
		[WAITER] = { "waiter", healthy_plain_waiter },
		[WAKER] = { "waker", healthy_waker },
	} },
	{ "wake-all", {
		[WAITER] = { "waiter", healthy_plain_waiter },
		[WAKER] = { "waker", healthy_waker_of_all },
		[WAITER_2] = { "waiter-2", healthy_plain_waiter },
		[WAITER_3] = { "waiter-3", healthy_plain_waiter },
	} },
	{ "batch", {
		[WAITER] = { "waiter", healthy_exclusive_waiter },
		[WAKER] = { "waker", healthy_batch_waker },
		[WAITER_2] = { "waiter-2", healthy_exclusive_waiter },
		[WAITER_3] = { "waiter-3", healthy_exclusive_waiter },
	} },
	{ "chain", {
		[WAITER] = { "waiter", healthy_chain_waiter },
		[WAKER] = { "waker", healthy_chain_waker },
		[WAITER_2] = { "waiter-2", healthy_chain_waiter },
		[WAITER_3] = { "waiter-3", healthy_chain_waiter },
	} },
	{ "two-queues", {
		[WAITER] = { "waiter", healthy_poller },
		[WAKER] = { "waker", healthy_waker_of_two },
	} },
	{ "softirq", {
		[WAITER] = { "waiter", healthy_exclusive_waiter },
		[WAKER] = { "starter", healthy_starter },
		[WAITER_2] = { "waiter-2", healthy_exclusive_waiter },
	} },
	{ "interrupted", {
		[WAITER] = { "waiter", healthy_exclusive_waiter },
		[WAKER] = { "waker", healthy_interrupted_waker },
		[WAITER_2] = { "waiter-2", healthy_exclusive_waiter },
		[WAITER_3] = { "bystander", healthy_bystander },
	} },
	{ "timeout", {
		[WAITER] = { "waiter", healthy_timeout_waiter },
	} },
	{ "completion", {
		[WAITER] = { "waiter", healthy_completion_waiter },
		[WAKER] = { "waker", healthy_completion_waker },
	} },
	{ "locks", {
		[WAITER] = { "locker", healthy_locker },
		[WAKER] = { "locker-2", healthy_locker },
		[WAITER_2] = { "locker-3", healthy_locker },
	} },
	{ "swait", {
		[WAITER] = { "waiter", healthy_swait_waiter },
		[WAKER] = { "waker", healthy_swait_waker },
		[WAITER_2] = { "waiter-2", healthy_swait_waiter },
	} },
	{ "bit", {
		[WAITER] = { "waiter", healthy_bit_waiter },
		[WAKER] = { "waker", healthy_bit_waker },
	} },
	{ "give", {
		[WAITER] = { "waiter", healthy_exclusive_waiter },
		[WAKER] = { "waker", healthy_giver },
		[WAITER_2] = { "waiter-2", healthy_exclusive_waiter },
	} },
	{ }
};
