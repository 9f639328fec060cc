// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Room in a CQ: a provider that was refused gets its work item once a reader has made
 * room, or waits for more entries than the CQ holds.
 */
#include "support.h"

enum { FIRST, SECOND, THIRD };

static struct kfi_cq_room room;

/* The entry that had no room; only the work item or the provider reports it. */
static void report_reserved(unsigned long number)
{
	complete_op(0, number, 0);
	kfi_cq_unreserve(cq[0]);
}

static void try_again(struct work_struct *work)
{
	if (kfi_cq_reserve(cq[0], &room))
		report_reserved(entry_number(SECOND, 2));
}

static void try_last(struct work_struct *work)
{
	if (kfi_cq_reserve(cq[0], &room))
		report_reserved(entry_number(SECOND, 3));
}

static void setup(void)
{
	open_domain();
	prove_check(!try_open_cq(0, 1, KFI_CQ_COND_THRESHOLD, NULL), "the CQ opens");
	INIT_LIST_HEAD(&room.link);
	INIT_WORK(&room.work, try_again);
}

static void report_two(void)
{
	if (kfi_cq_reserve(cq[0], &room))
		report_reserved(entry_number(SECOND, 1));
	if (kfi_cq_reserve(cq[0], &room))
		report_reserved(entry_number(SECOND, 2));
}

static void read_two(void)
{
	sread_cq(0, 1, 1, FOREVER);
	sread_cq(0, 1, 1, FOREVER);
}

static void finish(void)
{
	prove_check(records[FIRST].n == 2, "the reader gets both entries");
	check_entries(SECOND, 2);
	kfi_cq_leave(cq[0], &room);
	close_all();
}

PROVE_SCENARIO(room_refused, .rules = "V7 Q2", .tables = "1",
	       .says = "a provider without room reports again once a reader made some",
	       .setup = setup, .finish = finish,
	       .threads = { { "reader", read_two }, { "provider", report_two } });

/* Two entries of four are there, and peers may cause no more; the reader wants three. */
static void setup_wanted(void)
{
	unsigned int i;

	open_domain();
	open_threshold_cq(0);
	INIT_LIST_HEAD(&room.link);
	INIT_WORK(&room.work, try_last);
	for (i = 1; i <= 2; i++)
		complete_op(0, entry_number(SECOND, i), 0);
}

/* It is refused before the reader waits, and not after. */
static void report_third(void)
{
	if (kfi_cq_reserve(cq[0], &room))
		report_reserved(entry_number(SECOND, 3));
}

static void read_three(void)
{
	sread_cq(0, 3, 3, FOREVER);
}

static void finish_wanted(void)
{
	prove_check(records[FIRST].n == 3, "the reader gets its threshold");
	check_entries(SECOND, 3);
	kfi_cq_leave(cq[0], &room);
	close_all();
}

PROVE_SCENARIO(room_wanted, .rules = "Q4 V7", .tables = "4",
	       .says = "a reader waits for more entries than the provider had room for",
	       .setup = setup_wanted, .finish = finish_wanted,
	       .threads = { { "reader of 3", read_three }, { "provider", report_third } });

/* The promise of the second of two entries is given back; then there is room again. */
static void setup_promised(void)
{
	open_domain();
	open_threshold_cq(0);
	INIT_LIST_HEAD(&room.link);
	INIT_WORK(&room.work, try_again);
	complete_op(0, entry_number(SECOND, 1), 0);
	prove_check(kfi_cq_reserve(cq[0], &room), "there is room for a second entry");
	prove_check(!kfi_cq_reserve(cq[0], &room), "half of the ring is for what is posted");
}

static void give_back(void)
{
	kfi_cq_unreserve(cq[0]);
}

PROVE_SCENARIO(room_promised, .rules = "V7 Q2", .tables = "4",
	       .says = "an operation with a promise ends without a report, beside a reader",
	       .setup = setup_promised, .finish = finish,
	       .threads = { { "reader", read_two },
			    { "provider", give_back } });

static void read_four(void)
{
	sread_cq(0, 4, 4, FOREVER);
}

/* A reader of one does not take the room from a reader of four. */
static void try_fifth(struct work_struct *work)
{
	if (kfi_cq_reserve(cq[0], &room))
		report_reserved(entry_number(THIRD, 5));
}

static void setup_three(void)
{
	unsigned int i;

	open_domain();
	open_threshold_cq(0);
	note_threshold(0, 4);
	INIT_LIST_HEAD(&room.link);
	INIT_WORK(&room.work, try_fifth);
	for (i = 1; i <= 3; i++)
		complete_op(0, entry_number(THIRD, i), 0);
}

static void report_fourth_and_fifth(void)
{
	unsigned int i;

	for (i = 4; i <= 5 && kfi_cq_reserve(cq[0], &room); i++)
		report_reserved(entry_number(THIRD, i));
}

static void finish_both(void)
{
	prove_check(records[FIRST].n == 4 && records[SECOND].n == 1,
		    "each reader gets its threshold");
	check_entries(THIRD, 5);
	kfi_cq_leave(cq[0], &room);
	close_all();
}

PROVE_SCENARIO(room_wanted_beside_one, .rules = "Q4 V7", .tables = "4",
	       .says = "a reader of four and a reader of one, of a provider with little room",
	       .setup = setup_three, .finish = finish_both,
	       .threads = { { "reader of 4", read_four }, { "reader of 1", read_one },
			    { "provider", report_fourth_and_fifth } });

static bool left;

static void try_before_leaving(struct work_struct *work)
{
	prove_check(!READ_ONCE(left), "no work item runs after kfi_cq_leave()");
}

static void setup_leave(void)
{
	open_domain();
	prove_check(!try_open_cq(0, 1, KFI_CQ_COND_NONE, NULL), "the CQ opens");
	INIT_LIST_HEAD(&room.link);
	INIT_WORK(&room.work, try_before_leaving);
	WRITE_ONCE(left, false);
	complete_op(0, entry_number(SECOND, 1), 0);
	prove_check(!kfi_cq_reserve(cq[0], &room), "the CQ is full");
}

static void make_room(void)
{
	read_cq(0, 1);
}

static void leave(void)
{
	kfi_cq_leave(cq[0], &room);
	WRITE_ONCE(left, true);
}

PROVE_SCENARIO(room_leave, .rules = "V8", .tables = "11",
	       .says = "a provider leaves as a reader makes room",
	       .setup = setup_leave, .finish = close_all,
	       .threads = { { "reader", make_room }, { "provider", leave } });
