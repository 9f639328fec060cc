// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Completion channels: one request, one event; the acks that a close waits for; the end
 * of a channel under its getters.
 */
#include "support.h"

#include "channel.h"

enum { FIRST, SECOND, THIRD, FOURTH };

static bool event_is_left(void)
{
	return kfi_channel_of(channel)->queue.nready.counter > 0;
}

static void bind_cq(int i)
{
	open_cq(i);
	prove_check(!kfi_cq_bind_channel(cq[i], channel), "the CQ is bound");
}

static void request_event(int i, u32 flags)
{
	prove_check(kfi_req_notify(cq[i], flags) >= 0, "the request is made");
}

static void setup_channel(void)
{
	open_domain();
	open_channel();
	prove_ready(event_is_left);
}

static void setup(void)
{
	setup_channel();
	bind_cq(0);
}

static void setup_requested(void)
{
	setup();
	request_event(0, KFI_CQ_NEXT_COMP);
}

/* Gets one event and acknowledges it. Return: as kfi_get_cq_event(). */
static int get_and_ack(int timeout)
{
	struct kfid_cq *of = NULL;
	int ret = kfi_get_cq_event(channel, &of, NULL, timeout);

	mine()->ret = ret;
	if (ret)
		return ret;
	prove_check(of == cq[0] || of == cq[1], "the event names its CQ");
	prove_check(!kfi_ack_cq_events(of, 1), "the event is acknowledged");
	return 0;
}

static void get_event(void)
{
	get_and_ack(FOREVER);
	mine()->done = true;
}

static void end_getters(void)
{
	end_sleepers(&kfi_channel_of(channel)->queue);
	read_rest(0);
	close_all();
}

static void read_until_empty(void)
{
	while (read_cq(0, 1) == 1)
		;
}

static void finish_one_event(void)
{
	prove_check(!records[FIRST].ret, "the getter gets the event");
	prove_check(get_and_ack(0) == -KFI_EAGAIN, "one request makes one event");
	prove_check(kfi_ack_cq_events(cq[0], 1) == -KFI_EINVAL,
		    "an ack of more events than were got is refused");
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(channel_one, .rules = "E1 E2 W2", .tables = "17 1",
	       .says = "one request and two completions make one event",
	       .setup = setup_requested, .finish = finish_one_event,
	       .threads = { { "getter", get_event }, { "provider", publish_two } });

/* Then the number on the channel's queue is the only one that the completion gets. */
static void setup_waitless(void)
{
	setup_channel();
	open_waitless_cq(0);
	prove_check(!kfi_cq_bind_channel(cq[0], channel), "the CQ is bound");
	request_event(0, KFI_CQ_NEXT_COMP);
}

PROVE_SCENARIO(channel_waitless_cq, .rules = "E1 V1 W2", .tables = "17 1",
	       .says = "a CQ without a wait object makes an event",
	       .setup = setup_waitless, .finish = finish_one_event,
	       .threads = { { "getter", get_event }, { "provider", publish_one } });

/* The loop of the manual page: request first, then read until empty. */
static void serve_two_entries(void)
{
	for (;;) {
		request_event(0, KFI_CQ_NEXT_COMP);
		read_until_empty();
		if (mine()->n == 2)
			return;
		prove_check(!get_and_ack(FOREVER), "the event comes");
	}
}

static void finish_served(void)
{
	check_entries(SECOND, 2);
	close_all();
}

PROVE_SCENARIO(channel_request_then_read, .rules = "E1 E4", .tables = "17",
	       .says = "a reader requests and then reads until empty: it misses nothing",
	       .setup = setup, .finish = finish_served,
	       .threads = { { "reader", serve_two_entries }, { "provider", publish_two } });

/* With KFI_CQ_REPORT_MISSED an entry that came before the request is reported. */
static void request_reporting_missed(void)
{
	mine()->ret = kfi_req_notify(cq[0], KFI_CQ_NEXT_COMP | KFI_CQ_REPORT_MISSED);
}

static void finish_missed(void)
{
	const bool event = get_and_ack(0) == 0;

	prove_check(records[FIRST].ret == !event,
		    "an entry is reported as missed, or makes an event");
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(channel_missed, .rules = "E1", .tables = "17",
	       .says = "a request that reports missed entries, beside a completion",
	       .setup = setup, .finish = finish_missed,
	       .threads = { { "reader", request_reporting_missed },
			    { "provider", publish_one } });

static void request_any(void)
{
	request_event(0, KFI_CQ_NEXT_COMP);
}

static void request_solicited(void)
{
	request_event(0, KFI_CQ_SOLICITED);
}

static void finish_stronger(void)
{
	publish(0, 1);
	prove_check(get_and_ack(0) == 0, "the stronger request counts");
	prove_check(get_and_ack(0) == -KFI_EAGAIN, "one request makes one event");
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(channel_stronger_request, .rules = "E1", .tables = "17",
	       .says = "two threads request: the stronger request counts, in either order",
	       .setup = setup, .finish = finish_stronger,
	       .threads = { { "any", request_any },
			    { "solicited", request_solicited } });

static void setup_solicited(void)
{
	setup();
	request_event(0, KFI_CQ_SOLICITED);
}

static void publish_ordinary(void)
{
	complete_op(0, 1, 0);
	prove_check(!atomic_read(&kfi_channel_of(channel)->queue.nready),
		    "an ordinary completion makes no solicited event");
}

static void publish_solicited(void)
{
	const struct kfi_completion comp = { .flags = KFI_RECV | KFI_SOLICITED };
	struct kfi_target target = { };

	publish_ordinary();
	kfi_cq_store(cq[0], &comp, &target);
	kfi_publish(&target, 1);
}

static void publish_failure(void)
{
	publish_ordinary();
	complete_op(0, 2, KFI_EIO);
}

static void finish_solicited(void)
{
	prove_check(!records[FIRST].ret, "the getter gets the event");
	close_all();
}

PROVE_SCENARIO(channel_solicited, .rules = "E1", .tables = "17",
	       .says = "a request for a solicited completion waits for that one",
	       .setup = setup_solicited, .finish = finish_solicited,
	       .threads = { { "getter", get_event }, { "provider", publish_solicited } });

PROVE_SCENARIO(channel_failure, .rules = "E1 V7", .tables = "17",
	       .says = "a failed completion counts as a solicited one",
	       .setup = setup_solicited, .finish = finish_solicited,
	       .threads = { { "getter", get_event }, { "provider", publish_failure } });

static void setup_two(void)
{
	setup_channel();
	bind_cq(0);
	bind_cq(1);
	request_event(0, KFI_CQ_NEXT_COMP);
	request_event(1, KFI_CQ_NEXT_COMP);
}

static void finish_two_getters(void)
{
	prove_check(!records[FIRST].ret && !records[SECOND].ret, "each getter gets an event");
	prove_check(get_and_ack(0) == -KFI_EAGAIN, "there are two events");
	close_all();
}

PROVE_SCENARIO(channel_two_getters, .rules = "E2 V4", .tables = "17 4", .bound = 3,
	       .says = "two CQs make an event each for two getters",
	       .setup = setup_two, .finish = finish_two_getters,
	       .threads = { { "getter 1", get_event }, { "getter 2", get_event },
			    { "provider 1", publish_one },
			    { "provider 2", publish_second } });

static struct kfid_cq *order[2];

static void get_two_in_order(void)
{
	int i;

	for (i = 0; i < 2; i++) {
		prove_check(!kfi_get_cq_event(channel, &order[i], NULL, FOREVER),
			    "the event comes");
		kfi_ack_cq_events(order[i], 1);
	}
}

static void publish_first_and_second(void)
{
	publish_one();
	publish_second();
}

static void finish_order(void)
{
	prove_check(order[0] == cq[0] && order[1] == cq[1], "events come in order");
	close_all();
}

PROVE_SCENARIO(channel_order, .rules = "E2", .tables = "17",
	       .says = "the events of two CQs come in the order of their completions",
	       .setup = setup_two, .finish = finish_order,
	       .threads = { { "getter", get_two_in_order },
			    { "provider", publish_first_and_second } });

static void finish_one_of_two(void)
{
	prove_check(records[FIRST].done + records[SECOND].done == 1,
		    "one getter gets the event");
	end_getters();
}

PROVE_SCENARIO(channel_one_for_two, .rules = "E2 V4", .tables = "17",
	       .says = "two getters and one event: one getter sleeps on",
	       .setup = setup_requested, .finish = finish_one_of_two,
	       .threads = { { "getter 1", get_event, PROVE_STAYS },
			    { "getter 2", get_event, PROVE_STAYS },
			    { "provider", publish_one } });

/* A getter for user space, whose copy fails. */
static ssize_t fail_to_hand_out(void *arg)
{
	struct kfid_cq *of;
	int ret = kfi_channel_peek(channel, &of);

	if (ret)
		return ret;
	kfi_channel_settle(channel, KFI_EVENT_KEPT);
	return -EFAULT;
}

static void get_and_fault(void)
{
	mine()->ret = kfi_channel_wait_take(channel, KFI_DEADLINE_NONE, fail_to_hand_out,
					    NULL);
	mine()->done = true;
}

static void finish_fault(void)
{
	if (records[FIRST].done)
		prove_check(records[FIRST].ret == -EFAULT, "the fault ends the call");
	prove_check(records[SECOND].done && !records[SECOND].ret,
		    "the other getter gets the event");
	end_getters();
}

PROVE_SCENARIO(channel_fault, .rules = "E4 V4 V6", .tables = "17 5",
	       .says = "the copy of a woken getter faults; the other one gets the event",
	       .setup = setup_requested, .finish = finish_fault,
	       .threads = { { "faults", get_and_fault, PROVE_STAYS },
			    { "getter", get_event }, { "provider", publish_one } });

static void get_event_in_time(void)
{
	get_and_ack(SOME_TIME);
	mine()->done = true;
}

static void finish_deadline(void)
{
	prove_check(!records[FIRST].ret || records[FIRST].ret == -KFI_ETIMEDOUT,
		    "the call ends as the contract says");
	prove_check(!records[FIRST].ret != (records[SECOND].done && !records[SECOND].ret),
		    "one getter gets the event");
	end_getters();
}

PROVE_SCENARIO(channel_deadline, .rules = "E2 W4 V4", .tables = "17 3",
	       .says = "the deadline of one getter passes; the other one gets the event",
	       .setup = setup_requested, .finish = finish_deadline,
	       .threads = { { "getter in time", get_event_in_time },
			    { "getter", get_event, PROVE_STAYS },
			    { "provider", publish_one } });

static void finish_signal(void)
{
	prove_check(!records[FIRST].ret || records[FIRST].ret == -EINTR,
		    "the call ends as the contract says");
	prove_check(!records[FIRST].ret != (records[SECOND].done && !records[SECOND].ret),
		    "one getter gets the event");
	end_getters();
}

PROVE_SCENARIO(channel_signal, .rules = "E2 W6 V4", .tables = "17 3",
	       .says = "a signal ends one call; the other getter gets the event",
	       .setup = setup_requested, .finish = finish_signal,
	       .threads = { { "getter 1", get_event },
			    { "getter 2", get_event, PROVE_STAYS },
			    { "provider", publish_one }, { "signal", signal_first } });

static struct kfid_comp_channel *held;

/* A call of another process: its handle keeps the memory of the channel. */
static void get_until_closed(void)
{
	struct kfid_cq *of;

	mine()->ret = kfi_get_cq_event(held, &of, NULL, FOREVER);
	kfi_channel_put(held);
}

static void setup_empty(void)
{
	open_domain();
	open_channel();
	held = channel;
	kfi_channel_hold(held);
	kfi_channel_hold(held);
}

static void close_channel(void)
{
	must_close(&channel->fid);
	channel = NULL;
}

static void finish_closed(void)
{
	prove_check(records[FIRST].ret == -EBADF && records[SECOND].ret == -EBADF,
		    "the close ends each call with -EBADF");
	close_all();
}

PROVE_SCENARIO(channel_close, .rules = "E5 V7", .tables = "18",
	       .says = "a channel is closed under two getters",
	       .setup = setup_empty, .finish = finish_closed,
	       .threads = { { "getter 1", get_until_closed },
			    { "getter 2", get_until_closed },
			    { "closer", close_channel } });

static void setup_unacked(void)
{
	struct kfid_cq *of;

	open_domain();
	open_channel();
	bind_cq(0);
	request_event(0, KFI_CQ_NEXT_COMP);
	complete_op(0, 1, 0);
	prove_check(!kfi_get_cq_event(channel, &of, NULL, 0), "the event is there");
}

static void ack_one(void)
{
	prove_check(!kfi_ack_cq_events(cq[0], 1), "the event is acknowledged");
}

static bool acked;

static void ack_noting(void)
{
	WRITE_ONCE(acked, true);
	ack_one();
}

static void close_and_check(void)
{
	int ret = kfi_close(&cq[0]->fid);

	mine()->ret = ret;
	if (!ret)
		prove_check(READ_ONCE(acked), "the close waits for the acks");
}

static void finish_acked(void)
{
	prove_check(!records[FIRST].ret, "the close ends");
	cq[0] = NULL;
	close_all();
}

PROVE_SCENARIO(channel_ack, .rules = "E3 V10", .tables = "19",
	       .says = "the close of a CQ waits for the last ack",
	       .setup = setup_unacked, .finish = finish_acked,
	       .threads = { { "closer", close_and_check }, { "acks", ack_noting } });

static void setup_two_unacked(void)
{
	struct kfid_cq *of;

	setup_unacked();
	request_event(0, KFI_CQ_NEXT_COMP);
	complete_op(0, 2, 0);
	prove_check(!kfi_get_cq_event(channel, &of, NULL, 0), "the event is there");
}

static void close_cq_simply(void)
{
	mine()->ret = kfi_close(&cq[0]->fid);
}

PROVE_SCENARIO(channel_two_acks, .rules = "E3 V10", .tables = "19",
	       .says = "two threads acknowledge; the last ack ends the close",
	       .setup = setup_two_unacked, .finish = finish_acked,
	       .threads = { { "closer", close_cq_simply }, { "acks 1", ack_one },
			    { "acks 2", ack_one } });

/* The getter's arguments do not depend on the CQ, which an ack may let go. */
static void get_with_context(void)
{
	struct kfid_cq *of = NULL;
	void *context = NULL;

	mine()->ret = kfi_get_cq_event(channel, &of, &context, FOREVER);
	prove_check(!mine()->ret && context == &cq[0], "the context is that of the CQ");
}

static void ack_and_close(void)
{
	struct kfid_cq *of = cq[0];

	if (kfi_ack_cq_events(of, 1))
		return;
	must_close(&of->fid);
	mine()->done = true;
}

static void finish_got(void)
{
	if (records[SECOND].done)
		cq[0] = NULL;
	else
		prove_check(!kfi_ack_cq_events(cq[0], 1), "the event was got");
	close_all();
}

static void setup_event(void)
{
	setup_requested();
	complete_op(0, 1, 0);
	read_rest(0);
}

PROVE_SCENARIO(channel_got_and_closed, .rules = "E2 E3 V8", .tables = "19",
	       .says = "a CQ is closed as soon as its event is got",
	       .setup = setup_event, .finish = finish_got,
	       .threads = { { "getter", get_with_context }, { "acks", ack_and_close } });

/* One event was got, so one of two acknowledgments is one too many. */
static void ack_or_be_refused(void)
{
	mine()->ret = kfi_ack_cq_events(cq[0], 1);
	prove_check(!mine()->ret || mine()->ret == -KFI_EINVAL,
		    "it is acknowledged, or it was not got");
}

static void finish_refused_ack(void)
{
	prove_check(!records[FIRST].ret != !records[SECOND].ret, "it is acknowledged once");
	close_all();
}

PROVE_SCENARIO(channel_ack_twice, .rules = "E3", .tables = "19",
	       .says = "two threads acknowledge the same event: one of them is refused",
	       .setup = setup_unacked, .finish = finish_refused_ack,
	       .threads = { { "acks 1", ack_or_be_refused },
			    { "acks 2", ack_or_be_refused } });

static void finish_interrupted(void)
{
	if (records[FIRST].ret) {
		prove_check(records[FIRST].ret == -EINTR, "the signal ends the close");
		must_close(&cq[0]->fid);
	}
	cq[0] = NULL;
	close_all();
}

PROVE_SCENARIO(channel_close_interrupted, .rules = "E3 W6", .tables = "19 3",
	       .says = "a signal ends the close that waits for an ack; a later close works",
	       .setup = setup_unacked, .finish = finish_interrupted,
	       .threads = { { "closer", close_cq_simply }, { "acks", ack_one },
			    { "signal", signal_first } });

static void discard(void)
{
	kfi_cq_discard_events(cq[0]);
}

/*
 * As for a user: a handle names the CQ until no event of it is left, and RCU keeps the
 * CQ for a call that has found the handle.
 */
static bool handle_gone;

static void close_for_user(void)
{
	mine()->ret = kfi_cq_closing(cq[0]) ?: kfi_cq_drain(cq[0]);
	WRITE_ONCE(handle_gone, true);
	prove_check(!kfi_close(&cq[0]->fid), "a drained CQ closes");
}

static void discard_for_user(void)
{
	rcu_read_lock();
	if (!READ_ONCE(handle_gone))
		kfi_cq_discard_events(cq[0]);
	rcu_read_unlock();
}

PROVE_SCENARIO(channel_discard, .rules = "E3", .tables = "19",
	       .says = "discarding the events ends a close that waits",
	       .setup = setup_unacked, .finish = finish_acked,
	       .threads = { { "closer", close_cq_simply }, { "discards", discard } });

/* An event that is unread when the close begins is dropped, or was got before. */
static void setup_unread(void)
{
	open_domain();
	open_channel();
	bind_cq(0);
	request_event(0, KFI_CQ_NEXT_COMP);
	complete_op(0, 1, 0);
}

static void finish_unread(void)
{
	prove_check(!records[FIRST].ret, "the close ends");
	prove_check(!records[SECOND].ret || records[SECOND].ret == -KFI_EAGAIN,
		    "the event is got or dropped");
	cq[0] = NULL;
	close_all();
}

static void get_now(void)
{
	get_and_ack(0);
}

PROVE_SCENARIO(channel_close_unread, .rules = "E3 V8", .tables = "19 11",
	       .says = "a CQ is closed as its event is got",
	       .setup = setup_unread, .finish = finish_unread,
	       .threads = { { "closer", close_cq_simply }, { "getter", get_now } });

/* A getter for user space holds the event while the CQ is closed. */
static void hand_out(enum kfi_event_fate fate)
{
	struct kfid_cq *of;

	if (kfi_channel_peek(channel, &of))
		return;
	prove_check(of->fid.fclass == KFI_CLASS_CQ, "the CQ of a held event stays");
	kfi_channel_settle(channel, fate);
	if (fate == KFI_EVENT_GOT)
		prove_check(!kfi_ack_cq_events(of, 1), "the event is acknowledged");
}

static void hand_out_got(void)
{
	hand_out(KFI_EVENT_GOT);
}

static void hand_out_fails(void)
{
	hand_out(KFI_EVENT_KEPT);
}

PROVE_SCENARIO(channel_held_got, .rules = "E3 X2 V10", .tables = "19",
	       .says = "a CQ is closed while its event is handed out",
	       .setup = setup_unread, .finish = finish_acked,
	       .threads = { { "closer", close_cq_simply }, { "getter", hand_out_got } });

PROVE_SCENARIO(channel_held_fault, .rules = "E3 E4 X2", .tables = "19",
	       .says = "a CQ is closed while the copy of its event fails",
	       .setup = setup_unread, .finish = finish_acked,
	       .threads = { { "closer", close_cq_simply }, { "getter", hand_out_fails } });

/* The second unread event has memory of its own. */
static void setup_second_event(void)
{
	setup_unread();
	request_event(0, KFI_CQ_NEXT_COMP);
	complete_op(0, 2, 0);
	get_now();
}

PROVE_SCENARIO(channel_held_second, .rules = "E3 X2", .tables = "19",
	       .says = "a CQ is closed while its second event is handed out",
	       .setup = setup_second_event, .finish = finish_acked,
	       .threads = { { "closer", close_cq_simply }, { "getter", hand_out_got } });

/* The close waits for a held event; discarding it must not end the hold. */
PROVE_SCENARIO(channel_held_discard, .rules = "E3 X2", .tables = "19",
	       .says = "events are discarded while one is handed out and the CQ is closed",
	       .setup = setup_unread, .finish = finish_acked,
	       .threads = { { "closer", close_for_user }, { "getter", hand_out_fails },
			    { "discards", discard_for_user } });

/* The discarded event needs no ack, whether it was handed out before or after that. */
static void hand_out_unacked(void)
{
	struct kfid_cq *of;

	if (!kfi_channel_peek(channel, &of))
		kfi_channel_settle(channel, KFI_EVENT_GOT);
}

PROVE_SCENARIO(channel_held_got_discard, .rules = "E3 X2", .tables = "19",
	       .says = "events are discarded while one is handed out: it needs no ack",
	       .setup = setup_unread, .finish = finish_acked,
	       .threads = { { "closer", close_for_user }, { "getter", hand_out_unacked },
			    { "discards", discard_for_user } });

/* While an event is unread, a request needs memory; a refused one changes nothing. */
static void request_again(void)
{
	mine()->ret = kfi_req_notify(cq[0], KFI_CQ_NEXT_COMP);
	prove_check(!mine()->ret || mine()->ret == -KFI_ENOMEM,
		    "the request is made or refused for memory");
	if (!mine()->ret)
		publish(0, 1);
}

static void finish_request_memory(void)
{
	unsigned int events = 0;

	while (!get_and_ack(0))
		events++;
	if (!records[SECOND].ret)
		events++;
	prove_check(events == 1u + !records[FIRST].ret, "each request made its event");
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(channel_request_memory, .rules = "E4", .tables = "17", .fails = 1,
	       .says = "a request while an event is unread, with and without memory",
	       .setup = setup_unread, .finish = finish_request_memory,
	       .threads = { { "requester", request_again }, { "getter", get_now } });

static void get_until_lost(void)
{
	while (!get_and_ack(FOREVER))
		;
	mine()->done = true;
}

static void setup_lose(void)
{
	open_domain();
	open_channel();
	bind_cq(0);
	request_event(0, KFI_CQ_NEXT_COMP);
}

static void finish_lost(void)
{
	prove_check(records[FIRST].ret == -KFI_ENODEV, "the loss ends the call");
	close_all();
}

PROVE_SCENARIO(channel_loss, .rules = "O5 E1 V7", .tables = "12 17",
	       .says = "the device goes: the requested event is got, then -KFI_ENODEV",
	       .setup = setup_lose, .finish = finish_lost,
	       .threads = { { "getter", get_until_lost }, { "device", lose_device } });

static void setup_loss_of_two(void)
{
	open_domain();
	open_channel();
	bind_cq(0);
}

PROVE_SCENARIO(channel_loss_quiet, .rules = "O5 V7", .tables = "12 17",
	       .says = "the device goes without a request: the getter returns all the same",
	       .setup = setup_loss_of_two, .finish = finish_lost,
	       .threads = { { "getter", get_until_lost }, { "device", lose_device } });

/* Only the CQ that is left counts. */
static void setup_loss_of_both(void)
{
	setup_loss_of_two();
	bind_cq(1);
}

static void close_one(void)
{
	close_cq(0);
}

static void close_and_lose(void)
{
	close_one();
	lose_device();
}

PROVE_SCENARIO(channel_loss_after_close, .rules = "O5 V7 V8", .tables = "12 17",
	       .says = "a CQ of a channel is closed, then the device of the other one goes",
	       .setup = setup_loss_of_both, .finish = finish_lost,
	       .threads = { { "getter", get_until_lost }, { "owner", close_and_lose } });

PROVE_SCENARIO(channel_loss_beside_close, .rules = "O5 V7 V8", .tables = "12 17",
	       .says = "a CQ of a channel is closed as the device goes",
	       .setup = setup_loss_of_both, .finish = finish_lost,
	       .threads = { { "getter", get_until_lost }, { "closer", close_one },
			    { "device", lose_device } });

/* No lock is taken both by this call and by the loss. */
static void get_until_unplugged(void)
{
	prove_check(get_and_ack(FOREVER) == -KFI_ENODEV, "the loss ends the call");
	prove_check(unplugged, "the getter sees what came before the loss");
}

PROVE_SCENARIO(channel_loss_is_seen, .rules = "O5 V1", .tables = "12 17",
	       .says = "a getter that learns of the loss sees what came before it",
	       .setup = setup_loss_of_two, .finish = close_all,
	       .threads = { { "getter", get_until_unplugged }, { "device", unplug } });

static void setup_bind_loss(void)
{
	open_domain();
	open_channel();
	open_cq(0);
}

static void bind_and_get(void)
{
	struct kfid_cq *of;

	mine()->ret = kfi_cq_bind_channel(cq[0], channel);
	if (mine()->ret) {
		prove_check(mine()->ret == -KFI_ENODEV, "the binding is refused");
		return;
	}
	mine()->ret = kfi_get_cq_event(channel, &of, NULL, FOREVER);
	prove_check(mine()->ret == -KFI_ENODEV, "the loss ends the call");
}

PROVE_SCENARIO(channel_bind_loss, .rules = "O5 E1", .tables = "12",
	       .says = "a CQ is bound to a channel as the device goes",
	       .setup = setup_bind_loss, .finish = close_all,
	       .threads = { { "binder", bind_and_get }, { "device", lose_device } });

static void bind_late(void)
{
	mine()->ret = kfi_cq_bind_channel(cq[0], channel);
	prove_check(!mine()->ret || mine()->ret == -KFI_ENODEV, "it is bound, or refused");
	mine()->done = true;
}

/* Nothing was got of a CQ that has no channel, or a new one. */
static void ack_nothing_got(void)
{
	prove_check(kfi_ack_cq_events(cq[0], 1) == -KFI_EINVAL, "nothing was got");
	prove_check(!kfi_ack_cq_events(cq[0], 0), "an ack of nothing is none too many");
}

PROVE_SCENARIO(channel_ack_beside_bind, .rules = "E3", .tables = "19",
	       .says = "a CQ is bound as a thread acknowledges what it has not got",
	       .setup = setup_bind_loss, .finish = close_all,
	       .threads = { { "binds", bind_late }, { "acks", ack_nothing_got } });

/* The channel has no CQ when the getter comes; the one that it gets is lost. */
static void get_event_or_loss(void)
{
	struct kfid_cq *of;

	mine()->ret = kfi_get_cq_event(channel, &of, NULL, FOREVER);
	mine()->done = mine()->ret == -KFI_ENODEV;
}

static void finish_bound_late(void)
{
	prove_check(!records[FIRST].done == (records[SECOND].ret != 0),
		    "the getter returns if the channel has lost its only CQ");
	end_getters();
}

PROVE_SCENARIO(channel_bind_loss_getter, .rules = "O5 E1 V7", .tables = "12",
	       .says = "a getter sleeps as a channel gets its only CQ and the device goes",
	       .setup = setup_bind_loss, .finish = finish_bound_late,
	       .threads = { { "getter", get_event_or_loss, PROVE_STAYS },
			    { "binds", bind_late }, { "device", lose_device } });
