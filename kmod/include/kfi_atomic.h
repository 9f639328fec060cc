/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Atomics: operations on elements of remote memory that are atomic with respect
 * to each other. Counts are elements, never bytes. Fetching atomics return the
 * previous values. Comparing atomics (KFI_CSWAP to KFI_MSWAP) also return them,
 * and change an element only as the comparison allows.
 */
#ifndef _KFI_ATOMIC_H_
#define _KFI_ATOMIC_H_

#include <kfi_endpoint.h>
#include <kfi_errno.h>

/* A segment of a local buffer. */
struct kfi_ioc {
	void *addr;
	size_t count;			/* elements */
};

/* A segment of remote memory. */
struct kfi_rma_ioc {
	uint64_t addr;			/* offset, or iova: KFI_MR_VIRT_ADDR */
	size_t count;			/* elements */
	uint64_t key;
};

/* Limits of a domain for one type and operation. */
struct kfi_atomic_attr {
	size_t count;			/* most elements in one call */
	size_t size;			/* bytes of an element */
};

struct kfi_msg_atomic {
	const struct kfi_ioc *msg_iov;	/* the operands */
	void **desc;			/* one for each segment, or NULL */
	size_t iov_count;		/* local segments */
	kfi_addr_t addr;
	const struct kfi_rma_ioc *rma_iov;
	size_t rma_iov_count;		/* remote segments */
	enum kfi_datatype datatype;
	enum kfi_op op;
	void *context;
	uint64_t data;			/* with KFI_REMOTE_CQ_DATA */
};

/* The buffer for previous values. */
struct kfi_msg_fetch {
	struct kfi_ioc *msg_iov;
	void **desc;			/* one for each segment, or NULL */
	size_t iov_count;		/* segments */
};

/* The values to compare with. */
struct kfi_msg_compare {
	const struct kfi_ioc *msg_iov;
	void **desc;			/* one for each segment, or NULL */
	size_t iov_count;		/* segments */
};

struct kfi_ops_atomic {
	size_t size;
	ssize_t (*write)(struct kfid_ep *ep, const void *buf, size_t count,
			 void *desc, kfi_addr_t dest_addr, uint64_t addr,
			 uint64_t key, enum kfi_datatype datatype,
			 enum kfi_op op, void *context);
	ssize_t (*writev)(struct kfid_ep *ep, const struct kfi_ioc *iov,
			  void **desc, size_t count, kfi_addr_t dest_addr,
			  uint64_t addr, uint64_t key,
			  enum kfi_datatype datatype, enum kfi_op op,
			  void *context);
	ssize_t (*writemsg)(struct kfid_ep *ep,
			    const struct kfi_msg_atomic *msg, uint64_t flags);
	ssize_t (*inject)(struct kfid_ep *ep, const void *buf, size_t count,
			  kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
			  enum kfi_datatype datatype, enum kfi_op op);
	ssize_t (*readwrite)(struct kfid_ep *ep, const void *buf, size_t count,
			     void *desc, void *result, void *result_desc,
			     kfi_addr_t dest_addr, uint64_t addr, uint64_t key,
			     enum kfi_datatype datatype, enum kfi_op op,
			     void *context);
	ssize_t (*readwritev)(struct kfid_ep *ep, const struct kfi_ioc *iov,
			      void **desc, size_t count,
			      struct kfi_ioc *resultv, void **result_desc,
			      size_t result_count, kfi_addr_t dest_addr,
			      uint64_t addr, uint64_t key,
			      enum kfi_datatype datatype, enum kfi_op op,
			      void *context);
	ssize_t (*readwritemsg)(struct kfid_ep *ep,
				const struct kfi_msg_atomic *msg,
				struct kfi_ioc *resultv, void **result_desc,
				size_t result_count, uint64_t flags);
	ssize_t (*compwrite)(struct kfid_ep *ep, const void *buf, size_t count,
			     void *desc, const void *compare,
			     void *compare_desc, void *result,
			     void *result_desc, kfi_addr_t dest_addr,
			     uint64_t addr, uint64_t key,
			     enum kfi_datatype datatype, enum kfi_op op,
			     void *context);
	ssize_t (*compwritev)(struct kfid_ep *ep, const struct kfi_ioc *iov,
			      void **desc, size_t count,
			      const struct kfi_ioc *comparev,
			      void **compare_desc, size_t compare_count,
			      struct kfi_ioc *resultv, void **result_desc,
			      size_t result_count, kfi_addr_t dest_addr,
			      uint64_t addr, uint64_t key,
			      enum kfi_datatype datatype, enum kfi_op op,
			      void *context);
	ssize_t (*compwritemsg)(struct kfid_ep *ep,
				const struct kfi_msg_atomic *msg,
				const struct kfi_ioc *comparev,
				void **compare_desc, size_t compare_count,
				struct kfi_ioc *resultv, void **result_desc,
				size_t result_count, uint64_t flags);
	int (*writevalid)(struct kfid_ep *ep, enum kfi_datatype datatype,
			  enum kfi_op op, size_t *count);
	int (*readwritevalid)(struct kfid_ep *ep, enum kfi_datatype datatype,
			      enum kfi_op op, size_t *count);
	int (*compwritevalid)(struct kfid_ep *ep, enum kfi_datatype datatype,
			      enum kfi_op op, size_t *count);
};

#ifdef KFABRIC_DIRECT
#include <kfi_direct_atomic.h>
#else /* !KFABRIC_DIRECT */

/**
 * kfi_atomic() - change remote elements
 * @ep: the endpoint
 * @buf: the operands
 * @count: elements
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: operation on each element
 * @context: op_context of the completion
 *
 * Each of the @count elements at @addr becomes the result of @op on itself and
 * its operand.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h; -KFI_EOPNOTSUPP if @op
 *	does not support @datatype, -KFI_EMSGSIZE for too many elements.
 */
static inline ssize_t kfi_atomic(struct kfid_ep *ep, const void *buf,
				 size_t count, void *desc, kfi_addr_t dest_addr,
				 uint64_t addr, uint64_t key,
				 enum kfi_datatype datatype, enum kfi_op op,
				 void *context)
{
	return ep->atomic->write(ep, buf, count, desc, dest_addr, addr, key,
				 datatype, op, context);
}

/**
 * kfi_atomicv() - kfi_atomic() with operands in segments
 * @ep: the endpoint
 * @iov: the operands, in segments
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: operation on each element
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h; -KFI_EOPNOTSUPP if @op
 *	does not support @datatype, -KFI_EMSGSIZE for too many elements.
 */
static inline ssize_t kfi_atomicv(struct kfid_ep *ep, const struct kfi_ioc *iov,
				  void **desc, size_t count,
				  kfi_addr_t dest_addr, uint64_t addr,
				  uint64_t key, enum kfi_datatype datatype,
				  enum kfi_op op, void *context)
{
	return ep->atomic->writev(ep, iov, desc, count, dest_addr, addr, key,
				  datatype, op, context);
}

/**
 * kfi_atomicmsg() - kfi_atomic() with flags
 * @ep: the endpoint
 * @msg: the operation
 * @flags: KFI_COMPLETION, KFI_INJECT, KFI_MORE, KFI_FENCE, or a completion
 *	level
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h; -KFI_EOPNOTSUPP if the
 *	operation does not support that type, -KFI_EMSGSIZE for too many
 *	elements.
 */
static inline ssize_t kfi_atomicmsg(struct kfid_ep *ep,
				    const struct kfi_msg_atomic *msg,
				    uint64_t flags)
{
	return ep->atomic->writemsg(ep, msg, flags);
}

/**
 * kfi_inject_atomic() - kfi_atomic(); the buffer is free on return
 * @ep: the endpoint
 * @buf: the operands
 * @count: elements
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: operation on each element
 *
 * The call writes no completion for a success.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h; -KFI_EOPNOTSUPP if @op
 *	does not support @datatype, -KFI_EMSGSIZE for too many elements.
 */
static inline ssize_t kfi_inject_atomic(struct kfid_ep *ep, const void *buf,
					size_t count, kfi_addr_t dest_addr,
					uint64_t addr, uint64_t key,
					enum kfi_datatype datatype,
					enum kfi_op op)
{
	return ep->atomic->inject(ep, buf, count, dest_addr, addr, key,
				  datatype, op);
}

/**
 * kfi_fetch_atomic() - change remote elements and get their previous values
 * @ep: the endpoint
 * @buf: the operands
 * @count: elements
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @result: buffer for the previous remote values
 * @result_desc: kfi_mr_desc() of the result buffer, or NULL
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: operation on each element
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h; -KFI_EOPNOTSUPP if @op
 *	does not support @datatype, -KFI_EMSGSIZE for too many elements.
 */
static inline ssize_t kfi_fetch_atomic(struct kfid_ep *ep, const void *buf,
				       size_t count, void *desc, void *result,
				       void *result_desc, kfi_addr_t dest_addr,
				       uint64_t addr, uint64_t key,
				       enum kfi_datatype datatype,
				       enum kfi_op op, void *context)
{
	return ep->atomic->readwrite(ep, buf, count, desc, result, result_desc,
				     dest_addr, addr, key, datatype, op,
				     context);
}

/**
 * kfi_fetch_atomicv() - kfi_fetch_atomic() with buffers in segments
 * @ep: the endpoint
 * @iov: the operands, in segments
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments of @iov
 * @resultv: buffer for the previous remote values, in segments
 * @result_desc: kfi_mr_desc() of each segment, or NULL
 * @result_count: number of segments
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: operation on each element
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h; -KFI_EOPNOTSUPP if @op
 *	does not support @datatype, -KFI_EMSGSIZE for too many elements.
 */
static inline ssize_t kfi_fetch_atomicv(struct kfid_ep *ep,
					const struct kfi_ioc *iov, void **desc,
					size_t count, struct kfi_ioc *resultv,
					void **result_desc, size_t result_count,
					kfi_addr_t dest_addr, uint64_t addr,
					uint64_t key,
					enum kfi_datatype datatype,
					enum kfi_op op, void *context)
{
	return ep->atomic->readwritev(ep, iov, desc, count, resultv,
				      result_desc, result_count, dest_addr,
				      addr, key, datatype, op, context);
}

/**
 * kfi_fetch_atomicmsg() - kfi_fetch_atomic() with flags
 * @ep: the endpoint
 * @msg: the operation
 * @resultv: buffer for the previous remote values, in segments
 * @result_desc: kfi_mr_desc() of each segment, or NULL
 * @result_count: number of segments
 * @flags: KFI_COMPLETION, KFI_MORE, KFI_FENCE, or a completion level
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h; -KFI_EOPNOTSUPP if the
 *	operation does not support that type, -KFI_EMSGSIZE for too many
 *	elements.
 */
static inline ssize_t kfi_fetch_atomicmsg(struct kfid_ep *ep,
					  const struct kfi_msg_atomic *msg,
					  struct kfi_ioc *resultv,
					  void **result_desc,
					  size_t result_count, uint64_t flags)
{
	return ep->atomic->readwritemsg(ep, msg, resultv, result_desc,
					result_count, flags);
}

/**
 * kfi_compare_atomic() - compare remote elements and change them
 * @ep: the endpoint
 * @buf: the operands
 * @count: elements
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @compare: the values to compare with
 * @compare_desc: kfi_mr_desc() of @compare, or NULL
 * @result: buffer for the previous remote values
 * @result_desc: kfi_mr_desc() of the result buffer, or NULL
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: operation on each element
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h; -KFI_EOPNOTSUPP if @op
 *	does not support @datatype, -KFI_EMSGSIZE for too many elements.
 */
static inline ssize_t kfi_compare_atomic(struct kfid_ep *ep, const void *buf,
					 size_t count, void *desc,
					 const void *compare,
					 void *compare_desc, void *result,
					 void *result_desc,
					 kfi_addr_t dest_addr, uint64_t addr,
					 uint64_t key,
					 enum kfi_datatype datatype,
					 enum kfi_op op, void *context)
{
	return ep->atomic->compwrite(ep, buf, count, desc, compare,
				     compare_desc, result, result_desc,
				     dest_addr, addr, key, datatype, op,
				     context);
}

/**
 * kfi_compare_atomicv() - kfi_compare_atomic() with buffers in segments
 * @ep: the endpoint
 * @iov: the operands, in segments
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments of @iov
 * @comparev: the values to compare with, in segments
 * @compare_desc: kfi_mr_desc() of each segment, or NULL
 * @compare_count: number of segments
 * @resultv: buffer for the previous remote values, in segments
 * @result_desc: kfi_mr_desc() of each segment, or NULL
 * @result_count: number of segments
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @datatype: type of an element
 * @op: operation on each element
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h; -KFI_EOPNOTSUPP if @op
 *	does not support @datatype, -KFI_EMSGSIZE for too many elements.
 */
static inline ssize_t kfi_compare_atomicv(struct kfid_ep *ep,
					  const struct kfi_ioc *iov,
					  void **desc, size_t count,
					  const struct kfi_ioc *comparev,
					  void **compare_desc,
					  size_t compare_count,
					  struct kfi_ioc *resultv,
					  void **result_desc,
					  size_t result_count,
					  kfi_addr_t dest_addr, uint64_t addr,
					  uint64_t key,
					  enum kfi_datatype datatype,
					  enum kfi_op op, void *context)
{
	return ep->atomic->compwritev(ep, iov, desc, count, comparev,
				      compare_desc, compare_count, resultv,
				      result_desc, result_count, dest_addr,
				      addr, key, datatype, op, context);
}

/**
 * kfi_compare_atomicmsg() - kfi_compare_atomic() with flags
 * @ep: the endpoint
 * @msg: the operation
 * @comparev: the values to compare with, in segments
 * @compare_desc: kfi_mr_desc() of each segment, or NULL
 * @compare_count: number of segments
 * @resultv: buffer for the previous remote values, in segments
 * @result_desc: kfi_mr_desc() of each segment, or NULL
 * @result_count: number of segments
 * @flags: KFI_COMPLETION, KFI_MORE, KFI_FENCE, or a completion level
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h; -KFI_EOPNOTSUPP if the
 *	operation does not support that type, -KFI_EMSGSIZE for too many
 *	elements.
 */
static inline ssize_t kfi_compare_atomicmsg(struct kfid_ep *ep,
					    const struct kfi_msg_atomic *msg,
					    const struct kfi_ioc *comparev,
					    void **compare_desc,
					    size_t compare_count,
					    struct kfi_ioc *resultv,
					    void **result_desc,
					    size_t result_count, uint64_t flags)
{
	return ep->atomic->compwritemsg(ep, msg, comparev, compare_desc,
					compare_count, resultv, result_desc,
					result_count, flags);
}

/**
 * kfi_atomicvalid() - check support for an operation in kfi_atomic()
 * @ep: the endpoint
 * @datatype: type of an element
 * @op: the operation
 * @count: where the largest number of elements of one call is stored
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_EOPNOTSUPP.
 */
static inline int kfi_atomicvalid(struct kfid_ep *ep,
				  enum kfi_datatype datatype, enum kfi_op op,
				  size_t *count)
{
	return ep->atomic->writevalid(ep, datatype, op, count);
}

/**
 * kfi_fetch_atomicvalid() - check support in kfi_fetch_atomic()
 * @ep: the endpoint
 * @datatype: type of an element
 * @op: the operation
 * @count: where the largest number of elements of one call is stored
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_EOPNOTSUPP.
 */
static inline int kfi_fetch_atomicvalid(struct kfid_ep *ep,
					enum kfi_datatype datatype,
					enum kfi_op op, size_t *count)
{
	return ep->atomic->readwritevalid(ep, datatype, op, count);
}

/**
 * kfi_compare_atomicvalid() - check support in kfi_compare_atomic()
 * @ep: the endpoint
 * @datatype: type of an element
 * @op: the operation
 * @count: where the largest number of elements of one call is stored
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_EOPNOTSUPP.
 */
static inline int kfi_compare_atomicvalid(struct kfid_ep *ep,
					  enum kfi_datatype datatype,
					  enum kfi_op op, size_t *count)
{
	return ep->atomic->compwritevalid(ep, datatype, op, count);
}

/**
 * kfi_query_atomic() - check support for an operation in a domain
 * @domain: the domain
 * @datatype: type of an element
 * @op: the operation
 * @attr: where the limits are stored
 * @flags: selects a fetching or a comparing call; 0: neither
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_EOPNOTSUPP, -KFI_ENOSYS, also if the provider predates the
 *	call.
 */
static inline int kfi_query_atomic(struct kfid_domain *domain,
				   enum kfi_datatype datatype, enum kfi_op op,
				   struct kfi_atomic_attr *attr, uint64_t flags)
{
	if (!KFI_CHECK_OP(domain->ops, struct kfi_ops_domain, query_atomic))
		return -KFI_ENOSYS;

	return domain->ops->query_atomic(domain, datatype, op, attr, flags);
}

#endif /* !KFABRIC_DIRECT */

#endif /* _KFI_ATOMIC_H_ */
