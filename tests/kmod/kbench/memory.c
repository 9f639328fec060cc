// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * memory KIND COUNT: how many pages COUNT of these take. Small allocations are counted
 * in slabs; the array of a CQ is in a slab or in vmalloc memory, as the kernel has
 * pieces for it, so for these the free pages are counted.
 *
 *	sleeper	the sleep of a thread in kfi_wait(), beyond the thread itself
 *	member	the place of a CQ in a poll set, beyond the CQ
 *	cq	an idle CQ of 256 entries
 */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmstat.h>

#include "kbench.h"

#define KB_MANY		16384
#define KB_CQ_SIZE	256

struct kb_crowd {
	struct kb *kb;
	unsigned int count;
	struct completion go;
	struct kfid_wait *wait;
	struct kfid_poll *poll;
	struct kfid_cq **cqs;
	struct task_struct **tasks;
};

/* Sleeps twice, so that stack and task are there before it sleeps in kfi_wait(). */
static int kb_crowd_sleeper(void *arg)
{
	struct kb_crowd *crowd = arg;

	if (!wait_for_completion_interruptible(&crowd->go))
		kfi_wait(crowd->wait, -1);
	return 0;
}

static int kb_crowd_start(struct kb_crowd *crowd)
{
	struct task_struct *task;
	unsigned int i;

	for (i = 0; i < crowd->count; i++) {
		task = kb_thread(kb_crowd_sleeper, crowd, -1, false,
				 "kfi_bench");
		if (IS_ERR(task))
			return PTR_ERR(task);
		crowd->tasks[i] = task;
		wake_up_process(task);
	}
	return 0;
}

/* After @sleeps sleeps of each, all are asleep. */
static int kb_crowd_until_asleep(struct kb_crowd *crowd, unsigned long sleeps)
{
	unsigned long end = jiffies + KB_DEADLINE;
	unsigned int i;
	int err = 0;

	for (i = 0; !err && i < crowd->count; i++) {
		while (READ_ONCE(crowd->tasks[i]->nvcsw) < sleeps) {
			if (time_after(jiffies, end))
				return -ETIMEDOUT;
			usleep_range(100, 200);
		}
		err = kb_until_asleep(crowd->tasks[i]);
	}
	return err;
}

static int kb_crowd_sleep(struct kb_crowd *crowd, long *pages)
{
	long before;
	int err;

	err = kb_crowd_start(crowd);
	if (!err)
		err = kb_crowd_until_asleep(crowd, 1);
	if (err)
		return err;
	before = kb_slab_pages();
	complete_all(&crowd->go);
	err = kb_crowd_until_asleep(crowd, 2);
	*pages = kb_slab_pages() - before;
	return err;
}

static int kb_crowd_sleepers(struct kb_crowd *crowd, long *pages)
{
	struct kfi_wait_attr attr = { .wait_obj = KFI_WAIT_QUEUE };
	unsigned int i;
	int err;

	err = kfi_wait_open(crowd->kb->fabric, &attr, &crowd->wait);
	if (err)
		return err;
	err = kb_crowd_sleep(crowd, pages);
	complete_all(&crowd->go);
	for (i = 0; i < crowd->count && crowd->tasks[i]; i++)
		kb_stop(crowd->tasks[i]);
	WARN_ON(kfi_close(&crowd->wait->kfid));
	return err;
}

static int kb_crowd_open(struct kb_crowd *crowd, size_t size)
{
	unsigned int i;
	int err = 0;

	for (i = 0; !err && i < crowd->count; i++)
		err = kb_cq_open(crowd->kb, size, NULL, crowd, &crowd->cqs[i]);
	return err;
}

static void kb_crowd_close(struct kb_crowd *crowd)
{
	unsigned int i;

	for (i = 0; i < crowd->count && crowd->cqs[i]; i++)
		WARN_ON(kfi_close(&crowd->cqs[i]->fid));
}

static int kb_crowd_cqs(struct kb_crowd *crowd, long *pages)
{
	long before = global_zone_page_state(NR_FREE_PAGES);
	int err = kb_crowd_open(crowd, KB_CQ_SIZE);

	*pages = before - (long)global_zone_page_state(NR_FREE_PAGES);
	kb_crowd_close(crowd);
	return err;
}

static int kb_crowd_join(struct kb_crowd *crowd, unsigned int *joined)
{
	int err;

	for (*joined = 0; *joined < crowd->count; ++*joined) {
		err = kfi_poll_add(crowd->poll, &crowd->cqs[*joined]->fid, 0);
		if (err)
			return err;
	}
	return 0;
}

static int kb_crowd_members(struct kb_crowd *crowd, long *pages)
{
	struct kfi_poll_attr attr = { };
	unsigned int joined = 0;
	long before;
	int err;

	err = kfi_poll_open(crowd->kb->domain, &attr, &crowd->poll);
	if (err)
		return err;
	err = kb_crowd_open(crowd, 1);
	if (!err) {
		before = kb_slab_pages();
		err = kb_crowd_join(crowd, &joined);
		*pages = kb_slab_pages() - before;
	}
	while (joined--)
		WARN_ON(kfi_poll_del(crowd->poll, &crowd->cqs[joined]->fid, 0));
	kb_crowd_close(crowd);
	WARN_ON(kfi_close(&crowd->poll->fid));
	return err;
}

static const struct kb_crowd_kind {
	const char *name;
	int (*measure)(struct kb_crowd *crowd, long *pages);
} kb_crowd_kinds[] = {
	{ "sleeper", kb_crowd_sleepers },
	{ "member", kb_crowd_members },
	{ "cq", kb_crowd_cqs },
};

static int kb_crowd_run(struct kb_crowd *crowd, const char *name)
{
	long pages;
	size_t i;
	int err;

	for (i = 0; i < ARRAY_SIZE(kb_crowd_kinds); i++) {
		if (strcmp(name, kb_crowd_kinds[i].name))
			continue;
		err = kb_crowd_kinds[i].measure(crowd, &pages);
		if (!err)
			seq_buf_printf(crowd->kb->out, "pages=%ld page=%lu\n",
				       pages, PAGE_SIZE);
		return err;
	}
	return -EINVAL;
}

int kb_memory(struct kb *kb, const char *args)
{
	struct kb_crowd crowd = { .kb = kb };
	char name[8];
	int err = -ENOMEM;

	if (sscanf(args, "%7s %u", name, &crowd.count) != 2 ||
	    !crowd.count || crowd.count > KB_MANY)
		return -EINVAL;
	init_completion(&crowd.go);
	crowd.cqs = kvcalloc(crowd.count, sizeof(*crowd.cqs), GFP_KERNEL);
	crowd.tasks = kvcalloc(crowd.count, sizeof(*crowd.tasks), GFP_KERNEL);
	if (crowd.cqs && crowd.tasks)
		err = kb_crowd_run(&crowd, name);
	kvfree(crowd.tasks);
	kvfree(crowd.cqs);
	return err;
}
