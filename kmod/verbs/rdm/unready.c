// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Receiver not ready: with rdm_keep=N a receive context keeps no message, and an
 * operation that its peer has refused for rdm_match_timeout_ms fails.
 *
 *   receiver	without room for a message, a context refuses each that has no receive
 *		(kfr_flow_block()), and lets the senders try again every KFR_RETRY_TIME
 *		(kfr_rx.retry). A receive that is posted meanwhile asks for one at once
 *   sender	the first NAK begins the time of an operation (kfr_op_refused()).
 *		kfr_conn.unready ends those whose time is over; one that is on its way
 *		is looked at again with its next NAK
 *
 * Each side has its own setting: only the sender's makes operations fail.
 */
#include <linux/module.h>

#include <kfi_verbs_ext.h>

#include "rdm.h"

static bool rdm_keep = true;
module_param(rdm_keep, bool, 0644);
MODULE_PARM_DESC(rdm_keep, "keep messages without a receive; N: such a message fails at its sender after rdm_match_timeout_ms");

/* Of one section of the lock. */
#define KFR_UNREADY_TURN	64

static_assert(KFR_NO_MATCH + KFR_ERR_STATUS == KFI_VERBS_ERR_NO_RECEIVE);

/**
 * kfr_keeps() - do receive contexts keep messages, and senders wait for room?
 *
 * Context: any.
 * Return: the module parameter rdm_keep.
 */
bool kfr_keeps(void)
{
	return READ_ONCE(rdm_keep);
}

static struct kfr_op *kfr_first_refused(struct kfr_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	return list_first_entry_or_null(&conn->refused, struct kfr_op, refused);
}

/* kfr_conn_fail() cancels the work item after the connection is dead. */
static void kfr_unready_later(struct kfr_conn *conn, unsigned long limit)
{
	const struct kfr_op *op = kfr_first_refused(conn);
	long left;

	lockdep_assert_held(&conn->lock);
	if (!op || !limit || conn->state == KFR_DEAD)
		return;
	left = op->refused_at + limit - jiffies;
	mod_delayed_work(system_wq, &conn->unready, max(left, 0L));
}

/**
 * kfr_op_refused() - an operation is parked
 * @conn: its connection
 * @op: the operation
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_op_refused(struct kfr_conn *conn, struct kfr_op *op)
{
	unsigned long limit = kfr_match_limit();

	lockdep_assert_held(&conn->lock);
	if (kfr_keeps())
		return;
	if (!op->was_refused)
		op->refused_at = jiffies;
	/* In the order of time: one that comes back is overdue. */
	if (!op->was_refused)
		list_add_tail(&op->refused, &conn->refused);
	else if (list_empty(&op->refused))
		list_add(&op->refused, &conn->refused);
	op->was_refused = true;
	/* The limit may be another one than before. */
	kfr_unready_later(conn, limit);
}

/* Ends those that are not on their way. They are on a list of the caller afterwards. */
static void kfr_end_unready(struct kfr_conn *conn, unsigned long limit,
			    struct list_head *done)
{
	struct kfr_op *op;
	unsigned int i;

	lockdep_assert_held(&conn->lock);
	for (i = 0; i < KFR_UNREADY_TURN; i++) {
		op = kfr_first_refused(conn);
		if (!op || time_before(jiffies, op->refused_at + limit))
			return;
		list_del_init(&op->refused);
		/* A closing context recalls its own. */
		if (op->state == KFR_QUEUED && !kfr_op_closing(op) &&
		    kfr_op_withdraw(conn, op, KFI_EREMOTEIO,
				    KFI_VERBS_ERR_NO_RECEIVE))
			list_add_tail(&op->sent, done);
	}
}

/**
 * kfr_unready() - end operations that have been refused for too long
 * @work: kfr_conn.unready
 *
 * Context: work item; no lock held. kfr_conn_fail() waits for it before the
 * connection can be freed.
 */
void kfr_unready(struct work_struct *work)
{
	struct kfr_conn *conn = container_of(to_delayed_work(work),
					     struct kfr_conn, unready);
	unsigned long limit = kfr_match_limit();
	LIST_HEAD(done);
	bool ended;

	spin_lock_irq(&conn->lock);
	if (limit && conn->state != KFR_DEAD) {
		kfr_end_unready(conn, limit, &done);
		kfr_unready_later(conn, limit);
	}
	/* Until kfr_ops_done() has unmapped their buffers. */
	ended = !list_empty(&done);
	if (ended)
		kfr_conn_enter(conn);
	spin_unlock_irq(&conn->lock);
	if (ended)
		kfi_test_hook_point(KFI_HOOK_D14, 0);
	kfr_ops_done(&done);
	if (ended)
		kfr_conn_leave(conn);
	kfr_pump(conn);
}

/**
 * kfr_rx_retry() - senders may try again, although there may be no receive
 * @work: kfr_rx.retry
 *
 * Context: work item; kfr_rx_close() waits for it.
 */
void kfr_rx_retry(struct work_struct *work)
{
	kfr_rx_resume(container_of(to_delayed_work(work), struct kfr_rx, retry),
		      false);
}
