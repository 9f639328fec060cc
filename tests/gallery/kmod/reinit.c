// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waiter initializes its completion again when it is too late for that: the
 * completion was given already. Only the next one ends its wait.
 *
 *   waiter				waker
 *					publish, complete
 *   reinit_completion
 *   sleeps
 *					(0.75 s later) publish, complete
 *
 * Repaired: initialize before the waker is asked for anything.
 */
#include <linux/completion.h>

#include "gallery.h"

enum { ASKED = 1, GIVEN };

static DECLARE_COMPLETION(reinit_done);

static int reinit_waiter(void)
{
	/* Stepped, it outlives the pause of the waker. */
	long patience = GALLERY_PATIENCE * (gallery_unstepped ? 1 : 8);
	unsigned long deadline;

	if (gallery_fixed)
		reinit_completion(&reinit_done);
	gallery_reach(ASKED);
	gallery_await(GIVEN);
	if (!gallery_fixed)
		reinit_completion(&reinit_done);
	deadline = jiffies + patience;
	if (!wait_for_completion_interruptible_timeout(&reinit_done, patience))
		gallery_timed_out(deadline);
	return gallery_consume() ? 1 : -ETIMEDOUT;
}

static int reinit_waker(void)
{
	unsigned long until;

	gallery_follow(ASKED);
	gallery_publish();
	complete(&reinit_done);
	gallery_reach(GIVEN);
	if (gallery_fixed || gallery_unstepped)
		return 0;
	gallery_await_asleep(WAITER);
	until = jiffies + 3 * GALLERY_PATIENCE;
	while (time_before(jiffies, until))
		cond_resched();
	gallery_publish();
	complete(&reinit_done);
	return 0;
}

const struct gallery_entry gallery_reinit = {
	.name = "reinit",
	.roles = {
		[WAITER] = { "waiter", reinit_waiter },
		[WAKER] = { "waker", reinit_waker },
	},
	.race = true,
};
