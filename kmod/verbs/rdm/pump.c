// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The pump: moves what is on a connection's queues to its send queue, as far as
 * there is room.
 *
 * One thread at a time pumps, in whatever context it is: the one that finds
 * @pumping clear under the lock. Another thread has queued its work under the
 * same lock, and leaves. So the order of the queues is the order on the wire,
 * although nothing is locked while a work request is posted.
 *
 *	A				B
 *	-				-
 *	queues; @pumping is clear
 *	sets @pumping, takes an item
 *	(unlocked) posts		queues, sees @pumping, leaves
 *	locks: takes B's item, posts it
 *	locks: none left: clears @pumping
 *
 * B's item cannot be missed: A clears @pumping in the section in which it saw
 * the queues empty.
 *
 * Each turn of the loop fills in a kfr_step under the lock (kfr_next() and the
 * functions above it, which assert the lock), and posts it without the lock
 * (kfr_post_step()). The second half uses the step with its wire buffer,
 * control message or job, which belong to the pump until posted. @pumping is a
 * flag, so there is no lock to assert.
 *
 * Priority: control messages and invalidations, then an ACK that is due, then jobs,
 * then requests. But users can have control messages sent without an end (WANT), so
 * after KFR_URGENT_RUN of them jobs and one request go. Requests of one user keep their
 * order; users take turns.
 *
 * The thread that pumps is a ULP's that has posted something, or a softirq. It
 * posts at most KFR_PUMP_MAX items, so that other threads' work and completions
 * do not keep it; a work item posts the rest.
 */
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/module.h>

#include "../../compat.h"
#include "rdm.h"

/**
 * struct kfr_step - the next thing to post, on the pump's stack
 * @item: the item, unless it is a control message
 * @job: of a FIN: the job, with the reference that it had
 * @wire: its wire buffer, or NULL
 * @hdr: the header to send, except for requests, which fill in @wire
 * @len: bytes of payload
 * @reg: registrations to be made before it
 * @nreg: their number
 * @kind: of the item; @item itself may be gone when it is used
 * @moved: a new request was moved to where it waits
 * @broken: the device could not map what it promised
 */
struct kfr_step {
	struct kfr_item *item;
	struct kfr_job *job;
	struct kfr_wire *wire;
	struct kfr_hdr hdr;
	size_t len;
	struct ib_reg_wr reg[KFR_SEGS];
	unsigned int nreg;
	enum kfr_item_kind kind;
	bool moved;
	bool broken;
};

/*
 * Every message carries an ACK for all requests handled so far. But a request that goes
 * before queued control messages must not cover a number whose ERR or NAK is one of them.
 */
static void kfr_stamp(struct kfr_conn *conn, struct kfr_hdr *hdr)
{
	lockdep_assert_held(&conn->lock);
	if (list_empty(&conn->urgent)) {
		conn->acked = conn->rx_seq;
		conn->ack_due = false;
	}
	hdr->ack = cpu_to_le32(conn->acked);
}

/* A wire buffer and a place in the send queue; kfr_wire_done() gives both back. */
static struct kfr_wire *kfr_wire_get(struct kfr_conn *conn)
{
	struct kfr_wire *wire;

	lockdep_assert_held(&conn->lock);
	wire = list_first_entry_or_null(&conn->free_wire, struct kfr_wire,
					link);
	if (!wire || !conn->sq_free)
		return NULL;
	list_del_init(&wire->link);
	conn->nwire--;
	conn->sq_free--;
	return wire;
}

/* The caller holds the lock of the connection that the queue belongs to. */
static struct kfr_item *kfr_first(struct list_head *queue)
{
	return list_first_entry_or_null(queue, struct kfr_item, link);
}

static bool kfr_next_ctl(struct kfr_conn *conn, struct kfr_step *step)
{
	struct kfr_ctl *ctl = container_of(step->item, struct kfr_ctl, item);

	lockdep_assert_held(&conn->lock);
	step->wire = kfr_wire_get(conn);
	if (!step->wire)
		return false;
	/*
	 * Its @ack is from when it was queued: a newer one could cover a
	 * number whose ERR or NAK comes later on the queue.
	 */
	step->hdr = ctl->hdr;
	step->job = kfr_ctl_unlink(conn, ctl);
	conn->acked = le32_to_cpu(step->hdr.ack);
	return true;
}

/* Invalidations complete in kfr_op_invalid(), which reports the operation. */
static bool kfr_next_inv(struct kfr_conn *conn, struct kfr_step *step)
{
	struct kfr_op *op = container_of(step->item, struct kfr_op, item);

	lockdep_assert_held(&conn->lock);
	if (conn->sq_free < op->nregs)
		return false;
	conn->sq_free -= op->nregs;
	atomic_set(&op->nregs_done, 0);
	list_del_init(&step->item->link);
	return true;
}

static bool kfr_next_ack(struct kfr_conn *conn, struct kfr_step *step)
{
	lockdep_assert_held(&conn->lock);
	step->wire = kfr_wire_get(conn);
	if (!step->wire)
		return false;
	step->hdr = (struct kfr_hdr) {
		.version = KFR_VERSION,
		.op = KFR_OP_ACK,
	};
	kfr_stamp(conn, &step->hdr);
	conn->ack_time = jiffies;
	return true;
}

static bool kfr_next_data(struct kfr_conn *conn)
{
	/* kfr_job_post() takes it off the queue when all of it is posted. */
	lockdep_assert_held(&conn->lock);
	if (!conn->sq_free || !conn->data_free)
		return false;
	conn->sq_free--;
	conn->data_free--;
	return true;
}

/*
 * There is a free slot: kfr_reserve() has checked. An id names slot and
 * generation, so a late reply to an earlier operation in the slot does not
 * match.
 */
static u32 kfr_new_id(struct kfr_conn *conn, struct kfr_op *op)
{
	unsigned int slot = conn->next_id;

	lockdep_assert_held(&conn->lock);
	while (conn->ids[slot])
		slot = (slot + 1) % KFR_IDS;
	conn->next_id = (slot + 1) % KFR_IDS;
	conn->ids[slot] = op;
	conn->nids++;
	conn->shares[op->share].nids++;
	kfr_lane_of(conn, op)->nids++;
	op->has_id = true;
	return conn->id_gen++ * KFR_IDS + slot;
}

/**
 * kfr_id_put() - give the id of an operation back
 * @conn: its connection
 * @op: an operation that has one
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_id_put(struct kfr_conn *conn, struct kfr_op *op)
{
	lockdep_assert_held(&conn->lock);
	conn->ids[le32_to_cpu(op->hdr.seq) % KFR_IDS] = NULL;
	conn->nids--;
	conn->shares[op->share].nids--;
	kfr_lane_of(conn, op)->nids--;
	op->has_id = false;
}

/*
 * When half of them is in use, a user gets an eighth. Modules have no such limit. What
 * the operation needs does not matter: one that needs many is not overtaken by others
 * of its user.
 */
static bool kfr_share_full(const struct kfr_conn *conn, const struct kfr_op *op)
{
	const struct kfr_share *share = &conn->shares[op->share];

	lockdep_assert_held(&conn->lock);
	if (!op->limited)
		return false;
	return (conn->nids >= KFR_IDS / 2 && share->nids >= KFR_IDS / 8) ||
	       (conn->nregs_free <= KFR_MRS / 2 && share->nregs >= KFR_MRS / 8);
}

static bool kfr_lane_full(struct kfr_conn *conn, const struct kfr_op *op)
{
	const struct kfr_lane *lane = kfr_lane_of(conn, op);

	lockdep_assert_held(&conn->lock);
	return lane->nids == KFR_LANE_IDS ||
	       lane->nregs + op->nregs > KFR_LANE_MRS ||
	       kfr_share_full(conn, op);
}

/* An id and registrations for an operation: all that it needs, or nothing. */
static bool kfr_reserve(struct kfr_conn *conn, struct kfr_op *op)
{
	unsigned int i;

	lockdep_assert_held(&conn->lock);
	if (conn->nids == KFR_IDS || conn->nregs_free < op->nregs ||
	    conn->sq_free < op->nregs + 1 || list_empty(&conn->free_wire))
		return false;
	for (i = 0; i < op->nregs; i++) {
		op->regs[i] = list_first_entry(&conn->free_regs,
					       struct kfr_reg, link);
		list_del_init(&op->regs[i]->link);
	}
	conn->nregs_free -= op->nregs;
	conn->sq_free -= op->nregs;
	conn->shares[op->share].nregs += op->nregs;
	kfr_lane_of(conn, op)->nregs += op->nregs;
	op->hdr.seq = cpu_to_le32(kfr_new_id(conn, op));
	return true;
}

/**
 * kfr_regs_put() - give registrations of an operation back
 * @conn: its connection
 * @op: the operation
 * @keep: how many it keeps
 *
 * They are invalid. If they were never made, the caller gives the places in the send
 * queue back.
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_regs_put(struct kfr_conn *conn, struct kfr_op *op, unsigned int keep)
{
	lockdep_assert_held(&conn->lock);
	while (op->nregs > keep) {
		list_add_tail(&op->regs[--op->nregs]->link, &conn->free_regs);
		conn->nregs_free++;
		conn->shares[op->share].nregs--;
		kfr_lane_of(conn, op)->nregs--;
	}
}

/*
 * Fills in the registrations of a buffer, and the segments that name them. Each
 * use has a new key, so a peer that keeps an old one cannot reach this buffer.
 * Return: 0; -EIO: the device maps less than it promised.
 */
static int kfr_map_segs(struct kfr_conn *conn, struct kfr_op *op,
			struct ib_reg_wr *wr)
{
	struct scatterlist *sg = op->map.sgt.sgl;
	int left = op->map.nents, n, access;
	unsigned int i, offset = 0;

	lockdep_assert_held(&conn->lock);
	access = op->hdr.op == KFR_OP_READ ?
		 IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE :
		 IB_ACCESS_REMOTE_READ;
	for (i = 0; i < op->nregs && left; i++) {
		struct ib_mr *mr = op->regs[i]->mr;

		n = ib_map_mr_sg(mr, sg, left, &offset, PAGE_SIZE);
		if (n < 0 || !mr->length)
			return -EIO;
		left -= n;
		while (n--)
			sg = sg_next(sg);
		/* The peer sees it, so it must not reveal a kernel address. */
		mr->iova = offset_in_page(mr->iova);
		ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
		wr[i].mr = mr;
		wr[i].key = mr->rkey;
		wr[i].access = access;
		op->segs[i].addr = cpu_to_le64(mr->iova);
		op->segs[i].rkey = cpu_to_le32(mr->rkey);
		op->segs[i].len = cpu_to_le32(mr->length);
	}
	/* kfr_map_regs() estimates an upper bound. */
	conn->sq_free += op->nregs - i;
	kfr_regs_put(conn, op, i);
	return left ? -EIO : 0;
}

/* The payload of a request: its data, or its segments. */
static size_t kfr_fill_payload(const struct kfr_op *op, struct page *page)
{
	void *to = page_address(page);

	lockdep_assert_held(&op->conn->lock);
	if (op->nregs) {
		memcpy(to, op->segs, op->nregs * sizeof(op->segs[0]));
		return op->nregs * sizeof(op->segs[0]);
	}
	if (op->hdr.op == KFR_OP_READ)
		return 0;
	kfr_buf_read(&op->buf, 0, to, op->buf.len);
	return op->buf.len;
}

/*
 * Copies all that is needed of the operation under the lock. It is on a list of
 * sent operations from here on, so a hostile peer's early reply may end it
 * before the request is posted; the posting must not look at it again.
 */
static void kfr_fill_req(struct kfr_conn *conn, struct kfr_op *op,
			 struct kfr_step *step)
{
	lockdep_assert_held(&conn->lock);
	if (op->nregs && !op->registered) {
		step->broken = kfr_map_segs(conn, op, step->reg);
		step->nreg = op->nregs;
		op->registered = true;
	}
	op->hdr.nsegs = op->nregs;
	*step->wire->hdr = op->hdr;
	step->len = kfr_fill_payload(op, step->wire->page);
}

/*
 * Gives an operation of a lane an id and registrations. Lanes take turns; those with
 * nothing to wait for leave. If too few are left for the next one, nothing else gets
 * any (@enough is false), so an operation that needs many is not starved.
 */
static struct kfr_op *kfr_next_waiting(struct kfr_conn *conn, bool *enough)
{
	struct kfr_lane *lane, *next;
	struct kfr_item *item;
	struct kfr_op *op;

	lockdep_assert_held(&conn->lock);
	list_for_each_entry_safe(lane, next, &conn->lanes, turn) {
		item = kfr_first(&lane->waiting);
		if (!item) {
			list_del_init(&lane->turn);
			continue;
		}
		op = container_of(item, struct kfr_op, item);
		if (kfr_lane_full(conn, op))
			continue;
		*enough = kfr_reserve(conn, op);
		if (!*enough)
			return NULL;
		list_move_tail(&lane->turn, &conn->lanes);
		return op;
	}
	return NULL;
}

/**
 * kfr_req_add() - queue a request that is to be sent for the first time
 * @conn: the connection
 * @op: the operation, charged to its user
 *
 * Context: any; the caller holds the connection's lock, and pumps afterwards.
 */
void kfr_req_add(struct kfr_conn *conn, struct kfr_op *op)
{
	struct kfr_line *line = &conn->lines[op->share];

	lockdep_assert_held(&conn->lock);
	list_add_tail(&op->item.link, &line->reqs);
	if (list_empty(&line->reqs_turn))
		list_add_tail(&line->reqs_turn, &conn->reqs);
}

/*
 * Lets a new request go, with an id and registrations if it needs them, or moves
 * it to its lane, so that later requests are not held up.
 */
static bool kfr_req_admit(struct kfr_conn *conn, struct kfr_op *op,
			  bool *enough)
{
	struct kfr_lane *lane = kfr_lane_of(conn, op);

	lockdep_assert_held(&conn->lock);
	if (kfr_op_numbered(op))
		return true;
	if (*enough && list_empty(&lane->waiting) && !kfr_lane_full(conn, op)) {
		*enough = kfr_reserve(conn, op);
		if (*enough)
			return true;
	}
	list_move_tail(&op->item.link, &lane->waiting);
	if (list_empty(&lane->turn))
		list_add_tail(&lane->turn, &conn->lanes);
	return false;
}

/* A numbered request without a place in the window waits until an ACK pumps. */
static bool kfr_in_window(const struct kfr_conn *conn, const struct kfr_op *op)
{
	lockdep_assert_held(&conn->lock);
	return !kfr_op_numbered(op) || !kfr_window_full(conn);
}

/*
 * The next operation to be sent again. Users take turns. If an earlier one of the same
 * flow, maybe of somebody else, has to go first, that one gets the turn; and the next
 * turn is that of another operation, as the peer may refuse those before it again and
 * again.
 */
static struct kfr_op *kfr_next_again(struct kfr_conn *conn)
{
	struct kfr_op *op, *first;
	struct kfr_line *line;

	lockdep_assert_held(&conn->lock);
	while ((line = list_first_entry_or_null(&conn->again, struct kfr_line,
						again_turn))) {
		op = list_first_entry_or_null(&line->again, struct kfr_op, sent);
		if (!op) {
			list_del_init(&line->again_turn);
			continue;
		}
		first = kfr_flow_first(conn, op);
		if (!kfr_in_window(conn, first))
			return NULL;
		list_move_tail(&op->sent, &line->again);
		list_move_tail(&line->again_turn, &conn->again);
		return first;
	}
	return NULL;
}

/* The user whose turn it is, of those with new operations. */
static struct kfr_line *kfr_next_line(struct kfr_conn *conn)
{
	struct kfr_line *line;

	lockdep_assert_held(&conn->lock);
	while ((line = list_first_entry_or_null(&conn->reqs, struct kfr_line,
						reqs_turn))) {
		if (!list_empty(&line->reqs))
			return line;
		list_del_init(&line->reqs_turn);
	}
	return NULL;
}

/*
 * The next new request: lanes first, as their operations have been here before; then
 * the user whose turn it is, who keeps it while the window is full. Long or short, it
 * takes its place after those of its flow that are sent again, so later ones do not
 * overtake it, and it holds up no lane. One that has to wait elsewhere is a step of its
 * own, so that many do not keep the lock.
 */
static struct kfr_op *kfr_next_new(struct kfr_conn *conn, struct kfr_step *step)
{
	struct kfr_line *line = NULL;
	bool enough = true;
	struct kfr_op *op;

	lockdep_assert_held(&conn->lock);
	op = kfr_next_waiting(conn, &enough);
	if (!op) {
		line = kfr_next_line(conn);
		if (!line)
			return NULL;
		op = container_of(kfr_first(&line->reqs), struct kfr_op, item);
		step->moved = !kfr_req_admit(conn, op, &enough);
	}
	if (!step->moved) {
		op->order = conn->order++;
		step->moved = kfr_flow_follow(conn, op);
	}
	if (!step->moved && !kfr_in_window(conn, op))
		return NULL;
	if (line)
		list_move_tail(&line->reqs_turn, &conn->reqs);
	return step->moved ? NULL : op;
}

/*
 * Requests that are sent again and new ones take turns: a context that refuses and
 * resumes all the time does not hold up requests to others. In a flow, those that
 * are sent again go first. A turn that nothing was sent in does not count.
 */
static struct kfr_op *kfr_pick_req(struct kfr_conn *conn, struct kfr_step *step)
{
	bool again = conn->again_next;
	struct kfr_op *op;

	lockdep_assert_held(&conn->lock);
	op = again ? kfr_next_again(conn) : kfr_next_new(conn, step);
	if (!op && !step->moved) {
		again = !again;
		op = again ? kfr_next_again(conn) : kfr_next_new(conn, step);
	}
	if (op || step->moved)
		conn->again_next = !again;
	return op;
}

/*
 * Number, epoch and count are given here, at the last moment under the lock, so
 * their order is the order on the wire, which the peer checks.
 */
static bool kfr_next_req(struct kfr_conn *conn, struct kfr_step *step)
{
	struct kfr_op *op;
	bool numbered;

	lockdep_assert_held(&conn->lock);
	if (list_empty(&conn->free_wire) || !conn->sq_free)
		return false;
	op = kfr_pick_req(conn, step);
	if (!op) {
		step->kind = KFR_ITEM_NONE;
		return step->moved;
	}
	numbered = kfr_op_numbered(op);
	step->item = &op->item;
	step->wire = kfr_wire_get(conn);
	if (numbered)
		op->hdr.seq = cpu_to_le32(++conn->tx_seq);
	op->place = ++conn->tx_count;
	if (numbered)
		conn->tx_numbered = op->place;
	op->hdr.count = cpu_to_le32((u32)op->place);
	kfr_flow_stamp(conn, op);
	kfr_stamp(conn, &op->hdr);
	/* A request right after an ACK that went alone: traffic goes both ways. */
	if (time_before_eq(jiffies, conn->ack_time + 1))
		conn->ack_lazy = true;
	list_del_init(&step->item->link);
	op->state = KFR_SENT;
	list_move_tail(&op->sent, numbered ? &conn->sent_numbered :
					     &conn->sent_by_id);
	kfr_fill_req(conn, op, step);
	return true;
}

static bool kfr_next_urgent(struct kfr_conn *conn, struct kfr_step *step)
{
	bool room;

	lockdep_assert_held(&conn->lock);
	step->item = kfr_first(&conn->urgent);
	step->kind = step->item->kind;
	room = step->kind == KFR_ITEM_CTL ? kfr_next_ctl(conn, step) :
					    kfr_next_inv(conn, step);
	conn->urgent_run += room;
	return room;
}

static bool kfr_next_other(struct kfr_conn *conn, struct kfr_step *step)
{
	lockdep_assert_held(&conn->lock);
	step->item = kfr_first(&conn->data);
	step->kind = KFR_ITEM_DATA;
	if (step->item && kfr_next_data(conn))
		return true;
	step->kind = KFR_ITEM_REQ;
	if (!kfr_next_req(conn, step))
		return false;
	if (!step->moved)
		conn->urgent_run = 0;
	return true;
}

/*
 * Fills in the next step. Return: false if there is none, or no room for it; a
 * completion pumps again.
 */
static bool kfr_next(struct kfr_conn *conn, struct kfr_step *step)
{
	bool urgent;

	lockdep_assert_held(&conn->lock);
	urgent = !list_empty(&conn->urgent);
	/* Not @sq_free: an operation may hold places before it is posted. */
	if (conn->nwire == KFR_TXBUFS && conn->data_free == KFR_DATA_WRS)
		WRITE_ONCE(conn->taken_at, jiffies);
	memset(step, 0, sizeof(*step));
	if (urgent && conn->urgent_run < KFR_URGENT_RUN)
		return kfr_next_urgent(conn, step);
	if (!urgent && conn->ack_due)
		return kfr_next_ack(conn, step);
	if (kfr_next_other(conn, step))
		return true;
	/* Not for want of a wire buffer: a request gets the next one. */
	if (!list_empty(&conn->free_wire))
		conn->urgent_run = 0;
	return urgent && kfr_next_urgent(conn, step);
}

/**
 * kfr_post_wr() - post a chain of work requests
 * @conn: the connection
 * @wr: the first one; places in the send queue have been taken for all
 * @count: their number
 *
 * On an error the connection is aborted, and only the work requests that the
 * device has not taken are uncounted; the others complete with a flush error.
 *
 * Context: any; no lock held. The caller pumps: it has set kfr_conn.pumping.
 * Return: 0 or a negative errno.
 */
int kfr_post_wr(struct kfr_conn *conn, struct ib_send_wr *wr,
		unsigned int count)
{
	const struct ib_send_wr *bad = NULL;
	int err;

	/* Before posting: a completion may be handled before the call returns. */
	atomic_add(count, &conn->posted);
	err = ib_post_send(conn->qp, wr, &bad);
	if (!err)
		return 0;
	kfr_conn_abort(conn, EIO, KFR_ERR_DEVICE);
	for (; bad; bad = bad->next)
		kfr_posted_put(conn);
	return err;
}

/* The message in a wire buffer, and @len bytes of payload. */
static void kfr_wire_wr(struct kfr_wire *wire, size_t len, struct ib_sge *sge,
			struct ib_send_wr *wr)
{
	const struct ib_pd *pd = wire->conn->pd;
	struct ib_device *ib = wire->conn->node->dev->ib;

	ib_dma_sync_single_for_device(ib, wire->hdr_dma, sizeof(*wire->hdr),
				      DMA_TO_DEVICE);
	sge[0] = (struct ib_sge){ wire->hdr_dma, sizeof(*wire->hdr),
				  pd->local_dma_lkey };
	sge[1] = (struct ib_sge){ wire->page_dma, len, pd->local_dma_lkey };
	if (len)
		ib_dma_sync_single_for_device(ib, wire->page_dma, len,
					      DMA_TO_DEVICE);
	*wr = (struct ib_send_wr) {
		.wr_cqe = &wire->cqe,
		.sg_list = sge,
		.num_sge = len ? 2 : 1,
		.opcode = IB_WR_SEND,
		.send_flags = IB_SEND_SIGNALED,
	};
}

/* The header is in the wire buffer, so the control message ends before posting. */
static void kfr_post_ctl(struct kfr_conn *conn, struct kfr_step *step)
{
	struct ib_send_wr wr;
	struct ib_sge sge[2];

	*step->wire->hdr = step->hdr;
	kfr_wire_wr(step->wire, 0, sge, &wr);
	if (step->job)
		kfr_job_unref(step->job);
	kfr_post_wr(conn, &wr, 1);
}

/*
 * Invalidate the registrations of an operation that has its result. It stays on
 * kfr_conn.ending, where only these completions, or the end of the connection,
 * take it off: @op is valid here.
 */
static void kfr_post_inv(struct kfr_conn *conn, struct kfr_op *op)
{
	struct ib_send_wr wr[KFR_SEGS] = { };
	unsigned int i, n = op->nregs;

	for (i = 0; i < n; i++) {
		wr[i].wr_cqe = &op->cqe;
		wr[i].opcode = IB_WR_LOCAL_INV;
		wr[i].send_flags = IB_SEND_SIGNALED;
		wr[i].ex.invalidate_rkey = op->regs[i]->mr->rkey;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	kfr_post_wr(conn, wr, n);
}

/* Registrations and request in one chain: the peer never sees a key too early. */
static void kfr_post_req(struct kfr_conn *conn, struct kfr_step *step)
{
	struct ib_send_wr wr, *first = &wr;
	unsigned int i, n = step->nreg;
	struct ib_sge sge[2];

	if (step->broken) {
		kfr_conn_abort(conn, EIO, KFR_ERR_DEVICE);
		return;
	}
	for (i = 0; i < n; i++) {
		struct ib_send_wr *reg = &step->reg[i].wr;

		reg->wr_cqe = &conn->reg_cqe;
		reg->opcode = IB_WR_REG_MR;
		reg->send_flags = IB_SEND_SIGNALED;
		reg->next = i + 1 < n ? &step->reg[i + 1].wr : &wr;
		first = &step->reg[0].wr;
	}
	kfr_wire_wr(step->wire, step->len, sge, &wr);
	kfr_post_wr(conn, first, n + 1);
}

static void kfr_post_step(struct kfr_conn *conn, struct kfr_step *step)
{
	struct kfr_item *item = step->item;

	if (step->kind == KFR_ITEM_CTL)
		kfr_post_ctl(conn, step);
	else if (step->kind == KFR_ITEM_INV)
		kfr_post_inv(conn, container_of(item, struct kfr_op, item));
	else if (step->kind == KFR_ITEM_DATA)
		kfr_job_post(container_of(item, struct kfr_job, item));
	else if (step->kind == KFR_ITEM_REQ)
		kfr_post_req(conn, step);
}

/*
 * Posts until there is nothing left, or no room, or the budget is used up. The
 * caller has set @pumping. Return: false: there may be more to post.
 */
static bool kfr_pump_some(struct kfr_conn *conn, unsigned long *irq)
{
	unsigned int budget = KFR_PUMP_MAX;
	struct kfr_step step;

	lockdep_assert_held(&conn->lock);
	while (budget--) {
		if (conn->state != KFR_UP || !kfr_next(conn, &step))
			return true;
		spin_unlock_irqrestore(&conn->lock, *irq);
		kfr_post_step(conn, &step);
		spin_lock_irqsave(&conn->lock, *irq);
	}
	return false;
}

/**
 * kfr_pump() - post what can be posted
 * @conn: the connection, kept alive by the caller
 *
 * Called after everything that adds work or makes room. Does nothing unless the
 * connection is up; kfr_conn_set_up() calls it again then. If another thread is
 * pumping, that thread, or the work item after it, does the work.
 *
 * Context: any; does not sleep; no lock held. The caller may hold references
 * that close waits for, as this never waits.
 */
void kfr_pump(struct kfr_conn *conn)
{
	unsigned long irq;
	bool more;

	/* A preempted pump would stop all traffic of the connection. */
	kfi_preempt_off();
	spin_lock_irqsave(&conn->lock, irq);
	if (conn->pumping || conn->state != KFR_UP) {
		spin_unlock_irqrestore(&conn->lock, irq);
		kfi_preempt_on();
		return;
	}
	conn->pumping = true;
	/* Keeps queue pair and wire buffers: the drain waits for it. */
	kfr_conn_enter(conn);
	more = !kfr_pump_some(conn, &irq) && !conn->pump_queued;
	if (more) {
		conn->pump_queued = true;
		kfr_conn_get(conn);
	}
	conn->pumping = false;
	if (conn->flushing && list_empty(&conn->urgent) &&
	    list_empty(&conn->data) && !conn->ack_due &&
	    conn->nwire == KFR_TXBUFS)
		complete_all(&conn->idle);
	spin_unlock_irqrestore(&conn->lock, irq);
	if (more)
		kfv_queue_work(kfv_wq, &conn->pump);
	kfr_conn_leave(conn);
	kfi_preempt_on();
}

/**
 * kfr_pump_work() - go on where the budget of kfr_pump() was used up
 * @work: kfr_conn.pump, which has a reference to the connection
 *
 * Context: work item; no lock held.
 */
void kfr_pump_work(struct work_struct *work)
{
	struct kfr_conn *conn = container_of(work, struct kfr_conn, pump);

	spin_lock_irq(&conn->lock);
	conn->pump_queued = false;
	spin_unlock_irq(&conn->lock);
	kfr_pump(conn);
	kfr_conn_put(conn);
	module_put(THIS_MODULE);
}
