// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Threads as the kernel sees them: their states, how they sleep and are woken, and
 * signals. A sleep is a point that is enabled while the state is TASK_RUNNING.
 */
#include <linux/sched/signal.h>

#include "shim.h"

static struct task_struct tasks[SHIM_TASKS];
static char state_names[SHIM_TASKS][32];

/* The scheduler's tracepoints, as far as a verdict on wake-ups needs them. */
struct sched_event {
	pid_t pid;
	u32 irq;
};

static const struct pv_field sched_fields[] = {
	{ "pid", offsetof(struct sched_event, pid), sizeof(pid_t), PV_SIGNED },
	{ "irq", offsetof(struct sched_event, irq), sizeof(u32), PV_UNSIGNED },
};

static const struct pv_event_type sched_switch = {
	"sched_switch", sizeof(struct sched_event), 2, sched_fields
};

static const struct pv_event_type sched_waking = {
	"sched_waking", sizeof(struct sched_event), 2, sched_fields
};

int shim_slot(void)
{
	const int self = pv_self();

	return self == PV_ALONE ? PV_MAX_THREADS : self;
}

struct task_struct *shim_current(void)
{
	return &tasks[shim_slot()];
}

static void task_name(struct task_struct *task, const char *name)
{
	strscpy(task->comm, name ? name : "", sizeof(task->comm));
}

static void task_name_state(int thread)
{
	snprintf(state_names[thread], sizeof(state_names[thread]), "state of %s",
		  pv_thread_name(thread));
	pv_name(&tasks[thread].__state, state_names[thread]);
}

void pv_on_setup(void)
{
	int i;

	for (i = 0; i < SHIM_TASKS; i++)
		tasks[i].pid = i + 1;
	for (i = 0; i < PV_MAX_THREADS && pv_thread_name(i); i++)
		task_name_state(i);
	task_name(&tasks[PV_MAX_THREADS], "setup");
}

/* No other thread reads these before this one sleeps, or is signalled. */
void pv_on_start(void)
{
	const int self = pv_self();
	struct task_struct *task = shim_current();

	task_name(task, pv_thread_name(self));
	if (pv_thread_flags(self) & PROVE_KTHREAD)
		task->flags = PF_KTHREAD;
}

/* An exchange, in one step: a store and then a full barrier. */
void shim_set_state(unsigned int state)
{
	struct task_struct *task = shim_current();

	pv_update(&task->__state, sizeof(task->__state), PV_FULL);
	task->__state = state;
	task->wanted = state;
}

void shim_set_state_relaxed(unsigned int state)
{
	struct task_struct *task = shim_current();

	task->wanted = state;
	pv_store(&task->__state, state, sizeof(task->__state), PV_RELAXED);
}

/* Whoever has woken it: in another execution nobody has. */
static bool set_running(void)
{
	return pv_self() == PV_ALONE || shim_current()->wanted == TASK_RUNNING;
}

/* As the kernel warns: a sleep would end what the thread has prepared. */
void shim_might_sleep(const char *what)
{
	pv_might_sleep(what);
	if (!set_running())
		pv_fail(PV_ATOMIC_SLEEP, "%s may sleep, and has not set itself running: %s",
			shim_current()->comm, what);
}

void pv_on_end(void)
{
	if (!set_running())
		pv_fail(PV_HELD_AT_END, "%s ends, and has not set itself running",
			shim_current()->comm);
}

static bool task_runs(void *arg)
{
	struct task_struct *task = arg;

	return task->__state == TASK_RUNNING;
}

static void task_event(const struct pv_event_type *type, const struct task_struct *task)
{
	const struct sched_event event = { .pid = task->pid, .irq = in_interrupt() };

	pv_event(type, &event);
}

/*
 * As in the kernel, a full barrier comes first, and a thread with a signal pending
 * that its state heeds does not sleep. A signal that comes later wakes it.
 */
void schedule(void)
{
	struct task_struct *task = shim_current();

	pv_might_sleep("schedule()");
	pv_fence(PV_FENCE_FULL);
	if (signal_pending_state(task->wanted, task))
		shim_set_state_relaxed(TASK_RUNNING);
	if (!task_runs(task))
		task_event(&sched_switch, task);
	pv_block(&task->__state, task_runs, task, "schedule()");
	task->wanted = TASK_RUNNING;
}

/* A full barrier, then the state: woken or not, as in try_to_wake_up(). */
int shim_try_to_wake_up(struct task_struct *task, unsigned int state)
{
	pv_update(&task->__state, sizeof(task->__state), PV_FULL);
	if (!(task->__state & state))
		return 0;
	task_event(&sched_waking, task);
	task->__state = TASK_RUNNING;
	return 1;
}

int wake_up_process(struct task_struct *task)
{
	return shim_try_to_wake_up(task, TASK_NORMAL);
}

int wake_up_state(struct task_struct *task, unsigned int state)
{
	return shim_try_to_wake_up(task, state);
}

/* A step like any other: what else may run may run before it. */
void yield(void)
{
	pv_hook("yield");
}

void shim_pause(const char *what)
{
	shim_might_sleep(what);
	pv_hook(what);
}

static bool thread_is_irq(void)
{
	const int self = pv_self();

	return self != PV_ALONE && (pv_thread_flags(self) & PROVE_IRQ);
}

bool in_task(void)
{
	return !thread_is_irq();
}

bool in_interrupt(void)
{
	return thread_is_irq();
}

bool in_atomic(void)
{
	return pv_in_atomic();
}

void shim_atomic_begin(void)
{
	pv_atomic(1);
}

void shim_atomic_end(void)
{
	pv_atomic(-1);
}

static void task_signal(int thread, int signal, unsigned int states)
{
	struct task_struct *task = &tasks[thread];

	pv_update(&task->signal, sizeof(task->signal), PV_FULL);
	if (task->signal < signal)
		task->signal = signal;
	shim_try_to_wake_up(task, states);
}

void prove_signal(int thread)
{
	task_signal(thread, 1, TASK_INTERRUPTIBLE);
}

void prove_kill(int thread)
{
	task_signal(thread, 2, TASK_INTERRUPTIBLE | TASK_WAKEKILL);
}

/* Does not wait for the thread's end, as kthread_stop() does. */
void prove_stop(int thread)
{
	struct task_struct *task = &tasks[thread];

	pv_update(&task->stop, sizeof(task->stop), PV_FULL);
	task->stop = 1;
	wake_up_process(task);
}
