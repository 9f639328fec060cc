// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Poll sets. A publisher puts the memberships of its object on their sets' ready
 * lists. A poll looks only at those, so its cost grows with the number of ready
 * members, not with the size of the set.
 *
 * DOC: Why a ready member is always on the list
 *
 * A membership leaves the list only when the poller, under the set's lock, sees that
 * it is not ready. The publisher makes it ready first and takes the set's lock second:
 *
 *	publisher				poller
 *	---------				------
 *						lock set; not ready; off the list
 *	ready (release)
 *	lock set: it waits			unlock set
 *	lock set; not on the list: add
 *
 * DOC: Fairness
 *
 * A member that was returned and is still ready goes to the tail. Members that were
 * not looked at stay at the head.
 */
#include <linux/slab.h>

#include <kfi_enosys.h>

#include "core.h"

/**
 * struct kfi_poll - a poll set
 * @poll: the public object
 * @domain: parent; a reference is held; constant
 * @lock: protects @ready, @nready, @counts and the fields of its members that name
 *	  it
 * @ready: memberships that were ready at their last look, or became ready since
 * @nready: their number
 * @id: names it in tracepoints; constant
 * @counts: for profiles
 * @listed: on the list of all objects; kfi_listed_lock
 */
struct kfi_poll {
	struct kfid_poll poll;
	struct kfi_domain_base *domain;
	spinlock_t lock;	/* ready list, marks */
	struct list_head ready;
	unsigned int nready;
	u32 id;
	struct kfi_counts counts;
	struct kfi_listed listed;
};

/**
 * struct kfi_member - one source in one poll set
 * @of_source: on the source's list; source->lock
 * @on_ready: on the set's ready list, or empty; set->lock
 * @src: the source; a reference is held; constant
 * @set: the set; a reference is held; constant
 * @mark: of a counter: the change number that this set reported last; set->lock
 * @since: when it got onto the list; 0: times are not measured; set->lock
 */
struct kfi_member {
	struct list_head of_source;
	struct list_head on_ready;
	struct kfi_source *src;
	struct kfi_poll *set;
	u64 mark;
	u64 since;
};

static struct kfi_poll *to_poll(struct kfid_poll *pollset)
{
	return container_of(pollset, struct kfi_poll, poll);
}

/**
 * kfi_poll_id() - the name of a poll set in tracepoints
 * @pollset: the poll set
 *
 * Context: any; takes no lock.
 * Return: the id.
 */
u32 kfi_poll_id(const struct kfid_poll *pollset)
{
	return container_of(pollset, struct kfi_poll, poll)->id;
}

/*
 * A counter is ready for a set until the set has reported its last change. The caller
 * holds the set's lock, so this cannot take the source's lock, which comes first in
 * the lock order.
 */
static bool kfi_member_ready(const struct kfi_member *m)
{
	lockdep_assert_held(&m->set->lock);
	if (m->src->fid->fclass == KFI_CLASS_CNTR) {
		/* No acquire: kfi_member_report() reads it again, with one. */
		return READ_ONCE(m->src->changes) != m->mark;
	}
	/* Pairs with kfi_source_set_ready(). */
	return smp_load_acquire(&m->src->ready);
}

/* The caller holds the set's lock. */
static void kfi_member_queue(struct kfi_member *m)
{
	struct kfi_poll *set = m->set;

	lockdep_assert_held(&set->lock);
	if (!list_empty(&m->on_ready))
		return;
	list_add_tail(&m->on_ready, &set->ready);
	if (++set->nready > set->counts.deepest)
		set->counts.deepest = set->nready;
	m->since = kfi_stamp();
}

/* The caller holds the set's lock. */
static void kfi_member_unqueue(struct kfi_member *m)
{
	lockdep_assert_held(&m->set->lock);
	if (list_empty(&m->on_ready))
		return;
	list_del_init(&m->on_ready);
	m->set->nready--;
}

/**
 * kfi_poll_notify() - a source became ready, or a counter changed
 * @src: the source, already changed
 * @why: kind of change
 *
 * Context: any; the caller holds @src->lock; takes the lock of each set in turn.
 */
void kfi_poll_notify(struct kfi_source *src, enum kfi_why why)
{
	struct kfi_member *m;

	lockdep_assert_held(&src->lock);
	list_for_each_entry(m, &src->members, of_source) {
		spin_lock(&m->set->lock);
		m->set->counts.signals++;
		m->set->counts.overruns += why == KFI_WHY_OVERRUN;
		kfi_member_queue(m);
		spin_unlock(&m->set->lock);
	}
}

/*
 * Report one member; of a counter, remember the reported change. The caller holds the
 * set's lock.
 */
static void *kfi_member_report(struct kfi_member *m)
{
	lockdep_assert_held(&m->set->lock);
	/* Pairs with kfi_cntr_changed(): before the ULP reads the counter. */
	m->mark = smp_load_acquire(&m->src->changes);
	kfi_trace(poll_report, m->set->id, m->src->id, m->src->fid->fclass);
	m->set->counts.wakes++;
	if (m->since)
		kfi_count_latency(&m->set->counts, m->since, kfi_stamp());
	return m->src->fid->context;
}

static int kfi_poll_op_poll(struct kfid_poll *pollset, void **context, int count)
{
	struct kfi_poll *set = to_poll(pollset);
	struct kfi_member *m;
	unsigned long flags;
	LIST_HEAD(unseen);
	int n = 0;

	if (count <= 0 || !context)
		return -KFI_EINVAL;

	kfi_domain_progress(set->domain);
	spin_lock_irqsave(&set->lock, flags);
	list_splice_init(&set->ready, &unseen);
	while (n < count && !list_empty(&unseen)) {
		m = list_first_entry(&unseen, struct kfi_member, on_ready);
		kfi_member_unqueue(m);
		kfi_test_look();
		if (!kfi_member_ready(m)) {
			set->counts.overtaken++;
			continue;
		}
		context[n++] = kfi_member_report(m);
		if (kfi_member_ready(m))
			kfi_member_queue(m);
		else if (m->src->fid->fclass != KFI_CLASS_CNTR)
			set->counts.spurious++;
	}
	list_splice(&unseen, &set->ready);
	spin_unlock_irqrestore(&set->lock, flags);
	return n;
}

/* The caller holds the source's lock. */
static struct kfi_member *kfi_member_find(const struct kfi_source *src,
					  const struct kfi_poll *set)
{
	struct kfi_member *m;

	lockdep_assert_held(&src->lock);
	list_for_each_entry(m, &src->members, of_source)
		if (m->set == set)
			return m;
	return NULL;
}

/* Only sources of the set's domain, and EQs of its fabric. */
static bool kfi_poll_accepts(const struct kfi_poll *set,
			     const struct kfi_source *src)
{
	if (src->domain)
		return src->domain == set->domain;
	return src->fabric == set->domain->fabric;
}

static int kfi_member_link(struct kfi_member *m)
{
	struct kfi_source *src = m->src;
	int ret = 0;

	spin_lock_irq(&src->lock);
	if (kfi_member_find(src, m->set)) {
		ret = -KFI_EALREADY;
	} else if (kfi_list_length(&src->members) >= KFI_OBSERVERS_MAX) {
		ret = -KFI_ENOSPC;
	} else {
		list_add_tail(&m->of_source, &src->members);
		spin_lock(&m->set->lock);
		if (kfi_member_ready(m))
			kfi_member_queue(m);
		spin_unlock(&m->set->lock);
	}
	spin_unlock_irq(&src->lock);
	return ret;
}

static int kfi_poll_op_add(struct kfid_poll *pollset, struct kfid *fid, u64 flags)
{
	struct kfi_poll *set = to_poll(pollset);
	struct kfi_source *src = fid ? kfi_fid_source(fid) : NULL;
	struct kfi_member *m;
	int ret;

	if (!src || flags || !kfi_poll_accepts(set, src))
		return -KFI_EINVAL;
	m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	if (!m)
		return -KFI_ENOMEM;
	INIT_LIST_HEAD(&m->on_ready);
	m->src = src;
	m->set = set;
	if (!kfi_fid_get(fid)) {
		ret = -KFI_EINVAL;
		goto free;
	}
	if (!kfi_fid_get(&pollset->fid)) {
		ret = -KFI_EINVAL;
		goto put_source;
	}
	ret = kfi_member_link(m);
	if (ret)
		goto put_set;
	kfi_trace(poll_add, set->id, src->id, fid->fclass);
	return 0;

put_set:
	kfi_fid_put(&pollset->fid);
put_source:
	kfi_fid_put(fid);
free:
	kfree(m);
	return ret;
}

/*
 * Once the membership is off both lists, no thread can find it: publishers and the
 * poller touch it only under one of the two locks.
 */
static struct kfi_member *kfi_member_unlink(struct kfi_source *src,
					    struct kfi_poll *set)
{
	struct kfi_member *m;

	spin_lock_irq(&src->lock);
	m = kfi_member_find(src, set);
	if (m) {
		list_del(&m->of_source);
		spin_lock(&set->lock);
		kfi_member_unqueue(m);
		spin_unlock(&set->lock);
	}
	spin_unlock_irq(&src->lock);
	return m;
}

static int kfi_poll_op_del(struct kfid_poll *pollset, struct kfid *fid, u64 flags)
{
	struct kfi_poll *set = to_poll(pollset);
	struct kfi_source *src = fid ? kfi_fid_source(fid) : NULL;
	struct kfi_member *m;

	if (!src || flags)
		return -KFI_EINVAL;
	m = kfi_member_unlink(src, set);
	if (!m)
		return -KFI_EINVAL;
	kfi_test_hook_point(KFI_HOOK_D6, set->id);
	kfi_trace(poll_del, set->id, src->id, fid->fclass);
	kfree(m);
	kfi_fid_put(&pollset->fid);
	kfi_fid_put(fid);
	return 0;
}

static int kfi_poll_close(struct kfid *fid)
{
	struct kfi_poll *set = container_of(fid, struct kfi_poll, poll.fid);
	int ret;

	ret = kfi_fid_kill(fid);
	if (ret)
		return ret;
	kfi_listed_del(&set->listed);
	kfi_trace(object_free, set->id, KFI_CLASS_POLL, set->domain->id);
	kfi_fid_put(&set->domain->domain.fid);
	kfree(set);
	return 0;
}

/**
 * kfi_poll_counts() - the counts of a poll set
 * @pollset: the poll set
 * @counts: filled in
 *
 * Context: any; takes poll->lock.
 */
void kfi_poll_counts(struct kfid_poll *pollset, struct kfi_counts *counts)
{
	struct kfi_poll *set = to_poll(pollset);
	unsigned long flags;

	spin_lock_irqsave(&set->lock, flags);
	*counts = set->counts;
	spin_unlock_irqrestore(&set->lock, flags);
}

/**
 * kfi_poll_counts_reset() - let a poll set count from 0
 * @pollset: the poll set
 *
 * Context: any; takes poll->lock.
 */
void kfi_poll_counts_reset(struct kfid_poll *pollset)
{
	struct kfi_poll *set = to_poll(pollset);
	unsigned long flags;

	spin_lock_irqsave(&set->lock, flags);
	memset(&set->counts, 0, sizeof(set->counts));
	spin_unlock_irqrestore(&set->lock, flags);
}

static struct kfi_ops kfi_poll_fid_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops),
	.close = kfi_poll_close,
	.bind = kfi_no_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

static struct kfi_ops_poll kfi_poll_ops __ro_after_init = {
	.size = sizeof(struct kfi_ops_poll),
	.poll = kfi_poll_op_poll,
	.poll_add = kfi_poll_op_add,
	.poll_del = kfi_poll_op_del,
};

/**
 * kfi_core_poll_open() - kfi_ops_domain.poll_open of every provider
 * @domain: parent
 * @attr: NULL, or flags 0
 * @pollset: the new poll set
 *
 * Context: process, may sleep; takes kfi_listed_lock.
 * Return: 0; -EINVAL for flags, or if the domain is being closed; -ENOMEM; -ENODEV
 * if the domain's device is gone.
 */
int kfi_core_poll_open(struct kfid_domain *domain, struct kfi_poll_attr *attr,
		       struct kfid_poll **pollset)
{
	struct kfi_poll *set;

	if (attr && attr->flags)
		return -KFI_EINVAL;
	if (READ_ONCE(kfi_domain_of(domain)->lost))
		return -KFI_ENODEV;
	set = kzalloc(sizeof(*set), GFP_KERNEL_ACCOUNT);
	if (!set)
		return -KFI_ENOMEM;
	if (!kfi_fid_get(&domain->fid)) {
		kfree(set);
		return -KFI_EINVAL;
	}
	set->domain = kfi_domain_of(domain);
	spin_lock_init(&set->lock);
	INIT_LIST_HEAD(&set->ready);
	set->id = kfi_new_id();
	kfi_fid_init(&set->poll.fid, KFI_CLASS_POLL, NULL, &kfi_poll_fid_ops);
	set->poll.ops = &kfi_poll_ops;
	kfi_trace(object_new, set->id, KFI_CLASS_POLL, set->domain->id);
	kfi_listed_add(&set->listed, &set->poll.fid);
	*pollset = &set->poll;
	return 0;
}
EXPORT_SYMBOL_GPL(kfi_core_poll_open);
