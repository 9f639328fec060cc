// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * flood EVENTS: completions on a wait set that nobody waits on. Each is counted,
 * and has an entry in a CQ that is read by polling; at the end one wait finds the
 * set ready, and once both are drained the next one times out.
 */
#include <linux/sched.h>

#include "kbench.h"

/* All but the last entry are read; returns how many were. */
static unsigned long kb_pour(struct kb_queue *queue, unsigned long events)
{
	struct kfi_cq_msg_entry entry;
	unsigned long i, read = 0;

	for (i = 0; i < events; i++) {
		kb_complete(queue->ep, true);
		if (i + 1 < events)
			read += kfi_cq_read(queue->cq, &entry, 1) == 1;
		cond_resched();
	}
	return read;
}

static int kb_flood_run(struct kb *kb, struct kb_queue *queue,
			unsigned long events)
{
	struct kfi_cq_msg_entry entry;
	unsigned long read;
	int ready, drained;
	long before, after;
	u64 counted;

	before = kb_slab_pages();
	read = kb_pour(queue, events);
	after = kb_slab_pages();

	ready = kfi_wait(queue->wait, KB_DEADLINE_MS);
	read += kfi_cq_read(queue->cq, &entry, 1) == 1;
	counted = kfi_cntr_read(queue->cntr);
	drained = kfi_wait(queue->wait, 1);
	seq_buf_printf(kb->out,
		       "before=%ld after=%ld page=%lu read=%lu counted=%llu ready=%d drained=%d\n",
		       before, after, PAGE_SIZE, read, counted, ready, drained);
	return 0;
}

int kb_flood(struct kb *kb, const char *args)
{
	struct kb_queue queue = { };
	unsigned long events;
	int err;

	err = kstrtoul(args, 10, &events);
	if (err)
		return err;
	err = kb_queue_open(kb, &queue, true);
	if (!err)
		err = kb_flood_run(kb, &queue, events);
	kb_queue_close(&queue);
	return err;
}
