// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Wait sets: a publication on any member wakes all sleepers, and only those that came
 * before it.
 */
#include "support.h"

enum { FIRST, SECOND, THIRD, FOURTH };

static bool sleeps_beside_ready(void)
{
	return set_is_ready() && kfi_wait_queue(set)->sleepers;
}

/* How many threads slept when the publication began: all of them must return. */
static unsigned int slept;

static void note_sleepers(void)
{
	slept = asleep_in(kfi_wait_queue(set));
}

static bool publication_is_missed(void)
{
	return sleeps_beside_ready() || records[FIRST].done + records[SECOND].done < slept;
}

static void setup_members(int n)
{
	int i;

	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	for (i = 0; i < n; i++)
		open_cq(i);
	prove_ready(publication_is_missed);
}

static void setup(void)
{
	setup_members(1);
}

static void setup_two(void)
{
	setup_members(2);
}

static void note_and_publish(void)
{
	note_sleepers();
	publish(0, 1);
}

static void poll_once(void)
{
	read_cq(0, 1);
}

static void stop_first(void)
{
	prove_stop(FIRST);
}

/* One wait, which consumes nothing. */
static void wait_once(void)
{
	mine()->ret = kfi_wait(set, FOREVER);
	mine()->done = true;
}

static void wait_in_time(void)
{
	ktime_t began = ktime_get();

	mine()->ret = kfi_wait(set, SOME_TIME);
	check_deadline(began, mine()->ret);
}

static void finish_one(void)
{
	struct kfi_cq_entry entry;

	prove_check(records[FIRST].n == 1, "the waiter reads the entry");
	prove_check(!read_rest(0), "nothing is left");
	check_entries(SECOND, 1);
	prove_check(kfi_cq_sread(cq[0], &entry, 1, NULL, 0) == -KFI_EINVAL,
		    "no thread can block on a member itself");
	close_all();
}

PROVE_SCENARIO(set_one, .rules = "W1 W2 V1 V2", .tables = "1",
	       .says = "one thread sleeps in a wait set, one entry is published",
	       .setup = setup, .finish = finish_one,
	       .threads = { { "waiter", wait_and_read }, { "publisher", publish_one } });

PROVE_SCENARIO(set_irq, .rules = "W10 W2", .tables = "1",
	       .says = "an interrupt publishes on a member of a wait set",
	       .setup = setup, .finish = finish_one,
	       .threads = { { "waiter", wait_and_read },
			    { "publisher", publish_one, PROVE_IRQ } });

static void finish_all_woken(void)
{
	prove_check(!records[FIRST].ret && !records[SECOND].ret, "both waits return 0");
	prove_check(read_rest(0) == 1, "a wait consumes nothing");
	check_entries(THIRD, 1);
	close_all();
}

PROVE_SCENARIO(set_all_woken, .rules = "W3 W1", .tables = "1",
	       .says = "one publication ends the waits of both threads",
	       .setup = setup, .finish = finish_all_woken,
	       .threads = { { "waiter 1", wait_once }, { "waiter 2", wait_once },
			    { "publisher", publish_one } });

PROVE_SCENARIO(set_two, .rules = "W2 W3 V5", .tables = "1 6",
	       .says = "two threads wait and read until each has one of two entries",
	       .setup = setup, .finish = finish_two_entries,
	       .threads = { { "waiter 1", wait_and_read }, { "waiter 2", wait_and_read },
			    { "publisher", publish_two } });

PROVE_SCENARIO(set_two_by_two, .rules = "W2 W3", .tables = "1 6",
	       .says = "two threads that wait and read, two publishers",
	       .setup = setup, .finish = finish_two_publishers,
	       .threads = { { "waiter 1", wait_and_read }, { "waiter 2", wait_and_read },
			    { "publisher 1", publish_one },
			    { "publisher 2", publish_one } });

/* Reads both members until it has two entries. */
static void wait_and_read_both(void)
{
	while (mine()->n < 2) {
		mine()->ret = kfi_wait(set, FOREVER);
		if (mine()->ret)
			return;
		read_cq(0, 1);
		read_cq(1, 1);
	}
}

static void finish_both(void)
{
	prove_check(records[FIRST].n == 2, "the waiter reads both entries");
	check_entries(SECOND, 1);
	check_entries(THIRD, 1);
	close_all();
}

PROVE_SCENARIO(set_two_members, .rules = "W1 W2", .tables = "1",
	       .says = "two members of a set get one entry each",
	       .setup = setup_two, .finish = finish_both,
	       .threads = { { "waiter", wait_and_read_both },
			    { "publisher 1", publish_one },
			    { "publisher 2", publish_second } });

static struct wait_queue_entry foreign;	/* a ULP's entry on the queue of the set */
static bool half_published;

/* Both members are ready when the first entry of the queue is woken. */
static int woken_foreign(struct wait_queue_entry *entry, unsigned int mode, int flags,
			 void *key)
{
	half_published |= atomic_read(&kfi_wait_queue(set)->nready) != 2;
	return 0;
}

static void setup_completion(void)
{
	setup();
	open_cntr();
	open_ep();
	prove_check(!kfi_ep_base_bind(ep, &cq[0]->fid, KFI_TRANSMIT | KFI_RECV),
		    "the CQ is bound");
	prove_check(!kfi_ep_base_bind(ep, &cntr->fid, KFI_RECV), "the counter is bound");
}

static void setup_foreign(void)
{
	setup_completion();
	init_waitqueue_func_entry(&foreign, woken_foreign);
	spin_lock_irq(&kfi_wait_queue(set)->head.lock);
	__add_wait_queue(&kfi_wait_queue(set)->head, &foreign);
	spin_unlock_irq(&kfi_wait_queue(set)->head.lock);
}

static void complete_and_count(void)
{
	const struct kfi_completion comp = {
		.context = (void *)entry_number(prove_self(), 1),
		.flags = KFI_RECV,
	};

	kfi_ep_complete(ep, &comp, true);
}

static void wait_for_both(void)
{
	while (mine()->n < 1 || kfi_cntr_read(cntr) < 1) {
		prove_check(!kfi_wait(set, FOREVER), "the wait ends by the completion");
		read_cq(0, 1);
	}
}

static void finish_completion(void)
{
	struct kfi_counts counts = counts_of(kfi_wait_queue(set));

	read_rest(0);
	check_entries(SECOND, 1);
	prove_check(kfi_cntr_read(cntr) == 1, "the counter counts the completion");
	prove_check(counts.signals == 1, "the set is signalled once for both");
	close_all();
}

PROVE_SCENARIO(set_completion, .rules = "Q8 V1 W2", .tables = "2",
	       .says = "one completion for a CQ and a counter of one wait set",
	       .setup = setup_completion, .finish = finish_completion,
	       .threads = { { "waiter", wait_for_both },
			    { "provider", complete_and_count } });

static void finish_foreign(void)
{
	prove_check(!half_published, "a thread is woken after all objects have stored");
	prove_check(kfi_close(&set->kfid) == -EBUSY, "a foreign entry keeps the set");
	spin_lock_irq(&kfi_wait_queue(set)->head.lock);
	list_del_init(&foreign.entry);
	spin_unlock_irq(&kfi_wait_queue(set)->head.lock);
	finish_completion();
}

PROVE_SCENARIO(set_completion_is_whole, .rules = "Q8 V1 W8", .tables = "2",
	       .says = "when a completion wakes, its CQ and its counter have it",
	       .setup = setup_foreign, .finish = finish_foreign,
	       .threads = { { "waiter", wait_once },
			    { "provider", complete_and_count } });

/* An operation whose success would write no entry fails: the error is told all the same. */
static void fail_quietly(void)
{
	const struct kfi_completion comp = { .flags = KFI_RECV, .err = KFI_EIO };

	kfi_ep_complete(ep, &comp, false);
}

static void wait_for_error(void)
{
	struct kfi_cq_err_entry error = { };

	do {
		prove_check(!kfi_wait(set, FOREVER), "the failure ends the wait");
	} while (kfi_cq_readerr(cq[0], &error, 0) != 1);
	prove_check(error.err == KFI_EIO, "the error has its number");
}

static void finish_quiet(void)
{
	prove_check(kfi_cntr_readerr(cntr) == 1, "the counter counts the failure");
	close_all();
}

PROVE_SCENARIO(set_quiet_error, .rules = "V7 Q8", .tables = "2",
	       .says = "an operation without an entry fails, and the waiter gets the error",
	       .setup = setup_completion, .finish = finish_quiet,
	       .threads = { { "waiter", wait_for_error }, { "provider", fail_quietly } });

static void complete_quietly(void)
{
	const struct kfi_completion comp = { .flags = KFI_RECV };

	kfi_ep_complete(ep, &comp, false);
}

static void finish_silent(void)
{
	prove_check(!records[FIRST].ret, "the counter ends the wait");
	prove_check(kfi_cntr_read(cntr) == 1, "the counter counts the success");
	prove_check(!read_rest(0), "it has written no entry");
	close_all();
}

PROVE_SCENARIO(set_quiet, .rules = "Q8 W2", .tables = "2",
	       .says = "an operation without an entry succeeds, and the waiter gets its count",
	       .setup = setup_completion, .finish = finish_silent,
	       .threads = { { "waiter", wait_once }, { "provider", complete_quietly } });

static void check_not_woken(ssize_t other)
{
	const ssize_t ret = records[FIRST].ret;

	prove_check(!ret || ret == other, "the wait ends as the contract says");
	if (ret)
		prove_check(!counts_of(kfi_wait_queue(set)).wakes,
			    "a thread that was woken returns 0");
	read_rest(0);
	check_entries(SECOND, 1);
	close_all();
}

static void finish_deadline(void)
{
	check_not_woken(-KFI_ETIMEDOUT);
}

PROVE_SCENARIO(set_deadline, .rules = "W4 V4", .tables = "3",
	       .says = "the deadline of a wait passes as an entry is published",
	       .setup = setup, .finish = finish_deadline,
	       .threads = { { "waiter", wait_in_time }, { "publisher", publish_one } });

static void finish_signal(void)
{
	check_not_woken(-EINTR);
}

static void finish_stopped(void)
{
	prove_check(!records[FIRST].ret || records[FIRST].ret == -EINTR,
		    "the wait ends as the contract says");
	read_rest(0);
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(set_signal, .rules = "W6 V4", .tables = "3",
	       .says = "a signal comes as an entry is published",
	       .setup = setup, .finish = finish_signal,
	       .threads = { { "waiter", wait_once }, { "publisher", publish_one },
			    { "signal", signal_first } });

static void finish_interrupted(void)
{
	prove_check(records[FIRST].ret == -EINTR, "the signal ends the wait");
	close_all();
}

PROVE_SCENARIO(set_signal_alone, .rules = "W6", .tables = "3",
	       .says = "a signal ends a wait for which nothing is published",
	       .setup = setup, .finish = finish_interrupted,
	       .threads = { { "waiter", wait_once }, { "signal", signal_first } });

PROVE_SCENARIO(set_stopped_alone, .rules = "W6", .tables = "3",
	       .says = "kthread_stop() ends a wait for which nothing is published",
	       .setup = setup, .finish = finish_interrupted,
	       .threads = { { "kthread", wait_once, PROVE_KTHREAD },
			    { "stopper", stop_first } });

static void wait_until_stopped(void)
{
	int later;

	mine()->ret = kfi_wait(set, FOREVER);
	later = kfi_wait(set, FOREVER);
	prove_check(!later || (later == -EINTR && mine()->ret),
		    "a later wait answers the same, or finds the entry");
}

PROVE_SCENARIO(set_kthread, .rules = "W6", .tables = "3",
	       .says = "a kthread is stopped while it waits",
	       .setup = setup, .finish = finish_stopped,
	       .threads = { { "kthread", wait_until_stopped, PROVE_KTHREAD },
			    { "publisher", publish_one }, { "stopper", stop_first } });

static void finish_overtaken(void)
{
	if (records[FIRST].done)
		prove_check(!records[FIRST].ret, "an overtaken wait returns 0");
	read_rest(0);
	check_entries(THIRD, 1);
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(set_overtaken, .rules = "V5 W3", .tables = "6 7",
	       .says = "another thread reads the entry first; the wait returns 0 all the same",
	       .setup = setup, .finish = finish_overtaken,
	       .threads = { { "waiter", wait_once, PROVE_STAYS },
			    { "poller", poll_once }, { "publisher", note_and_publish } });

/* Waits after the publication has its number, in a set that is empty again. */
static void read_and_wait(void)
{
	if (read_cq(0, 1) != 1 || !atomic64_read(&kfi_wait_queue(set)->pubs))
		return;
	prove_check(kfi_wait(set, FOREVER) == -EINTR, "an older publication wakes no thread");
}

static void finish_older(void)
{
	read_rest(0);
	check_entries(SECOND, 1);
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(set_older_publication, .rules = "V5 W2", .tables = "7",
	       .says = "a publication that is older than the sleep passes the waiter by",
	       .setup = setup, .finish = finish_older,
	       .threads = { { "reader", read_and_wait, PROVE_STAYS },
			    { "publisher", publish_one } });

static void read_two_and_wait(void)
{
	if (read_cq(0, 1) == 1 && read_cq(0, 1) == 1)
		return;
	wait_once();
}

PROVE_SCENARIO(set_next_publication, .rules = "V5 W2", .tables = "7 1",
	       .says = "one entry is read before the wait; the next one ends it",
	       .setup = setup, .finish = finish_overtaken,
	       .threads = { { "reader", read_two_and_wait, PROVE_STAYS },
			    { "poller", poll_once }, { "publisher", publish_one } });

static void finish_error(void)
{
	struct kfi_cq_err_entry error = { };

	prove_check(!records[FIRST].ret && !records[SECOND].ret, "both waits return 0");
	prove_check(kfi_cq_readerr(cq[0], &error, 0) == 1, "the error is there");
	close_all();
}

PROVE_SCENARIO(set_error, .rules = "V7 W3", .tables = "1",
	       .says = "an error ends the waits of both threads",
	       .setup = setup, .finish = finish_error,
	       .threads = { { "waiter 1", wait_once }, { "waiter 2", wait_once },
			    { "publisher", publish_error } });

static void setup_small(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	prove_check(!try_open_cq(0, 1, KFI_CQ_COND_NONE, NULL), "the CQ opens");
	prove_ready(publication_is_missed);
}

/* The ring is full: the next publication overruns it, or this read comes first. */
static void read_overrun(void)
{
	while (mine()->ret != -KFI_EOVERRUN && mine()->n < 2) {
		prove_check(!kfi_wait(set, FOREVER), "the overrun ends the wait");
		read_cq(0, 1);
	}
}

static void finish_overrun(void)
{
	if (records[FIRST].ret == -KFI_EOVERRUN)
		prove_check(!kfi_wait(set, 0), "an overrun set stays ready");
	else
		check_entries(SECOND, 2);
	close_all();
}

PROVE_SCENARIO(set_overrun, .rules = "Q2 V7 W1", .tables = "1",
	       .says = "the overrun of a member ends the wait, and the set stays ready",
	       .setup = setup_small, .finish = finish_overrun,
	       .threads = { { "waiter", read_overrun }, { "publisher", publish_two } });

static void signal_cq(void)
{
	note_sleepers();
	kfi_cq_signal(cq[0]);
}

static void finish_cq_signal(void)
{
	unsigned int i;

	for (i = FIRST; i <= SECOND; i++)
		if (records[i].done)
			prove_check(!records[i].ret, "kfi_cq_signal() ends the wait with 0");
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(set_cq_signal, .rules = "Q5 V7", .tables = "8",
	       .says = "kfi_cq_signal() on a member ends the waits of the sleepers",
	       .setup = setup, .finish = finish_cq_signal,
	       .threads = { { "waiter 1", wait_once, PROVE_STAYS },
			    { "waiter 2", wait_once, PROVE_STAYS },
			    { "signaller", signal_cq } });

static void setup_cntr(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_cntr();
	prove_ready(publication_is_missed);
}

static void add_to_cntr(void)
{
	note_sleepers();
	kfi_cntr_add(cntr, 1);
}

static void finish_cntr_add(void)
{
	if (records[FIRST].done)
		prove_check(!records[FIRST].ret, "an add ends the wait with 0");
	prove_check(!set_is_ready(), "the program's own add does not make it ready");
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(set_cntr_add, .rules = "W1 V7", .tables = "1",
	       .says = "kfi_cntr_add() ends a wait in progress and leaves nothing ready",
	       .setup = setup_cntr, .finish = finish_cntr_add,
	       .threads = { { "waiter", wait_once, PROVE_STAYS },
			    { "adder", add_to_cntr } });

static void count_success(void)
{
	count_op(KFI_WHY_EVENT);
}

static void count_failure(void)
{
	count_op(KFI_WHY_ERROR);
}

/* Reads both values until both changes were seen. */
static void wait_and_read_cntr(void)
{
	u64 value = 0, errors = 0;

	while (!value || !errors) {
		prove_check(!kfi_wait(set, FOREVER), "the change ends the wait");
		value = kfi_cntr_read(cntr);
		errors = kfi_cntr_readerr(cntr);
	}
}

static void finish_cntr(void)
{
	kfi_cntr_read(cntr);
	kfi_cntr_readerr(cntr);
	prove_check(!set_is_ready(), "a counter that was read is not ready");
	close_all();
}

PROVE_SCENARIO(set_cntr, .rules = "W1 W2 V9", .tables = "1",
	       .says = "a counter of a set gets a success and a failure",
	       .setup = setup_cntr, .finish = finish_cntr,
	       .threads = { { "waiter", wait_and_read_cntr },
			    { "success", count_success }, { "failure", count_failure } });

static void setup_eq(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_eq(2);
	prove_ready(publication_is_missed);
}

static void write_event(void)
{
	const struct kfi_eq_entry entry = { .data = 1 };

	prove_check(kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof(entry), 0) == sizeof(entry),
		    "the event is written");
}

static void wait_and_read_eq(void)
{
	struct kfi_eq_entry entry;
	u32 event;

	do {
		prove_check(!kfi_wait(set, FOREVER), "the event ends the wait");
	} while (kfi_eq_read(eq, &event, &entry, sizeof(entry), 0) != sizeof(entry));
}

PROVE_SCENARIO(set_eq, .rules = "W1 W2", .tables = "1",
	       .says = "an EQ of a set gets an event",
	       .setup = setup_eq, .finish = close_all,
	       .threads = { { "waiter", wait_and_read_eq }, { "writer", write_event } });

static void setup_empty(void)
{
	setup_members(0);
}

static void open_and_publish(void)
{
	open_cq(0);
	publish(0, 1);
}

static void finish_joined(void)
{
	prove_check(!records[FIRST].ret, "the wait returns 0");
	read_rest(0);
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(set_join, .rules = "W7", .tables = "1",
	       .says = "a CQ joins while a thread sleeps in the set, and gets an entry",
	       .setup = setup_empty, .finish = finish_joined,
	       .threads = { { "waiter", wait_once }, { "joins", open_and_publish } });

static void close_second(void)
{
	must_close(&cq[1]->fid);
	cq[1] = NULL;
}

static void finish_left(void)
{
	prove_check(!records[FIRST].ret, "the wait returns 0");
	read_rest(0);
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(set_leave, .rules = "W7 V8 O1", .tables = "11",
	       .says = "a member is closed while a thread sleeps in the set",
	       .setup = setup_two, .finish = finish_left,
	       .threads = { { "waiter", wait_once }, { "publisher", publish_one },
			    { "closer", close_second } });

/* The member that is closed is ready: the set must not stay ready for it. */
static void publish_and_close_second(void)
{
	complete_op(1, entry_number(prove_self(), 1), 0);
	close_second();
}

static void finish_left_ready(void)
{
	if (records[FIRST].done)
		prove_check(!records[FIRST].ret, "the wait returns 0");
	prove_check(!set_is_ready(), "a closed member is not ready");
	end_sleepers(kfi_wait_queue(set));
	close_all();
}

PROVE_SCENARIO(set_leave_ready, .rules = "W7 V8", .tables = "11",
	       .says = "a member is closed with an unread entry",
	       .setup = setup_two, .finish = finish_left_ready,
	       .threads = { { "waiter", wait_once, PROVE_STAYS },
			    { "closer", publish_and_close_second } });

static void close_set(void)
{
	prove_check(kfi_close(&set->kfid) == -EBUSY, "a set with a member stays");
}

PROVE_SCENARIO(set_close_refused, .rules = "O1 V8", .tables = "11",
	       .says = "a close of the set is refused and changes nothing",
	       .setup = setup, .finish = finish_one,
	       .threads = { { "waiter", wait_and_read }, { "publisher", publish_one },
			    { "closer", close_set } });
