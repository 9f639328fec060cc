// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Discovery: what is asked for comes back, and what it implies, but nothing else. */
#include <linux/slab.h>
#include <linux/string.h>

#include "rtest.h"

#define RT_COMM		(KFI_LOCAL_COMM | KFI_REMOTE_COMM)

static void rt_asked_caps(struct rt *rt)
{
	struct kfi_info *info = NULL;
	u64 caps, tx, rx;

	rt->caps = KFI_MSG | KFI_TAGGED;
	RT_EQ(rt, rt_getinfo(rt, &info), 0);
	caps = info->caps;
	tx = info->tx_attr->caps;
	rx = info->rx_attr->caps;
	kfi_freeinfo(info);
	RT_EQ(rt, caps, rt->caps | KFI_SEND | KFI_RECV | RT_COMM);
	RT_EQ(rt, tx, rt->caps | KFI_SEND);
	RT_EQ(rt, rx, rt->caps | KFI_RECV);
}

/* Directions that are asked for imply no others, and modifiers imply operations. */
static void rt_asked_ways(struct rt *rt)
{
	struct kfi_info *info = NULL;
	u64 caps, tx, rx;

	rt->caps = KFI_RMA | KFI_REMOTE_WRITE;
	RT_EQ(rt, rt_getinfo(rt, &info), 0);
	caps = info->caps;
	tx = info->tx_attr->caps;
	rx = info->rx_attr->caps;
	kfi_freeinfo(info);
	RT_EQ(rt, caps, rt->caps | RT_COMM);
	RT_EQ(rt, tx, KFI_RMA);
	RT_EQ(rt, rx, rt->caps);

	rt->caps = KFI_SOURCE;
	RT_EQ(rt, rt_getinfo(rt, &info), 0);
	caps = info->caps;
	kfi_freeinfo(info);
	RT_CHECK(rt, caps & KFI_MSG && caps & KFI_RMA && caps & KFI_RECV);
	RT_CHECK(rt, !(caps & KFI_DIRECTED_RECV));
}

/* Whoever does not ask for KFI_DIRECTED_RECV receives from everybody, also with 0. */
static void rt_any_source(struct rt *rt)
{
	struct kfi_cq_tagged_entry entry;

	rt->caps = KFI_MSG | KFI_TAGGED;
	RT_EQ(rt, rt_open(rt), 0);
	RT_EQ(rt, kfi_recv(rt->b.ep, rt->b.buf, 64, NULL, 0, &rt->b), 0);
	RT_EQ(rt, kfi_send(rt->a.ep, rt->a.buf, 64, NULL, rt->a.peer, &rt->a),
	      0);
	RT_EQ(rt, rt_entry(&rt->b, &entry), 0);
	RT_EQ(rt, entry.flags, KFI_MSG | KFI_RECV);
}

/* What is asked for is had, and comes back; the rest is the provider's default. */
static void rt_counts(struct rt *rt)
{
	struct kfi_info *hints = rt_hints(rt), *info = NULL;
	size_t cqs, ep_tx, ep_rx, tx, rx;

	RT_CHECK(rt, hints);
	hints->domain_attr->cq_cnt = 6;
	hints->domain_attr->rx_ctx_cnt = 3;
	hints->ep_attr->rx_ctx_cnt = 2;
	rt->failed |= kfi_getinfo(KFI_VERSION(1, 7), rt_address(), NULL,
				  KFI_SOURCE, hints, &info);
	kfi_freeinfo(hints);
	RT_CHECK(rt, info);
	cqs = info->domain_attr->cq_cnt;
	tx = info->domain_attr->tx_ctx_cnt;
	rx = info->domain_attr->rx_ctx_cnt;
	ep_tx = info->ep_attr->tx_ctx_cnt;
	ep_rx = info->ep_attr->rx_ctx_cnt;
	kfi_freeinfo(info);
	RT_EQ(rt, cqs, 6);
	RT_EQ(rt, rx, 3);
	RT_EQ(rt, ep_rx, 2);
	RT_EQ(rt, tx, 128);
	RT_EQ(rt, ep_tx, 128);
}

/* An endpoint has no more contexts than its domain allows each. */
static void rt_count_limits(struct rt *rt)
{
	struct kfi_info *hints = rt_hints(rt), *info = NULL;
	size_t tx, rx;

	RT_CHECK(rt, hints);
	hints->domain_attr->max_ep_tx_ctx = 3;
	hints->domain_attr->max_ep_rx_ctx = 4;
	rt->failed |= kfi_getinfo(KFI_VERSION(1, 7), rt_address(), NULL,
				  KFI_SOURCE, hints, &info);
	kfi_freeinfo(hints);
	RT_CHECK(rt, info);
	tx = info->ep_attr->tx_ctx_cnt;
	rx = info->ep_attr->rx_ctx_cnt;
	kfi_freeinfo(info);
	RT_EQ(rt, tx, 3);
	RT_EQ(rt, rx, 4);
}

/* The key of the hints' domain is that of an endpoint without one. */
static void rt_domain_key(struct rt *rt)
{
	struct kfi_info *hints = rt_hints(rt), *info = NULL;
	const u32 key = 0xcafe;
	bool same;

	RT_CHECK(rt, hints);
	hints->domain_attr->auth_key = kmemdup(&key, sizeof(key), GFP_KERNEL);
	hints->domain_attr->auth_key_size = sizeof(key);
	rt->failed |= kfi_getinfo(KFI_VERSION(1, 7), rt_address(), NULL,
				  KFI_SOURCE, hints, &info);
	kfi_freeinfo(hints);
	RT_CHECK(rt, info);
	same = info->ep_attr->auth_key_size == sizeof(key) &&
	       !memcmp(info->ep_attr->auth_key, &key, sizeof(key));
	kfi_freeinfo(info);
	RT_CHECK(rt, same);
}

/* A key has its size, and a class exists; what is wrong with either is refused. */
static int rt_keyed(struct rt *rt, bool key, size_t size, u32 tclass)
{
	struct kfi_info *hints = rt_hints(rt), *info = NULL;
	int err;

	if (!hints)
		return -ENOMEM;
	if (key)
		hints->ep_attr->auth_key = kzalloc(8, GFP_KERNEL);
	hints->ep_attr->auth_key_size = size;
	hints->tx_attr->tclass = tclass;
	err = kfi_getinfo(KFI_VERSION(1, 7), rt_address(), NULL, KFI_SOURCE,
			  hints, &info);
	kfi_freeinfo(hints);
	kfi_freeinfo(info);
	return err;
}

static void rt_wishes(struct rt *rt)
{
	RT_EQ(rt, rt_keyed(rt, true, 4, KFI_TC_BULK_DATA), 0);
	RT_EQ(rt, rt_keyed(rt, false, 0, kfi_tc_dscp_set(46)), 0);
	RT_EQ(rt, rt_keyed(rt, true, 0, 0), -KFI_ENODATA);
	RT_EQ(rt, rt_keyed(rt, false, 4, 0), -KFI_ENODATA);
	RT_EQ(rt, rt_keyed(rt, true, 8, 0), -KFI_ENODATA);
	RT_EQ(rt, rt_keyed(rt, false, 0, kfi_tc_dscp_set(64)), -KFI_ENODATA);
	RT_EQ(rt, rt_keyed(rt, false, 0, KFI_TC_NETWORK_CTRL + 1),
	      -KFI_ENODATA);
}

/* The type that the first offer has, for hints with capabilities and no type. */
static int rt_first(struct rt *rt, u64 caps, size_t iov_limit)
{
	struct kfi_info *hints = rt_hints(rt), *info = NULL;
	int err;

	if (!hints)
		return -ENOMEM;
	hints->caps = caps;
	hints->ep_attr->type = KFI_EP_UNSPEC;
	hints->tx_attr->iov_limit = iov_limit;
	err = kfi_getinfo(KFI_VERSION(1, 7), NULL, NULL, 0, hints, &info);
	kfi_freeinfo(hints);
	if (!err)
		err = info->ep_attr->type;
	kfi_freeinfo(info);
	return err;
}

/* What only RDM endpoints can do gets no other ones. */
static void rt_first_type(struct rt *rt)
{
	RT_EQ(rt, rt_first(rt, 0, 0), KFI_EP_MSG);
	RT_EQ(rt, rt_first(rt, KFI_MSG | KFI_RMA, 0), KFI_EP_MSG);
	RT_EQ(rt, rt_first(rt, KFI_MSG | KFI_RMA, 256), KFI_EP_RDM);
	RT_EQ(rt, rt_first(rt, KFI_MSG | KFI_TAGGED, 0), KFI_EP_RDM);
}

const struct rt_case rt_caps_cases[] = {
	{ "asked_caps", rt_asked_caps },
	{ "asked_ways", rt_asked_ways },
	{ "any_source", rt_any_source },
	{ "counts", rt_counts },
	{ "count_limits", rt_count_limits },
	{ "domain_key", rt_domain_key },
	{ "wishes", rt_wishes },
	{ "first_type", rt_first_type },
	{ }
};
