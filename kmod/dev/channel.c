// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Completion channels. An event is held, the answer is written, and only then it
 * counts as got; one thread at a time does these three. A thread that sleeps until
 * there is an event holds no lock, and its channel may be closed meanwhile.
 */
#include "kfd.h"

/**
 * kfd_channel_open() - KFAB_IOC_CHANNEL_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_channel_open.
 */
long kfd_channel_open(struct kfd_call *call)
{
	struct kfab_channel_open *arg = call->arg;
	struct kfid_comp_channel *channel;
	struct kfd_obj *fabric, *obj;
	int ret;

	fabric = kfd_pin(call, arg->fabric, KFD_CLASS(KFI_CLASS_FABRIC));
	if (IS_ERR(fabric))
		return PTR_ERR(fabric);
	obj = kfd_open_begin(call, KFI_CLASS_COMP_CHANNEL, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfi_comp_channel_open(kfd_fabric_of(fabric), &channel, obj);
	if (ret)
		return ret;
	kfi_channel_hold(channel);
	container_of(obj, struct kfd_channel, obj)->channel = channel;
	kfd_open_done(obj, &channel->fid, &arg->out_handle, &arg->out_id);
	kfd_wait_obj_set(call, obj, KFI_WAIT_FD);
	return 0;
}

/**
 * kfd_channel_free() - release the kfabric channel of an object that is freed
 * @obj: the channel, closed or never opened; no call uses it
 *
 * Context: Process.
 */
void kfd_channel_free(struct kfd_obj *obj)
{
	struct kfd_channel *ch = container_of(obj, struct kfd_channel, obj);

	if (ch->channel)
		kfi_channel_put(ch->channel);
}

static struct kfd_channel *kfd_pin_channel(struct kfd_call *call, u32 handle)
{
	struct kfd_obj *obj = kfd_pin(call, handle,
				      KFD_CLASS(KFI_CLASS_COMP_CHANNEL));

	return IS_ERR(obj) ? ERR_CAST(obj) :
			     container_of(obj, struct kfd_channel, obj);
}

/**
 * kfd_channel_bind() - KFAB_IOC_CHANNEL_BIND
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_channel_bind.
 */
long kfd_channel_bind(struct kfd_call *call)
{
	const struct kfab_channel_bind *arg = call->arg;
	struct kfd_channel *ch;
	struct kfd_obj *cq;

	cq = kfd_pin(call, arg->cq, KFD_CLASS(KFI_CLASS_CQ));
	if (IS_ERR(cq))
		return PTR_ERR(cq);
	ch = kfd_pin_channel(call, arg->channel);
	if (IS_ERR(ch))
		return PTR_ERR(ch);
	return kfi_cq_bind_channel(kfd_cq_of(cq), ch->channel);
}

/**
 * kfd_req_notify() - KFAB_IOC_REQ_NOTIFY
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0 or 1, or a negative errno as listed at struct kfab_req_notify.
 */
long kfd_req_notify(struct kfd_call *call)
{
	const struct kfab_req_notify *arg = call->arg;
	struct kfd_obj *cq = kfd_pin(call, arg->cq, KFD_CLASS(KFI_CLASS_CQ));

	return IS_ERR(cq) ? PTR_ERR(cq) : kfi_req_notify(kfd_cq_of(cq), arg->flags);
}

/**
 * struct kfd_event_take - one get of an event
 * @call: the call
 * @ch: the channel
 */
struct kfd_event_take {
	struct kfd_call *call;
	struct kfd_channel *ch;
};

/*
 * The answer is written. The request for the next event can only fail while another
 * event of the CQ is unread, so a failure never leaves a reader waiting.
 *
 * After kfi_channel_settle() another thread may acknowledge the event and close the CQ
 * and its domain. RCU keeps the memory of the CQ, but not the domain. So the read that
 * makes progress on the domain comes first.
 */
static void kfd_event_done(struct kfid_comp_channel *channel, struct kfid_cq *cq,
			   u32 flags)
{
	if (flags & KFAB_EVENT_NOTIFY)
		kfi_cq_read(cq, NULL, 0);
	rcu_read_lock();
	kfi_channel_settle(channel, flags & KFAB_EVENT_ACK ? KFI_EVENT_ACKED :
							     KFI_EVENT_GOT);
	if (flags & KFAB_EVENT_NOTIFY)
		kfi_cq_request(cq, KFI_CQ_NEXT_COMP);
	rcu_read_unlock();
}

/* One attempt. */
static ssize_t kfd_event_hand_out(struct kfd_event_take *take)
{
	struct kfid_comp_channel *channel = take->ch->channel;
	struct kfab_cq_event *arg = take->call->arg;
	const struct kfd_obj *obj;
	struct kfid_cq *cq;
	int ret;

	lockdep_assert_held(&take->ch->obj.readers);
	ret = kfi_channel_peek(channel, &cq);
	if (ret)
		return ret;
	obj = cq->fid.context;
	arg->out_cq = obj->id;
	arg->out_context = obj->context;
	kfi_test_hook_point(KFI_HOOK_D7, kfi_fid_id(&channel->fid));
	ret = kfd_answer(take->call);
	if (ret) {
		kfi_channel_settle(channel, KFI_EVENT_KEPT);
		return ret;
	}
	kfd_event_done(channel, cq, arg->flags);
	return 1;
}

static ssize_t kfd_event_take(void *p)
{
	struct kfd_event_take *take = p;
	ssize_t ret;

	if (kfd_read_lock(&take->ch->obj.readers))
		return -EINTR;
	ret = kfd_event_hand_out(take);
	mutex_unlock(&take->ch->obj.readers);
	return ret;
}

/**
 * kfd_get_cq_event() - KFAB_IOC_GET_CQ_EVENT
 * @call: the call in progress
 *
 * Context: Process; sleeps without a lock of this module. Takes obj->readers for each attempt.
 * Return: 0, or a negative errno as listed at struct kfab_cq_event.
 */
long kfd_get_cq_event(struct kfd_call *call)
{
	const struct kfab_cq_event *arg = call->arg;
	struct kfd_event_take take = {
		.call = call,
		.ch = kfd_pin_channel(call, arg->channel),
	};
	ktime_t deadline;
	ssize_t ret;

	if (IS_ERR(take.ch))
		return PTR_ERR(take.ch);
	ret = kfd_deadline(arg->deadline, &deadline);
	if (ret)
		return ret;
	ret = kfi_channel_wait_take(take.ch->channel, deadline, kfd_event_take,
				    &take);
	if (ret == -ETIMEDOUT)
		return -EAGAIN;
	return ret < 0 ? ret : 0;
}

/*
 * The xa_lock keeps the CQ while its events are acknowledged, also while it is draining
 * and no lookup finds it.
 */
static long kfd_ack(struct kfd_client *client, u32 id, u32 count)
{
	struct kfd_obj *obj;

	lockdep_assert_held(&client->objects.xa_lock);
	do {
		obj = xa_load(&client->objects, id);
		if (!obj)
			return -EBADF;
		if (obj->fclass != KFI_CLASS_CQ)
			return -EINVAL;
		if (obj->life != KFD_CLOSING)
			return kfi_ack_cq_events(kfd_cq_of(obj), count);
	} while (!kfd_wait_closed(obj));
	return -EINTR;
}

/**
 * kfd_ack_cq_events() - KFAB_IOC_ACK_CQ_EVENTS
 * @call: the call in progress
 *
 * Context: Process, may sleep; waits for a close that has just begun.
 * Return: 0, or a negative errno as listed at struct kfab_ack_cq_events.
 */
long kfd_ack_cq_events(struct kfd_call *call)
{
	const struct kfab_ack_cq_events *arg = call->arg;
	long ret;

	xa_lock(&call->client->objects);
	ret = kfd_ack(call->client, arg->cq, arg->count);
	xa_unlock(&call->client->objects);
	return ret;
}

/**
 * kfd_cq_close() - close a CQ, without waiting for acknowledgments
 * @obj: the CQ
 *
 * Context: Process, may sleep. The caller has claimed @obj.
 * Return: 0, -EBUSY, or -EINPROGRESS: the close has begun and has to wait.
 */
int kfd_cq_close(struct kfd_obj *obj)
{
	struct kfid_cq *cq = kfd_cq_of(obj);
	int ret;

	ret = kfi_cq_closing(cq);
	if (ret)
		return ret;
	kfd_ring_end(container_of(obj, struct kfd_cq, obj));
	return kfi_cq_unacked(cq) ? -EINPROGRESS : kfi_close(obj->fid);
}

/**
 * kfd_cq_drain() - wait until the events of a CQ are acknowledged
 * @obj: the CQ; its close has begun
 *
 * Context: Process; sleeps without a lock of this module.
 * Return: 0 or -EINTR.
 */
int kfd_cq_drain(struct kfd_obj *obj)
{
	return kfi_cq_drain(kfd_cq_of(obj));
}
