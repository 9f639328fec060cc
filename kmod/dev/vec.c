// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Pieces of buffers, as calls name them. The provider gets addresses of buffers that
 * this module allocated, never an address that the user chose.
 */
#include <linux/slab.h>

#include "kfd.h"

/**
 * kfd_vec_put() - release what kfd_vec_get() looked up
 * @vec: the pieces
 *
 * Context: Process.
 */
void kfd_vec_put(struct kfd_vec *vec)
{
	while (vec->n) {
		vec->n--;
		if (vec->mr[vec->n])
			kfd_put(vec->mr[vec->n]);
		kfd_put(&vec->buf[vec->n]->obj);
	}
	if (vec->kvec != &vec->one.kvec)
		kfree(vec->kvec);
}

/* Look up one piece. On success the caller increments vec->n. */
static int kfd_vec_add(struct kfd_client *client, struct kfd_vec *vec,
		       const struct kfab_iov *iov)
{
	struct kfd_obj *obj, *mr = NULL;
	struct kfd_buf *buf;

	obj = kfd_get(client, iov->buf, KFD_CLASS(KFD_CLASS_BUF), KFD_FURTHER);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	buf = container_of(obj, struct kfd_buf, obj);
	if (iov->offset > buf->len || iov->len > buf->len - iov->offset) {
		kfd_put(obj);
		return -EINVAL;
	}
	if (iov->mr) {
		mr = kfd_get(client, iov->mr, KFD_CLASS(KFI_CLASS_MR), KFD_FURTHER);
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

/* The four arrays share one allocation. A single piece needs none. */
static int kfd_vec_alloc(struct kfd_vec *vec, unsigned int count)
{
	const size_t each = sizeof(*vec->kvec) + sizeof(*vec->desc) +
			    sizeof(*vec->buf) + sizeof(*vec->mr);

	vec->n = 0;
	if (count == 1) {
		vec->kvec = &vec->one.kvec;
		vec->desc = &vec->one.desc;
		vec->buf = &vec->one.buf;
		vec->mr = &vec->one.mr;
		return 0;
	}
	vec->kvec = kmalloc_array(count, each, GFP_KERNEL_ACCOUNT);
	if (!vec->kvec)
		return -ENOMEM;
	vec->desc = (void **)(vec->kvec + count);
	vec->buf = (struct kfd_buf **)(vec->desc + count);
	vec->mr = (struct kfd_obj **)(vec->buf + count);
	return 0;
}

/**
 * kfd_vec_get() - read an array of struct kfab_iov and look up its buffers
 * @client: the client that the handles belong to; the call has pinned another object
 * @vec: set to the pieces; they stay pinned until kfd_vec_put()
 * @uaddr: address of the array
 * @count: its elements
 *
 * Context: Process, may sleep and fault.
 * Return: 0; -EINVAL: too many pieces, a piece beyond the end of its buffer, or a
 * handle of another class; -EBADF, -EFAULT, -ENOMEM, -EINTR.
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
