// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Memory regions: keys are a sequence, nothing is mapped. */
#include <linux/bvec.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "mock.h"
#include <kfi_enosys.h>

#define KFM_ACCESS	(KFI_SEND | KFI_RECV | KFI_READ | KFI_WRITE | \
			 KFI_REMOTE_READ | KFI_REMOTE_WRITE)

static atomic64_t kfm_last_key;

static void kfm_mr_free(struct kfm_mr *mr)
{
	kfi_mr_event_fini(&mr->event, &mr->mr);
	kfi_fid_put(&mr->domain->domain.fid);
	kfree(mr);
}

static int kfm_mr_close(struct kfid *fid)
{
	struct kfm_mr *mr = container_of(fid, struct kfm_mr, mr.fid);
	int err;

	mutex_lock(&kfm_lock);
	err = kfi_fid_kill(fid);
	if (!err)
		list_del(&mr->link);
	mutex_unlock(&kfm_lock);
	if (err)
		return err;

	kfm_mr_free(mr);
	return 0;
}

static struct kfi_ops kfm_mr_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = kfm_mr_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

static int kfm_mr_check(const struct kfi_mr_attr *attr, u64 flags)
{
	ssize_t len = kfm_vec_len(attr->type, attr->mr_iov, attr->iov_count);

	if (flags)
		return -KFI_EBADFLAGS;
	if (!attr->access || (attr->access & ~KFM_ACCESS) || attr->offset)
		return -EINVAL;
	return len < 0 ? len : 0;
}

static int kfm_mr_regattr(struct kfid *fid, const struct kfi_mr_attr *attr,
			  u64 flags, struct kfid_mr **ret)
{
	struct kfi_domain_base *domain =
		container_of(fid, struct kfi_domain_base, domain.fid);
	struct kfm_mr *mr;
	int err;

	if (!attr || !ret)
		return -EINVAL;
	err = kfm_mr_check(attr, flags);
	if (err)
		return err;
	if (READ_ONCE(domain->lost))
		return -ENODEV;
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr)
		return -ENOMEM;
	if (!kfi_fid_get(fid)) {
		kfree(mr);
		return -EINVAL;
	}

	mr->domain = domain;
	mr->len = kfm_vec_len(attr->type, attr->mr_iov, attr->iov_count);
	kfi_fid_init(&mr->mr.fid, KFI_CLASS_MR, attr->context, &kfm_mr_fid_ops);
	mr->mr.key = atomic64_inc_return(&kfm_last_key);
	/* User space can see the iova, so it must not be the kernel address. */
	mr->mr.iova = 0;
	err = kfi_mr_event_init(&mr->event, domain);
	if (err) {
		kfm_mr_free(mr);
		return err;
	}

	mutex_lock(&kfm_lock);
	list_add_tail(&mr->link, &kfm_mrs);
	mutex_unlock(&kfm_lock);
	*ret = &mr->mr;
	kfi_mr_event_report(&mr->event, *ret);
	return 0;
}

static int kfm_mr_regv(struct kfid *fid, const struct kvec *iov, size_t count,
		       u64 access, u64 offset, u64 requested_key,
		       u64 flags, struct kfid_mr **mr, void *context)
{
	struct kfi_mr_attr attr = {
		.type = KFI_KVEC,
		.mr_iov = iov,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.context = context,
	};

	return kfm_mr_regattr(fid, &attr, flags, mr);
}

static int kfm_mr_reg(struct kfid *fid, const void *buf, size_t len,
		      u64 access, u64 offset, u64 requested_key,
		      u64 flags, struct kfid_mr **mr, void *context)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };

	return kfm_mr_regv(fid, &iov, 1, access, offset, requested_key, flags,
			   mr, context);
}

static int kfm_mr_regbv(struct kfid *fid, const struct bio_vec *biov,
			size_t count, u64 access, u64 offset,
			u64 requested_key, u64 flags,
			struct kfid_mr **mr, void *context)
{
	struct kfi_mr_attr attr = {
		.type = KFI_BVEC,
		.mr_biov = biov,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.context = context,
	};

	return kfm_mr_regattr(fid, &attr, flags, mr);
}

static int kfm_mr_regsgl(struct kfid *fid, const struct scatterlist *sgl,
			 size_t count, u64 access, u64 offset,
			 u64 requested_key, u64 flags,
			 struct kfid_mr **mr, void *context)
{
	struct kfi_mr_attr attr = {
		.type = KFI_SGL,
		.mr_sgl = sgl,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.context = context,
	};

	return kfm_mr_regattr(fid, &attr, flags, mr);
}

struct kfi_ops_mr kfm_mr_ops = {
	.size = sizeof(struct kfi_ops_mr),
	.reg = kfm_mr_reg,
	.regv = kfm_mr_regv,
	.regbv = kfm_mr_regbv,
	.regattr = kfm_mr_regattr,
	.regsgl = kfm_mr_regsgl,
};
