/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * /dev/kfabric: fabric objects, wait sets and poll sets for user space.
 *
 * docs/uapi.md describes every call: fields, error numbers, atomicity.
 */
#ifndef _UAPI_LINUX_KFABRIC_H
#define _UAPI_LINUX_KFABRIC_H

#include <linux/ioctl.h>
#include <linux/kfabric_values.h>
#include <linux/types.h>

/**
 * DOC: Rules that hold for every ioctl
 *
 * The argument is a structure that begins with @size, the caller's sizeof, and
 * @flags. A structure shorter than ours is served as the version that it is
 * and only that much of it is written; a longer one is accepted if all that we
 * do not know is zero. Fields called @__reserved must be zero. Fields called
 * out_* are written, never read; where a field is both, its comment says so.
 * Unless the call succeeds nothing is written.
 *
 * Objects are named by handles, which are valid only in the open file that
 * made them, from the moment that the open returns until close returns. Handle
 * 0 is never given out, and a number is never given out twice. out_id is
 * another name of the object, unique in the machine: the tracepoints' id.
 *
 * What a call could not hand out, because the caller's memory is not writable,
 * was not consumed: the next call gets it. @deadline is absolute, in
 * nanoseconds of CLOCK_MONOTONIC, and is compared, never changed, so that a
 * call interrupted by a signal goes on to the same deadline.
 *
 * Error numbers of every ioctl; the kfabric ones (256 and up)
 * are in kfabric_values.h:
 *
 *  - ENOTTY: the number is not known.
 *  - EFAULT: an address is not readable or not writable.
 *  - EINVAL: @size is below that of the first version, an unknown flag or a
 *    reserved field is not zero, a value is not one of those listed, a handle
 *    is of the wrong class, a call that blocks on an object opened without a
 *    wait object of its own.
 *  - E2BIG: the structure is longer than ours and the rest is not zero.
 *  - EBADF: no object has this handle (any more).
 *  - EOPNOTSUPP: a value or call that is known but not supported here.
 *  - EBUSY: the object is used by another one, or by a call in progress;
 *    nothing was changed.
 *  - EMFILE: this client has as many objects as it may have.
 *  - ENOBUFS: this client has as much buffer memory as it may have.
 *  - ENOMEM: no memory.
 *  - EINTR: a handler without SA_RESTART ran while the call was blocked.
 *  - EAGAIN: nothing to read, a queue is full, or (blocking reads) the
 *    deadline has passed or the queue was signalled.
 *  - ETIMEDOUT: KFAB_IOC_WAIT and KFAB_IOC_CNTR_WAIT: the deadline has passed.
 *  - ENODEV: the device is gone.
 *
 * Further ones are named at the call that has them.
 */

#define KFAB_ABI_VERSION	1
#define KFAB_IOC_MAGIC		0xfb

/* Sizes of arrays and strings, with the terminating zero. */
#define KFAB_NAME_MAX		64
#define KFAB_NODE_MAX		256
#define KFAB_ADDR_MAX		128
#define KFAB_CM_DATA_MAX	256
#define KFAB_ERR_DATA_MAX	256
#define KFAB_IOV_MAX		32
#define KFAB_POLL_MAX		1024
#define KFAB_BUF_MAX		0x400000

/* Values of a deadline: one check without sleeping, and no limit. */
#define KFAB_DEADLINE_NOW	0
#define KFAB_DEADLINE_NONE	0x7fffffffffffffff

/*
 * struct kfab_info - what a provider offers, or is asked for
 * @size: sizeof(struct kfab_info)
 * @flags: must be 0
 *
 * The fields are those of the kernel's struct kfi_info and of the attributes
 * behind it, by name; lengths are in bytes unless the name says otherwise. As
 * hints, 0 and the empty string mean: anything. Strings end in a zero byte.
 * It grows only at its end. Part of other calls, no ioctl by itself.
 */
struct kfab_info {
	__u32 size;
	__u32 flags;
	__u64 caps;
	__u64 mode;
	__u32 addr_format;
	__u32 src_addrlen;
	__u32 dest_addrlen;
	__u32 __reserved;
	__u8 src_addr[KFAB_ADDR_MAX];
	__u8 dest_addr[KFAB_ADDR_MAX];

	__u64 tx_caps;
	__u64 tx_mode;
	__u64 tx_op_flags;
	__u64 tx_msg_order;
	__u64 tx_comp_order;
	__u64 tx_inject_size;
	__u64 tx_size;
	__u64 tx_iov_limit;
	__u64 tx_rma_iov_limit;

	__u64 rx_caps;
	__u64 rx_mode;
	__u64 rx_op_flags;
	__u64 rx_msg_order;
	__u64 rx_comp_order;
	__u64 rx_total_buffered_recv;
	__u64 rx_size;
	__u64 rx_iov_limit;

	__u32 ep_type;
	__u32 ep_protocol;
	__u32 ep_protocol_version;
	__u32 tx_tclass;
	__u64 ep_max_msg_size;
	__u64 ep_msg_prefix_size;
	__u64 ep_max_order_raw_size;
	__u64 ep_max_order_war_size;
	__u64 ep_max_order_waw_size;
	__u64 ep_mem_tag_format;
	__u64 ep_tx_ctx_cnt;
	__u64 ep_rx_ctx_cnt;

	__u8 domain_name[KFAB_NAME_MAX];
	__u32 domain_threading;
	__u32 domain_control_progress;
	__u32 domain_data_progress;
	__u32 domain_resource_mgmt;
	__u32 domain_av_type;
	__u32 domain_mr_mode;
	__u64 domain_mr_key_size;
	__u64 domain_cq_data_size;
	__u64 domain_cq_cnt;
	__u64 domain_ep_cnt;
	__u64 domain_tx_ctx_cnt;
	__u64 domain_rx_ctx_cnt;
	__u64 domain_max_ep_tx_ctx;
	__u64 domain_max_ep_rx_ctx;
	__u64 domain_cntr_cnt;
	__u64 domain_mr_iov_limit;
	__u64 domain_caps;
	__u64 domain_mode;
	__u64 domain_max_err_data;
	__u64 domain_mr_cnt;

	__u8 fabric_name[KFAB_NAME_MAX];
	__u8 prov_name[KFAB_NAME_MAX];
	__u32 prov_version;
	__u32 api_version;
};

/**
 * struct kfab_version - versions, and the limits of this client
 * @size: sizeof(struct kfab_version)
 * @flags: must be 0
 * @out_abi: KFAB_ABI_VERSION of the driver
 * @out_api: version of the kernel's kfabric interface, major << 16 | minor
 * @out_max_objects: handles that one client may have at a time
 * @out_objects: handles that this client has
 * @out_max_bytes: buffer memory that one client may have
 * @out_bytes: buffer memory that this client has, closed but still mapped or
 *	       posted buffers included
 */
struct kfab_version {
	__u32 size;
	__u32 flags;
	__u32 out_abi;
	__u32 out_api;
	__u32 out_max_objects;
	__u32 out_objects;
	__u64 out_max_bytes;
	__u64 out_bytes;
};

#define KFAB_IOC_VERSION _IOWR(KFAB_IOC_MAGIC, 0x00, struct kfab_version)

/**
 * struct kfab_getinfo - ask the providers what there is
 * @size: sizeof(struct kfab_getinfo)
 * @flags: must be 0
 * @version: version of the interface that the caller wants, 0 for any
 * @info_size: distance between two entries of @infos: sizeof(struct kfab_info)
 * @getinfo_flags: KFAB_SOURCE, KFAB_NUMERICHOST, KFAB_PROV_ATTR_ONLY
 * @node: address of a string of at most KFAB_NODE_MAX bytes, or 0
 * @service: the same
 * @hints: address of a struct kfab_info, or 0
 * @infos: address of an array, or 0 to ask only for the number
 * @count: in: entries that fit into @infos; out: entries that exist
 * @__reserved: must be 0
 *
 * Return: the number of entries written. ENODATA: nothing matches.
 */
struct kfab_getinfo {
	__u32 size;
	__u32 flags;
	__u32 version;
	__u32 info_size;
	__u64 getinfo_flags;
	__aligned_u64 node;
	__aligned_u64 service;
	__aligned_u64 hints;
	__aligned_u64 infos;
	__u32 count;
	__u32 __reserved;
};

#define KFAB_IOC_GETINFO _IOWR(KFAB_IOC_MAGIC, 0x01, struct kfab_getinfo)

/* Flag of CLOSE: discard the unacknowledged events of a CQ. */
#define KFAB_CLOSE_DISCARD_EVENTS	0x1

/**
 * struct kfab_close - close any object
 * @size: sizeof(struct kfab_close)
 * @flags: 0, or KFAB_CLOSE_DISCARD_EVENTS, which has no effect on objects other than CQs
 * @handle: the object; a connection request is rejected
 * @__reserved: must be 0
 */
struct kfab_close {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__u32 __reserved;
};

#define KFAB_IOC_CLOSE _IOWR(KFAB_IOC_MAGIC, 0x02, struct kfab_close)

/**
 * struct kfab_bind - bind one object to another
 * @size: sizeof(struct kfab_bind)
 * @flags: must be 0
 * @handle: an endpoint of any kind, a context of a scalable one, or a memory
 *	    region
 * @to: the CQ, EQ, counter or address vector; of a region the endpoint or
 *	receive context that peers reach it through, or a counter
 * @bind_flags: KFAB_TRANSMIT, KFAB_RECV, KFAB_SELECTIVE_COMPLETION for a CQ,
 *		the directions for a counter, else 0
 */
struct kfab_bind {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__u32 to;
	__u64 bind_flags;
};

#define KFAB_IOC_BIND _IOWR(KFAB_IOC_MAGIC, 0x03, struct kfab_bind)

/**
 * struct kfab_control - commands on an object
 * @size: sizeof(struct kfab_control)
 * @flags: must be 0
 * @handle: the object
 * @command: KFAB_ENABLE on an endpoint, context or memory region;
 *	     KFAB_GETWAIT, KFAB_GETWAITOBJ on a wait set, CQ, EQ, counter,
 *	     channel or profile;
 *	     KFAB_GETFIDFLAG, KFAB_SETFIDFLAG on a wait set
 * @value: in: KFAB_SETFIDFLAG: 0 or KFAB_WAIT_EXCLUSIVE; out: KFAB_GETWAITOBJ:
 *	   KFAB_WAIT_*; KFAB_GETWAIT: a new descriptor (KFAB_WAIT_FD, or a member
 *	   of a KFAB_WAIT_POLLFD set), close-on-exec, which the caller closes;
 *	   KFAB_GETFIDFLAG: the flags
 */
struct kfab_control {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__u32 command;
	__u64 value;
};

#define KFAB_IOC_CONTROL _IOWR(KFAB_IOC_MAGIC, 0x04, struct kfab_control)

/**
 * struct kfab_strerror - the text of an error
 * @size: sizeof(struct kfab_strerror)
 * @flags: must be 0
 * @handle: the CQ or EQ whose error entry it is, or 0
 * @err: prov_errno of the entry; without @handle a positive error number
 * @buf: address of the buffer for the text, always terminated
 * @buf_size: its size, at least 1; a longer text is cut
 * @__reserved: must be 0
 *
 * Return: the length of the text written, without the terminating zero.
 */
struct kfab_strerror {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__s32 err;
	__aligned_u64 buf;
	__u32 buf_size;
	__u32 __reserved;
};

#define KFAB_IOC_STRERROR _IOWR(KFAB_IOC_MAGIC, 0x05, struct kfab_strerror)

/*
 * Opens. All of them: @context is the caller's, given back with what is
 * reported about the object; @out_handle and @out_id name the new object. If
 * the answer cannot be written, nothing was opened.
 */

/**
 * struct kfab_fabric_open - open a fabric
 * @size: sizeof(struct kfab_fabric_open)
 * @flags: must be 0
 * @info: address of a struct kfab_info; its fabric_name and prov_name count
 * @context: the caller's
 * @out_handle: the fabric
 * @out_id: its tracing id
 */
struct kfab_fabric_open {
	__u32 size;
	__u32 flags;
	__aligned_u64 info;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_FABRIC_OPEN _IOWR(KFAB_IOC_MAGIC, 0x10, struct kfab_fabric_open)

/**
 * struct kfab_domain_open - open a domain of a fabric
 * @size: sizeof(struct kfab_domain_open)
 * @flags: must be 0
 * @fabric: the fabric
 * @__reserved: must be 0
 * @info: address of a struct kfab_info; its domain_* fields count
 * @context: the caller's
 * @out_handle: the domain
 * @out_id: its tracing id
 */
struct kfab_domain_open {
	__u32 size;
	__u32 flags;
	__u32 fabric;
	__u32 __reserved;
	__aligned_u64 info;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_DOMAIN_OPEN _IOWR(KFAB_IOC_MAGIC, 0x11, struct kfab_domain_open)

/**
 * struct kfab_eq_open - open an event queue of a fabric
 * @size: sizeof(struct kfab_eq_open)
 * @flags: must be 0
 * @fabric: the fabric
 * @wait_obj: KFAB_WAIT_*
 * @wait_set: the wait set, with KFAB_WAIT_SET, else 0
 * @__reserved: must be 0
 * @entries: least number of events it holds, 0 for a default
 * @context: the caller's
 * @out_handle: the event queue
 * @out_id: its tracing id
 */
struct kfab_eq_open {
	__u32 size;
	__u32 flags;
	__u32 fabric;
	__u32 wait_obj;
	__u32 wait_set;
	__u32 __reserved;
	__u64 entries;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_EQ_OPEN _IOWR(KFAB_IOC_MAGIC, 0x12, struct kfab_eq_open)

/**
 * struct kfab_wait_open - open a wait set of a fabric
 * @size: sizeof(struct kfab_wait_open)
 * @flags: must be 0
 * @fabric: the fabric
 * @wait_obj: KFAB_WAIT_*, but not NONE or SET
 * @context: the caller's
 * @out_handle: the wait set
 * @out_id: its tracing id
 */
struct kfab_wait_open {
	__u32 size;
	__u32 flags;
	__u32 fabric;
	__u32 wait_obj;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_WAIT_OPEN _IOWR(KFAB_IOC_MAGIC, 0x13, struct kfab_wait_open)

/**
 * struct kfab_cq_open - open a completion queue of a domain
 * @size: sizeof(struct kfab_cq_open)
 * @flags: must be 0
 * @domain: the domain
 * @format: KFAB_CQ_FORMAT_*
 * @wait_obj: KFAB_WAIT_*
 * @wait_set: the wait set, with KFAB_WAIT_SET, else 0
 * @wait_cond: KFAB_CQ_COND_*
 * @signaling_vector: a CPU, with KFAB_AFFINITY, else 0
 * @cq_flags: 0 or KFAB_AFFINITY
 * @entries: least number of completions it holds, 0 for a default
 * @context: the caller's
 * @out_handle: the completion queue
 * @out_id: its tracing id
 */
struct kfab_cq_open {
	__u32 size;
	__u32 flags;
	__u32 domain;
	__u32 format;
	__u32 wait_obj;
	__u32 wait_set;
	__u32 wait_cond;
	__u32 signaling_vector;
	__u64 cq_flags;
	__u64 entries;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_CQ_OPEN _IOWR(KFAB_IOC_MAGIC, 0x14, struct kfab_cq_open)

/**
 * struct kfab_cntr_open - open a counter of a domain
 * @size: sizeof(struct kfab_cntr_open)
 * @flags: must be 0
 * @domain: the domain
 * @events: KFAB_CNTR_EVENTS_COMP
 * @wait_obj: KFAB_WAIT_*
 * @wait_set: the wait set, with KFAB_WAIT_SET, else 0
 * @context: the caller's
 * @out_handle: the counter
 * @out_id: its tracing id
 */
struct kfab_cntr_open {
	__u32 size;
	__u32 flags;
	__u32 domain;
	__u32 events;
	__u32 wait_obj;
	__u32 wait_set;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_CNTR_OPEN _IOWR(KFAB_IOC_MAGIC, 0x15, struct kfab_cntr_open)

/**
 * struct kfab_poll_open - open a poll set of a domain
 * @size: sizeof(struct kfab_poll_open)
 * @flags: must be 0
 * @domain: the domain
 * @__reserved: must be 0
 * @context: the caller's
 * @out_handle: the poll set
 * @out_id: its tracing id
 */
struct kfab_poll_open {
	__u32 size;
	__u32 flags;
	__u32 domain;
	__u32 __reserved;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_POLL_OPEN _IOWR(KFAB_IOC_MAGIC, 0x16, struct kfab_poll_open)

/**
 * struct kfab_pep_open - open a passive endpoint of a fabric
 * @size: sizeof(struct kfab_pep_open)
 * @flags: must be 0
 * @fabric: the fabric
 * @__reserved: must be 0
 * @info: address of a struct kfab_info; src_addr is where it listens
 * @context: the caller's
 * @out_handle: the passive endpoint
 * @out_id: its tracing id
 */
struct kfab_pep_open {
	__u32 size;
	__u32 flags;
	__u32 fabric;
	__u32 __reserved;
	__aligned_u64 info;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_PEP_OPEN _IOWR(KFAB_IOC_MAGIC, 0x17, struct kfab_pep_open)

/**
 * struct kfab_ep_open - open an endpoint of a domain
 * @size: sizeof(struct kfab_ep_open)
 * @flags: must be 0
 * @domain: the domain
 * @connreq: the connection request that it is to accept, or 0; on success its
 *	     handle is closed
 * @info: address of a struct kfab_info; 0 with @connreq: as the request says
 * @context: the caller's
 * @out_handle: the endpoint
 * @out_id: its tracing id
 */
struct kfab_ep_open {
	__u32 size;
	__u32 flags;
	__u32 domain;
	__u32 connreq;
	__aligned_u64 info;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_EP_OPEN _IOWR(KFAB_IOC_MAGIC, 0x18, struct kfab_ep_open)

/**
 * struct kfab_iov - a piece of a buffer
 * @buf: the buffer
 * @mr: the memory region that describes it, where the domain wants one for
 *	local buffers (KFAB_MR_LOCAL, KFAB_LOCAL_MR), else 0
 * @offset: first byte
 * @len: bytes
 *
 * Part of other calls, no ioctl by itself.
 */
struct kfab_iov {
	__u32 buf;
	__u32 mr;
	__u64 offset;
	__u64 len;
};

/**
 * struct kfab_mr_reg - register pieces of buffers as one memory region
 * @size: sizeof(struct kfab_mr_reg)
 * @flags: must be 0
 * @domain: the domain
 * @iov_count: elements of @iov, at most KFAB_IOV_MAX
 * @iov: address of an array of struct kfab_iov, @mr 0 in each
 * @access: KFAB_SEND, RECV, READ, WRITE, REMOTE_READ, REMOTE_WRITE
 * @offset: must be 0
 * @requested_key: used unless the domain says KFAB_MR_PROV_KEY
 * @mr_flags: 0
 * @context: the caller's
 * @out_key: what a peer names the region by
 * @out_iova: the address of its first byte for a peer
 * @out_handle: the memory region; as long as it is open, its buffers cannot be
 *		closed
 * @out_id: its tracing id
 */
struct kfab_mr_reg {
	__u32 size;
	__u32 flags;
	__u32 domain;
	__u32 iov_count;
	__aligned_u64 iov;
	__u64 access;
	__u64 offset;
	__u64 requested_key;
	__u64 mr_flags;
	__u64 context;
	__u64 out_key;
	__u64 out_iova;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_MR_REG _IOWR(KFAB_IOC_MAGIC, 0x1a, struct kfab_mr_reg)

/*
 * Numbers kept for what comes: 0x1b-0x1f opens; 0x3a-0x3f atomics; 0x75-0x7f
 * channels; 0x80 profile; 0x9a-0x9f endpoints without a connection.
 */

#include <linux/kfabric_data.h>
#include <linux/kfabric_channel.h>
#include <linux/kfabric_rdm.h>
#include <linux/kfabric_profile.h>

#endif /* _UAPI_LINUX_KFABRIC_H */
