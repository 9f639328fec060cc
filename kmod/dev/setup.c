// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Opening what has no connection, binding, control, texts of errors. Endpoints
 * are in cm.c, buffers and regions in buf.c and data.c.
 */
#include "kfd.h"

/* KFAB_IOC_VERSION */
long kfd_version(struct kfd_call *call)
{
	struct kfab_version *arg = call->arg;

	arg->out_abi = KFAB_ABI_VERSION;
	arg->out_api = kfi_version();
	arg->out_max_objects = READ_ONCE(kfd_max_objects);
	arg->out_max_bytes = READ_ONCE(kfd_max_bytes);
	kfd_client_sums(call->client, arg);
	return 0;
}

/* KFAB_IOC_CLOSE */
long kfd_close(struct kfd_call *call)
{
	struct kfab_close *arg = call->arg;

	return kfd_obj_close(call->client, arg->handle,
			     arg->flags & KFAB_CLOSE_DISCARD_EVENTS);
}

/* KFAB_IOC_FABRIC_OPEN */
long kfd_fabric_open(struct kfd_call *call)
{
	struct kfab_fabric_open *arg = call->arg;
	struct kfid_fabric *fabric;
	struct kfi_info *info;
	struct kfd_obj *obj;
	int ret;

	obj = kfd_open_begin(call, KFI_CLASS_FABRIC);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	ret = kfi_fabric(info->fabric_attr, &fabric, obj);
	kfi_freeinfo(info);
	if (ret)
		return ret;
	obj->fid = &fabric->fid;
	arg->out_handle = obj->id;
	arg->out_id = kfi_fid_id(obj->fid);
	return 0;
}

/* KFAB_IOC_DOMAIN_OPEN */
long kfd_domain_open(struct kfd_call *call)
{
	struct kfab_domain_open *arg = call->arg;
	struct kfd_obj *fabric, *obj;
	struct kfid_domain *domain;
	struct kfi_info *info;
	int ret;

	fabric = kfd_pin(call, arg->fabric, KFD_CLASS(KFI_CLASS_FABRIC));
	if (IS_ERR(fabric))
		return PTR_ERR(fabric);
	obj = kfd_open_begin(call, KFI_CLASS_DOMAIN);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	ret = kfi_domain(kfd_fabric_of(fabric), info, &domain, obj);
	kfi_freeinfo(info);
	if (ret)
		return ret;
	obj->fid = &domain->fid;
	arg->out_handle = obj->id;
	arg->out_id = kfi_fid_id(obj->fid);
	return 0;
}

/* KFAB_IOC_EQ_OPEN */
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
	obj = kfd_open_begin(call, KFI_CLASS_EQ);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	ret = kfi_eq_open(kfd_fabric_of(fabric), &attr, &eq, NULL, obj);
	if (ret)
		return ret;
	container_of(obj, struct kfd_eq, obj)->fabric = fabric;
	obj->fid = &eq->fid;
	kfd_waits_by(call, obj, arg->wait_obj);
	arg->out_handle = obj->id;
	arg->out_id = kfi_fid_id(obj->fid);
	return 0;
}

/* KFAB_IOC_WAIT_OPEN */
long kfd_wait_open(struct kfd_call *call)
{
	struct kfab_wait_open *arg = call->arg;
	struct kfi_wait_attr attr = { .wait_obj = kfd_set_kind(arg->wait_obj) };
	struct kfd_obj *fabric, *obj;
	struct kfid_wait *wait;
	int ret;

	fabric = kfd_pin(call, arg->fabric, KFD_CLASS(KFI_CLASS_FABRIC));
	if (IS_ERR(fabric))
		return PTR_ERR(fabric);
	obj = kfd_open_begin(call, KFI_CLASS_WAIT);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	ret = kfi_wait_open(kfd_fabric_of(fabric), &attr, &wait);
	if (ret)
		return ret;
	obj->fid = &wait->kfid;
	kfd_waits_by(call, obj, arg->wait_obj);
	arg->out_handle = obj->id;
	arg->out_id = kfi_fid_id(obj->fid);
	return 0;
}

/* KFAB_IOC_CQ_OPEN */
long kfd_cq_open(struct kfd_call *call)
{
	struct kfab_cq_open *arg = call->arg;
	struct kfi_cq_attr attr = {
		.size = arg->entries,
		.flags = arg->cq_flags,
		/* Unspecified is our choice: the format that has everything. */
		.format = arg->format ?: KFI_CQ_FORMAT_TAGGED,
		.signaling_vector = arg->signaling_vector,
		.wait_cond = arg->wait_cond,
	};
	struct kfd_obj *domain, *obj;
	struct kfid_cq *cq;
	int ret;

	domain = kfd_pin(call, arg->domain, KFD_CLASS(KFI_CLASS_DOMAIN));
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	ret = kfd_wait_kind(call, arg->wait_obj, arg->wait_set, &attr.wait_obj,
			    &attr.wait_set);
	if (ret)
		return ret;
	obj = kfd_open_begin(call, KFI_CLASS_CQ);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	ret = kfi_cq_open(kfd_domain_of(domain), &attr, &cq, NULL, obj);
	if (ret)
		return ret;
	container_of(obj, struct kfd_cq, obj)->format = attr.format;
	container_of(obj, struct kfd_cq, obj)->cond = attr.wait_cond;
	obj->fid = &cq->fid;
	kfd_waits_by(call, obj, arg->wait_obj);
	arg->out_handle = obj->id;
	arg->out_id = kfi_fid_id(obj->fid);
	return 0;
}

/* KFAB_IOC_CNTR_OPEN */
long kfd_cntr_open(struct kfd_call *call)
{
	struct kfab_cntr_open *arg = call->arg;
	struct kfi_cntr_attr attr = {
		.events = arg->events,
	};
	struct kfd_obj *domain, *obj;
	struct kfid_cntr *cntr;
	int ret;

	domain = kfd_pin(call, arg->domain, KFD_CLASS(KFI_CLASS_DOMAIN));
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	ret = kfd_wait_kind(call, arg->wait_obj, arg->wait_set, &attr.wait_obj,
			    &attr.wait_set);
	if (ret)
		return ret;
	obj = kfd_open_begin(call, KFI_CLASS_CNTR);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	ret = kfi_cntr_open(kfd_domain_of(domain), &attr, &cntr, obj);
	if (ret)
		return ret;
	obj->fid = &cntr->fid;
	kfd_waits_by(call, obj, arg->wait_obj);
	arg->out_handle = obj->id;
	arg->out_id = kfi_fid_id(obj->fid);
	return 0;
}

/* KFAB_IOC_POLL_OPEN */
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
	obj = kfd_open_begin(call, KFI_CLASS_POLL);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	obj->context = arg->context;
	ret = kfi_poll_open(kfd_domain_of(domain), &attr, &poll);
	if (ret)
		return ret;
	obj->fid = &poll->fid;
	arg->out_handle = obj->id;
	arg->out_id = kfi_fid_id(obj->fid);
	return 0;
}

/* What has bindings, and is useless until they are made. */
#define KFD_ALTERED \
	(KFD_ENDPOINTS | KFD_CLASS(KFI_CLASS_PEP) | KFD_CLASS(KFI_CLASS_MR))

/* The classes of what can be bound to an object. */
static u32 kfd_bindable(const struct kfd_obj *obj)
{
	if (obj->fclass == KFI_CLASS_MR)
		return KFD_RECEIVERS | KFD_CLASS(KFI_CLASS_CNTR);
	return KFD_SOURCES | KFD_CLASS(KFI_CLASS_AV);
}

/* One caller at a time alters an object, and on endpoints nobody posts then. */
static int kfd_alter_begin(struct kfd_obj *obj)
{
	if (obj->fclass == KFI_CLASS_MR)
		return mutex_lock_killable(&obj->readers);
	return down_write_killable(&container_of(obj, struct kfd_ep, obj)->sem);
}

static void kfd_alter_end(struct kfd_obj *obj)
{
	if (obj->fclass == KFI_CLASS_MR)
		mutex_unlock(&obj->readers);
	else
		up_write(&container_of(obj, struct kfd_ep, obj)->sem);
}

/* KFAB_IOC_BIND */
long kfd_bind(struct kfd_call *call)
{
	struct kfab_bind *arg = call->arg;
	struct kfd_obj *obj, *to;
	int ret;

	obj = kfd_pin(call, arg->handle, KFD_ALTERED);
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

/* Endpoints, contexts and regions have the same command. */
static long kfd_enable(struct kfd_call *call, u32 handle)
{
	struct kfd_obj *obj;
	int ret;

	obj = kfd_pin(call, handle, KFD_ALTERED & ~KFD_CLASS(KFI_CLASS_PEP));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (kfd_alter_begin(obj))
		return -EINTR;
	ret = obj->fid->ops->control(obj->fid, KFI_ENABLE, NULL);
	kfd_alter_end(obj);
	/* Nothing to hand out, and it cannot be undone: no fault may matter. */
	call->answered = true;
	return ret;
}

/* KFAB_IOC_CONTROL */
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
		return kfi_strerror(err);
	if (obj->fclass == KFI_CLASS_CQ)
		text = kfi_cq_strerror(kfd_cq_of(obj), err, NULL, NULL, 0);
	else
		text = kfi_eq_strerror(kfd_eq_of(obj), err, NULL, NULL, 0);
	return text ?: "";
}

/* KFAB_IOC_STRERROR */
long kfd_strerror(struct kfd_call *call)
{
	struct kfab_strerror *arg = call->arg;
	char __user *to = u64_to_user_ptr(arg->buf);
	struct kfd_obj *obj = NULL;
	const char *text;
	size_t len;

	if (!arg->buf_size)
		return -EINVAL;
	if (arg->handle)
		obj = kfd_pin(call, arg->handle, KFD_CLASS(KFI_CLASS_CQ) |
						 KFD_CLASS(KFI_CLASS_EQ));
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	text = kfd_error_text(obj, arg->err);
	len = strnlen(text, arg->buf_size - 1);
	if (copy_to_user(to, text, len) || put_user(0, to + len))
		return -EFAULT;
	return len;
}
