// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* A listener whose event queue closes before it. */
#include <kfi_core.h>

#include "vtest.h"

/* A peer makes so many requests as fast as they are taken back. */
#define VL_REQUESTS	100

static struct kfi_pep_base *vl_pep;
static unsigned int vl_dropped;

static int vl_report(void);

/* Called by the close of the event queue, once for each request that is unread. */
static void vl_drop(u32 event, void *buf)
{
	if (++vl_dropped < VL_REQUESTS)
		vl_report();
}

static int vl_report(void)
{
	struct kfi_eq_cm_entry entry = { .fid = &vl_pep->pep.fid };
	struct kfi_event request = {
		.event = KFI_CONNREQ,
		.buf = &entry,
		.len = sizeof(entry),
		.drop = vl_drop,
	};

	return kfi_pep_report(vl_pep, &request);
}

static void vt_requests_beside_close(struct vt *vt)
{
	u16 port;
	int err;

	VT_EQ(vt, vt_listen(vt, &port), 0);
	vl_pep = container_of(vt->pep, struct kfi_pep_base, pep);
	vl_dropped = 0;
	VT_EQ(vt, vl_report(), 0);
	err = kfi_close(&vt->eq->fid);
	vt->eq = NULL;
	VT_EQ(vt, err, 0);
	VT_EQ(vt, vl_dropped, 1);
	VT_EQ(vt, vl_report(), -KFI_ENOEQ);
}

const struct vt_case vt_listener_cases[] = {
	{ "requests_beside_close", vt_requests_beside_close },
	{ }
};
