// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Event queues: open, read, write. In the kernel an event names objects by address;
 * here each address becomes a handle, at the moment of the look. From the look until it
 * is removed the event is held: no other reader gets it. The object that it is about
 * may be closed meanwhile, and then only the handle is left of it.
 */
#include "kfd.h"

/**
 * struct kfd_event - an event on its way to the user
 * @slot: the event as kfabric stores it
 * @written: it is one of EQ_WRITE: about no object of kfabric's
 * @handle: of the object that it is about
 * @context: of that object
 */
struct kfd_event {
	struct kfi_eq_slot slot;
	bool written;
	u32 handle;
	u64 context;
};

/**
 * struct kfd_written - the payload of an event that a user wrote
 * @entry: its fid is NULL. No provider reports a NULL fid, so this is how a read
 *	   recognises an event that a user wrote
 * @handle: the handle that the user gave: a number of the program, which the close of
 *	    the object does not take back. No other object ever gets it
 */
struct kfd_written {
	struct kfi_eq_entry entry;
	u32 handle;
};

/*
 * Called under the EQ's lock. Every kfabric object of a client that has events was opened
 * with its struct kfd_obj as context; a region has none, see KFD_BINDS.
 */
static void kfd_event_name(const struct kfid *fid, void *arg)
{
	struct kfd_event *ev = arg;
	const struct kfd_obj *obj;

	ev->written = !fid;
	if (!fid)
		return;
	obj = fid->context;
	ev->handle = obj->id;
	ev->context = obj->context;
}

static const struct kfi_eq_cm_entry *kfd_event_cm(const struct kfd_event *ev)
{
	return (const void *)ev->slot.payload;
}

static bool kfd_event_is_cm(const struct kfd_event *ev)
{
	return !ev->written && ev->slot.len >= sizeof(struct kfi_eq_cm_entry) &&
	       (ev->slot.event == KFI_CONNREQ || ev->slot.event == KFI_CONNECTED ||
		ev->slot.event == KFI_SHUTDOWN);
}

static bool kfd_event_is_request(const struct kfd_event *ev)
{
	return ev->slot.event == KFI_CONNREQ && kfd_event_is_cm(ev) &&
	       kfd_event_cm(ev)->info;
}

static void kfd_event_written(struct kfab_eq_read *arg,
			      const struct kfd_event *ev)
{
	const struct kfd_written *written = (const void *)ev->slot.payload;

	if (ev->slot.len >= sizeof(*written))
		arg->out_handle = written->handle;
	arg->out_context = (uintptr_t)written->entry.context;
	arg->out_data = written->entry.data;
}

/* Private data of a connection event. */
static int kfd_event_put_data(struct kfab_eq_read *arg,
			      const struct kfd_event *ev)
{
	const struct kfi_eq_cm_entry *cm = kfd_event_cm(ev);
	const size_t len = ev->slot.len - sizeof(*cm);

	if (len > arg->data_len)
		return -KFI_ETOOSMALL;
	if (copy_to_user(u64_to_user_ptr(arg->cm_data), cm->data, len))
		return -EFAULT;
	arg->data_len = len;
	return 0;
}

static int kfd_event_put_info(const struct kfab_eq_read *arg,
			      const struct kfd_event *ev)
{
	struct kfab_info __user *to = u64_to_user_ptr(arg->info);
	u32 size;

	if (!to || !kfd_event_is_request(ev))
		return 0;
	if (get_user(size, &to->size))
		return -EFAULT;
	if (size < offsetofend(struct kfab_info, api_version) || size > PAGE_SIZE)
		return -EINVAL;
	return kfd_info_put(to, size, kfd_event_cm(ev)->info);
}

/* Fill in the answer, and write what it points to. */
static int kfd_event_put(struct kfab_eq_read *arg, const struct kfd_event *ev)
{
	const struct kfi_eq_entry *entry = (const void *)ev->slot.payload;
	int ret;

	arg->out_event = ev->slot.event;
	arg->out_handle = ev->handle;
	arg->out_context = ev->context;
	arg->out_data = 0;
	arg->out_connreq = 0;
	if (!kfd_event_is_cm(ev)) {
		if (ev->written)
			kfd_event_written(arg, ev);
		else
			arg->out_data = entry->data;
		arg->data_len = 0;
		return 0;
	}
	ret = kfd_event_put_data(arg, ev);
	return ret ?: kfd_event_put_info(arg, ev);
}

/*
 * Make an object of the request; from then on the object owns the info. The caller
 * settles the event as taken.
 */
static int kfd_event_take_request(struct kfd_call *call, struct kfd_eq *eq,
				  const struct kfd_event *ev)
{
	struct kfab_eq_read *arg = call->arg;
	struct kfd_connreq *req;
	struct kfd_obj *obj;
	int ret;

	lockdep_assert_held(&eq->obj.readers);
	obj = kfd_obj_new(call->client, KFI_CLASS_CONNREQ);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	arg->out_connreq = obj->id;
	ret = kfd_answer(call);
	if (ret) {
		kfd_obj_abort(obj);
		return ret;
	}
	req = container_of(obj, struct kfd_connreq, obj);
	req->info = kfd_event_cm(ev)->info;
	req->fabric = eq->fabric;
	kfd_hold(req->fabric);
	kfd_obj_finalize(obj);
	return 0;
}

/* Answer with an event that is held. */
static int kfd_event_hand_out(struct kfd_call *call, struct kfd_eq *eq,
			      const struct kfd_event *ev)
{
	const struct kfab_eq_read *arg = call->arg;
	int ret;

	lockdep_assert_held(&eq->obj.readers);
	ret = kfd_event_put(call->arg, ev);
	if (ret)
		return ret;
	if (kfd_event_is_request(ev) && !(arg->read_flags & KFI_PEEK))
		return kfd_event_take_request(call, eq, ev);
	return kfd_answer(call);
}

/* Look, answer, and only then remove. */
static int kfd_eq_read_locked(struct kfd_call *call, struct kfd_eq *eq)
{
	const struct kfab_eq_read *arg = call->arg;
	struct kfid_eq *fid = kfd_eq_of(&eq->obj);
	struct kfd_event ev = {};
	int ret;

	lockdep_assert_held(&eq->obj.readers);
	ret = kfi_eq_hold(fid, false, &ev.slot, kfd_event_name, &ev);
	if (ret)
		return ret;
	kfi_test_hook_point(KFI_HOOK_D7, kfi_fid_id(&fid->fid));
	ret = kfd_event_hand_out(call, eq, &ev);
	kfi_eq_settle(fid, &ev.slot, !ret && !(arg->read_flags & KFI_PEEK));
	return ret;
}

/**
 * struct kfd_eq_take - one read of an EQ
 * @call: the call
 * @eq: the EQ
 */
struct kfd_eq_take {
	struct kfd_call *call;
	struct kfd_eq *eq;
};

static ssize_t kfd_eq_take(void *p)
{
	struct kfd_eq_take *take = p;
	int ret;

	if (kfd_read_lock(&take->eq->obj.readers))
		return -EINTR;
	ret = kfd_eq_read_locked(take->call, take->eq);
	mutex_unlock(&take->eq->obj.readers);
	return ret ?: (ssize_t)take->call->usize;
}

static struct kfd_eq *kfd_pin_eq(struct kfd_call *call, u32 handle)
{
	struct kfd_obj *obj = kfd_pin(call, handle, KFD_CLASS(KFI_CLASS_EQ));

	return IS_ERR(obj) ? ERR_CAST(obj) : container_of(obj, struct kfd_eq, obj);
}

/**
 * kfd_eq_open() - KFAB_IOC_EQ_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_eq_open.
 */
long kfd_eq_open(struct kfd_call *call)
{
	struct kfab_eq_open *arg = call->arg;
	struct kfi_eq_attr attr = {
		.size = arg->entries,
	};
	struct kfd_obj *fabric, *obj;
	struct kfid_eq *eq;
	int ret;

	fabric = kfd_pin(call, arg->fabric, KFD_CLASS(KFI_CLASS_FABRIC));
	if (IS_ERR(fabric))
		return PTR_ERR(fabric);
	ret = kfd_wait_kind(call, arg->wait_obj, arg->wait_set, &attr.wait_obj,
			    &attr.wait_set);
	if (ret)
		return ret;
	obj = kfd_open_begin(call, KFI_CLASS_EQ, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfi_eq_open(kfd_fabric_of(fabric), &attr, &eq, NULL, obj);
	if (ret)
		return ret;
	container_of(obj, struct kfd_eq, obj)->fabric = fabric;
	kfd_open_done(obj, &eq->fid, &arg->out_handle, &arg->out_id);
	kfd_wait_obj_set(call, obj, arg->wait_obj);
	return 0;
}

/**
 * kfd_eq_read() - KFAB_IOC_EQ_READ
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers.
 * Return: the size of the structure, or a negative errno as listed at
 * struct kfab_eq_read.
 */
long kfd_eq_read(struct kfd_call *call)
{
	const struct kfab_eq_read *arg = call->arg;
	struct kfd_eq_take take = {
		.call = call,
		.eq = kfd_pin_eq(call, arg->eq),
	};

	if (IS_ERR(take.eq))
		return PTR_ERR(take.eq);
	if (arg->deadline || (arg->read_flags & ~KFI_PEEK))
		return -EINVAL;
	return kfd_eq_take(&take);
}

/**
 * kfd_eq_sread() - KFAB_IOC_EQ_SREAD
 * @call: the call in progress
 *
 * Context: Process; sleeps without a lock of this module. Takes obj->readers for each attempt.
 * Return: the size of the structure, or a negative errno as listed at
 * struct kfab_eq_read.
 */
long kfd_eq_sread(struct kfd_call *call)
{
	const struct kfab_eq_read *arg = call->arg;
	struct kfd_eq_take take = {
		.call = call,
		.eq = kfd_pin_eq(call, arg->eq),
	};
	ktime_t deadline;
	ssize_t ret;

	if (IS_ERR(take.eq))
		return PTR_ERR(take.eq);
	if (arg->read_flags & ~KFI_PEEK)
		return -EINVAL;
	ret = kfd_deadline(arg->deadline, &deadline);
	if (ret)
		return ret;
	ret = kfi_eq_wait_take(kfd_eq_of(&take.eq->obj), arg->read_flags,
			       deadline, kfd_eq_take, &take);
	return ret == -ETIMEDOUT ? -EAGAIN : ret;
}

static int kfd_error_hand_out(struct kfd_call *call, const struct kfd_event *ev)
{
	const struct kfi_eq_err_entry *err = &ev->slot.err;
	struct kfab_eq_readerr *arg = call->arg;
	int ret;

	arg->out_handle = ev->handle;
	arg->out_context = ev->context;
	arg->out_data = err->data;
	arg->out_err = kfi_errno_to_user(err->err);
	arg->out_prov_errno = err->prov_errno;
	ret = kfd_err_data_put(arg->err_data, &arg->err_data_size,
			       ev->slot.payload, ev->slot.len);
	return ret ?: kfd_answer(call);
}

/* Look, answer, and only then remove. */
static int kfd_eq_readerr_locked(struct kfd_call *call, struct kfd_eq *eq)
{
	const struct kfab_eq_readerr *arg = call->arg;
	struct kfid_eq *fid = kfd_eq_of(&eq->obj);
	struct kfd_event ev = {};
	int ret;

	lockdep_assert_held(&eq->obj.readers);
	ret = kfi_eq_hold(fid, true, &ev.slot, kfd_event_name, &ev);
	if (ret)
		return ret;
	ret = kfd_error_hand_out(call, &ev);
	kfi_eq_settle(fid, &ev.slot, !ret && !(arg->read_flags & KFI_PEEK));
	return ret;
}

/**
 * kfd_eq_readerr() - KFAB_IOC_EQ_READERR
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers.
 * Return: the size of the structure, or a negative errno as listed at
 * struct kfab_eq_readerr.
 */
long kfd_eq_readerr(struct kfd_call *call)
{
	const struct kfab_eq_readerr *arg = call->arg;
	struct kfd_eq *eq = kfd_pin_eq(call, arg->eq);
	int ret;

	if (IS_ERR(eq))
		return PTR_ERR(eq);
	if (arg->read_flags & ~KFI_PEEK)
		return -EINVAL;
	if (kfd_read_lock(&eq->obj.readers))
		return -EINTR;
	ret = kfd_eq_readerr_locked(call, eq);
	mutex_unlock(&eq->obj.readers);
	return ret ?: (long)call->usize;
}

/**
 * kfd_eq_write() - KFAB_IOC_EQ_WRITE
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_eq_write.
 */
long kfd_eq_write(struct kfd_call *call)
{
	const struct kfab_eq_write *arg = call->arg;
	const struct kfd_written written = {
		.entry.context = kfd_user_context(arg->context),
		.entry.data = arg->data,
		.handle = arg->handle,
	};
	struct kfd_eq *eq = kfd_pin_eq(call, arg->eq);
	struct kfd_obj *about;
	ssize_t ret;

	if (IS_ERR(eq))
		return PTR_ERR(eq);
	if (arg->handle) {
		about = kfd_pin(call, arg->handle, ~0U);
		if (IS_ERR(about))
			return PTR_ERR(about);
	}
	ret = kfi_eq_write(kfd_eq_of(&eq->obj), arg->event, &written,
			   sizeof(written), 0);
	return ret < 0 ? ret : 0;
}
