// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Handles: lookup, references, and closing. The rules are in kfd.h.
 */
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "kfd.h"

unsigned int kfd_max_objects = 4096;
unsigned long kfd_max_bytes = 64UL << 20;

/**
 * kfd_client_new() - make the client of an open file
 *
 * Context: Process, may sleep.
 * Return: the client, or NULL without memory.
 */
struct kfd_client *kfd_client_new(void)
{
	struct kfd_client *client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);

	if (!client)
		return NULL;
	client->user = kfd_user_get();
	if (!client->user) {
		kfree(client);
		return NULL;
	}
	refcount_set(&client->refs, 1);
	client->opener = get_pid(task_tgid(current));
	init_completion(&client->closed);
	xa_init_flags(&client->objects, XA_FLAGS_ACCOUNT);
	init_rwsem(&client->rings_lock);
	INIT_LIST_HEAD(&client->rings);
	return client;
}

/* Take the next id. Ids are never reused, so a stale one names no other object. */
static int kfd_id_take(struct kfd_client *client, struct kfd_obj *obj)
{
	int ret = 0;

	xa_lock(&client->objects);
	if (client->count >= READ_ONCE(kfd_max_objects)) {
		ret = -EMFILE;
	} else if (client->last_id == U32_MAX) {
		ret = -ENOSPC;
	} else if (!kfd_user_add_object(client->user, obj->fclass)) {
		ret = -EMFILE;
	} else {
		obj->id = ++client->last_id;
		client->count++;
	}
	xa_unlock(&client->objects);
	return ret;
}

/* Count that a member leaves its wait set. A draining one was counted already. */
static void kfd_left_set(struct kfd_obj *obj)
{
	lockdep_assert_held(&obj->client->objects.xa_lock);
	if (obj->set && !obj->draining)
		obj->set->changes++;
}

/* End the handle of an object, or of one that never became visible. */
static void kfd_id_drop(struct kfd_obj *obj)
{
	struct kfd_client *client = obj->client;

	xa_lock(&client->objects);
	if (__xa_erase(&client->objects, obj->id))
		kfd_left_set(obj);
	client->count--;
	xa_unlock(&client->objects);
	kfd_user_drop_object(client->user, obj->fclass);
	if (obj->set)
		kfd_unhold(obj->set);
}

/* Free an object. The memory of a buffer stays while it is mapped or posted. */
static void kfd_obj_free(struct kfd_obj *obj)
{
	const struct kfd_class *class = &kfd_classes[obj->fclass];

	if (obj->fclass == KFD_CLASS_BUF) {
		kfd_buf_put(container_of(obj, struct kfd_buf, obj));
		return;
	}
	if (class->free)
		class->free(obj);
	kfree(obj);
}

/**
 * kfd_obj_new() - make an object that is not visible yet
 * @client: the client that owns it
 * @fclass: KFI_CLASS_* or KFD_CLASS_*
 *
 * To be followed by kfd_obj_finalize() or kfd_obj_abort().
 *
 * Context: Process, may sleep.
 * Return: the object or an ERR_PTR: -EMFILE, -ENOSPC, -ENOMEM.
 */
struct kfd_obj *kfd_obj_new(struct kfd_client *client, u32 fclass)
{
	const struct kfd_class *class = &kfd_classes[fclass];
	struct kfd_obj *obj = kzalloc(class->size, GFP_KERNEL_ACCOUNT);
	int ret;

	if (!obj)
		return ERR_PTR(-ENOMEM);
	obj->client = client;
	obj->fclass = fclass;
	mutex_init(&obj->readers);
	INIT_LIST_HEAD(&obj->waiters);
	if (class->init)
		class->init(obj);
	ret = kfd_id_take(client, obj);
	if (ret)
		goto err_free;
	ret = xa_reserve(&client->objects, obj->id, GFP_KERNEL_ACCOUNT);
	if (ret)
		goto err_id;
	return obj;

err_id:
	kfd_id_drop(obj);
err_free:
	kfree(obj);
	return ERR_PTR(ret);
}

/**
 * kfd_obj_finalize() - make an object visible
 * @obj: the object, complete
 *
 * Context: Process. Takes the client's xa_lock.
 */
void kfd_obj_finalize(struct kfd_obj *obj)
{
	struct xarray *objects = &obj->client->objects;

	xa_lock(objects);
	obj->users = 1;
	/* The entry is reserved, so this allocates nothing. */
	WARN_ON(xa_is_err(__xa_store(objects, obj->id, obj, GFP_ATOMIC)));
	if (obj->set)
		obj->set->changes++;
	xa_unlock(objects);
}

static int kfd_fid_close(struct kfd_obj *obj)
{
	const struct kfd_class *class = &kfd_classes[obj->fclass];

	if (class->close)
		return class->close(obj);
	return obj->fid ? kfi_close(obj->fid) : 0;
}

/**
 * kfd_obj_abort() - undo everything since kfd_obj_new()
 * @obj: the object, not visible; its fid is closed if it is set
 *
 * Context: Process, may sleep.
 */
void kfd_obj_abort(struct kfd_obj *obj)
{
	/* No other thread has seen the object, so nothing uses it. */
	if (obj->fid)
		WARN_ON(kfi_close(obj->fid));
	kfd_id_drop(obj);
	kfd_obj_free(obj);
}

static struct kfd_obj *kfd_find(struct kfd_client *client, u32 id, u32 classes)
{
	struct kfd_obj *obj;

	lockdep_assert_held(&client->objects.xa_lock);
	obj = xa_load(&client->objects, id);
	if (!obj)
		return ERR_PTR(-EBADF);
	return classes & KFD_CLASS(obj->fclass) ? obj : ERR_PTR(-EINVAL);
}

/* Is it closed and used by no thread? Then the caller frees it, without the lock. */
static bool kfd_obj_unused(const struct kfd_obj *obj)
{
	lockdep_assert_held(&obj->client->objects.xa_lock);
	return obj->life == KFD_GONE && !obj->users && !obj->calls;
}

/**
 * struct kfd_waiter - a thread that waits for the end of a close, on its stack
 * @link: on obj->waiters, or empty once the close has ended (xa_lock)
 * @ended: completed at that moment
 */
struct kfd_waiter {
	struct list_head link;
	struct completion ended;
};

/**
 * kfd_wait_closed() - wait for the end of a close, whatever its outcome is
 * @obj: the object; it may be gone afterwards
 *
 * Context: Process, may sleep. The caller holds the client's xa_lock, which is dropped
 * meanwhile.
 * Return: 0 or -EINTR.
 */
int kfd_wait_closed(struct kfd_obj *obj)
{
	struct xarray *objects = &obj->client->objects;
	struct kfd_waiter waiter;
	int ret;

	lockdep_assert_held(&objects->xa_lock);
	init_completion(&waiter.ended);
	list_add_tail(&waiter.link, &obj->waiters);
	xa_unlock(objects);
	ret = wait_for_completion_interruptible(&waiter.ended);
	xa_lock(objects);
	list_del(&waiter.link);
	return ret ? -EINTR : 0;
}

/* Drops the client's xa_lock while it waits for the end of a close. */
static struct kfd_obj *kfd_look(struct kfd_client *client, u32 id, u32 classes,
				enum kfd_lookup how)
{
	struct kfd_obj *obj;

	lockdep_assert_held(&client->objects.xa_lock);
	for (;;) {
		obj = kfd_find(client, id, classes);
		if (IS_ERR(obj))
			return obj;
		if (obj->draining ||
		    (how == KFD_NOWAIT && obj->life == KFD_CLOSING))
			return ERR_PTR(-EBADF);
		if (obj->life != KFD_CLOSING &&
		    (how != KFD_FIRST || obj->life != KFD_ENDING)) {
			obj->calls++;
			return obj;
		}
		if (kfd_wait_closed(obj))
			return ERR_PTR(-EINTR);
	}
}

/**
 * kfd_get() - find an object and keep it from being closed during a call
 * @client: the client
 * @id: the handle
 * @classes: KFD_CLASS() of each class that is accepted
 * @how: what the caller waits for, see enum kfd_lookup
 *
 * If a close of the object is in progress, kfd_get() waits for it: kfabric may still
 * refuse the close.
 *
 * Context: Process, may sleep. Takes the client's xa_lock; the caller holds no lock.
 * With KFD_NOWAIT: does not sleep.
 * Return: the object, to be released by kfd_put(); or an ERR_PTR: -EBADF: no such
 * handle, or KFD_NOWAIT and it is being closed; -EINVAL: another class; -EINTR.
 */
struct kfd_obj *kfd_get(struct kfd_client *client, u32 id, u32 classes,
			enum kfd_lookup how)
{
	struct kfd_obj *obj;

	xa_lock(&client->objects);
	obj = kfd_look(client, id, classes, how);
	xa_unlock(&client->objects);
	return obj;
}

/**
 * kfd_put() - release a reference of kfd_get()
 * @obj: the object, which may be freed
 *
 * Context: Process. Takes the client's xa_lock.
 */
void kfd_put(struct kfd_obj *obj)
{
	struct xarray *objects = &obj->client->objects;
	bool last;

	xa_lock(objects);
	if (!--obj->calls && obj->idle)
		complete(obj->idle);
	last = kfd_obj_unused(obj);
	xa_unlock(objects);
	if (last)
		kfd_obj_free(obj);
}

/**
 * kfd_hold() - keep an object from being closed for longer than a call
 * @obj: the object; the caller knows that it is open, and that a close of it that may
 *	 be in progress will be refused
 *
 * Context: Process; does not sleep, takes the client's xa_lock.
 */
void kfd_hold(struct kfd_obj *obj)
{
	struct xarray *objects = &obj->client->objects;

	xa_lock(objects);
	obj->users++;
	xa_unlock(objects);
}

/**
 * kfd_unhold() - release a reference of kfd_hold()
 * @obj: the object, which may be freed
 *
 * Context: Process. Takes the client's xa_lock.
 */
void kfd_unhold(struct kfd_obj *obj)
{
	struct xarray *objects = &obj->client->objects;
	bool last;

	xa_lock(objects);
	obj->users--;
	last = kfd_obj_unused(obj);
	xa_unlock(objects);
	if (last)
		kfd_obj_free(obj);
}

/**
 * kfd_pin() - kfd_get() until the end of the call
 * @call: the call in progress
 * @id: the handle
 * @classes: KFD_CLASS() of each class that is accepted
 *
 * Context: As kfd_get().
 * Return: As kfd_get(), but the end of the call releases the reference. A blocking call
 * uses the object, so that a close is refused; a close waits for any other call.
 */
struct kfd_obj *kfd_pin(struct kfd_call *call, u32 id, u32 classes)
{
	struct kfd_obj *obj;

	if (WARN_ON(call->npins == ARRAY_SIZE(call->pins)))
		return ERR_PTR(-EINVAL);
	obj = kfd_get(call->client, id, classes,
		      call->npins ? KFD_FURTHER : KFD_FIRST);
	if (IS_ERR(obj))
		return obj;
	if (call->blocks) {
		kfd_hold(obj);
		kfd_put(obj);
	}
	call->pins[call->npins++] = obj;
	return obj;
}

/**
 * kfd_unpin_all() - release what kfd_pin() returned to a call
 * @call: the call, which ends
 *
 * Context: Process. Takes the client's xa_lock.
 */
void kfd_unpin_all(struct kfd_call *call)
{
	struct kfd_obj *obj;

	while (call->npins) {
		obj = call->pins[--call->npins];
		if (call->blocks)
			kfd_unhold(obj);
		else
			kfd_put(obj);
	}
}

/**
 * kfd_read_lock() - begin a read that looks, copies out and removes
 * @readers: the lock of the object's readers
 *
 * A thread that is being killed takes nothing: no program would get it, while another
 * one that shares the file may wait for it. A mutex that is free does not look at
 * signals.
 *
 * Context: Process, may sleep. On success the caller unlocks @readers.
 * Return: 0 or -EINTR.
 */
int kfd_read_lock(struct mutex *readers)
{
	if (mutex_lock_interruptible(readers))
		return -EINTR;
	if (!fatal_signal_pending(current))
		return 0;
	mutex_unlock(readers);
	return -EINTR;
}

/**
 * kfd_open_begin() - kfd_obj_new() for the object that a call opens
 * @call: the call in progress; if it succeeds, its end makes the object visible, else
 *	  its end undoes the object
 * @fclass: class of the object
 * @context: the user's number
 *
 * Context: Process, may sleep.
 * Return: As kfd_obj_new().
 */
struct kfd_obj *kfd_open_begin(struct kfd_call *call, u32 fclass, u64 context)
{
	struct kfd_obj *obj = kfd_obj_new(call->client, fclass);

	if (!IS_ERR(obj)) {
		obj->context = context;
		call->fresh = obj;
	}
	return obj;
}

/**
 * kfd_open_done() - the kfabric object was opened: fill in the answer
 * @obj: the object, not visible yet
 * @fid: the kfabric object
 * @handle: out_handle of the answer
 * @id: out_id of the answer
 *
 * Context: Process.
 */
void kfd_open_done(struct kfd_obj *obj, struct kfid *fid, u32 *handle, u32 *id)
{
	obj->fid = fid;
	*handle = obj->id;
	*id = kfi_fid_id(fid);
}

/*
 * Wait until no call uses an object whose close has begun. A call that has looked up
 * another object before may still look up this one.
 */
static int kfd_wait_calls(struct kfd_obj *obj)
{
	struct xarray *objects = &obj->client->objects;
	DECLARE_COMPLETION_ONSTACK(idle);
	int ret = 0;

	lockdep_assert_held(&objects->xa_lock);
	while (!ret && obj->calls) {
		reinit_completion(&idle);
		obj->idle = &idle;
		xa_unlock(objects);
		ret = wait_for_completion_interruptible(&idle);
		xa_lock(objects);
		obj->idle = NULL;
	}
	return ret ? -EINTR : 0;
}

/* A close has ended. Its waiters do not use the object any more: it may be freed. */
static void kfd_close_ended(struct kfd_obj *obj, enum kfd_life life)
{
	struct kfd_waiter *waiter, *next;

	lockdep_assert_held(&obj->client->objects.xa_lock);
	obj->life = life;
	list_for_each_entry_safe(waiter, next, &obj->waiters, link) {
		list_del_init(&waiter->link);
		complete(&waiter->ended);
	}
}

/* Begin to close an object that is open. The handle has to be its only user. */
static int kfd_obj_end(struct kfd_obj *obj)
{
	const bool ends_calls = kfd_classes[obj->fclass].ends_calls;
	int ret = 0;

	lockdep_assert_held(&obj->client->objects.xa_lock);
	if (obj->users != 1 && !ends_calls)
		return -EBUSY;
	obj->life = KFD_ENDING;
	if (!ends_calls)
		ret = kfd_wait_calls(obj);
	/* A call may have made an object that needs this one. */
	if (!ret && obj->users != 1 && !ends_calls)
		ret = -EBUSY;
	if (ret)
		kfd_close_ended(obj, KFD_OPEN);
	else
		obj->life = KFD_CLOSING;
	return ret;
}

/**
 * kfd_claim() - take an object away from all other calls, to consume or close it
 * @client: the client
 * @id: the handle
 * @classes: KFD_CLASS() of each class that is accepted
 *
 * Waits for calls in progress that use the object, and for another close of it.
 *
 * Context: Process, may sleep; the caller holds no lock. To be followed by
 * kfd_claim_end().
 * Return: the object or an ERR_PTR: -EBUSY while something uses it, -EBADF,
 * -EINVAL, -EINTR.
 */
struct kfd_obj *kfd_claim(struct kfd_client *client, u32 id, u32 classes)
{
	struct kfd_obj *obj;
	int ret;

	xa_lock(&client->objects);
	for (;;) {
		obj = kfd_find(client, id, classes);
		ret = PTR_ERR_OR_ZERO(obj);
		if (ret || obj->life == KFD_OPEN)
			break;
		ret = kfd_wait_closed(obj);
		if (ret)
			break;
	}
	if (!ret)
		ret = kfd_obj_end(obj);
	xa_unlock(&client->objects);
	return ret ? ERR_PTR(ret) : obj;
}

/**
 * kfd_claim_end() - end what kfd_claim() began
 * @obj: the object
 * @gone: it was consumed or closed, and its handle ends; else the handle is valid again
 *
 * Context: Process. Takes the client's xa_lock.
 */
void kfd_claim_end(struct kfd_obj *obj, bool gone)
{
	struct xarray *objects = &obj->client->objects;
	bool last;

	if (gone)
		kfd_id_drop(obj);
	xa_lock(objects);
	if (gone)
		obj->users--;
	kfd_close_ended(obj, gone ? KFD_GONE : KFD_OPEN);
	last = kfd_obj_unused(obj);
	xa_unlock(objects);
	if (last)
		kfd_obj_free(obj);
}

/*
 * The close of a CQ will not be refused, but has to wait for acknowledgments. Its
 * handle stays, and the caller gets a reference of its own for the time of the wait.
 */
static void kfd_obj_drain_begin(struct kfd_obj *obj)
{
	struct xarray *objects = &obj->client->objects;

	xa_lock(objects);
	obj->users++;
	kfd_left_set(obj);
	obj->draining = true;
	kfd_close_ended(obj, KFD_OPEN);
	xa_unlock(objects);
}

/* A CQ that only waits for acknowledgments closes at once if they are discarded. */
static int kfd_fid_close_now(struct kfd_obj *obj, bool discard)
{
	int ret = kfd_fid_close(obj);

	if (ret != -EINPROGRESS || !discard)
		return ret;
	kfi_cq_discard_events(kfd_cq_of(obj));
	return kfd_fid_close(obj);
}

/* If another thread is closing the CQ and waits for acknowledgments, end its wait. */
static void kfd_cq_discard(struct kfd_client *client, u32 id)
{
	struct kfd_obj *obj;

	xa_lock(&client->objects);
	obj = xa_load(&client->objects, id);
	if (obj && obj->draining && obj->life != KFD_CLOSING)
		kfi_cq_discard_events(kfd_cq_of(obj));
	xa_unlock(&client->objects);
}

/**
 * kfd_obj_close() - close an object and its handle
 * @client: the client
 * @id: the handle
 * @discard: of a CQ: its unacknowledged events are discarded
 *
 * Waits for calls in progress that use the object, and for the acknowledgments of a
 * CQ's events.
 *
 * Context: Process, may sleep; the caller holds no lock.
 * Return: 0; -EBUSY while something uses it: nothing was changed; -EBADF; -EINTR:
 * nothing was changed, unless it is a CQ that waits for acknowledgments: it is still
 * being closed, and another call continues the close.
 */
int kfd_obj_close(struct kfd_client *client, u32 id, bool discard)
{
	struct kfd_obj *obj;
	int ret;

	for (;;) {
		obj = kfd_claim(client, id, ~0U);
		if (discard && obj == ERR_PTR(-EBUSY))
			kfd_cq_discard(client, id);
		if (IS_ERR(obj))
			return PTR_ERR(obj);
		ret = kfd_fid_close_now(obj, discard);
		if (ret != -EINPROGRESS)
			break;
		kfd_obj_drain_begin(obj);
		ret = kfd_cq_drain(obj);
		kfd_unhold(obj);
		if (ret)
			return ret;
	}
	kfd_claim_end(obj, !ret);
	return ret;
}

/* Close an object of a client that is released. Return: whether it is closed. */
static bool kfd_obj_teardown(struct kfd_obj *obj)
{
	bool gone;

	if (obj->fclass == KFI_CLASS_POLL)
		kfd_poll_drain(container_of(obj, struct kfd_poll, obj));
	if (obj->fclass == KFI_CLASS_CQ)
		kfi_cq_discard_events(kfd_cq_of(obj));
	if (IS_ERR(kfd_claim(obj->client, obj->id, ~0U)))
		return false;
	gone = !kfd_fid_close(obj);
	kfd_claim_end(obj, gone);
	return gone;
}

/* One pass over all objects, leaves first. Return: how many were closed. */
static unsigned int kfd_client_pass(struct kfd_client *client)
{
	unsigned int rank, gone = 0;
	struct kfd_obj *obj;
	unsigned long id;

	for (rank = 0; rank < KFD_RANKS; rank++) {
		xa_for_each(&client->objects, id, obj) {
			if (kfd_classes[obj->fclass].rank == rank)
				gone += kfd_obj_teardown(obj);
			cond_resched();
		}
	}
	return gone;
}

/* Buffers are whole pages, and are not mapped any more: see kfi_stop(). */
static void kfd_client_stop(struct kfd_client *client)
{
	struct kfd_obj *obj;
	unsigned long id;

	xa_for_each(&client->objects, id, obj) {
		if (KFD_CLASS(obj->fclass) & KFD_ENDPOINTS)
			kfi_stop(obj->fid);
		cond_resched();
	}
}

/**
 * kfd_client_put() - release a reference on a client
 * @client: the client, which may be freed
 *
 * Context: Any.
 */
void kfd_client_put(struct kfd_client *client)
{
	if (refcount_dec_and_test(&client->refs))
		kfree(client);
}

/**
 * kfd_client_free() - close all objects of a client, and release the file's reference
 * @client: the client; its file is released, so no call is in progress
 *
 * All endpoints are stopped first, so no close waits for a peer.
 *
 * If a pass closes no object and some are left, a reference count is wrong: these
 * objects stay, and this module with them.
 *
 * Context: Process, may sleep. Also runs in a thread that is being killed, so no step
 * may give up on a signal: no call is left that a close would wait for. Also runs in a
 * work item: no step may use the process of the caller.
 */
void kfd_client_free(struct kfd_client *client)
{
	kfd_client_stop(client);
	while (!xa_empty(&client->objects) && kfd_client_pass(client))
		;
	if (WARN(!xa_empty(&client->objects),
		 "kfabric: %u objects of a client that is gone cannot be closed\n",
		 client->count)) {
		__module_get(THIS_MODULE);
		return;
	}
	WARN_ON(atomic64_read(&client->bytes));
	xa_destroy(&client->objects);
	kfd_user_put(client->user);
	put_pid(client->opener);
	complete(&client->closed);
	kfd_client_put(client);
}

/**
 * kfd_version() - KFAB_IOC_VERSION
 * @call: the call in progress
 *
 * Context: Process.
 * Return: 0.
 */
long kfd_version(struct kfd_call *call)
{
	struct kfd_client *client = call->client;
	struct kfab_version *arg = call->arg;

	arg->out_abi = KFAB_ABI_VERSION;
	arg->out_api = kfi_version();
	arg->out_max_objects = READ_ONCE(kfd_max_objects);
	arg->out_max_bytes = READ_ONCE(kfd_max_bytes);
	xa_lock(&client->objects);
	arg->out_objects = client->count;
	xa_unlock(&client->objects);
	arg->out_bytes = atomic64_read(&client->bytes);
	return 0;
}
