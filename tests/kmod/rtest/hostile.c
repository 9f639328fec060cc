// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Peers that are none: a connected endpoint on the device's second address says
 * what it likes to an RDM node, or lets one connect and goes away.
 */
#include <linux/inet.h>
#include <linux/slab.h>

#include "hostile.h"

static int rt_hostile_info(struct rt_hostile *h, bool listen)
{
	struct sockaddr_in src = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = in_aton(rt_second_address()),
		.sin_port = listen ? htons(RT_PORT) : 0,
	};
	struct sockaddr_in dst = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = in_aton(rt_address()),
		.sin_port = htons(RT_PORT),
	};
	struct kfi_info hints = { };

	hints.src_addr = &src;
	hints.src_addrlen = sizeof(src);
	if (!listen) {
		hints.dest_addr = &dst;
		hints.dest_addrlen = sizeof(dst);
	}
	return kfi_getinfo(0, NULL, NULL, 0, &hints, &h->info);
}

int rt_hostile_open(struct rt_hostile *h, bool listen)
{
	struct kfi_eq_attr eq_attr = { .wait_obj = KFI_WAIT_QUEUE };
	struct kfi_cq_attr cq_attr = {
		.size = 2 * RT_FLOOD,
		.format = KFI_CQ_FORMAT_DATA,
		.wait_obj = KFI_WAIT_QUEUE,
	};
	int err;

	h->msg = kzalloc(8192, GFP_KERNEL);
	h->in = kcalloc(RT_SLOTS, RT_SLOT, GFP_KERNEL);
	if (!h->msg || !h->in)
		return -ENOMEM;
	err = rt_hostile_info(h, listen);
	if (!err)
		err = kfi_fabric(h->info->fabric_attr, &h->fabric, NULL);
	if (!err)
		err = kfi_domain(h->fabric, h->info, &h->domain, NULL);
	if (!err)
		err = kfi_eq_open(h->fabric, &eq_attr, &h->eq, NULL, NULL);
	if (!err)
		err = kfi_cq_open(h->domain, &cq_attr, &h->cq, NULL, NULL);
	return err;
}

int rt_hostile_ep(struct rt_hostile *h, struct kfi_info *info)
{
	int err;

	err = kfi_endpoint(h->domain, info, &h->ep, NULL);
	if (!err)
		err = kfi_ep_bind(h->ep, &h->cq->fid, KFI_TRANSMIT | KFI_RECV);
	if (!err)
		err = kfi_ep_bind(h->ep, &h->eq->fid, 0);
	return err;
}

void rt_hostile_close_ep(struct rt_hostile *h)
{
	if (h->ep)
		kfi_close(&h->ep->fid);
	h->ep = NULL;
}

void rt_hostile_close(struct rt_hostile *h)
{
	rt_hostile_close_ep(h);
	if (h->pep)
		kfi_close(&h->pep->fid);
	if (h->cq)
		kfi_close(&h->cq->fid);
	if (h->eq)
		kfi_close(&h->eq->fid);
	if (h->domain)
		kfi_close(&h->domain->fid);
	if (h->fabric)
		kfi_close(&h->fabric->fid);
	kfi_freeinfo(h->info);
	kfree(h->msg);
	kfree(h->in);
	memset(h, 0, sizeof(*h));
}

/* Return: the number of the event, with its data; or the errno of a failure. */
int rt_hostile_event(struct rt_hostile *h, void *data, size_t len,
		     struct kfi_info **info)
{
	struct kfi_eq_err_entry err = { };
	union {
		struct kfi_eq_cm_entry cm;
		u8 room[512];
	} buf;
	ssize_t n;
	u32 event;

	n = kfi_eq_sread(h->eq, &event, &buf, sizeof(buf), RT_DEADLINE_MS, 0);
	if (n == -KFI_EAVAIL) {
		if (kfi_eq_readerr(h->eq, &err, 0) < 0)
			return -EIO;
		if (data && err.err_data)
			memcpy(data, err.err_data,
			       min(len, err.err_data_size));
		return -err.err;
	}
	if (n < 0)
		return n;
	if (info)
		*info = buf.cm.info;
	return event;
}

const struct kfr_hello rt_hello = {
	.magic = cpu_to_le32(KFR_MAGIC),
	.version = cpu_to_le16(KFR_VERSION),
	.eager = cpu_to_le32(KFR_EAGER),
};

/* Return: 0 if they connect. */
int rt_hostile_connect(struct rt_hostile *h, const void *hello, size_t len,
		       void *said, size_t room)
{
	int err;

	err = rt_hostile_ep(h, h->info);
	if (!err)
		err = kfi_connect(h->ep, NULL, hello, len);
	if (err)
		return err;
	err = rt_hostile_event(h, said, room, NULL);
	return err == KFI_CONNECTED ? 0 : err < 0 ? err : -EPROTO;
}

static void rt_versions(struct rt *rt, struct rt_hostile *h)
{
	struct kfr_hello hello = rt_hello, said = { };

	hello.version = cpu_to_le16(KFR_VERSION - 1);
	RT_EQ(rt, rt_hostile_connect(h, &hello, sizeof(hello), &said,
				     sizeof(said)), -ECONNREFUSED);
	/* It learns which version would do. */
	RT_EQ(rt, le16_to_cpu(said.version), KFR_VERSION);
	rt_hostile_close_ep(h);
	RT_EQ(rt, rt_hostile_connect(h, NULL, 0, NULL, 0), -ECONNREFUSED);
	rt_hostile_close_ep(h);
	RT_EQ(rt, rt_hostile_connect(h, "hello, hello", 12, NULL, 0),
	      -ECONNREFUSED);
	rt_hostile_close_ep(h);
	hello = rt_hello;
	hello.eager = cpu_to_le32(KFR_EAGER - 1);
	RT_EQ(rt, rt_hostile_connect(h, &hello, sizeof(hello), NULL, 0),
	      -ECONNREFUSED);
	rt_hostile_close_ep(h);
	RT_EQ(rt, rt_hostile_connect(h, &rt_hello, sizeof(rt_hello), NULL, 0),
	      0);
	RT_EQ(rt, rt_talk(rt), 0);
}

/* One thing in an otherwise good message that makes no sense. */
static size_t rt_nonsense(struct rt_hostile *h, unsigned int n)
{
	struct kfr_hdr *hdr = (struct kfr_hdr *)h->msg;

	memset(h->msg, 0, 8192);
	hdr->version = KFR_VERSION;
	hdr->op = KFR_OP_EAGER;
	hdr->seq = cpu_to_le32(1);
	hdr->count = cpu_to_le32(1);
	hdr->len = cpu_to_le32(8);
	switch (n) {
	case 0:
		return 1;		/* no header */
	case 1:
		hdr->version = 77;
		break;
	case 2:
		hdr->op = 0;
		break;
	case 3:
		hdr->op = KFR_OP_LAST + 1;
		break;
	case 4:
		hdr->flags = 0x80;
		break;
	case 5:
		hdr->seq = cpu_to_le32(2);
		break;
	case 6:
		hdr->count = cpu_to_le32(7);
		break;
	case 7:
		hdr->len = cpu_to_le32(9);
		break;
	case 8:
		hdr->ack = cpu_to_le32(5);
		break;
	case 9:
		hdr->op = KFR_OP_FIN;
		hdr->seq = cpu_to_le32(12345);
		break;
	case 10:
		hdr->op = KFR_OP_ERR;
		break;
	case 11:
		hdr->op = KFR_OP_RTS;
		hdr->nsegs = KFR_SEGS + 1;
		break;
	case 12:
		hdr->op = KFR_OP_RTS;	/* segments of nothing, 8 bytes */
		hdr->nsegs = 1;
		return sizeof(*hdr) + sizeof(struct kfr_seg);
	case 13:
		hdr->op = KFR_OP_WRITE;
		hdr->len = cpu_to_le32(~0U);
		break;
	default:
		return 0;
	}
	return sizeof(*hdr) + 8;
}

static void rt_garbage(struct rt *rt, struct rt_hostile *h)
{
	unsigned int n;
	size_t len;

	for (n = 0; (len = rt_nonsense(h, n)); n++) {
		RT_EQ(rt, rt_hostile_connect(h, &rt_hello, sizeof(rt_hello),
					     NULL, 0), 0);
		RT_EQ(rt, kfi_send(h->ep, h->msg, len, NULL, 0, NULL), 0);
		if (!rt_equal(rt, __FILE__, __LINE__, "it is shut down",
			      rt_hostile_event(h, NULL, 0, NULL),
			      KFI_SHUTDOWN)) {
			seq_printf(rt->seq, "nonsense %u\n", n);
			return;
		}
		rt_hostile_close_ep(h);
		RT_EQ(rt, rt_talk(rt), 0);
	}
}

/* Two endpoints, and one who can connect to their node. */
void rt_with_hostile(struct rt *rt,
		     void (*run)(struct rt *rt, struct rt_hostile *h))
{
	struct rt_hostile h = { };
	int err;

	err = rt_open(rt);
	if (!err)
		err = rt_hostile_open(&h, false);
	if (rt_equal(rt, __FILE__, __LINE__, "opening", err, 0))
		run(rt, &h);
	rt_hostile_close(&h);
}

static void rt_old_version(struct rt *rt)
{
	rt_with_hostile(rt, rt_versions);
}

static void rt_makes_no_sense(struct rt *rt)
{
	rt_with_hostile(rt, rt_garbage);
}

/* The other address, where nobody is whom anybody knows. */
int rt_know(struct rt_side *side, kfi_addr_t *addr)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = in_aton(rt_second_address()),
		.sin_port = htons(RT_STRANGER),
	};

	return kfi_av_insert(side->av, &sin, 1, addr, 0, NULL);
}

/* Nobody listens at that address. */
static void rt_no_node(struct rt *rt)
{
	struct kfi_cq_err_entry err;
	kfi_addr_t addr;
	unsigned int i;

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, rt_know(&rt->a, &addr), 1);
	for (i = 0; i < 3; i++) {
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, addr, rt), 0);
		RT_EQ(rt, rt_error(&rt->a, &err), 0);
		RT_EQ(rt, err.err, KFI_EHOSTUNREACH);
		RT_CHECK(rt, err.op_context == rt);
	}
	RT_EQ(rt, rt_talk(rt), 0);
}

int rt_hostile_listen(struct rt_hostile *h)
{
	int err;

	err = kfi_passive_ep(h->fabric, h->info, &h->pep, NULL);
	if (!err)
		err = kfi_pep_bind(h->pep, &h->eq->fid, 0);
	return err ? err : kfi_listen(h->pep);
}

int rt_hostile_accept_with(struct rt_hostile *h, const void *hello, size_t len)
{
	struct kfi_info *info = NULL;
	int err;

	err = rt_hostile_event(h, NULL, 0, &info);
	if (err != KFI_CONNREQ)
		return err < 0 ? err : -EPROTO;
	err = rt_hostile_ep(h, info);
	kfi_freeinfo(info);
	if (!err)
		err = kfi_accept(h->ep, hello, len);
	if (err)
		return err;
	err = rt_hostile_event(h, NULL, 0, NULL);
	return err == KFI_CONNECTED ? 0 : err < 0 ? err : -EPROTO;
}

int rt_hostile_accept(struct rt_hostile *h)
{
	return rt_hostile_accept_with(h, &rt_hello, sizeof(rt_hello));
}

/* The first message, of @len bytes, of an endpoint to the stranger, who is there. */
int rt_meet(struct rt_hostile *h, struct rt_side *side, size_t len,
	    kfi_addr_t *addr)
{
	int err = rt_know(side, addr) == 1 ? rt_hostile_listen(h) : -EIO;

	if (!err)
		err = kfi_send(side->ep, side->buf, len, NULL, *addr, side);
	return err ? err : rt_hostile_accept(h);
}

/* It hears @n messages more. */
int rt_room(struct rt_hostile *h, unsigned int n)
{
	int err = 0;
	u8 *slot;

	while (n-- && !err) {
		slot = h->in + h->posted++ % RT_SLOTS * RT_SLOT;
		err = kfi_recv(h->ep, slot, RT_SLOT, NULL, 0, slot);
	}
	return err;
}

/* Return: what the next message is, with its header; or a negative errno. */
int rt_hear(struct rt_hostile *h, struct kfr_hdr *hdr)
{
	struct kfi_cq_data_entry entry;
	ssize_t n;

	n = kfi_cq_sread(h->cq, &entry, 1, NULL, RT_DEADLINE_MS);
	if (n != 1)
		return n < 0 ? n : -EIO;
	*hdr = *(struct kfr_hdr *)entry.op_context;
	return hdr->op;
}

/* Return: 0 once it has heard @n messages more. */
int rt_hostile_hears(struct rt_hostile *h, unsigned int n)
{
	struct kfr_hdr hdr;
	int err = rt_room(h, n);

	while (n-- && !err)
		err = min(rt_hear(h, &hdr), 0);
	return err;
}

/* A message for a service that accepts with such a hello is an error. */
static void rt_foreign_one(struct rt *rt, struct rt_hostile *h,
			   kfi_addr_t addr, const void *hello, size_t len)
{
	struct kfi_cq_err_entry err;

	RT_CHECK(rt, !rt->failed);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, addr, rt), 0);
	RT_EQ(rt, rt_hostile_accept_with(h, hello, len), 0);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EHOSTUNREACH);
	RT_CHECK(rt, err.op_context == rt);
	RT_EQ(rt, rt_hostile_event(h, NULL, 0, NULL), KFI_SHUTDOWN);
	rt_hostile_close_ep(h);
}

static void rt_foreign_loop(struct rt *rt, struct rt_hostile *h)
{
	struct kfr_hello magic = rt_hello, version = rt_hello, eager = rt_hello;
	kfi_addr_t addr;

	magic.magic = cpu_to_le32(KFR_MAGIC + 1);
	version.version = cpu_to_le16(KFR_VERSION + 1);
	eager.eager = cpu_to_le32(KFR_EAGER - 1);
	RT_EQ(rt, rt_know(&rt->a, &addr), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	rt_foreign_one(rt, h, addr, NULL, 0);
	rt_foreign_one(rt, h, addr, &magic, sizeof(magic));
	rt_foreign_one(rt, h, addr, &version, sizeof(version));
	rt_foreign_one(rt, h, addr, &eager, sizeof(eager));
	RT_EQ(rt, rt_talk(rt), 0);
}

/*
 * It takes the connection and nothing else, goes, and comes back. The long message
 * comes first: rxe, which has to send again what nobody takes, would register the
 * message's memory again, too, if that were behind another one, and break off.
 */
static void rt_goes_away_loop(struct rt *rt, struct rt_hostile *h)
{
	struct kfi_cq_err_entry err;
	kfi_addr_t addr;
	unsigned int i;

	RT_EQ(rt, rt_know(&rt->a, &addr), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	for (i = 0; i < 3; i++) {
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 100000, NULL, addr,
				   h), 0);
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, addr, rt), 0);
		RT_EQ(rt, rt_hostile_accept(h), 0);
		RT_EQ(rt, rt_talk(rt), 0);
		RT_EQ(rt, kfi_shutdown(h->ep, 0), 0);
		rt_hostile_close_ep(h);
		RT_EQ(rt, rt_error(&rt->a, &err), 0);
		RT_EQ(rt, err.err, KFI_EHOSTUNREACH);
		RT_EQ(rt, rt_error(&rt->a, &err), 0);
		RT_EQ(rt, err.err, KFI_EHOSTUNREACH);
	}
}

/* Two endpoints, and one to whose address they can connect. */
void rt_listening(struct rt *rt,
		  void (*run)(struct rt *rt, struct rt_hostile *h))
{
	struct rt_hostile h = { };
	int err;

	err = rt_open(rt);
	if (!err)
		err = rt_hostile_open(&h, true);
	if (rt_equal(rt, __FILE__, __LINE__, "opening", err, 0))
		run(rt, &h);
	rt_hostile_close(&h);
}

static void rt_goes_away(struct rt *rt)
{
	rt_listening(rt, rt_goes_away_loop);
}

static void rt_foreign(struct rt *rt)
{
	rt_listening(rt, rt_foreign_loop);
}

/* Where the data of a message lies, as @h is told by its sender. */
static void rt_steal_segment(struct rt *rt, struct rt_hostile *h,
			     struct kfr_seg *seg)
{
	const struct kfr_hdr *hdr = (struct kfr_hdr *)h->msg;
	struct kfi_cq_data_entry entry;
	kfi_addr_t addr;

	rt_fill(rt->a.buf, 100000, 1);
	RT_EQ(rt, rt_meet(h, &rt->a, 100000, &addr), 0);
	RT_EQ(rt, kfi_recv(h->ep, h->msg, 8192, NULL, 0, NULL), 0);
	RT_EQ(rt, kfi_cq_sread(h->cq, &entry, 1, NULL, RT_DEADLINE_MS), 1);
	RT_EQ(rt, hdr->op, KFR_OP_RTS);
	RT_CHECK(rt, hdr->nsegs > 0);
	memcpy(seg, hdr + 1, sizeof(*seg));
	/* It is meant for this peer. */
	RT_EQ(rt, kfi_read(h->ep, h->msg, 1000, NULL, 0,
			   le64_to_cpu(seg->addr), le32_to_cpu(seg->rkey),
			   NULL), 0);
	RT_EQ(rt, kfi_cq_sread(h->cq, &entry, 1, NULL, RT_DEADLINE_MS), 1);
	RT_CHECK(rt, rt_filled(h->msg, 1000, 1));
}

/* And for no other one, though it has got hold of the key. */
static void rt_use_segment(struct rt *rt, struct rt_hostile *h,
			   const struct kfr_seg *seg)
{
	struct kfi_cq_data_entry entry;

	RT_EQ(rt, rt_hostile_connect(h, &rt_hello, sizeof(rt_hello), NULL, 0),
	      0);
	RT_EQ(rt, kfi_read(h->ep, h->msg, 1000, NULL, 0,
			   le64_to_cpu(seg->addr), le32_to_cpu(seg->rkey),
			   NULL), 0);
	RT_EQ(rt, kfi_cq_sread(h->cq, &entry, 1, NULL, RT_DEADLINE_MS),
	      -KFI_EAVAIL);
	RT_CHECK(rt, !rt_filled(h->msg, 1000, 1));
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_stolen_key(struct rt *rt)
{
	struct rt_hostile one = { }, other = { };
	struct kfr_seg seg;
	int err;

	err = rt_open(rt);
	if (!err)
		err = rt_hostile_open(&one, true);
	if (!err)
		err = rt_hostile_open(&other, false);
	if (rt_equal(rt, __FILE__, __LINE__, "opening", err, 0))
		rt_steal_segment(rt, &one, &seg);
	if (!rt->failed)
		rt_use_segment(rt, &other, &seg);
	rt_hostile_close(&other);
	rt_hostile_close(&one);
}

/* A message that says nothing, so that each of the node's buffers has one. */
static int rt_say_nothing(struct rt_hostile *h, unsigned int n)
{
	struct kfr_hdr hdr = { .version = KFR_VERSION, .op = KFR_OP_ACK };
	int err = 0;

	while (n-- && !err)
		while ((err = kfi_inject(h->ep, &hdr, sizeof(hdr), 0)) ==
		       -KFI_EAGAIN)
			cond_resched();
	return err;
}

/* After messages that the device may not have sent yet. */
static int rt_write_behind(struct rt_hostile *h, const struct kfr_seg *seg)
{
	int err;

	while ((err = kfi_writedata(h->ep, h->msg, 100, NULL, 1, 0,
				    le64_to_cpu(seg->addr),
				    le32_to_cpu(seg->rkey), NULL)) ==
	       -KFI_EAGAIN)
		cond_resched();
	return err;
}

/* Where @a reads to, it writes with immediate data: the node hears no message. */
static void rt_write_run(struct rt *rt, struct rt_hostile *h)
{
	const struct kfr_hdr *hdr = (struct kfr_hdr *)h->in;
	struct kfi_cq_err_entry err;
	struct kfr_seg seg;
	kfi_addr_t addr;

	RT_EQ(rt, rt_know(&rt->a, &addr), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	RT_EQ(rt, kfi_read(rt->a.ep, rt->a.buf, 100, NULL, addr, 0, 7, rt), 0);
	RT_EQ(rt, rt_hostile_accept(h), 0);
	RT_EQ(rt, rt_hostile_hears(h, 1), 0);
	RT_EQ(rt, hdr->op, KFR_OP_READ);
	memcpy(&seg, hdr + 1, sizeof(seg));
	RT_EQ(rt, rt_say_nothing(h, RT_BUFFERS), 0);
	RT_EQ(rt, rt_write_behind(h, &seg), 0);
	RT_EQ(rt, rt_hostile_event(h, NULL, 0, NULL), KFI_SHUTDOWN);
	RT_EQ(rt, rt_error(&rt->a, &err), 0);
	RT_EQ(rt, err.err, KFI_EIO);
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_write_is_no_message(struct rt *rt)
{
	rt_listening(rt, rt_write_run);
}

const struct rt_case rt_hostile_cases[] = {
	{ "old_version", rt_old_version },
	{ "makes_no_sense", rt_makes_no_sense },
	{ "no_node", rt_no_node },
	{ "goes_away", rt_goes_away },
	{ "foreign", rt_foreign },
	{ "stolen_key", rt_stolen_key },
	{ "write_is_no_message", rt_write_is_no_message },
	{ }
};
