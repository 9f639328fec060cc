// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Connections of active endpoints: connect, accept, shutdown, and the events
 * that RDMA CM reports about them.
 */
#include <linux/in.h>
#include <linux/module.h>
#include <rdma/ib_cm.h>

#include "kfi_verbs.h"

/* How long a device may take to tell the peer of a failure, in jiffies. */
#define KFV_NAK_TIME (HZ / 10)

/* Reports an event on the endpoint. Caller holds conn->lock, not cut. */
static void kfv_conn_report(struct kfv_conn *conn, u32 event, const void *data,
			    size_t len)
{
	union {
		struct kfi_eq_cm_entry entry;
		u8 room[sizeof(struct kfi_eq_cm_entry) + KFI_EQ_DATA_MAX];
	} u = { .entry.fid = &conn->ep->base.ep.fid };
	struct kfi_event ev = { .event = event, .buf = &u };

	len = data ? min_t(size_t, len, KFI_EQ_DATA_MAX) : 0;
	if (len)
		memcpy(u.room + sizeof(u.entry), data, len);
	ev.len = sizeof(u.entry) + len;
	kfi_eq_report(conn->ep->base.eq, &ev);
}

static void kfv_conn_report_err(struct kfv_conn *conn, int err, int prov_errno,
				const void *data, size_t len)
{
	struct kfi_eq_err_entry entry = {
		.fid = &conn->ep->base.ep.fid,
		.context = conn->ep->base.ep.fid.context,
		.err = err,
		.prov_errno = prov_errno,
		.err_data = (void *)data,
		.err_data_size = min_t(size_t, len, KFI_EQ_DATA_MAX),
	};

	kfi_eq_report_err(conn->ep->base.eq, &entry);
}

/* The device is gone. Whether an EQ is bound is for the user to know. */
void kfv_conn_report_loss(struct kfv_conn *conn)
{
	mutex_lock(&conn->lock);
	if (!conn->ep_gone) {
		if (conn->ep->base.eq)
			kfv_conn_report_err(conn, ENODEV, 0, NULL, 0);
		WRITE_ONCE(conn->ep_gone, true);
	}
	mutex_unlock(&conn->lock);
}

/* RDMA CM has put the id on a device that is not the domain's. */
static bool kfv_conn_wrong_device(const struct kfv_conn *conn)
{
	const struct ib_device *ib = conn->id->device;

	return ib && ib != conn->pd->dev->ib;
}

/* The connection did not come about. Caller holds conn->lock. */
static void kfv_conn_fail(struct kfv_conn *conn, int err, int prov_errno,
			  const void *data, size_t len)
{
	WRITE_ONCE(conn->state, KFV_CLOSED);
	kfv_conn_error(conn);
	kfv_conn_report_err(conn, err, prov_errno, data, len);
	if (kfv_conn_wrong_device(conn))
		kfv_conn_queue_disconnect(conn);
}

/*
 * The connection is over. A peer's disconnect request does not touch our queue
 * pair, so it is moved here, or posted receives would stay for ever.
 * Caller holds conn->lock.
 */
static void kfv_conn_disconnect(struct kfv_conn *conn)
{
	WRITE_ONCE(conn->state, KFV_CLOSED);
	kfv_conn_error(conn);
	rdma_disconnect(conn->id);
}

/*
 * rxe completes a failed receive, then tells the peer why, and at last moves the
 * queue pair to its error state. If we move it before, the peer never learns why:
 * its operation comes back flushed. Since 9b4b7c1f9f54 (6.5) a thread does all this,
 * and we can come between; before, a tasklet was faster. Caller holds conn->ctl.
 */
static void kfv_conn_wait_for_nak(struct kfv_conn *conn)
{
	unsigned long limit = jiffies + KFV_NAK_TIME;
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	while (conn->qp && kfv_conn_up(conn) && !READ_ONCE(conn->ep_gone)) {
		if (ib_query_qp(conn->qp, &attr, IB_QP_STATE, &init) ||
		    attr.qp_state == IB_QPS_ERR || time_after(jiffies, limit))
			return;
		usleep_range(50, 100);
	}
}

/*
 * Work item: the queue pair failed, or the id must go (it is on a device that
 * is not the domain's, and would keep that from being removed).
 */
void kfv_cm_disconnect_work(struct work_struct *work)
{
	struct kfv_conn *conn = container_of(work, struct kfv_conn, disconnect);
	struct rdma_cm_id *wrong_id = NULL;

	mutex_lock(&conn->ctl);
	kfv_conn_wait_for_nak(conn);
	mutex_lock(&conn->lock);
	if (!conn->ep_gone && kfv_conn_up(conn)) {
		kfv_conn_disconnect(conn);
		kfv_conn_report(conn, KFI_SHUTDOWN, NULL, 0);
	} else if (conn->state == KFV_CLOSED && conn->id &&
		   kfv_conn_wrong_device(conn)) {
		wrong_id = conn->id;
		conn->id = NULL;
	}
	mutex_unlock(&conn->lock);
	if (wrong_id)
		rdma_destroy_id(wrong_id);
	mutex_unlock(&conn->ctl);
	kfv_conn_put(conn);
	module_put(THIS_MODULE);
}

static int kfv_cm_errno(int status)
{
	switch (status) {
	case -ETIMEDOUT:
	case -ENETUNREACH:
	case -EHOSTUNREACH:
	case -EADDRNOTAVAIL:
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ENOMEM:
		return -status;
	default:
		/* Also -ENODEV: no RDMA device leads there. Ours is not lost. */
		return KFI_EHOSTUNREACH;
	}
}

static void kfv_cm_addr_resolved(struct kfv_conn *conn)
{
	struct rdma_cm_id *id = conn->id;
	int err;

	if (id->device != conn->pd->dev->ib || id->port_num != conn->pd->port) {
		kfv_conn_fail(conn, EHOSTUNREACH, -ENODEV, NULL, 0);
		return;
	}
	err = rdma_resolve_route(id, KFV_RESOLVE_MS);
	if (err)
		kfv_conn_fail(conn, kfv_cm_errno(err), err, NULL, 0);
}

static void kfv_cm_route_resolved(struct kfv_conn *conn)
{
	int err = rdma_connect_locked(conn->id, &conn->param);

	if (err)
		kfv_conn_fail(conn, kfv_cm_errno(err), err, NULL, 0);
}

/* Both sides use what both can do, seen from here. */
static void kfv_cm_negotiate(struct kfv_conn *conn, u8 responder_resources,
			     u8 initiator_depth)
{
	struct rdma_conn_param *param = &conn->param;

	param->responder_resources = min(param->responder_resources,
					 responder_resources);
	param->initiator_depth = min(param->initiator_depth, initiator_depth);
}

static void kfv_cm_response(struct kfv_conn *conn,
			    const struct rdma_conn_param *peer)
{
	int err;

	kfv_cm_negotiate(conn, peer->responder_resources,
			 peer->initiator_depth);
	err = kfv_conn_rts(conn);
	if (!err)
		err = rdma_accept(conn->id, NULL);
	else
		rdma_reject(conn->id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED);
	if (err) {
		kfv_conn_fail(conn, ECONNABORTED, err, NULL, 0);
		return;
	}
	WRITE_ONCE(conn->state, KFV_CONNECTED);
	kfv_keepalive_start(conn);
	kfv_conn_report(conn, KFI_CONNECTED, peer->private_data,
			peer->private_data_len);
}

static void kfv_cm_established(struct kfv_conn *conn,
			       const struct rdma_conn_param *peer)
{
	bool active = conn->state == KFV_CONNECTING;

	if (!active && conn->state != KFV_ACCEPTED)
		return;
	WRITE_ONCE(conn->state, KFV_CONNECTED);
	kfv_keepalive_start(conn);
	kfv_conn_report(conn, KFI_CONNECTED,
			active ? peer->private_data : NULL,
			active ? peer->private_data_len : 0);
}

/* Nobody listens, or somebody does not want to: both refuse. */
static int kfv_reject_errno(int reason)
{
	if (reason < 0)
		return kfv_cm_errno(reason);
	switch (reason) {
	case IB_CM_REJ_TIMEOUT:
		return KFI_ETIMEDOUT;
	case IB_CM_REJ_STALE_CONN:
		return KFI_ECONNRESET;
	default:
		return KFI_ECONNREFUSED;
	}
}

static void kfv_cm_disconnected(struct kfv_conn *conn)
{
	if (!kfv_conn_up(conn))
		return;
	kfv_conn_disconnect(conn);
	kfv_conn_report(conn, KFI_SHUTDOWN, NULL, 0);
}

/*
 * A peer that closes before our confirmation has reached it refuses what
 * stands already on this side.
 */
static void kfv_cm_rejected(struct kfv_conn *conn, struct rdma_cm_event *event)
{
	const void *data;
	u8 len = 0;

	if (conn->state != KFV_CONNECTING && conn->state != KFV_ACCEPTED) {
		kfv_cm_disconnected(conn);
		return;
	}
	data = rdma_consumer_reject_data(conn->id, event, &len);
	if (conn->state == KFV_CONNECTING)
		kfv_conn_fail(conn, kfv_reject_errno(event->status),
			      event->status, data, data ? len : 0);
	else
		kfv_conn_fail(conn, ECONNABORTED, event->status, NULL, 0);
}

/* Before the connection stands this is its failure, later its end. */
static void kfv_cm_failed(struct kfv_conn *conn, int status)
{
	if (conn->state == KFV_CONNECTING || conn->state == KFV_ACCEPTED)
		kfv_conn_fail(conn, kfv_cm_errno(status), status, NULL, 0);
	else
		kfv_cm_disconnected(conn);
}

static void kfv_cm_dispatch(struct kfv_conn *conn, struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		kfv_cm_addr_resolved(conn);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		kfv_cm_route_resolved(conn);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		kfv_cm_response(conn, &event->param.conn);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		kfv_cm_established(conn, &event->param.conn);
		break;
	case RDMA_CM_EVENT_REJECTED:
		kfv_cm_rejected(conn, event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		kfv_cm_failed(conn, event->status);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		kfv_cm_disconnected(conn);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/* Our own comes as kfv_conn_report_loss(). */
		if (conn->state == KFV_CONNECTING && kfv_conn_wrong_device(conn))
			kfv_conn_fail(conn, EHOSTUNREACH, -ENODEV, NULL, 0);
		break;
	default:
		break;
	}
}

/* Runs under the id's handler lock, on the one thread of RDMA CM. */
int kfv_cm_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct kfv_conn *conn = id->context;

	mutex_lock(&conn->lock);
	if (!conn->ep_gone && conn->id == id)
		kfv_cm_dispatch(conn, event);
	mutex_unlock(&conn->lock);
	return 0;
}

/* What the protocol cannot carry is cut, as kfabric wants it. */
static void kfv_conn_set_data(struct kfv_conn *conn, const void *data,
			      size_t len, size_t limit)
{
	len = data ? min(len, limit) : 0;
	if (len)
		memcpy(conn->data, data, len);
	conn->param.private_data = len ? conn->data : NULL;
	conn->param.private_data_len = len;
}

static int kfv_connect_check(struct kfv_ep *ep)
{
	if (kfv_gone(ep->domain->dev))
		return -ENODEV;
	switch (ep->conn->state) {
	case KFV_IDLE:
		return 0;
	case KFV_CONNECTING:
		return -EALREADY;
	case KFV_ACCEPTED:
	case KFV_CONNECTED:
		return -EISCONN;
	default:
		return -KFI_EOPBADSTATE;
	}
}

static int kfv_connect_start(struct kfv_ep *ep)
{
	struct kfv_conn *conn = ep->conn;
	struct sockaddr *src = ep->src.sin_family ?
			       (struct sockaddr *)&ep->src : NULL;
	struct rdma_cm_id *id;
	int err;

	id = rdma_create_id(&init_net, kfv_cm_event, conn, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);

	/* Events may come before rdma_resolve_addr() returns. */
	mutex_lock(&conn->lock);
	conn->id = id;
	WRITE_ONCE(conn->state, KFV_CONNECTING);
	mutex_unlock(&conn->lock);
	err = rdma_resolve_addr(id, src, (struct sockaddr *)&ep->dst,
				KFV_RESOLVE_MS);
	if (!err)
		return 0;

	mutex_lock(&conn->lock);
	conn->id = NULL;
	WRITE_ONCE(conn->state, KFV_IDLE);
	mutex_unlock(&conn->lock);
	rdma_destroy_id(id);
	return err == -ENODEV ? -EADDRNOTAVAIL : err;
}

static int kfv_ep_connect(struct kfid_ep *fid, const void *addr,
			  const void *param, size_t paramlen)
{
	struct kfv_ep *ep = kfv_ep_of(fid);
	const struct sockaddr_in *dst = addr ? addr : &ep->dst;
	struct kfv_conn *conn = ep->conn;
	int err;

	if (dst->sin_family != AF_INET)
		return -EINVAL;

	mutex_lock(&conn->ctl);
	err = kfv_connect_check(ep);
	if (!err)
		err = kfv_ep_enable(ep);
	if (!err) {
		ep->dst = *dst;
		kfv_conn_set_data(conn, param, paramlen, KFV_REQ_DATA);
		err = kfv_connect_start(ep);
	}
	mutex_unlock(&conn->ctl);
	return err;
}

/*
 * RDMA CM wants its handler lock held here: the peer's answer must not come in
 * between. conn->id stays, since conn->ctl is held.
 */
static int kfv_accept_start(struct kfv_conn *conn)
{
	struct rdma_cm_id *id = conn->id;
	int err;

	rdma_lock_handler(id);
	mutex_lock(&conn->lock);
	WRITE_ONCE(conn->state, KFV_ACCEPTED);
	err = kfv_conn_rts(conn);
	if (err)
		rdma_reject(id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED);
	else
		err = rdma_accept(id, &conn->param);
	if (err) {
		WRITE_ONCE(conn->state, KFV_CLOSED);
		kfv_conn_error(conn);
	}
	mutex_unlock(&conn->lock);
	rdma_unlock_handler(id);
	/* The request is valid, so the peer has given up meanwhile. */
	return err == -EINVAL ? -ECONNABORTED : err;
}

static int kfv_ep_accept(struct kfid_ep *fid, const void *param,
			 size_t paramlen)
{
	struct kfv_ep *ep = kfv_ep_of(fid);
	struct kfv_conn *conn = ep->conn;
	int err;

	mutex_lock(&conn->ctl);
	if (kfv_gone(ep->domain->dev))
		err = -ENODEV;
	else if (conn->state != KFV_REQUESTED)
		err = -KFI_EOPBADSTATE;
	else
		err = kfv_ep_enable(ep);
	if (!err) {
		kfv_conn_set_data(conn, param, paramlen, KFV_REP_DATA);
		err = kfv_accept_start(conn);
	}
	mutex_unlock(&conn->ctl);
	return err;
}

/* Only the peer gets an event: whoever calls this knows. */
static int kfv_ep_shutdown(struct kfid_ep *fid, u64 flags)
{
	struct kfv_ep *ep = kfv_ep_of(fid);
	struct kfv_conn *conn = ep->conn;
	int err = 0;

	if (flags & ~(KFI_READ | KFI_WRITE))
		return -EINVAL;
	if (flags)
		return -KFI_ENOSYS;

	mutex_lock(&conn->ctl);
	mutex_lock(&conn->lock);
	if (kfv_gone(ep->domain->dev))
		err = -ENODEV;
	else if (!kfv_conn_up(conn))
		err = -ENOTCONN;
	else
		kfv_conn_disconnect(conn);
	mutex_unlock(&conn->lock);
	mutex_unlock(&conn->ctl);
	return err;
}

static int kfv_ep_setname(kfid_t fid, void *addr, size_t addrlen)
{
	struct kfv_ep *ep = container_of(fid, struct kfv_ep, base.ep.fid);
	const struct sockaddr_in *sin = addr;
	int err = 0;

	if (!addr || addrlen != sizeof(*sin) || sin->sin_family != AF_INET)
		return -EINVAL;
	mutex_lock(&ep->conn->ctl);
	if (kfv_gone(ep->domain->dev))
		err = -ENODEV;
	else if (ep->conn->state != KFV_IDLE || ep->base.enabled)
		err = -KFI_EOPBADSTATE;
	else
		ep->src = *sin;
	mutex_unlock(&ep->conn->ctl);
	return err;
}

/* Once RDMA CM has an id, it knows the address; before, we have what was asked. */
static int kfv_ep_getname(struct kfid *fid, void *addr, size_t *addrlen)
{
	struct kfv_ep *ep = container_of(fid, struct kfv_ep, base.ep.fid);
	struct kfv_conn *conn = ep->conn;
	struct sockaddr_in sin = { 0 };

	mutex_lock(&conn->ctl);
	mutex_lock(&conn->lock);
	if (conn->state != KFV_STOPPED && conn->id)
		memcpy(&sin, &conn->id->route.addr.src_addr, sizeof(sin));
	else
		sin = ep->src;
	mutex_unlock(&conn->lock);
	mutex_unlock(&conn->ctl);
	if (kfv_gone(ep->domain->dev))
		return -ENODEV;
	if (sin.sin_family != AF_INET)
		return -KFI_EOPBADSTATE;
	return kfv_copy_addr(addr, addrlen, &sin);
}

static int kfv_ep_getpeer(struct kfid_ep *fid, void *addr, size_t *addrlen)
{
	struct kfv_ep *ep = kfv_ep_of(fid);
	struct kfv_conn *conn = ep->conn;
	struct sockaddr_in sin = { 0 };
	bool up;

	mutex_lock(&conn->ctl);
	mutex_lock(&conn->lock);
	up = kfv_conn_up(conn);
	if (up)
		memcpy(&sin, &conn->id->route.addr.dst_addr, sizeof(sin));
	mutex_unlock(&conn->lock);
	mutex_unlock(&conn->ctl);
	if (kfv_gone(ep->domain->dev))
		return -ENODEV;
	return up ? kfv_copy_addr(addr, addrlen, &sin) : -ENOTCONN;
}

struct kfi_ops_cm kfv_ep_cm_ops = {
	.size = sizeof(struct kfi_ops_cm),
	.setname = kfv_ep_setname,
	.getname = kfv_ep_getname,
	.getpeer = kfv_ep_getpeer,
	.connect = kfv_ep_connect,
	.listen = kfi_no_listen,
	.accept = kfv_ep_accept,
	.reject = kfi_no_reject,
	.shutdown = kfv_ep_shutdown,
	.join = kfi_no_join,
};
