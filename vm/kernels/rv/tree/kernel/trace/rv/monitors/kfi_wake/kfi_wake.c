// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Monitor kfi_wake: turns the tracepoints of kfabric into the events of the automaton
 * in kfi_wake.h.
 *
 * A publication and its wake-ups are one section under the queue's lock with interrupts
 * off, so no other publication comes between them on the same CPU. With PREEMPT_RT the
 * lock sleeps and this does not hold.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/rv.h>
#include <linux/tracepoint.h>
#include <rv/da_monitor.h>

#include <trace/events/rv.h>

#include "kfi_wake.h"
#include "../kfi_probes.h"
#include "kfi_wake_probes.h"

static struct rv_monitor rv_kfi_wake;
DECLARE_DA_MON_PER_CPU(kfi_wake, unsigned char);

/**
 * struct kfi_wake_last - the last publication on a CPU
 * @seq: its number on the queue
 * @queue: id of the queue
 * @why: its reason
 */
struct kfi_wake_last {
	u64 seq;
	u32 queue;
	u32 why;
};

static DEFINE_PER_CPU(struct kfi_wake_last, kfi_wake_last);

static void handle_signal(void *data, u32 queue, u32 source, u32 why, u64 seq,
			  u64 have, u32 sleepers)
{
	*this_cpu_ptr(&kfi_wake_last) = (struct kfi_wake_last){
		.seq = seq,
		.queue = queue,
		.why = why,
	};
	da_handle_start_run_event_kfi_wake(sleepers ? publish_kfi_wake :
						      publish_none_kfi_wake);
}

static void handle_wake(void *data, u32 queue, u32 source, u32 why, u64 seq,
			pid_t pid)
{
	const struct kfi_wake_last *last = this_cpu_ptr(&kfi_wake_last);

	if (last->queue != queue || last->seq != seq || last->why != why)
		da_handle_event_kfi_wake(leave_kfi_wake);
	da_handle_event_kfi_wake(wake_kfi_wake);
}

static void kfi_wake_forget(void)
{
	da_monitor_reset_all_kfi_wake();
}

static struct kfi_probes kfi_wake_attached = {
	.monitor = "kfi_wake",
	.probes = kfi_wake_probes,
	.n = ARRAY_SIZE(kfi_wake_probes),
	.forget = kfi_wake_forget,
};

static int enable_kfi_wake(void)
{
	int ret;

	ret = da_monitor_init_kfi_wake();
	if (ret)
		return ret;
	return kfi_probes_enable(&kfi_wake_attached);
}

static void disable_kfi_wake(void)
{
	rv_kfi_wake.enabled = 0;
	kfi_probes_disable(&kfi_wake_attached);
	da_monitor_destroy_kfi_wake();
}

static struct rv_monitor rv_kfi_wake = {
	.name = "kfi_wake",
	.description = "kfabric: a wake-up is part of a publication that found sleepers.",
	.enable = enable_kfi_wake,
	.disable = disable_kfi_wake,
	.reset = da_monitor_reset_all_kfi_wake,
	.enabled = 0,
};

static int __init register_kfi_wake(void)
{
	return rv_register_monitor(&rv_kfi_wake);
}
device_initcall(register_kfi_wake);
