// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* The objects of a side: opened in the order of such a ULP, and closed in it. */
#include <linux/dma-mapping.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include <kfi_cxi_ext.h>
#include <kfi_domain.h>
#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <kfi_errno.h>

#include "lnd.h"

#define LND_CAPS (KFI_MSG | KFI_RMA | KFI_SEND | KFI_RECV | KFI_READ |		\
		  KFI_WRITE | KFI_REMOTE_READ | KFI_REMOTE_WRITE |		\
		  KFI_MULTI_RECV | KFI_REMOTE_COMM | KFI_NAMED_RX_CTX |		\
		  KFI_TAGGED | KFI_TAGGED_RMA | KFI_DIRECTED_RECV)

static const u8 lnd_key[4] = { 255 };

static struct kfi_info *lnd_hints(void)
{
	struct kfi_info *hints = kfi_allocinfo();

	if (!hints)
		return NULL;
	hints->caps = LND_CAPS;
	hints->fabric_attr->prov_version = KFI_VERSION(1, 0);
	hints->domain_attr->mr_iov_limit = 256;
	hints->domain_attr->mr_key_size = 4;
	hints->domain_attr->resource_mgmt = KFI_RM_DISABLED;
	hints->domain_attr->tclass = KFI_TC_BEST_EFFORT;
	hints->domain_attr->cq_cnt = 2 * LND_CPTS;
	hints->ep_attr->max_msg_size = LND_BULK_SIZE;
	hints->ep_attr->auth_key = kmemdup(lnd_key, sizeof(lnd_key), GFP_KERNEL);
	hints->ep_attr->auth_key_size = sizeof(lnd_key);
	hints->ep_attr->tx_ctx_cnt = LND_CPTS;
	hints->ep_attr->rx_ctx_cnt = LND_CPTS;
	hints->rx_attr->op_flags = KFI_COMPLETION | KFI_MULTI_RECV;
	hints->rx_attr->iov_limit = 256;
	hints->rx_attr->size = LND_CREDITS + 8;
	hints->tx_attr->op_flags = KFI_COMPLETION;
	hints->tx_attr->tclass = KFI_TC_BEST_EFFORT;
	hints->tx_attr->iov_limit = 256;
	hints->tx_attr->rma_iov_limit = 256;
	return hints;
}

/* The first offer is taken, and must have the address of such a ULP. */
static int lnd_discover(struct lnd *lnd, const char *addr, const char *service)
{
	struct kfi_info *hints = lnd_hints();
	int err;

	if (!hints)
		return -ENOMEM;
	err = kfi_getinfo(0, addr, service, KFI_SOURCE, hints, &lnd->info);
	kfi_freeinfo(hints);
	if (err)
		return err;
	return lnd->info->src_addrlen == sizeof(struct kcxi_addr) ?
	       0 : -EADDRNOTAVAIL;
}

static int lnd_open_fabric(struct lnd *lnd)
{
	struct kfi_cxi_fabric_ops *ops;
	int err;

	err = kfi_fabric(lnd->info->fabric_attr, &lnd->fabric, NULL);
	if (err)
		return err;
	err = kfi_open_ops(&lnd->fabric->fid, KFI_CXI_FAB_OPS_1, 0,
			   (void **)&ops, NULL);
	return err ?: ops->enable_dynamic_rsrc_alloc(&lnd->fabric->fid, true);
}

static int lnd_open_domain(struct lnd *lnd)
{
	struct kfi_cxi_domain_ops *ops;
	struct device *dev = NULL;
	int err;

	err = kfi_domain(lnd->fabric, lnd->info, &lnd->domain, NULL);
	if (!err)
		err = kfi_open_ops(&lnd->domain->fid, KFI_CXI_DOM_OPS_1, 0,
				   (void **)&ops, NULL);
	if (!err)
		err = ops->get_device(&lnd->domain->fid, &dev);
	if (err)
		return err;
	return dma_get_mask(dev) == DMA_BIT_MASK(64) ? 0 : -ENODEV;
}

static int lnd_open_ep(struct lnd *lnd, const char *peer, const char *service)
{
	struct kfi_av_attr attr = { .rx_ctx_bits = LND_BITS };
	int err;

	err = kfi_av_open(lnd->domain, &attr, &lnd->av, NULL);
	if (err)
		return err;
	err = kfi_av_insertsvc(lnd->av, peer, service, &lnd->peer, 0, NULL);
	if (err != 1)
		return err < 0 ? err : -EADDRNOTAVAIL;
	if (lnd->peer >> (64 - LND_BITS))
		return -EOVERFLOW;
	err = kfi_scalable_ep(lnd->domain, lnd->info, &lnd->sep, NULL);
	if (!err)
		err = kfi_scalable_ep_bind(lnd->sep, &lnd->av->fid, 0);
	return err ?: kfi_enable(lnd->sep);
}

static void lnd_rx_handler(struct kfid_cq *cq, void *context)
{
	struct lnd_cpt *cpt = context;

	queue_work_on(cpt->index % num_online_cpus(), cpt->lnd->wq, &cpt->rx_work);
}

static void lnd_tx_handler(struct kfid_cq *cq, void *context)
{
	struct lnd_cpt *cpt = context;

	queue_work_on(cpt->index % num_online_cpus(), cpt->lnd->wq, &cpt->tx_work);
}

static int lnd_open_queues(struct lnd_cpt *cpt)
{
	struct kfi_cq_attr attr = {
		.size = LND_CREDITS * 10,
		.format = KFI_CQ_FORMAT_DATA,
		.wait_obj = KFI_WAIT_NONE,
		.flags = KFI_AFFINITY,
		.signaling_vector = cpt->index % num_online_cpus(),
	};
	int err;

	err = kfi_cq_open(cpt->lnd->domain, &attr, &cpt->rx_cq, lnd_rx_handler,
			  cpt);
	return err ?: kfi_cq_open(cpt->lnd->domain, &attr, &cpt->tx_cq,
				  lnd_tx_handler, cpt);
}

static int lnd_open_rx(struct lnd_cpt *cpt)
{
	struct kfi_rx_attr attr = {
		.op_flags = KFI_COMPLETION | KFI_MULTI_RECV,
		.size = LND_CREDITS + 8,
		.iov_limit = 256,
	};
	size_t min = LND_MIN_RECV;
	int err;

	err = kfi_rx_context(cpt->lnd->sep, cpt->index, &attr, &cpt->rx, cpt);
	if (!err)
		err = kfi_setopt(&cpt->rx->fid, KFI_OPT_ENDPOINT,
				 KFI_OPT_MIN_MULTI_RECV, &min, sizeof(min));
	if (!err)
		err = kfi_ep_bind(cpt->rx, &cpt->rx_cq->fid, 0);
	return err ?: kfi_enable(cpt->rx);
}

static int lnd_open_tx(struct lnd_cpt *cpt)
{
	struct kfi_tx_attr attr = {
		.op_flags = KFI_COMPLETION | KFI_TRANSMIT_COMPLETE,
		.size = 2 * LND_CREDITS,
		.iov_limit = 256,
		.rma_iov_limit = 256,
	};
	int err;

	err = kfi_tx_context(cpt->lnd->sep, cpt->index, &attr, &cpt->tx, cpt);
	if (!err)
		err = kfi_ep_bind(cpt->tx, &cpt->tx_cq->fid, 0);
	return err ?: kfi_enable(cpt->tx);
}

/**
 * lnd_post_recv() - post a buffer for messages
 * @recv: the buffer
 *
 * Context: any.
 * Return: 0 or the error of kfi_recv().
 */
int lnd_post_recv(struct lnd_recv *recv)
{
	int err;

	WRITE_ONCE(recv->posted, true);
	err = kfi_recv(recv->cpt->rx, recv->data, LND_BUF_SIZE, NULL,
		       KFI_ADDR_UNSPEC, recv);
	if (err)
		WRITE_ONCE(recv->posted, false);
	return err;
}

static bool lnd_recvs_posted(const struct lnd *lnd)
{
	int i;

	for (i = 0; i < LND_CPTS * LND_BUFS; i++)
		if (READ_ONCE(lnd->cpts[i / LND_BUFS].recvs[i % LND_BUFS].posted))
			return true;
	return false;
}

static int lnd_open_cpt(struct lnd_cpt *cpt)
{
	int i, err;

	err = lnd_open_queues(cpt);
	if (!err)
		err = lnd_open_rx(cpt);
	if (!err)
		err = lnd_open_tx(cpt);
	for (i = 0; i < LND_BUFS && !err; i++) {
		cpt->recvs[i].cpt = cpt;
		cpt->recvs[i].data = vmalloc(LND_BUF_SIZE);
		err = cpt->recvs[i].data ? lnd_post_recv(&cpt->recvs[i]) :
					   -ENOMEM;
	}
	return err;
}

/**
 * lnd_open() - open all objects, and post the buffers for messages
 * @lnd: zeroed, but for the transactions
 * @addr: our port, as kfi_getinfo() takes it
 * @service: number of both endpoints
 * @peer: the peer's node, as kfi_av_insertsvc() takes it
 *
 * Context: process, may sleep.
 * Return: 0 or an error; lnd_close() in any case.
 */
int lnd_open(struct lnd *lnd, const char *addr, const char *service, const char *peer)
{
	int i, err;

	for (i = 0; i < LND_CPTS; i++) {
		lnd->cpts[i].lnd = lnd;
		lnd->cpts[i].index = i;
		INIT_WORK(&lnd->cpts[i].tx_work, lnd_tx_work);
		INIT_WORK(&lnd->cpts[i].rx_work, lnd_rx_work);
	}
	lnd->wq = alloc_workqueue("kfi_lnd", WQ_MEM_RECLAIM | WQ_PERCPU, 0);
	if (!lnd->wq)
		return -ENOMEM;
	err = lnd_discover(lnd, addr, service);
	if (!err)
		err = lnd_open_fabric(lnd);
	if (!err)
		err = lnd_open_domain(lnd);
	if (!err)
		err = lnd_open_ep(lnd, peer, service);
	for (i = 0; i < LND_CPTS && !err; i++)
		err = lnd_open_cpt(&lnd->cpts[i]);
	return err;
}

/* Every close must succeed. */
static void lnd_close_fid(struct kfid *fid, const char *what)
{
	int err = kfi_close(fid);

	WARN(err, "kfi_lnd: closing the %s failed: %d\n", what, err);
}

static void lnd_cancel_recv(struct lnd_recv *recv)
{
	ssize_t err = kfi_cancel(&recv->cpt->rx->fid, recv);

	WARN(err && err != -ENOENT && err != -KFI_EAGAIN,
	     "kfi_lnd: a cancel failed: %zd\n", err);
}

/*
 * Each buffer comes back with ECANCELED, or with its last message. A work item may post
 * one once more meanwhile, so this looks again.
 */
static void lnd_cancel_recvs(struct lnd *lnd)
{
	unsigned long end = jiffies + LND_PATIENCE;
	struct lnd_recv *recv;
	int i;

	WRITE_ONCE(lnd->closing, true);
	/* A lost device gives nothing back: closing does. */
	if (READ_ONCE(lnd->lost))
		return;
	while (lnd_recvs_posted(lnd) && time_before(jiffies, end)) {
		for (i = 0; i < LND_CPTS * LND_BUFS; i++) {
			recv = &lnd->cpts[i / LND_BUFS].recvs[i % LND_BUFS];
			if (READ_ONCE(recv->posted))
				lnd_cancel_recv(recv);
		}
		wait_event_idle_timeout(lnd->changed, !lnd_recvs_posted(lnd),
					HZ / 10);
	}
	WARN(lnd_recvs_posted(lnd), "kfi_lnd: a buffer does not come back\n");
}

/*
 * A handler that runs meanwhile may queue its work item once more, which then sees
 * @closed and leaves the queue alone.
 */
static void lnd_close_cpt(struct lnd_cpt *cpt)
{
	int i;

	WRITE_ONCE(cpt->closed, true);
	cancel_work_sync(&cpt->tx_work);
	cancel_work_sync(&cpt->rx_work);
	if (cpt->tx)
		lnd_close_fid(&cpt->tx->fid, "transmit context");
	if (cpt->rx)
		lnd_close_fid(&cpt->rx->fid, "receive context");
	if (cpt->tx_cq)
		lnd_close_fid(&cpt->tx_cq->fid, "transmit queue");
	if (cpt->rx_cq)
		lnd_close_fid(&cpt->rx_cq->fid, "receive queue");
	for (i = 0; i < LND_BUFS; i++)
		vfree(cpt->recvs[i].data);
}

/**
 * lnd_close() - undo lnd_open(), also one that failed
 * @lnd: nothing is begun any more
 *
 * Context: process, may sleep.
 */
void lnd_close(struct lnd *lnd)
{
	int i;

	lnd_cancel_recvs(lnd);
	for (i = 0; i < LND_CPTS; i++)
		lnd_close_cpt(&lnd->cpts[i]);
	if (lnd->av && lnd->peer != KFI_ADDR_NOTAVAIL)
		kfi_av_remove(lnd->av, &lnd->peer, 1, 0);
	if (lnd->sep)
		lnd_close_fid(&lnd->sep->fid, "endpoint");
	if (lnd->av)
		lnd_close_fid(&lnd->av->fid, "address vector");
	if (lnd->domain)
		lnd_close_fid(&lnd->domain->fid, "domain");
	if (lnd->fabric)
		lnd_close_fid(&lnd->fabric->fid, "fabric");
	if (lnd->wq)
		destroy_workqueue(lnd->wq);
	kfi_freeinfo(lnd->info);
}
