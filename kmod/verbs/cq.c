// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Completions. Queue pairs complete on the device's shared CQs, which find an
 * operation by its wr_cqe; what the ULP calls a CQ is the core's business.
 *
 * The shared CQs are polled in softirq context: nothing on the way to the
 * sleeper that is woken needs a thread of ours to run first.
 */
#include <linux/slab.h>

#include "kfi_verbs.h"

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

/* Allocates all operations, so that posting needs no memory. */
int kfv_queue_init(struct kfv_conn *conn, struct kfv_queue *queue, bool tx)
{
	struct kfv_op *op;
	unsigned int i;

	queue->ops = kvcalloc(queue->size, sizeof(*queue->ops),
			      GFP_KERNEL_ACCOUNT);
	if (!queue->ops)
		return -ENOMEM;
	for (i = 0; i < queue->size; i++) {
		op = kfv_op_new(conn, queue, tx);
		if (!op) {
			kfv_queue_fini(queue);
			return -ENOMEM;
		}
		queue->ops[i] = op;
		op->next = queue->free;
		queue->free = op;
	}
	return 0;
}

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

/* Return: an operation, or NULL: as many are posted as the queue holds. */
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

void kfv_op_free(struct kfv_queue *queue, struct kfv_op *op)
{
	unsigned long irq;

	spin_lock_irqsave(&queue->lock, irq);
	op->next = queue->free;
	queue->free = op;
	spin_unlock_irqrestore(&queue->lock, irq);
}

void kfv_posted_put(struct kfv_conn *conn)
{
	if (atomic_dec_and_test(&conn->posted))
		complete_all(&conn->drained);
}

/*
 * Before this the operation has been freed, so that whoever is woken finds
 * room in the queue; after it the connection may go.
 */
static void kfv_report(struct kfv_conn *conn, struct kfi_completion *comp,
		       bool want_entry)
{
	int idx = srcu_read_lock(&kfv_srcu);

	if (!comp->err)
		kfv_conn_alive(conn);
	if (!READ_ONCE(conn->ep_gone) && !kfv_gone(conn->pd->dev)) {
		kfi_ep_complete(&conn->ep->base, comp, want_entry);
		if (comp->err && comp->prov_errno != IB_WC_WR_FLUSH_ERR)
			kfv_conn_queue_disconnect(conn);
	}
	srcu_read_unlock(&kfv_srcu, idx);
	kfv_posted_put(conn);
}

/*
 * A message longer than the receive that takes it is an error on both sides.
 * Devices differ in how they report it: as a length, an invalid request or a
 * malformed work request. Since receives are checked when they are posted, none
 * of these has another reason.
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

/* Of a failed completion only wr_cqe and status mean anything. */
void kfv_tx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfv_op *op = container_of(wc->wr_cqe, struct kfv_op, cqe);
	struct kfv_conn *conn = op->conn;
	struct kfi_completion comp = {
		.context = op->context,
		.flags = op->flags,
		.src = KFI_ADDR_NOTAVAIL,
		.err = kfv_wc_errno(wc->status, op->flags),
		.prov_errno = wc->status,
	};
	bool want_entry = op->want_entry;

	kfv_op_unmap(op);
	kfv_op_free(&conn->tx, op);
	kfv_report(conn, &comp, want_entry);
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
	 * The device knows whether the sender asked for it, and does not say: a
	 * work completion has no place for that. An event too many does no harm.
	 */
	comp->flags |= KFI_SOLICITED;
	comp->len = wc->byte_len;
}

void kfv_rx_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfv_op *op = container_of(wc->wr_cqe, struct kfv_op, cqe);
	struct kfv_conn *conn = op->conn;
	struct kfi_completion comp = {
		.context = op->context,
		.flags = op->flags,
		.src = KFI_ADDR_NOTAVAIL,
		.err = kfv_wc_errno(wc->status, op->flags),
		.prov_errno = wc->status,
	};
	bool want_entry = op->want_entry;

	if (wc->status == IB_WC_SUCCESS)
		kfv_rx_success(&comp, wc);
	kfv_op_unmap(op);
	kfv_op_free(&conn->rx, op);
	kfv_report(conn, &comp, want_entry);
}
