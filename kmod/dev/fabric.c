// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Fabrics.
 */
#include "kfd.h"

/**
 * kfd_fabric_open() - KFAB_IOC_FABRIC_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_fabric_open.
 */
long kfd_fabric_open(struct kfd_call *call)
{
	struct kfab_fabric_open *arg = call->arg;
	struct kfid_fabric *fabric;
	struct kfi_info *info;
	struct kfd_obj *obj;
	int ret;

	obj = kfd_open_begin(call, KFI_CLASS_FABRIC, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	ret = kfi_fabric(info->fabric_attr, &fabric, obj);
	kfi_freeinfo(info);
	if (!ret)
		kfd_open_done(obj, &fabric->fid, &arg->out_handle, &arg->out_id);
	return ret;
}
