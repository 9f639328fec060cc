// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Messages by the verbs of the kernel alone, as a ULP that has no kfabric sends
 * them: a completion handler wakes the thread, which sleeps in wait_event().
 */
#include <linux/slab.h>
#include <linux/wait.h>

#include "raw.h"
#include "trip.h"

/* Each such send is signalled, so that its queue entries can be used again. */
#define KB_SIGNAL_EACH	16

struct kb_raw_end {
	struct kb_raw *raw;
	struct ib_qp *qp;
	u8 *buf;		/* KB_TRIP_SIZE to send, as much to receive */
	u64 dma;
	struct ib_cqe sent;
	struct ib_cqe got;
	wait_queue_head_t head;
	atomic_t mail;		/* arrived and not yet received */
	unsigned int sends;
	int err;
};

struct kb_raw_trip {
	struct kb_raw raw;
	struct kb_raw_end ends[2];
};

static void kb_raw_end_fail(struct kb_raw_end *end, int err)
{
	WRITE_ONCE(end->err, err);
	wake_up(&end->head);
}

static void kb_raw_sent(struct ib_cq *cq, struct ib_wc *wc)
{
	if (wc->status != IB_WC_SUCCESS)
		kb_raw_end_fail(container_of(wc->wr_cqe, struct kb_raw_end,
					     sent), -EIO);
}

static void kb_raw_got(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kb_raw_end *end = container_of(wc->wr_cqe, struct kb_raw_end,
					      got);

	if (wc->status != IB_WC_SUCCESS)
		return kb_raw_end_fail(end, -EIO);
	atomic_inc(&end->mail);
	wake_up(&end->head);
}

static int kb_raw_post_recv(struct kb_raw_end *end)
{
	struct ib_sge sge = {
		.addr = end->dma + KB_TRIP_SIZE,
		.length = KB_TRIP_SIZE,
		.lkey = end->raw->pd->local_dma_lkey,
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &end->got,
		.sg_list = &sge,
		.num_sge = 1,
	};

	return ib_post_recv(end->qp, &wr, NULL);
}

static void kb_raw_send(struct kb_side *to)
{
	struct kb_raw_end *end = to->peer->end;
	struct ib_sge sge = {
		.addr = end->dma,
		.length = KB_TRIP_SIZE,
		.lkey = end->raw->pd->local_dma_lkey,
	};
	struct ib_send_wr wr = {
		.opcode = IB_WR_SEND,
		.wr_cqe = &end->sent,
		.sg_list = &sge,
		.num_sge = 1,
	};
	int err;

	if (!(++end->sends % KB_SIGNAL_EACH))
		wr.send_flags = IB_SEND_SIGNALED;
	err = ib_post_send(end->qp, &wr, NULL);
	if (err)
		kb_raw_end_fail(end, err);
}

static bool kb_raw_ready(struct kb_raw_end *end)
{
	return atomic_read(&end->mail) || READ_ONCE(end->err);
}

static int kb_raw_wait(struct kb_raw_end *end, int timeout)
{
	if (timeout < 0) {
		wait_event(end->head, kb_raw_ready(end));
		return 0;
	}
	return wait_event_hrtimeout(end->head, kb_raw_ready(end),
				    ms_to_ktime(timeout));
}

static int kb_raw_receive(struct kb_side *me)
{
	struct kb_raw_end *end = me->end;
	int err = kb_raw_wait(end, me->game->timeout);

	if (err || end->err)
		return err ?: end->err;
	atomic_dec(&end->mail);
	return kb_raw_post_recv(end);
}

static int kb_raw_end_open(struct kb_raw *raw, struct kb_raw_end *end, int i)
{
	end->raw = raw;
	end->qp = raw->qp[i];
	end->sent.done = kb_raw_sent;
	end->got.done = kb_raw_got;
	init_waitqueue_head(&end->head);
	end->buf = kzalloc(2 * KB_TRIP_SIZE, GFP_KERNEL);
	if (!end->buf)
		return -ENOMEM;
	end->dma = ib_dma_map_single(raw->id->device, end->buf,
				     2 * KB_TRIP_SIZE, DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(raw->id->device, end->dma)) {
		end->dma = 0;
		return -ENOMEM;
	}
	return kb_raw_post_recv(end);
}

static int kb_raw_trip_open(struct kb *kb, struct kb_side *sides,
			    const char *addr)
{
	struct kb_raw_trip *trip = kzalloc(sizeof(*trip), GFP_KERNEL);
	int err, i;

	if (!trip)
		return -ENOMEM;
	for (i = 0; i < 2; i++)
		sides[i].end = &trip->ends[i];
	err = kb_raw_open(&trip->raw, addr);
	for (i = 0; !err && i < 2; i++)
		err = kb_raw_end_open(&trip->raw, &trip->ends[i], i);
	return err;
}

static void kb_raw_trip_close(struct kb *kb, struct kb_side *sides)
{
	struct kb_raw_trip *trip;
	struct kb_raw_end *end;
	int i;

	if (!sides[0].end)
		return;
	trip = container_of(sides[0].end, struct kb_raw_trip, ends[0]);
	kb_raw_drain(&trip->raw);
	for (i = 0; i < 2; i++) {
		end = &trip->ends[i];
		if (end->dma)
			ib_dma_unmap_single(trip->raw.id->device, end->dma,
					    2 * KB_TRIP_SIZE,
					    DMA_BIDIRECTIONAL);
		kfree(end->buf);
	}
	kb_raw_close(&trip->raw);
	kfree(trip);
}

const struct kb_kind kb_trip_raw = {
	.name = "raw",
	.open = kb_raw_trip_open,
	.close = kb_raw_trip_close,
	.send = kb_raw_send,
	.receive = kb_raw_receive,
};
