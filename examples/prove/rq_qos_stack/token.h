/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A single token that its holder hands to the thread that waits for it.
 */
#ifndef TOKEN_H
#define TOKEN_H

#include <linux/atomic.h>
#include <linux/wait.h>

/**
 * struct token - one token, which at most one thread has
 * @free:	nobody has it
 * @wait:	threads that sleep until they get it
 */
struct token {
	atomic_t free;
	wait_queue_head_t wait;
};

void token_init(struct token *token);
void token_get(struct token *token);
void token_put(struct token *token);

#endif
