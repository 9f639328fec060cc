// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Nodes: an IP address of a port, with its listener, its endpoints and its
 * connections.
 *
 * Connections are shared by all endpoints of an address. A listener's port can
 * be bound once for an address, so two domains of one device could not both
 * listen there anyway; and the number of queue pairs follows that of machines,
 * not of endpoints.
 */
#include <linux/in.h>
#include <linux/slab.h>

#include "rdm.h"

static ushort rdm_port = 7473;
module_param(rdm_port, ushort, 0444);
MODULE_PARM_DESC(rdm_port, "port at which RDM endpoints of all nodes find each other");

static unsigned int rdm_max_conns = 1024;
module_param(rdm_max_conns, uint, 0644);
MODULE_PARM_DESC(rdm_max_conns, "connections of one address, from which on there are no new ones (each takes 1.3 MB)");

static LIST_HEAD(kfr_nodes);		/* kfv_lock */

__be16 kfr_cm_port(void)
{
	return htons(rdm_port);
}

static void kfr_node_release(struct kref *ref)
{
	kfree(container_of(ref, struct kfr_node, ref));
}

/* The memory. Any context. */
void kfr_node_put(struct kfr_node *node)
{
	kref_put(&node->ref, kfr_node_release);
}

/* Its device half: connections hold it. Process context. */
void kfr_node_unuse(struct kfr_node *node)
{
	struct kfv_device *dev = node->dev;

	if (!refcount_dec_and_test(&node->halves))
		return;
	kfv_device_unuse(dev);
}

/* Runs under the handler locks of the listener and of the new id. */
static int kfr_listen_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
		return 0;
	return kfr_conn_arrive(id->context, id, event);
}

static int kfr_node_listen(struct kfr_node *node)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_port = kfr_cm_port(),
		.sin_addr.s_addr = node->ip,
	};
	struct rdma_cm_id *id;
	int err;

	id = rdma_create_id(&init_net, kfr_listen_event, node, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	err = rdma_bind_addr(id, (struct sockaddr *)&sin);
	if (!err && (id->device != node->dev->ib || id->port_num != node->port))
		err = -EADDRNOTAVAIL;
	if (!err)
		err = rdma_listen(id, KFV_BACKLOG);
	if (err) {
		rdma_destroy_id(id);
		return err == -ENODEV ? -EADDRNOTAVAIL : err;
	}
	node->listener = id;
	return 0;
}

/* Caller holds kfv_lock. */
static struct kfr_node *kfr_node_new(struct kfv_device *dev, u32 port,
				     __be32 ip)
{
	struct kfr_node *node = kzalloc(sizeof(*node), GFP_KERNEL_ACCOUNT);
	int err;

	if (!node)
		return ERR_PTR(-ENOMEM);
	kref_init(&node->ref);
	refcount_set(&node->halves, 1);
	spin_lock_init(&node->lock);
	INIT_LIST_HEAD(&node->conns);
	INIT_LIST_HEAD(&node->eps);
	node->dev = dev;
	node->port = port;
	node->ip = ip;
	kfv_device_use(dev);
	err = kfr_node_listen(node);
	if (err) {
		kfr_node_unuse(node);
		kfr_node_put(node);
		return ERR_PTR(err);
	}
	list_add_tail(&node->link, &kfr_nodes);
	return node;
}

/*
 * No new connections, and the end of the old ones, which is left to work items.
 * Caller holds kfv_lock.
 */
static void kfr_node_stop(struct kfr_node *node)
{
	struct kfr_conn *conn;

	if (!node->listener)
		return;
	list_del(&node->link);
	/* After this none arrives any more. */
	rdma_destroy_id(node->listener);
	node->listener = NULL;

	spin_lock_irq(&node->lock);
	node->closing = true;
	while (!list_empty(&node->conns)) {
		conn = list_first_entry(&node->conns, struct kfr_conn, link);
		kfr_conn_get(conn);
		spin_unlock_irq(&node->lock);
		kfr_conn_close(conn);
		kfr_conn_put(conn);
		spin_lock_irq(&node->lock);
	}
	spin_unlock_irq(&node->lock);
	kfr_node_unuse(node);
}

static bool kfr_id_taken(const struct kfr_node *node, u16 id, u32 auth)
{
	const struct kfr_ep *ep;

	list_for_each_entry(ep, &node->eps, node_link)
		if (ep->addr.id == id && ep->auth == auth)
			return true;
	return false;
}

/* Numbers of 8-byte addresses are small ones. */
static u16 kfr_free_id(struct kfr_node *node, const struct kfr_ep *ep)
{
	bool cxi = ep->rdm->format.format == KFI_ADDR_CXI;
	u32 first = cxi ? 1 : KFR_ID_FIRST, end = cxi ? KFR_PID_MAX : U16_MAX;
	u32 id;

	for (id = first; id <= end; id++)
		if (!kfr_id_taken(node, id, ep->auth))
			return id;
	return 0;
}

static int kfr_node_add(struct kfr_node *node, struct kfr_ep *ep)
{
	u16 id = ep->addr.id;
	int err = 0;

	spin_lock_irq(&node->lock);
	if (!id)
		id = kfr_free_id(node, ep);
	if (!id || kfr_id_taken(node, id, ep->auth)) {
		err = -EADDRINUSE;
	} else {
		ep->addr.id = id;
		ep->node = node;
		list_add_tail(&ep->node_link, &node->eps);
	}
	spin_unlock_irq(&node->lock);
	return err;
}

static struct kfr_node *kfr_node_find(const struct kfv_device *dev, __be32 ip)
{
	struct kfr_node *node;

	list_for_each_entry(node, &kfr_nodes, link)
		if (node->dev == dev && node->ip == ip)
			return node;
	return NULL;
}

/* An endpoint less. Caller holds kfv_lock. */
static void kfr_node_drop(struct kfr_node *node)
{
	if (!--node->users) {
		kfr_node_stop(node);
		kfr_node_put(node);
	}
	kfr_node_put(node);
}

/**
 * kfr_node_get() - an endpoint is enabled: it has an address from now on
 * @ep: the endpoint
 *
 * Context: process; caller holds kfv_lock and the endpoint's ctl; the device is
 * there.
 * Return: 0; -EADDRINUSE: another one has its number, or another module the
 * port; -EADDRNOTAVAIL: it is no address of the device; -ENOMEM.
 */
int kfr_node_get(struct kfr_ep *ep)
{
	struct kfv_domain *domain = ep->rdm->domain;
	struct kfr_node *node;
	int err;

	node = kfr_node_find(domain->dev, ep->addr.ip);
	if (!node)
		node = kfr_node_new(domain->dev, domain->pd->port,
				    ep->addr.ip);
	if (IS_ERR(node))
		return PTR_ERR(node);
	node->users++;
	kref_get(&node->ref);
	err = kfr_node_add(node, ep);
	if (err)
		kfr_node_drop(node);
	return err;
}

/* The endpoint is closed, and hidden. Caller holds kfv_lock. */
void kfr_node_leave(struct kfr_ep *ep)
{
	if (ep->node)
		kfr_node_drop(ep->node);
	ep->node = NULL;
}

/* Messages find the context from now on. */
void kfr_node_show(struct kfr_ep *ep, struct kfr_rx *rx)
{
	spin_lock_irq(&ep->node->lock);
	ep->live[rx->index] = rx;
	spin_unlock_irq(&ep->node->lock);
}

/* And no more. */
void kfr_node_hide_rx(struct kfr_ep *ep, struct kfr_rx *rx)
{
	if (!ep->node)
		return;
	spin_lock_irq(&ep->node->lock);
	ep->live[rx->index] = NULL;
	spin_unlock_irq(&ep->node->lock);
}

/* Messages do not find the endpoint any more. */
void kfr_node_hide(struct kfr_ep *ep)
{
	if (!ep->node)
		return;
	spin_lock_irq(&ep->node->lock);
	list_del_init(&ep->node_link);
	memset(ep->live, 0, sizeof(ep->live));
	spin_unlock_irq(&ep->node->lock);
}

static struct kfr_rx *kfr_ep_rx(struct kfr_ep *ep, unsigned int index)
{
	struct kfr_rx *rx = index < KFR_CTX_MAX ? ep->live[index] : NULL;

	return rx && refcount_inc_not_zero(&rx->busy) ? rx : NULL;
}

/**
 * kfr_node_rx() - the context that a message is for
 * @node: where it arrived
 * @hdr: the message
 *
 * Context: any.
 * Return: the context, busy until kfr_rx_put(); or NULL: there is none, or the
 * sender has another authorisation key.
 */
struct kfr_rx *kfr_node_rx(struct kfr_node *node, const struct kfr_hdr *hdr)
{
	u16 id = le16_to_cpu(hdr->dst);
	u32 auth = le32_to_cpu(hdr->auth);
	struct kfr_rx *rx = NULL;
	struct kfr_ep *ep;
	unsigned long irq;

	spin_lock_irqsave(&node->lock, irq);
	list_for_each_entry(ep, &node->eps, node_link) {
		if (ep->addr.id != id || ep->auth != auth)
			continue;
		rx = kfr_ep_rx(ep, le16_to_cpu(hdr->rx));
		break;
	}
	spin_unlock_irqrestore(&node->lock, irq);
	return rx;
}

static struct kfr_conn *kfr_conn_find(struct kfr_node *node, __be32 remote,
				      bool passive)
{
	struct kfr_conn *conn;

	list_for_each_entry(conn, &node->conns, link) {
		if (conn->remote != remote || conn->stale ||
		    READ_ONCE(conn->state) == KFR_DEAD)
			continue;
		if (remote != node->ip || conn->passive == passive)
			return conn;
	}
	return NULL;
}

/* The half of a connection to ourselves that waits for this request. */
struct kfr_conn *kfr_node_waiting(struct kfr_node *node, u32 cookie)
{
	struct kfr_conn *conn, *found = NULL;

	spin_lock_irq(&node->lock);
	list_for_each_entry(conn, &node->conns, link) {
		if (READ_ONCE(conn->state) == KFR_WAITING &&
		    conn->cookie == cookie) {
			found = conn;
			kfr_conn_get(conn);
			break;
		}
	}
	spin_unlock_irq(&node->lock);
	return found;
}

/*
 * A peer that has a connection does not begin one. So for the peer, those that
 * stand here are over, as when a cable was out for a while: only one side has
 * noticed. What is under way on them ends by itself. (Where both begin at the
 * same time, the messages of one move to the other's connection.) Caller holds
 * the node's lock.
 */
void kfr_node_supersede(struct kfr_node *node, __be32 remote)
{
	struct kfr_conn *conn;

	list_for_each_entry(conn, &node->conns, link)
		if (conn->remote == remote &&
		    READ_ONCE(conn->state) != KFR_CONNECTING)
			conn->stale = true;
}

/*
 * A connection to oneself has both its ends here: both are made now. Caller
 * holds the node's lock.
 */
static struct kfr_conn *kfr_conn_begin(struct kfr_node *node, __be32 remote,
				       bool passive)
{
	struct kfr_conn *conn, *twin = NULL;

	conn = kfr_conn_new(node, remote, false);
	if (!conn)
		return ERR_PTR(-ENOMEM);
	if (remote == node->ip) {
		twin = kfr_conn_new(node, remote, true);
		if (!twin) {
			kfr_conn_discard(conn);
			return ERR_PTR(-ENOMEM);
		}
		kfr_conn_pair(conn, twin);
		list_add_tail(&twin->link, &node->conns);
	}
	list_add_tail(&conn->link, &node->conns);
	conn->cookie = ++node->cookie;
	if (twin)
		twin->cookie = conn->cookie;
	kfr_conn_start(conn);
	return passive ? twin : conn;
}

/* With those that are being destroyed. One is the node's own. */
static bool kfr_node_full(const struct kfr_node *node)
{
	return refcount_read(&node->halves) > READ_ONCE(rdm_max_conns);
}

/**
 * kfr_node_conn() - the connection for a message
 * @node: where it starts
 * @from: the sending endpoint
 * @to: the receiving one
 *
 * Two endpoints of one node use the two ends of one connection, so that their
 * messages carry each other's answers.
 *
 * Context: any.
 * Return: the connection, referenced; -ENODEV; -ENOMEM; -EAGAIN: there are as
 * many as there may be.
 */
struct kfr_conn *kfr_node_conn(struct kfr_node *node, struct kfr_addr from,
			       struct kfr_addr to)
{
	bool passive = to.ip == node->ip && from.id > to.id;
	struct kfr_conn *conn;
	unsigned long irq;

	spin_lock_irqsave(&node->lock, irq);
	if (node->closing) {
		conn = ERR_PTR(-ENODEV);
	} else {
		conn = kfr_conn_find(node, to.ip, passive);
		if (!conn && to.ip != node->ip && kfr_node_full(node))
			conn = ERR_PTR(-EAGAIN);
		if (!conn)
			conn = kfr_conn_begin(node, to.ip, passive);
		if (!IS_ERR(conn))
			kfr_conn_get(conn);
	}
	spin_unlock_irqrestore(&node->lock, irq);
	return conn;
}

/* What a peer has left over, or means no good with: it needs one, or two. */
static struct kfr_conn *kfr_conn_oldest(struct kfr_node *node, __be32 remote)
{
	struct kfr_conn *conn, *oldest = NULL;
	unsigned int n = 0;

	spin_lock_irq(&node->lock);
	list_for_each_entry(conn, &node->conns, link) {
		/* One of ours that a newer one of its has replaced counts as its. */
		if (conn->remote != remote || !(conn->passive || conn->stale))
			continue;
		if (!n++)
			oldest = conn;
	}
	if (n < KFR_PEER_CONNS)
		oldest = NULL;
	if (oldest)
		kfr_conn_get(oldest);
	spin_unlock_irq(&node->lock);
	return oldest;
}

/**
 * kfr_node_make_room() - may a peer have another connection?
 * @node: here
 * @remote: the peer; its oldest one goes if it has many
 *
 * Context: process.
 */
bool kfr_node_make_room(struct kfr_node *node, __be32 remote)
{
	struct kfr_conn *oldest;

	if (remote == node->ip)
		return true;
	oldest = kfr_conn_oldest(node, remote);
	if (oldest) {
		kfr_conn_abort(oldest, EHOSTUNREACH, KFR_ERR_CLOSED);
		kfr_conn_put(oldest);
	}
	return !kfr_node_full(node);
}

/* Collects the contexts of an endpoint. Caller holds the node's lock. */
static void kfr_ep_collect(struct kfr_ep *ep, struct list_head *list)
{
	struct kfr_rx *rx;
	unsigned int i;

	for (i = 0; i < ep->nrx; i++) {
		rx = kfr_ep_rx(ep, i);
		if (rx)
			list_add_tail(&rx->forgetting, list);
	}
}

/* The connection is dead: no context has to do with it any more. Process. */
void kfr_node_forget(struct kfr_node *node, struct kfr_conn *conn)
{
	static DEFINE_MUTEX(one);	/* kfr_rx.forgetting */
	struct kfr_rx *rx, *next;
	struct kfr_ep *ep;
	LIST_HEAD(busy);

	mutex_lock(&one);
	spin_lock_irq(&node->lock);
	list_for_each_entry(ep, &node->eps, node_link)
		kfr_ep_collect(ep, &busy);
	spin_unlock_irq(&node->lock);
	list_for_each_entry_safe(rx, next, &busy, forgetting) {
		kfr_rx_forget(rx, conn);
		list_del(&rx->forgetting);
		kfr_rx_put(rx);
	}
	mutex_unlock(&one);
}

static void kfr_node_break_one(struct kfr_node *node, const struct kfr_rx *rx,
			 const struct kfr_tx *tx, const struct kfr_mr *mr)
{
	struct kfr_conn *conn, *found;

	do {
		found = NULL;
		spin_lock_irq(&node->lock);
		list_for_each_entry(conn, &node->conns, link) {
			if (!kfr_conn_serves(conn, rx, tx, mr))
				continue;
			found = conn;
			kfr_conn_get(conn);
			break;
		}
		spin_unlock_irq(&node->lock);
		if (found) {
			kfr_conn_abort(found, ENOTCONN, KFR_ERR_LOCAL);
			kfr_conn_put(found);
		}
	} while (found);
}

/**
 * kfr_node_break() - end the connections that keep something busy
 * @node: the node, or NULL for all of them
 * @rx: a context that is closing, or NULL
 * @tx: a context that is closing, or NULL
 * @mr: a region that is closing, or NULL
 *
 * Context: process.
 */
void kfr_node_break(struct kfr_node *node, const struct kfr_rx *rx,
		    const struct kfr_tx *tx, const struct kfr_mr *mr)
{
	if (node) {
		kfr_node_break_one(node, rx, tx, mr);
		return;
	}
	mutex_lock(&kfv_lock);
	list_for_each_entry(node, &kfr_nodes, link)
		kfr_node_break_one(node, rx, tx, mr);
	mutex_unlock(&kfv_lock);
}

/* The device goes. Caller holds kfv_lock; who uses it waits for the work items. */
void kfr_strip(const struct kfv_device *dev)
{
	struct kfr_node *node, *next;

	list_for_each_entry_safe(node, next, &kfr_nodes, link)
		if (node->dev == dev)
			kfr_node_stop(node);
}
