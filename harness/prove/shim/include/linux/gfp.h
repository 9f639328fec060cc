/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_GFP_H
#define PROVE_SHIM_LINUX_GFP_H

/* GFP_KERNEL sleeps, and is checked for that; both kinds may fail. */
#define __GFP_RECLAIM		0x01u
#define __GFP_ZERO		0x02u
#define __GFP_NOWARN		0x04u
#define __GFP_ACCOUNT		0x08u
#define __GFP_NOFAIL		0x10u
#define __GFP_HIGH		0x20u
#define __GFP_NORETRY		0x40u
#define GFP_KERNEL		__GFP_RECLAIM
#define GFP_KERNEL_ACCOUNT	(GFP_KERNEL | __GFP_ACCOUNT)
#define GFP_ATOMIC		__GFP_HIGH
#define GFP_NOWAIT		0u

#endif /* PROVE_SHIM_LINUX_GFP_H */
