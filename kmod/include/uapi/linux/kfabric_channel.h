/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * /dev/kfabric: completion channels. Included by kfabric.h.
 *
 * KFAB_IOC_CONTROL with KFAB_GETWAIT gives a descriptor of a channel, which is
 * readable exactly while it has an event. KFAB_IOC_CLOSE of a channel with CQs is
 * EBUSY; threads in KFAB_IOC_GET_CQ_EVENT get EBADF when it goes. KFAB_IOC_CLOSE of
 * a CQ that is bound to a channel drops its unread events and waits until the events
 * that were got are acknowledged; with KFAB_CLOSE_DISCARD_EVENTS it does not wait. If a
 * signal ends the wait, the CQ is still being closed: it accepts
 * KFAB_IOC_ACK_CQ_EVENTS and KFAB_IOC_CLOSE, and every other call fails with EBADF.
 */
#ifndef _UAPI_LINUX_KFABRIC_CHANNEL_H
#define _UAPI_LINUX_KFABRIC_CHANNEL_H

/**
 * struct kfab_channel_open - open a completion channel of a fabric
 * @size: sizeof(struct kfab_channel_open)
 * @flags: must be 0
 * @fabric: the fabric
 * @__reserved: must be 0
 * @context: the caller's
 * @out_handle: the channel
 * @out_id: its tracing id
 */
struct kfab_channel_open {
	__u32 size;
	__u32 flags;
	__u32 fabric;
	__u32 __reserved;
	__u64 context;
	__u32 out_handle;
	__u32 out_id;
};

#define KFAB_IOC_CHANNEL_OPEN _IOWR(KFAB_IOC_MAGIC, 0x70, struct kfab_channel_open)

/**
 * struct kfab_channel_bind - have the events of a CQ go to a channel
 * @size: sizeof(struct kfab_channel_bind)
 * @flags: must be 0
 * @cq: the CQ; once, and for good
 * @channel: of the same fabric
 *
 * EINVAL: it has a channel, or this one is another fabric's.
 */
struct kfab_channel_bind {
	__u32 size;
	__u32 flags;
	__u32 cq;
	__u32 channel;
};

#define KFAB_IOC_CHANNEL_BIND _IOWR(KFAB_IOC_MAGIC, 0x71, struct kfab_channel_bind)

/* Flags of KFAB_IOC_REQ_NOTIFY. The first two together mean the second. */
#define KFAB_NOTIFY_SOLICITED	0x1	/* the next solicited or failed completion */
#define KFAB_NOTIFY_NEXT	0x2	/* the next completion */
#define KFAB_NOTIFY_MISSED	0x4	/* tell what was there before */

/**
 * struct kfab_req_notify - ask for one event
 * @size: sizeof(struct kfab_req_notify)
 * @flags: KFAB_NOTIFY_*
 * @cq: a CQ that is bound to a channel
 * @__reserved: must be 0
 *
 * In effect when it returns. A stronger request replaces a weaker one that is not
 * yet answered, never the reverse. ENOBUFS: as many events of this CQ as there may
 * be have not been got. Return: 0; 1 with KFAB_NOTIFY_MISSED: something can be read
 * that came before and makes no event.
 */
struct kfab_req_notify {
	__u32 size;
	__u32 flags;
	__u32 cq;
	__u32 __reserved;
};

#define KFAB_IOC_REQ_NOTIFY _IOWR(KFAB_IOC_MAGIC, 0x72, struct kfab_req_notify)

/* Flags of KFAB_IOC_GET_CQ_EVENT: what is done at once, to save the calls. */
#define KFAB_EVENT_ACK		0x1	/* ack it */
#define KFAB_EVENT_NOTIFY	0x2	/* ask its CQ for the next: KFAB_NOTIFY_NEXT */

/**
 * struct kfab_cq_event - wait for the next event of a channel
 * @size: sizeof(struct kfab_cq_event)
 * @flags: 0 or KFAB_EVENT_*
 * @channel: the channel
 * @out_cq: the CQ that the event is about
 * @deadline: when to give up
 * @out_context: of that CQ
 *
 * The event wants an ack, unless @flags has KFAB_EVENT_ACK. EAGAIN: there is none,
 * and the deadline has passed; EBADF: the channel was closed; ENODEV: the devices of
 * all its CQs are gone, and no event is left.
 */
struct kfab_cq_event {
	__u32 size;
	__u32 flags;
	__u32 channel;
	__u32 out_cq;
	__s64 deadline;
	__u64 out_context;
};

#define KFAB_IOC_GET_CQ_EVENT _IOWR(KFAB_IOC_MAGIC, 0x73, struct kfab_cq_event)

/**
 * struct kfab_ack_cq_events - give back events that were got
 * @size: sizeof(struct kfab_ack_cq_events)
 * @flags: must be 0
 * @cq: the CQ that they are about; also while it is being closed
 * @count: how many
 *
 * EINVAL: more than were got; nothing was acked.
 */
struct kfab_ack_cq_events {
	__u32 size;
	__u32 flags;
	__u32 cq;
	__u32 count;
};

#define KFAB_IOC_ACK_CQ_EVENTS _IOWR(KFAB_IOC_MAGIC, 0x74, struct kfab_ack_cq_events)

#endif /* _UAPI_LINUX_KFABRIC_CHANNEL_H */
