// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Keepalive of connected endpoints. Neither RC nor RDMA CM has one: a connection with
 * nothing in flight does not notice that the peer's machine is gone. With
 * KFI_OPT_KEEPALIVE a probe is posted after so many seconds of silence: an RDMA write
 * of no bytes. The peer's device answers it by itself and needs neither a receive nor
 * memory nor a key. If no answer comes within the retries, the probe fails and the
 * connection ends, as with any operation that fails. If the peer has broken the queue
 * pair, the probe is flushed, with the same result.
 *
 * The work item holds no reference: kfv_conn_stop() cancels it and waits for it.
 */
#include "kfi_verbs.h"

/*
 * Posts a probe, unless the previous one is still on its way. KFV_SPARE_WR keeps its
 * place in the send queue and in the CQ. It is posted in a read section, as every work
 * request: after the removal's synchronize_srcu() none is posted.
 */
static void kfv_probe(struct kfv_conn *conn)
{
	struct ib_rdma_wr wr = {
		.wr = {
			.wr_cqe = &conn->probe,
			.opcode = IB_WR_RDMA_WRITE,
			.send_flags = IB_SEND_SIGNALED,
		},
	};
	int idx;

	if (atomic_xchg(&conn->probing, 1))
		return;
	idx = srcu_read_lock(&kfv_srcu);
	/* Counted first: it may complete before ib_post_send() returns. */
	atomic_inc(&conn->posted);
	if (kfv_gone(conn->pd->dev) || ib_post_send(conn->qp, &wr.wr, NULL)) {
		atomic_set(&conn->probing, 0);
		kfv_posted_put(conn);
	}
	srcu_read_unlock(&kfv_srcu, idx);
}

/*
 * Softirq. @probing is cleared after the last use of @probe, and the count of @posted is
 * dropped at the very end: after that the connection may be freed.
 */
static void kfv_probe_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfv_conn *conn = container_of(wc->wr_cqe, struct kfv_conn,
					     probe);
	int idx = srcu_read_lock(&kfv_srcu);

	if (wc->status == IB_WC_SUCCESS)
		kfv_conn_alive(conn);
	else if (!READ_ONCE(conn->ep_gone) && !kfv_gone(conn->pd->dev))
		kfv_conn_queue_disconnect(conn);
	srcu_read_unlock(&kfv_srcu, idx);
	atomic_set(&conn->probing, 0);
	kfv_posted_put(conn);
}

/*
 * Work item: posts a probe if one is due, and queues itself for the next time. It takes
 * no lock. If the connection ends meanwhile, kfv_keepalive_stop() cancels it:
 * cancel_delayed_work_sync() handles work that queues itself.
 */
static void kfv_keepalive(struct work_struct *work)
{
	struct kfv_conn *conn = container_of(to_delayed_work(work),
					     struct kfv_conn, keepalive);
	unsigned long silence = READ_ONCE(conn->keepalive_secs) * HZ;
	long left;

	if (!silence || !kfv_conn_up(conn))
		return;
	left = READ_ONCE(conn->alive_at) + silence - jiffies;
	if (left <= 0) {
		kfv_probe(conn);
		left = silence;
	}
	queue_delayed_work(kfv_wq, &conn->keepalive, left);
}

/**
 * kfv_keepalive_init() - prepare the keepalive of a new connection
 * @conn: the connection; no probe is posted yet
 *
 * Context: any.
 */
void kfv_keepalive_init(struct kfv_conn *conn)
{
	conn->probe.done = kfv_probe_done;
	INIT_DELAYED_WORK(&conn->keepalive, kfv_keepalive);
}

/**
 * kfv_keepalive_start() - begin to watch for silence
 * @conn: a connection that is established, or whose option was changed; nothing
 * happens if it is not up or has no keepalive
 *
 * Context: process; caller holds conn->lock, so that kfv_conn_stop() either has
 * changed the state before or cancels this work after.
 */
void kfv_keepalive_start(struct kfv_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	if (!conn->keepalive_secs || !kfv_conn_up(conn))
		return;
	kfv_conn_alive(conn);
	mod_delayed_work(kfv_wq, &conn->keepalive, conn->keepalive_secs * HZ);
}

/**
 * kfv_keepalive_stop() - end the keepalive for good
 * @conn: a connection in KFV_STOPPED, so that it is not started again
 *
 * When this returns, no probe is being posted. A posted probe is counted in @posted
 * and is drained with the rest.
 *
 * Context: process, may sleep; caller holds conn->ctl.
 */
void kfv_keepalive_stop(struct kfv_conn *conn)
{
	lockdep_assert_held(&conn->ctl);
	cancel_delayed_work_sync(&conn->keepalive);
}
