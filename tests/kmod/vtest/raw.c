// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A peer that is no endpoint: RDMA CM and a queue pair of its own. It breaks the
 * connection with a write to no memory, and sends no disconnect request. Or it asks for
 * a connection and gives up.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <rdma/rdma_cm.h>

#include "vtest.h"

#define VR_RESOLVE_MS	2000	/* for RDMA CM to find an address or a route */
#define VR_NO_KEY	0x77	/* of no memory: index 0 is not given to any */
#define VR_CQES		4	/* the write, and two that drain */

/**
 * struct vr_peer - the peer
 * @id: its half of the connection, with the queue pair
 * @pd: its protection domain
 * @cq: of the queue pair, one of the device's shared CQs
 * @cqe: of the write
 * @status: of the write
 * @connected: the connection is made, or has failed
 * @written: the write is complete
 * @last: how connecting ended
 */
struct vr_peer {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_cqe cqe;
	enum ib_wc_status status;
	struct completion connected;
	struct completion written;
	enum rdma_cm_event_type last;
};

static int vr_create_qp(struct vr_peer *peer)
{
	struct ib_device *ib = peer->id->device;
	struct ib_qp_init_attr init = {
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = 1,
		},
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.qp_type = IB_QPT_RC,
	};

	peer->pd = ib_alloc_pd(ib, 0);
	if (IS_ERR(peer->pd))
		return PTR_ERR(peer->pd);
	peer->cq = ib_cq_pool_get(ib, VR_CQES, -1, IB_POLL_SOFTIRQ);
	if (IS_ERR(peer->cq))
		return PTR_ERR(peer->cq);
	init.send_cq = peer->cq;
	init.recv_cq = peer->cq;
	return rdma_create_qp(peer->id, peer->pd, &init);
}

static int vr_route_resolved(struct vr_peer *peer)
{
	struct rdma_conn_param param = {
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 6,
		.rnr_retry_count = 7,
	};
	int err;

	err = vr_create_qp(peer);
	return err ?: rdma_connect_locked(peer->id, &param);
}

/* Runs under the id's handler lock. An error would have RDMA CM destroy the id. */
static int vr_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct vr_peer *peer = id->context;
	int err = 1;	/* that is the end */

	if (event->event == RDMA_CM_EVENT_ADDR_RESOLVED)
		err = rdma_resolve_route(id, VR_RESOLVE_MS);
	else if (event->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
		err = vr_route_resolved(peer);
	if (err && !completion_done(&peer->connected)) {
		peer->last = event->event;
		complete_all(&peer->connected);
	}
	return 0;
}

static int vr_connect(struct vr_peer *peer, u16 port)
{
	struct sockaddr_in dst = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = vt_address(),
	};
	struct rdma_cm_id *id;

	init_completion(&peer->connected);
	init_completion(&peer->written);
	id = rdma_create_id(&init_net, vr_event, peer, RDMA_PS_TCP, IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	peer->id = id;
	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst,
				 VR_RESOLVE_MS);
}

static int vr_wait(struct completion *done)
{
	return wait_for_completion_timeout(done,
					   msecs_to_jiffies(VT_DEADLINE_MS)) ?
	       0 : -ETIMEDOUT;
}

static void vr_written(struct ib_cq *cq, struct ib_wc *wc)
{
	struct vr_peer *peer = container_of(wc->wr_cqe, struct vr_peer, cqe);

	peer->status = wc->status;
	complete(&peer->written);
}

/* Return: 0 once the other side has refused the write, and its queue pair is broken. */
static int vr_break(struct vr_peer *peer)
{
	u8 byte = 1;
	struct ib_sge sge = { .addr = (uintptr_t)&byte, .length = 1 };
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &peer->cqe,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED | IB_SEND_INLINE,
		},
		.rkey = VR_NO_KEY,
	};
	int err;

	peer->cqe.done = vr_written;
	err = ib_post_send(peer->id->qp, &wr.wr, NULL);
	if (!err)
		err = vr_wait(&peer->written);
	return err ?: peer->status == IB_WC_REM_ACCESS_ERR ? 0 : -EPROTO;
}

/* rdma_destroy_id() sends the disconnect request: this is for the end of a case. */
static void vr_close(struct vr_peer *peer)
{
	if (!peer->id)
		return;
	if (peer->id->qp) {
		ib_drain_qp(peer->id->qp);
		rdma_destroy_qp(peer->id);
	}
	rdma_destroy_id(peer->id);
	if (!IS_ERR_OR_NULL(peer->cq))
		ib_cq_pool_put(peer->cq, VR_CQES);
	if (!IS_ERR_OR_NULL(peer->pd))
		ib_dealloc_pd(peer->pd);
}

static int vr_open(struct vt *vt, struct vr_peer *peer)
{
	u16 port;
	int err;

	err = vt_listen(vt, &port);
	if (!err)
		err = vr_connect(peer, port);
	if (!err)
		err = vt_accept(vt);
	if (!err)
		err = vr_wait(&peer->connected);
	if (!err && peer->last != RDMA_CM_EVENT_ESTABLISHED)
		err = -ECONNABORTED;
	return err ?: vt_connected_event(&vt->b);
}

/* All that the broken connection completes here is a receive that is flushed. */
static void vt_peer_breaks_receives(struct vt *vt)
{
	struct kfi_cq_data_entry entry;
	struct vr_peer peer = { };
	int opened, posted, broken = 0, flushed = 0, event = 0;

	opened = vr_open(vt, &peer);
	posted = opened ?: kfi_recv(vt->b.ep, vt->b.buf, 8, NULL, 0, NULL);
	if (!posted) {
		broken = vr_break(&peer);
		flushed = vt_entry(&vt->b, &entry);
		event = vt_shutdown_event(&vt->b);
	}
	vr_close(&peer);
	VT_EQ(vt, opened, 0);
	VT_EQ(vt, posted, 0);
	VT_EQ(vt, broken, 0);
	VT_EQ(vt, flushed, -KFI_ECANCELED);
	VT_EQ(vt, event, 0);
}

/* Nothing is posted but what keepalive posts. */
static void vt_peer_breaks_probe(struct vt *vt)
{
	const size_t second = 1;
	struct vr_peer peer = { };
	int opened, set, broken = 0, event = 0;

	opened = vr_open(vt, &peer);
	set = opened ?: kfi_setopt(&vt->b.ep->fid, KFI_OPT_ENDPOINT,
				   KFI_OPT_KEEPALIVE, &second, sizeof(second));
	if (!set) {
		broken = vr_break(&peer);
		event = vt_shutdown_event(&vt->b);
	}
	vr_close(&peer);
	VT_EQ(vt, opened, 0);
	VT_EQ(vt, set, 0);
	VT_EQ(vt, broken, 0);
	VT_EQ(vt, event, 0);
}

/*
 * Return: KFI_CONNREQ with the handle of @peer's request; -ECONNREFUSED; another errno.
 */
static int vr_request(struct vt *vt, struct vr_peer *peer, u16 port,
		      struct kfid **handle)
{
	unsigned long end = jiffies + msecs_to_jiffies(VT_DEADLINE_MS);
	union {
		struct kfi_eq_cm_entry cm;
		u8 room[512];
	} buf;
	u32 event;
	int err;

	err = vr_connect(peer, port);
	while (!err && kfi_eq_read(vt->eq, &event, &buf, sizeof(buf), 0) < 0) {
		if (completion_done(&peer->connected))
			return -ECONNREFUSED;
		if (time_after(jiffies, end))
			err = -ETIMEDOUT;
		usleep_range(100, 200);
	}
	if (err)
		return err;
	*handle = buf.cm.info->handle;
	kfi_freeinfo(buf.cm.info);
	return event;
}

/* Until there is a place, or so long that there will be none. */
static int vr_request_in_time(struct vt *vt, struct vr_peer *peer, u16 port,
			      struct kfid **handle)
{
	unsigned long end = jiffies + msecs_to_jiffies(VT_DEADLINE_MS);
	int err;

	for (;;) {
		err = vr_request(vt, peer, port, handle);
		if (err != -ECONNREFUSED || time_after(jiffies, end))
			return err;
		vr_close(peer);
		memset(peer, 0, sizeof(*peer));
	}
}

/*
 * A place for one request. The first peer gives up, and the second one gets its place,
 * as soon as the listener has heard of it; the third one finds the place taken.
 */
static void vt_request_given_up(struct vt *vt)
{
	int err, first, second = -ENOENT, third = -ENOENT;
	struct vr_peer one = { }, two = { }, three = { };
	struct kfid *dead, *handle, *none;
	int rejected = -ENOENT, closed = -ENOENT;
	u16 port;

	vt->backlog = 1;
	err = vt_listen(vt, &port);
	first = err ?: vr_request(vt, &one, port, &dead);
	vr_close(&one);
	if (first == KFI_CONNREQ)
		second = vr_request_in_time(vt, &two, port, &handle);
	if (second == KFI_CONNREQ)
		third = vr_request(vt, &three, port, &none);
	vr_close(&three);
	vr_close(&two);
	if (first == KFI_CONNREQ)
		rejected = kfi_reject(vt->pep, dead, NULL, 0);
	if (second == KFI_CONNREQ)
		closed = kfi_close(handle);
	if (third == KFI_CONNREQ)
		kfi_close(none);
	VT_EQ(vt, first, KFI_CONNREQ);
	VT_EQ(vt, second, KFI_CONNREQ);
	VT_EQ(vt, third, -ECONNREFUSED);
	VT_EQ(vt, rejected, 0);
	VT_EQ(vt, closed, 0);
}

/* Return: 0 once there is an unread event, or once there is none; -ETIMEDOUT. */
static int vr_await_unread(struct vt *vt, bool wanted)
{
	unsigned long end = jiffies + msecs_to_jiffies(VT_DEADLINE_MS);
	u8 room[512];
	u32 event;

	while ((kfi_eq_read(vt->eq, &event, room, sizeof(room), KFI_PEEK) > 0) !=
	       wanted) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		usleep_range(100, 200);
	}
	return 0;
}

/* The same with a first request that is not read: its event goes with the place. */
static void vt_request_unread_given_up(struct vt *vt)
{
	struct vr_peer one = { }, two = { };
	int err, unread, gone = -ENOENT, second = -ENOENT;
	struct kfid *handle;
	u16 port;

	vt->backlog = 1;
	err = vt_listen(vt, &port);
	if (!err)
		err = vr_connect(&one, port);
	unread = err ?: vr_await_unread(vt, true);
	vr_close(&one);
	if (!unread)
		gone = vr_await_unread(vt, false);
	if (!gone)
		second = vr_request_in_time(vt, &two, port, &handle);
	vr_close(&two);
	VT_EQ(vt, unread, 0);
	VT_EQ(vt, gone, 0);
	VT_EQ(vt, second, KFI_CONNREQ);
	VT_EQ(vt, kfi_close(handle), 0);
}

/* A request that was read outlives its listener. The fabric does not close before it. */
static void vt_request_holds_fabric(struct vt *vt)
{
	int err, event, in_use = 0, rejected = -ENOENT;
	struct vr_peer peer = { };
	struct kfid *handle;
	u16 port;

	err = vt_listen(vt, &port);
	event = err ?: vr_request(vt, &peer, port, &handle);
	if (event == KFI_CONNREQ) {
		err = kfi_close(&vt->eq->fid);
		vt->eq = NULL;
		err = err ?: kfi_close(&vt->pep->fid);
		vt->pep = NULL;
		in_use = err ?: kfi_close(&vt->fabric->fid);
		if (in_use)
			rejected = kfi_close(handle);
		else
			vt->fabric = NULL;
	}
	vr_close(&peer);
	VT_EQ(vt, event, KFI_CONNREQ);
	VT_EQ(vt, in_use, -EBUSY);
	VT_EQ(vt, rejected, 0);
}

const struct vt_case vt_raw_cases[] = {
	{ "request_given_up", vt_request_given_up },
	{ "request_unread_given_up", vt_request_unread_given_up },
	{ "request_holds_fabric", vt_request_holds_fabric },
	{ "peer_breaks_receives", vt_peer_breaks_receives },
	{ "peer_breaks_probe", vt_peer_breaks_probe },
	{ }
};
