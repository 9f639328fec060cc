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
