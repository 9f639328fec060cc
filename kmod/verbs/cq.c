// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Operations and their completions. A ULP's CQ is an object of the core and has no
 * ib_cq. Queue pairs complete on the CQs that the RDMA core shares between its users
 * (ib_cq_pool_get()), and an operation is found by its wr_cqe.
 *
 * The provider owns no ib_cq for two reasons. rxe calls the completion handler of a CQ
 * from a tasklet that it does not kill when it frees the CQ (rxe_send_complete()), and
 * may call it twice after one request; the shared CQs are freed only with the device
 * and are polled again until they are empty. They are polled in softirq context, so
 * that no thread has to be scheduled between the device and the waiter.
 *
 * All operations of a queue are allocated when the endpoint is enabled. Posting takes
 * one from the free list, and the completion handler puts it back.
 */
#include <linux/slab.h>

#include "kfi_verbs.h"

/* The room for injected data is at the end, and only in the send queue. */
static struct kfv_op *kfv_op_new(struct kfv_conn *conn,
				 struct kfv_queue *queue, bool tx)
{
	size_t size = offsetof(struct kfv_op, sge) +
		      queue->max_sge * sizeof(struct ib_sge);
	struct kfv_op *op;

	op = kzalloc(size + (tx ? KFV_INJECT_SIZE : 0), GFP_KERNEL_ACCOUNT);
	if (!op)
		return NULL;
	op->conn = conn;
	op->cqe.done = tx ? kfv_tx_done : kfv_rx_done;
	op->dir = tx ? DMA_TO_DEVICE : DMA_FROM_DEVICE;
	if (tx)
		op->bounce = (void *)op + size;
	return op;
}

/**
 * kfv_queue_init() - allocate all operations of a queue
 * @conn: the connection
 * @queue: one of its two queues, with size and max_sge set
 * @tx: it is the send queue
 *
 * Posting allocates nothing after this, so that it works in any context. Each
 * allocation may sleep for two seconds in a cgroup above memory.high, and the removal of
 * the device waits for @conn->ctl, so it is looked for in between.
 *
 * Context: process; caller holds conn->ctl. Nothing is posted yet.
 * Return: 0, -ENOMEM or -ENODEV.
 */
int kfv_queue_init(struct kfv_conn *conn, struct kfv_queue *queue, bool tx)
{
	const struct kfv_device *dev = conn->pd->dev;
	struct kfv_op *op;
	unsigned int i;

	lockdep_assert_held(&conn->ctl);
	queue->ops = kvcalloc(queue->size, sizeof(*queue->ops),
			      GFP_KERNEL_ACCOUNT);
	if (!queue->ops)
		return -ENOMEM;
	for (i = 0; i < queue->size; i++) {
		op = kfv_gone(dev) ? NULL : kfv_op_new(conn, queue, tx);
		if (!op) {
			kfv_queue_fini(queue);
			return kfv_gone(dev) ? -ENODEV : -ENOMEM;
		}
		queue->ops[i] = op;
		op->next = queue->free;
		queue->free = op;
	}
	return 0;
}

/**
 * kfv_queue_fini() - free all operations of a queue
 * @queue: the queue, of which nothing is posted; may have none
 *
 * Context: process; no other thread uses the queue.
 */
void kfv_queue_fini(struct kfv_queue *queue)
{
	unsigned int i;

	if (!queue->ops)
		return;
	for (i = 0; i < queue->size; i++)
		kfree(queue->ops[i]);
	kvfree(queue->ops);
	queue->ops = NULL;
	queue->free = NULL;
}

/**
 * kfv_op_get() - take a free operation
 * @queue: the queue
 *
 * Context: any.
 * Return: an operation that the caller owns; NULL: as many are posted as the queue
 * holds.
 */
struct kfv_op *kfv_op_get(struct kfv_queue *queue)
{
	unsigned long irq;
	struct kfv_op *op;

	spin_lock_irqsave(&queue->lock, irq);
	op = queue->free;
	if (op)
		queue->free = op->next;
	spin_unlock_irqrestore(&queue->lock, irq);
	return op;
}

/**
 * kfv_op_free() - put an operation back
 * @queue: its queue
 * @op: the operation, unmapped; another thread may take it at once
 *
 * Context: any.
 */
void kfv_op_free(struct kfv_queue *queue, struct kfv_op *op)
{
	unsigned long irq;

	spin_lock_irqsave(&queue->lock, irq);
	op->next = queue->free;
	queue->free = op;
	spin_unlock_irqrestore(&queue->lock, irq);
}

/**
 * kfv_posted_put() - one posted operation less
 * @conn: the connection, which may be freed at once: not to be used after this
 *
 * Context: any.
 */
void kfv_posted_put(struct kfv_conn *conn)
{
	if (atomic_dec_and_test(&conn->posted))
		complete_all(&conn->drained);
}

/*
 * Reports a completion. A failed operation ends the connection, and so does a flushed
 * one: a peer can break the queue pair by an operation that completes nothing here (a
 * write with a wrong key) and never send a disconnect request. The flush is then the
 * only sign. After a regular end the work item finds the state changed, which comes
 * before the flush, and does nothing.
 *
 * The order of the caller matters: the operation is freed before, so that a woken
 * thread finds room in the queue. The count of posted operations is dropped last: after
 * that kfv_conn_stop() may return, the endpoint may be freed, and soon the connection.
 *
 * The checks are inside the read section. So a removal that has set gone, or a stop
 * that has given up on the device, waits for the report in synchronize_srcu().
 */
static void kfv_report(struct kfv_conn *conn, struct kfi_completion *comp,
		       bool want_entry)
{
	int idx = srcu_read_lock(&kfv_srcu);

	if (!comp->err)
		kfv_conn_alive(conn);
	if (!READ_ONCE(conn->ep_gone) && !kfv_gone(conn->pd->dev)) {
		kfi_ep_complete(&conn->ep->base, comp, want_entry);
		if (comp->err)
			kfv_conn_queue_disconnect(conn);
	}
	srcu_read_unlock(&kfv_srcu, idx);
	kfv_posted_put(conn);
}

/*
 * A message longer than the receive that takes it is an error on both sides. Devices
 * report it in different ways: as a length, an invalid request or a malformed work
 * request. Posting checks receives, so none of these has another cause here.
 */
static bool kfv_wc_too_long(enum ib_wc_status status, u64 flags)
{
	if (flags & KFI_SEND)
		return status == IB_WC_REM_INV_REQ_ERR ||
		       status == IB_WC_REM_OP_ERR;
	return flags & KFI_RECV && (status == IB_WC_LOC_LEN_ERR ||
				    status == IB_WC_LOC_QP_OP_ERR ||
				    status == IB_WC_REM_INV_REQ_ERR);
}

/* The errno of a completion entry; docs/verbs.md lists them for users. */
static int kfv_wc_errno(enum ib_wc_status status, u64 flags)
{
	if (kfv_wc_too_long(status, flags))
		return KFI_EMSGSIZE;
	switch (status) {
	case IB_WC_SUCCESS:
		return 0;
	case IB_WC_WR_FLUSH_ERR:
		return KFI_ECANCELED;
	case IB_WC_LOC_PROT_ERR:
	case IB_WC_LOC_ACCESS_ERR:
		return KFI_EACCES;
	case IB_WC_REM_INV_REQ_ERR:
	case IB_WC_REM_ACCESS_ERR:
	case IB_WC_REM_OP_ERR:
	case IB_WC_RNR_RETRY_EXC_ERR:
		return KFI_EREMOTEIO;
	case IB_WC_RETRY_EXC_ERR:
	case IB_WC_RESP_TIMEOUT_ERR:
		return KFI_ETIMEDOUT;
	case IB_WC_REM_ABORT_ERR:
		return KFI_ECONNABORTED;
	default:
		return KFI_EIO;
	}
}

static void kfv_rx_success(struct kfi_completion *comp, const struct ib_wc *wc)
{
	if (wc->opcode == IB_WC_RECV_RDMA_WITH_IMM)
		comp->flags = KFI_RMA | KFI_REMOTE_WRITE;
	if (wc->wc_flags & IB_WC_WITH_IMM) {
		comp->flags |= KFI_REMOTE_CQ_DATA;
		comp->data = be32_to_cpu(wc->ex.imm_data);
	}
	/*
	 * The sender may have asked for a solicited event, but a work completion
	 * does not show that. An event too many is allowed, a missing one is not.
	 */
	comp->flags |= KFI_SOLICITED;
	comp->len = wc->byte_len;
}

/*
 * Of a failed completion only wr_cqe and status mean anything: the kind of operation
 * comes from @op. The buffer is unmapped before the report, since the ULP may use it
 * as soon as it is woken.
 */
static void kfv_op_done(struct kfv_op *op, struct kfv_queue *queue,
			const struct ib_wc *wc)
{
	struct kfv_conn *conn = op->conn;
	struct kfi_completion comp = {
		.context = op->context,
		.state = KFI_OP_ENDED,
		.flags = op->flags,
		.src = KFI_ADDR_NOTAVAIL,
		.err = kfv_wc_errno(wc->status, op->flags),
		.prov_errno = wc->status,
	};
	bool want_entry = op->want_entry;

	if (queue == &conn->rx && wc->status == IB_WC_SUCCESS)
		kfv_rx_success(&comp, wc);
	kfv_op_unmap(op);
	kfv_op_free(queue, op);
	kfv_report(conn, &comp, want_entry);
}

/**
 * kfv_tx_done() - completion handler of sends, RMA and atomics
 * @cq: the shared CQ
 * @wc: the completion
 *
 * Context: softirq; one completion of a connection at a time, since both queues of a
 * queue pair complete on one CQ, which one CPU at a time polls.
 */
void kfv_tx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfv_op *op = container_of(wc->wr_cqe, struct kfv_op, cqe);

	kfv_op_done(op, &op->conn->tx, wc);
}

/**
 * kfv_rx_done() - completion handler of receives
 * @cq: the shared CQ
 * @wc: the completion
 *
 * Context: softirq; as kfv_tx_done().
 */
void kfv_rx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfv_op *op = container_of(wc->wr_cqe, struct kfv_op, cqe);

	kfv_op_done(op, &op->conn->rx, wc);
}
