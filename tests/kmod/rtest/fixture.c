// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Two RDM endpoints that know each other, opened and closed. */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "rtest.h"

struct kfi_info *rt_hints(const struct rt *rt)
{
	struct kfi_info *hints = kfi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = rt->caps;
	hints->addr_format = rt->format;
	hints->ep_attr->type = KFI_EP_RDM;
	hints->rx_attr->total_buffered_recv = rt->keep;
	hints->rx_attr->size = rt->rx_size;
	hints->fabric_attr->prov_name = kstrdup("verbs", GFP_KERNEL);
	return hints;
}

int rt_getinfo(struct rt *rt, struct kfi_info **info)
{
	struct kfi_info *hints = rt_hints(rt);
	int err;

	if (!hints)
		return -ENOMEM;
	err = kfi_getinfo(KFI_VERSION(1, 7), rt_address(), NULL, KFI_SOURCE,
			  hints, info);
	kfi_freeinfo(hints);
	return err;
}

static int rt_open_queues(struct rt *rt, struct rt_side *side)
{
	struct kfi_av_attr av_attr = { .type = rt->av_type };
	struct kfi_cq_attr cq_attr = {
		.size = 16384,
		.format = KFI_CQ_FORMAT_TAGGED,
		.wait_obj = KFI_WAIT_QUEUE,
	};
	int err;

	if (side == &rt->b && rt->b_entries)
		cq_attr.size = rt->b_entries;
	err = kfi_fabric(side->info->fabric_attr, &side->fabric, NULL);
	if (!err)
		err = kfi_domain(side->fabric, side->info, &side->domain, NULL);
	if (!err)
		err = kfi_av_open(side->domain, &av_attr, &side->av, NULL);
	if (!err)
		err = kfi_cq_open(side->domain, &cq_attr, &side->cq, NULL,
				  NULL);
	return err;
}

/* The queues are there. rt_close_side() also if it fails. */
int rt_open_ep(struct rt_side *side)
{
	int err;

	err = kfi_endpoint(side->domain, side->info, &side->ep, side);
	if (!err)
		err = kfi_ep_bind(side->ep, &side->av->fid, 0);
	if (!err)
		err = kfi_ep_bind(side->ep, &side->cq->fid,
				  KFI_TRANSMIT | KFI_RECV);
	return err ?: kfi_enable(side->ep);
}

int rt_open_side(struct rt *rt, struct rt_side *side)
{
	int err;

	side->buf = vmalloc(RT_BUF_SIZE);
	if (!side->buf)
		return -ENOMEM;
	err = rt_getinfo(rt, &side->info);
	if (!err && side == &rt->b)
		side->info->caps &= ~rt->b_lacks;
	if (!err)
		err = rt_open_queues(rt, side);
	if (!err)
		err = rt_open_ep(side);
	return err;
}

static int rt_introduce(struct rt_side *side, struct rt_side *to)
{
	u8 name[sizeof(struct sockaddr_in)];
	size_t len = sizeof(name);
	int err;

	err = kfi_getname(&side->ep->fid, name, &len);
	if (err)
		return err;
	err = kfi_av_insert(to->av, name, 1, &to->peer, 0, NULL);
	return err == 1 ? 0 : err < 0 ? err : -EIO;
}

int rt_open(struct rt *rt)
{
	int err;

	err = rt_open_side(rt, &rt->a);
	if (!err)
		err = rt_open_side(rt, &rt->b);
	if (!err)
		err = rt_introduce(&rt->a, &rt->b);
	if (!err)
		err = rt_introduce(&rt->b, &rt->a);
	return err;
}

/* Return: 0 with the next completion, or the errno of a failed one. */
int rt_entry_from(struct rt_side *side, struct kfi_cq_tagged_entry *entry,
		  kfi_addr_t *src)
{
	struct kfi_cq_err_entry err = { };
	ssize_t n;

	memset(entry, 0xcc, sizeof(*entry));
	n = kfi_cq_sreadfrom(side->cq, entry, 1, src, NULL, RT_DEADLINE_MS);
	if (n == -KFI_EAVAIL)
		return kfi_cq_readerr(side->cq, &err, 0) == 1 ? -err.err : -EIO;
	return n == 1 ? 0 : n;
}

int rt_entry(struct rt_side *side, struct kfi_cq_tagged_entry *entry)
{
	return rt_entry_from(side, entry, NULL);
}

/* Return: 0 with the next completion, which is an error. */
int rt_error(struct rt_side *side, struct kfi_cq_err_entry *err)
{
	struct kfi_cq_tagged_entry entry;
	ssize_t n;

	memset(err, 0, sizeof(*err));
	n = kfi_cq_sread(side->cq, &entry, 1, NULL, RT_DEADLINE_MS);
	if (n != -KFI_EAVAIL)
		return n < 0 ? n : -EPROTO;
	return kfi_cq_readerr(side->cq, err, 0) == 1 ? 0 : -EIO;
}

/* The two still understand each other. */
int rt_talk(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;
	int err;

	err = kfi_recv(rt->b.ep, rt->b.buf, 8, NULL, KFI_ADDR_UNSPEC, NULL);
	if (!err)
		err = kfi_send(rt->a.ep, rt->a.buf, 8, NULL, rt->a.peer, NULL);
	if (!err)
		err = rt_entry(&rt->b, &entry);
	return err ? err : rt_entry(&rt->a, &entry);
}

static void rt_close_fid(struct rt *rt, struct kfid *fid, const char *what)
{
	int err = kfi_close(fid);

	if (err) {
		seq_printf(rt->seq, "closing the %s: %d\n", what, err);
		rt->failed = true;
	}
}

void rt_close_side(struct rt *rt, struct rt_side *side)
{
	if (side->ep)
		rt_close_fid(rt, &side->ep->fid, "endpoint");
	if (side->cq)
		rt_close_fid(rt, &side->cq->fid, "completion queue");
	if (side->av)
		rt_close_fid(rt, &side->av->fid, "address vector");
	if (side->domain)
		rt_close_fid(rt, &side->domain->fid, "domain");
	if (side->eq)
		rt_close_fid(rt, &side->eq->fid, "event queue");
	if (side->fabric)
		rt_close_fid(rt, &side->fabric->fid, "fabric");
	kfi_freeinfo(side->info);
	vfree(side->buf);
	memset(side, 0, sizeof(*side));
}

void rt_close(struct rt *rt)
{
	rt_close_side(rt, &rt->a);
	rt_close_side(rt, &rt->b);
}

void rt_fill(u8 *buf, size_t len, u8 seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		buf[i] = i % 251 + seed;
}

bool rt_filled(const u8 *buf, size_t len, u8 seed)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (buf[i] != (u8)(i % 251 + seed))
			return false;
	return true;
}
