// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The module, and the devices that it serves as a client of the RDMA core.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "rdm/rdm.h"

/* Which objects there are; not taken in CM callbacks. */
DEFINE_MUTEX(kfv_lock);

/* Devices and connection requests; the innermost lock. */
DEFINE_MUTEX(kfv_dev_lock);
LIST_HEAD(kfv_devices);

/* Read sections: posting a work request and reporting a completion. */
DEFINE_SRCU(kfv_srcu);

/* Destroys device halves, and probes peers. */
struct workqueue_struct *kfv_wq;

static void kfv_device_release(struct kref *ref)
{
	kfree(container_of(ref, struct kfv_device, ref));
}

void kfv_device_get(struct kfv_device *dev)
{
	kref_get(&dev->ref);
}

void kfv_device_put(struct kfv_device *dev)
{
	kref_put(&dev->ref, kfv_device_release);
}

/* The caller knows that the device is not gone yet, or is a user itself. */
void kfv_device_use(struct kfv_device *dev)
{
	refcount_inc(&dev->users);
}

void kfv_device_unuse(struct kfv_device *dev)
{
	if (refcount_dec_and_test(&dev->users))
		complete(&dev->idle);
}

/* Caller holds kfv_lock or kfv_dev_lock. */
struct kfv_device *kfv_device_find(const struct ib_device *ib)
{
	struct kfv_device *dev;

	list_for_each_entry(dev, &kfv_devices, link)
		if (dev->ib == ib)
			return dev;
	return NULL;
}

/* A device with one port gives its name to the domain, as ULPs expect. */
void kfv_domain_name(struct ib_device *ib, u32 port, char *name)
{
	if (port == rdma_start_port(ib))
		strscpy(name, dev_name(&ib->dev), KFI_NAME_MAX);
	else
		scnprintf(name, KFI_NAME_MAX, "%s:%u", dev_name(&ib->dev), port);
}

/* Caller holds kfv_lock. */
struct kfv_device *kfv_device_by_name(const char *name, u32 *port)
{
	char own[KFI_NAME_MAX];
	struct kfv_device *dev;
	u32 p;

	list_for_each_entry(dev, &kfv_devices, link) {
		rdma_for_each_port(dev->ib, p) {
			kfv_domain_name(dev->ib, p, own);
			if (!strcmp(own, name)) {
				*port = p;
				return dev;
			}
		}
	}
	return NULL;
}

/*
 * Runs @work when the device has time for it. The work function ends with
 * module_put(THIS_MODULE): until then the module cannot be unloaded.
 */
void kfv_queue_work(struct work_struct *work)
{
	__module_get(THIS_MODULE);
	if (!queue_work(kfv_wq, work))
		module_put(THIS_MODULE);
}

/*
 * Fast registration is what everything needs, and InfiniBand's connection
 * management, which RoCE has too: iWARP has no queue pair without a connection,
 * so no memory could be registered before.
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

static int kfv_device_add(struct ib_device *ib)
{
	struct kfv_device *dev;

	if (!kfv_device_usable(ib))
		return -EOPNOTSUPP;

	dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	if (!dev)
		return -ENOMEM;
	kref_init(&dev->ref);
	refcount_set(&dev->users, 1);
	init_completion(&dev->idle);
	mutex_init(&dev->disconnect_lock);
	INIT_LIST_HEAD(&dev->domains);
	dev->ib = ib;
	ib_set_client_data(ib, &kfv_client, dev);

	mutex_lock(&kfv_lock);
	mutex_lock(&kfv_dev_lock);
	list_add_tail(&dev->link, &kfv_devices);
	mutex_unlock(&kfv_dev_lock);
	mutex_unlock(&kfv_lock);
	return 0;
}

/*
 * The device goes. Everybody is told first; then all that it gave us is given
 * back, for it may not be touched once this returns. Clients are removed in
 * reverse order and we depend on RDMA CM, so RDMA CM still has the device.
 */
static void kfv_device_remove(struct ib_device *ib, void *data)
{
	struct kfv_device *dev = data;
	struct kfv_domain *domain;

	mutex_lock(&kfv_lock);
	mutex_lock(&kfv_dev_lock);
	list_del(&dev->link);
	mutex_unlock(&kfv_dev_lock);

	/* Ends posting and reporting, so that the loss is the last report. */
	WRITE_ONCE(dev->gone, true);
	synchronize_srcu(&kfv_srcu);

	list_for_each_entry(domain, &dev->domains, link)
		kfv_domain_lose(domain);
	kfv_pep_lose(dev);

	kfv_req_detach(dev);
	kfv_pep_detach(dev);
	kfr_strip(dev);
	list_for_each_entry(domain, &dev->domains, link)
		kfv_domain_detach(domain);
	mutex_unlock(&kfv_lock);

	/* Local work only: see KFV_DRAIN_TIME for how long it takes. */
	kfv_device_unuse(dev);
	wait_for_completion(&dev->idle);
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

	kfv_wq = alloc_workqueue(KBUILD_MODNAME, WQ_UNBOUND, 0);
	if (!kfv_wq)
		return -ENOMEM;
	err = ib_register_client(&kfv_client);
	if (err)
		goto err_wq;
	err = kfi_provider_register(&kfv_provider);
	if (err)
		goto err_client;
	return 0;

err_client:
	ib_unregister_client(&kfv_client);
err_wq:
	destroy_workqueue(kfv_wq);
	return err;
}

/* Nothing is open any more, but a work function may still be returning. */
static void __exit kfv_exit(void)
{
	kfi_provider_deregister(&kfv_provider);
	ib_unregister_client(&kfv_client);
	destroy_workqueue(kfv_wq);
}

module_init(kfv_init);
module_exit(kfv_exit);

MODULE_DESCRIPTION("kfabric provider over RDMA verbs");
MODULE_LICENSE("Dual BSD/GPL");
