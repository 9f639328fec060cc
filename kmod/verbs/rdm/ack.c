// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Control messages, their timing, and the completions of sends.
 *
 * A control message is queued on kfr_conn.urgent by kfr_ctl_add(), and the pump sends
 * few requests before it. It gets @ack when it is queued, and such a request none that
 * is newer, so that an ERR is on the wire before an @ack that covers its number. An ACK
 * for successful requests is not queued at all: @rx_seq goes out in the header of the
 * next message, and only if there is none for a while, or the traffic is one-way, does
 * the pump send a message for it (@ack_due).
 *
 * Two steps: a decision that is made under a receive context's lock is queued
 * under that lock, so NAK and RESUME reach the wire in the order of the
 * decisions; kfr_ctl_added() then pumps without it.
 */
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "rdm.h"

/*
 * The timer runs as long as messages go in both directions, so a short delay
 * costs an interrupt each time: 2 ms took a fifth of the time of a ping-pong in
 * a guest.
 */
static unsigned int rdm_ack_delay_us = 10000;
module_param(rdm_ack_delay_us, uint, 0644);
MODULE_PARM_DESC(rdm_ack_delay_us, "how long an acknowledgment waits for a message to travel with, on a connection with traffic in both directions (us)");

/* So many intervals without anything taken by the peer's device are too many. */
#define KFR_PROBES	12

static unsigned int rdm_probe_s = 5;
module_param(rdm_probe_s, uint, 0644);
MODULE_PARM_DESC(rdm_probe_s, "interval between probes of a peer that has not replied to an operation yet (s; 0: never)");

static ktime_t kfr_ack_delay(void)
{
	return ns_to_ktime((u64)READ_ONCE(rdm_ack_delay_us) * NSEC_PER_USEC);
}

/* The caller calls kfr_ctl_added() once it holds no lock. */
static void kfr_ctl_link(struct kfr_conn *conn, struct kfr_ctl *ctl)
{
	lockdep_assert_held(&conn->lock);
	ctl->item.kind = KFR_ITEM_CTL;
	ctl->hdr.ack = cpu_to_le32(conn->rx_seq);
	if (ctl->hdr.op == KFR_OP_RESUME || ctl->hdr.op == KFR_OP_LEAVE)
		ctl->hdr.count = cpu_to_le32(conn->rx_count);
	if (ctl->hdr.op == KFR_OP_WANT)
		conn->nwants++;
	list_move_tail(&ctl->item.link, &conn->urgent);
	if (ctl->hdr.op != KFR_OP_RESUME && ++conn->nctls > KFR_CTLS_MAX)
		WRITE_ONCE(conn->flooded, true);
}

/**
 * kfr_ctl_unlink() - take a control message off its queue, to be sent or dropped
 * @conn: its connection
 * @ctl: the message; it may be used again, or freed, when this returns
 *
 * Context: any; the caller holds the connection's lock.
 * Return: the job of a FIN, with the reference that the message had; or NULL.
 */
struct kfr_job *kfr_ctl_unlink(struct kfr_conn *conn, struct kfr_ctl *ctl)
{
	struct kfr_job *job = ctl->job;

	lockdep_assert_held(&conn->lock);
	if (ctl->hdr.op == KFR_OP_RESUME) {
		list_del_init(&ctl->item.link);
		if (ctl->hdr.status)
			kfree(container_of(ctl, struct kfr_gate, resume));
		return NULL;
	}
	conn->nctls--;
	if (ctl->hdr.op == KFR_OP_WANT)
		conn->nwants--;
	if (job)
		list_del_init(&ctl->item.link);
	else
		list_move(&ctl->item.link, &conn->free_ctls);
	return job;
}

/**
 * kfr_ctl_add() - queue a control message
 * @conn: on this connection; a dead one drops it
 * @hdr: the message; copied
 *
 * The first of two steps, so that it can be queued under the lock under which
 * it was decided. It allocates nothing: a connection that many share must not
 * end for want of memory. If all of @conn->ctls are queued, the peer does not
 * receive control messages, and kfr_ctl_added() ends the connection.
 *
 * Context: any; a kfr_rx.lock may be held. kfr_ctl_added() follows without it.
 * Return: false: it is one WANT too many, and was not queued.
 */
bool kfr_ctl_add(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	bool full = false;
	struct kfr_ctl *ctl;
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	if (conn->state == KFR_DEAD) {
		/* Nothing is sent any more. */
	} else if (hdr->op == KFR_OP_WANT && conn->nwants >= KFR_WANTS_MAX) {
		full = true;
	} else if (list_empty(&conn->free_ctls)) {
		WRITE_ONCE(conn->flooded, true);
	} else {
		ctl = list_first_entry(&conn->free_ctls, struct kfr_ctl,
				       item.link);
		ctl->hdr = *hdr;
		kfr_ctl_link(conn, ctl);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	return !full;
}

/*
 * The epochs of a connection begin again after 65,535 RESUMEs. A sender without a flow
 * has 0, and the sender of a blocked flow has its old one until RESUME arrives. So
 * neither is given out: what the sender has sent before would be taken for new.
 */
static __le16 kfr_next_epoch(struct kfr_conn *conn, __le16 old)
{
	lockdep_assert_held(&conn->lock);
	do
		conn->epochs++;
	while (!conn->epochs || conn->epochs == le16_to_cpu(old));
	return cpu_to_le16(conn->epochs);
}

/**
 * kfr_ctl_add_resume() - queue RESUME, or queue it anew
 * @gate: the flow; owned by the message from now on if @gone
 * @gone: its context closes
 *
 * The epoch is taken and queued in one section of the caller's lock, so RESUMEs of a
 * context are on the wire in the order of their epochs. One that was not sent yet is
 * replaced: nothing can have arrived in its epoch.
 *
 * Context: any; the kfr_rx.lock of the flow is held. kfr_ctl_added() follows without it.
 */
void kfr_ctl_add_resume(struct kfr_gate *gate, bool gone)
{
	struct kfr_hdr *hdr = &gate->resume.hdr;
	struct kfr_conn *conn = gate->conn;
	unsigned long irq;
	bool dead;

	spin_lock_irqsave(&conn->lock, irq);
	dead = conn->state == KFR_DEAD;
	hdr->epoch = kfr_next_epoch(conn, hdr->epoch);
	if (gone)
		hdr->status = cpu_to_le32(KFR_NO_ENDPOINT);
	if (!dead)
		kfr_ctl_link(conn, &gate->resume);
	else if (gone)
		list_del_init(&gate->resume.item.link);
	spin_unlock_irqrestore(&conn->lock, irq);
	if (dead && gone)
		kfree(gate);
}

/**
 * kfr_ctl_added() - second step of queueing control messages
 * @conn: the connection
 *
 * Context: any; no lock held.
 */
void kfr_ctl_added(struct kfr_conn *conn)
{
	if (unlikely(READ_ONCE(conn->flooded)))
		kfr_conn_abort(conn, EIO, KFR_ERR_FLOOD);
	kfr_pump(conn);
}

/**
 * kfr_ctl_add_fin() - queue the FIN of a job, and pump
 * @job: its @fin is filled in; the queue owns one reference to the job from now
 *	on, and a dead connection drops it
 *
 * Context: any; no lock held.
 */
void kfr_ctl_add_fin(struct kfr_job *job)
{
	struct kfr_conn *conn = job->conn;
	unsigned long irq;
	bool dead;

	/* The pump may drop the last reference to the job before it returns. */
	kfr_conn_get(conn);
	spin_lock_irqsave(&conn->lock, irq);
	dead = conn->state == KFR_DEAD;
	if (!dead)
		kfr_ctl_link(conn, &job->fin);
	spin_unlock_irqrestore(&conn->lock, irq);
	if (dead)
		kfr_job_unref(job);
	else
		kfr_ctl_added(conn);
	kfr_conn_put(conn);
}

/**
 * kfr_reply() - queue a reply to a message of the peer, and pump
 * @conn: on this connection
 * @req: the peer's message; with KFR_OP_CANCEL, an own request
 * @op: kind of reply
 * @status: with FIN and ERR
 * @len: bytes that were delivered
 * @over: bytes that did not fit
 *
 * Context: any; no lock held.
 */
void kfr_reply(struct kfr_conn *conn, const struct kfr_hdr *req, u8 op,
	       enum kfr_status status, size_t len, size_t over)
{
	struct kfr_hdr hdr;

	kfr_reply_hdr(&hdr, req, op, status, len, over);
	kfr_ctl_add(conn, &hdr);
	kfr_ctl_added(conn);
}

/**
 * kfr_reply_hdr() - the header of a reply
 * @hdr: out
 * @req: the peer's message; with KFR_OP_CANCEL, an own request
 * @op: kind of reply
 * @status: with FIN and ERR
 * @len: bytes that were delivered
 * @over: bytes that did not fit
 *
 * Source and destination change places; only CANCEL goes the way of the
 * request.
 *
 * Context: any.
 */
void kfr_reply_hdr(struct kfr_hdr *hdr, const struct kfr_hdr *req, u8 op,
		   enum kfr_status status, size_t len, size_t over)
{
	bool own = op == KFR_OP_CANCEL;

	*hdr = (struct kfr_hdr) {
		.version = KFR_VERSION,
		.op = op,
		.src = own ? req->src : req->dst,
		.dst = own ? req->dst : req->src,
		/* @seq of a NAK is a number or an id. */
		.flags = (kfr_hdr_numbered(req) ? 0 : KFR_F_ID) |
			 (kfr_hdr_by_key(req) ? KFR_F_RMA : 0),
		.rx = req->rx,
		.epoch = req->epoch,
		.seq = req->seq,
		.status = cpu_to_le32(status),
		.auth = req->auth,
		.len = cpu_to_le32(len),
		.over = cpu_to_le32(over),
		.count = req->count,
	};
}

/**
 * kfr_count_request() - a request is decided about, numbered or not
 * @conn: it came on this connection
 *
 * RESUME reports the count. The sender repeats all requests above it. So a context
 * counts a request in the section of its lock that decides about it: earlier, a
 * refused one would not be repeated; later, an accepted one would be.
 *
 * Context: softirq; a kfr_rx.lock may be held.
 */
void kfr_count_request(struct kfr_conn *conn)
{
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	conn->rx_count++;
	spin_unlock_irqrestore(&conn->lock, irq);
}

/**
 * kfr_ack_request() - a numbered request was handled: acknowledge it
 * @conn: it came on this connection
 * @seq: its number; an ERR or NAK for it has been queued before
 *
 * With traffic in both directions (@ack_lazy), the ACK waits for the next
 * message to travel with, for at most the time of @ack_timer.
 *
 * Context: softirq; no lock held.
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

/**
 * kfr_ack_expired() - the ACK has waited long enough
 * @timer: kfr_conn.ack_timer
 *
 * If the ACK for the message that started the timer has travelled with another
 * message, the timer runs again for a later one. Otherwise the traffic has gone
 * quiet: the ACK goes alone, and the next ones do not wait.
 *
 * Context: softirq.
 * Return: whether the timer runs again.
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
	/*
	 * kfr_ack_request() starts it again, as it sees @timing under the lock.
	 */
	conn->timing = again;
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_pump(conn);
	return again ? HRTIMER_RESTART : HRTIMER_NORESTART;
}

static unsigned int kfr_probe_seconds(void)
{
	return min(READ_ONCE(rdm_probe_s), KFR_PROBE_MAX);
}

/**
 * kfr_probe_later() - schedule the probe, unless it is scheduled
 * @conn: a connection with operations or jobs, not dead
 *
 * kfr_conn_fail() cancels the work item after the connection is dead; the lock
 * and the state keep it from being scheduled again.
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_probe_later(struct kfr_conn *conn)
{
	unsigned int seconds = kfr_probe_seconds();

	lockdep_assert_held(&conn->lock);
	if (seconds)
		schedule_delayed_work(&conn->probe, seconds * HZ);
}

/*
 * RDMA CM gives up after about 70 s, but a peer can ask it to wait for hours (MRA).
 * @begun is constant.
 */
#define KFR_CONNECT_SECONDS	120

static bool kfr_connects_for_ever(const struct kfr_conn *conn)
{
	return READ_ONCE(conn->state) == KFR_CONNECTING &&
	       ktime_ms_delta(ktime_get(), conn->begun) >
	       KFR_CONNECT_SECONDS * MSEC_PER_SEC;
}

/**
 * kfr_peer_probes_are_missing() - has the peer sent nothing for KFR_PROBES intervals?
 * @conn: the connection
 *
 * A peer whose requests wait here sends probes, in intervals like this side's.
 *
 * Context: any.
 * Return: whether it has; false if this side does not probe.
 */
bool kfr_peer_probes_are_missing(const struct kfr_conn *conn)
{
	unsigned long time = (unsigned long)KFR_PROBES * kfr_probe_seconds() * HZ;

	return time && time_after(jiffies, READ_ONCE(conn->heard_at) + time);
}

/* The pump has just run: it sets @taken_at if nothing is under way. */
static bool kfr_probes_are_lost(const struct kfr_conn *conn)
{
	unsigned long time = (unsigned long)KFR_PROBES * kfr_probe_seconds() * HZ;

	return time && READ_ONCE(conn->state) == KFR_UP &&
	       kfr_conn_stuck(conn, time);
}

/**
 * kfr_probe() - send an ACK that tests whether the peer is alive
 * @work: kfr_conn.probe, which schedules itself as long as there are operations or jobs
 *
 * An operation that waits for the peer's receive has nothing on the wire, so a
 * dead peer would not be noticed. The peer's device acknowledges the probe; if
 * not, the work request fails as any other. But it does not fail if the peer has no
 * receives, or if the device has stopped without an error. Then the connection is
 * aborted after KFR_PROBES intervals. So it is if only jobs wait, which hold receives,
 * and if it is not up after KFR_CONNECT_SECONDS.
 *
 * Context: work item; no lock held. kfr_conn_fail() waits for it before the
 * connection can be freed.
 */
void kfr_probe(struct work_struct *work)
{
	struct kfr_conn *conn = container_of(to_delayed_work(work),
					     struct kfr_conn, probe);

	spin_lock_irq(&conn->lock);
	if (conn->state == KFR_CONNECTING ||
	    (conn->state != KFR_DEAD &&
	     (atomic_read(&conn->nops) || conn->njobs))) {
		conn->ack_due = true;
		kfr_probe_later(conn);
	}
	spin_unlock_irq(&conn->lock);
	kfr_pump(conn);
	if (kfr_probes_are_lost(conn))
		kfr_conn_abort(conn, ETIMEDOUT, KFR_ERR_STUCK);
	else if (kfr_connects_for_ever(conn))
		kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_CONNECT);
}

/**
 * kfr_wc_failed() - a work request has failed, and with it the connection
 * @conn: the connection
 * @status: of the work completion
 *
 * A flush error follows another error. Before the connection was up, RDMA CM
 * has stopped the queue pair, and its event has the cause; so it is ignored
 * then.
 *
 * Context: softirq; no lock held.
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

/**
 * kfr_sq_done() - a work request of the send queue has completed
 * @conn: the connection; may be freed on return unless the caller has a
 *	reference
 * @status: of the work completion
 *
 * @posted is dropped last: it keeps the connection until the pump has run.
 *
 * Context: softirq; no lock held.
 */
void kfr_sq_done(struct kfr_conn *conn, enum ib_wc_status status)
{
	unsigned long irq;

	if (status != IB_WC_SUCCESS)
		kfr_wc_failed(conn, status);
	spin_lock_irqsave(&conn->lock, irq);
	conn->sq_free++;
	WRITE_ONCE(conn->taken_at, jiffies);
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_pump(conn);
	kfr_posted_put(conn);
}

/**
 * kfr_reg_done() - completion handler: a registration was made
 * @cq: the CQ
 * @wc: the completion
 *
 * Nothing waits for it: the request was posted after the registration, and the
 * queue pair executes both in order.
 *
 * Context: softirq.
 */
void kfr_reg_done(struct ib_cq *cq, struct ib_wc *wc)
{
	kfr_sq_done(container_of(wc->wr_cqe, struct kfr_conn, reg_cqe),
		    wc->status);
}

/**
 * kfr_wire_done() - completion handler: a message was sent
 * @cq: the CQ
 * @wc: the completion
 *
 * The device does not read the wire buffer any more. The operation in it waits
 * for the peer's ACK or reply: success here only shows that the peer's device
 * has the message.
 *
 * Context: softirq.
 */
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

/**
 * kfr_ctl_drop_all() - drop queued control messages
 * @conn: dead and drained
 *
 * FINs give back the reference to their job; the destroyer has one to @conn.
 * Operations on the same queue are left to kfr_op_fail_all(), which has taken
 * them off before.
 *
 * Context: process, the connection's work item; no lock held.
 */
void kfr_ctl_drop_all(struct kfr_conn *conn)
{
	struct kfr_item *item, *next;
	struct kfr_job *job;

	spin_lock_irq(&conn->lock);
	list_for_each_entry_safe(item, next, &conn->urgent, link) {
		if (item->kind != KFR_ITEM_CTL)
			continue;
		job = kfr_ctl_unlink(conn, container_of(item, struct kfr_ctl,
							item));
		if (job)
			kfr_job_unref(job);
	}
	spin_unlock_irq(&conn->lock);
}
