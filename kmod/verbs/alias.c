// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Other names of the provider, its fabrics and its domains, for ULPs that insist on
 * those of their own hardware. The administrator gives them as the module is loaded.
 *
 * A hint with such a name finds what has it, and gets it back. Nothing else shows it. A
 * name that an object has itself is nobody's other name: devices come after the aliases.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "rdm/rdm.h"

static char *kfv_aliases[16];
static int kfv_alias_count;
module_param_array_named(aliases, kfv_aliases, charp, &kfv_alias_count, 0444);
MODULE_PARM_DESC(aliases, "other names, as theirs=ours: cxi=verbs,cxi0=rxe0 (default: none)");

/* Is it the provider's, or that of a port's fabric or domain? */
static bool kfv_name_taken(const char *name)
{
	char own[KFI_NAME_MAX];
	struct kfv_device *dev;
	u32 port;

	lockdep_assert_held(&kfv_lock);
	if (!strcmp(name, KFV_PROVIDER))
		return true;
	list_for_each_entry(dev, &kfv_devices, link) {
		rdma_for_each_port(dev->ib, port) {
			kfv_domain_name(dev->ib, port, own);
			if (!strcmp(name, own))
				return true;
			if (!kfv_fabric_name(dev->ib, port, own) &&
			    !strcmp(name, own))
				return true;
		}
	}
	return false;
}

/* Return: what an alias stands for; NULL: there is none of that name. */
static const char *kfv_alias_of(const char *name)
{
	size_t len = strlen(name);
	int i;

	for (i = 0; i < kfv_alias_count; i++)
		if (!strncmp(kfv_aliases[i], name, len) &&
		    kfv_aliases[i][len] == '=')
			return kfv_aliases[i] + len + 1;
	return NULL;
}

/**
 * kfv_named() - does a name stand for an object?
 * @name: as a caller gives it
 * @own: the object's
 *
 * Context: process; caller holds kfv_lock.
 * Return: true if it is the same, or an alias of it that no other object is called.
 */
bool kfv_named(const char *name, const char *own)
{
	const char *meant = kfv_alias_of(name);

	if (!strcmp(name, own))
		return true;
	return meant && !strcmp(meant, own) && !kfv_name_taken(name);
}

/**
 * kfv_is_alias() - is a name an alias of anything?
 * @name: as a caller gives it
 *
 * Context: process; caller holds kfv_lock.
 * Return: true unless there is none, or an object is called so itself.
 */
bool kfv_is_alias(const char *name)
{
	return kfv_alias_of(name) && !kfv_name_taken(name);
}

static int kfv_rename(char **name, const char *hint)
{
	char *copy;

	if (!hint || !strcmp(*name, hint))
		return 0;
	copy = kstrdup(hint, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	kfree(*name);
	*name = copy;
	return 0;
}

/**
 * kfv_name_as_hinted() - put the names of the hints into an answer
 * @info: the answer, which meets the hints
 * @hints: the hints
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int kfv_name_as_hinted(struct kfi_info *info, const struct kfi_info *hints)
{
	const struct kfi_fabric_attr *fabric = hints->fabric_attr;
	int err = 0;

	if (fabric)
		err = kfv_rename(&info->fabric_attr->name, fabric->name);
	if (!err && fabric)
		err = kfv_rename(&info->fabric_attr->prov_name,
				 fabric->prov_name);
	if (!err && hints->domain_attr)
		err = kfv_rename(&info->domain_attr->name,
				 hints->domain_attr->name);
	return err;
}

/* Only for callers that name it: others have the answers of the provider itself. */
static int kfv_alias_getinfo(u32 version, const char *node, const char *service,
			     u64 flags, struct kfi_info *hints,
			     struct kfi_info **info)
{
	if (!hints || !hints->fabric_attr || !hints->fabric_attr->prov_name)
		return -KFI_ENODATA;
	return kfv_getinfo(version, node, service, flags, hints, info);
}

/* The least version: a provider that is really called so replaces it, and never the reverse. */
static struct kfi_provider kfv_alias_provider = {
	.version = 0,
	.kfi_version = KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION),
	.kgetinfo = kfv_alias_getinfo,
	.kfabric = kfv_fabric_open,
};

/* Like theirs=ours, and the left side is neither the provider's name nor of one before? */
static bool kfv_alias_ok(int i)
{
	const char *own = strchr(kfv_aliases[i], '=');
	size_t len = own ? own + 1 - kfv_aliases[i] : 0;
	int before;

	if (len < 2 || !own[1] || strchr(own + 1, '=') || len > KFI_NAME_MAX ||
	    !strncmp(kfv_aliases[i], KFV_PROVIDER "=", len))
		return false;
	for (before = 0; before < i; before++)
		if (!strncmp(kfv_aliases[before], kfv_aliases[i], len))
			return false;
	return true;
}

/**
 * kfv_alias_init() - look at the aliases
 *
 * Context: process, may sleep; from module init, before the provider is registered.
 * Return: 0; -EINVAL: an alias is not like theirs=ours, or its left side has come
 * before or is the provider's name, or it is the second one of the provider; -ENOMEM.
 */
int kfv_alias_init(void)
{
	char *own;
	int i;

	for (i = 0; i < kfv_alias_count; i++) {
		if (!kfv_alias_ok(i))
			return -EINVAL;
		own = strchr(kfv_aliases[i], '=');
		if (strcmp(own + 1, KFV_PROVIDER))
			continue;
		if (kfv_alias_provider.name)
			return -EINVAL;
		kfv_alias_provider.name = kstrndup(kfv_aliases[i],
						   own - kfv_aliases[i],
						   GFP_KERNEL);
		if (!kfv_alias_provider.name)
			return -ENOMEM;
	}
	return 0;
}

/**
 * kfv_alias_register() - register the provider under its other name, if it has one
 *
 * It comes after the provider itself, and its failure is no failure of the module: an
 * object may be open already.
 *
 * Context: process, may sleep; from module init.
 */
void kfv_alias_register(void)
{
	int err;

	if (!kfv_alias_provider.name)
		return;
	err = kfi_provider_register(&kfv_alias_provider);
	if (err)
		pr_warn("the provider is not called %s: error %d\n",
			kfv_alias_provider.name, err);
}

/**
 * kfv_alias_exit() - the mirror of both, also of kfv_alias_init() that failed
 *
 * Context: process, may sleep.
 */
void kfv_alias_exit(void)
{
	if (kfv_alias_provider.name)
		kfi_provider_deregister(&kfv_alias_provider);
	kfree(kfv_alias_provider.name);
	kfv_alias_provider.name = NULL;
}
