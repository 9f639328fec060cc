// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * An exclusive waiter is woken for an item, and a signal comes before it has
 * run. It leaves because of the signal, and the only wake-up is lost.
 *
 *   waiter		waiter-2		waker
 *   sleeps		sleeps
 *						publish, wake one: waiter
 *   woken
 *						signal
 *   leaves: -EINTR
 *			sleeps on
 *
 * Repaired: a waiter that leaves without the item wakes the next one.
 */
#include <linux/sched/signal.h>

#include "gallery.h"

enum { WOKEN = 1, SIGNALLED };

static DECLARE_WAIT_QUEUE_HEAD(signal_queue);

static int signal_waiter(void)
{
	DEFINE_WAIT(wait);
	int ret = 0;

	allow_signal(SIGUSR1);
	prepare_to_wait_exclusive(&signal_queue, &wait, TASK_INTERRUPTIBLE);
	if (!gallery_ready() && schedule_timeout(GALLERY_PATIENCE)) {
		gallery_reach(WOKEN);
		gallery_await(SIGNALLED);
		ret = signal_pending(current) ? -EINTR : 0;
	}
	finish_wait(&signal_queue, &wait);
	if (ret && gallery_fixed)
		wake_up(&signal_queue);
	flush_signals(current);
	return ret ?: gallery_consume();
}

static int signal_waiter_2(void)
{
	gallery_await_asleep(WAITER);
	return gallery_wait(&signal_queue, true, GALLERY_PATIENCE);
}

static int signal_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_await_asleep(WAITER_2);
	gallery_publish();
	wake_up(&signal_queue);
	gallery_await(WOKEN);
	send_sig(SIGUSR1, gallery_task(WAITER), 0);
	gallery_reach(SIGNALLED);
	return 0;
}

const struct gallery_entry gallery_baton_signal = {
	.name = "baton-signal",
	.roles = {
		[WAITER] = { "waiter", signal_waiter },
		[WAKER] = { "waker", signal_waker },
		[WAITER_2] = { "waiter-2", signal_waiter_2 },
	},
};
