/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Tests of the verbs provider by a caller in the kernel: what a user cannot
 * reach through /dev/kfabric. A case is a function; it runs when its file in
 * /sys/kernel/debug/kfi_vtest is read, and the file's content is "ok" or what
 * failed. The parameter addr names the RDMA device.
 */
#ifndef _KFI_VTEST_H_
#define _KFI_VTEST_H_

#include <linux/completion.h>
#include <linux/in.h>
#include <linux/seq_file.h>

#include <kfabric.h>
#include <kfi_atomic.h>
#include <kfi_cm.h>
#include <kfi_domain.h>
#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <kfi_errno.h>
#include <kfi_rma.h>
#include <kfi_tagged.h>

/* Ends a test that hangs; no test passes or fails by the clock. */
#define VT_DEADLINE_MS	10000

#define VT_BUF_PAGES	64
#define VT_BUF_SIZE	(VT_BUF_PAGES * PAGE_SIZE)

/**
 * struct vt_side - one end of a connection
 * @info: what it was opened with
 * @domain: its own
 * @eq: its connection's events
 * @cq: all its completions; with vt.regions only those that transmit
 * @rx_cq: with vt.regions: of what it receives
 * @ep: the endpoint
 * @mr: with vt.regions: all of @buf, for everything
 * @peer: with vt.regions: the other side's region, from its private data
 * @pages: a buffer in the direct map
 * @buf: its address
 */
struct vt_side {
	struct kfi_info *info;
	struct kfid_domain *domain;
	struct kfid_eq *eq;
	struct kfid_cq *cq;
	struct kfid_cq *rx_cq;
	struct kfid_ep *ep;
	struct kfid_mr *mr;
	struct kfi_rma_iov peer;
	struct page *pages;
	u8 *buf;
};

/**
 * struct vt - one run of a case
 * @seq: where it says what failed
 * @failed: something did
 * @handler: of the completions of @b; to be set before vt_connect()
 * @regions: tell the other side of a region when connecting, and have a queue
 *	for each direction; to be set before vt_connect()
 * @backlog: of the listener; 0: the default. To be set before vt_listen()
 * @fabric: of both sides
 * @eq: the listener's
 * @pep: the listener
 * @a: the active side
 * @b: the passive side
 * @calls: of @handler
 * @done: for @handler
 */
struct vt {
	struct seq_file *seq;
	bool failed;
	kfi_comp_handler handler;
	bool regions;
	int backlog;
	struct kfid_fabric *fabric;
	struct kfid_eq *eq;
	struct kfid_pep *pep;
	struct vt_side a;
	struct vt_side b;
	atomic_t calls;
	struct completion done;
};

bool vt_equal(struct vt *vt, const char *file, int line, const char *what,
	      s64 got, s64 want);

/* Ends the case if it does not hold; vt_close() cleans up. */
#define VT_EQ(vt, expr, want)						\
do {									\
	if (!vt_equal(vt, __FILE__, __LINE__, #expr " == " #want,	\
		      expr, want))					\
		return;							\
} while (0)

#define VT_CHECK(vt, cond) VT_EQ(vt, !!(cond), true)

__be32 vt_address(void);
int vt_getinfo(u16 port, struct kfi_info **info);
int vt_listen(struct vt *vt, u16 *port);
int vt_accept(struct vt *vt);
int vt_connect(struct vt *vt);
int vt_connected_event(struct vt_side *side);
int vt_shutdown_event(struct vt_side *side);
void vt_close(struct vt *vt);
int vt_entry(struct vt_side *side, struct kfi_cq_data_entry *entry);
void vt_fill(u8 *buf, size_t len, u8 seed);
bool vt_filled(const u8 *buf, size_t len, u8 seed);

struct vt_case {
	const char *name;
	void (*run)(struct vt *vt);
};

extern const struct vt_case vt_accept_cases[];
extern const struct vt_case vt_data_cases[];
extern const struct vt_case vt_listener_cases[];
extern const struct vt_case vt_raw_cases[];
extern const struct vt_case vt_refuse_cases[];
extern const struct vt_case vt_domain_cases[];
extern const struct vt_case vt_sequence_cases[];

#endif /* _KFI_VTEST_H_ */
