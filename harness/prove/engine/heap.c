// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Memory of the scenario, at fixed addresses.
 *
 * Each thread allocates from a region of its own, and nothing is used twice in
 * an execution.  So an address depends on its thread only, allocation needs no
 * point, and a stale pointer never hits a new object.  For each 16 bytes a map
 * knows how many of them may be used.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "internal.h"
#include "layout.h"

#define GRAIN		16UL
#define REGIONS		(PV_MAX_THREADS + 1)
#define ALONE_REGION	PV_MAX_THREADS
#define FREED		0xfd
#define UNUSED		0x5a			/* what fresh memory holds */
#define POISON		0x6b			/* what freed memory holds */

struct block {
	uint32_t size;
	uint32_t live;
	const void *place;		/* of the allocation */
};

_Static_assert(sizeof(struct block) == GRAIN, "the header keeps the alignment");

static ENGINE_STATE uint8_t *map;
static ENGINE_STATE char *saved;
static ENGINE_STATE uint8_t *saved_map;

static char *region(int index)
{
	return (char *)HEAP_START + index * HEAP_REGION;
}

static uint8_t *map_of(const volatile void *p)
{
	return &map[((uintptr_t)p - HEAP_START) / GRAIN];
}

static struct block *block_of(const void *p)
{
	return (struct block *)p - 1;
}

void heap_init(void)
{
	map = mmap(NULL, HEAP_SIZE / GRAIN, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		abort();
}

void heap_save(void)
{
	size_t used = world.heap_used[ALONE_REGION];

	saved = malloc(used + 1);
	saved_map = malloc(used / GRAIN + 1);
	if (!saved || !saved_map)
		abort();
	memcpy(saved, region(ALONE_REGION), used);
	memcpy(saved_map, map_of(region(ALONE_REGION)), used / GRAIN);
}

/* Called before the saved world is put back: this one says what was used. */
void heap_restore(size_t kept)
{
	size_t used = world.heap_used[ALONE_REGION];

	for (int i = 0; i < world.nthreads; i++)
		memset(map_of(region(i)), 0, world.heap_used[i] / GRAIN);
	memset(map_of(region(ALONE_REGION) + kept), 0, (used - kept) / GRAIN);
	memcpy(region(ALONE_REGION), saved, kept);
	memcpy(map_of(region(ALONE_REGION)), saved_map, kept / GRAIN);
}

void *pv_alloc(unsigned long size, _Bool zeroed, const void *place)
{
	int index = world.running < 0 ? ALONE_REGION : world.running;
	unsigned long room = (size + GRAIN - 1) / GRAIN * GRAIN + GRAIN;
	struct block *b = (void *)(region(index) + world.heap_used[index]);
	char *p = (char *)(b + 1);

	if (world.heap_used[index] + room + GRAIN > HEAP_REGION)
		pv_fail(PV_LIMIT, "%s allocates more than %lu bytes", self()->name, HEAP_REGION);
	world.heap_used[index] += room;
	*b = (struct block){ .size = size, .live = 1, .place = place };
	memset(p, zeroed ? 0 : UNUSED, size);
	memset(map_of(p), GRAIN, size / GRAIN);
	/* The last, partly used grain. */
	if (size % GRAIN)
		*map_of(p + size) = size % GRAIN;
	trace(OP_ALLOC, p, size, place);
	return p;
}

static bool in_heap(const volatile void *p)
{
	return (uintptr_t)p - HEAP_START < HEAP_SIZE;
}

/* The block that p points into or just past; NULL if there is none. */
static struct block *block_around(const volatile void *p)
{
	int index = ((uintptr_t)p - HEAP_START) / HEAP_REGION;
	char *at = region(index), *end = at + world.heap_used[index];

	while (at < end) {
		struct block *b = (void *)at;

		at += GRAIN + (b->size + GRAIN - 1) / GRAIN * GRAIN;
		if ((char *)p < at)
			return b;
	}
	return NULL;
}

static struct block *block_to_free(void *p, const void *place)
{
	struct block *b = in_heap(p) ? block_around(p) : NULL;

	engine.place = place;
	if (!b || (void *)(b + 1) != p)
		pv_fail(PV_BAD_FREE, "%p is not the start of an allocation", p);
	if (!b->live)
		pv_fail(PV_DOUBLE_FREE, "%p is freed again", p);
	return b;
}

void pv_free(void *p)
{
	struct block *b;

	if (!p)
		return;
	b = block_to_free(p, PLACE);
	settle_own_stores(p, b->size, PLACE);
	check_access(p, b->size, true, false, PLACE);
	trace(OP_FREE, p, b->size, PLACE);
	b->live = 0;
	memset(p, POISON, b->size);
	memset(map_of(p), FREED, (b->size + GRAIN - 1) / GRAIN);
}

unsigned long pv_size(const void *p)
{
	return block_of(p)->size;
}

/* The slow part: it has been seen that not all bytes are usable. */
static void __attribute__((noinline)) report_access(const volatile void *p, unsigned long size)
{
	struct block *b = block_around(p);

	if (b && !b->live)
		pv_fail(PV_USE_AFTER_FREE, "%lu bytes at offset %ld of %llu freed bytes", size,
			(long)((char *)p - (char *)(b + 1)), (pv_u64)b->size);
	pv_fail(PV_OUT_OF_BOUNDS, "%lu bytes at %p are outside of all allocations", size, p);
}

void heap_check(const volatile void *p, unsigned long size)
{
	uintptr_t at = (uintptr_t)p, end = at + size;

	if (!in_heap(p) || !size)
		return;
	for (; at < end; at = (at | (GRAIN - 1)) + 1) {
		uintptr_t top = (at | (GRAIN - 1)) + 1;
		unsigned int state = *map_of((void *)at);

		if (state > GRAIN || ((end < top ? end : top) - 1) % GRAIN >= state)
			report_access(p, size);
	}
}

void heap_leaks(void)
{
	engine.place = NULL;
	for (int i = 0; i < REGIONS; i++) {
		char *at = region(i), *end = at + world.heap_used[i];

		while (at < end) {
			struct block *b = (void *)at;

			if (b->live) {
				engine.finder = i == ALONE_REGION ? PV_ALONE : i;
				pv_fail(PV_LEAK, "%llu bytes, allocated by %s, are never freed",
					(pv_u64)b->size,
					i == ALONE_REGION ? "setup" : world.thread[i].name);
			}
			at += GRAIN + (b->size + GRAIN - 1) / GRAIN * GRAIN;
		}
	}
}

/* The block around p; NULL if there is none. */
const void *heap_block(const void *p, unsigned long *size, const void **place)
{
	struct block *b = in_heap(p) ? block_around(p) : NULL;

	if (!b)
		return NULL;
	*size = b->size;
	*place = b->place;
	return b + 1;
}

/* Names a place in the heap: the block's number in its region, and the offset. */
bool heap_describe(const void *p, char *out, size_t size)
{
	struct block *b = in_heap(p) ? block_around(p) : NULL;
	int index = ((uintptr_t)p - HEAP_START) / HEAP_REGION, number = 0;
	long offset;

	if (!b)
		return false;
	for (char *at = region(index); at < (char *)b; number++)
		at += GRAIN + (((struct block *)at)->size + GRAIN - 1) / GRAIN * GRAIN;
	offset = (char *)p - (char *)(b + 1);
	snprintf(out, size, offset ? "%s#%d+%ld" : "%s#%d",
		 index == ALONE_REGION ? "setup" : world.thread[index].name, number, offset);
	return true;
}
