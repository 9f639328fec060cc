/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Inside kfi_verbs.ko: a provider over in-kernel verbs and RDMA CM.
 *
 * DOC: Two halves
 *
 * A domain, an endpoint and a region each have two halves. The public half
 * (kfv_domain, kfv_ep, kfv_mr) lives from open to close. If its device is
 * removed, the public half stays and answers -ENODEV. The device half (kfv_pd,
 * kfv_conn, kfv_region) holds what the device allocated. It is reference counted
 * and is given up at close or at device removal, whichever comes first. A work item
 * destroys a kfv_conn and a kfv_region, because a device may need long (rxe waits up
 * to 50 s in __rxe_cleanup() for the last reference to an object). It runs on a queue
 * of its device, where it holds up no work for another device; connections hold up no
 * kfv_region. The removal waits for these work items. So do the close of a region, and
 * the close of an RDM endpoint with work on a connection that is being destroyed. The
 * close of a connected endpoint does not. The last reference to a
 * kfv_pd destroys it.
 *
 * A passive endpoint (kfv_pep) has no device half: it destroys its id itself.
 *
 * DOC: Lock order
 *
 *   kfv_device.lock			one device: its removal, its domains, endpoints
 *					and nodes of RDM endpoints
 *     kfv_lock				the lists of devices, fabrics and domains
 *     kfv_conn.ctl			one caller changes a connection
 *       (handler lock of an rdma_cm_id)
 *         kfv_conn.lock		state of the connection, event reports
 *         kfv_dev_lock			devices, connection requests
 *     kfv_pep_lock			the list of passive endpoints
 *       kfv_pep.ctl			one caller changes a passive endpoint
 *         (handler lock of an rdma_cm_id)
 *           kfv_dev_lock
 *     kfv_domain.lock			memory regions, private queue pair
 *   kfv_ids.one			one rdma_cm_id is destroyed at a time
 *     (handler lock of an rdma_cm_id)
 *
 * All of these are mutexes. A level may be left out: kfv_conn.lock is also taken
 * directly inside ctl, and kfv_dev_lock directly inside kfv_lock and a ctl. rdm/rdm.h
 * has the locks of RDM endpoints.
 *
 * A removal holds the lock of its device while it waits for that device, and the
 * other locks of this list only in between. So a device that is slow to go holds up
 * no other device. A caller that needs a device finds it under kfv_lock, keeps its
 * memory with kfv_device_get(), takes the device's lock, and then looks at @gone.
 *
 * RDMA CM calls an event handler under the handler lock of its id
 * (cma_cm_event_handler() in drivers/infiniband/core/cma.c asserts it), and
 * rdma_destroy_id() takes that lock. Two rules follow: an event handler takes
 * none of these locks but kfv_conn.lock and kfv_dev_lock, and rdma_destroy_id() is
 * never called with one of those two held, nor from an event handler.
 *
 * kfv_queue.lock is a spinlock, taken with interrupts off. It is a leaf: nothing
 * is taken, posted or reported inside it.
 *
 * How this fits into the whole is in DOC: Lock order of kmod/core/core.h. The core
 * holds kfi_providers_lock, a mutex, over kfv_getinfo(), so that kfv_lock comes inside
 * it; no device's lock does. The core's spinlocks come inside all mutexes of the
 * provider: events are reported under kfv_conn.lock and kfv_pep.ctl, and taken back under
 * kfv_dev_lock. The functions declared in this header are called with none of these
 * spinlocks held.
 *
 * DOC: Posting, reporting and device removal
 *
 * Posting a work request and reporting a completion take no lock, since either
 * may happen in softirq context and inside the other: on a loopback connection
 * rxe can complete a request before ib_post_send() returns. Posting runs in a read
 * section of kfv_post_srcu, reporting in one of kfv_srcu, and both look at
 * kfv_device.gone inside it. The removal sets gone and then waits for both. After that
 * no request is posted and no completion is reported, so that the loss is the last
 * entry of each CQ.
 *
 * They are two because a close waits for reports, also those of others. A post of
 * another user may copy megabytes, and its thread may get no CPU for long.
 */
#ifndef _KFV_VERBS_H_
#define _KFV_VERBS_H_

#include <linux/completion.h>
#include <linux/jiffies.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#include <kfi_atomic.h>
#include <kfi_channel.h>
#include <kfi_cm.h>
#include <kfi_core.h>
#include <kfi_enosys.h>
#include <kfi_rma.h>
#include <kfi_tagged.h>
#include <kfi_test.h>

#define KFV_PROVIDER		"verbs"
#define KFV_VERSION		KFI_VERSION(1, 0)

#define KFV_QUEUE_SIZE		256	/* default depth of a queue */
#define KFV_QUEUE_MAX		4096	/* most that a queue may be asked for */
#define KFV_SPARE_WR		2	/* not offered: kfv_post_markers(), kfv_probe() */
#define KFV_MAX_SGE		32	/* elements of one work request */
#define KFV_IOV_LIMIT		16	/* pieces of one buffer */
#define KFV_INJECT_SIZE		256	/* bytes copied per operation */
#define KFV_RD_ATOMIC		16	/* RDMA reads in flight */
#define KFV_ACK_TIMEOUT_MAX	20	/* 4.3 s for each retry, in steps of CM */
#define KFV_MR_PAGES		512	/* pages of one memory region */
#define KFV_MR_IOV_LIMIT	256	/* pieces of one memory region */
#define KFV_BACKLOG		128
#define KFV_KEEPALIVE_MAX	86400	/* seconds of silence */

/* Private data that RDMA CM carries over InfiniBand's messages, in bytes. */
#define KFV_REQ_DATA		56
#define KFV_REP_DATA		196
#define KFV_REJ_DATA		148

#define KFV_RESOLVE_MS		2000	/* for the address, and for the route */

/*
 * Deadlines for the local device. No peer takes part in what they limit: a
 * deadline that passes is a fault of the device and is logged or reported. No close
 * leaves memory to a device that is late: after the message it waits on.
 */
#define KFV_DRAIN_TIME		(10 * HZ)
#define KFV_REG_TIME		(5 * HZ)
#define KFV_DEREG_TIME		(1 * HZ)

#define KFV_CAPS_TX	(KFI_MSG | KFI_RMA | KFI_SEND | KFI_READ | KFI_WRITE)
#define KFV_CAPS_RX	(KFI_MSG | KFI_RMA | KFI_RECV | KFI_REMOTE_READ | \
			 KFI_REMOTE_WRITE)
#define KFV_CAPS_DOMAIN	(KFI_LOCAL_COMM | KFI_REMOTE_COMM)
#define KFV_CAPS	(KFV_CAPS_TX | KFV_CAPS_RX | KFV_CAPS_DOMAIN)

#define KFV_TX_FLAGS	(KFI_COMPLETION | KFI_INJECT | KFI_MORE | KFI_FENCE | \
			 KFI_REMOTE_CQ_DATA | KFI_INJECT_COMPLETE | \
			 KFI_TRANSMIT_COMPLETE | KFI_SOLICITED)
/* Defaults for calls without flags: remote CQ data needs an argument. */
#define KFV_TX_OP_FLAGS	(KFV_TX_FLAGS & ~KFI_REMOTE_CQ_DATA)
#define KFV_RX_FLAGS	(KFI_COMPLETION | KFI_MORE)

/*
 * The error of a call that is refused for its arguments. The line is printed if
 * dynamic_debug says so: "module kfi_verbs +pm".
 */
#define kfv_refuse(err, why)						\
({									\
	pr_debug_ratelimited("%s: " why "\n", __func__);		\
	(err);								\
})

#define KFV_MR_MODE	(KFI_MR_VIRT_ADDR | KFI_MR_PROV_KEY)
/* All that there are: a hint names those that its caller copes with. */
#define KFV_MR_MODES	(KFI_MR_LOCAL | KFI_MR_RAW | KFI_MR_VIRT_ADDR | \
			 KFI_MR_PROV_KEY | KFI_MR_RMA_EVENT | KFI_MR_ENDPOINT)

struct kfr_domain;

extern struct mutex kfv_lock;
extern struct mutex kfv_dev_lock;
extern struct list_head kfv_devices;
extern struct srcu_struct kfv_srcu;
extern struct srcu_struct kfv_post_srcu;
/* Items that each of our work queues runs at a time. */
#define KFV_WORK_MAX		256
extern struct workqueue_struct *kfv_wq;

struct kfv_ids;

#define KFV_TURN_BITS		6	/* lists of owners whose ids are given back */

/**
 * struct kfv_turn - an id of RDMA CM that is to be given back
 * @link: on the list of its owner; kfv_ids.lock
 * @owner: kfi_domain_base.owner; the address of a peer that has begun the connection
 * @run: destroys the id, and frees this
 */
struct kfv_turn {
	struct list_head link;
	u64 owner;
	void (*run)(struct kfv_turn *turn);
};

/**
 * struct kfv_device - an RDMA device, as long as the RDMA core's client has it
 * @ref: of the memory
 * @lock: protects @domains and @nodes, and the device halves of domains and endpoints
 *	against its removal, which holds it until all of them are detached
 * @link: on kfv_devices; changed under kfv_lock and kfv_dev_lock, so that either
 *	of them keeps the list
 * @ib: the device; constant. It may not be touched once @users is 0.
 * @users: device halves (kfv_pd, kfr_node), connection requests and our client; the
 *	last one completes @idle
 * @idle: @users is 0
 * @gone: it is being removed; set once under @lock and kfv_lock, read without a lock. A
 *	reader outside both and outside a read section of kfv_srcu may see an old
 *	value.
 * @conns: runs what destroys connections; a queue runs KFV_WORK_MAX items at most, and
 *	here all of them may wait for the device
 * @regions: runs what destroys memory regions
 * @ids: gives ids of RDMA CM back, see ids.c; constant
 * @domains: open domains; changed under @lock and kfv_lock, so that either of them
 *	keeps the list
 * @nodes: addresses at which its RDM endpoints listen, see rdm/rdm.h; @lock
 * @cqes: room in its shared CQs that connected endpoints of each user have; by
 *	kfi_domain_base.owner, under its own lock
 * @asks: connections of each owner that wait for the peer's answer: connected endpoints of
 *	users that connect or disconnect; RDM connections that are not up, or dead and not
 *	destroyed. As @cqes
 * @waiting: connection requests of each owner of a passive endpoint, until they are accepted
 *	or their ids are destroyed; as @cqes
 */
struct kfv_device {
	struct kref ref;
	struct mutex lock;	/* removal, domains, endpoints */
	struct list_head link;
	struct ib_device *ib;
	refcount_t users;
	struct completion idle;
	bool gone;
	struct workqueue_struct *conns;
	struct workqueue_struct *regions;
	struct kfv_ids *ids;
	struct list_head domains;
	struct list_head nodes;
	struct xarray cqes;
	struct xarray asks;
	struct xarray waiting;
};

/**
 * struct kfv_fabric - a fabric: it needs no device once it is open
 * @base: the core's part
 * @link: on the list of fabrics; kfv_lock
 * @name: as in kfi_fabric_attr.name; constant
 */
struct kfv_fabric {
	struct kfi_fabric_base base;
	struct list_head link;
	char name[KFI_NAME_MAX];
};

/**
 * struct kfv_pd - device half of a domain
 * @ref: the domain, and each kfv_conn and kfv_region
 * @domain_id: id of the domain, for delay hooks; set before the domain is open
 * @dev: its device, with a reference on the memory; constant
 * @port: port of the device; constant
 * @ib: the protection domain, counted in kfv_device.users; NULL before kfv_pd_open(),
 *	then constant
 * @qp: private queue pair, connected to itself: memory is registered by a work
 *	request, and registering must not wait for a connection. NULL: not made
 *	yet. kfv_domain.lock, as for all that follows
 * @cq: its completion queue, one of the device's shared ones
 */
struct kfv_pd {
	struct kref ref;
	u32 domain_id;
	struct kfv_device *dev;
	u32 port;
	struct ib_pd *ib;
	struct ib_qp *qp;
	struct ib_cq *cq;
};

/**
 * struct kfv_domain - public half of a domain
 * @base: the core's part
 * @link: on kfv_device.domains; its lock and kfv_lock
 * @dev: its device, with a reference on the memory; constant
 * @pd: its device half; NULL after the device is gone. Changed under kfv_device.lock
 *	and kfv_lock, so that either of them keeps it. So does @lock, for a caller
 *	that has seen under it that the device is not gone.
 * @max_msg_size: of the port, in bytes; constant
 * @rdm: for RDM endpoints, see rdm.h; NULL: for connected ones; constant
 * @eps: open connected endpoints; kfv_device.lock
 * @lock: protects memory regions and the private queue pair
 * @mrs: open memory regions; @lock
 * @atomics: its endpoints have atomics; constant
 */
struct kfv_domain {
	struct kfi_domain_base base;
	struct list_head link;
	struct kfv_device *dev;
	struct kfv_pd *pd;
	size_t max_msg_size;
	struct kfr_domain *rdm;
	struct list_head eps;
	struct mutex lock;	/* memory regions, private queue pair */
	struct list_head mrs;
	bool atomics;
};

/**
 * struct kfv_region - device half of a memory region
 * @ref: the region, and its work item until that has run
 * @pd: referenced; constant
 * @ib: the registration; constant until @work destroys it
 * @sgt: its pages, mapped for the device; as @ib
 * @work: deregisters and unmaps; queued once, see kfv_mr.detached
 * @done: the device cannot access the pages any more
 */
struct kfv_region {
	struct kref ref;
	struct kfv_pd *pd;
	struct ib_mr *ib;
	struct sg_table sgt;
	struct work_struct work;
	struct completion done;
};

/**
 * struct kfv_mr - public half of a memory region
 * @mr: the public object
 * @domain: parent; a reference is held; constant
 * @link: on kfv_domain.mrs; kfv_domain.lock
 * @region: device half; constant
 * @detached: the device is gone and kfv_region.work is queued; kfv_domain.lock
 * @event: that it is registered
 * @lkey: names the region in local work requests; constant, as all that follows
 * @count: number of pieces
 * @iov: the pieces, by the addresses that the ULP posts
 *
 * Posting reads the constant fields without a lock: the ULP may not close a
 * region that it posts.
 */
struct kfv_mr {
	struct kfid_mr mr;
	struct kfv_domain *domain;
	struct list_head link;
	struct kfv_region *region;
	bool detached;
	struct kfi_mr_event event;
	u32 lkey;
	size_t count;
	struct kvec iov[];
};

/**
 * struct kfv_op - one work request of an endpoint
 * @cqe: by which its completion finds it
 * @conn: its connection; constant
 * @next: the next free one; kfv_queue.lock
 * @context: the ULP's
 * @flags: kind of operation, as a completion entry shows it
 * @dir: direction of the data
 * @want_entry: a success writes a completion entry
 * @num_sge: elements in @sge
 * @mapped: bit i: element i was mapped for this operation
 * @bounce: room for the copy of an injected buffer, constant; NULL in receives
 * @sge: the buffer
 *
 * An operation has one owner at a time: the free list, the caller that posts, the
 * device, the completion handler. Only the owner accesses it, so that fields
 * without a lock need none.
 */
struct kfv_op {
	struct ib_cqe cqe;
	struct kfv_conn *conn;
	struct kfv_op *next;
	void *context;
	u64 flags;
	enum dma_data_direction dir;
	bool want_entry;
	unsigned int num_sge;
	u32 mapped;
	void *bounce;
	struct ib_sge sge[];
};

/**
 * struct kfv_queue - the operations of a send or a receive queue
 * @lock: protects @free; taken with interrupts off
 * @free: operations that are not posted
 * @ops: all of them; set under kfv_conn.ctl before posting starts
 * @size: their number, which the queue pair can hold; constant
 * @max_sge: elements of one operation; constant
 */
struct kfv_queue {
	spinlock_t lock;	/* free operations */
	struct kfv_op *free;
	struct kfv_op **ops;
	unsigned int size;
	unsigned int max_sge;
};

enum kfv_state {
	KFV_IDLE,		/* not connected yet */
	KFV_CONNECTING,		/* kfi_connect() was called, no reply yet */
	KFV_REQUESTED,		/* holds a peer's request, not answered yet */
	KFV_ACCEPTED,		/* accepted and ready to send, not confirmed yet */
	KFV_CONNECTED,
	KFV_CLOSED,		/* disconnected, or connecting has failed */
	KFV_STOPPED,		/* final: the device half is being destroyed */
};

/**
 * struct kfv_conn - device half of an endpoint
 * @ref: the endpoint, the final work item until it has run, @disconnect while it
 *	is queued
 * @pd: referenced; constant
 * @ep: public half; may be used in a read section of kfv_srcu, or under @lock,
 *	after @ep_gone was seen false there
 * @ctl: serialises the callers that change the connection
 * @lock: protects @state, @id and @ep_gone against event handlers of RDMA CM
 * @state: written under @lock; posting reads it without a lock and may see the
 *	previous one
 * @ep_gone: the public half is gone or about to go: no more reports. Set once,
 *	under @lock
 * @failed: an operation has failed and @disconnect is queued; set once
 * @id: RDMA CM's half of the connection; changed under @ctl and @lock, so that
 *	either of them keeps it
 * @qp: the queue pair; NULL before kfi_enable(). Changed under @ctl only while
 *	the endpoint is not enabled; then constant until kfv_conn_stop()
 * @cq: one of the device's shared CQs, with room reserved for both queues; as @qp
 * @nr_cqe: that room; as @qp
 * @user: the user for whom it is counted in kfv_device.cqes, or 0; as @qp
 * @asks: it is one of @user's in kfv_device.asks; @lock
 * @ending: the peer is to get a disconnect request, which an accept that is not confirmed
 *	puts off; @lock
 * @asker: owner of the passive endpoint whose request it has taken over, which is counted in
 *	kfv_device.waiting until this has a queue pair; or 0; @ctl
 * @tx: sends and RMA
 * @rx: receives
 * @keepalive_secs: seconds after which a silent peer is probed; 0: never. Written
 *	under @lock; @keepalive may read an old value and sees the new one the
 *	next time
 * @alive_at: when (jiffies) the peer last answered; no lock. An old value makes one
 *	probe too many.
 * @probing: a probe is posted
 * @probe: its completion
 * @keepalive: posts a probe when one is due
 * @posted: operations whose completion is not yet reported, +1 until stopped
 * @drained: @posted is 0
 * @param: for rdma_connect() and rdma_accept(); @ctl until RDMA CM may report
 *	events of @id, @lock from then on. The depths are final before @state
 *	becomes KFV_CONNECTED or KFV_ACCEPTED
 * @data: private data that @param points to; as @param
 * @disconnect: ends a connection that failed
 * @ctl_time: how long @disconnect has left @ctl to its holder, in jiffies
 * @destroy: gives everything back; queued once, by kfv_conn_stop()
 * @turn: the same for the id, and what goes with it
 */
struct kfv_conn {
	struct kref ref;
	struct kfv_pd *pd;
	struct kfv_ep *ep;
	struct mutex ctl;	/* one change at a time */
	struct mutex lock;	/* against CM event handlers */
	enum kfv_state state;
	bool ep_gone;
	atomic_t failed;
	struct rdma_cm_id *id;
	struct ib_qp *qp;
	struct ib_cq *cq;
	unsigned int nr_cqe;
	u64 user;
	bool asks;
	bool ending;
	u64 asker;
	struct kfv_queue tx;
	struct kfv_queue rx;
	unsigned int keepalive_secs;
	unsigned long alive_at;
	atomic_t probing;
	struct ib_cqe probe;
	struct delayed_work keepalive;
	atomic_t posted;
	struct completion drained;
	struct rdma_conn_param param;
	u8 data[KFV_REP_DATA];
	struct delayed_work disconnect;
	unsigned long ctl_time;
	struct work_struct destroy;
	struct kfv_turn turn;
};

/**
 * struct kfv_ep - public half of an endpoint
 * @base: the core's part
 * @domain: parent; constant
 * @link: on kfv_domain.eps; kfv_device.lock
 * @conn: device half; constant
 * @tx_flags: default flags of sends and RMA; written under kfv_conn.ctl. Posting
 *	reads them without a lock: a call that runs at once with a change may
 *	still use the old ones
 * @rx_flags: default flags of receives; as @tx_flags
 * @src: local address asked for; family 0: none; kfv_conn.ctl
 * @dst: address to connect to; family 0: none; kfv_conn.ctl
 */
struct kfv_ep {
	struct kfi_ep_base base;
	struct kfv_domain *domain;
	struct list_head link;
	struct kfv_conn *conn;
	u64 tx_flags;
	u64 rx_flags;
	struct sockaddr_in src;
	struct sockaddr_in dst;
};

/**
 * struct kfv_pep - a passive endpoint
 * @base: the core's part
 * @link: on the list of passive endpoints; kfv_pep_lock
 * @ctl: serialises listening, its options, and device removal
 * @id: RDMA CM's listener, NULL when not listening; @ctl
 * @addr: address to listen on; @ctl
 * @backlog: requests that may wait for an answer; @ctl, and constant while it
 *	listens, when the event handler reads it
 * @waiting: the requests that count; kfv_dev_lock
 * @nr_waiting: their number; kfv_dev_lock
 * @lost: the device that it listened on is gone; @ctl
 */
struct kfv_pep {
	struct kfi_pep_base base;
	struct list_head link;
	struct mutex ctl;	/* one change at a time */
	struct rdma_cm_id *id;
	struct sockaddr_in addr;
	int backlog;
	struct list_head waiting;
	int nr_waiting;
	bool lost;
};

/**
 * struct kfv_req - a connection request, until it is answered
 * @fid: what kfi_info.handle points to; closing it rejects the request
 * @node: in the table of requests; kfv_dev_lock
 * @link: on kfv_pep.waiting; kfv_dev_lock
 * @pep: the passive endpoint while the request counts there, else NULL; kfv_dev_lock
 * @fabric: of the passive endpoint; constant
 * @owner: of the passive endpoint; counted in kfv_device.waiting with @dev; constant
 * @dev: device of @id, counted in kfv_device.users while @id is there; constant
 * @id: RDMA CM's half; NULL after the device is gone. kfv_dev_lock; of the caller
 *	that has taken the request out of the table
 * @responder_resources: RDMA reads that the peer wants to have in flight; constant
 * @initiator_depth: RDMA reads that the peer answers at a time; constant
 * @reject: data for the peer; of the caller that rejects
 * @reject_len: its length
 * @turn: rejects, and destroys it and its id
 */
struct kfv_req {
	struct kfid fid;
	struct hlist_node node;
	struct list_head link;
	struct kfv_pep *pep;
	struct kfid_fabric *fabric;
	u64 owner;
	struct kfv_device *dev;
	struct rdma_cm_id *id;
	u8 responder_resources;
	u8 initiator_depth;
	u8 reject[KFV_REJ_DATA];
	u8 reject_len;
	struct kfv_turn turn;
};

static inline struct kfv_domain *kfv_domain_of(struct kfid_domain *domain)
{
	return container_of(domain, struct kfv_domain, base.domain);
}

static inline struct kfv_ep *kfv_ep_of(struct kfid_ep *ep)
{
	return container_of(ep, struct kfv_ep, base.ep);
}

/*
 * Once this is true it stays true. The answer "false" holds only inside a read section
 * of kfv_srcu or kfv_post_srcu, and under kfv_lock or the device's lock; elsewhere it
 * saves work that would fail. Under kfv_domain.lock it holds for the device halves of
 * the domain.
 */
static inline bool kfv_gone(const struct kfv_device *dev)
{
	return READ_ONCE(dev->gone);
}

/*
 * The answer may be out of date at once, unless the caller holds conn->lock. If it is
 * true, the queue pair was ready to send.
 */
static inline bool kfv_conn_up(const struct kfv_conn *conn)
{
	/* Pairs with kfv_conn_set_up(). */
	enum kfv_state state = smp_load_acquire(&conn->state);

	return state == KFV_ACCEPTED || state == KFV_CONNECTED;
}

/* The peer has answered, if only with an ACK. Any context. */
static inline void kfv_conn_alive(struct kfv_conn *conn)
{
	WRITE_ONCE(conn->alive_at, jiffies);
}

/* init.c */
struct kfv_device *kfv_device_find(const struct ib_device *ib);
struct kfv_device *kfv_device_by_name(const char *name, u32 *port);
void kfv_device_get(struct kfv_device *dev);
void kfv_device_put(struct kfv_device *dev);
void kfv_device_use(struct kfv_device *dev);
void kfv_device_unuse(struct kfv_device *dev);
void kfv_domain_name(struct ib_device *ib, u32 port, char *name);
void kfv_queue_work(struct workqueue_struct *wq, struct work_struct *work);

/* info.c */
/* The offer of one port: an info; NULL: the port does not fit; or -ENOMEM. */
typedef struct kfi_info *(*kfv_offer_fn)(const struct kfv_device *dev, u32 port,
					 void *arg);

int kfv_getinfo(u32 version, const char *node, const char *service,
		u64 flags, struct kfi_info *hints, struct kfi_info **info);
struct kfi_info *kfv_info_new(struct ib_device *ib, u32 port);
bool kfv_fit_tclass(u32 tclass);

/* A hint that is not 0 comes back as it is. */
static inline void kfv_take_size(size_t *have, size_t want)
{
	if (want)
		*have = want;
}

void kfv_fit_caps(struct kfi_info *info, const struct kfi_info *hints);
bool kfv_fit_domain_attr(struct kfi_domain_attr *domain,
			 const struct kfi_domain_attr *hint);
int kfv_list_offers(kfv_offer_fn offer, void *arg, struct kfi_info ***tail);
bool kfv_fit_fabric(struct kfi_fabric_attr *fabric,
		    const struct kfi_fabric_attr *hint);

/* addr.c */
int kfv_info_addr(void **addr, size_t *addrlen, const struct sockaddr_in *sin);
int kfv_port_check(const struct sockaddr_in *sin);
int kfv_bind_addr(struct rdma_cm_id *id, const struct sockaddr_in *sin);
int kfv_copy_addr(void *addr, size_t *addrlen, const struct sockaddr_in *sin);
int kfv_addr_parse(struct sockaddr_in *sin, const char *node,
		   const char *service);
int kfv_addr_hint(struct sockaddr_in *sin, const void *addr, size_t len);
int kfv_route_source(__be32 to, __be32 *from);

/* fabric.c */
int kfv_fabric_open(struct kfi_fabric_attr *attr, struct kfid_fabric **fabric,
		    void *context);
bool kfv_net_served(void);
struct kfid_fabric *kfv_fabric_find(const char *name);
bool kfv_fabric_is(const struct kfid_fabric *fabric, const char *name);
int kfv_fabric_name(struct ib_device *ib, u32 port, char *name);

/* alias.c */
bool kfv_named(const char *name, const char *own);
bool kfv_is_alias(const char *name);
int kfv_name_as_hinted(struct kfi_info *info, const struct kfi_info *hints);
int kfv_alias_init(void);
void kfv_alias_register(void);
void kfv_alias_exit(void);

/* ext.c */
extern const struct kfi_named_ops kfv_fabric_tables[];
extern const struct kfi_named_ops kfv_domain_tables[];
int kfv_ext_init(void);
void kfv_ext_exit(void);

/* pd.c */
struct kfv_pd *kfv_pd_new(struct kfv_device *dev, u32 port);
int kfv_pd_open(struct kfv_pd *pd);
void kfv_pd_get(struct kfv_pd *pd);
void kfv_pd_put(struct kfv_pd *pd);
int kfv_pd_run(struct kfv_domain *domain, struct ib_send_wr *wr);

/* domain.c */
int kfv_domain_open(struct kfid_fabric *fabric, struct kfi_info *info,
		    struct kfid_domain **domain, void *context);
struct kfid_domain *kfv_domain_find(const struct kfv_device *dev, u32 port,
				    const struct kfid_domain *wanted,
				    u32 format);
void kfv_domain_lose(struct kfv_domain *domain);
void kfv_domain_detach(struct kfv_domain *domain);

/* mr.c */
extern struct kfi_ops_mr kfv_mr_ops;
void kfv_mr_detach(struct kfv_domain *domain);
int kfv_mr_locate(const struct kfv_mr *mr, const void *addr, size_t len,
		  u64 *iova);

/* mem.c */
/**
 * struct kfv_vec - a buffer in pieces, as the ULP describes it
 * @type: what the pieces are
 * @kvec: KFI_KVEC: kernel virtual addresses
 * @bvec: KFI_BVEC: pages
 * @desc: a descriptor for each piece, or NULL
 * @count: number of pieces
 */
struct kfv_vec {
	enum kfi_iov_type type;
	union {
		const struct kvec *kvec;
		const struct bio_vec *bvec;
	};
	void **desc;
	size_t count;
};

/* Called for each physically contiguous run; a negative errno ends the walk. */
typedef int (*kfv_walk_fn)(void *arg, struct page *page, unsigned int offset,
			   size_t len);

ssize_t kfv_vec_len(const struct kfv_vec *vec);
void kfv_vec_copy(void *dst, const struct kfv_vec *vec);
int kfv_vec_walk(const struct kfv_vec *vec, kfv_walk_fn fn, void *arg);
int kfv_op_map(struct kfv_op *op, const struct kfv_vec *vec);
int kfv_op_copy(struct kfv_op *op, const struct kfv_vec *vec, size_t len);
int kfv_op_bounce(struct kfv_op *op, size_t len);
void kfv_op_unmap(struct kfv_op *op);

/* ep.c */
int kfv_ep_open(struct kfid_domain *domain, struct kfi_info *info,
		struct kfid_ep **ep, void *context);
int kfv_ep_enable(struct kfv_ep *ep);

/* conn.c */
void kfv_conn_init(struct kfv_conn *conn, struct kfv_pd *pd, size_t tx_size,
		   size_t rx_size);
void kfv_conn_put(struct kfv_conn *conn);
void kfv_conn_drop_request(struct kfv_conn *conn);
int kfv_conn_enable(struct kfv_conn *conn);
bool kfv_path_ok(const struct rdma_cm_id *id);
int kfv_conn_rts(struct kfv_conn *conn);
void kfv_conn_error(struct kfv_conn *conn);
void kfv_conn_disable(struct kfv_conn *conn);
void kfv_conn_stop(struct kfv_conn *conn);
void kfv_conn_queue_disconnect(struct kfv_conn *conn);

/* ids.c */
void kfv_id_destroy(struct kfv_device *dev, struct rdma_cm_id *id);
void kfv_turn_wait(struct kfv_device *dev, struct kfv_turn *turn);
int kfv_ids_new(struct kfv_device *dev);
void kfv_ids_free(struct kfv_device *dev);

/* owner.c: what owners have of a device */
int kfv_count(struct xarray *xa, unsigned long owner, unsigned long more,
	      unsigned long most, gfp_t gfp);
void kfv_uncount(struct xarray *xa, unsigned long owner, unsigned long less);
int kfv_ask(struct kfv_device *dev, u64 owner, unsigned int most);
void kfv_answered(struct kfv_device *dev, u64 owner);

/* cm.c */
extern struct kfi_ops_cm kfv_ep_cm_ops;
int kfv_cm_event(struct rdma_cm_id *id, struct rdma_cm_event *event);
void kfv_cm_disconnect_work(struct work_struct *work);
void kfv_conn_report_loss(struct kfv_conn *conn);

/* pep.c */
int kfv_pep_open(struct kfid_fabric *fabric, struct kfi_info *info,
		 struct kfid_pep **pep, void *context);
void kfv_pep_lose(const struct kfv_device *dev);
void kfv_pep_detach(const struct kfv_device *dev);
struct rdma_cm_id *kfv_req_take(struct kfid *handle,
				const struct kfid_fabric *fabric,
				struct kfv_device *dev,
				struct kfv_conn *conn);
void kfv_req_detach(struct kfv_device *dev);

/* atomic.c */
extern struct kfi_ops_atomic kfv_atomic_ops;
u64 kfv_atomic_caps(const struct ib_device *ib);
int kfv_query_atomic(struct kfid_domain *domain, enum kfi_datatype datatype,
		     enum kfi_op op, struct kfi_atomic_attr *attr, u64 flags);

/* cq.c */
int kfv_queue_init(struct kfv_conn *conn, struct kfv_queue *queue, bool tx);
void kfv_queue_fini(struct kfv_queue *queue);
struct kfv_op *kfv_op_get(struct kfv_queue *queue);
void kfv_op_free(struct kfv_queue *queue, struct kfv_op *op);
void kfv_posted_put(struct kfv_conn *conn);
void kfv_tx_done(struct ib_cq *cq, struct ib_wc *wc);
void kfv_rx_done(struct ib_cq *cq, struct ib_wc *wc);

/* keepalive.c */
void kfv_keepalive_init(struct kfv_conn *conn);
void kfv_keepalive_start(struct kfv_conn *conn);
void kfv_keepalive_stop(struct kfv_conn *conn);

/* msg.c */
extern struct kfi_ops_msg kfv_msg_ops;
extern struct kfi_ops_tagged kfv_tagged_ops;

/* post.c */
/**
 * struct kfv_tx - a send, an RDMA read or write, or an atomic to be posted
 * @opcode: of the work request
 * @kind: KFI_MSG | KFI_SEND and so on, for the completion
 * @flags: the operation's flags
 * @silent: a success never writes an entry
 * @vec: the local buffer
 * @context: the ULP's
 * @data: for the peer's completion, with KFI_REMOTE_CQ_DATA
 * @addr: remote address
 * @key: remote key
 * @compare_add: of an atomic: the number to add, or to compare with
 * @swap: of an atomic: the new value if the old one compares equal
 * @drop_result: of an atomic: discard the previous value; @vec is not used
 */
struct kfv_tx {
	enum ib_wr_opcode opcode;
	u64 kind;
	u64 flags;
	bool silent;
	struct kfv_vec vec;
	void *context;
	u64 data;
	u64 addr;
	u64 key;
	u64 compare_add;
	u64 swap;
	bool drop_result;
};

ssize_t kfv_post_tx(struct kfv_ep *ep, const struct kfv_tx *tx);
ssize_t kfv_post_rx(struct kfid_ep *fid, const struct kfv_vec *vec,
		    void *context, u64 flags);

/* rma.c */
extern struct kfi_ops_rma kfv_rma_ops;

/* rdm/info.c: everything else of RDM endpoints is declared in rdm.h */
int kfr_getinfo(u32 version, const char *node, const char *service,
		u64 flags, const struct kfi_info *hints,
		struct kfi_info **list);
bool kfr_comes_first(const struct kfi_info *hints, const char *node);

#endif /* _KFV_VERBS_H_ */
