// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * There are two queues, as for receiving and for sending. The waiter sleeps on
 * one, and the waker wakes the other, which is empty.
 *
 *   waiter				waker
 *   sleeps on recv_queue
 *					publish, wake send_queue
 *
 * Repaired: wake the queue that belongs to the publication.
 */
#include "gallery.h"

static DECLARE_WAIT_QUEUE_HEAD(recv_queue);
static DECLARE_WAIT_QUEUE_HEAD(send_queue);

static int wrong_queue_waiter(void)
{
	return gallery_wait(&recv_queue, false, GALLERY_PATIENCE);
}

static int wrong_queue_waker(void)
{
	gallery_await_asleep(WAITER);
	gallery_publish();
	wake_up(gallery_fixed ? &recv_queue : &send_queue);
	return 0;
}

const struct gallery_entry gallery_wrong_queue = {
	.name = "wrong-queue",
	.roles = {
		[WAITER] = { "waiter", wrong_queue_waiter },
		[WAKER] = { "waker", wrong_queue_waker },
	},
};
