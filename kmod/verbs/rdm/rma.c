// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * kfi_ops_rma: the calls for remote reads and writes, of regions by key and,
 * with KFI_TAGGED, of receives by tag.
 *
 * As in msg.c, each call fills in a kfr_send on its stack, in any context,
 * without a lock; kfr_send() in tx.c does the rest.
 */
#include "rdm.h"

#define KFR_READ_FLAGS	(~(u64)(KFI_REMOTE_CQ_DATA | KFI_INJECT))

/* The remote side of an operation, as the calls name it. */
struct kfr_remote {
	kfi_addr_t ep;
	u64 addr;
	u64 key;
};

static struct kfr_send kfr_rma_init(struct kfid_ep *ep, enum kfr_wire_op op,
				    enum kfi_iov_type type, const void *pieces,
				    size_t count, struct kfr_remote remote,
				    void *context)
{
	struct kfr_send send = {
		.op = op,
		.kind = KFI_RMA | (op == KFR_OP_READ ? KFI_READ : KFI_WRITE),
		.flags = kfr_tx_flags(ep),
		.type = type,
		.pieces = pieces,
		.count = count,
		.context = context,
		.addr = remote.ep,
		.tag = remote.key,
		.offset = remote.addr,
	};

	/* A read sends no data: default flags about it do not apply. */
	if (op == KFR_OP_READ)
		send.flags &= KFR_READ_FLAGS;
	return send;
}

static ssize_t kfr_rma_pieces(struct kfid_ep *ep, enum kfr_wire_op op,
			      enum kfi_iov_type type, const void *pieces,
			      size_t count, struct kfr_remote remote,
			      void *context)
{
	struct kfr_send send = kfr_rma_init(ep, op, type, pieces, count, remote,
					    context);

	return kfr_send(ep, &send);
}

static ssize_t kfr_readv(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t src_addr,
			 u64 addr, u64 key, void *context)
{
	return kfr_rma_pieces(ep, KFR_OP_READ, KFI_KVEC, iov, count,
			      (struct kfr_remote){ src_addr, addr, key },
			      context);
}

static ssize_t kfr_read(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			kfi_addr_t src_addr, u64 addr, u64 key,
			void *context)
{
	struct kvec iov = { .iov_base = buf, .iov_len = len };

	return kfr_readv(ep, &iov, NULL, 1, src_addr, addr, key, context);
}

static ssize_t kfr_readbv(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t src_addr,
			  u64 addr, u64 key, void *context)
{
	return kfr_rma_pieces(ep, KFR_OP_READ, KFI_BVEC, biov, count,
			      (struct kfr_remote){ src_addr, addr, key },
			      context);
}

static ssize_t kfr_readsgl(struct kfid_ep *ep, const struct scatterlist *sgl,
			   void **desc, size_t count, kfi_addr_t src_addr,
			   u64 addr, u64 key, void *context)
{
	return kfr_rma_pieces(ep, KFR_OP_READ, KFI_SGL, sgl, count,
			      (struct kfr_remote){ src_addr, addr, key },
			      context);
}

/* There is exactly one remote piece, with the length of all local ones. */
static ssize_t kfr_rma_msg(struct kfid_ep *ep, enum kfr_wire_op op,
			   const struct kfi_msg_rma *msg, u64 flags)
{
	struct kfr_send send;

	if (!msg || !msg->rma_iov || msg->rma_iov_count != 1)
		return kfv_refuse(-EINVAL, "not exactly one remote piece");
	send = kfr_rma_init(ep, op, msg->type, msg->msg_iov, msg->iov_count,
			    (struct kfr_remote){ msg->addr, msg->rma_iov->addr,
						 msg->rma_iov->key },
			    msg->context);
	send.flags = flags & ~KFI_TAGGED;
	send.data = msg->data;
	send.exact = true;
	send.remote_len = msg->rma_iov->len;
	if (flags & KFI_TAGGED) {
		if (!(kfr_face_of(ep)->ep->caps & KFI_TAGGED_RMA))
			return kfv_refuse(-KFI_EBADFLAGS,
					  "no KFI_TAGGED_RMA was asked for");
		send.tagged = true;
		send.kind |= KFI_SEND;
	}
	return kfr_send(ep, &send);
}

static ssize_t kfr_readmsg(struct kfid_ep *ep, const struct kfi_msg_rma *msg,
			   u64 flags)
{
	if (flags & ~KFR_READ_FLAGS)
		return kfv_refuse(-KFI_EBADFLAGS, "unknown flags");
	return kfr_rma_msg(ep, KFR_OP_READ, msg, flags);
}

static ssize_t kfr_writemsg(struct kfid_ep *ep, const struct kfi_msg_rma *msg,
			    u64 flags)
{
	return kfr_rma_msg(ep, KFR_OP_WRITE, msg, flags);
}

static ssize_t kfr_writev(struct kfid_ep *ep, const struct kvec *iov,
			  void **desc, size_t count, kfi_addr_t dest_addr,
			  u64 addr, u64 key, void *context)
{
	return kfr_rma_pieces(ep, KFR_OP_WRITE, KFI_KVEC, iov, count,
			      (struct kfr_remote){ dest_addr, addr, key },
			      context);
}

static ssize_t kfr_write(struct kfid_ep *ep, const void *buf, size_t len,
			 void *desc, kfi_addr_t dest_addr, u64 addr,
			 u64 key, void *context)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };

	return kfr_writev(ep, &iov, NULL, 1, dest_addr, addr, key, context);
}

static ssize_t kfr_writebv(struct kfid_ep *ep, const struct bio_vec *biov,
			   void **desc, size_t count, kfi_addr_t dest_addr,
			   u64 addr, u64 key, void *context)
{
	return kfr_rma_pieces(ep, KFR_OP_WRITE, KFI_BVEC, biov, count,
			      (struct kfr_remote){ dest_addr, addr, key },
			      context);
}

static ssize_t kfr_writesgl(struct kfid_ep *ep, const struct scatterlist *sgl,
			    void **desc, size_t count, kfi_addr_t dest_addr,
			    u64 addr, u64 key, void *context)
{
	return kfr_rma_pieces(ep, KFR_OP_WRITE, KFI_SGL, sgl, count,
			      (struct kfr_remote){ dest_addr, addr, key },
			      context);
}

static ssize_t kfr_write_buf(struct kfid_ep *ep, const void *buf, size_t len,
			     struct kfr_remote remote, void *context,
			     u64 extra, u64 data)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };
	struct kfr_send send = kfr_rma_init(ep, KFR_OP_WRITE, KFI_KVEC, &iov, 1,
					    remote, context);

	send.flags |= extra;
	send.silent = extra & KFI_INJECT;
	send.data = data;
	return kfr_send(ep, &send);
}

static ssize_t kfr_inject_write(struct kfid_ep *ep, const void *buf,
				size_t len, kfi_addr_t dest_addr,
				u64 addr, u64 key)
{
	return kfr_write_buf(ep, buf, len,
			     (struct kfr_remote){ dest_addr, addr, key }, NULL,
			     KFI_INJECT, 0);
}

static ssize_t kfr_writedata(struct kfid_ep *ep, const void *buf, size_t len,
			     void *desc, u64 data, kfi_addr_t dest_addr,
			     u64 addr, u64 key, void *context)
{
	return kfr_write_buf(ep, buf, len,
			     (struct kfr_remote){ dest_addr, addr, key },
			     context, KFI_REMOTE_CQ_DATA, data);
}

static ssize_t kfr_inject_writedata(struct kfid_ep *ep, const void *buf,
				    size_t len, u64 data,
				    kfi_addr_t dest_addr, u64 addr,
				    u64 key)
{
	return kfr_write_buf(ep, buf, len,
			     (struct kfr_remote){ dest_addr, addr, key }, NULL,
			     KFI_INJECT | KFI_REMOTE_CQ_DATA, data);
}

struct kfi_ops_rma kfr_rma_ops = {
	.size = sizeof(struct kfi_ops_rma),
	.read = kfr_read,
	.readv = kfr_readv,
	.readbv = kfr_readbv,
	.readmsg = kfr_readmsg,
	.write = kfr_write,
	.writev = kfr_writev,
	.writebv = kfr_writebv,
	.writemsg = kfr_writemsg,
	.inject = kfr_inject_write,
	.writedata = kfr_writedata,
	.injectdata = kfr_inject_writedata,
	.readsgl = kfr_readsgl,
	.writesgl = kfr_writesgl,
};
