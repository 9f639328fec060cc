// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Closing: an object in use stays, a refused close changes nothing, and neither a waker
 * nor a waiter touches memory that a close has freed.
 */
#include "support.h"

enum { FIRST, SECOND, THIRD };

static void signal_cq(void)
{
	kfi_cq_signal(cq[0]);
}

/* A close beside a reader: it is refused while the reader sleeps. */
static void try_close(void)
{
	mine()->ret = kfi_close(&cq[0]->fid);
	mine()->done = true;
}

/* Holds the object as a binding would, so that only the reader's own use is in question. */
static void read_while_bound(void)
{
	sread_cq(0, 1, 1, FOREVER);
	kfi_fid_put(&cq[0]->fid);
}

static void setup_bound(void)
{
	setup_one_cq();
	kfi_fid_get(&cq[0]->fid);
}

static void finish_refused(void)
{
	prove_check(records[THIRD].done, "the close has returned");
	if (records[THIRD].ret) {
		prove_check(records[THIRD].ret == -KFI_EBUSY, "a CQ in use stays");
		must_close(&cq[0]->fid);
	}
	prove_check(records[FIRST].n == 1, "a refused close changes nothing");
	cq[0] = NULL;
	close_all();
}

/* The publisher returns before the reader drops the binding: it reports first. */
static bool published;

static void publish_noting(void)
{
	publish(0, 1);
	WRITE_ONCE(published, true);
}

static void close_when_published(void)
{
	mine()->done = true;
	mine()->ret = READ_ONCE(published) ? kfi_close(&cq[0]->fid) : -KFI_EBUSY;
}

PROVE_SCENARIO(close_beside_reader, .rules = "O1 V8", .tables = "11",
	       .says = "a close is refused while a reader uses the CQ",
	       .setup = setup_bound, .finish = finish_refused,
	       .threads = { { "reader", read_while_bound },
			    { "publisher", publish_noting },
			    { "closer", close_when_published } });

/*
 * A signaller that came first has ended nothing: then the sleeper is ended at last. It
 * must not take that for the call, nor close what finish() still reads.
 */
static bool at_last;

/* The thread that a kfi_cq_signal() ends closes the CQ before the call has returned. */
static void read_and_close(void)
{
	if (sread_cq(0, 1, 1, FOREVER) != -KFI_EAGAIN)
		return;
	prove_check(!at_last, "kfi_cq_signal() ends the sleeper");
	mine()->done = true;
	close_cq(0);
}

static void finish_closed(void)
{
	if (cq[0]) {
		prove_check(!records[FIRST].done, "the close returns");
		at_last = true;
		end_sleepers(kfi_cq_source(cq[0])->queue);
	}
	close_all();
}

PROVE_SCENARIO(close_beside_signal, .rules = "V8 O1 Q5", .tables = "11 8",
	       .says = "a reader that kfi_cq_signal() ends closes the CQ at once",
	       .setup = setup_one_cq, .finish = finish_closed,
	       .threads = { { "reader", read_and_close, PROVE_STAYS },
			    { "signaller", signal_cq } });

/* The same on the queue of a wait set: the set and its member go at once. */
static void wait_and_close(void)
{
	if (kfi_wait(set, FOREVER))
		return;
	prove_check(!at_last, "kfi_cq_signal() ends the waiter");
	mine()->done = true;
	close_cq(0);
	must_close(&set->kfid);
	set = NULL;
}

PROVE_SCENARIO(close_set_beside_signal, .rules = "V8 O1 Q5", .tables = "11 8",
	       .says = "a waiter that kfi_cq_signal() ends closes the member and the set",
	       .setup = setup_one_member, .finish = finish_closed,
	       .threads = { { "waiter", wait_and_close, PROVE_STAYS },
			    { "signaller", signal_cq } });

static void setup_cntr_set(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_cntr();
}

static void wait_and_close_cntr(void)
{
	if (kfi_wait(set, FOREVER))
		return;
	must_close(&cntr->fid);
	cntr = NULL;
	must_close(&set->kfid);
	set = NULL;
}

static void add_error(void)
{
	kfi_cntr_adderr(cntr, 1);
}

static void finish_cntr_closed(void)
{
	prove_check(!cntr && !set, "the counter and the set are closed");
	close_all();
}

PROVE_SCENARIO(close_set_beside_adderr, .rules = "V8 O1", .tables = "11",
	       .says = "a waiter that kfi_cntr_adderr() ends closes the counter and the set",
	       .setup = setup_cntr_set, .finish = finish_cntr_closed,
	       .threads = { { "waiter", wait_and_close_cntr }, { "adder", add_error } });

/* Two threads of one wait set: the first one that returns cannot close under the other. */
static void wait_and_try_to_close(void)
{
	int ret;

	mine()->ret = kfi_wait(set, FOREVER);
	ret = kfi_close(&set->kfid);
	prove_check(ret == -KFI_EBUSY, "a set with a member stays");
}

static void finish_set(void)
{
	prove_check(!records[FIRST].ret && !records[SECOND].ret, "both waits return 0");
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(close_set_refused_two, .rules = "O1 V8", .tables = "11",
	       .says = "two waiters try to close the set that they wait in",
	       .setup = setup_one_member, .finish = finish_set,
	       .threads = { { "waiter 1", wait_and_try_to_close },
			    { "waiter 2", wait_and_try_to_close },
			    { "publisher", publish_one } });

/* An endpoint keeps its CQ until its own close, which may be that of another thread. */
static void setup_ep(void)
{
	setup_one_cq();
	open_ep();
	prove_check(!kfi_ep_base_bind(ep, &cq[0]->fid, KFI_TRANSMIT | KFI_RECV),
		    "the CQ is bound");
}

static void complete_and_close_ep(void)
{
	const struct kfi_completion comp = {
		.context = (void *)entry_number(prove_self(), 1),
		.flags = KFI_RECV,
	};

	kfi_ep_complete(ep, &comp, true);
	must_close(&ep->ep.fid);
}

static void finish_bound(void)
{
	if (records[FIRST].ret) {
		prove_check(records[FIRST].ret == -KFI_EBUSY, "a bound CQ stays");
		read_rest(0);
		check_entries(SECOND, 1);
		must_close(&cq[0]->fid);
	}
	ep = NULL;
	cq[0] = NULL;
	close_all();
}

PROVE_SCENARIO(close_beside_endpoint, .rules = "O1 V8", .tables = "11",
	       .says = "a CQ is closed as its endpoint reports and is closed",
	       .setup = setup_ep, .finish = finish_bound,
	       .threads = { { "closer", try_close },
			    { "provider", complete_and_close_ep } });

/*
 * Parents that are closed as their last child is. The last that the close of a child does
 * with a parent is to drop its reference: after that the parent may be freed.
 */
#define FAMILY	3

static struct kfid_poll *pollset;
static struct kfid *child;
static struct kfid *parents[FAMILY];	/* in the order in which they close */

static void close_child(void)
{
	must_close(child);
}

static void try_to_close_parent(void)
{
	mine()->ret = kfi_close(parents[0]);
	prove_check(!mine()->ret || mine()->ret == -KFI_EBUSY,
		    "it closes, or it is in use");
}

/* The child is closed, so nothing keeps its parents. */
static void finish_family(void)
{
	unsigned int i;

	for (i = records[SECOND].ret ? 0 : 1; i < FAMILY && parents[i]; i++)
		must_close(parents[i]);
}

#define CHILD_AND_PARENT						\
	.finish = finish_family,					\
	.threads = { { "child", close_child },				\
		     { "parent", try_to_close_parent } }

static void setup_domain(void)
{
	open_domain();
	child = &domain->domain.fid;
	parents[0] = &fabric->fabric.fid;
}

PROVE_SCENARIO(close_fabric_beside_domain, .rules = "O1 V8", .tables = "11",
	       .says = "a fabric is closed as its domain is closed",
	       .setup = setup_domain, CHILD_AND_PARENT);

/* The fabric has no domain. */
static void setup_fabric(void)
{
	open_domain();
	must_close(&domain->domain.fid);
	parents[0] = &fabric->fabric.fid;
}

static void setup_fabric_eq(void)
{
	setup_fabric();
	open_eq(1);
	child = &eq->fid;
}

PROVE_SCENARIO(close_fabric_beside_eq, .rules = "O1 V8", .tables = "11",
	       .says = "a fabric is closed as its EQ is closed",
	       .setup = setup_fabric_eq, CHILD_AND_PARENT);

static void setup_fabric_set(void)
{
	setup_fabric();
	open_set(KFI_WAIT_UNSPEC);
	child = &set->kfid;
}

PROVE_SCENARIO(close_fabric_beside_set, .rules = "O1 V8", .tables = "11",
	       .says = "a fabric is closed as its wait set is closed",
	       .setup = setup_fabric_set, CHILD_AND_PARENT);

static void setup_fabric_channel(void)
{
	setup_fabric();
	open_channel();
	child = &channel->fid;
}

PROVE_SCENARIO(close_fabric_beside_channel, .rules = "O1 V8", .tables = "11 18",
	       .says = "a fabric is closed as its channel is closed",
	       .setup = setup_fabric_channel, CHILD_AND_PARENT);

/* A domain is the parent, and so the fabric closes after it. */
static void parents_of(struct kfid *fid)
{
	child = fid;
	parents[0] = &domain->domain.fid;
	parents[1] = &fabric->fabric.fid;
}

static void setup_domain_cq(void)
{
	open_domain();
	open_cq(0);
	parents_of(&cq[0]->fid);
}

PROVE_SCENARIO(close_domain_beside_cq, .rules = "O1 V8", .tables = "11",
	       .says = "a domain is closed as its CQ is closed",
	       .setup = setup_domain_cq, CHILD_AND_PARENT);

static void setup_domain_cntr(void)
{
	open_domain();
	open_cntr();
	parents_of(&cntr->fid);
}

PROVE_SCENARIO(close_domain_beside_cntr, .rules = "O1 V8", .tables = "11",
	       .says = "a domain is closed as its counter is closed",
	       .setup = setup_domain_cntr, CHILD_AND_PARENT);

static void setup_domain_ep(void)
{
	open_domain();
	open_ep();
	parents_of(&ep->ep.fid);
}

PROVE_SCENARIO(close_domain_beside_ep, .rules = "O1 V8", .tables = "11",
	       .says = "a domain is closed as its endpoint is closed",
	       .setup = setup_domain_ep, CHILD_AND_PARENT);

static void open_pollset(void)
{
	prove_check(!kfi_core_poll_open(&domain->domain, NULL, &pollset),
		    "the poll set opens");
}

static void setup_domain_pollset(void)
{
	open_domain();
	open_pollset();
	parents_of(&pollset->fid);
}

PROVE_SCENARIO(close_domain_beside_pollset, .rules = "O1 V8", .tables = "11",
	       .says = "a domain is closed as its poll set is closed",
	       .setup = setup_domain_pollset, CHILD_AND_PARENT);

/* What a child uses besides its domain: that closes first of the parents. */
static void uses(struct kfid *fid)
{
	parents[2] = parents[1];
	parents[1] = parents[0];
	parents[0] = fid;
}

static void setup_set(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_cq(0);
	parents_of(&cq[0]->fid);
	uses(&set->kfid);
}

PROVE_SCENARIO(close_set_beside_member, .rules = "O1 V8", .tables = "11",
	       .says = "a wait set is closed as its last member is closed",
	       .setup = setup_set, CHILD_AND_PARENT);

static void setup_channel(void)
{
	open_domain();
	open_channel();
	open_cq(0);
	prove_check(!kfi_cq_bind_channel(cq[0], channel), "the CQ is bound");
	parents_of(&cq[0]->fid);
	uses(&channel->fid);
}

PROVE_SCENARIO(close_channel_beside_cq, .rules = "O1 V8", .tables = "11 18",
	       .says = "a channel is closed as its last CQ is closed",
	       .setup = setup_channel, CHILD_AND_PARENT);

static void setup_bound_cntr(void)
{
	setup_domain_ep();
	open_cntr();
	prove_check(!kfi_ep_base_bind(ep, &cntr->fid, KFI_SEND), "the counter is bound");
	uses(&cntr->fid);
}

PROVE_SCENARIO(close_cntr_beside_endpoint, .rules = "O1 V8", .tables = "11",
	       .says = "a counter is closed as its endpoint is closed",
	       .setup = setup_bound_cntr, CHILD_AND_PARENT);

static void setup_bound_eq(void)
{
	setup_domain_ep();
	open_eq(1);
	prove_check(!kfi_ep_base_bind(ep, &eq->fid, 0), "the EQ is bound");
	uses(&eq->fid);
}

PROVE_SCENARIO(close_eq_beside_endpoint, .rules = "O1 V8", .tables = "11",
	       .says = "an EQ is closed as its endpoint is closed",
	       .setup = setup_bound_eq, CHILD_AND_PARENT);

static void remove_member(void)
{
	prove_check(!kfi_poll_del(pollset, parents[0], 0), "the member is removed");
}

static void finish_removed(void)
{
	finish_family();
	must_close(&pollset->fid);
	must_close(&domain->domain.fid);
	must_close(&fabric->fabric.fid);
}

static void setup_member(void)
{
	open_domain();
	open_pollset();
	open_cq(0);
	prove_check(!kfi_poll_add(pollset, &cq[0]->fid, 0), "the member is added");
	parents[0] = &cq[0]->fid;
}

PROVE_SCENARIO(close_cq_beside_del, .rules = "O1 V8", .tables = "11",
	       .says = "a CQ is closed as it is removed from its last poll set",
	       .setup = setup_member, .finish = finish_removed,
	       .threads = { { "remover", remove_member },
			    { "parent", try_to_close_parent } });
