// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Wait sets: one queue shared by many CQs, EQs and counters. A set knows how many
 * members are ready, never which ones.
 */
#include <linux/slab.h>

#include <kfi_enosys.h>

#include "core.h"

/**
 * struct kfi_wait - a wait set
 * @wait: the public object
 * @queue: where its members' waiters sleep
 * @fabric: parent; a reference is held; constant
 * @wait_obj: as requested at the open; constant
 * @listed: on the list of all objects; kfi_listed_lock
 * @rcu: frees it, see kfi_publish()
 */
struct kfi_wait {
	struct kfid_wait wait;
	struct kfi_waitq queue;
	struct kfi_fabric_base *fabric;
	enum kfi_wait_obj wait_obj;
	struct kfi_listed listed;
	struct rcu_head rcu;
};

static struct kfi_wait *to_wait(struct kfid_wait *waitset)
{
	return container_of(waitset, struct kfi_wait, wait);
}

/**
 * kfi_wait_queue() - the queue of a wait set
 * @waitset: the wait set
 *
 * Context: any; takes no lock.
 * Return: valid as long as the wait set.
 */
struct kfi_waitq *kfi_wait_queue(struct kfid_wait *waitset)
{
	return &to_wait(waitset)->queue;
}

/**
 * kfi_wait_on_fabric() - does a wait set belong to a fabric?
 * @waitset: the wait set
 * @fabric: the fabric
 *
 * Context: any; takes no lock.
 * Return: true if it does.
 */
bool kfi_wait_on_fabric(struct kfid_wait *waitset,
			const struct kfi_fabric_base *fabric)
{
	return to_wait(waitset)->fabric == fabric;
}

/**
 * kfi_wait_until() - kfi_wait() with a deadline
 * @waitset: the wait set
 * @deadline: absolute, monotonic
 *
 * Consumes nothing.
 *
 * Context: process, may sleep; takes the queue's lock. With %KFI_DEADLINE_NOW any,
 * also in the condition of a wait_event(): one look.
 * Return: 0 if a member is ready, or was signalled during the call; -ETIMEDOUT;
 * -EINTR; -ENODEV if the devices of all members are gone and nothing is left to
 * read; -EINVAL if the wait set is being closed.
 */
int kfi_wait_until(struct kfid_wait *waitset, ktime_t deadline)
{
	return kfi_waitq_wait(&to_wait(waitset)->queue, NULL, deadline);
}
EXPORT_SYMBOL_GPL(kfi_wait_until);

static int kfi_wait_op_wait(struct kfid_wait *waitset, int timeout)
{
	return kfi_wait_until(waitset, kfi_deadline(timeout));
}

static int kfi_wait_close(struct kfid *fid)
{
	struct kfi_wait *set = container_of(fid, struct kfi_wait, wait.kfid);
	int ret;

	ret = kfi_waitq_kill(&set->queue);
	if (ret)
		return ret;
	kfi_listed_del(&set->listed);
	kfi_trace(object_free, set->queue.id, KFI_CLASS_WAIT, set->fabric->id);
	kfi_waitq_fini(&set->queue);
	kfi_fid_put(&set->fabric->fabric.fid);
	kfree_rcu(set, rcu);
	return 0;
}

static int kfi_wait_set_flags(struct kfi_wait *set, u64 flags)
{
	if (flags & ~KFI_WAIT_EXCLUSIVE)
		return -KFI_EINVAL;
	return kfi_turns_set(&set->queue, flags & KFI_WAIT_EXCLUSIVE);
}

static int kfi_wait_control(struct kfid *fid, int command, void *arg)
{
	struct kfi_wait *set = container_of(fid, struct kfi_wait, wait.kfid);

	if (!arg)
		return -KFI_EINVAL;
	switch (command) {
	case KFI_GETWAIT:
		return kfi_waitq_getwait(&set->queue, set->wait_obj, arg);
	case KFI_GETWAITOBJ:
		*(enum kfi_wait_obj *)arg = set->wait_obj;
		return 0;
	case KFI_SETFIDFLAG:
		return kfi_wait_set_flags(set, *(u64 *)arg);
	case KFI_GETFIDFLAG:
		*(u64 *)arg = READ_ONCE(set->queue.turns) ? KFI_WAIT_EXCLUSIVE : 0;
		return 0;
	default:
		return -KFI_ENOSYS;
	}
}

static struct kfi_ops kfi_wait_fid_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops),
	.close = kfi_wait_close,
	.bind = kfi_no_bind,
	.control = kfi_wait_control,
	.ops_open = kfi_no_ops_open,
};

static struct kfi_ops_wait kfi_wait_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops_wait),
	.wait = kfi_wait_op_wait,
};

static int kfi_wait_check(const struct kfi_wait_attr *attr)
{
	if (attr->flags)
		return -KFI_EINVAL;

	switch (attr->wait_obj) {
	case KFI_WAIT_UNSPEC:
	case KFI_WAIT_QUEUE:
	case KFI_WAIT_MUTEX_COND:
		return 0;
	case KFI_WAIT_FD:
	case KFI_WAIT_POLLFD:
	case KFI_WAIT_YIELD:
		return -KFI_ENOSYS;
	default:
		return -KFI_EINVAL;
	}
}

/**
 * kfi_core_wait_open() - kfi_ops_fabric.wait_open of every provider
 * @fabric: parent
 * @attr: NULL: KFI_WAIT_UNSPEC
 * @waitset: the new wait set
 *
 * Context: process, may sleep; takes kfi_listed_lock.
 * Return: 0; -EINVAL for wrong attributes, or if the fabric is being closed;
 * -ENOSYS for a wait object that is not offered; -ENOMEM.
 */
int kfi_core_wait_open(struct kfid_fabric *fabric, struct kfi_wait_attr *attr,
		       struct kfid_wait **waitset)
{
	struct kfi_wait *set;
	int ret;

	ret = attr ? kfi_wait_check(attr) : 0;
	if (ret)
		return ret;
	set = kzalloc(sizeof(*set), GFP_KERNEL_ACCOUNT);
	if (!set)
		return -KFI_ENOMEM;
	if (!kfi_fid_get(&fabric->fid)) {
		kfree(set);
		return -KFI_EINVAL;
	}
	set->fabric = kfi_fabric_of(fabric);
	set->wait_obj = attr ? attr->wait_obj : KFI_WAIT_UNSPEC;
	kfi_fid_init(&set->wait.kfid, KFI_CLASS_WAIT, NULL, &kfi_wait_fid_ops);
	set->wait.ops = &kfi_wait_ops;
	kfi_waitq_init(&set->queue, &set->wait.kfid, kfi_new_id());
	kfi_trace(object_new, set->queue.id, KFI_CLASS_WAIT, set->fabric->id);
	kfi_listed_add(&set->listed, &set->wait.kfid);
	*waitset = &set->wait;
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_core_wait_open);
