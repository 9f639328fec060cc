// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Posted operations. An operation keeps the memory of its buffers from before it is
 * posted until kfabric reports its end, whether that writes a completion or not. The
 * provider gets the operation as context, and kfd_op_report() puts the user's number
 * in its place before a reader can see it.
 *
 * Two ends are not reported, the close of the endpoint and the loss of its device. What
 * is left then is released with the endpoint.
 */
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "kfd.h"

/**
 * struct kfd_op - an operation that may use buffers after it was posted
 * @link: on ep->ops, oldest first; empty once it is over (ep->ops_lock)
 * @refs: atomic: the call that posts it, the list, a call that cancels it
 * @number: counts the operations of the endpoint; constant once it is listed
 * @context: the user's number; constant
 * @nbufs: elements of @buf; constant once it is listed
 * @buf: the buffers, each with a reference
 */
struct kfd_op {
	struct list_head link;
	refcount_t refs;
	u64 number;
	u64 context;
	unsigned int nbufs;
	struct kfd_buf *buf[];
};

/**
 * kfd_op_new() - make an operation that is not posted yet
 * @context: the user's number
 * @room: pieces that kfd_op_hold() is called with, in all
 *
 * Context: Process, may sleep.
 * Return: the operation, to be released by kfd_op_put(), or NULL without memory.
 */
struct kfd_op *kfd_op_new(u64 context, unsigned int room)
{
	struct kfd_op *op = kzalloc(struct_size(op, buf, room), GFP_KERNEL_ACCOUNT);

	if (!op)
		return NULL;
	INIT_LIST_HEAD(&op->link);
	refcount_set(&op->refs, 1);
	op->context = context;
	return op;
}

/**
 * kfd_op_hold() - keep the memory of pieces until the operation is over
 * @op: the operation, not posted yet
 * @vec: the pieces, pinned by the call in progress
 *
 * Context: Process; does not sleep.
 */
void kfd_op_hold(struct kfd_op *op, const struct kfd_vec *vec)
{
	unsigned int i;

	for (i = 0; i < vec->n; i++) {
		kfd_buf_hold(vec->buf[i]);
		op->buf[op->nbufs++] = vec->buf[i];
	}
}

/**
 * kfd_op_put() - drop a reference
 * @op: the operation, which may be freed, and its buffers with it
 *
 * Context: Any; does not sleep.
 */
void kfd_op_put(struct kfd_op *op)
{
	if (!refcount_dec_and_test(&op->refs))
		return;
	while (op->nbufs)
		kfd_buf_put(op->buf[--op->nbufs]);
	kfree(op);
}

/**
 * kfd_op_begin() - list an operation that is about to be posted
 * @ep: the endpoint
 * @op: the operation; it may be over before the post returns
 *
 * Context: Process. The caller holds @ep->sem; takes ep->ops_lock.
 */
void kfd_op_begin(struct kfd_ep *ep, struct kfd_op *op)
{
	unsigned long irq;

	lockdep_assert_held(&ep->sem);
	refcount_inc(&op->refs);
	spin_lock_irqsave(&ep->ops_lock, irq);
	op->number = ++ep->last_op;
	list_add_tail(&op->link, &ep->ops);
	spin_unlock_irqrestore(&ep->ops_lock, irq);
}

/**
 * kfd_op_end() - an operation is over, or was not posted
 * @ep: the endpoint
 * @op: the operation; the caller has a reference, or it is reported just now
 *
 * Context: Any; takes ep->ops_lock.
 */
void kfd_op_end(struct kfd_ep *ep, struct kfd_op *op)
{
	unsigned long irq;

	spin_lock_irqsave(&ep->ops_lock, irq);
	list_del_init(&op->link);
	spin_unlock_irqrestore(&ep->ops_lock, irq);
	kfd_op_put(op);
}

/* What a reader names a place in a multi-receive buffer by, see kfd_buf_named(). */
static void *kfd_op_place(const struct kfd_op *op, const void *addr)
{
	unsigned int i;

	for (i = 0; addr && i < op->nbufs; i++)
		if (kfd_buf_has(op->buf[i], addr))
			return kfd_buf_name(op->buf[i], addr);
	return NULL;
}

/**
 * kfd_op_report() - kfabric reports a completion of an operation
 * @fid: the endpoint
 * @comp: the completion; its context and buf become those of the user
 *
 * The buffers are released before the completion can be read, so a program that has
 * read it finds that their memory is no longer charged.
 *
 * Context: Any; takes ep->ops_lock.
 */
void kfd_op_report(struct kfid_ep *fid, struct kfi_completion *comp)
{
	struct kfd_op *op = comp->context;

	comp->context = kfd_user_context(op->context);
	comp->buf = kfd_op_place(op, comp->buf);
	if (comp->state == KFI_OP_ENDED)
		kfd_op_end(kfd_ep_obj(fid->fid.context), op);
}

/* Return: the oldest operation with this context after a number, referenced, or NULL. */
static struct kfd_op *kfd_op_find(struct kfd_ep *ep, u64 context, u64 after)
{
	struct kfd_op *op, *found = NULL;
	unsigned long irq;

	spin_lock_irqsave(&ep->ops_lock, irq);
	list_for_each_entry(op, &ep->ops, link) {
		if (op->number > after && op->context == context) {
			refcount_inc(&op->refs);
			found = op;
			break;
		}
	}
	spin_unlock_irqrestore(&ep->ops_lock, irq);
	return found;
}

/**
 * kfd_op_cancel() - cancel the oldest operation that the provider can cancel
 * @ep: the endpoint
 * @context: the user's number of the operation
 *
 * Context: Process, may sleep. The caller holds @ep->sem; takes ep->ops_lock.
 * Return: what kfi_cancel() returned, or -EINTR.
 */
long kfd_op_cancel(struct kfd_ep *ep, u64 context)
{
	struct kfd_op *op;
	u64 after = 0;
	long ret;

	lockdep_assert_held(&ep->sem);
	while ((op = kfd_op_find(ep, context, after))) {
		after = op->number;
		ret = kfi_cancel(ep->obj.fid, op);
		kfd_op_put(op);
		if (ret != -ENOENT)
			return ret;
		if (signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	/* No operation has this context: -ENOENT, or what the provider has to say. */
	return kfi_cancel(ep->obj.fid, &after);
}

/**
 * kfd_ep_release_ops() - release the operations whose end was not reported
 * @ep: the endpoint, closed
 *
 * Context: Process; takes ep->ops_lock, which no report takes any more.
 */
void kfd_ep_release_ops(struct kfd_ep *ep)
{
	struct kfd_op *op, *next;

	list_for_each_entry_safe(op, next, &ep->ops, link)
		kfd_op_end(ep, op);
}
