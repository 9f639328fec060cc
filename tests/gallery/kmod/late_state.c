// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waiter is on the queue, but sets its state only after it has looked. A wake-up
 * between the two finds a running thread and changes nothing.
 *
 *   waiter				waker
 *   enqueue
 *   nothing there?
 *					publish, wake: waiter runs anyway
 *   set its state, sleep
 *
 * Repaired: set the state, look, sleep.
 *
 * Upstream: loops of kernel threads that look, call set_current_state() and then
 * schedule(). Such a thread is usually woken by wake_up_process(); here by its queue.
 */
#include "gallery.h"

enum { LOOKED = 1, WOKEN };

static DECLARE_WAIT_QUEUE_HEAD(state_queue);

static int late_state_waiter(void)
{
	long left = GALLERY_PATIENCE;
	DEFINE_WAIT(wait);

	prepare_to_wait(&state_queue, &wait, TASK_INTERRUPTIBLE);
	if (!gallery_fixed)
		__set_current_state(TASK_RUNNING);
	if (!gallery_ready()) {
		gallery_reach(LOOKED);
		gallery_await(WOKEN);
		if (!gallery_fixed)
			set_current_state(TASK_INTERRUPTIBLE);
		left = gallery_sleep(left);
	}
	finish_wait(&state_queue, &wait);
	return left && gallery_consume() ? 1 : -ETIMEDOUT;
}

static int late_state_waker(void)
{
	gallery_await(LOOKED);
	gallery_publish();
	wake_up(&state_queue);
	gallery_reach(WOKEN);
	return 0;
}

const struct gallery_entry gallery_late_state = {
	.name = "late-state",
	.roles = {
		[WAITER] = { "waiter", late_state_waiter },
		[WAKER] = { "waker", late_state_waker },
	},
	.race = true,
};
