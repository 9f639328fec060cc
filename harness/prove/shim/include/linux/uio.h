/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_UIO_H
#define PROVE_SHIM_LINUX_UIO_H

#include <linux/types.h>

struct iov_iter;

struct kvec {
	void *iov_base;
	size_t iov_len;
};

#endif /* PROVE_SHIM_LINUX_UIO_H */
