// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Making a report where the command wants it made: in the writer, in a softirq
 * or in a work queue. The writer waits for it, with a deadline; if it leaves
 * early, the report is still made, and the last of the two frees it.
 */
#include <linux/interrupt.h>
#include <linux/llist.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "../compat.h"
#include "mock.h"

/* Ends a command whose report is stopped at a hook; nothing is repaired. */
#define KFM_DEADLINE	(30 * HZ)

static struct workqueue_struct *kfm_wq;
static LLIST_HEAD(kfm_softirq_list);

struct kfm_report *kfm_report_new(int (*run)(struct kfm_report *report))
{
	struct kfm_report *report = kzalloc(sizeof(*report), GFP_KERNEL);

	if (!report)
		return NULL;
	report->run = run;
	INIT_LIST_HEAD(&report->ops);
	refcount_set(&report->refs, 1);
	init_completion(&report->done);
	return report;
}

void kfm_report_put(struct kfm_report *report)
{
	if (!refcount_dec_and_test(&report->refs))
		return;
	kfm_ops_free(&report->ops);
	if (report->ep)
		kfm_ep_put(report->ep);
	if (report->eq)
		kfm_eq_put(report->eq);
	kfree(report);
}

static void kfm_report_run(struct kfm_report *report)
{
	report->result = report->run(report);
	complete(&report->done);
	kfm_report_put(report);
}

static void kfm_report_work(struct work_struct *work)
{
	kfm_report_run(container_of(work, struct kfm_report, work));
}

static void kfm_report_softirq(struct tasklet_struct *unused)
{
	struct llist_node *list = llist_del_all(&kfm_softirq_list);
	struct kfm_report *report, *next;

	list = llist_reverse_order(list);
	llist_for_each_entry_safe(report, next, list, link)
		kfm_report_run(report);
}

static void kfm_run_held(struct kfm_domain *domain)
{
	struct llist_node *list = llist_del_all(&domain->held);
	struct kfm_report *report, *next;

	list = llist_reverse_order(list);
	llist_for_each_entry_safe(report, next, list, link)
		kfm_report_run(report);
}

/*
 * Manual progress: make the reports that were held. Who finds another one at it
 * leaves them to that one, who looks once more when done.
 */
void kfm_progress(struct kfi_domain_base *base)
{
	struct kfm_domain *domain = kfm_domain_of(base);
	unsigned long flags;

	while (!llist_empty(&domain->held)) {
		if (!spin_trylock_irqsave(&domain->progress, flags))
			return;
		kfm_run_held(domain);
		spin_unlock_irqrestore(&domain->progress, flags);
		/* Who failed to get the lock has added before that. */
		smp_mb();
	}
}

/* The last reports of what is about to end; waits for those under way. */
void kfm_progress_last(struct kfi_domain_base *base)
{
	struct kfm_domain *domain = kfm_domain_of(base);
	unsigned long flags;

	spin_lock_irqsave(&domain->progress, flags);
	kfm_run_held(domain);
	spin_unlock_irqrestore(&domain->progress, flags);
	/* As in kfm_progress(). */
	smp_mb();
	kfm_progress(base);
}

/*
 * Keeps the reference that kfm_report_run() drops, and one more, since the report
 * may be made at once. An endpoint whose close has begun may have made its last
 * progress already; it waits for this report.
 */
static void kfm_report_hold(struct kfm_report *report)
{
	struct kfm_ep *ep = report->ep;
	struct kfi_domain_base *base = ep->base.domain;

	report->atomic = true;
	refcount_inc(&ep->users.count);
	llist_add(&report->link, &kfm_domain_of(base)->held);
	kfi_domain_pending(base);
	if (!atomic_read(&ep->base.ep.fid.ref_cnt))
		kfm_progress_last(base);
	kfm_ep_put(ep);
}

static DECLARE_TASKLET(kfm_tasklet, kfm_report_softirq);

/*
 * With manual progress the report is made later, by who reads or polls. Takes
 * over the caller's reference. Returns what the report returned, -EINTR
 * or -ETIMEDOUT; after these two the report is still to come.
 */
int kfm_report_make(struct kfm_report *report, enum kfm_context context)
{
	long left;
	int ret;

	if (report->driven && report->ep->base.domain->progress) {
		kfm_report_hold(report);
		return 0;
	}
	refcount_inc(&report->refs);
	report->atomic = context == KFM_SOFTIRQ;
	switch (context) {
	case KFM_SOFTIRQ:
		llist_add(&report->link, &kfm_softirq_list);
		tasklet_schedule(&kfm_tasklet);
		break;
	case KFM_WORKQUEUE:
		INIT_WORK(&report->work, kfm_report_work);
		queue_work(kfm_wq, &report->work);
		break;
	default:
		kfm_report_run(report);
	}

	left = wait_for_completion_interruptible_timeout(&report->done,
							 KFM_DEADLINE);
	if (left > 0)
		ret = report->result;
	else
		ret = left ? -EINTR : -ETIMEDOUT;
	kfm_report_put(report);
	return ret;
}

int kfm_report_init(void)
{
	kfm_wq = alloc_workqueue("kfi_mock", KFI_WQ_PERCPU, 0);
	return kfm_wq ? 0 : -ENOMEM;
}

/* No object is open, so no report is to come; the last may be leaving still. */
void kfm_report_exit(void)
{
	tasklet_kill(&kfm_tasklet);
	destroy_workqueue(kfm_wq);
}
