// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Scalable endpoints and their contexts.
 */
#include "kfd.h"

/**
 * kfd_sep_open() - KFAB_IOC_SEP_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_sep_open.
 */
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
	obj = kfd_open_begin(call, KFI_CLASS_SEP, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	fid = kfd_domain_of(domain);
	if (KFD_HAS(fid->ops, scalable_ep))
		ret = kfi_scalable_ep(fid, info, &sep, obj);
	kfi_freeinfo(info);
	if (!ret)
		kfd_open_done(obj, &sep->fid, &arg->out_handle, &arg->out_id);
	return ret;
}

typedef int (*kfd_context_fn)(struct kfid_ep *sep, int index,
			      struct kfi_info *info, struct kfid_ep **ctx,
			      void *context);

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
	if (ret)
		return ret;
	kfi_ep_watch(ctx, kfd_op_report);
	kfd_open_done(obj, &ctx->fid, &arg->out_handle, &arg->out_id);
	return 0;
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
	obj = kfd_open_begin(call, fclass, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (arg->info) {
		info = kfd_info_get(arg->info);
		if (IS_ERR(info))
			return PTR_ERR(info);
	}
	ret = kfd_ctx_open_on(kfd_ep_obj(sep), arg, obj, info, open);
	kfi_freeinfo(info);
	return ret;
}

/**
 * kfd_tx_ctx_open() - KFAB_IOC_TX_CTX_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem of the scalable endpoint for writing.
 * Return: 0, or a negative errno as listed at struct kfab_ctx_open.
 */
long kfd_tx_ctx_open(struct kfd_call *call)
{
	return kfd_ctx_open(call, KFI_CLASS_TX_CTX, kfd_tx_context);
}

/**
 * kfd_rx_ctx_open() - KFAB_IOC_RX_CTX_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem of the scalable endpoint for writing.
 * Return: 0, or a negative errno as listed at struct kfab_ctx_open.
 */
long kfd_rx_ctx_open(struct kfd_call *call)
{
	return kfd_ctx_open(call, KFI_CLASS_RX_CTX, kfd_rx_context);
}
