// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Endpoints and their connections. A connection request is an object of its own
 * from the moment that its event is read until somebody answers it.
 */
#include <linux/slab.h>

#include "kfd.h"

static struct kfd_ep *kfd_ep_struct(struct kfd_obj *obj)
{
	return container_of(obj, struct kfd_ep, obj);
}

/* KFAB_IOC_PEP_OPEN */
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
	obj = kfd_open_begin(call, KFI_CLASS_PEP);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	ret = kfi_passive_ep(kfd_fabric_of(fabric), info, &pep, obj);
	kfi_freeinfo(info);
	if (ret)
		return ret;
	obj->fid = &pep->fid;
	arg->out_handle = obj->id;
	arg->out_id = kfi_fid_id(obj->fid);
	return 0;
}

static int kfd_ep_open_info(struct kfab_ep_open *arg, struct kfd_obj *domain,
			    struct kfd_obj *obj, struct kfi_info *info)
{
	struct kfid_ep *ep;
	int ret = kfi_endpoint(kfd_domain_of(domain), info, &ep, obj);

	if (ret)
		return ret;
	obj->fid = &ep->fid;
	arg->out_handle = obj->id;
	arg->out_id = kfi_fid_id(obj->fid);
	return 0;
}

/* The info of the request, or the caller's version of it. */
static int kfd_ep_open_request(struct kfab_ep_open *arg, struct kfd_obj *domain,
			       struct kfd_obj *obj, struct kfd_connreq *req)
{
	struct kfi_info *info;
	int ret;

	if (!arg->info)
		return kfd_ep_open_info(arg, domain, obj, req->info);
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	info->handle = req->info->handle;
	ret = kfd_ep_open_info(arg, domain, obj, info);
	kfi_freeinfo(info);
	return ret;
}

/*
 * The endpoint uses the request up. So the structure is written once before, as
 * it was: a caller whose memory cannot be written keeps the request.
 */
static long kfd_ep_open_accepting(struct kfd_call *call, struct kfd_obj *domain,
				  struct kfd_obj *obj)
{
	struct kfab_ep_open *arg = call->arg;
	struct kfd_obj *req;
	int ret;

	ret = kfd_answer(call);
	if (ret)
		return ret;
	call->answered = false;

	req = kfd_claim(call->client, arg->connreq, KFD_CLASS(KFI_CLASS_CONNREQ));
	if (IS_ERR(req))
		return PTR_ERR(req);
	ret = kfd_ep_open_request(arg, domain, obj,
				  container_of(req, struct kfd_connreq, obj));
	kfd_claim_end(req, !ret);
	return ret;
}

/* KFAB_IOC_EP_OPEN */
long kfd_ep_open(struct kfd_call *call)
{
	struct kfab_ep_open *arg = call->arg;
	struct kfd_obj *domain, *obj;
	struct kfi_info *info;
	int ret;

	domain = kfd_pin(call, arg->domain, KFD_CLASS(KFI_CLASS_DOMAIN));
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	obj = kfd_open_begin(call, KFI_CLASS_EP);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	if (arg->connreq)
		return kfd_ep_open_accepting(call, domain, obj);
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	ret = kfd_ep_open_info(arg, domain, obj, info);
	kfi_freeinfo(info);
	return ret;
}

/* KFAB_IOC_LISTEN */
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
	if (down_write_killable(&kfd_ep_struct(obj)->sem))
		return -EINTR;
	if (KFD_HAS(pep->cm, listen))
		ret = kfi_listen(pep);
	up_write(&kfd_ep_struct(obj)->sem);
	return ret;
}

/* Read up to @max bytes; NULL if there are none. */
static void *kfd_bytes_get(u64 uaddr, u32 len, u32 max)
{
	if (len > max || (len && !uaddr))
		return ERR_PTR(-EINVAL);
	return len ? memdup_user(u64_to_user_ptr(uaddr), len) : NULL;
}

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

/*
 * kfi_connect() takes an address without its length: the provider goes by what
 * the address says of itself, so it gets zeros behind what the user gave.
 */
static void *kfd_addr_padded(u64 uaddr, u32 len)
{
	void *addr;

	if (len > KFAB_ADDR_MAX || (len && !uaddr))
		return ERR_PTR(-EINVAL);
	if (!len)
		return NULL;
	addr = kzalloc(KFAB_ADDR_MAX, GFP_KERNEL_ACCOUNT);
	if (!addr)
		return ERR_PTR(-ENOMEM);
	if (copy_from_user(addr, u64_to_user_ptr(uaddr), len)) {
		kfree(addr);
		return ERR_PTR(-EFAULT);
	}
	return addr;
}

/* KFAB_IOC_CONNECT */
long kfd_connect(struct kfd_call *call)
{
	struct kfab_connect *arg = call->arg;
	void *addr, *param;
	struct kfd_obj *obj;
	int ret;

	obj = kfd_pin(call, arg->ep, KFD_CLASS(KFI_CLASS_EP));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	addr = kfd_addr_padded(arg->addr, arg->addr_len);
	if (IS_ERR(addr))
		return PTR_ERR(addr);
	param = kfd_bytes_get(arg->param, arg->param_len, KFAB_CM_DATA_MAX);
	if (IS_ERR(param)) {
		kfree(addr);
		return PTR_ERR(param);
	}
	ret = kfd_ep_connect(kfd_ep_struct(obj), addr, param, arg->param_len);
	kfree(param);
	kfree(addr);
	return ret;
}

/* KFAB_IOC_ACCEPT */
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
	param = kfd_bytes_get(arg->param, arg->param_len, KFAB_CM_DATA_MAX);
	if (IS_ERR(param))
		return PTR_ERR(param);
	ret = kfd_ep_accept(kfd_ep_struct(obj), param, arg->param_len);
	kfree(param);
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
	/* With its device the request is gone, too. */
	kfd_claim_end(req, !ret || ret == -ENODEV);
	return ret;
}

/* KFAB_IOC_REJECT */
long kfd_reject(struct kfd_call *call)
{
	struct kfab_reject *arg = call->arg;
	struct kfd_obj *obj;
	void *param;
	int ret;

	obj = kfd_pin(call, arg->pep, KFD_CLASS(KFI_CLASS_PEP));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	param = kfd_bytes_get(arg->param, arg->param_len, KFAB_CM_DATA_MAX);
	if (IS_ERR(param))
		return PTR_ERR(param);
	ret = kfd_pep_reject(call, kfd_pep_of(obj), param);
	kfree(param);
	return ret;
}

/* KFAB_IOC_SHUTDOWN */
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
	if (down_write_killable(&kfd_ep_struct(obj)->sem))
		return -EINTR;
	if (KFD_HAS(ep->cm, shutdown))
		ret = kfi_shutdown(ep, arg->how);
	up_write(&kfd_ep_struct(obj)->sem);
	return ret;
}

/* Write an address, cut to the room that there is; its length in any case. */
static int kfd_name_put(struct kfab_name *arg, const void *addr, size_t len)
{
	const size_t fits = min_t(size_t, len, arg->addr_len);

	if (copy_to_user(u64_to_user_ptr(arg->addr), addr, fits))
		return -EFAULT;
	arg->addr_len = len;
	return 0;
}

/* KFAB_IOC_GETNAME */
long kfd_getname(struct kfd_call *call)
{
	const u32 classes = KFD_CLASS(KFI_CLASS_EP) | KFD_CLASS(KFI_CLASS_SEP) |
			    KFD_CLASS(KFI_CLASS_PEP);
	struct kfab_name *arg = call->arg;
	u64 addr[KFAB_ADDR_MAX / sizeof(u64)] = {};
	size_t len = sizeof(addr);
	struct kfd_obj *obj;
	int ret = -EOPNOTSUPP;

	obj = kfd_pin(call, arg->handle, classes);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (down_read_interruptible(&kfd_ep_struct(obj)->sem))
		return -EINTR;
	/* Both kinds of endpoint have the table in the same place. */
	if (KFD_HAS(kfd_ep_of(obj)->cm, getname))
		ret = kfi_getname(obj->fid, addr, &len);
	up_read(&kfd_ep_struct(obj)->sem);
	return ret ?: kfd_name_put(arg, addr, min(len, sizeof(addr)));
}

/* KFAB_IOC_GETPEER */
long kfd_getpeer(struct kfd_call *call)
{
	struct kfab_name *arg = call->arg;
	u64 addr[KFAB_ADDR_MAX / sizeof(u64)] = {};
	size_t len = sizeof(addr);
	struct kfd_obj *obj;
	int ret = -EOPNOTSUPP;

	obj = kfd_pin(call, arg->handle, KFD_CLASS(KFI_CLASS_EP));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (down_read_interruptible(&kfd_ep_struct(obj)->sem))
		return -EINTR;
	if (KFD_HAS(kfd_ep_of(obj)->cm, getpeer))
		ret = kfi_getpeer(kfd_ep_of(obj), addr, &len);
	up_read(&kfd_ep_struct(obj)->sem);
	return ret ?: kfd_name_put(arg, addr, min(len, sizeof(addr)));
}
