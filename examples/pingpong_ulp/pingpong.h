/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* One side of the connection, and what can be done with it; see side.c. */
#ifndef _PINGPONG_H_
#define _PINGPONG_H_

#include <linux/sched.h>

#include <kfabric.h>
#include <kfi_cm.h>
#include <kfi_domain.h>
#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <kfi_errno.h>

extern unsigned int pp_size;	/* of a message, in bytes */

struct pp_side {
	const char *name;
	int (*play)(struct pp_side *side);
	struct task_struct *task;

	/* In the order of opening; closed in the reverse order. */
	struct kfi_info *info;
	struct kfid_fabric *fabric;
	struct kfid_wait *wait;
	struct kfid_eq *eq;
	struct kfid_pep *pep;
	struct kfid_domain *domain;
	struct kfid_cq *cq;
	struct kfid_cntr *cntr;
	struct kfid_ep *ep;
	void *buf;			/* to send, then to receive */
	struct kfid_mr *mr;

	/* What pp_look() has seen. */
	struct kfi_info *connreq;
	bool connected;
	bool closed;
	unsigned int received;

	unsigned int expected;		/* messages, by now */
	unsigned int waits;		/* of kfi_wait(), that returned 0 */
	u64 counted;			/* by the counter */
	u64 ns;				/* from connected to the last message */
	bool leaving;			/* a failure does not matter now */
	int err;
};

/* 0 or a negative errno; what is open then is left to pp_close_all(). */
int pp_listen(struct pp_side *side);
int pp_connect(struct pp_side *side);
int pp_accept(struct pp_side *side);
int pp_post_recv(struct pp_side *side);
int pp_post_send(struct pp_side *side);
void pp_close_all(struct pp_side *side);

/* Sleeps until this is true of the side, or fails. */
int pp_await(struct pp_side *side,
	     bool (*there)(const struct pp_side *side));
bool pp_has_request(const struct pp_side *side);
bool pp_is_connected(const struct pp_side *side);
bool pp_has_message(const struct pp_side *side);
bool pp_is_closed(const struct pp_side *side);

static inline void *pp_send_buf(const struct pp_side *side)
{
	return side->buf;
}

static inline void *pp_recv_buf(const struct pp_side *side)
{
	return side->buf + pp_size;
}

#endif /* _PINGPONG_H_ */
