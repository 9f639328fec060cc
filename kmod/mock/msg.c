// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Posting: every form of send, receive, read and write is reduced to a length,
 * a context and flags. No data is moved.
 */
#include <linux/bvec.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "mock.h"

/**
 * kfm_vec_len() - length of a vector
 * @type: type of the vector
 * @vec: array of struct kvec or struct bio_vec, or a scatterlist
 * @count: number of segments
 *
 * Context: Any.
 * Return: bytes, -EINVAL for a bad type or too many segments, -EMSGSIZE.
 */
ssize_t kfm_vec_len(enum kfi_iov_type type, const void *vec, size_t count)
{
	const struct kvec *kv = vec;
	const struct bio_vec *bv = vec;
	const struct scatterlist *sg = vec;
	size_t len = 0, i;

	if (count > KFM_IOV_LIMIT || (count && !vec))
		return -EINVAL;
	for (i = 0; i < count; i++) {
		switch (type) {
		case KFI_KVEC:
			len += kv[i].iov_len;
			break;
		case KFI_BVEC:
			len += bv[i].bv_len;
			break;
		case KFI_SGL:
			len += sg->length;
			sg = sg_next((struct scatterlist *)sg);
			break;
		default:
			return -EINVAL;
		}
		if (len > KFM_MSG_SIZE)
			return -EMSGSIZE;
	}
	return len;
}

static ssize_t kfm_post_op(struct kfm_ep *ep, enum kfm_kind kind, size_t len,
			   void *context, bool want_entry)
{
	struct kfm_op *op = kzalloc(sizeof(*op), GFP_ATOMIC | __GFP_ACCOUNT);
	ssize_t err;

	if (!op)
		return -EAGAIN;
	op->comp.context = context;
	op->comp.state = KFI_OP_ENDED;
	op->comp.flags = kfm_kind_flags[kind];
	op->comp.len = kind == KFM_RECV ? len : 0;
	op->comp.src = KFI_ADDR_NOTAVAIL;
	op->want_entry = want_entry;
	err = kfm_ep_post(ep, kind, op);
	if (err)
		kfree(op);
	return err;
}

/* @len is a length, or an error of kfm_vec_len(), which is returned. */
static ssize_t kfm_post(struct kfid_ep *fid, enum kfm_kind kind, ssize_t len,
			void *context, u64 flags)
{
	struct kfm_ep *ep = kfm_ep_of(fid);
	bool rx = kind == KFM_RECV;

	if (len < 0)
		return len;
	if (flags & ~(rx ? KFM_RX_FLAGS : KFM_TX_FLAGS))
		return -KFI_EBADFLAGS;
	if (len > ((flags & KFI_INJECT) ? KFM_INJECT_SIZE : KFM_MSG_SIZE))
		return -EMSGSIZE;
	return kfm_post_op(ep, kind, len, context,
			   rx ? kfi_ep_wants_rx(&ep->base, flags) :
				kfi_ep_wants_tx(&ep->base, flags));
}

/* Calls without a flags argument use the flags of the endpoint. */
static ssize_t kfm_post_tx(struct kfid_ep *ep, enum kfm_kind kind, ssize_t len,
			   void *context, u64 extra)
{
	return kfm_post(ep, kind, len, context,
			kfm_ep_of(ep)->tx_flags | extra);
}

static ssize_t kfm_post_rx(struct kfid_ep *ep, ssize_t len, void *context)
{
	return kfm_post(ep, KFM_RECV, len, context, kfm_ep_of(ep)->rx_flags);
}

/* The inject calls write a CQ entry only for an error. */
static ssize_t kfm_post_inject(struct kfid_ep *ep, enum kfm_kind kind,
			       size_t len)
{
	if (len > KFM_INJECT_SIZE)
		return -EMSGSIZE;
	return kfm_post_op(kfm_ep_of(ep), kind, len, NULL, false);
}

static ssize_t kfm_recv(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			kfi_addr_t src_addr, void *context)
{
	return kfm_post_rx(ep, len, context);
}

static ssize_t kfm_recvv(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t src_addr,
			 void *context)
{
	return kfm_post_rx(ep, kfm_vec_len(KFI_KVEC, iov, count), context);
}

static ssize_t kfm_recvbv(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t src_addr,
			  void *context)
{
	return kfm_post_rx(ep, kfm_vec_len(KFI_BVEC, biov, count), context);
}

static ssize_t kfm_recvsgl(struct kfid_ep *ep, const struct scatterlist *sgl,
			   void **desc, size_t count, kfi_addr_t src_addr,
			   void *context)
{
	return kfm_post_rx(ep, kfm_vec_len(KFI_SGL, sgl, count), context);
}

static ssize_t kfm_recvmsg(struct kfid_ep *ep, const struct kfi_msg *msg,
			   u64 flags)
{
	return kfm_post(ep, KFM_RECV,
			kfm_vec_len(msg->type, msg->msg_iov, msg->iov_count),
			msg->context, flags);
}

static ssize_t kfm_send(struct kfid_ep *ep, const void *buf, size_t len,
			void *desc, kfi_addr_t dest_addr, void *context)
{
	return kfm_post_tx(ep, KFM_SEND, len, context, 0);
}

static ssize_t kfm_sendv(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t dest_addr,
			 void *context)
{
	return kfm_post_tx(ep, KFM_SEND, kfm_vec_len(KFI_KVEC, iov, count),
			   context, 0);
}

static ssize_t kfm_sendbv(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t dest_addr,
			  void *context)
{
	return kfm_post_tx(ep, KFM_SEND, kfm_vec_len(KFI_BVEC, biov, count),
			   context, 0);
}

static ssize_t kfm_sendsgl(struct kfid_ep *ep, const struct scatterlist *sgl,
			   void **desc, size_t count, kfi_addr_t dest_addr,
			   void *context)
{
	return kfm_post_tx(ep, KFM_SEND, kfm_vec_len(KFI_SGL, sgl, count),
			   context, 0);
}

static ssize_t kfm_sendmsg(struct kfid_ep *ep, const struct kfi_msg *msg,
			   u64 flags)
{
	return kfm_post(ep, KFM_SEND,
			kfm_vec_len(msg->type, msg->msg_iov, msg->iov_count),
			msg->context, flags);
}

static ssize_t kfm_inject(struct kfid_ep *ep, const void *buf, size_t len,
			  kfi_addr_t dest_addr)
{
	return kfm_post_inject(ep, KFM_SEND, len);
}

static ssize_t kfm_senddata(struct kfid_ep *ep, const void *buf, size_t len,
			    void *desc, u64 data, kfi_addr_t dest_addr,
			    void *context)
{
	return kfm_post_tx(ep, KFM_SEND, len, context, KFI_REMOTE_CQ_DATA);
}

static ssize_t kfm_injectdata(struct kfid_ep *ep, const void *buf, size_t len,
			      u64 data, kfi_addr_t dest_addr)
{
	return kfm_post_inject(ep, KFM_SEND, len);
}

struct kfi_ops_msg kfm_msg_ops = {
	.size = sizeof(struct kfi_ops_msg),
	.recv = kfm_recv,
	.recvv = kfm_recvv,
	.recvbv = kfm_recvbv,
	.recvmsg = kfm_recvmsg,
	.send = kfm_send,
	.sendv = kfm_sendv,
	.sendbv = kfm_sendbv,
	.sendmsg = kfm_sendmsg,
	.inject = kfm_inject,
	.senddata = kfm_senddata,
	.injectdata = kfm_injectdata,
	.recvsgl = kfm_recvsgl,
	.sendsgl = kfm_sendsgl,
};

static ssize_t kfm_read(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			kfi_addr_t src_addr, u64 addr, u64 key,
			void *context)
{
	return kfm_post_tx(ep, KFM_READ, len, context, 0);
}

static ssize_t kfm_readv(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t src_addr,
			 u64 addr, u64 key, void *context)
{
	return kfm_post_tx(ep, KFM_READ, kfm_vec_len(KFI_KVEC, iov, count),
			   context, 0);
}

static ssize_t kfm_readbv(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t src_addr,
			  u64 addr, u64 key, void *context)
{
	return kfm_post_tx(ep, KFM_READ, kfm_vec_len(KFI_BVEC, biov, count),
			   context, 0);
}

static ssize_t kfm_readsgl(struct kfid_ep *ep, const struct scatterlist *sgl,
			   void **desc, size_t count, kfi_addr_t src_addr,
			   u64 addr, u64 key, void *context)
{
	return kfm_post_tx(ep, KFM_READ, kfm_vec_len(KFI_SGL, sgl, count),
			   context, 0);
}

static ssize_t kfm_readmsg(struct kfid_ep *ep, const struct kfi_msg_rma *msg,
			   u64 flags)
{
	return kfm_post(ep, KFM_READ,
			kfm_vec_len(msg->type, msg->msg_iov, msg->iov_count),
			msg->context, flags);
}

static ssize_t kfm_write(struct kfid_ep *ep, const void *buf, size_t len,
			 void *desc, kfi_addr_t dest_addr, u64 addr,
			 u64 key, void *context)
{
	return kfm_post_tx(ep, KFM_WRITE, len, context, 0);
}

static ssize_t kfm_writev(struct kfid_ep *ep, const struct kvec *iov,
			  void **desc, size_t count, kfi_addr_t dest_addr,
			  u64 addr, u64 key, void *context)
{
	return kfm_post_tx(ep, KFM_WRITE, kfm_vec_len(KFI_KVEC, iov, count),
			   context, 0);
}

static ssize_t kfm_writebv(struct kfid_ep *ep, const struct bio_vec *biov,
			   void **desc, size_t count, kfi_addr_t dest_addr,
			   u64 addr, u64 key, void *context)
{
	return kfm_post_tx(ep, KFM_WRITE, kfm_vec_len(KFI_BVEC, biov, count),
			   context, 0);
}

static ssize_t kfm_writesgl(struct kfid_ep *ep, const struct scatterlist *sgl,
			    void **desc, size_t count, kfi_addr_t dest_addr,
			    u64 addr, u64 key, void *context)
{
	return kfm_post_tx(ep, KFM_WRITE, kfm_vec_len(KFI_SGL, sgl, count),
			   context, 0);
}

static ssize_t kfm_writemsg(struct kfid_ep *ep, const struct kfi_msg_rma *msg,
			    u64 flags)
{
	return kfm_post(ep, KFM_WRITE,
			kfm_vec_len(msg->type, msg->msg_iov, msg->iov_count),
			msg->context, flags);
}

static ssize_t kfm_inject_write(struct kfid_ep *ep, const void *buf, size_t len,
				kfi_addr_t dest_addr, u64 addr,
				u64 key)
{
	return kfm_post_inject(ep, KFM_WRITE, len);
}

static ssize_t kfm_writedata(struct kfid_ep *ep, const void *buf, size_t len,
			     void *desc, u64 data, kfi_addr_t dest_addr,
			     u64 addr, u64 key, void *context)
{
	return kfm_post_tx(ep, KFM_WRITE, len, context, KFI_REMOTE_CQ_DATA);
}

static ssize_t kfm_inject_writedata(struct kfid_ep *ep, const void *buf,
				    size_t len, u64 data,
				    kfi_addr_t dest_addr, u64 addr,
				    u64 key)
{
	return kfm_post_inject(ep, KFM_WRITE, len);
}

struct kfi_ops_rma kfm_rma_ops = {
	.size = sizeof(struct kfi_ops_rma),
	.read = kfm_read,
	.readv = kfm_readv,
	.readbv = kfm_readbv,
	.readmsg = kfm_readmsg,
	.write = kfm_write,
	.writev = kfm_writev,
	.writebv = kfm_writebv,
	.writemsg = kfm_writemsg,
	.inject = kfm_inject_write,
	.writedata = kfm_writedata,
	.injectdata = kfm_inject_writedata,
	.readsgl = kfm_readsgl,
	.writesgl = kfm_writesgl,
};
