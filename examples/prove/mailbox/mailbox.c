// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A mailbox with one-shot notification: a message wakes the readers only if one of
 * them has armed the mailbox since the last wake-up.
 */
#include <linux/sched.h>

#include "mailbox.h"

void mailbox_init(struct mailbox *box)
{
	spin_lock_init(&box->lock);
	box->messages = 0;
	box->armed = false;
	init_waitqueue_head(&box->wait);
}

static void mailbox_store(struct mailbox *box)
{
	spin_lock(&box->lock);
	box->messages++;
	spin_unlock(&box->lock);
}

static void mailbox_notify(struct mailbox *box)
{
	bool armed;

	spin_lock(&box->lock);
	armed = box->armed;
	box->armed = false;
	spin_unlock(&box->lock);
	if (armed)
		wake_up_all(&box->wait);
}

/**
 * mailbox_post() - add one message
 * @box:	the mailbox
 *
 * Context: process.
 */
void mailbox_post(struct mailbox *box)
{
	mailbox_store(box);
	mailbox_notify(box);
}

static void mailbox_arm(struct mailbox *box)
{
	spin_lock(&box->lock);
	box->armed = true;
	spin_unlock(&box->lock);
}

static bool mailbox_try(struct mailbox *box)
{
	bool taken;

	spin_lock(&box->lock);
	taken = box->messages;
	if (taken)
		box->messages--;
	spin_unlock(&box->lock);
	return taken;
}

/**
 * mailbox_take() - take one message, and sleep until there is one
 * @box:	the mailbox
 *
 * Context: process; sleeps.
 */
void mailbox_take(struct mailbox *box)
{
	DECLARE_WAITQUEUE(wait, current);

	add_wait_queue(&box->wait, &wait);
	for (;;) {
		set_current_state(TASK_UNINTERRUPTIBLE);
		mailbox_arm(box);
		if (mailbox_try(box))
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	remove_wait_queue(&box->wait, &wait);
}
