// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Messages that find their receive. */
#include <linux/mm.h>
#include <linux/slab.h>

#include "rtest.h"

#define RT_MOST		(4U << 20)	/* bytes of the largest message */

static void rt_tagged(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	kfi_addr_t src = 0;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 64, NULL, KFI_ADDR_UNSPEC, 7,
			    0, &rt->b), 0);
	rt_fill(rt->a.buf, 64, 1);
	RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 64, NULL, rt->a.peer, 7,
			    &rt->a), 0);
	RT_EQ(rt, rt_entry_from(&rt->b, &entry, &src), 0);
	RT_EQ(rt, entry.flags, KFI_TAGGED | KFI_RECV);
	RT_CHECK(rt, entry.op_context == &rt->b);
	RT_EQ(rt, entry.len, 64);
	RT_EQ(rt, entry.tag, 7);
	RT_EQ(rt, src, rt->b.peer);
	RT_CHECK(rt, rt_filled(rt->b.buf, 64, 1));
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, entry.flags, KFI_TAGGED | KFI_SEND);
	RT_CHECK(rt, entry.op_context == &rt->a);
}

static void rt_cxi_addresses(struct rt *rt)
{
	rt->format = KFI_ADDR_CXI;
	rt_tagged(rt);
}

static void rt_table(struct rt *rt)
{
	rt->av_type = KFI_AV_TABLE;
	rt_tagged(rt);
	RT_EQ(rt, rt->a.peer, 0);
}

/* To and fro: each message answers the one before. */
static void rt_pingpong(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	unsigned int i, sent = 0;
	struct rt_side *side, *other;

	RT_EQ(rt, rt_open(rt), 0);
	for (i = 0; i < 499; i++) {
		side = i & 1 ? &rt->b : &rt->a;
		other = i & 1 ? &rt->a : &rt->b;
		RT_EQ(rt, kfi_trecv(other->ep, other->buf, 64, NULL,
				    KFI_ADDR_UNSPEC, i, 0, other), 0);
		rt_fill(side->buf, 64, i);
		RT_EQ(rt, kfi_tsend(side->ep, side->buf, 64, NULL, side->peer,
				    i, side), 0);
		do {
			RT_EQ(rt, rt_entry(other, &entry), 0);
			sent += entry.flags & KFI_SEND ? 1 : 0;
		} while (!(entry.flags & KFI_RECV));
		RT_EQ(rt, entry.tag, i);
		RT_CHECK(rt, rt_filled(other->buf, 64, i));
	}
	while (sent < i) {
		RT_EQ(rt, rt_entry(sent & 1 ? &rt->b : &rt->a, &entry), 0);
		RT_CHECK(rt, entry.flags & KFI_SEND);
		sent++;
		if (kfi_cq_read(rt->a.cq, &entry, 0) == -KFI_EAGAIN &&
		    kfi_cq_read(rt->b.cq, &entry, 0) == -KFI_EAGAIN)
			break;
	}
}

/* One of 4 KiB and one more; a large one at an odd place; the largest. */
static void rt_sizes(struct rt *rt)
{
	static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 65536,
					1000001, (2U << 20) + 1 };
	struct kfi_cq_tagged_entry entry;
	unsigned int i;

	RT_EQ(rt, rt_open(rt), 0);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t len = sizes[i];

		rt_fill(rt->a.buf + 3, len, i);
		memset(rt->b.buf, 0xcc, len + 100);
		RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf + 5, len, NULL,
				   KFI_ADDR_UNSPEC, NULL), 0);
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf + 3, len, NULL,
				   rt->a.peer, NULL), 0);
		RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
		RT_EQ(rt, entry.flags, KFI_MSG | KFI_RECV);
		RT_EQ(rt, entry.len, len);
		RT_CHECK(rt, rt_filled(rt->b.buf + 5, len, i));
		RT_EQ(rt, rt->b.buf[4], 0xcc);
		RT_EQ(rt, rt->b.buf[5 + len], 0xcc);
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
		RT_EQ(rt, entry.flags, KFI_MSG | KFI_SEND);
	}
}

/* Pieces that no registration can hold together: they are copied. */
static void rt_scattered(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	struct kvec from[64], to[3];
	unsigned int i;

	RT_EQ(rt, rt_open(rt), 0);
	rt_fill(rt->a.buf, 64 * 1000, 9);
	for (i = 0; i < 64; i++) {
		from[i].iov_base = rt->a.buf + 1000 * i;
		from[i].iov_len = 1000;
	}
	to[0].iov_base = rt->b.buf + 1;
	to[0].iov_len = 5000;
	to[1].iov_base = rt->b.buf + 10001;
	to[1].iov_len = 0;
	to[2].iov_base = rt->b.buf + 20003;
	to[2].iov_len = 59000;
	RT_EQ(rt, kfi_recvv(rt->b.ep, to, NULL, 3, KFI_ADDR_UNSPEC, NULL), 0);
	RT_EQ(rt, kfi_sendv(rt->a.ep, from, NULL, 64, rt->a.peer, NULL), 0);
	memset(from, 0, sizeof(from));
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, entry.len, 64000);
	RT_CHECK(rt, !memcmp(rt->b.buf + 1, rt->a.buf, 5000));
	RT_CHECK(rt, !memcmp(rt->b.buf + 20003, rt->a.buf + 5000, 59000));
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
}

/* Pieces of one buffer, each where the last one ends: one registration holds them. */
static void rt_adjacent(struct rt *rt)
{
	static const size_t ends[] = { 100, 8100, 8101, 20000 };
	struct kfi_cq_tagged_entry entry;
	struct kvec from[4];
	unsigned int i, n;
	size_t at;

	RT_EQ(rt, rt_open(rt), 0);
	/* Again and again, so that registrations are used a second time. */
	for (i = 0; i < 200; i++) {
		rt_fill(rt->a.buf, 20000, i);
		memset(rt->b.buf, 0xcc, 20000);
		for (n = 0, at = 0; n < ARRAY_SIZE(ends); at = ends[n++]) {
			from[n].iov_base = rt->a.buf + at;
			from[n].iov_len = ends[n] - at;
		}
		n = 2 + i % 3;
		at = ends[n - 1];
		RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, at, NULL,
				   KFI_ADDR_UNSPEC, NULL), 0);
		RT_EQ(rt, kfi_sendv(rt->a.ep, from, NULL, n, rt->a.peer, NULL),
		      0);
		RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
		RT_EQ(rt, entry.len, at);
		RT_CHECK(rt, rt_filled(rt->b.buf, at, i));
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	}
}

static void rt_largest_send(struct rt *rt, u8 *from, u8 *to)
{
	struct kfi_cq_tagged_entry entry;

	memset(to, 0xcc, RT_MOST);
	RT_EQ(rt, kfi_recv(rt->b.ep, to, RT_MOST, NULL, KFI_ADDR_UNSPEC, NULL),
	      0);
	RT_EQ(rt, kfi_send(rt->a.ep, from, RT_MOST, NULL, rt->a.peer, NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, entry.len, RT_MOST);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_CHECK(rt, rt_filled(to, RT_MOST, 1));
}

static void rt_largest_read(struct rt *rt, u8 *from, u8 *to)
{
	struct kfi_cq_tagged_entry entry;
	struct kfid_mr *mr;

	memset(to, 0xcc, RT_MOST);
	RT_EQ(rt, kfi_mr_reg(rt->b.domain, from, RT_MOST, KFI_REMOTE_READ, 0, 1,
			     0, &mr, NULL), 0);
	if (!kfi_read(rt->a.ep, to, RT_MOST, NULL, rt->a.peer, 0, 1, NULL))
		rt_equal(rt, __FILE__, __LINE__, "the read",
			 rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, kfi_close(&mr->fid), 0);
	RT_CHECK(rt, rt_filled(to, RT_MOST, 1));
}

/* Of the size that is announced, in one stretch: more than registrations have. */
static void rt_largest(struct rt *rt)
{
	u8 *from = alloc_pages_exact(RT_MOST, GFP_KERNEL);
	u8 *to = alloc_pages_exact(RT_MOST, GFP_KERNEL);

	if (from && to && rt_equal(rt, __FILE__, __LINE__, "opening",
				   rt_open(rt), 0)) {
		rt_equal(rt, __FILE__, __LINE__, "max_msg_size",
			 rt->a.info->ep_attr->max_msg_size, RT_MOST);
		rt_fill(from, RT_MOST, 1);
		rt_largest_send(rt, from, to);
		rt_largest_read(rt, from, to);
	}
	rt_equal(rt, __FILE__, __LINE__, "memory", from && to, true);
	/* Nothing touches them any more after that. */
	rt_close(rt);
	if (from)
		free_pages_exact(from, RT_MOST);
	if (to)
		free_pages_exact(to, RT_MOST);
}

static void rt_data(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_trecv(rt->b.ep, NULL, 0, NULL, KFI_ADDR_UNSPEC, ~0ULL, 0,
			    NULL), 0);
	RT_EQ(rt, kfi_tsenddata(rt->a.ep, NULL, 0, NULL, 0x123456789abcdefULL,
				rt->a.peer, ~0ULL, NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, entry.flags, KFI_TAGGED | KFI_RECV | KFI_REMOTE_CQ_DATA);
	RT_EQ(rt, entry.data, 0x123456789abcdefULL);
	RT_EQ(rt, entry.tag, ~0ULL);
	RT_EQ(rt, entry.len, 0);
}

/* The buffer is free at once, and no entry tells of a success. */
static void rt_inject(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	u8 word[8];

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC,
			   NULL), 0);
	rt_fill(word, 8, 4);
	RT_EQ(rt, kfi_inject(rt->a.ep, word, 8, rt->a.peer), 0);
	memset(word, 0, 8);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_CHECK(rt, rt_filled(rt->b.buf, 8, 4));
	/* The answer to a later one comes after that to this one. */
	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC,
			   NULL), 0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, rt), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_CHECK(rt, entry.op_context == rt);
	RT_EQ(rt, kfi_inject(rt->a.ep, rt->a.buf, 257, rt->a.peer),
	      -KFI_EMSGSIZE);
}

/* The first posted of those that match, whatever list it is on. */
static void rt_order(struct rt *rt)
{
	static const struct {
		u64 tag, ignore;
	} posted[] = { { 1, 0 }, { 0, 0xff }, { 1, 0 }, { 2, 0 }, { 0, ~0ULL } };
	static const struct {
		u64 tag;
		long taken;
	} sent[] = { { 1, 0 }, { 2, 1 }, { 2, 3 }, { 1, 2 }, { 300, 4 } };
	struct kfi_cq_tagged_entry entry;
	unsigned int i;

	RT_EQ(rt, rt_open(rt), 0);
	for (i = 0; i < ARRAY_SIZE(posted); i++)
		RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 8, NULL,
				    KFI_ADDR_UNSPEC, posted[i].tag,
				    posted[i].ignore, (void *)(long)i), 0);
	for (i = 0; i < ARRAY_SIZE(sent); i++) {
		RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer,
				    sent[i].tag, NULL), 0);
		RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
		RT_EQ(rt, (long)entry.op_context, sent[i].taken);
		RT_EQ(rt, entry.tag, sent[i].tag);
	}
}

/* Only from the peer that it was posted for. */
static void rt_directed(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	struct sockaddr_in other = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x0a000001),
		.sin_port = htons(9),
	};
	kfi_addr_t stranger;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_av_insert(rt->b.av, &other, 1, &stranger, 0, NULL), 1);
	RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 8, NULL, stranger, 5, 0,
			    &rt->a), 0);
	RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 8, NULL, rt->b.peer, 5, 0,
			    &rt->b), 0);
	RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, 5, NULL),
	      0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_CHECK(rt, entry.op_context == &rt->b);
	RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 8, NULL, 77, 5, 0, NULL),
	      -KFI_EINVAL);
}

static void rt_cancel(struct rt *rt)
{
	struct kfi_cq_err_entry err;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, 5,
			    0, rt), 0);
	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, &err),
	      0);
	RT_EQ(rt, kfi_cancel(&rt->b.ep->fid, rt), 0);
	RT_EQ(rt, kfi_cancel(&rt->b.ep->fid, rt), -KFI_ENOENT);
	RT_EQ(rt, rt_error(&rt->b, &err), 0);
	RT_EQ(rt, err.err, KFI_ECANCELED);
	RT_CHECK(rt, err.op_context == rt);
	RT_EQ(rt, err.flags, KFI_TAGGED | KFI_RECV);
	RT_EQ(rt, kfi_cancel(&rt->b.ep->fid, &err), 0);
	RT_EQ(rt, rt_error(&rt->b, &err), 0);
	RT_EQ(rt, err.flags, KFI_MSG | KFI_RECV);
}

/* Both sides hear that it was too long; what fits is there. */
static void rt_truncate_one(struct rt *rt, size_t len)
{
	struct kfi_cq_err_entry err;

	rt_fill(rt->a.buf, len, 3);
	memset(rt->b.buf, 0xcc, len);
	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 100, NULL, KFI_ADDR_UNSPEC, rt),
	      0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, len, NULL, rt->a.peer, rt), 0);
	RT_EQ(rt, rt_error(&rt->b, &err), 0);
	RT_EQ(rt, err.err, KFI_EMSGSIZE);
	RT_EQ(rt, err.len, 100);
	RT_EQ(rt, err.olen, len - 100);
	RT_CHECK(rt, rt_filled(rt->b.buf, 100, 3));
	RT_EQ(rt, rt->b.buf[100], 0xcc);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EMSGSIZE);
	RT_EQ(rt, err.flags, KFI_MSG | KFI_SEND);
}

static void rt_truncate(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;

	RT_EQ(rt, rt_open(rt), 0);
	rt_truncate_one(rt, 1000);
	rt_truncate_one(rt, 100000);
	/* And the endpoints go on. */
	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, NULL),
	      0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
}

/* Whole messages from front to back; the last one releases the buffer. */
static void rt_multi_recv(struct rt *rt)
{
	static const size_t sizes[] = { 100, 5000, 64, 1, 20000, 100 };
	struct kvec iov = { .iov_len = 25200 };
	struct kfi_msg msg = {
		.type = KFI_KVEC,
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = KFI_ADDR_UNSPEC,
		.context = rt,
	};
	struct kfi_cq_tagged_entry entry;
	size_t at = 0, min = 200;
	unsigned int i;

	RT_EQ(rt, rt_open(rt), 0);
	iov.iov_base = rt->b.buf;
	RT_EQ(rt, kfi_setopt(&rt->b.ep->fid, KFI_OPT_ENDPOINT,
			     KFI_OPT_MIN_MULTI_RECV, &min, sizeof(min)), 0);
	RT_EQ(rt, kfi_recvmsg(rt->b.ep, &msg, KFI_MULTI_RECV | KFI_COMPLETION),
	      0);
	for (i = 0; i < 5; i++) {
		rt_fill(rt->a.buf, sizes[i], i);
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, sizes[i], NULL,
				   rt->a.peer, NULL), 0);
		RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
		RT_EQ(rt, entry.len, sizes[i]);
		RT_CHECK(rt, entry.buf == rt->b.buf + at);
		RT_CHECK(rt, rt_filled(entry.buf, sizes[i], i));
		at += sizes[i];
		RT_EQ(rt, entry.flags, KFI_MSG | KFI_RECV |
		      (i == 4 ? KFI_MULTI_RECV : 0));
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	}
	RT_EQ(rt, kfi_cancel(&rt->b.ep->fid, rt), -KFI_ENOENT);
}

/* An address that nobody has. */
static void rt_nobody(struct rt *rt, kfi_addr_t *nobody)
{
	struct sockaddr_in name;
	size_t len = sizeof(name);

	RT_EQ(rt, kfi_getname(&rt->b.ep->fid, &name, &len), 0);
	name.sin_port = htons(ntohs(name.sin_port) + 100);
	RT_EQ(rt, kfi_av_insert(rt->a.av, &name, 1, nobody, 0, NULL), 1);
}

/* The message fails, later ones do not. */
static void rt_no_endpoint(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	struct kfi_cq_err_entry err;
	kfi_addr_t nobody = KFI_ADDR_NOTAVAIL;

	RT_EQ(rt, rt_open(rt), 0);
	rt_nobody(rt, &nobody);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, nobody, rt), 0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EHOSTUNREACH);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 80000, NULL, nobody, rt), 0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EHOSTUNREACH);
	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, NULL),
	      0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
}

/* Tag and length are of what was received: the sender's own entry has none. */
static void rt_sent_entry(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 64, NULL, KFI_ADDR_UNSPEC, 77,
			    0, &rt->b), 0);
	RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 64, NULL, rt->a.peer, 77,
			    &rt->a), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, entry.tag, 77);
	RT_EQ(rt, entry.len, 64);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, entry.flags, KFI_TAGGED | KFI_SEND);
	RT_EQ(rt, entry.tag, 0);
	RT_EQ(rt, entry.len, 0);
}

/* The entry of a failed one has its tag. */
static void rt_unsent_entry(struct rt *rt)
{
	struct kfi_cq_err_entry err = { .tag = ~0ULL };
	kfi_addr_t nobody = KFI_ADDR_NOTAVAIL;

	RT_EQ(rt, rt_open(rt), 0);
	rt_nobody(rt, &nobody);
	RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 64, NULL, nobody, 77, &rt->a),
	      0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_CHECK(rt, err.op_context == &rt->a);
	RT_EQ(rt, err.flags, KFI_TAGGED | KFI_SEND);
	RT_EQ(rt, err.tag, 77);
}

/* Completions fill a CQ; a receive takes no room in it unless a kept message matches. */
static void rt_post_with_full_queue(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	int i;

	rt->b_entries = 2;
	RT_EQ(rt, rt_open(rt), 0);
	for (i = 0; i < 2; i++) {
		RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 8, NULL,
				   KFI_ADDR_UNSPEC, NULL), 0);
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer,
				   NULL), 0);
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	}
	/* One is kept. Its receive would need an entry at once. */
	RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, 5, NULL),
	      0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, 5, 0,
			    NULL), -KFI_EAGAIN);
	for (i = 0; i < 4; i++)
		RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 8, NULL,
				   KFI_ADDR_UNSPEC, NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, 5, 0,
			    NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, entry.tag, 5);
}

const struct rt_case rt_message_cases[] = {
	{ "tagged", rt_tagged },
	{ "cxi_addresses", rt_cxi_addresses },
	{ "table", rt_table },
	{ "pingpong", rt_pingpong },
	{ "sizes", rt_sizes },
	{ "scattered", rt_scattered },
	{ "adjacent", rt_adjacent },
	{ "largest", rt_largest },
	{ "data", rt_data },
	{ "inject", rt_inject },
	{ "order", rt_order },
	{ "directed", rt_directed },
	{ "cancel", rt_cancel },
	{ "truncate", rt_truncate },
	{ "multi_recv", rt_multi_recv },
	{ "no_endpoint", rt_no_endpoint },
	{ "sent_entry", rt_sent_entry },
	{ "unsent_entry", rt_unsent_entry },
	{ "post_with_full_queue", rt_post_with_full_queue },
	{ }
};
