// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The framework: the list of providers, and discovery across them.
 */
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/srcu.h>

#define CREATE_TRACE_POINTS
#include "core.h"

/* Runs the ULPs' handlers; they may be on a path that frees memory. */
struct workqueue_struct *kfi_handler_wq;

struct kfi_registration {
	struct list_head link;
	struct kfi_provider *provider;
};

/* Providers in the order of their registration, and the lock of the list. */
static DEFINE_MUTEX(kfi_providers_lock);
static LIST_HEAD(kfi_providers);

/* Read sections: opening a fabric. They keep the provider without a reference. */
DEFINE_STATIC_SRCU(kfi_providers_srcu);

/* The caller holds kfi_providers_lock. */
static struct kfi_registration *kfi_provider_find(const char *name)
{
	struct kfi_registration *reg;

	lockdep_assert_held(&kfi_providers_lock);
	list_for_each_entry(reg, &kfi_providers, link)
		if (!strcmp(reg->provider->name, name))
			return reg;
	return NULL;
}

/**
 * kfi_version() - version of the interface that this framework implements
 *
 * Context: any; takes no lock.
 * Return: KFI_VERSION(1, 7); see KFI_MAJOR() and KFI_MINOR().
 */
uint32_t kfi_version(void)
{
	return KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION);
}
EXPORT_SYMBOL_GPL(kfi_version);

static int kfi_provider_check(const struct kfi_provider *provider)
{
	if (!provider || !provider->name || !provider->kgetinfo ||
	    !provider->kfabric)
		return -KFI_EINVAL;
	if (KFI_MAJOR(provider->kfi_version) != KFI_MAJOR_VERSION ||
	    KFI_MINOR(provider->kfi_version) > KFI_MINOR_VERSION)
		return -KFI_ENOSYS;
	return 0;
}

/**
 * kfi_provider_register() - announce a provider
 * @provider: filled in by the provider, which keeps it until deregistration
 *
 * A newer version of a registered provider replaces the older one.
 *
 * Context: process, may sleep; usually the provider's module init; takes
 * kfi_providers_lock.
 * Return: 0; -EINVAL without a name, kgetinfo or kfabric; -ENOSYS if written for
 * another major or a newer minor version of the interface; -EEXIST if the same
 * or a newer version is registered; -ENOMEM.
 */
int kfi_provider_register(struct kfi_provider *provider)
{
	struct kfi_registration *reg, *old;
	int ret;

	ret = kfi_provider_check(provider);
	if (ret)
		return ret;
	reg = kzalloc(sizeof(*reg), GFP_KERNEL);
	if (!reg)
		return -KFI_ENOMEM;
	reg->provider = provider;
	init_completion(&provider->comp);
	atomic_set(&provider->ref_cnt, 1);

	mutex_lock(&kfi_providers_lock);
	old = kfi_provider_find(provider->name);
	if (old && old->provider->version >= provider->version)
		ret = -EEXIST;
	else if (old)
		list_replace(&old->link, &reg->link);
	else
		list_add_tail(&reg->link, &kfi_providers);
	mutex_unlock(&kfi_providers_lock);

	kfree(ret ? reg : old);
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_provider_register);

static struct kfi_registration *
kfi_provider_unlink(const struct kfi_provider *provider)
{
	struct kfi_registration *reg;

	mutex_lock(&kfi_providers_lock);
	list_for_each_entry(reg, &kfi_providers, link) {
		if (reg->provider == provider) {
			list_del(&reg->link);
			mutex_unlock(&kfi_providers_lock);
			return reg;
		}
	}
	mutex_unlock(&kfi_providers_lock);
	return NULL;
}

/**
 * kfi_provider_deregister() - withdraw a provider
 * @provider: as registered
 *
 * On return no thread calls the provider's kgetinfo() or kfabric() any more, its
 * cleanup has run, and references taken by kfi_ref_provider() are gone. Open fabrics
 * pin the provider's module, so module exit never waits here.
 *
 * Context: process, may sleep; takes kfi_providers_lock. Waits for each fabric that is
 * being opened, also if a newer version has replaced the provider.
 * Return: 0, or -ENODATA if it is not registered, or a newer version has replaced it.
 */
int kfi_provider_deregister(struct kfi_provider *provider)
{
	struct kfi_registration *reg = kfi_provider_unlink(provider);

	synchronize_srcu(&kfi_providers_srcu);
	if (!reg)
		return -KFI_ENODATA;
	kfree(reg);
	if (provider->cleanup)
		provider->cleanup();
	kfi_deref_provider(provider);
	wait_for_completion(&provider->comp);
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_provider_deregister);

/* Fill in the provider's name and version in each info where they are missing. */
static int kfi_set_prov_name(struct kfi_info *info,
			     const struct kfi_provider *provider)
{
	for (; info; info = info->next) {
		if (!info->fabric_attr || info->fabric_attr->prov_name)
			continue;
		info->fabric_attr->prov_name = kstrdup(provider->name, GFP_KERNEL);
		if (!info->fabric_attr->prov_name)
			return -KFI_ENOMEM;
		info->fabric_attr->prov_version = provider->version;
	}
	return 0;
}

/* Append one provider's infos to the list. The caller holds kfi_providers_lock. */
static int kfi_query_provider(struct kfi_provider *provider, uint32_t version,
			      const char *node, const char *service,
			      uint64_t flags, struct kfi_info *hints,
			      struct kfi_info **list)
{
	struct kfi_info *answer = NULL, *info;
	int ret;

	lockdep_assert_held(&kfi_providers_lock);
	ret = provider->kgetinfo(version, node, service, flags, hints, &answer);
	if (ret) {
		if (ret != -KFI_ENODATA)
			pr_debug("provider %s: getinfo failed: %d\n",
				 provider->name, ret);
		return ret;
	}
	ret = kfi_set_prov_name(answer, provider);
	if (ret) {
		kfi_freeinfo(answer);
		return ret;
	}
	for (info = answer; info; info = info->next)
		if (info->fabric_attr)
			info->fabric_attr->api_version = version;
	while (*list)
		list = &(*list)->next;
	*list = answer;
	return 0;
}

/**
 * kfi_getinfo() - list the interfaces that can be opened
 * @version: of the interface that the caller was written for
 * @node: address or name, or NULL
 * @service: port or service, or NULL
 * @flags: KFI_SOURCE and others
 * @hints: the caller's needs; a field that is 0 accepts any value; or NULL
 * @info: the resulting list, to be freed by kfi_freeinfo()
 *
 * Queries all providers in the order of their registration, or the one that @hints
 * names.
 *
 * Context: process, may sleep; takes kfi_providers_lock, and holds it over the
 * providers' kgetinfo().
 * Return: 0 with a list; -EINVAL without @info; -ENOSYS for a version newer than ours;
 * -ENOMEM; else the last provider's error, -ENODATA if nothing matched.
 */
int kfi_getinfo(uint32_t version, const char *node, const char *service,
		uint64_t flags, struct kfi_info *hints, struct kfi_info **info)
{
	const char *wanted = NULL;
	struct kfi_registration *reg;
	int ret, last = -KFI_ENODATA;

	if (!info)
		return -KFI_EINVAL;
	*info = NULL;
	if (version > kfi_version())
		return -KFI_ENOSYS;
	if (hints && hints->fabric_attr)
		wanted = hints->fabric_attr->prov_name;

	mutex_lock(&kfi_providers_lock);
	list_for_each_entry(reg, &kfi_providers, link) {
		if (wanted && strcmp(wanted, reg->provider->name))
			continue;
		ret = kfi_query_provider(reg->provider, version, node, service,
					 flags, hints, info);
		if (ret)
			last = ret;
		if (ret == -KFI_ENOMEM)
			break;
	}
	mutex_unlock(&kfi_providers_lock);
	/* A partial list might lack the best match. */
	if (last == -KFI_ENOMEM) {
		kfi_freeinfo(*info);
		*info = NULL;
	}
	return *info ? 0 : last;
}
EXPORT_SYMBOL_GPL(kfi_getinfo);

/**
 * kfi_fabric() - open a fabric
 * @attr: names provider and fabric, usually from kfi_getinfo()
 * @fabric: the new fabric
 * @context: kept in it
 *
 * A provider charges a fabric to the caller's cgroup, which may take long. So its
 * kfabric() runs without the lock that all other callers take.
 *
 * Context: process, may sleep; takes kfi_providers_lock.
 * Return: 0; -EINVAL if a name or @fabric is missing; -ENODEV for an unknown
 * provider; the provider's errors.
 */
int kfi_fabric(struct kfi_fabric_attr *attr, struct kfid_fabric **fabric,
	       void *context)
{
	struct kfi_provider *provider;
	struct kfi_registration *reg;
	int idx, ret;

	if (!attr || !attr->prov_name || !attr->name || !fabric)
		return -KFI_EINVAL;
	idx = srcu_read_lock(&kfi_providers_srcu);
	mutex_lock(&kfi_providers_lock);
	reg = kfi_provider_find(attr->prov_name);
	provider = reg ? reg->provider : NULL;
	mutex_unlock(&kfi_providers_lock);
	ret = provider ? provider->kfabric(attr, fabric, context) : -KFI_ENODEV;
	srcu_read_unlock(&kfi_providers_srcu, idx);
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_fabric);

/**
 * kfi_getparams() - run-time settings of the providers
 * @params: the list, to be freed by kfi_freeparams()
 * @count: its length
 *
 * Providers are configured by their modules' parameters, so the list is empty.
 *
 * Context: any; takes no lock.
 * Return: 0, or -EINVAL without @params or @count.
 */
int kfi_getparams(struct kfi_param **params, int *count)
{
	if (!params || !count)
		return -KFI_EINVAL;
	*params = NULL;
	*count = 0;
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_getparams);

/**
 * kfi_freeparams() - free the list of kfi_getparams()
 * @params: the list; may be NULL
 *
 * Context: any; takes no lock.
 */
void kfi_freeparams(struct kfi_param *params)
{
	kfree(params);
}
EXPORT_SYMBOL_GPL(kfi_freeparams);

static int __init kfabric_init(void)
{
	kfi_handler_wq = alloc_workqueue("kfabric", WQ_MEM_RECLAIM | WQ_HIGHPRI |
					 KFI_WQ_PERCPU, 0);
	if (!kfi_handler_wq)
		return -ENOMEM;
	kfi_watch_wq = alloc_workqueue("kfabric_watch", WQ_UNBOUND, 0);
	if (!kfi_watch_wq) {
		destroy_workqueue(kfi_handler_wq);
		return -ENOMEM;
	}
	kfi_test_init();
	kfi_listing_init();
	return 0;
}

static void __exit kfabric_exit(void)
{
	kfi_listing_exit();
	kfi_test_exit();
	destroy_workqueue(kfi_watch_wq);
	destroy_workqueue(kfi_handler_wq);
}

module_init(kfabric_init);
module_exit(kfabric_exit);

MODULE_AUTHOR("kfabric developers");
MODULE_DESCRIPTION("OpenFabrics kernel fabric interface with wait sets and poll sets");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_VERSION("1.7.0");
