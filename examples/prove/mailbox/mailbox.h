/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A mailbox: messages are posted, readers take one each and sleep for it.
 */
#ifndef MAILBOX_H
#define MAILBOX_H

#include <linux/spinlock.h>
#include <linux/wait.h>

/**
 * struct mailbox - messages that nobody took yet
 * @lock:	guards @messages and @armed
 * @messages:	their number
 * @armed:	a reader wants to be woken by the next message
 * @wait:	the readers that sleep
 */
struct mailbox {
	spinlock_t lock;	/* not held while a thread is woken */
	unsigned int messages;
	bool armed;
	wait_queue_head_t wait;
};

void mailbox_init(struct mailbox *box);
void mailbox_post(struct mailbox *box);
void mailbox_take(struct mailbox *box);

#endif
