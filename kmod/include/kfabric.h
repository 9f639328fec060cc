/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * kfabric: the base of the in-kernel fabric API, source-compatible with
 * kfabric 1.7. Versions, flags, attributes, the kfid that every object begins
 * with, and discovery.
 *
 * Nearly every call of the API is an inline that jumps through an operations
 * table filled in by the provider. Return values: 0 or a positive count, or a
 * negative errno. Timeouts are milliseconds. Calls that open, close, bind or
 * enable may sleep; posting and non-blocking reads do not.
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
 * Flags and capabilities, all uint64_t. Bits from 1 upwards mean the same
 * everywhere; bits from 59 downwards are reused by classes of calls that never
 * meet; bits 60 to 63 belong to providers.
 */

/* Capabilities; in a completion: which kind of operation it was. */
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
#define KFI_PEEK		BIT_ULL(19)	/* look, do not consume */
#define KFI_TRIGGER		BIT_ULL(20)	/* triggered operation */
#define KFI_FENCE		BIT_ULL(21)	/* after earlier ones to the peer */
#define KFI_COMPLETION		BIT_ULL(24)	/* write a completion */
#define KFI_EVENT		KFI_COMPLETION	/* AV: asynchronous inserts */
#define KFI_INJECT		BIT_ULL(25)	/* buffer is free on return */

/* Completion levels, and flags of attributes. */
#define KFI_INJECT_COMPLETE	BIT_ULL(26)	/* buffer is reusable */
#define KFI_TRANSMIT_COMPLETE	BIT_ULL(27)	/* has left us reliably */
#define KFI_DELIVERY_COMPLETE	BIT_ULL(28)	/* is placed at the target */
#define KFI_AFFINITY		BIT_ULL(29)	/* signaling_vector is valid */
#define KFI_COMMIT_COMPLETE	BIT_ULL(30)	/* is persistent at the target */
#define KFI_TAGGED_MULTI_RECV	BIT_ULL(31)	/* MULTI_RECV on tagged too */

/* Capabilities that modify the ones above. */
#define KFI_RMA_PMEM		BIT_ULL(49)	/* RMA to persistent memory */
#define KFI_SOURCE_ERR		BIT_ULL(50)	/* error data names the source */
#define KFI_LOCAL_COMM		BIT_ULL(51)	/* peers on this node */
#define KFI_REMOTE_COMM		BIT_ULL(52)	/* peers on other nodes */
#define KFI_SHARED_AV		BIT_ULL(53)	/* AVs can be shared */
#define KFI_RMA_EVENT		BIT_ULL(56)	/* events for inbound RMA */
#define KFI_SOURCE		BIT_ULL(57)	/* completions tell the source */
#define KFI_NAMED_RX_CTX	BIT_ULL(58)	/* sender picks the rx context */
#define KFI_DIRECTED_RECV	BIT_ULL(59)	/* receives match the source */

/* Modes: what a provider asks of its caller. */
#define KFI_CONTEXT2		BIT_ULL(52)	/* contexts are kfi_context2 */
#define KFI_RESTRICTED_COMP	BIT_ULL(53)	/* CQs for like endpoints only */
#define KFI_NOTIFY_FLAGS_ONLY	BIT_ULL(54)	/* notifications: flags only */
#define KFI_LOCAL_MR		BIT_ULL(55)	/* local buffers need a desc */
#define KFI_RX_CQ_DATA		BIT_ULL(56)	/* CQ data eats a receive */
#define KFI_ASYNC_IOV		BIT_ULL(57)	/* keep iovs until completion */
#define KFI_MSG_PREFIX		BIT_ULL(58)	/* room before each message */
#define KFI_CONTEXT		BIT_ULL(59)	/* contexts are kfi_context */

/* kfi_getinfo(); KFI_SOURCE: node and service name the local side. */
#define KFI_PROV_ATTR_ONLY	BIT_ULL(54)	/* only who is there */
#define KFI_NUMERICHOST		BIT_ULL(55)	/* node is numeric */

/* kfi_trecvmsg() on messages that wait for a receive. */
#define KFI_DISCARD		BIT_ULL(58)	/* drop the message */
#define KFI_CLAIM		BIT_ULL(59)	/* reserve the message */

/* Opening, binding and inserting. */
#define KFI_SYNC_ERR		BIT_ULL(58)	/* AV: context gets the errors */
#define KFI_SYMMETRIC		BIT_ULL(59)	/* AV: symmetric addressing */
#define KFI_REG_MR		BIT_ULL(59)	/* domain: async registration */
#define KFI_SELECTIVE_COMPLETION BIT_ULL(59)	/* EP: ask for each success */

/* Marks provider-specific protocols, address formats and other values. */
#define KFI_PROV_SPECIFIC	(1 << 31)

/* mr_mode of a domain, int. */
#define KFI_MR_LOCAL		0x2	/* local buffers need registration */
#define KFI_MR_RAW		0x4	/* keys are longer than 64 bits */
#define KFI_MR_VIRT_ADDR	0x8	/* remote address is the iova */
#define KFI_MR_PROV_KEY		0x10	/* the provider chooses the key */
#define KFI_MR_RMA_EVENT	0x20	/* RMA event regions say so */
#define KFI_MR_ENDPOINT		0x40	/* bind to an endpoint and enable */

/* msg_order and comp_order: X after Y, for Read, Write and Send. */
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

enum kfi_av_type {
	KFI_AV_UNSPEC,
	KFI_AV_MAP,
	KFI_AV_TABLE,
};

enum kfi_progress {
	KFI_PROGRESS_UNSPEC,
	KFI_PROGRESS_AUTO,
	KFI_PROGRESS_MANUAL,
};

enum kfi_threading {
	KFI_THREAD_UNSPEC,
	KFI_THREAD_SAFE,
	KFI_THREAD_FID,
	KFI_THREAD_DOMAIN,
	KFI_THREAD_COMPLETION,
	KFI_THREAD_ENDPOINT,
};

enum kfi_resource_mgmt {
	KFI_RM_UNSPEC,
	KFI_RM_DISABLED,
	KFI_RM_ENABLED,
};

enum kfi_ep_type {
	KFI_EP_UNSPEC,
	KFI_EP_MSG,
	KFI_EP_DGRAM,
	KFI_EP_RDM,
	KFI_EP_SOCK_STREAM,
	KFI_EP_SOCK_DGRAM,
};

/* protocol of an endpoint. */
enum {
	KFI_PROTO_UNSPEC,
	KFI_PROTO_RDMA_CM_IB_RC,
	KFI_PROTO_IWARP,
	KFI_PROTO_IB_UD,
	KFI_PROTO_UDP,
	KFI_PROTO_SOCK_TCP,
	KFI_PROTO_IWARP_RDM,
	KFI_PROTO_IB_RDM,
	KFI_PROTO_GNI,
	KFI_PROTO_CXI,
};

enum kfi_iov_type {
	KFI_KVEC = 1,
	KFI_BVEC,
	KFI_SGL,
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

static inline uint32_t kfi_tc_dscp_set(uint8_t dscp)
{
	return (uint32_t)dscp | KFI_TC_DSCP;
}

static inline uint8_t kfi_tc_dscp_get(uint32_t tclass)
{
	return (tclass & KFI_TC_DSCP) ? (uint8_t)tclass : 0;
}

struct kfi_tx_attr {
	uint64_t caps;
	uint64_t mode;
	uint64_t op_flags;
	uint64_t msg_order;
	uint64_t comp_order;
	size_t inject_size;
	size_t size;
	size_t iov_limit;
	size_t rma_iov_limit;
	uint32_t tclass;
};

struct kfi_rx_attr {
	uint64_t caps;
	uint64_t mode;
	uint64_t op_flags;
	uint64_t msg_order;
	uint64_t comp_order;
	size_t total_buffered_recv;
	size_t size;
	size_t iov_limit;
};

struct kfi_ep_attr {
	enum kfi_ep_type type;
	uint32_t protocol;
	uint32_t protocol_version;
	size_t max_msg_size;
	size_t msg_prefix_size;
	size_t max_order_raw_size;
	size_t max_order_war_size;
	size_t max_order_waw_size;
	uint64_t mem_tag_format;
	size_t tx_ctx_cnt;
	size_t rx_ctx_cnt;
	size_t auth_key_size;
	uint8_t *auth_key;
};

struct kfi_domain_attr {
	struct kfid_domain *domain;
	char *name;
	enum kfi_threading threading;
	enum kfi_progress control_progress;
	enum kfi_progress data_progress;
	enum kfi_resource_mgmt resource_mgmt;
	enum kfi_av_type av_type;
	int mr_mode;
	size_t mr_key_size;
	size_t cq_data_size;
	size_t cq_cnt;
	size_t ep_cnt;
	size_t tx_ctx_cnt;
	size_t rx_ctx_cnt;
	size_t max_ep_tx_ctx;
	size_t max_ep_rx_ctx;
	size_t max_ep_stx_ctx;
	size_t max_ep_srx_ctx;
	size_t cntr_cnt;
	size_t mr_iov_limit;
	uint64_t caps;
	uint64_t mode;
	uint8_t *auth_key;
	size_t auth_key_size;
	size_t max_err_data;
	size_t mr_cnt;
	uint32_t tclass;
};

struct kfi_fabric_attr {
	struct kfid_fabric *fabric;
	char *name;
	char *prov_name;
	uint32_t prov_version;
	uint32_t api_version;
};

struct kfi_info {
	struct kfi_info *next;
	uint64_t caps;
	uint64_t mode;
	uint32_t addr_format;
	size_t src_addrlen;
	size_t dest_addrlen;
	void *src_addr;
	void *dest_addr;
	kfid_t handle;
	struct kfi_tx_attr *tx_attr;
	struct kfi_rx_attr *rx_attr;
	struct kfi_ep_attr *ep_attr;
	struct kfi_domain_attr *domain_attr;
	struct kfi_fabric_attr *fabric_attr;
};

/* fclass of an object. */
enum {
	KFI_CLASS_UNSPEC,
	KFI_CLASS_FABRIC,
	KFI_CLASS_DOMAIN,
	KFI_CLASS_EP,
	KFI_CLASS_SEP,
	KFI_CLASS_RX_CTX,
	KFI_CLASS_SRX_CTX,
	KFI_CLASS_TX_CTX,
	KFI_CLASS_STX_CTX,
	KFI_CLASS_PEP,
	KFI_CLASS_INTERFACE,
	KFI_CLASS_AV,
	KFI_CLASS_MR,
	KFI_CLASS_EQ,
	KFI_CLASS_CQ,
	KFI_CLASS_CNTR,
	KFI_CLASS_WAIT,
	KFI_CLASS_POLL,
	KFI_CLASS_CONNREQ,
};

struct kfi_eq_attr;
struct kfi_wait_attr;

typedef void (*kfi_comp_handler)(struct kfid_cq *cq, void *context);
typedef void (*kfi_event_handler)(struct kfid_eq *eq, void *context);

struct kfi_ops {
	size_t size;
	int (*close)(struct kfid *fid);
	int (*bind)(struct kfid *fid, struct kfid *bfid, uint64_t flags);
	int (*control)(struct kfid *fid, int command, void *arg);
	int (*ops_open)(struct kfid *fid, const char *name, uint64_t flags,
			void **ops, void *context);
};

struct kfid {
	size_t fclass;
	void *context;
	struct kfi_ops *ops;
	struct completion comp;
	atomic_t ref_cnt;
};

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

#define KFI_CHECK_OP(ops, opstype, op) \
	((ops)->size > offsetof(opstype, op) && (ops)->op)

static inline int kfi_close(struct kfid *fid)
{
	return fid->ops->close(fid);
}

/* Commands of kfi_control(), and what their argument points to. */
enum {
	KFI_GETFIDFLAG,
	KFI_SETFIDFLAG,
	KFI_GETOPSFLAG,
	KFI_SETOPSFLAG,
	KFI_ALIAS,
	KFI_GETWAIT,
	KFI_ENABLE,
	KFI_BACKLOG,
	KFI_GET_RAW_MR,
	KFI_MAP_RAW_MR,
	KFI_UNMAP_KEY,
	KFI_QUEUE_WORK,
	KFI_CANCEL_WORK,
	KFI_FLUSH_WORK,
	KFI_REFRESH,
	KFI_GETWAITOBJ
};

struct kfi_alias {
	struct kfid **fid;
	uint64_t flags;
};

struct kfi_mr_raw_attr {
	uint64_t flags;
	uint64_t *base_addr;
	uint8_t *raw_key;
	size_t *key_size;
};

struct kfi_mr_map_raw {
	uint64_t flags;
	uint64_t base_addr;
	uint8_t *raw_key;
	size_t key_size;
	uint64_t *key;
};

static inline int kfi_control(struct kfid *fid, int command, void *arg)
{
	return fid->ops->control(fid, command, arg);
}

static inline int kfi_alias(struct kfid *fid, struct kfid **alias_fid,
			    uint64_t flags)
{
	struct kfi_alias alias = {
		.fid = alias_fid,
		.flags = flags,
	};

	return kfi_control(fid, KFI_ALIAS, &alias);
}

static inline int kfi_open_ops(struct kfid *fid, const char *name,
			       uint64_t flags, void **ops, void *context)
{
	return fid->ops->ops_open(fid, name, flags, ops, context);
}

enum kfi_type {
	KFI_TYPE_INFO,
	KFI_TYPE_EP_TYPE,
	KFI_TYPE_CAPS,
	KFI_TYPE_OP_FLAGS,
	KFI_TYPE_ADDR_FORMAT,
	KFI_TYPE_TX_ATTR,
	KFI_TYPE_RX_ATTR,
	KFI_TYPE_EP_ATTR,
	KFI_TYPE_DOMAIN_ATTR,
	KFI_TYPE_FABRIC_ATTR,
	KFI_TYPE_THREADING,
	KFI_TYPE_PROGRESS,
	KFI_TYPE_PROTOCOL,
	KFI_TYPE_MSG_ORDER,
	KFI_TYPE_MODE,
	KFI_TYPE_AV_TYPE,
	KFI_TYPE_ATOMIC_TYPE,
	KFI_TYPE_ATOMIC_OP,
	KFI_TYPE_VERSION,
	KFI_TYPE_EQ_EVENT,
	KFI_TYPE_CQ_EVENT_FLAGS,
	KFI_TYPE_MR_MODE,
	KFI_TYPE_OP_TYPE,
};

char *kfi_tostr(const void *data, enum kfi_type datatype);

enum kfi_param_type {
	KFI_PARAM_STRING,
	KFI_PARAM_INT,
	KFI_PARAM_BOOL,
};

struct kfi_param {
	const char *name;
	enum kfi_param_type type;
	const char *help_string;
	const char *value;
};

int kfi_getparams(struct kfi_param **params, int *count);

void kfi_freeparams(struct kfi_param *params);

#ifndef KFABRIC_DIRECT
struct kfi_context {
	void *internal[4];
};

struct kfi_context2 {
	void *internal[8];
};
#endif

#endif /* _KFABRIC_H_ */
