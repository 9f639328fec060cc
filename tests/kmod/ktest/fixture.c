// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* One of each object, opened and closed; and a thread to block in a call. */
#include <linux/delay.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "ktest.h"

struct kfi_info *kt_hints(void)
{
	struct kfi_info *hints = kfi_allocinfo();

	if (!hints)
		return NULL;
	hints->fabric_attr->prov_name = kstrdup("mock", GFP_KERNEL);
	if (!hints->fabric_attr->prov_name) {
		kfi_freeinfo(hints);
		return NULL;
	}
	return hints;
}

static int kt_open_fabric(struct kt *kt)
{
	struct kfi_info *hints = kt_hints();
	int err;

	if (!hints)
		return -ENOMEM;
	err = kfi_getinfo(kfi_version(), NULL, NULL, 0, hints, &kt->info);
	kfi_freeinfo(hints);
	if (err)
		return err;
	err = kfi_fabric(kt->info->fabric_attr, &kt->fabric, kt);
	if (err)
		return err;
	return kfi_domain(kt->fabric, kt->info, &kt->domain, kt);
}

static int kt_open_queues(struct kt *kt, enum kfi_wait_obj wait_obj)
{
	struct kfi_wait_attr wait_attr = {
		.wait_obj = kt->set_obj ?: KFI_WAIT_QUEUE,
	};
	struct kfi_eq_attr eq_attr = { .wait_obj = wait_obj };
	struct kfi_cntr_attr cntr_attr = { .wait_obj = wait_obj };
	struct kfi_cq_attr cq_attr = {
		.size = kt->cq_size,
		.format = KFI_CQ_FORMAT_MSG,
		.wait_obj = wait_obj,
	};
	int err;

	if (wait_obj == KFI_WAIT_SET) {
		err = kfi_wait_open(kt->fabric, &wait_attr, &kt->wait);
		if (err)
			return err;
		eq_attr.wait_set = kt->wait;
		cq_attr.wait_set = kt->wait;
		cntr_attr.wait_set = kt->wait;
	}
	err = kfi_eq_open(kt->fabric, &eq_attr, &kt->eq, kt->event_handler, kt);
	if (err)
		return err;
	err = kfi_cq_open(kt->domain, &cq_attr, &kt->cq, kt->comp_handler, kt);
	if (err)
		return err;
	return kfi_cntr_open(kt->domain, &cntr_attr, &kt->cntr, kt);
}

static int kt_open_ep(struct kt *kt)
{
	int err;

	err = kfi_endpoint(kt->domain, kt->info, &kt->ep, kt);
	if (err)
		return err;
	err = kfi_ep_bind(kt->ep, &kt->cq->fid, KFI_TRANSMIT | KFI_RECV);
	if (err)
		return err;
	err = kfi_ep_bind(kt->ep, &kt->cntr->fid, KFI_RECV);
	if (err)
		return err;
	err = kfi_enable(kt->ep);
	if (err)
		return err;
	return kfi_open_ops(&kt->ep->fid, KFI_MOCK_OPS, 0, (void **)&kt->mock,
			    NULL);
}

/* Fabric, domain, EQ (bound to nothing), CQ, counter of receives, endpoint. */
int kt_open(struct kt *kt, enum kfi_wait_obj wait_obj)
{
	int err;

	err = kt_open_fabric(kt);
	if (err)
		return err;
	err = kt_open_queues(kt, wait_obj);
	if (err)
		return err;
	return kt_open_ep(kt);
}

static void kt_close_fid(struct kt *kt, struct kfid *fid, const char *what)
{
	int err = kfi_close(fid);

	if (err) {
		seq_printf(kt->seq, "closing the %s: %d\n", what, err);
		kt->failed = true;
	}
}

void kt_close_ep(struct kt *kt)
{
	if (kt->ep)
		kt_close_fid(kt, &kt->ep->fid, "endpoint");
	kt->ep = NULL;
}

void kt_close_cq(struct kt *kt)
{
	kt_close_ep(kt);
	/* A case that failed has not acked what it got: nobody will. */
	if (kt->cq) {
		kfi_cq_discard_events(kt->cq);
		kt_close_fid(kt, &kt->cq->fid, "CQ");
	}
	kt->cq = NULL;
}

/* A case that failed may have left its members in the set. */
static void kt_close_poll(struct kt *kt)
{
	if (kt->cq)
		kfi_poll_del(kt->poll, &kt->cq->fid, 0);
	if (kt->eq)
		kfi_poll_del(kt->poll, &kt->eq->fid, 0);
	kt_close_fid(kt, &kt->poll->fid, "poll set");
}

void kt_close(struct kt *kt)
{
	int i;

	kt_stop(kt);
	for (i = 0; i < KT_HANDS; i++)
		kt_dismiss(kt, i);
	for (i = 0; i < ARRAY_SIZE(kt->prof); i++)
		if (kt->prof[i])
			kt_close_fid(kt, &kt->prof[i]->fid, "profile");
	if (kt->poll)
		kt_close_poll(kt);
	kt_close_cq(kt);
	if (kt->channel)
		kt_close_fid(kt, &kt->channel->fid, "channel");
	if (kt->cntr)
		kt_close_fid(kt, &kt->cntr->fid, "counter");
	if (kt->eq)
		kt_close_fid(kt, &kt->eq->fid, "EQ");
	if (kt->wait)
		kt_close_fid(kt, &kt->wait->kfid, "wait set");
	if (kt->domain)
		kt_close_fid(kt, &kt->domain->fid, "domain");
	if (kt->fabric)
		kt_close_fid(kt, &kt->fabric->fid, "fabric");
	kfi_freeinfo(kt->info);
}

int kt_command(struct kt *kt, const char *fmt, ...)
{
	va_list args;
	char *line;
	int err;

	va_start(args, fmt);
	line = kvasprintf(GFP_KERNEL, fmt, args);
	va_end(args);
	if (!line)
		return -ENOMEM;
	err = kt->mock->command(line);
	kfree(line);
	return err;
}

u32 kt_ep_id(const struct kt *kt)
{
	return kfi_fid_id(&kt->ep->fid);
}

/* Told to stop, and then only into the call. */
static void kt_hold(void)
{
	while (!kthread_should_stop())
		usleep_range(100, 200);
}

static int kt_thread(void *arg)
{
	struct kt *kt = arg;

	complete(&kt->started);
	if (kt->hold)
		kt_hold();
	kt->first = kt->body(kt);
	kt->second = kt->body(kt);
	return 0;
}

/**
 * kt_start() - have a kthread call something twice
 * @kt: keeps what it returned
 * @body: what to call
 * @hold: first wait to be told to stop, without sleeping
 */
int kt_start(struct kt *kt, int (*body)(struct kt *kt), bool hold)
{
	struct task_struct *task;

	kt->body = body;
	kt->hold = hold;
	task = kthread_create(kt_thread, kt, "kfi_ktest");
	if (IS_ERR(task))
		return PTR_ERR(task);
	kt->thread = get_task_struct(task);
	wake_up_process(task);
	wait_for_completion(&kt->started);
	return 0;
}

/* kthread_stop() waits for the thread: a call that ignores it shows as a hang. */
int kt_stop(struct kt *kt)
{
	int err;

	if (!kt->thread)
		return 0;
	err = kthread_stop(kt->thread);
	put_task_struct(kt->thread);
	kt->thread = NULL;
	return err;
}

/*
 * Has gone to sleep interruptibly. A thread that was preempted after it had set
 * its state is still on a run queue.
 */
bool kt_asleep(struct task_struct *task)
{
	return READ_ONCE(task->__state) == TASK_INTERRUPTIBLE &&
	       !READ_ONCE(task->on_rq) && !READ_ONCE(task->on_cpu);
}

/* The thread has gone to sleep, which it does only in @body. */
int kt_until_asleep(struct kt *kt)
{
	unsigned long end = jiffies + KT_DEADLINE;

	while (!kt_asleep(kt->thread)) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		usleep_range(100, 200);
	}
	return 0;
}
