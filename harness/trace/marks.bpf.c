// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Part 7 of 7 of the tracer's program: marked functions, which publish or take the things
 * that sleepers wait for. Uses state.bpf.c only.
 */

static __always_inline int mark(struct regs *ctx, u8 what)
{
	u64 id = bpf_get_current_pid_tgid();
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

	if (switched_off())
		return 0;
	remember(m.tid);
	put(&m, sizeof(m));
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
