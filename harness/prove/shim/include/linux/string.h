/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_STRING_H
#define PROVE_SHIM_LINUX_STRING_H

#include <string.h>

#include <linux/errno.h>
#include <linux/types.h>

/* The C library's are not compiled with checks: these check on their behalf. */
void *shim_memcpy(void *to, const void *from, size_t size);
void *shim_memmove(void *to, const void *from, size_t size);
void *shim_memset(void *to, int byte, size_t size);
int shim_memcmp(const void *a, const void *b, size_t size);
ssize_t strscpy(char *to, const char *from, size_t size);

#define memcpy(to, from, size)	shim_memcpy(to, from, size)
#define memmove(to, from, size)	shim_memmove(to, from, size)
#define memset(to, byte, size)	shim_memset(to, byte, size)
#define memcmp(a, b, size)	shim_memcmp(a, b, size)

#endif /* PROVE_SHIM_LINUX_STRING_H */
