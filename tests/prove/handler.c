// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Handlers: called once when something becomes readable, armed by the read that finds
 * nothing, never twice at once, and not after the close has returned.
 */
#include "support.h"

#define HANDLER	(RECORDS - 2)	/* the record of the handler, which is no declared thread */

enum { FIRST, SECOND };

static bool running;
static unsigned int calls;

static void begin_call(void)
{
	prove_check(!READ_ONCE(running), "a handler never runs twice at once");
	WRITE_ONCE(running, true);
	calls++;
}

static void end_call(void)
{
	WRITE_ONCE(running, false);
}

/* A work item that is queued runs some time; finish() does not check before that. */
static void await_handler(struct kfi_source *src)
{
	flush_work(&src->handler);
}

/* Reads until nothing is left; that read arms it again. */
static void handle_cq(struct kfid_cq *fcq, void *context)
{
	struct kfi_cq_entry entry;

	begin_call();
	while (kfi_cq_read(fcq, &entry, 1) == 1)
		note(&records[HANDLER], &entry, 1);
	end_call();
}

static void setup(void)
{
	open_domain();
	prove_check(!try_open_cq(0, 4, KFI_CQ_COND_NONE, handle_cq), "the CQ opens");
}

static void finish_first(void)
{
	await_handler(cq[0] ? kfi_cq_source(cq[0]) : kfi_eq_source(eq));
	prove_check(records[HANDLER].n == 2, "the handler reads both entries");
	check_entries(FIRST, 2);
	close_all();
}

PROVE_SCENARIO(handler_one, .rules = "Q9", .tables = "10",
	       .says = "two entries and a handler that reads until nothing is left",
	       .setup = setup, .finish = finish_first,
	       .threads = { { "publisher", publish_two } });

static void finish_both(void)
{
	await_handler(kfi_cq_source(cq[0]));
	prove_check(records[HANDLER].n == 2, "the handler reads both entries");
	check_entries(FIRST, 1);
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(handler_two, .rules = "Q9", .tables = "10",
	       .says = "two publishers and a handler",
	       .setup = setup, .finish = finish_both,
	       .threads = { { "publisher 1", publish_one },
			    { "publisher 2", publish_one } });

/* A thread reads beside the handler: the one that finds nothing arms. */
static void read_until_empty(void)
{
	while (read_cq(0, 1) == 1)
		;
}

static void finish_beside_reader(void)
{
	await_handler(kfi_cq_source(cq[0]));
	prove_check(!read_rest(0), "nothing is left unread");
	check_entries(SECOND, 2);
	close_all();
}

PROVE_SCENARIO(handler_beside_reader, .rules = "Q9", .tables = "10",
	       .says = "a thread drains the CQ beside the handler",
	       .setup = setup, .finish = finish_beside_reader,
	       .threads = { { "reader", read_until_empty }, { "publisher", publish_two } });

/* A handler that reads one entry of two is not called for the second. */
static void handle_one(struct kfid_cq *fcq, void *context)
{
	struct kfi_cq_entry entry;

	begin_call();
	if (kfi_cq_read(fcq, &entry, 1) == 1)
		note(&records[HANDLER], &entry, 1);
	end_call();
}

static void setup_lazy(void)
{
	open_domain();
	prove_check(!try_open_cq(0, 4, KFI_CQ_COND_NONE, handle_one), "the CQ opens");
}

static void finish_lazy(void)
{
	await_handler(kfi_cq_source(cq[0]));
	prove_check(calls == 1, "without an empty read, the handler is called once");
	read_rest(0);
	check_entries(FIRST, 2);
	close_all();
}

PROVE_SCENARIO(handler_armed_once, .rules = "Q9", .tables = "10",
	       .says = "a handler that leaves an entry is not called again",
	       .setup = setup_lazy, .finish = finish_lazy,
	       .threads = { { "publisher", publish_two } });

/* A blocking read that is about to sleep arms the handler. */
static void read_one_and_sleep(void)
{
	sread_cq(0, 1, 1, SOME_TIME);
}

static void finish_sread_arms(void)
{
	await_handler(kfi_cq_source(cq[0]));
	prove_check(!read_rest(0), "nothing is left unread");
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(handler_beside_sread, .rules = "Q9", .tables = "10",
	       .says = "a blocking read and a handler share one entry",
	       .setup = setup, .finish = finish_sread_arms,
	       .threads = { { "reader", read_one_and_sleep },
			    { "publisher", publish_one } });

static bool closed;

static void handle_until_closed(struct kfid_cq *fcq, void *context)
{
	struct kfi_cq_entry entry;

	begin_call();
	prove_check(!READ_ONCE(closed), "no handler runs after the close");
	prove_check(kfi_close(&fcq->fid) == -KFI_EBUSY, "a handler cannot close its own CQ");
	while (kfi_cq_read(fcq, &entry, 1) == 1)
		;
	end_call();
}

static void setup_close(void)
{
	open_domain();
	prove_check(!try_open_cq(0, 4, KFI_CQ_COND_NONE, handle_until_closed),
		    "the CQ opens");
}

static void publish_and_close(void)
{
	publish(0, 2);
	close_cq(0);
	WRITE_ONCE(closed, true);
}

static void finish_closed(void)
{
	prove_check(!running, "the close waits for a running handler");
	close_all();
}

PROVE_SCENARIO(handler_close, .rules = "Q9 O1 V8", .tables = "10 11",
	       .says = "a CQ is closed while its handler may run",
	       .setup = setup_close, .finish = finish_closed,
	       .threads = { { "owner", publish_and_close } });

static struct completion all_handled;

static void handle_and_tell(struct kfid_cq *fcq, void *context)
{
	handle_cq(fcq, context);
	if (records[HANDLER].n == 2)
		complete(&all_handled);
}

static void setup_delay(void)
{
	param_handler_delay_us = 10;
	init_completion(&all_handled);
	open_domain();
	prove_check(!try_open_cq(0, 4, KFI_CQ_COND_NONE, handle_and_tell), "the CQ opens");
}

static void await_entries(void)
{
	wait_for_completion(&all_handled);
}

static void finish_delay(void)
{
	prove_check(records[HANDLER].n == 2, "the handler reads both entries");
	check_entries(SECOND, 2);
	close_all();
}

PROVE_SCENARIO(handler_delay, .rules = "Q9", .tables = "10",
	       .says = "a timer puts the handler off; no entry is left",
	       .setup = setup_delay, .finish = finish_delay,
	       .threads = { { "ULP", await_entries }, { "publisher", publish_two } });

static void setup_delay_close(void)
{
	param_handler_delay_us = 10;
	setup_close();
}

PROVE_SCENARIO(handler_delay_close, .rules = "Q9 O1", .tables = "10 11",
	       .says = "a CQ is closed while its handler is put off",
	       .setup = setup_delay_close, .finish = finish_closed,
	       .threads = { { "owner", publish_and_close } });

static void handle_eq(struct kfid_eq *feq, void *context)
{
	struct record *r = &records[HANDLER];
	struct kfi_eq_entry entry;
	u32 event;

	begin_call();
	while (kfi_eq_read(feq, &event, &entry, sizeof(entry), 0) == sizeof(entry))
		r->entry[r->n++] = entry.data;
	end_call();
}

static void open_handled_eq(kfi_event_handler handler)
{
	open_domain();
	prove_check(!kfi_core_eq_open(&fabric->fabric, NULL, &eq, handler, NULL),
		    "the EQ opens");
}

static void setup_eq(void)
{
	open_handled_eq(handle_eq);
}

static void write_event(u64 data)
{
	struct kfi_eq_entry entry = { .data = data };

	prove_check(kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof(entry), 0) > 0,
		    "the event is written");
}

static void write_two(void)
{
	write_event(entry_number(prove_self(), 1));
	write_event(entry_number(prove_self(), 2));
}

PROVE_SCENARIO(handler_eq, .rules = "Q9", .tables = "10",
	       .says = "two events and the handler of an EQ",
	       .setup = setup_eq, .finish = finish_first,
	       .threads = { { "writer", write_two } });

/* Only the blocking read arms: the handler does not read. */
static bool second_slept;

static void count_cq_call(struct kfid_cq *fcq, void *context)
{
	begin_call();
	end_call();
}

static void setup_counted(void)
{
	open_domain();
	prove_check(!try_open_cq(0, 4, KFI_CQ_COND_NONE, count_cq_call), "the CQ opens");
}

static void publish_and_read_two(void)
{
	publish_one();
	await_handler(kfi_cq_source(cq[0]));
	read_one();
	read_one();
}

static void publish_to_sleeper(void)
{
	second_slept = asleep_in(cq_queue());
	publish_one();
}

static void check_counted(struct kfi_source *src)
{
	await_handler(src);
	prove_check(!second_slept || calls == 2, "a read that sleeps arms the handler");
	close_all();
}

static void finish_counted(void)
{
	check_counted(kfi_cq_source(cq[0]));
}

PROVE_SCENARIO(handler_sread_arms, .rules = "Q9", .tables = "10",
	       .says = "a blocking read of a CQ arms its handler, which does not read",
	       .setup = setup_counted, .finish = finish_counted,
	       .threads = { { "reader", publish_and_read_two },
			    { "publisher", publish_to_sleeper } });

static void count_eq_call(struct kfid_eq *feq, void *context)
{
	begin_call();
	end_call();
}

static void setup_eq_counted(void)
{
	open_handled_eq(count_eq_call);
}

static void write_and_read_two(void)
{
	struct kfi_eq_entry entry;
	unsigned int i;
	u32 event;

	write_event(0);
	await_handler(kfi_eq_source(eq));
	for (i = 0; i < 2; i++)
		kfi_eq_sread(eq, &event, &entry, sizeof(entry), FOREVER, 0);
}

static void write_to_sleeper(void)
{
	second_slept = asleep_in(eq_queue());
	write_event(0);
}

static void finish_eq_counted(void)
{
	check_counted(kfi_eq_source(eq));
}

PROVE_SCENARIO(handler_eq_sread_arms, .rules = "Q9", .tables = "10",
	       .says = "a blocking read of an EQ arms its handler, which does not read",
	       .setup = setup_eq_counted, .finish = finish_eq_counted,
	       .threads = { { "reader", write_and_read_two },
			    { "writer", write_to_sleeper } });

static void handle_beside_loss(struct kfid_cq *fcq, void *context)
{
	struct kfi_cq_entry entry;

	prove_check(!READ_ONCE(closed), "no handler runs after the close");
	while (kfi_cq_read(fcq, &entry, 1) == 1)
		;
}

static void setup_close_loss(void)
{
	WRITE_ONCE(closed, false);
	open_domain();
	prove_check(!try_open_cq(0, 4, KFI_CQ_COND_NONE, handle_beside_loss), "the CQ opens");
}

static void close_handled(void)
{
	close_cq(0);
	WRITE_ONCE(closed, true);
}

PROVE_SCENARIO(handler_close_loss, .rules = "Q9 O5", .tables = "11 12",
	       .says = "a CQ with a handler is closed as the device goes",
	       .setup = setup_close_loss, .finish = close_all,
	       .threads = { { "closer", close_handled }, { "device", lose_device } });
