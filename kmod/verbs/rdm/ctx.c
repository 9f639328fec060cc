// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Transmit and receive contexts of scalable endpoints: opening, binding,
 * enabling and closing. Their work is in tx.c and recv.c; plain endpoints use
 * both directly.
 *
 * A context has a handle (kfr_face) of its own and holds a reference to its
 * endpoint, which therefore cannot close before. The endpoint has a slot for
 * each index: taken when the context is open, under kfr_ep.ctl.
 */
#include <linux/slab.h>

#include "rdm.h"

/* A CQ that is bound without a direction gets the direction of the context. */
static int kfr_ctx_bind_locked(struct kfr_face *face, struct kfid *bfid,
			       u64 flags)
{
	u64 dir = face->tx ? KFI_TRANSMIT : KFI_RECV;

	lockdep_assert_held(&face->ep->ctl);
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

/* Messages find a receive context last, when it can take them. */
static int kfr_ctx_enable(struct kfr_face *face)
{
	struct kfi_ep_base *base = &face->base;
	int err;

	lockdep_assert_held(&face->ep->ctl);
	if (kfv_gone(face->ep->rdm->domain->dev))
		return -ENODEV;
	if (base->enabled)
		return 0;
	if (!(face->tx ? base->tx_cq : base->rx_cq))
		return -KFI_ENOCQ;
	if (!face->ep->face.base.enabled)
		return -KFI_EOPBADSTATE;
	err = face->tx ? kfr_tx_enable(face->tx) : kfr_rx_enable(face->rx);
	if (!err && face->rx)
		err = kfr_node_show(face->ep, face->rx);
	base->enabled = !err;
	return err;
}

static int kfr_ctx_control(struct kfid *fid, int command, void *arg)
{
	struct kfr_face *face = kfr_face_of_fid(fid);
	int err;

	if (command != KFI_ENABLE)
		return kfr_face_control(face, command, arg);
	mutex_lock(&face->ep->ctl);
	err = kfr_ctx_enable(face);
	mutex_unlock(&face->ep->ctl);
	return err;
}

/*
 * Order as in rdm.h: refuse messages, hide, wait for users. The slot is free
 * only afterwards, so a new context with the same index does not share
 * anything. The endpoint's reference is dropped last: all of this uses the
 * endpoint.
 */
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
	}
	kfr_face_close(face);
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

/* On failure the caller frees the face and its context. */
static int kfr_ctx_init(struct kfr_ep *ep, struct kfr_face *face, size_t fclass,
			void *context)
{
	struct kfid *parent = &ep->face.base.ep.fid;
	int err;

	lockdep_assert_held(&ep->ctl);
	if (!face->tx && !face->rx)
		return -ENOMEM;
	if (!kfi_fid_get(parent))
		return -EINVAL;
	err = kfi_ep_base_init(&face->base, &ep->rdm->domain->base.domain,
			       fclass, &kfr_ctx_fid_ops, context);
	if (err) {
		kfi_fid_put(parent);
		return err;
	}
	kfr_face_init(face, ep);
	if (face->rx)
		kfr_rx_profile(face->rx);
	return 0;
}

/*
 * Puts a new context into its slot, and makes it an object. Takes over @face
 * with its context: both are freed on failure.
 */
static int kfr_ctx_open(struct kfr_ep *ep, struct kfr_face *face, size_t fclass,
			struct kfr_face **slot, void *context)
{
	int err = -EINVAL;

	mutex_lock(&ep->ctl);
	if (!*slot)
		err = kfr_ctx_init(ep, face, fclass, context);
	if (!err)
		*slot = face;
	mutex_unlock(&ep->ctl);
	if (err) {
		kfr_tx_free(face->tx);
		kfr_rx_free(face->rx);
		kfree(face);
	}
	return err;
}

/* Return: a face without a context, or an error. */
static struct kfr_face *kfr_ctx_alloc(const struct kfr_ep *ep)
{
	struct kfr_face *face;

	if (kfv_gone(ep->rdm->domain->dev))
		return ERR_PTR(-ENODEV);
	face = kzalloc(sizeof(*face), GFP_KERNEL_ACCOUNT);
	return face ? face : ERR_PTR(-ENOMEM);
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
 * @index: number of the context
 * @attr: attributes, or NULL: those of the endpoint's info; out: the size
 * @ret: out: the handle
 * @context: the ULP's
 *
 * Context: process, may sleep; no lock held.
 * Return: 0; -EINVAL: no such index, it is open, or unsupported attributes;
 * -KFI_ENOSYS: not a scalable endpoint; -ENODEV; -ENOMEM.
 */
int kfr_tx_context(struct kfid_ep *sep, int index, struct kfi_tx_attr *attr,
		   struct kfid_ep **ret, void *context)
{
	struct kfr_ep *ep = kfr_ctx_parent(sep, ret);
	struct kfi_tx_attr own;
	struct kfr_face *face;
	int err;

	if (IS_ERR(ep))
		return PTR_ERR(ep);
	own = attr ? *attr : ep->tx_attr;
	if (index < 0 || index >= ep->ntx || kfr_tx_attr_ok(&own))
		return -EINVAL;
	face = kfr_ctx_alloc(ep);
	if (IS_ERR(face))
		return PTR_ERR(face);
	face->tx = kfr_tx_new(ep, &face->base, index, &own);
	err = kfr_ctx_open(ep, face, KFI_CLASS_TX_CTX, &ep->txs[index],
			   context);
	if (err)
		return err;
	if (attr)
		attr->size = face->tx->size;
	*ret = &face->base.ep;
	return 0;
}

/**
 * kfr_rx_context() - kfi_rx_context()
 * @sep: a scalable endpoint
 * @index: number of the context
 * @attr: attributes, or NULL: those of the endpoint's info; out: the sizes
 * @ret: out: the handle
 * @context: the ULP's
 *
 * Context: process, may sleep; no lock held.
 * Return: as kfr_tx_context().
 */
int kfr_rx_context(struct kfid_ep *sep, int index, struct kfi_rx_attr *attr,
		   struct kfid_ep **ret, void *context)
{
	struct kfr_ep *ep = kfr_ctx_parent(sep, ret);
	struct kfi_rx_attr own;
	struct kfr_face *face;
	int err;

	if (IS_ERR(ep))
		return PTR_ERR(ep);
	own = attr ? *attr : ep->rx_attr;
	if (index < 0 || index >= ep->nrx || kfr_rx_attr_ok(&own))
		return -EINVAL;
	face = kfr_ctx_alloc(ep);
	if (IS_ERR(face))
		return PTR_ERR(face);
	face->rx = kfr_rx_new(ep, &face->base, index, &own);
	err = kfr_ctx_open(ep, face, KFI_CLASS_RX_CTX, &ep->rxs[index],
			   context);
	if (err)
		return err;
	if (attr) {
		attr->size = face->rx->size;
		attr->total_buffered_recv = (size_t)face->rx->nkeep * KFR_EAGER;
	}
	*ret = &face->base.ep;
	return 0;
}
