// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A sleeper leaves the amount that it waits for with the queue; the waker wakes once
 * the smallest of these amounts is there. That amount stays after its sleeper has
 * left, so the next sleeper is woken long before its own amount is there.
 *
 *   waiter		waiter-2		waker
 *			sleeps for 1
 *						1 is there: publish, wake
 *			takes it
 *   sleeps for 2; the smallest amount is 1
 *						1 is there: wake
 *   not enough; sleeps
 *						2 are there: publish, wake
 *
 * Repaired: a wake-up forgets the amount; each sleeper states its own again.
 *
 * Upstream: 68282dd930ea ("ring-buffer: Fix resetting of shortest_full"). The amounts
 * are parts of a trace buffer, and the sleepers its readers.
 */
#include <linux/limits.h>
#include <linux/minmax.h>

#include "gallery.h"

enum { FIRST_TAKEN = 1 };

static DECLARE_WAIT_QUEUE_HEAD(amount_queue);
static int smallest;	/* of the amounts that threads sleep for */
static int filled;

static int amount_wait(int amount)
{
	smallest = min(smallest, amount);
	return gallery_wait(&amount_queue, false, GALLERY_PATIENCE);
}

static int amount_waiter(void)
{
	gallery_await(FIRST_TAKEN);
	return amount_wait(2);
}

static int amount_waiter_2(void)
{
	int ret;

	smallest = INT_MAX;
	filled = 0;
	ret = amount_wait(1);
	gallery_reach(FIRST_TAKEN);
	return ret;
}

/* Adds one; @enough: that completes the amount of the only sleeper. */
static void amount_add(bool enough)
{
	if (enough)
		gallery_publish();
	if (++filled < smallest)
		return;
	if (gallery_fixed)
		smallest = INT_MAX;
	wake_up(&amount_queue);
}

static int amount_waker(void)
{
	gallery_await_asleep(WAITER_2);
	amount_add(true);
	gallery_await(FIRST_TAKEN);
	gallery_await_asleep(WAITER);
	filled = 0;
	amount_add(false);
	gallery_await_asleep(WAITER);
	amount_add(true);
	return 0;
}

const struct gallery_entry gallery_old_threshold = {
	.name = "old-threshold",
	.roles = {
		[WAITER] = { "waiter", amount_waiter },
		[WAKER] = { "waker", amount_waker },
		[WAITER_2] = { "waiter-2", amount_waiter_2 },
	},
};
