// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Connections of endpoints, and the addresses of both ends.
 */
#include <linux/slab.h>

#include "kfd.h"

static int kfd_ep_connect(struct kfd_ep *ep, const void *addr,
			  const void *param, u32 len)
{
	struct kfid_ep *fid = kfd_ep_of(&ep->obj);
	int ret = -EOPNOTSUPP;

	if (down_write_killable(&ep->sem))
		return -EINTR;
	if (KFD_HAS(fid->cm, connect))
		ret = kfi_connect(fid, addr, param, len);
	up_write(&ep->sem);
	return ret;
}

static int kfd_ep_accept(struct kfd_ep *ep, const void *param, u32 len)
{
	struct kfid_ep *fid = kfd_ep_of(&ep->obj);
	int ret = -EOPNOTSUPP;

	if (down_write_killable(&ep->sem))
		return -EINTR;
	if (KFD_HAS(fid->cm, accept))
		ret = kfi_accept(fid, param, len);
	up_write(&ep->sem);
	return ret;
}

/**
 * kfd_connect() - KFAB_IOC_CONNECT
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for writing.
 * Return: 0, or a negative errno as listed at struct kfab_connect.
 */
long kfd_connect(struct kfd_call *call)
{
	struct kfab_connect *arg = call->arg;
	void *addr, *param;
	struct kfd_obj *obj;
	int ret;

	obj = kfd_pin(call, arg->ep, KFD_CLASS(KFI_CLASS_EP));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	addr = kfd_addr_user(arg->addr, arg->addr_len);
	if (IS_ERR(addr))
		return PTR_ERR(addr);
	param = kfd_bytes_user(arg->param, arg->param_len);
	if (IS_ERR(param)) {
		kfree(addr);
		return PTR_ERR(param);
	}
	ret = kfd_ep_connect(kfd_ep_obj(obj), addr, param, arg->param_len);
	kfree(param);
	kfree(addr);
	return ret;
}

/**
 * kfd_accept() - KFAB_IOC_ACCEPT
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for writing.
 * Return: 0, or a negative errno as listed at struct kfab_connect.
 */
long kfd_accept(struct kfd_call *call)
{
	struct kfab_connect *arg = call->arg;
	struct kfd_obj *obj;
	void *param;
	int ret;

	if (arg->addr || arg->addr_len)
		return -EINVAL;
	obj = kfd_pin(call, arg->ep, KFD_CLASS(KFI_CLASS_EP));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	param = kfd_bytes_user(arg->param, arg->param_len);
	if (IS_ERR(param))
		return PTR_ERR(param);
	ret = kfd_ep_accept(kfd_ep_obj(obj), param, arg->param_len);
	kfree(param);
	return ret;
}

/**
 * kfd_shutdown() - KFAB_IOC_SHUTDOWN
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for writing.
 * Return: 0, or a negative errno as listed at struct kfab_shutdown.
 */
long kfd_shutdown(struct kfd_call *call)
{
	struct kfab_shutdown *arg = call->arg;
	struct kfd_obj *obj;
	struct kfid_ep *ep;
	int ret = -EOPNOTSUPP;

	obj = kfd_pin(call, arg->ep, KFD_CLASS(KFI_CLASS_EP));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ep = kfd_ep_of(obj);
	if (down_write_killable(&kfd_ep_obj(obj)->sem))
		return -EINTR;
	if (KFD_HAS(ep->cm, shutdown))
		ret = kfi_shutdown(ep, arg->how);
	up_write(&kfd_ep_obj(obj)->sem);
	return ret;
}

typedef int (*kfd_name_fn)(struct kfd_obj *obj, void *addr, size_t *len);

static int kfd_name_own(struct kfd_obj *obj, void *addr, size_t *len)
{
	/* Active and passive endpoints have the table at the same offset. */
	if (!KFD_HAS(kfd_ep_of(obj)->cm, getname))
		return -EOPNOTSUPP;
	return kfi_getname(obj->fid, addr, len);
}

static int kfd_name_peer(struct kfd_obj *obj, void *addr, size_t *len)
{
	if (!KFD_HAS(kfd_ep_of(obj)->cm, getpeer))
		return -EOPNOTSUPP;
	return kfi_getpeer(kfd_ep_of(obj), addr, len);
}

static long kfd_name(struct kfd_call *call, u32 classes, kfd_name_fn name)
{
	struct kfab_name *arg = call->arg;
	u64 addr[KFAB_ADDR_MAX / sizeof(u64)] = {};
	size_t len = sizeof(addr);
	struct kfd_obj *obj;
	int ret;

	obj = kfd_pin(call, arg->handle, classes);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (down_read_interruptible(&kfd_ep_obj(obj)->sem))
		return -EINTR;
	ret = name(obj, addr, &len);
	up_read(&kfd_ep_obj(obj)->sem);
	return ret ?: kfd_addr_put(arg->addr, &arg->addr_len, addr,
				   min(len, sizeof(addr)));
}

/**
 * kfd_getname() - KFAB_IOC_GETNAME
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_name.
 */
long kfd_getname(struct kfd_call *call)
{
	return kfd_name(call, KFD_CLASS(KFI_CLASS_EP) | KFD_CLASS(KFI_CLASS_SEP) |
			      KFD_CLASS(KFI_CLASS_PEP), kfd_name_own);
}

/**
 * kfd_getpeer() - KFAB_IOC_GETPEER
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_name.
 */
long kfd_getpeer(struct kfd_call *call)
{
	return kfd_name(call, KFD_CLASS(KFI_CLASS_EP), kfd_name_peer);
}
