// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Rings: completions that are read without a call. The kernel writes entries into a buffer
 * of the client, next to those in the CQ, and learns how many were read when the client
 * makes its next call. What it has written is never read back, and the client's count is
 * checked by the CQ, so a client that scribbles over its ring harms only itself.
 */
#include <linux/slab.h>

#include "kfd.h"

/**
 * struct kfd_ring - a ring
 * @shadow: of the CQ
 * @link: on kfd_client.rings; kfd_client.rings_lock
 * @cq: the CQ; open as long as @link is on the list
 * @told: a count of the client that needs no look: the CQ had removed as many entries
 * @buf: the buffer, referenced; constant
 * @shared: the ring in it; constant
 * @mask: entries of the ring less one; constant
 */
struct kfd_ring {
	struct kfi_cq_shadow shadow;
	struct list_head link;
	struct kfid_cq *cq;
	u32 told;
	struct kfd_buf *buf;
	struct kfab_ring *shared;
	u32 mask;
};

static void kfd_ring_store(struct kfi_cq_shadow *shadow, u32 number,
			   const struct kfi_cq_tagged_entry *entry, kfi_addr_t src,
			   int err)
{
	struct kfd_ring *ring = container_of(shadow, struct kfd_ring, shadow);
	struct kfab_ring *shared = ring->shared;

	shared->entries[number & ring->mask] = (struct kfab_cq_entry) {
		.context = (uintptr_t)entry->op_context,
		.flags = entry->flags,
		.len = entry->len,
		.data = entry->data,
		.tag = entry->tag,
		.src_addr = src,
		.buf_offset = kfd_buf_name_offset(entry->buf),
		.buf = kfd_buf_name_id(entry->buf),
		.err = err ? kfi_errno_to_user(err) : 0,
	};
	/* After the entry: a reader that has seen the count finds the entry. */
	smp_store_release(&shared->tail, number + 1);
}

static void kfd_ring_overrun(struct kfi_cq_shadow *shadow)
{
	struct kfd_ring *ring = container_of(shadow, struct kfd_ring, shadow);

	/* After the last count: a reader that sees this, and then no entry, has seen all. */
	smp_store_release(&ring->shared->overrun, 1);
}

static struct kfd_ring *kfd_ring_new(struct kfid_cq *cq, struct kfd_buf *buf, u32 entries)
{
	struct kfd_ring *ring = kzalloc(sizeof(*ring), GFP_KERNEL_ACCOUNT);

	if (!ring)
		return NULL;
	ring->shadow.store = kfd_ring_store;
	ring->shadow.overrun = kfd_ring_overrun;
	ring->cq = cq;
	ring->mask = entries - 1;
	ring->shared = buf->addr;
	ring->shared->mask = ring->mask;
	ring->buf = buf;
	kfd_buf_hold(buf);
	return ring;
}

static void kfd_ring_free(struct kfd_ring *ring)
{
	kfd_buf_put(ring->buf);
	kfree(ring);
}

/* No read is between its look and its removal, and none begins any more. */
static int kfd_ring_show(struct kfd_call *call, struct kfd_cq *cq, struct kfd_ring *ring)
{
	struct kfd_client *client = cq->obj.client;
	int ret;

	lockdep_assert_held(&cq->obj.readers);
	ret = kfi_cq_show(ring->cq, &ring->shadow);
	if (ret)
		return ret;
	ret = kfd_answer(call);
	if (ret) {
		kfi_cq_hide(ring->cq);
		return ret;
	}
	down_write(&client->rings_lock);
	/* Calls that sleep look at it without the lock. */
	WRITE_ONCE(cq->ring, ring);
	list_add_tail(&ring->link, &client->rings);
	up_write(&client->rings_lock);
	return 0;
}

/**
 * kfd_cq_ring() - KFAB_IOC_CQ_RING
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers and client->rings_lock.
 * Return: 0, or a negative errno as listed at struct kfab_cq_ring.
 */
long kfd_cq_ring(struct kfd_call *call)
{
	struct kfab_cq_ring *arg = call->arg;
	struct kfd_obj *obj = kfd_pin(call, arg->cq, KFD_CLASS(KFI_CLASS_CQ));
	struct kfd_ring *ring;
	struct kfd_buf *buf;
	u32 entries;
	int ret;

	if (IS_ERR(obj))
		return PTR_ERR(obj);
	entries = kfi_cq_size(kfd_cq_of(obj));
	if (entries > KFAB_RING_MAX)
		return -EINVAL;
	buf = kfd_buf_open(call, struct_size((struct kfab_ring *)0, entries, entries),
			   &arg->out_handle, &arg->out_offset);
	if (IS_ERR(buf))
		return PTR_ERR(buf);
	ring = kfd_ring_new(kfd_cq_of(obj), buf, entries);
	if (!ring)
		return -ENOMEM;
	arg->out_entries = entries;
	ret = kfd_read_lock(&obj->readers);
	if (!ret) {
		ret = kfd_ring_show(call, container_of(obj, struct kfd_cq, obj), ring);
		mutex_unlock(&obj->readers);
	}
	if (ret)
		kfd_ring_free(ring);
	return ret;
}

/**
 * kfd_rings_look() - note what a client has read in its rings since its last call
 * @client: the client
 *
 * Context: Process, may sleep. Takes client->rings_lock.
 * Return: 0, or -EINTR if the thread was killed.
 */
int kfd_rings_look(struct kfd_client *client)
{
	struct kfd_ring *ring;
	u32 head;

	if (list_empty_careful(&client->rings))
		return 0;
	if (down_read_killable(&client->rings_lock))
		return -EINTR;
	list_for_each_entry(ring, &client->rings, link) {
		head = READ_ONCE(ring->shared->head);
		/* Other threads look, too. An older count only costs another look. */
		if (head == READ_ONCE(ring->told))
			continue;
		WRITE_ONCE(ring->told, kfi_cq_consume_to(ring->cq, head));
		cond_resched();
	}
	up_read(&client->rings_lock);
	return 0;
}

/**
 * kfd_ring_end() - look no more: the CQ is about to be closed
 * @cq: the CQ; repeated calls change nothing
 *
 * Context: Process, may sleep. Takes client->rings_lock.
 */
void kfd_ring_end(struct kfd_cq *cq)
{
	struct kfd_client *client = cq->obj.client;

	if (!cq->ring)
		return;
	down_write(&client->rings_lock);
	list_del_init(&cq->ring->link);
	up_write(&client->rings_lock);
}

/**
 * kfd_ring_release() - free the ring of a closed CQ
 * @cq: the CQ
 *
 * Context: Process.
 */
void kfd_ring_release(struct kfd_cq *cq)
{
	if (cq->ring)
		kfd_ring_free(cq->ring);
}
