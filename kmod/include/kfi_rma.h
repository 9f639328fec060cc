/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * RMA: reads and writes of a peer's memory. The target is a region with
 * KFI_REMOTE_READ or KFI_REMOTE_WRITE. The target's ULP takes no part. It gets a
 * completion only for remote CQ data or with KFI_RMA_EVENT.
 */
#ifndef _KFI_RMA_H_
#define _KFI_RMA_H_

#include <kfabric.h>
#include <kfi_endpoint.h>

/* A segment of remote memory. */
struct kfi_rma_iov {
	uint64_t addr;			/* offset, or iova: KFI_MR_VIRT_ADDR */
	size_t len;			/* bytes */
	uint64_t key;
};

/* A transfer; type selects the pointer. */
struct kfi_msg_rma {
	enum kfi_iov_type type;
	union {
		const struct kvec *msg_iov;
		const struct bio_vec *msg_biov;
		const struct scatterlist *msg_sgl;
	};
	void **desc;			/* one for each segment, or NULL */
	size_t iov_count;		/* local segments */
	kfi_addr_t addr;
	const struct kfi_rma_iov *rma_iov;
	size_t rma_iov_count;		/* remote segments */
	void *context;
	uint64_t data;			/* with KFI_REMOTE_CQ_DATA */
};

struct kfi_ops_rma {
	size_t size;
	ssize_t (*read)(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			kfi_addr_t src_addr, uint64_t addr, uint64_t key,
			void *context);
	ssize_t (*readv)(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t src_addr,
			 uint64_t addr, uint64_t key, void *context);
	ssize_t (*readbv)(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t src_addr,
			  uint64_t addr, uint64_t key, void *context);
	ssize_t (*readmsg)(struct kfid_ep *ep, const struct kfi_msg_rma *msg,
			   uint64_t flags);
	ssize_t (*write)(struct kfid_ep *ep, const void *buf, size_t len,
			 void *desc, kfi_addr_t dest_addr, uint64_t addr,
			 uint64_t key, void *context);
	ssize_t (*writev)(struct kfid_ep *ep, const struct kvec *iov,
			  void **desc, size_t count, kfi_addr_t dest_addr,
			  uint64_t addr, uint64_t key, void *context);
	ssize_t (*writebv)(struct kfid_ep *ep, const struct bio_vec *biov,
			   void **desc, size_t count, kfi_addr_t dest_addr,
			   uint64_t addr, uint64_t key, void *context);
	ssize_t (*writemsg)(struct kfid_ep *ep, const struct kfi_msg_rma *msg,
			    uint64_t flags);
	ssize_t (*inject)(struct kfid_ep *ep, const void *buf, size_t len,
			  kfi_addr_t dest_addr, uint64_t addr, uint64_t key);
	ssize_t (*writedata)(struct kfid_ep *ep, const void *buf, size_t len,
			     void *desc, uint64_t data, kfi_addr_t dest_addr,
			     uint64_t addr, uint64_t key, void *context);
	ssize_t (*injectdata)(struct kfid_ep *ep, const void *buf, size_t len,
			      uint64_t data, kfi_addr_t dest_addr,
			      uint64_t addr, uint64_t key);
	ssize_t (*readsgl)(struct kfid_ep *ep, const struct scatterlist *sgl,
			   void **desc, size_t count, kfi_addr_t src_addr,
			   uint64_t addr, uint64_t key, void *context);
	ssize_t (*writesgl)(struct kfid_ep *ep, const struct scatterlist *sgl,
			    void **desc, size_t count, kfi_addr_t dest_addr,
			    uint64_t addr, uint64_t key, void *context);
};

#ifdef KFABRIC_DIRECT
#include <kfi_direct_rma.h>
#else /* !KFABRIC_DIRECT */

/**
 * kfi_read() - read remote memory
 * @ep: the endpoint
 * @buf: where the data goes
 * @len: bytes
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @src_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_read(struct kfid_ep *ep, void *buf, size_t len,
			       void *desc, kfi_addr_t src_addr, uint64_t addr,
			       uint64_t key, void *context)
{
	return ep->rma->read(ep, buf, len, desc, src_addr, addr, key, context);
}

/**
 * kfi_readv() - kfi_read() into a buffer in segments
 * @ep: the endpoint
 * @iov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @src_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_readv(struct kfid_ep *ep, const struct kvec *iov,
				void **desc, size_t count, kfi_addr_t src_addr,
				uint64_t addr, uint64_t key, void *context)
{
	return ep->rma->readv(ep, iov, desc, count, src_addr, addr, key,
			      context);
}

/**
 * kfi_readbv() - kfi_read() into pages
 * @ep: the endpoint
 * @biov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @src_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_readbv(struct kfid_ep *ep, const struct bio_vec *biov,
				 void **desc, size_t count, kfi_addr_t src_addr,
				 uint64_t addr, uint64_t key, void *context)
{
	return ep->rma->readbv(ep, biov, desc, count, src_addr, addr, key,
			       context);
}

/**
 * kfi_readsgl() - kfi_read() into a scatterlist
 * @ep: the endpoint
 * @sgl: the segments of the buffer, DMA mapped
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @src_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_readsgl(struct kfid_ep *ep,
				  const struct scatterlist *sgl, void **desc,
				  size_t count, kfi_addr_t src_addr,
				  uint64_t addr, uint64_t key, void *context)
{
	return ep->rma->readsgl(ep, sgl, desc, count, src_addr, addr, key,
				context);
}

/**
 * kfi_readmsg() - kfi_read() with flags
 * @ep: the endpoint
 * @msg: the transfer
 * @flags: KFI_COMPLETION, KFI_MORE, KFI_FENCE; KFI_TAGGED with KFI_TAGGED_RMA
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_readmsg(struct kfid_ep *ep,
				  const struct kfi_msg_rma *msg, uint64_t flags)
{
	return ep->rma->readmsg(ep, msg, flags);
}

/**
 * kfi_write() - write remote memory
 * @ep: the endpoint
 * @buf: the data
 * @len: bytes
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_write(struct kfid_ep *ep, const void *buf, size_t len,
				void *desc, kfi_addr_t dest_addr, uint64_t addr,
				uint64_t key, void *context)
{
	return ep->rma->write(ep, buf, len, desc, dest_addr, addr, key,
			      context);
}

/**
 * kfi_writev() - kfi_write() from a buffer in segments
 * @ep: the endpoint
 * @iov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_writev(struct kfid_ep *ep, const struct kvec *iov,
				 void **desc, size_t count,
				 kfi_addr_t dest_addr, uint64_t addr,
				 uint64_t key, void *context)
{
	return ep->rma->writev(ep, iov, desc, count, dest_addr, addr, key,
			       context);
}

/**
 * kfi_writebv() - kfi_write() from pages
 * @ep: the endpoint
 * @biov: the segments of the buffer
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_writebv(struct kfid_ep *ep,
				  const struct bio_vec *biov, void **desc,
				  size_t count, kfi_addr_t dest_addr,
				  uint64_t addr, uint64_t key, void *context)
{
	return ep->rma->writebv(ep, biov, desc, count, dest_addr, addr, key,
				context);
}

/**
 * kfi_writesgl() - kfi_write() from a scatterlist
 * @ep: the endpoint
 * @sgl: the segments of the buffer, DMA mapped
 * @desc: kfi_mr_desc() of each segment, or NULL
 * @count: number of segments, 0 for an empty transfer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @context: op_context of the completion
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_writesgl(struct kfid_ep *ep,
				   const struct scatterlist *sgl, void **desc,
				   size_t count, kfi_addr_t dest_addr,
				   uint64_t addr, uint64_t key, void *context)
{
	return ep->rma->writesgl(ep, sgl, desc, count, dest_addr, addr, key,
				 context);
}

/**
 * kfi_writemsg() - kfi_write() with flags
 * @ep: the endpoint
 * @msg: the transfer
 * @flags: those of kfi_readmsg(), KFI_REMOTE_CQ_DATA, KFI_INJECT, or a
 *	completion level
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_writemsg(struct kfid_ep *ep,
				   const struct kfi_msg_rma *msg,
				   uint64_t flags)
{
	return ep->rma->writemsg(ep, msg, flags);
}

/**
 * kfi_inject_write() - kfi_write(); the buffer is free on return
 * @ep: the endpoint
 * @buf: the data
 * @len: bytes, at most inject_size of the transmit attributes
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 *
 * The call writes no completion for a success.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_inject_write(struct kfid_ep *ep, const void *buf,
				       size_t len, kfi_addr_t dest_addr,
				       uint64_t addr, uint64_t key)
{
	return ep->rma->inject(ep, buf, len, dest_addr, addr, key);
}

/**
 * kfi_writedata() - kfi_write() with remote CQ data
 * @ep: the endpoint
 * @buf: the data
 * @len: bytes
 * @desc: kfi_mr_desc() of the buffer, or NULL
 * @data: remote CQ data, delivered with the completion at the peer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 * @context: op_context of the completion
 *
 * The peer's completion has KFI_RMA, KFI_REMOTE_WRITE and KFI_REMOTE_CQ_DATA.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_writedata(struct kfid_ep *ep, const void *buf,
				    size_t len, void *desc, uint64_t data,
				    kfi_addr_t dest_addr, uint64_t addr,
				    uint64_t key, void *context)
{
	return ep->rma->writedata(ep, buf, len, desc, data, dest_addr, addr,
				  key, context);
}

/**
 * kfi_inject_writedata() - kfi_inject_write() with remote CQ data
 * @ep: the endpoint
 * @buf: the data
 * @len: bytes, at most inject_size of the transmit attributes
 * @data: remote CQ data, delivered with the completion at the peer
 * @dest_addr: the peer; ignored on a connected endpoint
 * @addr: offset into the remote region, or its iova with KFI_MR_VIRT_ADDR
 * @key: key of the remote region
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, or an error of posting, see kfi_endpoint.h.
 */
static inline ssize_t kfi_inject_writedata(struct kfid_ep *ep, const void *buf,
					   size_t len, uint64_t data,
					   kfi_addr_t dest_addr, uint64_t addr,
					   uint64_t key)
{
	return ep->rma->injectdata(ep, buf, len, data, dest_addr, addr, key);
}

#endif /* !KFABRIC_DIRECT */

#endif /* _KFI_RMA_H_ */
