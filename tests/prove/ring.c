// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A ring: a reader finds the entries of a CQ in its shadow, and tells the CQ of them only
 * before it waits. It plays both halves of kmod/dev/ring.c: the store, and the look that
 * each call begins with.
 */
#include <linux/completion.h>

#include "support.h"

enum { FIRST, SECOND };

#define SHOWN 8

static unsigned long shown[SHOWN];	/* numbers of entries; 0: an error */
static u32 shown_tail;			/* released after shown[] */
static u32 overrun;			/* released after shown_tail */

static void store(struct kfi_cq_shadow *shadow, u32 number,
		  const struct kfi_cq_tagged_entry *entry, kfi_addr_t src, int err)
{
	shown[number % SHOWN] = err ? 0 : (unsigned long)entry->op_context;
	smp_store_release(&shown_tail, number + 1);
}

static void store_overrun(struct kfi_cq_shadow *shadow)
{
	smp_store_release(&overrun, 1);
}

static struct kfi_cq_shadow shadow;

static bool sleeps_beside_ready(void)
{
	return set_is_ready() && kfi_wait_queue(set)->sleepers;
}

static void show_first(void)
{
	shadow = (struct kfi_cq_shadow) { .store = store, .overrun = store_overrun };
	prove_check(!kfi_cq_show(cq[0], &shadow), "an empty CQ is shown");
	prove_check(kfi_cq_show(cq[0], &shadow) == -KFI_EBUSY, "it is shown once");
	prove_ready(sleeps_beside_ready);
}

static void setup(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_cq(0);
	show_first();
}

/* Read up to the first error. Return: entries read so far. */
static u32 read_shown(u32 head)
{
	const u32 tail = smp_load_acquire(&shown_tail);

	for (; head != tail && shown[head % SHOWN]; head++)
		mine()->entry[mine()->n++] = shown[head % SHOWN];
	return head;
}

/* Wait until so many entries were read. */
static void read_in_ring(unsigned int wanted)
{
	u32 head = read_shown(0);

	while (mine()->n < wanted) {
		kfi_cq_consume_to(cq[0], head);
		mine()->ret = kfi_wait(set, FOREVER);
		if (mine()->ret)
			return;
		head = read_shown(head);
	}
	kfi_cq_consume_to(cq[0], head);
	mine()->done = true;
}

static void read_one_in_ring(void)
{
	read_in_ring(1);
}

static void read_two_in_ring(void)
{
	read_in_ring(2);
}

static void finish(unsigned int n)
{
	unsigned int i;

	prove_check(records[FIRST].n == n, "the reader gets each entry");
	for (i = 0; i < n; i++)
		prove_check(records[FIRST].entry[i] == entry_number(SECOND, i + 1),
			    "in their order");
	prove_check(!read_rest(0), "the CQ was told of them");
	close_all();
}

static void finish_one(void)
{
	finish(1);
}

static void finish_two(void)
{
	finish(2);
}

PROVE_SCENARIO(ring_one, .rules = "Q11 W2", .tables = "1",
	       .says = "a reader of a ring sleeps in a wait set, one entry is published",
	       .setup = setup, .finish = finish_one,
	       .threads = { { "reader", read_one_in_ring }, { "publisher", publish_one } });

PROVE_SCENARIO(ring_two, .rules = "Q11 W2 Q2", .tables = "1",
	       .says = "two entries come while a reader of a ring looks, tells and waits",
	       .setup = setup, .finish = finish_two,
	       .threads = { { "reader", read_two_in_ring }, { "publisher", publish_two } });

/* A program that errs: it tells of entries before they are stored. */
static void scribble(void)
{
	kfi_cq_consume_to(cq[0], 5);
	kfi_cq_consume_to(cq[0], (u32)-1);
}

static void finish_scribbled(void)
{
	prove_check(shown_tail == 2, "both entries were shown");
	prove_check(read_rest(0) == 2, "and removed by nobody");
	close_all();
}

PROVE_SCENARIO(ring_scribbled, .rules = "Q11",
	       .says = "counts that are ahead or behind remove nothing",
	       .setup = setup, .finish = finish_scribbled,
	       .threads = { { "scribbles", scribble }, { "publisher", publish_two } });

/* Numbers that pass an error stop at it. */
static void fail_and_publish(void)
{
	complete_op(0, entry_number(SECOND, 1), -KFI_EIO);
	complete_op(0, entry_number(SECOND, 2), 0);
}

static void pass_error(void)
{
	kfi_cq_consume_to(cq[0], smp_load_acquire(&shown_tail));
}

static void finish_error(void)
{
	struct kfi_cq_err_entry err = { };

	prove_check(kfi_cq_readerr(cq[0], &err, 0) == 1, "the error is there");
	prove_check(read_rest(0) == 1, "and what is behind it");
	close_all();
}

PROVE_SCENARIO(ring_error, .rules = "Q11 Q2",
	       .says = "a count passes an error, which stays",
	       .setup = setup, .finish = finish_error,
	       .threads = { { "passes", pass_error }, { "publisher", fail_and_publish } });

/* One wake-up for two CQs of an exclusive set, the first of which has a ring. */
static void setup_exclusive(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	make_exclusive();
	open_cq(0);
	open_cq(1);
	show_first();
}

static void publish_in_both(void)
{
	const struct kfi_completion comp = {
		.context = (void *)entry_number(prove_self(), 1),
		.flags = KFI_RECV,
	};
	struct kfi_target targets[2] = { };

	kfi_cq_store(cq[0], &comp, &targets[0]);
	kfi_cq_store(cq[1], &comp, &targets[1]);
	kfi_publish(targets, 2);
}

/* A thread that finds the first entry alone has no turn. */
static bool too_early;

static void wait_and_read_second(void)
{
	if (!kfi_wait(set, FOREVER) && read_cq(1, 1) != 1)
		too_early = true;
}

static void finish_both(void)
{
	prove_check(records[FIRST].n == 1, "the reader of the ring gets its entry");
	prove_check(too_early || records[SECOND].n == 1, "the other thread gets the other one");
	if (too_early)
		prove_check(read_cq(1, 1) == 1, "which is there otherwise");
	close_all();
}

PROVE_SCENARIO(ring_exclusive, .rules = "Q11 W3 V4", .tables = "14",
	       .says = "a call of the reader of a ring ends its turn, which goes on",
	       .setup = setup_exclusive, .finish = finish_both,
	       .threads = { { "reader", read_one_in_ring },
			    { "waiter", wait_and_read_second },
			    { "publisher", publish_in_both } });

/* The reader makes no call; another thread does, after the read. */
static struct completion was_read;

static void setup_told(void)
{
	init_completion(&was_read);
	setup_exclusive();
}

static void read_one_and_go(void)
{
	if (!kfi_wait(set, FOREVER))
		read_shown(0);
	complete(&was_read);
}

static void call_after_read(void)
{
	wait_for_completion(&was_read);
	kfi_cq_consume_to(cq[0], smp_load_acquire(&shown_tail));
}

PROVE_SCENARIO(ring_told_by_another, .rules = "Q11 W3 W2", .tables = "14",
	       .says = "a call of another thread than the reader wakes a thread for the rest",
	       .setup = setup_told, .finish = finish_both,
	       .threads = { { "reader", read_one_and_go },
			    { "waiter", wait_and_read_second },
			    { "publisher", publish_in_both },
			    { "caller", call_after_read } });
