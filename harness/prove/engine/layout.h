/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Where threads' stacks and the heap are: fixed addresses, so that an execution
 * is the same whenever it is played.
 */
#ifndef PV_LAYOUT_H
#define PV_LAYOUT_H

#define SPAN_START	0x100000000000UL
#define STACKS_START	SPAN_START
#define STACKS_SIZE	(PV_MAX_THREADS * STACK_SIZE)
#define HEAP_START	(SPAN_START + (16UL << 20))
#define HEAP_REGION	(1UL << 20)
#define HEAP_SIZE	(HEAP_REGION * (PV_MAX_THREADS + 1))
#define SPAN_END	(HEAP_START + HEAP_SIZE)

#endif
