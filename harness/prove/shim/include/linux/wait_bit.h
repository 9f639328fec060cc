/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_WAIT_BIT_H
#define PROVE_SHIM_LINUX_WAIT_BIT_H

#include <linux/bitops.h>
#include <linux/wait.h>

int wait_on_bit(unsigned long *word, int bit, unsigned int mode);
int wait_on_bit_lock(unsigned long *word, int bit, unsigned int mode);
/* As in the kernel, without the barrier that has to stand before it. */
void wake_up_bit(void *word, int bit);

static inline void clear_and_wake_up_bit(int bit, unsigned long *word)
{
	clear_bit_unlock(bit, word);
	/* The bit is clear before the sleepers are looked for. */
	smp_mb__after_atomic();
	wake_up_bit(word, bit);
}

#endif /* PROVE_SHIM_LINUX_WAIT_BIT_H */
