// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A thread exits without unlocking its mutex.
 *
 *   waiter			waker			breaker
 *				locks
 *				exits
 *   locks: sleeps
 *							a signal for waiter
 *   leaves: -EINTR
 *
 * Repaired: it unlocks.
 */
#include <linux/delay.h>
#include <linux/mutex.h>
#include <linux/sched/signal.h>

#include "gallery.h"

static DEFINE_MUTEX(exit_mutex);

static int exit_waiter(void)
{
	unsigned long limit = jiffies + GALLERY_PATIENCE;
	int ret;

	allow_signal(SIGUSR1);
	while (!READ_ONCE(gallery_task(WAKER)->exit_state) &&
	       !gallery_too_late(limit))
		msleep(20);
	ret = mutex_lock_interruptible(&exit_mutex);
	/* As the holder does not unlock it, make it new for the next run. */
	if (ret)
		mutex_init(&exit_mutex);
	else
		mutex_unlock(&exit_mutex);
	return ret;
}

static int exit_waker(void)
{
	mutex_lock(&exit_mutex);
	if (gallery_fixed)
		mutex_unlock(&exit_mutex);
	return 0;
}

static int exit_breaker(void)
{
	return gallery_interrupt(WAITER, SIGUSR1);
}

const struct gallery_entry gallery_mutex_exit = {
	.name = "mutex-exit",
	.roles = {
		[WAITER] = { "waiter", exit_waiter },
		[WAKER] = { "waker", exit_waker },
		[WAITER_2] = { "breaker", exit_breaker },
	},
};
