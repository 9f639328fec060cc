// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Poll sets. kfi_poll() moves a counter's mark when it reports the counter. If the
 * report then cannot be copied out, the change must not be lost, so the counter stays
 * pending and the next call reports it first. A CQ or EQ needs no such care: it is
 * reported again for as long as it is ready.
 */
#include <linux/slab.h>

#include "kfd.h"

/**
 * kfd_poll_open() - KFAB_IOC_POLL_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_poll_open.
 */
long kfd_poll_open(struct kfd_call *call)
{
	struct kfab_poll_open *arg = call->arg;
	struct kfi_poll_attr attr = {};
	struct kfd_obj *domain, *obj;
	struct kfid_poll *poll;
	int ret;

	domain = kfd_pin(call, arg->domain, KFD_CLASS(KFI_CLASS_DOMAIN));
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	obj = kfd_open_begin(call, KFI_CLASS_POLL, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfi_poll_open(kfd_domain_of(domain), &attr, &poll);
	if (!ret)
		kfd_open_done(obj, &poll->fid, &arg->out_handle, &arg->out_id);
	return ret;
}

static struct kfd_poll *kfd_pin_poll(struct kfd_call *call, u32 handle)
{
	struct kfd_obj *obj = kfd_pin(call, handle, KFD_CLASS(KFI_CLASS_POLL));

	return IS_ERR(obj) ? ERR_CAST(obj) :
			     container_of(obj, struct kfd_poll, obj);
}

static bool kfd_contains(struct kfd_obj **objs, unsigned int n,
			 const struct kfd_obj *obj)
{
	while (n)
		if (objs[--n] == obj)
			return true;
	return false;
}

/* Pending counters first, then what is ready. Return: how many, or an errno. */
static int kfd_poll_collect(struct kfd_poll *poll, struct kfd_obj **objs,
			    unsigned int count)
{
	const unsigned int pending = min(poll->npending, count);
	unsigned int i, n = pending;
	int more;

	lockdep_assert_held(&poll->obj.readers);
	memcpy(objs, poll->pending, pending * sizeof(*objs));
	if (n == count)
		return n;
	more = kfi_poll(kfd_poll_of(&poll->obj), (void **)&objs[n], count - n);
	if (more < 0)
		return n ? n : more;
	/* A pending counter that has changed again is reported once. */
	for (i = pending; i < pending + more; i++)
		if (!kfd_contains(objs, pending, objs[i]))
			objs[n++] = objs[i];
	return n;
}

static int kfd_poll_put(const struct kfab_poll *arg, struct kfd_obj **objs,
			unsigned int n)
{
	struct kfab_poll_entry __user *to = u64_to_user_ptr(arg->entries);
	struct kfab_poll_entry entry = {};
	unsigned int i;

	for (i = 0; i < n; i++) {
		entry.context = objs[i]->context;
		entry.handle = objs[i]->id;
		if (copy_to_user(&to[i], &entry, sizeof(entry)))
			return -EFAULT;
	}
	return 0;
}

/*
 * Make the counters among @objs pending. If any were pending before, they are the
 * first of @objs. Takes the array over.
 */
static void kfd_poll_keep_pending(struct kfd_poll *poll, struct kfd_obj **objs,
				  unsigned int n)
{
	unsigned int i, kept = 0;

	lockdep_assert_held(&poll->obj.readers);
	/* With room for pending counters only, kfi_poll() was not called. */
	if (poll->npending >= n) {
		kfree(objs);
		return;
	}
	for (i = 0; i < n; i++)
		if (objs[i]->fclass == KFI_CLASS_CNTR)
			objs[kept++] = objs[i];
	kfree(poll->pending);
	poll->pending = objs;
	poll->npending = kept;
}

/* The first @n reports were copied out. */
static void kfd_poll_drop_pending(struct kfd_poll *poll, unsigned int n)
{
	lockdep_assert_held(&poll->obj.readers);
	n = min(n, poll->npending);
	poll->npending -= n;
	memmove(poll->pending, poll->pending + n,
		poll->npending * sizeof(*poll->pending));
}

/* The lock also keeps every member in the set until its report is copied out. */
static long kfd_poll_locked(struct kfd_poll *poll, const struct kfab_poll *arg)
{
	struct kfd_obj **objs;
	int n, ret;

	lockdep_assert_held(&poll->obj.readers);
	objs = kmalloc_array(arg->count, sizeof(*objs), GFP_KERNEL_ACCOUNT);
	if (!objs)
		return -ENOMEM;
	n = kfd_poll_collect(poll, objs, arg->count);
	if (n > 0) {
		ret = kfd_poll_put(arg, objs, n);
		if (ret) {
			kfd_poll_keep_pending(poll, objs, n);
			return ret;
		}
		kfd_poll_drop_pending(poll, n);
	}
	kfree(objs);
	return n;
}

/**
 * kfd_poll() - KFAB_IOC_POLL
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers.
 * Return: the number of entries, or a negative errno as listed at struct kfab_poll.
 */
long kfd_poll(struct kfd_call *call)
{
	const struct kfab_poll *arg = call->arg;
	struct kfd_poll *poll = kfd_pin_poll(call, arg->poll);
	long ret;

	if (IS_ERR(poll))
		return PTR_ERR(poll);
	if (!arg->count || arg->count > KFAB_POLL_MAX || !arg->entries)
		return -EINVAL;
	if (kfd_read_lock(&poll->obj.readers))
		return -EINTR;
	ret = kfd_poll_locked(poll, arg);
	mutex_unlock(&poll->obj.readers);
	return ret;
}

static int kfd_poll_join(struct kfd_poll *poll, struct kfd_obj *member, u64 flags)
{
	int ret;

	lockdep_assert_held(&poll->obj.readers);
	ret = xa_reserve(&poll->members, member->id, GFP_KERNEL_ACCOUNT);
	if (ret)
		return ret;
	ret = kfi_poll_add(kfd_poll_of(&poll->obj), member->fid, flags);
	if (ret) {
		/* Has no effect on an entry that is in use. */
		xa_release(&poll->members, member->id);
		return ret;
	}
	WARN_ON(xa_err(xa_store(&poll->members, member->id, member, GFP_NOWAIT)));
	return 0;
}

static int kfd_poll_leave(struct kfd_poll *poll, struct kfd_obj *member, u64 flags)
{
	unsigned int i, kept = 0;
	int ret;

	lockdep_assert_held(&poll->obj.readers);
	ret = kfi_poll_del(kfd_poll_of(&poll->obj), member->fid, flags);
	if (ret)
		return ret;
	xa_erase(&poll->members, member->id);
	for (i = 0; i < poll->npending; i++)
		if (poll->pending[i] != member)
			poll->pending[kept++] = poll->pending[i];
	poll->npending = kept;
	return 0;
}

static long kfd_poll_member(struct kfd_call *call,
			    int (*change)(struct kfd_poll *poll,
					  struct kfd_obj *member, u64 flags))
{
	const struct kfab_poll_member *arg = call->arg;
	struct kfd_poll *poll = kfd_pin_poll(call, arg->poll);
	struct kfd_obj *member;
	int ret;

	if (IS_ERR(poll))
		return PTR_ERR(poll);
	member = kfd_pin(call, arg->handle, KFD_SOURCES);
	if (IS_ERR(member))
		return PTR_ERR(member);
	if (mutex_lock_interruptible(&poll->obj.readers))
		return -EINTR;
	ret = change(poll, member, arg->poll_flags);
	mutex_unlock(&poll->obj.readers);
	return ret;
}

/**
 * kfd_poll_add() - KFAB_IOC_POLL_ADD
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers of the set.
 * Return: 0, or a negative errno as listed at struct kfab_poll_member.
 */
long kfd_poll_add(struct kfd_call *call)
{
	return kfd_poll_member(call, kfd_poll_join);
}

/**
 * kfd_poll_del() - KFAB_IOC_POLL_DEL
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers of the set.
 * Return: 0, or a negative errno as listed at struct kfab_poll_member.
 */
long kfd_poll_del(struct kfd_call *call)
{
	return kfd_poll_member(call, kfd_poll_leave);
}

/**
 * kfd_poll_drain() - remove every member of a set whose client is gone
 * @poll: the set
 *
 * Context: Process, may sleep. Takes obj->readers, uninterruptibly: no call is left
 * that could hold it.
 */
void kfd_poll_drain(struct kfd_poll *poll)
{
	struct kfd_obj *member;
	unsigned long id;

	mutex_lock(&poll->obj.readers);
	xa_for_each(&poll->members, id, member)
		kfd_poll_leave(poll, member, 0);
	mutex_unlock(&poll->obj.readers);
}
