// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Wait sets. The descriptors of their members are in waitobj.c.
 */
#include "kfd.h"

/**
 * kfd_wait_open() - KFAB_IOC_WAIT_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_wait_open.
 */
long kfd_wait_open(struct kfd_call *call)
{
	struct kfab_wait_open *arg = call->arg;
	struct kfi_wait_attr attr = { .wait_obj = kfd_set_kind(arg->wait_obj) };
	struct kfd_obj *fabric, *obj;
	struct kfid_wait *wait;
	int ret;

	fabric = kfd_pin(call, arg->fabric, KFD_CLASS(KFI_CLASS_FABRIC));
	if (IS_ERR(fabric))
		return PTR_ERR(fabric);
	obj = kfd_open_begin(call, KFI_CLASS_WAIT, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfi_wait_open(kfd_fabric_of(fabric), &attr, &wait);
	if (ret)
		return ret;
	kfd_open_done(obj, &wait->kfid, &arg->out_handle, &arg->out_id);
	kfd_wait_obj_set(call, obj, arg->wait_obj);
	return 0;
}

/**
 * kfd_wait() - KFAB_IOC_WAIT
 * @call: the call in progress
 *
 * Context: Process; sleeps without a lock of this module.
 * Return: 0, or a negative errno as listed at struct kfab_wait.
 */
long kfd_wait(struct kfd_call *call)
{
	const struct kfab_wait *arg = call->arg;
	struct kfd_obj *obj;
	ktime_t deadline;
	int ret;

	obj = kfd_pin(call, arg->wait, KFD_CLASS(KFI_CLASS_WAIT));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfd_deadline(arg->deadline, &deadline);
	return ret ?: kfi_wait_until(kfd_wait_of(obj), deadline);
}
