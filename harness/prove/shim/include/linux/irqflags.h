/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_IRQFLAGS_H
#define PROVE_SHIM_LINUX_IRQFLAGS_H

#include <linux/types.h>

unsigned long shim_irq_save(void);
void shim_irq_restore(unsigned long flags);
void shim_irq_enable(void);
bool irqs_disabled(void);

#define local_irq_save(flags)		((flags) = shim_irq_save())
#define local_irq_restore(flags)	shim_irq_restore(flags)
#define local_irq_disable()		((void)shim_irq_save())
#define local_irq_enable()		shim_irq_enable()

#endif /* PROVE_SHIM_LINUX_IRQFLAGS_H */
