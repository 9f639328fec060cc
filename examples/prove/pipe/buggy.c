// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A pipe of whole messages. Readers sleep exclusively, so that a message does not
 * wake a crowd: one write wakes one reader.
 */
#include <linux/errno.h>
#include <linux/sched/signal.h>

#include "pipe.h"

void pipe_init(struct message_pipe *pipe)
{
	mutex_init(&pipe->lock);
	pipe->used = 0;
	init_waitqueue_head(&pipe->readers);
}

/**
 * pipe_write() - add one message
 * @pipe:	the pipe
 *
 * Context: process; may sleep.
 */
void pipe_write(struct message_pipe *pipe)
{
	mutex_lock(&pipe->lock);
	WRITE_ONCE(pipe->used, pipe->used + 1);
	mutex_unlock(&pipe->lock);
	wake_up_interruptible(&pipe->readers);
}

static bool pipe_take(struct message_pipe *pipe)
{
	bool taken;

	mutex_lock(&pipe->lock);
	taken = pipe->used;
	if (taken)
		WRITE_ONCE(pipe->used, pipe->used - 1);
	mutex_unlock(&pipe->lock);
	return taken;
}

/**
 * pipe_read() - take one message, and sleep until there is one
 * @pipe:	the pipe
 *
 * Context: process; sleeps.
 * Return: 0, or -ERESTARTSYS on a signal.
 */
int pipe_read(struct message_pipe *pipe)
{
	DEFINE_WAIT(wait);

	while (!pipe_take(pipe)) {
		prepare_to_wait_exclusive(&pipe->readers, &wait, TASK_INTERRUPTIBLE);
		if (!READ_ONCE(pipe->used) && !signal_pending(current))
			schedule();
		finish_wait(&pipe->readers, &wait);
		/* The bug: the write that woke this reader woke nobody else. */
		if (signal_pending(current))
			return -ERESTARTSYS;
	}
	return 0;
}
