/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * /dev/kfabric: several calls in one. Included by kfabric.h.
 */
#ifndef _UAPI_LINUX_KFABRIC_BATCH_H
#define _UAPI_LINUX_KFABRIC_BATCH_H

/* Most posts, and most reads, of one batch. */
#define KFAB_BATCH_MAX		1024

/**
 * struct kfab_batch_call - one call of a batch
 * @cmd: its number. Posts: KFAB_IOC_RECV, SEND, TRECV, TSEND, READ, WRITE, ATOMIC,
 *	 FETCH_ATOMIC, COMPARE_ATOMIC. Reads: KFAB_IOC_CQ_READ, CQ_READERR, EQ_READ,
 *	 EQ_READERR, CNTR_READ, CNTR_READERR
 * @out_result: of a read: its result, or the errno negated; of a post: not written
 * @arg: address of its structure
 *
 * Part of KFAB_IOC_BATCH, no ioctl by itself.
 */
struct kfab_batch_call {
	__u32 cmd;
	__s32 out_result;
	__aligned_u64 arg;
};

/**
 * struct kfab_batch - post operations, wait, and read, in one call
 * @size: sizeof(struct kfab_batch)
 * @flags: must be 0
 * @posts: address of an array of struct kfab_batch_call
 * @reads: address of an array of struct kfab_batch_call
 * @post_count: elements of @posts, at most KFAB_BATCH_MAX
 * @posted: in: posts at the front that were made before, and are skipped; out: posts
 *	    at the front that are made
 * @read_count: elements of @reads, at most KFAB_BATCH_MAX
 * @wait: the wait set, or 0 not to wait
 * @deadline: the deadline; 0 without @wait
 * @out_post_err: errno of the first post that failed, or 0
 * @out_wait_err: errno of the wait, or 0
 *
 * Post operations, wait as KFAB_IOC_WAIT, and read. Each post and each read is made as
 * by an ioctl of its own, in the order of the arrays. A post that fails ends the posts:
 * @posted is its place, and the call does not wait. The reads are made in any case. A
 * signal ends the call, or ends the reads after the first one; if the wait is over, also
 * while the first read waits for another reader. Whether the call succeeds or fails,
 * @posted counts all posts that were made, so that it can be repeated with the same
 * structure, and then posts the rest.
 *
 * Return: the number of reads that were made.
 *
 * Errors:
 *
 *  - EFAULT: as for every ioctl; or the first element of @reads cannot be read or
 *    written: @posted is written all the same
 *  - EINVAL: more than KFAB_BATCH_MAX posts or reads; @posted is above @post_count;
 *    @deadline is negative, or is not 0 without @wait; a handle of another class
 *  - EINTR: a handler without SA_RESTART ran before the wait was over, or, without
 *    @wait, before the first read: nothing was read, and @posted is written all the same
 */
struct kfab_batch {
	__u32 size;
	__u32 flags;
	__aligned_u64 posts;
	__aligned_u64 reads;
	__u32 post_count;
	__u32 posted;
	__u32 read_count;
	__u32 wait;
	__s64 deadline;
	__s32 out_post_err;
	__s32 out_wait_err;
};

#define KFAB_IOC_BATCH _IOWR(KFAB_IOC_MAGIC, 0x80, struct kfab_batch)

#endif /* _UAPI_LINUX_KFABRIC_BATCH_H */
