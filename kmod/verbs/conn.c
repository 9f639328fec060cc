// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The device half of an endpoint: a queue pair and RDMA CM's id.
 *
 * References: the endpoint holds one from open to close. The final work item
 * (kfv_conn.destroy) holds one from the beginning, because it must be able to run
 * without allocating anything. kfv_conn.disconnect holds one while it is queued.
 * Posted operations hold none: kfv_conn.posted counts them, and the final work item
 * does not drop its reference before that count is 0.
 *
 * Teardown, in this order:
 *
 *  1. kfv_conn_stop() sets KFV_STOPPED and ep_gone: no event and no completion is
 *     reported any more, and no keepalive is started.
 *  2. It drains: the device has left the ULP's buffers, and kfi_close() may return.
 *     If the device does not return all operations in time,
 *     the queue pair is destroyed here, however long that takes.
 *  3. kfv_conn_destroy() does the slow part: the queue pair, and then, when it is the
 *     owner's turn (ids.c), the id and the room in the CQ. An id is destroyed after its
 *     queue pair, whose event handler uses it.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "rdm/rdm.h"

/* Delay until a sender tries again: 12 stands for 0.64 ms, 0 for 655 ms. */
#define KFV_MIN_RNR_TIMER 12

/*
 * An endpoint counts for at least so many entries of a CQ. RDMA CM has an address handle
 * for each that connects, and rxe has 32767 of them: with 4096 endpoints, a user leaves
 * most of them to others.
 */
#define KFV_MIN_CQES 256

static unsigned int max_user_cqes = 1 << 20;
module_param(max_user_cqes, uint, 0644);
MODULE_PARM_DESC(max_user_cqes, "entries in the CQs of a device that connected endpoints of one user reserve, at least 256 each");

static void kfv_conn_release(struct kref *ref)
{
	struct kfv_conn *conn = container_of(ref, struct kfv_conn, ref);

	mutex_destroy(&conn->ctl);
	mutex_destroy(&conn->lock);
	kfree(conn);
}

/**
 * kfv_conn_put() - give up a reference
 * @conn: the connection; the last reference frees it
 *
 * Context: process.
 */
void kfv_conn_put(struct kfv_conn *conn)
{
	kref_put(&conn->ref, kfv_conn_release);
}

/* How many entries of a CQ an endpoint counts for. */
static unsigned int kfv_conn_cqes(const struct kfv_conn *conn)
{
	return max_t(unsigned int, conn->nr_cqe, KFV_MIN_CQES);
}

/**
 * kfv_conn_drop_request() - the request that a connection has taken over counts no more
 * @conn: of an endpoint that was enabled, or goes
 *
 * Context: process; caller holds conn->ctl, or has the last reference.
 */
void kfv_conn_drop_request(struct kfv_conn *conn)
{
	if (conn->asker)
		kfv_uncount(&conn->pd->dev->waiting, conn->asker, 1);
	conn->asker = 0;
}

/*
 * Room for every operation is reserved before any is posted. A shared CQ that overran
 * would lose completions of other endpoints, too: rxe_cq_post() drops an entry that finds
 * the CQ full.
 *
 * The device makes new CQs where no other one has room, charges them to no user and keeps
 * them as long as it lives. Hence the limit.
 */
static int kfv_conn_get_cq(struct kfv_conn *conn)
{
	struct kfv_device *dev = conn->pd->dev;
	u64 owner = conn->ep->domain->base.owner;
	struct ib_cq *cq;
	int err;

	lockdep_assert_held(&conn->ctl);
	conn->nr_cqe = conn->tx.size + conn->rx.size + 2 * KFV_SPARE_WR;
	if (owner >= KFI_OWNER_USER) {
		err = kfv_count(&dev->cqes, owner, kfv_conn_cqes(conn),
				READ_ONCE(max_user_cqes), GFP_KERNEL);
		if (err)
			return err == -EAGAIN ? -EMFILE : err;
		conn->user = owner;
	}
	cq = ib_cq_pool_get(dev->ib, conn->nr_cqe, -1, IB_POLL_SOFTIRQ);
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	conn->cq = cq;
	return 0;
}

/* The mirror, also after an error. The caller holds ctl, or has the last reference. */
static void kfv_conn_put_cq(struct kfv_conn *conn)
{
	if (conn->cq)
		ib_cq_pool_put(conn->cq, conn->nr_cqe);
	if (conn->user)
		kfv_uncount(&conn->pd->dev->cqes, conn->user,
			    kfv_conn_cqes(conn));
	conn->cq = NULL;
	conn->user = 0;
}

/*
 * The last step, when it is the owner's turn; directly without an id. Counts end here, as
 * the id has an address handle of the device. The room in the CQ is given back last:
 * ib_destroy_qp() may have completed operations (rxe flushes in rxe_qp_do_cleanup()).
 */
static void kfv_conn_free(struct kfv_turn *turn)
{
	struct kfv_conn *conn = container_of(turn, struct kfv_conn, turn);
	struct kfv_pd *pd = conn->pd;

	if (conn->id)
		kfv_id_destroy(pd->dev, conn->id);
	if (conn->asks)
		kfv_answered(pd->dev, conn->user);
	kfv_conn_drop_request(conn);
	kfv_conn_put_cq(conn);

	if (completion_done(&conn->drained)) {
		kfv_queue_fini(&conn->tx);
		kfv_queue_fini(&conn->rx);
		kfv_conn_put(conn);
	} else {
		/* A late completion would use freed memory: leak the connection. */
		dev_err(&pd->dev->ib->dev, "kfi_verbs: %d operations never completed, their memory is leaked\n",
			atomic_read(&conn->posted));
	}
	kfv_pd_put(pd);
	module_put(THIS_MODULE);
}

/*
 * Work item: destroys what the device still holds, however long that takes. No lock is
 * needed: kfv_conn_stop() has queued this once, and after KFV_STOPPED no other thread
 * uses the id, the queue pair or the CQ. The reference on the module goes to the last
 * step.
 */
static void kfv_conn_destroy(struct work_struct *work)
{
	struct kfv_conn *conn = container_of(work, struct kfv_conn, destroy);
	struct kfv_pd *pd = conn->pd;

	kfi_test_hook_point(KFI_HOOK_D9, pd->domain_id);
	if (conn->qp)
		ib_destroy_qp(conn->qp);
	/* Usually complete since kfv_conn_drain(), or by destroying the queue pair. */
	wait_for_completion_timeout(&conn->drained, KFV_DRAIN_TIME);
	if (conn->id)
		kfv_turn_wait(pd->dev, &conn->turn);
	else
		kfv_conn_free(&conn->turn);
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
	 * A peer without a posted receive is retried without limit (7). A silent
	 * peer is given up after 6: rxe takes 7 as "no limit" there, too
	 * (rxe_completer() in drivers/infiniband/sw/rxe/rxe_comp.c).
	 */
	conn->param.rnr_retry_count = 7;
	conn->param.retry_count = 6;
}

/**
 * kfv_conn_init() - begin the device half of an endpoint
 * @conn: zeroed
 * @pd: device half of its domain
 * @tx_size: sends, reads and writes in flight
 * @rx_size: receives posted
 *
 * Nothing is allocated on the device yet: kfv_conn_enable() does that.
 *
 * From here on @conn has the endpoint's reference, to be ended by kfv_conn_stop() and
 * kfv_conn_put().
 *
 * Context: process; caller holds the device's lock.
 */
void kfv_conn_init(struct kfv_conn *conn, struct kfv_pd *pd, size_t tx_size,
		   size_t rx_size)
{
	lockdep_assert_held(&pd->dev->lock);
	/* The endpoint's, and that of the final work item. */
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
	INIT_DELAYED_WORK(&conn->disconnect, kfv_cm_disconnect_work);
	INIT_WORK(&conn->destroy, kfv_conn_destroy);
	conn->turn.run = kfv_conn_free;
	kfv_keepalive_init(conn);
	kfv_conn_limits(conn);
}

/*
 * The first data of a peer confirms a connection, too, and may overtake the message
 * that does. RDMA CM then reports RDMA_CM_EVENT_ESTABLISHED. (rxe 6.1 never raises
 * this event.) No lock: this may be an interrupt. The id is there, because the queue
 * pair receives only after kfv_conn_rts(), and is destroyed after the queue pair.
 */
static void kfv_qp_event(struct ib_event *event, void *context)
{
	struct kfv_conn *conn = context;

	if (event->event == IB_EVENT_COMM_EST && conn->id)
		rdma_notify(conn->id, event->event);
}

/*
 * The queue pair goes to IB_QPS_INIT at once: from there on it takes receives. The
 * remaining steps need a peer: kfv_conn_rts().
 */
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

	lockdep_assert_held(&conn->ctl);
	qp = ib_create_qp(conn->pd->ib, &init);
	if (IS_ERR(qp))
		return PTR_ERR(qp);
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

/**
 * kfv_conn_disable() - undo kfv_conn_enable(), as far as it came
 * @conn: of an endpoint that is not enabled, so that nothing was posted
 *
 * Context: process; caller holds conn->ctl.
 */
void kfv_conn_disable(struct kfv_conn *conn)
{
	lockdep_assert_held(&conn->ctl);
	if (conn->qp)
		ib_destroy_qp(conn->qp);
	conn->qp = NULL;
	kfv_conn_put_cq(conn);
	kfv_queue_fini(&conn->tx);
	kfv_queue_fini(&conn->rx);
}

/**
 * kfv_conn_enable() - create the queue pair
 * @conn: of an endpoint that is not enabled
 *
 * Context: process; caller holds conn->ctl.
 * Return: 0 or a negative errno; -EMFILE: the user has as much room in the CQs of the
 * device as it may have.
 */
int kfv_conn_enable(struct kfv_conn *conn)
{
	int err;

	lockdep_assert_held(&conn->ctl);
	err = kfv_queue_init(conn, &conn->tx, true);
	if (!err)
		err = kfv_queue_init(conn, &conn->rx, false);
	if (!err)
		err = kfv_conn_get_cq(conn);
	if (!err)
		err = kfv_conn_create_qp(conn);
	if (err)
		kfv_conn_disable(conn);
	return err;
}

/**
 * kfv_path_ok() - can the path of a peer's request be used?
 * @id: RDMA CM's object for the request
 *
 * Its MTU is what the peer has written there. RDMA CM does not check it, and rxe takes 0
 * for -1: then a read of no bytes crashes its responder (read_reply() in
 * drivers/infiniband/sw/rxe/rxe_resp.c).
 *
 * Context: any; in the handler of the request.
 * Return: whether it can.
 */
bool kfv_path_ok(const struct rdma_cm_id *id)
{
	const struct sa_path_rec *path = id->route.path_rec;

	return !path || (path->mtu >= IB_MTU_256 && path->mtu <= IB_MTU_4096);
}

/*
 * One step. RDMA CM supplies the path and the peer's queue pair number; on the side that
 * has accepted also how patient a peer wants this side to be, which may be for ever.
 */
static int kfv_conn_modify(struct kfv_conn *conn, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };
	int mask, err;

	lockdep_assert_held(&conn->lock);
	err = rdma_init_qp_attr(conn->id, &attr, &mask);
	if (err)
		return err;
	if (state == IB_QPS_RTR) {
		attr.max_dest_rd_atomic = conn->param.responder_resources;
		attr.min_rnr_timer = KFV_MIN_RNR_TIMER;
	} else if (state == IB_QPS_RTS) {
		attr.max_rd_atomic = conn->param.initiator_depth;
		attr.retry_cnt = conn->param.retry_count;
		/* 0 is no limit. */
		if (!attr.timeout || attr.timeout > KFV_ACK_TIMEOUT_MAX)
			attr.timeout = KFV_ACK_TIMEOUT_MAX;
	}
	return ib_modify_qp(conn->qp, &attr, mask);
}

/**
 * kfv_conn_rts() - move the queue pair to "ready to send"
 * @conn: a connection about to be established
 *
 * RDMA CM moves only queue pairs that it has made. This queue pair is older than the
 * id's attachment to a device, so the transitions are made here. IB_QPS_INIT is repeated
 * with the partition key and the access flags that fit the path and the peer.
 *
 * Context: process; caller holds conn->lock.
 * Return: 0 or a negative errno.
 */
int kfv_conn_rts(struct kfv_conn *conn)
{
	int err;

	lockdep_assert_held(&conn->lock);
	err = kfv_conn_modify(conn, IB_QPS_INIT);
	if (!err)
		err = kfv_conn_modify(conn, IB_QPS_RTR);
	if (!err)
		err = kfv_conn_modify(conn, IB_QPS_RTS);
	return err;
}

/**
 * kfv_conn_error() - move the queue pair to its error state
 * @conn: the connection; may be without a queue pair
 *
 * Everything posted is flushed. The completions come later, in softirq context.
 *
 * Context: process; caller holds conn->lock or conn->ctl.
 */
void kfv_conn_error(struct kfv_conn *conn)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	lockdep_assert(lockdep_is_held(&conn->lock) ||
		       lockdep_is_held(&conn->ctl));
	if (conn->qp)
		ib_modify_qp(conn->qp, &attr, IB_QP_STATE);
}

/**
 * kfv_conn_queue_disconnect() - have a work item end a connection that failed
 * @conn: the connection; after the first call nothing happens
 *
 * A failed operation puts the queue pair into its error state, of which the peer
 * learns nothing. The disconnect request needs a sleeping context.
 *
 * The work item sees how the connection stands when it has conn->lock. A queue pair
 * that can fail before its connection is up (from KFV_CONNECTING on) is moved under
 * that lock together with the state, so that the one call is not spent too early.
 *
 * Context: any. The caller keeps @conn: by a posted operation whose completion is
 * being handled, or by conn->lock and an id whose handler runs.
 */
void kfv_conn_queue_disconnect(struct kfv_conn *conn)
{
	if (atomic_xchg(&conn->failed, 1))
		return;
	kref_get(&conn->ref);
	kfv_queue_work(kfv_wq, &conn->disconnect.work);
}

/*
 * A work request that moves no data and whose completion shows how far the queue has
 * been flushed. It frees itself, since a device that returns it late may outlast the
 * wait for it.
 */
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

/* Counted in @posted before it is posted, as every operation. */
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
 * A queue pair in its error state returns posted work requests in order. When the
 * markers are back, so are all work requests that were posted before them, and the
 * device has left the buffers. ib_drain_qp() works in the same way, but it waits without
 * limit and warns if the device takes no marker. KFV_SPARE_WR keeps a place for each marker, in
 * the queues and in the CQ. Without memory for a marker the count of posted
 * operations alone has to do.
 */
static void kfv_post_markers(struct kfv_conn *conn)
{
	struct ib_rdma_wr tx = { .wr.opcode = IB_WR_RDMA_WRITE };
	struct ib_recv_wr rx = { };
	struct kfv_marker *marker;

	lockdep_assert_held(&conn->ctl);
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

/*
 * Waits until the device has returned all operations, and every completion handler is
 * done with the endpoint: kfv_report() drops its count of @posted last. The completions
 * come in softirq context, so that no thread has to poll for them.
 *
 * The ULP frees its buffers after the close, so that a device which is late must lose its
 * access to them here: ib_destroy_qp() returns when the device has left the queue pair
 * and the buffers. It may take long, and no peer takes part in it.
 */
static void kfv_conn_drain(struct kfv_conn *conn)
{
	bool stalled = kfi_test_stall_point(conn->ep->base.id);

	lockdep_assert_held(&conn->ctl);
	if (conn->qp) {
		kfv_conn_error(conn);
		kfv_post_markers(conn);
	}
	kfv_posted_put(conn);
	if (!stalled &&
	    wait_for_completion_timeout(&conn->drained, KFV_DRAIN_TIME))
		return;

	dev_err(&conn->pd->dev->ib->dev,
		"kfi_verbs: %d operations are still with the device, their queue pair is destroyed\n",
		atomic_read(&conn->posted));
	if (conn->qp)
		ib_destroy_qp(conn->qp);
	conn->qp = NULL;
	/*
	 * The endpoint is about to be freed. A handler that has seen ep_gone false
	 * is in a read section; a later handler sees it true.
	 */
	synchronize_srcu(&kfv_srcu);
}

/**
 * kfv_conn_stop() - stop a connection at close or device removal
 * @conn: the connection; nothing happens if it is stopped already
 *
 * Operations in flight are discarded without a completion entry. When this returns,
 * the device has left their buffers and nothing more is reported. Destroying what else
 * the device holds is left to a work item, which also sends the disconnect request
 * (kfv_id_destroy()): a process that ends with thousands of connections sends one at a time.
 *
 * Events end first (the state and ep_gone change under conn->lock), so that no event
 * handler starts the keepalive again after it is stopped. The keepalive ends before the
 * drain, so that no probe is posted during it.
 *
 * Context: process, sleeps up to KFV_DRAIN_TIME, and longer if the device is late; caller
 * holds conn->ctl. No call posts:
 * the ULP closes the endpoint, or the removal has ended posting.
 */
void kfv_conn_stop(struct kfv_conn *conn)
{
	enum kfv_state state;

	lockdep_assert_held(&conn->ctl);
	mutex_lock(&conn->lock);
	state = conn->state;
	WRITE_ONCE(conn->state, KFV_STOPPED);
	WRITE_ONCE(conn->ep_gone, true);
	mutex_unlock(&conn->lock);
	if (state == KFV_STOPPED)
		return;

	kfv_keepalive_stop(conn);
	kfv_conn_drain(conn);
	conn->turn.owner = conn->ep->domain->base.owner;
	kfv_queue_work(conn->pd->dev->conns, &conn->destroy);
}
