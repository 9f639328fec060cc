// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Transmit contexts, and the life of an operation: it is got from its context,
 * filled in, left on the queue of a connection, and given back when it is
 * answered.
 */
#include <linux/slab.h>

#include "rdm.h"

/* Reports unless the device is gone. Any context; no lock held. */
void kfr_report(struct kfi_ep_base *base, const struct kfv_device *dev,
		const struct kfi_completion *comp, bool want_entry)
{
	int idx = srcu_read_lock(&kfv_srcu);

	if (!kfv_gone(dev))
		kfi_ep_complete(base, comp, want_entry);
	srcu_read_unlock(&kfv_srcu, idx);
}

/* A transmit context, not enabled yet. Process context. Return: NULL: no memory. */
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

/* Undoes kfr_tx_new() and kfr_tx_enable(); it has been closed, or never used. */
void kfr_tx_free(struct kfr_tx *tx)
{
	unsigned int i;

	if (!tx)
		return;
	for (i = 0; tx->ops && i < tx->size; i++)
		kfree(tx->ops[i]);
	kvfree(tx->ops);
	kfree(tx);
}

static struct kfr_op *kfr_op_new(struct kfr_tx *tx)
{
	struct kfr_op *op = kzalloc(sizeof(*op), GFP_KERNEL_ACCOUNT);

	if (!op)
		return NULL;
	op->tx = tx;
	op->buf.pieces = &op->buf.room;
	op->cqe.done = kfr_op_invalid;
	INIT_LIST_HEAD(&op->item.link);
	INIT_LIST_HEAD(&op->sent);
	return op;
}

/* Allocates all operations, so that posting needs none of them. */
int kfr_tx_enable(struct kfr_tx *tx)
{
	struct kfr_op *op;
	unsigned int i;

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
		kfree(tx->ops[i]);
	kvfree(tx->ops);
	tx->ops = NULL;
	return -ENOMEM;
}

/* Return: an operation, or NULL: as many are posted as the context has. */
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
 * What a read has put into the copy goes where it was wanted: all, or as much
 * as is reported to have come.
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

static void kfr_op_unmap(struct kfr_op *op)
{
	struct ib_device *ib = op->tx->ep->rdm->domain->dev->ib;

	if (op->mapped)
		kfr_map_end(&op->map, ib);
	op->mapped = false;
	if (!op->bounce)
		return;
	if (op->hdr.op == KFR_OP_READ)
		kfr_op_copy_back(op);
	atomic_long_sub(op->bounce->len, &op->tx->copied);
	kfr_bounce_free(op->bounce);
	op->bounce = NULL;
}

/**
 * kfr_op_done() - an operation is answered, or never will be
 * @op: on no list any more; with the reason in @op->err
 *
 * Context: any; no lock held.
 */
void kfr_op_done(struct kfr_op *op)
{
	struct kfr_tx *tx = op->tx;
	const struct kfv_device *dev = tx->ep->rdm->domain->dev;
	struct kfr_conn *conn = op->conn;
	struct kfi_completion comp = {
		.context = op->context,
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

	if (!(op->kind & KFI_TAGGED))
		comp.tag = 0;
	kfr_op_unmap(op);
	/*
	 * Free first, so that who is woken finds room. Closing the context
	 * waits for all operations, and then for this section.
	 */
	idx = srcu_read_lock(&kfv_srcu);
	kfr_op_put(op);
	if (!READ_ONCE(tx->closing))
		kfr_report(tx->base, dev, &comp, want_entry);
	srcu_read_unlock(&kfv_srcu, idx);
	if (conn)
		kfr_conn_put(conn);
}

/*
 * How many registrations it takes at most: each begins and ends where it likes,
 * but in between there are whole pages. The last page of a full one is not
 * counted if the stretch goes on there: the next one begins with it again.
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

/* Room for a copy: for one of any size, and for more of them up to the limit. */
static bool kfr_tx_charge_copy(struct kfr_tx *tx, size_t len)
{
	long all = atomic_long_add_return(len, &tx->copied);

	if (all <= KFR_COPY_MAX || all == (long)len)
		return true;
	atomic_long_sub(len, &tx->copied);
	return false;
}

static int kfr_op_bounce(struct kfr_op *op, struct ib_device *ib)
{
	unsigned int i;
	size_t at = 0;

	kfr_map_end(&op->map, ib);
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
	if (kfr_map_make(&op->map, ib, op->bounce, 0, op->buf.len,
			 op->map.dir))
		return -EAGAIN;
	op->mapped = true;
	return 0;
}

/* More than a payload: the peer reads or writes it where it is. */
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
	err = kfr_op_bounce(op, ib);
	if (err)
		return err;
	op->nregs = kfr_map_regs(&op->map, limit);
	return op->nregs <= KFR_SEGS ? 0 : -EMSGSIZE;
}

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
		return -KFI_EBADFLAGS;
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

/* A copy in the operation is the buffer from now on. */
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

/* Does its data travel with it? What can be refused later has to stay here. */
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
		return -EINVAL;
	if (op->buf.len > KFR_MSG_MAX)
		return -EMSGSIZE;
	op->hdr.len = cpu_to_le32(op->buf.len);
	if (send->flags & KFI_INJECT && send->op != KFR_OP_READ) {
		if (op->buf.len > KFV_INJECT_SIZE)
			return -EMSGSIZE;
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
	err = kfr_op_set_dest(op, send->addr, dst);
	if (!err)
		err = kfr_op_set_buf(op, send);
	return err;
}

static ssize_t kfr_send_live(struct kfr_face *face, const struct kfr_send *send)
{
	struct kfr_conn *conn;
	struct kfr_addr dst;
	struct kfr_op *op;
	ssize_t err;

	err = kfr_send_check(face, send);
	if (err)
		return err;
	op = kfr_op_get(face->tx);
	if (!op)
		return -EAGAIN;
	op->conn = NULL;
	err = kfr_op_fill(op, send, &dst);
	if (!err) {
		conn = kfr_node_conn(face->ep->node, face->ep->addr, dst);
		err = PTR_ERR_OR_ZERO(conn);
	}
	if (err) {
		op->err = -err;
		kfr_op_unmap(op);
		kfr_op_put(op);
		return err == -ENOMEM ? -EAGAIN : err;
	}
	op->conn = conn;
	kfr_op_submit(op);
	return 0;
}

/**
 * kfr_send() - post a message, or an RMA operation
 * @fid: an endpoint, or a transmit context
 * @send: what
 *
 * Context: any; does not sleep.
 * Return: 0; -EAGAIN: as many are posted as the context has, or its queue is
 * full, or there is no memory now; -ENODEV; -KFI_ENOSYS: a receive context;
 * -KFI_EOPBADSTATE: not enabled; -KFI_EBADFLAGS; -EMSGSIZE; -EINVAL.
 */
ssize_t kfr_send(struct kfid_ep *fid, const struct kfr_send *send)
{
	int idx = srcu_read_lock(&kfv_srcu);
	ssize_t ret = kfr_send_live(kfr_face_of(fid), send);

	srcu_read_unlock(&kfv_srcu, idx);
	return ret;
}

/*
 * Those that are not sent yet are taken back; of those with an id the peer is
 * told.
 */
static void kfr_tx_recall(struct kfr_tx *tx)
{
	unsigned int i;

	for (i = 0; i < tx->size; i++)
		kfr_op_recall(tx->ops[i]);
}

/**
 * kfr_tx_close() - nobody touches the context's buffers any more
 * @tx: the context; nobody posts to it any more
 *
 * What peers still read or write has half a second to end; then their
 * connections are.
 *
 * Context: process.
 */
void kfr_tx_close(struct kfr_tx *tx)
{
	bool busy;

	if (!tx->ops)
		return;
	spin_lock_irq(&tx->lock);
	WRITE_ONCE(tx->closing, true);
	busy = tx->used;
	spin_unlock_irq(&tx->lock);
	if (busy) {
		kfr_tx_recall(tx);
		if (!wait_for_completion_timeout(&tx->idle, KFR_CLOSE_TIME)) {
			kfr_node_break(tx->ep->node, NULL, tx, NULL);
			wait_for_completion(&tx->idle);
		}
	}
	/* Who has seen it open may still be reporting. */
	synchronize_srcu_expedited(&kfv_srcu);
}
