// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Remote reads and writes, by key and by tag. */
#include <linux/mm.h>
#include <linux/sizes.h>
#include <linux/vmalloc.h>

#include "rtest.h"

#define RT_KEY		0x1234567890abcdULL
#define RT_TAG		99
#define RT_AROUND	SZ_1M	/* bytes of a region that nobody uses */
#define RT_WRITES	200	/* more than a small queue holds */
#define RT_QUIET_MS	200	/* a write that should wait would end by then */

static void rt_rma(struct rt *rt)
{
	static const size_t sizes[] = { 0, 8, 4096, 4097, 1 << 20 };
	struct kfi_cq_tagged_entry entry;
	struct kfid_mr *mr;
	unsigned int i;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_mr_reg(rt->b.domain, rt->b.buf, RT_BUF_SIZE,
			     KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0, RT_KEY, 0,
			     &mr, NULL), 0);
	RT_EQ(rt, kfi_mr_key(mr), RT_KEY);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t len = sizes[i];

		rt_fill(rt->a.buf, len, i);
		memset(rt->b.buf, 0xcc, len + 100);
		RT_EQ(rt, kfi_write(rt->a.ep, rt->a.buf, len, NULL, rt->a.peer,
				    7, RT_KEY, rt), 0);
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
		RT_EQ(rt, entry.flags, KFI_RMA | KFI_WRITE);
		RT_CHECK(rt, rt_filled(rt->b.buf + 7, len, i));
		RT_EQ(rt, rt->b.buf[6], 0xcc);
		RT_EQ(rt, rt->b.buf[7 + len], 0xcc);

		memset(rt->a.buf, 0, len);
		RT_EQ(rt, kfi_read(rt->a.ep, rt->a.buf, len, NULL, rt->a.peer,
				   7, RT_KEY, rt), 0);
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
		RT_EQ(rt, entry.flags, KFI_RMA | KFI_READ);
		RT_CHECK(rt, rt_filled(rt->a.buf, len, i));
	}
	RT_EQ(rt, kfi_cq_read(rt->b.cq, &entry, 1), -KFI_EAGAIN);
	RT_EQ(rt, kfi_close(&mr->fid), 0);
}

/* More than there are ids, and no registration ends to tell that one is free. */
static void rt_many_reads(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	struct kfid_mr *mr;
	unsigned int i;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_mr_reg(rt->b.domain, rt->b.buf, 8, KFI_REMOTE_READ, 0,
			     RT_KEY, 0, &mr, NULL), 0);
	for (i = 0; i < 250; i++)
		RT_EQ(rt, kfi_read(rt->a.ep, rt->a.buf, 0, NULL, rt->a.peer, 0,
				   RT_KEY, NULL), 0);
	for (i = 0; i < 250; i++)
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, kfi_close(&mr->fid), 0);
}

/*
 * An operation looks at its part of a region and at nothing else of it. What has
 * gone by then, against the rules, could not be looked at.
 */
static void rt_part_of_region(struct rt *rt)
{
	u8 *before = vmalloc(RT_AROUND), *behind = vmalloc(RT_AROUND);
	struct kvec iov[] = {
		{ .iov_base = before, .iov_len = RT_AROUND },
		{ .iov_base = NULL, .iov_len = 20000 },
		{ .iov_base = behind, .iov_len = RT_AROUND },
	};
	int err = before && behind ? rt_open(rt) : -ENOMEM;
	struct kfi_cq_tagged_entry entry;
	struct kfid_mr *mr = NULL;

	if (!err) {
		iov[1].iov_base = rt->b.buf + 5;
		err = kfi_mr_regv(rt->b.domain, iov, 3,
				  KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0,
				  RT_KEY, 0, &mr, NULL);
	}
	vfree(before);
	vfree(behind);
	RT_EQ(rt, err, 0);
	rt_fill(rt->a.buf, 20000, 3);
	err = kfi_write(rt->a.ep, rt->a.buf, 20000, NULL, rt->a.peer,
			RT_AROUND, RT_KEY, rt);
	if (!err)
		err = rt_entry(&rt->a, &entry);
	memset(rt->a.buf, 0, 20000);
	if (!err)
		err = kfi_read(rt->a.ep, rt->a.buf, 10000, NULL, rt->a.peer,
			       RT_AROUND + 7, RT_KEY, rt);
	if (!err)
		err = rt_entry(&rt->a, &entry);
	kfi_close(&mr->fid);
	RT_EQ(rt, err, 0);
	RT_CHECK(rt, rt_filled(rt->b.buf + 5, 20000, 3));
	RT_CHECK(rt, !memcmp(rt->a.buf, rt->b.buf + 12, 10000));
}

/* Data is an event at the target. */
static void rt_writedata(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	struct kfid_mr *mr;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_mr_reg(rt->b.domain, rt->b.buf, 100, KFI_REMOTE_WRITE, 0,
			     RT_KEY, 0, &mr, rt), 0);
	RT_EQ(rt, kfi_writedata(rt->a.ep, rt->a.buf, 100, NULL, 1ULL << 60,
				rt->a.peer, 0, RT_KEY, NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, entry.flags,
	      KFI_RMA | KFI_REMOTE_WRITE | KFI_REMOTE_CQ_DATA);
	RT_EQ(rt, entry.data, 1ULL << 60);
	RT_EQ(rt, entry.len, 100);
	RT_CHECK(rt, entry.op_context == rt);
	RT_EQ(rt, kfi_close(&mr->fid), 0);
}

static int rt_write_many(struct rt *rt, size_t len)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < RT_WRITES && !err; i++)
		err = kfi_writedata(rt->a.ep, rt->a.buf, len, NULL, i,
				    rt->a.peer, 0, RT_KEY, NULL);
	return err;
}

/*
 * The target does not read before its queue has no room for peers, which is half of
 * it, that is before the initiator has as many entries of its own. Meanwhile no other
 * write ends. Then it reads one by one.
 */
static void rt_read_late(struct rt *rt, size_t len)
{
	const unsigned int room = rt->b_entries / 2;
	struct kfi_cq_tagged_entry entry;
	unsigned int i;

	RT_EQ(rt, rt_write_many(rt, len), 0);
	for (i = 0; i < room; i++)
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, kfi_cq_sread(rt->a.cq, &entry, 1, NULL, RT_QUIET_MS),
	      -KFI_ETIMEDOUT);
	for (i = 0; i < RT_WRITES; i++) {
		RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
		RT_EQ(rt, entry.flags,
		      KFI_RMA | KFI_REMOTE_WRITE | KFI_REMOTE_CQ_DATA);
		RT_EQ(rt, entry.data, i);
	}
	for (i = room; i < RT_WRITES; i++)
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_write_too_many(struct rt *rt, size_t entries, size_t len)
{
	struct kfid_mr *mr;

	rt->b_entries = entries;
	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_mr_reg(rt->b.domain, rt->b.buf, len, KFI_REMOTE_WRITE, 0,
			     RT_KEY, 0, &mr, NULL), 0);
	rt_read_late(rt, len);
	RT_EQ(rt, kfi_close(&mr->fid), 0);
}

static void rt_writedata_full(struct rt *rt)
{
	rt_write_too_many(rt, 64, 1);
}

/* The same with data that the target fetches. */
static void rt_writedata_full_long(struct rt *rt)
{
	rt_write_too_many(rt, 16, 5000);
}

static void rt_rma_refused(struct rt *rt)
{
	struct kfi_cq_err_entry err;
	struct kfid_mr *mr, *twice;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_mr_reg(rt->b.domain, rt->b.buf, 10000, KFI_REMOTE_READ, 0,
			     1, 0, &mr, NULL), 0);
	RT_EQ(rt, kfi_mr_reg(rt->b.domain, rt->b.buf, 10000, KFI_REMOTE_READ, 0,
			     1, 0, &twice, NULL), -KFI_ENOKEY);
	RT_EQ(rt, kfi_read(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, 0, 2, rt),
	      0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EREMOTEIO);
	RT_EQ(rt, kfi_read(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, 9993, 1,
			   rt), 0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EREMOTEIO);
	RT_EQ(rt, kfi_read(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, ~0ULL, 1,
			   rt), 0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, kfi_write(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, 0, 1, rt),
	      0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EREMOTEIO);
	RT_EQ(rt, err.flags, KFI_RMA | KFI_WRITE);
	RT_EQ(rt, kfi_close(&mr->fid), 0);
}

/* A region that is bound to a context, as 8-byte addresses have it. */
static void rt_rma_endpoint(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	struct kfi_cq_err_entry err;
	struct kfid_mr *mr, *twice;

	rt->format = KFI_ADDR_CXI;
	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_mr_reg(rt->b.domain, rt->b.buf, 10000, KFI_REMOTE_READ, 0,
			     1, 0, &mr, NULL), 0);
	RT_EQ(rt, kfi_read(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, 0, 1, rt),
	      0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, kfi_mr_enable(mr), -KFI_EINVAL);
	RT_EQ(rt, kfi_mr_bind(mr, &rt->b.ep->fid, 0), 0);
	RT_EQ(rt, kfi_mr_enable(mr), 0);
	RT_EQ(rt, kfi_read(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, 0, 1, rt),
	      0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, kfi_mr_reg(rt->b.domain, rt->b.buf, 10, KFI_REMOTE_READ, 0,
			     1, 0, &twice, NULL), 0);
	RT_EQ(rt, kfi_mr_bind(twice, &rt->b.ep->fid, 0), 0);
	RT_EQ(rt, kfi_mr_enable(twice), -KFI_ENOKEY);
	RT_EQ(rt, kfi_close(&rt->b.ep->fid), -KFI_EBUSY);
	RT_EQ(rt, kfi_close(&twice->fid), 0);
	RT_EQ(rt, kfi_close(&mr->fid), 0);
}

/* A message of one piece, for a receive with RT_TAG. */
struct rt_tagged {
	struct kvec iov;
	struct kfi_rma_iov remote;
	struct kfi_msg_rma msg;
};

static void rt_tagged_fill(struct rt *rt, struct rt_tagged *t, size_t len)
{
	*t = (struct rt_tagged) {
		.iov = { .iov_base = rt->a.buf, .iov_len = len },
		.remote = { .len = len, .key = RT_TAG },
		.msg = {
			.type = KFI_KVEC,
			.msg_iov = &t->iov,
			.iov_count = 1,
			.addr = rt->a.peer,
			.rma_iov = &t->remote,
			.rma_iov_count = 1,
			.context = rt,
		},
	};
}

static int rt_tagged_recv(struct rt *rt, size_t len)
{
	return kfi_trecv(rt->b.ep, rt->b.buf, len, NULL, KFI_ADDR_UNSPEC,
			 RT_TAG, 0, NULL);
}

static void rt_tagged_rma_one(struct rt *rt, bool write, size_t len, bool late)
{
	u64 way = write ? KFI_WRITE : KFI_READ;
	struct kfi_cq_tagged_entry entry;
	struct rt_tagged t;

	rt_tagged_fill(rt, &t, len);
	rt_fill(write ? rt->a.buf : rt->b.buf, len, len);
	memset(write ? rt->b.buf : rt->a.buf, 0, len);
	if (!late)
		RT_EQ(rt, rt_tagged_recv(rt, len), 0);
	if (write)
		RT_EQ(rt, kfi_writemsg(rt->a.ep, &t.msg,
				       KFI_TAGGED | KFI_COMPLETION), 0);
	else
		RT_EQ(rt, kfi_readmsg(rt->a.ep, &t.msg,
				      KFI_TAGGED | KFI_COMPLETION), 0);
	if (late)
		RT_EQ(rt, rt_tagged_recv(rt, len), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, entry.flags, KFI_TAGGED | KFI_RMA | way | KFI_SEND);
	RT_CHECK(rt, rt_filled(write ? rt->b.buf : rt->a.buf, len, len));
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, entry.flags, KFI_TAGGED | KFI_RMA | way | KFI_RECV);
	RT_EQ(rt, entry.len, len);
	RT_EQ(rt, entry.tag, RT_TAG);
}

static void rt_tagged_rma(struct rt *rt)
{
	unsigned int i;

	RT_EQ(rt, rt_open(rt), 0);
	for (i = 0; i < 8 && !rt->failed; i++)
		rt_tagged_rma_one(rt, i & 1, i & 2 ? 1 << 20 : 100, i & 4);
}

/* It has not succeeded as long as it is not in a receive, however short it is. */
static void rt_tagged_write_waits(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	struct kfi_cq_err_entry err;
	struct rt_tagged t;
	unsigned int i;

	RT_EQ(rt, rt_open(rt), 0);
	for (i = 0; i < 2; i++) {
		rt_tagged_fill(rt, &t, i ? 0 : 100);
		rt_fill(rt->a.buf, 100, i);
		RT_EQ(rt, kfi_writemsg(rt->a.ep, &t.msg,
				       KFI_TAGGED | KFI_COMPLETION), 0);
		/* What was posted later is answered, and it is not. */
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer,
				   &rt->a), 0);
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
		RT_CHECK(rt, entry.op_context == &rt->a);
		RT_EQ(rt, rt_tagged_recv(rt, 100), 0);
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
		RT_CHECK(rt, entry.op_context == rt);
		RT_CHECK(rt, rt_filled(rt->b.buf, t.iov.iov_len, i));
		RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
		RT_EQ(rt, entry.len, t.iov.iov_len);
	}
	RT_EQ(rt, kfi_writemsg(rt->a.ep, &t.msg,
			       KFI_TAGGED | KFI_COMPLETION), 0);
	rt_close_side(rt, &rt->b);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EHOSTUNREACH);
	RT_CHECK(rt, err.op_context == rt);
}

/* Receives of who has not asked for tagged RMA are for messages. */
static void rt_tagged_rma_unasked(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	struct kfi_cq_err_entry err;
	struct rt_tagged t;

	rt->b_lacks = KFI_TAGGED_RMA;
	RT_EQ(rt, rt_open(rt), 0);
	rt_tagged_fill(rt, &t, 100);
	rt_fill(rt->b.buf, 100, 1);
	memset(rt->a.buf, 0, 100);
	RT_EQ(rt, rt_tagged_recv(rt, 100), 0);
	RT_EQ(rt, kfi_readmsg(rt->a.ep, &t.msg, KFI_TAGGED), 0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EREMOTEIO);
	RT_EQ(rt, kfi_writemsg(rt->a.ep, &t.msg, KFI_TAGGED), 0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EREMOTEIO);
	RT_CHECK(rt, rt_filled(rt->b.buf, 100, 1));
	RT_CHECK(rt, !rt->a.buf[7]);
	RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, RT_TAG,
			    NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, entry.flags, KFI_TAGGED | KFI_RECV);
}

/* It begins behind what a receive for many messages has already. */
static void rt_tagged_rma_multi(struct rt *rt)
{
	struct kvec in = { .iov_len = 1000 };
	struct kfi_msg_tagged recv = {
		.type = KFI_KVEC,
		.msg_iov = &in,
		.iov_count = 1,
		.addr = KFI_ADDR_UNSPEC,
		.tag = RT_TAG,
	};
	struct kfi_cq_tagged_entry entry;
	struct rt_tagged t;

	RT_EQ(rt, rt_open(rt), 0);
	rt_tagged_fill(rt, &t, 100);
	in.iov_base = rt->b.buf;
	RT_EQ(rt, kfi_trecvmsg(rt->b.ep, &recv, KFI_MULTI_RECV), 0);
	rt_fill(rt->a.buf, 100, 1);
	RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 100, NULL, rt->a.peer, RT_TAG,
			    NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	rt_fill(rt->a.buf, 100, 2);
	RT_EQ(rt, kfi_writemsg(rt->a.ep, &t.msg,
			       KFI_TAGGED | KFI_COMPLETION), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_CHECK(rt, rt_filled(rt->b.buf, 100, 1));
	RT_CHECK(rt, rt_filled(rt->b.buf + 100, 100, 2));
	rt_fill(rt->a.buf, 100, 3);
	RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 100, NULL, rt->a.peer, RT_TAG,
			    NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_CHECK(rt, entry.buf == rt->b.buf + 200);
}

const struct rt_case rt_rma_cases[] = {
	{ "rma", rt_rma },
	{ "many_reads", rt_many_reads },
	{ "part_of_region", rt_part_of_region },
	{ "writedata", rt_writedata },
	{ "writedata_full", rt_writedata_full },
	{ "writedata_full_long", rt_writedata_full_long },
	{ "rma_refused", rt_rma_refused },
	{ "rma_endpoint", rt_rma_endpoint },
	{ "tagged_rma", rt_tagged_rma },
	{ "tagged_write_waits", rt_tagged_write_waits },
	{ "tagged_rma_unasked", rt_tagged_rma_unasked },
	{ "tagged_rma_multi", rt_tagged_rma_multi },
	{ }
};
