/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The interface of kfabric.ko for providers and for kmod/dev.
 *
 * A provider opens its devices, moves data and *reports*: completions, errors and
 * events. Everything after the report (storing, counting, readiness, waking, wait
 * sets, poll sets) is done once, in kmod/core. ULPs include <kfabric.h> and its
 * companions, never this file.
 *
 * The functions are documented at their definitions. The order of all locks is in
 * kmod/core/core.h.
 */
#ifndef _KFI_CORE_H_
#define _KFI_CORE_H_

#include <linux/list.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include <kfabric.h>
#include <kfi_errno.h>
#include <kfi_eq.h>
#include <kfi_domain.h>
#include <kfi_endpoint.h>
#include <kfi_profile.h>
#include <kfi_prov.h>

/*
 * Lifetime. kfid.ref_cnt is 1 for the open itself plus one for every user: a child, a
 * binding, a membership, a thread asleep in it. A close takes it from 1 to 0 in one
 * step, or fails with -EBUSY and changes nothing.
 */
void kfi_fid_init(struct kfid *fid, size_t fclass, void *context,
		  struct kfi_ops *ops);
bool kfi_fid_get(struct kfid *fid);
void kfi_fid_put(struct kfid *fid);
int kfi_fid_kill(struct kfid *fid);
u32 kfi_fid_id(const struct kfid *fid);

/*
 * A command of kfi_control(), for the owner of all objects of a client; see
 * kfi_stop(). Providers may leave it out.
 */
#define KFI_STOP (KFI_PROV_SPECIFIC | 1)

/**
 * kfi_stop() - the owner of an endpoint, or of a context of one, is gone
 * @fid: the object
 *
 * No reader is left for its results, and nothing more is posted. So the provider
 * ends what is under way, and the close that follows waits for no peer. What peers
 * or the device still access stays in their reach for a while: the provider takes
 * references to its pages, and the owner may free them. All buffers of the object
 * must therefore be in pages that stay while they are referenced; slab memory does
 * not.
 *
 * The caller stops all objects before it closes the first one, so that all can end
 * at the same time.
 *
 * Context: process; waits for no peer; no lock held.
 */
static inline void kfi_stop(struct kfid *fid)
{
	kfi_control(fid, KFI_STOP, NULL);
}

/**
 * struct kfi_listed - an object's place on the list of all objects
 * @link: on the list; kfi_listed_lock
 * @fid: the object; constant
 * @pid: process that opened it; constant
 * @comm: name of the thread that opened it; constant
 */
struct kfi_listed {
	struct list_head link;
	struct kfid *fid;
	pid_t pid;
	char comm[TASK_COMM_LEN];
};

/**
 * struct kfi_counts - the counts of an object, for profiles
 * @completions: operations reported by an endpoint; entries stored in a CQ
 * @errors: completions that failed
 * @signals: publications on a queue; for a poll set, on its members
 * @wakes: sleepers taken off the queue and woken; members that were reported
 * @overtaken: wake-ups for an entry that another thread had read by then
 * @spurious: wake-ups with nothing published; a member that was reported and read
 *	      by another thread while the call was still in progress
 * @timeouts: calls that their deadline ended
 * @interrupts: calls that a signal ended
 * @handed_on: wake-ups handed on by a thread that left without an entry
 * @overruns: publications that found no room
 * @deepest: most entries, or members ready, at a time
 * @sleeps: times that a thread was put on the queue
 * @asleep: threads on the queue now
 * @most_asleep: most threads on the queue at a time
 * @asleep_ns: time that threads have been on the queue, added up
 * @longest_ns: age of the thread that has been on the queue longest
 * @latency: a histogram of the times from signal to return
 * @unexp: unexpected messages now
 *
 * While no profile is open, times are in ticks, and no latency is measured.
 *
 * The structure that contains it names the lock.
 */
struct kfi_counts {
	u64 completions;
	u64 errors;
	u64 signals;
	u64 wakes;
	u64 overtaken;
	u64 spurious;
	u64 timeouts;
	u64 interrupts;
	u64 handed_on;
	u64 overruns;
	u64 deepest;
	u64 sleeps;
	u64 asleep;
	u64 most_asleep;
	u64 asleep_ns;
	u64 longest_ns;
	u64 latency[KFI_PROFILE_BUCKETS];
	u64 unexp;
};

/**
 * struct kfi_named_ops - a table that kfi_open_ops() finds by its name
 * @name: the whole name, with the version of the table; NULL ends a list
 * @ops: the table
 */
struct kfi_named_ops {
	const char *name;
	void *ops;
};

/**
 * struct kfi_fabric_base - what every provider's fabric begins with
 * @fabric: the public object
 * @owner: the provider's module, pinned while the fabric is open
 * @release: frees the structure around it; process context, may sleep
 * @strerror: text for a prov_errno of its EQs, or NULL
 * @tables: the provider's tables for kfi_open_ops(), or NULL
 * @id: names the object in tracepoints, never its address
 * @listed: on the list of all objects; kfi_listed_lock
 *
 * All other fields are constant once the fabric is open.
 */
struct kfi_fabric_base {
	struct kfid_fabric fabric;
	struct module *owner;
	void (*release)(struct kfi_fabric_base *base);
	const char *(*strerror)(int prov_errno);
	const struct kfi_named_ops *tables;
	u32 id;
	struct kfi_listed listed;
};

int kfi_fabric_base_init(struct kfi_fabric_base *base, struct module *owner,
			 struct kfi_ops_fabric *ops,
			 void (*release)(struct kfi_fabric_base *base),
			 u32 api_version, void *context);

/**
 * struct kfi_domain_base - what every provider's domain begins with
 * @domain: the public object
 * @fabric: parent; a reference is held; constant
 * @release: frees the structure around it; process context, may sleep
 * @strerror: text for a prov_errno of its CQs, or NULL
 * @tables: the provider's tables for kfi_open_ops(), or NULL
 * @mr_eq: learns of registrations, see kfi_domain_bind_eq(), or NULL; set once, and a
 *	   reference is held
 * @progress: manual progress: makes the pending reports, see kfi_domain_pending();
 *	      called in any context, with no lock held. NULL: the provider reports by
 *	      itself.
 * @progressing: calls @progress for sleeping threads
 * @lock: protects @sources to @past; held while device loss is published
 * @sources: the domain's open CQs and counters in the order of their opens; changed
 *	     under @lock, walked under it or by RCU
 * @opens: how many were opened so far; @lock
 * @walks: who adds up the counts of @sources, see counts.c; @lock
 * @lost: the device is gone, see kfi_domain_lose(); written under @lock, read also
 *	  without it
 * @id: names the object in tracepoints; constant
 * @owner: KFI_OWNER_USER and the user, or @id; never 0. Constant once anything is
 *	   opened in it
 * @past: counts of its closed CQs and counters; @lock
 * @eps_lock: protects @eps and @eps_past
 * @eps: the domain's open endpoints; @eps_lock
 * @eps_past: counts of its closed endpoints; @eps_lock
 * @listed: on the list of all objects
 */
struct kfi_domain_base {
	struct kfid_domain domain;
	struct kfi_fabric_base *fabric;
	void (*release)(struct kfi_domain_base *base);
	const char *(*strerror)(int prov_errno);
	const struct kfi_named_ops *tables;
	struct kfid_eq *mr_eq;
	void (*progress)(struct kfi_domain_base *base);
	struct work_struct progressing;
	spinlock_t lock;	/* sources to past */
	struct list_head sources;
	u64 opens;
	struct list_head walks;
	bool lost;
	u32 id;
	u64 owner;
	struct kfi_counts past;
	spinlock_t eps_lock;	/* endpoints */
	struct list_head eps;
	struct kfi_counts eps_past;
	struct kfi_listed listed;
};

/*
 * Providers limit what an owner takes of the resources that domains share. A user of
 * /dev/kfabric is one owner, with all its clients; a domain or a passive endpoint of a
 * module is another one.
 */
#define KFI_OWNER_USER		BIT_ULL(32)	/* + the user's id */

static inline struct kfi_domain_base *kfi_domain_of(struct kfid_domain *domain)
{
	return container_of(domain, struct kfi_domain_base, domain);
}

int kfi_domain_base_init(struct kfi_domain_base *base,
			 struct kfid_fabric *fabric,
			 struct kfi_ops_domain *ops, struct kfi_ops_mr *mr,
			 void (*release)(struct kfi_domain_base *base),
			 void *context);
void kfi_domain_lose(struct kfi_domain_base *base);
void kfi_domain_pending(struct kfi_domain_base *base);

/* Slots of the providers' tables that the core fills. */
int kfi_core_eq_open(struct kfid_fabric *fabric, struct kfi_eq_attr *attr,
		     struct kfid_eq **eq, kfi_event_handler event_handler,
		     void *context);
int kfi_core_wait_open(struct kfid_fabric *fabric, struct kfi_wait_attr *attr,
		       struct kfid_wait **waitset);
int kfi_core_cq_open(struct kfid_domain *domain, struct kfi_cq_attr *attr,
		     struct kfid_cq **cq, kfi_comp_handler comp_handler,
		     void *context);
int kfi_core_cntr_open(struct kfid_domain *domain, struct kfi_cntr_attr *attr,
		       struct kfid_cntr **cntr, void *context);
int kfi_core_poll_open(struct kfid_domain *domain, struct kfi_poll_attr *attr,
		       struct kfid_poll **pollset);

/* Exported by kfabric.ko and documented there. */
int kfi_errno_to_user(int errnum);
int kfi_errno_from_user(int errnum);

/**
 * enum kfi_op_state - what a completion says about a posted operation
 * @KFI_OP_NONE: nothing: a peer began it, or it was injected
 * @KFI_OP_GOES_ON: the operation of its context uses its buffer further, and reports
 *		    again: a multi-receive that is not full
 * @KFI_OP_ENDED: the operation of its context is over, and its buffer free
 */
enum kfi_op_state {
	KFI_OP_NONE,
	KFI_OP_GOES_ON,
	KFI_OP_ENDED,
};

/**
 * struct kfi_completion - one finished operation, as a provider reports it
 * @context: the operation's context
 * @state: whether the operation of @context is over
 * @flags: KFI_MSG | KFI_SEND and so on, as the CQ entry will show them; and
 *	   KFI_SOLICITED, which the entry does not show, see kfi_channel.h
 * @len: bytes received or, for an error, delivered
 * @buf: address inside a multi-receive buffer, else NULL
 * @data: remote CQ data, valid with KFI_REMOTE_CQ_DATA in @flags
 * @tag: tag of a tagged operation
 * @src: source address or KFI_ADDR_NOTAVAIL
 * @olen: for an error: bytes that did not fit
 * @err: 0, or a positive errno; then the entry is an error entry
 * @prov_errno: the provider's own code for @err
 *
 * Belongs to the caller that reports it.
 */
struct kfi_completion {
	void *context;
	enum kfi_op_state state;
	u64 flags;
	size_t len;
	void *buf;
	u64 data;
	u64 tag;
	kfi_addr_t src;
	size_t olen;
	int err;
	int prov_errno;
};

/* The six directions that a counter can be bound for, in flag order. */
enum kfi_ep_cntr {
	KFI_EP_CNTR_READ,
	KFI_EP_CNTR_WRITE,
	KFI_EP_CNTR_RECV,
	KFI_EP_CNTR_SEND,
	KFI_EP_CNTR_REMOTE_READ,
	KFI_EP_CNTR_REMOTE_WRITE,
	KFI_EP_CNTR_MAX
};

/*
 * Called with each completion of an operation that was posted with a context, before it
 * is stored; may alter it. Context: any; the provider may hold its own locks.
 */
typedef void (*kfi_ep_watch_fn)(struct kfid_ep *ep, struct kfi_completion *comp);

struct kfi_ep_base;
struct kfi_eq_slot;
struct kfi_event;

/**
 * struct kfi_eq_share - the slots of an EQ that take the events of one object
 * @slots: the slots, made when the object is bound to the EQ; NULL: it is not bound
 * @free: those that hold no unread event; the EQ's source->lock
 * @unread: the others, the oldest event first; the EQ's source->lock
 *
 * A report that finds its share full is refused. So the slots of an object are there
 * for its events, whatever else is unread in the EQ.
 */
struct kfi_eq_share {
	struct kfi_eq_slot *slots;
	struct list_head free;
	struct list_head unread;
};

/* The events that an endpoint may report: connected or not, shut down, device lost. */
#define KFI_EP_EVENTS	3

/**
 * struct kfi_profile_ops - a provider's own variables and events of an endpoint
 * @vars: variables; the pre-defined ones are in kfi_unexp_vars, ids of others
 *	begin at KFI_VAR_PROVIDER
 * @nvars: number of @vars
 * @events: events; kfi_unexp_events, or with ids from KFI_EVENT_PROVIDER on
 * @nevents: number of @events
 * @read: writes the value of a variable, but no more than @size bytes of it, and
 *	returns the bytes of the whole value. The entries of a KFI_PROFILE_LIST are
 *	written whole. Users get the value: no kernel address may be in it.
 * @reset: sets to 0 the variables that can be reset; or NULL
 *
 * Both functions are called with the endpoint's profile_lock held: any context, must
 * not sleep.
 */
struct kfi_profile_ops {
	const struct kfi_profile_desc *vars;
	size_t nvars;
	const struct kfi_profile_desc *events;
	size_t nevents;
	size_t (*read)(struct kfi_ep_base *base, u32 id, void *buf, size_t size);
	void (*reset)(struct kfi_ep_base *base);
};

/* Pre-defined: count and list of unexpected messages; a message came, was matched. */
extern const struct kfi_profile_desc kfi_unexp_vars[2];
extern const struct kfi_profile_desc kfi_unexp_events[2];

/**
 * struct kfi_ep_base - what every provider's endpoint begins with
 * @ep: the public object
 * @domain: parent; a reference is held; constant
 * @tx_cq: CQ of transmit completions. A reference to each bound object is held; the
 *	   bindings are constant from @enabled until kfi_ep_base_fini().
 * @rx_cq: CQ of receive completions
 * @eq: EQ of connection events
 * @share: KFI_EP_EVENTS slots of @eq
 * @cntr: counters by direction
 * @tx_selective: successes only for operations with KFI_COMPLETION
 * @rx_selective: the same for receives
 * @watch: see kfi_ep_watch(); NULL: no watcher; constant once an operation was posted
 * @enabled: bindings are final; the caller serialises kfi_ep_base_bind() and
 *	     kfi_ep_base_enable(), which use it
 * @id: names the object in tracepoints; constant
 * @profile_ops: see kfi_ep_base_profile(); NULL: nothing of the provider's own; set
 *		 once, after @profile_lock
 * @profile_lock: the provider's lock of the data that @profile_ops reads; it also
 *		  protects @profiles
 * @profiles: open profiles with events; changed under @profile_lock
 * @completions: operations reported; atomic
 * @errors: reported operations that failed; atomic
 * @zero: protects @completions_zero and @errors_zero
 * @completions_zero: @completions at the last reset; @zero
 * @errors_zero: @errors at the last reset; @zero
 * @sibling: on its domain's list; eps_lock
 * @listed: on the list of all objects
 */
struct kfi_ep_base {
	struct kfid_ep ep;
	struct kfi_domain_base *domain;
	struct kfid_cq *tx_cq;
	struct kfid_cq *rx_cq;
	struct kfid_eq *eq;
	struct kfi_eq_share share;
	struct kfid_cntr *cntr[KFI_EP_CNTR_MAX];
	bool tx_selective;
	bool rx_selective;
	kfi_ep_watch_fn watch;
	bool enabled;
	u32 id;
	const struct kfi_profile_ops *profile_ops;
	spinlock_t *profile_lock;	/* the provider's */
	struct list_head profiles;
	atomic64_t completions;
	atomic64_t errors;
	spinlock_t zero;	/* counts at the last reset */
	u64 completions_zero;
	u64 errors_zero;
	struct list_head sibling;
	struct kfi_listed listed;
};

int kfi_ep_base_init(struct kfi_ep_base *base, struct kfid_domain *domain,
		     size_t fclass, struct kfi_ops *fid_ops, void *context);
int kfi_ep_base_room(struct kfi_ep_base *base);
int kfi_ep_base_bind(struct kfi_ep_base *base, struct kfid *bfid, u64 flags);
int kfi_ep_base_enable(struct kfi_ep_base *base);
void kfi_ep_base_fini(struct kfi_ep_base *base);
int kfi_ep_report(struct kfi_ep_base *base, const struct kfi_event *event);
int kfi_ep_report_err(struct kfi_ep_base *base,
		      const struct kfi_eq_err_entry *entry);
void kfi_ep_base_profile(struct kfi_ep_base *base,
			 const struct kfi_profile_ops *ops, spinlock_t *lock);
void __kfi_profile_event(struct kfi_ep_base *base, u32 id, const void *data,
			 size_t size);

/**
 * kfi_profile_event() - report an event of an endpoint to its profiles
 * @base: the endpoint; it has profile_ops
 * @id: one of its profile_ops->events
 * @data: what it carries, or NULL
 * @size: bytes of @data
 *
 * Costs one load where no profile is open.
 *
 * Context: any; the caller holds the endpoint's profile_lock. So events are reported
 * in the order in which they happened, and a callback reads the values that the event
 * has produced.
 */
static inline void kfi_profile_event(struct kfi_ep_base *base, u32 id,
				     const void *data, size_t size)
{
	lockdep_assert_held(base->profile_lock);
	if (!list_empty(&base->profiles))
		__kfi_profile_event(base, id, data, size);
}

/**
 * kfi_ep_wants_tx() - does the success of a transmit write a CQ entry?
 * @base: the endpoint
 * @flags: the operation's effective flags
 *
 * To be called when the operation is posted; the result is passed back to
 * kfi_ep_complete(). Errors always write an entry.
 *
 * Context: any, once the bindings are final; takes no lock.
 * Return: true if it does.
 */
static inline bool kfi_ep_wants_tx(const struct kfi_ep_base *base, u64 flags)
{
	return !base->tx_selective || (flags & KFI_COMPLETION);
}

/**
 * kfi_ep_wants_rx() - does the success of a receive write a CQ entry?
 * @base: the endpoint
 * @flags: the operation's effective flags
 *
 * Context: as kfi_ep_wants_tx().
 * Return: true if it does.
 */
static inline bool kfi_ep_wants_rx(const struct kfi_ep_base *base, u64 flags)
{
	return !base->rx_selective || (flags & KFI_COMPLETION);
}

void kfi_ep_complete(struct kfi_ep_base *base, const struct kfi_completion *comp,
		     bool want_entry);
void kfi_ep_watch(struct kfid_ep *ep, kfi_ep_watch_fn watch);

/* The most bytes that one event carries after its kfi_eq_cm_entry. */
#define KFI_EQ_DATA_MAX 256

/**
 * struct kfi_event - one event, as a provider reports it
 * @event: KFI_CONNREQ and so on
 * @buf: payload: a kfi_eq_entry, or a kfi_eq_cm_entry with its data
 * @len: bytes of @buf, at most sizeof(struct kfi_eq_cm_entry) + KFI_EQ_DATA_MAX
 * @drop: called with the stored payload if the event is never read (the EQ or the
 *	  object of the event closes first): frees the event's resources. Process
 *	  context, may sleep, no lock held. May be NULL.
 * @request: the connection request that the event owns, for kfi_pep_take_request(), or
 *	     NULL; compared, never followed
 */
struct kfi_event {
	u32 event;
	const void *buf;
	size_t len;
	void (*drop)(u32 event, void *buf);
	const struct kfid *request;
};

size_t kfi_eq_size(struct kfid_eq *eq);
int kfi_eq_share_init(struct kfi_eq_share *share, size_t size);
void kfi_eq_share_fini(struct kfi_eq_share *share);
bool kfi_eq_share_full(struct kfid_eq *eq, const struct kfi_eq_share *share);
int kfi_eq_report(struct kfid_eq *eq, struct kfi_eq_share *share,
		  const struct kfi_event *event);
int kfi_eq_report_err(struct kfid_eq *eq, struct kfi_eq_share *share,
		      const struct kfi_eq_err_entry *entry);
void kfi_eq_forget(struct kfid_eq *eq, struct kfi_eq_share *share,
		   const struct kfid *fid);

/**
 * struct kfi_mr_event - the event that a region is usable, part of a provider's region
 * @eq: that of the domain as the region was made, or NULL; constant
 * @share: its slot
 */
struct kfi_mr_event {
	struct kfid_eq *eq;
	struct kfi_eq_share share;
};

int kfi_mr_event_init(struct kfi_mr_event *ev, struct kfi_domain_base *base);
void kfi_mr_event_report(struct kfi_mr_event *ev, struct kfid_mr *mr);
void kfi_mr_event_fini(struct kfi_mr_event *ev, const struct kfid_mr *mr);

struct kfi_pep_room;

/**
 * struct kfi_pep_base - what every provider's passive endpoint begins with
 * @pep: the public object
 * @fabric: parent; a reference is held; constant
 * @eq: EQ of connection requests; kfi_pep_lock. No reference is held: closing the EQ
 *	clears it (ULPs close a listener's EQ first).
 * @room: slots of @eq; kfi_pep_lock
 * @lost: its device is gone, so no EQ would get an event; kfi_pep_lock
 * @bound: on the list of @eq's passive endpoints; kfi_pep_lock
 * @id: names the object in tracepoints; constant
 * @owner: as that of a domain; constant once the passive endpoint listens
 * @listed: on the list of all objects; kfi_listed_lock
 */
struct kfi_pep_base {
	struct kfid_pep pep;
	struct kfi_fabric_base *fabric;
	struct kfid_eq *eq;
	struct kfi_pep_room *room;
	bool lost;
	struct list_head bound;
	u32 id;
	u64 owner;
	struct kfi_listed listed;
};

int kfi_pep_base_init(struct kfi_pep_base *base, struct kfid_fabric *fabric,
		      struct kfi_ops *fid_ops, void *context);
int kfi_pep_base_bind(struct kfi_pep_base *base, struct kfid *bfid, u64 flags);
void kfi_pep_base_fini(struct kfi_pep_base *base);
int kfi_pep_report(struct kfi_pep_base *base, const struct kfi_event *event);
int kfi_pep_report_err(struct kfi_pep_base *base,
		       const struct kfi_eq_err_entry *entry);
bool kfi_pep_take_request(struct kfi_pep_base *base, const struct kfid *request,
			  struct kfi_eq_slot *slot);

#define KFI_EQ_PAYLOAD	(sizeof(struct kfi_eq_cm_entry) + KFI_EQ_DATA_MAX)

/**
 * struct kfi_eq_slot - one event
 * @link: on the EQ's list of unread events, or on @share->free
 * @mine: on @share->unread while the event is unread
 * @share: that the slot belongs to; constant
 * @event: its number; not used for an error event
 * @len: bytes of @payload, or of the error's data
 * @is_err: it is an error event
 * @drop: frees what the payload owns if the event is never read
 * @request: as in struct kfi_event
 * @err: an error event; its err_data is in @payload
 * @payload: what kfi_eq_read() returns
 *
 * In an EQ, protected by the EQ's source->lock. @link, @mine and @share of a copy mean
 * nothing.
 */
struct kfi_eq_slot {
	struct list_head link;
	struct list_head mine;
	struct kfi_eq_share *share;
	u32 event;
	u32 len;
	bool is_err;
	void (*drop)(u32 event, void *buf);
	const struct kfid *request;
	struct kfi_eq_err_entry err;
	u8 payload[KFI_EQ_PAYLOAD] __aligned(8);
};

/*
 * Reading in two steps, for readers that copy to user space: an entry that could not be
 * copied out stays unread. Look first (kfi_cq_peek(); kfi_cq_readerr() with KFI_PEEK;
 * kfi_cntr_peek()), then remove. The caller serialises all readers of the object.
 *
 * A close takes back the unread events about its object, at any moment, and so does a
 * peer that gives up with the event of its connection request. So an event is held while
 * it is copied out, and settled then. The memory of the object that it is about may be
 * gone meanwhile; kfi_eq_hold() has it named while it is there.
 */
ssize_t kfi_cq_peek(struct kfid_cq *cq, void *buf, size_t count,
		    kfi_addr_t *src_addr, u64 least);
void kfi_cq_consume(struct kfid_cq *cq, size_t count);
void kfi_cq_consume_err(struct kfid_cq *cq);

/**
 * struct kfi_cq_shadow - shows the entries of a CQ to a reader that makes no call
 * @store: called for each entry that is stored, with its number. Interrupts are off, and
 *	   the CQ's lock is held.
 * @overrun: called when an entry could not be stored, perhaps more than once; as @store
 */
struct kfi_cq_shadow {
	void (*store)(struct kfi_cq_shadow *shadow, u32 number,
		      const struct kfi_cq_tagged_entry *entry, kfi_addr_t src,
		      int err);
	void (*overrun)(struct kfi_cq_shadow *shadow);
};

u32 kfi_cq_size(const struct kfid_cq *cq);
int kfi_cq_show(struct kfid_cq *cq, struct kfi_cq_shadow *shadow);
void kfi_cq_hide(struct kfid_cq *cq);
u32 kfi_cq_consume_to(struct kfid_cq *cq, u32 number);

/**
 * typedef kfi_eq_name_fn - what is an event about?
 * @fid: the object of the event, which is not closed before this returns; or NULL
 * @arg: the caller's
 *
 * Context: any; the caller holds source->lock of the EQ.
 */
typedef void (*kfi_eq_name_fn)(const struct kfid *fid, void *arg);

int kfi_eq_hold(struct kfid_eq *eq, bool err, struct kfi_eq_slot *slot,
		kfi_eq_name_fn name, void *arg);
void kfi_eq_settle(struct kfid_eq *eq, struct kfi_eq_slot *slot, bool taken);
u64 kfi_cntr_peek(struct kfid_cntr *cntr, u64 *change);
u64 kfi_cntr_peekerr(struct kfid_cntr *cntr, u64 *change);
void kfi_cntr_mark(struct kfid_cntr *cntr, u64 change);
void kfi_cntr_markerr(struct kfid_cntr *cntr, u64 change);

/**
 * typedef kfi_take_fn - one attempt to read, made by a blocking read
 * @arg: the caller's
 *
 * Context: the reader's, without any lock; may sleep where the blocking read may.
 * Return: a positive count; -EAGAIN if there was nothing (the wait continues);
 * another negative errno, which ends the wait.
 */
typedef ssize_t (*kfi_take_fn)(void *arg);

/**
 * typedef kfi_cq_take_fn - one attempt to read a CQ, made by a blocking read
 * @arg: the caller's
 * @least: -EAGAIN if fewer entries are there, and neither an error nor an overrun;
 *	   to be compared in the step that takes (kfi_cq_peek() has it). 0: take what
 *	   is there
 *
 * Context: as kfi_take_fn.
 * Return: as kfi_take_fn.
 */
typedef ssize_t (*kfi_cq_take_fn)(void *arg, u64 least);

ssize_t kfi_cq_wait_take(struct kfid_cq *cq, u64 threshold, ktime_t deadline,
			 kfi_cq_take_fn take, void *arg);
ssize_t kfi_eq_wait_take(struct kfid_eq *eq, u64 readflags, ktime_t deadline,
			 kfi_take_fn take, void *arg);
int kfi_cntr_wait_until(struct kfid_cntr *cntr, u64 threshold, ktime_t deadline,
			u64 error_changes);
int kfi_wait_until(struct kfid_wait *waitset, ktime_t deadline);

/* The most bytes that an event of a profile carries. */
#define KFI_PROFILE_DATA_MAX 96

/**
 * struct kfi_profile_record - an event that was kept
 * @seq: its number among the events of the profile, from 1; dropped events have
 *	 numbers, too
 * @desc: the event's description
 * @size: bytes of @data
 * @data: what it carries
 */
struct kfi_profile_record {
	u64 seq;
	const struct kfi_profile_desc *desc;
	size_t size;
	u8 data[KFI_PROFILE_DATA_MAX] __aligned(8);
};

/*
 * Events of a profile without a callback: a limited number of them is kept until they
 * are read. A read looks and then removes, as above; the caller serialises readers.
 * kfi_watch_get() makes descriptors of a profile.
 */
int kfi_profile_keep(struct kfid_profile *prof, u32 event_id, bool on);
size_t kfi_profile_peek(struct kfid_profile *prof, struct kfi_profile_record *to,
			size_t count, u64 *dropped);
void kfi_profile_consume(struct kfid_profile *prof, size_t count);
ssize_t kfi_profile_wait_take(struct kfid_profile *prof, ktime_t deadline,
			      kfi_take_fn take, void *arg);

/*
 * Readiness for descriptors, for the wait objects that only user space has
 * (KFI_WAIT_FD, _POLLFD, _YIELD). In the kernel such an object is opened as
 * KFI_WAIT_UNSPEC; kfi_fid_yield() completes KFI_WAIT_YIELD.
 */
struct file;
struct kfi_watch;
struct poll_table_struct;

struct kfi_watch *kfi_watch_get(struct kfid *fid);
void kfi_watch_put(struct kfi_watch *watch);
__poll_t kfi_watch_poll(struct kfi_watch *watch, struct file *file,
			struct poll_table_struct *wait);

/*
 * Completion channels, for readers that copy to user space: hold the oldest event, hand
 * it out, then report the outcome. A CQ closes in two parts: the first one does not
 * wait for acknowledgments.
 */
struct kfid_comp_channel;

/* The outcome of handing out an event. */
enum kfi_event_fate {
	KFI_EVENT_KEPT,		/* it failed: the event stays the oldest */
	KFI_EVENT_GOT,		/* the event needs an acknowledgment now */
	KFI_EVENT_ACKED,	/* the event was acknowledged at once */
};

int kfi_channel_peek(struct kfid_comp_channel *channel, struct kfid_cq **cq);
void kfi_channel_settle(struct kfid_comp_channel *channel,
			enum kfi_event_fate fate);
ssize_t kfi_channel_wait_take(struct kfid_comp_channel *channel, ktime_t deadline,
			      kfi_take_fn take, void *arg);
void kfi_channel_hold(struct kfid_comp_channel *channel);
void kfi_channel_put(struct kfid_comp_channel *channel);
int kfi_cq_closing(struct kfid_cq *cq);
int kfi_cq_drain(struct kfid_cq *cq);
bool kfi_cq_unacked(struct kfid_cq *cq);
void kfi_cq_discard_events(struct kfid_cq *cq);
int kfi_cq_request(struct kfid_cq *cq, u32 flags);

int kfi_fid_trywait(struct kfid_fabric *fabric, struct kfid *fid);
bool kfi_fid_ended(struct kfid *fid);
void kfi_fid_yield(struct kfid *fid);

#define KFI_DEADLINE_NOW ((ktime_t)0)		/* one check, no sleep */
#define KFI_DEADLINE_NONE KTIME_MAX		/* no limit */

ktime_t kfi_deadline(int timeout_ms);

size_t kfi_cq_entry_size(enum kfi_cq_format format);
bool kfi_cq_has_room(struct kfid_cq *cq);

/**
 * struct kfi_cq_room - a provider's wait for room in a CQ
 * @link: on the CQ's list, or empty; source->lock
 * @work: queued when half of the CQ has become free, or a reader waits for more entries
 *	than it holds; the provider's
 */
struct kfi_cq_room {
	struct list_head link;
	struct work_struct work;
};

bool kfi_cq_reserve(struct kfid_cq *cq, struct kfi_cq_room *room);
void kfi_cq_unreserve(struct kfid_cq *cq);
void kfi_cq_leave(struct kfid_cq *cq, struct kfi_cq_room *room);

#endif /* _KFI_CORE_H_ */
