// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Fabrics. A fabric is named after a subnet prefix. Several devices and ports may
 * belong to it, and it stays open without any of them.
 */
#include <linux/nsproxy.h>
#include <linux/slab.h>
#include <net/net_namespace.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>

#include "rdm/rdm.h"

static LIST_HEAD(kfv_fabrics);		/* kfv_lock */

/**
 * kfv_fabric_find() - an open fabric to put into an answer
 * @name: its name
 *
 * Context: process; caller holds kfv_lock.
 * Return: the first open fabric of that name, without a reference; or NULL.
 */
struct kfid_fabric *kfv_fabric_find(const char *name)
{
	struct kfv_fabric *f;

	lockdep_assert_held(&kfv_lock);
	list_for_each_entry(f, &kfv_fabrics, link)
		if (!strcmp(f->name, name))
			return &f->base.fabric;
	return NULL;
}

/**
 * kfv_fabric_is() - check a fabric that a hint points to
 * @fabric: any pointer; it is compared before it is followed
 * @name: the name wanted
 *
 * Context: process; caller holds kfv_lock.
 * Return: true if @fabric is an open fabric of this provider with that name.
 */
bool kfv_fabric_is(const struct kfid_fabric *fabric, const char *name)
{
	struct kfv_fabric *f;

	lockdep_assert_held(&kfv_lock);
	list_for_each_entry(f, &kfv_fabrics, link)
		if (&f->base.fabric == fabric)
			return !strcmp(f->name, name);
	return false;
}

/**
 * kfv_fabric_name() - name of the fabric that a port belongs to
 * @ib: the device, which the caller keeps alive
 * @port: one of its ports
 * @name: room for KFI_NAME_MAX bytes
 *
 * Ports with the same subnet prefix are taken to reach each other. For RoCE that
 * is the prefix of the first GID, which is the link-local one: there all ports
 * have the same name, whatever network they are on.
 *
 * Context: process.
 * Return: 0, or the error of the device.
 */
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
	kfree(f);
}

/* prov_errno of connection events: a reject reason of the CM, or -errno. */
static const char *kfv_cm_strerror(int prov_errno)
{
	return prov_errno < 0 ? kfi_strerror(-prov_errno) :
				ibcm_reject_msg(prov_errno);
}

/**
 * kfv_net_served() - may the caller use the network of the provider?
 *
 * All addresses and routes are those of the initial network namespace. A fabric is like
 * a socket: it stays in the namespace in which it was opened, whichever thread uses it
 * later. So only the calls that need no fabric ask. A thread that exits has no
 * namespace any more, and opens nothing.
 *
 * Context: process.
 * Return: false for a thread in another network namespace.
 */
bool kfv_net_served(void)
{
	return current->nsproxy && net_eq(current->nsproxy->net_ns, &init_net);
}

/*
 * Whether any port belongs to the fabric @name; its own name, room for KFI_NAME_MAX
 * bytes, is then in @own.
 */
static bool kfv_fabric_exists(const char *name, char *own)
{
	struct kfv_device *dev;
	u32 port;

	lockdep_assert_held(&kfv_lock);
	list_for_each_entry(dev, &kfv_devices, link)
		rdma_for_each_port(dev->ib, port)
			if (!kfv_fabric_name(dev->ib, port, own) &&
			    kfv_named(name, own))
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
 * Return: 0, -ENODEV (no device is on that fabric), -EAFNOSUPPORT (the caller is in
 * another network namespace than the initial one), -ENOMEM.
 */
int kfv_fabric_open(struct kfi_fabric_attr *attr, struct kfid_fabric **fabric,
		    void *context)
{
	struct kfv_fabric *f;
	int err = -ENODEV;

	if (!kfv_net_served())
		return -EAFNOSUPPORT;
	f = kzalloc(sizeof(*f), GFP_KERNEL_ACCOUNT);
	if (!f)
		return -ENOMEM;
	f->base.strerror = kfv_cm_strerror;
	f->base.tables = kfv_fabric_tables;

	mutex_lock(&kfv_lock);
	if (kfv_fabric_exists(attr->name, f->name))
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
