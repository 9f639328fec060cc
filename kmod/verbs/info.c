// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Discovery: kfi_getinfo(). Each port of each device makes one offer: everything that
 * it has, lowered to what the hints ask for. A port that cannot meet the hints makes
 * none. Offers for RDM endpoints are made in rdm/info.c, by the functions here.
 *
 * The whole answer is made under kfv_lock, so that it shows one set of devices, domains
 * and fabrics. It may be out of date when the caller gets it.
 */
#include <linux/in.h>
#include <linux/slab.h>

#include "rdm/rdm.h"

#define KFV_MSG_ORDER	(KFI_ORDER_RAR | KFI_ORDER_RAW | KFI_ORDER_RAS | \
			 KFI_ORDER_WAW | KFI_ORDER_WAS | KFI_ORDER_SAW | \
			 KFI_ORDER_SAS)
#define KFV_COMP_ORDER	(KFI_ORDER_STRICT | KFI_ORDER_DATA)

#define KFV_GETINFO_FLAGS (KFI_SOURCE | KFI_NUMERICHOST | KFI_PROV_ATTR_ONLY)

/**
 * struct kfv_query - the request of a caller of kfi_getinfo()
 * @version: of the API
 * @flags: of the call
 * @hints: as given, or NULL
 * @src: local address, family 0 for any
 * @dst: peer's address, family 0 for none
 * @local: address whose device is wanted, 0 for any device
 * @ib: that device, for comparing only: RDMA CM may have chosen a device that
 *	is not served here
 * @port: its port
 */
struct kfv_query {
	u32 version;
	u64 flags;
	const struct kfi_info *hints;
	struct sockaddr_in src;
	struct sockaddr_in dst;
	__be32 local;
	const struct ib_device *ib;
	u32 port;
};

static void kfv_fill_tx(struct kfi_tx_attr *tx, const struct ib_device *ib)
{
	tx->caps = KFV_CAPS_TX | kfv_atomic_caps(ib);
	tx->msg_order = KFV_MSG_ORDER;
	tx->comp_order = KFV_COMP_ORDER;
	tx->inject_size = KFV_INJECT_SIZE;
	tx->size = min(KFV_QUEUE_SIZE, ib->attrs.max_qp_wr - KFV_SPARE_WR);
	tx->iov_limit = min3(KFV_IOV_LIMIT, ib->attrs.max_send_sge,
			     ib->attrs.max_sge_rd);
	tx->rma_iov_limit = 1;
}

static void kfv_fill_rx(struct kfi_rx_attr *rx, const struct ib_device *ib)
{
	rx->caps = KFV_CAPS_RX | kfv_atomic_caps(ib);
	rx->msg_order = KFV_MSG_ORDER;
	rx->comp_order = KFV_COMP_ORDER;
	rx->size = min(KFV_QUEUE_SIZE, ib->attrs.max_qp_wr - KFV_SPARE_WR);
	rx->iov_limit = min(KFV_IOV_LIMIT, ib->attrs.max_recv_sge);
}

static void kfv_fill_ep(struct kfi_ep_attr *ep, size_t max_msg_size)
{
	ep->type = KFI_EP_MSG;
	ep->protocol = KFI_PROTO_RDMA_CM_IB_RC;
	ep->protocol_version = 1;
	ep->max_msg_size = max_msg_size;
	ep->max_order_raw_size = max_msg_size;
	ep->max_order_waw_size = max_msg_size;
	ep->tx_ctx_cnt = 1;
	ep->rx_ctx_cnt = 1;
}

static int kfv_fill_domain(struct kfi_domain_attr *domain,
			   struct ib_device *ib, u32 port)
{
	char name[KFI_NAME_MAX];

	kfv_domain_name(ib, port, name);
	domain->name = kstrdup(name, GFP_KERNEL);
	if (!domain->name)
		return -ENOMEM;
	domain->threading = KFI_THREAD_SAFE;
	domain->control_progress = KFI_PROGRESS_AUTO;
	domain->data_progress = KFI_PROGRESS_AUTO;
	domain->resource_mgmt = KFI_RM_DISABLED;
	domain->mr_mode = KFV_MR_MODE;
	domain->mr_key_size = sizeof(u32);
	domain->cq_data_size = sizeof(u32);
	/* CQs and counters are the core's own. */
	domain->cq_cnt = ib->attrs.max_cq;
	domain->cntr_cnt = ib->attrs.max_cq;
	domain->ep_cnt = ib->attrs.max_qp;
	domain->tx_ctx_cnt = ib->attrs.max_qp;
	domain->rx_ctx_cnt = ib->attrs.max_qp;
	domain->max_ep_tx_ctx = 1;
	domain->max_ep_rx_ctx = 1;
	domain->mr_iov_limit = KFV_MR_IOV_LIMIT;
	domain->mr_cnt = ib->attrs.max_mr;
	domain->caps = KFV_CAPS_DOMAIN;
	return 0;
}

static int kfv_fill_fabric(struct kfi_fabric_attr *fabric,
			   struct ib_device *ib, u32 port)
{
	char name[KFI_NAME_MAX];
	int err;

	err = kfv_fabric_name(ib, port, name);
	if (err)
		return err;
	fabric->name = kstrdup(name, GFP_KERNEL);
	fabric->prov_name = kstrdup(KFV_PROVIDER, GFP_KERNEL);
	if (!fabric->name || !fabric->prov_name)
		return -ENOMEM;
	fabric->prov_version = KFV_VERSION;
	return 0;
}

/**
 * kfv_info_new() - an info with everything that a port has
 * @ib: the device, which the caller keeps alive
 * @port: one of its ports
 *
 * Context: process.
 * Return: an info without addresses; -ENOMEM, or the error of the device.
 */
struct kfi_info *kfv_info_new(struct ib_device *ib, u32 port)
{
	struct ib_port_attr attr;
	struct kfi_info *info;
	int err;

	err = ib_query_port(ib, port, &attr);
	if (err)
		return ERR_PTR(err);
	info = kfi_allocinfo();
	if (!info)
		return ERR_PTR(-ENOMEM);
	info->caps = KFV_CAPS | kfv_atomic_caps(ib);
	info->addr_format = KFI_SOCKADDR_IN;
	kfv_fill_tx(info->tx_attr, ib);
	kfv_fill_rx(info->rx_attr, ib);
	kfv_fill_ep(info->ep_attr, attr.max_msg_sz);
	err = kfv_fill_domain(info->domain_attr, ib, port);
	if (!err)
		err = kfv_fill_fabric(info->fabric_attr, ib, port);
	if (err) {
		kfi_freeinfo(info);
		return ERR_PTR(err);
	}
	return info;
}

/*
 * The functions below compare a hint with an info that has everything the port has. A
 * hint may ask for less, or for another size within the limits. They return false if
 * the port cannot meet the hint, and write into the info what the caller will get.
 */
static bool kfv_fit_size(size_t *have, size_t want, int max_qp_wr)
{
	if (want > KFV_QUEUE_MAX || want > max_qp_wr - KFV_SPARE_WR)
		return false;
	kfv_take_size(have, want);
	return true;
}

/**
 * kfv_fit_tclass() - check the traffic class of a hint
 * @tclass: as hinted
 *
 * A class is a wish: all traffic is treated alike, and the info of an answer has no
 * class. (fi_endpoint(3): "tclass", where a provider may ignore it)
 *
 * Context: any.
 * Return: true for a class that exists.
 */
bool kfv_fit_tclass(u32 tclass)
{
	if (tclass & KFI_TC_DSCP)
		return (tclass & ~KFI_TC_DSCP) < 64;
	return tclass == KFI_TC_UNSPEC ||
	       (tclass >= KFI_TC_LABEL && tclass <= KFI_TC_NETWORK_CTRL);
}

static bool kfv_fit_tx(struct kfi_tx_attr *tx, const struct kfi_tx_attr *hint,
		       const struct ib_device *ib)
{
	if (!hint)
		return true;
	if (hint->caps & ~(tx->caps | KFV_CAPS_DOMAIN) ||
	    hint->op_flags & ~KFV_TX_OP_FLAGS ||
	    hint->msg_order & ~tx->msg_order ||
	    hint->comp_order & ~tx->comp_order ||
	    hint->inject_size > tx->inject_size ||
	    hint->iov_limit > tx->iov_limit ||
	    hint->rma_iov_limit > tx->rma_iov_limit ||
	    !kfv_fit_tclass(hint->tclass))
		return false;
	tx->op_flags = hint->op_flags;
	return kfv_fit_size(&tx->size, hint->size, ib->attrs.max_qp_wr);
}

static bool kfv_fit_rx(struct kfi_rx_attr *rx, const struct kfi_rx_attr *hint,
		       const struct ib_device *ib)
{
	if (!hint)
		return true;
	if (hint->caps & ~(rx->caps | KFV_CAPS_DOMAIN) ||
	    hint->op_flags & ~KFV_RX_FLAGS ||
	    hint->msg_order & ~rx->msg_order ||
	    hint->comp_order & ~rx->comp_order ||
	    hint->total_buffered_recv ||
	    hint->iov_limit > rx->iov_limit)
		return false;
	rx->op_flags = hint->op_flags;
	return kfv_fit_size(&rx->size, hint->size, ib->attrs.max_qp_wr);
}

static bool kfv_fit_ep(const struct kfi_ep_attr *ep,
		       const struct kfi_ep_attr *hint)
{
	if (!hint)
		return true;
	return (!hint->type || hint->type == ep->type) &&
	       (!hint->protocol || hint->protocol == ep->protocol) &&
	       hint->protocol_version <= ep->protocol_version &&
	       hint->max_msg_size <= ep->max_msg_size &&
	       !hint->msg_prefix_size &&
	       hint->max_order_raw_size <= ep->max_order_raw_size &&
	       hint->max_order_war_size <= ep->max_order_war_size &&
	       hint->max_order_waw_size <= ep->max_order_waw_size &&
	       !hint->mem_tag_format &&
	       hint->tx_ctx_cnt <= ep->tx_ctx_cnt &&
	       hint->rx_ctx_cnt <= ep->rx_ctx_cnt &&
	       !hint->auth_key && !hint->auth_key_size;
}

/* Counts, not reservations: the device may still run out of what it has. */
static bool kfv_fit_counts(const struct kfi_domain_attr *domain,
			   const struct kfi_domain_attr *hint)
{
	return hint->mr_key_size <= domain->mr_key_size &&
	       hint->cq_data_size <= domain->cq_data_size &&
	       hint->cq_cnt <= domain->cq_cnt &&
	       hint->ep_cnt <= domain->ep_cnt &&
	       hint->tx_ctx_cnt <= domain->tx_ctx_cnt &&
	       hint->rx_ctx_cnt <= domain->rx_ctx_cnt &&
	       hint->max_ep_tx_ctx <= domain->max_ep_tx_ctx &&
	       hint->max_ep_rx_ctx <= domain->max_ep_rx_ctx &&
	       !hint->max_ep_stx_ctx && !hint->max_ep_srx_ctx &&
	       hint->cntr_cnt <= domain->cntr_cnt &&
	       hint->mr_iov_limit <= domain->mr_iov_limit &&
	       hint->mr_cnt <= domain->mr_cnt &&
	       !hint->max_err_data;
}

/* What can be had comes back as asked. */
static void kfv_take_counts(struct kfi_domain_attr *domain,
			    const struct kfi_domain_attr *hint)
{
	kfv_take_size(&domain->cq_cnt, hint->cq_cnt);
	kfv_take_size(&domain->ep_cnt, hint->ep_cnt);
	kfv_take_size(&domain->tx_ctx_cnt, hint->tx_ctx_cnt);
	kfv_take_size(&domain->rx_ctx_cnt, hint->rx_ctx_cnt);
	kfv_take_size(&domain->max_ep_tx_ctx, hint->max_ep_tx_ctx);
	kfv_take_size(&domain->max_ep_rx_ctx, hint->max_ep_rx_ctx);
	kfv_take_size(&domain->cntr_cnt, hint->cntr_cnt);
	kfv_take_size(&domain->mr_cnt, hint->mr_cnt);
}

/**
 * kfv_fit_domain_attr() - check what both kinds of domain treat alike
 * @domain: what the port offers; on return what the caller gets
 * @hint: the hint
 *
 * Context: process, may sleep; the caller holds kfv_lock.
 * Return: true if the offer meets the hint. Address vectors, modes of memory
 * registration and authorisation keys differ and are left to the caller.
 */
bool kfv_fit_domain_attr(struct kfi_domain_attr *domain,
			 const struct kfi_domain_attr *hint)
{
	bool fits;

	lockdep_assert_held(&kfv_lock);
	fits = kfv_fit_counts(domain, hint) &&
	       (!hint->name || kfv_named(hint->name, domain->name)) &&
	       hint->threading <= KFI_THREAD_ENDPOINT &&
	       (!hint->control_progress ||
		hint->control_progress == KFI_PROGRESS_AUTO) &&
	       (!hint->data_progress ||
		hint->data_progress == KFI_PROGRESS_AUTO) &&
	       (!hint->resource_mgmt ||
		hint->resource_mgmt == KFI_RM_DISABLED) &&
	       !(hint->caps & ~domain->caps) && kfv_fit_tclass(hint->tclass) &&
	       !(hint->mr_mode & ~KFV_MR_MODES);

	if (fits)
		kfv_take_counts(domain, hint);
	return fits;
}

static bool kfv_fit_domain(struct kfi_domain_attr *domain,
			   const struct kfi_domain_attr *hint,
			   const struct kfv_device *dev, u32 port)
{
	struct kfid_domain *wanted = hint ? hint->domain : NULL;

	lockdep_assert_held(&kfv_lock);
	domain->domain = kfv_domain_find(dev, port, wanted, 0);
	if (!hint)
		return true;
	/* mr_mode lists the modes that the caller supports. */
	return (!wanted || domain->domain) && !hint->av_type &&
	       !hint->auth_key && !hint->auth_key_size &&
	       (!hint->mr_mode ||
		(hint->mr_mode & KFV_MR_MODE) == KFV_MR_MODE) &&
	       kfv_fit_domain_attr(domain, hint);
}

/**
 * kfv_fit_fabric() - compare a hint for the fabric
 * @fabric: what the port has; on return with an open fabric of that name, if any
 * @hint: the hint, or NULL
 *
 * Context: process; caller holds kfv_lock.
 * Return: true if the port meets the hint.
 */
bool kfv_fit_fabric(struct kfi_fabric_attr *fabric,
		    const struct kfi_fabric_attr *hint)
{
	struct kfid_fabric *wanted = hint ? hint->fabric : NULL;

	lockdep_assert_held(&kfv_lock);
	fabric->fabric = kfv_fabric_find(fabric->name);
	if (!hint)
		return true;
	if (wanted && !kfv_fabric_is(wanted, fabric->name))
		return false;
	if (wanted)
		fabric->fabric = wanted;
	return (!hint->name || kfv_named(hint->name, fabric->name)) &&
	       (!hint->prov_name || kfv_named(hint->prov_name, KFV_PROVIDER)) &&
	       (!hint->prov_version ||
		hint->prov_version == fabric->prov_version);
}

/* What is asked for, with the directions that it implies; all if it names no operations. */
static u64 kfv_caps_meant(u64 have, u64 asked)
{
	const u64 messages = KFI_MSG | KFI_TAGGED;
	const u64 memory = KFI_RMA | KFI_TAGGED_RMA | KFI_ATOMIC;
	const u64 ways = KFI_SEND | KFI_RECV;
	const u64 sides = KFI_READ | KFI_WRITE | KFI_REMOTE_READ |
			  KFI_REMOTE_WRITE;

	if (!(asked & (messages | memory)))
		asked |= have & (messages | memory);
	if (asked & messages && !(asked & ways))
		asked |= have & ways;
	if (asked & memory && !(asked & sides))
		asked |= have & sides;
	return asked;
}

/**
 * kfv_fit_caps() - leave the capabilities that the caller asks for
 * @info: what the port has; on return what the caller gets
 * @hints: the hints, which it meets
 *
 * A capability that is not asked for may surprise: with KFI_DIRECTED_RECV a receive
 * from address 0 takes no message of anybody else. Whoever asks for nothing gets all.
 * (fi_getinfo(3): "Capabilities")
 *
 * Context: any.
 */
void kfv_fit_caps(struct kfi_info *info, const struct kfi_info *hints)
{
	const u64 tx = hints->tx_attr ? hints->tx_attr->caps : 0;
	const u64 rx = hints->rx_attr ? hints->rx_attr->caps : 0;

	if (hints->caps)
		info->caps &= kfv_caps_meant(info->caps, hints->caps | tx | rx) |
			      KFV_CAPS_DOMAIN;
	info->tx_attr->caps &= info->caps;
	info->rx_attr->caps &= info->caps;
	if (tx)
		info->tx_attr->caps &= kfv_caps_meant(info->tx_attr->caps, tx);
	if (rx)
		info->rx_attr->caps &= kfv_caps_meant(info->rx_attr->caps, rx);
}

static bool kfv_fit(struct kfi_info *info, const struct kfv_query *query,
		    const struct kfv_device *dev, u32 port)
{
	const struct kfi_info *hints = query->hints;

	lockdep_assert_held(&kfv_lock);
	if (!hints)
		return kfv_fit_domain(info->domain_attr, NULL, dev, port) &&
		       kfv_fit_fabric(info->fabric_attr, NULL);
	if ((hints->caps & ~info->caps) ||
	    !kfv_fit_tx(info->tx_attr, hints->tx_attr, dev->ib) ||
	    !kfv_fit_rx(info->rx_attr, hints->rx_attr, dev->ib))
		return false;
	kfv_fit_caps(info, hints);
	return (!hints->addr_format || hints->addr_format == KFI_SOCKADDR ||
		hints->addr_format == info->addr_format) &&
	       kfv_fit_ep(info->ep_attr, hints->ep_attr) &&
	       kfv_fit_domain(info->domain_attr, hints->domain_attr, dev,
			      port) &&
	       kfv_fit_fabric(info->fabric_attr, hints->fabric_attr);
}

/* The id of kfv_query_device() is only bound: no event is expected. */
static int kfv_ignore_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	return 0;
}

/*
 * Finds the device of a local address by having RDMA CM bind an id to it. After
 * rdma_destroy_id() the pointer is only compared with devices on kfv_devices, which
 * kfv_lock keeps there.
 */
static int kfv_query_device(struct kfv_query *query)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = query->local,
	};
	struct rdma_cm_id *id;
	int err;

	lockdep_assert_held(&kfv_lock);
	id = rdma_create_id(&init_net, kfv_ignore_event, NULL, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	err = rdma_bind_addr(id, (struct sockaddr *)&sin);
	if (!err) {
		query->ib = id->device;
		query->port = id->port_num;
	}
	rdma_destroy_id(id);
	if (err == -ENOMEM)
		return err;
	return query->ib ? 0 : -KFI_ENODATA;
}

static int kfv_set_addrs(struct kfi_info *info, const struct kfv_query *query)
{
	int err = 0;

	if (query->src.sin_family)
		err = kfv_info_addr(&info->src_addr, &info->src_addrlen,
				    &query->src);
	if (!err && query->dst.sin_family)
		err = kfv_info_addr(&info->dest_addr, &info->dest_addrlen,
				    &query->dst);
	return err;
}

/* An error of one port other than -ENOMEM does not end the search. */
static struct kfi_info *kfv_port_offer(const struct kfv_device *dev, u32 port,
				       void *arg)
{
	const struct kfv_query *query = arg;
	struct kfi_info *info;

	lockdep_assert_held(&kfv_lock);
	if (query->ib && (query->ib != dev->ib || query->port != port))
		return NULL;
	info = kfv_info_new(dev->ib, port);
	if (IS_ERR(info))
		return PTR_ERR(info) == -ENOMEM ? info : NULL;
	if (!kfv_fit(info, query, dev, port)) {
		kfi_freeinfo(info);
		return NULL;
	}
	info->fabric_attr->api_version = query->version;
	if ((query->hints && kfv_name_as_hinted(info, query->hints)) ||
	    kfv_set_addrs(info, query)) {
		kfi_freeinfo(info);
		return ERR_PTR(-ENOMEM);
	}
	return info;
}

/**
 * kfv_list_offers() - collect an offer of each port of each device
 * @offer: makes the offer of one port
 * @arg: for @offer
 * @tail: end of the list; moved past the last offer, also after an error
 *
 * Context: process; caller holds kfv_lock, so that the devices stay.
 * Return: 0, also if no port offers anything; -ENOMEM.
 */
int kfv_list_offers(kfv_offer_fn offer, void *arg, struct kfi_info ***tail)
{
	struct kfv_device *dev;
	struct kfi_info *info;
	u32 port;

	lockdep_assert_held(&kfv_lock);
	list_for_each_entry(dev, &kfv_devices, link) {
		rdma_for_each_port(dev->ib, port) {
			info = offer(dev, port, arg);
			if (IS_ERR(info))
				return PTR_ERR(info);
			if (!info)
				continue;
			**tail = info;
			*tail = &info->next;
		}
	}
	return 0;
}

/* node and service name one side; the hints may name the other side. */
static int kfv_query_addrs(struct kfv_query *query, const char *node,
			   const char *service)
{
	const struct kfi_info *hints = query->hints;
	bool named = node || service;
	bool source = query->flags & KFI_SOURCE;
	int err = 0;

	if (named)
		err = kfv_addr_parse(source ? &query->src : &query->dst, node,
				     service);
	if (!err && hints && !(named && source))
		err = kfv_addr_hint(&query->src, hints->src_addr,
				    hints->src_addrlen);
	if (!err && hints && !(named && !source))
		err = kfv_addr_hint(&query->dst, hints->dest_addr,
				    hints->dest_addrlen);
	return err;
}

/*
 * The local address decides which device answers. It is the address in the query, else
 * the start of the route to the peer, which RDMA CM will choose, too.
 */
static int kfv_query_local(struct kfv_query *query)
{
	int err;

	if (query->src.sin_family && query->src.sin_addr.s_addr) {
		query->local = query->src.sin_addr.s_addr;
		return 0;
	}
	if (!query->dst.sin_family || !query->dst.sin_addr.s_addr)
		return 0;

	err = kfv_route_source(query->dst.sin_addr.s_addr, &query->local);
	if (err)
		return err;
	query->src.sin_family = AF_INET;
	query->src.sin_addr.s_addr = query->local;
	return 0;
}

/*
 * The offers of one type of endpoint; @info is NULL after an error. See kfv_getinfo() for
 * the arguments.
 */
typedef int (*kfv_getinfo_fn)(u32 version, const char *node,
			      const char *service, u64 flags,
			      const struct kfi_info *hints,
			      struct kfi_info **info);

/*
 * The offers for connected endpoints. Addresses and the route are looked up before
 * kfv_lock is taken: they do not depend on our lists.
 */
static int kfv_msg_getinfo(u32 version, const char *node, const char *service,
			   u64 flags, const struct kfi_info *hints,
			   struct kfi_info **info)
{
	struct kfv_query query = {
		.version = version,
		.flags = flags,
		.hints = hints,
	};
	struct kfi_info **tail = info;
	int err;

	*info = NULL;
	err = kfv_query_addrs(&query, node, service);
	if (!err)
		err = kfv_query_local(&query);
	if (err)
		return err;

	mutex_lock(&kfv_lock);
	if (query.local)
		err = kfv_query_device(&query);
	if (!err)
		err = kfv_list_offers(kfv_port_offer, &query, &tail);
	mutex_unlock(&kfv_lock);
	if (err) {
		kfi_freeinfo(*info);
		*info = NULL;
		return err;
	}
	return *info ? 0 : -KFI_ENODATA;
}

/**
 * kfv_getinfo() - kfi_getinfo() for this provider
 * @version: of the API that the caller was written for
 * @node: dotted IPv4 address, or another form of kfr_getinfo(), or NULL
 * @service: port number, or NULL
 * @flags: KFI_SOURCE: @node and @service are the local side
 * @hints: the hints, or NULL for everything
 * @info: the list; kfr_comes_first() says which type of endpoint begins it
 *
 * Context: process.
 * Return: 0; -KFI_ENODATA: nothing fits; -KFI_EBADFLAGS; -EAFNOSUPPORT: the caller is in
 * another network namespace than the initial one; -ENOMEM.
 */
int kfv_getinfo(u32 version, const char *node, const char *service,
		u64 flags, struct kfi_info *hints, struct kfi_info **info)
{
	static const kfv_getinfo_fn types[] = { kfr_getinfo, kfv_msg_getinfo };
	bool rdm_first = kfr_comes_first(hints, node);
	int err = 0, none = -KFI_ENODATA;
	struct kfi_info **tail = info;
	unsigned int i;

	if (flags & ~KFV_GETINFO_FLAGS)
		return -KFI_EBADFLAGS;
	if (!kfv_net_served())
		return -EAFNOSUPPORT;
	*info = NULL;
	for (i = 0; i < ARRAY_SIZE(types) && err != -ENOMEM; i++) {
		err = types[i ^ !rdm_first](version, node, service, flags,
					    hints, tail);
		if (err)
			none = err;
		while (*tail)
			tail = &(*tail)->next;
	}
	if (err == -ENOMEM) {
		kfi_freeinfo(*info);
		*info = NULL;
	}
	return *info ? 0 : none;
}
