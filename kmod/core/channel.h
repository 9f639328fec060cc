/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Completion channels: shared by channel.c (a channel, and getting events from
 * it) and notify.c (a CQ's side of its channel).
 */
#ifndef _KFABRIC_CHANNEL_H_
#define _KFABRIC_CHANNEL_H_

#include <linux/kref.h>

#include <kfi_channel.h>

#include "core.h"

/**
 * struct kfi_channel - a completion channel
 * @channel: the public object
 * @fabric: parent; a reference is held while the channel is open
 * @queue: its waiters and descriptors. The bound CQs are its members as far as
 *	   @queue.living and @queue.lost go; @queue.nready counts @events.
 * @ref: one for the open, and one for each call that may outlast it
 * @gone: it was closed; written once, read without a lock
 * @lock: protects @events, @held and the fields of struct kfi_notify that name
 *	  it; inside source->lock
 * @events: events that have not been got, oldest first; @lock
 * @held: the first event while a reader tries to hand it out; @lock
 * @listed: on the list of all objects; kfi_listed_lock
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
	struct kfi_listed listed;
	struct rcu_head rcu;
};

/**
 * struct kfi_cq_event - one event, from the request until it is got
 * @link: on the channel's list; empty while it is only requested; channel->lock
 * @mine: on its CQ's list; channel->lock
 * @notify: the CQ's side; constant
 */
struct kfi_cq_event {
	struct list_head link;
	struct list_head mine;
	struct kfi_notify *notify;
};

/* The requested kind of event; the greater value is the stronger request. */
enum kfi_request {
	KFI_REQUEST_NONE,
	KFI_REQUEST_SOLICITED,
	KFI_REQUEST_NEXT,
};

/**
 * struct kfi_notify - a CQ's side of its channel
 * @src: the CQ; constant
 * @channel: the channel; a reference is held; constant
 * @request: the completion that makes the next event; source->lock
 * @next: the event that is prepared for @request, or NULL; source->lock
 * @first: the event that needs no allocation; others exist only while it is in
 *	   use
 * @unread: events that have not been got; channel->lock
 * @count: their number; channel->lock
 * @got: events that were got and not acknowledged; channel->lock
 * @closing: the CQ's close has begun; written under source->lock and
 *	     channel->lock
 * @discarded: no event needs an acknowledgment any more; channel->lock
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
