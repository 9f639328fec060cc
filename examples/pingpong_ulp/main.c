// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * An example of an upper-layer protocol (ULP): two kernel threads exchange
 * messages over connected endpoints. Each thread waits in kfi_wait() on one wait
 * set, whose members are an event queue, a completion queue and a counter of
 * receives.
 *
 *   listener			connector
 *   fabric, wait set, EQ	fabric, wait set, EQ
 *   passive endpoint		domain, CQ, counter, endpoint
 *   listen			connect
 *   KFI_CONNREQ: domain, CQ, counter, endpoint; accept
 *   KFI_CONNECTED		KFI_CONNECTED
 *   wait, answer, ...		send, wait, ...
 *   KFI_SHUTDOWN		shutdown
 *
 * /sys/module/pingpong_ulp/parameters/result has the result. poll() for POLLPRI
 * on this file returns when the exchange has ended.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "pingpong.h"

static unsigned int pp_count = 997;
module_param_named(count, pp_count, uint, 0444);
MODULE_PARM_DESC(count, "messages in each direction");

unsigned int pp_size = 64;
module_param_named(size, pp_size, uint, 0444);
MODULE_PARM_DESC(size, "bytes in a message");

static char *pp_role = "both";
module_param_named(role, pp_role, charp, 0444);
MODULE_PARM_DESC(role, "which side plays here: both, listen or connect");

static atomic_t pp_playing;

/* ---- The exchange ---- */

/*
 * A successful send has no completion. The send buffer is free when the peer's
 * answer has arrived, because the peer answers after it has the whole message.
 */
static int pp_send(struct pp_side *side, unsigned int turn)
{
	memset(pp_send_buf(side), (u8)turn, pp_size);
	return pp_post_send(side);
}

/*
 * The next receive is posted before the send that the peer answers. After the
 * last message none is posted: the end of the connection would flush it with an
 * error.
 */
static int pp_receive(struct pp_side *side, unsigned int turn)
{
	int err;

	side->expected = turn + 1;
	err = pp_await(side, pp_has_message);
	if (err)
		return err;
	if (memchr_inv(pp_recv_buf(side), (u8)turn, pp_size))
		return -EBADMSG;
	return side->expected < pp_count ? pp_post_recv(side) : 0;
}

static int pp_play_connector(struct pp_side *side)
{
	unsigned int turn;
	u64 began;
	int err;

	err = pp_connect(side);
	if (err)
		return err;
	err = pp_await(side, pp_is_connected);
	began = ktime_get_ns();
	for (turn = 0; !err && turn < pp_count; turn++) {
		err = pp_send(side, turn);
		if (!err)
			err = pp_receive(side, turn);
	}
	side->ns = ktime_get_ns() - began;
	if (err)
		return err;
	/* The last answer has arrived, so no message is in flight. */
	return kfi_shutdown(side->ep, 0);
}

static int pp_play_listener(struct pp_side *side)
{
	unsigned int turn;
	u64 began;
	int err;

	err = pp_await(side, pp_has_request);
	if (err)
		return err;
	err = pp_accept(side);
	if (err)
		return err;
	err = pp_await(side, pp_is_connected);
	began = ktime_get_ns();
	for (turn = 0; !err && turn < pp_count; turn++) {
		err = pp_receive(side, turn);
		if (!err)
			err = pp_send(side, turn);
	}
	side->ns = ktime_get_ns() - began;
	if (err)
		return err;
	/*
	 * A shutdown from here could overtake the last answer, so the peer shuts
	 * down. The peer may do so before it has acknowledged that answer. Then
	 * the send completes with an error although the answer has arrived.
	 */
	side->leaving = true;
	return pp_await(side, pp_is_closed);
}

static struct pp_side pp_listener = {
	.name = "listener",
	.play = pp_play_listener,
};

static struct pp_side pp_connector = {
	.name = "connector",
	.play = pp_play_connector,
};

/* ---- The result ---- */

static int pp_side_result(const struct pp_side *side, char *buf, size_t room)
{
	return scnprintf(buf, room,
			 "%s pid=%d error=%d waits=%u messages=%u counter=%llu ns=%llu\n",
			 side->name, task_pid_nr(side->task), side->err,
			 side->waits, side->received, side->counted, side->ns);
}

/* A side without a thread runs on another machine. It counts as passed. */
static bool pp_side_passed(const struct pp_side *side)
{
	if (!side->task)
		return true;
	return !side->err && side->received == pp_count &&
	       side->counted == pp_count;
}

static int pp_result_get(char *buf, const struct kernel_param *param)
{
	bool passed;
	int n;

	/* Pairs with the last side's atomic_dec_and_test(). */
	if (atomic_read_acquire(&pp_playing))
		return scnprintf(buf, PAGE_SIZE, "state=playing\n");

	passed = pp_side_passed(&pp_listener) && pp_side_passed(&pp_connector);
	n = scnprintf(buf, PAGE_SIZE, "state=%s\n",
		      passed ? "passed" : "failed");
	if (pp_listener.task)
		n += pp_side_result(&pp_listener, buf + n, PAGE_SIZE - n);
	if (pp_connector.task)
		n += pp_side_result(&pp_connector, buf + n, PAGE_SIZE - n);
	return n;
}

static const struct kernel_param_ops pp_result_ops = {
	.get = pp_result_get,
};
module_param_cb(result, &pp_result_ops, NULL, 0444);
MODULE_PARM_DESC(result, "how it went; notifies poll() when it has ended");

/* ---- The threads ---- */

static int pp_thread(void *arg)
{
	struct pp_side *side = arg;

	side->err = side->play(side);
	pp_close_all(side);
	if (side->err && side->err != -EINTR)
		pr_err("%s: %s (%d)\n", side->name, kfi_strerror(-side->err),
		       side->err);
	pr_info("%s: %u of %u messages, %u waits\n", side->name,
		side->received, pp_count, side->waits);
	if (atomic_dec_and_test(&pp_playing))
		sysfs_notify(&THIS_MODULE->mkobj.kobj, "parameters", "result");
	return 0;
}

/* The reference keeps the task for kthread_stop() after the thread has ended. */
static int pp_create(struct pp_side *side)
{
	struct task_struct *task;

	task = kthread_create(pp_thread, side, "pp_%s", side->name);
	if (IS_ERR(task))
		return PTR_ERR(task);
	side->task = get_task_struct(task);
	atomic_inc(&pp_playing);
	return 0;
}

/* kthread_stop() makes kfi_wait() return -EINTR. */
static void pp_stop(struct pp_side *side)
{
	if (!side->task)
		return;
	kthread_stop(side->task);
	put_task_struct(side->task);
}

/* Listens before the connector starts, and before the module is live. */
static int __init pp_begin_listener(void)
{
	int err = pp_listen(&pp_listener);

	return err ? err : pp_create(&pp_listener);
}

static int __init pp_init(void)
{
	bool both = !strcmp(pp_role, "both");
	int err = 0;

	if (!pp_count || !pp_size || pp_size > KMALLOC_MAX_SIZE / 2 ||
	    !(both || !strcmp(pp_role, "listen") ||
	      !strcmp(pp_role, "connect")))
		return -EINVAL;

	if (both || !strcmp(pp_role, "listen"))
		err = pp_begin_listener();
	if (!err && (both || !strcmp(pp_role, "connect")))
		err = pp_create(&pp_connector);
	if (err) {
		/* A created thread has not run. kthread_stop() ends it unrun. */
		pp_stop(&pp_listener);
		pp_close_all(&pp_listener);
		return err;
	}
	if (pp_listener.task)
		wake_up_process(pp_listener.task);
	if (pp_connector.task)
		wake_up_process(pp_connector.task);
	return 0;
}

static void __exit pp_exit(void)
{
	pp_stop(&pp_connector);
	pp_stop(&pp_listener);
}

module_init(pp_init);
module_exit(pp_exit);

MODULE_DESCRIPTION("Ping-pong between two kernel threads over kfabric");
MODULE_AUTHOR("The kfabric authors");
MODULE_LICENSE("Dual BSD/GPL");
