// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * herd THREADS EVENTS EXCLUSIVE PACED: many threads wait on one set and read one
 * entry of its CQ each time that they are woken. PACED: the next event comes when
 * the last one was read, so that each one has to wake somebody.
 *
 * How often they were woken the scheduler says, not we: a thread that sleeps at
 * the beginning and at the end was woken as often as it went to sleep between.
 */
#include <linux/sched.h>
#include <linux/slab.h>

#include "kbench.h"

#define KB_THREADS	256

struct kb_herd {
	struct kb_queue queue;
	unsigned int threads;
	unsigned int events;
	bool exclusive;
	bool paced;
	atomic_t read;
	atomic_t empty;
	struct completion some;
	struct task_struct *tasks[KB_THREADS];
};

static int kb_herd_thread(void *arg)
{
	struct kb_herd *herd = arg;
	struct kfi_cq_msg_entry entry;
	unsigned int n;

	while (!kfi_wait(herd->queue.wait, -1)) {
		if (kfi_cq_read(herd->queue.cq, &entry, 1) != 1) {
			atomic_inc(&herd->empty);
			continue;
		}
		n = atomic_inc_return(&herd->read);
		if (herd->paced || n == herd->events)
			complete(&herd->some);
	}
	return 0;
}

static int kb_herd_start(struct kb_herd *herd)
{
	struct task_struct *task;
	unsigned int i;

	for (i = 0; i < herd->threads; i++) {
		task = kb_thread(kb_herd_thread, herd, -1, false, "kfi_herd");
		if (IS_ERR(task))
			return PTR_ERR(task);
		herd->tasks[i] = task;
		wake_up_process(task);
	}
	return 0;
}

/* How often they have gone to sleep, all of them being asleep now. */
static int kb_herd_sleeps(struct kb_herd *herd, u64 *sleeps)
{
	unsigned int i;
	int err;

	*sleeps = 0;
	for (i = 0; i < herd->threads; i++) {
		err = kb_until_asleep(herd->tasks[i]);
		if (err)
			return err;
		*sleeps += READ_ONCE(herd->tasks[i]->nvcsw);
	}
	return 0;
}

static int kb_herd_read(struct kb_herd *herd)
{
	return wait_for_completion_timeout(&herd->some, KB_DEADLINE) ?
	       0 : -ETIMEDOUT;
}

static int kb_herd_drive(struct kb_herd *herd)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < herd->events && !err; i++) {
		kb_complete(herd->queue.ep, true);
		if (herd->paced)
			err = kb_herd_read(herd);
	}
	return herd->paced ? err : kb_herd_read(herd);
}

/* An event that nobody reads in time is lost, and is one of the figures. */
static int kb_herd_measure(struct kb *kb, struct kb_herd *herd)
{
	u64 before, after;
	int err;

	err = kb_herd_start(herd);
	if (err)
		return err;
	err = kb_herd_sleeps(herd, &before);
	if (err)
		return err;
	kb_herd_drive(herd);
	err = kb_herd_sleeps(herd, &after);
	if (err)
		return err;
	seq_buf_printf(kb->out, "events=%u read=%d empty=%d wakes=%llu\n",
		       herd->events, atomic_read(&herd->read),
		       atomic_read(&herd->empty), after - before);
	return 0;
}

/* The counter is nobody's business here: an unread one would keep the set ready. */
static int kb_herd_open(struct kb *kb, struct kb_herd *herd)
{
	struct kfi_wait_attr attr = { .wait_obj = KFI_WAIT_QUEUE };
	struct kb_queue *queue = &herd->queue;
	u64 flags = herd->exclusive ? KFI_WAIT_EXCLUSIVE : 0;
	int err;

	err = kfi_wait_open(kb->fabric, &attr, &queue->wait);
	if (err)
		return err;
	err = kfi_control(&queue->wait->kfid, KFI_SETFIDFLAG, &flags);
	if (err)
		return err;
	err = kb_cq_open(kb, herd->events, queue->wait, herd, &queue->cq);
	return err ?: kb_ep_open(kb, queue->cq, NULL, &queue->ep);
}

static int kb_herd_run(struct kb *kb, struct kb_herd *herd)
{
	unsigned int i;
	int err;

	init_completion(&herd->some);
	err = kb_herd_open(kb, herd);
	if (!err)
		err = kb_herd_measure(kb, herd);
	for (i = 0; i < herd->threads && herd->tasks[i]; i++)
		kb_stop(herd->tasks[i]);
	kb_queue_close(&herd->queue);
	return err;
}

int kb_herd(struct kb *kb, const char *args)
{
	struct kb_herd *herd = kzalloc(sizeof(*herd), GFP_KERNEL);
	unsigned int exclusive, paced;
	int err = -EINVAL;

	if (!herd)
		return -ENOMEM;
	if (sscanf(args, "%u %u %u %u", &herd->threads, &herd->events,
		   &exclusive, &paced) == 4 && herd->threads <= KB_THREADS) {
		herd->exclusive = exclusive;
		herd->paced = paced;
		err = kb_herd_run(kb, herd);
	}
	kfree(herd);
	return err;
}
