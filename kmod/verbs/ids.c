// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Gives RDMA CM's ids back: one at a time on each device, in turn by owner.
 *
 * RDMA CM tells the peer, by a disconnect request or a reject, and waits until the device has
 * sent it. rxe sends about 22 messages a second to a machine that does not answer ARP, so
 * thousands of ids of one owner take minutes. An id of another owner waits for one of each
 * owner only: the lists are served in turn. Owners that share a list share its turn.
 *
 * Nothing else waits for these turns. What posted operations wait for (queue pairs, buffers)
 * is done before, in work items that may run at the same time.
 */
#include <linux/hash.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "kfi_verbs.h"

struct kfv_ids {
	struct workqueue_struct *wq;
	struct work_struct work;
	struct mutex one;		/* kfv_id_destroy() */
	spinlock_t lock;		/* lists */
	struct list_head lists[1 << KFV_TURN_BITS];
	unsigned int next;		/* @work's */
};

/**
 * kfv_id_destroy() - disconnect an id and destroy it
 * @dev: the device
 * @id: RDMA CM's half of a connection; its queue pair is destroyed
 *
 * One id at a time per device. When the net device is gone, the last messages of RDMA
 * CM fail. If two fail at the same time, rxe may return only one of them. RDMA CM
 * then waits for the other one for ever, and so does the removal of the device.
 *
 * The disconnect request is sent here, because later kernels do not wait for the one
 * that rdma_destroy_id() sends. It has no effect on an id that is not connected, as that
 * of a connection request.
 *
 * This may block for long, so that everything else that waits for the connection must
 * be done before.
 *
 * Context: process, in a turn or the removal of the device; no lock of the provider is
 * held.
 */
void kfv_id_destroy(struct kfv_device *dev, struct rdma_cm_id *id)
{
	mutex_lock(&dev->ids->one);
	kfi_test_hook_point(KFI_HOOK_D12, 0);
	rdma_disconnect(id);
	rdma_destroy_id(id);
	mutex_unlock(&dev->ids->one);
}

/* The first of the next list that is not empty. */
static struct kfv_turn *kfv_turn_next(struct kfv_ids *ids)
{
	struct kfv_turn *turn = NULL;
	unsigned int i;

	spin_lock_irq(&ids->lock);
	for (i = 0; i < ARRAY_SIZE(ids->lists) && !turn; i++) {
		ids->next = (ids->next + 1) % ARRAY_SIZE(ids->lists);
		turn = list_first_entry_or_null(&ids->lists[ids->next],
						struct kfv_turn, link);
	}
	if (turn)
		list_del(&turn->link);
	spin_unlock_irq(&ids->lock);
	return turn;
}

/*
 * Work item. Who waits is a user of the device (kfv_device_use()), so that the device stays
 * while there is a turn; its removal waits for the return of this.
 */
static void kfv_turns(struct work_struct *work)
{
	struct kfv_ids *ids = container_of(work, struct kfv_ids, work);
	struct kfv_turn *turn;

	while ((turn = kfv_turn_next(ids)))
		turn->run(turn);
	module_put(THIS_MODULE);
}

/**
 * kfv_turn_wait() - have an id given back when it is its owner's turn
 * @dev: the device, which the caller uses until @turn has run
 * @turn: @owner and @run are set
 *
 * Context: any. @run is called in a work item; it may free @turn.
 */
void kfv_turn_wait(struct kfv_device *dev, struct kfv_turn *turn)
{
	struct kfv_ids *ids = dev->ids;
	unsigned long irq;

	spin_lock_irqsave(&ids->lock, irq);
	list_add_tail(&turn->link,
		      &ids->lists[hash_64(turn->owner, KFV_TURN_BITS)]);
	/* Once the lock is free, @turn may run, and the device may go. */
	kfv_queue_work(ids->wq, &ids->work);
	spin_unlock_irqrestore(&ids->lock, irq);
}

/**
 * kfv_ids_new() - what gives the ids of a device back
 * @dev: the device
 *
 * Context: process.
 * Return: 0, -ENOMEM.
 */
int kfv_ids_new(struct kfv_device *dev)
{
	struct kfv_ids *ids = kzalloc(sizeof(*ids), GFP_KERNEL);
	unsigned int i;

	if (!ids)
		return -ENOMEM;
	ids->wq = alloc_ordered_workqueue("kfv_ids", 0);
	if (!ids->wq) {
		kfree(ids);
		return -ENOMEM;
	}
	mutex_init(&ids->one);
	spin_lock_init(&ids->lock);
	for (i = 0; i < ARRAY_SIZE(ids->lists); i++)
		INIT_LIST_HEAD(&ids->lists[i]);
	INIT_WORK(&ids->work, kfv_turns);
	dev->ids = ids;
	return 0;
}

/**
 * kfv_ids_free() - the mirror of kfv_ids_new()
 * @dev: the device, without users
 *
 * Context: process; waits until the last turn has returned.
 */
void kfv_ids_free(struct kfv_device *dev)
{
	destroy_workqueue(dev->ids->wq);
	mutex_destroy(&dev->ids->one);
	kfree(dev->ids);
}
