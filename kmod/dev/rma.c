// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Posting remote reads and writes. struct kfab_rma begins with the fields of
 * struct kfab_msg, see abi.c.
 */
#include <linux/slab.h>

#include "kfd.h"

/**
 * struct kfd_rma - a remote read or write, as the caller described it
 * @arg: the call's structure
 * @iov: the pieces of the peer's regions
 */
struct kfd_rma {
	const struct kfab_rma *arg;
	struct kfi_rma_iov *iov;
};

static struct kfi_msg_rma kfd_msg_rma_of(const struct kfd_rma *rma,
					 const struct kfd_vec *vec, void *context)
{
	return (struct kfi_msg_rma) {
		.type = KFI_KVEC,
		.msg_iov = vec->kvec,
		.desc = vec->desc,
		.iov_count = vec->n,
		.addr = rma->arg->addr,
		.rma_iov = rma->iov,
		.rma_iov_count = rma->arg->rma_iov_count,
		.context = context,
		.data = rma->arg->data,
	};
}

static ssize_t kfd_post_read(struct kfid_ep *ep, const struct kfd_vec *vec,
			     void *context, const void *p)
{
	const struct kfd_rma *rma = p;
	const struct kfi_msg_rma msg = kfd_msg_rma_of(rma, vec, context);

	if (!KFD_HAS(ep->rma, readmsg))
		return -EOPNOTSUPP;
	return kfi_readmsg(ep, &msg, rma->arg->op_flags);
}

static ssize_t kfd_post_write(struct kfid_ep *ep, const struct kfd_vec *vec,
			      void *context, const void *p)
{
	const struct kfd_rma *rma = p;
	const struct kfi_msg_rma msg = kfd_msg_rma_of(rma, vec, context);

	if (!KFD_HAS(ep->rma, writemsg))
		return -EOPNOTSUPP;
	return kfi_writemsg(ep, &msg, rma->arg->op_flags);
}

static ssize_t kfd_post_inject_write(struct kfid_ep *ep,
				     const struct kfd_vec *vec, void *context,
				     const void *p)
{
	const struct kfd_rma *rma = p;
	const struct kfab_rma *arg = rma->arg;
	const struct kvec piece = kfd_vec_first(vec);

	if (rma->iov->len != piece.iov_len)
		return -EINVAL;
	if (arg->op_flags & KFI_REMOTE_CQ_DATA) {
		if (!KFD_HAS(ep->rma, injectdata))
			return -EOPNOTSUPP;
		return kfi_inject_writedata(ep, piece.iov_base, piece.iov_len,
					    arg->data, arg->addr,
					    rma->iov->addr, rma->iov->key);
	}
	if (!KFD_HAS(ep->rma, inject))
		return -EOPNOTSUPP;
	return kfi_inject_write(ep, piece.iov_base, piece.iov_len, arg->addr,
				rma->iov->addr, rma->iov->key);
}

static struct kfi_rma_iov *kfd_rma_iov_get(u64 uaddr, u32 count)
{
	const struct kfab_rma_iov __user *from = u64_to_user_ptr(uaddr);

	/* Both interfaces have the same structure, see abi.c. */
	return memdup_user(from, count * sizeof(*from));
}

static long kfd_rma(struct kfd_call *call, bool hold, kfd_post_fn post)
{
	struct kfab_rma *arg = call->arg;
	struct kfd_rma rma = { .arg = arg };
	struct kfd_obj *obj;
	long ret;

	if (!arg->rma_iov_count || arg->rma_iov_count > KFAB_IOV_MAX)
		return -EINVAL;
	obj = kfd_pin(call, arg->ep, KFD_SENDERS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	rma.iov = kfd_rma_iov_get(arg->rma_iov, arg->rma_iov_count);
	if (IS_ERR(rma.iov))
		return PTR_ERR(rma.iov);
	ret = kfd_post_msg(call, obj, hold, post, &rma);
	kfree(rma.iov);
	return ret;
}

/**
 * kfd_read() - KFAB_IOC_READ
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_rma.
 */
long kfd_read(struct kfd_call *call)
{
	return kfd_rma(call, true, kfd_post_read);
}

/**
 * kfd_write() - KFAB_IOC_WRITE
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_rma.
 */
long kfd_write(struct kfd_call *call)
{
	const struct kfab_rma *arg = call->arg;

	if (!(arg->flags & KFAB_POST_INJECT))
		return kfd_rma(call, true, kfd_post_write);
	if (arg->rma_iov_count != 1 || !kfd_msg_injectable(call->arg))
		return -EINVAL;
	return kfd_rma(call, false, kfd_post_inject_write);
}
