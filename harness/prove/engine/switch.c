// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* The registers that a called function has to keep, saved on the stack that is left. */
#include <string.h>

#include "switch.h"

#if defined(__x86_64__)

#define SAVED_WORDS	7	/* six registers and the return address */
#define RETURN_WORD	6
#define FRAME_WORD	5	/* rbp */

__asm__(".text\n"
	".globl pv_switch\n"
	".type pv_switch, @function\n"
	"pv_switch:\n"
	"	pushq %rbp\n"
	"	pushq %rbx\n"
	"	pushq %r12\n"
	"	pushq %r13\n"
	"	pushq %r14\n"
	"	pushq %r15\n"
	"	movq %rsp, (%rdi)\n"
	"	movq %rsi, %rsp\n"
	"	popq %r15\n"
	"	popq %r14\n"
	"	popq %r13\n"
	"	popq %r12\n"
	"	popq %rbx\n"
	"	popq %rbp\n"
	"	ret\n"
	".size pv_switch, . - pv_switch\n");

#elif defined(__aarch64__)

#define SAVED_WORDS	20	/* x19 to x30, d8 to d15 */
#define RETURN_WORD	11	/* x30 */
#define FRAME_WORD	10	/* x29 */

__asm__(".text\n"
	".globl pv_switch\n"
	".type pv_switch, %function\n"
	"pv_switch:\n"
	"	sub sp, sp, #160\n"
	"	stp x19, x20, [sp]\n"
	"	stp x21, x22, [sp, #16]\n"
	"	stp x23, x24, [sp, #32]\n"
	"	stp x25, x26, [sp, #48]\n"
	"	stp x27, x28, [sp, #64]\n"
	"	stp x29, x30, [sp, #80]\n"
	"	stp d8, d9, [sp, #96]\n"
	"	stp d10, d11, [sp, #112]\n"
	"	stp d12, d13, [sp, #128]\n"
	"	stp d14, d15, [sp, #144]\n"
	"	mov x9, sp\n"
	"	str x9, [x0]\n"
	"	mov sp, x1\n"
	"	ldp x19, x20, [sp]\n"
	"	ldp x21, x22, [sp, #16]\n"
	"	ldp x23, x24, [sp, #32]\n"
	"	ldp x25, x26, [sp, #48]\n"
	"	ldp x27, x28, [sp, #64]\n"
	"	ldp x29, x30, [sp, #80]\n"
	"	ldp d8, d9, [sp, #96]\n"
	"	ldp d10, d11, [sp, #112]\n"
	"	ldp d12, d13, [sp, #128]\n"
	"	ldp d14, d15, [sp, #144]\n"
	"	add sp, sp, #160\n"
	"	ret\n"
	".size pv_switch, . - pv_switch\n");

#else
#error "no context switch is written for this processor"
#endif

/*
 * Above the saved registers lie zeros, which end walks of the stack.  entry() finds
 * its stack aligned as if it had been called.
 */
void *pv_new_context(char *top, void (*entry)(void))
{
	void **words = (void **)(top - 64) - SAVED_WORDS - SAVED_WORDS % 2;

	memset(words, 0, top - (char *)words);
	words[RETURN_WORD] = (void *)entry;
	return words;
}

void **pv_saved_frame(void *sp)
{
	return ((void **)sp)[FRAME_WORD];
}

void *pv_end_of_frame(void **frame)
{
#ifdef __x86_64__
	return frame + 2;
#else
	(void)frame;
	return NULL;		/* the frame pointer is at the other end */
#endif
}
