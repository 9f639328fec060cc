/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* Written by python -m harness.rv.files from kfabric's tracepoints. */

static void handle_signal(void *data, u32 queue, u32 source, u32 why, u64 seq,
			  u64 have, u32 sleepers);
static void handle_wake(void *data, u32 queue, u32 source, u32 why, u64 seq,
			pid_t pid);

static const struct kfi_probe kfi_wake_probes[] = {
	{ "signal", handle_signal },
	{ "wake", handle_wake },
};
