// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Endpoints: open, options, and cancelling of operations. Their connections are in
 * cm.c, what is posted on them in msg.c, rma.c and atomic.c.
 */
#include "kfd.h"

static int kfd_ep_open_info(struct kfab_ep_open *arg, struct kfd_obj *domain,
			    struct kfd_obj *obj, struct kfi_info *info)
{
	struct kfid_ep *ep;
	int ret = kfi_endpoint(kfd_domain_of(domain), info, &ep, obj);

	if (ret)
		return ret;
	kfi_ep_watch(ep, kfd_op_report);
	kfd_open_done(obj, &ep->fid, &arg->out_handle, &arg->out_id);
	return 0;
}

/* Use the info of the request, or the caller's with the request's handle. */
static int kfd_ep_open_request(struct kfab_ep_open *arg, struct kfd_obj *domain,
			       struct kfd_obj *obj, struct kfd_connreq *req)
{
	struct kfi_info *info;
	int ret;

	if (!arg->info)
		return kfd_ep_open_info(arg, domain, obj, req->info);
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	info->handle = req->info->handle;
	ret = kfd_ep_open_info(arg, domain, obj, info);
	kfi_freeinfo(info);
	return ret;
}

/*
 * The endpoint consumes the request, and closing the endpoint cannot bring the
 * request back. So the structure is written once before, unchanged: a caller whose
 * memory cannot be written keeps the request.
 */
static long kfd_ep_open_accepting(struct kfd_call *call, struct kfd_obj *domain,
				  struct kfd_obj *obj)
{
	struct kfab_ep_open *arg = call->arg;
	struct kfd_obj *req;
	int ret;

	ret = kfd_answer(call);
	if (ret)
		return ret;
	call->answered = false;

	req = kfd_claim(call->client, arg->connreq, KFD_CLASS(KFI_CLASS_CONNREQ));
	if (IS_ERR(req))
		return PTR_ERR(req);
	ret = kfd_ep_open_request(arg, domain, obj,
				  container_of(req, struct kfd_connreq, obj));
	kfd_claim_end(req, !ret);
	return ret;
}

/**
 * kfd_ep_open() - KFAB_IOC_EP_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_ep_open.
 */
long kfd_ep_open(struct kfd_call *call)
{
	struct kfab_ep_open *arg = call->arg;
	struct kfd_obj *domain, *obj;
	struct kfi_info *info;
	int ret;

	domain = kfd_pin(call, arg->domain, KFD_CLASS(KFI_CLASS_DOMAIN));
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	obj = kfd_open_begin(call, KFI_CLASS_EP, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (arg->connreq)
		return kfd_ep_open_accepting(call, domain, obj);
	info = kfd_info_get(arg->info);
	if (IS_ERR(info))
		return PTR_ERR(info);
	ret = kfd_ep_open_info(arg, domain, obj, info);
	kfi_freeinfo(info);
	return ret;
}

/**
 * kfd_cancel() - KFAB_IOC_CANCEL
 * @call: the call in progress
 *
 * One thread searches at a time, since reports wait for each search.
 *
 * Context: Process, may sleep. Takes ep->sem for reading, and obj->readers.
 * Return: 0, or a negative errno as listed at struct kfab_cancel.
 */
long kfd_cancel(struct kfd_call *call)
{
	struct kfab_cancel *arg = call->arg;
	struct kfd_obj *obj;
	long ret;

	obj = kfd_pin(call, arg->ep, KFD_SENDERS | KFD_RECEIVERS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (down_read_interruptible(&kfd_ep_obj(obj)->sem))
		return -EINTR;
	if (!KFD_HAS(kfd_ep_of(obj)->ops, cancel)) {
		ret = -EOPNOTSUPP;
	} else if (kfd_read_lock(&obj->readers)) {
		ret = -EINTR;
	} else {
		ret = kfd_op_cancel(kfd_ep_obj(obj), arg->context);
		mutex_unlock(&obj->readers);
	}
	up_read(&kfd_ep_obj(obj)->sem);
	return ret;
}

/**
 * kfd_getopt() - KFAB_IOC_GETOPT
 * @call: the call in progress
 *
 * Every option that exists has the type size_t.
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_opt.
 */
long kfd_getopt(struct kfd_call *call)
{
	struct kfab_opt *arg = call->arg;
	size_t value = 0, len = sizeof(value);
	struct kfd_obj *obj;
	int ret = -EOPNOTSUPP;

	obj = kfd_pin(call, arg->handle, KFD_ENDPOINTS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (down_read_interruptible(&kfd_ep_obj(obj)->sem))
		return -EINTR;
	if (KFD_HAS(kfd_ep_of(obj)->ops, getopt))
		ret = kfi_getopt(obj->fid, arg->level, arg->optname, &value,
				 &len);
	up_read(&kfd_ep_obj(obj)->sem);
	if (!ret)
		arg->value = value;
	return ret;
}

/**
 * kfd_setopt() - KFAB_IOC_SETOPT
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for writing.
 * Return: 0, or a negative errno as listed at struct kfab_opt.
 */
long kfd_setopt(struct kfd_call *call)
{
	struct kfab_opt *arg = call->arg;
	const size_t value = arg->value;
	struct kfd_obj *obj;
	int ret = -EOPNOTSUPP;

	obj = kfd_pin(call, arg->handle, KFD_ENDPOINTS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (down_write_killable(&kfd_ep_obj(obj)->sem))
		return -EINTR;
	if (KFD_HAS(kfd_ep_of(obj)->ops, setopt))
		ret = kfi_setopt(obj->fid, arg->level, arg->optname, &value,
				 sizeof(value));
	up_write(&kfd_ep_obj(obj)->sem);
	return ret;
}
