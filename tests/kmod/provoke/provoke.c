// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Makes the kernel misbehave on request, so that the harness can be seen to
 * notice: insmod provoke.ko what=warn|freeze, and on kernels that look for it
 * what=uaf|leak|sleep|locks|object|race. It never stays loaded.
 */
#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/err.h>
#include <linux/errno.h>
#include <linux/init.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/timer.h>

#define PROVOKE_BYTES	64
#define PROVOKE_ROUNDS	200000

static char *what = "";
module_param(what, charp, 0);
MODULE_PARM_DESC(what, "warn, freeze, uaf, leak, sleep, locks, object or race");

static DEFINE_SPINLOCK(provoke_spin);
static DEFINE_MUTEX(provoke_a);
static DEFINE_MUTEX(provoke_b);

/* Written by two threads. */
static unsigned long provoke_word;

static void provoke_warn(void)
{
	WARN(1, "provoked on request\n");
}

/* Called with interrupts off, so neither the tick nor a watchdog ends it. */
static void provoke_stop_cpu(void *unused)
{
	for (;;)
		cpu_relax();
}

static void provoke_freeze(void)
{
	on_each_cpu(provoke_stop_cpu, NULL, 0);
}

/* KASAN: read of what was freed. */
static void provoke_uaf(void)
{
	char *p = kmalloc(PROVOKE_BYTES, GFP_KERNEL);

	/* The compiler must not see that it is the same memory. */
	OPTIMIZER_HIDE_VAR(p);
	kfree(p);
	OPTIMIZER_HIDE_VAR(p);
	if (p)
		READ_ONCE(p[0]);
}

/* kmemleak: nobody has the pointer any more. Zeros are reported one search earlier. */
static void provoke_leak(void)
{
	void *p = kmalloc(PROVOKE_BYTES, GFP_KERNEL);

	if (p)
		memset(p, 0x5a, PROVOKE_BYTES);
	OPTIMIZER_HIDE_VAR(p);
}

/* DEBUG_ATOMIC_SLEEP */
static void provoke_sleep(void)
{
	spin_lock(&provoke_spin);
	might_sleep();
	spin_unlock(&provoke_spin);
}

/* lockdep: a after b, where it was b after a. */
static void provoke_locks(void)
{
	mutex_lock(&provoke_a);
	mutex_lock(&provoke_b);
	mutex_unlock(&provoke_b);
	mutex_unlock(&provoke_a);

	mutex_lock(&provoke_b);
	mutex_lock(&provoke_a);
	mutex_unlock(&provoke_a);
	mutex_unlock(&provoke_b);
}

static void provoke_late(struct timer_list *timer)
{
}

/* DEBUG_OBJECTS: freed while it runs; the kernel then stops it. */
static void provoke_object(void)
{
	struct timer_list *timer = kmalloc(sizeof(*timer), GFP_KERNEL);

	if (!timer)
		return;
	timer_setup(timer, provoke_late, 0);
	mod_timer(timer, jiffies + 3600 * HZ);
	OPTIMIZER_HIDE_VAR(timer);
	kfree(timer);
}

static void provoke_write(void)
{
	int i;

	for (i = 0; i < PROVOKE_ROUNDS; i++) {
		provoke_word++;
		barrier();
		if (!(i % 1024))
			cond_resched();
	}
}

static int provoke_racer(void *done)
{
	provoke_write();
	complete(done);
	return 0;
}

/* KCSAN: two threads count with one plain variable. */
static void provoke_race(void)
{
	DECLARE_COMPLETION_ONSTACK(done);
	struct task_struct *thread;

	thread = kthread_run(provoke_racer, &done, "provoke");
	if (IS_ERR(thread))
		return;
	provoke_write();
	wait_for_completion(&done);
}

static const struct {
	const char *name;
	void (*act)(void);
} provoke_acts[] = {
	{ "warn", provoke_warn },
	{ "freeze", provoke_freeze },
	{ "uaf", provoke_uaf },
	{ "leak", provoke_leak },
	{ "sleep", provoke_sleep },
	{ "locks", provoke_locks },
	{ "object", provoke_object },
	{ "race", provoke_race },
};

static int __init provoke_init(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(provoke_acts); i++) {
		if (strcmp(what, provoke_acts[i].name))
			continue;
		provoke_acts[i].act();
		/* Done: nothing is left that could be unloaded. */
		return -ECANCELED;
	}
	return -EINVAL;
}
module_init(provoke_init);

MODULE_DESCRIPTION("Provokes kernel warnings and hangs for tests of the harness");
MODULE_AUTHOR("kfabric developers");
MODULE_LICENSE("Dual BSD/GPL");
