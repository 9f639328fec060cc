/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * RDM endpoints, inside kfi_verbs.ko. Names begin with kfr_.
 *
 * DOC: Terms
 *
 * A request is a message that carries an operation: EAGER, RTS, READ or WRITE.
 * A control message carries none: a reply to one request (FIN, ERR, NAK), an
 * ACK for all requests up to a number, RESUME, CANCEL or WANT. See
 * docs/rdm-wire.md. A numbered request carries its data and is acknowledged
 * together with others; a request with an id carries segments, or is a READ,
 * and gets its own reply. A kept message has arrived before its receive (struct
 * kfr_unexp). A parked operation was refused by NAK and waits at the sender
 * (struct kfr_flow).
 *
 * DOC: The way of a message
 *
 *   kfi_tsend		takes a kfr_op from its context; kfr_send() puts it on
 *			the queue of the connection to that address, and starts
 *			a connection if there is none
 *   kfr_pump()		copies it into a wire buffer and posts that
 *   kfr_receive()	at the peer: finds endpoint, context and receive,
 *			copies or keeps the data (kfr_unexp), reports
 *   @ack, FIN, ERR	come back, mostly in the header of the next message the
 *			other way: kfr_op_done() reports
 *
 * With more than KFR_EAGER bytes, kfr_receive() makes a kfr_job, which reads
 * from the sender's segments and replies when that is done. RMA takes the same
 * way with a region (kfr_mr) instead of the receive.
 *
 * DOC: Ownership
 *
 * A node (kfr_node) is one IP address of a device's port: a listener and the
 * connections (kfr_conn) of that address. All endpoints of that address share
 * them, also across domains, as each message contains the endpoint's number.
 * The node lives as long as an enabled endpoint uses it.
 *
 * Endpoints, contexts, vectors and regions are public halves in the sense of
 * kfi_verbs.h: they live from open to close. Node and connection are device
 * halves: a work item destroys them, before the device's removal returns.
 *
 *   object	memory is freed by	kept in use by
 *   kfr_op	kfr_tx_free(); if it is	its connection's lists, from submit to
 *		abandoned, kfr_op_done() done; holds a reference to it
 *   kfr_recv	kfr_rx_free()		its match lists, or @users while filled
 *   kfr_unexp	kfr_rx_free()		its match lists; holds a reference to
 *					a connection that waits for a reply
 *   kfr_job	kfr_job_unref()		its work requests and its FIN
 *   kfr_ctl	kfr_qp_free()		kfr_conn.urgent; the pump copies it. That
 *					of a FIN is a part of its job, that of
 *					RESUME of its flow
 *   kfr_gate	kfr_rx_forget(), or	kfr_rx.flows; its last RESUME
 *		kfr_ctl_unlink()
 *   kfr_wire	kfr_qp_free()		the device, from posting to completion
 *   kfr_conn	kfr_conn_put()		its work items, operations, jobs and kept
 *					messages
 *   kfr_rx	kfr_rx_free()		@busy: messages being delivered, jobs
 *   kfr_mr	its close		@busy: jobs
 *
 * Each close has the same order: stop new users, make the object invisible to
 * messages, drop the initial count, wait for the others (and abort their
 * connections if these are stuck), free. At the exit of a process, kfi_stop()
 * comes before that for all its objects, see abandon.c: no close waits for a peer.
 *
 * DOC: Contexts
 *
 *   work completions	softirq, one at a time for each CQ, and so for each
 *			connection: kfr_receive() never runs twice for it
 *   CM callbacks	process, under the id's handler lock: they take none of
 *			the mutexes below
 *   work items		kfr_conn.setup and .pump on kfv_wq, .destroy on
 *			kfv_device.conns; .probe, .expire, .abandoned and
 *			kfr_rx.expire on the system's queue
 *   kfr_conn.ack_timer	softirq
 *   API calls		the ULP's; posting may be in any context
 *
 * DOC: Lock order
 *
 * This list continues those in kfi_verbs.h (kfv_device.lock, kfv_domain.lock) and
 * kmod/core/core.h, and is the only one for this folder. Mutexes:
 *
 *   kfv_device.lock		nodes, endpoints of a domain
 *     kfr_ep.ctl		binding, enabling and contexts of an endpoint
 *       a listener's handler lock (rdma_destroy_id())
 *   kfr_conn.ctl		making @id; taken by work items only
 *     its id's handler lock
 *   kfr_av.lock		changes of an address vector; innermost
 *   kfv_domain.lock		binding and enabling of a region, binding an EQ; innermost
 *
 * Spinlocks, all irq safe, and inside every mutex:
 *
 *   kfr_rx.multi_lock		order of reports of multi-receives
 *     kfr_rx.lock		receives, kept messages, flows; in core.h it is
 *				ep->profile_lock, and has that place
 *       kfr_conn.lock
 *     source->lock of core.h	while such a report is made
 *   kfr_node.lock		which connections there are
 *     kfr_conn.lock		queues and state of a connection
 *   kfr_tx.lock		free operations; innermost
 *   lock of an xarray		innermost
 *
 * No spinlock but multi_lock is held while a completion is reported, and none
 * while a work request is posted. What keeps work requests in order is no lock
 * but a flag, kfr_conn.pumping: the thread that sets it posts, other threads
 * leave their work on the queues. Helpers of the pump that run without the lock
 * thus have nothing that lockdep could assert.
 */
#ifndef _KFV_RDM_H_
#define _KFV_RDM_H_

#include <linux/xarray.h>

#include <kfi_cxi_ext.h>

#include "../kfi_verbs.h"

#define KFR_TX_SIZE	256	/* operations of a transmit context */
#define KFR_TX_MAX	4096
#define KFR_RX_SIZE	512	/* receives of a receive context */
#define KFR_RX_MAX	16384
#define KFR_KEEP	64	/* messages kept until they are received */
#define KFR_KEEP_MAX	4096
#define KFR_IOV_LIMIT	256
#define KFR_IOV_INLINE	4	/* pieces that need no memory of their own */
#define KFR_CTX_MAX	128	/* contexts of one endpoint, each way */
#define KFR_RX_BITS_MAX	16
#define KFR_MSG_MAX	(4U << 20)
/* Bytes that a context may have in copies; a single copy may be larger. */
#define KFR_COPY_MAX	(16L << 20)
#define KFR_PID_ANY	0xfff	/* in an 8-byte address: choose a free pid */
#define KFR_PID_MAX	510
#define KFR_ID_FIRST	32768	/* first number that is chosen automatically */
/* Numbers of one authorisation key that a user may have: pids, and others. */
#define KFR_USER_PIDS	(KFR_PID_MAX / 2)
#define KFR_USER_IDS	((U16_MAX + 1 - KFR_ID_FIRST) / 2)
#define KFR_MULTI_MIN	64	/* default of KFI_OPT_MIN_MULTI_RECV */
#define KFR_AUTH	255	/* default authorisation key */

/* Limits of one connection. */
#define KFR_TXBUFS	64	/* wire buffers for sends */
#define KFR_RXBUFS	256	/* wire buffers for receives, see kfr_qp_create() */
#define KFR_DATA_WRS	64	/* RDMA reads and writes of jobs in flight */
#define KFR_IDS		128	/* operations with an id */
#define KFR_MRS		64	/* registrations of local memory */
#define KFR_LANES	16	/* of each share; see struct kfr_lane */
#define KFR_LANE_IDS	(KFR_IDS / 4)
#define KFR_LANE_MRS	(KFR_MRS / 4)
#define KFR_SQ		(KFR_TXBUFS + KFR_DATA_WRS + 2 * KFR_MRS)
/*
 * Jobs that a peer can have: one for each of its ids, and one for each id that
 * it may use again although the job's FIN has not left here yet.
 */
#define KFR_JOBS	(KFR_IDS + KFR_DATA_WRS + KFR_TXBUFS)
#define KFR_FIRST_EPOCH	(U16_MAX - 8)	/* tests see them begin again */
#define KFR_FLOWS	16384	/* flows; then new requests go elsewhere */
#define KFR_FLOW_BITS	7	/* of the hash table of these */
#define KFR_OWNER_BITS	6	/* users of a connection are told apart by hash */
#define KFR_SHARES	(2 * BIT(KFR_OWNER_BITS))	/* of modules, and of users */
#define KFR_CTLS_MAX	1024	/* control messages queued for a peer */
#define KFR_WANTS_MAX	64	/* of those, WANTs; then RESUME replaces them */
#define KFR_PEER_CONNS	4	/* connections that one peer has begun */
#define KFR_HEARD_MS	100	/* for the first message, on a full node */
#define KFR_SLOTS	64	/* with one peer, also those being destroyed */
#define KFR_RESOLVES	8	/* attempts to resolve, KFV_RESOLVE_MS each */
#define KFR_WINDOW	128	/* numbered requests without an ACK */
#define KFR_ACK_EVERY	16	/* requests without an ACK, at most */
#define KFR_PUMP_MAX	16	/* items that one call of kfr_pump() posts */
#define KFR_URGENT_RUN	8	/* control messages in a row while requests wait */

#define KFR_CLOSE_TIME	(HZ / 2)	/* close waits, then revokes or looks */
#define KFR_SILENT_TIME	(3 * HZ)	/* close aborts: the peer takes nothing */
#define KFR_RETRY_TIME	(HZ / 10)	/* senders try again where nothing is kept */
#define KFR_REVOKE_TIME	(10 * HZ)	/* close aborts: it does not take enough */
#define KFR_IDLE_MIN	HZ		/* if a node, or a connection, is full */
#define KFR_DEAF_TIME	(10 * HZ)	/* on a full node, for an answer to LEAVE */
#define KFR_PROBE_MAX	86400u	/* seconds, also of an idle connection */
#define KFR_FLUSH_TIME	(HZ / 2)	/* an ending connection sends replies */

#define KFR_CAPS_ONLY	(KFI_TAGGED | KFI_MULTI_RECV | KFI_TAGGED_RMA | \
			 KFI_TAGGED_MULTI_RECV | KFI_NAMED_RX_CTX | \
			 KFI_DIRECTED_RECV | KFI_SOURCE | KFI_RMA_EVENT)
#define KFR_CAPS_TX	(KFI_MSG | KFI_TAGGED | KFI_RMA | KFI_TAGGED_RMA | \
			 KFI_SEND | KFI_READ | KFI_WRITE | KFI_NAMED_RX_CTX)
#define KFR_CAPS_RX	(KFI_MSG | KFI_TAGGED | KFI_RMA | KFI_TAGGED_RMA | \
			 KFI_RECV | KFI_REMOTE_READ | KFI_REMOTE_WRITE | \
			 KFI_MULTI_RECV | KFI_TAGGED_MULTI_RECV | \
			 KFI_DIRECTED_RECV | KFI_SOURCE | KFI_RMA_EVENT)
#define KFR_CAPS	(KFR_CAPS_TX | KFR_CAPS_RX | KFV_CAPS_DOMAIN)

/*
 * No KFI_FENCE: the peer's RDMA reads of segments are not ordered with sends.
 * No KFI_DELIVERY_COMPLETE: a short message is acknowledged as soon as it is
 * kept, before there is a receive.
 */
#define KFR_TX_FLAGS	(KFI_COMPLETION | KFI_INJECT | KFI_MORE | \
			 KFI_REMOTE_CQ_DATA | KFI_INJECT_COMPLETE | \
			 KFI_TRANSMIT_COMPLETE)
#define KFR_TX_OP_FLAGS	(KFR_TX_FLAGS & ~(KFI_REMOTE_CQ_DATA | KFI_MORE))
#define KFR_RX_FLAGS	(KFI_COMPLETION | KFI_MORE | KFI_MULTI_RECV)
#define KFR_RX_OP_FLAGS	(KFI_COMPLETION | KFI_MULTI_RECV)

/* prov_errno of RDM endpoints: a work completion's status, or one of these. */
enum kfr_errno {
	KFR_ERR_STATUS = 1000,	/* + enum kfr_status, from the peer's reply */
	KFR_ERR_CONNECT = 1100,	/* the connection could not be made */
	KFR_ERR_VERSION,	/* the peer speaks another version */
	KFR_ERR_CLOSED,		/* the peer ended the connection */
	KFR_ERR_PROTOCOL,	/* the peer violated the protocol */
	KFR_ERR_FLOOD,		/* the peer does not receive control messages */
	KFR_ERR_LOCAL,		/* aborted so that an object could close */
	KFR_ERR_DEVICE,		/* the device failed */
	KFR_ERR_FULL,		/* the peer has too many connections */
	KFR_ERR_STUCK,		/* no message has reached the peer for long */
	KFR_ERR_END
};

/* They need the limits above. */
#include "buf.h"
#include "match.h"
#include "conn.h"

/**
 * struct kfr_domain - the part of a domain that only RDM endpoints need
 * @domain: the domain, which owns this
 * @format: how its addresses are written
 * @mr_mode: KFI_MR_ENDPOINT: regions are enabled on a receive context
 * @eps: open endpoints; kfv_device.lock
 * @keys: regions of the whole domain, by key; the xarray's own lock
 */
struct kfr_domain {
	struct kfv_domain *domain;
	struct kfr_format format;
	int mr_mode;
	struct list_head eps;
	struct xarray keys;
};

/**
 * struct kfr_node - one IP address of a port
 * @ref: of the memory: the node itself while it is on the list, its endpoints,
 *	its connections
 * @link: on kfv_device.nodes; kfv_device.lock
 * @dev: its device, in use as long as @halves is not 0
 * @port: its port
 * @ip: its address
 * @halves: users of the device: the node until it is stopped, each connection
 *	until its work item has given everything back
 * @listener: takes connections; kfv_device.lock
 * @users: enabled endpoints; kfv_device.lock
 * @lock: protects the following
 * @closing: no connection starts any more; written once
 * @conns: linked connections, by kfr_conn.slot; changed under @lock, except that
 *	kfr_slot_free() gives a slot back
 * @turn: index of the connection that was looked at last to make room; @lock
 * @silent: connections that peers have begun without a message so far, the oldest
 *	first; @lock
 * @owned: how many connections an owner (kfi_domain_base.owner) has begun that are not
 *	destroyed; the xarray's own lock
 * @pids: how many numbers up to KFR_PID_MAX a user has under one key, by user and key; the
 *	xarray's own lock
 * @ids: the same of the larger ones
 * @eps: enabled endpoints, by authorisation key and number; the xarray's own lock
 * @rxs: receive contexts that messages find, by endpoint and index; changed under
 *	kfr_ep.ctl or by close, read under kfv_srcu
 */
struct kfr_node {
	struct kref ref;
	struct list_head link;
	struct kfv_device *dev;
	u32 port;
	__be32 ip;
	refcount_t halves;
	struct rdma_cm_id *listener;
	unsigned int users;
	spinlock_t lock;	/* connections */
	bool closing;
	struct xarray conns;
	unsigned long turn;
	struct list_head silent;
	struct xarray owned;
	struct xarray pids;
	struct xarray ids;
	struct xarray eps;
	struct xarray rxs;
};

/**
 * struct kfr_face - a struct kfid_ep of this provider: the ULP's handle
 * @base: the core's part; bound and enabled under kfr_ep.ctl. Posting reads
 *	@base.enabled without a lock
 * @ep: the endpoint that it is, or that it is a context of
 * @tx: its transmit context, or NULL
 * @rx: its receive context, or NULL
 *
 * A plain endpoint has both contexts; each context of a scalable endpoint has a
 * face of its own. All but @base is constant once the ULP has the handle.
 */
struct kfr_face {
	struct kfi_ep_base base;
	struct kfr_ep *ep;
	struct kfr_tx *tx;
	struct kfr_rx *rx;
};

/**
 * struct kfr_ep - an RDM endpoint, or a scalable one
 * @face: its handle; without contexts if it is scalable
 * @rdm: of its domain
 * @link: on kfr_domain.eps; kfv_device.lock
 * @node: set when it is enabled, under kfv_device.lock and @ctl; cleared by close
 *	under kfv_device.lock. Posting reads it without a lock
 * @ctl: protects binding, enabling, @txs and @rxs
 * @av: the address vector, referenced; set once, under @ctl
 * @addr: its address; id 0: to be chosen. @ctl, constant once it is enabled
 * @auth: its authorisation key
 * @caps: capabilities that it was opened with
 * @rma_events: RMA of peers is reported to the receive context's CQ
 * @scalable: its contexts are opened separately
 * @ntx: number of transmit contexts that can be opened
 * @nrx: number of receive contexts that can be opened
 * @tx_attr: default attributes of transmit contexts
 * @rx_attr: default attributes of receive contexts
 * @txs: open transmit contexts; @ctl
 * @rxs: open receive contexts; @ctl
 *
 * A field without a named lock is constant after open.
 */
struct kfr_ep {
	struct kfr_face face;
	struct kfr_domain *rdm;
	struct list_head link;
	struct kfr_node *node;
	struct mutex ctl;	/* binding, enabling, contexts */
	struct kfr_av *av;
	struct kfr_addr addr;
	u32 auth;
	u64 caps;
	bool rma_events;
	bool scalable;
	unsigned int ntx;
	unsigned int nrx;
	struct kfi_tx_attr tx_attr;
	struct kfi_rx_attr rx_attr;
	struct kfr_face *txs[KFR_CTX_MAX];
	struct kfr_face *rxs[KFR_CTX_MAX];
};

/**
 * struct kfr_av - an address vector
 * @av: the public object
 * @rdm: of its domain; a reference is held on that
 * @type: table or map
 * @rx_bits: upper bits of an address that select the receive context
 * @events: inserting reports to @eq
 * @eq: bound, referenced; set once under @lock, read without
 * @completions: slots of @eq for completed insertions; as many events fit as the EQ's
 *	user asked for
 * @lock: protects @next and @more, and serialises changes of both xarrays
 * @next: of a table: the index of the next address
 * @more: indices of addresses that @index maps to another one
 * @addrs: packed addresses by index; read under RCU only
 * @index: the preferred index by packed address; read under RCU only
 * @rcu: frees it
 *
 * A lookup during an insertion or a removal sees the state before or after it.
 */
struct kfr_av {
	struct kfid_av av;
	struct kfr_domain *rdm;
	enum kfi_av_type type;
	int rx_bits;
	bool events;
	struct kfid_eq *eq;
	struct kfi_eq_share completions;
	struct mutex lock;	/* changes */
	u32 next;
	u32 more;
	struct xarray addrs;
	struct xarray index;
	struct rcu_head rcu;
};

/**
 * struct kfr_mr - a memory region that peers know by its key
 * @mr: the public object
 * @rdm: of its domain; a reference is held on that
 * @access: KFI_REMOTE_READ and _WRITE
 * @buf: the memory; constant
 * @rx: the context that it is bound to, referenced, or NULL; set once, under
 *	kfv_domain.lock
 * @enabled: it is in an xarray of keys; kfv_domain.lock
 * @event: that it is enabled
 * @busy: jobs on it, +1 until it is closed
 * @idle: @busy is 0
 */
struct kfr_mr {
	struct kfid_mr mr;
	struct kfr_domain *rdm;
	u64 access;
	struct kfr_buf buf;
	struct kfr_face *rx;
	bool enabled;
	struct kfi_mr_event event;
	refcount_t busy;
	struct completion idle;
};

static inline struct kfr_face *kfr_face_of(struct kfid_ep *ep)
{
	return container_of(ep, struct kfr_face, base.ep);
}

static inline struct kfr_face *kfr_face_of_fid(struct kfid *fid)
{
	return container_of(fid, struct kfr_face, base.ep.fid);
}

/*
 * Default flags for a call that has none. A handle without a transmit context
 * gets 0 here, and is refused by kfr_send().
 */
static inline u64 kfr_tx_flags(struct kfid_ep *ep)
{
	const struct kfr_tx *tx = kfr_face_of(ep)->tx;

	return tx ? tx->flags : 0;
}

/* domain.c */
struct kfr_domain *kfr_domain_new(struct kfv_domain *domain,
				  const struct kfi_info *info);
int kfr_domain_init(struct kfr_domain *rdm, const struct kfi_info *info);
void kfr_domain_free(struct kfr_domain *rdm);
const char *kfr_strerror(int prov_errno);

/* av.c */
int kfr_av_open(struct kfid_domain *domain, struct kfi_av_attr *attr,
		struct kfid_av **av, void *context);
int kfr_av_find(const struct kfr_av *av, kfi_addr_t addr,
		struct kfr_addr *to, u16 *rx);
kfi_addr_t kfr_av_source(struct kfr_av *av, struct kfr_addr addr);

/* ep.c */
int kfr_ep_open(struct kfid_domain *domain, struct kfi_info *info,
		struct kfid_ep **ep, void *context, bool scalable);
void kfr_domain_lose(struct kfr_domain *rdm);
int kfr_scalable_ep(struct kfid_domain *domain, struct kfi_info *info,
		    struct kfid_ep **sep, void *context);
void kfr_face_init(struct kfr_face *face, struct kfr_ep *ep);
int kfr_face_control(struct kfr_face *face, int command, void *arg);
void kfr_face_close(struct kfr_face *face);

/* ctx.c */
int kfr_tx_context(struct kfid_ep *sep, int index, struct kfi_tx_attr *attr,
		   struct kfid_ep **tx_ep, void *context);
int kfr_rx_context(struct kfid_ep *sep, int index, struct kfi_rx_attr *attr,
		   struct kfid_ep **rx_ep, void *context);

/* info.c */
int kfr_tx_attr_ok(const struct kfi_tx_attr *attr);
int kfr_rx_attr_ok(const struct kfi_rx_attr *attr);

/* msg.c */
extern struct kfi_ops_msg kfr_msg_ops;
extern struct kfi_ops_tagged kfr_tagged_ops;

/* node.c */
__be16 kfr_cm_port(void);
int kfr_node_get(struct kfr_ep *ep);
int kfr_node_show(struct kfr_ep *ep, struct kfr_rx *rx);
void kfr_node_hide_rx(struct kfr_ep *ep, struct kfr_rx *rx);
void kfr_node_hide(struct kfr_ep *ep);
void kfr_node_leave(struct kfr_ep *ep);
void kfr_node_put(struct kfr_node *node);
void kfr_node_unuse(struct kfr_node *node);
void kfr_strip(const struct kfv_device *dev);
struct kfr_rx *kfr_node_rx(struct kfr_node *node, const struct kfr_hdr *hdr);
struct kfr_conn *kfr_node_conn(struct kfr_ep *ep, struct kfr_addr to);
struct kfr_conn *kfr_node_link(struct kfr_node *node, __be32 remote,
			       bool passive);
void kfr_node_unlink(struct kfr_conn *conn);
struct kfr_conn *kfr_node_waiting(struct kfr_node *node, u64 cookie);
void kfr_node_heard(struct kfr_node *node, struct kfr_conn *conn);
bool kfr_node_tight(const struct kfr_node *node);
bool kfr_node_make_room(struct kfr_node *node, __be32 remote);
void kfr_node_forget(struct kfr_node *node, struct kfr_conn *conn);
void kfr_slot_free(struct kfr_conn *conn);
void kfr_nodes_break(struct kfv_device *dev, const struct kfr_mr *mr, bool all);
void kfr_node_break(struct kfr_node *node, const struct kfr_rx *rx,
		    const struct kfr_mr *mr, bool all);

/* owner.c: what owners have of a node */
int kfr_conn_charge(struct kfr_node *node, u64 by, unsigned int most);
void kfr_conn_uncharge(struct kfr_node *node, u64 by);
unsigned long kfr_conns_owned(struct kfr_node *node, u64 by);
void kfr_conn_count(struct kfr_conn *conn);
void kfr_conn_uncount(struct kfr_conn *conn);
int kfr_number_take(struct kfr_node *node, const struct kfr_ep *ep, u16 id);
void kfr_number_drop(struct kfr_node *node, const struct kfr_ep *ep, u16 id);

/* rma.c, mr.c */
extern struct kfi_ops_rma kfr_rma_ops;
extern struct kfi_ops_mr kfr_mr_ops;
struct kfr_mr *kfr_mr_find(struct kfr_rx *rx, const struct kfr_hdr *hdr,
			   enum kfr_status *status);
void kfr_mr_put(struct kfr_mr *mr);
bool kfr_mr_reserve(struct kfr_rx *rx, const struct kfr_hdr *hdr);
void kfr_mr_start(struct kfr_mr *mr, struct kfr_conn *conn, struct kfr_rx *rx,
		  const struct kfr_hdr *hdr, struct page *page,
		  struct kfr_addr src);
void kfr_mr_end(struct kfr_mr *mr, struct kfr_rx *rx, const struct kfr_hdr *hdr,
		struct kfr_addr src, enum kfr_status status);

/* tx.c */
void kfr_report(struct kfi_ep_base *base, const struct kfv_device *dev,
		const struct kfi_completion *comp, bool want_entry);

#endif /* _KFV_RDM_H_ */
