// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Endpoints: a posted operation stays pending until a command completes it.
 */
#include <linux/slab.h>

#include "mock.h"
#include <kfi_enosys.h>

const char * const kfm_kind_name[KFM_KINDS] = {
	[KFM_SEND] = "send",
	[KFM_RECV] = "recv",
	[KFM_READ] = "read",
	[KFM_WRITE] = "write",
	[KFM_REMOTE_READ] = "remote_read",
	[KFM_REMOTE_WRITE] = "remote_write",
};

const u64 kfm_kind_flags[KFM_KINDS] = {
	[KFM_SEND] = KFI_MSG | KFI_SEND,
	[KFM_RECV] = KFI_MSG | KFI_RECV,
	[KFM_READ] = KFI_RMA | KFI_READ,
	[KFM_WRITE] = KFI_RMA | KFI_WRITE,
	[KFM_REMOTE_READ] = KFI_RMA | KFI_REMOTE_READ,
	[KFM_REMOTE_WRITE] = KFI_RMA | KFI_REMOTE_WRITE,
};

/**
 * kfm_ops_free() - free a list of operations
 * @ops: the list; empty on return
 *
 * Context: Any. The caller owns the list.
 */
void kfm_ops_free(struct list_head *ops)
{
	struct kfm_op *op, *next;

	list_for_each_entry_safe(op, next, ops, link)
		kfree(op);
	INIT_LIST_HEAD(ops);
}

/**
 * kfm_ep_get() - find an endpoint and take a reference
 * @id: its id
 *
 * Context: Process context. May sleep.
 * Return: the endpoint, or NULL if no open endpoint has that id.
 */
struct kfm_ep *kfm_ep_get(u32 id)
{
	struct kfm_ep *ep, *found = NULL;

	mutex_lock(&kfm_lock);
	list_for_each_entry(ep, &kfm_eps, link) {
		if (ep->base.id == id) {
			refcount_inc(&ep->users.count);
			found = ep;
			break;
		}
	}
	mutex_unlock(&kfm_lock);
	return found;
}

/**
 * kfm_ep_get_for_loss() - get the next endpoint to report a lost device to
 * @domain: the domain whose device is lost
 *
 * Each endpoint is returned once, with a reference.
 *
 * Context: Process context. May sleep.
 * Return: the endpoint, or NULL if none is left.
 */
struct kfm_ep *kfm_ep_get_for_loss(struct kfm_domain *domain)
{
	struct kfm_ep *ep, *found = NULL;

	mutex_lock(&kfm_lock);
	list_for_each_entry(ep, &kfm_eps, link) {
		if (ep->base.domain == &domain->base && !ep->loss_reported) {
			refcount_inc(&ep->users.count);
			ep->loss_reported = true;
			found = ep;
			break;
		}
	}
	mutex_unlock(&kfm_lock);
	return found;
}

/**
 * kfm_ep_put() - drop a reference to an endpoint
 * @ep: the endpoint
 *
 * Context: Any.
 */
void kfm_ep_put(struct kfm_ep *ep)
{
	kfm_users_put(&ep->users);
}

static bool kfm_ep_full(const struct kfm_ep *ep, enum kfm_kind kind)
{
	lockdep_assert_held(&ep->lock);
	if (kind == KFM_RECV)
		return ep->pending[KFM_RECV] >= ep->rx_size;
	return ep->pending[KFM_SEND] + ep->pending[KFM_READ] +
	       ep->pending[KFM_WRITE] >= ep->tx_size;
}

/**
 * kfm_ep_post() - add an operation to the pending ones
 * @ep: the endpoint
 * @kind: kind of the operation, less than KFM_POSTED
 * @op: the operation; on success it belongs to the endpoint
 *
 * A receive completes at once if an unexpected message matches it.
 *
 * Context: Any. The caller does not hold @ep->lock.
 * Return: 0, -KFI_EOPBADSTATE if the endpoint is not enabled, -ENODEV if the
 *	device is lost, -EAGAIN if the queue is full.
 */
ssize_t kfm_ep_post(struct kfm_ep *ep, enum kfm_kind kind, struct kfm_op *op)
{
	struct kfm_op *msg = NULL;
	unsigned long irq;
	ssize_t err = 0;

	if (!ep->base.enabled)
		return -KFI_EOPBADSTATE;

	spin_lock_irqsave(&ep->lock, irq);
	if (READ_ONCE(ep->base.domain->lost)) {
		err = -ENODEV;
	} else if (kfm_ep_full(ep, kind)) {
		err = -EAGAIN;
	} else {
		if (kind == KFM_RECV)
			msg = kfm_unexp_take(ep);
		if (!msg) {
			list_add_tail(&op->link, &ep->posted[kind]);
			ep->pending[kind]++;
		}
	}
	spin_unlock_irqrestore(&ep->lock, irq);
	if (msg)
		kfm_unexp_match(ep, op, msg);
	return err;
}

/**
 * kfm_ep_take() - remove the oldest pending operations
 * @ep: the endpoint
 * @kind: kind of the operations, less than KFM_POSTED
 * @count: number of operations
 * @ops: list that they are moved to
 *
 * Context: Any. The caller does not hold @ep->lock.
 * Return: 0, or -ENODATA if fewer are pending; then none is moved.
 */
int kfm_ep_take(struct kfm_ep *ep, enum kfm_kind kind, size_t count,
		struct list_head *ops)
{
	unsigned long irq;
	int err = 0;
	size_t i;

	spin_lock_irqsave(&ep->lock, irq);
	if (ep->pending[kind] < count) {
		err = -ENODATA;
	} else {
		for (i = 0; i < count; i++)
			list_move_tail(ep->posted[kind].next, ops);
		ep->pending[kind] -= count;
	}
	spin_unlock_irqrestore(&ep->lock, irq);
	return err;
}

/**
 * kfm_ep_drop_all() - free all pending operations and unexpected messages
 * @ep: an endpoint that closes, or whose device is lost
 *
 * Context: Any. The caller does not hold @ep->lock.
 */
void kfm_ep_drop_all(struct kfm_ep *ep)
{
	LIST_HEAD(ops);
	unsigned long irq;
	int kind;

	spin_lock_irqsave(&ep->lock, irq);
	for (kind = 0; kind < KFM_POSTED; kind++) {
		list_splice_tail_init(&ep->posted[kind], &ops);
		ep->pending[kind] = 0;
	}
	list_splice_tail_init(&ep->unexp, &ops);
	ep->nunexp = 0;
	spin_unlock_irqrestore(&ep->lock, irq);
	kfm_ops_free(&ops);
}

static struct kfm_op *kfm_ep_find_recv(struct kfm_ep *ep, void *context)
{
	struct kfm_op *op, *found = NULL;
	unsigned long irq;

	spin_lock_irqsave(&ep->lock, irq);
	list_for_each_entry(op, &ep->posted[KFM_RECV], link) {
		if (op->comp.context == context) {
			list_del(&op->link);
			ep->pending[KFM_RECV]--;
			found = op;
			break;
		}
	}
	spin_unlock_irqrestore(&ep->lock, irq);
	return found;
}

static ssize_t kfm_ep_cancel(struct kfid *fid, void *context)
{
	struct kfm_ep *ep = container_of(fid, struct kfm_ep, base.ep.fid);
	struct kfm_op *op = kfm_ep_find_recv(ep, context);

	if (!op)
		return -ENOENT;
	op->comp.err = ECANCELED;
	op->comp.len = 0;
	/* A reader of the entry may close the endpoint before it is counted. */
	refcount_inc(&ep->users.count);
	kfi_ep_complete(&ep->base, &op->comp, true);
	kfm_ep_put(ep);
	kfree(op);
	return 0;
}

static int kfm_ep_bind(struct kfid *fid, struct kfid *bfid, u64 flags)
{
	struct kfm_ep *ep = container_of(fid, struct kfm_ep, base.ep.fid);

	return kfi_ep_base_bind(&ep->base, bfid, flags);
}

static int kfm_ep_control(struct kfid *fid, int command, void *arg)
{
	struct kfm_ep *ep = container_of(fid, struct kfm_ep, base.ep.fid);

	if (command != KFI_ENABLE)
		return -KFI_ENOSYS;
	return kfi_ep_base_enable(&ep->base);
}

static int kfm_ep_command(const char *line)
{
	return kfm_command(line, strlen(line));
}

static struct kfi_mock_ops kfm_mock_ops = {
	.size = sizeof(struct kfi_mock_ops),
	.command = kfm_ep_command,
};

static int kfm_ep_ops_open(struct kfid *fid, const char *name, u64 flags,
			   void **ops, void *context)
{
	if (!name || strcmp(name, KFI_MOCK_OPS) || flags || !ops)
		return -EINVAL;
	*ops = &kfm_mock_ops;
	return 0;
}

/*
 * First the endpoint leaves the list, so that no command finds it. Then its
 * reports end. Only then may the bindings go.
 */
static int kfm_ep_close(struct kfid *fid)
{
	struct kfm_ep *ep = container_of(fid, struct kfm_ep, base.ep.fid);
	int err;

	mutex_lock(&kfm_lock);
	err = kfi_fid_kill(fid);
	if (!err)
		list_del(&ep->link);
	mutex_unlock(&kfm_lock);
	if (err)
		return err;

	kfm_progress_flush(ep->base.domain);
	kfm_users_drain(&ep->users);
	kfm_ep_drop_all(ep);
	kfi_ep_base_fini(&ep->base);
	kfree(ep);
	return 0;
}

static struct kfi_ops kfm_ep_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = kfm_ep_close,
	.bind = kfm_ep_bind,
	.control = kfm_ep_control,
	.ops_open = kfm_ep_ops_open,
};

static struct kfi_ops_ep kfm_ep_ops = {
	.size = sizeof(struct kfi_ops_ep),
	.cancel = kfm_ep_cancel,
	.getopt = kfi_no_getopt,
	.setopt = kfi_no_setopt,
	.tx_ctx = kfi_no_tx_ctx,
	.rx_ctx = kfi_no_rx_ctx,
};

static struct kfi_ops_cm kfm_cm_ops = {
	.size = sizeof(struct kfi_ops_cm),
	.setname = kfi_no_setname,
	.getname = kfi_no_getname,
	.getpeer = kfi_no_getpeer,
	.connect = kfi_no_connect,
	.listen = kfi_no_listen,
	.accept = kfi_no_accept,
	.reject = kfi_no_reject,
	.shutdown = kfi_no_shutdown,
	.join = kfi_no_join,
};

static void kfm_ep_attr(struct kfm_ep *ep, const struct kfi_info *info)
{
	const struct kfi_tx_attr *tx = info->tx_attr;
	const struct kfi_rx_attr *rx = info->rx_attr;

	ep->tx_flags = tx ? tx->op_flags : 0;
	ep->rx_flags = rx ? rx->op_flags : 0;
	ep->tx_size = tx && tx->size ? tx->size : KFM_QUEUE_SIZE;
	ep->rx_size = rx && rx->size ? rx->size : KFM_QUEUE_SIZE;
}

static struct kfm_ep *kfm_ep_alloc(const struct kfi_info *info)
{
	struct kfm_ep *ep = kzalloc(sizeof(*ep), GFP_KERNEL_ACCOUNT);
	int kind;

	if (!ep)
		return NULL;
	spin_lock_init(&ep->lock);
	for (kind = 0; kind < KFM_POSTED; kind++)
		INIT_LIST_HEAD(&ep->posted[kind]);
	INIT_LIST_HEAD(&ep->unexp);
	kfm_users_init(&ep->users);
	kfm_ep_attr(ep, info);
	return ep;
}

/**
 * kfm_ep_open() - kfi_ops_domain.endpoint
 * @domain: the domain
 * @info: the endpoint's attributes
 * @ret: where the endpoint is stored
 * @context: the ULP's
 *
 * Context: Process context. May sleep.
 * Return: 0, -EINVAL, -ENODEV if the device is lost, -KFI_ENOSYS for a type
 *	other than KFI_EP_MSG, -ENOMEM, or an error of kfi_ep_base_init().
 */
int kfm_ep_open(struct kfid_domain *domain, struct kfi_info *info,
		struct kfid_ep **ret, void *context)
{
	struct kfm_ep *ep;
	int err;

	if (!info || !ret || info->handle)
		return -EINVAL;
	if (READ_ONCE(container_of(domain, struct kfi_domain_base,
				   domain)->lost))
		return -ENODEV;
	if (info->ep_attr && info->ep_attr->type != KFI_EP_UNSPEC &&
	    info->ep_attr->type != KFI_EP_MSG)
		return -KFI_ENOSYS;
	if ((info->tx_attr && info->tx_attr->size > KFM_QUEUE_SIZE) ||
	    (info->rx_attr && info->rx_attr->size > KFM_QUEUE_SIZE))
		return -EINVAL;

	ep = kfm_ep_alloc(info);
	if (!ep)
		return -ENOMEM;
	err = kfi_ep_base_init(&ep->base, domain, KFI_CLASS_EP, &kfm_ep_fid_ops,
			       context);
	if (err) {
		kfree(ep);
		return err;
	}
	kfi_ep_base_profile(&ep->base, &kfm_profile_ops, &ep->lock);
	ep->base.ep.ops = &kfm_ep_ops;
	ep->base.ep.cm = &kfm_cm_ops;
	ep->base.ep.msg = &kfm_msg_ops;
	ep->base.ep.rma = &kfm_rma_ops;

	mutex_lock(&kfm_lock);
	list_add_tail(&ep->link, &kfm_eps);
	mutex_unlock(&kfm_lock);
	*ret = &ep->base.ep;
	return 0;
}
