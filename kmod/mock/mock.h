/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Inside kfi_mock.ko.
 *
 * Locks: kfm_lock (mutex; the lists of objects) -> kfm_ep.lock (spinlock, irq
 * safe, because a ULP may post from a completion handler). Neither is held
 * while something is reported: a report may be made to stop at a delay hook,
 * and other commands must go on meanwhile.
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
/* Messages that one endpoint keeps for receives to come. */
#define KFM_UNEXP_MAX	1024

#define KFM_TX_FLAGS	(KFI_COMPLETION | KFI_MORE | KFI_FENCE | KFI_INJECT | \
			 KFI_INJECT_COMPLETE | KFI_TRANSMIT_COMPLETE | \
			 KFI_DELIVERY_COMPLETE | KFI_REMOTE_CQ_DATA | \
			 KFI_SOLICITED)
#define KFM_RX_FLAGS	(KFI_COMPLETION | KFI_MORE)

/* What an operation is. The first KFM_POSTED are posted by the ULP. */
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
 * struct kfm_op - a posted operation, until a command completes it
 * @link: on kfm_ep.posted, then on the report's list
 * @comp: its completion, as it will be reported
 * @want_entry: does a success write a CQ entry?
 */
struct kfm_op {
	struct list_head link;
	struct kfi_completion comp;
	bool want_entry;
};

/**
 * struct kfm_users - who keeps an object from being closed
 * @count: the open itself and every report under way
 * @idle: @count is 0
 */
struct kfm_users {
	refcount_t count;
	struct completion idle;
};

static inline void kfm_users_init(struct kfm_users *users)
{
	refcount_set(&users->count, 1);
	init_completion(&users->idle);
}

static inline void kfm_users_put(struct kfm_users *users)
{
	if (refcount_dec_and_test(&users->count))
		complete(&users->idle);
}

/*
 * Waits for the reports under way; nobody may find the object any more. A
 * report takes microseconds, unless a test has stopped it at a delay hook.
 */
static inline void kfm_users_drain(struct kfm_users *users)
{
	kfm_users_put(users);
	wait_for_completion(&users->idle);
}

/**
 * struct kfm_domain - a domain
 * @base: the core's part
 * @link: on kfm_domains
 * @held: with manual progress: reports to be made, newest first
 * @progress: one makes them at a time, so that they keep their order
 */
struct kfm_domain {
	struct kfi_domain_base base;
	struct list_head link;
	struct llist_head held;
	spinlock_t progress;	/* taking from @held */
};

static inline struct kfm_domain *kfm_domain_of(struct kfi_domain_base *base)
{
	return container_of(base, struct kfm_domain, base);
}

/**
 * struct kfm_ep - an endpoint
 * @base: the core's part
 * @link: on kfm_eps
 * @tx_flags: default flags of sends, reads and writes
 * @rx_flags: default flags of receives
 * @tx_size: the most sends, reads and writes that may be pending
 * @rx_size: the most receives that may be pending
 * @lock: of what is pending, and of what came too early
 * @posted: pending operations by kind, oldest first
 * @pending: their number
 * @unexp: messages that came before a receive was posted, oldest first
 * @nunexp: their number
 * @users: reports under way
 * @lost: told of the loss of its device; protected by kfm_lock
 */
struct kfm_ep {
	struct kfi_ep_base base;
	struct list_head link;
	u64 tx_flags;
	u64 rx_flags;
	size_t tx_size;
	size_t rx_size;
	spinlock_t lock;	/* @posted, @pending, @unexp, @nunexp */
	struct list_head posted[KFM_POSTED];
	size_t pending[KFM_POSTED];
	struct list_head unexp;
	size_t nunexp;
	struct kfm_users users;
	bool lost;
};

/**
 * struct kfm_eq - makes an EQ of the core findable by its id
 * @link: on kfm_eqs
 * @eq: the core's object
 * @core_ops: its operations
 * @ops: the same with our close, so that we learn when it goes
 * @users: reports under way
 */
struct kfm_eq {
	struct list_head link;
	struct kfid_eq *eq;
	struct kfi_ops *core_ops;
	struct kfi_ops ops;
	struct kfm_users users;
};

struct kfm_mr {
	struct kfid_mr mr;
	struct kfi_domain_base *domain;
	struct list_head link;
	size_t len;
};

/* Every open object that a command can name. */
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
struct kfm_ep *kfm_ep_get_unlost(struct kfm_domain *domain);
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

/* From where a report is made. */
enum kfm_context {
	KFM_PROCESS,
	KFM_SOFTIRQ,
	KFM_WORKQUEUE,
};

/**
 * struct kfm_report - one command's report, in the context that it asks for
 * @run: makes the report; returns 0 or a negative errno
 * @ep: the endpoint that it is about, or NULL
 * @eq: the event queue that it goes to, or NULL: the one of @ep
 * @ops: pending operations, as they will be reported
 * @comp: an unsolicited completion
 * @count: how many times @comp is reported
 * @want_entry: does @comp write a CQ entry?
 * @driven: made by progress, in a domain with manual progress
 * @atomic: @run must not sleep
 * @event: number of the event
 * @err: the error event
 * @payload: what the event carries
 * @payload_len: its length in bytes
 * @refs: the writer and the context that runs it
 * @done: @result is valid
 * @result: what @run returned
 * @link: on the tasklet's list, or a domain's
 * @work: for the work queue
 */
struct kfm_report {
	int (*run)(struct kfm_report *report);
	struct kfm_ep *ep;
	struct kfm_eq *eq;
	struct list_head ops;
	struct kfi_completion comp;
	size_t count;
	bool want_entry;
	bool driven;
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
int kfm_report_make(struct kfm_report *report, enum kfm_context context);
void kfm_progress(struct kfi_domain_base *base);
void kfm_progress_last(struct kfi_domain_base *base);
int kfm_report_init(void);
void kfm_report_exit(void);

/* command.c */
extern const struct file_operations kfm_command_fops;
int kfm_command(const char *text, size_t len);

/* state.c */
void kfm_debugfs_init(void);
void kfm_debugfs_exit(void);

#endif /* _KFM_MOCK_H_ */
