// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The classes of objects: their structures, and how each is initialised, closed and
 * freed.
 */
#include <linux/slab.h>

#include "kfd.h"

static void kfd_ep_init(struct kfd_obj *obj)
{
	struct kfd_ep *ep = container_of(obj, struct kfd_ep, obj);

	init_rwsem(&ep->sem);
	spin_lock_init(&ep->ops_lock);
	INIT_LIST_HEAD(&ep->ops);
}

/* After the close, kfabric guarantees, the device no longer uses the buffers. */
static void kfd_ep_free(struct kfd_obj *obj)
{
	kfd_ep_release_ops(container_of(obj, struct kfd_ep, obj));
}

static void kfd_mr_free(struct kfd_obj *obj)
{
	kfd_mr_release_bufs(container_of(obj, struct kfd_mr, obj));
}

static void kfd_poll_init(struct kfd_obj *obj)
{
	struct kfd_poll *poll = container_of(obj, struct kfd_poll, obj);

	xa_init_flags(&poll->members, XA_FLAGS_ACCOUNT);
}

static void kfd_poll_free(struct kfd_obj *obj)
{
	struct kfd_poll *poll = container_of(obj, struct kfd_poll, obj);

	xa_destroy(&poll->members);
	kfree(poll->pending);
}

/* An unanswered request: the provider rejects it. */
static int kfd_connreq_close(struct kfd_obj *obj)
{
	struct kfd_connreq *req = container_of(obj, struct kfd_connreq, obj);

	return req->info->handle ? kfi_close(req->info->handle) : 0;
}

static void kfd_connreq_free(struct kfd_obj *obj)
{
	struct kfd_connreq *req = container_of(obj, struct kfd_connreq, obj);

	kfi_freeinfo(req->info);
	if (req->fabric)
		kfd_unhold(req->fabric);
}

static int kfd_buf_close(struct kfd_obj *obj)
{
	return 0;
}

static void kfd_cq_free(struct kfd_obj *obj)
{
	kfd_ring_release(container_of(obj, struct kfd_cq, obj));
}

static void kfd_profile_obj_free(struct kfd_obj *obj)
{
	kfd_profile_free(container_of(obj, struct kfd_profile, obj));
}

const struct kfd_class kfd_classes[KFD_CLASS_MAX] = {
	[KFI_CLASS_CONNREQ] = {
		.size = sizeof(struct kfd_connreq), .rank = 0,
		.close = kfd_connreq_close, .free = kfd_connreq_free,
	},
	[KFI_CLASS_PROFILE] = {
		.size = sizeof(struct kfd_profile), .rank = 0,
		.free = kfd_profile_obj_free,
	},
	[KFI_CLASS_EP] = {
		.size = sizeof(struct kfd_ep), .rank = 1,
		.init = kfd_ep_init, .free = kfd_ep_free,
	},
	[KFI_CLASS_PEP] = {
		.size = sizeof(struct kfd_ep), .rank = 1,
		.init = kfd_ep_init, .free = kfd_ep_free,
	},
	[KFI_CLASS_TX_CTX] = {
		.size = sizeof(struct kfd_ep), .rank = 1,
		.init = kfd_ep_init, .free = kfd_ep_free,
	},
	[KFI_CLASS_RX_CTX] = {
		.size = sizeof(struct kfd_ep), .rank = 1,
		.init = kfd_ep_init, .free = kfd_ep_free,
	},
	[KFI_CLASS_SEP] = {
		.size = sizeof(struct kfd_ep), .rank = 2,
		.init = kfd_ep_init, .free = kfd_ep_free,
	},
	[KFI_CLASS_MR] = {
		.size = sizeof(struct kfd_mr), .rank = 2, .free = kfd_mr_free,
	},
	[KFI_CLASS_AV] = { .size = sizeof(struct kfd_obj), .rank = 3 },
	[KFI_CLASS_POLL] = {
		.size = sizeof(struct kfd_poll), .rank = 2,
		.init = kfd_poll_init, .free = kfd_poll_free,
	},
	[KFI_CLASS_CQ] = {
		.size = sizeof(struct kfd_cq), .rank = 3,
		.close = kfd_cq_close, .free = kfd_cq_free,
	},
	[KFI_CLASS_CNTR] = { .size = sizeof(struct kfd_obj), .rank = 3 },
	[KFI_CLASS_EQ] = { .size = sizeof(struct kfd_eq), .rank = 3 },
	[KFI_CLASS_WAIT] = { .size = sizeof(struct kfd_obj), .rank = 4 },
	[KFI_CLASS_COMP_CHANNEL] = {
		.size = sizeof(struct kfd_channel), .rank = 4,
		.ends_calls = true, .free = kfd_channel_free,
	},
	[KFD_CLASS_BUF] = {
		.size = sizeof(struct kfd_buf), .rank = 5, .close = kfd_buf_close,
	},
	[KFI_CLASS_DOMAIN] = { .size = sizeof(struct kfd_obj), .rank = 6 },
	[KFI_CLASS_FABRIC] = { .size = sizeof(struct kfd_obj), .rank = 7 },
};
