// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Calls on an object of any class: close, bind, control, and the text of an error.
 */
#include "kfd.h"

/**
 * kfd_close() - KFAB_IOC_CLOSE
 * @call: the call in progress
 *
 * Context: Process, may sleep; without a lock of this module.
 * Return: 0, or a negative errno as listed at struct kfab_close.
 */
long kfd_close(struct kfd_call *call)
{
	struct kfab_close *arg = call->arg;

	return kfd_obj_close(call->client, arg->handle,
			     arg->flags & KFAB_CLOSE_DISCARD_EVENTS);
}

/*
 * Classes that objects are bound to. Not domains: the event of a region would have the
 * region, whose context is a number of the user, where kfd_event_name() looks for an object.
 */
#define KFD_BINDS \
	(KFD_ENDPOINTS | KFD_CLASS(KFI_CLASS_PEP) | KFD_CLASS(KFI_CLASS_MR))

/* Return: the classes that can be bound to an object. */
static u32 kfd_bindable(const struct kfd_obj *obj)
{
	if (obj->fclass == KFI_CLASS_MR)
		return KFD_RECEIVERS | KFD_CLASS(KFI_CLASS_CNTR);
	return KFD_SOURCES | KFD_CLASS(KFI_CLASS_AV);
}

/* Keep other calls from altering the object, and from posting on an endpoint. */
static int kfd_alter_begin(struct kfd_obj *obj)
{
	if (obj->fclass == KFI_CLASS_MR)
		return mutex_lock_killable(&obj->readers);
	return down_write_killable(&kfd_ep_obj(obj)->sem);
}

static void kfd_alter_end(struct kfd_obj *obj)
{
	if (obj->fclass == KFI_CLASS_MR)
		mutex_unlock(&obj->readers);
	else
		up_write(&kfd_ep_obj(obj)->sem);
}

/**
 * kfd_bind() - KFAB_IOC_BIND
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for writing, or obj->readers of a
 * memory region.
 * Return: 0, or a negative errno as listed at struct kfab_bind.
 */
long kfd_bind(struct kfd_call *call)
{
	struct kfab_bind *arg = call->arg;
	struct kfd_obj *obj, *to;
	int ret;

	obj = kfd_pin(call, arg->handle, KFD_BINDS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	to = kfd_pin(call, arg->to, kfd_bindable(obj));
	if (IS_ERR(to))
		return PTR_ERR(to);
	if (kfd_alter_begin(obj))
		return -EINTR;
	ret = obj->fid->ops->bind(obj->fid, to->fid, arg->bind_flags);
	kfd_alter_end(obj);
	return ret;
}

static long kfd_enable(struct kfd_call *call, u32 handle)
{
	struct kfd_obj *obj;
	int ret;

	obj = kfd_pin(call, handle, KFD_BINDS & ~KFD_CLASS(KFI_CLASS_PEP));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (kfd_alter_begin(obj))
		return -EINTR;
	ret = obj->fid->ops->control(obj->fid, KFI_ENABLE, NULL);
	kfd_alter_end(obj);
	/*
	 * The command has no output and cannot be undone, so the structure is not
	 * written: a fault would report a failure that did not happen.
	 */
	call->answered = true;
	return ret;
}

/**
 * kfd_control() - KFAB_IOC_CONTROL
 * @call: the call in progress
 *
 * Context: Process, may sleep. KFAB_ENABLE takes ep->sem for writing, or obj->readers
 * of a memory region.
 * Return: 0, or a negative errno as listed at struct kfab_control.
 */
long kfd_control(struct kfd_call *call)
{
	struct kfab_control *arg = call->arg;

	switch (arg->command) {
	case KFI_ENABLE:
		return kfd_enable(call, arg->handle);
	case KFI_GETWAIT:
	case KFI_GETWAITOBJ:
	case KFI_GETFIDFLAG:
	case KFI_SETFIDFLAG:
		return kfd_wait_control(call);
	default:
		return arg->command < KFI_GETWAITOBJ ? -EOPNOTSUPP : -EINVAL;
	}
}

static const char *kfd_error_text(const struct kfd_obj *obj, int err)
{
	const char *text;

	if (!obj)
		return kfi_strerror(kfi_errno_from_user(err));
	if (obj->fclass == KFI_CLASS_CQ)
		text = kfi_cq_strerror(kfd_cq_of(obj), err, NULL, NULL, 0);
	else
		text = kfi_eq_strerror(kfd_eq_of(obj), err, NULL, NULL, 0);
	return text ?: "";
}

/**
 * kfd_strerror() - KFAB_IOC_STRERROR
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: the length of the text, or a negative errno as listed at
 * struct kfab_strerror.
 */
long kfd_strerror(struct kfd_call *call)
{
	struct kfab_strerror *arg = call->arg;
	struct kfd_obj *obj = NULL;

	if (!arg->buf_size)
		return -EINVAL;
	if (arg->handle)
		obj = kfd_pin(call, arg->handle, KFD_CLASS(KFI_CLASS_CQ) |
						 KFD_CLASS(KFI_CLASS_EQ));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	return kfd_text_put(arg->buf, arg->buf_size,
			    kfd_error_text(obj, arg->err));
}
