// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Several kthreads at once, each of which makes one call. */
#include <linux/delay.h>
#include <linux/sched/task.h>

#include "ktest.h"

static int kt_hand(void *arg)
{
	struct kt_hand *hand = arg;

	complete(&hand->started);
	hand->ret = hand->body(hand->kt);
	complete_all(&hand->done);
	return 0;
}

/**
 * kt_hire() - have a kthread call something once
 * @kt: keeps what it returned
 * @number: which kthread
 * @body: what to call
 *
 * kt_close() sends it away.
 */
int kt_hire(struct kt *kt, int number, int (*body)(struct kt *kt))
{
	struct kt_hand *hand = &kt->hands[number];
	struct task_struct *task;

	hand->kt = kt;
	hand->body = body;
	init_completion(&hand->started);
	init_completion(&hand->done);
	task = kthread_create(kt_hand, hand, "kfi_ktest%d", number);
	if (IS_ERR(task))
		return PTR_ERR(task);
	hand->task = get_task_struct(task);
	wake_up_process(task);
	wait_for_completion(&hand->started);
	return 0;
}

/* Asleep in @body, or -ETIMEDOUT. */
int kt_until_hand_asleep(struct kt *kt, int number)
{
	struct kt_hand *hand = &kt->hands[number];
	unsigned long end = jiffies + KT_DEADLINE;

	while (!kt_asleep(hand->task)) {
		if (time_after(jiffies, end) || completion_done(&hand->done))
			return -ETIMEDOUT;
		usleep_range(100, 200);
	}
	return 0;
}

/* What @body returned; -ETIME if it goes on. */
int kt_hand_result(struct kt *kt, int number)
{
	struct kt_hand *hand = &kt->hands[number];

	if (!wait_for_completion_timeout(&hand->done, KT_DEADLINE))
		return -ETIME;
	return hand->ret;
}

/* How many have returned; the others are asleep when this returns. */
int kt_hands_done(struct kt *kt)
{
	int i, done = 0;

	for (i = 0; i < KT_HANDS; i++) {
		if (!kt->hands[i].task)
			continue;
		if (kt_until_hand_asleep(kt, i))
			done++;
	}
	return done;
}

/* Tell it to stop, which ends every blocking call, and wait for its end. */
void kt_dismiss(struct kt *kt, int number)
{
	struct kt_hand *hand = &kt->hands[number];

	if (!hand->task)
		return;
	kthread_stop(hand->task);
	put_task_struct(hand->task);
	hand->task = NULL;
}
