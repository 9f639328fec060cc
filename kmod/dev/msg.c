// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Posting messages, with and without a tag. struct kfab_tmsg begins with the fields
 * of struct kfab_msg (see abi.c), so both kinds of call share one path.
 */
#include "kfd.h"

/* Post while no other call can alter the endpoint. */
static long kfd_post(struct kfd_ep *ep, const struct kfd_vec *vec,
		     struct kfd_op *op, kfd_post_fn post, const void *arg)
{
	long ret;

	if (down_read_interruptible(&ep->sem))
		return -EINTR;
	if (op)
		kfd_op_begin(ep, op);
	ret = post(kfd_ep_of(&ep->obj), vec, op, arg);
	if (op && ret)
		kfd_op_end(ep, op);
	up_read(&ep->sem);
	return ret;
}

/* Post an operation that may use the buffers after it was posted. */
static long kfd_post_held(struct kfd_ep *ep, const struct kfd_vec *vec,
			  kfd_post_fn post, const struct kfab_msg *msg,
			  const void *arg)
{
	struct kfd_op *op = kfd_op_new(msg->context, vec->n);
	long ret;

	if (!op)
		return -ENOMEM;
	kfd_op_hold(op, vec);
	ret = kfd_post(ep, vec, op, post, arg);
	kfd_op_put(op);
	return ret;
}

/**
 * kfd_post_msg() - post what a struct kfab_msg, or one that begins so, describes
 * @call: the call in progress
 * @obj: the endpoint, pinned by the call
 * @hold: the operation may use the buffers after it was posted; false: the provider
 *	  promises to have read them when it returns
 * @post: posts it
 * @arg: for @post
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: what @post returned, -EBADF, -EFAULT, -EINVAL, -EINTR or -ENOMEM.
 */
long kfd_post_msg(struct kfd_call *call, struct kfd_obj *obj, bool hold,
		  kfd_post_fn post, const void *arg)
{
	const struct kfab_msg *msg = call->arg;
	struct kfd_vec vec;
	long ret;

	ret = kfd_vec_get(call->client, &vec, msg->iov, msg->iov_count);
	if (ret)
		return ret;
	if (hold)
		ret = kfd_post_held(kfd_ep_obj(obj), &vec, post, msg, arg);
	else
		ret = kfd_post(kfd_ep_obj(obj), &vec, NULL, post, arg);
	kfd_vec_put(&vec);
	return ret;
}

static struct kfi_msg kfd_msg_of(const struct kfab_msg *arg,
				 const struct kfd_vec *vec, void *context)
{
	return (struct kfi_msg) {
		.type = KFI_KVEC,
		.msg_iov = vec->kvec,
		.desc = vec->desc,
		.iov_count = vec->n,
		.addr = arg->addr,
		.context = context,
		.data = arg->data,
	};
}

static ssize_t kfd_post_recv(struct kfid_ep *ep, const struct kfd_vec *vec,
			     void *context, const void *p)
{
	const struct kfab_msg *arg = p;
	const struct kfi_msg msg = kfd_msg_of(arg, vec, context);

	if (!KFD_HAS(ep->msg, recvmsg))
		return -EOPNOTSUPP;
	return kfi_recvmsg(ep, &msg, arg->op_flags);
}

static ssize_t kfd_post_send(struct kfid_ep *ep, const struct kfd_vec *vec,
			     void *context, const void *p)
{
	const struct kfab_msg *arg = p;
	const struct kfi_msg msg = kfd_msg_of(arg, vec, context);

	if (!KFD_HAS(ep->msg, sendmsg))
		return -EOPNOTSUPP;
	return kfi_sendmsg(ep, &msg, arg->op_flags);
}

static ssize_t kfd_post_inject(struct kfid_ep *ep, const struct kfd_vec *vec,
			       void *context, const void *p)
{
	const struct kfab_msg *arg = p;
	const struct kvec piece = kfd_vec_first(vec);

	if (arg->op_flags & KFI_REMOTE_CQ_DATA) {
		if (!KFD_HAS(ep->msg, injectdata))
			return -EOPNOTSUPP;
		return kfi_injectdata(ep, piece.iov_base, piece.iov_len,
				      arg->data, arg->addr);
	}
	if (!KFD_HAS(ep->msg, inject))
		return -EOPNOTSUPP;
	return kfi_inject(ep, piece.iov_base, piece.iov_len, arg->addr);
}

static struct kfi_msg_tagged kfd_msg_tagged_of(const struct kfab_tmsg *arg,
					       const struct kfd_vec *vec,
					       void *context)
{
	return (struct kfi_msg_tagged) {
		.type = KFI_KVEC,
		.msg_iov = vec->kvec,
		.desc = vec->desc,
		.iov_count = vec->n,
		.addr = arg->addr,
		.tag = arg->tag,
		.ignore = arg->ignore,
		.context = context,
		.data = arg->data,
	};
}

static ssize_t kfd_post_trecv(struct kfid_ep *ep, const struct kfd_vec *vec,
			      void *context, const void *p)
{
	const struct kfab_tmsg *arg = p;
	const struct kfi_msg_tagged msg = kfd_msg_tagged_of(arg, vec, context);

	if (!KFD_HAS(ep->tagged, recvmsg))
		return -EOPNOTSUPP;
	return kfi_trecvmsg(ep, &msg, arg->op_flags);
}

static ssize_t kfd_post_tsend(struct kfid_ep *ep, const struct kfd_vec *vec,
			      void *context, const void *p)
{
	const struct kfab_tmsg *arg = p;
	const struct kfi_msg_tagged msg = kfd_msg_tagged_of(arg, vec, context);

	if (!KFD_HAS(ep->tagged, sendmsg))
		return -EOPNOTSUPP;
	return kfi_tsendmsg(ep, &msg, arg->op_flags);
}

static ssize_t kfd_post_tinject(struct kfid_ep *ep, const struct kfd_vec *vec,
				void *context, const void *p)
{
	const struct kfab_tmsg *arg = p;
	const struct kvec piece = kfd_vec_first(vec);

	if (arg->op_flags & KFI_REMOTE_CQ_DATA) {
		if (!KFD_HAS(ep->tagged, injectdata))
			return -EOPNOTSUPP;
		return kfi_tinjectdata(ep, piece.iov_base, piece.iov_len,
				       arg->data, arg->addr, arg->tag);
	}
	if (!KFD_HAS(ep->tagged, inject))
		return -EOPNOTSUPP;
	return kfi_tinject(ep, piece.iov_base, piece.iov_len, arg->addr, arg->tag);
}

static long kfd_msg(struct kfd_call *call, u32 classes, bool hold,
		    kfd_post_fn post)
{
	const struct kfab_msg *arg = call->arg;
	struct kfd_obj *obj = kfd_pin(call, arg->ep, classes);

	return IS_ERR(obj) ? PTR_ERR(obj) :
			     kfd_post_msg(call, obj, hold, post, arg);
}

static long kfd_msg_send(struct kfd_call *call, kfd_post_fn send,
			 kfd_post_fn inject)
{
	const struct kfab_msg *arg = call->arg;

	if (!(arg->flags & KFAB_POST_INJECT))
		return kfd_msg(call, KFD_SENDERS, true, send);
	if (!kfd_msg_injectable(arg))
		return -EINVAL;
	return kfd_msg(call, KFD_SENDERS, false, inject);
}

/**
 * kfd_recv() - KFAB_IOC_RECV
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_msg.
 */
long kfd_recv(struct kfd_call *call)
{
	return kfd_msg(call, KFD_RECEIVERS, true, kfd_post_recv);
}

/**
 * kfd_send() - KFAB_IOC_SEND
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_msg.
 */
long kfd_send(struct kfd_call *call)
{
	return kfd_msg_send(call, kfd_post_send, kfd_post_inject);
}

/**
 * kfd_trecv() - KFAB_IOC_TRECV
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_tmsg.
 */
long kfd_trecv(struct kfd_call *call)
{
	return kfd_msg(call, KFD_RECEIVERS, true, kfd_post_trecv);
}

/**
 * kfd_tsend() - KFAB_IOC_TSEND
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes ep->sem for reading.
 * Return: 0, or a negative errno as listed at struct kfab_tmsg.
 */
long kfd_tsend(struct kfd_call *call)
{
	const struct kfab_tmsg *arg = call->arg;

	if (arg->ignore)
		return -EINVAL;
	return kfd_msg_send(call, kfd_post_tsend, kfd_post_tinject);
}
