/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Values of kfi_cq_err_entry.prov_errno that ULPs of the verbs provider may rely on.
 * kfi_cq_strerror() has a text for any value.
 */
#ifndef _KFI_VERBS_EXT_H_
#define _KFI_VERBS_EXT_H_

enum kfi_verbs_prov_errno {
	/*
	 * With EREMOTEIO: no receive was posted in time, for tagged RMA or, with the
	 * module parameter rdm_keep=N, for a message.
	 */
	KFI_VERBS_ERR_NO_RECEIVE = 1006,
};

#endif /* _KFI_VERBS_EXT_H_ */
