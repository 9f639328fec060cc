/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_WORKQUEUE_H
#define PROVE_SHIM_LINUX_WORKQUEUE_H

#include <linux/bits.h>
#include <linux/timer.h>
#include <linux/types.h>

struct work_item;
struct work_struct;
struct workqueue_struct;

typedef void (*work_func_t)(struct work_struct *work);

/**
 * struct work_struct - a work item
 * @func: runs in a thread of its own
 * @item: what work.c keeps of it
 */
struct work_struct {
	work_func_t func;
	struct work_item *item;
};

struct delayed_work {
	struct work_struct work;
	struct timer_list timer;
	struct workqueue_struct *wq;
};

#define WORK_CPU_UNBOUND	64
#define WQ_UNBOUND		BIT(1)
#define WQ_FREEZABLE		BIT(2)
#define WQ_MEM_RECLAIM		BIT(3)
#define WQ_HIGHPRI		BIT(4)

/* A queue of work items is a name: each item has a thread of its own anyway. */
extern struct workqueue_struct *system_wq;
extern struct workqueue_struct *system_unbound_wq;
extern struct workqueue_struct *system_highpri_wq;

struct workqueue_struct *alloc_workqueue(const char *name, unsigned int flags,
					 int max_active, ...);
void destroy_workqueue(struct workqueue_struct *wq);
void flush_workqueue(struct workqueue_struct *wq);

void shim_init_work(struct work_struct *work, work_func_t func);
void shim_init_delayed_work(struct delayed_work *work, work_func_t func);

#define INIT_WORK(work, func)			shim_init_work(work, func)
#define INIT_WORK_ONSTACK(work, func)		shim_init_work(work, func)
#define INIT_DELAYED_WORK(work, func)		shim_init_delayed_work(work, func)
#define destroy_work_on_stack(work)		((void)(work))

static inline struct delayed_work *to_delayed_work(struct work_struct *work)
{
	return container_of(work, struct delayed_work, work);
}

bool queue_work_on(int cpu, struct workqueue_struct *wq, struct work_struct *work);
bool queue_delayed_work_on(int cpu, struct workqueue_struct *wq,
			   struct delayed_work *work, unsigned long delay);
bool mod_delayed_work_on(int cpu, struct workqueue_struct *wq,
			 struct delayed_work *work, unsigned long delay);
bool cancel_work(struct work_struct *work);
bool cancel_work_sync(struct work_struct *work);
bool flush_work(struct work_struct *work);
bool cancel_delayed_work(struct delayed_work *work);
bool cancel_delayed_work_sync(struct delayed_work *work);
bool flush_delayed_work(struct delayed_work *work);
bool work_pending(struct work_struct *work);
struct work_struct *current_work(void);

#define queue_work(wq, work)	queue_work_on(WORK_CPU_UNBOUND, wq, work)
#define queue_delayed_work(wq, work, delay)				\
	queue_delayed_work_on(WORK_CPU_UNBOUND, wq, work, delay)
#define mod_delayed_work(wq, work, delay)				\
	mod_delayed_work_on(WORK_CPU_UNBOUND, wq, work, delay)
#define schedule_work(work)	queue_work(system_wq, work)
#define schedule_delayed_work(work, delay)				\
	queue_delayed_work(system_wq, work, delay)
#define delayed_work_pending(work)	work_pending(&(work)->work)

#endif /* PROVE_SHIM_LINUX_WORKQUEUE_H */
