/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_RDMA_IB_VERBS_H
#define PROVE_SHIM_RDMA_IB_VERBS_H

#include <linux/types.h>

/* compat.h needs these two names; the core has nothing of RDMA. */
enum rdma_driver_id {
	RDMA_DRIVER_RXE = 13,
};

struct ib_device_ops {
	enum rdma_driver_id driver_id;
};

struct ib_device {
	struct ib_device_ops ops;
};

#endif /* PROVE_SHIM_RDMA_IB_VERBS_H */
