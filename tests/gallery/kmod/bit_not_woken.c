// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The waiter sleeps until a bit is clear. The waker clears the bit, and does not
 * wake the sleepers of that bit.
 *
 *   waiter				waker
 *   sleeps on the bit
 *					publish, clear_bit
 *
 * Repaired: wake_up_bit after that.
 */
#include <linux/wait_bit.h>

#include "gallery.h"

enum { BUSY = 3 };

static unsigned long busy_word;

static int bit_waiter(void)
{
	set_bit(BUSY, &busy_word);
	wait_on_bit_timeout(&busy_word, BUSY, TASK_INTERRUPTIBLE,
			    GALLERY_PATIENCE);
	return gallery_consume() ? 1 : -ETIMEDOUT;
}

static int bit_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_publish();
	clear_bit_unlock(BUSY, &busy_word);
	/* wake_up_bit() looks for sleepers without a lock. */
	smp_mb__after_atomic();
	if (gallery_fixed)
		wake_up_bit(&busy_word, BUSY);
	return 0;
}

const struct gallery_entry gallery_bit_not_woken = {
	.name = "bit-not-woken",
	.roles = {
		[WAITER] = { "waiter", bit_waiter },
		[WAKER] = { "waker", bit_waker },
	},
};
