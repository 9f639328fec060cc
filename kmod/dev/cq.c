// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Completion queues: open, read, signal. A read looks, copies out, and only then
 * removes; one reader of a CQ at a time does these three. A thread that sleeps until
 * there are entries holds no lock. See channel.c for closing.
 */
#include <linux/sched/signal.h>

#include "kfd.h"

/* Entries of one look. */
#define KFD_CQ_CHUNK 16

/**
 * struct kfd_cq_take - one read of a CQ
 * @call: the call
 * @cq: the CQ
 * @done: entries read so far
 */
struct kfd_cq_take {
	struct kfd_call *call;
	struct kfd_cq *cq;
	u32 done;
};

/* Each format is a prefix of the next, so a field that the CQ lacks stays 0. */
static void kfd_cq_entry(struct kfd_client *client, struct kfab_cq_entry *to,
			 const void *from, size_t size)
{
	struct kfi_cq_tagged_entry entry = {};

	memcpy(&entry, from, size);
	*to = (struct kfab_cq_entry) {
		.context = (uintptr_t)entry.op_context,
		.flags = entry.flags,
		.len = entry.len,
		.data = entry.data,
		.tag = entry.tag,
	};
	to->buf = kfd_buf_named(client, entry.buf, &to->buf_offset);
}

/* Copy out the entries of one look. */
static int kfd_cq_put(struct kfd_cq_take *take, const void *from,
		      const kfi_addr_t *src, unsigned int n)
{
	const struct kfab_cq_read *arg = take->call->arg;
	struct kfab_cq_entry __user *to = u64_to_user_ptr(arg->entries);
	const size_t size = kfi_cq_entry_size(take->cq->format);
	struct kfab_cq_entry entry;
	unsigned int i;

	for (i = 0; i < n; i++) {
		kfd_cq_entry(take->call->client, &entry, from + i * size, size);
		if (arg->flags & KFAB_CQ_SRC_ADDR)
			entry.src_addr = src[i];
		if (copy_to_user(&to[take->done + i], &entry, sizeof(entry)))
			return -EFAULT;
	}
	return 0;
}

/*
 * One look; takes nothing if fewer than @least entries are there. The readers' mutex
 * keeps them until they are removed.
 * Return: how many entries were read, or why there are none.
 */
static ssize_t kfd_cq_read_chunk(struct kfd_cq_take *take, u64 least)
{
	const struct kfab_cq_read *arg = take->call->arg;
	struct kfi_cq_tagged_entry entries[KFD_CQ_CHUNK];
	struct kfid_cq *cq = kfd_cq_of(&take->cq->obj);
	kfi_addr_t src[KFD_CQ_CHUNK];
	ssize_t n;
	int ret;

	lockdep_assert_held(&take->cq->obj.readers);
	n = kfi_cq_peek(cq, entries, min_t(u32, arg->count - take->done,
					   KFD_CQ_CHUNK), src, least);
	if (n <= 0)
		return n;
	kfi_test_hook_point(KFI_HOOK_D7, kfi_fid_id(&cq->fid));
	ret = kfd_cq_put(take, entries, src, n);
	if (ret)
		return ret;
	kfi_cq_consume(cq, n);
	take->done += n;
	return n;
}

/*
 * What is shown in a ring is read there, by a program that has its own count.
 *
 * If entries were read before an error, return them; the next call gets the error. A
 * provider may store entries as fast as they are read, so a signal ends a read that has
 * as many as it must.
 */
static ssize_t kfd_cq_take(void *p, u64 least)
{
	struct kfd_cq_take *take = p;
	const struct kfab_cq_read *arg = take->call->arg;
	ssize_t ret;

	if (kfd_read_lock(&take->cq->obj.readers))
		return -EINTR;
	if (take->cq->ring && arg->count) {
		mutex_unlock(&take->cq->obj.readers);
		return -EBUSY;
	}
	do {
		ret = kfd_cq_read_chunk(take, take->done ? 0 : least);
		cond_resched();
	} while (ret > 0 && take->done < arg->count &&
		 (take->done < least || !signal_pending(current)));
	mutex_unlock(&take->cq->obj.readers);
	if (ret == -EAGAIN && (arg->flags & KFAB_CQ_REPORT_EMPTY))
		return take->done | KFAB_CQ_EMPTY;
	return take->done ? take->done : ret;
}

static struct kfd_cq *kfd_pin_cq(struct kfd_call *call, u32 handle)
{
	struct kfd_obj *obj = kfd_pin(call, handle, KFD_CLASS(KFI_CLASS_CQ));

	return IS_ERR(obj) ? ERR_CAST(obj) : container_of(obj, struct kfd_cq, obj);
}

/**
 * kfd_cq_open() - KFAB_IOC_CQ_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_cq_open.
 */
long kfd_cq_open(struct kfd_call *call)
{
	struct kfab_cq_open *arg = call->arg;
	struct kfi_cq_attr attr = {
		.size = arg->entries,
		.flags = arg->cq_flags,
		/* Unspecified: the format that has every field. */
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
	obj = kfd_open_begin(call, KFI_CLASS_CQ, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfi_cq_open(kfd_domain_of(domain), &attr, &cq, NULL, obj);
	if (ret)
		return ret;
	container_of(obj, struct kfd_cq, obj)->format = attr.format;
	container_of(obj, struct kfd_cq, obj)->cond = attr.wait_cond;
	kfd_open_done(obj, &cq->fid, &arg->out_handle, &arg->out_id);
	kfd_wait_obj_set(call, obj, arg->wait_obj);
	return 0;
}

/**
 * kfd_cq_read() - KFAB_IOC_CQ_READ
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers.
 * Return: the number of entries, perhaps with KFAB_CQ_EMPTY, or a negative errno as
 * listed at struct kfab_cq_read.
 */
long kfd_cq_read(struct kfd_call *call)
{
	const struct kfab_cq_read *arg = call->arg;
	struct kfd_cq_take take = {
		.call = call,
		.cq = kfd_pin_cq(call, arg->cq),
	};

	if (IS_ERR(take.cq))
		return PTR_ERR(take.cq);
	if (arg->cond || arg->deadline || arg->count >= KFAB_CQ_EMPTY)
		return -EINVAL;
	return kfd_cq_take(&take, 0);
}

/**
 * kfd_cq_sread() - KFAB_IOC_CQ_SREAD
 * @call: the call in progress
 *
 * Context: Process; sleeps without a lock of this module. Takes obj->readers for each attempt.
 * Return: the number of entries, or a negative errno as listed at
 * struct kfab_cq_read.
 */
long kfd_cq_sread(struct kfd_call *call)
{
	const struct kfab_cq_read *arg = call->arg;
	struct kfd_cq_take take = {
		.call = call,
		.cq = kfd_pin_cq(call, arg->cq),
	};
	ktime_t deadline;
	u64 threshold;
	ssize_t ret;

	if (IS_ERR(take.cq))
		return PTR_ERR(take.cq);
	if (!arg->count || arg->count >= KFAB_CQ_EMPTY)
		return -EINVAL;
	if (READ_ONCE(take.cq->ring))
		return -EBUSY;
	ret = kfd_deadline(arg->deadline, &deadline);
	if (ret)
		return ret;
	threshold = take.cq->cond == KFI_CQ_COND_THRESHOLD ? arg->cond : 1;
	ret = kfi_cq_wait_take(kfd_cq_of(&take.cq->obj), threshold, deadline,
			       kfd_cq_take, &take);
	return ret == -ETIMEDOUT ? -EAGAIN : ret;
}

/* Look, answer, and only then remove. */
static long kfd_cq_readerr_locked(struct kfd_call *call, struct kfd_obj *obj)
{
	struct kfid_cq *cq = kfd_cq_of(obj);
	struct kfab_cq_readerr *arg = call->arg;
	u8 data[KFAB_ERR_DATA_MAX];
	struct kfi_cq_err_entry err = {
		.err_data = data,
		.err_data_size = sizeof(data),
	};
	ssize_t ret;

	lockdep_assert_held(&obj->readers);
	ret = kfi_cq_readerr(cq, &err, KFI_PEEK);
	if (ret < 0)
		return ret;
	arg->out_context = (uintptr_t)err.op_context;
	arg->out_flags = err.flags;
	arg->out_len = err.len;
	arg->out_data = err.data;
	arg->out_tag = err.tag;
	arg->out_olen = err.olen;
	arg->out_buf = kfd_buf_named(call->client, err.buf, &arg->out_buf_offset);
	arg->out_err = kfi_errno_to_user(err.err);
	arg->out_prov_errno = err.prov_errno;
	ret = kfd_err_data_put(arg->err_data, &arg->err_data_size, err.err_data,
			       err.err_data_size);
	ret = ret ?: kfd_answer(call);
	if (ret)
		return ret;
	if (!(arg->read_flags & KFI_PEEK))
		kfi_cq_consume_err(cq);
	return 1;
}

/**
 * kfd_cq_readerr() - KFAB_IOC_CQ_READERR
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers.
 * Return: 1, or a negative errno as listed at struct kfab_cq_readerr.
 */
long kfd_cq_readerr(struct kfd_call *call)
{
	const struct kfab_cq_readerr *arg = call->arg;
	struct kfd_cq *cq = kfd_pin_cq(call, arg->cq);
	long ret;

	if (IS_ERR(cq))
		return PTR_ERR(cq);
	if (arg->read_flags & ~KFI_PEEK)
		return -EINVAL;
	if (kfd_read_lock(&cq->obj.readers))
		return -EINTR;
	ret = kfd_cq_readerr_locked(call, &cq->obj);
	mutex_unlock(&cq->obj.readers);
	return ret;
}

/**
 * kfd_cq_signal() - KFAB_IOC_CQ_SIGNAL
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_cq_signal.
 */
long kfd_cq_signal(struct kfd_call *call)
{
	const struct kfab_cq_signal *arg = call->arg;
	struct kfd_cq *cq = kfd_pin_cq(call, arg->cq);

	if (IS_ERR(cq))
		return PTR_ERR(cq);
	return kfi_cq_signal(kfd_cq_of(&cq->obj));
}
