// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Discovery: the attributes of the mock provider, matched against hints. */
#include <linux/slab.h>
#include <linux/string.h>

#include "mock.h"

#define KFM_TX_CAPS	(KFI_MSG | KFI_RMA | KFI_SEND | KFI_READ | KFI_WRITE)
#define KFM_RX_CAPS	(KFI_MSG | KFI_RMA | KFI_RECV | KFI_REMOTE_READ | \
			 KFI_REMOTE_WRITE)
#define KFM_CAPS	(KFM_TX_CAPS | KFM_RX_CAPS | KFI_LOCAL_COMM)
#define KFM_MR_MODE	(KFI_MR_PROV_KEY | KFI_MR_VIRT_ADDR | KFI_MR_LOCAL)

static bool kfm_name_fits(const char *hint, const char *ours)
{
	return !hint || !strcmp(hint, ours);
}

static bool kfm_tx_fits(const struct kfi_tx_attr *tx)
{
	return !tx || (!(tx->caps & ~KFM_TX_CAPS) &&
		       !(tx->op_flags & ~KFM_TX_FLAGS) &&
		       tx->size <= KFM_QUEUE_SIZE &&
		       tx->inject_size <= KFM_INJECT_SIZE &&
		       tx->iov_limit <= KFM_IOV_LIMIT &&
		       tx->rma_iov_limit <= 1);
}

static bool kfm_rx_fits(const struct kfi_rx_attr *rx)
{
	return !rx || (!(rx->caps & ~KFM_RX_CAPS) &&
		       !(rx->op_flags & ~KFM_RX_FLAGS) &&
		       rx->size <= KFM_QUEUE_SIZE &&
		       rx->iov_limit <= KFM_IOV_LIMIT);
}

static bool kfm_ep_fits(const struct kfi_ep_attr *ep)
{
	return !ep || ((ep->type == KFI_EP_UNSPEC || ep->type == KFI_EP_MSG) &&
		       ep->protocol == KFI_PROTO_UNSPEC &&
		       ep->max_msg_size <= KFM_MSG_SIZE &&
		       ep->tx_ctx_cnt <= 1 && ep->rx_ctx_cnt <= 1);
}

static bool kfm_domain_fits(const struct kfi_domain_attr *domain)
{
	return !domain || (kfm_name_fits(domain->name, KFM_DOMAIN) &&
			   domain->cq_data_size <= sizeof(u64) &&
			   domain->mr_key_size <= sizeof(u64) &&
			   domain->mr_iov_limit <= KFM_IOV_LIMIT);
}

/* The provider must be named: it is never a default. */
static bool kfm_fits(const struct kfi_info *hints)
{
	if (!hints || !hints->fabric_attr || !hints->fabric_attr->prov_name ||
	    strcmp(hints->fabric_attr->prov_name, KFM_PROVIDER))
		return false;
	return kfm_name_fits(hints->fabric_attr->name, KFM_FABRIC) &&
	       !(hints->caps & ~KFM_CAPS) &&
	       hints->addr_format == KFI_FORMAT_UNSPEC &&
	       kfm_tx_fits(hints->tx_attr) && kfm_rx_fits(hints->rx_attr) &&
	       kfm_ep_fits(hints->ep_attr) &&
	       kfm_domain_fits(hints->domain_attr);
}

static void kfm_fill_context(struct kfi_info *info,
			     const struct kfi_info *hints)
{
	struct kfi_tx_attr *tx = info->tx_attr;
	struct kfi_rx_attr *rx = info->rx_attr;

	tx->caps = KFM_TX_CAPS;
	tx->op_flags = hints->tx_attr ? hints->tx_attr->op_flags : 0;
	tx->inject_size = KFM_INJECT_SIZE;
	tx->size = KFM_QUEUE_SIZE;
	if (hints->tx_attr && hints->tx_attr->size)
		tx->size = hints->tx_attr->size;
	tx->iov_limit = KFM_IOV_LIMIT;
	tx->rma_iov_limit = 1;

	rx->caps = KFM_RX_CAPS;
	rx->op_flags = hints->rx_attr ? hints->rx_attr->op_flags : 0;
	rx->size = KFM_QUEUE_SIZE;
	if (hints->rx_attr && hints->rx_attr->size)
		rx->size = hints->rx_attr->size;
	rx->iov_limit = KFM_IOV_LIMIT;
}

static void kfm_fill_domain(struct kfi_domain_attr *domain,
			    const struct kfi_domain_attr *hints)
{
	domain->threading = KFI_THREAD_SAFE;
	domain->control_progress = KFI_PROGRESS_AUTO;
	domain->data_progress = KFI_PROGRESS_AUTO;
	if (hints && hints->data_progress == KFI_PROGRESS_MANUAL)
		domain->data_progress = KFI_PROGRESS_MANUAL;
	domain->resource_mgmt = KFI_RM_ENABLED;
	domain->mr_mode = KFM_MR_MODE;
	domain->mr_key_size = sizeof(u64);
	domain->cq_data_size = sizeof(u64);
	domain->max_ep_tx_ctx = 1;
	domain->max_ep_rx_ctx = 1;
	domain->mr_iov_limit = KFM_IOV_LIMIT;
	domain->caps = KFI_LOCAL_COMM;
}

static int kfm_fill(struct kfi_info *info, const struct kfi_info *hints)
{
	info->caps = hints->caps ? hints->caps : KFM_CAPS;
	info->addr_format = KFI_FORMAT_UNSPEC;
	info->ep_attr->type = KFI_EP_MSG;
	info->ep_attr->max_msg_size = KFM_MSG_SIZE;
	info->ep_attr->tx_ctx_cnt = 1;
	info->ep_attr->rx_ctx_cnt = 1;
	kfm_fill_context(info, hints);
	kfm_fill_domain(info->domain_attr, hints->domain_attr);

	info->fabric_attr->name = kstrdup(KFM_FABRIC, GFP_KERNEL);
	info->domain_attr->name = kstrdup(KFM_DOMAIN, GFP_KERNEL);
	if (!info->fabric_attr->name || !info->domain_attr->name)
		return -ENOMEM;
	return 0;
}

/**
 * kfm_getinfo() - kfi_provider.kgetinfo
 * @version: API version of the caller
 * @node: must be NULL
 * @service: must be NULL
 * @flags: ignored
 * @hints: must name the provider
 * @ret: where the info is stored; the caller frees it
 *
 * Context: Process context. May sleep.
 * Return: 0, -ENODATA if the provider cannot match @hints, -ENOMEM.
 */
int kfm_getinfo(u32 version, const char *node, const char *service,
		u64 flags, struct kfi_info *hints, struct kfi_info **ret)
{
	struct kfi_info *info;
	int err;

	/* The provider has no addresses. */
	if (node || service || !kfm_fits(hints))
		return -ENODATA;

	info = kfi_allocinfo();
	if (!info)
		return -ENOMEM;
	err = kfm_fill(info, hints);
	if (err) {
		kfi_freeinfo(info);
		return err;
	}
	*ret = info;
	return 0;
}
