// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A thread sleeps for something else while it holds a lock.
 *
 *   waiter			waker			breaker
 *				locks
 *   locks, sleeps
 *				waits for an event
 *							a signal for waiter
 *   leaves: -EINTR
 *
 * Repaired: the holder unlocks before it sleeps. There are three entries, for
 * a mutex, for a semaphore that is held for writing, and for an rt_mutex.
 */
#include <linux/mutex.h>
#include <linux/rtmutex.h>
#include <linux/rwsem.h>
#include <linux/sched/signal.h>

#include "gallery.h"

enum { HELD = 1 };

static DECLARE_WAIT_QUEUE_HEAD(kept_queue);
static DEFINE_MUTEX(kept_mutex);
static DECLARE_RWSEM(kept_rwsem);
static DEFINE_RT_MUTEX(kept_rt_mutex);

static int kept_mutex_wait(void)
{
	int ret;

	gallery_await(HELD);
	allow_signal(SIGUSR1);
	ret = mutex_lock_interruptible(&kept_mutex);
	if (!ret)
		mutex_unlock(&kept_mutex);
	return ret;
}

static int kept_rwsem_wait(void)
{
	int ret;

	gallery_await(HELD);
	allow_signal(SIGUSR1);
	ret = down_read_interruptible(&kept_rwsem);
	if (!ret)
		up_read(&kept_rwsem);
	return ret;
}

static int kept_rt_mutex_wait(void)
{
	int ret;

	gallery_await(HELD);
	allow_signal(SIGUSR1);
	ret = rt_mutex_lock_interruptible(&kept_rt_mutex);
	if (!ret)
		rt_mutex_unlock(&kept_rt_mutex);
	return ret;
}

/* Sleeps until nothing comes, with the lock or without it. */
static int kept_hold(void (*unlock)(void))
{
	int ret;

	gallery_reach(HELD);
	gallery_await_blocked(WAITER);
	if (gallery_fixed)
		unlock();
	ret = gallery_wait(&kept_queue, false, 2 * GALLERY_PATIENCE);
	if (!gallery_fixed)
		unlock();
	return ret;
}

static void kept_mutex_unlock(void)
{
	mutex_unlock(&kept_mutex);
}

static int kept_mutex_hold(void)
{
	mutex_lock(&kept_mutex);
	return kept_hold(kept_mutex_unlock);
}

static void kept_rwsem_unlock(void)
{
	up_write(&kept_rwsem);
}

static int kept_rwsem_hold(void)
{
	down_write(&kept_rwsem);
	return kept_hold(kept_rwsem_unlock);
}

static void kept_rt_mutex_unlock(void)
{
	rt_mutex_unlock(&kept_rt_mutex);
}

static int kept_rt_mutex_hold(void)
{
	rt_mutex_lock(&kept_rt_mutex);
	return kept_hold(kept_rt_mutex_unlock);
}

static int kept_break(void)
{
	return gallery_interrupt(WAITER, SIGUSR1);
}

const struct gallery_entry gallery_mutex_kept = {
	.name = "mutex-kept",
	.roles = {
		[WAITER] = { "waiter", kept_mutex_wait },
		[WAKER] = { "waker", kept_mutex_hold },
		[WAITER_2] = { "breaker", kept_break },
	},
};

const struct gallery_entry gallery_rwsem_kept = {
	.name = "rwsem-kept",
	.roles = {
		[WAITER] = { "waiter", kept_rwsem_wait },
		[WAKER] = { "waker", kept_rwsem_hold },
		[WAITER_2] = { "breaker", kept_break },
	},
};

const struct gallery_entry gallery_rt_mutex_kept = {
	.name = "rt-mutex-kept",
	.roles = {
		[WAITER] = { "waiter", kept_rt_mutex_wait },
		[WAKER] = { "waker", kept_rt_mutex_hold },
		[WAITER_2] = { "breaker", kept_break },
	},
};
