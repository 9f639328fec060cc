/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_CPUMASK_H
#define PROVE_SHIM_LINUX_CPUMASK_H

#include <linux/types.h>

/* A number of a CPU means nothing here: every thread has one of its own. */
#define nr_cpu_ids		2U
#define NR_CPUS			2

static inline bool cpu_online(unsigned int cpu)
{
	return cpu < nr_cpu_ids;
}

#define smp_processor_id()	0
#define raw_smp_processor_id()	0

#endif /* PROVE_SHIM_LINUX_CPUMASK_H */
