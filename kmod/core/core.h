/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The private header of kfabric.ko: every file of core includes it.
 *
 * A folder has one private header, named after the folder. A type that only the
 * files of one object share stands in a narrow header that includes this one:
 * channel.h for channel.c and notify.c, profile.h for profile*.c and listing.c.
 * Code of the test-option build is in hooks.c; kfi_test.h declares what other
 * modules use of it, the end of this file declares the rest.
 *
 * DOC: Terms
 *
 *   source		a CQ, an EQ or a counter
 *   queue		struct kfi_waitq, a list of sleeping threads; each wait set,
 *			source, completion channel and profile has one
 *   waiter		one thread in one blocking call
 *   member		a source in a wait set or in a poll set
 *   publication	one report, made visible and then announced
 *   turn		an exclusive wake-up token, see struct kfi_turns
 *   hand on		give a wake-up that was not used to another waiter
 *   foreign entry	an entry on the list of a queue that is not one of our
 *			waiters: KFI_GETWAIT gives the list to ULPs
 *
 * DOC: Lock order
 *
 * A lock is taken inside the lock that it is indented under. The nesting shown once
 * below a lock applies wherever that lock appears again. This list has the core's
 * locks, and the locks that are held over calls into the core. The private headers
 * of dev, verbs and mock have the locks that stay inside their folder.
 *
 * Mutexes, process context only:
 *
 *   kfi_providers_lock		the list of providers; held over a provider's
 *				kgetinfo(), so its mutexes come inside
 *   ep->sem, obj->readers	kmod/dev; their order is in kfd.h. Held over calls
 *				of the API, never while the thread sleeps in a wait
 *     kfv_lock, ctl and others	kmod/verbs; in kfi_verbs.h and rdm/rdm.h
 *       kfi_listed_lock	the list of all objects
 *     kfm_lock			kmod/mock; in mock.h
 *       kfi_listed_lock
 *   client->rings_lock	kmod/dev: inside obj->readers; held over
 *				kfi_cq_consume_to()
 *   cond->mutex		the ULP's, of KFI_WAIT_MUTEX_COND. A waiter enters its
 *				queue under it; no publication takes it.
 *
 * Spinlocks, inside any of the mutexes:
 *
 *   client->objects.xa_lock	kmod/dev: held over kfi_ack_cq_events() and
 *				kfi_cq_discard_events()
 *     channel->lock
 *     queue->head.lock
 *   kfr_rx.multi_lock,		providers: held over a report, to keep reports in
 *   kfm_domain.progress	order
 *     ep->profile_lock
 *     source->lock
 *     queue->head.lock
 *   kfi_pep_lock		which EQ a passive endpoint reports to; held over
 *				the report, and while an event is taken back
 *     source->lock		the EQ's
 *     queue->head.lock
 *   domain->lock		the list of a domain's CQs and counters; held while
 *				device loss is published on each
 *     source->lock
 *     queue->head.lock
 *   source->lock		one CQ, EQ or counter: its entries, its readiness,
 *				its memberships in poll sets
 *     poll->lock		one poll set: its ready list and marks (a leaf)
 *     channel->lock		one completion channel: its events (a leaf)
 *     queue->head.lock		one queue: its waiters, turns and counts
 *       watch->head.lock	threads that poll descriptors of the queue's owner
 *         (epoll's locks)	in the callback of an entry
 *   domain->eps_lock		the list of a domain's endpoints
 *     ep->zero			counts before the last reset (a leaf)
 *     ep->profile_lock		the provider's, see kfi_ep_base_profile():
 *				kfr_rx.lock, kfm_ep.lock
 *       source->lock		in kfi_cq_reserve() and kfi_cq_unreserve()
 *       ep->zero
 *       profile->lock		kept events and the snapshot of a profile (a leaf)
 *       kfi_callers_lock	threads inside a profile's callback (a leaf)
 *       queue->head.lock	the profile's
 *   kfi_test_lock		test option: armed faults, the list of queues
 *     queue->head.lock
 *
 * No thread holds the locks of two sources, two queues or two poll sets at once. A
 * callback of a profile runs under profile_lock; if it makes an event on another
 * endpoint, that endpoint's profile_lock nests inside. All spinlocks but dev's are
 * taken with interrupts off, since a provider may report from any context. A thread
 * holds none of them while it sleeps (in a read for user space, or in a close).
 *
 * DOC: From a report to a running thread
 *
 * A publication has two phases. In the first, every target (the CQ and the
 * counters of one completion) stores under its own lock and updates its
 * readiness. After all of them have stored, the second phase wakes each distinct
 * queue once. So a woken thread finds every target updated. A thread that looks
 * without having slept may see the first target updated and the second one not.
 *
 * DOC: A flag, then a lock
 *
 * Some flags are set and read without a barrier, because a lock orders what they
 * announce. The publisher stores with the lock held, and sets the flag after it has
 * taken the lock. The reader reads the flag first. It looks with the lock held, or
 * after it has held the lock:
 *
 *	publisher			reader
 *	---------			------
 *	lock; store; unlock
 *	set the flag			read the flag
 *					lock; look; unlock
 *
 * Suppose the reader's section came first. The flag is read before the reader's unlock,
 * which comes before the publisher's lock, after which the flag is set. So the reader
 * has not found the flag set. A reader that has found it set looks after the store.
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

/* Context: any. Return: does the object begin with a struct kfi_ep_base? */
static inline bool kfi_is_ep(size_t fclass)
{
	return fclass < BITS_PER_LONG && (KFI_ENDPOINTS & BIT(fclass));
}

/**
 * struct kfi_cond - the condition of KFI_WAIT_MUTEX_COND
 * @mutex: protects the ULP's own state
 *
 * The condition itself is the readiness of the queue that contains this.
 */
struct kfi_cond {
	struct mutex mutex;	/* the ULP's own state */
};

/**
 * struct kfi_waitq - a list of sleeping threads
 * @head: the Linux wait queue; @head.lock protects the list
 * @wake: the wake-up in progress, an argument of the wake function; @head.lock
 * @pubs: publications so far, numbered from 1; atomic
 * @nready: members that have something to read; atomic, changed under the
 *	    member's lock
 * @sleepers: our waiters on the list, without foreign entries; @head.lock
 * @living: members whose device is there; @head.lock
 * @lost: members whose device is gone; @head.lock
 * @turns: exclusive waiting, see exclusive.c; NULL: a wake-up concerns every
 *	   waiter. Changed under @head.lock; read without it as a hint.
 * @watch: readiness for descriptors, see watch.c; NULL: no descriptor was ever
 *	   made. @head.lock; read without it as a hint.
 * @cond: for KFI_WAIT_MUTEX_COND, see cond.c
 * @fid: the owner: a wait set, source, completion channel or profile; constant
 * @id: of the owner; constant
 * @dead: there were members, and the device of each is gone. Written under
 *	  @head.lock, read without it; see kfi_waitq_check_dead().
 * @yields: KFI_WAIT_YIELD: waiters give the CPU away instead of sleeping; set
 *	    before the first wait
 * @counts: for profiles, see counts.c; @head.lock
 * @test_link: on the list of the test-option build; kfi_test_lock
 *
 * The queue of a wait set has many members. A CQ, EQ or counter with a wait
 * object of its own is the single member of its own queue.
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

/* Offsets, for tracers that know only the address of a queue's list; see waitq.c. */
extern const u32 kfi_waitq_layout[];

/**
 * struct kfi_waiter - one thread in one blocking call
 * @wqe: its place on the queue, which the wake-up removes; @queue->head.lock
 * @queue: where it sleeps
 * @mutex: of KFI_WAIT_MUTEX_COND, released once the waiter is on the queue; NULL
 *	   for other wait objects
 * @need: the least amount in the source that wakes it; 0 for a wait set
 * @seen: publications before its last look; they wake it no more
 * @seq: the publication that woke it; 0 for a wake-up that is none
 * @have: the amount in the source at that publication
 * @source: id of the source of that publication
 * @why: reason of the wake-up; 0 while it has not been woken
 * @counted: the wake-up was a signal that the queue counted
 * @overtaken: wake-ups in this call whose entry another thread took
 * @spurious: times in this call that it ran and found nothing
 * @pauses: sleeps since it was put on the queue
 * @began: when it was put on the queue, in jiffies; @queue->head.lock
 * @since: the same in nanoseconds; 0: times are not measured; @queue->head.lock
 * @at: when the signal was sent that woke it; 0: times are not measured
 *
 * The wake function writes @seq to @counted, and @at, under the queue's lock. The
 * sleeper reads them once it sees @why or is off the queue. All other fields
 * belong to the sleeping thread.
 */
struct kfi_waiter {
	struct wait_queue_entry wqe;
	struct kfi_waitq *queue;
	struct mutex *mutex;	/* the ULP's */
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
 * @seq: number of the publication; 0 if it is none (a wake-up handed on)
 * @have: the amount in the source now, for waiters with a threshold
 * @source: id of the source
 * @why: reason, for the waiter and for tracing
 * @all: wakes every waiter, also exclusive ones and those with a threshold
 * @counted: set by kfi_waitq_wake_locked() when the queue has counted the signal
 * @at: when it was sent; 0: times are not measured
 *
 * Built by the publisher on its stack; read by the wake function under the
 * queue's lock.
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

/**
 * typedef kfi_ready_fn - the condition that a blocking call waits for
 * @arg: the caller's
 *
 * Context: that of kfi_waitq_sleep(), with the task's state set to sleep: must not
 * sleep. May take the object's spinlock.
 * Return: true if the condition holds.
 */
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

/* Context: any. Return: the time in ns; 0 while no times are measured. */
static inline u64 kfi_stamp(void)
{
	return unlikely(atomic_read(&kfi_timing)) ? ktime_get_ns() : 0;
}

/* Add one latency to a histogram. The caller holds the lock that protects @counts. */
static inline void kfi_count_latency(struct kfi_counts *counts, u64 from, u64 to)
{
	unsigned int bucket = to > from ? ilog2(to - from) : 0;

	counts->latency[min_t(unsigned int, bucket, KFI_PROFILE_BUCKETS - 1)]++;
}

/* The caller holds the lock that protects the list. */
static inline unsigned int kfi_list_length(const struct list_head *list)
{
	const struct list_head *at;
	unsigned int n = 0;

	list_for_each(at, list)
		n++;
	return n;
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

/* listing.c: the list of all objects */
void kfi_listed_add(struct kfi_listed *listed, struct kfid *fid);
void kfi_listed_del(struct kfi_listed *listed);
void kfi_listing_init(void);
void kfi_listing_exit(void);

/* members.c: a queue's members, and waiting for any of them */
void kfi_waitq_join(struct kfi_waitq *q);
void kfi_waitq_lose(struct kfi_waitq *q);
void kfi_waitq_leave(struct kfi_waitq *q, bool lost);
int kfi_waitq_wait(struct kfi_waitq *q, struct mutex *mutex, ktime_t deadline);
int kfi_waitq_getwait(struct kfi_waitq *q, enum kfi_wait_obj wait_obj, void *arg);
struct kfi_waitq *kfi_fid_queue(struct kfid *fid);

/* exclusive.c: turns */
int kfi_turns_set(struct kfi_waitq *q, bool on);
void kfi_turn_given(struct kfi_waitq *q, struct task_struct *task);
void kfi_turn_return(struct kfi_waitq *q);
void kfi_turn_used(struct kfi_source *src, u64 left);
void kfi_turn_used_elsewhere(struct kfi_source *src, u64 left);

/* channel.c, notify.c: completion channels; see also channel.h */
u64 kfi_channel_number(struct kfi_channel *ch);
void kfi_channel_announce(struct kfi_channel *ch, u32 source, u64 seq);
struct kfi_waitq *kfi_channel_queue(struct kfid *fid);
struct kfi_channel *kfi_notify_stored(struct kfi_source *src, bool solicited);
struct kfi_channel *kfi_notify_channel(const struct kfi_source *src);
void kfi_notify_lose(struct kfi_source *src);
void kfi_notify_close(struct kfi_source *src);
int kfi_notify_drain(struct kfi_source *src);
void kfi_notify_fini(struct kfi_source *src);

/* watch.c: readiness for descriptors */
void kfi_watch_wake(struct kfi_waitq *q, enum kfi_why why);
void kfi_watch_end(struct kfi_waitq *q);

/**
 * struct kfi_source - the common part of a CQ, an EQ and a counter
 * @lock: protects the entries or the value of the object, and the fields below
 *	  that name it
 * @fid: the object; constant
 * @fabric: the object's; wait sets are shared within one; constant
 * @domain: of a CQ or counter; NULL for an EQ; constant
 * @own: its own queue: for its waiters, unless it is in a wait set, and for its
 *	 descriptors
 * @queue: where its waiters sleep: @own, the wait set's, or NULL (KFI_WAIT_NONE);
 *	   constant
 * @set: the wait set, with a reference held, or NULL; constant
 * @wait_obj: as requested at the open; constant
 * @ready: a read would return something; written under @lock, read without it by
 *	   poll sets
 * @lost: its device is gone, and its last entry is stored. Written under
 *	  domain->lock, read without it by kfi_source_lost().
 * @changes: of a counter: completions, errors, adderr and seterr so far; written
 *	     under @lock, read without it by poll sets
 * @notify: of a CQ that is bound to a completion channel; set once, under
 *	    domain->lock and @lock
 * @members: its memberships in poll sets; @lock
 * @sibling: on its domain's list; domain->lock
 * @number: its place on this list; set under domain->lock
 * @left: it has left the list; domain->lock
 * @handler: calls the ULP's handler
 * @moderation: delays @handler, see handler_delay_us
 * @handled: there is a handler; cleared under @lock when the close begins
 * @armed: the handler runs the next time that something becomes readable; @lock
 * @closing: its close has begun: it is not ready, whatever is left in it; @lock
 * @cpu: where @handler runs, or WORK_CPU_UNBOUND; constant
 * @id: names the object in tracepoints; constant
 * @counts: completions, errors, overruns and deepest, under @lock; @own has the
 *	    other counts
 * @listed: on the list of all objects; kfi_listed_lock
 * @rcu: frees the object, see kfi_publish()
 */
struct kfi_source {
	spinlock_t lock;	/* entries, readiness, memberships */
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
	u64 number;
	bool left;
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
 * @fabric: the fabric that it belongs to
 * @domain: parent of a CQ or counter; NULL: the fabric is the parent
 * @wait_obj: wait object requested
 * @set: wait set, with KFI_WAIT_SET
 * @handler: runs when something becomes readable, or NULL
 * @cpu: where @handler runs, or WORK_CPU_UNBOUND
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
void kfi_source_taken_elsewhere(struct kfi_source *src, u64 left);
void kfi_source_set_ready(struct kfi_source *src, bool ready);
void kfi_source_fire(struct kfi_source *src);
int kfi_source_blocking(const struct kfi_source *src);
int kfi_source_control(struct kfid *fid, int command, void *arg);
struct kfi_source *kfi_fid_source(struct kfid *fid);

/*
 * Manual progress, which a read or a poll makes first. Context: any; the caller
 * holds no lock.
 */
static inline void kfi_domain_progress(struct kfi_domain_base *domain)
{
	if (domain && domain->progress)
		domain->progress(domain);
}

/*
 * Is the device gone? Then no further entry will be stored. To be called before
 * the caller looks for entries, or with @lock held: the last entry is stored before
 * @lost is set, and each look holds @lock; see "A flag, then a lock".
 * Context: any.
 */
static inline bool kfi_source_lost(const struct kfi_source *src)
{
	return READ_ONCE(src->lost);
}

/* A read found nothing: let the handler run for the next entry. */
static inline void kfi_source_arm(struct kfi_source *src)
{
	lockdep_assert_held(&src->lock);
	src->armed = src->handled;
}

/**
 * struct kfi_target - one object of a publication
 * @src: the object; NULL: the slot is not used
 * @wake: the wake-up for its queue
 * @fire: its handler was armed and is to run
 * @channel: the completion channel that got an event of it, or NULL
 * @event: number of that event's publication
 *
 * Belongs to the publisher; the first phase fills it in under the object's lock.
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

/* First phase: store one entry and fill in the target; the caller publishes. */
void kfi_cq_store(struct kfid_cq *cq, const struct kfi_completion *comp,
		  struct kfi_target *target);
void kfi_cntr_count(struct kfid_cntr *cntr, enum kfi_why why,
		    struct kfi_target *target);

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

static inline struct kfi_fabric_base *kfi_fabric_of(struct kfid_fabric *fabric)
{
	return container_of(fabric, struct kfi_fabric_base, fabric);
}

bool kfi_eq_extract(struct kfid_eq *eq, struct kfi_eq_share *share,
		    const struct kfid *fid, struct kfi_eq_slot *out);
void kfi_eq_drop(struct kfi_eq_slot *slot);
struct list_head *kfi_eq_peps(struct kfid_eq *eq);

/* base.c: passive endpoints and the EQ that they report to */
void kfi_pep_detach_all(struct kfid_eq *eq);

/* mr.c */
int kfi_domain_bind_eq(struct kfi_domain_base *base, struct kfid_eq *eq, u64 flags);

/* fid.c */
u32 kfi_new_id(void);

/* main.c */
extern struct workqueue_struct *kfi_handler_wq;

/* watch.c */
extern struct workqueue_struct *kfi_watch_wq;

/* hooks.c, in the test-option build only */
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
