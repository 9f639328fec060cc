// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Posting tagged messages; see data.c for those without a tag.
 */
#include "kfd.h"

static struct kfi_msg_tagged kfd_msg_tagged_of(const struct kfab_tmsg *arg,
					       const struct kfd_vec *vec)
{
	return (struct kfi_msg_tagged) {
		.type = KFI_KVEC,
		.msg_iov = vec->kvec,
		.desc = vec->desc,
		.iov_count = vec->n,
		.addr = arg->addr,
		.tag = arg->tag,
		.ignore = arg->ignore,
		.context = kfd_user_context(arg->context),
		.data = arg->data,
	};
}

static ssize_t kfd_post_trecv(struct kfid_ep *ep, const struct kfd_vec *vec,
			      const void *p)
{
	const struct kfab_tmsg *arg = p;
	const struct kfi_msg_tagged msg = kfd_msg_tagged_of(arg, vec);

	if (!KFD_HAS(ep->tagged, recvmsg))
		return -EOPNOTSUPP;
	return kfi_trecvmsg(ep, &msg, arg->op_flags);
}

static ssize_t kfd_post_tsend(struct kfid_ep *ep, const struct kfd_vec *vec,
			      const void *p)
{
	const struct kfab_tmsg *arg = p;
	const struct kfi_msg_tagged msg = kfd_msg_tagged_of(arg, vec);

	if (!KFD_HAS(ep->tagged, sendmsg))
		return -EOPNOTSUPP;
	return kfi_tsendmsg(ep, &msg, arg->op_flags);
}

static ssize_t kfd_post_tinject(struct kfid_ep *ep, const struct kfd_vec *vec,
				const void *p)
{
	const struct kfab_tmsg *arg = p;
	const void *buf = vec->n ? vec->kvec[0].iov_base : NULL;
	const size_t len = vec->n ? vec->kvec[0].iov_len : 0;

	if (arg->op_flags & KFI_REMOTE_CQ_DATA) {
		if (!KFD_HAS(ep->tagged, injectdata))
			return -EOPNOTSUPP;
		return kfi_tinjectdata(ep, buf, len, arg->data, arg->addr,
				       arg->tag);
	}
	if (!KFD_HAS(ep->tagged, inject))
		return -EOPNOTSUPP;
	return kfi_tinject(ep, buf, len, arg->addr, arg->tag);
}

static long kfd_tmsg(struct kfd_call *call, u32 classes, bool hold,
		     kfd_post_fn post)
{
	struct kfab_tmsg *arg = call->arg;
	struct kfd_obj *obj;
	struct kfd_vec vec;
	long ret;

	obj = kfd_pin(call, arg->ep, classes);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfd_vec_get(call->client, &vec, arg->iov, arg->iov_count);
	if (ret)
		return ret;
	ret = kfd_post(container_of(obj, struct kfd_ep, obj), &vec, hold, post,
		       arg);
	kfd_vec_put(&vec);
	return ret;
}

/* KFAB_IOC_TRECV */
long kfd_trecv(struct kfd_call *call)
{
	return kfd_tmsg(call, KFD_RECEIVERS, true, kfd_post_trecv);
}

/* KFAB_IOC_TSEND */
long kfd_tsend(struct kfd_call *call)
{
	struct kfab_tmsg *arg = call->arg;

	if (arg->ignore)
		return -EINVAL;
	if (!(arg->flags & KFAB_POST_INJECT))
		return kfd_tmsg(call, KFD_SENDERS, true, kfd_post_tsend);
	if (arg->iov_count > 1 || (arg->op_flags & ~KFI_REMOTE_CQ_DATA))
		return -EINVAL;
	return kfd_tmsg(call, KFD_SENDERS, false, kfd_post_tinject);
}
