// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Posting work requests.
 */
#include "kfi_verbs.h"

static ssize_t kfv_post_errno(int err)
{
	/* A full queue, though we counted: the device has its own ideas. */
	return err == -ENOMEM ? -EAGAIN : err;
}

static bool kfv_tx_is_atomic(const struct kfv_tx *tx)
{
	return tx->opcode == IB_WR_ATOMIC_FETCH_AND_ADD ||
	       tx->opcode == IB_WR_ATOMIC_CMP_AND_SWP;
}

static ssize_t kfv_tx_check(const struct kfv_ep *ep, const struct kfv_tx *tx)
{
	enum kfv_state state = READ_ONCE(ep->conn->state);
	ssize_t len;

	if (kfv_gone(ep->domain->dev))
		return -ENODEV;
	if (!ep->base.enabled)
		return -KFI_EOPBADSTATE;
	if (state != KFV_CONNECTED && state != KFV_ACCEPTED)
		return -ENOTCONN;
	if (tx->flags & ~KFV_TX_FLAGS)
		return -KFI_EBADFLAGS;
	if (tx->vec.count > KFV_IOV_LIMIT)
		return -EINVAL;
	/* A peer that answers none would have them wait for ever, and all behind. */
	if ((tx->opcode == IB_WR_RDMA_READ || kfv_tx_is_atomic(tx)) &&
	    !ep->conn->param.initiator_depth)
		return -EOPNOTSUPP;
	/* The wire carries 32 bits. */
	if ((tx->flags & KFI_REMOTE_CQ_DATA && tx->data > U32_MAX) ||
	    tx->key > U32_MAX)
		return -EINVAL;
	len = kfv_vec_len(&tx->vec);
	if (len < 0)
		return len;
	if (len > ep->domain->max_msg_size ||
	    (tx->flags & KFI_INJECT && len > KFV_INJECT_SIZE))
		return -EMSGSIZE;
	return len;
}

static int kfv_tx_fill(struct kfv_op *op, const struct kfv_ep *ep,
		       const struct kfv_tx *tx, size_t len)
{
	op->context = tx->context;
	op->flags = tx->kind;
	op->want_entry = !tx->silent && kfi_ep_wants_tx(&ep->base, tx->flags);
	op->dir = tx->opcode == IB_WR_RDMA_READ || kfv_tx_is_atomic(tx) ?
		  DMA_FROM_DEVICE : DMA_TO_DEVICE;
	if (tx->drop_result)
		return kfv_op_bounce(op, len);
	if (tx->flags & KFI_INJECT)
		return kfv_op_copy(op, &tx->vec, len);
	return kfv_op_map(op, &tx->vec);
}

static void kfv_tx_wr(struct ib_send_wr *wr, struct kfv_op *op,
		      const struct kfv_tx *tx)
{
	wr->wr_cqe = &op->cqe;
	wr->sg_list = op->sge;
	wr->num_sge = op->num_sge;
	wr->opcode = tx->opcode;
	wr->send_flags = IB_SEND_SIGNALED;
	if (tx->flags & KFI_FENCE)
		wr->send_flags |= IB_SEND_FENCE;
	if (tx->flags & KFI_SOLICITED)
		wr->send_flags |= IB_SEND_SOLICITED;
}

static int kfv_tx_send_atomic(struct kfv_conn *conn, struct kfv_op *op,
			      const struct kfv_tx *tx)
{
	struct ib_atomic_wr wr = {
		.remote_addr = tx->addr,
		.compare_add = tx->compare_add,
		.swap = tx->swap,
		.rkey = tx->key,
	};

	kfv_tx_wr(&wr.wr, op, tx);
	atomic_inc(&conn->posted);
	return ib_post_send(conn->qp, &wr.wr, NULL);
}

static int kfv_tx_send(struct kfv_conn *conn, struct kfv_op *op,
		       const struct kfv_tx *tx)
{
	struct ib_rdma_wr wr = { .remote_addr = tx->addr, .rkey = tx->key };

	if (kfv_tx_is_atomic(tx))
		return kfv_tx_send_atomic(conn, op, tx);
	kfv_tx_wr(&wr.wr, op, tx);
	if (tx->flags & KFI_REMOTE_CQ_DATA) {
		wr.wr.opcode = tx->opcode == IB_WR_SEND ?
			       IB_WR_SEND_WITH_IMM : IB_WR_RDMA_WRITE_WITH_IMM;
		wr.wr.ex.imm_data = cpu_to_be32(tx->data);
	}
	/* Counted first: it may complete before the call returns. */
	atomic_inc(&conn->posted);
	return ib_post_send(conn->qp, &wr.wr, NULL);
}

static ssize_t __kfv_post_tx(struct kfv_ep *ep, const struct kfv_tx *tx)
{
	struct kfv_conn *conn = ep->conn;
	struct kfv_op *op;
	ssize_t len;
	int err;

	len = kfv_tx_check(ep, tx);
	if (len < 0)
		return len;
	op = kfv_op_get(&conn->tx);
	if (!op)
		return -EAGAIN;
	err = kfv_tx_fill(op, ep, tx, len);
	if (!err) {
		err = kfv_tx_send(conn, op, tx);
		if (!err)
			return 0;
		kfv_op_unmap(op);
		kfv_op_free(&conn->tx, op);
		kfv_posted_put(conn);
		return kfv_post_errno(err);
	}
	kfv_op_free(&conn->tx, op);
	return err;
}

/**
 * kfv_post_tx() - post a send, an RDMA read or an RDMA write
 * @ep: the endpoint
 * @tx: the operation
 *
 * Context: any; does not sleep.
 * Return: 0; -EAGAIN: as much is posted as the queue holds; -ENODEV;
 * -KFI_EOPBADSTATE: not enabled; -ENOTCONN; -KFI_EBADFLAGS; -EMSGSIZE: longer
 * than a message can be, or an injected one than that, or scattered over more
 * pages than a work request takes; -EINVAL; -KFI_EDOMAIN; -ENOSYS; -EOPNOTSUPP:
 * the peer answers no reads and atomics.
 */
ssize_t kfv_post_tx(struct kfv_ep *ep, const struct kfv_tx *tx)
{
	int idx = srcu_read_lock(&kfv_srcu);
	ssize_t ret = __kfv_post_tx(ep, tx);

	srcu_read_unlock(&kfv_srcu, idx);
	return ret;
}

static ssize_t kfv_rx_check(const struct kfv_ep *ep, const struct kfv_vec *vec,
			    u64 flags)
{
	ssize_t len;

	if (kfv_gone(ep->domain->dev))
		return -ENODEV;
	if (!ep->base.enabled)
		return -KFI_EOPBADSTATE;
	if (flags & ~KFV_RX_FLAGS)
		return -KFI_EBADFLAGS;
	if (vec->count > KFV_IOV_LIMIT)
		return -EINVAL;
	len = kfv_vec_len(vec);
	if (len < 0)
		return len;
	return len > ep->domain->max_msg_size ? -EMSGSIZE : 0;
}

static ssize_t __kfv_post_rx(struct kfv_ep *ep, const struct kfv_vec *vec,
				void *context, u64 flags)
{
	struct kfv_conn *conn = ep->conn;
	struct ib_recv_wr wr = { };
	struct kfv_op *op;
	int err;

	err = kfv_rx_check(ep, vec, flags);
	if (err)
		return err;
	op = kfv_op_get(&conn->rx);
	if (!op)
		return -EAGAIN;
	op->context = context;
	op->flags = KFI_MSG | KFI_RECV;
	op->want_entry = kfi_ep_wants_rx(&ep->base, flags);
	err = kfv_op_map(op, vec);
	if (err) {
		kfv_op_free(&conn->rx, op);
		return err;
	}

	wr.wr_cqe = &op->cqe;
	wr.sg_list = op->sge;
	wr.num_sge = op->num_sge;
	atomic_inc(&conn->posted);
	err = ib_post_recv(conn->qp, &wr, NULL);
	if (!err)
		return 0;
	kfv_op_unmap(op);
	kfv_op_free(&conn->rx, op);
	kfv_posted_put(conn);
	return kfv_post_errno(err);
}

ssize_t kfv_post_rx(struct kfid_ep *fid, const struct kfv_vec *vec,
			   void *context, u64 flags)
{
	int idx = srcu_read_lock(&kfv_srcu);
	ssize_t ret = __kfv_post_rx(kfv_ep_of(fid), vec, context, flags);

	srcu_read_unlock(&kfv_srcu, idx);
	return ret;
}
