// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Code as it is written for kfabric 1.7: a ULP over scalable endpoints, a ULP
 * over connections, and a provider. It is compiled, never run: it shows that
 * such code needs no change, and no header beside the ones it names.
 */
#define MODULE_NAME "consumer"
#define DRV_PFX "consumer: "

#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <kfi_endpoint.h>
#include <kfi_cm.h>
#include <kfi_tagged.h>
#include <kfi_rma.h>
#include <kfi_atomic.h>
#include <kfi_trigger.h>
#include <kfi_cxi_ext.h>
#include <kfi_errno.h>
#include <kfi_enosys.h>
#include <kfi_log.h>
#include <kfi_debug.h>

#define NR_CONTEXTS 4
#define RX_CTX_BITS 8
#define BUF_SIZE 4096

MODULE_PARAM(depth, queue_depth, int, 64, "Operations in flight");

struct ulp {
	struct kfi_info *info;
	struct kfid_fabric *fabric;
	struct kfid_domain *domain;
	struct kfid_eq *eq;
	struct kfid_cq *cq;
	struct kfid_cntr *cntr;
	struct kfid_av *av;
	struct kfid_ep *sep;
	struct kfid_ep *tx[NR_CONTEXTS];
	struct kfid_ep *rx[NR_CONTEXTS];
	struct kfid_mr *mr;
	struct kfi_context2 context;
	struct work_struct work;
	kfi_addr_t peer;
	void *buf;
};

static void on_completion(struct kfid_cq *cq, void *context)
{
	struct ulp *ulp = context;

	schedule_work(&ulp->work);
}

static void on_event(struct kfid_eq *eq, void *context)
{
	on_completion(NULL, context);
}

static void handle_error(struct ulp *ulp)
{
	struct kfi_cq_err_entry entry = {};
	char text[64];

	if (kfi_cq_readerr(ulp->cq, &entry, 0) != 1)
		return;
	if (entry.err == KFI_ECANCELED || entry.err == KFI_ENOMSG)
		LOG_DEBUG("context %p: %s", entry.op_context, kfi_strerror(entry.err));
	else
		LOG_ERR_RL("err %d, %zu bytes too many: %s", entry.err, entry.olen,
			   kfi_cq_strerror(ulp->cq, entry.prov_errno, entry.err_data, text,
					   sizeof(text)));
}

static void read_completions(struct work_struct *work)
{
	struct ulp *ulp = container_of(work, struct ulp, work);
	struct kfi_cq_tagged_entry entries[8];
	kfi_addr_t sources[ARRAY_SIZE(entries)];
	ssize_t got;
	int i;

	for (;;) {
		got = kfi_cq_readfrom(ulp->cq, entries, ARRAY_SIZE(entries), sources);
		if (got == -KFI_EAGAIN)
			break;
		if (got == -KFI_EAVAIL) {
			handle_error(ulp);
			continue;
		}
		for (i = 0; i < got; i++) {
			switch (entries[i].flags & ~KFI_REMOTE_CQ_DATA) {
			case KFI_MSG | KFI_RECV | KFI_MULTI_RECV:
			case KFI_MSG | KFI_RECV:
				print_dbg("%zu bytes at %p from %llu\n", entries[i].len,
					  entries[i].buf, sources[i]);
				break;
			case KFI_TAGGED | KFI_RECV:
				print_trace("tag %#llx\n", entries[i].tag);
				break;
			case KFI_RMA | KFI_WRITE:
				kfi_cntr_add(ulp->cntr, 1);
				break;
			default:
				LOG_WARN("flags %#llx", entries[i].flags);
			}
		}
	}
}

static int discover(struct ulp *ulp)
{
	struct kfi_info *hints;
	int rc;

	hints = kfi_allocinfo();
	if (!hints)
		return -ENOMEM;
	hints->caps = KFI_MSG | KFI_RMA | KFI_TAGGED | KFI_READ | KFI_WRITE | KFI_RECV | KFI_SEND |
		      KFI_REMOTE_READ | KFI_REMOTE_WRITE | KFI_MULTI_RECV | KFI_NAMED_RX_CTX |
		      KFI_SOURCE | KFI_TAGGED_RMA;
	hints->mode = KFI_CONTEXT2 | KFI_ASYNC_IOV;
	hints->ep_attr->type = KFI_EP_RDM;
	hints->ep_attr->tx_ctx_cnt = NR_CONTEXTS;
	hints->ep_attr->rx_ctx_cnt = NR_CONTEXTS;
	hints->domain_attr->mr_mode = KFI_MR_ENDPOINT;
	hints->domain_attr->threading = KFI_THREAD_SAFE;
	hints->domain_attr->resource_mgmt = KFI_RM_ENABLED;
	hints->domain_attr->tclass = kfi_tc_dscp_set(8);
	hints->tx_attr->msg_order = KFI_ORDER_SAS | KFI_ORDER_WAW;
	rc = kfi_getinfo(KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION), "node", "1",
			 KFI_SOURCE, hints, &ulp->info);
	kfi_freeinfo(hints);
	if (rc == -KFI_ENODATA)
		LOG_INFO("nobody offers that");
	return rc;
}

static int open_objects(struct ulp *ulp)
{
	struct kfi_eq_attr eq_attr = { .size = 16, .wait_obj = KFI_WAIT_NONE };
	struct kfi_cntr_attr cntr_attr = { .events = KFI_CNTR_EVENTS_COMP };
	struct kfi_av_attr av_attr = { .type = KFI_AV_MAP, .rx_ctx_bits = RX_CTX_BITS };
	struct kfi_cq_attr cq_attr = {
		.size = queue_depth,
		.flags = KFI_AFFINITY,
		.format = KFI_CQ_FORMAT_TAGGED,
		.wait_obj = KFI_WAIT_NONE,
		.wait_cond = KFI_CQ_COND_NONE,
	};
	struct kfi_cxi_domain_ops *dom_ops;
	struct device *device;
	int rc;

	rc = kfi_fabric(ulp->info->fabric_attr, &ulp->fabric, ulp);
	if (rc)
		return rc;
	rc = kfi_eq_open(ulp->fabric, &eq_attr, &ulp->eq, on_event, ulp);
	if (rc)
		return rc;
	rc = kfi_domain(ulp->fabric, ulp->info, &ulp->domain, ulp);
	if (rc)
		return rc;
	rc = kfi_domain_bind(ulp->domain, &ulp->eq->fid, KFI_REG_MR);
	if (rc)
		return rc;
	rc = kfi_open_ops(&ulp->domain->fid, KFI_CXI_DOM_OPS_1, 0, (void **)&dom_ops, NULL);
	if (!rc)
		dom_ops->get_device(&ulp->domain->fid, &device);
	rc = kfi_cq_open(ulp->domain, &cq_attr, &ulp->cq, on_completion, ulp);
	if (rc)
		return rc;
	rc = kfi_cntr_open(ulp->domain, &cntr_attr, &ulp->cntr, ulp);
	if (rc)
		return rc;
	return kfi_av_open(ulp->domain, &av_attr, &ulp->av, ulp);
}

static int open_contexts(struct ulp *ulp)
{
	size_t min_multi_recv = BUF_SIZE / 4;
	struct kcxi_addr addr;
	size_t addrlen = sizeof(addr);
	int rc, i;

	rc = kfi_scalable_ep(ulp->domain, ulp->info, &ulp->sep, ulp);
	if (rc)
		return rc;
	rc = kfi_scalable_ep_bind(ulp->sep, &ulp->av->fid, 0);
	rc = rc ?: kfi_enable(ulp->sep);
	rc = rc ?: kfi_getname(&ulp->sep->fid, &addr, &addrlen);
	for (i = 0; !rc && i < NR_CONTEXTS; i++) {
		rc = kfi_tx_context(ulp->sep, i, NULL, &ulp->tx[i], ulp);
		rc = rc ?: kfi_rx_context(ulp->sep, i, NULL, &ulp->rx[i], ulp);
		rc = rc ?: kfi_ep_bind(ulp->tx[i], &ulp->cq->fid,
				       KFI_TRANSMIT | KFI_SELECTIVE_COMPLETION);
		rc = rc ?: kfi_ep_bind(ulp->rx[i], &ulp->cq->fid, KFI_RECV);
		rc = rc ?: kfi_ep_bind(ulp->rx[i], &ulp->cntr->fid, KFI_REMOTE_WRITE);
		rc = rc ?: kfi_setopt(&ulp->rx[i]->fid, KFI_OPT_ENDPOINT, KFI_OPT_MIN_MULTI_RECV,
				      &min_multi_recv, sizeof(min_multi_recv));
		rc = rc ?: kfi_enable(ulp->tx[i]);
		rc = rc ?: kfi_enable(ulp->rx[i]);
	}
	return rc;
}

static int register_memory(struct ulp *ulp, const struct bio_vec *biov, struct scatterlist *sgl)
{
	struct kvec iov = { .iov_base = ulp->buf, .iov_len = BUF_SIZE };
	struct kfi_mr_attr attr = {
		.type = KFI_KVEC,
		.mr_iov = &iov,
		.iov_count = 1,
		.access = KFI_REMOTE_READ | KFI_REMOTE_WRITE,
		.requested_key = 7,
	};
	struct kfid_mr *mr;
	int rc;

	rc = kfi_mr_reg(ulp->domain, ulp->buf, BUF_SIZE, KFI_REMOTE_WRITE, 0, 1, 0, &mr, ulp);
	rc |= kfi_mr_regv(ulp->domain, &iov, 1, KFI_REMOTE_READ, 0, 2, 0, &mr, ulp);
	rc |= kfi_mr_regbv(ulp->domain, biov, 1, KFI_REMOTE_READ, 0, 3, 0, &mr, ulp);
	rc |= kfi_mr_regsgl(ulp->domain, sgl, 1, KFI_REMOTE_READ, 0, 4, 0, &mr, ulp);
	rc |= kfi_mr_regattr(ulp->domain, &attr, 0, &ulp->mr);
	rc |= kfi_mr_bind(ulp->mr, &ulp->rx[0]->fid, 0);
	rc |= kfi_mr_enable(ulp->mr);
	return rc;
}

static ssize_t post_messages(struct ulp *ulp, const struct bio_vec *biov, struct scatterlist *sgl)
{
	struct kvec iov = { .iov_base = ulp->buf, .iov_len = BUF_SIZE };
	kfi_addr_t dest = kfi_rx_addr(ulp->peer, 1, RX_CTX_BITS);
	struct kfi_msg msg = {
		.type = KFI_BVEC,
		.msg_biov = biov,
		.iov_count = 1,
		.addr = KFI_ADDR_UNSPEC,
		.context = &ulp->context,
	};
	void *desc = kfi_mr_desc(ulp->mr);
	ssize_t rc;

	rc = kfi_recvmsg(ulp->rx[0], &msg, KFI_MULTI_RECV | KFI_COMPLETION);
	rc = rc ?: kfi_recv(ulp->rx[0], ulp->buf, BUF_SIZE, desc, KFI_ADDR_UNSPEC, ulp);
	rc = rc ?: kfi_recvv(ulp->rx[0], &iov, &desc, 1, dest, ulp);
	rc = rc ?: kfi_recvbv(ulp->rx[0], biov, NULL, 1, dest, ulp);
	rc = rc ?: kfi_recvsgl(ulp->rx[0], sgl, NULL, 1, dest, ulp);
	rc = rc ?: kfi_sendmsg(ulp->tx[0], &msg, KFI_MORE | KFI_FENCE);
	rc = rc ?: kfi_send(ulp->tx[0], ulp->buf, 8, NULL, dest, &ulp->context);
	rc = rc ?: kfi_sendv(ulp->tx[0], &iov, NULL, 1, dest, ulp);
	rc = rc ?: kfi_sendbv(ulp->tx[0], biov, NULL, 1, dest, ulp);
	rc = rc ?: kfi_sendsgl(ulp->tx[0], sgl, NULL, 1, dest, ulp);
	rc = rc ?: kfi_inject(ulp->tx[0], "ping", 4, dest);
	rc = rc ?: kfi_senddata(ulp->tx[0], "ping", 4, NULL, 42, dest, ulp);
	rc = rc ?: kfi_injectdata(ulp->tx[0], "ping", 4, 42, dest);
	if (rc == -KFI_EAGAIN || rc == -KFI_EOPBADSTATE)
		kfi_cancel(&ulp->tx[0]->fid, &ulp->context);
	return rc;
}

static ssize_t post_tagged(struct ulp *ulp, const struct bio_vec *biov, struct scatterlist *sgl)
{
	struct kvec iov = { .iov_base = ulp->buf, .iov_len = BUF_SIZE };
	struct kfi_msg_tagged msg = {
		.type = KFI_KVEC,
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = ulp->peer,
		.tag = 0x1234,
		.ignore = 0xff,
	};
	kfi_addr_t peer = ulp->peer;
	ssize_t rc;

	rc = kfi_trecv(ulp->rx[0], ulp->buf, BUF_SIZE, NULL, peer, 1, 0, ulp);
	rc = rc ?: kfi_trecvv(ulp->rx[0], &iov, NULL, 1, peer, 1, 0, ulp);
	rc = rc ?: kfi_trecvbv(ulp->rx[0], biov, NULL, 1, peer, 1, 0, ulp);
	rc = rc ?: kfi_trecvsgl(ulp->rx[0], sgl, NULL, 1, peer, 1, 0, ulp);
	rc = rc ?: kfi_trecvmsg(ulp->rx[0], &msg, KFI_PEEK | KFI_CLAIM);
	rc = rc ?: kfi_tsend(ulp->tx[0], ulp->buf, 8, NULL, peer, 1, ulp);
	rc = rc ?: kfi_tsendbv(ulp->tx[0], biov, NULL, 1, peer, 1, ulp);
	rc = rc ?: kfi_tsendmsg(ulp->tx[0], &msg, KFI_COMPLETION);
	rc = rc ?: kfi_tsenddata(ulp->tx[0], NULL, 0, NULL, 42, peer, 1, ulp);
	rc = rc ?: kfi_tinject(ulp->tx[0], "ping", 4, peer, 1);
	rc = rc ?: kfi_tinjectdata(ulp->tx[0], "ping", 4, 42, peer, 1);
	return rc;
}

static ssize_t post_rma(struct ulp *ulp, const struct bio_vec *biov, struct scatterlist *sgl)
{
	uint64_t key = kfi_mr_key(ulp->mr);
	void *desc = kfi_mr_desc(ulp->mr);
	struct kfi_rma_iov remote = { .len = BUF_SIZE, .key = key };
	struct kfi_msg_rma msg = {
		.type = KFI_SGL,
		.msg_sgl = sgl,
		.desc = &desc,
		.iov_count = 1,
		.addr = ulp->peer,
		.rma_iov = &remote,
		.rma_iov_count = 1,
	};
	kfi_addr_t peer = ulp->peer;
	ssize_t rc;

	rc = kfi_read(ulp->tx[0], ulp->buf, BUF_SIZE, desc, peer, 0, key, ulp);
	rc = rc ?: kfi_readbv(ulp->tx[0], biov, NULL, 1, peer, 0, key, ulp);
	rc = rc ?: kfi_readsgl(ulp->tx[0], sgl, NULL, 1, peer, 0, key, ulp);
	rc = rc ?: kfi_readmsg(ulp->tx[0], &msg, KFI_TAGGED | KFI_COMPLETION);
	rc = rc ?: kfi_write(ulp->tx[0], ulp->buf, BUF_SIZE, desc, peer, 0, key, ulp);
	rc = rc ?: kfi_writebv(ulp->tx[0], biov, NULL, 1, peer, 0, key, ulp);
	rc = rc ?: kfi_writesgl(ulp->tx[0], sgl, NULL, 1, peer, 0, key, ulp);
	rc = rc ?: kfi_writemsg(ulp->tx[0], &msg, KFI_REMOTE_CQ_DATA);
	rc = rc ?: kfi_inject_write(ulp->tx[0], "ping", 4, peer, 0, key);
	rc = rc ?: kfi_writedata(ulp->tx[0], "ping", 4, NULL, 42, peer, 0, key, ulp);
	return rc;
}

static ssize_t post_atomics(struct ulp *ulp, kfi_addr_t dest, uint64_t key)
{
	struct kfi_atomic_attr attr;
	uint64_t operand = 1, old;
	size_t count;
	ssize_t rc;

	rc = kfi_query_atomic(ulp->domain, KFI_UINT64, KFI_SUM, &attr, 0);
	rc = rc ?: kfi_atomicvalid(ulp->tx[0], KFI_UINT64, KFI_SUM, &count);
	rc = rc ?: kfi_atomic(ulp->tx[0], &operand, 1, NULL, dest, 0, key,
			      KFI_UINT64, KFI_SUM, ulp);
	rc = rc ?: kfi_fetch_atomic(ulp->tx[0], &operand, 1, NULL, &old, NULL, dest, 0, key,
				    KFI_UINT64, KFI_BXOR, ulp);
	rc = rc ?: kfi_compare_atomic(ulp->tx[0], &operand, 1, NULL, &operand, NULL, &old, NULL,
				      dest, 0, key, KFI_UINT64, KFI_CSWAP, ulp);
	return rc;
}

static int insert_peer(struct ulp *ulp)
{
	struct kfi_eq_entry done;
	struct kfi_eq_err_entry error = {};
	uint32_t event;
	ssize_t got;
	int rc;

	rc = kfi_av_bind(ulp->av, &ulp->eq->fid, 0);
	rc = rc ?: kfi_av_insertsvc(ulp->av, "0x12", "3", &ulp->peer, 0, ulp);
	if (rc < 0)
		return rc;
	got = kfi_eq_read(ulp->eq, &event, &done, sizeof(done), 0);
	if (got == -KFI_EAVAIL && kfi_eq_readerr(ulp->eq, &error, 0) == sizeof(error))
		return -error.err;
	return got == sizeof(done) && event == KFI_AV_COMPLETE && done.data == 1 ? 0 : -EIO;
}

static void close_all(struct ulp *ulp)
{
	int i;

	kfi_close(&ulp->mr->fid);
	for (i = 0; i < NR_CONTEXTS; i++) {
		kfi_close(&ulp->rx[i]->fid);
		while (kfi_close(&ulp->tx[i]->fid) == -KFI_EBUSY)
			flush_work(&ulp->work);
	}
	kfi_close(&ulp->sep->fid);
	kfi_av_remove(ulp->av, &ulp->peer, 1, 0);
	kfi_close(&ulp->av->fid);
	kfi_close(&ulp->cntr->fid);
	kfi_close(&ulp->cq->fid);
	kfi_close(&ulp->domain->fid);
	kfi_close(&ulp->eq->fid);
	kfi_close(&ulp->fabric->fid);
	kfi_freeinfo(ulp->info);
}

int consumer_scalable(struct ulp *ulp, struct bio_vec *biov, struct scatterlist *sgl);
int consumer_scalable(struct ulp *ulp, struct bio_vec *biov, struct scatterlist *sgl)
{
	int rc;

	INIT_WORK(&ulp->work, read_completions);
	rc = discover(ulp);
	rc = rc ?: open_objects(ulp);
	rc = rc ?: open_contexts(ulp);
	rc = rc ?: insert_peer(ulp);
	rc = rc ?: register_memory(ulp, biov, sgl);
	rc = rc ?: post_messages(ulp, biov, sgl);
	rc = rc ?: post_tagged(ulp, biov, sgl);
	rc = rc ?: post_rma(ulp, biov, sgl);
	rc = rc ?: post_atomics(ulp, ulp->peer, 1);
	close_all(ulp);
	return rc;
}

/* Connections, and threads that sleep. */
struct listener {
	struct kfid_fabric *fabric;
	struct kfid_domain *domain;
	struct kfid_pep *pep;
	struct kfid_eq *eq;
	struct kfid_cq *cq;
	struct kfid_cntr *cntr;
	struct kfid_wait *wait;
	struct kfid_poll *poll;
};

static int accept_one(struct listener *l)
{
	char buf[sizeof(struct kfi_eq_cm_entry) + 64];
	struct kfi_eq_cm_entry *entry = (void *)buf;
	struct kfid_ep *ep;
	uint32_t event;
	ssize_t got;
	int rc;

	got = kfi_eq_sread(l->eq, &event, buf, sizeof(buf), -1, 0);
	if (got < (ssize_t)sizeof(*entry))
		return got < 0 ? got : -EIO;
	if (event != KFI_CONNREQ)
		return -EINVAL;
	rc = kfi_endpoint(l->domain, entry->info, &ep, l);
	if (rc) {
		kfi_reject(l->pep, entry->info->handle, "no", 2);
		kfi_freeinfo(entry->info);
		return rc;
	}
	rc = kfi_ep_bind(ep, &l->eq->fid, 0);
	rc = rc ?: kfi_ep_bind(ep, &l->cq->fid, KFI_TRANSMIT | KFI_RECV);
	rc = rc ?: kfi_accept(ep, entry->data, got - sizeof(*entry));
	kfi_freeinfo(entry->info);
	return rc;
}

static int wait_for_work(struct listener *l)
{
	struct kfi_cq_msg_entry entry;
	void *ready[4];
	int i, nr, rc;

	while (!kthread_should_stop()) {
		rc = kfi_wait(l->wait, 1000);
		if (rc == -KFI_ETIMEDOUT)
			continue;
		if (rc)
			return rc;
		nr = kfi_poll(l->poll, ready, ARRAY_SIZE(ready));
		for (i = 0; i < nr; i++)
			if (ready[i] == l && kfi_cq_read(l->cq, &entry, 1) == 1)
				LOG_NOTICE("%zu bytes", entry.len);
		if (kfi_cntr_readerr(l->cntr) || kfi_cntr_read(l->cntr) > 100)
			break;
	}
	rc = kfi_cq_sread(l->cq, &entry, 1, NULL, 0) == 1 ? 0 : -EIO;
	return rc ?: kfi_cntr_wait(l->cntr, 200, -1);
}

int consumer_connected(struct listener *l, struct kfi_info *info, struct kfid_ep *ep);
int consumer_connected(struct listener *l, struct kfi_info *info, struct kfid_ep *ep)
{
	struct kfi_wait_attr wait_attr = { .wait_obj = KFI_WAIT_QUEUE };
	struct kfi_cq_attr cq_attr = {
		.format = KFI_CQ_FORMAT_MSG,
		.wait_obj = KFI_WAIT_SET,
	};
	struct kfi_poll_attr poll_attr = { .flags = 0 };
	wait_queue_head_t *queue;
	int rc;

	rc = kfi_wait_open(l->fabric, &wait_attr, &l->wait);
	cq_attr.wait_set = l->wait;
	rc = rc ?: kfi_cq_open(l->domain, &cq_attr, &l->cq, NULL, l);
	rc = rc ?: kfi_poll_open(l->domain, &poll_attr, &l->poll);
	rc = rc ?: kfi_poll_add(l->poll, &l->cq->fid, 0);
	rc = rc ?: kfi_control(&l->wait->kfid, KFI_GETWAIT, &queue);
	rc = rc ?: kfi_passive_ep(l->fabric, info, &l->pep, l);
	rc = rc ?: kfi_pep_bind(l->pep, &l->eq->fid, 0);
	rc = rc ?: kfi_listen(l->pep);
	rc = rc ?: kfi_connect(ep, info->dest_addr, NULL, 0);
	rc = rc ?: accept_one(l);
	rc = rc ?: wait_for_work(l);
	kfi_shutdown(ep, 0);
	kfi_poll_del(l->poll, &l->cq->fid, 0);
	kfi_close(&l->poll->fid);
	kfi_close(&l->eq->fid);
	kfi_close(&l->pep->fid);
	kfi_close(&l->wait->kfid);
	return rc;
}

/* A provider that can open a fabric and nothing else. */
struct fabric {
	struct kfid_fabric fabric;
};

static struct kfi_provider provider;

static int fabric_close(struct kfid *fid)
{
	kfi_close_id(fid);
	kfree(container_of(fid, struct fabric, fabric.fid));
	kfi_deref_provider(&provider);
	return 0;
}

static struct kfi_ops fabric_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = fabric_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

static struct kfi_ops_fabric fabric_ops = {
	.size = sizeof(struct kfi_ops_fabric),
	.domain = kfi_no_domain,
	.passive_ep = kfi_no_passive_ep,
	.eq_open = kfi_no_eq_open,
	.wait_open = kfi_no_wait_open,
};

static int provider_fabric(struct kfi_fabric_attr *attr, struct kfid_fabric **fabric, void *context)
{
	struct fabric *new = kzalloc(sizeof(*new), GFP_KERNEL);

	if (!new)
		return -KFI_ENOMEM;
	kfi_init_id(&new->fabric.fid);
	new->fabric.fid.fclass = KFI_CLASS_FABRIC;
	new->fabric.fid.context = context;
	new->fabric.fid.ops = &fabric_fid_ops;
	new->fabric.ops = &fabric_ops;
	new->fabric.api_version = attr->api_version;
	kfi_ref_provider(&provider);
	*fabric = &new->fabric;
	return 0;
}

static int provider_getinfo(uint32_t version, const char *node, const char *service,
			    uint64_t flags, struct kfi_info *hints, struct kfi_info **info)
{
	if (KFI_VERSION_LT(version, KFI_VERSION(1, 0)))
		return -KFI_ENOSYS;
	if (hints && (hints->caps & KFI_ATOMIC))
		return -KFI_ENODATA;
	*info = kfi_dupinfo(hints);
	return *info ? 0 : -KFI_ENOMEM;
}

static struct kfi_provider provider = {
	.version = KFI_VERSION(1, 0),
	.kfi_version = KFI_VERSION(1, 7),
	.name = "consumer",
	.kgetinfo = provider_getinfo,
	.kfabric = provider_fabric,
};

static int __init consumer_init(void)
{
	return kfi_provider_register(&provider);
}
module_init(consumer_init);

static void __exit consumer_exit(void)
{
	kfi_provider_deregister(&provider);
}
module_exit(consumer_exit);

MODULE_DESCRIPTION("Code that was written for kfabric 1.7");
MODULE_LICENSE("Dual BSD/GPL");
