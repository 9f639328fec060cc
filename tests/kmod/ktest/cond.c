// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* KFI_WAIT_MUTEX_COND: the mutex and the condition that KFI_GETWAIT gives. */
#include <linux/delay.h>

#include <kfi_test.h>

#include "ktest.h"

static int kt_open_cond(struct kt *kt)
{
	int err;

	kt->set_obj = KFI_WAIT_MUTEX_COND;
	err = kt_open(kt, KFI_WAIT_SET);
	if (err)
		return err;
	return kfi_control(&kt->wait->kfid, KFI_GETWAIT, &kt->pair);
}

static int kt_one(struct kt *kt)
{
	return kt_command(kt, "inject %u recv", kt_ep_id(kt));
}

/* Waits once; -EPERM if it came back without the mutex. */
static int kt_in_cond_wait(struct kt *kt)
{
	/* Of the object of now: a case may go on to the next one. */
	const struct kfi_mutex_cond pair = kt->pair;
	int ret;

	mutex_lock(pair.mutex);
	ret = kfi_cond_wait(pair.cond, -1);
	if (mutex_trylock(pair.mutex))
		ret = -EPERM;
	mutex_unlock(pair.mutex);
	return ret;
}

/* Complete first, wait then: there is nothing to miss. */
static void kt_cond_complete_first(struct kt *kt)
{
	KT_EQ(kt, kt_open_cond(kt), 0);
	KT_EQ(kt, kt_one(kt), 0);
	KT_EQ(kt, kt_in_cond_wait(kt), 0);
	KT_EQ(kt, kt_in_cond_wait(kt), 0);
}

/* One check does not let the mutex go; a wait does, and has it again. */
static void kt_cond_has_the_mutex(struct kt *kt)
{
	KT_EQ(kt, kt_open_cond(kt), 0);
	mutex_lock(kt->pair.mutex);
	kt_equal(kt, __FILE__, __LINE__, "one check",
		 kfi_cond_wait(kt->pair.cond, 0), -KFI_ETIMEDOUT);
	kt_holds(kt, __FILE__, __LINE__, "held after one check",
		 !mutex_trylock(kt->pair.mutex));
	kt_equal(kt, __FILE__, __LINE__, "until the deadline",
		 kfi_cond_wait(kt->pair.cond, 5), -KFI_ETIMEDOUT);
	kt_holds(kt, __FILE__, __LINE__, "held after the deadline",
		 !mutex_trylock(kt->pair.mutex));
	mutex_unlock(kt->pair.mutex);

	KT_EQ(kt, kt_hire(kt, 0, kt_in_cond_wait), 0);
	KT_EQ(kt, kt_until_hand_asleep(kt, 0), 0);
	KT_CHECK(kt, mutex_trylock(kt->pair.mutex));
	mutex_unlock(kt->pair.mutex);
	kt_dismiss(kt, 0);
	KT_EQ(kt, kt->hands[0].ret, -EINTR);
}

/* Publishing never takes the mutex: here its holder publishes, and others. */
static void kt_cond_publish_under_mutex(struct kt *kt)
{
	bool done;
	int err;

	KT_EQ(kt, kt_open_cond(kt), 0);
	KT_EQ(kt, kt_hire(kt, 0, kt_in_cond_wait), 0);
	KT_EQ(kt, kt_until_hand_asleep(kt, 0), 0);
	mutex_lock(kt->pair.mutex);
	err = kt_one(kt);
	if (!err)
		err = kt_command(kt, "inject %u recv context=softirq",
				 kt_ep_id(kt));
	if (!err)
		err = kt_command(kt, "inject %u recv context=workqueue",
				 kt_ep_id(kt));
	if (!err)
		err = kfi_cq_signal(kt->cq);
	/* The waiter is awake and waits for the mutex. */
	done = completion_done(&kt->hands[0].done);
	mutex_unlock(kt->pair.mutex);
	KT_EQ(kt, err, 0);
	KT_CHECK(kt, !done);
	KT_EQ(kt, kt_hand_result(kt, 0), 0);
}

/* Takes one entry under the mutex, however often it has to wait. */
static int kt_take_one(struct kt *kt)
{
	struct kfi_cq_msg_entry entry;
	ssize_t n;
	int ret = 0;

	mutex_lock(kt->pair.mutex);
	do {
		n = kfi_cq_read(kt->cq, &entry, 1);
		if (n == -KFI_EAGAIN) {
			/* Nobody needs it, and it keeps the set ready. */
			kfi_cntr_read(kt->cntr);
			ret = kfi_cond_wait(kt->pair.cond, -1);
		}
	} while (n == -KFI_EAGAIN && !ret);
	mutex_unlock(kt->pair.mutex);
	return ret ?: n;
}

/* Four waiters, four completions at once: each takes one. */
static void kt_cond_four(struct kt *kt)
{
	int i;

	KT_EQ(kt, kt_open_cond(kt), 0);
	for (i = 0; i < 4; i++) {
		KT_EQ(kt, kt_hire(kt, i, kt_take_one), 0);
		KT_EQ(kt, kt_until_hand_asleep(kt, i), 0);
	}
	KT_EQ(kt, kt_command(kt, "inject %u recv 4", kt_ep_id(kt)), 0);
	for (i = 0; i < 4; i++)
		KT_EQ(kt, kt_hand_result(kt, i), 1);
}

/* Waits for the ULP's own flag, which no completion sets. */
static int kt_until_flag(struct kt *kt)
{
	int ret = 0;

	mutex_lock(kt->pair.mutex);
	while (!kt->flag && !ret)
		ret = kfi_cond_wait(kt->pair.cond, -1);
	mutex_unlock(kt->pair.mutex);
	return ret;
}

/* State changed under the mutex, then the signal: a cq_signal is one for all. */
static void kt_cond_signal(struct kt *kt)
{
	int i;

	KT_EQ(kt, kt_open_cond(kt), 0);
	for (i = 0; i < 3; i++) {
		KT_EQ(kt, kt_hire(kt, i, kt_until_flag), 0);
		KT_EQ(kt, kt_until_hand_asleep(kt, i), 0);
	}
	mutex_lock(kt->pair.mutex);
	kt->flag = true;
	mutex_unlock(kt->pair.mutex);
	KT_EQ(kt, kfi_cq_signal(kt->cq), 0);
	for (i = 0; i < 3; i++)
		KT_EQ(kt, kt_hand_result(kt, i), 0);
}

#ifdef KFABRIC_TEST
static int kt_until_stopped(enum kfi_hook hook)
{
	unsigned long end = jiffies + KT_DEADLINE;

	while (!kfi_test_hook_stopped(hook)) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		usleep_range(100, 200);
	}
	return 0;
}

/* The signal comes when the mutex is free and the sleep has not begun. */
static void kt_cond_signal_before_sleep(struct kt *kt)
{
	int i;

	KT_EQ(kt, kt_open_cond(kt), 0);
	for (i = 0; i < 10; i++) {
		kt->flag = false;
		KT_EQ(kt, kfi_test_hook_arm(KFI_HOOK_D1,
					    kfi_fid_id(&kt->wait->kfid)), 0);
		KT_EQ(kt, kt_hire(kt, 0, kt_until_flag), 0);
		KT_EQ(kt, kt_until_stopped(KFI_HOOK_D1), 0);
		mutex_lock(kt->pair.mutex);
		kt->flag = true;
		mutex_unlock(kt->pair.mutex);
		KT_EQ(kt, kfi_cq_signal(kt->cq), 0);
		KT_EQ(kt, kfi_test_hook_go(KFI_HOOK_D1), 0);
		KT_EQ(kt, kt_hand_result(kt, 0), 0);
		kt_dismiss(kt, 0);
	}
}
#else
/* The production build has no hooks. */
static void kt_cond_signal_before_sleep(struct kt *kt)
{
}
#endif

static int kt_in_cq_sread(struct kt *kt)
{
	struct kfi_cq_msg_entry entry;

	return kfi_cq_sread(kt->cq, &entry, 1, NULL, -1);
}

/*
 * A CQ with a condition of its own: one sleeps in sread, another on the
 * condition, which is for all. The entry wakes both, whoever came first.
 */
static void kt_cond_behind_sread(struct kt *kt)
{
	KT_EQ(kt, kt_open(kt, KFI_WAIT_MUTEX_COND), 0);
	KT_EQ(kt, kfi_control(&kt->cq->fid, KFI_GETWAIT, &kt->pair), 0);
	KT_EQ(kt, kt_hire(kt, 0, kt_in_cq_sread), 0);
	KT_EQ(kt, kt_until_hand_asleep(kt, 0), 0);
	KT_EQ(kt, kt_hire(kt, 1, kt_in_cond_wait), 0);
	KT_EQ(kt, kt_until_hand_asleep(kt, 1), 0);
	KT_EQ(kt, kt_one(kt), 0);
	KT_EQ(kt, kt_hand_result(kt, 0), 1);
	KT_EQ(kt, kt_hand_result(kt, 1), 0);
}

/* Every class of object has one; each is ready by its own. */
static void kt_cond_of_every_class(struct kt *kt)
{
	struct kfi_eq_entry entry = { };
	struct kfid *fids[3];
	int i;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_MUTEX_COND), 0);
	fids[0] = &kt->cq->fid;
	fids[1] = &kt->cntr->fid;
	fids[2] = &kt->eq->fid;
	for (i = 0; i < ARRAY_SIZE(fids); i++) {
		KT_EQ(kt, kfi_control(fids[i], KFI_GETWAIT, &kt->pair), 0);
		KT_EQ(kt, kt_hire(kt, i, kt_in_cond_wait), 0);
		KT_EQ(kt, kt_until_hand_asleep(kt, i), 0);
	}
	KT_EQ(kt, kt_one(kt), 0);
	KT_EQ(kt, kt_hand_result(kt, 0), 0);
	KT_EQ(kt, kt_hand_result(kt, 1), 0);
	KT_EQ(kt, kt_until_hand_asleep(kt, 2), 0);
	KT_EQ(kt, kfi_eq_write(kt->eq, KFI_NOTIFY, &entry, sizeof(entry), 0),
	      sizeof(entry));
	KT_EQ(kt, kt_hand_result(kt, 2), 0);
}

/* The set does not close under a thread on its condition. */
static void kt_cond_pins_the_set(struct kt *kt)
{
	struct kfi_wait_attr attr = { .wait_obj = KFI_WAIT_MUTEX_COND };
	struct kfid_wait *wait;
	int busy;

	KT_EQ(kt, kt_open(kt, KFI_WAIT_UNSPEC), 0);
	KT_EQ(kt, kfi_wait_open(kt->fabric, &attr, &wait), 0);
	kt_equal(kt, __FILE__, __LINE__, "getwait",
		 kfi_control(&wait->kfid, KFI_GETWAIT, &kt->pair), 0);
	kt_equal(kt, __FILE__, __LINE__, "hire",
		 kt_hire(kt, 0, kt_in_cond_wait), 0);
	kt_equal(kt, __FILE__, __LINE__, "asleep",
		 kt_until_hand_asleep(kt, 0), 0);
	busy = kfi_close(&wait->kfid);
	kt_dismiss(kt, 0);
	KT_EQ(kt, busy, -KFI_EBUSY);
	KT_EQ(kt, kfi_close(&wait->kfid), 0);
}

const struct kt_case kt_cond_cases[] = {
	{ "cond_complete_first", kt_cond_complete_first },
	{ "cond_has_the_mutex", kt_cond_has_the_mutex },
	{ "cond_publish_under_mutex", kt_cond_publish_under_mutex },
	{ "cond_four", kt_cond_four },
	{ "cond_signal", kt_cond_signal },
	{ "cond_signal_before_sleep", kt_cond_signal_before_sleep },
	{ "cond_behind_sread", kt_cond_behind_sread },
	{ "cond_of_every_class", kt_cond_of_every_class },
	{ "cond_pins_the_set", kt_cond_pins_the_set },
	{ }
};
