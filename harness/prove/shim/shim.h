/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the shim's own files share. The files of this folder are not instrumented:
 * each function passes its points first, and then changes plain memory in one step.
 * Those of kernel/ and kfabric/ are compiled as the files under test are.
 */
#ifndef PROVE_SHIM_H
#define PROVE_SHIM_H

#include <linux/sched.h>
#include <linux/types.h>

#include <engine.h>
#include <prove.h>

/* One more than threads: setup() and finish() run as a thread, too. */
#define SHIM_TASKS	(PV_MAX_THREADS + 1)

#define CALLER	__builtin_return_address(0)

/* The running thread's place in tables, from 0. */
int shim_slot(void);

/* The exploration's time: moves forward to @time, as a step. */
void shim_clock_pass(s64 time);

/* A timer's time in ticks has come; the same for jiffies. */
void shim_ticks_pass(unsigned long ticks);

/**
 * shim_arm() - let a function run as an interrupt at any moment from now on
 * @fire: the function
 * @arg: its argument
 * @expires: what the clock shows then, at least
 * @ticks: what jiffies shows then, at least; 0: it stays
 *
 * Return: for shim_disarm() and others; never 0.
 */
int shim_arm(void (*fire)(void *arg), void *arg, s64 expires, unsigned long ticks);

/* Return: 1: it will not run; 0: it has run; -1: it is running. */
int shim_disarm(int arming);

/* Wait until it has run; not in the function itself. */
void shim_arming_wait(int arming);

bool shim_is_armed(int arming);

#endif /* PROVE_SHIM_H */
