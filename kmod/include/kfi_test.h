/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The switches of the test-option build: delay hooks and fault points
 * (core/hooks.c), armed through the mock provider's command file. The production build
 * has none of them.
 */
#ifndef _KFI_TEST_H_
#define _KFI_TEST_H_

#include <linux/types.h>

/*
 * Points at which a thread can be made to stop:
 *  D1 between the last look and the sleep
 *  D2 before the look of kfi_fid_trywait()
 *  D3 between storing an entry and waking
 *  D4 between being woken and reading
 *  D5 between the deadline's expiry and leaving the queue
 *  D6 between unlinking a member and freeing it
 *  D7 between looking at an entry and copying it to the user
 *  D8 in an accept of the verbs provider, before its queue pair is ready to send
 *  D9 in a work item of the verbs provider, before the device gives up a connection or
 *     a memory region
 *  D10 in the removal of a device from the verbs provider, before a domain gives it up
 *  D11 between two CQs or counters whose counts are added up for their domain
 *  D12 while the verbs provider destroys an rdma_cm_id, and no other one of that device
 *  D13 between two kept messages that a new multi-receive takes
 *  D14 in a work item of an RDM connection, before it unmaps what it has ended
 */
enum kfi_hook {
	KFI_HOOK_D1 = 1, KFI_HOOK_D2, KFI_HOOK_D3, KFI_HOOK_D4,
	KFI_HOOK_D5, KFI_HOOK_D6, KFI_HOOK_D7, KFI_HOOK_D8,
	KFI_HOOK_D9, KFI_HOOK_D10, KFI_HOOK_D11, KFI_HOOK_D12,
	KFI_HOOK_D13, KFI_HOOK_D14,
	KFI_HOOK_MAX
};

/* Faults that can be armed, once each: of a queue, and the last one of an endpoint. */
enum kfi_fault {
	KFI_FAULT_NONE,
	KFI_FAULT_LOST,		/* a publication stores but wakes no thread */
	KFI_FAULT_LATE,		/* a publication wakes only after a while */
	KFI_FAULT_HERD,		/* a publication wakes all waiters, not one */
	KFI_FAULT_SPURIOUS,	/* sleepers are woken with nothing published */
	KFI_FAULT_STALL,	/* a close takes the device for late */
	KFI_FAULT_MAX
};

#ifdef KFABRIC_TEST

int kfi_test_hook_arm(enum kfi_hook hook, u32 id);
int kfi_test_hook_go(enum kfi_hook hook);
bool kfi_test_hook_stopped(enum kfi_hook hook);
int kfi_test_fault_arm(enum kfi_fault fault, u32 queue, u64 arg);
void kfi_test_hook_point(enum kfi_hook hook, u32 id);
bool kfi_test_stall_point(u32 id);
u64 kfi_test_looks(void);

#else

static inline void kfi_test_hook_point(enum kfi_hook hook, u32 id) {}

static inline bool kfi_test_stall_point(u32 id)
{
	return false;
}

#endif /* KFABRIC_TEST */

#endif /* _KFI_TEST_H_ */
