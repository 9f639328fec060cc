// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* A listener and two connected endpoints, opened and closed. */
#include <linux/gfp.h>
#include <linux/slab.h>

#include "vtest.h"

/*
 * Asks as some ULPs do: the hints are a zeroed info on the stack with nothing
 * but an address in it.
 */
int vt_getinfo(u16 port, struct kfi_info **info)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = vt_address(),
	};
	struct kfi_info hints = { };

	if (port) {
		hints.dest_addr = &sin;
		hints.dest_addrlen = sizeof(sin);
	} else {
		hints.src_addr = &sin;
		hints.src_addrlen = sizeof(sin);
	}
	return kfi_getinfo(0, NULL, NULL, 0, &hints, info);
}

int vt_listen(struct vt *vt, u16 *port)
{
	struct kfi_eq_attr attr = { .wait_obj = KFI_WAIT_QUEUE };
	struct sockaddr_in name;
	size_t len = sizeof(name);
	struct kfi_info *info;
	int err;

	err = vt_getinfo(0, &info);
	if (err)
		return err;
	err = kfi_fabric(info->fabric_attr, &vt->fabric, vt);
	if (!err)
		err = kfi_eq_open(vt->fabric, &attr, &vt->eq, NULL, vt);
	if (!err)
		err = kfi_passive_ep(vt->fabric, info, &vt->pep, vt);
	if (!err)
		err = kfi_pep_bind(vt->pep, &vt->eq->fid, 0);
	if (!err && vt->backlog)
		err = kfi_control(&vt->pep->fid, KFI_BACKLOG, &vt->backlog);
	if (!err)
		err = kfi_listen(vt->pep);
	if (!err)
		err = kfi_getname(&vt->pep->fid, &name, &len);
	kfi_freeinfo(info);
	*port = ntohs(name.sin_port);
	return err;
}

/* As deep as the endpoint's queues. */
static int vt_open_cqs(struct vt *vt, struct vt_side *side,
		       kfi_comp_handler handler)
{
	struct kfi_cq_attr attr = {
		.size = side->info->tx_attr->size,
		.format = KFI_CQ_FORMAT_DATA,
		.wait_obj = KFI_WAIT_QUEUE,
	};
	int err;

	err = kfi_cq_open(side->domain, &attr, &side->cq, handler, vt);
	if (err || !vt->regions)
		return err;
	attr.size = side->info->rx_attr->size;
	return kfi_cq_open(side->domain, &attr, &side->rx_cq, NULL, vt);
}

static int vt_bind_cqs(struct vt_side *side)
{
	int err;

	if (!side->rx_cq)
		return kfi_ep_bind(side->ep, &side->cq->fid,
				   KFI_TRANSMIT | KFI_RECV);
	err = kfi_ep_bind(side->ep, &side->cq->fid, KFI_SEND);
	if (!err)
		err = kfi_ep_bind(side->ep, &side->rx_cq->fid, KFI_RECV);
	return err;
}

static int vt_open_region(struct vt_side *side)
{
	return kfi_mr_reg(side->domain, side->buf, VT_BUF_SIZE,
			  KFI_READ | KFI_WRITE | KFI_REMOTE_READ |
			  KFI_REMOTE_WRITE, 0, 0, 0, &side->mr, NULL);
}

/* Takes over @info. */
static int vt_open_side(struct vt *vt, struct vt_side *side,
			struct kfi_info *info, kfi_comp_handler handler)
{
	struct kfi_eq_attr eq_attr = { .wait_obj = KFI_WAIT_QUEUE };
	int err;

	side->info = info;
	side->pages = alloc_pages(GFP_KERNEL | __GFP_ZERO,
				  get_order(VT_BUF_SIZE));
	if (!side->pages)
		return -ENOMEM;
	side->buf = page_address(side->pages);
	err = kfi_domain(vt->fabric, info, &side->domain, vt);
	if (!err)
		err = kfi_eq_open(vt->fabric, &eq_attr, &side->eq, NULL, vt);
	if (!err)
		err = vt_open_cqs(vt, side, handler);
	if (!err)
		err = kfi_endpoint(side->domain, info, &side->ep, vt);
	if (!err)
		err = vt_bind_cqs(side);
	if (!err)
		err = kfi_ep_bind(side->ep, &side->eq->fid, 0);
	if (!err && vt->regions)
		err = vt_open_region(side);
	return err;
}

static int vt_event(struct kfid_eq *eq, u32 want, struct kfi_info **info,
		    struct kfi_rma_iov *peer)
{
	union {
		struct kfi_eq_cm_entry cm;
		u8 room[512];
	} buf;
	ssize_t n;
	u32 event;

	n = kfi_eq_sread(eq, &event, &buf, sizeof(buf), VT_DEADLINE_MS, 0);
	if (n < 0)
		return n;
	if (event != want)
		return -EPROTO;
	if (info)
		*info = buf.cm.info;
	if (!peer)
		return 0;
	/* What carries private data may add to it. */
	if (n < sizeof(buf.cm) + sizeof(*peer))
		return -EMSGSIZE;
	memcpy(peer, buf.cm.data, sizeof(*peer));
	return 0;
}

/* What the other side is told: 24 bytes about the region. */
static const void *vt_param(const struct vt_side *side,
			    struct kfi_rma_iov *param, size_t *len)
{
	if (!side->mr)
		return NULL;
	param->addr = side->mr->iova;
	param->len = VT_BUF_SIZE;
	param->key = kfi_mr_key(side->mr);
	*len = sizeof(*param);
	return param;
}

static int vt_answer(struct vt *vt, struct vt_side *side)
{
	struct kfi_rma_iov param;
	size_t len = 0;
	const void *data = vt_param(side, &param, &len);

	if (side == &vt->a)
		return kfi_connect(side->ep, NULL, data, len);
	return kfi_accept(side->ep, data, len);
}

/* Answers the next connection request; accepting enables the endpoint. */
int vt_accept(struct vt *vt)
{
	struct kfi_info *info;
	int err;

	err = vt_event(vt->eq, KFI_CONNREQ, &info,
		       vt->regions ? &vt->b.peer : NULL);
	if (!err)
		err = vt_open_side(vt, &vt->b, info, vt->handler);
	return err ?: vt_answer(vt, &vt->b);
}

int vt_connected_event(struct vt_side *side)
{
	return vt_event(side->eq, KFI_CONNECTED, NULL, NULL);
}

int vt_shutdown_event(struct vt_side *side)
{
	return vt_event(side->eq, KFI_SHUTDOWN, NULL, NULL);
}

/* Connecting enables the endpoint, too. */
int vt_connect(struct vt *vt)
{
	struct kfi_info *info;
	u16 port;
	int err;

	err = vt_listen(vt, &port);
	if (err)
		return err;
	err = vt_getinfo(port, &info);
	if (err)
		return err;
	err = vt_open_side(vt, &vt->a, info, NULL);
	if (!err)
		err = vt_answer(vt, &vt->a);
	if (!err)
		err = vt_accept(vt);
	if (!err)
		err = vt_event(vt->a.eq, KFI_CONNECTED, NULL,
			       vt->regions ? &vt->a.peer : NULL);
	return err ?: vt_connected_event(&vt->b);
}

/* Return: 0 with the next completion, or the errno of a failed one. */
int vt_entry(struct vt_side *side, struct kfi_cq_data_entry *entry)
{
	struct kfi_cq_err_entry err = { };
	ssize_t n;

	n = kfi_cq_sread(side->cq, entry, 1, NULL, VT_DEADLINE_MS);
	if (n == -KFI_EAVAIL)
		return kfi_cq_readerr(side->cq, &err, 0) == 1 ? -err.err : -EIO;
	return n == 1 ? 0 : n;
}

static void vt_close_fid(struct vt *vt, struct kfid *fid, const char *what)
{
	int err = kfi_close(fid);

	if (err) {
		seq_printf(vt->seq, "closing the %s: %d\n", what, err);
		vt->failed = true;
	}
}

static void vt_close_side(struct vt *vt, struct vt_side *side)
{
	if (side->ep)
		vt_close_fid(vt, &side->ep->fid, "endpoint");
	if (side->eq)
		vt_close_fid(vt, &side->eq->fid, "event queue");
	if (side->cq)
		vt_close_fid(vt, &side->cq->fid, "completion queue");
	if (side->rx_cq)
		vt_close_fid(vt, &side->rx_cq->fid, "receive queue");
	if (side->mr)
		vt_close_fid(vt, &side->mr->fid, "region");
	if (side->domain)
		vt_close_fid(vt, &side->domain->fid, "domain");
	if (side->pages)
		__free_pages(side->pages, get_order(VT_BUF_SIZE));
	kfi_freeinfo(side->info);
	memset(side, 0, sizeof(*side));
}

/*
 * Closes what is open. A listener's event queue goes before it, as some ULPs
 * close them.
 */
void vt_close(struct vt *vt)
{
	vt_close_side(vt, &vt->a);
	vt_close_side(vt, &vt->b);
	if (vt->eq)
		vt_close_fid(vt, &vt->eq->fid, "listener's event queue");
	if (vt->pep)
		vt_close_fid(vt, &vt->pep->fid, "listener");
	if (vt->fabric)
		vt_close_fid(vt, &vt->fabric->fid, "fabric");
	vt->eq = NULL;
	vt->pep = NULL;
	vt->fabric = NULL;
}

void vt_fill(u8 *buf, size_t len, u8 seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		buf[i] = i % 251 + seed;
}

bool vt_filled(const u8 *buf, size_t len, u8 seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (buf[i] != (u8)(i % 251 + seed))
			return false;
	return true;
}
