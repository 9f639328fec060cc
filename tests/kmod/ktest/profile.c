// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Profiles for callers in the kernel: codes, callbacks, instants. */
#include <linux/delay.h>

#include "ktest.h"

#define KT_ROUNDS 997

static int kt_profile(struct kt *kt, struct kfid *fid, int i)
{
	return kfi_profile_open(fid, 0, &kt->prof[i], kt);
}

static int kt_arrive(struct kt *kt, unsigned int count)
{
	return kt_command(kt, "arrive %u %u len=497", kt_ep_id(kt), count);
}

static int kt_receive(struct kt *kt)
{
	return kfi_recv(kt->ep, NULL, 4096, NULL, KFI_ADDR_UNSPEC, NULL);
}

/* Domain, endpoint, wait set, poll set and CQ; nothing else, and no flags. */
static void kt_profile_targets(struct kt *kt)
{
	struct kfid_profile *prof = NULL;
	struct kfid *yes[5], *no[3];
	int i;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kfi_poll_open(kt->domain, NULL, &kt->poll), 0);
	yes[0] = &kt->domain->fid;
	yes[1] = &kt->ep->fid;
	yes[2] = &kt->wait->kfid;
	yes[3] = &kt->poll->fid;
	yes[4] = &kt->cq->fid;
	no[0] = &kt->fabric->fid;
	no[1] = &kt->eq->fid;
	no[2] = &kt->cntr->fid;
	for (i = 0; i < ARRAY_SIZE(no); i++)
		KT_EQ(kt, kfi_profile_open(no[i], 0, &prof, NULL), -KFI_ENOSYS);
	for (i = 0; i < ARRAY_SIZE(yes); i++) {
		KT_EQ(kt, kfi_profile_open(yes[i], 1, &prof, NULL), -KFI_EINVAL);
		KT_EQ(kt, kfi_profile_open(yes[i], 0, &prof, NULL), 0);
		KT_EQ(kt, kfi_close(yes[i]), -KFI_EBUSY);
		KT_EQ(kt, kfi_profile_open(&prof->fid, 0, &kt->prof[0], NULL),
		      -KFI_ENOSYS);
		KT_EQ(kt, kfi_profile_close(prof), 0);
	}
	KT_EQ(kt, kfi_profile_open(NULL, 0, &prof, NULL), -KFI_EINVAL);
	KT_EQ(kt, kfi_profile_open(yes[0], 0, NULL, NULL), -KFI_EINVAL);
}

/* A thousand times, alone and beside another one that goes on counting. */
static void kt_profile_reopen(struct kt *kt)
{
	u64 before, after;
	int i;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_UNSPEC), 0);
	KT_EQ(kt, kt_profile(kt, &kt->ep->fid, 0), 0);
	for (i = 0; i < 1000; i++) {
		KT_EQ(kt, kt_profile(kt, &kt->ep->fid, 1), 0);
		KT_EQ(kt, kfi_profile_close(kt->prof[1]), 0);
		kt->prof[1] = NULL;
	}
	KT_EQ(kt, kfi_profile_read_u64(kt->prof[0], KFI_VAR_COMPLETIONS,
				       &before), 0);
	KT_EQ(kt, kt_profile(kt, &kt->ep->fid, 1), 0);
	KT_EQ(kt, kt_command(kt, "inject %u send 3", kt_ep_id(kt)), 0);
	for (i = 0; i < 2; i++) {
		KT_EQ(kt, kfi_profile_read_u64(kt->prof[i], KFI_VAR_COMPLETIONS,
					       &after), 0);
		KT_EQ(kt, after, before + 3);
	}
}

/* No list, a short one, a long one; same ids in two profiles of two classes. */
static void kt_profile_query(struct kt *kt)
{
	static struct kfi_profile_desc descs[40], other[40];
	size_t all = 77, n = 2, m = ARRAY_SIZE(other);
	int i, k, same = 0;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_UNSPEC), 0);
	KT_EQ(kt, kt_profile(kt, &kt->cq->fid, 0), 0);
	KT_EQ(kt, kt_profile(kt, &kt->domain->fid, 1), 0);
	KT_EQ(kt, kfi_profile_query_vars(kt->prof[0], NULL, NULL), -KFI_EINVAL);
	KT_EQ(kt, kfi_profile_query_vars(kt->prof[0], NULL, &all), 0);
	KT_CHECK(kt, all > 10 && all <= ARRAY_SIZE(descs));
	memset(descs, 0x55, sizeof(descs));
	KT_EQ(kt, kfi_profile_query_vars(kt->prof[0], descs, &n), 2);
	KT_EQ(kt, n, all);
	KT_EQ(kt, descs[2].id, 0x55555555);
	n = ARRAY_SIZE(descs);
	KT_EQ(kt, kfi_profile_query_vars(kt->prof[0], descs, &n), all);
	KT_EQ(kt, n, all);
	m = kfi_profile_query_vars(kt->prof[1], other, &m);
	for (i = 0; i < n; i++) {
		for (k = 0; k < m; k++) {
			KT_EQ(kt, !strcmp(descs[i].name, other[k].name),
			      descs[i].id == other[k].id);
			same += descs[i].id == other[k].id;
		}
	}
	KT_CHECK(kt, same > 10);
	n = 9;
	KT_EQ(kt, kfi_profile_query_events(kt->prof[0], descs, &n), 0);
	KT_EQ(kt, n, 0);
}

/* Each with its own size, and with no other. */
static void kt_profile_sizes(struct kt *kt)
{
	static u64 room[512];
	static struct kfi_profile_desc descs[40];
	size_t n = ARRAY_SIZE(descs), size;
	u64 value;
	int i;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_UNSPEC), 0);
	KT_EQ(kt, kt_profile(kt, &kt->cq->fid, 0), 0);
	n = kfi_profile_query_vars(kt->prof[0], descs, &n);
	for (i = 0; i < n; i++) {
		size = descs[i].size;
		KT_EQ(kt, kfi_profile_read(kt->prof[0], descs[i].id, room,
					   &size), 0);
		KT_EQ(kt, size, descs[i].size);
		size--;
		KT_EQ(kt, kfi_profile_read(kt->prof[0], descs[i].id, room,
					   &size), -KFI_ETOOSMALL);
		KT_EQ(kt, size, descs[i].size);
		size++;
		KT_EQ(kt, kfi_profile_read(kt->prof[0], descs[i].id, room,
					   &size), -KFI_ETOOSMALL);
		KT_EQ(kt, kfi_profile_read_u64(kt->prof[0], descs[i].id, &value),
		      descs[i].size == sizeof(u64) ? 0 : -KFI_ETOOSMALL);
	}
	size = sizeof(u64);
	KT_EQ(kt, kfi_profile_read(kt->prof[0], 0xffff, room, &size), -KFI_EINVAL);
	KT_EQ(kt, kfi_profile_read_u64(kt->prof[0], KFI_VAR_UNEXP_MSG_CNT,
				       &value), -KFI_EINVAL);
}

/* What a callback is told, and what it reads. */
struct kt_told {
	struct kt *kt;
	int calls;
	u64 count[8];		/* the variable, at the call */
	u32 id[8];
	size_t len;
	int refused;		/* calls that were not */
	int err;
	bool closed;
	int late;		/* calls after the close */
};

static int kt_note(struct kfid_profile *prof, const struct kfi_profile_desc *event,
		   const void *param, size_t size, void *context)
{
	const struct kfi_cq_err_entry *entry = param;
	struct kt_told *told = context;

	if (READ_ONCE(told->closed))
		told->late++;
	if (told->calls < ARRAY_SIZE(told->id)) {
		told->id[told->calls] = event->id;
		told->err |= kfi_profile_read_u64(prof, KFI_VAR_UNEXP_MSG_CNT,
						  &told->count[told->calls]);
	}
	told->len = size == event->size ? entry->len : 0;
	told->calls++;
	return 0;
}

static int kt_listen(struct kt *kt, struct kt_told *told,
		     kfi_profile_callback callback)
{
	return kfi_profile_register_callback(kt->prof[0],
					     KFI_EVENT_UNEXP_MSG_RECVD,
					     callback, told) ?:
	       kfi_profile_register_callback(kt->prof[0],
					     KFI_EVENT_UNEXP_MSG_MATCHED,
					     callback, told);
}

/* In order, with the message, and the numbers are those of the moment. */
static void kt_profile_callback(struct kt *kt)
{
	struct kt_told told = { .kt = kt };
	u64 value = 77;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_UNSPEC), 0);
	KT_EQ(kt, kt_profile(kt, &kt->ep->fid, 0), 0);
	KT_EQ(kt, kfi_profile_register_callback(kt->prof[0], 77, kt_note, &told),
	      -KFI_EINVAL);
	KT_EQ(kt, kfi_profile_register_callback(kt->prof[0], 77, NULL, NULL),
	      -KFI_EINVAL);
	KT_EQ(kt, kt_listen(kt, &told, kt_note), 0);
	KT_EQ(kt, kt_arrive(kt, 3), 0);
	KT_EQ(kt, told.calls, 3);
	KT_EQ(kt, told.len, 497);
	KT_EQ(kt, kt_receive(kt), 0);
	KT_EQ(kt, told.calls, 4);
	KT_EQ(kt, told.err, 0);
	KT_EQ(kt, told.count[0], 1);
	KT_EQ(kt, told.count[2], 3);
	KT_EQ(kt, told.count[3], 2);
	KT_EQ(kt, told.id[2], KFI_EVENT_UNEXP_MSG_RECVD);
	KT_EQ(kt, told.id[3], KFI_EVENT_UNEXP_MSG_MATCHED);
	KT_EQ(kt, kfi_profile_read_u64(kt->prof[0], KFI_VAR_UNEXP_MSG_CNT,
				       &value), 0);
	KT_EQ(kt, value, 2);
	KT_EQ(kt, kt_listen(kt, &told, NULL), 0);
	KT_EQ(kt, kt_receive(kt), 0);
	KT_EQ(kt, told.calls, 4);
}

static int kt_try_all(struct kfid_profile *prof, const struct kfi_profile_desc *event,
		      const void *param, size_t size, void *context)
{
	struct kt_told *told = context;
	struct kt *kt = told->kt;
	struct kfid_profile *fresh;
	size_t n = 0;
	u64 value;

	told->calls++;
	told->refused += kfi_profile_query_vars(prof, NULL, &n) == -KFI_EBUSY;
	told->refused += kfi_profile_query_events(prof, NULL, &n) == -KFI_EBUSY;
	told->refused += kfi_profile_register_callback(prof, event->id, NULL,
						       NULL) == -KFI_EBUSY;
	told->refused += kfi_profile_close(prof) == -KFI_EBUSY;
	told->refused += kfi_profile_close(kt->prof[1]) == -KFI_EBUSY;
	told->refused += kfi_profile_reset(prof, 0) == -KFI_EBUSY;
	told->refused += kfi_profile_start_reads(prof, 0) == -KFI_EBUSY;
	told->refused += kfi_profile_end_reads(prof, 0) == -KFI_EBUSY;
	told->refused += kfi_profile_open(&kt->ep->fid, 0, &fresh, NULL) ==
			 -KFI_EBUSY;
	told->refused += kfi_profile_read_u64(kt->prof[1], KFI_VAR_COMPLETIONS,
					      &value) == -KFI_EBUSY;
	return 0;
}

/* All but reading is refused, and nothing is changed by it. */
static void kt_profile_refused(struct kt *kt)
{
	struct kt_told told = { .kt = kt };
	size_t n = 0;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_UNSPEC), 0);
	KT_EQ(kt, kt_profile(kt, &kt->ep->fid, 0), 0);
	KT_EQ(kt, kt_profile(kt, &kt->cq->fid, 1), 0);
	KT_EQ(kt, kt_listen(kt, &told, kt_try_all), 0);
	KT_EQ(kt, kt_arrive(kt, 1), 0);
	KT_EQ(kt, told.calls, 1);
	KT_EQ(kt, told.refused, 10);
	KT_EQ(kt, kt_arrive(kt, 1), 0);
	KT_EQ(kt, told.calls, 2);
	KT_EQ(kt, kfi_profile_query_events(kt->prof[0], NULL, &n), 0);
	KT_EQ(kt, n, 2);
}

/* Where the callback runs, and what another thread was told meanwhile. */
struct kt_both {
	int cpu;
	int calls;
	int answer;
	bool inside;
	bool asked;
};

static struct kt_both kt_both;

/* Goes on until the other thread has asked, or a second is over. */
static int kt_stay(struct kfid_profile *prof, const struct kfi_profile_desc *event,
		   const void *param, size_t size, void *context)
{
	ktime_t end = ktime_add_ms(ktime_get(), MSEC_PER_SEC);

	kt_both.calls++;
	WRITE_ONCE(kt_both.inside, true);
	while (!READ_ONCE(kt_both.asked) && ktime_before(ktime_get(), end))
		cpu_relax();
	return 0;
}

static int kt_ask(struct kt *kt)
{
	size_t n = 0;

	set_cpus_allowed_ptr(current, cpumask_of(kt_both.cpu));
	while (!READ_ONCE(kt_both.inside) && !kthread_should_stop())
		cond_resched();
	kt_both.answer = kfi_profile_query_vars(kt->prof[0], NULL, &n);
	WRITE_ONCE(kt_both.asked, true);
	return 0;
}

/*
 * What is refused in a callback is not refused to another thread meanwhile. On
 * PREEMPT_RT that one may be on the callback's own CPU.
 */
static void kt_profile_elsewhere(struct kt *kt)
{
	struct kt_told told = { .kt = kt };
	int err;

	memset(&kt_both, 0, sizeof(kt_both));
	kt_both.answer = 77;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_UNSPEC), 0);
	KT_EQ(kt, kt_profile(kt, &kt->ep->fid, 0), 0);
	KT_EQ(kt, kt_listen(kt, &told, kt_stay), 0);
	if (!IS_ENABLED(CONFIG_PREEMPT_RT))
		kt_both.cpu = cpumask_any_but(cpu_online_mask, 0);
	KT_CHECK(kt, kt_both.cpu < nr_cpu_ids);
	KT_EQ(kt, set_cpus_allowed_ptr(current, cpumask_of(0)), 0);
	err = kt_hire(kt, 0, kt_ask) ?: kt_arrive(kt, 1);
	set_cpus_allowed_ptr(current, cpu_possible_mask);
	KT_EQ(kt, err, 0);
	KT_EQ(kt, kt_hand_result(kt, 0), 0);
	KT_EQ(kt, kt_both.calls, 1);
	KT_CHECK(kt, kt_both.asked);
	KT_EQ(kt, kt_both.answer, 0);
}

/* Messages come and go until it is told to stop. */
static int kt_traffic(struct kt *kt)
{
	int err = 0;

	while (!err && !kthread_should_stop()) {
		err = kt_command(kt, "arrive %u 3 context=softirq", kt_ep_id(kt));
		while (!err && kt_receive(kt) == 0 && !kthread_should_stop())
			if (!kt_command(kt, "complete %u recv", kt_ep_id(kt)))
				break;
		cond_resched();
	}
	return err;
}

/* Opened and closed under traffic: no callback runs once close has returned. */
static void kt_profile_close_stops(struct kt *kt)
{
	struct kt_told told = { .kt = kt };
	int i, heard = 0;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_UNSPEC), 0);
	KT_EQ(kt, kt_hire(kt, 0, kt_traffic), 0);
	for (i = 0; i < KT_ROUNDS; i++) {
		WRITE_ONCE(told.closed, false);
		KT_EQ(kt, kt_profile(kt, &kt->ep->fid, 0), 0);
		KT_EQ(kt, kt_listen(kt, &told, kt_note), 0);
		/* Now and then it has something to do. */
		if (i % 100 == 0)
			usleep_range(1000, 2000);
		KT_EQ(kt, kfi_profile_close(kt->prof[0]), 0);
		kt->prof[0] = NULL;
		WRITE_ONCE(told.closed, true);
		heard += told.calls > 0;
	}
	kt_dismiss(kt, 0);
	KT_CHECK(kt, heard);
	KT_EQ(kt, told.late, 0);
}

/* The number and the queue agree, however fast both change. */
static void kt_profile_instant(struct kt *kt)
{
	static struct kfi_cq_err_entry entries[64];
	u64 count, again;
	size_t size;
	int i;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_UNSPEC), 0);
	KT_EQ(kt, kt_profile(kt, &kt->ep->fid, 0), 0);
	KT_EQ(kt, kfi_profile_end_reads(kt->prof[0], 0), -KFI_EINVAL);
	KT_EQ(kt, kfi_profile_start_reads(kt->prof[0], 1), -KFI_EINVAL);
	/* A message that certainly comes between two reads; then those of a thread. */
	KT_EQ(kt, kfi_profile_start_reads(kt->prof[0], 0), 0);
	KT_EQ(kt, kt_arrive(kt, 1), 0);
	KT_EQ(kt, kfi_profile_read_u64(kt->prof[0], KFI_VAR_UNEXP_MSG_CNT,
				       &count), 0);
	KT_EQ(kt, count, 0);
	KT_EQ(kt, kfi_profile_end_reads(kt->prof[0], 0), 0);
	KT_EQ(kt, kfi_profile_read_u64(kt->prof[0], KFI_VAR_UNEXP_MSG_CNT,
				       &count), 0);
	KT_EQ(kt, count, 1);
	KT_EQ(kt, kt_receive(kt), 0);
	KT_EQ(kt, kt_hire(kt, 0, kt_traffic), 0);
	for (i = 0; i < KT_ROUNDS; i++) {
		size = sizeof(entries);
		KT_EQ(kt, kfi_profile_start_reads(kt->prof[0], 0), 0);
		KT_EQ(kt, kfi_profile_start_reads(kt->prof[0], 0), -KFI_EBUSY);
		KT_EQ(kt, kfi_profile_read_u64(kt->prof[0],
					       KFI_VAR_UNEXP_MSG_CNT, &count), 0);
		KT_EQ(kt, kfi_profile_read(kt->prof[0], KFI_VAR_UNEXP_MSG_QUEUE,
					   entries, &size), 0);
		KT_EQ(kt, size, count * sizeof(entries[0]));
		KT_EQ(kt, kfi_profile_read_u64(kt->prof[0],
					       KFI_VAR_UNEXP_MSG_CNT, &again), 0);
		KT_EQ(kt, again, count);
		KT_EQ(kt, kfi_profile_end_reads(kt->prof[0], 0), 0);
	}
	kt_dismiss(kt, 0);
}

/* A list needs room for all of it; and tells how much that is. */
static void kt_profile_list(struct kt *kt)
{
	static struct kfi_cq_err_entry entries[4];
	size_t size = 0;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_UNSPEC), 0);
	KT_EQ(kt, kt_profile(kt, &kt->ep->fid, 0), 0);
	KT_EQ(kt, kfi_profile_read(kt->prof[0], KFI_VAR_UNEXP_MSG_QUEUE, NULL,
				   &size), 0);
	KT_EQ(kt, kt_arrive(kt, 3), 0);
	KT_EQ(kt, kfi_profile_read(kt->prof[0], KFI_VAR_UNEXP_MSG_QUEUE, NULL,
				   &size), -KFI_ETOOSMALL);
	KT_EQ(kt, size, 3 * sizeof(entries[0]));
	memset(entries, 0x55, sizeof(entries));
	size = 2 * sizeof(entries[0]);
	KT_EQ(kt, kfi_profile_read(kt->prof[0], KFI_VAR_UNEXP_MSG_QUEUE, entries,
				   &size), -KFI_ETOOSMALL);
	KT_EQ(kt, size, 3 * sizeof(entries[0]));
	KT_EQ(kt, kfi_profile_read(kt->prof[0], KFI_VAR_UNEXP_MSG_QUEUE, entries,
				   &size), 0);
	KT_EQ(kt, entries[2].len, 497);
	KT_CHECK(kt, !entries[0].op_context && !entries[0].buf);
	KT_EQ(kt, entries[3].len, 0x5555555555555555);
}

const struct kt_case kt_profile_cases[] = {
	{ "profile_targets", kt_profile_targets },
	{ "profile_reopen", kt_profile_reopen },
	{ "profile_query", kt_profile_query },
	{ "profile_sizes", kt_profile_sizes },
	{ "profile_callback", kt_profile_callback },
	{ "profile_refused", kt_profile_refused },
	{ "profile_elsewhere", kt_profile_elsewhere },
	{ "profile_close_stops", kt_profile_close_stops },
	{ "profile_instant", kt_profile_instant },
	{ "profile_list", kt_profile_list },
	{ }
};
