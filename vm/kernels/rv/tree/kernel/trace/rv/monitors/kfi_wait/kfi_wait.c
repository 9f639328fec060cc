// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Monitor kfi_wait: turns the tracepoints of kfabric into the events of the automaton
 * in kfi_wait.h.
 *
 * DOC: Which calls a publication owes a wake-up
 *
 * "signal" has the number of threads that are asleep on the queue. If as many blocking
 * calls are in progress there, then each of them is asleep, and the publication owes a
 * wake-up to each that it concerns. If more calls are in progress, it is unknown which
 * of them are asleep, and nothing is owed to any.
 *
 * Only wait_end shows whether the call's last look covered the publication (@seen): then
 * it need not be woken.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/rv.h>
#include <linux/sched/signal.h>
#include <linux/tracepoint.h>
#include <rv/da_monitor.h>

#include <trace/events/rv.h>

#include "kfi_wait.h"
#include "../kfi_probes.h"
#include "kfi_wait_probes.h"

static struct rv_monitor rv_kfi_wait;
DECLARE_DA_MON_PER_TASK(kfi_wait, unsigned char);

/* Reasons that concern every thread, as kfabric's tracepoints number them. */
#define KFI_WAIT_FOR_ALL (BIT(3) | BIT(5) | BIT(7) | BIT(8))

#define KFI_WAIT_CALLS 256

/**
 * struct kfi_wait_call - a blocking call in progress
 * @task: its thread; NULL: a free entry. It cannot end during the call.
 * @need: the least amount that wakes it
 * @due: number of the last publication that owes it a wake-up; 0: none
 * @queue: id of the queue
 * @exclusive: a publication wakes only one of the exclusive calls
 */
struct kfi_wait_call {
	struct task_struct *task;
	u64 need;
	u64 due;
	u32 queue;
	bool exclusive;
};

/* Protects what follows. Taken in any context, also under the locks of kfabric. */
static DEFINE_RAW_SPINLOCK(kfi_wait_lock);
static struct kfi_wait_call kfi_wait_calls[KFI_WAIT_CALLS];

/* Queues from this id on are watched: each of their calls is known. 0: none yet. */
static u32 kfi_wait_first;

static bool kfi_wait_watched(u32 queue)
{
	return kfi_wait_first && queue >= kfi_wait_first;
}

/* The call of a thread, or with NULL a free entry. */
static struct kfi_wait_call *kfi_wait_call_of(const struct task_struct *task)
{
	unsigned int i;

	for (i = 0; i < KFI_WAIT_CALLS; i++)
		if (kfi_wait_calls[i].task == task)
			return &kfi_wait_calls[i];
	return NULL;
}

static void kfi_wait_forget(void)
{
	memset(kfi_wait_calls, 0, sizeof(kfi_wait_calls));
	kfi_wait_first = 0;
}

static void handle_object_new(void *data, u32 id, u32 fclass, u32 parent)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&kfi_wait_lock, flags);
	if (!kfi_wait_first && da_monitor_enabled_kfi_wait())
		kfi_wait_first = id;
	raw_spin_unlock_irqrestore(&kfi_wait_lock, flags);
}

static void kfi_wait_event(struct task_struct *task, enum events_kfi_wait event)
{
	struct da_monitor *monitor = da_get_monitor_kfi_wait(task);

	lockdep_assert_held(&kfi_wait_lock);
	if (event == begin_kfi_wait && !da_monitoring_kfi_wait(monitor))
		da_monitor_start_kfi_wait(monitor);
	da_handle_event_kfi_wait(task, event);
}

static void handle_wait_begin(void *data, u32 queue, u32 fclass, u64 need,
			      bool exclusive)
{
	struct kfi_wait_call *call;
	unsigned long flags;

	raw_spin_lock_irqsave(&kfi_wait_lock, flags);
	if (!kfi_wait_watched(queue))
		goto out;
	call = kfi_wait_call_of(current) ?: kfi_wait_call_of(NULL);
	if (!call) {
		/* A call is unknown from now on. Later queues are watched. */
		kfi_wait_first = queue + 1;
		goto out;
	}
	*call = (struct kfi_wait_call){
		.task = current,
		.need = need,
		.queue = queue,
		.exclusive = exclusive,
	};
	kfi_wait_event(current, begin_kfi_wait);
out:
	raw_spin_unlock_irqrestore(&kfi_wait_lock, flags);
}

/* Calls in progress on a queue, and how many of them are exclusive. */
static unsigned int kfi_wait_count(u32 queue, unsigned int *exclusive)
{
	const struct kfi_wait_call *call;
	unsigned int n = 0;

	lockdep_assert_held(&kfi_wait_lock);
	*exclusive = 0;
	for (call = kfi_wait_calls; call < kfi_wait_calls + KFI_WAIT_CALLS; call++) {
		if (!call->task || call->queue != queue)
			continue;
		n++;
		*exclusive += call->exclusive;
	}
	return n;
}

/* Of several exclusive calls it is unknown which of them is to be woken. */
static bool kfi_wait_concerns(const struct kfi_wait_call *call, u32 why, u64 have,
			      unsigned int exclusive)
{
	if (KFI_WAIT_FOR_ALL & BIT(why))
		return true;
	return call->need <= have && (!call->exclusive || exclusive == 1);
}

static void handle_signal(void *data, u32 queue, u32 source, u32 why, u64 seq,
			  u64 have, u32 sleepers)
{
	struct kfi_wait_call *call;
	unsigned int exclusive;
	unsigned long flags;

	raw_spin_lock_irqsave(&kfi_wait_lock, flags);
	if (!sleepers || !kfi_wait_watched(queue) ||
	    kfi_wait_count(queue, &exclusive) != sleepers)
		goto out;
	for (call = kfi_wait_calls; call < kfi_wait_calls + KFI_WAIT_CALLS; call++) {
		if (!call->task || call->queue != queue ||
		    !kfi_wait_concerns(call, why, have, exclusive))
			continue;
		/* No look covers a wake-up without a number. */
		call->due = max(call->due, seq ?: U64_MAX);
		kfi_wait_event(call->task, publish_kfi_wait);
	}
out:
	raw_spin_unlock_irqrestore(&kfi_wait_lock, flags);
}

static void handle_wake(void *data, u32 queue, u32 source, u32 why, u64 seq,
			pid_t pid)
{
	struct kfi_wait_call *call;
	unsigned long flags;

	raw_spin_lock_irqsave(&kfi_wait_lock, flags);
	for (call = kfi_wait_calls; call < kfi_wait_calls + KFI_WAIT_CALLS; call++) {
		if (!call->task || call->task->pid != pid || call->queue != queue)
			continue;
		call->due = 0;
		if (kfi_wait_watched(queue))
			kfi_wait_event(call->task, wake_kfi_wait);
		break;
	}
	raw_spin_unlock_irqrestore(&kfi_wait_lock, flags);
}

static void handle_wait_end(void *data, u32 queue, u32 fclass, int ret, u32 why,
			    u64 seq, u64 seen, u32 source, bool ready)
{
	struct kfi_wait_call *call;
	unsigned long flags;

	raw_spin_lock_irqsave(&kfi_wait_lock, flags);
	call = kfi_wait_call_of(current);
	if (!call)
		goto out;
	if (kfi_wait_watched(queue)) {
		if (call->due && call->due <= seen)
			kfi_wait_event(current, cover_kfi_wait);
		kfi_wait_event(current, why ? end_woken_kfi_wait : end_kfi_wait);
	}
	call->task = NULL;
out:
	raw_spin_unlock_irqrestore(&kfi_wait_lock, flags);
}

static struct kfi_probes kfi_wait_attached = {
	.monitor = "kfi_wait",
	.probes = kfi_wait_probes,
	.n = ARRAY_SIZE(kfi_wait_probes),
	.forget = kfi_wait_forget,
};

static int enable_kfi_wait(void)
{
	int ret;

	ret = da_monitor_init_kfi_wait();
	if (ret)
		return ret;
	ret = kfi_probes_enable(&kfi_wait_attached);
	if (ret)
		da_monitor_destroy_kfi_wait();
	return ret;
}

static void disable_kfi_wait(void)
{
	rv_kfi_wait.enabled = 0;
	kfi_probes_disable(&kfi_wait_attached);
	da_monitor_destroy_kfi_wait();
}

/* What happened in between is unknown: begin with the next new queue. */
static void reset_kfi_wait(void)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&kfi_wait_lock, flags);
	kfi_wait_forget();
	raw_spin_unlock_irqrestore(&kfi_wait_lock, flags);
	da_monitor_reset_all_kfi_wait();
}

static struct rv_monitor rv_kfi_wait = {
	.name = "kfi_wait",
	.description = "kfabric: a call that a publication found asleep is woken.",
	.enable = enable_kfi_wait,
	.disable = disable_kfi_wait,
	.reset = reset_kfi_wait,
	.enabled = 0,
};

static int __init register_kfi_wait(void)
{
	return rv_register_monitor(&rv_kfi_wait);
}
device_initcall(register_kfi_wait);
