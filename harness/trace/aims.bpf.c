// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A part of the tracer's program, after queues.bpf.c: completions of which the kernel knows
 * what ends them.
 *
 * These functions of the kernel sleep on a completion that nothing else uses:
 *
 *   kthread_stop, kthread_park		until a thread exits, or parks
 *   __flush_work			until a work item has run
 *   __wait_rcu_gp, __synchronize_srcu,	until an RCU grace period has ended
 *   synchronize_rcu_normal
 *
 * on_aim notes their argument; the wait begins with the completion, in the same function.
 */

struct aim {
	u64 function, size;	/* the code from which the wait has to come */
	u64 object;
	u32 what, pad;
};

BPF_TABLE("lru_hash", u32, struct aim, aims, 4096);

/* A worker, and the item that it runs. */
struct runner {
	u64 task, function, pwq;
	u32 tid, pad;
};

BPF_TABLE("lru_hash", u64, struct runner, runners, 4096);	/* by item */

static __always_inline void name_task(u64 task, u32 tid)
{
	struct comm comm = {};

	bpf_probe_read_kernel(&comm, sizeof(comm), (void *)(task + TASK_COMM));
	threads.update(&tid, &comm);
}

#define AIM(ctx, name, kind)			\
	if (IN(ctx, name)) {			\
		aim.function = name;		\
		aim.size = name##_SIZE;		\
		aim.what = kind;		\
	}

int on_aim(struct regs *ctx)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct aim aim = { .object = ctx->di };

	if (switched_off())
		return 0;
	AIM(ctx, KTHREAD_STOP, ENDER_STOP);
	AIM(ctx, KTHREAD_PARK, ENDER_PARK);
	AIM(ctx, FLUSH_WORK, ENDER_WORK);
	AIM(ctx, WAIT_RCU, ENDER_RCU);
	AIM(ctx, WAIT_SRCU, ENDER_RCU);
	AIM(ctx, WAIT_SRCU_PART, ENDER_RCU);
	AIM(ctx, WAIT_RCU_NORMAL, ENDER_RCU);
	AIM(ctx, WAIT_RCU_PART, ENDER_RCU);
	aims.update(&tid, &aim);
	return 0;
}

/* Complete the request of a wait for a completion, if it has an aim. */
static __always_inline void take_aim(struct request *rq)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct aim *aim = aims.lookup(&tid);

	if (!aim || rq->site - aim->function >= aim->size)
		return;
	rq->what = aim->what;
	rq->object = aim->object;
	rq->named = KIND_THREAD;
	if (aim->what == ENDER_RCU) {
		rq->named = KIND_RCU;
		rq->shared = KIND_RCU;
	}
	if (aim->what == ENDER_WORK) {
		rq->named = KIND_FLUSH;
		rq->site = load64(aim->object + WORK_FUNCTION);
		rq->shared = rq->site;
	}
	aims.delete(&tid);
}

/* Note the thread that can end a wait, as far as there is one. */
static __always_inline u32 note_aim(struct request *rq, struct wait_rec *w)
{
	u64 task = rq->object, item = rq->object;
	struct ender_rec r = {
		.kind = REC_ENDER,
		.queue = w->queue,
		.t_begin = w->t_begin,
		.t = w->t_begin,
		.tid = w->tid,
		.what = rq->what,
	};

	if (rq->what == ENDER_RCU)
		task = 0;
	if (rq->what == ENDER_WORK) {
		struct runner *runner = runners.lookup(&item);

		task = runner ? runner->task : 0;
	}
	if (task) {
		r.ender = tid_of(task);
		name_task(task, r.ender);
	}
	put(&r, sizeof(r));
	return r.ender;
}
