// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Jobs: RDMA reads and writes on behalf of a peer, between its segments and a
 * receive or a region of this side. The peer never gets a key of this side, so
 * it has none to guess.
 *
 * kfr_job_start() maps the local memory and queues the job; the pump posts one
 * work request at a time (kfr_job_post()), so jobs take turns with replies. The
 * last completion reports the message or the RMA, and queues FIN. FIN of a READ
 * is queued already after the last RDMA write, as the queue pair keeps their
 * order.
 *
 * While its data moves, a job keeps busy its context and its region, and is on
 * kfr_conn.jobs, where kfr_node_break() and kfr_rx_abandon() find it. Afterwards
 * only FIN is left, which needs the connection alone: @refs.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "../../compat.h"
#include "rdm.h"

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
 * other to the FIN in @job->fin (dropped by the pump when it has copied it to a
 * wire buffer, or when the connection drops it). The last one frees the job and
 * its reference to the connection.
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
	kfr_ctl_add_fin(job);
}

/*
 * All work requests have completed, or there are none: the caller dropped the
 * last of @wrs. The memory is unmapped before it is reported to the ULP. FIN is
 * queued after the report, unless kfr_job_post() has queued it.
 */
static void kfr_job_finish(struct kfr_job *job)
{
	struct kfr_conn *conn = job->conn;
	struct kfr_rx *rx;
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	list_del_init(&job->link);
	conn->njobs--;
	rx = job->rx;
	spin_unlock_irqrestore(&conn->lock, irq);
	if (job->mapped)
		kfr_map_end(&job->map);
	if (rx && job->recv)
		kfr_job_report_recv(job);
	else if (rx)
		kfr_mr_end(job->mr, rx, &job->hdr, job->src, job->status);
	/* The context may be freed from here on; FIN needs the connection only. */
	if (rx)
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

/*
 * Completion handler of each RDMA read or write, in softirq context. The job
 * may be gone after kfr_job_put(), hence the reference to the connection.
 *
 * If one has failed, the job ends after the queue pair: rxe of 6.1 may still read
 * memory that it has returned with an error (docs/rdm.md).
 */
static void kfr_job_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kfr_job *job = container_of(wc->wr_cqe, struct kfr_job, cqe);
	const bool failed = wc->status != IB_WC_SUCCESS;
	struct kfr_conn *conn = job->conn;
	unsigned long irq;
	bool keep;

	kfr_conn_get(conn);
	if (failed)
		job->status = KFR_IO;
	spin_lock_irqsave(&conn->lock, irq);
	conn->data_free++;
	keep = failed && !job->failed && READ_ONCE(conn->qp);
	job->failed |= keep;
	spin_unlock_irqrestore(&conn->lock, irq);
	/* Dead before the report: the report uses the connection's error. */
	if (failed)
		kfr_wc_failed(conn, wc->status);
	if (!keep)
		kfr_job_put(job);
	kfr_sq_done(conn, wc->status);
	kfr_conn_put(conn);
}

/* Elements for the next @limit bytes, at most, of local memory. Pump only. */
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

/*
 * One work request: within one segment of the peer, and @max_sge local pieces.
 */
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

/**
 * kfr_job_post() - post the next work request of a job
 * @job: on kfr_conn.data; a place for the work request is taken
 *
 * Context: any; no lock held. Only the pump calls it, which makes the position
 * in the job its own. The job may be gone on return.
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
	if (kfr_post_wr(conn, &wr.wr, 1)) {
		job->status = KFR_IO;
		kfr_job_put(job);
	}
	if (!last)
		return;
	/* FIN is sent after the RDMA writes on the same queue pair. */
	if (job->write)
		kfr_job_reply(job);
	kfr_job_put(job);
}

/* No memory for a job: report that here, and to the peer. */
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
		kfr_mr_end(mr, rx, hdr, src, KFR_NO_MEMORY);
	kfr_rx_put(rx);
	kfr_reply(conn, hdr, KFR_OP_FIN, KFR_NO_MEMORY, 0, 0);
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
	INIT_LIST_HEAD(&job->fin.item.link);
	atomic_set(&job->wrs, 1);
	/* Until its data is moved, and until its answer has gone. */
	atomic_set(&job->refs, 2);
	return job;
}

/**
 * kfr_job_start() - move the data of a request by RDMA
 * @conn: its connection
 * @rx: the context; its @busy was incremented for the job, which drops it
 * @recv: the receive, with @range reserved; the job reports it. Or NULL
 * @mr: the region; its @busy was incremented for the job, which drops it. Or
 *	NULL
 * @hdr: header of the request; copied
 * @page: its payload with the segments; copied
 * @range: part of the receive or of the region
 * @src: the requesting endpoint
 *
 * The result, also an error, is reported and replied later or before this
 * returns.
 *
 * Context: softirq, or preemption off: if the caller were kept from its CPU, the peer
 * would look for the request in vain, and take back memory that the job then uses. No
 * lock held.
 */
void kfr_job_start(struct kfr_conn *conn, struct kfr_rx *rx,
		   struct kfr_recv *recv, struct kfr_mr *mr,
		   const struct kfr_hdr *hdr, struct page *page,
		   const struct kfr_range *range, struct kfr_addr src)
{
	struct kfr_job *job;
	unsigned long irq;
	bool dead, closing, flood;

	kfi_assert_preempt_off();
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
	/* Under the lock: kfr_rx_abandon() sees the job, or this sees @closing. */
	closing = READ_ONCE(rx->closing);
	list_add_tail(&job->link, &conn->jobs);
	flood = ++conn->njobs > KFR_JOBS;
	if (!dead && !closing && job->left) {
		job->item.kind = KFR_ITEM_DATA;
		list_add_tail(&job->item.link, &conn->data);
		kfr_probe_later(conn);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	if (dead)
		job->status = KFR_IO;
	else if (closing)
		job->status = KFR_NO_ENDPOINT;
	/* A queued job drops its own count of @wrs in kfr_job_post(). */
	if (dead || closing || !range->len)
		kfr_job_put(job);
	else
		kfr_pump(conn);
	if (flood)
		kfr_conn_abort(conn, EIO, KFR_ERR_PROTOCOL);
}

/* A job of which a work request has failed: the caller drops its count of @wrs. */
static struct kfr_job *kfr_job_take_failed(struct kfr_conn *conn)
{
	struct kfr_job *job, *found = NULL;

	spin_lock_irq(&conn->lock);
	list_for_each_entry(job, &conn->jobs, link) {
		if (job->failed) {
			job->failed = false;
			found = job;
			break;
		}
	}
	spin_unlock_irq(&conn->lock);
	return found;
}

/**
 * kfr_job_fail_all() - end the jobs that have failed, or were not posted completely
 * @conn: dead, and its queue pair is destroyed: the pump does not run, and all others
 *	have completed
 *
 * Context: process, the connection's work item; no lock held.
 */
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
	while ((job = kfr_job_take_failed(conn)))
		kfr_job_put(job);
}

/**
 * kfr_conn_serves() - does a connection have a job for an object that closes?
 * @conn: the connection
 * @rx: the receive context, or NULL
 * @mr: the region, or NULL
 *
 * Context: any; no lock held.
 * Return: whether there is such a job.
 */
bool kfr_conn_serves(struct kfr_conn *conn, const struct kfr_rx *rx,
		     const struct kfr_mr *mr)
{
	const struct kfr_job *job;
	bool found = false;
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	list_for_each_entry(job, &conn->jobs, link)
		found |= (rx && job->rx == rx) || (mr && job->mr == mr);
	spin_unlock_irqrestore(&conn->lock, irq);
	return found;
}
