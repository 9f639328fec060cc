// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * How much one call of kfr_pump() posts: probes count the calls of rxe's function
 * for posting that its thread makes meanwhile.
 */
#include <linux/kprobes.h>

#include "hostile.h"

#define RT_PUMP_MAX	16	/* KFR_PUMP_MAX */
#define RT_QUEUED	200	/* sends that wait for the connection */

static struct {
	raw_spinlock_t lock;			/* the rest */
	struct kretprobe_instance *call;	/* is being counted, or NULL */
	struct task_struct *thread;		/* it runs here */
	unsigned int posted;			/* since it began */
	unsigned int most;			/* of all calls so far */
} rt_meter = {
	.lock = __RAW_SPIN_LOCK_UNLOCKED(rt_meter.lock),
};

static int rt_pump_begins(struct kretprobe_instance *call, struct pt_regs *regs)
{
	unsigned long irq;

	raw_spin_lock_irqsave(&rt_meter.lock, irq);
	if (!rt_meter.call) {
		rt_meter.call = call;
		rt_meter.thread = current;
		rt_meter.posted = 0;
	}
	raw_spin_unlock_irqrestore(&rt_meter.lock, irq);
	return 0;
}

static int rt_pump_ends(struct kretprobe_instance *call, struct pt_regs *regs)
{
	unsigned long irq;

	raw_spin_lock_irqsave(&rt_meter.lock, irq);
	if (rt_meter.call == call) {
		rt_meter.call = NULL;
		rt_meter.most = max(rt_meter.most, rt_meter.posted);
	}
	raw_spin_unlock_irqrestore(&rt_meter.lock, irq);
	return 0;
}

static int rt_pump_posts(struct kprobe *probe, struct pt_regs *regs)
{
	unsigned long irq;

	raw_spin_lock_irqsave(&rt_meter.lock, irq);
	if (rt_meter.call && rt_meter.thread == current)
		rt_meter.posted++;
	raw_spin_unlock_irqrestore(&rt_meter.lock, irq);
	return 0;
}

/* What has been queued while there was no connection is posted when there is one. */
static int rt_pump_count(struct rt *rt, struct rt_hostile *h)
{
	struct kretprobe pump = {
		.kp.symbol_name = "kfr_pump",
		.entry_handler = rt_pump_begins,
		.handler = rt_pump_ends,
		.maxactive = 64,
	};
	struct kprobe post = {
		.symbol_name = "rxe_post_send",
		.pre_handler = rt_pump_posts,
	};
	int err;

	rt_meter.most = 0;
	err = register_kretprobe(&pump);
	if (err)
		return err;
	err = register_kprobe(&post);
	if (!err) {
		err = rt_hostile_accept(h);
		if (!err)
			err = rt_hostile_hears(h, RT_WIRES);
		unregister_kprobe(&post);
	}
	unregister_kretprobe(&pump);
	return err;
}

static void rt_pump_run(struct rt *rt, struct rt_hostile *h)
{
	kfi_addr_t addr;
	unsigned int i;

	RT_EQ(rt, rt_know(&rt->a, &addr), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	for (i = 0; i < RT_QUEUED; i++)
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, addr, NULL),
		      0);
	RT_EQ(rt, rt_pump_count(rt, h), 0);
	RT_CHECK(rt, rt_meter.most > 0);
	RT_CHECK(rt, rt_meter.most <= RT_PUMP_MAX);
	RT_EQ(rt, rt_talk(rt), 0);
}

/* The rest is left to a work item. */
static void rt_pump_budget(struct rt *rt)
{
	rt_listening(rt, rt_pump_run);
}

const struct rt_case rt_pump_cases[] = {
	{ "pump_budget", rt_pump_budget },
	{ }
};
