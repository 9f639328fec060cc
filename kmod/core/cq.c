// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Completion queues: a ring in which entries and errors keep the order in which
 * they happened. A full ring is overrun for good: nothing is stored after the gap,
 * and a reader gets the overrun once it has read all entries before it.
 */
#include <linux/cpumask.h>
#include <linux/log2.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include <kfi_channel.h>
#include <kfi_enosys.h>

#include "core.h"

#define KFI_CQ_DEFAULT	1024
#define KFI_CQ_MAX	65536

static bool sread_zero_blocks;
module_param(sread_zero_blocks, bool, 0644);
MODULE_PARM_DESC(sread_zero_blocks,
		 "in-kernel kfi_cq_sread/kfi_eq_sread with timeout 0 block, as in older kfabric (default: one check)");

/**
 * struct kfi_cq - a completion queue
 * @cq: the public object
 * @src: the part shared with EQs and counters; @src.lock protects @head, @tail,
 *	 @errors, @reserved, @want, @overrun, @rooms, @shadow and @ring
 * @format: of the entries that reads return; constant
 * @cond: may sread be given a threshold? constant
 * @signalled: number of the last kfi_cq_signal(); written under @src.lock, read
 *	       without it
 * @head: entries read so far; also read without the lock, as a hint
 * @tail: entries stored so far; also read without the lock, as a hint
 * @errors: error entries between the two
 * @reserved: entries that kfi_cq_reserve() promised
 * @want: the largest threshold of a blocking read so far; also read without the lock
 * @size: of the ring, a power of two; constant
 * @overrun: completions came when it was full
 * @closing: kfi_cq_closing() has run; its callers are serialised
 * @rooms: providers that wait for room
 * @shadow: also shows the entries
 * @ring: the entries
 */
struct kfi_cq {
	struct kfid_cq cq;
	struct kfi_source src;
	enum kfi_cq_format format;
	enum kfi_cq_wait_cond cond;
	u64 signalled;
	u32 head;
	u32 tail;
	u32 errors;
	u32 reserved;
	u32 want;
	u32 size;
	bool overrun;
	bool closing;
	struct list_head rooms;
	struct kfi_cq_shadow *shadow;
	struct kfi_completion *ring;
};

static struct kfi_cq *to_cq(struct kfid_cq *cq)
{
	return container_of(cq, struct kfi_cq, cq);
}

/**
 * kfi_cq_source() - the common part of a CQ
 * @cq: the CQ
 *
 * Context: any; takes no lock.
 * Return: valid as long as the CQ.
 */
struct kfi_source *kfi_cq_source(struct kfid_cq *cq)
{
	return &to_cq(cq)->src;
}

static struct kfi_completion *kfi_cq_slot(struct kfi_cq *cq, u32 at)
{
	return &cq->ring[at & (cq->size - 1)];
}

/* Entries stored and not read: exact under the lock, a hint without it. */
static u32 kfi_cq_fill(const struct kfi_cq *cq)
{
	return READ_ONCE(cq->tail) - READ_ONCE(cq->head);
}

/**
 * kfi_cq_entry_size() - bytes of one entry of a format
 * @format: KFI_CQ_FORMAT_*
 *
 * Context: any; takes no lock.
 * Return: bytes; 0 for a format that does not exist.
 */
size_t kfi_cq_entry_size(enum kfi_cq_format format)
{
	switch (format) {
	case KFI_CQ_FORMAT_CONTEXT:
		return sizeof(struct kfi_cq_entry);
	case KFI_CQ_FORMAT_MSG:
		return sizeof(struct kfi_cq_msg_entry);
	case KFI_CQ_FORMAT_DATA:
		return sizeof(struct kfi_cq_data_entry);
	case KFI_CQ_FORMAT_TAGGED:
		return sizeof(struct kfi_cq_tagged_entry);
	default:
		return 0;
	}
}
EXPORT_SYMBOL_GPL(kfi_cq_entry_size);

/* The formats are prefixes of each other. */
static void kfi_cq_copy(const struct kfi_cq *cq, void *to,
			const struct kfi_completion *comp)
{
	struct kfi_cq_tagged_entry entry = {
		.op_context = comp->context,
		.flags = comp->flags,
		.len = comp->len,
		.buf = comp->buf,
		.data = comp->data,
		.tag = comp->tag,
	};

	if (cq->format == KFI_CQ_FORMAT_MSG)
		entry.flags &= ~KFI_REMOTE_CQ_DATA;
	memcpy(to, &entry, kfi_cq_entry_size(cq->format));
}

/* Show an entry that is about to be the last one. The caller holds the lock. */
static void kfi_cq_shadow(struct kfi_cq *cq, const struct kfi_completion *comp)
{
	struct kfi_cq_tagged_entry entry = {};

	lockdep_assert_held(&cq->src.lock);
	kfi_cq_copy(cq, &entry, comp);
	cq->shadow->store(cq->shadow, cq->tail, &entry, comp->src, comp->err);
}

/* Only the channel needs KFI_SOLICITED. The caller holds the lock. */
static void kfi_cq_put(struct kfi_cq *cq, const struct kfi_completion *comp)
{
	struct kfi_completion *slot = kfi_cq_slot(cq, cq->tail);

	lockdep_assert_held(&cq->src.lock);
	*slot = *comp;
	slot->flags &= ~KFI_SOLICITED;
	if (cq->shadow)
		kfi_cq_shadow(cq, slot);
}

/*
 * How far peers may fill the ring: half of it, as the other half is for what the ULP
 * has posted; or as far as a reader waits for.
 */
static u32 kfi_cq_most(const struct kfi_cq *cq)
{
	lockdep_assert_held(&cq->src.lock);
	return max3(cq->size / 2, cq->want, 1U);
}

/*
 * Half of what peers may fill is free, also for what is reserved: the providers that
 * wait may try again. Not earlier, or they would be refused again at once; but a reader
 * that waits for more entries must get them.
 */
static void kfi_cq_offer_room(struct kfi_cq *cq)
{
	const u32 used = kfi_cq_fill(cq) + cq->reserved;
	struct kfi_cq_room *room, *next;

	lockdep_assert_held(&cq->src.lock);
	if (used > kfi_cq_most(cq) / 2 && used >= cq->want && !cq->overrun)
		return;
	list_for_each_entry_safe(room, next, &cq->rooms, link) {
		list_del_init(&room->link);
		queue_work(kfi_handler_wq, &room->work);
	}
}

/* Nothing is stored any more, so there is room for everything. */
static void kfi_cq_overrun(struct kfi_cq *cq)
{
	lockdep_assert_held(&cq->src.lock);
	cq->overrun = true;
	if (cq->shadow)
		cq->shadow->overrun(cq->shadow);
	kfi_cq_offer_room(cq);
}

/**
 * kfi_cq_store() - first phase of a publication on a CQ
 * @fcq: the CQ
 * @comp: copied
 * @target: filled in for kfi_publish()
 *
 * On the CQ's own queue an entry wakes one reader (Q3); an error, an overrun and
 * device loss wake all readers, whatever their thresholds. In a wait set each of them
 * wakes all sleepers (W3); in an exclusive one an entry or an error wakes one.
 *
 * Context: any; takes source->lock, and under it poll->lock and channel->lock.
 */
void kfi_cq_store(struct kfid_cq *fcq, const struct kfi_completion *comp,
		  struct kfi_target *target)
{
	struct kfi_cq *cq = to_cq(fcq);
	struct kfi_wake *wake = &target->wake;
	unsigned long flags;
	bool solicited;

	target->src = &cq->src;
	wake->source = cq->src.id;
	wake->why = comp->err ? KFI_WHY_ERROR : KFI_WHY_EVENT;

	spin_lock_irqsave(&cq->src.lock, flags);
	if (cq->overrun || kfi_cq_fill(cq) == cq->size) {
		kfi_cq_overrun(cq);
		wake->why = KFI_WHY_OVERRUN;
	} else {
		kfi_cq_put(cq, comp);
		cq->errors += comp->err != 0;
		WRITE_ONCE(cq->tail, cq->tail + 1);
		cq->src.counts.completions++;
		cq->src.counts.errors += comp->err != 0;
	}
	wake->have = kfi_cq_fill(cq);
	wake->all = wake->why == KFI_WHY_OVERRUN || (comp->err && !cq->src.set);
	target->fire = kfi_source_stored(&cq->src, wake->why, wake->have);
	solicited = cq->overrun || comp->err || comp->flags & KFI_SOLICITED;
	target->channel = kfi_notify_stored(&cq->src, solicited);
	spin_unlock_irqrestore(&cq->src.lock, flags);
}

/**
 * kfi_cq_has_room() - would one more completion be stored?
 * @fcq: the CQ
 *
 * For providers that push back. A hint: operations in flight are not counted.
 *
 * Context: any; takes no lock.
 * Return: true if there is room.
 */
bool kfi_cq_has_room(struct kfid_cq *fcq)
{
	const struct kfi_cq *cq = to_cq(fcq);

	return kfi_cq_fill(cq) < cq->size;
}
EXPORT_SYMBOL_GPL(kfi_cq_has_room);

/**
 * kfi_cq_reserve() - keep room for a completion that a peer causes
 * @fcq: the CQ
 * @room: without room, its work item is queued when there is some again
 *
 * A provider that makes peers wait calls it before it accepts an operation, and
 * kfi_cq_unreserve() once the completion is reported. Peers get half of the CQ, or as
 * much as a reader waits for. The rest is for operations that the ULP has posted, which
 * nobody counts: with more of them, they can overrun the CQ. An overrun CQ stores
 * nothing, so it has room for everything.
 *
 * Context: any; a lock of the provider may be held that the work item takes, too, so
 * that it finds what the caller does after a refusal; takes source->lock.
 * Return: true if there is room.
 */
bool kfi_cq_reserve(struct kfid_cq *fcq, struct kfi_cq_room *room)
{
	struct kfi_cq *cq = to_cq(fcq);
	unsigned long flags;
	bool ok;

	spin_lock_irqsave(&cq->src.lock, flags);
	ok = cq->overrun || kfi_cq_fill(cq) + cq->reserved < kfi_cq_most(cq);
	if (ok)
		cq->reserved++;
	else if (list_empty(&room->link))
		list_add_tail(&room->link, &cq->rooms);
	spin_unlock_irqrestore(&cq->src.lock, flags);
	return ok;
}
EXPORT_SYMBOL_GPL(kfi_cq_reserve);

/**
 * kfi_cq_unreserve() - the mirror of a successful kfi_cq_reserve()
 * @fcq: the CQ
 *
 * After the report, or without one.
 *
 * Context: any; takes source->lock.
 */
void kfi_cq_unreserve(struct kfid_cq *fcq)
{
	struct kfi_cq *cq = to_cq(fcq);
	unsigned long flags;

	spin_lock_irqsave(&cq->src.lock, flags);
	cq->reserved--;
	kfi_cq_offer_room(cq);
	spin_unlock_irqrestore(&cq->src.lock, flags);
}
EXPORT_SYMBOL_GPL(kfi_cq_unreserve);

/**
 * kfi_cq_leave() - wait for room no longer
 * @fcq: the CQ, open
 * @room: given to kfi_cq_reserve() before, or never; not given to it any more
 *
 * Context: process, may sleep; waits for a running work item; takes source->lock.
 */
void kfi_cq_leave(struct kfid_cq *fcq, struct kfi_cq_room *room)
{
	struct kfi_cq *cq = to_cq(fcq);

	spin_lock_irq(&cq->src.lock);
	list_del_init(&room->link);
	spin_unlock_irq(&cq->src.lock);
	cancel_work_sync(&room->work);
}
EXPORT_SYMBOL_GPL(kfi_cq_leave);

/* The caller holds the lock. An overrun is one more thing to read. */
static void kfi_cq_remove(struct kfi_cq *cq, u32 count)
{
	lockdep_assert_held(&cq->src.lock);
	WRITE_ONCE(cq->head, cq->head + count);
	kfi_source_taken(&cq->src, kfi_cq_fill(cq) + cq->overrun);
	kfi_cq_offer_room(cq);
}

/*
 * Does the CQ hold @least entries, or an error or an overrun, after which no more will
 * count? The caller holds the lock. If nothing is there, the handler is armed.
 */
static bool kfi_cq_holds(struct kfi_cq *cq, u64 least)
{
	lockdep_assert_held(&cq->src.lock);
	if (kfi_cq_fill(cq) >= least || cq->errors || cq->overrun)
		return true;
	if (!kfi_cq_fill(cq))
		kfi_source_arm(&cq->src);
	return false;
}

/*
 * Copy entries from the head up to the first error, unless fewer than @least are
 * there. The caller holds the lock.
 * Return: entries copied, or the reason why there are none.
 */
static ssize_t kfi_cq_look(struct kfi_cq *cq, void *buf, size_t count,
			   kfi_addr_t *src_addr, u64 least)
{
	size_t step = kfi_cq_entry_size(cq->format);
	size_t limit = min_t(size_t, count, kfi_cq_fill(cq));
	struct kfi_completion *comp;
	size_t n;

	lockdep_assert_held(&cq->src.lock);
	if (!kfi_cq_holds(cq, least))
		return -KFI_EAGAIN;
	for (n = 0; n < limit; n++) {
		comp = kfi_cq_slot(cq, cq->head + n);
		if (comp->err)
			break;
		kfi_cq_copy(cq, buf + n * step, comp);
		if (src_addr)
			src_addr[n] = comp->src;
	}
	if (n)
		return n;
	if (kfi_cq_fill(cq))
		return kfi_cq_slot(cq, cq->head)->err ? -KFI_EAVAIL : 0;
	if (cq->overrun)
		return -KFI_EOVERRUN;
	kfi_source_arm(&cq->src);
	return -KFI_EAGAIN;
}

/**
 * kfi_cq_peek() - look at completions without removing them
 * @fcq: the CQ
 * @buf: room for @count entries of the CQ's format
 * @count: most entries wanted
 * @src_addr: room for @count source addresses, or NULL
 * @least: of a blocking read, see kfi_cq_take_fn; else 0
 *
 * Context: any; the caller holds no lock; takes source->lock.
 * Return: entries written, or as kfi_cq_read().
 */
ssize_t kfi_cq_peek(struct kfid_cq *fcq, void *buf, size_t count,
		    kfi_addr_t *src_addr, u64 least)
{
	struct kfi_cq *cq = to_cq(fcq);
	unsigned long flags;
	ssize_t n;

	if (!buf && count)
		return -KFI_EINVAL;
	kfi_domain_progress(cq->src.domain);
	spin_lock_irqsave(&cq->src.lock, flags);
	n = kfi_cq_look(cq, buf, count, src_addr, least);
	spin_unlock_irqrestore(&cq->src.lock, flags);
	return n;
}
EXPORT_SYMBOL_GPL(kfi_cq_peek);

/**
 * kfi_cq_consume() - remove entries that kfi_cq_peek() returned
 * @fcq: the CQ
 * @count: at most the return value of kfi_cq_peek()
 *
 * Context: any; the caller serialises all readers of the CQ; takes source->lock.
 */
void kfi_cq_consume(struct kfid_cq *fcq, size_t count)
{
	struct kfi_cq *cq = to_cq(fcq);
	unsigned long flags;

	spin_lock_irqsave(&cq->src.lock, flags);
	kfi_cq_remove(cq, count);
	spin_unlock_irqrestore(&cq->src.lock, flags);
}
EXPORT_SYMBOL_GPL(kfi_cq_consume);

/**
 * kfi_cq_size() - the entries that a CQ holds
 * @fcq: the CQ
 *
 * Context: any; takes no lock.
 * Return: a power of two.
 */
u32 kfi_cq_size(const struct kfid_cq *fcq)
{
	return container_of(fcq, struct kfi_cq, cq)->size;
}
EXPORT_SYMBOL_GPL(kfi_cq_size);

/**
 * kfi_cq_show() - also show the entries of a CQ in a shadow
 * @fcq: the CQ, without a comp_handler; its first entry is number 0
 * @shadow: constant; used until the CQ is closed; has room for kfi_cq_size() entries
 *
 * Context: any; takes source->lock.
 * Return: 0; -EBUSY: it has a shadow, or has or had an entry or an overrun.
 */
int kfi_cq_show(struct kfid_cq *fcq, struct kfi_cq_shadow *shadow)
{
	struct kfi_cq *cq = to_cq(fcq);
	unsigned long flags;
	int ret = 0;

	spin_lock_irqsave(&cq->src.lock, flags);
	if (cq->shadow || cq->tail || cq->head || cq->overrun)
		ret = -KFI_EBUSY;
	else
		cq->shadow = shadow;
	spin_unlock_irqrestore(&cq->src.lock, flags);
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_cq_show);

/**
 * kfi_cq_hide() - undo kfi_cq_show(), whatever was stored since
 * @fcq: the CQ; nobody has told it what was read in the shadow
 *
 * Context: any; takes source->lock.
 */
void kfi_cq_hide(struct kfid_cq *fcq)
{
	struct kfi_cq *cq = to_cq(fcq);
	unsigned long flags;

	spin_lock_irqsave(&cq->src.lock, flags);
	cq->shadow = NULL;
	spin_unlock_irqrestore(&cq->src.lock, flags);
}
EXPORT_SYMBOL_GPL(kfi_cq_hide);

/* Entries that are looked at with the lock held. */
#define KFI_CQ_LOOK 64

/* How many of the next @n entries come before an error, as far as it looks. */
static u32 kfi_cq_until_error(struct kfi_cq *cq, u32 n)
{
	u32 i = 0;

	lockdep_assert_held(&cq->src.lock);
	if (!cq->errors)
		return n;
	n = min_t(u32, n, KFI_CQ_LOOK);
	while (i < n && !kfi_cq_slot(cq, cq->head + i)->err)
		i++;
	return i;
}

/**
 * kfi_cq_consume_to() - remove entries that were read in a shadow
 * @fcq: the CQ
 * @number: of the first entry that was not read, as the reader says: one that is not
 *	    stored yet, or was removed before, removes nothing. An error and what is
 *	    behind it stay.
 *
 * Context: any; takes source->lock, for a few entries at a time.
 * Return: number of the first entry that is left.
 */
u32 kfi_cq_consume_to(struct kfid_cq *fcq, u32 number)
{
	struct kfi_cq *cq = to_cq(fcq);
	unsigned long flags;
	u32 n, head;

	do {
		spin_lock_irqsave(&cq->src.lock, flags);
		n = number - cq->head;
		n = n > kfi_cq_fill(cq) ? 0 : kfi_cq_until_error(cq, n);
		if (n) {
			WRITE_ONCE(cq->head, cq->head + n);
			kfi_source_taken_elsewhere(&cq->src, kfi_cq_fill(cq) + cq->overrun);
			kfi_cq_offer_room(cq);
		}
		head = cq->head;
		spin_unlock_irqrestore(&cq->src.lock, flags);
	} while (n == KFI_CQ_LOOK);
	return head;
}
EXPORT_SYMBOL_GPL(kfi_cq_consume_to);

/* Look and remove in one step, so that the entries that were there are the ones taken. */
static ssize_t kfi_cq_read_least(struct kfid_cq *fcq, void *buf, size_t count,
				 kfi_addr_t *src_addr, u64 least)
{
	struct kfi_cq *cq = to_cq(fcq);
	unsigned long flags;
	ssize_t n;

	if (!buf && count)
		return -KFI_EINVAL;
	kfi_domain_progress(cq->src.domain);
	spin_lock_irqsave(&cq->src.lock, flags);
	n = kfi_cq_look(cq, buf, count, src_addr, least);
	if (n > 0)
		kfi_cq_remove(cq, n);
	spin_unlock_irqrestore(&cq->src.lock, flags);
	return n;
}

static ssize_t kfi_cq_op_readfrom(struct kfid_cq *fcq, void *buf, size_t count,
				  kfi_addr_t *src_addr)
{
	return kfi_cq_read_least(fcq, buf, count, src_addr, 0);
}

static ssize_t kfi_cq_op_read(struct kfid_cq *fcq, void *buf, size_t count)
{
	return kfi_cq_op_readfrom(fcq, buf, count, NULL);
}

static void kfi_cq_copy_error(struct kfi_cq_err_entry *to,
			      const struct kfi_completion *comp)
{
	*to = (struct kfi_cq_err_entry) {
		.op_context = comp->context,
		.flags = comp->flags,
		.len = comp->len,
		.buf = comp->buf,
		.data = comp->data,
		.tag = comp->tag,
		.olen = comp->olen,
		.err = comp->err,
		.prov_errno = comp->prov_errno,
	};
}

/* Like kfi_cq_look(), for the one entry at the head, which must be an error. */
static ssize_t kfi_cq_look_error(struct kfi_cq *cq, struct kfi_cq_err_entry *buf)
{
	lockdep_assert_held(&cq->src.lock);
	if (kfi_cq_fill(cq)) {
		if (!kfi_cq_slot(cq, cq->head)->err)
			return -KFI_EAGAIN;
		kfi_cq_copy_error(buf, kfi_cq_slot(cq, cq->head));
		return 1;
	}
	if (cq->overrun)
		return -KFI_EOVERRUN;
	kfi_source_arm(&cq->src);
	return -KFI_EAGAIN;
}

static ssize_t kfi_cq_op_readerr(struct kfid_cq *fcq,
				 struct kfi_cq_err_entry *buf, u64 readflags)
{
	struct kfi_cq *cq = to_cq(fcq);
	unsigned long flags;
	ssize_t ret;

	if (!buf || (readflags & ~KFI_PEEK))
		return -KFI_EINVAL;
	kfi_domain_progress(cq->src.domain);
	spin_lock_irqsave(&cq->src.lock, flags);
	ret = kfi_cq_look_error(cq, buf);
	if (ret == 1 && !(readflags & KFI_PEEK)) {
		cq->errors--;
		kfi_cq_remove(cq, 1);
	}
	spin_unlock_irqrestore(&cq->src.lock, flags);
	return ret;
}

/**
 * kfi_cq_consume_err() - remove the error that a peeking readerr returned
 * @fcq: the CQ
 *
 * Context: any; the caller serialises all readers of the CQ, and holds no lock;
 * takes source->lock.
 */
void kfi_cq_consume_err(struct kfid_cq *fcq)
{
	struct kfi_cq_err_entry entry;

	kfi_cq_op_readerr(fcq, &entry, 0);
}
EXPORT_SYMBOL_GPL(kfi_cq_consume_err);

/* The condition of one sread; @since is the last publication before the call. */
struct kfi_cq_need {
	struct kfi_cq *cq;
	u64 entries;
	u64 since;
};

/* A kfi_cq_signal() during this call counts, also if another wake-up came first. */
static bool kfi_cq_signalled(const struct kfi_cq_need *need)
{
	return READ_ONCE(need->cq->signalled) > need->since;
}

/* Enough entries, or a reason to return with fewer. */
static bool kfi_cq_enough(void *arg)
{
	struct kfi_cq_need *need = arg;
	struct kfi_cq *cq = need->cq;
	unsigned long flags;
	bool enough;

	spin_lock_irqsave(&cq->src.lock, flags);
	enough = kfi_cq_holds(cq, need->entries);
	spin_unlock_irqrestore(&cq->src.lock, flags);
	return enough || kfi_source_lost(&cq->src) || kfi_cq_signalled(need);
}

/*
 * Sleep, then take. What was there when the thread looked may be gone when it takes,
 * so the take has the threshold, too. A deadline, kfi_cq_signal() or the loss of the
 * device takes the entries that are there, however few:
 *
 *	sleeper, needs 2		another reader
 *	----------------		--------------
 *	looks: 2 entries
 *					takes 1
 *	take: fewer than 2, nothing
 *	hands its wake-up on, sleeps
 *
 * The wake-up goes to a waiter that needs less.
 */
static ssize_t kfi_cq_wait_loop(struct kfi_cq_need *need, struct kfi_waiter *w,
				ktime_t deadline, kfi_cq_take_fn take, void *arg)
{
	struct kfi_cq *cq = need->cq;
	bool lost, signalled;
	ssize_t n;
	int ret;

	for (;;) {
		ret = kfi_waitq_sleep(w, kfi_cq_enough, need, deadline);
		if (ret == -EINTR)
			return ret;
		lost = kfi_source_lost(&cq->src);
		signalled = kfi_cq_signalled(need);
		n = take(arg, ret || lost || signalled ? 0 : need->entries);
		/* A repeated call would not see a kfi_cq_signal() of this one. */
		if (n == -EINTR && kfi_cq_signalled(need))
			return -KFI_EAGAIN;
		if (n != -KFI_EAGAIN)
			return n;
		if (signalled)
			return -KFI_EAGAIN;
		if (lost)
			return -KFI_ENODEV;
		if (ret)
			return ret;
		if (w->why)
			kfi_hand_on(&cq->src, kfi_cq_fill(cq));
	}
}

/* Providers that wait for room must not wait for a reader that waits for them. */
static void kfi_cq_want(struct kfi_cq *cq, u32 entries)
{
	unsigned long flags;

	if (entries <= READ_ONCE(cq->want))
		return;
	spin_lock_irqsave(&cq->src.lock, flags);
	if (entries > cq->want) {
		WRITE_ONCE(cq->want, entries);
		kfi_cq_offer_room(cq);
	}
	spin_unlock_irqrestore(&cq->src.lock, flags);
}

/**
 * kfi_cq_wait_take() - a blocking read with a caller's own way to take
 * @fcq: the CQ
 * @threshold: entries to wait for; 0 is 1
 * @deadline: absolute, monotonic
 * @take: one attempt to read; called without a lock, never while enqueued
 * @arg: for @take
 *
 * Context: process, may sleep; takes source->lock and queue->head.lock.
 * Return: the result of @take, unless that was -EAGAIN; then -EAGAIN after a
 * kfi_cq_signal(), -ENODEV if the device is gone, -ETIMEDOUT, -EINTR. -EINVAL for a
 * CQ on which a thread cannot block or which is being closed, and for a threshold
 * above its size.
 */
ssize_t kfi_cq_wait_take(struct kfid_cq *fcq, u64 threshold, ktime_t deadline,
			 kfi_cq_take_fn take, void *arg)
{
	struct kfi_cq *cq = to_cq(fcq);
	struct kfi_cq_need need = { .cq = cq, .entries = threshold ?: 1 };
	struct kfi_waiter w;
	ssize_t n;

	n = kfi_source_blocking(&cq->src);
	if (n)
		return n;
	if (need.entries > cq->size)
		return -KFI_EINVAL;
	if (!kfi_fid_get(&fcq->fid))
		return -KFI_EINVAL;

	kfi_cq_want(cq, need.entries);
	need.since = atomic64_read(&cq->src.queue->pubs);
	kfi_waiter_init(&w, cq->src.queue, need.entries, true);
	n = kfi_cq_wait_loop(&need, &w, deadline, take, arg);
	if (n < 0 && w.why)
		kfi_hand_on(&cq->src, kfi_cq_fill(cq));
	kfi_waiter_end(&w, n);
	kfi_fid_put(&fcq->fid);
	return n;
}
EXPORT_SYMBOL_GPL(kfi_cq_wait_take);

struct kfi_cq_read_args {
	struct kfid_cq *cq;
	void *buf;
	size_t count;
	kfi_addr_t *src_addr;
};

static ssize_t kfi_cq_take(void *arg, u64 least)
{
	struct kfi_cq_read_args *a = arg;

	return kfi_cq_read_least(a->cq, a->buf, a->count, a->src_addr, least);
}

static ssize_t kfi_cq_op_sreadfrom(struct kfid_cq *fcq, void *buf, size_t count,
				   kfi_addr_t *src_addr, const void *cond,
				   int timeout)
{
	struct kfi_cq_read_args args = { fcq, buf, count, src_addr };
	u64 threshold = 1;

	if (!buf || !count)
		return -KFI_EINVAL;
	if (to_cq(fcq)->cond == KFI_CQ_COND_THRESHOLD)
		threshold = (uintptr_t)cond;
	return kfi_cq_wait_take(fcq, threshold, kfi_sread_deadline(timeout),
				kfi_cq_take, &args);
}

static ssize_t kfi_cq_op_sread(struct kfid_cq *fcq, void *buf, size_t count,
			       const void *cond, int timeout)
{
	return kfi_cq_op_sreadfrom(fcq, buf, count, NULL, cond, timeout);
}

/**
 * kfi_sread_deadline() - deadline of an in-kernel sread
 * @timeout_ms: milliseconds; 0 is one check, or no limit if the module parameter
 *		selects kfabric's older meaning
 *
 * Context: any; takes no lock.
 * Return: absolute, monotonic.
 */
ktime_t kfi_sread_deadline(int timeout_ms)
{
	if (!timeout_ms && READ_ONCE(sread_zero_blocks))
		return KFI_DEADLINE_NONE;
	return kfi_deadline(timeout_ms);
}

/*
 * A call that began before the signal sees its number and ends, also if an entry had
 * woken its thread first. A call that begins later never sees it.
 *
 * The number is no barrier: it is given out and recorded with the lock held that each
 * look takes. So a thread that has noted the number finds it recorded; see "A flag,
 * then a lock" in core.h.
 */
static int kfi_cq_op_signal(struct kfid_cq *fcq)
{
	struct kfi_cq *cq = to_cq(fcq);
	struct kfi_wake wake = {
		.source = cq->src.id,
		.why = KFI_WHY_SIGNAL,
		.all = true,
	};
	unsigned long flags;

	if (!cq->src.queue)
		return -KFI_EINVAL;
	rcu_read_lock();
	spin_lock_irqsave(&cq->src.lock, flags);
	wake.seq = atomic64_inc_return_relaxed(&cq->src.queue->pubs);
	WRITE_ONCE(cq->signalled, wake.seq);
	spin_unlock_irqrestore(&cq->src.lock, flags);
	kfi_waitq_wake(cq->src.queue, &wake);
	rcu_read_unlock();
	return 0;
}

static const char *kfi_cq_op_strerror(struct kfid_cq *fcq, int prov_errno,
				      const void *err_data, char *buf,
				      size_t len)
{
	struct kfi_domain_base *domain = to_cq(fcq)->src.domain;
	const char *text = domain->strerror ? domain->strerror(prov_errno) :
					      kfi_strerror(prov_errno);

	if (buf && len)
		strscpy(buf, text, len);
	return text;
}

static void kfi_cq_handler(struct work_struct *work)
{
	struct kfi_cq *cq = container_of(work, struct kfi_cq, src.handler);

	cq->cq.comp_handler(&cq->cq, cq->cq.fid.context);
}

/**
 * kfi_cq_closing() - the first part of closing a CQ
 * @fcq: the CQ; only kfi_close() and kfi_ack_cq_events() may follow
 *
 * Optional before kfi_close(). A repeated call changes nothing.
 *
 * Context: process, may sleep; waits for a running handler, not for acknowledgments;
 * takes source->lock and channel->lock.
 * Return: 0 or -EBUSY, then nothing was changed.
 */
int kfi_cq_closing(struct kfid_cq *fcq)
{
	struct kfi_cq *cq = to_cq(fcq);
	int ret;

	if (cq->closing)
		return 0;
	ret = kfi_source_kill(&cq->src);
	if (ret)
		return ret;
	cq->closing = true;
	kfi_notify_close(&cq->src);
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_cq_closing);

/**
 * kfi_cq_drain() - wait until the events of a CQ that were got are acknowledged
 * @fcq: the CQ, after kfi_cq_closing(); the caller keeps its memory
 *
 * Context: process, may sleep; takes channel->lock and the CQ's head.lock.
 * Return: 0 or -EINTR.
 */
int kfi_cq_drain(struct kfid_cq *fcq)
{
	return kfi_notify_drain(&to_cq(fcq)->src);
}
EXPORT_SYMBOL_GPL(kfi_cq_drain);

/* -EINTR: some events are not acknowledged; the CQ is still being closed. */
static int kfi_cq_close(struct kfid *fid)
{
	struct kfi_cq *cq = container_of(fid, struct kfi_cq, cq.fid);
	int ret;

	ret = kfi_cq_closing(&cq->cq) ?: kfi_notify_drain(&cq->src);
	if (ret)
		return ret;
	kfi_source_fini(&cq->src);
	kvfree(cq->ring);
	kfree_rcu(cq, src.rcu);
	return 0;
}

static struct kfi_ops kfi_cq_fid_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops),
	.close = kfi_cq_close,
	.bind = kfi_no_bind,
	.control = kfi_source_control,
	.ops_open = kfi_no_ops_open,
};

static struct kfi_ops_cq kfi_cq_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops_cq),
	.read = kfi_cq_op_read,
	.readfrom = kfi_cq_op_readfrom,
	.readerr = kfi_cq_op_readerr,
	.sread = kfi_cq_op_sread,
	.sreadfrom = kfi_cq_op_sreadfrom,
	.signal = kfi_cq_op_signal,
	.strerror = kfi_cq_op_strerror,
};

static int kfi_cq_check(const struct kfi_cq_attr *attr)
{
	if (attr->size > KFI_CQ_MAX || (attr->flags & ~KFI_AFFINITY))
		return -KFI_EINVAL;
	if (attr->format != KFI_CQ_FORMAT_UNSPEC &&
	    !kfi_cq_entry_size(attr->format))
		return -KFI_EINVAL;
	if (attr->wait_cond != KFI_CQ_COND_NONE &&
	    attr->wait_cond != KFI_CQ_COND_THRESHOLD)
		return -KFI_EINVAL;
	if ((attr->flags & KFI_AFFINITY) &&
	    (attr->signaling_vector < 0 ||
	     attr->signaling_vector >= nr_cpu_ids ||
	     !cpu_online(attr->signaling_vector)))
		return -KFI_EINVAL;
	return 0;
}

/*
 * kvcalloc() would try kmalloc() first, which rounds up to a power of two: 256 entries
 * would take 32 KiB instead of 20.
 */
static struct kfi_completion *kfi_cq_ring_alloc(u32 size)
{
	const size_t bytes = array_size(size, sizeof(struct kfi_completion));
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN;

	return bytes > PAGE_SIZE ? __vmalloc(bytes, gfp) : kmalloc(bytes, gfp);
}

static struct kfi_cq *kfi_cq_alloc(const struct kfi_cq_attr *attr)
{
	struct kfi_cq *cq;

	cq = kzalloc(sizeof(*cq), GFP_KERNEL_ACCOUNT);
	if (!cq)
		return NULL;
	cq->size = roundup_pow_of_two(attr->size ?: KFI_CQ_DEFAULT);
	cq->ring = kfi_cq_ring_alloc(cq->size);
	if (!cq->ring) {
		kfree(cq);
		return NULL;
	}
	cq->format = attr->format ?: KFI_CQ_FORMAT_CONTEXT;
	cq->cond = attr->wait_cond;
	INIT_LIST_HEAD(&cq->rooms);
	return cq;
}

/**
 * kfi_core_cq_open() - kfi_ops_domain.cq_open of every provider
 * @domain: parent
 * @attr: NULL: defaults
 * @fcq: the new CQ
 * @comp_handler: called from a work item, never twice at once; or NULL
 * @context: the user's
 *
 * Context: process, may sleep; takes domain->lock and kfi_listed_lock.
 * Return: 0; -EINVAL; -ENOSYS for a wait object that is not offered; -ENOMEM;
 * -ENODEV if the domain's device is gone.
 */
int kfi_core_cq_open(struct kfid_domain *domain, struct kfi_cq_attr *attr,
		     struct kfid_cq **fcq, kfi_comp_handler comp_handler,
		     void *context)
{
	static const struct kfi_cq_attr defaults = {
		.wait_obj = KFI_WAIT_UNSPEC,
	};
	const struct kfi_cq_attr *a = attr ?: &defaults;
	struct kfi_source_attr src_attr = {
		.fabric = kfi_domain_of(domain)->fabric,
		.domain = kfi_domain_of(domain),
		.wait_obj = a->wait_obj,
		.set = a->wait_set,
		.handler = comp_handler ? kfi_cq_handler : NULL,
		.cpu = a->flags & KFI_AFFINITY ? a->signaling_vector :
						 WORK_CPU_UNBOUND,
	};
	struct kfi_cq *cq;
	int ret;

	ret = kfi_cq_check(a);
	if (ret)
		return ret;
	cq = kfi_cq_alloc(a);
	if (!cq)
		return -KFI_ENOMEM;
	kfi_fid_init(&cq->cq.fid, KFI_CLASS_CQ, context, &kfi_cq_fid_ops);
	cq->cq.ops = &kfi_cq_ops;
	cq->cq.comp_handler = comp_handler;
	ret = kfi_source_init(&cq->src, &cq->cq.fid, &src_attr);
	if (ret) {
		kvfree(cq->ring);
		kfree(cq);
		return ret;
	}
	*fcq = &cq->cq;
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_core_cq_open);
