// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Active endpoints: the public half.
 *
 * The calls of the API that change an endpoint are serialised by conn->ctl. Posting is
 * not: the ULP has to have enabled the endpoint before it posts, and may not close it
 * while it posts.
 */
#include <linux/in.h>
#include <linux/slab.h>

#include "rdm/rdm.h"

/**
 * kfv_ep_enable() - enable an endpoint
 * @ep: the endpoint
 *
 * Context: process; caller holds conn->ctl.
 * Return: 0, also if it is enabled already; -ENODEV; -KFI_ENOEQ: connections
 * need a place for their events; -KFI_ENOCQ and others.
 */
int kfv_ep_enable(struct kfv_ep *ep)
{
	int err;

	lockdep_assert_held(&ep->conn->ctl);
	if (kfv_gone(ep->domain->dev))
		return -ENODEV;
	if (ep->base.enabled)
		return 0;
	if (!ep->base.eq)
		return -KFI_ENOEQ;

	/* Posting looks at base.enabled: the queue pair must be there before. */
	err = kfv_conn_enable(ep->conn);
	if (err)
		return err;
	err = kfi_ep_base_enable(&ep->base);
	if (err)
		kfv_conn_disable(ep->conn);
	else
		kfv_conn_drop_request(ep->conn);
	return err;
}

/*
 * From kfi_fid_kill() on no other call uses the endpoint, but a removal of the device
 * may. It reaches the connection through the list of endpoints, so the connection is
 * put only after the endpoint is off that list.
 */
static int kfv_ep_close(struct kfid *fid)
{
	struct kfv_ep *ep = container_of(fid, struct kfv_ep, base.ep.fid);
	struct kfv_conn *conn = ep->conn;
	int err;

	err = kfi_fid_kill(fid);
	if (err)
		return err;

	/*
	 * Before the device's lock, which no close holds while the device drains: a
	 * removal that finds the endpoint on the list finds it stopped.
	 */
	mutex_lock(&conn->ctl);
	kfv_conn_stop(conn);
	mutex_unlock(&conn->ctl);
	mutex_lock(&ep->domain->dev->lock);
	list_del(&ep->link);
	mutex_unlock(&ep->domain->dev->lock);

	kfi_ep_base_fini(&ep->base);
	kfv_conn_put(conn);
	kfree(ep);
	return 0;
}

/*
 * RDMA CM's threads wait for conn->lock, so nothing is allocated in it. A removal waits
 * for ctl, so no allocation begins once the device is gone.
 */
static int kfv_ep_make_room(struct kfv_ep *ep, const struct kfid *bfid)
{
	lockdep_assert_held(&ep->conn->ctl);
	if (kfv_gone(ep->domain->dev))
		return -ENODEV;
	if (!bfid || bfid->fclass != KFI_CLASS_EQ)
		return 0;
	return kfi_ep_base_room(&ep->base);
}

static int kfv_ep_bind(struct kfid *fid, struct kfid *bfid, u64 flags)
{
	struct kfv_ep *ep = container_of(fid, struct kfv_ep, base.ep.fid);
	struct kfv_conn *conn = ep->conn;
	int err;

	mutex_lock(&conn->ctl);
	err = kfv_ep_make_room(ep, bfid);
	/* Either this sees that the device is gone, or kfv_conn_report_loss() sees the EQ. */
	mutex_lock(&conn->lock);
	if (kfv_gone(ep->domain->dev))
		err = -ENODEV;
	if (!err)
		err = kfi_ep_base_bind(&ep->base, bfid, flags);
	mutex_unlock(&conn->lock);
	mutex_unlock(&conn->ctl);
	return err;
}

/* One of two bits in the argument selects the direction, for both commands. */
static int kfv_ep_opsflag(struct kfv_ep *ep, int command, u64 *arg)
{
	u64 dir, *flags, allowed;

	lockdep_assert_held(&ep->conn->ctl);
	if (!arg)
		return -EINVAL;
	dir = *arg & (KFI_TRANSMIT | KFI_RECV);
	if (dir == KFI_TRANSMIT) {
		flags = &ep->tx_flags;
		allowed = KFV_TX_OP_FLAGS;
	} else if (dir == KFI_RECV) {
		flags = &ep->rx_flags;
		allowed = KFV_RX_FLAGS;
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

static int kfv_ep_control(struct kfid *fid, int command, void *arg)
{
	struct kfv_ep *ep = container_of(fid, struct kfv_ep, base.ep.fid);
	int err;

	mutex_lock(&ep->conn->ctl);
	switch (command) {
	case KFI_ENABLE:
		err = kfv_ep_enable(ep);
		break;
	case KFI_GETOPSFLAG:
	case KFI_SETOPSFLAG:
		err = kfv_ep_opsflag(ep, command, arg);
		break;
	default:
		err = -KFI_ENOSYS;
	}
	mutex_unlock(&ep->conn->ctl);
	return err;
}

static struct kfi_ops kfv_ep_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = kfv_ep_close,
	.bind = kfv_ep_bind,
	.control = kfv_ep_control,
	.ops_open = kfi_no_ops_open,
};

static int kfv_ep_getopt(struct kfid *fid, int level, int optname,
			 void *optval, size_t *optlen)
{
	struct kfv_ep *ep = container_of(fid, struct kfv_ep, base.ep.fid);
	size_t value;

	if (level != KFI_OPT_ENDPOINT)
		return -ENOPROTOOPT;
	if (optname == KFI_OPT_CM_DATA_SIZE)
		value = KFV_REQ_DATA;
	else if (optname == KFI_OPT_KEEPALIVE)
		value = READ_ONCE(ep->conn->keepalive_secs);
	else
		return -ENOPROTOOPT;
	if (!optval || !optlen)
		return -EINVAL;
	if (*optlen < sizeof(value))
		return -KFI_ETOOSMALL;
	memcpy(optval, &value, sizeof(value));
	*optlen = sizeof(value);
	return 0;
}

/*
 * conn->lock, since kfv_keepalive_start() needs the state to stay, and an event handler
 * may establish the connection at the same time. The later of the two starts the
 * keepalive. ctl, as in all calls that take conn->lock: a work item that has ctl never
 * waits for a user's thread, see kfv_cm_disconnect_work().
 */
static int kfv_ep_setopt(struct kfid *fid, int level, int optname,
			 const void *optval, size_t optlen)
{
	struct kfv_ep *ep = container_of(fid, struct kfv_ep, base.ep.fid);
	struct kfv_conn *conn = ep->conn;
	size_t seconds;

	if (level != KFI_OPT_ENDPOINT || optname != KFI_OPT_KEEPALIVE)
		return -ENOPROTOOPT;
	if (!optval)
		return -EINVAL;
	if (optlen < sizeof(seconds))
		return -KFI_ETOOSMALL;
	memcpy(&seconds, optval, sizeof(seconds));
	if (seconds > KFV_KEEPALIVE_MAX)
		return -E2BIG;
	if (kfv_gone(ep->domain->dev))
		return -ENODEV;
	mutex_lock(&conn->ctl);
	mutex_lock(&conn->lock);
	WRITE_ONCE(conn->keepalive_secs, seconds);
	kfv_keepalive_start(conn);
	mutex_unlock(&conn->lock);
	mutex_unlock(&conn->ctl);
	return 0;
}

static struct kfi_ops_ep kfv_ep_ops = {
	.size = sizeof(struct kfi_ops_ep),
	.cancel = kfi_no_cancel,
	.getopt = kfv_ep_getopt,
	.setopt = kfv_ep_setopt,
	.tx_ctx = kfi_no_tx_ctx,
	.rx_ctx = kfi_no_rx_ctx,
};

/*
 * The connection request becomes the endpoint's. The event handler changes under the
 * handler lock: an earlier event was for the request, and changed at most the count of
 * requests; a later event finds the connection complete. ctl is not needed, since no
 * other thread knows the endpoint yet.
 */
static int kfv_ep_take_request(struct kfv_ep *ep, struct kfid *handle,
			       struct kfid_fabric *fabric)
{
	struct kfv_conn *conn = ep->conn;
	struct rdma_cm_id *id;

	lockdep_assert_held(&ep->domain->dev->lock);
	id = kfv_req_take(handle, fabric, ep->domain->dev, conn);
	if (IS_ERR(id))
		return PTR_ERR(id);

	rdma_lock_handler(id);
	mutex_lock(&conn->lock);
	conn->id = id;
	WRITE_ONCE(conn->state, KFV_REQUESTED);
	mutex_unlock(&conn->lock);
	id->context = conn;
	id->event_handler = kfv_cm_event;
	rdma_unlock_handler(id);
	return 0;
}

/* The size asked for, or the default, within what one queue pair can hold. */
static int kfv_ep_size(size_t asked, const struct ib_device *ib, size_t *size)
{
	int max = ib->attrs.max_qp_wr - KFV_SPARE_WR;

	*size = asked ? asked : min(KFV_QUEUE_SIZE, max);
	return *size > KFV_QUEUE_MAX || *size > max ? -EINVAL : 0;
}

/* RDMA CM goes by the family and would read past the end of another address. */
static int kfv_ep_addr(struct sockaddr_in *sin, const void *addr, size_t len)
{
	if (!addr || !len)
		return 0;
	if (len < sizeof(*sin) ||
	    ((const struct sockaddr_in *)addr)->sin_family != AF_INET)
		return -EINVAL;
	memcpy(sin, addr, sizeof(*sin));
	return 0;
}

static int kfv_ep_attr(struct kfv_ep *ep, const struct kfi_info *info)
{
	if (info->tx_attr)
		ep->tx_flags = info->tx_attr->op_flags;
	if (info->rx_attr)
		ep->rx_flags = info->rx_attr->op_flags;
	return kfv_ep_addr(&ep->src, info->src_addr, info->src_addrlen) ?:
	       kfv_ep_addr(&ep->dst, info->dest_addr, info->dest_addrlen);
}

/* Without a lock, as it allocates: see kfr_ep_enable(). */
static struct kfv_ep *kfv_ep_new(struct kfv_domain *domain)
{
	struct kfv_ep *ep = kzalloc(sizeof(*ep), GFP_KERNEL_ACCOUNT);

	if (!ep)
		return NULL;
	ep->conn = kzalloc(sizeof(*ep->conn), GFP_KERNEL_ACCOUNT);
	if (!ep->conn) {
		kfree(ep);
		return NULL;
	}
	ep->conn->ep = ep;
	ep->domain = domain;
	return ep;
}

/* The caller has seen domain->pd, which the device's lock keeps: the device is there. */
static int kfv_ep_init(struct kfv_ep *ep, const struct kfi_info *info)
{
	struct kfv_domain *domain = ep->domain;
	const struct ib_device *ib = domain->dev->ib;
	size_t tx_size, rx_size;
	int err;

	lockdep_assert_held(&domain->dev->lock);
	if (kfv_ep_size(info->tx_attr ? info->tx_attr->size : 0, ib,
			&tx_size) ||
	    kfv_ep_size(info->rx_attr ? info->rx_attr->size : 0, ib, &rx_size))
		return -EINVAL;
	err = kfv_ep_attr(ep, info);
	if (!err)
		kfv_conn_init(ep->conn, domain->pd, tx_size, rx_size);
	return err;
}

/*
 * Undoes kfv_ep_new(), and kfv_ep_init() if that was successful. Stopping is what
 * queues the final work item, which holds a reference on the connection and the one on
 * the protection domain.
 */
static void kfv_ep_free(struct kfv_ep *ep)
{
	struct kfv_conn *conn = ep->conn;

	if (conn->pd) {
		mutex_lock(&conn->ctl);
		kfv_conn_stop(conn);
		mutex_unlock(&conn->ctl);
		kfv_conn_put(conn);
	} else {
		kfree(conn);
	}
	kfree(ep);
}

static int kfv_ep_add(struct kfv_ep *ep, const struct kfi_info *info,
		      void *context)
{
	struct kfv_domain *domain = ep->domain;
	int err;

	lockdep_assert_held(&domain->dev->lock);
	if (!domain->pd)
		return -ENODEV;
	/* The memory regions of a domain for RDM endpoints do not fit. */
	if (domain->rdm)
		return -EINVAL;
	err = kfv_ep_init(ep, info);
	if (err)
		return err;
	err = kfi_ep_base_init(&ep->base, &domain->base.domain, KFI_CLASS_EP,
			       &kfv_ep_fid_ops, context);
	if (err)
		return err;
	ep->base.ep.ops = &kfv_ep_ops;
	ep->base.ep.cm = &kfv_ep_cm_ops;
	ep->base.ep.msg = &kfv_msg_ops;
	ep->base.ep.rma = &kfv_rma_ops;
	ep->base.ep.tagged = &kfv_tagged_ops;
	ep->base.ep.atomic = &kfv_atomic_ops;

	/* Last: an error after this would reject the request. */
	if (info->handle) {
		err = kfv_ep_take_request(ep, info->handle,
					  &domain->base.fabric->fabric);
		if (err) {
			kfi_ep_base_fini(&ep->base);
			return err;
		}
	}
	list_add_tail(&ep->link, &domain->eps);
	return 0;
}

/**
 * kfv_ep_open() - kfi_endpoint() for this provider
 * @domain: where to open it
 * @info: with the addresses and the sizes; with a handle it is for accepting
 * that connection request, which it takes over
 * @ep: the new object
 * @context: the user's
 *
 * Context: process.
 * Return: 0; -EINVAL for attributes that cannot be had and for a handle that is
 * no open request; -KFI_EDOMAIN for a request that came through another device;
 * -ENODEV; -ENOMEM.
 */
int kfv_ep_open(struct kfid_domain *domain, struct kfi_info *info,
		struct kfid_ep **ep, void *context)
{
	struct kfv_domain *d = kfv_domain_of(domain);
	struct kfv_ep *new;
	int err;

	if (!info || !ep)
		return -EINVAL;
	if (info->ep_attr && info->ep_attr->type == KFI_EP_RDM)
		return kfr_ep_open(domain, info, ep, context, false);
	if (info->ep_attr && info->ep_attr->type != KFI_EP_UNSPEC &&
	    info->ep_attr->type != KFI_EP_MSG)
		return -KFI_ENOSYS;
	if ((info->tx_attr && info->tx_attr->op_flags & ~KFV_TX_OP_FLAGS) ||
	    (info->rx_attr && info->rx_attr->op_flags & ~KFV_RX_FLAGS))
		return -EINVAL;

	new = kfv_ep_new(d);
	if (!new)
		return -ENOMEM;
	mutex_lock(&d->dev->lock);
	err = kfv_ep_add(new, info, context);
	mutex_unlock(&d->dev->lock);
	if (err)
		kfv_ep_free(new);
	else
		*ep = &new->base.ep;
	return err;
}
