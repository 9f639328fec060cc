/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Probes on the tracepoints of kfabric.ko. A monitor is built into the kernel, and the
 * module comes and goes; the kernel's rv_attach_trace_probe() needs tracepoints that
 * are built in.
 */
#ifndef _KFI_PROBES_H
#define _KFI_PROBES_H

#include <linux/module.h>
#include <linux/notifier.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#define KFI_PROBES_MODULE "kfabric"

/**
 * struct kfi_probe - a probe
 * @tracepoint: its name
 * @function: the handler, with the tracepoint's arguments
 */
struct kfi_probe {
	const char *tracepoint;
	void *function;
};

/**
 * struct kfi_probes - the probes of a monitor
 * @monitor: its name
 * @probes: attached in this order
 * @n: their number
 * @forget: drop what is known of the module's objects; no probe is attached
 * @attached: how many of @probes are attached; protected by the list of modules with
 *	tracepoints, under whose mutex the notifier runs
 * @notifier: called when a module with tracepoints comes or goes
 */
struct kfi_probes {
	const char *monitor;
	const struct kfi_probe *probes;
	unsigned int n;
	void (*forget)(void);
	unsigned int attached;
	struct notifier_block notifier;
};

static struct tracepoint *kfi_probes_find(struct module *mod, const char *name)
{
	struct tracepoint *tp;
	unsigned int i;

	for (i = 0; i < mod->num_tracepoints; i++) {
		tp = tracepoint_ptr_deref(&mod->tracepoints_ptrs[i]);
		if (!strcmp(tp->name, name))
			return tp;
	}
	return NULL;
}

/* In the opposite order, until no probe can run any more. */
static void kfi_probes_detach(struct kfi_probes *p, struct module *mod)
{
	const struct kfi_probe *probe;

	while (p->attached) {
		probe = &p->probes[--p->attached];
		tracepoint_probe_unregister(kfi_probes_find(mod, probe->tracepoint),
					    probe->function, NULL);
	}
	tracepoint_synchronize_unregister();
	p->forget();
}

/* All of them or none: a monitor that misses some events would report nonsense. */
static void kfi_probes_attach(struct kfi_probes *p, struct module *mod)
{
	const struct kfi_probe *probe;
	struct tracepoint *tp;

	for (; p->attached < p->n; p->attached++) {
		probe = &p->probes[p->attached];
		tp = kfi_probes_find(mod, probe->tracepoint);
		if (!tp || tracepoint_probe_register(tp, probe->function, NULL)) {
			pr_warn("rv: monitor %s sees nothing: no tracepoint %s\n",
				p->monitor, probe->tracepoint);
			kfi_probes_detach(p, mod);
			return;
		}
	}
}

static int kfi_probes_notify(struct notifier_block *nb, unsigned long action,
			     void *data)
{
	struct kfi_probes *p = container_of(nb, struct kfi_probes, notifier);
	struct module *mod = ((struct tp_module *)data)->mod;

	if (strcmp(mod->name, KFI_PROBES_MODULE))
		return NOTIFY_DONE;
	if (action == MODULE_STATE_COMING)
		kfi_probes_attach(p, mod);
	else if (action == MODULE_STATE_GOING)
		kfi_probes_detach(p, mod);
	return NOTIFY_OK;
}

/* Registering calls the notifier for the modules that are there already. */
static int kfi_probes_enable(struct kfi_probes *p)
{
	p->notifier.notifier_call = kfi_probes_notify;
	return register_tracepoint_module_notifier(&p->notifier);
}

/* Likewise, as if these modules went. */
static void kfi_probes_disable(struct kfi_probes *p)
{
	unregister_tracepoint_module_notifier(&p->notifier);
}

#endif /* _KFI_PROBES_H */
