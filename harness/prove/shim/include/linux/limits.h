/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_LIMITS_H
#define PROVE_SHIM_LINUX_LIMITS_H

/* The C library's <limits.h> includes this file, too. */
#define NAME_MAX	255
#define PATH_MAX	4096

#define U8_MAX		((u8)~0U)
#define S8_MAX		((s8)(U8_MAX >> 1))
#define U16_MAX		((u16)~0U)
#define S16_MAX		((s16)(U16_MAX >> 1))
#define U32_MAX		((u32)~0U)
#define S32_MAX		((s32)(U32_MAX >> 1))
#define U64_MAX		((u64)~0ULL)
#define S64_MAX		((s64)(U64_MAX >> 1))

#endif /* PROVE_SHIM_LINUX_LIMITS_H */
