// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Operations on a connection, from kfr_op_submit() until each has its result:
 * the peer's ACKs and replies, invalidation of registrations, recall by a
 * closing context, and failure of all when the connection ends. (Flow control,
 * that is parking, is in flow.c; what happens before and after, in tx.c.)
 *
 * An operation is on the lists of its connection, and under its lock. The
 * thread that takes it off the last list owns it and calls kfr_op_done(),
 * without a lock; no two threads do so, as each looks at the state and moves it
 * in one section. The operation's reference to the connection is dropped there,
 * so functions that use the connection afterwards take one of their own.
 *
 * A registered buffer is reported only after LOCAL_INV has completed, or after
 * the queue pair was drained: then no peer can reach it any more.
 */

#include "../../compat.h"
#include "rdm.h"

static int kfr_status_errno(u32 status)
{
	switch (status) {
	case KFR_OK:
		return 0;
	case KFR_NO_ENDPOINT:
		return KFI_EHOSTUNREACH;
	case KFR_TOO_LONG:
		return KFI_EMSGSIZE;
	case KFR_CANCELED:
		return KFI_ECANCELED;
	case KFR_NO_MEMORY:
		return KFI_ENOMEM;
	default:
		return KFI_EREMOTEIO;
	}
}

static void kfr_op_set_err(struct kfr_op *op, int err, int prov_errno)
{
	op->err = err;
	op->prov_errno = prov_errno;
}

/**
 * kfr_ops_done() - kfr_op_done() for operations on a list of the caller
 * @done: the list, by kfr_op.sent; empty afterwards
 *
 * Context: any; no lock held.
 */
void kfr_ops_done(struct list_head *done)
{
	struct kfr_op *op, *next;

	list_for_each_entry_safe(op, next, done, sent) {
		list_del_init(&op->sent);
		kfr_op_done(op);
	}
}

/**
 * kfr_op_submit() - queue an operation on its connection, and pump
 * @op: filled in; its reference to @op->conn is taken
 *
 * On a dead connection it fails at once: kfr_op_fail_all() may have run
 * already. Checking and queueing in one section means that one of the two sees
 * it. The same holds for the end of an idle connection: either it sees the
 * operation, or the operation sees it.
 *
 * Context: any; no lock held. The operation may be done and reused on return.
 * Return: 0; -EAGAIN: the user has enough flows there; -ESHUTDOWN: nothing begins
 * on this connection any more; kfr_node_conn() does not find it again. The
 * reference is dropped.
 */
int kfr_op_submit(struct kfr_op *op)
{
	struct kfr_conn *conn = op->conn;
	unsigned long irq;
	bool dead;
	int err = 0;

	op->item.kind = KFR_ITEM_REQ;
	spin_lock_irqsave(&conn->lock, irq);
	dead = conn->state == KFR_DEAD;
	if (conn->leaving)
		err = -ESHUTDOWN;
	else if (!dead && !kfr_op_charge(conn, op))
		err = -EAGAIN;
	if (!err) {
		/* @op may drop its own after the section. */
		kfr_conn_get(conn);
		atomic_inc(&conn->nops);
	}
	if (!err && !dead) {
		op->was_refused = false;
		op->state = KFR_QUEUED;
		kfr_req_add(conn, op);
		kfr_probe_later(conn);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	if (!err && dead) {
		kfr_op_set_err(op, conn->err, conn->prov_errno);
		kfr_op_done(op);
	} else if (!err) {
		kfr_pump(conn);
	}
	kfr_conn_put(conn);
	return err;
}

/**
 * kfr_op_numbered() - is the request numbered, or does it have an id?
 * @op: the operation
 *
 * The same as kfr_hdr_numbered() for the peer, before @hdr.nsegs is filled in.
 *
 * Context: any.
 * Return: true if it is acknowledged together with others.
 */
bool kfr_op_numbered(const struct kfr_op *op)
{
	return op->hdr.op == KFR_OP_EAGER ||
	       (op->hdr.op == KFR_OP_WRITE && !op->nregs &&
		!(op->hdr.flags & KFR_F_TAGGED));
}

/**
 * kfr_handle_ack() - the peer has handled all requests up to a number
 * @conn: the connection
 * @ack: the number
 *
 * Numbered operations have no registrations, so they are done at once. Others may
 * have waited for room in the window.
 *
 * Context: softirq; no lock held.
 * Return: 0 or -EPROTO: that number was not sent yet.
 */
int kfr_handle_ack(struct kfr_conn *conn, u32 ack)
{
	struct kfr_op *op, *next;
	unsigned long irq;
	LIST_HEAD(done);
	int err = 0;
	bool room;

	spin_lock_irqsave(&conn->lock, irq);
	room = kfr_window_full(conn);
	if ((s32)(conn->tx_seq - ack) < 0) {
		err = -EPROTO;
	} else if ((s32)(ack - conn->tx_acked) > 0) {
		conn->tx_acked = ack;
		WRITE_ONCE(conn->answered_at, jiffies);
	}
	room = room && !kfr_window_full(conn);
	list_for_each_entry_safe(op, next, &conn->sent_numbered, sent) {
		if (err || (s32)(ack - le32_to_cpu(op->hdr.seq)) < 0)
			break;
		op->state = KFR_BUSY;
		list_del_init(&op->refused);
		kfr_flows_handled(conn, op->place);
		kfr_flow_release(conn, op);
		list_move_tail(&op->sent, &done);
	}
	/* Of forgotten operations nothing else says how far this is. */
	if (conn->tx_acked == conn->tx_seq)
		kfr_flows_handled(conn, conn->tx_numbered);
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_ops_done(&done);
	if (room)
		kfr_pump(conn);
	return err;
}

/**
 * kfr_find_request() - the operation that a reply is for
 * @conn: the connection
 * @hdr: header of FIN, ERR or NAK
 *
 * Context: any; the caller holds the connection's lock.
 * Return: the operation, in whatever state, or NULL.
 */
struct kfr_op *kfr_find_request(struct kfr_conn *conn,
				const struct kfr_hdr *hdr)
{
	struct kfr_op *op;

	lockdep_assert_held(&conn->lock);
	if (hdr->op == KFR_OP_FIN || hdr->flags & KFR_F_ID) {
		op = conn->ids[le32_to_cpu(hdr->seq) % KFR_IDS];
		return op && op->hdr.seq == hdr->seq ? op : NULL;
	}
	list_for_each_entry(op, &conn->sent_numbered, sent)
		if (op->hdr.seq == hdr->seq)
			return op;
	return NULL;
}

/**
 * kfr_op_end() - an operation has its result
 * @conn: its connection
 * @op: the operation; on no queue to be sent
 *
 * Gives its id back. Registrations that were made are invalidated first: the pump
 * posts that, and kfr_op_invalid() finishes.
 *
 * Context: any; the caller holds the connection's lock.
 * Return: true: it is on @conn->ending; false: it is off all lists, and the
 * caller owns it and calls kfr_op_done() without the lock.
 */
bool kfr_op_end(struct kfr_conn *conn, struct kfr_op *op)
{
	lockdep_assert_held(&conn->lock);
	op->state = KFR_BUSY;
	op->parked = false;
	list_del_init(&op->sent);
	list_del_init(&op->refused);
	kfr_flow_release(conn, op);
	if (op->has_id) {
		if (!op->registered) {
			conn->sq_free += op->nregs;
			kfr_regs_put(conn, op, 0);
		}
		kfr_id_put(conn, op);
	}
	if (!op->registered)
		return false;
	list_add_tail(&op->sent, &conn->ending);
	op->item.kind = KFR_ITEM_INV;
	list_add_tail(&op->item.link, &conn->urgent);
	return true;
}

static void kfr_op_set_result(struct kfr_op *op, const struct kfr_hdr *hdr)
{
	u32 status = le32_to_cpu(hdr->status), all = le32_to_cpu(op->hdr.len);

	lockdep_assert_held(&op->conn->lock);
	if (status == KFR_OK)
		return;
	kfr_op_set_err(op, kfr_status_errno(status), KFR_ERR_STATUS + status);
	/* Clamped: the ULP relies on the sum, and the peer is not trusted. */
	op->len = min(le32_to_cpu(hdr->len), all);
	op->over = min(le32_to_cpu(hdr->over), all - (u32)op->len);
}

/* Was the id in use at any time? The upper part counts up, and wraps. */
static bool kfr_id_given(const struct kfr_conn *conn, u32 id)
{
	const u32 wrap = U32_MAX / KFR_IDS;

	lockdep_assert_held(&conn->lock);
	return conn->id_gen &&
	       ((conn->id_gen - 1 - id / KFR_IDS) & wrap) <= wrap / 2;
}

/*
 * Is the reply for an earlier transmission of the operation? RESUME may have
 * parked and sent it again since, or it may have ended and given its id to
 * another operation. Such a reply is ignored; any other without an operation
 * violates the protocol.
 */
static bool kfr_reply_stale(const struct kfr_conn *conn,
			    const struct kfr_op *op, const struct kfr_hdr *hdr)
{
	u32 seq = le32_to_cpu(hdr->seq);

	lockdep_assert_held(&conn->lock);
	if (op)
		return op->state != KFR_SENT || op->hdr.epoch != hdr->epoch;
	if (hdr->op == KFR_OP_FIN || hdr->flags & KFR_F_ID)
		return kfr_id_given(conn, seq);
	return hdr->op == KFR_OP_ERR && (s32)(conn->tx_seq - seq) >= 0;
}

/**
 * kfr_handle_reply() - FIN or ERR has arrived
 * @conn: on this connection
 * @hdr: header of the reply
 *
 * An operation that is queued to be sent again stays there, whatever the peer
 * replies: kfr_reply_stale() covers it.
 *
 * Context: softirq; no lock held.
 * Return: 0 or -EPROTO: there is no such request.
 */
int kfr_handle_reply(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	const bool is_err = hdr->op == KFR_OP_ERR;
	bool invalidate = false;
	struct kfr_op *op;
	unsigned long irq;
	int err = 0;
	u64 place;

	if (le32_to_cpu(hdr->status) >= KFR_STATUS_MAX)
		return -EPROTO;
	spin_lock_irqsave(&conn->lock, irq);
	op = kfr_find_request(conn, hdr);
	/* Exact also if the counts have wrapped since. */
	place = op && op->hdr.count == hdr->count ? op->place :
		kfr_flow_place(conn, hdr->count);
	kfr_flows_handled(conn, place);
	if (kfr_reply_stale(conn, op, hdr)) {
		op = NULL;
	} else if (!op || kfr_op_numbered(op) != is_err) {
		op = NULL;
		err = -EPROTO;
	} else {
		WRITE_ONCE(conn->answered_at, jiffies);
		kfr_op_set_result(op, hdr);
		invalidate = kfr_op_end(conn, op);
	}
	if (!err && le32_to_cpu(hdr->status) == KFR_NO_ENDPOINT)
		kfr_flow_gone(conn, hdr, place);
	spin_unlock_irqrestore(&conn->lock, irq);
	if (op && !invalidate)
		kfr_op_done(op);
	/* An operation in a lane may have waited for its id. */
	kfr_pump(conn);
	return err;
}

/**
 * kfr_op_invalid() - completion handler: a registration was invalidated
 * @cq: the CQ
 * @wc: the completion
 *
 * The last of them reports the operation and makes its registrations free. If
 * the connection is dead, the operation stays on @ending for kfr_op_fail_all(),
 * as the registrations are still valid after a flush error.
 *
 * Context: softirq.
 */
void kfr_op_invalid(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfr_op *op = container_of(wc->wr_cqe, struct kfr_op, cqe);
	struct kfr_conn *conn = op->conn;
	unsigned long irq;
	bool done;

	kfr_conn_get(conn);
	if (wc->status != IB_WC_SUCCESS)
		kfr_wc_failed(conn, wc->status);
	spin_lock_irqsave(&conn->lock, irq);
	conn->sq_free++;
	done = atomic_inc_return(&op->nregs_done) == op->nregs &&
	       conn->state != KFR_DEAD;
	if (done) {
		list_del_init(&op->sent);
		op->registered = false;
		kfr_regs_put(conn, op, 0);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	if (done)
		kfr_op_done(op);
	kfr_pump(conn);
	kfr_posted_put(conn);
	kfr_conn_put(conn);
}

/**
 * kfr_op_cancel() - end an operation with ECANCELED
 * @conn: its connection
 * @op: an operation that the peer has not carried out; as for kfr_op_end()
 *
 * Context: any; the caller holds the connection's lock.
 * Return: as kfr_op_end().
 */
bool kfr_op_cancel(struct kfr_conn *conn, struct kfr_op *op)
{
	lockdep_assert_held(&conn->lock);
	kfr_op_set_err(op, KFI_ECANCELED, 0);
	return kfr_op_end(conn, op);
}

/**
 * kfr_op_withdraw() - end an operation that is queued or parked
 * @conn: its connection
 * @op: the operation
 * @err: errno of its end
 * @prov_errno: more exactly
 *
 * Context: any; the caller holds the connection's lock.
 * Return: true: the caller owns it and calls kfr_op_done() without the lock; false:
 * its registrations are invalidated first.
 */
bool kfr_op_withdraw(struct kfr_conn *conn, struct kfr_op *op, int err,
		     int prov_errno)
{
	lockdep_assert_held(&conn->lock);
	kfr_flow_pull_next(conn, op);
	list_del_init(&op->item.link);
	kfr_op_set_err(op, err, prov_errno);
	return !kfr_op_end(conn, op);
}

/**
 * kfr_op_conn() - the connection of an operation that has not ended
 * @op: the operation, in any state
 *
 * Context: any; no lock held.
 * Return: the connection, referenced; NULL: the operation is free, or is being
 * filled in.
 */
struct kfr_conn *kfr_op_conn(struct kfr_op *op)
{
	struct kfr_conn *conn = NULL;
	struct kfr_tx *tx = op->tx;
	unsigned long irq;

	/* Under this lock it does not become free, and keeps its connection. */
	spin_lock_irqsave(&tx->lock, irq);
	if (READ_ONCE(op->state) != KFR_FREE && op->conn) {
		conn = op->conn;
		kfr_conn_get(conn);
	}
	spin_unlock_irqrestore(&tx->lock, irq);
	return conn;
}

/*
 * A sent operation is forgotten. A late ACK or ERR covers a number that was sent,
 * a late FIN an id that was given, and a late NAK finds nothing to park; all are
 * ignored. Only RESUME changes later requests: it finds the flow. Return: false:
 * the peer still needs what the operation has.
 */
static bool kfr_op_forget(struct kfr_conn *conn, struct kfr_op *op,
			  bool revoke)
{
	lockdep_assert_held(&conn->lock);
	if (op->state != KFR_SENT || (!revoke && !kfr_op_numbered(op)))
		return false;
	kfr_flow_forget(conn, op);
	return true;
}

/**
 * kfr_op_recall() - the context of an operation is closing
 * @op: the operation, in any state
 * @revoke: the peer has had time for its reply
 *
 * A queued or parked one ends here, and so does a sent one that is numbered: its
 * data is in a wire buffer. A sent one with an id gets CANCEL sent to the peer
 * and ends with the reply. If there is none, @revoke ends it: it takes the
 * registrations from the peer. A peer that uses them nevertheless breaks the
 * connection. The other operations have ended or will without help.
 *
 * Context: process; no lock held.
 */
void kfr_op_recall(struct kfr_op *op, bool revoke)
{
	struct kfr_conn *conn = kfr_op_conn(op);
	struct kfr_hdr cancel = { };
	bool done = false;
	unsigned long irq;

	if (!conn)
		return;

	/* What it takes has no other owner: nothing else ends it meanwhile. */
	kfi_preempt_off();
	spin_lock_irqsave(&conn->lock, irq);
	if (conn->state == KFR_DEAD) {
		/* kfr_op_fail_all() ends it. */
	} else if (op->state == KFR_QUEUED) {
		done = kfr_op_withdraw(conn, op, KFI_ECANCELED, 0);
	} else if (kfr_op_forget(conn, op, revoke)) {
		list_del_init(&op->item.link);
		done = !kfr_op_cancel(conn, op);
	} else if (op->state == KFR_SENT && op->has_id) {
		cancel = op->hdr;
	}
	/* Until kfr_op_done() has unmapped it. */
	if (done)
		kfr_conn_enter(conn);
	spin_unlock_irqrestore(&conn->lock, irq);
	if (done) {
		kfr_op_done(op);
		kfr_conn_leave(conn);
	}
	kfi_preempt_on();
	if (cancel.op)
		kfr_reply(conn, &cancel, KFR_OP_CANCEL, KFR_OK, 0, 0);
	kfr_pump(conn);
	kfr_conn_put(conn);
}

/* @queue belongs to a connection whose lock the caller holds. */
static void kfr_fail_queue(struct list_head *queue, struct list_head *done)
{
	struct kfr_item *item;

	list_for_each_entry(item, queue, link)
		list_move_tail(&container_of(item, struct kfr_op, item)->sent,
			       done);
}

/*
 * Takes operations off all queues, under their connection's lock. The caller reports
 * them without it.
 */
static void kfr_fail_take(struct list_head *done)
{
	struct kfr_op *op;

	list_for_each_entry(op, done, sent) {
		list_del_init(&op->item.link);
		list_del_init(&op->refused);
		op->state = KFR_BUSY;
		op->registered = false;
		op->has_id = false;
	}
}

/**
 * kfr_op_fail_all() - end all operations of a connection
 * @conn: dead and drained: neither pump nor completions touch operations any
 *	more
 *
 * They get the error of the connection, except those on @ending, whose result
 * the peer has reported. The queue pair is in error, so the registrations are
 * out of the peer's reach although they were not invalidated.
 *
 * Context: process, the connection's work item; no lock held.
 */
void kfr_op_fail_all(struct kfr_conn *conn)
{
	struct kfr_flow *flow;
	struct kfr_lane *lane;
	struct kfr_line *line;
	struct kfr_op *op;
	LIST_HEAD(answered);
	LIST_HEAD(done);
	unsigned int i;

	spin_lock_irq(&conn->lock);
	list_splice_tail_init(&conn->ending, &answered);
	list_splice_tail_init(&conn->sent_numbered, &done);
	list_splice_tail_init(&conn->sent_by_id, &done);
	hash_for_each(conn->flows, i, flow, link) {
		list_splice_tail_init(&flow->parked, &done);
		kfr_fail_queue(&flow->again, &done);
	}
	list_for_each_entry(line, &conn->reqs, reqs_turn)
		kfr_fail_queue(&line->reqs, &done);
	list_for_each_entry(lane, &conn->lanes, turn)
		kfr_fail_queue(&lane->waiting, &done);
	kfr_fail_take(&done);
	kfr_fail_take(&answered);
	memset(conn->ids, 0, sizeof(conn->ids));
	spin_unlock_irq(&conn->lock);

	list_for_each_entry(op, &done, sent)
		if (!op->err)
			kfr_op_set_err(op, conn->err, conn->prov_errno);
	/* These keep the result that the peer has reported. */
	list_splice_init(&answered, &done);
	kfr_ops_done(&done);
}
