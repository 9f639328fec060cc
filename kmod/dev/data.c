// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Memory regions, and posting what moves data. The provider gets pieces of
 * buffers of ours, never an address that the user chose.
 */
#include <linux/slab.h>

#include "kfd.h"

/**
 * kfd_vec_put() - the mirror of kfd_vec_get()
 * @vec: the pieces
 */
void kfd_vec_put(struct kfd_vec *vec)
{
	while (vec->n) {
		vec->n--;
		if (vec->mr[vec->n])
			kfd_put(vec->mr[vec->n]);
		kfd_put(&vec->buf[vec->n]->obj);
	}
	kfree(vec->kvec);
}

/* Look one piece up; the caller counts it in if this succeeds. */
static int kfd_vec_add(struct kfd_client *client, struct kfd_vec *vec,
		       const struct kfab_iov *iov)
{
	struct kfd_obj *obj, *mr = NULL;
	struct kfd_buf *buf;

	obj = kfd_get(client, iov->buf, KFD_CLASS(KFD_CLASS_BUF));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	buf = container_of(obj, struct kfd_buf, obj);
	if (iov->offset > buf->len || iov->len > buf->len - iov->offset) {
		kfd_put(obj);
		return -EINVAL;
	}
	if (iov->mr) {
		mr = kfd_get(client, iov->mr, KFD_CLASS(KFI_CLASS_MR));
		if (IS_ERR(mr)) {
			kfd_put(obj);
			return PTR_ERR(mr);
		}
	}
	vec->kvec[vec->n].iov_base = buf->addr + iov->offset;
	vec->kvec[vec->n].iov_len = iov->len;
	vec->desc[vec->n] = mr ? kfi_mr_desc(kfd_mr_of(mr)) : NULL;
	vec->buf[vec->n] = buf;
	vec->mr[vec->n] = mr;
	return 0;
}

/* One allocation for the four arrays. */
static int kfd_vec_alloc(struct kfd_vec *vec, unsigned int count)
{
	const size_t each = sizeof(*vec->kvec) + sizeof(*vec->desc) +
			    sizeof(*vec->buf) + sizeof(*vec->mr);

	vec->n = 0;
	vec->kvec = kmalloc_array(count, each, GFP_KERNEL_ACCOUNT);
	if (!vec->kvec)
		return -ENOMEM;
	vec->desc = (void **)(vec->kvec + count);
	vec->buf = (struct kfd_buf **)(vec->desc + count);
	vec->mr = (struct kfd_obj **)(vec->buf + count);
	return 0;
}

/**
 * kfd_vec_get() - read what pieces a call names, and look them up
 * @client: whose
 * @vec: set to the pieces, until kfd_vec_put()
 * @uaddr: of an array of struct kfab_iov
 * @count: its elements
 *
 * Return: 0, -EINVAL (too many, beyond a buffer's end, another class), -EBADF,
 * -EFAULT, -ENOMEM, -EINTR.
 */
int kfd_vec_get(struct kfd_client *client, struct kfd_vec *vec, u64 uaddr,
		u32 count)
{
	const struct kfab_iov __user *uiov = u64_to_user_ptr(uaddr);
	struct kfab_iov iov;
	int ret;

	if (count > KFAB_IOV_MAX)
		return -EINVAL;
	ret = kfd_vec_alloc(vec, count ?: 1);
	if (ret)
		return ret;
	while (vec->n < count) {
		if (copy_from_user(&iov, &uiov[vec->n], sizeof(iov)))
			ret = -EFAULT;
		else
			ret = kfd_vec_add(client, vec, &iov);
		if (ret) {
			kfd_vec_put(vec);
			return ret;
		}
		vec->n++;
	}
	return 0;
}

/**
 * kfd_mr_release_bufs() - let the buffers of a region be closed
 * @mr: closed, or never opened
 */
void kfd_mr_release_bufs(struct kfd_mr *mr)
{
	while (mr->nbufs)
		kfd_put(&mr->bufs[--mr->nbufs]->obj);
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
	/* Of completions at the target of RMA: so not an object of ours. */
	ret = kfi_mr_regv(kfd_domain_of(domain), vec->kvec, vec->n, arg->access,
			  arg->offset, arg->requested_key, arg->mr_flags, &mr,
			  kfd_user_context(arg->context));
	if (ret)
		return ret;
	region->obj.fid = &mr->fid;
	/* From now on the buffers are the region's to let go, once it is closed. */
	region->nbufs = vec->n;
	vec->n = 0;
	/* A provider that addresses memory by our addresses is not for users. */
	if (mr->iova == (uintptr_t)vec->kvec[0].iov_base)
		return -EOPNOTSUPP;
	arg->out_key = kfi_mr_key(mr);
	arg->out_iova = mr->iova;
	arg->out_handle = region->obj.id;
	arg->out_id = kfi_fid_id(region->obj.fid);
	return 0;
}

/* KFAB_IOC_MR_REG */
long kfd_mr_reg(struct kfd_call *call)
{
	struct kfab_mr_reg *arg = call->arg;
	struct kfd_obj *domain, *obj;
	struct kfd_vec vec;
	int ret;

	domain = kfd_pin(call, arg->domain, KFD_CLASS(KFI_CLASS_DOMAIN));
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	obj = kfd_open_begin(call, KFI_CLASS_MR);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	ret = kfd_vec_get(call->client, &vec, arg->iov, arg->iov_count);
	if (ret)
		return ret;
	ret = kfd_mr_open(arg, domain, container_of(obj, struct kfd_mr, obj), &vec);
	kfd_vec_put(&vec);
	return ret;
}

/**
 * kfd_vec_hold() - keep the memory of pieces as long as an endpoint lives
 * @ep: they are about to be posted there; @ep->sem is held
 * @vec: the pieces
 *
 * Return: 0 or -ENOMEM.
 */
int kfd_vec_hold(struct kfd_ep *ep, const struct kfd_vec *vec)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; !ret && i < vec->n; i++)
		ret = kfd_buf_hold(ep, vec->buf[i]);
	return ret;
}

/**
 * kfd_post() - post with the endpoint kept from being altered
 * @ep: the endpoint
 * @vec: the pieces
 * @hold: the buffers outlive the operation; false: the provider promises to
 *	  have read them when it returns
 * @post: does it
 * @arg: for @post
 *
 * Return: what @post returned, -EINTR or -ENOMEM.
 */
long kfd_post(struct kfd_ep *ep, const struct kfd_vec *vec, bool hold,
	      kfd_post_fn post, const void *arg)
{
	long ret = 0;

	if (down_read_interruptible(&ep->sem))
		return -EINTR;
	if (hold)
		ret = kfd_vec_hold(ep, vec);
	if (!ret)
		ret = post(kfd_ep_of(&ep->obj), vec, arg);
	up_read(&ep->sem);
	return ret;
}

static struct kfi_msg kfd_msg_of(const struct kfab_msg *arg,
				 const struct kfd_vec *vec)
{
	return (struct kfi_msg) {
		.type = KFI_KVEC,
		.msg_iov = vec->kvec,
		.desc = vec->desc,
		.iov_count = vec->n,
		.addr = arg->addr,
		.context = kfd_user_context(arg->context),
		.data = arg->data,
	};
}

static ssize_t kfd_post_recv(struct kfid_ep *ep, const struct kfd_vec *vec,
			     const void *p)
{
	const struct kfab_msg *arg = p;
	const struct kfi_msg msg = kfd_msg_of(arg, vec);

	if (!KFD_HAS(ep->msg, recvmsg))
		return -EOPNOTSUPP;
	return kfi_recvmsg(ep, &msg, arg->op_flags);
}

static ssize_t kfd_post_send(struct kfid_ep *ep, const struct kfd_vec *vec,
			     const void *p)
{
	const struct kfab_msg *arg = p;
	const struct kfi_msg msg = kfd_msg_of(arg, vec);

	if (!KFD_HAS(ep->msg, sendmsg))
		return -EOPNOTSUPP;
	return kfi_sendmsg(ep, &msg, arg->op_flags);
}

static ssize_t kfd_post_inject(struct kfid_ep *ep, const struct kfd_vec *vec,
			       const void *p)
{
	const struct kfab_msg *arg = p;
	const void *buf = vec->n ? vec->kvec[0].iov_base : NULL;
	const size_t len = vec->n ? vec->kvec[0].iov_len : 0;

	if (arg->op_flags & KFI_REMOTE_CQ_DATA) {
		if (!KFD_HAS(ep->msg, injectdata))
			return -EOPNOTSUPP;
		return kfi_injectdata(ep, buf, len, arg->data, arg->addr);
	}
	if (!KFD_HAS(ep->msg, inject))
		return -EOPNOTSUPP;
	return kfi_inject(ep, buf, len, arg->addr);
}

static long kfd_msg(struct kfd_call *call, u32 classes, bool hold,
		    kfd_post_fn post)
{
	struct kfab_msg *arg = call->arg;
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

/* KFAB_IOC_RECV */
long kfd_recv(struct kfd_call *call)
{
	return kfd_msg(call, KFD_RECEIVERS, true, kfd_post_recv);
}

/* KFAB_IOC_SEND */
long kfd_send(struct kfd_call *call)
{
	struct kfab_msg *arg = call->arg;

	if (!(arg->flags & KFAB_POST_INJECT))
		return kfd_msg(call, KFD_SENDERS, true, kfd_post_send);
	if (arg->iov_count > 1 || (arg->op_flags & ~KFI_REMOTE_CQ_DATA))
		return -EINVAL;
	return kfd_msg(call, KFD_SENDERS, false, kfd_post_inject);
}

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
					 const struct kfd_vec *vec)
{
	return (struct kfi_msg_rma) {
		.type = KFI_KVEC,
		.msg_iov = vec->kvec,
		.desc = vec->desc,
		.iov_count = vec->n,
		.addr = rma->arg->addr,
		.rma_iov = rma->iov,
		.rma_iov_count = rma->arg->rma_iov_count,
		.context = kfd_user_context(rma->arg->context),
		.data = rma->arg->data,
	};
}

static ssize_t kfd_post_read(struct kfid_ep *ep, const struct kfd_vec *vec,
			     const void *p)
{
	const struct kfd_rma *rma = p;
	const struct kfi_msg_rma msg = kfd_msg_rma_of(rma, vec);

	if (!KFD_HAS(ep->rma, readmsg))
		return -EOPNOTSUPP;
	return kfi_readmsg(ep, &msg, rma->arg->op_flags);
}

static ssize_t kfd_post_write(struct kfid_ep *ep, const struct kfd_vec *vec,
			      const void *p)
{
	const struct kfd_rma *rma = p;
	const struct kfi_msg_rma msg = kfd_msg_rma_of(rma, vec);

	if (!KFD_HAS(ep->rma, writemsg))
		return -EOPNOTSUPP;
	return kfi_writemsg(ep, &msg, rma->arg->op_flags);
}

static ssize_t kfd_post_inject_write(struct kfid_ep *ep,
				     const struct kfd_vec *vec, const void *p)
{
	const struct kfd_rma *rma = p;
	const struct kfab_rma *arg = rma->arg;
	const void *buf = vec->n ? vec->kvec[0].iov_base : NULL;
	const size_t len = vec->n ? vec->kvec[0].iov_len : 0;

	if (rma->iov->len != len)
		return -EINVAL;
	if (arg->op_flags & KFI_REMOTE_CQ_DATA) {
		if (!KFD_HAS(ep->rma, injectdata))
			return -EOPNOTSUPP;
		return kfi_inject_writedata(ep, buf, len, arg->data, arg->addr,
					    rma->iov->addr, rma->iov->key);
	}
	if (!KFD_HAS(ep->rma, inject))
		return -EOPNOTSUPP;
	return kfi_inject_write(ep, buf, len, arg->addr, rma->iov->addr,
				rma->iov->key);
}

static struct kfi_rma_iov *kfd_rma_iov_get(u64 uaddr, u32 count)
{
	const struct kfab_rma_iov __user *from = u64_to_user_ptr(uaddr);

	/* The two are the same, see abi.c. */
	return memdup_user(from, count * sizeof(*from));
}

static long kfd_rma(struct kfd_call *call, bool hold, kfd_post_fn post)
{
	struct kfab_rma *arg = call->arg;
	struct kfd_rma rma = { .arg = arg };
	struct kfd_obj *obj;
	struct kfd_vec vec;
	long ret;

	if (!arg->rma_iov_count || arg->rma_iov_count > KFAB_IOV_MAX)
		return -EINVAL;
	obj = kfd_pin(call, arg->ep, KFD_SENDERS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	rma.iov = kfd_rma_iov_get(arg->rma_iov, arg->rma_iov_count);
	if (IS_ERR(rma.iov))
		return PTR_ERR(rma.iov);
	ret = kfd_vec_get(call->client, &vec, arg->iov, arg->iov_count);
	if (!ret) {
		ret = kfd_post(container_of(obj, struct kfd_ep, obj), &vec, hold,
			       post, &rma);
		kfd_vec_put(&vec);
	}
	kfree(rma.iov);
	return ret;
}

/* KFAB_IOC_READ */
long kfd_read(struct kfd_call *call)
{
	return kfd_rma(call, true, kfd_post_read);
}

/* KFAB_IOC_WRITE */
long kfd_write(struct kfd_call *call)
{
	struct kfab_rma *arg = call->arg;

	if (!(arg->flags & KFAB_POST_INJECT))
		return kfd_rma(call, true, kfd_post_write);
	if (arg->iov_count > 1 || arg->rma_iov_count != 1 ||
	    (arg->op_flags & ~KFI_REMOTE_CQ_DATA))
		return -EINVAL;
	return kfd_rma(call, false, kfd_post_inject_write);
}
