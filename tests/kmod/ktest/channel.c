// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Completion channels of a ULP: requests, events, acks, closing. */
#include "ktest.h"

static int kt_open_channel(struct kt *kt)
{
	int err = kt_open(kt, KFI_WAIT_NONE);

	if (err)
		return err;
	err = kfi_comp_channel_open(kt->fabric, &kt->channel, kt);
	return err ?: kfi_cq_bind_channel(kt->cq, kt->channel);
}

static int kt_get(struct kt *kt, int timeout)
{
	void *context = NULL;
	struct kfid_cq *cq;
	int err;

	err = kfi_get_cq_event(kt->channel, &cq, &context, timeout);
	if (err)
		return err;
	return cq == kt->cq && context == kt ? 0 : -EBADR;
}

static int kt_in_get(struct kt *kt)
{
	return kt_get(kt, -1);
}

static int kt_inject(struct kt *kt, const char *options)
{
	return kt_command(kt, "inject %u recv %s", kt_ep_id(kt), options);
}

/* Asked for once, there is one event; and what its codes are. */
static void kt_channel_events(struct kt *kt)
{
	KT_EQ(kt, kt_open_channel(kt), 0);
	KT_EQ(kt, kt_get(kt, 0), -KFI_EAGAIN);
	KT_EQ(kt, kt_get(kt, 10), -KFI_ETIMEDOUT);
	KT_EQ(kt, kfi_get_cq_event(kt->channel, NULL, NULL, 0), -KFI_EINVAL);
	KT_EQ(kt, kfi_req_notify(kt->cq, KFI_CQ_NEXT_COMP), 0);
	KT_EQ(kt, kt_inject(kt, "context=softirq"), 0);
	KT_EQ(kt, kt_inject(kt, "context=softirq"), 0);
	KT_EQ(kt, kt_get(kt, -1), 0);
	KT_EQ(kt, kt_get(kt, 0), -KFI_EAGAIN);
	KT_EQ(kt, kfi_ack_cq_events(kt->cq, 2), -KFI_EINVAL);
	KT_EQ(kt, kfi_ack_cq_events(kt->cq, 1), 0);
}

static void kt_channel_requests(struct kt *kt)
{
	const u32 missed = KFI_CQ_REPORT_MISSED;

	KT_EQ(kt, kt_open_channel(kt), 0);
	KT_EQ(kt, kfi_req_notify(kt->cq, 0), -KFI_EINVAL);
	KT_EQ(kt, kfi_req_notify(kt->cq, missed), -KFI_EINVAL);
	KT_EQ(kt, kfi_req_notify(kt->cq, BIT(3)), -KFI_EINVAL);
	KT_EQ(kt, kfi_req_notify(kt->cq, KFI_CQ_SOLICITED | missed), 0);
	KT_EQ(kt, kt_inject(kt, ""), 0);
	KT_EQ(kt, kt_get(kt, 0), -KFI_EAGAIN);
	KT_EQ(kt, kfi_req_notify(kt->cq, KFI_CQ_SOLICITED | missed), 1);
	KT_EQ(kt, kt_inject(kt, "solicited=1"), 0);
	KT_EQ(kt, kt_get(kt, 0), 0);
	KT_EQ(kt, kfi_ack_cq_events(kt->cq, 1), 0);
}

/* A second channel, another fabric's, and a CQ that has none. */
static void kt_channel_refuses(struct kt *kt)
{
	struct kfid_comp_channel *other;
	struct kfid_fabric *fabric;
	struct kfid_cq *cq;
	int err;

	KT_EQ(kt, kt_open_channel(kt), 0);
	KT_EQ(kt, kfi_cq_bind_channel(kt->cq, kt->channel), -KFI_EINVAL);
	KT_EQ(kt, kfi_cq_open(kt->domain, NULL, &cq, NULL, NULL), 0);
	err = kfi_req_notify(cq, KFI_CQ_NEXT_COMP);
	KT_EQ(kt, kfi_close(&cq->fid), 0);
	KT_EQ(kt, err, -KFI_EINVAL);
	KT_EQ(kt, kfi_fabric(kt->info->fabric_attr, &fabric, NULL), 0);
	KT_EQ(kt, kfi_comp_channel_open(fabric, &other, NULL), 0);
	err = kfi_cq_bind_channel(kt->cq, other);
	KT_EQ(kt, kfi_close(&fabric->fid), -KFI_EBUSY);
	KT_EQ(kt, kfi_close(&other->fid), 0);
	KT_EQ(kt, kfi_close(&fabric->fid), 0);
	KT_EQ(kt, err, -KFI_EINVAL);
}

static void kt_channel_wakes(struct kt *kt)
{
	KT_EQ(kt, kt_open_channel(kt), 0);
	KT_EQ(kt, kfi_req_notify(kt->cq, KFI_CQ_NEXT_COMP), 0);
	KT_EQ(kt, kt_hire(kt, 0, kt_in_get), 0);
	KT_EQ(kt, kt_until_hand_asleep(kt, 0), 0);
	KT_EQ(kt, kt_inject(kt, "context=workqueue"), 0);
	KT_EQ(kt, kt_hand_result(kt, 0), 0);
	KT_EQ(kt, kfi_ack_cq_events(kt->cq, 1), 0);
}

static void kt_channel_stop(struct kt *kt)
{
	KT_EQ(kt, kt_open_channel(kt), 0);
	KT_EQ(kt, kt_start(kt, kt_in_get, false), 0);
	KT_EQ(kt, kt_until_asleep(kt), 0);
	KT_EQ(kt, kt_stop(kt), 0);
	KT_EQ(kt, kt->first, -EINTR);
	KT_EQ(kt, kt->second, -EINTR);
}

/* Its CQ keeps it; without, it goes under who sleeps in it. */
static void kt_channel_close(struct kt *kt)
{
	KT_EQ(kt, kt_open_channel(kt), 0);
	KT_EQ(kt, kfi_close(&kt->channel->fid), -KFI_EBUSY);
	KT_EQ(kt, kt_hire(kt, 0, kt_in_get), 0);
	KT_EQ(kt, kt_until_hand_asleep(kt, 0), 0);
	kt_close_cq(kt);
	KT_EQ(kt, kt_until_hand_asleep(kt, 0), 0);
	KT_EQ(kt, kfi_close(&kt->channel->fid), 0);
	kt->channel = NULL;
	KT_EQ(kt, kt_hand_result(kt, 0), -EBADF);
}

static int kt_in_close(struct kt *kt)
{
	return kfi_close(&kt->cq->fid);
}

/* The close sleeps; one who is told to stop leaves it, and it goes on later. */
static void kt_channel_acks(struct kt *kt)
{
	KT_EQ(kt, kt_open_channel(kt), 0);
	KT_EQ(kt, kfi_req_notify(kt->cq, KFI_CQ_NEXT_COMP), 0);
	KT_EQ(kt, kt_inject(kt, ""), 0);
	KT_EQ(kt, kt_get(kt, 0), 0);
	KT_EQ(kt, kfi_close(&kt->cq->fid), -KFI_EBUSY);
	KT_EQ(kt, kfi_req_notify(kt->cq, KFI_CQ_NEXT_COMP), 0);
	KT_EQ(kt, kt_inject(kt, ""), 0);
	kt_close_ep(kt);
	KT_EQ(kt, kt_start(kt, kt_in_close, false), 0);
	KT_EQ(kt, kt_until_asleep(kt), 0);
	KT_EQ(kt, kt_get(kt, 0), -KFI_EAGAIN);
	KT_EQ(kt, kt_stop(kt), 0);
	KT_EQ(kt, kt->first, -EINTR);
	KT_EQ(kt, kt->second, -EINTR);
	KT_EQ(kt, kfi_req_notify(kt->cq, KFI_CQ_NEXT_COMP), -KFI_EINVAL);
	KT_EQ(kt, kfi_ack_cq_events(kt->cq, 1), 0);
	KT_EQ(kt, kfi_close(&kt->cq->fid), 0);
	kt->cq = NULL;
}

const struct kt_case kt_channel_cases[] = {
	{ "channel_events", kt_channel_events },
	{ "channel_requests", kt_channel_requests },
	{ "channel_refuses", kt_channel_refuses },
	{ "channel_wakes", kt_channel_wakes },
	{ "channel_stop", kt_channel_stop },
	{ "channel_close", kt_channel_close },
	{ "channel_acks", kt_channel_acks },
	{ }
};
