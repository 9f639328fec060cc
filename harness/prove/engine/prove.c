// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* What prove.h and engine.h offer about threads and checks. */
#include "internal.h"

void prove_failed(const char *text)
{
	engine.place = PLACE;
	pv_fail(PV_CHECK, "%s", text);
}

int prove_self(void)
{
	return world.running;
}

long prove_arg(void)
{
	return self()->value;
}

void prove_ready(_Bool (*ready)(void))
{
	if (world.nready == MAX_READY)
		pv_fail(PV_LIMIT, "more than %d ready functions", MAX_READY);
	world.ready[world.nready++] = ready;
}

int pv_self(void)
{
	return world.running;
}

const char *pv_thread_name(int thread)
{
	return thread < 0 ? world.alone.name : world.thread[thread].name;
}

unsigned int pv_thread_flags(int thread)
{
	return thread < 0 ? 0 : world.thread[thread].flags;
}
