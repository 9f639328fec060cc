// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The part of a domain that only RDM endpoints need, and the texts of their
 * error codes.
 *
 * verbs/domain.c opens the domain and calls kfr_domain_new() if the info is one
 * of RDM endpoints. From then on every endpoint, vector and region finds here
 * how addresses are written and where keys are looked up. The domain frees it
 * last: all of those hold a reference to the domain.
 */
#include <linux/slab.h>

#include "rdm.h"

static const char * const kfr_status_names[KFR_STATUS_MAX] = {
	[KFR_OK] = "no error",
	[KFR_NO_ENDPOINT] = "the peer has no such endpoint or context",
	[KFR_TOO_LONG] = "the message is longer than the receive",
	[KFR_NO_KEY] = "the peer has no region with that key",
	[KFR_RANGE] = "outside the peer's region",
	[KFR_ACCESS] = "the peer's region does not permit that access",
	[KFR_NO_MATCH] = "the peer has not posted a receive in time",
	[KFR_CANCELED] = "cancelled",
	[KFR_NO_MEMORY] = "the peer has no memory",
	[KFR_IO] = "the peer's device failed",
};

static const char * const kfr_errors[] = {
	[KFR_ERR_CONNECT - KFR_ERR_CONNECT] = "no connection to the peer",
	[KFR_ERR_VERSION - KFR_ERR_CONNECT] =
		"the peer speaks another version of the protocol",
	[KFR_ERR_CLOSED - KFR_ERR_CONNECT] = "the peer ended the connection",
	[KFR_ERR_PROTOCOL - KFR_ERR_CONNECT] =
		"the peer violated the protocol",
	[KFR_ERR_FLOOD - KFR_ERR_CONNECT] =
		"the peer does not receive control messages",
	[KFR_ERR_LOCAL - KFR_ERR_CONNECT] =
		"the connection was aborted to close an object",
	[KFR_ERR_DEVICE - KFR_ERR_CONNECT] = "the device failed",
	[KFR_ERR_FULL - KFR_ERR_CONNECT] = "the peer has too many connections",
	[KFR_ERR_STUCK - KFR_ERR_CONNECT] =
		"no message has reached the peer for long",
};

/**
 * kfr_strerror() - the text of a prov_errno of RDM endpoints
 * @prov_errno: one of enum kfr_errno, or a work completion's status
 *
 * Context: any.
 * Return: a constant string.
 */
const char *kfr_strerror(int prov_errno)
{
	if (prov_errno >= KFR_ERR_CONNECT && prov_errno < KFR_ERR_END)
		return kfr_errors[prov_errno - KFR_ERR_CONNECT];
	if (prov_errno >= KFR_ERR_STATUS &&
	    prov_errno < KFR_ERR_STATUS + KFR_STATUS_MAX)
		return kfr_status_names[prov_errno - KFR_ERR_STATUS];
	return ib_wc_status_msg(prov_errno);
}

/**
 * kfr_domain_new() - the RDM part of a domain that is being opened
 * @domain: the domain; it owns the result, until kfr_domain_free()
 * @info: an info of RDM endpoints: notation of addresses, mode of keys
 *
 * Context: process; without a lock, as it allocates: see kfr_ep_enable().
 * Return: the part, for kfr_domain_init(); NULL without memory.
 */
struct kfr_domain *kfr_domain_new(struct kfv_domain *domain,
				  const struct kfi_info *info)
{
	struct kfr_domain *rdm = kzalloc(sizeof(*rdm), GFP_KERNEL_ACCOUNT);

	if (!rdm)
		return NULL;
	rdm->domain = domain;
	rdm->format.format = info->addr_format == KFI_ADDR_CXI ?
			     KFI_ADDR_CXI : KFI_SOCKADDR_IN;
	rdm->mr_mode = info->domain_attr->mr_mode & KFI_MR_ENDPOINT;
	INIT_LIST_HEAD(&rdm->eps);
	xa_init_flags(&rdm->keys, XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
	return rdm;
}

/**
 * kfr_domain_init() - find the addresses of a domain that is being opened
 * @rdm: of kfr_domain_new()
 * @info: the same info
 *
 * Context: process, may sleep; caller holds the device's lock.
 * Return: 0 or a negative errno: -EINVAL: the info's address, or the module parameter
 * addr_base, is invalid; -EADDRNOTAVAIL: the port has no IPv4 address, or it is too
 * far from the base of 8-byte addresses.
 */
int kfr_domain_init(struct kfr_domain *rdm, const struct kfi_info *info)
{
	struct kfv_domain *domain = rdm->domain;
	char netdev[IFNAMSIZ];
	struct kfr_addr addr;
	int err;

	lockdep_assert_held(&domain->dev->lock);
	err = kfr_port_ip(domain->dev->ib, domain->pd->port, 0,
			  &rdm->format.ip, netdev);
	if (!err && rdm->format.format == KFI_SOCKADDR_IN && info->src_addr) {
		if (info->src_addrlen != kfr_addr_size(&rdm->format))
			err = -EINVAL;
		else if (!kfr_addr_read(&rdm->format, info->src_addr, &addr) &&
			 addr.ip)
			rdm->format.ip = addr.ip;
	}
	if (!err && rdm->format.format == KFI_ADDR_CXI)
		err = kfr_base(rdm->format.ip, &rdm->format.base);
	return err;
}

/**
 * kfr_domain_free() - the mirror of kfr_domain_new()
 * @rdm: the part, or NULL; without endpoints, vectors and regions
 *
 * Context: process.
 */
void kfr_domain_free(struct kfr_domain *rdm)
{
	if (!rdm)
		return;
	xa_destroy(&rdm->keys);
	kfree(rdm);
}
