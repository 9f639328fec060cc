// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Receive contexts: opening, enabling and closing; posting and cancelling
 * receives; and the end of a receive, that is its report to the ULP.
 *
 * A posted receive first looks for a kept message (kfr_recv_begin()); if there
 * is none, it goes on a list of match.c, where rx.c finds it for arriving
 * messages. kfr_recv_take() reserves a part of it under the context's lock, so
 * that data is copied, or moved by a job, without a lock. kfr_recv_done()
 * reports each message and frees the receive.
 *
 * A context is kept alive by the ULP's handle until kfr_rx_close(), and by
 * @busy for every message that is being delivered. kfr_rx_close() waits for
 * both kinds.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "../../compat.h"
#include "rdm.h"

/* The mirror of kfr_rx_enable(), also if that has failed. */
static void kfr_rx_disable(struct kfr_rx *rx)
{
	unsigned int i;

	kfr_match_fini(&rx->match);
	for (i = 0; rx->unexps && i < rx->nkeep; i++)
		if (rx->unexps[i].page)
			__free_page(rx->unexps[i].page);
	kvfree(rx->unexps);
	rx->unexps = NULL;
	for (i = 0; rx->recvs && i < rx->size; i++)
		kfr_buf_fini(&rx->recvs[i].buf);
	kvfree(rx->recvs);
	rx->recvs = NULL;
}

/**
 * kfr_rx_new() - allocate a receive context
 * @ep: its endpoint
 * @base: the handle that it reports to
 * @index: its number
 * @attr: checked attributes
 *
 * It is not enabled: it has no receives, and messages do not find it.
 *
 * Context: process, may sleep.
 * Return: the context, or NULL: no memory. kfr_rx_free() is its mirror.
 */
struct kfr_rx *kfr_rx_new(struct kfr_ep *ep, struct kfi_ep_base *base,
			  unsigned int index, const struct kfi_rx_attr *attr)
{
	struct kfr_rx *rx = kzalloc(sizeof(*rx), GFP_KERNEL_ACCOUNT);

	if (!rx)
		return NULL;
	rx->ep = ep;
	rx->base = base;
	rx->index = index;
	rx->flags = attr->op_flags;
	rx->size = attr->size ? attr->size : KFR_RX_SIZE;
	rx->nkeep = DIV_ROUND_UP(attr->total_buffered_recv, KFR_EAGER);
	if (!rx->nkeep)
		rx->nkeep = KFR_KEEP;
	if (!kfr_keeps())
		rx->nkeep = 0;
	rx->min_multi = KFR_MULTI_MIN;
	refcount_set(&rx->busy, 1);
	init_completion(&rx->idle);
	spin_lock_init(&rx->lock);
	spin_lock_init(&rx->multi_lock);
	INIT_LIST_HEAD(&rx->spare);
	xa_init(&rx->flows);
	xa_init_flags(&rx->keys, XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
	INIT_DELAYED_WORK(&rx->expire, kfr_rx_expire);
	INIT_DELAYED_WORK(&rx->retry, kfr_rx_retry);
	INIT_LIST_HEAD(&rx->room.link);
	INIT_WORK(&rx->room.work, kfr_rx_resume_room);
	return rx;
}

/**
 * kfr_rx_free() - undo kfr_rx_new() and kfr_rx_enable()
 * @rx: the context: closed, or never visible to messages; or NULL
 *
 * Context: process. No lock: the caller is its only user.
 */
void kfr_rx_free(struct kfr_rx *rx)
{
	if (!rx)
		return;
	kfr_rx_disable(rx);
	/* Both are empty, but an entry that found no memory may leave nodes. */
	xa_destroy(&rx->flows);
	xa_destroy(&rx->keys);
	kfree(rx);
}

static int kfr_rx_add_unexps(struct kfr_rx *rx)
{
	unsigned int i;

	rx->unexps = kvcalloc(rx->nkeep, sizeof(*rx->unexps),
			      GFP_KERNEL_ACCOUNT);
	if (!rx->unexps)
		return -ENOMEM;
	INIT_LIST_HEAD(&rx->spare);
	for (i = 0; i < rx->nkeep; i++) {
		rx->unexps[i].page = alloc_page(GFP_KERNEL_ACCOUNT);
		if (!rx->unexps[i].page)
			return -ENOMEM;
		list_add_tail(&rx->unexps[i].link, &rx->spare);
	}
	rx->nspare = rx->nkeep;
	return 0;
}

static int kfr_rx_add_recvs(struct kfr_rx *rx)
{
	struct kfr_recv *recv;
	unsigned int i;

	rx->recvs = kvcalloc(rx->size, sizeof(*rx->recvs), GFP_KERNEL_ACCOUNT);
	if (!rx->recvs)
		return -ENOMEM;
	rx->free = NULL;
	for (i = 0; i < rx->size; i++) {
		recv = &rx->recvs[i];
		recv->buf.pieces = &recv->buf.room;
		recv->next = rx->free;
		rx->free = recv;
	}
	return 0;
}

/**
 * kfr_rx_enable() - allocate everything that the context will ever need
 * @rx: the context
 *
 * The room for kept messages is allocated here and charged to the enabling
 * task, so a flood of messages cannot use up memory later. A second call does
 * nothing.
 *
 * Context: process, may sleep; the caller holds the endpoint's ctl.
 * Return: 0 or -ENOMEM.
 */
int kfr_rx_enable(struct kfr_rx *rx)
{
	int err;

	lockdep_assert_held(&rx->ep->ctl);
	if (rx->recvs)
		return 0;
	err = kfr_match_init(&rx->match, rx->size, &rx->lock);
	if (!err)
		err = kfr_rx_add_unexps(rx);
	if (!err)
		err = kfr_rx_add_recvs(rx);
	if (err)
		kfr_rx_disable(rx);
	return err;
}

/**
 * kfr_rx_put() - the mirror of kfr_node_rx() and of other increments of @busy
 * @rx: the context
 *
 * The context may be freed as soon as this returns.
 *
 * Context: any.
 */
void kfr_rx_put(struct kfr_rx *rx)
{
	if (refcount_dec_and_test(&rx->busy))
		complete_all(&rx->idle);
}

/**
 * kfr_rx_stop() - first step of a close: receive nothing more
 * @rx: the context, which messages still find
 *
 * Posted receives are dropped, kept messages are refused, and parked ones are
 * sent again and refused on arrival. This comes before the context is hidden,
 * so senders hear of it before another context can get the same number.
 *
 * Context: process, may sleep; no lock held.
 */
void kfr_rx_stop(struct kfr_rx *rx)
{
	struct kfr_unexp *unexp, *next;
	LIST_HEAD(kept);

	if (!rx->recvs)
		return;
	spin_lock_irq(&rx->lock);
	rx->closing = true;
	kfr_match_unpost(&rx->match);
	list_splice_tail_init(&rx->match.kept, &kept);
	list_splice_tail_init(&rx->match.kept_tagged, &kept);
	rx->match.nkept = 0;
	spin_unlock_irq(&rx->lock);

	list_for_each_entry_safe(unexp, next, &kept, link)
		kfr_rx_refuse(unexp, KFR_NO_ENDPOINT);
	kfr_rx_drop_flows(rx);
}

/**
 * kfr_rx_close() - last step of a close: wait for all users of the context
 * @rx: the context, stopped and hidden: messages do not find it any more
 *
 * Jobs of peers go on until their data has moved. If the device does not come to
 * that, as a peer takes no messages, or not fast enough, the connection is aborted:
 * the device returns all work requests, and the jobs fail. When this returns,
 * neither device nor CPU touches the receives' buffers. The caller waits for kfv_srcu
 * before it frees anything, see kfr_face_close().
 *
 * Context: process, sleeps; no lock held.
 */
void kfr_rx_close(struct kfr_rx *rx)
{
	unsigned long end = jiffies + KFR_REVOKE_TIME;

	if (!rx->recvs)
		return;
	cancel_delayed_work_sync(&rx->expire);
	cancel_delayed_work_sync(&rx->retry);
	kfr_rx_put(rx);
	while (!wait_for_completion_timeout(&rx->idle, KFR_CLOSE_TIME))
		kfr_node_break(rx->ep->node, rx, NULL, time_after(jiffies, end));
	kfi_cq_leave(rx->base->rx_cq, &rx->room);
}

static struct kfr_recv *kfr_recv_get(struct kfr_rx *rx)
{
	struct kfr_recv *recv;
	unsigned long irq;

	spin_lock_irqsave(&rx->lock, irq);
	recv = rx->free;
	if (recv)
		rx->free = recv->next;
	spin_unlock_irqrestore(&rx->lock, irq);
	return recv;
}

static void kfr_recv_free(struct kfr_rx *rx, struct kfr_recv *recv)
{
	unsigned long irq;

	kfr_buf_fini(&recv->buf);
	spin_lock_irqsave(&rx->lock, irq);
	recv->next = rx->free;
	rx->free = recv;
	spin_unlock_irqrestore(&rx->lock, irq);
}

/* No further message takes it. Dropping the last user ends it. */
static void kfr_recv_retire(struct kfr_rx *rx, struct kfr_recv *recv)
{
	lockdep_assert_held(&rx->lock);
	recv->retired = true;
	list_del_init(&recv->link);
}

/**
 * kfr_recv_reserve() - reserve an entry in the CQ for the next message of a receive
 * @rx: the context
 * @recv: the receive
 *
 * A peer decides how many messages a multi-receive takes, so each of them needs
 * an entry of its own, or the release in place of one. The ULP has posted any
 * other receive for its entry.
 *
 * Context: any; a caller that blocks a flow for want of room holds the context's
 * lock.
 * Return: false: there is no room; kfr_rx_resume_room() runs when there is.
 */
bool kfr_recv_reserve(struct kfr_rx *rx, const struct kfr_recv *recv)
{
	return !recv->multi || kfi_cq_reserve(rx->base->rx_cq, &rx->room);
}

/**
 * kfr_recv_unreserve() - the mirror of a successful kfr_recv_reserve()
 * @rx: the context, open or busy
 * @recv: the receive
 *
 * Context: any.
 */
void kfr_recv_unreserve(struct kfr_rx *rx, const struct kfr_recv *recv)
{
	if (recv->multi)
		kfi_cq_unreserve(rx->base->rx_cq);
}

/* Retire a multi-receive that takes no more; kfr_recv_take() says what follows. */
static void kfr_recv_full(struct kfr_rx *rx, struct kfr_recv *recv,
			  struct kfr_range *range)
{
	lockdep_assert_held(&rx->lock);
	kfr_recv_retire(rx, recv);
	range->drop = !recv->users;
	if (!range->drop)
		kfr_recv_unreserve(rx, recv);
}

/**
 * kfr_recv_take() - reserve a part of a receive for a message
 * @rx: the context
 * @recv: the receive: posted, or owned by the caller; kfr_recv_reserve() has
 *	succeeded, and the entry is used or given back
 * @hdr: header of the message
 * @range: out: the reserved part
 *
 * On success @recv->users counts the message until kfr_recv_done(), which the
 * caller must reach; nothing else frees the receive meanwhile. If it is full,
 * or takes one message only, it is off its list.
 *
 * Context: any; the caller holds the context's lock.
 * Return: false: a multi-receive without room for this message. It is retired,
 * and if @range->drop is set the caller ends it by kfr_recv_drop().
 */
bool kfr_recv_take(struct kfr_rx *rx, struct kfr_recv *recv,
		   const struct kfr_hdr *hdr, struct kfr_range *range)
{
	size_t len = le32_to_cpu(hdr->len), room = recv->buf.len - recv->used;

	lockdep_assert_held(&rx->lock);
	range->at = recv->used;
	if (hdr->op == KFR_OP_READ || hdr->op == KFR_OP_WRITE) {
		/* Offsets of tagged RMA count from the end of earlier data. */
		range->at += min_t(u64, le64_to_cpu(hdr->offset), room);
		room = recv->buf.len - range->at;
	} else if (recv->multi && recv->used && len > room) {
		kfr_recv_full(rx, recv, range);
		return false;
	}
	range->len = min(len, room);
	range->over = len - range->len;
	recv->users++;
	recv->used = range->at + range->len;
	if (!recv->multi || range->over ||
	    recv->buf.len - recv->used < READ_ONCE(rx->min_multi))
		kfr_recv_retire(rx, recv);
	return true;
}

static void kfr_recv_report(struct kfr_rx *rx, struct kfi_completion *comp,
			    bool want_entry)
{
	if (!READ_ONCE(rx->closing))
		kfr_report(rx->base, rx->ep->rdm->domain->dev, comp,
			   want_entry);
}

/* The completion that gives a multi-receive's buffer back, without a message. */
static struct kfi_completion kfr_release_completion(const struct kfr_recv *recv)
{
	return (struct kfi_completion) {
		.context = recv->context,
		.state = KFI_OP_ENDED,
		.flags = KFI_MULTI_RECV,
		.src = KFI_ADDR_NOTAVAIL,
	};
}

static void kfr_recv_report_multi(struct kfr_rx *rx, struct kfr_recv *recv,
				  struct kfi_completion *comp)
{
	struct kfi_completion release = kfr_release_completion(recv);
	bool want = recv->want_entry, last;
	unsigned long irq;

	/*
	 * The flag KFI_MULTI_RECV, or a release of its own, must be the last
	 * report of the buffer. multi_lock spans decision and report, so a
	 * thread that drops an earlier user has reported before this one
	 * decides. The ULP's handler is a work item and does not run inside.
	 */
	spin_lock_irqsave(&rx->multi_lock, irq);
	spin_lock(&rx->lock);
	last = !--recv->users && recv->retired;
	spin_unlock(&rx->lock);
	if (last && (want || comp->err))
		comp->flags |= KFI_MULTI_RECV;
	if (!(comp->flags & KFI_MULTI_RECV))
		comp->state = KFI_OP_GOES_ON;
	kfr_recv_report(rx, comp, want);
	if (last && !(comp->flags & KFI_MULTI_RECV))
		kfr_recv_report(rx, &release, true);
	spin_unlock_irqrestore(&rx->multi_lock, irq);
	kfi_cq_unreserve(rx->base->rx_cq);
	if (last)
		kfr_recv_free(rx, recv);
}

/**
 * kfr_recv_done() - report a message that is in its receive
 * @rx: the context, busy
 * @recv: the receive; freed unless it is a multi-receive with users or room
 * @comp: the completion
 *
 * Context: any; no lock held.
 */
void kfr_recv_done(struct kfr_rx *rx, struct kfr_recv *recv,
		   struct kfi_completion *comp)
{
	bool want_entry = recv->want_entry;

	if (recv->multi) {
		kfr_recv_report_multi(rx, recv, comp);
		return;
	}
	/* Free first: a woken thread can post again. */
	kfr_recv_free(rx, recv);
	kfr_recv_report(rx, comp, want_entry);
}

/*
 * Ends a receive without a message. It is on no list and has no users, so the
 * caller owns it; multi_lock waits for the thread that reports its last
 * message.
 */
static void kfr_recv_end(struct kfr_rx *rx, struct kfr_recv *recv,
			 struct kfi_completion *comp)
{
	unsigned long irq;

	spin_lock_irqsave(&rx->multi_lock, irq);
	kfr_recv_free(rx, recv);
	kfr_recv_report(rx, comp, true);
	spin_unlock_irqrestore(&rx->multi_lock, irq);
}

/**
 * kfr_recv_drop() - release a multi-receive that had no room for a message
 * @rx: the context, open or busy
 * @recv: retired by kfr_recv_take(), which set @drop
 *
 * Context: any; no lock held.
 */
void kfr_recv_drop(struct kfr_rx *rx, struct kfr_recv *recv)
{
	struct kfi_completion release = kfr_release_completion(recv);

	kfr_recv_end(rx, recv, &release);
	kfi_cq_unreserve(rx->base->rx_cq);
}

static int kfr_post_check(const struct kfr_face *face,
			  const struct kfr_post *post)
{
	const struct kfr_ep *ep = face->ep;

	if (kfv_gone(ep->rdm->domain->dev))
		return -ENODEV;
	if (!face->rx)
		return -KFI_ENOSYS;
	if (!face->base.enabled)
		return -KFI_EOPBADSTATE;
	if (post->flags & ~KFR_RX_FLAGS)
		return kfv_refuse(-KFI_EBADFLAGS, "unknown flags");
	if (post->tagged && post->flags & KFI_MULTI_RECV && post->strict &&
	    !(ep->caps & KFI_TAGGED_MULTI_RECV))
		return kfv_refuse(-KFI_EBADFLAGS,
				  "no KFI_TAGGED_MULTI_RECV was asked for");
	return 0;
}

static int kfr_recv_fill(const struct kfr_face *face, struct kfr_recv *recv,
			 const struct kfr_post *post)
{
	const struct kfr_ep *ep = face->ep;
	u16 rx;
	int err;

	recv->tagged = post->tagged;
	recv->tag = post->tag;
	recv->ignore = post->ignore;
	recv->context = post->context;
	recv->want_entry = kfi_ep_wants_rx(&face->base, post->flags);
	recv->multi = post->flags & KFI_MULTI_RECV &&
		      (!post->tagged || ep->caps & KFI_TAGGED_MULTI_RECV);
	recv->directed = ep->caps & KFI_DIRECTED_RECV &&
			 post->addr != KFI_ADDR_UNSPEC;
	recv->used = 0;
	recv->users = 0;
	recv->retired = false;
	INIT_LIST_HEAD(&recv->link);
	if (recv->directed) {
		err = kfr_av_find(ep->av, post->addr, &recv->src, &rx);
		if (err)
			return err;
	}
	err = kfr_buf_init(&recv->buf, post->type, post->pieces, post->count,
			   KFR_GFP_POST);
	if (err)
		return err;
	/* A multi-receive may be longer than any message. */
	if (recv->buf.len > KFR_MSG_MAX && !recv->multi) {
		kfr_buf_fini(&recv->buf);
		return kfv_refuse(-EMSGSIZE, "too long");
	}
	return 0;
}

/* Messages that may be kept while a new multi-receive takes those from before. */
#define KFR_LATE	64

/* From here on the caller owns the message. */
static void kfr_rx_take_kept(struct kfr_rx *rx, struct kfr_unexp *unexp)
{
	lockdep_assert_held(&rx->lock);
	kfr_match_unkeep(&rx->match, unexp);
	kfr_rx_profile_event(rx, KFI_EVENT_UNEXP_MSG_MATCHED, unexp);
}

/*
 * @until: number of the first message that came too late. Return: as that of
 * kfr_recv_take(). A receive that cannot take another message is retired.
 */
static bool kfr_recv_take_kept(struct kfr_rx *rx, struct kfr_recv *recv,
			       struct kfr_unexp *unexp, u64 until,
			       struct kfr_range *range)
{
	lockdep_assert_held(&rx->lock);
	if (unexp->order >= until) {
		kfr_recv_full(rx, recv, range);
		return false;
	}
	if (!kfr_recv_take(rx, recv, &unexp->hdr, range))
		return false;
	kfr_rx_take_kept(rx, unexp);
	if (!recv->retired && !kfr_recv_reserve(rx, recv))
		kfr_recv_retire(rx, recv);
	return true;
}

/**
 * struct kfr_look - what kfr_recv_look() has found
 * @unexp: a kept message that matches, or NULL: the receive was posted
 * @range: its part of the receive
 * @taken: it is the caller's now
 * @more: the receive takes another one: a multi-receive that was not posted yet
 * @want: it was posted, and senders are blocked
 * @posted: copy for kfr_rx_send_wants() then: the receive may be taken and freed at once
 */
struct kfr_look {
	struct kfr_unexp *unexp;
	struct kfr_range range;
	bool taken;
	bool more;
	bool want;
	struct kfr_recv posted;
};

/* One turn of kfr_recv_begin(); see there also for what it returns. */
static int kfr_recv_look(struct kfr_rx *rx, struct kfr_recv *recv, u64 until,
			 struct kfr_look *look)
{
	lockdep_assert_held(&rx->lock);
	look->taken = false;
	look->want = false;
	look->unexp = kfr_match_kept(&rx->match, recv);
	if (!look->unexp) {
		kfr_recv_unreserve(rx, recv);
		kfr_match_post(&rx->match, recv);
		look->want = kfr_flow_blocked(rx);
	} else if (recv->multi || kfi_cq_has_room(rx->base->rx_cq)) {
		look->taken = kfr_recv_take_kept(rx, recv, look->unexp, until,
						 &look->range);
	} else {
		return -EAGAIN;
	}
	if (look->want)
		look->posted = *recv;
	look->more = look->taken && !recv->retired;
	return 0;
}

/*
 * Gives a new receive the kept messages that match, or posts it. Both happen in
 * one section of the lock, so a message that arrives meanwhile either was kept
 * before or finds the receive posted.
 *
 * @recv has an entry reserved, as long as it is not posted. If the CQ fills up, a
 * multi-receive ends with the last message that has room: no message is kept that
 * a posted receive matches. It also ends if peers send as fast as it takes: what
 * came long after it began is for the next one, so that the posting thread leaves.
 *
 * Return: 0; -EAGAIN: a kept message matches, and the CQ has no room for its entry. The
 * caller still owns @recv.
 */
static int kfr_recv_begin(struct kfr_rx *rx, struct kfr_recv *recv)
{
	struct kfr_look look;
	unsigned long irq;
	u64 until = 0;
	int err;

	do {
		/* A taken message is nowhere until kfr_job_start() has its job. */
		kfi_preempt_off();
		spin_lock_irqsave(&rx->lock, irq);
		if (!until)
			until = rx->match.came + KFR_LATE;
		err = kfr_recv_look(rx, recv, until, &look);
		spin_unlock_irqrestore(&rx->lock, irq);
		if (!err && look.taken)
			kfr_rx_deliver(rx, recv, look.unexp, &look.range);
		kfi_preempt_on();
		if (err)
			return err;
		/* From here on @recv may be in other hands or free, unless @more. */
		if (look.taken)
			kfr_unexp_free(rx, look.unexp);
		else if (look.unexp && look.range.drop)
			kfr_recv_drop(rx, recv);
		else if (look.want)
			kfr_rx_send_wants(rx, &look.posted);
		if (look.more)
			kfi_test_hook_point(KFI_HOOK_D13, rx->base->id);
	} while (look.more);
	return 0;
}

/* In a read section of kfv_post_srcu: the device is there until it ends. */
static ssize_t kfr_post_live(struct kfr_face *face, const struct kfr_post *post)
{
	struct kfr_recv *recv;
	int err;

	lockdep_assert(srcu_read_lock_held(&kfv_post_srcu));
	err = kfr_post_check(face, post);
	if (err)
		return err;
	recv = kfr_recv_get(face->rx);
	if (!recv)
		return -EAGAIN;
	err = kfr_recv_fill(face, recv, post);
	if (!err && !kfr_recv_reserve(face->rx, recv))
		err = -EAGAIN;
	if (!err)
		err = kfr_recv_begin(face->rx, recv);
	if (err)
		kfr_recv_free(face->rx, recv);
	return err;
}

/**
 * kfr_post() - post a receive
 * @fid: an endpoint, or a receive context
 * @post: the receive
 *
 * A kept message that matches is reported before this returns, unless its data
 * is still at the sender. The read section keeps the device until then.
 *
 * Context: any; does not sleep; no lock held.
 * Return: 0; -EAGAIN: the context's receives are all posted, the CQ has no room for a
 * kept message that matches or for a multi-receive, or there is no memory now; -ENODEV;
 * -KFI_ENOSYS: a transmit context; -KFI_EOPBADSTATE: not enabled; -KFI_EBADFLAGS;
 * -EINVAL; -EMSGSIZE.
 */
ssize_t kfr_post(struct kfid_ep *fid, const struct kfr_post *post)
{
	int idx = srcu_read_lock(&kfv_post_srcu);
	ssize_t ret = kfr_post_live(kfr_face_of(fid), post);

	srcu_read_unlock(&kfv_post_srcu, idx);
	return ret;
}

/*
 * Takes the receive with this context off its list, which makes it the
 * caller's.
 */
static ssize_t kfr_rx_cancel(struct kfr_rx *rx, void *context)
{
	struct kfi_completion comp = {
		.context = context,
		.state = KFI_OP_ENDED,
		.src = KFI_ADDR_NOTAVAIL,
		.err = KFI_ECANCELED,
	};
	struct kfr_recv *recv;
	unsigned long irq;
	bool last = false;

	lockdep_assert(srcu_read_lock_held(&kfv_post_srcu));
	spin_lock_irqsave(&rx->lock, irq);
	recv = kfr_match_context(&rx->match, context);
	if (recv) {
		kfr_recv_retire(rx, recv);
		comp.flags = (recv->tagged ? KFI_TAGGED : KFI_MSG) | KFI_RECV;
		comp.tag = recv->tag;
		last = !recv->users;
	}
	spin_unlock_irqrestore(&rx->lock, irq);
	if (!recv)
		return -ENOENT;
	/* A multi-receive that is being filled ends with its last message. */
	if (last)
		kfr_recv_end(rx, recv, &comp);
	return 0;
}

/**
 * kfr_cancel() - kfi_cancel(), for receives
 * @fid: an endpoint, or a receive context
 * @context: of the receive
 *
 * Context: any; does not sleep; no lock held.
 * Return: 0: it has completed with ECANCELED, or completes with the messages
 * that are being copied into it; -ENOENT: there is none, or a message took it;
 * -ENODEV: the device is gone, which readers of the CQ learn instead of each
 * cancellation.
 */
ssize_t kfr_cancel(struct kfid *fid, void *context)
{
	const struct kfr_face *face = kfr_face_of_fid(fid);
	const struct kfv_device *dev = face->ep->rdm->domain->dev;
	ssize_t ret = -ENODEV;
	int idx;

	if (!face->rx || !face->rx->recvs)
		return -ENOENT;
	/* The loss is reported after this section, so the cancellation is, too. */
	idx = srcu_read_lock(&kfv_post_srcu);
	if (!kfv_gone(dev))
		ret = kfr_rx_cancel(face->rx, context);
	srcu_read_unlock(&kfv_post_srcu, idx);
	return ret;
}
