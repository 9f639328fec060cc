// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Every blocking call with every sort of timeout: milliseconds, as ULPs give them. */
#include <linux/limits.h>

#include "ktest.h"

/* The calls; each has one object that "inject recv" makes ready. */
static int kt_wait_for(struct kt *kt, int timeout)
{
	return kfi_wait(kt->wait, timeout);
}

static int kt_sread_cq_for(struct kt *kt, int timeout)
{
	struct kfi_cq_msg_entry entry;
	ssize_t n = kfi_cq_sread(kt->cq, &entry, 1, NULL, timeout);

	return n == 1 ? 0 : n;
}

static int kt_sread_eq_for(struct kt *kt, int timeout)
{
	struct kfi_eq_entry entry;
	ssize_t n;
	u32 event;

	n = kfi_eq_sread(kt->eq, &event, &entry, sizeof(entry), timeout, 0);
	return n == sizeof(entry) ? 0 : n;
}

static int kt_wait_cntr_for(struct kt *kt, int timeout)
{
	return kfi_cntr_wait(kt->cntr, 1, timeout);
}

static int kt_wait_cond_for(struct kt *kt, int timeout)
{
	int ret;

	mutex_lock(kt->pair.mutex);
	ret = kfi_cond_wait(kt->pair.cond, timeout);
	mutex_unlock(kt->pair.mutex);
	return ret;
}

static const struct kt_call {
	enum kfi_wait_obj wait_obj;
	int (*make)(struct kt *kt, int timeout);
} kt_calls[] = {
	{ KFI_WAIT_SET, kt_wait_for },
	{ KFI_WAIT_UNSPEC, kt_sread_cq_for },
	{ KFI_WAIT_QUEUE, kt_sread_eq_for },
	{ KFI_WAIT_MUTEX_COND, kt_wait_cntr_for },
	{ KFI_WAIT_SET, kt_wait_cond_for },
};

#define KT_CALLS	ARRAY_SIZE(kt_calls)

static int kt_make_ready(struct kt *kt)
{
	struct kfi_eq_entry entry = { .fid = &kt->eq->fid };
	ssize_t n;

	n = kfi_eq_write(kt->eq, KFI_NOTIFY, &entry, sizeof(entry), 0);
	if (n < 0)
		return n;
	return kt_command(kt, "inject %u recv", kt_ep_id(kt));
}

static void kt_drain_all(struct kt *kt)
{
	struct kfi_cq_msg_entry entry;
	struct kfi_eq_entry event;
	u32 number;

	while (kfi_cq_read(kt->cq, &entry, 1) > 0)
		;
	while (kfi_eq_read(kt->eq, &number, &event, sizeof(event), 0) > 0)
		;
	kfi_cntr_set(kt->cntr, 0);
	kfi_cntr_read(kt->cntr);
}

static int kt_open_for(struct kt *kt, const struct kt_call *call)
{
	int err;

	kt->set_obj = KFI_WAIT_MUTEX_COND;
	err = kt_open(kt, call->wait_obj);
	if (err || call->wait_obj != KFI_WAIT_SET)
		return err;
	return kfi_control(&kt->wait->kfid, KFI_GETWAIT, &kt->pair);
}

/* The next call has objects of its own. */
static void kt_close_for(struct kt *kt)
{
	struct seq_file *seq = kt->seq;
	bool failed;

	kt_close(kt);
	failed = kt->failed;
	memset(kt, 0, sizeof(*kt));
	kt->seq = seq;
	kt->failed = failed;
	init_completion(&kt->started);
	init_completion(&kt->called);
}

/* What is there is returned at once, whatever the timeout. */
static void kt_ready_for_all(struct kt *kt)
{
	static const int timeouts[] = { INT_MIN, -2, -1, 0, 1, 10, INT_MAX };
	int i, k;

	for (i = 0; i < KT_CALLS; i++) {
		KT_EQ(kt, kt_open_for(kt, &kt_calls[i]), 0);
		for (k = 0; k < ARRAY_SIZE(timeouts); k++) {
			KT_EQ(kt, kt_make_ready(kt), 0);
			KT_EQ(kt, kt_calls[i].make(kt, timeouts[k]), 0);
			kt_drain_all(kt);
		}
		kt_close_for(kt);
	}
}

/* Nothing comes: -ETIMEDOUT from every call, and never early. */
static void kt_timeout_codes(struct kt *kt)
{
	static const int timeouts[] = { 0, 1, 10, 30 };
	ktime_t begin;
	int i, k;

	for (i = 0; i < KT_CALLS; i++) {
		KT_EQ(kt, kt_open_for(kt, &kt_calls[i]), 0);
		for (k = 0; k < ARRAY_SIZE(timeouts); k++) {
			begin = ktime_get();
			KT_EQ(kt, kt_calls[i].make(kt, timeouts[k]),
			      -KFI_ETIMEDOUT);
			KT_CHECK(kt, ktime_ms_delta(ktime_get(), begin) >=
				 timeouts[k]);
		}
		kt_close_for(kt);
	}
}

/* What a hand calls, and with which timeout. */
static const struct kt_call *kt_chosen;
static int kt_chosen_timeout;

static int kt_make_chosen(struct kt *kt)
{
	return kt_chosen->make(kt, kt_chosen_timeout);
}

/* Negative is without limit, and the largest is not negative. */
static void kt_no_limit(struct kt *kt)
{
	static const int timeouts[] = { INT_MIN, -2, -1, INT_MAX };
	int i, k;

	for (i = 0; i < KT_CALLS; i++) {
		KT_EQ(kt, kt_open_for(kt, &kt_calls[i]), 0);
		for (k = 0; k < ARRAY_SIZE(timeouts); k++) {
			kt_chosen = &kt_calls[i];
			kt_chosen_timeout = timeouts[k];
			KT_EQ(kt, kt_hire(kt, 0, kt_make_chosen), 0);
			KT_EQ(kt, kt_until_hand_asleep(kt, 0), 0);
			KT_EQ(kt, kt_make_ready(kt), 0);
			KT_EQ(kt, kt_hand_result(kt, 0), 0);
			kt_dismiss(kt, 0);
			kt_drain_all(kt);
		}
		kt_close_for(kt);
	}
}

/* Reports from each context end each call. */
static void kt_wakes_from_everywhere(struct kt *kt)
{
	static const char * const contexts[] = {
		"process", "softirq", "workqueue",
	};
	int i, k;

	for (i = 0; i < KT_CALLS; i++) {
		KT_EQ(kt, kt_open_for(kt, &kt_calls[i]), 0);
		for (k = 0; k < ARRAY_SIZE(contexts); k++) {
			kt_chosen = &kt_calls[i];
			kt_chosen_timeout = -1;
			KT_EQ(kt, kt_hire(kt, 0, kt_make_chosen), 0);
			KT_EQ(kt, kt_until_hand_asleep(kt, 0), 0);
			KT_EQ(kt, kt_command(kt, "inject %u recv context=%s",
					     kt_ep_id(kt), contexts[k]), 0);
			KT_EQ(kt, kt_command(kt, "event %u 7 context=%s",
					     kfi_fid_id(&kt->eq->fid),
					     contexts[k]), 0);
			KT_EQ(kt, kt_hand_result(kt, 0), 0);
			kt_dismiss(kt, 0);
			kt_drain_all(kt);
		}
		kt_close_for(kt);
	}
}

/* Told to stop while asleep: -EINTR from every call. */
static void kt_stop_ends_all(struct kt *kt)
{
	int i;

	for (i = 0; i < KT_CALLS; i++) {
		KT_EQ(kt, kt_open_for(kt, &kt_calls[i]), 0);
		kt_chosen = &kt_calls[i];
		kt_chosen_timeout = -1;
		KT_EQ(kt, kt_hire(kt, 0, kt_make_chosen), 0);
		KT_EQ(kt, kt_until_hand_asleep(kt, 0), 0);
		kt_dismiss(kt, 0);
		KT_EQ(kt, kt->hands[0].ret, -EINTR);
		kt_close_for(kt);
	}
}

const struct kt_case kt_timeout_cases[] = {
	{ "ready_for_all", kt_ready_for_all },
	{ "timeout_codes", kt_timeout_codes },
	{ "no_limit", kt_no_limit },
	{ "wakes_from_everywhere", kt_wakes_from_everywhere },
	{ "stop_ends_all", kt_stop_ends_all },
	{ }
};
