// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Wait objects of users: descriptors, sets of descriptors, yielding. In the kernel all
 * of them are a queue of sleepers; they differ in what a user gets from KFAB_GETWAIT.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "kfd.h"

/* kfabric gets KFI_WAIT_UNSPEC for the kinds that only users have. */
static enum kfi_wait_obj kfd_core_kind(u32 wait_obj)
{
	return wait_obj == KFI_WAIT_FD || wait_obj == KFI_WAIT_YIELD ?
		       KFI_WAIT_UNSPEC : wait_obj;
}

/**
 * kfd_set_kind() - the wait object to open a wait set of kfabric with
 * @wait_obj: as the user asked for
 *
 * Context: Any.
 * Return: the kind; an unknown one is returned as it is.
 */
enum kfi_wait_obj kfd_set_kind(u32 wait_obj)
{
	return wait_obj == KFI_WAIT_POLLFD ? KFI_WAIT_UNSPEC :
					     kfd_core_kind(wait_obj);
}

/**
 * kfd_wait_kind() - the wait object to open a CQ, EQ or counter of kfabric with
 * @call: the open in progress, which pins the wait set
 * @wait_obj: as the user asked for
 * @handle: the wait set, with KFI_WAIT_SET, else 0
 * @kind: set to the kind
 * @wait_set: set to the wait set, with KFI_WAIT_SET
 *
 * Context: Process, may sleep.
 * Return: 0, -EINVAL for a handle without KFI_WAIT_SET, or as kfd_pin().
 */
int kfd_wait_kind(struct kfd_call *call, u32 wait_obj, u32 handle,
		  enum kfi_wait_obj *kind, struct kfid_wait **wait_set)
{
	*kind = kfd_core_kind(wait_obj);
	if (wait_obj != KFI_WAIT_SET)
		return handle ? -EINVAL : 0;
	call->set = kfd_pin(call, handle, KFD_CLASS(KFI_CLASS_WAIT));
	if (IS_ERR(call->set))
		return PTR_ERR(call->set);
	*wait_set = kfd_wait_of(call->set);
	return 0;
}

/**
 * kfd_wait_obj_set() - store the wait object of an object that is opened
 * @call: the open in progress
 * @obj: the object, not visible yet; obj->fid is set
 * @wait_obj: as the user asked for
 *
 * Context: Process.
 */
void kfd_wait_obj_set(struct kfd_call *call, struct kfd_obj *obj, u32 wait_obj)
{
	obj->wait_obj = wait_obj;
	obj->set = call->set;
	if (obj->set)
		kfd_hold(obj->set);
	if (wait_obj == KFI_WAIT_YIELD)
		kfi_fid_yield(obj->fid);
}

/* Return: the wait object; of a member that of its set. */
static u32 kfd_effective_wait_obj(const struct kfd_obj *obj)
{
	return obj->set ? obj->set->wait_obj : obj->wait_obj;
}

static __poll_t kfd_fd_poll(struct file *filp, struct poll_table_struct *wait)
{
	return kfi_watch_poll(filp->private_data, filp, wait);
}

static int kfd_fd_release(struct inode *inode, struct file *filp)
{
	kfi_watch_put(filp->private_data);
	return 0;
}

/* A descriptor references this module and the watch, not the object or client. */
static const struct file_operations kfd_fd_fops = {
	.owner = THIS_MODULE,
	.release = kfd_fd_release,
	.poll = kfd_fd_poll,
};

static struct file *kfd_fd_file(struct kfid *fid)
{
	struct kfi_watch *watch = kfi_watch_get(fid);
	struct file *filp;

	if (IS_ERR(watch))
		return ERR_CAST(watch);
	filp = anon_inode_getfile("[kfabric]", &kfd_fd_fops, watch, O_RDONLY);
	if (IS_ERR(filp))
		kfi_watch_put(watch);
	return filp;
}

/* Answer before fd_install(): an installed descriptor cannot be taken back. */
static long kfd_fd_install(struct kfd_call *call, struct file *filp)
{
	struct kfab_control *arg = call->arg;
	int fd, ret;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0) {
		fput(filp);
		return fd;
	}
	arg->value = fd;
	ret = kfd_answer(call);
	if (ret) {
		put_unused_fd(fd);
		fput(filp);
		return ret;
	}
	fd_install(fd, filp);
	return 0;
}

static long kfd_fd_new(struct kfd_call *call, struct kfid *fid)
{
	struct file *filp = kfd_fd_file(fid);

	return IS_ERR(filp) ? PTR_ERR(filp) : kfd_fd_install(call, filp);
}

static bool kfd_exclusive(struct kfd_obj *obj)
{
	u64 flags = 0;

	if (obj->fclass == KFI_CLASS_WAIT)
		WARN_ON(kfi_control(obj->fid, KFI_GETFIDFLAG, &flags));
	return flags & KFI_WAIT_EXCLUSIVE;
}

/* Users get descriptors only: a queue or a condition is for kernel callers. */
static long kfd_getwait(struct kfd_call *call, struct kfd_obj *obj)
{
	switch (obj->wait_obj) {
	case KFI_WAIT_FD:
		return kfd_exclusive(obj) ? -EINVAL : kfd_fd_new(call, obj->fid);
	case KFI_WAIT_SET:
		if (kfd_effective_wait_obj(obj) != KFI_WAIT_POLLFD || kfd_exclusive(obj->set))
			return -EINVAL;
		return kfd_fd_new(call, obj->fid);
	case KFI_WAIT_QUEUE:
	case KFI_WAIT_MUTEX_COND:
		return -EOPNOTSUPP;
	default:
		return -EINVAL;
	}
}

/**
 * kfd_wait_control() - KFAB_IOC_CONTROL with a command about waiting
 * @call: the call in progress; KFAB_GETWAIT, KFAB_GETWAITOBJ, KFAB_GETFIDFLAG or
 *	  KFAB_SETFIDFLAG
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_control.
 */
long kfd_wait_control(struct kfd_call *call)
{
	const u32 classes = KFD_SOURCES | KFD_CLASS(KFI_CLASS_WAIT) |
			    KFD_CLASS(KFI_CLASS_PROFILE) |
			    KFD_CLASS(KFI_CLASS_COMP_CHANNEL);
	struct kfab_control *arg = call->arg;
	struct kfd_obj *obj;

	obj = kfd_pin(call, arg->handle, classes);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	switch (arg->command) {
	case KFI_GETWAIT:
		return kfd_getwait(call, obj);
	case KFI_GETWAITOBJ:
		arg->value = obj->wait_obj;
		return 0;
	case KFI_SETFIDFLAG:
		/* No output, so a fault must not report a failure. */
		call->answered = true;
		fallthrough;
	default:
		return kfi_control(obj->fid, arg->command, &arg->value);
	}
}

/* List the members of a set at one moment. Return: how many there are. */
static u32 kfd_pollfd_look(struct kfd_obj *set, u32 *handles, u32 room,
			   u32 *change_index)
{
	struct xarray *objects = &set->client->objects;
	struct kfd_obj *obj;
	unsigned long id;
	u32 n = 0;

	xa_lock(objects);
	*change_index = set->changes;
	xa_for_each(objects, id, obj) {
		/* A draining CQ has left the set, though its handle is valid. */
		if (obj->set != set || obj->draining)
			continue;
		if (n < room)
			handles[n] = id;
		n++;
	}
	xa_unlock(objects);
	return n;
}

/*
 * A bound for the array: no set has more members than its client has objects, or may
 * have. The count is read without the lock, but it only grows while it is below the
 * limit.
 */
static u32 kfd_pollfd_room(const struct kfd_client *client, u32 count)
{
	return min(count, max(READ_ONCE(kfd_max_objects), READ_ONCE(client->count)));
}

static long kfd_pollfd_put(struct kfd_call *call, struct kfd_obj *set,
			   u32 *handles, u32 room)
{
	struct kfab_pollfd *arg = call->arg;

	arg->count = kfd_pollfd_look(set, handles, room, &arg->out_change_index);
	if (!room)
		return 0;
	if (arg->count > room)
		return kfd_answer(call) ?: -KFI_ETOOSMALL;
	if (copy_to_user(u64_to_user_ptr(arg->handles), handles,
			 arg->count * sizeof(*handles)))
		return -EFAULT;
	return 0;
}

/**
 * kfd_pollfd() - KFAB_IOC_POLLFD
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_pollfd.
 */
long kfd_pollfd(struct kfd_call *call)
{
	struct kfab_pollfd *arg = call->arg;
	struct kfd_obj *set;
	u32 *handles, room;
	long ret;

	set = kfd_pin(call, arg->wait, KFD_CLASS(KFI_CLASS_WAIT));
	if (IS_ERR(set))
		return PTR_ERR(set);
	if (set->wait_obj != KFI_WAIT_POLLFD || kfd_exclusive(set))
		return -EINVAL;
	room = kfd_pollfd_room(call->client, arg->count);
	handles = kvmalloc_array(room, sizeof(*handles), GFP_KERNEL_ACCOUNT);
	if (!handles)
		return -ENOMEM;
	ret = kfd_pollfd_put(call, set, handles, room);
	kvfree(handles);
	return ret;
}

/**
 * struct kfd_trywait_list - the objects of one trywait
 * @objs: looked up
 * @n: how many
 */
struct kfd_trywait_list {
	struct kfd_obj **objs;
	u32 n;
};

/* Look up all objects, and check that they are of one kind, before any is checked. */
static int kfd_try_collect(struct kfd_call *call, struct kfd_trywait_list *try)
{
	const u32 classes = KFD_SOURCES | KFD_CLASS(KFI_CLASS_WAIT);
	const struct kfab_trywait *arg = call->arg;
	u32 __user *from = u64_to_user_ptr(arg->handles);
	struct kfd_obj *obj;
	u32 handle;

	while (try->n < arg->count) {
		if (get_user(handle, &from[try->n]))
			return -EFAULT;
		obj = kfd_get(call->client, handle, classes, KFD_FURTHER);
		if (IS_ERR(obj))
			return PTR_ERR(obj);
		try->objs[try->n++] = obj;
		if (kfd_effective_wait_obj(obj) != kfd_effective_wait_obj(try->objs[0]))
			return -EINVAL;
	}
	return 0;
}

/* The descriptor of a member whose device is gone stays readable, with POLLHUP. */
static bool kfd_pollfd_ended(struct kfd_obj *set)
{
	struct xarray *objects = &set->client->objects;
	struct kfd_obj *obj;
	bool ended = false;
	unsigned long id;

	xa_lock(objects);
	xa_for_each(objects, id, obj)
		if (obj->set == set && obj->life != KFD_CLOSING && !obj->draining)
			ended |= kfi_fid_ended(obj->fid);
	xa_unlock(objects);
	return ended;
}

static int kfd_try(struct kfd_obj *fabric, struct kfd_obj *obj)
{
	int ret = kfi_fid_trywait(kfd_fabric_of(fabric), obj->fid);

	if (!ret && kfd_effective_wait_obj(obj) == KFI_WAIT_POLLFD &&
	    kfd_pollfd_ended(obj->set ?: obj))
		return -ENODEV;
	return ret;
}

/* A member of a KFAB_WAIT_POLLFD set costs a walk over all objects of the client. */
static int kfd_try_all(struct kfd_obj *fabric, const struct kfd_trywait_list *try)
{
	int ret, result = 0;
	u32 i;

	for (i = 0; i < try->n; i++) {
		ret = kfd_try(fabric, try->objs[i]);
		if (ret == -EINVAL)
			return ret;
		/* -EAGAIN, something to read, takes precedence over -ENODEV. */
		if (ret == -EAGAIN || !result)
			result = ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	return result;
}

/**
 * kfd_trywait() - KFAB_IOC_TRYWAIT
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_trywait.
 */
long kfd_trywait(struct kfd_call *call)
{
	const struct kfab_trywait *arg = call->arg;
	struct kfd_trywait_list try = {};
	struct kfd_obj *fabric;
	long ret;

	fabric = kfd_pin(call, arg->fabric, KFD_CLASS(KFI_CLASS_FABRIC));
	if (IS_ERR(fabric))
		return PTR_ERR(fabric);
	if (!arg->count || arg->count > KFAB_POLL_MAX || !arg->handles)
		return -EINVAL;
	try.objs = kmalloc_array(arg->count, sizeof(*try.objs), GFP_KERNEL_ACCOUNT);
	if (!try.objs)
		return -ENOMEM;
	ret = kfd_try_collect(call, &try) ?: kfd_try_all(fabric, &try);
	while (try.n)
		kfd_put(try.objs[--try.n]);
	kfree(try.objs);
	return ret;
}
