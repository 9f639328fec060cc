// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * One side for each module that is loaded; lnd.h says what it stands for.
 *
 * /sys/module/kfi_lnd/parameters/result has the result, and how far the traffic has come.
 * poll() for POLLPRI on this file returns when the traffic has ended.
 */
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/sched/task.h>
#include <linux/vmalloc.h>

#include "lnd.h"

#define LND_WITHDRAWS	101	/* of so many bulks, one is taken back before it is asked for */

static char *addr = "";
module_param(addr, charp, 0444);
MODULE_PARM_DESC(addr, "our node, as kfi_getinfo() takes it");

static char *peer = "";
module_param(peer, charp, 0444);
MODULE_PARM_DESC(peer, "the peer's node, as kfi_av_insertsvc() takes it");

static char *service = "0";
module_param(service, charp, 0444);
MODULE_PARM_DESC(service, "number of both endpoints");

static bool first;
module_param(first, bool, 0444);
MODULE_PARM_DESC(first, "this side drives");

static unsigned int messages = 1000;
module_param(messages, uint, 0444);
MODULE_PARM_DESC(messages, "immediate messages, to the server");

static unsigned int bulks = 100;
module_param(bulks, uint, 0444);
MODULE_PARM_DESC(bulks, "bulks of 1 MiB, every other one in each direction");

static struct lnd lnd = { .peer = KFI_ADDR_NOTAVAIL, .total = U64_MAX };
static struct task_struct *lnd_task;
static bool lnd_ended;
static u64 lnd_messages_ns, lnd_bulks_ns;

static bool lnd_stopped(void)
{
	return READ_ONCE(lnd.err) || kthread_should_stop();
}

/* Waits until a transaction is free. Return: NULL: an error, or no patience. */
static struct lnd_tn *lnd_tn_wait(bool bulk)
{
	struct lnd_tn *tn = NULL;
	long left;

	left = wait_event_idle_timeout(lnd.changed, lnd_stopped() ||
				       (tn = lnd_tn_get(&lnd, bulk)),
				       LND_PATIENCE);
	if (!left)
		cmpxchg(&lnd.err, 0, -ETIMEDOUT);
	return tn;
}

static bool lnd_await(bool *what)
{
	if (!wait_event_idle_timeout(lnd.changed,
				     lnd_stopped() || READ_ONCE(*what),
				     LND_PATIENCE))
		cmpxchg(&lnd.err, 0, -ETIMEDOUT);
	return READ_ONCE(*what);
}

static bool lnd_idle(void)
{
	return !READ_ONCE(lnd.busy) || READ_ONCE(lnd.lost);
}

/* Each operation ends, whatever became of the peer, unless the device is lost. */
static void lnd_settle(void)
{
	if (!wait_event_idle_timeout(lnd.changed, lnd_idle(), LND_PATIENCE))
		cmpxchg(&lnd.err, 0, -ETIMEDOUT);
}

static void lnd_say(enum lnd_type type, u64 seq, u64 number)
{
	struct lnd_tn *tn = lnd_tn_wait(false);

	if (!tn)
		return;
	tn->cpt = &lnd.cpts[number % LND_CPTS];
	lnd_start(tn, LND_SEND, type, seq);
}

static void lnd_bulk(unsigned int number)
{
	struct lnd_tn *tn = lnd_tn_wait(true);
	bool put = number & 1;
	int i;

	if (!tn)
		return;
	tn->cpt = &lnd.cpts[number / 2 % LND_CPTS];
	/* A session key and a number, of which 48 bits count. */
	tn->tag = ((u64)0x5eed << 16 | (number & 0xffff)) & GENMASK_ULL(47, 0);
	for (i = 0; i < LND_PAGES; i++)
		lnd_fill(page_address(tn->pages[i]), PAGE_SIZE,
			 put ? number + i : ~0ULL);
	if (number % LND_WITHDRAWS == LND_WITHDRAWS - 1)
		lnd_start(tn, LND_WITHDRAW, 0, number);
	else
		lnd_start(tn, LND_OFFER, put ? LND_PUT : LND_GET, number);
}

static void lnd_drive(void)
{
	unsigned int i;
	u64 began;

	lnd_say(LND_HELLO, 0, 0);
	if (!lnd_await(&lnd.hello))
		return;
	began = ktime_get_ns();
	for (i = 0; i < messages && !lnd_stopped(); i++) {
		lnd_say(LND_IMMEDIATE, i, i);
		WRITE_ONCE(lnd.said, i + 1);
	}
	lnd_settle();
	lnd_messages_ns = ktime_get_ns() - began;
	began = ktime_get_ns();
	for (i = 0; i < bulks && !lnd_stopped(); i++)
		lnd_bulk(i);
	lnd_settle();
	lnd_bulks_ns = ktime_get_ns() - began;
	lnd_say(LND_END, messages, 0);
	lnd_await(&lnd.ended);
}

/* The server waits for the end that the driver reports, or for an error. */
static int lnd_run(void *unused)
{
	if (first)
		lnd_drive();
	else
		wait_event_idle(lnd.changed, lnd_stopped() || READ_ONCE(lnd.ended));
	lnd_settle();
	/* Pairs with lnd_state(): the numbers are complete. */
	smp_store_release(&lnd_ended, true);
	sysfs_notify(&THIS_MODULE->mkobj.kobj, "parameters", "result");
	return 0;
}

static const char *lnd_state(void)
{
	/* Pairs with lnd_run(). */
	if (!smp_load_acquire(&lnd_ended))
		return "playing";
	return !lnd.err && lnd.ended ? "passed" : "failed";
}

static int lnd_result_get(char *buf, const struct kernel_param *param)
{
	return scnprintf(buf, PAGE_SIZE,
			 "state=%s\n%s error=%d said=%u came=%llu bulks=%u refused=%u withdrawn=%u requests=%u messages_ns=%llu bulks_ns=%llu\n",
			 lnd_state(), first ? "driver" : "server", lnd.err,
			 READ_ONCE(lnd.said), lnd.came, lnd.bulks, lnd.refused,
			 lnd.withdrawn, lnd.requests, lnd_messages_ns,
			 lnd_bulks_ns);
}

static const struct kernel_param_ops lnd_result_ops = {
	.get = lnd_result_get,
};
module_param_cb(result, &lnd_result_ops, NULL, 0444);
MODULE_PARM_DESC(result, "how it went; notifies poll() when it has ended");

static void lnd_free(void)
{
	lnd_close(&lnd);
	lnd_tns_free(&lnd);
	vfree(lnd.seen);
}

static int __init lnd_init(void)
{
	int err;

	if (messages > LND_MAX)
		return -EINVAL;
	err = lnd_tns_new(&lnd);
	lnd.seen = vzalloc(LND_MAX / 8);
	if (!err && !lnd.seen)
		err = -ENOMEM;
	if (!err)
		err = lnd_open(&lnd, addr, service, peer);
	if (err)
		goto out;
	lnd_task = kthread_create(lnd_run, NULL, "kfi_lnd");
	err = PTR_ERR_OR_ZERO(lnd_task);
	if (err)
		goto out;
	get_task_struct(lnd_task);
	wake_up_process(lnd_task);
	return 0;

out:
	lnd_free();
	return err;
}

static void __exit lnd_exit(void)
{
	/* kthread_stop() wakes the thread, which looks whether it should stop. */
	kthread_stop(lnd_task);
	put_task_struct(lnd_task);
	cancel_delayed_work_sync(&lnd.retry);
	lnd_free();
}

module_init(lnd_init);
module_exit(lnd_exit);

MODULE_DESCRIPTION("A stand-in for ULPs of large storage networks");
MODULE_AUTHOR("The kfabric authors");
MODULE_LICENSE("Dual BSD/GPL");
