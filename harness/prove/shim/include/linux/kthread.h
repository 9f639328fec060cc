/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_KTHREAD_H
#define PROVE_SHIM_LINUX_KTHREAD_H

#include <linux/sched.h>

/* In a thread with PROVE_KTHREAD: prove_stop() was called for it. */
static inline bool kthread_should_stop(void)
{
	return READ_ONCE(current->stop);
}

#endif /* PROVE_SHIM_LINUX_KTHREAD_H */
