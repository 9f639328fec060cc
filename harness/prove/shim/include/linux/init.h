/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_INIT_H
#define PROVE_SHIM_LINUX_INIT_H

#include <linux/compiler.h>

#endif /* PROVE_SHIM_LINUX_INIT_H */
