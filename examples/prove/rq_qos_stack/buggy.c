// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * One token. The thread that puts it back takes it again for the first sleeper
 * and marks that sleeper, so that no third thread comes between.
 */
#include <linux/sched.h>

#include "token.h"

/**
 * struct token_waiter - a thread that sleeps, on its own stack
 * @entry:	in the token's queue
 * @task:	the thread
 * @token:	what it waits for
 * @granted:	it has the token
 */
struct token_waiter {
	struct wait_queue_entry entry;
	struct task_struct *task;
	struct token *token;
	bool granted;
};

void token_init(struct token *token)
{
	atomic_set(&token->free, 1);
	init_waitqueue_head(&token->wait);
}

static bool token_take(struct token *token)
{
	return atomic_cmpxchg(&token->free, 1, 0) == 1;
}

/*
 * The bug: the waiter may look at any time, without a wake-up. If it does so after the
 * removal, it returns, and waiter->task is read from a stack frame that is gone.
 */
static int token_grant(struct wait_queue_entry *entry, unsigned int mode, int sync, void *key)
{
	struct token_waiter *waiter = container_of(entry, struct token_waiter, entry);

	if (!token_take(waiter->token))
		return -1;
	WRITE_ONCE(waiter->granted, true);
	list_del_init_careful(&entry->entry);
	wake_up_process(waiter->task);
	return 1;
}

/**
 * token_put() - give the token back, or to the first sleeper
 * @token:	the token, which the caller has
 *
 * Context: any.
 */
void token_put(struct token *token)
{
	atomic_inc(&token->free);
	if (wq_has_sleeper(&token->wait))
		wake_up(&token->wait);
}

/**
 * token_get() - take the token, once it is free
 * @token:	the token
 *
 * Context: process; sleeps.
 */
void token_get(struct token *token)
{
	struct token_waiter waiter = { .task = current, .token = token };

	init_wait(&waiter.entry);
	waiter.entry.func = token_grant;
	for (;;) {
		prepare_to_wait_exclusive(&token->wait, &waiter.entry, TASK_UNINTERRUPTIBLE);
		if (READ_ONCE(waiter.granted) || token_take(token))
			break;
		schedule();
	}
	finish_wait(&token->wait, &waiter.entry);
}
