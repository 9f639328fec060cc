/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Measurements from inside the kernel. One is a line written to
 * /sys/kernel/debug/kfi_bench; a read of the same descriptor gives its figures,
 * as words of the form name=number. The objects are the mock provider's, and
 * completions are reported as a provider reports them; but for those of rdm.c,
 * rawread.c and trip.c, which need an RDMA device.
 */
#ifndef _KFI_BENCH_H_
#define _KFI_BENCH_H_

#include <linux/completion.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/seq_buf.h>
#include <linux/timex.h>

#include <kfabric.h>
#include <kfi_core.h>
#include <kfi_domain.h>
#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <kfi_errno.h>

/* Ends a measurement that hangs, and says so; nothing is measured by it. */
#define KB_DEADLINE_MS	20000
#define KB_DEADLINE	msecs_to_jiffies(KB_DEADLINE_MS)

/* What every measurement starts from. */
struct kb {
	struct seq_buf *out;
	struct kfi_info *info;
	struct kfid_fabric *fabric;
	struct kfid_domain *domain;
};

/* A CQ and a counter, what they are waited for with, what completes to them. */
struct kb_queue {
	struct kfid_wait *wait;		/* or NULL: nobody can wait */
	struct kfid_cq *cq;
	struct kfid_cntr *cntr;		/* of receives */
	struct kfid_ep *ep;
};

/* Reads of remote memory, by kfabric or without it. */
#define KB_ADDR_MAX	16
#define KB_READ_MAX	(2U << 20)
#define KB_DEPTH_MAX	16

struct kb_reads {
	char addr[KB_ADDR_MAX];
	size_t size;
	unsigned int count;
	unsigned int depth;
};

int kb_open(struct kb *kb);
int kb_open_domain(struct kb *kb);
void kb_close(struct kb *kb);
int kb_cq_open(struct kb *kb, size_t size, struct kfid_wait *wait,
	       void *context, struct kfid_cq **cq);
int kb_ep_open(struct kb *kb, struct kfid_cq *cq, struct kfid_cntr *cntr,
	       struct kfid_ep **ep);
int kb_queue_open(struct kb *kb, struct kb_queue *queue, bool wait);
void kb_queue_close(struct kb_queue *queue);

/* Report the completion of a receive, with an entry in the CQ or without. */
static inline void kb_complete(struct kfid_ep *ep, bool want_entry)
{
	static const struct kfi_completion comp = {
		.flags = KFI_MSG | KFI_RECV,
		.src = KFI_ADDR_NOTAVAIL,
	};

	kfi_ep_complete(container_of(ep, struct kfi_ep_base, ep), &comp,
			want_entry);
}

/* A stretch of work: TSC cycles, which are instructions under icount, and ns. */
struct kb_clock {
	u64 cycles;
	u64 ns;
};

static inline void kb_clock_start(struct kb_clock *clock)
{
	clock->ns = ktime_get_ns();
	clock->cycles = get_cycles();
}

static inline void kb_clock_stop(struct kb_clock *clock)
{
	clock->cycles = get_cycles() - clock->cycles;
	clock->ns = ktime_get_ns() - clock->ns;
}

/* A thread on a CPU (negative: on any), not yet running; see kb_stop(). */
struct task_struct *kb_thread(int (*body)(void *arg), void *arg, int cpu,
			      bool patient, const char *name);
void kb_stop(struct task_struct *task);
int kb_until_asleep(struct task_struct *task);
long kb_slab_pages(void);

int kb_pingpong(struct kb *kb, const char *args);
int kb_poll(struct kb *kb, const char *args);
int kb_herd(struct kb *kb, const char *args);
int kb_flood(struct kb *kb, const char *args);
int kb_memory(struct kb *kb, const char *args);

/* rdm.c, rawread.c, trip.c */
int kb_reads_parse(struct kb_reads *reads, const char *args);
void kb_reads_fill(u8 *buf, size_t size);
void kb_reads_tell(struct kb *kb, const struct kb_reads *reads,
		   const struct kb_clock *clock, const u8 *from, const u8 *to);
int kb_rdmread(struct kb *kb, const char *args);
int kb_tags(struct kb *kb, const char *args);
int kb_rawread(struct kb *kb, const char *args);
int kb_trip(struct kb *kb, const char *args);

#endif /* _KFI_BENCH_H_ */
