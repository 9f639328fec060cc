// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * rawread ADDR SIZE READS DEPTH: RDMA READs by the verbs of the kernel alone,
 * DEPTH of them at a time, between two queue pairs of the device with that
 * address. What kfabric's reads are compared to (rdm.c).
 */
#include <linux/scatterlist.h>
#include <linux/vmalloc.h>

#include "kbench.h"
#include "raw.h"

/**
 * struct kb_memory - memory that is registered
 * @buf: vmalloc memory
 * @table: its pages
 * @mapped: pages that are mapped for the device
 * @mr: the region
 */
struct kb_memory {
	u8 *buf;
	struct sg_table table;
	int mapped;
	struct ib_mr *mr;
};

/**
 * struct kb_reader - reads with one queue pair from the other
 * @raw: both; the first one reads
 * @from: is read
 * @to: is written
 * @cqe: of every work request
 * @wait: the caller sleeps here
 * @done: work requests that have completed
 * @failed: those of them that failed
 */
struct kb_reader {
	struct kb_raw raw;
	struct kb_memory from;
	struct kb_memory to;
	struct ib_cqe cqe;
	wait_queue_head_t wait;
	atomic_t done;
	atomic_t failed;
};

static void kb_reader_done(struct ib_cq *cq, struct ib_wc *wc)
{
	struct kb_reader *reader = container_of(wc->wr_cqe, struct kb_reader,
						cqe);

	if (wc->status != IB_WC_SUCCESS)
		atomic_inc(&reader->failed);
	atomic_inc(&reader->done);
	wake_up(&reader->wait);
}

static int kb_reader_await(struct kb_reader *reader, int done)
{
	if (!wait_event_timeout(reader->wait,
				atomic_read(&reader->done) >= done,
				KB_DEADLINE))
		return -ETIMEDOUT;
	return atomic_read(&reader->failed) ? -EIO : 0;
}

static int kb_memory_table(struct kb_memory *memory, size_t size)
{
	unsigned int i, pages = DIV_ROUND_UP(size, PAGE_SIZE);
	struct scatterlist *sg;
	int err;

	memory->buf = vzalloc(size);
	if (!memory->buf)
		return -ENOMEM;
	err = sg_alloc_table(&memory->table, pages, GFP_KERNEL);
	if (err)
		return err;
	for_each_sg(memory->table.sgl, sg, pages, i)
		sg_set_page(sg, vmalloc_to_page(memory->buf + i * PAGE_SIZE),
			    PAGE_SIZE, 0);
	return 0;
}

static int kb_memory_open(struct kb_reader *reader, struct kb_memory *memory,
			  size_t size)
{
	int n, err;

	err = kb_memory_table(memory, size);
	if (err)
		return err;
	n = memory->table.nents;
	memory->mr = ib_alloc_mr(reader->raw.pd, IB_MR_TYPE_MEM_REG, n);
	if (IS_ERR(memory->mr))
		return PTR_ERR(memory->mr);
	memory->mapped = ib_dma_map_sg(reader->raw.id->device,
				       memory->table.sgl, n,
				       DMA_BIDIRECTIONAL);
	if (ib_map_mr_sg(memory->mr, memory->table.sgl, memory->mapped, NULL,
			 PAGE_SIZE) != n)
		return -ENOMEM;
	return 0;
}

static void kb_memory_close(struct kb_reader *reader, struct kb_memory *memory)
{
	if (memory->mapped)
		ib_dma_unmap_sg(reader->raw.id->device, memory->table.sgl,
				memory->table.nents, DMA_BIDIRECTIONAL);
	if (!IS_ERR_OR_NULL(memory->mr))
		ib_dereg_mr(memory->mr);
	sg_free_table(&memory->table);
	vfree(memory->buf);
}

static int kb_reader_register(struct kb_reader *reader, struct ib_qp *qp,
			      struct kb_memory *memory)
{
	struct ib_reg_wr wr = {
		.wr.opcode = IB_WR_REG_MR,
		.wr.send_flags = IB_SEND_SIGNALED,
		.wr.wr_cqe = &reader->cqe,
		.mr = memory->mr,
		.key = memory->mr->rkey,
		.access = KB_ACCESS,
	};
	int err = ib_post_send(qp, &wr.wr, NULL);

	return err ?: kb_reader_await(reader, atomic_read(&reader->done) + 1);
}

static int kb_reader_post(struct kb_reader *reader, size_t size)
{
	struct ib_sge sge = {
		.addr = reader->to.mr->iova,
		.length = size,
		.lkey = reader->to.mr->lkey,
	};
	struct ib_rdma_wr wr = {
		.wr.opcode = IB_WR_RDMA_READ,
		.wr.send_flags = IB_SEND_SIGNALED,
		.wr.wr_cqe = &reader->cqe,
		.wr.sg_list = &sge,
		.wr.num_sge = 1,
		.remote_addr = reader->from.mr->iova,
		.rkey = reader->from.mr->rkey,
	};

	return ib_post_send(reader->raw.qp[0], &wr.wr, NULL);
}

/* Never more than @depth are under way. */
static int kb_reader_reads(struct kb_reader *reader, size_t size, int reads,
			   int depth)
{
	int i, err = 0;

	atomic_set(&reader->done, 0);
	for (i = 0; !err && i < reads; i++) {
		err = kb_reader_await(reader, i + 1 - depth);
		if (!err)
			err = kb_reader_post(reader, size);
	}
	return err ?: kb_reader_await(reader, reads);
}

static int kb_reader_run(struct kb *kb, struct kb_reader *reader,
			 const struct kb_reads *reads)
{
	struct kb_clock clock;
	int err;

	err = kb_reader_register(reader, reader->raw.qp[1], &reader->from);
	if (!err)
		err = kb_reader_register(reader, reader->raw.qp[0],
					 &reader->to);
	/* The first one warms up. */
	if (!err)
		err = kb_reader_reads(reader, reads->size, 1, 1);
	if (err)
		return err;
	kb_clock_start(&clock);
	err = kb_reader_reads(reader, reads->size, reads->count, reads->depth);
	kb_clock_stop(&clock);
	if (!err)
		kb_reads_tell(kb, reads, &clock, reader->from.buf,
			      reader->to.buf);
	return err;
}

static int kb_reader_open(struct kb_reader *reader,
			  const struct kb_reads *reads)
{
	int err;

	err = kb_raw_open(&reader->raw, reads->addr);
	if (!err)
		err = kb_memory_open(reader, &reader->from, reads->size);
	if (!err)
		err = kb_memory_open(reader, &reader->to, reads->size);
	if (!err)
		kb_reads_fill(reader->from.buf, reads->size);
	return err;
}

static void kb_reader_close(struct kb_reader *reader)
{
	kb_raw_drain(&reader->raw);
	if (reader->raw.id) {
		kb_memory_close(reader, &reader->from);
		kb_memory_close(reader, &reader->to);
	}
	kb_raw_close(&reader->raw);
}

int kb_rawread(struct kb *kb, const char *args)
{
	struct kb_reader reader = { .cqe.done = kb_reader_done };
	struct kb_reads reads;
	int err;

	if (kb_reads_parse(&reads, args))
		return -EINVAL;
	init_waitqueue_head(&reader.wait);
	err = kb_reader_open(&reader, &reads);
	if (!err)
		err = kb_reader_run(kb, &reader, &reads);
	kb_reader_close(&reader);
	return err;
}
