// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A work item waits for the answer of another one. Both are on an ordered
 * workqueue, which runs one item at a time.
 *
 *   waiter				worker
 *   queue the question
 *					question: sleeps for the answer
 *   queue the answer
 *					(answer: does not run)
 *
 * Repaired: the answer is queued on another workqueue.
 */
#include <linux/workqueue.h>

#include "gallery.h"

enum { ASKED = 1, QUEUED };

static DECLARE_WAIT_QUEUE_HEAD(answer_queue);
static bool answered;

static void question_item(struct work_struct *unused)
{
	gallery_reach(ASKED);
	wait_event_timeout(answer_queue, READ_ONCE(answered),
			   8 * GALLERY_PATIENCE);
}

static void answer_item(struct work_struct *unused)
{
	WRITE_ONCE(answered, true);
	wake_up(&answer_queue);
}

static DECLARE_WORK(question_work, question_item);
static DECLARE_WORK(answer_work, answer_item);

static int blocked_waiter(void)
{
	struct workqueue_struct *ordered;

	WRITE_ONCE(answered, false);
	ordered = alloc_ordered_workqueue("gallery_ordered", 0);
	if (!ordered)
		return -ENOMEM;
	queue_work(ordered, &question_work);
	gallery_await(ASKED);
	if (gallery_fixed)
		schedule_work(&answer_work);
	else
		queue_work(ordered, &answer_work);
	gallery_reach(QUEUED);
	/* Runs all items of the queue, and waits for them. */
	destroy_workqueue(ordered);
	flush_work(&answer_work);
	return 0;
}

static int blocked_judge(void)
{
	gallery_await(QUEUED);
	schedule_timeout_uninterruptible(2 * GALLERY_PATIENCE);
	gallery_judge();
	WRITE_ONCE(answered, true);
	wake_up(&answer_queue);
	return 0;
}

const struct gallery_entry gallery_work_blocked = {
	.name = "work-blocked",
	.roles = {
		[WAITER] = { "waiter", blocked_waiter },
		[WAKER] = { "judge", blocked_judge },
	},
};
