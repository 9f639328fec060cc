/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_ERRNO_H
#define PROVE_SHIM_LINUX_ERRNO_H

/* The C library's <errno.h> includes this file for its numbers, too. */
#include <asm/errno.h>

/* The kernel's own, which user space does not have. */
#define ERESTARTSYS	512
#define ERESTARTNOINTR	513
#define ERESTARTNOHAND	514
#define ENOIOCTLCMD	515
#define EPROBE_DEFER	517
#define ENOTSUPP	524

#endif /* PROVE_SHIM_LINUX_ERRNO_H */
