// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Connections of active endpoints: connect, accept, shutdown, and the events
 * that RDMA CM reports about them.
 *
 * RDMA CM serialises the events of one id by the handler lock of that id. Events of
 * different ids run at the same time, and beside the calls of the API: address and
 * route on the work queue "rdma_cm", messages of the peer on "ib_cm", the removal
 * of a device in the thread that removes it. conn->lock is what they share with
 * the calls of the API.
 *
 * RDMA CM does not know the queue pair, which is not made by rdma_create_qp(): receives
 * may be posted from kfi_enable() on, before there is an id. So the transitions that RDMA
 * CM makes for its own queue pairs are made here and in conn.c.
 */
#include <linux/in.h>
#include <linux/module.h>
#include <rdma/ib_cm.h>

#include "kfi_verbs.h"

/* How long a device may take to send the NAK of a failed receive, in jiffies. */
#define KFV_NAK_TIME (HZ / 10)
/*
 * How long a work item leaves kfv_conn.ctl to its holder at first; doubled up to HZ. So
 * the end of a connection that has failed may be reported so much later.
 */
#define KFV_CTL_TIME (HZ / 100)

/*
 * Reports an event on the endpoint. The caller has seen conn->ep_gone false under
 * conn->lock, which keeps the endpoint and its EQ until the lock is released.
 *
 * The EQ has KFI_EP_EVENTS slots for the endpoint, and no connection reports more: one
 * event shows how connecting ended, one its end, one the loss of the device.
 */
static void kfv_conn_report(struct kfv_conn *conn, u32 event, const void *data,
			    size_t len)
{
	union {
		struct kfi_eq_cm_entry entry;
		u8 room[sizeof(struct kfi_eq_cm_entry) + KFI_EQ_DATA_MAX];
	} u = { .entry.fid = &conn->ep->base.ep.fid };
	struct kfi_event ev = { .event = event, .buf = &u };

	lockdep_assert_held(&conn->lock);
	len = data ? min_t(size_t, len, KFI_EQ_DATA_MAX) : 0;
	if (len)
		memcpy(u.room + sizeof(u.entry), data, len);
	ev.len = sizeof(u.entry) + len;
	WARN_ON_ONCE(kfi_ep_report(&conn->ep->base, &ev));
}

/* The same for an error event. The core copies @data. */
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

	lockdep_assert_held(&conn->lock);
	WARN_ON_ONCE(kfi_ep_report_err(&conn->ep->base, &entry));
}

/**
 * kfv_conn_report_loss() - report that the device of a connection is gone
 * @conn: the connection; posting and reporting on the device have ended
 *
 * An endpoint without an EQ has nowhere to report it. No event comes after this
 * one, since it sets conn->ep_gone.
 *
 * Context: process. The caller keeps the endpoint: it is on the list of its domain
 * and the device's lock is held.
 */
void kfv_conn_report_loss(struct kfv_conn *conn)
{
	lockdep_assert_held(&conn->pd->dev->lock);
	mutex_lock(&conn->lock);
	if (!conn->ep_gone) {
		if (conn->ep->base.eq)
			kfv_conn_report_err(conn, ENODEV, 0, NULL, 0);
		WRITE_ONCE(conn->ep_gone, true);
	}
	mutex_unlock(&conn->lock);
}

/*
 * RDMA CM chooses the device of an id by the route to the peer, and that need not be
 * the device of the domain. Such an id keeps the other device from being removed.
 */
static bool kfv_conn_wrong_device(const struct kfv_conn *conn)
{
	const struct ib_device *ib = conn->id->device;

	lockdep_assert_held(&conn->lock);
	return ib && ib != conn->pd->dev->ib;
}

/*
 * A message is about to be sent that RDMA CM repeats until the peer answers. Without
 * memory it is not counted, since no connection has to stay up for want of it. Return: 0;
 * -EAGAIN: as many of the user wait for an answer as may.
 */
static int kfv_conn_ask(struct kfv_conn *conn)
{
	int err;

	lockdep_assert_held(&conn->lock);
	if (!conn->user || conn->asks)
		return 0;
	err = kfv_ask(conn->pd->dev, conn->user, UINT_MAX);
	conn->asks = !err;
	return err == -EAGAIN ? err : 0;
}

/* The mirror: the peer has answered, or RDMA CM has given up. */
static void kfv_conn_answered(struct kfv_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	if (conn->asks)
		kfv_answered(conn->pd->dev, conn->user);
	conn->asks = false;
}

/*
 * Connecting has failed: receives that are posted already are flushed, and the error
 * is reported. An id on another device is left to the work item, because this may
 * be an event handler of that id, where rdma_destroy_id() would deadlock.
 */
static void kfv_conn_fail(struct kfv_conn *conn, int err, int prov_errno,
			  const void *data, size_t len)
{
	lockdep_assert_held(&conn->lock);
	WRITE_ONCE(conn->state, KFV_CLOSED);
	kfv_conn_answered(conn);
	kfv_conn_error(conn);
	kfv_conn_report_err(conn, err, prov_errno, data, len);
	if (kfv_conn_wrong_device(conn))
		kfv_conn_queue_disconnect(conn);
}

/*
 * Ends an established connection. RDMA CM moves only queue pairs that it has made
 * (cma_modify_qp_err() in drivers/infiniband/core/cma.c), not even after a peer's
 * disconnect request. So it is moved here; otherwise posted receives would never
 * be flushed. The state changes first: a post that runs at the same time either
 * fails or is flushed.
 */
static void kfv_conn_end(struct kfv_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	WRITE_ONCE(conn->state, KFV_CLOSED);
	kfv_conn_error(conn);
}

/*
 * The same, and the peer is sent a disconnect request. If too many of the user wait for
 * an answer, kfv_id_destroy() sends it, when the endpoint is closed. rdma_disconnect() does
 * not wait.
 */
static void kfv_conn_disconnect(struct kfv_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	kfv_conn_end(conn);
	conn->ending = !kfv_conn_ask(conn);
	if (conn->ending)
		rdma_disconnect(conn->id);
}

/*
 * rxe completes a failed receive, then sends the NAK with the reason, and then moves
 * the queue pair to its error state. If the queue pair were moved here before the
 * NAK is sent, the peer would not get the reason: its operation would be flushed.
 * Since 9b4b7c1f9f54 (6.5) a work queue does all this, and this thread can run in
 * between; before, a tasklet did, which was faster. A device that does not move the
 * queue pair itself costs KFV_NAK_TIME.
 */
static void kfv_conn_wait_for_nak(struct kfv_conn *conn)
{
	unsigned long limit = jiffies + KFV_NAK_TIME;
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;

	lockdep_assert_held(&conn->ctl);
	while (conn->qp && kfv_conn_up(conn) && !READ_ONCE(conn->ep_gone)) {
		if (ib_query_qp(conn->qp, &attr, IB_QP_STATE, &init) ||
		    attr.qp_state == IB_QPS_ERR || time_after(jiffies, limit))
			return;
		usleep_range(50, 100);
	}
}

/**
 * kfv_cm_disconnect_work() - end a connection that failed
 * @work: kfv_conn.disconnect
 *
 * Two cases. An operation failed on an established connection: it is disconnected,
 * and both sides get KFI_SHUTDOWN. Or RDMA CM put the id on a device other than
 * that of the domain: the id is destroyed. conn->id is NULL before conn->lock is
 * released, so that no event handler and no call uses it any more.
 *
 * If the endpoint is closed meanwhile, neither applies: the state is KFV_STOPPED.
 *
 * A caller that holds conn->ctl may get no CPU for long. It is not waited for here: the
 * queue runs KFV_WORK_MAX items of all users.
 *
 * Context: work item, with a reference on the connection and on the module.
 */
void kfv_cm_disconnect_work(struct work_struct *work)
{
	struct kfv_conn *conn = container_of(to_delayed_work(work),
					     struct kfv_conn, disconnect);
	struct rdma_cm_id *wrong_id = NULL;

	if (!mutex_trylock(&conn->ctl)) {
		conn->ctl_time = clamp_t(unsigned long, 2 * conn->ctl_time,
					 KFV_CTL_TIME, HZ);
		queue_delayed_work(kfv_wq, &conn->disconnect, conn->ctl_time);
		return;
	}
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

/* The errno to report for an error of RDMA CM. */
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
		/*
		 * Also for -ENODEV: no RDMA device leads there. Only the loss
		 * of the domain's own device is reported as ENODEV.
		 */
		return KFI_EHOSTUNREACH;
	}
}

/* From here on the id is attached to a device, perhaps to the wrong one. */
static void kfv_cm_addr_resolved(struct kfv_conn *conn)
{
	struct rdma_cm_id *id = conn->id;
	int err;

	lockdep_assert_held(&conn->lock);
	if (id->device != conn->pd->dev->ib || id->port_num != conn->pd->port) {
		kfv_conn_fail(conn, EHOSTUNREACH, -ENODEV, NULL, 0);
		return;
	}
	err = rdma_resolve_route(id, KFV_RESOLVE_MS);
	if (err)
		kfv_conn_fail(conn, kfv_cm_errno(err), err, NULL, 0);
}

/* rdma_connect() would take the handler lock, which the caller holds. */
static void kfv_cm_route_resolved(struct kfv_conn *conn)
{
	int err;

	lockdep_assert_held(&conn->lock);
	err = rdma_connect_locked(conn->id, &conn->param);
	if (err)
		kfv_conn_fail(conn, kfv_cm_errno(err), err, NULL, 0);
}

/* The queue pair is ready to send, and posting may begin. */
static void kfv_conn_set_up(struct kfv_conn *conn, enum kfv_state state)
{
	lockdep_assert_held(&conn->lock);
	/* Pairs with kfv_conn_up(): a thread that sees the state sees what came before. */
	smp_store_release(&conn->state, state);
}

/*
 * The peer has accepted. The number of RDMA reads in flight becomes the smaller one
 * of both sides before the queue pair is moved, which takes it over. The queue pair
 * is ready before rdma_accept() confirms: after that the peer may send at once.
 *
 * rdma_accept() with an error has rejected already (its label "reject").
 */
static void kfv_cm_response(struct kfv_conn *conn,
			    const struct rdma_conn_param *peer)
{
	struct rdma_conn_param *param = &conn->param;
	int err;

	lockdep_assert_held(&conn->lock);
	param->responder_resources = min(param->responder_resources,
					 peer->responder_resources);
	param->initiator_depth = min(param->initiator_depth,
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
	kfv_conn_set_up(conn, KFV_CONNECTED);
	kfv_conn_answered(conn);
	kfv_keepalive_start(conn);
	kfv_conn_report(conn, KFI_CONNECTED, peer->private_data,
			peer->private_data_len);
}

/*
 * The peer has confirmed an accept, by its message or by its first data. The latter
 * may come first, and then the event comes once: see kfv_qp_event().
 */
static void kfv_cm_established(struct kfv_conn *conn,
			       const struct rdma_conn_param *peer)
{
	bool active = conn->state == KFV_CONNECTING;

	lockdep_assert_held(&conn->lock);
	/* It was shut down before: only now RDMA CM can send the request. */
	if (conn->state == KFV_CLOSED && conn->ending)
		rdma_disconnect(conn->id);
	if (!active && conn->state != KFV_ACCEPTED)
		return;
	kfv_conn_set_up(conn, KFV_CONNECTED);
	kfv_conn_answered(conn);
	kfv_keepalive_start(conn);
	kfv_conn_report(conn, KFI_CONNECTED,
			active ? peer->private_data : NULL,
			active ? peer->private_data_len : 0);
}

/* A missing listener and a listener that rejects give the same errno. */
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

/*
 * May come after kfi_shutdown(): then the state is KFV_CLOSED, and no event is due.
 * rdma_disconnect() sends the answer here, which is not repeated.
 */
static void kfv_cm_disconnected(struct kfv_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	kfv_conn_answered(conn);
	if (!kfv_conn_up(conn))
		return;
	kfv_conn_end(conn);
	rdma_disconnect(conn->id);
	kfv_conn_report(conn, KFI_SHUTDOWN, NULL, 0);
}

/*
 * A reject may come for an established connection, too: the peer closes its endpoint
 * before it has got our confirmation. Then it is a disconnect.
 */
static void kfv_cm_rejected(struct kfv_conn *conn, struct rdma_cm_event *event)
{
	const void *data;
	u8 len = 0;

	lockdep_assert_held(&conn->lock);
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

/* A failure to connect before the connection is established, later its end. */
static void kfv_cm_failed(struct kfv_conn *conn, int status)
{
	lockdep_assert_held(&conn->lock);
	if (conn->state == KFV_CONNECTING || conn->state == KFV_ACCEPTED)
		kfv_conn_fail(conn, kfv_cm_errno(status), status, NULL, 0);
	else
		kfv_cm_disconnected(conn);
}

static void kfv_cm_dispatch(struct kfv_conn *conn, struct rdma_cm_event *event)
{
	lockdep_assert_held(&conn->lock);
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		kfv_cm_addr_resolved(conn);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		kfv_cm_route_resolved(conn);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		/* A failure, or kfi_shutdown(), may have come before. */
		if (conn->state == KFV_CONNECTING)
			kfv_cm_response(conn, &event->param.conn);
		else
			rdma_reject(conn->id, NULL, 0,
				    IB_CM_REJ_CONSUMER_DEFINED);
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
		/* The peer repeats its request until it is answered. */
		if (conn->state == KFV_CLOSED)
			rdma_disconnect(conn->id);
		kfv_cm_disconnected(conn);
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		/*
		 * Of a device other than the domain's. That of the domain is
		 * removed from us first: kfv_conn_report_loss().
		 */
		if (conn->state == KFV_CONNECTING && kfv_conn_wrong_device(conn))
			kfv_conn_fail(conn, EHOSTUNREACH, -ENODEV, NULL, 0);
		break;
	default:
		break;
	}
}

/**
 * kfv_cm_event() - event handler of an id
 * @id: the id
 * @event: what happened
 *
 * An event may come when the connection has another id or none: conn->id is taken
 * away before the id is destroyed. The connection itself is valid: it is freed by
 * the work item that destroys the id, and rdma_destroy_id() waits for this handler.
 *
 * Context: process, in a thread of RDMA CM; the handler lock of @id is held. The id
 * may not be destroyed here.
 * Return: 0; anything else would make RDMA CM destroy the id.
 */
int kfv_cm_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct kfv_conn *conn = id->context;

	mutex_lock(&conn->lock);
	if (!conn->ep_gone && conn->id == id)
		kfv_cm_dispatch(conn, event);
	mutex_unlock(&conn->lock);
	return 0;
}

/* Data longer than the message has room for is cut, as kfabric's callers expect. */
static void kfv_conn_set_data(struct kfv_conn *conn, const void *data,
			      size_t len, size_t limit)
{
	lockdep_assert_held(&conn->ctl);
	len = data ? min(len, limit) : 0;
	if (len)
		memcpy(conn->data, data, len);
	conn->param.private_data = len ? conn->data : NULL;
	conn->param.private_data_len = len;
}

/*
 * An event handler may change the state at the same time, but never back to
 * KFV_IDLE: the caller that sees it under ctl may connect.
 */
static int kfv_connect_check(struct kfv_ep *ep)
{
	lockdep_assert_held(&ep->conn->ctl);
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
	struct rdma_cm_id *id;
	int err;

	lockdep_assert_held(&conn->ctl);
	id = rdma_create_id(&init_net, kfv_cm_event, conn, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);

	/* Events may come before rdma_resolve_addr() returns. */
	mutex_lock(&conn->lock);
	err = kfv_conn_ask(conn);
	if (!err) {
		conn->id = id;
		WRITE_ONCE(conn->state, KFV_CONNECTING);
	}
	mutex_unlock(&conn->lock);
	/* While a port is in use here, no node can listen there. */
	if (!err)
		err = kfv_bind_addr(id, &ep->src);
	if (!err)
		err = rdma_resolve_addr(id, NULL, (struct sockaddr *)&ep->dst,
					KFV_RESOLVE_MS);
	if (!err)
		return 0;

	/* An event handler that runs now sees another id, and does nothing. */
	mutex_lock(&conn->lock);
	conn->id = NULL;
	/* An event may have failed the connection, which stays so. */
	if (conn->state == KFV_CONNECTING)
		WRITE_ONCE(conn->state, KFV_IDLE);
	kfv_conn_answered(conn);
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
		err = kfv_port_check(dst);
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
 * rdma_accept() asserts the handler lock: the peer's answer must not be handled
 * before the state is set. conn->ctl keeps conn->id. The queue pair is ready to
 * receive before the peer gets the reply, since it may send at once; and it is ready to
 * send before the state allows posting, since the ULP may post in another thread.
 */
static int kfv_accept_start(struct kfv_conn *conn)
{
	struct rdma_cm_id *id = conn->id;
	int err;

	lockdep_assert_held(&conn->ctl);
	rdma_lock_handler(id);
	mutex_lock(&conn->lock);
	kfi_test_hook_point(KFI_HOOK_D8, conn->ep->base.id);
	err = kfv_conn_rts(conn);
	if (err) {
		rdma_reject(id, NULL, 0, IB_CM_REJ_CONSUMER_DEFINED);
	} else {
		kfv_conn_set_up(conn, KFV_ACCEPTED);
		err = rdma_accept(id, &conn->param);
	}
	if (err) {
		WRITE_ONCE(conn->state, KFV_CLOSED);
		kfv_conn_error(conn);
	}
	mutex_unlock(&conn->lock);
	rdma_unlock_handler(id);
	/* EINVAL of rdma_accept(): the peer has given up, see its check of state. */
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

/* Only the peer gets an event: the caller knows without one. */
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
		err = kfv_conn_ask(conn);
	if (!err)
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

/*
 * With an id the address is RDMA CM's choice, before it is the one asked for. After
 * KFV_STOPPED the work item may destroy the id at any time.
 */
static int kfv_ep_getname(struct kfid *fid, void *addr, size_t *addrlen)
{
	struct kfv_ep *ep = container_of(fid, struct kfv_ep, base.ep.fid);
	struct kfv_conn *conn = ep->conn;
	struct sockaddr_in sin = { 0 };

	mutex_lock(&conn->ctl);
	if (READ_ONCE(conn->state) != KFV_STOPPED && conn->id)
		memcpy(&sin, &conn->id->route.addr.src_addr, sizeof(sin));
	else
		sin = ep->src;
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
	up = kfv_conn_up(conn);
	if (up)
		memcpy(&sin, &conn->id->route.addr.dst_addr, sizeof(sin));
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
