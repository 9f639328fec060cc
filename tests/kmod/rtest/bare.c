// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Peers that answer no reads. RDMA CM says so for them when it connects; behind it
 * is no queue pair, for no data gets that far.
 */
#include <linux/atomic.h>
#include <linux/completion.h>
#include <linux/inet.h>
#include <rdma/rdma_cm.h>

#include "hostile.h"

#define RT_BARE_QPN	0x7fffff	/* nobody's, nor are those below it */
#define RT_BARE_MS	2000	/* for RDMA CM to find an address or a route */

/**
 * struct rt_bare - what RDMA CM has of a peer
 * @id: it connects, or listens
 * @child: the connection that came to who listens
 * @param: what is offered
 * @done: the connection is made, or is refused
 * @last: how that ended
 */
struct rt_bare {
	struct rdma_cm_id *id;
	struct rdma_cm_id *child;
	struct rdma_conn_param param;
	struct completion done;
	enum rdma_cm_event_type last;
};

/* Runs under the id's handler lock. An error would have RDMA CM destroy the id. */
static int rt_bare_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct rt_bare *bare = id->context;
	int err = 0;

	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		err = rdma_resolve_route(id, RT_BARE_MS);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		err = rdma_connect_locked(id, &bare->param);
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (bare->child)
			return -EBUSY;
		bare->child = id;
		err = rdma_accept(id, &bare->param);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		rdma_accept(id, NULL);
		fallthrough;
	default:
		err = 1;	/* that is the end */
	}
	if (err) {
		bare->last = event->event;
		complete(&bare->done);
	}
	return 0;
}

static struct sockaddr_in rt_bare_addr(const char *addr, u16 port)
{
	return (struct sockaddr_in) {
		.sin_family = AF_INET,
		.sin_addr.s_addr = in_aton(addr),
		.sin_port = htons(port),
	};
}

/*
 * Each connection has a number of its own. RDMA CM takes a request with the number of
 * a connection whose end is still on its way for a stale one, and refuses it.
 */
static int rt_bare_open(struct rt_bare *bare, u8 reads, u8 asks)
{
	static atomic_t next = ATOMIC_INIT(RT_BARE_QPN);

	*bare = (struct rt_bare) {
		.param = {
			.private_data = &rt_hello,
			.private_data_len = sizeof(rt_hello),
			.responder_resources = reads,
			.initiator_depth = asks,
			.qp_num = atomic_fetch_dec(&next),
		},
	};
	init_completion(&bare->done);
	bare->id = rdma_create_id(&init_net, rt_bare_event, bare, RDMA_PS_TCP,
				  IB_QPT_RC);
	return PTR_ERR_OR_ZERO(bare->id);
}

static void rt_bare_close(struct rt_bare *bare)
{
	if (!IS_ERR_OR_NULL(bare->id))
		rdma_destroy_id(bare->id);
	if (bare->child)
		rdma_destroy_id(bare->child);
}

static int rt_bare_connect(struct rt_bare *bare, const char *from,
			   const char *to)
{
	struct sockaddr_in src = rt_bare_addr(from, 0);
	struct sockaddr_in dst = rt_bare_addr(to, RT_PORT);

	return rdma_resolve_addr(bare->id, (struct sockaddr *)&src,
				 (struct sockaddr *)&dst, RT_BARE_MS);
}

/* Return: how it ended; or a negative errno. */
static int rt_bare_end(struct rt_bare *bare)
{
	if (!wait_for_completion_timeout(&bare->done,
					 msecs_to_jiffies(RT_DEADLINE_MS)))
		return -ETIMEDOUT;
	return bare->last;
}

static int rt_bare_listen(struct rt_bare *bare)
{
	struct sockaddr_in at = rt_bare_addr(rt_second_address(), RT_PORT);
	int err;

	err = rdma_bind_addr(bare->id, (struct sockaddr *)&at);
	return err ? err : rdma_listen(bare->id, 1);
}

/* One that answers no reads, or one that asks for none. */
static void rt_bare_refused(struct rt *rt, bool reads)
{
	struct rt_bare bare;
	int end;

	end = rt_bare_open(&bare, reads, !reads);
	if (!end)
		end = rt_bare_connect(&bare, rt_second_address(), rt_address());
	if (!end)
		end = rt_bare_end(&bare);
	rt_bare_close(&bare);
	RT_EQ(rt, end, RDMA_CM_EVENT_REJECTED);
}

/* What is sent to it says at once that there is nobody. */
static void rt_bare_sent_to(struct rt *rt)
{
	struct kfi_cq_err_entry entry = { };
	struct rt_bare bare;
	kfi_addr_t addr;
	int err;

	RT_EQ(rt, rt_know(&rt->a, &addr), 1);
	err = rt_bare_open(&bare, 0, 0);
	if (!err)
		err = rt_bare_listen(&bare);
	if (!err)
		err = kfi_send(rt->a.ep, rt->a.buf, 8, NULL, addr, rt);
	if (!err)
		err = rt_error(&rt->a, &entry);
	rt_bare_close(&bare);
	RT_EQ(rt, err, 0);
	RT_EQ(rt, entry.err, KFI_EHOSTUNREACH);
}

static void rt_node_reads_nothing(struct rt *rt)
{
	RT_EQ(rt, rt_open(rt), 0);
	rt_bare_refused(rt, false);
	rt_bare_refused(rt, true);
	rt_bare_sent_to(rt);
	RT_EQ(rt, rt_talk(rt), 0);
}

/* Return: what a read from a peer that answers @reads says; a negative errno. */
static int rt_bare_read(struct rt_hostile *h, u8 reads)
{
	struct rt_bare bare;
	int err;

	err = rt_bare_open(&bare, reads, 0);
	if (!err)
		err = rt_bare_connect(&bare, rt_address(), rt_second_address());
	if (!err)
		err = rt_hostile_accept(h);
	if (!err)
		err = kfi_read(h->ep, h->msg, 8, NULL, 0, 0, 1, NULL);
	rt_hostile_close_ep(h);
	rt_bare_close(&bare);
	return err;
}

static void rt_peer_reads_nothing(struct rt *rt)
{
	struct rt_hostile h = { };
	int err, none = 0, one = -EIO;

	err = rt_hostile_open(&h, true);
	if (!err)
		err = rt_hostile_listen(&h);
	if (!err) {
		none = rt_bare_read(&h, 0);
		one = rt_bare_read(&h, 1);
	}
	rt_hostile_close(&h);
	RT_EQ(rt, err, 0);
	RT_EQ(rt, none, -EOPNOTSUPP);
	RT_EQ(rt, one, 0);
}

const struct rt_case rt_bare_cases[] = {
	{ "node_reads_nothing", rt_node_reads_nothing },
	{ "peer_reads_nothing", rt_peer_reads_nothing },
	{ }
};
