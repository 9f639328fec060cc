/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Extensions of the cxi provider: operations tables for kfi_open_ops(), and the
 * layout of a KFI_ADDR_CXI address.
 *
 * Declared for source compatibility with kfabric 1.7: ULPs written for cxi
 * include this file for any provider. No provider here implements the tables:
 * kfi_open_ops() with their names fails. The RDM endpoints of the verbs provider
 * do use the address.
 */
#ifndef _KFI_CXI_EXT_H_
#define _KFI_CXI_EXT_H_

#include <kfabric.h>

struct device;

#define KFI_CXI_FAB_OPS_1 "cxi_fab_ops_v1"
#define KFI_CXI_DOM_OPS_1 "cxi_dom_ops_v1"

/* Tables without a size member. The name contains the version. */
struct kfi_cxi_fabric_ops {
	/* Selects allocation of domain resources on demand. */
	int (*enable_dynamic_rsrc_alloc)(struct kfid *fid, bool enable);
};

struct kfi_cxi_domain_ops {
	/* Gets the device of a domain, for DMA mapping. */
	int (*get_device)(struct kfid *fid, struct device **device);
};

struct kcxi_addr {
	union {
		struct {
			uint64_t pid:12;
			uint64_t nic:20;
			uint64_t flags:10;
		};
		uint64_t qw;
	};
};

#endif /* _KFI_CXI_EXT_H_ */
