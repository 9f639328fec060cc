// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Objects that close while data moves into them for a peer that takes few messages. */
#include "hostile.h"

#define RT_SERVED	5000	/* bytes that move */

/*
 * The request for the data, to @b, and then a message to @a, which is handled after it.
 */
static int rt_served_ask(struct rt *rt, struct rt_hostile *h,
			 const struct kfid_mr *from, enum kfr_wire_op op)
{
	struct kfr_hdr after = {
		.version = KFR_VERSION,
		.op = KFR_OP_EAGER,
		.src = cpu_to_le16(RT_STRANGER),
		.auth = cpu_to_le32(255),
		.seq = cpu_to_le32(1),
		.count = cpu_to_le32(2),
	};
	struct rt_ask ask;
	int err;

	err = rt_ask_for(&rt->b, op, from, RT_SERVED, &ask);
	if (!err)
		err = rt_number(&rt->a, &after.dst);
	if (!err)
		err = kfi_inject(h->ep, &ask, sizeof(ask), 0);
	return err ?: kfi_inject(h->ep, &after, sizeof(after), 0);
}

/* Messages of @a are on their way, and the data can move only after them. */
static void rt_served_begin(struct rt *rt, struct rt_hostile *h,
			    const struct kfid_mr *from, enum kfr_wire_op op)
{
	struct kfi_cq_tagged_entry entry;
	kfi_addr_t addr;

	RT_EQ(rt, rt_know(&rt->a, &addr), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	RT_EQ(rt, kfi_recv(rt->a.ep, rt->a.buf, 8, NULL, KFI_ADDR_UNSPEC, NULL),
	      0);
	RT_EQ(rt, rt_send_some(&rt->a, addr, RT_SLOW), 0);
	RT_EQ(rt, rt_hostile_accept(h), 0);
	RT_EQ(rt, rt_served_ask(rt, h, from, op), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, entry.flags, KFI_MSG | KFI_RECV);
}

/* The peer takes them one by one, and they arrive, or it takes none. */
static void rt_served_close(struct rt *rt, struct rt_hostile *h,
			    struct kfid *fid, bool deaf)
{
	struct kfi_cq_tagged_entry entry;
	int heard = KFR_OP_EAGER;
	struct rt_closer closer;
	struct kfr_hdr hdr;
	unsigned int i;
	bool closed;

	RT_EQ(rt, rt_close_begin(fid, &closer), 0);
	for (i = 0; i < RT_SLOW && !deaf && heard == KFR_OP_EAGER; i++)
		heard = rt_take_slowly(h, &hdr);
	closed = rt_closed(h, &closer);
	RT_EQ(rt, heard, KFR_OP_EAGER);
	RT_CHECK(rt, closed);
	if (deaf)
		return;
	RT_EQ(rt, rt_ack(h, RT_SLOW), 0);
	for (i = 0; i < RT_SLOW; i++)
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
}

static void rt_served_receive(struct rt *rt, struct rt_hostile *h,
			      const struct kfid_mr *from, bool deaf)
{
	struct kfid_ep *ep = rt->b.ep;

	RT_EQ(rt, kfi_recv(ep, rt->b.buf, RT_SERVED, NULL, KFI_ADDR_UNSPEC,
			   NULL), 0);
	rt_served_begin(rt, h, from, KFR_OP_RTS);
	if (rt->failed)
		return;
	rt->b.ep = NULL;
	rt_served_close(rt, h, &ep->fid, deaf);
}

static void rt_served_region(struct rt *rt, struct rt_hostile *h,
			     const struct kfid_mr *from, bool deaf)
{
	struct kfid_mr *mr;

	RT_EQ(rt, kfi_mr_reg(rt->b.domain, rt->b.buf, RT_SERVED,
			     KFI_REMOTE_WRITE, 0, 1, 0, &mr, NULL), 0);
	rt_served_begin(rt, h, from, KFR_OP_WRITE);
	if (rt->failed)
		kfi_close(&mr->fid);
	else
		rt_served_close(rt, h, &mr->fid, deaf);
}

static void rt_served_run(struct rt *rt, bool deaf,
			  void (*run)(struct rt *rt, struct rt_hostile *h,
				      const struct kfid_mr *from, bool deaf))
{
	struct rt_hostile h = { };
	struct kfid_mr *from = NULL;
	int err;

	err = rt_open(rt);
	if (!err)
		err = rt_hostile_open(&h, true);
	if (!err)
		err = kfi_mr_reg(h.domain, h.msg, RT_SERVED, KFI_REMOTE_READ, 0,
				 0, 0, &from, NULL);
	if (rt_equal(rt, __FILE__, __LINE__, "opening", err, 0))
		run(rt, &h, from, deaf);
	rt_hostile_close_ep(&h);
	if (from)
		kfi_close(&from->fid);
	rt_hostile_close(&h);
}

static void rt_close_slow_receive(struct rt *rt)
{
	rt_served_run(rt, false, rt_served_receive);
}

static void rt_close_slow_region(struct rt *rt)
{
	rt_served_run(rt, false, rt_served_region);
}

static void rt_close_deaf_receive(struct rt *rt)
{
	rt_served_run(rt, true, rt_served_receive);
}

static void rt_close_deaf_region(struct rt *rt)
{
	rt_served_run(rt, true, rt_served_region);
}

const struct rt_case rt_served_cases[] = {
	{ "close_slow_receive", rt_close_slow_receive },
	{ "close_slow_region", rt_close_slow_region },
	{ "close_deaf_receive", rt_close_deaf_receive },
	{ "close_deaf_region", rt_close_deaf_region },
	{ }
};
