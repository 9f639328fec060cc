// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Atomics, as far as a device has them: fetch-and-add and compare-and-swap on one
 * element of 64 bits. Reading and writing an element are RDMA of eight bytes; the
 * alignment keeps them in one piece.
 *
 * An atomic of the device always returns the previous value. A call that does not want
 * it gets the operation's own room as a buffer, and the value is discarded there.
 * Atomics exclude one another through the same device only: the CPU of the peer, and
 * its other devices, are not excluded.
 */
#include "kfi_verbs.h"

#define KFV_ATOMIC_SIZE	sizeof(u64)

/* The three kinds of calls: what they return and what they compare. */
enum kfv_atomic_kind {
	KFV_ATOMIC_PLAIN,
	KFV_ATOMIC_FETCH,
	KFV_ATOMIC_COMPARE,
};

/**
 * struct kfv_atomic - an atomic to be posted
 * @kind: of the call
 * @datatype: of the element
 * @op: the operation
 * @count: elements
 * @operand: its operand; not used by a read
 * @compare: value to compare with; comparing calls only
 * @result: where the previous value goes; fetching and comparing calls only
 * @result_desc: of @result, or NULL
 * @addr: remote address
 * @key: remote key
 * @flags: of the operation
 * @silent: a success never writes an entry
 * @context: the ULP's
 */
struct kfv_atomic {
	enum kfv_atomic_kind kind;
	enum kfi_datatype datatype;
	enum kfi_op op;
	size_t count;
	const void *operand;
	const void *compare;
	void *result;
	void *result_desc;
	u64 addr;
	u64 key;
	u64 flags;
	bool silent;
	void *context;
};

/**
 * kfv_atomic_caps() - the capability that a device with atomics adds to its ports
 * @ib: the device
 *
 * Context: any.
 * Return: KFI_ATOMIC or 0.
 */
u64 kfv_atomic_caps(const struct ib_device *ib)
{
	return ib->attrs.atomic_cap == IB_ATOMIC_NONE ? 0 : KFI_ATOMIC;
}

/* The opcode of the work request for an operation, or -EOPNOTSUPP. */
static int kfv_atomic_opcode(const struct kfv_domain *domain,
			     enum kfv_atomic_kind kind,
			     enum kfi_datatype datatype, enum kfi_op op)
{
	if (!domain->atomics ||
	    (datatype != KFI_INT64 && datatype != KFI_UINT64))
		return -EOPNOTSUPP;
	if (kind == KFV_ATOMIC_COMPARE)
		return op == KFI_CSWAP ? IB_WR_ATOMIC_CMP_AND_SWP :
					 -EOPNOTSUPP;
	if (op == KFI_SUM)
		return IB_WR_ATOMIC_FETCH_AND_ADD;
	if (kind == KFV_ATOMIC_FETCH)
		return op == KFI_ATOMIC_READ ? IB_WR_RDMA_READ : -EOPNOTSUPP;
	return op == KFI_ATOMIC_WRITE ? IB_WR_RDMA_WRITE : -EOPNOTSUPP;
}

/*
 * The remote address must be aligned for the device. The result must be, too: across a
 * page border it could be two runs of memory, and a work request for an atomic takes
 * one.
 */
static int kfv_atomic_check(const struct kfv_atomic *atomic, int opcode)
{
	if (!atomic->count)
		return kfv_refuse(-EINVAL, "no element");
	if (atomic->count > 1)
		return kfv_refuse(-EMSGSIZE, "more than one element");
	if (!IS_ALIGNED(atomic->addr, KFV_ATOMIC_SIZE) ||
	    !IS_ALIGNED((uintptr_t)atomic->result, KFV_ATOMIC_SIZE))
		return kfv_refuse(-EINVAL, "an address that is not aligned");
	if ((opcode != IB_WR_RDMA_READ && !atomic->operand) ||
	    (atomic->kind == KFV_ATOMIC_COMPARE && !atomic->compare) ||
	    (atomic->kind != KFV_ATOMIC_PLAIN && !atomic->result))
		return kfv_refuse(-EINVAL, "an operand or a result is missing");
	/* The data of a fetch comes from the peer: nothing to inject. */
	if (atomic->flags & KFI_REMOTE_CQ_DATA ||
	    (atomic->kind != KFV_ATOMIC_PLAIN && atomic->flags & KFI_INJECT))
		return kfv_refuse(-KFI_EBADFLAGS,
				  "an atomic has no such flags");
	return 0;
}

/* The operands travel in the work request, not in a buffer. */
static void kfv_atomic_operands(struct kfv_tx *tx,
				const struct kfv_atomic *atomic)
{
	if (tx->opcode == IB_WR_ATOMIC_CMP_AND_SWP) {
		memcpy(&tx->compare_add, atomic->compare, KFV_ATOMIC_SIZE);
		memcpy(&tx->swap, atomic->operand, KFV_ATOMIC_SIZE);
	} else {
		memcpy(&tx->compare_add, atomic->operand, KFV_ATOMIC_SIZE);
	}
}

/*
 * The operand is read before this returns, for each kind of operation, so that the ULP
 * may use its buffer again. A write injects it for that reason.
 */
static ssize_t kfv_post_atomic(struct kfid_ep *fid,
			       const struct kfv_atomic *atomic)
{
	struct kfv_ep *ep = kfv_ep_of(fid);
	struct kvec iov = {
		.iov_base = atomic->result,
		.iov_len = KFV_ATOMIC_SIZE,
	};
	void *desc = atomic->result_desc;
	struct kfv_tx tx = {
		.kind = KFI_ATOMIC | (atomic->kind == KFV_ATOMIC_PLAIN ?
				      KFI_WRITE : KFI_READ),
		.flags = atomic->flags,
		.silent = atomic->silent,
		.vec = {
			.type = KFI_KVEC,
			.kvec = &iov,
			.desc = &desc,
			.count = 1,
		},
		.context = atomic->context,
		.addr = atomic->addr,
		.key = atomic->key,
	};
	int err;

	err = kfv_atomic_opcode(ep->domain, atomic->kind, atomic->datatype,
				atomic->op);
	if (err < 0)
		return err;
	tx.opcode = err;
	err = kfv_atomic_check(atomic, tx.opcode);
	if (err)
		return err;
	if (tx.opcode == IB_WR_RDMA_WRITE) {
		iov.iov_base = (void *)atomic->operand;
		desc = NULL;
		tx.flags |= KFI_INJECT;
	} else if (tx.opcode != IB_WR_RDMA_READ) {
		kfv_atomic_operands(&tx, atomic);
		tx.flags &= ~KFI_INJECT;
		tx.drop_result = !atomic->result;
	}
	return kfv_post_tx(ep, &tx);
}

/* The calls with a message: one element in one piece on both sides. */
static int kfv_atomic_msg(struct kfv_atomic *atomic,
			  const struct kfi_msg_atomic *msg)
{
	const struct kfi_rma_ioc *remote;

	if (!msg || !msg->rma_iov || msg->rma_iov_count != 1)
		return kfv_refuse(-EINVAL, "not exactly one remote piece");
	remote = msg->rma_iov;
	atomic->datatype = msg->datatype;
	atomic->op = msg->op;
	atomic->count = remote->count;
	atomic->addr = remote->addr;
	atomic->key = remote->key;
	atomic->context = msg->context;
	/* A read takes no operand. */
	if (!msg->iov_count && msg->op == KFI_ATOMIC_READ)
		return 0;
	if (!msg->msg_iov || msg->iov_count != 1 ||
	    msg->msg_iov->count != remote->count)
		return kfv_refuse(-EINVAL, "not exactly one operand");
	atomic->operand = msg->msg_iov->addr;
	return 0;
}

static int kfv_atomic_result(struct kfv_atomic *atomic,
			     const struct kfi_ioc *iov, void **desc,
			     size_t count)
{
	if (!iov || count != 1 || iov->count != atomic->count)
		return kfv_refuse(-EINVAL, "not exactly one result");
	atomic->result = iov->addr;
	atomic->result_desc = desc ? desc[0] : NULL;
	return 0;
}

static int kfv_atomic_compare(struct kfv_atomic *atomic,
			      const struct kfi_ioc *iov, size_t count)
{
	if (!iov || count != 1 || iov->count != atomic->count)
		return kfv_refuse(-EINVAL, "not exactly one value to compare");
	atomic->compare = iov->addr;
	return 0;
}

static u64 kfv_fetch_flags(struct kfid_ep *ep)
{
	/* As in kfv_atomic_check(), but for defaults, which are no error. */
	return kfv_ep_of(ep)->tx_flags & ~KFI_INJECT;
}

/* The calls with arrays are calls with a message that has one remote piece. */
static struct kfi_msg_atomic
kfv_atomic_to_msg(const struct kfi_ioc *iov, size_t count,
		  const struct kfi_rma_ioc *remote, enum kfi_datatype datatype,
		  enum kfi_op op, void *context)
{
	return (struct kfi_msg_atomic){
		.msg_iov = iov,
		.iov_count = count,
		.rma_iov = remote,
		.rma_iov_count = 1,
		.datatype = datatype,
		.op = op,
		.context = context,
	};
}

static ssize_t kfv_atomic_writemsg(struct kfid_ep *ep,
				   const struct kfi_msg_atomic *msg,
				   u64 flags)
{
	struct kfv_atomic atomic = {
		.kind = KFV_ATOMIC_PLAIN,
		.flags = flags,
	};
	int err = kfv_atomic_msg(&atomic, msg);

	return err ? err : kfv_post_atomic(ep, &atomic);
}

static ssize_t kfv_atomic_writev(struct kfid_ep *ep, const struct kfi_ioc *iov,
				 void **desc, size_t count,
				 kfi_addr_t dest_addr, u64 addr, u64 key,
				 enum kfi_datatype datatype, enum kfi_op op,
				 void *context)
{
	struct kfi_rma_ioc remote = {
		.addr = addr, .count = iov ? iov->count : 0, .key = key,
	};
	struct kfi_msg_atomic msg = kfv_atomic_to_msg(iov, count, &remote,
						      datatype, op, context);

	return kfv_atomic_writemsg(ep, &msg, kfv_ep_of(ep)->tx_flags);
}

static ssize_t kfv_atomic_write(struct kfid_ep *ep, const void *buf,
				size_t count, void *desc, kfi_addr_t dest_addr,
				u64 addr, u64 key, enum kfi_datatype datatype,
				enum kfi_op op, void *context)
{
	struct kfi_ioc iov = { .addr = (void *)buf, .count = count };

	return kfv_atomic_writev(ep, &iov, NULL, 1, dest_addr, addr, key,
				 datatype, op, context);
}

static ssize_t kfv_atomic_inject(struct kfid_ep *ep, const void *buf,
				 size_t count, kfi_addr_t dest_addr, u64 addr,
				 u64 key, enum kfi_datatype datatype,
				 enum kfi_op op)
{
	struct kfv_atomic atomic = {
		.kind = KFV_ATOMIC_PLAIN,
		.datatype = datatype,
		.op = op,
		.count = count,
		.operand = buf,
		.addr = addr,
		.key = key,
		.flags = kfv_ep_of(ep)->tx_flags | KFI_INJECT,
		.silent = true,
	};

	return kfv_post_atomic(ep, &atomic);
}

static ssize_t kfv_atomic_readwritemsg(struct kfid_ep *ep,
				       const struct kfi_msg_atomic *msg,
				       struct kfi_ioc *resultv,
				       void **result_desc, size_t result_count,
				       u64 flags)
{
	struct kfv_atomic atomic = {
		.kind = KFV_ATOMIC_FETCH,
		.flags = flags,
	};
	int err = kfv_atomic_msg(&atomic, msg);

	if (!err)
		err = kfv_atomic_result(&atomic, resultv, result_desc,
					result_count);
	return err ? err : kfv_post_atomic(ep, &atomic);
}

static ssize_t kfv_atomic_readwritev(struct kfid_ep *ep,
				     const struct kfi_ioc *iov, void **desc,
				     size_t count, struct kfi_ioc *resultv,
				     void **result_desc, size_t result_count,
				     kfi_addr_t dest_addr, u64 addr, u64 key,
				     enum kfi_datatype datatype,
				     enum kfi_op op, void *context)
{
	struct kfi_rma_ioc remote = {
		.addr = addr, .count = resultv ? resultv->count : 0,
		.key = key,
	};
	struct kfi_msg_atomic msg = kfv_atomic_to_msg(iov, count, &remote,
						      datatype, op, context);

	return kfv_atomic_readwritemsg(ep, &msg, resultv, result_desc,
				       result_count, kfv_fetch_flags(ep));
}

static ssize_t kfv_atomic_readwrite(struct kfid_ep *ep, const void *buf,
				    size_t count, void *desc, void *result,
				    void *result_desc, kfi_addr_t dest_addr,
				    u64 addr, u64 key,
				    enum kfi_datatype datatype,
				    enum kfi_op op, void *context)
{
	struct kfi_ioc iov = { .addr = (void *)buf, .count = count };
	struct kfi_ioc to = { .addr = result, .count = count };

	return kfv_atomic_readwritev(ep, &iov, NULL, 1, &to, &result_desc, 1,
				     dest_addr, addr, key, datatype, op,
				     context);
}

static ssize_t kfv_atomic_compwritemsg(struct kfid_ep *ep,
				       const struct kfi_msg_atomic *msg,
				       const struct kfi_ioc *comparev,
				       void **compare_desc,
				       size_t compare_count,
				       struct kfi_ioc *resultv,
				       void **result_desc, size_t result_count,
				       u64 flags)
{
	struct kfv_atomic atomic = {
		.kind = KFV_ATOMIC_COMPARE,
		.flags = flags,
	};
	int err = kfv_atomic_msg(&atomic, msg);

	if (!err)
		err = kfv_atomic_compare(&atomic, comparev, compare_count);
	if (!err)
		err = kfv_atomic_result(&atomic, resultv, result_desc,
					result_count);
	return err ? err : kfv_post_atomic(ep, &atomic);
}

static ssize_t kfv_atomic_compwritev(struct kfid_ep *ep,
				     const struct kfi_ioc *iov, void **desc,
				     size_t count,
				     const struct kfi_ioc *comparev,
				     void **compare_desc, size_t compare_count,
				     struct kfi_ioc *resultv,
				     void **result_desc, size_t result_count,
				     kfi_addr_t dest_addr, u64 addr, u64 key,
				     enum kfi_datatype datatype,
				     enum kfi_op op, void *context)
{
	struct kfi_rma_ioc remote = {
		.addr = addr, .count = iov ? iov->count : 0, .key = key,
	};
	struct kfi_msg_atomic msg = kfv_atomic_to_msg(iov, count, &remote,
						      datatype, op, context);

	return kfv_atomic_compwritemsg(ep, &msg, comparev, compare_desc,
				       compare_count, resultv, result_desc,
				       result_count, kfv_fetch_flags(ep));
}

static ssize_t kfv_atomic_compwrite(struct kfid_ep *ep, const void *buf,
				    size_t count, void *desc,
				    const void *compare, void *compare_desc,
				    void *result, void *result_desc,
				    kfi_addr_t dest_addr, u64 addr, u64 key,
				    enum kfi_datatype datatype,
				    enum kfi_op op, void *context)
{
	struct kfi_ioc iov = { .addr = (void *)buf, .count = count };
	struct kfi_ioc with = { .addr = (void *)compare, .count = count };
	struct kfi_ioc to = { .addr = result, .count = count };

	return kfv_atomic_compwritev(ep, &iov, NULL, 1, &with, NULL, 1, &to,
				     &result_desc, 1, dest_addr, addr, key,
				     datatype, op, context);
}

static int kfv_atomic_valid(const struct kfv_domain *domain,
			    enum kfv_atomic_kind kind,
			    enum kfi_datatype datatype, enum kfi_op op,
			    size_t *count)
{
	int opcode = kfv_atomic_opcode(domain, kind, datatype, op);

	if (opcode < 0)
		return opcode;
	if (!count)
		return -EINVAL;
	*count = 1;
	return 0;
}

static int kfv_atomic_writevalid(struct kfid_ep *ep,
				 enum kfi_datatype datatype, enum kfi_op op,
				 size_t *count)
{
	return kfv_atomic_valid(kfv_ep_of(ep)->domain, KFV_ATOMIC_PLAIN,
				datatype, op, count);
}

static int kfv_atomic_readwritevalid(struct kfid_ep *ep,
				     enum kfi_datatype datatype,
				     enum kfi_op op, size_t *count)
{
	return kfv_atomic_valid(kfv_ep_of(ep)->domain, KFV_ATOMIC_FETCH,
				datatype, op, count);
}

static int kfv_atomic_compwritevalid(struct kfid_ep *ep,
				     enum kfi_datatype datatype,
				     enum kfi_op op, size_t *count)
{
	return kfv_atomic_valid(kfv_ep_of(ep)->domain, KFV_ATOMIC_COMPARE,
				datatype, op, count);
}

/**
 * kfv_query_atomic() - kfi_query_atomic() for this provider
 * @domain: the domain
 * @datatype: type of an element
 * @op: the operation
 * @attr: where the limits are stored
 * @flags: must be 0: the interface has no names for the kinds, so the answer is for
 * any kind of call that has the operation
 *
 * Context: any.
 * Return: 0, -EOPNOTSUPP, -KFI_EBADFLAGS, -EINVAL.
 */
int kfv_query_atomic(struct kfid_domain *domain, enum kfi_datatype datatype,
		     enum kfi_op op, struct kfi_atomic_attr *attr, u64 flags)
{
	enum kfv_atomic_kind kind;
	int err = -EOPNOTSUPP;

	if (flags)
		return -KFI_EBADFLAGS;
	if (!attr)
		return -EINVAL;
	for (kind = KFV_ATOMIC_PLAIN; kind <= KFV_ATOMIC_COMPARE && err; kind++)
		err = kfv_atomic_valid(kfv_domain_of(domain), kind, datatype,
				       op, &attr->count);
	if (!err)
		attr->size = KFV_ATOMIC_SIZE;
	return err;
}

struct kfi_ops_atomic kfv_atomic_ops = {
	.size = sizeof(struct kfi_ops_atomic),
	.write = kfv_atomic_write,
	.writev = kfv_atomic_writev,
	.writemsg = kfv_atomic_writemsg,
	.inject = kfv_atomic_inject,
	.readwrite = kfv_atomic_readwrite,
	.readwritev = kfv_atomic_readwritev,
	.readwritemsg = kfv_atomic_readwritemsg,
	.compwrite = kfv_atomic_compwrite,
	.compwritev = kfv_atomic_compwritev,
	.compwritemsg = kfv_atomic_compwritemsg,
	.writevalid = kfv_atomic_writevalid,
	.readwritevalid = kfv_atomic_readwritevalid,
	.compwritevalid = kfv_atomic_compwritevalid,
};
