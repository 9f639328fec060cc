// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Exclusive waiting: a publication wakes one thread and gives it a turn. If each woken
 * thread reads or waits again, no thread sleeps while an entry is unread.
 */
#include "support.h"

enum { FIRST, SECOND, THIRD, FOURTH };

static bool slept_beside(void)
{
	return set_is_ready() && kfi_wait_queue(set)->sleepers;
}

static void setup(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	make_exclusive();
	open_cq(0);
	prove_ready(slept_beside);
}

static void setup_two(void)
{
	setup();
	open_cq(1);
}

static void publish_three(void)
{
	publish(0, 3);
}

static void wait_once(void)
{
	mine()->ret = kfi_wait(set, FOREVER);
	mine()->done = true;
}

static void finish_one(void)
{
	prove_check(records[FIRST].n == 1, "the waiter reads the entry");
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(exclusive_one, .rules = "W3 W2", .tables = "14 1",
	       .says = "one thread waits in an exclusive set, one entry is published",
	       .setup = setup, .finish = finish_one,
	       .threads = { { "waiter", wait_and_read }, { "publisher", publish_one } });

PROVE_SCENARIO(exclusive_two, .rules = "W3 V4", .tables = "14",
	       .says = "two threads and two entries: each thread reads one",
	       .setup = setup, .finish = finish_two_entries,
	       .threads = { { "waiter 1", wait_and_read }, { "waiter 2", wait_and_read },
			    { "publisher", publish_two } });

PROVE_SCENARIO(exclusive_two_by_two, .rules = "W3 V4", .tables = "14",
	       .says = "two threads and two publishers",
	       .setup = setup, .finish = finish_two_publishers,
	       .threads = { { "waiter 1", wait_and_read }, { "waiter 2", wait_and_read },
			    { "publisher 1", publish_one },
			    { "publisher 2", publish_one } });

static void finish_herd(void)
{
	const struct kfi_counts counts = counts_of(kfi_wait_queue(set));

	prove_check(counts.wakes <= 1, "one publication wakes at most one thread");
	prove_check(!counts.handed_on, "a thread without a turn hands none on");
	prove_check(records[FIRST].n + records[SECOND].n == 1, "one thread reads the entry");
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(exclusive_no_herd, .rules = "W3", .tables = "14",
	       .says = "two threads and one entry: one thread is woken",
	       .setup = setup, .finish = finish_herd,
	       .threads = { { "waiter 1", wait_and_read, PROVE_STAYS },
			    { "waiter 2", wait_and_read, PROVE_STAYS },
			    { "publisher", publish_one } });

/* The entry is not for this thread: it waits again, or for another member. */
static void wait_twice(void)
{
	int i;

	for (i = 0; i < 2 && !mine()->ret; i++)
		mine()->ret = kfi_wait(set, FOREVER);
}

static void finish_passed(void)
{
	prove_check(records[SECOND].n == 1, "the other thread reads the entry");
	check_entries(THIRD, 1);
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(exclusive_waits_again, .rules = "W3 V4", .tables = "14",
	       .says = "a thread with a turn waits again: the turn goes to the other thread",
	       .setup = setup, .finish = finish_passed,
	       .threads = { { "waits again", wait_twice, PROVE_STAYS },
			    { "waiter", wait_and_read }, { "publisher", publish_one } });

static void look_once(void)
{
	kfi_wait(set, 0);
}

PROVE_SCENARIO(exclusive_waits_beside_look, .rules = "W3 V4", .tables = "14",
	       .says = "a third thread looks as a turn is given: it ends no turn but its own",
	       .setup = setup, .finish = finish_passed,
	       .threads = { { "waits again", wait_twice, PROVE_STAYS },
			    { "waiter", wait_and_read }, { "publisher", publish_one },
			    { "looks", look_once } });

static void finish_three(void)
{
	prove_check(records[0].n == 1 && records[1].n == 1 && records[2].n == 1,
		    "each waiter reads one entry");
	check_entries(3, 3);
	close_all();
}

PROVE_SCENARIO(exclusive_more_entries, .rules = "W3 V4", .tables = "14", .bound = 1,
	       .says = "three threads and three entries: reading passes the turns on",
	       .setup = setup, .finish = finish_three,
	       .threads = { { "waiter 1", wait_and_read }, { "waiter 2", wait_and_read },
			    { "waiter 3", wait_and_read },
			    { "publisher", publish_three } });

/* Two members become ready with one completion; each thread reads one of them. */
static void setup_completion(void)
{
	setup();
	open_cntr();
}

static void publish_and_count(void)
{
	const struct kfi_completion comp = {
		.context = (void *)entry_number(prove_self(), 1),
		.flags = KFI_RECV,
	};
	struct kfi_target targets[2] = { };

	kfi_cq_store(cq[0], &comp, &targets[0]);
	kfi_cntr_count(cntr, KFI_WHY_EVENT, &targets[1]);
	kfi_publish(targets, 2);
}

static atomic_t cntr_taken;

/*
 * Takes the entry or the change, whichever is there: a thread that waits for one of them
 * alone would spin beside the other.
 */
static void take_one(bool cntr_first)
{
	do {
		prove_check(!kfi_wait(set, FOREVER), "the completion ends the wait");
		if (!cntr_first && read_cq(0, 1) == 1)
			return;
		if (kfi_cntr_read(cntr) && !atomic_xchg(&cntr_taken, 1))
			return;
	} while (!cntr_first || read_cq(0, 1) != 1);
}

static void take_entry(void)
{
	take_one(false);
	mine()->done = true;
}

static void take_change(void)
{
	take_one(true);
	mine()->done = true;
}

static void finish_members(void)
{
	prove_check(records[FIRST].done && records[SECOND].done, "each thread takes one");
	close_all();
}

PROVE_SCENARIO(exclusive_two_members, .rules = "W3 Q8 V4", .tables = "14 2",
	       .says = "one completion wakes one thread for a CQ and a counter; both are read",
	       .setup = setup_completion, .finish = finish_members,
	       .threads = { { "CQ first", take_entry },
			    { "counter first", take_change },
			    { "provider", publish_and_count } });

/* A thread with a turn reads the counter, which another thread has read: its turn ends. */
static void wait_and_read_cntr(void)
{
	if (!kfi_wait(set, FOREVER))
		kfi_cntr_read(cntr);
}

static void complete_and_read_cntr(void)
{
	publish_and_count();
	kfi_cntr_read(cntr);
}

static void finish_read_cntr(void)
{
	end_sleepers(kfi_wait_queue(set));
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(exclusive_unchanged_cntr, .rules = "W3 Q8 V4", .tables = "14 2",
	       .says = "a thread with a turn reads a counter that was read: the turn goes on",
	       .setup = setup_completion, .finish = finish_read_cntr,
	       .threads = { { "reads the counter", wait_and_read_cntr, PROVE_STAYS },
			    { "waiter", wait_and_read, PROVE_STAYS },
			    { "provider", complete_and_read_cntr } });

/* Both entries have woken a thread before the first of them is read. */
static bool published, too_early;

static void publish_two_noting(void)
{
	publish(0, 2);
	WRITE_ONCE(published, true);
}

static void wait_and_read_noting(void)
{
	mine()->ret = kfi_wait(set, FOREVER);
	if (mine()->ret)
		return;
	if (!READ_ONCE(published))
		WRITE_ONCE(too_early, true);
	read_cq(0, 1);
}

static void finish_not_more(void)
{
	prove_check(too_early || counts_of(kfi_wait_queue(set)).wakes <= 2,
		    "two entries wake at most two threads");
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(exclusive_no_third, .rules = "W3", .tables = "14", .bound = 1,
	       .says = "three threads and two entries: a read wakes no third thread",
	       .setup = setup, .finish = finish_not_more,
	       .threads = { { "waiter 1", wait_and_read_noting, PROVE_STAYS },
			    { "waiter 2", wait_and_read_noting, PROVE_STAYS },
			    { "waiter 3", wait_and_read_noting, PROVE_STAYS },
			    { "publisher", publish_two_noting } });

static void wait_and_read_two_cqs(void)
{
	while (mine()->n < 1) {
		prove_check(!kfi_wait(set, FOREVER), "the entry ends the wait");
		if (read_cq(0, 1) != 1)
			read_cq(1, 1);
	}
}

/* A thread had a turn, used it for nothing and is gone; then the set was drained. */
static void setup_old_turn(void)
{
	struct kfi_waitq *q;

	setup_completion();
	q = kfi_wait_queue(set);
	complete_op(0, 1, 0);
	spin_lock_irq(&q->head.lock);
	kfi_turn_given(q, NULL);
	spin_unlock_irq(&q->head.lock);
	prove_check(read_cq(0, 1) == 1, "the set is drained");
}

PROVE_SCENARIO(exclusive_old_turn, .rules = "W3 V4", .tables = "14",
	       .says = "a turn of a thread that is gone ends when the set is drained",
	       .setup = setup_old_turn, .finish = finish_members,
	       .threads = { { "CQ first", take_entry },
			    { "counter first", take_change },
			    { "provider", publish_and_count } });

PROVE_SCENARIO(exclusive_two_cqs, .rules = "W3 V4", .tables = "14",
	       .says = "two threads, two CQs of the set with one entry each",
	       .setup = setup_two, .finish = finish_two_publishers,
	       .threads = { { "waiter 1", wait_and_read_two_cqs },
			    { "waiter 2", wait_and_read_two_cqs },
			    { "publisher 1", publish_one },
			    { "publisher 2", publish_second } });

static void finish_left(void)
{
	prove_check(records[FIRST].n + records[SECOND].n <= 1, "the entry is read once");
	read_rest(0);
	check_entries(THIRD, 1);
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

/*
 * A signal after the wait has returned 0 is the exception of W3: then the thread must
 * read or wait again, so it reads here.
 */
static void wait_and_read_or_leave(void)
{
	mine()->ret = kfi_wait(set, FOREVER);
	if (!mine()->ret)
		read_cq(0, 1);
}

PROVE_SCENARIO(exclusive_signal, .rules = "W3 V4 W6", .tables = "14 5",
	       .says = "a thread is woken and gets a signal: its turn goes to the other one",
	       .setup = setup, .finish = finish_left,
	       .threads = { { "signalled", wait_and_read_or_leave },
			    { "waiter", wait_and_read, PROVE_STAYS },
			    { "publisher", publish_one }, { "signal", signal_first } });

/*
 * The thread dies in the call and reads no more. The signal comes before the publication,
 * so a turn that it gets is given to a thread that dies. (A signal after the wait has
 * returned 0 is the exception of W3.)
 */
static void wait_and_die(void)
{
	mine()->ret = kfi_wait(set, FOREVER);
	if (!mine()->ret && !signal_pending(current))
		read_cq(0, 1);
}

static void kill_and_publish(void)
{
	prove_kill(FIRST);
	publish(0, 1);
}

static void wait_for_error(void)
{
	struct kfi_cq_err_entry error = { };

	if (!kfi_wait(set, FOREVER))
		mine()->done = kfi_cq_readerr(cq[0], &error, 0) == 1;
}

static void finish_error(void)
{
	prove_check(records[FIRST].done + records[SECOND].done == 1,
		    "one thread reads the error");
	prove_check(counts_of(kfi_wait_queue(set)).wakes <= 1, "an error wakes one thread");
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(exclusive_error, .rules = "W3 V7", .tables = "14",
	       .says = "an error wakes one thread of an exclusive set",
	       .setup = setup, .finish = finish_error,
	       .threads = { { "waiter 1", wait_for_error, PROVE_STAYS },
			    { "waiter 2", wait_for_error, PROVE_STAYS },
			    { "publisher", publish_error } });

static unsigned int asleep_at_signal;

static void signal_cq(void)
{
	asleep_at_signal = asleep_in(kfi_wait_queue(set));
	kfi_cq_signal(cq[0]);
}

static bool too_few_ended(void)
{
	return records[FIRST].done + records[SECOND].done < asleep_at_signal;
}

static void setup_signal(void)
{
	setup();
	prove_ready(too_few_ended);
}

static void finish_cq_signal(void)
{
	prove_check(!too_few_ended(), "all that slept have ended");
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(exclusive_cq_signal, .rules = "W3 Q5", .tables = "14 8",
	       .says = "kfi_cq_signal() wakes all threads of an exclusive set",
	       .setup = setup_signal, .finish = finish_cq_signal,
	       .threads = { { "waiter 1", wait_once, PROVE_STAYS },
			    { "waiter 2", wait_once, PROVE_STAYS },
			    { "signaller", signal_cq } });

static void finish_lost(void)
{
	unsigned int i;

	for (i = FIRST; i <= SECOND; i++)
		prove_check(!records[i].ret || records[i].ret == -KFI_ENODEV,
			    "the loss of the device ends each wait");
	close_all();
}

PROVE_SCENARIO(exclusive_loss, .rules = "W3 O5 V7", .tables = "14 12",
	       .says = "the loss of the device wakes all threads of an exclusive set",
	       .setup = setup, .finish = finish_lost,
	       .threads = { { "waiter 1", wait_once }, { "waiter 2", wait_once },
			    { "device", lose_device } });

/* The set is made exclusive while a thread may wait in it. */
static void setup_ordinary(void)
{
	setup_one_member();
	prove_ready(slept_beside);
}

/* The entry comes afterwards, so a thread that sleeps before the call sleeps on in it. */
static void make_exclusive_and_publish(void)
{
	const unsigned int sleepers = asleep_in(kfi_wait_queue(set));
	u64 flags = KFI_WAIT_EXCLUSIVE;
	int ret = kfi_control(&set->kfid, KFI_SETFIDFLAG, &flags);

	prove_check(ret == -KFI_EBUSY || (!ret && !sleepers),
		    "exclusive waiting is refused while a thread sleeps");
	publish(0, 1);
}

static void finish_set_flag(void)
{
	prove_check(records[FIRST].n == 1, "the waiter reads the entry");
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(exclusive_set_flag, .rules = "W3", .tables = "14",
	       .says = "exclusive waiting is turned on as a thread begins to wait",
	       .setup = setup_ordinary, .finish = finish_set_flag,
	       .threads = { { "waiter", wait_and_read },
			    { "owner", make_exclusive_and_publish } });

/* A turn of a thread that is over, or that timed out, must not count for ever. */
static void wait_in_time_and_read(void)
{
	mine()->ret = kfi_wait(set, SOME_TIME);
	if (!mine()->ret)
		read_cq(0, 1);
}

static void finish_deadline(void)
{
	prove_check(!records[FIRST].ret || records[FIRST].ret == 1 ||
		    records[FIRST].ret == -KFI_EAGAIN ||
		    records[FIRST].ret == -KFI_ETIMEDOUT,
		    "the wait ends as the contract says");
	prove_check(records[FIRST].n + records[SECOND].n == 1, "one thread reads the entry");
	check_entries(THIRD, 1);
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(exclusive_deadline, .rules = "W3 W4 V4", .tables = "14 3",
	       .says = "the deadline of one thread passes as a turn is given",
	       .setup = setup, .finish = finish_deadline,
	       .threads = { { "waiter in time", wait_in_time_and_read },
			    { "waiter", wait_and_read, PROVE_STAYS },
			    { "publisher", publish_one } });

PROVE_SCENARIO(exclusive_killed, .rules = "W3 V4 W5", .tables = "14 5",
	       .says = "a woken thread is killed in the call: the other one gets its turn",
	       .setup = setup, .finish = finish_left,
	       .threads = { { "killed", wait_and_die },
			    { "waiter", wait_and_read, PROVE_STAYS },
			    { "kills and publishes", kill_and_publish } });

/* Exclusive waiting is turned off while nobody sleeps, but somebody passes turns on. */
static void setup_entry(void)
{
	setup();
	complete_op(0, entry_number(FIRST, 1), 0);
}

static void make_ordinary(void)
{
	u64 flags = 0;

	prove_check(!kfi_control(&set->kfid, KFI_SETFIDFLAG, &flags),
		    "nobody sleeps, so the set becomes ordinary");
}

static void read_entry(void)
{
	read_cq(0, 1);
}

static void finish_off(void)
{
	prove_check(records[FIRST].n + read_rest(0) == 1, "the entry is read once");
	close_all();
}

PROVE_SCENARIO(exclusive_off_beside_read, .rules = "W3", .tables = "14",
	       .says = "exclusive waiting ends beside a read, which passes turns on",
	       .setup = setup_entry, .finish = finish_off,
	       .threads = { { "reader", read_entry }, { "owner", make_ordinary } });

PROVE_SCENARIO(exclusive_off_beside_look, .rules = "W3", .tables = "14",
	       .says = "exclusive waiting ends beside a look, which gives its turn back",
	       .setup = setup_entry, .finish = finish_off,
	       .threads = { { "looks", look_once }, { "owner", make_ordinary } });

static void look_at_nothing(void)
{
	prove_check(kfi_wait(set, 0) == -KFI_ETIMEDOUT, "there is nothing");
}

PROVE_SCENARIO(exclusive_off_beside_empty_look, .rules = "W3", .tables = "14",
	       .says = "exclusive waiting ends beside a look at an empty set",
	       .setup = setup, .finish = close_all,
	       .threads = { { "looks", look_at_nothing }, { "owner", make_ordinary } });

/* A thread that has a turn looks once and goes, without reading. */
static void wait_and_look(void)
{
	mine()->ret = kfi_wait(set, FOREVER);
	if (!mine()->ret)
		kfi_wait(set, 0);
}

static void finish_looked(void)
{
	prove_check(records[SECOND].n == 1, "the other thread reads the entry");
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(exclusive_look_returns_turn, .rules = "W3 V4", .tables = "14",
	       .says = "a thread with a turn looks once and goes: the other one gets the turn",
	       .setup = setup, .finish = finish_looked,
	       .threads = { { "looks", wait_and_look, PROVE_STAYS },
			    { "waiter", wait_and_read }, { "publisher", publish_one } });

/* The mode changes beside two threads that begin to wait; then an entry comes. */
static void make_exclusive_and_publish_one(void)
{
	u64 flags = KFI_WAIT_EXCLUSIVE;

	mine()->ret = kfi_control(&set->kfid, KFI_SETFIDFLAG, &flags);
	prove_check(!mine()->ret || mine()->ret == -KFI_EBUSY,
		    "the mode changes, unless a thread sleeps");
	publish(0, 1);
}

static void finish_exclusive(void)
{
	prove_check(records[THIRD].ret || counts_of(kfi_wait_queue(set)).wakes <= 1,
		    "one entry wakes one thread of an exclusive set");
	end_sleepers(kfi_wait_queue(set));
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(exclusive_on_beside_two, .rules = "W3", .tables = "14",
	       .says = "exclusive waiting begins as two threads begin to wait",
	       .setup = setup_one_member, .finish = finish_exclusive,
	       .threads = { { "waiter 1", wait_once, PROVE_STAYS },
			    { "waiter 2", wait_once, PROVE_STAYS },
			    { "owner", make_exclusive_and_publish_one } });
