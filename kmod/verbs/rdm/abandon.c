// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Operations and jobs whose context is gone, while a peer or the device still has
 * them. kfi_stop() leaves them to their connection: nothing waits for them, nothing
 * is reported, and the pages of their buffers have a reference each
 * (kfr_map_hold()) until the device does not use them any more. Other users of the
 * connection notice nothing.
 *
 *   operation	@tx is NULL. It ends as any other one: by the peer's reply, or with
 *		the connection; then kfr_op_done() frees it
 *   job	@rx is NULL. It goes on: only its report is left out
 *
 * CANCEL does not stop data that moves already, and a slow peer that finds the
 * memory revoked loses the connection. So the peer has time, as only the pages wait
 * for it. But it must not have them for ever. kfr_conn.abandoned runs every
 * rdm_abandon_s until nothing abandoned is left. If nothing of that has ended since
 * it ran last, and nothing was added, it revokes the peer's access.
 *
 * The device comes to that after all that was posted before. If the peer takes
 * nothing, neither that nor a job ends, nor anything else on the connection. Then
 * the connection is aborted.
 */
#include <linux/module.h>

#include "rdm.h"

static unsigned int rdm_abandon_s = 30;
module_param(rdm_abandon_s, uint, 0644);
MODULE_PARM_DESC(rdm_abandon_s, "how long a peer may use memory of ended processes without returning any (s)");

/*
 * kfr_conn_fail() cancels the work item after the connection is dead; lock and state
 * keep it from being scheduled again.
 */
static void kfr_abandoned_later(struct kfr_conn *conn)
{
	unsigned int seconds = clamp(READ_ONCE(rdm_abandon_s), 1u,
				     KFR_PROBE_MAX);

	lockdep_assert_held(&conn->lock);
	conn->nabandoned = 0;
	if (conn->state != KFR_DEAD)
		schedule_delayed_work(&conn->abandoned, seconds * HZ);
}

/* The buffer is freed with the operation: it was copied there, or to a bounce buffer. */
static bool kfr_op_owns_buf(const struct kfr_op *op)
{
	return op->bounce || (op->buf.type == KFI_KVEC && op->buf.count == 1 &&
			      op->buf.kvec[0].iov_base == op->inject);
}

/**
 * kfr_op_abandon() - leave an operation to its connection
 * @op: an operation of a closing context, in any state; kfr_op_recall() has ended
 *	it if the peer does not have it
 *
 * Another thread that has taken the operation off its lists reports it as usual.
 *
 * Context: process; no lock held.
 * Return: true: the connection owns it from now on; it may be freed.
 */
bool kfr_op_abandon(struct kfr_op *op)
{
	struct kfr_conn *conn = kfr_op_conn(op);
	unsigned long irq;
	bool listed;

	if (!conn)
		return false;
	spin_lock_irqsave(&conn->lock, irq);
	listed = op->state == KFR_QUEUED || op->state == KFR_SENT ||
		 (op->state == KFR_BUSY && op->registered);
	if (listed) {
		if (op->mapped && !kfr_op_owns_buf(op))
			kfr_map_hold(&op->map);
		op->tx = NULL;
		kfr_abandoned_later(conn);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_conn_put(conn);
	return listed;
}

/*
 * One job at a time, as its region and its context are given back without the lock.
 * Return: false: there is none for the context.
 */
static bool kfr_job_abandon(struct kfr_conn *conn, struct kfr_rx *rx)
{
	struct kfr_job *job;
	struct kfr_recv *recv = NULL;
	struct kfr_mr *mr = NULL;
	struct kfr_hdr hdr;
	bool found = false;

	spin_lock_irq(&conn->lock);
	list_for_each_entry(job, &conn->jobs, link) {
		found = job->rx == rx;
		if (!found)
			continue;
		if (job->mapped)
			kfr_map_hold(&job->map);
		recv = job->recv;
		mr = job->mr;
		hdr = job->hdr;
		job->rx = NULL;
		job->recv = NULL;
		job->mr = NULL;
		kfr_abandoned_later(conn);
		break;
	}
	spin_unlock_irq(&conn->lock);
	if (recv)
		kfr_recv_unreserve(rx, recv);
	if (mr)
		kfr_mr_end(mr, rx, &hdr, (struct kfr_addr){}, KFR_NO_ENDPOINT);
	if (found)
		kfr_rx_put(rx);
	return found;
}

/**
 * kfr_rx_abandon() - leave the jobs of a context to their connections
 * @rx: the context, stopped: kfr_job_start() begins no job for it any more
 *
 * A connection that is dead is not found. Its jobs end when the device has returned
 * them; the close waits for that.
 *
 * Context: process, may sleep; no lock held.
 */
void kfr_rx_abandon(struct kfr_rx *rx)
{
	struct kfr_node *node = rx->ep->node;
	struct kfr_conn *conn;
	unsigned long i;

	if (!node)
		return;
	spin_lock_irq(&node->lock);
	xa_for_each(&node->conns, i, conn) {
		kfr_conn_get(conn);
		spin_unlock_irq(&node->lock);
		while (kfr_job_abandon(conn, rx))
			;
		kfr_conn_put(conn);
		spin_lock_irq(&node->lock);
	}
	spin_unlock_irq(&node->lock);
}

/* Return: how many operations and jobs of a connection are abandoned. */
static unsigned int kfr_count_abandoned(struct kfr_conn *conn)
{
	struct list_head *lists[] = { &conn->sent_by_id, &conn->ending };
	const struct kfr_job *job;
	const struct kfr_op *op;
	unsigned int i, n = 0;

	lockdep_assert_held(&conn->lock);
	for (i = 0; i < ARRAY_SIZE(lists); i++)
		list_for_each_entry(op, lists[i], sent)
			n += !op->tx;
	list_for_each_entry(job, &conn->jobs, link)
		n += !job->rx;
	return n;
}

/* Those without a registration are on a list of the caller afterwards. */
static void kfr_revoke_abandoned(struct kfr_conn *conn, struct list_head *done)
{
	struct kfr_op *op, *next;

	lockdep_assert_held(&conn->lock);
	list_for_each_entry_safe(op, next, &conn->sent_by_id, sent) {
		if (op->tx)
			continue;
		kfr_flow_forget(conn, op);
		if (!kfr_op_cancel(conn, op))
			list_add_tail(&op->sent, done);
	}
}

/**
 * kfr_abandoned() - look after what is abandoned on a connection
 * @work: kfr_conn.abandoned, which schedules itself as long as there is any
 *
 * Context: work item; no lock held. kfr_conn_fail() waits for it before the
 * connection can be freed.
 */
void kfr_abandoned(struct work_struct *work)
{
	struct kfr_conn *conn = container_of(to_delayed_work(work),
					     struct kfr_conn, abandoned);
	LIST_HEAD(done);
	unsigned int n;
	bool kept;

	spin_lock_irq(&conn->lock);
	n = kfr_count_abandoned(conn);
	kept = n && n == conn->nabandoned && conn->state != KFR_DEAD;
	if (n)
		kfr_abandoned_later(conn);
	conn->nabandoned = n;
	if (kept)
		kfr_revoke_abandoned(conn, &done);
	spin_unlock_irq(&conn->lock);
	kfr_ops_done(&done);
	/* The pump notes if the send queue is empty, and thus not stuck. */
	kfr_pump(conn);
	if (kept && kfr_conn_stuck(conn, KFR_SILENT_TIME))
		kfr_conn_abort(conn, ENOTCONN, KFR_ERR_LOCAL);
}
