/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * /dev/kfabric: atomics, and what endpoints without a connection have: tagged
 * messages, address vectors, scalable endpoints and their contexts. Part of
 * <linux/kfabric.h>, whose rules hold here; include that one.
 */
#ifndef _UAPI_LINUX_KFABRIC_RDM_H
#define _UAPI_LINUX_KFABRIC_RDM_H

#ifndef _UAPI_LINUX_KFABRIC_H
#error "include <linux/kfabric.h>"
#endif

/* Addresses in one call. */
#define KFAB_AV_INSERT_MAX	1024

/* Elements of atomics. */
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

/* What an atomic does with each remote element. */
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
 * @value: GETOPT: out; SETOPT: in
 *
 * ENOPROTOOPT: the endpoint does not have this option.
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
 * @context: the caller's, given back with the completion
 * @data: sent with KFAB_REMOTE_CQ_DATA
 * @addr: the peer; to receive: from whom, KFAB_ADDR_UNSPEC for anybody
 * @iov: address of an array of struct kfab_iov
 * @tag: of the message
 * @ignore: TRECV: bits of the tag that need not match; TSEND: 0
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
 * @flags: 0, or KFAB_POST_INJECT for KFAB_IOC_ATOMIC
 * @ep: the endpoint
 * @datatype: of an element: KFAB_UINT64 and so on
 * @op: KFAB_SUM and so on
 * @iov_count: pieces of operands, at most KFAB_IOV_MAX
 * @compare_count: pieces of values to compare with; COMPARE_ATOMIC
 * @result_count: pieces of room for previous values; FETCH_ and COMPARE_ATOMIC
 * @op_flags: as in struct kfab_msg
 * @context: the caller's, given back with the completion
 * @addr: the peer, for endpoints without a connection
 * @iov: address of an array of struct kfab_iov
 * @compare: the same
 * @result: the same
 * @rma_iov: address of an array of struct kfab_rma_iov
 * @rma_iov_count: elements of @rma_iov, at most KFAB_IOV_MAX; 1 to inject
 * @__reserved: must be 0
 *
 * Lengths are in bytes here, too, and whole elements.
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
 * struct kfab_atomic_valid - can an endpoint do this?
 * @size: sizeof(struct kfab_atomic_valid)
 * @flags: must be 0
 * @ep: the endpoint
 * @kind: KFAB_ATOMIC_PLAIN, _FETCH, _COMPARE: of the call
 * @datatype: of an element
 * @op: what to do with it
 * @out_count: elements of one call, at most
 *
 * EOPNOTSUPP: it cannot.
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
 * @av_flags: 0
 * @context: the caller's
 * @out_handle: the address vector
 * @out_id: its tracing id
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
 * @addrs: address of the addresses, one behind the other
 * @out_addrs: address of an array of __u64 for what names them from now on;
 *	       KFAB_ADDR_NOTAVAIL for one that was not inserted
 * @insert_flags: 0 or KFAB_MORE
 *
 * Return: the number of addresses inserted.
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
 * @service: the same
 * @insert_flags: 0 or KFAB_MORE
 * @out_addr: what names it from now on
 *
 * Return: 1.
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
 * @addrs: address of an array of __u64: what the inserts gave
 * @remove_flags: 0
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
 * struct kfab_av_lookup - the address behind the name of one
 * @size: sizeof(struct kfab_av_lookup)
 * @flags: must be 0
 * @av: the address vector
 * @addr_len: in: room at @addr; out: the address's length, of which at most
 *	      the room was written
 * @kfi_addr: what the insert gave
 * @addr: address of the buffer
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
 * Return: the length of the text written, without the terminating zero.
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
 * @context: the caller's
 * @out_handle: the scalable endpoint
 * @out_id: its tracing id
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
 * @info: address of a struct kfab_info, whose tx_* or rx_* fields count; 0: as
 *	  the scalable endpoint was opened
 * @context: the caller's
 * @out_handle: the context
 * @out_id: its tracing id
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
 * struct kfab_cancel - take an operation back
 * @size: sizeof(struct kfab_cancel)
 * @flags: must be 0
 * @ep: the endpoint, or a context of a scalable one
 * @__reserved: must be 0
 * @context: of the operation
 *
 * The operation completes with ECANCELED, or as ever if it was too late. ENOENT:
 * no operation with this context is posted.
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
