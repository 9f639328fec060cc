/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * RDM endpoints: inside kfi_verbs.ko. Names begin with kfr_.
 *
 * DOC: The way of a message
 *
 *   kfi_tsend		kfr_op, one of the transmit context's; kfr_send() puts
 *			it on the queue of the connection to that address,
 *			which is begun if there is none
 *   kfr_pump()		copies it into a wire buffer and posts that
 *   kfr_receive()	at the other side: finds endpoint, context and receive,
 *			copies the data or keeps it (kfr_unexp), reports
 *   @ack, FIN, ERR	come back, mostly on the next message the other way:
 *			kfr_op_done() reports
 *
 * With more than a page, kfr_receive() makes a kfr_job that reads from the
 * sender's segments, and answers when that is done. RMA is the same with a
 * region (kfr_mr) in the place of the receive.
 *
 * DOC: Who owns what
 *
 * A node (kfr_node) is one IP address of a device's port: it has a listener and
 * the connections (kfr_conn) of that address. All endpoints of that address
 * share them, whichever domain they are in, for the number of an endpoint is in
 * each message. The node lives as long as there are enabled endpoints on it.
 *
 * Endpoints, contexts, vectors and regions are public halves in the sense of
 * kfi_verbs.h: they live from open to close. Node and connection are device
 * halves: destroyed on a workqueue, and before the device's removal returns.
 *
 * DOC: Lock order
 *
 *   kfv_lock			nodes, endpoints of a domain
 *     kfr_ep.ctl		one at a time changes an endpoint
 *     kfr_conn.ctl		making and destroying its id
 *       (an rdma_cm_id's handler lock)
 *   kfr_rx.lock		posted receives, kept messages
 *   kfr_node.lock		which endpoints and connections there are
 *   kfr_conn.lock		its queues
 *   kfr_tx.lock		free operations
 *
 * The last four are spinlocks, irq safe; a connection's is taken inside a
 * context's and inside a node's, else none inside another one.
 * While a work request is posted or a completion is reported, none is held: one
 * thread at a time posts for a connection (kfr_conn.pumping), the others leave
 * their work on its queue.
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
/* Bytes that a context may have in copies, unless there is one alone. */
#define KFR_COPY_MAX	(16L << 20)
#define KFR_PID_ANY	0xfff	/* of an 8-byte address: one is chosen */
#define KFR_PID_MAX	510
#define KFR_ID_FIRST	32768	/* endpoints without a wish begin here */
#define KFR_MULTI_MIN	64	/* default of KFI_OPT_MIN_MULTI_RECV */
#define KFR_AUTH	255	/* default authorisation key */

/* Of one connection. */
#define KFR_TXBUFS	64	/* messages on their way */
#define KFR_RXBUFS	128	/* messages that find room */
#define KFR_DATA_WRS	64	/* reads and writes of jobs */
#define KFR_IDS		128	/* operations with an id */
#define KFR_MRS		64	/* registrations of local memory */
#define KFR_LANES	16	/* of those that need such, by destination */
#define KFR_LANE_IDS	(KFR_IDS / 2)
#define KFR_LANE_MRS	(KFR_MRS / 2)
#define KFR_SQ		(KFR_TXBUFS + KFR_DATA_WRS + 2 * KFR_MRS)
/* Jobs that a peer can have: for its ids, and for those that it may use again. */
#define KFR_JOBS	(KFR_IDS + KFR_DATA_WRS + KFR_TXBUFS)
#define KFR_FLOWS	16384	/* contexts of a peer that have pushed back */
#define KFR_ANSWERS	2048	/* answers that a peer does not take */
#define KFR_WANTS	64	/* parked messages asked for one by one */
#define KFR_PEER_CONNS	4	/* that one peer has begun */
#define KFR_RESOLVES	8	/* questions for an address, KFV_RESOLVE_MS each */
#define KFR_ACK_EVERY	16	/* numbers answered at the latest */

#define KFR_CLOSE_TIME	(HZ / 2)	/* for what is on its way */
#define KFR_PROBE_MAX	86400u	/* seconds */
#define KFR_FLUSH_TIME	(HZ / 2)	/* for the last answers */

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
 * No KFI_FENCE: what is read by the other side does not wait for what is sent.
 * No KFI_DELIVERY_COMPLETE: a short message is answered when it is kept.
 */
#define KFR_TX_FLAGS	(KFI_COMPLETION | KFI_INJECT | KFI_MORE | \
			 KFI_REMOTE_CQ_DATA | KFI_INJECT_COMPLETE | \
			 KFI_TRANSMIT_COMPLETE)
#define KFR_TX_OP_FLAGS	(KFR_TX_FLAGS & ~(KFI_REMOTE_CQ_DATA | KFI_MORE))
#define KFR_RX_FLAGS	(KFI_COMPLETION | KFI_MORE | KFI_MULTI_RECV)
#define KFR_RX_OP_FLAGS	(KFI_COMPLETION | KFI_MULTI_RECV)

/* prov_errno of RDM endpoints: a work completion's status, or one of these. */
enum kfr_errno {
	KFR_ERR_STATUS = 1000,	/* + enum kfr_status: the peer said so */
	KFR_ERR_CONNECT = 1100,	/* the connection did not come about */
	KFR_ERR_VERSION,	/* the peer speaks another version */
	KFR_ERR_CLOSED,		/* the peer ended the connection */
	KFR_ERR_GARBAGE,	/* it said what makes no sense */
	KFR_ERR_FLOOD,		/* it takes no answers */
	KFR_ERR_LOCAL,		/* closing could not wait for it */
	KFR_ERR_DEVICE,		/* the device failed */
	KFR_ERR_FULL,		/* the peer has too many connections */
	KFR_ERR_END
};

/* They need the limits above. */
#include "buf.h"
#include "match.h"
#include "conn.h"

/**
 * struct kfr_domain - what makes a domain one of RDM endpoints
 * @domain: the domain
 * @format: of its addresses
 * @mr_mode: KFI_MR_ENDPOINT: regions are enabled on a receive context
 * @eps: open endpoints; kfv_lock
 * @keys: regions that belong to the whole domain
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
 * @ref: of the memory
 * @link: on the list of nodes; kfv_lock
 * @dev: its device, in use
 * @port: its port
 * @ip: its address
 * @halves: who needs the device half: the node until it is stopped, connections
 * @listener: takes connections
 * @users: endpoints that are enabled; kfv_lock
 * @lock: protects the following
 * @closing: takes no connections any more
 * @conns: living connections
 * @eps: enabled endpoints
 * @cookie: of the last connection that was begun
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
	spinlock_t lock;	/* endpoints and connections */
	bool closing;
	struct list_head conns;
	struct list_head eps;
	u32 cookie;
};

/**
 * struct kfr_face - a struct kfid_ep of ours: what a ULP posts to
 * @base: the core's part
 * @ep: the endpoint that it is, or that it is a context of
 * @tx: its transmit context, or NULL
 * @rx: its receive context, or NULL
 */
struct kfr_face {
	struct kfi_ep_base base;
	struct kfr_ep *ep;
	struct kfr_tx *tx;
	struct kfr_rx *rx;
};

/**
 * struct kfr_ep - an RDM endpoint, or a scalable one
 * @face: what the ULP sees; of a scalable one without contexts
 * @rdm: of its domain
 * @link: on kfr_domain.eps; kfv_lock
 * @node: once it is enabled
 * @node_link: on kfr_node.eps; the node's lock
 * @ctl: one change at a time
 * @av: the address vector, referenced
 * @addr: its address; id 0: to be chosen
 * @auth: its authorisation key
 * @caps: what it was opened for
 * @rma_events: RMA of peers is reported
 * @scalable: it has contexts that are opened apart
 * @ntx: how many transmit contexts there can be
 * @nrx: how many receive contexts
 * @tx_attr: for contexts that say nothing else
 * @rx_attr: for contexts that say nothing else
 * @txs: open transmit contexts; @ctl
 * @rxs: open receive contexts; @ctl
 * @live: enabled receive contexts; the node's lock
 */
struct kfr_ep {
	struct kfr_face face;
	struct kfr_domain *rdm;
	struct list_head link;
	struct kfr_node *node;
	struct list_head node_link;
	struct mutex ctl;	/* one change at a time */
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
	struct kfr_rx *live[KFR_CTX_MAX];
};

/**
 * struct kfr_av - an address vector
 * @av: the public object
 * @rdm: of its domain; a reference is held on that
 * @type: table or map
 * @rx_bits: of an address, for the receive context
 * @events: inserting reports to @eq
 * @eq: bound, referenced
 * @lock: serialises changes
 * @next: of a table: the index of the next address
 * @more: indices of addresses that have another one already
 * @addrs: by index, packed
 * @index: by packed address, its first index
 */
struct kfr_av {
	struct kfid_av av;
	struct kfr_domain *rdm;
	enum kfi_av_type type;
	int rx_bits;
	bool events;
	struct kfid_eq *eq;
	struct mutex lock;	/* changes */
	u32 next;
	u32 more;
	struct xarray addrs;
	struct xarray index;
};

/**
 * struct kfr_mr - a memory region that peers know by its key
 * @mr: the public object
 * @rdm: of its domain; a reference is held on that
 * @access: KFI_REMOTE_READ and _WRITE
 * @buf: the memory
 * @rx: the context that it is bound to, referenced, or NULL
 * @enabled: it can be found
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

/* info.c */
struct kfr_domain *kfr_domain_new(struct kfv_domain *domain,
				  const struct kfi_info *info);
void kfr_domain_free(struct kfr_domain *rdm);
const char *kfr_strerror(int prov_errno);

/* av.c */
int kfr_av_open(struct kfid_domain *domain, struct kfi_av_attr *attr,
		struct kfid_av **av, void *context);
int kfr_av_find(const struct kfr_av *av, kfi_addr_t addr,
		struct kfr_addr *to, u16 *rx);
kfi_addr_t kfr_av_source(struct kfr_av *av, struct kfr_addr addr);

/* ep.c, ctx.c */
int kfr_ep_open(struct kfid_domain *domain, struct kfi_info *info,
		struct kfid_ep **ep, void *context, bool scalable);
void kfr_domain_lose(struct kfr_domain *rdm);
int kfr_scalable_ep(struct kfid_domain *domain, struct kfi_info *info,
		    struct kfid_ep **sep, void *context);
extern struct kfi_ops_ep kfr_ep_ops;
extern struct kfi_ops_cm kfr_cm_ops;
void kfr_face_init(struct kfr_face *face, struct kfr_ep *ep);
int kfr_face_flags(struct kfr_face *face, int command, u64 *arg);
int kfr_tx_context(struct kfid_ep *sep, int index, struct kfi_tx_attr *attr,
		   struct kfid_ep **tx_ep, void *context);
int kfr_rx_context(struct kfid_ep *sep, int index, struct kfi_rx_attr *attr,
		   struct kfid_ep **rx_ep, void *context);
int kfr_tx_attr_ok(const struct kfi_tx_attr *attr);
int kfr_rx_attr_ok(const struct kfi_rx_attr *attr);

/* msg.c: the calls of the API */
extern struct kfi_ops_msg kfr_msg_ops;
extern struct kfi_ops_tagged kfr_tagged_ops;

/* node.c */
__be16 kfr_cm_port(void);
int kfr_node_get(struct kfr_ep *ep);
void kfr_node_show(struct kfr_ep *ep, struct kfr_rx *rx);
void kfr_node_hide_rx(struct kfr_ep *ep, struct kfr_rx *rx);
void kfr_node_hide(struct kfr_ep *ep);
void kfr_node_leave(struct kfr_ep *ep);
void kfr_node_put(struct kfr_node *node);
void kfr_node_unuse(struct kfr_node *node);
void kfr_strip(const struct kfv_device *dev);
struct kfr_rx *kfr_node_rx(struct kfr_node *node, const struct kfr_hdr *hdr);
struct kfr_conn *kfr_node_conn(struct kfr_node *node, struct kfr_addr from,
			       struct kfr_addr to);
struct kfr_conn *kfr_node_waiting(struct kfr_node *node, u32 cookie);
void kfr_node_supersede(struct kfr_node *node, __be32 remote);
bool kfr_node_room(struct kfr_node *node, __be32 remote);
void kfr_node_forget(struct kfr_node *node, struct kfr_conn *conn);
void kfr_node_break(struct kfr_node *node, const struct kfr_rx *rx,
		    const struct kfr_tx *tx, const struct kfr_mr *mr);

/* rma.c, mr.c */
extern struct kfi_ops_rma kfr_rma_ops;
extern struct kfi_ops_mr kfr_mr_ops;
struct kfr_mr *kfr_mr_find(struct kfr_rx *rx, u64 key);
void kfr_mr_put(struct kfr_mr *mr);
void kfr_mr_report(struct kfr_mr *mr, struct kfr_rx *rx,
		   const struct kfr_hdr *hdr, struct kfr_addr src, size_t len);
int kfr_take_rma(struct kfr_conn *conn, struct kfr_rx *rx,
		 const struct kfr_hdr *hdr, struct page *page);

void kfr_report(struct kfi_ep_base *base, const struct kfv_device *dev,
		const struct kfi_completion *comp, bool want_entry);

#endif /* _KFV_RDM_H_ */
