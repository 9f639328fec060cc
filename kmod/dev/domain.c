// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Domains.
 */
#include "kfd.h"

/**
 * kfd_domain_open() - KFAB_IOC_DOMAIN_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_domain_open.
 */
long kfd_domain_open(struct kfd_call *call)
{
	struct kfab_domain_open *arg = call->arg;
	struct kfd_obj *fabric, *obj;
	struct kfid_domain *domain;
	struct kfi_info *info;
	int ret;

	fabric = kfd_pin(call, arg->fabric, KFD_CLASS(KFI_CLASS_FABRIC));
	if (IS_ERR(fabric))
		return PTR_ERR(fabric);
	obj = kfd_open_begin(call, KFI_CLASS_DOMAIN, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	ret = kfi_domain(kfd_fabric_of(fabric), info, &domain, obj);
	kfi_freeinfo(info);
	if (ret)
		return ret;
	kfi_domain_of(domain)->owner = kfd_user_owner(call->client->user);
	kfd_open_done(obj, &domain->fid, &arg->out_handle, &arg->out_id);
	return 0;
}
