// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Messages over connected endpoints of kfabric; threads sleep in kfi_wait(). */
#include <linux/slab.h>

#include <kfi_cm.h>

#include "trip.h"

#define KB_PORT		"7475"
#define KB_PRIVATE_DATA	256

struct kb_msg_end {
	struct kfid_wait *wait;
	struct kfid_cq *cq;
	struct kfid_ep *ep;
	u8 *buf;		/* KB_TRIP_SIZE to send, as much to receive */
	struct kfid_mr *mr;
	int err;		/* of a send */
};

/* The second end connects to the first one. */
struct kb_msg_trip {
	struct kfi_info *info;		/* of the end that connects */
	struct kfi_info *request;	/* of the end that accepts */
	struct kfid_eq *eq;		/* of everything */
	struct kfid_pep *pep;
	struct kb_msg_end ends[2];
};

static int kb_msg_post_recv(struct kb_msg_end *end)
{
	return kfi_recv(end->ep, end->buf + KB_TRIP_SIZE, KB_TRIP_SIZE,
			kfi_mr_desc(end->mr), KFI_ADDR_UNSPEC, NULL);
}

static void kb_msg_send(struct kb_side *to)
{
	struct kb_msg_end *end = to->peer->end;
	int err = kfi_send(end->ep, end->buf, KB_TRIP_SIZE,
			   kfi_mr_desc(end->mr), KFI_ADDR_UNSPEC, NULL);

	if (err)
		WRITE_ONCE(end->err, err);
}

/* Of a send only an error is in the queue. */
static int kb_msg_receive(struct kb_side *me)
{
	struct kb_msg_end *end = me->end;
	struct kfi_cq_msg_entry entry;
	ssize_t n;
	int err;

	for (;;) {
		err = READ_ONCE(end->err) ?:
			kfi_wait(end->wait, me->game->timeout);
		n = kfi_cq_read(end->cq, &entry, 1);
		if (err || n != -KFI_EAGAIN)
			break;
		me->empty++;
	}
	if (err || n != 1)
		return err ?: -EIO;
	return kb_msg_post_recv(end);
}

static int kb_msg_getinfo(const char *addr, u64 flags, struct kfi_info **info)
{
	struct kfi_info *hints = kfi_allocinfo();
	int err = -ENOMEM;

	if (!hints)
		return err;
	hints->ep_attr->type = KFI_EP_MSG;
	hints->fabric_attr->prov_name = kstrdup("verbs", GFP_KERNEL);
	if (hints->fabric_attr->prov_name)
		err = kfi_getinfo(kfi_version(), addr, KB_PORT, flags, hints,
				  info);
	kfi_freeinfo(hints);
	return err;
}

static int kb_msg_queue(struct kb *kb, struct kb_msg_end *end)
{
	struct kfi_wait_attr attr = { .wait_obj = KFI_WAIT_QUEUE };
	int err = kfi_wait_open(kb->fabric, &attr, &end->wait);

	return err ?: kb_cq_open(kb, 0, end->wait, end, &end->cq);
}

static int kb_msg_endpoint(struct kb *kb, struct kb_msg_trip *trip,
			   struct kb_msg_end *end, struct kfi_info *info)
{
	int err;

	err = kfi_endpoint(kb->domain, info, &end->ep, end);
	if (!err)
		err = kfi_ep_bind(end->ep, &trip->eq->fid, 0);
	if (!err)
		err = kfi_ep_bind(end->ep, &end->cq->fid,
				  KFI_TRANSMIT | KFI_SELECTIVE_COMPLETION);
	if (!err)
		err = kfi_ep_bind(end->ep, &end->cq->fid, KFI_RECV);
	return err ?: kfi_enable(end->ep);
}

/* Ends with a posted receive, because the peer may send at once. */
static int kb_msg_end_open(struct kb *kb, struct kb_msg_trip *trip,
			   struct kb_msg_end *end, struct kfi_info *info)
{
	int err;

	end->buf = kzalloc(2 * KB_TRIP_SIZE, GFP_KERNEL);
	if (!end->buf)
		return -ENOMEM;
	err = kfi_mr_reg(kb->domain, end->buf, 2 * KB_TRIP_SIZE,
			 KFI_SEND | KFI_RECV, 0, 0, 0, &end->mr, NULL);
	if (!err)
		err = kb_msg_queue(kb, end);
	if (!err)
		err = kb_msg_endpoint(kb, trip, end, info);
	return err ?: kb_msg_post_recv(end);
}

/* Sleeps until the next event, which has to be @wanted. */
static int kb_msg_event(struct kb_msg_trip *trip, u32 wanted,
			struct kfi_info **request)
{
	/* RDMA CM adds private data to its messages. */
	union {
		struct kfi_eq_cm_entry cm;
		u8 room[sizeof(struct kfi_eq_cm_entry) + KB_PRIVATE_DATA];
	} buf;
	u32 event;
	ssize_t n;

	n = kfi_eq_sread(trip->eq, &event, &buf, sizeof(buf), KB_DEADLINE_MS,
			 0);
	if (n < 0)
		return n;
	if (event != wanted)
		return -EPROTO;
	if (request)
		*request = buf.cm.info;
	return 0;
}

static int kb_msg_listen(struct kb *kb, struct kb_msg_trip *trip,
			 const char *addr)
{
	struct kfi_eq_attr attr = { .wait_obj = KFI_WAIT_UNSPEC };
	int err;

	err = kb_msg_getinfo(addr, KFI_SOURCE, &kb->info);
	if (!err)
		err = kb_open_domain(kb);
	if (!err)
		err = kfi_eq_open(kb->fabric, &attr, &trip->eq, NULL, NULL);
	if (!err)
		err = kfi_passive_ep(kb->fabric, kb->info, &trip->pep, NULL);
	if (!err)
		err = kfi_pep_bind(trip->pep, &trip->eq->fid, 0);
	return err ?: kfi_listen(trip->pep);
}

static int kb_msg_connect(struct kb *kb, struct kb_msg_trip *trip,
			  const char *addr)
{
	struct kb_msg_end *ends = trip->ends;
	int err;

	err = kb_msg_getinfo(addr, 0, &trip->info);
	if (!err)
		err = kb_msg_end_open(kb, trip, &ends[1], trip->info);
	if (!err)
		err = kfi_connect(ends[1].ep, NULL, NULL, 0);
	if (!err)
		err = kb_msg_event(trip, KFI_CONNREQ, &trip->request);
	if (!err)
		err = kb_msg_end_open(kb, trip, &ends[0], trip->request);
	if (!err)
		err = kfi_accept(ends[0].ep, NULL, 0);
	if (!err)
		err = kb_msg_event(trip, KFI_CONNECTED, NULL);
	return err ?: kb_msg_event(trip, KFI_CONNECTED, NULL);
}

static int kb_msg_open(struct kb *kb, struct kb_side *sides, const char *addr)
{
	struct kb_msg_trip *trip = kzalloc(sizeof(*trip), GFP_KERNEL);
	int err, i;

	if (!trip)
		return -ENOMEM;
	for (i = 0; i < 2; i++)
		sides[i].end = &trip->ends[i];
	err = kb_msg_listen(kb, trip, addr);
	return err ?: kb_msg_connect(kb, trip, addr);
}

static void kb_msg_end_close(struct kb_msg_end *end)
{
	if (end->ep)
		WARN_ON(kfi_close(&end->ep->fid));
	if (end->cq)
		WARN_ON(kfi_close(&end->cq->fid));
	if (end->wait)
		WARN_ON(kfi_close(&end->wait->kfid));
	if (end->mr)
		WARN_ON(kfi_close(&end->mr->fid));
	kfree(end->buf);
}

static void kb_msg_close(struct kb *kb, struct kb_side *sides)
{
	struct kb_msg_trip *trip;

	if (!sides[0].end)
		return;
	trip = container_of(sides[0].end, struct kb_msg_trip, ends[0]);
	kb_msg_end_close(&trip->ends[0]);
	kb_msg_end_close(&trip->ends[1]);
	kfi_freeinfo(trip->request);
	kfi_freeinfo(trip->info);
	if (trip->pep)
		WARN_ON(kfi_close(&trip->pep->fid));
	if (trip->eq)
		WARN_ON(kfi_close(&trip->eq->fid));
	kfree(trip);
}

const struct kb_kind kb_trip_msg = {
	.name = "msg",
	.open = kb_msg_open,
	.close = kb_msg_close,
	.send = kb_msg_send,
	.receive = kb_msg_receive,
};
