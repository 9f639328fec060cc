// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Posting work requests: what sends, receives, RMA and atomics have in common.
 *
 * Posting takes no lock of the connection and does not sleep. It runs in a read section
 * of kfv_post_srcu: the device stays until the section ends. The ULP keeps the endpoint
 * open meanwhile. The state of the connection may change at any time; a post that sees the
 * previous one gets a work request into a queue pair in its error state, which flushes
 * it, so that every posted operation completes.
 *
 * An operation is counted in @posted before it is posted. Otherwise it could complete
 * first, and the count would reach 0 while kfv_conn_stop() still has to wait.
 */
#include "kfi_verbs.h"

static ssize_t kfv_post_errno(int err)
{
	/* The device's queue is full, although there was a free operation. */
	return err == -ENOMEM ? -EAGAIN : err;
}

static bool kfv_tx_is_atomic(const struct kfv_tx *tx)
{
	return tx->opcode == IB_WR_ATOMIC_FETCH_AND_ADD ||
	       tx->opcode == IB_WR_ATOMIC_CMP_AND_SWP;
}

static ssize_t kfv_tx_check(const struct kfv_ep *ep, const struct kfv_tx *tx)
{
	ssize_t len;

	lockdep_assert(srcu_read_lock_held(&kfv_post_srcu));
	if (kfv_gone(ep->domain->dev))
		return -ENODEV;
	if (!ep->base.enabled)
		return -KFI_EOPBADSTATE;
	if (!kfv_conn_up(ep->conn))
		return -ENOTCONN;
	if (tx->flags & ~KFV_TX_FLAGS)
		return kfv_refuse(-KFI_EBADFLAGS, "unknown flags");
	if (tx->vec.count > KFV_IOV_LIMIT)
		return kfv_refuse(-EINVAL, "too many pieces");
	/*
	 * A peer that answers no reads would leave this request in the send queue
	 * for ever, and all requests after it.
	 */
	if ((tx->opcode == IB_WR_RDMA_READ || kfv_tx_is_atomic(tx)) &&
	    !ep->conn->param.initiator_depth)
		return -EOPNOTSUPP;
	/* The wire carries 32 bits. */
	if ((tx->flags & KFI_REMOTE_CQ_DATA && tx->data > U32_MAX) ||
	    tx->key > U32_MAX)
		return kfv_refuse(-EINVAL,
				  "data or a key of more than 32 bits");
	len = kfv_vec_len(&tx->vec);
	if (len < 0)
		return len;
	if (len > ep->domain->max_msg_size ||
	    (tx->flags & KFI_INJECT && len > KFV_INJECT_SIZE))
		return kfv_refuse(-EMSGSIZE, "too long");
	return len;
}

/* Reads and atomics write to the local buffer, everything else reads it. */
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

/*
 * A read of no bytes goes out as a write of none, which the peer answers in the same way:
 * if rxe finds no memory for its answer to such a read, it crashes (read_reply() in
 * drivers/infiniband/sw/rxe/rxe_resp.c).
 */
static enum ib_wr_opcode kfv_tx_opcode(const struct kfv_tx *tx)
{
	if (tx->opcode == IB_WR_RDMA_READ && !kfv_vec_len(&tx->vec))
		return IB_WR_RDMA_WRITE;
	return tx->opcode;
}

/*
 * Every work request is signaled, also one whose success writes no entry: its operation
 * is freed by its completion.
 */
static void kfv_tx_wr(struct ib_send_wr *wr, struct kfv_op *op,
		      const struct kfv_tx *tx)
{
	wr->wr_cqe = &op->cqe;
	wr->sg_list = op->sge;
	wr->num_sge = op->num_sge;
	wr->opcode = kfv_tx_opcode(tx);
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
	/* Counted first: it may complete before ib_post_send() returns. */
	atomic_inc(&conn->posted);
	return ib_post_send(conn->qp, &wr.wr, NULL);
}

/* After ib_post_send() has succeeded, the operation is the device's. */
static ssize_t __kfv_post_tx(struct kfv_ep *ep, const struct kfv_tx *tx)
{
	struct kfv_conn *conn = ep->conn;
	struct kfv_op *op;
	ssize_t len;
	int err;

	lockdep_assert(srcu_read_lock_held(&kfv_post_srcu));
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
 * kfv_post_tx() - post a send, an RDMA read or write, or an atomic
 * @ep: the endpoint, which the caller keeps open
 * @tx: the operation
 *
 * Context: any; does not sleep.
 * Return: 0; -EAGAIN: as much is posted as the queue holds; -ENODEV;
 * -KFI_EOPBADSTATE: not enabled; -ENOTCONN; -KFI_EBADFLAGS; -EMSGSIZE: longer
 * than a message or an injected message can be, or scattered over more pages than a
 * work request takes; -EINVAL; -KFI_EDOMAIN: a descriptor of another domain; -ENOMEM;
 * -ENOSYS: a scatterlist; -EOPNOTSUPP: the peer answers no reads and atomics.
 */
ssize_t kfv_post_tx(struct kfv_ep *ep, const struct kfv_tx *tx)
{
	int idx = srcu_read_lock(&kfv_post_srcu);
	ssize_t ret = __kfv_post_tx(ep, tx);

	srcu_read_unlock(&kfv_post_srcu, idx);
	return ret;
}

/* The state does not matter: receives may be posted before there is a connection. */
static ssize_t kfv_rx_check(const struct kfv_ep *ep, const struct kfv_vec *vec,
			    u64 flags)
{
	ssize_t len;

	lockdep_assert(srcu_read_lock_held(&kfv_post_srcu));
	if (kfv_gone(ep->domain->dev))
		return -ENODEV;
	if (!ep->base.enabled)
		return -KFI_EOPBADSTATE;
	if (flags & ~KFV_RX_FLAGS)
		return kfv_refuse(-KFI_EBADFLAGS, "unknown flags");
	if (vec->count > KFV_IOV_LIMIT)
		return kfv_refuse(-EINVAL, "too many pieces");
	len = kfv_vec_len(vec);
	if (len < 0)
		return len;
	if (len > ep->domain->max_msg_size)
		return kfv_refuse(-EMSGSIZE, "too long");
	return 0;
}

static ssize_t __kfv_post_rx(struct kfv_ep *ep, const struct kfv_vec *vec,
			     void *context, u64 flags)
{
	struct kfv_conn *conn = ep->conn;
	struct ib_recv_wr wr = { };
	struct kfv_op *op;
	int err;

	lockdep_assert(srcu_read_lock_held(&kfv_post_srcu));
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

/**
 * kfv_post_rx() - post a receive
 * @fid: the endpoint, which the caller keeps open
 * @vec: the buffer; the device owns it until the completion
 * @context: the ULP's, for the completion
 * @flags: the operation's flags
 *
 * Context: any; does not sleep.
 * Return: 0; -EAGAIN: as many are posted as the queue holds; -ENODEV;
 * -KFI_EOPBADSTATE: not enabled; -KFI_EBADFLAGS; -EMSGSIZE: longer than a message can
 * be, or too scattered; -EINVAL; -KFI_EDOMAIN; -ENOMEM; -ENOSYS.
 */
ssize_t kfv_post_rx(struct kfid_ep *fid, const struct kfv_vec *vec,
		    void *context, u64 flags)
{
	int idx = srcu_read_lock(&kfv_post_srcu);
	ssize_t ret = __kfv_post_rx(kfv_ep_of(fid), vec, context, flags);

	srcu_read_unlock(&kfv_post_srcu, idx);
	return ret;
}
