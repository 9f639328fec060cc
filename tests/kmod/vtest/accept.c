// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* A thread posts while another one accepts the connection. */
#include <linux/delay.h>
#include <linux/workqueue.h>

#include <kfi_test.h>

#include "vtest.h"

#ifdef KFABRIC_TEST
/**
 * struct va_call - vt_connect() in another thread
 * @work: runs it
 * @vt: its argument
 * @err: its result
 */
struct va_call {
	struct work_struct work;
	struct vt *vt;
	int err;
};

static void va_connect(struct work_struct *work)
{
	struct va_call *call = container_of(work, struct va_call, work);

	call->err = vt_connect(call->vt);
}

static int va_until_stopped(enum kfi_hook hook)
{
	unsigned long end = jiffies + msecs_to_jiffies(VT_DEADLINE_MS);

	while (!kfi_test_hook_stopped(hook)) {
		if (time_after(jiffies, end))
			return -ETIMEDOUT;
		usleep_range(100, 200);
	}
	return 0;
}

static ssize_t va_send(struct vt_side *side)
{
	return kfi_send(side->ep, side->buf, 8, NULL, 0, NULL);
}

/* Hook D8: the accept has begun, and the queue pair cannot send yet. */
static void vt_post_beside_accept(struct vt *vt)
{
	struct va_call call = { .vt = vt };
	struct kfi_cq_data_entry entry;
	ssize_t early = 0;
	int stopped;

	VT_EQ(vt, kfi_test_hook_arm(KFI_HOOK_D8, 0), 0);
	INIT_WORK_ONSTACK(&call.work, va_connect);
	queue_work(system_unbound_wq, &call.work);
	stopped = va_until_stopped(KFI_HOOK_D8);
	if (!stopped)
		early = va_send(&vt->b);
	kfi_test_hook_go(KFI_HOOK_D8);
	flush_work(&call.work);
	destroy_work_on_stack(&call.work);
	VT_EQ(vt, stopped, 0);
	VT_EQ(vt, call.err, 0);
	VT_EQ(vt, early, -ENOTCONN);
	VT_EQ(vt, kfi_recv(vt->a.ep, vt->a.buf, 8, NULL, 0, NULL), 0);
	VT_EQ(vt, va_send(&vt->b), 0);
	VT_EQ(vt, vt_entry(&vt->a, &entry), 0);
}
#else
/* The production build has no hooks. */
static void vt_post_beside_accept(struct vt *vt)
{
}
#endif

const struct vt_case vt_accept_cases[] = {
	{ "post_beside_accept", vt_post_beside_accept },
	{ }
};
