// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Memory regions.
 */
#include <linux/slab.h>

#include "kfd.h"

/**
 * kfd_mr_release_bufs() - unpin the buffers of a region
 * @mr: the region, closed or never opened
 *
 * Context: Process.
 */
void kfd_mr_release_bufs(struct kfd_mr *mr)
{
	while (mr->nbufs)
		kfd_unhold(&mr->bufs[--mr->nbufs]->obj);
	kfree(mr->bufs);
	mr->bufs = NULL;
}

static bool kfd_vec_has_mr(const struct kfd_vec *vec)
{
	unsigned int i;

	for (i = 0; i < vec->n; i++)
		if (vec->mr[i])
			return true;
	return false;
}

static int kfd_mr_open(struct kfab_mr_reg *arg, struct kfd_obj *domain,
		       struct kfd_mr *region, struct kfd_vec *vec)
{
	struct kfid_mr *mr;
	int ret;

	if (!vec->n || kfd_vec_has_mr(vec))
		return -EINVAL;
	region->bufs = kmemdup(vec->buf, vec->n * sizeof(*vec->buf),
			       GFP_KERNEL_ACCOUNT);
	if (!region->bufs)
		return -ENOMEM;
	/* Completions at the target of RMA carry this context: the user's number. */
	ret = kfi_mr_regv(kfd_domain_of(domain), vec->kvec, vec->n, arg->access,
			  arg->offset, arg->requested_key, arg->mr_flags, &mr,
			  kfd_user_context(arg->context));
	if (ret)
		return ret;
	region->obj.fid = &mr->fid;
	while (region->nbufs < vec->n)
		kfd_hold(&region->bufs[region->nbufs++]->obj);
	/* Users must not see kernel addresses, so such a provider is refused. */
	if (mr->iova == (uintptr_t)vec->kvec[0].iov_base)
		return -EOPNOTSUPP;
	arg->out_key = kfi_mr_key(mr);
	arg->out_iova = mr->iova;
	kfd_open_done(&region->obj, &mr->fid, &arg->out_handle, &arg->out_id);
	return 0;
}

/**
 * kfd_mr_reg() - KFAB_IOC_MR_REG
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_mr_reg.
 */
long kfd_mr_reg(struct kfd_call *call)
{
	struct kfab_mr_reg *arg = call->arg;
	struct kfd_obj *domain, *obj;
	struct kfd_vec vec;
	int ret;

	domain = kfd_pin(call, arg->domain, KFD_CLASS(KFI_CLASS_DOMAIN));
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	obj = kfd_open_begin(call, KFI_CLASS_MR, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfd_vec_get(call->client, &vec, arg->iov, arg->iov_count);
	if (ret)
		return ret;
	ret = kfd_mr_open(arg, domain, container_of(obj, struct kfd_mr, obj), &vec);
	kfd_vec_put(&vec);
	return ret;
}
