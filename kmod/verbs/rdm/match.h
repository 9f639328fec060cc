/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* RDM endpoints: receive contexts, what is posted and what arrives. See rdm.h. */
#ifndef _KFV_RDM_MATCH_H_
#define _KFV_RDM_MATCH_H_

#include <linux/xarray.h>

#include "buf.h"
#include "wire.h"

struct kfr_conn;
struct kfr_ep;
struct kfr_op;

/**
 * struct kfr_recv - a posted receive
 * @link: on a list of its kfr_match
 * @next: the next free one
 * @order: receives posted before
 * @tagged: it takes tagged messages
 * @directed: only from @src
 * @multi: it takes as many messages as it has room for
 * @want_entry: a success writes a completion entry
 * @src: of a directed one
 * @tag: what it takes
 * @ignore: bits of @tag that do not matter
 * @context: the ULP's
 * @buf: where to
 * @used: bytes that are taken, of a multi-receive
 * @users: messages that are being copied into it
 * @retired: a multi-receive that takes no more
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
 * struct kfr_unexp - a message that nobody has posted a receive for, yet
 * @link: on a list of its kfr_match, or of the free ones
 * @order: messages kept before
 * @hdr: of the message
 * @src: whence
 * @conn: to answer on, referenced; NULL if it is answered
 * @page: its payload
 * @since: jiffies
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
 * struct kfr_match - receives and messages that look for each other
 * @order: receives posted so far
 * @plain: receives of untagged messages, in order
 * @exact: receives of one tag, hashed by it, each list in order
 * @nexact: number of lists, a power of two
 * @wild: receives with bits to ignore, in order
 * @kept: messages without a tag, as they came
 * @kept_tagged: messages with one
 * @came: messages kept so far
 * @nkept: messages on the two lists
 *
 * Knows nothing of devices. The caller's lock protects it.
 */
struct kfr_match {
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
 * @base: reports go there
 * @ep: its endpoint
 * @index: which one it is
 * @flags: default flags
 * @size: receives
 * @nkeep: messages that it keeps
 * @recvs: all receives
 * @unexps: all rooms for messages
 * @busy: who is about to report or to copy, +1 until it is closed
 * @idle: @busy is 0
 * @lock: protects the following
 * @free: receives not posted
 * @spare: rooms for messages not in use
 * @nspare: their number
 * @match: posted receives and kept messages
 * @min_multi: see KFI_OPT_MIN_MULTI_RECV
 * @multi_lock: held while a message in a multi-receive is reported, or that it is
 *	cancelled or released, so that this comes last; taken outside @lock
 * @closing: nothing is reported any more
 * @flows: connections that were pushed back
 * @asks: how often its flows were asked; makes each time different
 * @resumes: how often its flows were resumed; the same
 * @keys: regions that are enabled on it
 * @forgetting: on a list of kfr_node_forget()
 * @expire: refuses RMA that matches nothing
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
	spinlock_t lock;	/* receives, kept messages */
	struct kfr_recv *free;
	struct list_head spare;
	unsigned int nspare;
	struct kfr_match match;
	size_t min_multi;
	spinlock_t multi_lock;	/* reports of multi-receives */
	bool closing;
	struct list_head flows;
	u64 asks;
	u64 resumes;
	struct xarray keys;
	struct list_head forgetting;
	struct delayed_work expire;
};

/**
 * struct kfr_range - the part of a receive that a message gets
 * @at: where it begins
 * @len: bytes
 * @over: bytes of the message that do not fit
 * @drop: it gets none, and the receive is nobody's: kfr_recv_drop() ends it
 */
struct kfr_range {
	size_t at;
	size_t len;
	size_t over;
	bool drop;
};

/* match.c */
int kfr_match_init(struct kfr_match *match, unsigned int size);
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
 * struct kfr_post - a receive to be posted
 * @tagged: for tagged messages
 * @strict: the flags are the caller's, not the context's
 * @type: what the pieces are
 * @pieces: of the buffer
 * @count: how many
 * @addr: only from there; KFI_ADDR_UNSPEC: from anywhere
 * @tag: which messages
 * @ignore: bits of it that do not matter
 * @context: the ULP's
 * @flags: of the call
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
bool kfr_recv_take(struct kfr_rx *rx, struct kfr_recv *recv,
		   const struct kfr_hdr *hdr, struct kfr_range *range);
void kfr_recv_done(struct kfr_rx *rx, struct kfr_recv *recv,
		   struct kfi_completion *comp);
void kfr_recv_drop(struct kfr_rx *rx, struct kfr_recv *recv);

/* profile.c: what profiles show of kept messages */
void kfr_rx_profile(struct kfr_rx *rx);
void kfr_rx_tell(struct kfr_rx *rx, u32 id, const struct kfr_unexp *unexp);

/* rx.c: what arrives */
u64 kfr_arrived_kind(const struct kfr_hdr *hdr);
int kfr_receive(struct kfr_conn *conn, const struct kfr_hdr *hdr,
		struct page *page, size_t len);
void kfr_rx_deliver(struct kfr_rx *rx, struct kfr_recv *recv,
		    struct kfr_unexp *unexp, const struct kfr_range *range);
void kfr_rx_refuse(struct kfr_unexp *unexp, enum kfr_status status);
void kfr_completion(const struct kfr_rx *rx, const struct kfr_hdr *hdr,
		    struct kfr_addr src, const struct kfr_recv *recv,
		    const struct kfr_range *range,
		    struct kfi_completion *comp);
void kfr_rx_expire(struct work_struct *work);

/* flow.c: pushing back */
bool kfr_flow_unknown(struct kfr_rx *rx, const struct kfr_conn *conn);
bool kfr_flow_open(struct kfr_rx *rx, const struct kfr_conn *conn, u16 epoch);
bool kfr_flow_blocked(const struct kfr_rx *rx);
int kfr_flow_block(struct kfr_rx *rx, struct kfr_conn *conn);
void kfr_rx_resume(struct kfr_rx *rx);
void kfr_rx_drop_flows(struct kfr_rx *rx);
void kfr_rx_forget(struct kfr_rx *rx, struct kfr_conn *conn);
int kfr_flow_nak(struct kfr_conn *conn, const struct kfr_hdr *hdr);
int kfr_flow_resume(struct kfr_conn *conn, const struct kfr_hdr *hdr);
void kfr_flow_want(struct kfr_conn *conn, const struct kfr_hdr *hdr);
void kfr_rx_want(struct kfr_rx *rx, const struct kfr_recv *recv);
void kfr_rx_want_from(struct kfr_rx *rx, struct kfr_conn *conn,
		      const struct kfr_recv *recv);
u16 kfr_flow_epoch(const struct kfr_conn *conn, const struct kfr_op *op);

#endif /* _KFV_RDM_MATCH_H_ */
