// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Runs the gallery's entries. Reading a file runs its entry:
 *
 *   /sys/kernel/debug/gallery/buggy/NAME	the entry with its bug
 *   /sys/kernel/debug/gallery/fixed/NAME	the entry without it
 *   /sys/kernel/debug/gallery/healthy/NAME	many rounds of wake-ups
 *   /sys/kernel/debug/gallery/unstepped-buggy/NAME	many rounds of a race
 *   /sys/kernel/debug/gallery/unstepped-fixed/NAME	the same without its bug
 *
 * The text: "begin NS" and "end NS" (of CLOCK_MONOTONIC), "judged NS" for the moment
 * of gallery_judge(), and for each thread "thread NAME TID RESULT"; "stuck" if the
 * stepping failed. Of an unstepped run: "rounds N missed N", see gallery_timed_out().
 */
#include <linux/debugfs.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/delay.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#include "gallery.h"

/* Limit of a step; a run with a longer one proves nothing. */
#define STEP_LIMIT	(2 * HZ)
/* How often it is asked whether the threads have ended. */
#define STEPPED_US		20000
#define UNSTEPPED_US		100

bool gallery_fixed, gallery_unstepped;
uint gallery_patience_ms = 250;
module_param_named(patience_ms, gallery_patience_ms, uint, 0444);
MODULE_PARM_DESC(patience_ms, "timeout of a sleep; raise it if the host is slow");
uint gallery_rounds = 1000;
module_param_named(rounds, gallery_rounds, uint, 0644);
MODULE_PARM_DESC(rounds, "wake-ups of one healthy run, rounds of an unstepped run");

static struct dentry *gallery_dir;
/* Serializes runs; protects all state of a run below. */
static DEFINE_MUTEX(gallery_mutex);
static struct task_struct *gallery_tasks[GALLERY_ROLES];
static int gallery_results[GALLERY_ROLES];
static atomic_t gallery_alive;
static atomic_t gallery_steps;	/* a bit for each, and one for the beginning */
static bool gallery_stuck;
static bool gallery_waker_ended, gallery_missed;
static unsigned long gallery_waker_end;	/* in jiffies */
static u64 gallery_judged;	/* when; or 0 */

static DEFINE_SPINLOCK(gallery_lock);
static int gallery_items;	/* protected by gallery_lock */

static const struct gallery_entry *const gallery_entries[] = {
	&gallery_check_then_enqueue, &gallery_clear_after_check,
	&gallery_mix_up, &gallery_waitqueue_active,
	&gallery_wake_before_publish, &gallery_baton_signal,
	&gallery_baton_timeout, &gallery_one_wake_for_two,
	&gallery_wrong_queue, &gallery_wrong_waiter, &gallery_herd,
	&gallery_not_rearmed, &gallery_missed_report, &gallery_spurious,
	&gallery_late, &gallery_timer, &gallery_never_ran,
	&gallery_both_sleep, &gallery_second_queue, &gallery_late_state,
	&gallery_woken_twice, &gallery_moved_on, &gallery_emptied_queue,
	&gallery_stale_batch, &gallery_throttle, &gallery_last_close,
	&gallery_old_threshold, &gallery_half_condition,
	&gallery_mutex_kept, &gallery_mutex_exit, &gallery_rwsem_kept,
	&gallery_rt_mutex_kept, &gallery_reader_writer_reader,
	&gallery_lock_order,
	&gallery_swait_early, &gallery_bit_not_woken, &gallery_wrong_variable,
	&gallery_folio_late, &gallery_work_blocked, &gallery_timer_deleted,
	&gallery_stop_ignored, &gallery_park_ignored, &gallery_long_reader,
	&gallery_wake_then_store, &gallery_wrong_state, &gallery_reinit,
};

noinline void gallery_publish(void)
{
	gallery_store();
}

noinline void gallery_store(void)
{
	unsigned long flags;

	spin_lock_irqsave(&gallery_lock, flags);
	gallery_items++;
	spin_unlock_irqrestore(&gallery_lock, flags);
}

/* Only called if there is an item, so that each call takes one. */
noinline void gallery_take(void)
{
	lockdep_assert_held(&gallery_lock);
	gallery_items--;
}

bool gallery_ready(void)
{
	return READ_ONCE(gallery_items) > 0;
}

bool gallery_consume(void)
{
	unsigned long flags;
	bool there;

	spin_lock_irqsave(&gallery_lock, flags);
	there = gallery_items > 0;
	if (there)
		gallery_take();
	spin_unlock_irqrestore(&gallery_lock, flags);
	return there;
}

int gallery_wait(struct wait_queue_head *queue, bool exclusive, long patience)
{
	DEFINE_WAIT(wait);
	int ret;

	for (;;) {
		if (exclusive)
			prepare_to_wait_exclusive(queue, &wait,
						  TASK_INTERRUPTIBLE);
		else
			prepare_to_wait(queue, &wait, TASK_INTERRUPTIBLE);
		ret = gallery_consume() ? 1 : -ETIMEDOUT;
		if (ret == 1 || !patience)
			break;
		patience = gallery_sleep(patience);
	}
	finish_wait(queue, &wait);
	return ret;
}

int gallery_swait(struct swait_queue_head *queue, long patience)
{
	return swait_event_interruptible_timeout_exclusive(*queue,
				gallery_consume(), patience) > 0 ? 1 :
								   -ETIMEDOUT;
}

void gallery_reach(int step)
{
	/* Pairs with gallery_follow(). Unstepped, a later step may come first. */
	atomic_fetch_or_release(BIT(step), &gallery_steps);
}

/* Once one thread is stuck, the others stop waiting, too. */
bool gallery_too_late(unsigned long limit)
{
	if (time_after(jiffies, limit))
		WRITE_ONCE(gallery_stuck, true);
	cpu_relax();
	cond_resched();
	return READ_ONCE(gallery_stuck);
}

void gallery_follow(int step)
{
	unsigned long limit = jiffies + STEP_LIMIT;

	/* Pairs with gallery_reach(). */
	while (atomic_read_acquire(&gallery_steps) < BIT(step))
		if (gallery_too_late(limit))
			return;
}

void gallery_await(int step)
{
	if (!gallery_unstepped)
		gallery_follow(step);
}

void gallery_timed_out(unsigned long deadline)
{
	/* Pairs with gallery_thread(). */
	if (gallery_ready() && smp_load_acquire(&gallery_waker_ended) &&
	    time_before(gallery_waker_end + GALLERY_PATIENCE / 2, deadline))
		WRITE_ONCE(gallery_missed, true);
}

void gallery_judge(void)
{
	gallery_judged = ktime_get_ns();
}

struct task_struct *gallery_task(int role)
{
	return gallery_tasks[role];
}

/*
 * A thread that was preempted after it had set its state is off its CPU as well,
 * but on a run queue: it has not gone to sleep.
 */
static bool gallery_off(struct task_struct *task)
{
	return !READ_ONCE(task->on_rq) && !READ_ONCE(task->on_cpu);
}

static bool gallery_sleeps_in(struct task_struct *task, uint state)
{
	return READ_ONCE(task->__state) == state && gallery_off(task);
}

/* True if the thread sleeps and has begun its body. */
bool gallery_asleep(struct task_struct *task)
{
	return gallery_sleeps_in(task, TASK_INTERRUPTIBLE);
}

void gallery_await_state(int role, uint state)
{
	unsigned long limit = jiffies + STEP_LIMIT;

	while (!gallery_unstepped && !gallery_sleeps_in(gallery_tasks[role], state))
		if (gallery_too_late(limit))
			return;
}

void gallery_await_asleep(int role)
{
	gallery_await_state(role, TASK_INTERRUPTIBLE);
}

/* Asleep in a wait that a signal can end; no thread is before its body. */
static bool gallery_blocked(struct task_struct *task)
{
	return READ_ONCE(task->__state) & (TASK_INTERRUPTIBLE | TASK_WAKEKILL) &&
	       gallery_off(task);
}

void gallery_await_blocked(int role)
{
	unsigned long limit = jiffies + STEP_LIMIT;

	while (!gallery_blocked(gallery_tasks[role]) &&
	       !gallery_too_late(limit))
		msleep(20);
}

int gallery_interrupt(int role, int signal)
{
	if (gallery_fixed)
		return 0;
	gallery_await_blocked(role);
	msleep(jiffies_to_msecs(GALLERY_PATIENCE));
	return send_sig(signal, gallery_tasks[role], 0);
}

void gallery_await_sleep(int role)
{
	struct task_struct *task = gallery_tasks[role];
	unsigned long limit = jiffies + STEP_LIMIT;

	while (READ_ONCE(task->__state) == TASK_RUNNING || !gallery_off(task))
		if (gallery_too_late(limit))
			return;
}

static int gallery_thread(void *data)
{
	const struct gallery_role *role = data;
	int at = 0;

	while (gallery_tasks[at] != current)
		at++;
	gallery_results[at] = role->body();
	if (at == WAKER) {
		gallery_waker_end = jiffies;
		/* Pairs with gallery_timed_out(). */
		smp_store_release(&gallery_waker_ended, true);
	}
	atomic_dec(&gallery_alive);
	return 0;
}

static int gallery_create(const struct gallery_entry *entry)
{
	struct task_struct *task;
	int i;

	for (i = 0; i < GALLERY_ROLES; i++) {
		if (!entry->roles[i].body)
			continue;
		task = kthread_create(gallery_thread,
				      (void *)&entry->roles[i], "%s",
				      entry->roles[i].name);
		if (IS_ERR(task))
			return PTR_ERR(task);
		gallery_tasks[i] = get_task_struct(task);
		atomic_inc(&gallery_alive);
	}
	return 0;
}

/* A thread that has not begun ends here without running its body. */
static void gallery_join(void)
{
	int i;

	for (i = 0; i < GALLERY_ROLES; i++) {
		if (!gallery_tasks[i])
			continue;
		kthread_stop(gallery_tasks[i]);
		put_task_struct(gallery_tasks[i]);
		gallery_tasks[i] = NULL;
	}
}

static void gallery_show_results(struct seq_file *seq,
				 const struct gallery_entry *entry)
{
	int i;

	for (i = 0; i < GALLERY_ROLES; i++)
		if (gallery_tasks[i])
			seq_printf(seq, "thread %s %d %d\n",
				   entry->roles[i].name,
				   task_pid_nr(gallery_tasks[i]),
				   gallery_results[i]);
}

/* Creates the threads of an entry, which do not run yet. */
static int gallery_begin(const struct gallery_entry *entry, bool fixed)
{
	gallery_fixed = fixed;
	gallery_items = 0;
	atomic_set(&gallery_steps, BIT(0));
	gallery_stuck = false;
	gallery_waker_ended = false;
	gallery_missed = false;
	gallery_judged = 0;
	atomic_set(&gallery_alive, 0);
	return gallery_create(entry);
}

/* Runs them to their ends. */
static void gallery_play(unsigned long us)
{
	int i;

	for (i = 0; i < GALLERY_ROLES; i++)
		if (gallery_tasks[i])
			wake_up_process(gallery_tasks[i]);
	/* Not on a wait queue: the tracer records those of the entry only. */
	while (atomic_read(&gallery_alive)) {
		usleep_range(us, 2 * us);
		/* The reader was killed. */
		if (fatal_signal_pending(current))
			WRITE_ONCE(gallery_stuck, true);
	}
}

static int gallery_run(struct seq_file *seq, bool fixed)
{
	const struct gallery_entry *entry = seq->private;
	int ret;

	ret = gallery_begin(entry, fixed);
	if (!ret) {
		seq_printf(seq, "begin %llu\n", ktime_get_ns());
		gallery_play(STEPPED_US);
		seq_printf(seq, "end %llu\n", ktime_get_ns());
		if (gallery_judged)
			seq_printf(seq, "judged %llu\n", gallery_judged);
		gallery_show_results(seq, entry);
	}
	gallery_join();
	if (gallery_stuck)
		seq_puts(seq, "stuck\n");
	return ret;
}

static int gallery_run_unstepped(struct seq_file *seq, bool fixed)
{
	uint round, missed = 0;
	int ret = 0;

	gallery_unstepped = true;
	for (round = 0; round < gallery_rounds; round++) {
		ret = gallery_begin(seq->private, fixed);
		if (!ret)
			gallery_play(UNSTEPPED_US);
		gallery_join();
		if (ret || gallery_stuck)
			break;
		missed += gallery_missed;
	}
	gallery_unstepped = false;
	seq_printf(seq, "rounds %u missed %u\n", round, missed);
	if (gallery_stuck)
		seq_puts(seq, "stuck\n");
	return ret;
}

static int gallery_show(struct seq_file *seq, bool fixed,
			int (*run)(struct seq_file *seq, bool fixed))
{
	int ret = mutex_lock_interruptible(&gallery_mutex);

	if (ret)
		return ret;
	ret = run(seq, fixed);
	mutex_unlock(&gallery_mutex);
	return ret;
}

static int gallery_buggy_show(struct seq_file *seq, void *unused)
{
	return gallery_show(seq, false, gallery_run);
}
DEFINE_SHOW_ATTRIBUTE(gallery_buggy);

static int gallery_fixed_show(struct seq_file *seq, void *unused)
{
	return gallery_show(seq, true, gallery_run);
}
DEFINE_SHOW_ATTRIBUTE(gallery_fixed);

static int gallery_unstepped_buggy_show(struct seq_file *seq, void *unused)
{
	return gallery_show(seq, false, gallery_run_unstepped);
}
DEFINE_SHOW_ATTRIBUTE(gallery_unstepped_buggy);

static int gallery_unstepped_fixed_show(struct seq_file *seq, void *unused)
{
	return gallery_show(seq, true, gallery_run_unstepped);
}
DEFINE_SHOW_ATTRIBUTE(gallery_unstepped_fixed);

static void gallery_create_files(void)
{
	struct dentry *buggy = debugfs_create_dir("buggy", gallery_dir);
	struct dentry *fixed = debugfs_create_dir("fixed", gallery_dir);
	struct dentry *healthy = debugfs_create_dir("healthy", gallery_dir);
	struct dentry *unstepped_buggy =
		debugfs_create_dir("unstepped-buggy", gallery_dir);
	struct dentry *unstepped_fixed =
		debugfs_create_dir("unstepped-fixed", gallery_dir);
	const struct gallery_entry *entry;
	int i;

	for (i = 0; i < ARRAY_SIZE(gallery_entries); i++) {
		entry = gallery_entries[i];
		debugfs_create_file(entry->name, 0400, buggy, (void *)entry,
				    &gallery_buggy_fops);
		debugfs_create_file(entry->name, 0400, fixed, (void *)entry,
				    &gallery_fixed_fops);
		if (!entry->race)
			continue;
		debugfs_create_file(entry->name, 0400, unstepped_buggy,
				    (void *)entry, &gallery_unstepped_buggy_fops);
		debugfs_create_file(entry->name, 0400, unstepped_fixed,
				    (void *)entry, &gallery_unstepped_fixed_fops);
	}
	for (entry = gallery_healthy; entry->name; entry++)
		debugfs_create_file(entry->name, 0400, healthy, (void *)entry,
				    &gallery_fixed_fops);
}

static int __init gallery_init(void)
{
	gallery_dir = debugfs_create_dir("gallery", NULL);
	if (IS_ERR(gallery_dir))
		return PTR_ERR(gallery_dir);
	gallery_create_files();
	return 0;
}

static void __exit gallery_exit(void)
{
	debugfs_remove(gallery_dir);
}

module_init(gallery_init);
module_exit(gallery_exit);

MODULE_DESCRIPTION("Classic wait bugs, to see whether a tracer names them");
MODULE_AUTHOR("The kfabric authors");
MODULE_LICENSE("Dual BSD/GPL");
