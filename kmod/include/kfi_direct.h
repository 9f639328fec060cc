/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Compile-time limits for KFABRIC_DIRECT, a build against a single provider.
 *
 * Declared for source compatibility with kfabric 1.7. No provider here supports
 * KFABRIC_DIRECT, and the other kfi_direct_*.h headers that it needs do not
 * exist here.
 */
#ifndef _KFI_DIRECT_H_
#define _KFI_DIRECT_H_

enum kfi_fxr_static_limits {		/* bytes */
	KFI_FXR_MAX_MSG_SIZE		= 1ULL << 30,
	KFI_FXR_INJECT_SIZE		= 1ULL << 3,
	KFI_FXR_TOTAL_BUFFERED_RECV	= 1ULL << 30,
	KFI_FXR_MAX_ORDER_RAW_SIZE	= 1ULL << 13,
	KFI_FXR_MAX_ORDER_WAR_SIZE	= 1ULL << 13,
	KFI_FXR_MAX_ORDER_WAW_SIZE	= 1ULL << 13,
	KFI_FXR_MR_KEY_SIZE		= 1ULL << 3,
	KFI_FXR_CQ_DATA_SIZE		= 1ULL << 3
};

#endif /* _KFI_DIRECT_H_ */
