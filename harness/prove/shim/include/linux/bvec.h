/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_BVEC_H
#define PROVE_SHIM_LINUX_BVEC_H

#include <linux/types.h>

struct page;

struct bio_vec {
	struct page *bv_page;
	unsigned int bv_len;
	unsigned int bv_offset;
};

#endif /* PROVE_SHIM_LINUX_BVEC_H */
