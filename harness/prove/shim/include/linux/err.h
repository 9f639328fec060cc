/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_ERR_H
#define PROVE_SHIM_LINUX_ERR_H

#include <linux/compiler.h>
#include <linux/errno.h>
#include <linux/types.h>

#define MAX_ERRNO	4095

static inline void *ERR_PTR(long error)
{
	return (void *)error;
}

static inline long PTR_ERR(const void *pointer)
{
	return (long)pointer;
}

static inline bool IS_ERR(const void *pointer)
{
	return (unsigned long)pointer >= (unsigned long)-MAX_ERRNO;
}

static inline bool IS_ERR_OR_NULL(const void *pointer)
{
	return !pointer || IS_ERR(pointer);
}

static inline void *ERR_CAST(const void *pointer)
{
	return (void *)pointer;
}

static inline int PTR_ERR_OR_ZERO(const void *pointer)
{
	return IS_ERR(pointer) ? PTR_ERR(pointer) : 0;
}

#endif /* PROVE_SHIM_LINUX_ERR_H */
