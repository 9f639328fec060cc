// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Nodes: an IP address of a port, with its listener, its endpoints and its
 * connections.
 *
 * Enabling an endpoint joins it to the node of its address (kfr_node_get()),
 * which begins to listen with the first one. A message to be sent finds its
 * connection here, or begins one (kfr_node_conn()); an arriving one finds its
 * context (kfr_node_rx()).
 *
 * All endpoints of an address share its connections. Two listeners cannot have
 * the same address and port, so domains of one device could not both listen
 * there; and the number of queue pairs grows with the number of machines, not
 * of endpoints.
 *
 * A node has an xarray of connections, of endpoints and of receive contexts.
 * They hold no references. A context is hidden before it closes, and a
 * connection unlinked before it is destroyed. A function that uses a connection
 * without the node's lock counts it under the lock first. A context is found
 * without a lock, in a read section of kfv_srcu: its close waits for those.
 *
 * The connections with one peer are next to one another: the index is the peer's
 * address and one of KFR_SLOTS numbers. A connection keeps its index until it is
 * destroyed, since receive contexts name it by that (flow.c).
 *
 * End of a node: with its last endpoint, or with the device (kfr_strip()). Both
 * destroy the listener, after which no callback adds a connection, and close
 * all connections. Their work items drop the last uses of the device.
 */
#include <linux/in.h>
#include <linux/random.h>
#include <linux/slab.h>

#include "rdm.h"

static ushort rdm_port = 7473;
module_param(rdm_port, ushort, 0444);
MODULE_PARM_DESC(rdm_port, "RDMA CM port of RDM endpoints, the same on all machines");

static unsigned int rdm_max_conns = 1024;
module_param(rdm_max_conns, uint, 0644);
MODULE_PARM_DESC(rdm_max_conns, "most connections of one address (each takes about 2 MB)");

/**
 * kfr_cm_port() - the port at which nodes listen
 *
 * Context: any.
 * Return: the port, in network order.
 */
__be16 kfr_cm_port(void)
{
	return htons(rdm_port);
}

/* The arrays are empty, but an entry that found no memory may leave nodes. */
static void kfr_node_release(struct kref *ref)
{
	struct kfr_node *node = container_of(ref, struct kfr_node, ref);

	xa_destroy(&node->owned);
	xa_destroy(&node->pids);
	xa_destroy(&node->ids);
	xa_destroy(&node->conns);
	xa_destroy(&node->eps);
	xa_destroy(&node->rxs);
	kfree(node);
}

/**
 * kfr_node_put() - drop a reference; the last one frees the memory
 * @node: the node
 *
 * Context: any.
 */
void kfr_node_put(struct kfr_node *node)
{
	kref_put(&node->ref, kfr_node_release);
}

/**
 * kfr_node_unuse() - drop a use of the node's device
 * @node: the node; the caller has a reference to its memory
 *
 * The device's removal may return after the last one, so the caller has freed
 * all that it had of the device.
 *
 * Context: process.
 */
void kfr_node_unuse(struct kfr_node *node)
{
	if (refcount_dec_and_test(&node->halves))
		kfv_device_unuse(node->dev);
}

/*
 * CM callback, under the handler locks of the listener and of the new id.
 * Destroying the listener waits for it, so @node is valid.
 */
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

/* Return: a node that listens, with a reference for the list of nodes. */
static struct kfr_node *kfr_node_new(struct kfv_device *dev, u32 port,
				     __be32 ip)
{
	struct kfr_node *node = kzalloc(sizeof(*node), GFP_KERNEL_ACCOUNT);
	int err;

	lockdep_assert_held(&dev->lock);
	if (!node)
		return ERR_PTR(-ENOMEM);
	kref_init(&node->ref);
	refcount_set(&node->halves, 1);
	spin_lock_init(&node->lock);
	INIT_LIST_HEAD(&node->silent);
	xa_init_flags(&node->conns, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&node->owned, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&node->pids, XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
	xa_init_flags(&node->ids, XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
	xa_init_flags(&node->eps, XA_FLAGS_ALLOC | XA_FLAGS_LOCK_IRQ |
				  XA_FLAGS_ACCOUNT);
	xa_init_flags(&node->rxs, XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
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
	list_add_tail(&node->link, &dev->nodes);
	return node;
}

/*
 * Ends listening and closes all connections; their work items do the rest. The
 * lock is dropped for each connection. None is added meanwhile: the listener is
 * gone, and kfr_node_conn() sees @closing. A second call does nothing.
 */
static void kfr_node_stop(struct kfr_node *node)
{
	struct kfr_conn *conn;
	unsigned long i;

	lockdep_assert_held(&node->dev->lock);
	if (!node->listener)
		return;
	list_del(&node->link);
	/* Waits for a running callback, and none follows. */
	rdma_destroy_id(node->listener);
	node->listener = NULL;

	spin_lock_irq(&node->lock);
	node->closing = true;
	xa_for_each(&node->conns, i, conn) {
		kfr_conn_get(conn);
		spin_unlock_irq(&node->lock);
		kfr_conn_close(conn);
		kfr_conn_put(conn);
		spin_lock_irq(&node->lock);
	}
	spin_unlock_irq(&node->lock);
	kfr_node_unuse(node);
}

/*
 * Stores an entry at the first free index of a range. This is xa_alloc(), whose
 * indices have 32 bits. Return: 0; -EBUSY: none is free; -ENOMEM.
 */
static int kfr_xa_alloc(struct xarray *xa, unsigned long first,
			unsigned long last, unsigned long *index, void *entry,
			gfp_t gfp)
{
	XA_STATE(xas, xa, first);
	unsigned long irq;

	do {
		xas_lock_irqsave(&xas, irq);
		xas_set(&xas, first);
		xas_find_marked(&xas, last, XA_FREE_MARK);
		if (xas.xa_node == XAS_RESTART)
			xas_set_err(&xas, -EBUSY);
		*index = xas.xa_index;
		xas_store(&xas, entry);
		xas_clear_mark(&xas, XA_FREE_MARK);
		xas_unlock_irqrestore(&xas, irq);
	} while (xas_nomem(&xas, gfp));
	return xas_error(&xas);
}

static unsigned long kfr_ep_index(u32 auth, u16 id)
{
	return (unsigned long)auth << 16 | id;
}

/*
 * Takes the endpoint's number, or a free one; pids of 8-byte addresses are small.
 * kfr_node_hide() is the mirror.
 */
static int kfr_node_add(struct kfr_node *node, struct kfr_ep *ep)
{
	bool cxi = ep->rdm->format.format == KFI_ADDR_CXI;
	u16 first = ep->addr.id, last = ep->addr.id;
	unsigned long index;
	int err;

	lockdep_assert_held(&ep->ctl);
	if (!first) {
		first = cxi ? 1 : KFR_ID_FIRST;
		last = cxi ? KFR_PID_MAX : U16_MAX;
	}
	err = kfr_number_take(node, ep, first);
	if (err)
		return err;
	err = kfr_xa_alloc(&node->eps, kfr_ep_index(ep->auth, first),
			   kfr_ep_index(ep->auth, last), &index, ep,
			   GFP_KERNEL);
	if (err) {
		kfr_number_drop(node, ep, first);
		return err == -EBUSY ? -EADDRINUSE : err;
	}
	ep->addr.id = index & U16_MAX;
	ep->node = node;
	return 0;
}

static struct kfr_node *kfr_node_find(const struct kfv_device *dev, __be32 ip)
{
	struct kfr_node *node;

	lockdep_assert_held(&dev->lock);
	list_for_each_entry(node, &dev->nodes, link)
		if (node->ip == ip)
			return node;
	return NULL;
}

/* The mirror of kfr_node_get(); the last endpoint stops the node. */
static void kfr_node_drop(struct kfr_node *node)
{
	lockdep_assert_held(&node->dev->lock);
	if (!--node->users) {
		kfr_node_stop(node);
		kfr_node_put(node);
	}
	kfr_node_put(node);
}

/**
 * kfr_node_get() - join an endpoint that is being enabled to its node
 * @ep: the endpoint; its number is chosen if it has none
 *
 * Messages find the endpoint from now on, but none of its contexts yet.
 *
 * Context: process, may sleep; the caller holds the device's lock and the endpoint's
 * ctl, and has seen under them that the device is there.
 * Return: 0; -EADDRINUSE: another endpoint has its number, no number is free,
 * or another module has the port; -EADDRNOTAVAIL: it is no address of the
 * device; -EMFILE: its user has as many numbers as it may have; -ENOMEM.
 */
int kfr_node_get(struct kfr_ep *ep)
{
	struct kfv_domain *domain = ep->rdm->domain;
	struct kfr_node *node;
	int err;

	lockdep_assert_held(&domain->dev->lock);
	lockdep_assert_held(&ep->ctl);
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

/**
 * kfr_node_leave() - an endpoint has closed
 * @ep: the endpoint: hidden, and its contexts are closed
 *
 * Context: process, may sleep; the caller holds the device's lock.
 */
void kfr_node_leave(struct kfr_ep *ep)
{
	lockdep_assert_held(&ep->rdm->domain->dev->lock);
	if (ep->node)
		kfr_node_drop(ep->node);
	ep->node = NULL;
}

static unsigned long kfr_rx_index(u32 auth, u16 id, unsigned int rx)
{
	return kfr_ep_index(auth, id) * KFR_CTX_MAX + rx;
}

/**
 * kfr_node_show() - let messages find a receive context
 * @ep: its endpoint, which has joined its node
 * @rx: the context, with all that kfr_rx_enable() allocates
 *
 * Context: process, may sleep; the caller holds the endpoint's ctl.
 * Return: 0 or -ENOMEM.
 */
int kfr_node_show(struct kfr_ep *ep, struct kfr_rx *rx)
{
	lockdep_assert_held(&ep->ctl);
	return xa_err(xa_store_irq(&ep->node->rxs,
				   kfr_rx_index(ep->auth, ep->addr.id,
						rx->index), rx, GFP_KERNEL));
}

/**
 * kfr_node_hide_rx() - hide a receive context from messages
 * @ep: its endpoint, which stays open as long as the context
 * @rx: the context, stopped; also one that was never shown
 *
 * Messages that have found it keep it busy.
 *
 * Context: process; no spinlock held.
 */
void kfr_node_hide_rx(struct kfr_ep *ep, struct kfr_rx *rx)
{
	if (ep->node)
		xa_erase_irq(&ep->node->rxs,
			     kfr_rx_index(ep->auth, ep->addr.id, rx->index));
}

/**
 * kfr_node_hide() - hide an endpoint and its context from messages
 * @ep: the endpoint, which is closing; also one that was never enabled. The
 *	contexts of a scalable one are closed
 *
 * Its number is free from now on.
 *
 * Context: process; no spinlock held.
 */
void kfr_node_hide(struct kfr_ep *ep)
{
	if (!ep->node)
		return;
	if (ep->face.rx)
		kfr_node_hide_rx(ep, ep->face.rx);
	xa_erase_irq(&ep->node->eps, kfr_ep_index(ep->auth, ep->addr.id));
	kfr_number_drop(ep->node, ep, ep->addr.id);
}

/**
 * kfr_node_rx() - find the context that a message is for
 * @node: the node where it arrived
 * @hdr: its header, not trusted
 *
 * Context: any.
 * Return: the context, busy until kfr_rx_put(); NULL: there is none, or the
 * sender has another authorisation key.
 */
struct kfr_rx *kfr_node_rx(struct kfr_node *node, const struct kfr_hdr *hdr)
{
	u16 index = le16_to_cpu(hdr->rx);
	struct kfr_rx *rx;
	int idx;

	if (index >= KFR_CTX_MAX)
		return NULL;
	idx = srcu_read_lock(&kfv_srcu);
	rx = xa_load(&node->rxs, kfr_rx_index(le32_to_cpu(hdr->auth),
					      le16_to_cpu(hdr->dst), index));
	if (rx && !refcount_inc_not_zero(&rx->busy))
		rx = NULL;
	srcu_read_unlock(&kfv_srcu, idx);
	return rx;
}

/* The connections with a peer have KFR_SLOTS indices, from n = 0. */
static unsigned long kfr_slot(__be32 remote, unsigned int n)
{
	return (unsigned long)be32_to_cpu(remote) * KFR_SLOTS + n;
}

/*
 * A connection for new messages. @state may become KFR_DEAD at any time: an
 * operation that is submitted then fails with the connection.
 */
static struct kfr_conn *kfr_conn_find(struct kfr_node *node, __be32 remote,
				      bool passive)
{
	struct kfr_conn *conn;
	unsigned long i;

	lockdep_assert_held(&node->lock);
	xa_for_each_range(&node->conns, i, conn, kfr_slot(remote, 0),
			  kfr_slot(remote, KFR_SLOTS - 1)) {
		if (!conn->usable || READ_ONCE(conn->leaving) ||
		    READ_ONCE(conn->state) == KFR_DEAD)
			continue;
		if (remote != node->ip || conn->passive == passive)
			return conn;
	}
	return NULL;
}

/**
 * kfr_node_waiting() - the passive end of a connection of a node to itself
 * @node: the node
 * @cookie: from the request
 *
 * Context: process, CM callback; no spinlock held.
 * Return: the end that waits for the request, referenced, or NULL.
 */
struct kfr_conn *kfr_node_waiting(struct kfr_node *node, u64 cookie)
{
	struct kfr_conn *conn, *found = NULL;
	unsigned long i;

	spin_lock_irq(&node->lock);
	xa_for_each_range(&node->conns, i, conn, kfr_slot(node->ip, 0),
			  kfr_slot(node->ip, KFR_SLOTS - 1)) {
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

/* New messages to the peer of a connection use it, and no other one. */
static void kfr_node_supersede(struct kfr_node *node, struct kfr_conn *conn)
{
	struct kfr_conn *old;
	unsigned long i;

	lockdep_assert_held(&node->lock);
	xa_for_each_range(&node->conns, i, old, kfr_slot(conn->remote, 0),
			  kfr_slot(conn->remote, KFR_SLOTS - 1))
		if (READ_ONCE(old->state) != KFR_CONNECTING)
			old->usable = false;
	conn->usable = true;
}

/**
 * kfr_node_heard() - the first message of a connection has arrived
 * @node: the node
 * @conn: the connection
 *
 * A connect request claims an address. Its sender has proved the address once
 * data has come from there: @proven, and the queue pair takes packets from no
 * other GID. Until then a connection that a peer has begun is not used for new
 * messages and changes nothing for others.
 *
 * A peer that has a connection does not begin another one. So the peer has lost
 * those that this side has, as when a cable was out and only one side has
 * noticed. Operations on them end by themselves. If both sides begin at the
 * same time, new messages of one side move to the other side's connection.
 *
 * Context: softirq; no lock held.
 */
void kfr_node_heard(struct kfr_node *node, struct kfr_conn *conn)
{
	unsigned long irq;

	spin_lock_irqsave(&node->lock, irq);
	WRITE_ONCE(conn->heard, true);
	list_del_init(&conn->silent);
	/* It may have ended meanwhile, and then replaces no other. */
	if (conn->passive && conn->proven && conn->remote != node->ip &&
	    xa_load(&node->conns, conn->slot) == conn)
		kfr_node_supersede(node, conn);
	spin_unlock_irqrestore(&node->lock, irq);
}

/**
 * kfr_node_link() - make a connection and link it to its node
 * @node: the node, not stopped
 * @remote: the peer's address
 * @passive: the peer begins it
 *
 * It is not started, and not usable for new messages yet.
 *
 * Context: any; the caller holds the node's lock.
 * Return: the connection, which the caller gets no reference to; NULL: no
 * memory, or half of KFR_SLOTS connections with this peer, begun by the same side, are
 * not destroyed yet.
 */
struct kfr_conn *kfr_node_link(struct kfr_node *node, __be32 remote,
			       bool passive)
{
	/* Requests that only claim to be the peer's leave half of them to this side. */
	const unsigned int first = passive ? KFR_SLOTS / 2 : 0;
	struct kfr_conn *conn;
	unsigned long slot;

	lockdep_assert_held(&node->lock);
	/* First a slot: a connection without one would keep a place for a while. */
	if (kfr_xa_alloc(&node->conns, kfr_slot(remote, first),
			 kfr_slot(remote, first + KFR_SLOTS / 2 - 1), &slot,
			 XA_ZERO_ENTRY, GFP_ATOMIC | __GFP_NOWARN))
		return NULL;
	conn = kfr_conn_new(node, remote, passive);
	xa_cmpxchg(&node->conns, slot, XA_ZERO_ENTRY, conn, 0);
	if (conn)
		conn->slot = slot;
	return conn;
}

/**
 * kfr_node_unlink() - new messages do not find a connection any more
 * @conn: the connection; it may have been unlinked before
 *
 * Its slot stays taken until kfr_slot_free().
 *
 * Context: any; no spinlock held.
 */
void kfr_node_unlink(struct kfr_conn *conn)
{
	struct kfr_node *node = conn->node;
	unsigned long irq;

	spin_lock_irqsave(&node->lock, irq);
	xa_cmpxchg(&node->conns, conn->slot, conn, XA_ZERO_ENTRY, 0);
	list_del_init(&conn->silent);
	spin_unlock_irqrestore(&node->lock, irq);
}

/* The part of a node's connections that is kept free, or that one owner begins. */
static unsigned int kfr_share(unsigned int conns)
{
	return max(conns / 8, 1U);
}

/*
 * A new connection to another node, not started. To an address without a machine, it
 * keeps its place for KFR_RESOLVES attempts, and a dead one keeps it until it is
 * destroyed. So one owner has few that are not up. Return: the connection, or an error.
 */
static struct kfr_conn *kfr_conn_begin_to(struct kfr_node *node, __be32 remote,
					  u64 by)
{
	struct kfr_conn *conn;
	int err;

	lockdep_assert_held(&node->lock);
	err = kfr_conn_charge(node, by, kfr_share(READ_ONCE(rdm_max_conns)));
	if (err)
		return ERR_PTR(err);
	conn = kfr_node_link(node, remote, false);
	if (!conn) {
		kfv_answered(node->dev, by);
		kfr_conn_uncharge(node, by);
		return ERR_PTR(-ENOMEM);
	}
	conn->by = by;
	conn->counted = true;
	return conn;
}

/*
 * The two ends of a new connection of the node to itself, not started. The cookie joins
 * the request to the passive one; no peer can guess it. Return: the active end, or an
 * error.
 */
static struct kfr_conn *kfr_conn_begin_pair(struct kfr_node *node)
{
	struct kfr_conn *conn = kfr_node_link(node, node->ip, false), *twin;

	lockdep_assert_held(&node->lock);
	if (!conn)
		return ERR_PTR(-ENOMEM);
	twin = kfr_node_link(node, node->ip, true);
	if (!twin) {
		kfr_conn_discard(conn);
		return ERR_PTR(-ENOMEM);
	}
	/* Each has a reference to the other one; kfr_conn_destroy() drops it. */
	kfr_conn_get(conn);
	kfr_conn_get(twin);
	conn->twin = twin;
	twin->twin = conn;
	conn->cookie = get_random_u64();
	twin->cookie = conn->cookie;
	twin->usable = true;
	return conn;
}

/*
 * Begins a connection; its initial reference belongs to its work item. Return: the end
 * for the caller, without a reference; an error.
 */
static struct kfr_conn *kfr_conn_begin(struct kfr_node *node, __be32 remote,
				       bool passive, u64 by)
{
	struct kfr_conn *conn, *end;

	lockdep_assert_held(&node->lock);
	conn = remote == node->ip ? kfr_conn_begin_pair(node) :
				    kfr_conn_begin_to(node, remote, by);
	if (IS_ERR(conn))
		return conn;
	end = passive ? conn->twin : conn;
	conn->usable = true;
	kfr_conn_start(conn);
	return end;
}

/*
 * The node is full, or almost: look whether the next connection in turn is idle, so
 * that there is room for another peer. One that was used since the turn before stays.
 * With @by, only what that owner has begun makes room. The connection is linked, so
 * kfr_conn_fail() cancels the work item later.
 */
static void kfr_node_hurry(struct kfr_node *node, u64 by)
{
	struct kfr_conn *conn;

	lockdep_assert_held(&node->lock);
	conn = xa_find_after(&node->conns, &node->turn, ULONG_MAX, XA_PRESENT);
	if (!conn)
		node->turn = 0;
	else if (conn->remote != node->ip && (!by || conn->by == by))
		mod_delayed_work(system_wq, &conn->expire, 0);
}

/* Counts connections until they are destroyed; one count is the node's own. */
static bool kfr_node_full(const struct kfr_node *node)
{
	return refcount_read(&node->halves) > READ_ONCE(rdm_max_conns);
}

/**
 * kfr_node_tight() - is there room for few more connections?
 * @node: the local node
 *
 * Context: any.
 * Return: true: no more than an owner's share.
 */
bool kfr_node_tight(const struct kfr_node *node)
{
	unsigned int most = READ_ONCE(rdm_max_conns);

	return refcount_read(&node->halves) + kfr_share(most) > most;
}

/*
 * May the owner begin another connection? When few places are left, those who have a
 * share of the connections leave them to others; they make room for themselves only. A
 * node of less than eight connections has no such places.
 */
static bool kfr_node_admits(struct kfr_node *node, u64 by)
{
	unsigned int most = READ_ONCE(rdm_max_conns);

	lockdep_assert_held(&node->lock);
	if (most >= 8 && kfr_node_tight(node) &&
	    kfr_conns_owned(node, by) >= kfr_share(most)) {
		kfr_node_hurry(node, by);
		return false;
	}
	if (kfr_node_full(node)) {
		kfr_node_hurry(node, 0);
		return false;
	}
	return true;
}

/**
 * kfr_node_conn() - find or begin the connection for a message
 * @ep: the sending endpoint
 * @to: the receiving one
 *
 * Two endpoints of one node use the two ends of one connection, so that
 * messages in one direction carry the ACKs of the other. Finding and beginning
 * are one section, so two senders do not begin two connections.
 *
 * Context: any; does not sleep; no lock held.
 * Return: the connection, referenced; -ENODEV: the node is closing; -ENOMEM;
 * -EAGAIN: there are rdm_max_conns, or almost and the domain's owner has its share, or
 * too many that it has begun are not up.
 */
struct kfr_conn *kfr_node_conn(struct kfr_ep *ep, struct kfr_addr to)
{
	u64 by = ep->rdm->domain->base.owner;
	struct kfr_node *node = ep->node;
	bool passive = to.ip == node->ip && ep->addr.id > to.id;
	struct kfr_conn *conn;
	unsigned long irq;

	spin_lock_irqsave(&node->lock, irq);
	if (node->closing) {
		conn = ERR_PTR(-ENODEV);
	} else {
		conn = kfr_conn_find(node, to.ip, passive);
		if (!conn && to.ip != node->ip && !kfr_node_admits(node, by))
			conn = ERR_PTR(-EAGAIN);
		if (!conn)
			conn = kfr_conn_begin(node, to.ip, passive, by);
		if (!IS_ERR(conn))
			kfr_conn_get(conn);
	}
	spin_unlock_irqrestore(&node->lock, irq);
	return conn;
}

/*
 * The oldest connection that a peer has begun, referenced, if it has more than
 * it needs: one, or two while it replaces a lost one. The rest are remains, or
 * hostile. Those that have not proved their address go first: they may be
 * anybody's.
 */
static struct kfr_conn *kfr_conn_oldest(struct kfr_node *node, __be32 remote)
{
	struct kfr_conn *conn, *oldest = NULL;
	unsigned int n = 0;
	unsigned long i;

	spin_lock_irq(&node->lock);
	xa_for_each_range(&node->conns, i, conn, kfr_slot(remote, 0),
			  kfr_slot(remote, KFR_SLOTS - 1)) {
		/* One of ours counts that the peer has replaced. */
		if (!conn->passive && conn->usable)
			continue;
		n++;
		if (!oldest || (oldest->heard && !conn->heard) ||
		    (oldest->heard == conn->heard &&
		     ktime_before(conn->begun, oldest->begun)))
			oldest = conn;
	}
	if (n < KFR_PEER_CONNS)
		oldest = NULL;
	if (oldest)
		kfr_conn_get(oldest);
	spin_unlock_irq(&node->lock);
	return oldest;
}

/*
 * The oldest connection that any peer has begun, referenced, if it has carried no
 * message of that peer although there was time for one. Its address is not proved,
 * so a single sender of requests can have many.
 */
static struct kfr_conn *kfr_node_unheard(struct kfr_node *node)
{
	ktime_t late = ktime_sub_ms(ktime_get(), KFR_HEARD_MS);
	struct kfr_conn *conn;

	spin_lock_irq(&node->lock);
	conn = list_first_entry_or_null(&node->silent, struct kfr_conn, silent);
	if (conn && !ktime_before(conn->begun, late))
		conn = NULL;
	if (conn)
		kfr_conn_get(conn);
	spin_unlock_irq(&node->lock);
	return conn;
}

static void kfr_node_drop_conn(struct kfr_conn *conn)
{
	if (!conn)
		return;
	kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_CLOSED);
	kfr_conn_put(conn);
}

/**
 * kfr_node_make_room() - prepare for another connection of a peer
 * @node: the local node
 * @remote: the peer
 *
 * Aborts the oldest connection of the peer if it has begun KFR_PEER_CONNS. If the
 * node is almost full, aborts one of any peer that was not heard, and looks whether
 * another one is idle. Its place is free only when it is destroyed, so that comes
 * before the node is full.
 *
 * Context: process, CM callback; no spinlock held.
 * Return: false: the node has rdm_max_conns connections, refuse the new one.
 */
bool kfr_node_make_room(struct kfr_node *node, __be32 remote)
{
	if (remote == node->ip)
		return true;
	kfr_node_drop_conn(kfr_conn_oldest(node, remote));
	if (kfr_node_tight(node)) {
		kfr_node_drop_conn(kfr_node_unheard(node));
		spin_lock_irq(&node->lock);
		kfr_node_hurry(node, 0);
		spin_unlock_irq(&node->lock);
	}
	return !kfr_node_full(node);
}

/* The time for this grows with the contexts of the node. */
static void kfr_rxs_forget(struct kfr_node *node, struct kfr_conn *conn)
{
	int idx = srcu_read_lock(&kfv_srcu);
	struct kfr_rx *rx;
	unsigned long i;

	xa_for_each(&node->rxs, i, rx) {
		if (!refcount_inc_not_zero(&rx->busy))
			continue;
		kfr_rx_forget(rx, conn);
		kfr_rx_put(rx);
	}
	srcu_read_unlock(&kfv_srcu, idx);
}

/**
 * kfr_node_forget() - drop what all contexts have of a dead connection
 * @node: its node
 * @conn: the connection, drained; the caller has a reference
 *
 * Nothing has arrived on a connection that never had a queue pair. A context that is
 * not found any more was stopped before: kfr_rx_stop() has dropped the same.
 *
 * Context: process; no lock held.
 */
void kfr_node_forget(struct kfr_node *node, struct kfr_conn *conn)
{
	if (conn->pd)
		kfr_rxs_forget(node, conn);
}

/**
 * kfr_slot_free() - the slot of a connection is free again
 * @conn: the connection, unlinked and destroyed
 *
 * Context: any; no lock held.
 */
void kfr_slot_free(struct kfr_conn *conn)
{
	xa_cmpxchg_irq(&conn->node->conns, conn->slot, XA_ZERO_ENTRY, NULL, 0);
}

/**
 * kfr_node_break() - abort the connections that keep an object busy
 * @node: the node
 * @rx: a receive context that is closing, or NULL
 * @mr: a region that is closing, or NULL
 * @all: all of them; otherwise those that are stuck
 *
 * Others use the connections, too. Jobs end later, in the work items: the caller
 * waits for that. A connection that begins meanwhile has no job for the object:
 * messages do not find it any more.
 *
 * Context: process, may sleep.
 */
void kfr_node_break(struct kfr_node *node, const struct kfr_rx *rx,
		    const struct kfr_mr *mr, bool all)
{
	struct kfr_conn *conn;
	unsigned long i;

	spin_lock_irq(&node->lock);
	xa_for_each(&node->conns, i, conn) {
		kfr_conn_get(conn);
		spin_unlock_irq(&node->lock);
		if (kfr_conn_serves(conn, rx, mr) &&
		    (all || kfr_conn_stuck(conn, KFR_SILENT_TIME)))
			kfr_conn_abort(conn, ENOTCONN, KFR_ERR_LOCAL);
		kfr_conn_put(conn);
		spin_lock_irq(&node->lock);
	}
	spin_unlock_irq(&node->lock);
}

/**
 * kfr_nodes_break() - abort the connections that keep a region busy
 * @dev: the device of the region
 * @mr: the region, which is closing
 * @all: as for kfr_node_break()
 *
 * Context: process, may sleep; takes @dev->lock.
 */
void kfr_nodes_break(struct kfv_device *dev, const struct kfr_mr *mr, bool all)
{
	struct kfr_node *node;

	mutex_lock(&dev->lock);
	list_for_each_entry(node, &dev->nodes, link)
		kfr_node_break(node, NULL, mr, all);
	mutex_unlock(&dev->lock);
}

/**
 * kfr_strip() - a device is being removed: stop its nodes
 * @dev: the device, gone
 *
 * The caller waits for kfv_device.users afterwards, that is for the work items
 * of all connections. Memory of the nodes stays until their endpoints close.
 *
 * Context: process, may sleep; the caller holds @dev->lock.
 */
void kfr_strip(const struct kfv_device *dev)
{
	struct kfr_node *node, *next;

	lockdep_assert_held(&dev->lock);
	list_for_each_entry_safe(node, next, &dev->nodes, link)
		kfr_node_stop(node);
}
