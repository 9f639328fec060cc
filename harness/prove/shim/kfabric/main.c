// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What stands for kmod/core/main.c: the tables of the tracepoints, and the queue of
 * handlers. There are no modules, and no provider is looked up by its name.
 */
#define CREATE_TRACE_POINTS
#include "core.h"

struct workqueue_struct *kfi_handler_wq;
