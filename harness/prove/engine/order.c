// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Store buffers.
 *
 * Marked stores and unlocks of a thread wait in its buffer.  Lanes, processes of
 * their own, make them visible: on TSO one lane for each thread, in order; on PSO
 * one for each eight bytes that the thread stores to.  The thread itself sees its
 * own stores.  Atomic updates, locking, sleeping and full fences wait until the
 * buffer is empty.  On PSO a release waits for all older stores, and stores after a
 * write fence wait for those before it.
 *
 * Loads are in order, and plain stores are visible at once.  Where a thread
 * touches a place plainly, frees it, or returns from the frame that it is in,
 * while a store to it is buffered, the thread waits for its buffer first.
 */
#include "internal.h"

#define MAX_DRAINED	4096

static ENGINE_STATE struct buffer buffers[PV_MAX_THREADS];
static ENGINE_STATE struct drained drained[PV_MAX_THREADS][MAX_DRAINED];

bool has_buffers(void)
{
	return engine.options.memory == MEMORY_TSO || engine.options.memory == MEMORY_PSO;
}

bool buffering(void)
{
	return has_buffers() && world.phase == PHASE_PLAY;
}

struct buffer *buffer_of(int thread)
{
	return &buffers[thread];
}

void order_reset(void)
{
	for (int i = 0; i < PV_MAX_THREADS; i++) {
		struct buffer *b = &buffers[i];

		b->count = 0;
		b->drained = 0;
		b->seq = 0;
		b->barrier = 0;
	}
}

bool stores_drained(int thread)
{
	return !buffers[thread].count;
}

/* The store that a lane drains next; NULL if there is none. */
struct store *lane_head(int process)
{
	struct buffer *b = &buffers[world.process[process].thread];

	for (int i = 0; i < b->count; i++)
		if (b->store[i].process == process)
			return &b->store[i];
	return NULL;
}

bool lane_ready(int process)
{
	const struct store *head = lane_head(process);
	const struct buffer *b = &buffers[world.process[process].thread];

	/* The oldest comes first. */
	return b->store[0].seq > head->after || head == &b->store[0];
}

/* The lane's pending operation is that of its oldest store. */
static void refresh_lane(int process)
{
	const struct store *s = lane_head(process);

	if (!s) {
		world.alive &= ~BIT(process);
		return;
	}
	world.alive |= BIT(process);
	world.blocking |= BIT(process);
	world.process[process].pending = (struct op){
		.kind = s->unlock ? OP_UNLOCK : OP_DRAIN, .access = ACCESS_WRITE,
		.size = s->size, .object = s->object, .address = s->address, .place = s->place,
	};
}

/* The step of a lane, just committed. */
void drain(int process)
{
	int thread = world.process[process].thread;
	struct buffer *b = &buffers[thread];
	struct store *head = lane_head(process);
	struct store s = *head;

	s.object->sync = s.sync;
	if (s.unlock)
		unlock_now(s.object);
	else
		write_value(s.address, s.value, s.size);
	if (b->drained == MAX_DRAINED)
		pv_fail(PV_LIMIT, "more than %d stores of one thread", MAX_DRAINED);
	drained[thread][b->drained++] = (struct drained){ .seq = s.seq, .step = engine.depth };
	for (b->count--; head < &b->store[b->count]; head++)
		head[0] = head[1];
	refresh_lane(process);
	trace_as(thread, s.unlock ? OP_UNLOCKED : OP_DRAIN, s.address, s.value, s.place);
}

/* Joins the steps that drained the thread's stores up to one. */
void join_drained(int16_t *clock, int thread, uint32_t upto)
{
	const struct buffer *b = &buffers[thread];

	for (int i = 0; i < b->drained; i++) {
		const struct drained *d = &drained[thread][i];
		int lane = engine.step[d->step - 1].process;

		if (d->seq <= upto && clock[lane] < d->step)
			join_clock(clock, d->step);
	}
}

/* The lane for a store: -1 if there are no more processes. */
static int lane_for(int thread, const void *key)
{
	if (engine.options.memory == MEMORY_TSO)
		key = NULL;
	for (int i = 0; i < world.nprocesses; i++) {
		const struct process *p = &world.process[i];

		if (p->lane && p->thread == thread && p->key == key)
			return i;
	}
	return new_process(thread, true, key);
}

static void wait_for_buffer(const void *place)
{
	struct op op = { .kind = OP_FENCE, .drains = true, .blocks = true, .place = place };

	trace(OP_FENCE, NULL, 0, place);
	point(&op);
}

/*
 * A frame's memory has other contents once its function has returned, and these are
 * not marked: a store that is still buffered then would destroy them.
 */
static bool is_on_own_stack(const struct store *s)
{
	return !s->unlock && stack_owner((uintptr_t)s->address) == world.running;
}

/* Takes a store of the running thread, or waits and leaves it to the caller. */
bool buffer_store(struct store *s)
{
	struct buffer *b = &buffers[world.running];
	int lane;

	if (is_on_own_stack(s)) {
		wait_for_buffer(s->place);
		return false;
	}
	lane = lane_for(world.running, s->object->key);
	if (lane < 0)
		engine.too_many_lanes = true;
	if (lane < 0 || b->count == MAX_BUFFERED) {
		wait_for_buffer(s->place);
		return false;
	}
	s->process = lane;
	s->step = engine.depth;
	s->seq = ++b->seq;
	s->after = b->barrier;
	learn_access(world.running, s->object, ACCESS_WRITE);
	if (s->releases && engine.options.memory == MEMORY_PSO)
		s->after = s->seq - 1;
	b->store[b->count++] = *s;
	refresh_lane(lane);
	return true;
}

/* What the running thread itself sees at a place that it has stored to. */
bool forwarded(const volatile void *p, int size, uint64_t *value)
{
	const struct buffer *b = &buffers[world.running];

	for (int i = b->count - 1; i >= 0; i--) {
		const struct store *s = &b->store[i];

		if (s->address == p && s->size == size && !s->unlock) {
			*value = s->value;
			return true;
		}
	}
	return false;
}

static bool overlaps(const struct store *s, const volatile void *p, unsigned long size)
{
	return !s->unlock && (char *)s->address < (char *)p + size &&
	       (char *)p < (char *)s->address + s->size;
}

/* Is a store buffered that a load of this size cannot take its value from? */
bool partly_buffered(const volatile void *p, int size)
{
	const struct buffer *b = &buffers[world.running];

	for (int i = 0; i < b->count; i++)
		if (overlaps(&b->store[i], p, size) &&
		    (b->store[i].address != p || b->store[i].size != size))
			return true;
	return false;
}

/* Waits for the buffer if the running thread has stored to this memory. */
void settle_own_stores(const volatile void *p, unsigned long size, const void *place)
{
	const struct buffer *b;

	if (!buffering() || world.running < 0)
		return;
	b = &buffers[world.running];
	for (int i = 0; i < b->count; i++)
		if (overlaps(&b->store[i], p, size)) {
			wait_for_buffer(place);
			return;
		}
}

static void sync_fence(struct thread *t, enum pv_fence fence)
{
	if (fence != PV_FENCE_WRITE)
		sync_join(&t->now, &t->acquirable);
	if (fence == PV_FENCE_READ || world.running < 0)
		return;
	t->published = t->now;
	t->now.at[world.running]++;
}

void pv_fence(enum pv_fence fence)
{
	struct buffer *b;

	if (fence == PV_FENCE_COMPILER)
		return;
	if (weak())
		weak_fence(fence, PLACE);
	sync_fence(self(), fence);
	if (!buffering())
		return;
	b = &buffers[world.running];
	if (fence == PV_FENCE_FULL)
		wait_for_buffer(PLACE);
	else if (fence == PV_FENCE_WRITE)
		b->barrier = b->seq;
}
