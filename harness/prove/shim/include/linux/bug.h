/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_BUG_H
#define PROVE_SHIM_LINUX_BUG_H

#include <linux/build_bug.h>
#include <linux/compiler.h>

/* Each is a finding at once: no later step of that execution is of interest. */
void shim_warn(const char *condition);
void shim_bug(const char *condition);

#define WARN_ON(condition) ({						\
	bool __warned = !!(condition);					\
	if (unlikely(__warned))						\
		shim_warn("WARN_ON(" #condition ")");			\
	unlikely(__warned); })
#define WARN_ON_ONCE(condition)		WARN_ON(condition)
#define WARN(condition, ...)		WARN_ON(condition)
#define WARN_ONCE(condition, ...)	WARN_ON(condition)
#define BUG()				shim_bug("BUG()")
#define BUG_ON(condition)						\
	do {								\
		if (unlikely(condition))				\
			shim_bug("BUG_ON(" #condition ")");		\
	} while (0)

#endif /* PROVE_SHIM_LINUX_BUG_H */
