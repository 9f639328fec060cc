/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* One side of the connection, and the operations on it (side.c). */
#ifndef _PINGPONG_H_
#define _PINGPONG_H_

#include <linux/sched.h>

#include <kfabric.h>
#include <kfi_cm.h>
#include <kfi_domain.h>
#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <kfi_errno.h>

extern unsigned int pp_size;	/* bytes in a message */

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
	void *buf;			/* send buffer, then receive buffer */
	struct kfid_mr *mr;

	/* Set by pp_look(). */
	struct kfi_info *connreq;
	bool connected;
	bool closed;
	unsigned int received;

	unsigned int expected;		/* number of messages to wait for */
	unsigned int waits;		/* calls of kfi_wait() that returned 0 */
	u64 counted;			/* value of the counter */
	u64 ns;				/* from connected to the last message */
	bool leaving;			/* CQ errors no longer matter */
	int err;
};

/* Return 0 or a negative errno. After an error, pp_close_all() cleans up. */
int pp_listen(struct pp_side *side);
int pp_connect(struct pp_side *side);
int pp_accept(struct pp_side *side);
int pp_post_recv(struct pp_side *side);
int pp_post_send(struct pp_side *side);
void pp_close_all(struct pp_side *side);

/* Waits until @there returns true. Returns 0 or a negative errno. */
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
