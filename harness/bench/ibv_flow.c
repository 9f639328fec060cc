// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Batches of messages from one queue pair to another one of the same process, by verbs. Both
 * completion queues are polled.
 *
 *	ibv_flow DEVICE GID_INDEX ROUNDS BATCH SIZE
 *
 * Prints the nanoseconds of all rounds. The status is 1 if something failed; what, is on stderr.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
};

static void check(const char *what, int ok)
{
	if (ok)
		return;
	fprintf(stderr, "ibv_flow: %s failed\n", what);
	exit(1);
}

static struct ibv_context *device_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (; list && *list; list++)
		if (!strcmp(ibv_get_device_name(*list), name))
			return ibv_open_device(*list);
	return NULL;
}

static struct end end_new(struct ibv_context *context, struct ibv_pd *pd, int depth)
{
	struct end end = { .cq = ibv_create_cq(context, depth, NULL, NULL, 0) };
	struct ibv_qp_init_attr attr = {
		.send_cq = end.cq,
		.recv_cq = end.cq,
		.cap = { depth, depth, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	check("create CQ", !!end.cq);
	end.qp = ibv_create_qp(pd, &attr);
	check("create QP", !!end.qp);
	return end;
}

static void connect_to(struct end *end, const struct end *peer, union ibv_gid *gid, int index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
	};

	check("init", !ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
				     IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = peer->qp->qp_num;
	attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.dgid = *gid;
	attr.ah_attr.grh.sgid_index = index;
	attr.ah_attr.grh.hop_limit = 1;
	check("rtr", !ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				    IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER |
				    IBV_QP_MAX_DEST_RD_ATOMIC));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = attr.rnr_retry = 7;
	check("rts", !ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
				    IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				    IBV_QP_MAX_QP_RD_ATOMIC));
}

/* Another thread may have to run before a completion comes. */
static void take(struct ibv_cq *cq, int count)
{
	struct ibv_wc wc[16];
	int i, n;

	for (; count; count -= n) {
		n = ibv_poll_cq(cq, count < 16 ? count : 16, wc);
		check("poll", n >= 0);
		for (i = 0; i < n; i++)
			check(ibv_wc_status_str(wc[i].status), !wc[i].status);
		if (!n)
			sched_yield();
	}
}

static void play(struct end *from, struct end *to, struct ibv_send_wr *send,
		 struct ibv_recv_wr *recv, int batch)
{
	struct ibv_send_wr *bad_send;
	struct ibv_recv_wr *bad_recv;

	check("receive", !ibv_post_recv(to->qp, recv, &bad_recv));
	check("send", !ibv_post_send(from->qp, send, &bad_send));
	take(to->cq, batch);
	take(from->cq, batch);
}

int main(int argc, char **argv)
{
	int index = argc == 6 ? atoi(argv[2]) : 0, rounds = argc == 6 ? atoi(argv[3]) : 0;
	int batch = argc == 6 ? atoi(argv[4]) : 0, size = argc == 6 ? atoi(argv[5]) : 0, i;
	struct ibv_context *context = argc == 6 ? device_named(argv[1]) : NULL;
	struct timespec began, ended;
	struct ibv_send_wr *sends;
	struct ibv_recv_wr *recvs;
	struct end from, to;
	union ibv_gid gid;
	struct ibv_sge sge;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	char *buf;

	check("open", context && batch > 0 && size > 0);
	pd = ibv_alloc_pd(context);
	buf = calloc(2, size);
	check("allocate", pd && buf);
	mr = ibv_reg_mr(pd, buf, 2 * size, IBV_ACCESS_LOCAL_WRITE);
	check("register", mr && !ibv_query_gid(context, 1, index, &gid));
	from = end_new(context, pd, batch);
	to = end_new(context, pd, batch);
	connect_to(&from, &to, &gid, index);
	connect_to(&to, &from, &gid, index);

	sge = (struct ibv_sge){ (uintptr_t)buf, size, mr->lkey };
	sends = calloc(batch, sizeof(*sends));
	recvs = calloc(batch, sizeof(*recvs));
	check("allocate", sends && recvs);
	for (i = 0; i < batch; i++) {
		sends[i] = (struct ibv_send_wr){
			.next = i + 1 < batch ? &sends[i + 1] : NULL,
			.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		};
		recvs[i] = (struct ibv_recv_wr){
			.next = i + 1 < batch ? &recvs[i + 1] : NULL,
			.sg_list = &sge, .num_sge = 1,
		};
	}
	play(&from, &to, sends, recvs, batch);
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (i = 0; i < rounds; i++)
		play(&from, &to, sends, recvs, batch);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	printf("%lld\n", (ended.tv_sec - began.tv_sec) * 1000000000LL + ended.tv_nsec - began.tv_nsec);
	return 0;
}
