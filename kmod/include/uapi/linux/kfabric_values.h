/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * Flags, enumerators and error numbers of kfabric for user space.
 *
 * Each has the name, with KFAB_ for KFI_, and, error numbers apart, the value of its
 * counterpart in the kernel's kfabric interface. Some bits have several meanings; the
 * call or the field determines which one.
 */
#ifndef _UAPI_LINUX_KFABRIC_VALUES_H
#define _UAPI_LINUX_KFABRIC_VALUES_H

#include <linux/errno.h>

/*
 * The errors that the kernel's interface has numbers of its own for. Users get them as
 * numbers of Linux, which no call uses for anything else.
 */
#define KFAB_ETOOSMALL		ERANGE		/* the room is too small */
#define KFAB_EOPBADSTATE	EBADFD		/* the object is in the wrong state */
#define KFAB_EAVAIL		EBADMSG		/* read the error entry first */
#define KFAB_EBADFLAGS		EBADRQC		/* flags not supported */
#define KFAB_ENOEQ		EUNATCH		/* needs an event queue */
#define KFAB_ENOCQ		ENOSR		/* needs a completion queue */
#define KFAB_ENOAV		EDESTADDRREQ	/* needs an address vector */
#define KFAB_EDOMAIN		EXDEV		/* objects of different domains */
#define KFAB_ENOKEY		ENOKEY		/* key is unknown or already in use */
#define KFAB_EOVERRUN		EOVERFLOW	/* the queue was overrun */

/* Capabilities, operation flags, completion flags, bind flags. */
#define KFAB_MSG		0x2
#define KFAB_RMA		0x4
#define KFAB_TAGGED		0x8
#define KFAB_ATOMIC		0x10
#define KFAB_MULTICAST		0x20
#define KFAB_TAGGED_RMA		0x40
#define KFAB_READ		0x100
#define KFAB_WRITE		0x200
#define KFAB_RECV		0x400
#define KFAB_SEND		0x800
#define KFAB_TRANSMIT		0x800
#define KFAB_REMOTE_READ	0x1000
#define KFAB_REMOTE_WRITE	0x2000
#define KFAB_MULTI_RECV		0x10000
#define KFAB_REMOTE_CQ_DATA	0x20000
#define KFAB_MORE		0x40000
#define KFAB_PEEK		0x80000
#define KFAB_TRIGGER		0x100000
#define KFAB_FENCE		0x200000
#define KFAB_COMPLETION		0x1000000
#define KFAB_INJECT		0x2000000
#define KFAB_INJECT_COMPLETE	0x4000000
#define KFAB_TRANSMIT_COMPLETE	0x8000000
#define KFAB_DELIVERY_COMPLETE	0x10000000
#define KFAB_AFFINITY		0x20000000
#define KFAB_COMMIT_COMPLETE	0x40000000
#define KFAB_LOCAL_COMM		0x8000000000000
#define KFAB_REMOTE_COMM	0x10000000000000
#define KFAB_RESTRICTED_COMP	0x20000000000000
#define KFAB_SHARED_AV		0x20000000000000
#define KFAB_NOTIFY_FLAGS_ONLY	0x40000000000000
#define KFAB_PROV_ATTR_ONLY	0x40000000000000
#define KFAB_LOCAL_MR		0x80000000000000
#define KFAB_NUMERICHOST	0x80000000000000
#define KFAB_RMA_EVENT		0x100000000000000
#define KFAB_RX_CQ_DATA		0x100000000000000
#define KFAB_ASYNC_IOV		0x200000000000000
#define KFAB_SOURCE		0x200000000000000
#define KFAB_MSG_PREFIX		0x400000000000000
#define KFAB_NAMED_RX_CTX	0x400000000000000
#define KFAB_CONTEXT		0x800000000000000
#define KFAB_DIRECTED_RECV	0x800000000000000
#define KFAB_SELECTIVE_COMPLETION 0x800000000000000

/* mr_mode */
#define KFAB_MR_LOCAL		0x2
#define KFAB_MR_RAW		0x4
#define KFAB_MR_VIRT_ADDR	0x8
#define KFAB_MR_PROV_KEY	0x10
#define KFAB_MR_RMA_EVENT	0x20
#define KFAB_MR_ENDPOINT	0x40

/* msg_order, comp_order */
#define KFAB_ORDER_NONE		0x0
#define KFAB_ORDER_RAR		0x1
#define KFAB_ORDER_RAW		0x2
#define KFAB_ORDER_RAS		0x4
#define KFAB_ORDER_WAR		0x8
#define KFAB_ORDER_WAW		0x10
#define KFAB_ORDER_WAS		0x20
#define KFAB_ORDER_SAR		0x40
#define KFAB_ORDER_SAW		0x80
#define KFAB_ORDER_SAS		0x100
#define KFAB_ORDER_STRICT	0x1ff
#define KFAB_ORDER_DATA		0x10000

/* addr_format */
#define KFAB_FORMAT_UNSPEC	0
#define KFAB_SOCKADDR		1
#define KFAB_SOCKADDR_IN	2
#define KFAB_SOCKADDR_IN6	3
#define KFAB_SOCKADDR_IB	4
#define KFAB_ADDR_GNI		5
#define KFAB_ADDR_CXI		6

/* ep_type */
#define KFAB_EP_UNSPEC		0
#define KFAB_EP_MSG		1
#define KFAB_EP_DGRAM		2
#define KFAB_EP_RDM		3

/* protocol */
#define KFAB_PROTO_UNSPEC	0
#define KFAB_PROTO_RDMA_CM_IB_RC 1
#define KFAB_PROTO_IWARP	2

/* threading, progress, resource management, address vector type */
#define KFAB_THREAD_UNSPEC	0
#define KFAB_THREAD_SAFE	1
#define KFAB_THREAD_FID		2
#define KFAB_THREAD_DOMAIN	3
#define KFAB_THREAD_COMPLETION	4
#define KFAB_THREAD_ENDPOINT	5
#define KFAB_PROGRESS_UNSPEC	0
#define KFAB_PROGRESS_AUTO	1
#define KFAB_PROGRESS_MANUAL	2
#define KFAB_RM_UNSPEC		0
#define KFAB_RM_DISABLED	1
#define KFAB_RM_ENABLED		2
#define KFAB_AV_UNSPEC		0
#define KFAB_AV_MAP		1
#define KFAB_AV_TABLE		2

/* Wait objects. */
#define KFAB_WAIT_NONE		0
#define KFAB_WAIT_UNSPEC	1
#define KFAB_WAIT_SET		2
#define KFAB_WAIT_QUEUE		3
#define KFAB_WAIT_MUTEX_COND	4
#define KFAB_WAIT_FD		5
#define KFAB_WAIT_POLLFD	6
#define KFAB_WAIT_YIELD		7

/* Flag of a wait set: each publication wakes one sleeper; see docs/uapi/waiting.md. */
#define KFAB_WAIT_EXCLUSIVE	0x1000000000000000

/* Operation flag: the message is solicited for the receiver's completion channel. */
#define KFAB_SOLICITED		0x2000000000000000

/* CQ entry formats: which fields of a struct kfab_cq_entry are filled. */
#define KFAB_CQ_FORMAT_UNSPEC	0
#define KFAB_CQ_FORMAT_CONTEXT	1
#define KFAB_CQ_FORMAT_MSG	2
#define KFAB_CQ_FORMAT_DATA	3
#define KFAB_CQ_FORMAT_TAGGED	4

#define KFAB_CQ_COND_NONE	0
#define KFAB_CQ_COND_THRESHOLD	1

#define KFAB_CNTR_EVENTS_COMP	0

/* Events. */
#define KFAB_NOTIFY		0
#define KFAB_CONNREQ		1
#define KFAB_CONNECTED		2
#define KFAB_SHUTDOWN		3
#define KFAB_MR_COMPLETE	4
#define KFAB_AV_COMPLETE	5
#define KFAB_JOIN_COMPLETE	6

/* Commands of KFAB_IOC_CONTROL. */
#define KFAB_GETFIDFLAG		0
#define KFAB_SETFIDFLAG		1
#define KFAB_GETWAIT		5
#define KFAB_ENABLE		6
#define KFAB_GETWAITOBJ		15

/* Options of an endpoint. */
#define KFAB_OPT_ENDPOINT	0
#define KFAB_OPT_MIN_MULTI_RECV	0
#define KFAB_OPT_CM_DATA_SIZE	1
#define KFAB_OPT_KEEPALIVE	2

#define KFAB_ADDR_UNSPEC	0xffffffffffffffff
#define KFAB_ADDR_NOTAVAIL	0xffffffffffffffff
#define KFAB_KEY_NOTAVAIL	0xffffffffffffffff

#endif /* _UAPI_LINUX_KFABRIC_VALUES_H */
