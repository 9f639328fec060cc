/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_HRTIMER_H
#define PROVE_SHIM_LINUX_HRTIMER_H

#include <time.h>

#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/types.h>

#define clockid_t	int

enum hrtimer_restart {
	HRTIMER_NORESTART,
	HRTIMER_RESTART,
};

enum hrtimer_mode {
	HRTIMER_MODE_ABS	= 0x00,
	HRTIMER_MODE_REL	= 0x01,
	HRTIMER_MODE_PINNED	= 0x02,
	HRTIMER_MODE_SOFT	= 0x04,
	HRTIMER_MODE_HARD	= 0x08,
	HRTIMER_MODE_ABS_PINNED	= HRTIMER_MODE_ABS | HRTIMER_MODE_PINNED,
	HRTIMER_MODE_REL_PINNED	= HRTIMER_MODE_REL | HRTIMER_MODE_PINNED,
	HRTIMER_MODE_ABS_SOFT	= HRTIMER_MODE_ABS | HRTIMER_MODE_SOFT,
	HRTIMER_MODE_REL_SOFT	= HRTIMER_MODE_REL | HRTIMER_MODE_SOFT,
	HRTIMER_MODE_ABS_HARD	= HRTIMER_MODE_ABS | HRTIMER_MODE_HARD,
	HRTIMER_MODE_REL_HARD	= HRTIMER_MODE_REL | HRTIMER_MODE_HARD,
};

/**
 * struct hrtimer - a timer
 * @function: called when it fires, as an interrupt
 * @armed: its last arming, see timer.c; 0: none
 * @expires: on the exploration's clock
 */
struct hrtimer {
	enum hrtimer_restart (*function)(struct hrtimer *timer);
	int armed;
	ktime_t expires;
};

void hrtimer_init(struct hrtimer *timer, clockid_t clock, enum hrtimer_mode mode);
void hrtimer_start(struct hrtimer *timer, ktime_t time, enum hrtimer_mode mode);
int hrtimer_cancel(struct hrtimer *timer);
int hrtimer_try_to_cancel(struct hrtimer *timer);
bool hrtimer_is_queued(struct hrtimer *timer);
bool hrtimer_active(struct hrtimer *timer);
u64 hrtimer_forward_now(struct hrtimer *timer, ktime_t interval);

#define hrtimer_init_on_stack(timer, clock, mode)	hrtimer_init(timer, clock, mode)
#define destroy_hrtimer_on_stack(timer)			((void)(timer))

int schedule_hrtimeout(ktime_t *expires, enum hrtimer_mode mode);
int schedule_hrtimeout_range(ktime_t *expires, u64 slack, enum hrtimer_mode mode);

#endif /* PROVE_SHIM_LINUX_HRTIMER_H */
