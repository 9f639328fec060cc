// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Allocation, and the C library's functions on memory of the files under test.
 */
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "shim.h"

#undef memcpy
#undef memmove
#undef memset
#undef memcmp

static void *allocate(size_t size, gfp_t flags, const char *what, const void *caller)
{
	if (flags & __GFP_RECLAIM)
		shim_might_sleep(what);
	if (!(flags & __GFP_NOFAIL) && pv_may_fail(what))
		return NULL;
	return pv_alloc(size, flags & __GFP_ZERO, caller);
}

void *kmalloc(size_t size, gfp_t flags)
{
	return allocate(size, flags, "kmalloc()", CALLER);
}

void *kzalloc(size_t size, gfp_t flags)
{
	return allocate(size, flags | __GFP_ZERO, "kzalloc()", CALLER);
}

void *kcalloc(size_t n, size_t size, gfp_t flags)
{
	return allocate(size_mul(n, size), flags | __GFP_ZERO, "kcalloc()", CALLER);
}

void *kmemdup(const void *from, size_t size, gfp_t flags)
{
	void *to = allocate(size, flags, "kmemdup()", CALLER);

	return to ? shim_memcpy(to, from, size) : NULL;
}

char *kstrdup(const char *from, gfp_t flags)
{
	return from ? kmemdup(from, strlen(from) + 1, flags) : NULL;
}

void kfree(const void *memory)
{
	if (memory)
		pv_free((void *)memory);
}

void *shim_memcpy(void *to, const void *from, size_t size)
{
	pv_plain_read(from, size, CALLER);
	pv_plain_write(to, size, CALLER);
	return memcpy(to, from, size);
}

void *shim_memmove(void *to, const void *from, size_t size)
{
	pv_plain_read(from, size, CALLER);
	pv_plain_write(to, size, CALLER);
	return memmove(to, from, size);
}

void *shim_memset(void *to, int byte, size_t size)
{
	pv_plain_write(to, size, CALLER);
	return memset(to, byte, size);
}

int shim_memcmp(const void *a, const void *b, size_t size)
{
	pv_plain_read(a, size, CALLER);
	pv_plain_read(b, size, CALLER);
	return memcmp(a, b, size);
}

/* Return: the length, or -E2BIG if it was cut. */
ssize_t strscpy(char *to, const char *from, size_t size)
{
	const size_t length = strnlen(from, size);

	if (!size)
		return -E2BIG;
	if (length < size) {
		shim_memcpy(to, from, length + 1);
		return length;
	}
	shim_memcpy(to, from, size - 1);
	to[size - 1] = '\0';
	return -E2BIG;
}
