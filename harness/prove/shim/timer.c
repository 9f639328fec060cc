// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Time and timers. An armed timer is a thread that may begin at any moment: the
 * clock then moves to its expiry. No other thing moves the clock, so it never passes
 * a timer that has not fired. jiffies moves only with timers that count in ticks: the
 * tick is an interrupt, which may be late.
 */
#include <linux/hrtimer.h>
#include <linux/timer.h>

#include "shim.h"

#define CLOCK_START	NSEC_PER_SEC
#define TICKS_START	HZ

static s64 clock_now = CLOCK_START;
static unsigned long ticks_now = TICKS_START;

enum arming_state { ARMING_UNUSED, ARMING_ARMED, ARMING_RUNS, ARMING_OVER };

/**
 * struct arming - a timer that was started once
 * @state: the object of its points
 * @fire: what it runs
 * @arg: for @fire
 * @expires: on the clock
 * @ticks: in jiffies, or 0
 */
struct arming {
	int state;
	void (*fire)(void *arg);
	void *arg;
	s64 expires;
	unsigned long ticks;
};

/*
 * Each thread has places of its own: which of them it takes depends on nothing that
 * other threads do.
 */
#define ARMINGS		16

static struct arming armings[SHIM_TASKS][ARMINGS];
static int armings_used[SHIM_TASKS];

ktime_t ktime_get(void)
{
	return pv_load(&clock_now, sizeof(clock_now), PV_NEWEST);
}

unsigned long shim_jiffies(void)
{
	return pv_load(&ticks_now, sizeof(ticks_now), PV_NEWEST);
}

void shim_clock_pass(s64 time)
{
	pv_update(&clock_now, sizeof(clock_now), PV_RELAXED);
	if (clock_now < time)
		clock_now = time;
}

void shim_ticks_pass(unsigned long ticks)
{
	pv_update(&ticks_now, sizeof(ticks_now), PV_RELAXED);
	if (time_before(ticks_now, ticks))
		ticks_now = ticks;
}

static bool arming_armed(void *arg)
{
	return ((struct arming *)arg)->state == ARMING_ARMED;
}

static bool arming_over(void *arg)
{
	return ((struct arming *)arg)->state == ARMING_OVER;
}

static void arming_run(void *arg)
{
	struct arming *a = arg;

	pv_update(&a->state, sizeof(a->state), PV_FULL);
	if (a->state != ARMING_ARMED)
		return;
	a->state = ARMING_RUNS;
	shim_clock_pass(a->expires);
	if (a->ticks)
		shim_ticks_pass(a->ticks);
	a->fire(a->arg);
	pv_update(&a->state, sizeof(a->state), PV_FULL);
	a->state = ARMING_OVER;
}

static struct arming *arming_of(int arming)
{
	return &armings[0][arming - 1];
}

int shim_arm(void (*fire)(void *arg), void *arg, s64 expires, unsigned long ticks)
{
	const int slot = shim_slot();
	struct arming *a;

	if (armings_used[slot] == ARMINGS)
		pv_fail(PV_LIMIT, "one thread arms more than %d timers", ARMINGS);
	a = &armings[slot][armings_used[slot]++];
	*a = (struct arming) {
		.state = ARMING_ARMED, .fire = fire, .arg = arg,
		.expires = expires, .ticks = ticks,
	};
	pv_spawn("timer", arming_run, a, PROVE_IRQ | PV_MAYBE, arming_armed, &a->state);
	return a - armings[0] + 1;
}

int shim_disarm(int arming)
{
	struct arming *a = arming_of(arming);

	pv_update(&a->state, sizeof(a->state), PV_FULL);
	if (a->state == ARMING_RUNS)
		return -1;
	if (a->state == ARMING_OVER)
		return 0;
	a->state = ARMING_OVER;
	return 1;
}

void shim_arming_wait(int arming)
{
	struct arming *a = arming_of(arming);

	pv_block(&a->state, arming_over, a, "the end of a timer's function");
}

bool shim_is_armed(int arming)
{
	struct arming *a = arming_of(arming);

	return pv_load(&a->state, sizeof(a->state), PV_NEWEST) == ARMING_ARMED;
}

void hrtimer_init(struct hrtimer *timer, clockid_t clock, enum hrtimer_mode mode)
{
	timer->function = NULL;
	timer->armed = 0;
	timer->expires = 0;
}

static void hrtimer_fire(void *arg)
{
	struct hrtimer *timer = arg;

	pv_plain_read(timer, sizeof(*timer), CALLER);
	if (timer->function(timer) == HRTIMER_RESTART)
		timer->armed = shim_arm(hrtimer_fire, timer, timer->expires, 0);
}

/* The caller serialises the calls for one timer, as in the kernel. */
void hrtimer_start(struct hrtimer *timer, ktime_t time, enum hrtimer_mode mode)
{
	if (timer->armed)
		shim_disarm(timer->armed);
	timer->expires = mode & HRTIMER_MODE_REL ? ktime_add_safe(ktime_get(), time) : time;
	timer->armed = shim_arm(hrtimer_fire, timer, timer->expires, 0);
}

int hrtimer_try_to_cancel(struct hrtimer *timer)
{
	return timer->armed ? shim_disarm(timer->armed) : 0;
}

int hrtimer_cancel(struct hrtimer *timer)
{
	int ret;

	while ((ret = hrtimer_try_to_cancel(timer)) < 0)
		shim_arming_wait(timer->armed);
	return ret;
}

bool hrtimer_is_queued(struct hrtimer *timer)
{
	return timer->armed && shim_is_armed(timer->armed);
}

bool hrtimer_active(struct hrtimer *timer)
{
	struct arming *a = arming_of(timer->armed);

	return timer->armed &&
	       pv_load(&a->state, sizeof(a->state), PV_NEWEST) != ARMING_OVER;
}

u64 hrtimer_forward_now(struct hrtimer *timer, ktime_t interval)
{
	timer->expires = ktime_get() + interval;
	return 1;
}

static void sleeper_wake(void *arg)
{
	wake_up_process(arg);
}

/* Return: the timer has fired. */
static bool sleep_until(s64 expires, unsigned long ticks)
{
	const int arming = shim_arm(sleeper_wake, current, expires, ticks);
	int ret;

	schedule();
	ret = shim_disarm(arming);
	if (ret < 0)
		shim_arming_wait(arming);
	shim_set_state_relaxed(TASK_RUNNING);
	return ret <= 0;
}

int schedule_hrtimeout_range(ktime_t *expires, u64 slack, enum hrtimer_mode mode)
{
	if (!expires) {
		schedule();
		return -EINTR;
	}
	if (!*expires) {
		shim_set_state_relaxed(TASK_RUNNING);
		return 0;
	}
	if (mode & HRTIMER_MODE_REL)
		*expires = ktime_add_safe(ktime_get(), *expires);
	return sleep_until(*expires, 0) ? 0 : -EINTR;
}

int schedule_hrtimeout(ktime_t *expires, enum hrtimer_mode mode)
{
	return schedule_hrtimeout_range(expires, 0, mode);
}

/* Ticks that are left are all of them: only the timer moves jiffies. */
long schedule_timeout(long ticks)
{
	if (ticks == MAX_SCHEDULE_TIMEOUT) {
		schedule();
		return ticks;
	}
	if (ticks <= 0) {
		shim_set_state_relaxed(TASK_RUNNING);
		return 0;
	}
	return sleep_until(ktime_get() + ticks * TICK_NSEC, jiffies + ticks) ? 0 : ticks;
}

long schedule_timeout_interruptible(long ticks)
{
	shim_set_state_relaxed(TASK_INTERRUPTIBLE);
	return schedule_timeout(ticks);
}

long schedule_timeout_uninterruptible(long ticks)
{
	shim_set_state_relaxed(TASK_UNINTERRUPTIBLE);
	return schedule_timeout(ticks);
}

void timer_setup(struct timer_list *timer,
		 void (*function)(struct timer_list *timer), unsigned int flags)
{
	timer->function = function;
	hrtimer_init(&timer->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
}

static void timer_fire(void *arg)
{
	struct timer_list *timer = arg;

	pv_plain_read(timer, sizeof(*timer), CALLER);
	if (timer->function)
		timer->function(timer);
}

int mod_timer(struct timer_list *timer, unsigned long expires)
{
	const int queued = del_timer(timer);
	const long ticks = expires - jiffies;

	if (timer->function)
		timer->timer.armed = shim_arm(timer_fire, timer,
					      ktime_get() + max(ticks, 0L) * TICK_NSEC,
					      expires);
	return queued;
}

int timer_pending(const struct timer_list *timer)
{
	return timer->timer.armed && shim_is_armed(timer->timer.armed);
}

int del_timer(struct timer_list *timer)
{
	return hrtimer_try_to_cancel(&timer->timer) > 0;
}

int del_timer_sync(struct timer_list *timer)
{
	return hrtimer_cancel(&timer->timer);
}

int timer_shutdown_sync(struct timer_list *timer)
{
	timer->function = NULL;
	return del_timer_sync(timer);
}
