// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Plain accesses: data races, freed memory, dead stack frames.
 *
 * Files under test are compiled with -fsanitize=thread; the functions that the
 * compiler calls are here.  Two accesses race if at least one writes, at least one
 * is plain, and nothing orders them: a lock, a release that an acquire reads, a
 * fence on either side of marked accesses, a wake-up, or a thread's start.  The order in
 * which the scheduler happened to run them does not count.
 *
 * For each eight bytes a few of the last accesses are remembered.
 *
 * Where executions go on past races, the plain accesses of eight bytes with a race are
 * points: their order counts.  They are learnt one after the other, and the exploration
 * begins anew.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"
#include "layout.h"

#define CELLS	7
#define MAX_RACY	32		/* of these eight bytes */
#define VISITS	64		/* of one stack, by other threads */

struct cell {
	uint32_t place;			/* from the start of the program */
	uint16_t clock;
	uint8_t thread : 6;
	uint8_t write : 1;
	uint8_t marked : 1;
	uint8_t bytes;
};

struct word {
	uint32_t epoch;
	uint16_t count;
	uint16_t victim;
	struct cell cell[CELLS];
};

_Static_assert(sizeof(struct word) == 64, "one cache line");

/* The last plain accesses of other threads to frames that have not returned yet. */
struct visits {
	uint32_t epoch;
	int count;
	struct visit {
		uintptr_t at;
		struct cell cell;
	} visit[VISITS];
};

extern char __executable_start[], __data_start[], _end[];

static ENGINE_STATE struct word *span_words;
static ENGINE_STATE struct word *data_words;
static ENGINE_STATE struct visits visits[PV_MAX_THREADS];
static ENGINE_STATE uintptr_t racy[MAX_RACY];
static ENGINE_STATE int nracy;

static struct word *make_words(size_t bytes)
{
	struct word *w = mmap(NULL, (bytes / 8 + 2) * sizeof(*w), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (w == MAP_FAILED)
		abort();
	return w;
}

void races_init(void)
{
	span_words = make_words(SPAN_END - SPAN_START);
	data_words = make_words(_end - __data_start);
}

static struct word *word_at(uintptr_t at)
{
	struct word *w;

	if (at - SPAN_START < SPAN_END - SPAN_START)
		w = &span_words[(at - SPAN_START) / 8];
	else if (at >= (uintptr_t)__data_start && at < (uintptr_t)_end)
		w = &data_words[at / 8 - (uintptr_t)__data_start / 8];
	else
		return NULL;
	if (w->epoch != engine.epoch) {
		w->epoch = engine.epoch;
		w->count = 0;
		w->victim = 0;
	}
	return w;
}

static const void *place_of(const struct cell *c)
{
	return __executable_start + c->place;
}

static bool is_racy(uintptr_t at)
{
	for (int i = 0; i < nracy; i++)
		if (racy[i] == (at & ~7UL))
			return true;
	return false;
}

void learn_race(uintptr_t at)
{
	if (nracy < MAX_RACY && !is_racy(at))
		racy[nracy++] = at & ~7UL;
}

/* The parts of a schedule that say so. */
void print_races(FILE *out)
{
	for (int i = 0; i < nracy; i++)
		fprintf(out, "r%lx,", racy[i]);
}

/* The execution goes on, but with a point at this access if that was not known. */
static void go_past_race(uintptr_t at)
{
	if (engine.options.mode == MODE_REPLAY || is_racy(at) || nracy == MAX_RACY)
		return;
	learn_race(at);
	engine.restart = true;
	leave();
}

/* A point, if past races the order of the access counts. */
static void __attribute__((noinline)) point_if_racy(const volatile void *p, unsigned long size,
						    bool write, const void *place)
{
	struct op op = {
		.kind = write ? OP_WRITE : OP_READ, .size = size, .place = place,
		.access = write ? ACCESS_WRITE : ACCESS_READ, .address = (const void *)p,
	};

	if (world.phase != PHASE_PLAY || world.running < 0 || !is_racy((uintptr_t)p) ||
	    (uintptr_t)p % 8 + size > 8)
		return;
	op.object = object_at(p, size);
	point(&op);
}

static const char *access_name(const struct cell *c)
{
	if (c->marked)
		return c->write ? "marked write" : "marked read";
	return c->write ? "plain write" : "plain read";
}

static void __attribute__((noinline)) report_race(const struct cell *old, const struct cell *new,
						  uintptr_t at)
{
	char name[128];

	trace_race((const void *)at, new->write, new->marked, place_of(new));
	if (engine.options.past_races) {
		go_past_race(at);
		return;
	}
	name_object((const void *)at, name, sizeof(name));
	engine.place = place_of(new);
	engine.other_place = place_of(old);
	pv_fail(PV_RACE, "%s of %s by %s, unordered with the %s by %s", access_name(new), name,
		world.thread[new->thread].name, access_name(old),
		world.thread[old->thread].name);
}

static void note_cell(struct word *w, int slot, const struct cell *new)
{
	if (slot < 0 && w->count < CELLS)
		slot = w->count++;
	else if (slot < 0)
		slot = w->victim++ % CELLS;
	w->cell[slot] = *new;
}

/* Compares with what is remembered; a cell that says no more than this one is replaced. */
static void check_word(struct word *w, const struct cell *new, uintptr_t at)
{
	const struct sync *now = &world.thread[new->thread].now;
	int slot = -1;

	for (int i = 0; i < w->count; i++) {
		const struct cell *c = &w->cell[i];
		bool ordered = c->clock <= now->at[c->thread];

		if (!(c->bytes & new->bytes))
			continue;
		if (!ordered && (c->write || new->write) && !(c->marked && new->marked))
			report_race(c, new, at);
		if (c->thread == new->thread && c->clock == new->clock && c->bytes == new->bytes &&
		    c->write >= new->write && c->marked <= new->marked)
			return;
		if (ordered && !(c->bytes & ~new->bytes) && c->write <= new->write &&
		    c->marked >= new->marked)
			slot = i;
	}
	note_cell(w, slot, new);
}

static void check_stack(int owner, uintptr_t at)
{
	if (owner == world.running ? at >= (uintptr_t)__builtin_frame_address(0) - 128 :
				     !stack_is_dead(owner, at))
		return;
	pv_fail(PV_DEAD_STACK, "%s touches a stack frame of %s that has returned", self()->name,
		owner < world.nthreads ? world.thread[owner].name : "no thread");
}

static struct visits *visits_of(int thread)
{
	struct visits *all = &visits[thread];

	if (all->epoch != engine.epoch) {
		all->epoch = engine.epoch;
		all->count = 0;
	}
	return all;
}

static void note_visit(int owner, uintptr_t at, const struct cell *by)
{
	struct visits *all = visits_of(owner);
	int i;

	for (i = 0; i < all->count; i++)
		if (all->visit[i].at == at && all->visit[i].cell.thread == by->thread)
			break;
	if (i == VISITS)
		pv_fail(PV_LIMIT, "more than %d places of a stack that others touch", VISITS);
	if (i == all->count)
		all->count++;
	all->visit[i] = (struct visit){ .at = at, .cell = *by };
}

/*
 * The running thread's stack is gone below an address.  Others may not touch it later.
 * A plain access is no point, so that one which comes earlier only by chance counts
 * too: something must order it before the return.
 */
static void leave_frame(uintptr_t end)
{
	struct visits *all = visits_of(world.running);
	int kept = 0;

	for (int i = 0; i < all->count; i++) {
		const struct visit *v = &all->visit[i];

		if (v->at >= end) {
			all->visit[kept++] = *v;
		} else if (v->cell.clock > self()->now.at[v->cell.thread]) {
			engine.place = place_of(&v->cell);
			pv_fail(PV_DEAD_STACK, "%s touches a frame of %s, unordered with its return",
				world.thread[v->cell.thread].name, self()->name);
		}
	}
	all->count = kept;
}

static void check_words(uintptr_t at, unsigned long size, struct cell *new)
{
	for (uintptr_t end = at + size; at < end; at = (at | 7) + 1) {
		uintptr_t base = at & ~7UL, top = end < base + 8 ? end : base + 8;
		struct word *w = word_at(at);

		if (!w)
			return;
		new->bytes = ((1U << (top - base)) - 1) & ~((1U << (at - base)) - 1);
		check_word(w, new, at);
	}
}

/* An access of the running thread to memory that others may see. */
void check_access(const volatile void *p, unsigned long size, bool write, bool marked,
		  const void *place)
{
	struct cell new;
	int owner;

	engine.place = place;
	heap_check(p, size);
	if (world.phase != PHASE_PLAY || world.running < 0)
		return;
	if (!marked && has_buffers())
		settle_own_stores(p, size, place);
	if (!marked && write && weak())
		weak_plain_write((uintptr_t)p, size);
	owner = stack_owner((uintptr_t)p);
	if (owner >= 0)
		check_stack(owner, (uintptr_t)p);
	new = (struct cell){
		.place = (char *)place - __executable_start,
		.clock = self()->now.at[world.running], .thread = world.running,
		.write = write, .marked = marked,
	};
	if (!self()->racy)
		check_words((uintptr_t)p, size, &new);
	if (owner >= 0 && owner != world.running && !marked)
		note_visit(owner, (uintptr_t)p, &new);
}

void sync_join(struct sync *to, const struct sync *from)
{
	for (int i = 0; i < PV_MAX_THREADS; i++)
		to->at[i] = from->at[i] > to->at[i] ? from->at[i] : to->at[i];
}

/* The running thread has read what a release gave. */
void sync_load(const struct sync *of, enum pv_order order)
{
	struct thread *t = self();

	if (order == PV_ACQUIRE || order == PV_FULL)
		sync_join(&t->now, of);
	else
		sync_join(&t->acquirable, of);
}

/* What a store of the running thread gives to those who read it. */
void sync_carry(struct sync *out, enum pv_order order)
{
	struct thread *t = self();

	if (order != PV_RELEASE && order != PV_FULL) {
		*out = t->published;
		return;
	}
	*out = t->now;
	t->now.at[world.running]++;
}

void pv_racy(int change)
{
	self()->racy += change;
}

/* An access that the compiler has found, or that the shim tells of. */
static inline void watch(const volatile void *p, unsigned long size, bool write, bool marked,
			 const void *place)
{
	if (__builtin_expect(engine.options.past_races, false))
		point_if_racy(p, size, write, place);
	check_access(p, size, write, marked, place);
	if (__builtin_expect(engine.tracing, false))
		trace_access(p, size, write, marked, place);
}

void pv_plain_read(const volatile void *p, unsigned long size, const void *place)
{
	watch(p, size, false, false, place);
}

void pv_plain_write(const volatile void *p, unsigned long size, const void *place)
{
	watch(p, size, true, false, place);
}

#define HOOK(name, size, write, marked)						\
	void name(void *p);							\
	void name(void *p)							\
	{									\
		watch(p, size, write, marked, PLACE);				\
	}

#define HOOKS(size)								\
	HOOK(__tsan_read##size, size, false, false)				\
	HOOK(__tsan_write##size, size, true, false)				\
	HOOK(__tsan_unaligned_read##size, size, false, false)			\
	HOOK(__tsan_unaligned_write##size, size, true, false)			\
	HOOK(__tsan_volatile_read##size, size, false, true)			\
	HOOK(__tsan_volatile_write##size, size, true, true)			\
	HOOK(__tsan_unaligned_volatile_read##size, size, false, true)		\
	HOOK(__tsan_unaligned_volatile_write##size, size, true, true)

HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

void __tsan_init(void);
void __tsan_read_range(void *p, unsigned long size);
void __tsan_write_range(void *p, unsigned long size);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void);

void __tsan_init(void)
{
}

void __tsan_read_range(void *p, unsigned long size)
{
	watch(p, size, false, false, PLACE);
}

void __tsan_write_range(void *p, unsigned long size)
{
	watch(p, size, true, false, PLACE);
}

void __tsan_func_entry(void *caller)
{
	(void)caller;
}

/* The end of the frame of the function that called the one with this frame. */
static uintptr_t end_of_callers_frame(void **frame)
{
#ifdef __x86_64__
	return (uintptr_t)frame[0] + 16;
#else
	return (uintptr_t)*(void **)frame[0];
#endif
}

/* A buffered store into the frame must not come after the frame, nor a visit. */
void __tsan_func_exit(void)
{
	uintptr_t low, high, end = end_of_callers_frame(__builtin_frame_address(0));

	if (world.running < 0)
		return;
	if (has_buffers()) {
		thread_stack(world.running, &low, &high);
		settle_own_stores((void *)low, end - low, PLACE);
	}
	leave_frame(end);
}
