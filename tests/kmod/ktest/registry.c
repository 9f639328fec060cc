// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Discovery, providers, copies and texts: what needs no wait. */
#include <linux/delay.h>
#include <linux/slab.h>

#include "ktest.h"

static int kt_getinfo(u32 version, const char *prov, struct kfi_info **info)
{
	struct kfi_info *hints = kt_hints();
	int err;

	if (!hints)
		return -ENOMEM;
	kfree(hints->fabric_attr->prov_name);
	hints->fabric_attr->prov_name = kstrdup(prov, GFP_KERNEL);
	err = kfi_getinfo(version, NULL, NULL, 0, hints, info);
	kfi_freeinfo(hints);
	return err;
}

/* A caller written for an older framework is served, for a newer one not. */
static void kt_version_rules(struct kt *kt)
{
	static const u32 served[] = { 0, KFI_VERSION(1, 0), KFI_VERSION(1, 7) };
	struct kfi_info *none = (void *)kt;
	int i;

	KT_EQ(kt, kfi_version(), KFI_VERSION(1, 7));
	for (i = 0; i < ARRAY_SIZE(served); i++) {
		KT_EQ(kt, kt_getinfo(served[i], "mock", &kt->info), 0);
		KT_CHECK(kt, kt->info);
		KT_EQ(kt, kt->info->fabric_attr->api_version, served[i]);
		kfi_freeinfo(kt->info);
		kt->info = NULL;
	}
	KT_EQ(kt, kt_getinfo(KFI_VERSION(1, 8), "mock", &none), -KFI_ENOSYS);
	KT_EQ(kt, kt_getinfo(KFI_VERSION(2, 0), "mock", &none), -KFI_ENOSYS);
}

static void kt_getinfo_asks_by_name(struct kt *kt)
{
	struct kfi_info *none = (void *)kt;

	KT_EQ(kt, kt_getinfo(kfi_version(), "mock", &kt->info), 0);
	KT_EQ(kt, strcmp(kt->info->fabric_attr->prov_name, "mock"), 0);
	KT_EQ(kt, strcmp(kt->info->fabric_attr->name, "mock"), 0);
	KT_EQ(kt, strcmp(kt->info->domain_attr->name, "mock0"), 0);
	KT_EQ(kt, kt_getinfo(kfi_version(), "nobody", &none), -KFI_ENODATA);
	KT_CHECK(kt, !none);
}

/* The mock shows itself only to who asks for it. */
static void kt_mock_hides(struct kt *kt)
{
	struct kfi_info *info;
	bool shown = false;

	if (!kfi_getinfo(kfi_version(), NULL, NULL, 0, NULL, &kt->info))
		for (info = kt->info; info; info = info->next)
			shown |= !strcmp(info->fabric_attr->prov_name, "mock");
	KT_CHECK(kt, !shown);
}

static void kt_fabric_errors(struct kt *kt)
{
	struct kfi_fabric_attr attr = { };

	KT_EQ(kt, kfi_fabric(NULL, &kt->fabric, NULL), -KFI_EINVAL);
	KT_EQ(kt, kfi_fabric(&attr, &kt->fabric, NULL), -KFI_EINVAL);
	attr.prov_name = "mock";
	KT_EQ(kt, kfi_fabric(&attr, &kt->fabric, NULL), -KFI_EINVAL);
	attr.name = "no such fabric";
	KT_EQ(kt, kfi_fabric(&attr, &kt->fabric, NULL), -KFI_ENODEV);
	attr.prov_name = "nobody";
	KT_EQ(kt, kfi_fabric(&attr, &kt->fabric, NULL), -KFI_ENODEV);
	KT_CHECK(kt, !kt->fabric);
}

static int kt_no_getinfo(u32 version, const char *node, const char *service,
			 u64 flags, struct kfi_info *hints,
			 struct kfi_info **info)
{
	return -KFI_ENODATA;
}

static int kt_no_fabric(struct kfi_fabric_attr *attr,
			struct kfid_fabric **fabric, void *context)
{
	return -KFI_ENODEV;
}

static int kt_cleanups;

static void kt_cleanup(void)
{
	kt_cleanups++;
}

static struct kfi_provider kt_provider_of(u32 version, u32 kfi_version)
{
	return (struct kfi_provider) {
		.version = version,
		.kfi_version = kfi_version,
		.name = "ktest",
		.kgetinfo = kt_no_getinfo,
		.kfabric = kt_no_fabric,
		.cleanup = kt_cleanup,
	};
}

static void kt_register_refuses(struct kt *kt)
{
	static struct kfi_provider p;

	KT_EQ(kt, kfi_provider_register(NULL), -KFI_EINVAL);
	p = kt_provider_of(1, kfi_version());
	p.name = NULL;
	KT_EQ(kt, kfi_provider_register(&p), -KFI_EINVAL);
	p = kt_provider_of(1, kfi_version());
	p.kgetinfo = NULL;
	KT_EQ(kt, kfi_provider_register(&p), -KFI_EINVAL);
	p = kt_provider_of(1, kfi_version());
	p.kfabric = NULL;
	KT_EQ(kt, kfi_provider_register(&p), -KFI_EINVAL);
	p = kt_provider_of(1, KFI_VERSION(2, 0));
	KT_EQ(kt, kfi_provider_register(&p), -KFI_ENOSYS);
	p = kt_provider_of(1, KFI_VERSION(1, 8));
	KT_EQ(kt, kfi_provider_register(&p), -KFI_ENOSYS);
	KT_EQ(kt, kfi_provider_deregister(&p), -KFI_ENODATA);
}

/* The newest version of a name wins; the others never take its place. */
static void kt_try_versions(struct kt *kt, struct kfi_provider *p)
{
	p[0] = kt_provider_of(2, kfi_version());
	p[1] = kt_provider_of(2, kfi_version());
	p[2] = kt_provider_of(1, KFI_VERSION(1, 0));
	p[3] = kt_provider_of(3, kfi_version());
	kt_cleanups = 0;

	KT_EQ(kt, kfi_provider_register(&p[0]), 0);
	KT_EQ(kt, kfi_provider_register(&p[1]), -EEXIST);
	KT_EQ(kt, kfi_provider_register(&p[2]), -EEXIST);
	KT_EQ(kt, kfi_provider_register(&p[3]), 0);
	KT_EQ(kt, kfi_provider_deregister(&p[0]), -KFI_ENODATA);
	KT_EQ(kt, kfi_provider_deregister(&p[3]), 0);
	KT_EQ(kt, kfi_provider_deregister(&p[3]), -KFI_ENODATA);
	KT_EQ(kt, kt_cleanups, 1);
}

static void kt_register_versions(struct kt *kt)
{
	static struct kfi_provider providers[4];
	int i;

	kt_try_versions(kt, providers);
	for (i = 0; i < ARRAY_SIZE(providers); i++)
		kfi_provider_deregister(&providers[i]);
}

static struct kfi_provider kt_opener;

/* kfi_fabric() with a provider that calls @kfabric, which gets @kt as its context. */
static int kt_fabric_by(struct kt *kt,
			int (*kfabric)(struct kfi_fabric_attr *attr,
				       struct kfid_fabric **fabric,
				       void *context))
{
	struct kfi_fabric_attr attr = { .prov_name = "ktest", .name = "ktest" };
	int err;

	kt_opener = kt_provider_of(1, kfi_version());
	kt_opener.kfabric = kfabric;
	err = kfi_provider_register(&kt_opener);
	if (!err)
		err = kfi_fabric(&attr, &kt->fabric, kt);
	kfi_provider_deregister(&kt_opener);
	return err;
}

static int kt_ask_mock(struct kt *kt)
{
	return kt_getinfo(kfi_version(), "mock", &kt->info);
}

static int kt_ask_meanwhile(struct kfi_fabric_attr *attr,
			    struct kfid_fabric **fabric, void *context)
{
	return kt_hire(context, 0, kt_ask_mock) ?: kt_hand_result(context, 0);
}

static void kt_slow_fabric(struct kt *kt)
{
	KT_EQ(kt, kt_fabric_by(kt, kt_ask_meanwhile), 0);
}

static int kt_deregister(struct kt *kt)
{
	return kfi_provider_deregister(&kt_opener);
}

/* The other thread sleeps in the call, uninterruptibly, and has not returned. */
static int kt_deregister_meanwhile(struct kfi_fabric_attr *attr,
				   struct kfid_fabric **fabric, void *context)
{
	struct kt *kt = context;
	struct kt_hand *hand = &kt->hands[0];
	int err = kt_hire(kt, 0, kt_deregister);

	while (!err && !completion_done(&hand->done) &&
	       !(READ_ONCE(hand->task->__state) & TASK_UNINTERRUPTIBLE))
		usleep_range(100, 200);
	if (!err && completion_done(&hand->done))
		err = -KFI_EOTHER;
	return err;
}

static void kt_deregister_waits(struct kt *kt)
{
	KT_EQ(kt, kt_fabric_by(kt, kt_deregister_meanwhile), 0);
	KT_EQ(kt, kt_hand_result(kt, 0), 0);
}

static void kt_strerror(struct kt *kt)
{
	static const int known[] = {
		KFI_EOTHER, KFI_ETOOSMALL, KFI_EOPBADSTATE, KFI_EAVAIL,
		KFI_EBADFLAGS, KFI_ENOEQ, KFI_EDOMAIN, KFI_ENOCQ, KFI_ECRC,
		KFI_ETRUNC, KFI_ENOKEY, KFI_ENOAV, KFI_EOVERRUN,
		KFI_ETIMEDOUT, KFI_EBUSY, KFI_ENODEV,
	};
	int i, k;

	for (i = 0; i < ARRAY_SIZE(known); i++) {
		KT_CHECK(kt, kfi_strerror(known[i])[0]);
		for (k = 0; k < i; k++)
			KT_CHECK(kt, strcmp(kfi_strerror(known[i]),
					    kfi_strerror(known[k])));
	}
	KT_EQ(kt, strcmp(kfi_strerror(100000), kfi_strerror(KFI_EOTHER)), 0);
}

static void kt_tostr(struct kt *kt)
{
	enum kfi_ep_type type = KFI_EP_MSG;
	u64 caps = KFI_MSG | KFI_RMA;
	const char *text;

	text = kfi_tostr(&type, KFI_TYPE_EP_TYPE);
	KT_CHECK(kt, text && strstr(text, "KFI_EP_MSG"));
	text = kfi_tostr(&caps, KFI_TYPE_CAPS);
	KT_CHECK(kt, text && strstr(text, "KFI_MSG") && strstr(text, "KFI_RMA"));
	KT_CHECK(kt, !strstr(text, "KFI_TAGGED"));
	KT_EQ(kt, kt_getinfo(kfi_version(), "mock", &kt->info), 0);
	text = kfi_tostr(kt->info, KFI_TYPE_INFO);
	KT_CHECK(kt, text && strstr(text, "mock0"));
}

/* A copy shares nothing but open handles, and is one info, not a list. */
static void kt_dupinfo(struct kt *kt)
{
	struct kfi_info *copy;

	KT_EQ(kt, kt_getinfo(kfi_version(), "mock", &kt->info), 0);
	kt->info->src_addr = kmemdup("address", 8, GFP_KERNEL);
	KT_CHECK(kt, kt->info->src_addr);
	kt->info->src_addrlen = 8;
	kt->info->next = kfi_allocinfo();

	copy = kfi_dupinfo(kt->info);
	KT_CHECK(kt, copy);
	/* From here on freeing both finds what they share. */
	kfi_freeinfo(kt->info);
	kt->info = copy;
	KT_CHECK(kt, !copy->next);
	KT_EQ(kt, copy->src_addrlen, 8);
	KT_EQ(kt, strcmp(copy->src_addr, "address"), 0);
	KT_EQ(kt, strcmp(copy->fabric_attr->prov_name, "mock"), 0);
	KT_EQ(kt, strcmp(copy->domain_attr->name, "mock0"), 0);
	KT_EQ(kt, copy->ep_attr->type, KFI_EP_MSG);

	copy = kfi_dupinfo(NULL);
	KT_CHECK(kt, copy && copy->tx_attr && copy->rx_attr && copy->ep_attr &&
		 copy->domain_attr && copy->fabric_attr);
	kfi_freeinfo(copy);
	kfi_freeinfo(NULL);
}

const struct kt_case kt_registry_cases[] = {
	{ "version_rules", kt_version_rules },
	{ "getinfo_asks_by_name", kt_getinfo_asks_by_name },
	{ "mock_hides", kt_mock_hides },
	{ "fabric_errors", kt_fabric_errors },
	{ "register_refuses", kt_register_refuses },
	{ "register_versions", kt_register_versions },
	{ "slow_fabric", kt_slow_fabric },
	{ "deregister_waits", kt_deregister_waits },
	{ "strerror", kt_strerror },
	{ "tostr", kt_tostr },
	{ "dupinfo", kt_dupinfo },
	{ }
};
