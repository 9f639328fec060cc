// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Part of the tracer's program: marked functions, which publish or take the things
 * that sleepers wait for. Uses state.bpf.c only.
 *
 * The item is stored or taken somewhere between the function's begin and its return, so
 * both are recorded. Each call has its own place on a stack for its return address, which
 * pairs the two, also in nested and in recursive calls. A function that never returns
 * leaves its call in the map until another thread uses the same place.
 *
 * The kernel follows a limited number of calls of a function at a time. If it has missed a
 * return, the next call in the same place shows that.
 */

/* The calls that have not returned, by the place of their return address. */
BPF_HASH(calls, u64, struct mark_rec, 16384);
/* How often each function was called, by the address of its probe. */
BPF_HASH(mark_counts, u64, u64, 64);

static __always_inline int mark(struct regs *ctx, u8 what)
{
	u64 id = bpf_get_current_pid_tgid();
	u64 place = ctx->sp, address = ctx->ip;
	struct mark_rec m = {
		.kind = REC_MARK,
		.t = bpf_ktime_get_ns(),
		.tid = id,
		.tgid = id >> 32,
		.stack = stack_of(ctx),
		.what = what,
		.context = context_below(BREAKPOINT),
		.cpu = bpf_get_smp_processor_id(),
	};

	struct mark_rec *old = calls.lookup(&place);

	if (switched_off())
		return 0;
	if (old && (old->tid == m.tid || m.context != CTX_PROCESS))
		lose(LOST_UNPAIRED);
	remember(m.tid);
	mark_counts.atomic_increment(address);
	put(&m, sizeof(m));
	calls.update(&place, &m);
	return 0;
}

/* These are only loaded if functions are marked. */
int on_publish(struct regs *ctx)
{
	return mark(ctx, 1);
}

int on_take(struct regs *ctx)
{
	return mark(ctx, 2);
}

/* No breakpoint: interrupts may be on. The return address has left the stack. */
int on_return(struct regs *ctx)
{
	u64 place = ctx->sp - sizeof(u64);
	struct mark_rec *m = calls.lookup(&place);

	if (!m || switched_off())
		return 0;
	m->t_end = bpf_ktime_get_ns();
	put(m, sizeof(*m));
	calls.delete(&place);
	return 0;
}
