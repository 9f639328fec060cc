// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Reports run in the context that the command selects: in the writer, in a
 * softirq or in a work queue. The writer waits for its report up to a deadline.
 * If the writer leaves early, the report still runs. The last reference frees
 * the report.
 */
#include <linux/interrupt.h>
#include <linux/llist.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "../compat.h"
#include "mock.h"

/* Limit of a command whose report is stopped at a hook. */
#define KFM_DEADLINE	(30 * HZ)

static struct workqueue_struct *kfm_wq;
static LLIST_HEAD(kfm_softirq_list);

/**
 * kfm_report_new() - allocate a report
 * @run: see struct kfm_report
 *
 * Context: Process context. May sleep.
 * Return: the report, with one reference, or NULL.
 */
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

/**
 * kfm_report_put() - drop a reference to a report
 * @report: the report
 *
 * Context: Any.
 */
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

/* In the order of llist_add(). */
static void kfm_run_list(struct llist_head *reports)
{
	struct llist_node *list = llist_reverse_order(llist_del_all(reports));
	struct kfm_report *report, *next;

	llist_for_each_entry_safe(report, next, list, link)
		kfm_report_run(report);
}

static void kfm_report_softirq(struct tasklet_struct *unused)
{
	kfm_run_list(&kfm_softirq_list);
}

static void kfm_run_deferred(struct kfm_domain *domain)
{
	lockdep_assert_held(&domain->progress);
	kfm_run_list(&domain->deferred);
}

/**
 * kfm_progress() - kfi_domain_base.progress: run the deferred reports
 * @base: the domain
 *
 * If another caller holds the lock, that caller runs the reports: it checks the
 * list again after the unlock.
 *
 * Context: Any.
 */
void kfm_progress(struct kfi_domain_base *base)
{
	struct kfm_domain *domain = kfm_domain_of(base);
	unsigned long flags;

	while (!llist_empty(&domain->deferred)) {
		if (!spin_trylock_irqsave(&domain->progress, flags))
			return;
		kfm_run_deferred(domain);
		spin_unlock_irqrestore(&domain->progress, flags);
		/*
		 * Pairs with the llist_add() of a caller whose trylock failed:
		 * the check of the list sees its report.
		 */
		smp_mb();
	}
}

/**
 * kfm_progress_flush() - run all deferred reports before a teardown
 * @base: the domain
 *
 * Also waits for deferred reports that run at the time of the call.
 *
 * Context: Any, except in a deferred report.
 */
void kfm_progress_flush(struct kfi_domain_base *base)
{
	struct kfm_domain *domain = kfm_domain_of(base);
	unsigned long flags;

	spin_lock_irqsave(&domain->progress, flags);
	kfm_run_deferred(domain);
	spin_unlock_irqrestore(&domain->progress, flags);
	/* As in kfm_progress(). */
	smp_mb();
	kfm_progress(base);
}

/*
 * The report keeps the caller's reference, which kfm_report_run() drops. The
 * report may run at once, so this function takes its own reference to the
 * endpoint. If the endpoint's close has begun, it may have flushed already, and
 * it waits for this report: then flush again.
 */
static void kfm_report_defer(struct kfm_report *report)
{
	struct kfm_ep *ep = report->ep;
	struct kfi_domain_base *base = ep->base.domain;

	report->atomic = true;
	refcount_inc(&ep->users.count);
	llist_add(&report->link, &kfm_domain_of(base)->deferred);
	kfi_domain_pending(base);
	if (!atomic_read(&ep->base.ep.fid.ref_cnt))
		kfm_progress_flush(base);
	kfm_ep_put(ep);
}

static DECLARE_TASKLET(kfm_tasklet, kfm_report_softirq);

/**
 * kfm_report_submit() - run a report and wait for it
 * @report: the report; the caller's reference goes with it
 * @context: the context to run it in
 *
 * With manual progress, a report with @by_progress is deferred: a later read or
 * poll in the domain runs it, and @context has no effect.
 *
 * Context: Process context. Sleeps interruptibly, up to KFM_DEADLINE.
 * Return: the result of the report, 0 if it is deferred, -EINTR or -ETIMEDOUT.
 *	After -EINTR and -ETIMEDOUT of the wait, the report still runs.
 */
int kfm_report_submit(struct kfm_report *report, enum kfm_context context)
{
	long left;
	int ret;

	if (report->by_progress && report->ep->base.domain->progress) {
		kfm_report_defer(report);
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

/**
 * kfm_report_init() - allocate the work queue
 *
 * Context: Process context. May sleep.
 * Return: 0 or -ENOMEM.
 */
int kfm_report_init(void)
{
	kfm_wq = alloc_workqueue("kfi_mock", KFI_WQ_PERCPU, 0);
	return kfm_wq ? 0 : -ENOMEM;
}

/**
 * kfm_report_exit() - free the work queue
 *
 * No object is open, so no new report can come. The last reports may still be
 * returning.
 *
 * Context: Process context. May sleep.
 */
void kfm_report_exit(void)
{
	tasklet_kill(&kfm_tasklet);
	destroy_workqueue(kfm_wq);
}
