// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Keepalive of connected endpoints. A connection on which nothing is under way
 * does not notice that its peer's machine is gone. One that has asked for it
 * (KFI_OPT_KEEPALIVE) sends something after so many seconds of silence, which a
 * living peer's device answers by itself: an RDMA write of no bytes. It takes no
 * receive, no memory and no key of the peer's. If no answer comes within the
 * retries, the connection ends, as it does with any operation that fails.
 */
#include "kfi_verbs.h"

/*
 * The probe has a place of its own in the send queue. Read sections are as in
 * posting and reporting: while one lasts, neither device nor endpoint goes.
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
	/* Counted first: it may complete before the call returns. */
	atomic_inc(&conn->posted);
	if (kfv_gone(conn->pd->dev) || ib_post_send(conn->qp, &wr.wr, NULL)) {
		atomic_set(&conn->probing, 0);
		kfv_posted_put(conn);
	}
	srcu_read_unlock(&kfv_srcu, idx);
}

static void kfv_probe_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfv_conn *conn = container_of(wc->wr_cqe, struct kfv_conn,
					     probe);
	int idx = srcu_read_lock(&kfv_srcu);

	if (wc->status == IB_WC_SUCCESS)
		kfv_conn_alive(conn);
	else if (wc->status != IB_WC_WR_FLUSH_ERR && !READ_ONCE(conn->ep_gone) &&
		 !kfv_gone(conn->pd->dev))
		kfv_conn_queue_disconnect(conn);
	srcu_read_unlock(&kfv_srcu, idx);
	atomic_set(&conn->probing, 0);
	kfv_posted_put(conn);
}

/* Work item: comes when a probe may be due, and sees to it that it comes again. */
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

void kfv_keepalive_init(struct kfv_conn *conn)
{
	conn->probe.done = kfv_probe_done;
	INIT_DELAYED_WORK(&conn->keepalive, kfv_keepalive);
}

/**
 * kfv_keepalive_start() - the connection stands, or the option was changed
 * @conn: the connection; nothing happens if it is not up, or has no keepalive
 *
 * Context: process; caller holds conn->lock, so that it is not being stopped.
 */
void kfv_keepalive_start(struct kfv_conn *conn)
{
	if (!conn->keepalive_secs || !kfv_conn_up(conn))
		return;
	kfv_conn_alive(conn);
	mod_delayed_work(kfv_wq, &conn->keepalive, conn->keepalive_secs * HZ);
}

/**
 * kfv_keepalive_stop() - no probe is posted any more
 * @conn: a connection that is not up, and will not be
 *
 * Context: process, may sleep; conn->lock is not held.
 */
void kfv_keepalive_stop(struct kfv_conn *conn)
{
	cancel_delayed_work_sync(&conn->keepalive);
}
