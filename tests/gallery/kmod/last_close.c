// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Readers sleep exclusively, since each message is for one of them. The end of all
 * messages is for all of them, but wakes only the first.
 *
 *   waiter		waiter-2		waker
 *   sleeps		sleeps
 *						publish the end, wake one: waiter
 *   leaves: the end
 *			sleeps on
 *
 * Repaired: the end wakes all.
 *
 * Upstream: 6551d5c56eb0 ("pipe: make sure to wake up everybody when the last
 * reader/writer closes"). No reader takes the end; it stays published. So the verdict
 * sees a wake-up that ends with the first reader. If each reader had woken the next
 * one, that would have been a repair, too.
 */
#include "gallery.h"

static DECLARE_WAIT_QUEUE_HEAD(reader_queue);

static int reader(void)
{
	long patience = GALLERY_PATIENCE;
	DEFINE_WAIT(wait);

	for (;;) {
		prepare_to_wait_exclusive(&reader_queue, &wait,
					  TASK_INTERRUPTIBLE);
		if (gallery_ready() || !patience)
			break;
		patience = schedule_timeout(patience);
	}
	finish_wait(&reader_queue, &wait);
	return patience ? 0 : -ETIMEDOUT;
}

static int reader_2(void)
{
	gallery_await_asleep(WAITER);
	return reader();
}

static int reader_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_await_asleep(WAITER_2);
	gallery_publish();
	if (gallery_fixed)
		wake_up_all(&reader_queue);
	else
		wake_up(&reader_queue);
	return 0;
}

const struct gallery_entry gallery_last_close = {
	.name = "last-close",
	.roles = {
		[WAITER] = { "waiter", reader },
		[WAKER] = { "waker", reader_waker },
		[WAITER_2] = { "waiter-2", reader_2 },
	},
};
