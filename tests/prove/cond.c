// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A mutex and a condition: nothing falls between the release of the mutex and the sleep.
 */
#include "support.h"

enum { FIRST, SECOND, THIRD };

static struct kfi_mutex_cond pair;
static bool predicate;		/* the ULP's, under pair.mutex */

static void setup(void)
{
	open_domain();
	open_set(KFI_WAIT_MUTEX_COND);
	open_cq(0);
	prove_check(!kfi_control(&set->kfid, KFI_GETWAIT, &pair), "the pair is given");
}

static void wait_for_predicate(void)
{
	mutex_lock(pair.mutex);
	while (!predicate)
		prove_check(!kfi_cond_wait(pair.cond, FOREVER), "the signal ends the wait");
	mutex_unlock(pair.mutex);
	mine()->done = true;
}

static void make_predicate(void)
{
	mutex_lock(pair.mutex);
	predicate = true;
	mutex_unlock(pair.mutex);
	kfi_cq_signal(cq[0]);
}

static void finish(void)
{
	prove_check(records[FIRST].done, "the waiter has seen the predicate");
	close_all();
}

PROVE_SCENARIO(cond_signal, .rules = "W8 V2 Q5", .tables = "13",
	       .says = "a predicate becomes true, and kfi_cq_signal() ends the wait",
	       .setup = setup, .finish = finish,
	       .threads = { { "waiter", wait_for_predicate }, { "ULP", make_predicate } });

static void finish_two(void)
{
	prove_check(records[FIRST].done && records[SECOND].done,
		    "both waiters have seen the predicate");
	close_all();
}

PROVE_SCENARIO(cond_two, .rules = "W8 V2 W3", .tables = "13",
	       .says = "two threads wait with the mutex; one signal ends both waits",
	       .setup = setup, .finish = finish_two,
	       .threads = { { "waiter 1", wait_for_predicate },
			    { "waiter 2", wait_for_predicate },
			    { "ULP", make_predicate } });

static void wait_for_entry(void)
{
	mutex_lock(pair.mutex);
	while (read_cq(0, 1) != 1)
		prove_check(!kfi_cond_wait(pair.cond, FOREVER), "the entry ends the wait");
	mutex_unlock(pair.mutex);
}

static void finish_entry(void)
{
	prove_check(records[FIRST].n == 1, "the waiter reads the entry");
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(cond_entry, .rules = "W8 W2 V2", .tables = "13 1",
	       .says = "a completion ends the wait, without the mutex",
	       .setup = setup, .finish = finish_entry,
	       .threads = { { "waiter", wait_for_entry }, { "publisher", publish_one } });

PROVE_SCENARIO(cond_entry_irq, .rules = "W8 W10", .tables = "13 1",
	       .says = "an interrupt publishes while the mutex is held",
	       .setup = setup, .finish = finish_entry,
	       .threads = { { "waiter", wait_for_entry },
			    { "interrupt", publish_one, PROVE_IRQ } });

static void wait_in_time(void)
{
	mutex_lock(pair.mutex);
	mine()->ret = kfi_cond_wait(pair.cond, SOME_TIME);
	prove_check(mutex_is_locked(pair.mutex), "the mutex is held again");
	mutex_unlock(pair.mutex);
}

static void finish_deadline(void)
{
	const ssize_t ret = records[FIRST].ret;

	prove_check(!ret || ret == -KFI_ETIMEDOUT, "the wait ends as the contract says");
	if (ret)
		prove_check(!counts_of(kfi_wait_queue(set)).wakes,
			    "a thread that was woken returns 0");
	read_rest(0);
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(cond_deadline, .rules = "W8 W4", .tables = "13 3",
	       .says = "the deadline passes as an entry is published",
	       .setup = setup, .finish = finish_deadline,
	       .threads = { { "waiter", wait_in_time }, { "publisher", publish_one } });

/* The mutex is part of the object: it stays while a waiter comes back to it. */
static bool inside;		/* a waiter is in its wait; under pair.mutex */

static void setup_cq(void)
{
	struct kfi_cq_attr attr = { .size = 4, .wait_obj = KFI_WAIT_MUTEX_COND };

	open_domain();
	prove_check(!kfi_core_cq_open(&domain->domain, &attr, &cq[0], NULL, &cq[0]),
		    "the CQ opens");
	prove_check(!kfi_control(&cq[0]->fid, KFI_GETWAIT, &pair), "the pair is given");
}

static void wait_inside(void)
{
	mutex_lock(pair.mutex);
	inside = true;
	prove_check(!kfi_cond_wait(pair.cond, FOREVER), "the entry ends the wait");
	inside = false;
	mutex_unlock(pair.mutex);
}

static void publish_and_try_to_close(void)
{
	mutex_lock(pair.mutex);
	publish(0, 1);
	if (inside)
		prove_check(kfi_close(&cq[0]->fid) == -KFI_EBUSY,
			    "a CQ with a waiter stays");
	mutex_unlock(pair.mutex);
}

static void finish_inside(void)
{
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(cond_close_refused, .rules = "W8 O1 V8", .tables = "13 11",
	       .says = "a CQ is closed with its mutex held, while a waiter wants it back",
	       .setup = setup_cq, .finish = finish_inside,
	       .threads = { { "waiter", wait_inside },
			    { "ULP", publish_and_try_to_close } });
