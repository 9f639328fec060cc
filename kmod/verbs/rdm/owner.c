// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What owners have of a node: connections that they begin, and numbers of endpoints.
 * Each has a share, so that places are free for others; see "Shares of an address" in
 * docs/rdm.md.
 *
 * The counts are in xarrays, see ../owner.c: counting does not depend on the node's own
 * lock.
 */
#include "rdm.h"

/**
 * kfr_conn_charge() - count a connection for the owner who begins it
 * @node: the node
 * @by: the owner
 * @most: as many that are not up as it may have
 *
 * Context: any. kfr_conn_uncharge(), and kfr_conn_uncount() or kfv_uncount(), are the
 * mirror.
 * Return: 0; -EAGAIN: it has as many; -ENOMEM.
 */
int kfr_conn_charge(struct kfr_node *node, u64 by, unsigned int most)
{
	int err;

	err = kfv_ask(node->dev, by, most);
	if (err)
		return err;
	err = kfv_count(&node->owned, by, 1, ULONG_MAX,
			GFP_ATOMIC | __GFP_NOWARN);
	if (err)
		kfv_answered(node->dev, by);
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
		kfv_uncount(&node->owned, by, 1);
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
		kfv_answered(conn->node->dev, conn->by);
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
		conn->counted = !kfv_count(&conn->node->dev->asks, conn->by, 1,
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
	err = kfv_count(pid ? &node->pids : &node->ids, kfr_user_index(ep), 1,
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
		kfv_uncount(id <= KFR_PID_MAX ? &node->pids : &node->ids,
			    kfr_user_index(ep), 1);
}
