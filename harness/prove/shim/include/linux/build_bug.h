/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_BUILD_BUG_H
#define PROVE_SHIM_LINUX_BUILD_BUG_H

#define static_assert(condition, ...)					\
	_Static_assert(condition, "" __VA_ARGS__)
#define BUILD_BUG_ON(condition)						\
	_Static_assert(!(condition), "BUILD_BUG_ON(" #condition ")")
#define BUILD_BUG_ON_MSG(condition, text)				\
	_Static_assert(!(condition), text)

#endif /* PROVE_SHIM_LINUX_BUILD_BUG_H */
