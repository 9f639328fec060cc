// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * /dev/kfabric: the device, the table of its ioctls, and the checks that all of them
 * share. uapi/linux/kfabric.h describes the structures.
 */
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/sched/signal.h>

#include "kfd.h"

/* Room for the largest structure; checked for each of them below. */
#define KFD_ARG_MAX 128

/* How long a process waits for the end of a client that another one has opened. */
#define KFD_STRANGER_TIME HZ

/**
 * struct kfd_ioctl - one ioctl
 * @fn: handler: returns 0 or a count, or a negative errno
 * @size: of the structure as this module knows it
 * @min_size: of its first version
 * @flags: known bits of its flags field
 * @reserved: offset of its __reserved field, 0 without one
 * @out: the structure has fields that are written
 * @blocks: may sleep until something happens; a close of the objects is then refused
 * @part: the part of a batch that it may be
 */
struct kfd_ioctl {
	long (*fn)(struct kfd_call *call);
	u16 size;
	u16 min_size;
	u32 flags;
	u16 reserved;
	bool out;
	bool blocks;
	enum kfd_part part;
};

#define OP(_cmd, _fn, _type, _last, ...)				\
	[_IOC_NR(_cmd)] = {						\
		.fn = (_fn),						\
		.size = sizeof(struct _type) +				\
			BUILD_BUG_ON_ZERO(sizeof(struct _type) > KFD_ARG_MAX) + \
			BUILD_BUG_ON_ZERO(sizeof(struct _type) % 8),	\
		.min_size = offsetofend(struct _type, _last),		\
		__VA_ARGS__						\
	}
#define OUT .out = true
#define BLOCKS .blocks = true
#define POSTS .part = KFD_PART_POST
#define READS .part = KFD_PART_READ
#define FLAGS(_flags) .flags = (_flags)
#define RESERVED(_type) .reserved = offsetof(struct _type, __reserved)

static const struct kfd_ioctl kfd_ioctls[] = {
	OP(KFAB_IOC_VERSION, kfd_version, kfab_version, out_bytes, OUT),
	OP(KFAB_IOC_GETINFO, kfd_getinfo, kfab_getinfo, __reserved, OUT,
	   RESERVED(kfab_getinfo)),
	OP(KFAB_IOC_CLOSE, kfd_close, kfab_close, __reserved,
	   RESERVED(kfab_close), FLAGS(KFAB_CLOSE_DISCARD_EVENTS)),
	OP(KFAB_IOC_BIND, kfd_bind, kfab_bind, bind_flags),
	OP(KFAB_IOC_CONTROL, kfd_control, kfab_control, value, OUT),
	OP(KFAB_IOC_STRERROR, kfd_strerror, kfab_strerror, __reserved,
	   RESERVED(kfab_strerror)),

	OP(KFAB_IOC_GETOPT, kfd_getopt, kfab_opt, value, OUT,
	   RESERVED(kfab_opt)),
	OP(KFAB_IOC_SETOPT, kfd_setopt, kfab_opt, value, RESERVED(kfab_opt)),

	OP(KFAB_IOC_FABRIC_OPEN, kfd_fabric_open, kfab_fabric_open, out_id, OUT),
	OP(KFAB_IOC_DOMAIN_OPEN, kfd_domain_open, kfab_domain_open, out_id, OUT,
	   RESERVED(kfab_domain_open)),
	OP(KFAB_IOC_EQ_OPEN, kfd_eq_open, kfab_eq_open, out_id, OUT,
	   RESERVED(kfab_eq_open)),
	OP(KFAB_IOC_WAIT_OPEN, kfd_wait_open, kfab_wait_open, out_id, OUT),
	OP(KFAB_IOC_CQ_OPEN, kfd_cq_open, kfab_cq_open, out_id, OUT),
	OP(KFAB_IOC_CNTR_OPEN, kfd_cntr_open, kfab_cntr_open, out_id, OUT),
	OP(KFAB_IOC_POLL_OPEN, kfd_poll_open, kfab_poll_open, out_id, OUT,
	   RESERVED(kfab_poll_open)),
	OP(KFAB_IOC_PEP_OPEN, kfd_pep_open, kfab_pep_open, out_id, OUT,
	   RESERVED(kfab_pep_open)),
	OP(KFAB_IOC_EP_OPEN, kfd_ep_open, kfab_ep_open, out_id, OUT),
	OP(KFAB_IOC_BUF_ALLOC, kfd_buf_alloc, kfab_buf_alloc, __reserved, OUT,
	   RESERVED(kfab_buf_alloc)),
	OP(KFAB_IOC_MR_REG, kfd_mr_reg, kfab_mr_reg, out_id, OUT),

	OP(KFAB_IOC_LISTEN, kfd_listen, kfab_listen, __reserved,
	   RESERVED(kfab_listen)),
	OP(KFAB_IOC_CONNECT, kfd_connect, kfab_connect, __reserved,
	   RESERVED(kfab_connect)),
	OP(KFAB_IOC_ACCEPT, kfd_accept, kfab_connect, __reserved,
	   RESERVED(kfab_connect)),
	OP(KFAB_IOC_REJECT, kfd_reject, kfab_reject, __reserved,
	   RESERVED(kfab_reject)),
	OP(KFAB_IOC_SHUTDOWN, kfd_shutdown, kfab_shutdown, how,
	   RESERVED(kfab_shutdown)),
	OP(KFAB_IOC_GETNAME, kfd_getname, kfab_name, addr, OUT),
	OP(KFAB_IOC_GETPEER, kfd_getpeer, kfab_name, addr, OUT),

	OP(KFAB_IOC_RECV, kfd_recv, kfab_msg, iov, POSTS),
	OP(KFAB_IOC_SEND, kfd_send, kfab_msg, iov, POSTS, FLAGS(KFAB_POST_INJECT)),
	OP(KFAB_IOC_TRECV, kfd_trecv, kfab_tmsg, ignore, POSTS),
	OP(KFAB_IOC_TSEND, kfd_tsend, kfab_tmsg, ignore, POSTS,
	   FLAGS(KFAB_POST_INJECT)),
	OP(KFAB_IOC_READ, kfd_read, kfab_rma, __reserved, POSTS, RESERVED(kfab_rma)),
	OP(KFAB_IOC_WRITE, kfd_write, kfab_rma, __reserved, POSTS, RESERVED(kfab_rma),
	   FLAGS(KFAB_POST_INJECT)),

	OP(KFAB_IOC_ATOMIC, kfd_atomic, kfab_atomic, __reserved, POSTS,
	   RESERVED(kfab_atomic), FLAGS(KFAB_POST_INJECT)),
	OP(KFAB_IOC_FETCH_ATOMIC, kfd_fetch_atomic, kfab_atomic, __reserved, POSTS,
	   RESERVED(kfab_atomic)),
	OP(KFAB_IOC_COMPARE_ATOMIC, kfd_compare_atomic, kfab_atomic, __reserved, POSTS,
	   RESERVED(kfab_atomic)),
	OP(KFAB_IOC_ATOMIC_VALID, kfd_atomic_valid, kfab_atomic_valid,
	   out_count, OUT),

	OP(KFAB_IOC_CQ_READ, kfd_cq_read, kfab_cq_read, deadline, READS,
	   FLAGS(KFAB_CQ_SRC_ADDR | KFAB_CQ_REPORT_EMPTY)),
	OP(KFAB_IOC_CQ_SREAD, kfd_cq_sread, kfab_cq_read, deadline, BLOCKS,
	   FLAGS(KFAB_CQ_SRC_ADDR)),
	OP(KFAB_IOC_CQ_READERR, kfd_cq_readerr, kfab_cq_readerr, __reserved, READS,
	   OUT, RESERVED(kfab_cq_readerr)),
	OP(KFAB_IOC_CQ_SIGNAL, kfd_cq_signal, kfab_cq_signal, __reserved,
	   RESERVED(kfab_cq_signal)),

	OP(KFAB_IOC_EQ_READ, kfd_eq_read, kfab_eq_read, __reserved, READS, OUT,
	   RESERVED(kfab_eq_read)),
	OP(KFAB_IOC_EQ_SREAD, kfd_eq_sread, kfab_eq_read, __reserved, OUT, BLOCKS,
	   RESERVED(kfab_eq_read)),
	OP(KFAB_IOC_EQ_READERR, kfd_eq_readerr, kfab_eq_readerr, __reserved, READS,
	   OUT, RESERVED(kfab_eq_readerr)),
	OP(KFAB_IOC_EQ_WRITE, kfd_eq_write, kfab_eq_write, data,
	   RESERVED(kfab_eq_write)),

	OP(KFAB_IOC_CNTR_READ, kfd_cntr_read, kfab_cntr, value, READS, OUT,
	   RESERVED(kfab_cntr)),
	OP(KFAB_IOC_CNTR_READERR, kfd_cntr_readerr, kfab_cntr, value, READS, OUT,
	   RESERVED(kfab_cntr)),
	OP(KFAB_IOC_CNTR_ADD, kfd_cntr_add, kfab_cntr, value,
	   RESERVED(kfab_cntr)),
	OP(KFAB_IOC_CNTR_SET, kfd_cntr_set, kfab_cntr, value,
	   RESERVED(kfab_cntr)),
	OP(KFAB_IOC_CNTR_ADDERR, kfd_cntr_adderr, kfab_cntr, value,
	   RESERVED(kfab_cntr)),
	OP(KFAB_IOC_CNTR_SETERR, kfd_cntr_seterr, kfab_cntr, value,
	   RESERVED(kfab_cntr)),
	OP(KFAB_IOC_CNTR_WAIT, kfd_cntr_wait, kfab_cntr_wait, error_changes, BLOCKS,
	   RESERVED(kfab_cntr_wait)),

	OP(KFAB_IOC_WAIT, kfd_wait, kfab_wait, deadline, BLOCKS,
	   RESERVED(kfab_wait)),
	OP(KFAB_IOC_POLL_ADD, kfd_poll_add, kfab_poll_member, poll_flags),
	OP(KFAB_IOC_POLL_DEL, kfd_poll_del, kfab_poll_member, poll_flags),
	OP(KFAB_IOC_POLL, kfd_poll, kfab_poll, entries),
	OP(KFAB_IOC_TRYWAIT, kfd_trywait, kfab_trywait, handles),
	OP(KFAB_IOC_POLLFD, kfd_pollfd, kfab_pollfd, __reserved, OUT,
	   RESERVED(kfab_pollfd)),

	OP(KFAB_IOC_AV_OPEN, kfd_av_open, kfab_av_open, out_id, OUT,
	   RESERVED(kfab_av_open)),
	OP(KFAB_IOC_AV_INSERT, kfd_av_insert, kfab_av_insert, insert_flags,
	   RESERVED(kfab_av_insert)),
	OP(KFAB_IOC_AV_INSERTSVC, kfd_av_insertsvc, kfab_av_insertsvc, out_addr,
	   OUT, RESERVED(kfab_av_insertsvc)),
	OP(KFAB_IOC_AV_REMOVE, kfd_av_remove, kfab_av_remove, remove_flags),
	OP(KFAB_IOC_AV_LOOKUP, kfd_av_lookup, kfab_av_lookup, addr, OUT),
	OP(KFAB_IOC_AV_STRADDR, kfd_av_straddr, kfab_av_straddr, __reserved,
	   RESERVED(kfab_av_straddr)),
	OP(KFAB_IOC_SEP_OPEN, kfd_sep_open, kfab_sep_open, out_id, OUT,
	   RESERVED(kfab_sep_open)),
	OP(KFAB_IOC_TX_CTX_OPEN, kfd_tx_ctx_open, kfab_ctx_open, out_id, OUT),
	OP(KFAB_IOC_RX_CTX_OPEN, kfd_rx_ctx_open, kfab_ctx_open, out_id, OUT),
	OP(KFAB_IOC_CANCEL, kfd_cancel, kfab_cancel, context,
	   RESERVED(kfab_cancel)),

	OP(KFAB_IOC_CHANNEL_OPEN, kfd_channel_open, kfab_channel_open, out_id,
	   OUT, RESERVED(kfab_channel_open)),
	OP(KFAB_IOC_CHANNEL_BIND, kfd_channel_bind, kfab_channel_bind, channel),
	OP(KFAB_IOC_REQ_NOTIFY, kfd_req_notify, kfab_req_notify, __reserved,
	   RESERVED(kfab_req_notify),
	   FLAGS(KFAB_NOTIFY_SOLICITED | KFAB_NOTIFY_NEXT | KFAB_NOTIFY_MISSED)),
	OP(KFAB_IOC_GET_CQ_EVENT, kfd_get_cq_event, kfab_cq_event, out_context,
	   OUT, BLOCKS, FLAGS(KFAB_EVENT_ACK | KFAB_EVENT_NOTIFY)),
	OP(KFAB_IOC_ACK_CQ_EVENTS, kfd_ack_cq_events, kfab_ack_cq_events, count),

	OP(KFAB_IOC_PROFILE_OPEN, kfd_profile_open, kfab_profile_open, __reserved,
	   OUT, RESERVED(kfab_profile_open)),
	OP(KFAB_IOC_PROFILE_QUERY, kfd_profile_query, kfab_profile_query, count,
	   OUT),
	OP(KFAB_IOC_PROFILE_READ, kfd_profile_read, kfab_profile_read, __reserved,
	   OUT, RESERVED(kfab_profile_read)),
	OP(KFAB_IOC_PROFILE_CONTROL, kfd_profile_control, kfab_profile_control,
	   __reserved, RESERVED(kfab_profile_control)),
	OP(KFAB_IOC_PROFILE_EVENTS, kfd_profile_events, kfab_profile_events,
	   out_dropped, OUT, BLOCKS),

	OP(KFAB_IOC_BATCH, kfd_batch, kfab_batch, out_wait_err, OUT, BLOCKS),
	OP(KFAB_IOC_CQ_RING, kfd_cq_ring, kfab_cq_ring, __reserved, OUT,
	   RESERVED(kfab_cq_ring)),
};

/* Every structure begins with these fields. */
struct kfd_head {
	u32 size;
	u32 flags;
};

static const struct kfd_ioctl *kfd_ioctl_find(unsigned int cmd)
{
	unsigned int nr = _IOC_NR(cmd);

	/* The size in the number is that of the caller's version, so it is ignored. */
	if (_IOC_TYPE(cmd) != KFAB_IOC_MAGIC ||
	    _IOC_DIR(cmd) != (_IOC_READ | _IOC_WRITE) ||
	    nr >= ARRAY_SIZE(kfd_ioctls))
		return NULL;
	nr = array_index_nospec(nr, ARRAY_SIZE(kfd_ioctls));
	return kfd_ioctls[nr].fn ? &kfd_ioctls[nr] : NULL;
}

/* Copy the structure in, and make the checks that every ioctl makes. */
static int kfd_call_begin(struct kfd_call *call)
{
	const struct kfd_ioctl *op = call->op;
	const struct kfd_head *head = call->arg;
	int ret;

	if (get_user(call->usize, (u32 __user *)call->uarg))
		return -EFAULT;
	if (call->usize < op->min_size)
		return -EINVAL;
	if (call->usize > PAGE_SIZE)
		return -E2BIG;
	ret = copy_struct_from_user(call->arg, op->size, call->uarg, call->usize);
	if (ret)
		return ret;
	if (head->flags & ~op->flags)
		return -EINVAL;
	if (op->reserved && *(u32 *)(call->arg + op->reserved))
		return -EINVAL;
	return 0;
}

/**
 * kfd_answer() - write the answer, as much of it as the caller's structure has
 * @call: the call in progress
 *
 * After a successful call the answer is written if that was not done before. A call
 * that consumes something, or cannot be undone, writes its answer first.
 *
 * Context: Process, may sleep and fault.
 * Return: 0 or -EFAULT.
 */
int kfd_answer(struct kfd_call *call)
{
	const size_t skip = sizeof(struct kfd_head);
	size_t len = min_t(size_t, call->usize, call->op->size) - skip;

	/* size and flags are input only. */
	if (copy_to_user(call->uarg + skip, call->arg + skip, len))
		return -EFAULT;
	call->answered = true;
	return 0;
}

/* Make the object that the call opened visible, or undo it; release references. */
static void kfd_call_end(struct kfd_call *call, long ret)
{
	if (call->fresh) {
		if (ret < 0)
			kfd_obj_abort(call->fresh);
		else
			kfd_obj_finalize(call->fresh);
	}
	kfd_unpin_all(call);
}

/* Make a call with the checks, the answer and the references of an ioctl. */
static long kfd_call_run(struct kfd_call *call)
{
	long ret;

	call->blocks = call->op->blocks;
	ret = kfd_call_begin(call);
	if (ret)
		return ret;
	ret = call->op->fn(call);
	if (ret >= 0 && call->op->out && !call->answered && kfd_answer(call))
		ret = -EFAULT;
	kfd_call_end(call, ret);
	return ret;
}

/**
 * kfd_call_part() - make a call that is a part of a batch
 * @client: the client
 * @part: the part of the batch
 * @cmd: number of the ioctl
 * @uarg: address of its structure
 *
 * Context: As that of the ioctl. The caller may use a wait set, and has no other
 * reference on an object and no lock.
 * Return: as the ioctl, before errnos are translated; -EINVAL for an ioctl that is not
 * of this part.
 */
long kfd_call_part(struct kfd_client *client, enum kfd_part part, u32 cmd, u64 uarg)
{
	u64 arg[KFD_ARG_MAX / sizeof(u64)] = {};
	struct kfd_call call = {
		.client = client,
		.op = kfd_ioctl_find(cmd),
		.uarg = u64_to_user_ptr(uarg),
		.arg = arg,
	};

	if (!call.op || call.op->part != part)
		return -EINVAL;
	return kfd_call_run(&call);
}

/* Translate errnos that differ between the kernel's interface and the user's. */
static long kfd_user_ret(long ret)
{
	if (ret == -EINTR)
		return -ERESTARTSYS;
	return ret < 0 ? -kfi_errno_to_user(-ret) : ret;
}

static long kfd_unlocked_ioctl(struct file *filp, unsigned int cmd,
			       unsigned long uarg)
{
	u64 arg[KFD_ARG_MAX / sizeof(u64)] = {};
	struct kfd_call call = {
		.client = filp->private_data,
		.op = kfd_ioctl_find(cmd),
		.uarg = (void __user *)uarg,
		.arg = arg,
	};

	if (!call.op)
		return -ENOTTY;
	return kfd_user_ret(kfd_rings_look(call.client) ?: kfd_call_run(&call));
}

static int kfd_open(struct inode *inode, struct file *filp)
{
	struct kfd_client *client = kfd_client_new();

	if (!client)
		return -ENOMEM;
	filp->private_data = client;
	return nonseekable_open(inode, filp);
}

static struct workqueue_struct *kfd_wq;

static void kfd_client_work(struct work_struct *work)
{
	kfd_client_free(container_of(work, struct kfd_client, work));
	module_put(THIS_MODULE);
}

/* The file's reference on this module ends with its release: the work item has its own. */
static void kfd_client_free_elsewhere(struct kfd_client *client)
{
	/* The work item may free the user. */
	bool wait = !(current->flags & PF_KTHREAD) &&
		    kfd_user_is_current(client->user);

	__module_get(THIS_MODULE);
	refcount_inc(&client->refs);
	INIT_WORK(&client->work, kfd_client_work);
	queue_work(kfd_wq, &client->work);
	if (wait)
		wait_for_completion_killable_timeout(&client->closed,
						     KFD_STRANGER_TIME);
	kfd_client_put(client);
}

/*
 * Calls and mappings hold the file, so none of them is left. The process that opened the
 * file waits for the end of its objects. Another process may have got the last reference
 * through a socket, or the kernel drops it for nobody: the objects may be many, and their
 * device slow, so neither waits for all of them. A process of another user, which may drop
 * many files that it was sent, does not wait at all.
 */
static int kfd_release(struct inode *inode, struct file *filp)
{
	struct kfd_client *client = filp->private_data;

	if (task_tgid(current) == client->opener)
		kfd_client_free(client);
	else
		kfd_client_free_elsewhere(client);
	return 0;
}

static const struct file_operations kfd_fops = {
	.owner = THIS_MODULE,
	.open = kfd_open,
	.release = kfd_release,
	.unlocked_ioctl = kfd_unlocked_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = kfd_mmap,
};

static struct miscdevice kfd_misc = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "kfabric",
	.mode = 0600,
	.fops = &kfd_fops,
};

static int __init kfd_init(void)
{
	int ret;

	kfd_wq = alloc_workqueue(KBUILD_MODNAME, WQ_UNBOUND, 0);
	if (!kfd_wq)
		return -ENOMEM;
	ret = misc_register(&kfd_misc);
	if (ret)
		destroy_workqueue(kfd_wq);
	return ret;
}

/*
 * Each open file and each queued work item holds a reference on this module, so that
 * none is left here. But a work function may be between its module_put() and its
 * return: destroy_workqueue() waits for that.
 */
static void __exit kfd_exit(void)
{
	misc_deregister(&kfd_misc);
	destroy_workqueue(kfd_wq);
}

module_init(kfd_init);
module_exit(kfd_exit);

module_param_named(max_objects, kfd_max_objects, uint, 0644);
MODULE_PARM_DESC(max_objects, "handles that one client may have");
module_param_named(max_user_objects, kfd_max_user_objects, uint, 0644);
MODULE_PARM_DESC(max_user_objects, "handles that all clients of one user may have");
module_param_named(max_user_listeners, kfd_max_user_listeners, uint, 0644);
MODULE_PARM_DESC(max_user_listeners, "passive endpoints that all clients of one user may have");
module_param_named(max_bytes, kfd_max_bytes, ulong, 0644);
MODULE_PARM_DESC(max_bytes, "message buffer memory that one client may have");

MODULE_DESCRIPTION("kfabric for user space");
MODULE_LICENSE("Dual BSD/GPL");
