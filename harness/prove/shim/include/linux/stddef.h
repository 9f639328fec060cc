/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_STDDEF_H
#define PROVE_SHIM_LINUX_STDDEF_H

#include <stddef.h>

#define sizeof_field(type, member)	sizeof(((type *)0)->member)
#define offsetofend(type, member)					\
	(offsetof(type, member) + sizeof_field(type, member))
#define struct_group(name, ...)						\
	union {								\
		struct { __VA_ARGS__ };					\
		struct { __VA_ARGS__ } name;				\
	}
#define DECLARE_FLEX_ARRAY(type, name)					\
	struct {							\
		struct { } __empty_ ## name;				\
		type name[];						\
	}

#endif /* PROVE_SHIM_LINUX_STDDEF_H */
