/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_PREEMPT_H
#define PROVE_SHIM_LINUX_PREEMPT_H

#include <linux/compiler.h>
#include <linux/types.h>

/* May the thread not sleep? Counted for each thread; no step of its own. */
void shim_atomic_begin(void);
void shim_atomic_end(void);

#define preempt_disable()		shim_atomic_begin()
#define preempt_enable()		shim_atomic_end()
#define preempt_disable_notrace()	shim_atomic_begin()
#define preempt_enable_notrace()	shim_atomic_end()

/* In a thread of its own, not in an interrupt or a timer? */
bool in_task(void);
bool in_interrupt(void);
bool in_atomic(void);

#define in_hardirq()			in_interrupt()
#define in_softirq()			in_interrupt()

#endif /* PROVE_SHIM_LINUX_PREEMPT_H */
