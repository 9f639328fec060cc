// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Buffers: from what a ULP describes to what a device takes. Kernel virtual
 * addresses may be of the direct map or of vmalloc; the latter are contiguous
 * for nobody but the CPU, so they are mapped page by page.
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
		return -EINVAL;
	if (vec->count && !vec->kvec)
		return -EINVAL;
	for (i = 0; i < vec->count; i++) {
		if (check_add_overflow(sum, kfv_piece_len(vec, i), &sum) ||
		    sum > SSIZE_MAX)
			return -EINVAL;
	}
	return sum;
}

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

/* The caller has checked the length. */
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

/* How much of @len bytes at the vmalloc address @addr is contiguous. */
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
			return -EINVAL;
		err = fn(arg, page, offset_in_page(addr), run);
		if (err)
			return err;
		addr += run;
		len -= run;
	}
	return 0;
}

static int kfv_walk_bvec(const struct bio_vec *bv, kfv_walk_fn fn, void *arg)
{
	if (!bv->bv_len)
		return 0;
	return fn(arg, bv->bv_page + (bv->bv_offset >> PAGE_SHIFT),
		  offset_in_page(bv->bv_offset), bv->bv_len);
}

static int kfv_walk_piece(const struct kfv_vec *vec, size_t i, kfv_walk_fn fn,
			  void *arg)
{
	return vec->type == KFI_KVEC ? kfv_walk_kvec(&vec->kvec[i], fn, arg) :
				       kfv_walk_bvec(&vec->bvec[i], fn, arg);
}

/**
 * kfv_vec_walk() - visit the memory of a buffer
 * @vec: the buffer, checked by kfv_vec_len()
 * @fn: called for each stretch of contiguous memory, in order
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

static unsigned int kfv_op_max_sge(const struct kfv_op *op)
{
	return op->bounce ? op->conn->tx.max_sge : op->conn->rx.max_sge;
}

static int kfv_op_add_run(void *arg, struct page *page, unsigned int offset,
			  size_t len)
{
	struct kfv_op *op = arg;
	struct kfv_pd *pd = op->conn->pd;
	struct ib_sge *sge = &op->sge[op->num_sge];
	u64 addr;

	if (op->num_sge == kfv_op_max_sge(op))
		return -EMSGSIZE;
	addr = ib_dma_map_page(pd->dev->ib, page, offset, len, op->dir);
	if (ib_dma_mapping_error(pd->dev->ib, addr))
		return -ENOMEM;
	sge->addr = addr;
	sge->length = len;
	sge->lkey = pd->ib->local_dma_lkey;
	op->mapped |= BIT(op->num_sge++);
	return 0;
}

/* A registered piece is one element, however scattered it is. */
static int kfv_op_add_desc(struct kfv_op *op, const struct kvec *kv,
			   const struct kfv_mr *mr)
{
	struct ib_sge *sge = &op->sge[op->num_sge];
	int err;

	if (mr->domain != op->conn->ep->domain)
		return -KFI_EDOMAIN;
	if (!kv->iov_len)
		return 0;
	if (op->num_sge == kfv_op_max_sge(op))
		return -EMSGSIZE;
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
 * Context: any; the device is kept alive by the caller.
 * Return: 0; -EINVAL for memory that is not the kernel's or not in the region
 * that its descriptor names; -EMSGSIZE if unregistered memory is too scattered
 * for one work request; -KFI_EDOMAIN; -ENOMEM.
 */
int kfv_op_map(struct kfv_op *op, const struct kfv_vec *vec)
{
	size_t i;
	int err = 0;

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

/* The front of its own room is the buffer. */
int kfv_op_bounce(struct kfv_op *op, size_t len)
{
	return kfv_op_add_run(op, virt_to_page(op->bounce),
			      offset_in_page(op->bounce), len);
}

/* The same with a copy: the ULP may reuse its buffer at once. */
int kfv_op_copy(struct kfv_op *op, const struct kfv_vec *vec, size_t len)
{
	if (!len)
		return 0;
	kfv_vec_copy(op->bounce, vec);
	return kfv_op_bounce(op, len);
}

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
