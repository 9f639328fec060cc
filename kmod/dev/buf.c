// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Message buffers: kernel memory that the user maps. It is zeroed, and physically
 * contiguous so that any piece of a buffer is one element of a vector.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "kfd.h"

/* In the offset for mmap() the handle is above the bits of the largest length. */
#define KFD_BUF_SHIFT ilog2(KFAB_BUF_MAX)

static struct kfd_buf *kfd_buf_of(struct kfd_obj *obj)
{
	return container_of(obj, struct kfd_buf, obj);
}

/* Charge memory to the client. Return: 0, or -ENOBUFS past the limit. */
static int kfd_charge(struct kfd_client *client, size_t bytes)
{
	int ret = 0;

	xa_lock(&client->objects);
	if (client->bytes + bytes > READ_ONCE(kfd_max_bytes))
		ret = -ENOBUFS;
	else
		client->bytes += bytes;
	xa_unlock(&client->objects);
	return ret;
}

static void kfd_uncharge(struct kfd_client *client, size_t bytes)
{
	xa_lock(&client->objects);
	client->bytes -= bytes;
	xa_unlock(&client->objects);
}

/**
 * kfd_buf_put() - drop one of the references that keep the memory
 * @buf: the buffer, which may be freed
 *
 * Context: Process; does not sleep. Takes the client's xa_lock.
 */
void kfd_buf_put(struct kfd_buf *buf)
{
	if (!refcount_dec_and_test(&buf->refs))
		return;
	if (buf->addr) {
		free_pages_exact(buf->addr, buf->len);
		kfd_uncharge(buf->obj.client, buf->len);
	}
	kfree(buf);
}

static int kfd_buf_fill(struct kfd_buf *buf, size_t len)
{
	int ret = kfd_charge(buf->obj.client, len);

	if (ret)
		return ret;
	buf->addr = alloc_pages_exact(len, GFP_KERNEL_ACCOUNT | __GFP_ZERO |
					   __GFP_NOWARN);
	if (!buf->addr) {
		kfd_uncharge(buf->obj.client, len);
		return -ENOMEM;
	}
	buf->len = len;
	return 0;
}

/**
 * kfd_buf_alloc() - KFAB_IOC_BUF_ALLOC
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_buf_alloc.
 */
long kfd_buf_alloc(struct kfd_call *call)
{
	struct kfab_buf_alloc *arg = call->arg;
	struct kfd_obj *obj;
	int ret;

	if (!arg->length || arg->length > KFAB_BUF_MAX)
		return -EINVAL;
	obj = kfd_open_begin(call, KFD_CLASS_BUF, 0);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	refcount_set(&kfd_buf_of(obj)->refs, 1);
	ret = kfd_buf_fill(kfd_buf_of(obj), PAGE_ALIGN(arg->length));
	if (ret)
		return ret;
	arg->out_handle = obj->id;
	arg->out_offset = (u64)obj->id << KFD_BUF_SHIFT;
	return 0;
}

/**
 * kfd_buf_hold() - keep a buffer's memory until an endpoint is closed
 * @ep: the endpoint that it is about to be posted on
 * @buf: the buffer, pinned by the call in progress
 *
 * Context: Process, may sleep. The caller holds @ep->sem.
 * Return: 0 or -ENOMEM.
 */
int kfd_buf_hold(struct kfd_ep *ep, struct kfd_buf *buf)
{
	int ret;

	lockdep_assert_held(&ep->sem);
	if (xa_load(&ep->bufs, buf->obj.id))
		return 0;
	refcount_inc(&buf->refs);
	ret = xa_insert(&ep->bufs, buf->obj.id, buf, GFP_KERNEL_ACCOUNT);
	if (ret)
		kfd_buf_put(buf);
	/* -EBUSY: another thread has just inserted it. */
	return ret == -EBUSY ? 0 : ret;
}

/**
 * kfd_ep_release_bufs() - undo every kfd_buf_hold() of an endpoint
 * @ep: the endpoint, closed
 *
 * Context: Process.
 */
void kfd_ep_release_bufs(struct kfd_ep *ep)
{
	struct kfd_buf *buf;
	unsigned long id;

	xa_for_each(&ep->bufs, id, buf)
		kfd_buf_put(buf);
	xa_destroy(&ep->bufs);
}

/**
 * kfd_buf_find() - translate a kernel address to a buffer and an offset
 * @client: the client
 * @addr: the address, in one of the client's buffers or not
 * @offset: set to the offset within the buffer
 *
 * Context: Process; does not sleep. Takes the client's xa_lock.
 * Return: the buffer's handle; 0 if the address is in no buffer that is open.
 */
u32 kfd_buf_find(struct kfd_client *client, const void *addr, u64 *offset)
{
	struct kfd_obj *obj;
	unsigned long id;
	u32 found = 0;

	*offset = 0;
	if (!addr)
		return 0;
	xa_lock(&client->objects);
	xa_for_each(&client->objects, id, obj) {
		struct kfd_buf *buf = kfd_buf_of(obj);

		if (obj->fclass != KFD_CLASS_BUF || addr < buf->addr ||
		    addr >= buf->addr + buf->len)
			continue;
		*offset = addr - buf->addr;
		found = id;
		break;
	}
	xa_unlock(&client->objects);
	return found;
}

/* A mapping was split or inherited. */
static void kfd_vm_open(struct vm_area_struct *vma)
{
	struct kfd_buf *buf = vma->vm_private_data;

	refcount_inc(&buf->refs);
}

static void kfd_vm_close(struct vm_area_struct *vma)
{
	kfd_buf_put(vma->vm_private_data);
}

static vm_fault_t kfd_vm_fault(struct vm_fault *vmf)
{
	struct kfd_buf *buf = vmf->vma->vm_private_data;
	const u64 base = (u64)buf->obj.id << KFD_BUF_SHIFT;
	const u64 offset = ((u64)vmf->pgoff << PAGE_SHIFT) - base;

	/* mremap() can make a mapping longer than the buffer. */
	if (offset >= buf->len)
		return VM_FAULT_SIGBUS;
	vmf->page = virt_to_page(buf->addr + offset);
	get_page(vmf->page);
	return 0;
}

static const struct vm_operations_struct kfd_vm_ops = {
	.open = kfd_vm_open,
	.close = kfd_vm_close,
	.fault = kfd_vm_fault,
};

/**
 * kfd_mmap() - map a buffer, or a part of one
 * @filp: the open device
 * @vma: its offset is the buffer's out_offset, or up to the buffer's length more
 *
 * Context: Process. The caller holds mmap_lock. A close may wait for a call that faults
 * and takes mmap_lock, so this function must not wait for a close.
 * Return: 0; -EINVAL for a private mapping, a mapping that goes beyond the
 * buffer, or an offset of an object that is no buffer; -EBADF for an offset of
 * no handle.
 */
int kfd_mmap(struct file *filp, struct vm_area_struct *vma)
{
	const u64 start = (u64)vma->vm_pgoff << PAGE_SHIFT;
	const u64 offset = start & (KFAB_BUF_MAX - 1);
	struct kfd_client *client = filp->private_data;
	struct kfd_obj *obj;
	struct kfd_buf *buf;
	int ret = 0;

	/* A private mapping would show a copy, not the messages that arrive. */
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (start >> KFD_BUF_SHIFT > U32_MAX)
		return -EBADF;
	obj = kfd_get(client, start >> KFD_BUF_SHIFT, KFD_CLASS(KFD_CLASS_BUF),
		      KFD_NOWAIT);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	buf = kfd_buf_of(obj);
	if (offset + (vma->vm_end - vma->vm_start) > buf->len) {
		ret = -EINVAL;
	} else {
		refcount_inc(&buf->refs);
		vma->vm_private_data = buf;
		vma->vm_ops = &kfd_vm_ops;
	}
	kfd_put(obj);
	return ret;
}
