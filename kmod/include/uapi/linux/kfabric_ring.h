/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * /dev/kfabric: completions that are read without a call. Included by kfabric.h.
 */
#ifndef _UAPI_LINUX_KFABRIC_RING_H
#define _UAPI_LINUX_KFABRIC_RING_H

/* Most entries of a completion queue with a ring. */
#define KFAB_RING_MAX		4096

/**
 * struct kfab_ring - a ring in a buffer that is mapped
 * @tail: entries that were stored so far; the kernel writes it, after the entry
 * @mask: entries of the ring less one: entry n is at n & @mask; constant
 * @overrun: not 0: completions came when the queue was full, and @tail does not change
 *	     any more; written after it
 * @__reserved1: the kernel may write it
 * @head: entries that were read so far; the program writes it, after it has read them
 * @__reserved2: the kernel never reads it
 * @entries: the entries
 *
 * The kernel never reads what it has written here, and believes @head only between its
 * own count and @tail, and up to the first error. It looks at @head at the begin of each
 * ioctl() on the same open file, but not at each part of a batch, and not in poll(2):
 * KFAB_IOC_TRYWAIT comes first, as always. Until then an entry counts as unread: for waits,
 * and as one that fills the queue. So a program that polls @tail makes a call, such as
 * KFAB_IOC_CQ_READ of 0 entries, when it finds nothing: peers may be held back until then.
 */
struct kfab_ring {
	__u32 tail;
	__u32 mask;
	__u32 overrun;
	__u32 __reserved1[13];
	__u32 head;
	__u32 __reserved2[15];
	struct kfab_cq_entry entries[];
};

/**
 * struct kfab_cq_ring - show the entries of a completion queue in a ring
 * @size: sizeof(struct kfab_cq_ring)
 * @flags: must be 0
 * @cq: the completion queue, which has had no entry yet
 * @out_handle: a buffer that holds a struct kfab_ring
 * @out_offset: offset for mmap() of the buffer (MAP_SHARED)
 * @out_entries: entries of the ring, a power of two; as many as the queue holds
 * @__reserved: must be 0
 *
 * Show each entry in a ring from now on, in the order in which KFAB_IOC_CQ_READ would
 * return them, and until the queue is closed. The ring is a buffer as KFAB_IOC_BUF_ALLOC
 * allocates it; its handle may be closed as soon as it is mapped. An entry that is an
 * error has @err set, and only KFAB_IOC_CQ_READERR removes it. Other reads are refused
 * from now on, but for KFAB_IOC_CQ_READ of 0 entries, which makes progress.
 *
 * Errors:
 *
 *  - EBUSY: the queue has a ring, or has had an entry
 *  - EINVAL: the queue holds more than KFAB_RING_MAX entries; a handle of another class
 *  - EINTR: a signal came while another thread read the queue
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles
 *  - ENOBUFS: the client, or its user, has as much buffer memory as it may have
 */
struct kfab_cq_ring {
	__u32 size;
	__u32 flags;
	__u32 cq;
	__u32 out_handle;
	__u64 out_offset;
	__u32 out_entries;
	__u32 __reserved;
};

#define KFAB_IOC_CQ_RING _IOWR(KFAB_IOC_MAGIC, 0x81, struct kfab_cq_ring)

#endif /* _UAPI_LINUX_KFABRIC_RING_H */
