// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Blocking calls of a kthread, and the wait queue that a ULP may borrow. */
#include <linux/wait.h>

#include "ktest.h"

static int kt_in_wait(struct kt *kt)
{
	return kfi_wait(kt->wait, -1);
}

static int kt_in_cq_sread(struct kt *kt)
{
	struct kfi_cq_msg_entry entry;

	return kfi_cq_sread(kt->cq, &entry, 1, NULL, -1);
}

static int kt_in_eq_sread(struct kt *kt)
{
	struct kfi_eq_entry entry;
	u32 event;

	return kfi_eq_sread(kt->eq, &event, &entry, sizeof(entry), -1, 0);
}

static int kt_in_cntr_wait(struct kt *kt)
{
	return kfi_cntr_wait(kt->cntr, 1, -1);
}

/* A kthread that is told to stop gets -EINTR, now and from every later call. */
static void kt_stop_ends(struct kt *kt, enum kfi_wait_obj wait_obj,
			 int (*body)(struct kt *kt), bool before)
{
	KT_EQ(kt, kt_open(kt, wait_obj), 0);
	KT_EQ(kt, kt_start(kt, body, before), 0);
	if (!before)
		KT_EQ(kt, kt_until_asleep(kt), 0);
	KT_EQ(kt, kt_stop(kt), 0);
	KT_EQ(kt, kt->first, -EINTR);
	KT_EQ(kt, kt->second, -EINTR);
}

static void kt_stop_ends_wait(struct kt *kt)
{
	kt_stop_ends(kt, KFI_WAIT_SET, kt_in_wait, false);
}

static void kt_stop_before_wait(struct kt *kt)
{
	kt_stop_ends(kt, KFI_WAIT_SET, kt_in_wait, true);
}

static void kt_stop_ends_cq_sread(struct kt *kt)
{
	kt_stop_ends(kt, KFI_WAIT_UNSPEC, kt_in_cq_sread, false);
}

static void kt_stop_ends_eq_sread(struct kt *kt)
{
	kt_stop_ends(kt, KFI_WAIT_UNSPEC, kt_in_eq_sread, false);
}

static void kt_stop_ends_cntr_wait(struct kt *kt)
{
	kt_stop_ends(kt, KFI_WAIT_UNSPEC, kt_in_cntr_wait, false);
}

/* What is there is there, also for one who is being stopped. */
static void kt_stopped_but_ready(struct kt *kt)
{
	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kt_command(kt, "inject %u recv", kt_ep_id(kt)), 0);
	KT_EQ(kt, kt_start(kt, kt_in_wait, true), 0);
	KT_EQ(kt, kt_stop(kt), 0);
	KT_EQ(kt, kt->first, 0);
	KT_EQ(kt, kt->second, 0);
}

static int kt_in_timed_wait(struct kt *kt)
{
	return kfi_wait(kt->wait, KT_DEADLINE_MS);
}

/* One completion wakes the thread; CQ and counter are both there by then. */
static void kt_completion_ends_wait(struct kt *kt)
{
	struct kfi_cq_msg_entry entry;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kt_start(kt, kt_in_timed_wait, false), 0);
	KT_EQ(kt, kt_until_asleep(kt), 0);
	KT_EQ(kt, kt_command(kt, "inject %u recv context=softirq",
			     kt_ep_id(kt)), 0);
	KT_EQ(kt, kt_stop(kt), 0);
	KT_EQ(kt, kt->first, 0);
	KT_EQ(kt, kfi_cq_read(kt->cq, &entry, 1), 1);
	KT_EQ(kt, kfi_cntr_read(kt->cntr), 1);
	KT_EQ(kt, kfi_wait(kt->wait, 0), -KFI_ETIMEDOUT);
}

static void kt_never_early(struct kt *kt)
{
	ktime_t begin;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	begin = ktime_get();
	KT_EQ(kt, kfi_wait(kt->wait, 20), -KFI_ETIMEDOUT);
	KT_CHECK(kt, ktime_ms_delta(ktime_get(), begin) >= 20);
	KT_EQ(kt, kfi_wait(kt->wait, 0), -KFI_ETIMEDOUT);
}

/* Who may not block is told so, and does not. */
static void kt_refuses_to_block(struct kt *kt, enum kfi_wait_obj wait_obj)
{
	KT_EQ(kt, kt_open(kt, wait_obj), 0);
	KT_EQ(kt, kt_in_cq_sread(kt), -KFI_EINVAL);
	KT_EQ(kt, kt_in_eq_sread(kt), -KFI_EINVAL);
	KT_EQ(kt, kt_in_cntr_wait(kt), -KFI_EINVAL);
}

static void kt_none_refuses(struct kt *kt)
{
	kt_refuses_to_block(kt, KFI_WAIT_NONE);
}

static void kt_member_refuses(struct kt *kt)
{
	kt_refuses_to_block(kt, KFI_WAIT_SET);
}

/* A ULP sleeps on the set's own queue, with the set as its condition. */
static int kt_in_borrowed_queue(struct kt *kt)
{
	wait_queue_head_t *head;
	int err;

	err = kfi_control(&kt->wait->kfid, KFI_GETWAIT, &head);
	if (err)
		return err;
	return wait_event_interruptible_timeout(*head,
						kfi_wait(kt->wait, 0) == 0,
						KT_DEADLINE) > 0 ? 0 : -EINTR;
}

static void kt_borrowed_queue(struct kt *kt)
{
	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kt_start(kt, kt_in_borrowed_queue, false), 0);
	KT_EQ(kt, kt_until_asleep(kt), 0);
	KT_EQ(kt, kt_command(kt, "inject %u recv context=workqueue",
			     kt_ep_id(kt)), 0);
	KT_EQ(kt, kt_stop(kt), 0);
	KT_EQ(kt, kt->first, 0);
}

static void kt_getwait_codes(struct kt *kt)
{
	wait_queue_head_t *head = NULL;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_QUEUE), 0);
	KT_EQ(kt, kfi_control(&kt->cq->fid, KFI_GETWAIT, &head), 0);
	KT_CHECK(kt, head);
	KT_EQ(kt, kfi_control(&kt->cq->fid, KFI_GETWAIT, NULL), -KFI_EINVAL);
	KT_EQ(kt, kfi_control(&kt->cq->fid, 12345, &head), -KFI_ENOSYS);
}

/* Parents and what is bound do not go; a refused close changes nothing. */
static void kt_busy(struct kt *kt)
{
	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kfi_close(&kt->fabric->fid), -KFI_EBUSY);
	KT_EQ(kt, kfi_close(&kt->domain->fid), -KFI_EBUSY);
	KT_EQ(kt, kfi_close(&kt->wait->kfid), -KFI_EBUSY);
	KT_EQ(kt, kfi_close(&kt->cq->fid), -KFI_EBUSY);
	KT_EQ(kt, kfi_close(&kt->cntr->fid), -KFI_EBUSY);
	KT_EQ(kt, kt_command(kt, "inject %u recv", kt_ep_id(kt)), 0);
	KT_EQ(kt, kfi_wait(kt->wait, 0), 0);
}

/* The device goes under a sleeper: it returns, and finds out why. */
static void kt_loss_ends_wait(struct kt *kt)
{
	struct kfi_cq_err_entry err;
	struct kfi_cq_msg_entry entry;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kt_start(kt, kt_in_timed_wait, false), 0);
	KT_EQ(kt, kt_until_asleep(kt), 0);
	KT_EQ(kt, kt_command(kt, "lose %u", kfi_fid_id(&kt->domain->fid)), 0);
	KT_EQ(kt, kt_stop(kt), 0);
	KT_EQ(kt, kt->first, 0);
	KT_EQ(kt, kfi_cq_read(kt->cq, &entry, 1), -KFI_EAVAIL);
	KT_EQ(kt, kfi_cq_readerr(kt->cq, &err, 0), 1);
	KT_EQ(kt, err.err, KFI_ENODEV);
	KT_EQ(kt, kfi_recv(kt->ep, NULL, 0, NULL, KFI_ADDR_UNSPEC, NULL),
	      -KFI_ENODEV);
}

const struct kt_case kt_wait_cases[] = {
	{ "stop_ends_wait", kt_stop_ends_wait },
	{ "stop_before_wait", kt_stop_before_wait },
	{ "stop_ends_cq_sread", kt_stop_ends_cq_sread },
	{ "stop_ends_eq_sread", kt_stop_ends_eq_sread },
	{ "stop_ends_cntr_wait", kt_stop_ends_cntr_wait },
	{ "stopped_but_ready", kt_stopped_but_ready },
	{ "completion_ends_wait", kt_completion_ends_wait },
	{ "never_early", kt_never_early },
	{ "none_refuses", kt_none_refuses },
	{ "member_refuses", kt_member_refuses },
	{ "borrowed_queue", kt_borrowed_queue },
	{ "getwait_codes", kt_getwait_codes },
	{ "busy", kt_busy },
	{ "loss_ends_wait", kt_loss_ends_wait },
	{ }
};
