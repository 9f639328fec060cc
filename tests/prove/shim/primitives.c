// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The kernel's primitives as the shim has them: what each promises, and what happens to
 * code that relies on more. tests/unit/test_prove_shim.py knows the results.
 */
#include <prove.h>

#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct thing {
	struct rcu_head rcu;
	struct work_struct work;
	int value;
};

static struct thing *published;
static DEFINE_SPINLOCK(lock);
static DECLARE_WAIT_QUEUE_HEAD(queue);
static struct completion done;
static int flag;
static atomic_t running, runs;

static void nothing(void)
{
}

static void setup_thing(void)
{
	published = kzalloc(sizeof(*published), GFP_KERNEL);
}

static void read_inside(void)
{
	struct thing *thing;

	rcu_read_lock();
	thing = rcu_dereference(published);
	if (thing)
		prove_check(!thing->value, "a reader finds the thing as it was");
	rcu_read_unlock();
}

static void read_too_long(void)
{
	struct thing *thing;

	rcu_read_lock();
	thing = rcu_dereference(published);
	rcu_read_unlock();
	if (thing)
		prove_check(!thing->value, "a reader finds the thing as it was");
}

static struct thing *withdraw(void)
{
	struct thing *thing = published;

	RCU_INIT_POINTER(published, NULL);
	return thing;
}

static void free_later(void)
{
	struct thing *thing = withdraw();

	kfree_rcu(thing, rcu);
}

static void free_after_readers(void)
{
	struct thing *thing = withdraw();

	synchronize_rcu();
	thing->value = 1;
	kfree(thing);
}

static void free_at_once(void)
{
	kfree(withdraw());
}

static void thing_free(struct rcu_head *rcu)
{
	kfree(container_of(rcu, struct thing, rcu));
}

static void free_by_callback(void)
{
	call_rcu(&withdraw()->rcu, thing_free);
}

/* It has prepared to sleep, and finds that it need not. */
static void sleep_prepared(void)
{
	set_current_state(TASK_INTERRUPTIBLE);
	kfree(kzalloc(1, GFP_KERNEL));
	__set_current_state(TASK_RUNNING);
}

static void end_prepared(void)
{
	set_current_state(TASK_INTERRUPTIBLE);
}

PROVE_SCENARIO(state_sleep, .says = "a thread that is about to sleep may sleep elsewhere",
	       .threads = { { "sleeper", sleep_prepared } });

PROVE_SCENARIO(state_end, .says = "a thread is about to sleep when it ends",
	       .threads = { { "sleeper", end_prepared } });

static void sleep_inside(void)
{
	rcu_read_lock();
	kfree(kzalloc(1, GFP_KERNEL));
	rcu_read_unlock();
}

static void end_inside(void)
{
	rcu_read_lock();
}

PROVE_SCENARIO(rcu_sleep_inside, .says = "a reader may sleep in its section",
	       .threads = { { "reader", sleep_inside } });

PROVE_SCENARIO(rcu_end_inside, .says = "a reader does not end its section",
	       .threads = { { "reader", end_inside } });

PROVE_SCENARIO(rcu_free_later, .says = "kfree_rcu() waits for a reader",
	       .setup = setup_thing, .finish = nothing,
	       .threads = { { "reader", read_inside }, { "owner", free_later } });
PROVE_SCENARIO(rcu_two_readers, .says = "kfree_rcu() waits for two readers",
	       .setup = setup_thing, .finish = nothing,
	       .threads = { { "reader 1", read_inside }, { "reader 2", read_inside },
			    { "owner", free_later } });
PROVE_SCENARIO(rcu_synchronize, .says = "synchronize_rcu() waits for a reader",
	       .setup = setup_thing, .finish = nothing,
	       .threads = { { "reader", read_inside }, { "owner", free_after_readers } });
PROVE_SCENARIO(rcu_callback, .says = "call_rcu() waits for a reader",
	       .setup = setup_thing, .finish = rcu_barrier,
	       .threads = { { "reader", read_inside }, { "owner", free_by_callback } });
PROVE_SCENARIO(rcu_too_long, .says = "a reader uses the thing after its section",
	       .setup = setup_thing, .finish = nothing,
	       .threads = { { "reader", read_too_long }, { "owner", free_later } });
PROVE_SCENARIO(rcu_at_once, .says = "the owner waits for no reader",
	       .setup = setup_thing, .finish = nothing,
	       .threads = { { "reader", read_inside }, { "owner", free_at_once } });

static void work_runs(struct work_struct *work)
{
	prove_check(!atomic_xchg(&running, 1), "an item runs once at a time");
	prove_check(current_work() == work, "an item knows itself");
	atomic_inc(&runs);
	atomic_set_release(&running, 0);
}

static void setup_work(void)
{
	setup_thing();
	INIT_WORK(&published->work, work_runs);
}

static void queue_it(void)
{
	schedule_work(&published->work);
}

static void finish_work(void)
{
	int n;

	flush_work(&published->work);
	n = atomic_read(&runs);
	prove_check(n == 1 || n == 2, "an item that is queued runs");
	kfree(published);
}

static void cancel_it(void)
{
	queue_it();
	cancel_work_sync(&published->work);
	kfree(published);
}

static void forget_it(void)
{
	queue_it();
	kfree(published);
}

PROVE_SCENARIO(work_queued_twice, .says = "two threads queue an item",
	       .setup = setup_work, .finish = finish_work,
	       .threads = { { "one", queue_it }, { "other", queue_it } });
PROVE_SCENARIO(work_cancelled, .says = "an item is cancelled and freed",
	       .setup = setup_work, .finish = nothing, .threads = { { "owner", cancel_it } });
PROVE_SCENARIO(work_forgotten, .says = "an item is freed while it is queued",
	       .setup = setup_work, .finish = nothing, .threads = { { "owner", forget_it } });

static void sleep_until_deadline(void)
{
	ktime_t deadline = ktime_add_ms(ktime_get(), 5);
	int ret;

	set_current_state(TASK_INTERRUPTIBLE);
	ret = schedule_hrtimeout(&deadline, HRTIMER_MODE_ABS);
	prove_check(!ret == (ktime_get() >= deadline), "0 is returned at the deadline");
}

static void signal_first(void)
{
	prove_signal(0);
}

static void kill_first(void)
{
	prove_kill(0);
}

PROVE_SCENARIO(deadline_or_signal, .says = "a sleep ends by its timer or by a signal",
	       .setup = nothing, .finish = nothing,
	       .threads = { { "sleeper", sleep_until_deadline },
			    { "sender", signal_first } });

static void wait_flag(void)
{
	wait_event(queue, READ_ONCE(flag));
}

static void wait_flag_interruptible(void)
{
	int ret = wait_event_interruptible(queue, READ_ONCE(flag));

	prove_check(ret == 0 || ret == -ERESTARTSYS, "the flag or a signal ends a wait");
}

static void wait_flag_killable(void)
{
	prove_check(wait_event_killable(queue, READ_ONCE(flag)) == -ERESTARTSYS,
		    "only SIGKILL ends this wait");
}

static void set_flag(void)
{
	WRITE_ONCE(flag, 1);
	wake_up_all(&queue);
}

static void set_flag_ask_without_barrier(void)
{
	WRITE_ONCE(flag, 1);
	if (waitqueue_active(&queue))
		wake_up_all(&queue);
}

static void set_flag_ask(void)
{
	WRITE_ONCE(flag, 1);
	if (wq_has_sleeper(&queue))
		wake_up_all(&queue);
}

PROVE_SCENARIO(wait_event_woken, .says = "two threads wait for a flag",
	       .setup = nothing, .finish = nothing,
	       .threads = { { "waiter 1", wait_flag }, { "waiter 2", wait_flag },
			    { "setter", set_flag } });
PROVE_SCENARIO(wait_event_asks, .says = "the setter looks for sleepers after a barrier",
	       .setup = nothing, .finish = nothing,
	       .threads = { { "waiter", wait_flag }, { "setter", set_flag_ask } });
PROVE_SCENARIO(wait_event_no_barrier, .says = "the setter looks for sleepers too early",
	       .setup = nothing, .finish = nothing,
	       .threads = { { "waiter", wait_flag },
			    { "setter", set_flag_ask_without_barrier } });
PROVE_SCENARIO(wait_event_signal, .says = "a signal ends an interruptible wait",
	       .setup = nothing, .finish = nothing,
	       .threads = { { "waiter", wait_flag_interruptible },
			    { "sender", signal_first } });
PROVE_SCENARIO(wait_event_killed, .says = "SIGKILL ends a killable wait",
	       .setup = nothing, .finish = nothing,
	       .threads = { { "waiter", wait_flag_killable }, { "sender", kill_first } });
PROVE_SCENARIO(wait_event_deaf, .says = "a signal does not end a killable wait",
	       .setup = nothing, .finish = nothing,
	       .threads = { { "waiter", wait_flag_killable },
			    { "sender", signal_first } });

static void setup_completion(void)
{
	init_completion(&done);
}

static void await_completion(void)
{
	wait_for_completion(&done);
}

static void complete_once(void)
{
	complete(&done);
}

static void complete_for_all(void)
{
	complete_all(&done);
}

PROVE_SCENARIO(completion_all, .says = "complete_all() ends two waits",
	       .setup = setup_completion, .finish = nothing,
	       .threads = { { "waiter 1", await_completion },
			    { "waiter 2", await_completion },
			    { "completer", complete_for_all } });
PROVE_SCENARIO(completion_once, .says = "complete() ends one of two waits",
	       .setup = setup_completion, .finish = nothing,
	       .threads = { { "waiter 1", await_completion },
			    { "waiter 2", await_completion },
			    { "completer", complete_once } });

static void enable_inside(void)
{
	unsigned long flags;

	local_irq_save(flags);
	spin_lock_irq(&lock);
	spin_unlock_irq(&lock);
	local_irq_restore(flags);
}

static void allocate_inside(void)
{
	spin_lock(&lock);
	kfree(kmalloc(8, GFP_KERNEL));
	spin_unlock(&lock);
}

static void assert_without(void)
{
	lockdep_assert_held(&lock);
}

PROVE_SCENARIO(irqs_enabled_inside, .says = "a lock enables interrupts of its caller",
	       .setup = nothing, .finish = nothing, .threads = { { "owner", enable_inside } });
PROVE_SCENARIO(allocation_inside, .says = "an allocation sleeps under a spinlock",
	       .setup = nothing, .finish = nothing,
	       .threads = { { "owner", allocate_inside } });
PROVE_SCENARIO(lock_not_held, .says = "an assertion without the lock",
	       .setup = nothing, .finish = nothing, .threads = { { "owner", assert_without } });

static int hint;

static void store_hint(void)
{
	hint = 1;
}

static void store_hint_exempt(void)
{
	data_race(hint = 1);
}

static void look_at_hint(void)
{
	prove_check(hint <= 1, "the hint");
}

static void look_at_hint_exempt(void)
{
	prove_check(data_race(hint) <= 1, "the hint");
}

static void look_before_exempt(void)
{
	prove_check(hint <= 1 && data_race(hint) <= 1, "the hint");
}

static void use_exempt(void)
{
	prove_check(!data_race(published->value), "the thing as it was");
}

static void free_published(void)
{
	kfree(published);
}

PROVE_SCENARIO(data_race_read, .says = "data_race() exempts a read",
	       .setup = nothing, .finish = nothing,
	       .threads = { { "writer", store_hint }, { "reader", look_at_hint_exempt } });
PROVE_SCENARIO(data_race_write, .says = "data_race() exempts a write",
	       .setup = nothing, .finish = nothing,
	       .threads = { { "writer", store_hint_exempt }, { "reader", look_at_hint } });
PROVE_SCENARIO(data_race_other, .says = "data_race() exempts no other access",
	       .setup = nothing, .finish = nothing,
	       .threads = { { "writer", store_hint }, { "reader", look_before_exempt } });
PROVE_SCENARIO(data_race_freed, .says = "data_race() reads what was freed",
	       .setup = setup_thing, .finish = nothing,
	       .threads = { { "owner", free_published }, { "reader", use_exempt } });
