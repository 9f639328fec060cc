// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Manual progress: the provider keeps its reports until a read, a poll or a work item
 * asks for them. A thread that sleeps gets them by the work item.
 */
#include "support.h"

enum { FIRST, SECOND };

static DEFINE_SPINLOCK(reports_lock);
static unsigned int pending;		/* reports that were not made; reports_lock */
static unsigned int made;		/* number of the last report; reports_lock */

/* Makes the reports in their order: the lock is held over them. */
static void make_reports(struct kfi_domain_base *base)
{
	unsigned long flags;

	spin_lock_irqsave(&reports_lock, flags);
	for (; pending; pending--)
		complete_op(0, entry_number(SECOND, ++made), 0);
	spin_unlock_irqrestore(&reports_lock, flags);
}

static void queue_report(void)
{
	unsigned long flags;

	spin_lock_irqsave(&reports_lock, flags);
	pending++;
	spin_unlock_irqrestore(&reports_lock, flags);
	kfi_domain_pending(domain);
}

static bool report_is_left(void)
{
	return pending || kfi_cq_source(cq[0])->ready;
}

static void setup_domain(void)
{
	open_domain();
	domain->progress = make_reports;
	prove_ready(report_is_left);
}

static void setup_cq(void)
{
	setup_domain();
	open_cq(0);
}

static void queue_one(void)
{
	queue_report();
}

static void queue_two(void)
{
	queue_report();
	queue_report();
}

static void finish_one(void)
{
	prove_check(records[FIRST].n == 1, "the reader gets the entry");
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(progress_sread, .rules = "W2 Q7", .tables = "16",
	       .says = "a sleeping reader gets a report that the provider has kept",
	       .setup = setup_cq, .finish = finish_one,
	       .threads = { { "reader", read_one }, { "provider", queue_one } });

static void read_two(void)
{
	read_one();
	read_one();
}

static void finish_two(void)
{
	prove_check(records[FIRST].n == 2, "the reader gets both entries");
	check_entries(SECOND, 2);
	close_all();
}

PROVE_SCENARIO(progress_sread_twice, .rules = "W2", .tables = "16",
	       .says = "two reports for a reader that sleeps twice",
	       .setup = setup_cq, .finish = finish_two,
	       .threads = { { "reader", read_two }, { "provider", queue_two } });

static void setup_set(void)
{
	setup_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_cq(0);
}

PROVE_SCENARIO(progress_set, .rules = "W2", .tables = "16",
	       .says = "a thread asleep in a wait set gets a report that was kept",
	       .setup = setup_set, .finish = finish_one,
	       .threads = { { "waiter", wait_and_read }, { "provider", queue_one } });

/* The set is polled until the member is there; the poll makes the progress. */
static struct kfid_poll *pollset;

static void setup_poll(void)
{
	open_domain();
	domain->progress = make_reports;
	open_waitless_cq(0);
	prove_check(!kfi_core_poll_open(&domain->domain, NULL, &pollset), "the set opens");
	prove_check(!kfi_poll_add(pollset, &cq[0]->fid, 0), "the member is added");
}

static void poll_once(void)
{
	void *context[1];

	mine()->ret = kfi_poll(pollset, context, 1);
}

static void finish_poll(void)
{
	void *context[1];

	prove_check(kfi_poll(pollset, context, 1) == 1, "a poll makes progress");
	prove_check(read_rest(0) == 1, "the report is made once");
	kfi_poll_del(pollset, &cq[0]->fid, 0);
	must_close(&pollset->fid);
	close_all();
}

PROVE_SCENARIO(progress_poll, .rules = "P4 Q7", .tables = "16 9",
	       .says = "a poll makes the report where no thread can sleep",
	       .setup = setup_poll, .finish = finish_poll,
	       .threads = { { "poller", poll_once }, { "provider", queue_one } });

/* A CQ without a wait object: its threads sleep in the channel. */
static void setup_channel(void)
{
	setup_domain();
	open_waitless_cq(0);
	open_channel();
	prove_check(!kfi_cq_bind_channel(cq[0], channel), "the CQ is bound");
	prove_check(!kfi_req_notify(cq[0], KFI_CQ_NEXT_COMP), "the request is made");
}

static void get_event(void)
{
	struct kfid_cq *of;

	mine()->ret = kfi_get_cq_event(channel, &of, NULL, FOREVER);
	kfi_ack_cq_events(of, 1);
}

static void finish_event(void)
{
	prove_check(!records[FIRST].ret, "the getter gets the event");
	prove_check(read_rest(0) == 1, "the entry is there");
	close_all();
}

PROVE_SCENARIO(progress_channel, .rules = "W2 E1", .tables = "16 17",
	       .says = "a thread asleep in a channel gets the event of a report that was kept",
	       .setup = setup_channel, .finish = finish_event,
	       .threads = { { "getter", get_event }, { "provider", queue_one } });

/* The domain is closed while the work item may run. */
static void queue_and_close(void)
{
	queue_report();
	close_cq(0);
	must_close(&domain->domain.fid);
	domain = NULL;
}

static void make_no_reports(struct kfi_domain_base *base)
{
	prove_check(base->domain.fid.fclass == KFI_CLASS_DOMAIN, "the domain is there");
}

static void setup_close(void)
{
	open_domain();
	domain->progress = make_no_reports;
	open_cq(0);
}

PROVE_SCENARIO(progress_close, .rules = "O1 V8", .tables = "16 11",
	       .says = "a domain is closed while its work item may run",
	       .setup = setup_close, .finish = close_all,
	       .threads = { { "provider", queue_and_close } });

/* A close that is refused leaves the work item alone. */
static void try_to_close_domain(void)
{
	prove_check(kfi_close(&domain->domain.fid) == -KFI_EBUSY, "a domain in use stays");
}

PROVE_SCENARIO(progress_close_refused, .rules = "V8 O1 W2", .tables = "16 11",
	       .says = "the close of a domain is refused while a report is kept for a reader",
	       .setup = setup_cq, .finish = finish_one,
	       .threads = { { "reader", read_one }, { "provider", queue_one },
			    { "closer", try_to_close_domain } });
