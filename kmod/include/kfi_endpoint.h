/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Endpoints and untagged messages.
 *
 * These rules hold for posting here, and for RMA, tagged messages and atomics.
 * 0 means that the operation was accepted. A completion in the bound CQ and
 * counters ends the operation. Until then, the buffers belong to the provider.
 * The array of segments belongs to the provider until the call returns, or with
 * KFI_ASYNC_IOV until the completion. Calls without a flags argument use the
 * op_flags of the endpoint or context. Calls with flags use only these.
 *
 * The errors of posting are -KFI_EAGAIN (queue full: read completions and try
 * again), -KFI_EOPBADSTATE (not enabled), -KFI_EMSGSIZE or -KFI_EINVAL (too
 * long, too many segments, gaps between them), -KFI_EOPNOTSUPP or -KFI_ENOSYS
 * (not supported by this endpoint), -KFI_EBADFLAGS and -KFI_ENODEV.
 */
#ifndef _KFI_ENDPOINT_H_
#define _KFI_ENDPOINT_H_

#include <kfabric.h>
#include <kfi_domain.h>

/* An untagged message; type selects the pointer. */
struct kfi_msg {
	enum kfi_iov_type type;
	union {
		const struct kvec *msg_iov;
		const struct bio_vec *msg_biov;
		const struct scatterlist *msg_sgl;
	};
	void **desc;			/* one for each segment, or NULL */
	size_t iov_count;		/* segments */
	kfi_addr_t addr;
	void *context;
	uint64_t data;			/* with KFI_REMOTE_CQ_DATA */
};

/* Option levels. */
enum {
	KFI_OPT_ENDPOINT
};

/* Option names. */
enum {
	KFI_OPT_MIN_MULTI_RECV,		/* size_t, bytes */
	KFI_OPT_CM_DATA_SIZE,		/* size_t, bytes; read only */
	/* Not in kfabric 1.7. */
	KFI_OPT_KEEPALIVE		/* size_t, seconds of silence; 0: off */
};

struct kfi_ops_ep {
	size_t size;
	ssize_t (*cancel)(struct kfid *fid, void *context);
	int (*getopt)(struct kfid *fid, int level, int optname, void *optval,
		      size_t *optlen);
	int (*setopt)(struct kfid *fid, int level, int optname,
		      const void *optval, size_t optlen);
	int (*tx_ctx)(struct kfid_ep *sep, int index, struct kfi_tx_attr *attr,
		      struct kfid_ep **tx_ep, void *context);
	int (*rx_ctx)(struct kfid_ep *sep, int index, struct kfi_rx_attr *attr,
		      struct kfid_ep **rx_ep, void *context);
};

struct kfi_ops_msg {
	size_t size;
	ssize_t (*recv)(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			kfi_addr_t src_addr, void *context);
	ssize_t (*recvv)(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t src_addr,
			 void *context);
	ssize_t (*recvbv)(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t src_addr,
			  void *context);
	ssize_t (*recvmsg)(struct kfid_ep *ep, const struct kfi_msg *msg,
			   uint64_t flags);
	ssize_t (*send)(struct kfid_ep *ep, const void *buf, size_t len,
			void *desc, kfi_addr_t dest_addr, void *context);
	ssize_t (*sendv)(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t dest_addr,
			 void *context);
	ssize_t (*sendbv)(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t dest_addr,
			  void *context);
	ssize_t (*sendmsg)(struct kfid_ep *ep, const struct kfi_msg *msg,
			   uint64_t flags);
	ssize_t (*inject)(struct kfid_ep *ep, const void *buf, size_t len,
			  kfi_addr_t dest_addr);
	ssize_t (*senddata)(struct kfid_ep *ep, const void *buf, size_t len,
			    void *desc, uint64_t data, kfi_addr_t dest_addr,
			    void *context);
	ssize_t (*injectdata)(struct kfid_ep *ep, const void *buf, size_t len,
			      uint64_t data, kfi_addr_t dest_addr);
	ssize_t (*recvsgl)(struct kfid_ep *ep, const struct scatterlist *sgl,
			   void **desc, size_t count, kfi_addr_t src_addr,
			   void *context);
	ssize_t (*sendsgl)(struct kfid_ep *ep, const struct scatterlist *sgl,
			   void **desc, size_t count, kfi_addr_t dest_addr,
			   void *context);
};

struct kfi_ops_cm;
struct kfi_ops_rma;
struct kfi_ops_tagged;
struct kfi_ops_atomic;

/* Endpoints, scalable endpoints, their contexts, shared receive contexts. */
struct kfid_ep {
	struct kfid fid;
	struct kfi_ops_ep *ops;
	struct kfi_ops_cm *cm;
	struct kfi_ops_msg *msg;
	struct kfi_ops_rma *rma;
	struct kfi_ops_tagged *tagged;
	struct kfi_ops_atomic *atomic;
};

/* ops and cm have the offsets of struct kfid_ep: kfi_getname() relies on it. */
struct kfid_pep {
	struct kfid fid;
	struct kfi_ops_ep *ops;
	struct kfi_ops_cm *cm;
};

struct kfid_stx {
	struct kfid fid;
	struct kfi_ops_ep *ops;
};

#ifdef KFABRIC_DIRECT
#include <kfi_direct_endpoint.h>
#else /* !KFABRIC_DIRECT */

/**
 * kfi_passive_ep() - open a passive endpoint, which listens
 * @fabric: the fabric
 * @info: from kfi_getinfo(); src_addr is the address to listen on
 * @pep: where the endpoint is stored
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL, -KFI_ENOSYS, -KFI_ENOMEM.
 */
static inline int kfi_passive_ep(struct kfid_fabric *fabric,
				 struct kfi_info *info, struct kfid_pep **pep,
				 void *context)
{
	return fabric->ops->passive_ep(fabric, info, pep, context);
}

/**
 * kfi_endpoint() - open an endpoint
 * @domain: the domain
 * @info: from kfi_getinfo(), or from the KFI_CONNREQ to accept
 * @ep: where the endpoint is stored
 * @context: the caller's, kept in fid.context
 *
 * The endpoint starts disabled. Bind its objects, then call kfi_enable(),
 * kfi_connect() or kfi_accept().
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL, -KFI_ENOSYS, -KFI_ENODEV, -KFI_ENOMEM.
 */
static inline int kfi_endpoint(struct kfid_domain *domain,
			       struct kfi_info *info, struct kfid_ep **ep,
			       void *context)
{
	return domain->ops->endpoint(domain, info, ep, context);
}

/**
 * kfi_scalable_ep() - open an endpoint with several contexts and one address
 * @domain: the domain
 * @info: from kfi_getinfo()
 * @sep: where the endpoint is stored
 * @context: the caller's, kept in fid.context
 *
 * The endpoint and its contexts start disabled.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL for bad attributes, -KFI_EADDRINUSE, -KFI_ENOSPC,
 *	-KFI_ENOSYS.
 */
static inline int kfi_scalable_ep(struct kfid_domain *domain,
				  struct kfi_info *info, struct kfid_ep **sep,
				  void *context)
{
	return domain->ops->scalable_ep(domain, info, sep, context);
}

/**
 * kfi_ep_bind() - bind a CQ, counter, AV, EQ or shared context
 * @ep: the endpoint, or a context of a scalable endpoint
 * @bfid: the object; pinned until the endpoint is closed
 * @flags: CQ: KFI_TRANSMIT, KFI_RECV, KFI_SELECTIVE_COMPLETION; counter: the
 *	directions to count; others: 0
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL if already bound or for bad flags, -KFI_EDOMAIN if the
 *	object is of another domain, -KFI_EOPBADSTATE if already enabled,
 *	-KFI_ENOSYS for a wrong kind of object.
 */
static inline int kfi_ep_bind(struct kfid_ep *ep, struct kfid *bfid,
			      uint64_t flags)
{
	return ep->fid.ops->bind(&ep->fid, bfid, flags);
}

/**
 * kfi_pep_bind() - bind an event queue to a passive endpoint
 * @pep: the passive endpoint
 * @bfid: the EQ
 * @flags: reserved, 0
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL if it is not an EQ, if an EQ is bound already, or if
 *	flags are given.
 */
static inline int kfi_pep_bind(struct kfid_pep *pep, struct kfid *bfid,
			       uint64_t flags)
{
	return pep->fid.ops->bind(&pep->fid, bfid, flags);
}

/**
 * kfi_scalable_ep_bind() - bind an address vector to a scalable endpoint
 * @sep: the scalable endpoint
 * @bfid: the AV
 * @flags: reserved, 0
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL if already bound, -KFI_ENOSYS for a wrong kind of
 *	object.
 */
static inline int kfi_scalable_ep_bind(struct kfid_ep *sep, struct kfid *bfid,
				       uint64_t flags)
{
	return sep->fid.ops->bind(&sep->fid, bfid, flags);
}

/**
 * kfi_enable() - make an endpoint or context usable
 * @ep: the endpoint
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOCQ or -KFI_ENOAV if none is bound, -KFI_EADDRINUSE,
 *	-KFI_EMFILE for a user with too many endpoints, -KFI_EOPBADSTATE.
 */
static inline int kfi_enable(struct kfid_ep *ep)
{
	return ep->fid.ops->control(&ep->fid, KFI_ENABLE, NULL);
}

/**
 * kfi_cancel() - cancel a posted operation
 * @fid: fid of a struct kfid_ep
 * @context: context of the operation
 *
 * If the operation is found, it completes with the error KFI_ECANCELED.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_ENOENT if not found, -KFI_EAGAIN to try again later,
 *	-KFI_ENOSYS.
 */
static inline ssize_t kfi_cancel(struct kfid *fid, void *context)
{
	struct kfid_ep *ep = container_of(fid, struct kfid_ep, fid);

	return ep->ops->cancel(fid, context);
}

/**
 * kfi_setopt() - set an option of an endpoint
 * @fid: fid of a struct kfid_ep
 * @level: KFI_OPT_ENDPOINT
 * @optname: KFI_OPT_MIN_MULTI_RECV and so on
 * @optval: the value
 * @optlen: bytes of @optval
 *
 * KFI_OPT_KEEPALIVE may be set at any time. After that many seconds without
 * traffic from its peer, a connected endpoint probes the peer. If no answer
 * comes, the endpoint shuts the connection down.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOPROTOOPT if there is no such option, -KFI_EINVAL if
 *	@optval is NULL, -KFI_ETOOSMALL if @optlen is too small, -KFI_E2BIG if
 *	the value is too large.
 */
static inline int kfi_setopt(struct kfid *fid, int level, int optname,
			     const void *optval, size_t optlen)
{
	struct kfid_ep *ep = container_of(fid, struct kfid_ep, fid);

	return ep->ops->setopt(fid, level, optname, optval, optlen);
}

/**
 * kfi_getopt() - get an option of an endpoint
 * @fid: fid of a struct kfid_ep
 * @level: KFI_OPT_ENDPOINT
 * @optname: KFI_OPT_MIN_MULTI_RECV and so on
 * @optval: where the value is stored
 * @optlen: bytes; in: room in @optval, out: the option's length
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOPROTOOPT if there is no such option, -KFI_EINVAL if a
 *	pointer is NULL, -KFI_ETOOSMALL if @optlen is too small.
 */
static inline int kfi_getopt(struct kfid *fid, int level, int optname,
			     void *optval, size_t *optlen)
{
	struct kfid_ep *ep = container_of(fid, struct kfid_ep, fid);

	return ep->ops->getopt(fid, level, optname, optval, optlen);
}

/**
 * kfi_ep_alias() - open a second descriptor with its own op_flags
 * @ep: the endpoint
 * @alias_ep: where the alias is stored
 * @flags: op_flags of the alias
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOSYS.
 */
static inline int kfi_ep_alias(struct kfid_ep *ep, struct kfid_ep **alias_ep,
			       uint64_t flags)
{
	struct kfid *fid;
	int ret;

	ret = kfi_alias(&ep->fid, &fid, flags);
	if (!ret)
		*alias_ep = container_of(fid, struct kfid_ep, fid);

	return ret;
}

/**
 * kfi_tx_context() - open a transmit context of a scalable endpoint
 * @ep: the scalable endpoint
 * @index: index of the context, from 0
 * @attr: a subset of the endpoint's, or NULL; updated to the actual values
 * @tx_ep: where the context is stored
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL for a bad @index or @attr, -KFI_ENOSPC, -KFI_ENOSYS.
 */
static inline int kfi_tx_context(struct kfid_ep *ep, int index,
				 struct kfi_tx_attr *attr,
				 struct kfid_ep **tx_ep, void *context)
{
	return ep->ops->tx_ctx(ep, index, attr, tx_ep, context);
}

/**
 * kfi_rx_context() - open a receive context of a scalable endpoint
 * @ep: the scalable endpoint
 * @index: index of the context, from 0
 * @attr: a subset of the endpoint's, or NULL; updated to the actual values
 * @rx_ep: where the context is stored
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL for a bad @index or @attr, -KFI_ENOSPC, -KFI_ENOSYS.
 */
static inline int kfi_rx_context(struct kfid_ep *ep, int index,
				 struct kfi_rx_attr *attr,
				 struct kfid_ep **rx_ep, void *context)
{
	return ep->ops->rx_ctx(ep, index, attr, rx_ep, context);
}

/**
 * kfi_stx_context() - open a transmit context shared by endpoints
 * @domain: the domain
 * @attr: required attributes, or NULL; updated to the actual values
 * @stx: where the context is stored
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL, -KFI_ENOSYS.
 */
static inline int kfi_stx_context(struct kfid_domain *domain,
				  struct kfi_tx_attr *attr,
				  struct kfid_stx **stx, void *context)
{
	return domain->ops->stx_ctx(domain, attr, stx, context);
}

/**
 * kfi_srx_context() - open a receive context shared by endpoints
 * @domain: the domain
 * @attr: required attributes, or NULL; updated to the actual values
 * @rx_ep: where the context is stored
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL, -KFI_ENOSYS.
 */
static inline int kfi_srx_context(struct kfid_domain *domain,
				  struct kfi_rx_attr *attr,
				  struct kfid_ep **rx_ep, void *context)
{
	return domain->ops->srx_ctx(domain, attr, rx_ep, context);
}

/**
 * kfi_recv() - post a buffer for a message
 * @ep: the endpoint
 * @buf: where the message goes
 * @len: bytes
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @src_addr: only from this peer, with KFI_DIRECTED_RECV; else KFI_ADDR_UNSPEC
 * @context: op_context of the completion
 *
 * Messages fill the buffers in the order of posting. With KFI_MULTI_RECV in
 * op_flags, a buffer receives messages until it is full.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_recv(struct kfid_ep *ep, void *buf, size_t len,
			       void *desc, kfi_addr_t src_addr, void *context)
{
	return ep->msg->recv(ep, buf, len, desc, src_addr, context);
}

/**
 * kfi_recvv() - kfi_recv() with a buffer in segments
 * @ep: the endpoint
 * @iov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @src_addr: only from this peer, with KFI_DIRECTED_RECV; else KFI_ADDR_UNSPEC
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_recvv(struct kfid_ep *ep, const struct kvec *iov,
				void **desc, size_t count, kfi_addr_t src_addr,
				void *context)
{
	return ep->msg->recvv(ep, iov, desc, count, src_addr, context);
}

/**
 * kfi_recvbv() - kfi_recv() with a buffer in pages
 * @ep: the endpoint
 * @biov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @src_addr: only from this peer, with KFI_DIRECTED_RECV; else KFI_ADDR_UNSPEC
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_recvbv(struct kfid_ep *ep, const struct bio_vec *biov,
				 void **desc, size_t count, kfi_addr_t src_addr,
				 void *context)
{
	return ep->msg->recvbv(ep, biov, desc, count, src_addr, context);
}

/**
 * kfi_recvsgl() - kfi_recv() with a scatterlist
 * @ep: the endpoint
 * @sgl: the segments of the buffer, DMA mapped
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @src_addr: only from this peer, with KFI_DIRECTED_RECV; else KFI_ADDR_UNSPEC
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_recvsgl(struct kfid_ep *ep,
				  const struct scatterlist *sgl, void **desc,
				  size_t count, kfi_addr_t src_addr,
				  void *context)
{
	return ep->msg->recvsgl(ep, sgl, desc, count, src_addr, context);
}

/**
 * kfi_recvmsg() - kfi_recv() with flags
 * @ep: the endpoint
 * @msg: the buffer
 * @flags: KFI_COMPLETION, KFI_MULTI_RECV, KFI_MORE
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_recvmsg(struct kfid_ep *ep, const struct kfi_msg *msg,
				  uint64_t flags)
{
	return ep->msg->recvmsg(ep, msg, flags);
}

/**
 * kfi_send() - send a message
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @dest_addr: the peer; ignored on a connected endpoint
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_send(struct kfid_ep *ep, const void *buf, size_t len,
			       void *desc, kfi_addr_t dest_addr, void *context)
{
	return ep->msg->send(ep, buf, len, desc, dest_addr, context);
}

/**
 * kfi_sendv() - kfi_send() with a buffer in segments
 * @ep: the endpoint
 * @iov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_sendv(struct kfid_ep *ep, const struct kvec *iov,
				void **desc, size_t count, kfi_addr_t dest_addr,
				void *context)
{
	return ep->msg->sendv(ep, iov, desc, count, dest_addr, context);
}

/**
 * kfi_sendbv() - kfi_send() with a buffer in pages
 * @ep: the endpoint
 * @biov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_sendbv(struct kfid_ep *ep, const struct bio_vec *biov,
				 void **desc, size_t count,
				 kfi_addr_t dest_addr, void *context)
{
	return ep->msg->sendbv(ep, biov, desc, count, dest_addr, context);
}

/**
 * kfi_sendsgl() - kfi_send() with a scatterlist
 * @ep: the endpoint
 * @sgl: the segments of the buffer, DMA mapped
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_sendsgl(struct kfid_ep *ep,
				  const struct scatterlist *sgl, void **desc,
				  size_t count, kfi_addr_t dest_addr,
				  void *context)
{
	return ep->msg->sendsgl(ep, sgl, desc, count, dest_addr, context);
}

/**
 * kfi_sendmsg() - kfi_send() with flags
 * @ep: the endpoint
 * @msg: the message
 * @flags: KFI_COMPLETION, KFI_REMOTE_CQ_DATA, KFI_INJECT, KFI_MORE, KFI_FENCE,
 *	or a completion level
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_sendmsg(struct kfid_ep *ep, const struct kfi_msg *msg,
				  uint64_t flags)
{
	return ep->msg->sendmsg(ep, msg, flags);
}

/**
 * kfi_inject() - send a message; the buffer is free on return
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes, at most inject_size of the transmit attributes
 * @dest_addr: the peer; ignored on a connected endpoint
 *
 * The call writes no completion for a success.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_inject(struct kfid_ep *ep, const void *buf,
				 size_t len, kfi_addr_t dest_addr)
{
	return ep->msg->inject(ep, buf, len, dest_addr);
}

/**
 * kfi_senddata() - kfi_send() with remote CQ data
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @data: remote CQ data, delivered with the completion at the peer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_senddata(struct kfid_ep *ep, const void *buf,
				   size_t len, void *desc, uint64_t data,
				   kfi_addr_t dest_addr, void *context)
{
	return ep->msg->senddata(ep, buf, len, desc, data, dest_addr, context);
}

/**
 * kfi_injectdata() - kfi_inject() with remote CQ data
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes, at most inject_size of the transmit attributes
 * @data: remote CQ data, delivered with the completion at the peer
 * @dest_addr: the peer; ignored on a connected endpoint
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see the top of kfi_endpoint.h.
 */
static inline ssize_t kfi_injectdata(struct kfid_ep *ep, const void *buf,
				     size_t len, uint64_t data,
				     kfi_addr_t dest_addr)
{
	return ep->msg->injectdata(ep, buf, len, data, dest_addr);
}

#endif /* !KFABRIC_DIRECT */

#endif /* _KFI_ENDPOINT_H_ */
