// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The device half of a domain: a protection domain, and a private queue pair.
 *
 * Registering memory is a work request, and a queue pair takes work requests only
 * when it is ready to send, hence connected. But a ULP registers memory before it
 * connects. So each domain has a queue pair that is connected to itself, without
 * RDMA CM, for IB_WR_REG_MR and IB_WR_LOCAL_INV. No packet leaves it. It is made
 * for the first registration, and made anew after a request has failed, since a
 * queue pair in its error state does not come back.
 */
#include <linux/slab.h>
#include <rdma/ib_cache.h>

#include "kfi_verbs.h"

/* One work request at a time; the rest is room to spare. */
#define KFV_PD_CQE 4

/*
 * A work request. The device and the thread that waits for it have a reference each,
 * since a late device may complete it after the wait, or after the domain is closed.
 */
struct kfv_pd_request {
	struct ib_cqe cqe;
	struct completion done;
	enum ib_wc_status status;	/* valid once @done is complete */
	refcount_t ref;
};

static void kfv_pd_request_put(struct kfv_pd_request *req)
{
	if (refcount_dec_and_test(&req->ref))
		kfree(req);
}

/* Softirq. */
static void kfv_pd_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfv_pd_request *req = container_of(wc->wr_cqe,
						  struct kfv_pd_request, cqe);

	req->status = wc->status;
	complete(&req->done);
	kfv_pd_request_put(req);
}

static struct kfv_pd_request *kfv_pd_request_new(void)
{
	struct kfv_pd_request *req = kmalloc(sizeof(*req), GFP_KERNEL);

	if (!req)
		return NULL;
	req->cqe.done = kfv_pd_done;
	init_completion(&req->done);
	refcount_set(&req->ref, 2);
	return req;
}

/*
 * A path from the port to itself. RoCE wants a MAC address in it, which is found
 * here because ib_modify_qp() resolves it for user space only (_ib_modify_qp() in
 * drivers/infiniband/core/verbs.c).
 */
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

/* Both ends are the same queue pair, so that its number is the peer's, too. */
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

/*
 * The queue pair is destroyed before its room in the CQ is given back: until then it
 * could still complete something. No lock is asserted: kfv_pd_release() calls this
 * with the last reference, all others with kfv_domain.lock held.
 */
static void kfv_pd_destroy_qp(struct kfv_pd *pd)
{
	if (!pd->qp)
		return;
	ib_destroy_qp(pd->qp);
	ib_cq_pool_put(pd->cq, KFV_PD_CQE);
	pd->qp = NULL;
}

static int kfv_pd_create_qp(struct kfv_domain *domain)
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
	struct kfv_pd *pd = domain->pd;
	int err;

	lockdep_assert_held(&domain->lock);
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
		kfv_pd_destroy_qp(pd);
	return err;
}

/* Gets the request back, if the device is not later than that. */
static void kfv_pd_flush_qp(struct kfv_domain *domain,
			    struct kfv_pd_request *req)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };
	struct kfv_pd *pd = domain->pd;

	lockdep_assert_held(&domain->lock);
	ib_modify_qp(pd->qp, &attr, IB_QP_STATE);
	if (!wait_for_completion_timeout(&req->done, KFV_REG_TIME))
		dev_err(&pd->dev->ib->dev, "kfi_verbs: a registration request did not complete\n");
}

/**
 * kfv_pd_run() - run one local work request
 * @domain: whose device half has the queue pair
 * @wr: REG_MR or LOCAL_INV
 *
 * Context: process; caller holds kfv_domain.lock, which makes it one request at a
 * time. Sleeps until the device has completed it; no peer takes part.
 * Return: 0 or a negative errno; after an error the queue pair is gone, and the
 * next call makes another one.
 */
int kfv_pd_run(struct kfv_domain *domain, struct ib_send_wr *wr)
{
	struct kfv_pd *pd = domain->pd;
	struct kfv_pd_request *req;
	int err;

	lockdep_assert_held(&domain->lock);
	if (!pd->qp) {
		err = kfv_pd_create_qp(domain);
		if (err)
			return err;
	}
	req = kfv_pd_request_new();
	if (!req)
		return -ENOMEM;

	wr->wr_cqe = &req->cqe;
	wr->send_flags = IB_SEND_SIGNALED;
	err = ib_post_send(pd->qp, wr, NULL);
	if (err) {
		kfv_pd_request_put(req);
	} else if (!wait_for_completion_timeout(&req->done, KFV_REG_TIME)) {
		kfv_pd_flush_qp(domain, req);
		err = -ETIMEDOUT;
	} else if (req->status != IB_WC_SUCCESS) {
		err = -EIO;
	}
	kfv_pd_request_put(req);
	if (err)
		kfv_pd_destroy_qp(pd);
	return err;
}

/**
 * kfv_pd_new() - allocate the device half of a domain
 * @dev: the device, which the caller has a reference on
 * @port: its port
 *
 * Context: process; without a lock, as it allocates: see kfr_ep_enable().
 * Return: the new half with one reference, for kfv_pd_open(); NULL without memory.
 */
struct kfv_pd *kfv_pd_new(struct kfv_device *dev, u32 port)
{
	struct kfv_pd *pd = kzalloc(sizeof(*pd), GFP_KERNEL_ACCOUNT);

	if (!pd)
		return NULL;
	kref_init(&pd->ref);
	pd->port = port;
	pd->dev = dev;
	kfv_device_get(dev);
	return pd;
}

/**
 * kfv_pd_open() - allocate the protection domain on the device
 * @pd: of kfv_pd_new()
 *
 * Context: process; caller holds the device's lock and has seen that it is not gone.
 * Return: 0 or the error of the device.
 */
int kfv_pd_open(struct kfv_pd *pd)
{
	struct ib_pd *ib;

	lockdep_assert_held(&pd->dev->lock);
	ib = ib_alloc_pd(pd->dev->ib, 0);
	if (IS_ERR(ib))
		return PTR_ERR(ib);
	pd->ib = ib;
	kfv_device_use(pd->dev);
	return 0;
}

/*
 * Process context; may sleep. The order is the device's: queue pair, protection
 * domain, and at last the use of the device, after which its removal may return. There
 * are none of these without kfv_pd_open().
 */
static void kfv_pd_release(struct kref *ref)
{
	struct kfv_pd *pd = container_of(ref, struct kfv_pd, ref);

	if (pd->ib) {
		kfv_pd_destroy_qp(pd);
		ib_dealloc_pd(pd->ib);
		kfv_device_unuse(pd->dev);
	}
	kfv_device_put(pd->dev);
	kfree(pd);
}

/**
 * kfv_pd_get() - take a reference
 * @pd: device half of a domain
 *
 * Context: any; the caller holds a reference, or a lock that keeps
 * kfv_domain.pd.
 */
void kfv_pd_get(struct kfv_pd *pd)
{
	kref_get(&pd->ref);
}

/**
 * kfv_pd_put() - give up a reference
 * @pd: device half of a domain; the last reference destroys it
 *
 * Context: process; may sleep.
 */
void kfv_pd_put(struct kfv_pd *pd)
{
	kref_put(&pd->ref, kfv_pd_release);
}
