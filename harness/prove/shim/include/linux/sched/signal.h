/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_SCHED_SIGNAL_H
#define PROVE_SHIM_LINUX_SCHED_SIGNAL_H

#include <linux/sched.h>

/* A thread reads its own pending signal; another thread may send it now. */
static inline int signal_pending(struct task_struct *task)
{
	return READ_ONCE(task->signal) != 0;
}

static inline int fatal_signal_pending(struct task_struct *task)
{
	return READ_ONCE(task->signal) == 2;
}

static inline int signal_pending_state(unsigned int state, struct task_struct *task)
{
	if (!(state & (TASK_INTERRUPTIBLE | TASK_WAKEKILL)))
		return 0;
	if (state & TASK_INTERRUPTIBLE)
		return signal_pending(task);
	return fatal_signal_pending(task);
}

#endif /* PROVE_SHIM_LINUX_SCHED_SIGNAL_H */
