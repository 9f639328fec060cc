// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The device's objects of a connection: protection domain, queue pair, wire
 * buffers and registrations; and the completion handler of receives.
 *
 * All are made in one CM callback, when the address of the peer is resolved or
 * its request has arrived, so sending and receiving allocate nothing of the
 * device. All are freed in kfr_conn_destroy(), after the queue pair is drained;
 * in between they are constant.
 *
 * Receive buffers are on no list: each is posted, or in its completion handler,
 * which posts it again as soon as kfr_receive() has copied what it keeps.
 */
#include <linux/slab.h>

#include "../../compat.h"
#include "rdm.h"

#define KFR_WIRES	(KFR_RXBUFS + KFR_TXBUFS)
#define KFR_CQE		(KFR_SQ + KFR_RXBUFS)
#define KFR_RNR_TIMER	12	/* 0.64 ms; 0 would be 655 ms */

/*
 * Gives a receive buffer to the device. Not before kfr_receive() is done with
 * it.
 */
static int kfr_post_recv(struct kfr_conn *conn, struct kfr_wire *wire)
{
	const struct ib_pd *pd = conn->pd;
	struct ib_sge sge[2] = {
		{ wire->hdr_dma, sizeof(*wire->hdr), pd->local_dma_lkey },
		{ wire->page_dma, KFR_EAGER, pd->local_dma_lkey },
	};
	struct ib_recv_wr wr = {
		.wr_cqe = &wire->cqe,
		.sg_list = sge,
		.num_sge = ARRAY_SIZE(sge),
	};
	int err;

	atomic_inc(&conn->posted);
	err = ib_post_recv(conn->qp, &wr, NULL);
	if (err)
		kfr_posted_put(conn);
	return err;
}

/*
 * An RDMA write with immediate data takes a receive, too, but fills no buffer. A message
 * has no immediate data, and invalidates nothing.
 */
static int kfr_recv_one(struct kfr_conn *conn, struct kfr_wire *wire,
			const struct ib_wc *wc)
{
	struct ib_device *ib = conn->node->dev->ib;
	int err;

	if (wc->opcode != IB_WC_RECV ||
	    wc->wc_flags & (IB_WC_WITH_IMM | IB_WC_WITH_INVALIDATE))
		return -EPROTO;
	ib_dma_sync_single_for_cpu(ib, wire->hdr_dma, sizeof(*wire->hdr),
				   DMA_FROM_DEVICE);
	ib_dma_sync_single_for_cpu(ib, wire->page_dma, KFR_EAGER,
				   DMA_FROM_DEVICE);
	kfr_conn_confirmed(conn);
	err = kfr_receive(conn, wire->hdr, wire->page, wc->byte_len);
	ib_dma_sync_single_for_device(ib, wire->hdr_dma, sizeof(*wire->hdr),
				      DMA_FROM_DEVICE);
	ib_dma_sync_single_for_device(ib, wire->page_dma, KFR_EAGER,
				      DMA_FROM_DEVICE);
	return err;
}

/*
 * Completion handler of receives, in softirq context. Completions of a CQ are
 * handled one at a time, and all receives of a connection have one CQ: so
 * messages are handled in order. @posted, dropped last, keeps the connection
 * and its buffers.
 */
static void kfr_recv_done_wc(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfr_wire *wire = container_of(wc->wr_cqe, struct kfr_wire, cqe);
	struct kfr_conn *conn = wire->conn;
	int err;

	if (wc->status != IB_WC_SUCCESS) {
		kfr_wc_failed(conn, wc->status);
	} else if (READ_ONCE(conn->state) != KFR_DEAD) {
		err = kfr_recv_one(conn, wire, wc);
		if (err)
			kfr_conn_abort(conn, EIO, KFR_ERR_PROTOCOL);
		else if (kfr_post_recv(conn, wire))
			kfr_conn_abort(conn, EIO, KFR_ERR_DEVICE);
	}
	kfr_posted_put(conn);
}

/* Receives come first in both arrays. */
static struct kfr_wire *kfr_wire_at(struct kfr_conn *conn, unsigned int i)
{
	return i < KFR_RXBUFS ? &conn->rxb[i] : &conn->txb[i - KFR_RXBUFS];
}

static int kfr_wire_init(struct kfr_conn *conn, unsigned int i)
{
	struct ib_device *ib = conn->node->dev->ib;
	struct kfr_wire *wire = kfr_wire_at(conn, i);
	bool rx = i < KFR_RXBUFS;

	wire->conn = conn;
	wire->cqe.done = rx ? kfr_recv_done_wc : kfr_wire_done;
	INIT_LIST_HEAD(&wire->link);
	wire->hdr = &conn->hdrs[i];
	wire->hdr_dma = conn->hdrs_dma + i * sizeof(*wire->hdr);
	wire->page = alloc_page(GFP_KERNEL);
	if (!wire->page)
		return -ENOMEM;
	wire->page_dma = ib_dma_map_page(ib, wire->page, 0, PAGE_SIZE,
					 rx ? DMA_FROM_DEVICE : DMA_TO_DEVICE);
	if (ib_dma_mapping_error(ib, wire->page_dma)) {
		__free_page(wire->page);
		wire->page = NULL;
		return -ENOMEM;
	}
	if (!rx)
		list_add_tail(&wire->link, &conn->free_wire);
	return 0;
}

/* Also after a failed kfr_wires_make(): NULL marks what was not made. */
static void kfr_wires_free(struct kfr_conn *conn)
{
	struct ib_device *ib = conn->node->dev->ib;
	struct kfr_wire *wire;
	unsigned int i;

	for (i = 0; conn->rxb && i < KFR_WIRES; i++) {
		wire = kfr_wire_at(conn, i);
		if (!wire->page)
			continue;
		ib_dma_unmap_page(ib, wire->page_dma, PAGE_SIZE,
				  i < KFR_RXBUFS ? DMA_FROM_DEVICE :
						   DMA_TO_DEVICE);
		__free_page(wire->page);
	}
	if (conn->hdrs_dma)
		ib_dma_unmap_single(ib, conn->hdrs_dma,
				    KFR_WIRES * sizeof(*conn->hdrs),
				    DMA_BIDIRECTIONAL);
	kfree(conn->hdrs);
	kvfree(conn->rxb);
}

static int kfr_wires_make(struct kfr_conn *conn)
{
	struct ib_device *ib = conn->node->dev->ib;
	unsigned int i;
	u64 dma;
	int err;

	conn->rxb = kvcalloc(KFR_WIRES, sizeof(*conn->rxb), GFP_KERNEL);
	if (!conn->rxb)
		return -ENOMEM;
	/* Set before anything can fail: kfr_wires_free() uses both. */
	conn->txb = conn->rxb + KFR_RXBUFS;
	conn->hdrs = kcalloc(KFR_WIRES, sizeof(*conn->hdrs), GFP_KERNEL);
	if (!conn->hdrs)
		return -ENOMEM;
	dma = ib_dma_map_single(ib, conn->hdrs, KFR_WIRES * sizeof(*conn->hdrs),
				DMA_BIDIRECTIONAL);
	if (ib_dma_mapping_error(ib, dma))
		return -ENOMEM;
	conn->hdrs_dma = dma;
	for (i = 0; i < KFR_WIRES; i++) {
		err = kfr_wire_init(conn, i);
		if (err)
			return err;
	}
	conn->nwire = KFR_TXBUFS;
	return 0;
}

static int kfr_shares_make(struct kfr_conn *conn)
{
	struct kfr_lane *lane;
	unsigned int i;

	conn->shares = kvcalloc(KFR_SHARES, sizeof(*conn->shares), GFP_KERNEL);
	if (!conn->shares)
		return -ENOMEM;
	for (i = 0; i < KFR_SHARES * KFR_LANES; i++) {
		lane = &conn->shares[i / KFR_LANES].lanes[i % KFR_LANES];
		INIT_LIST_HEAD(&lane->waiting);
		INIT_LIST_HEAD(&lane->turn);
	}
	return 0;
}

static void kfr_regs_free(struct kfr_conn *conn)
{
	unsigned int i;

	for (i = 0; conn->regs && i < KFR_MRS; i++)
		if (conn->regs[i].mr)
			ib_dereg_mr(conn->regs[i].mr);
	kfree(conn->regs);
	kvfree(conn->shares);
}

static int kfr_regs_make(struct kfr_conn *conn)
{
	const struct kfr_node *node = conn->node;
	u32 pages = min_t(u32, KFV_MR_PAGES,
			  node->dev->ib->attrs.max_fast_reg_page_list_len);
	struct ib_mr *mr;
	unsigned int i;
	int err;

	err = kfr_shares_make(conn);
	if (err)
		return err;
	conn->regs = kcalloc(KFR_MRS, sizeof(*conn->regs), GFP_KERNEL);
	if (!conn->regs)
		return -ENOMEM;
	conn->reg_cqe.done = kfr_reg_done;
	for (i = 0; i < KFR_MRS; i++) {
		mr = ib_alloc_mr(conn->pd, IB_MR_TYPE_MEM_REG,
				 kfi_mr_room(node->dev->ib, pages));
		if (IS_ERR(mr))
			return PTR_ERR(mr);
		conn->regs[i].mr = mr;
		list_add_tail(&conn->regs[i].link, &conn->free_regs);
	}
	conn->nregs_free = KFR_MRS;
	return 0;
}

static int kfr_ctls_make(struct kfr_conn *conn)
{
	unsigned int i;

	conn->ctls = kvcalloc(KFR_CTLS_MAX, sizeof(*conn->ctls), GFP_KERNEL);
	if (!conn->ctls)
		return -ENOMEM;
	for (i = 0; i < KFR_CTLS_MAX; i++)
		list_add_tail(&conn->ctls[i].item.link, &conn->free_ctls);
	return 0;
}

/*
 * A message arrived before ESTABLISHED: RDMA CM completes the handshake by
 * this.
 */
static void kfr_qp_event(struct ib_event *event, void *context)
{
	struct kfr_conn *conn = context;

	if (event->event == IB_EVENT_COMM_EST && conn->id)
		rdma_notify(conn->id, event->event);
}

/*
 * There are receives for a window of messages, for as many longer ones as have
 * registrations, and for replies, so that a late reader leaves none without. The device
 * would repeat it, and rxe would repeat registrations with it, which fails.
 */
static int kfr_qp_create(struct kfr_conn *conn, struct rdma_cm_id *id)
{
	const struct kfr_node *node = conn->node;
	const struct ib_device_attr *attrs = &node->dev->ib->attrs;
	struct ib_qp_init_attr init = {
		.event_handler = kfr_qp_event,
		.qp_context = conn,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.qp_type = IB_QPT_RC,
		.cap = {
			.max_send_wr = KFR_SQ,
			.max_recv_wr = KFR_RXBUFS,
			.max_recv_sge = 2,
		},
	};
	int err;

	conn->max_sge = min3(KFV_MAX_SGE, attrs->max_send_sge,
			     attrs->max_sge_rd);
	init.cap.max_send_sge = conn->max_sge;
	conn->cq = ib_cq_pool_get(node->dev->ib, KFR_CQE, -1, IB_POLL_SOFTIRQ);
	if (IS_ERR(conn->cq)) {
		err = PTR_ERR(conn->cq);
		conn->cq = NULL;
		return err;
	}
	init.send_cq = conn->cq;
	init.recv_cq = conn->cq;
	err = rdma_create_qp(id, conn->pd, &init);
	if (err)
		return err;
	conn->qp = id->qp;
	conn->sq_free = KFR_SQ;
	conn->data_free = KFR_DATA_WRS;
	return rdma_set_min_rnr_timer(id, KFR_RNR_TIMER);
}

/*
 * A protection domain for each connection: keys of registrations can be
 * guessed, and a guessed key of another connection's registration must not
 * work.
 */
static int kfr_pd_make(struct kfr_conn *conn)
{
	struct ib_pd *pd = ib_alloc_pd(conn->node->dev->ib, 0);

	if (IS_ERR(pd))
		return PTR_ERR(pd);
	conn->pd = pd;
	return 0;
}

/**
 * kfr_qp_make() - make the device's objects for a connection
 * @conn: the connection, not up yet
 * @id: RDMA CM's object, which has a device
 *
 * On failure, kfr_qp_free() frees the objects that were made.
 *
 * Context: CM callback: process, may sleep, under the handler lock of @id.
 * Return: 0 or a negative errno.
 */
int kfr_qp_make(struct kfr_conn *conn, struct rdma_cm_id *id)
{
	unsigned int i;
	int err;

	err = kfr_pd_make(conn);
	if (!err)
		err = kfr_wires_make(conn);
	if (!err)
		err = kfr_regs_make(conn);
	if (!err)
		err = kfr_ctls_make(conn);
	if (!err)
		err = kfr_qp_create(conn, id);
	for (i = 0; !err && i < KFR_RXBUFS; i++)
		err = kfr_post_recv(conn, &conn->rxb[i]);
	return err;
}

/**
 * kfr_qp_free() - free the device's objects of a connection
 * @conn: dead; its queue pair was destroyed
 *
 * If the drain has failed, wire buffers are leaked: a late completion would use
 * them.
 *
 * Context: process, the connection's work item; no lock needed.
 */
void kfr_qp_free(struct kfr_conn *conn)
{
	kfr_regs_free(conn);
	kvfree(conn->ctls);
	if (conn->pd)
		ib_dealloc_pd(conn->pd);
	if (conn->cq)
		ib_cq_pool_put(conn->cq, KFR_CQE);
	if (completion_done(&conn->drained))
		kfr_wires_free(conn);
}
