// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Data that moves on behalf of a peer: between its segments and a receive or a
 * region of ours. The side that was asked moves it, so that nobody has to know
 * a key of ours, nor can guess one.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "rdm.h"

static struct ib_device *kfr_job_ib(const struct kfr_job *job)
{
	return job->conn->node->dev->ib;
}

static void kfr_job_report_recv(struct kfr_job *job)
{
	struct kfi_completion comp;

	kfr_completion(job->rx, &job->hdr, job->src, job->recv, &job->range,
		       &comp);
	if (job->status != KFR_OK) {
		comp.err = job->status == KFR_NO_MEMORY ? KFI_ENOMEM :
			   job->conn->err ? job->conn->err : KFI_EIO;
		comp.prov_errno = KFR_ERR_STATUS + job->status;
		comp.len = 0;
	}
	kfr_recv_done(job->rx, job->recv, &comp);
}

/**
 * kfr_job_unref() - drop one of the two references to a job
 * @job: the job
 *
 * One reference belongs to the data movement (dropped by kfr_job_finish()), the
 * other to the FIN in @job->fin (dropped by kfr_ctl_end() when the pump has
 * copied it to a wire buffer, or when the connection drops it). The last one
 * frees the job and its reference to the connection.
 *
 * Context: any; no spinlock needed.
 */
void kfr_job_unref(struct kfr_job *job)
{
	struct kfr_conn *conn = job->conn;

	if (!atomic_dec_and_test(&job->refs))
		return;
	kfree(job);
	kfr_conn_put(conn);
}

static void kfr_job_reply(struct kfr_job *job)
{
	enum kfr_status status = job->status;

	job->replied = true;
	if (status == KFR_OK && job->range.over)
		status = KFR_TOO_LONG;
	kfr_reply_hdr(&job->fin.hdr, &job->hdr, KFR_OP_FIN, status,
		       job->range.len, job->range.over);
	job->fin.job = job;
	kfr_ctl_queue(job->conn, &job->fin);
}

static void kfr_job_finish(struct kfr_job *job)
{
	struct kfr_conn *conn = job->conn;
	struct kfr_rx *rx = job->rx;
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	list_del_init(&job->link);
	conn->njobs--;
	spin_unlock_irqrestore(&conn->lock, irq);
	if (job->mapped)
		kfr_map_end(&job->map, kfr_job_ib(job));
	if (job->recv)
		kfr_job_report_recv(job);
	else if (job->status == KFR_OK)
		kfr_mr_report(job->mr, rx, &job->hdr, job->src,
			      job->range.len);
	if (job->mr)
		kfr_mr_put(job->mr);
	/* Its context may close now: nothing of it is looked at any more. */
	kfr_rx_put(rx);
	if (!job->replied)
		kfr_job_reply(job);
	kfr_job_unref(job);
}

static void kfr_job_put(struct kfr_job *job)
{
	if (atomic_dec_and_test(&job->wrs))
		kfr_job_finish(job);
}

static void kfr_job_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfr_job *job = container_of(wc->wr_cqe, struct kfr_job, cqe);
	struct kfr_conn *conn = job->conn;
	unsigned long irq;

	kfr_conn_get(conn);
	if (wc->status != IB_WC_SUCCESS)
		job->status = KFR_IO;
	spin_lock_irqsave(&conn->lock, irq);
	conn->data_free++;
	spin_unlock_irqrestore(&conn->lock, irq);
	/* The connection must be known to be dead before this is reported. */
	if (wc->status != IB_WC_SUCCESS)
		kfr_wc_failed(conn, wc->status);
	kfr_job_put(job);
	kfr_sq_done(conn, wc->status);
	kfr_conn_put(conn);
}

/* The next stretches of local memory, at most @limit bytes. */
static unsigned int kfr_job_sges(struct kfr_job *job, struct ib_sge *sge,
				 unsigned int max, u32 limit, u32 *len)
{
	struct kfr_map *map = &job->map;
	unsigned int n;

	*len = 0;
	for (n = 0; n < max && limit; n++) {
		u32 part = min(sg_dma_len(map->sg) - map->at, limit);

		sge[n].addr = sg_dma_address(map->sg) + map->at;
		sge[n].length = part;
		sge[n].lkey = job->conn->pd->local_dma_lkey;
		limit -= part;
		*len += part;
		map->at += part;
		if (map->at == sg_dma_len(map->sg)) {
			map->sg = sg_next(map->sg);
			map->at = 0;
		}
	}
	return n;
}

static void kfr_job_fill(struct kfr_job *job, struct ib_rdma_wr *wr,
			 struct ib_sge *sge)
{
	struct kfr_seg *seg = &job->segs[job->seg];
	u32 room = le32_to_cpu(seg->len) - job->seg_at, len;
	u32 limit = min_t(size_t, room, job->left);

	wr->wr.wr_cqe = &job->cqe;
	wr->wr.opcode = job->write ? IB_WR_RDMA_WRITE : IB_WR_RDMA_READ;
	wr->wr.send_flags = IB_SEND_SIGNALED;
	wr->wr.sg_list = sge;
	wr->remote_addr = le64_to_cpu(seg->addr) + job->seg_at;
	wr->rkey = le32_to_cpu(seg->rkey);
	wr->wr.num_sge = kfr_job_sges(job, sge, job->conn->max_sge, limit,
				      &len);
	job->left -= len;
	job->seg_at += len;
	if (job->seg_at == le32_to_cpu(seg->len)) {
		job->seg++;
		job->seg_at = 0;
	}
}

/* A work request that the device has not taken. The connection is dead. */
static void kfr_job_post_failed(struct kfr_job *job)
{
	job->status = KFR_IO;
	kfr_job_put(job);
}

/**
 * kfr_job_post() - the next work request of a job
 * @job: on the queue of its connection; room for it is taken
 *
 * Context: any; only the pump calls it.
 */
void kfr_job_post(struct kfr_job *job)
{
	struct kfr_conn *conn = job->conn;
	struct ib_sge sge[KFV_MAX_SGE];
	struct ib_rdma_wr wr = { };
	unsigned long irq;
	bool last;

	kfr_job_fill(job, &wr, sge);
	last = !job->left;
	if (last) {
		spin_lock_irqsave(&conn->lock, irq);
		list_del_init(&job->item.link);
		spin_unlock_irqrestore(&conn->lock, irq);
	}
	atomic_inc(&job->wrs);
	if (kfr_post_wr(conn, &wr.wr, 1))
		kfr_job_post_failed(job);
	if (!last)
		return;
	/* What is written is there before the answer that follows it. */
	if (job->write)
		kfr_job_reply(job);
	kfr_job_put(job);
}

/* No memory for a job: both sides hear of it. */
static void kfr_job_refuse(struct kfr_conn *conn, struct kfr_rx *rx,
			   struct kfr_recv *recv, struct kfr_mr *mr,
			   const struct kfr_hdr *hdr, struct kfr_addr src,
			   const struct kfr_range *range)
{
	struct kfi_completion comp;

	if (recv) {
		kfr_completion(rx, hdr, src, recv, range, &comp);
		comp.len = 0;
		comp.err = KFI_ENOMEM;
		comp.prov_errno = KFR_ERR_STATUS + KFR_NO_MEMORY;
		kfr_recv_done(rx, recv, &comp);
	}
	if (mr)
		kfr_mr_put(mr);
	kfr_rx_put(rx);
	if (kfr_reply(conn, hdr, KFR_OP_FIN, KFR_NO_MEMORY, 0, 0))
		kfr_conn_abort(conn, ENOMEM, KFR_ERR_STATUS + KFR_NO_MEMORY);
}

static struct kfr_job *kfr_job_new(struct kfr_conn *conn,
				   const struct kfr_buf *buf,
				   const struct kfr_hdr *hdr,
				   const struct kfr_range *range)
{
	struct kfr_job *job = kzalloc(sizeof(*job), GFP_ATOMIC | __GFP_NOWARN);

	if (!job)
		return NULL;
	job->write = hdr->op == KFR_OP_READ;
	if (range->len) {
		if (kfr_map_make(&job->map, conn->node->dev->ib, buf,
				 range->at, range->len,
				 job->write ? DMA_TO_DEVICE :
					      DMA_FROM_DEVICE)) {
			kfree(job);
			return NULL;
		}
		job->mapped = true;
	}
	kfr_conn_get(conn);
	job->conn = conn;
	job->hdr = *hdr;
	job->range = *range;
	job->left = range->len;
	job->cqe.done = kfr_job_done;
	INIT_LIST_HEAD(&job->item.link);
	atomic_set(&job->wrs, 1);
	/* Until its data is moved, and until its answer has gone. */
	atomic_set(&job->refs, 2);
	return job;
}

/**
 * kfr_job_start() - move the data of a message
 * @conn: on which it came
 * @rx: the context, busy for this
 * @recv: the receive, or NULL
 * @mr: the region, busy for this, or NULL
 * @hdr: the message
 * @page: its payload, with the segments
 * @range: where in the receive or in the region
 * @src: whence it came
 *
 * Context: any; no lock held.
 */
void kfr_job_start(struct kfr_conn *conn, struct kfr_rx *rx,
		   struct kfr_recv *recv, struct kfr_mr *mr,
		   const struct kfr_hdr *hdr, struct page *page,
		   const struct kfr_range *range, struct kfr_addr src)
{
	struct kfr_job *job;
	unsigned long irq;
	bool dead, flood;

	job = kfr_job_new(conn, recv ? &recv->buf : &mr->buf, hdr, range);
	if (!job) {
		kfr_job_refuse(conn, rx, recv, mr, hdr, src, range);
		return;
	}
	job->rx = rx;
	job->recv = recv;
	job->mr = mr;
	job->src = src;
	memcpy(job->segs, page_address(page),
	       hdr->nsegs * sizeof(job->segs[0]));

	spin_lock_irqsave(&conn->lock, irq);
	dead = conn->state == KFR_DEAD;
	list_add_tail(&job->link, &conn->jobs);
	flood = ++conn->njobs > KFR_JOBS;
	if (!dead && job->left) {
		job->item.kind = KFR_ITEM_DATA;
		list_add_tail(&job->item.link, &conn->data);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	if (dead)
		job->status = KFR_IO;
	/* What is queued ends when all of it is posted. */
	if (dead || !range->len)
		kfr_job_put(job);
	else
		kfr_pump(conn);
	if (flood)
		kfr_conn_abort(conn, EIO, KFR_ERR_PROTOCOL);
}

/* What was not posted of the jobs of a dead connection never will be. */
void kfr_job_fail_all(struct kfr_conn *conn)
{
	struct kfr_item *item, *next;
	struct kfr_job *job;
	LIST_HEAD(failed);

	spin_lock_irq(&conn->lock);
	list_splice_init(&conn->data, &failed);
	spin_unlock_irq(&conn->lock);
	list_for_each_entry_safe(item, next, &failed, link) {
		job = container_of(item, struct kfr_job, item);
		list_del_init(&item->link);
		job->status = KFR_IO;
		kfr_job_put(job);
	}
}
