/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A gallery of classic wait bugs, one file each.
 *
 * An entry is a few kthreads on a plain wait queue. Its bug does not depend on
 * timing: with gallery_reach() and gallery_await() the threads step each other
 * through the one interleaving that shows it. With gallery_fixed they run the
 * same interleaving without the bug. An entry that is a race is also played
 * unstepped: no thread waits for another one's steps, and the bug shows by
 * chance.
 */
#ifndef _GALLERY_H_
#define _GALLERY_H_

#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/swait.h>
#include <linux/wait.h>

#define GALLERY_ROLES		4

/* The timeout of every sleep, so that a lost wake-up does not hang the run. */
#define GALLERY_PATIENCE	((long)msecs_to_jiffies(gallery_patience_ms))

/* Indexes of the threads in an entry's roles; a role may be empty. */
enum { WAITER, WAKER, WAITER_2, WAITER_3 };

struct gallery_role {
	const char *name;		/* of the kthread */
	int (*body)(void);		/* its result is printed */
};

struct gallery_entry {
	const char *name;
	struct gallery_role roles[GALLERY_ROLES];
	/* Its twin misses no item, in whatever order the threads go. */
	bool race;
};

/* Run without the bug, and unstepped; set before the threads start. */
extern bool gallery_fixed, gallery_unstepped;
extern uint gallery_patience_ms;
/* Rounds of a healthy entry, and of an unstepped run. */
extern uint gallery_rounds;

/*
 * Sleepers wait for a number of items. The tracer gets the names of these
 * functions: each call adds or takes one item. gallery_give() also wakes.
 */
void gallery_publish(void);
void gallery_give(struct wait_queue_head *queue);
void gallery_take(void);

/* The part of a function that publishes: the item is there. Not marked itself. */
void gallery_store(void);

bool gallery_ready(void);
bool gallery_consume(void);

/* A wait without a bug: takes one item and returns 1, or returns -ETIMEDOUT. */
int gallery_wait(struct wait_queue_head *queue, bool exclusive, long patience);
int gallery_swait(struct swait_queue_head *queue, long patience);

/*
 * A sleep was ended by its timeout, which was set for a jiffy. If there is an item,
 * and the waker had ended half of the patience before, the sleeper has missed its
 * wake-up: nobody was left who could wake it. A wake-up that comes later may be
 * overtaken by the timeout, since neither thread gets its CPU at once.
 */
void gallery_timed_out(unsigned long deadline);

/* The schedule_timeout() of a race. */
static inline long gallery_sleep(long patience)
{
	unsigned long deadline = jiffies + patience;

	patience = schedule_timeout(patience);
	if (!patience)
		gallery_timed_out(deadline);
	return patience;
}

/*
 * Stepping. These functions spin; they neither sleep nor touch a wait queue, so
 * that a wait can contain them without any record of their own.
 */
void gallery_reach(int step);
void gallery_await(int step);
/* The same in an unstepped run, too: without this order it is another case. */
void gallery_follow(int step);
void gallery_await_asleep(int role);
/* The same for any sleep of a thread that has reached a step just before it. */
void gallery_await_sleep(int role);
/* The verdict is about this moment; later events only clean up. */
void gallery_judge(void);
void gallery_await_state(int role, uint state);
struct task_struct *gallery_task(int role);
bool gallery_asleep(struct task_struct *task);
/* One iteration of the spin; true if it has to end because a thread is stuck. */
bool gallery_too_late(unsigned long limit);

/*
 * For locks: a thread that waits for one spins as long as the holder runs, so
 * the holder sleeps (on no queue) until the other thread does.
 */
void gallery_await_blocked(int role);
/*
 * Ends a wait for a lock by a signal, GALLERY_PATIENCE after it began; returns
 * 0. Does nothing with gallery_fixed, since such a wait ends by itself.
 */
int gallery_interrupt(int role, int signal);

extern const struct gallery_entry gallery_check_then_enqueue;
extern const struct gallery_entry gallery_clear_after_check;
extern const struct gallery_entry gallery_mix_up;
extern const struct gallery_entry gallery_waitqueue_active;
extern const struct gallery_entry gallery_wake_before_publish;
extern const struct gallery_entry gallery_baton_signal;
extern const struct gallery_entry gallery_baton_timeout;
extern const struct gallery_entry gallery_one_wake_for_two;
extern const struct gallery_entry gallery_wrong_queue;
extern const struct gallery_entry gallery_wrong_waiter;
extern const struct gallery_entry gallery_herd;
extern const struct gallery_entry gallery_not_rearmed;
extern const struct gallery_entry gallery_missed_report;
extern const struct gallery_entry gallery_spurious;
extern const struct gallery_entry gallery_late;
extern const struct gallery_entry gallery_timer;
extern const struct gallery_entry gallery_never_ran;
extern const struct gallery_entry gallery_both_sleep;
extern const struct gallery_entry gallery_second_queue;
extern const struct gallery_entry gallery_late_state;
extern const struct gallery_entry gallery_woken_twice;
extern const struct gallery_entry gallery_moved_on;
extern const struct gallery_entry gallery_emptied_queue;
extern const struct gallery_entry gallery_stale_batch;
extern const struct gallery_entry gallery_throttle;
extern const struct gallery_entry gallery_last_close;
extern const struct gallery_entry gallery_old_threshold;
extern const struct gallery_entry gallery_half_condition;
extern const struct gallery_entry gallery_mutex_kept;
extern const struct gallery_entry gallery_mutex_exit;
extern const struct gallery_entry gallery_rwsem_kept;
extern const struct gallery_entry gallery_rt_mutex_kept;
extern const struct gallery_entry gallery_reader_writer_reader;
extern const struct gallery_entry gallery_lock_order;
extern const struct gallery_entry gallery_swait_early;
extern const struct gallery_entry gallery_bit_not_woken;
extern const struct gallery_entry gallery_wrong_variable;
extern const struct gallery_entry gallery_folio_late;
extern const struct gallery_entry gallery_work_blocked;
extern const struct gallery_entry gallery_timer_deleted;
extern const struct gallery_entry gallery_stop_ignored;
extern const struct gallery_entry gallery_park_ignored;
extern const struct gallery_entry gallery_long_reader;
extern const struct gallery_entry gallery_wake_then_store;
extern const struct gallery_entry gallery_wrong_state;
extern const struct gallery_entry gallery_reinit;

extern const struct gallery_entry gallery_healthy[];

#endif /* _GALLERY_H_ */
