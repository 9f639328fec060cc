// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Device loss: every sleeper returns, the last entry is read first, and closing works.
 */
#include "support.h"

enum { FIRST, SECOND, THIRD, FOURTH };

/* A provider reports nothing after the loss. */
static void publish_and_lose(void)
{
	publish(0, 1);
	lose_device();
}

/* Reads everything of the first CQ, also the error entry of the loss. */
static void drain_cq(void)
{
	struct kfi_cq_err_entry error = { };

	while (read_cq(0, 1) == 1)
		;
	if (mine()->ret == -KFI_EAVAIL)
		prove_check(kfi_cq_readerr(cq[0], &error, 0) != 1 || error.err == KFI_ENODEV,
			    "the last entry has ENODEV");
}

static void sread_until_lost(void)
{
	struct kfi_cq_err_entry error = { };

	while (sread_cq(0, 1, 1, FOREVER) != -KFI_ENODEV)
		if (mine()->ret == -KFI_EAVAIL)
			kfi_cq_readerr(cq[0], &error, 0);
	mine()->done = true;
}

static void finish_sread(void)
{
	prove_check(records[FIRST].done, "a drained and lost CQ returns -ENODEV");
	read_rest(0);
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(loss_sread, .rules = "O5 V7 Q3", .tables = "12",
	       .says = "the device goes after an entry, under a reader",
	       .setup = setup_one_cq, .finish = finish_sread,
	       .threads = { { "reader", sread_until_lost }, { "device", publish_and_lose } });

static void sread_until_unplugged(void)
{
	sread_until_lost();
	prove_check(unplugged, "the reader sees what came before the loss");
}

PROVE_SCENARIO(loss_sread_is_seen, .rules = "O5 V1", .tables = "12",
	       .says = "a reader that learns of the loss sees what came before it",
	       .setup = setup_one_cq, .finish = close_all,
	       .threads = { { "reader", sread_until_unplugged }, { "device", unplug } });

static void sread_once(void)
{
	sread_cq(0, 1, 1, FOREVER);
	mine()->done = true;
}

static void finish_two(void)
{
	unsigned int i;

	for (i = FIRST; i <= SECOND; i++)
		prove_check(records[i].done && records[i].ret == -KFI_EAVAIL,
			    "the last error entry ends each read");
	close_all();
}

PROVE_SCENARIO(loss_sread_two, .rules = "O5 Q3", .tables = "12 4",
	       .says = "the device goes under two readers: both return",
	       .setup = setup_one_cq, .finish = finish_two,
	       .threads = { { "reader 1", sread_once }, { "reader 2", sread_once },
			    { "device", lose_device } });

static void setup_threshold(void)
{
	open_domain();
	open_threshold_cq(0);
	note_threshold(0, 3);
}

static void sread_three(void)
{
	sread_cq(0, 4, 3, FOREVER);
	mine()->done = true;
}

static void finish_threshold(void)
{
	prove_check(records[FIRST].ret == 1, "the loss ends the read with what is there");
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(loss_threshold, .rules = "O5 Q4", .tables = "12 4",
	       .says = "the device goes under a reader of three entries while there is a single entry",
	       .setup = setup_threshold, .finish = finish_threshold,
	       .threads = { { "reader of 3", sread_three }, { "device", publish_and_lose } });

/* The ring is full when the device goes: it is overrun instead. */
static void setup_full(void)
{
	open_domain();
	prove_check(!try_open_cq(0, 1, KFI_CQ_COND_NONE, NULL), "the CQ opens");
	note_threshold(0, 1);
}

static void sread_until_end(void)
{
	while (sread_cq(0, 1, 1, FOREVER) == 1)
		;
	mine()->done = true;
}

static void finish_full(void)
{
	prove_check(records[FIRST].ret == -KFI_EOVERRUN || records[FIRST].ret == -KFI_EAVAIL,
		    "the end is told");
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(loss_full, .rules = "O5 Q2", .tables = "12",
	       .says = "the device goes while the ring may be full",
	       .setup = setup_full, .finish = finish_full,
	       .threads = { { "reader", sread_until_end }, { "device", publish_and_lose } });

static void wait_until_lost(void)
{
	int ret;

	while (!(ret = kfi_wait(set, FOREVER)))
		drain_cq();
	mine()->ret = ret;
	mine()->done = true;
}

static void finish_set(void)
{
	prove_check(records[FIRST].ret == -KFI_ENODEV, "a drained and lost set ends the wait");
	check_entries(SECOND, 1);
	prove_check(kfi_wait(set, 0) == -KFI_ENODEV, "a later wait is told at once");
	close_all();
}

PROVE_SCENARIO(loss_set, .rules = "O5 V7 W1", .tables = "12",
	       .says = "the device goes under a thread that waits and drains",
	       .setup = setup_one_member, .finish = finish_set,
	       .threads = { { "waiter", wait_until_lost }, { "device", publish_and_lose } });

/* One look, while the last entry is unread: the set is ready, or nothing has come yet. */
static void look_at_set(void)
{
	prove_check(kfi_wait(set, 0) != -KFI_ENODEV, "the last entry comes before the loss");
}

PROVE_SCENARIO(loss_set_look, .rules = "O5 V1 W1", .tables = "12",
	       .says = "a thread looks at a set once as the device goes",
	       .setup = setup_one_member, .finish = close_all,
	       .threads = { { "looker", look_at_set }, { "device", lose_device } });

static void finish_set_two(void)
{
	prove_check(records[FIRST].ret == -KFI_ENODEV && records[SECOND].ret == -KFI_ENODEV,
		    "a drained and lost set ends each wait");
	close_all();
}

PROVE_SCENARIO(loss_set_two, .rules = "O5 W3", .tables = "12",
	       .says = "the device goes under two threads that wait and drain",
	       .setup = setup_one_member, .finish = finish_set_two,
	       .threads = { { "waiter 1", wait_until_lost }, { "waiter 2", wait_until_lost },
			    { "device", lose_device } });

/* An EQ belongs to the fabric: the set lives on, and the drained thread sleeps. */
static void setup_living(void)
{
	setup_one_member();
	open_eq(1);
}

static void write_event(void)
{
	const struct kfi_eq_entry entry = { .data = 1 };

	kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof(entry), 0);
}

static bool event_seen;

static void wait_for_event(void)
{
	struct kfi_eq_entry entry;
	u32 event;

	while (!event_seen) {
		prove_check(!kfi_wait(set, FOREVER), "a set with a living member goes on");
		drain_cq();
		event_seen = kfi_eq_read(eq, &event, &entry, sizeof(entry), 0) > 0;
	}
}

PROVE_SCENARIO(loss_living_member, .rules = "O5 W2", .tables = "12",
	       .says = "one member is lost, another one lives and gets an event",
	       .setup = setup_living, .finish = close_all,
	       .threads = { { "waiter", wait_for_event }, { "device", lose_device },
			    { "writer", write_event } });

/* The last living member is closed after the loss of the other one. */
static void lose_and_close_eq(void)
{
	lose_device();
	must_close(&eq->fid);
	eq = NULL;
}

static void finish_last_living(void)
{
	prove_check(records[FIRST].ret == -KFI_ENODEV, "the set is lost with its last member");
	close_all();
}

PROVE_SCENARIO(loss_last_living, .rules = "O5 W7 V7", .tables = "12 11",
	       .says = "the last living member is closed while a lost one remains",
	       .setup = setup_living, .finish = finish_last_living,
	       .threads = { { "waiter", wait_until_lost },
			    { "owner", lose_and_close_eq } });

static void setup_cntr(void)
{
	open_domain();
	open_cntr();
}

/* The loss ends the first wait; a later one is told at once. */
static void wait_cntr(void)
{
	int ret = kfi_cntr_wait(cntr, 1, FOREVER);

	prove_check(ret == -KFI_EAVAIL || ret == -KFI_ENODEV, "the loss ends the wait");
	prove_check(kfi_cntr_wait(cntr, 1, FOREVER) == -KFI_ENODEV,
		    "a call after the loss returns -ENODEV");
	mine()->done = true;
}

static void finish_cntr(void)
{
	prove_check(records[FIRST].done, "the wait has ended");
	close_all();
}

PROVE_SCENARIO(loss_cntr, .rules = "O5 Q6", .tables = "12",
	       .says = "the device goes under a thread that waits for a counter",
	       .setup = setup_cntr, .finish = finish_cntr,
	       .threads = { { "waiter", wait_cntr }, { "device", lose_device } });

static void setup_open(void)
{
	open_domain();
}

/* A CQ that opens at that moment is refused, or gets its last entry. */
static void open_and_read(void)
{
	mine()->ret = try_open_cq(0, 4, KFI_CQ_COND_NONE, NULL);
	if (mine()->ret) {
		prove_check(mine()->ret == -KFI_ENODEV, "the open is refused");
		cq[0] = NULL;
		return;
	}
	sread_cq(0, 1, 1, FOREVER);
	prove_check(mine()->ret == -KFI_EAVAIL, "the last entry comes");
}

PROVE_SCENARIO(loss_open, .rules = "O5", .tables = "12",
	       .says = "a CQ is opened as the device goes",
	       .setup = setup_open, .finish = close_all,
	       .threads = { { "opener", open_and_read }, { "device", lose_device } });

static void close_first(void)
{
	close_cq(0);
}

PROVE_SCENARIO(loss_close, .rules = "O5 O1 V8", .tables = "12 11",
	       .says = "a CQ is closed as the device goes",
	       .setup = setup_one_cq, .finish = close_all,
	       .threads = { { "closer", close_first }, { "device", lose_device } });

PROVE_SCENARIO(loss_close_member, .rules = "O5 W7 V8", .tables = "12 11",
	       .says = "a member of a wait set is closed as the device goes",
	       .setup = setup_one_member, .finish = close_all,
	       .threads = { { "closer", close_first }, { "device", lose_device } });

PROVE_SCENARIO(loss_twice, .rules = "O5", .tables = "12",
	       .says = "the provider says twice that the device is gone",
	       .setup = setup_one_cq, .finish = finish_two,
	       .threads = { { "reader 1", sread_once }, { "reader 2", sread_once },
			    { "device", lose_device }, { "driver", lose_device } });

/*
 * Everything is lost already. An open or a binding is refused, but has joined the queue
 * for a moment: one that came to it meanwhile must not sleep on.
 */
static void setup_lost_channel(void)
{
	open_domain();
	open_channel();
	open_cq(0);
	open_cq(1);
	prove_check(!kfi_cq_bind_channel(cq[0], channel), "the CQ is bound");
	kfi_domain_lose(domain);
}

static void get_nothing(void)
{
	struct kfid_cq *of;

	prove_check(kfi_get_cq_event(channel, &of, NULL, FOREVER) == -KFI_ENODEV,
		    "the channel is dead");
}

static void bind_in_vain(void)
{
	prove_check(kfi_cq_bind_channel(cq[1], channel) == -KFI_ENODEV,
		    "the binding is refused");
}

static void finish_lost_channel(void)
{
	read_rest(0);
	read_rest(1);
	close_all();
}

PROVE_SCENARIO(loss_bind_refused, .rules = "O5 V7", .tables = "12 18",
	       .says = "a getter of a dead channel, beside a binding that is refused",
	       .setup = setup_lost_channel, .finish = finish_lost_channel,
	       .threads = { { "getter", get_nothing }, { "binder", bind_in_vain } });

static void setup_lost_set(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_cq(0);
	kfi_domain_lose(domain);
	kfi_cq_consume_err(cq[0]);
}

static void wait_in_vain(void)
{
	prove_check(kfi_wait(set, FOREVER) == -KFI_ENODEV, "the set is dead");
}

static void open_in_vain(void)
{
	prove_check(try_open_cq(1, 1, KFI_CQ_COND_NONE, NULL) == -KFI_ENODEV,
		    "the open is refused");
}

static void finish_lost_set(void)
{
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(loss_open_refused, .rules = "O5 W7", .tables = "12",
	       .says = "a waiter of a dead set, beside an open that is refused",
	       .setup = setup_lost_set, .finish = finish_lost_set,
	       .threads = { { "waiter", wait_in_vain }, { "opener", open_in_vain } });
