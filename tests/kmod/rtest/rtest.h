/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Tests of RDM endpoints by a caller in the kernel. A case is a function; it runs
 * when its file in /sys/kernel/debug/kfi_rtest is read, and the file's content
 * is "ok" or what failed. The parameters are two addresses of the RDMA device.
 */
#ifndef _KFI_RTEST_H_
#define _KFI_RTEST_H_

#include <linux/in.h>
#include <linux/seq_file.h>

#include <kfabric.h>
#include <kfi_cm.h>
#include <kfi_cxi_ext.h>
#include <kfi_domain.h>
#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <kfi_errno.h>
#include <kfi_profile.h>
#include <kfi_rma.h>
#include <kfi_tagged.h>

/* Ends a test that hangs; no test passes or fails by the clock. */
#define RT_DEADLINE_MS	20000

#define RT_BUF_SIZE	(3U << 20)

/**
 * struct rt_side - one endpoint with all that it needs
 * @info: what it was opened with
 * @fabric: its own
 * @domain: its own
 * @av: its own
 * @eq: what its domain reports, if a case opens one
 * @cq: all its completions
 * @ep: the endpoint
 * @buf: vmalloc memory
 * @peer: the other side's name for its sends
 */
struct rt_side {
	struct kfi_info *info;
	struct kfid_fabric *fabric;
	struct kfid_domain *domain;
	struct kfid_av *av;
	struct kfid_eq *eq;
	struct kfid_cq *cq;
	struct kfid_ep *ep;
	u8 *buf;
	kfi_addr_t peer;
};

/**
 * struct rt - one run of a case
 * @seq: where it says what failed
 * @failed: something did
 * @format: of addresses; to be set before rt_open()
 * @caps: of the endpoints, 0 for all; the same
 * @b_lacks: capabilities that @b has not; the same
 * @keep: bytes that they keep, 0 for the default; the same
 * @rx_size: receives, 0 for the default; the same
 * @b_entries: entries of @b's completion queue, 0 for many; the same
 * @av_type: of the vectors; the same
 * @a: one endpoint
 * @b: another one
 */
struct rt {
	struct seq_file *seq;
	bool failed;
	u32 format;
	u64 caps;
	u64 b_lacks;
	size_t keep;
	size_t rx_size;
	size_t b_entries;
	enum kfi_av_type av_type;
	struct rt_side a;
	struct rt_side b;
};

bool rt_equal(struct rt *rt, const char *file, int line, const char *what,
	      s64 got, s64 want);

/* Ends the case if it does not hold; rt_close() cleans up. */
#define RT_EQ(rt, expr, want)						\
do {									\
	if (!rt_equal(rt, __FILE__, __LINE__, #expr " == " #want,	\
		      expr, want))					\
		return;							\
} while (0)

#define RT_CHECK(rt, cond) RT_EQ(rt, !!(cond), true)

const char *rt_address(void);
const char *rt_second_address(void);
struct kfi_info *rt_hints(const struct rt *rt);
int rt_getinfo(struct rt *rt, struct kfi_info **info);
int rt_open(struct rt *rt);
void rt_close_side(struct rt *rt, struct rt_side *side);
void rt_close(struct rt *rt);
int rt_open_ep(struct rt_side *side);
int rt_open_side(struct rt *rt, struct rt_side *side);
int rt_entry(struct rt_side *side, struct kfi_cq_tagged_entry *entry);
int rt_entry_from(struct rt_side *side, struct kfi_cq_tagged_entry *entry,
		  kfi_addr_t *src);
int rt_error(struct rt_side *side, struct kfi_cq_err_entry *err);
int rt_talk(struct rt *rt);
void rt_fill(u8 *buf, size_t len, u8 seed);
bool rt_filled(const u8 *buf, size_t len, u8 seed);

struct rt_case {
	const char *name;
	void (*run)(struct rt *rt);
};

extern const struct rt_case rt_message_cases[];
extern const struct rt_case rt_keep_cases[];
extern const struct rt_case rt_rma_cases[];
extern const struct rt_case rt_refuse_cases[];
extern const struct rt_case rt_hostile_cases[];
extern const struct rt_case rt_greedy_cases[];
extern const struct rt_case rt_bare_cases[];
extern const struct rt_case rt_untrue_cases[];
extern const struct rt_case rt_forged_cases[];
extern const struct rt_case rt_pump_cases[];
extern const struct rt_case rt_idle_cases[];
extern const struct rt_case rt_flow_cases[];
extern const struct rt_case rt_served_cases[];
extern const struct rt_case rt_caps_cases[];
extern const struct rt_case rt_region_cases[];

#endif /* _KFI_RTEST_H_ */
