// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The hooks and faults of the test-option build; see kfi_test.h. Not compiled into
 * the production build.
 *
 * A hook stops a thread where it is, whatever its task state and its context: the
 * thread spins until it is released, or for KFI_HOOK_SPIN_S at most. At D7 to D10 and
 * D12 to D14 it sleeps instead, for KFI_HOOK_SLEEP_S at most. It may hold a mutex
 * there, and a thread that waits for the mutex of a running owner spins as well, on the
 * other CPU. Only code that may sleep reaches these, but for D13, which is also on the
 * way of posts that may not: a test that arms it posts from a process.
 */
#include <linux/delay.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/timer.h>

#include "core.h"

#define KFI_HOOK_SPIN_S 10
/* A guest panics if a thread waits for a mutex for 90 s. */
#define KFI_HOOK_SLEEP_S 60

enum kfi_hook_state { KFI_HOOK_IDLE, KFI_HOOK_ARMED, KFI_HOOK_STOPPED };

struct kfi_hook_point {
	atomic_t state;
	u32 id;
};

static struct kfi_hook_point kfi_hooks[KFI_HOOK_MAX];

/* Members of poll sets looked at by kfi_poll(). */
static atomic64_t kfi_looks;

/* Protects arming of faults, and the list of queues. Taken before a queue's lock. */
static DEFINE_SPINLOCK(kfi_test_lock);
static LIST_HEAD(kfi_test_queues);

static struct {
	enum kfi_fault fault;
	u32 queue;
	u64 arg;
} kfi_armed;

static struct {
	struct timer_list timer;
	struct kfi_waitq *queue;
	struct kfi_wake wake;
} kfi_late;

static bool kfi_hook_valid(enum kfi_hook hook)
{
	return hook >= KFI_HOOK_D1 && hook < KFI_HOOK_MAX;
}

/**
 * kfi_test_hook_arm() - the next thread at this point stops
 * @hook: the point
 * @id: of the object that it is about; 0: any object
 *
 * Context: any; takes no lock.
 * Return: 0; -EINVAL; -EBUSY if a thread is stopped there.
 */
int kfi_test_hook_arm(enum kfi_hook hook, u32 id)
{
	if (!kfi_hook_valid(hook))
		return -EINVAL;
	if (atomic_read(&kfi_hooks[hook].state) == KFI_HOOK_STOPPED)
		return -EBUSY;
	kfi_hooks[hook].id = id;
	atomic_set_release(&kfi_hooks[hook].state, KFI_HOOK_ARMED);
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_test_hook_arm);

/**
 * kfi_test_hook_go() - release the thread that is stopped at a point
 * @hook: the point
 *
 * Context: any; takes no lock.
 * Return: 0; -EINVAL; -ENOENT if no thread is stopped there: then the point is
 * disarmed.
 */
int kfi_test_hook_go(enum kfi_hook hook)
{
	if (!kfi_hook_valid(hook))
		return -EINVAL;
	return atomic_xchg(&kfi_hooks[hook].state, KFI_HOOK_IDLE) ==
			       KFI_HOOK_STOPPED ? 0 : -ENOENT;
}
EXPORT_SYMBOL_GPL(kfi_test_hook_go);

/**
 * kfi_test_hook_stopped() - is a thread stopped at a point?
 * @hook: the point
 *
 * Context: any; takes no lock.
 * Return: true if one is.
 */
bool kfi_test_hook_stopped(enum kfi_hook hook)
{
	return kfi_hook_valid(hook) &&
	       atomic_read(&kfi_hooks[hook].state) == KFI_HOOK_STOPPED;
}
EXPORT_SYMBOL_GPL(kfi_test_hook_stopped);

static bool kfi_hook_sleeps(enum kfi_hook hook)
{
	return hook >= KFI_HOOK_D7 && hook != KFI_HOOK_D11;
}

static void kfi_hook_pause(enum kfi_hook hook)
{
	if (kfi_hook_sleeps(hook))
		usleep_range(1000, 2000);
	else
		cpu_relax();
}

/**
 * kfi_test_hook_point() - a place where a thread can be made to stop
 * @hook: the point
 * @id: of the object at hand
 *
 * Context: any; at D7 to D10 and D12 to D14 process context, may sleep. Takes no lock.
 */
void kfi_test_hook_point(enum kfi_hook hook, u32 id)
{
	struct kfi_hook_point *point = &kfi_hooks[hook];
	unsigned int seconds = kfi_hook_sleeps(hook) ? KFI_HOOK_SLEEP_S :
						       KFI_HOOK_SPIN_S;
	ktime_t limit;

	if (likely(atomic_read_acquire(&point->state) != KFI_HOOK_ARMED))
		return;
	if (point->id && point->id != id)
		return;
	if (atomic_cmpxchg(&point->state, KFI_HOOK_ARMED, KFI_HOOK_STOPPED) !=
	    KFI_HOOK_ARMED)
		return;

	limit = ktime_add_ms(ktime_get(), seconds * MSEC_PER_SEC);
	while (atomic_read(&point->state) == KFI_HOOK_STOPPED) {
		if (ktime_get() > limit) {
			atomic_set(&point->state, KFI_HOOK_IDLE);
			return;
		}
		kfi_hook_pause(hook);
	}
}
EXPORT_SYMBOL_GPL(kfi_test_hook_point);

/**
 * kfi_test_look() - kfi_poll() looks at one member
 *
 * Context: any; takes no lock.
 */
void kfi_test_look(void)
{
	atomic64_inc(&kfi_looks);
}

/**
 * kfi_test_looks() - the cost of polling so far
 *
 * Context: any; takes no lock.
 * Return: members of poll sets that kfi_poll() has looked at, in all.
 */
u64 kfi_test_looks(void)
{
	return atomic64_read(&kfi_looks);
}
EXPORT_SYMBOL_GPL(kfi_test_looks);

/**
 * kfi_test_queue_add() - make a queue known to the faults
 * @q: the queue
 *
 * Context: process, interrupts on; takes kfi_test_lock.
 */
void kfi_test_queue_add(struct kfi_waitq *q)
{
	spin_lock_irq(&kfi_test_lock);
	list_add_tail(&q->test_link, &kfi_test_queues);
	spin_unlock_irq(&kfi_test_lock);
}

/**
 * kfi_test_queue_del() - the mirror of kfi_test_queue_add()
 * @q: the queue; a wake-up of it that was held back is dropped
 *
 * Context: process, interrupts on; takes kfi_test_lock.
 */
void kfi_test_queue_del(struct kfi_waitq *q)
{
	spin_lock_irq(&kfi_test_lock);
	list_del(&q->test_link);
	if (kfi_late.queue == q)
		kfi_late.queue = NULL;
	spin_unlock_irq(&kfi_test_lock);
}

/* The caller holds kfi_test_lock, which also keeps the queue. */
static struct kfi_waitq *kfi_test_find(u32 id)
{
	struct kfi_waitq *q;

	lockdep_assert_held(&kfi_test_lock);
	list_for_each_entry(q, &kfi_test_queues, test_link)
		if (q->id == id)
			return q;
	return NULL;
}

/* Timer: make the wake-up that was held back. */
static void kfi_test_late(struct timer_list *timer)
{
	struct kfi_waitq *q;
	unsigned long flags;

	spin_lock_irqsave(&kfi_test_lock, flags);
	q = kfi_late.queue;
	if (q) {
		spin_lock(&q->head.lock);
		kfi_waitq_walk(q, &kfi_late.wake);
		spin_unlock(&q->head.lock);
	}
	kfi_late.queue = NULL;
	spin_unlock_irqrestore(&kfi_test_lock, flags);
}

/* Wake every waiter of a queue although nothing was published. */
static int kfi_test_spurious(u32 queue)
{
	struct kfi_wake wake = {
		.why = KFI_WHY_EVENT,
		.all = true,
	};
	struct kfi_waitq *q;

	spin_lock_irq(&kfi_test_lock);
	q = kfi_test_find(queue);
	if (q) {
		spin_lock(&q->head.lock);
		kfi_waitq_walk(q, &wake);
		spin_unlock(&q->head.lock);
	}
	spin_unlock_irq(&kfi_test_lock);
	return q ? 0 : -ENOENT;
}

/**
 * kfi_test_fault_arm() - make the wait core, or a device, misbehave once
 * @fault: the fault; KFI_FAULT_NONE disarms
 * @queue: id of the queue; KFI_FAULT_STALL: of the endpoint
 * @arg: KFI_FAULT_LATE: milliseconds
 *
 * KFI_FAULT_SPURIOUS happens at once, the others at the next publication on a queue
 * with sleepers.
 *
 * Context: process, interrupts on; takes kfi_test_lock, and under it the queue's lock.
 * Return: 0; -EINVAL; -ENOENT for an unknown queue.
 */
int kfi_test_fault_arm(enum kfi_fault fault, u32 queue, u64 arg)
{
	int ret = 0;

	if (fault >= KFI_FAULT_MAX)
		return -EINVAL;
	if (fault == KFI_FAULT_SPURIOUS)
		return kfi_test_spurious(queue);

	spin_lock_irq(&kfi_test_lock);
	if (fault != KFI_FAULT_NONE && fault != KFI_FAULT_STALL &&
	    !kfi_test_find(queue)) {
		ret = -ENOENT;
	} else {
		kfi_armed.queue = queue;
		kfi_armed.arg = arg;
		WRITE_ONCE(kfi_armed.fault, fault);
	}
	spin_unlock_irq(&kfi_test_lock);
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_test_fault_arm);

/**
 * kfi_test_fault_point() - may this wake-up happen?
 * @q: the queue, with sleepers or without
 * @wake: may be changed
 *
 * Context: any; the caller holds @q->head.lock.
 * Return: true if the caller must not wake.
 */
bool kfi_test_fault_point(struct kfi_waitq *q, struct kfi_wake *wake)
{
	enum kfi_fault fault = READ_ONCE(kfi_armed.fault);

	lockdep_assert_held(&q->head.lock);
	if (fault == KFI_FAULT_NONE || kfi_armed.queue != q->id || !q->sleepers)
		return false;
	WRITE_ONCE(kfi_armed.fault, KFI_FAULT_NONE);

	switch (fault) {
	case KFI_FAULT_LOST:
		return true;
	case KFI_FAULT_LATE:
		kfi_late.wake = *wake;
		kfi_late.queue = q;
		mod_timer(&kfi_late.timer,
			  jiffies + msecs_to_jiffies(kfi_armed.arg));
		return true;
	case KFI_FAULT_HERD:
		wake->all = true;
		return false;
	default:
		return false;
	}
}

/**
 * kfi_test_stall_point() - is the device to be taken for late?
 * @id: of the endpoint, which is being closed
 *
 * Context: any; takes no lock.
 * Return: true, once, if KFI_FAULT_STALL is armed for it.
 */
bool kfi_test_stall_point(u32 id)
{
	if (READ_ONCE(kfi_armed.fault) != KFI_FAULT_STALL || kfi_armed.queue != id)
		return false;
	WRITE_ONCE(kfi_armed.fault, KFI_FAULT_NONE);
	return true;
}
EXPORT_SYMBOL_GPL(kfi_test_stall_point);

/**
 * kfi_test_init() - prepare the faults
 *
 * Context: module init.
 */
void kfi_test_init(void)
{
	timer_setup(&kfi_late.timer, kfi_test_late, 0);
}

/**
 * kfi_test_exit() - the mirror of kfi_test_init()
 *
 * Context: process, may sleep; waits for the timer.
 */
void kfi_test_exit(void)
{
	timer_shutdown_sync(&kfi_late.timer);
}
