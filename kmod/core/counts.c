// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The counts of objects, for profiles.
 *
 * DOC: Counting costs nothing
 *
 * Every count is a plain number, changed under a lock that its path holds anyway:
 * signals and wakes under the queue's lock that the waker has; sleeps and latencies
 * under the same lock when the sleeper enters and leaves the queue; a CQ's entries
 * under the CQ's lock. A timeout, an interrupted call and a wake-up in vain are counted
 * under the queue's lock by the thread itself, for which no other thread waits. An
 * endpoint's two counts are atomic: it has no lock of the core's.
 *
 * Only the clock costs something, so it is read only while times are requested
 * (kfi_timing). Until then a sleep is timed in ticks, so the age of a hanging thread
 * is always known.
 *
 * DOC: One instant
 *
 * A look at an object's counts takes those locks, all of one object's at a time. An
 * endpoint counts a failed operation in two steps, the error last. So if two looks find
 * the same number of errors, then both counts are those of the moment between the two,
 * and there are never more errors than completions:
 *
 *	looks				reports a failed operation
 *	-----				--------------------------
 *	errors: 1
 *					completions: 5
 *	completions: 5
 *	errors: 1: (5, 1) was true
 *					errors: 2
 *
 * A reset does not set these two to 0, since that would be two steps as well: it
 * remembers their values, which a look subtracts.
 *
 * DOC: Walking a domain
 *
 * A domain may have thousands of CQs and counters, so a walk over them takes domain->lock
 * for one at a time, and RCU keeps the list. They are numbered in the order of the list.
 * What leaves the list goes to the counts of the past; if a walk has read these but has not
 * come to the source yet, it gets the counts as well:
 *
 *	walk				close of number 5
 *	----				-----------------
 *	reads the past; adds 1 to 4
 *					leaves; past + its counts
 *					5 > 4: walk + its counts
 *	adds 6 to the last one that was
 *	there when the walk began
 */
#include <linux/rculist.h>

#include "core.h"

/**
 * struct kfi_walk - one walk over the CQs and counters of a domain
 * @link: on the domain's list
 * @at: number of the last one that was visited
 * @sum: what is added up, or NULL: the walk sets them to 0
 *
 * Protected by domain->lock.
 */
struct kfi_walk {
	struct list_head link;
	u64 at;
	struct kfi_counts *sum;
};

/*
 * Users that want times measured. Not a static key: profiles are opened and closed
 * often, and each would patch code.
 */
atomic_t kfi_timing = ATOMIC_INIT(0);

/**
 * kfi_timing_on() - have times measured
 *
 * kfi_timing_off() is its mirror.
 *
 * Context: any; takes no lock.
 */
void kfi_timing_on(void)
{
	atomic_inc(&kfi_timing);
}

/**
 * kfi_timing_off() - the mirror of kfi_timing_on()
 *
 * Context: any; takes no lock.
 */
void kfi_timing_off(void)
{
	atomic_dec(&kfi_timing);
}

/**
 * kfi_counts_add() - add up the counts of two objects
 * @to: the sum; of a greatest value, the greater one
 * @from: the other
 *
 * Context: any; takes no lock. Each is the caller's own, or protected by a lock that
 * the caller holds.
 */
void kfi_counts_add(struct kfi_counts *to, const struct kfi_counts *from)
{
	unsigned int i;

	to->completions += from->completions;
	to->errors += from->errors;
	to->signals += from->signals;
	to->wakes += from->wakes;
	to->overtaken += from->overtaken;
	to->spurious += from->spurious;
	to->timeouts += from->timeouts;
	to->interrupts += from->interrupts;
	to->handed_on += from->handed_on;
	to->overruns += from->overruns;
	to->deepest = max(to->deepest, from->deepest);
	to->sleeps += from->sleeps;
	to->asleep += from->asleep;
	to->most_asleep = max(to->most_asleep, from->most_asleep);
	to->asleep_ns += from->asleep_ns;
	to->longest_ns = max(to->longest_ns, from->longest_ns);
	for (i = 0; i < KFI_PROFILE_BUCKETS; i++)
		to->latency[i] += from->latency[i];
	to->unexp += from->unexp;
}

/**
 * kfi_source_counts() - the counts of a CQ, EQ or counter
 * @src: the source
 * @counts: filled in
 *
 * Signals of a member to its wait set count for the set.
 *
 * Context: any; takes @src->lock, and under it the lock of its own queue.
 */
void kfi_source_counts(struct kfi_source *src, struct kfi_counts *counts)
{
	unsigned long flags;

	spin_lock_irqsave(&src->lock, flags);
	kfi_waitq_counts(&src->own, counts);
	counts->completions = src->counts.completions;
	counts->errors = src->counts.errors;
	counts->overruns = src->counts.overruns;
	counts->deepest = src->counts.deepest;
	spin_unlock_irqrestore(&src->lock, flags);
}

static void kfi_source_counts_reset(struct kfi_source *src)
{
	unsigned long flags;

	spin_lock_irqsave(&src->lock, flags);
	memset(&src->counts, 0, sizeof(src->counts));
	kfi_waitq_counts_reset(&src->own);
	spin_unlock_irqrestore(&src->lock, flags);
}

/**
 * kfi_source_keep_counts() - add the counts of a closing source to its domain's
 * @src: the source, killed
 *
 * Context: any; the caller holds domain->lock; takes @src->lock.
 */
void kfi_source_keep_counts(struct kfi_source *src)
{
	struct kfi_domain_base *domain = src->domain;
	struct kfi_counts counts;
	struct kfi_walk *walk;
	bool reset = false;

	lockdep_assert_held(&domain->lock);
	kfi_source_counts(src, &counts);
	list_for_each_entry(walk, &domain->walks, link) {
		if (walk->at >= src->number)
			continue;
		if (walk->sum)
			kfi_counts_add(walk->sum, &counts);
		else
			reset = true;
	}
	if (!reset)
		kfi_counts_add(&domain->past, &counts);
}

/* The provider's table, or NULL; with a table, profile_lock is set. */
static const struct kfi_profile_ops *kfi_ep_profile_ops(struct kfi_ep_base *base)
{
	/* Pairs with kfi_ep_base_profile(). */
	return smp_load_acquire(&base->profile_ops);
}

static bool kfi_ep_counts_unexp(const struct kfi_profile_ops *ops)
{
	size_t i;

	for (i = 0; ops && i < ops->nvars; i++)
		if (ops->vars[i].id == KFI_VAR_UNEXP_MSG_CNT)
			return true;
	return false;
}

static u64 kfi_ep_unexp(struct kfi_ep_base *base)
{
	const struct kfi_profile_ops *ops = kfi_ep_profile_ops(base);
	unsigned long flags;
	u64 value = 0;

	if (!kfi_ep_counts_unexp(ops))
		return 0;
	spin_lock_irqsave(base->profile_lock, flags);
	ops->read(base, KFI_VAR_UNEXP_MSG_CNT, &value, sizeof(value));
	spin_unlock_irqrestore(base->profile_lock, flags);
	return value;
}

/* Counts since the open, without regard to resets. Takes no lock. */
static void kfi_ep_counts_all(struct kfi_ep_base *base, struct kfi_counts *counts)
{
	u64 before, after = atomic64_read(&base->errors);

	do {
		before = after;
		smp_rmb(); /* see the top of this file */
		counts->completions = atomic64_read(&base->completions);
		smp_rmb(); /* the same */
		after = atomic64_read(&base->errors);
	} while (before != after);
	counts->errors = after;
}

/**
 * kfi_ep_counts() - the completions and errors of an endpoint
 * @base: the endpoint
 * @counts: completions and errors are filled in, of one instant
 *
 * Context: any; takes @base->zero.
 */
void kfi_ep_counts(struct kfi_ep_base *base, struct kfi_counts *counts)
{
	unsigned long flags;

	spin_lock_irqsave(&base->zero, flags);
	kfi_ep_counts_all(base, counts);
	counts->completions -= base->completions_zero;
	counts->errors -= base->errors_zero;
	spin_unlock_irqrestore(&base->zero, flags);
}

static void kfi_ep_counts_reset(struct kfi_ep_base *base)
{
	const struct kfi_profile_ops *ops = kfi_ep_profile_ops(base);
	struct kfi_counts counts;
	unsigned long flags;

	spin_lock_irqsave(&base->zero, flags);
	kfi_ep_counts_all(base, &counts);
	base->completions_zero = counts.completions;
	base->errors_zero = counts.errors;
	spin_unlock_irqrestore(&base->zero, flags);
	if (!ops || !ops->reset)
		return;
	spin_lock_irqsave(base->profile_lock, flags);
	ops->reset(base);
	spin_unlock_irqrestore(base->profile_lock, flags);
}

/**
 * kfi_ep_keep_counts() - add the counts of a closing endpoint to its domain's
 * @base: the endpoint, killed and reporting no more; leaves the domain's list
 *
 * Context: process, interrupts on; takes eps_lock.
 */
void kfi_ep_keep_counts(struct kfi_ep_base *base)
{
	struct kfi_domain_base *domain = base->domain;
	struct kfi_counts counts = { };

	/* One step under the lock: a reset of the domain covers these counts, too. */
	spin_lock_irq(&domain->eps_lock);
	list_del(&base->sibling);
	kfi_ep_counts(base, &counts);
	kfi_counts_add(&domain->eps_past, &counts);
	spin_unlock_irq(&domain->eps_lock);
}

/* Begin a walk with the counts of the past. Return: the last number to visit. */
static u64 kfi_walk_begin(struct kfi_domain_base *domain, struct kfi_walk *walk)
{
	unsigned long flags;
	u64 last;

	spin_lock_irqsave(&domain->lock, flags);
	if (walk->sum)
		*walk->sum = domain->past;
	else
		memset(&domain->past, 0, sizeof(domain->past));
	list_add(&walk->link, &domain->walks);
	last = domain->opens;
	spin_unlock_irqrestore(&domain->lock, flags);
	return last;
}

static void kfi_walk_end(struct kfi_domain_base *domain, struct kfi_walk *walk)
{
	unsigned long flags;

	spin_lock_irqsave(&domain->lock, flags);
	list_del(&walk->link);
	spin_unlock_irqrestore(&domain->lock, flags);
}

/* The counts of a source that has left came from kfi_source_keep_counts(). */
static void kfi_walk_visit(struct kfi_domain_base *domain, struct kfi_walk *walk,
			   struct kfi_source *src)
{
	struct kfi_counts counts;
	unsigned long flags;

	spin_lock_irqsave(&domain->lock, flags);
	if (!src->left && walk->sum) {
		kfi_source_counts(src, &counts);
		kfi_counts_add(walk->sum, &counts);
	} else if (!src->left) {
		kfi_source_counts_reset(src);
	}
	walk->at = src->number;
	spin_unlock_irqrestore(&domain->lock, flags);
	kfi_test_hook_point(KFI_HOOK_D11, domain->id);
}

/* Add up the counts of the CQs and counters, or without @sum set them to 0. */
static void kfi_domain_walk(struct kfi_domain_base *domain, struct kfi_counts *sum)
{
	struct kfi_walk walk = { .sum = sum };
	const u64 last = kfi_walk_begin(domain, &walk);
	struct kfi_source *src;

	rcu_read_lock();
	list_for_each_entry_rcu(src, &domain->sources, sibling) {
		if (src->number > last)
			break;
		kfi_walk_visit(domain, &walk, src);
	}
	rcu_read_unlock();
	kfi_walk_end(domain, &walk);
}

/* The domain's endpoints have counted completions and errors of these already. */
static void kfi_domain_sources(struct kfi_domain_base *domain,
			       struct kfi_counts *sum)
{
	kfi_domain_walk(domain, sum);
	sum->completions = 0;
	sum->errors = 0;
}

static void kfi_domain_eps(struct kfi_domain_base *domain,
			   struct kfi_counts *sum)
{
	struct kfi_counts counts = { };
	struct kfi_ep_base *base;
	unsigned long flags;

	spin_lock_irqsave(&domain->eps_lock, flags);
	kfi_counts_add(sum, &domain->eps_past);
	list_for_each_entry(base, &domain->eps, sibling) {
		kfi_ep_counts(base, &counts);
		counts.unexp = kfi_ep_unexp(base);
		kfi_counts_add(sum, &counts);
	}
	spin_unlock_irqrestore(&domain->eps_lock, flags);
}

static void kfi_domain_counts_reset(struct kfi_domain_base *domain)
{
	struct kfi_ep_base *base;
	unsigned long flags;

	kfi_domain_walk(domain, NULL);
	spin_lock_irqsave(&domain->eps_lock, flags);
	memset(&domain->eps_past, 0, sizeof(domain->eps_past));
	list_for_each_entry(base, &domain->eps, sibling)
		kfi_ep_counts_reset(base);
	spin_unlock_irqrestore(&domain->eps_lock, flags);
}

static struct kfi_ep_base *kfi_ep_of(struct kfid *fid)
{
	return container_of(fid, struct kfi_ep_base, ep.fid);
}

/**
 * kfi_fid_counts() - the counts of an object
 * @fid: the object
 * @counts: filled in, except an endpoint's provider counts; of one instant, but in
 *	    a domain object by object
 *
 * Context: any; the caller holds no lock of the core but kfi_listed_lock, and for an
 * endpoint perhaps its profile_lock; takes the locks of the object's class, for a
 * domain domain->lock and then eps_lock.
 * Return: 0, or -ENOSYS for classes that count nothing.
 */
int kfi_fid_counts(struct kfid *fid, struct kfi_counts *counts)
{
	memset(counts, 0, sizeof(*counts));
	if (kfi_is_ep(fid->fclass)) {
		kfi_ep_counts(kfi_ep_of(fid), counts);
		return 0;
	}
	switch (fid->fclass) {
	case KFI_CLASS_DOMAIN:
		kfi_domain_sources(container_of(fid, struct kfi_domain_base,
						domain.fid), counts);
		kfi_domain_eps(container_of(fid, struct kfi_domain_base,
					    domain.fid), counts);
		return 0;
	case KFI_CLASS_CQ:
	case KFI_CLASS_EQ:
	case KFI_CLASS_CNTR:
		kfi_source_counts(kfi_fid_source(fid), counts);
		return 0;
	case KFI_CLASS_WAIT:
		kfi_waitq_counts(kfi_fid_queue(fid), counts);
		return 0;
	case KFI_CLASS_POLL:
		kfi_poll_counts(container_of(fid, struct kfid_poll, fid), counts);
		return 0;
	default:
		return -KFI_ENOSYS;
	}
}

/**
 * kfi_fid_counts_reset() - let an object count from 0
 * @fid: the object; of a domain: every object that it adds up
 *
 * Context: any; the caller holds no lock of the core; takes the same locks as
 * kfi_fid_counts().
 */
void kfi_fid_counts_reset(struct kfid *fid)
{
	if (kfi_is_ep(fid->fclass))
		kfi_ep_counts_reset(kfi_ep_of(fid));
	switch (fid->fclass) {
	case KFI_CLASS_DOMAIN:
		kfi_domain_counts_reset(container_of(fid, struct kfi_domain_base,
						     domain.fid));
		break;
	case KFI_CLASS_CQ:
		kfi_source_counts_reset(kfi_fid_source(fid));
		break;
	case KFI_CLASS_WAIT:
		kfi_waitq_counts_reset(kfi_fid_queue(fid));
		break;
	case KFI_CLASS_POLL:
		kfi_poll_counts_reset(container_of(fid, struct kfid_poll, fid));
		break;
	}
}
