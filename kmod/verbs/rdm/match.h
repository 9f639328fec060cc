/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * RDM endpoints: receive contexts, posted receives and kept messages. See rdm.h
 * for ownership and lock order.
 *
 * DOC: Places of a receive
 *
 *   free	kfr_rx.free
 *   posted	a list of kfr_match; a multi-receive also while messages fill it
 *   retired	on no list: kfr_recv_take() filled it up, or it was cancelled;
 *		@users counts the messages that are still being copied
 *
 * kfr_rx.lock protects all moves. The thread that drops the last of @users of a
 * retired receive, or retires one without users, owns it and reports its end.
 *
 * DOC: Places of a buffer for a kept message
 *
 *   spare	kfr_rx.spare
 *   kept	kfr_match.kept or .kept_tagged
 *   taken	on no list: owned by the thread that delivers or refuses it;
 *		kfr_unexp_free() makes it spare again
 */
#ifndef _KFV_RDM_MATCH_H_
#define _KFV_RDM_MATCH_H_

#include <linux/xarray.h>

#include <kfi_core.h>

#include "buf.h"
#include "wire.h"

struct kfr_conn;
struct kfr_ep;
struct kfr_op;

/**
 * struct kfr_recv - a posted receive
 * @link: on a list of its kfr_match; kfr_rx.lock
 * @next: the next free one; kfr_rx.lock
 * @order: number in the order of posting; kfr_rx.lock
 * @tagged: it takes tagged messages
 * @directed: it takes messages from @src only
 * @multi: a multi-receive: it takes messages until it is full
 * @want_entry: a success writes a completion entry
 * @src: the source, if @directed
 * @tag: the tag to match
 * @ignore: bits of @tag that do not matter
 * @context: the ULP's
 * @buf: the buffer
 * @used: bytes that are taken; kfr_rx.lock
 * @users: messages that are being copied into it; kfr_rx.lock
 * @retired: a multi-receive that takes no more; kfr_rx.lock
 *
 * Fields without a lock are written before it is posted and constant until it
 * is free again.
 */
struct kfr_recv {
	struct list_head link;
	struct kfr_recv *next;
	u64 order;
	bool tagged;
	bool directed;
	bool multi;
	bool want_entry;
	struct kfr_addr src;
	u64 tag;
	u64 ignore;
	void *context;
	struct kfr_buf buf;
	size_t used;
	unsigned int users;
	bool retired;
};

/**
 * struct kfr_unexp - a message that arrived before its receive ("unexpected")
 * @link: on a list of its kfr_match, or on kfr_rx.spare; kfr_rx.lock
 * @order: number in the order of arrival, among both lists; kfr_rx.lock
 * @hdr: its header
 * @src: its source
 * @conn: connection for the reply, referenced; NULL for a numbered request,
 *	which was acknowledged when it was kept
 * @page: its payload: the data, or the sender's segments. Allocated once
 * @since: jiffies at its arrival
 *
 * All but @link is owned by the thread that took it off its list; while it is
 * on one, kfr_rx.lock protects it.
 */
struct kfr_unexp {
	struct list_head link;
	u64 order;
	struct kfr_hdr hdr;
	struct kfr_addr src;
	struct kfr_conn *conn;
	struct page *page;
	unsigned long since;
};

/**
 * struct kfr_match - matches receives and messages
 * @lock: the owner's lock, which protects all of this
 * @order: receives posted so far
 * @plain: receives of untagged messages, in order
 * @exact: receives of one tag, hashed by it, each list in order
 * @nexact: number of lists, a power of two
 * @wild: receives with bits to ignore, in order
 * @kept: kept messages without a tag, in order of arrival
 * @kept_tagged: kept messages with a tag, in order of arrival
 * @came: messages kept so far
 * @nkept: messages on the two lists
 *
 * The lists do not own their entries. This part knows nothing of devices.
 */
struct kfr_match {
	spinlock_t *lock;
	u64 order;
	struct list_head plain;
	struct list_head *exact;
	unsigned int nexact;
	struct list_head wild;
	struct list_head kept;
	struct list_head kept_tagged;
	u64 came;
	unsigned int nkept;
};

/**
 * struct kfr_rx - a receive context
 * @base: the handle that it reports to
 * @ep: its endpoint
 * @index: its number there
 * @flags: default flags; changed under kfr_ep.ctl, read without
 * @size: number of receives
 * @nkeep: number of messages that it can keep
 * @recvs: all receives; constant once it is enabled
 * @unexps: all buffers for kept messages; constant once it is enabled
 * @busy: messages being delivered and jobs, +1 until it is closed
 * @idle: @busy is 0
 * @lock: protects the following, unless another rule is given
 * @free: receives not posted
 * @spare: buffers for messages that are not in use
 * @nspare: their number
 * @match: posted receives and kept messages
 * @min_multi: see KFI_OPT_MIN_MULTI_RECV; no lock: the next message sees a
 *	change
 * @multi_lock: held while a message in a multi-receive is reported, or that it
 *	is cancelled or released, so that the release is the last report. Taken
 *	outside @lock
 * @closing: nothing is received or reported any more; written once, also read
 *	without @lock
 * @flows: flows in which NAK was sent (struct kfr_gate), see flow.c; marked while they
 *	are blocked
 * @keys: regions that are enabled on it; the xarray's own lock
 * @expire: refuses tagged RMA that found no receive in time
 * @retry: lets refused senders try again, if it keeps nothing
 * @room: requests were refused because the CQ is full, and are to be resumed
 */
struct kfr_rx {
	struct kfi_ep_base *base;
	struct kfr_ep *ep;
	unsigned int index;
	u64 flags;
	unsigned int size;
	unsigned int nkeep;
	struct kfr_recv *recvs;
	struct kfr_unexp *unexps;
	refcount_t busy;
	struct completion idle;
	spinlock_t lock;	/* receives, kept messages, flows */
	struct kfr_recv *free;
	struct list_head spare;
	unsigned int nspare;
	struct kfr_match match;
	size_t min_multi;
	spinlock_t multi_lock;	/* reports of multi-receives */
	bool closing;
	struct xarray flows;
	struct xarray keys;
	struct delayed_work expire;
	struct delayed_work retry;
	struct kfi_cq_room room;
};

/**
 * struct kfr_range - the part of a receive that a message gets
 * @at: where it begins
 * @len: bytes
 * @over: bytes of the message that do not fit
 * @drop: it gets none, and the caller owns the receive: kfr_recv_drop() ends it
 */
struct kfr_range {
	size_t at;
	size_t len;
	size_t over;
	bool drop;
};

/* match.c */
int kfr_match_init(struct kfr_match *match, unsigned int size,
		   spinlock_t *lock);
void kfr_match_fini(struct kfr_match *match);
void kfr_match_post(struct kfr_match *match, struct kfr_recv *recv);
struct kfr_recv *kfr_match_find(struct kfr_match *match, bool tagged, u64 tag,
				struct kfr_addr src);
struct kfr_recv *kfr_match_context(struct kfr_match *match,
				   const void *context);
void kfr_match_unpost(struct kfr_match *match);
void kfr_match_keep(struct kfr_match *match, struct kfr_unexp *unexp);
void kfr_match_unkeep(struct kfr_match *match, struct kfr_unexp *unexp);
struct kfr_unexp *kfr_match_kept(struct kfr_match *match,
				 const struct kfr_recv *recv);

/**
 * struct kfr_post - parameters of kfr_post()
 * @tagged: for tagged messages
 * @strict: @flags were given with the call; otherwise they are the context's
 *	defaults, where KFI_MULTI_RECV is ignored for tagged receives of an
 *	endpoint without KFI_TAGGED_MULTI_RECV
 * @type: type of the pieces
 * @pieces: the buffer
 * @count: number of pieces
 * @addr: the only source, or KFI_ADDR_UNSPEC for any
 * @tag: the tag to match
 * @ignore: bits of @tag that do not matter
 * @context: the ULP's
 * @flags: the operation's flags
 *
 * It lives on the caller's stack; kfr_post() copies what it keeps.
 */
struct kfr_post {
	bool tagged;
	bool strict;
	enum kfi_iov_type type;
	const void *pieces;
	size_t count;
	kfi_addr_t addr;
	u64 tag;
	u64 ignore;
	void *context;
	u64 flags;
};

/* recv.c: receive contexts, and posting to them */
struct kfr_rx *kfr_rx_new(struct kfr_ep *ep, struct kfi_ep_base *base,
			  unsigned int index, const struct kfi_rx_attr *attr);
int kfr_rx_enable(struct kfr_rx *rx);
void kfr_rx_stop(struct kfr_rx *rx);
void kfr_rx_close(struct kfr_rx *rx);
void kfr_rx_free(struct kfr_rx *rx);
void kfr_rx_put(struct kfr_rx *rx);
ssize_t kfr_post(struct kfid_ep *fid, const struct kfr_post *post);
ssize_t kfr_cancel(struct kfid *fid, void *context);
bool kfr_recv_reserve(struct kfr_rx *rx, const struct kfr_recv *recv);
void kfr_recv_unreserve(struct kfr_rx *rx, const struct kfr_recv *recv);
bool kfr_recv_take(struct kfr_rx *rx, struct kfr_recv *recv,
		   const struct kfr_hdr *hdr, struct kfr_range *range);
void kfr_recv_done(struct kfr_rx *rx, struct kfr_recv *recv,
		   struct kfi_completion *comp);
void kfr_recv_drop(struct kfr_rx *rx, struct kfr_recv *recv);

/* profile.c: kept messages in profiles */
void kfr_rx_profile(struct kfr_rx *rx);
void kfr_rx_profile_event(struct kfr_rx *rx, u32 id,
			  const struct kfr_unexp *unexp);

/* rx.c: arriving messages */
u64 kfr_completion_flags(const struct kfr_hdr *hdr);
int kfr_receive(struct kfr_conn *conn, const struct kfr_hdr *hdr,
		struct page *page, size_t len);
void kfr_unexp_free(struct kfr_rx *rx, struct kfr_unexp *unexp);
void kfr_rx_deliver(struct kfr_rx *rx, struct kfr_recv *recv,
		    struct kfr_unexp *unexp, const struct kfr_range *range);
void kfr_rx_refuse(struct kfr_unexp *unexp, enum kfr_status status);
void kfr_completion(const struct kfr_rx *rx, const struct kfr_hdr *hdr,
		    struct kfr_addr src, const struct kfr_recv *recv,
		    const struct kfr_range *range,
		    struct kfi_completion *comp);
void kfr_rx_expire(struct work_struct *work);
unsigned long kfr_match_limit(void);

/* flow.c: flow control by NAK, RESUME and WANT */
bool kfr_flow_epoch_unknown(struct kfr_rx *rx, const struct kfr_conn *conn,
			    bool by_key);
bool kfr_flow_accepts(struct kfr_rx *rx, const struct kfr_conn *conn,
		      const struct kfr_hdr *hdr);
bool kfr_flow_blocked(const struct kfr_rx *rx);
int kfr_flow_block(struct kfr_rx *rx, struct kfr_conn *conn,
		   const struct kfr_hdr *hdr);
void kfr_rx_resume(struct kfr_rx *rx, bool by_key);
void kfr_rx_resume_room(struct work_struct *work);
void kfr_rx_drop_flows(struct kfr_rx *rx);
void kfr_rx_forget(struct kfr_rx *rx, struct kfr_conn *conn);
void kfr_flow_nak(struct kfr_conn *conn, const struct kfr_hdr *hdr);
void kfr_flow_resume(struct kfr_conn *conn, const struct kfr_hdr *hdr);
void kfr_flow_want(struct kfr_conn *conn, const struct kfr_hdr *hdr);
void kfr_flow_pull_next(struct kfr_conn *conn, const struct kfr_op *op);
void kfr_rx_send_wants(struct kfr_rx *rx, const struct kfr_recv *recv);
void kfr_rx_send_want_to(struct kfr_rx *rx, struct kfr_conn *conn,
			 const struct kfr_recv *recv);
void kfr_flow_stamp(const struct kfr_conn *conn, struct kfr_op *op);
struct kfr_op *kfr_flow_first(const struct kfr_conn *conn, struct kfr_op *op);
bool kfr_flow_follow(struct kfr_conn *conn, struct kfr_op *op);
void kfr_flow_forget(struct kfr_conn *conn, struct kfr_op *op);
void kfr_flows_handled(struct kfr_conn *conn, u64 place);
u64 kfr_flow_place(const struct kfr_conn *conn, __le32 count);
bool kfr_op_charge(struct kfr_conn *conn, struct kfr_op *op);
void kfr_op_uncharge(struct kfr_conn *conn, struct kfr_op *op);
void kfr_flow_release(struct kfr_conn *conn, const struct kfr_op *op);
void kfr_flow_gone(struct kfr_conn *conn, const struct kfr_hdr *hdr, u64 place);

#endif /* _KFV_RDM_MATCH_H_ */
