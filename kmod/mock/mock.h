/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Private header of kfi_mock.ko.
 *
 * Terms: a report is the publication of completions or events that one command
 * asks for. A deferred report waits for progress, in a domain with manual
 * progress.
 *
 * Locks:
 *   kfm_lock		mutex; the lists of objects; before kfm_ep.lock
 *   kfm_ep.lock	spinlock, interrupts off, because a ULP may post from a
 *			completion handler; the queues of an endpoint
 *   kfm_domain.progress spinlock, interrupts off; held while deferred reports
 *			run; never together with kfm_lock
 *
 * kfm_lock and kfm_ep.lock are not held while a report runs: a report can stop
 * at a delay hook, and other commands must still work.
 */
#ifndef _KFM_MOCK_H_
#define _KFM_MOCK_H_

#include <linux/completion.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/spinlock.h>

#include "kfi_mock.h"
#include <kfi_channel.h>
#include <kfi_cm.h>
#include <kfi_core.h>
#include <kfi_rma.h>

#define KFM_PROVIDER	"mock"
#define KFM_FABRIC	"mock"
#define KFM_DOMAIN	"mock0"

#define KFM_QUEUE_SIZE	256
#define KFM_IOV_LIMIT	8
#define KFM_INJECT_SIZE	256
#define KFM_MSG_SIZE	((size_t)1 << 30)
/* Limit of unexpected messages in one endpoint. */
#define KFM_UNEXP_MAX	1024

#define KFM_TX_FLAGS	(KFI_COMPLETION | KFI_MORE | KFI_FENCE | KFI_INJECT | \
			 KFI_INJECT_COMPLETE | KFI_TRANSMIT_COMPLETE | \
			 KFI_DELIVERY_COMPLETE | KFI_REMOTE_CQ_DATA | \
			 KFI_SOLICITED)
#define KFM_RX_FLAGS	(KFI_COMPLETION | KFI_MORE)

/* Kinds of operation. The ULP posts those before KFM_POSTED. */
enum kfm_kind {
	KFM_SEND,
	KFM_RECV,
	KFM_READ,
	KFM_WRITE,
	KFM_POSTED,
	KFM_REMOTE_READ = KFM_POSTED,
	KFM_REMOTE_WRITE,
	KFM_KINDS
};

extern const char * const kfm_kind_name[KFM_KINDS];
extern const u64 kfm_kind_flags[KFM_KINDS];

/**
 * struct kfm_op - a posted operation, or an unexpected message
 * @link: on kfm_ep.posted or kfm_ep.unexp, under kfm_ep.lock; or on
 *	kfm_report.ops
 * @comp: the completion to report
 * @want_entry: whether a success writes a CQ entry
 *
 * The list that @link is on owns the operation.
 */
struct kfm_op {
	struct list_head link;
	struct kfi_completion comp;
	bool want_entry;
};

/**
 * struct kfm_users - references that a close waits for
 * @count: one for the open object, and one for each report in progress
 * @idle: completed when @count reaches 0
 */
struct kfm_users {
	refcount_t count;
	struct completion idle;
};

/**
 * kfm_users_init() - begin with the reference of the open object
 * @users: the references
 *
 * Context: Any. No report can find the object yet.
 */
static inline void kfm_users_init(struct kfm_users *users)
{
	refcount_set(&users->count, 1);
	init_completion(&users->idle);
}

/**
 * kfm_users_put() - drop a reference
 * @users: the references; a close may free them at once
 *
 * Context: Any.
 */
static inline void kfm_users_put(struct kfm_users *users)
{
	if (refcount_dec_and_test(&users->count))
		complete(&users->idle);
}

/**
 * kfm_users_drain() - drop the open's reference, wait until all are dropped
 * @users: the references of an object that is off its list
 *
 * A report takes microseconds, unless a test has stopped it at a delay hook.
 *
 * Context: Process context. Sleeps uninterruptibly.
 */
static inline void kfm_users_drain(struct kfm_users *users)
{
	kfm_users_put(users);
	wait_for_completion(&users->idle);
}

/**
 * struct kfm_domain - a domain
 * @base: the core's part
 * @link: on kfm_domains, under kfm_lock
 * @deferred: deferred reports, newest first; added without a lock, removed
 *	under @progress
 * @progress: serialises the deferred reports, so that they keep their order
 */
struct kfm_domain {
	struct kfi_domain_base base;
	struct list_head link;
	struct llist_head deferred;
	spinlock_t progress;	/* serialises the deferred reports */
};

/**
 * kfm_domain_of() - the mock domain of a core domain
 * @base: the core's part
 *
 * Context: Any.
 * Return: the domain.
 */
static inline struct kfm_domain *kfm_domain_of(struct kfi_domain_base *base)
{
	return container_of(base, struct kfm_domain, base);
}

/**
 * struct kfm_ep - an endpoint
 * @base: the core's part
 * @link: on kfm_eps, under kfm_lock
 * @tx_flags: default flags of sends, reads and writes; constant
 * @rx_flags: default flags of receives; constant
 * @tx_size: limit of pending sends, reads and writes; constant
 * @rx_size: limit of pending receives; constant
 * @lock: protects @posted, @pending, @unexp and @nunexp
 * @posted: pending operations by kind, oldest first; under @lock
 * @pending: number of operations in each list of @posted; under @lock
 * @unexp: unexpected messages, which came before a receive was posted, oldest
 *	first; under @lock
 * @nunexp: number of messages in @unexp; under @lock
 * @users: the open endpoint and its reports
 * @loss_reported: the loss of the device has been reported, or is about to be;
 *	under kfm_lock
 */
struct kfm_ep {
	struct kfi_ep_base base;
	struct list_head link;
	u64 tx_flags;
	u64 rx_flags;
	size_t tx_size;
	size_t rx_size;
	spinlock_t lock;	/* protects the fields that say so above */
	struct list_head posted[KFM_POSTED];
	size_t pending[KFM_POSTED];
	struct list_head unexp;
	size_t nunexp;
	struct kfm_users users;
	bool loss_reported;
};

/**
 * struct kfm_eq - makes an EQ of the core findable by its id
 * @link: on kfm_eqs, under kfm_lock
 * @eq: the core's object
 * @core_ops: the core's operations
 * @ops: @core_ops with kfm_eq_close() as close, which takes the EQ off kfm_eqs
 * @users: the open EQ and its reports
 */
struct kfm_eq {
	struct list_head link;
	struct kfid_eq *eq;
	struct kfi_ops *core_ops;
	struct kfi_ops ops;
	struct kfm_users users;
};

/**
 * struct kfm_mr - a memory region; nothing is mapped
 * @mr: the public object
 * @domain: the parent, which the region pins
 * @link: on kfm_mrs, under kfm_lock
 * @len: bytes
 * @event: that it is registered
 */
struct kfm_mr {
	struct kfid_mr mr;
	struct kfi_domain_base *domain;
	struct list_head link;
	size_t len;
	struct kfi_mr_event event;
};

/* The open objects; kfm_lock protects the lists. */
extern struct mutex kfm_lock;
extern struct list_head kfm_domains;
extern struct list_head kfm_eps;
extern struct list_head kfm_eqs;
extern struct list_head kfm_mrs;

/* info.c */
int kfm_getinfo(u32 version, const char *node, const char *service,
		u64 flags, struct kfi_info *hints, struct kfi_info **info);

/* main.c */
struct kfm_domain *kfm_domain_get(u32 id);
int kfm_domain_lose(struct kfm_domain *domain);
struct kfm_eq *kfm_eq_get(u32 id);
void kfm_eq_put(struct kfm_eq *eq);

/* ep.c */
int kfm_ep_open(struct kfid_domain *domain, struct kfi_info *info,
		struct kfid_ep **ep, void *context);
struct kfm_ep *kfm_ep_get(u32 id);
struct kfm_ep *kfm_ep_get_for_loss(struct kfm_domain *domain);
void kfm_ep_put(struct kfm_ep *ep);
ssize_t kfm_ep_post(struct kfm_ep *ep, enum kfm_kind kind, struct kfm_op *op);
int kfm_ep_take(struct kfm_ep *ep, enum kfm_kind kind, size_t count,
		struct list_head *ops);
void kfm_ep_drop_all(struct kfm_ep *ep);

/* unexp.c */
extern const struct kfi_profile_ops kfm_profile_ops;
void kfm_unexp_arrive(struct kfm_ep *ep, struct kfm_op *msg);
struct kfm_op *kfm_unexp_take(struct kfm_ep *ep);
void kfm_unexp_match(struct kfm_ep *ep, struct kfm_op *recv, struct kfm_op *msg);

/**
 * kfm_ep_of() - the mock endpoint of a public endpoint
 * @ep: the public endpoint
 *
 * Context: Any.
 * Return: the endpoint.
 */
static inline struct kfm_ep *kfm_ep_of(struct kfid_ep *ep)
{
	return container_of(ep, struct kfm_ep, base.ep);
}

/* msg.c */
extern struct kfi_ops_msg kfm_msg_ops;
extern struct kfi_ops_rma kfm_rma_ops;
void kfm_ops_free(struct list_head *ops);
ssize_t kfm_vec_len(enum kfi_iov_type type, const void *vec, size_t count);

/* mr.c */
extern struct kfi_ops_mr kfm_mr_ops;

/* The context that a report runs in. */
enum kfm_context {
	KFM_PROCESS,
	KFM_SOFTIRQ,
	KFM_WORKQUEUE,
};

/**
 * struct kfm_report - the report of one command
 * @run: does the report; returns 0 or a negative errno
 * @ep: endpoint of the report, with a reference; or NULL
 * @eq: event queue of the report, with a reference; NULL: the one of @ep
 * @ops: operations or messages to report; the report owns them
 * @comp: completion of an operation that was not posted
 * @count: how many times to report @comp
 * @want_entry: whether @comp writes a CQ entry
 * @by_progress: deferred in a domain with manual progress
 * @atomic: @run must not sleep
 * @event: number of the event
 * @err: the error event
 * @payload: payload of the event
 * @payload_len: bytes of @payload
 * @refs: references of the writer and of the context that runs the report
 * @done: completed when @result is valid
 * @result: value that @run returned
 * @link: on the tasklet's list, or on kfm_domain.deferred
 * @work: for the work queue
 *
 * Needs no lock: until kfm_report_submit() the writer owns the report, then the
 * context that runs it, until @done.
 */
struct kfm_report {
	int (*run)(struct kfm_report *report);
	struct kfm_ep *ep;
	struct kfm_eq *eq;
	struct list_head ops;
	struct kfi_completion comp;
	size_t count;
	bool want_entry;
	bool by_progress;
	bool atomic;
	u32 event;
	struct kfi_eq_err_entry err;
	union {
		struct kfi_eq_entry entry;
		struct kfi_eq_cm_entry cm;
	} payload;
	size_t payload_len;
	refcount_t refs;
	struct completion done;
	int result;
	struct llist_node link;
	struct work_struct work;
};

/* report.c */
struct kfm_report *kfm_report_new(int (*run)(struct kfm_report *report));
void kfm_report_put(struct kfm_report *report);
int kfm_report_submit(struct kfm_report *report, enum kfm_context context);
void kfm_progress(struct kfi_domain_base *base);
void kfm_progress_flush(struct kfi_domain_base *base);
int kfm_report_init(void);
void kfm_report_exit(void);

/* command.c */
extern const struct file_operations kfm_command_fops;
int kfm_command(const char *text, size_t len);

/* state.c */
void kfm_debugfs_init(void);
void kfm_debugfs_exit(void);

#endif /* _KFM_MOCK_H_ */
