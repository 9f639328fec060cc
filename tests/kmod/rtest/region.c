// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Registration by event. */
#include "rtest.h"

/* Return: 0 if the next event says that a region is usable. */
static s64 rt_registered(struct kfid_eq *eq, const struct kfid_mr *mr)
{
	struct kfi_eq_entry entry = { .fid = (void *)eq, .context = eq };
	u32 event = 0;
	ssize_t n = kfi_eq_read(eq, &event, &entry, sizeof(entry), 0);

	if (n != sizeof(entry))
		return n;
	return event == KFI_MR_COMPLETE && entry.fid == &mr->fid &&
	       entry.context == mr->fid.context ? 0 : -EPROTO;
}

/* With KFI_MR_ENDPOINT a region is usable once it is enabled, else at once. */
static void rt_region(struct rt *rt, struct kfid_eq *eq, u64 key, bool enable)
{
	struct kfid_mr *mr;

	RT_EQ(rt, kfi_mr_reg(rt->a.domain, rt->a.buf, 64, KFI_REMOTE_WRITE, 0,
			     key, 0, &mr, &rt->a), 0);
	if (enable) {
		RT_EQ(rt, rt_registered(eq, mr), -KFI_EAGAIN);
		RT_EQ(rt, kfi_mr_bind(mr, &rt->a.ep->fid, 0), 0);
		RT_EQ(rt, kfi_mr_enable(mr), 0);
		RT_EQ(rt, kfi_mr_enable(mr), 0);
	}
	RT_EQ(rt, rt_registered(eq, mr), 0);
	RT_EQ(rt, rt_registered(eq, mr), -KFI_EAGAIN);
	RT_EQ(rt, kfi_close(&mr->fid), 0);
}

/* Without a place of its own, the event of a region would find none. */
static s64 rt_fill_eq(struct kfid_eq *eq)
{
	u32 event = 1;
	ssize_t n;

	do {
		n = kfi_eq_write(eq, 1, &event, sizeof(event), 0);
	} while (n == sizeof(event));
	return n;
}

static s64 rt_drain_eq(struct kfid_eq *eq)
{
	u32 event, payload;
	ssize_t n;

	do {
		n = kfi_eq_read(eq, &event, &payload, sizeof(payload), 0);
	} while (n == sizeof(payload));
	return n;
}

/* One registers by event; a second EQ is refused, and the first one cannot be closed. */
static void rt_region_events(struct rt *rt, bool enable)
{
	struct kfi_eq_attr attr = { .size = 1 };
	struct kfid_mr *mr, *twin;
	struct kfid_eq *eq, *other;

	RT_EQ(rt, rt_open_side(rt, &rt->a), 0);
	RT_EQ(rt, kfi_eq_open(rt->a.fabric, &attr, &rt->a.eq, NULL, NULL), 0);
	eq = rt->a.eq;
	RT_EQ(rt, kfi_eq_open(rt->a.fabric, &attr, &other, NULL, NULL), 0);
	RT_EQ(rt, kfi_domain_bind(rt->a.domain, &rt->a.cq->fid, KFI_REG_MR),
	      -KFI_EINVAL);
	RT_EQ(rt, kfi_domain_bind(rt->a.domain, &eq->fid, 0), -KFI_ENOSYS);
	RT_EQ(rt, kfi_domain_bind(rt->a.domain, &eq->fid, KFI_REG_MR), 0);
	RT_EQ(rt, kfi_domain_bind(rt->a.domain, &other->fid, KFI_REG_MR),
	      -KFI_EINVAL);
	RT_EQ(rt, kfi_close(&other->fid), 0);
	RT_EQ(rt, kfi_close(&eq->fid), -KFI_EBUSY);
	rt_region(rt, eq, 7, enable);
	RT_EQ(rt, rt_fill_eq(eq), -KFI_EAGAIN);
	RT_EQ(rt, kfi_mr_reg(rt->a.domain, rt->a.buf, 64, KFI_REMOTE_WRITE, 0,
			     8, 0, &mr, &rt->a), 0);
	if (enable) {
		RT_EQ(rt, kfi_mr_bind(mr, &rt->a.ep->fid, 0), 0);
		RT_EQ(rt, kfi_mr_enable(mr), 0);
	}
	/* The user's own come first, and are shorter. */
	RT_EQ(rt, rt_drain_eq(eq), -KFI_ETOOSMALL);
	RT_EQ(rt, rt_registered(eq, mr), 0);
	RT_EQ(rt, kfi_close(&mr->fid), 0);
	/* What is not read goes with its region, and a failure reports nothing. */
	RT_EQ(rt, kfi_mr_reg(rt->a.domain, rt->a.buf, 64, KFI_REMOTE_WRITE, 0,
			     7, 0, &mr, &rt->a), 0);
	if (!enable)
		RT_EQ(rt, kfi_mr_reg(rt->a.domain, rt->a.buf, 64,
				     KFI_REMOTE_WRITE, 0, 7, 0, &twin, NULL),
		      -KFI_ENOKEY);
	RT_EQ(rt, kfi_close(&mr->fid), 0);
	RT_EQ(rt, rt_registered(eq, mr), -KFI_EAGAIN);
}

static void rt_region_event(struct rt *rt)
{
	rt_region_events(rt, false);
}

static void rt_enabled_event(struct rt *rt)
{
	rt->format = KFI_ADDR_CXI;
	rt_region_events(rt, true);
}

const struct rt_case rt_region_cases[] = {
	{ "region_event", rt_region_event },
	{ "enabled_event", rt_enabled_event },
	{ }
};
