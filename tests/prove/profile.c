// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Profiles: threads that wait for kept events, callbacks, the loss of the device and the
 * close beside them; and counts that are added up while objects close.
 */
#include "support.h"

#define EVENT	KFI_EVENT_UNEXP_MSG_RECVD

enum { FIRST, SECOND, THIRD };	/* threads, in the order of their scenario */

static struct kfid_profile *prof[2];
static spinlock_t lock;		/* the provider's profile_lock */
static bool silent;		/* no callback may run any more */
static int close_ret;
static struct kfi_counts sum;	/* what a thread has added up */

static size_t read_var(struct kfi_ep_base *base, u32 id, void *buf, size_t size)
{
	const u64 unexp = 3;

	memcpy(buf, &unexp, min(size, sizeof(unexp)));
	return sizeof(unexp);
}

static const struct kfi_profile_ops ops = {
	.vars = kfi_unexp_vars,
	.nvars = ARRAY_SIZE(kfi_unexp_vars),
	.events = kfi_unexp_events,
	.nevents = ARRAY_SIZE(kfi_unexp_events),
	.read = read_var,
};

/* As a provider does before it gives the endpoint to the ULP. */
static void begin_ep(void)
{
	open_ep();
	spin_lock_init(&lock);
	kfi_ep_base_profile(ep, &ops, &lock);
}

static void open_profile(int i, struct kfid *target)
{
	prove_check(!kfi_profile_open(target, 0, &prof[i], NULL), "the profile opens");
}

static void keep_events(int i)
{
	open_profile(i, &ep->ep.fid);
	prove_check(!kfi_profile_keep(prof[i], EVENT, true), "the event is kept");
}

static void close_profiles(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(prof); i++)
		if (prof[i])
			must_close(&prof[i]->fid);
}

static void finish(void)
{
	close_profiles();
	close_all();
}

/* What a provider does when an unexpected message has come. */
static void report_event(void)
{
	unsigned long flags;

	spin_lock_irqsave(&lock, flags);
	kfi_profile_event(ep, EVENT, NULL, 0);
	spin_unlock_irqrestore(&lock, flags);
}

/* --- Threads that wait for kept events --- */

/* One attempt to take one event. */
static ssize_t take_event(void *arg)
{
	struct kfi_profile_record record;
	u64 dropped;

	if (!kfi_profile_peek(arg, &record, 1, &dropped))
		return -KFI_EAGAIN;
	kfi_profile_consume(arg, 1);
	mine()->n++;
	return 1;
}

static void take_in_time(int i, ktime_t deadline)
{
	const unsigned int before = mine()->n;

	mine()->ret = kfi_profile_wait_take(prof[i], deadline, take_event, prof[i]);
	prove_check((mine()->ret == 1) == (mine()->n > before),
		    "the event that is taken is returned");
	mine()->done = true;
}

static void take_first(void)
{
	take_in_time(FIRST, KFI_DEADLINE_NONE);
}

static void take_second(void)
{
	take_in_time(SECOND, KFI_DEADLINE_NONE);
}

static bool event_is_ready(void)
{
	struct kfi_profile_record record;
	u64 dropped;

	return prof[0] && kfi_profile_peek(prof[0], &record, 1, &dropped);
}

static void setup_event(void)
{
	open_domain();
	begin_ep();
	keep_events(FIRST);
	prove_ready(event_is_ready);
}

static void finish_one_event(void)
{
	prove_check(records[FIRST].ret == 1 && records[FIRST].n == 1,
		    "the reader gets the event");
	finish();
}

PROVE_SCENARIO(profile_event, .rules = "F6 W2 V1 V2", .tables = "1",
	       .says = "one thread sleeps for an event of a profile, one comes",
	       .setup = setup_event, .finish = finish_one_event,
	       .threads = { { "reader", take_first }, { "provider", report_event } });

PROVE_SCENARIO(profile_event_irq, .rules = "F6 W10 W2", .tables = "1",
	       .says = "an interrupt reports an event of a profile to a sleeping reader",
	       .setup = setup_event, .finish = finish_one_event,
	       .threads = { { "reader", take_first },
			    { "provider", report_event, PROVE_IRQ } });

static void take_two(void)
{
	take_first();
	take_first();
}

static void report_two(void)
{
	report_event();
	report_event();
}

static void finish_two_events(void)
{
	prove_check(records[FIRST].n == 2, "the reader gets both events");
	finish();
}

PROVE_SCENARIO(profile_two_events, .rules = "F6 W2 V1",
	       .says = "a reader takes two events of a profile, one after the other",
	       .setup = setup_event, .finish = finish_two_events,
	       .threads = { { "reader", take_two }, { "provider", report_two } });

static void setup_two_profiles(void)
{
	setup_event();
	keep_events(SECOND);
}

static void finish_two_profiles(void)
{
	prove_check(records[FIRST].n == 1 && records[SECOND].n == 1,
		    "the reader of each profile gets the event");
	finish();
}

PROVE_SCENARIO(profile_each, .rules = "F1 F6 W2",
	       .says = "two profiles of an endpoint have a reader each, one event comes",
	       .setup = setup_two_profiles, .finish = finish_two_profiles,
	       .threads = { { "reader 1", take_first }, { "reader 2", take_second },
			    { "provider", report_event } });

/* The descriptor would be readable for ever if reading did not end that. */
static void take_then_time_out(void)
{
	struct record *r = mine();

	take_in_time(FIRST, KFI_DEADLINE_NONE);
	prove_check(r->ret == 1, "the event is taken");
	take_in_time(FIRST, ktime_add_ms(ktime_get(), SOME_TIME));
	prove_check(r->ret == -KFI_ETIMEDOUT, "no second event comes");
}

PROVE_SCENARIO(profile_deadline, .rules = "F6 W8 W4",
	       .says = "a reader has taken the only event and waits again, in time",
	       .setup = setup_event, .finish = finish,
	       .threads = { { "reader", take_then_time_out },
			    { "provider", report_event } });

/* --- The loss of the device --- */

static void report_then_lose(void)
{
	report_event();
	lose_device();
}

static void take_until_lost(void)
{
	while (mine()->ret >= 0)
		take_first();
}

static void finish_lost(void)
{
	prove_check(records[FIRST].ret == -KFI_ENODEV, "the reader learns of the loss");
	prove_check(records[FIRST].n == 1, "the event comes before the loss");
	finish();
}

PROVE_SCENARIO(profile_loss, .rules = "F6 O5 W7",
	       .says = "an event comes, then the device is gone; the reader gets both",
	       .setup = setup_event, .finish = finish_lost,
	       .threads = { { "reader", take_until_lost },
			    { "provider", report_then_lose } });

static void take_until_unplugged(void)
{
	take_first();
	prove_check(mine()->ret == -KFI_ENODEV, "the loss ends the call");
	prove_check(unplugged, "the reader sees what came before the loss");
}

PROVE_SCENARIO(profile_loss_is_seen, .rules = "F6 O5 V1",
	       .says = "a reader of events that learns of the loss sees what came before it",
	       .setup = setup_event, .finish = finish,
	       .threads = { { "reader", take_until_unplugged }, { "device", unplug } });

static void open_and_take(void)
{
	keep_events(FIRST);
	take_first();
}

static void setup_ep(void)
{
	open_domain();
	begin_ep();
}

static void finish_opened_late(void)
{
	prove_check(records[FIRST].ret == -KFI_ENODEV,
		    "a profile that opens beside the loss ends its waits");
	finish();
}

PROVE_SCENARIO(profile_open_loss, .rules = "F6 O5",
	       .says = "a profile opens and is waited for while the device goes",
	       .setup = setup_ep, .finish = finish_opened_late,
	       .threads = { { "reader", open_and_take }, { "loss", lose_device } });

PROVE_SCENARIO(profile_ep_loss, .rules = "O5 F6",
	       .says = "an endpoint gets its profile_ops while the device goes",
	       .setup = open_domain, .finish = finish,
	       .threads = { { "provider", begin_ep }, { "loss", lose_device } });

/* --- Close --- */

static void close_first(void)
{
	close_ret = kfi_close(&prof[FIRST]->fid);
	silent = !close_ret;
	if (!close_ret)
		prof[FIRST] = NULL;
}

static int called(struct kfid_profile *profile, const struct kfi_profile_desc *event,
		  const void *data, size_t size, void *context)
{
	struct kfi_profile_desc vars[1];
	size_t count = ARRAY_SIZE(vars);

	prove_check(!silent, "no callback runs after it was given up");
	prove_check(kfi_profile_query_vars(profile, vars, &count) == -KFI_EBUSY,
		    "a callback may not query");
	return 0;
}

static void setup_callback(void)
{
	setup_ep();
	open_profile(FIRST, &ep->ep.fid);
	prove_check(!kfi_profile_register_callback(prof[FIRST], EVENT, called, NULL),
		    "the callback is registered");
}

static void finish_close(void)
{
	prove_check(!close_ret, "nothing uses the profile");
	finish();
}

PROVE_SCENARIO(profile_callback_close, .rules = "F6 O1",
	       .says = "a profile with a callback is closed while its event comes",
	       .setup = setup_callback, .finish = finish_close,
	       .threads = { { "closer", close_first }, { "provider", report_event } });

static void give_up_callback(void)
{
	prove_check(!kfi_profile_register_callback(prof[FIRST], EVENT, NULL, NULL),
		    "the callback is given up");
	spin_lock_irq(&lock);
	silent = true;
	spin_unlock_irq(&lock);
}

static void report_twice(void)
{
	report_event();
	report_event();
}

PROVE_SCENARIO(profile_callback_null, .rules = "F6",
	       .says = "a callback is given up while events come",
	       .setup = setup_callback, .finish = finish,
	       .threads = { { "ulp", give_up_callback }, { "provider", report_twice } });

static void setup_pinned(void)
{
	open_domain();
	open_cq(0);
	open_profile(FIRST, &cq[0]->fid);
}

static void close_target(void)
{
	close_ret = kfi_close(&cq[0]->fid);
	if (!close_ret)
		cq[0] = NULL;
}

static void close_profile(void)
{
	must_close(&prof[FIRST]->fid);
	prof[FIRST] = NULL;
}

static void finish_pinned(void)
{
	prove_check(!close_ret || close_ret == -KFI_EBUSY, "the close says why not");
	finish();
}

PROVE_SCENARIO(profile_target, .rules = "F1 O1 B58",
	       .says = "a profiled CQ is closed while its profile is",
	       .setup = setup_pinned, .finish = finish_pinned,
	       .threads = { { "profiler", close_profile },
			    { "closer", close_target } });

/* --- Sums --- */

static void setup_counted(void)
{
	open_domain();
	open_cq(0);
	open_cq(1);
	publish(0, 1);
	publish(1, 1);
}

static void add_up(void)
{
	prove_check(!kfi_fid_counts(&domain->domain.fid, &sum), "a domain has counts");
}

static void close_second_cq(void)
{
	close_cq(1);
}

static void finish_added_up(void)
{
	prove_check(sum.signals == 2, "the sum has each publication once");
	add_up();
	prove_check(sum.signals == 2, "the domain keeps the counts of what has left");
	finish();
}

PROVE_SCENARIO(sum_beside_close, .rules = "F4 O1",
	       .says = "the counts of a domain are added up while one of its CQs closes",
	       .setup = setup_counted, .finish = finish_added_up,
	       .threads = { { "sum", add_up }, { "closer", close_second_cq } });

static void reset_domain(void)
{
	kfi_fid_counts_reset(&domain->domain.fid);
}

static void finish_reset(void)
{
	add_up();
	prove_check(!sum.signals, "nothing that was counted before the reset is left");
	finish();
}

PROVE_SCENARIO(reset_beside_close, .rules = "F4 O1",
	       .says = "the counts of a domain are set to 0 while one of its CQs closes",
	       .setup = setup_counted, .finish = finish_reset,
	       .threads = { { "reset", reset_domain }, { "closer", close_second_cq } });

PROVE_SCENARIO(sum_beside_ep, .rules = "F4 F7",
	       .says = "the counts of a domain are added up while an endpoint begins",
	       .setup = open_domain, .finish = finish,
	       .threads = { { "sum", add_up }, { "provider", begin_ep } });

static void complete_one(int err)
{
	const struct kfi_completion comp = {
		.context = (void *)1ul, .flags = KFI_RECV, .err = err,
	};

	kfi_ep_complete(ep, &comp, true);
}

static void fail_operation(void)
{
	complete_one(KFI_EIO);
}

static void look_at_ep(void)
{
	prove_check(!kfi_fid_counts(&ep->ep.fid, &sum), "an endpoint has counts");
	prove_check(sum.errors <= sum.completions, "an error is a completion, too");
}

PROVE_SCENARIO(counts_of_ep, .rules = "F4 F3",
	       .says = "an endpoint's counts are read while its operations fail",
	       .setup = setup_ep, .finish = finish,
	       .threads = { { "looker", look_at_ep }, { "provider 1", fail_operation },
			    { "provider 2", fail_operation } });

/* The publication on the CQ orders the counts of one operation before those of the next. */
static void setup_bound_ep(void)
{
	setup_ep();
	open_cq(0);
	prove_check(!kfi_ep_base_bind(ep, &cq[0]->fid, KFI_RECV), "the CQ is bound");
}

static void fail_two_operations(void)
{
	fail_operation();
	fail_operation();
}

static void look_at_one_instant(void)
{
	look_at_ep();
	prove_check(sum.completions <= sum.errors + 1,
		    "at most one failed operation is counted by half");
}

PROVE_SCENARIO(counts_of_one_instant, .rules = "F4 F3",
	       .says = "an endpoint's counts are read while two operations fail in turn",
	       .setup = setup_bound_ep, .finish = finish,
	       .threads = { { "looker", look_at_one_instant },
			    { "provider", fail_two_operations } });

static void complete_and_close(void)
{
	complete_one(0);
	must_close(&ep->ep.fid);
	ep = NULL;
}

static void finish_past(void)
{
	prove_check(sum.completions <= 1, "a completion is counted once");
	add_up();
	prove_check(sum.completions == 1, "the domain keeps the counts of what has left");
	finish();
}

PROVE_SCENARIO(sum_beside_ep_close, .rules = "F4 F7",
	       .says = "the counts of a domain are added up while an endpoint closes",
	       .setup = setup_ep, .finish = finish_past,
	       .threads = { { "sum", add_up }, { "ep", complete_and_close } });

/* --- Reads of one instant --- */

static void setup_unread(void)
{
	open_domain();
	begin_ep();
	open_profile(0, &ep->ep.fid);
}

static void start_reads(void)
{
	mine()->ret = kfi_profile_start_reads(prof[0], 0);
	prove_check(!mine()->ret || mine()->ret == -KFI_EBUSY || mine()->ret == -KFI_ENOMEM,
		    "the reads begin, have begun, or there is no memory");
}

static void start_and_end_reads(void)
{
	start_reads();
	prove_check(!kfi_profile_end_reads(prof[0], 0), "the reads end");
}

static void read_value(void)
{
	u64 value = 0;

	prove_check(!kfi_profile_read_u64(prof[0], kfi_unexp_vars[0].id, &value),
		    "the value is read");
	prove_check(value == 3, "now or then, the value is the same");
}

static void finish_started(void)
{
	const bool started = !records[FIRST].ret || !records[SECOND].ret;

	prove_check(records[FIRST].ret || records[SECOND].ret, "reads begin once");
	prove_check(kfi_profile_end_reads(prof[0], 0) == (started ? 0 : -KFI_EINVAL),
		    "what has begun ends");
	finish();
}

PROVE_SCENARIO(profile_reads, .rules = "F1",
	       .says = "reads of one instant begin and end beside a read of the same profile",
	       .setup = setup_unread, .finish = finish,
	       .threads = { { "owner", start_and_end_reads }, { "reader", read_value } });

/* A profile that is closed ends its reads. */
PROVE_SCENARIO(profile_reads_unended, .rules = "F1 O1",
	       .says = "a profile is closed whose reads of one instant have not ended",
	       .setup = setup_unread, .finish = finish,
	       .threads = { { "owner", start_reads }, { "reader", read_value } });

PROVE_SCENARIO(memory_profile_reads, .rules = "X4 F1", .fails = 2,
	       .says = "two threads begin reads of one instant, with and without memory",
	       .setup = setup_unread, .finish = finish_started,
	       .threads = { { "owner 1", start_reads }, { "owner 2", start_reads } });

/* --- Memory --- */

/* The first event that is kept allocates the ring, for all threads. */
static void keep_event(void)
{
	mine()->ret = kfi_profile_keep(prof[0], EVENT, true);
	prove_check(!mine()->ret || mine()->ret == -KFI_ENOMEM,
		    "the event is kept, or there is no memory");
}

static void finish_kept(void)
{
	const bool kept = !records[FIRST].ret || !records[SECOND].ret;
	struct kfi_profile_record got;
	u64 dropped;

	report_event();
	prove_check(kfi_profile_peek(prof[0], &got, 1, &dropped) == kept,
		    "an event that is kept is there");
	finish();
}

PROVE_SCENARIO(memory_profile_keep, .rules = "X4", .fails = 1,
	       .says = "two threads have the same event kept, with and without memory",
	       .setup = setup_unread, .finish = finish_kept,
	       .threads = { { "owner 1", keep_event }, { "owner 2", keep_event } });
