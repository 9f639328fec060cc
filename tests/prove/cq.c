// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Blocking reads of a CQ: no wake-up is lost or swallowed, an entry goes to one reader,
 * and deadlines, signals, kfi_cq_signal(), errors and overruns end a read as the
 * contract says.
 */
#include "support.h"

enum { FIRST, SECOND, THIRD, FOURTH };	/* threads, in the order of their scenario */

static void setup(void)
{
	setup_one_cq();
	prove_ready(cq_is_ready);
}

static void setup_threshold(void)
{
	open_domain();
	open_threshold_cq(0);
	note_threshold(0, 3);
}

static void publish_three(void)
{
	publish(0, 3);
}

static void stop_first(void)
{
	prove_stop(FIRST);
}

static void signal_cq(void)
{
	prove_check(!kfi_cq_signal(cq[0]), "kfi_cq_signal() succeeds");
}

static void finish_one_by_one(void)
{
	prove_check(records[FIRST].n == 1, "the reader gets the entry");
	prove_check(!read_rest(0), "nothing is left");
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(sread_one, .rules = "V1 V2 W2 Q1", .tables = "1",
	       .says = "one thread sleeps in kfi_cq_sread(), one entry is published",
	       .setup = setup, .finish = finish_one_by_one,
	       .threads = { { "reader", read_one }, { "publisher", publish_one } });

PROVE_SCENARIO(sread_irq, .rules = "W10 W2", .tables = "1",
	       .says = "an interrupt publishes an entry for a sleeping reader",
	       .setup = setup, .finish = finish_one_by_one,
	       .threads = { { "reader", read_one },
			    { "publisher", publish_one, PROVE_IRQ } });

PROVE_SCENARIO(sread_two, .rules = "Q3 V4 Q2", .tables = "4",
	       .says = "two readers, one publisher with two entries: one entry each",
	       .setup = setup, .finish = finish_two_entries,
	       .threads = { { "reader 1", read_one }, { "reader 2", read_one },
			    { "publisher", publish_two } });

static void finish_one_of_two(void)
{
	prove_check(records[FIRST].n + records[SECOND].n == 1,
		    "one of the two readers gets the entry");
	prove_check(!read_rest(0), "nothing is left");
	prove_check(counts_of(cq_queue()).wakes <= 1,
		    "one entry wakes one reader");
	check_entries(THIRD, 1);
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(sread_one_for_two, .rules = "Q3 V5", .tables = "4",
	       .says = "two readers and one entry: one of them sleeps on, beside nothing",
	       .setup = setup, .finish = finish_one_of_two,
	       .threads = { { "reader 1", read_one, PROVE_STAYS },
			    { "reader 2", read_one, PROVE_STAYS },
			    { "publisher", publish_one } });

PROVE_SCENARIO(sread_two_by_two, .rules = "Q3 V4", .tables = "4",
	       .says = "two readers, two publishers with one entry each",
	       .setup = setup, .finish = finish_two_publishers,
	       .threads = { { "reader 1", read_one }, { "reader 2", read_one },
			    { "publisher 1", publish_one },
			    { "publisher 2", publish_one } });

static void finish_three_by_two(void)
{
	prove_check(records[0].n + records[1].n + records[2].n == 2,
		    "two of the three readers get an entry");
	prove_check(!read_rest(0), "nothing is left");
	check_entries(3, 1);
	check_entries(4, 1);
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(sread_three_by_two, .rules = "Q3 V4", .tables = "4", .bound = 1,
	       .says = "three readers, two publishers: one reader sleeps on, beside nothing",
	       .setup = setup, .finish = finish_three_by_two,
	       .threads = { { "reader 1", read_one, PROVE_STAYS },
			    { "reader 2", read_one, PROVE_STAYS },
			    { "reader 3", read_one, PROVE_STAYS },
			    { "publisher 1", publish_one },
			    { "publisher 2", publish_one } });

/* The first thread may leave without the entry, which is then the second one's or left. */
static void check_first_or(ssize_t other, unsigned int publisher)
{
	const struct record *r = &records[FIRST];

	prove_check(r->ret == 1 || r->ret == other, "the read ends as the contract says");
	read_rest(0);
	check_entries(publisher, 1);
}

static void finish_deadline(void)
{
	check_first_or(-KFI_ETIMEDOUT, SECOND);
	prove_check(records[FIRST].n == 1 || !counts_of(cq_queue()).wakes,
		    "a reader that was woken does not time out");
	close_all();
}

PROVE_SCENARIO(sread_deadline, .rules = "V4 W4 Q1", .tables = "3",
	       .says = "the deadline of a reader passes as an entry is published",
	       .setup = setup, .finish = finish_deadline,
	       .threads = { { "reader", read_one_in_time }, { "publisher", publish_one } });

static void finish_deadline_of_two(void)
{
	check_first_or(-KFI_ETIMEDOUT, THIRD);
	prove_check(records[FIRST].n + records[SECOND].n == 1,
		    "the entry goes to one of the readers");
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(sread_deadline_of_two, .rules = "V4 W4", .tables = "3 5",
	       .says = "the deadline of one reader passes; the other one gets its wake-up",
	       .setup = setup, .finish = finish_deadline_of_two,
	       .threads = { { "reader in time", read_one_in_time },
			    { "reader", read_one, PROVE_STAYS },
			    { "publisher", publish_one } });

static void finish_signal(void)
{
	check_first_or(-EINTR, SECOND);
	close_all();
}

PROVE_SCENARIO(sread_signal, .rules = "W6 V4", .tables = "3",
	       .says = "a signal comes as an entry is published",
	       .setup = setup, .finish = finish_signal,
	       .threads = { { "reader", read_one }, { "publisher", publish_one },
			    { "signal", signal_first } });

static void finish_signal_alone(void)
{
	prove_check(records[FIRST].ret == -EINTR, "the signal ends the read");
	close_all();
}

PROVE_SCENARIO(sread_signal_alone, .rules = "W6", .tables = "3",
	       .says = "a signal ends a read for which nothing is published",
	       .setup = setup, .finish = finish_signal_alone,
	       .threads = { { "reader", read_one }, { "signal", signal_first } });

static void finish_signal_of_two(void)
{
	check_first_or(-EINTR, THIRD);
	prove_check(records[FIRST].n + records[SECOND].n == 1,
		    "the entry goes to one of the readers");
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(sread_signal_of_two, .rules = "W6 V4", .tables = "3 5",
	       .says = "a signal ends one read; the other reader gets its wake-up",
	       .setup = setup, .finish = finish_signal_of_two,
	       .threads = { { "reader 1", read_one },
			    { "reader 2", read_one, PROVE_STAYS },
			    { "publisher", publish_one },
			    { "signal", signal_first } });

/* A kthread reads until it is stopped, and once more. */
static void read_until_stopped(void)
{
	while (sread_cq(0, 1, 1, FOREVER) == 1)
		;
	prove_check(mine()->ret == -EINTR, "a stopped kthread gets -EINTR");
	if (sread_cq(0, 1, 1, FOREVER) != 1)
		prove_check(mine()->ret == -EINTR, "a later read answers the same");
}

static void finish_stopped(void)
{
	read_rest(0);
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(sread_kthread, .rules = "W6", .tables = "3",
	       .says = "a kthread is stopped while it reads; each read ends",
	       .setup = setup, .finish = finish_stopped,
	       .threads = { { "kthread", read_until_stopped, PROVE_KTHREAD },
			    { "publisher", publish_one },
			    { "stopper", stop_first } });

static void check_once(void)
{
	sread_cq(0, 1, 1, 0);
}

static void finish_check_once(void)
{
	check_first_or(-KFI_ETIMEDOUT, SECOND);
	prove_check(!counts_of(cq_queue()).sleeps,
		    "a read with timeout 0 does not sleep");
	close_all();
}

PROVE_SCENARIO(sread_check, .rules = "Q1 W4", .tables = "1",
	       .says = "a read with timeout 0 looks once",
	       .setup = setup, .finish = finish_check_once,
	       .threads = { { "reader", check_once }, { "publisher", publish_one } });

/* The copy to user space faults, or the thread is killed before it reads. */
static ssize_t take_faults(void *arg, u64 least)
{
	return -EFAULT;
}

static void read_and_fault(void)
{
	mine()->ret = kfi_cq_wait_take(cq[0], 1, KFI_DEADLINE_NONE, take_faults, NULL);
	mine()->done = true;
}

static void finish_fault(void)
{
	prove_check(!records[FIRST].done || records[FIRST].ret == -EFAULT,
		    "the fault ends the call");
	prove_check(records[SECOND].n == 1, "the other reader gets the entry");
	check_entries(THIRD, 1);
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(sread_fault, .rules = "V4 V6 X2", .tables = "5",
	       .says = "the copy of a woken reader faults; the other reader gets the entry",
	       .setup = setup, .finish = finish_fault,
	       .threads = { { "faults", read_and_fault, PROVE_STAYS }, { "reader", read_one },
			    { "publisher", publish_one } });

static void kill_first(void)
{
	prove_kill(FIRST);
}

/* A mutex lets one reader for user space at a time look, copy and remove. */
static DEFINE_MUTEX(readers);

static ssize_t look_and_remove(u64 least)
{
	struct kfi_cq_entry entry;
	ssize_t n;

	if (signal_pending(current))
		return -EINTR;
	n = kfi_cq_peek(cq[0], &entry, 1, NULL, least);
	if (n != 1)
		return n;
	kfi_cq_consume(cq[0], 1);
	return note(mine(), &entry, 1);
}

static ssize_t take_for_user(void *arg, u64 least)
{
	ssize_t n;

	mutex_lock(&readers);
	n = look_and_remove(least);
	mutex_unlock(&readers);
	return n;
}

static void read_for_user(void)
{
	mine()->ret = kfi_cq_wait_take(cq[0], 1, KFI_DEADLINE_NONE, take_for_user, NULL);
}

static void finish_killed(void)
{
	prove_check(records[FIRST].ret == 1 || records[FIRST].ret == -EINTR,
		    "the read ends with the entry or the signal");
	prove_check(records[FIRST].n + records[SECOND].n == 1,
		    "the entry goes to one of the readers");
	check_entries(THIRD, 1);
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(sread_killed, .rules = "V4 V6 W5", .tables = "5",
	       .says = "a woken reader is killed before it takes; the other one gets the entry",
	       .setup = setup, .finish = finish_killed,
	       .threads = { { "killed", read_for_user },
			    { "reader", read_for_user, PROVE_STAYS },
			    { "publisher", publish_one }, { "killer", kill_first } });

static void poll_once(void)
{
	read_cq(0, 1);
}

static void finish_overtaken(void)
{
	prove_check(records[FIRST].n == 1, "the reader gets an entry in the end");
	read_rest(0);
	check_entries(THIRD, 2);
	close_all();
}

PROVE_SCENARIO(sread_overtaken, .rules = "V5", .tables = "6",
	       .says = "another thread reads the entry first; the next one ends the read",
	       .setup = setup, .finish = finish_overtaken,
	       .threads = { { "reader", read_one }, { "poller", poll_once },
			    { "publisher", publish_two } });

static void finish_overtaken_deadline(void)
{
	prove_check(records[FIRST].ret == 1 || records[FIRST].ret == -KFI_ETIMEDOUT,
		    "the read ends as the contract says");
	read_rest(0);
	check_entries(THIRD, 1);
	close_all();
}

PROVE_SCENARIO(sread_overtaken_in_time, .rules = "V5 W4", .tables = "6 3",
	       .says = "the reader that was overtaken sleeps again, with the same deadline",
	       .setup = setup, .finish = finish_overtaken_deadline,
	       .threads = { { "reader", read_one_in_time }, { "poller", poll_once },
			    { "publisher", publish_one } });

static void finish_cq_signal(void)
{
	check_first_or(-KFI_EAGAIN, SECOND);
	close_all();
}

/* The signaller may come before the read, which then waits for the entry. */
PROVE_SCENARIO(cq_signal_one, .rules = "Q5", .tables = "8",
	       .says = "kfi_cq_signal() and an entry come together",
	       .setup = setup, .finish = finish_cq_signal,
	       .threads = { { "reader", read_one }, { "publisher", publish_one },
			    { "signaller", signal_cq } });

/* The second entry is stored before the signal, and no other thread reads it. */
static void overtake_and_signal(void)
{
	publish(0, 1);
	read_cq(0, 1);
	complete_op(0, entry_number(REST, 1), 0);
	kfi_cq_signal(cq[0]);
}

static void finish_not_hidden(void)
{
	prove_check(records[FIRST].ret == 1, "the signal hides no entry");
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(cq_signal_overtaken, .rules = "Q5", .tables = "8 6",
	       .says = "a woken reader is overtaken; then an entry and a signal come",
	       .setup = setup, .finish = finish_not_hidden,
	       .threads = { { "reader", read_one }, { "overtakes", overtake_and_signal } });

static bool asked;		/* to end; a plain store before kfi_cq_signal() */

static void ask_to_end(void)
{
	asked = true;
	signal_cq();
}

static void read_until_asked(void)
{
	if (sread_cq(0, 1, 1, FOREVER) == -KFI_EAGAIN)
		prove_check(asked, "the reader sees what came before the signal");
}

static void finish_asked(void)
{
	end_sleepers(cq_queue());
	close_all();
}

/* The signaller may come before the read, which then sleeps on. */
PROVE_SCENARIO(cq_signal_is_seen, .rules = "Q5 V1", .tables = "8",
	       .says = "a reader that kfi_cq_signal() ends sees what came before it",
	       .setup = setup_one_cq, .finish = finish_asked,
	       .threads = { { "reader", read_until_asked, PROVE_STAYS },
			    { "signaller", ask_to_end } });

static bool in_call;		/* the reader has been woken in its call, which goes on */
static bool must_end;		/* a signal came after that */

static bool signal_is_missed(void)
{
	return must_end && !records[FIRST].done;
}

static void setup_signal(void)
{
	setup_one_cq();
	prove_ready(signal_is_missed);
}

static ssize_t take_noting(void *arg, u64 least)
{
	struct kfi_cq_entry entry;
	ssize_t n = kfi_cq_read(cq[0], &entry, 1);

	if (n != 1)
		WRITE_ONCE(in_call, true);
	return n;
}

static void read_noting(void)
{
	mine()->ret = kfi_cq_wait_take(cq[0], 1, KFI_DEADLINE_NONE, take_noting, NULL);
	mine()->done = true;
}

static void signal_noting(void)
{
	bool during = READ_ONCE(in_call);

	signal_cq();
	must_end = during;
}

static void finish_signal_after_wake(void)
{
	if (records[FIRST].done)
		prove_check(records[FIRST].ret == 1 || records[FIRST].ret == -KFI_EAGAIN,
			    "the read ends with the entry or the signal");
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(cq_signal_after_wake, .rules = "Q5 V5", .tables = "8",
	       .says = "a reader that an entry has just woken ends by the signal as well",
	       .setup = setup_signal, .finish = finish_signal_after_wake,
	       .threads = { { "reader", read_noting, PROVE_STAYS },
			    { "poller", poll_once }, { "publisher", publish_one },
			    { "signaller", signal_noting } });

static void signal_and_read(void)
{
	signal_cq();
	sread_cq(0, 1, 1, FOREVER);
	prove_check(mine()->ret == 1, "a call after the signal does not see it");
}

static void finish_not_remembered(void)
{
	prove_check(records[FIRST].n == 1, "the later read gets the entry");
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(cq_signal_not_remembered, .rules = "Q5", .tables = "8",
	       .says = "a call that begins after kfi_cq_signal() sleeps",
	       .setup = setup, .finish = finish_not_remembered,
	       .threads = { { "reader", signal_and_read }, { "publisher", publish_one } });

static void finish_signal_two(void)
{
	unsigned int i;

	for (i = FIRST; i <= SECOND; i++)
		if (records[i].done)
			prove_check(records[i].ret == 1 || records[i].ret == -KFI_EAGAIN,
				    "a read ends with the entry or the signal");
	read_rest(0);
	check_entries(THIRD, 1);
	end_sleepers(cq_queue());
	close_all();
}

/* Four threads, of which two sleep: without a bound there are millions of executions. */
PROVE_SCENARIO(cq_signal_two, .rules = "Q5 Q3", .tables = "8",
	       .says = "kfi_cq_signal() ends two reads; the entry is not hidden",
	       .setup = setup, .finish = finish_signal_two,
	       .threads = { { "reader 1", read_one, PROVE_STAYS },
			    { "reader 2", read_one, PROVE_STAYS },
			    { "publisher", publish_one }, { "signaller", signal_cq } });

/* Both waiters are asleep if the queue has them; then none may be left by a signal. */
static unsigned int asleep_at_signal;

static void signal_sleepers(void)
{
	asleep_at_signal = asleep_in(cq_queue());
	signal_cq();
}

static bool too_few_ended(void)
{
	return records[FIRST].done + records[SECOND].done < asleep_at_signal;
}

static void setup_signal_all(void)
{
	setup_one_cq();
	prove_ready(too_few_ended);
}

static void finish_signal_all(void)
{
	prove_check(!too_few_ended(), "all that slept have ended");
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(cq_signal_all, .rules = "Q5", .tables = "8",
	       .says = "kfi_cq_signal() ends the calls of all threads that sleep",
	       .setup = setup_signal_all, .finish = finish_signal_all,
	       .threads = { { "reader 1", read_one, PROVE_STAYS },
			    { "reader 2", read_one, PROVE_STAYS },
			    { "signaller", signal_sleepers } });

static void finish_two_signallers(void)
{
	if (records[FIRST].done)
		prove_check(records[FIRST].ret == -KFI_EAGAIN,
			    "the read ends with the signal");
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(cq_signal_twice, .rules = "Q5", .tables = "8",
	       .says = "two signals at once: the later number stays",
	       .setup = setup_signal, .finish = finish_two_signallers,
	       .threads = { { "reader", read_noting, PROVE_STAYS },
			    { "signaller 1", signal_cq }, { "signaller 2", signal_noting } });

static void read_two(void)
{
	sread_cq(0, 2, 2, FOREVER);
	mine()->done = true;
}

static void read_three(void)
{
	sread_cq(0, 4, 3, FOREVER);
}

static void read_two_in_time(void)
{
	ktime_t began = ktime_get();

	check_deadline(began, sread_cq(0, 4, 2, SOME_TIME));
	mine()->done = true;
}

static void finish_threshold(void)
{
	prove_check(records[FIRST].ret == 2, "the read returns both entries at once");
	check_entries(SECOND, 2);
	close_all();
}

PROVE_SCENARIO(threshold_one, .rules = "Q4", .tables = "1 4",
	       .says = "a reader of two entries sleeps until two are there",
	       .setup = setup_threshold, .finish = finish_threshold,
	       .threads = { { "reader of 2", read_two }, { "publisher", publish_two } });

static void finish_threshold_sleeps(void)
{
	prove_check(!records[FIRST].done, "one entry does not end a read of two");
	prove_check(!counts_of(cq_queue()).wakes,
		    "no thread is woken below its threshold");
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(threshold_not_reached, .rules = "Q4", .tables = "4",
	       .says = "a reader of two entries is not woken for one",
	       .setup = setup_threshold, .finish = finish_threshold_sleeps,
	       .threads = { { "reader of 2", read_two, PROVE_STAYS },
			    { "publisher", publish_one } });

static void finish_threshold_mixed(void)
{
	prove_check(records[FIRST].ret == 2, "the reader of two gets two at once");
	prove_check(records[SECOND].ret == 1, "the reader of one gets one");
	check_entries(THIRD, 3);
	close_all();
}

PROVE_SCENARIO(threshold_mixed, .rules = "Q4 Q3", .tables = "4",
	       .says = "readers of two entries and of one share three entries",
	       .setup = setup_threshold, .finish = finish_threshold_mixed,
	       .threads = { { "reader of 2", read_two }, { "reader of 1", read_one },
			    { "publisher", publish_three } });

static void finish_threshold_poller(void)
{
	prove_check(records[FIRST].ret >= 2, "the reader gets its threshold");
	read_rest(0);
	check_entries(THIRD, 3);
	close_all();
}

PROVE_SCENARIO(threshold_overtaken, .rules = "Q4 V5", .tables = "4 6",
	       .says = "another thread takes one of the entries of a threshold",
	       .setup = setup_threshold, .finish = finish_threshold_poller,
	       .threads = { { "reader of 2", read_two }, { "poller", poll_once },
			    { "publisher", publish_three } });

/*
 * Two entries wake a reader of one and the reader of two. The latter finds one entry left,
 * and another reader of one sleeps.
 */
static bool threshold_is_missed(void)
{
	const int left = 2 - (int)(records[0].n + records[1].n + records[2].n);

	return (left >= 1 && !(records[SECOND].done && records[THIRD].done)) ||
	       (left >= 2 && !records[FIRST].done);
}

static void setup_threshold_handed_on(void)
{
	setup_threshold();
	prove_ready(threshold_is_missed);
}

static void finish_threshold_handed_on(void)
{
	check_entries(FOURTH, 2);
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(threshold_handed_on, .rules = "Q4 V4", .tables = "4 5", .bound = 1,
	       .says = "a reader of two finds one entry left and hands on to a reader of one",
	       .setup = setup_threshold_handed_on, .finish = finish_threshold_handed_on,
	       .threads = { { "reader of 2", read_two, PROVE_STAYS },
			    { "reader of 1", read_one, PROVE_STAYS },
			    { "other reader of 1", read_one, PROVE_STAYS },
			    { "publisher", publish_two } });

static void finish_threshold_deadline(void)
{
	const ssize_t ret = records[FIRST].ret;

	prove_check(ret == 1 || ret == -KFI_ETIMEDOUT,
		    "after the deadline the read returns what is there");
	read_rest(0);
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(threshold_deadline, .rules = "Q4 W4", .tables = "3 4",
	       .says = "the deadline ends a read of two with one entry",
	       .setup = setup_threshold, .finish = finish_threshold_deadline,
	       .threads = { { "reader of 2", read_two_in_time },
			    { "publisher", publish_one } });

/* One entry is there before the call, so that the deadline never finds nothing. */
static void setup_threshold_entry(void)
{
	setup_threshold();
	complete_op(0, entry_number(SECOND, 1), 0);
}

static void publish_next(void)
{
	complete_op(0, entry_number(SECOND, 2), 0);
}

static void finish_threshold_entry(void)
{
	prove_check(records[FIRST].ret == 1 || records[FIRST].ret == 2,
		    "the deadline returns the entries that are there");
	read_rest(0);
	check_entries(SECOND, 2);
	close_all();
}

PROVE_SCENARIO(threshold_deadline_entry, .rules = "Q4 W4", .tables = "3 4",
	       .says = "an entry is there, and the deadline passes as the next one comes",
	       .setup = setup_threshold_entry, .finish = finish_threshold_entry,
	       .threads = { { "reader of 2", read_two_in_time },
			    { "publisher", publish_next } });

static bool threshold_signal_is_missed(void)
{
	return asleep_at_signal && !records[FIRST].done;
}

static void setup_threshold_signal(void)
{
	setup_threshold();
	prove_ready(threshold_signal_is_missed);
}

static void finish_threshold_signal(void)
{
	if (records[FIRST].done)
		prove_check(records[FIRST].ret == 1 || records[FIRST].ret == -KFI_EAGAIN,
			    "the signal ends the read with what is there");
	read_rest(0);
	check_entries(SECOND, 1);
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(threshold_signal, .rules = "Q4 Q5", .tables = "4 8",
	       .says = "kfi_cq_signal() ends a read of two with one entry, or none",
	       .setup = setup_threshold_signal, .finish = finish_threshold_signal,
	       .threads = { { "reader of 2", read_two, PROVE_STAYS },
			    { "publisher", publish_one },
			    { "signaller", signal_sleepers } });

static void publish_entry_and_error(void)
{
	publish(0, 1);
	complete_op(0, entry_number(prove_self(), 2), KFI_EIO);
}

static void take_error(void)
{
	struct kfi_cq_err_entry error = { };

	prove_check(kfi_cq_readerr(cq[0], &error, 0) == 1, "the error is there");
	prove_check(error.err == KFI_EIO, "the error has its number");
	prove_check(kfi_cq_readerr(cq[0], &error, 0) == -KFI_EAGAIN,
		    "the error is there once");
}

static void finish_error_two(void)
{
	prove_check(records[FIRST].ret == -KFI_EAVAIL && records[SECOND].ret == -KFI_EAVAIL,
		    "an error ends each read with -KFI_EAVAIL");
	take_error();
	close_all();
}

PROVE_SCENARIO(sread_error, .rules = "Q3 V7 Q1", .tables = "4",
	       .says = "an error wakes all readers",
	       .setup = setup, .finish = finish_error_two,
	       .threads = { { "reader 1", read_one }, { "reader 2", read_one },
			    { "publisher", publish_error } });

static void finish_threshold_error(void)
{
	prove_check(records[FIRST].ret == 1, "the read returns what comes before the error");
	check_entries(SECOND, 1);
	take_error();
	close_all();
}

PROVE_SCENARIO(threshold_error, .rules = "Q4 Q2 V7", .tables = "4",
	       .says = "an error ends a read of three; the entry before it comes first",
	       .setup = setup_threshold, .finish = finish_threshold_error,
	       .threads = { { "reader of 3", read_three },
			    { "publisher", publish_entry_and_error } });

static void setup_small(void)
{
	open_domain();
	prove_check(!try_open_cq(0, 1, KFI_CQ_COND_NONE, NULL), "the CQ opens");
	note_threshold(0, 1);
	prove_ready(cq_is_ready);
}

/*
 * Each reader reads the error, if it finds one at the head; one of them gets it. With room
 * for one entry, the place of the error is also that of the next entry.
 */
static void read_error(void)
{
	struct kfi_cq_err_entry error = { };

	if (sread_cq(0, 1, 1, SOME_TIME) == -KFI_EAVAIL)
		mine()->ret = kfi_cq_readerr(cq[0], &error, 0);
}

static void finish_error_once(void)
{
	prove_check((records[FIRST].ret == 1) + (records[SECOND].ret == 1) <= 1,
		    "one thread gets the error");
	if (records[FIRST].ret != 1 && records[SECOND].ret != 1)
		take_error();
	close_all();
}

PROVE_SCENARIO(sread_error_once, .rules = "Q1 Q3", .tables = "4",
	       .says = "two readers of an error: only one gets it",
	       .setup = setup_small, .finish = finish_error_once,
	       .threads = { { "reader 1", read_error }, { "reader 2", read_error },
			    { "publisher", publish_error } });

static void finish_overrun(void)
{
	const bool overrun = records[FIRST].ret == -KFI_EOVERRUN ||
			     records[SECOND].ret == -KFI_EOVERRUN;
	struct kfi_cq_entry entry;

	prove_check(records[FIRST].ret == 1 || records[SECOND].ret == 1,
		    "the entry before the overrun is read");
	prove_check(times_read(entry_number(THIRD, 1)) == 1, "the first entry is not lost");
	complete_op(0, entry_number(THIRD, 3), 0);
	if (overrun)
		prove_check(kfi_cq_read(cq[0], &entry, 1) == -KFI_EOVERRUN,
			    "after the overrun nothing is stored");
	else
		check_entries(THIRD, 2);
	close_all();
}

PROVE_SCENARIO(sread_overrun, .rules = "Q2 V7 Q3", .tables = "4",
	       .says = "a CQ with room for one entry gets two: both readers return",
	       .setup = setup_small, .finish = finish_overrun,
	       .threads = { { "reader 1", read_one }, { "reader 2", read_one },
			    { "publisher", publish_two } });

/* One reader is woken for the entry; the overrun must wake both others. */
static void finish_overrun_three(void)
{
	unsigned int i, n = 0;

	for (i = FIRST; i <= THIRD; i++) {
		prove_check(!records[i].done || records[i].ret == 1 ||
			    records[i].ret == -KFI_EOVERRUN,
			    "a read ends with an entry or the overrun");
		n += records[i].n;
	}
	prove_check(n >= 1, "the entry before the overrun is read");
	end_sleepers(cq_queue());
	close_all();
}

PROVE_SCENARIO(sread_overrun_three, .rules = "Q2 V7 Q3", .tables = "4", .bound = 1,
	       .says = "an overrun wakes all readers that sleep",
	       .setup = setup_small, .finish = finish_overrun_three,
	       .threads = { { "reader 1", read_one, PROVE_STAYS },
			    { "reader 2", read_one, PROVE_STAYS },
			    { "reader 3", read_one, PROVE_STAYS },
			    { "publisher", publish_two } });
