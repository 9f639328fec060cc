// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * rawread ADDR SIZE READS DEPTH: RDMA READs by the verbs of the kernel alone,
 * DEPTH of them at a time, between two queue pairs of the device with that
 * address. What kfabric's reads are compared to (rdm.c).
 */
#include <linux/inet.h>
#include <linux/scatterlist.h>
#include <linux/vmalloc.h>

#include <rdma/ib_cache.h>
#include <rdma/rdma_cm.h>

#include "kbench.h"

#define KB_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ)
#define KB_RD_ATOMIC	16
#define KB_QP_TIMEOUT	17		/* 4 us << 17: half a second */
#define KB_RNR_TIMER	12

/**
 * struct kb_memory - memory that is registered
 * @buf: vmalloc memory
 * @table: its pages
 * @mapped: pages that are mapped for the device
 * @mr: the region
 */
struct kb_memory {
	u8 *buf;
	struct sg_table table;
	int mapped;
	struct ib_mr *mr;
};

/**
 * struct kb_raw - two queue pairs that are connected
 * @id: knows the device that an address belongs to
 * @pd: of everything
 * @cq: of both
 * @qp: the one that reads, and the one that is read from
 * @from: is read
 * @to: is written
 * @cqe: of every work request
 * @wait: the caller sleeps here
 * @done: work requests that have completed
 * @failed: those of them that failed
 */
struct kb_raw {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq;
	struct ib_qp *qp[2];
	struct kb_memory from;
	struct kb_memory to;
	struct ib_cqe cqe;
	wait_queue_head_t wait;
	atomic_t done;
	atomic_t failed;
};

static void kb_raw_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kb_raw *raw = container_of(wc->wr_cqe, struct kb_raw, cqe);

	if (wc->status != IB_WC_SUCCESS)
		atomic_inc(&raw->failed);
	atomic_inc(&raw->done);
	wake_up(&raw->wait);
}

static int kb_raw_await(struct kb_raw *raw, int done)
{
	if (!wait_event_timeout(raw->wait, atomic_read(&raw->done) >= done,
				KB_DEADLINE))
		return -ETIMEDOUT;
	return atomic_read(&raw->failed) ? -EIO : 0;
}

/* Nothing happens by it: it is only asked for the device of an address. */
static int kb_raw_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	return 0;
}

static int kb_raw_find(struct kb_raw *raw, const char *addr)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = in_aton(addr),
	};
	struct rdma_cm_id *id;
	int err;

	id = rdma_create_id(&init_net, kb_raw_event, NULL, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	raw->id = id;
	err = rdma_bind_addr(id, (struct sockaddr *)&sin);
	return err ? err : id->device ? 0 : -ENODEV;
}

static int kb_raw_create(struct kb_raw *raw)
{
	struct ib_qp_init_attr attr = {
		.qp_type = IB_QPT_RC,
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.cap = {
			.max_send_wr = 64,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	unsigned int i;

	raw->pd = ib_alloc_pd(raw->id->device, 0);
	if (IS_ERR(raw->pd))
		return PTR_ERR(raw->pd);
	raw->cq = ib_alloc_cq(raw->id->device, raw, 256, 0, IB_POLL_SOFTIRQ);
	if (IS_ERR(raw->cq))
		return PTR_ERR(raw->cq);
	attr.send_cq = raw->cq;
	attr.recv_cq = raw->cq;
	for (i = 0; i < ARRAY_SIZE(raw->qp); i++) {
		raw->qp[i] = ib_create_qp(raw->pd, &attr);
		if (IS_ERR(raw->qp[i]))
			return PTR_ERR(raw->qp[i]);
	}
	return 0;
}

static int kb_raw_init_qp(struct kb_raw *raw, struct ib_qp *qp)
{
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_INIT,
		.port_num = raw->id->port_num,
		.qp_access_flags = KB_ACCESS,
	};

	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_PKEY_INDEX |
			    IB_QP_PORT | IB_QP_ACCESS_FLAGS);
}

/* The way to the device's own address. Its reference to the GID is the caller's. */
static int kb_raw_route(struct kb_raw *raw, const char *addr,
			struct rdma_ah_attr *ah)
{
	struct ib_device *device = raw->id->device;
	u32 port = raw->id->port_num;
	const struct ib_gid_attr *found;
	union ib_gid gid;

	ipv6_addr_set_v4mapped(in_aton(addr), (struct in6_addr *)&gid);
	found = rdma_find_gid_by_port(device, &gid,
				      IB_GID_TYPE_ROCE_UDP_ENCAP, port, NULL);
	if (IS_ERR(found))
		return PTR_ERR(found);
	ah->type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_port_num(ah, port);
	rdma_move_grh_sgid_attr(ah, &gid, 0, 64, 0, found);
	/* What is sent to itself goes to its own hardware address. */
	return rdma_read_gid_l2_fields(found, NULL, ah->roce.dmac);
}

static int kb_raw_connect_qp(struct kb_raw *raw, struct ib_qp *qp, u32 peer,
			     const struct rdma_ah_attr *ah)
{
	struct ib_port_attr port;
	struct ib_qp_attr attr = {
		.qp_state = IB_QPS_RTR,
		.ah_attr = *ah,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = KB_RD_ATOMIC,
		.min_rnr_timer = KB_RNR_TIMER,
	};
	int err;

	err = ib_query_port(raw->id->device, raw->id->port_num, &port);
	if (err)
		return err;
	attr.path_mtu = port.active_mtu;
	err = ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_AV |
			   IB_QP_PATH_MTU | IB_QP_DEST_QPN | IB_QP_RQ_PSN |
			   IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	attr = (struct ib_qp_attr) {
		.qp_state = IB_QPS_RTS,
		.timeout = KB_QP_TIMEOUT,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = KB_RD_ATOMIC,
	};
	return ib_modify_qp(qp, &attr, IB_QP_STATE | IB_QP_TIMEOUT |
			    IB_QP_RETRY_CNT | IB_QP_RNR_RETRY | IB_QP_SQ_PSN |
			    IB_QP_MAX_QP_RD_ATOMIC);
}

static int kb_raw_connect(struct kb_raw *raw, const char *addr)
{
	struct rdma_ah_attr ah = { };
	int err, i;

	err = kb_raw_route(raw, addr, &ah);
	for (i = 0; !err && i < 2; i++)
		err = kb_raw_init_qp(raw, raw->qp[i]);
	for (i = 0; !err && i < 2; i++)
		err = kb_raw_connect_qp(raw, raw->qp[i], raw->qp[!i]->qp_num,
					&ah);
	rdma_destroy_ah_attr(&ah);
	return err;
}

static int kb_memory_table(struct kb_memory *memory, size_t size)
{
	unsigned int i, pages = DIV_ROUND_UP(size, PAGE_SIZE);
	struct scatterlist *sg;
	int err;

	memory->buf = vzalloc(size);
	if (!memory->buf)
		return -ENOMEM;
	err = sg_alloc_table(&memory->table, pages, GFP_KERNEL);
	if (err)
		return err;
	for_each_sg(memory->table.sgl, sg, pages, i)
		sg_set_page(sg, vmalloc_to_page(memory->buf + i * PAGE_SIZE),
			    PAGE_SIZE, 0);
	return 0;
}

static int kb_memory_open(struct kb_raw *raw, struct kb_memory *memory,
			  size_t size)
{
	int n, err;

	err = kb_memory_table(memory, size);
	if (err)
		return err;
	n = memory->table.nents;
	memory->mr = ib_alloc_mr(raw->pd, IB_MR_TYPE_MEM_REG, n);
	if (IS_ERR(memory->mr))
		return PTR_ERR(memory->mr);
	memory->mapped = ib_dma_map_sg(raw->id->device, memory->table.sgl, n,
				       DMA_BIDIRECTIONAL);
	if (ib_map_mr_sg(memory->mr, memory->table.sgl, memory->mapped, NULL,
			 PAGE_SIZE) != n)
		return -ENOMEM;
	return 0;
}

static void kb_memory_close(struct kb_raw *raw, struct kb_memory *memory)
{
	if (memory->mapped)
		ib_dma_unmap_sg(raw->id->device, memory->table.sgl,
				memory->table.nents, DMA_BIDIRECTIONAL);
	if (!IS_ERR_OR_NULL(memory->mr))
		ib_dereg_mr(memory->mr);
	sg_free_table(&memory->table);
	vfree(memory->buf);
}

static int kb_raw_register(struct kb_raw *raw, struct ib_qp *qp,
			   struct kb_memory *memory)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.wr.wr_cqe = &raw->cqe,
		.mr = memory->mr,
		.key = memory->mr->rkey,
		.access = KB_ACCESS,
	};
	int err = ib_post_send(qp, &wr.wr, NULL);

	return err ? err : kb_raw_await(raw, atomic_read(&raw->done) + 1);
}

static int kb_raw_post(struct kb_raw *raw, size_t size)
{
	struct ib_sge sge = {
		.addr = raw->to.mr->iova,
		.length = size,
		.lkey = raw->to.mr->lkey,
	};
	struct ib_rdma_wr wr = {
		.wr.opcode = IB_WR_RDMA_READ,
		.wr.wr_cqe = &raw->cqe,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.remote_addr = raw->from.mr->iova,
		.rkey = raw->from.mr->rkey,
	};

	return ib_post_send(raw->qp[0], &wr.wr, NULL);
}

/* Never more than @depth are under way. */
static int kb_raw_reads(struct kb_raw *raw, size_t size, int reads, int depth)
{
	int i, err = 0;

	atomic_set(&raw->done, 0);
	for (i = 0; !err && i < reads; i++) {
		err = kb_raw_await(raw, i + 1 - depth);
		if (!err)
			err = kb_raw_post(raw, size);
	}
	return err ? err : kb_raw_await(raw, reads);
}

static int kb_raw_run(struct kb *kb, struct kb_raw *raw,
		      const struct kb_reads *reads)
{
	struct kb_clock clock;
	int err;

	err = kb_raw_register(raw, raw->qp[1], &raw->from);
	if (!err)
		err = kb_raw_register(raw, raw->qp[0], &raw->to);
	/* The first one warms up. */
	if (!err)
		err = kb_raw_reads(raw, reads->size, 1, 1);
	if (err)
		return err;
	kb_clock_start(&clock);
	err = kb_raw_reads(raw, reads->size, reads->count, reads->depth);
	kb_clock_stop(&clock);
	if (!err)
		kb_reads_tell(kb, reads, &clock, raw->from.buf, raw->to.buf);
	return err;
}

static int kb_raw_open(struct kb_raw *raw, const struct kb_reads *reads)
{
	int err;

	err = kb_raw_find(raw, reads->addr);
	if (!err)
		err = kb_raw_create(raw);
	if (!err)
		err = kb_memory_open(raw, &raw->from, reads->size);
	if (!err)
		err = kb_memory_open(raw, &raw->to, reads->size);
	if (!err)
		err = kb_raw_connect(raw, reads->addr);
	if (!err)
		kb_reads_fill(raw->from.buf, reads->size);
	return err;
}

static void kb_raw_close(struct kb_raw *raw)
{
	int i;

	for (i = 0; i < 2; i++)
		if (!IS_ERR_OR_NULL(raw->qp[i]))
			ib_drain_qp(raw->qp[i]);
	for (i = 0; i < 2; i++)
		if (!IS_ERR_OR_NULL(raw->qp[i]))
			ib_destroy_qp(raw->qp[i]);
	if (raw->id) {
		kb_memory_close(raw, &raw->from);
		kb_memory_close(raw, &raw->to);
	}
	if (!IS_ERR_OR_NULL(raw->cq))
		ib_free_cq(raw->cq);
	if (!IS_ERR_OR_NULL(raw->pd))
		ib_dealloc_pd(raw->pd);
	if (raw->id)
		rdma_destroy_id(raw->id);
}

int kb_rawread(struct kb *kb, const char *args)
{
	struct kb_raw raw = { .cqe.done = kb_raw_done };
	struct kb_reads reads;
	int err;

	if (kb_reads_parse(&reads, args))
		return -EINVAL;
	init_waitqueue_head(&raw.wait);
	err = kb_raw_open(&raw, &reads);
	if (!err)
		err = kb_raw_run(kb, &raw, &reads);
	kb_raw_close(&raw);
	return err;
}
