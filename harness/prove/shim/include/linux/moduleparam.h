/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_MODULEPARAM_H
#define PROVE_SHIM_LINUX_MODULEPARAM_H

/*
 * A parameter keeps its default, unless a scenario's setup() writes the variable, which
 * is static: to others it is param_NAME.
 */
#define module_param(name, type, mode)					\
	extern __typeof__(name) param_##name __attribute__((alias(#name)))
#define module_param_named(name, variable, type, mode)
#define MODULE_PARM_DESC(name, text)

#endif /* PROVE_SHIM_LINUX_MODULEPARAM_H */
