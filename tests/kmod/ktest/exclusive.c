// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* KFI_WAIT_EXCLUSIVE for callers in the kernel. */
#include "ktest.h"

static int kt_set_exclusive(struct kt *kt, u64 flags)
{
	return kfi_control(&kt->wait->kfid, KFI_SETFIDFLAG, &flags);
}

static int kt_in_wait(struct kt *kt)
{
	return kfi_wait(kt->wait, -1);
}

static int kt_one(struct kt *kt, const char *context)
{
	/* Only the CQ: a counter would be a second thing to read. */
	return kt_command(kt, "inject %u send context=%s", kt_ep_id(kt),
			  context);
}

static int kt_fill(struct kt *kt, int hands, int (*body)(struct kt *kt))
{
	int i, err = 0;

	for (i = 0; i < hands && !err; i++) {
		err = kt_hire(kt, i, body);
		if (!err)
			err = kt_until_hand_asleep(kt, i);
	}
	return err;
}

/* Off at first; only the one flag; not under a sleeper; no GETWAIT meanwhile. */
static void kt_exclusive_codes(struct kt *kt)
{
	wait_queue_head_t *head;
	u64 flags = 0x55;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kfi_control(&kt->wait->kfid, KFI_GETFIDFLAG, &flags), 0);
	KT_EQ(kt, flags, 0);
	KT_EQ(kt, kt_set_exclusive(kt, 1), -KFI_EINVAL);
	KT_EQ(kt, kt_set_exclusive(kt, KFI_WAIT_EXCLUSIVE), 0);
	KT_EQ(kt, kfi_control(&kt->wait->kfid, KFI_GETFIDFLAG, &flags), 0);
	KT_CHECK(kt, flags == KFI_WAIT_EXCLUSIVE);
	KT_EQ(kt, kfi_control(&kt->wait->kfid, KFI_GETWAIT, &head),
	      -KFI_EINVAL);
	KT_EQ(kt, kt_fill(kt, 1, kt_in_wait), 0);
	KT_EQ(kt, kt_set_exclusive(kt, 0), -KFI_EBUSY);
	kt_dismiss(kt, 0);
	KT_EQ(kt, kt_set_exclusive(kt, 0), 0);
	KT_EQ(kt, kfi_control(&kt->wait->kfid, KFI_GETWAIT, &head), 0);
}

/* Each publication one, from every context; the signal all who are left. */
static void kt_exclusive_one_each(struct kt *kt)
{
	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kt_set_exclusive(kt, KFI_WAIT_EXCLUSIVE), 0);
	KT_EQ(kt, kt_fill(kt, KT_HANDS, kt_in_wait), 0);
	KT_EQ(kt, kt_one(kt, "softirq"), 0);
	KT_EQ(kt, kt_hand_result(kt, 0), 0);
	KT_EQ(kt, kt_hands_done(kt), 1);
	KT_EQ(kt, kt_one(kt, "workqueue"), 0);
	KT_EQ(kt, kt_hand_result(kt, 1), 0);
	KT_EQ(kt, kt_one(kt, "process"), 0);
	KT_EQ(kt, kt_hand_result(kt, 2), 0);
	KT_EQ(kt, kt_hands_done(kt), 3);
	KT_EQ(kt, kfi_cq_signal(kt->cq), 0);
	KT_EQ(kt, kt_hand_result(kt, 3), 0);
	KT_EQ(kt, kt_hand_result(kt, 4), 0);
}

static int kt_in_two_waits(struct kt *kt)
{
	return kfi_wait(kt->wait, -1) ?: kfi_wait(kt->wait, 0);
}

/* Who only looks again passes its wake-up on, down to the last. */
static void kt_exclusive_passes_on(struct kt *kt)
{
	int i;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kt_set_exclusive(kt, KFI_WAIT_EXCLUSIVE), 0);
	KT_EQ(kt, kt_fill(kt, KT_HANDS, kt_in_two_waits), 0);
	KT_EQ(kt, kt_one(kt, "softirq"), 0);
	for (i = 0; i < KT_HANDS; i++)
		KT_EQ(kt, kt_hand_result(kt, i), 0);
}

static int kt_in_wait_and_read(struct kt *kt)
{
	struct kfi_cq_msg_entry entry;

	return kfi_wait(kt->wait, -1) ?: kfi_cq_read(kt->cq, &entry, 1);
}

/* Each takes one; nobody is woken for what another one has. */
static void kt_exclusive_takes_one(struct kt *kt)
{
	int i;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kt_set_exclusive(kt, KFI_WAIT_EXCLUSIVE), 0);
	KT_EQ(kt, kt_fill(kt, KT_HANDS, kt_in_wait_and_read), 0);
	for (i = 0; i < KT_HANDS; i++) {
		KT_EQ(kt, kt_one(kt, "softirq"), 0);
		KT_EQ(kt, kt_hand_result(kt, i), 1);
		KT_EQ(kt, kt_hands_done(kt), i + 1);
	}
	KT_EQ(kt, kfi_wait(kt->wait, 0), -KFI_ETIMEDOUT);
}

/* One who is told to stop leaves with -EINTR and takes no wake-up along. */
static void kt_exclusive_stop(struct kt *kt)
{
	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kt_set_exclusive(kt, KFI_WAIT_EXCLUSIVE), 0);
	KT_EQ(kt, kt_fill(kt, 2, kt_in_wait), 0);
	kt_dismiss(kt, 0);
	KT_EQ(kt, kt->hands[0].ret, -EINTR);
	KT_EQ(kt, kt_one(kt, "process"), 0);
	KT_EQ(kt, kt_hand_result(kt, 1), 0);
}

/* On the condition of a set the same holds. */
static int kt_in_cond_wait(struct kt *kt)
{
	int ret;

	mutex_lock(kt->pair.mutex);
	ret = kfi_cond_wait(kt->pair.cond, -1);
	mutex_unlock(kt->pair.mutex);
	return ret;
}

static void kt_exclusive_cond(struct kt *kt)
{
	kt->set_obj = KFI_WAIT_MUTEX_COND;
	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	KT_EQ(kt, kfi_control(&kt->wait->kfid, KFI_GETWAIT, &kt->pair), 0);
	KT_EQ(kt, kt_set_exclusive(kt, KFI_WAIT_EXCLUSIVE), 0);
	KT_EQ(kt, kt_fill(kt, 3, kt_in_cond_wait), 0);
	KT_EQ(kt, kt_one(kt, "softirq"), 0);
	KT_EQ(kt, kt_hand_result(kt, 0), 0);
	KT_EQ(kt, kt_hands_done(kt), 1);
}

const struct kt_case kt_exclusive_cases[] = {
	{ "exclusive_codes", kt_exclusive_codes },
	{ "exclusive_one_each", kt_exclusive_one_each },
	{ "exclusive_passes_on", kt_exclusive_passes_on },
	{ "exclusive_takes_one", kt_exclusive_takes_one },
	{ "exclusive_stop", kt_exclusive_stop },
	{ "exclusive_cond", kt_exclusive_cond },
	{ }
};
