/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_POLL_H
#define PROVE_SHIM_LINUX_POLL_H

#include <linux/fs.h>
#include <linux/wait.h>

#define EPOLLIN		0x0001u
#define EPOLLPRI	0x0002u
#define EPOLLOUT	0x0004u
#define EPOLLERR	0x0008u
#define EPOLLHUP	0x0010u
#define EPOLLRDNORM	0x0040u
#define EPOLLRDBAND	0x0080u
#define EPOLLWRNORM	0x0100u

struct poll_table_struct;

typedef void (*poll_queue_proc)(struct file *file, wait_queue_head_t *wq,
				struct poll_table_struct *table);

typedef struct poll_table_struct {
	poll_queue_proc _qproc;
	__poll_t _key;
} poll_table;

static inline void init_poll_funcptr(poll_table *table, poll_queue_proc proc)
{
	table->_qproc = proc;
	table->_key = ~0u;
}

/* The barrier pairs with wq_has_sleeper(), as in the kernel. */
static inline void poll_wait(struct file *file, wait_queue_head_t *wq,
			     poll_table *table)
{
	if (!table || !table->_qproc || !wq)
		return;
	table->_qproc(file, wq, table);
	smp_mb();
}

#endif /* PROVE_SHIM_LINUX_POLL_H */
