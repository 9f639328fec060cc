/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * /dev/kfabric: connections, moving data, queues, counters, wait sets and poll
 * sets. Part of <linux/kfabric.h>, whose rules hold here; include that one.
 */
#ifndef _UAPI_LINUX_KFABRIC_DATA_H
#define _UAPI_LINUX_KFABRIC_DATA_H

#ifndef _UAPI_LINUX_KFABRIC_H
#error "include <linux/kfabric.h>"
#endif

/* Connections. */

/**
 * struct kfab_listen - begin to accept connection requests
 * @size: sizeof(struct kfab_listen)
 * @flags: must be 0
 * @pep: the passive endpoint
 * @__reserved: must be 0
 */
struct kfab_listen {
	__u32 size;
	__u32 flags;
	__u32 pep;
	__u32 __reserved;
};

#define KFAB_IOC_LISTEN _IOWR(KFAB_IOC_MAGIC, 0x20, struct kfab_listen)

/**
 * struct kfab_connect - connect an endpoint, or accept a connection
 * @size: sizeof(struct kfab_connect)
 * @flags: must be 0
 * @ep: the endpoint
 * @addr_len: bytes at @addr; 0 when accepting
 * @addr: address of the peer's address, or 0 for dest_addr of the info
 * @param: address of private data for the peer, or 0
 * @param_len: bytes at @param, at most KFAB_CM_DATA_MAX
 * @__reserved: must be 0
 */
struct kfab_connect {
	__u32 size;
	__u32 flags;
	__u32 ep;
	__u32 addr_len;
	__aligned_u64 addr;
	__aligned_u64 param;
	__u32 param_len;
	__u32 __reserved;
};

#define KFAB_IOC_CONNECT _IOWR(KFAB_IOC_MAGIC, 0x21, struct kfab_connect)
#define KFAB_IOC_ACCEPT _IOWR(KFAB_IOC_MAGIC, 0x22, struct kfab_connect)

/**
 * struct kfab_reject - reject a connection request
 * @size: sizeof(struct kfab_reject)
 * @flags: must be 0
 * @pep: the passive endpoint it came to
 * @connreq: the connection request; on success its handle is closed
 * @param: address of private data for the peer, or 0
 * @param_len: bytes at @param, at most KFAB_CM_DATA_MAX
 * @__reserved: must be 0
 */
struct kfab_reject {
	__u32 size;
	__u32 flags;
	__u32 pep;
	__u32 connreq;
	__aligned_u64 param;
	__u32 param_len;
	__u32 __reserved;
};

#define KFAB_IOC_REJECT _IOWR(KFAB_IOC_MAGIC, 0x23, struct kfab_reject)

/**
 * struct kfab_shutdown - end a connection
 * @size: sizeof(struct kfab_shutdown)
 * @flags: must be 0
 * @ep: the endpoint
 * @__reserved: must be 0
 * @how: 0
 */
struct kfab_shutdown {
	__u32 size;
	__u32 flags;
	__u32 ep;
	__u32 __reserved;
	__u64 how;
};

#define KFAB_IOC_SHUTDOWN _IOWR(KFAB_IOC_MAGIC, 0x24, struct kfab_shutdown)

/**
 * struct kfab_name - an address of an endpoint
 * @size: sizeof(struct kfab_name)
 * @flags: must be 0
 * @handle: the endpoint; for KFAB_IOC_GETNAME also a passive one
 * @addr_len: in: room at @addr; out: the address's length, of which at most
 *	      the room was written
 * @addr: address of the buffer
 */
struct kfab_name {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__u32 addr_len;
	__aligned_u64 addr;
};

#define KFAB_IOC_GETNAME _IOWR(KFAB_IOC_MAGIC, 0x25, struct kfab_name)
#define KFAB_IOC_GETPEER _IOWR(KFAB_IOC_MAGIC, 0x26, struct kfab_name)

/* Data. */

/**
 * struct kfab_buf_alloc - allocate a message buffer
 * @size: sizeof(struct kfab_buf_alloc)
 * @flags: must be 0
 * @length: bytes, 1 to KFAB_BUF_MAX; rounded up to whole pages
 * @out_offset: where to mmap() it (MAP_SHARED), up to its length
 * @out_handle: the buffer
 * @__reserved: must be 0
 *
 * The memory is zeroed. It lives until nothing uses it any more: not the
 * handle, no mapping, no endpoint that it was posted on.
 */
struct kfab_buf_alloc {
	__u32 size;
	__u32 flags;
	__u64 length;
	__u64 out_offset;
	__u32 out_handle;
	__u32 __reserved;
};

#define KFAB_IOC_BUF_ALLOC _IOWR(KFAB_IOC_MAGIC, 0x19, struct kfab_buf_alloc)

/* Flag of SEND and WRITE: reusable on return, no success completion. */
#define KFAB_POST_INJECT	0x1

/**
 * struct kfab_msg - post a receive or a send
 * @size: sizeof(struct kfab_msg)
 * @flags: 0, or KFAB_POST_INJECT to send
 * @ep: the endpoint
 * @iov_count: elements of @iov, at most KFAB_IOV_MAX; at most 1 to inject
 * @op_flags: of this operation, in place of the endpoint's: KFAB_COMPLETION,
 *	      KFAB_REMOTE_CQ_DATA, KFAB_INJECT, KFAB_MORE, KFAB_FENCE, the
 *	      completion levels; with KFAB_POST_INJECT only REMOTE_CQ_DATA
 * @context: the caller's, given back with the completion
 * @data: sent with KFAB_REMOTE_CQ_DATA
 * @addr: the peer, for endpoints without a connection
 * @iov: address of an array of struct kfab_iov
 */
struct kfab_msg {
	__u32 size;
	__u32 flags;
	__u32 ep;
	__u32 iov_count;
	__u64 op_flags;
	__u64 context;
	__u64 data;
	__u64 addr;
	__aligned_u64 iov;
};

#define KFAB_IOC_RECV _IOWR(KFAB_IOC_MAGIC, 0x30, struct kfab_msg)
#define KFAB_IOC_SEND _IOWR(KFAB_IOC_MAGIC, 0x31, struct kfab_msg)

/**
 * struct kfab_rma_iov - a piece of a peer's memory region
 * @addr: out_iova of the region plus an offset, or the offset alone, as the
 *	  domain's mr_mode says (KFAB_MR_VIRT_ADDR)
 * @len: bytes
 * @key: the region's key
 *
 * Part of other calls, no ioctl by itself.
 */
struct kfab_rma_iov {
	__u64 addr;
	__u64 len;
	__u64 key;
};

/**
 * struct kfab_rma - post a remote read or write
 * @size: sizeof(struct kfab_rma)
 * @flags: 0, or KFAB_POST_INJECT to write
 * @ep: the endpoint
 * @iov_count: elements of @iov, at most KFAB_IOV_MAX; at most 1 to inject
 * @op_flags: as in struct kfab_msg
 * @context: the caller's, given back with the completion
 * @data: sent by a write with KFAB_REMOTE_CQ_DATA
 * @addr: the peer, for endpoints without a connection
 * @iov: address of an array of struct kfab_iov
 * @rma_iov: address of an array of struct kfab_rma_iov
 * @rma_iov_count: elements of @rma_iov, at most KFAB_IOV_MAX; 1 to inject
 * @__reserved: must be 0
 */
struct kfab_rma {
	__u32 size;
	__u32 flags;
	__u32 ep;
	__u32 iov_count;
	__u64 op_flags;
	__u64 context;
	__u64 data;
	__u64 addr;
	__aligned_u64 iov;
	__aligned_u64 rma_iov;
	__u32 rma_iov_count;
	__u32 __reserved;
};

#define KFAB_IOC_READ _IOWR(KFAB_IOC_MAGIC, 0x34, struct kfab_rma)
#define KFAB_IOC_WRITE _IOWR(KFAB_IOC_MAGIC, 0x35, struct kfab_rma)

/* Completion queues. */

/**
 * struct kfab_cq_entry - one completion
 * @context: of the operation
 * @flags: KFAB_MSG | KFAB_RECV and so on; from format MSG on
 * @len: bytes received; from format MSG on
 * @data: remote CQ data; from format DATA on
 * @tag: in format TAGGED
 * @src_addr: the peer if KFAB_CQ_SRC_ADDR asked for it, else 0
 * @buf_offset: where in @buf a multi-receive message begins
 * @buf: the buffer of a multi-receive message, else 0; from format DATA on
 * @__reserved: 0
 *
 * What the queue's format does not have is 0. Part of other calls, no ioctl by
 * itself.
 */
struct kfab_cq_entry {
	__u64 context;
	__u64 flags;
	__u64 len;
	__u64 data;
	__u64 tag;
	__u64 src_addr;
	__u64 buf_offset;
	__u32 buf;
	__u32 __reserved;
};

/* Flag of CQ_READ and CQ_SREAD: source addresses, too. */
#define KFAB_CQ_SRC_ADDR	0x1

/* Flag of CQ_READ: report an empty queue with KFAB_CQ_EMPTY instead of EAGAIN. */
#define KFAB_CQ_REPORT_EMPTY	0x2

/* Part of the result: the queue was empty after the entries that were read. */
#define KFAB_CQ_EMPTY		0x40000000

/**
 * struct kfab_cq_read - read completions
 * @size: sizeof(struct kfab_cq_read)
 * @flags: KFAB_CQ_*; KFAB_CQ_REPORT_EMPTY for CQ_READ only
 * @cq: the completion queue
 * @count: how many at most, less than KFAB_CQ_EMPTY; 0 makes progress and reads
 *	   nothing
 * @entries: address of an array of struct kfab_cq_entry
 * @cond: CQ_SREAD: the threshold, with KFAB_CQ_COND_THRESHOLD; CQ_READ: 0
 * @deadline: CQ_SREAD: when to give up; CQ_READ: 0
 *
 * Return: the number of completions read, plus KFAB_CQ_EMPTY if that was asked for
 * and is so: with an entry or an error left behind them it is not. EAGAIN: none;
 * KFAB_EAVAIL: an error entry comes first; KFAB_EOVERRUN: the queue has overflowed.
 */
struct kfab_cq_read {
	__u32 size;
	__u32 flags;
	__u32 cq;
	__u32 count;
	__aligned_u64 entries;
	__u64 cond;
	__s64 deadline;
};

#define KFAB_IOC_CQ_READ _IOWR(KFAB_IOC_MAGIC, 0x40, struct kfab_cq_read)
#define KFAB_IOC_CQ_SREAD _IOWR(KFAB_IOC_MAGIC, 0x41, struct kfab_cq_read)

/**
 * struct kfab_cq_readerr - read one error entry
 * @size: sizeof(struct kfab_cq_readerr)
 * @flags: must be 0
 * @cq: the completion queue
 * @err_data_size: in: room at @err_data; out: bytes of data, of which at most
 *		   the room was written
 * @err_data: address of a buffer, or 0
 * @read_flags: 0, or KFAB_PEEK to leave the entry in the queue
 * @out_context: of the operation
 * @out_flags: what the operation was
 * @out_len: bytes delivered
 * @out_data: remote CQ data
 * @out_tag: tag
 * @out_olen: bytes that did not fit
 * @out_buf_offset: as in struct kfab_cq_entry
 * @out_buf: the same
 * @out_err: a positive error number
 * @out_prov_errno: the provider's own number for it, see KFAB_IOC_STRERROR
 * @__reserved: must be 0
 *
 * Return: 1. EAGAIN: no error comes first.
 */
struct kfab_cq_readerr {
	__u32 size;
	__u32 flags;
	__u32 cq;
	__u32 err_data_size;
	__aligned_u64 err_data;
	__u64 read_flags;
	__u64 out_context;
	__u64 out_flags;
	__u64 out_len;
	__u64 out_data;
	__u64 out_tag;
	__u64 out_olen;
	__u64 out_buf_offset;
	__u32 out_buf;
	__s32 out_err;
	__s32 out_prov_errno;
	__u32 __reserved;
};

#define KFAB_IOC_CQ_READERR _IOWR(KFAB_IOC_MAGIC, 0x42, struct kfab_cq_readerr)

/**
 * struct kfab_cq_signal - free the threads that are blocked on a CQ
 * @size: sizeof(struct kfab_cq_signal)
 * @flags: must be 0
 * @cq: the completion queue
 * @__reserved: must be 0
 */
struct kfab_cq_signal {
	__u32 size;
	__u32 flags;
	__u32 cq;
	__u32 __reserved;
};

#define KFAB_IOC_CQ_SIGNAL _IOWR(KFAB_IOC_MAGIC, 0x43, struct kfab_cq_signal)

/* Event queues. */

/**
 * struct kfab_eq_read - read one event
 * @size: sizeof(struct kfab_eq_read)
 * @flags: must be 0
 * @eq: the event queue
 * @data_len: in: room at @cm_data; out: bytes of private data
 * @cm_data: address of a buffer for the private data of a connection event, or 0
 * @info: address of a struct kfab_info (its @size set) for KFAB_CONNREQ, or 0
 * @read_flags: 0, or KFAB_PEEK to leave the event in the queue
 * @deadline: EQ_SREAD: when to give up; EQ_READ: 0
 * @out_event: KFAB_CONNREQ and so on
 * @out_handle: the object it is about; 0 if there is none
 * @out_context: that object's context; of a written event the writer's
 * @out_data: of the event
 * @out_connreq: KFAB_CONNREQ, not peeked at: the connection request, to be
 *		 given to EP_OPEN or REJECT, or closed
 * @__reserved: must be 0
 *
 * Return: @size. EAGAIN: none; KFAB_EAVAIL: an error entry comes first;
 * KFAB_ETOOSMALL: the private data does not fit, nothing was read (room for
 * KFAB_CM_DATA_MAX is always enough); KFAB_EOVERRUN: the queue has overflowed.
 */
struct kfab_eq_read {
	__u32 size;
	__u32 flags;
	__u32 eq;
	__u32 data_len;
	__aligned_u64 cm_data;
	__aligned_u64 info;
	__u64 read_flags;
	__s64 deadline;
	__u32 out_event;
	__u32 out_handle;
	__u64 out_context;
	__u64 out_data;
	__u32 out_connreq;
	__u32 __reserved;
};

#define KFAB_IOC_EQ_READ _IOWR(KFAB_IOC_MAGIC, 0x48, struct kfab_eq_read)
#define KFAB_IOC_EQ_SREAD _IOWR(KFAB_IOC_MAGIC, 0x49, struct kfab_eq_read)

/**
 * struct kfab_eq_readerr - read one error entry
 * @size: sizeof(struct kfab_eq_readerr)
 * @flags: must be 0
 * @eq: the event queue
 * @err_data_size: in: room at @err_data; out: bytes of data (a rejecting
 *		   peer's private data), of which at most the room was written
 * @err_data: address of a buffer, or 0
 * @read_flags: 0, or KFAB_PEEK to leave the entry in the queue
 * @out_handle: the object it is about; 0 if there is none
 * @out_err: a positive error number
 * @out_context: that object's context
 * @out_data: of the event
 * @out_prov_errno: the provider's own number for it, see KFAB_IOC_STRERROR
 * @__reserved: must be 0
 *
 * Return: @size. EAGAIN: no error comes first.
 */
struct kfab_eq_readerr {
	__u32 size;
	__u32 flags;
	__u32 eq;
	__u32 err_data_size;
	__aligned_u64 err_data;
	__u64 read_flags;
	__u32 out_handle;
	__s32 out_err;
	__u64 out_context;
	__u64 out_data;
	__s32 out_prov_errno;
	__u32 __reserved;
};

#define KFAB_IOC_EQ_READERR _IOWR(KFAB_IOC_MAGIC, 0x4a, struct kfab_eq_readerr)

/**
 * struct kfab_eq_write - put an event of one's own into a queue
 * @size: sizeof(struct kfab_eq_write)
 * @flags: must be 0
 * @eq: the event queue
 * @event: any number, KFAB_NOTIFY by custom
 * @handle: an object that it is about, or 0
 * @__reserved: must be 0
 * @context: the writer's
 * @data: the writer's
 */
struct kfab_eq_write {
	__u32 size;
	__u32 flags;
	__u32 eq;
	__u32 event;
	__u32 handle;
	__u32 __reserved;
	__u64 context;
	__u64 data;
};

#define KFAB_IOC_EQ_WRITE _IOWR(KFAB_IOC_MAGIC, 0x4b, struct kfab_eq_write)

/* Counters. */

/**
 * struct kfab_cntr - read or change a counter
 * @size: sizeof(struct kfab_cntr)
 * @flags: must be 0
 * @cntr: the counter
 * @__reserved: must be 0
 * @value: READ, READERR: out, the count of successes or of errors;
 *	   ADD, SET, ADDERR, SETERR: in
 */
struct kfab_cntr {
	__u32 size;
	__u32 flags;
	__u32 cntr;
	__u32 __reserved;
	__u64 value;
};

#define KFAB_IOC_CNTR_READ _IOWR(KFAB_IOC_MAGIC, 0x50, struct kfab_cntr)
#define KFAB_IOC_CNTR_READERR _IOWR(KFAB_IOC_MAGIC, 0x51, struct kfab_cntr)
#define KFAB_IOC_CNTR_ADD _IOWR(KFAB_IOC_MAGIC, 0x52, struct kfab_cntr)
#define KFAB_IOC_CNTR_SET _IOWR(KFAB_IOC_MAGIC, 0x53, struct kfab_cntr)
#define KFAB_IOC_CNTR_ADDERR _IOWR(KFAB_IOC_MAGIC, 0x54, struct kfab_cntr)
#define KFAB_IOC_CNTR_SETERR _IOWR(KFAB_IOC_MAGIC, 0x55, struct kfab_cntr)

/**
 * struct kfab_cntr_wait - wait until a counter has reached a value
 * @size: sizeof(struct kfab_cntr_wait)
 * @flags: must be 0
 * @cntr: the counter
 * @__reserved: must be 0
 * @threshold: the value
 * @deadline: when to give up
 *
 * ETIMEDOUT: the deadline has passed; KFAB_EAVAIL: the error count changed.
 */
struct kfab_cntr_wait {
	__u32 size;
	__u32 flags;
	__u32 cntr;
	__u32 __reserved;
	__u64 threshold;
	__s64 deadline;
};

#define KFAB_IOC_CNTR_WAIT _IOWR(KFAB_IOC_MAGIC, 0x56, struct kfab_cntr_wait)

/* Wait sets and poll sets. */

/**
 * struct kfab_wait - wait until a member of a wait set is ready
 * @size: sizeof(struct kfab_wait)
 * @flags: must be 0
 * @wait: the wait set
 * @__reserved: must be 0
 * @deadline: when to give up
 *
 * ETIMEDOUT: the deadline has passed and nothing is ready.
 */
struct kfab_wait {
	__u32 size;
	__u32 flags;
	__u32 wait;
	__u32 __reserved;
	__s64 deadline;
};

#define KFAB_IOC_WAIT _IOWR(KFAB_IOC_MAGIC, 0x58, struct kfab_wait)

/**
 * struct kfab_poll_member - add a member to a poll set, or remove it
 * @size: sizeof(struct kfab_poll_member)
 * @flags: must be 0
 * @poll: the poll set
 * @handle: a CQ, EQ or counter
 * @poll_flags: 0
 */
struct kfab_poll_member {
	__u32 size;
	__u32 flags;
	__u32 poll;
	__u32 handle;
	__u64 poll_flags;
};

#define KFAB_IOC_POLL_ADD _IOWR(KFAB_IOC_MAGIC, 0x60, struct kfab_poll_member)
#define KFAB_IOC_POLL_DEL _IOWR(KFAB_IOC_MAGIC, 0x61, struct kfab_poll_member)

/**
 * struct kfab_poll_entry - a member of a poll set that is ready
 * @context: the member's
 * @handle: the member
 * @__reserved: 0
 *
 * Part of KFAB_IOC_POLL, no ioctl by itself.
 */
struct kfab_poll_entry {
	__u64 context;
	__u32 handle;
	__u32 __reserved;
};

/**
 * struct kfab_poll - which members of a poll set are ready?
 * @size: sizeof(struct kfab_poll)
 * @flags: must be 0
 * @poll: the poll set
 * @count: entries that fit, 1 to KFAB_POLL_MAX
 * @entries: address of an array of struct kfab_poll_entry
 *
 * Never sleeps. Return: the number of entries written, 0 if nothing is ready.
 */
struct kfab_poll {
	__u32 size;
	__u32 flags;
	__u32 poll;
	__u32 count;
	__aligned_u64 entries;
};

#define KFAB_IOC_POLL _IOWR(KFAB_IOC_MAGIC, 0x62, struct kfab_poll)

/**
 * struct kfab_trywait - may the caller block on its wait objects?
 * @size: sizeof(struct kfab_trywait)
 * @flags: must be 0
 * @fabric: the fabric that all of them live on
 * @count: handles, 1 to KFAB_POLL_MAX
 * @handles: address of an array of __u32: wait sets, CQs, EQs, counters, all with
 *	     the same kind of wait object; a member of a wait set is judged as part
 *	     of its set
 *
 * Consumes nothing. Return: 0: nothing is readable by any call, and the next
 * event will make the wait object readable. EAGAIN: do not block, there is
 * something to read. ENODEV: nothing to read, and the device is gone. EINVAL:
 * different kinds, another fabric's, or KFAB_WAIT_NONE.
 */
struct kfab_trywait {
	__u32 size;
	__u32 flags;
	__u32 fabric;
	__u32 count;
	__aligned_u64 handles;
};

#define KFAB_IOC_TRYWAIT _IOWR(KFAB_IOC_MAGIC, 0x63, struct kfab_trywait)

/**
 * struct kfab_pollfd - the members of a KFAB_WAIT_POLLFD set
 * @size: sizeof(struct kfab_pollfd)
 * @flags: must be 0
 * @wait: the wait set
 * @count: in: handles that fit; out: members that there are
 * @handles: address of an array of __u32
 * @out_change_index: moves when a member came or went, and only then
 * @__reserved: must be 0
 *
 * KFAB_GETWAIT on a member gives a descriptor of it. With @count 0 no handles are
 * written: the cheap way to read @out_change_index. KFAB_ETOOSMALL: there are
 * more members; @count and @out_change_index are written, and no handle.
 */
struct kfab_pollfd {
	__u32 size;
	__u32 flags;
	__u32 wait;
	__u32 count;
	__aligned_u64 handles;
	__u32 out_change_index;
	__u32 __reserved;
};

#define KFAB_IOC_POLLFD _IOWR(KFAB_IOC_MAGIC, 0x64, struct kfab_pollfd)

#endif /* _UAPI_LINUX_KFABRIC_DATA_H */
