// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* What is refused, and with which code; contexts and vectors. */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include <kfi_test.h>

#include "rtest.h"

/* A scalable endpoint, and the order in which it is put together. */
static void rt_scalable(struct rt *rt)
{
	struct kfid_ep *sep, *tx, *tx2, *rx;
	struct kfi_info *info;
	u8 name[16];
	size_t len = sizeof(name);

	rt->format = KFI_ADDR_CXI;
	RT_EQ(rt, rt_open_side(rt, &rt->a), 0);
	info = kfi_dupinfo(rt->a.info);
	RT_CHECK(rt, info);
	info->ep_attr->tx_ctx_cnt = 2;
	info->ep_attr->rx_ctx_cnt = 2;
	RT_EQ(rt, kfi_scalable_ep(rt->a.domain, info, &sep, rt), 0);
	kfi_freeinfo(info);
	RT_EQ(rt, kfi_enable(sep), -KFI_ENOAV);
	RT_EQ(rt, kfi_getname(&sep->fid, name, &len), -KFI_EOPBADSTATE);
	RT_EQ(rt, kfi_scalable_ep_bind(sep, &rt->a.cq->fid, 0), -KFI_ENOSYS);
	RT_EQ(rt, kfi_scalable_ep_bind(sep, &rt->a.av->fid, 0), 0);
	RT_EQ(rt, kfi_scalable_ep_bind(sep, &rt->a.av->fid, 0), -KFI_EINVAL);
	RT_EQ(rt, kfi_tx_context(sep, 2, NULL, &tx, NULL), -KFI_EINVAL);
	RT_EQ(rt, kfi_tx_context(sep, 0, NULL, &tx, NULL), 0);
	RT_EQ(rt, kfi_tx_context(sep, 0, NULL, &tx2, NULL), -KFI_EINVAL);
	RT_EQ(rt, kfi_rx_context(sep, 1, NULL, &rx, NULL), 0);
	RT_EQ(rt, kfi_enable(tx), -KFI_ENOCQ);
	RT_EQ(rt, kfi_ep_bind(tx, &rt->a.cq->fid, KFI_RECV), -KFI_EINVAL);
	RT_EQ(rt, kfi_ep_bind(tx, &rt->a.cq->fid, 0), 0);
	RT_EQ(rt, kfi_ep_bind(rx, &rt->a.cq->fid, 0), 0);
	RT_EQ(rt, kfi_enable(tx), -KFI_EOPBADSTATE);
	RT_EQ(rt, kfi_enable(sep), 0);
	RT_EQ(rt, kfi_enable(sep), 0);
	RT_EQ(rt, kfi_send(tx, name, 1, NULL, 0, NULL), -KFI_EOPBADSTATE);
	RT_EQ(rt, kfi_recv(tx, name, 1, NULL, 0, NULL), -KFI_ENOSYS);
	RT_EQ(rt, kfi_enable(tx), 0);
	RT_EQ(rt, kfi_enable(rx), 0);
	len = 4;
	RT_EQ(rt, kfi_getname(&sep->fid, name, &len), -KFI_ETOOSMALL);
	RT_EQ(rt, len, sizeof(struct kcxi_addr));
	RT_EQ(rt, kfi_close(&sep->fid), -KFI_EBUSY);
	RT_EQ(rt, kfi_close(&tx->fid), 0);
	RT_EQ(rt, kfi_close(&rx->fid), 0);
	RT_EQ(rt, kfi_close(&sep->fid), 0);
}

static void rt_address_in_use(struct rt *rt)
{
	struct kfid_ep *twin;
	size_t len = sizeof(struct sockaddr_in);
	struct sockaddr_in name;

	RT_EQ(rt, rt_open_side(rt, &rt->a), 0);
	RT_EQ(rt, kfi_getname(&rt->a.ep->fid, &name, &len), 0);
	RT_EQ(rt, kfi_endpoint(rt->a.domain, rt->a.info, &twin, NULL), 0);
	RT_EQ(rt, kfi_setname(&twin->fid, &name, sizeof(name)), 0);
	RT_EQ(rt, kfi_enable(twin), -KFI_ENOAV);
	RT_EQ(rt, kfi_ep_bind(twin, &rt->a.av->fid, 0), 0);
	RT_EQ(rt, kfi_enable(twin), -KFI_ENOCQ);
	RT_EQ(rt, kfi_ep_bind(twin, &rt->a.cq->fid, KFI_SEND | KFI_RECV), 0);
	RT_EQ(rt, kfi_enable(twin), -KFI_EADDRINUSE);
	RT_EQ(rt, kfi_close(&twin->fid), 0);
}

/* As an address of the endpoint's info does, any address means the domain's. */
static void rt_any_address(struct rt *rt)
{
	struct sockaddr_in name = { .sin_family = AF_INET }, got = { }, own = { };
	size_t len = sizeof(own);
	struct kfid_ep *ep;

	RT_EQ(rt, rt_open_side(rt, &rt->a), 0);
	RT_EQ(rt, kfi_getname(&rt->a.ep->fid, &own, &len), 0);
	RT_EQ(rt, kfi_endpoint(rt->a.domain, rt->a.info, &ep, NULL), 0);
	RT_EQ(rt, kfi_setname(&ep->fid, &name, sizeof(name)), 0);
	RT_EQ(rt, kfi_ep_bind(ep, &rt->a.av->fid, 0), 0);
	RT_EQ(rt, kfi_ep_bind(ep, &rt->a.cq->fid, KFI_SEND | KFI_RECV), 0);
	RT_EQ(rt, kfi_enable(ep), 0);
	RT_EQ(rt, kfi_getname(&ep->fid, &got, &len), 0);
	RT_EQ(rt, got.sin_addr.s_addr == own.sin_addr.s_addr, true);
	RT_EQ(rt, got.sin_port != 0, true);
	RT_EQ(rt, kfi_close(&ep->fid), 0);
}

static void rt_vector(struct rt *rt)
{
	struct kfi_av_attr attr = { .rx_ctx_bits = 17 };
	struct sockaddr_in sin[3] = { }, got;
	kfi_addr_t addr[6];
	struct kfid_av *av;
	char text[64];
	size_t len;

	RT_EQ(rt, rt_open_side(rt, &rt->a), 0);
	RT_EQ(rt, kfi_av_open(rt->a.domain, &attr, &av, NULL), -KFI_EINVAL);
	attr.rx_ctx_bits = 8;
	attr.type = KFI_AV_TABLE;
	RT_EQ(rt, kfi_av_open(rt->a.domain, &attr, &av, NULL), 0);
	sin[0].sin_family = AF_INET;
	sin[0].sin_addr.s_addr = htonl(0x0a010203);
	sin[0].sin_port = htons(5);
	sin[2] = sin[0];
	sin[2].sin_port = htons(6);
	/* A failed one uses up its index. */
	RT_EQ(rt, kfi_av_insert(av, sin, 3, addr, 0, NULL), 2);
	RT_EQ(rt, addr[0], 0);
	RT_EQ(rt, addr[1], KFI_ADDR_NOTAVAIL);
	RT_EQ(rt, addr[2], 2);
	len = sizeof(got);
	RT_EQ(rt, kfi_av_lookup(av, addr[2], &got, &len), 0);
	RT_CHECK(rt, !memcmp(&got, &sin[2], sizeof(got)));
	RT_EQ(rt, kfi_av_lookup(av, addr[1], &got, &len), -KFI_EINVAL);
	len = sizeof(text);
	RT_CHECK(rt, !strcmp(kfi_av_straddr(av, sin, text, &len),
			     "10.1.2.3:5"));
	RT_EQ(rt, len, 11);
	RT_EQ(rt, kfi_av_insertsvc(av, "10.0.0.9", "77", addr, 0, NULL), 1);
	RT_EQ(rt, kfi_av_insertsvc(av, "not.a.node", "77", addr, 0, NULL),
	      -KFI_EINVAL);
	RT_EQ(rt, kfi_av_insertsym(av, "10.0.0.1", 2, "10", 3, addr, 0, NULL),
	      6);
	len = sizeof(got);
	RT_EQ(rt, kfi_av_lookup(av, addr[5], &got, &len), 0);
	RT_EQ(rt, ntohs(got.sin_port), 12);
	RT_EQ(rt, ntohl(got.sin_addr.s_addr), 0x0a000002);
	RT_EQ(rt, kfi_av_remove(av, addr, 6, 0), 0);
	RT_EQ(rt, kfi_av_remove(av, addr, 1, 0), -KFI_EINVAL);
	RT_EQ(rt, kfi_close(&av->fid), 0);
}

/* Return: addresses inserted, as the completion at the head says. */
static s64 rt_inserted(struct kfid_eq *eq)
{
	struct kfi_eq_entry entry = { };
	u32 event = 0;
	ssize_t n = kfi_eq_read(eq, &event, &entry, sizeof(entry), 0);

	if (n != sizeof(entry))
		return n;
	return event == KFI_AV_COMPLETE ? entry.data : -EPROTO;
}

static ssize_t rt_failed(struct kfid_eq *eq)
{
	struct kfi_eq_err_entry err = { };
	ssize_t n = kfi_eq_readerr(eq, &err, 0);

	return n == sizeof(err) ? -err.err : n;
}

/*
 * Two events fit into the EQ. Each insertion has an address that is none: its error
 * takes a place of the user's, or is left out, and the completion counts in any case.
 */
static void rt_vector_places(struct rt *rt, struct kfid_av *av,
			     struct kfid_eq *eq)
{
	struct sockaddr_in sin[2] = { { .sin_family = AF_INET } };
	kfi_addr_t addr[2];
	int i;

	sin[0].sin_addr.s_addr = htonl(0x0a010203);
	sin[0].sin_port = htons(5);
	RT_EQ(rt, kfi_av_insert(av, sin, 2, addr, 0, NULL), -KFI_ENOEQ);
	RT_EQ(rt, kfi_av_bind(av, &eq->fid, 0), 0);
	for (i = 0; i < 2; i++)
		RT_EQ(rt, kfi_av_insert(av, sin, 2, addr, 0, NULL), 2);
	RT_EQ(rt, kfi_av_insert(av, sin, 2, addr, 0, NULL), -KFI_EAGAIN);
	RT_EQ(rt, kfi_eq_write(eq, 1, sin, sizeof(sin), 0), -KFI_EAGAIN);
	RT_EQ(rt, rt_failed(eq), -EINVAL);
	RT_EQ(rt, rt_inserted(eq), 1);
	RT_EQ(rt, kfi_av_insert(av, sin, 2, addr, 0, NULL), 2);
	RT_EQ(rt, kfi_av_insert(av, sin, 2, addr, 0, NULL), -KFI_EAGAIN);
	RT_EQ(rt, rt_failed(eq), -EINVAL);
	RT_EQ(rt, rt_inserted(eq), 1);
	RT_EQ(rt, kfi_eq_write(eq, 1, sin, sizeof(sin), 0), sizeof(sin));
	RT_EQ(rt, kfi_av_insert(av, sin, 2, addr, 0, NULL), 2);
	RT_EQ(rt, addr[1], KFI_ADDR_NOTAVAIL);
	RT_EQ(rt, kfi_close(&av->fid), 0);
}

/* @play closes the vector, whose insertions are to be reported to the EQ. */
static void rt_vector_run(struct rt *rt,
			  void (*play)(struct rt *rt, struct kfid_av *av,
				       struct kfid_eq *eq))
{
	struct kfi_av_attr attr = { .type = KFI_AV_TABLE, .flags = KFI_EVENT };
	struct kfi_eq_attr eq_attr = { .size = 2 };
	struct kfid_av *av;
	struct kfid_eq *eq;

	RT_EQ(rt, rt_open_side(rt, &rt->a), 0);
	RT_EQ(rt, kfi_eq_open(rt->a.fabric, &eq_attr, &eq, NULL, NULL), 0);
	RT_EQ(rt, kfi_av_open(rt->a.domain, &attr, &av, NULL), 0);
	play(rt, av, eq);
	RT_EQ(rt, kfi_close(&eq->fid), 0);
}

static void rt_vector_events(struct rt *rt)
{
	rt_vector_run(rt, rt_vector_places);
}

#ifdef KFABRIC_TEST
/**
 * struct rt_av_call - what happens beside the close of a vector
 * @insert: the insertion
 * @release: lets it go on as soon as the close sleeps
 * @av: the vector
 * @closer: the thread that closes it
 * @closed: the close has returned
 * @inserted: what the insertion returned
 */
struct rt_av_call {
	struct work_struct insert;
	struct work_struct release;
	struct kfid_av *av;
	struct task_struct *closer;
	bool closed;
	int inserted;
};

static void rt_av_insert_one(struct work_struct *work)
{
	struct rt_av_call *call = container_of(work, struct rt_av_call, insert);
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(5) };
	kfi_addr_t addr;

	sin.sin_addr.s_addr = htonl(0x0a010203);
	call->inserted = kfi_av_insert(call->av, &sin, 1, &addr, 0, NULL);
}

static void rt_av_release(struct work_struct *work)
{
	struct rt_av_call *call = container_of(work, struct rt_av_call, release);

	while (!READ_ONCE(call->closed) && task_is_running(call->closer))
		usleep_range(100, 200);
	kfi_test_hook_go(KFI_HOOK_D3);
}

static int rt_until_stopped(enum kfi_hook hook)
{
	unsigned long end = jiffies + msecs_to_jiffies(RT_DEADLINE_MS);

	while (!kfi_test_hook_stopped(hook)) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		usleep_range(100, 200);
	}
	return 0;
}

/* Hook D3: the event of an insertion can be read, and the call has not returned. */
static void rt_av_closed_early(struct rt *rt, struct kfid_av *av,
			       struct kfid_eq *eq)
{
	struct rt_av_call call = { .av = av, .closer = current };
	int stopped, closed;
	bool early;
	s64 told;

	RT_EQ(rt, kfi_av_bind(av, &eq->fid, 0), 0);
	RT_EQ(rt, kfi_test_hook_arm(KFI_HOOK_D3, 0), 0);
	INIT_WORK_ONSTACK(&call.insert, rt_av_insert_one);
	INIT_WORK_ONSTACK(&call.release, rt_av_release);
	queue_work(system_unbound_wq, &call.insert);
	stopped = rt_until_stopped(KFI_HOOK_D3);
	told = rt_inserted(eq);
	queue_work(system_unbound_wq, &call.release);
	closed = kfi_close(&av->fid);
	early = kfi_test_hook_stopped(KFI_HOOK_D3);
	WRITE_ONCE(call.closed, true);
	flush_work(&call.release);
	flush_work(&call.insert);
	destroy_work_on_stack(&call.release);
	destroy_work_on_stack(&call.insert);
	RT_EQ(rt, stopped, 0);
	RT_EQ(rt, told, 1);
	RT_EQ(rt, closed, 0);
	RT_CHECK(rt, !early);
	RT_EQ(rt, call.inserted, 1);
}
#else
/* The production build has no hooks. */
static void rt_av_closed_early(struct rt *rt, struct kfid_av *av,
			       struct kfid_eq *eq)
{
	RT_EQ(rt, kfi_close(&av->fid), 0);
}
#endif

static void rt_vector_closed_early(struct rt *rt)
{
	rt_vector_run(rt, rt_av_closed_early);
}

/* A description of what cannot be posted. */
static void rt_bad_posts(struct rt *rt)
{
	struct bio_vec holes[2] = { };
	struct kvec iov = { .iov_base = (void *)8, .iov_len = 8 };

	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, 12345, NULL),
	      -KFI_EINVAL);
	RT_EQ(rt, kfi_sendv(rt->a.ep, &iov, NULL, 1, rt->a.peer, NULL),
	      -KFI_EINVAL);
	RT_EQ(rt, kfi_sendv(rt->a.ep, NULL, NULL, 1, rt->a.peer, NULL),
	      -KFI_EINVAL);
	RT_EQ(rt, kfi_sendv(rt->a.ep, &iov, NULL, 257, rt->a.peer, NULL),
	      -KFI_EINVAL);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 1ULL << 32, NULL, rt->a.peer,
			   NULL), -KFI_EINVAL);
	holes[0].bv_page = vmalloc_to_page(rt->a.buf);
	holes[0].bv_len = 100;
	holes[1] = holes[0];
	RT_EQ(rt, kfi_sendbv(rt->a.ep, holes, NULL, 2, rt->a.peer, NULL),
	      -KFI_EINVAL);
	RT_EQ(rt, kfi_recvbv(rt->a.ep, holes, NULL, 2, KFI_ADDR_UNSPEC, NULL),
	      -KFI_EINVAL);
}

/* As many as the contexts have. */
static void rt_full(struct rt *rt)
{
	unsigned int i;

	rt->rx_size = 10;
	RT_EQ(rt, rt_open(rt), 0);
	for (i = 0; i < 10; i++)
		RT_EQ(rt, kfi_recv(rt->a.ep, rt->a.buf, 8, NULL,
				   KFI_ADDR_UNSPEC, NULL), 0);
	RT_EQ(rt, kfi_recv(rt->a.ep, rt->a.buf, 8, NULL, KFI_ADDR_UNSPEC, NULL),
	      -KFI_EAGAIN);
	for (i = 0; i < 256; i++)
		RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 10000, NULL,
				   rt->a.peer, NULL), 0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, NULL),
	      -KFI_EAGAIN);
}

static int rt_offered(struct rt *rt, enum kfi_resource_mgmt mgmt)
{
	struct kfi_info *hints = rt_hints(rt), *info = NULL;
	int err;

	if (!hints)
		return -ENOMEM;
	hints->domain_attr->resource_mgmt = mgmt;
	err = kfi_getinfo(KFI_VERSION(1, 7), rt_address(), NULL, KFI_SOURCE,
			  hints, &info);
	kfi_freeinfo(hints);
	if (!err)
		err = info->domain_attr->resource_mgmt;
	kfi_freeinfo(info);
	return err;
}

/* Nobody keeps a queue from overrunning: so that is not offered. */
static void rt_resource_mgmt(struct rt *rt)
{
	RT_EQ(rt, rt_offered(rt, KFI_RM_UNSPEC), KFI_RM_DISABLED);
	RT_EQ(rt, rt_offered(rt, KFI_RM_DISABLED), KFI_RM_DISABLED);
	RT_EQ(rt, rt_offered(rt, KFI_RM_ENABLED), -KFI_ENODATA);
}

const struct rt_case rt_refuse_cases[] = {
	{ "scalable", rt_scalable },
	{ "address_in_use", rt_address_in_use },
	{ "any_address", rt_any_address },
	{ "vector", rt_vector },
	{ "vector_events", rt_vector_events },
	{ "vector_closed_early", rt_vector_closed_early },
	{ "bad_posts", rt_bad_posts },
	{ "full", rt_full },
	{ "resource_mgmt", rt_resource_mgmt },
	{ }
};
