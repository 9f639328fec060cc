/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * /dev/kfabric: fabric objects, wait sets and poll sets for user space.
 *
 * docs/uapi.md and docs/uapi/ describe every ioctl: fields, error numbers, atomicity.
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
 * @flags. A structure that is shorter than the module's is served as the version that
 * it is, and only that much of it is written; a longer one is accepted if every byte
 * that the module does not know is zero. Fields called @__reserved must be zero. Fields
 * called out_* are written, never read; if a field is both, its comment says so. Unless
 * the call succeeds, nothing is written; exceptions are stated at the call.
 *
 * Objects are named by handles, which are valid only in the open file that made them,
 * from the moment that the open returns until close returns. Handle 0 is never valid,
 * and no number is used twice. out_id is another name of the object, unique in the
 * machine, which tracepoints use.
 *
 * A call in progress references the objects that it names. Closing one of them waits for
 * the call; for a blocking call (CQ_SREAD, EQ_SREAD, CNTR_WAIT, WAIT, PROFILE_EVENTS) it
 * fails with EBUSY instead. GET_CQ_EVENT ends when its channel is closed. A BATCH is a
 * blocking call of its wait set; what its posts and reads name is referenced by these.
 *
 * If the answer of a call cannot be written, nothing was consumed: the next call gets
 * it. @deadline is absolute, in nanoseconds of CLOCK_MONOTONIC. It is compared, never
 * changed, so a call that is interrupted and restarted keeps its deadline.
 *
 * DOC: Error numbers
 *
 * Errors of every ioctl, which the lists at the structures do not repeat. A list has
 * EINVAL, EBADF, EINTR or ENOMEM again if they have another cause. The kfabric errors
 * (256 and up) are in kfabric_values.h.
 *
 *  - ENOTTY: no such ioctl.
 *  - EFAULT: an address cannot be read or written.
 *  - EINVAL: @size is below that of the first version; an unknown flag; a reserved field
 *    that is not zero.
 *  - E2BIG: the structure is longer than the module's and the rest is not zero, or it is
 *    longer than a page.
 *  - EBADF: a handle that is not valid.
 *  - EINTR: a signal, while the call waited for a lock or for a close in progress.
 *  - ENOMEM: no memory.
 *
 * Where they are listed, these have the same meaning everywhere:
 *
 *  - EOPNOTSUPP: a value or call that exists but is not supported here.
 *  - EBUSY: another object or a blocking call uses the object; nothing was changed.
 *  - EMFILE: this client has as many objects as it may have.
 *  - ENOSPC: this client has used up all handles.
 *  - ENOBUFS: this client has as much buffer memory as it may have.
 *  - EAGAIN: nothing to read, a queue is full, or (blocking reads) the deadline has
 *    passed or the queue was signalled.
 *  - ETIMEDOUT: KFAB_IOC_WAIT and KFAB_IOC_CNTR_WAIT: the deadline has passed.
 *  - ENODEV: the device is gone.
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

/*
 * Most poll sets that one CQ, EQ or counter may be in, and most profiles of one endpoint
 * that has events.
 */
#define KFAB_OBSERVERS_MAX	64

/* Values of a deadline: one check without sleeping, and no limit. */
#define KFAB_DEADLINE_NOW	0
#define KFAB_DEADLINE_NONE	0x7fffffffffffffff

/*
 * struct kfab_info - an offer of a provider, or hints for one
 * @size: sizeof(struct kfab_info)
 * @flags: must be 0
 *
 * The fields have the names of those in the kernel's struct kfi_info and its
 * attributes; lengths are in bytes unless the name differs. In hints, 0 and the empty
 * string match anything. Strings end in a zero byte. The structure grows only at its
 * end. Part of other calls, no ioctl by itself.
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
 * @out_bytes: buffer memory that this client has, closed buffers included that are
 *	       still mapped or in use by an operation
 *
 * Versions, and the limits and sums of this client.
 *
 * Errors: none but those of every ioctl.
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
 * struct kfab_getinfo - ask the providers what they offer
 * @size: sizeof(struct kfab_getinfo)
 * @flags: must be 0
 * @version: version of the interface that the caller uses, 0 for any
 * @info_size: distance between two entries of @infos: sizeof(struct kfab_info)
 * @getinfo_flags: KFAB_SOURCE, KFAB_NUMERICHOST, KFAB_PROV_ATTR_ONLY
 * @node: address of a string of at most KFAB_NODE_MAX bytes, or 0
 * @service: the same, for a port or service
 * @hints: address of a struct kfab_info, or 0
 * @infos: address of an array, or 0 to ask only for the number
 * @count: in: entries that fit into @infos; out: entries that exist
 * @__reserved: must be 0
 *
 * Ask the providers what they offer.
 *
 * Return: the number of entries written: the smaller of @count and the number of
 * entries that exist.
 *
 * Errors:
 *
 *  - EINVAL: @info_size is below the first version of struct kfab_info or more than a
 *    page; a string is longer than KFAB_NODE_MAX
 *  - EAFNOSUPPORT: the provider serves only the initial network namespace, and the
 *    calling thread is in another one
 *  - ENODATA: nothing matches
 *  - EOPNOTSUPP: @version is newer than the kernel's interface, or @hints has a mode
 *    that users cannot serve
 *  - KFAB_EBADFLAGS: unknown bits in @getinfo_flags
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
 * @flags: 0 or KFAB_CLOSE_DISCARD_EVENTS, which has no effect on objects other than
 *	   CQs
 * @handle: the object
 * @__reserved: must be 0
 *
 * Close an object of any class. The handle is invalid afterwards. Closing a
 * connection request rejects it. For a CQ of a completion channel, the unread events
 * are dropped, and the call waits until the events that were got are acknowledged;
 * KFAB_CLOSE_DISCARD_EVENTS discards all unacknowledged events, so that neither this
 * close nor one that already waits blocks on them.
 *
 * Errors:
 *
 *  - EBUSY: a blocking call or another object uses the object, or another close of it
 *    waits for acknowledgments; nothing was changed
 *  - EINTR: a signal; nothing was changed, except that a CQ which was waiting for
 *    acknowledgments is still being closed
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
 * @handle: an endpoint of any kind, a context of a scalable one, or a memory region
 * @to: the CQ, EQ, counter or address vector; for a region the endpoint or receive
 *	context through which peers reach it, or a counter
 * @bind_flags: KFAB_TRANSMIT, KFAB_RECV, KFAB_SELECTIVE_COMPLETION for a CQ, the
 *		directions for a counter, else 0
 *
 * Bind an object to an endpoint or a memory region.
 *
 * Errors:
 *
 *  - EINVAL: the binding exists already; flags that have no meaning for these
 *    classes; an EQ of another fabric; a class that @handle or @to cannot have
 *  - EOPNOTSUPP: the provider cannot bind this class to that one
 *  - ENODEV: the device is gone
 *  - KFAB_EOPBADSTATE: the endpoint is enabled already
 *  - KFAB_EDOMAIN: @to belongs to another domain
 *  - KFAB_EBADFLAGS: flags at the bind of a memory region
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
 * @command: KFAB_ENABLE on an endpoint, context or memory region; KFAB_GETWAIT,
 *	     KFAB_GETWAITOBJ on a wait set, CQ, EQ, counter, channel or profile;
 *	     KFAB_GETFIDFLAG, KFAB_SETFIDFLAG on a wait set
 * @value: in: KFAB_SETFIDFLAG: 0 or KFAB_WAIT_EXCLUSIVE; out: KFAB_GETWAITOBJ:
 *	   KFAB_WAIT_*; KFAB_GETWAIT: a new descriptor (KFAB_WAIT_FD, or a member of a
 *	   KFAB_WAIT_POLLFD set), close-on-exec, which the caller closes;
 *	   KFAB_GETFIDFLAG: the flags. A call that fails leaves it unchanged
 *
 * A command on an object.
 *
 * Errors:
 *
 *  - EINVAL: an unknown command; a class that does not take the command; KFAB_GETWAIT
 *    on an object that has no descriptor; an unknown flag with KFAB_SETFIDFLAG
 *  - EOPNOTSUPP: a command that exists but is not offered; KFAB_GETWAIT on an object
 *    of KFAB_WAIT_QUEUE or KFAB_WAIT_MUTEX_COND; a flag command on an object other
 *    than a wait set
 *  - EBUSY: KFAB_SETFIDFLAG: a thread sleeps in the set
 *  - EMFILE: KFAB_GETWAIT: the process has as many descriptors as it may have;
 *    KFAB_ENABLE: the user has as many endpoints of this key at the address, or as
 *    much room in the queues of the device, as it may have
 *  - ENFILE: KFAB_GETWAIT: the system has as many open files as it may have
 *  - EADDRINUSE: KFAB_ENABLE: another endpoint has the address
 *  - EADDRNOTAVAIL: KFAB_ENABLE: the address is not on the device
 *  - ENODEV: KFAB_ENABLE: the device is gone
 *  - KFAB_ENOCQ: KFAB_ENABLE: no CQ is bound
 *  - KFAB_ENOEQ: KFAB_ENABLE: no EQ is bound
 *  - KFAB_ENOAV: KFAB_ENABLE: no address vector is bound
 *  - KFAB_EOPBADSTATE: KFAB_ENABLE of a context: its scalable endpoint is not
 *    enabled
 *  - KFAB_ENOKEY: KFAB_ENABLE of a memory region: another region of the endpoint has
 *    the key
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
 * @handle: the CQ or EQ that the error entry was read from, or 0
 * @err: out_prov_errno of the entry; without @handle a positive error number
 * @buf: address of the buffer for the text, always terminated
 * @buf_size: its size, at least 1; a longer text is cut
 * @__reserved: must be 0
 *
 * The text of an error, always terminated, cut to the room of the caller.
 *
 * Return: the length of the text written, without the terminating zero.
 *
 * Errors:
 *
 *  - EINVAL: @buf_size is 0, or @handle is neither a CQ nor an EQ
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
 * Opens. In all of them @context is a number of the caller, and @out_handle and @out_id
 * name the new object. If the answer cannot be written, nothing was opened.
 */

/**
 * struct kfab_fabric_open - open a fabric
 * @size: sizeof(struct kfab_fabric_open)
 * @flags: must be 0
 * @info: address of a struct kfab_info; its fabric_name and prov_name are used
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the fabric
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open a fabric.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: @info has no names
 *  - EOPNOTSUPP: a mode in @info that users cannot serve
 *  - EAFNOSUPPORT: the provider serves only the initial network namespace, and the
 *    calling thread is in another one
 *  - ENODEV: no provider has this name, or its module is being unloaded
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
 * @info: address of a struct kfab_info; its domain_* fields are used
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the domain
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open a domain of a fabric.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: @info does not describe a domain of this fabric, or @fabric is of
 *    another class
 *  - EOPNOTSUPP: a mode in @info that users cannot serve
 *  - ENODEV: no device has this name, or the device is gone
 *  - EADDRNOTAVAIL: the device's port has no address
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
 * @entries: number of events of the user that it holds, 0 for a default; bound objects
 *	     add places for their own events
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the event queue
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open an event queue of a fabric.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: more than 4096 entries; an unknown wait object; @wait_set without
 *    KFAB_WAIT_SET, or of another fabric
 *  - EOPNOTSUPP: a wait object that exists but is not offered here
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
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the wait set
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open a wait set of a fabric.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: an unknown wait object, KFAB_WAIT_NONE or KFAB_WAIT_SET
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
 * @format: KFAB_CQ_FORMAT_*; UNSPEC is TAGGED
 * @wait_obj: KFAB_WAIT_*
 * @wait_set: the wait set, with KFAB_WAIT_SET, else 0
 * @wait_cond: KFAB_CQ_COND_*
 * @signaling_vector: a CPU, with KFAB_AFFINITY, else 0
 * @cq_flags: 0 or KFAB_AFFINITY
 * @entries: least number of completions that it holds, 0 for a default
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the completion queue
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open a completion queue of a domain.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: more than 65536 entries; an unknown format, condition, flag or wait
 *    object; a CPU that does not exist; @wait_set without KFAB_WAIT_SET, or of
 *    another fabric
 *  - EOPNOTSUPP: a wait object that exists but is not offered here
 *  - ENODEV: the device is gone
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
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the counter
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open a counter of a domain.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: @events is unknown; an unknown wait object; @wait_set without
 *    KFAB_WAIT_SET, or of another fabric
 *  - EOPNOTSUPP: a wait object that exists but is not offered here
 *  - ENODEV: the device is gone
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
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the poll set
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open a poll set of a domain.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: @domain is of another class
 *  - ENODEV: the device is gone
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
 * @info: address of a struct kfab_info; it listens at src_addr
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the passive endpoint
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open a passive endpoint of a fabric.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: @info does not describe a passive endpoint of this fabric
 *  - EOPNOTSUPP: a mode in @info that users cannot serve
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
 * @connreq: the connection request to accept, or 0; on success its handle ends
 * @info: address of a struct kfab_info; 0 with @connreq: the info of the request
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the endpoint
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open an endpoint of a domain. With @connreq the endpoint is the one that accepts
 * this request; on success the handle of the request ends. If the call fails, a fault
 * included, the request is as before.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: @info does not describe an endpoint of this domain
 *  - EOPNOTSUPP: a mode in @info that users cannot serve, or a type of endpoint that
 *    the provider does not have
 *  - ENODEV: the device is gone
 *  - KFAB_EDOMAIN: the request arrived on another domain's device
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
 * @mr: the memory region that describes it, if the domain requires one for local
 *	buffers (KFAB_MR_LOCAL, KFAB_LOCAL_MR), else 0
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
 * @iov_count: elements of @iov, 1 to KFAB_IOV_MAX
 * @iov: address of an array of struct kfab_iov, with @mr 0 in each
 * @access: KFAB_SEND, KFAB_RECV, KFAB_READ, KFAB_WRITE, KFAB_REMOTE_READ,
 *	    KFAB_REMOTE_WRITE
 * @offset: must be 0
 * @requested_key: the key, unless the domain has KFAB_MR_PROV_KEY
 * @mr_flags: must be 0
 * @context: a number of the caller, returned with completions at the target of RMA
 * @out_key: the key by which a peer names the region
 * @out_iova: the address of its first byte for a peer
 * @out_handle: the memory region; while it is open, its buffers cannot be closed
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Register pieces of buffers as one memory region. For a peer they are one range. The
 * same buffer may occur twice.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: no piece, or more than KFAB_IOV_MAX; a piece beyond the end of its
 *    buffer, or with a memory region; an access that is unknown or gives none;
 *    @offset is not 0
 *  - EOPNOTSUPP: the provider's remote addresses are kernel addresses
 *  - E2BIG: the region has more pages than the device can map
 *  - ETIMEDOUT: the device did not register the region in time
 *  - ENODEV: the device is gone
 *  - EKEYREJECTED: a key that the provider reserves
 *  - KFAB_EBADFLAGS: @mr_flags is not 0
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
 * Reserved numbers: 0x1b-0x1f opens; 0x3a-0x3f atomics; 0x75-0x77 channels;
 * 0x7d-0x80 profiles; 0x9a-0x9f endpoints without a connection.
 */

#include <linux/kfabric_data.h>
#include <linux/kfabric_channel.h>
#include <linux/kfabric_rdm.h>
#include <linux/kfabric_profile.h>
#include <linux/kfabric_batch.h>
#include <linux/kfabric_ring.h>

#endif /* _UAPI_LINUX_KFABRIC_H */
