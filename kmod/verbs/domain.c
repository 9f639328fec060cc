// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Fabrics, domains, and what a domain has from its device.
 */
#include <linux/etherdevice.h>
#include <linux/slab.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_cm.h>

#include "rdm/rdm.h"

/* One work request at a time, and what is flushed when it fails. */
#define KFV_PD_CQE 4

static LIST_HEAD(kfv_fabrics);

/* Caller holds kfv_lock. Return: the first open fabric @name, or NULL. */
struct kfid_fabric *kfv_fabric_find(const char *name)
{
	struct kfv_fabric *f;

	list_for_each_entry(f, &kfv_fabrics, link)
		if (!strcmp(f->name, name))
			return &f->base.fabric;
	return NULL;
}

/* Caller holds kfv_lock. Return: is @fabric open, and is it @name? */
bool kfv_fabric_is(const struct kfid_fabric *fabric, const char *name)
{
	struct kfv_fabric *f;

	list_for_each_entry(f, &kfv_fabrics, link)
		if (&f->base.fabric == fabric)
			return !strcmp(f->name, name);
	return false;
}

static void kfv_pd_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfv_pd *pd = container_of(wc->wr_cqe, struct kfv_pd, cqe);

	pd->status = wc->status;
	complete(&pd->done);
}

/* A path from the port to itself. */
static int kfv_pd_path(struct kfv_pd *pd, const struct ib_port_attr *port,
		       struct rdma_ah_attr *ah)
{
	struct ib_device *ib = pd->dev->ib;
	const struct ib_gid_attr *gid;
	int i, err;

	ah->type = rdma_ah_find_type(ib, pd->port);
	rdma_ah_set_port_num(ah, pd->port);
	if (!rdma_cap_eth_ah(ib, pd->port)) {
		rdma_ah_set_dlid(ah, port->lid);
		return 0;
	}

	for (i = 0; i < port->gid_tbl_len; i++) {
		gid = rdma_get_gid_attr(ib, pd->port, i);
		if (IS_ERR(gid))
			continue;
		rdma_ah_set_grh(ah, (union ib_gid *)&gid->gid, 0, i, 1, 0);
		err = rdma_read_gid_l2_fields(gid, NULL, ah->roce.dmac);
		rdma_put_gid_attr(gid);
		return err;
	}
	return -EADDRNOTAVAIL;
}

static int kfv_pd_connect(struct kfv_pd *pd)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = pd->port,
	};
	struct ib_port_attr port;
	int err;

	err = ib_query_port(pd->dev->ib, pd->port, &port);
	if (err)
		return err;
	err = ib_modify_qp(pd->qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			   IB_QP_PORT | IB_QP_ACCESS_FLAGS);
	if (err)
		return err;

	attr.qp_state = IB_QPS_RTR;
	attr.path_mtu = port.active_mtu;
	attr.dest_qp_num = pd->qp->qp_num;
	err = kfv_pd_path(pd, &port, &attr.ah_attr);
	if (err)
		return err;
	err = ib_modify_qp(pd->qp, &attr, IB_QP_STATE | IB_QP_AV |
			   IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;

	attr.qp_state = IB_QPS_RTS;
	return ib_modify_qp(pd->qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT |
			    IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
			    IB_QP_MAX_QP_RD_ATOMIC);
}

static void kfv_pd_qp_drop(struct kfv_pd *pd)
{
	if (!pd->qp)
		return;
	ib_destroy_qp(pd->qp);
	ib_cq_pool_put(pd->cq, KFV_PD_CQE);
	pd->qp = NULL;
}

static int kfv_pd_qp_make(struct kfv_pd *pd)
{
	struct ib_qp_init_attr init = {
		.cap = {
			.max_send_wr = 1,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.qp_type = IB_QPT_RC,
	};
	int err;

	pd->cq = ib_cq_pool_get(pd->dev->ib, KFV_PD_CQE, -1, IB_POLL_SOFTIRQ);
	if (IS_ERR(pd->cq))
		return PTR_ERR(pd->cq);
	init.send_cq = pd->cq;
	init.recv_cq = pd->cq;
	pd->qp = ib_create_qp(pd->ib, &init);
	if (IS_ERR(pd->qp)) {
		err = PTR_ERR(pd->qp);
		pd->qp = NULL;
		ib_cq_pool_put(pd->cq, KFV_PD_CQE);
		return err;
	}
	err = kfv_pd_connect(pd);
	if (err)
		kfv_pd_qp_drop(pd);
	return err;
}

/* Before the queue pair goes its request must have come back: it names @pd. */
static void kfv_pd_qp_flush(struct kfv_pd *pd)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	ib_modify_qp(pd->qp, &attr, IB_QP_STATE);
	if (!wait_for_completion_timeout(&pd->done, KFV_REG_TIME))
		dev_err(&pd->dev->ib->dev, "kfi_verbs: a request is lost\n");
}

/**
 * kfv_pd_run() - have one local work request done
 * @pd: the device half of a domain
 * @wr: REG_MR or LOCAL_INV
 *
 * Context: process; caller holds kfv_domain.lock. Sleeps until the device has
 * done it, which involves no peer.
 * Return: 0 or a negative errno; after an error the queue pair is made anew.
 */
int kfv_pd_run(struct kfv_pd *pd, struct ib_send_wr *wr)
{
	int err;

	if (!pd->qp) {
		err = kfv_pd_qp_make(pd);
		if (err)
			return err;
	}

	reinit_completion(&pd->done);
	pd->cqe.done = kfv_pd_done;
	wr->wr_cqe = &pd->cqe;
	wr->send_flags = IB_SEND_SIGNALED;
	err = ib_post_send(pd->qp, wr, NULL);
	if (!err && !wait_for_completion_timeout(&pd->done, KFV_REG_TIME)) {
		kfv_pd_qp_flush(pd);
		err = -ETIMEDOUT;
	} else if (!err && pd->status != IB_WC_SUCCESS) {
		err = -EIO;
	}
	if (err)
		kfv_pd_qp_drop(pd);
	return err;
}

static struct kfv_pd *kfv_pd_new(struct kfv_device *dev, u32 port)
{
	struct kfv_pd *pd = kzalloc(sizeof(*pd), GFP_KERNEL_ACCOUNT);
	int err;

	if (!pd)
		return ERR_PTR(-ENOMEM);
	pd->ib = ib_alloc_pd(dev->ib, 0);
	if (IS_ERR(pd->ib)) {
		err = PTR_ERR(pd->ib);
		kfree(pd);
		return ERR_PTR(err);
	}
	kref_init(&pd->ref);
	init_completion(&pd->done);
	pd->port = port;
	pd->dev = dev;
	kfv_device_get(dev);
	kfv_device_use(dev);
	return pd;
}

/* Process context; may sleep. */
static void kfv_pd_release(struct kref *ref)
{
	struct kfv_pd *pd = container_of(ref, struct kfv_pd, ref);

	kfv_pd_qp_drop(pd);
	ib_dealloc_pd(pd->ib);
	kfv_device_unuse(pd->dev);
	kfv_device_put(pd->dev);
	kfree(pd);
}

void kfv_pd_get(struct kfv_pd *pd)
{
	kref_get(&pd->ref);
}

void kfv_pd_put(struct kfv_pd *pd)
{
	kref_put(&pd->ref, kfv_pd_release);
}

static struct kfi_ops_domain kfv_domain_ops = {
	.size = sizeof(struct kfi_ops_domain),
	.av_open = kfr_av_open,
	.cq_open = kfi_core_cq_open,
	.endpoint = kfv_ep_open,
	.scalable_ep = kfr_scalable_ep,
	.cntr_open = kfi_core_cntr_open,
	.poll_open = kfi_core_poll_open,
	.stx_ctx = kfi_no_stx_ctx,
	.srx_ctx = kfi_no_srx_ctx,
	.query_atomic = kfv_query_atomic,
};

/* Caller holds kfv_lock. Posting and reporting on the device have ended. */
void kfv_domain_lose(struct kfv_domain *domain)
{
	struct kfv_ep *ep;

	kfi_domain_lose(&domain->base);
	list_for_each_entry(ep, &domain->eps, link)
		kfv_conn_lost(ep->conn);
	if (domain->rdm)
		kfr_domain_lose(domain->rdm);
}

/* Caller holds kfv_lock. Everything that came from the device is let go. */
void kfv_domain_strip(struct kfv_domain *domain)
{
	struct kfv_pd *pd = domain->pd;
	struct kfv_ep *ep;

	list_for_each_entry(ep, &domain->eps, link) {
		mutex_lock(&ep->conn->ctl);
		kfv_conn_stop(ep->conn);
		mutex_unlock(&ep->conn->ctl);
	}

	mutex_lock(&domain->lock);
	kfv_mr_strip(domain);
	domain->pd = NULL;
	mutex_unlock(&domain->lock);
	kfv_pd_put(pd);
}

static void kfv_domain_release(struct kfi_domain_base *base)
{
	struct kfv_domain *domain = container_of(base, struct kfv_domain, base);

	mutex_lock(&kfv_lock);
	list_del(&domain->link);
	mutex_unlock(&kfv_lock);

	if (domain->pd)
		kfv_pd_put(domain->pd);
	kfr_domain_free(domain->rdm);
	kfv_device_put(domain->dev);
	mutex_destroy(&domain->lock);
	kfree(domain);
}

static const char *kfv_wc_strerror(int prov_errno)
{
	return ib_wc_status_msg(prov_errno);
}

/* An info of RDM endpoints makes it a domain of those. */
static int kfv_domain_set_rdm(struct kfv_domain *domain,
			      const struct kfi_info *info)
{
	struct kfr_domain *rdm;

	if (!info->ep_attr || info->ep_attr->type != KFI_EP_RDM)
		return 0;
	rdm = kfr_domain_new(domain, info);
	if (IS_ERR(rdm))
		return PTR_ERR(rdm);
	domain->rdm = rdm;
	domain->atomics = false;
	domain->base.strerror = kfr_strerror;
	return 0;
}

static struct kfv_domain *kfv_domain_new(struct kfv_device *dev, u32 port)
{
	struct ib_port_attr attr;
	struct kfv_domain *domain;
	int err;

	err = ib_query_port(dev->ib, port, &attr);
	if (err)
		return ERR_PTR(err);
	domain = kzalloc(sizeof(*domain), GFP_KERNEL_ACCOUNT);
	if (!domain)
		return ERR_PTR(-ENOMEM);
	domain->pd = kfv_pd_new(dev, port);
	if (IS_ERR(domain->pd)) {
		err = PTR_ERR(domain->pd);
		kfree(domain);
		return ERR_PTR(err);
	}
	domain->base.strerror = kfv_wc_strerror;
	domain->max_msg_size = attr.max_msg_sz;
	domain->atomics = kfv_atomic_caps(dev->ib);
	INIT_LIST_HEAD(&domain->eps);
	INIT_LIST_HEAD(&domain->mrs);
	mutex_init(&domain->lock);
	kfv_device_get(dev);
	domain->dev = dev;
	list_add_tail(&domain->link, &dev->domains);
	return domain;
}

/* Undoes kfv_domain_new() and kfv_domain_set_rdm(). */
static void kfv_domain_drop(struct kfv_domain *domain)
{
	list_del(&domain->link);
	kfv_pd_put(domain->pd);
	kfr_domain_free(domain->rdm);
	kfv_device_put(domain->dev);
	kfree(domain);
}

static int kfv_domain_open_locked(struct kfid_fabric *fabric,
				  const struct kfi_info *info,
				  struct kfid_domain **ret, void *context)
{
	struct kfv_fabric *f = container_of(fabric, struct kfv_fabric,
					    base.fabric);
	struct kfi_ops_mr *mr_ops;
	char fabric_name[KFI_NAME_MAX];
	struct kfv_domain *domain;
	struct kfv_device *dev;
	u32 port;
	int err;

	dev = kfv_device_by_name(info->domain_attr->name, &port);
	if (!dev)
		return -ENODEV;
	err = kfv_fabric_name(dev->ib, port, fabric_name);
	if (err)
		return err;
	if (strcmp(fabric_name, f->name))
		return -EINVAL;

	domain = kfv_domain_new(dev, port);
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	err = kfv_domain_set_rdm(domain, info);
	mr_ops = domain->rdm ? &kfr_mr_ops : &kfv_mr_ops;
	if (!err)
		err = kfi_domain_base_init(&domain->base, fabric,
					   &kfv_domain_ops, mr_ops,
					   kfv_domain_release, context);
	if (err) {
		kfv_domain_drop(domain);
		return err;
	}
	*ret = &domain->base.domain;
	return 0;
}

static int kfv_domain_open(struct kfid_fabric *fabric, struct kfi_info *info,
			   struct kfid_domain **domain, void *context)
{
	int err;

	if (!info || !info->domain_attr || !info->domain_attr->name || !domain)
		return -EINVAL;

	mutex_lock(&kfv_lock);
	err = kfv_domain_open_locked(fabric, info, domain, context);
	mutex_unlock(&kfv_lock);
	return err;
}

static struct kfi_ops_fabric kfv_fabric_ops = {
	.size = sizeof(struct kfi_ops_fabric),
	.domain = kfv_domain_open,
	.passive_ep = kfv_pep_open,
	.eq_open = kfi_core_eq_open,
	.wait_open = kfi_core_wait_open,
};

static void kfv_fabric_release(struct kfi_fabric_base *base)
{
	struct kfv_fabric *f = container_of(base, struct kfv_fabric, base);

	mutex_lock(&kfv_lock);
	list_del(&f->link);
	mutex_unlock(&kfv_lock);
	kfv_req_drop_all(&f->base.fabric);
	kfree(f);
}

/* Of connection events: a reason for a refusal, or a negative errno. */
static const char *kfv_cm_strerror(int prov_errno)
{
	return prov_errno < 0 ? kfi_strerror(-prov_errno) :
				ibcm_reject_msg(prov_errno);
}

/* Does any port belong to the fabric @name? */
static bool kfv_fabric_exists(const char *name)
{
	char own[KFI_NAME_MAX];
	struct kfv_device *dev;
	u32 port;

	list_for_each_entry(dev, &kfv_devices, link)
		rdma_for_each_port(dev->ib, port)
			if (!kfv_fabric_name(dev->ib, port, own) &&
			    !strcmp(own, name))
				return true;
	return false;
}

/**
 * kfv_fabric_open() - kfi_fabric() for this provider
 * @attr: names the fabric, as an info does
 * @fabric: the new object
 * @context: the user's
 *
 * Context: process.
 * Return: 0, -ENODEV (no device is on that fabric), -ENOMEM.
 */
int kfv_fabric_open(struct kfi_fabric_attr *attr, struct kfid_fabric **fabric,
		    void *context)
{
	struct kfv_fabric *f;
	int err = -ENODEV;

	f = kzalloc(sizeof(*f), GFP_KERNEL_ACCOUNT);
	if (!f)
		return -ENOMEM;
	f->base.strerror = kfv_cm_strerror;
	strscpy(f->name, attr->name, sizeof(f->name));

	mutex_lock(&kfv_lock);
	if (kfv_fabric_exists(attr->name))
		err = kfi_fabric_base_init(&f->base, THIS_MODULE,
					   &kfv_fabric_ops, kfv_fabric_release,
					   attr->api_version, context);
	if (err)
		kfree(f);
	else
		list_add_tail(&f->link, &kfv_fabrics);
	mutex_unlock(&kfv_lock);
	if (!err)
		*fabric = &f->base.fabric;
	return err;
}
