/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_TIMER_H
#define PROVE_SHIM_LINUX_TIMER_H

#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/kernel.h>
#include <linux/list.h>

/**
 * struct timer_list - a timer of the wheel: one that fires as an interrupt
 * @timer: does the work
 * @function: called when it fires; NULL after timer_shutdown_sync()
 */
struct timer_list {
	struct hrtimer timer;
	void (*function)(struct timer_list *timer);
};

#define from_timer(at, timer, member)	container_of(timer, typeof(*(at)), member)

void timer_setup(struct timer_list *timer,
		 void (*function)(struct timer_list *timer), unsigned int flags);
int mod_timer(struct timer_list *timer, unsigned long expires);
int timer_pending(const struct timer_list *timer);
int del_timer(struct timer_list *timer);
int del_timer_sync(struct timer_list *timer);
int timer_shutdown_sync(struct timer_list *timer);

#define timer_delete(timer)		del_timer(timer)
#define timer_delete_sync(timer)	del_timer_sync(timer)

#endif /* PROVE_SHIM_LINUX_TIMER_H */
