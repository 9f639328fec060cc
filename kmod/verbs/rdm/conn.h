/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* RDM endpoints: connections, and what is under way on them. See rdm.h. */
#ifndef _KFV_RDM_CONN_H_
#define _KFV_RDM_CONN_H_

#include <linux/hrtimer.h>

#include "buf.h"
#include "match.h"
#include "wire.h"

struct kfr_ep;
struct kfr_mr;
struct kfr_node;
struct kfr_op;

enum kfr_item_kind {
	KFR_ITEM_CTL,		/* kfr_ctl: a message without an operation */
	KFR_ITEM_INV,		/* kfr_op: its registrations end */
	KFR_ITEM_DATA,		/* kfr_job: reads or writes */
	KFR_ITEM_REQ,		/* kfr_op: to be sent */
};

/* On a queue of a connection. */
struct kfr_item {
	struct list_head link;
	enum kfr_item_kind kind;
};

/**
 * struct kfr_ctl - an answer, or another message that nobody waits for
 * @item: on the queue
 * @hdr: the message
 * @job: it is part of this one, else it is memory of its own
 */
struct kfr_ctl {
	struct kfr_item item;
	struct kfr_hdr hdr;
	struct kfr_job *job;
};

/**
 * struct kfr_wire - room for one message of a connection
 * @cqe: by which its completion finds it
 * @conn: the connection
 * @link: on the list of free ones
 * @hdr: first element
 * @page: second element
 * @hdr_dma: the device's address of @hdr
 * @page_dma: and of @page
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

/* One registration, of the connection's own. */
struct kfr_reg {
	struct list_head link;
	struct ib_mr *mr;
};

/**
 * struct kfr_lane - a share of ids and registrations
 * @waiting: operations that there is none for, in order
 * @nids: ids in use
 * @nregs: registrations in use
 *
 * A context that receives nothing keeps them for as long as it likes: it gets no
 * more than half, so that others' operations can go.
 */
struct kfr_lane {
	struct list_head waiting;
	unsigned int nids;
	unsigned int nregs;
};

enum kfr_conn_state {
	KFR_WAITING,		/* the other half of one to ourselves */
	KFR_CONNECTING,
	KFR_ACCEPTED,		/* not confirmed yet */
	KFR_UP,
	KFR_DEAD,		/* on its way to being destroyed */
};

/**
 * struct kfr_conn - a connection between two nodes
 * @ref: its work items, those who look at it; each kfr_unexp and kfr_job
 * @node: referenced
 * @remote: IP address of the peer
 * @passive: the peer has begun it
 * @cookie: of a connection that we began
 * @twin: of one to ourselves: the other half, referenced; @lock
 * @link: on kfr_node.conns; the node's lock
 * @stale: the peer has begun another one: no new messages; the node's lock
 * @ctl: making and destroying @id
 * @id: RDMA CM's half
 * @resolved: how often the address was asked for in vain; @id's handler
 * @pd: its own: no other peer reaches what is registered here
 * @qp: the queue pair, once there is one; then the following exist
 * @cq: one of the device's shared ones
 * @rxb: receives
 * @txb: sends
 * @hdrs: headers of both
 * @hdrs_dma: the device's address of @hdrs
 * @max_sge: elements of a work request
 * @regs: registrations
 * @reg_cqe: of making them
 * @posted: work requests without a completion, +1 until it is stopped
 * @drained: @posted is 0
 * @lock: protects the following
 * @state: where it stands
 * @err: why it died: an errno
 * @prov_errno: and more exactly
 * @doomed: its work item is queued
 * @flushing: @idle is waited for
 * @pumping: somebody posts
 * @sq_free: work requests that the send queue has room for
 * @data_free: of those, how many jobs may use
 * @nregs_free: registrations not in use
 * @nwire: sends not in use
 * @free_wire: the same
 * @free_regs: registrations not in use
 * @urgent: answers, and registrations to be ended
 * @data: jobs
 * @reqs: operations
 * @lanes: operations that wait for an id or for registrations, by destination
 * @next_lane: who gets some first
 * @sent: operations with a number, not answered yet, in order
 * @asked: operations with an id, not answered yet, in order
 * @ending: those that are answered, and their registrations are being ended
 * @ids: the same by id
 * @id_gen: makes ids differ from those before
 * @next_id: where the search for a free one begins
 * @nids: operations with an id
 * @order: operations sent so far
 * @tx_seq: the last number given
 * @rx_seq: the last number taken
 * @acked: the last number answered
 * @tx_count: requests sent
 * @rx_count: requests dealt with
 * @epochs: of all contexts that it brings messages to: no two are the same
 * @orphans: a context that had pushed it back has closed
 * @answers: answers not sent yet
 * @wants: of those, how many ask for parked messages
 * @ack_due: an answer for @rx_seq shall go now
 * @ack_lazy: the peer's messages are answered by ours the other way
 * @timing: @ack_timer runs
 * @timed_seq: the number that it was started for
 * @ack_time: when (jiffies) an answer went alone
 * @flows: where peers have pushed back
 * @nflows: of these
 * @jobs: data that moves on behalf of the peer
 * @njobs: of these
 * @ack_timer: for an answer that found no message to go with
 * @setup: begins it
 * @probe: sees whether the peer is still there
 * @destroy: gives everything back
 * @idle: nothing is left to be said, while it is being closed
 */
struct kfr_conn {
	struct kref ref;
	struct kfr_node *node;
	__be32 remote;
	bool passive;
	u32 cookie;
	struct kfr_conn *twin;
	struct list_head link;
	bool stale;
	struct mutex ctl;	/* making and destroying the id */
	struct rdma_cm_id *id;
	unsigned int resolved;
	struct ib_pd *pd;
	struct ib_qp *qp;
	struct ib_cq *cq;
	struct kfr_wire *rxb;
	struct kfr_wire *txb;
	struct kfr_hdr *hdrs;
	u64 hdrs_dma;
	unsigned int max_sge;
	struct kfr_reg *regs;
	struct ib_cqe reg_cqe;
	atomic_t posted;
	struct completion drained;
	spinlock_t lock;	/* its queues */
	enum kfr_conn_state state;
	int err;
	int prov_errno;
	bool doomed;
	bool flushing;
	bool pumping;
	unsigned int sq_free;
	unsigned int data_free;
	unsigned int nregs_free;
	unsigned int nwire;
	struct list_head free_wire;
	struct list_head free_regs;
	struct list_head urgent;
	struct list_head data;
	struct list_head reqs;
	struct kfr_lane lanes[KFR_LANES];
	unsigned int next_lane;
	struct list_head sent;
	struct list_head asked;
	struct list_head ending;
	struct kfr_op *ids[KFR_IDS];
	u32 id_gen;
	unsigned int next_id;
	unsigned int nids;
	u64 order;
	u32 tx_seq;
	u32 rx_seq;
	u32 acked;
	u32 tx_count;
	u32 rx_count;
	atomic_t epochs;
	bool orphans;
	unsigned int answers;
	unsigned int wants;
	bool ack_due;
	bool ack_lazy;
	bool timing;
	u32 timed_seq;
	unsigned long ack_time;
	struct list_head flows;
	unsigned int nflows;
	struct list_head jobs;
	unsigned int njobs;
	struct hrtimer ack_timer;
	struct work_struct setup;
	struct delayed_work probe;
	struct work_struct destroy;
	struct completion idle;
};

/**
 * struct kfr_flow - messages to a context that has pushed back
 * @link: on kfr_conn.flows (sender), kfr_rx.flows (receiver)
 * @conn: receiver: whose messages, referenced
 * @dst: sender: the endpoint
 * @rx: sender: and its context
 * @auth: sender: by this key
 * @epoch: of the messages that are taken
 * @blocked: receiver: none is, until RESUME
 * @asked: receiver: when it was asked last, as kfr_rx.asks counts
 * @resumed: receiver: when RESUME was sent last, as kfr_rx.resumes counts
 * @parked: sender: operations to be sent then, in order
 */
struct kfr_flow {
	struct list_head link;
	struct kfr_conn *conn;
	u16 dst;
	u16 rx;
	u32 auth;
	u16 epoch;
	bool blocked;
	u64 asked;
	u64 resumed;
	struct list_head parked;
};

enum kfr_op_state {
	KFR_FREE,
	KFR_QUEUED,		/* kfr_conn.reqs, a lane, or parked */
	KFR_BUSY,		/* answered, or taken back */
	KFR_SENT,		/* kfr_conn.sent or .asked */
};

/**
 * struct kfr_op - an operation of a transmit context
 * @item: on a queue of its connection
 * @sent: on kfr_conn.sent or .asked, or parked
 * @next: the next free one
 * @tx: its context
 * @conn: its connection, referenced while it is not free
 * @state: where it is; the connection's lock
 * @parked: it is on @sent of a flow, not of the connection
 * @has_id: it is in kfr_conn.ids
 * @context: the ULP's
 * @kind: KFI_MSG | KFI_SEND and so on, for the completion
 * @want_entry: a success writes a completion entry
 * @hdr: what is sent, but for what the connection fills in
 * @buf: the local buffer
 * @map: the same for the device, if it is sent in segments
 * @mapped: there is one
 * @bounce: a copy of a buffer that cannot be registered, or NULL
 * @regs: registrations of the segments
 * @segs: what the peer is told of them
 * @nregs: number of segments
 * @registered: they are
 * @nregs_done: of those being ended: how many are
 * @cqe: of registering and ending that
 * @order: its place among the operations of the connection
 * @err: how it ended
 * @prov_errno: more exactly
 * @len: bytes that were delivered, if not all were
 * @over: bytes that were not
 * @inject: room for the copy of a buffer
 */
struct kfr_op {
	struct kfr_item item;
	struct list_head sent;
	struct kfr_op *next;
	struct kfr_tx *tx;
	struct kfr_conn *conn;
	enum kfr_op_state state;
	bool parked;
	bool has_id;
	void *context;
	u64 kind;
	bool want_entry;
	struct kfr_hdr hdr;
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
	u64 order;
	int err;
	int prov_errno;
	size_t len;
	size_t over;
	u8 inject[KFV_INJECT_SIZE];
};

/* Whose share it uses. */
static inline struct kfr_lane *kfr_lane_of(struct kfr_conn *conn,
					   const struct kfr_op *op)
{
	unsigned int to = le16_to_cpu(op->hdr.dst) + le16_to_cpu(op->hdr.rx);

	return &conn->lanes[to % KFR_LANES];
}

/**
 * struct kfr_tx - a transmit context
 * @base: reports go there
 * @ep: its endpoint
 * @index: which one it is
 * @flags: default flags
 * @size: operations
 * @ops: all of them
 * @copied: bytes in copies of what lies too scattered
 * @lock: protects the following
 * @free: those not in use
 * @used: number of those in use
 * @closing: nothing is reported any more
 * @idle: none is in use, while it is being closed
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

/**
 * struct kfr_job - data to be moved for a peer
 * @item: on kfr_conn.data
 * @link: on kfr_conn.jobs
 * @conn: referenced
 * @rx: the context, busy
 * @recv: the receive that it fills or is read from, or NULL
 * @mr: the region, busy, or NULL
 * @write: the segments are written, not read
 * @hdr: what the peer asked
 * @src: who
 * @range: where in the receive, or in the region
 * @map: the local memory
 * @mapped: there is one
 * @segs: the peer's
 * @seg: which one is next
 * @seg_at: and where in it
 * @left: bytes not posted yet
 * @wrs: work requests without completion, +1 until all are posted
 * @refs: who needs the memory: the data, the answer
 * @answered: the answer is on its way
 * @status: the first that failed
 * @cqe: of all of them
 * @fin: the answer
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
	bool answered;
	enum kfr_status status;
	struct ib_cqe cqe;
	struct kfr_ctl fin;
};

/* conn.c */
struct kfr_conn *kfr_conn_new(struct kfr_node *node, __be32 remote,
			      bool passive);
void kfr_conn_pair(struct kfr_conn *a, struct kfr_conn *b);
void kfr_conn_start(struct kfr_conn *conn);
void kfr_conn_get(struct kfr_conn *conn);
void kfr_conn_put(struct kfr_conn *conn);
void kfr_conn_kill(struct kfr_conn *conn, int err, int prov_errno);
void kfr_conn_close(struct kfr_conn *conn);
void kfr_conn_discard(struct kfr_conn *conn);
void kfr_conn_confirmed(struct kfr_conn *conn);
int kfr_conn_arrive(struct kfr_node *node, struct rdma_cm_id *id,
		    struct rdma_cm_event *event);
void kfr_posted_put(struct kfr_conn *conn);

/* qp.c: a connection's queue pair, buffers and registrations */
int kfr_qp_make(struct kfr_conn *conn, struct rdma_cm_id *id);
void kfr_qp_free(struct kfr_conn *conn);

/* pump.c: posting for a connection */
void kfr_pump(struct kfr_conn *conn);
int kfr_post_wr(struct kfr_conn *conn, struct ib_send_wr *wr,
		unsigned int count);

/* ack.c: answers, and the ends of work requests */
void kfr_ctl_end(struct kfr_ctl *ctl);
int kfr_answer(struct kfr_conn *conn, const struct kfr_hdr *ask, u8 op,
	       enum kfr_status status, size_t len, size_t over);
void kfr_answer_hdr(struct kfr_hdr *hdr, const struct kfr_hdr *ask, u8 op,
		    enum kfr_status status, size_t len, size_t over);
int kfr_add_ctl(struct kfr_conn *conn, struct kfr_ctl *ctl);
int kfr_add_answer(struct kfr_conn *conn, const struct kfr_hdr *ask, u8 op);
void kfr_added(struct kfr_conn *conn, int err);
void kfr_queue_ctl(struct kfr_conn *conn, struct kfr_ctl *ctl);
void kfr_seen(struct kfr_conn *conn);
void kfr_taken(struct kfr_conn *conn, u32 seq);
void kfr_probe_later(struct kfr_conn *conn);
void kfr_probe(struct work_struct *work);
void kfr_wire_done(struct ib_cq *cq, struct ib_wc *wc);
void kfr_reg_done(struct ib_cq *cq, struct ib_wc *wc);
void kfr_sq_done(struct kfr_conn *conn, enum ib_wc_status status);
void kfr_wc_failed(struct kfr_conn *conn, enum ib_wc_status status);
void kfr_ctl_drop_all(struct kfr_conn *conn);
enum hrtimer_restart kfr_ack_expired(struct hrtimer *timer);

/* operations.c: operations under way, and what a peer answers */
bool kfr_op_numbered(const struct kfr_op *op);
int kfr_answered(struct kfr_conn *conn, u32 ack);
int kfr_take_answer(struct kfr_conn *conn, const struct kfr_hdr *hdr);
struct kfr_op *kfr_find_asked(struct kfr_conn *conn, const struct kfr_hdr *hdr);
void kfr_op_submit(struct kfr_op *op);
void kfr_op_recall(struct kfr_op *op);
bool kfr_op_end(struct kfr_conn *conn, struct kfr_op *op);
bool kfr_op_call_off(struct kfr_conn *conn, struct kfr_op *op);
void kfr_op_fail_all(struct kfr_conn *conn);
bool kfr_conn_serves(struct kfr_conn *conn, const struct kfr_rx *rx,
		     const struct kfr_tx *tx, const struct kfr_mr *mr);
void kfr_op_invalid(struct ib_cq *cq, struct ib_wc *wc);

/* job.c */
void kfr_job_start(struct kfr_conn *conn, struct kfr_rx *rx,
		   struct kfr_recv *recv, struct kfr_mr *mr,
		   const struct kfr_hdr *hdr, struct page *page,
		   const struct kfr_range *range, struct kfr_addr src);
void kfr_job_post(struct kfr_job *job);
void kfr_job_end(struct kfr_job *job);
void kfr_job_fail_all(struct kfr_conn *conn);

/* tx.c: operations */
struct kfr_tx *kfr_tx_new(struct kfr_ep *ep, struct kfi_ep_base *base,
			  unsigned int index, const struct kfi_tx_attr *attr);
int kfr_tx_enable(struct kfr_tx *tx);
void kfr_tx_close(struct kfr_tx *tx);
void kfr_tx_free(struct kfr_tx *tx);
void kfr_op_done(struct kfr_op *op);

/**
 * struct kfr_send - an operation to be begun
 * @op: KFR_OP_EAGER for messages, KFR_OP_READ, KFR_OP_WRITE
 * @kind: KFI_MSG | KFI_SEND and so on, for the completion
 * @flags: the operation's flags
 * @silent: a success never writes an entry
 * @tagged: @tag is a tag
 * @type: what the pieces are
 * @pieces: of the local buffer
 * @count: how many
 * @context: the ULP's
 * @addr: whereto
 * @tag: tag, or key
 * @offset: of RMA
 * @data: with KFI_REMOTE_CQ_DATA
 * @exact: the buffer has @remote_len bytes, or it is a mistake
 * @remote_len: bytes that the ULP says it wants of the peer
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
