/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A stand-in for a ULP of large storage networks: it makes the calls that such a ULP makes,
 * in the same order, and relies on what it relies on. Nobody sleeps in a call of kfabric's:
 * completion handlers queue work items, which read until the queue is empty.
 *
 *	driver				server
 *	kfi_send (immediate)		multi-receive buffers
 *	kfi_trecvmsg, kfi_send (bulk)	kfi_readmsg or kfi_writemsg on the tag
 *	the same			kfi_tsenddata on the tag: refused
 *	kfi_trecvmsg, kfi_cancel
 */
#ifndef _KFI_LND_H_
#define _KFI_LND_H_

#include <linux/bvec.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/version.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include <kfabric.h>

/* 930c2ea566af (6.17): until then this was the default, and had no flag. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define WQ_PERCPU	0
#endif

#define LND_CPTS	2		/* contexts of each endpoint */
#define LND_BITS	8		/* of an address, for the context */
#define LND_BUFS	4		/* multi-receives of a context */
#define LND_BUF_SIZE	SZ_512K
#define LND_MIN_RECV	4096		/* a buffer with less is released */
#define LND_CREDITS	512
#define LND_PAGES	256
#define LND_BULK_SIZE	(LND_PAGES * PAGE_SIZE)
#define LND_TNS		96		/* operations of a side */
#define LND_BULK_TNS	8		/* of these, with pages */
#define LND_FILL	200		/* bytes of an immediate message */
#define LND_PATIENCE	(120 * HZ)	/* for the peer */

enum lnd_type {
	LND_HELLO = 1,
	LND_HELLO_BACK,
	LND_IMMEDIATE,
	LND_PUT,			/* the server reads */
	LND_GET,			/* the server writes */
	LND_END,			/* @seq: immediate messages in all */
	LND_END_BACK,
};

struct lnd_msg {
	__le32 type;
	__le32 pad;
	__le64 seq;
	__le64 tag;
	u8 fill[LND_FILL];
} __packed;

struct lnd;

/**
 * struct lnd_recv - a multi-receive
 * @cpt: its context
 * @data: the buffer
 * @posted: it is; written by who posts it, and by @cpt's rx_work
 */
struct lnd_recv {
	struct lnd_cpt *cpt;
	void *data;
	bool posted;
};

/**
 * struct lnd_cpt - contexts, and the queues that belong to them
 * @lnd: the side
 * @index: of the contexts
 * @tx_cq: what was sent, and what was moved by RMA
 * @rx_cq: what was received
 * @tx: the transmit context
 * @rx: the receive context
 * @tx_work: reads @tx_cq
 * @rx_work: reads @rx_cq
 * @recvs: the buffers for messages
 * @closed: work items leave the queues alone
 */
struct lnd_cpt {
	struct lnd *lnd;
	int index;
	bool closed;
	struct kfid_cq *tx_cq;
	struct kfid_cq *rx_cq;
	struct kfid_ep *tx;
	struct kfid_ep *rx;
	struct work_struct tx_work;
	struct work_struct rx_work;
	struct lnd_recv recvs[LND_BUFS];
};

enum lnd_op {
	LND_SEND,			/* kfi_send() of @msg */
	LND_OFFER,			/* kfi_trecvmsg(), then kfi_send() of @msg */
	LND_READ,			/* kfi_readmsg() */
	LND_WRITE,			/* kfi_writemsg() */
	LND_REFUSE,			/* kfi_tsenddata() */
	LND_WITHDRAW,			/* kfi_trecvmsg(), then kfi_cancel() */
};

/**
 * struct lnd_tn - a transaction
 * @link: on lnd.free, lnd.free_bulk or lnd.later
 * @cpt: the contexts that it uses
 * @op: what is left to do
 * @posted: its tagged receive is posted
 * @sent: its message has left
 * @received: its tagged receive has ended
 * @msg: the message
 * @tag: of the bulk
 * @seq: number of the bulk, which gives the data
 * @pages: of the bulk, or NULL
 * @bvec: the same
 */
struct lnd_tn {
	struct list_head link;
	struct lnd_cpt *cpt;
	enum lnd_op op;
	bool posted;
	bool sent;
	bool received;
	struct lnd_msg *msg;
	u64 tag;
	u64 seq;
	struct page *pages[LND_PAGES];
	struct bio_vec bvec[LND_PAGES];
};

/**
 * struct lnd - one side
 * @info: the offer
 * @fabric: of the offer
 * @domain: of the offer
 * @av: with the peer
 * @sep: the scalable endpoint
 * @peer: the peer's address
 * @cpts: contexts
 * @wq: for completions
 * @retry: posts again what found no room
 * @lock: the rest, where nothing else is said
 * @free: transactions without pages
 * @free_bulk: those with pages
 * @later: transactions that found no room
 * @busy: transactions in use
 * @changed: for the driver: any of this has changed
 * @closing: buffers that come back are not posted again
 * @err: the first error, a negative errno
 * @lost: the device
 * @hello: the peer has answered
 * @ended: the peer has reported the end
 * @said: immediate messages that the driver has sent; its own
 * @seen: immediate messages that have come, by number
 * @came: how many
 * @total: how many there will be, or U64_MAX
 * @end_cpt: where LND_END came
 * @bulks: bulks that have ended well
 * @refused: bulks that the server has refused
 * @withdrawn: tagged receives that were cancelled
 * @requests: bulks that were asked of the server
 */
struct lnd {
	struct kfi_info *info;
	struct kfid_fabric *fabric;
	struct kfid_domain *domain;
	struct kfid_av *av;
	struct kfid_ep *sep;
	kfi_addr_t peer;
	struct lnd_cpt cpts[LND_CPTS];
	struct workqueue_struct *wq;
	struct delayed_work retry;
	spinlock_t lock;	/* see above */
	struct list_head free;
	struct list_head free_bulk;
	struct list_head later;
	unsigned int busy;
	wait_queue_head_t changed;
	bool closing;
	int err;
	bool lost;
	bool hello;
	bool ended;
	unsigned int said;
	unsigned long *seen;
	u64 came;
	u64 total;
	unsigned int bulks;
	unsigned int refused;
	unsigned int withdrawn;
	unsigned int requests;
};

/* net.c */
int lnd_open(struct lnd *lnd, const char *addr, const char *service, const char *peer);
void lnd_close(struct lnd *lnd);
int lnd_post_recv(struct lnd_recv *recv);

/* traffic.c */
#define LND_MAX		1048576		/* immediate messages */

int lnd_tns_new(struct lnd *lnd);
void lnd_tns_free(struct lnd *lnd);
struct lnd_tn *lnd_tn_get(struct lnd *lnd, bool bulk);
void lnd_start(struct lnd_tn *tn, enum lnd_op op, enum lnd_type type, u64 seq);
void lnd_fill(u8 *data, size_t len, u64 seq);
void lnd_tx_work(struct work_struct *work);
void lnd_rx_work(struct work_struct *work);
void lnd_retry(struct work_struct *work);

#endif /* _KFI_LND_H_ */
