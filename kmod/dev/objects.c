// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Handles: lookup, references, and closing. The rules are in kfd.h.
 */
#include <linux/module.h>
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
	xa_init_flags(&client->objects, XA_FLAGS_ACCOUNT);
	mutex_init(&client->closing);
	return client;
}

/* Take the next id. Ids are never reused, so a stale one names no other object. */
static int kfd_id_take(struct kfd_client *client, u32 *id)
{
	int ret = 0;

	xa_lock(&client->objects);
	if (client->count >= READ_ONCE(kfd_max_objects)) {
		ret = -EMFILE;
	} else if (client->last_id == U32_MAX) {
		ret = -ENOSPC;
	} else {
		*id = ++client->last_id;
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

static void kfd_id_drop(struct kfd_client *client, u32 id)
{
	struct kfd_obj *obj;

	xa_lock(&client->objects);
	obj = __xa_erase(&client->objects, id);
	if (obj)
		kfd_left_set(obj);
	client->count--;
	xa_unlock(&client->objects);
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
	if (class->init)
		class->init(obj);
	ret = kfd_id_take(client, &obj->id);
	if (ret)
		goto err_free;
	ret = xa_reserve(&client->objects, obj->id, GFP_KERNEL_ACCOUNT);
	if (ret)
		goto err_id;
	return obj;

err_id:
	kfd_id_drop(client, obj->id);
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
	kfd_id_drop(obj->client, obj->id);
	kfd_obj_free(obj);
}

/* Look up once. Sets *closing if a close of the object is in progress. */
static struct kfd_obj *kfd_look(struct kfd_client *client, u32 id, u32 classes,
				bool *closing)
{
	struct kfd_obj *obj;

	*closing = false;
	xa_lock(&client->objects);
	obj = xa_load(&client->objects, id);
	if (!obj)
		obj = ERR_PTR(-EBADF);
	else if (!(classes & KFD_CLASS(obj->fclass)))
		obj = ERR_PTR(-EINVAL);
	else if (obj->draining)
		obj = ERR_PTR(-EBADF);
	else if (!obj->users || obj->closing)
		*closing = true;
	else
		obj->users++;
	xa_unlock(&client->objects);
	return obj;
}

/**
 * kfd_get() - find an object and keep it from being closed
 * @client: the client
 * @id: the handle
 * @classes: KFD_CLASS() of each class that is accepted
 *
 * If a close of the object is in progress, kfd_get() waits for it: kfabric may still
 * refuse the close.
 *
 * Context: Process, may sleep. Takes client->closing if a close is in progress.
 * Return: the object, to be released by kfd_put(); or an ERR_PTR: -EBADF: no such
 * handle, -EINVAL: another class, -EINTR.
 */
struct kfd_obj *kfd_get(struct kfd_client *client, u32 id, u32 classes)
{
	struct kfd_obj *obj;
	bool closing;

	for (;;) {
		obj = kfd_look(client, id, classes, &closing);
		if (!closing)
			return obj;
		if (mutex_lock_interruptible(&client->closing))
			return ERR_PTR(-EINTR);
		mutex_unlock(&client->closing);
	}
}

/**
 * kfd_get_nowait() - kfd_get() of an object whose close is never refused
 * @client: the client
 * @id: the handle
 * @classes: KFD_CLASS() of each class that is accepted
 *
 * Context: Process; does not sleep, takes the client's xa_lock.
 * Return: as kfd_get(), without -EINTR; -EBADF while the object is being closed.
 */
struct kfd_obj *kfd_get_nowait(struct kfd_client *client, u32 id, u32 classes)
{
	bool closing;
	struct kfd_obj *obj = kfd_look(client, id, classes, &closing);

	return closing ? ERR_PTR(-EBADF) : obj;
}

/**
 * kfd_hold() - take one more reference on an object
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
 * kfd_put() - release a reference of kfd_get() or kfd_hold()
 * @obj: the object, which may be freed
 *
 * Context: Process. Takes the client's xa_lock.
 */
void kfd_put(struct kfd_obj *obj)
{
	struct xarray *objects = &obj->client->objects;
	bool last;

	xa_lock(objects);
	last = !--obj->users && obj->gone;
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
 * Return: As kfd_get(), but the end of the call releases the reference.
 */
struct kfd_obj *kfd_pin(struct kfd_call *call, u32 id, u32 classes)
{
	struct kfd_obj *obj;

	if (WARN_ON(call->npins == ARRAY_SIZE(call->pins)))
		return ERR_PTR(-EINVAL);
	obj = kfd_get(call->client, id, classes);
	if (!IS_ERR(obj))
		call->pins[call->npins++] = obj;
	return obj;
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
 * Take away the handle's reference. It has to be the only one, unless calls in progress
 * end: from here on no lookup returns the object.
 */
static struct kfd_obj *kfd_obj_close_begin(struct kfd_client *client, u32 id,
					   u32 classes)
{
	struct kfd_obj *obj;

	lockdep_assert_held(&client->closing);
	xa_lock(&client->objects);
	obj = xa_load(&client->objects, id);
	if (!obj) {
		obj = ERR_PTR(-EBADF);
	} else if (!(classes & KFD_CLASS(obj->fclass))) {
		obj = ERR_PTR(-EINVAL);
	} else if (obj->users != 1 && !kfd_classes[obj->fclass].ends_calls) {
		obj = ERR_PTR(-EBUSY);
	} else if (obj->closing) {
		obj = ERR_PTR(-EBADF);
	} else {
		obj->users--;
		obj->closing = kfd_classes[obj->fclass].ends_calls;
	}
	xa_unlock(&client->objects);
	return obj;
}

/* Remove the object or, if its close was refused, make it usable again. */
static void kfd_obj_close_end(struct kfd_obj *obj, bool gone)
{
	struct kfd_client *client = obj->client;
	bool last;

	lockdep_assert_held(&client->closing);
	if (gone)
		kfd_id_drop(client, obj->id);
	xa_lock(&client->objects);
	obj->gone = gone;
	last = gone && !obj->users;
	if (!gone) {
		obj->users++;
		obj->closing = false;
	}
	xa_unlock(&client->objects);
	if (last)
		kfd_obj_free(obj);
}

/*
 * The close of a CQ will not be refused, but has to wait for acknowledgments. Its
 * handle gets its reference back, and the caller one of its own for the time of the
 * wait.
 */
static void kfd_obj_drain_begin(struct kfd_obj *obj)
{
	struct xarray *objects = &obj->client->objects;

	lockdep_assert_held(&obj->client->closing);
	xa_lock(objects);
	obj->users = 2;
	kfd_left_set(obj);
	obj->draining = true;
	xa_unlock(objects);
}

/**
 * kfd_claim() - take an object away from all other calls, to consume or close it
 * @client: the client
 * @id: the handle
 * @classes: KFD_CLASS() of each class that is accepted
 *
 * Context: Process, may sleep. On success client->closing is held until
 * kfd_claim_end().
 * Return: the object or an ERR_PTR: -EBUSY while something uses it, -EBADF,
 * -EINVAL, -EINTR.
 */
struct kfd_obj *kfd_claim(struct kfd_client *client, u32 id, u32 classes)
{
	struct kfd_obj *obj;

	if (mutex_lock_interruptible(&client->closing))
		return ERR_PTR(-EINTR);
	obj = kfd_obj_close_begin(client, id, classes);
	if (IS_ERR(obj))
		mutex_unlock(&client->closing);
	return obj;
}

/**
 * kfd_claim_end() - end what kfd_claim() began
 * @obj: the object
 * @gone: it was consumed or closed, and its handle ends; else the handle is valid again
 *
 * Context: Process. The caller holds client->closing, which is released.
 */
void kfd_claim_end(struct kfd_obj *obj, bool gone)
{
	struct kfd_client *client = obj->client;

	kfd_obj_close_end(obj, gone);
	mutex_unlock(&client->closing);
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
	if (obj && obj->users && obj->draining)
		kfi_cq_discard_events(kfd_cq_of(obj));
	xa_unlock(&client->objects);
}

/**
 * kfd_obj_close() - close an object and its handle
 * @client: the client
 * @id: the handle
 * @discard: of a CQ: its unacknowledged events are discarded
 *
 * Context: Process, may sleep. Takes client->closing, but waits for the
 * acknowledgments of a CQ's events without a lock.
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
		mutex_unlock(&client->closing);
		ret = kfd_cq_drain(obj);
		kfd_put(obj);
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

	lockdep_assert_held(&obj->client->closing);
	if (obj->fclass == KFI_CLASS_POLL)
		kfd_poll_drain(container_of(obj, struct kfd_poll, obj));
	if (obj->fclass == KFI_CLASS_CQ)
		kfi_cq_discard_events(kfd_cq_of(obj));
	if (IS_ERR(kfd_obj_close_begin(obj->client, obj->id, ~0U)))
		return false;
	gone = !kfd_fid_close(obj);
	kfd_obj_close_end(obj, gone);
	return gone;
}

/* One pass over all objects, leaves first. Return: how many were closed. */
static unsigned int kfd_client_pass(struct kfd_client *client)
{
	unsigned int rank, gone = 0;
	struct kfd_obj *obj;
	unsigned long id;

	lockdep_assert_held(&client->closing);
	for (rank = 0; rank < KFD_RANKS; rank++) {
		xa_for_each(&client->objects, id, obj) {
			if (kfd_classes[obj->fclass].rank == rank)
				gone += kfd_obj_teardown(obj);
			cond_resched();
		}
	}
	return gone;
}

/**
 * kfd_client_free() - close all objects of a client, and free the client
 * @client: the client; its file is being released, so no call is in progress
 *
 * If a pass closes no object and some are left, a reference count is wrong: these
 * objects stay, and this module with them.
 *
 * Context: Process, may sleep. Also runs in a thread that is being killed, so no step
 * may give up on a signal. Takes client->closing, which no other thread can hold.
 */
void kfd_client_free(struct kfd_client *client)
{
	mutex_lock(&client->closing);
	while (!xa_empty(&client->objects) && kfd_client_pass(client))
		;
	mutex_unlock(&client->closing);
	if (WARN(!xa_empty(&client->objects),
		 "kfabric: %u objects of a client that is gone cannot be closed\n",
		 client->count)) {
		__module_get(THIS_MODULE);
		return;
	}
	WARN_ON(client->bytes);
	xa_destroy(&client->objects);
	kfree(client);
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
	arg->out_bytes = client->bytes;
	xa_unlock(&client->objects);
	return 0;
}
