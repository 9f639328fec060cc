/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Tests of what only a caller in the kernel can see. A case is a function; it
 * runs when its file in /sys/kernel/debug/kfi_ktest is read, and the file's
 * content is "ok" or what failed. The objects are the mock provider's.
 */
#ifndef _KFI_KTEST_H_
#define _KFI_KTEST_H_

#include <linux/kthread.h>
#include <linux/seq_file.h>

#include <kfabric.h>
#include <kfi_channel.h>
#include <kfi_cm.h>
#include <kfi_core.h>
#include <kfi_domain.h>
#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <kfi_errno.h>
#include <kfi_mock.h>

/* Ends a test that hangs; no test passes or fails by the clock. */
#define KT_DEADLINE	(10 * HZ)
#define KT_DEADLINE_MS	10000

struct kt;

/* One of several kthreads; see kt_hire(). */
struct kt_hand {
	struct kt *kt;
	struct task_struct *task;
	struct completion started;
	struct completion done;
	int (*body)(struct kt *kt);
	int ret;			/* what @body returned, once @done */
};

#define KT_HANDS	5

/* One run of a case; see kt_open() for the objects. */
struct kt {
	struct seq_file *seq;		/* where it says what failed */
	bool failed;

	/* To be set before kt_open(). */
	kfi_comp_handler comp_handler;
	kfi_event_handler event_handler;
	enum kfi_wait_obj set_obj;	/* of the wait set; 0: KFI_WAIT_QUEUE */
	size_t cq_size;			/* entries; 0: as many as usual */

	struct kfi_info *info;
	struct kfid_fabric *fabric;
	struct kfid_wait *wait;		/* has eq, cq and cntr; or NULL */
	struct kfid_eq *eq;
	struct kfid_domain *domain;
	struct kfid_cq *cq;
	struct kfid_cntr *cntr;
	struct kfid_poll *poll;
	struct kfid_comp_channel *channel;
	struct kfid_ep *ep;
	const struct kfi_mock_ops *mock;
	struct kfid_profile *prof[2];	/* closed by kt_close() */

	/* A kthread that blocks; see kt_start(). */
	struct task_struct *thread;
	struct completion started;
	int (*body)(struct kt *kt);
	bool hold;			/* enter @body only when told to stop */
	int first;			/* what @body returned */
	int second;			/* and again */

	/* Kthreads that each make one call; see kt_hire(). */
	struct kt_hand hands[KT_HANDS];
	struct kfi_mutex_cond pair;	/* for them */
	bool flag;			/* protected by pair.mutex */

	/* What handlers note. */
	struct completion called;
	atomic_t calls;
	atomic_t inside;
	atomic_t reentered;
	atomic_t seen;
	int handler_err;
};

bool kt_holds(struct kt *kt, const char *file, int line, const char *what,
	      bool cond);
bool kt_equal(struct kt *kt, const char *file, int line, const char *what,
	      s64 got, s64 want);

/* Ends the case if it does not hold; kt_close() cleans up. */
#define KT_CHECK(kt, cond)						\
do {									\
	if (!kt_holds(kt, __FILE__, __LINE__, #cond, cond))		\
		return;							\
} while (0)

/* The same for calls whose result helps to see why. */
#define KT_EQ(kt, expr, want)						\
do {									\
	if (!kt_equal(kt, __FILE__, __LINE__, #expr " == " #want,	\
		      expr, want))					\
		return;							\
} while (0)

struct kfi_info *kt_hints(void);
int kt_open(struct kt *kt, enum kfi_wait_obj wait_obj);
void kt_close(struct kt *kt);
void kt_close_ep(struct kt *kt);
void kt_close_cq(struct kt *kt);
int kt_command(struct kt *kt, const char *fmt, ...) __printf(2, 3);
u32 kt_ep_id(const struct kt *kt);

int kt_start(struct kt *kt, int (*body)(struct kt *kt), bool hold);
int kt_stop(struct kt *kt);
bool kt_asleep(struct task_struct *task);
int kt_until_asleep(struct kt *kt);

int kt_hire(struct kt *kt, int hand, int (*body)(struct kt *kt));
int kt_until_hand_asleep(struct kt *kt, int hand);
int kt_hand_result(struct kt *kt, int hand);
int kt_hands_done(struct kt *kt);
void kt_dismiss(struct kt *kt, int hand);

struct kt_case {
	const char *name;
	void (*run)(struct kt *kt);
};

extern const struct kt_case kt_registry_cases[];
extern const struct kt_case kt_handler_cases[];
extern const struct kt_case kt_wait_cases[];
extern const struct kt_case kt_serve_cases[];
extern const struct kt_case kt_timeout_cases[];
extern const struct kt_case kt_cond_cases[];
extern const struct kt_case kt_exclusive_cases[];
extern const struct kt_case kt_profile_cases[];
extern const struct kt_case kt_channel_cases[];

#endif /* _KFI_KTEST_H_ */
