/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A pipe of whole messages, whose readers sleep exclusively.
 */
#ifndef PIPE_H
#define PIPE_H

#include <linux/mutex.h>
#include <linux/wait.h>

/**
 * struct message_pipe - messages that were written and not read
 * @lock:	orders readers and writers
 * @used:	messages in the pipe; changes under @lock
 * @readers:	readers that sleep, each exclusively: one message wakes one
 */
struct message_pipe {
	struct mutex lock;	/* not held while a reader sleeps */
	unsigned int used;
	wait_queue_head_t readers;
};

void pipe_init(struct message_pipe *pipe);
void pipe_write(struct message_pipe *pipe);
int pipe_read(struct message_pipe *pipe);

#endif
