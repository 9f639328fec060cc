// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Connections that are not used. */
#include <linux/inet.h>

#include "hostile.h"

static int rt_idle_say_to(struct rt_hostile *h, __le16 dst,
			  enum kfr_wire_op op, u32 count, u32 ack)
{
	struct kfr_hdr hdr = {
		.version = KFR_VERSION,
		.op = op,
		.src = cpu_to_le16(RT_STRANGER),
		.dst = dst,
		.auth = cpu_to_le32(255),
		.count = cpu_to_le32(count),
		.seq = cpu_to_le32(count),
		.ack = cpu_to_le32(ack),
	};

	return kfi_inject(h->ep, &hdr, sizeof(hdr), 0);
}

/* A control message, or a short message to no endpoint. */
static int rt_idle_say(struct rt_hostile *h, enum kfr_wire_op op, u32 count,
		       u32 ack)
{
	return rt_idle_say_to(h, 0, op, count, ack);
}

static void rt_silent_run(struct rt *rt, struct rt_hostile *h)
{
	RT_EQ(rt, rt_hostile_connect(h, &rt_hello, sizeof(rt_hello), NULL, 0),
	      0);
	RT_EQ(rt, rt_hostile_event(h, NULL, 0, NULL), KFI_SHUTDOWN);
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_silent(struct rt *rt)
{
	rt_with_hostile(rt, rt_silent_run);
}

/* Return: what the next message is that is not LEAVE; as rt_hear(). */
static int rt_hear_next(struct rt_hostile *h, struct kfr_hdr *hdr)
{
	int op;

	do {
		op = rt_room(h, 1);
		if (!op)
			op = rt_hear(h, hdr);
	} while (op == KFR_OP_LEAVE);
	return op;
}

/* A message of @a that is acknowledged; the connection is idle then. */
static void rt_one_message(struct rt *rt, struct rt_hostile *h, kfi_addr_t to)
{
	struct kfi_cq_tagged_entry entry;
	struct kfr_hdr hdr;

	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, to, NULL), 0);
	RT_EQ(rt, rt_hostile_accept(h), 0);
	RT_EQ(rt, rt_hear_next(h, &hdr), KFR_OP_EAGER);
	RT_EQ(rt, rt_idle_say(h, KFR_OP_ACK, 0, 1), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
}

/*
 * The peer does not end the connection that is left. Its request gets a reply
 * there, but the next message of @a comes on another connection.
 */
static void rt_leave(struct rt *rt, struct rt_hostile *h, kfi_addr_t to,
		     struct kfid_ep **left)
{
	struct kfr_hdr hdr;

	rt_one_message(rt, h, to);
	RT_CHECK(rt, !rt->failed);
	RT_EQ(rt, rt_room(h, 1), 0);
	RT_EQ(rt, rt_hear(h, &hdr), KFR_OP_LEAVE);
	RT_EQ(rt, le32_to_cpu(hdr.count), 0);
	RT_EQ(rt, rt_idle_say(h, KFR_OP_EAGER, 1, 1), 0);
	RT_EQ(rt, rt_hear_next(h, &hdr), KFR_OP_ERR);

	*left = h->ep;
	h->ep = NULL;
	rt_one_message(rt, h, to);
	RT_CHECK(rt, !rt->failed);
	RT_EQ(rt, kfi_close(&(*left)->fid), 0);
	*left = NULL;
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_leaves_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfid_ep *left = NULL;
	kfi_addr_t to;

	RT_EQ(rt, rt_know(&rt->a, &to), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	rt_leave(rt, h, to, &left);
	if (left)
		kfi_close(&left->fid);
}

static void rt_leaves(struct rt *rt)
{
	rt_listening(rt, rt_leaves_run);
}

/* All that this side has sent was handled: one message. */
static void rt_left_run(struct rt *rt, struct rt_hostile *h)
{
	kfi_addr_t to;

	RT_EQ(rt, rt_know(&rt->a, &to), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	rt_one_message(rt, h, to);
	RT_CHECK(rt, !rt->failed);
	RT_EQ(rt, rt_idle_say(h, KFR_OP_LEAVE, 1, 1), 0);
	RT_EQ(rt, rt_hostile_event(h, NULL, 0, NULL), KFI_SHUTDOWN);
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_left(struct rt *rt)
{
	rt_listening(rt, rt_left_run);
}

/*
 * The second message was not handled when the peer left, and then it was. The
 * third one shows that the connection goes on: otherwise another one would begin.
 */
static void rt_left_busy_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_tagged_entry entry;
	struct kfr_hdr hdr;
	kfi_addr_t to;

	RT_EQ(rt, rt_know(&rt->a, &to), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	rt_one_message(rt, h, to);
	RT_CHECK(rt, !rt->failed);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, to, NULL), 0);
	RT_EQ(rt, rt_hear_next(h, &hdr), KFR_OP_EAGER);
	RT_EQ(rt, rt_idle_say(h, KFR_OP_LEAVE, 1, 1), 0);
	RT_EQ(rt, rt_idle_say(h, KFR_OP_ACK, 0, 2), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, to, NULL), 0);
	RT_EQ(rt, rt_hear_next(h, &hdr), KFR_OP_EAGER);
	RT_EQ(rt, le32_to_cpu(hdr.count), 3);
	RT_EQ(rt, rt_idle_say(h, KFR_OP_ACK, 0, 3), 0);
	RT_EQ(rt, rt_entry(&rt->a, &entry), 0);
}

static void rt_left_busy(struct rt *rt)
{
	rt_listening(rt, rt_left_busy_run);
}

/* Return: what the next message is that is not ACK; as rt_hear(). */
static int rt_hear_reply(struct rt_hostile *h)
{
	struct kfr_hdr hdr;
	int op;

	do {
		op = rt_room(h, 1);
		if (!op)
			op = rt_hear(h, &hdr);
	} while (op == KFR_OP_ACK);
	return op;
}

/* A request to no endpoint, which is answered at once. Return: the answer's kind. */
static int rt_idle_ask(struct rt_hostile *h, u32 count)
{
	return rt_idle_say(h, KFR_OP_RTS, count, 0) ?: rt_hear_reply(h);
}

/*
 * Two connections: on the first one, a request waits for @a. The other one is idle,
 * and is left. So the first one would have been left, too.
 */
static void rt_owing(struct rt *rt, struct rt_hostile *h, bool blocked)
{
	u32 n = 0;
	__le16 a;

	RT_EQ(rt, rt_number(&rt->a, &a), 0);
	RT_EQ(rt, rt_hostile_connect(&h[0], &rt_hello, sizeof(rt_hello), NULL,
				     0), 0);
	if (blocked)
		RT_EQ(rt, rt_idle_say_to(&h[0], a, KFR_OP_EAGER, ++n, 0), 0);
	RT_EQ(rt, rt_idle_say_to(&h[0], a, KFR_OP_RTS, ++n, 0), 0);
	if (blocked)
		RT_EQ(rt, rt_hear_reply(&h[0]), KFR_OP_NAK);
	RT_EQ(rt, rt_idle_ask(&h[0], ++n), KFR_OP_FIN);

	RT_EQ(rt, rt_hostile_connect(&h[1], &rt_hello, sizeof(rt_hello), NULL,
				     0), 0);
	RT_EQ(rt, rt_idle_ask(&h[1], 1), KFR_OP_FIN);
	RT_EQ(rt, rt_hear_reply(&h[1]), KFR_OP_LEAVE);
	RT_EQ(rt, rt_idle_ask(&h[0], ++n), KFR_OP_FIN);

	RT_EQ(rt, kfi_recv(rt->a.ep, rt->a.buf, 8, NULL, KFI_ADDR_UNSPEC, NULL),
	      0);
	RT_EQ(rt, rt_hear_reply(&h[0]),
	      blocked ? KFR_OP_RESUME : KFR_OP_FIN);
	RT_EQ(rt, rt_hear_reply(&h[0]), KFR_OP_LEAVE);
}

static void rt_owing_with(struct rt *rt, bool blocked)
{
	struct rt_hostile h[2] = { };
	int err;

	rt->keep = KFR_EAGER;
	err = rt_open(rt);
	if (!err)
		err = rt_hostile_open(&h[0], false);
	if (!err)
		err = rt_hostile_open(&h[1], false);
	if (rt_equal(rt, __FILE__, __LINE__, "opening", err, 0))
		rt_owing(rt, h, blocked);
	rt_hostile_close(&h[1]);
	rt_hostile_close(&h[0]);
}

static void rt_owes_reply(struct rt *rt)
{
	rt_owing_with(rt, false);
}

static void rt_owes_resume(struct rt *rt)
{
	rt_owing_with(rt, true);
}

/* An address at which there is no machine. */
static int rt_know_other(struct rt_side *side, kfi_addr_t *addr)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = in_aton("192.0.2.1"),
		.sin_port = htons(RT_STRANGER),
	};

	return kfi_av_insert(side->av, &sin, 1, addr, 0, NULL);
}

static int rt_send_to(struct rt_side *side, kfi_addr_t addr)
{
	return kfi_send(side->ep, side->buf, 8, NULL, addr, NULL);
}

/* To be run when a node may have one connection: the peer's. */
static void rt_makes_room_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_data_entry entry;
	unsigned long end;
	kfi_addr_t to, other;
	ssize_t heard = 0;
	int err;

	RT_EQ(rt, rt_know(&rt->a, &to), 1);
	RT_EQ(rt, rt_know_other(&rt->a, &other), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	rt_one_message(rt, h, to);
	RT_CHECK(rt, !rt->failed);
	RT_EQ(rt, rt_room(h, 1), 0);
	end = jiffies + msecs_to_jiffies(RT_DEADLINE_MS);
	while (heard != 1 && time_before(jiffies, end)) {
		RT_EQ(rt, rt_send_to(&rt->a, other), -KFI_EAGAIN);
		heard = kfi_cq_sread(h->cq, &entry, 1, NULL, 10);
	}
	RT_EQ(rt, heard, 1);
	RT_EQ(rt, ((struct kfr_hdr *)entry.op_context)->op, KFR_OP_LEAVE);
	rt_hostile_close_ep(h);
	while ((err = rt_send_to(&rt->a, other)) == -KFI_EAGAIN &&
	       time_before(jiffies, end))
		cond_resched();
	RT_EQ(rt, err, 0);
}

static void rt_makes_room(struct rt *rt)
{
	rt_listening(rt, rt_makes_room_run);
}

/* An address of the device's network at which there is no machine: the nth. */
static int rt_know_none(struct rt_side *side, unsigned int n, kfi_addr_t *addr)
{
	u32 net = ntohl(in_aton(rt_address())) & ~255;
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(net + 200 + n),
		.sin_port = htons(RT_STRANGER),
	};

	return kfi_av_insert(side->av, &sin, 1, addr, 0, NULL);
}

/*
 * To be run when a node may have eight connections: a domain may begin one at a
 * time. One that does not come up leaves the others to other domains.
 */
static void rt_begins_few(struct rt *rt)
{
	kfi_addr_t a1, a2, b;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, rt_know_none(&rt->a, 1, &a1), 1);
	RT_EQ(rt, rt_know_none(&rt->a, 2, &a2), 1);
	RT_EQ(rt, rt_know_none(&rt->b, 3, &b), 1);
	RT_EQ(rt, rt_send_to(&rt->a, a1), 0);
	RT_EQ(rt, rt_send_to(&rt->a, a2), -KFI_EAGAIN);
	RT_EQ(rt, rt_send_to(&rt->a, a1), 0);
	RT_EQ(rt, rt_send_to(&rt->b, b), 0);
}

/* Return: 0 when it is connected, which may take a few attempts. */
static int rt_connect_at_last(struct rt_hostile *h)
{
	unsigned long end = jiffies + msecs_to_jiffies(RT_DEADLINE_MS);
	int err;

	do {
		rt_hostile_close_ep(h);
		err = rt_hostile_connect(h, &rt_hello, sizeof(rt_hello), NULL,
					 0);
	} while (err == -ECONNREFUSED && time_before(jiffies, end));
	return err;
}

/* To be run when a node may have two connections: the third replaces a silent one. */
static void rt_silent_go(struct rt *rt)
{
	struct rt_hostile h[3] = { };
	unsigned int i;
	int err;

	err = rt_open(rt);
	for (i = 0; i < ARRAY_SIZE(h) && !err; i++) {
		err = rt_hostile_open(&h[i], false);
		if (!err)
			err = rt_connect_at_last(&h[i]);
	}
	for (i = 0; i < ARRAY_SIZE(h); i++)
		rt_hostile_close(&h[i]);
	RT_EQ(rt, err, 0);
}

const struct rt_case rt_idle_cases[] = {
	{ "begins_few", rt_begins_few },
	{ "silent_go", rt_silent_go },
	{ "silent", rt_silent },
	{ "leaves", rt_leaves },
	{ "makes_room", rt_makes_room },
	{ "owes_reply", rt_owes_reply },
	{ "owes_resume", rt_owes_resume },
	{ "left", rt_left },
	{ "left_busy", rt_left_busy },
	{ }
};
