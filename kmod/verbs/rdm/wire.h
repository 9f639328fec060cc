/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What RDM endpoints say to each other.
 *
 * DOC: Protocol
 *
 * Everything travels over reliable connections, one for each pair of IP
 * addresses, whatever endpoints are behind them. Each message is a header of 64
 * bytes, all of it little endian, and up to a page of payload.
 *
 * Data of up to a page is the payload itself (EAGER, and WRITE without
 * segments). Of more, the payload names where it lies: segments that the side
 * which asks has registered for this one operation. The other side reads or
 * writes them and answers FIN, so that no region is ever open to the network.
 * A WRITE with a tag has segments, however short it is: it may wait for its
 * receive, and it may do so in vain.
 *
 * Messages with a payload of data are numbered, from 1. They are answered
 * together: @ack of any message says that those up to it were taken. One that
 * was not is answered first, by ERR or NAK. Those with segments, and READ, have
 * an id instead and are answered one by one, by FIN or NAK.
 *
 * NAK means: no receive matches and there is no room to keep it. The sender
 * parks that message, and that context takes no other one, until RESUME says
 * that there is room and starts the next epoch: what was sent in an older one is
 * not taken, so that nothing overtakes. WANT asks for a parked message alone.
 * See flow.c.
 */
#ifndef _KFV_RDM_WIRE_H_
#define _KFV_RDM_WIRE_H_

#include <linux/build_bug.h>
#include <linux/types.h>

#define KFR_VERSION	1
#define KFR_MAGIC	0x4b465244	/* "KFRD" */
#define KFR_EAGER	4096		/* bytes of a payload */
#define KFR_SEGS	4		/* segments of a message */

/* Why a connection is refused. */
enum kfr_refusal {
	KFR_REFUSE_VERSION,	/* the version that would do is said, too */
	KFR_REFUSE_FULL,	/* there are as many as there may be */
};

/* What is said when connecting, in the private data of request and refusal. */
struct kfr_hello {
	__le32 magic;
	__le16 version;
	__le16 refusal;	/* of a refusal: why */
	__le32 cookie;	/* of the one that connects: it finds itself by it */
	__le32 eager;	/* bytes of a payload that it takes */
};

static_assert(sizeof(struct kfr_hello) == 16);

enum kfr_wire_op {
	KFR_OP_ACK = 1,		/* nothing but @ack */
	KFR_OP_EAGER,		/* a message, with its data */
	KFR_OP_RTS,		/* a message, to be read from the segments */
	KFR_OP_READ,		/* RMA: write the segments from @offset of @tag */
	KFR_OP_WRITE,		/* RMA: read the segments, or take the payload */
	KFR_OP_FIN,		/* answer to the id @seq */
	KFR_OP_ERR,		/* answer to the number @seq: failed */
	KFR_OP_NAK,		/* answer to @seq: not now */
	KFR_OP_RESUME,		/* now; @epoch begins */
	KFR_OP_CANCEL,		/* the id @seq is not wanted any more */
	KFR_OP_WANT,		/* a parked message, but for the bits @data */
	KFR_OP_LAST = KFR_OP_WANT,
};

enum kfr_wire_flags {
	KFR_F_TAGGED = 1,	/* @tag is a tag */
	KFR_F_DATA = 2,		/* @data is for the receiver's completion */
	KFR_F_ID = 4,		/* NAK: @seq is an id */
	KFR_F_PULLED = 8,	/* WANT asked for it */
	KFR_F_ALL = 15,
};

enum kfr_status {
	KFR_OK,
	KFR_NO_ENDPOINT,	/* or no such receive context */
	KFR_TOO_LONG,		/* truncated: @len bytes were delivered */
	KFR_NO_KEY,
	KFR_RANGE,		/* outside the region */
	KFR_ACCESS,		/* the region is not open for that */
	KFR_NO_MATCH,		/* nobody has posted a receive for it, in time */
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
 * @epoch: see RESUME
 * @seq: number, or id
 * @ack: the last number taken
 * @status: enum kfr_status of an answer
 * @auth: both endpoints' authorisation key
 * @len: bytes of the message; of an answer: that were delivered
 * @over: of an answer: bytes that did not fit
 * @count: requests sent on the connection, this one included; of RESUME: seen
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

/* Is it one of those with data, which are answered together? */
static inline bool kfr_hdr_numbered(const struct kfr_hdr *hdr)
{
	return hdr->op == KFR_OP_EAGER ||
	       (hdr->op == KFR_OP_WRITE && !hdr->nsegs &&
		!(hdr->flags & KFR_F_TAGGED));
}

/* Memory of the one that asks, registered for this operation. */
struct kfr_seg {
	__le64 addr;
	__le32 rkey;
	__le32 len;
};

static_assert(sizeof(struct kfr_seg) == 16);

#endif /* _KFV_RDM_WIRE_H_ */
