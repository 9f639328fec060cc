// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A sticky flag marks that there may be an item. The waiter clears it after its
 * check, and so loses an item that came in between.
 *
 *   waiter				waker
 *   nothing there?
 *					publish, set the flag, wake
 *   clear the flag
 *   wait for the flag
 *
 * Repaired: clear, check, wait.
 */
#include <linux/bitops.h>

#include "gallery.h"

enum { LOOKED = 1, WOKEN };

static DECLARE_WAIT_QUEUE_HEAD(flag_queue);
static unsigned long flag;

/* The waker publishes once, after the first check. */
static bool flag_look(void)
{
	bool there = gallery_consume();

	if (!there) {
		gallery_reach(LOOKED);
		gallery_await(WOKEN);
	}
	return there;
}

static int flag_waiter(void)
{
	unsigned long deadline;

	for (;;) {
		if (gallery_fixed)
			clear_bit(0, &flag);
		if (flag_look())
			return 1;
		if (!gallery_fixed)
			clear_bit(0, &flag);
		deadline = jiffies + GALLERY_PATIENCE;
		if (!wait_event_interruptible_timeout(flag_queue,
						      test_bit(0, &flag),
						      GALLERY_PATIENCE)) {
			gallery_timed_out(deadline);
			return -ETIMEDOUT;
		}
	}
}

static int flag_waker(void)
{
	gallery_await(LOOKED);
	gallery_publish();
	set_bit(0, &flag);
	wake_up(&flag_queue);
	gallery_reach(WOKEN);
	return 0;
}

const struct gallery_entry gallery_clear_after_check = {
	.name = "clear-after-check",
	.roles = {
		[WAITER] = { "waiter", flag_waiter },
		[WAKER] = { "waker", flag_waker },
	},
	.race = true,
};
