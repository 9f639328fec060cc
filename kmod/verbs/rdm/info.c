// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Discovery of RDM endpoints, for kfi_getinfo(); and checks of context
 * attributes.
 *
 * kfr_getinfo() makes one offer for each port and each notation of addresses that fits
 * the hints. An offer begins as an info of a connected endpoint (kfv_info_new()),
 * gets the attributes of RDM endpoints (kfr_fill()), is compared with the hints
 * (kfr_fit()), and gets addresses (kfr_set_first_addrs()).
 *
 * Discovery runs under kfv_lock, which keeps devices and domains. It keeps no
 * state: an offer may be stale as soon as the lock is dropped, and opening a
 * domain checks again.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "rdm.h"

static bool kfr_prefer_rdm;
module_param_named(prefer_rdm, kfr_prefer_rdm, bool, 0644);
MODULE_PARM_DESC(prefer_rdm, "RDM endpoints come first where any type would do (default: N)");

/**
 * struct kfr_query - one call of kfi_getinfo(), on its stack
 * @version: version of the API that the caller was written for
 * @node: as given
 * @service: as given
 * @source: @node and @service name the local side
 * @hints: as given; an empty one if there was none
 * @format: notation of addresses in the offers being made
 */
struct kfr_query {
	u32 version;
	const char *node;
	const char *service;
	bool source;
	const struct kfi_info *hints;
	u32 format;
};

static void kfr_fill_ctx(struct kfi_info *info)
{
	struct kfi_tx_attr *tx = info->tx_attr;
	struct kfi_rx_attr *rx = info->rx_attr;

	tx->caps = KFR_CAPS_TX;
	tx->msg_order = KFI_ORDER_NONE;
	tx->comp_order = KFI_ORDER_NONE;
	tx->inject_size = KFV_INJECT_SIZE;
	tx->size = KFR_TX_SIZE;
	tx->iov_limit = KFR_IOV_LIMIT;
	tx->rma_iov_limit = 1;
	rx->caps = KFR_CAPS_RX;
	rx->msg_order = KFI_ORDER_NONE;
	rx->comp_order = KFI_ORDER_NONE;
	rx->total_buffered_recv = kfr_keeps() ? KFR_KEEP * KFR_EAGER : 0;
	rx->size = KFR_RX_SIZE;
	rx->iov_limit = KFR_IOV_LIMIT;
}

/* Attributes that differ from those of connected endpoints. */
static void kfr_fill(struct kfi_info *info, u32 format)
{
	struct kfi_domain_attr *domain = info->domain_attr;
	struct kfi_ep_attr *ep = info->ep_attr;

	info->caps = KFR_CAPS;
	info->addr_format = format;
	kfr_fill_ctx(info);
	ep->type = KFI_EP_RDM;
	ep->protocol = KFI_PROTO_IB_RDM;
	ep->protocol_version = KFR_VERSION;
	ep->max_msg_size = KFR_MSG_MAX;
	ep->tx_ctx_cnt = KFR_CTX_MAX;
	ep->rx_ctx_cnt = KFR_CTX_MAX;
	ep->max_order_raw_size = 0;
	ep->max_order_war_size = 0;
	ep->max_order_waw_size = 0;
	domain->av_type = KFI_AV_MAP;
	domain->mr_mode = format == KFI_ADDR_CXI ? KFI_MR_ENDPOINT : 0;
	domain->mr_key_size = sizeof(u64);
	domain->cq_data_size = sizeof(u64);
	domain->tx_ctx_cnt = KFR_CTX_MAX;
	domain->rx_ctx_cnt = KFR_CTX_MAX;
	domain->max_ep_tx_ctx = KFR_CTX_MAX;
	domain->max_ep_rx_ctx = KFR_CTX_MAX;
	domain->mr_iov_limit = KFR_IOV_LIMIT;
	domain->mr_cnt = INT_MAX;
}

/**
 * kfr_tx_attr_ok() - check attributes of a transmit context
 * @attr: from a hint or from the open of a context
 *
 * Context: any.
 * Return: 0 or -EINVAL: unsupported.
 */
int kfr_tx_attr_ok(const struct kfi_tx_attr *attr)
{
	return attr->caps & ~(KFR_CAPS_TX | KFV_CAPS_DOMAIN) ||
	       attr->op_flags & ~KFR_TX_OP_FLAGS || attr->mode ||
	       attr->msg_order || attr->comp_order ||
	       attr->inject_size > KFV_INJECT_SIZE ||
	       attr->size > KFR_TX_MAX || attr->iov_limit > KFR_IOV_LIMIT ||
	       attr->rma_iov_limit > KFR_IOV_LIMIT ||
	       !kfv_fit_tclass(attr->tclass) ? -EINVAL : 0;
}

/**
 * kfr_rx_attr_ok() - check attributes of a receive context
 * @attr: from a hint or from the open of a context
 *
 * Context: any.
 * Return: 0 or -EINVAL: unsupported.
 */
int kfr_rx_attr_ok(const struct kfi_rx_attr *attr)
{
	return attr->caps & ~(KFR_CAPS_RX | KFV_CAPS_DOMAIN) ||
	       attr->op_flags & ~KFR_RX_OP_FLAGS || attr->mode ||
	       attr->msg_order || attr->comp_order ||
	       attr->total_buffered_recv > (size_t)KFR_KEEP_MAX * KFR_EAGER ||
	       attr->size > KFR_RX_MAX || attr->iov_limit > KFR_IOV_LIMIT ?
	       -EINVAL : 0;
}

static bool kfr_fit_ctx(struct kfi_info *info, const struct kfi_info *hints)
{
	const struct kfi_tx_attr *tx = hints->tx_attr;
	const struct kfi_rx_attr *rx = hints->rx_attr;

	if (tx) {
		/*
		 * rma_iov_limit above 1 is accepted: callers give the
		 * number of their local pieces there.
		 */
		if (kfr_tx_attr_ok(tx))
			return false;
		info->tx_attr->op_flags = tx->op_flags;
		kfv_take_size(&info->tx_attr->size, tx->size);
	}
	if (rx) {
		if (kfr_rx_attr_ok(rx))
			return false;
		info->rx_attr->op_flags = rx->op_flags;
		kfv_take_size(&info->rx_attr->size, rx->size);
		if (kfr_keeps())
			kfv_take_size(&info->rx_attr->total_buffered_recv,
				      rx->total_buffered_recv);
	}
	return true;
}

/* A key of four bytes, or none. */
static bool kfr_fit_auth(const u8 *key, size_t size)
{
	return key ? size == sizeof(u32) : !size;
}

static bool kfr_fit_ep(struct kfi_info *info, const struct kfi_ep_attr *hint)
{
	struct kfi_ep_attr *ep = info->ep_attr;

	ep->tx_ctx_cnt = min(ep->tx_ctx_cnt, info->domain_attr->max_ep_tx_ctx);
	ep->rx_ctx_cnt = min(ep->rx_ctx_cnt, info->domain_attr->max_ep_rx_ctx);
	if (!hint)
		return true;
	if ((hint->protocol && hint->protocol != ep->protocol) ||
	    hint->protocol_version > ep->protocol_version ||
	    hint->max_msg_size > ep->max_msg_size || hint->msg_prefix_size ||
	    hint->max_order_raw_size || hint->max_order_war_size ||
	    hint->max_order_waw_size || hint->tx_ctx_cnt > KFR_CTX_MAX ||
	    hint->rx_ctx_cnt > KFR_CTX_MAX ||
	    !kfr_fit_auth(hint->auth_key, hint->auth_key_size))
		return false;
	kfv_take_size(&ep->tx_ctx_cnt, hint->tx_ctx_cnt);
	kfv_take_size(&ep->rx_ctx_cnt, hint->rx_ctx_cnt);
	return true;
}

static bool kfr_fit_domain(struct kfi_info *info,
			   const struct kfi_domain_attr *hint,
			   const struct kfv_device *dev, u32 port)
{
	struct kfi_domain_attr *domain = info->domain_attr;
	struct kfid_domain *wanted = hint ? hint->domain : NULL;

	domain->domain = kfv_domain_find(dev, port, wanted, info->addr_format);
	if (!hint)
		return true;
	if ((wanted && !domain->domain) || hint->av_type > KFI_AV_TABLE ||
	    !kfr_fit_auth(hint->auth_key, hint->auth_key_size) ||
	    !kfv_fit_domain_attr(domain, hint))
		return false;
	/* A hinted mode is one that the caller copes with; none is needed. */
	if (hint->mr_mode)
		domain->mr_mode = hint->mr_mode & KFI_MR_ENDPOINT;
	if (hint->av_type)
		domain->av_type = hint->av_type;
	return true;
}

/* With these events peers fill the endpoint's queue: only if they are asked for. */
static void kfr_fit_rma_event(struct kfi_info *info,
			      const struct kfi_info *hints)
{
	const u64 rx = hints->rx_attr ? hints->rx_attr->caps : 0;

	if ((hints->caps | rx) & KFI_RMA_EVENT)
		return;
	info->caps &= ~KFI_RMA_EVENT;
	info->rx_attr->caps &= ~KFI_RMA_EVENT;
}

static bool kfr_fit(struct kfi_info *info, const struct kfi_info *hints,
		    const struct kfv_device *dev, u32 port)
{
	if ((hints->caps & ~info->caps) || !kfr_fit_ctx(info, hints))
		return false;
	kfv_fit_caps(info, hints);
	kfr_fit_rma_event(info, hints);
	/* The domain's first: an endpoint has no more contexts than that allows. */
	return kfr_fit_domain(info, hints->domain_attr, dev, port) &&
	       kfr_fit_ep(info, hints->ep_attr) &&
	       kfv_fit_fabric(info->fabric_attr, hints->fabric_attr);
}

/* That of the endpoint, or else of its domain. */
static int kfr_set_auth(struct kfi_ep_attr *ep, const struct kfi_info *hints)
{
	const u8 *key = NULL;

	if (hints->domain_attr)
		key = hints->domain_attr->auth_key;
	if (hints->ep_attr && hints->ep_attr->auth_key)
		key = hints->ep_attr->auth_key;
	if (!key)
		return 0;
	ep->auth_key = kmemdup(key, sizeof(u32), GFP_KERNEL);
	ep->auth_key_size = sizeof(u32);
	return ep->auth_key ? 0 : -ENOMEM;
}

/* Does a node string name the port itself, in one of three forms? */
static bool kfr_names_port(const char *node, const struct kfv_device *dev,
			   u32 port, const char *netdev)
{
	char name[KFI_NAME_MAX];
	const struct kfv_device *other;
	unsigned int nth = 0;

	lockdep_assert_held(&kfv_lock);
	kfv_domain_name(dev->ib, port, name);
	if (kfv_named(node, name) || !strcmp(node, netdev))
		return true;
	if (kfv_is_alias(node))
		return false;
	list_for_each_entry(other, &kfv_devices, link) {
		if (other == dev)
			break;
		nth++;
	}
	snprintf(name, sizeof(name), "cxi%u", nth);
	return !strcmp(node, name);
}

static int kfr_put_addr(void **addr, size_t *len,
			const struct kfr_format *format, struct kfr_addr from)
{
	*addr = kzalloc(kfr_addr_size(format), GFP_KERNEL);
	if (!*addr)
		return -ENOMEM;
	*len = kfr_addr_size(format);
	kfr_addr_write(format, from, *addr);
	return 0;
}

static int kfr_hint_addr(const struct kfr_format *format, const void *addr,
			 size_t len, struct kfr_addr *to)
{
	if (!addr)
		return 0;
	if (len != kfr_addr_size(format))
		return -KFI_ENODATA;
	return kfr_addr_read(format, addr, to) ? -KFI_ENODATA : 0;
}

/*
 * The destination, from node and service or from the hints; 0.0.0.0 if there is
 * none.
 */
static int kfr_query_dest(const struct kfr_query *query,
			  const struct kfr_format *format, struct kfr_addr *dst)
{
	if ((!query->node && !query->service) || query->source)
		return kfr_hint_addr(format, query->hints->dest_addr,
				     query->hints->dest_addrlen, dst);
	return kfr_addr_parse(format, query->node, query->service, dst);
}

/* Return: 0 if the route to @to starts from @from; -KFI_ENODATA, -ENOMEM. */
static int kfr_reaches(__be32 from, __be32 to)
{
	__be32 source;
	int err = kfv_route_source(to, &source);

	if (err)
		return err;
	return source == from ? 0 : -KFI_ENODATA;
}

/*
 * The source. Return: 0; -KFI_ENODATA: the caller wants another address of the
 * port, or of another port, than @format->ip.
 */
static int kfr_query_source(const struct kfr_query *query,
			    const struct kfr_format *format, bool named,
			    struct kfr_addr *src)
{
	int err;

	src->ip = format->ip;
	if (query->source && (query->node || query->service)) {
		err = kfr_addr_parse(format, named ? NULL : query->node,
				     query->service, src);
	} else {
		err = kfr_hint_addr(format, query->hints->src_addr,
				    query->hints->src_addrlen, src);
		if (!src->ip)
			src->ip = format->ip;
	}
	if (err)
		return err;
	return src->ip == format->ip ? 0 : -KFI_ENODATA;
}

static int kfr_set_addrs(struct kfi_info *info, const struct kfr_query *query,
			 const struct kfr_format *format, bool named)
{
	struct kfr_addr src = { }, dst = { };
	int err;

	err = kfr_query_source(query, format, named, &src);
	if (!err)
		err = kfr_query_dest(query, format, &dst);
	if (!err && dst.ip)
		err = kfr_reaches(src.ip, dst.ip);
	if (!err)
		err = kfr_put_addr(&info->src_addr, &info->src_addrlen, format,
				   src);
	if (!err && dst.ip)
		err = kfr_put_addr(&info->dest_addr, &info->dest_addrlen,
				   format, dst);
	return err;
}

/* The first address of the port that fits the query. */
static int kfr_set_first_addrs(struct kfi_info *info,
			       const struct kfr_query *query,
			       const struct kfv_device *dev, u32 port)
{
	struct kfr_format format = { .format = info->addr_format };
	char netdev[IFNAMSIZ];
	int err = -KFI_ENODATA;
	unsigned int nth;
	bool named;

	for (nth = 0; err == -KFI_ENODATA; nth++) {
		if (kfr_port_ip(dev->ib, port, nth, &format.ip, netdev))
			break;
		if (format.format == KFI_ADDR_CXI &&
		    kfr_base(format.ip, &format.base))
			continue;
		named = query->node &&
			kfr_names_port(query->node, dev, port, netdev);
		err = kfr_set_addrs(info, query, &format, named);
	}
	return err;
}

/* Return: an offer; NULL: the port does not fit; -ENOMEM. */
static struct kfi_info *kfr_port_offer(const struct kfv_device *dev, u32 port,
				       void *arg)
{
	struct kfr_query *query = arg;
	struct kfi_info *info = kfv_info_new(dev->ib, port);
	int err = -KFI_ENODATA;

	if (IS_ERR(info))
		return PTR_ERR(info) == -ENOMEM ? info : NULL;
	kfr_fill(info, query->format);
	if (kfr_fit(info, query->hints, dev, port))
		err = kfr_set_auth(info->ep_attr, query->hints);
	if (!err)
		err = kfr_set_first_addrs(info, query, dev, port);
	if (!err)
		err = kfv_name_as_hinted(info, query->hints);
	if (err) {
		kfi_freeinfo(info);
		return err == -ENOMEM ? ERR_PTR(err) : NULL;
	}
	info->fabric_attr->api_version = query->version;
	return info;
}

static bool kfr_dotted(const char *node)
{
	return strchr(node, '.');
}

/**
 * kfr_comes_first() - which type of endpoint begins the answer of kfi_getinfo()?
 * @hints: requested attributes, or NULL for any
 * @node: as given, or NULL
 *
 * The caller most likely takes the first offer. Connected endpoints come first, unless
 * something of the call belongs to RDM endpoints, or the parameter prefer_rdm is set.
 *
 * Context: any.
 * Return: true for RDM endpoints.
 */
bool kfr_comes_first(const struct kfi_info *hints, const char *node)
{
	if (READ_ONCE(kfr_prefer_rdm) || (node && !kfr_dotted(node)))
		return true;
	return hints && (hints->addr_format == KFI_ADDR_CXI ||
			 hints->caps & KFR_CAPS_ONLY);
}

static bool kfr_fit_type(const struct kfi_ep_attr *hint)
{
	return !hint || hint->type == KFI_EP_UNSPEC || hint->type == KFI_EP_RDM;
}

/* Which notation comes first? The caller most likely takes the first offer. */
static bool kfr_cxi_first(const struct kfi_info *hints, const char *node)
{
	if (node)
		return !kfr_dotted(node);
	return !hints->ep_attr || hints->ep_attr->type != KFI_EP_RDM;
}

static bool kfr_wants_format(const struct kfi_info *hints, u32 format)
{
	return !hints->addr_format || hints->addr_format == format ||
	       (hints->addr_format == KFI_SOCKADDR &&
		format == KFI_SOCKADDR_IN);
}

static int kfr_list_offers(struct kfr_query *query, struct kfi_info **list)
{
	u32 formats[2] = { KFI_SOCKADDR_IN, KFI_ADDR_CXI };
	struct kfi_info **tail = list;
	unsigned int i;
	int err = 0;

	if (kfr_cxi_first(query->hints, query->node))
		swap(formats[0], formats[1]);
	for (i = 0; i < ARRAY_SIZE(formats) && !err; i++) {
		query->format = formats[i];
		if (kfr_wants_format(query->hints, query->format))
			err = kfv_list_offers(kfr_port_offer, query, &tail);
	}
	return err;
}

/**
 * kfr_getinfo() - offers of RDM endpoints for kfi_getinfo()
 * @version: version of the API that the caller was written for
 * @node: the name of a device or of its network device, a dotted IPv4 address,
 *	a nic (decimal or 0x...), cxiN for the Nth device, or NULL
 * @service: port, or pid of 8-byte addresses; or NULL
 * @flags: KFI_SOURCE: @node and @service are the local side
 * @hints: requested attributes, or NULL for any
 * @list: out: the offers, owned by the caller, or NULL
 *
 * Context: process, may sleep; no lock held.
 * Return: 0; -KFI_ENODATA: nothing fits; -ENOMEM.
 */
int kfr_getinfo(u32 version, const char *node, const char *service,
		u64 flags, const struct kfi_info *hints,
		struct kfi_info **list)
{
	static const struct kfi_info nothing;
	struct kfr_query query = {
		.version = version,
		.node = node,
		.service = service,
		.source = flags & KFI_SOURCE,
		.hints = hints ? hints : &nothing,
	};
	int err;

	*list = NULL;
	if (!kfr_fit_type(query.hints->ep_attr))
		return -KFI_ENODATA;
	mutex_lock(&kfv_lock);
	err = kfr_list_offers(&query, list);
	mutex_unlock(&kfv_lock);
	if (err) {
		kfi_freeinfo(*list);
		*list = NULL;
		return err;
	}
	return *list ? 0 : -KFI_ENODATA;
}
