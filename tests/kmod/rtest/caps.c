// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Capabilities: what is asked for comes back, and what it implies, but nothing else. */
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

const struct rt_case rt_caps_cases[] = {
	{ "asked_caps", rt_asked_caps },
	{ "asked_ways", rt_asked_ways },
	{ "any_source", rt_any_source },
	{ }
};
