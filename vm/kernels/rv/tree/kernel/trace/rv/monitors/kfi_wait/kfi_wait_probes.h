/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* Written by python -m harness.rv.files from kfabric's tracepoints. */

static void handle_wait_begin(void *data, u32 queue, u32 fclass, u64 need,
			      bool exclusive);
static void handle_signal(void *data, u32 queue, u32 source, u32 why, u64 seq,
			  u64 have, u32 sleepers);
static void handle_wake(void *data, u32 queue, u32 source, u32 why, u64 seq,
			pid_t pid);
static void handle_wait_end(void *data, u32 queue, u32 fclass, int ret, u32 why,
			    u64 seq, u64 seen, u32 source, bool ready);
static void handle_object_new(void *data, u32 id, u32 fclass, u32 parent);

static const struct kfi_probe kfi_wait_probes[] = {
	{ "wait_begin", handle_wait_begin },
	{ "signal", handle_signal },
	{ "wake", handle_wake },
	{ "wait_end", handle_wait_end },
	{ "object_new", handle_object_new },
};
