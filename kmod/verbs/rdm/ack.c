// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Answers to a peer, and when they go: with the next message the other way,
 * where messages go to and fro, else at once. And the ends of work requests.
 */
#include <linux/jiffies.h>
#include <linux/slab.h>

#include "rdm.h"

/*
 * The timer runs as long as messages go to and fro: at 2 ms its interrupts took a fifth
 * of the time of a ping-pong in a guest.
 */
static unsigned int rdm_ack_delay_us = 10000;
module_param(rdm_ack_delay_us, uint, 0644);
MODULE_PARM_DESC(rdm_ack_delay_us, "how long an answer to a message waits for a message to go with, where there was one before (us)");

static unsigned int rdm_probe_s = 5;
module_param(rdm_probe_s, uint, 0644);
MODULE_PARM_DESC(rdm_probe_s, "how often a peer is probed that has got an operation and does not answer it (s; 0: never)");

static ktime_t kfr_ack_delay(void)
{
	return ns_to_ktime((u64)READ_ONCE(rdm_ack_delay_us) * NSEC_PER_USEC);
}

/* It has been sent, or never will be. */
void kfr_ctl_end(struct kfr_ctl *ctl)
{
	if (ctl->job)
		kfr_job_unref(ctl->job);
	else
		kfree(ctl);
}

/**
 * kfr_ctl_add() - an answer, or what else takes no operation, waits to be sent
 * @conn: on this connection
 * @ctl: the answer
 *
 * Context: any; a kfr_rx.lock may be held. kfr_ctl_added() follows without it.
 * Return: 0; -EDQUOT: the peer takes no answers.
 */
int kfr_ctl_add(struct kfr_conn *conn, struct kfr_ctl *ctl)
{
	unsigned long irq;
	bool flood;

	ctl->item.kind = KFR_ITEM_CTL;
	spin_lock_irqsave(&conn->lock, irq);
	if (conn->state == KFR_DEAD) {
		spin_unlock_irqrestore(&conn->lock, irq);
		kfr_ctl_end(ctl);
		return 0;
	}
	ctl->hdr.ack = cpu_to_le32(conn->rx_seq);
	if (ctl->hdr.op == KFR_OP_RESUME)
		ctl->hdr.count = cpu_to_le32(conn->rx_count);
	list_add_tail(&ctl->item.link, &conn->urgent);
	if (ctl->hdr.op == KFR_OP_WANT)
		WRITE_ONCE(conn->nwants, conn->nwants + 1);
	flood = ++conn->nctls > KFR_CTLS_MAX;
	spin_unlock_irqrestore(&conn->lock, irq);
	return flood ? -EDQUOT : 0;
}

/* What kfr_ctl_add() or kfr_ctl_add_reply() has added goes, or @err. No lock held. */
void kfr_ctl_added(struct kfr_conn *conn, int err)
{
	if (err == -EDQUOT)
		kfr_conn_abort(conn, EIO, KFR_ERR_FLOOD);
	else if (err)
		kfr_conn_abort(conn, ENOMEM, KFR_ERR_STATUS + KFR_NO_MEMORY);
	kfr_pump(conn);
}

void kfr_ctl_queue(struct kfr_conn *conn, struct kfr_ctl *ctl)
{
	kfr_ctl_added(conn, kfr_ctl_add(conn, ctl));
}

/**
 * kfr_ctl_add_reply() - kfr_reply() in two steps, kfr_ctl_added() is the other one
 * @conn: on this connection
 * @req: the message
 * @op: what kind of answer
 *
 * Who decides under the lock of a context what is said adds it under that lock:
 * so nothing that is decided later is said before.
 *
 * Context: any; a kfr_rx.lock may be held.
 * Return: 0; -ENOMEM; -EDQUOT: the peer takes no answers.
 */
int kfr_ctl_add_reply(struct kfr_conn *conn, const struct kfr_hdr *req, u8 op)
{
	struct kfr_ctl *ctl = kzalloc(sizeof(*ctl), GFP_ATOMIC | __GFP_NOWARN);

	if (!ctl)
		return -ENOMEM;
	kfr_reply_hdr(&ctl->hdr, req, op, KFR_OK, 0, 0);
	return kfr_ctl_add(conn, ctl);
}

/**
 * kfr_reply() - say something about a message of the peer's
 * @conn: on this connection
 * @req: the message; with KFR_OP_CANCEL one of our own
 * @op: what kind of answer
 * @status: with FIN and ERR
 * @len: bytes that were delivered
 * @over: bytes that were not
 *
 * Context: any; no lock held.
 * Return: 0 or -ENOMEM.
 */
int kfr_reply(struct kfr_conn *conn, const struct kfr_hdr *req, u8 op,
	       enum kfr_status status, size_t len, size_t over)
{
	struct kfr_ctl *ctl = kzalloc(sizeof(*ctl), GFP_ATOMIC | __GFP_NOWARN);

	if (!ctl)
		return -ENOMEM;
	kfr_reply_hdr(&ctl->hdr, req, op, status, len, over);
	kfr_ctl_queue(conn, ctl);
	return 0;
}

void kfr_reply_hdr(struct kfr_hdr *hdr, const struct kfr_hdr *req, u8 op,
		    enum kfr_status status, size_t len, size_t over)
{
	bool own = op == KFR_OP_CANCEL;

	*hdr = (struct kfr_hdr) {
		.version = KFR_VERSION,
		.op = op,
		.src = own ? req->src : req->dst,
		.dst = own ? req->dst : req->src,
		/* Which of the two kinds of numbers it answers. */
		.flags = kfr_hdr_numbered(req) ? 0 : KFR_F_ID,
		.rx = req->rx,
		.epoch = req->epoch,
		.seq = req->seq,
		.status = cpu_to_le32(status),
		.auth = req->auth,
		.len = cpu_to_le32(len),
		.over = cpu_to_le32(over),
	};
}

/* A request was dealt with, numbered or not. */
void kfr_count_request(struct kfr_conn *conn)
{
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	conn->rx_count++;
	spin_unlock_irqrestore(&conn->lock, irq);
}

/**
 * kfr_ack_request() - a numbered message was dealt with
 * @conn: it came on this connection
 * @seq: its number; what went wrong with it is on the queue already
 *
 * Where messages go to and fro, the answer waits a moment for the next one.
 *
 * Context: any; no lock held.
 */
void kfr_ack_request(struct kfr_conn *conn, u32 seq)
{
	bool lazy = false;
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	conn->rx_seq = seq;
	if (!conn->ack_lazy || seq - conn->acked >= KFR_ACK_EVERY)
		conn->ack_due = true;
	else
		lazy = conn->state == KFR_UP;
	if (lazy && !conn->timing) {
		conn->timing = true;
		conn->timed_seq = seq;
		hrtimer_start(&conn->ack_timer, kfr_ack_delay(),
			      HRTIMER_MODE_REL_SOFT);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	if (!lazy)
		kfr_pump(conn);
}

/*
 * If the answer to the message that started the timer has gone with another
 * one, a later message may wait as long. If not, none is waited for next time.
 */
enum hrtimer_restart kfr_ack_expired(struct hrtimer *timer)
{
	struct kfr_conn *conn = container_of(timer, struct kfr_conn, ack_timer);
	unsigned long irq;
	bool again = false;

	spin_lock_irqsave(&conn->lock, irq);
	if ((s32)(conn->acked - conn->timed_seq) < 0) {
		conn->ack_due = true;
		conn->ack_lazy = false;
	} else if (conn->acked != conn->rx_seq && conn->state == KFR_UP) {
		conn->timed_seq = conn->rx_seq;
		hrtimer_forward_now(timer, kfr_ack_delay());
		again = true;
	}
	/* Who takes a message from now on starts it anew, if need be. */
	conn->timing = again;
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_pump(conn);
	return again ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

/*
 * An operation that waits for the peer's receive has nothing on the wire: that
 * the peer's machine is gone would show to nobody. So as long as one is under
 * way, an answer goes now and then that says nothing new. If it is not
 * acknowledged, it fails as any message does.
 */
static bool kfr_conn_has_ops(const struct kfr_conn *conn)
{
	const struct kfr_flow *flow;

	if (!list_empty(&conn->sent_numbered) || !list_empty(&conn->sent_by_id) ||
	    !list_empty(&conn->reqs))
		return true;
	list_for_each_entry(flow, &conn->flows, link)
		if (!list_empty(&flow->parked))
			return true;
	return false;
}

/* There is an operation. Caller holds the lock, and the connection lives. */
void kfr_probe_later(struct kfr_conn *conn)
{
	unsigned int seconds = min(READ_ONCE(rdm_probe_s), KFR_PROBE_MAX);

	if (seconds)
		schedule_delayed_work(&conn->probe, seconds * HZ);
}

/* Work item: comes as long as there are operations. */
void kfr_probe(struct work_struct *work)
{
	struct kfr_conn *conn = container_of(to_delayed_work(work),
					     struct kfr_conn, probe);

	spin_lock_irq(&conn->lock);
	if (conn->state != KFR_DEAD && kfr_conn_has_ops(conn)) {
		conn->ack_due = true;
		kfr_probe_later(conn);
	}
	spin_unlock_irq(&conn->lock);
	kfr_pump(conn);
}

/*
 * A work request has failed, and with it the connection. Before it was up it
 * is RDMA CM that stops the queue pair, and its event tells why.
 */
void kfr_wc_failed(struct kfr_conn *conn, enum ib_wc_status status)
{
	switch (status) {
	case IB_WC_WR_FLUSH_ERR:
		if (READ_ONCE(conn->state) == KFR_UP)
			kfr_conn_abort(conn, ENOTCONN, status);
		break;
	case IB_WC_RETRY_EXC_ERR:
	case IB_WC_RESP_TIMEOUT_ERR:
		kfr_conn_abort(conn, ETIMEDOUT, status);
		break;
	default:
		kfr_conn_abort(conn, EIO, status);
	}
}

/* The send queue has room for one more. */
void kfr_sq_done(struct kfr_conn *conn, enum ib_wc_status status)
{
	unsigned long irq;

	if (status != IB_WC_SUCCESS)
		kfr_wc_failed(conn, status);
	spin_lock_irqsave(&conn->lock, irq);
	conn->sq_free++;
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_pump(conn);
	kfr_posted_put(conn);
}

void kfr_reg_done(struct ib_cq *cq, struct ib_wc *wc)
{
	kfr_sq_done(container_of(wc->wr_cqe, struct kfr_conn, reg_cqe),
		    wc->status);
}

void kfr_wire_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfr_wire *wire = container_of(wc->wr_cqe, struct kfr_wire, cqe);
	struct kfr_conn *conn = wire->conn;
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	list_add_tail(&wire->link, &conn->free_wire);
	conn->nwire++;
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_sq_done(conn, wc->status);
}

/* Answers that nobody will hear. The connection is dead and drained. */
void kfr_ctl_drop_all(struct kfr_conn *conn)
{
	struct kfr_item *item, *next;
	LIST_HEAD(drop);

	spin_lock_irq(&conn->lock);
	list_for_each_entry_safe(item, next, &conn->urgent, link)
		if (item->kind == KFR_ITEM_CTL)
			list_move_tail(&item->link, &drop);
	spin_unlock_irq(&conn->lock);
	list_for_each_entry_safe(item, next, &drop, link) {
		list_del_init(&item->link);
		kfr_ctl_end(container_of(item, struct kfr_ctl, item));
	}
}
