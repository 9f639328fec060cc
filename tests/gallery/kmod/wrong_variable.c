// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waiter sleeps on one variable, and the waker wakes the sleepers of another
 * one. The kernel hashes both to wait queues, and looks for sleepers first.
 *
 *   waiter				waker
 *   sleeps on received
 *					publish, wake_up_var(&sent)
 *
 * Repaired: wake_up_var(&received).
 */
#include <linux/wait_bit.h>

#include "gallery.h"

enum { WAITS = 1 };

static int received_items, sent_items;

static int variable_waiter(void)
{
	gallery_reach(WAITS);
	return wait_var_event_timeout(&received_items, gallery_consume(),
				      GALLERY_PATIENCE) ? 1 : -ETIMEDOUT;
}

static int variable_waker(void)
{
	gallery_await(WAITS);
	gallery_await_sleep(WAITER);
	gallery_publish();
	wake_up_var(gallery_fixed ? &received_items : &sent_items);
	return 0;
}

const struct gallery_entry gallery_wrong_variable = {
	.name = "wrong-variable",
	.roles = {
		[WAITER] = { "waiter", variable_waiter },
		[WAKER] = { "waker", variable_waker },
	},
};
