// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Messages that arrive before their receive is posted. */
#include <linux/mm.h>

#include "rtest.h"

#define RT_MANY 150		/* more than what is kept: 8 */

static void rt_kept(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;

	RT_EQ(rt, rt_open(rt), 0);
	rt_fill(rt->a.buf, 64, 1);
	RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 64, NULL, rt->a.peer, 7, NULL),
	      0);
	/* It is kept: so it has left the sender. */
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	memset(rt->a.buf, 0, 64);
	RT_EQ(rt, kfi_cq_read(rt->b.cq, &entry, 1), -KFI_EAGAIN);
	RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 64, NULL, KFI_ADDR_UNSPEC, 7,
			    0, rt), 0);
	RT_EQ(rt, kfi_cq_read(rt->b.cq, &entry, 1), 1);
	RT_EQ(rt, entry.len, 64);
	RT_CHECK(rt, entry.op_context == rt);
	RT_CHECK(rt, rt_filled(rt->b.buf, 64, 1));
}

/* A large one waits at its sender. */
static void rt_kept_large(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;

	RT_EQ(rt, rt_open(rt), 0);
	rt_fill(rt->a.buf, 300000, 1);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 300000, NULL, rt->a.peer, NULL),
	      0);
	RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 1, NULL, rt->a.peer, 1, rt),
	      0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_CHECK(rt, entry.op_context == rt);
	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 300000, NULL, KFI_ADDR_UNSPEC,
			   NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, entry.len, 300000);
	RT_CHECK(rt, rt_filled(rt->b.buf, 300000, 1));
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
}

/* The receiver wants them in another order than they were sent in. */
static void rt_pushed_back_tags(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	unsigned int i;

	rt->keep = 8 * 4096;
	RT_EQ(rt, rt_open(rt), 0);
	for (i = 0; i < RT_MANY; i++) {
		rt->a.buf[i] = i;
		RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf + i, 1, NULL,
				    rt->a.peer, i, NULL), 0);
	}
	for (i = RT_MANY; i--;) {
		RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 1, NULL,
				    KFI_ADDR_UNSPEC, i, 0, NULL), 0);
		RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
		RT_EQ(rt, entry.tag, i);
		RT_EQ(rt, rt->b.buf[0], i);
	}
	for (i = 0; i < RT_MANY; i++)
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
}

/* A receive for many messages takes all that are kept. */
static void rt_kept_multi(struct rt *rt)
{
	struct kvec iov = { .iov_len = 1000 };
	struct kfi_msg msg = {
		.type = KFI_KVEC,
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = KFI_ADDR_UNSPEC,
	};
	struct kfi_cq_tagged_entry entry;
	unsigned int i;

	RT_EQ(rt, rt_open(rt), 0);
	for (i = 0; i < 4; i++) {
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 300, NULL, rt->a.peer,
				   NULL), 0);
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	}
	iov.iov_base = rt->b.buf;
	RT_EQ(rt, kfi_recvmsg(rt->b.ep, &msg, KFI_MULTI_RECV), 0);
	for (i = 0; i < 3; i++) {
		RT_EQ(rt, kfi_cq_read(rt->b.cq, &entry, 1), 1);
		RT_CHECK(rt, entry.buf == rt->b.buf + 300 * i);
		RT_EQ(rt, entry.flags, KFI_MSG | KFI_RECV);
	}
	/* The fourth has no room in it: it is released, and the next takes it. */
	RT_EQ(rt, kfi_cq_read(rt->b.cq, &entry, 1), 1);
	RT_EQ(rt, entry.flags, KFI_MULTI_RECV);
	RT_EQ(rt, kfi_cq_read(rt->b.cq, &entry, 1), -KFI_EAGAIN);
	RT_EQ(rt, kfi_recvmsg(rt->b.ep, &msg, KFI_MULTI_RECV), 0);
	RT_EQ(rt, kfi_cq_read(rt->b.cq, &entry, 1), 1);
	RT_CHECK(rt, entry.buf == rt->b.buf);
}

/* What a callback was told, and what it has read. */
struct rt_told {
	int calls;
	u32 id[4];
	u64 count[4];
	u64 tag;
	int err;
};

/* Runs in softirq, under the endpoint's lock. */
static int rt_note(struct kfid_profile *prof,
		   const struct kfi_profile_desc *event, const void *param,
		   size_t size, void *context)
{
	const struct kfi_cq_err_entry *entry = param;
	struct rt_told *told = context;

	if (told->calls < ARRAY_SIZE(told->id)) {
		told->id[told->calls] = event->id;
		told->err |= kfi_profile_read_u64(prof, KFI_VAR_UNEXP_MSG_CNT,
						  &told->count[told->calls]);
	}
	told->err |= size != sizeof(*entry) || entry->op_context || entry->buf;
	told->tag = entry->tag;
	told->calls++;
	return 0;
}

static int rt_send_kept(struct rt *rt, u64 tag)
{
	struct kfi_cq_tagged_entry entry;
	int err;

	err = kfi_tsend(rt->a.ep, rt->a.buf, 64, NULL, rt->a.peer, tag, NULL);
	return err ? err : rt_entry(&rt->a, &entry);
}

/* Who profiles the endpoint hears of them, each with the count of the moment. */
static void rt_tell(struct rt *rt, struct kfid_profile *prof,
		    struct rt_told *told)
{
	RT_EQ(rt, kfi_profile_register_callback(prof, KFI_EVENT_UNEXP_MSG_RECVD,
						rt_note, told), 0);
	RT_EQ(rt, kfi_profile_register_callback(prof,
						KFI_EVENT_UNEXP_MSG_MATCHED,
						rt_note, told), 0);
	RT_EQ(rt, rt_send_kept(rt, 7), 0);
	RT_EQ(rt, rt_send_kept(rt, 8), 0);
	RT_EQ(rt, told->calls, 2);
	RT_EQ(rt, told->tag, 8);
	RT_EQ(rt, told->id[1], KFI_EVENT_UNEXP_MSG_RECVD);
	RT_EQ(rt, told->count[1], 2);
	RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 64, NULL, KFI_ADDR_UNSPEC, 7,
			    0, NULL), 0);
	RT_EQ(rt, told->calls, 3);
	RT_EQ(rt, told->tag, 7);
	RT_EQ(rt, told->id[2], KFI_EVENT_UNEXP_MSG_MATCHED);
	RT_EQ(rt, told->count[2], 1);
	RT_EQ(rt, told->err, 0);
	RT_EQ(rt, kfi_close(&rt->b.ep->fid), -KFI_EBUSY);
}

static void rt_kept_told(struct rt *rt)
{
	struct rt_told told = { };
	struct kfid_profile *prof;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_profile_open(&rt->b.ep->fid, 0, &prof, NULL), 0);
	rt_tell(rt, prof, &told);
	RT_EQ(rt, kfi_profile_close(prof), 0);
	RT_EQ(rt, rt_send_kept(rt, 9), 0);
	RT_EQ(rt, told.calls, 3);
}

/* The receiver closes: what it has not taken fails, and nothing is left. */
static void rt_close_with_kept(struct rt *rt)
{
	struct kfi_cq_err_entry err;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 100000, NULL, rt->a.peer, NULL),
	      0);
	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, NULL),
	      0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 100000, NULL, rt->a.peer, NULL),
	      0);
	rt_close_side(rt, &rt->b);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EHOSTUNREACH);
}

/* The sender closes with messages that nobody has taken. */
static void rt_close_with_sent(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;

	rt->keep = 4096;
	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 100000, NULL, rt->a.peer, NULL),
	      0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, NULL), 0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 90000, NULL, rt->a.peer, NULL),
	      0);
	rt_close_side(rt, &rt->a);
	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, NULL),
	      0);
	RT_EQ(rt, kfi_cq_read(rt->b.cq, &entry, 1), -KFI_EAGAIN);
}

const struct rt_case rt_keep_cases[] = {
	{ "kept", rt_kept },
	{ "kept_large", rt_kept_large },
	{ "kept_multi", rt_kept_multi },
	{ "kept_told", rt_kept_told },
	{ "pushed_back_tags", rt_pushed_back_tags },
	{ "close_with_kept", rt_close_with_kept },
	{ "close_with_sent", rt_close_with_sent },
	{ }
};
