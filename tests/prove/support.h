/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What the scenarios of kmod/core share: one fabric with one domain and a few objects
 * of each kind, the calls that threads make on them, and the checks that follow.
 *
 * Every variable is zero when setup() begins. A thread writes only its own record, so
 * the records need no lock; finish() reads all of them.
 *
 * DOC: Numbers of entries
 *
 * An entry carries a number: that of its publisher times SERIES, plus its place in the
 * series of this publisher, from 1. So the checks see which entries are missing, which
 * came twice, and whether the entries of one publisher came in order.
 */
#ifndef PROVE_SUPPORT_H
#define PROVE_SUPPORT_H

#include <prove.h>

#include <linux/err.h>
#include <linux/slab.h>

#include <kfi_channel.h>

#include "core.h"

#define RECORDS		8	/* of threads; finish() uses the last one */
#define REST		(RECORDS - 1)
#define ENTRIES		8	/* in one record */
#define SERIES		16	/* more than the entries of one publisher */
#define FOREVER		(-1)	/* a timeout: no limit */
#define SOME_TIME	1	/* a timeout in milliseconds */

/**
 * struct record - what one thread has read
 * @ret: of its last call
 * @done: it has returned from its last call
 * @n: entries in @entry
 * @entry: numbers of entries, in the order in which they were read
 */
struct record {
	ssize_t ret;
	bool done;
	unsigned int n;
	unsigned long entry[ENTRIES];
};

extern struct record records[RECORDS];

/* The objects; NULL: not open. The context of each is its address here. */
extern struct kfi_fabric_base *fabric;
extern struct kfi_domain_base *domain;
extern struct kfi_ep_base *ep;
extern struct kfid_wait *set;
extern struct kfid_cq *cq[2];
extern struct kfid_cntr *cntr;
extern struct kfid_eq *eq;
extern struct kfid_comp_channel *channel;

/* The record of the running thread; that of finish() is the last one. */
struct record *mine(void);

/*
 * Opening. The domain comes first. Sources that are opened while there is a wait set are
 * in it, all others have a wait object of their own. Each open checks its success.
 */
void open_domain(void);
void open_set(enum kfi_wait_obj wait_obj);
void make_exclusive(void);
void open_cq(int i);
void open_threshold_cq(int i);
/* Without a wait object: its threads poll, or sleep in its channel. */
void open_waitless_cq(int i);
void open_cntr(void);
void open_eq(size_t size);
void open_channel(void);
/* An endpoint without bindings. */
void open_ep(void);

/*
 * A blocking read notes its threshold under the CQ's lock if it is the largest so far,
 * for providers that wait for room. Where none does, a threshold that was noted before
 * saves the order in which readers would do so, and most executions with it.
 */
void note_threshold(int i, size_t threshold);

/* The usual setups: a CQ whose readers need one entry; a wait set with one CQ. */
void setup_one_cq(void);
void setup_one_member(void);

/* The same with a result: 0, or as kfi_cq_open(). */
int try_open_cq(int i, size_t size, enum kfi_cq_wait_cond cond,
		kfi_comp_handler handler);

/* Closing. An object that is not in use closes. */
void must_close(struct kfid *fid);
void close_cq(int i);

/* Close everything that is open, the children first. */
void close_all(void);

/*
 * In finish(): the threads that still sleep in a queue get a signal and end, so that
 * everything can be closed. Nothing that they note afterwards counts.
 */
void end_sleepers(struct kfi_waitq *q);

/* Publications. The running thread reports entries 1 to @n of its series. */
unsigned long entry_number(unsigned int publisher, unsigned int i);
void publish(int i, unsigned int n);

/* The usual publishers: entries of the first CQ, one of the second CQ, an error. */
void publish_one(void);
void publish_two(void);
void publish_second(void);
void publish_error(void);

/* A provider reports one completion, which failed with @err or did not (0). */
void complete_op(int i, unsigned long number, int err);

/* A provider counts one success (KFI_WHY_EVENT) or failure (KFI_WHY_ERROR). */
void count_op(enum kfi_why why);
void lose_device(void);
/* The same, after a plain store: -KFI_ENODEV has to make it visible. */
extern bool unplugged;
void unplug(void);

/* The numbers of entries go to a record. Return: @n, which @ret of the record keeps. */
ssize_t note(struct record *r, const struct kfi_cq_entry *entry, ssize_t n);

/* Reads of a CQ that the running thread notes. Return: as kfi_cq_read(). */
ssize_t read_cq(int i, size_t count);
ssize_t sread_cq(int i, size_t count, size_t threshold, int timeout);

/* The usual threads: one entry of the first CQ, by a read or from a wait set. */
void read_one(void);
void read_one_in_time(void);
void wait_and_read(void);

/* A signal for the first thread. */
void signal_first(void);

/*
 * Only timers move the clock. So in a scenario with one timer, a call that its deadline
 * has ended returns exactly then.
 */
void check_deadline(ktime_t began, ssize_t ret);

/* For prove_ready(): is there something to read in the first CQ, or in the wait set? */
bool cq_is_ready(void);
bool set_is_ready(void);

/* Threads that sleep in a queue now; any thread may ask. */
unsigned int asleep_in(struct kfi_waitq *q);

/*
 * Only in finish(). What no thread has read of a CQ goes to the last record, up to an
 * error. Return: how many entries that are.
 */
unsigned int read_rest(int i);

/* How many times an entry was read, by all threads together. */
unsigned int times_read(unsigned long number);

/* The entries 1 to @n of a publisher were read once each, and in order. */
void check_entries(unsigned int publisher, unsigned int n);

/*
 * finish() of two readers that get one entry each: both of the third thread, or one of
 * the third and one of the fourth.
 */
void finish_two_entries(void);
void finish_two_publishers(void);

/* The counts of a queue: signals, wakes, overtaken, … */
struct kfi_counts counts_of(struct kfi_waitq *q);

/* A parameter of kmod/core/source.c. */
extern unsigned int param_handler_delay_us;

/* The queue of the first CQ, of the counter, of the EQ. */
struct kfi_waitq *cq_queue(void);
struct kfi_waitq *cntr_queue(void);
struct kfi_waitq *eq_queue(void);

#endif /* PROVE_SUPPORT_H */
