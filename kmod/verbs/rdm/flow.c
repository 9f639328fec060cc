// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Flow control between a sender and a receive context that has no room: NAK,
 * parking, RESUME, epochs, and WANT. Messages and tagged RMA need room to be
 * kept, or a receive; in a multi-receive also room in the CQ. RMA by key needs
 * room in the CQ if it writes an entry there. The two are separate flows, so
 * neither holds up the other.
 *
 *	sender				receiver
 *	------				--------
 *	1, 2, 3 (epoch 0)		1: kept; no more room
 *					2: NAK; blocked, so 3: NAK
 *	NAK 2: parked
 *	4 (epoch 0)			a receive is posted, 1 leaves
 *					RESUME (epoch 1)
 *	NAK 3: parked			4 (epoch 0) comes late: NAK
 *	RESUME: 2, 3, 4 (epoch 1)
 *	NAK 4 (epoch 0): stale, ignored
 *
 * RESUME contains the number of requests that the receiver had handled by then.
 * The receiver refuses all later ones of the old epoch, so the sender sends
 * them again, after the parked ones, in order. An epoch is used for one RESUME
 * only, so a late NAK never matches a request that was sent again.
 *
 * A receiver may need a parked message before those that it keeps, since tags
 * have no order; waiting for room could then last for ever. So it sends WANT
 * when a receive is posted that matches nothing kept, and when a refused
 * message matches a posted receive. The sender sends the first matching parked
 * message, alone, and that message is exempt from epochs (KFR_F_PULLED). With
 * KFR_WANTS_MAX unsent WANTs on a connection, RESUME takes their place: all
 * parked messages are sent again, and each is matched on arrival.
 *
 * Many contexts can have room, or close, at the same time, while a peer receives
 * slowly. So each flow has the memory for one RESUME, which is not counted among the
 * control messages that wait for the peer.
 *
 * A sender knows contexts by number only. When a context closes and another one
 * gets its number, the sender's epoch is one that the new context does not
 * know: old, or newer than messages still in flight. So if a context with a
 * flow has closed (kfr_conn.orphans), each context without a flow refuses its
 * first message and sends RESUME at once, with an epoch that no context of the
 * connection has used.
 *
 * A sender ends a flow as soon as the peer knows nothing of it: it has said since its
 * last NAK that the context is gone (KFR_NO_ENDPOINT, in RESUME or a reply), or it has
 * sent none; and it has handled all requests of the flow that were sent, so no NAK is on
 * its way. Requests are handled in order, and an ACK or a reply says how far the peer is
 * (kfr_conn.handled). RESUME does not: another context may send it while the last request
 * that it counts is being refused. Otherwise a connection would have as many flows as
 * there ever were contexts, with a place of its user each. If it ended flows earlier:
 *
 *	sender				receiver
 *	------				--------
 *	5 (epoch 1)			a context closes: RESUME (gone, 4 handled)
 *	RESUME: ends the flow		another one opens
 *	5 again, as 6 (epoch 0)		5 (epoch 1): NAK, RESUME (epoch 3)
 *	NAK 5 (epoch 1): stale
 *	RESUME: there is no flow	6 (epoch 0): NAK
 *	NAK 6: parked for ever
 *
 * This file has both sides. The receiver's part, up to kfr_rx_forget(), works
 * on kfr_rx.flows under kfr_rx.lock; the sender's part on kfr_conn.flows under
 * kfr_conn.lock. No function takes both, except that the receiver queues
 * replies.
 *
 * A flow at the receiver is an entry of an xarray, struct kfr_gate, with a mark
 * while it is blocked. The index names the connection by its slot. The connection's
 * end removes the entry under the lock (kfr_rx_forget()) before the slot is free and
 * the last reference is dropped.
 */
#include <linux/jhash.h>
#include <linux/list_sort.h>
#include <linux/slab.h>

#include "rdm.h"

static unsigned long kfr_flow_index(const struct kfr_conn *conn, bool by_key)
{
	return conn->slot << 1 | by_key;
}

/* The mark of flows that are blocked, that is NAK was sent, and no RESUME since. */
static xa_mark_t kfr_flow_mark(bool by_key)
{
	return by_key ? XA_MARK_1 : XA_MARK_0;
}

/**
 * kfr_flow_epoch_unknown() - may the sender use the epoch of a closed context?
 * @rx: the context
 * @conn: connection of the sender
 * @by_key: for RMA by key
 *
 * Context: any; the caller holds the context's lock.
 * Return: true if a context of the connection has closed after a NAK and this
 * one has not sent RESUME yet.
 */
bool kfr_flow_epoch_unknown(struct kfr_rx *rx, const struct kfr_conn *conn,
			    bool by_key)
{
	lockdep_assert_held(&rx->lock);
	return READ_ONCE(conn->orphans) &&
	       !xa_load(&rx->flows, kfr_flow_index(conn, by_key));
}

/**
 * kfr_flow_accepts() - does the context accept a request of its epoch?
 * @rx: the context
 * @conn: connection of the sender
 * @hdr: header of the request
 *
 * Context: any; the caller holds the context's lock.
 * Return: false while NAK was sent and no RESUME since, and for other epochs.
 */
bool kfr_flow_accepts(struct kfr_rx *rx, const struct kfr_conn *conn,
		      const struct kfr_hdr *hdr)
{
	bool by_key = kfr_hdr_by_key(hdr);
	unsigned long i = kfr_flow_index(conn, by_key);
	const struct kfr_gate *gate = xa_load(&rx->flows, i);

	lockdep_assert_held(&rx->lock);
	if (!gate)
		return true;
	return gate->resume.hdr.epoch == hdr->epoch &&
	       !xa_get_mark(&rx->flows, i, kfr_flow_mark(by_key));
}

/**
 * kfr_flow_blocked() - does any sender of messages wait for RESUME?
 * @rx: the context
 *
 * Context: any; the caller holds the context's lock.
 * Return: whether there is such a sender.
 */
bool kfr_flow_blocked(const struct kfr_rx *rx)
{
	lockdep_assert_held(&rx->lock);
	return xa_marked(&rx->flows, kfr_flow_mark(false));
}

/* A flow in the epoch of @hdr, with its RESUME. Return: 0 or -ENOMEM. */
static int kfr_gate_new(struct kfr_rx *rx, struct kfr_conn *conn,
			const struct kfr_hdr *hdr)
{
	bool by_key = kfr_hdr_by_key(hdr);
	struct kfr_gate *gate = kzalloc(sizeof(*gate), GFP_ATOMIC | __GFP_NOWARN);
	struct kfr_hdr to = {
		.dst = cpu_to_le16(rx->ep->addr.id),
		.rx = cpu_to_le16(rx->index),
		.auth = cpu_to_le32(rx->ep->auth),
		.op = by_key ? KFR_OP_WRITE : KFR_OP_EAGER,
	};
	int err;

	lockdep_assert_held(&rx->lock);
	if (!gate)
		return -ENOMEM;
	INIT_LIST_HEAD(&gate->resume.item.link);
	kfr_reply_hdr(&gate->resume.hdr, &to, KFR_OP_RESUME, KFR_OK, 0, 0);
	gate->resume.hdr.epoch = hdr->epoch;
	gate->conn = conn;
	err = xa_insert(&rx->flows, kfr_flow_index(conn, by_key), gate,
			GFP_ATOMIC | __GFP_NOWARN);
	if (err)
		kfree(gate);
	return err;
}

/**
 * kfr_flow_block() - accept no requests of this flow until RESUME
 * @rx: the context
 * @conn: connection of the sender
 * @hdr: header of the request that is refused
 *
 * The caller queues NAK in the same section of the lock.
 *
 * Context: any; the caller holds the context's lock.
 * Return: 0; -ENOMEM: the caller refuses the request for good.
 */
int kfr_flow_block(struct kfr_rx *rx, struct kfr_conn *conn,
		   const struct kfr_hdr *hdr)
{
	bool by_key = kfr_hdr_by_key(hdr);
	unsigned long i = kfr_flow_index(conn, by_key);
	int err = 0;

	lockdep_assert_held(&rx->lock);
	if (!xa_load(&rx->flows, i))
		err = kfr_gate_new(rx, conn, hdr);
	/* A pulled request may find it blocked. */
	if (!err && !xa_get_mark(&rx->flows, i, kfr_flow_mark(by_key))) {
		xa_set_mark(&rx->flows, i, kfr_flow_mark(by_key));
		atomic_inc(&conn->owed);
	}
	/* Nothing that is kept will go, and so make room. */
	if (!err && !by_key && !rx->nkeep && !rx->closing)
		schedule_delayed_work(&rx->retry, KFR_RETRY_TIME);
	return err;
}

static void kfr_flow_unblock(struct kfr_rx *rx, struct kfr_conn *conn,
			     unsigned long i)
{
	lockdep_assert_held(&rx->lock);
	if (!xa_get_mark(&rx->flows, i, kfr_flow_mark(i & 1)))
		return;
	xa_clear_mark(&rx->flows, i, kfr_flow_mark(i & 1));
	atomic_dec(&conn->owed);
}

/* Queues RESUME for a flow that is blocked. */
static void kfr_resume_one(struct kfr_rx *rx, struct kfr_conn *conn,
			   bool by_key)
{
	unsigned long i = kfr_flow_index(conn, by_key);

	lockdep_assert_held(&rx->lock);
	kfr_flow_unblock(rx, conn, i);
	kfr_ctl_add_resume(xa_load(&rx->flows, i), false);
}

/*
 * The next blocked flow from an index on, which is moved past it. Return: its
 * connection, referenced; NULL: there is none.
 */
static struct kfr_conn *kfr_flow_next(struct kfr_rx *rx, unsigned long *i,
				      bool by_key)
{
	const struct kfr_gate *gate = xa_find(&rx->flows, i, ULONG_MAX,
					      kfr_flow_mark(by_key));

	lockdep_assert_held(&rx->lock);
	if (!gate)
		return NULL;
	++*i;
	kfr_conn_get(gate->conn);
	return gate->conn;
}

/**
 * kfr_rx_resume() - there is room: all blocked senders may go on
 * @rx: the context, busy or open
 * @by_key: there is room for RMA by key; otherwise for messages
 *
 * The lock is dropped to pump. A sender that is refused again meanwhile waits for
 * the next room.
 *
 * Context: any; no lock held.
 */
void kfr_rx_resume(struct kfr_rx *rx, bool by_key)
{
	struct kfr_conn *conn;
	unsigned long i = 0;
	unsigned long irq;

	do {
		spin_lock_irqsave(&rx->lock, irq);
		conn = kfr_flow_next(rx, &i, by_key);
		if (conn)
			kfr_resume_one(rx, conn, by_key);
		spin_unlock_irqrestore(&rx->lock, irq);
		if (!conn)
			break;
		kfr_ctl_added(conn);
		kfr_conn_put(conn);
	} while (true);
}

/**
 * kfr_rx_resume_room() - the CQ of a context has room again
 * @work: kfr_rx.room
 *
 * Context: work item; kfr_rx_close() waits for it.
 */
void kfr_rx_resume_room(struct work_struct *work)
{
	struct kfr_rx *rx = container_of(work, struct kfr_rx, room.work);

	kfr_rx_resume(rx, false);
	kfr_rx_resume(rx, true);
}

/*
 * Ask a blocked sender for what a receive matches. A slow peer must not accumulate WANTs,
 * so RESUME takes the place of one too many. Without a blocked flow none is needed: RESUME
 * is on its way.
 */
static void kfr_want(struct kfr_rx *rx, struct kfr_conn *conn,
		     const struct kfr_recv *recv)
{
	struct kfr_hdr hdr = {
		.version = KFR_VERSION,
		.op = KFR_OP_WANT,
		.flags = recv->tagged ? KFR_F_TAGGED : 0,
		.src = cpu_to_le16(rx->ep->addr.id),
		.dst = cpu_to_le16(recv->directed ? recv->src.id : 0),
		.rx = cpu_to_le16(rx->index),
		.auth = cpu_to_le32(rx->ep->auth),
		.tag = cpu_to_le64(recv->tag),
		.data = cpu_to_le64(recv->ignore),
	};

	lockdep_assert_held(&rx->lock);
	if (!kfr_ctl_add(conn, &hdr) &&
	    xa_get_mark(&rx->flows, kfr_flow_index(conn, false),
			kfr_flow_mark(false)))
		kfr_resume_one(rx, conn, false);
}

/**
 * kfr_rx_send_wants() - look for a parked message for a receive
 * @rx: the context, open or busy
 * @recv: a copy of the receive, which matched nothing kept. The original is
 *	posted and may have been taken
 *
 * Sends WANT to every blocked sender that may have such a message.
 *
 * Context: any; no lock held.
 */
void kfr_rx_send_wants(struct kfr_rx *rx, const struct kfr_recv *recv)
{
	struct kfr_conn *conn;
	unsigned long i = 0;
	unsigned long irq;

	do {
		spin_lock_irqsave(&rx->lock, irq);
		conn = kfr_flow_next(rx, &i, false);
		if (conn && (!recv->directed || recv->src.ip == conn->remote))
			kfr_want(rx, conn, recv);
		spin_unlock_irqrestore(&rx->lock, irq);
		if (!conn)
			break;
		kfr_ctl_added(conn);
		kfr_conn_put(conn);
	} while (true);
}

/**
 * kfr_rx_send_want_to() - look for a parked message of one sender
 * @rx: the context, busy
 * @conn: connection of the sender, of which a refused message matches @recv, or
 *	whose message @recv has just got
 * @recv: a copy of the receive
 *
 * Context: any; no lock held.
 */
void kfr_rx_send_want_to(struct kfr_rx *rx, struct kfr_conn *conn,
			 const struct kfr_recv *recv)
{
	unsigned long irq;

	spin_lock_irqsave(&rx->lock, irq);
	kfr_want(rx, conn, recv);
	spin_unlock_irqrestore(&rx->lock, irq);
	kfr_ctl_added(conn);
}

/**
 * kfr_rx_drop_flows() - a context closes
 * @rx: the context, closing: it refuses every message with KFR_NO_ENDPOINT
 *
 * RESUME makes the senders send their parked messages, which are then refused,
 * and lets them end the flow. @orphans is set while messages still find this
 * context, so that the next one with its number sees it.
 *
 * Context: process; no lock held.
 */
void kfr_rx_drop_flows(struct kfr_rx *rx)
{
	struct kfr_gate *gate;
	struct kfr_conn *conn;
	unsigned long i;

	xa_for_each(&rx->flows, i, gate) {
		spin_lock_irq(&rx->lock);
		gate = xa_load(&rx->flows, i);
		conn = gate ? gate->conn : NULL;
		if (conn) {
			kfr_flow_unblock(rx, conn, i);
			xa_erase(&rx->flows, i);
			kfr_conn_get(conn);
			WRITE_ONCE(conn->orphans, true);
			kfr_ctl_add_resume(gate, true);
		}
		spin_unlock_irq(&rx->lock);
		if (!conn)
			continue;
		kfr_ctl_added(conn);
		kfr_conn_put(conn);
	}
}

/*
 * Drops kept messages that wait for a reply on a dead connection. Return: their
 * number; the caller drops as many references to the connection.
 */
static unsigned int kfr_rx_forget_list(struct kfr_rx *rx,
				       struct list_head *list,
				       const struct kfr_conn *conn)
{
	struct kfr_unexp *unexp, *next;
	unsigned int n = 0;

	lockdep_assert_held(&rx->lock);
	list_for_each_entry_safe(unexp, next, list, link) {
		if (unexp->conn != conn)
			continue;
		kfr_match_unkeep(&rx->match, unexp);
		list_add(&unexp->link, &rx->spare);
		unexp->conn = NULL;
		n++;
	}
	rx->nspare += n;
	return n;
}

/**
 * kfr_rx_forget() - drop what a context has of a dead connection
 * @rx: the context, busy
 * @conn: the connection; the caller holds a reference
 *
 * Numbered messages stay: they are acknowledged, and their data is here.
 *
 * Context: process; no spinlock held.
 */
void kfr_rx_forget(struct kfr_rx *rx, struct kfr_conn *conn)
{
	unsigned int n;

	spin_lock_irq(&rx->lock);
	kfree(xa_erase(&rx->flows, kfr_flow_index(conn, false)));
	kfree(xa_erase(&rx->flows, kfr_flow_index(conn, true)));
	n = kfr_rx_forget_list(rx, &rx->match.kept, conn);
	n += kfr_rx_forget_list(rx, &rx->match.kept_tagged, conn);
	spin_unlock_irq(&rx->lock);

	if (n)
		kfr_rx_resume(rx, false);
	while (n--)
		kfr_conn_put(conn);
}

/* The context that a request is for. */
static u64 kfr_flow_to(const struct kfr_hdr *hdr)
{
	return (u64)le32_to_cpu(hdr->auth) << 32 |
	       (u32)le16_to_cpu(hdr->dst) << 16 | le16_to_cpu(hdr->rx);
}

static bool kfr_flow_is(const struct kfr_flow *flow, const struct kfr_hdr *hdr)
{
	return flow->to == kfr_flow_to(hdr) &&
	       flow->by_key == kfr_hdr_by_key(hdr);
}

/* Users choose the contexts, so they must not know which ones share a bucket. */
static u32 kfr_flow_hash(const struct kfr_conn *conn, u64 to)
{
	return jhash_2words(to, to >> 32, conn->salt);
}

static struct kfr_flow *kfr_flow_find(const struct kfr_conn *conn,
				      const struct kfr_hdr *hdr)
{
	struct kfr_flow *flow;

	lockdep_assert_held(&conn->lock);
	hash_for_each_possible(conn->flows, flow, link,
			       kfr_flow_hash(conn, kfr_flow_to(hdr)))
		if (kfr_flow_is(flow, hdr))
			return flow;
	return NULL;
}

static void kfr_uncharge(struct kfr_conn *conn, u8 share)
{
	atomic_dec(&conn->ncharged);
	atomic_dec(&conn->charged[share]);
}

/**
 * kfr_op_charge() - charge an operation to its user
 * @conn: the connection
 * @op: about to be submitted
 *
 * An operation may make a flow, and a connection with %KFR_FLOWS flows takes no
 * new operations. If there is a flow, the operation may be parked there, and the
 * peer decides how often a flow's operations are searched. So if flows and
 * operations are more than half of %KFR_FLOWS, a user may have an eighth of them.
 *
 * Context: any; the caller holds the connection's lock.
 * Return: false: its user has enough; true: it is charged until kfr_op_uncharge().
 */
bool kfr_op_charge(struct kfr_conn *conn, struct kfr_op *op)
{
	unsigned long owner = op->tx->ep->rdm->domain->base.owner;

	lockdep_assert_held(&conn->lock);
	op->limited = owner >= KFI_OWNER_USER;
	op->share = 2 * hash_long(owner, KFR_OWNER_BITS) + op->limited;
	if (op->limited &&
	    atomic_read(&conn->ncharged) >= KFR_FLOWS / 2 &&
	    atomic_read(&conn->charged[op->share]) >= KFR_FLOWS / 8)
		return false;
	atomic_inc(&conn->ncharged);
	atomic_inc(&conn->charged[op->share]);
	op->charged = true;
	return true;
}

/**
 * kfr_op_uncharge() - an operation has ended, the mirror of kfr_op_charge()
 * @conn: its connection
 * @op: the operation, owned by the caller
 *
 * Context: any.
 */
void kfr_op_uncharge(struct kfr_conn *conn, struct kfr_op *op)
{
	if (op->charged)
		kfr_uncharge(conn, op->share);
	op->charged = false;
}

/**
 * kfr_flow_stamp() - fill in the epoch of a request
 * @conn: its connection
 * @op: the operation, about to be sent; its place is filled in
 *
 * The epoch is 0 until the peer's context has sent RESUME.
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_flow_stamp(const struct kfr_conn *conn, struct kfr_op *op)
{
	struct kfr_flow *flow = NULL;

	lockdep_assert_held(&conn->lock);
	if (conn->nflows)
		flow = kfr_flow_find(conn, &op->hdr);
	op->hdr.epoch = cpu_to_le16(flow ? flow->epoch : 0);
	if (flow)
		flow->last = op->place;
}

static void kfr_line_up_again(struct kfr_conn *conn, struct kfr_op *op)
{
	struct kfr_line *line = &conn->lines[op->share];

	lockdep_assert_held(&conn->lock);
	list_add_tail(&op->sent, &line->again);
	if (list_empty(&line->again_turn))
		list_add_tail(&line->again_turn, &conn->again);
}

/**
 * kfr_flow_first() - the operation of a flow that is to be sent again first
 * @conn: the connection
 * @op: one that is to be sent again
 *
 * Context: any; the caller holds the connection's lock.
 * Return: @op, or one of the same flow that goes before it.
 */
struct kfr_op *kfr_flow_first(const struct kfr_conn *conn, struct kfr_op *op)
{
	const struct kfr_flow *flow = kfr_flow_find(conn, &op->hdr);

	lockdep_assert_held(&conn->lock);
	return list_first_entry(&flow->again, struct kfr_op, item.link);
}

/**
 * kfr_flow_follow() - let an operation go after those of its flow that are sent again
 * @conn: its connection
 * @op: not sent yet; it has what it needs
 *
 * Context: any; the caller holds the connection's lock.
 * Return: true: there are such, and it was queued after them; false: none.
 */
bool kfr_flow_follow(struct kfr_conn *conn, struct kfr_op *op)
{
	struct kfr_flow *flow = NULL;

	lockdep_assert_held(&conn->lock);
	if (!list_empty(&conn->again))
		flow = kfr_flow_find(conn, &op->hdr);
	if (!flow || list_empty(&flow->again))
		return false;
	list_move_tail(&op->item.link, &flow->again);
	kfr_line_up_again(conn, op);
	return true;
}

/* Requests of a new flow may have been sent before it was one. */
static void kfr_flow_count_sent(const struct kfr_conn *conn,
				struct kfr_flow *flow)
{
	const struct list_head *lists[] = {
		&conn->sent_numbered, &conn->sent_by_id
	};
	const struct kfr_op *op;
	unsigned int i;

	lockdep_assert_held(&conn->lock);
	for (i = 0; i < ARRAY_SIZE(lists); i++)
		list_for_each_entry(op, lists[i], sent)
			if (kfr_flow_is(flow, &op->hdr))
				flow->last = max(flow->last, op->place);
}

/*
 * The flow of an operation that is the first to need one. It has brought the
 * memory along, so nothing can fail here. A connection with too many flows gets
 * no new operations, but those that it has go on.
 */
static struct kfr_flow *kfr_flow_new(struct kfr_conn *conn, struct kfr_op *op)
{
	const struct kfr_hdr *hdr = &op->hdr;
	struct kfr_flow *flow = op->flow;

	lockdep_assert_held(&conn->lock);
	op->flow = NULL;
	flow->to = kfr_flow_to(hdr);
	flow->by_key = kfr_hdr_by_key(hdr);
	flow->lent = true;
	/* The operation's place is the flow's now. */
	flow->share = op->share;
	op->charged = false;
	flow->last = op->place;
	kfr_flow_count_sent(conn, flow);
	INIT_LIST_HEAD(&flow->expected);
	INIT_LIST_HEAD(&flow->parked);
	INIT_LIST_HEAD(&flow->again);
	hash_add(conn->flows, &flow->link, kfr_flow_hash(conn, flow->to));
	if (++conn->nflows >= KFR_FLOWS)
		kfr_conn_retire(conn);
	return flow;
}

static struct kfr_flow *kfr_flow_get(struct kfr_conn *conn, struct kfr_op *op)
{
	struct kfr_flow *flow = kfr_flow_find(conn, &op->hdr);

	lockdep_assert_held(&conn->lock);
	return flow ?: kfr_flow_new(conn, op);
}

static void kfr_flow_end(struct kfr_conn *conn, struct kfr_flow *flow)
{
	lockdep_assert_held(&conn->lock);
	list_del(&flow->expected);
	hash_del(&flow->link);
	conn->nflows--;
	kfr_uncharge(conn, flow->share);
	kfree(flow);
}

/*
 * Ends a flow of which the peer knows nothing, and that has nothing to send. If a NAK
 * may be on its way, kfr_flows_handled() looks again.
 */
static void kfr_flow_settle(struct kfr_conn *conn, struct kfr_flow *flow)
{
	lockdep_assert_held(&conn->lock);
	if (flow->lent || !list_empty(&flow->parked) ||
	    !list_empty(&flow->again) || flow->refused > flow->gone)
		return;
	if (flow->last <= conn->handled) {
		kfr_flow_end(conn, flow);
		return;
	}
	flow->until = conn->tx_count;
	list_move_tail(&flow->expected, &conn->expected);
}

/**
 * kfr_flows_handled() - the peer has handled all requests up to a place
 * @conn: the connection
 * @place: kfr_op.place; the NAK of any request up to it has been handled here
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_flows_handled(struct kfr_conn *conn, u64 place)
{
	struct kfr_flow *flow;

	lockdep_assert_held(&conn->lock);
	conn->handled = max(conn->handled, place);
	while ((flow = list_first_entry_or_null(&conn->expected,
						struct kfr_flow, expected)) &&
	       flow->until <= conn->handled) {
		list_del_init(&flow->expected);
		kfr_flow_settle(conn, flow);
	}
}

/**
 * kfr_flow_forget() - a sent request is forgotten, and may be refused nevertheless
 * @conn: its connection
 * @op: the operation, which ends next
 *
 * NAK for it will be ignored. But RESUME follows, whose epoch counts for later
 * requests of the flow.
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_flow_forget(struct kfr_conn *conn, struct kfr_op *op)
{
	kfr_flow_get(conn, op);
}

/**
 * kfr_flow_release() - an operation has ended: it does not need its flow again
 * @conn: its connection
 * @op: the operation, off all lists of its flow
 *
 * An operation can make one flow only, as it has the memory for one. Its flow
 * stays as long as the operation may be refused again.
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_flow_release(struct kfr_conn *conn, const struct kfr_op *op)
{
	struct kfr_flow *flow = NULL;

	lockdep_assert_held(&conn->lock);
	if (conn->nflows)
		flow = kfr_flow_find(conn, &op->hdr);
	if (!op->flow && !WARN_ON_ONCE(!flow))
		flow->lent = false;
	if (flow)
		kfr_flow_settle(conn, flow);
}

/* The flow that a message of the peer is about: of requests to its source. */
static struct kfr_flow *kfr_flow_from(const struct kfr_conn *conn,
				      const struct kfr_hdr *hdr, bool by_key)
{
	const struct kfr_hdr to = {
		.dst = hdr->src,
		.rx = hdr->rx,
		.auth = hdr->auth,
		.op = by_key ? KFR_OP_WRITE : KFR_OP_EAGER,
	};

	return kfr_flow_find(conn, &to);
}

/**
 * kfr_flow_place() - the place that a count of the peer stands for
 * @conn: the connection
 * @count: from a reply, or RESUME; may be wrong
 *
 * An operation may wait at the peer while the counts on the wire wrap.
 *
 * Context: any; the caller holds the connection's lock.
 * Return: the place, of a request that was sent; or 0.
 */
u64 kfr_flow_place(const struct kfr_conn *conn, __le32 count)
{
	u32 ago = (u32)conn->tx_count - le32_to_cpu(count);

	lockdep_assert_held(&conn->lock);
	return ago < conn->tx_count ? conn->tx_count - ago : 0;
}

/* A request was refused, or a flow resumed that the peer had refused. */
static void kfr_flow_refused(const struct kfr_conn *conn, struct kfr_flow *flow,
			     const struct kfr_hdr *hdr)
{
	lockdep_assert_held(&conn->lock);
	flow->refused = max(flow->refused, kfr_flow_place(conn, hdr->count));
}

/**
 * kfr_flow_gone() - a context of the peer does not exist any more
 * @conn: the connection
 * @hdr: header of the message that says so
 * @place: kfr_op.place of the last request that found it gone
 *
 * The flow ends, if only now or later, unless another context of the same numbers
 * refuses a request.
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_flow_gone(struct kfr_conn *conn, const struct kfr_hdr *hdr, u64 place)
{
	struct kfr_flow *flow = kfr_flow_from(conn, hdr,
					      hdr->flags & KFR_F_RMA);

	lockdep_assert_held(&conn->lock);
	if (!flow)
		return;
	flow->gone = max(flow->gone, place);
	kfr_flow_settle(conn, flow);
}

/* Parks a sent operation before another one. It keeps its id and its registrations. */
static void kfr_park_before(struct list_head *at, struct kfr_op *op)
{
	lockdep_assert_held(&op->conn->lock);
	list_del_init(&op->item.link);
	list_move_tail(&op->sent, at);
	op->state = KFR_QUEUED;
	op->parked = true;
	op->hdr.flags &= ~KFR_F_PULLED;
	kfr_op_refused(op->conn, op);
}

/*
 * NAKs may arrive in another order than the requests were first sent, so it is sorted in
 * by @order, mostly at the end.
 */
static void kfr_park(struct kfr_flow *flow, struct kfr_op *op)
{
	struct kfr_op *before;

	lockdep_assert_held(&op->conn->lock);
	list_for_each_entry_reverse(before, &flow->parked, sent)
		if (before->order < op->order)
			break;
	kfr_park_before(before->sent.next, op);
}

/**
 * kfr_flow_nak() - NAK has arrived: park the operation
 * @conn: on this connection
 * @hdr: header of the NAK
 *
 * A NAK of an older epoch is stale: the request was sent again. If the
 * operation's context is closing, it is cancelled instead, since nothing would
 * send it again. A forgotten operation is not found, only its flow.
 *
 * Context: softirq; no lock held.
 */
void kfr_flow_nak(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	struct kfr_op *op, *done = NULL;
	struct kfr_flow *flow;
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	op = kfr_find_request(conn, hdr);
	if (op && op->state == KFR_SENT && op->hdr.epoch == hdr->epoch) {
		flow = kfr_flow_get(conn, op);
		kfr_flow_refused(conn, flow, hdr);
		if (!kfr_op_closing(op))
			kfr_park(flow, op);
		else if (!kfr_op_cancel(conn, op))
			done = op;
	} else {
		flow = kfr_flow_from(conn, hdr, hdr->flags & KFR_F_RMA);
		if (flow)
			kfr_flow_refused(conn, flow, hdr);
	}
	kfr_flows_handled(conn, kfr_flow_place(conn, hdr->count));
	spin_unlock_irqrestore(&conn->lock, irq);
	if (done)
		kfr_op_done(done);
	kfr_pump(conn);
}

static int kfr_by_order(void *unused, const struct list_head *a,
			const struct list_head *b)
{
	return list_entry(a, struct kfr_op, sent)->order >
	       list_entry(b, struct kfr_op, sent)->order;
}

/*
 * Parks the sent operations that the receiver had not handled at RESUME: it
 * will refuse them, as their epoch is over. Operations of a closing context
 * stay; their NAK cancels them. A pulled one stays too, as epochs do not apply
 * to it. They are sorted first, so that one pass finds the places of all.
 */
static void kfr_flow_gather(struct kfr_conn *conn, struct kfr_flow *flow,
			    u64 seen)
{
	struct list_head *lists[] = { &conn->sent_numbered, &conn->sent_by_id };
	struct list_head *at = flow->parked.next;
	struct kfr_op *op, *next;
	LIST_HEAD(found);
	unsigned int i;

	lockdep_assert_held(&conn->lock);
	for (i = 0; i < ARRAY_SIZE(lists); i++)
		list_for_each_entry_safe(op, next, lists[i], sent)
			if (op->place > seen &&
			    !(op->hdr.flags & KFR_F_PULLED) &&
			    !kfr_op_closing(op) &&
			    kfr_flow_is(flow, &op->hdr))
				list_move_tail(&op->sent, &found);
	list_sort(NULL, &found, kfr_by_order);
	list_for_each_entry_safe(op, next, &found, sent) {
		while (at != &flow->parked &&
		       list_entry(at, struct kfr_op, sent)->order < op->order)
			at = at->next;
		kfr_park_before(at, op);
	}
}

/*
 * Has a parked operation sent again, in its place among those of its flow: before the
 * first younger one from @at on. Return: where that is, for the next parked one.
 */
static struct list_head *kfr_unpark(struct kfr_conn *conn, struct kfr_flow *flow,
				    struct kfr_op *op, struct list_head *at)
{
	lockdep_assert_held(&conn->lock);
	while (at != &flow->again &&
	       list_entry(at, struct kfr_op, item.link)->order < op->order)
		at = at->next;
	list_del_init(&op->sent);
	op->parked = false;
	list_add_tail(&op->item.link, at);
	kfr_line_up_again(conn, op);
	return at;
}

/**
 * kfr_flow_resume() - RESUME has arrived: send parked operations again
 * @conn: on this connection
 * @hdr: header of the RESUME; its source is the context that has room, or closes
 *
 * A flow that has ended is not resumed: the RESUME is of the context that was gone
 * then.
 *
 * Context: softirq; no lock held.
 */
void kfr_flow_resume(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	struct kfr_op *op, *next;
	struct kfr_flow *flow;
	struct list_head *at;
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	flow = kfr_flow_from(conn, hdr, hdr->flags & KFR_F_RMA);
	if (flow) {
		kfr_flow_gather(conn, flow,
				kfr_flow_place(conn, hdr->count));
		flow->epoch = le16_to_cpu(hdr->epoch);
		kfr_flow_refused(conn, flow, hdr);
		at = flow->again.next;
		list_for_each_entry_safe(op, next, &flow->parked, sent)
			at = kfr_unpark(conn, flow, op, at);
	}
	if (hdr->status == cpu_to_le32(KFR_NO_ENDPOINT))
		kfr_flow_gone(conn, hdr, kfr_flow_place(conn, hdr->count));
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_pump(conn);
}

static bool kfr_op_matches_want(const struct kfr_op *op,
				const struct kfr_hdr *want)
{
	u64 differs = le64_to_cpu(op->hdr.tag ^ want->tag);

	if ((op->hdr.flags ^ want->flags) & KFR_F_TAGGED ||
	    (want->dst && want->dst != op->hdr.src))
		return false;
	return !(want->flags & KFR_F_TAGGED) ||
	       !(differs & ~le64_to_cpu(want->data));
}

/* Sends the first parked message that matches, but none of a closing context. */
static void kfr_flow_pull(struct kfr_conn *conn, const struct kfr_hdr *want)
{
	struct kfr_flow *flow = kfr_flow_from(conn, want, false);
	struct kfr_op *op;

	lockdep_assert_held(&conn->lock);
	if (!flow)
		return;
	list_for_each_entry(op, &flow->parked, sent) {
		if (kfr_op_closing(op) || !kfr_op_matches_want(op, want))
			continue;
		op->hdr.flags |= KFR_F_PULLED;
		op->want = *want;
		kfr_unpark(conn, flow, op, flow->again.next);
		return;
	}
}

/**
 * kfr_flow_pull_next() - an operation of a closing context ends without being sent
 * @conn: its connection
 * @op: the operation, queued
 *
 * If WANT has selected it, the receive still waits: select another one.
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_flow_pull_next(struct kfr_conn *conn, const struct kfr_op *op)
{
	lockdep_assert_held(&conn->lock);
	if (op->hdr.flags & KFR_F_PULLED)
		kfr_flow_pull(conn, &op->want);
}

/**
 * kfr_flow_want() - WANT has arrived: send the first matching message
 * @conn: on this connection
 * @hdr: header of the WANT: tag, bits to ignore, and the source or 0
 *
 * There may be none: the message may have been sent again, or never existed.
 *
 * Context: softirq; no lock held.
 */
void kfr_flow_want(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	kfr_flow_pull(conn, hdr);
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_pump(conn);
}
