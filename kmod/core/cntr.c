// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Counters. Changes are numbered, never found by comparing values: 497, set to 495,
 * two completions, 497 again is two changes.
 */
#include <linux/slab.h>

#include <kfi_enosys.h>

#include "core.h"

/**
 * struct kfi_cntr - a counter
 * @cntr: the public object
 * @src: the part shared with CQs and EQs; @src.lock protects all fields below
 * @value: successes
 * @errors: failures
 * @value_changes: completions that succeeded
 * @error_changes: completions that failed, adderr and seterr
 * @value_read: @value_changes when the value was last read
 * @error_read: @error_changes when the error value was last read
 */
struct kfi_cntr {
	struct kfid_cntr cntr;
	struct kfi_source src;
	u64 value;
	u64 errors;
	u64 value_changes;
	u64 error_changes;
	u64 value_read;
	u64 error_read;
};

static struct kfi_cntr *to_cntr(struct kfid_cntr *cntr)
{
	return container_of(cntr, struct kfi_cntr, cntr);
}

/**
 * kfi_cntr_source() - the common part of a counter
 * @cntr: the counter
 *
 * Context: any; takes no lock.
 * Return: valid as long as the counter.
 */
struct kfi_source *kfi_cntr_source(struct kfid_cntr *cntr)
{
	return &to_cntr(cntr)->src;
}

/* Fill in the target of a change. The caller holds the lock. */
static void kfi_cntr_target(struct kfi_cntr *cntr, enum kfi_why why,
			    struct kfi_target *target)
{
	lockdep_assert_held(&cntr->src.lock);
	target->src = &cntr->src;
	target->wake.source = cntr->src.id;
	target->wake.why = why;
	target->wake.have = cntr->value;
	target->wake.all = cntr->src.set ? why == KFI_WHY_SIGNAL :
					   why == KFI_WHY_ERROR;
}

/* Note an unread change. The caller holds the lock. */
static void kfi_cntr_changed(struct kfi_cntr *cntr, bool error)
{
	lockdep_assert_held(&cntr->src.lock);
	if (error)
		cntr->error_changes++;
	else
		cntr->value_changes++;
	/* Pairs with a poll set that looks without this lock. */
	smp_store_release(&cntr->src.changes, cntr->src.changes + 1);
	kfi_source_stored(&cntr->src, error ? KFI_WHY_ERROR : KFI_WHY_EVENT, 0);
}

/**
 * kfi_cntr_count() - first phase of a publication on a counter
 * @fcntr: the counter
 * @why: KFI_WHY_EVENT: one success; KFI_WHY_ERROR: one failure; KFI_WHY_LOST: an
 *	 error change that counts nothing
 * @target: filled in for kfi_publish()
 *
 * Context: any; takes source->lock, and under it poll->lock.
 */
void kfi_cntr_count(struct kfid_cntr *fcntr, enum kfi_why why,
		    struct kfi_target *target)
{
	struct kfi_cntr *cntr = to_cntr(fcntr);
	unsigned long flags;

	spin_lock_irqsave(&cntr->src.lock, flags);
	cntr->value += why == KFI_WHY_EVENT;
	cntr->errors += why == KFI_WHY_ERROR;
	kfi_cntr_changed(cntr, why != KFI_WHY_EVENT);
	kfi_cntr_target(cntr, why, target);
	spin_unlock_irqrestore(&cntr->src.lock, flags);
}

/**
 * kfi_cntr_peek() - look at the value without marking it as read
 * @fcntr: the counter
 * @change: argument for kfi_cntr_mark()
 *
 * Context: any; the caller holds no lock; takes source->lock.
 * Return: the value.
 */
u64 kfi_cntr_peek(struct kfid_cntr *fcntr, u64 *change)
{
	struct kfi_cntr *cntr = to_cntr(fcntr);
	unsigned long flags;
	u64 value;

	kfi_domain_progress(cntr->src.domain);
	spin_lock_irqsave(&cntr->src.lock, flags);
	value = cntr->value;
	*change = cntr->value_changes;
	spin_unlock_irqrestore(&cntr->src.lock, flags);
	return value;
}
EXPORT_SYMBOL_GPL(kfi_cntr_peek);

/**
 * kfi_cntr_peekerr() - look at the error value without marking it as read
 * @fcntr: the counter
 * @change: argument for kfi_cntr_markerr()
 *
 * Context: any; the caller holds no lock; takes source->lock.
 * Return: the error value.
 */
u64 kfi_cntr_peekerr(struct kfid_cntr *fcntr, u64 *change)
{
	struct kfi_cntr *cntr = to_cntr(fcntr);
	unsigned long flags;
	u64 errors;

	kfi_domain_progress(cntr->src.domain);
	spin_lock_irqsave(&cntr->src.lock, flags);
	errors = cntr->errors;
	*change = cntr->error_changes;
	spin_unlock_irqrestore(&cntr->src.lock, flags);
	return errors;
}
EXPORT_SYMBOL_GPL(kfi_cntr_peekerr);

/* Marks only move forward: of two readers, the later change counts. */
static void kfi_cntr_read_up_to(struct kfi_cntr *cntr, u64 *mark, u64 change)
{
	unsigned long flags;

	spin_lock_irqsave(&cntr->src.lock, flags);
	*mark = max(*mark, change);
	kfi_source_taken(&cntr->src, (cntr->value_read != cntr->value_changes) +
				     (cntr->error_read != cntr->error_changes));
	spin_unlock_irqrestore(&cntr->src.lock, flags);
}

/**
 * kfi_cntr_mark() - mark the value that kfi_cntr_peek() returned as read
 * @fcntr: the counter
 * @change: from kfi_cntr_peek()
 *
 * Context: any; takes source->lock.
 */
void kfi_cntr_mark(struct kfid_cntr *fcntr, u64 change)
{
	struct kfi_cntr *cntr = to_cntr(fcntr);

	kfi_cntr_read_up_to(cntr, &cntr->value_read, change);
}
EXPORT_SYMBOL_GPL(kfi_cntr_mark);

/**
 * kfi_cntr_markerr() - mark the value that kfi_cntr_peekerr() returned as read
 * @fcntr: the counter
 * @change: from kfi_cntr_peekerr()
 *
 * Context: any; takes source->lock.
 */
void kfi_cntr_markerr(struct kfid_cntr *fcntr, u64 change)
{
	struct kfi_cntr *cntr = to_cntr(fcntr);

	kfi_cntr_read_up_to(cntr, &cntr->error_read, change);
}
EXPORT_SYMBOL_GPL(kfi_cntr_markerr);

static u64 kfi_cntr_op_read(struct kfid_cntr *fcntr)
{
	u64 change, value = kfi_cntr_peek(fcntr, &change);

	kfi_cntr_mark(fcntr, change);
	return value;
}

static u64 kfi_cntr_op_readerr(struct kfid_cntr *fcntr)
{
	u64 change, errors = kfi_cntr_peekerr(fcntr, &change);

	kfi_cntr_markerr(fcntr, change);
	return errors;
}

/* The user's own add and set end waits and leave no unread change. */
static int kfi_cntr_assign(struct kfi_cntr *cntr, u64 value, bool add)
{
	struct kfi_target target = { };
	unsigned long flags;

	rcu_read_lock();
	spin_lock_irqsave(&cntr->src.lock, flags);
	cntr->value = add ? cntr->value + value : value;
	kfi_cntr_target(cntr, KFI_WHY_SIGNAL, &target);
	spin_unlock_irqrestore(&cntr->src.lock, flags);
	kfi_publish(&target, 1);
	rcu_read_unlock();
	return 0;
}

static int kfi_cntr_op_add(struct kfid_cntr *fcntr, u64 value)
{
	return kfi_cntr_assign(to_cntr(fcntr), value, true);
}

static int kfi_cntr_op_set(struct kfid_cntr *fcntr, u64 value)
{
	return kfi_cntr_assign(to_cntr(fcntr), value, false);
}

static int kfi_cntr_assign_err(struct kfi_cntr *cntr, u64 value, bool add)
{
	struct kfi_target target = { };
	unsigned long flags;

	rcu_read_lock();
	spin_lock_irqsave(&cntr->src.lock, flags);
	cntr->errors = add ? cntr->errors + value : value;
	kfi_cntr_changed(cntr, true);
	kfi_cntr_target(cntr, KFI_WHY_ERROR, &target);
	spin_unlock_irqrestore(&cntr->src.lock, flags);
	kfi_publish(&target, 1);
	rcu_read_unlock();
	return 0;
}

static int kfi_cntr_op_adderr(struct kfid_cntr *fcntr, u64 value)
{
	return kfi_cntr_assign_err(to_cntr(fcntr), value, true);
}

static int kfi_cntr_op_seterr(struct kfid_cntr *fcntr, u64 value)
{
	return kfi_cntr_assign_err(to_cntr(fcntr), value, false);
}

/* The condition of one cntr_wait, and the result of its last look. */
struct kfi_cntr_need {
	struct kfi_cntr *cntr;
	u64 threshold;
	u64 error_changes;
	int found;
};

/* Reached, an error that the caller does not know of, the device lost, or nothing yet. */
static bool kfi_cntr_done(void *arg)
{
	struct kfi_cntr_need *need = arg;
	struct kfi_cntr *cntr = need->cntr;
	unsigned long flags;

	need->found = -KFI_EAGAIN;
	spin_lock_irqsave(&cntr->src.lock, flags);
	if (cntr->value >= need->threshold)
		need->found = 0;
	else if (cntr->error_changes != need->error_changes)
		need->found = -KFI_EAVAIL;
	else if (kfi_source_lost(&cntr->src))
		need->found = -KFI_ENODEV;
	spin_unlock_irqrestore(&cntr->src.lock, flags);
	return need->found != -KFI_EAGAIN;
}

/*
 * The result of a look counts, and so does the value that a wake-up brings: a waiter
 * whose threshold was reached returns 0 even if the counter has been set back since.
 */
static int kfi_cntr_wait_loop(struct kfi_cntr_need *need, struct kfi_waiter *w,
			      ktime_t deadline)
{
	int ret;

	do {
		ret = kfi_waitq_sleep(w, kfi_cntr_done, need, deadline);
		if (ret)
			return ret;
		if (w->why && w->have >= need->threshold)
			return 0;
	} while (need->found == -KFI_EAGAIN && !kfi_cntr_done(need));
	return need->found;
}

/**
 * kfi_cntr_wait_until() - kfi_cntr_wait() with a deadline
 * @fcntr: the counter
 * @threshold: value to wait for
 * @deadline: absolute, monotonic
 * @error_changes: those of the error value that the caller knows of, see
 *	kfi_cntr_peekerr(). A call that goes on after -EINTR passes the same number, so
 *	that an error in between is not lost
 *
 * Context: process, may sleep; takes source->lock and queue->head.lock.
 * Return: 0 if the value seen reached @threshold; -EAVAIL if the error value
 * has changed since @error_changes; -ENODEV if the device was gone then; -ETIMEDOUT;
 * -EINTR; -EINVAL for a counter on which a thread cannot block, or which is being
 * closed.
 */
int kfi_cntr_wait_until(struct kfid_cntr *fcntr, u64 threshold, ktime_t deadline,
			u64 error_changes)
{
	struct kfi_cntr *cntr = to_cntr(fcntr);
	struct kfi_cntr_need need = {
		.cntr = cntr,
		.threshold = threshold,
		.error_changes = error_changes,
	};
	struct kfi_waiter w;
	int ret;

	ret = kfi_source_blocking(&cntr->src);
	if (ret)
		return ret;
	if (!kfi_fid_get(&fcntr->fid))
		return -KFI_EINVAL;

	kfi_waiter_init(&w, cntr->src.queue, threshold, false);
	ret = kfi_cntr_wait_loop(&need, &w, deadline);
	kfi_waiter_end(&w, ret);
	kfi_fid_put(&fcntr->fid);
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_cntr_wait_until);

static int kfi_cntr_op_wait(struct kfid_cntr *fcntr, u64 threshold, int timeout)
{
	u64 error_changes;

	kfi_cntr_peekerr(fcntr, &error_changes);
	return kfi_cntr_wait_until(fcntr, threshold, kfi_deadline(timeout),
				   error_changes);
}

static int kfi_cntr_close(struct kfid *fid)
{
	struct kfi_cntr *cntr = container_of(fid, struct kfi_cntr, cntr.fid);
	int ret;

	ret = kfi_source_kill(&cntr->src);
	if (ret)
		return ret;
	kfi_source_fini(&cntr->src);
	kfree_rcu(cntr, src.rcu);
	return 0;
}

static struct kfi_ops kfi_cntr_fid_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops),
	.close = kfi_cntr_close,
	.bind = kfi_no_bind,
	.control = kfi_source_control,
	.ops_open = kfi_no_ops_open,
};

static struct kfi_ops_cntr kfi_cntr_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops_cntr),
	.read = kfi_cntr_op_read,
	.readerr = kfi_cntr_op_readerr,
	.add = kfi_cntr_op_add,
	.set = kfi_cntr_op_set,
	.wait = kfi_cntr_op_wait,
	.adderr = kfi_cntr_op_adderr,
	.seterr = kfi_cntr_op_seterr,
};

/**
 * kfi_core_cntr_open() - kfi_ops_domain.cntr_open of every provider
 * @domain: parent
 * @attr: NULL: defaults
 * @fcntr: the new counter, 0 and 0
 * @context: the user's
 *
 * Context: process, may sleep; takes domain->lock and kfi_listed_lock.
 * Return: 0; -EINVAL; -ENOSYS for a wait object that is not offered; -ENOMEM;
 * -ENODEV if the domain's device is gone.
 */
int kfi_core_cntr_open(struct kfid_domain *domain, struct kfi_cntr_attr *attr,
		       struct kfid_cntr **fcntr, void *context)
{
	struct kfi_source_attr src_attr = {
		.fabric = kfi_domain_of(domain)->fabric,
		.domain = kfi_domain_of(domain),
		.wait_obj = attr ? attr->wait_obj : KFI_WAIT_UNSPEC,
		.set = attr ? attr->wait_set : NULL,
		.cpu = WORK_CPU_UNBOUND,
	};
	struct kfi_cntr *cntr;
	int ret;

	if (attr && (attr->flags || attr->events != KFI_CNTR_EVENTS_COMP))
		return -KFI_EINVAL;
	cntr = kzalloc(sizeof(*cntr), GFP_KERNEL_ACCOUNT);
	if (!cntr)
		return -KFI_ENOMEM;
	kfi_fid_init(&cntr->cntr.fid, KFI_CLASS_CNTR, context,
		     &kfi_cntr_fid_ops);
	cntr->cntr.ops = &kfi_cntr_ops;
	ret = kfi_source_init(&cntr->src, &cntr->cntr.fid, &src_attr);
	if (ret) {
		kfree(cntr);
		return ret;
	}
	*fcntr = &cntr->cntr;
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_core_cntr_open);
