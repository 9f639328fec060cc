// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Objects to measure, and threads to measure with. */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/vmstat.h>

#include <uapi/linux/sched/types.h>

#include "kbench.h"

static int kb_getinfo(struct kb *kb)
{
	struct kfi_info *hints = kfi_allocinfo();
	int err = -ENOMEM;

	if (!hints)
		return err;
	hints->fabric_attr->prov_name = kstrdup("mock", GFP_KERNEL);
	if (hints->fabric_attr->prov_name)
		err = kfi_getinfo(kfi_version(), NULL, NULL, 0, hints,
				  &kb->info);
	kfi_freeinfo(hints);
	return err;
}

int kb_open(struct kb *kb)
{
	int err;

	err = kb_getinfo(kb);
	return err ?: kb_open_domain(kb);
}

/* What @kb->info offers. */
int kb_open_domain(struct kb *kb)
{
	int err;

	err = kfi_fabric(kb->info->fabric_attr, &kb->fabric, kb);
	if (err)
		return err;
	return kfi_domain(kb->fabric, kb->info, &kb->domain, kb);
}

/* A measurement that leaves something open is wrong, and leaks the rest. */
static void kb_close_fid(struct kfid *fid)
{
	WARN_ON(kfi_close(fid));
}

/* Also after a kb_open() that failed half-way. */
void kb_close(struct kb *kb)
{
	if (kb->domain)
		kb_close_fid(&kb->domain->fid);
	if (kb->fabric)
		kb_close_fid(&kb->fabric->fid);
	kfi_freeinfo(kb->info);
}

int kb_cq_open(struct kb *kb, size_t size, struct kfid_wait *wait,
	       void *context, struct kfid_cq **cq)
{
	struct kfi_cq_attr attr = {
		.size = size,
		.format = KFI_CQ_FORMAT_MSG,
		.wait_obj = wait ? KFI_WAIT_SET : KFI_WAIT_NONE,
		.wait_set = wait,
	};

	return kfi_cq_open(kb->domain, &attr, cq, NULL, context);
}

/* An endpoint that completes to @cq and counts receives in @cntr, or not. */
int kb_ep_open(struct kb *kb, struct kfid_cq *cq, struct kfid_cntr *cntr,
	       struct kfid_ep **ep)
{
	int err;

	err = kfi_endpoint(kb->domain, kb->info, ep, kb);
	if (err)
		return err;
	err = kfi_ep_bind(*ep, &cq->fid, KFI_TRANSMIT | KFI_RECV);
	if (!err && cntr)
		err = kfi_ep_bind(*ep, &cntr->fid, KFI_RECV);
	return err ?: kfi_enable(*ep);
}

/* All of a kb_queue, with a wait set or without; kb_queue_close() also if it fails. */
int kb_queue_open(struct kb *kb, struct kb_queue *queue, bool wait)
{
	struct kfi_wait_attr wait_attr = { .wait_obj = KFI_WAIT_QUEUE };
	struct kfi_cntr_attr cntr_attr = { .wait_obj = KFI_WAIT_NONE };
	int err;

	if (wait) {
		err = kfi_wait_open(kb->fabric, &wait_attr, &queue->wait);
		if (err)
			return err;
		cntr_attr.wait_obj = KFI_WAIT_SET;
		cntr_attr.wait_set = queue->wait;
	}
	err = kb_cq_open(kb, 0, queue->wait, queue, &queue->cq);
	if (err)
		return err;
	err = kfi_cntr_open(kb->domain, &cntr_attr, &queue->cntr, queue);
	if (err)
		return err;
	return kb_ep_open(kb, queue->cq, queue->cntr, &queue->ep);
}

void kb_queue_close(struct kb_queue *queue)
{
	if (queue->ep)
		kb_close_fid(&queue->ep->fid);
	if (queue->cntr)
		kb_close_fid(&queue->cntr->fid);
	if (queue->cq)
		kb_close_fid(&queue->cq->fid);
	if (queue->wait)
		kb_close_fid(&queue->wait->kfid);
}

/*
 * A thread that another one has woken does not preempt it: it runs when the other
 * one sleeps. Else the scheduler would decide how many of the sleeps take place.
 */
static void kb_be_patient(struct task_struct *task)
{
	static const struct sched_attr attr = {
		.size = sizeof(attr),
		.sched_policy = SCHED_BATCH,
	};

	WARN_ON(sched_setattr_nocheck(task, &attr));
}

struct task_struct *kb_thread(int (*body)(void *arg), void *arg, int cpu,
			      bool patient, const char *name)
{
	struct task_struct *task = kthread_create(body, arg, "%s", name);

	if (IS_ERR(task))
		return task;
	if (cpu >= 0)
		kthread_bind(task, cpu);
	if (patient)
		kb_be_patient(task);
	return get_task_struct(task);
}

/* Waits until it has ended; a body must come to its end once told to stop. */
void kb_stop(struct task_struct *task)
{
	kthread_stop(task);
	put_task_struct(task);
}

/*
 * It sleeps interruptibly, as in a blocking call of ours; preempted with that
 * state, it would be on a run queue.
 */
int kb_until_asleep(struct task_struct *task)
{
	unsigned long end = jiffies + KB_DEADLINE;

	while (READ_ONCE(task->__state) != TASK_INTERRUPTIBLE ||
	       READ_ONCE(task->on_rq)) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		usleep_range(100, 200);
	}
	return 0;
}

/* Whole pages, and some of them still in counters of single CPUs. */
long kb_slab_pages(void)
{
	return global_node_page_state_pages(NR_SLAB_RECLAIMABLE_B) +
	       global_node_page_state_pages(NR_SLAB_UNRECLAIMABLE_B);
}
