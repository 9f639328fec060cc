// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What an endpoint has from its device: a queue pair and RDMA CM's id, from
 * enabling to giving them back.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "kfi_verbs.h"

/* 0 would mean 655 ms until a sender tries again; this is 0.64 ms. */
#define KFV_MIN_RNR_TIMER 12

static void kfv_conn_release(struct kref *ref)
{
	struct kfv_conn *conn = container_of(ref, struct kfv_conn, ref);

	mutex_destroy(&conn->ctl);
	mutex_destroy(&conn->lock);
	kfree(conn);
}

void kfv_conn_put(struct kfv_conn *conn)
{
	kref_put(&conn->ref, kfv_conn_release);
}

/**
 * kfv_id_destroy() - give a connection's id back, by which the peer is told
 * @dev: the device
 * @id: RDMA CM's half; its queue pair is gone
 *
 * One at a time. Where the net device is gone RDMA CM's last messages fail; and of
 * two that fail at a time rxe may return only one, so that RDMA CM waits for the
 * other one for ever, and so does who removes the device. Nothing that anybody
 * waits for may be left to do for the connection. It says goodbye itself: later
 * kernels do not wait for the message that destroying the id would send.
 *
 * Context: process; a work item, for it may take long.
 */
void kfv_id_destroy(struct kfv_device *dev, struct rdma_cm_id *id)
{
	mutex_lock(&dev->disconnect_lock);
	rdma_disconnect(id);
	rdma_destroy_id(id);
	mutex_unlock(&dev->disconnect_lock);
}

/*
 * Whatever the device still holds is given back here, however long it takes.
 * The queue pair goes before the id, as RDMA CM wants it.
 */
static void kfv_conn_destroy(struct work_struct *work)
{
	struct kfv_conn *conn = container_of(work, struct kfv_conn, destroy);
	struct kfv_pd *pd = conn->pd;

	if (conn->qp)
		ib_destroy_qp(conn->qp);
	if (conn->id)
		kfv_id_destroy(pd->dev, conn->id);
	if (conn->cq)
		ib_cq_pool_put(conn->cq, conn->nr_cqe);

	/* Destroying returned what kfv_conn_drain() did not get, if anything. */
	if (wait_for_completion_timeout(&conn->drained, KFV_DRAIN_TIME)) {
		kfv_queue_fini(&conn->tx);
		kfv_queue_fini(&conn->rx);
		kfv_conn_put(conn);
	} else {
		/* A late completion would find freed memory: leak it. */
		dev_err(&pd->dev->ib->dev, "kfi_verbs: %d operations are lost\n",
			atomic_read(&conn->posted));
	}
	kfv_pd_put(pd);
	module_put(THIS_MODULE);
}

static void kfv_conn_limits(struct kfv_conn *conn)
{
	const struct ib_device_attr *attrs = &conn->pd->dev->ib->attrs;

	conn->tx.max_sge = min3(KFV_MAX_SGE, attrs->max_send_sge,
				attrs->max_sge_rd);
	conn->rx.max_sge = min(KFV_MAX_SGE, attrs->max_recv_sge);
	conn->param.responder_resources = min(KFV_RD_ATOMIC,
					      attrs->max_qp_rd_atom);
	conn->param.initiator_depth = min(KFV_RD_ATOMIC,
					  attrs->max_qp_init_rd_atom);
	/*
	 * A peer that is not ready is retried for ever (7), a silent one is
	 * given up: some devices take 7 for "for ever" there too.
	 */
	conn->param.rnr_retry_count = 7;
	conn->param.retry_count = 6;
}

/**
 * kfv_conn_new() - begin the device half of an endpoint
 * @pd: device half of its domain
 * @tx_size: sends, reads and writes in flight
 * @rx_size: receives posted
 *
 * Context: process.
 * Return: the new half, with one reference, or NULL.
 */
struct kfv_conn *kfv_conn_new(struct kfv_pd *pd, size_t tx_size,
			      size_t rx_size)
{
	struct kfv_conn *conn = kzalloc(sizeof(*conn), GFP_KERNEL_ACCOUNT);

	if (!conn)
		return NULL;
	/* One for the endpoint, one for the final work item. */
	kref_init(&conn->ref);
	kref_get(&conn->ref);
	kfv_pd_get(pd);
	conn->pd = pd;
	mutex_init(&conn->ctl);
	mutex_init(&conn->lock);
	conn->state = KFV_IDLE;
	spin_lock_init(&conn->tx.lock);
	spin_lock_init(&conn->rx.lock);
	conn->tx.size = tx_size;
	conn->rx.size = rx_size;
	atomic_set(&conn->posted, 1);
	init_completion(&conn->drained);
	INIT_WORK(&conn->disconnect, kfv_cm_disconnect_work);
	INIT_WORK(&conn->destroy, kfv_conn_destroy);
	kfv_keepalive_init(conn);
	kfv_conn_limits(conn);
	return conn;
}

/* A peer's first message confirms a connection as well as its message does. */
static void kfv_qp_event(struct ib_event *event, void *context)
{
	struct kfv_conn *conn = context;

	if (event->event == IB_EVENT_COMM_EST && conn->id)
		rdma_notify(conn->id, event->event);
}

static int kfv_conn_create_qp(struct kfv_conn *conn)
{
	struct ib_qp_init_attr init = {
		.event_handler = kfv_qp_event,
		.qp_context = conn,
		.send_cq = conn->cq,
		.recv_cq = conn->cq,
		.cap = {
			.max_send_wr = conn->tx.size + KFV_SPARE_WR,
			.max_recv_wr = conn->rx.size + KFV_SPARE_WR,
			.max_send_sge = conn->tx.max_sge,
			.max_recv_sge = conn->rx.max_sge,
		},
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = conn->pd->port,
		.qp_access_flags = IB_ACCESS_REMOTE_READ |
				   IB_ACCESS_REMOTE_WRITE,
	};
	struct ib_qp *qp;
	int err;

	qp = ib_create_qp(conn->pd->ib, &init);
	if (IS_ERR(qp))
		return PTR_ERR(qp);
	/* Receives may be posted from now on. */
	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (err) {
		ib_destroy_qp(qp);
		return err;
	}
	conn->param.qp_num = qp->qp_num;
	conn->qp = qp;
	return 0;
}

/* Undoes kfv_conn_enable() before anything was posted. */
void kfv_conn_disable(struct kfv_conn *conn)
{
	if (conn->qp)
		ib_destroy_qp(conn->qp);
	if (conn->cq)
		ib_cq_pool_put(conn->cq, conn->nr_cqe);
	conn->qp = NULL;
	conn->cq = NULL;
	kfv_queue_fini(&conn->tx);
	kfv_queue_fini(&conn->rx);
}

/**
 * kfv_conn_enable() - make the queue pair
 * @conn: of an endpoint that is not enabled
 *
 * Context: process; caller holds conn->ctl.
 * Return: 0 or a negative errno.
 */
int kfv_conn_enable(struct kfv_conn *conn)
{
	struct ib_cq *cq;
	int err;

	err = kfv_queue_init(conn, &conn->tx, true);
	if (!err)
		err = kfv_queue_init(conn, &conn->rx, false);
	if (err)
		goto err;

	/* Each operation has its entry reserved: the CQ cannot overrun. */
	conn->nr_cqe = conn->tx.size + conn->rx.size + 2 * KFV_SPARE_WR;
	cq = ib_cq_pool_get(conn->pd->dev->ib, conn->nr_cqe, -1,
			    IB_POLL_SOFTIRQ);
	if (IS_ERR(cq)) {
		err = PTR_ERR(cq);
		goto err;
	}
	conn->cq = cq;
	err = kfv_conn_create_qp(conn);
	if (err)
		goto err;
	return 0;

err:
	kfv_conn_disable(conn);
	return err;
}

static int kfv_conn_modify(struct kfv_conn *conn, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };
	int mask, err;

	err = rdma_init_qp_attr(conn->id, &attr, &mask);
	if (err)
		return err;
	if (state == IB_QPS_RTR) {
		attr.max_dest_rd_atomic = conn->param.responder_resources;
		attr.min_rnr_timer = KFV_MIN_RNR_TIMER;
	} else if (state == IB_QPS_RTS) {
		attr.max_rd_atomic = conn->param.initiator_depth;
	}
	return ib_modify_qp(conn->qp, &attr, mask);
}

/**
 * kfv_conn_rts() - let the queue pair talk to the peer that RDMA CM found
 * @conn: a connection about to be established
 *
 * RDMA CM does not know our queue pair, since that exists before an id has a
 * device; so its transitions are made here.
 *
 * Context: process; caller holds conn->lock.
 * Return: 0 or a negative errno.
 */
int kfv_conn_rts(struct kfv_conn *conn)
{
	int err;

	err = kfv_conn_modify(conn, IB_QPS_INIT);
	if (!err)
		err = kfv_conn_modify(conn, IB_QPS_RTR);
	if (!err)
		err = kfv_conn_modify(conn, IB_QPS_RTS);
	return err;
}

/* What is posted comes back flushed. Caller holds conn->lock or conn->ctl. */
void kfv_conn_error(struct kfv_conn *conn)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	if (conn->qp)
		ib_modify_qp(conn->qp, &attr, IB_QP_STATE);
}

/**
 * kfv_conn_queue_disconnect() - an operation has failed, so the connection has
 * @conn: the connection
 *
 * The queue pair is in its error state; the peer must hear of it.
 *
 * Context: any; @conn is kept alive by the caller.
 */
void kfv_conn_queue_disconnect(struct kfv_conn *conn)
{
	if (atomic_xchg(&conn->failed, 1))
		return;
	kref_get(&conn->ref);
	kfv_queue_work(&conn->disconnect);
}

struct kfv_marker {
	struct ib_cqe cqe;
	struct kfv_conn *conn;
};

static void kfv_marker_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfv_marker *marker = container_of(wc->wr_cqe, struct kfv_marker,
						 cqe);
	struct kfv_conn *conn = marker->conn;

	kfree(marker);
	kfv_posted_put(conn);
}

static struct kfv_marker *kfv_marker_new(struct kfv_conn *conn)
{
	struct kfv_marker *marker = kmalloc(sizeof(*marker), GFP_KERNEL);

	if (!marker)
		return NULL;
	marker->cqe.done = kfv_marker_done;
	marker->conn = conn;
	atomic_inc(&conn->posted);
	return marker;
}

/*
 * A queue pair in its error state returns what is posted, in order: when the
 * markers are back, so is everything, and the device has left the buffers.
 */
static void kfv_post_markers(struct kfv_conn *conn)
{
	struct ib_rdma_wr tx = { .wr.opcode = IB_WR_RDMA_WRITE };
	struct ib_recv_wr rx = { };
	struct kfv_marker *marker;

	marker = kfv_marker_new(conn);
	if (marker) {
		rx.wr_cqe = &marker->cqe;
		if (ib_post_recv(conn->qp, &rx, NULL)) {
			kfree(marker);
			kfv_posted_put(conn);
		}
	}
	marker = kfv_marker_new(conn);
	if (marker) {
		tx.wr.wr_cqe = &marker->cqe;
		if (ib_post_send(conn->qp, &tx.wr, NULL)) {
			kfree(marker);
			kfv_posted_put(conn);
		}
	}
}

static void kfv_conn_drain(struct kfv_conn *conn)
{
	if (conn->qp) {
		kfv_conn_error(conn);
		kfv_post_markers(conn);
	}
	kfv_posted_put(conn);
	if (wait_for_completion_timeout(&conn->drained, KFV_DRAIN_TIME))
		return;

	dev_err(&conn->pd->dev->ib->dev,
		"kfi_verbs: the device does not return %d operations\n",
		atomic_read(&conn->posted));
	/* The endpoint is about to go: no report may be under way. */
	synchronize_srcu(&kfv_srcu);
}

/**
 * kfv_conn_stop() - the endpoint is closed or its device goes
 * @conn: the connection; nothing happens if it is stopped already
 *
 * Operations in flight are dropped without a completion. When this returns the
 * device is done with their buffers and nothing more is reported; what it needs
 * longer for is left to a work item. The peer is told but not waited for.
 *
 * Context: process; caller holds conn->ctl, and nobody posts.
 */
void kfv_conn_stop(struct kfv_conn *conn)
{
	enum kfv_state state;

	mutex_lock(&conn->lock);
	state = conn->state;
	WRITE_ONCE(conn->state, KFV_STOPPED);
	WRITE_ONCE(conn->ep_gone, true);
	mutex_unlock(&conn->lock);
	if (state == KFV_STOPPED)
		return;

	kfv_keepalive_stop(conn);
	/* Else the peer is told by kfv_id_destroy(). */
	if ((state == KFV_CONNECTED || state == KFV_ACCEPTED) &&
	    !kfv_gone(conn->pd->dev))
		rdma_disconnect(conn->id);
	kfv_conn_drain(conn);
	kfv_queue_work(&conn->destroy);
}
