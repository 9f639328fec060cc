// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The mock provider, which has no device and moves no data. It opens objects as
 * any provider does, keeps posted operations pending, and reports completions,
 * errors and events on command (command.c, docs/mock.md). Tests use it for
 * deterministic interleavings, and for faults that the verifier must detect.
 *
 * kfi_getinfo() offers the provider only if the hints name it. So the loaded
 * module does not affect other ULPs.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "mock.h"
#include <kfi_enosys.h>

DEFINE_MUTEX(kfm_lock);	/* protects the lists below */
LIST_HEAD(kfm_domains);
LIST_HEAD(kfm_eps);
LIST_HEAD(kfm_eqs);
LIST_HEAD(kfm_mrs);

/**
 * kfm_domain_get() - find a domain and take a reference
 * @id: its id
 *
 * kfi_fid_put() on the domain's fid drops the reference.
 *
 * Context: Process context. May sleep.
 * Return: the domain, or NULL if no open domain has that id.
 */
struct kfm_domain *kfm_domain_get(u32 id)
{
	struct kfm_domain *domain, *found = NULL;

	mutex_lock(&kfm_lock);
	list_for_each_entry(domain, &kfm_domains, link) {
		if (domain->base.id == id) {
			if (kfi_fid_get(&domain->base.domain.fid))
				found = domain;
			break;
		}
	}
	mutex_unlock(&kfm_lock);
	return found;
}

/**
 * kfm_domain_lose() - report the loss of a domain's device
 * @domain: the domain; the caller holds a reference
 *
 * As in any provider, the core reports the loss to CQs and counters first. Then
 * each endpoint reports it to its EQ. Only after its report does an endpoint
 * drop its pending operations.
 *
 * Context: Process context. May sleep.
 * Return: 0, or -ENODEV if the device is already lost.
 */
int kfm_domain_lose(struct kfm_domain *domain)
{
	struct kfi_eq_err_entry entry = { .err = ENODEV };
	struct kfm_ep *ep;

	if (READ_ONCE(domain->base.lost))
		return -ENODEV;
	kfm_progress_flush(&domain->base);
	kfi_domain_lose(&domain->base);
	while ((ep = kfm_ep_get_for_loss(domain))) {
		entry.fid = &ep->base.ep.fid;
		entry.context = entry.fid->context;
		kfi_ep_report_err(&ep->base, &entry);
		kfm_ep_drop_all(ep);
		kfm_ep_put(ep);
	}
	return 0;
}

/**
 * kfm_eq_get() - find an EQ and take a reference
 * @id: its id
 *
 * Context: Process context. May sleep.
 * Return: the EQ, or NULL if no open EQ has that id.
 */
struct kfm_eq *kfm_eq_get(u32 id)
{
	struct kfm_eq *eq, *found = NULL;

	mutex_lock(&kfm_lock);
	list_for_each_entry(eq, &kfm_eqs, link) {
		if (kfi_fid_id(&eq->eq->fid) == id) {
			refcount_inc(&eq->users.count);
			found = eq;
			break;
		}
	}
	mutex_unlock(&kfm_lock);
	return found;
}

/**
 * kfm_eq_put() - drop a reference of kfm_eq_get()
 * @eq: the EQ
 *
 * Context: Any.
 */
void kfm_eq_put(struct kfm_eq *eq)
{
	kfm_users_put(&eq->users);
}

static void kfm_eq_add(struct kfm_eq *eq)
{
	kfm_users_init(&eq->users);
	mutex_lock(&kfm_lock);
	list_add_tail(&eq->link, &kfm_eqs);
	mutex_unlock(&kfm_lock);
}

static void kfm_eq_remove(struct kfm_eq *eq)
{
	mutex_lock(&kfm_lock);
	list_del(&eq->link);
	mutex_unlock(&kfm_lock);
	kfm_users_drain(&eq->users);
}

/*
 * The EQ leaves the list before the core's close, so that no command finds it.
 * If the core refuses, the EQ goes back to the list.
 */
static int kfm_eq_close(struct kfid *fid)
{
	struct kfm_eq *eq = container_of(fid->ops, struct kfm_eq, ops);
	int err;

	kfm_eq_remove(eq);
	err = eq->core_ops->close(fid);
	if (err)
		kfm_eq_add(eq);
	else
		kfree(eq);
	return err;
}

static int kfm_eq_open(struct kfid_fabric *fabric, struct kfi_eq_attr *attr,
		       struct kfid_eq **ret, kfi_event_handler event_handler,
		       void *context)
{
	struct kfm_eq *eq = kzalloc(sizeof(*eq), GFP_KERNEL);
	int err;

	if (!eq)
		return -ENOMEM;
	err = kfi_core_eq_open(fabric, attr, &eq->eq, event_handler, context);
	if (err) {
		kfree(eq);
		return err;
	}
	eq->core_ops = eq->eq->fid.ops;
	eq->ops = *eq->core_ops;
	eq->ops.close = kfm_eq_close;
	eq->eq->fid.ops = &eq->ops;
	kfm_eq_add(eq);
	*ret = eq->eq;
	return 0;
}

static int kfm_av_open(struct kfid_domain *domain, struct kfi_av_attr *attr,
		       struct kfid_av **av, void *context)
{
	return -KFI_ENOSYS;
}

static int kfm_scalable_ep(struct kfid_domain *domain, struct kfi_info *info,
			   struct kfid_ep **sep, void *context)
{
	return -KFI_ENOSYS;
}

static struct kfi_ops_domain kfm_domain_ops = {
	.size = sizeof(struct kfi_ops_domain),
	.av_open = kfm_av_open,
	.cq_open = kfi_core_cq_open,
	.endpoint = kfm_ep_open,
	.scalable_ep = kfm_scalable_ep,
	.cntr_open = kfi_core_cntr_open,
	.poll_open = kfi_core_poll_open,
	.stx_ctx = kfi_no_stx_ctx,
	.srx_ctx = kfi_no_srx_ctx,
	.query_atomic = kfi_no_query_atomic,
};

static void kfm_domain_release(struct kfi_domain_base *base)
{
	struct kfm_domain *domain = kfm_domain_of(base);

	mutex_lock(&kfm_lock);
	list_del(&domain->link);
	mutex_unlock(&kfm_lock);
	kfree(domain);
}

static int kfm_domain_open(struct kfid_fabric *fabric, struct kfi_info *info,
			   struct kfid_domain **ret, void *context)
{
	struct kfm_domain *domain;
	int err;

	if (!info || !ret)
		return -EINVAL;
	if (info->domain_attr && info->domain_attr->name &&
	    strcmp(info->domain_attr->name, KFM_DOMAIN))
		return -ENODEV;
	domain = kzalloc(sizeof(*domain), GFP_KERNEL);
	if (!domain)
		return -ENOMEM;
	err = kfi_domain_base_init(&domain->base, fabric, &kfm_domain_ops,
				   &kfm_mr_ops, kfm_domain_release, context);
	if (err) {
		kfree(domain);
		return err;
	}

	init_llist_head(&domain->deferred);
	spin_lock_init(&domain->progress);
	if (info->domain_attr &&
	    info->domain_attr->data_progress == KFI_PROGRESS_MANUAL)
		domain->base.progress = kfm_progress;

	mutex_lock(&kfm_lock);
	list_add_tail(&domain->link, &kfm_domains);
	mutex_unlock(&kfm_lock);
	*ret = &domain->base.domain;
	return 0;
}

static struct kfi_ops_fabric kfm_fabric_ops = {
	.size = sizeof(struct kfi_ops_fabric),
	.domain = kfm_domain_open,
	.passive_ep = kfi_no_passive_ep,
	.eq_open = kfm_eq_open,
	.wait_open = kfi_core_wait_open,
};

static void kfm_fabric_release(struct kfi_fabric_base *base)
{
	kfree(base);
}

static int kfm_fabric_open(struct kfi_fabric_attr *attr,
			   struct kfid_fabric **ret, void *context)
{
	struct kfi_fabric_base *base;
	int err;

	if (strcmp(attr->name, KFM_FABRIC))
		return -ENODEV;
	base = kzalloc(sizeof(*base), GFP_KERNEL);
	if (!base)
		return -ENOMEM;
	err = kfi_fabric_base_init(base, THIS_MODULE, &kfm_fabric_ops,
				   kfm_fabric_release, attr->api_version,
				   context);
	if (err) {
		kfree(base);
		return err;
	}
	*ret = &base->fabric;
	return 0;
}

static struct kfi_provider kfm_provider = {
	.version = KFI_VERSION(1, 0),
	.kfi_version = KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION),
	.name = KFM_PROVIDER,
	.kgetinfo = kfm_getinfo,
	.kfabric = kfm_fabric_open,
};

static int __init kfm_init(void)
{
	int err;

	err = kfm_report_init();
	if (err)
		return err;
	err = kfi_provider_register(&kfm_provider);
	if (err) {
		kfm_report_exit();
		return err;
	}
	kfm_debugfs_init();
	return 0;
}

static void __exit kfm_exit(void)
{
	kfm_debugfs_exit();
	kfi_provider_deregister(&kfm_provider);
	kfm_report_exit();
}

module_init(kfm_init);
module_exit(kfm_exit);

MODULE_DESCRIPTION("kfabric provider with injected completions");
MODULE_AUTHOR("The kfabric authors");
MODULE_LICENSE("Dual BSD/GPL");
