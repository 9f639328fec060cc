// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What owners (kfi_domain_base.owner) have of a device that all of them share: room in
 * its CQs, messages of RDMA CM, connection requests. Each is limited, so that others can
 * go on; see "Limits" in docs/uapi.md.
 *
 * The counts are in xarrays, by owner, under the lock of each. An owner without anything
 * has no entry.
 */
#include <linux/module.h>

#include "kfi_verbs.h"

/*
 * rxe sends the messages of all through one queue pair, with 65 packets under way. One to a
 * machine that does not answer ARP is under way for 3 s (neigh_timer_handler()), and RDMA
 * CM repeats it every 4.3 s. So with this many, a user holds up nobody.
 */
static unsigned int max_user_cm_requests = 64;
module_param(max_user_cm_requests, uint, 0644);
MODULE_PARM_DESC(max_user_cm_requests, "connections of one user on a device that wait for the peer's answer: to be begun, or to be ended");

/**
 * kfv_count() - count some more of an owner
 * @xa: the counts of all owners
 * @owner: the owner
 * @more: how many more
 * @most: as many as it may have
 * @gfp: for the first one
 *
 * Context: any, if @gfp does not sleep. kfv_uncount() is the mirror.
 * Return: 0; -EAGAIN: it would have more than @most; -ENOMEM.
 */
int kfv_count(struct xarray *xa, unsigned long owner, unsigned long more,
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
 * kfv_uncount() - the mirror of kfv_count()
 * @xa: the counts of all owners
 * @owner: the owner, which has at least that many
 * @less: how many less
 *
 * Context: any; allocates nothing.
 */
void kfv_uncount(struct xarray *xa, unsigned long owner, unsigned long less)
{
	XA_STATE(xas, xa, owner);
	unsigned long irq, n;

	xas_lock_irqsave(&xas, irq);
	n = xa_to_value(xas_load(&xas));
	xas_store(&xas, n > less ? xa_mk_value(n - less) : NULL);
	xas_unlock_irqrestore(&xas, irq);
}

/**
 * kfv_ask() - count one more message that an owner begins to send and RDMA CM repeats
 * @dev: on this device
 * @owner: the owner
 * @most: as many as it may have, if it is no user
 *
 * Context: any. kfv_answered() is the mirror.
 * Return: 0; -EAGAIN: it has as many; -ENOMEM.
 */
int kfv_ask(struct kfv_device *dev, u64 owner, unsigned int most)
{
	if (owner >= KFI_OWNER_USER)
		most = min(most, READ_ONCE(max_user_cm_requests));
	return kfv_count(&dev->asks, owner, 1, most, GFP_ATOMIC | __GFP_NOWARN);
}

/**
 * kfv_answered() - the mirror of kfv_ask(): RDMA CM repeats the message no more
 * @dev: the device
 * @owner: the owner
 *
 * Context: any.
 */
void kfv_answered(struct kfv_device *dev, u64 owner)
{
	kfv_uncount(&dev->asks, owner, 1);
}
