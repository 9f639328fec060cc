// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Message buffers: kernel memory that the user maps. It is zeroed, and physically
 * contiguous so that any piece of a buffer is one element of a vector.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "../compat.h"
#include "kfd.h"

/* In the offset for mmap() the handle is above the bits of the largest length. */
#define KFD_BUF_SHIFT ilog2(KFAB_BUF_MAX)

static struct kfd_buf *kfd_buf_of(struct kfd_obj *obj)
{
	return container_of(obj, struct kfd_buf, obj);
}

/* Charge memory to the client and its user. Return: 0, or -ENOBUFS past a limit. */
static int kfd_charge(struct kfd_client *client, size_t bytes)
{
	s64 used = atomic64_read(&client->bytes);

	do {
		if (used + bytes > READ_ONCE(kfd_max_bytes))
			return -ENOBUFS;
	} while (!atomic64_try_cmpxchg(&client->bytes, &used, used + bytes));
	if (kfd_user_lock_memory(client->user, bytes))
		return 0;
	atomic64_sub(bytes, &client->bytes);
	return -ENOBUFS;
}

static void kfd_uncharge(struct kfd_client *client, size_t bytes)
{
	atomic64_sub(bytes, &client->bytes);
	kfd_user_unlock_memory(client->user, bytes);
}

/**
 * kfd_buf_hold() - keep the memory of a buffer
 * @buf: the buffer; the caller has another reference, or has looked up its handle
 *
 * Context: Any. kfd_buf_put() is its mirror.
 */
void kfd_buf_hold(struct kfd_buf *buf)
{
	refcount_inc(&buf->refs);
}

/**
 * kfd_buf_put() - drop one of the references that keep the memory
 * @buf: the buffer, which may be freed
 *
 * Context: Any; does not sleep.
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

/* So many pages in one piece are there after a compaction, which is worth the wait. */
#define KFD_BUF_GFP (GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_RETRY_MAYFAIL | \
		     __GFP_NOWARN)

static int kfd_buf_fill(struct kfd_buf *buf, size_t len)
{
	int ret = kfd_charge(buf->obj.client, len);

	if (ret)
		return ret;
	buf->addr = alloc_pages_exact(len, KFD_BUF_GFP);
	if (!buf->addr) {
		kfd_uncharge(buf->obj.client, len);
		return -ENOMEM;
	}
	buf->len = len;
	return 0;
}

/**
 * kfd_buf_open() - begin to open a buffer
 * @call: the call in progress, which shows or frees the buffer when it ends
 * @len: bytes, not 0
 * @handle: set to its handle
 * @offset: set to the offset that mmap() takes
 *
 * Context: Process, may sleep.
 * Return: the buffer, or an ERR_PTR.
 */
struct kfd_buf *kfd_buf_open(struct kfd_call *call, size_t len, u32 *handle, u64 *offset)
{
	struct kfd_obj *obj = kfd_open_begin(call, KFD_CLASS_BUF, 0);
	int ret;

	if (IS_ERR(obj))
		return ERR_CAST(obj);
	refcount_set(&kfd_buf_of(obj)->refs, 1);
	ret = kfd_buf_fill(kfd_buf_of(obj), PAGE_ALIGN(len));
	if (ret)
		return ERR_PTR(ret);
	*handle = obj->id;
	*offset = (u64)obj->id << KFD_BUF_SHIFT;
	return kfd_buf_of(obj);
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

	if (!arg->length || arg->length > KFAB_BUF_MAX)
		return -EINVAL;
	return PTR_ERR_OR_ZERO(kfd_buf_open(call, arg->length, &arg->out_handle,
					    &arg->out_offset));
}

/**
 * kfd_buf_has() - is an address in a buffer?
 * @buf: the buffer
 * @addr: the address
 *
 * Context: Any.
 * Return: true if it is.
 */
bool kfd_buf_has(const struct kfd_buf *buf, const void *addr)
{
	return addr >= buf->addr && addr < buf->addr + buf->len;
}

/**
 * kfd_buf_name() - name a place in a buffer for as long as a completion is unread
 * @buf: the buffer, which may be freed before the completion is read
 * @addr: the place
 *
 * Context: Any.
 * Return: a number for kfd_buf_named(): the offset that mmap() takes.
 */
void *kfd_buf_name(const struct kfd_buf *buf, const void *addr)
{
	static_assert(sizeof(void *) == sizeof(u64));
	return (void *)(((u64)buf->obj.id << KFD_BUF_SHIFT) + (addr - buf->addr));
}

/**
 * kfd_buf_name_id() - the handle in what kfd_buf_name() returned
 * @name: the number, or NULL
 *
 * Context: Any.
 * Return: the handle, which may be closed; 0 if @name is NULL.
 */
u32 kfd_buf_name_id(const void *name)
{
	return (u64)name >> KFD_BUF_SHIFT;
}

/**
 * kfd_buf_name_offset() - the offset in what kfd_buf_name() returned
 * @name: the number, or NULL
 *
 * Context: Any.
 * Return: bytes; 0 if @name is NULL.
 */
u64 kfd_buf_name_offset(const void *name)
{
	return (u64)name & (KFAB_BUF_MAX - 1);
}

/**
 * kfd_buf_named() - take apart what kfd_buf_name() returned
 * @client: the client
 * @name: the number, or NULL
 * @offset: set to the offset within the buffer
 *
 * Context: Process; does not sleep. Takes the client's xa_lock.
 * Return: the buffer's handle; 0 if @name is NULL, or the handle is closed.
 */
u32 kfd_buf_named(struct kfd_client *client, const void *name, u64 *offset)
{
	const u32 id = kfd_buf_name_id(name);
	struct kfd_obj *obj;

	*offset = 0;
	if (!name)
		return 0;
	xa_lock(&client->objects);
	obj = xa_load(&client->objects, id);
	xa_unlock(&client->objects);
	if (!obj)
		return 0;
	*offset = kfd_buf_name_offset(name);
	return id;
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

	if (WARN_ON_ONCE(offset >= buf->len))
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
		/* Or the kernel merges it with the mapping of the next buffer. */
		kfi_vm_flags_set(vma, VM_DONTEXPAND);
	}
	kfd_put(obj);
	return ret;
}
