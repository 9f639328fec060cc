// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Flows that end: what a sender keeps of contexts of its peer. */
#include <linux/inet.h>
#include <linux/slab.h>

#include "hostile.h"

#define RT_CONTEXTS	16384	/* as many flows as a connection takes */
#define RT_SENDS	128	/* numbered requests without an ACK, at a time */
#define RT_SCALABLE	10	/* endpoints with so many contexts: */
#define RT_EACH		128
#define RT_RESUMED	(RT_SCALABLE * RT_EACH)	/* more than may wait */

/* What the stranger's endpoint says about the request at a place. */
static int rt_flow_say(struct rt_hostile *h, enum kfr_wire_op op, u32 n,
		       u16 epoch, enum kfr_status status)
{
	struct kfr_hdr hdr = {
		.version = KFR_VERSION,
		.op = op,
		.src = cpu_to_le16(RT_STRANGER),
		.auth = cpu_to_le32(255),
		.seq = cpu_to_le32(n),
		.epoch = cpu_to_le16(epoch),
		.count = cpu_to_le32(n),
		.status = cpu_to_le32(status),
	};

	return kfi_inject(h->ep, &hdr, sizeof(hdr), 0);
}

/*
 * What comes next into a receive that is posted, but for probes and WANTs. Return:
 * as rt_hear().
 */
static int rt_flow_next(struct rt_hostile *h, struct kfr_hdr *hdr)
{
	int op;

	while ((op = rt_hear(h, hdr)) == KFR_OP_ACK || op == KFR_OP_WANT) {
		op = rt_room(h, 1);
		if (op)
			return op;
	}
	return op;
}

/* Return: the epoch of the next message, which is EAGER; a negative errno. */
static int rt_flow_hears(struct rt_hostile *h)
{
	struct kfr_hdr hdr;
	int op = rt_room(h, 1);

	if (!op)
		op = rt_flow_next(h, &hdr);
	if (op != KFR_OP_EAGER)
		return op < 0 ? op : -EPROTO;
	return le16_to_cpu(hdr.epoch);
}

static int rt_flow_send(struct rt_side *side, kfi_addr_t addr)
{
	return kfi_send(side->ep, side->buf, 8, NULL, addr, NULL);
}

/* A short message to @b. */
static int rt_flow_to_b(struct rt *rt, struct rt_hostile *h, u32 n, u16 epoch)
{
	struct kfr_hdr hdr = {
		.version = KFR_VERSION,
		.op = KFR_OP_EAGER,
		.src = cpu_to_le16(RT_STRANGER),
		.auth = cpu_to_le32(255),
		.seq = cpu_to_le32(n),
		.epoch = cpu_to_le16(epoch),
		.count = cpu_to_le32(n),
	};
	int err = rt_number(&rt->b, &hdr.dst);

	return err ? err : kfi_inject(h->ep, &hdr, sizeof(hdr), 0);
}

/* Sends a message to @b. When this returns, all that was sent before has arrived. */
static void rt_flow_sync(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_tagged_entry entry;

	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, NULL),
	      0);
	RT_EQ(rt, rt_flow_to_b(rt, h, 1, 0), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
}

/* The first message of @a, refused and called back: it comes again. */
static void rt_flow_begins(struct rt *rt, struct rt_hostile *h,
			   kfi_addr_t *addr)
{
	RT_EQ(rt, rt_meet(h, &rt->a, 8, addr), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 1, 0, KFR_OK), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 1, 1, KFR_OK), 0);
	RT_EQ(rt, rt_flow_hears(h), 1);
}

static void rt_flow_ends_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_err_entry err;
	kfi_addr_t addr;

	rt_flow_begins(rt, h, &addr);
	RT_CHECK(rt, !rt->failed);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_ERR, 2, 1, KFR_NO_ENDPOINT), 0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EHOSTUNREACH);
	RT_EQ(rt, rt_flow_send(&rt->a, addr), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
}

/* A message of @b is acknowledged after that: the sender has heard all of it. */
static void rt_flow_ends_closed_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_tagged_entry entry;
	kfi_addr_t a, b;

	rt_flow_begins(rt, h, &a);
	RT_CHECK(rt, !rt->failed);
	RT_EQ(rt, rt_know(&rt->b, &b), 1);
	RT_EQ(rt, rt_ack(h, 2), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_flow_hears(h), 1);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 3, 2, KFR_NO_ENDPOINT), 0);
	/* Once more, of a flow that there is not any more. */
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 3, 3, KFR_NO_ENDPOINT), 0);
	RT_EQ(rt, rt_ack(h, 3), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, rt_flow_send(&rt->a, a), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
}

/*
 * The first message of @b fails, as the context is gone. Those of @a come later and
 * are forgotten: one fails, too, and the next context refuses the other. So the
 * next message of @b is in the epoch of that one.
 */
static void rt_flow_stays_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_tagged_entry entry;
	struct kfi_cq_err_entry err;
	kfi_addr_t a, b;

	/* After two that have ended, operations end in the order of their messages. */
	RT_EQ(rt, rt_meet(h, &rt->a, 8, &a), 0);
	RT_EQ(rt, rt_know(&rt->b, &b), 1);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_flow_send(&rt->a, a), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_ack(h, 2), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);

	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_flow_send(&rt->a, a), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_flow_send(&rt->a, a), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);

	RT_EQ(rt, kfi_close(&rt->a.ep->fid), 0);
	rt->a.ep = NULL;
	RT_EQ(rt, rt_flow_say(h, KFR_OP_ERR, 3, 0, KFR_NO_ENDPOINT), 0);
	RT_EQ(rt, rt_error(&rt->b, &err), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_ERR, 4, 0, KFR_NO_ENDPOINT), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 5, 0, KFR_OK), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 6, 1, KFR_OK), 0);
	RT_EQ(rt, rt_ack(h, 6), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_flow_hears(h), 1);
}

/*
 * @a closes, and its message is forgotten. The peer takes it, or refuses it; then it
 * resumes a flow that there is only if it has refused.
 */
static void rt_flow_forgotten(struct rt *rt, struct rt_hostile *h, bool refused)
{
	struct kfi_cq_tagged_entry entry;
	kfi_addr_t a, b;

	RT_EQ(rt, rt_meet(h, &rt->a, 8, &a), 0);
	RT_EQ(rt, rt_know(&rt->b, &b), 1);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, kfi_close(&rt->a.ep->fid), 0);
	rt->a.ep = NULL;
	if (refused)
		RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 1, 0, KFR_OK), 0);
	RT_EQ(rt, rt_ack(h, 1), 0);
	rt_flow_sync(rt, h);

	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 2, 1, KFR_OK), 0);
	RT_EQ(rt, rt_ack(h, 2), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_flow_hears(h), refused);
}

/*
 * Another context resumes, and counts a forgotten message whose NAK comes only then.
 * The flow is there when its own context resumes.
 */
static void rt_flow_counted_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfr_hdr other = {
		.version = KFR_VERSION,
		.op = KFR_OP_RESUME,
		.src = cpu_to_le16(RT_STRANGER),
		.auth = cpu_to_le32(255),
		.rx = cpu_to_le16(1),
		.epoch = cpu_to_le16(1),
		.count = cpu_to_le32(1),
	};
	kfi_addr_t a, b;

	RT_EQ(rt, rt_meet(h, &rt->a, 8, &a), 0);
	RT_EQ(rt, rt_know(&rt->b, &b), 1);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, kfi_close(&rt->a.ep->fid), 0);
	rt->a.ep = NULL;
	RT_EQ(rt, kfi_inject(h->ep, &other, sizeof(other), 0), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 1, 0, KFR_OK), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 1, 2, KFR_OK), 0);
	rt_flow_sync(rt, h);
	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_flow_hears(h), 2);
}

static void rt_flow_accepted_run(struct rt *rt, struct rt_hostile *h)
{
	rt_flow_forgotten(rt, h, false);
}

static void rt_flow_refused_run(struct rt *rt, struct rt_hostile *h)
{
	rt_flow_forgotten(rt, h, true);
}

/* The context is gone, and the next one of its numbers fails the message. */
static void rt_flow_answered_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_err_entry err;
	kfi_addr_t addr;

	RT_EQ(rt, rt_meet(h, &rt->a, 8, &addr), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 1, 0, KFR_OK), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 1, 1, KFR_NO_ENDPOINT), 0);
	RT_EQ(rt, rt_flow_hears(h), 1);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_ERR, 2, 1, KFR_ACCESS), 0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	/* Of a flow that there is not any more. */
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 2, 2, KFR_OK), 0);
	RT_EQ(rt, rt_flow_send(&rt->a, addr), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
}

/*
 * The context is gone, but @a's message, which it had refused, cannot be sent again:
 * @b's have filled the window. @a closes. The flow has nothing left then.
 */
static void rt_flow_unsent_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfr_hdr hdr;
	kfi_addr_t a, b;
	unsigned int i;

	RT_EQ(rt, rt_meet(h, &rt->a, 8, &a), 0);
	RT_EQ(rt, rt_know(&rt->b, &b), 1);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 1, 0, KFR_OK), 0);
	RT_EQ(rt, rt_room(h, RT_SENDS - 1), 0);
	for (i = 1; i < RT_SENDS; i++)
		RT_EQ(rt, kfi_inject(rt->b.ep, rt->b.buf, 8, b), 0);
	for (i = 1; i < RT_SENDS; i++)
		RT_EQ(rt, rt_flow_next(h, &hdr), KFR_OP_EAGER);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, RT_SENDS, 1, KFR_NO_ENDPOINT),
	      0);
	rt_flow_sync(rt, h);

	RT_EQ(rt, kfi_close(&rt->a.ep->fid), 0);
	rt->a.ep = NULL;
	RT_EQ(rt, rt_ack(h, RT_SENDS), 0);
	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
}

/*
 * A context closes while two messages are on their way there, and finds the first.
 * The second finds the next context of the number, which refuses it and resumes.
 */
static void rt_flow_replaced_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_tagged_entry entry;
	kfi_addr_t addr;
	int gone;

	rt_flow_begins(rt, h, &addr);
	RT_CHECK(rt, !rt->failed);
	RT_EQ(rt, rt_ack(h, 2), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, rt_flow_send(&rt->a, addr), 0);
	RT_EQ(rt, rt_flow_hears(h), 1);
	RT_EQ(rt, rt_flow_send(&rt->a, addr), 0);
	RT_EQ(rt, rt_flow_hears(h), 1);

	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 2, 2, KFR_NO_ENDPOINT), 0);
	gone = rt_flow_hears(h);
	RT_CHECK(rt, gone >= 0);
	RT_EQ(rt, rt_flow_hears(h), gone);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_ERR, 3, 1, KFR_NO_ENDPOINT), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 4, 1, KFR_OK), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 3, 3, KFR_OK), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 5, gone, KFR_OK), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 6, gone, KFR_OK), 0);
	RT_EQ(rt, rt_flow_hears(h), 3);
	RT_EQ(rt, rt_flow_hears(h), 3);
	RT_EQ(rt, rt_ack(h, 8), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
}

/* Return: the status of the next message, which is @op; a negative errno. */
static int rt_flow_status(struct rt_hostile *h, enum kfr_wire_op op, u32 count)
{
	struct kfr_hdr hdr;
	int got = rt_room(h, 1);

	if (!got)
		got = rt_flow_next(h, &hdr);
	if (got != op || le32_to_cpu(hdr.count) != count)
		return got < 0 ? got : -EPROTO;
	return le32_to_cpu(hdr.status);
}

/* One is kept, one refused; the flow is not blocked any more at the close. */
static void rt_flow_told_run(struct rt *rt, struct rt_hostile *h)
{
	RT_EQ(rt, rt_hostile_connect(h, &rt_hello, sizeof(rt_hello), NULL, 0),
	      0);
	RT_EQ(rt, rt_flow_to_b(rt, h, 1, 0), 0);
	RT_EQ(rt, rt_flow_to_b(rt, h, 2, 0), 0);
	RT_EQ(rt, rt_flow_status(h, KFR_OP_NAK, 2), KFR_OK);
	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, NULL),
	      0);
	RT_EQ(rt, rt_flow_status(h, KFR_OP_RESUME, 2), KFR_OK);
	RT_EQ(rt, kfi_close(&rt->b.ep->fid), 0);
	rt->b.ep = NULL;
	RT_EQ(rt, rt_flow_status(h, KFR_OP_RESUME, 2), KFR_NO_ENDPOINT);
}

/* Scalable endpoints in @b's domain, and their receive contexts. */
struct rt_crowd {
	struct kfid_ep *sep[RT_SCALABLE];
	struct kfid_ep *rx[RT_RESUMED];
};

static int rt_crowd_open_one(struct rt *rt, struct kfid_ep **sep,
			     struct kfid_ep **rx)
{
	struct kfi_info *info = kfi_dupinfo(rt->b.info);
	unsigned int i;
	int err;

	if (!info)
		return -ENOMEM;
	info->ep_attr->tx_ctx_cnt = 1;
	info->ep_attr->rx_ctx_cnt = RT_EACH;
	err = kfi_scalable_ep(rt->b.domain, info, sep, rt);
	kfi_freeinfo(info);
	if (!err)
		err = kfi_scalable_ep_bind(*sep, &rt->b.av->fid, 0);
	if (!err)
		err = kfi_enable(*sep);
	for (i = 0; i < RT_EACH && !err; i++) {
		err = kfi_rx_context(*sep, i, NULL, &rx[i], NULL);
		if (!err)
			err = kfi_ep_bind(rx[i], &rt->b.cq->fid, 0);
		if (!err)
			err = kfi_enable(rx[i]);
	}
	return err;
}

static void rt_crowd_close_contexts(struct rt_crowd *crowd)
{
	unsigned int i;

	for (i = 0; i < RT_RESUMED; i++) {
		if (crowd->rx[i])
			kfi_close(&crowd->rx[i]->fid);
		crowd->rx[i] = NULL;
	}
}

static void rt_crowd_close(struct rt_crowd *crowd)
{
	unsigned int i;

	rt_crowd_close_contexts(crowd);
	for (i = 0; i < RT_SCALABLE; i++)
		if (crowd->sep[i])
			kfi_close(&crowd->sep[i]->fid);
}

/* Two messages for a context: one is kept, one refused. */
static int rt_crowd_block(struct rt_hostile *h, struct kfid_ep *sep, u16 rx,
			  u32 *n)
{
	struct kfr_hdr hdr = {
		.version = KFR_VERSION,
		.op = KFR_OP_EAGER,
		.src = cpu_to_le16(RT_STRANGER),
		.rx = cpu_to_le16(rx),
		.auth = cpu_to_le32(255),
	};
	struct sockaddr_in name;
	size_t len = sizeof(name);
	int i, err = kfi_getname(&sep->fid, &name, &len);

	hdr.dst = cpu_to_le16(ntohs(name.sin_port));
	for (i = 0; i < 2 && !err; i++) {
		hdr.count = cpu_to_le32(++*n);
		hdr.seq = hdr.count;
		err = kfi_inject(h->ep, &hdr, sizeof(hdr), 0);
	}
	return err ? err : rt_flow_status(h, KFR_OP_NAK, *n);
}

/* All have room, or close, while the peer hears nothing. Then it hears all of them. */
static void rt_crowd_run(struct rt *rt, struct rt_hostile *h,
			 struct rt_crowd *crowd, enum kfr_status status)
{
	struct kfr_hdr hdr;
	unsigned int i;
	u32 n = 0;

	for (i = 0; i < RT_SCALABLE; i++)
		RT_EQ(rt, rt_crowd_open_one(rt, &crowd->sep[i],
					    &crowd->rx[i * RT_EACH]), 0);
	RT_EQ(rt, rt_hostile_connect(h, &rt_hello, sizeof(rt_hello), NULL, 0),
	      0);
	for (i = 0; i < RT_RESUMED; i++)
		RT_EQ(rt, rt_crowd_block(h, crowd->sep[i / RT_EACH],
					 i % RT_EACH, &n), KFR_OK);
	if (status == KFR_NO_ENDPOINT)
		rt_crowd_close_contexts(crowd);
	for (i = 0; i < RT_RESUMED && status == KFR_OK; i++)
		RT_EQ(rt, kfi_recv(crowd->rx[i], rt->b.buf, 8, NULL,
				   KFI_ADDR_UNSPEC, NULL), 0);
	for (i = 0; i < RT_RESUMED; i++) {
		if (i % RT_EACH == 0)
			RT_EQ(rt, rt_room(h, RT_EACH), 0);
		RT_EQ(rt, rt_flow_next(h, &hdr), KFR_OP_RESUME);
		RT_EQ(rt, le32_to_cpu(hdr.status), status);
	}
}

static void rt_crowd_open(struct rt *rt, struct rt_hostile *h,
			  enum kfr_status status)
{
	struct rt_crowd *crowd = kzalloc(sizeof(*crowd), GFP_KERNEL);

	RT_CHECK(rt, crowd);
	rt_crowd_run(rt, h, crowd, status);
	rt_crowd_close(crowd);
	kfree(crowd);
}

static void rt_flow_crowd_run(struct rt *rt, struct rt_hostile *h)
{
	rt_crowd_open(rt, h, KFR_OK);
}

static void rt_flow_crowd_closes_run(struct rt *rt, struct rt_hostile *h)
{
	rt_crowd_open(rt, h, KFR_NO_ENDPOINT);
}

static int rt_flow_reopen(struct rt_side *side)
{
	int err = kfi_close(&side->ep->fid);

	side->ep = NULL;
	return err ?: rt_open_ep(side);
}

/* To as many numbers, from @first on; all are heard, and none is answered. */
static int rt_flow_burst(struct rt *rt, struct rt_hostile *h, u16 first)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = in_aton(rt_second_address()),
	};
	struct kfr_hdr hdr;
	kfi_addr_t addr;
	unsigned int i;
	int err;

	err = rt_room(h, RT_SENDS);
	for (i = 0; i < RT_SENDS && !err; i++) {
		sin.sin_port = htons(first + i);
		err = kfi_av_insert(rt->a.av, &sin, 1, &addr, 0, NULL) == 1 ?
		      rt_flow_send(&rt->a, addr) : -EIO;
	}
	for (i = 0; i < RT_SENDS && !err; i++)
		err = min(rt_flow_next(h, &hdr), 0);
	return err;
}

/* All of them are refused. One request without a number was sent before. */
static int rt_flow_refuse(struct rt_hostile *h, u16 first, u32 seq)
{
	struct kfr_hdr hdr = {
		.version = KFR_VERSION,
		.op = KFR_OP_NAK,
		.auth = cpu_to_le32(255),
	};
	unsigned int i;
	int err = 0;

	for (i = 0; i < RT_SENDS && !err; i++) {
		hdr.src = cpu_to_le16(first + i);
		hdr.seq = cpu_to_le32(seq + i);
		hdr.count = cpu_to_le32(seq + i + 1);
		err = kfi_inject(h->ep, &hdr, sizeof(hdr), 0);
	}
	return err;
}

/* A reply to a request with an id, of which this is the header. */
static int rt_flow_reply(struct rt_hostile *h, const struct kfr_hdr *req,
			 enum kfr_wire_op op)
{
	struct kfr_hdr hdr = {
		.version = KFR_VERSION,
		.op = op,
		.flags = KFR_F_ID,
		.src = req->dst,
		.auth = req->auth,
		.seq = req->seq,
		.epoch = req->epoch,
	};

	return kfi_inject(h->ep, &hdr, sizeof(hdr), 0);
}

/*
 * @a sends, and closes before it has an answer; then each number refuses. @b's first
 * message, refused at last, is not lost: it is a long one, so no ACK covers it. The
 * next one comes on another connection.
 */
static void rt_flow_full_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_tagged_entry entry;
	struct kfid_ep *full;
	struct kfr_hdr hdr;
	kfi_addr_t addr;
	unsigned int n;
	int epoch;

	RT_EQ(rt, rt_meet(h, &rt->b, 5000, &addr), 0);
	RT_EQ(rt, rt_room(h, 1), 0);
	RT_EQ(rt, rt_flow_next(h, &hdr), KFR_OP_RTS);
	for (n = 0; n < RT_CONTEXTS; n += RT_SENDS) {
		RT_EQ(rt, rt_flow_burst(rt, h, RT_STRANGER + 1 + n), 0);
		RT_EQ(rt, rt_flow_reopen(&rt->a), 0);
		RT_EQ(rt, rt_flow_refuse(h, RT_STRANGER + 1 + n, n + 1), 0);
		RT_EQ(rt, rt_ack(h, n + RT_SENDS), 0);
	}
	RT_EQ(rt, rt_flow_reply(h, &hdr, KFR_OP_NAK), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, n + 1, 1, KFR_OK), 0);
	RT_EQ(rt, rt_room(h, 1), 0);
	RT_EQ(rt, rt_flow_next(h, &hdr), KFR_OP_RTS);
	RT_EQ(rt, le16_to_cpu(hdr.epoch), 1);
	RT_EQ(rt, rt_flow_reply(h, &hdr, KFR_OP_FIN), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);

	full = h->ep;
	h->ep = NULL;
	RT_EQ(rt, rt_flow_send(&rt->b, addr), 0);
	epoch = rt_hostile_accept(h);
	if (!epoch)
		epoch = rt_flow_hears(h);
	kfi_close(&full->fid);
	RT_EQ(rt, epoch, 0);
}

static void rt_flow_ends(struct rt *rt)
{
	rt_listening(rt, rt_flow_ends_run);
}

static void rt_flow_ends_closed(struct rt *rt)
{
	rt_listening(rt, rt_flow_ends_closed_run);
}

static void rt_flow_stays(struct rt *rt)
{
	rt_listening(rt, rt_flow_stays_run);
}

static void rt_flow_accepted(struct rt *rt)
{
	rt_listening(rt, rt_flow_accepted_run);
}

static void rt_flow_counted(struct rt *rt)
{
	rt_listening(rt, rt_flow_counted_run);
}

static void rt_flow_refused(struct rt *rt)
{
	rt_listening(rt, rt_flow_refused_run);
}

static void rt_flow_answered(struct rt *rt)
{
	rt_listening(rt, rt_flow_answered_run);
}

static void rt_flow_unsent(struct rt *rt)
{
	rt_listening(rt, rt_flow_unsent_run);
}

static void rt_flow_replaced(struct rt *rt)
{
	rt_listening(rt, rt_flow_replaced_run);
}

static void rt_flow_told(struct rt *rt)
{
	rt->keep = 4096;
	rt_with_hostile(rt, rt_flow_told_run);
}

static void rt_flow_crowd(struct rt *rt)
{
	rt->keep = 4096;
	rt->rx_size = 1;
	rt_with_hostile(rt, rt_flow_crowd_run);
}

static void rt_flow_crowd_closes(struct rt *rt)
{
	rt->keep = 4096;
	rt->rx_size = 1;
	rt_with_hostile(rt, rt_flow_crowd_closes_run);
}

static void rt_flow_full(struct rt *rt)
{
	rt_listening(rt, rt_flow_full_run);
}

const struct rt_case rt_flow_cases[] = {
	{ "flow_ends", rt_flow_ends },
	{ "flow_ends_closed", rt_flow_ends_closed },
	{ "flow_stays", rt_flow_stays },
	{ "flow_answered", rt_flow_answered },
	{ "flow_unsent", rt_flow_unsent },
	{ "flow_accepted", rt_flow_accepted },
	{ "flow_refused", rt_flow_refused },
	{ "flow_counted", rt_flow_counted },
	{ "flow_replaced", rt_flow_replaced },
	{ "flow_told", rt_flow_told },
	{ "flow_full", rt_flow_full },
	{ "flow_crowd", rt_flow_crowd },
	{ "flow_crowd_closes", rt_flow_crowd_closes },
	{ }
};
