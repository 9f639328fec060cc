/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_COMPLETION_H
#define PROVE_SHIM_LINUX_COMPLETION_H

#include <linux/wait.h>

/* As in the kernel: a count under the lock of a wait queue. */
struct completion {
	unsigned int done;
	wait_queue_head_t wait;
};

#define COMPLETION_INITIALIZER(name)					\
	{ 0, __WAIT_QUEUE_HEAD_INITIALIZER((name).wait) }

static inline void init_completion(struct completion *c)
{
	c->done = 0;
	init_waitqueue_head(&c->wait);
}

static inline void reinit_completion(struct completion *c)
{
	c->done = 0;
}

void complete(struct completion *c);
void complete_all(struct completion *c);
void wait_for_completion(struct completion *c);
int wait_for_completion_interruptible(struct completion *c);
int wait_for_completion_killable(struct completion *c);
unsigned long wait_for_completion_timeout(struct completion *c, unsigned long ticks);
bool try_wait_for_completion(struct completion *c);
bool completion_done(struct completion *c);

#endif /* PROVE_SHIM_LINUX_COMPLETION_H */
