// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The calls for RMA: remote reads and writes. Flags are used as in msg.c.
 *
 * A write is complete when the peer's device has acknowledged it. The peer's CPU takes
 * no part, and gets no completion unless the write carries remote CQ data, which takes
 * one of the peer's receives.
 */
#include "kfi_verbs.h"

/**
 * struct kfv_remote - the peer's buffer
 * @addr: an address in its region, from kfid_mr.iova on
 * @key: of the region
 */
struct kfv_remote {
	u64 addr;
	u64 key;
};

static ssize_t kfv_read_vec(struct kfid_ep *fid, struct kfv_vec vec,
			    struct kfv_remote remote, void *context)
{
	struct kfv_ep *ep = kfv_ep_of(fid);
	struct kfv_tx tx = {
		.opcode = IB_WR_RDMA_READ,
		.kind = KFI_RMA | KFI_READ,
		/* The data of a read comes from the peer: nothing to inject. */
		.flags = ep->tx_flags & ~KFI_INJECT,
		.vec = vec,
		.context = context,
		.addr = remote.addr,
		.key = remote.key,
	};

	return kfv_post_tx(ep, &tx);
}

static ssize_t kfv_write_vec(struct kfid_ep *fid, struct kfv_vec vec,
			     struct kfv_remote remote, void *context,
			     u64 extra, u64 data)
{
	struct kfv_ep *ep = kfv_ep_of(fid);
	struct kfv_tx tx = {
		.opcode = IB_WR_RDMA_WRITE,
		.kind = KFI_RMA | KFI_WRITE,
		.flags = ep->tx_flags | extra,
		.silent = extra & KFI_INJECT,
		.vec = vec,
		.context = context,
		.data = data,
		.addr = remote.addr,
		.key = remote.key,
	};

	return kfv_post_tx(ep, &tx);
}

/*
 * Reads and writes with a message. A work request has one remote address, so there is
 * one remote piece, and it must be as long as the local pieces together.
 */
static ssize_t kfv_rma_msg(struct kfid_ep *ep, const struct kfi_msg_rma *msg,
			   struct kfv_tx *tx)
{
	ssize_t len;

	if (!msg || !msg->rma_iov || msg->rma_iov_count != 1)
		return kfv_refuse(-EINVAL, "not exactly one remote piece");
	tx->vec.type = msg->type;
	tx->vec.kvec = msg->msg_iov;
	tx->vec.desc = msg->desc;
	tx->vec.count = msg->iov_count;
	len = kfv_vec_len(&tx->vec);
	if (len < 0)
		return len;
	if (len != msg->rma_iov->len)
		return kfv_refuse(-EINVAL,
				  "the pieces are not as long as the remote one");
	tx->context = msg->context;
	tx->data = msg->data;
	tx->addr = msg->rma_iov->addr;
	tx->key = msg->rma_iov->key;
	return kfv_post_tx(kfv_ep_of(ep), tx);
}

static ssize_t kfv_readv(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t src_addr,
			 u64 addr, u64 key, void *context)
{
	struct kfv_vec vec = {
		.type = KFI_KVEC, .kvec = iov, .desc = desc, .count = count,
	};

	return kfv_read_vec(ep, vec, (struct kfv_remote){ addr, key }, context);
}

static ssize_t kfv_read(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			kfi_addr_t src_addr, u64 addr, u64 key,
			void *context)
{
	struct kvec iov = { .iov_base = buf, .iov_len = len };

	return kfv_readv(ep, &iov, &desc, 1, src_addr, addr, key, context);
}

static ssize_t kfv_readbv(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t src_addr,
			  u64 addr, u64 key, void *context)
{
	struct kfv_vec vec = { .type = KFI_BVEC, .bvec = biov, .count = count };

	return kfv_read_vec(ep, vec, (struct kfv_remote){ addr, key }, context);
}

/* The endpoint's default flags are filtered, flags of the call are checked. */
static ssize_t kfv_readmsg(struct kfid_ep *ep, const struct kfi_msg_rma *msg,
			   u64 flags)
{
	struct kfv_tx tx = {
		.opcode = IB_WR_RDMA_READ,
		.kind = KFI_RMA | KFI_READ,
		.flags = flags,
	};

	if (flags & (KFI_INJECT | KFI_REMOTE_CQ_DATA))
		return kfv_refuse(-KFI_EBADFLAGS, "a read has no such flags");
	return kfv_rma_msg(ep, msg, &tx);
}

static ssize_t kfv_writev(struct kfid_ep *ep, const struct kvec *iov,
			  void **desc, size_t count, kfi_addr_t dest_addr,
			  u64 addr, u64 key, void *context)
{
	struct kfv_vec vec = {
		.type = KFI_KVEC, .kvec = iov, .desc = desc, .count = count,
	};

	return kfv_write_vec(ep, vec, (struct kfv_remote){ addr, key }, context,
			     0, 0);
}

static ssize_t kfv_write_buf(struct kfid_ep *ep, const void *buf, size_t len,
			     void *desc, struct kfv_remote remote,
			     void *context, u64 extra, u64 data)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };
	struct kfv_vec vec = {
		.type = KFI_KVEC, .kvec = &iov, .desc = &desc, .count = 1,
	};

	return kfv_write_vec(ep, vec, remote, context, extra, data);
}

static ssize_t kfv_write(struct kfid_ep *ep, const void *buf, size_t len,
			 void *desc, kfi_addr_t dest_addr, u64 addr,
			 u64 key, void *context)
{
	return kfv_write_buf(ep, buf, len, desc,
			     (struct kfv_remote){ addr, key }, context, 0, 0);
}

static ssize_t kfv_writebv(struct kfid_ep *ep, const struct bio_vec *biov,
			   void **desc, size_t count, kfi_addr_t dest_addr,
			   u64 addr, u64 key, void *context)
{
	struct kfv_vec vec = { .type = KFI_BVEC, .bvec = biov, .count = count };

	return kfv_write_vec(ep, vec, (struct kfv_remote){ addr, key }, context,
			     0, 0);
}

static ssize_t kfv_writemsg(struct kfid_ep *ep, const struct kfi_msg_rma *msg,
			    u64 flags)
{
	struct kfv_tx tx = {
		.opcode = IB_WR_RDMA_WRITE,
		.kind = KFI_RMA | KFI_WRITE,
		.flags = flags,
	};

	return kfv_rma_msg(ep, msg, &tx);
}

static ssize_t kfv_inject_write(struct kfid_ep *ep, const void *buf,
				size_t len, kfi_addr_t dest_addr,
				u64 addr, u64 key)
{
	return kfv_write_buf(ep, buf, len, NULL,
			     (struct kfv_remote){ addr, key }, NULL,
			     KFI_INJECT, 0);
}

static ssize_t kfv_writedata(struct kfid_ep *ep, const void *buf, size_t len,
			     void *desc, u64 data, kfi_addr_t dest_addr,
			     u64 addr, u64 key, void *context)
{
	return kfv_write_buf(ep, buf, len, desc,
			     (struct kfv_remote){ addr, key }, context,
			     KFI_REMOTE_CQ_DATA, data);
}

static ssize_t kfv_inject_writedata(struct kfid_ep *ep, const void *buf,
				    size_t len, u64 data,
				    kfi_addr_t dest_addr, u64 addr,
				    u64 key)
{
	return kfv_write_buf(ep, buf, len, NULL,
			     (struct kfv_remote){ addr, key }, NULL,
			     KFI_INJECT | KFI_REMOTE_CQ_DATA, data);
}

struct kfi_ops_rma kfv_rma_ops = {
	.size = sizeof(struct kfi_ops_rma),
	.read = kfv_read,
	.readv = kfv_readv,
	.readbv = kfv_readbv,
	.readmsg = kfv_readmsg,
	.write = kfv_write,
	.writev = kfv_writev,
	.writebv = kfv_writebv,
	.writemsg = kfv_writemsg,
	.inject = kfv_inject_write,
	.writedata = kfv_writedata,
	.injectdata = kfv_inject_writedata,
	.readsgl = kfi_no_rma_readsgl,
	.writesgl = kfi_no_rma_writesgl,
};
