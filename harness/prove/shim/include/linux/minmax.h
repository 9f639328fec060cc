/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_MINMAX_H
#define PROVE_SHIM_LINUX_MINMAX_H

#include <linux/kernel.h>

#endif /* PROVE_SHIM_LINUX_MINMAX_H */
