// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Messages that arrive before their receive is posted. */
#include <linux/bottom_half.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "rtest.h"

#define RT_MANY 150		/* more than what is kept: 8 */
#define RT_ROUNDS 20
#define RT_BURST 40
#define RT_SERIALS (RT_ROUNDS * RT_BURST)

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

static int rt_know_itself(struct rt_side *side, kfi_addr_t *self)
{
	struct sockaddr_in name;
	size_t len = sizeof(name);
	int err = kfi_getname(&side->ep->fid, &name, &len);

	return err ? err : kfi_av_insert(side->av, &name, 1, self, 0, NULL);
}

/* More large ones than there are registrations: others go past them. */
static void rt_held_up(struct rt *rt)
{
	static const size_t sizes[] = { 8, 0, 4096, 5000, 300000 };
	struct kfi_cq_tagged_entry entry;
	kfi_addr_t self;
	unsigned int i;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, rt_know_itself(&rt->a, &self), 1);
	for (i = 0; i < RT_MANY; i++)
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 5000, NULL, rt->a.peer,
				   NULL), 0);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		RT_EQ(rt, kfi_recv(rt->a.ep, rt->b.buf, sizes[i], NULL,
				   KFI_ADDR_UNSPEC, rt), 0);
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, sizes[i], NULL, self,
				   rt), 0);
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
		RT_CHECK(rt, entry.op_context == rt);
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
		RT_CHECK(rt, entry.op_context == rt);
	}
	for (i = 0; i < RT_MANY; i++) {
		RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 5000, NULL,
				   KFI_ADDR_UNSPEC, NULL), 0);
		RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	}
}

/* Receives that find their messages parked, more than can ask one by one. */
static void rt_many_wants(struct rt *rt)
{
	static const u64 later[] = { 3, 1, 2 };
	struct kfi_cq_tagged_entry entry;
	unsigned int i;
	int err = 0;

	rt->keep = 4096;
	rt->rx_size = 4096;
	RT_EQ(rt, rt_open(rt), 0);
	for (i = 1; i <= 4; i++)
		RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer,
				    i, NULL), 0);
	/* The first is kept. When the last is here, the others are parked. */
	RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, 4, 0,
			    NULL), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, entry.tag, 4);
	/* Nothing is sent meanwhile but what finds room. */
	local_bh_disable();
	for (i = 0; i < 3000 && !err; i++)
		err = kfi_trecv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC,
				1000 + i, 0, NULL);
	local_bh_enable();
	RT_EQ(rt, err, 0);
	for (i = 0; i < ARRAY_SIZE(later); i++) {
		RT_EQ(rt, kfi_trecv(rt->b.ep, rt->b.buf, 8, NULL,
				    KFI_ADDR_UNSPEC, later[i], 0, NULL), 0);
		RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
		RT_EQ(rt, entry.tag, later[i]);
	}
	for (i = 0; i < 4; i++)
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

/* The sender hears itself behind all that it has sent: that has come by then. */
static int rt_arrived(struct rt *rt)
{
	u8 name[sizeof(struct sockaddr_in)];
	size_t len = sizeof(name);
	kfi_addr_t self;
	int err;

	err = kfi_getname(&rt->a.ep->fid, name, &len);
	if (!err)
		err = kfi_av_insert(rt->a.av, name, 1, &self, 0, NULL) - 1;
	if (!err)
		err = kfi_recv(rt->a.ep, rt->a.buf, 8, NULL, KFI_ADDR_UNSPEC,
			       NULL);
	return err ? err : kfi_send(rt->a.ep, rt->a.buf, 8, NULL, self, NULL);
}

/* One for many messages takes all that were pushed back, and fit. */
static void rt_pushed_back_multi(struct rt *rt)
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

	rt->keep = 4096;
	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_tsend(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, 1, NULL),
	      0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	for (i = 0; i < 3; i++)
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 100, NULL, rt->a.peer,
				   NULL), 0);
	RT_EQ(rt, rt_arrived(rt), 0);
	for (i = 0; i < 2; i++)
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	iov.iov_base = rt->b.buf;
	RT_EQ(rt, kfi_recvmsg(rt->b.ep, &msg, KFI_MULTI_RECV), 0);
	for (i = 0; i < 3; i++) {
		RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
		RT_CHECK(rt, entry.buf == rt->b.buf + 100 * i);
		RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	}
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

static int rt_receive(struct rt_side *side, unsigned int n)
{
	int err = 0;

	while (n-- && !err)
		err = kfi_recv(side->ep, side->buf + 8 * n, 8, NULL,
			       KFI_ADDR_UNSPEC, side->buf + 8 * n);
	return err;
}

static int rt_entries(struct rt_side *side, unsigned int n)
{
	struct kfi_cq_tagged_entry entry;
	int err = 0;

	while (n-- && !err)
		err = rt_entry(side, &entry);
	return err;
}

static int rt_send_n(struct rt *rt, unsigned int n)
{
	int err = 0;

	while (n-- && !err)
		err = kfi_send(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, NULL);
	return err;
}

/* Its number goes to the next one that is opened. */
static int rt_reopen(struct rt *rt, struct rt_side *side)
{
	rt_close_side(rt, side);
	return rt_open_side(rt, side);
}

/*
 * An endpoint has pushed back, and taken everything; another one with its number
 * hears the same sender, whether its receive is posted before or after.
 */
static void rt_reopened(struct rt *rt)
{
	unsigned int i;

	rt->keep = 4096;
	RT_EQ(rt, rt_open(rt), 0);
	for (i = 0; i < 3; i++) {
		RT_EQ(rt, rt_send_n(rt, 5), 0);
		RT_EQ(rt, rt_receive(&rt->b, 5), 0);
		RT_EQ(rt, rt_entries(&rt->b, 5), 0);
		RT_EQ(rt, rt_entries(&rt->a, 5), 0);
		RT_EQ(rt, rt_reopen(rt, &rt->b), 0);
		/* It is kept: so it has been heard. */
		RT_EQ(rt, rt_send_n(rt, 1), 0);
		RT_EQ(rt, rt_entries(&rt->a, 1), 0);
		RT_EQ(rt, rt_receive(&rt->b, 2), 0);
		RT_EQ(rt, rt_entries(&rt->b, 1), 0);
		RT_EQ(rt, rt_send_n(rt, 1), 0);
		RT_EQ(rt, rt_entries(&rt->b, 1), 0);
		RT_EQ(rt, rt_entries(&rt->a, 1), 0);
	}
}

static int rt_mark_one(u8 *seen, const struct kfi_cq_tagged_entry *entry)
{
	u32 serial = *(u32 *)entry->op_context;

	if (serial >= RT_SERIALS)
		return -ERANGE;
	return seen[serial]++ ? -EEXIST : 0;
}

/* Marks what has come, @n at least. Return: 0, or a negative errno. */
static int rt_mark(struct rt_side *side, u8 *seen, unsigned int n)
{
	struct kfi_cq_tagged_entry entry;
	int err = 0;

	while (n-- && !err) {
		err = rt_entry(side, &entry);
		if (!err)
			err = rt_mark_one(seen, &entry);
	}
	while (!err && kfi_cq_read(side->cq, &entry, 1) == 1)
		err = rt_mark_one(seen, &entry);
	return err;
}

/* Every send ends, well or because nobody was there. */
static int rt_ended(struct rt_side *side, unsigned int n)
{
	struct kfi_cq_tagged_entry entry;
	int err;

	while (n--) {
		err = rt_entry(side, &entry);
		if (err && err != -KFI_EHOSTUNREACH)
			return err;
	}
	return 0;
}

static int rt_receive_pages(struct rt_side *side, unsigned int n)
{
	int err = 0;

	while (n-- && !err)
		err = kfi_recv(side->ep, side->buf + 8192 * n, 8192, NULL,
			       KFI_ADDR_UNSPEC, side->buf + 8192 * n);
	return err;
}

/* Some of them have to be fetched. */
static int rt_send_serials(struct rt *rt, u32 first)
{
	int err = 0;
	u32 i;
	u8 *buf;

	for (i = 0; i < RT_BURST && !err; i++) {
		buf = rt->a.buf + 8192 * i;
		*(u32 *)buf = first + i;
		err = kfi_send(rt->a.ep, buf, i % 7 ? 8 : 5000, NULL,
			       rt->a.peer, NULL);
	}
	return err;
}

/*
 * Endpoints come and go in the middle of what is sent to their number: nothing
 * comes twice, and no send is forgotten.
 */
static void rt_reopened_loop(struct rt *rt, u8 *seen)
{
	unsigned int i;

	rt->keep = 4096;
	RT_EQ(rt, rt_open(rt), 0);
	for (i = 0; i < RT_ROUNDS; i++) {
		RT_EQ(rt, rt_send_serials(rt, i * RT_BURST), 0);
		RT_EQ(rt, rt_receive_pages(&rt->b, 10), 0);
		RT_EQ(rt, rt_mark(&rt->b, seen, i % 11), 0);
		RT_EQ(rt, rt_reopen(rt, &rt->b), 0);
		RT_EQ(rt, rt_receive_pages(&rt->b, RT_BURST), 0);
		RT_EQ(rt, rt_ended(&rt->a, RT_BURST), 0);
		RT_EQ(rt, rt_mark(&rt->b, seen, 0), 0);
		RT_EQ(rt, rt_reopen(rt, &rt->b), 0);
	}
}

static void rt_reopened_often(struct rt *rt)
{
	u8 *seen = kzalloc(RT_SERIALS, GFP_KERNEL);

	if (seen)
		rt_reopened_loop(rt, seen);
	RT_CHECK(rt, seen);
	kfree(seen);
}

const struct rt_case rt_keep_cases[] = {
	{ "kept", rt_kept },
	{ "kept_large", rt_kept_large },
	{ "kept_multi", rt_kept_multi },
	{ "kept_told", rt_kept_told },
	{ "many_wants", rt_many_wants },
	{ "held_up", rt_held_up },
	{ "pushed_back_tags", rt_pushed_back_tags },
	{ "pushed_back_multi", rt_pushed_back_multi },
	{ "reopened", rt_reopened },
	{ "reopened_often", rt_reopened_often },
	{ "close_with_kept", rt_close_with_kept },
	{ "close_with_sent", rt_close_with_sent },
	{ }
};
