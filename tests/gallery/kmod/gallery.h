/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A gallery of classic wait bugs, one file each.
 *
 * An entry is a few kthreads that meet at a plain wait queue. Its bug does not
 * happen by luck: the threads step each other with gallery_reach() and
 * gallery_await(), through the one interleaving that shows it. With
 * gallery_fixed they go through the same one with the bug repaired.
 */
#ifndef _GALLERY_H_
#define _GALLERY_H_

#include <linux/errno.h>
#include <linux/jiffies.h>
#include <linux/sched.h>
#include <linux/wait.h>

#define GALLERY_ROLES		4

/* A sleeper that nobody wakes gives up after this: nothing sleeps for ever. */
#define GALLERY_PATIENCE	(HZ / 4)

/* Their places in an entry's roles; a place may be empty. */
enum { WAITER, WAKER, WAITER_2, WAITER_3 };

struct gallery_role {
	const char *name;		/* of the kthread */
	int (*body)(void);		/* its result is shown */
};

struct gallery_entry {
	const char *name;
	struct gallery_role roles[GALLERY_ROLES];
};

/* Run the repaired twin; set before the threads start. */
extern bool gallery_fixed;
/* How many rounds a healthy entry makes. */
extern uint gallery_rounds;

/*
 * What sleepers wait for is a number of items. A tracer is told of these two
 * functions: each call puts in, or takes out, one item.
 */
void gallery_publish(void);
void gallery_take(void);

bool gallery_ready(void);
bool gallery_consume(void);

/* A wait without a bug: 1 and one item, or -ETIMEDOUT. */
int gallery_wait(struct wait_queue_head *queue, bool exclusive, long patience);

/*
 * Stepping. These spin, and neither sleep nor touch a wait queue, so that they
 * may stand in the middle of a wait and leave no trace of their own.
 */
void gallery_reach(int step);
void gallery_await(int step);
void gallery_await_asleep(int role);
struct task_struct *gallery_task(int role);
bool gallery_asleep(struct task_struct *task);
/* One turn of such a spin: true if it is to end, since a thread is stuck. */
bool gallery_too_late(unsigned long limit);

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

extern const struct gallery_entry gallery_healthy[];

#endif /* _GALLERY_H_ */
