// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Discovery, and the two forms of an info: the kernel's tree of allocations and
 * the user's flat structure.
 */
#include <linux/slab.h>
#include <linux/string.h>

#include "kfd.h"

/*
 * The modes that a provider may require of its caller. Not KFI_CONTEXT: a context is
 * the user's number here, not memory. Not KFI_ASYNC_IOV: vectors are freed at the end of
 * the call.
 */
#define KFD_MODES (KFI_LOCAL_MR | KFI_RX_CQ_DATA | KFI_NOTIFY_FLAGS_ONLY | \
		   KFI_RESTRICTED_COMP | KFI_MSG_PREFIX)

static int kfd_string_get(char **to, const u8 *from)
{
	if (strnlen((const char *)from, KFAB_NAME_MAX) == KFAB_NAME_MAX)
		return -EINVAL;
	if (!*from)
		return 0;
	*to = kstrdup((const char *)from, GFP_KERNEL_ACCOUNT);
	return *to ? 0 : -ENOMEM;
}

static int kfd_addr_get(void **to, size_t *to_len, const u8 *from, u32 len)
{
	if (len > KFAB_ADDR_MAX)
		return -EINVAL;
	if (!len)
		return 0;
	*to = kmemdup(from, len, GFP_KERNEL_ACCOUNT);
	if (!*to)
		return -ENOMEM;
	*to_len = len;
	return 0;
}

static void kfd_tx_attr_get(struct kfi_tx_attr *tx, const struct kfab_info *in)
{
	tx->caps = in->tx_caps;
	tx->mode = in->tx_mode;
	tx->op_flags = in->tx_op_flags;
	tx->msg_order = in->tx_msg_order;
	tx->comp_order = in->tx_comp_order;
	tx->inject_size = in->tx_inject_size;
	tx->size = in->tx_size;
	tx->iov_limit = in->tx_iov_limit;
	tx->rma_iov_limit = in->tx_rma_iov_limit;
	tx->tclass = in->tx_tclass;
}

static void kfd_tx_attr_put(struct kfab_info *out, const struct kfi_tx_attr *tx)
{
	out->tx_caps = tx->caps;
	out->tx_mode = tx->mode;
	out->tx_op_flags = tx->op_flags;
	out->tx_msg_order = tx->msg_order;
	out->tx_comp_order = tx->comp_order;
	out->tx_inject_size = tx->inject_size;
	out->tx_size = tx->size;
	out->tx_iov_limit = tx->iov_limit;
	out->tx_rma_iov_limit = tx->rma_iov_limit;
	out->tx_tclass = tx->tclass;
}

static void kfd_rx_attr_get(struct kfi_rx_attr *rx, const struct kfab_info *in)
{
	rx->caps = in->rx_caps;
	rx->mode = in->rx_mode;
	rx->op_flags = in->rx_op_flags;
	rx->msg_order = in->rx_msg_order;
	rx->comp_order = in->rx_comp_order;
	rx->total_buffered_recv = in->rx_total_buffered_recv;
	rx->size = in->rx_size;
	rx->iov_limit = in->rx_iov_limit;
}

static void kfd_rx_attr_put(struct kfab_info *out, const struct kfi_rx_attr *rx)
{
	out->rx_caps = rx->caps;
	out->rx_mode = rx->mode;
	out->rx_op_flags = rx->op_flags;
	out->rx_msg_order = rx->msg_order;
	out->rx_comp_order = rx->comp_order;
	out->rx_total_buffered_recv = rx->total_buffered_recv;
	out->rx_size = rx->size;
	out->rx_iov_limit = rx->iov_limit;
}

static void kfd_ep_attr_get(struct kfi_ep_attr *ep, const struct kfab_info *in)
{
	ep->type = in->ep_type;
	ep->protocol = in->ep_protocol;
	ep->protocol_version = in->ep_protocol_version;
	ep->max_msg_size = in->ep_max_msg_size;
	ep->msg_prefix_size = in->ep_msg_prefix_size;
	ep->max_order_raw_size = in->ep_max_order_raw_size;
	ep->max_order_war_size = in->ep_max_order_war_size;
	ep->max_order_waw_size = in->ep_max_order_waw_size;
	ep->mem_tag_format = in->ep_mem_tag_format;
	ep->tx_ctx_cnt = in->ep_tx_ctx_cnt;
	ep->rx_ctx_cnt = in->ep_rx_ctx_cnt;
}

static void kfd_ep_attr_put(struct kfab_info *out, const struct kfi_ep_attr *ep)
{
	out->ep_type = ep->type;
	out->ep_protocol = ep->protocol;
	out->ep_protocol_version = ep->protocol_version;
	out->ep_max_msg_size = ep->max_msg_size;
	out->ep_msg_prefix_size = ep->msg_prefix_size;
	out->ep_max_order_raw_size = ep->max_order_raw_size;
	out->ep_max_order_war_size = ep->max_order_war_size;
	out->ep_max_order_waw_size = ep->max_order_waw_size;
	out->ep_mem_tag_format = ep->mem_tag_format;
	out->ep_tx_ctx_cnt = ep->tx_ctx_cnt;
	out->ep_rx_ctx_cnt = ep->rx_ctx_cnt;
}

static void kfd_domain_attr_get(struct kfi_domain_attr *dom,
				const struct kfab_info *in)
{
	dom->threading = in->domain_threading;
	dom->control_progress = in->domain_control_progress;
	dom->data_progress = in->domain_data_progress;
	dom->resource_mgmt = in->domain_resource_mgmt;
	dom->av_type = in->domain_av_type;
	dom->mr_mode = in->domain_mr_mode;
	dom->mr_key_size = in->domain_mr_key_size;
	dom->cq_data_size = in->domain_cq_data_size;
	dom->cq_cnt = in->domain_cq_cnt;
	dom->ep_cnt = in->domain_ep_cnt;
	dom->tx_ctx_cnt = in->domain_tx_ctx_cnt;
	dom->rx_ctx_cnt = in->domain_rx_ctx_cnt;
	dom->max_ep_tx_ctx = in->domain_max_ep_tx_ctx;
	dom->max_ep_rx_ctx = in->domain_max_ep_rx_ctx;
	dom->cntr_cnt = in->domain_cntr_cnt;
	dom->mr_iov_limit = in->domain_mr_iov_limit;
	dom->caps = in->domain_caps;
	dom->mode = in->domain_mode;
	dom->max_err_data = in->domain_max_err_data;
	dom->mr_cnt = in->domain_mr_cnt;
}

static void kfd_domain_attr_put(struct kfab_info *out,
				const struct kfi_domain_attr *dom)
{
	strscpy(out->domain_name, dom->name ?: "", KFAB_NAME_MAX);
	out->domain_threading = dom->threading;
	out->domain_control_progress = dom->control_progress;
	out->domain_data_progress = dom->data_progress;
	out->domain_resource_mgmt = dom->resource_mgmt;
	out->domain_av_type = dom->av_type;
	out->domain_mr_mode = dom->mr_mode;
	out->domain_mr_key_size = dom->mr_key_size;
	out->domain_cq_data_size = dom->cq_data_size;
	out->domain_cq_cnt = dom->cq_cnt;
	out->domain_ep_cnt = dom->ep_cnt;
	out->domain_tx_ctx_cnt = dom->tx_ctx_cnt;
	out->domain_rx_ctx_cnt = dom->rx_ctx_cnt;
	out->domain_max_ep_tx_ctx = dom->max_ep_tx_ctx;
	out->domain_max_ep_rx_ctx = dom->max_ep_rx_ctx;
	out->domain_cntr_cnt = dom->cntr_cnt;
	out->domain_mr_iov_limit = dom->mr_iov_limit;
	out->domain_caps = dom->caps;
	out->domain_mode = dom->mode;
	out->domain_max_err_data = dom->max_err_data;
	out->domain_mr_cnt = dom->mr_cnt;
}

static void kfd_fabric_attr_put(struct kfab_info *out,
				const struct kfi_fabric_attr *fabric)
{
	strscpy(out->fabric_name, fabric->name ?: "", KFAB_NAME_MAX);
	strscpy(out->prov_name, fabric->prov_name ?: "", KFAB_NAME_MAX);
	out->prov_version = fabric->prov_version;
	out->api_version = fabric->api_version;
}

static int kfd_info_fill(struct kfi_info *info, const struct kfab_info *in)
{
	int ret;

	info->caps = in->caps;
	info->mode = in->mode;
	info->addr_format = in->addr_format;
	kfd_tx_attr_get(info->tx_attr, in);
	kfd_rx_attr_get(info->rx_attr, in);
	kfd_ep_attr_get(info->ep_attr, in);
	kfd_domain_attr_get(info->domain_attr, in);
	info->fabric_attr->prov_version = in->prov_version;
	info->fabric_attr->api_version = in->api_version;

	ret = kfd_addr_get(&info->src_addr, &info->src_addrlen, in->src_addr,
			   in->src_addrlen);
	ret = ret ?: kfd_addr_get(&info->dest_addr, &info->dest_addrlen,
				  in->dest_addr, in->dest_addrlen);
	ret = ret ?: kfd_string_get(&info->domain_attr->name, in->domain_name);
	ret = ret ?: kfd_string_get(&info->fabric_attr->name, in->fabric_name);
	ret = ret ?: kfd_string_get(&info->fabric_attr->prov_name, in->prov_name);
	return ret;
}

/* Copy the flat structure in, and check its size, flags and padding. */
static int kfd_info_copy(struct kfab_info *in, u64 uaddr)
{
	const struct kfab_info __user *from = u64_to_user_ptr(uaddr);
	u32 size;
	int ret;

	if (get_user(size, &from->size))
		return -EFAULT;
	if (size < offsetofend(struct kfab_info, api_version))
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;
	ret = copy_struct_from_user(in, sizeof(*in), from, size);
	if (ret)
		return ret;
	return in->flags || in->__reserved ? -EINVAL : 0;
}

/**
 * kfd_info_get() - read an info from the user
 * @uaddr: address of a struct kfab_info
 *
 * Context: Process, may sleep and fault.
 * Return: the kernel's form, for kfi_freeinfo(), or an ERR_PTR: -EFAULT,
 * -EINVAL, -E2BIG, -ENOMEM; -EOPNOTSUPP for a mode that users cannot serve.
 */
struct kfi_info *kfd_info_get(u64 uaddr)
{
	struct kfab_info *in = kmalloc(sizeof(*in), GFP_KERNEL_ACCOUNT);
	struct kfi_info *info = NULL;
	int ret;

	if (!in)
		return ERR_PTR(-ENOMEM);
	ret = kfd_info_copy(in, uaddr);
	if (!ret && (in->mode | in->domain_mode | in->tx_mode | in->rx_mode) & ~KFD_MODES)
		ret = -EOPNOTSUPP;
	if (!ret) {
		info = kfi_allocinfo();
		ret = info ? kfd_info_fill(info, in) : -ENOMEM;
	}
	kfree(in);
	if (!ret)
		return info;
	kfi_freeinfo(info);
	return ERR_PTR(ret);
}

/**
 * kfd_info_put() - write an info for the user
 * @to: where to
 * @usize: sizeof(struct kfab_info) as the user knows it
 * @info: the kernel's form
 *
 * Context: Process, may sleep and fault.
 * Return: 0, -EFAULT, -ENOMEM; -EINVAL for an address of more than
 * KFAB_ADDR_MAX bytes.
 */
int kfd_info_put(void __user *to, u32 usize, const struct kfi_info *info)
{
	const size_t len = min_t(size_t, usize, sizeof(struct kfab_info));
	struct kfab_info *out;
	int ret = 0;

	if (info->src_addrlen > KFAB_ADDR_MAX || info->dest_addrlen > KFAB_ADDR_MAX)
		return -EINVAL;
	out = kzalloc(sizeof(*out), GFP_KERNEL_ACCOUNT);
	if (!out)
		return -ENOMEM;
	out->size = usize;
	out->caps = info->caps;
	out->mode = info->mode;
	out->addr_format = info->addr_format;
	out->src_addrlen = info->src_addr ? info->src_addrlen : 0;
	out->dest_addrlen = info->dest_addr ? info->dest_addrlen : 0;
	memcpy(out->src_addr, info->src_addr, out->src_addrlen);
	memcpy(out->dest_addr, info->dest_addr, out->dest_addrlen);
	if (info->tx_attr)
		kfd_tx_attr_put(out, info->tx_attr);
	if (info->rx_attr)
		kfd_rx_attr_put(out, info->rx_attr);
	if (info->ep_attr)
		kfd_ep_attr_put(out, info->ep_attr);
	if (info->domain_attr)
		kfd_domain_attr_put(out, info->domain_attr);
	if (info->fabric_attr)
		kfd_fabric_attr_put(out, info->fabric_attr);
	if (copy_to_user(to, out, len) || clear_user(to + len, usize - len))
		ret = -EFAULT;
	kfree(out);
	return ret;
}

/* Write the entries that fit. Return: their number; arg->count is set to the total. */
static long kfd_infos_put(struct kfab_getinfo *arg, const struct kfi_info *info)
{
	u8 __user *to = u64_to_user_ptr(arg->infos);
	const u32 room = arg->infos ? arg->count : 0;
	u32 exist = 0, written = 0;
	int ret;

	for (; info; info = info->next) {
		/* A provider may require such a mode although the hints have none. */
		if (info->mode & ~KFD_MODES)
			continue;
		exist++;
		if (written == room)
			continue;
		ret = kfd_info_put(to + (size_t)written * arg->info_size,
				   arg->info_size, info);
		if (ret)
			return ret;
		written++;
	}
	arg->count = exist;
	if (!exist)
		return -ENODATA;
	return written;
}

static long kfd_getinfo_list(struct kfab_getinfo *arg, const char *node,
			     const char *service, struct kfi_info *hints)
{
	struct kfi_info *list = NULL;
	long ret;

	ret = kfi_getinfo(arg->version, node, service, arg->getinfo_flags, hints,
			  &list);
	if (ret)
		return ret;
	ret = kfd_infos_put(arg, list);
	kfi_freeinfo(list);
	return ret;
}

/**
 * kfd_getinfo() - KFAB_IOC_GETINFO
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: the number of entries written, or a negative errno as listed at struct
 * kfab_getinfo.
 */
long kfd_getinfo(struct kfd_call *call)
{
	struct kfab_getinfo *arg = call->arg;
	struct kfi_info *hints = NULL;
	char *node, *service;
	long ret;

	if (arg->infos && (arg->info_size > PAGE_SIZE ||
			   arg->info_size < offsetofend(struct kfab_info, api_version)))
		return -EINVAL;
	node = kfd_string_user(arg->node);
	if (IS_ERR(node))
		return PTR_ERR(node);
	service = kfd_string_user(arg->service);
	if (IS_ERR(service)) {
		ret = PTR_ERR(service);
		goto out_node;
	}
	if (arg->hints)
		hints = kfd_info_get(arg->hints);
	if (IS_ERR(hints)) {
		ret = PTR_ERR(hints);
		goto out_service;
	}
	ret = kfd_getinfo_list(arg, node, service, hints);
	kfi_freeinfo(hints);
out_service:
	kfree(service);
out_node:
	kfree(node);
	return ret;
}
