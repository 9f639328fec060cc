// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Batches: posts, a wait and reads in one call. Each post and each read goes through the
 * checks and the function of its own ioctl, with references of its own. Only the wait set
 * is used for as long as the batch lasts. A close of the set is refused meanwhile, so a
 * post or a read that waits for the close of another object keeps no close waiting.
 *
 * What was posted cannot be taken back, so the count of posts is in the caller's
 * structure before the call returns in any way. The kernel restarts an interrupted call
 * with the same structure, which then skips the posts that are counted.
 */
#include <linux/sched/signal.h>

#include "kfd.h"

/* Errors of a part are numbers for users in the answer. Return: the number, positive. */
static s32 kfd_batch_err(long ret)
{
	return ret < 0 ? kfi_errno_to_user(-ret) : 0;
}

static int kfd_batch_post(struct kfd_call *call, u64 posts, u32 i)
{
	struct kfab_batch_call __user *from = u64_to_user_ptr(posts);
	struct kfab_batch_call post;

	if (copy_from_user(&post, &from[i], sizeof(post)))
		return -EFAULT;
	return kfd_call_part(call->client, KFD_PART_POST, post.cmd, post.arg);
}

/* Return: 0, also if a post failed; -EINTR if the post at arg->posted was not begun. */
static int kfd_batch_posts(struct kfd_call *call)
{
	struct kfab_batch *arg = call->arg;
	int ret = 0;

	while (arg->posted < arg->post_count) {
		if (fatal_signal_pending(current))
			return -EINTR;
		ret = kfd_batch_post(call, arg->posts, arg->posted);
		if (ret)
			break;
		arg->posted++;
		cond_resched();
	}
	if (ret == -EINTR)
		return ret;
	arg->out_post_err = kfd_batch_err(ret);
	return 0;
}

/* Return: 0, also if the wait failed; -EINTR. */
static int kfd_batch_wait(struct kfab_batch *arg, struct kfd_obj *set)
{
	int ret;

	if (!set || arg->out_post_err)
		return 0;
	ret = kfi_wait_until(kfd_wait_of(set), arg->deadline);
	if (ret == -EINTR)
		return ret;
	arg->out_wait_err = kfd_batch_err(ret);
	return 0;
}

/*
 * The place of the result is written before the read is made: a result that cannot be
 * written must not cost what was read.
 */
static int kfd_batch_read(struct kfd_call *call, u64 reads, u32 i)
{
	struct kfab_batch_call __user *to = u64_to_user_ptr(reads);
	struct kfab_batch_call read;
	long ret;

	to += i;
	if (copy_from_user(&read, to, sizeof(read)) || put_user(0, &to->out_result))
		return -EFAULT;
	ret = kfd_call_part(call->client, KFD_PART_READ, read.cmd, read.arg);
	if (ret == -EINTR)
		return ret;
	if (ret < 0)
		ret = -kfd_batch_err(ret);
	return put_user(ret, &to->out_result);
}

/*
 * A signal ends the reads, but only after the first one: a program whose signals come
 * faster than a call begins would read nothing. If it comes while the first one waits
 * for another reader, a call that has waited ends, too: the kernel would repeat it from
 * its wait on, and the reader may have taken what had ended that. Return: the number of
 * reads that were made, or why there is none.
 */
static long kfd_batch_reads(struct kfd_call *call)
{
	const struct kfab_batch *arg = call->arg;
	const bool waited = arg->wait && !arg->out_post_err;
	int ret;
	u32 i;

	for (i = 0; i < arg->read_count; i++) {
		if (i && signal_pending(current))
			break;
		ret = kfd_batch_read(call, arg->reads, i);
		if (ret)
			return i || (waited && ret == -EINTR) ? i : (long)ret;
		cond_resched();
	}
	return i;
}

/*
 * A woken thread whose reads fail, or that a signal may be about to end, does not keep
 * its turn: a look at the set hands it on.
 */
static void kfd_batch_hand_on(struct kfd_call *call, struct kfd_obj *set, long ret)
{
	const struct kfab_batch *arg = call->arg;

	if (set && (ret < (long)arg->read_count || signal_pending(current)))
		kfi_wait_until(kfd_wait_of(set), KFI_DEADLINE_NOW);
}

/* Return: the wait set, used until the end of the call; NULL for none; or an ERR_PTR. */
static struct kfd_obj *kfd_batch_check(struct kfd_call *call)
{
	const struct kfab_batch *arg = call->arg;
	ktime_t deadline;

	if (arg->post_count > KFAB_BATCH_MAX || arg->posted > arg->post_count ||
	    arg->read_count > KFAB_BATCH_MAX ||
	    kfd_deadline(arg->deadline, &deadline))
		return ERR_PTR(-EINVAL);
	if (arg->wait)
		return kfd_pin(call, arg->wait, KFD_CLASS(KFI_CLASS_WAIT));
	return arg->deadline ? ERR_PTR(-EINVAL) : NULL;
}

/**
 * kfd_batch() - KFAB_IOC_BATCH
 * @call: the call in progress
 *
 * The answer is written twice. Before the first post: if it cannot be written, nothing
 * is posted. Before the first read: what is read later is reported with each read.
 *
 * Context: Process; sleeps without a lock of this module.
 * Return: the number of reads, or a negative errno as listed at struct kfab_batch.
 */
long kfd_batch(struct kfd_call *call)
{
	struct kfab_batch *arg = call->arg;
	struct kfd_obj *set = kfd_batch_check(call);
	long ret;

	if (IS_ERR(set))
		return PTR_ERR(set);
	arg->out_post_err = 0;
	arg->out_wait_err = 0;
	ret = kfd_answer(call) ?: kfd_batch_posts(call) ?: kfd_batch_wait(arg, set);
	/* If the count is not written, a restarted call would post again. */
	if (kfd_answer(call))
		ret = -EFAULT;
	if (!ret)
		ret = kfd_batch_reads(call);
	kfd_batch_hand_on(call, set, ret);
	return ret;
}
