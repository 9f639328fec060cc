/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_VERSION_H
#define PROVE_SHIM_LINUX_VERSION_H

/* The oldest kernel that kfabric supports: compat.h then needs no newer call. */
#define KERNEL_VERSION(a, b, c)	(((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE	KERNEL_VERSION(6, 1, 0)

#endif /* PROVE_SHIM_LINUX_VERSION_H */
