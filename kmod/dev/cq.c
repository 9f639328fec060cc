// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Reading completions: look, copy out, and only then remove. One reader of a CQ
 * at a time does these three; a thread that waits for entries holds nothing.
 */
#include "kfd.h"

/* Entries that are looked at together. */
#define KFD_CQ_CHUNK 16

/**
 * struct kfd_cq_take - one read of a CQ
 * @call: the call
 * @cq: the CQ
 * @done: entries read
 */
struct kfd_cq_take {
	struct kfd_call *call;
	struct kfd_cq *cq;
	u32 done;
};

/* Formats are prefixes of each other: what is not there stays 0. */
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
	to->buf = kfd_buf_find(client, entry.buf, &to->buf_offset);
}

/* Copy out what was looked at. */
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

/* A few entries. Return: how many; or why there are none. */
static ssize_t kfd_cq_read_chunk(struct kfd_cq_take *take)
{
	const struct kfab_cq_read *arg = take->call->arg;
	struct kfi_cq_tagged_entry entries[KFD_CQ_CHUNK];
	struct kfid_cq *cq = kfd_cq_of(&take->cq->obj);
	kfi_addr_t src[KFD_CQ_CHUNK];
	ssize_t n;
	int ret;

	n = kfi_cq_peek(cq, entries, min_t(u32, arg->count - take->done,
					   KFD_CQ_CHUNK), src);
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

/* What was read counts, whatever came behind it: the next call tells. */
static ssize_t kfd_cq_take(void *p)
{
	struct kfd_cq_take *take = p;
	const struct kfab_cq_read *arg = take->call->arg;
	ssize_t ret;

	if (mutex_lock_interruptible(&take->cq->obj.readers))
		return -EINTR;
	do {
		ret = kfd_cq_read_chunk(take);
	} while (ret > 0 && take->done < arg->count);
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

/* KFAB_IOC_CQ_READ */
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
	return kfd_cq_take(&take);
}

/* KFAB_IOC_CQ_SREAD */
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
	ret = kfd_deadline(arg->deadline, &deadline);
	if (ret)
		return ret;
	threshold = take.cq->cond == KFI_CQ_COND_THRESHOLD ? arg->cond : 1;
	ret = kfi_cq_wait_take(kfd_cq_of(&take.cq->obj), threshold, deadline,
			       kfd_cq_take, &take);
	return ret == -ETIMEDOUT ? -EAGAIN : ret;
}

/* Look, answer, remove. The caller holds obj->readers. */
static long kfd_cq_readerr_locked(struct kfd_call *call, struct kfid_cq *cq)
{
	struct kfab_cq_readerr *arg = call->arg;
	u8 data[KFAB_ERR_DATA_MAX];
	struct kfi_cq_err_entry err = {
		.err_data = data,
		.err_data_size = sizeof(data),
	};
	ssize_t ret;

	ret = kfi_cq_readerr(cq, &err, KFI_PEEK);
	if (ret < 0)
		return ret;
	arg->out_context = (uintptr_t)err.op_context;
	arg->out_flags = err.flags;
	arg->out_len = err.len;
	arg->out_data = err.data;
	arg->out_tag = err.tag;
	arg->out_olen = err.olen;
	arg->out_buf = kfd_buf_find(call->client, err.buf, &arg->out_buf_offset);
	arg->out_err = err.err;
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

/* KFAB_IOC_CQ_READERR */
long kfd_cq_readerr(struct kfd_call *call)
{
	const struct kfab_cq_readerr *arg = call->arg;
	struct kfd_cq *cq = kfd_pin_cq(call, arg->cq);
	long ret;

	if (IS_ERR(cq))
		return PTR_ERR(cq);
	if (arg->read_flags & ~KFI_PEEK)
		return -EINVAL;
	if (mutex_lock_interruptible(&cq->obj.readers))
		return -EINTR;
	ret = kfd_cq_readerr_locked(call, kfd_cq_of(&cq->obj));
	mutex_unlock(&cq->obj.readers);
	return ret;
}

/* KFAB_IOC_CQ_SIGNAL */
long kfd_cq_signal(struct kfd_call *call)
{
	const struct kfab_cq_signal *arg = call->arg;
	struct kfd_cq *cq = kfd_pin_cq(call, arg->cq);

	if (IS_ERR(cq))
		return PTR_ERR(cq);
	return kfi_cq_signal(kfd_cq_of(&cq->obj));
}
