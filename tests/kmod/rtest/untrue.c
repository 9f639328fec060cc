// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Answers that are not true: a peer that takes no more messages than it likes
 * answers those that it has not heard yet. All room for messages on their way is
 * in use then, so that what is to be sent again waits.
 */
#include <linux/kthread.h>
#include <linux/slab.h>

#include "hostile.h"

/* Something about the stranger's endpoint, or about what was sent to it. */
static int rt_say(struct rt_hostile *h, enum kfr_wire_op op, u8 flags, u32 seq,
		  u16 epoch, u32 count)
{
	struct kfr_hdr hdr = {
		.version = KFR_VERSION,
		.op = op,
		.flags = flags,
		.src = cpu_to_le16(RT_STRANGER),
		.auth = cpu_to_le32(255),
		.seq = cpu_to_le32(seq),
		.epoch = cpu_to_le16(epoch),
		.count = cpu_to_le32(count),
	};

	return kfi_inject(h->ep, &hdr, sizeof(hdr), 0);
}

int rt_send_some(struct rt_side *side, kfi_addr_t addr, unsigned int n)
{
	int err = 0;

	while (n-- && !err)
		err = kfi_send(side->ep, side->buf, 8, NULL, addr, NULL);
	return err;
}

/*
 * FIN for an operation that was pushed back, let go, and not sent again yet. It
 * is not done: it is sent, and fails with the connection, once.
 */
static void rt_fin_early(struct rt *rt, struct rt_hostile *h)
{
	const unsigned int n = 2 * RT_WIRES;
	struct kfi_cq_err_entry err;
	struct kfr_hdr hdr;
	kfi_addr_t addr;
	unsigned int i;
	u32 id;

	RT_EQ(rt, rt_meet(h, &rt->a, 5000, &addr), 0);
	RT_EQ(rt, rt_send_some(&rt->a, addr, n), 0);
	RT_EQ(rt, rt_room(h, 1), 0);
	RT_EQ(rt, rt_hear(h, &hdr), KFR_OP_RTS);
	id = le32_to_cpu(hdr.seq);
	RT_EQ(rt, rt_say(h, KFR_OP_NAK, KFR_F_ID, id, 0, 0), 0);
	RT_EQ(rt, rt_say(h, KFR_OP_RESUME, 0, 0, 1, n + 1), 0);
	RT_EQ(rt, rt_say(h, KFR_OP_FIN, KFR_F_ID, id, 0, 0), 0);
	for (i = 0; i < n; i++) {
		RT_EQ(rt, rt_room(h, 1), 0);
		if (rt_hear(h, &hdr) != KFR_OP_EAGER)
			break;
	}
	RT_EQ(rt, hdr.op, KFR_OP_RTS);
	RT_EQ(rt, le32_to_cpu(hdr.seq), id);
	RT_EQ(rt, rt_say(h, 0, 0, 0, 0, 0), 0);
	for (i = 0; i < n + 1; i++) {
		RT_EQ(rt, rt_error(&rt->a, &err), 0);
		RT_EQ(rt, err.err, KFI_EIO);
	}
	RT_EQ(rt, rt_talk(rt), 0);
}

static int rt_close_thread(void *arg)
{
	struct rt_closer *closer = arg;

	complete(&closer->begun);
	kfi_close(closer->fid);
	kthread_complete_and_exit(&closer->done, 0);
}

/* Closes an object meanwhile. */
int rt_close_begin(struct kfid *fid, struct rt_closer *closer)
{
	struct task_struct *task;

	init_completion(&closer->begun);
	init_completion(&closer->done);
	closer->fid = fid;
	task = kthread_run(rt_close_thread, closer, "kfi_rtest");
	if (IS_ERR(task))
		return PTR_ERR(task);
	wait_for_completion(&closer->begun);
	return 0;
}

static int rt_close_ep_begin(struct rt_side *side, struct rt_closer *closer)
{
	int err = rt_close_begin(&side->ep->fid, closer);

	if (!err)
		side->ep = NULL;
	return err;
}

/* It closes, if need be when the connection has. */
bool rt_closed(struct rt_hostile *h, struct rt_closer *closer)
{
	if (wait_for_completion_timeout(&closer->done,
					msecs_to_jiffies(RT_DEADLINE_MS)))
		return true;
	rt_hostile_close_ep(h);
	wait_for_completion(&closer->done);
	return false;
}

/*
 * What was sent by an endpoint that closes is called back by RESUME, when there is
 * no room to send it again: another one uses it all.
 */
static void rt_resume_late(struct rt *rt, struct rt_hostile *h)
{
	struct rt_closer closer;
	struct kfr_hdr hdr;
	kfi_addr_t addr;
	unsigned int i;
	bool closed;
	int heard;

	RT_EQ(rt, rt_meet(h, &rt->a, 5000, &addr), 0);
	RT_EQ(rt, rt_send_some(&rt->a, addr, 10), 0);
	RT_EQ(rt, rt_room(h, 12), 0);
	for (i = 0; i < 11; i++)
		RT_CHECK(rt, rt_hear(h, &hdr) > 0);
	RT_EQ(rt, rt_say(h, KFR_OP_NAK, 0, 1, 0, 0), 0);
	RT_EQ(rt, rt_know(&rt->b, &addr), 1);

	RT_EQ(rt, rt_close_ep_begin(&rt->a, &closer), 0);
	heard = rt_hear(h, &hdr);
	/* If it takes too long the connection has ended: that is no failure. */
	rt_send_some(&rt->b, addr, 2 * RT_WIRES);
	rt_say(h, KFR_OP_RESUME, 0, 0, 1, 0);
	closed = rt_closed(h, &closer);
	RT_EQ(rt, heard, KFR_OP_CANCEL);
	RT_CHECK(rt, closed);
}

/* It has handled all numbered requests up to @number. */
int rt_ack(struct rt_hostile *h, u32 number)
{
	struct kfr_hdr hdr = {
		.version = KFR_VERSION,
		.op = KFR_OP_ACK,
		.ack = cpu_to_le32(number),
	};

	return kfi_inject(h->ep, &hdr, sizeof(hdr), 0);
}

static int rt_close_a(struct rt *rt)
{
	int err = kfi_close(&rt->a.ep->fid);

	rt->a.ep = NULL;
	return err;
}

/* What @b sends next belongs to the flow that was refused and resumed. */
static void rt_goes_on(struct rt *rt, struct rt_hostile *h, kfi_addr_t b)
{
	struct kfr_hdr hdr;

	RT_EQ(rt, kfi_send(rt->b.ep, rt->b.buf, 8, NULL, b, NULL), 0);
	RT_EQ(rt, rt_room(h, 1), 0);
	RT_EQ(rt, rt_hear(h, &hdr), KFR_OP_EAGER);
	RT_EQ(rt, le16_to_cpu(hdr.epoch), 1);
}

/*
 * An endpoint closes whose message has no answer yet. Another one's message on the
 * same connection gets its own. The first is refused late: its flow goes on.
 */
static void rt_close_unanswered_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_tagged_entry entry;
	kfi_addr_t a, b;

	RT_EQ(rt, rt_meet(h, &rt->a, 8, &a), 0);
	RT_EQ(rt, rt_know(&rt->b, &b), 1);
	RT_EQ(rt, rt_hostile_hears(h, 1), 0);
	RT_EQ(rt, kfi_send(rt->b.ep, rt->b.buf, 8, NULL, b, NULL), 0);
	RT_EQ(rt, rt_hostile_hears(h, 1), 0);

	RT_EQ(rt, rt_close_a(rt), 0);
	RT_EQ(rt, rt_say(h, KFR_OP_NAK, 0, 1, 0, 0), 0);
	RT_EQ(rt, rt_say(h, KFR_OP_RESUME, 0, 0, 1, 2), 0);
	RT_EQ(rt, rt_ack(h, 2), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	rt_goes_on(rt, h, b);
}

/*
 * The same with a long message: the peer gets CANCEL and does not answer. Then it
 * cannot read the message any more, and whatever it answers is too late.
 */
static void rt_close_unread_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_tagged_entry entry;
	struct kfr_hdr rts, hdr;
	kfi_addr_t a, b;

	RT_EQ(rt, rt_meet(h, &rt->a, 5000, &a), 0);
	RT_EQ(rt, rt_know(&rt->b, &b), 1);
	RT_EQ(rt, rt_room(h, 3), 0);
	RT_EQ(rt, rt_hear(h, &rts), KFR_OP_RTS);
	RT_EQ(rt, kfi_send(rt->b.ep, rt->b.buf, 8, NULL, b, NULL), 0);
	RT_EQ(rt, rt_hear(h, &hdr), KFR_OP_EAGER);

	RT_EQ(rt, rt_close_a(rt), 0);
	RT_EQ(rt, rt_hear(h, &hdr), KFR_OP_CANCEL);
	RT_EQ(rt, rt_say(h, KFR_OP_NAK, KFR_F_ID, le32_to_cpu(rts.seq), 0, 0),
	      0);
	RT_EQ(rt, rt_say(h, KFR_OP_RESUME, 0, 0, 1, 2), 0);
	RT_EQ(rt, rt_say(h, KFR_OP_FIN, KFR_F_ID, le32_to_cpu(rts.seq), 0, 0),
	      0);
	RT_EQ(rt, rt_ack(h, 1), 0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	rt_goes_on(rt, h, b);
}

/* Takes one message in a while. Return: what it is, or -EPROTO if the connection ends. */
int rt_take_slowly(struct rt_hostile *h, struct kfr_hdr *hdr)
{
	struct kfi_eq_cm_entry cm;
	u32 event;

	if (kfi_eq_sread(h->eq, &event, &cm, sizeof(cm), RT_SLOW_MS, 0) !=
	    -KFI_ETIMEDOUT)
		return -EPROTO;
	return rt_room(h, 1) ?: rt_hear(h, hdr);
}

/*
 * An endpoint closes whose long message is not answered. The peer takes messages one by
 * one, and there are others before the device can revoke its access: they go on.
 */
static void rt_close_slow_run(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_tagged_entry entry;
	struct rt_closer closer;
	struct kfr_hdr hdr;
	kfi_addr_t a, b;
	unsigned int i;
	bool closed;
	int heard;

	RT_EQ(rt, rt_meet(h, &rt->a, 5000, &a), 0);
	RT_EQ(rt, rt_know(&rt->b, &b), 1);
	RT_EQ(rt, rt_room(h, 1), 0);
	RT_EQ(rt, rt_hear(h, &hdr), KFR_OP_RTS);
	RT_EQ(rt, rt_send_some(&rt->b, b, RT_SLOW), 0);

	RT_EQ(rt, rt_close_ep_begin(&rt->a, &closer), 0);
	for (i = 0; i <= RT_SLOW; i++) {
		heard = rt_take_slowly(h, &hdr);
		if (heard < 0)
			break;
	}
	closed = rt_closed(h, &closer);
	RT_EQ(rt, heard, KFR_OP_CANCEL);
	RT_CHECK(rt, closed);
	RT_EQ(rt, rt_ack(h, RT_SLOW), 0);
	for (i = 0; i < RT_SLOW; i++)
		RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
}

/* It takes no message at all: the connection ends, and the close with it. */
static void rt_close_deaf_run(struct rt *rt, struct rt_hostile *h)
{
	struct rt_closer closer;
	kfi_addr_t a;

	RT_EQ(rt, rt_meet(h, &rt->a, 5000, &a), 0);
	RT_EQ(rt, rt_close_ep_begin(&rt->a, &closer), 0);
	RT_CHECK(rt, rt_closed(h, &closer));
}

/* It has moved more than it was asked for, it says, and there would be more. */
static void rt_fin_too_long(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_err_entry err = { };
	struct kfr_hdr hdr, fin = {
		.version = KFR_VERSION,
		.op = KFR_OP_FIN,
		.flags = KFR_F_ID,
		.src = cpu_to_le16(RT_STRANGER),
		.auth = cpu_to_le32(255),
		.status = cpu_to_le32(KFR_TOO_LONG),
		.len = cpu_to_le32(~0U),
		.over = cpu_to_le32(~0U),
	};
	kfi_addr_t addr;

	RT_EQ(rt, rt_know(&rt->a, &addr), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	RT_EQ(rt, kfi_read(rt->a.ep, rt->a.buf, 100, NULL, addr, 0, 7, rt), 0);
	RT_EQ(rt, rt_hostile_accept(h), 0);
	RT_EQ(rt, rt_room(h, 1), 0);
	RT_EQ(rt, rt_hear(h, &hdr), KFR_OP_READ);
	fin.seq = hdr.seq;
	RT_EQ(rt, kfi_inject(h->ep, &fin, sizeof(fin), 0), 0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EMSGSIZE);
	RT_EQ(rt, err.len, 100);
	RT_EQ(rt, err.olen, 0);
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_answers_early(struct rt *rt)
{
	rt_listening(rt, rt_fin_early);
}

static void rt_says_too_much(struct rt *rt)
{
	rt_listening(rt, rt_fin_too_long);
}

static void rt_close_unanswered(struct rt *rt)
{
	rt_listening(rt, rt_close_unanswered_run);
}

static void rt_close_unread(struct rt *rt)
{
	rt_listening(rt, rt_close_unread_run);
}

static void rt_close_slow(struct rt *rt)
{
	rt_listening(rt, rt_close_slow_run);
}

static void rt_close_deaf(struct rt *rt)
{
	rt_listening(rt, rt_close_deaf_run);
}

static void rt_resumes_late(struct rt *rt)
{
	rt_listening(rt, rt_resume_late);
}

const struct rt_case rt_untrue_cases[] = {
	{ "answers_early", rt_answers_early },
	{ "resumes_late", rt_resumes_late },
	{ "close_unanswered", rt_close_unanswered },
	{ "close_unread", rt_close_unread },
	{ "close_slow", rt_close_slow },
	{ "close_deaf", rt_close_deaf },
	{ "says_too_much", rt_says_too_much },
	{ }
};
