// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * RDM endpoints, plain and scalable: opening, binding, enabling, options,
 * names, closing. A plain one has one transmit and one receive context, which
 * are opened and closed with it; those of a scalable one are in ctx.c.
 *
 * kfr_ep.ctl serialises all that changes an endpoint. Enabling joins it to a
 * node, and so takes the device's lock first. Posting takes neither: it looks at
 * @base.enabled, after which address, node and vector are constant. The ULP
 * must not post during or after close.
 */
#include <linux/slab.h>

#include "rdm.h"

static struct kfr_ep *kfr_ep_of_fid(struct kfid *fid)
{
	return container_of(fid, struct kfr_ep, face.base.ep.fid);
}

static struct kfv_device *kfr_ep_dev(const struct kfr_ep *ep)
{
	return ep->rdm->domain->dev;
}

static bool kfr_ep_gone(const struct kfr_ep *ep)
{
	return kfv_gone(kfr_ep_dev(ep));
}

static int kfr_ep_bind_av(struct kfr_ep *ep, struct kfid *bfid, u64 flags)
{
	struct kfr_av *av = container_of(bfid, struct kfr_av, av.fid);

	lockdep_assert_held(&ep->ctl);
	if (flags || ep->av)
		return -EINVAL;
	if (av->rdm != ep->rdm)
		return -KFI_EDOMAIN;
	if (!kfi_fid_get(bfid))
		return -EINVAL;
	ep->av = av;
	return 0;
}

/* Either this sees that the device is gone, or kfr_domain_lose() sees the EQ. */
static int kfr_ep_bind_eq(struct kfr_ep *ep, struct kfid *bfid, u64 flags)
{
	struct mutex *lock = &ep->rdm->domain->lock;
	int err;

	lockdep_assert_held(&ep->ctl);
	err = kfi_ep_base_room(&ep->face.base);
	mutex_lock(lock);
	if (kfr_ep_gone(ep))
		err = -ENODEV;
	if (!err)
		err = kfi_ep_base_bind(&ep->face.base, bfid, flags);
	mutex_unlock(lock);
	return err;
}

static int kfr_ep_bind_locked(struct kfr_ep *ep, struct kfid *bfid, u64 flags)
{
	lockdep_assert_held(&ep->ctl);
	if (!bfid)
		return -EINVAL;
	if (kfr_ep_gone(ep))
		return -ENODEV;
	if (ep->face.base.enabled)
		return -KFI_EOPBADSTATE;
	if (bfid->fclass == KFI_CLASS_AV)
		return kfr_ep_bind_av(ep, bfid, flags);
	/* Queues and counters are bound to the contexts. */
	if (ep->scalable && bfid->fclass != KFI_CLASS_EQ)
		return -KFI_ENOSYS;
	if (bfid->fclass == KFI_CLASS_EQ)
		return kfr_ep_bind_eq(ep, bfid, flags);
	return kfi_ep_base_bind(&ep->face.base, bfid, flags);
}

static int kfr_ep_bind(struct kfid *fid, struct kfid *bfid, u64 flags)
{
	struct kfr_ep *ep = kfr_ep_of_fid(fid);
	int err;

	mutex_lock(&ep->ctl);
	err = kfr_ep_bind_locked(ep, bfid, flags);
	mutex_unlock(&ep->ctl);
	return err;
}

/*
 * All that needs no device: checks, and the contexts of a plain endpoint. They keep
 * what they have allocated if this fails, for the next attempt or for close.
 */
static int kfr_ep_prepare(struct kfr_ep *ep)
{
	struct kfr_face *face = &ep->face;
	int err;

	lockdep_assert_held(&ep->ctl);
	if (kfr_ep_gone(ep))
		return -ENODEV;
	if (face->base.enabled)
		return 0;
	if (!ep->av)
		return -KFI_ENOAV;
	if (ep->scalable)
		return 0;
	if (!face->base.tx_cq || !face->base.rx_cq)
		return -KFI_ENOCQ;
	err = kfr_tx_enable(face->tx);
	if (!err)
		err = kfr_rx_enable(face->rx);
	return err;
}

/* The receive context becomes visible last: messages arrive at once. */
static int kfr_ep_join(struct kfr_ep *ep)
{
	struct kfi_ep_base *base = &ep->face.base;
	const u16 wanted = ep->addr.id;
	int err;

	lockdep_assert_held(&kfr_ep_dev(ep)->lock);
	lockdep_assert_held(&ep->ctl);
	if (kfr_ep_gone(ep))
		return -ENODEV;
	if (base->enabled)
		return 0;
	err = kfr_node_get(ep);
	if (!err && !ep->scalable)
		err = kfr_node_show(ep, ep->face.rx);
	if (err) {
		kfr_node_hide(ep);
		kfr_node_leave(ep);
		/* A number that was chosen may be another one's the next time. */
		ep->addr.id = wanted;
		return err;
	}
	base->enabled = true;
	return 0;
}

/*
 * Gets or sets the default flags of a context, which KFI_TRANSMIT or KFI_RECV selects.
 * Posting reads them without a lock: a change applies to later calls.
 */
static int kfr_face_flags(struct kfr_face *face, int command, u64 *arg)
{
	u64 dir, *flags, allowed;

	lockdep_assert_held(&face->ep->ctl);
	if (!arg)
		return -EINVAL;
	dir = *arg & (KFI_TRANSMIT | KFI_RECV);
	if (dir == KFI_TRANSMIT && face->tx) {
		flags = &face->tx->flags;
		allowed = KFR_TX_OP_FLAGS;
	} else if (dir == KFI_RECV && face->rx) {
		flags = &face->rx->flags;
		allowed = KFR_RX_OP_FLAGS;
	} else {
		return -EINVAL;
	}
	if (command == KFI_GETOPSFLAG) {
		*arg = *flags;
		return 0;
	}
	if (*arg & ~(dir | allowed))
		return -EINVAL;
	*flags = *arg & ~dir;
	return 0;
}

/*
 * kfi_stop(): ends what the contexts of a handle have under way. Messages still find a
 * receive context, and are refused. Its jobs, and what is left of operations, are left
 * to their connections, so the close waits for no peer.
 */
static int kfr_face_stop(struct kfr_face *face)
{
	if (face->rx) {
		kfr_rx_stop(face->rx);
		kfr_rx_abandon(face->rx);
	}
	if (face->tx)
		kfr_tx_stop(face->tx);
	return 0;
}

/**
 * kfr_face_close() - wait for all users of the contexts of a handle
 * @face: the handle; its receive context is stopped and hidden
 *
 * Context: process, sleeps; no lock held.
 */
void kfr_face_close(struct kfr_face *face)
{
	if (face->rx)
		kfr_rx_close(face->rx);
	if (face->tx)
		kfr_tx_close(face->tx);
	/*
	 * A report that read @closing before may still be running, and so may a
	 * function that has found the context before it was hidden. A context that was
	 * not enabled has neither.
	 */
	if (face->base.enabled && (face->rx || face->tx))
		synchronize_srcu_expedited(&kfv_srcu);
}

/**
 * kfr_face_control() - kfi_control() of a handle, but for KFI_ENABLE
 * @face: the handle
 * @command: KFI_GETOPSFLAG, KFI_SETOPSFLAG, KFI_STOP
 * @arg: in or out: the flags
 *
 * Context: process, may sleep; no lock held.
 * Return: 0; -KFI_ENOSYS: unknown command; -EINVAL: no such context, or unsupported
 * flags.
 */
int kfr_face_control(struct kfr_face *face, int command, void *arg)
{
	int err;

	if (command == KFI_STOP)
		return kfr_face_stop(face);
	if (command != KFI_GETOPSFLAG && command != KFI_SETOPSFLAG)
		return -KFI_ENOSYS;
	mutex_lock(&face->ep->ctl);
	err = kfr_face_flags(face, command, arg);
	mutex_unlock(&face->ep->ctl);
	return err;
}

/*
 * A charge to a cgroup above memory.high sleeps, and many of them for minutes. So the
 * memory is there before the device's lock, which others wait for, is taken.
 */
static int kfr_ep_enable(struct kfr_ep *ep)
{
	bool done;
	int err;

	mutex_lock(&ep->ctl);
	err = kfr_ep_prepare(ep);
	done = err || ep->face.base.enabled;
	mutex_unlock(&ep->ctl);
	if (done)
		return err;
	mutex_lock(&kfr_ep_dev(ep)->lock);
	/* Another thread may have enabled it, and a context may be allocating now. */
	if (!ep->face.base.enabled) {
		mutex_lock(&ep->ctl);
		err = kfr_ep_join(ep);
		mutex_unlock(&ep->ctl);
	}
	mutex_unlock(&kfr_ep_dev(ep)->lock);
	return err;
}

static int kfr_ep_control(struct kfid *fid, int command, void *arg)
{
	struct kfr_ep *ep = kfr_ep_of_fid(fid);

	if (command != KFI_ENABLE)
		return kfr_face_control(&ep->face, command, arg);
	return kfr_ep_enable(ep);
}

static void kfr_ep_free(struct kfr_ep *ep)
{
	kfr_tx_free(ep->face.tx);
	kfr_rx_free(ep->face.rx);
	mutex_destroy(&ep->ctl);
	kfree(ep);
}

/*
 * Operations and receives are dropped without completions. When this returns,
 * neither device nor CPU touches the ULP's buffers, but what kfr_face_stop() has
 * left to connections, and nothing more is reported.
 *
 * Order: the receive context refuses messages while they still find it, then
 * the endpoint is hidden, then both contexts wait for their users; for that
 * they need the node, whose connections they may have to abort. It is left
 * after that, and the vector, which reports look up, goes last.
 */
static int kfr_ep_close(struct kfid *fid)
{
	struct kfr_ep *ep = kfr_ep_of_fid(fid);
	int err;

	err = kfi_fid_kill(fid);
	if (err)
		return err;

	if (ep->face.rx)
		kfr_rx_stop(ep->face.rx);
	kfr_node_hide(ep);
	kfr_face_close(&ep->face);
	mutex_lock(&kfr_ep_dev(ep)->lock);
	list_del(&ep->link);
	kfr_node_leave(ep);
	mutex_unlock(&kfr_ep_dev(ep)->lock);

	if (ep->av)
		kfi_fid_put(&ep->av->av.fid);
	kfi_ep_base_fini(&ep->face.base);
	kfr_ep_free(ep);
	return 0;
}

static struct kfi_ops kfr_ep_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = kfr_ep_close,
	.bind = kfr_ep_bind,
	.control = kfr_ep_control,
	.ops_open = kfi_no_ops_open,
};

static int kfr_opt_check(struct kfid *fid, int level, int optname,
			 const void *optval)
{
	if (level != KFI_OPT_ENDPOINT || optname != KFI_OPT_MIN_MULTI_RECV ||
	    !kfr_face_of_fid(fid)->rx)
		return -ENOPROTOOPT;
	return optval ? 0 : -EINVAL;
}

static int kfr_getopt(struct kfid *fid, int level, int optname, void *optval,
		      size_t *optlen)
{
	int err = kfr_opt_check(fid, level, optname, optval);

	if (err || !optlen)
		return err ? err : -EINVAL;
	if (*optlen < sizeof(size_t))
		return -KFI_ETOOSMALL;
	memcpy(optval, &kfr_face_of_fid(fid)->rx->min_multi, sizeof(size_t));
	*optlen = sizeof(size_t);
	return 0;
}

static int kfr_setopt(struct kfid *fid, int level, int optname,
		      const void *optval, size_t optlen)
{
	int err = kfr_opt_check(fid, level, optname, optval);
	size_t value;

	if (err)
		return err;
	if (optlen < sizeof(value))
		return -KFI_ETOOSMALL;
	memcpy(&value, optval, sizeof(value));
	if (value > KFR_MSG_MAX)
		return -E2BIG;
	WRITE_ONCE(kfr_face_of_fid(fid)->rx->min_multi, value);
	return 0;
}

static struct kfi_ops_ep kfr_ep_ops = {
	.size = sizeof(struct kfi_ops_ep),
	.cancel = kfr_cancel,
	.getopt = kfr_getopt,
	.setopt = kfr_setopt,
	.tx_ctx = kfr_tx_context,
	.rx_ctx = kfr_rx_context,
};

/*
 * An address of 0 is that of the domain. The caller holds ctl, or has just
 * allocated the endpoint.
 */
static void kfr_ep_name(struct kfr_ep *ep, const struct kfr_addr *name)
{
	ep->addr = *name;
	if (!ep->addr.ip)
		ep->addr.ip = ep->rdm->format.ip;
}

static int kfr_setname(kfid_t fid, void *addr, size_t addrlen)
{
	struct kfr_ep *ep = kfr_face_of_fid(fid)->ep;
	struct kfr_addr name;
	int err = 0;

	if (!addr || addrlen != kfr_addr_size(&ep->rdm->format) ||
	    kfr_addr_read(&ep->rdm->format, addr, &name))
		return -EINVAL;
	mutex_lock(&ep->ctl);
	if (kfr_ep_gone(ep))
		err = -ENODEV;
	else if (ep->face.base.enabled)
		err = -KFI_EOPBADSTATE;
	else
		kfr_ep_name(ep, &name);
	mutex_unlock(&ep->ctl);
	return err;
}

static int kfr_getname(struct kfid *fid, void *addr, size_t *addrlen)
{
	struct kfr_ep *ep = kfr_face_of_fid(fid)->ep;
	size_t size = kfr_addr_size(&ep->rdm->format), room;
	u8 name[sizeof(struct sockaddr_in)];

	if (!addrlen || (!addr && *addrlen))
		return -EINVAL;
	if (kfr_ep_gone(ep))
		return -ENODEV;
	mutex_lock(&ep->ctl);
	kfr_addr_write(&ep->rdm->format, ep->addr, name);
	mutex_unlock(&ep->ctl);
	if (!ep->face.base.enabled)
		return -KFI_EOPBADSTATE;
	room = *addrlen;
	if (addr)
		memcpy(addr, name, min(room, size));
	*addrlen = size;
	return room < size ? -KFI_ETOOSMALL : 0;
}

static struct kfi_ops_cm kfr_cm_ops = {
	.size = sizeof(struct kfi_ops_cm),
	.setname = kfr_setname,
	.getname = kfr_getname,
	.getpeer = kfi_no_getpeer,
	.connect = kfi_no_connect,
	.listen = kfi_no_listen,
	.accept = kfi_no_accept,
	.reject = kfi_no_reject,
	.shutdown = kfi_no_shutdown,
	.join = kfi_no_join,
};

/* Not supported; callers do not check the slots for NULL. */
static struct kfi_ops_atomic kfr_atomic_ops = {
	.size = sizeof(struct kfi_ops_atomic),
	.write = kfi_no_atomic_write,
	.writev = kfi_no_atomic_writev,
	.writemsg = kfi_no_atomic_writemsg,
	.inject = kfi_no_atomic_inject,
	.readwrite = kfi_no_atomic_readwrite,
	.readwritev = kfi_no_atomic_readwritev,
	.readwritemsg = kfi_no_atomic_readwritemsg,
	.compwrite = kfi_no_atomic_compwrite,
	.compwritev = kfi_no_atomic_compwritev,
	.compwritemsg = kfi_no_atomic_compwritemsg,
	.writevalid = kfi_no_atomic_writevalid,
	.readwritevalid = kfi_no_atomic_readwritevalid,
	.compwritevalid = kfi_no_atomic_compwritevalid,
};

/**
 * kfr_face_init() - set the operations of a handle
 * @face: the handle, not visible to the ULP yet
 * @ep: its endpoint
 *
 * All slots are filled: callers do not check them for NULL.
 *
 * Context: any; no lock needed.
 */
void kfr_face_init(struct kfr_face *face, struct kfr_ep *ep)
{
	struct kfid_ep *fid = &face->base.ep;

	face->ep = ep;
	fid->ops = &kfr_ep_ops;
	fid->cm = &kfr_cm_ops;
	fid->msg = &kfr_msg_ops;
	fid->tagged = &kfr_tagged_ops;
	fid->rma = &kfr_rma_ops;
	fid->atomic = &kfr_atomic_ops;
}

static int kfr_ep_set_auth(struct kfr_ep *ep, const struct kfi_ep_attr *attr)
{
	ep->auth = KFR_AUTH;
	if (!attr || !attr->auth_key_size)
		return 0;
	if (attr->auth_key_size != sizeof(ep->auth) || !attr->auth_key)
		return -EINVAL;
	memcpy(&ep->auth, attr->auth_key, sizeof(ep->auth));
	return 0;
}

static int kfr_ep_set_addr(struct kfr_ep *ep, const struct kfi_info *info)
{
	const struct kfr_format *format = &ep->rdm->format;
	struct kfr_addr name = {};

	if (info->src_addr &&
	    (info->src_addrlen != kfr_addr_size(format) ||
	     kfr_addr_read(format, info->src_addr, &name)))
		return -EINVAL;
	kfr_ep_name(ep, &name);
	return 0;
}

static int kfr_ep_set_attr(struct kfr_ep *ep, const struct kfi_info *info)
{
	const struct kfi_ep_attr *attr = info->ep_attr;

	if (info->caps & ~KFR_CAPS)
		return -EINVAL;
	ep->caps = info->caps ? info->caps : KFR_CAPS & ~KFI_RMA_EVENT;
	ep->rma_events = ep->caps & KFI_RMA_EVENT;
	if (info->tx_attr)
		ep->tx_attr = *info->tx_attr;
	if (info->rx_attr)
		ep->rx_attr = *info->rx_attr;
	if (kfr_tx_attr_ok(&ep->tx_attr) || kfr_rx_attr_ok(&ep->rx_attr))
		return -EINVAL;
	/* KFI_SHARED_CONTEXT is above the limit, too. */
	if (attr && max(attr->tx_ctx_cnt, attr->rx_ctx_cnt) > KFR_CTX_MAX)
		return -EINVAL;
	ep->ntx = attr && attr->tx_ctx_cnt ? attr->tx_ctx_cnt : KFR_CTX_MAX;
	ep->nrx = attr && attr->rx_ctx_cnt ? attr->rx_ctx_cnt : KFR_CTX_MAX;
	return kfr_ep_set_auth(ep, attr);
}

static int kfr_ep_add_contexts(struct kfr_ep *ep)
{
	struct kfr_face *face = &ep->face;

	face->tx = kfr_tx_new(ep, &face->base, 0, &ep->tx_attr);
	face->rx = kfr_rx_new(ep, &face->base, 0, &ep->rx_attr);
	return face->tx && face->rx ? 0 : -ENOMEM;
}

/* Without a lock, as it allocates: see kfr_ep_enable(). */
static struct kfr_ep *kfr_ep_new(struct kfr_domain *rdm,
				 const struct kfi_info *info, bool scalable)
{
	struct kfr_ep *ep = kzalloc(sizeof(*ep), GFP_KERNEL_ACCOUNT);
	int err;

	if (!ep)
		return ERR_PTR(-ENOMEM);
	mutex_init(&ep->ctl);
	ep->rdm = rdm;
	ep->scalable = scalable;
	err = kfr_ep_set_attr(ep, info);
	if (!err)
		err = kfr_ep_set_addr(ep, info);
	if (!err && !scalable)
		err = kfr_ep_add_contexts(ep);
	if (err) {
		kfr_ep_free(ep);
		return ERR_PTR(err);
	}
	return ep;
}

static int kfr_ep_add(struct kfr_ep *ep, void *context)
{
	struct kfr_domain *rdm = ep->rdm;
	int err;

	lockdep_assert_held(&rdm->domain->dev->lock);
	if (kfr_ep_gone(ep))
		return -ENODEV;
	err = kfi_ep_base_init(&ep->face.base, &rdm->domain->base.domain,
			       ep->scalable ? KFI_CLASS_SEP : KFI_CLASS_EP,
			       &kfr_ep_fid_ops, context);
	if (err)
		return err;
	kfr_face_init(&ep->face, ep);
	if (ep->face.rx)
		kfr_rx_profile(ep->face.rx);
	list_add_tail(&ep->link, &rdm->eps);
	return 0;
}

/**
 * kfr_ep_open() - kfi_endpoint() and kfi_scalable_ep() of RDM endpoints
 * @fid: a domain that was opened with an info of RDM endpoints
 * @info: attributes of the endpoint
 * @ret: out: the handle
 * @context: the ULP's
 * @scalable: its contexts are opened separately
 *
 * Context: process, may sleep; no lock held.
 * Return: 0; -EINVAL: unsupported attributes, or another kind of domain;
 * -ENODEV; -ENOMEM.
 */
int kfr_ep_open(struct kfid_domain *fid, struct kfi_info *info,
		struct kfid_ep **ret, void *context, bool scalable)
{
	struct kfv_domain *domain = kfv_domain_of(fid);
	struct kfr_ep *ep;
	int err;

	/* A handle is a connection request: for connected endpoints. */
	if (!info || !ret || !domain->rdm || info->handle)
		return -EINVAL;
	if (info->ep_attr && info->ep_attr->type != KFI_EP_UNSPEC &&
	    info->ep_attr->type != KFI_EP_RDM)
		return -EINVAL;
	ep = kfr_ep_new(domain->rdm, info, scalable);
	if (IS_ERR(ep))
		return PTR_ERR(ep);
	mutex_lock(&domain->dev->lock);
	err = kfr_ep_add(ep, context);
	mutex_unlock(&domain->dev->lock);
	if (err)
		kfr_ep_free(ep);
	else
		*ret = &ep->face.base.ep;
	return err;
}

/**
 * kfr_scalable_ep() - kfi_scalable_ep()
 * @domain: any domain
 * @info: attributes of the endpoint
 * @sep: out: the handle
 * @context: the ULP's
 *
 * Context: process, may sleep; no lock held.
 * Return: as kfr_ep_open(); -KFI_ENOSYS: a domain of connected endpoints.
 */
int kfr_scalable_ep(struct kfid_domain *domain, struct kfi_info *info,
		    struct kfid_ep **sep, void *context)
{
	if (!kfv_domain_of(domain)->rdm)
		return -KFI_ENOSYS;
	return kfr_ep_open(domain, info, sep, context, true);
}

/**
 * kfr_domain_lose() - report to each endpoint's EQ that the device is gone
 * @rdm: of the domain
 *
 * Posting and reporting on the device have ended before. Listed endpoints are
 * open, so their EQs are, too. A bind holds the domain's lock. kfr_ep.ctl is not taken:
 * its holder may allocate for minutes, in a cgroup above memory.high.
 *
 * Context: process, may sleep; the caller holds the device's lock; takes the domain's.
 */
void kfr_domain_lose(struct kfr_domain *rdm)
{
	struct kfi_eq_err_entry entry = { .err = ENODEV };
	struct kfr_ep *ep;

	lockdep_assert_held(&rdm->domain->dev->lock);
	mutex_lock(&rdm->domain->lock);
	list_for_each_entry(ep, &rdm->eps, link) {
		if (!ep->face.base.eq)
			continue;
		entry.fid = &ep->face.base.ep.fid;
		entry.context = entry.fid->context;
		kfi_ep_report_err(&ep->face.base, &entry);
	}
	mutex_unlock(&rdm->domain->lock);
}
