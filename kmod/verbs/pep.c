// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Passive endpoints, and the connection requests that come in through them.
 *
 * A request belongs to its event until the event is read, then to the ULP that has
 * read it: an endpoint takes the request over (kfv_req_take()), or it is rejected.
 * The first to take it out of the table, under kfv_dev_lock, owns it from then on. A
 * request in the table holds the fabric open, until its owner is done with it.
 *
 * A passive endpoint counts its requests, so that a peer's event costs the same however
 * many requests the machine has. A request counts until it is answered or its peer has
 * given up: peers that come and go keep no other peer away. If the peer gives up while
 * the event is unread, the event is taken back, so that it keeps neither memory nor a
 * place in the EQ.
 *
 * RDMA CM's id of a request is attached to a device, which the request uses as long as it
 * has the id. A removal destroys the id and leaves a request without one, because an
 * unread event or the ULP may still hold its handle. In all other cases a work item
 * destroys the id: RDMA CM waits until the device has sent the reject, which may take for
 * ever, and no close and no exit may wait for that.
 */
#include <linux/hashtable.h>
#include <linux/in.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_cm.h>

#include "kfi_verbs.h"

/*
 * Read or not, ended or not. A device that is late to send rejects keeps those that
 * ended, and each may take one of its address handles (rxe has 32767).
 */
static unsigned int max_connreqs = 4096;
module_param(max_connreqs, uint, 0644);
MODULE_PARM_DESC(max_connreqs, "connection requests on a device of one user, or of one passive endpoint of a module");

/* The list of passive endpoints. */
static DEFINE_MUTEX(kfv_pep_lock);
static LIST_HEAD(kfv_peps);		/* kfv_pep_lock */
static DEFINE_HASHTABLE(kfv_reqs, 10);	/* by address of the fid; kfv_dev_lock */

/* The handle may be any pointer: it is compared, never followed. */
static struct kfv_req *kfv_req_find(const struct kfid *handle)
{
	struct kfv_req *req;

	lockdep_assert_held(&kfv_dev_lock);
	hash_for_each_possible(kfv_reqs, req, node, (unsigned long)handle)
		if (&req->fid == handle)
			return req;
	return NULL;
}

/* The request leaves its place to another one. It may have left it before. */
static void kfv_req_uncount(struct kfv_req *req)
{
	lockdep_assert_held(&kfv_dev_lock);
	if (!req->pep)
		return;
	list_del(&req->link);
	req->pep->nr_waiting--;
	req->pep = NULL;
}

/* Takes a request out of the table; it is the caller's after that. */
static void kfv_req_unhash(struct kfv_req *req)
{
	lockdep_assert_held(&kfv_dev_lock);
	hash_del(&req->node);
	kfv_req_uncount(req);
}

/* The same by its handle. Return: NULL if there is no such request. */
static struct kfv_req *kfv_req_remove(const struct kfid *handle)
{
	struct kfv_req *req;

	mutex_lock(&kfv_dev_lock);
	req = kfv_req_find(handle);
	if (req)
		kfv_req_unhash(req);
	mutex_unlock(&kfv_dev_lock);
	return req;
}

/* The request has no id any more. The removal of the device may return at once. */
static void kfv_req_unuse(const struct kfv_req *req)
{
	kfv_uncount(&req->dev->waiting, req->owner, 1);
	kfv_device_unuse(req->dev);
}

/*
 * It is the owner's turn. The removal of the device waits: the request uses it. On a
 * device that is being removed, kfv_id_destroy() sends the reject, without the data
 * (cm_destroy_id() in drivers/infiniband/core/cm.c).
 */
static void kfv_req_free(struct kfv_turn *turn)
{
	struct kfv_req *req = container_of(turn, struct kfv_req, turn);

	if (!kfv_gone(req->dev))
		rdma_reject(req->id, req->reject, req->reject_len,
			    IB_CM_REJ_CONSUMER_DEFINED);
	kfv_id_destroy(req->dev, req->id);
	kfv_req_unuse(req);
	kfree(req);
}

/*
 * Rejects and frees a request that is out of the table, and is the caller's. No reject is
 * waited for, and they go out one at a time, however many end at once.
 */
static void kfv_req_end(struct kfv_req *req)
{
	struct kfid_fabric *fabric = req->fabric;

	if (req->id) {
		req->turn.owner = req->owner;
		req->turn.run = kfv_req_free;
		kfv_turn_wait(req->dev, &req->turn);
	} else {
		kfree(req);
	}
	kfi_fid_put(&fabric->fid);
}

static int kfv_req_close(struct kfid *fid)
{
	struct kfv_req *req = kfv_req_remove(fid);

	if (!req)
		return -EINVAL;
	kfv_req_end(req);
	return 0;
}

static struct kfi_ops kfv_req_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = kfv_req_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

/**
 * kfv_req_take() - an endpoint takes over a connection request
 * @handle: kfi_info.handle of the event
 * @fabric: of the endpoint
 * @dev: device of the endpoint
 * @conn: of the endpoint: gets the count of the request, and its depths are lowered to
 *	those of the peer
 *
 * Context: process; caller holds @dev->lock, and a domain on @dev uses the device. So no
 * removal comes between taking the id out of the table of requests and putting the
 * endpoint on the list of its domain.
 * Return: RDMA CM's id, now the caller's; or -EINVAL, -ENODEV (the device of the
 * request is gone), -KFI_EDOMAIN, and the request stays in the table.
 */
struct rdma_cm_id *kfv_req_take(struct kfid *handle,
				const struct kfid_fabric *fabric,
				struct kfv_device *dev, struct kfv_conn *conn)
{
	struct rdma_conn_param *param = &conn->param;
	struct rdma_cm_id *id;
	struct kfv_req *req;

	lockdep_assert_held(&dev->lock);
	mutex_lock(&kfv_dev_lock);
	req = kfv_req_find(handle);
	if (!req || req->fabric != fabric)
		id = ERR_PTR(-EINVAL);
	else if (!req->id)
		id = ERR_PTR(-ENODEV);
	else if (req->dev != dev)
		id = ERR_PTR(-KFI_EDOMAIN);
	else
		id = req->id;
	if (!IS_ERR(id))
		kfv_req_unhash(req);
	mutex_unlock(&kfv_dev_lock);
	if (IS_ERR(id))
		return id;

	param->responder_resources = min(param->responder_resources,
					 req->responder_resources);
	param->initiator_depth = min(param->initiator_depth,
				     req->initiator_depth);
	conn->asker = req->owner;
	kfv_device_unuse(dev);
	/* A domain of the endpoint holds the fabric, too. */
	kfi_fid_put(&req->fabric->fid);
	kfree(req);
	return id;
}

static struct rdma_cm_id *kfv_req_detach_one(struct kfv_device *dev,
					     const struct hlist_head *bucket)
{
	struct rdma_cm_id *id = NULL;
	struct kfv_req *req;

	mutex_lock(&kfv_dev_lock);
	hlist_for_each_entry(req, bucket, node) {
		if (req->id && req->dev == dev) {
			id = req->id;
			req->id = NULL;
			kfv_uncount(&dev->waiting, req->owner, 1);
			break;
		}
	}
	mutex_unlock(&kfv_dev_lock);
	return id;
}

/**
 * kfv_req_detach() - destroy the ids of the requests on a device
 * @dev: the device, off the list of devices, so that no request is added
 *
 * One at a time, because kfv_dev_lock may not be held while an id is destroyed. A
 * bucket without such ids gets no new one, so each bucket is finished once.
 *
 * Context: process; no lock is held, as this waits for the device. Domains of @dev are
 * detached, so that no endpoint takes a request over.
 */
void kfv_req_detach(struct kfv_device *dev)
{
	struct rdma_cm_id *id;
	int i;

	for (i = 0; i < HASH_SIZE(kfv_reqs); i++) {
		while ((id = kfv_req_detach_one(dev, &kfv_reqs[i]))) {
			kfv_id_destroy(dev, id);
			kfv_device_unuse(dev);
		}
	}
}

/*
 * The peer of a request gives up. A request that was read stays its reader's. So does an
 * unread one of a device that is being removed, which may be the peer's, too: then the
 * removal ends both. A work item, since rdma_destroy_id() waits until kfv_req_event() has
 * returned.
 */
static void kfv_req_give_up(struct kfv_req *req)
{
	struct kfi_eq_slot slot;

	lockdep_assert_held(&kfv_dev_lock);
	if (!req->pep || kfv_gone(req->dev) ||
	    !kfi_pep_take_request(&req->pep->base, &req->fid, &slot)) {
		kfv_req_uncount(req);
		return;
	}
	kfi_freeinfo(((struct kfi_eq_cm_entry *)slot.payload)->info);
	kfv_req_unhash(req);
	kfv_req_end(req);
}

/*
 * The peer gives up before the answer: the answer then fails by itself. The request may
 * be answered, and even be freed, by another thread meanwhile. So it is looked up: the
 * context is its handle, and with @id it is not taken for a later one at that address.
 * ADDR_CHANGE is of this side's network device, and says nothing about the peer.
 */
static int kfv_req_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct kfv_req *req;

	if (event->event == RDMA_CM_EVENT_ADDR_CHANGE)
		return 0;
	mutex_lock(&kfv_dev_lock);
	req = kfv_req_find(id->context);
	if (req && req->id == id)
		kfv_req_give_up(req);
	mutex_unlock(&kfv_dev_lock);
	return 0;
}

/* The event is discarded unread: what it owns goes, and the peer gets a reject. */
static void kfv_req_drop_event(u32 event, void *buf)
{
	struct kfi_eq_cm_entry *entry = buf;

	kfi_close(entry->info->handle);
	kfi_freeinfo(entry->info);
}

/* The info of the event. The handler lock of @id keeps it and its device. */
static struct kfi_info *kfv_req_info(struct kfv_req *req,
				     const struct rdma_cm_id *id)
{
	const struct rdma_addr *addr = &id->route.addr;
	struct kfi_info *info;

	info = kfv_info_new(id->device, id->port_num);
	if (IS_ERR(info))
		return NULL;
	info->handle = &req->fid;
	if (kfv_info_addr(&info->src_addr, &info->src_addrlen,
			  (const struct sockaddr_in *)&addr->src_addr) ||
	    kfv_info_addr(&info->dest_addr, &info->dest_addrlen,
			  (const struct sockaddr_in *)&addr->dst_addr)) {
		kfi_freeinfo(info);
		return NULL;
	}
	return info;
}

/*
 * On success the event owns the info, and through its handle the request: the ULP may
 * have read and answered it before this returns. So nothing touches @req after.
 */
static int kfv_req_report(struct kfv_pep *pep, struct kfv_req *req,
			  const struct rdma_cm_id *id, const void *data,
			  size_t len)
{
	union {
		struct kfi_eq_cm_entry entry;
		u8 room[sizeof(struct kfi_eq_cm_entry) + KFI_EQ_DATA_MAX];
	} u = { .entry.fid = &pep->base.pep.fid };
	struct kfi_event event = {
		.event = KFI_CONNREQ,
		.buf = &u,
		.drop = kfv_req_drop_event,
		.request = &req->fid,
	};
	int err;

	u.entry.info = kfv_req_info(req, id);
	if (!u.entry.info)
		return -ENOMEM;
	len = data ? min_t(size_t, len, KFI_EQ_DATA_MAX) : 0;
	if (len)
		memcpy(u.room + sizeof(u.entry), data, len);
	event.len = sizeof(u.entry) + len;
	err = kfi_pep_report(&pep->base, &event);
	if (err)
		kfi_freeinfo(u.entry.info);
	return err;
}

static struct kfv_req *kfv_req_new(struct kfv_pep *pep, struct rdma_cm_id *id,
				   const struct rdma_conn_param *param)
{
	struct kfv_req *req = kzalloc(sizeof(*req), GFP_KERNEL);

	if (!req)
		return NULL;
	kfi_fid_init(&req->fid, KFI_CLASS_CONNREQ, NULL, &kfv_req_fid_ops);
	req->fabric = &pep->base.fabric->fabric;
	req->owner = pep->base.owner;
	req->id = id;
	req->responder_resources = param->responder_resources;
	req->initiator_depth = param->initiator_depth;
	return req;
}

/*
 * RDMA CM has no limit of its own: the backlog of rdma_listen() only matters for
 * iWARP. Requests count whether their event is read or not.
 */
static bool kfv_pep_full(const struct kfv_pep *pep)
{
	lockdep_assert_held(&kfv_dev_lock);
	return pep->nr_waiting >= pep->backlog;
}

static void kfv_req_count(struct kfv_req *req, struct kfv_pep *pep)
{
	lockdep_assert_held(&kfv_dev_lock);
	req->pep = pep;
	list_add_tail(&req->link, &pep->waiting);
	pep->nr_waiting++;
}

/* The requests outlive the passive endpoint, until they are answered. */
static void kfv_pep_forget_reqs(struct kfv_pep *pep)
{
	struct kfv_req *req, *next;

	mutex_lock(&kfv_dev_lock);
	list_for_each_entry_safe(req, next, &pep->waiting, link)
		kfv_req_uncount(req);
	mutex_unlock(&kfv_dev_lock);
}

/*
 * A peer's connection request. After an error RDMA CM destroys the new id, which sends
 * a reject, except for -ENOMEM: then the peer repeats the request (cm_destroy_id()).
 * So an id may not be known to any other thread when an error is returned.
 *
 * The report comes last, since the ULP may answer at once: kfi_endpoint() then waits
 * in rdma_lock_handler() until this handler is done.
 */
static int kfv_req_add(struct kfv_pep *pep, struct rdma_cm_id *id,
		       const struct rdma_conn_param *param)
{
	struct kfv_device *dev;
	struct kfv_req *req;
	int err = 0;

	req = kfv_req_new(pep, id, param);
	if (!req)
		return -ENOMEM;

	/*
	 * Under kfv_dev_lock a removal either finds the request in the table, or
	 * has taken the device off its list before.
	 */
	mutex_lock(&kfv_dev_lock);
	dev = kfv_device_find(id->device);
	if (!dev) {
		err = -ENODEV;
	} else if (kfv_pep_full(pep)) {
		err = -EAGAIN;
	} else {
		err = kfv_count(&dev->waiting, req->owner, 1,
				READ_ONCE(max_connreqs), GFP_KERNEL);
	}
	if (!err) {
		/* The passive endpoint holds it open, so this succeeds. */
		kfi_fid_get(&req->fabric->fid);
		req->dev = dev;
		kfv_device_use(dev);
		id->context = &req->fid;
		id->event_handler = kfv_req_event;
		hash_add(kfv_reqs, &req->node, (unsigned long)&req->fid);
		kfv_req_count(req, pep);
	}
	mutex_unlock(&kfv_dev_lock);
	if (err) {
		kfree(req);
		return err;
	}

	err = kfv_req_report(pep, req, id, param->private_data,
			     param->private_data_len);
	if (!err)
		return 0;
	/*
	 * Only a removal can have touched the request: its handle is not known
	 * to the ULP, and the fabric is open. If the removal has taken the id, it
	 * waits for this handler and then destroys the id; RDMA CM must not.
	 */
	kfv_req_remove(&req->fid);
	if (req->id)
		kfv_req_unuse(req);
	else
		err = 0;
	kfi_fid_put(&req->fabric->fid);
	kfree(req);
	return err;
}

/*
 * Runs under the handler locks of the listener and of the new id (cma_ib_req_handler()
 * in drivers/infiniband/core/cma.c). id->context is the listener's.
 */
static int kfv_pep_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	if (!kfv_path_ok(id))
		return -EINVAL;
	return kfv_req_add(id->context, id, &event->param.conn);
}

/*
 * An address that belongs to a device binds the listener to it. A device that is not on
 * the list of devices is not served, or is being removed: the removal may have looked
 * at this passive endpoint before, and would not destroy the listener. A removal that
 * begins after this waits for @pep->ctl, and finds the listener.
 */
static int kfv_pep_bind_addr(struct kfv_pep *pep, struct rdma_cm_id *id)
{
	bool served;
	int err;

	lockdep_assert_held(&pep->ctl);
	err = kfv_bind_addr(id, &pep->addr);
	if (err)
		return err;
	if (!id->device)
		return 0;
	mutex_lock(&kfv_dev_lock);
	served = kfv_device_find(id->device);
	mutex_unlock(&kfv_dev_lock);
	return served ? 0 : -ENODEV;
}

/* Requests may come before rdma_listen() returns; they do not need pep->id. */
static int kfv_pep_start(struct kfv_pep *pep)
{
	struct rdma_cm_id *id;
	int err;

	lockdep_assert_held(&pep->ctl);
	id = rdma_create_id(&init_net, kfv_pep_event, pep, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	err = kfv_pep_bind_addr(pep, id);
	if (!err)
		err = rdma_listen(id, pep->backlog);
	if (err) {
		rdma_destroy_id(id);
		return err;
	}
	pep->id = id;
	return 0;
}

static int kfv_pep_listen(struct kfid_pep *fid)
{
	struct kfv_pep *pep = container_of(fid, struct kfv_pep, base.pep);
	int err;

	mutex_lock(&pep->ctl);
	if (pep->lost)
		err = -ENODEV;
	else if (!pep->base.eq)
		err = -KFI_ENOEQ;
	else if (pep->id)
		err = -KFI_EOPBADSTATE;
	else
		err = kfv_pep_start(pep);
	mutex_unlock(&pep->ctl);
	return err;
}

/* As with a close, the request is gone on return, except after -EINVAL. */
static int kfv_pep_reject(struct kfid_pep *pep, kfid_t handle,
			  const void *param, size_t paramlen)
{
	struct kfv_req *req;
	bool lost;

	if (!handle)
		return -EINVAL;
	req = kfv_req_remove(handle);
	if (!req)
		return -EINVAL;
	lost = !req->id;
	if (param) {
		req->reject_len = min_t(size_t, paramlen, sizeof(req->reject));
		memcpy(req->reject, param, req->reject_len);
	}
	kfv_req_end(req);
	return lost ? -ENODEV : 0;
}

static int kfv_pep_setname(kfid_t fid, void *addr, size_t addrlen)
{
	struct kfv_pep *pep = container_of(fid, struct kfv_pep, base.pep.fid);
	const struct sockaddr_in *sin = addr;
	int err = 0;

	if (!addr || addrlen != sizeof(*sin) || sin->sin_family != AF_INET)
		return -EINVAL;
	mutex_lock(&pep->ctl);
	if (pep->lost)
		err = -ENODEV;
	else if (pep->id)
		err = -KFI_EOPBADSTATE;
	else
		pep->addr = *sin;
	mutex_unlock(&pep->ctl);
	return err;
}

/* For port 0 RDMA CM chooses one when listening starts. */
static int kfv_pep_getname(struct kfid *fid, void *addr, size_t *addrlen)
{
	struct kfv_pep *pep = container_of(fid, struct kfv_pep, base.pep.fid);
	struct sockaddr_in sin;
	bool lost;

	mutex_lock(&pep->ctl);
	if (pep->id)
		memcpy(&sin, &pep->id->route.addr.src_addr, sizeof(sin));
	else
		sin = pep->addr;
	lost = pep->lost;
	mutex_unlock(&pep->ctl);
	return lost ? -ENODEV : kfv_copy_addr(addr, addrlen, &sin);
}

static int kfv_pep_control(struct kfid *fid, int command, void *arg)
{
	struct kfv_pep *pep = container_of(fid, struct kfv_pep, base.pep.fid);
	int err = 0;

	if (command != KFI_BACKLOG)
		return -KFI_ENOSYS;
	if (!arg || *(int *)arg <= 0)
		return -EINVAL;
	mutex_lock(&pep->ctl);
	if (pep->id)
		err = -KFI_EOPBADSTATE;
	else
		pep->backlog = *(int *)arg;
	mutex_unlock(&pep->ctl);
	return err;
}

static int kfv_pep_bind(struct kfid *fid, struct kfid *bfid, u64 flags)
{
	struct kfv_pep *pep = container_of(fid, struct kfv_pep, base.pep.fid);

	return kfi_pep_base_bind(&pep->base, bfid, flags);
}

/*
 * Off the list first: after that no removal uses the passive endpoint, and ctl is not
 * needed any more. rdma_destroy_id() waits for handlers of the listener, so that no
 * request is added after it, and the remaining ones can be forgotten.
 * kfi_pep_base_fini() then discards the unread events, which rejects their requests.
 */
static int kfv_pep_close(struct kfid *fid)
{
	struct kfv_pep *pep = container_of(fid, struct kfv_pep, base.pep.fid);
	int err;

	err = kfi_fid_kill(fid);
	if (err)
		return err;

	mutex_lock(&kfv_pep_lock);
	list_del(&pep->link);
	mutex_unlock(&kfv_pep_lock);
	if (pep->id)
		rdma_destroy_id(pep->id);
	kfv_pep_forget_reqs(pep);
	kfi_pep_base_fini(&pep->base);
	mutex_destroy(&pep->ctl);
	kfree(pep);
	return 0;
}

/* A listener on the wildcard address has no device. */
static bool kfv_pep_on_device(const struct kfv_pep *pep,
			      const struct kfv_device *dev)
{
	lockdep_assert_held(&pep->ctl);
	return pep->id && pep->id->device == dev->ib;
}

/**
 * kfv_pep_lose() - report the loss of a device to its listeners
 * @dev: the device
 *
 * A passive endpoint that listens on all devices is not affected.
 *
 * Context: process; caller holds @dev->lock; takes kfv_pep_lock and each ctl.
 */
void kfv_pep_lose(const struct kfv_device *dev)
{
	struct kfi_eq_err_entry entry = { .err = ENODEV };
	struct kfv_pep *pep;

	lockdep_assert_held(&dev->lock);
	mutex_lock(&kfv_pep_lock);
	list_for_each_entry(pep, &kfv_peps, link) {
		mutex_lock(&pep->ctl);
		if (kfv_pep_on_device(pep, dev)) {
			pep->lost = true;
			entry.fid = &pep->base.pep.fid;
			entry.context = entry.fid->context;
			kfi_pep_report_err(&pep->base, &entry);
		}
		mutex_unlock(&pep->ctl);
	}
	mutex_unlock(&kfv_pep_lock);
}

/**
 * kfv_pep_detach() - destroy the listeners on a device
 * @dev: the device; its loss is reported
 *
 * Context: process; caller holds @dev->lock; takes kfv_pep_lock and each ctl. Waits for
 * event handlers, which take none of these.
 */
void kfv_pep_detach(const struct kfv_device *dev)
{
	struct kfv_pep *pep;

	lockdep_assert_held(&dev->lock);
	mutex_lock(&kfv_pep_lock);
	list_for_each_entry(pep, &kfv_peps, link) {
		mutex_lock(&pep->ctl);
		if (kfv_pep_on_device(pep, dev)) {
			rdma_destroy_id(pep->id);
			pep->id = NULL;
		}
		mutex_unlock(&pep->ctl);
	}
	mutex_unlock(&kfv_pep_lock);
}

static struct kfi_ops kfv_pep_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = kfv_pep_close,
	.bind = kfv_pep_bind,
	.control = kfv_pep_control,
	.ops_open = kfi_no_ops_open,
};

static int kfv_pep_getopt(struct kfid *fid, int level, int optname,
			  void *optval, size_t *optlen)
{
	return -ENOPROTOOPT;
}

static int kfv_pep_setopt(struct kfid *fid, int level, int optname,
			  const void *optval, size_t optlen)
{
	return -ENOPROTOOPT;
}

static struct kfi_ops_ep kfv_pep_ops = {
	.size = sizeof(struct kfi_ops_ep),
	.cancel = kfi_no_cancel,
	.getopt = kfv_pep_getopt,
	.setopt = kfv_pep_setopt,
	.tx_ctx = kfi_no_tx_ctx,
	.rx_ctx = kfi_no_rx_ctx,
};

static struct kfi_ops_cm kfv_pep_cm_ops = {
	.size = sizeof(struct kfi_ops_cm),
	.setname = kfv_pep_setname,
	.getname = kfv_pep_getname,
	.getpeer = kfi_no_getpeer,
	.connect = kfi_no_connect,
	.listen = kfv_pep_listen,
	.accept = kfi_no_accept,
	.reject = kfv_pep_reject,
	.shutdown = kfi_no_shutdown,
	.join = kfi_no_join,
};

/**
 * kfv_pep_open() - kfi_passive_ep() for this provider
 * @fabric: where to open it
 * @info: with the address to listen on; without one, all of them and any port
 * @ret: the new object
 * @context: the user's
 *
 * Context: process.
 * Return: 0, -EINVAL for an address that is no sockaddr_in, -ENOMEM.
 */
int kfv_pep_open(struct kfid_fabric *fabric, struct kfi_info *info,
		 struct kfid_pep **ret, void *context)
{
	struct kfv_pep *pep;
	int err;

	if (!info || !ret)
		return -EINVAL;
	pep = kzalloc(sizeof(*pep), GFP_KERNEL_ACCOUNT);
	if (!pep)
		return -ENOMEM;
	pep->addr.sin_family = AF_INET;
	err = -EINVAL;
	if (info->src_addr && info->src_addrlen) {
		if (info->src_addrlen < sizeof(pep->addr))
			goto err;
		memcpy(&pep->addr, info->src_addr, sizeof(pep->addr));
	}
	if (pep->addr.sin_family != AF_INET)
		goto err;
	err = kfi_pep_base_init(&pep->base, fabric, &kfv_pep_fid_ops, context);
	if (err)
		goto err;
	mutex_init(&pep->ctl);
	pep->backlog = KFV_BACKLOG;
	INIT_LIST_HEAD(&pep->waiting);
	pep->base.pep.ops = &kfv_pep_ops;
	pep->base.pep.cm = &kfv_pep_cm_ops;

	mutex_lock(&kfv_pep_lock);
	list_add_tail(&pep->link, &kfv_peps);
	mutex_unlock(&kfv_pep_lock);
	*ret = &pep->base.pep;
	return 0;

err:
	kfree(pep);
	return err;
}
