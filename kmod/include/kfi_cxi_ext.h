/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Extensions of the cxi provider: operations tables for kfi_open_ops(), and the
 * layout of a KFI_ADDR_CXI address.
 *
 * Declared for source compatibility with kfabric 1.7: ULPs written for cxi
 * include this file for any provider. The fabrics and domains of the verbs provider
 * have both tables, and its RDM endpoints use the address. No other object, and no
 * other provider here, has a table of such a name: kfi_open_ops() is -KFI_ENOSYS.
 */
#ifndef _KFI_CXI_EXT_H_
#define _KFI_CXI_EXT_H_

#include <kfabric.h>

struct device;

#define KFI_CXI_FAB_OPS_1 "cxi_fab_ops_v1"
#define KFI_CXI_DOM_OPS_1 "cxi_dom_ops_v1"

/* Tables without a size member. The name contains the version. */
struct kfi_cxi_fabric_ops {
	/*
	 * Selects allocation of domain resources on demand. Verbs never reserves any:
	 * 0 for a fabric, whatever @enable is.
	 */
	int (*enable_dynamic_rsrc_alloc)(struct kfid *fid, bool enable);
};

struct kfi_cxi_domain_ops {
	/*
	 * Gets the device of a domain, for DMA mapping. That of verbs is none of the
	 * hardware's: it has a mask of 64 bits, no IOMMU and no NUMA node. What is
	 * mapped for it may be given to any call that takes a scatterlist. It stays
	 * while the domain is open.
	 */
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
