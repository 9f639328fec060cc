/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Inside kfabric.ko.
 *
 * DOC: Lock order
 *
 *   kfi_pep_lock		which EQ a passive endpoint reports to
 *     domain->lock		the list of a domain's sources
 *       source->lock		one CQ, EQ or counter: what is stored, who watches
 *         poll->lock		one poll set: its ready list and marks (a leaf)
 *         channel->lock	one completion channel: its events (a leaf)
 *         queue->head.lock	one queue of sleepers
 *           watch->head.lock	who polls descriptors of its owner
 *   domain->eps_lock		the list of a domain's endpoints
 *     ep->zero			what it had counted before its last reset (a leaf)
 *     ep->profile_lock		the provider's, see kfi_ep_base_profile()
 *       profile->lock		events that nobody has read yet
 *         queue->head.lock
 *
 * All are spinlocks taken with interrupts off, since a provider may report from
 * any context. What sleeps (reading for user space, closing) holds none of them.
 *
 * DOC: From a report to a running thread
 *
 * A publication has two phases. First every target (the CQ and the counters of
 * one completion) stores it under its own lock and updates whether it is ready.
 * Only when all have stored does the second phase wake: each distinct queue
 * once. So nobody who is woken finds one of them still untouched. (Who merely
 * looks, without having slept, may: the first of them is ready by then.)
 */
#ifndef _KFABRIC_CORE_H_
#define _KFABRIC_CORE_H_

#include <linux/atomic.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/log2.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <kfi_core.h>
#include <kfi_test.h>
#include <trace/events/kfabric.h>

#include "../compat.h"

struct kfi_channel;
struct kfi_notify;
struct kfi_source;
struct kfi_turns;
struct kfi_wake;

/* Classes of objects that begin with a struct kfi_ep_base. */
#define KFI_ENDPOINTS							\
	(BIT(KFI_CLASS_EP) | BIT(KFI_CLASS_SEP) | BIT(KFI_CLASS_RX_CTX) |	\
	 BIT(KFI_CLASS_TX_CTX) | BIT(KFI_CLASS_SRX_CTX))

static inline bool kfi_is_ep(size_t fclass)
{
	return fclass < BITS_PER_LONG && (KFI_ENDPOINTS & BIT(fclass));
}

/* The condition of KFI_WAIT_MUTEX_COND is the queue; this is its mutex. */
struct kfi_cond {
	struct mutex mutex;	/* the ULP's, for whatever it wants */
};

/**
 * struct kfi_waitq - what threads sleep on
 * @head: the Linux wait queue; @head.lock protects the list and all that is
 *	  not atomic or constant
 * @wake: the wake-up under way, for the wake function; @head.lock
 * @pubs: publications so far; numbers them from 1
 * @nready: members of which something can be read
 * @sleepers: waiters on the list (waitqueue_active() would count strangers)
 * @living: members (CQs, EQs and counters) whose device is there
 * @lost: the others
 * @turns: exclusive waiting, see exclusive.c; NULL: every sleeper is woken
 * @watch: for descriptors, see watch.c; NULL: nobody ever asked
 * @cond: for KFI_WAIT_MUTEX_COND, see cond.c
 * @fid: the wait set, or the CQ, EQ or counter that owns it
 * @id: of the same
 * @dead: there are members, and the device of each is gone
 * @yields: KFI_WAIT_YIELD: waiters give the CPU away instead of sleeping
 * @counts: for profiles, see profile.c
 * @test_link: on the list of the test-option build
 *
 * A wait set is one of these with many members; a CQ, EQ or counter with a
 * wait object of its own is one with a single member.
 */
struct kfi_waitq {
	wait_queue_head_t head;
	const struct kfi_wake *wake;
	atomic64_t pubs;
	atomic_t nready;
	unsigned int sleepers;
	unsigned int living;
	unsigned int lost;
	struct kfi_turns *turns;
	struct kfi_watch *watch;
	struct kfi_cond cond;
	struct kfid *fid;
	u32 id;
	bool dead;
	bool yields;
	struct kfi_counts counts;
#ifdef KFABRIC_TEST
	struct list_head test_link;
#endif
};

/**
 * struct kfi_waiter - one thread in one blocking call
 * @wqe: its place on the queue; gone from there as soon as it is woken
 * @queue: where it sleeps
 * @mutex: released once it is on the queue, or NULL
 * @need: it is woken when the object has this much; 0 for a wait set
 * @seen: publications before it looked; these concern it no more
 * @seq: the publication that woke it; 0 for a wake that is none
 * @have: how much the object had then
 * @source: what was published on
 * @why: why it was woken; 0 while it was not
 * @counted: a signal stands behind the wake-up
 * @overtaken: wake-ups of this call for what somebody else took
 * @spurious: times that it ran in this call with nothing there
 * @pauses: times that it slept since it got onto the queue
 * @began: when it got onto the queue, in jiffies
 * @since: the same in nanoseconds; 0: times are not measured
 * @at: when the signal came that woke it; 0 as above
 *
 * @seq to @counted, and @at, are written by the wake function under the queue's lock
 * and read by the sleeper once it sees @why, or is off the queue.
 */
struct kfi_waiter {
	struct wait_queue_entry wqe;
	struct kfi_waitq *queue;
	struct mutex *mutex;	/* the ULP's, of KFI_WAIT_MUTEX_COND */
	u64 need;
	u64 seen;
	u64 seq;
	u64 have;
	u32 source;
	enum kfi_why why;
	bool counted;
	u32 overtaken;
	u32 spurious;
	u32 pauses;
	unsigned long began;
	u64 since;
	u64 at;
};

/**
 * struct kfi_wake - a wake-up on its way to a queue
 * @seq: number of the publication, 0 if it is none (a wake handed on)
 * @have: how much the source has now, for waiters with a threshold
 * @source: id of what was published on
 * @why: for the sleeper and for tracing
 * @all: every waiter: not one of the exclusive ones, and whatever its threshold
 * @counted: it was signalled, and counted; by kfi_waitq_wake_locked()
 * @at: when; 0: times are not measured
 */
struct kfi_wake {
	u64 seq;
	u64 have;
	u32 source;
	enum kfi_why why;
	bool all;
	bool counted;
	u64 at;
};

/* Is what the call waits for there? Takes the object's lock at most. */
typedef bool (*kfi_ready_fn)(void *arg);

void kfi_waitq_init(struct kfi_waitq *q, struct kfid *fid, u32 id);
void kfi_waitq_fini(struct kfi_waitq *q);
int kfi_waitq_kill(struct kfi_waitq *q);
void kfi_waiter_init(struct kfi_waiter *w, struct kfi_waitq *q, u64 need,
		     bool exclusive);
int kfi_waitq_sleep(struct kfi_waiter *w, kfi_ready_fn ready, void *arg,
		    ktime_t deadline);
void kfi_waitq_wake(struct kfi_waitq *q, struct kfi_wake *wake);
void kfi_waitq_wake_locked(struct kfi_waitq *q, struct kfi_wake *wake);
bool kfi_interrupted(void);
void kfi_waitq_walk(struct kfi_waitq *q, const struct kfi_wake *wake);
void kfi_waiter_end(struct kfi_waiter *w, int ret);

/* profile.c */
void kfi_profiles_lose(struct kfi_domain_base *domain);

/* counts.c: for profiles */
extern atomic_t kfi_timing;

/* The time, while anybody wants times to be measured; else 0. */
static inline u64 kfi_stamp(void)
{
	return unlikely(atomic_read(&kfi_timing)) ? ktime_get_ns() : 0;
}

/* Add one latency to a histogram. */
static inline void kfi_count_latency(struct kfi_counts *counts, u64 from, u64 to)
{
	unsigned int bucket = to > from ? ilog2(to - from) : 0;

	counts->latency[min_t(unsigned int, bucket, KFI_PROFILE_BUCKETS - 1)]++;
}

void kfi_timing_on(void);
void kfi_timing_off(void);
void kfi_counts_add(struct kfi_counts *to, const struct kfi_counts *from);
int kfi_fid_counts(struct kfid *fid, struct kfi_counts *counts);
void kfi_fid_counts_reset(struct kfid *fid);
void kfi_source_counts(struct kfi_source *src, struct kfi_counts *counts);
void kfi_source_keep_counts(struct kfi_source *src);
void kfi_ep_counts(struct kfi_ep_base *base, struct kfi_counts *counts);
void kfi_ep_keep_counts(struct kfi_ep_base *base);
void kfi_waitq_counts(struct kfi_waitq *q, struct kfi_counts *counts);
void kfi_waitq_counts_reset(struct kfi_waitq *q);
void kfi_poll_counts(struct kfid_poll *pollset, struct kfi_counts *counts);
void kfi_poll_counts_reset(struct kfid_poll *pollset);

/* listing.c: all objects there are */
void kfi_listed_add(struct kfi_listed *listed, struct kfid *fid);
void kfi_listed_del(struct kfi_listed *listed);
void kfi_listing_init(void);
void kfi_listing_exit(void);

/* members.c: what a queue knows of its members, and waiting for any of them */
void kfi_waitq_join(struct kfi_waitq *q);
void kfi_waitq_lose(struct kfi_waitq *q);
void kfi_waitq_leave(struct kfi_waitq *q, bool lost);
int kfi_waitq_wait(struct kfi_waitq *q, struct mutex *mutex, ktime_t deadline);
int kfi_waitq_getwait(struct kfi_waitq *q, enum kfi_wait_obj wait_obj, void *arg);
struct kfi_waitq *kfi_fid_queue(struct kfid *fid);

/* exclusive.c */
int kfi_turns_set(struct kfi_waitq *q, bool on);
void kfi_turn_given(struct kfi_waitq *q, struct task_struct *task);
void kfi_turn_return(struct kfi_waitq *q);
void kfi_turn_used(struct kfi_source *src, u64 left);

/* channel.c, notify.c: completion channels */
u64 kfi_channel_number(struct kfi_channel *ch);
void kfi_channel_announce(struct kfi_channel *ch, u32 source, u64 seq);
struct kfi_waitq *kfi_channel_queue(struct kfid *fid);
struct kfi_channel *kfi_notify_stored(struct kfi_source *src, bool solicited);
struct kfi_channel *kfi_notify_channel(const struct kfi_source *src);
void kfi_notify_lose(struct kfi_source *src);
void kfi_notify_close(struct kfi_source *src);
int kfi_notify_drain(struct kfi_source *src);
void kfi_notify_fini(struct kfi_source *src);

/* watch.c */
void kfi_watch_wake(struct kfi_waitq *q);
void kfi_watch_end(struct kfi_waitq *q);

/**
 * struct kfi_source - what a CQ, an EQ and a counter have in common
 * @lock: protects what is stored, @ready, @changes, @members and @armed
 * @fid: the object
 * @fabric: it lives on; wait sets are shared within one
 * @domain: of a CQ or counter; NULL for an EQ
 * @own: its own queue: its sleepers', unless it is in a wait set, and that of
 *	 its descriptors
 * @queue: where its sleepers are: @own, the wait set's, or NULL (KFI_WAIT_NONE)
 * @set: the wait set, pinned, or NULL
 * @wait_obj: as asked for when it was opened
 * @ready: a read would return something
 * @changes: of a counter: completions, errors, adderr and seterr so far
 * @lost: its device is gone, and its last entry stored; domain->lock
 * @notify: of a CQ that is bound to a completion channel; set once, under
 *	    domain->lock and @lock
 * @members: its memberships in poll sets
 * @sibling: on its domain's list
 * @handler: calls the ULP's handler
 * @moderation: puts it off, see handler_delay_us
 * @handled: there is a handler
 * @armed: the next time that something becomes readable the handler runs
 * @closing: it is being closed: nobody can read it any more, so it is not ready
 * @cpu: where it runs, or WORK_CPU_UNBOUND
 * @id: names the object in tracepoints
 * @counts: completions, errors, overruns and deepest; the others are @own's
 * @listed: on the list of all objects
 * @rcu: frees the object, see kfi_publish()
 */
struct kfi_source {
	spinlock_t lock;	/* what is stored, who watches */
	struct kfid *fid;
	struct kfi_fabric_base *fabric;
	struct kfi_domain_base *domain;
	struct kfi_waitq own;
	struct kfi_waitq *queue;
	struct kfid_wait *set;
	enum kfi_wait_obj wait_obj;
	bool ready;
	bool lost;
	u64 changes;
	struct kfi_notify *notify;
	struct list_head members;
	struct list_head sibling;
	struct work_struct handler;
	struct hrtimer moderation;
	bool handled;
	bool armed;
	bool closing;
	int cpu;
	u32 id;
	struct kfi_counts counts;
	struct kfi_listed listed;
	struct rcu_head rcu;
};

/**
 * struct kfi_source_attr - how a source is opened
 * @fabric: of it
 * @domain: parent of a CQ or counter; NULL: the fabric is the parent
 * @wait_obj: wait object asked for
 * @set: wait set, with KFI_WAIT_SET
 * @handler: runs when something becomes readable, or NULL
 * @cpu: where it runs, or WORK_CPU_UNBOUND
 */
struct kfi_source_attr {
	struct kfi_fabric_base *fabric;
	struct kfi_domain_base *domain;
	enum kfi_wait_obj wait_obj;
	struct kfid_wait *set;
	work_func_t handler;
	int cpu;
};

int kfi_source_init(struct kfi_source *src, struct kfid *fid,
		    const struct kfi_source_attr *attr);
int kfi_source_kill(struct kfi_source *src);
void kfi_source_fini(struct kfi_source *src);
bool kfi_source_stored(struct kfi_source *src, enum kfi_why why, u64 fill);
void kfi_source_lose(struct kfi_source *src);
void kfi_source_taken(struct kfi_source *src, u64 left);
void kfi_source_set_ready(struct kfi_source *src, bool ready);
void kfi_source_fire(struct kfi_source *src);
int kfi_source_blocking(const struct kfi_source *src);
int kfi_source_control(struct kfid *fid, int command, void *arg);
struct kfi_source *kfi_fid_source(struct kfid *fid);

/* What a read or a poll does first. Caller holds no lock. */
static inline void kfi_domain_progress(struct kfi_domain_base *domain)
{
	if (domain && domain->progress)
		domain->progress(domain);
}

/*
 * The device is gone: what cannot be read yet will never come. To be asked before
 * looking: the last entry is stored before this is said.
 */
static inline bool kfi_source_lost(const struct kfi_source *src)
{
	/* Pairs with kfi_source_lose(). */
	return smp_load_acquire(&src->lost);
}

/* A read found nothing: the handler shall run for what comes next. */
static inline void kfi_source_arm(struct kfi_source *src)
{
	lockdep_assert_held(&src->lock);
	src->armed = src->handled;
}

/**
 * struct kfi_target - one object of a publication
 * @src: the object; NULL: not a target
 * @wake: what its queue will be told
 * @fire: its handler was armed and shall run
 * @channel: the completion channel that has an event of it, or NULL
 * @event: number of that publication
 */
struct kfi_target {
	struct kfi_source *src;
	struct kfi_wake wake;
	bool fire;
	struct kfi_channel *channel;
	u64 event;
};

void kfi_publish(struct kfi_target *targets, unsigned int n);
void kfi_hand_on(struct kfi_source *src, u64 have);

/* First phase: store one thing and fill in the target; the caller publishes. */
void kfi_cq_store(struct kfid_cq *cq, const struct kfi_completion *comp,
		  struct kfi_target *target);
void kfi_cntr_count(struct kfid_cntr *cntr, enum kfi_why why,
		    struct kfi_target *target);

/* The source became ready or changed. Caller holds source->lock. */
void kfi_poll_notify(struct kfi_source *src, enum kfi_why why);

ktime_t kfi_sread_deadline(int timeout_ms);

struct kfi_waitq *kfi_wait_queue(struct kfid_wait *waitset);
bool kfi_wait_on_fabric(struct kfid_wait *waitset,
			const struct kfi_fabric_base *fabric);
struct kfi_source *kfi_cq_source(struct kfid_cq *cq);
struct kfi_source *kfi_eq_source(struct kfid_eq *eq);
struct kfi_source *kfi_cntr_source(struct kfid_cntr *cntr);
u32 kfi_poll_id(const struct kfid_poll *pollset);
struct kfi_waitq *kfi_profile_queue(struct kfid_profile *prof);

static inline struct kfi_domain_base *kfi_domain_of(struct kfid_domain *domain)
{
	return container_of(domain, struct kfi_domain_base, domain);
}

static inline struct kfi_fabric_base *kfi_fabric_of(struct kfid_fabric *fabric)
{
	return container_of(fabric, struct kfi_fabric_base, fabric);
}

#define KFI_EQ_PAYLOAD	(sizeof(struct kfi_eq_cm_entry) + KFI_EQ_DATA_MAX)

/**
 * struct kfi_eq_slot - one event
 * @event: its number; of an error event unused
 * @len: bytes of @payload, or of the error's data
 * @is_err: it is an error event
 * @drop: frees what the payload owns, if nobody reads it
 * @err: an error event; its err_data is in @payload
 * @payload: what kfi_eq_read() returns
 */
struct kfi_eq_slot {
	u32 event;
	u32 len;
	bool is_err;
	void (*drop)(u32 event, void *buf);
	struct kfi_eq_err_entry err;
	u8 payload[KFI_EQ_PAYLOAD] __aligned(8);
};

bool kfi_eq_extract(struct kfid_eq *eq, const struct kfid *fid,
		    struct kfi_eq_slot *out);
void kfi_eq_drop(struct kfi_eq_slot *slot);

/* Passive endpoints and the EQ that they report to; see base.c. */
void kfi_pep_detach_all(struct kfid_eq *eq);

u32 kfi_new_id(void);

extern struct workqueue_struct *kfi_handler_wq;

#ifdef KFABRIC_TEST
void kfi_test_init(void);
void kfi_test_exit(void);
void kfi_test_queue_add(struct kfi_waitq *q);
void kfi_test_queue_del(struct kfi_waitq *q);
bool kfi_test_fault_point(struct kfi_waitq *q, struct kfi_wake *wake);
void kfi_test_look(void);
#else
static inline void kfi_test_init(void) {}
static inline void kfi_test_exit(void) {}
static inline void kfi_test_queue_add(struct kfi_waitq *q) {}
static inline void kfi_test_queue_del(struct kfi_waitq *q) {}
static inline void kfi_test_look(void) {}
static inline bool kfi_test_fault_point(struct kfi_waitq *q,
					struct kfi_wake *wake)
{
	return false;
}
#endif

#endif /* _KFABRIC_CORE_H_ */
