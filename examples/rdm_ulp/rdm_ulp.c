// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * An example of an upper-layer protocol (ULP) without connections: two kernel
 * threads exchange tagged messages between two RDM endpoints. Each thread waits
 * in kfi_wait() on a wait set with its completion queue. The address vector has
 * the address of the peer. kfi_cq_readfrom() returns the source of each message.
 *
 *	open fabric, wait set, domain, address vector, CQ, endpoint
 *	bind, enable
 *	insert the address of the other side into the address vector
 *	post a receive, wait, post the next receive, answer, ...
 *
 * With the parameter peer, only one side runs here. The other side runs on the
 * other machine.
 *
 * /sys/module/rdm_ulp/parameters/result has the result. poll() for POLLPRI on
 * this file returns when the exchange has ended.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/in.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include <kfabric.h>
#include <kfi_cm.h>
#include <kfi_domain.h>
#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <kfi_errno.h>
#include <kfi_tagged.h>

static char *addr = "";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "IP address of the RDMA device");

static char *peer = "";
module_param(peer, charp, 0444);
MODULE_PARM_DESC(peer, "IP address of the other machine; none: both sides play here");

static char *port = "7474";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "with a peer: port of the endpoints, on both machines");

static bool first;
module_param(first, bool, 0444);
MODULE_PARM_DESC(first, "with a peer: this side begins, once the other one is loaded");

static unsigned int count = 997;
module_param(count, uint, 0444);
MODULE_PARM_DESC(count, "messages in each direction");

static unsigned int size = 64;
module_param(size, uint, 0444);
MODULE_PARM_DESC(size, "bytes in a message");

static unsigned int timeout_ms = 10000;
module_param(timeout_ms, uint, 0444);
MODULE_PARM_DESC(timeout_ms, "the longest time without the next message");

/**
 * struct ru_side - one of the two sides
 * @name: name in the result
 * @first: this side sends the first message
 * @info: attributes of the objects
 * @fabric: the fabric
 * @wait: the wait set that the thread waits on
 * @domain: the domain
 * @av: the address vector, with the address of the other side
 * @cq: the completion queue, a member of @wait
 * @ep: the endpoint
 * @buf: send buffer of size bytes, then receive buffer of size bytes
 * @peer: address of the other side in @av
 * @received: number of received messages
 * @sent: the last send has completed
 * @waits: calls of kfi_wait() that returned 0
 * @ns: time from the end of the first turn, which sets up the connection, to the
 *	last message
 * @err: 0 or a negative errno, when the thread has ended
 * @task: the thread
 */
struct ru_side {
	const char *name;
	bool first;
	struct kfi_info *info;
	struct kfid_fabric *fabric;
	struct kfid_wait *wait;
	struct kfid_domain *domain;
	struct kfid_av *av;
	struct kfid_cq *cq;
	struct kfid_ep *ep;
	u8 *buf;
	kfi_addr_t peer;
	unsigned int received;
	bool sent;
	unsigned int waits;
	u64 ns;
	int err;
	struct task_struct *task;
};

static struct ru_side ru_sides[] = {
	{ .name = "pong" },
	{ .name = "ping", .first = true },
};

/* Number of running sides. The result can be read before they start. */
static atomic_t ru_playing = ATOMIC_INIT(ARRAY_SIZE(ru_sides));

static bool ru_is_here(const struct ru_side *side)
{
	return !*peer || side->first == first;
}

/* ---- Opening: parents first; everything is bound before enabling ---- */

static int ru_getinfo(struct ru_side *side)
{
	struct kfi_info *hints = kfi_allocinfo();
	int err;

	if (!hints)
		return -ENOMEM;
	hints->caps = KFI_TAGGED | KFI_SOURCE;
	hints->ep_attr->type = KFI_EP_RDM;
	hints->addr_format = KFI_SOCKADDR_IN;
	/* Without a port, the endpoint gets a free port. */
	err = kfi_getinfo(KFI_VERSION(1, 7), addr, *peer ? port : NULL,
			  KFI_SOURCE, hints, &side->info);
	kfi_freeinfo(hints);
	return err;
}

static int ru_open_queue(struct ru_side *side)
{
	struct kfi_wait_attr wait_attr = { .wait_obj = KFI_WAIT_QUEUE };
	struct kfi_cq_attr cq_attr = {
		.format = KFI_CQ_FORMAT_TAGGED,
		.wait_obj = KFI_WAIT_SET,
	};
	int err;

	err = kfi_wait_open(side->fabric, &wait_attr, &side->wait);
	if (err)
		return err;
	err = kfi_domain(side->fabric, side->info, &side->domain, NULL);
	if (err)
		return err;
	cq_attr.wait_set = side->wait;
	return kfi_cq_open(side->domain, &cq_attr, &side->cq, NULL, side);
}

static int ru_open_ep(struct ru_side *side)
{
	struct kfi_av_attr av_attr = { .type = KFI_AV_MAP, .count = 1 };
	int err;

	err = kfi_av_open(side->domain, &av_attr, &side->av, NULL);
	if (err)
		return err;
	err = kfi_endpoint(side->domain, side->info, &side->ep, side);
	if (err)
		return err;
	err = kfi_ep_bind(side->ep, &side->av->fid, 0);
	if (err)
		return err;
	err = kfi_ep_bind(side->ep, &side->cq->fid, KFI_RECV);
	if (err)
		return err;
	/* The answer proves that a message has arrived; no CQ entry needed. */
	err = kfi_ep_bind(side->ep, &side->cq->fid,
			  KFI_TRANSMIT | KFI_SELECTIVE_COMPLETION);
	if (err)
		return err;
	/* From now on the endpoint has an address and receives messages. */
	return kfi_enable(side->ep);
}

static int ru_open(struct ru_side *side)
{
	int err;

	side->buf = kzalloc(2 * size, GFP_KERNEL);
	if (!side->buf)
		return -ENOMEM;
	err = ru_getinfo(side);
	if (!err)
		err = kfi_fabric(side->info->fabric_attr, &side->fabric, NULL);
	if (!err)
		err = ru_open_queue(side);
	return err ? err : ru_open_ep(side);
}

/* Inserts the address of the other side. If that side is here, it is open. */
static int ru_introduce(struct ru_side *side)
{
	struct ru_side *other = &ru_sides[!side->first];
	struct sockaddr_in name;
	size_t len = sizeof(name);
	int n;

	if (*peer) {
		/* Another machine: both sides use the same port. */
		n = kfi_av_insertsvc(side->av, peer, port, &side->peer, 0,
				     NULL);
		return n == 1 ? 0 : -EADDRNOTAVAIL;
	}
	n = kfi_getname(&other->ep->fid, &name, &len);
	if (n)
		return n;
	n = kfi_av_insert(side->av, &name, 1, &side->peer, 0, NULL);
	return n == 1 ? 0 : -EADDRNOTAVAIL;
}

/* In the reverse order of the dependencies. */
static void ru_close(struct ru_side *side)
{
	if (side->ep)
		kfi_close(&side->ep->fid);
	if (side->av)
		kfi_close(&side->av->fid);
	if (side->cq)
		kfi_close(&side->cq->fid);
	if (side->domain)
		kfi_close(&side->domain->fid);
	if (side->wait)
		kfi_close(&side->wait->kfid);
	if (side->fabric)
		kfi_close(&side->fabric->fid);
	kfi_freeinfo(side->info);
	kfree(side->buf);
}

/* ---- The exchange ---- */

/* Empties the CQ. The thread may wait only after that. */
static int ru_look(struct ru_side *side)
{
	struct kfi_cq_tagged_entry entry;
	struct kfi_cq_err_entry err;
	kfi_addr_t src;
	ssize_t n;

	while ((n = kfi_cq_readfrom(side->cq, &entry, 1, &src)) > 0) {
		if (entry.flags & KFI_SEND) {
			side->sent = true;
			continue;
		}
		if (src != side->peer || entry.tag != side->received)
			return -EBADMSG;
		side->received++;
	}
	if (n != -KFI_EAVAIL)
		return n == -KFI_EAGAIN ? 0 : n;
	n = kfi_cq_readerr(side->cq, &err, 0);
	return n < 0 ? n : -err.err;
}

static bool ru_has_message(const struct ru_side *side, unsigned int turn)
{
	return side->received > turn;
}

static bool ru_has_sent(const struct ru_side *side, unsigned int turn)
{
	return side->sent;
}

/* The wait loop; pp_await() in examples/pingpong_ulp explains it. */
static int ru_await(struct ru_side *side, unsigned int turn,
		    bool (*there)(const struct ru_side *side,
				  unsigned int turn))
{
	ktime_t deadline = ktime_add_ms(ktime_get(), timeout_ms);
	s64 left;
	int err;

	while (!there(side, turn)) {
		left = ktime_ms_delta(deadline, ktime_get());
		err = kfi_wait(side->wait, clamp_t(s64, left, 0, INT_MAX));
		if (err)
			return err;
		side->waits++;
		err = ru_look(side);
		if (err)
			return err;
	}
	return 0;
}

/* The buffer is free, because the peer has answered the previous message. */
static int ru_send(struct ru_side *side, unsigned int turn)
{
	struct kvec iov = { .iov_base = side->buf, .iov_len = size };
	struct kfi_msg_tagged msg = {
		.type = KFI_KVEC,
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = side->peer,
		.tag = turn,
		.context = side,
	};

	memset(side->buf, (u8)turn, size);
	/* The last message may have no answer, so it has a completion. */
	return kfi_tsendmsg(side->ep, &msg,
			    turn + 1 == count ? KFI_COMPLETION : 0);
}

/*
 * The endpoint buffers a message that arrives before its receive. The receive is
 * posted before the send that the peer answers, to avoid the additional copy.
 */
static int ru_post(struct ru_side *side, unsigned int turn)
{
	if (turn == count)
		return 0;
	return kfi_trecv(side->ep, side->buf + size, size, NULL,
			 KFI_ADDR_UNSPEC, turn, 0, side);
}

static int ru_receive(struct ru_side *side, unsigned int turn)
{
	int err = ru_await(side, turn, ru_has_message);

	if (err)
		return err;
	if (memchr_inv(side->buf + size, (u8)turn, size))
		return -EBADMSG;
	return ru_post(side, turn + 1);
}

static int ru_turn(struct ru_side *side, unsigned int turn)
{
	int err;

	err = side->first ? ru_send(side, turn) : ru_receive(side, turn);
	if (err)
		return err;
	return side->first ? ru_receive(side, turn) : ru_send(side, turn);
}

static int ru_play(struct ru_side *side)
{
	u64 began = 0;
	unsigned int turn;
	int err;

	err = ru_post(side, 0);
	for (turn = 0; !err && turn < count; turn++) {
		err = ru_turn(side, turn);
		if (!turn)
			began = ktime_get_ns();
	}
	side->ns = ktime_get_ns() - began;
	/* Closing would drop operations in flight. */
	return err ? err : ru_await(side, 0, ru_has_sent);
}

static int ru_thread(void *arg)
{
	struct ru_side *side = arg;

	side->err = ru_play(side);
	if (atomic_dec_and_test(&ru_playing))
		sysfs_notify(&THIS_MODULE->mkobj.kobj, "parameters", "result");
	return 0;
}

static int ru_side_result(const struct ru_side *side, char *buf, size_t room)
{
	return scnprintf(buf, room,
			 "%s pid=%d error=%d waits=%u messages=%u ns=%llu\n",
			 side->name, task_pid_nr(side->task), side->err,
			 side->waits, side->received, side->ns);
}

static int ru_result_get(char *buf, const struct kernel_param *param)
{
	bool passed = true;
	int i, n;

	/* Pairs with the last side's atomic_dec_and_test(). */
	if (atomic_read_acquire(&ru_playing))
		return scnprintf(buf, PAGE_SIZE, "state=playing\n");
	for (i = 0; i < ARRAY_SIZE(ru_sides); i++)
		passed &= !ru_sides[i].err;
	n = scnprintf(buf, PAGE_SIZE, "state=%s\n",
		      passed ? "passed" : "failed");
	for (i = 0; i < ARRAY_SIZE(ru_sides); i++)
		if (ru_sides[i].task)
			n += ru_side_result(&ru_sides[i], buf + n,
					    PAGE_SIZE - n);
	return n;
}

static const struct kernel_param_ops ru_result_ops = {
	.get = ru_result_get,
};
module_param_cb(result, &ru_result_ops, NULL, 0444);
MODULE_PARM_DESC(result, "how it went; notifies poll() when it has ended");

/* ---- The module ---- */

/* The reference keeps the task for kthread_stop() after the thread has ended. */
static int ru_create(struct ru_side *side)
{
	struct task_struct *task;

	task = kthread_create(ru_thread, side, "ru_%s", side->name);
	if (IS_ERR(task))
		return PTR_ERR(task);
	side->task = get_task_struct(task);
	return 0;
}

static void ru_stop(struct ru_side *side)
{
	if (!side->task)
		return;
	kthread_stop(side->task);
	put_task_struct(side->task);
}

/* A side that does not run here has no open objects. */
static void ru_end(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ru_sides); i++)
		ru_stop(&ru_sides[i]);
	for (i = 0; i < ARRAY_SIZE(ru_sides); i++)
		ru_close(&ru_sides[i]);
}

/* Calls @what for each side that runs here, up to the first failure. */
static int __init ru_each(int (*what)(struct ru_side *side))
{
	int i, err = 0;

	for (i = 0; !err && i < ARRAY_SIZE(ru_sides); i++)
		if (ru_is_here(&ru_sides[i]))
			err = what(&ru_sides[i]);
	return err;
}

static int __init ru_wake(struct ru_side *side)
{
	wake_up_process(side->task);
	return 0;
}

static int __init ru_init(void)
{
	int err;

	if (!count || !size || size > KMALLOC_MAX_SIZE / 2)
		return -EINVAL;
	if (*peer)
		atomic_set(&ru_playing, 1);
	err = ru_each(ru_open);
	if (!err)
		err = ru_each(ru_introduce);
	if (!err)
		err = ru_each(ru_create);
	if (err) {
		ru_end();
		return err;
	}
	return ru_each(ru_wake);
}

static void __exit ru_exit(void)
{
	ru_end();
}

module_init(ru_init);
module_exit(ru_exit);

MODULE_DESCRIPTION("Tagged ping-pong between two RDM endpoints over kfabric");
MODULE_AUTHOR("The kfabric authors");
MODULE_LICENSE("Dual BSD/GPL");
