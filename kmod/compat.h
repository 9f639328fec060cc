/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Where kernels differ: each entry names the commit that made the difference.
 * Nothing else in these modules asks for the kernel's version.
 */

#ifndef KFI_COMPAT_H
#define KFI_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/irqflags.h>
#include <linux/preempt.h>
#include <linux/version.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>

/**
 * kfi_hrtimer_setup() - prepare a timer and say what it calls
 * @timer: to be prepared
 * @function: called when it expires
 * @clock: what it goes by
 * @mode: how it is going to be started
 *
 * 908a1d775422 (6.13) made one call of two steps, and 9779489a31d7 (6.15) removed the
 * first of them. The name is ours since the call may come to older kernels, too.
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
 * @timer: to be prepared; destroy_hrtimer_on_stack() ends it
 * @function: called when it expires
 * @clock: what it goes by
 * @mode: how it is going to be started
 *
 * 444cb7db4c9f (6.13) has made one call of two steps here, too.
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
 * PREEMPT_RT: d2d6422f8bd1 (6.12), kernels with its patches before. Spin locks
 * sleep there, so that none may be taken with preemption or interrupts off; and
 * interrupt handlers and softirqs are threads, which interrupt nobody.
 */

/**
 * kfi_preempt_off() - stay on this CPU, in front of others, if that is possible
 *
 * What may be done under a spin lock may be done until kfi_preempt_on(), also to
 * take one. On PREEMPT_RT this does nothing: nobody's data may depend on it.
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
 * kfi_irqs_off() - nothing else runs in this thread
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
 * @flags: what that has returned
 *
 * Context: any.
 */
static inline void kfi_irqs_on(unsigned long flags)
{
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		local_irq_restore(flags);
}

/**
 * kfi_trace() - pass a tracepoint, from which no other thread takes the CPU away
 * @event: its name, and what it gets behind that
 *
 * Before a46023d5616e (7.0) preemption was off in each of them. A program of a tracer
 * that is entered on a CPU where it is at work already is skipped, and without that a
 * thread could lose its CPU to another one within it.
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
 * The flag of a work queue whose items run on the CPU that queued them: without a flag
 * that was so before 930c2ea566af (6.17), and is warned of later.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0)
#define KFI_WQ_PERCPU WQ_PERCPU
#else
#define KFI_WQ_PERCPU 0
#endif

/**
 * kfi_mr_room() - what to ask of ib_alloc_mr()
 * @ib: the device
 * @pages: to be registered at once
 *
 * Before 592627ccbdff (6.3) rxe keeps pages in maps of 256, and looks at what is behind
 * the last map when a region that fills all of them has been read to its end: one page
 * more, and it is never full.
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

#endif /* KFI_COMPAT_H */
