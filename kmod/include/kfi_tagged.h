/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Tagged messages. A message matches the first posted receive whose tag equals
 * the message's in all bits that are not set in ignore. If the receive names a
 * source, the source must match, too.
 */
#ifndef _KFI_TAGGED_H_
#define _KFI_TAGGED_H_

#include <kfabric.h>
#include <kfi_endpoint.h>

/* A tagged message or receive; type selects the pointer. */
struct kfi_msg_tagged {
	enum kfi_iov_type type;
	union {
		const struct kvec *msg_iov;
		const struct bio_vec *msg_biov;
		const struct scatterlist *msg_sgl;
	};
	void **desc;			/* one for each segment, or NULL */
	size_t iov_count;		/* segments */
	kfi_addr_t addr;
	uint64_t tag;
	uint64_t ignore;		/* of a receive: bits not compared */
	void *context;
	uint64_t data;			/* with KFI_REMOTE_CQ_DATA */
};

struct kfi_ops_tagged {
	size_t size;
	ssize_t (*recv)(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			kfi_addr_t src_addr, uint64_t tag, uint64_t ignore,
			void *context);
	ssize_t (*recvv)(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t src_addr,
			 uint64_t tag, uint64_t ignore, void *context);
	ssize_t (*recvbv)(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t src_addr,
			  uint64_t tag, uint64_t ignore, void *context);
	ssize_t (*recvmsg)(struct kfid_ep *ep, const struct kfi_msg_tagged *msg,
			   uint64_t flags);
	ssize_t (*send)(struct kfid_ep *ep, const void *buf, size_t len,
			void *desc, kfi_addr_t dest_addr, uint64_t tag,
			void *context);
	ssize_t (*sendv)(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t dest_addr,
			 uint64_t tag, void *context);
	ssize_t (*sendbv)(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t dest_addr,
			  uint64_t tag, void *context);
	ssize_t (*sendmsg)(struct kfid_ep *ep, const struct kfi_msg_tagged *msg,
			   uint64_t flags);
	ssize_t (*inject)(struct kfid_ep *ep, const void *buf, size_t len,
			  kfi_addr_t dest_addr, uint64_t tag);
	ssize_t (*senddata)(struct kfid_ep *ep, const void *buf, size_t len,
			    void *desc, uint64_t data, kfi_addr_t dest_addr,
			    uint64_t tag, void *context);
	ssize_t (*injectdata)(struct kfid_ep *ep, const void *buf, size_t len,
			      uint64_t data, kfi_addr_t dest_addr,
			      uint64_t tag);
	ssize_t (*recvsgl)(struct kfid_ep *ep, const struct scatterlist *sgl,
			   void **desc, size_t count, kfi_addr_t src_addr,
			   uint64_t tag, uint64_t ignore, void *context);
	ssize_t (*sendsgl)(struct kfid_ep *ep, const struct scatterlist *sgl,
			   void **desc, size_t count, kfi_addr_t dest_addr,
			   uint64_t tag, void *context);
};

#ifdef KFABRIC_DIRECT
#include <kfi_direct_tagged.h>
#else /* !KFABRIC_DIRECT */

/**
 * kfi_trecv() - post a buffer for a tagged message
 * @ep: the endpoint
 * @buf: where the message goes
 * @len: bytes
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @src_addr: only from this peer, with KFI_DIRECTED_RECV; else KFI_ADDR_UNSPEC
 * @tag: the tag
 * @ignore: tag bits that are not compared
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h; -KFI_EINVAL also for
 *	tag bits that the provider does not support.
 */
static inline ssize_t kfi_trecv(struct kfid_ep *ep, void *buf, size_t len,
				void *desc, kfi_addr_t src_addr, uint64_t tag,
				uint64_t ignore, void *context)
{
	return ep->tagged->recv(ep, buf, len, desc, src_addr, tag, ignore,
				context);
}

/**
 * kfi_trecvv() - kfi_trecv() with a buffer in segments
 * @ep: the endpoint
 * @iov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @src_addr: only from this peer, with KFI_DIRECTED_RECV; else KFI_ADDR_UNSPEC
 * @tag: the tag
 * @ignore: tag bits that are not compared
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_trecvv(struct kfid_ep *ep, const struct kvec *iov,
				 void **desc, size_t count, kfi_addr_t src_addr,
				 uint64_t tag, uint64_t ignore, void *context)
{
	return ep->tagged->recvv(ep, iov, desc, count, src_addr, tag, ignore,
				 context);
}

/**
 * kfi_trecvbv() - kfi_trecv() with a buffer in pages
 * @ep: the endpoint
 * @biov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @src_addr: only from this peer, with KFI_DIRECTED_RECV; else KFI_ADDR_UNSPEC
 * @tag: the tag
 * @ignore: tag bits that are not compared
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_trecvbv(struct kfid_ep *ep,
				  const struct bio_vec *biov, void **desc,
				  size_t count, kfi_addr_t src_addr,
				  uint64_t tag, uint64_t ignore, void *context)
{
	return ep->tagged->recvbv(ep, biov, desc, count, src_addr, tag, ignore,
				  context);
}

/**
 * kfi_trecvsgl() - kfi_trecv() with a scatterlist
 * @ep: the endpoint
 * @sgl: the segments of the buffer, DMA mapped
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @src_addr: only from this peer, with KFI_DIRECTED_RECV; else KFI_ADDR_UNSPEC
 * @tag: the tag
 * @ignore: tag bits that are not compared
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_trecvsgl(struct kfid_ep *ep,
				   const struct scatterlist *sgl, void **desc,
				   size_t count, kfi_addr_t src_addr,
				   uint64_t tag, uint64_t ignore, void *context)
{
	return ep->tagged->recvsgl(ep, sgl, desc, count, src_addr, tag, ignore,
				   context);
}

/**
 * kfi_trecvmsg() - kfi_trecv() with flags
 * @ep: the endpoint
 * @msg: the buffer
 * @flags: KFI_COMPLETION, KFI_MORE, KFI_MULTI_RECV with KFI_TAGGED_MULTI_RECV;
 *	KFI_PEEK, KFI_CLAIM, KFI_DISCARD
 *
 * If KFI_PEEK finds no message, the operation ends with the error KFI_ENOMSG.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_trecvmsg(struct kfid_ep *ep,
				   const struct kfi_msg_tagged *msg,
				   uint64_t flags)
{
	return ep->tagged->recvmsg(ep, msg, flags);
}

/**
 * kfi_tsend() - send a tagged message
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @dest_addr: the peer; ignored on a connected endpoint
 * @tag: the tag
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_tsend(struct kfid_ep *ep, const void *buf, size_t len,
				void *desc, kfi_addr_t dest_addr, uint64_t tag,
				void *context)
{
	return ep->tagged->send(ep, buf, len, desc, dest_addr, tag, context);
}

/**
 * kfi_tsendv() - kfi_tsend() with a buffer in segments
 * @ep: the endpoint
 * @iov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @tag: the tag
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_tsendv(struct kfid_ep *ep, const struct kvec *iov,
				 void **desc, size_t count,
				 kfi_addr_t dest_addr, uint64_t tag,
				 void *context)
{
	return ep->tagged->sendv(ep, iov, desc, count, dest_addr, tag, context);
}

/**
 * kfi_tsendbv() - kfi_tsend() with a buffer in pages
 * @ep: the endpoint
 * @biov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @tag: the tag
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_tsendbv(struct kfid_ep *ep,
				  const struct bio_vec *biov, void **desc,
				  size_t count, kfi_addr_t dest_addr,
				  uint64_t tag, void *context)
{
	return ep->tagged->sendbv(ep, biov, desc, count, dest_addr, tag,
				  context);
}

/**
 * kfi_tsendsgl() - kfi_tsend() with a scatterlist
 * @ep: the endpoint
 * @sgl: the segments of the buffer, DMA mapped
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @tag: the tag
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_tsendsgl(struct kfid_ep *ep,
				   const struct scatterlist *sgl, void **desc,
				   size_t count, kfi_addr_t dest_addr,
				   uint64_t tag, void *context)
{
	return ep->tagged->sendsgl(ep, sgl, desc, count, dest_addr, tag,
				   context);
}

/**
 * kfi_tsendmsg() - kfi_tsend() with flags
 * @ep: the endpoint
 * @msg: the message
 * @flags: KFI_COMPLETION, KFI_REMOTE_CQ_DATA, KFI_INJECT, KFI_MORE, KFI_FENCE,
 *	or a completion level
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_tsendmsg(struct kfid_ep *ep,
				   const struct kfi_msg_tagged *msg,
				   uint64_t flags)
{
	return ep->tagged->sendmsg(ep, msg, flags);
}

/**
 * kfi_tinject() - kfi_tsend(); the buffer is free on return
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes, at most inject_size of the transmit attributes
 * @dest_addr: the peer; ignored on a connected endpoint
 * @tag: the tag
 *
 * The call writes no completion for a success.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_tinject(struct kfid_ep *ep, const void *buf,
				  size_t len, kfi_addr_t dest_addr,
				  uint64_t tag)
{
	return ep->tagged->inject(ep, buf, len, dest_addr, tag);
}

/**
 * kfi_tsenddata() - kfi_tsend() with remote CQ data
 * @ep: the endpoint
 * @buf: the message, may be NULL with @len 0
 * @len: bytes
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @data: remote CQ data, delivered with the completion at the peer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @tag: the tag
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_tsenddata(struct kfid_ep *ep, const void *buf,
				    size_t len, void *desc, uint64_t data,
				    kfi_addr_t dest_addr, uint64_t tag,
				    void *context)
{
	return ep->tagged->senddata(ep, buf, len, desc, data, dest_addr, tag,
				    context);
}

/**
 * kfi_tinjectdata() - kfi_tinject() with remote CQ data
 * @ep: the endpoint
 * @buf: the message
 * @len: bytes, at most inject_size of the transmit attributes
 * @data: remote CQ data, delivered with the completion at the peer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @tag: the tag
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_tinjectdata(struct kfid_ep *ep, const void *buf,
				      size_t len, uint64_t data,
				      kfi_addr_t dest_addr, uint64_t tag)
{
	return ep->tagged->injectdata(ep, buf, len, data, dest_addr, tag);
}

#endif /* !KFABRIC_DIRECT */

#endif /* _KFI_TAGGED_H_ */
