/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_EXPORT_H
#define PROVE_SHIM_LINUX_EXPORT_H

#define EXPORT_SYMBOL(name)
#define EXPORT_SYMBOL_GPL(name)

#endif /* PROVE_SHIM_LINUX_EXPORT_H */
