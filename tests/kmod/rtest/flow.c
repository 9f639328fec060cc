// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Flows that end: what a sender keeps of contexts of its peer. */
#include <linux/inet.h>
#include <linux/slab.h>

#include "hostile.h"

#define RT_CONTEXTS	16384	/* as many flows as a connection takes */
#define RT_SENDS	256	/* of an endpoint, at a time */

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

/* It has handled all requests up to a number. */
static int rt_flow_ack(struct rt_hostile *h, u32 n)
{
	struct kfr_hdr hdr = {
		.version = KFR_VERSION,
		.op = KFR_OP_ACK,
		.ack = cpu_to_le32(n),
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

/* The first message of @a, refused and called back: it comes again. */
static void rt_flow_begins(struct rt *rt, struct rt_hostile *h, kfi_addr_t addr)
{
	RT_EQ(rt, rt_hostile_listen(h), 0);
	RT_EQ(rt, rt_flow_send(&rt->a, addr), 0);
	RT_EQ(rt, rt_hostile_accept(h), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 1, 0, KFR_OK), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 1, 1, KFR_OK), 0);
	RT_EQ(rt, rt_flow_hears(h), 1);
}

static void rt_flow_ends_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_err_entry err;
	kfi_addr_t addr;

	RT_EQ(rt, rt_know(&rt->a, &addr), 1);
	rt_flow_begins(rt, h, addr);
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

	RT_EQ(rt, rt_know(&rt->a, &a), 1);
	RT_EQ(rt, rt_know(&rt->b, &b), 1);
	rt_flow_begins(rt, h, a);
	RT_CHECK(rt, !rt->failed);
	RT_EQ(rt, rt_flow_ack(h, 2), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_flow_hears(h), 1);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 3, 2, KFR_NO_ENDPOINT), 0);
	/* Once more, of a flow that there is not any more. */
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 3, 3, KFR_NO_ENDPOINT), 0);
	RT_EQ(rt, rt_flow_ack(h, 3), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, rt_flow_send(&rt->a, a), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
}

/*
 * The first message of @b fails, as the context is gone. That of @a comes later
 * and is forgotten, while the next context refuses it. So the next message of @b
 * is in the epoch of that one.
 */
static void rt_flow_stays_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_tagged_entry entry;
	struct kfi_cq_err_entry err;
	kfi_addr_t a, b;

	RT_EQ(rt, rt_know(&rt->a, &a), 1);
	RT_EQ(rt, rt_know(&rt->b, &b), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_hostile_accept(h), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_flow_send(&rt->a, a), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);

	RT_EQ(rt, kfi_close(&rt->a.ep->fid), 0);
	rt->a.ep = NULL;
	RT_EQ(rt, rt_flow_say(h, KFR_OP_ERR, 1, 0, KFR_NO_ENDPOINT), 0);
	RT_EQ(rt, rt_error(&rt->b, &err), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 2, 0, KFR_OK), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, 3, 1, KFR_OK), 0);
	RT_EQ(rt, rt_flow_ack(h, 3), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, rt_flow_send(&rt->b, b), 0);
	RT_EQ(rt, rt_flow_hears(h), 1);
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

static int rt_flow_reopen(struct rt_side *side)
{
	int err = kfi_close(&side->ep->fid);

	side->ep = NULL;
	if (!err)
		err = kfi_endpoint(side->domain, side->info, &side->ep, side);
	if (!err)
		err = kfi_ep_bind(side->ep, &side->av->fid, 0);
	if (!err)
		err = kfi_ep_bind(side->ep, &side->cq->fid,
				  KFI_TRANSMIT | KFI_RECV);
	return err ? err : kfi_enable(side->ep);
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

/*
 * @a sends, and closes before it has an answer, so that each number may still
 * refuse. @b's first message, refused at last, is not lost. The next one comes on
 * another connection.
 */
static void rt_flow_full_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_tagged_entry entry;
	struct kfid_ep *full;
	kfi_addr_t addr;
	unsigned int n;
	int epoch;

	RT_EQ(rt, rt_know(&rt->b, &addr), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	RT_EQ(rt, rt_flow_send(&rt->b, addr), 0);
	RT_EQ(rt, rt_hostile_accept(h), 0);
	RT_EQ(rt, rt_flow_hears(h), 0);
	for (n = 0; n < RT_CONTEXTS; n += RT_SENDS) {
		RT_EQ(rt, rt_flow_burst(rt, h, RT_STRANGER + 1 + n), 0);
		RT_EQ(rt, rt_flow_reopen(&rt->a), 0);
	}
	RT_EQ(rt, rt_flow_say(h, KFR_OP_NAK, 1, 0, KFR_OK), 0);
	RT_EQ(rt, rt_flow_say(h, KFR_OP_RESUME, n + 1, 1, KFR_OK), 0);
	RT_EQ(rt, rt_flow_hears(h), 1);
	RT_EQ(rt, rt_flow_ack(h, n + 2), 0);
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

static void rt_flow_told(struct rt *rt)
{
	rt->keep = 4096;
	rt_with_hostile(rt, rt_flow_told_run);
}

static void rt_flow_full(struct rt *rt)
{
	rt_listening(rt, rt_flow_full_run);
}

const struct rt_case rt_flow_cases[] = {
	{ "flow_ends", rt_flow_ends },
	{ "flow_ends_closed", rt_flow_ends_closed },
	{ "flow_stays", rt_flow_stays },
	{ "flow_told", rt_flow_told },
	{ "flow_full", rt_flow_full },
	{ }
};
