// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Posting atomics. Lengths are in bytes for users and in elements in the kernel's
 * interface; apart from that both have the same structures, see abi.c.
 */
#include <linux/slab.h>

#include "kfd.h"

/* Bytes of one element. */
static const u8 kfd_atomic_size[] = {
	[KFI_INT8] = 1,
	[KFI_UINT8] = 1,
	[KFI_INT16] = 2,
	[KFI_UINT16] = 2,
	[KFI_INT32] = 4,
	[KFI_UINT32] = 4,
	[KFI_INT64] = 8,
	[KFI_UINT64] = 8,
	[KFI_FLOAT] = 4,
	[KFI_DOUBLE] = 8,
	[KFI_FLOAT_COMPLEX] = 8,
	[KFI_DOUBLE_COMPLEX] = 16,
	[KFI_LONG_DOUBLE] = 16,
	[KFI_LONG_DOUBLE_COMPLEX] = 32,
};

/**
 * struct kfd_atomic - an atomic, as the caller described it
 * @arg: the call's structure
 * @rma: the pieces of the peer's regions
 * @operand: the operands
 * @compare: the values to compare with
 * @result: the room for previous values
 */
struct kfd_atomic {
	const struct kfab_atomic *arg;
	struct kfi_rma_ioc *rma;
	struct kfd_vec operand;
	struct kfd_vec compare;
	struct kfd_vec result;
};

typedef ssize_t (*kfd_atomic_fn)(struct kfid_ep *ep,
				 const struct kfd_atomic *atomic, void *context);

static struct kfi_ioc *kfd_ioc(const struct kfd_vec *vec)
{
	return (struct kfi_ioc *)vec->kvec;
}

/* From bytes to elements, in place. */
static int kfd_vec_count(const struct kfd_vec *vec, size_t size)
{
	unsigned int i;

	for (i = 0; i < vec->n; i++) {
		if (vec->kvec[i].iov_len % size)
			return -EINVAL;
		kfd_ioc(vec)[i].count = vec->kvec[i].iov_len / size;
	}
	return 0;
}

static int kfd_rma_count(struct kfi_rma_ioc *rma, u32 n, size_t size)
{
	u32 i;

	for (i = 0; i < n; i++) {
		if (rma[i].count % size)
			return -EINVAL;
		rma[i].count /= size;
	}
	return 0;
}

static int kfd_atomic_count(const struct kfd_atomic *atomic)
{
	const size_t size = kfd_atomic_size[atomic->arg->datatype];
	int ret;

	ret = kfd_vec_count(&atomic->operand, size);
	ret = ret ?: kfd_vec_count(&atomic->compare, size);
	ret = ret ?: kfd_vec_count(&atomic->result, size);
	return ret ?: kfd_rma_count(atomic->rma, atomic->arg->rma_iov_count,
				    size);
}

static struct kfi_msg_atomic kfd_msg_atomic_of(const struct kfd_atomic *atomic,
					       void *context)
{
	const struct kfab_atomic *arg = atomic->arg;

	return (struct kfi_msg_atomic) {
		.msg_iov = kfd_ioc(&atomic->operand),
		.desc = atomic->operand.desc,
		.iov_count = atomic->operand.n,
		.addr = arg->addr,
		.rma_iov = atomic->rma,
		.rma_iov_count = arg->rma_iov_count,
		.datatype = arg->datatype,
		.op = arg->op,
		.context = context,
	};
}

static ssize_t kfd_post_plain(struct kfid_ep *ep,
			      const struct kfd_atomic *atomic, void *context)
{
	const struct kfi_msg_atomic msg = kfd_msg_atomic_of(atomic, context);

	if (!KFD_HAS(ep->atomic, writemsg))
		return -EOPNOTSUPP;
	return kfi_atomicmsg(ep, &msg, atomic->arg->op_flags);
}

static ssize_t kfd_post_inject_atomic(struct kfid_ep *ep,
				      const struct kfd_atomic *atomic,
				      void *context)
{
	const struct kfab_atomic *arg = atomic->arg;
	const struct kfi_ioc *iov = kfd_ioc(&atomic->operand);

	if (!KFD_HAS(ep->atomic, inject))
		return -EOPNOTSUPP;
	if (iov->count != atomic->rma->count)
		return -EINVAL;
	return kfi_inject_atomic(ep, iov->addr, iov->count, arg->addr,
				 atomic->rma->addr, atomic->rma->key,
				 arg->datatype, arg->op);
}

static ssize_t kfd_post_fetch(struct kfid_ep *ep,
			      const struct kfd_atomic *atomic, void *context)
{
	const struct kfi_msg_atomic msg = kfd_msg_atomic_of(atomic, context);
	const struct kfd_vec *result = &atomic->result;

	if (!KFD_HAS(ep->atomic, readwritemsg))
		return -EOPNOTSUPP;
	return kfi_fetch_atomicmsg(ep, &msg, kfd_ioc(result), result->desc,
				   result->n, atomic->arg->op_flags);
}

static ssize_t kfd_post_compare(struct kfid_ep *ep,
				const struct kfd_atomic *atomic, void *context)
{
	const struct kfi_msg_atomic msg = kfd_msg_atomic_of(atomic, context);
	const struct kfd_vec *compare = &atomic->compare;
	const struct kfd_vec *result = &atomic->result;

	if (!KFD_HAS(ep->atomic, compwritemsg))
		return -EOPNOTSUPP;
	return kfi_compare_atomicmsg(ep, &msg, kfd_ioc(compare), compare->desc,
				     compare->n, kfd_ioc(result), result->desc,
				     result->n, atomic->arg->op_flags);
}

static struct kfd_op *kfd_atomic_op(const struct kfd_atomic *atomic)
{
	struct kfd_op *op = kfd_op_new(atomic->arg->context,
				       atomic->operand.n + atomic->compare.n +
				       atomic->result.n);

	if (!op)
		return NULL;
	kfd_op_hold(op, &atomic->operand);
	kfd_op_hold(op, &atomic->compare);
	kfd_op_hold(op, &atomic->result);
	return op;
}

static long kfd_atomic_post(struct kfd_ep *ep, const struct kfd_atomic *atomic,
			    struct kfd_op *op, kfd_atomic_fn post)
{
	long ret;

	if (down_read_interruptible(&ep->sem))
		return -EINTR;
	if (op)
		kfd_op_begin(ep, op);
	ret = post(kfd_ep_of(&ep->obj), atomic, op);
	if (op && ret)
		kfd_op_end(ep, op);
	up_read(&ep->sem);
	return ret;
}

static long kfd_atomic_post_held(struct kfd_ep *ep, const struct kfd_atomic *atomic,
				 kfd_atomic_fn post)
{
	struct kfd_op *op = kfd_atomic_op(atomic);
	long ret;

	if (!op)
		return -ENOMEM;
	ret = kfd_atomic_post(ep, atomic, op, post);
	kfd_op_put(op);
	return ret;
}

/* Release what kfd_atomic_get() looked up, also after it failed. */
static void kfd_atomic_put(struct kfd_atomic *atomic)
{
	if (atomic->operand.kvec)
		kfd_vec_put(&atomic->operand);
	if (atomic->compare.kvec)
		kfd_vec_put(&atomic->compare);
	if (atomic->result.kvec)
		kfd_vec_put(&atomic->result);
	kfree(atomic->rma);
}

/* Look up one of the three vectors; kvec is NULL if that fails. */
static int kfd_atomic_vec(struct kfd_client *client, struct kfd_vec *vec,
			  u64 uaddr, u32 count)
{
	int ret = kfd_vec_get(client, vec, uaddr, count);

	if (ret)
		vec->kvec = NULL;
	return ret;
}

static int kfd_atomic_get(struct kfd_client *client, struct kfd_atomic *atomic)
{
	const struct kfab_atomic *arg = atomic->arg;
	void *rma;
	int ret;

	rma = memdup_user(u64_to_user_ptr(arg->rma_iov),
			  arg->rma_iov_count * sizeof(struct kfab_rma_iov));
	if (IS_ERR(rma))
		return PTR_ERR(rma);
	atomic->rma = rma;
	ret = kfd_atomic_vec(client, &atomic->operand, arg->iov,
			     arg->iov_count);
	ret = ret ?: kfd_atomic_vec(client, &atomic->compare, arg->compare,
				    arg->compare_count);
	return ret ?: kfd_atomic_vec(client, &atomic->result, arg->result,
				     arg->result_count);
}

/* @hold: as for kfd_post_msg(). */
static long kfd_atomic_call(struct kfd_call *call, bool hold, kfd_atomic_fn post)
{
	const struct kfab_atomic *arg = call->arg;
	struct kfd_atomic atomic = { .arg = arg };
	struct kfd_obj *obj;
	long ret;

	if (arg->datatype >= KFI_DATATYPE_LAST ||
	    arg->op >= KFI_ATOMIC_OP_LAST || !arg->rma_iov_count ||
	    arg->rma_iov_count > KFAB_IOV_MAX)
		return -EINVAL;
	obj = kfd_pin(call, arg->ep, KFD_SENDERS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfd_atomic_get(call->client, &atomic);
	ret = ret ?: kfd_atomic_count(&atomic);
	if (!ret && hold)
		ret = kfd_atomic_post_held(kfd_ep_obj(obj), &atomic, post);
	else if (!ret)
		ret = kfd_atomic_post(kfd_ep_obj(obj), &atomic, NULL, post);
	kfd_atomic_put(&atomic);
	return ret;
}

/**
 * kfd_atomic() - KFAB_IOC_ATOMIC
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_atomic.
 */
long kfd_atomic(struct kfd_call *call)
{
	const struct kfab_atomic *arg = call->arg;

	if (arg->compare_count || arg->result_count)
		return -EINVAL;
	if (!(arg->flags & KFAB_POST_INJECT))
		return kfd_atomic_call(call, true, kfd_post_plain);
	if (arg->iov_count != 1 || arg->rma_iov_count != 1 || arg->op_flags)
		return -EINVAL;
	return kfd_atomic_call(call, false, kfd_post_inject_atomic);
}

/**
 * kfd_fetch_atomic() - KFAB_IOC_FETCH_ATOMIC
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_atomic.
 */
long kfd_fetch_atomic(struct kfd_call *call)
{
	const struct kfab_atomic *arg = call->arg;

	if (arg->compare_count)
		return -EINVAL;
	return kfd_atomic_call(call, true, kfd_post_fetch);
}

/**
 * kfd_compare_atomic() - KFAB_IOC_COMPARE_ATOMIC
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_atomic.
 */
long kfd_compare_atomic(struct kfd_call *call)
{
	return kfd_atomic_call(call, true, kfd_post_compare);
}

static int kfd_ep_atomic_valid(struct kfid_ep *ep,
			       const struct kfab_atomic_valid *arg,
			       size_t *count)
{
	switch (arg->kind) {
	case KFAB_ATOMIC_PLAIN:
		if (KFD_HAS(ep->atomic, writevalid))
			return kfi_atomicvalid(ep, arg->datatype, arg->op,
					       count);
		return -EOPNOTSUPP;
	case KFAB_ATOMIC_FETCH:
		if (KFD_HAS(ep->atomic, readwritevalid))
			return kfi_fetch_atomicvalid(ep, arg->datatype,
						     arg->op, count);
		return -EOPNOTSUPP;
	case KFAB_ATOMIC_COMPARE:
		if (KFD_HAS(ep->atomic, compwritevalid))
			return kfi_compare_atomicvalid(ep, arg->datatype,
						       arg->op, count);
		return -EOPNOTSUPP;
	default:
		return -EINVAL;
	}
}

/**
 * kfd_atomic_valid() - KFAB_IOC_ATOMIC_VALID
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_atomic_valid.
 */
long kfd_atomic_valid(struct kfd_call *call)
{
	struct kfab_atomic_valid *arg = call->arg;
	struct kfd_obj *obj;
	size_t count = 0;
	int ret;

	if (arg->datatype >= KFI_DATATYPE_LAST || arg->op >= KFI_ATOMIC_OP_LAST)
		return -EINVAL;
	obj = kfd_pin(call, arg->ep, KFD_SENDERS);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfd_ep_atomic_valid(kfd_ep_of(obj), arg, &count);
	if (!ret)
		arg->out_count = count;
	return ret;
}
