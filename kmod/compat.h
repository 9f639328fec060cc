/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Differences between kernel versions. Each entry cites the commit that made the
 * difference. No other file of these modules checks the kernel's version.
 */

#ifndef KFI_COMPAT_H
#define KFI_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/lockdep.h>
#include <linux/mm.h>
#include <linux/preempt.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

/**
 * kfi_hrtimer_setup() - prepare a timer and set its function
 * @timer: the timer
 * @function: called when it expires
 * @clock: its clock
 * @mode: the mode with which it will be started
 *
 * 908a1d775422 (6.13) merged two calls into one, and 9779489a31d7 (6.15) removed the
 * first of the two. The name is ours since the new call may come to older kernels, too.
 *
 * Context: any; takes no lock.
 */
static inline void kfi_hrtimer_setup(struct hrtimer *timer,
				     enum hrtimer_restart (*function)(struct hrtimer *),
				     clockid_t clock, enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup(timer, function, clock, mode);
#else
	hrtimer_init(timer, clock, mode);
	timer->function = function;
#endif
}

/**
 * kfi_hrtimer_setup_on_stack() - prepare a timer that lives on the stack
 * @timer: the timer; destroy_hrtimer_on_stack() ends it
 * @function: called when it expires
 * @clock: its clock
 * @mode: the mode with which it will be started
 *
 * 444cb7db4c9f (6.13) merged two calls into one here, too.
 *
 * Context: any; takes no lock.
 */
static inline void
kfi_hrtimer_setup_on_stack(struct hrtimer *timer,
			   enum hrtimer_restart (*function)(struct hrtimer *),
			   clockid_t clock, enum hrtimer_mode mode)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
	hrtimer_setup_on_stack(timer, function, clock, mode);
#else
	hrtimer_init_on_stack(timer, clock, mode);
	timer->function = function;
#endif
}

/*
 * PREEMPT_RT: d2d6422f8bd1 (6.12); earlier in kernels with its patches. Spinlocks sleep
 * there, so none may be taken with preemption or interrupts off. Interrupt handlers and
 * softirqs are threads there and interrupt no other thread.
 */

/**
 * kfi_preempt_off() - keep the thread on this CPU and running, where that is possible
 *
 * Until kfi_preempt_on() the caller may do what a spinlock's holder may do, and may take
 * spinlocks. On PREEMPT_RT this does nothing: no data may depend on it.
 *
 * Context: any.
 */
static inline void kfi_preempt_off(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_disable();
}

/**
 * kfi_preempt_on() - the mirror of kfi_preempt_off()
 *
 * Context: any.
 */
static inline void kfi_preempt_on(void)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		preempt_enable();
}

/**
 * kfi_assert_preempt_off() - has the caller, or its context, turned preemption off?
 *
 * Checked on kernels with lockdep, but not on PREEMPT_RT.
 *
 * Context: any.
 */
#define kfi_assert_preempt_off()					\
	do {								\
		if (!IS_ENABLED(CONFIG_PREEMPT_RT))			\
			lockdep_assert_preemption_disabled();		\
	} while (0)

/**
 * kfi_irqs_off() - keep interrupts from running in this thread
 *
 * On PREEMPT_RT this does nothing: interrupts run in threads of their own there.
 *
 * Context: any.
 * Return: for kfi_irqs_on().
 */
static inline unsigned long kfi_irqs_off(void)
{
	unsigned long flags = 0;

	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		local_irq_save(flags);
	return flags;
}

/**
 * kfi_irqs_on() - the mirror of kfi_irqs_off()
 * @flags: its return value
 *
 * Context: any.
 */
static inline void kfi_irqs_on(unsigned long flags)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		local_irq_restore(flags);
}

/**
 * kfi_trace() - pass a tracepoint with preemption off
 * @event: its name, followed by its arguments
 *
 * Before a46023d5616e (7.0) preemption was off in every tracepoint. A tracer's program
 * is skipped if it is entered on a CPU where it is already running. So a thread that is
 * preempted inside one would make another thread's event disappear.
 *
 * Context: that of the tracepoint.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
#define kfi_trace(event, ...)						\
	do {								\
		if (trace_##event##_enabled()) {			\
			preempt_disable_notrace();			\
			trace_##event(__VA_ARGS__);			\
			preempt_enable_notrace();			\
		}							\
	} while (0)
#else
#define kfi_trace(event, ...)	trace_##event(__VA_ARGS__)
#endif

/*
 * The flag of a workqueue whose items run on the CPU that queued them. Before
 * 930c2ea566af (6.17) that was the default; later kernels warn if no flag is given.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define KFI_WQ_PERCPU WQ_PERCPU
#else
#define KFI_WQ_PERCPU 0
#endif

/**
 * kfi_mr_room() - the number of pages to request from ib_alloc_mr()
 * @ib: the device
 * @pages: pages to be registered at once
 *
 * Before 592627ccbdff (6.3) rxe keeps pages in maps of 256. When a region that fills all
 * maps has been read to its end, rxe accesses memory after the last map. With one page
 * more, the last map is never full.
 *
 * Context: any; takes no lock.
 * Return: a number of pages.
 */
static inline u32 kfi_mr_room(const struct ib_device *ib, u32 pages)
{
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
	if (ib->ops.driver_id == RDMA_DRIVER_RXE)
		return pages + 1;
#endif
	return pages;
}

/**
 * kfi_vm_flags_set() - add flags to a mapping
 * @vma: the mapping
 * @flags: VM_*
 *
 * bc292ab00f6c (6.3) made vm_flags read-only and added a function that changes them.
 *
 * Context: process; the caller holds mmap_lock for writing.
 */
static inline void kfi_vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
}

#endif /* KFI_COMPAT_H */
