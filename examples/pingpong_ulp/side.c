// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The parts of every ULP with connections: open, connect, wait, close.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/module.h>
#include <linux/slab.h>

#include "pingpong.h"

static char *addr = "";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "IP address of the listener's RDMA device, for both sides");

static char *port = "7471";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "port to listen on");

static char *prov = "verbs";
module_param(prov, charp, 0444);
MODULE_PARM_DESC(prov, "kfabric provider");

static unsigned int timeout_ms = 10000;
module_param(timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "the longest time without the next message");

/* Limit of the private data in a connection event. */
#define PP_PRIVATE_DATA	256

/* ---- Reading: a thread may wait only after it has emptied all members. ---- */

static int pp_look_eq(struct pp_side *side)
{
	/* Room for an event and its private data. With less, the read fails. */
	union {
		struct kfi_eq_cm_entry cm;
		u8 room[sizeof(struct kfi_eq_cm_entry) + PP_PRIVATE_DATA];
	} buf;
	struct kfi_eq_err_entry err;
	u32 event;
	ssize_t n;

	while ((n = kfi_eq_read(side->eq, &event, &buf, sizeof(buf), 0)) > 0) {
		if (event == KFI_CONNECTED)
			side->connected = true;
		if (event == KFI_SHUTDOWN)
			side->closed = true;
		if (event != KFI_CONNREQ)
			continue;
		/* This side owns a request until it accepts or rejects it. */
		if (!side->connreq) {
			side->connreq = buf.cm.info;
		} else {
			kfi_reject(side->pep, buf.cm.info->handle, NULL, 0);
			kfi_freeinfo(buf.cm.info);
		}
	}
	if (n != -KFI_EAVAIL)
		return n == -KFI_EAGAIN ? 0 : n;

	n = kfi_eq_readerr(side->eq, &err, 0);
	return n < 0 ? n : -err.err;
}

static int pp_look_cq(struct pp_side *side)
{
	struct kfi_cq_msg_entry entry;
	struct kfi_cq_err_entry err;
	ssize_t n;

	while ((n = kfi_cq_read(side->cq, &entry, 1)) > 0) {
		if (entry.flags & KFI_RECV)
			side->received++;
	}
	if (n != -KFI_EAVAIL)
		return n == -KFI_EAGAIN ? 0 : n;

	n = kfi_cq_readerr(side->cq, &err, 0);
	if (n < 0)
		return n;
	return side->leaving ? 0 : -err.err;
}

/*
 * A wait set is ready as long as one of its members is. So this function reads
 * every member until it is empty. This includes the counter: an unread change
 * of the counter would end every later wait at once.
 */
static int pp_look(struct pp_side *side)
{
	int err;

	if (side->cq) {
		err = pp_look_cq(side);
		if (err)
			return err;
		side->counted = kfi_cntr_read(side->cntr);
		if (kfi_cntr_readerr(side->cntr))
			return -EIO;
	}
	return pp_look_eq(side);
}

/* ---- Waiting ---- */

bool pp_has_request(const struct pp_side *side)
{
	return side->connreq;
}

bool pp_is_connected(const struct pp_side *side)
{
	return side->connected;
}

/*
 * A completion is in the CQ and in the counter before it wakes a waiter. A
 * thread that reads both without having slept may find the CQ entry before the
 * counter has changed. So both are checked.
 */
bool pp_has_message(const struct pp_side *side)
{
	return side->received >= side->expected &&
	       side->counted >= side->expected;
}

bool pp_is_closed(const struct pp_side *side)
{
	return side->closed;
}

/*
 * The wait loop of every ULP.
 *
 * The condition is checked before the first wait, because an earlier read may
 * already have met it: several events can arrive together. A return value of 0
 * means that a member of the set was ready. It does not name the member, and
 * the member may be empty again. The deadline is computed once: a timeout that
 * restarts with each wake-up may never end. -EINTR means that the thread is
 * being stopped or has a signal. Every later wait would return it too, so the
 * loop ends.
 */
int pp_await(struct pp_side *side,
	     bool (*there)(const struct pp_side *side))
{
	ktime_t deadline = ktime_add_ms(ktime_get(), timeout_ms);
	s64 left;
	int err;

	while (!there(side)) {
		if (side->closed)
			return -ECONNRESET;
		left = ktime_ms_delta(deadline, ktime_get());
		err = kfi_wait(side->wait, clamp_t(s64, left, 0, INT_MAX));
		if (err)
			return err;
		side->waits++;
		err = pp_look(side);
		if (err)
			return err;
	}
	return 0;
}

/* ---- Opening: parents first, the wait set before its members. ---- */

static struct kfi_info *pp_hints(void)
{
	struct kfi_info *hints = kfi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = KFI_MSG;
	/* The modes that this ULP supports: it registers its buffers. */
	hints->mode = KFI_LOCAL_MR;
	hints->ep_attr->type = KFI_EP_MSG;
	hints->domain_attr->mr_mode = KFI_MR_LOCAL | KFI_MR_VIRT_ADDR |
				      KFI_MR_PROV_KEY;
	/* kfi_freeinfo() frees the strings of an info, so this is a copy. */
	hints->fabric_attr->prov_name = kstrdup(prov, GFP_KERNEL);
	if (!hints->fabric_attr->prov_name) {
		kfi_freeinfo(hints);
		return NULL;
	}
	return hints;
}

static int pp_open_fabric(struct pp_side *side, u64 flags)
{
	struct kfi_wait_attr wait_attr = { .wait_obj = KFI_WAIT_QUEUE };
	struct kfi_eq_attr eq_attr = { .wait_obj = KFI_WAIT_SET };
	struct kfi_info *hints = pp_hints();
	int err;

	if (!hints)
		return -ENOMEM;
	err = kfi_getinfo(KFI_VERSION(1, 7), addr, port, flags, hints,
			  &side->info);
	kfi_freeinfo(hints);
	if (err)
		return err;

	err = kfi_fabric(side->info->fabric_attr, &side->fabric, NULL);
	if (err)
		return err;
	err = kfi_wait_open(side->fabric, &wait_attr, &side->wait);
	if (err)
		return err;
	eq_attr.wait_set = side->wait;
	return kfi_eq_open(side->fabric, &eq_attr, &side->eq, NULL, side);
}

static int pp_open_queues(struct pp_side *side, struct kfi_info *info)
{
	struct kfi_cntr_attr cntr_attr = { .wait_obj = KFI_WAIT_SET };
	struct kfi_cq_attr cq_attr = {
		.format = KFI_CQ_FORMAT_MSG,
		.wait_obj = KFI_WAIT_SET,
	};
	int err;

	err = kfi_domain(side->fabric, info, &side->domain, NULL);
	if (err)
		return err;
	cq_attr.wait_set = side->wait;
	err = kfi_cq_open(side->domain, &cq_attr, &side->cq, NULL, side);
	if (err)
		return err;
	cntr_attr.wait_set = side->wait;
	return kfi_cntr_open(side->domain, &cntr_attr, &side->cntr, side);
}

/* All objects must be bound before the endpoint is enabled. */
static int pp_open_ep(struct pp_side *side, struct kfi_info *info)
{
	int err;

	err = kfi_endpoint(side->domain, info, &side->ep, side);
	if (err)
		return err;
	err = kfi_ep_bind(side->ep, &side->eq->fid, 0);
	if (err)
		return err;
	/* Selective: only a failed send writes a CQ entry. */
	err = kfi_ep_bind(side->ep, &side->cq->fid,
			  KFI_TRANSMIT | KFI_SELECTIVE_COMPLETION);
	if (err)
		return err;
	err = kfi_ep_bind(side->ep, &side->cq->fid, KFI_RECV);
	if (err)
		return err;
	err = kfi_ep_bind(side->ep, &side->cntr->fid, KFI_RECV);
	if (err)
		return err;
	return kfi_enable(side->ep);
}

int pp_post_recv(struct pp_side *side)
{
	return kfi_recv(side->ep, pp_recv_buf(side), pp_size,
			kfi_mr_desc(side->mr), KFI_ADDR_UNSPEC, side);
}

int pp_post_send(struct pp_side *side)
{
	return kfi_send(side->ep, pp_send_buf(side), pp_size,
			kfi_mr_desc(side->mr), KFI_ADDR_UNSPEC, side);
}

/* Ends with a posted receive, because the peer may send at once. */
static int pp_open_all(struct pp_side *side, struct kfi_info *info)
{
	int err;

	err = pp_open_queues(side, info);
	if (err)
		return err;
	err = pp_open_ep(side, info);
	if (err)
		return err;
	side->buf = kzalloc(2 * pp_size, GFP_KERNEL);
	if (!side->buf)
		return -ENOMEM;
	err = kfi_mr_reg(side->domain, side->buf, 2 * pp_size,
			 KFI_SEND | KFI_RECV, 0, 0, 0, &side->mr, NULL);
	if (err)
		return err;
	return pp_post_recv(side);
}

int pp_listen(struct pp_side *side)
{
	int err;

	if (!*addr || timeout_ms > INT_MAX)
		return -EINVAL;
	err = pp_open_fabric(side, KFI_SOURCE);
	if (err)
		return err;
	err = kfi_passive_ep(side->fabric, side->info, &side->pep, side);
	if (err)
		return err;
	err = kfi_pep_bind(side->pep, &side->eq->fid, 0);
	if (err)
		return err;
	return kfi_listen(side->pep);
}

int pp_connect(struct pp_side *side)
{
	int err;

	err = pp_open_fabric(side, 0);
	if (err)
		return err;
	err = pp_open_all(side, side->info);
	if (err)
		return err;
	return kfi_connect(side->ep, NULL, NULL, 0);
}

/* The endpoint is opened from the request and then owns it. */
int pp_accept(struct pp_side *side)
{
	int err;

	err = pp_open_all(side, side->connreq);
	if (err)
		return err;
	return kfi_accept(side->ep, NULL, 0);
}

static void pp_close(const struct pp_side *side, struct kfid *fid)
{
	int err = kfi_close(fid);

	/* -EBUSY would mean a wrong order in pp_close_all(). */
	if (err)
		pr_err("%s: closing an object of class %zu: %d\n", side->name,
		       fid->fclass, err);
}

/*
 * The order is the reverse of the dependencies: the endpoint pins its bound
 * queues, the queues are members of the wait set, and all of them pin the domain
 * or the fabric. The buffer belongs to the provider until the endpoint is
 * closed.
 */
void pp_close_all(struct pp_side *side)
{
	if (side->ep)
		pp_close(side, &side->ep->fid);
	if (side->mr)
		pp_close(side, &side->mr->fid);
	kfree(side->buf);
	if (side->cntr)
		pp_close(side, &side->cntr->fid);
	if (side->cq)
		pp_close(side, &side->cq->fid);
	if (side->domain)
		pp_close(side, &side->domain->fid);
	/* A request without an endpoint must be rejected. */
	if (side->connreq && !side->ep)
		kfi_reject(side->pep, side->connreq->handle, NULL, 0);
	kfi_freeinfo(side->connreq);
	if (side->pep)
		pp_close(side, &side->pep->fid);
	if (side->eq)
		pp_close(side, &side->eq->fid);
	if (side->wait)
		pp_close(side, &side->wait->kfid);
	if (side->fabric)
		pp_close(side, &side->fabric->fid);
	kfi_freeinfo(side->info);
}

