/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_SLAB_H
#define PROVE_SHIM_LINUX_SLAB_H

#include <linux/gfp.h>
#include <linux/overflow.h>
#include <linux/rcupdate.h>
#include <linux/types.h>

/* Each may fail where the scenario permits; none depends on the size. */
void *kmalloc(size_t size, gfp_t flags);
void *kzalloc(size_t size, gfp_t flags);
void *kcalloc(size_t n, size_t size, gfp_t flags);
void *kmemdup(const void *from, size_t size, gfp_t flags);
char *kstrdup(const char *from, gfp_t flags);
void kfree(const void *memory);

#define kmalloc_array(n, size, flags)	kcalloc(n, size, flags)
#define kvmalloc(size, flags)		kmalloc(size, flags)
#define kvzalloc(size, flags)		kzalloc(size, flags)
#define kvcalloc(n, size, flags)	kcalloc(n, size, flags)
#define kvmalloc_array(n, size, flags)	kcalloc(n, size, flags)
#define kvfree(memory)			kfree(memory)
#define kfree_sensitive(memory)		kfree(memory)

#endif /* PROVE_SHIM_LINUX_SLAB_H */
