// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Two threads take two locks in different orders.
 *
 *   waiter			waker			breaker
 *   locks a
 *				locks b
 *				locks a: sleeps
 *   locks b: sleeps
 *							a signal for waiter
 *   leaves: -EINTR
 *				gets a
 *
 * Repaired: both take a first.
 */
#include <linux/mutex.h>
#include <linux/sched/signal.h>

#include "gallery.h"

enum { A_HELD = 1, B_HELD };

static DEFINE_MUTEX(order_a);
static DEFINE_MUTEX(order_b);

static int order_lock_both(struct mutex *first, struct mutex *second,
			   void (*between)(void))
{
	int ret = mutex_lock_interruptible(first);

	if (ret)
		return ret;
	between();
	ret = mutex_lock_interruptible(second);
	if (!ret)
		mutex_unlock(second);
	mutex_unlock(first);
	return ret;
}

/* Repaired, the other thread waits for a without holding b. */
static void order_a_is_held(void)
{
	gallery_reach(A_HELD);
	if (!gallery_fixed)
		gallery_await(B_HELD);
	gallery_await_blocked(WAKER);
}

static void order_b_is_held(void)
{
	gallery_reach(B_HELD);
}

static int order_waiter(void)
{
	allow_signal(SIGUSR1);
	return order_lock_both(&order_a, &order_b, order_a_is_held);
}

static int order_waker(void)
{
	allow_signal(SIGUSR1);
	gallery_await(A_HELD);
	return order_lock_both(gallery_fixed ? &order_a : &order_b,
			       gallery_fixed ? &order_b : &order_a,
			       order_b_is_held);
}

static int order_break(void)
{
	return gallery_interrupt(WAITER, SIGUSR1);
}

const struct gallery_entry gallery_lock_order = {
	.name = "lock-order",
	.roles = {
		[WAITER] = { "waiter", order_waiter },
		[WAKER] = { "waker", order_waker },
		[WAITER_2] = { "breaker", order_break },
	},
};
