// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Buffers of RDM endpoints: description, access by the CPU, and mapping for
 * DMA.
 *
 * A buffer outlives the call that describes it, so the description is copied
 * (kfr_buf_init()); the memory is the ULP's, and must stay valid until the
 * operation is reported. The CPU copies short data from or to any part; for
 * RDMA, only the part that an operation needs is mapped, and only for its time
 * (kfr_map_make() to kfr_map_end()).
 *
 * Nothing here locks: the owner of the containing structure calls.
 */
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uio.h>
#include <linux/vmalloc.h>

#include "rdm.h"

/* Checks both ends only: a piece lies within one allocation. */
static bool kfr_kvec_ok(const struct kvec *kv)
{
	const void *first = kv->iov_base, *last = first + kv->iov_len - 1;

	if (!kv->iov_len)
		return true;
	if (is_vmalloc_addr(first))
		return is_vmalloc_addr(last) && vmalloc_to_page(first) &&
		       vmalloc_to_page(last);
	return virt_addr_valid(first) && virt_addr_valid(last);
}

/* Only the first piece may begin, and only the last may end, within a page. */
static bool kfr_bvec_ok(const struct kfr_buf *buf)
{
	const struct bio_vec *bv = buf->bvec;
	unsigned int i;

	for (i = 0; i < buf->count; i++) {
		if (!bv[i].bv_page && bv[i].bv_len)
			return false;
		if (i && offset_in_page(bv[i].bv_offset))
			return false;
		if (i + 1 < buf->count &&
		    offset_in_page(bv[i].bv_offset + bv[i].bv_len))
			return false;
	}
	return true;
}

static int kfr_buf_check(struct kfr_buf *buf)
{
	struct kfv_vec vec = {
		.type = buf->type,
		.kvec = buf->kvec,
		.count = buf->count,
	};
	ssize_t len = kfv_vec_len(&vec);
	unsigned int i;

	if (len < 0)
		return len;
	buf->len = len;
	if (buf->type == KFI_BVEC)
		return kfr_bvec_ok(buf) ? 0 :
			kfv_refuse(-EINVAL, "pages with holes in between");
	for (i = 0; i < buf->count; i++)
		if (!kfr_kvec_ok(&buf->kvec[i]))
			return kfv_refuse(-EINVAL,
					  "no direct-map or vmalloc memory");
	return 0;
}

/* A scatterlist that the ULP has mapped; its pages are used, not its mapping. */
static int kfr_take_sgl(struct kfr_buf *buf, const struct scatterlist *sgl)
{
	struct scatterlist *sg = (struct scatterlist *)sgl;
	unsigned int i;

	buf->type = KFI_BVEC;
	for (i = 0; i < buf->count; i++, sg = sg_next(sg)) {
		if (!sg || (sg->length && !sg_dma_address(sg)))
			return kfv_refuse(-EINVAL,
					  "a scatterlist that is not mapped");
		buf->bvec[i].bv_page = sg_page(sg);
		buf->bvec[i].bv_offset = sg->offset;
		buf->bvec[i].bv_len = sg->length;
	}
	return 0;
}

static int kfr_take_pieces(struct kfr_buf *buf, enum kfi_iov_type type,
			   const void *pieces)
{
	if (type == KFI_SGL)
		return kfr_take_sgl(buf, pieces);
	buf->type = type;
	/* Both kinds are of the same size. */
	BUILD_BUG_ON(sizeof(struct kvec) != sizeof(struct bio_vec));
	memcpy(buf->pieces, pieces, buf->count * sizeof(struct kvec));
	return 0;
}

/**
 * kfr_buf_init() - copy the description of a buffer
 * @buf: out; kfr_buf_fini() frees what it allocates
 * @type: type of the pieces
 * @pieces: array of kvec or bio_vec, or a scatterlist
 * @count: number of pieces
 * @gfp: for more than KFR_IOV_INLINE pieces
 *
 * Context: any, if @gfp does not sleep.
 * Return: 0; -EINVAL: unknown type, no array, too many pieces, memory that is
 * not the kernel's, pages with holes in between, a scatterlist that is not
 * mapped; -EAGAIN: no memory now.
 */
int kfr_buf_init(struct kfr_buf *buf, enum kfi_iov_type type,
		 const void *pieces, size_t count, gfp_t gfp)
{
	int err;

	if (type < KFI_KVEC || type > KFI_SGL || count > KFR_IOV_LIMIT ||
	    (count && !pieces))
		return kfv_refuse(-EINVAL,
				  "no such type, no array, or too many pieces");
	buf->count = count;
	buf->type = KFI_KVEC;
	buf->len = 0;
	buf->pieces = &buf->room;
	if (!count)
		return 0;
	if (count > KFR_IOV_INLINE) {
		buf->pieces = kmalloc_array(count, sizeof(struct kvec),
					    gfp | __GFP_NOWARN);
		if (!buf->pieces)
			return -EAGAIN;
	}
	err = kfr_take_pieces(buf, type, pieces);
	if (!err)
		err = kfr_buf_check(buf);
	if (err)
		kfr_buf_fini(buf);
	return err;
}

/**
 * kfr_buf_fini() - the mirror of kfr_buf_init()
 * @buf: the description; empty afterwards, so a second call does nothing
 *
 * Context: any.
 */
void kfr_buf_fini(struct kfr_buf *buf)
{
	if (buf->pieces != &buf->room)
		kfree(buf->pieces);
	buf->pieces = &buf->room;
	buf->count = 0;
	buf->len = 0;
}

static void kfr_buf_iter(struct iov_iter *iter, const struct kfr_buf *buf,
			 unsigned int direction, size_t at)
{
	if (buf->type == KFI_KVEC)
		iov_iter_kvec(iter, direction, buf->kvec, buf->count, buf->len);
	else
		iov_iter_bvec(iter, direction, buf->bvec, buf->count, buf->len);
	iov_iter_advance(iter, at);
}

/**
 * kfr_buf_read() - copy data out of a buffer
 * @buf: the buffer
 * @at: offset in it
 * @to: out: the data
 * @len: bytes; the buffer has them
 *
 * Context: any.
 */
void kfr_buf_read(const struct kfr_buf *buf, size_t at, void *to, size_t len)
{
	struct iov_iter iter;

	if (!len)
		return;
	kfr_buf_iter(&iter, buf, WRITE, at);
	WARN_ON_ONCE(copy_from_iter(to, len, &iter) != len);
}

/**
 * kfr_buf_write() - copy data into a buffer
 * @buf: the buffer
 * @at: offset in it
 * @from: the data
 * @len: bytes; the buffer has room for them
 *
 * Context: any.
 */
void kfr_buf_write(const struct kfr_buf *buf, size_t at, const void *from,
		   size_t len)
{
	struct iov_iter iter;

	if (!len)
		return;
	kfr_buf_iter(&iter, buf, READ, at);
	WARN_ON_ONCE(copy_to_iter(from, len, &iter) != len);
}

/**
 * kfr_buf_addr() - the kernel address of a byte, for a completion entry
 * @buf: the buffer; pages must have a kernel address
 * @at: offset in it
 *
 * Context: any.
 * Return: the address, or NULL: the buffer is shorter.
 */
void *kfr_buf_addr(const struct kfr_buf *buf, size_t at)
{
	const struct bio_vec *bv = buf->bvec;
	unsigned int i;

	for (i = 0; i < buf->count; i++) {
		size_t len = buf->type == KFI_KVEC ? buf->kvec[i].iov_len :
						     bv[i].bv_len;

		if (at < len || (at == len && i + 1 == buf->count)) {
			if (buf->type == KFI_KVEC)
				return buf->kvec[i].iov_base + at;
			return page_address(bv[i].bv_page) + bv[i].bv_offset +
			       at;
		}
		at -= len;
	}
	return NULL;
}

/*
 * A walk over a part of a buffer: the first one counts contiguous runs, the
 * second one fills them into the scatterlist that was allocated in between.
 */
struct kfr_walk {
	unsigned int runs;
	struct scatterlist *sg;
};

static int kfr_walk_run(void *arg, struct page *page, unsigned int offset,
			size_t len)
{
	struct kfr_walk *walk = arg;

	walk->runs++;
	if (walk->sg) {
		sg_set_page(walk->sg, page + (offset >> PAGE_SHIFT), len,
			    offset_in_page(offset));
		walk->sg = sg_next(walk->sg);
	}
	return 0;
}

/*
 * A part of one piece. Its position is computed, which costs no time for the
 * rest.
 */
static int kfr_walk_piece(const struct kfr_buf *buf, unsigned int i, size_t at,
			  size_t len, struct kfr_walk *walk)
{
	struct kfv_vec vec = { .type = buf->type, .count = 1 };
	struct bio_vec bv;
	struct kvec kv;

	if (buf->type == KFI_KVEC) {
		kv.iov_base = buf->kvec[i].iov_base + at;
		kv.iov_len = len;
		vec.kvec = &kv;
	} else {
		at += buf->bvec[i].bv_offset;
		bv.bv_page = buf->bvec[i].bv_page + (at >> PAGE_SHIFT);
		bv.bv_offset = offset_in_page(at);
		bv.bv_len = len;
		vec.bvec = &bv;
	}
	return kfv_vec_walk(&vec, kfr_walk_run, walk);
}

/*
 * Visits only the part: the region around it may be large, and a peer decides
 * how often this runs in softirq context.
 */
static int kfr_walk_part(const struct kfr_buf *buf, size_t at, size_t len,
			 struct kfr_walk *walk)
{
	unsigned int i;
	int err = 0;

	for (i = 0; i < buf->count && len && !err; i++) {
		size_t n = buf->type == KFI_KVEC ? buf->kvec[i].iov_len :
						   buf->bvec[i].bv_len;

		if (at >= n) {
			at -= n;
			continue;
		}
		n = min(n - at, len);
		err = kfr_walk_piece(buf, i, at, n, walk);
		at = 0;
		len -= n;
	}
	return err || !len ? err : -EINVAL;
}

/**
 * kfr_map_make() - map a part of a buffer for DMA
 * @map: out; kfr_map_end() is the mirror
 * @ib: the device
 * @buf: the buffer
 * @at: offset of the part
 * @len: bytes, not 0
 * @dir: direction of the data
 *
 * Until kfr_map_end(), the memory is the device's: the CPU must not touch it.
 *
 * Context: any; does not sleep.
 * Return: 0; -EINVAL: memory that is not the kernel's; -ENOMEM.
 */
int kfr_map_make(struct kfr_map *map, struct ib_device *ib,
		 const struct kfr_buf *buf, size_t at, size_t len,
		 enum dma_data_direction dir)
{
	struct kfr_walk walk = { };
	int err;

	err = kfr_walk_part(buf, at, len, &walk);
	if (err)
		return err;
	err = sg_alloc_table(&map->sgt, walk.runs,
			     GFP_ATOMIC | __GFP_NOWARN | __GFP_ACCOUNT);
	if (err)
		return -ENOMEM;
	walk.sg = map->sgt.sgl;
	kfr_walk_part(buf, at, len, &walk);
	map->ib = ib;
	map->dir = dir;
	map->held = false;
	if (ib_dma_map_sgtable_attrs(ib, &map->sgt, dir, 0)) {
		sg_free_table(&map->sgt);
		return -ENOMEM;
	}
	map->nents = map->sgt.nents;
	map->sg = map->sgt.sgl;
	map->at = 0;
	return 0;
}

/**
 * kfr_map_hold() - keep the pages of a mapping, although their owner frees them
 * @map: the mapping; its pages have reference counts, as kfi_stop() demands
 *
 * Context: any; the caller keeps kfr_map_end() from running at the same time.
 */
void kfr_map_hold(struct kfr_map *map)
{
	struct sg_page_iter at;

	for_each_sgtable_page(&map->sgt, &at, 0)
		get_page(sg_page_iter_page(&at));
	map->held = true;
}

/**
 * kfr_map_end() - the mirror of kfr_map_make() and of kfr_map_hold()
 * @map: the mapping, which the device does not use any more
 *
 * Context: any.
 */
void kfr_map_end(struct kfr_map *map)
{
	struct sg_page_iter at;

	ib_dma_unmap_sgtable_attrs(map->ib, &map->sgt, map->dir, 0);
	if (map->held)
		for_each_sgtable_page(&map->sgt, &at, 0)
			put_page(sg_page_iter_page(&at));
	sg_free_table(&map->sgt);
}

/**
 * kfr_bounce_new() - a buffer of whole pages
 * @len: bytes
 *
 * It replaces a buffer that is too scattered to be registered. The pages are
 * zeroed, as a peer might write less than it reports.
 *
 * Context: any; does not sleep.
 * Return: the buffer, or NULL: no memory now. kfr_bounce_free() is the mirror.
 */
struct kfr_buf *kfr_bounce_new(size_t len)
{
	unsigned int n = DIV_ROUND_UP(len, PAGE_SIZE), i;
	struct kfr_buf *buf;

	buf = kzalloc(sizeof(*buf), KFR_GFP_POST);
	if (!buf)
		return NULL;
	buf->type = KFI_BVEC;
	buf->pieces = kcalloc(n, sizeof(*buf->bvec), KFR_GFP_POST);
	for (i = 0; buf->bvec && i < n; i++) {
		struct bio_vec *bv = &buf->bvec[i];

		bv->bv_page = alloc_page(KFR_GFP_POST | __GFP_ZERO);
		if (!bv->bv_page)
			break;
		bv->bv_len = min_t(size_t, len - buf->len, PAGE_SIZE);
		buf->len += bv->bv_len;
		buf->count++;
	}
	if (buf->len == len)
		return buf;
	kfr_bounce_free(buf);
	return NULL;
}

/**
 * kfr_bounce_free() - the mirror of kfr_bounce_new()
 * @bounce: the buffer, or NULL
 *
 * Context: any.
 */
void kfr_bounce_free(struct kfr_buf *bounce)
{
	unsigned int i;

	if (!bounce)
		return;
	for (i = 0; i < bounce->count; i++)
		__free_page(bounce->bvec[i].bv_page);
	kfree(bounce->pieces);
	kfree(bounce);
}
