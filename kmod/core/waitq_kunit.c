// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * KUnit cases of the wait core, without provider and objects. Part of kfabric.ko in
 * the test-option build for a kernel that has KUnit. Debian's kernels do not have it;
 * there the guest tests cover the same.
 *
 * To compile it on such a kernel: make KFABRIC_TEST=1 CONFIG_KUNIT=y
 * KCFLAGS=-DCONFIG_KUNIT=1 core/waitq_kunit.o
 *
 * All waiters belong to the test's own thread, which never sleeps: a wake-up only
 * marks them.
 */
#include <kunit/test.h>

#include "core.h"

/* One queue with a few waiters, and one member; new for each case. */
struct kfi_waitq_case {
	struct kfid fid;
	struct kfi_source src;
	struct kfi_waitq q;
	struct kfi_waiter w[3];
};

static int kfi_waitq_case_init(struct kunit *test)
{
	struct kfi_waitq_case *c;

	c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	if (!c)
		return -ENOMEM;
	c->fid.fclass = KFI_CLASS_WAIT;
	kfi_waitq_init(&c->q, &c->fid, 1);
	spin_lock_init(&c->src.lock);
	c->src.queue = &c->q;
	c->src.id = 2;
	test->priv = c;
	return 0;
}

/* Empties the queue. */
static void kfi_waitq_case_exit(struct kunit *test)
{
	struct kfi_waitq_case *c = test->priv;
	struct kfi_wake wake = { .why = KFI_WHY_SIGNAL, .all = true };

	kfi_waitq_wake(&c->q, &wake);
	kfi_waitq_fini(&c->q);
}

/* As kfi_waitq_sleep() up to its first look. */
static void kfi_waitq_case_add(struct kfi_waitq_case *c, int i, u64 need,
			       bool exclusive)
{
	struct kfi_waiter *w = &c->w[i];

	kfi_waiter_init(w, &c->q, need, exclusive);
	w->seen = atomic64_read(&c->q.pubs);
	spin_lock_irq(&c->q.head.lock);
	__add_wait_queue_entry_tail(&c->q.head, &w->wqe);
	c->q.sleepers++;
	spin_unlock_irq(&c->q.head.lock);
}

static void kfi_waitq_case_publish(struct kfi_waitq_case *c, u64 have)
{
	struct kfi_wake wake = {
		.seq = atomic64_inc_return(&c->q.pubs),
		.have = have,
		.source = 2,
		.why = KFI_WHY_EVENT,
	};

	kfi_waitq_wake(&c->q, &wake);
}

static void kfi_waitq_wake_marks(struct kunit *test)
{
	struct kfi_waitq_case *c = test->priv;

	kfi_waitq_case_add(c, 0, 0, false);
	kfi_waitq_case_publish(c, 5);
	KUNIT_EXPECT_EQ(test, c->w[0].why, KFI_WHY_EVENT);
	KUNIT_EXPECT_EQ(test, c->w[0].seq, 1);
	KUNIT_EXPECT_EQ(test, c->w[0].have, 5);
	KUNIT_EXPECT_EQ(test, c->w[0].source, 2);
	KUNIT_EXPECT_TRUE(test, list_empty(&c->w[0].wqe.entry));
	KUNIT_EXPECT_EQ(test, c->q.sleepers, 0);
}

static void kfi_waitq_wake_passes_by_what_was_seen(struct kunit *test)
{
	struct kfi_waitq_case *c = test->priv;
	struct kfi_wake old = { .seq = 1, .why = KFI_WHY_EVENT };
	struct kfi_wake handed_on = { .why = KFI_WHY_HANDON };

	atomic64_set(&c->q.pubs, 1);
	kfi_waitq_case_add(c, 0, 0, false);
	kfi_waitq_wake(&c->q, &old);
	KUNIT_EXPECT_EQ(test, c->w[0].why, 0);
	/* It has no number, so no look can have covered it. */
	kfi_waitq_wake(&c->q, &handed_on);
	KUNIT_EXPECT_EQ(test, c->w[0].why, KFI_WHY_HANDON);
}

static void kfi_waitq_wake_respects_need(struct kunit *test)
{
	struct kfi_waitq_case *c = test->priv;
	struct kfi_wake all = { .why = KFI_WHY_SIGNAL, .all = true };

	kfi_waitq_case_add(c, 0, 3, false);
	kfi_waitq_case_add(c, 1, 9, false);
	kfi_waitq_case_publish(c, 3);
	KUNIT_EXPECT_EQ(test, c->w[0].why, KFI_WHY_EVENT);
	KUNIT_EXPECT_EQ(test, c->w[1].why, 0);
	kfi_waitq_wake(&c->q, &all);
	KUNIT_EXPECT_EQ(test, c->w[1].why, KFI_WHY_SIGNAL);
}

static void kfi_waitq_wake_next_exclusive(struct kunit *test)
{
	struct kfi_waitq_case *c = test->priv;
	int i;

	for (i = 0; i < 3; i++)
		kfi_waitq_case_add(c, i, 1, true);
	kfi_waitq_case_publish(c, 1);
	KUNIT_EXPECT_EQ(test, c->w[0].why, KFI_WHY_EVENT);
	KUNIT_EXPECT_EQ(test, c->w[1].why, 0);
	/* The first waiter has not run: the wake-up must not find it again. */
	kfi_waitq_case_publish(c, 2);
	KUNIT_EXPECT_EQ(test, c->w[0].seq, 1);
	KUNIT_EXPECT_EQ(test, c->w[1].seq, 2);
	KUNIT_EXPECT_EQ(test, c->w[2].why, 0);
	KUNIT_EXPECT_EQ(test, c->q.sleepers, 1);
}

static void kfi_waitq_wake_skips_exclusive_below_need(struct kunit *test)
{
	struct kfi_waitq_case *c = test->priv;

	kfi_waitq_case_add(c, 0, 4, true);
	kfi_waitq_case_add(c, 1, 1, true);
	kfi_waitq_case_publish(c, 1);
	KUNIT_EXPECT_EQ(test, c->w[0].why, 0);
	KUNIT_EXPECT_EQ(test, c->w[1].why, KFI_WHY_EVENT);
}

static void kfi_turn_return_passes_on(struct kunit *test)
{
	struct kfi_waitq_case *c = test->priv;
	int i;

	KUNIT_ASSERT_EQ(test, kfi_turns_set(&c->q, true), 0);
	for (i = 0; i < 3; i++)
		kfi_waitq_case_add(c, i, 0, true);
	KUNIT_EXPECT_EQ(test, kfi_turns_set(&c->q, false), -KFI_EBUSY);
	atomic_set(&c->q.nready, 1);
	kfi_waitq_case_publish(c, 1);
	kfi_turn_return(&c->q);
	KUNIT_EXPECT_EQ(test, c->w[1].why, KFI_WHY_HANDON);
	KUNIT_EXPECT_EQ(test, c->w[2].why, 0);
	/* Drained: all turns have ended. */
	atomic_set(&c->q.nready, 0);
	kfi_turn_return(&c->q);
	atomic_set(&c->q.nready, 1);
	kfi_turn_return(&c->q);
	KUNIT_EXPECT_EQ(test, c->w[2].why, 0);
	atomic_set(&c->q.nready, 0);
}

static void kfi_turn_used_wakes_for_what_is_left(struct kunit *test)
{
	struct kfi_waitq_case *c = test->priv;
	int i;

	KUNIT_ASSERT_EQ(test, kfi_turns_set(&c->q, true), 0);
	for (i = 0; i < 3; i++)
		kfi_waitq_case_add(c, i, 0, true);
	atomic_set(&c->q.nready, 2);
	kfi_waitq_case_publish(c, 1);
	/* One of two members was drained; no turn covers the other one. */
	atomic_set(&c->q.nready, 1);
	spin_lock_irq(&c->src.lock);
	kfi_turn_used(&c->src, 0);
	spin_unlock_irq(&c->src.lock);
	KUNIT_EXPECT_EQ(test, c->w[1].why, KFI_WHY_HANDON);
	KUNIT_EXPECT_EQ(test, c->w[2].why, 0);
	atomic_set(&c->q.nready, 0);
}

/* Three sleepers, one member that is ready, and two turns; one member was read in a ring. */
static void kfi_turn_used_elsewhere_wakes_one_more(struct kunit *test)
{
	struct kfi_waitq_case *c = test->priv;
	int i;

	KUNIT_ASSERT_EQ(test, kfi_turns_set(&c->q, true), 0);
	for (i = 0; i < 3; i++)
		kfi_waitq_case_add(c, i, 0, true);
	atomic_set(&c->q.nready, 1);
	spin_lock_irq(&c->q.head.lock);
	kfi_turn_given(&c->q, NULL);
	kfi_turn_given(&c->q, current);
	spin_unlock_irq(&c->q.head.lock);
	spin_lock_irq(&c->src.lock);
	kfi_turn_used_elsewhere(&c->src, 0);
	spin_unlock_irq(&c->src.lock);
	atomic_set(&c->q.nready, 0);
	/* Either turn may be the reader's, so neither is sure to cover the member. */
	KUNIT_EXPECT_EQ(test, c->w[0].why, KFI_WHY_HANDON);
	KUNIT_EXPECT_EQ(test, c->w[1].why, 0);
}

static int kfi_waitq_case_now(struct kfi_waitq_case *c)
{
	return kfi_waitq_wait(&c->q, NULL, KFI_DEADLINE_NOW);
}

static void kfi_waitq_wait_knows_the_dead(struct kunit *test)
{
	struct kfi_waitq_case *c = test->priv;

	KUNIT_EXPECT_EQ(test, kfi_waitq_case_now(c), -KFI_ETIMEDOUT);
	kfi_waitq_join(&c->q);
	kfi_waitq_join(&c->q);
	kfi_waitq_lose(&c->q);
	KUNIT_EXPECT_EQ(test, kfi_waitq_case_now(c), -KFI_ETIMEDOUT);
	atomic_set(&c->q.nready, 1);
	kfi_waitq_lose(&c->q);
	KUNIT_EXPECT_EQ(test, kfi_waitq_case_now(c), 0);
	atomic_set(&c->q.nready, 0);
	KUNIT_EXPECT_EQ(test, kfi_waitq_case_now(c), -KFI_ENODEV);
	kfi_waitq_join(&c->q);
	KUNIT_EXPECT_EQ(test, kfi_waitq_case_now(c), -KFI_ETIMEDOUT);
}

static void kfi_waitq_leave_wakes_the_last(struct kunit *test)
{
	struct kfi_waitq_case *c = test->priv;

	kfi_waitq_join(&c->q);
	kfi_waitq_join(&c->q);
	kfi_waitq_lose(&c->q);
	kfi_waitq_case_add(c, 0, 0, false);
	kfi_waitq_leave(&c->q, false);
	KUNIT_EXPECT_EQ(test, c->w[0].why, KFI_WHY_LOST);
	kfi_waitq_leave(&c->q, true);
	KUNIT_EXPECT_EQ(test, kfi_waitq_case_now(c), -KFI_ETIMEDOUT);
}

static struct kunit_case kfi_waitq_cases[] = {
	KUNIT_CASE(kfi_waitq_wake_marks),
	KUNIT_CASE(kfi_waitq_wake_passes_by_what_was_seen),
	KUNIT_CASE(kfi_waitq_wake_respects_need),
	KUNIT_CASE(kfi_waitq_wake_next_exclusive),
	KUNIT_CASE(kfi_waitq_wake_skips_exclusive_below_need),
	KUNIT_CASE(kfi_turn_return_passes_on),
	KUNIT_CASE(kfi_turn_used_wakes_for_what_is_left),
	KUNIT_CASE(kfi_turn_used_elsewhere_wakes_one_more),
	KUNIT_CASE(kfi_waitq_wait_knows_the_dead),
	KUNIT_CASE(kfi_waitq_leave_wakes_the_last),
	{ }
};

static struct kunit_suite kfi_waitq_suite = {
	.name = "kfabric_waitq",
	.init = kfi_waitq_case_init,
	.exit = kfi_waitq_case_exit,
	.test_cases = kfi_waitq_cases,
};

kunit_test_suite(kfi_waitq_suite);
