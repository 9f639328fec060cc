// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Peers that take all they can: answers kept for them, jobs, connections. */
#include "hostile.h"

#define RT_CONNECTIONS	7
#define RT_JOBS		1000	/* more than a peer may have */
#define RT_REPLACED	5	/* one more than a peer may leave behind */

/* Asks, and never takes an answer: there is no room for all of them. */
static void rt_flood(struct rt *rt, struct rt_hostile *h)
{
	struct kfr_hdr *hdr = (struct kfr_hdr *)h->msg;
	unsigned int i;
	int err = 0;

	RT_EQ(rt, rt_hostile_connect(h, &rt_hello, sizeof(rt_hello), NULL, 0),
	      0);
	*hdr = (struct kfr_hdr) {
		.version = KFR_VERSION,
		.op = KFR_OP_EAGER,
		.dst = cpu_to_le16(1),
	};
	for (i = 1; i <= RT_FLOOD && !err; i++) {
		hdr->seq = cpu_to_le32(i);
		hdr->count = cpu_to_le32(i);
		while ((err = kfi_inject(h->ep, hdr, sizeof(*hdr), 0)) ==
		       -KFI_EAGAIN)
			cond_resched();
	}
	RT_EQ(rt, err, -KFI_ENOTCONN);
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_takes_no_answers(struct rt *rt)
{
	rt_with_hostile(rt, rt_flood);
}

/* The number of its endpoint. */
int rt_number(struct rt_side *side, __le16 *number)
{
	struct sockaddr_in name;
	size_t len = sizeof(name);
	int err;

	err = kfi_getname(&side->ep->fid, &name, &len);
	*number = cpu_to_le16(ntohs(name.sin_port));
	return err;
}

/* The first request of a connection, to an endpoint: its data is in one segment. */
int rt_ask_for(struct rt_side *side, enum kfr_wire_op op,
	       const struct kfid_mr *mr, u32 len, struct rt_ask *ask)
{
	*ask = (struct rt_ask) {
		.hdr = {
			.version = KFR_VERSION,
			.op = op,
			.nsegs = 1,
			.src = cpu_to_le16(RT_STRANGER),
			.auth = cpu_to_le32(255),
			.seq = cpu_to_le32(1),
			.count = cpu_to_le32(1),
			.len = cpu_to_le32(len),
			.tag = cpu_to_le64(1),
		},
		.seg = {
			.addr = cpu_to_le64(mr->iova),
			.rkey = cpu_to_le32(mr->key),
			.len = cpu_to_le32(len),
		},
	};
	return rt_number(side, &ask->hdr.dst);
}

/*
 * Asks for more and more reads, and hears none of the answers: the first one is
 * in the way of all that would be written behind it.
 */
static void rt_read_on(struct rt *rt, struct rt_hostile *h,
		       const struct kfid_mr *into)
{
	struct rt_ask ask;
	unsigned int i;
	int err = 0;

	RT_EQ(rt, rt_ask_for(&rt->b, KFR_OP_READ, into, 8, &ask), 0);
	RT_EQ(rt, rt_hostile_connect(h, &rt_hello, sizeof(rt_hello), NULL, 0),
	      0);
	for (i = 1; i <= RT_JOBS && !err; i++) {
		ask.hdr.seq = cpu_to_le32(i);
		ask.hdr.count = cpu_to_le32(i);
		while ((err = kfi_inject(h->ep, &ask, sizeof(ask), 0)) ==
		       -KFI_EAGAIN)
			cond_resched();
	}
	RT_EQ(rt, rt_hostile_event(h, NULL, 0, NULL), KFI_SHUTDOWN);
	rt_hostile_close_ep(h);
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_read_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfid_mr *from, *into;

	RT_EQ(rt, kfi_mr_reg(rt->b.domain, rt->b.buf, 8, KFI_REMOTE_READ, 0, 1,
			     0, &from, NULL), 0);
	RT_EQ(rt, kfi_mr_reg(h->domain, h->msg, 8, KFI_REMOTE_WRITE, 0, 0, 0,
			     &into, NULL), 0);
	rt_read_on(rt, h, into);
	rt_hostile_close_ep(h);
	RT_EQ(rt, kfi_close(&into->fid), 0);
	RT_EQ(rt, kfi_close(&from->fid), 0);
}

static void rt_reads_on(struct rt *rt)
{
	rt_with_hostile(rt, rt_read_run);
}

/* Begins one after the other, and ends none: the oldest goes for the newest. */
static void rt_many_loop(struct rt *rt, struct rt_hostile *h,
			 struct kfid_ep **eps)
{
	unsigned int i, seen;
	int event;

	for (i = 0; i < RT_CONNECTIONS; i++) {
		RT_EQ(rt, rt_hostile_ep(h, h->info), 0);
		eps[i] = h->ep;
		h->ep = NULL;
		RT_EQ(rt, kfi_connect(eps[i], NULL, &rt_hello,
				      sizeof(rt_hello)), 0);
		/* In whatever order. */
		for (seen = 0; seen < (i < 4 ? 1 : 2); seen++) {
			event = rt_hostile_event(h, NULL, 0, NULL);
			RT_CHECK(rt, event == KFI_CONNECTED ||
				 (i >= 4 && event == KFI_SHUTDOWN));
		}
	}
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_many_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfid_ep *eps[RT_CONNECTIONS] = { };
	unsigned int i;

	rt_many_loop(rt, h, eps);
	for (i = 0; i < RT_CONNECTIONS; i++)
		if (eps[i])
			kfi_close(&eps[i]->fid);
}

static void rt_many_connections(struct rt *rt)
{
	rt_with_hostile(rt, rt_many_run);
}

/*
 * Lets the node begin one, and replaces it; then ends its own, so that the node has
 * to begin another one.
 */
static void rt_replace(struct rt *rt, struct rt_hostile *in,
		       struct rt_hostile *out, kfi_addr_t addr)
{
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, addr, in), 0);
	RT_EQ(rt, rt_hostile_accept(in), 0);
	RT_EQ(rt, rt_hostile_connect(out, &rt_hello, sizeof(rt_hello), NULL, 0),
	      0);
	RT_EQ(rt, kfi_inject(out->ep, "nonsense", 8, 0), 0);
	RT_EQ(rt, rt_hostile_event(out, NULL, 0, NULL), KFI_SHUTDOWN);
	rt_hostile_close_ep(out);
}

/* Those that the node has begun are never answered, nor closed. */
static void rt_replace_all(struct rt *rt, struct rt_hostile *in,
			   struct rt_hostile *out, struct kfid_ep **eps)
{
	struct kfi_cq_err_entry err;
	kfi_addr_t addr;
	unsigned int i;

	RT_EQ(rt, rt_know(&rt->a, &addr), 1);
	RT_EQ(rt, rt_hostile_listen(in), 0);
	for (i = 0; i < RT_REPLACED && !rt->failed; i++) {
		rt_replace(rt, in, out, addr);
		eps[i] = in->ep;
		in->ep = NULL;
	}
	RT_CHECK(rt, !rt->failed);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EHOSTUNREACH);
	RT_CHECK(rt, err.op_context == in);
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_replaces(struct rt *rt)
{
	struct kfid_ep *eps[RT_REPLACED] = { };
	struct rt_hostile in = { }, out = { };
	unsigned int i;
	int err;

	err = rt_open(rt);
	if (!err)
		err = rt_hostile_open(&in, true);
	if (!err)
		err = rt_hostile_open(&out, false);
	if (rt_equal(rt, __FILE__, __LINE__, "opening", err, 0))
		rt_replace_all(rt, &in, &out, eps);
	for (i = 0; i < RT_REPLACED; i++)
		if (eps[i])
			kfi_close(&eps[i]->fid);
	rt_hostile_close(&out);
	rt_hostile_close(&in);
}

/* To be run when no connection is allowed: it says why not. */
static void rt_full_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfr_hello said = { };

	RT_EQ(rt, rt_hostile_connect(h, &rt_hello, sizeof(rt_hello), &said,
				     sizeof(said)), -ECONNREFUSED);
	RT_EQ(rt, le16_to_cpu(said.version), KFR_VERSION);
	RT_EQ(rt, le16_to_cpu(said.refusal), KFR_REFUSE_FULL);
	/* The node's own do not count. */
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_node_full(struct rt *rt)
{
	rt_with_hostile(rt, rt_full_run);
}

const struct rt_case rt_greedy_cases[] = {
	{ "takes_no_answers", rt_takes_no_answers },
	{ "reads_on", rt_reads_on },
	{ "many_connections", rt_many_connections },
	{ "replaces", rt_replaces },
	{ "node_full", rt_node_full },
	{ }
};
