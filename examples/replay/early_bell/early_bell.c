// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A bell that rings before the door is open.
 *
 * A guest waits at the door. The porter rings, and then opens. A guest that looks between the two
 * finds the door closed, and sleeps on: nobody rings again. On two CPUs the porter is nearly always
 * faster than the guest. On one CPU the guest runs first, if the kernel lets it.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/wait.h>

static unsigned int slept_too_long;
module_param(slept_too_long, uint, 0444);
MODULE_PARM_DESC(slept_too_long, "times that the guest slept before an open door");

static DECLARE_WAIT_QUEUE_HEAD(guests);
static bool door_is_open;

/*
 * A sleep that nobody ends is given up after a tenth of a second, and counted. noinline,
 * here and below: a replay can stop at the call.
 */
static noinline void bell_wait(void)
{
	DEFINE_WAIT(wait);

	prepare_to_wait(&guests, &wait, TASK_INTERRUPTIBLE);
	if (!READ_ONCE(door_is_open) && !schedule_timeout(HZ / 10) && READ_ONCE(door_is_open))
		slept_too_long++;
	finish_wait(&guests, &wait);
}

static noinline void bell_open(void)
{
	WRITE_ONCE(door_is_open, true);
}

static noinline void bell_close(void)
{
	WRITE_ONCE(door_is_open, false);
}

static noinline void bell_ring(void)
{
	wake_up(&guests);
	bell_open();
}

static int bell_porter(void *count)
{
	long i;

	for (i = 0; i < (long)count; i++) {
		while (READ_ONCE(door_is_open))
			usleep_range(20, 200);
		bell_ring();
	}
	return 0;
}

/* Let so many guests in; a thread rings for each. */
static int bell_play(const char *text, const struct kernel_param *kp)
{
	struct task_struct *porter;
	long count, i;
	int err = kstrtol(text, 0, &count);

	if (err)
		return err;
	slept_too_long = 0;
	porter = kthread_create(bell_porter, (void *)count, "bell_porter");
	if (IS_ERR(porter))
		return PTR_ERR(porter);
	get_task_struct(porter);
	wake_up_process(porter);
	for (i = 0; i < count; i++) {
		while (!READ_ONCE(door_is_open))
			bell_wait();
		bell_close();
	}
	/* It ends by itself; the module may be unloaded once it has. */
	kthread_stop(porter);
	put_task_struct(porter);
	return 0;
}

static const struct kernel_param_ops bell_play_ops = { .set = bell_play };
module_param_cb(play, &bell_play_ops, NULL, 0200);
MODULE_PARM_DESC(play, "how many guests are let in now");

MODULE_DESCRIPTION("A wake-up that comes too early");
MODULE_LICENSE("Dual BSD/GPL");
