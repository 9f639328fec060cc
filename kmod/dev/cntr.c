// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Counters.
 */
#include "kfd.h"

/**
 * kfd_cntr_open() - KFAB_IOC_CNTR_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_cntr_open.
 */
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
	obj = kfd_open_begin(call, KFI_CLASS_CNTR, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfi_cntr_open(kfd_domain_of(domain), &attr, &cntr, obj);
	if (ret)
		return ret;
	kfd_open_done(obj, &cntr->fid, &arg->out_handle, &arg->out_id);
	kfd_wait_obj_set(call, obj, arg->wait_obj);
	return 0;
}

static struct kfd_obj *kfd_pin_cntr(struct kfd_call *call, u32 handle)
{
	return kfd_pin(call, handle, KFD_CLASS(KFI_CLASS_CNTR));
}

/* Look, answer, and only then mark the value as read. */
static long kfd_cntr_look(struct kfd_call *call,
			  u64 (*peek)(struct kfid_cntr *cntr, u64 *change),
			  void (*mark)(struct kfid_cntr *cntr, u64 change))
{
	struct kfab_cntr *arg = call->arg;
	struct kfd_obj *obj = kfd_pin_cntr(call, arg->cntr);
	u64 change;
	int ret;

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (kfd_read_lock(&obj->readers))
		return -EINTR;
	arg->value = peek(kfd_cntr_of(obj), &change);
	ret = kfd_answer(call);
	if (!ret)
		mark(kfd_cntr_of(obj), change);
	mutex_unlock(&obj->readers);
	return ret;
}

/**
 * kfd_cntr_read() - KFAB_IOC_CNTR_READ
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers.
 * Return: 0, or a negative errno as listed at struct kfab_cntr.
 */
long kfd_cntr_read(struct kfd_call *call)
{
	return kfd_cntr_look(call, kfi_cntr_peek, kfi_cntr_mark);
}

/**
 * kfd_cntr_readerr() - KFAB_IOC_CNTR_READERR
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers.
 * Return: 0, or a negative errno as listed at struct kfab_cntr.
 */
long kfd_cntr_readerr(struct kfd_call *call)
{
	return kfd_cntr_look(call, kfi_cntr_peekerr, kfi_cntr_markerr);
}

static long kfd_cntr_change(struct kfd_call *call,
			    int (*change)(struct kfid_cntr *cntr, uint64_t value))
{
	const struct kfab_cntr *arg = call->arg;
	struct kfd_obj *obj = kfd_pin_cntr(call, arg->cntr);

	return IS_ERR(obj) ? PTR_ERR(obj) : change(kfd_cntr_of(obj), arg->value);
}

/**
 * kfd_cntr_add() - KFAB_IOC_CNTR_ADD
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_cntr.
 */
long kfd_cntr_add(struct kfd_call *call)
{
	return kfd_cntr_change(call, kfi_cntr_add);
}

/**
 * kfd_cntr_set() - KFAB_IOC_CNTR_SET
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_cntr.
 */
long kfd_cntr_set(struct kfd_call *call)
{
	return kfd_cntr_change(call, kfi_cntr_set);
}

/**
 * kfd_cntr_adderr() - KFAB_IOC_CNTR_ADDERR
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_cntr.
 */
long kfd_cntr_adderr(struct kfd_call *call)
{
	return kfd_cntr_change(call, kfi_cntr_adderr);
}

/**
 * kfd_cntr_seterr() - KFAB_IOC_CNTR_SETERR
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_cntr.
 */
long kfd_cntr_seterr(struct kfd_call *call)
{
	return kfd_cntr_change(call, kfi_cntr_seterr);
}

/* One more than those that the call, or the one that goes on with it, began with. */
static u64 kfd_cntr_begun(struct kfid_cntr *cntr, u64 known)
{
	u64 now;

	/* Makes progress, which a call that goes on needs, too. */
	kfi_cntr_peekerr(cntr, &now);
	return known ?: now + 1;
}

/**
 * kfd_cntr_wait() - KFAB_IOC_CNTR_WAIT
 * @call: the call in progress
 *
 * Only a call that is interrupted writes its answer, or one that goes on with it: an
 * error may come before the kernel, or the program, repeats the call.
 *
 * Context: Process; sleeps without a lock of this module.
 * Return: 0, or a negative errno as listed at struct kfab_cntr_wait.
 */
long kfd_cntr_wait(struct kfd_call *call)
{
	struct kfab_cntr_wait *arg = call->arg;
	struct kfd_obj *obj = kfd_pin_cntr(call, arg->cntr);
	u64 begun, known = arg->error_changes;
	ktime_t deadline;
	int ret;

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfd_deadline(arg->deadline, &deadline);
	if (ret)
		return ret;
	begun = kfd_cntr_begun(kfd_cntr_of(obj), known);
	ret = kfi_cntr_wait_until(kfd_cntr_of(obj), arg->threshold, deadline,
				  begun - 1);
	arg->error_changes = ret == -EINTR ? begun : 0;
	if (arg->error_changes != known && kfd_answer(call))
		return -EFAULT;
	return ret;
}
