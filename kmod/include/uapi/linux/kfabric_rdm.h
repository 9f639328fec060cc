/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * /dev/kfabric: options, tagged messages, atomics, address vectors, scalable endpoints
 * and their contexts, and cancelling. Part of
 * <linux/kfabric.h>, whose rules hold here; include that one.
 */
#ifndef _UAPI_LINUX_KFABRIC_RDM_H
#define _UAPI_LINUX_KFABRIC_RDM_H

#ifndef _UAPI_LINUX_KFABRIC_H
#error "include <linux/kfabric.h>"
#endif

/* Most addresses in one call. */
#define KFAB_AV_INSERT_MAX	1024

/* Types of the elements of atomics. */
#define KFAB_INT8		0
#define KFAB_UINT8		1
#define KFAB_INT16		2
#define KFAB_UINT16		3
#define KFAB_INT32		4
#define KFAB_UINT32		5
#define KFAB_INT64		6
#define KFAB_UINT64		7
#define KFAB_FLOAT		8
#define KFAB_DOUBLE		9
#define KFAB_FLOAT_COMPLEX	10
#define KFAB_DOUBLE_COMPLEX	11
#define KFAB_LONG_DOUBLE	12
#define KFAB_LONG_DOUBLE_COMPLEX 13

/* Operations of atomics on each remote element. */
#define KFAB_MIN		0
#define KFAB_MAX		1
#define KFAB_SUM		2
#define KFAB_PROD		3
#define KFAB_LOR		4
#define KFAB_LAND		5
#define KFAB_BOR		6
#define KFAB_BAND		7
#define KFAB_LXOR		8
#define KFAB_BXOR		9
#define KFAB_ATOMIC_READ	10
#define KFAB_ATOMIC_WRITE	11
#define KFAB_CSWAP		12
#define KFAB_CSWAP_NE		13
#define KFAB_CSWAP_LE		14
#define KFAB_CSWAP_LT		15
#define KFAB_CSWAP_GE		16
#define KFAB_CSWAP_GT		17
#define KFAB_MSWAP		18

/* Kinds of atomic calls, for KFAB_IOC_ATOMIC_VALID. */
#define KFAB_ATOMIC_PLAIN	0
#define KFAB_ATOMIC_FETCH	1
#define KFAB_ATOMIC_COMPARE	2

/* Options of endpoints. */

/**
 * struct kfab_opt - read or set an option of an endpoint
 * @size: sizeof(struct kfab_opt)
 * @flags: must be 0
 * @handle: an endpoint, scalable endpoint or context
 * @level: KFAB_OPT_ENDPOINT
 * @optname: KFAB_OPT_MIN_MULTI_RECV, KFAB_OPT_CM_DATA_SIZE, KFAB_OPT_KEEPALIVE
 * @__reserved: must be 0
 * @value: GETOPT: out: the value; SETOPT: in: the value
 *
 * GETOPT: Read an option of an endpoint.
 *
 * Errors of GETOPT:
 *
 *  - EINVAL: a handle of another class
 *  - EOPNOTSUPP: the provider has no options
 *  - ENOPROTOOPT: an unknown level, or the endpoint does not have this option
 *
 * SETOPT: Set an option of an endpoint.
 *
 * Errors of SETOPT:
 *
 *  - EINVAL: a handle of another class
 *  - EOPNOTSUPP: the provider has no options
 *  - ENOPROTOOPT: an unknown level, or the endpoint does not have this option, or it
 *    cannot be set
 *  - E2BIG: the value is too large
 *  - ENODEV: the device is gone
 */
struct kfab_opt {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__u32 level;
	__u32 optname;
	__u32 __reserved;
	__u64 value;
};

#define KFAB_IOC_GETOPT _IOWR(KFAB_IOC_MAGIC, 0x06, struct kfab_opt)
#define KFAB_IOC_SETOPT _IOWR(KFAB_IOC_MAGIC, 0x07, struct kfab_opt)

/* Tagged messages. */

/**
 * struct kfab_tmsg - post a tagged receive or send
 * @size: sizeof(struct kfab_tmsg)
 * @flags: 0, or KFAB_POST_INJECT to send
 * @ep: the endpoint, or a context of a scalable one
 * @iov_count: elements of @iov, at most KFAB_IOV_MAX; at most 1 to inject
 * @op_flags: as in struct kfab_msg
 * @context: a number of the caller, returned with the completion
 * @data: sent with KFAB_REMOTE_CQ_DATA
 * @addr: the peer; TRECV: the peer to receive from, KFAB_ADDR_UNSPEC for any
 * @iov: address of an array of struct kfab_iov
 * @tag: tag of the message
 * @ignore: TRECV: bits of the tag that need not match; TSEND: must be 0
 *
 * TRECV: Post a tagged receive.
 *
 * Errors of TRECV:
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
 * TSEND: Post a tagged send. With KFAB_POST_INJECT as SEND.
 *
 * Errors of TSEND:
 *
 *  - EINVAL: more than KFAB_IOV_MAX pieces; a piece beyond the end of its buffer; a
 *    handle of another class; a piece without the memory region that the domain
 *    requires; a peer that the address vector does not have; KFAB_POST_INJECT with
 *    more than one piece, or with flags other than KFAB_REMOTE_CQ_DATA; @ignore is
 *    not 0
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
struct kfab_tmsg {
	__u32 size;
	__u32 flags;
	__u32 ep;
	__u32 iov_count;
	__u64 op_flags;
	__u64 context;
	__u64 data;
	__u64 addr;
	__aligned_u64 iov;
	__u64 tag;
	__u64 ignore;
};

#define KFAB_IOC_TRECV _IOWR(KFAB_IOC_MAGIC, 0x32, struct kfab_tmsg)
#define KFAB_IOC_TSEND _IOWR(KFAB_IOC_MAGIC, 0x33, struct kfab_tmsg)

/* Atomics. */

/**
 * struct kfab_atomic - post an atomic
 * @size: sizeof(struct kfab_atomic)
 * @flags: 0, or KFAB_POST_INJECT for ATOMIC: with one operand and @op_flags 0
 * @ep: the endpoint
 * @datatype: type of an element: KFAB_UINT64 and so on
 * @op: operation: KFAB_SUM and so on
 * @iov_count: pieces of operands, at most KFAB_IOV_MAX; 0 for KFAB_ATOMIC_READ. All
 *	       lengths are in bytes, and whole elements
 * @compare_count: COMPARE_ATOMIC: pieces of values to compare with; else 0
 * @result_count: FETCH_ATOMIC and COMPARE_ATOMIC: pieces of room for previous values;
 *		  ATOMIC: 0
 * @op_flags: as in struct kfab_msg
 * @context: a number of the caller, returned with the completion
 * @addr: the peer, for endpoints without a connection
 * @iov: address of an array of struct kfab_iov
 * @compare: the same, for the values to compare with
 * @result: the same, for the previous values
 * @rma_iov: address of an array of struct kfab_rma_iov
 * @rma_iov_count: elements of @rma_iov, at most KFAB_IOV_MAX; 1 to inject
 * @__reserved: must be 0
 *
 * ATOMIC: Post an atomic without a result.
 *
 * Errors of ATOMIC:
 *
 *  - EINVAL: an unknown @datatype or @op; no remote piece, or more than KFAB_IOV_MAX;
 *    a length that is not a whole number of elements; numbers of elements that
 *    differ; a piece beyond the end of its buffer; a handle of another class; pieces
 *    to compare or for results; KFAB_POST_INJECT with other than one operand and one
 *    remote piece, or with @op_flags
 *  - EOPNOTSUPP: the endpoint does not have this operation on this type
 *  - EAGAIN: the queue is full, or the device has no resources left; retry after
 *    reading completions
 *  - EMSGSIZE: too many elements or pieces
 *  - ENOTCONN: the endpoint is not connected
 *  - ENODEV: the device is gone
 *  - KFAB_EOPBADSTATE: the endpoint is not enabled
 *  - KFAB_EDOMAIN: a memory region of another domain
 *  - KFAB_EBADFLAGS: operation flags that the endpoint does not have
 *
 * FETCH_ATOMIC: Post an atomic that also returns the previous values.
 *
 * Errors of FETCH_ATOMIC:
 *
 *  - EINVAL: an unknown @datatype or @op; no remote piece, or more than KFAB_IOV_MAX;
 *    a length that is not a whole number of elements; numbers of elements that
 *    differ; a piece beyond the end of its buffer; a handle of another class; pieces
 *    to compare
 *  - EOPNOTSUPP: the endpoint does not have this operation on this type
 *  - EAGAIN: the queue is full, or the device has no resources left; retry after
 *    reading completions
 *  - EMSGSIZE: too many elements or pieces
 *  - ENOTCONN: the endpoint is not connected
 *  - ENODEV: the device is gone
 *  - KFAB_EOPBADSTATE: the endpoint is not enabled
 *  - KFAB_EDOMAIN: a memory region of another domain
 *  - KFAB_EBADFLAGS: operation flags that the endpoint does not have
 *
 * COMPARE_ATOMIC: Post an atomic that compares first, and also returns the previous
 * values.
 *
 * Errors of COMPARE_ATOMIC:
 *
 *  - EINVAL: an unknown @datatype or @op; no remote piece, or more than KFAB_IOV_MAX;
 *    a length that is not a whole number of elements; numbers of elements that
 *    differ; a piece beyond the end of its buffer; a handle of another class
 *  - EOPNOTSUPP: the endpoint does not have this operation on this type
 *  - EAGAIN: the queue is full, or the device has no resources left; retry after
 *    reading completions
 *  - EMSGSIZE: too many elements or pieces
 *  - ENOTCONN: the endpoint is not connected
 *  - ENODEV: the device is gone
 *  - KFAB_EOPBADSTATE: the endpoint is not enabled
 *  - KFAB_EDOMAIN: a memory region of another domain
 *  - KFAB_EBADFLAGS: operation flags that the endpoint does not have
 */
struct kfab_atomic {
	__u32 size;
	__u32 flags;
	__u32 ep;
	__u32 datatype;
	__u32 op;
	__u32 iov_count;
	__u32 compare_count;
	__u32 result_count;
	__u64 op_flags;
	__u64 context;
	__u64 addr;
	__aligned_u64 iov;
	__aligned_u64 compare;
	__aligned_u64 result;
	__aligned_u64 rma_iov;
	__u32 rma_iov_count;
	__u32 __reserved;
};

#define KFAB_IOC_ATOMIC _IOWR(KFAB_IOC_MAGIC, 0x36, struct kfab_atomic)
#define KFAB_IOC_FETCH_ATOMIC _IOWR(KFAB_IOC_MAGIC, 0x37, struct kfab_atomic)
#define KFAB_IOC_COMPARE_ATOMIC _IOWR(KFAB_IOC_MAGIC, 0x38, struct kfab_atomic)

/**
 * struct kfab_atomic_valid - ask whether an endpoint has an atomic
 * @size: sizeof(struct kfab_atomic_valid)
 * @flags: must be 0
 * @ep: the endpoint
 * @kind: KFAB_ATOMIC_PLAIN, KFAB_ATOMIC_FETCH or KFAB_ATOMIC_COMPARE
 * @datatype: type of an element
 * @op: operation
 * @out_count: most elements of one call
 *
 * Ask whether an endpoint has an atomic. Over verbs it may have one aligned element
 * of 64 bits: SUM and ATOMIC_WRITE, fetching SUM and ATOMIC_READ, comparing CSWAP, if
 * the device has atomics. The region needs KFAB_REMOTE_READ and KFAB_REMOTE_WRITE.
 *
 * Errors:
 *
 *  - EINVAL: an unknown @datatype, @op or @kind, or a handle of another class
 *  - EOPNOTSUPP: the endpoint does not have this operation on this type
 */
struct kfab_atomic_valid {
	__u32 size;
	__u32 flags;
	__u32 ep;
	__u32 kind;
	__u32 datatype;
	__u32 op;
	__u64 out_count;
};

#define KFAB_IOC_ATOMIC_VALID _IOWR(KFAB_IOC_MAGIC, 0x39, struct kfab_atomic_valid)

/* Address vectors. */

/**
 * struct kfab_av_open - open an address vector of a domain
 * @size: sizeof(struct kfab_av_open)
 * @flags: must be 0
 * @domain: the domain
 * @type: KFAB_AV_*
 * @rx_ctx_bits: top bits of an address that select a receive context
 * @__reserved: must be 0
 * @count: addresses to expect, 0 for a default
 * @ep_per_node: endpoints on one node to expect, 0 if unknown
 * @av_flags: must be 0
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the address vector
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open an address vector of a domain.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: an unknown @type or flag; more @rx_ctx_bits than 16; a handle of another
 *    class
 *  - EOPNOTSUPP: asynchronous inserts (KFAB_COMPLETION in @av_flags), or the provider
 *    has no endpoints without a connection
 *  - ENODEV: the device is gone
 */
struct kfab_av_open {
	__u32 size;
	__u32 flags;
	__u32 domain;
	__u32 type;
	__u32 rx_ctx_bits;
	__u32 __reserved;
	__u64 count;
	__u64 ep_per_node;
	__u64 av_flags;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_AV_OPEN _IOWR(KFAB_IOC_MAGIC, 0x90, struct kfab_av_open)

/**
 * struct kfab_av_insert - insert addresses
 * @size: sizeof(struct kfab_av_insert)
 * @flags: must be 0
 * @av: the address vector
 * @count: addresses, 1 to KFAB_AV_INSERT_MAX
 * @addr_len: bytes of each, 1 to KFAB_ADDR_MAX
 * @__reserved: must be 0
 * @addrs: address of the addresses, one after the other
 * @out_addrs: address of an array of __u64 for the kfi_addr of each;
 *	       KFAB_ADDR_NOTAVAIL for one that was not inserted
 * @insert_flags: 0 or KFAB_MORE
 *
 * Insert addresses. If at least one was inserted, the call succeeds, and @out_addrs
 * has KFAB_ADDR_NOTAVAIL for each of the others. If the call fails, the array is
 * unchanged; only after EFAULT a part of it may have been written.
 *
 * Return: the number of addresses inserted.
 *
 * Errors:
 *
 *  - EINVAL: @count is 0 or above KFAB_AV_INSERT_MAX; @addr_len is 0 or above
 *    KFAB_ADDR_MAX; unknown flags; the last address is not valid
 *  - EOPNOTSUPP: the provider cannot insert addresses
 *  - ENOSPC: the vector is full
 */
struct kfab_av_insert {
	__u32 size;
	__u32 flags;
	__u32 av;
	__u32 count;
	__u32 addr_len;
	__u32 __reserved;
	__aligned_u64 addrs;
	__aligned_u64 out_addrs;
	__u64 insert_flags;
};

#define KFAB_IOC_AV_INSERT _IOWR(KFAB_IOC_MAGIC, 0x91, struct kfab_av_insert)

/**
 * struct kfab_av_insertsvc - insert an address given as text
 * @size: sizeof(struct kfab_av_insertsvc)
 * @flags: must be 0
 * @av: the address vector
 * @__reserved: must be 0
 * @node: address of a string of at most KFAB_NODE_MAX bytes, or 0
 * @service: the same, for a port
 * @insert_flags: 0 or KFAB_MORE
 * @out_addr: the kfi_addr of the address
 *
 * Insert an address given as text.
 *
 * Return: 1.
 *
 * Errors:
 *
 *  - EINVAL: unknown flags, or a text that is no address or longer than KFAB_NODE_MAX
 *  - EOPNOTSUPP: the provider cannot insert texts
 *  - ENOSPC: the vector is full
 */
struct kfab_av_insertsvc {
	__u32 size;
	__u32 flags;
	__u32 av;
	__u32 __reserved;
	__aligned_u64 node;
	__aligned_u64 service;
	__u64 insert_flags;
	__u64 out_addr;
};

#define KFAB_IOC_AV_INSERTSVC _IOWR(KFAB_IOC_MAGIC, 0x92, struct kfab_av_insertsvc)

/**
 * struct kfab_av_remove - remove addresses
 * @size: sizeof(struct kfab_av_remove)
 * @flags: must be 0
 * @av: the address vector
 * @count: addresses, 1 to KFAB_AV_INSERT_MAX
 * @addrs: address of an array of __u64: the kfi_addr of each
 * @remove_flags: must be 0
 *
 * Remove addresses.
 *
 * Errors:
 *
 *  - EINVAL: @count is 0 or above KFAB_AV_INSERT_MAX; @remove_flags is not 0; an
 *    address that is not in the vector
 *  - EOPNOTSUPP: the provider cannot remove addresses
 */
struct kfab_av_remove {
	__u32 size;
	__u32 flags;
	__u32 av;
	__u32 count;
	__aligned_u64 addrs;
	__u64 remove_flags;
};

#define KFAB_IOC_AV_REMOVE _IOWR(KFAB_IOC_MAGIC, 0x93, struct kfab_av_remove)

/**
 * struct kfab_av_lookup - look up the address of a kfi_addr
 * @size: sizeof(struct kfab_av_lookup)
 * @flags: must be 0
 * @av: the address vector
 * @addr_len: in: room at @addr; out: length of the address, of which at most the room
 *	      was written
 * @kfi_addr: the kfi_addr that the insert returned
 * @addr: address of the buffer
 *
 * The address that a kfi_addr names, cut to the room of the caller.
 *
 * Errors:
 *
 *  - EINVAL: not in the vector, or a handle of another class
 *  - EOPNOTSUPP: the provider cannot look addresses up
 */
struct kfab_av_lookup {
	__u32 size;
	__u32 flags;
	__u32 av;
	__u32 addr_len;
	__u64 kfi_addr;
	__aligned_u64 addr;
};

#define KFAB_IOC_AV_LOOKUP _IOWR(KFAB_IOC_MAGIC, 0x94, struct kfab_av_lookup)

/**
 * struct kfab_av_straddr - the text of an address
 * @size: sizeof(struct kfab_av_straddr)
 * @flags: must be 0
 * @av: the address vector
 * @addr_len: bytes at @addr, 1 to KFAB_ADDR_MAX
 * @addr: address of the address, which need not be in the vector
 * @buf: address of the buffer for the text, always terminated
 * @buf_size: its size, at least 1; a longer text is cut
 * @__reserved: must be 0
 *
 * The text of an address, always terminated, cut to the room of the caller.
 *
 * Return: the length of the text written, without the terminating zero.
 *
 * Errors:
 *
 *  - EINVAL: @buf_size is 0; @addr_len is 0 or above KFAB_ADDR_MAX; a handle of
 *    another class
 *  - EOPNOTSUPP: the provider has no text for addresses
 */
struct kfab_av_straddr {
	__u32 size;
	__u32 flags;
	__u32 av;
	__u32 addr_len;
	__aligned_u64 addr;
	__aligned_u64 buf;
	__u32 buf_size;
	__u32 __reserved;
};

#define KFAB_IOC_AV_STRADDR _IOWR(KFAB_IOC_MAGIC, 0x95, struct kfab_av_straddr)

/* Scalable endpoints. */

/**
 * struct kfab_sep_open - open a scalable endpoint of a domain
 * @size: sizeof(struct kfab_sep_open)
 * @flags: must be 0
 * @domain: the domain
 * @__reserved: must be 0
 * @info: address of a struct kfab_info
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the scalable endpoint
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open a scalable endpoint of a domain.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: @info does not describe a scalable endpoint of this domain
 *  - EOPNOTSUPP: a mode in @info that users cannot serve, or the provider has no
 *    scalable endpoints
 *  - ENODEV: the device is gone
 */
struct kfab_sep_open {
	__u32 size;
	__u32 flags;
	__u32 domain;
	__u32 __reserved;
	__aligned_u64 info;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_SEP_OPEN _IOWR(KFAB_IOC_MAGIC, 0x96, struct kfab_sep_open)

/**
 * struct kfab_ctx_open - open a context of a scalable endpoint
 * @size: sizeof(struct kfab_ctx_open)
 * @flags: must be 0
 * @sep: the scalable endpoint
 * @index: of the context, from 0
 * @info: address of a struct kfab_info, whose tx_* or rx_* fields are used; 0: as the
 *	  scalable endpoint was opened
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the context
 * @out_id: its id in tracepoints, unique in the machine
 *
 * TX_CTX_OPEN: Open a transmit context of a scalable endpoint.
 *
 * Errors of TX_CTX_OPEN:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: an index that does not exist or is in use, or a handle of another class
 *  - EOPNOTSUPP: a mode in @info that users cannot serve, or the provider has no such
 *    contexts
 *  - ENODEV: the device is gone
 *
 * RX_CTX_OPEN: Open a receive context of a scalable endpoint.
 *
 * Errors of RX_CTX_OPEN:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: an index that does not exist or is in use, or a handle of another class
 *  - EOPNOTSUPP: a mode in @info that users cannot serve, or the provider has no such
 *    contexts
 *  - ENODEV: the device is gone
 */
struct kfab_ctx_open {
	__u32 size;
	__u32 flags;
	__u32 sep;
	__u32 index;
	__aligned_u64 info;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_TX_CTX_OPEN _IOWR(KFAB_IOC_MAGIC, 0x97, struct kfab_ctx_open)
#define KFAB_IOC_RX_CTX_OPEN _IOWR(KFAB_IOC_MAGIC, 0x98, struct kfab_ctx_open)

/**
 * struct kfab_cancel - cancel an operation
 * @size: sizeof(struct kfab_cancel)
 * @flags: must be 0
 * @ep: the endpoint, or a context of a scalable one
 * @__reserved: must be 0
 * @context: context of the operation
 *
 * Cancel the oldest operation with this context. The operation completes with
 * ECANCELED, or normally if it was too late.
 *
 * Errors:
 *
 *  - EINVAL: a handle of another class
 *  - EOPNOTSUPP: the provider cannot cancel on this kind of endpoint; over verbs
 *    these are endpoints with a connection
 *  - ENOENT: no operation with this context is posted
 *  - ENODEV: the device is gone
 */
struct kfab_cancel {
	__u32 size;
	__u32 flags;
	__u32 ep;
	__u32 __reserved;
	__u64 context;
};

#define KFAB_IOC_CANCEL _IOWR(KFAB_IOC_MAGIC, 0x99, struct kfab_cancel)

#endif /* _UAPI_LINUX_KFABRIC_RDM_H */
