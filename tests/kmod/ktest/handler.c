// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Completion and event handlers: armed at open, called once when something
 * becomes readable, armed again by a read that finds nothing.
 *
 * That a handler was *not* called is known only at the end: closing its object
 * waits for a running one, and then the count is final.
 */
#include "ktest.h"

static int kt_called(struct kt *kt)
{
	return wait_for_completion_timeout(&kt->called, KT_DEADLINE) ?
	       0 : -ETIMEDOUT;
}

static void kt_count_comp(struct kfid_cq *cq, void *context)
{
	struct kt *kt = context;

	atomic_inc(&kt->calls);
	complete(&kt->called);
}

static void kt_count_event(struct kfid_eq *eq, void *context)
{
	kt_count_comp(NULL, context);
}

static int kt_inject(struct kt *kt, int n)
{
	return kt_command(kt, "inject %u recv %d", kt_ep_id(kt), n);
}

static ssize_t kt_read(struct kt *kt)
{
	struct kfi_cq_msg_entry entry;

	return kfi_cq_read(kt->cq, &entry, 1);
}

/* Two completions, one call; a read that finds one does not arm. */
static void kt_comp_handler_once(struct kt *kt)
{
	kt->comp_handler = kt_count_comp;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, kt_called(kt), 0);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, kt_read(kt), 1);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, kt_read(kt), 1);
	KT_EQ(kt, kt_read(kt), 1);
	kt_close_cq(kt);
	KT_EQ(kt, atomic_read(&kt->calls), 1);
}

/*
 * With handler_delay_us: armed twice before the call, which is one. The test that
 * runs this has made the delay longer than what is done here takes.
 */
static void kt_comp_handler_moderated(struct kt *kt)
{
	kt->comp_handler = kt_count_comp;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, kt_read(kt), 1);
	KT_EQ(kt, kt_read(kt), -KFI_EAGAIN);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, atomic_read(&kt->calls), 0);
	KT_EQ(kt, kt_called(kt), 0);
	kt_close_cq(kt);
	KT_EQ(kt, atomic_read(&kt->calls), 1);
}

/* With a handler_delay_us of minutes: closing does not wait for the call. */
static void kt_comp_handler_put_off(struct kt *kt)
{
	kt->comp_handler = kt_count_comp;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	kt_close_cq(kt);
	KT_EQ(kt, atomic_read(&kt->calls), 0);
}

/* The read that finds nothing arms: the next completion calls. */
static void kt_comp_handler_arms(struct kt *kt)
{
	kt->comp_handler = kt_count_comp;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, kt_called(kt), 0);
	KT_EQ(kt, kt_read(kt), 1);
	KT_EQ(kt, kt_read(kt), -KFI_EAGAIN);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, kt_called(kt), 0);
	kt_close_cq(kt);
	KT_EQ(kt, atomic_read(&kt->calls), 2);
}

/* An error is something to read, like an entry. */
static void kt_comp_handler_error(struct kt *kt)
{
	struct kfi_cq_err_entry err;

	kt->comp_handler = kt_count_comp;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	KT_EQ(kt, kt_command(kt, "inject %u recv err=5", kt_ep_id(kt)), 0);
	KT_EQ(kt, kt_called(kt), 0);
	KT_EQ(kt, kt_read(kt), -KFI_EAVAIL);
	KT_EQ(kt, kfi_cq_readerr(kt->cq, &err, 0), 1);
	KT_EQ(kt, err.err, KFI_EIO);
	KT_EQ(kt, kt_read(kt), -KFI_EAGAIN);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, kt_called(kt), 0);
}

/* So does a read of errors that finds nothing at all. */
static void kt_comp_handler_error_arms(struct kt *kt)
{
	struct kfi_cq_err_entry err;

	kt->comp_handler = kt_count_comp;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, kt_called(kt), 0);
	KT_EQ(kt, kfi_cq_readerr(kt->cq, &err, 0), -KFI_EAGAIN);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, kt_read(kt), 1);
	KT_EQ(kt, kt_read(kt), 1);
	KT_EQ(kt, kfi_cq_readerr(kt->cq, &err, 0), -KFI_EAGAIN);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, kt_called(kt), 0);
	kt_close_cq(kt);
	KT_EQ(kt, atomic_read(&kt->calls), 2);
}

#define KT_STORM	2000

/* Reads until empty, and tells when all have come. Must never run twice. */
static void kt_drain(struct kfid_cq *cq, void *context)
{
	struct kfi_cq_msg_entry entry[4];
	struct kt *kt = context;
	ssize_t n;

	if (atomic_inc_return(&kt->inside) != 1)
		atomic_inc(&kt->reentered);
	while ((n = kfi_cq_read(cq, entry, ARRAY_SIZE(entry))) > 0) {
		if (atomic_add_return(n, &kt->seen) == KT_STORM)
			complete(&kt->called);
	}
	if (n != -KFI_EAGAIN)
		kt->handler_err = n;
	atomic_dec(&kt->inside);
}

/*
 * Completions from softirq and work queue while the handler reads: what comes
 * between its last read and its return is in that read or calls it again. There
 * is room for all: how soon a handler runs is not what this is about.
 */
static void kt_comp_handler_storm(struct kt *kt)
{
	static const char * const contexts[] = {
		"softirq", "workqueue", "process",
	};
	int i, err;

	kt->comp_handler = kt_drain;
	kt->cq_size = KT_STORM;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	for (i = 0; i < KT_STORM / 4; i++)
		KT_EQ(kt, kt_command(kt, "inject %u recv 4 context=%s",
				     kt_ep_id(kt), contexts[i % 3]), 0);
	err = kt_called(kt);
	kt_close_cq(kt);
	KT_EQ(kt, kt->handler_err, 0);
	KT_EQ(kt, atomic_read(&kt->seen), KT_STORM);
	KT_EQ(kt, atomic_read(&kt->reentered), 0);
	KT_EQ(kt, err, 0);
}

static int kt_event(struct kt *kt)
{
	return kt_command(kt, "event %u 0 data=7", kfi_fid_id(&kt->eq->fid));
}

static ssize_t kt_read_event(struct kt *kt)
{
	struct kfi_eq_entry entry;
	u32 event;

	return kfi_eq_read(kt->eq, &event, &entry, sizeof(entry), 0);
}

static void kt_event_handler_arms(struct kt *kt)
{
	struct kfi_eq_err_entry err;

	kt->event_handler = kt_count_event;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	KT_EQ(kt, kt_event(kt), 0);
	KT_EQ(kt, kt_called(kt), 0);
	KT_EQ(kt, kt_event(kt), 0);
	KT_EQ(kt, kt_read_event(kt), sizeof(struct kfi_eq_entry));
	KT_EQ(kt, kt_read_event(kt), sizeof(struct kfi_eq_entry));
	KT_EQ(kt, kt_read_event(kt), -KFI_EAGAIN);
	KT_EQ(kt, kt_command(kt, "eqerr %u err=5", kfi_fid_id(&kt->eq->fid)), 0);
	KT_EQ(kt, kt_called(kt), 0);
	KT_EQ(kt, kt_read_event(kt), -KFI_EAVAIL);
	KT_EQ(kt, kfi_eq_readerr(kt->eq, &err, 0), sizeof(err));
	KT_EQ(kt, atomic_read(&kt->calls), 2);
}

/* A read of errors that finds no event arms, too; one that finds another event does not. */
static void kt_event_handler_error_arms(struct kt *kt)
{
	struct kfi_eq_err_entry err;

	kt->event_handler = kt_count_event;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	KT_EQ(kt, kt_event(kt), 0);
	KT_EQ(kt, kt_called(kt), 0);
	KT_EQ(kt, kfi_eq_readerr(kt->eq, &err, 0), -KFI_EAGAIN);
	KT_EQ(kt, kt_event(kt), 0);
	KT_EQ(kt, kt_read_event(kt), sizeof(struct kfi_eq_entry));
	KT_EQ(kt, kt_read_event(kt), sizeof(struct kfi_eq_entry));
	KT_EQ(kt, atomic_read(&kt->calls), 1);
	KT_EQ(kt, kfi_eq_readerr(kt->eq, &err, 0), -KFI_EAGAIN);
	KT_EQ(kt, kt_event(kt), 0);
	KT_EQ(kt, kt_called(kt), 0);
	KT_EQ(kt, atomic_read(&kt->calls), 2);
}

/* Every call that does not block, from inside; the first surprise is kept. */
static int kt_call_all(struct kt *kt)
{
	struct kfi_cq_msg_entry entry;
	struct kfi_eq_entry event_entry;
	void *ready[1];
	u32 event;

	if (kfi_wait(kt->wait, 0) != 0)
		return 1;
	if (kfi_poll(kt->poll, ready, 1) != 1 || ready[0] != kt)
		return 2;
	if (kfi_cq_read(kt->cq, &entry, 1) != 1)
		return 3;
	if (kfi_cq_read(kt->cq, &entry, 1) != -KFI_EAGAIN)
		return 4;
	if (kfi_cq_signal(kt->cq))
		return 5;
	if (kfi_cntr_read(kt->cntr) != 1 || kfi_cntr_add(kt->cntr, 1) ||
	    kfi_cntr_set(kt->cntr, 0) || kfi_cntr_readerr(kt->cntr))
		return 6;
	if (kfi_eq_read(kt->eq, &event, &event_entry, sizeof(event_entry), 0) !=
	    -KFI_EAGAIN)
		return 7;
	if (kfi_recv(kt->ep, NULL, 0, NULL, KFI_ADDR_UNSPEC, kt) ||
	    kfi_cancel(&kt->ep->fid, kt) || kfi_inject(kt->ep, NULL, 0, 0))
		return 8;
	if (kfi_wait(kt->wait, 0) != 0)
		return 9;	/* the cancelled receive is in the CQ */
	return 0;
}

static void kt_call_all_once(struct kfid_cq *cq, void *context)
{
	struct kt *kt = context;

	if (atomic_inc_return(&kt->calls) != 1)
		return;
	kt->handler_err = kt_call_all(kt);
	complete(&kt->called);
}

static void kt_handler_may_call(struct kt *kt)
{
	struct kfi_poll_attr attr = { };

	kt->comp_handler = kt_call_all_once;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kfi_poll_open(kt->domain, &attr, &kt->poll), 0);
	KT_EQ(kt, kfi_poll_add(kt->poll, &kt->cq->fid, 0), 0);
	KT_EQ(kt, kt_inject(kt, 1), 0);
	KT_EQ(kt, kt_called(kt), 0);
	KT_EQ(kt, kt->handler_err, 0);
	KT_EQ(kt, kfi_poll_del(kt->poll, &kt->cq->fid, 0), 0);
}

static void kt_close_own(struct kfid_eq *eq, void *context)
{
	struct kt *kt = context;

	kt->handler_err = kfi_close(&eq->fid);
	complete(&kt->called);
}

/* It would wait for itself. */
static void kt_close_in_handler(struct kt *kt)
{
	kt->event_handler = kt_close_own;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	KT_EQ(kt, kt_event(kt), 0);
	KT_EQ(kt, kt_called(kt), 0);
	KT_EQ(kt, kt->handler_err, -KFI_EBUSY);
	KT_EQ(kt, kt_read_event(kt), sizeof(struct kfi_eq_entry));
}

/* Reads all, errors included, and says that it was there. */
static void kt_drain_any(struct kfid_cq *cq, void *context)
{
	struct kfi_cq_msg_entry entry;
	struct kfi_cq_err_entry err;
	ssize_t n;

	do {
		n = kfi_cq_read(cq, &entry, 1);
		if (n == -KFI_EAVAIL)
			n = kfi_cq_readerr(cq, &err, 0);
	} while (n > 0);
	kt_count_comp(cq, context);
}

/* Whatever reports something calls the handler, time after time. */
static void kt_comp_handler_producers(struct kt *kt)
{
	static const char * const producers[] = {
		"inject %u recv", "inject %u send", "inject %u read",
		"inject %u write", "inject %u remote_write data=7",
		"inject %u recv err=5", "inject %u send err=125",
		"inject %u recv context=softirq",
		"inject %u recv err=5 context=workqueue",
	};
	int i;

	kt->comp_handler = kt_drain_any;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	for (i = 0; i < ARRAY_SIZE(producers); i++) {
		KT_EQ(kt, kt_command(kt, producers[i], kt_ep_id(kt)), 0);
		KT_EQ(kt, kt_called(kt), 0);
		KT_EQ(kt, atomic_read(&kt->calls), i + 1);
	}
}

/* The device's last entry calls it, too. */
static void kt_comp_handler_loss(struct kt *kt)
{
	kt->comp_handler = kt_drain_any;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_NONE), 0);
	KT_EQ(kt, kt_command(kt, "lose %u", kfi_fid_id(&kt->domain->fid)), 0);
	KT_EQ(kt, kt_called(kt), 0);
}

const struct kt_case kt_handler_cases[] = {
	{ "comp_handler_once", kt_comp_handler_once },
	{ "comp_handler_moderated", kt_comp_handler_moderated },
	{ "comp_handler_put_off", kt_comp_handler_put_off },
	{ "comp_handler_arms", kt_comp_handler_arms },
	{ "comp_handler_error", kt_comp_handler_error },
	{ "comp_handler_error_arms", kt_comp_handler_error_arms },
	{ "comp_handler_storm", kt_comp_handler_storm },
	{ "comp_handler_producers", kt_comp_handler_producers },
	{ "comp_handler_loss", kt_comp_handler_loss },
	{ "event_handler_arms", kt_event_handler_arms },
	{ "event_handler_error_arms", kt_event_handler_error_arms },
	{ "handler_may_call", kt_handler_may_call },
	{ "close_in_handler", kt_close_in_handler },
	{ }
};
