// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Memory regions. A region is registered by a work request on the private queue pair
 * of its domain (pd.c), so that it needs no connection.
 *
 * The ULP owns the memory and may free it once kfi_mr_close() has returned. So the
 * close invalidates the key and waits until the device has given the region up: the work
 * item of the device half (kfv_region) deregisters and unmaps, and drops a reference
 * when it is done; the public half holds the other one.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "../compat.h"
#include "kfi_verbs.h"

#define KFV_MR_ACCESS	(KFI_SEND | KFI_RECV | KFI_READ | KFI_WRITE | \
			 KFI_REMOTE_READ | KFI_REMOTE_WRITE)

/* Two walks over the memory of a region: one measures, one fills the table. */
struct kfv_mr_walk {
	unsigned int runs;
	unsigned int pages;
	unsigned int first;	/* offset of the first byte in its page */
	unsigned int end;	/* offset after the last byte in its page */
	struct scatterlist *sg;
};

/*
 * A registration is a list of whole pages. Only the first run may begin inside a page,
 * and only the last one may end inside a page: a hole between cannot be described.
 */
static int kfv_mr_measure(void *arg, struct page *page, unsigned int offset,
			  size_t len)
{
	struct kfv_mr_walk *walk = arg;

	if (!walk->runs)
		walk->first = offset;
	else if (offset || walk->end)
		return -EINVAL;
	if (len > (size_t)KFV_MR_PAGES << PAGE_SHIFT)
		return -E2BIG;
	walk->runs++;
	walk->pages += PFN_UP(offset + len);
	walk->end = offset_in_page(offset + len);
	return walk->pages > KFV_MR_PAGES ? -E2BIG : 0;
}

static int kfv_mr_fill(void *arg, struct page *page, unsigned int offset,
		       size_t len)
{
	struct kfv_mr_walk *walk = arg;

	sg_set_page(walk->sg, page, len, offset);
	walk->sg = sg_next(walk->sg);
	return 0;
}

/* The pages of a region, in a table that the caller frees. */
static int kfv_region_list(struct kfv_region *region, const struct kfv_vec *vec,
			   struct kfv_mr_walk *walk)
{
	int err;

	err = kfv_vec_walk(vec, kfv_mr_measure, walk);
	if (err)
		return err;
	if (!walk->runs)
		return -EINVAL;
	err = sg_alloc_table(&region->sgt, walk->runs, GFP_KERNEL_ACCOUNT);
	if (err)
		return err;
	walk->sg = region->sgt.sgl;
	err = kfv_vec_walk(vec, kfv_mr_fill, walk);
	if (err)
		sg_free_table(&region->sgt);
	return err;
}

/* On success the pages are mapped for the device, in both directions. */
static int kfv_region_map(struct kfv_region *region,
			  const struct kfv_mr_walk *walk)
{
	struct ib_device *ib = region->pd->dev->ib;

	if (walk->pages > ib->attrs.max_fast_reg_page_list_len)
		return -E2BIG;
	return ib_dma_map_sgtable_attrs(ib, &region->sgt, DMA_BIDIRECTIONAL, 0);
}

static void kfv_region_unmap(struct kfv_region *region)
{
	ib_dma_unmap_sgtable_attrs(region->pd->dev->ib, &region->sgt,
				   DMA_BIDIRECTIONAL, 0);
}

/*
 * Local access is always allowed: the region is also the local buffer of reads and
 * receives.
 */
static int kfv_access(u64 access, bool atomics)
{
	int ib = IB_ACCESS_LOCAL_WRITE;

	if (access & KFI_REMOTE_READ)
		ib |= IB_ACCESS_REMOTE_READ;
	if (access & KFI_REMOTE_WRITE)
		ib |= IB_ACCESS_REMOTE_WRITE;
	/* An atomic of the device reads and writes: it needs both rights. */
	if (access & KFI_REMOTE_READ && access & KFI_REMOTE_WRITE && atomics)
		ib |= IB_ACCESS_REMOTE_ATOMIC;
	return ib;
}

/*
 * The key is new for every registration, so that a key of a previous owner of the
 * ib_mr does not fit.
 */
static int kfv_region_register(struct kfv_domain *domain,
			       struct kfv_region *region, unsigned int pages,
			       unsigned int offset, u64 access)
{
	struct ib_reg_wr wr = { .wr.opcode = IB_WR_REG_MR };
	int n;

	lockdep_assert_held(&domain->lock);
	region->ib = ib_alloc_mr(region->pd->ib, IB_MR_TYPE_MEM_REG,
				 kfi_mr_room(region->pd->dev->ib, pages));
	if (IS_ERR(region->ib))
		return PTR_ERR(region->ib);

	n = ib_map_mr_sg(region->ib, region->sgt.sgl, region->sgt.nents, NULL,
			 PAGE_SIZE);
	if (n != region->sgt.nents) {
		n = n < 0 ? n : -EINVAL;
		goto err;
	}
	/* Peers learn this address: it must not show one of the kernel's. */
	region->ib->iova = offset;
	ib_update_fast_reg_key(region->ib, ib_inc_rkey(region->ib->rkey));

	wr.mr = region->ib;
	wr.key = region->ib->rkey;
	wr.access = kfv_access(access,
			       kfv_atomic_caps(region->pd->dev->ib));
	n = kfv_pd_run(domain, &wr.wr);
	if (n)
		goto err;
	return 0;

err:
	ib_dereg_mr(region->ib);
	return n;
}

static void kfv_region_release(struct kref *ref)
{
	kfree(container_of(ref, struct kfv_region, ref));
}

/*
 * Work item. ib_dereg_mr() may wait for packets that use the region. Unmapping comes
 * after it, and @done last of what the device has: then the pages are free.
 */
static void kfv_region_destroy(struct work_struct *work)
{
	struct kfv_region *region = container_of(work, struct kfv_region, work);

	kfi_test_hook_point(KFI_HOOK_D9, region->pd->domain_id);
	ib_dereg_mr(region->ib);
	kfv_region_unmap(region);
	sg_free_table(&region->sgt);
	kfv_pd_put(region->pd);
	complete_all(&region->done);
	kref_put(&region->ref, kfv_region_release);
	module_put(THIS_MODULE);
}

/*
 * A charged allocation may be held up where the user's memory is short. So it is made
 * before the lock, which a removal of the device waits for.
 * Return: a region with the work item's reference and nothing of the device, or an
 * error pointer.
 */
static struct kfv_region *kfv_region_new(const struct kfv_vec *vec,
					 struct kfv_mr_walk *walk)
{
	struct kfv_region *region;
	int err;

	region = kzalloc(sizeof(*region), GFP_KERNEL_ACCOUNT);
	if (!region)
		return ERR_PTR(-ENOMEM);
	kref_init(&region->ref);
	init_completion(&region->done);
	INIT_WORK(&region->work, kfv_region_destroy);
	err = kfv_region_list(region, vec, walk);
	if (!err)
		return region;
	kfree(region);
	return ERR_PTR(err);
}

static void kfv_region_free(struct kfv_region *region)
{
	sg_free_table(&region->sgt);
	kfree(region);
}

/* Gives a new region what it has of the device. */
static int kfv_region_open(struct kfv_domain *domain, struct kfv_region *region,
			   const struct kfv_mr_walk *walk, u64 access)
{
	int err;

	lockdep_assert_held(&domain->lock);
	if (kfv_gone(domain->dev))
		return -ENODEV;
	region->pd = domain->pd;
	err = kfv_region_map(region, walk);
	if (err)
		return err;
	err = kfv_region_register(domain, region, walk->pages, walk->first,
				  access);
	if (err)
		kfv_region_unmap(region);
	else
		kfv_pd_get(region->pd);
	return err;
}

/*
 * From here on no packet of a peer finds the region. An earlier packet may still use
 * it. A failure is not reported: deregistering ends the access as well.
 */
static void kfv_region_invalidate(struct kfv_domain *domain,
				  struct kfv_region *region)
{
	struct ib_send_wr wr = {
		.opcode = IB_WR_LOCAL_INV,
		.ex.invalidate_rkey = region->ib->rkey,
	};

	lockdep_assert_held(&domain->lock);
	kfv_pd_run(domain, &wr);
}

/*
 * For packets that have found the region before it was invalidated. The ULP will free
 * the memory, so the wait has no limit of its own: no caller may go on with memory that
 * a device can still write. No peer takes part, since a later packet does not find the
 * region.
 */
static void kfv_region_wait(struct kfv_region *region)
{
	if (wait_for_completion_timeout(&region->done, KFV_DEREG_TIME))
		return;
	pr_warn("kfi_verbs: a device still holds a memory region that is being closed\n");
	wait_for_completion(&region->done);
}

/* The public half alone. */
static void kfv_mr_free(struct kfv_mr *mr)
{
	kfi_mr_event_fini(&mr->event, &mr->mr);
	kfi_fid_put(&mr->domain->base.domain.fid);
	kfree(mr);
}

/*
 * The wait comes after the lock is released, so that other regions of the domain can
 * be opened and closed, and a removal can go on.
 */
static int kfv_mr_close(struct kfid *fid)
{
	struct kfv_mr *mr = container_of(fid, struct kfv_mr, mr.fid);
	struct kfv_domain *domain = mr->domain;
	struct kfv_region *region = mr->region;
	int err;

	err = kfi_fid_kill(fid);
	if (err)
		return err;

	mutex_lock(&domain->lock);
	list_del(&mr->link);
	if (!mr->detached) {
		if (!kfv_gone(domain->dev))
			kfv_region_invalidate(domain, region);
		kfv_queue_work(domain->dev->regions, &region->work);
	}
	mutex_unlock(&domain->lock);

	kfv_region_wait(region);
	kref_put(&region->ref, kfv_region_release);
	kfv_mr_free(mr);
	return 0;
}

/**
 * kfv_mr_detach() - have the regions of a lost device destroyed
 * @domain: the domain
 *
 * The regions stay on the list: their close still has to drop its reference.
 *
 * Context: process; caller holds domain->lock.
 */
void kfv_mr_detach(struct kfv_domain *domain)
{
	struct kfv_mr *mr;

	lockdep_assert_held(&domain->lock);
	list_for_each_entry(mr, &domain->mrs, link) {
		if (!mr->detached)
			kfv_queue_work(domain->dev->regions,
				       &mr->region->work);
		mr->detached = true;
	}
}

/**
 * kfv_mr_locate() - where a posted buffer lies in a region
 * @mr: the region
 * @addr: first byte of the buffer, as the ULP addresses it
 * @len: bytes
 * @iova: the device's address for it
 *
 * Pieces follow one another in the device's addresses, whatever their own are.
 *
 * Context: any; the ULP keeps the region open.
 * Return: 0; -EINVAL: the buffer is not inside one piece of the region.
 */
int kfv_mr_locate(const struct kfv_mr *mr, const void *addr, size_t len,
		  u64 *iova)
{
	u64 before = mr->mr.iova;
	size_t i, at;

	for (i = 0; i < mr->count; i++) {
		at = addr - mr->iov[i].iov_base;
		if (at < mr->iov[i].iov_len && len <= mr->iov[i].iov_len - at) {
			*iova = before + at;
			return 0;
		}
		before += mr->iov[i].iov_len;
	}
	return kfv_refuse(-EINVAL, "not in the region of its descriptor");
}

static struct kfi_ops kfv_mr_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = kfv_mr_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

/*
 * The pieces are copied, since the ULP's array need not last. Regions of pages have
 * none: nothing can be posted by an address in them.
 */
static struct kfv_mr *kfv_mr_new(struct kfv_domain *domain,
				 const struct kfv_vec *vec, void *context)
{
	size_t count = vec->type == KFI_KVEC ? vec->count : 0;
	struct kfv_mr *mr;
	int err;

	mr = kzalloc(struct_size(mr, iov, count), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	if (!kfi_fid_get(&domain->base.domain.fid)) {
		kfree(mr);
		return ERR_PTR(-EINVAL);
	}
	kfi_fid_init(&mr->mr.fid, KFI_CLASS_MR, context, &kfv_mr_fid_ops);
	mr->domain = domain;
	mr->count = count;
	if (count)
		memcpy(mr->iov, vec->kvec, count * sizeof(*mr->iov));
	err = kfi_mr_event_init(&mr->event, &domain->base);
	if (err) {
		kfv_mr_free(mr);
		return ERR_PTR(err);
	}
	return mr;
}

/*
 * The public half takes its reference before the lock is released: after that a
 * removal may run the work item, which drops the other one.
 */
static void kfv_mr_attach(struct kfv_mr *mr, struct kfv_region *region)
{
	lockdep_assert_held(&mr->domain->lock);
	kref_get(&region->ref);
	mr->region = region;
	mr->lkey = region->ib->lkey;
	mr->mr.mem_desc = mr;
	mr->mr.key = region->ib->rkey;
	mr->mr.iova = region->ib->iova;
}

static int kfv_mr_open(struct kfv_domain *domain, const struct kfv_vec *vec,
		       u64 access, struct kfid_mr **ret, void *context)
{
	struct kfv_mr_walk walk = { 0 };
	struct kfv_region *region;
	struct kfv_mr *mr;
	int err;

	region = kfv_region_new(vec, &walk);
	if (IS_ERR(region))
		return PTR_ERR(region);
	mr = kfv_mr_new(domain, vec, context);
	if (IS_ERR(mr)) {
		kfv_region_free(region);
		return PTR_ERR(mr);
	}

	mutex_lock(&domain->lock);
	err = kfv_region_open(domain, region, &walk, access);
	if (!err) {
		kfv_mr_attach(mr, region);
		list_add_tail(&mr->link, &domain->mrs);
	}
	mutex_unlock(&domain->lock);
	if (err) {
		kfv_region_free(region);
		kfv_mr_free(mr);
		return err;
	}

	*ret = &mr->mr;
	kfi_mr_event_report(&mr->event, *ret);
	return 0;
}

static int kfv_mr_register(struct kfid *fid, const struct kfv_vec *vec,
			   u64 access, u64 offset, u64 flags,
			   struct kfid_mr **mr, void *context)
{
	ssize_t len;

	if (!fid || fid->fclass != KFI_CLASS_DOMAIN || !mr)
		return -EINVAL;
	if (flags)
		return -KFI_EBADFLAGS;
	if (!access || (access & ~KFV_MR_ACCESS) || offset)
		return -EINVAL;
	if (vec->count > KFV_MR_IOV_LIMIT)
		return -EINVAL;
	len = kfv_vec_len(vec);
	if (len <= 0)
		return len ? len : -EINVAL;
	return kfv_mr_open(container_of(fid, struct kfv_domain,
					base.domain.fid),
			   vec, access, mr, context);
}

static int kfv_mr_regv(struct kfid *fid, const struct kvec *iov, size_t count,
		       u64 access, u64 offset,
		       u64 requested_key, u64 flags,
		       struct kfid_mr **mr, void *context)
{
	struct kfv_vec vec = { .type = KFI_KVEC, .kvec = iov, .count = count };

	return kfv_mr_register(fid, &vec, access, offset, flags, mr, context);
}

static int kfv_mr_reg(struct kfid *fid, const void *buf, size_t len,
		      u64 access, u64 offset,
		      u64 requested_key, u64 flags,
		      struct kfid_mr **mr, void *context)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };

	return kfv_mr_regv(fid, &iov, 1, access, offset, requested_key, flags,
			   mr, context);
}

static int kfv_mr_regbv(struct kfid *fid, const struct bio_vec *biov,
			size_t count, u64 access, u64 offset,
			u64 requested_key, u64 flags,
			struct kfid_mr **mr, void *context)
{
	struct kfv_vec vec = { .type = KFI_BVEC, .bvec = biov, .count = count };

	return kfv_mr_register(fid, &vec, access, offset, flags, mr, context);
}

static int kfv_mr_regattr(struct kfid *fid, const struct kfi_mr_attr *attr,
			  u64 flags, struct kfid_mr **mr)
{
	struct kfv_vec vec;

	if (!attr || attr->auth_key_size)
		return -EINVAL;
	vec.type = attr->type;
	vec.kvec = attr->mr_iov;
	vec.count = attr->iov_count;
	vec.desc = NULL;
	return kfv_mr_register(fid, &vec, attr->access, attr->offset, flags,
			       mr, attr->context);
}

struct kfi_ops_mr kfv_mr_ops = {
	.size = sizeof(struct kfi_ops_mr),
	.reg = kfv_mr_reg,
	.regv = kfv_mr_regv,
	.regbv = kfv_mr_regbv,
	.regattr = kfv_mr_regattr,
	.regsgl = kfi_no_mr_regsgl,
};
