// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Fabrics.
 */
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>

#include "rdm/rdm.h"

static LIST_HEAD(kfv_fabrics);

/* Caller holds kfv_lock. Return: the first open fabric @name, or NULL. */
struct kfid_fabric *kfv_fabric_find(const char *name)
{
	struct kfv_fabric *f;

	list_for_each_entry(f, &kfv_fabrics, link)
		if (!strcmp(f->name, name))
			return &f->base.fabric;
	return NULL;
}

/* Caller holds kfv_lock. Return: is @fabric open, and is it @name? */
bool kfv_fabric_is(const struct kfid_fabric *fabric, const char *name)
{
	struct kfv_fabric *f;

	list_for_each_entry(f, &kfv_fabrics, link)
		if (&f->base.fabric == fabric)
			return !strcmp(f->name, name);
	return false;
}

/* Ports with the same subnet prefix can reach each other. */
int kfv_fabric_name(struct ib_device *ib, u32 port, char *name)
{
	union ib_gid gid;
	int err;

	err = rdma_query_gid(ib, port, 0, &gid);
	if (err)
		return err;
	scnprintf(name, KFI_NAME_MAX, "IB-0x%llx",
		  be64_to_cpu(gid.global.subnet_prefix));
	return 0;
}

static struct kfi_ops_fabric kfv_fabric_ops = {
	.size = sizeof(struct kfi_ops_fabric),
	.domain = kfv_domain_open,
	.passive_ep = kfv_pep_open,
	.eq_open = kfi_core_eq_open,
	.wait_open = kfi_core_wait_open,
};

static void kfv_fabric_release(struct kfi_fabric_base *base)
{
	struct kfv_fabric *f = container_of(base, struct kfv_fabric, base);

	mutex_lock(&kfv_lock);
	list_del(&f->link);
	mutex_unlock(&kfv_lock);
	kfv_req_reject_all(&f->base.fabric);
	kfree(f);
}

/* Of connection events: a reason for a refusal, or a negative errno. */
static const char *kfv_cm_strerror(int prov_errno)
{
	return prov_errno < 0 ? kfi_strerror(-prov_errno) :
				ibcm_reject_msg(prov_errno);
}

/* Does any port belong to the fabric @name? */
static bool kfv_fabric_exists(const char *name)
{
	char own[KFI_NAME_MAX];
	struct kfv_device *dev;
	u32 port;

	list_for_each_entry(dev, &kfv_devices, link)
		rdma_for_each_port(dev->ib, port)
			if (!kfv_fabric_name(dev->ib, port, own) &&
			    !strcmp(own, name))
				return true;
	return false;
}

/**
 * kfv_fabric_open() - kfi_fabric() for this provider
 * @attr: names the fabric, as an info does
 * @fabric: the new object
 * @context: the user's
 *
 * Context: process.
 * Return: 0, -ENODEV (no device is on that fabric), -ENOMEM.
 */
int kfv_fabric_open(struct kfi_fabric_attr *attr, struct kfid_fabric **fabric,
		    void *context)
{
	struct kfv_fabric *f;
	int err = -ENODEV;

	f = kzalloc(sizeof(*f), GFP_KERNEL_ACCOUNT);
	if (!f)
		return -ENOMEM;
	f->base.strerror = kfv_cm_strerror;
	strscpy(f->name, attr->name, sizeof(f->name));

	mutex_lock(&kfv_lock);
	if (kfv_fabric_exists(attr->name))
		err = kfi_fabric_base_init(&f->base, THIS_MODULE,
					   &kfv_fabric_ops, kfv_fabric_release,
					   attr->api_version, context);
	if (err)
		kfree(f);
	else
		list_add_tail(&f->link, &kfv_fabrics);
	mutex_unlock(&kfv_lock);
	if (!err)
		*fabric = &f->base.fabric;
	return err;
}
