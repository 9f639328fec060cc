/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Between channel.c (a channel, and getting events from it) and notify.c (what a
 * CQ has for its channel).
 */
#ifndef _KFABRIC_CHANNEL_H_
#define _KFABRIC_CHANNEL_H_

#include <linux/kref.h>

#include <kfi_channel.h>

#include "core.h"

/**
 * struct kfi_channel - a completion channel
 * @channel: the public object
 * @fabric: parent; a reference is held while it is open
 * @queue: its sleepers and descriptors. Its members are the CQs, as far as living
 *	   and lost ones go; @queue.nready counts @events.
 * @ref: the open itself, and each call that may outlast it
 * @gone: it was closed
 * @lock: protects the rest, and what kfi_notify says; inside source->lock
 * @events: those not got, the oldest first
 * @held: the first one, while somebody tries to hand it out
 * @rcu: frees it
 */
struct kfi_channel {
	struct kfid_comp_channel channel;
	struct kfi_fabric_base *fabric;
	struct kfi_waitq queue;
	struct kref ref;
	bool gone;
	spinlock_t lock;	/* events */
	struct list_head events;
	struct kfi_cq_event *held;
	struct rcu_head rcu;
};

/**
 * struct kfi_cq_event - one event, from the request until it is got
 * @link: on the channel's list, unless it was only requested
 * @mine: on its CQ's
 * @notify: of the CQ
 */
struct kfi_cq_event {
	struct list_head link;
	struct list_head mine;
	struct kfi_notify *notify;
};

/* What was requested; the stronger one is the greater. */
enum kfi_request {
	KFI_REQUEST_NONE,
	KFI_REQUEST_SOLICITED,
	KFI_REQUEST_NEXT,
};

/**
 * struct kfi_notify - what a CQ has for its channel
 * @src: the CQ
 * @channel: pinned
 * @request: what the next event waits for; source->lock
 * @next: the event that it will be, if anything is requested; source->lock
 * @first: the event that needs no memory; others exist only while it is used
 * @unread: events that were not got; this and the rest: channel->lock
 * @count: their number
 * @got: events that were got and not acked
 * @closing: the CQ's close has begun
 * @discarded: none wants an ack any more
 * @rcu: frees it, see kfi_ack_cq_events()
 */
struct kfi_notify {
	struct kfi_source *src;
	struct kfi_channel *channel;
	enum kfi_request request;
	struct kfi_cq_event *next;
	struct kfi_cq_event first;
	struct list_head unread;
	unsigned int count;
	unsigned int got;
	bool closing;
	bool discarded;
	struct rcu_head rcu;
};

static inline struct kfi_channel *
kfi_channel_of(struct kfid_comp_channel *channel)
{
	return container_of(channel, struct kfi_channel, channel);
}

/* channel.c */
void kfi_channel_drop(struct kfi_channel *ch, struct kfi_cq_event *event);
void kfi_event_free(struct kfi_cq_event *event);

/* notify.c */
bool kfi_notify_drained(const struct kfi_notify *n);
void kfi_notify_wake_closer(struct kfi_notify *n);

#endif /* _KFABRIC_CHANNEL_H_ */
