// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Buffers: from the pieces that a ULP describes to the elements of a work request.
 *
 * Kernel virtual addresses may be of the direct map or of vmalloc. A vmalloc area is
 * contiguous in the CPU's page tables only, so it is walked page by page, and pages
 * that happen to be neighbours become one run. Memory without a registration is mapped
 * for each operation and unmapped by its completion handler; until then the device
 * owns it.
 */
#include <linux/highmem.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "kfi_verbs.h"

static size_t kfv_piece_len(const struct kfv_vec *vec, size_t i)
{
	return vec->type == KFI_KVEC ? vec->kvec[i].iov_len :
				       vec->bvec[i].bv_len;
}

/**
 * kfv_vec_len() - check a buffer and add up its length
 * @vec: the buffer
 *
 * Context: any.
 * Return: bytes; -EINVAL for a type that does not exist, no array or more
 * bytes than can be counted; -ENOSYS for scatterlists.
 */
ssize_t kfv_vec_len(const struct kfv_vec *vec)
{
	size_t i, sum = 0;

	if (vec->type == KFI_SGL)
		return -KFI_ENOSYS;
	if (vec->type != KFI_KVEC && vec->type != KFI_BVEC)
		return kfv_refuse(-EINVAL, "no such type of memory");
	if (vec->count && !vec->kvec)
		return kfv_refuse(-EINVAL, "no array of pieces");
	for (i = 0; i < vec->count; i++) {
		if (check_add_overflow(sum, kfv_piece_len(vec, i), &sum) ||
		    sum > SSIZE_MAX)
			return kfv_refuse(-EINVAL, "more bytes than can be counted");
	}
	return sum;
}

/* A piece may span pages, each of which may need its own mapping. */
static void kfv_copy_bvec(void *dst, const struct bio_vec *bv)
{
	size_t done = 0;

	while (done < bv->bv_len) {
		size_t at = bv->bv_offset + done;
		size_t n = min_t(size_t, bv->bv_len - done,
				 PAGE_SIZE - offset_in_page(at));

		memcpy_from_page(dst + done, bv->bv_page + (at >> PAGE_SHIFT),
				 offset_in_page(at), n);
		done += n;
	}
}

/**
 * kfv_vec_copy() - copy a buffer
 * @dst: room for all of it
 * @vec: the buffer, checked by kfv_vec_len()
 *
 * Context: any.
 */
void kfv_vec_copy(void *dst, const struct kfv_vec *vec)
{
	size_t i;

	for (i = 0; i < vec->count; i++) {
		if (vec->type == KFI_KVEC)
			memcpy(dst, vec->kvec[i].iov_base,
			       vec->kvec[i].iov_len);
		else
			kfv_copy_bvec(dst, &vec->bvec[i]);
		dst += kfv_piece_len(vec, i);
	}
}

/*
 * How many of @len bytes at the vmalloc address @addr are physically contiguous; 0 if
 * nothing is mapped there.
 */
static size_t kfv_vmalloc_run(const void *addr, size_t len, struct page **page)
{
	size_t run = min_t(size_t, len, PAGE_SIZE - offset_in_page(addr));
	unsigned long pfn;

	*page = vmalloc_to_page(addr);
	if (!*page)
		return 0;
	pfn = page_to_pfn(*page);
	while (run < len) {
		struct page *next = vmalloc_to_page(addr + run);

		if (!next || page_to_pfn(next) != ++pfn)
			break;
		run += min_t(size_t, len - run, PAGE_SIZE);
	}
	return run;
}

static int kfv_walk_kvec(const struct kvec *kv, kfv_walk_fn fn, void *arg)
{
	const void *addr = kv->iov_base;
	size_t len = kv->iov_len;
	struct page *page;
	size_t run;
	int err;

	while (len) {
		if (is_vmalloc_addr(addr)) {
			run = kfv_vmalloc_run(addr, len, &page);
		} else if (virt_addr_valid(addr) &&
			   virt_addr_valid(addr + len - 1)) {
			page = virt_to_page(addr);
			run = len;
		} else {
			run = 0;
		}
		if (!run)
			return kfv_refuse(-EINVAL,
					  "no direct-map or vmalloc memory");
		err = fn(arg, page, offset_in_page(addr), run);
		if (err)
			return err;
		addr += run;
		len -= run;
	}
	return 0;
}

/* The pages of a bio_vec follow one another: it is one run. */
static int kfv_walk_piece(const struct kfv_vec *vec, size_t i, kfv_walk_fn fn,
			  void *arg)
{
	const struct bio_vec *bv;

	if (vec->type == KFI_KVEC)
		return kfv_walk_kvec(&vec->kvec[i], fn, arg);
	bv = &vec->bvec[i];
	if (!bv->bv_len)
		return 0;
	return fn(arg, bv->bv_page + (bv->bv_offset >> PAGE_SHIFT),
		  offset_in_page(bv->bv_offset), bv->bv_len);
}

/**
 * kfv_vec_walk() - visit the memory of a buffer
 * @vec: the buffer, checked by kfv_vec_len()
 * @fn: called for each run of contiguous memory, in order
 * @arg: for @fn
 *
 * Context: any.
 * Return: 0, -EINVAL for an address that is not the kernel's, or what @fn
 * returned.
 */
int kfv_vec_walk(const struct kfv_vec *vec, kfv_walk_fn fn, void *arg)
{
	size_t i;
	int err;

	for (i = 0; i < vec->count; i++) {
		err = kfv_walk_piece(vec, i, fn, arg);
		if (err)
			return err;
	}
	return 0;
}

/* Only operations of the send queue have room for a copy. */
static unsigned int kfv_op_max_sge(const struct kfv_op *op)
{
	return op->bounce ? op->conn->tx.max_sge : op->conn->rx.max_sge;
}

/*
 * The key is that of the protection domain: a device without one of its own gets an
 * internal region there (__ib_alloc_pd() in drivers/infiniband/core/verbs.c).
 */
static int kfv_op_add_run(void *arg, struct page *page, unsigned int offset,
			  size_t len)
{
	struct kfv_op *op = arg;
	struct kfv_pd *pd = op->conn->pd;
	struct ib_sge *sge = &op->sge[op->num_sge];
	u64 addr;

	if (op->num_sge == kfv_op_max_sge(op))
		return kfv_refuse(-EMSGSIZE, "memory in too many pieces");
	addr = ib_dma_map_page(pd->dev->ib, page, offset, len, op->dir);
	if (ib_dma_mapping_error(pd->dev->ib, addr))
		return -ENOMEM;
	sge->addr = addr;
	sge->length = len;
	sge->lkey = pd->ib->local_dma_lkey;
	op->mapped |= BIT(op->num_sge++);
	return 0;
}

/*
 * A registered piece is one element, however scattered it is. It was mapped when it was
 * registered, so that the completion handler has nothing to unmap.
 */
static int kfv_op_add_desc(struct kfv_op *op, const struct kvec *kv,
			   const struct kfv_mr *mr)
{
	struct ib_sge *sge = &op->sge[op->num_sge];
	int err;

	if (mr->domain != op->conn->ep->domain)
		return kfv_refuse(-KFI_EDOMAIN, "a descriptor of another domain");
	if (!kv->iov_len)
		return 0;
	if (op->num_sge == kfv_op_max_sge(op))
		return kfv_refuse(-EMSGSIZE, "memory in too many pieces");
	err = kfv_mr_locate(mr, kv->iov_base, kv->iov_len, &sge->addr);
	if (err)
		return err;
	sge->length = kv->iov_len;
	sge->lkey = mr->lkey;
	op->num_sge++;
	return 0;
}

/**
 * kfv_op_map() - give an operation its buffer
 * @op: the operation, with its direction set
 * @vec: the buffer, checked by kfv_vec_len()
 *
 * After an error nothing stays mapped.
 *
 * Context: any; the caller owns @op and is in a read section of kfv_post_srcu.
 * Return: 0; -EINVAL for memory that is not the kernel's or not in the region
 * that its descriptor names; -EMSGSIZE if unregistered memory is too scattered
 * for one work request; -KFI_EDOMAIN; -ENOMEM.
 */
int kfv_op_map(struct kfv_op *op, const struct kfv_vec *vec)
{
	size_t i;
	int err = 0;

	lockdep_assert(srcu_read_lock_held(&kfv_post_srcu));
	for (i = 0; i < vec->count && !err; i++) {
		if (vec->type == KFI_KVEC && vec->desc && vec->desc[i])
			err = kfv_op_add_desc(op, &vec->kvec[i], vec->desc[i]);
		else
			err = kfv_walk_piece(vec, i, kfv_op_add_run, op);
	}
	if (err)
		kfv_op_unmap(op);
	return err;
}

/**
 * kfv_op_bounce() - make an operation's own room its buffer
 * @op: an operation of the send queue, with its direction set
 * @len: bytes from the start of that room
 *
 * Context: any; the caller owns @op and is in a read section of kfv_post_srcu.
 * Return: 0 or -ENOMEM.
 */
int kfv_op_bounce(struct kfv_op *op, size_t len)
{
	lockdep_assert(srcu_read_lock_held(&kfv_post_srcu));
	return kfv_op_add_run(op, virt_to_page(op->bounce),
			      offset_in_page(op->bounce), len);
}

/**
 * kfv_op_copy() - give an operation a copy of a buffer
 * @op: an operation of the send queue, with its direction set
 * @vec: the buffer, which the ULP may use again when this returns
 * @len: its length, at most KFV_INJECT_SIZE
 *
 * Context: any; the caller owns @op and is in a read section of kfv_post_srcu.
 * Return: 0 or -ENOMEM.
 */
int kfv_op_copy(struct kfv_op *op, const struct kfv_vec *vec, size_t len)
{
	if (!len)
		return 0;
	kfv_vec_copy(op->bounce, vec);
	return kfv_op_bounce(op, len);
}

/**
 * kfv_op_unmap() - take the buffer of an operation back from the device
 * @op: the operation; not posted, or completed
 *
 * Context: any. The protection domain of the connection keeps the device.
 */
void kfv_op_unmap(struct kfv_op *op)
{
	struct ib_device *ib = op->conn->pd->dev->ib;
	unsigned int i;

	for (i = 0; i < op->num_sge; i++)
		if (op->mapped & BIT(i))
			ib_dma_unmap_page(ib, op->sge[i].addr,
					  op->sge[i].length, op->dir);
	op->mapped = 0;
	op->num_sge = 0;
}
