/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* A connected endpoint that speaks the protocol of RDM endpoints, as it likes. */
#ifndef _KFI_RTEST_HOSTILE_H_
#define _KFI_RTEST_HOSTILE_H_

#include <linux/completion.h>

#include <rdm/wire.h>

#include "rtest.h"

#define RT_PORT		7473
#define RT_FLOOD	6000
#define RT_WIRES	64	/* messages that a connection has on their way */
#define RT_BUFFERS	256	/* that it takes messages in */
#define RT_STRANGER	5	/* number of the endpoint that there is not */
#define RT_SLOT		128	/* of what it hears: header and segments */
#define RT_SLOTS	512
#define RT_SLOW		10	/* messages that are taken slowly */
#define RT_SLOW_MS	400	/* each; in all, longer than a silent peer has */

/**
 * struct rt_hostile - a connected endpoint, and what it needs
 * @info: what it was opened with
 * @fabric: its own
 * @domain: its own
 * @eq: its events
 * @cq: its completions
 * @pep: it waits for connections here
 * @ep: the endpoint
 * @msg: what it says
 * @in: what it hears: RT_SLOTS of RT_SLOT bytes
 * @posted: receives that it has posted
 */
struct rt_hostile {
	struct kfi_info *info;
	struct kfid_fabric *fabric;
	struct kfid_domain *domain;
	struct kfid_eq *eq;
	struct kfid_cq *cq;
	struct kfid_pep *pep;
	struct kfid_ep *ep;
	u8 *msg;
	u8 *in;
	unsigned int posted;
};

/**
 * struct rt_closer - a thread that closes an object
 * @fid: the object
 * @begun: it is about to close it
 * @done: it has
 */
struct rt_closer {
	struct kfid *fid;
	struct completion begun;
	struct completion done;
};

/**
 * struct rt_ask - a request with an id, as it is sent
 * @hdr: its header
 * @seg: memory of the requesting side
 */
struct rt_ask {
	struct kfr_hdr hdr;
	struct kfr_seg seg;
};

extern const struct kfr_hello rt_hello;

int rt_hostile_open(struct rt_hostile *h, bool listen);
int rt_hostile_ep(struct rt_hostile *h, struct kfi_info *info);
int rt_hostile_event(struct rt_hostile *h, void *data, size_t len,
		     struct kfi_info **info);
int rt_hostile_connect(struct rt_hostile *h, const void *hello, size_t len,
		       void *said, size_t room);
void rt_hostile_close_ep(struct rt_hostile *h);
void rt_hostile_close(struct rt_hostile *h);
int rt_hostile_listen(struct rt_hostile *h);
int rt_hostile_accept(struct rt_hostile *h);
int rt_hostile_accept_with(struct rt_hostile *h, const void *hello, size_t len);
int rt_meet(struct rt_hostile *h, struct rt_side *side, size_t len,
	    kfi_addr_t *addr);
int rt_ack(struct rt_hostile *h, u32 number);
int rt_room(struct rt_hostile *h, unsigned int n);
int rt_hear(struct rt_hostile *h, struct kfr_hdr *hdr);
int rt_hostile_hears(struct rt_hostile *h, unsigned int n);
int rt_close_begin(struct kfid *fid, struct rt_closer *closer);
bool rt_closed(struct rt_hostile *h, struct rt_closer *closer);
int rt_take_slowly(struct rt_hostile *h, struct kfr_hdr *hdr);
int rt_send_some(struct rt_side *side, kfi_addr_t addr, unsigned int n);
int rt_know(struct rt_side *side, kfi_addr_t *addr);
int rt_number(struct rt_side *side, __le16 *number);
int rt_ask_for(struct rt_side *side, enum kfr_wire_op op,
	       const struct kfid_mr *mr, u32 len, struct rt_ask *ask);
void rt_with_hostile(struct rt *rt,
		     void (*run)(struct rt *rt, struct rt_hostile *h));
void rt_listening(struct rt *rt,
		  void (*run)(struct rt *rt, struct rt_hostile *h));

#endif /* _KFI_RTEST_HOSTILE_H_ */
