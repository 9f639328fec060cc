// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Many healthy wake-ups of every kind, unstepped: none of them may raise an
 * alarm, whatever the interleaving.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/minmax.h>

#include "../../../kmod/compat.h"
#include "gallery.h"

/* Timeout of every wait, so that an error of one thread does not hang another. */
#define HEALTHY_LIMIT	(10 * HZ)
/* Most items that are not taken yet; with more the waiters would never sleep. */
#define HEALTHY_AHEAD	2
#define HEALTHY_WAITERS	3
#define HEALTHY_PERIOD	(20 * NSEC_PER_USEC)
/* Short enough to interrupt wakes, long enough to leave the CPU to them. */
#define HEALTHY_INTERRUPTS	(200 * NSEC_PER_USEC)

enum { PREPARED = 1 };

static DECLARE_WAIT_QUEUE_HEAD(healthy_queue);
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

/*
 * Wait until fewer than @below items are left and @n waiters are on the queue.
 * Every other time they have to be asleep; otherwise they may still be on their
 * way to sleep.
 */
static bool healthy_await_waiters(uint n, int below)
{
	unsigned long limit = jiffies + HEALTHY_LIMIT;
	static bool asleep;

	asleep = !asleep;
	while (atomic_read(&healthy_ahead) >= below ||
	       healthy_sleepers(asleep) < n)
		if (gallery_too_late(limit))
			return false;
	atomic_add(n, &healthy_ahead);
	return true;
}

static bool healthy_offer(uint n, int below)
{
	if (!healthy_await_waiters(n, below))
		return false;
	while (n--)
		gallery_publish();
	return true;
}

static int healthy_waker(void)
{
	uint i;

	healthy_prepare();
	for (i = 0; i < gallery_rounds && healthy_offer(1, HEALTHY_AHEAD); i++) {
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
		if (!healthy_await_waiters(1, HEALTHY_AHEAD))
			break;
		gallery_give(&healthy_queue);
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
		if (!healthy_offer(n, 1))
			break;
		wake_up_all(&healthy_queue);
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
	{ "give", {
		[WAITER] = { "waiter", healthy_exclusive_waiter },
		[WAKER] = { "waker", healthy_giver },
		[WAITER_2] = { "waiter-2", healthy_exclusive_waiter },
	} },
	{ }
};
