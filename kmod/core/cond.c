// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * KFI_WAIT_MUTEX_COND: a mutex for the ULP's own state, and a condition that is
 * the object's readiness.
 *
 * DOC: Why no publication falls between the mutex and the sleep
 *
 *	ULP's other thread		waiter
 *	------------------		------
 *	mutex_lock(): waits		holds the mutex; its predicate is false
 *					enqueues; mutex_unlock()
 *	gets it; changes the state;
 *	mutex_unlock(); kfi_cq_signal():
 *	finds the waiter, marks it	sees the mark; mutex_lock(); returns 0
 *
 * The waiter is on the queue before it releases the mutex. It sees every earlier
 * publication itself: the condition is the object's state, not an event. No
 * publication takes the mutex.
 */
#include <kfi_eq.h>

#include "core.h"

/**
 * kfi_cond_wait() - wait on the condition of a KFI_WAIT_MUTEX_COND object
 * @cond: from KFI_GETWAIT
 * @timeout: milliseconds; 0: one check, negative: no limit
 *
 * Releases the mutex that came with @cond, waits, and takes the mutex again. As
 * with any condition, the caller then checks its own predicate, and waits again if
 * it must.
 *
 * Context: process, may sleep; the caller holds the mutex, on return too.
 * Return: as kfi_wait().
 */
int kfi_cond_wait(struct kfi_cond *cond, int timeout)
{
	struct kfi_waitq *q = container_of(cond, struct kfi_waitq, cond);

	lockdep_assert_held(&cond->mutex);
	return kfi_waitq_wait(q, &cond->mutex, kfi_deadline(timeout));
}
EXPORT_SYMBOL_GPL(kfi_cond_wait);
