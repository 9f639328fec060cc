// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* What fabrics and domains have beside endpoints. */
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/scatterlist.h>

#include <kfi_cxi_ext.h>

#include "vtest.h"

/* What is mapped for the device is the memory itself. */
static void vt_device(struct vt *vt, struct kfi_cxi_domain_ops *ops)
{
	struct device *dev = NULL;
	struct scatterlist sg[2];
	struct sg_table table = { .sgl = sg, .nents = 2, .orig_nents = 2 };

	VT_EQ(vt, ops->get_device(&vt->fabric->fid, &dev), -EINVAL);
	VT_EQ(vt, ops->get_device(&vt->a.domain->fid, &dev), 0);
	VT_CHECK(vt, dev);
	sg_init_table(sg, 2);
	sg_set_page(&sg[0], virt_to_page(vt->a.buf), PAGE_SIZE, 0);
	sg_set_page(&sg[1], ZERO_PAGE(0), PAGE_SIZE, 0);
	VT_EQ(vt, dma_map_sgtable(dev, &table, DMA_TO_DEVICE, 0), 0);
	VT_EQ(vt, table.nents, 2);
	VT_CHECK(vt, sg_dma_address(&sg[1]) == page_to_phys(ZERO_PAGE(0)));
	dma_unmap_sgtable(dev, &table, DMA_TO_DEVICE, 0);
}

/* Exact names only. */
static void vt_tables(struct vt *vt)
{
	struct kfi_cxi_fabric_ops *fabric_ops = NULL;
	struct kfi_cxi_domain_ops *domain_ops = NULL;
	void *none = vt;

	VT_EQ(vt, vt_connect(vt), 0);
	VT_EQ(vt, kfi_open_ops(&vt->fabric->fid, "cxi_fab_ops", 0, &none, NULL),
	      -KFI_ENOSYS);
	VT_EQ(vt, kfi_open_ops(&vt->fabric->fid, KFI_CXI_DOM_OPS_1, 0, &none,
			       NULL), -KFI_ENOSYS);
	VT_EQ(vt, kfi_open_ops(&vt->a.cq->fid, KFI_CXI_DOM_OPS_1, 0, &none,
			       NULL), -KFI_ENOSYS);
	VT_EQ(vt, kfi_open_ops(&vt->fabric->fid, KFI_CXI_FAB_OPS_1, 1, &none,
			       NULL), -KFI_EINVAL);
	VT_CHECK(vt, none == vt);
	VT_EQ(vt, kfi_open_ops(&vt->fabric->fid, KFI_CXI_FAB_OPS_1, 0,
			       (void **)&fabric_ops, NULL), 0);
	VT_EQ(vt, fabric_ops->enable_dynamic_rsrc_alloc(&vt->fabric->fid, true),
	      0);
	VT_EQ(vt, kfi_open_ops(&vt->a.domain->fid, KFI_CXI_DOM_OPS_1, 0,
			       (void **)&domain_ops, NULL), 0);
	vt_device(vt, domain_ops);
}

static s64 vt_registered(struct vt *vt, const struct kfid_mr *mr)
{
	struct kfi_eq_entry entry = { .context = vt };
	u32 event = 0;
	ssize_t n = kfi_eq_read(vt->eq, &event, &entry, sizeof(entry), 0);

	if (n != sizeof(entry))
		return n;
	return event == KFI_MR_COMPLETE && entry.fid == &mr->fid &&
	       entry.context == mr->fid.context ? 0 : -EPROTO;
}

/* A region reports to the EQ that its domain is bound to; what fails reports nothing. */
static void vt_region_event(struct vt *vt)
{
	struct kfid_mr *mr;

	VT_EQ(vt, vt_connect(vt), 0);
	VT_EQ(vt, kfi_domain_bind(vt->a.domain, &vt->eq->fid, KFI_REG_MR), 0);
	VT_EQ(vt, kfi_mr_reg(vt->a.domain, vt->a.buf, 64, KFI_MSG, 0, 0, 0, &mr,
			     vt), -EINVAL);
	VT_EQ(vt, vt_registered(vt, NULL), -KFI_EAGAIN);
	VT_EQ(vt, kfi_mr_reg(vt->a.domain, vt->a.buf, 64, KFI_REMOTE_READ, 0, 0,
			     0, &mr, &vt->a), 0);
	VT_EQ(vt, vt_registered(vt, mr), 0);
	VT_EQ(vt, kfi_close(&mr->fid), 0);
	VT_EQ(vt, kfi_mr_reg(vt->a.domain, vt->a.buf, 64, KFI_REMOTE_READ, 0, 0,
			     0, &mr, &vt->a), 0);
	VT_EQ(vt, kfi_close(&mr->fid), 0);
	VT_EQ(vt, vt_registered(vt, mr), -KFI_EAGAIN);
}

/*
 * Nothing of an event is cut: it stays until there is room for all of it. A zeroed
 * attribute means KFI_WAIT_NONE, so that nobody can sleep on the queue.
 */
static void vt_event_room(struct vt *vt)
{
	struct kfi_eq_attr attr = { };
	u8 event[64] = { [63] = 7 }, got[64] = { };
	u32 type = 0;

	VT_EQ(vt, vt_getinfo(0, &vt->a.info), 0);
	VT_EQ(vt, kfi_fabric(vt->a.info->fabric_attr, &vt->fabric, NULL), 0);
	VT_EQ(vt, kfi_eq_open(vt->fabric, &attr, &vt->eq, NULL, NULL), 0);
	VT_EQ(vt, kfi_eq_write(vt->eq, 9, event, sizeof(event), 0),
	      sizeof(event));
	VT_EQ(vt, kfi_eq_read(vt->eq, &type, got,
			      sizeof(struct kfi_eq_cm_entry), 0),
	      -KFI_ETOOSMALL);
	VT_CHECK(vt, !type && !got[0]);
	VT_EQ(vt, kfi_eq_read(vt->eq, &type, got, sizeof(got), 0), sizeof(got));
	VT_EQ(vt, type, 9);
	VT_EQ(vt, got[63], 7);
	VT_EQ(vt, kfi_eq_sread(vt->eq, &type, got, sizeof(got), 1, 0),
	      -KFI_EINVAL);
}

const struct vt_case vt_domain_cases[] = {
	{ "tables", vt_tables },
	{ "region_event", vt_region_event },
	{ "event_room", vt_event_room },
	{ }
};
