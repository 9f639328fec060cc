/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Switches between stacks.  The C library's swapcontext() would make a system
 * call each time.
 */
#ifndef PV_SWITCH_H
#define PV_SWITCH_H

/* Saves the running context's stack pointer in *from and goes on at to. */
void pv_switch(void **from, void *to);

/* Prepares a stack that ends at top so that a first switch to it calls entry(). */
void *pv_new_context(char *top, void (*entry)(void));

/* The frame pointer of a context that was left: sp is its stack pointer. */
void **pv_saved_frame(void *sp);

/* The end of the frame with this frame pointer, as debug information means it, or NULL. */
void *pv_end_of_frame(void **frame);

#endif
