// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Event queues: blocking reads, events that their object takes back, slots, and closes
 * beside readers and reporters.
 */
#include "support.h"

enum { FIRST, SECOND, THIRD, FOURTH };

static bool eq_is_ready(void)
{
	return kfi_eq_source(eq)->ready;
}

static void setup(void)
{
	open_domain();
	open_eq(2);
	prove_ready(eq_is_ready);
}

static int write_number(unsigned long number)
{
	const struct kfi_eq_entry entry = { .data = number };

	return kfi_eq_write(eq, KFI_NOTIFY, &entry, sizeof(entry), 0);
}

static void write_n(unsigned int n)
{
	unsigned int i;

	for (i = 1; i <= n; i++)
		prove_check(write_number(entry_number(prove_self(), i)) ==
			    sizeof(struct kfi_eq_entry), "the event is written");
}

static void write_one(void)
{
	write_n(1);
}

static void write_two(void)
{
	write_n(2);
}

/* Notes the number of an event that was read. */
static ssize_t note_event(u32 event, const struct kfi_eq_entry *entry, ssize_t n)
{
	struct record *r = mine();

	if (n == sizeof(*entry)) {
		prove_check(event == KFI_NOTIFY, "the event is the one that was written");
		if (r->n < ENTRIES)
			r->entry[r->n++] = entry->data;
	}
	r->ret = n;
	return n;
}

static ssize_t sread_eq(int timeout, u64 flags)
{
	struct kfi_eq_entry entry = { };
	u32 event = KFI_SHUTDOWN;
	ssize_t n = kfi_eq_sread(eq, &event, &entry, sizeof(entry), timeout, flags);

	return flags & KFI_PEEK ? n : note_event(event, &entry, n);
}

static ssize_t read_eq(void)
{
	struct kfi_eq_entry entry = { };
	u32 event = KFI_SHUTDOWN;
	ssize_t n = kfi_eq_read(eq, &event, &entry, sizeof(entry), 0);

	return note_event(event, &entry, n);
}

static void read_event(void)
{
	sread_eq(FOREVER, 0);
	mine()->done = true;
}

static void read_event_in_time(void)
{
	sread_eq(SOME_TIME, 0);
}

static void peek_event(void)
{
	mine()->ret = sread_eq(FOREVER, KFI_PEEK);
	mine()->done = true;
}

static void read_rest_of_eq(void)
{
	while (read_eq() > 0)
		;
}

static void finish_one(void)
{
	prove_check(records[FIRST].n == 1, "the reader gets the event");
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(eq_one, .rules = "W2 Q1 V1", .tables = "1",
	       .says = "one thread sleeps in kfi_eq_sread(), one event is written",
	       .setup = setup, .finish = finish_one,
	       .threads = { { "reader", read_event }, { "writer", write_one } });

/* An event is there before the call, which looks once. */
static void setup_event_there(void)
{
	setup();
	prove_check(write_number(entry_number(SECOND, 1)) > 0, "the event is written");
}

static void check_once(void)
{
	prove_check(sread_eq(0, 0) > 0, "a read with timeout 0 finds what is there");
}

static void write_next(void)
{
	prove_check(write_number(entry_number(SECOND, 2)) > 0, "the event is written");
}

static void finish_checked(void)
{
	prove_check(!counts_of(eq_queue()).sleeps, "a read with timeout 0 does not sleep");
	read_rest_of_eq();
	check_entries(SECOND, 2);
	close_all();
}

PROVE_SCENARIO(eq_check, .rules = "W4 Q1", .tables = "1",
	       .says = "a read with timeout 0 finds the event that is there",
	       .setup = setup_event_there, .finish = finish_checked,
	       .threads = { { "reader", check_once }, { "writer", write_next } });

static void finish_two(void)
{
	prove_check(records[FIRST].n == 1 && records[SECOND].n == 1,
		    "each reader gets one event");
	check_entries(THIRD, 2);
	close_all();
}

PROVE_SCENARIO(eq_two, .rules = "Q3 V4", .tables = "4",
	       .says = "two readers, one writer of two events: one event each",
	       .setup = setup, .finish = finish_two,
	       .threads = { { "reader 1", read_event }, { "reader 2", read_event },
			    { "writer", write_two } });

static void finish_two_by_two(void)
{
	prove_check(records[FIRST].n == 1 && records[SECOND].n == 1,
		    "each reader gets one event");
	check_entries(THIRD, 1);
	check_entries(FOURTH, 1);
	close_all();
}

PROVE_SCENARIO(eq_two_by_two, .rules = "Q3 V4", .tables = "4",
	       .says = "two readers of an EQ, two writers",
	       .setup = setup, .finish = finish_two_by_two,
	       .threads = { { "reader 1", read_event }, { "reader 2", read_event },
			    { "writer 1", write_one }, { "writer 2", write_one } });

static void check_first_or(ssize_t other, unsigned int writer)
{
	const ssize_t ret = records[FIRST].ret;

	prove_check(ret == sizeof(struct kfi_eq_entry) || ret == other,
		    "the read ends as the contract says");
	read_rest_of_eq();
	check_entries(writer, 1);
}

static void finish_deadline(void)
{
	check_first_or(-KFI_ETIMEDOUT, SECOND);
	close_all();
}

PROVE_SCENARIO(eq_deadline, .rules = "W4 V4 Q1", .tables = "3",
	       .says = "the deadline of a reader passes as an event is written",
	       .setup = setup, .finish = finish_deadline,
	       .threads = { { "reader", read_event_in_time }, { "writer", write_one } });

static void finish_signal(void)
{
	check_first_or(-EINTR, THIRD);
	prove_check(records[FIRST].n + records[SECOND].n == 1,
		    "the event goes to one of the readers");
	end_sleepers(eq_queue());
	close_all();
}

PROVE_SCENARIO(eq_signal, .rules = "W6 V4 Q3", .tables = "3 5",
	       .says = "a signal ends one read; the other reader gets its wake-up",
	       .setup = setup, .finish = finish_signal,
	       .threads = { { "reader 1", read_event },
			    { "reader 2", read_event, PROVE_STAYS },
			    { "writer", write_one }, { "signal", signal_first } });

static void finish_peek(void)
{
	if (records[FIRST].done)
		prove_check(records[FIRST].ret == sizeof(struct kfi_eq_entry),
			    "the peek returns the event");
	prove_check(records[SECOND].n == 1, "the reader gets the event");
	check_entries(THIRD, 1);
	end_sleepers(eq_queue());
	close_all();
}

PROVE_SCENARIO(eq_peek, .rules = "Q7 V4", .tables = "5",
	       .says = "a peek was woken and leaves the event: the other reader gets it",
	       .setup = setup, .finish = finish_peek,
	       .threads = { { "peeks", peek_event, PROVE_STAYS }, { "reader", read_event },
			    { "writer", write_one } });

static void read_into_too_little(void)
{
	struct kfi_eq_entry entry;
	u32 event;

	mine()->ret = kfi_eq_sread(eq, &event, &entry, 1, FOREVER, 0);
	mine()->done = true;
}

static void finish_too_small(void)
{
	if (records[FIRST].done)
		prove_check(records[FIRST].ret == -KFI_ETOOSMALL, "the buffer is too small");
	prove_check(records[SECOND].n == 1, "the other reader gets the event");
	check_entries(THIRD, 1);
	end_sleepers(eq_queue());
	close_all();
}

PROVE_SCENARIO(eq_too_small, .rules = "V4 V6", .tables = "5",
	       .says = "a woken reader has too small a buffer: the other reader gets the event",
	       .setup = setup, .finish = finish_too_small,
	       .threads = { { "small", read_into_too_little, PROVE_STAYS },
			    { "reader", read_event }, { "writer", write_one } });

static void report_error(void)
{
	const struct kfi_eq_err_entry entry = { .err = KFI_EIO };

	prove_check(!kfi_eq_report_err(eq, NULL, &entry), "the error is reported");
}

static void finish_error(void)
{
	struct kfi_eq_err_entry entry = { };

	prove_check(records[FIRST].ret == -KFI_EAVAIL && records[SECOND].ret == -KFI_EAVAIL,
		    "an error ends each read with -KFI_EAVAIL");
	prove_check(kfi_eq_readerr(eq, &entry, 0) == sizeof(entry), "the error is there");
	prove_check(entry.err == KFI_EIO, "the error has its number");
	prove_check(kfi_eq_readerr(eq, &entry, 0) == -KFI_EAGAIN, "the error is there once");
	close_all();
}

PROVE_SCENARIO(eq_error, .rules = "Q3 V7 Q1", .tables = "4",
	       .says = "an error event wakes all readers",
	       .setup = setup, .finish = finish_error,
	       .threads = { { "reader 1", read_event }, { "reader 2", read_event },
			    { "provider", report_error } });

static unsigned int refused;

static void setup_small(void)
{
	open_domain();
	open_eq(1);
	prove_ready(eq_is_ready);
}

static void write_or_be_refused(void)
{
	unsigned int i;
	int ret;

	for (i = 1; i <= 2; i++) {
		ret = write_number(entry_number(prove_self(), i));
		if (ret == -KFI_EAGAIN)
			refused++;
		else
			prove_check(ret == sizeof(struct kfi_eq_entry),
				    "an event is written or refused");
	}
}

static void finish_full(void)
{
	prove_check(refused <= 1, "the first event has a place");
	prove_check(records[FIRST].n == 1, "the reader gets the first event");
	read_rest_of_eq();
	check_entries(SECOND, 2 - refused);
	prove_check(write_number(1) > 0, "an event that was read gives its place back");
	close_all();
}

PROVE_SCENARIO(eq_full, .rules = "Q10", .tables = "1",
	       .says = "two events for one place: the second one is refused or stored",
	       .setup = setup_small, .finish = finish_full,
	       .threads = { { "reader", read_event }, { "writer", write_or_be_refused } });

static unsigned int drops, taken;

/* Called under no lock; the counts are compared when all threads have ended. */
static void drop_event(u32 event, void *buf)
{
	WRITE_ONCE(drops, READ_ONCE(drops) + 1);
}

/* The user's events have one place, which those of the endpoint do not take. */
static void setup_ep(void)
{
	setup_small();
	open_ep();
	prove_check(!kfi_ep_base_bind(ep, &eq->fid, 0), "the EQ is bound");
}

static void report_connected(void)
{
	const struct kfi_eq_cm_entry entry = { .fid = &ep->ep.fid };
	const struct kfi_event event = {
		.event = KFI_CONNECTED,
		.buf = &entry,
		.len = sizeof(entry),
		.drop = drop_event,
	};

	prove_check(!kfi_ep_report(ep, &event), "the event is reported");
}

static void setup_event(void)
{
	setup_ep();
	report_connected();
}

/* The object is not closed before this returns, so its class can be read. */
static void name_object(const struct kfid *fid, void *arg)
{
	prove_check(!fid || fid->fclass == KFI_CLASS_EP, "the event names its object");
}

/* A reader that copies to user space. */
static void hold_and_settle(bool copied)
{
	struct kfi_eq_slot slot;
	int ret = kfi_eq_hold(eq, false, &slot, name_object, NULL);

	if (ret) {
		prove_check(ret == -KFI_EAGAIN, "there is an event, or there is none");
		return;
	}
	kfi_eq_settle(eq, &slot, copied);
	taken += copied;
}

static void read_for_user(void)
{
	hold_and_settle(true);
}

static void fail_to_copy(void)
{
	hold_and_settle(false);
}

static void close_endpoint(void)
{
	must_close(&ep->ep.fid);
}

static void finish_held(void)
{
	ep = NULL;
	prove_check(taken + drops == 1, "the event is read, or what it owns is freed, once");
	prove_check(!eq_is_ready(), "no event of a closed endpoint is left");
	close_all();
}

PROVE_SCENARIO(eq_held, .rules = "X2 V6 V8", .tables = "11",
	       .says = "an endpoint is closed while a reader holds its event",
	       .setup = setup_event, .finish = finish_held,
	       .threads = { { "reader", read_for_user }, { "closer", close_endpoint } });

PROVE_SCENARIO(eq_held_fault, .rules = "X2 V6 V8", .tables = "11",
	       .says = "the copy of a held event fails while its endpoint is closed",
	       .setup = setup_event, .finish = finish_held,
	       .threads = { { "reader", fail_to_copy }, { "closer", close_endpoint } });

/* An error event names its object as well, and leaves with it. */
static void setup_error_event(void)
{
	struct kfi_eq_err_entry error = { .err = KFI_EIO };

	setup_ep();
	error.fid = &ep->ep.fid;
	prove_check(!kfi_ep_report_err(ep, &error), "the error is reported");
}

static const struct kfid *named;

static void name_endpoint(const struct kfid *fid, void *arg)
{
	named = fid;
	name_object(fid, arg);
}

static void read_error_for_user(void)
{
	struct kfi_eq_slot slot;

	if (kfi_eq_hold(eq, true, &slot, name_endpoint, NULL))
		return;
	prove_check(named, "the error names its endpoint");
	kfi_eq_settle(eq, &slot, true);
}

static void finish_error_held(void)
{
	ep = NULL;
	prove_check(!eq_is_ready(), "no error of a closed endpoint is left");
	close_all();
}

PROVE_SCENARIO(eq_error_held, .rules = "X2 V6 V8", .tables = "11",
	       .says = "an endpoint is closed while a reader holds its error event",
	       .setup = setup_error_event, .finish = finish_error_held,
	       .threads = { { "reader", read_error_for_user },
			    { "closer", close_endpoint } });

/* Behind the endpoint's event there is one of the user, which must stay. */
static void setup_two_events(void)
{
	setup_event();
	prove_check(write_number(entry_number(REST, 1)) > 0, "the event is written");
}

/* Reads one event; it may be the second one if the endpoint has taken back the first. */
static bool held_connected;

static void name_kind(const struct kfid *fid, void *arg)
{
	held_connected = fid;
}

static void read_first_event(void)
{
	struct kfi_eq_slot slot;

	if (kfi_eq_hold(eq, false, &slot, name_kind, NULL))
		return;
	kfi_eq_settle(eq, &slot, true);
	taken++;
}

static void finish_two_events(void)
{
	ep = NULL;
	prove_check(taken == 1, "an event is always there");
	prove_check(drops == !held_connected, "the endpoint's event is read, or freed, once");
	read_rest_of_eq();
	prove_check(times_read(entry_number(REST, 1)) == held_connected,
		    "the other event is not taken for it");
	close_all();
}

PROVE_SCENARIO(eq_held_next, .rules = "X2 V6", .tables = "11",
	       .says = "a held event is taken back: the next one is not taken in its place",
	       .setup = setup_two_events, .finish = finish_two_events,
	       .threads = { { "reader", read_first_event }, { "closer", close_endpoint } });

/* A sleeping reader is woken for an event that its endpoint takes back. */
static void report_and_close(void)
{
	report_connected();
	close_endpoint();
}

static void read_cm_event(void)
{
	struct kfi_eq_cm_entry entry = { };
	u32 event;

	mine()->ret = kfi_eq_sread(eq, &event, &entry, sizeof(entry), FOREVER, 0);
	if (mine()->ret == -EINTR)
		return;
	prove_check(mine()->ret == sizeof(entry), "the read returns the event");
	prove_check(entry.fid == &ep->ep.fid, "the event names its endpoint");
	taken++;
}

static void finish_taken_back(void)
{
	prove_check(taken + drops == 1, "the event is read, or what it owns is freed, once");
	ep = NULL;
	end_sleepers(eq_queue());
	close_all();
}

PROVE_SCENARIO(eq_taken_back, .rules = "V5 V8", .tables = "6 11",
	       .says = "a reader is woken for an event that its endpoint takes back",
	       .setup = setup_ep, .finish = finish_taken_back,
	       .threads = { { "reader", read_cm_event, PROVE_STAYS },
			    { "endpoint", report_and_close } });

static struct kfi_pep_base *pep;
static const struct kfid request;	/* the address of a connection request */
static ssize_t reported;
static bool given_up;

static int close_pep(struct kfid *fid)
{
	int ret = kfi_fid_kill(fid);

	if (ret)
		return ret;
	kfi_pep_base_fini(pep);
	kfree(pep);
	return 0;
}

static struct kfi_ops pep_ops = { .size = sizeof(pep_ops), .close = close_pep };

static void setup_pep(void)
{
	setup_small();
	pep = kzalloc(sizeof(*pep), GFP_KERNEL);
	kfi_pep_base_init(pep, &fabric->fabric, &pep_ops, NULL);
	prove_check(!kfi_pep_base_bind(pep, &eq->fid, 0), "the EQ is bound");
}

static void report_request(void)
{
	const struct kfi_eq_cm_entry entry = { .fid = &pep->pep.fid };
	const struct kfi_event event = {
		.event = KFI_CONNREQ,
		.buf = &entry,
		.len = sizeof(entry),
		.drop = drop_event,
		.request = &request,
	};

	reported = kfi_pep_report(pep, &event);
}

static void setup_request(void)
{
	setup_pep();
	report_request();
	prove_check(write_number(entry_number(REST, 1)) > 0,
		    "a request takes no place of the user");
}

static void give_up(void)
{
	struct kfi_eq_slot slot;

	given_up = kfi_pep_take_request(pep, &request, &slot);
	if (given_up)
		drop_event(slot.event, slot.payload);
}

static void name_nothing(const struct kfid *fid, void *arg)
{
}

/* Holds the first event, which is the request unless the peer has given up. */
static void hold_request(bool copied)
{
	struct kfi_eq_slot slot;

	if (kfi_eq_hold(eq, false, &slot, name_nothing, NULL))
		return;
	copied = copied && slot.event == KFI_CONNREQ;
	kfi_eq_settle(eq, &slot, copied);
	taken += copied;
}

static void read_request(void)
{
	hold_request(true);
}

static void read_request_and_fail(void)
{
	hold_request(false);
}

static void finish_request(void)
{
	while (!taken && !drops)
		read_request();
	prove_check(taken + drops == 1, "the request is a reader's, or freed, once");
	read_rest_of_eq();
	prove_check(times_read(entry_number(REST, 1)) == 1, "the other event is read once");
	must_close(&pep->pep.fid);
	close_all();
}

PROVE_SCENARIO(eq_request_given_up, .rules = "Q10 V6", .tables = "11",
	       .says = "a peer gives up as a reader takes its connection request",
	       .setup = setup_request, .finish = finish_request,
	       .threads = { { "reader", read_request }, { "peer", give_up } });

PROVE_SCENARIO(eq_request_fault, .rules = "Q10 V6", .tables = "11",
	       .says = "a peer gives up as the copy of its connection request fails",
	       .setup = setup_request, .finish = finish_request,
	       .threads = { { "reader", read_request_and_fail }, { "peer", give_up } });

static void close_eq(void)
{
	must_close(&eq->fid);
	eq = NULL;
}

static void setup_pep_alone(void)
{
	open_domain();
	open_eq(2);
	pep = kzalloc(sizeof(*pep), GFP_KERNEL);
	kfi_pep_base_init(pep, &fabric->fabric, &pep_ops, NULL);
}

static void setup_pep_quiet(void)
{
	setup_pep_alone();
	prove_check(!kfi_pep_base_bind(pep, &eq->fid, 0), "the EQ is bound");
}

static void finish_eq_closed(void)
{
	prove_check(reported == -KFI_ENOEQ ? !drops : drops == 1,
		    "the request is refused, or freed with the EQ");
	must_close(&pep->pep.fid);
	close_all();
}

PROVE_SCENARIO(eq_closed_under_pep, .rules = "O1 Q10", .tables = "11",
	       .says = "an EQ is closed as its passive endpoint reports",
	       .setup = setup_pep_quiet, .finish = finish_eq_closed,
	       .threads = { { "provider", report_request }, { "closer", close_eq } });

static void close_passive(void)
{
	must_close(&pep->pep.fid);
}

static void setup_pep_request(void)
{
	setup_pep_quiet();
	report_request();
}

static void finish_both_closed(void)
{
	prove_check(drops == 1, "the request is freed once");
	close_all();
}

PROVE_SCENARIO(eq_and_pep_close, .rules = "O1 V8", .tables = "11",
	       .says = "an EQ and its passive endpoint are closed at once",
	       .setup = setup_pep_request, .finish = finish_both_closed,
	       .threads = { { "closes the EQ", close_eq },
			    { "closes the endpoint", close_passive } });

/* What the EQ's own events own is freed with it. */
static void setup_unread(void)
{
	const u64 number = 0;
	const struct kfi_event event = {
		.event = KFI_NOTIFY,
		.buf = &number,
		.len = sizeof(number),
		.drop = drop_event,
	};

	open_domain();
	open_eq(2);
	prove_check(!kfi_eq_report(eq, NULL, &event), "the event is reported");
}

static void finish_unread(void)
{
	prove_check(drops == 1, "the event is freed");
	close_all();
}

PROVE_SCENARIO(eq_closed_unread, .rules = "O1 V8", .tables = "11",
	       .says = "an EQ is closed with an event that nobody has read",
	       .setup = setup_unread, .finish = finish_unread,
	       .threads = { { "closer", close_eq } });

static void bind_pep(void)
{
	mine()->ret = kfi_pep_base_bind(pep, &eq->fid, 0);
}

static void finish_pep_bound(void)
{
	const int ret = records[FIRST].ret;

	prove_check(!ret || ret == -KFI_ENOMEM, "it is bound, or there is no memory");
	report_request();
	prove_check(reported == (ret ? -KFI_ENOEQ : 0), "a request finds its slot, or no EQ");
	must_close(&pep->pep.fid);
	prove_check(drops == !ret, "the request is freed");
	close_all();
}

PROVE_SCENARIO(memory_bind_pep, .rules = "X4 Q10", .tables = "11", .fails = 2,
	       .says = "a passive endpoint gets its EQ with and without memory",
	       .setup = setup_pep_alone, .finish = finish_pep_bound,
	       .threads = { { "owner", bind_pep }, { "writer", write_one } });

/* The thread that finds the event closes the EQ, perhaps before the writer has woken. */
static void read_and_close(void)
{
	if (sread_eq(FOREVER, 0) > 0)
		close_eq();
}

static void setup_quiet(void)
{
	open_domain();
	open_eq(2);
}

static void finish_closed(void)
{
	prove_check(!eq, "the EQ is closed");
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(eq_closed_by_reader, .rules = "V8 O1", .tables = "11",
	       .says = "the reader of an event closes the EQ before its writer has woken",
	       .setup = setup_quiet, .finish = finish_closed,
	       .threads = { { "reader", read_and_close }, { "writer", write_one } });

/* The memory of a request is used again while a reader holds the event of the first one. */
static u32 held_event, taken_event;

static void drop_nothing(u32 event, void *payload)
{
}

static void report_numbered(u32 number)
{
	struct kfid *fid = &fabric->fabric.fid;
	const struct kfi_event event = {
		.event = number,
		.buf = &fid,
		.len = sizeof(fid),
		.drop = drop_nothing,
		.request = &request,
	};

	prove_check(!kfi_eq_report(eq, NULL, &event), "the request is reported");
}

static void setup_first_request(void)
{
	setup();
	report_numbered(1);
}

static void hold_any(void)
{
	struct kfi_eq_slot slot;

	if (kfi_eq_hold(eq, false, &slot, name_nothing, NULL))
		return;
	kfi_eq_settle(eq, &slot, true);
	held_event = slot.event;
}

static void report_and_give_up(void)
{
	struct kfi_eq_slot slot;

	report_numbered(2);
	if (!kfi_eq_extract(eq, NULL, &request, &slot))
		return;
	taken_event = slot.event;
	kfi_eq_drop(&slot);
}

static void finish_same_address(void)
{
	prove_check(taken_event == 2 || (!taken_event && held_event == 2),
		    "the later request is the one that is taken back");
	close_all();
}

PROVE_SCENARIO(eq_request_same_address, .rules = "Q10 V6", .tables = "11",
	       .says = "a request is given up that has the address of one whose event is held",
	       .setup = setup_first_request, .finish = finish_same_address,
	       .threads = { { "reader", hold_any }, { "peer", report_and_give_up } });
