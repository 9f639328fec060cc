// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Limits of a user, over all open files: the objects that its clients have, and the
 * memory of their buffers, which cannot be swapped out. The memory is added to what the
 * kernel counts for the user under RLIMIT_MEMLOCK, with that of io_uring and others.
 *
 * A client belongs to the user that has opened the device.
 */
#include <linux/cred.h>
#include <linux/sched/signal.h>
#include <linux/sched/user.h>
#include <linux/slab.h>

#include "kfd.h"

unsigned int kfd_max_user_objects = 65536;
unsigned int kfd_max_user_listeners = 1024;

/**
 * struct kfd_user - a user that has the device open
 * @refs: its clients; atomic
 * @uid: its id, of the initial user namespace; constant
 * @account: the kernel's account of it, referenced; constant
 * @objects: handles of all its clients; atomic
 * @listeners: those of passive endpoints; atomic
 */
struct kfd_user {
	refcount_t refs;
	u32 uid;
	struct user_struct *account;
	atomic_long_t objects;
	atomic_long_t listeners;
};

/* The users by id. The mutex protects the array, and the step to and from no reference. */
static DEFINE_XARRAY(kfd_users);
static DEFINE_MUTEX(kfd_users_lock);

static u32 kfd_current_uid(void)
{
	return from_kuid(&init_user_ns, current_user()->uid);
}

static struct kfd_user *kfd_user_new(u32 uid)
{
	struct kfd_user *user = kzalloc(sizeof(*user), GFP_KERNEL_ACCOUNT);

	if (!user)
		return NULL;
	refcount_set(&user->refs, 1);
	user->uid = uid;
	user->account = get_uid(current_user());
	return user;
}

static void kfd_user_free(struct kfd_user *user)
{
	free_uid(user->account);
	kfree(user);
}

/* Return: the user, referenced: @user, if it is given and there is none yet; or NULL. */
static struct kfd_user *kfd_user_find(u32 uid, struct kfd_user *user)
{
	struct kfd_user *found;

	mutex_lock(&kfd_users_lock);
	found = xa_load(&kfd_users, uid);
	if (found)
		refcount_inc(&found->refs);
	else if (user && !xa_is_err(xa_store(&kfd_users, uid, user, GFP_KERNEL)))
		found = user;
	mutex_unlock(&kfd_users_lock);
	return found;
}

/**
 * kfd_user_get() - the calling user, for a new client
 *
 * A charge to a cgroup above memory.high sleeps, so it comes before the mutex, which
 * all users wait for.
 *
 * Context: Process, may sleep. kfd_user_put() is the mirror.
 * Return: the user, or NULL without memory.
 */
struct kfd_user *kfd_user_get(void)
{
	const u32 uid = kfd_current_uid();
	struct kfd_user *user = kfd_user_find(uid, NULL), *mine;

	if (user)
		return user;
	mine = kfd_user_new(uid);
	if (!mine)
		return NULL;
	user = kfd_user_find(uid, mine);
	if (user != mine)
		kfd_user_free(mine);
	return user;
}

/**
 * kfd_user_put() - a client of the user is gone
 * @user: the user
 *
 * Context: Process, may sleep.
 */
void kfd_user_put(struct kfd_user *user)
{
	if (!refcount_dec_and_mutex_lock(&user->refs, &kfd_users_lock))
		return;
	xa_erase(&kfd_users, user->uid);
	mutex_unlock(&kfd_users_lock);
	kfd_user_free(user);
}

/**
 * kfd_user_is_current() - is it the calling user?
 * @user: the user
 *
 * Context: Process.
 * Return: true if a client that the caller opens would be this user's.
 */
bool kfd_user_is_current(const struct kfd_user *user)
{
	return user->uid == kfd_current_uid();
}

/**
 * kfd_user_owner() - the user as the owner of a domain
 * @user: the user
 *
 * Context: Any.
 * Return: the number for kfi_domain_base.owner.
 */
u64 kfd_user_owner(const struct kfd_user *user)
{
	return KFI_OWNER_USER | user->uid;
}

static bool kfd_user_count(atomic_long_t *counter, long most)
{
	long count = atomic_long_read(counter);

	do {
		if (count >= most)
			return false;
	} while (!atomic_long_try_cmpxchg(counter, &count, count + 1));
	return true;
}

/**
 * kfd_user_add_object() - count one more object
 * @user: the user
 * @fclass: its class
 *
 * A passive endpoint takes one of the ports that all users share.
 *
 * Context: Any. kfd_user_drop_object() is the mirror.
 * Return: false if the user has as many as it may have.
 */
bool kfd_user_add_object(struct kfd_user *user, u32 fclass)
{
	if (!kfd_user_count(&user->objects, READ_ONCE(kfd_max_user_objects)))
		return false;
	if (fclass != KFI_CLASS_PEP ||
	    kfd_user_count(&user->listeners, READ_ONCE(kfd_max_user_listeners)))
		return true;
	atomic_long_dec(&user->objects);
	return false;
}

/**
 * kfd_user_drop_object() - count one object less
 * @user: the user
 * @fclass: its class
 *
 * Context: Any.
 */
void kfd_user_drop_object(struct kfd_user *user, u32 fclass)
{
	if (fclass == KFI_CLASS_PEP)
		atomic_long_dec(&user->listeners);
	atomic_long_dec(&user->objects);
}

/**
 * kfd_user_lock_memory() - charge memory to the user
 * @user: the user
 * @bytes: whole pages
 *
 * Context: Process. kfd_user_unlock_memory() is the mirror.
 * Return: false if this is more than the RLIMIT_MEMLOCK of the calling process allows the
 * user, and the process does not have CAP_IPC_LOCK.
 */
bool kfd_user_lock_memory(struct kfd_user *user, size_t bytes)
{
	const unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	const unsigned long more = bytes >> PAGE_SHIFT;
	atomic_long_t *locked = &user->account->locked_vm;
	long pages = atomic_long_read(locked);

	do {
		if (pages + more > limit && !capable(CAP_IPC_LOCK))
			return false;
	} while (!atomic_long_try_cmpxchg(locked, &pages, pages + more));
	return true;
}

/**
 * kfd_user_unlock_memory() - release memory that was charged
 * @user: the user
 * @bytes: whole pages
 *
 * Context: Any.
 */
void kfd_user_unlock_memory(struct kfd_user *user, size_t bytes)
{
	atomic_long_sub(bytes >> PAGE_SHIFT, &user->account->locked_vm);
}
