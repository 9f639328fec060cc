// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Memory regions of RDM endpoints: keys that the ULP chooses, offsets from 0;
 * and RMA of peers by key.
 *
 * A region is a description of memory in an xarray of keys, of its domain or of
 * a receive context. The device does not know it: a request from a peer looks
 * it up (kfr_mr_find()), and short data is copied, or a job maps the part that
 * it needs. So a region holds no object of the device, and outlives it.
 *
 * @busy counts users, +1 for the open region. The count is taken under the
 * xarray's
 * lock, so a closing region is either found and waited for, or not found.
 */
#include <linux/slab.h>

#include "rdm.h"

/* A connected endpoint compares what is there with its domain, whose region or not. */
static_assert(offsetof(struct kfr_mr, rdm) == offsetof(struct kfv_mr, domain));

#define KFR_MR_ACCESS	(KFI_SEND | KFI_RECV | KFI_READ | KFI_WRITE | \
			 KFI_REMOTE_READ | KFI_REMOTE_WRITE)
#define KFR_MR_REMOTE	(KFI_REMOTE_READ | KFI_REMOTE_WRITE)

static struct kfr_mr *kfr_mr_of_fid(struct kfid *fid)
{
	return container_of(fid, struct kfr_mr, mr.fid);
}

static struct xarray *kfr_mr_keys(const struct kfr_mr *mr)
{
	return mr->rx ? &mr->rx->rx->keys : &mr->rdm->keys;
}

/* Counted under the lock that close takes to erase the key. */
static struct kfr_mr *kfr_mr_in(struct xarray *keys, u64 key)
{
	struct kfr_mr *mr;
	unsigned long irq;

	xa_lock_irqsave(keys, irq);
	mr = xa_load(keys, key);
	if (mr && !refcount_inc_not_zero(&mr->busy))
		mr = NULL;
	xa_unlock_irqrestore(keys, irq);
	return mr;
}

static enum kfr_status kfr_rma_check(const struct kfr_mr *mr,
				     const struct kfr_hdr *hdr)
{
	u64 offset = le64_to_cpu(hdr->offset);
	u64 need = hdr->op == KFR_OP_READ ? KFI_REMOTE_READ : KFI_REMOTE_WRITE;

	if (!(mr->access & need))
		return KFR_ACCESS;
	if (offset > mr->buf.len ||
	    le32_to_cpu(hdr->len) > mr->buf.len - offset)
		return KFR_RANGE;
	return KFR_OK;
}

/**
 * kfr_mr_find() - find the region that a peer reads or writes by key
 * @rx: the context that the request is for, busy
 * @hdr: header of the request; its lengths agree with the payload, but key and
 *	offset are not checked yet
 * @status: out: why there is none
 *
 * Regions of the context come before those of its domain.
 *
 * Context: any; no lock held.
 * Return: the region, busy until kfr_mr_put() or kfr_mr_end(); or NULL.
 */
struct kfr_mr *kfr_mr_find(struct kfr_rx *rx, const struct kfr_hdr *hdr,
			   enum kfr_status *status)
{
	u64 key = le64_to_cpu(hdr->tag);
	struct kfr_mr *mr = kfr_mr_in(&rx->keys, key);

	if (!mr)
		mr = kfr_mr_in(&rx->ep->rdm->keys, key);
	*status = mr ? kfr_rma_check(mr, hdr) : KFR_NO_KEY;
	if (mr && *status != KFR_OK) {
		kfr_mr_put(mr);
		mr = NULL;
	}
	return mr;
}

/**
 * kfr_mr_put() - the mirror of kfr_mr_find()
 * @mr: the region, which may be freed as soon as this returns
 *
 * Context: any.
 */
void kfr_mr_put(struct kfr_mr *mr)
{
	if (refcount_dec_and_test(&mr->busy))
		complete_all(&mr->idle);
}

/*
 * Makes a region visible to peers. The caller holds kfv_domain.lock, or has
 * just made the region and is its only user.
 */
static int kfr_mr_show(struct kfr_mr *mr)
{
	int err;

	err = xa_insert_irq(kfr_mr_keys(mr), mr->mr.key, mr, GFP_KERNEL);
	if (err)
		return err == -EBUSY ? -KFI_ENOKEY : err;
	mr->enabled = true;
	return 0;
}

static int kfr_mr_enable(struct kfr_mr *mr)
{
	lockdep_assert_held(&mr->rdm->domain->lock);
	if (kfv_gone(mr->rdm->domain->dev))
		return -ENODEV;
	if (!mr->rx)
		return -EINVAL;
	return kfr_mr_show(mr);
}

static int kfr_mr_control(struct kfid *fid, int command, void *arg)
{
	struct kfr_mr *mr = kfr_mr_of_fid(fid);
	struct kfv_domain *domain = mr->rdm->domain;
	bool enabled;
	int err = 0;

	if (command != KFI_ENABLE)
		return -KFI_ENOSYS;
	mutex_lock(&domain->lock);
	enabled = mr->enabled;
	if (!enabled)
		err = kfr_mr_enable(mr);
	mutex_unlock(&domain->lock);
	/* Whoever reads the event may close the region, and then the domain. */
	if (!err && !enabled)
		kfi_mr_event_report(&mr->event, &mr->mr);
	return err;
}

static int kfr_mr_bind_rx(struct kfr_mr *mr, struct kfid *bfid)
{
	struct kfr_face *face = kfr_face_of_fid(bfid);

	lockdep_assert_held(&mr->rdm->domain->lock);
	if (mr->enabled)
		return -KFI_EOPBADSTATE;
	/*
	 * Looked at before @face is used: in another domain it may be another
	 * provider's endpoint, of which only the base is known.
	 */
	if (container_of(bfid, struct kfi_ep_base, ep.fid)->domain !=
	    &mr->rdm->domain->base)
		return -KFI_EDOMAIN;
	if (mr->rx || !face->rx)
		return -EINVAL;
	if (!kfi_fid_get(bfid))
		return -EINVAL;
	mr->rx = face;
	return 0;
}

static int kfr_mr_bind(struct kfid *fid, struct kfid *bfid, u64 flags)
{
	struct kfr_mr *mr = kfr_mr_of_fid(fid);
	int err;

	if (!bfid)
		return -EINVAL;
	if (flags)
		return -KFI_EBADFLAGS;
	if (bfid->fclass != KFI_CLASS_RX_CTX && bfid->fclass != KFI_CLASS_EP)
		return -KFI_ENOSYS;
	mutex_lock(&mr->rdm->domain->lock);
	err = kfr_mr_bind_rx(mr, bfid);
	mutex_unlock(&mr->rdm->domain->lock);
	return err;
}

/*
 * Order: make it invisible, drop the count of the open region, and wait for
 * jobs, as kfr_rx_close() does. The memory is the ULP's again when this returns.
 */
static int kfr_mr_close(struct kfid *fid)
{
	unsigned long end = jiffies + KFR_REVOKE_TIME;
	struct kfr_mr *mr = kfr_mr_of_fid(fid);
	int err;

	err = kfi_fid_kill(fid);
	if (err)
		return err;
	if (mr->enabled)
		xa_erase_irq(kfr_mr_keys(mr), mr->mr.key);
	kfr_mr_put(mr);
	while (!wait_for_completion_timeout(&mr->idle, KFR_CLOSE_TIME))
		kfr_nodes_break(mr->rdm->domain->dev, mr, time_after(jiffies, end));
	if (mr->rx)
		kfi_fid_put(&mr->rx->base.ep.fid);
	kfi_mr_event_fini(&mr->event, &mr->mr);
	kfi_fid_put(&mr->rdm->domain->base.domain.fid);
	kfr_buf_fini(&mr->buf);
	kfree(mr);
	return 0;
}

static struct kfi_ops kfr_mr_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = kfr_mr_close,
	.bind = kfr_mr_bind,
	.control = kfr_mr_control,
	.ops_open = kfi_no_ops_open,
};

/*
 * RMA writes an entry at the target if the endpoint was opened with
 * KFI_RMA_EVENT, or if there is remote CQ data.
 */
static bool kfr_rma_writes_entry(const struct kfr_rx *rx,
				 const struct kfr_hdr *hdr)
{
	return rx->ep->rma_events || hdr->flags & KFR_F_DATA;
}

/* The context's counter counts it in any case. */
static void kfr_mr_report(struct kfr_mr *mr, struct kfr_rx *rx,
			  const struct kfr_hdr *hdr, struct kfr_addr src)
{
	const struct kfr_ep *ep = rx->ep;
	struct kfi_completion comp = {
		.context = mr->mr.fid.context,
		.flags = KFI_RMA | (hdr->op == KFR_OP_READ ? KFI_REMOTE_READ :
							     KFI_REMOTE_WRITE),
		.len = le32_to_cpu(hdr->len),
		.src = KFI_ADDR_NOTAVAIL,
	};

	if (hdr->flags & KFR_F_DATA) {
		comp.flags |= KFI_REMOTE_CQ_DATA;
		comp.data = le64_to_cpu(hdr->data);
	}
	if (ep->caps & KFI_SOURCE)
		comp.src = kfr_av_source(ep->av, src);
	if (!READ_ONCE(rx->closing))
		kfr_report(rx->base, ep->rdm->domain->dev, &comp,
			   kfr_rma_writes_entry(rx, hdr));
}

/**
 * kfr_mr_reserve() - reserve the entry of RMA in the context's CQ
 * @rx: the context that the request is for, busy
 * @hdr: header of the request
 *
 * A peer decides when it writes; the ULP has posted nothing for it. So RMA
 * waits for the ULP to read its CQ, as a message waits for a receive.
 *
 * Context: any; the caller holds the context's lock.
 * Return: false: there is no room; kfr_rx_resume_room() runs when there is.
 */
bool kfr_mr_reserve(struct kfr_rx *rx, const struct kfr_hdr *hdr)
{
	lockdep_assert_held(&rx->lock);
	return !kfr_rma_writes_entry(rx, hdr) ||
	       kfi_cq_reserve(rx->base->rx_cq, &rx->room);
}

/**
 * kfr_mr_end() - RMA of a peer has ended
 * @mr: from kfr_mr_find(); the caller gives it back
 * @rx: the context that the request was for, busy
 * @hdr: header of the request, admitted by kfr_mr_reserve()
 * @src: the requesting endpoint
 * @status: a success is reported
 *
 * Context: any; no lock held.
 */
void kfr_mr_end(struct kfr_mr *mr, struct kfr_rx *rx, const struct kfr_hdr *hdr,
		struct kfr_addr src, enum kfr_status status)
{
	if (status == KFR_OK)
		kfr_mr_report(mr, rx, hdr, src);
	if (kfr_rma_writes_entry(rx, hdr))
		kfi_cq_unreserve(rx->base->rx_cq);
	kfr_mr_put(mr);
}

/* With KFI_MR_ENDPOINT, peers find the region only after bind and enable. */
static int kfr_mr_open(struct kfr_domain *rdm, struct kfr_mr *mr, u64 key,
		       u64 access, void *context)
{
	struct kfid *domain = &rdm->domain->base.domain.fid;
	int err;

	if (!kfi_fid_get(domain))
		return -EINVAL;
	kfi_fid_init(&mr->mr.fid, KFI_CLASS_MR, context, &kfr_mr_fid_ops);
	mr->rdm = rdm;
	mr->access = access;
	mr->mr.mem_desc = mr;
	mr->mr.key = key;
	mr->mr.iova = 0;
	refcount_set(&mr->busy, 1);
	init_completion(&mr->idle);
	err = kfi_mr_event_init(&mr->event, &rdm->domain->base);
	if (!err && !(rdm->mr_mode & KFI_MR_ENDPOINT))
		err = kfr_mr_show(mr);
	if (err) {
		kfi_mr_event_fini(&mr->event, &mr->mr);
		kfi_fid_put(domain);
	}
	return err;
}

static int kfr_mr_register(struct kfid *fid, const struct kfi_mr_attr *attr,
			   u64 flags, struct kfid_mr **ret)
{
	struct kfv_domain *domain;
	struct kfr_mr *mr;
	int err;

	if (!fid || fid->fclass != KFI_CLASS_DOMAIN || !ret)
		return -EINVAL;
	domain = container_of(fid, struct kfv_domain, base.domain.fid);
	if (flags)
		return -KFI_EBADFLAGS;
	if (attr->access & ~KFR_MR_ACCESS || !(attr->access & KFR_MR_REMOTE) ||
	    attr->offset || attr->auth_key_size)
		return -EINVAL;
	if (attr->requested_key == KFI_KEY_NOTAVAIL)
		return -KFI_EKEYREJECTED;
	if (kfv_gone(domain->dev))
		return -ENODEV;
	mr = kzalloc(sizeof(*mr), GFP_KERNEL_ACCOUNT);
	if (!mr)
		return -ENOMEM;
	err = kfr_buf_init(&mr->buf, attr->type, attr->mr_iov, attr->iov_count,
			   GFP_KERNEL_ACCOUNT);
	if (err) {
		kfree(mr);
		return err == -EAGAIN ? -ENOMEM : err;
	}
	err = kfr_mr_open(domain->rdm, mr, attr->requested_key, attr->access,
			  attr->context);
	if (err) {
		kfr_buf_fini(&mr->buf);
		kfree(mr);
		return err;
	}
	*ret = &mr->mr;
	if (mr->enabled)
		kfi_mr_event_report(&mr->event, *ret);
	return 0;
}

static int kfr_mr_reg_pieces(struct kfid *fid, enum kfi_iov_type type,
			     const void *pieces, size_t count, u64 access,
			     u64 offset, u64 key, u64 flags,
			     struct kfid_mr **mr, void *context)
{
	struct kfi_mr_attr attr = {
		.type = type,
		.mr_iov = pieces,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.requested_key = key,
		.context = context,
	};

	return kfr_mr_register(fid, &attr, flags, mr);
}

static int kfr_mr_reg(struct kfid *fid, const void *buf, size_t len,
		      u64 access, u64 offset,
		      u64 requested_key, u64 flags,
		      struct kfid_mr **mr, void *context)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };

	return kfr_mr_reg_pieces(fid, KFI_KVEC, &iov, 1, access, offset,
				 requested_key, flags, mr, context);
}

static int kfr_mr_regv(struct kfid *fid, const struct kvec *iov, size_t count,
		       u64 access, u64 offset,
		       u64 requested_key, u64 flags,
		       struct kfid_mr **mr, void *context)
{
	return kfr_mr_reg_pieces(fid, KFI_KVEC, iov, count, access, offset,
				 requested_key, flags, mr, context);
}

static int kfr_mr_regbv(struct kfid *fid, const struct bio_vec *biov,
			size_t count, u64 access, u64 offset,
			u64 requested_key, u64 flags,
			struct kfid_mr **mr, void *context)
{
	return kfr_mr_reg_pieces(fid, KFI_BVEC, biov, count, access, offset,
				 requested_key, flags, mr, context);
}

static int kfr_mr_regsgl(struct kfid *fid, const struct scatterlist *sgl,
			 size_t count, u64 access, u64 offset,
			 u64 requested_key, u64 flags,
			 struct kfid_mr **mr, void *context)
{
	return kfr_mr_reg_pieces(fid, KFI_SGL, sgl, count, access, offset,
				 requested_key, flags, mr, context);
}

static int kfr_mr_regattr(struct kfid *fid, const struct kfi_mr_attr *attr,
			  u64 flags, struct kfid_mr **mr)
{
	return attr ? kfr_mr_register(fid, attr, flags, mr) : -EINVAL;
}

struct kfi_ops_mr kfr_mr_ops = {
	.size = sizeof(struct kfi_ops_mr),
	.reg = kfr_mr_reg,
	.regv = kfr_mr_regv,
	.regbv = kfr_mr_regbv,
	.regattr = kfr_mr_regattr,
	.regsgl = kfr_mr_regsgl,
};

/**
 * kfr_mr_start() - carry out RMA of a peer by key
 * @mr: from kfr_mr_find(); given back by kfr_mr_end()
 * @conn: the connection of the request
 * @rx: the context that the request is for, busy
 * @hdr: header of the request
 * @page: the payload: data or segments
 * @src: the requesting endpoint
 *
 * Short data is written when this returns. A job takes a count of @rx of its
 * own.
 *
 * Context: softirq; no lock held.
 */
void kfr_mr_start(struct kfr_mr *mr, struct kfr_conn *conn, struct kfr_rx *rx,
		  const struct kfr_hdr *hdr, struct page *page,
		  struct kfr_addr src)
{
	struct kfr_range range = {
		.at = le64_to_cpu(hdr->offset),
		.len = le32_to_cpu(hdr->len),
	};

	if (hdr->op == KFR_OP_READ || hdr->nsegs) {
		refcount_inc(&rx->busy);
		kfr_job_start(conn, rx, NULL, mr, hdr, page, &range, src);
		return;
	}
	kfr_buf_write(&mr->buf, range.at, page_address(page), range.len);
	kfr_mr_end(mr, rx, hdr, src, KFR_OK);
}
