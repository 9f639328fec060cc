// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Transmit contexts, and operations before and after their time on a
 * connection.
 *
 * kfr_send() takes a free operation (kfr_op_get()), fills in header and buffer,
 * maps or copies the buffer, finds the connection, and submits. From then on
 * the operation belongs to operations.c, until kfr_op_done() unmaps the buffer,
 * frees the operation and reports.
 *
 *   up to KFR_EAGER	not copied here, but by the pump, to a wire buffer: the
 *			ULP's buffer must stay valid until the report
 *   KFI_INJECT		copied into the operation: the ULP may reuse its buffer
 *   longer, READ	mapped for the device, to be registered by the pump
 *   too scattered	copied to whole pages (bounce), which are mapped instead
 *
 * Posting and reporting are read sections of kfv_post_srcu and kfv_srcu, so a device that
 * is gone is seen by all later ones, and close waits for reports that have begun.
 */
#include <linux/slab.h>

#include "../../compat.h"
#include "rdm.h"

/**
 * kfr_report() - report a completion, unless the device is gone
 * @base: the handle whose CQ and counters get it
 * @dev: its device
 * @comp: the completion
 * @want_entry: a success writes an entry, too
 *
 * Preemption is off, as any close waits for all read sections of kfv_srcu.
 *
 * Context: any; no lock held but kfr_rx.multi_lock.
 */
void kfr_report(struct kfi_ep_base *base, const struct kfv_device *dev,
		const struct kfi_completion *comp, bool want_entry)
{
	int idx;

	kfi_preempt_off();
	idx = srcu_read_lock(&kfv_srcu);
	if (!kfv_gone(dev))
		kfi_ep_complete(base, comp, want_entry);
	srcu_read_unlock(&kfv_srcu, idx);
	kfi_preempt_on();
}

/**
 * kfr_tx_new() - allocate a transmit context
 * @ep: its endpoint
 * @base: the handle that it reports to
 * @index: its number
 * @attr: checked attributes
 *
 * It is not enabled: it has no operations.
 *
 * Context: process, may sleep.
 * Return: the context, or NULL: no memory. kfr_tx_free() is its mirror.
 */
struct kfr_tx *kfr_tx_new(struct kfr_ep *ep, struct kfi_ep_base *base,
			  unsigned int index, const struct kfi_tx_attr *attr)
{
	struct kfr_tx *tx = kzalloc(sizeof(*tx), GFP_KERNEL_ACCOUNT);

	if (!tx)
		return NULL;
	tx->ep = ep;
	tx->base = base;
	tx->index = index;
	tx->flags = attr->op_flags;
	tx->size = attr->size ? attr->size : KFR_TX_SIZE;
	spin_lock_init(&tx->lock);
	init_completion(&tx->idle);
	return tx;
}

static void kfr_op_free(struct kfr_op *op)
{
	kfr_buf_fini(&op->buf);
	kfree(op->flow);
	kfree(op);
}

/**
 * kfr_tx_free() - undo kfr_tx_new() and kfr_tx_enable()
 * @tx: the context: closed, or never used; or NULL
 *
 * Context: process. No lock: the caller is its only user.
 */
void kfr_tx_free(struct kfr_tx *tx)
{
	unsigned int i;

	if (!tx)
		return;
	for (i = 0; tx->ops && i < tx->size; i++)
		kfr_op_free(tx->ops[i]);
	kvfree(tx->ops);
	kfree(tx);
}

/*
 * If the peer refuses the operation, it may need a flow, at a time when no
 * memory can be waited for. So each operation has the memory when it is posted.
 */
static int kfr_op_bring_flow(struct kfr_op *op, gfp_t gfp)
{
	if (!op->flow)
		op->flow = kzalloc(sizeof(*op->flow), gfp);
	return op->flow ? 0 : -ENOMEM;
}

static struct kfr_op *kfr_op_new(struct kfr_tx *tx)
{
	struct kfr_op *op = kzalloc(sizeof(*op), GFP_KERNEL_ACCOUNT);

	if (!op)
		return NULL;
	if (kfr_op_bring_flow(op, GFP_KERNEL_ACCOUNT)) {
		kfree(op);
		return NULL;
	}
	op->tx = tx;
	op->buf.pieces = &op->buf.room;
	op->cqe.done = kfr_op_invalid;
	INIT_LIST_HEAD(&op->item.link);
	INIT_LIST_HEAD(&op->sent);
	INIT_LIST_HEAD(&op->refused);
	return op;
}

/**
 * kfr_tx_enable() - allocate all operations of a context
 * @tx: the context
 *
 * Posting takes one of them, and fails with -EAGAIN if none is free. A second
 * call does nothing.
 *
 * Context: process, may sleep; the caller holds the endpoint's ctl.
 * Return: 0 or -ENOMEM.
 */
int kfr_tx_enable(struct kfr_tx *tx)
{
	struct kfr_op *op;
	unsigned int i;

	lockdep_assert_held(&tx->ep->ctl);
	if (tx->ops)
		return 0;
	tx->ops = kvcalloc(tx->size, sizeof(*tx->ops), GFP_KERNEL_ACCOUNT);
	if (!tx->ops)
		return -ENOMEM;
	tx->free = NULL;
	for (i = 0; i < tx->size; i++) {
		op = kfr_op_new(tx);
		if (!op)
			goto err;
		tx->ops[i] = op;
		op->next = tx->free;
		tx->free = op;
	}
	return 0;

err:
	while (i--)
		kfr_op_free(tx->ops[i]);
	kvfree(tx->ops);
	tx->ops = NULL;
	return -ENOMEM;
}

/* Return: an operation, which the caller owns, or NULL: none is free. */
static struct kfr_op *kfr_op_get(struct kfr_tx *tx)
{
	struct kfr_op *op;
	unsigned long irq;

	spin_lock_irqsave(&tx->lock, irq);
	op = tx->closing ? NULL : tx->free;
	if (op) {
		tx->free = op->next;
		tx->used++;
	}
	spin_unlock_irqrestore(&tx->lock, irq);
	return op;
}

/*
 * The last one lets close go on. @tx stays until the caller's read section of
 * kfv_srcu ends.
 */
static void kfr_op_put(struct kfr_op *op)
{
	struct kfr_tx *tx = op->tx;
	unsigned long irq;

	kfr_buf_fini(&op->buf);
	spin_lock_irqsave(&tx->lock, irq);
	op->state = KFR_FREE;
	op->next = tx->free;
	tx->free = op;
	if (!--tx->used && tx->closing)
		complete_all(&tx->idle);
	spin_unlock_irqrestore(&tx->lock, irq);
}

/*
 * Copy from the bounce buffer of a read to the ULP's buffer: all, or as much as
 * the peer has reported after an error.
 */
static void kfr_op_copy_back(struct kfr_op *op)
{
	const struct kfr_buf *bounce = op->bounce;
	size_t left = op->err ? min(op->len, bounce->len) : bounce->len;
	size_t at = 0, len;
	unsigned int i;

	for (i = 0; left; i++) {
		len = min_t(size_t, left, bounce->bvec[i].bv_len);
		kfr_buf_write(&op->buf, at,
			      page_address(bounce->bvec[i].bv_page), len);
		at += len;
		left -= len;
	}
}

/*
 * The device cannot reach the buffer: never registered, invalidated, or
 * drained. Without a context, the ULP's buffer is gone.
 */
static void kfr_op_unmap(struct kfr_op *op)
{
	if (op->mapped)
		kfr_map_end(&op->map);
	op->mapped = false;
	if (!op->bounce)
		return;
	if (op->tx && op->hdr.op == KFR_OP_READ)
		kfr_op_copy_back(op);
	if (op->tx)
		atomic_long_sub(op->bounce->len, &op->tx->copied);
	kfr_bounce_free(op->bounce);
	op->bounce = NULL;
}

/* Reports an operation, which is free on return. */
static void kfr_op_report(struct kfr_op *op)
{
	struct kfr_tx *tx = op->tx;
	const struct kfv_device *dev = tx->ep->rdm->domain->dev;
	struct kfi_completion comp = {
		.context = op->context,
		.state = KFI_OP_ENDED,
		.flags = op->kind,
		.tag = le64_to_cpu(op->hdr.tag),
		.src = KFI_ADDR_NOTAVAIL,
		.len = op->len,
		.olen = op->over,
		.err = op->err,
		.prov_errno = op->prov_errno,
	};
	bool want_entry = op->want_entry;
	int idx;

	/* A tag belongs to what was received, and to an error. (fi_cq(3): "tag") */
	if (!op->err || !(op->kind & KFI_TAGGED))
		comp.tag = 0;
	/*
	 * Free first, so a woken thread can post again. Close waits for all
	 * operations to be free, and then for read sections such as this one,
	 * in which @tx is still used. The report may wake a thread that takes this
	 * CPU: preemption is off, as in kfr_report(), but for the whole section.
	 */
	kfi_preempt_off();
	idx = srcu_read_lock(&kfv_srcu);
	kfr_op_put(op);
	if (!READ_ONCE(tx->closing))
		kfr_report(tx->base, dev, &comp, want_entry);
	srcu_read_unlock(&kfv_srcu, idx);
	kfi_preempt_on();
}

/**
 * kfr_op_done() - an operation has its result: report it
 * @op: off all lists, owned by the caller; result in @op->err to @op->over. It
 *	is free on return, or freed if it has no context any more
 *
 * Drops the operation's reference to the connection.
 *
 * Context: any; no lock held.
 */
void kfr_op_done(struct kfr_op *op)
{
	struct kfr_conn *conn = op->conn;

	kfr_op_unmap(op);
	if (conn) {
		kfr_op_uncharge(conn, op);
		atomic_dec(&conn->nops);
	}
	if (op->tx)
		kfr_op_report(op);
	else
		kfr_op_free(op);
	if (conn)
		kfr_conn_put(conn);
}

/*
 * An upper bound for the registrations that a mapping needs. A registration may
 * begin and end within a page, but has whole pages in between, and at most
 * @limit pages. If an entry goes on after a full registration, the next one
 * begins with the last page again.
 */
static unsigned int kfr_map_regs(const struct kfr_map *map, unsigned int limit)
{
	unsigned int i, regs = 1, pages = 0, end = 0;
	struct scatterlist *sg;

	for_each_sg(map->sgt.sgl, sg, map->nents, i) {
		u64 addr = sg_dma_address(sg);
		unsigned int n = PFN_UP(offset_in_page(addr) + sg_dma_len(sg));

		if (i && (offset_in_page(addr) || end)) {
			regs++;
			pages = 0;
		}
		pages += n;
		while (pages > limit) {
			regs++;
			pages -= n > 1 ? limit - 1 : limit;
		}
		end = offset_in_page(addr + sg_dma_len(sg));
	}
	return regs;
}

/*
 * Charges a copy to the context: one of any size, and more up to the limit.
 * Return: false: nothing was charged.
 */
static bool kfr_tx_charge_copy(struct kfr_tx *tx, size_t len)
{
	long all = atomic_long_add_return(len, &tx->copied);

	if (all <= KFR_COPY_MAX || all == (long)len)
		return true;
	atomic_long_sub(len, &tx->copied);
	return false;
}

/*
 * Replaces the mapping by one of a copy. kfr_op_unmap() frees it, also on
 * failure.
 */
static int kfr_op_bounce(struct kfr_op *op)
{
	unsigned int i;
	size_t at = 0;

	kfr_map_end(&op->map);
	op->mapped = false;
	if (!kfr_tx_charge_copy(op->tx, op->buf.len))
		return -EAGAIN;
	op->bounce = kfr_bounce_new(op->buf.len);
	if (!op->bounce) {
		atomic_long_sub(op->buf.len, &op->tx->copied);
		return -EAGAIN;
	}
	for (i = 0; op->hdr.op != KFR_OP_READ && i < op->bounce->count; i++) {
		struct bio_vec *bv = &op->bounce->bvec[i];

		kfr_buf_read(&op->buf, at, page_address(bv->bv_page),
			     bv->bv_len);
		at += bv->bv_len;
	}
	if (kfr_map_make(&op->map, op->map.ib, op->bounce, 0, op->buf.len,
			 op->map.dir))
		return -EAGAIN;
	op->mapped = true;
	return 0;
}

/* The peer will read or write the buffer by RDMA. kfr_op_unmap() is the mirror. */
static int kfr_op_map(struct kfr_op *op)
{
	struct ib_device *ib = op->tx->ep->rdm->domain->dev->ib;
	unsigned int limit = min_t(unsigned int, KFV_MR_PAGES,
				   ib->attrs.max_fast_reg_page_list_len);
	int err;

	err = kfr_map_make(&op->map, ib, &op->buf, 0, op->buf.len,
			   op->hdr.op == KFR_OP_READ ? DMA_FROM_DEVICE :
						       DMA_TO_DEVICE);
	if (err)
		return err == -ENOMEM ? -EAGAIN : err;
	op->mapped = true;
	op->nregs = kfr_map_regs(&op->map, limit);
	if (op->nregs <= KFR_SEGS)
		return 0;
	err = kfr_op_bounce(op);
	if (err)
		return err;
	op->nregs = kfr_map_regs(&op->map, limit);
	return op->nregs <= KFR_SEGS ? 0 :
	       kfv_refuse(-EMSGSIZE, "memory in too many pieces");
}

/*
 * @enabled is read without a lock; the ULP may post only after it has enabled.
 */
static ssize_t kfr_send_check(const struct kfr_face *face,
			      const struct kfr_send *send)
{
	if (kfv_gone(face->ep->rdm->domain->dev))
		return -ENODEV;
	if (!face->tx)
		return -KFI_ENOSYS;
	if (!face->base.enabled)
		return -KFI_EOPBADSTATE;
	if (send->flags & ~KFR_TX_FLAGS)
		return kfv_refuse(-KFI_EBADFLAGS, "unknown flags");
	return kfi_cq_has_room(face->base.tx_cq) ? 0 : -EAGAIN;
}

static int kfr_op_set_dest(struct kfr_op *op, kfi_addr_t addr,
			   struct kfr_addr *dst)
{
	const struct kfr_tx *tx = op->tx;
	const struct kfr_ep *ep = tx->ep;
	u16 rx;

	if (kfr_av_find(ep->av, addr, dst, &rx))
		return -EINVAL;
	if (!(ep->caps & KFI_NAMED_RX_CTX) || !ep->av->rx_bits)
		rx = tx->index;
	op->hdr.src = cpu_to_le16(ep->addr.id);
	op->hdr.dst = cpu_to_le16(dst->id);
	op->hdr.rx = cpu_to_le16(rx);
	op->hdr.auth = cpu_to_le32(ep->auth);
	return 0;
}

static void kfr_op_set_hdr(struct kfr_op *op, const struct kfr_send *send)
{
	op->context = send->context;
	op->kind = send->kind;
	op->want_entry = !send->silent &&
			 kfi_ep_wants_tx(op->tx->base, send->flags);
	op->hdr = (struct kfr_hdr) {
		.version = KFR_VERSION,
		.op = send->op,
		.tag = cpu_to_le64(send->tag),
		.offset = cpu_to_le64(send->offset),
	};
	if (send->tagged) {
		op->hdr.flags |= KFR_F_TAGGED;
		op->kind = (op->kind & ~KFI_MSG) | KFI_TAGGED;
	}
	if (send->flags & KFI_REMOTE_CQ_DATA) {
		op->hdr.flags |= KFR_F_DATA;
		op->hdr.data = cpu_to_le64(send->data);
	}
	op->nregs = 0;
	op->registered = false;
	op->has_id = false;
	op->parked = false;
	op->err = 0;
	op->prov_errno = 0;
	op->len = 0;
	op->over = 0;
}

/*
 * Copies the data into the operation, which describes its own memory
 * afterwards.
 */
static void kfr_op_inject(struct kfr_op *op)
{
	size_t len = op->buf.len;

	kfr_buf_read(&op->buf, 0, op->inject, len);
	kfr_buf_fini(&op->buf);
	op->buf.type = KFI_KVEC;
	op->buf.kvec[0].iov_base = op->inject;
	op->buf.kvec[0].iov_len = len;
	op->buf.count = 1;
	op->buf.len = len;
}

/*
 * Is the data the payload of the request? Not of a tagged WRITE: it may be
 * refused after it was kept, when a numbered one would be acknowledged already.
 */
static bool kfr_op_short(const struct kfr_op *op)
{
	if (!op->buf.len)
		return true;
	return op->buf.len <= KFR_EAGER && op->hdr.op != KFR_OP_READ &&
	       !(op->hdr.op == KFR_OP_WRITE && op->hdr.flags & KFR_F_TAGGED);
}

static int kfr_op_set_buf(struct kfr_op *op, const struct kfr_send *send)
{
	int err;

	err = kfr_buf_init(&op->buf, send->type, send->pieces, send->count,
			   KFR_GFP_POST);
	if (err)
		return err;
	if (send->exact && op->buf.len != send->remote_len)
		return kfv_refuse(-EINVAL,
				  "the pieces are not as long as the remote one");
	if (op->buf.len > KFR_MSG_MAX)
		return kfv_refuse(-EMSGSIZE, "too long");
	op->hdr.len = cpu_to_le32(op->buf.len);
	if (send->flags & KFI_INJECT && send->op != KFR_OP_READ) {
		if (op->buf.len > KFV_INJECT_SIZE)
			return kfv_refuse(-EMSGSIZE, "too long to be injected");
		kfr_op_inject(op);
	}
	if (kfr_op_short(op))
		return 0;
	if (op->hdr.op == KFR_OP_EAGER)
		op->hdr.op = KFR_OP_RTS;
	return kfr_op_map(op);
}

static int kfr_op_fill(struct kfr_op *op, const struct kfr_send *send,
		       struct kfr_addr *dst)
{
	int err;

	kfr_op_set_hdr(op, send);
	err = kfr_op_bring_flow(op, KFR_GFP_POST);
	if (!err)
		err = kfr_op_set_dest(op, send->addr, dst);
	if (!err)
		err = kfr_op_set_buf(op, send);
	return err;
}

/* In a read section of kfv_post_srcu: the device is there until it ends. */
static ssize_t kfr_send_live(struct kfr_face *face, const struct kfr_send *send)
{
	struct kfr_conn *conn;
	struct kfr_addr dst;
	struct kfr_op *op;
	ssize_t err;

	lockdep_assert(srcu_read_lock_held(&kfv_post_srcu));
	err = kfr_send_check(face, send);
	if (err)
		return err;
	op = kfr_op_get(face->tx);
	if (!op)
		return -EAGAIN;
	op->conn = NULL;
	err = kfr_op_fill(op, send, &dst);
	while (!err) {
		conn = kfr_node_conn(face->ep, dst);
		err = PTR_ERR_OR_ZERO(conn);
		if (err)
			break;
		op->conn = conn;
		err = kfr_op_submit(op);
		if (!err)
			return 0;
		/* Another connection will take it. */
		if (err == -ESHUTDOWN)
			err = 0;
	}
	op->err = -err;
	kfr_op_unmap(op);
	kfr_op_put(op);
	return err == -ENOMEM ? -EAGAIN : err;
}

/**
 * kfr_send() - post a message or RMA
 * @fid: an endpoint, or a transmit context
 * @send: the parameters
 *
 * Context: any; does not sleep; no lock held.
 * Return: 0; -EAGAIN: no operation is free, the CQ is full, there is no memory
 * now, there are too many connections, flows or bytes in copies; -ENODEV; -KFI_ENOSYS:
 * a receive context; -KFI_EOPBADSTATE: not enabled; -KFI_EBADFLAGS; -EMSGSIZE;
 * -EINVAL.
 */
ssize_t kfr_send(struct kfid_ep *fid, const struct kfr_send *send)
{
	int idx = srcu_read_lock(&kfv_post_srcu);
	ssize_t ret = kfr_send_live(kfr_face_of(fid), send);

	srcu_read_unlock(&kfv_post_srcu, idx);
	return ret;
}

/* Aborts connections of operations that have not ended: the stuck ones, or all. */
static void kfr_tx_break(struct kfr_tx *tx, bool all)
{
	struct kfr_conn *conn;
	unsigned int i;

	for (i = 0; i < tx->size; i++) {
		conn = kfr_op_conn(tx->ops[i]);
		if (!conn)
			continue;
		if (all || kfr_conn_stuck(conn, KFR_SILENT_TIME))
			kfr_conn_abort(conn, ENOTCONN, KFR_ERR_LOCAL);
		kfr_conn_put(conn);
	}
}

/*
 * All operations are recalled. What is left are registrations, which the device
 * invalidates after what was posted before them: when the peer has taken that. Others have
 * operations on the connection, so it is aborted only if that does not happen.
 */
static void kfr_tx_wait(struct kfr_tx *tx)
{
	unsigned long end = jiffies + KFR_REVOKE_TIME;

	do
		kfr_tx_break(tx, time_after(jiffies, end));
	while (!wait_for_completion_timeout(&tx->idle, KFR_CLOSE_TIME));
}

static void kfr_tx_recall(struct kfr_tx *tx, bool revoke)
{
	unsigned int i;

	for (i = 0; i < tx->size; i++)
		kfr_op_recall(tx->ops[i], revoke);
}

/* Does a peer answer that may have operations of the context? @begun: see there. */
static bool kfr_tx_answered(struct kfr_tx *tx, unsigned long begun)
{
	bool answered = false;
	struct kfr_conn *conn;
	unsigned int i;

	for (i = 0; i < tx->size && !answered; i++) {
		conn = kfr_op_conn(tx->ops[i]);
		if (!conn)
			continue;
		answered = !kfr_conn_silent(conn, begun);
		kfr_conn_put(conn);
	}
	return answered;
}

/*
 * A peer that gets CANCEL answers, at once or when the data has moved. If it is
 * revoked the access meanwhile, the connection ends, also for others. So a slow one
 * has time while it answers at all, unless the caller was killed. Return: whether all
 * operations have ended.
 */
static bool kfr_tx_finish(struct kfr_tx *tx)
{
	unsigned long begun = jiffies, end = begun + KFR_REVOKE_TIME;
	long ret;

	do
		ret = wait_for_completion_killable_timeout(&tx->idle,
							   KFR_CLOSE_TIME);
	while (!ret && time_before(jiffies, end) && kfr_tx_answered(tx, begun));
	return ret > 0;
}

/* Return: whether there are operations that have not ended. */
static bool kfr_tx_end(struct kfr_tx *tx)
{
	bool busy;

	spin_lock_irq(&tx->lock);
	WRITE_ONCE(tx->closing, true);
	busy = tx->used;
	spin_unlock_irq(&tx->lock);
	return busy;
}

/**
 * kfr_tx_stop() - end all operations of a context, or leave them to connections
 * @tx: the context; the ULP does not post to it any more, and the pages of its
 *	buffers can be held, see kfi_stop()
 *
 * An operation that a peer, or the device, has not returned belongs to its
 * connection from now on. So the close waits for other threads only, that have
 * taken an operation and are just about to report it.
 *
 * Context: process; waits for nothing; no lock held.
 */
void kfr_tx_stop(struct kfr_tx *tx)
{
	unsigned int i = 0, n = 0;

	if (!tx->ops || !kfr_tx_end(tx))
		return;
	while (i < tx->size) {
		kfr_op_recall(tx->ops[i], false);
		if (kfr_op_abandon(tx->ops[i])) {
			tx->ops[i] = tx->ops[--tx->size];
			n++;
		} else {
			i++;
		}
	}
	spin_lock_irq(&tx->lock);
	tx->used -= n;
	spin_unlock_irq(&tx->lock);
}

/* Was the process killed whose objects these are? Then its buffers are pages. */
static bool kfr_tx_killed(const struct kfr_tx *tx)
{
	return fatal_signal_pending(current) &&
	       tx->ep->rdm->domain->base.owner >= KFI_OWNER_USER;
}

/**
 * kfr_tx_close() - end all operations of a context, without completions
 * @tx: the context; the ULP does not post to it any more
 *
 * Peers that may access a buffer have time to finish: KFR_REVOKE_TIME as long as they
 * answer, KFR_SILENT_TIME if they do not. Then their access is revoked, which needs the
 * local device only. But the device does one thing after the other: if a peer takes no
 * messages, so that the device does not come to that, the connection is aborted. When
 * this returns, neither device nor CPU touches the operations' buffers, but those whose
 * pages kfr_tx_stop() holds; it is called here, too, if the user's process is killed.
 * The caller waits for kfv_srcu before it frees anything, see kfr_face_close().
 *
 * Context: process, sleeps; no lock held.
 */
void kfr_tx_close(struct kfr_tx *tx)
{
	if (!tx->ops || !kfr_tx_end(tx))
		return;
	kfr_tx_recall(tx, false);
	if (kfr_tx_finish(tx))
		return;
	/* At once, what the exit of the process would do. */
	if (kfr_tx_killed(tx))
		kfr_tx_stop(tx);
	if (!kfr_tx_end(tx))
		return;
	kfr_tx_recall(tx, true);
	if (!wait_for_completion_timeout(&tx->idle, KFR_CLOSE_TIME))
		kfr_tx_wait(tx);
}
