// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Receive contexts: opening and closing, posting receives, cancelling them, and
 * what becomes of a receive when something has arrived for it.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "rdm.h"

static void kfr_rx_drop_unexps(struct kfr_rx *rx)
{
	unsigned int i;

	for (i = 0; rx->unexps && i < rx->nkeep; i++)
		if (rx->unexps[i].page)
			__free_page(rx->unexps[i].page);
	kvfree(rx->unexps);
	rx->unexps = NULL;
}

static void kfr_rx_drop_recvs(struct kfr_rx *rx)
{
	unsigned int i;

	for (i = 0; rx->recvs && i < rx->size; i++)
		kfr_buf_fini(&rx->recvs[i].buf);
	kvfree(rx->recvs);
	rx->recvs = NULL;
}

/* A receive context, not enabled yet. Process context. Return: NULL: no memory. */
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
	rx->min_multi = KFR_MULTI_MIN;
	refcount_set(&rx->busy, 1);
	init_completion(&rx->idle);
	spin_lock_init(&rx->lock);
	spin_lock_init(&rx->multi_lock);
	INIT_LIST_HEAD(&rx->spare);
	INIT_LIST_HEAD(&rx->flows);
	xa_init_flags(&rx->keys, XA_FLAGS_LOCK_IRQ | XA_FLAGS_ACCOUNT);
	INIT_DELAYED_WORK(&rx->expire, kfr_rx_expire);
	return rx;
}

/* Undoes kfr_rx_new() and kfr_rx_enable(); it has been closed, or never shown. */
void kfr_rx_free(struct kfr_rx *rx)
{
	if (!rx)
		return;
	kfr_match_fini(&rx->match);
	kfr_rx_drop_unexps(rx);
	kfr_rx_drop_recvs(rx);
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
 * kfr_rx_enable() - give a context all the memory that it will ever need
 * @rx: the context
 *
 * The limit of what is kept for later is memory that is there: it is charged to
 * whoever enables, and a flood of messages allocates nothing.
 *
 * Context: process; caller holds the endpoint's ctl.
 * Return: 0 or -ENOMEM.
 */
int kfr_rx_enable(struct kfr_rx *rx)
{
	int err;

	if (rx->recvs)
		return 0;
	err = kfr_match_init(&rx->match, rx->size);
	if (!err)
		err = kfr_rx_add_unexps(rx);
	if (!err)
		err = kfr_rx_add_recvs(rx);
	if (err) {
		kfr_match_fini(&rx->match);
		kfr_rx_drop_unexps(rx);
		kfr_rx_drop_recvs(rx);
	}
	return err;
}

void kfr_rx_put(struct kfr_rx *rx)
{
	if (refcount_dec_and_test(&rx->busy))
		complete_all(&rx->idle);
}

/**
 * kfr_rx_stop() - nothing is received any more
 * @rx: the context, which messages may still find
 *
 * It comes before the context is hidden: who gets its number then finds what is
 * left of it told to the senders.
 *
 * Context: process.
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
 * kfr_rx_close() - nobody touches the context's buffers any more
 * @rx: the context, stopped; no message finds it any more
 *
 * What peers are moving right now has half a second to end; then their
 * connections are.
 *
 * Context: process.
 */
void kfr_rx_close(struct kfr_rx *rx)
{
	if (!rx->recvs)
		return;
	cancel_delayed_work_sync(&rx->expire);
	kfr_rx_put(rx);
	if (!wait_for_completion_timeout(&rx->idle, KFR_CLOSE_TIME)) {
		kfr_node_break(rx->ep->node, rx, NULL, NULL);
		wait_for_completion(&rx->idle);
	}
	/* Who has seen it open may still be reporting. */
	synchronize_srcu_expedited(&kfv_srcu);
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

static void kfr_recv_retire(struct kfr_recv *recv)
{
	recv->retired = true;
	list_del_init(&recv->link);
}

/**
 * kfr_recv_take() - a message goes into a receive
 * @rx: the context; caller holds its lock
 * @recv: the receive, posted or not
 * @hdr: of the message
 * @range: where it goes
 *
 * Return: false: it is one for many messages that has no room for this one; it
 * is taken away, and with @range->drop ends by kfr_recv_drop().
 */
bool kfr_recv_take(struct kfr_rx *rx, struct kfr_recv *recv,
		   const struct kfr_hdr *hdr, struct kfr_range *range)
{
	size_t len = le32_to_cpu(hdr->len), room = recv->buf.len - recv->used;

	lockdep_assert_held(&rx->lock);
	range->at = recv->used;
	if (hdr->op == KFR_OP_READ || hdr->op == KFR_OP_WRITE) {
		/* Behind what others have sent. */
		range->at += min_t(u64, le64_to_cpu(hdr->offset), room);
		room = recv->buf.len - range->at;
	} else if (recv->multi && recv->used && len > room) {
		kfr_recv_retire(recv);
		range->drop = !recv->users;
		return false;
	}
	range->len = min(len, room);
	range->over = len - range->len;
	recv->users++;
	recv->used = range->at + range->len;
	if (!recv->multi || range->over ||
	    recv->buf.len - recv->used < READ_ONCE(rx->min_multi))
		kfr_recv_retire(recv);
	return true;
}

static void kfr_recv_report(struct kfr_rx *rx, struct kfi_completion *comp,
			    bool want_entry)
{
	if (!READ_ONCE(rx->closing))
		kfr_report(rx->base, rx->ep->rdm->domain->dev, comp,
			   want_entry);
}

/* Its buffer is given back, and there is no message to tell with that. */
static struct kfi_completion kfr_release_of(const struct kfr_recv *recv)
{
	return (struct kfi_completion) {
		.context = recv->context,
		.flags = KFI_MULTI_RECV,
		.src = KFI_ADDR_NOTAVAIL,
	};
}

static void kfr_recv_report_multi(struct kfr_rx *rx, struct kfr_recv *recv,
				  struct kfi_completion *comp)
{
	struct kfi_completion release = kfr_release_of(recv);
	bool want = recv->want_entry, last;
	unsigned long irq;

	/*
	 * The release is reported last: who reports another message of the
	 * same buffer must be through. No handler runs inside.
	 */
	spin_lock_irqsave(&rx->multi_lock, irq);
	spin_lock(&rx->lock);
	last = !--recv->users && recv->retired;
	spin_unlock(&rx->lock);
	if (last && (want || comp->err))
		comp->flags |= KFI_MULTI_RECV;
	kfr_recv_report(rx, comp, want);
	if (last && !(comp->flags & KFI_MULTI_RECV))
		kfr_recv_report(rx, &release, true);
	spin_unlock_irqrestore(&rx->multi_lock, irq);
	if (last)
		kfr_recv_free(rx, recv);
}

/**
 * kfr_recv_done() - a message is in its receive
 * @rx: the context, busy
 * @recv: the receive
 * @comp: what there is to tell
 *
 * Context: any.
 */
void kfr_recv_done(struct kfr_rx *rx, struct kfr_recv *recv,
		   struct kfi_completion *comp)
{
	bool want_entry = recv->want_entry;

	if (recv->multi) {
		kfr_recv_report_multi(rx, recv, comp);
		return;
	}
	/* Free first: who is woken finds room. */
	kfr_recv_free(rx, recv);
	kfr_recv_report(rx, comp, want_entry);
}

/*
 * A receive ends without a message, on no list and with no users any more. Who
 * reports the last message in one for many must be through, see above.
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

/* One that had no room for a message, when kfr_recv_take() said so. */
void kfr_recv_drop(struct kfr_rx *rx, struct kfr_recv *recv)
{
	struct kfi_completion release = kfr_release_of(recv);

	kfr_recv_end(rx, recv, &release);
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
		return -KFI_EBADFLAGS;
	if (post->tagged && post->flags & KFI_MULTI_RECV && post->strict &&
	    !(ep->caps & KFI_TAGGED_MULTI_RECV))
		return -KFI_EBADFLAGS;
	return kfi_cq_has_room(face->base.rx_cq) ? 0 : -EAGAIN;
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
	/* One for many messages may be as large as the ULP likes. */
	if (recv->buf.len > KFR_MSG_MAX && !recv->multi) {
		kfr_buf_fini(&recv->buf);
		return -EMSGSIZE;
	}
	return 0;
}

/* A message is given to a receive. Caller holds the lock. */
static void kfr_rx_take_kept(struct kfr_rx *rx, struct kfr_unexp *unexp)
{
	kfr_match_unkeep(&rx->match, unexp);
	kfr_rx_tell(rx, KFI_EVENT_UNEXP_MSG_MATCHED, unexp);
}

/* Gives a receive what was kept for it, or posts it. */
static void kfr_recv_begin(struct kfr_rx *rx, struct kfr_recv *recv)
{
	struct kfr_unexp *unexp;
	struct kfr_range range;
	bool taken, more, want;
	struct kfr_recv posted;
	unsigned long irq;

	do {
		taken = false;
		want = false;
		spin_lock_irqsave(&rx->lock, irq);
		unexp = kfr_match_kept(&rx->match, recv);
		if (unexp) {
			taken = kfr_recv_take(rx, recv, &unexp->hdr, &range);
			if (taken)
				kfr_rx_take_kept(rx, unexp);
		} else {
			kfr_match_post(&rx->match, recv);
			want = kfr_flow_blocked(rx);
		}
		if (want)
			posted = *recv;
		more = taken && !recv->retired;
		spin_unlock_irqrestore(&rx->lock, irq);
		/* After this it may be anybody's, unless there is more room. */
		if (taken)
			kfr_rx_deliver(rx, recv, unexp, &range);
		else if (unexp && range.drop)
			kfr_recv_drop(rx, recv);
		else if (want)
			kfr_rx_want(rx, &posted);
	} while (more);
}

static ssize_t kfr_post_live(struct kfr_face *face, const struct kfr_post *post)
{
	struct kfr_recv *recv;
	int err;

	err = kfr_post_check(face, post);
	if (err)
		return err;
	recv = kfr_recv_get(face->rx);
	if (!recv)
		return -EAGAIN;
	err = kfr_recv_fill(face, recv, post);
	if (err) {
		kfr_recv_free(face->rx, recv);
		return err;
	}
	kfr_recv_begin(face->rx, recv);
	return 0;
}

/**
 * kfr_post() - post a receive
 * @fid: an endpoint, or a receive context
 * @post: what for
 *
 * Context: any; does not sleep. A message that was kept for it is reported
 * before this returns.
 * Return: 0; -EAGAIN: as many are posted as the context has, or its queue is
 * full; -ENODEV; -KFI_ENOSYS: a transmit context; -KFI_EOPBADSTATE: not
 * enabled; -KFI_EBADFLAGS; -EINVAL; -EMSGSIZE.
 */
ssize_t kfr_post(struct kfid_ep *fid, const struct kfr_post *post)
{
	int idx = srcu_read_lock(&kfv_srcu);
	ssize_t ret = kfr_post_live(kfr_face_of(fid), post);

	srcu_read_unlock(&kfv_srcu, idx);
	return ret;
}

/* Takes the receive with this context off its list, and ends it. */
static ssize_t kfr_rx_cancel(struct kfr_rx *rx, void *context)
{
	struct kfi_completion comp = {
		.context = context,
		.src = KFI_ADDR_NOTAVAIL,
		.err = KFI_ECANCELED,
	};
	struct kfr_recv *recv;
	unsigned long irq;
	bool last = false;

	spin_lock_irqsave(&rx->lock, irq);
	recv = kfr_match_context(&rx->match, context);
	if (recv) {
		kfr_recv_retire(recv);
		comp.flags = (recv->tagged ? KFI_TAGGED : KFI_MSG) | KFI_RECV;
		comp.tag = recv->tag;
		last = !recv->users;
	}
	spin_unlock_irqrestore(&rx->lock, irq);
	if (!recv)
		return -ENOENT;
	/* One that is being filled ends with that message. */
	if (last)
		kfr_recv_end(rx, recv, &comp);
	return 0;
}

/**
 * kfr_cancel() - kfi_cancel(): of receives
 * @fid: an endpoint, or a receive context
 * @context: of the receive
 *
 * Context: any.
 * Return: 0: it has completed with ECANCELED; -ENOENT: there is none, or
 * something has arrived for it; -ENODEV: the device is gone, and whoever reads
 * the queue is told of that in place of each receive.
 */
ssize_t kfr_cancel(struct kfid *fid, void *context)
{
	const struct kfr_face *face = kfr_face_of_fid(fid);
	const struct kfv_device *dev = face->ep->rdm->domain->dev;
	ssize_t ret = -ENODEV;
	int idx;

	if (!face->rx || !face->rx->recvs)
		return -ENOENT;
	/* Within it nobody is told of the loss, so the end will be reported. */
	idx = srcu_read_lock(&kfv_srcu);
	if (!kfv_gone(dev))
		ret = kfr_rx_cancel(face->rx, context);
	srcu_read_unlock(&kfv_srcu, idx);
	return ret;
}
