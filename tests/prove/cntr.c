// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Counters: waits for thresholds, errors, and values that are set back.
 */
#include "support.h"

enum { FIRST, SECOND, THIRD, FOURTH };

/* The first thread slept when the counter reached its value: then it returns 0. */
static bool slept;

static bool reached_is_missed(void)
{
	return slept && !records[FIRST].done;
}

static void setup(void)
{
	open_domain();
	open_cntr();
	prove_ready(reached_is_missed);
}

static void wait_for(u64 threshold, int timeout)
{
	mine()->ret = kfi_cntr_wait(cntr, threshold, timeout);
	mine()->done = true;
}

static void wait_for_one(void)
{
	wait_for(1, FOREVER);
}

static void wait_for_two(void)
{
	wait_for(2, FOREVER);
}

static void wait_for_two_in_time(void)
{
	ktime_t began = ktime_get();

	wait_for(2, SOME_TIME);
	check_deadline(began, mine()->ret);
}

static void wait_for_many(void)
{
	wait_for(1ull << 63, FOREVER);
	prove_check(kfi_cntr_read(cntr) >= 1ull << 63, "0 means that the value was reached");
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

static void count_failure(void)
{
	count_op(KFI_WHY_ERROR);
}

static void check_ended(unsigned int thread, ssize_t ret)
{
	prove_check(records[thread].ret == ret, "the wait ends as the contract says");
}

static void finish_reached(void)
{
	check_ended(FIRST, 0);
	close_all();
}

PROVE_SCENARIO(cntr_one, .rules = "Q6 W2", .tables = "1",
	       .says = "a thread waits for 2, two completions are counted",
	       .setup = setup, .finish = finish_reached,
	       .threads = { { "waiter", wait_for_two }, { "provider", count_two } });

PROVE_SCENARIO(cntr_two_providers, .rules = "Q6 W2 W10", .tables = "1",
	       .says = "a thread waits for 2, two providers count one each",
	       .setup = setup, .finish = finish_reached,
	       .threads = { { "waiter", wait_for_two }, { "provider", count_one },
			    { "interrupt", count_one, PROVE_IRQ } });

static void finish_both_reached(void)
{
	check_ended(FIRST, 0);
	check_ended(SECOND, 0);
	close_all();
}

PROVE_SCENARIO(cntr_thresholds, .rules = "Q6", .tables = "1",
	       .says = "two threads wait for 1 and for 2",
	       .setup = setup, .finish = finish_both_reached,
	       .threads = { { "waiter for 1", wait_for_one },
			    { "waiter for 2", wait_for_two },
			    { "provider", count_two } });

PROVE_SCENARIO(cntr_same_threshold, .rules = "Q6", .tables = "1",
	       .says = "two threads wait for the same value: both return",
	       .setup = setup, .finish = finish_both_reached,
	       .threads = { { "waiter 1", wait_for_one }, { "waiter 2", wait_for_one },
			    { "provider", count_one } });

PROVE_SCENARIO(cntr_two_by_two, .rules = "Q6", .tables = "1",
	       .says = "two threads wait for 1 and for 2, two providers count one each",
	       .setup = setup, .finish = finish_both_reached,
	       .threads = { { "waiter for 1", wait_for_one },
			    { "waiter for 2", wait_for_two },
			    { "provider 1", count_one }, { "provider 2", count_one } });

static void setup_one(void)
{
	setup();
	count_one();
}

static void check_once(void)
{
	wait_for(1, 0);
}

PROVE_SCENARIO(cntr_check, .rules = "Q6 W4", .tables = "1",
	       .says = "a wait with timeout 0 finds that the value is reached",
	       .setup = setup_one, .finish = finish_reached,
	       .threads = { { "waiter", check_once }, { "provider", count_one } });

static void finish_below(void)
{
	prove_check(!records[FIRST].done, "1 does not end a wait for 2");
	prove_check(!counts_of(cntr_queue()).wakes,
		    "no thread is woken below its threshold");
	end_sleepers(cntr_queue());
	close_all();
}

PROVE_SCENARIO(cntr_below, .rules = "Q6", .tables = "1",
	       .says = "a thread that waits for 2 is not woken for 1",
	       .setup = setup, .finish = finish_below,
	       .threads = { { "waiter", wait_for_two, PROVE_STAYS },
			    { "provider", count_one } });

/* The value reaches 2 and goes back to 0. */
static void count_two_and_reset(void)
{
	slept = asleep_in(cntr_queue());
	count_two();
	kfi_cntr_set(cntr, 0);
}

static void finish_set_back(void)
{
	if (records[FIRST].done)
		check_ended(FIRST, 0);
	prove_check(!kfi_cntr_read(cntr), "the value was set back");
	end_sleepers(cntr_queue());
	close_all();
}

PROVE_SCENARIO(cntr_set_back, .rules = "Q6 V5", .tables = "1 6",
	       .says = "the value that a thread waits for is reached and set back",
	       .setup = setup, .finish = finish_set_back,
	       .threads = { { "waiter", wait_for_two, PROVE_STAYS },
			    { "provider", count_two_and_reset } });

static void add_two(void)
{
	kfi_cntr_add(cntr, 2);
}

PROVE_SCENARIO(cntr_add, .rules = "Q6 V7", .tables = "1",
	       .says = "kfi_cntr_add() reaches the value",
	       .setup = setup, .finish = finish_reached,
	       .threads = { { "waiter", wait_for_two }, { "adder", add_two } });

static void set_large(void)
{
	kfi_cntr_set(cntr, 1ull << 63);
}

PROVE_SCENARIO(cntr_large, .rules = "Q6", .tables = "1",
	       .says = "kfi_cntr_set() reaches a threshold of 2^63",
	       .setup = setup, .finish = finish_reached,
	       .threads = { { "waiter", wait_for_many }, { "setter", set_large } });

static unsigned int asleep_at_error;

static void fail_noting_sleepers(void)
{
	asleep_at_error = asleep_in(cntr_queue());
	count_failure();
}

static void add_error_noting_sleepers(void)
{
	asleep_at_error = asleep_in(cntr_queue());
	kfi_cntr_adderr(cntr, 1);
}

static bool error_is_missed(void)
{
	return records[FIRST].done + records[SECOND].done < asleep_at_error;
}

static void setup_error(void)
{
	open_domain();
	open_cntr();
	prove_ready(error_is_missed);
}

static void finish_error(void)
{
	unsigned int i;

	prove_check(!error_is_missed(), "the error ends the waits of all that slept");
	for (i = FIRST; i <= SECOND; i++)
		if (records[i].done)
			check_ended(i, -KFI_EAVAIL);
	end_sleepers(cntr_queue());
	close_all();
}

PROVE_SCENARIO(cntr_error, .rules = "Q6 V7", .tables = "1",
	       .says = "a failure ends all waits",
	       .setup = setup_error, .finish = finish_error,
	       .threads = { { "waiter for 1", wait_for_one, PROVE_STAYS },
			    { "waiter for 2", wait_for_two, PROVE_STAYS },
			    { "provider", fail_noting_sleepers } });

PROVE_SCENARIO(cntr_adderr, .rules = "Q6 V7", .tables = "1",
	       .says = "kfi_cntr_adderr() ends all waits",
	       .setup = setup_error, .finish = finish_error,
	       .threads = { { "waiter for 1", wait_for_one, PROVE_STAYS },
			    { "waiter for 2", wait_for_two, PROVE_STAYS },
			    { "adder", add_error_noting_sleepers } });

static void setup_old_error(void)
{
	setup();
	kfi_cntr_adderr(cntr, 1);
}

PROVE_SCENARIO(cntr_old_error, .rules = "Q6", .tables = "1",
	       .says = "an error before the call has no effect",
	       .setup = setup_old_error, .finish = finish_reached,
	       .threads = { { "waiter", wait_for_one }, { "provider", count_one } });

/* The value is reached first; the error comes second. */
static void count_and_fail(void)
{
	count_one();
	count_failure();
}

PROVE_SCENARIO(cntr_reached_before_error, .rules = "Q6", .tables = "1",
	       .says = "the value is reached before an error: the wait returns 0",
	       .setup = setup, .finish = finish_reached,
	       .threads = { { "waiter", wait_for_one }, { "provider", count_and_fail } });

static void finish_deadline(void)
{
	const ssize_t ret = records[FIRST].ret;

	prove_check(!ret || ret == -KFI_ETIMEDOUT, "the wait ends as the contract says");
	if (ret)
		prove_check(!counts_of(cntr_queue()).wakes,
			    "a thread that was woken returns 0");
	close_all();
}

PROVE_SCENARIO(cntr_deadline, .rules = "Q6 W4 V4", .tables = "3",
	       .says = "the deadline passes as the value is reached",
	       .setup = setup, .finish = finish_deadline,
	       .threads = { { "waiter", wait_for_two_in_time },
			    { "provider", count_two } });

static void finish_signal(void)
{
	const ssize_t ret = records[FIRST].ret;

	prove_check(!ret || ret == -EINTR, "the wait ends as the contract says");
	if (ret)
		prove_check(!counts_of(cntr_queue()).wakes,
			    "a thread that was woken returns 0");
	close_all();
}

PROVE_SCENARIO(cntr_signal, .rules = "Q6 W6 V4", .tables = "3",
	       .says = "a signal comes as the value is reached",
	       .setup = setup, .finish = finish_signal,
	       .threads = { { "waiter", wait_for_two }, { "provider", count_two },
			    { "signal", signal_first } });

static u64 largest;

static void read_twice(void)
{
	u64 first = kfi_cntr_read(cntr);

	largest = kfi_cntr_read(cntr);
	prove_check(first <= largest, "a value does not go back by itself");
}

/* Ready exactly while a change was not read. */
static void finish_read(void)
{
	prove_check(kfi_cntr_source(cntr)->ready == (largest < 2),
		    "a change that was not read is ready");
	prove_check(kfi_cntr_read(cntr) == 2, "each completion is counted");
	prove_check(!kfi_cntr_source(cntr)->ready, "a counter that was read is not ready");
	close_all();
}

PROVE_SCENARIO(cntr_read, .rules = "W1 V6 V9", .tables = "1",
	       .says = "a thread reads a counter while completions are counted",
	       .setup = setup, .finish = finish_read,
	       .threads = { { "reader", read_twice }, { "provider", count_two } });

static void read_value(void)
{
	mine()->ret = kfi_cntr_read(cntr);
}

static void finish_two_readers(void)
{
	const ssize_t seen = max(records[FIRST].ret, records[SECOND].ret);

	prove_check(kfi_cntr_source(cntr)->ready == (seen < 1),
		    "of two readers the later change counts");
	close_all();
}

PROVE_SCENARIO(cntr_two_readers, .rules = "W1 V9", .tables = "1",
	       .says = "two threads read a counter while a completion is counted",
	       .setup = setup, .finish = finish_two_readers,
	       .threads = { { "reader 1", read_value }, { "reader 2", read_value },
			    { "provider", count_one } });

static void finish_two_values(void)
{
	const ssize_t errors = records[SECOND].ret;

	prove_check(kfi_cntr_source(cntr)->ready == (!records[FIRST].ret || !errors),
		    "each value has a mark of its own");
	kfi_cntr_read(cntr);
	kfi_cntr_readerr(cntr);
	prove_check(!kfi_cntr_source(cntr)->ready, "a counter that was read is not ready");
	close_all();
}

static void read_errors(void)
{
	mine()->ret = kfi_cntr_readerr(cntr);
}

static void count_and_fail_once(void)
{
	count_one();
	count_failure();
}

PROVE_SCENARIO(cntr_two_values, .rules = "W1 V9", .tables = "1",
	       .says = "the value and the errors are read by two threads",
	       .setup = setup, .finish = finish_two_values,
	       .threads = { { "reader", read_value }, { "reader of errors", read_errors },
			    { "provider", count_and_fail_once } });

/* The thread that the add ends closes the counter, perhaps before the add has returned. */
static void wait_and_close(void)
{
	wait_for(2, FOREVER);
	must_close(&cntr->fid);
	cntr = NULL;
}

static void setup_quiet(void)
{
	open_domain();
	open_cntr();
}

PROVE_SCENARIO(cntr_closed_by_waiter, .rules = "V8 O1", .tables = "11",
	       .says = "the waiter closes the counter before kfi_cntr_add() has woken it",
	       .setup = setup_quiet, .finish = close_all,
	       .threads = { { "waiter", wait_and_close }, { "adder", add_two } });
