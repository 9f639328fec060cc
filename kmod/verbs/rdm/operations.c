// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Operations that are under way: on the queue of a connection, sent, answered,
 * taken back, failed with their connection.
 */
#include <linux/slab.h>

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

/* Ends what @done has collected, linked by @sent. No lock held. */
static void kfr_ops_done(struct list_head *done)
{
	struct kfr_op *op, *next;

	list_for_each_entry_safe(op, next, done, sent) {
		list_del_init(&op->sent);
		kfr_op_done(op);
	}
}

/**
 * kfr_op_submit() - an operation is ready to be sent
 * @op: with its connection
 *
 * Context: any; no lock held. The operation may be done on return.
 */
void kfr_op_submit(struct kfr_op *op)
{
	struct kfr_conn *conn = op->conn;
	unsigned long irq;
	bool dead;

	/* It is no more than @op's, and that may be gone after this. */
	kfr_conn_get(conn);
	op->item.kind = KFR_ITEM_REQ;
	spin_lock_irqsave(&conn->lock, irq);
	dead = conn->state == KFR_DEAD;
	if (!dead) {
		op->order = conn->order++;
		op->state = KFR_QUEUED;
		list_add_tail(&op->item.link, &conn->reqs);
		kfr_probe_later(conn);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	if (dead) {
		kfr_op_set_err(op, conn->err, conn->prov_errno);
		kfr_op_done(op);
	} else {
		kfr_pump(conn);
	}
	kfr_conn_put(conn);
}

/* Is it answered with others, and not one by one? */
bool kfr_op_numbered(const struct kfr_op *op)
{
	return op->hdr.op == KFR_OP_EAGER ||
	       (op->hdr.op == KFR_OP_WRITE && !op->nregs &&
		!(op->hdr.flags & KFR_F_TAGGED));
}

/**
 * kfr_handle_ack() - all up to a number were taken
 * @conn: the connection
 * @ack: the number
 *
 * Context: any; no lock held.
 * Return: 0 or -EPROTO: what it says was not sent.
 */
int kfr_handle_ack(struct kfr_conn *conn, u32 ack)
{
	struct kfr_op *op, *next;
	unsigned long irq;
	LIST_HEAD(done);
	int err = 0;

	spin_lock_irqsave(&conn->lock, irq);
	if ((s32)(conn->tx_seq - ack) < 0)
		err = -EPROTO;
	list_for_each_entry_safe(op, next, &conn->sent_numbered, sent) {
		if (err || (s32)(ack - le32_to_cpu(op->hdr.seq)) < 0)
			break;
		op->state = KFR_BUSY;
		list_move_tail(&op->sent, &done);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_ops_done(&done);
	return err;
}

static struct kfr_op *kfr_find_number(struct kfr_conn *conn, u32 seq)
{
	struct kfr_op *op;

	list_for_each_entry(op, &conn->sent_numbered, sent)
		if (le32_to_cpu(op->hdr.seq) == seq)
			return op;
	return NULL;
}

static struct kfr_op *kfr_find_id(struct kfr_conn *conn, u32 id)
{
	struct kfr_op *op = conn->ids[id % KFR_IDS];

	return op && le32_to_cpu(op->hdr.seq) == id ? op : NULL;
}

/*
 * The operation that an answer is for, if it waits for one. Caller holds the
 * connection's lock.
 */
struct kfr_op *kfr_find_request(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	u32 seq = le32_to_cpu(hdr->seq);
	bool by_id = hdr->op == KFR_OP_FIN || hdr->flags & KFR_F_ID;

	return by_id ? kfr_find_id(conn, seq) : kfr_find_number(conn, seq);
}

/*
 * Nothing more is expected of the peer. Caller holds the connection's lock.
 * Return: false: it can be reported; true: its registrations are ended first.
 */
bool kfr_op_end(struct kfr_conn *conn, struct kfr_op *op)
{
	op->state = KFR_BUSY;
	op->parked = false;
	if (op->has_id) {
		conn->ids[le32_to_cpu(op->hdr.seq) % KFR_IDS] = NULL;
		conn->nids--;
		kfr_lane_of(conn, op)->nids--;
		op->has_id = false;
	}
	if (!op->registered) {
		list_del_init(&op->sent);
		return false;
	}
	list_move_tail(&op->sent, &conn->ending);
	op->item.kind = KFR_ITEM_INV;
	list_add_tail(&op->item.link, &conn->urgent);
	return true;
}

static void kfr_op_set_result(struct kfr_op *op, const struct kfr_hdr *hdr)
{
	u32 status = le32_to_cpu(hdr->status), all = le32_to_cpu(op->hdr.len);

	if (status == KFR_OK)
		return;
	kfr_op_set_err(op, kfr_status_errno(status), KFR_ERR_STATUS + status);
	/* The user believes it. */
	op->len = min(le32_to_cpu(hdr->len), all);
	op->over = min(le32_to_cpu(hdr->over), all - (u32)op->len);
}

/* Was it ever given to an operation? Ids count up, and wrap. */
static bool kfr_id_given(const struct kfr_conn *conn, u32 id)
{
	const u32 wrap = U32_MAX / KFR_IDS;

	return conn->id_gen &&
	       ((conn->id_gen - 1 - id / KFR_IDS) & wrap) <= wrap / 2;
}

/*
 * Is it about an earlier time that the operation was sent? Then it was called
 * back since, by RESUME, and this answer is no news. Caller holds the lock.
 */
static bool kfr_reply_stale(const struct kfr_conn *conn,
			   const struct kfr_op *op, const struct kfr_hdr *hdr)
{
	u32 seq = le32_to_cpu(hdr->seq);

	if (op)
		return op->state != KFR_SENT || op->hdr.epoch != hdr->epoch;
	/* One that was called back and then ended has given its id back. */
	if (hdr->op == KFR_OP_FIN || hdr->flags & KFR_F_ID)
		return kfr_id_given(conn, seq);
	return hdr->op == KFR_OP_ERR && (s32)(conn->tx_seq - seq) >= 0;
}

/**
 * kfr_handle_reply() - FIN or ERR has come
 * @conn: on this connection
 * @hdr: the answer
 *
 * An operation with registrations ends them first: nobody must reach its buffer
 * any more when it is reported. One that waits to be sent again is on a queue of
 * the connection, whatever the peer says: it is left there.
 *
 * Context: any; no lock held.
 * Return: 0 or -EPROTO: nobody has asked.
 */
int kfr_handle_reply(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	const bool is_err = hdr->op == KFR_OP_ERR;
	bool invalidate = false;
	struct kfr_op *op;
	unsigned long irq;
	int err = 0;

	if (le32_to_cpu(hdr->status) >= KFR_STATUS_MAX)
		return -EPROTO;
	spin_lock_irqsave(&conn->lock, irq);
	op = kfr_find_request(conn, hdr);
	if (kfr_reply_stale(conn, op, hdr)) {
		op = NULL;
	} else if (!op || kfr_op_numbered(op) != is_err) {
		op = NULL;
		err = -EPROTO;
	} else {
		kfr_op_set_result(op, hdr);
		invalidate = kfr_op_end(conn, op);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	if (op && !invalidate)
		kfr_op_done(op);
	/* Somebody may have waited for its id. */
	kfr_pump(conn);
	return err;
}

/* A registration of the operation has ended, or the connection is dead. */
void kfr_op_invalid(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfr_op *op = container_of(wc->wr_cqe, struct kfr_op, cqe);
	struct kfr_conn *conn = op->conn;
	unsigned long irq;
	unsigned int i;
	bool done;

	kfr_conn_get(conn);
	if (wc->status != IB_WC_SUCCESS)
		kfr_wc_failed(conn, wc->status);
	spin_lock_irqsave(&conn->lock, irq);
	conn->sq_free++;
	done = atomic_inc_return(&op->nregs_done) == op->nregs &&
	       conn->state != KFR_DEAD;
	if (done) {
		/* Of a dead one, kfr_op_fail_all() finds it. */
		list_del_init(&op->sent);
		op->registered = false;
		for (i = 0; i < op->nregs; i++)
			list_add_tail(&op->regs[i]->link, &conn->free_regs);
		conn->nregs_free += op->nregs;
		kfr_lane_of(conn, op)->nregs -= op->nregs;
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	if (done)
		kfr_op_done(op);
	kfr_pump(conn);
	kfr_posted_put(conn);
	kfr_conn_put(conn);
}

/* Ends one that was not carried out. As kfr_op_end(). */
bool kfr_op_cancel(struct kfr_conn *conn, struct kfr_op *op)
{
	kfr_op_set_err(op, KFI_ECANCELED, 0);
	return kfr_op_end(conn, op);
}

/*
 * Takes an operation back that is not sent, and asks for the end of one that
 * has an id. Its context is closing.
 */
void kfr_op_recall(struct kfr_op *op)
{
	struct kfr_tx *tx = op->tx;
	struct kfr_conn *conn = NULL;
	struct kfr_hdr cancel = { };
	bool done = false;
	unsigned long irq;

	/* Its connection stays as long as it is not free. */
	spin_lock_irqsave(&tx->lock, irq);
	if (READ_ONCE(op->state) != KFR_FREE && op->conn) {
		conn = op->conn;
		kfr_conn_get(conn);
	}
	spin_unlock_irqrestore(&tx->lock, irq);
	if (!conn)
		return;

	spin_lock_irqsave(&conn->lock, irq);
	if (conn->state == KFR_DEAD) {
		/* kfr_op_fail_all() will have it. */
	} else if (op->state == KFR_QUEUED) {
		list_del_init(&op->item.link);
		done = !kfr_op_cancel(conn, op);
		/* Keeps the device until it is unmapped. */
		if (done)
			atomic_inc(&conn->posted);
	} else if (op->state == KFR_SENT && op->has_id) {
		cancel = op->hdr;
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	if (done) {
		kfr_op_done(op);
		kfr_posted_put(conn);
	} else if (cancel.op) {
		kfr_reply(conn, &cancel, KFR_OP_CANCEL, KFR_OK, 0, 0);
	}
	kfr_pump(conn);
	kfr_conn_put(conn);
}

static void kfr_fail_list(struct list_head *list, struct list_head *done)
{
	struct kfr_op *op, *next;

	list_for_each_entry_safe(op, next, list, sent)
		list_move_tail(&op->sent, done);
}

static void kfr_fail_queue(struct list_head *queue, struct list_head *done)
{
	struct kfr_item *item;

	list_for_each_entry(item, queue, link)
		list_move_tail(&container_of(item, struct kfr_op, item)->sent,
			       done);
}

/**
 * kfr_op_fail_all() - what was under way on a connection fails with it
 * @conn: dead, and the device has returned all work requests
 *
 * Context: process; no lock held.
 */
void kfr_op_fail_all(struct kfr_conn *conn)
{
	struct kfr_flow *flow;
	struct kfr_op *op, *next;
	LIST_HEAD(answered);
	LIST_HEAD(done);
	unsigned int i;

	spin_lock_irq(&conn->lock);
	kfr_fail_list(&conn->ending, &answered);
	kfr_fail_list(&conn->sent_numbered, &done);
	kfr_fail_list(&conn->sent_by_id, &done);
	list_for_each_entry(flow, &conn->flows, link)
		kfr_fail_list(&flow->parked, &done);
	kfr_fail_queue(&conn->reqs, &done);
	for (i = 0; i < KFR_LANES; i++)
		kfr_fail_queue(&conn->lanes[i].waiting, &done);
	list_for_each_entry(op, &done, sent)
		list_del_init(&op->item.link);
	list_for_each_entry(op, &answered, sent)
		list_del_init(&op->item.link);
	memset(conn->ids, 0, sizeof(conn->ids));
	spin_unlock_irq(&conn->lock);

	list_for_each_entry(op, &done, sent)
		if (!op->err)
			kfr_op_set_err(op, conn->err, conn->prov_errno);
	/* The others stand as the peer has answered them. */
	list_splice_init(&answered, &done);
	list_for_each_entry_safe(op, next, &done, sent) {
		list_del_init(&op->sent);
		op->registered = false;
		op->has_id = false;
		kfr_op_done(op);
	}
}

/* Is there anything under way for one of these? */
bool kfr_conn_serves(struct kfr_conn *conn, const struct kfr_rx *rx,
		     const struct kfr_tx *tx, const struct kfr_mr *mr)
{
	const struct kfr_item *item;
	const struct kfr_flow *flow;
	const struct kfr_job *job;
	const struct kfr_op *op;
	bool found = false;
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	list_for_each_entry(job, &conn->jobs, link)
		found |= (rx && job->rx == rx) || (mr && job->mr == mr);
	list_for_each_entry(op, &conn->sent_numbered, sent)
		found |= tx && op->tx == tx;
	list_for_each_entry(op, &conn->sent_by_id, sent)
		found |= tx && op->tx == tx;
	list_for_each_entry(op, &conn->ending, sent)
		found |= tx && op->tx == tx;
	list_for_each_entry(item, &conn->reqs, link)
		found |= tx && container_of(item, struct kfr_op,
					    item)->tx == tx;
	list_for_each_entry(flow, &conn->flows, link)
		list_for_each_entry(op, &flow->parked, sent)
			found |= tx && op->tx == tx;
	spin_unlock_irqrestore(&conn->lock, irq);
	return found;
}
