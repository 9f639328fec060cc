// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Passive endpoints: open, listen, and rejecting a connection request. A request is
 * an object of its own from the moment that its event is read until it is accepted,
 * rejected or closed.
 */
#include <linux/slab.h>

#include "kfd.h"

/**
 * kfd_pep_open() - KFAB_IOC_PEP_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_pep_open.
 */
long kfd_pep_open(struct kfd_call *call)
{
	struct kfab_pep_open *arg = call->arg;
	struct kfd_obj *fabric, *obj;
	struct kfi_info *info;
	struct kfid_pep *pep;
	int ret;

	fabric = kfd_pin(call, arg->fabric, KFD_CLASS(KFI_CLASS_FABRIC));
	if (IS_ERR(fabric))
		return PTR_ERR(fabric);
	obj = kfd_open_begin(call, KFI_CLASS_PEP, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	ret = kfi_passive_ep(kfd_fabric_of(fabric), info, &pep, obj);
	kfi_freeinfo(info);
	if (ret)
		return ret;
	container_of(pep, struct kfi_pep_base, pep)->owner =
		kfd_user_owner(call->client->user);
	kfd_open_done(obj, &pep->fid, &arg->out_handle, &arg->out_id);
	return 0;
}

/**
 * kfd_listen() - KFAB_IOC_LISTEN
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for writing.
 * Return: 0, or a negative errno as listed at struct kfab_listen.
 */
long kfd_listen(struct kfd_call *call)
{
	struct kfab_listen *arg = call->arg;
	struct kfid_pep *pep;
	struct kfd_obj *obj;
	int ret = -EOPNOTSUPP;

	obj = kfd_pin(call, arg->pep, KFD_CLASS(KFI_CLASS_PEP));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	pep = kfd_pep_of(obj);
	if (down_write_killable(&kfd_ep_obj(obj)->sem))
		return -EINTR;
	if (KFD_HAS(pep->cm, listen))
		ret = kfi_listen(pep);
	up_write(&kfd_ep_obj(obj)->sem);
	return ret;
}

static int kfd_pep_reject(struct kfd_call *call, struct kfid_pep *pep,
			  const void *param)
{
	struct kfab_reject *arg = call->arg;
	struct kfd_obj *req;
	int ret = -EOPNOTSUPP;

	req = kfd_claim(call->client, arg->connreq, KFD_CLASS(KFI_CLASS_CONNREQ));
	if (IS_ERR(req))
		return PTR_ERR(req);
	if (KFD_HAS(pep->cm, reject))
		ret = kfi_reject(pep, container_of(req, struct kfd_connreq,
						   obj)->info->handle,
				 param, arg->param_len);
	/* If the device is gone, the request is gone with it. */
	kfd_claim_end(req, !ret || ret == -ENODEV);
	return ret;
}

/**
 * kfd_reject() - KFAB_IOC_REJECT
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_reject.
 */
long kfd_reject(struct kfd_call *call)
{
	struct kfab_reject *arg = call->arg;
	struct kfd_obj *obj;
	void *param;
	int ret;

	obj = kfd_pin(call, arg->pep, KFD_CLASS(KFI_CLASS_PEP));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	param = kfd_bytes_user(arg->param, arg->param_len);
	if (IS_ERR(param))
		return PTR_ERR(param);
	ret = kfd_pep_reject(call, kfd_pep_of(obj), param);
	kfree(param);
	return ret;
}
