// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Connect requests that claim an address of another node. RDMA CM's private data
 * holds the address, so the messages are made by hand, with the connection manager
 * below RDMA CM.
 */
#include <linux/completion.h>
#include <linux/inet.h>
#include <linux/slab.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cm.h>
#include <rdma/rdma_cm.h>

#include "hostile.h"

#define RT_FORGED_MS	2000	/* for RDMA CM to find an address or a route */
#define RT_FORGED_QPN	0x700000	/* nobody's, nor those after it */
#define RT_FORGERS	5	/* more than KFR_PEER_CONNS */

/**
 * struct rt_cma - RDMA CM's header and the hello, as in a connect request
 * @version: of RDMA CM's header: 0
 * @ip_version: in the upper half: 4
 * @port: the source port
 * @src_pad: 0
 * @src: the source address
 * @dst_pad: 0
 * @dst: the destination address
 * @hello: of the protocol
 */
struct rt_cma {
	u8 version;
	u8 ip_version;
	__be16 port;
	__be32 src_pad[3];
	__be32 src;
	__be32 dst_pad[3];
	__be32 dst;
	struct kfr_hello hello;
} __packed;

/**
 * struct rt_forger - the sender of a forged request
 * @id: finds the path from the first address to itself
 * @cm: the connection
 * @path: the path that the request names
 * @done: the path was found, or the request has an answer
 * @last: RDMA CM's last event
 * @accepted: the request was accepted
 */
struct rt_forger {
	struct rdma_cm_id *id;
	struct ib_cm_id *cm;
	struct sa_path_rec path;
	struct completion done;
	enum rdma_cm_event_type last;
	bool accepted;
};

/* Under the id's handler lock. */
static int rt_forger_route(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rt_forger *f = id->context;

	f->last = event->event;
	if (event->event != RDMA_CM_EVENT_ADDR_RESOLVED ||
	    rdma_resolve_route(id, RT_FORGED_MS))
		complete(&f->done);
	return 0;
}

static int rt_forger_answer(struct ib_cm_id *cm,
			    const struct ib_cm_event *event)
{
	struct rt_forger *f = cm->context;

	f->accepted = event->event == IB_CM_REP_RECEIVED;
	if (f->accepted)
		ib_send_cm_rtu(cm, NULL, 0);
	if (f->accepted || event->event == IB_CM_REJ_RECEIVED ||
	    event->event == IB_CM_REQ_ERROR)
		complete(&f->done);
	return 0;
}

static int rt_forger_wait(struct rt_forger *f)
{
	return wait_for_completion_timeout(&f->done,
					   msecs_to_jiffies(RT_DEADLINE_MS)) ?
	       0 : -ETIMEDOUT;
}

static struct sockaddr_in rt_forged_addr(const char *addr, u16 port)
{
	return (struct sockaddr_in) {
		.sin_family = AF_INET,
		.sin_addr.s_addr = in_aton(addr),
		.sin_port = htons(port),
	};
}

static int rt_forger_open(struct rt_forger *f)
{
	struct sockaddr_in src = rt_forged_addr(rt_address(), 0);
	struct sockaddr_in dst = rt_forged_addr(rt_address(), RT_PORT);
	int err;

	init_completion(&f->done);
	f->id = rdma_create_id(&init_net, rt_forger_route, f, RDMA_PS_TCP,
			       IB_QPT_RC);
	if (IS_ERR(f->id))
		return PTR_ERR(f->id);
	err = rdma_resolve_addr(f->id, (struct sockaddr *)&src,
				(struct sockaddr *)&dst, RT_FORGED_MS);
	if (!err)
		err = rt_forger_wait(f);
	if (!err && f->last != RDMA_CM_EVENT_ROUTE_RESOLVED)
		err = -EHOSTUNREACH;
	if (!err)
		f->path = *f->id->route.path_rec;
	return err;
}

static void rt_forger_close(struct rt_forger *f)
{
	if (!IS_ERR_OR_NULL(f->cm))
		ib_destroy_cm_id(f->cm);
	if (!IS_ERR_OR_NULL(f->id))
		rdma_destroy_id(f->id);
	memset(f, 0, sizeof(*f));
}

static int rt_forger_send(struct rt_forger *f)
{
	/* The same one again would be taken for a remainder of the first. */
	static atomic_t qpn = ATOMIC_INIT(RT_FORGED_QPN);
	struct sockaddr_in to = rt_forged_addr(rt_address(), RT_PORT);
	struct rt_cma cma = {
		.ip_version = 4 << 4,
		.port = htons(RT_STRANGER),
		.src = in_aton(rt_second_address()),
		.dst = in_aton(rt_address()),
		.hello = rt_hello,
	};
	struct ib_cm_req_param req = {
		.primary_path = &f->path,
		.ppath_sgid_attr = f->id->route.addr.dev_addr.sgid_attr,
		.service_id = rdma_get_service_id(f->id,
						  (struct sockaddr *)&to),
		.qp_num = atomic_inc_return(&qpn),
		.qp_type = IB_QPT_RC,
		.private_data = &cma,
		.private_data_len = sizeof(cma),
		.responder_resources = 1,
		.initiator_depth = 1,
		.remote_cm_response_timeout = 20,
		.local_cm_response_timeout = 20,
		.retry_count = 7,
		.rnr_retry_count = 7,
		.max_cm_retries = 15,
	};

	f->cm = ib_create_cm_id(f->id->device, rt_forger_answer, f);
	if (IS_ERR(f->cm))
		return PTR_ERR(f->cm);
	return ib_send_cm_req(f->cm, &req);
}

/*
 * A request that comes from the first address and claims the second one; with
 * @gid, it also names the second one's GID as the source of data. Return: 1 if it
 * is accepted, 0 if not, a negative errno.
 */
static int rt_forge(struct rt_forger *f, bool gid)
{
	struct sockaddr_in claimed = rt_forged_addr(rt_second_address(), 0);
	int err;

	err = rt_forger_open(f);
	if (!err && gid)
		rdma_ip2gid((struct sockaddr *)&claimed, &f->path.sgid);
	if (!err)
		err = rt_forger_send(f);
	if (!err)
		err = rt_forger_wait(f);
	return err ? err : f->accepted;
}

/* The second address gets a message on the connection that it has, or accepts. */
static int rt_forged_reaches(struct rt *rt, struct rt_hostile *h,
			     kfi_addr_t addr, bool connect)
{
	struct kfi_cq_data_entry entry;
	ssize_t n;
	int err;

	err = kfi_send(rt->a.ep, rt->a.buf, 8, NULL, addr, NULL);
	if (!err && connect)
		err = rt_hostile_accept(h);
	if (!err)
		err = kfi_recv(h->ep, h->msg, 8192, NULL, 0, NULL);
	if (err)
		return err;
	n = kfi_cq_sread(h->cq, &entry, 1, NULL, RT_DEADLINE_MS);
	return n == 1 ? ((struct kfr_hdr *)h->msg)->op : n < 0 ? n : -EIO;
}

static void rt_forged_run(struct rt *rt, struct rt_hostile *h, bool gid)
{
	struct rt_forger early = { }, late = { };
	int first, second, forged;
	kfi_addr_t addr;

	RT_EQ(rt, rt_know(&rt->a, &addr), 1);
	RT_EQ(rt, rt_hostile_listen(h), 0);
	forged = rt_forge(&early, gid);
	first = rt_forged_reaches(rt, h, addr, true);
	if (forged == gid)
		forged = rt_forge(&late, gid);
	second = first < 0 ? first : rt_forged_reaches(rt, h, addr, false);
	rt_forger_close(&late);
	rt_forger_close(&early);
	RT_EQ(rt, forged, gid);
	RT_EQ(rt, first, KFR_OP_EAGER);
	RT_EQ(rt, second, KFR_OP_EAGER);
	RT_EQ(rt, rt_talk(rt), 0);
}

static void rt_forged_address_run(struct rt *rt, struct rt_hostile *h)
{
	rt_forged_run(rt, h, false);
}

static void rt_forged_path_run(struct rt *rt, struct rt_hostile *h)
{
	rt_forged_run(rt, h, true);
}

/* The request comes from another GID than the address that it claims. */
static void rt_forged_address(struct rt *rt)
{
	rt_listening(rt, rt_forged_address_run);
}

/* It names the GID, too, but no data comes from there. */
static void rt_forged_path(struct rt *rt)
{
	rt_listening(rt, rt_forged_path_run);
}

/* The second address sends to @b over its own connection. */
static int rt_genuine(struct rt *rt, struct rt_hostile *h, u32 nth)
{
	struct kfr_hdr hdr = {
		.version = KFR_VERSION,
		.op = KFR_OP_EAGER,
		.src = cpu_to_le16(RT_STRANGER),
		.auth = cpu_to_le32(255),
		.seq = cpu_to_le32(nth),
		.count = cpu_to_le32(nth),
	};
	struct kfi_cq_tagged_entry entry;
	int err;

	err = rt_number(&rt->b, &hdr.dst);
	if (!err)
		err = kfi_recv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC,
			       NULL);
	if (!err)
		err = kfi_inject(h->ep, &hdr, sizeof(hdr), 0);
	return err ? err : rt_entry(&rt->b, &entry);
}

static void rt_forged_crowd_run(struct rt *rt, struct rt_hostile *h)
{
	struct rt_forger f[RT_FORGERS] = { };
	unsigned int i;
	int err;

	RT_EQ(rt, rt_hostile_connect(h, &rt_hello, sizeof(rt_hello), NULL, 0),
	      0);
	err = rt_genuine(rt, h, 1);
	for (i = 0; i < RT_FORGERS && err >= 0; i++)
		err = rt_forge(&f[i], true);
	if (err >= 0)
		err = rt_genuine(rt, h, 2);
	for (i = 0; i < RT_FORGERS; i++)
		rt_forger_close(&f[i]);
	RT_EQ(rt, err, 0);
	RT_EQ(rt, rt_talk(rt), 0);
}

/* However many there are, the genuine connection stays. */
static void rt_forged_crowd(struct rt *rt)
{
	rt_with_hostile(rt, rt_forged_crowd_run);
}

const struct rt_case rt_forged_cases[] = {
	{ "forged_address", rt_forged_address },
	{ "forged_path", rt_forged_path },
	{ "forged_crowd", rt_forged_crowd },
	{ }
};
