/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * /dev/kfabric: completion channels. Included by kfabric.h.
 *
 * KFAB_IOC_CONTROL with KFAB_GETWAIT gives a descriptor of a channel, which is readable
 * exactly while the channel has an event. KFAB_IOC_CLOSE of a channel with CQs fails
 * with EBUSY; threads in KFAB_IOC_GET_CQ_EVENT get EBADF when the channel is closed.
 *
 * KFAB_IOC_CLOSE of a CQ that is bound to a channel drops its unread events and waits
 * until the events that were got are acknowledged; with KFAB_CLOSE_DISCARD_EVENTS it
 * does not wait. If a signal ends the wait, the CQ is still being closed: it accepts
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
 * @context: a number of the caller, returned with every report about the object
 * @out_handle: the channel
 * @out_id: its id in tracepoints, unique in the machine
 *
 * Open a completion channel of a fabric.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - EINVAL: @fabric is of another class
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
 * struct kfab_channel_bind - send the events of a CQ to a channel
 * @size: sizeof(struct kfab_channel_bind)
 * @flags: must be 0
 * @cq: the CQ, without a channel so far
 * @channel: the channel, of the same fabric
 *
 * Send the events of a CQ to a channel, for the rest of the CQ's life.
 *
 * Errors:
 *
 *  - EINVAL: the CQ has a channel already; the channel belongs to another fabric, or
 *    is being closed; a handle of another class
 *  - ENODEV: the device is gone
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
#define KFAB_NOTIFY_MISSED	0x4	/* report what was there before */

/**
 * struct kfab_req_notify - ask for one event
 * @size: sizeof(struct kfab_req_notify)
 * @flags: KFAB_NOTIFY_NEXT: the next completion makes the event;
 *	   KFAB_NOTIFY_SOLICITED: the next solicited or failed one does; both: as
 *	   KFAB_NOTIFY_NEXT. In addition KFAB_NOTIFY_MISSED
 * @cq: a CQ that is bound to a channel
 * @__reserved: must be 0
 *
 * Ask for one event. A request that is not yet answered is replaced by a stronger
 * one, never by a weaker one. Entries that are there already make no event: read
 * until the CQ is empty after the request. An overrun and the loss of the device
 * count as failed completions.
 *
 * Return: 0; 1 with KFAB_NOTIFY_MISSED: something can be read that came before and
 * makes no event (the request is in effect all the same).
 *
 * Errors:
 *
 *  - EINVAL: a CQ without a channel; neither KFAB_NOTIFY_SOLICITED nor
 *    KFAB_NOTIFY_NEXT; a handle of another class
 *  - ENOBUFS: 1024 events of this CQ have not been got
 *  - ENOMEM: no memory for the event; only while another event of the CQ has not been
 *    got
 */
struct kfab_req_notify {
	__u32 size;
	__u32 flags;
	__u32 cq;
	__u32 __reserved;
};

#define KFAB_IOC_REQ_NOTIFY _IOWR(KFAB_IOC_MAGIC, 0x72, struct kfab_req_notify)

/* Flags of KFAB_IOC_GET_CQ_EVENT: done in the same call. */
#define KFAB_EVENT_ACK		0x1	/* acknowledge the event */
#define KFAB_EVENT_NOTIFY	0x2	/* ask its CQ for the next one */

/**
 * struct kfab_cq_event - get the next event of a channel
 * @size: sizeof(struct kfab_cq_event)
 * @flags: KFAB_EVENT_ACK: acknowledge the event at once; KFAB_EVENT_NOTIFY: ask its CQ
 *	   for the next event, as REQ_NOTIFY with KFAB_NOTIFY_NEXT
 * @channel: the channel
 * @out_cq: the CQ that the event is about
 * @deadline: the deadline
 * @out_context: context of that CQ
 *
 * Get the oldest event of a channel, waiting for it. One event stands for any number
 * of entries, and sometimes for none. The event has to be acknowledged, unless @flags
 * has KFAB_EVENT_ACK.
 *
 * Errors:
 *
 *  - EINVAL: @deadline is negative, or a handle of another class
 *  - EBADF: no such channel, or the channel was closed during the call
 *  - EINTR: a handler without SA_RESTART ran
 *  - EAGAIN: no event, and the deadline has passed
 *  - ENODEV: the devices of all CQs of the channel are gone, and no event is left
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
 * struct kfab_ack_cq_events - acknowledge events that were got
 * @size: sizeof(struct kfab_ack_cq_events)
 * @flags: must be 0
 * @cq: the CQ that they are about; also while it is being closed
 * @count: number of events
 *
 * Acknowledge events that were got. Several may be acknowledged at once.
 *
 * Errors:
 *
 *  - EINVAL: more than were got: none was acknowledged; or a handle of another class
 *  - EBADF: no such CQ
 *  - EINTR: a signal, while a close of the CQ had just begun
 */
struct kfab_ack_cq_events {
	__u32 size;
	__u32 flags;
	__u32 cq;
	__u32 count;
};

#define KFAB_IOC_ACK_CQ_EVENTS _IOWR(KFAB_IOC_MAGIC, 0x74, struct kfab_ack_cq_events)

#endif /* _UAPI_LINUX_KFABRIC_CHANNEL_H */
