/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_VMALLOC_H
#define PROVE_SHIM_LINUX_VMALLOC_H

#include <linux/slab.h>

#define __vmalloc(size, flags)		kmalloc(size, flags)
#define vmalloc(size)			kmalloc(size, 0)
#define vzalloc(size)			kzalloc(size, 0)
#define vfree(memory)			kfree(memory)

#endif /* PROVE_SHIM_LINUX_VMALLOC_H */
