// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * poll MEMBERS READY CALLS: calls of kfi_poll() on a set of MEMBERS CQs, READY of
 * which hold an entry. Nobody reads them, so every call reports the same ones.
 */
#include <linux/sched.h>
#include <linux/slab.h>

#include "kbench.h"

#define KB_MEMBERS	65536
#define KB_ROOM		16

struct kb_pollset {
	struct kfid_poll *poll;
	unsigned int members;
	unsigned int ready;
	struct kfid_cq **cqs;
	struct kfid_ep *eps[KB_ROOM];
};

static int kb_fill(struct kb *kb, struct kb_pollset *set)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < set->members && !err; i++) {
		err = kb_cq_open(kb, 1, NULL, set, &set->cqs[i]);
		if (!err)
			err = kfi_poll_add(set->poll, &set->cqs[i]->fid, 0);
	}
	for (i = 0; i < set->ready && !err; i++) {
		err = kb_ep_open(kb, set->cqs[i], NULL, &set->eps[i]);
		if (!err)
			kb_complete(set->eps[i], true);
	}
	return err;
}

static void kb_empty(struct kb_pollset *set)
{
	unsigned int i;

	for (i = 0; i < set->ready && set->eps[i]; i++)
		kfi_close(&set->eps[i]->fid);
	for (i = 0; i < set->members && set->cqs[i]; i++) {
		kfi_poll_del(set->poll, &set->cqs[i]->fid, 0);
		kfi_close(&set->cqs[i]->fid);
	}
}

/* Every call must report what is ready, all of it and nothing else. */
static int kb_poll_calls(struct kb *kb, struct kb_pollset *set,
			 unsigned long calls)
{
	void *found[KB_ROOM];
	unsigned long i, wrong = 0;
	struct kb_clock clock;

	kb_clock_start(&clock);
	for (i = 0; i < calls; i++)
		wrong += kfi_poll(set->poll, found, KB_ROOM) != set->ready;
	kb_clock_stop(&clock);
	seq_buf_printf(kb->out, "cycles=%llu ns=%llu wrong=%lu\n", clock.cycles,
		       clock.ns, wrong);
	return 0;
}

int kb_poll(struct kb *kb, const char *args)
{
	struct kb_pollset set = { };
	struct kfi_poll_attr attr = { };
	unsigned long calls;
	int err;

	if (sscanf(args, "%u %u %lu", &set.members, &set.ready, &calls) != 3 ||
	    set.members > KB_MEMBERS || set.ready > KB_ROOM ||
	    set.ready > set.members)
		return -EINVAL;
	set.cqs = kvcalloc(set.members, sizeof(*set.cqs), GFP_KERNEL);
	if (!set.cqs)
		return -ENOMEM;
	err = kfi_poll_open(kb->domain, &attr, &set.poll);
	if (err)
		goto free;
	err = kb_fill(kb, &set);
	if (!err)
		err = kb_poll_calls(kb, &set, calls);
	kb_empty(&set);
	WARN_ON(kfi_close(&set.poll->fid));
free:
	kvfree(set.cqs);
	return err;
}
