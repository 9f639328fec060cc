// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Work items. A queued item is a thread that may begin at any moment. An item never
 * runs twice at once, and is not looked at after its function has begun, which may
 * free it.
 */
#include <linux/workqueue.h>

#include "shim.h"

struct workqueue_struct {
	const char *name;
};

static struct workqueue_struct any_wq = { .name = "any" };

struct workqueue_struct *system_wq = &any_wq;
struct workqueue_struct *system_unbound_wq = &any_wq;
struct workqueue_struct *system_highpri_wq = &any_wq;

enum work_bits {
	WORK_PENDING	= 1,	/* to be run */
	WORK_DELAYED	= 2,	/* its timer is armed */
	WORK_RUNNING	= 4,
	WORK_CANCELING	= 8,	/* cancel_work_sync() waits: it may not be queued */
};

/**
 * struct work_item - what becomes of a work item
 * @state: enum work_bits; the object of its points
 * @work: the item
 * @threads: those that were spawned for it and have not begun
 * @runner: the thread that runs it
 */
struct work_item {
	unsigned int state;
	struct work_struct *work;
	unsigned int threads;
	int runner;
};

/* Each thread has places of its own for items that it initialises, as in timer.c. */
#define WORK_ITEMS	16

static struct work_item items[SHIM_TASKS][WORK_ITEMS];
static unsigned int items_used[SHIM_TASKS];
static struct work_item *item_of_thread[SHIM_TASKS];

void shim_init_work(struct work_struct *work, work_func_t func)
{
	const int slot = shim_slot();

	if (items_used[slot] == WORK_ITEMS)
		pv_fail(PV_LIMIT, "one thread initialises more than %d work items",
			WORK_ITEMS);
	work->func = func;
	work->item = &items[slot][items_used[slot]++];
	work->item->work = work;
}

static struct work_item *item_of(struct work_struct *work)
{
	if (!work->item)
		pv_fail(PV_WARN, "a work item without INIT_WORK()");
	return work->item;
}

static void item_update(struct work_item *item)
{
	pv_update(&item->state, sizeof(item->state), PV_FULL);
}

static bool item_may_begin(void *arg)
{
	struct work_item *item = arg;

	return (item->state & (WORK_PENDING | WORK_RUNNING)) == WORK_PENDING;
}

static void item_run(void *arg)
{
	struct work_item *item = arg;
	work_func_t func;

	item_update(item);
	item->threads--;
	if (!item_may_begin(item))
		return;
	item->state ^= WORK_PENDING | WORK_RUNNING;
	item->runner = shim_slot();
	item_of_thread[item->runner] = item;
	pv_plain_read(item->work, sizeof(*item->work), CALLER);
	func = item->work->func;
	func(item->work);
	item_of_thread[item->runner] = NULL;
	item_update(item);
	item->state &= ~WORK_RUNNING;
}

/* In the step in which the item became pending. */
static void item_spawn(struct work_item *item)
{
	if (item->threads)
		return;
	item->threads++;
	pv_spawn("work", item_run, item, PV_MAYBE, item_may_begin, &item->state);
}

bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work)
{
	struct work_item *item = item_of(work);

	item_update(item);
	if (item->state & (WORK_PENDING | WORK_DELAYED | WORK_CANCELING))
		return false;
	item->state |= WORK_PENDING;
	item_spawn(item);
	return true;
}

static bool item_stopped(void *arg)
{
	return !(((struct work_item *)arg)->state & WORK_RUNNING);
}

static bool item_idle(void *arg)
{
	struct work_item *item = arg;

	return !(item->state & (WORK_RUNNING | WORK_PENDING));
}

bool cancel_work(struct work_struct *work)
{
	struct work_item *item = item_of(work);
	bool was;

	item_update(item);
	was = item->state & (WORK_PENDING | WORK_DELAYED);
	item->state &= ~(WORK_PENDING | WORK_DELAYED);
	return was;
}

bool cancel_work_sync(struct work_struct *work)
{
	struct work_item *item = item_of(work);
	bool was;

	shim_might_sleep("cancel_work_sync()");
	item_update(item);
	was = item->state & (WORK_PENDING | WORK_DELAYED);
	item->state &= ~(WORK_PENDING | WORK_DELAYED);
	if (item_stopped(item))
		return was;
	item->state |= WORK_CANCELING;
	pv_block(&item->state, item_stopped, item, "cancel_work_sync()");
	item_update(item);
	item->state &= ~WORK_CANCELING;
	return was;
}

/* Waits also for a run that was queued meanwhile, which the kernel does not. */
bool flush_work(struct work_struct *work)
{
	struct work_item *item = item_of(work);
	bool was;

	shim_might_sleep("flush_work()");
	item_update(item);
	was = !item_idle(item);
	if (was)
		pv_block(&item->state, item_idle, item, "flush_work()");
	return was;
}

bool work_pending(struct work_struct *work)
{
	struct work_item *item = item_of(work);

	return pv_load(&item->state, sizeof(item->state), PV_NEWEST) &
	       (WORK_PENDING | WORK_DELAYED);
}

struct work_struct *current_work(void)
{
	struct work_item *item = item_of_thread[shim_slot()];

	return item ? item->work : NULL;
}

/* The timer's function: the delay is over. */
static void delayed_work_due(struct timer_list *timer)
{
	struct delayed_work *work = container_of(timer, struct delayed_work, timer);
	struct work_item *item = item_of(&work->work);

	item_update(item);
	if (!(item->state & WORK_DELAYED))
		return;
	item->state ^= WORK_DELAYED | WORK_PENDING;
	item_spawn(item);
}

void shim_init_delayed_work(struct delayed_work *work, work_func_t func)
{
	shim_init_work(&work->work, func);
	timer_setup(&work->timer, delayed_work_due, 0);
}

bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq,
			   struct delayed_work *work, unsigned long delay)
{
	struct work_item *item = item_of(&work->work);

	if (!delay)
		return queue_work_on(cpu, wq, &work->work);
	item_update(item);
	if (item->state & (WORK_PENDING | WORK_DELAYED | WORK_CANCELING))
		return false;
	item->state |= WORK_DELAYED;
	mod_timer(&work->timer, jiffies + delay);
	return true;
}

bool cancel_delayed_work(struct delayed_work *work)
{
	del_timer(&work->timer);
	return cancel_work(&work->work);
}

bool cancel_delayed_work_sync(struct delayed_work *work)
{
	del_timer_sync(&work->timer);
	return cancel_work_sync(&work->work);
}

bool mod_delayed_work_on(int cpu, struct workqueue_struct *wq,
			 struct delayed_work *work, unsigned long delay)
{
	const bool was = cancel_delayed_work(work);

	queue_delayed_work_on(cpu, wq, work, delay);
	return was;
}

bool flush_delayed_work(struct delayed_work *work)
{
	if (cancel_delayed_work(work))
		queue_work(system_wq, &work->work);
	return flush_work(&work->work);
}

struct workqueue_struct *alloc_workqueue(const char *name, unsigned int flags,
					 int max_active, ...)
{
	return &any_wq;
}

/* No queue knows its items: this waits for every item of the program. */
void flush_workqueue(struct workqueue_struct *wq)
{
	unsigned int i, k;

	for (i = 0; i < SHIM_TASKS; i++)
		for (k = 0; k < items_used[i]; k++)
			flush_work(items[i][k].work);
}

void destroy_workqueue(struct workqueue_struct *wq)
{
	flush_workqueue(wq);
}
