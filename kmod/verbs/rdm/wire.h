/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The structures and numbers of the wire protocol of RDM endpoints.
 * docs/rdm-wire.md describes the protocol; a unit test compares its tables with
 * this file.
 */
#ifndef _KFV_RDM_WIRE_H_
#define _KFV_RDM_WIRE_H_

#include <linux/build_bug.h>
#include <linux/types.h>

#define KFR_VERSION	3
#define KFR_MAGIC	0x4b465244	/* "KFRD" */
#define KFR_EAGER	4096		/* bytes of a payload */
#define KFR_SEGS	4		/* segments of a message */

/* Reasons for refusing a connection. */
enum kfr_refusal {
	KFR_REFUSE_VERSION,	/* @version is the one that would be accepted */
	KFR_REFUSE_FULL,	/* the node has too many connections */
};

/*
 * Private data of RDMA CM's request, reply and reject messages. The first three
 * fields have their places in all versions.
 */
struct kfr_hello {
	__le32 magic;
	__le16 version;
	__le16 refusal;	/* in a reject message: enum kfr_refusal */
	__le64 cookie;	/* lets a node find its own waiting end */
	__le32 eager;	/* maximal payload in bytes */
	__le32 reserved;
};

static_assert(sizeof(struct kfr_hello) == 24);

enum kfr_wire_op {
	KFR_OP_ACK = 1,		/* carries only @ack */
	KFR_OP_EAGER,		/* request: a message, with its data */
	KFR_OP_RTS,		/* request: a message, in segments */
	KFR_OP_READ,		/* request: write region @tag to segments */
	KFR_OP_WRITE,		/* request: write payload or segments to @tag */
	KFR_OP_FIN,		/* reply to the id @seq: done, or failed */
	KFR_OP_ERR,		/* reply to the number @seq: failed */
	KFR_OP_NAK,		/* reply to @seq: refused for now; park it */
	KFR_OP_RESUME,		/* send parked messages again, in @epoch */
	KFR_OP_CANCEL,		/* drop the request with the id @seq */
	KFR_OP_WANT,		/* send one; @data: bits of @tag to ignore */
	KFR_OP_LEAVE,		/* no request begins here any more; end it? */
	KFR_OP_LAST = KFR_OP_LEAVE,
};

enum kfr_wire_flags {
	KFR_F_TAGGED = 1,	/* @tag is a tag */
	KFR_F_DATA = 2,		/* @data is remote CQ data */
	KFR_F_ID = 4,		/* NAK: @seq is an id */
	KFR_F_PULLED = 8,	/* sent because of WANT, out of order */
	KFR_F_RMA = 16,		/* RESUME: of the flow of RMA by key */
	KFR_F_ALL = 31,
};

enum kfr_status {
	KFR_OK,
	KFR_NO_ENDPOINT,	/* no such endpoint or receive context */
	KFR_TOO_LONG,		/* truncated: @len bytes were delivered */
	KFR_NO_KEY,
	KFR_RANGE,		/* outside the region */
	KFR_ACCESS,		/* the region does not permit it */
	KFR_NO_MATCH,		/* no receive was posted in time */
	KFR_CANCELED,
	KFR_NO_MEMORY,
	KFR_IO,			/* the device failed */
	KFR_STATUS_MAX
};

/**
 * struct kfr_hdr - the header of every message
 * @version: KFR_VERSION
 * @op: enum kfr_wire_op
 * @flags: enum kfr_wire_flags
 * @nsegs: segments in the payload
 * @src: number of the sending endpoint
 * @dst: number of the receiving one
 * @rx: index of its receive context
 * @epoch: epoch of the sender's messages to this context; see RESUME
 * @seq: number, or id
 * @ack: the last number that the sender of this header has handled
 * @status: enum kfr_status, in FIN and ERR; in RESUME: KFR_NO_ENDPOINT: the
 *	context closes
 * @auth: both endpoints' authorisation key
 * @len: bytes of the message; in a reply: bytes that were delivered
 * @over: in a reply: bytes that did not fit
 * @count: requests sent on the connection, this one included; in a reply: @count
 *	of the request; in RESUME and LEAVE: requests handled so far
 * @tag: tag, or key
 * @data: remote CQ data
 * @offset: RMA: where in the region, or in the receive
 */
struct kfr_hdr {
	u8 version;
	u8 op;
	u8 flags;
	u8 nsegs;
	__le16 src;
	__le16 dst;
	__le16 rx;
	__le16 epoch;
	__le32 seq;
	__le32 ack;
	__le32 status;
	__le32 auth;
	__le32 len;
	__le32 over;
	__le32 count;
	__le64 tag;
	__le64 data;
	__le64 offset;
};

static_assert(sizeof(struct kfr_hdr) == 64);

/* Is the request numbered, that is acknowledged together with others? */
static inline bool kfr_hdr_numbered(const struct kfr_hdr *hdr)
{
	return hdr->op == KFR_OP_EAGER ||
	       (hdr->op == KFR_OP_WRITE && !hdr->nsegs &&
		!(hdr->flags & KFR_F_TAGGED));
}

/* RMA to a region, not to a receive? It is a flow of its own. */
static inline bool kfr_hdr_by_key(const struct kfr_hdr *hdr)
{
	return (hdr->op == KFR_OP_READ || hdr->op == KFR_OP_WRITE) &&
	       !(hdr->flags & KFR_F_TAGGED);
}

/* Memory of the requesting side, registered for this operation only. */
struct kfr_seg {
	__le64 addr;
	__le32 rkey;
	__le32 len;
};

static_assert(sizeof(struct kfr_seg) == 16);

#endif /* _KFV_RDM_WIRE_H_ */
