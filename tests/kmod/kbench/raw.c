// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Two queue pairs of one device, connected to each other by the verbs of the kernel
 * alone. What is measured on them is what kfabric is compared to (rawread.c, trip.c).
 */
#include <linux/inet.h>

#include <rdma/ib_cache.h>

#include "raw.h"

#define KB_RD_ATOMIC	16
#define KB_QP_TIMEOUT	17		/* 4 us << 17: half a second */
#define KB_RNR_TIMER	12

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
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.cap = {
			.max_send_wr = 64,
			.max_recv_wr = 8,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	unsigned int i;

	raw->pd = ib_alloc_pd(raw->id->device, 0);
	if (IS_ERR(raw->pd))
		return PTR_ERR(raw->pd);
	for (i = 0; i < ARRAY_SIZE(raw->qp); i++) {
		raw->cq[i] = ib_alloc_cq(raw->id->device, raw, 256, 0,
					 IB_POLL_SOFTIRQ);
		if (IS_ERR(raw->cq[i]))
			return PTR_ERR(raw->cq[i]);
		attr.send_cq = raw->cq[i];
		attr.recv_cq = raw->cq[i];
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

int kb_raw_open(struct kb_raw *raw, const char *addr)
{
	int err;

	err = kb_raw_find(raw, addr);
	if (!err)
		err = kb_raw_create(raw);
	return err ?: kb_raw_connect(raw, addr);
}

/* Neither queue pair touches memory any more. */
void kb_raw_drain(struct kb_raw *raw)
{
	int i;

	for (i = 0; i < 2; i++)
		if (!IS_ERR_OR_NULL(raw->qp[i]))
			ib_drain_qp(raw->qp[i]);
}

/* Also after a kb_raw_open() that failed half-way; drained before. */
void kb_raw_close(struct kb_raw *raw)
{
	int i;

	for (i = 0; i < 2; i++)
		if (!IS_ERR_OR_NULL(raw->qp[i]))
			ib_destroy_qp(raw->qp[i]);
	for (i = 0; i < 2; i++)
		if (!IS_ERR_OR_NULL(raw->cq[i]))
			ib_free_cq(raw->cq[i]);
	if (!IS_ERR_OR_NULL(raw->pd))
		ib_dealloc_pd(raw->pd);
	if (raw->id)
		rdma_destroy_id(raw->id);
}
