// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Transmit and receive contexts of scalable endpoints.
 */
#include <linux/slab.h>

#include "rdm.h"

static u64 kfr_ctx_dir(const struct kfr_face *face)
{
	return face->tx ? KFI_TRANSMIT : KFI_RECV;
}

/* A queue that is bound without a direction serves the context's own. */
static int kfr_ctx_bind_locked(struct kfr_face *face, struct kfid *bfid,
			       u64 flags)
{
	u64 dir = kfr_ctx_dir(face);

	if (!bfid)
		return -EINVAL;
	if (kfv_gone(face->ep->rdm->domain->dev))
		return -ENODEV;
	if (bfid->fclass == KFI_CLASS_CNTR)
		return kfi_ep_base_bind(&face->base, bfid, flags);
	if (bfid->fclass != KFI_CLASS_CQ)
		return -KFI_ENOSYS;
	if (flags & (KFI_TRANSMIT | KFI_RECV) & ~dir)
		return -EINVAL;
	return kfi_ep_base_bind(&face->base, bfid, flags | dir);
}

static int kfr_ctx_bind(struct kfid *fid, struct kfid *bfid, u64 flags)
{
	struct kfr_face *face = kfr_face_of_fid(fid);
	int err;

	mutex_lock(&face->ep->ctl);
	err = kfr_ctx_bind_locked(face, bfid, flags);
	mutex_unlock(&face->ep->ctl);
	return err;
}

/* Caller holds the endpoint's ctl. */
static int kfr_ctx_enable(struct kfr_face *face)
{
	struct kfi_ep_base *base = &face->base;
	int err;

	if (kfv_gone(face->ep->rdm->domain->dev))
		return -ENODEV;
	if (base->enabled)
		return 0;
	if (!(face->tx ? base->tx_cq : base->rx_cq))
		return -KFI_ENOCQ;
	if (!face->ep->face.base.enabled)
		return -KFI_EOPBADSTATE;
	err = face->tx ? kfr_tx_enable(face->tx) : kfr_rx_enable(face->rx);
	if (err)
		return err;
	base->enabled = true;
	if (face->rx)
		kfr_node_show(face->ep, face->rx);
	return 0;
}

static int kfr_ctx_control(struct kfid *fid, int command, void *arg)
{
	struct kfr_face *face = kfr_face_of_fid(fid);
	int err = -KFI_ENOSYS;

	mutex_lock(&face->ep->ctl);
	if (command == KFI_ENABLE)
		err = kfr_ctx_enable(face);
	else if (command == KFI_GETOPSFLAG || command == KFI_SETOPSFLAG)
		err = kfr_face_flags(face, command, arg);
	mutex_unlock(&face->ep->ctl);
	return err;
}

static int kfr_ctx_close(struct kfid *fid)
{
	struct kfr_face *face = kfr_face_of_fid(fid);
	struct kfr_ep *ep = face->ep;
	int err;

	err = kfi_fid_kill(fid);
	if (err)
		return err;

	if (face->rx) {
		kfr_rx_stop(face->rx);
		kfr_node_hide_rx(ep, face->rx);
		kfr_rx_close(face->rx);
	} else {
		kfr_tx_close(face->tx);
	}
	mutex_lock(&ep->ctl);
	if (face->rx)
		ep->rxs[face->rx->index] = NULL;
	else
		ep->txs[face->tx->index] = NULL;
	mutex_unlock(&ep->ctl);

	kfi_ep_base_fini(&face->base);
	kfr_tx_free(face->tx);
	kfr_rx_free(face->rx);
	kfree(face);
	kfi_fid_put(&ep->face.base.ep.fid);
	return 0;
}

static struct kfi_ops kfr_ctx_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = kfr_ctx_close,
	.bind = kfr_ctx_bind,
	.control = kfr_ctx_control,
	.ops_open = kfi_no_ops_open,
};

/* Caller holds the endpoint's ctl; the slot is free. */
static int kfr_ctx_new(struct kfr_ep *ep, struct kfr_face *face, size_t fclass,
		       struct kfr_face **slot, void *context)
{
	struct kfid *parent = &ep->face.base.ep.fid;
	int err = -EINVAL;

	if (!face->tx && !face->rx) {
		err = -ENOMEM;
		goto err_free;
	}
	if (!kfi_fid_get(parent))
		goto err_free;
	err = kfi_ep_base_init(&face->base, &ep->rdm->domain->base.domain,
			       fclass, &kfr_ctx_fid_ops, context);
	if (err)
		goto err_put;
	kfr_face_init(face, ep);
	if (face->rx)
		kfr_rx_profile(face->rx);
	*slot = face;
	return 0;

err_put:
	kfi_fid_put(parent);
err_free:
	kfr_tx_free(face->tx);
	kfr_rx_free(face->rx);
	kfree(face);
	return err;
}

/* Return: the endpoint, if it has contexts to be opened, or an error. */
static struct kfr_ep *kfr_ctx_parent(struct kfid_ep *sep, struct kfid_ep **ret)
{
	if (!sep || !ret)
		return ERR_PTR(-EINVAL);
	if (sep->fid.fclass != KFI_CLASS_SEP)
		return ERR_PTR(-KFI_ENOSYS);
	return kfr_face_of(sep)->ep;
}

/**
 * kfr_tx_context() - kfi_tx_context()
 * @sep: a scalable endpoint
 * @index: which of its contexts
 * @attr: what it shall be, or NULL: as the endpoint's info says; filled in
 * @ret: the new object
 * @context: the user's
 *
 * Context: process.
 * Return: 0; -EINVAL: no such index, it is open, or attributes that cannot be
 * had; -KFI_ENOSYS: not a scalable endpoint; -ENODEV; -ENOMEM.
 */
int kfr_tx_context(struct kfid_ep *sep, int index, struct kfi_tx_attr *attr,
		   struct kfid_ep **ret, void *context)
{
	struct kfr_ep *ep = kfr_ctx_parent(sep, ret);
	struct kfi_tx_attr own;
	struct kfr_face *face;
	int err = -EINVAL;

	if (IS_ERR(ep))
		return PTR_ERR(ep);
	own = attr ? *attr : ep->tx_attr;
	if (index < 0 || index >= ep->ntx || kfr_tx_attr_ok(&own))
		return -EINVAL;
	if (kfv_gone(ep->rdm->domain->dev))
		return -ENODEV;
	face = kzalloc(sizeof(*face), GFP_KERNEL_ACCOUNT);
	if (!face)
		return -ENOMEM;
	face->tx = kfr_tx_new(ep, &face->base, index, &own);
	mutex_lock(&ep->ctl);
	if (!ep->txs[index]) {
		err = kfr_ctx_new(ep, face, KFI_CLASS_TX_CTX, &ep->txs[index],
				  context);
	} else {
		kfr_tx_free(face->tx);
		kfree(face);
	}
	mutex_unlock(&ep->ctl);
	if (err)
		return err;
	if (attr)
		attr->size = face->tx->size;
	*ret = &face->base.ep;
	return 0;
}

/* The same for a receive context. */
int kfr_rx_context(struct kfid_ep *sep, int index, struct kfi_rx_attr *attr,
		   struct kfid_ep **ret, void *context)
{
	struct kfr_ep *ep = kfr_ctx_parent(sep, ret);
	struct kfi_rx_attr own;
	struct kfr_face *face;
	int err = -EINVAL;

	if (IS_ERR(ep))
		return PTR_ERR(ep);
	own = attr ? *attr : ep->rx_attr;
	if (index < 0 || index >= ep->nrx || kfr_rx_attr_ok(&own))
		return -EINVAL;
	if (kfv_gone(ep->rdm->domain->dev))
		return -ENODEV;
	face = kzalloc(sizeof(*face), GFP_KERNEL_ACCOUNT);
	if (!face)
		return -ENOMEM;
	face->rx = kfr_rx_new(ep, &face->base, index, &own);
	mutex_lock(&ep->ctl);
	if (!ep->rxs[index]) {
		err = kfr_ctx_new(ep, face, KFI_CLASS_RX_CTX, &ep->rxs[index],
				  context);
	} else {
		kfr_rx_free(face->rx);
		kfree(face);
	}
	mutex_unlock(&ep->ctl);
	if (err)
		return err;
	if (attr) {
		attr->size = face->rx->size;
		attr->total_buffered_recv = (size_t)face->rx->nkeep * KFR_EAGER;
	}
	*ret = &face->base.ep;
	return 0;
}
