// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Messages and bulks, and what becomes of them. */
#include <linux/bitops.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <kfi_errno.h>
#include <kfi_rma.h>
#include <kfi_tagged.h>

#include "lnd.h"

#define LND_LATER	(HZ / 10)	/* what found no room is posted again */
#define LND_REFUSES	97		/* of so many bulks, the server refuses one */

/* What else completes is a bug, here or in the provider. */
#define LND_MSG_SENT	(KFI_MSG | KFI_SEND)
#define LND_TAG_SENT	(KFI_TAGGED | KFI_SEND)
#define LND_DONE_READ	(KFI_TAGGED | KFI_RMA | KFI_READ | KFI_SEND)
#define LND_DONE_WRITE	(KFI_TAGGED | KFI_RMA | KFI_WRITE | KFI_SEND)
#define LND_WAS_READ	(KFI_TAGGED | KFI_RMA | KFI_READ | KFI_RECV)
#define LND_WAS_WRITTEN	(KFI_TAGGED | KFI_RMA | KFI_WRITE | KFI_RECV)
#define LND_WAS_REFUSED	(KFI_TAGGED | KFI_RECV | KFI_REMOTE_CQ_DATA)

/**
 * lnd_fill() - the data of a message or a bulk
 * @data: where to
 * @len: bytes
 * @seq: its number
 *
 * Context: any.
 */
void lnd_fill(u8 *data, size_t len, u64 seq)
{
	size_t i;

	for (i = 0; i < len; i++)
		data[i] = (u8)(seq * 31 + i);
}

static bool lnd_filled(const u8 *data, size_t len, u64 seq)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (data[i] != (u8)(seq * 31 + i))
			return false;
	return true;
}

static void lnd_fail(struct lnd *lnd, int err)
{
	cmpxchg(&lnd->err, 0, err);
	wake_up(&lnd->changed);
}

static struct lnd_tn *lnd_tn_new(bool bulk)
{
	struct lnd_tn *tn = kvzalloc(sizeof(*tn), GFP_KERNEL);
	int i;

	if (!tn)
		return NULL;
	INIT_LIST_HEAD(&tn->link);
	tn->msg = kzalloc(sizeof(*tn->msg), GFP_KERNEL);
	if (!tn->msg)
		return tn;
	for (i = 0; bulk && i < LND_PAGES; i++) {
		tn->pages[i] = alloc_page(GFP_KERNEL);
		if (!tn->pages[i])
			break;
		bvec_set_page(&tn->bvec[i], tn->pages[i], PAGE_SIZE, 0);
	}
	return tn;
}

/**
 * lnd_tns_new() - allocate all transactions of a side
 * @lnd: zeroed
 *
 * Context: process, may sleep.
 * Return: 0 or -ENOMEM; lnd_tns_free() in any case.
 */
int lnd_tns_new(struct lnd *lnd)
{
	struct lnd_tn *tn;
	bool bulk;
	int i;

	spin_lock_init(&lnd->lock);
	init_waitqueue_head(&lnd->changed);
	INIT_LIST_HEAD(&lnd->free);
	INIT_LIST_HEAD(&lnd->free_bulk);
	INIT_LIST_HEAD(&lnd->later);
	INIT_DELAYED_WORK(&lnd->retry, lnd_retry);
	for (i = 0; i < LND_TNS; i++) {
		bulk = i < LND_BULK_TNS;
		tn = lnd_tn_new(bulk);
		if (!tn)
			return -ENOMEM;
		list_add(&tn->link, bulk ? &lnd->free_bulk : &lnd->free);
		if (!tn->msg || (bulk && !tn->pages[LND_PAGES - 1]))
			return -ENOMEM;
	}
	return 0;
}

static void lnd_tns_free_list(struct list_head *list)
{
	struct lnd_tn *tn, *next;
	int i;

	list_for_each_entry_safe(tn, next, list, link) {
		for (i = 0; i < LND_PAGES && tn->pages[i]; i++)
			__free_page(tn->pages[i]);
		kfree(tn->msg);
		kvfree(tn);
	}
}

/**
 * lnd_tns_free() - the mirror of lnd_tns_new(); all transactions have ended
 * @lnd: the side
 *
 * Context: process.
 */
void lnd_tns_free(struct lnd *lnd)
{
	lnd_tns_free_list(&lnd->free);
	lnd_tns_free_list(&lnd->free_bulk);
}

/**
 * lnd_tn_get() - a transaction that is not in use
 * @lnd: the side
 * @bulk: it has pages
 *
 * Context: any.
 * Return: the transaction, or NULL.
 */
struct lnd_tn *lnd_tn_get(struct lnd *lnd, bool bulk)
{
	struct list_head *list = bulk ? &lnd->free_bulk : &lnd->free;
	struct lnd_tn *tn;
	unsigned long irq;

	spin_lock_irqsave(&lnd->lock, irq);
	tn = list_first_entry_or_null(list, struct lnd_tn, link);
	if (tn) {
		list_del_init(&tn->link);
		lnd->busy++;
	}
	spin_unlock_irqrestore(&lnd->lock, irq);
	return tn;
}

static void lnd_tn_put(struct lnd *lnd, struct lnd_tn *tn)
{
	unsigned long irq;

	spin_lock_irqsave(&lnd->lock, irq);
	list_add_tail(&tn->link, tn->pages[0] ? &lnd->free_bulk : &lnd->free);
	lnd->busy--;
	spin_unlock_irqrestore(&lnd->lock, irq);
	wake_up(&lnd->changed);
}

static kfi_addr_t lnd_target(const struct lnd_tn *tn)
{
	return kfi_rx_addr(tn->cpt->lnd->peer, tn->cpt->index, LND_BITS);
}

static ssize_t lnd_send(struct lnd_tn *tn)
{
	return kfi_send(tn->cpt->tx, tn->msg, sizeof(*tn->msg), NULL,
			lnd_target(tn), tn);
}

/* From one peer only, whatever its context. */
static ssize_t lnd_expose(struct lnd_tn *tn)
{
	struct kfi_msg_tagged msg = {
		.type = KFI_BVEC,
		.msg_biov = tn->bvec,
		.iov_count = LND_PAGES,
		.addr = tn->cpt->lnd->peer,
		.tag = tn->tag,
		.context = tn,
	};
	ssize_t err;

	if (tn->posted)
		return 0;
	err = kfi_trecvmsg(tn->cpt->rx, &msg, KFI_COMPLETION);
	tn->posted = !err;
	return err;
}

static ssize_t lnd_move(struct lnd_tn *tn)
{
	struct kfi_rma_iov rma = { .len = LND_BULK_SIZE, .key = tn->tag };
	struct kfi_msg_rma msg = {
		.type = KFI_BVEC,
		.msg_biov = tn->bvec,
		.iov_count = LND_PAGES,
		.addr = lnd_target(tn),
		.rma_iov = &rma,
		.rma_iov_count = 1,
		.context = tn,
	};

	return tn->op == LND_READ ?
	       kfi_readmsg(tn->cpt->tx, &msg, KFI_TAGGED | KFI_COMPLETION) :
	       kfi_writemsg(tn->cpt->tx, &msg, KFI_TAGGED | KFI_COMPLETION);
}

/* It is reported in any case, with ECANCELED or as what it took. */
static ssize_t lnd_withdraw(struct lnd_tn *tn)
{
	ssize_t err = lnd_expose(tn);

	if (err)
		return err;
	err = kfi_cancel(&tn->cpt->rx->fid, tn);
	return err == -ENOENT ? 0 : err;
}

static ssize_t lnd_post(struct lnd_tn *tn)
{
	switch (tn->op) {
	case LND_SEND:
		return lnd_send(tn);
	case LND_OFFER:
		return lnd_expose(tn) ?: lnd_send(tn);
	case LND_READ:
	case LND_WRITE:
		return lnd_move(tn);
	case LND_REFUSE:
		return kfi_tsenddata(tn->cpt->tx, NULL, 0, NULL, (u64)-ENOSPC,
				     lnd_target(tn), tn->tag, tn);
	case LND_WITHDRAW:
		return lnd_withdraw(tn);
	}
	return -EINVAL;
}

/* Half of a transaction has ended; the driver's have two. */
static void lnd_half(struct lnd_tn *tn, bool *half)
{
	struct lnd *lnd = tn->cpt->lnd;
	unsigned long irq;
	bool ended;

	spin_lock_irqsave(&lnd->lock, irq);
	*half = true;
	ended = tn->sent && tn->received;
	spin_unlock_irqrestore(&lnd->lock, irq);
	if (ended)
		lnd_tn_put(lnd, tn);
}

/* Its message has not left. A receive that is posted comes back with ECANCELED. */
static void lnd_give_up(struct lnd_tn *tn)
{
	if (tn->posted)
		kfi_cancel(&tn->cpt->rx->fid, tn);
	else
		tn->received = true;
	lnd_half(tn, &tn->sent);
}

static void lnd_try(struct lnd_tn *tn)
{
	struct lnd *lnd = tn->cpt->lnd;
	ssize_t err = lnd_post(tn);
	unsigned long irq;

	if (!err)
		return;
	if (err != -KFI_EAGAIN) {
		lnd_fail(lnd, err);
		lnd_give_up(tn);
		return;
	}
	spin_lock_irqsave(&lnd->lock, irq);
	list_add_tail(&tn->link, &lnd->later);
	spin_unlock_irqrestore(&lnd->lock, irq);
	queue_delayed_work(lnd->wq, &lnd->retry, LND_LATER);
}

/**
 * lnd_retry() - post what found no room
 * @work: lnd.retry
 *
 * Context: work item.
 */
void lnd_retry(struct work_struct *work)
{
	struct lnd *lnd = container_of(to_delayed_work(work), struct lnd, retry);
	struct lnd_tn *tn, *next;
	LIST_HEAD(list);

	spin_lock_irq(&lnd->lock);
	list_splice_init(&lnd->later, &list);
	spin_unlock_irq(&lnd->lock);
	list_for_each_entry_safe(tn, next, &list, link) {
		list_del_init(&tn->link);
		if (READ_ONCE(lnd->err))
			lnd_give_up(tn);
		else
			lnd_try(tn);
	}
}

/**
 * lnd_start() - begin a transaction
 * @tn: the transaction; @tag is there if the operation needs it
 * @op: what to do
 * @type: of its message
 * @seq: number of the message, or of the bulk
 *
 * Its end gives it back.
 *
 * Context: any.
 */
void lnd_start(struct lnd_tn *tn, enum lnd_op op, enum lnd_type type, u64 seq)
{
	tn->op = op;
	tn->seq = seq;
	tn->posted = false;
	tn->sent = op == LND_WITHDRAW;
	tn->received = op != LND_OFFER && op != LND_WITHDRAW;
	*tn->msg = (struct lnd_msg){
		.type = cpu_to_le32(type),
		.seq = cpu_to_le64(seq),
		.tag = cpu_to_le64(tn->tag),
	};
	lnd_fill(tn->msg->fill, LND_FILL, seq);
	lnd_try(tn);
}

static bool lnd_bulk_ok(const struct lnd_tn *tn)
{
	int i;

	for (i = 0; i < LND_PAGES; i++)
		if (!lnd_filled(page_address(tn->pages[i]), PAGE_SIZE,
				tn->seq + i))
			return false;
	return true;
}

static void lnd_fill_bulk(struct lnd_tn *tn)
{
	int i;

	for (i = 0; i < LND_PAGES; i++)
		lnd_fill(page_address(tn->pages[i]), PAGE_SIZE, tn->seq + i);
}

/* ---- The server ---- */

static unsigned int lnd_counted(struct lnd *lnd)
{
	unsigned int requests;

	spin_lock_irq(&lnd->lock);
	requests = ++lnd->requests;
	spin_unlock_irq(&lnd->lock);
	return requests;
}

static void lnd_serve(struct lnd_cpt *cpt, const struct lnd_msg *msg)
{
	bool get = le32_to_cpu(msg->type) == LND_GET;
	struct lnd *lnd = cpt->lnd;
	struct lnd_tn *tn = NULL;
	enum lnd_op op = get ? LND_WRITE : LND_READ;

	if (lnd_counted(lnd) % LND_REFUSES)
		tn = lnd_tn_get(lnd, true);
	if (!tn) {
		op = LND_REFUSE;
		tn = lnd_tn_get(lnd, false);
	}
	if (!tn) {
		lnd_fail(lnd, -ENOBUFS);
		return;
	}
	tn->cpt = cpt;
	tn->tag = le64_to_cpu(msg->tag);
	tn->seq = le64_to_cpu(msg->seq);
	if (op == LND_WRITE)
		lnd_fill_bulk(tn);
	lnd_start(tn, op, 0, tn->seq);
}

static void lnd_reply(struct lnd_cpt *cpt, enum lnd_type type)
{
	struct lnd_tn *tn = lnd_tn_get(cpt->lnd, false);

	if (!tn) {
		lnd_fail(cpt->lnd, -ENOBUFS);
		return;
	}
	tn->cpt = cpt;
	lnd_start(tn, LND_SEND, type, 0);
}

/* All contexts count together, and the end may overtake messages of another one. */
static void lnd_count(struct lnd_cpt *cpt, u64 came, u64 total)
{
	struct lnd *lnd = cpt->lnd;
	unsigned long irq;
	bool all;

	spin_lock_irqsave(&lnd->lock, irq);
	lnd->came += came;
	if (total != U64_MAX)
		lnd->total = total;
	all = lnd->came == lnd->total;
	if (all)
		lnd->total = U64_MAX;
	lnd->ended |= all;
	spin_unlock_irqrestore(&lnd->lock, irq);
	if (!all)
		return;
	lnd_reply(cpt, LND_END_BACK);
	wake_up(&lnd->changed);
}

static void lnd_immediate(struct lnd_cpt *cpt, u64 seq)
{
	if (seq >= LND_MAX || test_and_set_bit(seq, cpt->lnd->seen))
		lnd_fail(cpt->lnd, -EBADMSG);
	else
		lnd_count(cpt, 1, U64_MAX);
}

/* ---- Completions ---- */

static void lnd_message(struct lnd_cpt *cpt, const struct lnd_msg *msg, size_t len)
{
	struct lnd *lnd = cpt->lnd;
	u64 seq = le64_to_cpu(msg->seq);

	if (len != sizeof(*msg) || !lnd_filled(msg->fill, LND_FILL, seq)) {
		lnd_fail(lnd, -EBADMSG);
		return;
	}
	switch (le32_to_cpu(msg->type)) {
	case LND_HELLO:
		lnd_reply(cpt, LND_HELLO_BACK);
		break;
	case LND_IMMEDIATE:
		lnd_immediate(cpt, seq);
		break;
	case LND_PUT:
	case LND_GET:
		lnd_serve(cpt, msg);
		break;
	case LND_END:
		lnd_count(cpt, 0, seq);
		break;
	case LND_HELLO_BACK:
		WRITE_ONCE(lnd->hello, true);
		wake_up(&lnd->changed);
		break;
	case LND_END_BACK:
		WRITE_ONCE(lnd->ended, true);
		wake_up(&lnd->changed);
		break;
	default:
		lnd_fail(lnd, -EBADMSG);
	}
}

/* The provider has given a buffer back: it is posted again, in the same work item. */
static void lnd_released(struct lnd_recv *recv)
{
	struct lnd *lnd = recv->cpt->lnd;
	int err;

	WRITE_ONCE(recv->posted, false);
	if (READ_ONCE(lnd->closing)) {
		wake_up(&lnd->changed);
		return;
	}
	err = lnd_post_recv(recv);
	if (err)
		lnd_fail(lnd, err);
}

static void lnd_exposed(struct lnd_tn *tn, const struct kfi_cq_data_entry *entry)
{
	struct lnd *lnd = tn->cpt->lnd;
	bool refused = entry->flags == LND_WAS_REFUSED;

	if (refused && entry->data != (u64)-ENOSPC)
		lnd_fail(lnd, -EBADMSG);
	if (entry->flags == LND_WAS_WRITTEN && !lnd_bulk_ok(tn))
		lnd_fail(lnd, -EBADMSG);
	spin_lock_irq(&lnd->lock);
	lnd->refused += refused;
	lnd->bulks += !refused;
	spin_unlock_irq(&lnd->lock);
	lnd_half(tn, &tn->received);
}

static void lnd_rx_entry(struct lnd_cpt *cpt, const struct kfi_cq_data_entry *entry)
{
	switch (entry->flags) {
	case KFI_MSG | KFI_RECV:
		lnd_message(cpt, entry->buf, entry->len);
		break;
	case KFI_MSG | KFI_RECV | KFI_MULTI_RECV:
		if (entry->len)
			lnd_message(cpt, entry->buf, entry->len);
		fallthrough;
	case KFI_MULTI_RECV:
		lnd_released(entry->op_context);
		break;
	case LND_WAS_READ:
	case LND_WAS_WRITTEN:
	case LND_WAS_REFUSED:
		lnd_exposed(entry->op_context, entry);
		break;
	default:
		WARN(1, "kfi_lnd: flags of a receive: %#llx\n", entry->flags);
		lnd_fail(cpt->lnd, -EPROTO);
	}
}

static void lnd_tx_entry(struct lnd_cpt *cpt, const struct kfi_cq_data_entry *entry)
{
	struct lnd_tn *tn = entry->op_context;

	switch (entry->flags) {
	case LND_DONE_READ:
		if (!lnd_bulk_ok(tn))
			lnd_fail(cpt->lnd, -EBADMSG);
		fallthrough;
	case LND_MSG_SENT:
	case LND_TAG_SENT:
	case LND_DONE_WRITE:
		lnd_half(tn, &tn->sent);
		break;
	default:
		WARN(1, "kfi_lnd: flags of a send: %#llx\n", entry->flags);
		lnd_fail(cpt->lnd, -EPROTO);
	}
}

static void lnd_rx_error(struct lnd_cpt *cpt, const struct kfi_cq_err_entry *entry)
{
	struct lnd *lnd = cpt->lnd;
	struct lnd_tn *tn;

	/* After another error than this a buffer for messages is still posted. */
	if (!(entry->flags & KFI_TAGGED)) {
		if (entry->err == KFI_ECANCELED)
			lnd_released(entry->op_context);
		return;
	}
	tn = entry->op_context;
	if (entry->err != KFI_ECANCELED) {
		lnd_fail(lnd, -entry->err);
	} else {
		spin_lock_irq(&lnd->lock);
		lnd->withdrawn++;
		spin_unlock_irq(&lnd->lock);
	}
	lnd_half(tn, &tn->received);
}

/* Nobody will answer the bulk that the message was for: take its receive back. */
static void lnd_tx_error(struct lnd_cpt *cpt, const struct kfi_cq_err_entry *entry)
{
	struct lnd_tn *tn = entry->op_context;

	lnd_fail(cpt->lnd, -entry->err);
	if (tn->op == LND_OFFER)
		kfi_cancel(&tn->cpt->rx->fid, tn);
	lnd_half(tn, &tn->sent);
}

/* The last entry of a lost device has no flags: no operation ends any more. */
static void lnd_lost(struct lnd *lnd, int err)
{
	WRITE_ONCE(lnd->lost, true);
	lnd_fail(lnd, err);
}

static void lnd_drain(struct lnd_cpt *cpt, struct kfid_cq *cq,
		      void (*entry)(struct lnd_cpt *cpt,
				    const struct kfi_cq_data_entry *entry),
		      void (*error)(struct lnd_cpt *cpt,
				    const struct kfi_cq_err_entry *entry))
{
	struct kfi_cq_err_entry failed;
	struct kfi_cq_data_entry ended;
	ssize_t n;

	while (!READ_ONCE(cpt->closed)) {
		n = kfi_cq_read(cq, &ended, 1);
		if (n == 1) {
			entry(cpt, &ended);
			continue;
		}
		if (n == -KFI_EAGAIN)
			return;
		failed = (struct kfi_cq_err_entry){ };
		if (n == -KFI_EAVAIL && kfi_cq_readerr(cq, &failed, 0) == 1) {
			if (failed.flags)
				error(cpt, &failed);
			else
				lnd_lost(cpt->lnd, -failed.err);
			continue;
		}
		lnd_fail(cpt->lnd, n < 0 ? n : -EPROTO);
		return;
	}
}

/**
 * lnd_rx_work() - read what was received
 * @work: lnd_cpt.rx_work
 *
 * Context: work item.
 */
void lnd_rx_work(struct work_struct *work)
{
	struct lnd_cpt *cpt = container_of(work, struct lnd_cpt, rx_work);

	if (!READ_ONCE(cpt->closed))
		lnd_drain(cpt, cpt->rx_cq, lnd_rx_entry, lnd_rx_error);
}

/**
 * lnd_tx_work() - read what was sent
 * @work: lnd_cpt.tx_work
 *
 * Context: work item.
 */
void lnd_tx_work(struct work_struct *work)
{
	struct lnd_cpt *cpt = container_of(work, struct lnd_cpt, tx_work);

	if (!READ_ONCE(cpt->closed))
		lnd_drain(cpt, cpt->tx_cq, lnd_tx_entry, lnd_tx_error);
}
