// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Scalable endpoints and their contexts; taking operations back, and options.
 */
#include "kfd.h"

static void kfd_ep_opened(struct kfd_obj *obj, struct kfid_ep *ep, u32 *handle,
			  u32 *id)
{
	obj->fid = &ep->fid;
	*handle = obj->id;
	*id = kfi_fid_id(obj->fid);
}

/* KFAB_IOC_SEP_OPEN */
long kfd_sep_open(struct kfd_call *call)
{
	struct kfab_sep_open *arg = call->arg;
	struct kfd_obj *domain, *obj;
	struct kfid_domain *fid;
	struct kfi_info *info;
	struct kfid_ep *sep;
	int ret = -EOPNOTSUPP;

	domain = kfd_pin(call, arg->domain, KFD_CLASS(KFI_CLASS_DOMAIN));
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	obj = kfd_open_begin(call, KFI_CLASS_SEP);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	fid = kfd_domain_of(domain);
	if (KFD_HAS(fid->ops, scalable_ep))
		ret = kfi_scalable_ep(fid, info, &sep, obj);
	kfi_freeinfo(info);
	if (!ret)
		kfd_ep_opened(obj, sep, &arg->out_handle, &arg->out_id);
	return ret;
}

static int kfd_tx_context(struct kfid_ep *sep, int index, struct kfi_info *info,
			  struct kfid_ep **ctx, void *context)
{
	if (!KFD_HAS(sep->ops, tx_ctx))
		return -EOPNOTSUPP;
	return kfi_tx_context(sep, index, info ? info->tx_attr : NULL, ctx,
			      context);
}

static int kfd_rx_context(struct kfid_ep *sep, int index, struct kfi_info *info,
			  struct kfid_ep **ctx, void *context)
{
	if (!KFD_HAS(sep->ops, rx_ctx))
		return -EOPNOTSUPP;
	return kfi_rx_context(sep, index, info ? info->rx_attr : NULL, ctx,
			      context);
}

typedef int (*kfd_context_fn)(struct kfid_ep *sep, int index,
			      struct kfi_info *info, struct kfid_ep **ctx,
			      void *context);

static int kfd_ctx_open_on(struct kfd_ep *sep, struct kfab_ctx_open *arg,
			   struct kfd_obj *obj, struct kfi_info *info,
			   kfd_context_fn open)
{
	struct kfid_ep *ctx;
	int ret;

	if (down_write_killable(&sep->sem))
		return -EINTR;
	ret = open(kfd_ep_of(&sep->obj), arg->index, info, &ctx, obj);
	up_write(&sep->sem);
	if (!ret)
		kfd_ep_opened(obj, ctx, &arg->out_handle, &arg->out_id);
	return ret;
}

static long kfd_ctx_open(struct kfd_call *call, u32 fclass, kfd_context_fn open)
{
	struct kfab_ctx_open *arg = call->arg;
	struct kfi_info *info = NULL;
	struct kfd_obj *sep, *obj;
	int ret;

	if (arg->index > INT_MAX)
		return -EINVAL;
	sep = kfd_pin(call, arg->sep, KFD_CLASS(KFI_CLASS_SEP));
	if (IS_ERR(sep))
		return PTR_ERR(sep);
	obj = kfd_open_begin(call, fclass);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	if (arg->info) {
		info = kfd_info_get(arg->info);
		if (IS_ERR(info))
			return PTR_ERR(info);
	}
	ret = kfd_ctx_open_on(container_of(sep, struct kfd_ep, obj), arg, obj,
			      info, open);
	kfi_freeinfo(info);
	return ret;
}

/* KFAB_IOC_TX_CTX_OPEN */
long kfd_tx_ctx_open(struct kfd_call *call)
{
	return kfd_ctx_open(call, KFI_CLASS_TX_CTX, kfd_tx_context);
}

/* KFAB_IOC_RX_CTX_OPEN */
long kfd_rx_ctx_open(struct kfd_call *call)
{
	return kfd_ctx_open(call, KFI_CLASS_RX_CTX, kfd_rx_context);
}

/* KFAB_IOC_CANCEL */
long kfd_cancel(struct kfd_call *call)
{
	struct kfab_cancel *arg = call->arg;
	struct kfd_obj *obj;
	struct kfd_ep *ep;
	long ret = -EOPNOTSUPP;

	obj = kfd_pin(call, arg->ep, KFD_SENDERS | KFD_RECEIVERS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ep = container_of(obj, struct kfd_ep, obj);
	if (down_read_interruptible(&ep->sem))
		return -EINTR;
	if (KFD_HAS(kfd_ep_of(obj)->ops, cancel))
		ret = kfi_cancel(obj->fid, kfd_user_context(arg->context));
	up_read(&ep->sem);
	return ret;
}

/* KFAB_IOC_GETOPT. Every option there is has the type of a size. */
long kfd_getopt(struct kfd_call *call)
{
	struct kfab_opt *arg = call->arg;
	size_t value = 0, len = sizeof(value);
	struct kfd_obj *obj;
	struct kfd_ep *ep;
	int ret = -EOPNOTSUPP;

	obj = kfd_pin(call, arg->handle, KFD_ENDPOINTS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ep = container_of(obj, struct kfd_ep, obj);
	if (down_read_interruptible(&ep->sem))
		return -EINTR;
	if (KFD_HAS(kfd_ep_of(obj)->ops, getopt))
		ret = kfi_getopt(obj->fid, arg->level, arg->optname, &value,
				 &len);
	up_read(&ep->sem);
	if (!ret)
		arg->value = value;
	return ret;
}

/* KFAB_IOC_SETOPT */
long kfd_setopt(struct kfd_call *call)
{
	struct kfab_opt *arg = call->arg;
	const size_t value = arg->value;
	struct kfd_obj *obj;
	struct kfd_ep *ep;
	int ret = -EOPNOTSUPP;

	obj = kfd_pin(call, arg->handle, KFD_ENDPOINTS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ep = container_of(obj, struct kfd_ep, obj);
	if (down_write_killable(&ep->sem))
		return -EINTR;
	if (KFD_HAS(kfd_ep_of(obj)->ops, setopt))
		ret = kfi_setopt(obj->fid, arg->level, arg->optname, &value,
				 sizeof(value));
	up_write(&ep->sem);
	return ret;
}
