// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A box for one letter: a reader that sleeps until there is one, and a writer that wakes it.
 * The reader looks into the box and then joins the queue. A letter that comes in between wakes
 * nobody. With careful=1 it joins the queue first.
 *
 * docs/schedule.md finds the bug.
 */
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/wait.h>

static bool careful;
module_param(careful, bool, 0644);
MODULE_PARM_DESC(careful, "join the queue before looking");

static unsigned int slept_too_long;
module_param(slept_too_long, uint, 0444);
MODULE_PARM_DESC(slept_too_long, "times that the reader slept beside a letter");

static DECLARE_WAIT_QUEUE_HEAD(reader_queue);
static bool letter;

/* A sleep that nobody ends is given up after a tenth of a second, and counted. */
static void mail_sleep(void)
{
	if (!schedule_timeout(HZ / 10) && READ_ONCE(letter))
		slept_too_long++;
}

static void mail_wait(void)
{
	DEFINE_WAIT(wait);

	if (!careful && READ_ONCE(letter))
		return;
	prepare_to_wait(&reader_queue, &wait, TASK_INTERRUPTIBLE);
	if (!careful || !READ_ONCE(letter))
		mail_sleep();
	finish_wait(&reader_queue, &wait);
}

/* noinline, here and below: the verdict sees the calls, see wakeups.toml. */
static noinline void mail_put(void)
{
	WRITE_ONCE(letter, true);
}

static noinline void mail_take(void)
{
	WRITE_ONCE(letter, false);
}

static int mail_write(void *count)
{
	long i;

	for (i = 0; i < (long)count; i++) {
		while (READ_ONCE(letter))
			usleep_range(20, 200);
		mail_put();
		wake_up(&reader_queue);
	}
	return 0;
}

/* Read so many letters; a thread writes them. */
static int mail_play(const char *text, const struct kernel_param *kp)
{
	struct task_struct *writer;
	long count, i;
	int err = kstrtol(text, 0, &count);

	if (err)
		return err;
	slept_too_long = 0;
	writer = kthread_create(mail_write, (void *)count, "mail_writer");
	if (IS_ERR(writer))
		return PTR_ERR(writer);
	get_task_struct(writer);
	wake_up_process(writer);
	for (i = 0; i < count; i++) {
		while (!READ_ONCE(letter))
			mail_wait();
		mail_take();
	}
	/* It ends by itself; the module may be unloaded once it has. */
	kthread_stop(writer);
	put_task_struct(writer);
	return 0;
}

static const struct kernel_param_ops mail_play_ops = { .set = mail_play };
module_param_cb(play, &mail_play_ops, NULL, 0200);
MODULE_PARM_DESC(play, "how many letters are written and read now");

MODULE_DESCRIPTION("A lost wake-up");
MODULE_LICENSE("Dual BSD/GPL");
