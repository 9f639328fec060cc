// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Life of a connection between two nodes: begin, accept, abort, close, destroy.
 *
 * A connection begins in kfr_conn_new(), either because an endpoint has a
 * request for an address without one (node.c), or because a peer's connect
 * request has arrived (kfr_conn_arrive()). CM callbacks move it to KFR_UP; then
 * the pump posts what has been queued meanwhile. A failed connection is not
 * repaired: the next request begins another one.
 *
 *   active side			passive side
 *   kfr_conn_setup(): resolve address
 *   ADDR_RESOLVED: resolve route
 *   ROUTE_RESOLVED: queue pair, connect
 *					CONNECT_REQUEST: kfr_conn_arrive():
 *					queue pair, accept; KFR_ACCEPTED
 *   ESTABLISHED: KFR_UP, pump
 *					ESTABLISHED, or the first message,
 *					whichever is first: KFR_UP, pump
 *
 * An idle connection ends by agreement: this side sends LEAVE, and the peer ends
 * it if it has nothing under way either (kfr_conn_expire(), kfr_conn_left()).
 *
 * kfr_conn_abort() ends it at once, from any context; kfr_conn_close() lets
 * queued replies go first. Both unlink it from its node and queue the work item
 * @destroy, which alone gives back what the device gave. The initial reference
 * belongs to that work item.
 */
#include <linux/in.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>
#include <rdma/ib_addr.h>
#include <rdma/ib_cm.h>

#include "../../compat.h"
#include "rdm.h"

static unsigned int rdm_idle_s = 300;
module_param(rdm_idle_s, uint, 0644);
MODULE_PARM_DESC(rdm_idle_s, "how long a connection may be idle before it is ended (s; 0: for ever)");

static void kfr_conn_release(struct kref *ref)
{
	struct kfr_conn *conn = container_of(ref, struct kfr_conn, ref);
	struct kfr_flow *flow;
	struct hlist_node *next;
	unsigned int i;

	/* Parked operations failed in kfr_op_fail_all(): the flows are empty. */
	hash_for_each_safe(conn->flows, i, next, flow, link)
		kfree(flow);
	mutex_destroy(&conn->ctl);
	kfr_node_put(conn->node);
	kfree(conn->lines);
	kfree(conn);
}

/**
 * kfr_conn_get() - take a reference
 * @conn: a connection that the caller has a reference to, or finds on a list
 *	whose lock it holds
 *
 * Context: any.
 */
void kfr_conn_get(struct kfr_conn *conn)
{
	kref_get(&conn->ref);
}

/**
 * kfr_conn_put() - drop a reference; the last one frees the memory
 * @conn: the connection
 *
 * The device's objects are gone by then: kfr_conn_destroy() holds the initial
 * reference until it has freed them.
 *
 * Context: any.
 */
void kfr_conn_put(struct kfr_conn *conn)
{
	kref_put(&conn->ref, kfr_conn_release);
}

/**
 * kfr_posted_put() - a work request has completed, or was not posted
 * @conn: the connection, which may be freed as soon as this returns unless the
 *	caller holds a reference
 *
 * Context: any.
 */
void kfr_posted_put(struct kfr_conn *conn)
{
	if (atomic_dec_and_test(&conn->posted))
		complete_all(&conn->drained);
}

/**
 * kfr_conn_enter() - keep the device's objects of a connection for a while
 * @conn: the connection, referenced, and not dead
 *
 * Context: any; the caller holds the connection's lock. The end of the connection waits
 * for kfr_conn_leave(), without a limit.
 */
void kfr_conn_enter(struct kfr_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	atomic_inc(&conn->inside);
}

/**
 * kfr_conn_leave() - the mirror of kfr_conn_enter()
 * @conn: the connection, referenced
 *
 * Context: any.
 */
void kfr_conn_leave(struct kfr_conn *conn)
{
	if (atomic_dec_and_test(&conn->inside))
		wake_up_var(&conn->inside);
}

/* Log only the causes that point to a faulty or foreign peer. */
static void kfr_conn_log_abort(const struct kfr_conn *conn, int prov_errno)
{
	if (prov_errno != KFR_ERR_PROTOCOL && prov_errno != KFR_ERR_FLOOD &&
	    prov_errno != KFR_ERR_VERSION)
		return;
	dev_notice_ratelimited(&conn->node->dev->ib->dev,
			       "kfi_verbs: connection with %pI4: %s\n",
			       &conn->remote, kfr_strerror(prov_errno));
}

/*
 * The work item @destroy is queued once in the life of a connection. The caller
 * that gets true must queue it after it has dropped the lock.
 */
static bool kfr_conn_claim_destroy(struct kfr_conn *conn)
{
	bool first = !conn->destroy_queued;

	lockdep_assert_held(&conn->lock);
	conn->destroy_queued = true;
	return first;
}

static void kfr_conn_queue_destroy(struct kfr_conn *conn)
{
	kfv_queue_work(conn->node->dev->conns, &conn->destroy);
}

/**
 * kfr_conn_abort() - a connection fails, or is made to fail
 * @conn: the connection, referenced; nothing happens if it is dead
 * @err: errno for all operations on it
 * @prov_errno: more exactly
 *
 * It is dead when this returns: no thread posts on it except one that is just
 * doing so. Operations and jobs fail later, in its work item, when the device
 * has returned all work requests. A connection of the node to itself takes its
 * other end with it.
 *
 * Context: any; does not sleep; no spinlock held.
 */
void kfr_conn_abort(struct kfr_conn *conn, int err, int prov_errno)
{
	struct kfr_conn *twin = NULL;
	bool destroy = false;
	unsigned long irq;

	/* Once @destroy is claimed, nobody else queues it, and others wait for that. */
	kfi_preempt_off();
	spin_lock_irqsave(&conn->lock, irq);
	if (conn->state != KFR_DEAD) {
		WRITE_ONCE(conn->state, KFR_DEAD);
		kfr_conn_count(conn);
		conn->err = err;
		conn->prov_errno = prov_errno;
		destroy = kfr_conn_claim_destroy(conn);
		twin = conn->twin;
		if (twin)
			kfr_conn_get(twin);
		kfr_conn_log_abort(conn, prov_errno);
	}
	complete_all(&conn->idle);
	spin_unlock_irqrestore(&conn->lock, irq);

	kfr_node_unlink(conn);
	if (destroy)
		kfr_conn_queue_destroy(conn);
	if (twin) {
		kfr_conn_abort(twin, err, prov_errno);
		kfr_conn_put(twin);
	}
	kfi_preempt_on();
}

/**
 * kfr_conn_close() - end a connection that is not needed any more
 * @conn: the connection, referenced
 *
 * It stays up until queued replies are sent or KFR_FLUSH_TIME has passed, see
 * kfr_conn_flush().
 *
 * Context: any; does not sleep; no spinlock held.
 */
void kfr_conn_close(struct kfr_conn *conn)
{
	unsigned long irq;
	bool destroy;

	kfi_preempt_off();
	spin_lock_irqsave(&conn->lock, irq);
	destroy = kfr_conn_claim_destroy(conn);
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_node_unlink(conn);
	if (destroy)
		kfr_conn_queue_destroy(conn);
	kfi_preempt_on();
}

/**
 * kfr_conn_discard() - end a connection that was not started
 * @conn: new, and known to the caller alone, as it holds the node's lock
 *
 * Context: any.
 */
void kfr_conn_discard(struct kfr_conn *conn)
{
	conn->destroy_queued = true;
	kfr_conn_queue_destroy(conn);
}

/*
 * Send the queued replies before the queue pair goes. Otherwise the peer would
 * report operations as failed that have succeeded here. The pump completes
 * @idle; so does kfr_conn_abort().
 */
static void kfr_conn_flush(struct kfr_conn *conn)
{
	spin_lock_irq(&conn->lock);
	if (conn->state != KFR_UP || kfv_gone(conn->node->dev)) {
		spin_unlock_irq(&conn->lock);
		return;
	}
	conn->flushing = true;
	if (conn->acked != conn->rx_seq)
		conn->ack_due = true;
	spin_unlock_irq(&conn->lock);
	kfr_pump(conn);
	wait_for_completion_timeout(&conn->idle, KFR_FLUSH_TIME);
}

/*
 * No thread enters any more, as the connection is dead. Those inside wait for nothing, but
 * where the kernel takes the CPU from them (PREEMPT_RT) this may take any time.
 * noinline: the stack of a work item that waits long says for what.
 */
static noinline void kfr_conn_wait_inside(struct kfr_conn *conn)
{
	wait_var_event(&conn->inside, !atomic_read_acquire(&conn->inside));
}

/*
 * Make the device return all work requests. In the error state each of them
 * completes with a flush error; the last completion drops @posted to 0. Until
 * then the device may access wire buffers, and what ULPs have posted. If it is
 * late, destroying the queue pair ends that, before any operation is reported.
 * Only the device has a limit: threads that post or unmap are waited for.
 */
static void kfr_conn_drain(struct kfr_conn *conn)
{
	struct ib_qp_attr attr = { .qp_state = IB_QPS_ERR };

	if (conn->qp)
		ib_modify_qp(conn->qp, &attr, IB_QP_STATE);
	kfr_conn_wait_inside(conn);
	kfr_posted_put(conn);
	if (!wait_for_completion_timeout(&conn->drained, KFV_DRAIN_TIME))
		dev_err(&conn->node->dev->ib->dev,
			"kfi_verbs: the device has kept %d work requests, their queue pair is destroyed\n",
			atomic_read(&conn->posted));
	if (conn->qp)
		rdma_destroy_qp(conn->id);
	/* From now on, kfr_job_done() leaves no failed job to kfr_conn_fail(). */
	WRITE_ONCE(conn->qp, NULL);
	/* Destroying it may complete what was left (rxe_qp_do_cleanup()). */
	wait_for_completion_timeout(&conn->drained, KFV_DRAIN_TIME);
}

/*
 * Fail what was queued. The connection is dead and drained, so neither the pump
 * nor a completion touches its queues any more, and no new work is accepted.
 * The timer and the delayed work items are stopped first, as they call the pump.
 * kfr_ctl_drop_all() relies on kfr_op_fail_all(), which takes operations off
 * the same queue. Receive contexts forget the connection last, so nothing adds
 * a flow after that.
 */
static void kfr_conn_fail(struct kfr_conn *conn)
{
	hrtimer_cancel(&conn->ack_timer);
	cancel_delayed_work_sync(&conn->probe);
	cancel_delayed_work_sync(&conn->expire);
	cancel_delayed_work_sync(&conn->abandoned);
	cancel_delayed_work_sync(&conn->unready);
	kfr_job_fail_all(conn);
	kfr_op_fail_all(conn);
	kfr_ctl_drop_all(conn);
	kfr_node_forget(conn->node, conn);
}

/*
 * The last step, when it is the owner's turn; directly without an id. The owner may begin
 * another connection, and the device's removal may return.
 */
static void kfr_conn_free(struct kfv_turn *turn)
{
	struct kfr_conn *conn = container_of(turn, struct kfr_conn, turn);

	if (conn->id)
		kfv_id_destroy(conn->node->dev, conn->id);
	spin_lock_irq(&conn->lock);
	kfr_conn_uncount(conn);
	spin_unlock_irq(&conn->lock);
	kfr_conn_uncharge(conn->node, conn->by);
	kfr_slot_free(conn);
	kfr_node_unuse(conn->node);
	/* If the drain failed, a late completion needs the memory: leak it. */
	if (completion_done(&conn->drained))
		kfr_conn_put(conn);
	module_put(THIS_MODULE);
}

/*
 * Work item, queued once. The order matters:
 *
 *   flush	while the connection is still up
 *   abort	no new work; posting ends
 *   ctl	kfr_conn_setup() has made @id, or never will
 *   handler	a CM callback that saw the old state has returned
 *   drain	the device touches no buffer any more, and has no queue pair
 *   fail	operations and jobs are reported, buffers are unmapped
 *   free	registrations, wire buffers; then kfr_conn_free()
 *
 * The twin's reference is dropped late; its own work item destroys it. The reference on the
 * module goes to the last step.
 */
static void kfr_conn_destroy(struct work_struct *work)
{
	struct kfr_conn *conn = container_of(work, struct kfr_conn, destroy);
	struct kfr_conn *twin;
	struct rdma_cm_id *id;

	kfr_conn_flush(conn);
	kfr_conn_abort(conn, ENOTCONN, KFR_ERR_LOCAL);

	mutex_lock(&conn->ctl);
	spin_lock_irq(&conn->lock);
	id = conn->id;
	twin = conn->twin;
	conn->twin = NULL;
	spin_unlock_irq(&conn->lock);
	mutex_unlock(&conn->ctl);
	if (id) {
		rdma_lock_handler(id);
		rdma_unlock_handler(id);
	}

	kfr_conn_drain(conn);
	kfi_test_hook_point(KFI_HOOK_D9, 0);
	kfr_conn_fail(conn);
	kfr_qp_free(conn);
	if (twin)
		kfr_conn_put(twin);
	conn->turn.owner = conn->by ?: be32_to_cpu(conn->remote);
	if (id)
		kfv_turn_wait(conn->node->dev, &conn->turn);
	else
		kfr_conn_free(&conn->turn);
}

static void kfr_conn_init_lists(struct kfr_conn *conn)
{
	INIT_LIST_HEAD(&conn->silent);
	INIT_LIST_HEAD(&conn->free_wire);
	INIT_LIST_HEAD(&conn->free_regs);
	INIT_LIST_HEAD(&conn->free_ctls);
	INIT_LIST_HEAD(&conn->urgent);
	INIT_LIST_HEAD(&conn->data);
	INIT_LIST_HEAD(&conn->reqs);
	INIT_LIST_HEAD(&conn->again);
	INIT_LIST_HEAD(&conn->expected);
	INIT_LIST_HEAD(&conn->lanes);
	INIT_LIST_HEAD(&conn->sent_numbered);
	INIT_LIST_HEAD(&conn->sent_by_id);
	INIT_LIST_HEAD(&conn->ending);
	INIT_LIST_HEAD(&conn->jobs);
}

static int kfr_lines_make(struct kfr_conn *conn)
{
	struct kfr_line *line;

	conn->lines = kcalloc(KFR_SHARES, sizeof(*conn->lines),
			      GFP_ATOMIC | __GFP_NOWARN);
	if (!conn->lines)
		return -ENOMEM;
	for (line = conn->lines; line < conn->lines + KFR_SHARES; line++) {
		INIT_LIST_HEAD(&line->reqs);
		INIT_LIST_HEAD(&line->reqs_turn);
		INIT_LIST_HEAD(&line->again);
		INIT_LIST_HEAD(&line->again_turn);
	}
	return 0;
}

static void kfr_conn_setup(struct work_struct *work);
static void kfr_conn_expire(struct work_struct *work);

/**
 * kfr_conn_new() - allocate a connection
 * @node: the local node, not stopped
 * @remote: the peer's address
 * @passive: the peer begins it
 *
 * It is not linked and not started. The initial reference belongs to the work
 * item @destroy, which kfr_conn_abort(), kfr_conn_close() or kfr_conn_discard()
 * queues.
 *
 * Context: any; the node's lock may be held.
 * Return: the connection, or NULL: no memory.
 */
struct kfr_conn *kfr_conn_new(struct kfr_node *node, __be32 remote,
			      bool passive)
{
	struct kfr_conn *conn = kzalloc(sizeof(*conn),
					GFP_ATOMIC | __GFP_NOWARN);

	if (!conn || kfr_lines_make(conn)) {
		kfree(conn);
		return NULL;
	}
	kref_init(&conn->ref);
	kref_get(&node->ref);
	refcount_inc(&node->halves);
	conn->node = node;
	conn->remote = remote;
	conn->passive = passive;
	conn->slot = ULONG_MAX;
	conn->begun = ktime_get();
	conn->seen_at = jiffies;
	conn->heard_at = jiffies;
	conn->taken_at = jiffies;
	conn->answered_at = jiffies;
	conn->state = passive ? KFR_WAITING : KFR_CONNECTING;
	mutex_init(&conn->ctl);
	spin_lock_init(&conn->lock);
	kfr_conn_init_lists(conn);
	hash_init(conn->flows);
	conn->salt = get_random_u32();
	conn->epochs = KFR_FIRST_EPOCH;
	atomic_set(&conn->posted, 1);
	init_completion(&conn->drained);
	init_completion(&conn->idle);
	INIT_WORK(&conn->setup, kfr_conn_setup);
	INIT_WORK(&conn->pump, kfr_pump_work);
	INIT_DELAYED_WORK(&conn->probe, kfr_probe);
	INIT_DELAYED_WORK(&conn->expire, kfr_conn_expire);
	INIT_DELAYED_WORK(&conn->abandoned, kfr_abandoned);
	INIT_DELAYED_WORK(&conn->unready, kfr_unready);
	INIT_LIST_HEAD(&conn->refused);
	INIT_WORK(&conn->destroy, kfr_conn_destroy);
	conn->turn.run = kfr_conn_free;
	kfi_hrtimer_setup(&conn->ack_timer, kfr_ack_expired, CLOCK_MONOTONIC,
			  HRTIMER_MODE_REL_SOFT);
	return conn;
}

/**
 * kfr_conn_start() - queue the work item that resolves the peer's address
 * @conn: a connection that this side begins
 *
 * The work item has a reference of its own. It is queued again only once it has
 * begun to run, by the CM callback of a failed resolution.
 *
 * Context: any; the node's lock may be held.
 */
void kfr_conn_start(struct kfr_conn *conn)
{
	kfr_conn_get(conn);
	kfv_queue_work(kfv_wq, &conn->setup);
}

/* The queue pair can send: post what has been queued since the beginning. */
static void kfr_conn_set_up(struct kfr_conn *conn)
{
	unsigned long irq;

	spin_lock_irqsave(&conn->lock, irq);
	if (conn->state == KFR_CONNECTING || conn->state == KFR_ACCEPTED) {
		WRITE_ONCE(conn->state, KFR_UP);
		kfr_conn_uncount(conn);
	}
	spin_unlock_irqrestore(&conn->lock, irq);
	kfr_pump(conn);
}

/**
 * kfr_conn_confirmed() - a message has arrived
 * @conn: on this connection
 *
 * The first message may overtake RDMA CM's ESTABLISHED event on the passive
 * side, and confirms the connection as well.
 *
 * Context: softirq, one thread at a time for a connection; no lock held.
 */
void kfr_conn_confirmed(struct kfr_conn *conn)
{
	WRITE_ONCE(conn->heard_at, jiffies);
	if (likely(READ_ONCE(conn->heard)))
		return;
	kfr_node_heard(conn->node, conn);
	if (READ_ONCE(conn->state) == KFR_ACCEPTED)
		kfr_conn_set_up(conn);
}

static unsigned long kfr_idle_time(void)
{
	return min(READ_ONCE(rdm_idle_s), KFR_PROBE_MAX) * HZ;
}

/*
 * A connection of the node to itself stays, as it has no other machine's memory,
 * unless there is another one in its place.
 */
static void kfr_expire_later(struct kfr_conn *conn)
{
	unsigned long idle = kfr_idle_time();
	bool stays = !idle || conn->remote == conn->node->ip;

	if (!stays)
		schedule_delayed_work(&conn->expire, idle);
	else if (READ_ONCE(conn->leaving))
		schedule_delayed_work(&conn->expire, KFR_IDLE_MIN);
}

/**
 * kfr_conn_retire() - begin no new operation on a connection
 * @conn: the connection
 *
 * Those that it has go on. It ends as an idle connection when they have ended.
 *
 * Context: any; the caller holds the connection's lock.
 */
void kfr_conn_retire(struct kfr_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	WRITE_ONCE(conn->leaving, true);
	if (conn->state != KFR_DEAD)
		kfr_expire_later(conn);
}

/* Nothing of this side is under way, and nothing that it owes the peer. */
static bool kfr_conn_quiet(const struct kfr_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	return conn->state == KFR_UP && !atomic_read(&conn->nops) &&
	       !conn->njobs && list_empty(&conn->urgent) &&
	       conn->acked == conn->rx_seq;
}

/* Answers wait for the peer, but no operation does. */
static bool kfr_conn_deaf(const struct kfr_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	return conn->state == KFR_UP && !atomic_read(&conn->nops) &&
	       (conn->nwire < KFR_TXBUFS || conn->data_free < KFR_DATA_WRS) &&
	       kfr_conn_stuck(conn, KFR_DEAF_TIME);
}

/*
 * Does a request of the peer wait for a receive or for room here? If there are few places,
 * a peer that does not probe whether this side is alive waits for nothing: it is gone, or
 * its senders are.
 */
static bool kfr_conn_owes(const struct kfr_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	return atomic_read(&conn->owed) &&
	       !(kfr_node_tight(conn->node) && kfr_peer_probes_are_missing(conn));
}

/*
 * If there are few places, a peer loses the connection that neither uses nor ends it,
 * as it waits for nothing here. So does one that takes none of its answers.
 */
static bool kfr_conn_unused(const struct kfr_conn *conn)
{
	lockdep_assert_held(&conn->lock);
	if (!kfr_node_tight(conn->node))
		return false;
	return (conn->left &&
		time_after_eq(jiffies, conn->left_at + KFR_DEAF_TIME)) ||
	       kfr_conn_deaf(conn);
}

/*
 * Work item, which schedules itself; kfr_node_hurry() lets it run earlier, and
 * kfr_conn_fail() waits for it. If there was no request since it ran last, and
 * none waits for a receive or for room here, this side is done with the connection:
 * its later requests go to another one, and LEAVE lets the peer decide.
 *
 *	this side		peer
 *	---------		----
 *	quiet; @leaving
 *	LEAVE (count 7)		has sent 7, quiet; @leaving; disconnects
 *
 *	quiet; @leaving
 *	LEAVE (count 7)		8th request is on its way: ignores LEAVE
 *	handles the 8th; LEAVE again later
 *
 * A peer that has begun a connection without a message has no request, and gets
 * no LEAVE, as its address is not proved.
 */
static void kfr_conn_expire(struct work_struct *work)
{
	struct kfr_conn *conn = container_of(to_delayed_work(work),
					     struct kfr_conn, expire);
	struct kfr_hdr leave = {
		.version = KFR_VERSION,
		.op = KFR_OP_LEAVE,
	};
	unsigned long idle_time = kfr_idle_time();
	bool unheard, silent, idle, unused, owes;
	u32 seen;

	spin_lock_irq(&conn->lock);
	seen = conn->tx_count + conn->rx_count;
	owes = kfr_conn_owes(conn);
	/* Once it is left, LEAVE does no harm: a peer that waits ignores it. */
	if (seen != conn->seen || (!conn->leaving && owes))
		conn->seen_at = jiffies;
	unheard = conn->passive && !READ_ONCE(conn->heard);
	silent = unheard && idle_time &&
		 time_after_eq(jiffies, conn->seen_at + idle_time);
	idle = !unheard && kfr_conn_quiet(conn) &&
	       time_after_eq(jiffies, conn->seen_at + KFR_IDLE_MIN);
	conn->left = conn->left && idle && seen == conn->seen && !owes;
	unused = kfr_conn_unused(conn);
	conn->seen = seen;
	if (idle || unused)
		WRITE_ONCE(conn->leaving, true);
	if (idle && !conn->left)
		conn->left_at = jiffies;
	/* The peer must have got LEAVE when it did not wait. */
	conn->left |= idle && !owes;
	if (conn->state != KFR_DEAD)
		kfr_expire_later(conn);
	spin_unlock_irq(&conn->lock);
	if (silent)
		kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_CLOSED);
	if (unused)
		kfr_conn_close(conn);
	if (!idle || unused)
		return;
	kfr_ctl_add(conn, &leave);
	kfr_ctl_added(conn);
}

/**
 * kfr_conn_left() - LEAVE has arrived: the peer begins no request here any more
 * @conn: on this connection
 * @hdr: header of the LEAVE
 *
 * If the peer has handled all requests, and this side is quiet, nothing is lost
 * with the connection. A request that is posted meanwhile either makes it busy,
 * or sees @leaving and goes to another one.
 *
 * Context: softirq; no lock held.
 */
void kfr_conn_left(struct kfr_conn *conn, const struct kfr_hdr *hdr)
{
	unsigned long irq;
	bool end;

	spin_lock_irqsave(&conn->lock, irq);
	end = (u32)conn->tx_count == le32_to_cpu(hdr->count) && kfr_conn_quiet(conn);
	if (end)
		WRITE_ONCE(conn->leaving, true);
	spin_unlock_irqrestore(&conn->lock, irq);
	if (end)
		kfr_conn_close(conn);
}

static void kfr_conn_hello(const struct kfr_conn *conn, struct kfr_hello *hello)
{
	*hello = (struct kfr_hello) {
		.magic = cpu_to_le32(KFR_MAGIC),
		.version = cpu_to_le16(KFR_VERSION),
		.eager = cpu_to_le32(KFR_EAGER),
	};
	if (conn)
		hello->cookie = cpu_to_le64(conn->cookie);
}

static void kfr_conn_param(const struct kfr_conn *conn,
			   const struct kfr_hello *hello,
			   struct rdma_conn_param *param)
{
	const struct ib_device_attr *attrs = &conn->node->dev->ib->attrs;

	*param = (struct rdma_conn_param) {
		.private_data = hello,
		.private_data_len = sizeof(*hello),
		.responder_resources = min(KFV_RD_ATOMIC,
					   attrs->max_qp_rd_atom),
		.initiator_depth = min(KFV_RD_ATOMIC,
				       attrs->max_qp_init_rd_atom),
		/* A peer without receive buffers is retried for ever (7). */
		.rnr_retry_count = 7,
		.retry_count = 6,
	};
}

static void kfr_conn_connect(struct kfr_conn *conn, struct rdma_cm_id *id)
{
	struct rdma_conn_param param;
	struct kfr_hello hello;
	int err;

	err = kfr_qp_make(conn, id);
	if (!err) {
		kfr_conn_hello(conn, &hello);
		kfr_conn_param(conn, &hello, &param);
		err = rdma_connect_locked(id, &param);
	}
	if (err)
		kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_CONNECT);
}

static void kfr_conn_resolved(struct kfr_conn *conn, struct rdma_cm_id *id)
{
	const struct kfr_node *node = conn->node;

	if (id->device != node->dev->ib || id->port_num != node->port ||
	    rdma_resolve_route(id, KFV_RESOLVE_MS))
		kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_CONNECT);
}

/* Does the peer speak this protocol, with receive buffers as large as ours? */
static bool kfr_hello_ok(const struct rdma_conn_param *peer)
{
	const struct kfr_hello *hello = peer->private_data;

	return hello && peer->private_data_len >= sizeof(*hello) &&
	       hello->magic == cpu_to_le32(KFR_MAGIC) &&
	       hello->version == cpu_to_le16(KFR_VERSION) &&
	       le32_to_cpu(hello->eager) >= KFR_EAGER;
}

static void kfr_conn_rejected(struct kfr_conn *conn, struct rdma_cm_id *id,
			      struct rdma_cm_event *event)
{
	const struct kfr_hello *hello;
	int prov_errno = KFR_ERR_CONNECT;
	u8 len = 0;

	hello = rdma_consumer_reject_data(id, event, &len);
	if (hello && len >= sizeof(*hello) &&
	    hello->magic == cpu_to_le32(KFR_MAGIC)) {
		if (hello->version != cpu_to_le16(KFR_VERSION))
			prov_errno = KFR_ERR_VERSION;
		else if (hello->refusal == cpu_to_le16(KFR_REFUSE_FULL))
			prov_errno = KFR_ERR_FULL;
	}
	kfr_conn_abort(conn, EHOSTUNREACH, prov_errno);
}

/*
 * The peer has not answered ARP. The kernel gives up after a few attempts, also
 * if the peer's cable is back a moment later. So resolve again, for about as
 * long as an established connection retries.
 */
static void kfr_conn_unresolved(struct kfr_conn *conn, int status)
{
	if (status == -ETIMEDOUT && ++conn->resolve_tries < KFR_RESOLVES)
		kfr_conn_start(conn);
	else
		kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_CONNECT);
}

/*
 * The active side gets the peer's hello and RDMA read limits with this event;
 * the passive side has checked them in kfr_conn_arrive().
 */
static void kfr_conn_established(struct kfr_conn *conn,
				 const struct rdma_conn_param *peer)
{
	if (!conn->passive && !kfr_hello_ok(peer))
		kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_VERSION);
	else if (!conn->passive && !peer->initiator_depth)
		kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_CONNECT);
	else
		kfr_conn_set_up(conn);
	kfr_expire_later(conn);
}

/*
 * CM callback: process context, under the id's handler lock. It never returns
 * an error, which would make RDMA CM destroy the id: that is up to the work
 * item, which waits for this callback by taking the handler lock. @conn is
 * valid as long as the id is.
 */
static int kfr_conn_event(struct rdma_cm_id *id, struct rdma_cm_event *event)
{
	struct kfr_conn *conn = id->context;

	if (READ_ONCE(conn->state) == KFR_DEAD)
		return 0;
	switch (event->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		kfr_conn_resolved(conn, id);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		kfr_conn_connect(conn, id);
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		kfr_conn_established(conn, &event->param.conn);
		break;
	case RDMA_CM_EVENT_REJECTED:
		kfr_conn_rejected(conn, id, event);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
		kfr_conn_unresolved(conn, event->status);
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
		kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_CONNECT);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_CLOSED);
		break;
	default:
		break;
	}
	return 0;
}

static int kfr_conn_make_id(struct kfr_conn *conn)
{
	struct rdma_cm_id *id;

	lockdep_assert_held(&conn->ctl);
	if (conn->id)
		return 0;
	id = rdma_create_id(&init_net, kfr_conn_event, conn, RDMA_PS_TCP,
			    IB_QPT_RC);
	if (IS_ERR(id))
		return PTR_ERR(id);
	spin_lock_irq(&conn->lock);
	conn->id = id;
	spin_unlock_irq(&conn->lock);
	return 0;
}

/*
 * Work item: resolve the peer's address; CM callbacks continue from there.
 * Under
 * @ctl it either sees that the connection is dead, or has made @id before
 * kfr_conn_destroy() reads it.
 */
static void kfr_conn_setup(struct work_struct *work)
{
	struct kfr_conn *conn = container_of(work, struct kfr_conn, setup);
	struct sockaddr_in src = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = conn->node->ip,
	};
	struct sockaddr_in dst = {
		.sin_family = AF_INET,
		.sin_port = kfr_cm_port(),
		.sin_addr.s_addr = conn->remote,
	};
	int err = 0;

	mutex_lock(&conn->ctl);
	if (READ_ONCE(conn->state) == KFR_CONNECTING) {
		err = kfr_conn_make_id(conn);
		if (!err)
			err = rdma_resolve_addr(conn->id,
						(struct sockaddr *)&src,
						(struct sockaddr *)&dst,
						KFV_RESOLVE_MS);
	}
	mutex_unlock(&conn->ctl);
	if (err)
		kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_CONNECT);
	kfr_conn_put(conn);
	module_put(THIS_MODULE);
}

/*
 * The address of a request is private data, which its sender writes as it
 * likes. The queue pair sends to the GID of the request's path, and takes
 * packets from that alone. So the address is proved if that GID is the address,
 * as on RoCE. On InfiniBand a GID is no address, and proves nothing.
 */
static bool kfr_conn_proven(const struct rdma_cm_id *id)
{
	const struct sa_path_rec *path = id->route.path_rec;
	union ib_gid gid;

	rdma_ip2gid((struct sockaddr *)&id->route.addr.dst_addr, &gid);
	return path && !memcmp(&path->dgid, &gid, sizeof(gid));
}

/*
 * The passive connection for a peer's request, referenced. A request from this
 * node itself belongs to an end that kfr_node_conn() has made already.
 */
static struct kfr_conn *kfr_conn_for(struct kfr_node *node, __be32 remote,
				     const struct kfr_hello *hello, bool proven)
{
	struct kfr_conn *conn;

	if (remote == node->ip)
		return kfr_node_waiting(node, le64_to_cpu(hello->cookie));
	spin_lock_irq(&node->lock);
	conn = kfr_node_link(node, remote, true);
	if (conn) {
		conn->proven = proven;
		list_add_tail(&conn->silent, &node->silent);
		kfr_conn_get(conn);
	}
	spin_unlock_irq(&node->lock);
	return conn;
}

/* CM callback of the request, under the handler lock of @id. */
static int kfr_conn_accept(struct kfr_conn *conn, struct rdma_cm_id *id,
			   const struct rdma_conn_param *peer)
{
	struct rdma_conn_param param;
	struct kfr_hello hello;
	int err;

	err = kfr_qp_make(conn, id);
	if (err)
		return err;
	kfr_conn_hello(NULL, &hello);
	kfr_conn_param(conn, &hello, &param);
	param.responder_resources = min(param.responder_resources,
					peer->responder_resources);
	param.initiator_depth = min(param.initiator_depth,
				    peer->initiator_depth);
	return rdma_accept(id, &param);
}

/*
 * Move the id from RDMA CM to the connection, unless that is dead. From true on
 * kfr_conn_destroy() frees the id, and the callback must not return an error.
 */
static bool kfr_conn_take_id(struct kfr_conn *conn, struct rdma_cm_id *id)
{
	bool taken;

	spin_lock_irq(&conn->lock);
	taken = conn->state == KFR_WAITING;
	if (taken) {
		conn->id = id;
		WRITE_ONCE(conn->state, KFR_ACCEPTED);
		id->context = conn;
		id->event_handler = kfr_conn_event;
	}
	spin_unlock_irq(&conn->lock);
	return taken;
}

static void kfr_conn_refuse(struct rdma_cm_id *id, enum kfr_refusal why)
{
	struct kfr_hello hello;

	kfr_conn_hello(NULL, &hello);
	hello.refusal = cpu_to_le16(why);
	rdma_reject(id, &hello, sizeof(hello), IB_CM_REJ_CONSUMER_DEFINED);
}

/**
 * kfr_conn_arrive() - a peer wants to connect
 * @node: to this node
 * @id: RDMA CM's object for the new connection
 * @event: the request, with the peer's private data: not trusted
 *
 * Context: CM callback: process, under the handler locks of the listener and of
 * @id.
 * Return: 0: a connection owns @id; a negative errno: RDMA CM destroys @id,
 * which rejects the request.
 */
int kfr_conn_arrive(struct kfr_node *node, struct rdma_cm_id *id,
		    struct rdma_cm_event *event)
{
	const struct rdma_conn_param *peer = &event->param.conn;
	const struct sockaddr_in *remote =
		(const struct sockaddr_in *)&id->route.addr.dst_addr;
	bool proven = kfr_conn_proven(id);
	struct kfr_conn *conn;
	int err = 0;

	if (kfv_gone(node->dev) || id->device != node->dev->ib)
		return -ENODEV;
	/* Where GIDs are addresses, this one is another machine's. */
	if (!proven && rdma_protocol_roce(id->device, id->port_num))
		return -EPERM;
	if (!kfv_path_ok(id))
		return -EPROTO;
	if (!kfr_hello_ok(peer)) {
		kfr_conn_refuse(id, KFR_REFUSE_VERSION);
		return -EPROTO;
	}
	/* Jobs would wait for ever if either side allowed no RDMA reads. */
	if (!peer->responder_resources || !peer->initiator_depth)
		return -EPROTO;
	if (!kfr_node_make_room(node, remote->sin_addr.s_addr)) {
		kfr_conn_refuse(id, KFR_REFUSE_FULL);
		return -ENOMEM;
	}
	conn = kfr_conn_for(node, remote->sin_addr.s_addr, peer->private_data,
			    proven);
	if (!conn)
		return -ENOMEM;
	if (!kfr_conn_take_id(conn, id))
		err = -ECONNABORTED;
	else if (kfr_conn_accept(conn, id, peer))
		/* Not an error: the connection owns the id now. */
		kfr_conn_abort(conn, EHOSTUNREACH, KFR_ERR_CONNECT);
	else
		kfr_expire_later(conn);
	kfr_conn_put(conn);
	return err;
}
