/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* Two queue pairs of one device that are connected to each other (raw.c). */
#ifndef _KFI_BENCH_RAW_H_
#define _KFI_BENCH_RAW_H_

#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>

#define KB_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ)

/**
 * struct kb_raw - two queue pairs
 * @id: knows the device that an address belongs to
 * @pd: of everything
 * @cq: each one's queue
 * @qp: complete what they are asked to, and all receives
 */
struct kb_raw {
	struct rdma_cm_id *id;
	struct ib_pd *pd;
	struct ib_cq *cq[2];
	struct ib_qp *qp[2];
};

int kb_raw_open(struct kb_raw *raw, const char *addr);
void kb_raw_drain(struct kb_raw *raw);
void kb_raw_close(struct kb_raw *raw);

#endif /* _KFI_BENCH_RAW_H_ */
