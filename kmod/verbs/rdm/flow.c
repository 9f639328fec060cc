// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Pushing back: what a receive context does with messages that it has no room
 * to keep, and what the sender does with those that come back.
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
 *	NAK 4 (epoch 0): an old story
 *
 * RESUME says how many requests were seen by then. Those after it are refused,
 * whatever they are: so they are sent again, behind the parked ones, in order.
 *
 * A receiver may want a parked message before those that it keeps, as tags have
 * no order: then there would never be room. So a receive that matches nothing
 * kept, and a refused message that matches a receive, make it say WANT: and the
 * sender sends the first of its parked messages that matches, alone. When many
 * such questions wait to be sent, it says RESUME instead: then all are sent
 * again, and each that is refused is looked at.
 *
 * A sender knows contexts by their numbers. When one closes and another one has
 * its number, the sender goes on in the old one's epoch, or it may just be
 * hearing of a newer one, and send again what is on its way. The new context
 * cannot tell, so it begins with an epoch of its own: it refuses the first message
 * and says RESUME at once. No other context of the connection has that epoch.
 */
#include <linux/slab.h>

#include "rdm.h"

static struct kfr_flow *kfr_flow_of(struct kfr_rx *rx,
				    const struct kfr_conn *conn)
{
	struct kfr_flow *flow;

	list_for_each_entry(flow, &rx->flows, link)
		if (flow->conn == conn)
			return flow;
	return NULL;
}

/*
 * Is it not known which epoch the sender is in, as it may have spoken with an
 * older context of the same number? Caller holds the context's lock.
 */
bool kfr_flow_epoch_unknown(struct kfr_rx *rx, const struct kfr_conn *conn)
{
	lockdep_assert_held(&rx->lock);
	return READ_ONCE(conn->orphans) && !kfr_flow_of(rx, conn);
}

/* Does the context take a message of that epoch? Caller holds its lock. */
bool kfr_flow_accepts(struct kfr_rx *rx, const struct kfr_conn *conn, u16 epoch)
{
	const struct kfr_flow *flow = kfr_flow_of(rx, conn);

	lockdep_assert_held(&rx->lock);
	if (!flow)
		return true;
	return !flow->blocked && flow->epoch == epoch;
}

/* Has it pushed back anybody who does not know of room yet? Holds the lock. */
bool kfr_flow_blocked(const struct kfr_rx *rx)
{
	const struct kfr_flow *flow;

	list_for_each_entry(flow, &rx->flows, link)
		if (flow->blocked)
			return true;
	return false;
}

/* From now on it takes none of this connection. Caller holds its lock. */
int kfr_flow_block(struct kfr_rx *rx, struct kfr_conn *conn)
{
	struct kfr_flow *flow = kfr_flow_of(rx, conn);

	lockdep_assert_held(&rx->lock);
	if (!flow) {
		flow = kzalloc(sizeof(*flow), GFP_ATOMIC | __GFP_NOWARN);
		if (!flow)
			return -ENOMEM;
		kfr_conn_get(conn);
		flow->conn = conn;
		list_add_tail(&flow->link, &rx->flows);
	}
	flow->blocked = true;
	return 0;
}

/* Caller holds the context's lock: RESUME goes in the order of epochs. */
static int kfr_resume_one(struct kfr_rx *rx, struct kfr_flow *flow)
{
	struct kfr_hdr hdr = {
		.dst = cpu_to_le16(rx->ep->addr.id),
		.rx = cpu_to_le16(rx->index),
		.auth = cpu_to_le32(rx->ep->auth),
	};

	flow->blocked = false;
	flow->epoch = atomic_inc_return(&flow->conn->epochs);
	hdr.epoch = cpu_to_le16(flow->epoch);
	return kfr_ctl_add_reply(flow->conn, &hdr, KFR_OP_RESUME);
}

/**
 * kfr_rx_resume() - there is room again
 * @rx: the context, busy or open
 *
 * Context: any; no lock held.
 */
void kfr_rx_resume(struct kfr_rx *rx)
{
	struct kfr_conn *conn;
	struct kfr_flow *flow;
	unsigned long irq;
	u64 turn = 0;
	int err = 0;

	do {
		conn = NULL;
		spin_lock_irqsave(&rx->lock, irq);
		/* Each once: who is pushed back again meanwhile waits for more room. */
		turn = turn ?: ++rx->resume_rounds;
		list_for_each_entry(flow, &rx->flows, link) {
			if (!flow->blocked || flow->resume_round == turn)
				continue;
			flow->resume_round = turn;
			conn = flow->conn;
			kfr_conn_get(conn);
			err = kfr_resume_one(rx, flow);
			break;
		}
		spin_unlock_irqrestore(&rx->lock, irq);
		if (!conn)
			break;
		kfr_ctl_added(conn, err);
		kfr_conn_put(conn);
	} while (true);
}

static void kfr_send_want(const struct kfr_rx *rx, struct kfr_conn *conn,
		     const struct kfr_recv *recv)
{
	struct kfr_ctl *ctl = kzalloc(sizeof(*ctl), GFP_ATOMIC | __GFP_NOWARN);

	if (!ctl) {
		kfr_conn_abort(conn, ENOMEM, KFR_ERR_STATUS + KFR_NO_MEMORY);
		return;
	}
	ctl->hdr = (struct kfr_hdr) {
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
	kfr_ctl_queue(conn, ctl);
}

/*
 * Shall this connection rather hear RESUME? A peer that is slow to take questions
 * shall not find more of them than it can.
 */
static bool kfr_wants_full(const struct kfr_conn *conn)
{
	return READ_ONCE(conn->nwants) >= KFR_WANTS_MAX;
}

/**
 * kfr_rx_send_wants() - a receive is posted, and nothing that is kept matches
 * @rx: the context, open or busy
 * @recv: a copy of the receive: the real one may be gone
 *
 * Context: any; no lock held.
 */
void kfr_rx_send_wants(struct kfr_rx *rx, const struct kfr_recv *recv)
{
	struct kfr_conn *conn;
	struct kfr_flow *flow;
	unsigned long irq;
	bool all = false;
	int err = 0;
	u64 turn = 0;

	do {
		conn = NULL;
		spin_lock_irqsave(&rx->lock, irq);
		turn = turn ?: ++rx->want_rounds;
		list_for_each_entry(flow, &rx->flows, link) {
			if (!flow->blocked || flow->want_round == turn)
				continue;
			flow->want_round = turn;
			conn = flow->conn;
			kfr_conn_get(conn);
			all = kfr_wants_full(conn);
			if (all)
				err = kfr_resume_one(rx, flow);
			break;
		}
		spin_unlock_irqrestore(&rx->lock, irq);
		if (!conn)
			break;
		if (all)
			kfr_ctl_added(conn, err);
		else if (!recv->directed || recv->src.ip == conn->remote)
			kfr_send_want(rx, conn, recv);
		kfr_conn_put(conn);
	} while (conn);
}

/* The same for one connection, whose message was refused and yet matches. */
void kfr_rx_send_want_to(struct kfr_rx *rx, struct kfr_conn *conn,
		      const struct kfr_recv *recv)
{
	struct kfr_flow *flow;
	unsigned long irq;
	bool all = false;
	int err = 0;

	spin_lock_irqsave(&rx->lock, irq);
	flow = kfr_flow_of(rx, conn);
	if (flow && flow->blocked && kfr_wants_full(conn)) {
		all = true;
		err = kfr_resume_one(rx, flow);
	}
	spin_unlock_irqrestore(&rx->lock, irq);
	if (all)
		kfr_ctl_added(conn, err);
	else
		kfr_send_want(rx, conn, recv);
}

static void kfr_flow_free(struct kfr_flow *flow)
{
	if (flow->conn)
		kfr_conn_put(flow->conn);
	kfree(flow);
}

/* The context closes: what is parked hears that there is no such endpoint. */
void kfr_rx_drop_flows(struct kfr_rx *rx)
{
	struct kfr_flow *flow, *next;
	LIST_HEAD(drop);

	kfr_rx_resume(rx);
	spin_lock_irq(&rx->lock);
	list_for_each_entry(flow, &rx->flows, link)
		WRITE_ONCE(flow->conn->orphans, true);
	list_splice_init(&rx->flows, &drop);
	spin_unlock_irq(&rx->lock);
	list_for_each_entry_safe(flow, next, &drop, link)
		kfr_flow_free(flow);
}

/* Messages of a connection are forgotten. Caller holds the lock. Return: how many. */
static unsigned int kfr_rx_forget_list(struct kfr_rx *rx,
				       struct list_head *list,
				       const struct kfr_conn *conn)
{
	struct kfr_unexp *unexp, *next;
	unsigned int n = 0;

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

/* The connection is dead: no answer can go there, nothing is expected thence. */
void kfr_rx_forget(struct kfr_rx *rx, struct kfr_conn *conn)
{
	struct kfr_flow *flow;
	unsigned int n;

	spin_lock_irq(&rx->lock);
	flow = kfr_flow_of(rx, conn);
	if (flow)
		list_del(&flow->link);
	n = kfr_rx_forget_list(rx, &rx->match.kept, conn);
	n += kfr_rx_forget_list(rx, &rx->match.kept_tagged, conn);
	spin_unlock_irq(&rx->lock);

	if (flow)
		kfr_flow_free(flow);
	if (n)
		kfr_rx_resume(rx);
	while (n--)
		kfr_conn_put(conn);
}

static bool kfr_flow_is(const struct kfr_flow *flow, const struct kfr_hdr *hdr)
{
	return flow->dst == le16_to_cpu(hdr->dst) &&
	       flow->rx == le16_to_cpu(hdr->rx) &&
	       flow->auth == le32_to_cpu(hdr->auth);
}

/* Messages that look for a receive. RMA by key is none of them. */
static bool kfr_op_matched(const struct kfr_op *op)
{
	return op->hdr.op == KFR_OP_EAGER || op->hdr.op == KFR_OP_RTS ||
	       op->hdr.flags & KFR_F_TAGGED;
}

static struct kfr_flow *kfr_flow_find(const struct kfr_conn *conn,
				      const struct kfr_hdr *hdr)
{
	struct kfr_flow *flow;

	list_for_each_entry(flow, &conn->flows, link)
		if (kfr_flow_is(flow, hdr))
			return flow;
	return NULL;
}

/* What an operation is sent with. Caller holds the connection's lock. */
u16 kfr_flow_epoch(const struct kfr_conn *conn, const struct kfr_op *op)
{
	const struct kfr_flow *flow;

	if (list_empty(&conn->flows) || !kfr_op_matched(op))
		return 0;
	flow = kfr_flow_find(conn, &op->hdr);
	return flow ? flow->epoch : 0;
}

static struct kfr_flow *kfr_flow_new(struct kfr_conn *conn,
				     const struct kfr_hdr *hdr)
{
	struct kfr_flow *flow;

	if (conn->nflows == KFR_FLOWS)
		return NULL;
	flow = kzalloc(sizeof(*flow), GFP_ATOMIC | __GFP_NOWARN);
	if (!flow)
		return NULL;
	conn->nflows++;
	flow->dst = le16_to_cpu(hdr->dst);
	flow->rx = le16_to_cpu(hdr->rx);
	flow->auth = le32_to_cpu(hdr->auth);
	INIT_LIST_HEAD(&flow->parked);
	list_add_tail(&flow->link, &conn->flows);
	return flow;
}

/* Parked operations are in the order in which they were posted. */
static void kfr_park(struct kfr_flow *flow, struct kfr_op *op)
{
	struct kfr_op *before;

	list_del_init(&op->item.link);
	list_del_init(&op->sent);
	list_for_each_entry_reverse(before, &flow->parked, sent)
		if (before->order < op->order)
			break;
	list_add(&op->sent, &before->sent);
	op->state = KFR_QUEUED;
	op->parked = true;
	op->hdr.flags &= ~KFR_F_PULLED;
}

/**
 * kfr_flow_nak() - a message has come back
 * @conn: on this connection
 * @hdr: what was said
 *
 * Context: any; no lock held.
 * Return: 0; -ENOMEM.
 */
int kfr_flow_nak(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	struct kfr_op *op, *done = NULL;
	struct kfr_flow *flow;
	unsigned long irq;
	int err = 0;

	spin_lock_irqsave(&conn->lock, irq);
	op = kfr_find_request(conn, hdr);
	/* It may have been sent again meanwhile. */
	if (op && op->state == KFR_SENT && op->hdr.epoch == hdr->epoch &&
	    kfr_op_matched(op)) {
		flow = kfr_flow_find(conn, &op->hdr);
		if (!flow)
			flow = kfr_flow_new(conn, &op->hdr);
		if (!flow)
			err = -ENOMEM;
		else if (!READ_ONCE(op->tx->closing))
			kfr_park(flow, op);
		else if (!kfr_op_cancel(conn, op))
			done = op;
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	if (done)
		kfr_op_done(done);
	kfr_pump(conn);
	return err;
}

/*
 * What the context had not seen by then is refused: its epoch is over. Where the
 * sender's context closes, nothing is sent again: NAK will end it.
 */
static void kfr_flow_gather(struct kfr_conn *conn, struct kfr_flow *flow,
			    u32 seen)
{
	struct list_head *lists[] = { &conn->sent_numbered, &conn->sent_by_id };
	struct kfr_op *op, *next;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lists); i++)
		list_for_each_entry_safe(op, next, lists[i], sent)
			if (kfr_op_matched(op) &&
			    (s32)(le32_to_cpu(op->hdr.count) - seen) > 0 &&
			    !(op->hdr.flags & KFR_F_PULLED) &&
			    !READ_ONCE(op->tx->closing) &&
			    kfr_flow_is(flow, &op->hdr))
				kfr_park(flow, op);
}

/* Before all that waits to be sent: it is older. Caller holds the lock. */
static void kfr_unpark(struct kfr_conn *conn, struct kfr_op *op,
		       struct list_head *to)
{
	list_del_init(&op->sent);
	op->parked = false;
	list_add_tail(&op->item.link, to);
}

/**
 * kfr_flow_resume() - what was parked can go
 * @conn: on this connection
 * @hdr: what was said: the source is the context that has room
 *
 * Context: any; no lock held.
 * Return: 0; -EPROTO: it had not pushed back.
 */
int kfr_flow_resume(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	struct kfr_hdr to = { .dst = hdr->src, .rx = hdr->rx,
			      .auth = hdr->auth };
	struct kfr_op *op, *next;
	struct kfr_flow *flow;
	unsigned long irq;
	LIST_HEAD(again);

	spin_lock_irqsave(&conn->lock, irq);
	flow = kfr_flow_find(conn, &to);
	if (flow) {
		kfr_flow_gather(conn, flow, le32_to_cpu(hdr->count));
		flow->epoch = le16_to_cpu(hdr->epoch);
		list_for_each_entry_safe(op, next, &flow->parked, sent)
			kfr_unpark(conn, op, &again);
		list_splice(&again, &conn->reqs);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_pump(conn);
	return flow ? 0 : -EPROTO;
}

static bool kfr_op_matches_want(const struct kfr_op *op, const struct kfr_hdr *want)
{
	u64 differs = le64_to_cpu(op->hdr.tag ^ want->tag);

	if ((op->hdr.flags ^ want->flags) & KFR_F_TAGGED ||
	    (want->dst && want->dst != op->hdr.src))
		return false;
	return !(want->flags & KFR_F_TAGGED) ||
	       !(differs & ~le64_to_cpu(want->data));
}

/**
 * kfr_flow_want() - a receive waits for a parked message, if there is one
 * @conn: on this connection
 * @hdr: what was said
 *
 * Context: any; no lock held.
 */
void kfr_flow_want(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	struct kfr_hdr to = { .dst = hdr->src, .rx = hdr->rx,
			      .auth = hdr->auth };
	struct kfr_flow *flow;
	struct kfr_op *op;
	unsigned long irq;
	LIST_HEAD(pulled);

	spin_lock_irqsave(&conn->lock, irq);
	flow = kfr_flow_find(conn, &to);
	if (flow) {
		list_for_each_entry(op, &flow->parked, sent) {
			if (!kfr_op_matches_want(op, hdr))
				continue;
			op->hdr.flags |= KFR_F_PULLED;
			kfr_unpark(conn, op, &pulled);
			list_splice(&pulled, &conn->reqs);
			break;
		}
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_pump(conn);
}
