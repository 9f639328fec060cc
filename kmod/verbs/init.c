// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The module, and the devices that it serves as a client of the RDMA core: their
 * references, their names, and their removal.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "rdm/rdm.h"

/* The lists of devices, fabrics and domains. */
DEFINE_MUTEX(kfv_lock);

/* Devices and connection requests, for event handlers, too. */
DEFINE_MUTEX(kfv_dev_lock);
LIST_HEAD(kfv_devices);

/* Read sections: reporting a completion and posting a work request. */
DEFINE_SRCU(kfv_srcu);
DEFINE_SRCU(kfv_post_srcu);

/*
 * Pumps, set-up and keepalive of connections. What destroys something waits for the
 * device, and has a queue of the device's own. Unbound, as a work item may run for long
 * and must not hold up others of its CPU.
 */
struct workqueue_struct *kfv_wq;

static void kfv_device_release(struct kref *ref)
{
	struct kfv_device *dev = container_of(ref, struct kfv_device, ref);

	/* They are empty, but a count that found no memory may leave nodes. */
	xa_destroy(&dev->cqes);
	xa_destroy(&dev->asks);
	xa_destroy(&dev->waiting);
	mutex_destroy(&dev->lock);
	kfree(dev);
}

/**
 * kfv_device_get() - take a reference on the memory of a device
 * @dev: the device
 *
 * The reference does not keep the ib_device: see kfv_device_use().
 *
 * Context: any; the caller holds a reference or kfv_lock.
 */
void kfv_device_get(struct kfv_device *dev)
{
	kref_get(&dev->ref);
}

/**
 * kfv_device_put() - give up a reference on the memory of a device
 * @dev: the device, freed with its last reference
 *
 * Context: any.
 */
void kfv_device_put(struct kfv_device *dev)
{
	kref_put(&dev->ref, kfv_device_release);
}

/**
 * kfv_device_use() - keep the ib_device for a device half
 * @dev: a device that is not gone
 *
 * The removal takes it off the list and sets @gone, under the locks of either, before it
 * waits for @users to become 0. So the count cannot have reached 0 here.
 *
 * Context: process; caller holds @dev->lock, or kfv_dev_lock and has found the device on
 * the list.
 */
void kfv_device_use(struct kfv_device *dev)
{
	lockdep_assert(lockdep_is_held(&dev->lock) ||
		       lockdep_is_held(&kfv_dev_lock));
	refcount_inc(&dev->users);
}

/**
 * kfv_device_unuse() - a device half has given up the ib_device
 * @dev: the device; the removal may return at once, so that the caller may not
 * touch @dev->ib any more
 *
 * Context: any.
 */
void kfv_device_unuse(struct kfv_device *dev)
{
	if (refcount_dec_and_test(&dev->users))
		complete(&dev->idle);
}

/**
 * kfv_device_find() - the device that belongs to an ib_device
 * @ib: the ib_device; compared only
 *
 * Context: process; caller holds kfv_lock or kfv_dev_lock.
 * Return: the device, without a reference; NULL if it is not served or is being
 * removed.
 */
struct kfv_device *kfv_device_find(const struct ib_device *ib)
{
	struct kfv_device *dev;

	lockdep_assert(lockdep_is_held(&kfv_lock) ||
		       lockdep_is_held(&kfv_dev_lock));
	list_for_each_entry(dev, &kfv_devices, link)
		if (dev->ib == ib)
			return dev;
	return NULL;
}

/**
 * kfv_domain_name() - name of the domain of a port
 * @ib: the device, which the caller keeps alive
 * @port: one of its ports
 * @name: room for KFI_NAME_MAX bytes
 *
 * The domain of the first port has the name of the device, as ULPs expect.
 *
 * Context: any.
 */
void kfv_domain_name(struct ib_device *ib, u32 port, char *name)
{
	if (port == rdma_start_port(ib))
		strscpy(name, dev_name(&ib->dev), KFI_NAME_MAX);
	else
		scnprintf(name, KFI_NAME_MAX, "%s:%u", dev_name(&ib->dev), port);
}

/**
 * kfv_device_by_name() - the device and port that a domain's name stands for
 * @name: the name
 * @port: the port
 *
 * Context: process; caller holds kfv_lock.
 * Return: the device, without a reference; or NULL.
 */
struct kfv_device *kfv_device_by_name(const char *name, u32 *port)
{
	char own[KFI_NAME_MAX];
	struct kfv_device *dev;
	u32 p;

	lockdep_assert_held(&kfv_lock);
	list_for_each_entry(dev, &kfv_devices, link) {
		rdma_for_each_port(dev->ib, p) {
			kfv_domain_name(dev->ib, p, own);
			if (kfv_named(name, own)) {
				*port = p;
				return dev;
			}
		}
	}
	return NULL;
}

/**
 * kfv_queue_work() - run a work item with a reference on the module
 * @wq: kfv_wq, or a queue of the device, whose users the item is one of
 * @work: the work item; its function ends with module_put(THIS_MODULE)
 *
 * A public half may be freed while its device half still waits for the device.
 * Then no open object keeps the module loaded, and this reference does.
 *
 * Context: any.
 */
void kfv_queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	__module_get(THIS_MODULE);
	if (!queue_work(wq, work))
		module_put(THIS_MODULE);
}

/*
 * Memory is registered by a work request (IB_WR_REG_MR), so the device must have
 * it. Connections need the CM of InfiniBand, which RoCE has, too. iWARP is left
 * out: its queue pairs leave the idle state only for a connection, and regions
 * are registered before there is one.
 */
static bool kfv_device_usable(struct ib_device *ib)
{
	u32 port;

	if (!(ib->attrs.device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS))
		return false;
	rdma_for_each_port(ib, port)
		if (!rdma_cap_ib_cm(ib, port))
			return false;
	return true;
}

static int kfv_device_add(struct ib_device *ib);
static void kfv_device_remove(struct ib_device *ib, void *data);

static struct ib_client kfv_client = {
	.name = KBUILD_MODNAME,
	.add = kfv_device_add,
	.remove = kfv_device_remove,
};

static int kfv_device_queues(struct kfv_device *dev)
{
	dev->conns = alloc_workqueue("kfv_conns", WQ_UNBOUND, KFV_WORK_MAX);
	if (!dev->conns)
		return -ENOMEM;
	dev->regions = alloc_workqueue("kfv_regions", WQ_UNBOUND, KFV_WORK_MAX);
	if (!dev->regions)
		goto err_conns;
	if (kfv_ids_new(dev))
		goto err_regions;
	return 0;

err_regions:
	destroy_workqueue(dev->regions);
err_conns:
	destroy_workqueue(dev->conns);
	return -ENOMEM;
}

static int kfv_device_add(struct ib_device *ib)
{
	struct kfv_device *dev;

	if (!kfv_device_usable(ib))
		return -EOPNOTSUPP;

	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	if (kfv_device_queues(dev)) {
		kfree(dev);
		return -ENOMEM;
	}
	kref_init(&dev->ref);
	refcount_set(&dev->users, 1);
	init_completion(&dev->idle);
	mutex_init(&dev->lock);
	INIT_LIST_HEAD(&dev->domains);
	INIT_LIST_HEAD(&dev->nodes);
	xa_init_flags(&dev->cqes, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->asks, XA_FLAGS_LOCK_IRQ);
	xa_init_flags(&dev->waiting, XA_FLAGS_LOCK_IRQ);
	dev->ib = ib;
	ib_set_client_data(ib, &kfv_client, dev);

	/* Visible from here on, to event handlers as well: complete before. */
	mutex_lock(&kfv_lock);
	mutex_lock(&kfv_dev_lock);
	list_add_tail(&dev->link, &kfv_devices);
	mutex_unlock(&kfv_dev_lock);
	mutex_unlock(&kfv_lock);
	return 0;
}

/*
 * The device is removed, and may not be touched after this returns. The order:
 *
 *  1. Off the list: nothing new is opened on the device, and kfv_req_add() takes
 *     no request that came through it.
 *  2. @gone and synchronize_srcu(): posting and reporting have ended.
 *  3. The loss is reported, as the last entry of each queue, before anything is
 *     torn down. Waiters return without waiting for the teardown.
 *  4. The device halves are detached; work items destroy them. Connection requests
 *     lose their ids here.
 *  5. Our own use ends, and the last work item completes @idle.
 *
 * RDMA CM still knows the device here: clients are removed in the reverse order of
 * their registration (disable_device() in drivers/infiniband/core/device.c), and
 * this module is linked against rdma_cm, so that rdma_cm registered first. An
 * rdma_cm_id that is left on the device would block the removal for ever, in
 * cma_process_remove().
 *
 * Only the device's own lock is held until the halves are detached, so that objects of
 * other devices can be opened, used and closed meanwhile. It is dropped before the removal
 * waits for the device, so that objects of this one can be closed.
 */
static void kfv_device_remove(struct ib_device *ib, void *data)
{
	struct kfv_device *dev = data;
	struct kfv_domain *domain;

	mutex_lock(&dev->lock);
	mutex_lock(&kfv_lock);
	mutex_lock(&kfv_dev_lock);
	list_del(&dev->link);
	mutex_unlock(&kfv_dev_lock);
	WRITE_ONCE(dev->gone, true);
	mutex_unlock(&kfv_lock);
	synchronize_srcu(&kfv_srcu);
	synchronize_srcu(&kfv_post_srcu);

	list_for_each_entry(domain, &dev->domains, link)
		kfv_domain_lose(domain);
	kfv_pep_lose(dev);

	kfv_pep_detach(dev);
	kfr_strip(dev);
	list_for_each_entry(domain, &dev->domains, link)
		kfv_domain_detach(domain);
	mutex_unlock(&dev->lock);
	kfv_req_detach(dev);

	/* No peer is waited for; how long it takes is up to the device. */
	kfv_device_unuse(dev);
	wait_for_completion(&dev->idle);
	/* The last item may be between this completion and its return. */
	destroy_workqueue(dev->conns);
	destroy_workqueue(dev->regions);
	kfv_ids_free(dev);
	kfv_device_put(dev);
}

static struct kfi_provider kfv_provider = {
	.version = KFV_VERSION,
	.kfi_version = KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION),
	.name = KFV_PROVIDER,
	.kgetinfo = kfv_getinfo,
	.kfabric = kfv_fabric_open,
};

static int __init kfv_init(void)
{
	int err;

	kfv_wq = alloc_workqueue(KBUILD_MODNAME, WQ_UNBOUND, KFV_WORK_MAX);
	if (!kfv_wq)
		return -ENOMEM;
	err = kfv_ext_init();
	if (err)
		goto err_wq;
	err = ib_register_client(&kfv_client);
	if (err)
		goto err_ext;
	err = kfv_alias_init();
	if (err)
		goto err_alias;
	/* The last that can fail: from here on objects may be open. */
	err = kfi_provider_register(&kfv_provider);
	if (err)
		goto err_alias;
	kfv_alias_register();
	return 0;

err_alias:
	kfv_alias_exit();
	ib_unregister_client(&kfv_client);
err_ext:
	kfv_ext_exit();
err_wq:
	destroy_workqueue(kfv_wq);
	return err;
}

/*
 * Each open fabric and each queued work item holds a reference on this module, so
 * that none is left here. But a work function may be between its module_put() and
 * its return: destroy_workqueue() waits for that.
 */
static void __exit kfv_exit(void)
{
	kfv_alias_exit();
	kfi_provider_deregister(&kfv_provider);
	ib_unregister_client(&kfv_client);
	kfv_ext_exit();
	destroy_workqueue(kfv_wq);
}

module_init(kfv_init);
module_exit(kfv_exit);

MODULE_DESCRIPTION("kfabric provider over RDMA verbs");
MODULE_LICENSE("Dual BSD/GPL");
