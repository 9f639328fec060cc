/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Extensions of the cxi provider: operations tables that kfi_open_ops() gives,
 * and the layout of a KFI_ADDR_CXI address. Consumers written for cxi include
 * this file whatever the provider; others answer -KFI_ENOSYS to the names.
 */
#ifndef _KFI_CXI_EXT_H_
#define _KFI_CXI_EXT_H_

#include <kfabric.h>

struct device;

#define KFI_CXI_FAB_OPS_1 "cxi_fab_ops_v1"
#define KFI_CXI_DOM_OPS_1 "cxi_dom_ops_v1"

/* Tables without a size: the version is in the name. */
struct kfi_cxi_fabric_ops {
	/* Allocate what domains need as they need it. */
	int (*enable_dynamic_rsrc_alloc)(struct kfid *fid, bool enable);
};

struct kfi_cxi_domain_ops {
	/* The device behind a domain, for DMA mapping. */
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
