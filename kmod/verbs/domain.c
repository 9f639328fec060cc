// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Domains: the public half. A domain is opened on one port of one device, for
 * connected endpoints or for RDM endpoints; the info that opens it decides.
 */
#include <linux/slab.h>

#include "rdm/rdm.h"

static struct kfi_ops_domain kfv_domain_ops = {
	.size = sizeof(struct kfi_ops_domain),
	.av_open = kfr_av_open,
	.cq_open = kfi_core_cq_open,
	.endpoint = kfv_ep_open,
	.scalable_ep = kfr_scalable_ep,
	.cntr_open = kfi_core_cntr_open,
	.poll_open = kfi_core_poll_open,
	.stx_ctx = kfi_no_stx_ctx,
	.srx_ctx = kfi_no_srx_ctx,
	.query_atomic = kfv_query_atomic,
};

/**
 * kfv_domain_lose() - report the loss of the device
 * @domain: the domain; posting and reporting on its device have ended
 *
 * Nothing is torn down yet. The report is the last entry of each queue.
 *
 * Context: process; caller holds the device's lock.
 */
void kfv_domain_lose(struct kfv_domain *domain)
{
	struct kfv_ep *ep;

	lockdep_assert_held(&domain->dev->lock);
	kfi_domain_lose(&domain->base);
	list_for_each_entry(ep, &domain->eps, link)
		kfv_conn_report_loss(ep->conn);
	if (domain->rdm)
		kfr_domain_lose(domain->rdm);
}

/**
 * kfv_domain_detach() - give up everything that came from the device
 * @domain: the domain; its loss is reported
 *
 * Connections are stopped before regions and the protection domain go, since they
 * use both. Each half is destroyed by its work item; the last one to drop its
 * reference destroys the protection domain.
 *
 * An endpoint that is closed at the same time is stopped once: kfv_conn_stop()
 * does nothing the second time.
 *
 * Context: process; caller holds the device's lock; takes kfv_lock. Sleeps until the
 * operations in flight are back.
 */
void kfv_domain_detach(struct kfv_domain *domain)
{
	struct kfv_pd *pd = domain->pd;
	struct kfv_ep *ep;

	lockdep_assert_held(&domain->dev->lock);
	kfi_test_hook_point(KFI_HOOK_D10, domain->base.id);
	list_for_each_entry(ep, &domain->eps, link) {
		mutex_lock(&ep->conn->ctl);
		kfv_conn_stop(ep->conn);
		mutex_unlock(&ep->conn->ctl);
	}

	mutex_lock(&domain->lock);
	kfv_mr_detach(domain);
	mutex_unlock(&domain->lock);
	mutex_lock(&kfv_lock);
	domain->pd = NULL;
	mutex_unlock(&kfv_lock);
	kfv_pd_put(pd);
}

/* Of a domain that is on no list: never open, or closed. */
static void kfv_domain_free(struct kfv_domain *domain)
{
	if (domain->pd)
		kfv_pd_put(domain->pd);
	kfr_domain_free(domain->rdm);
	kfv_device_put(domain->dev);
	mutex_destroy(&domain->lock);
	kfree(domain);
}

/*
 * The last reference is gone: no endpoint and no region is left, but their device
 * halves may be, and these hold references on the protection domain. Off the list
 * first: after that no removal sets @pd to NULL.
 */
static void kfv_domain_release(struct kfi_domain_base *base)
{
	struct kfv_domain *domain = container_of(base, struct kfv_domain, base);

	mutex_lock(&domain->dev->lock);
	mutex_lock(&kfv_lock);
	list_del(&domain->link);
	mutex_unlock(&kfv_lock);
	mutex_unlock(&domain->dev->lock);
	kfv_domain_free(domain);
}

/**
 * kfv_domain_find() - an open domain to put into an answer
 * @dev: device of the domain
 * @port: its port
 * @wanted: this domain only, or NULL for the first one
 * @format: address format of a domain of RDM endpoints, 0 for any domain
 *
 * Context: process; caller holds kfv_lock.
 * Return: the domain, or NULL. No reference is taken: the caller of
 * kfi_getinfo() must not close a domain that it wants to find.
 */
struct kfid_domain *kfv_domain_find(const struct kfv_device *dev, u32 port,
				    const struct kfid_domain *wanted,
				    u32 format)
{
	struct kfv_domain *open;

	lockdep_assert_held(&kfv_lock);
	list_for_each_entry(open, &dev->domains, link) {
		if (!open->pd || open->pd->port != port ||
		    (wanted && wanted != &open->base.domain))
			continue;
		if (!format ||
		    (open->rdm && open->rdm->format.format == format))
			return &open->base.domain;
	}
	return NULL;
}

static const char *kfv_wc_strerror(int prov_errno)
{
	return ib_wc_status_msg(prov_errno);
}

/*
 * Without a lock, as it allocates: see kfr_ep_enable(). An info for RDM endpoints makes
 * it a domain for those.
 */
static struct kfv_domain *kfv_domain_new(struct kfv_device *dev, u32 port,
					 const struct kfi_info *info)
{
	bool rdm = info->ep_attr && info->ep_attr->type == KFI_EP_RDM;
	struct kfv_domain *domain = kzalloc(sizeof(*domain), GFP_KERNEL_ACCOUNT);

	if (!domain)
		return NULL;
	kfv_device_get(dev);
	domain->dev = dev;
	domain->base.strerror = rdm ? kfr_strerror : kfv_wc_strerror;
	domain->base.tables = kfv_domain_tables;
	INIT_LIST_HEAD(&domain->eps);
	INIT_LIST_HEAD(&domain->mrs);
	mutex_init(&domain->lock);
	domain->pd = kfv_pd_new(dev, port);
	if (rdm)
		domain->rdm = kfr_domain_new(domain, info);
	if (domain->pd && (!rdm || domain->rdm))
		return domain;
	kfv_domain_free(domain);
	return NULL;
}

/* All that the domain has to ask the device. */
static int kfv_domain_init(struct kfv_domain *domain,
			   const struct kfi_info *info)
{
	struct ib_device *ib = domain->dev->ib;
	struct ib_port_attr attr;
	int err;

	lockdep_assert_held(&domain->dev->lock);
	err = ib_query_port(ib, domain->pd->port, &attr);
	if (err)
		return err;
	domain->max_msg_size = attr.max_msg_sz;
	domain->atomics = !domain->rdm && kfv_atomic_caps(ib);
	err = kfv_pd_open(domain->pd);
	if (!err && domain->rdm)
		err = kfr_domain_init(domain->rdm, info);
	return err;
}

/* The domain becomes visible last, when it is complete. */
static int kfv_domain_add(struct kfv_domain *domain, struct kfid_fabric *fabric,
			  const struct kfi_info *info, void *context)
{
	struct kfv_fabric *f = container_of(fabric, struct kfv_fabric,
					    base.fabric);
	struct kfv_device *dev = domain->dev;
	char fabric_name[KFI_NAME_MAX];
	int err;

	lockdep_assert_held(&dev->lock);
	if (kfv_gone(dev))
		return -ENODEV;
	err = kfv_fabric_name(dev->ib, domain->pd->port, fabric_name);
	if (err)
		return err;
	if (strcmp(fabric_name, f->name))
		return -EINVAL;

	err = kfv_domain_init(domain, info);
	if (!err)
		err = kfi_domain_base_init(&domain->base, fabric,
					   &kfv_domain_ops,
					   domain->rdm ? &kfr_mr_ops : &kfv_mr_ops,
					   kfv_domain_release, context);
	if (err)
		return err;
	domain->pd->domain_id = domain->base.id;
	mutex_lock(&kfv_lock);
	list_add_tail(&domain->link, &dev->domains);
	mutex_unlock(&kfv_lock);
	return 0;
}

/**
 * kfv_domain_open() - kfi_domain() for this provider
 * @fabric: the fabric that the port of the domain belongs to
 * @info: names the domain; with KFI_EP_RDM it is one for RDM endpoints
 * @domain: the new object
 * @context: the user's
 *
 * Context: process.
 * Return: 0; -EINVAL: no name, or the port is on another fabric; -ENODEV: no such
 * device; -ENOMEM; or the error of the device.
 */
int kfv_domain_open(struct kfid_fabric *fabric, struct kfi_info *info,
		    struct kfid_domain **domain, void *context)
{
	struct kfv_domain *new;
	struct kfv_device *dev;
	u32 port;
	int err;

	if (!info || !info->domain_attr || !info->domain_attr->name || !domain)
		return -EINVAL;

	mutex_lock(&kfv_lock);
	dev = kfv_device_by_name(info->domain_attr->name, &port);
	if (dev)
		kfv_device_get(dev);
	mutex_unlock(&kfv_lock);
	if (!dev)
		return -ENODEV;

	new = kfv_domain_new(dev, port, info);
	/* The domain has a reference of its own. */
	kfv_device_put(dev);
	if (!new)
		return -ENOMEM;
	mutex_lock(&dev->lock);
	err = kfv_domain_add(new, fabric, info, context);
	mutex_unlock(&dev->lock);
	if (err)
		kfv_domain_free(new);
	else
		*domain = &new->base.domain;
	return err;
}
