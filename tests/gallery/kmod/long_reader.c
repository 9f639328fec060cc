// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A reader sleeps in its critical section. The waiter sleeps until the grace
 * period has ended, which the reader holds up. (Sleepable RCU: a reader of plain
 * RCU must not sleep.)
 *
 *   waiter				reader
 *					srcu_read_lock
 *   synchronize_srcu: sleeps
 *					(0.5 s later) srcu_read_unlock
 *
 * Repaired: unlock at once.
 */
#include <linux/srcu.h>

#include "gallery.h"

enum { READS = 1, WAITS };

DEFINE_STATIC_SRCU(long_srcu);

static int grace_waiter(void)
{
	gallery_await(READS);
	gallery_reach(WAITS);
	synchronize_srcu(&long_srcu);
	return 0;
}

static int grace_reader(void)
{
	int index = srcu_read_lock(&long_srcu);

	gallery_reach(READS);
	gallery_await(WAITS);
	if (!gallery_fixed) {
		schedule_timeout_uninterruptible(2 * GALLERY_PATIENCE);
		gallery_judge();
	}
	srcu_read_unlock(&long_srcu, index);
	return 0;
}

const struct gallery_entry gallery_long_reader = {
	.name = "long-reader",
	.roles = {
		[WAITER] = { "waiter", grace_waiter },
		[WAKER] = { "reader", grace_reader },
	},
};
