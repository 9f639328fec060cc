// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * An exclusive waiter stays on the queue until it leaves by itself. It is woken, and
 * sets its state for the next look; so the second wake-up reaches it, too. It takes
 * one item.
 *
 *   waiter		waiter-2		waker
 *   sleeps		sleeps
 *						publish, wake one: waiter
 *   about to sleep again
 *						publish, wake one: waiter
 *   takes the first
 *			sleeps on
 *
 * Repaired: a wake-up takes the waiter off the queue, so the next one reaches
 * waiter-2.
 *
 * Upstream: 412895f03cbf ("epoll: atomically remove wait entry on wake up"). The items
 * are ready files, and the waiters threads in epoll_wait().
 */
#include "gallery.h"

enum { STATE_SET = 1, WOKEN_TWICE };

static DECLARE_WAIT_QUEUE_HEAD(twice_queue);

static int twice_waiter(void)
{
	DEFINE_WAIT(wait);
	int ret;

	/* In contrast to autoremove_wake_function(). */
	if (!gallery_fixed)
		wait.func = default_wake_function;
	prepare_to_wait_exclusive(&twice_queue, &wait, TASK_INTERRUPTIBLE);
	if (!gallery_ready())
		schedule_timeout(GALLERY_PATIENCE);
	prepare_to_wait_exclusive(&twice_queue, &wait, TASK_INTERRUPTIBLE);
	gallery_reach(STATE_SET);
	gallery_await(WOKEN_TWICE);
	ret = gallery_consume() ? 1 : -ETIMEDOUT;
	finish_wait(&twice_queue, &wait);
	return ret;
}

static int twice_waiter_2(void)
{
	gallery_await_asleep(WAITER);
	return gallery_wait(&twice_queue, true, GALLERY_PATIENCE);
}

static int twice_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_await_asleep(WAITER_2);
	gallery_publish();
	wake_up(&twice_queue);
	gallery_await(STATE_SET);
	gallery_publish();
	wake_up(&twice_queue);
	gallery_reach(WOKEN_TWICE);
	return 0;
}

const struct gallery_entry gallery_woken_twice = {
	.name = "woken-twice",
	.roles = {
		[WAITER] = { "waiter", twice_waiter },
		[WAKER] = { "waker", twice_waker },
		[WAITER_2] = { "waiter-2", twice_waiter_2 },
	},
};
