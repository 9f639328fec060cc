/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_SCHED_H
#define PROVE_SHIM_LINUX_SCHED_H

#include <linux/compiler.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/preempt.h>
#include <linux/rculist.h>
#include <linux/types.h>

#define TASK_RUNNING		0x0000
#define TASK_INTERRUPTIBLE	0x0001
#define TASK_UNINTERRUPTIBLE	0x0002
#define TASK_WAKEKILL		0x0100
#define TASK_NORMAL		(TASK_INTERRUPTIBLE | TASK_UNINTERRUPTIBLE)
#define TASK_KILLABLE		(TASK_WAKEKILL | TASK_UNINTERRUPTIBLE)
#define TASK_COMM_LEN		16
#define PF_KTHREAD		0x00200000
#define MAX_SCHEDULE_TIMEOUT	LONG_MAX

/**
 * struct task_struct - a thread of the exploration
 * @__state: TASK_*; what schedule() blocks on
 * @wanted: the state that the thread itself set last
 * @flags: PF_KTHREAD or 0; constant
 * @pid: its number in the scenario, counted from 1; constant
 * @comm: its name in the scenario; constant
 * @signal: 0, 1 a signal, 2 SIGKILL is pending
 * @stop: kthread_stop() was called
 */
struct task_struct {
	unsigned int __state;
	unsigned int wanted;
	unsigned int flags;
	pid_t pid;
	char comm[TASK_COMM_LEN];
	int signal;
	int stop;
};

struct task_struct *shim_current(void);

#define current			shim_current()

/* As in the kernel, the first has a full barrier and the second has none. */
void shim_set_state(unsigned int state);
void shim_set_state_relaxed(unsigned int state);

#define set_current_state(state)	shim_set_state(state)
#define __set_current_state(state)	shim_set_state_relaxed(state)
#define task_is_running(task)		(READ_ONCE((task)->__state) == TASK_RUNNING)

void schedule(void);
#define io_schedule()		schedule()
long schedule_timeout(long ticks);
long schedule_timeout_interruptible(long ticks);
long schedule_timeout_uninterruptible(long ticks);
void yield(void);
int wake_up_process(struct task_struct *task);
int wake_up_state(struct task_struct *task, unsigned int state);
int shim_try_to_wake_up(struct task_struct *task, unsigned int state);

#define might_sleep()		shim_might_sleep("might_sleep()")
void shim_might_sleep(const char *what);

/* Each gives other threads the chance that every step gives them. */
#define cond_resched()		might_sleep()
#define cpu_relax()		yield()

static inline pid_t task_pid_nr(const struct task_struct *task)
{
	return task->pid;
}

/* One process has all threads. */
static inline pid_t task_tgid_nr(const struct task_struct *task)
{
	return 1;
}

#define get_task_comm(to, task)						\
	__builtin_memcpy(to, (task)->comm, TASK_COMM_LEN)

#endif /* PROVE_SHIM_LINUX_SCHED_H */
