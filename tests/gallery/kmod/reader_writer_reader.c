// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A reader takes a semaphore again while a writer waits for it. The second
 * reader of a semaphore waits for the writer, and the writer for the first.
 *
 *   waiter			waker			breaker
 *				locks for reading
 *   locks for writing: sleeps
 *				locks for reading: sleeps
 *							kills waiter's wait
 *   leaves: -EINTR
 *				gets the lock
 *
 * Repaired: the reader does not lock again. With PREEMPT_RT a second reader
 * does not wait for a waiting writer, so there the entry has no bug.
 */
#include <linux/rwsem.h>
#include <linux/sched/signal.h>

#include "gallery.h"

enum { READING = 1 };

static DECLARE_RWSEM(nested_rwsem);

static int nested_writer(void)
{
	int ret;

	allow_signal(SIGKILL);
	gallery_await(READING);
	ret = down_write_killable(&nested_rwsem);
	if (!ret)
		up_write(&nested_rwsem);
	return ret;
}

static int nested_reader(void)
{
	down_read(&nested_rwsem);
	gallery_reach(READING);
	gallery_await_blocked(WAITER);
	if (!gallery_fixed) {
		down_read(&nested_rwsem);
		up_read(&nested_rwsem);
	}
	up_read(&nested_rwsem);
	return 0;
}

static int nested_breaker(void)
{
	return gallery_interrupt(WAITER, SIGKILL);
}

const struct gallery_entry gallery_reader_writer_reader = {
	.name = "reader-writer-reader",
	.roles = {
		[WAITER] = { "waiter", nested_writer },
		[WAKER] = { "waker", nested_reader },
		[WAITER_2] = { "breaker", nested_breaker },
	},
};
