// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Arriving messages: checks each one, and delivers, keeps or refuses requests.
 *
 *   kfr_receive()		checks the header, handles @ack
 *     kfr_dispatch()		checks numbers and payload, selects by kind
 *       kfr_handle_request()	finds the context, which stays busy meanwhile
 *         kfr_rx_arrive()	matches under the context's lock, then acts on
 *         kfr_rma_arrive()	the result without it; the same for RMA by key,
 *				with a region instead of a receive:
 *           KFR_MATCHED	copy and report, or start a job
 *           KFR_KEPT		the data was copied to a kfr_unexp
 *           KFR_PUSHED_BACK	NAK was queued; see flow.c
 *           KFR_CLOSING	refused
 *           KFR_OUT_OF_MEMORY	refused
 *       kfr_handle_reply(), kfr_flow_nak() ...
 *
 * All of that runs in softirq context, in the completion handler of the wire
 * buffer: header and payload are valid during the call only.
 *
 * The peer is not trusted: a message that violates the protocol aborts its
 * connection (-EPROTO), which the log names. Other connections are not
 * affected.
 */
#include <linux/mm.h>

#include "rdm.h"

static unsigned int rdm_match_timeout_ms = 10000;
module_param(rdm_match_timeout_ms, uint, 0644);
MODULE_PARM_DESC(rdm_match_timeout_ms, "how long tagged RMA, and messages with rdm_keep=N, wait for a receive before they fail at their initiator (ms; 0: for ever)");

/**
 * kfr_match_limit() - how long a request may wait for a receive
 *
 * Context: any.
 * Return: jiffies; 0: for ever.
 */
unsigned long kfr_match_limit(void)
{
	return msecs_to_jiffies(READ_ONCE(rdm_match_timeout_ms));
}

/**
 * kfr_completion_flags() - the flags of the completion for a request
 * @hdr: header of the request
 *
 * Context: any.
 * Return: KFI_RECV, KFI_MSG and so on.
 */
u64 kfr_completion_flags(const struct kfr_hdr *hdr)
{
	u64 kind = KFI_RECV;

	if (hdr->op == KFR_OP_READ)
		kind |= KFI_RMA | KFI_READ;
	else if (hdr->op == KFR_OP_WRITE)
		kind |= KFI_RMA | KFI_WRITE;
	kind |= hdr->flags & KFR_F_TAGGED ? KFI_TAGGED : KFI_MSG;
	if (hdr->flags & KFR_F_DATA)
		kind |= KFI_REMOTE_CQ_DATA;
	return kind;
}

/**
 * kfr_completion() - fill in the completion for a message in a receive
 * @rx: the context
 * @hdr: header of the message
 * @src: its source
 * @recv: the receive
 * @range: its part for the message
 * @comp: out
 *
 * Context: any.
 */
void kfr_completion(const struct kfr_rx *rx, const struct kfr_hdr *hdr,
		    struct kfr_addr src, const struct kfr_recv *recv,
		    const struct kfr_range *range,
		    struct kfi_completion *comp)
{
	const struct kfr_ep *ep = rx->ep;

	*comp = (struct kfi_completion) {
		.context = recv->context,
		.state = KFI_OP_ENDED,
		.flags = kfr_completion_flags(hdr),
		.len = range->len,
		.olen = range->over,
		.src = KFI_ADDR_NOTAVAIL,
	};
	if (recv->multi)
		comp->buf = kfr_buf_addr(&recv->buf, range->at);
	if (hdr->flags & KFR_F_TAGGED)
		comp->tag = le64_to_cpu(hdr->tag);
	if (hdr->flags & KFR_F_DATA)
		comp->data = le64_to_cpu(hdr->data);
	if (ep->caps & KFI_SOURCE)
		comp->src = kfr_av_source(ep->av, src);
	if (range->over) {
		comp->err = KFI_EMSGSIZE;
		comp->prov_errno = KFR_ERR_STATUS + KFR_TOO_LONG;
	}
}

/*
 * Delivers a message whose data is in @page. No lock: @range is reserved for
 * it.
 */
static void kfr_rx_copy(struct kfr_rx *rx, struct kfr_recv *recv,
			const struct kfr_hdr *hdr, struct page *page,
			struct kfr_addr src, const struct kfr_range *range)
{
	struct kfi_completion comp;

	kfr_buf_write(&recv->buf, range->at, page_address(page), range->len);
	kfr_completion(rx, hdr, src, recv, range, &comp);
	kfr_recv_done(rx, recv, &comp);
}

/**
 * kfr_unexp_free() - make the buffer of a kept message spare again
 * @rx: the context, open or busy, since senders may have to be resumed
 * @unexp: the message, taken off its list: owned by the caller
 *
 * Context: any; no lock held.
 */
void kfr_unexp_free(struct kfr_rx *rx, struct kfr_unexp *unexp)
{
	struct kfr_conn *conn = unexp->conn;
	unsigned long irq;
	bool room;

	unexp->conn = NULL;
	if (conn)
		atomic_dec(&conn->owed);
	spin_lock_irqsave(&rx->lock, irq);
	list_add(&unexp->link, &rx->spare);
	/* Only at half of the room, or resumed senders would stop at once. */
	room = ++rx->nspare * 2 >= rx->nkeep && kfr_flow_blocked(rx);
	spin_unlock_irqrestore(&rx->lock, irq);
	if (room)
		kfr_rx_resume(rx, false);
	if (conn)
		kfr_conn_put(conn);
}

/**
 * kfr_rx_deliver() - deliver a kept message to a new receive
 * @rx: the context, open
 * @recv: the receive, with @range reserved
 * @unexp: the message, taken off its list: owned by the caller, who frees it
 * @range: the part of the receive
 *
 * A message that waits for a reply has its data at the sender: a job moves it.
 *
 * Context: any; no lock held.
 */
void kfr_rx_deliver(struct kfr_rx *rx, struct kfr_recv *recv,
		    struct kfr_unexp *unexp, const struct kfr_range *range)
{
	if (!unexp->conn) {
		kfr_rx_copy(rx, recv, &unexp->hdr, unexp->page, unexp->src,
			    range);
	} else {
		refcount_inc(&rx->busy);
		kfr_job_start(unexp->conn, rx, recv, NULL, &unexp->hdr,
			      unexp->page, range, unexp->src);
	}
}

/**
 * kfr_rx_refuse() - a kept message will not be received
 * @unexp: the message, taken off its list; the caller still has to free it
 * @status: for the sender, if it waits for a reply
 *
 * Context: process, or softirq for CANCEL; no lock held.
 */
void kfr_rx_refuse(struct kfr_unexp *unexp, enum kfr_status status)
{
	struct kfr_conn *conn = unexp->conn;

	unexp->conn = NULL;
	if (!conn)
		return;
	kfr_reply(conn, &unexp->hdr, KFR_OP_FIN, status, 0, 0);
	atomic_dec(&conn->owed);
	kfr_conn_put(conn);
}

/*
 * Tagged RMA waits for a receive for a limited time. Nothing is scheduled once
 * the context closes, as close cancels the work item.
 */
static void kfr_rx_arm_expiry(struct kfr_rx *rx, const struct kfr_hdr *hdr)
{
	unsigned long limit = kfr_match_limit();

	lockdep_assert_held(&rx->lock);
	if (limit && (hdr->op == KFR_OP_READ || hdr->op == KFR_OP_WRITE) &&
	    !rx->closing)
		schedule_delayed_work(&rx->expire, limit);
}

/**
 * kfr_rx_expire() - refuse tagged RMA that has waited too long for a receive
 * @work: kfr_rx.expire
 *
 * Messages are moved to a list of its own under the lock, which makes them its
 * property, and are refused without the lock.
 *
 * Context: work item; kfr_rx_close() waits for it.
 */
void kfr_rx_expire(struct work_struct *work)
{
	struct kfr_rx *rx = container_of(to_delayed_work(work), struct kfr_rx,
					 expire);
	unsigned long limit = kfr_match_limit();
	struct kfr_unexp *unexp, *next;
	bool more = false;
	LIST_HEAD(old);

	if (!limit)
		return;
	spin_lock_irq(&rx->lock);
	list_for_each_entry_safe(unexp, next, &rx->match.kept_tagged, link) {
		if (unexp->hdr.op != KFR_OP_READ &&
		    unexp->hdr.op != KFR_OP_WRITE)
			continue;
		if (time_before(jiffies, unexp->since + limit)) {
			more = true;
			continue;
		}
		kfr_match_unkeep(&rx->match, unexp);
		list_add_tail(&unexp->link, &old);
	}
	if (more && !rx->closing)
		schedule_delayed_work(&rx->expire, max(limit / 4, 1UL));
	spin_unlock_irq(&rx->lock);
	list_for_each_entry_safe(unexp, next, &old, link) {
		list_del_init(&unexp->link);
		kfr_rx_refuse(unexp, KFR_NO_MATCH);
		kfr_unexp_free(rx, unexp);
	}
}

/*
 * Keeps a message; there is a spare buffer. A numbered one is acknowledged once
 * it is kept. Any other waits for its reply, and holds the connection for that;
 * its payload is the list of segments.
 */
static void kfr_rx_keep(struct kfr_rx *rx, struct kfr_conn *conn,
			const struct kfr_hdr *hdr, struct page *page,
			size_t payload, struct kfr_addr src)
{
	struct kfr_unexp *unexp = list_first_entry(&rx->spare,
						   struct kfr_unexp, link);

	lockdep_assert_held(&rx->lock);
	list_del(&unexp->link);
	rx->nspare--;
	unexp->hdr = *hdr;
	unexp->src = src;
	unexp->since = jiffies;
	unexp->conn = NULL;
	if (!kfr_hdr_numbered(hdr)) {
		kfr_conn_get(conn);
		atomic_inc(&conn->owed);
		unexp->conn = conn;
	}
	memcpy(page_address(unexp->page), page_address(page), payload);
	kfr_match_keep(&rx->match, unexp);
	kfr_rx_profile_event(rx, KFI_EVENT_UNEXP_MSG_RECVD, unexp);
	kfr_rx_arm_expiry(rx, hdr);
}

enum kfr_arrival_result {
	KFR_MATCHED,
	KFR_KEPT,
	KFR_PUSHED_BACK,
	KFR_CLOSING,
	KFR_OUT_OF_MEMORY,
};

/**
 * struct kfr_arrival - an arriving message, on the stack
 * @conn: its connection
 * @hdr: its header
 * @page: its payload
 * @payload: bytes of that
 * @src: its source
 * @recv: out: the receive
 * @range: out: the part of the receive
 * @again: out: it was refused, and RESUME follows at once
 * @want: out: copy of a receive that WANT is sent for, made under the lock
 * @wanted: out: @want is valid
 */
struct kfr_arrival {
	struct kfr_conn *conn;
	const struct kfr_hdr *hdr;
	struct page *page;
	size_t payload;
	struct kfr_addr src;
	struct kfr_recv *recv;
	struct kfr_range range;
	bool again;
	struct kfr_recv want;
	bool wanted;
};

/*
 * Queues NAK under the lock. Any WANT or RESUME that could ask for the message
 * is decided under the same lock, so it reaches the sender after the NAK.
 */
static enum kfr_arrival_result kfr_rx_push_back(struct kfr_rx *rx,
						struct kfr_arrival *in)
{
	struct kfr_hdr nak;

	lockdep_assert_held(&rx->lock);
	kfr_reply_hdr(&nak, in->hdr, KFR_OP_NAK, KFR_OK, 0, 0);
	kfr_ctl_add(in->conn, &nak);
	return KFR_PUSHED_BACK;
}

/*
 * The same for a request that blocks its flow. Without memory for the flow the
 * context could not resume it, so this one request fails.
 */
static enum kfr_arrival_result kfr_rx_block(struct kfr_rx *rx,
					    struct kfr_arrival *in)
{
	lockdep_assert_held(&rx->lock);
	if (kfr_flow_block(rx, in->conn, in->hdr))
		return KFR_OUT_OF_MEMORY;
	return kfr_rx_push_back(rx, in);
}

/*
 * Refuses a request because older ones of its flow are parked. If it matches a
 * receive, so may one of those: WANT requests the first of them. If the CQ has
 * no room for it, RESUME will request all.
 */
static enum kfr_arrival_result kfr_rx_refused(struct kfr_rx *rx,
					      struct kfr_arrival *in)
{
	struct kfr_recv *recv = NULL;

	lockdep_assert_held(&rx->lock);
	if (!kfr_hdr_by_key(in->hdr))
		recv = kfr_match_find(&rx->match,
				      in->hdr->flags & KFR_F_TAGGED,
				      le64_to_cpu(in->hdr->tag), in->src);
	in->wanted = recv && kfr_recv_reserve(rx, recv);
	if (in->wanted) {
		kfr_recv_unreserve(rx, recv);
		in->want = *recv;
	}
	return kfr_rx_push_back(rx, in);
}

/*
 * A multi-receive has got the message that WANT requested, and has room for
 * more: request the next one.
 */
static void kfr_rx_wants_more(struct kfr_rx *rx, struct kfr_arrival *in)
{
	lockdep_assert_held(&rx->lock);
	in->wanted = in->hdr->flags & KFR_F_PULLED && in->recv->multi &&
		     !in->recv->retired;
	if (in->wanted)
		in->want = *in->recv;
}

/*
 * May a request of its flow be carried out now? KFR_MATCHED: it may. It is counted
 * in the section that decides about it, so RESUME of the context finds it counted.
 */
static enum kfr_arrival_result kfr_rx_gate(struct kfr_rx *rx,
					   struct kfr_arrival *in)
{
	const struct kfr_hdr *hdr = in->hdr;

	lockdep_assert_held(&rx->lock);
	kfr_count_request(in->conn);
	if (rx->closing)
		return KFR_CLOSING;
	if (hdr->flags & KFR_F_PULLED)
		return KFR_MATCHED;
	in->again = kfr_flow_epoch_unknown(rx, in->conn, kfr_hdr_by_key(hdr));
	if (in->again)
		return kfr_rx_block(rx, in);
	if (!kfr_flow_accepts(rx, in->conn, hdr))
		return kfr_rx_refused(rx, in);
	return KFR_MATCHED;
}

/*
 * Decides about a message in one section of the lock, so that a receive that is
 * posted meanwhile either is found here or finds the message kept.
 * Multi-receives without room for it go to @dropped: the caller ends them
 * without the lock. Without room in the CQ the message waits at its sender; were
 * it kept, a posted receive would match it.
 */
static enum kfr_arrival_result kfr_rx_match(struct kfr_rx *rx,
					    struct kfr_arrival *in,
					    struct list_head *dropped)
{
	const struct kfr_hdr *hdr = in->hdr;
	bool tagged = hdr->flags & KFR_F_TAGGED;
	enum kfr_arrival_result fate = kfr_rx_gate(rx, in);

	lockdep_assert_held(&rx->lock);
	if (fate != KFR_MATCHED)
		return fate;
	while ((in->recv = kfr_match_find(&rx->match, tagged,
					  le64_to_cpu(hdr->tag), in->src))) {
		if (!kfr_recv_reserve(rx, in->recv))
			return kfr_rx_block(rx, in);
		if (kfr_recv_take(rx, in->recv, hdr, &in->range)) {
			kfr_rx_wants_more(rx, in);
			return KFR_MATCHED;
		}
		if (in->range.drop)
			list_add_tail(&in->recv->link, dropped);
	}
	if (rx->nspare) {
		kfr_rx_keep(rx, in->conn, hdr, in->page, in->payload, in->src);
		return KFR_KEPT;
	}
	return kfr_rx_block(rx, in);
}

static void kfr_rx_pushed_back(struct kfr_rx *rx, struct kfr_arrival *in)
{
	kfr_ctl_added(in->conn);
	if (in->again)
		kfr_rx_resume(rx, kfr_hdr_by_key(in->hdr));
	if (in->wanted)
		kfr_rx_send_want_to(rx, in->conn, &in->want);
}

static void kfr_rx_matched(struct kfr_rx *rx, struct kfr_arrival *in)
{
	if (in->wanted)
		kfr_rx_send_want_to(rx, in->conn, &in->want);

	if (!kfr_hdr_numbered(in->hdr)) {
		refcount_inc(&rx->busy);
		kfr_job_start(in->conn, rx, in->recv, NULL, in->hdr, in->page,
			      &in->range, in->src);
		return;
	}
	/* Before the report: ERR must precede an ACK that covers the number. */
	if (in->range.over)
		kfr_reply(in->conn, in->hdr, KFR_OP_ERR, KFR_TOO_LONG,
			  in->range.len, in->range.over);
	kfr_rx_copy(rx, in->recv, in->hdr, in->page, in->src, &in->range);
}

/* Ends a request of the peer with an error. */
static void kfr_reject_request(struct kfr_conn *conn,
			       const struct kfr_hdr *hdr,
			       enum kfr_status status)
{
	u8 op = kfr_hdr_numbered(hdr) ? KFR_OP_ERR : KFR_OP_FIN;

	kfr_reply(conn, hdr, op, status, 0, 0);
}

/* The second half of a decision that was no match, without the lock. */
static void kfr_rx_turn_away(struct kfr_rx *rx, struct kfr_arrival *in,
			     enum kfr_arrival_result fate)
{
	if (fate == KFR_PUSHED_BACK)
		kfr_rx_pushed_back(rx, in);
	else if (fate == KFR_CLOSING)
		kfr_reject_request(in->conn, in->hdr, KFR_NO_ENDPOINT);
	else if (fate == KFR_OUT_OF_MEMORY)
		kfr_reject_request(in->conn, in->hdr, KFR_NO_MEMORY);
}

static void kfr_rx_arrive(struct kfr_rx *rx, struct kfr_arrival *in)
{
	struct kfr_recv *recv, *next;
	LIST_HEAD(dropped);
	enum kfr_arrival_result fate;
	unsigned long irq;

	spin_lock_irqsave(&rx->lock, irq);
	fate = kfr_rx_match(rx, in, &dropped);
	spin_unlock_irqrestore(&rx->lock, irq);

	list_for_each_entry_safe(recv, next, &dropped, link) {
		list_del_init(&recv->link);
		kfr_recv_drop(rx, recv);
	}
	if (fate == KFR_MATCHED)
		kfr_rx_matched(rx, in);
	else
		kfr_rx_turn_away(rx, in, fate);
}

/*
 * RMA by key. The refusal for want of room and the NAK are one section of the
 * lock, so kfr_rx_resume_room() finds the flow blocked.
 */
static void kfr_rma_arrive(struct kfr_rx *rx, struct kfr_arrival *in)
{
	enum kfr_arrival_result fate;
	enum kfr_status status;
	struct kfr_mr *mr;
	unsigned long irq;

	mr = kfr_mr_find(rx, in->hdr, &status);
	if (!mr) {
		kfr_reject_request(in->conn, in->hdr,
				   READ_ONCE(rx->closing) ? KFR_NO_ENDPOINT :
							    status);
		return;
	}
	spin_lock_irqsave(&rx->lock, irq);
	fate = kfr_rx_gate(rx, in);
	if (fate == KFR_MATCHED && !kfr_mr_reserve(rx, in->hdr))
		fate = kfr_rx_block(rx, in);
	spin_unlock_irqrestore(&rx->lock, irq);
	if (fate == KFR_MATCHED) {
		kfr_mr_start(mr, in->conn, rx, in->hdr, in->page, in->src);
	} else {
		kfr_mr_put(mr);
		kfr_rx_turn_away(rx, in, fate);
	}
}

static void kfr_handle_request(struct kfr_conn *conn, const struct kfr_hdr *hdr,
			       struct page *page, size_t payload)
{
	struct kfr_arrival in = {
		.conn = conn,
		.hdr = hdr,
		.page = page,
		.payload = payload,
		.src = { conn->remote, le16_to_cpu(hdr->src) },
	};
	struct kfr_rx *rx = kfr_node_rx(conn->node, hdr);

	if (!rx) {
		kfr_reject_request(conn, hdr, KFR_NO_ENDPOINT);
		return;
	}
	if (hdr->op == KFR_OP_EAGER || hdr->op == KFR_OP_RTS)
		kfr_rx_arrive(rx, &in);
	else if (kfr_hdr_by_key(hdr))
		kfr_rma_arrive(rx, &in);
	else if (rx->ep->caps & KFI_TAGGED_RMA)
		kfr_rx_arrive(rx, &in);
	else
		/* Receives of this endpoint are not open to RMA. */
		kfr_reject_request(conn, hdr, KFR_ACCESS);
	kfr_rx_put(rx);
}

/*
 * CANCEL has arrived: a context of the peer is closing. A kept request is
 * refused. One that is unknown or has become a job gets its reply anyway.
 */
static void kfr_handle_cancel(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	struct kfr_rx *rx = kfr_node_rx(conn->node, hdr);
	struct kfr_unexp *unexp, *found = NULL;
	struct list_head *lists[2];
	unsigned long irq;
	unsigned int i;

	if (!rx)
		return;
	lists[0] = &rx->match.kept;
	lists[1] = &rx->match.kept_tagged;
	spin_lock_irqsave(&rx->lock, irq);
	for (i = 0; i < ARRAY_SIZE(lists) && !found; i++)
		list_for_each_entry(unexp, lists[i], link)
			if (unexp->conn == conn &&
			    unexp->hdr.seq == hdr->seq) {
				found = unexp;
				break;
			}
	if (found)
		kfr_match_unkeep(&rx->match, found);
	spin_unlock_irqrestore(&rx->lock, irq);
	if (found) {
		kfr_rx_refuse(found, KFR_CANCELED);
		kfr_unexp_free(rx, found);
	}
	kfr_rx_put(rx);
}

/* Is the size of the payload, or of all segments, the length in the header? */
static bool kfr_payload_ok(const struct kfr_hdr *hdr, struct page *page,
			   size_t payload)
{
	const struct kfr_seg *segs = page_address(page);
	u32 len = le32_to_cpu(hdr->len);
	u64 sum = 0;
	unsigned int i;

	if (len > KFR_MSG_MAX || hdr->nsegs > KFR_SEGS)
		return false;
	if (kfr_hdr_numbered(hdr))
		return payload == len && !hdr->nsegs;
	if (payload != hdr->nsegs * sizeof(*segs))
		return false;
	for (i = 0; i < hdr->nsegs; i++)
		sum += le32_to_cpu(segs[i].len);
	return sum == len;
}

static bool kfr_hdr_ok(const struct kfr_hdr *hdr, size_t len)
{
	return len >= sizeof(*hdr) && hdr->version == KFR_VERSION &&
	       hdr->op && hdr->op <= KFR_OP_LAST &&
	       !(hdr->flags & ~KFR_F_ALL);
}

static bool kfr_is_request(const struct kfr_hdr *hdr)
{
	return hdr->op >= KFR_OP_EAGER && hdr->op <= KFR_OP_WRITE;
}

/*
 * A request is acknowledged after it was handled: a reply that refuses it is queued
 * by then, and thus goes out before the ACK.
 */
static int kfr_dispatch(struct kfr_conn *conn, const struct kfr_hdr *hdr,
			struct page *page, size_t payload)
{
	if (kfr_is_request(hdr)) {
		/*
		 * Read without the lock: the two counters change in this
		 * function only, which never runs twice at once for a connection.
		 */
		if (!kfr_payload_ok(hdr, page, payload) ||
		    le32_to_cpu(hdr->count) != conn->rx_count + 1)
			return -EPROTO;
		if (kfr_hdr_numbered(hdr) &&
		    le32_to_cpu(hdr->seq) != conn->rx_seq + 1)
			return -EPROTO;
		kfr_handle_request(conn, hdr, page, payload);
		/* No context has decided about it. */
		if (conn->rx_count != le32_to_cpu(hdr->count))
			kfr_count_request(conn);
		if (kfr_hdr_numbered(hdr))
			kfr_ack_request(conn, le32_to_cpu(hdr->seq));
		return 0;
	}
	switch (hdr->op) {
	case KFR_OP_FIN:
	case KFR_OP_ERR:
		return kfr_handle_reply(conn, hdr);
	case KFR_OP_NAK:
		kfr_flow_nak(conn, hdr);
		return 0;
	case KFR_OP_RESUME:
		kfr_flow_resume(conn, hdr);
		return 0;
	case KFR_OP_CANCEL:
		kfr_handle_cancel(conn, hdr);
		return 0;
	case KFR_OP_WANT:
		kfr_flow_want(conn, hdr);
		return 0;
	case KFR_OP_LEAVE:
		kfr_conn_left(conn, hdr);
		return 0;
	default:
		return 0;
	}
}

/**
 * kfr_receive() - a message has arrived
 * @conn: its connection
 * @hdr: its header; this and @page are valid during the call
 * @page: its payload
 * @len: bytes of both
 *
 * Of a reply, @ack is handled last: it may cover the very number that the reply
 * reports as failed, and would make that a success. Of a request, it comes
 * first, which frees operations and ids early.
 *
 * Context: softirq; never twice at once for a connection; no lock held.
 * Return: 0; -EPROTO: it violates the protocol, the caller aborts the
 * connection.
 */
int kfr_receive(struct kfr_conn *conn, const struct kfr_hdr *hdr,
		struct page *page, size_t len)
{
	int err;

	if (!kfr_hdr_ok(hdr, len))
		return -EPROTO;
	if (kfr_is_request(hdr)) {
		err = kfr_handle_ack(conn, le32_to_cpu(hdr->ack));
		return err ? err : kfr_dispatch(conn, hdr, page,
						len - sizeof(*hdr));
	}
	err = kfr_dispatch(conn, hdr, page, len - sizeof(*hdr));
	return err ? err : kfr_handle_ack(conn, le32_to_cpu(hdr->ack));
}
