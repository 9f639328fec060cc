// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Unexpected messages: messages that arrive before a receive is posted. The
 * endpoint keeps them in order until a receive matches them. The command
 * "arrive" creates messages. Profiles of the endpoint show the queue.
 */
#include <linux/slab.h>

#include "mock.h"

static void kfm_unexp_entry(const struct kfm_op *msg, struct kfi_cq_err_entry *entry)
{
	*entry = (struct kfi_cq_err_entry) {
		.flags = msg->comp.flags,
		.len = msg->comp.len,
		.data = msg->comp.data,
	};
}

/* Reports a change of the queue to the profiles. */
static void kfm_unexp_event(struct kfm_ep *ep, u32 id, const struct kfm_op *msg)
{
	struct kfi_cq_err_entry entry;

	lockdep_assert_held(&ep->lock);
	kfm_unexp_entry(msg, &entry);
	kfi_profile_event(&ep->base, id, &entry, sizeof(entry));
}

/**
 * kfm_unexp_match() - complete a receive with a message
 * @ep: the endpoint
 * @recv: the receive, off its list; freed
 * @msg: the message, off its list; freed
 *
 * Context: Any. The caller does not hold @ep->lock.
 */
void kfm_unexp_match(struct kfm_ep *ep, struct kfm_op *recv, struct kfm_op *msg)
{
	struct kfi_completion *comp = &recv->comp;

	if (msg->comp.len > comp->len) {
		comp->err = KFI_ETRUNC;
		comp->olen = msg->comp.len - comp->len;
	} else {
		comp->len = msg->comp.len;
	}
	comp->flags |= msg->comp.flags;
	comp->data = msg->comp.data;
	/* A reader of the entry may close the endpoint before it is counted. */
	refcount_inc(&ep->users.count);
	kfi_ep_complete(&ep->base, comp, recv->want_entry);
	kfm_ep_put(ep);
	kfree(recv);
	kfree(msg);
}

/**
 * kfm_unexp_take() - remove the oldest unexpected message
 * @ep: the endpoint
 *
 * Context: Any. The caller holds @ep->lock.
 * Return: the message, which the caller then owns, or NULL.
 */
struct kfm_op *kfm_unexp_take(struct kfm_ep *ep)
{
	struct kfm_op *msg;

	lockdep_assert_held(&ep->lock);
	msg = list_first_entry_or_null(&ep->unexp, struct kfm_op, link);
	if (!msg)
		return NULL;
	list_del(&msg->link);
	ep->nunexp--;
	kfm_unexp_event(ep, KFI_EVENT_UNEXP_MSG_MATCHED, msg);
	return msg;
}

/**
 * kfm_unexp_arrive() - match a message to the oldest receive, or queue it
 * @ep: the endpoint
 * @msg: the message; belongs to the endpoint on return
 *
 * Context: Any. The caller does not hold @ep->lock.
 */
void kfm_unexp_arrive(struct kfm_ep *ep, struct kfm_op *msg)
{
	struct kfm_op *recv;
	unsigned long irq;

	spin_lock_irqsave(&ep->lock, irq);
	recv = list_first_entry_or_null(&ep->posted[KFM_RECV], struct kfm_op, link);
	if (recv) {
		list_del(&recv->link);
		ep->pending[KFM_RECV]--;
	} else {
		list_add_tail(&msg->link, &ep->unexp);
		ep->nunexp++;
		kfm_unexp_event(ep, KFI_EVENT_UNEXP_MSG_RECVD, msg);
	}
	spin_unlock_irqrestore(&ep->lock, irq);
	if (recv)
		kfm_unexp_match(ep, recv, msg);
}

static size_t kfm_unexp_read_queue(struct kfm_ep *ep, struct kfi_cq_err_entry *to,
				   size_t size)
{
	const size_t room = size / sizeof(*to);
	struct kfm_op *msg;
	size_t n = 0;

	lockdep_assert_held(&ep->lock);
	list_for_each_entry(msg, &ep->unexp, link) {
		if (n == room)
			break;
		kfm_unexp_entry(msg, &to[n++]);
	}
	return ep->nunexp * sizeof(*to);
}

static size_t kfm_profile_read(struct kfi_ep_base *base, u32 id, void *buf,
			       size_t size)
{
	struct kfm_ep *ep = container_of(base, struct kfm_ep, base);
	u64 count = ep->nunexp;

	lockdep_assert_held(&ep->lock);
	if (id == KFI_VAR_UNEXP_MSG_QUEUE)
		return kfm_unexp_read_queue(ep, buf, size);
	memcpy(buf, &count, min(size, sizeof(count)));
	return sizeof(count);
}

const struct kfi_profile_ops kfm_profile_ops = {
	.vars = kfi_unexp_vars,
	.nvars = ARRAY_SIZE(kfi_unexp_vars),
	.events = kfi_unexp_events,
	.nevents = ARRAY_SIZE(kfi_unexp_events),
	.read = kfm_profile_read,
};
