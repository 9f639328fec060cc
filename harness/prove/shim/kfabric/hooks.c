// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What stands for kmod/core/hooks.c: at a delay hook any other thread may run, and
 * the trace names it. No fault is ever armed.
 */
#include "core.h"

static const char *const hook_names[KFI_HOOK_MAX] = {
	[KFI_HOOK_D1] = "D1",	[KFI_HOOK_D2] = "D2",	[KFI_HOOK_D3] = "D3",
	[KFI_HOOK_D4] = "D4",	[KFI_HOOK_D5] = "D5",	[KFI_HOOK_D6] = "D6",
	[KFI_HOOK_D7] = "D7",	[KFI_HOOK_D8] = "D8",	[KFI_HOOK_D9] = "D9",
	[KFI_HOOK_D10] = "D10",	[KFI_HOOK_D11] = "D11",	[KFI_HOOK_D12] = "D12",
	[KFI_HOOK_D13] = "D13",	[KFI_HOOK_D14] = "D14",
};

void kfi_test_hook_point(enum kfi_hook hook, u32 id)
{
	pv_hook(hook_names[hook]);
}

bool kfi_test_stall_point(u32 id)
{
	return false;
}

void kfi_test_queue_add(struct kfi_waitq *q)
{
}

void kfi_test_queue_del(struct kfi_waitq *q)
{
}

bool kfi_test_fault_point(struct kfi_waitq *q, struct kfi_wake *wake)
{
	return false;
}

/* Counts what a poll costs, which orders nothing. */
void kfi_test_look(void)
{
}
