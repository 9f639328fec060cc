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
 *
 * Begin to accept connection requests.
 *
 * Errors:
 *
 *  - EINVAL: a handle of another class
 *  - EOPNOTSUPP: the provider has no passive endpoints
 *  - EACCES: the port is reserved, and CAP_NET_BIND_SERVICE is missing
 *  - EADDRINUSE: another socket or endpoint has the port
 *  - EADDRNOTAVAIL: the address is not on the device
 *  - ENODEV: the device is gone
 *  - KFAB_ENOEQ: no EQ is bound
 *  - KFAB_EOPBADSTATE: it listens already
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
 * @addr_len: bytes at @addr, at most KFAB_ADDR_MAX; 0 for ACCEPT
 * @addr: address of the address of the peer, or 0 for dest_addr of the info; 0 for
 *	  ACCEPT
 * @param: address of private data for the peer, or 0
 * @param_len: bytes at @param, at most KFAB_CM_DATA_MAX
 * @__reserved: must be 0
 *
 * CONNECT: Connect an endpoint. The result arrives as an event: KFAB_CONNECTED, or an
 * error entry.
 *
 * Errors of CONNECT:
 *
 *  - EINVAL: an address or private data that is too long, or an address that is not
 *    valid
 *  - EOPNOTSUPP: the endpoint has no connections
 *  - EALREADY: the endpoint is connecting
 *  - EISCONN: the endpoint is connected
 *  - EAGAIN: as many connections of the user wait for a peer as may
 *  - EMFILE: the user has as much room in the queues of the device as it may have
 *  - EACCES: a port is reserved, and CAP_NET_BIND_SERVICE is missing
 *  - EADDRNOTAVAIL: no device reaches the address
 *  - ENODEV: the device is gone
 *  - KFAB_ENOCQ: no CQ is bound
 *  - KFAB_ENOEQ: no EQ is bound
 *  - KFAB_EOPBADSTATE: the endpoint was opened with a request, or was shut down
 *
 * ACCEPT: Accept the connection of an endpoint that was opened with a request. The
 * result arrives as an event.
 *
 * Errors of ACCEPT:
 *
 *  - EINVAL: an address was given, or private data that is too long
 *  - EOPNOTSUPP: the endpoint has no connections
 *  - ECONNABORTED: the peer has given up
 *  - EMFILE: the user has as much room in the queues of the device as it may have
 *  - ENODEV: the device is gone
 *  - KFAB_ENOCQ: no CQ is bound
 *  - KFAB_ENOEQ: no EQ is bound
 *  - KFAB_EOPBADSTATE: the endpoint has no request, or has accepted it
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
 * @pep: the passive endpoint that received the request
 * @connreq: the connection request; on success its handle ends
 * @param: address of private data for the peer, or 0
 * @param_len: bytes at @param, at most KFAB_CM_DATA_MAX
 * @__reserved: must be 0
 *
 * Reject a connection request. Its handle ends.
 *
 * Errors:
 *
 *  - EINVAL: private data that is too long; a handle of another class
 *  - EOPNOTSUPP: the provider has no passive endpoints
 *  - ENODEV: the device is gone, and the request with it: its handle has ended
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
 * @how: must be 0
 *
 * End a connection.
 *
 * Errors:
 *
 *  - EINVAL: unknown bits in @how
 *  - EOPNOTSUPP: the endpoint has no connections, or @how is KFAB_READ or KFAB_WRITE
 *  - EAGAIN: as many connections of the user wait for a peer as may
 *  - ENOTCONN: the endpoint is not connected
 *  - ENODEV: the device is gone
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
 * @handle: the endpoint; for GETNAME also a passive or scalable one
 * @addr_len: in: room at @addr; out: length of the address, of which at most the room
 *	      was written
 * @addr: address of the buffer
 *
 * GETNAME: The address of an endpoint, cut to the room of the caller.
 *
 * Errors of GETNAME:
 *
 *  - EINVAL: a handle of another class
 *  - EOPNOTSUPP: the provider has no addresses
 *  - ENODEV: the device is gone
 *  - KFAB_EOPBADSTATE: the endpoint has no address yet
 *
 * GETPEER: The address of the peer of a connected endpoint, cut to the room of the
 * caller.
 *
 * Errors of GETPEER:
 *
 *  - EINVAL: a handle of another class
 *  - EOPNOTSUPP: the endpoint has no connections
 *  - ENOTCONN: the endpoint is not connected
 *  - ENODEV: the device is gone
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
 * @out_offset: offset for mmap() of the buffer (MAP_SHARED), up to its length
 * @out_handle: the buffer
 * @__reserved: must be 0
 *
 * Allocate a message buffer. mmap() it as MAP_SHARED at @out_offset; an offset
 * further in maps the rest. mmap() fails with EBADF for an offset of no handle. It
 * fails with EINVAL for an offset of an object that is no buffer, for a private
 * mapping, and for a mapping beyond the end. A mapping cannot grow: mremap() fails
 * with EFAULT. The memory is zeroed. It is charged to the client until its handle is
 * closed, no mapping is left, and no operation in flight uses it. An operation is in
 * flight from its post until its end, which is before its completion can be read, if
 * there is one. If the device is lost meanwhile, it is in flight until the endpoint is
 * closed.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: @length is 0 or above KFAB_BUF_MAX
 *  - ENOBUFS: the client, or its user, has as much buffer memory as it may have
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

/*
 * Flag of SEND, TSEND, WRITE and ATOMIC: the buffer may be reused when the call returns,
 * and a success leaves no completion.
 */
#define KFAB_POST_INJECT	0x1

/**
 * struct kfab_msg - post a receive or a send
 * @size: sizeof(struct kfab_msg)
 * @flags: 0, or KFAB_POST_INJECT to send
 * @ep: the endpoint, or a context of a scalable one: a receive context for RECV, a
 *	transmit context for SEND
 * @iov_count: elements of @iov, at most KFAB_IOV_MAX, at most 1 to inject; 0 is an
 *	       operation without data
 * @op_flags: flags of this operation, in place of those of the endpoint:
 *	      KFAB_COMPLETION, KFAB_REMOTE_CQ_DATA, KFAB_INJECT, KFAB_MORE, KFAB_FENCE,
 *	      the completion levels; with KFAB_POST_INJECT only KFAB_REMOTE_CQ_DATA
 * @context: a number of the caller, returned with the completion
 * @data: sent with KFAB_REMOTE_CQ_DATA
 * @addr: the peer, for endpoints without a connection; RECV: the peer to receive from,
 *	  KFAB_ADDR_UNSPEC for any
 * @iov: address of an array of struct kfab_iov
 *
 * RECV: Post a receive.
 *
 * Errors of RECV:
 *
 *  - EINVAL: more than KFAB_IOV_MAX pieces; a piece beyond the end of its buffer; a
 *    handle of another class; a piece without the memory region that the domain
 *    requires; a peer that the address vector does not have
 *  - EOPNOTSUPP: the endpoint does not have this operation
 *  - EAGAIN: the queue is full, or the device has no resources left; retry after
 *    reading completions
 *  - EMSGSIZE: too many bytes or pieces
 *  - ENODEV: the device is gone
 *  - KFAB_EOPBADSTATE: the endpoint is not enabled
 *  - KFAB_EDOMAIN: a memory region of another domain
 *  - KFAB_EBADFLAGS: operation flags that the endpoint does not have
 *
 * SEND: Post a send. With KFAB_POST_INJECT the buffer may be reused when the call
 * returns, and a success leaves no completion.
 *
 * Errors of SEND:
 *
 *  - EINVAL: more than KFAB_IOV_MAX pieces; a piece beyond the end of its buffer; a
 *    handle of another class; a piece without the memory region that the domain
 *    requires; a peer that the address vector does not have; KFAB_POST_INJECT with
 *    more than one piece, or with flags other than KFAB_REMOTE_CQ_DATA
 *  - EOPNOTSUPP: the endpoint does not have this operation
 *  - EAGAIN: the queue is full, or the device has no resources left; retry after
 *    reading completions
 *  - EMSGSIZE: too many bytes or pieces
 *  - ENODEV: the device is gone
 *  - ENOTCONN: the endpoint is not connected
 *  - KFAB_EOPBADSTATE: the endpoint is not enabled
 *  - KFAB_EDOMAIN: a memory region of another domain
 *  - KFAB_EBADFLAGS: operation flags that the endpoint does not have
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
 * @addr: with KFAB_MR_VIRT_ADDR in the domain's mr_mode, out_iova of the region plus an
 *	  offset; else the offset alone
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
 * @ep: the endpoint, or a transmit context of a scalable one
 * @iov_count: elements of @iov, at most KFAB_IOV_MAX; at most 1 to inject
 * @op_flags: as in struct kfab_msg
 * @context: a number of the caller, returned with the completion
 * @data: sent by a write with KFAB_REMOTE_CQ_DATA
 * @addr: the peer, for endpoints without a connection
 * @iov: address of an array of struct kfab_iov
 * @rma_iov: address of an array of struct kfab_rma_iov
 * @rma_iov_count: elements of @rma_iov, at most KFAB_IOV_MAX; 1 to inject
 * @__reserved: must be 0
 *
 * READ: Post a remote read.
 *
 * Errors of READ:
 *
 *  - EINVAL: more than KFAB_IOV_MAX pieces; a piece beyond the end of its buffer; a
 *    handle of another class; a piece without the memory region that the domain
 *    requires; a peer that the address vector does not have; no remote piece, or more
 *    than KFAB_IOV_MAX; local and remote lengths differ
 *  - EOPNOTSUPP: the endpoint does not have this operation
 *  - EAGAIN: the queue is full, or the device has no resources left; retry after
 *    reading completions
 *  - EMSGSIZE: too many bytes or pieces
 *  - ENODEV: the device is gone
 *  - ENOTCONN: the endpoint is not connected
 *  - KFAB_EOPBADSTATE: the endpoint is not enabled
 *  - KFAB_EDOMAIN: a memory region of another domain
 *  - KFAB_EBADFLAGS: operation flags that the endpoint does not have
 *
 * WRITE: Post a remote write. With KFAB_POST_INJECT as SEND.
 *
 * Errors of WRITE:
 *
 *  - EINVAL: more than KFAB_IOV_MAX pieces; a piece beyond the end of its buffer; a
 *    handle of another class; a piece without the memory region that the domain
 *    requires; a peer that the address vector does not have; no remote piece, or more
 *    than KFAB_IOV_MAX; local and remote lengths differ; KFAB_POST_INJECT with more
 *    than one piece on either side, or with flags other than KFAB_REMOTE_CQ_DATA
 *  - EOPNOTSUPP: the endpoint does not have this operation
 *  - EAGAIN: the queue is full, or the device has no resources left; retry after
 *    reading completions
 *  - EMSGSIZE: too many bytes or pieces
 *  - ENODEV: the device is gone
 *  - ENOTCONN: the endpoint is not connected
 *  - KFAB_EOPBADSTATE: the endpoint is not enabled
 *  - KFAB_EDOMAIN: a memory region of another domain
 *  - KFAB_EBADFLAGS: operation flags that the endpoint does not have
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
 * @context: context of the operation
 * @flags: KFAB_MSG | KFAB_RECV and so on; in formats MSG, DATA, TAGGED
 * @len: bytes received; in formats MSG, DATA, TAGGED
 * @data: remote CQ data; in formats DATA, TAGGED
 * @tag: in format TAGGED
 * @src_addr: the peer, with KFAB_CQ_SRC_ADDR, else 0
 * @buf_offset: offset in @buf at which a multi-receive message begins
 * @buf: the buffer of a multi-receive message; 0 for other messages, and, but in a ring,
 *	 if the handle of the buffer is closed; in formats DATA, TAGGED
 * @err: in a ring (kfabric_ring.h): not 0: this is an error, which
 *	 KFAB_IOC_CQ_READERR reads; otherwise 0
 *
 * Fields that the queue's format does not have are 0. Part of other calls, no ioctl by
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
	__u32 err;
};

/* Flag of CQ_READ and CQ_SREAD: fill in source addresses. */
#define KFAB_CQ_SRC_ADDR	0x1

/* Flag of CQ_READ: report an empty queue with KFAB_CQ_EMPTY instead of EAGAIN. */
#define KFAB_CQ_REPORT_EMPTY	0x2

/* Part of the result: the queue was empty after the entries that were read. */
#define KFAB_CQ_EMPTY		0x40000000

/**
 * struct kfab_cq_read - read completions
 * @size: sizeof(struct kfab_cq_read)
 * @flags: KFAB_CQ_SRC_ADDR: fill in source addresses; CQ_READ: KFAB_CQ_REPORT_EMPTY
 * @cq: the completion queue
 * @count: most entries to read, less than KFAB_CQ_EMPTY; CQ_READ: 0 makes progress and
 *	   reads nothing
 * @entries: address of an array of struct kfab_cq_entry
 * @cond: CQ_SREAD: the threshold, if the CQ was opened with KFAB_CQ_COND_THRESHOLD;
 *	  CQ_READ: 0
 * @deadline: CQ_SREAD: the deadline; CQ_READ: 0
 *
 * CQ_READ: Read completions, oldest first, without waiting. With KFAB_CQ_REPORT_EMPTY
 * the result also reports that the queue was seen empty after the entries, which
 * saves the call that would find that out, and EAGAIN does not occur. Without
 * KFAB_CQ_EMPTY in the result more may be left: entries, an error, an overrun. A
 * signal ends a read after the entries that it has read so far.
 *
 * Result of CQ_READ: the number of completions read; with KFAB_CQ_REPORT_EMPTY plus
 * KFAB_CQ_EMPTY if the queue was seen empty after them.
 *
 * Errors of CQ_READ:
 *
 *  - EINVAL: @cond or @deadline is not 0; @count is KFAB_CQ_EMPTY or more; a handle
 *    of another class
 *  - EBUSY: the CQ has a ring, and @count is not 0
 *  - EAGAIN: no completion; not with KFAB_CQ_REPORT_EMPTY
 *  - KFAB_EAVAIL: an error entry comes first
 *  - KFAB_EOVERRUN: the queue has overflowed; only closing it helps
 *
 * CQ_SREAD: Read completions, waiting for the first; in a CQ of
 * KFAB_CQ_COND_THRESHOLD until there are @cond. At the deadline fewer are returned. A
 * signal ends a read that has @cond entries.
 *
 * Result of CQ_SREAD: the number of completions read.
 *
 * Errors of CQ_SREAD:
 *
 *  - EINVAL: @count is 0, or KFAB_CQ_EMPTY or more; @deadline is negative; a
 *    threshold above the size of the CQ; a CQ without a wait object of its own; a
 *    handle of another class
 *  - EBUSY: the CQ has a ring
 *  - EINTR: a handler without SA_RESTART ran
 *  - EAGAIN: no completion, and the deadline has passed or CQ_SIGNAL was called; or
 *    CQ_SIGNAL was called, and a signal came while another thread read
 *  - ENODEV: the device is gone and every entry was read
 *  - KFAB_EAVAIL: an error entry comes first
 *  - KFAB_EOVERRUN: the queue has overflowed; only closing it helps
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
 * @err_data_size: in: room at @err_data; out: bytes of data, of which at most the room
 *		   was written
 * @err_data: address of a buffer for data of the provider, or 0
 * @read_flags: 0, or KFAB_PEEK to leave the entry in the queue
 * @out_context: context of the operation
 * @out_flags: kind of the operation, as in an entry
 * @out_len: bytes that were delivered
 * @out_data: remote CQ data
 * @out_tag: tag
 * @out_olen: bytes that did not fit
 * @out_buf_offset: as in struct kfab_cq_entry
 * @out_buf: as in struct kfab_cq_entry
 * @out_err: a positive error number
 * @out_prov_errno: the provider's own number for it, see KFAB_IOC_STRERROR
 * @__reserved: must be 0
 *
 * Read one error entry. One error goes to one reader.
 *
 * Return: 1.
 *
 * Errors:
 *
 *  - EINVAL: flags other than KFAB_PEEK, or a handle of another class
 *  - EAGAIN: no error comes first
 *  - KFAB_EOVERRUN: the queue has overflowed; only closing it helps
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
 * struct kfab_cq_signal - wake the threads that are blocked on a CQ
 * @size: sizeof(struct kfab_cq_signal)
 * @flags: must be 0
 * @cq: the completion queue
 * @__reserved: must be 0
 *
 * End the sleep of all threads in CQ_SREAD, and in the CQ's wait set. A later call is
 * not affected, and no entry is hidden.
 *
 * Errors:
 *
 *  - EINVAL: a CQ without a wait object, or a handle of another class
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
 * @deadline: EQ_SREAD: the deadline; EQ_READ: 0
 * @out_event: KFAB_CONNREQ and so on
 * @out_handle: the object that the event is about, 0 without one; for an event that
 *		was written with EQ_WRITE the number given there, perhaps of an object
 *		that is closed
 * @out_context: context of that object; for an event that was written with EQ_WRITE
 *		 the writer's
 * @out_data: data of the event
 * @out_connreq: KFAB_CONNREQ without KFAB_PEEK: the connection request, for EP_OPEN,
 *		 REJECT or CLOSE
 * @__reserved: must be 0
 *
 * EQ_READ: Read one event without waiting.
 *
 * Result of EQ_READ: the size of the structure.
 *
 * Errors of EQ_READ:
 *
 *  - EINVAL: @deadline is not 0; flags other than KFAB_PEEK; @info has a size that is
 *    not valid; a handle of another class
 *  - EMFILE: no handle for a connection request, which stays unread
 *  - ENOSPC: the same: the client has used up all handles
 *  - EAGAIN: no event
 *  - KFAB_EAVAIL: an error entry comes first
 *  - KFAB_ETOOSMALL: the private data does not fit; nothing was read, and
 *    KFAB_CM_DATA_MAX bytes always suffice
 *
 * EQ_SREAD: Read one event, waiting for it.
 *
 * Result of EQ_SREAD: the size of the structure.
 *
 * Errors of EQ_SREAD:
 *
 *  - EINVAL: @deadline is negative; flags other than KFAB_PEEK; @info has a size that
 *    is not valid; an EQ without a wait object of its own; a handle of another class
 *  - EINTR: a handler without SA_RESTART ran
 *  - EMFILE: no handle for a connection request, which stays unread
 *  - ENOSPC: the same: the client has used up all handles
 *  - EAGAIN: no event, and the deadline has passed
 *  - KFAB_EAVAIL: an error entry comes first
 *  - KFAB_ETOOSMALL: the private data does not fit; nothing was read, and
 *    KFAB_CM_DATA_MAX bytes always suffice
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
 * @err_data_size: in: room at @err_data; out: bytes of data (the private data of a
 *		   peer that rejected), of which at most the room was written
 * @err_data: address of a buffer, or 0
 * @read_flags: 0, or KFAB_PEEK to leave the entry in the queue
 * @out_handle: the object that the error is about, 0 without one
 * @out_err: a positive error number
 * @out_context: context of that object
 * @out_data: data of the event
 * @out_prov_errno: the provider's own number for it, see KFAB_IOC_STRERROR
 * @__reserved: must be 0
 *
 * Read one error entry. For a refused connection the data is the peer's private data.
 *
 * Return: the size of the structure.
 *
 * Errors:
 *
 *  - EINVAL: flags other than KFAB_PEEK, or a handle of another class
 *  - EAGAIN: no error comes first
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
 * struct kfab_eq_write - put an event of the caller's own into a queue
 * @size: sizeof(struct kfab_eq_write)
 * @flags: must be 0
 * @eq: the event queue
 * @event: any number; by convention KFAB_NOTIFY
 * @handle: an open object that the event is about, or 0
 * @__reserved: must be 0
 * @context: a number of the caller, returned with the event
 * @data: a number of the caller, returned with the event
 *
 * Put an event of the caller's own into a queue. EQ_READ returns it as it was
 * written, whatever number @event is, also if the object of @handle is closed by then.
 *
 * Errors:
 *
 *  - EINVAL: @eq is of another class
 *  - EAGAIN: as many events of the user are unread as the queue holds
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
 * @value: READ, READERR: out: the count of successes or of errors; ADD, SET, ADDERR,
 *	   SETERR: in: the number to add or to set
 *
 * CNTR_READ: Read the count of successes. Only CNTR_READ and CNTR_READERR move the
 * marks by which a wait set knows what was read.
 *
 * Errors of CNTR_READ:
 *
 *  - EINVAL: a handle of another class
 *
 * CNTR_READERR: Read the count of errors. Only CNTR_READ and CNTR_READERR move the
 * marks by which a wait set knows what was read.
 *
 * Errors of CNTR_READERR:
 *
 *  - EINVAL: a handle of another class
 *
 * CNTR_ADD: Add to the count of successes. Ends waits in progress, and leaves nothing
 * to read.
 *
 * Errors of CNTR_ADD:
 *
 *  - EINVAL: a handle of another class
 *
 * CNTR_SET: Set the count of successes. Ends waits in progress, and leaves nothing to
 * read.
 *
 * Errors of CNTR_SET:
 *
 *  - EINVAL: a handle of another class
 *
 * CNTR_ADDERR: Add to the count of errors. This is an error change: the counter is
 * ready.
 *
 * Errors of CNTR_ADDERR:
 *
 *  - EINVAL: a handle of another class
 *
 * CNTR_SETERR: Set the count of errors. This is an error change: the counter is
 * ready.
 *
 * Errors of CNTR_SETERR:
 *
 *  - EINVAL: a handle of another class
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
 * @threshold: the value to wait for
 * @deadline: the deadline
 * @error_changes: in: 0; a call that goes on passes the number that EINTR has left.
 *		   out: 0, after EINTR one more than the changes of the count of errors
 *		   before the call
 *
 * Wait until a counter has reached a value. A call that is repeated after EINTR with
 * the same structure goes on: an error in between is reported, too.
 *
 * Errors:
 *
 *  - EINVAL: @deadline is negative; a counter without a wait object of its own; a
 *    handle of another class
 *  - EINTR: a handler without SA_RESTART ran
 *  - ETIMEDOUT: the deadline has passed
 *  - ENODEV: the device is gone and the value was not reached
 *  - KFAB_EAVAIL: the count of errors changed during the call
 */
struct kfab_cntr_wait {
	__u32 size;
	__u32 flags;
	__u32 cntr;
	__u32 __reserved;
	__u64 threshold;
	__s64 deadline;
	__u64 error_changes;
};

#define KFAB_IOC_CNTR_WAIT _IOWR(KFAB_IOC_MAGIC, 0x56, struct kfab_cntr_wait)

/* Wait sets and poll sets. */

/**
 * struct kfab_wait - wait until a member of a wait set is ready
 * @size: sizeof(struct kfab_wait)
 * @flags: must be 0
 * @wait: the wait set
 * @__reserved: must be 0
 * @deadline: the deadline
 *
 * Wait until a member of a wait set is ready, or this thread was woken since it began
 * to wait. Another thread may have emptied the member meanwhile. In an exclusive set
 * each publication wakes one sleeper; a thread whose WAIT returned 0 then owes a read
 * of a member or another WAIT, and if it does neither, the others sleep until the
 * next publication.
 *
 * Errors:
 *
 *  - EINVAL: @deadline is negative, or a handle of another class
 *  - EINTR: a handler without SA_RESTART ran
 *  - ETIMEDOUT: the deadline has passed and nothing is ready
 *  - ENODEV: the devices of all members are gone, and nothing is left to read
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
 * @poll_flags: must be 0
 *
 * POLL_ADD: Add a member to a poll set. A member that is ready is reported by the
 * next POLL.
 *
 * Errors of POLL_ADD:
 *
 *  - EINVAL: an object of another domain or fabric; @poll_flags is not 0; a handle of
 *    another class
 *  - EALREADY: it is a member
 *  - ENOSPC: @handle is in KFAB_OBSERVERS_MAX poll sets
 *
 * POLL_DEL: Remove a member from a poll set. No POLL that begins after the call
 * reports it.
 *
 * Errors of POLL_DEL:
 *
 *  - EINVAL: not a member; @poll_flags is not 0; a handle of another class
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
 * @context: context of the member
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
 * struct kfab_poll - report the members of a poll set that are ready
 * @size: sizeof(struct kfab_poll)
 * @flags: must be 0
 * @poll: the poll set
 * @count: entries that fit, 1 to KFAB_POLL_MAX
 * @entries: address of an array of struct kfab_poll_entry
 *
 * Report the members of a poll set that are ready. Never sleeps until something is
 * ready.
 *
 * Return: the number of entries written, 0 if nothing is ready.
 *
 * Errors:
 *
 *  - EINVAL: @count is 0 or above KFAB_POLL_MAX; no @entries; a handle of another
 *    class
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
 * struct kfab_trywait - ask whether the caller may block on wait objects
 * @size: sizeof(struct kfab_trywait)
 * @flags: must be 0
 * @fabric: the fabric that all of the objects belong to
 * @count: handles, 1 to KFAB_POLL_MAX
 * @handles: address of an array of __u32: wait sets, CQs, EQs, counters, all with the
 *	     same kind of wait object
 *
 * Ask whether the caller may block on the descriptors of these objects. 0: nothing
 * can be read of any of them, and the next event makes a descriptor readable. A
 * member of a wait set is judged as the set, and its kind is the set's. Consumes
 * nothing, and there is no signal to clear first.
 *
 * Errors:
 *
 *  - EINVAL: @count is 0 or above KFAB_POLL_MAX; objects of different kinds of wait
 *    object, of another fabric or class, or without a wait object
 *  - EAGAIN: something can be read: do not block
 *  - ENODEV: nothing can be read, and the device of one of the objects is gone
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
 * @wait: a wait set of KFAB_WAIT_POLLFD that is not exclusive
 * @count: in: handles that fit; out: members that exist
 * @handles: address of an array of __u32
 * @out_change_index: changes when a member is added or removed, and only then
 * @__reserved: must be 0
 *
 * List the members of a KFAB_WAIT_POLLFD set. KFAB_GETWAIT on a member gives its
 * descriptor. With @count 0 no handle is written: the cheap way to read
 * @out_change_index. A thread that polls the descriptors is not woken when a member
 * is added; a thread in WAIT is, when that member becomes ready.
 *
 * Errors:
 *
 *  - EINVAL: a set of another kind, or an exclusive one; a handle of another class
 *  - KFAB_ETOOSMALL: there are more members; @count and @out_change_index are written
 *    all the same, and no handle
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
