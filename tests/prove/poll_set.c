// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Poll sets: a member that is ready is on the ready list, and each change of a counter is
 * reported once to each set.
 */
#include "support.h"

enum { FIRST, SECOND, THIRD };

static struct kfid_poll *pollset[2];

static void open_pollset(int i)
{
	prove_check(!kfi_core_poll_open(&domain->domain, NULL, &pollset[i]),
		    "the poll set opens");
}

static void add_to(int i, struct kfid *fid)
{
	prove_check(!kfi_poll_add(pollset[i], fid, 0), "the member is added");
}

static void close_sets(void)
{
	int i;

	for (i = 0; i < 2; i++)
		if (pollset[i])
			must_close(&pollset[i]->fid);
	close_all();
}

/* How many members a poll returns now. */
static int poll_now(int i)
{
	void *context[4];

	return kfi_poll(pollset[i], context, 4);
}

static void setup(void)
{
	open_domain();
	open_cq(0);
	open_pollset(0);
	add_to(0, &cq[0]->fid);
}

static void poll_once(void)
{
	mine()->ret = poll_now(0);
}

static void poll_and_read(void)
{
	if (poll_now(0) == 1)
		read_cq(0, 1);
}

static void read_once(void)
{
	read_cq(0, 1);
}

static void remove_cq(void)
{
	prove_check(!kfi_poll_del(pollset[0], &cq[0]->fid, 0), "the member is removed");
}

/* The set reports the CQ exactly if it is ready. */
static void finish(void)
{
	const bool ready = kfi_cq_source(cq[0])->ready;

	prove_check(poll_now(0) == ready, "a ready member is on the ready list");
	prove_check(poll_now(0) == ready, "a member that stays ready stays on the list");
	read_rest(0);
	prove_check(!poll_now(0), "a drained member is not reported");
	remove_cq();
	close_sets();
}

PROVE_SCENARIO(poll_one, .rules = "P1", .tables = "9",
	       .says = "a poll and a publication",
	       .setup = setup, .finish = finish,
	       .threads = { { "poller", poll_once }, { "publisher", publish_one } });

PROVE_SCENARIO(poll_and_read_one, .rules = "P1 P7", .tables = "9",
	       .says = "a thread polls and reads beside two publications",
	       .setup = setup, .finish = finish,
	       .threads = { { "poller", poll_and_read }, { "publisher", publish_two } });

PROVE_SCENARIO(poll_beside_reader, .rules = "P1 P7", .tables = "9",
	       .says = "a poll, a reader that drains the member, and a publisher",
	       .setup = setup, .finish = finish,
	       .threads = { { "poller", poll_once }, { "reader", read_once },
			    { "publisher", publish_two } });

PROVE_SCENARIO(poll_two_pollers, .rules = "P1 P4", .tables = "9",
	       .says = "two polls of one set beside a publication",
	       .setup = setup, .finish = finish,
	       .threads = { { "poller 1", poll_and_read }, { "poller 2", poll_once },
			    { "publisher", publish_one } });

/* What a provider does before it reports, such as the store into a buffer. */
static bool transferred;

static void transfer_and_publish(void)
{
	transferred = true;
	publish(0, 1);
}

/* The entry has been read: the member is still on the ready list, and not ready. */
static void setup_drained(void)
{
	setup();
	complete_op(0, entry_number(REST, 1), 0);
	prove_check(read_rest(0) == 1, "the member is drained");
}

static void poll_and_look(void)
{
	if (poll_now(0) == 1)
		prove_check(transferred, "a report shows what came before the publication");
}

PROVE_SCENARIO(poll_is_visible, .rules = "P1 V1", .tables = "9",
	       .says = "a poll finds a member ready that was on the list before",
	       .setup = setup_drained, .finish = finish,
	       .threads = { { "poller", poll_and_look },
			    { "publisher", transfer_and_publish } });

static void setup_cntr(void)
{
	open_domain();
	open_cntr();
	open_pollset(0);
	add_to(0, &cntr->fid);
}

static void count_one(void)
{
	count_op(KFI_WHY_EVENT);
}

static void count_two(void)
{
	count_op(KFI_WHY_EVENT);
	count_op(KFI_WHY_EVENT);
}

static void setup_changed(void)
{
	setup_cntr();
	count_one();
}

static void transfer_and_count(void)
{
	transferred = true;
	count_one();
}

static void poll_twice_and_look(void)
{
	if (poll_now(0) == 1 && poll_now(0) == 1)
		prove_check(transferred, "a report shows what came before the change");
}

static void finish_changes(void)
{
	poll_now(0);
	prove_check(!poll_now(0), "each change is reported once");
	prove_check(!kfi_poll_del(pollset[0], &cntr->fid, 0), "the member is removed");
	close_sets();
}

PROVE_SCENARIO(poll_cntr_is_visible, .rules = "P1 V1 V9", .tables = "9",
	       .says = "a counter changes again as its first change is reported",
	       .setup = setup_changed, .finish = finish_changes,
	       .threads = { { "poller", poll_twice_and_look },
			    { "provider", transfer_and_count } });

static unsigned int reports, last_value;

/* After each report the value is read: the last one that was reported must be known. */
static void poll_and_read_cntr(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		if (poll_now(0) != 1)
			continue;
		reports++;
		last_value = kfi_cntr_read(cntr);
	}
}

static void finish_cntr(void)
{
	if (last_value < 2)
		prove_check(poll_now(0) == 1, "a change after the report is reported");
	else
		prove_check(reports, "a change is reported");
	poll_now(0);
	prove_check(!poll_now(0), "each change is reported once");
	prove_check(!kfi_poll_del(pollset[0], &cntr->fid, 0), "the member is removed");
	close_sets();
}

PROVE_SCENARIO(poll_cntr, .rules = "P1 V9", .tables = "9",
	       .says = "a thread polls and reads a counter beside two completions",
	       .setup = setup_cntr, .finish = finish_cntr,
	       .threads = { { "poller", poll_and_read_cntr }, { "provider", count_two } });

/* The value that was reported comes back, by a change. */
static void setup_reported(void)
{
	setup_cntr();
	count_two();
	prove_check(poll_now(0) == 1, "the change is reported");
}

static void set_back_and_count(void)
{
	kfi_cntr_set(cntr, 1);
	count_one();
}

static void finish_same_value(void)
{
	prove_check(records[FIRST].ret + poll_now(0) == 1,
		    "a change counts, whatever the value");
	prove_check(!kfi_poll_del(pollset[0], &cntr->fid, 0), "the member is removed");
	close_sets();
}

PROVE_SCENARIO(poll_cntr_same_value, .rules = "P1 V9", .tables = "9",
	       .says = "a counter is set back, and a completion brings the old value",
	       .setup = setup_reported, .finish = finish_same_value,
	       .threads = { { "poller", poll_once }, { "provider", set_back_and_count } });

static void setup_two_sets(void)
{
	setup_cntr();
	open_pollset(1);
	add_to(1, &cntr->fid);
}

static void poll_first_set(void)
{
	mine()->ret = poll_now(0);
}

static void poll_second_set(void)
{
	mine()->ret = poll_now(1);
}

static void finish_two_sets(void)
{
	prove_check(records[FIRST].ret + poll_now(0) == 1, "the first set reports it once");
	prove_check(records[SECOND].ret + poll_now(1) == 1, "the second set reports it once");
	prove_check(!kfi_poll_del(pollset[0], &cntr->fid, 0), "the member is removed");
	prove_check(!kfi_poll_del(pollset[1], &cntr->fid, 0), "the member is removed");
	close_sets();
}

PROVE_SCENARIO(poll_two_sets, .rules = "P3 P1", .tables = "9",
	       .says = "a counter is in two poll sets: each reports its change once",
	       .setup = setup_two_sets, .finish = finish_two_sets,
	       .threads = { { "poller 1", poll_first_set }, { "poller 2", poll_second_set },
			    { "provider", count_one } });

static void setup_small_array(void)
{
	setup_cntr();
	open_cq(0);
	add_to(0, &cq[0]->fid);
}

static unsigned int seen_cq, seen_cntr;

static void poll_for_one(void)
{
	void *context[1];

	if (kfi_poll(pollset[0], context, 1) != 1)
		return;
	seen_cq += context[0] == &cq[0];
	seen_cntr += context[0] == &cntr;
}

static void publish_both(void)
{
	publish(0, 1);
	count_one();
}

static void finish_small_array(void)
{
	poll_for_one();
	poll_for_one();
	prove_check(seen_cntr == 1, "the counter's change is reported once");
	prove_check(seen_cq, "the CQ is reported while it stays ready");
	remove_cq();
	prove_check(!kfi_poll_del(pollset[0], &cntr->fid, 0), "the member is removed");
	close_sets();
}

PROVE_SCENARIO(poll_small_array, .rules = "P2 B20", .tables = "9",
	       .says = "two members get ready, an array has room for one",
	       .setup = setup_small_array, .finish = finish_small_array,
	       .threads = { { "poller", poll_for_one }, { "publisher", publish_both } });

static void setup_no_member(void)
{
	open_domain();
	open_cq(0);
	open_pollset(0);
}

static int after_add;

static void add_and_poll(void)
{
	add_to(0, &cq[0]->fid);
	after_add = poll_now(0);
}

static void finish_added(void)
{
	prove_check(after_add || kfi_cq_source(cq[0])->ready, "an event is not lost");
	finish();
}

PROVE_SCENARIO(poll_add_race, .rules = "P5 P1", .tables = "9",
	       .says = "a CQ is added to a poll set as it becomes ready",
	       .setup = setup_no_member, .finish = finish_added,
	       .threads = { { "adder", add_and_poll }, { "publisher", publish_one } });

static void setup_ready_no_member(void)
{
	setup_no_member();
	complete_op(0, entry_number(REST, 1), 0);
}

static void add_ready(void)
{
	add_to(0, &cq[0]->fid);
	prove_check(poll_now(0) == 1, "a ready source is ready from the add on");
}

PROVE_SCENARIO(poll_add_ready, .rules = "P5", .tables = "9",
	       .says = "a CQ that is ready is added beside another publication",
	       .setup = setup_ready_no_member, .finish = finish,
	       .threads = { { "adder", add_ready }, { "publisher", publish_one } });

static void setup_cntr_no_member(void)
{
	open_domain();
	open_cntr();
	open_pollset(0);
}

static void add_cntr(void)
{
	add_to(0, &cntr->fid);
}

static void finish_cntr_added(void)
{
	prove_check(poll_now(0) == 1, "a change before the add is reported");
	prove_check(!poll_now(0), "each change is reported once");
	prove_check(!kfi_poll_del(pollset[0], &cntr->fid, 0), "the member is removed");
	close_sets();
}

PROVE_SCENARIO(poll_add_cntr, .rules = "P1 P5", .tables = "9",
	       .says = "a counter is added to a poll set as it changes",
	       .setup = setup_cntr_no_member, .finish = finish_cntr_added,
	       .threads = { { "adder", add_cntr }, { "provider", count_one } });

static void remove_and_poll(void)
{
	remove_cq();
	prove_check(!poll_now(0), "no poll after the removal returns the member");
}

static void finish_removed(void)
{
	prove_check(!poll_now(0), "a removed member is not reported");
	close_sets();
}

PROVE_SCENARIO(poll_del_race, .rules = "P4 V8", .tables = "9 11",
	       .says = "a member is removed as it becomes ready",
	       .setup = setup, .finish = finish_removed,
	       .threads = { { "remover", remove_and_poll }, { "publisher", publish_one } });

PROVE_SCENARIO(poll_del_beside_poll, .rules = "P4 V8", .tables = "9 11",
	       .says = "a member is removed beside a poll and a publication",
	       .setup = setup, .finish = finish_removed,
	       .threads = { { "remover", remove_and_poll }, { "poller", poll_once },
			    { "publisher", publish_one } });

static void try_remove(void)
{
	mine()->ret = kfi_poll_del(pollset[0], &cq[0]->fid, 0);
}

static void finish_removed_once(void)
{
	prove_check(!records[FIRST].ret != !records[SECOND].ret, "one removal succeeds");
	close_sets();
}

PROVE_SCENARIO(poll_del_twice, .rules = "P5 V8", .tables = "9",
	       .says = "two threads remove the same member",
	       .setup = setup, .finish = finish_removed_once,
	       .threads = { { "remover 1", try_remove }, { "remover 2", try_remove } });

static void try_add(void)
{
	mine()->ret = kfi_poll_add(pollset[0], &cq[0]->fid, 0);
}

static void finish_added_once(void)
{
	prove_check(records[FIRST].ret + records[SECOND].ret == -KFI_EALREADY,
		    "one add succeeds, the other one is refused");
	remove_cq();
	close_sets();
}

PROVE_SCENARIO(poll_add_twice, .rules = "P5", .tables = "9",
	       .says = "two threads add the same member",
	       .setup = setup_no_member, .finish = finish_added_once,
	       .threads = { { "adder 1", try_add }, { "adder 2", try_add } });

static void finish_lost(void)
{
	prove_check(poll_now(0) == 1, "the last entry makes the member ready");
	remove_cq();
	close_sets();
}

PROVE_SCENARIO(poll_loss, .rules = "O5 P1", .tables = "9 12",
	       .says = "the device goes beside a poll",
	       .setup = setup, .finish = finish_lost,
	       .threads = { { "poller", poll_once }, { "device", lose_device } });

/* A poll set is closed as its last member is removed. */
static void setup_last_member(void)
{
	open_domain();
	open_cq(0);
	open_pollset(0);
	add_to(0, &cq[0]->fid);
}

static void remove_last(void)
{
	prove_check(!kfi_poll_del(pollset[0], &cq[0]->fid, 0), "it is removed");
}

static void try_to_close(void)
{
	mine()->ret = kfi_close(&pollset[0]->fid);
	prove_check(!mine()->ret || mine()->ret == -EBUSY, "it closes, or it is in use");
}

static void finish_last_member(void)
{
	if (records[SECOND].ret)
		must_close(&pollset[0]->fid);
	close_all();
}

PROVE_SCENARIO(poll_close_beside_del, .rules = "O1 V8 P1", .tables = "11 9",
	       .says = "a poll set is closed as its last member is removed",
	       .setup = setup_last_member, .finish = finish_last_member,
	       .threads = { { "remover", remove_last }, { "owner", try_to_close } });

/* A member that is on the ready list changes again: the others stay on it. */
static void setup_cntr_and_cq(void)
{
	setup_cntr();
	open_cq(0);
	add_to(0, &cq[0]->fid);
}

static void finish_cntr_and_cq(void)
{
	prove_check(poll_now(0) == 2, "each member that is ready is reported");
	kfi_cntr_read(cntr);
	read_rest(0);
	prove_check(!poll_now(0), "what was read is not reported");
	kfi_poll_del(pollset[0], &cntr->fid, 0);
	kfi_poll_del(pollset[0], &cq[0]->fid, 0);
	close_sets();
}

PROVE_SCENARIO(poll_changes_again, .rules = "P1 P7", .tables = "9",
	       .says = "a counter changes twice beside the publication on another member",
	       .setup = setup_cntr_and_cq, .finish = finish_cntr_and_cq,
	       .threads = { { "provider", count_two }, { "publisher", publish_one } });

/* A member that one thread adds and another one removes, if it is there already. */
static void setup_addition(void)
{
	open_domain();
	open_cq(0);
	open_pollset(0);
	complete_op(0, entry_number(REST, 1), 0);
}

static void add_cq(void)
{
	add_to(0, &cq[0]->fid);
}

static void remove_if_added(void)
{
	mine()->ret = kfi_poll_del(pollset[0], &cq[0]->fid, 0);
	prove_check(!mine()->ret || mine()->ret == -KFI_EINVAL,
		    "it is removed, or was no member");
}

static void finish_add_and_del(void)
{
	const bool member = records[SECOND].ret;

	prove_check(poll_now(0) == member, "a member that is ready is reported");
	if (member)
		remove_cq();
	read_rest(0);
	close_sets();
}

PROVE_SCENARIO(poll_add_beside_del, .rules = "P4 V8", .tables = "9",
	       .says = "a ready CQ is added by one thread and removed by another one",
	       .setup = setup_addition, .finish = finish_add_and_del,
	       .threads = { { "adds", add_cq }, { "removes", remove_if_added } });
