/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * kfabric: the base of the in-kernel fabric API, source-compatible with
 * kfabric 1.7: versions, flags, attributes, struct kfid, and discovery.
 *
 * Nearly every call is an inline that calls through an operations table of the
 * provider. A call returns 0, a positive count, or a negative errno
 * (kfi_errno.h). A provider may return an error that the call's documentation
 * does not list.
 *
 * Opening, closing, binding, enabling and registering memory may sleep.
 * Posting, polling and non-blocking reads do not sleep.
 */
#ifndef _KFABRIC_H_
#define _KFABRIC_H_

#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/kernel.h>
#include <linux/stddef.h>
#include <linux/types.h>

#ifdef KFABRIC_DIRECT
#include <direct/kfi_direct.h>
#endif

#ifndef UINT64_MAX
#define UINT64_MAX (~0UL)
#endif

#define KFI_DEFINE_HANDLE(name) struct name##_s; typedef struct name##_s *name

#define KFI_MAJOR_VERSION 1
#define KFI_MINOR_VERSION 7

enum {
	KFI_PATH_MAX	= 256,
	KFI_NAME_MAX	= 64,
	KFI_VERSION_MAX	= 64
};

/* A version is one 32-bit number, major in the upper half. */
#define KFI_VERSION(major, minor) (((major) << 16) | (minor))
#define KFI_MAJOR(version) ((version) >> 16)
#define KFI_MINOR(version) ((version) & 0xFFFF)
#define KFI_VERSION_GE(v1, v2) ((v1) >= (v2))
#define KFI_VERSION_LT(v1, v2) ((v1) < (v2))

struct kfid;
struct kfid_fabric;
struct kfid_domain;
struct kfid_av;
struct kfid_wait;
struct kfid_poll;
struct kfid_eq;
struct kfid_cq;
struct kfid_cntr;
struct kfid_ep;
struct kfid_pep;
struct kfid_stx;
struct kfid_mr;

typedef struct kfid *kfid_t;

/*
 * Flags and capabilities, all uint64_t. The low bits have one meaning
 * everywhere. The bits from 59 downwards have a meaning for each group of
 * calls. Bits 60 to 63 belong to providers.
 */

/* Capabilities. In a completion they name the kind of operation. */
#define KFI_MSG			BIT_ULL(1)	/* untagged messages */
#define KFI_RMA			BIT_ULL(2)	/* remote read and write */
#define KFI_TAGGED		BIT_ULL(3)	/* tagged messages */
#define KFI_ATOMIC		BIT_ULL(4)	/* atomics */
#define KFI_ATOMICS		KFI_ATOMIC
#define KFI_MULTICAST		BIT_ULL(5)	/* multicast; capability only */
#define KFI_TAGGED_RMA		BIT_ULL(6)	/* RMA into a tagged receive */

/* Directions: capabilities, access rights, binding and event flags. */
#define KFI_READ		BIT_ULL(8)	/* initiate reads */
#define KFI_WRITE		BIT_ULL(9)	/* initiate writes */
#define KFI_RECV		BIT_ULL(10)	/* receive */
#define KFI_SEND		BIT_ULL(11)	/* send */
#define KFI_TRANSMIT		KFI_SEND	/* everything that transmits */
#define KFI_REMOTE_READ		BIT_ULL(12)	/* be the target of reads */
#define KFI_REMOTE_WRITE	BIT_ULL(13)	/* be the target of writes */

/* Operation flags; some are capabilities or completion flags as well. */
#define KFI_MULTI_RECV		BIT_ULL(16)	/* buffer takes many messages */
#define KFI_REMOTE_CQ_DATA	BIT_ULL(17)	/* the data field is valid */
#define KFI_MORE		BIT_ULL(18)	/* more posts follow at once */
#define KFI_PEEK		BIT_ULL(19)	/* read without consuming */
#define KFI_TRIGGER		BIT_ULL(20)	/* triggered operation */
#define KFI_FENCE		BIT_ULL(21)	/* after earlier operations */
#define KFI_COMPLETION		BIT_ULL(24)	/* write a completion */
#define KFI_EVENT		KFI_COMPLETION	/* AV: asynchronous inserts */
#define KFI_INJECT		BIT_ULL(25)	/* buffer is free on return */

/* Completion levels, and flags of attributes. */
#define KFI_INJECT_COMPLETE	BIT_ULL(26)	/* buffer is reusable */
#define KFI_TRANSMIT_COMPLETE	BIT_ULL(27)	/* sender no longer needed */
#define KFI_DELIVERY_COMPLETE	BIT_ULL(28)	/* data is at the target */
#define KFI_AFFINITY		BIT_ULL(29)	/* signaling_vector is valid */
#define KFI_COMMIT_COMPLETE	BIT_ULL(30)	/* data is persistent there */
#define KFI_TAGGED_MULTI_RECV	BIT_ULL(31)	/* MULTI_RECV on tagged too */

/* Capabilities that modify the ones above. */
#define KFI_RMA_PMEM		BIT_ULL(49)	/* RMA to persistent memory */
#define KFI_SOURCE_ERR		BIT_ULL(50)	/* error data names the source */
#define KFI_LOCAL_COMM		BIT_ULL(51)	/* peers on this node */
#define KFI_REMOTE_COMM		BIT_ULL(52)	/* peers on other nodes */
#define KFI_SHARED_AV		BIT_ULL(53)	/* AVs can be shared */
#define KFI_RMA_EVENT		BIT_ULL(56)	/* events for inbound RMA */
#define KFI_SOURCE		BIT_ULL(57)	/* completions have the source */
#define KFI_NAMED_RX_CTX	BIT_ULL(58)	/* sender picks the rx context */
#define KFI_DIRECTED_RECV	BIT_ULL(59)	/* receives match the source */

/* Modes: requirements of a provider on its caller. */
#define KFI_CONTEXT2		BIT_ULL(52)	/* contexts are kfi_context2 */
#define KFI_RESTRICTED_COMP	BIT_ULL(53)	/* CQs for like endpoints only */
#define KFI_NOTIFY_FLAGS_ONLY	BIT_ULL(54)	/* notifications: flags only */
#define KFI_LOCAL_MR		BIT_ULL(55)	/* local buffers need a desc */
#define KFI_RX_CQ_DATA		BIT_ULL(56)	/* CQ data consumes a receive */
#define KFI_ASYNC_IOV		BIT_ULL(57)	/* keep iovs until completion */
#define KFI_MSG_PREFIX		BIT_ULL(58)	/* room before each message */
#define KFI_CONTEXT		BIT_ULL(59)	/* contexts are kfi_context */

/* kfi_getinfo(). With KFI_SOURCE, node and service name the local side. */
#define KFI_PROV_ATTR_ONLY	BIT_ULL(54)	/* list providers only */
#define KFI_NUMERICHOST		BIT_ULL(55)	/* node is numeric */

/* kfi_trecvmsg() on unexpected messages. */
#define KFI_DISCARD		BIT_ULL(58)	/* drop the message */
#define KFI_CLAIM		BIT_ULL(59)	/* reserve the message */

/* Opening, binding and inserting. */
#define KFI_SYNC_ERR		BIT_ULL(58)	/* AV: context gets the errors */
#define KFI_SYMMETRIC		BIT_ULL(59)	/* AV: symmetric addressing */
#define KFI_REG_MR		BIT_ULL(59)	/* domain: async registration */
#define KFI_SELECTIVE_COMPLETION BIT_ULL(59)	/* EP: entries on request */

/* Marks provider-specific protocols, address formats and other values. */
#define KFI_PROV_SPECIFIC	(1 << 31)

/* mr_mode of a domain, int. */
#define KFI_MR_LOCAL		0x2	/* local buffers need registration */
#define KFI_MR_RAW		0x4	/* keys are longer than 64 bits */
#define KFI_MR_VIRT_ADDR	0x8	/* remote address is the iova */
#define KFI_MR_PROV_KEY		0x10	/* the provider chooses the key */
#define KFI_MR_RMA_EVENT	0x20	/* mark regions with RMA events */
#define KFI_MR_ENDPOINT		0x40	/* bind to an endpoint and enable */

/* msg_order and comp_order: RAW keeps a read after a write, and so on. */
#define KFI_ORDER_NONE		0x0
#define KFI_ORDER_RAR		0x1
#define KFI_ORDER_RAW		0x2
#define KFI_ORDER_RAS		0x4
#define KFI_ORDER_WAR		0x8
#define KFI_ORDER_WAW		0x10
#define KFI_ORDER_WAS		0x20
#define KFI_ORDER_SAR		0x40
#define KFI_ORDER_SAW		0x80
#define KFI_ORDER_SAS		0x100
#define KFI_ORDER_STRICT	0x1ff	/* all nine */
#define KFI_ORDER_DATA		0x10000	/* data is placed in that order too */

/* addr_format: how the bytes of an address are laid out. */
enum {
	KFI_FORMAT_UNSPEC,
	KFI_SOCKADDR,		/* any sockaddr */
	KFI_SOCKADDR_IN,	/* sockaddr_in */
	KFI_SOCKADDR_IN6,	/* sockaddr_in6 */
	KFI_SOCKADDR_IB,	/* sockaddr_ib */
	KFI_ADDR_GNI,		/* Cray GNI */
	KFI_ADDR_CXI		/* struct kcxi_addr of kfi_cxi_ext.h */
};

#define KFI_ADDR_UNSPEC		UINT64_MAX	/* any peer */
#define KFI_ADDR_NOTAVAIL	UINT64_MAX	/* no address is known */
#define KFI_KEY_NOTAVAIL	UINT64_MAX	/* no key is known */
#define KFI_SHARED_CONTEXT	UINT64_MAX	/* a context count: shared */

typedef uint64_t kfi_addr_t;

/* Kind of an address vector. */
enum kfi_av_type {
	KFI_AV_UNSPEC,		/* the provider's choice */
	KFI_AV_MAP,		/* a kfi_addr_t is opaque */
	KFI_AV_TABLE		/* a kfi_addr_t is the index of insertion */
};

/* The side that makes progress on operations. */
enum kfi_progress {
	KFI_PROGRESS_UNSPEC,
	KFI_PROGRESS_AUTO,	/* the provider */
	KFI_PROGRESS_MANUAL	/* the caller, by reading and polling */
};

/* Data calls that may run concurrently. Control calls always may. */
enum kfi_threading {
	KFI_THREAD_UNSPEC,
	KFI_THREAD_SAFE,	/* any */
	KFI_THREAD_FID,		/* calls on different objects */
	KFI_THREAD_DOMAIN,	/* calls on different domains */
	KFI_THREAD_COMPLETION,	/* calls that end in different CQs */
	KFI_THREAD_ENDPOINT	/* calls on different endpoints */
};

/* The side that prevents queue overflows. */
enum kfi_resource_mgmt {
	KFI_RM_UNSPEC,
	KFI_RM_DISABLED,	/* the caller */
	KFI_RM_ENABLED		/* the provider: posts return -KFI_EAGAIN */
};

enum kfi_ep_type {
	KFI_EP_UNSPEC,
	KFI_EP_MSG,		/* connected, reliable */
	KFI_EP_DGRAM,		/* unconnected, unreliable */
	KFI_EP_RDM,		/* unconnected, reliable */
	KFI_EP_SOCK_STREAM,	/* a byte stream, as from a socket */
	KFI_EP_SOCK_DGRAM	/* datagrams, as from a socket */
};

/* protocol of an endpoint: its wire protocol. */
enum {
	KFI_PROTO_UNSPEC,
	KFI_PROTO_RDMA_CM_IB_RC,	/* RC queue pairs set up by RDMA CM */
	KFI_PROTO_IWARP,
	KFI_PROTO_IB_UD,
	KFI_PROTO_UDP,
	KFI_PROTO_SOCK_TCP,
	KFI_PROTO_IWARP_RDM,
	KFI_PROTO_IB_RDM,
	KFI_PROTO_GNI,
	KFI_PROTO_CXI
};

/* The pointer in use in the union of a message or region. 0 is invalid. */
enum kfi_iov_type {
	KFI_KVEC = 1,		/* struct kvec, kernel virtual addresses */
	KFI_BVEC,		/* struct bio_vec, pages */
	KFI_SGL			/* struct scatterlist, DMA mapped */
};

/* Traffic classes: 0x100 | DSCP, or one of the labels. */
enum {
	KFI_TC_UNSPEC		= 0,
	KFI_TC_DSCP		= 0x100,
	KFI_TC_LABEL		= 0x200,
	KFI_TC_BEST_EFFORT	= KFI_TC_LABEL,
	KFI_TC_LOW_LATENCY,
	KFI_TC_DEDICATED_ACCESS,
	KFI_TC_BULK_DATA,
	KFI_TC_SCAVENGER,
	KFI_TC_NETWORK_CTRL
};

/**
 * kfi_tc_dscp_set() - traffic class of a DSCP
 * @dscp: DiffServ code point, 0 to 63
 *
 * Context: Any.
 * Return: The value for the tclass attributes.
 */
static inline uint32_t kfi_tc_dscp_set(uint8_t dscp)
{
	return (uint32_t)dscp | KFI_TC_DSCP;
}

/**
 * kfi_tc_dscp_get() - DSCP of a traffic class
 * @tclass: a tclass attribute
 *
 * Context: Any.
 * Return: The code point, or 0 if @tclass is a label or unspecified.
 */
static inline uint8_t kfi_tc_dscp_get(uint32_t tclass)
{
	return (tclass & KFI_TC_DSCP) ? (uint8_t)tclass : 0;
}

/*
 * Attributes. In hints, a zero or NULL field means "any". In results, a limit
 * is at least as large as in the hints.
 */

/* Transmit side of an endpoint, or one transmit context. */
struct kfi_tx_attr {
	uint64_t caps;			/* a subset of kfi_info.caps */
	uint64_t mode;
	uint64_t op_flags;		/* for calls without a flags argument */
	uint64_t msg_order;		/* KFI_ORDER_*, at the target */
	uint64_t comp_order;		/* KFI_ORDER_*, of completions */
	size_t inject_size;		/* bytes */
	size_t size;			/* operations in flight */
	size_t iov_limit;		/* segments of a local buffer */
	size_t rma_iov_limit;		/* segments of a remote buffer */
	uint32_t tclass;		/* KFI_TC_* */
};

/* Receive side of an endpoint, or one receive context. */
struct kfi_rx_attr {
	uint64_t caps;			/* a subset of kfi_info.caps */
	uint64_t mode;
	uint64_t op_flags;		/* for calls without a flags argument */
	uint64_t msg_order;		/* KFI_ORDER_*, of received messages */
	uint64_t comp_order;		/* KFI_ORDER_*, of completions */
	size_t total_buffered_recv;	/* bytes of unexpected messages */
	size_t size;			/* receives posted */
	size_t iov_limit;		/* segments of a buffer */
};

struct kfi_ep_attr {
	enum kfi_ep_type type;
	uint32_t protocol;		/* KFI_PROTO_* */
	uint32_t protocol_version;
	size_t max_msg_size;		/* bytes */
	size_t msg_prefix_size;		/* bytes, with KFI_MSG_PREFIX */
	size_t max_order_raw_size;	/* bytes kept in order; 0 none, -1 all */
	size_t max_order_war_size;
	size_t max_order_waw_size;
	uint64_t mem_tag_format;	/* runs of bits are fields of the tag */
	size_t tx_ctx_cnt;		/* 0 is 1; or KFI_SHARED_CONTEXT */
	size_t rx_ctx_cnt;		/* 0 is 1; or KFI_SHARED_CONTEXT */
	size_t auth_key_size;		/* bytes */
	uint8_t *auth_key;
};

struct kfi_domain_attr {
	struct kfid_domain *domain;	/* in: use this; out: open one, NULL */
	char *name;			/* device, port */
	enum kfi_threading threading;
	enum kfi_progress control_progress;
	enum kfi_progress data_progress;
	enum kfi_resource_mgmt resource_mgmt;
	enum kfi_av_type av_type;
	int mr_mode;			/* KFI_MR_* */
	size_t mr_key_size;		/* bytes */
	size_t cq_data_size;		/* bytes of remote CQ data; 0: none */
	size_t cq_cnt;			/* this and the next three: */
	size_t ep_cnt;			/* optimal numbers, not limits */
	size_t tx_ctx_cnt;
	size_t rx_ctx_cnt;
	size_t max_ep_tx_ctx;		/* limits of one endpoint */
	size_t max_ep_rx_ctx;
	size_t max_ep_stx_ctx;
	size_t max_ep_srx_ctx;
	size_t cntr_cnt;
	size_t mr_iov_limit;		/* segments of a region */
	uint64_t caps;			/* LOCAL_COMM, REMOTE_COMM, SHARED_AV */
	uint64_t mode;
	uint8_t *auth_key;
	size_t auth_key_size;		/* bytes */
	size_t max_err_data;		/* bytes of err_data */
	size_t mr_cnt;
	uint32_t tclass;		/* KFI_TC_*, default of endpoints */
};

struct kfi_fabric_attr {
	struct kfid_fabric *fabric;	/* in: use this; out: open one, NULL */
	char *name;
	char *prov_name;
	uint32_t prov_version;
	uint32_t api_version;		/* version argument of kfi_getinfo() */
};

/*
 * One way to communicate. In a result, each address, string and attribute
 * struct is a separate allocation, which kfi_freeinfo() frees. In hints that
 * the caller made, any of them may be NULL.
 */
struct kfi_info {
	struct kfi_info *next;
	uint64_t caps;
	uint64_t mode;
	uint32_t addr_format;		/* of both addresses */
	size_t src_addrlen;		/* bytes */
	size_t dest_addrlen;		/* bytes */
	void *src_addr;
	void *dest_addr;
	kfid_t handle;			/* the request of a KFI_CONNREQ */
	struct kfi_tx_attr *tx_attr;
	struct kfi_rx_attr *rx_attr;
	struct kfi_ep_attr *ep_attr;
	struct kfi_domain_attr *domain_attr;
	struct kfi_fabric_attr *fabric_attr;
};

/* fclass: the kind of object. Bind calls depend on it. */
enum {
	KFI_CLASS_UNSPEC,
	KFI_CLASS_FABRIC,
	KFI_CLASS_DOMAIN,
	KFI_CLASS_EP,
	KFI_CLASS_SEP,		/* scalable endpoint, a kfid_ep */
	KFI_CLASS_RX_CTX,	/* its receive context, a kfid_ep */
	KFI_CLASS_SRX_CTX,	/* shared receive context, a kfid_ep */
	KFI_CLASS_TX_CTX,	/* transmit context, a kfid_ep */
	KFI_CLASS_STX_CTX,	/* shared transmit context, a kfid_stx */
	KFI_CLASS_PEP,		/* passive endpoint */
	KFI_CLASS_INTERFACE,
	KFI_CLASS_AV,
	KFI_CLASS_MR,
	KFI_CLASS_EQ,
	KFI_CLASS_CQ,
	KFI_CLASS_CNTR,
	KFI_CLASS_WAIT,
	KFI_CLASS_POLL,
	KFI_CLASS_CONNREQ,	/* handle of a connection request */
	KFI_CLASS_PROFILE
};

struct kfi_eq_attr;
struct kfi_wait_attr;

/*
 * Called when the queue becomes readable. The next call comes only after a read
 * has found the queue empty. Calls for one object never overlap. @context is
 * the one given at open.
 *
 * Context: Process or softirq context, no lock held. Must not sleep.
 */
typedef void (*kfi_comp_handler)(struct kfid_cq *cq, void *context);
typedef void (*kfi_event_handler)(struct kfid_eq *eq, void *context);

/*
 * An operations table begins with its size at the time when the provider was
 * compiled. KFI_CHECK_OP() shows whether a table has a slot that was added
 * later. Most calls do not check, so a provider fills its unsupported slots
 * from kfi_enosys.h. The slots are documented at the calls of the same name.
 */
struct kfi_ops {
	size_t size;
	int (*close)(struct kfid *fid);
	int (*bind)(struct kfid *fid, struct kfid *bfid, uint64_t flags);
	int (*control)(struct kfid *fid, int command, void *arg);
	int (*ops_open)(struct kfid *fid, const char *name, uint64_t flags,
			void **ops, void *context);
};

/* The first member of every object. */
struct kfid {
	size_t fclass;			/* KFI_CLASS_* */
	void *context;			/* the caller's */
	struct kfi_ops *ops;
	struct completion comp;		/* this and ref_cnt: see kfi_prov.h */
	atomic_t ref_cnt;
};

/* Exported by kfabric.ko and documented there. */
uint32_t kfi_version(void);
int kfi_getinfo(uint32_t version, const char *node, const char *service,
		uint64_t flags, struct kfi_info *hints, struct kfi_info **info);
void kfi_freeinfo(struct kfi_info *info);
struct kfi_info *kfi_allocinfo(void);
struct kfi_info *kfi_dupinfo(const struct kfi_info *info);

struct kfi_ops_fabric {
	size_t size;
	int (*domain)(struct kfid_fabric *fabric, struct kfi_info *info,
		      struct kfid_domain **dom, void *context);
	int (*passive_ep)(struct kfid_fabric *fabric, struct kfi_info *info,
			  struct kfid_pep **pep, void *context);
	int (*eq_open)(struct kfid_fabric *fabric, struct kfi_eq_attr *attr,
		       struct kfid_eq **eq, kfi_event_handler event_handler,
		       void *context);
	int (*wait_open)(struct kfid_fabric *fabric, struct kfi_wait_attr *attr,
			 struct kfid_wait **waitset);
};

struct kfid_fabric {
	struct kfid fid;
	struct kfi_ops_fabric *ops;
	uint32_t api_version;
};

int kfi_fabric(struct kfi_fabric_attr *attr, struct kfid_fabric **fabric,
	       void *context);

/* True if the table has slot @op and the slot is not NULL. */
#define KFI_CHECK_OP(ops, opstype, op) \
	((ops)->size > offsetof(opstype, op) && (ops)->op)

/**
 * kfi_close() - close any object
 * @fid: the object
 *
 * A failed close changes nothing. A successful close of a queue drops its
 * unread entries.
 *
 * Context: Process context. May sleep. Not from the object's own handler.
 * Return: 0, or -KFI_EBUSY while other objects or sleeping threads use @fid.
 */
static inline int kfi_close(struct kfid *fid)
{
	return fid->ops->close(fid);
}

/* Commands of kfi_control(), with the type that arg points to. */
enum {
	KFI_GETFIDFLAG,		/* uint64_t */
	KFI_SETFIDFLAG,		/* uint64_t */
	KFI_GETOPSFLAG,		/* uint64_t; in: KFI_TRANSMIT or KFI_RECV */
	KFI_SETOPSFLAG,		/* uint64_t, with KFI_TRANSMIT or KFI_RECV */
	KFI_ALIAS,		/* struct kfi_alias */
	KFI_GETWAIT,		/* wait_queue_head_t * or kfi_mutex_cond */
	KFI_ENABLE,		/* none */
	KFI_BACKLOG,		/* int, of a passive endpoint */
	KFI_GET_RAW_MR,		/* struct kfi_mr_raw_attr */
	KFI_MAP_RAW_MR,		/* struct kfi_mr_map_raw */
	KFI_UNMAP_KEY,		/* uint64_t */
	KFI_QUEUE_WORK,		/* struct kfi_deferred_work */
	KFI_CANCEL_WORK,	/* struct kfi_deferred_work */
	KFI_FLUSH_WORK,		/* none */
	KFI_REFRESH,		/* struct kfi_mr_modify */

	/* Not in kfabric 1.7. */
	KFI_GETWAITOBJ		/* enum kfi_wait_obj */
};

struct kfi_alias {
	struct kfid **fid;		/* where the alias is stored */
	uint64_t flags;			/* its op_flags */
};

struct kfi_mr_raw_attr {
	uint64_t flags;
	uint64_t *base_addr;
	uint8_t *raw_key;
	size_t *key_size;		/* bytes; in: room, out: needed */
};

struct kfi_mr_map_raw {
	uint64_t flags;
	uint64_t base_addr;
	uint8_t *raw_key;
	size_t key_size;		/* bytes */
	uint64_t *key;			/* where the usable key is stored */
};

/**
 * kfi_control() - run a command on an object
 * @fid: the object
 * @command: KFI_GETFIDFLAG and so on
 * @arg: pointer to the type that is listed with the command
 *
 * The caller makes no other call on the object at the same time.
 *
 * Context: Process context. May sleep.
 * Return: 0 or the command's own value, -KFI_ENOSYS if the object does not
 *	support @command, -KFI_EINVAL.
 */
static inline int kfi_control(struct kfid *fid, int command, void *arg)
{
	return fid->ops->control(fid, command, arg);
}

/**
 * kfi_alias() - open a second descriptor with its own op_flags
 * @fid: the object
 * @alias_fid: where the alias is stored
 * @flags: op_flags of the alias
 *
 * The alias must be closed before the object. The providers here have no
 * aliases.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOSYS.
 */
static inline int kfi_alias(struct kfid *fid, struct kfid **alias_fid,
			    uint64_t flags)
{
	struct kfi_alias alias = {
		.fid = alias_fid,
		.flags = flags,
	};

	return kfi_control(fid, KFI_ALIAS, &alias);
}

/**
 * kfi_open_ops() - get a provider-specific operations table
 * @fid: the object
 * @name: name of the table
 * @flags: reserved, 0
 * @ops: where the pointer is stored; valid while the object is open
 * @context: passed to the provider
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOSYS or -KFI_EINVAL if there is no such table.
 */
static inline int kfi_open_ops(struct kfid *fid, const char *name,
			       uint64_t flags, void **ops, void *context)
{
	return fid->ops->ops_open(fid, name, flags, ops, context);
}

/* The values of kfi_tostr(), with the type that its data points to. */
enum kfi_type {
	KFI_TYPE_INFO,			/* struct kfi_info */
	KFI_TYPE_EP_TYPE,		/* enum kfi_ep_type */
	KFI_TYPE_CAPS,			/* uint64_t */
	KFI_TYPE_OP_FLAGS,		/* uint64_t */
	KFI_TYPE_ADDR_FORMAT,		/* uint32_t */
	KFI_TYPE_TX_ATTR,		/* struct kfi_tx_attr */
	KFI_TYPE_RX_ATTR,		/* struct kfi_rx_attr */
	KFI_TYPE_EP_ATTR,		/* struct kfi_ep_attr */
	KFI_TYPE_DOMAIN_ATTR,		/* struct kfi_domain_attr */
	KFI_TYPE_FABRIC_ATTR,		/* struct kfi_fabric_attr */
	KFI_TYPE_THREADING,		/* enum kfi_threading */
	KFI_TYPE_PROGRESS,		/* enum kfi_progress */
	KFI_TYPE_PROTOCOL,		/* uint32_t */
	KFI_TYPE_MSG_ORDER,		/* uint64_t */
	KFI_TYPE_MODE,			/* uint64_t */
	KFI_TYPE_AV_TYPE,		/* enum kfi_av_type */
	KFI_TYPE_ATOMIC_TYPE,		/* enum kfi_datatype */
	KFI_TYPE_ATOMIC_OP,		/* enum kfi_op */
	KFI_TYPE_VERSION,		/* none */
	KFI_TYPE_EQ_EVENT,		/* uint32_t */
	KFI_TYPE_CQ_EVENT_FLAGS,	/* uint64_t */
	KFI_TYPE_MR_MODE,		/* int */
	KFI_TYPE_OP_TYPE,		/* enum kfi_op_type */
	KFI_TYPE_CQ_ERR_ENTRY		/* struct kfi_cq_err_entry */
};

char *kfi_tostr(const void *data, enum kfi_type datatype);

enum kfi_param_type {
	KFI_PARAM_STRING,
	KFI_PARAM_INT,
	KFI_PARAM_BOOL
};

/* A configuration parameter of a provider. */
struct kfi_param {
	const char *name;
	enum kfi_param_type type;
	const char *help_string;
	const char *value;		/* as text; NULL: not set */
};

int kfi_getparams(struct kfi_param **params, int *count);
void kfi_freeparams(struct kfi_param *params);

/*
 * With the mode KFI_CONTEXT or KFI_CONTEXT2, context arguments point to one of
 * these structs. It belongs to the provider while the operation is in flight.
 */
#ifndef KFABRIC_DIRECT
struct kfi_context {
	void *internal[4];
};

struct kfi_context2 {
	void *internal[8];
};
#endif

#endif /* _KFABRIC_H_ */
