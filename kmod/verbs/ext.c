// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The tables of kfi_cxi_ext.h, for ULPs that were written for the cxi provider. Each
 * fabric and each domain has them, whatever its endpoints are.
 */
#include <linux/dma-mapping.h>
#include <linux/err.h>

#include <kfi_cxi_ext.h>

#include "rdm/rdm.h"

/*
 * ULPs map their memory for it, and give us the pages in any case. So it has no IOMMU,
 * which could merge them, and reaches all memory. NULL before kfv_ext_init().
 */
static struct device *kfv_dma_device;
static struct device_dma_parameters kfv_dma_parms;

/* Nothing here is reserved in advance. */
static int kfv_dynamic_rsrc_alloc(struct kfid *fid, bool enable)
{
	return fid && fid->fclass == KFI_CLASS_FABRIC ? 0 : -EINVAL;
}

static struct kfi_cxi_fabric_ops kfv_cxi_fabric_ops = {
	.enable_dynamic_rsrc_alloc = kfv_dynamic_rsrc_alloc,
};

const struct kfi_named_ops kfv_fabric_tables[] = {
	{ KFI_CXI_FAB_OPS_1, &kfv_cxi_fabric_ops },
	{ }
};

static int kfv_get_device(struct kfid *fid, struct device **device)
{
	if (!fid || fid->fclass != KFI_CLASS_DOMAIN || !device)
		return -EINVAL;
	*device = kfv_dma_device;
	return 0;
}

static struct kfi_cxi_domain_ops kfv_cxi_domain_ops = {
	.get_device = kfv_get_device,
};

const struct kfi_named_ops kfv_domain_tables[] = {
	{ KFI_CXI_DOM_OPS_1, &kfv_cxi_domain_ops },
	{ }
};

/**
 * kfv_ext_init() - make what the tables hand out
 *
 * Context: process, may sleep; once, before the first fabric.
 * Return: 0, -ENOMEM, or the error of the driver core.
 */
int kfv_ext_init(void)
{
	struct device *dev = root_device_register(KBUILD_MODNAME);
	int err;

	if (IS_ERR(dev))
		return PTR_ERR(dev);
	dev->dma_mask = &dev->coherent_dma_mask;
	dev->dma_parms = &kfv_dma_parms;
	dma_set_max_seg_size(dev, UINT_MAX);
#ifdef CONFIG_SWIOTLB
	/* Even where each device has to: the pages themselves are used, no copies. */
	dev->dma_io_tlb_mem = NULL;
#endif
	err = dma_set_mask_and_coherent(dev, DMA_BIT_MASK(64));
	if (err) {
		root_device_unregister(dev);
		return err;
	}
	kfv_dma_device = dev;
	return 0;
}

/**
 * kfv_ext_exit() - the mirror of kfv_ext_init()
 *
 * Context: process, may sleep; no fabric is open.
 */
void kfv_ext_exit(void)
{
	root_device_unregister(kfv_dma_device);
}
