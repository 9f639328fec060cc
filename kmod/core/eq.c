// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Event queues: events and error events in the order in which they happened.
 *
 * The slots of an EQ come in shares (struct kfi_eq_share). The EQ's own share has the
 * size that its user asked for, and takes the user's events. Each object that is bound
 * to the EQ brings a share for its own events. So no object can fill the slots of
 * another one. Neither requests of peers nor events of the user take the slot in which
 * an endpoint reports its end. A report that finds its share full is refused, and
 * nothing else changes.
 */
#include <linux/list.h>
#include <linux/slab.h>

#include <kfi_enosys.h>

#include "core.h"

#define KFI_EQ_DEFAULT	64
#define KFI_EQ_MAX	4096

/**
 * struct kfi_eq - an event queue
 * @eq: the public object
 * @src: the part shared with CQs and counters; @src.lock protects @events, @fill, @held,
 *	 @err_data, and the shares of all objects that are bound
 * @events: the unread events, the oldest first
 * @fill: their number; also read without the lock, as a hint
 * @held: the event between kfi_eq_hold() and kfi_eq_settle(), still on @events; or NULL
 * @size: events that its user asked for; constant
 * @own: slots for events that belong to no bound object
 * @peps: the passive endpoints that are bound to it; kfi_pep_lock
 * @err_data: of the error that was read last, valid until the next
 */
struct kfi_eq {
	struct kfid_eq eq;
	struct kfi_source src;
	struct list_head events;
	u32 fill;
	struct kfi_eq_slot *held;
	size_t size;
	struct kfi_eq_share own;
	struct list_head peps;
	u8 err_data[KFI_EQ_DATA_MAX];
};

static struct kfi_eq *to_eq(struct kfid_eq *eq)
{
	return container_of(eq, struct kfi_eq, eq);
}

/**
 * kfi_eq_source() - the common part of an EQ
 * @eq: the EQ
 *
 * Context: any; takes no lock.
 * Return: valid as long as the EQ.
 */
struct kfi_source *kfi_eq_source(struct kfid_eq *eq)
{
	return &to_eq(eq)->src;
}

/**
 * kfi_eq_size() - how many events the user of an EQ asked for
 * @eq: the EQ
 *
 * Context: any; takes no lock.
 * Return: the size; constant.
 */
size_t kfi_eq_size(struct kfid_eq *eq)
{
	return to_eq(eq)->size;
}
EXPORT_SYMBOL_GPL(kfi_eq_size);

/**
 * kfi_eq_peps() - the passive endpoints that report to an EQ
 * @eq: the EQ
 *
 * Context: any; the caller holds kfi_pep_lock, which protects the list.
 * Return: the list, of kfi_pep_base.bound.
 */
struct list_head *kfi_eq_peps(struct kfid_eq *eq)
{
	return &to_eq(eq)->peps;
}

/**
 * kfi_eq_share_init() - make slots for the events of an object
 * @share: of an object that is being bound to an EQ
 * @size: its events that may be unread at a time, at least 1
 *
 * Context: process, may sleep; takes no lock.
 * Return: 0, or -ENOMEM. Ended by kfi_eq_share_fini().
 */
int kfi_eq_share_init(struct kfi_eq_share *share, size_t size)
{
	size_t i;

	INIT_LIST_HEAD(&share->free);
	INIT_LIST_HEAD(&share->unread);
	share->slots = kvcalloc(size, sizeof(*share->slots),
				GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!share->slots)
		return -KFI_ENOMEM;
	for (i = 0; i < size; i++) {
		share->slots[i].share = share;
		list_add_tail(&share->slots[i].link, &share->free);
	}
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_eq_share_init);

/**
 * kfi_eq_share_fini() - free the slots of an object
 * @share: none of its events is unread; nothing happens if it has no slots
 *
 * Context: process, may sleep; takes no lock.
 */
void kfi_eq_share_fini(struct kfi_eq_share *share)
{
	kvfree(share->slots);
	share->slots = NULL;
}
EXPORT_SYMBOL_GPL(kfi_eq_share_fini);

/**
 * kfi_eq_share_full() - would a report be refused?
 * @feq: the EQ
 * @share: of an object that is bound to it
 *
 * Context: any; takes source->lock. A false answer lasts as long as the caller keeps
 * other threads from reporting on @share.
 * Return: true if each slot holds an unread event.
 */
bool kfi_eq_share_full(struct kfid_eq *feq, const struct kfi_eq_share *share)
{
	struct kfi_eq *eq = to_eq(feq);
	unsigned long flags;
	bool full;

	spin_lock_irqsave(&eq->src.lock, flags);
	full = list_empty(&share->free);
	spin_unlock_irqrestore(&eq->src.lock, flags);
	return full;
}
EXPORT_SYMBOL_GPL(kfi_eq_share_full);

/* Events stored and not read: exact under the lock, a hint without it. */
static u32 kfi_eq_fill(const struct kfi_eq *eq)
{
	return READ_ONCE(eq->fill);
}

/* The oldest unread event, or NULL. The caller holds the lock. */
static struct kfi_eq_slot *kfi_eq_first(struct kfi_eq *eq)
{
	lockdep_assert_held(&eq->src.lock);
	return list_first_entry_or_null(&eq->events, struct kfi_eq_slot, link);
}

/* Fill in the target of an event. The caller holds the lock. */
static void kfi_eq_target(struct kfi_eq *eq, enum kfi_why why,
			  struct kfi_target *target)
{
	lockdep_assert_held(&eq->src.lock);
	target->src = &eq->src;
	target->wake.source = eq->src.id;
	target->wake.why = why;
	target->wake.have = kfi_eq_fill(eq);
	target->wake.all = why == KFI_WHY_ERROR && !eq->src.set;
	target->fire = kfi_source_stored(&eq->src, why, target->wake.have);
}

/* Put an event into a free slot, at the tail. The caller holds the lock. */
static void kfi_eq_fill_slot(struct kfi_eq *eq, struct kfi_eq_slot *slot,
			     const struct kfi_eq_slot *event,
			     const void *payload)
{
	lockdep_assert_held(&eq->src.lock);
	slot->event = event->event;
	slot->len = event->len;
	slot->is_err = event->is_err;
	slot->drop = event->drop;
	slot->request = event->request;
	slot->err = event->err;
	memcpy(slot->payload, payload, event->len);
	list_move_tail(&slot->link, &eq->events);
	list_add_tail(&slot->mine, &slot->share->unread);
	WRITE_ONCE(eq->fill, eq->fill + 1);
}

/* Store one event in a slot of @share and wake; without a slot nothing changes. */
static int kfi_eq_store(struct kfi_eq *eq, struct kfi_eq_share *share,
			const struct kfi_eq_slot *event, const void *payload)
{
	struct kfi_target target = { };
	struct kfi_eq_slot *slot;
	unsigned long flags;

	spin_lock_irqsave(&eq->src.lock, flags);
	slot = list_first_entry_or_null(&share->free, struct kfi_eq_slot, link);
	if (!slot) {
		spin_unlock_irqrestore(&eq->src.lock, flags);
		return -KFI_EAGAIN;
	}
	kfi_eq_fill_slot(eq, slot, event, payload);
	kfi_eq_target(eq, event->is_err ? KFI_WHY_ERROR : KFI_WHY_EVENT, &target);
	spin_unlock_irqrestore(&eq->src.lock, flags);
	kfi_publish(&target, 1);
	return 0;
}

/**
 * kfi_eq_report() - report an event
 * @feq: the EQ
 * @share: of the object that the event is about; NULL: the EQ's own
 * @event: the event; its payload is copied
 *
 * Context: any; the caller keeps the EQ open, and holds none of our locks but
 * kfi_pep_lock; takes source->lock and queue->head.lock.
 * Return: 0; -EAGAIN if the share is full (then the caller still owns the event's
 * resources, and @event->drop will not be called); -EINVAL for a payload that is too
 * long.
 */
int kfi_eq_report(struct kfid_eq *feq, struct kfi_eq_share *share,
		  const struct kfi_event *event)
{
	const struct kfi_eq_slot slot = {
		.event = event->event,
		.len = event->len,
		.drop = event->drop,
		.request = event->request,
	};
	struct kfi_eq *eq = to_eq(feq);

	if (WARN_ON_ONCE(event->len > KFI_EQ_PAYLOAD))
		return -KFI_EINVAL;
	return kfi_eq_store(eq, share ?: &eq->own, &slot, event->buf);
}
EXPORT_SYMBOL_GPL(kfi_eq_report);

/**
 * kfi_eq_report_err() - report an error event
 * @feq: the EQ
 * @share: as for kfi_eq_report()
 * @entry: copied, and its err_data up to KFI_EQ_DATA_MAX bytes of it
 *
 * Context: as kfi_eq_report().
 * Return: 0, or -EAGAIN if the share is full.
 */
int kfi_eq_report_err(struct kfid_eq *feq, struct kfi_eq_share *share,
		      const struct kfi_eq_err_entry *entry)
{
	struct kfi_eq_slot slot = { .is_err = true, .err = *entry };
	struct kfi_eq *eq = to_eq(feq);

	if (entry->err_data)
		slot.len = min_t(size_t, entry->err_data_size, KFI_EQ_DATA_MAX);
	slot.err.err_data = NULL;
	slot.err.err_data_size = slot.len;
	return kfi_eq_store(eq, share ?: &eq->own, &slot, entry->err_data);
}
EXPORT_SYMBOL_GPL(kfi_eq_report_err);

/* An event leaves the queue, and its slot is free again. The caller holds the lock. */
static void kfi_eq_remove(struct kfi_eq *eq, struct kfi_eq_slot *slot)
{
	lockdep_assert_held(&eq->src.lock);
	list_move(&slot->link, &slot->share->free);
	list_del(&slot->mine);
	WRITE_ONCE(eq->fill, eq->fill - 1);
	kfi_source_taken(&eq->src, kfi_eq_fill(eq));
}

/* The object of an event, or NULL. It is the first member of both kinds of payload. */
static const struct kfid *kfi_eq_fid(const struct kfi_eq_slot *slot)
{
	const struct kfid *const *first = (const void *)slot->payload;

	if (slot->is_err)
		return slot->err.fid;
	return slot->len >= sizeof(*first) ? *first : NULL;
}

/*
 * Find the next event to be read, which must be an error (@err), or must be none. If there
 * is no event at all, the next one calls the handler. The caller holds the lock.
 */
static int kfi_eq_next(struct kfi_eq *eq, bool err, struct kfi_eq_slot **slot)
{
	lockdep_assert_held(&eq->src.lock);
	*slot = kfi_eq_first(eq);
	if (!*slot) {
		kfi_source_arm(&eq->src);
		return -KFI_EAGAIN;
	}
	if ((*slot)->is_err == err)
		return 0;
	return err ? -KFI_EAGAIN : -KFI_EAVAIL;
}

/**
 * kfi_eq_hold() - look at the next event and keep it until kfi_eq_settle()
 * @feq: the EQ
 * @err: an error event is wanted; else one that is none
 * @slot: set to the event; what is beyond its payload is left alone
 * @name: called once with the object that the event is about
 * @arg: for @name
 *
 * The object may be closed before kfi_eq_settle()::
 *
 *	reader				close of the endpoint
 *	------				---------------------
 *	holds the event, names it
 *					takes the event off the queue
 *					frees the endpoint
 *	copies out
 *	settles: the event is its own,
 *	or it frees what it owns
 *
 * So neither of the two waits for the other one.
 *
 * Context: any; the caller serialises all readers of the EQ; takes source->lock.
 * Return: 0; -EAGAIN: no such event; -EAVAIL: an error event comes first.
 */
int kfi_eq_hold(struct kfid_eq *feq, bool err, struct kfi_eq_slot *slot,
		kfi_eq_name_fn name, void *arg)
{
	struct kfi_eq *eq = to_eq(feq);
	struct kfi_eq_slot *head;
	unsigned long flags;
	int ret;

	spin_lock_irqsave(&eq->src.lock, flags);
	ret = kfi_eq_next(eq, err, &head);
	if (!ret) {
		memcpy(slot, head, offsetof(struct kfi_eq_slot, payload) + head->len);
		name(kfi_eq_fid(slot), arg);
		eq->held = head;
	}
	spin_unlock_irqrestore(&eq->src.lock, flags);
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_eq_hold);

/**
 * kfi_eq_settle() - end what kfi_eq_hold() began
 * @feq: the EQ
 * @slot: the event that was held
 * @taken: it was read, and what it owns is the caller's; else it stays the next one,
 *	   unless it was taken back
 *
 * Context: process, may sleep; takes source->lock.
 */
void kfi_eq_settle(struct kfid_eq *feq, struct kfi_eq_slot *slot, bool taken)
{
	struct kfi_eq *eq = to_eq(feq);
	struct kfi_eq_slot *held;

	spin_lock_irq(&eq->src.lock);
	held = eq->held;
	eq->held = NULL;
	if (held && taken)
		kfi_eq_remove(eq, held);
	spin_unlock_irq(&eq->src.lock);
	if (!held && !taken)
		kfi_eq_drop(slot);
}
EXPORT_SYMBOL_GPL(kfi_eq_settle);

/*
 * Copy the event at the head. The caller holds the lock.
 * Return: its size, or the reason why there is none.
 */
static ssize_t kfi_eq_look(struct kfi_eq *eq, u32 *event, void *buf, size_t len)
{
	struct kfi_eq_slot *slot;
	int ret;

	lockdep_assert_held(&eq->src.lock);
	ret = kfi_eq_next(eq, false, &slot);
	if (ret)
		return ret;
	if (len < slot->len)
		return -KFI_ETOOSMALL;
	*event = slot->event;
	memcpy(buf, slot->payload, slot->len);
	return slot->len;
}

static ssize_t kfi_eq_op_read(struct kfid_eq *feq, u32 *event, void *buf,
			      size_t len, u64 readflags)
{
	struct kfi_eq *eq = to_eq(feq);
	unsigned long flags;
	ssize_t n;

	if (!event || !buf || (readflags & ~KFI_PEEK))
		return -KFI_EINVAL;
	spin_lock_irqsave(&eq->src.lock, flags);
	n = kfi_eq_look(eq, event, buf, len);
	if (n >= 0 && !(readflags & KFI_PEEK))
		kfi_eq_remove(eq, kfi_eq_first(eq));
	spin_unlock_irqrestore(&eq->src.lock, flags);
	return n;
}

/*
 * The error's data goes to the reader's buffer, cut to fit, or to @eq->err_data if
 * the reader has none. The caller holds the lock.
 */
static void kfi_eq_copy_error(struct kfi_eq *eq, struct kfi_eq_err_entry *to,
			      const struct kfi_eq_slot *slot)
{
	void *room = to->err_data;
	size_t size = to->err_data_size;

	lockdep_assert_held(&eq->src.lock);
	if (!room || !size) {
		room = eq->err_data;
		size = sizeof(eq->err_data);
	}
	size = min_t(size_t, size, slot->len);
	memcpy(room, slot->payload, size);
	*to = slot->err;
	to->err_data = size ? room : NULL;
	to->err_data_size = size;
}

static ssize_t kfi_eq_op_readerr(struct kfid_eq *feq,
				 struct kfi_eq_err_entry *buf, u64 readflags)
{
	struct kfi_eq *eq = to_eq(feq);
	struct kfi_eq_slot *slot;
	unsigned long flags;
	ssize_t ret;

	if (!buf || (readflags & ~KFI_PEEK))
		return -KFI_EINVAL;
	spin_lock_irqsave(&eq->src.lock, flags);
	ret = kfi_eq_next(eq, true, &slot);
	if (!ret) {
		kfi_eq_copy_error(eq, buf, slot);
		ret = sizeof(*buf);
		if (!(readflags & KFI_PEEK))
			kfi_eq_remove(eq, slot);
	}
	spin_unlock_irqrestore(&eq->src.lock, flags);
	return ret;
}

/* The user's own event. */
static ssize_t kfi_eq_op_write(struct kfid_eq *feq, u32 event, const void *buf,
			       size_t len, u64 writeflags)
{
	const struct kfi_eq_slot slot = { .event = event, .len = len };
	struct kfi_eq *eq = to_eq(feq);
	int ret;

	if (!buf || !len || len > KFI_EQ_PAYLOAD || writeflags)
		return -KFI_EINVAL;
	rcu_read_lock();
	ret = kfi_eq_store(eq, &eq->own, &slot, buf);
	rcu_read_unlock();
	return ret ?: (ssize_t)len;
}

static bool kfi_eq_readable(void *arg)
{
	struct kfi_eq *eq = arg;
	unsigned long flags;
	bool ready;

	spin_lock_irqsave(&eq->src.lock, flags);
	ready = kfi_eq_fill(eq);
	if (!ready)
		kfi_source_arm(&eq->src);
	spin_unlock_irqrestore(&eq->src.lock, flags);
	return ready;
}

/**
 * kfi_eq_wait_take() - a blocking read with a caller's own way to take
 * @feq: the EQ
 * @readflags: KFI_PEEK: @take leaves the event, so the next waiter gets it too
 * @deadline: absolute, monotonic
 * @take: one attempt to read; called without a lock, never while enqueued
 * @arg: for @take
 *
 * Context: process, may sleep; takes source->lock and queue->head.lock.
 * Return: the result of @take, unless that was -EAGAIN; then -ETIMEDOUT or -EINTR.
 * -EINVAL for an EQ on which a thread cannot block, or which is being closed.
 */
ssize_t kfi_eq_wait_take(struct kfid_eq *feq, u64 readflags, ktime_t deadline,
			 kfi_take_fn take, void *arg)
{
	struct kfi_eq *eq = to_eq(feq);
	struct kfi_waiter w;
	ssize_t n;

	n = kfi_source_blocking(&eq->src);
	if (n)
		return n;
	if (!kfi_fid_get(&feq->fid))
		return -KFI_EINVAL;

	kfi_waiter_init(&w, eq->src.queue, 1, true);
	do {
		n = kfi_waitq_sleep(&w, kfi_eq_readable, eq, deadline);
		if (n)
			break;
		n = take(arg);
	} while (n == -KFI_EAGAIN);
	if (w.why && (n < 0 || (readflags & KFI_PEEK)))
		kfi_hand_on(&eq->src, kfi_eq_fill(eq));
	kfi_waiter_end(&w, n);
	kfi_fid_put(&feq->fid);
	return n;
}
EXPORT_SYMBOL_GPL(kfi_eq_wait_take);

struct kfi_eq_read_args {
	struct kfid_eq *eq;
	u32 *event;
	void *buf;
	size_t len;
	u64 flags;
};

static ssize_t kfi_eq_take(void *arg)
{
	struct kfi_eq_read_args *a = arg;

	return kfi_eq_op_read(a->eq, a->event, a->buf, a->len, a->flags);
}

static ssize_t kfi_eq_op_sread(struct kfid_eq *feq, u32 *event, void *buf,
			       size_t len, int timeout, u64 readflags)
{
	struct kfi_eq_read_args args = { feq, event, buf, len, readflags };

	if (!event || !buf || (readflags & ~KFI_PEEK))
		return -KFI_EINVAL;
	return kfi_eq_wait_take(feq, readflags, kfi_sread_deadline(timeout),
				kfi_eq_take, &args);
}

static const char *kfi_eq_op_strerror(struct kfid_eq *feq, int prov_errno,
				      const void *err_data, char *buf,
				      size_t len)
{
	struct kfi_fabric_base *fabric = to_eq(feq)->src.fabric;
	const char *text = fabric->strerror ? fabric->strerror(prov_errno) :
					      kfi_strerror(prov_errno);

	if (buf && len)
		strscpy(buf, text, len);
	return text;
}

/**
 * kfi_eq_extract() - take back an unread event about an object
 * @feq: the EQ
 * @share: the slots to look in; NULL: the EQ's own
 * @fid: the object, or the request that the event owns
 * @out: the event; the caller passes it to kfi_eq_drop(), without a lock
 *
 * The newest one: in an object's own share no search is needed, and a reader may still
 * hold the event of an earlier request at the same address. If a reader holds the event,
 * it frees what the event owns.
 *
 * Context: any; takes source->lock.
 * Return: false if there is none.
 */
bool kfi_eq_extract(struct kfid_eq *feq, struct kfi_eq_share *share,
		    const struct kfid *fid, struct kfi_eq_slot *out)
{
	struct kfi_eq *eq = to_eq(feq);
	struct kfi_eq_slot *slot;
	bool found = false;
	unsigned long flags;

	if (!share)
		share = &eq->own;
	spin_lock_irqsave(&eq->src.lock, flags);
	list_for_each_entry_reverse(slot, &share->unread, mine) {
		if (kfi_eq_fid(slot) == fid || slot->request == fid) {
			*out = *slot;
			if (slot == eq->held) {
				eq->held = NULL;
				out->drop = NULL;
			}
			kfi_eq_remove(eq, slot);
			found = true;
			break;
		}
	}
	spin_unlock_irqrestore(&eq->src.lock, flags);
	return found;
}

/**
 * kfi_eq_drop() - free the resources of an extracted event
 * @slot: the event
 *
 * Context: process, may sleep; the caller holds no lock.
 */
void kfi_eq_drop(struct kfi_eq_slot *slot)
{
	if (slot->drop)
		slot->drop(slot->event, slot->payload);
}

/**
 * kfi_eq_forget() - take back the unread events about an object
 * @feq: the EQ
 * @share: as for kfi_eq_extract()
 * @fid: the object, which is about to be closed and reports no more
 *
 * Frees the resources of each such event. Readers never see a stale fid.
 *
 * Context: process, may sleep; the caller holds no lock; takes source->lock.
 */
void kfi_eq_forget(struct kfid_eq *feq, struct kfi_eq_share *share,
		   const struct kfid *fid)
{
	struct kfi_eq_slot slot;

	while (kfi_eq_extract(feq, share, fid, &slot))
		kfi_eq_drop(&slot);
}
EXPORT_SYMBOL_GPL(kfi_eq_forget);

static void kfi_eq_handler(struct work_struct *work)
{
	struct kfi_eq *eq = container_of(work, struct kfi_eq, src.handler);

	eq->eq.event_handler(&eq->eq, eq->eq.fid.context);
}

static void kfi_eq_free(struct kfi_eq *eq)
{
	kfi_eq_share_fini(&eq->own);
	kfree_rcu(eq, src.rcu);
}

/*
 * Unread events are dropped before the parent's reference, since they may own parts.
 * Only the EQ's own share is left: an endpoint keeps the EQ open, and those of passive
 * endpoints are detached.
 */
static int kfi_eq_close(struct kfid *fid)
{
	struct kfi_eq *eq = container_of(fid, struct kfi_eq, eq.fid);
	struct kfi_eq_slot *slot;
	int ret;

	ret = kfi_source_kill(&eq->src);
	if (ret)
		return ret;
	kfi_pep_detach_all(&eq->eq);
	/* Without the lock: no thread reports, reads or waits any more. */
	list_for_each_entry(slot, &eq->events, link)
		kfi_eq_drop(slot);
	kfi_source_fini(&eq->src);
	kfi_eq_free(eq);
	return 0;
}

static struct kfi_ops kfi_eq_fid_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops),
	.close = kfi_eq_close,
	.bind = kfi_no_bind,
	.control = kfi_source_control,
	.ops_open = kfi_no_ops_open,
};

static struct kfi_ops_eq kfi_eq_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops_eq),
	.read = kfi_eq_op_read,
	.readerr = kfi_eq_op_readerr,
	.write = kfi_eq_op_write,
	.sread = kfi_eq_op_sread,
	.strerror = kfi_eq_op_strerror,
};

static struct kfi_eq *kfi_eq_alloc(size_t size)
{
	struct kfi_eq *eq;

	eq = kzalloc(sizeof(*eq), GFP_KERNEL_ACCOUNT);
	if (!eq)
		return NULL;
	INIT_LIST_HEAD(&eq->events);
	INIT_LIST_HEAD(&eq->peps);
	eq->size = size ?: KFI_EQ_DEFAULT;
	if (kfi_eq_share_init(&eq->own, eq->size)) {
		kfree(eq);
		return NULL;
	}
	return eq;
}

/**
 * kfi_core_eq_open() - kfi_ops_fabric.eq_open of every provider
 * @fabric: parent
 * @attr: NULL: defaults
 * @feq: the new EQ
 * @event_handler: called from a work item, never twice at once; or NULL
 * @context: the user's
 *
 * Context: process, may sleep; takes kfi_listed_lock.
 * Return: 0; -EINVAL; -ENOSYS for a wait object that is not offered; -ENOMEM.
 */
int kfi_core_eq_open(struct kfid_fabric *fabric, struct kfi_eq_attr *attr,
		     struct kfid_eq **feq, kfi_event_handler event_handler,
		     void *context)
{
	struct kfi_source_attr src_attr = {
		.fabric = kfi_fabric_of(fabric),
		.wait_obj = attr ? attr->wait_obj : KFI_WAIT_UNSPEC,
		.set = attr ? attr->wait_set : NULL,
		.handler = event_handler ? kfi_eq_handler : NULL,
		.cpu = WORK_CPU_UNBOUND,
	};
	struct kfi_eq *eq;
	int ret;

	if (attr && (attr->flags || attr->size > KFI_EQ_MAX))
		return -KFI_EINVAL;
	eq = kfi_eq_alloc(attr ? attr->size : 0);
	if (!eq)
		return -KFI_ENOMEM;
	kfi_fid_init(&eq->eq.fid, KFI_CLASS_EQ, context, &kfi_eq_fid_ops);
	eq->eq.ops = &kfi_eq_ops;
	eq->eq.event_handler = event_handler;
	ret = kfi_source_init(&eq->src, &eq->eq.fid, &src_attr);
	if (ret) {
		kfi_eq_free(eq);
		return ret;
	}
	*feq = &eq->eq;
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_core_eq_open);
