// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Puts back, before each execution, what setup() left: the variables of all files
 * but the checker's own, the heap, and the checker's state of an execution.
 *
 * The checker's own variables are in the section pv_engine, which the linker puts
 * somewhere among the others.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

extern char __data_start[], _end[];
extern char __start_pv_engine[], __stop_pv_engine[];

struct range {
	char *start;
	char *saved;
	size_t size;
};

static ENGINE_STATE struct range ranges[2];
static ENGINE_STATE struct world saved_world;

static struct range save(char *start, char *end)
{
	struct range r = { .start = start, .size = end > start ? end - start : 0 };

	r.saved = malloc(r.size + 1);
	if (!r.saved)
		abort();
	memcpy(r.saved, start, r.size);
	return r;
}

static char *within(char *p)
{
	return p < __data_start ? __data_start : p > _end ? _end : p;
}

void state_save(void)
{
	ranges[0] = save(__data_start, within(__start_pv_engine));
	ranges[1] = save(within(__stop_pv_engine), _end);
	saved_world = world;
	heap_save();
}

void state_restore(void)
{
	for (int i = 0; i < 2; i++)
		memcpy(ranges[i].start, ranges[i].saved, ranges[i].size);
	heap_restore(saved_world.heap_used[PV_MAX_THREADS]);
	world = saved_world;
}
