// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Allocation failures: a call that fails leaves nothing behind and changes nothing, also
 * beside a publication. Memory that is left is a leak, which the checker reports.
 */
#include "support.h"

enum { FIRST, SECOND };

static void check_memory(int ret)
{
	mine()->ret = ret;
	prove_check(!ret || ret == -KFI_ENOMEM, "the call succeeds or has no memory");
}

static void setup(void)
{
	open_domain();
}

static void open_everything(void)
{
	struct kfi_cntr_attr cntr_attr = { .wait_obj = KFI_WAIT_UNSPEC };

	check_memory(try_open_cq(0, 4, KFI_CQ_COND_NONE, NULL));
	if (mine()->ret)
		cq[0] = NULL;
	check_memory(kfi_core_wait_open(&fabric->fabric, NULL, &set));
	if (mine()->ret)
		set = NULL;
	check_memory(kfi_core_cntr_open(&domain->domain, &cntr_attr, &cntr, NULL));
	if (mine()->ret)
		cntr = NULL;
	check_memory(kfi_core_eq_open(&fabric->fabric, NULL, &eq, NULL, NULL));
	if (mine()->ret)
		eq = NULL;
	check_memory(kfi_comp_channel_open(&fabric->fabric, &channel, NULL));
	if (mine()->ret)
		channel = NULL;
}

PROVE_SCENARIO(memory_opens, .rules = "X4 O1", .tables = "11", .fails = 2,
	       .says = "objects are opened with and without memory",
	       .setup = setup, .finish = close_all,
	       .threads = { { "opener", open_everything } });

/* What else a domain can have. */
static void open_poll_and_profile(void)
{
	struct kfid_poll *poll = NULL;
	struct kfid_profile *prof = NULL;

	check_memory(kfi_core_poll_open(&domain->domain, NULL, &poll));
	if (!mine()->ret)
		must_close(&poll->fid);
	check_memory(kfi_profile_open(&domain->domain.fid, 0, &prof, NULL));
	if (!mine()->ret)
		must_close(&prof->fid);
}

PROVE_SCENARIO(memory_opens_more, .rules = "X4 O1", .tables = "11", .fails = 2,
	       .says = "a poll set and a profile are opened with and without memory",
	       .setup = setup, .finish = close_all,
	       .threads = { { "opener", open_poll_and_profile } });

/* A refused membership leaves the CQ, which a publisher reports on, as it was. */
static struct kfid_poll *pollset;

static void setup_poll(void)
{
	open_domain();
	open_cq(0);
	prove_check(!kfi_core_poll_open(&domain->domain, NULL, &pollset),
		    "the poll set opens");
}

static void add_member(void)
{
	check_memory(kfi_poll_add(pollset, &cq[0]->fid, 0));
}

static void finish_poll(void)
{
	void *context[1];
	const bool member = !records[FIRST].ret;

	prove_check(kfi_poll(pollset, context, 1) == member, "a member is reported");
	if (member)
		kfi_poll_del(pollset, &cq[0]->fid, 0);
	must_close(&pollset->fid);
	read_rest(0);
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(memory_poll_add, .rules = "X4 P5", .tables = "9", .fails = 1,
	       .says = "a member is added with and without memory, beside a publication",
	       .setup = setup_poll, .finish = finish_poll,
	       .threads = { { "adder", add_member }, { "publisher", publish_one } });

static void setup_bind(void)
{
	open_domain();
	open_cq(0);
	open_channel();
}

static void bind_cq(void)
{
	check_memory(kfi_cq_bind_channel(cq[0], channel));
}

static void finish_bind(void)
{
	struct kfid_cq *of;

	read_rest(0);
	if (records[FIRST].ret) {
		prove_check(kfi_req_notify(cq[0], KFI_CQ_NEXT_COMP) == -KFI_EINVAL,
			    "a refused binding leaves the CQ without a channel");
	} else {
		prove_check(!kfi_req_notify(cq[0], KFI_CQ_NEXT_COMP), "the request is made");
		complete_op(0, entry_number(REST, 1), 0);
		prove_check(!kfi_get_cq_event(channel, &of, NULL, 0), "the event is there");
		kfi_ack_cq_events(of, 1);
	}
	close_all();
}

PROVE_SCENARIO(memory_bind, .rules = "X4 E1", .tables = "17", .fails = 1,
	       .says = "a CQ is bound to a channel with and without memory",
	       .setup = setup_bind, .finish = finish_bind,
	       .threads = { { "binder", bind_cq }, { "publisher", publish_one } });

static void setup_set(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_cq(0);
}

static void try_exclusive(void)
{
	u64 flags = KFI_WAIT_EXCLUSIVE;

	mine()->ret = kfi_control(&set->kfid, KFI_SETFIDFLAG, &flags);
	prove_check(!mine()->ret || mine()->ret == -KFI_ENOMEM,
		    "the flag is set, or there is no memory");
}

static void finish_exclusive(void)
{
	u64 flags = 0;

	prove_check(!kfi_control(&set->kfid, KFI_GETFIDFLAG, &flags), "the flag is read");
	prove_check(flags == (records[FIRST].ret ? 0 : KFI_WAIT_EXCLUSIVE),
		    "a refused flag is not set");
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(memory_exclusive, .rules = "X4 W3", .tables = "14", .fails = 1,
	       .says = "a set is made exclusive with and without memory",
	       .setup = setup_set, .finish = finish_exclusive,
	       .threads = { { "owner", try_exclusive }, { "publisher", publish_one } });

static void watch_and_put(void)
{
	struct kfi_watch *watch = kfi_watch_get(&cq[0]->fid);

	if (!IS_ERR(watch))
		kfi_watch_put(watch);
}

static void finish_watch(void)
{
	read_rest(0);
	check_entries(SECOND, 1);
	close_all();
}

PROVE_SCENARIO(memory_watch, .rules = "X4 W8", .tables = "15", .fails = 1,
	       .says = "a descriptor is made with and without memory, beside a publication",
	       .setup = setup_set, .finish = finish_watch,
	       .threads = { { "descriptor", watch_and_put },
			    { "publisher", publish_one } });

static void write_event(void)
{
	const u64 event = 0;

	prove_check(kfi_eq_write(eq, KFI_NOTIFY, &event, sizeof(event), 0) == sizeof(event),
		    "the EQ's own slot is free");
}

/* An endpoint's events have slots in the EQ from its binding on. */
static void setup_ep(void)
{
	open_domain();
	open_eq(1);
	open_ep();
}

static void bind_ep(void)
{
	check_memory(kfi_ep_base_bind(ep, &eq->fid, 0));
}

static void finish_ep(void)
{
	const struct kfi_eq_cm_entry entry = { .fid = &ep->ep.fid };
	const struct kfi_event event = {
		.event = KFI_CONNECTED,
		.buf = &entry,
		.len = sizeof(entry),
	};

	prove_check(kfi_ep_report(ep, &event) == (records[FIRST].ret ? -KFI_ENOEQ : 0),
		    "an event finds its slot, or there is no EQ");
	close_all();
}

PROVE_SCENARIO(memory_bind_eq, .rules = "X4 Q10", .tables = "11", .fails = 1,
	       .says = "an endpoint gets its EQ with and without memory",
	       .setup = setup_ep, .finish = finish_ep,
	       .threads = { { "owner", bind_ep }, { "writer", write_event } });
