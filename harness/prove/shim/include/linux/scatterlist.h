/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_SCATTERLIST_H
#define PROVE_SHIM_LINUX_SCATTERLIST_H

#include <linux/types.h>

struct scatterlist;

#endif /* PROVE_SHIM_LINUX_SCATTERLIST_H */
