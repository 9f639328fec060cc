/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_MM_H
#define PROVE_SHIM_LINUX_MM_H

#include <linux/bits.h>
#include <linux/gfp.h>
#include <linux/types.h>

#define PAGE_SHIFT	12
#define PAGE_SIZE	BIT(PAGE_SHIFT)
#define PAGE_MASK	(~(PAGE_SIZE - 1))

struct page;

struct vm_area_struct {
	unsigned long vm_flags;
};

#endif /* PROVE_SHIM_LINUX_MM_H */
