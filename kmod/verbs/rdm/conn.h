/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * RDM endpoints: connections, and the operations, jobs and control messages on
 * them. See rdm.h for ownership and lock order.
 *
 * DOC: States of a connection
 *
 *   KFR_CONNECTING	kfr_conn_new(): this side begins it
 *   KFR_WAITING	kfr_conn_new(): the other end of one to this node
 *   KFR_ACCEPTED	kfr_conn_take_id(), in the CM callback of the request
 *   KFR_UP		kfr_conn_set_up(): ESTABLISHED, or the first message
 *   KFR_DEAD		kfr_conn_abort(), from any context
 *
 * States only move down this list, and every state can go to KFR_DEAD. Requests
 * can be queued from the start; only KFR_UP posts them. A dead connection
 * accepts no new work: its queues belong to kfr_conn_destroy() then.
 *
 * DOC: Places of an operation
 *
 *   KFR_FREE	kfr_tx.free, or being filled in by kfr_send()
 *   KFR_QUEUED	kfr_line.reqs; or a lane, without an id yet; or kfr_flow.parked
 *		or .again
 *   KFR_SENT	kfr_conn.sent_numbered or .sent_by_id: waits for ACK or a reply
 *   KFR_BUSY	done; kfr_conn.ending, if it has registrations to invalidate
 *
 * kfr_op_put() moves it to KFR_FREE, under kfr_tx.lock. All other moves happen
 * under kfr_conn.lock: kfr_op_submit() and kfr_park() to KFR_QUEUED, the pump
 * to KFR_SENT, kfr_op_end() and kfr_handle_ack() to KFR_BUSY.
 */
#ifndef _KFV_RDM_CONN_H_
#define _KFV_RDM_CONN_H_

#include <linux/hashtable.h>
#include <linux/hrtimer.h>

#include "buf.h"
#include "match.h"
#include "wire.h"

struct kfr_ep;
struct kfr_mr;
struct kfr_node;
struct kfr_op;

enum kfr_item_kind {
	KFR_ITEM_CTL,		/* kfr_ctl: control message */
	KFR_ITEM_INV,		/* kfr_op: invalidate its registrations */
	KFR_ITEM_DATA,		/* kfr_job: RDMA reads or writes */
	KFR_ITEM_REQ,		/* kfr_op: request to be sent */
	KFR_ITEM_NONE,		/* of the pump: nothing to be posted */
};

/**
 * struct kfr_item - an entry of one of a connection's queues
 * @link: on kfr_conn.urgent, .data, kfr_line.reqs, a lane or kfr_flow.again;
 *	kfr_conn.lock
 * @kind: the structure that contains it; written before it is queued
 */
struct kfr_item {
	struct list_head link;
	enum kfr_item_kind kind;
};

/**
 * struct kfr_ctl - a control message to be sent
 * @item: on kfr_conn.urgent, or on .free_ctls
 * @hdr: the message
 * @job: the job that contains it; NULL: it is RESUME, or one of kfr_conn.ctls
 *
 * It belongs to the queue from kfr_ctl_link() on. The pump copies @hdr to a wire
 * buffer, and makes it free, or drops the job's reference, before the message
 * is on the wire.
 */
struct kfr_ctl {
	struct kfr_item item;
	struct kfr_hdr hdr;
	struct kfr_job *job;
};

/**
 * struct kfr_gate - a flow at its receiver
 * @resume: RESUME, not queued, or queued once. Its epoch is the one that the flow
 *	accepts; written under kfr_rx.lock and kfr_conn.lock, read under either
 * @conn: the connection of the flow; constant
 *
 * So RESUME always has its memory: it needs no room among the control messages of a
 * peer that receives slowly. The flow is in kfr_rx.flows, and needs no reference to
 * the connection, whose end takes it out (kfr_rx_forget()). When its context closes, it
 * belongs to the message, with which kfr_ctl_unlink() frees it.
 */
struct kfr_gate {
	struct kfr_ctl resume;
	struct kfr_conn *conn;
};

/**
 * struct kfr_wire - a buffer for one message of a connection
 * @cqe: finds it when its work request completes
 * @conn: the connection
 * @link: of a free one for sends: on kfr_conn.free_wire; kfr_conn.lock
 * @hdr: the header, in kfr_conn.hdrs
 * @page: the payload
 * @hdr_dma: DMA address of @hdr
 * @page_dma: DMA address of @page
 *
 * The device owns @hdr and @page from posting to completion. In between, a send
 * buffer belongs to the pump, a receive buffer to kfr_receive(), which copies
 * what must outlive the call.
 */
struct kfr_wire {
	struct ib_cqe cqe;
	struct kfr_conn *conn;
	struct list_head link;
	struct kfr_hdr *hdr;
	struct page *page;
	u64 hdr_dma;
	u64 page_dma;
};

/**
 * struct kfr_reg - one memory registration of a connection
 * @link: of a free one: on kfr_conn.free_regs; kfr_conn.lock
 * @mr: the device's object
 *
 * An operation keeps it from kfr_reserve() until its invalidation has completed
 * (kfr_op_invalid()), so a peer cannot use the key for another operation. One that
 * was never sent gives it back in kfr_op_end().
 */
struct kfr_reg {
	struct list_head link;
	struct ib_mr *mr;
};

/**
 * struct kfr_lane - a user's operations to some contexts of the peer
 * @waiting: operations that wait for an id or registrations, in order
 * @turn: on kfr_conn.lanes, while @waiting has operations, or had some recently
 * @nids: ids in use
 * @nregs: registrations in use
 *
 * kfr_lane_of() assigns destinations to lanes. A peer's context that posts no
 * receives holds ids and registrations indefinitely. A lane gets at most a quarter
 * of each, so operations to contexts of other lanes can go on.
 *
 * kfr_conn.lock protects all of it.
 */
struct kfr_lane {
	struct list_head waiting;
	struct list_head turn;
	unsigned int nids;
	unsigned int nregs;
};

/**
 * struct kfr_share - what a user has of a connection's ids and registrations
 * @lanes: operations of the user, by destination
 * @nids: ids in use
 * @nregs: registrations in use
 *
 * kfr_share_full() has the limits. kfr_conn.lock protects all of it.
 */
struct kfr_share {
	struct kfr_lane lanes[KFR_LANES];
	unsigned int nids;
	unsigned int nregs;
};

/**
 * struct kfr_line - a user's requests that wait to be sent
 * @reqs: operations to be sent for the first time
 * @reqs_turn: on kfr_conn.reqs, while @reqs has operations, or had some recently
 * @again: operations to be sent again, by kfr_op.sent, in the order in which they came
 *	here; one goes after those that are before it in its flow, whoever's they are
 * @again_turn: on kfr_conn.again, while @again has operations, or had some recently
 *
 * Requests of all users are handled by the peer one after the other, and each user can
 * make theirs slow there: by many receives that do not match, or many threads that
 * sleep on a counter. So users take turns.
 *
 * kfr_conn.lock protects all of it.
 */
struct kfr_line {
	struct list_head reqs;
	struct list_head reqs_turn;
	struct list_head again;
	struct list_head again_turn;
};

enum kfr_conn_state {
	KFR_WAITING,		/* passive end of a connection to this node */
	KFR_CONNECTING,
	KFR_ACCEPTED,		/* not confirmed by the peer yet */
	KFR_UP,
	KFR_DEAD,		/* its work item destroys it */
};

/**
 * struct kfr_conn - a connection between two nodes
 * @ref: of the memory: @destroy (the initial one), @setup, @pump, each operation,
 *	job and kept message on it, @twin, and every function that uses it without
 *	its node's lock
 * @node: referenced
 * @remote: IP address of the peer
 * @passive: the peer has begun it
 * @proven: its packets go to @remote, see kfr_conn_proven(); constant
 * @cookie: identifies a connection of this node to itself; the node's lock
 * @twin: the other end of a connection to this node, referenced; @lock
 * @slot: its index in kfr_node.conns, its own until it is destroyed; ULONG_MAX:
 *	there was none. Constant once it is linked
 * @begun: when; constant
 * @by: the owner that has begun it, or 0; constant once it is started
 * @counted: it is one of its owner's in kfv_device.asks: it is not up; set before it is
 *	started, then @lock
 * @silent: on kfr_node.silent, or empty; the node's lock
 * @heard: a message has arrived; written under the node's lock, read without it
 * @usable: new messages may use it. Not before a peer has proved its address
 *	(kfr_node_heard()), nor after it has begun another one; the node's lock
 * @ctl: serialises making @id with its teardown; work items only
 * @id: RDMA CM's object. Set once, under @lock; kfr_conn_destroy() frees it
 * @resolve_tries: failed address resolutions; CM callbacks of @id
 * @pd: its own protection domain: a peer cannot reach registrations that were
 *	made for another one. This and all to @reg_cqe: made by kfr_qp_make() in
 *	a CM callback before anything is posted, freed when nothing is posted any
 *	more (kfr_conn_drain(), then kfr_qp_free()), constant in between
 * @qp: the queue pair
 * @cq: a CQ of the device's pool, shared with other connections
 * @rxb: wire buffers for receives
 * @txb: wire buffers for sends
 * @hdrs: headers of both
 * @hdrs_dma: DMA address of @hdrs
 * @max_sge: elements of a work request
 * @regs: all registrations
 * @ctls: KFR_CTLS_MAX control messages
 * @reg_cqe: of the work requests that make registrations
 * @posted: work requests without a completion; +1 until the drain
 * @drained: @posted is 0
 * @inside: threads between kfr_conn_enter() and kfr_conn_leave(): the pump, and those
 *	that unmap buffers; atomic
 * @lock: protects the following, unless another rule is given
 * @state: see above; read without @lock where a stale value does no harm
 * @err: errno of its end; written once, before @state becomes KFR_DEAD
 * @prov_errno: more exactly; likewise
 * @destroy_queued: @destroy was queued
 * @leaving: no request begins here any more, see kfr_conn_expire() and
 *	kfr_conn_retire(); set once, also read without @lock
 * @seen: requests of both sides when @expire ran last; @expire only
 * @heard_at: when (jiffies) the last message arrived; written by one thread at a time,
 *	read without a lock
 * @seen_at: when (jiffies) it saw that there were more, or that this side owes
 *	the peer something; likewise
 * @left: LEAVE was sent, and nothing has come or been owed since; @expire only
 * @left_at: when (jiffies) that was; likewise
 * @taken_at: when (jiffies) the device last completed a work request of the send queue,
 *	or had none that waits for the peer; read without @lock
 * @answered_at: when (jiffies) the peer last answered or acknowledged a request; read
 *	without @lock
 * @flushing: kfr_conn_flush() waits for @idle
 * @pumping: a thread posts; the flag is the right to post
 * @sq_free: work requests that the send queue has room for
 * @data_free: of those, work requests that jobs may use
 * @nregs_free: number of @free_regs
 * @nwire: number of @free_wire
 * @free_wire: wire buffers for sends that are not in use
 * @free_regs: registrations that are not in use
 * @free_ctls: control messages that are not in use
 * @urgent: control messages, and operations to be invalidated
 * @urgent_run: how many of these were taken while a request may wait
 * @data: jobs with work requests still to be posted
 * @lines: KFR_SHARES lines of requests, by kfr_op.share
 * @reqs: lines with operations to be sent for the first time; the first is served first
 * @again: lines with operations to be sent again; the first is served first
 * @again_next: they are served before new requests
 * @shares: KFR_SHARES shares of ids and registrations, by kfr_op.share; made with @regs
 * @lanes: lanes with operations that wait; the first is served first
 * @sent_numbered: numbered operations without an ACK, in the order of numbers
 * @sent_by_id: operations with an id and without a reply, as they were sent
 * @ending: operations with a result whose registrations are being invalidated
 * @ids: operations by id, modulo KFR_IDS
 * @id_gen: upper part of the next id, so that a late reply matches no later use
 * @next_id: where the search for a free id begins
 * @nids: operations with an id
 * @order: last kfr_op.order that was given, plus one
 * @nops: operations without a report; atomic
 * @owed: requests of the peer that contexts keep until a receive is posted, and
 *	flows that they have blocked; atomic
 * @tx_seq: last number that was given to a request
 * @tx_acked: last number for which an ACK has arrived
 * @rx_seq: last number that was handled; written under @lock by kfr_receive()
 *	only, which reads it without
 * @acked: last number for which an ACK was sent
 * @tx_count: requests sent; on the wire are the lower 32 bits
 * @tx_numbered: @tx_count when the last numbered one was sent
 * @handled: the peer has handled so many of them, and what it has refused has arrived
 * @rx_count: requests handled; rule as for @rx_seq
 * @epochs: last epoch of all receive contexts, see kfr_next_epoch()
 * @orphans: a receive context with a flow of this connection has closed; set
 *	once under that kfr_rx.lock, never cleared, read without
 * @nctls: control messages on @urgent but RESUMEs, of which a flow has one at most
 * @flooded: there were too many; written once, also read without @lock
 * @nwants: of those, WANTs
 * @ack_due: the pump shall send an ACK for @rx_seq
 * @ack_lazy: an ACK may wait for a message to travel with
 * @timing: @ack_timer runs
 * @timed_seq: number for which it was started
 * @ack_time: when (jiffies) the last ACK went alone
 * @flows: contexts of the peer that have sent NAK, hashed by kfr_flow.to and @salt
 * @salt: random; constant
 * @nflows: their number
 * @expected: flows that end unless the peer refuses a request, by kfr_flow.until
 * @ncharged: flows, and operations that have not ended
 * @charged: the same by user; these two grow under @lock only
 * @refused: operations that the peer has refused and whose time runs, in its order
 * @jobs: all jobs of the connection
 * @njobs: their number
 * @nabandoned: abandoned operations and jobs that @abandoned found when it ran last;
 *	0: there were none, or more were added since
 * @ack_timer: sends an ACK that found no message to travel with
 * @setup: resolves the address; may be queued again
 * @pump: posts what kfr_pump() has left
 * @pump_queued: it is queued; @lock
 * @probe: detects a dead peer
 * @expire: ends it when it is not used
 * @abandoned: ends operations and jobs that no context has any more
 * @unready: ends operations of @refused
 * @destroy: ends and frees everything; queued once
 * @turn: the same for the id, and what goes with it
 * @idle: @flushing, @urgent and @data are empty and all sends have completed;
 *	or it is dead
 */
struct kfr_conn {
	struct kref ref;
	struct kfr_node *node;
	__be32 remote;
	bool passive;
	bool proven;
	u64 cookie;
	struct kfr_conn *twin;
	unsigned long slot;
	ktime_t begun;
	u64 by;
	bool counted;
	struct list_head silent;
	bool heard;
	bool usable;
	struct mutex ctl;	/* making the id against teardown */
	struct rdma_cm_id *id;
	unsigned int resolve_tries;
	struct ib_pd *pd;
	struct ib_qp *qp;
	struct ib_cq *cq;
	struct kfr_wire *rxb;
	struct kfr_wire *txb;
	struct kfr_hdr *hdrs;
	u64 hdrs_dma;
	unsigned int max_sge;
	struct kfr_reg *regs;
	struct kfr_ctl *ctls;
	struct ib_cqe reg_cqe;
	atomic_t posted;
	struct completion drained;
	atomic_t inside;
	spinlock_t lock;	/* state and queues */
	enum kfr_conn_state state;
	int err;
	int prov_errno;
	bool destroy_queued;
	bool leaving;
	u32 seen;
	unsigned long heard_at;
	unsigned long seen_at;
	bool left;
	unsigned long left_at;
	unsigned long taken_at;
	unsigned long answered_at;
	bool flushing;
	bool pumping;
	unsigned int sq_free;
	unsigned int data_free;
	unsigned int nregs_free;
	unsigned int nwire;
	struct list_head free_wire;
	struct list_head free_regs;
	struct list_head free_ctls;
	struct list_head urgent;
	unsigned int urgent_run;
	struct list_head data;
	struct kfr_line *lines;
	struct list_head reqs;
	struct list_head again;
	bool again_next;
	struct kfr_share *shares;
	struct list_head lanes;
	struct list_head sent_numbered;
	struct list_head sent_by_id;
	struct list_head ending;
	struct kfr_op *ids[KFR_IDS];
	u32 id_gen;
	unsigned int next_id;
	unsigned int nids;
	u64 order;
	atomic_t nops;
	atomic_t owed;
	u32 tx_seq;
	u32 tx_acked;
	u32 rx_seq;
	u32 acked;
	u64 tx_count;
	u64 tx_numbered;
	u64 handled;
	u32 rx_count;
	u16 epochs;
	bool orphans;
	unsigned int nctls;
	bool flooded;
	unsigned int nwants;
	bool ack_due;
	bool ack_lazy;
	bool timing;
	u32 timed_seq;
	unsigned long ack_time;
	DECLARE_HASHTABLE(flows, KFR_FLOW_BITS);
	u32 salt;
	unsigned int nflows;
	struct list_head expected;
	atomic_t ncharged;
	atomic_t charged[KFR_SHARES];
	struct list_head refused;
	struct list_head jobs;
	unsigned int njobs;
	unsigned int nabandoned;
	struct hrtimer ack_timer;
	struct work_struct setup;
	struct work_struct pump;
	bool pump_queued;
	struct delayed_work probe;
	struct delayed_work expire;
	struct delayed_work abandoned;
	struct delayed_work unready;
	struct work_struct destroy;
	struct kfv_turn turn;
	struct completion idle;
};

/**
 * struct kfr_flow - requests to one context of the peer, after a NAK
 * @link: on kfr_conn.flows
 * @to: the context: endpoint, index and authorisation key; constant
 * @by_key: of RMA by key; otherwise of messages and tagged RMA; constant
 * @epoch: of requests sent from now on
 * @lent: the operation that has brought the memory has not ended
 * @share: of kfr_conn.charged; constant
 * @last: kfr_op.place of its last request that was sent
 * @refused: that of the last one which the peer has refused
 * @gone: that of the last one which found the context gone, as the peer has said
 * @until: kfr_conn.tx_count when it came to @expected
 * @expected: on kfr_conn.expected, while it ends unless the peer refuses a request
 * @parked: operations that wait for RESUME or WANT, in order
 * @again: operations that were parked and are to be sent again, and newer ones
 *	that go after them; each has what it needs, and is on a kfr_line.again, too
 *
 * It is protected by kfr_conn.lock. It lives as long as the peer may know of it, see
 * kfr_flow_settle(). What the receiver knows of a flow is in kfr_rx.flows.
 */
struct kfr_flow {
	struct hlist_node link;
	u64 to;
	bool by_key;
	bool lent;
	u8 share;
	u16 epoch;
	u64 last;
	u64 refused;
	u64 gone;
	u64 until;
	struct list_head expected;
	struct list_head parked;
	struct list_head again;
};

enum kfr_op_state {
	KFR_FREE,
	KFR_QUEUED,		/* kfr_line.reqs, a lane, or kfr_flow */
	KFR_BUSY,		/* has its result */
	KFR_SENT,		/* kfr_conn.sent_numbered or .sent_by_id */
};

/**
 * struct kfr_op - an operation of a transmit context
 * @item: on a queue of its connection
 * @sent: on kfr_conn.sent_numbered, .sent_by_id or .ending, kfr_flow.parked or
 *	kfr_line.again
 * @refused: on kfr_conn.refused
 * @next: the next free one; kfr_tx.lock
 * @tx: its context. NULL: it is abandoned, see abandon.c. Constant until then
 * @conn: its connection, referenced from submit to done
 * @state: where it is, see above
 * @parked: @sent is on kfr_flow.parked
 * @was_refused: the peer has refused it
 * @refused_at: when (jiffies) it did so first
 * @flow: memory for a flow, should the peer refuse the operation; NULL: it is a
 *	flow now
 * @charged: in kfr_conn.charged
 * @share: where, and in kfr_conn.shares and .lines
 * @limited: its owner is a user, who may have a share only
 * @has_id: it is in kfr_conn.ids
 * @context: the ULP's
 * @kind: KFI_MSG | KFI_SEND and so on, for the completion
 * @want_entry: a success writes a completion entry
 * @hdr: the request; the pump fills in @seq, @epoch, @count and @ack
 * @want: with KFR_F_PULLED: the WANT that it is sent for
 * @buf: the local buffer
 * @map: the same for the device, if it is sent in segments
 * @mapped: @map is valid
 * @bounce: a copy of a buffer that is too scattered to register, or NULL
 * @regs: registrations of the segments, @nregs of them
 * @segs: the segments, as the request's payload
 * @nregs: number of segments
 * @registered: the registrations were posted
 * @nregs_done: invalidations that have completed; atomic
 * @cqe: of the invalidations
 * @place: its place among the requests of the connection; for each time that it is sent
 * @order: its place among the operations of the connection; given in its first turn
 * @err: errno of its end
 * @prov_errno: more exactly
 * @len: bytes that were delivered, if not all were
 * @over: bytes that did not fit
 * @inject: room for the copy of an injected buffer
 *
 * From submit until it is off the connection's lists, kfr_conn.lock protects
 * @item, @sent, @refused, @tx, @state to @has_id, @hdr, @want, @regs to @registered and @err
 * to @over.
 * Before and after, the thread that got it, or took it off, owns it alone. The
 * buffer stays mapped, and readable by the peer if it is registered, until
 * kfr_op_done().
 */
struct kfr_op {
	struct kfr_item item;
	struct list_head sent;
	struct list_head refused;
	struct kfr_op *next;
	struct kfr_tx *tx;
	struct kfr_conn *conn;
	enum kfr_op_state state;
	bool parked;
	bool was_refused;
	unsigned long refused_at;
	struct kfr_flow *flow;
	bool charged;
	u8 share;
	bool limited;
	bool has_id;
	void *context;
	u64 kind;
	bool want_entry;
	struct kfr_hdr hdr;
	struct kfr_hdr want;
	struct kfr_buf buf;
	struct kfr_map map;
	bool mapped;
	struct kfr_buf *bounce;
	struct kfr_reg *regs[KFR_SEGS];
	struct kfr_seg segs[KFR_SEGS];
	unsigned int nregs;
	bool registered;
	atomic_t nregs_done;
	struct ib_cqe cqe;
	u64 place;
	u64 order;
	int err;
	int prov_errno;
	size_t len;
	size_t over;
	u8 inject[KFV_INJECT_SIZE];
};

/* Has the peer taken nothing for so many jiffies? */
static inline bool kfr_conn_stuck(const struct kfr_conn *conn,
				  unsigned long time)
{
	return time_after(jiffies, READ_ONCE(conn->taken_at) + time);
}

/* Has the peer answered no request for KFR_SILENT_TIME, nor since @begun? */
static inline bool kfr_conn_silent(const struct kfr_conn *conn,
				   unsigned long begun)
{
	unsigned long end = READ_ONCE(conn->answered_at);

	if (time_before(end, begun))
		end = begun;
	return time_after(jiffies, end + KFR_SILENT_TIME);
}

/* An operation's lane: a hash of its destination, among those of its user. */
static inline struct kfr_lane *kfr_lane_of(struct kfr_conn *conn,
					   const struct kfr_op *op)
{
	unsigned int to = le16_to_cpu(op->hdr.dst) + le16_to_cpu(op->hdr.rx);

	return &conn->shares[op->share].lanes[to % KFR_LANES];
}

/*
 * May no numbered request be sent until an ACK arrives? The peer has a NAK or ERR
 * queued for each of them, at worst, and it has room for a limited number.
 */
static inline bool kfr_window_full(const struct kfr_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	return conn->tx_seq - conn->tx_acked >= KFR_WINDOW;
}

/**
 * struct kfr_tx - a transmit context
 * @base: the handle that it reports to
 * @ep: its endpoint
 * @index: its number there
 * @flags: default flags; changed under kfr_ep.ctl, read without
 * @size: number of operations
 * @ops: all of them; constant from enabling to kfr_tx_stop()
 * @copied: bytes in bounce buffers; atomic
 * @lock: protects the following
 * @free: operations not in use
 * @used: number of those in use
 * @closing: nothing is posted or reported any more; written once, also read
 *	without @lock
 * @idle: it is closing, and @used is 0
 */
struct kfr_tx {
	struct kfi_ep_base *base;
	struct kfr_ep *ep;
	unsigned int index;
	u64 flags;
	unsigned int size;
	struct kfr_op **ops;
	atomic_long_t copied;
	spinlock_t lock;	/* free operations */
	struct kfr_op *free;
	unsigned int used;
	bool closing;
	struct completion idle;
};

/* Does its context close? The caller holds the lock of its connection. */
static inline bool kfr_op_closing(const struct kfr_op *op)
{
	return !op->tx || READ_ONCE(op->tx->closing);
}

/**
 * struct kfr_job - RDMA reads or writes on behalf of a peer
 * @item: on kfr_conn.data until all is posted; kfr_conn.lock
 * @link: on kfr_conn.jobs until its data has moved; kfr_conn.lock
 * @conn: referenced
 * @rx: the context; counted in kfr_rx.busy until the data has moved. NULL: the job
 *	is abandoned, see abandon.c; @recv and @mr are not used any more.
 *	kfr_conn.lock
 * @recv: the receive that it fills or reads, or NULL
 * @mr: the region, counted in kfr_mr.busy, or NULL
 * @write: it writes the peer's segments (the request is READ)
 * @hdr: copy of the request
 * @src: the requesting endpoint
 * @range: part of the receive or of the region
 * @map: the local memory
 * @mapped: @map is valid
 * @segs: copy of the peer's segments
 * @seg: the next segment. This, @seg_at, @left and the position in @map: the
 *	thread that pumps, or before it is queued
 * @seg_at: position in it
 * @left: bytes not posted yet
 * @wrs: work requests without completion, +1 until all are posted, +1 if @failed;
 *	atomic
 * @refs: see kfr_job_unref(); atomic
 * @failed: a work request has failed; kfr_job_fail_all() drops its @wrs
 * @replied: @fin was queued; written by the pump before it drops its @wrs
 * @status: set to an error by any work request; read after the last of @wrs
 * @cqe: of all its work requests
 * @fin: the reply
 */
struct kfr_job {
	struct kfr_item item;
	struct list_head link;
	struct kfr_conn *conn;
	struct kfr_rx *rx;
	struct kfr_recv *recv;
	struct kfr_mr *mr;
	bool write;
	struct kfr_hdr hdr;
	struct kfr_addr src;
	struct kfr_range range;
	struct kfr_map map;
	bool mapped;
	struct kfr_seg segs[KFR_SEGS];
	unsigned int seg;
	u32 seg_at;
	size_t left;
	atomic_t wrs;
	atomic_t refs;
	bool failed;
	bool replied;
	enum kfr_status status;
	struct ib_cqe cqe;
	struct kfr_ctl fin;
};

/* conn.c */
struct kfr_conn *kfr_conn_new(struct kfr_node *node, __be32 remote,
			      bool passive);
void kfr_conn_start(struct kfr_conn *conn);
void kfr_conn_get(struct kfr_conn *conn);
void kfr_conn_put(struct kfr_conn *conn);
void kfr_conn_abort(struct kfr_conn *conn, int err, int prov_errno);
void kfr_conn_close(struct kfr_conn *conn);
void kfr_conn_discard(struct kfr_conn *conn);
void kfr_conn_retire(struct kfr_conn *conn);
void kfr_conn_confirmed(struct kfr_conn *conn);
void kfr_conn_left(struct kfr_conn *conn, const struct kfr_hdr *hdr);
int kfr_conn_arrive(struct kfr_node *node, struct rdma_cm_id *id,
		    struct rdma_cm_event *event);
void kfr_posted_put(struct kfr_conn *conn);
void kfr_conn_enter(struct kfr_conn *conn);
void kfr_conn_leave(struct kfr_conn *conn);

/* qp.c: queue pair, wire buffers and registrations of a connection */
int kfr_qp_make(struct kfr_conn *conn, struct rdma_cm_id *id);
void kfr_qp_free(struct kfr_conn *conn);

/* pump.c: posting for a connection */
void kfr_req_add(struct kfr_conn *conn, struct kfr_op *op);
void kfr_pump(struct kfr_conn *conn);
void kfr_pump_work(struct work_struct *work);
int kfr_post_wr(struct kfr_conn *conn, struct ib_send_wr *wr,
		unsigned int count);
void kfr_id_put(struct kfr_conn *conn, struct kfr_op *op);
void kfr_regs_put(struct kfr_conn *conn, struct kfr_op *op, unsigned int keep);

/* ack.c: control messages, and completions of sends */
void kfr_reply(struct kfr_conn *conn, const struct kfr_hdr *req, u8 op,
	       enum kfr_status status, size_t len, size_t over);
void kfr_reply_hdr(struct kfr_hdr *hdr, const struct kfr_hdr *req, u8 op,
		   enum kfr_status status, size_t len, size_t over);
bool kfr_ctl_add(struct kfr_conn *conn, const struct kfr_hdr *hdr);
void kfr_ctl_add_fin(struct kfr_job *job);
void kfr_ctl_add_resume(struct kfr_gate *gate, bool gone);
struct kfr_job *kfr_ctl_unlink(struct kfr_conn *conn, struct kfr_ctl *ctl);
void kfr_ctl_added(struct kfr_conn *conn);
void kfr_count_request(struct kfr_conn *conn);
void kfr_ack_request(struct kfr_conn *conn, u32 seq);
void kfr_probe_later(struct kfr_conn *conn);
bool kfr_peer_probes_are_missing(const struct kfr_conn *conn);
void kfr_probe(struct work_struct *work);
void kfr_wire_done(struct ib_cq *cq, struct ib_wc *wc);
void kfr_reg_done(struct ib_cq *cq, struct ib_wc *wc);
void kfr_sq_done(struct kfr_conn *conn, enum ib_wc_status status);
void kfr_wc_failed(struct kfr_conn *conn, enum ib_wc_status status);
void kfr_ctl_drop_all(struct kfr_conn *conn);
enum hrtimer_restart kfr_ack_expired(struct hrtimer *timer);

/* operations.c: operations on a connection, and the peer's replies */
void kfr_ops_done(struct list_head *done);
bool kfr_op_numbered(const struct kfr_op *op);
int kfr_handle_ack(struct kfr_conn *conn, u32 ack);
int kfr_handle_reply(struct kfr_conn *conn, const struct kfr_hdr *hdr);
struct kfr_op *kfr_find_request(struct kfr_conn *conn,
				const struct kfr_hdr *hdr);
int kfr_op_submit(struct kfr_op *op);
void kfr_op_recall(struct kfr_op *op, bool revoke);
bool kfr_op_end(struct kfr_conn *conn, struct kfr_op *op);
bool kfr_op_cancel(struct kfr_conn *conn, struct kfr_op *op);
bool kfr_op_withdraw(struct kfr_conn *conn, struct kfr_op *op, int err,
		     int prov_errno);
void kfr_op_fail_all(struct kfr_conn *conn);
struct kfr_conn *kfr_op_conn(struct kfr_op *op);
void kfr_op_invalid(struct ib_cq *cq, struct ib_wc *wc);

/* job.c */
void kfr_job_start(struct kfr_conn *conn, struct kfr_rx *rx,
		   struct kfr_recv *recv, struct kfr_mr *mr,
		   const struct kfr_hdr *hdr, struct page *page,
		   const struct kfr_range *range, struct kfr_addr src);
void kfr_job_post(struct kfr_job *job);
void kfr_job_unref(struct kfr_job *job);
void kfr_job_fail_all(struct kfr_conn *conn);
bool kfr_conn_serves(struct kfr_conn *conn, const struct kfr_rx *rx,
		     const struct kfr_mr *mr);

/* abandon.c: operations and jobs whose context is gone */
bool kfr_op_abandon(struct kfr_op *op);
void kfr_rx_abandon(struct kfr_rx *rx);
void kfr_abandoned(struct work_struct *work);

/* unready.c: no receive in time */
bool kfr_keeps(void);
void kfr_op_refused(struct kfr_conn *conn, struct kfr_op *op);
void kfr_unready(struct work_struct *work);
void kfr_rx_retry(struct work_struct *work);

/* tx.c: operations */
struct kfr_tx *kfr_tx_new(struct kfr_ep *ep, struct kfi_ep_base *base,
			  unsigned int index, const struct kfi_tx_attr *attr);
int kfr_tx_enable(struct kfr_tx *tx);
void kfr_tx_stop(struct kfr_tx *tx);
void kfr_tx_close(struct kfr_tx *tx);
void kfr_tx_free(struct kfr_tx *tx);
void kfr_op_done(struct kfr_op *op);

/**
 * struct kfr_send - parameters of kfr_send()
 * @op: KFR_OP_EAGER for messages, KFR_OP_READ, KFR_OP_WRITE
 * @kind: KFI_MSG | KFI_SEND and so on, for the completion
 * @flags: the operation's flags
 * @silent: a success never writes an entry
 * @tagged: @tag is a tag
 * @type: type of the pieces
 * @pieces: the local buffer
 * @count: number of pieces
 * @context: the ULP's
 * @addr: the destination
 * @tag: tag, or key
 * @offset: of RMA
 * @data: with KFI_REMOTE_CQ_DATA
 * @exact: the buffer must have @remote_len bytes
 * @remote_len: length of the remote piece that the ULP gave
 *
 * It lives on the caller's stack; kfr_send() copies what it keeps.
 */
struct kfr_send {
	enum kfr_wire_op op;
	u64 kind;
	u64 flags;
	bool silent;
	bool tagged;
	enum kfi_iov_type type;
	const void *pieces;
	size_t count;
	void *context;
	kfi_addr_t addr;
	u64 tag;
	u64 offset;
	u64 data;
	bool exact;
	size_t remote_len;
};

ssize_t kfr_send(struct kfid_ep *fid, const struct kfr_send *send);

#endif /* _KFV_RDM_CONN_H_ */
