// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Counters, wait sets and poll sets, and what the blocking calls share.
 */
#include <linux/slab.h>

#include "kfd.h"

/**
 * kfd_deadline() - check a deadline from the user
 * @deadline: nanoseconds of CLOCK_MONOTONIC, KFAB_DEADLINE_NOW or _NONE
 * @out: the same for kfabric
 *
 * Return: 0, or -EINVAL: there is no time before the clock's start.
 */
int kfd_deadline(s64 deadline, ktime_t *out)
{
	*out = deadline;
	return deadline < 0 ? -EINVAL : 0;
}

/**
 * kfd_err_data_put() - write the data of an error entry, cut to the room
 * @to: address of the room, or 0
 * @size: in: the room; out: bytes that there are
 * @data: what there is
 * @len: bytes of @data
 *
 * Return: 0 or -EFAULT.
 */
int kfd_err_data_put(u64 to, u32 *size, const void *data, size_t len)
{
	const size_t fits = to ? min_t(size_t, *size, len) : 0;

	if (!data)
		len = 0;
	else if (copy_to_user(u64_to_user_ptr(to), data, fits))
		return -EFAULT;
	*size = len;
	return 0;
}

static struct kfd_obj *kfd_pin_cntr(struct kfd_call *call)
{
	const struct kfab_cntr *arg = call->arg;

	return kfd_pin(call, arg->cntr, KFD_CLASS(KFI_CLASS_CNTR));
}

/* Look, answer, mark as read. */
static long kfd_cntr_look(struct kfd_call *call,
			  u64 (*peek)(struct kfid_cntr *cntr, u64 *change),
			  void (*mark)(struct kfid_cntr *cntr, u64 change))
{
	struct kfab_cntr *arg = call->arg;
	struct kfd_obj *obj = kfd_pin_cntr(call);
	u64 change;
	int ret;

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (mutex_lock_interruptible(&obj->readers))
		return -EINTR;
	arg->value = peek(kfd_cntr_of(obj), &change);
	ret = kfd_answer(call);
	if (!ret)
		mark(kfd_cntr_of(obj), change);
	mutex_unlock(&obj->readers);
	return ret;
}

/* KFAB_IOC_CNTR_READ */
long kfd_cntr_read(struct kfd_call *call)
{
	return kfd_cntr_look(call, kfi_cntr_peek, kfi_cntr_mark);
}

/* KFAB_IOC_CNTR_READERR */
long kfd_cntr_readerr(struct kfd_call *call)
{
	return kfd_cntr_look(call, kfi_cntr_peekerr, kfi_cntr_markerr);
}

static long kfd_cntr_change(struct kfd_call *call,
			    int (*change)(struct kfid_cntr *cntr, uint64_t value))
{
	const struct kfab_cntr *arg = call->arg;
	struct kfd_obj *obj = kfd_pin_cntr(call);

	return IS_ERR(obj) ? PTR_ERR(obj) : change(kfd_cntr_of(obj), arg->value);
}

/* KFAB_IOC_CNTR_ADD */
long kfd_cntr_add(struct kfd_call *call)
{
	return kfd_cntr_change(call, kfi_cntr_add);
}

/* KFAB_IOC_CNTR_SET */
long kfd_cntr_set(struct kfd_call *call)
{
	return kfd_cntr_change(call, kfi_cntr_set);
}

/* KFAB_IOC_CNTR_ADDERR */
long kfd_cntr_adderr(struct kfd_call *call)
{
	return kfd_cntr_change(call, kfi_cntr_adderr);
}

/* KFAB_IOC_CNTR_SETERR */
long kfd_cntr_seterr(struct kfd_call *call)
{
	return kfd_cntr_change(call, kfi_cntr_seterr);
}

/* KFAB_IOC_CNTR_WAIT */
long kfd_cntr_wait(struct kfd_call *call)
{
	const struct kfab_cntr_wait *arg = call->arg;
	struct kfd_obj *obj;
	ktime_t deadline;
	int ret;

	obj = kfd_pin(call, arg->cntr, KFD_CLASS(KFI_CLASS_CNTR));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfd_deadline(arg->deadline, &deadline);
	return ret ?: kfi_cntr_wait_until(kfd_cntr_of(obj), arg->threshold,
					  deadline);
}

/* KFAB_IOC_WAIT */
long kfd_wait(struct kfd_call *call)
{
	const struct kfab_wait *arg = call->arg;
	struct kfd_obj *obj;
	ktime_t deadline;
	int ret;

	obj = kfd_pin(call, arg->wait, KFD_CLASS(KFI_CLASS_WAIT));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfd_deadline(arg->deadline, &deadline);
	return ret ?: kfi_wait_until(kfd_wait_of(obj), deadline);
}

/*
 * Poll sets. kfi_poll() marks what it reports as reported; if that cannot be
 * copied out it was not. A CQ or EQ that is ready is reported again anyway; a
 * counter's change would be forgotten, so it is owed to the next call.
 */

static struct kfd_poll *kfd_pin_poll(struct kfd_call *call, u32 handle)
{
	struct kfd_obj *obj = kfd_pin(call, handle, KFD_CLASS(KFI_CLASS_POLL));

	return IS_ERR(obj) ? ERR_CAST(obj) :
			     container_of(obj, struct kfd_poll, obj);
}

static bool kfd_among(struct kfd_obj **objs, unsigned int n,
		      const struct kfd_obj *obj)
{
	while (n)
		if (objs[--n] == obj)
			return true;
	return false;
}

/* What is owed first, then what is ready. Return: how many. */
static int kfd_poll_collect(struct kfd_poll *poll, struct kfd_obj **objs,
			    unsigned int count)
{
	const unsigned int owed = min(poll->nowed, count);
	unsigned int i, n = owed;
	int more;

	memcpy(objs, poll->owed, owed * sizeof(*objs));
	if (n == count)
		return n;
	more = kfi_poll(kfd_poll_of(&poll->obj), (void **)&objs[n], count - n);
	if (more < 0)
		return n ? n : more;
	/* Owed and changed again is one report. */
	for (i = owed; i < owed + more; i++)
		if (!kfd_among(objs, owed, objs[i]))
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
 * The counters among @objs are owed; the first poll->nowed of them are already.
 * Takes the array over.
 */
static void kfd_poll_owe(struct kfd_poll *poll, struct kfd_obj **objs,
			 unsigned int n)
{
	unsigned int i, kept = 0;

	/* The call had no room for all that was owed: then it had nothing new. */
	if (poll->nowed >= n) {
		kfree(objs);
		return;
	}
	for (i = 0; i < n; i++)
		if (objs[i]->fclass == KFI_CLASS_CNTR)
			objs[kept++] = objs[i];
	kfree(poll->owed);
	poll->owed = objs;
	poll->nowed = kept;
}

static void kfd_poll_paid(struct kfd_poll *poll, unsigned int n)
{
	n = min(n, poll->nowed);
	poll->nowed -= n;
	memmove(poll->owed, poll->owed + n, poll->nowed * sizeof(*poll->owed));
}

/* The caller holds obj.readers, so no member can be removed meanwhile. */
static long kfd_poll_locked(struct kfd_poll *poll, const struct kfab_poll *arg)
{
	struct kfd_obj **objs;
	int n, ret;

	objs = kmalloc_array(arg->count, sizeof(*objs), GFP_KERNEL_ACCOUNT);
	if (!objs)
		return -ENOMEM;
	n = kfd_poll_collect(poll, objs, arg->count);
	if (n > 0) {
		ret = kfd_poll_put(arg, objs, n);
		if (ret) {
			kfd_poll_owe(poll, objs, n);
			return ret;
		}
		kfd_poll_paid(poll, n);
	}
	kfree(objs);
	return n;
}

/* KFAB_IOC_POLL */
long kfd_poll(struct kfd_call *call)
{
	const struct kfab_poll *arg = call->arg;
	struct kfd_poll *poll = kfd_pin_poll(call, arg->poll);
	long ret;

	if (IS_ERR(poll))
		return PTR_ERR(poll);
	if (!arg->count || arg->count > KFAB_POLL_MAX || !arg->entries)
		return -EINVAL;
	if (mutex_lock_interruptible(&poll->obj.readers))
		return -EINTR;
	ret = kfd_poll_locked(poll, arg);
	mutex_unlock(&poll->obj.readers);
	return ret;
}

/* The caller holds obj.readers. */
static int kfd_poll_join(struct kfd_poll *poll, struct kfd_obj *member, u64 flags)
{
	int ret = xa_reserve(&poll->members, member->id, GFP_KERNEL_ACCOUNT);

	if (ret)
		return ret;
	ret = kfi_poll_add(kfd_poll_of(&poll->obj), member->fid, flags);
	if (ret) {
		/* Does nothing to a member that was there before. */
		xa_release(&poll->members, member->id);
		return ret;
	}
	WARN_ON(xa_err(xa_store(&poll->members, member->id, member, GFP_NOWAIT)));
	return 0;
}

/* The caller holds obj.readers, or is the last to have the set. */
static int kfd_poll_leave(struct kfd_poll *poll, struct kfd_obj *member, u64 flags)
{
	unsigned int i, kept = 0;
	int ret = kfi_poll_del(kfd_poll_of(&poll->obj), member->fid, flags);

	if (ret)
		return ret;
	xa_erase(&poll->members, member->id);
	for (i = 0; i < poll->nowed; i++)
		if (poll->owed[i] != member)
			poll->owed[kept++] = poll->owed[i];
	poll->nowed = kept;
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

/* KFAB_IOC_POLL_ADD */
long kfd_poll_add(struct kfd_call *call)
{
	return kfd_poll_member(call, kfd_poll_join);
}

/* KFAB_IOC_POLL_DEL */
long kfd_poll_del(struct kfd_call *call)
{
	return kfd_poll_member(call, kfd_poll_leave);
}

/**
 * kfd_poll_drain() - remove every member of a set, whose client is gone
 * @poll: the set
 */
void kfd_poll_drain(struct kfd_poll *poll)
{
	struct kfd_obj *member;
	unsigned long id;

	xa_for_each(&poll->members, id, member)
		kfd_poll_leave(poll, member, 0);
}
