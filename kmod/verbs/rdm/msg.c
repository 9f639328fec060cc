// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * kfi_ops_msg and kfi_ops_tagged: the calls for messages, tagged and untagged.
 *
 * Each call only fills in a kfr_post or a kfr_send on its stack; kfr_post() in
 * recv.c and kfr_send() in tx.c check it, and copy what outlives the call. So
 * all of them may be called in any context, do not sleep, and take no lock
 * here. The ...msg() variants use the flags of the call. The others use the
 * context's default flags, read without a lock, and those that the variant
 * implies.
 */
#include "rdm.h"

/* As kfr_tx_flags(): kfr_post() refuses a handle without a receive context. */
static u64 kfr_rx_flags(struct kfid_ep *ep)
{
	const struct kfr_rx *rx = kfr_face_of(ep)->rx;

	return rx ? rx->flags : 0;
}

static ssize_t kfr_recv_pieces(struct kfid_ep *ep, bool tagged,
			       enum kfi_iov_type type, const void *pieces,
			       size_t count, kfi_addr_t addr, u64 tag,
			       u64 ignore, void *context)
{
	struct kfr_post post = {
		.tagged = tagged,
		.type = type,
		.pieces = pieces,
		.count = count,
		.addr = addr,
		.tag = tag,
		.ignore = ignore,
		.context = context,
		.flags = kfr_rx_flags(ep),
	};

	return kfr_post(ep, &post);
}

static ssize_t kfr_recv(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			kfi_addr_t src_addr, void *context)
{
	struct kvec iov = { .iov_base = buf, .iov_len = len };

	return kfr_recv_pieces(ep, false, KFI_KVEC, &iov, 1, src_addr, 0, 0,
			       context);
}

static ssize_t kfr_recvv(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t src_addr,
			 void *context)
{
	return kfr_recv_pieces(ep, false, KFI_KVEC, iov, count, src_addr, 0, 0,
			       context);
}

static ssize_t kfr_recvbv(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t src_addr,
			  void *context)
{
	return kfr_recv_pieces(ep, false, KFI_BVEC, biov, count, src_addr, 0, 0,
			       context);
}

static ssize_t kfr_recvsgl(struct kfid_ep *ep, const struct scatterlist *sgl,
			   void **desc, size_t count, kfi_addr_t src_addr,
			   void *context)
{
	return kfr_recv_pieces(ep, false, KFI_SGL, sgl, count, src_addr, 0, 0,
			       context);
}

static ssize_t kfr_recvmsg(struct kfid_ep *ep, const struct kfi_msg *msg,
			   u64 flags)
{
	struct kfr_post post = { .strict = true, .flags = flags };

	if (!msg)
		return kfv_refuse(-EINVAL, "no message");
	post.type = msg->type;
	post.pieces = msg->msg_iov;
	post.count = msg->iov_count;
	post.addr = msg->addr;
	post.context = msg->context;
	return kfr_post(ep, &post);
}

static ssize_t kfr_trecv(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			 kfi_addr_t src_addr, u64 tag, u64 ignore,
			 void *context)
{
	struct kvec iov = { .iov_base = buf, .iov_len = len };

	return kfr_recv_pieces(ep, true, KFI_KVEC, &iov, 1, src_addr, tag,
			       ignore, context);
}

static ssize_t kfr_trecvv(struct kfid_ep *ep, const struct kvec *iov,
			  void **desc, size_t count, kfi_addr_t src_addr,
			  u64 tag, u64 ignore, void *context)
{
	return kfr_recv_pieces(ep, true, KFI_KVEC, iov, count, src_addr, tag,
			       ignore, context);
}

static ssize_t kfr_trecvbv(struct kfid_ep *ep, const struct bio_vec *biov,
			   void **desc, size_t count, kfi_addr_t src_addr,
			   u64 tag, u64 ignore, void *context)
{
	return kfr_recv_pieces(ep, true, KFI_BVEC, biov, count, src_addr, tag,
			       ignore, context);
}

static ssize_t kfr_trecvsgl(struct kfid_ep *ep, const struct scatterlist *sgl,
			    void **desc, size_t count, kfi_addr_t src_addr,
			    u64 tag, u64 ignore, void *context)
{
	return kfr_recv_pieces(ep, true, KFI_SGL, sgl, count, src_addr, tag,
			       ignore, context);
}

static ssize_t kfr_trecvmsg(struct kfid_ep *ep,
			    const struct kfi_msg_tagged *msg, u64 flags)
{
	struct kfr_post post = {
		.tagged = true,
		.strict = true,
		.flags = flags,
	};

	if (!msg)
		return kfv_refuse(-EINVAL, "no message");
	post.type = msg->type;
	post.pieces = msg->msg_iov;
	post.count = msg->iov_count;
	post.addr = msg->addr;
	post.tag = msg->tag;
	post.ignore = msg->ignore;
	post.context = msg->context;
	return kfr_post(ep, &post);
}

/* The parameters that all sends share. @extra is added to the default flags. */
static struct kfr_send kfr_send_init(struct kfid_ep *ep, bool tagged,
				     enum kfi_iov_type type,
				     const void *pieces, size_t count,
				     kfi_addr_t addr, u64 tag, void *context,
				     u64 extra)
{
	struct kfr_send send = {
		.op = KFR_OP_EAGER,
		.kind = KFI_MSG | KFI_SEND,
		.flags = kfr_tx_flags(ep) | extra,
		.silent = extra & KFI_INJECT,
		.tagged = tagged,
		.type = type,
		.pieces = pieces,
		.count = count,
		.context = context,
		.addr = addr,
		.tag = tag,
	};

	return send;
}

static ssize_t kfr_send_pieces(struct kfid_ep *ep, bool tagged,
			       enum kfi_iov_type type, const void *pieces,
			       size_t count, kfi_addr_t addr, u64 tag,
			       void *context)
{
	struct kfr_send send = kfr_send_init(ep, tagged, type, pieces, count,
					     addr, tag, context, 0);

	return kfr_send(ep, &send);
}

static ssize_t kfr_sendv(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t dest_addr,
			 void *context)
{
	return kfr_send_pieces(ep, false, KFI_KVEC, iov, count, dest_addr, 0,
			       context);
}

static ssize_t kfr_msg_send(struct kfid_ep *ep, const void *buf, size_t len,
			    void *desc, kfi_addr_t dest_addr, void *context)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };

	return kfr_sendv(ep, &iov, NULL, 1, dest_addr, context);
}

static ssize_t kfr_sendbv(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t dest_addr,
			  void *context)
{
	return kfr_send_pieces(ep, false, KFI_BVEC, biov, count, dest_addr, 0,
			       context);
}

static ssize_t kfr_sendsgl(struct kfid_ep *ep, const struct scatterlist *sgl,
			   void **desc, size_t count, kfi_addr_t dest_addr,
			   void *context)
{
	return kfr_send_pieces(ep, false, KFI_SGL, sgl, count, dest_addr, 0,
			       context);
}

static ssize_t kfr_sendmsg(struct kfid_ep *ep, const struct kfi_msg *msg,
			   u64 flags)
{
	struct kfr_send send;

	if (!msg)
		return kfv_refuse(-EINVAL, "no message");
	send = kfr_send_init(ep, false, msg->type, msg->msg_iov,
			     msg->iov_count, msg->addr, 0, msg->context, 0);
	send.flags = flags;
	send.data = msg->data;
	return kfr_send(ep, &send);
}

static ssize_t kfr_send_buf(struct kfid_ep *ep, bool tagged, const void *buf,
			    size_t len, kfi_addr_t addr, u64 tag,
			    void *context, u64 extra, u64 data)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };
	struct kfr_send send = kfr_send_init(ep, tagged, KFI_KVEC, &iov, 1,
					     addr, tag, context, extra);

	send.data = data;
	return kfr_send(ep, &send);
}

static ssize_t kfr_inject(struct kfid_ep *ep, const void *buf, size_t len,
			  kfi_addr_t dest_addr)
{
	return kfr_send_buf(ep, false, buf, len, dest_addr, 0, NULL,
			    KFI_INJECT, 0);
}

static ssize_t kfr_senddata(struct kfid_ep *ep, const void *buf, size_t len,
			    void *desc, u64 data, kfi_addr_t dest_addr,
			    void *context)
{
	return kfr_send_buf(ep, false, buf, len, dest_addr, 0, context,
			    KFI_REMOTE_CQ_DATA, data);
}

static ssize_t kfr_injectdata(struct kfid_ep *ep, const void *buf, size_t len,
			      u64 data, kfi_addr_t dest_addr)
{
	return kfr_send_buf(ep, false, buf, len, dest_addr, 0, NULL,
			    KFI_INJECT | KFI_REMOTE_CQ_DATA, data);
}

struct kfi_ops_msg kfr_msg_ops = {
	.size = sizeof(struct kfi_ops_msg),
	.recv = kfr_recv,
	.recvv = kfr_recvv,
	.recvbv = kfr_recvbv,
	.recvmsg = kfr_recvmsg,
	.send = kfr_msg_send,
	.sendv = kfr_sendv,
	.sendbv = kfr_sendbv,
	.sendmsg = kfr_sendmsg,
	.inject = kfr_inject,
	.senddata = kfr_senddata,
	.injectdata = kfr_injectdata,
	.recvsgl = kfr_recvsgl,
	.sendsgl = kfr_sendsgl,
};

static ssize_t kfr_tsendv(struct kfid_ep *ep, const struct kvec *iov,
			  void **desc, size_t count, kfi_addr_t dest_addr,
			  u64 tag, void *context)
{
	return kfr_send_pieces(ep, true, KFI_KVEC, iov, count, dest_addr, tag,
			       context);
}

static ssize_t kfr_tsend(struct kfid_ep *ep, const void *buf, size_t len,
			 void *desc, kfi_addr_t dest_addr, u64 tag,
			 void *context)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };

	return kfr_tsendv(ep, &iov, NULL, 1, dest_addr, tag, context);
}

static ssize_t kfr_tsendbv(struct kfid_ep *ep, const struct bio_vec *biov,
			   void **desc, size_t count, kfi_addr_t dest_addr,
			   u64 tag, void *context)
{
	return kfr_send_pieces(ep, true, KFI_BVEC, biov, count, dest_addr, tag,
			       context);
}

static ssize_t kfr_tsendsgl(struct kfid_ep *ep, const struct scatterlist *sgl,
			    void **desc, size_t count, kfi_addr_t dest_addr,
			    u64 tag, void *context)
{
	return kfr_send_pieces(ep, true, KFI_SGL, sgl, count, dest_addr, tag,
			       context);
}

static ssize_t kfr_tsendmsg(struct kfid_ep *ep,
			    const struct kfi_msg_tagged *msg, u64 flags)
{
	struct kfr_send send;

	if (!msg)
		return kfv_refuse(-EINVAL, "no message");
	send = kfr_send_init(ep, true, msg->type, msg->msg_iov, msg->iov_count,
			     msg->addr, msg->tag, msg->context, 0);
	send.flags = flags;
	send.data = msg->data;
	return kfr_send(ep, &send);
}

static ssize_t kfr_tinject(struct kfid_ep *ep, const void *buf, size_t len,
			   kfi_addr_t dest_addr, u64 tag)
{
	return kfr_send_buf(ep, true, buf, len, dest_addr, tag, NULL,
			    KFI_INJECT, 0);
}

static ssize_t kfr_tsenddata(struct kfid_ep *ep, const void *buf, size_t len,
			     void *desc, u64 data, kfi_addr_t dest_addr,
			     u64 tag, void *context)
{
	return kfr_send_buf(ep, true, buf, len, dest_addr, tag, context,
			    KFI_REMOTE_CQ_DATA, data);
}

static ssize_t kfr_tinjectdata(struct kfid_ep *ep, const void *buf, size_t len,
			       u64 data, kfi_addr_t dest_addr, u64 tag)
{
	return kfr_send_buf(ep, true, buf, len, dest_addr, tag, NULL,
			    KFI_INJECT | KFI_REMOTE_CQ_DATA, data);
}

struct kfi_ops_tagged kfr_tagged_ops = {
	.size = sizeof(struct kfi_ops_tagged),
	.recv = kfr_trecv,
	.recvv = kfr_trecvv,
	.recvbv = kfr_trecvbv,
	.recvmsg = kfr_trecvmsg,
	.send = kfr_tsend,
	.sendv = kfr_tsendv,
	.sendbv = kfr_tsendbv,
	.sendmsg = kfr_tsendmsg,
	.inject = kfr_tinject,
	.senddata = kfr_tsenddata,
	.injectdata = kfr_tinjectdata,
	.recvsgl = kfr_trecvsgl,
	.sendsgl = kfr_tsendsgl,
};
