// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The calls for messages. Each one fills in what is posted; post.c does the rest.
 *
 * A connected endpoint has one peer, so that the address arguments are not used. The
 * calls without a flags argument use the endpoint's default flags, the calls with a
 * struct kfi_msg use the given flags only. An injected message writes no entry, even if
 * its flags ask for one, except when it fails.
 */
#include "kfi_verbs.h"

static ssize_t kfv_recvv(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t src_addr,
			 void *context)
{
	struct kfv_vec vec = {
		.type = KFI_KVEC, .kvec = iov, .desc = desc, .count = count,
	};

	return kfv_post_rx(ep, &vec, context, kfv_ep_of(ep)->rx_flags);
}

static ssize_t kfv_recv(struct kfid_ep *ep, void *buf, size_t len, void *desc,
			kfi_addr_t src_addr, void *context)
{
	struct kvec iov = { .iov_base = buf, .iov_len = len };

	return kfv_recvv(ep, &iov, &desc, 1, src_addr, context);
}

/* Pages have no descriptors: they are mapped for this operation. */
static ssize_t kfv_recvbv(struct kfid_ep *ep, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t src_addr,
			  void *context)
{
	struct kfv_vec vec = { .type = KFI_BVEC, .bvec = biov, .count = count };

	return kfv_post_rx(ep, &vec, context, kfv_ep_of(ep)->rx_flags);
}

static ssize_t kfv_recvmsg(struct kfid_ep *ep, const struct kfi_msg *msg,
			   u64 flags)
{
	struct kfv_vec vec;

	if (!msg)
		return kfv_refuse(-EINVAL, "no message");
	vec.type = msg->type;
	vec.kvec = msg->msg_iov;
	vec.desc = msg->desc;
	vec.count = msg->iov_count;
	return kfv_post_rx(ep, &vec, msg->context, flags);
}

/* @extra: flags in addition to the endpoint's defaults. */
static ssize_t kfv_send_kvec(struct kfid_ep *fid, const struct kvec *iov,
			     void **desc, size_t count, void *context,
			     u64 extra, u64 data)
{
	struct kfv_ep *ep = kfv_ep_of(fid);
	struct kfv_tx tx = {
		.opcode = IB_WR_SEND,
		.kind = KFI_MSG | KFI_SEND,
		.flags = ep->tx_flags | extra,
		.silent = extra & KFI_INJECT,
		.vec = {
			.type = KFI_KVEC,
			.kvec = iov,
			.desc = desc,
			.count = count,
		},
		.context = context,
		.data = data,
	};

	return kfv_post_tx(ep, &tx);
}

static ssize_t kfv_sendv(struct kfid_ep *ep, const struct kvec *iov,
			 void **desc, size_t count, kfi_addr_t dest_addr,
			 void *context)
{
	return kfv_send_kvec(ep, iov, desc, count, context, 0, 0);
}

static ssize_t kfv_send(struct kfid_ep *ep, const void *buf, size_t len,
			void *desc, kfi_addr_t dest_addr, void *context)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };

	return kfv_send_kvec(ep, &iov, &desc, 1, context, 0, 0);
}

static ssize_t kfv_sendbv(struct kfid_ep *fid, const struct bio_vec *biov,
			  void **desc, size_t count, kfi_addr_t dest_addr,
			  void *context)
{
	struct kfv_ep *ep = kfv_ep_of(fid);
	struct kfv_tx tx = {
		.opcode = IB_WR_SEND,
		.kind = KFI_MSG | KFI_SEND,
		.flags = ep->tx_flags,
		.vec = { .type = KFI_BVEC, .bvec = biov, .count = count },
		.context = context,
	};

	return kfv_post_tx(ep, &tx);
}

static ssize_t kfv_sendmsg(struct kfid_ep *ep, const struct kfi_msg *msg,
			   u64 flags)
{
	struct kfv_tx tx = {
		.opcode = IB_WR_SEND,
		.kind = KFI_MSG | KFI_SEND,
		.flags = flags,
	};

	if (!msg)
		return kfv_refuse(-EINVAL, "no message");
	tx.vec.type = msg->type;
	tx.vec.kvec = msg->msg_iov;
	tx.vec.desc = msg->desc;
	tx.vec.count = msg->iov_count;
	tx.context = msg->context;
	tx.data = msg->data;
	return kfv_post_tx(kfv_ep_of(ep), &tx);
}

static ssize_t kfv_inject(struct kfid_ep *ep, const void *buf, size_t len,
			  kfi_addr_t dest_addr)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };

	return kfv_send_kvec(ep, &iov, NULL, 1, NULL, KFI_INJECT, 0);
}

static ssize_t kfv_senddata(struct kfid_ep *ep, const void *buf, size_t len,
			    void *desc, u64 data, kfi_addr_t dest_addr,
			    void *context)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };

	return kfv_send_kvec(ep, &iov, &desc, 1, context, KFI_REMOTE_CQ_DATA,
			     data);
}

static ssize_t kfv_injectdata(struct kfid_ep *ep, const void *buf, size_t len,
			      u64 data, kfi_addr_t dest_addr)
{
	struct kvec iov = { .iov_base = (void *)buf, .iov_len = len };

	return kfv_send_kvec(ep, &iov, NULL, 1, NULL,
			     KFI_INJECT | KFI_REMOTE_CQ_DATA, data);
}

struct kfi_ops_msg kfv_msg_ops = {
	.size = sizeof(struct kfi_ops_msg),
	.recv = kfv_recv,
	.recvv = kfv_recvv,
	.recvbv = kfv_recvbv,
	.recvmsg = kfv_recvmsg,
	.send = kfv_send,
	.sendv = kfv_sendv,
	.sendbv = kfv_sendbv,
	.sendmsg = kfv_sendmsg,
	.inject = kfv_inject,
	.senddata = kfv_senddata,
	.injectdata = kfv_injectdata,
	.recvsgl = kfi_no_msg_recvsgl,
	.sendsgl = kfi_no_msg_sendsgl,
};

/* RC has no tags. Callers use the table without a check, so it has all entries. */
struct kfi_ops_tagged kfv_tagged_ops = {
	.size = sizeof(struct kfi_ops_tagged),
	.recv = kfi_no_tagged_recv,
	.recvv = kfi_no_tagged_recvv,
	.recvbv = kfi_no_tagged_recvbv,
	.recvmsg = kfi_no_tagged_recvmsg,
	.send = kfi_no_tagged_send,
	.sendv = kfi_no_tagged_sendv,
	.sendbv = kfi_no_tagged_sendbv,
	.sendmsg = kfi_no_tagged_sendmsg,
	.inject = kfi_no_tagged_inject,
	.senddata = kfi_no_tagged_senddata,
	.injectdata = kfi_no_tagged_injectdata,
	.recvsgl = kfi_no_tagged_recvsgl,
	.sendsgl = kfi_no_tagged_sendsgl,
};
