// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What owners have of a node: connections that they begin, and numbers of endpoints; and
 * of a device: room in its shared CQs (kfv_device.cqes).
 * Each has a share, so that places are free for others; see "Shares of an address" in
 * docs/rdm.md.
 *
 * The counts are in xarrays of the node, by owner, under the lock of each: counting
 * does not depend on the node's own lock. An owner without anything has no entry.
 */
#include "rdm.h"

/**
 * kfr_count() - count some more of an owner
 * @xa: the counts of all owners
 * @owner: the owner
 * @more: how many more
 * @most: as many as it may have
 * @gfp: for the first one
 *
 * Context: any, if @gfp does not sleep. kfr_uncount() is the mirror.
 * Return: 0; -EAGAIN: it would have more than @most; -ENOMEM.
 */
int kfr_count(struct xarray *xa, unsigned long owner, unsigned long more,
	      unsigned long most, gfp_t gfp)
{
	XA_STATE(xas, xa, owner);
	unsigned long irq, n;

	do {
		xas_lock_irqsave(&xas, irq);
		n = xa_to_value(xas_load(&xas));
		if (more <= most && n <= most - more)
			xas_store(&xas, xa_mk_value(n + more));
		else
			xas_set_err(&xas, -EAGAIN);
		xas_unlock_irqrestore(&xas, irq);
	} while (xas_nomem(&xas, gfp));
	return xas_error(&xas);
}

/**
 * kfr_uncount() - the mirror of kfr_count()
 * @xa: the counts of all owners
 * @owner: the owner, which has at least that many
 * @less: how many less
 *
 * Context: any; allocates nothing.
 */
void kfr_uncount(struct xarray *xa, unsigned long owner, unsigned long less)
{
	XA_STATE(xas, xa, owner);
	unsigned long irq, n;

	xas_lock_irqsave(&xas, irq);
	n = xa_to_value(xas_load(&xas));
	xas_store(&xas, n > less ? xa_mk_value(n - less) : NULL);
	xas_unlock_irqrestore(&xas, irq);
}

/**
 * kfr_conn_charge() - count a connection for the owner who begins it
 * @node: the node
 * @by: the owner
 * @most: as many that are not up as it may have
 *
 * Context: any. kfr_conn_uncharge(), and kfr_conn_uncount() or kfr_uncount(), are the
 * mirror.
 * Return: 0; -EAGAIN: it has as many; -ENOMEM.
 */
int kfr_conn_charge(struct kfr_node *node, u64 by, unsigned int most)
{
	int err;

	err = kfr_count(&node->begins, by, 1, most, GFP_ATOMIC | __GFP_NOWARN);
	if (err)
		return err;
	err = kfr_count(&node->owned, by, 1, ULONG_MAX,
			GFP_ATOMIC | __GFP_NOWARN);
	if (err)
		kfr_uncount(&node->begins, by, 1);
	return err;
}

/**
 * kfr_conn_uncharge() - a connection of an owner is destroyed, or was not made
 * @node: the node
 * @by: the owner; 0: a peer has begun it
 *
 * Context: any.
 */
void kfr_conn_uncharge(struct kfr_node *node, u64 by)
{
	if (by)
		kfr_uncount(&node->owned, by, 1);
}

/**
 * kfr_conns_owned() - how many connections an owner has begun
 * @node: the node
 * @by: the owner
 *
 * Context: any.
 * Return: the number of those that are not destroyed.
 */
unsigned long kfr_conns_owned(struct kfr_node *node, u64 by)
{
	return xa_to_value(xa_load(&node->owned, by));
}

/**
 * kfr_conn_uncount() - the place of a connection is not its owner's any more
 * @conn: the connection: up or destroyed; also one that a peer has begun
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_conn_uncount(struct kfr_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	if (conn->counted)
		kfr_uncount(&conn->node->begins, conn->by, 1);
	conn->counted = false;
}

/**
 * kfr_conn_count() - the place of a dead connection is its owner's again
 * @conn: the connection; also one that a peer has begun
 *
 * It has the place until it is destroyed. It is counted also beyond the share, but not
 * without memory.
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_conn_count(struct kfr_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	if (conn->by && !conn->counted)
		conn->counted = !kfr_count(&conn->node->begins, conn->by, 1,
					   ULONG_MAX, GFP_ATOMIC | __GFP_NOWARN);
}

/* Where a user's endpoints of a key are counted in kfr_node.pids and .ids. */
static unsigned long kfr_user_index(const struct kfr_ep *ep)
{
	return ep->rdm->domain->base.owner << 32 | ep->auth;
}

/**
 * kfr_number_take() - count a number for its user, who leaves as many to others
 * @node: the node that the endpoint joins
 * @ep: the endpoint
 * @id: its number, or the first of those that it may get
 *
 * Context: process, may sleep; the caller holds the endpoint's ctl.
 * Return: 0; -EMFILE: the user has enough; -ENOMEM.
 */
int kfr_number_take(struct kfr_node *node, const struct kfr_ep *ep, u16 id)
{
	bool pid = id <= KFR_PID_MAX;
	int err;

	lockdep_assert_held(&ep->ctl);
	if (ep->rdm->domain->base.owner < KFI_OWNER_USER)
		return 0;
	err = kfr_count(pid ? &node->pids : &node->ids, kfr_user_index(ep), 1,
			pid ? KFR_USER_PIDS : KFR_USER_IDS, GFP_KERNEL);
	return err == -EAGAIN ? -EMFILE : err;
}

/**
 * kfr_number_drop() - the mirror of kfr_number_take()
 * @node: the node
 * @ep: the endpoint
 * @id: the number
 *
 * Context: any.
 */
void kfr_number_drop(struct kfr_node *node, const struct kfr_ep *ep, u16 id)
{
	if (ep->rdm->domain->base.owner >= KFI_OWNER_USER)
		kfr_uncount(id <= KFR_PID_MAX ? &node->pids : &node->ids,
			    kfr_user_index(ep), 1);
}
