// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Small scenarios whose interleavings are known, and one for each finding. */
#include "marked.h"

#pragma GCC diagnostic ignored "-Wunused-variable"

static int x, y, z, r1, r2, flag, plain, count;
static int lock_a, lock_b;
static int *heap;

/* How many interleavings there are. */
static void write_own(void)
{
	WRITE(x, prove_arg());
}

PROVE_SCENARIO(two_writers, .threads = { { "a", write_own, 0, 1 }, { "b", write_own, 0, 2 } });
PROVE_SCENARIO(three_writers, .threads = { { "a", write_own, 0, 1 }, { "b", write_own, 0, 2 },
					   { "c", write_own, 0, 3 } });
PROVE_SCENARIO(four_writers, .threads = { { "a", write_own, 0, 1 }, { "b", write_own, 0, 2 },
					  { "c", write_own, 0, 3 }, { "d", write_own, 0, 4 } });

static int own[4];

static void write_apart(void)
{
	WRITE(own[prove_arg()], 1);
	WRITE(own[prove_arg()], 2);
}

PROVE_SCENARIO(independent, .threads = { { "a", write_apart, 0, 0 }, { "b", write_apart, 0, 1 },
					 { "c", write_apart, 0, 2 }, { "d", write_apart, 0, 3 } });

static void read_x(void)
{
	(void)READ(x);
}

PROVE_SCENARIO(readers, .threads = { { "a", read_x }, { "b", read_x }, { "c", read_x } });
PROVE_SCENARIO(three_readers_writer,
	       .threads = { { "a", read_x }, { "b", read_x }, { "c", read_x },
			    { "w", write_own, 0, 1 } });

static void take_a(void)
{
	pv_lock(&lock_a, &class_a, 0);
	plain++;
	pv_unlock(&lock_a);
}

PROVE_SCENARIO(three_lockers, .threads = { { "a", take_a }, { "b", take_a }, { "c", take_a } });

static void choose_twice(void)
{
	r1 = prove_choose(2);
	r2 = prove_choose(3);
	prove_check(!(r1 == 1 && r2 == 2), "the last choices");
}

static void choose_less(void)
{
	prove_choose(2);
	prove_choose(3);
}

PROVE_SCENARIO(choices, .threads = { { "a", choose_less } });
PROVE_SCENARIO(last_choice, .threads = { { "a", choose_twice } });

/* One update is lost if a thread is preempted between its read and its write. */
static void add_at_hook(void)
{
	int seen = READ(x);

	pv_hook("D1");
	WRITE(x, seen + 1);
}

static void add_without_hook(void)
{
	WRITE(x, READ(x) + 1);
}

static void check_sum(void)
{
	prove_check(x == 2, "no update is lost");
}

PROVE_SCENARIO(lost_at_hook, .threads = { { "a", add_at_hook }, { "b", add_without_hook } },
	       .finish = check_sum);
PROVE_SCENARIO(lost_without_hook, .finish = check_sum,
	       .threads = { { "a", add_without_hook }, { "b", add_without_hook } });

/* lastzero(n) of the literature, with n = 2. */
static int cells[3];

static void increment(void)
{
	int i = prove_arg();

	WRITE(cells[i], READ(cells[i - 1]) + 1);
}

static void last_zero(void)
{
	int i = 2;

	while (i > 0 && READ(cells[i]))
		i--;
}

PROVE_SCENARIO(lastzero, .threads = { { "r", last_zero }, { "a", increment, 0, 1 },
				      { "b", increment, 0, 2 } });

/* References to an object: users take and drop one each, and one may end the object. */
static int count;

static UNCHECKED void user(void)
{
	pv_add(&count, sizeof(count), 1, PV_FULL);
	if (!*(volatile int *)&count)
		return;
	++*(volatile int *)&count;
	pv_add(&count, sizeof(count), -1, PV_FULL);
	prove_check(--*(volatile int *)&count > 0, "the object is there");
}

static UNCHECKED void drop_too_many(void)
{
	user();
	pv_add(&count, sizeof(count), -1, PV_FULL);
	prove_check(--*(volatile int *)&count > 0, "the object is there");
	pv_add(&count, sizeof(count), 1, PV_FULL);
	++*(volatile int *)&count;
}

static UNCHECKED void end_object(void)
{
	pv_update(&count, sizeof(count), PV_FULL);
	if (*(volatile int *)&count == 1)
		*(volatile int *)&count = 0;
}

static void begin_object(void)
{
	count = 1;
	prove_references(&count);
}

PROVE_SCENARIO(references, .setup = begin_object,
	       .threads = { { "a", user }, { "b", user }, { "c", user } });
PROVE_SCENARIO(references_end, .setup = begin_object,
	       .threads = { { "a", user }, { "b", user }, { "c", end_object } });
PROVE_SCENARIO(references_dropped_first, .setup = begin_object,
	       .threads = { { "a", user }, { "b", drop_too_many } });

/* Memory order. */
static void sb_1(void)
{
	WRITE(x, 1);
	r1 = READ(y);
}

static void sb_2(void)
{
	WRITE(y, 1);
	r2 = READ(x);
}

static void sb_finish(void)
{
	prove_check(r1 || r2, "both read 0");
}

PROVE_SCENARIO(store_buffering, .threads = { { "a", sb_1 }, { "b", sb_2 } }, .finish = sb_finish);

static void sb_1_barrier(void)
{
	WRITE(x, 1);
	BARRIER();
	r1 = READ(y);
}

static void sb_2_barrier(void)
{
	WRITE(y, 1);
	BARRIER();
	r2 = READ(x);
}

PROVE_SCENARIO(store_buffering_barriers, .finish = sb_finish,
	       .threads = { { "a", sb_1_barrier }, { "b", sb_2_barrier } });
PROVE_SCENARIO(store_buffering_one_barrier, .threads = { { "a", sb_1_barrier }, { "b", sb_2 } },
	       .finish = sb_finish);

static void mp_writer(void)
{
	WRITE(x, 1);
	WRITE(y, 1);
}

static void mp_writer_release(void)
{
	WRITE(x, 1);
	WRITE_RELEASE(y, 1);
}

static void mp_writer_fence(void)
{
	WRITE(x, 1);
	pv_fence(PV_FENCE_WRITE);
	WRITE(y, 1);
}

static void mp_reader(void)
{
	r1 = READ_ACQUIRE(y);
	r2 = READ(x);
	prove_check(!r1 || r2, "the flag without the message");
}

PROVE_SCENARIO(message, .threads = { { "w", mp_writer }, { "r", mp_reader } });
PROVE_SCENARIO(message_release, .threads = { { "w", mp_writer_release }, { "r", mp_reader } });
PROVE_SCENARIO(message_fence, .threads = { { "w", mp_writer_fence }, { "r", mp_reader } });

static void forward(void)
{
	WRITE(x, 1);
	prove_check(READ(x) == 1, "its own store is not seen");
	plain = 1;
	WRITE(plain, 2);
	prove_check(plain == 2, "its own store is not seen plainly");
}

PROVE_SCENARIO(own_store, .threads = { { "a", forward } });

static UNCHECKED int own_frame(void)
{
	return 0;
}

static void __attribute__((noinline)) store_to_frame(int *out)
{
	int local[4] = { 0 };

	WRITE(local[1], 7);
	WRITE(local[2], 7);
	*out = own_frame();
}

static UNCHECKED void __attribute__((noinline)) check_frame(void)
{
	volatile int local[16] = { 0 };

	for (int i = 0; i < 16; i++)
		local[i] = 3;
	(void)READ(x);
	(void)READ(y);
	for (int i = 0; i < 16; i++)
		prove_check(local[i] == 3, "a store after the frame's end");
}

static void reuse_frame(void)
{
	store_to_frame(&r1);
	check_frame();
}

PROVE_SCENARIO(frame, .threads = { { "a", reuse_frame } });

/* Plain data, and what orders it. */
static void publish_relaxed(void)
{
	plain = 1;
	WRITE(flag, 1);
}

static void publish_release(void)
{
	plain = 1;
	WRITE_RELEASE(flag, 1);
}

static void publish_early(void)
{
	WRITE_RELEASE(flag, 1);
	plain = 1;
}

static void publish_fence(void)
{
	plain = 1;
	pv_fence(PV_FENCE_WRITE);
	WRITE(flag, 1);
}

static void consume(void)
{
	if (READ_ACQUIRE(flag))
		r1 = plain;
}

static void consume_fence(void)
{
	if (READ(flag)) {
		pv_fence(PV_FENCE_READ);
		r1 = plain;
	}
}

static void consume_relaxed(void)
{
	if (READ(flag))
		r1 = plain;
}

PROVE_SCENARIO(race_relaxed, .threads = { { "w", publish_relaxed }, { "r", consume } });
PROVE_SCENARIO(race_release, .threads = { { "w", publish_release }, { "r", consume } });
PROVE_SCENARIO(race_after_release, .threads = { { "w", publish_early }, { "r", consume } });
PROVE_SCENARIO(race_fences, .threads = { { "w", publish_fence }, { "r", consume_fence } });
PROVE_SCENARIO(race_no_acquire, .threads = { { "w", publish_release }, { "r", consume_relaxed } });

static void plainly(void)
{
	plain = 1;
}

static void marked(void)
{
	(void)READ(plain);
}

PROVE_SCENARIO(race_marked, .threads = { { "w", plainly }, { "r", marked } });

/* Sleeping. */
static void wake(void)
{
	add(&flag, 1);
}

static void sleeper(void)
{
	wait_for(&flag);
	r1 = plain;
}

static void publish_wake(void)
{
	plain = 1;
	add(&flag, 1);
}

PROVE_SCENARIO(wake_up, .threads = { { "s", sleeper }, { "w", publish_wake } });

static void look_then_sleep(void)
{
	if (READ(x))
		return;
	WRITE(flag, 0);		/* too late: the state after the look */
	wait_for(&flag);
}

static void state_then_look(void)
{
	WRITE(flag, 0);
	BARRIER();
	if (READ(x))
		return;
	wait_for(&flag);
}

static void state_no_barrier(void)
{
	WRITE(flag, 0);
	if (READ(x))
		return;
	wait_for(&flag);
}

static void set_then_wake(void)
{
	WRITE(x, 1);
	add(&flag, 1);
}

static _Bool x_is_set(void)
{
	return x;
}

static void ready_setup(void)
{
	prove_ready(x_is_set);
}

PROVE_SCENARIO(lost_wake_up, .setup = ready_setup,
	       .threads = { { "s", look_then_sleep }, { "w", set_then_wake } });
PROVE_SCENARIO(good_wake_up, .setup = ready_setup,
	       .threads = { { "s", state_then_look }, { "w", set_then_wake } });
PROVE_SCENARIO(wake_up_no_barrier, .setup = ready_setup,
	       .threads = { { "s", state_no_barrier }, { "w", set_then_wake } });
PROVE_SCENARIO(sleeps_for_ever, .threads = { { "s", sleeper } });
PROVE_SCENARIO(stays, .threads = { { "s", sleeper, PROVE_STAYS } });

/* What comes of a race: the flag is not marked, and there is no one to wake yet. */
static void look_plainly_then_sleep(void)
{
	if (plain)
		return;
	WRITE(x, 1);
	wait_for(&flag);
}

static void set_plainly_then_wake(void)
{
	plain = 1;
	if (READ(x))
		add(&flag, 1);
}

PROVE_SCENARIO(race_then_sleep, .threads = { { "s", look_plainly_then_sleep },
					     { "w", set_plainly_then_wake } });

/* Locks. */
static void a_then_b(void)
{
	pv_lock(&lock_a, &class_a, 0);
	pv_lock(&lock_b, &class_b, 0);
	pv_unlock(&lock_b);
	pv_unlock(&lock_a);
}

static void b_then_a(void)
{
	pv_lock(&lock_b, &class_b, 0);
	pv_lock(&lock_a, &class_a, 0);
	pv_unlock(&lock_a);
	pv_unlock(&lock_b);
}

PROVE_SCENARIO(abba, .threads = { { "a", a_then_b }, { "b", b_then_a } });
PROVE_SCENARIO(abab, .threads = { { "a", a_then_b }, { "b", a_then_b } });

static void unlock_alien(void)
{
	pv_unlock(&lock_a);
}

PROVE_SCENARIO(not_held, .threads = { { "a", unlock_alien } });

static void lock_twice(void)
{
	pv_lock(&lock_a, &class_a, 0);
	pv_lock(&lock_a, &class_a, 0);
}

PROVE_SCENARIO(self_lock, .threads = { { "a", lock_twice } });

static void keep_lock(void)
{
	pv_lock(&lock_a, &class_a, 0);
}

PROVE_SCENARIO(held_at_end, .threads = { { "a", keep_lock } });

static void sleep_in_lock(void)
{
	pv_lock(&lock_a, &class_a, 0);
	pv_lock(&lock_b, &mutex_class, 0);
}

static void sleep_in_irq(void)
{
	pv_lock(&lock_b, &mutex_class, 0);
}

PROVE_SCENARIO(atomic_sleep, .threads = { { "a", sleep_in_lock } });
PROVE_SCENARIO(irq_sleep, .threads = { { "a", sleep_in_irq, PROVE_IRQ } });
PROVE_SCENARIO(irq_unsafe, .threads = { { "a", take_a }, { "i", take_a, PROVE_IRQ } });

static void take_a_irqs_off(void)
{
	pv_irqs_off(1);
	take_a();
	pv_irqs_off(-1);
}

PROVE_SCENARIO(irq_safe, .threads = { { "a", take_a_irqs_off }, { "i", take_a, PROVE_IRQ } });

static void read_then_try(void)
{
	r1 = READ(x);
	if (pv_trylock(&lock_a, &class_a, 0))
		pv_unlock(&lock_a);
	else
		prove_check(!r1, "held after the last store");
}

static void store_locked(void)
{
	pv_lock(&lock_a, &class_a, 0);
	WRITE(x, 1);
	pv_unlock(&lock_a);
}

PROVE_SCENARIO(trylock_sees_unlock, .threads = { { "a", store_locked }, { "b", read_then_try } });

/* Memory. */
static void allocate(void)
{
	heap = pv_alloc(16, 1, 0);
}

static void free_heap(void)
{
	pv_free(heap);
}

static void use_heap(void)
{
	pv_lock(&lock_a, &class_a, 0);
	heap[1] = 1;
	pv_unlock(&lock_a);
}

static void free_locked(void)
{
	pv_lock(&lock_a, &class_a, 0);
	pv_free(heap);
	pv_unlock(&lock_a);
}

static void beyond(void)
{
	heap[prove_arg()] = 1;
}

PROVE_SCENARIO(use_after_free, .setup = allocate,
	       .threads = { { "u", use_heap }, { "f", free_locked } });
PROVE_SCENARIO(double_free, .setup = allocate,
	       .threads = { { "f", free_locked }, { "g", free_locked } });
PROVE_SCENARIO(leak, .setup = allocate, .threads = { { "u", use_heap } });
PROVE_SCENARIO(no_leak, .setup = allocate, .threads = { { "u", use_heap } }, .finish = free_heap);
PROVE_SCENARIO(out_of_bounds, .setup = allocate, .threads = { { "u", beyond, 0, 4 } },
	       .finish = free_heap);

static void free_inside(void)
{
	pv_free(heap + 1);
}

PROVE_SCENARIO(bad_free, .setup = allocate, .threads = { { "f", free_inside } });

static void fail_twice(void)
{
	for (int i = 0; i < 2; i++)
		if (!pv_may_fail("kmalloc"))
			pv_free(pv_alloc(8, 0, 0));
}

PROVE_SCENARIO(failing, .threads = { { "a", fail_twice } }, .fails = 1);
PROVE_SCENARIO(failing_not, .threads = { { "a", fail_twice } });

static int *on_stack;

static void __attribute__((noinline)) lend(void)
{
	int local = 0;

	pv_store(&on_stack, (pv_u64)&local, 8, PV_RELEASE);
	(void)READ(x);
}

static void lend_and_go(void)
{
	lend();
	(void)READ(y);
}

static void borrow(void)
{
	int *p = (int *)pv_load(&on_stack, 8, PV_ACQUIRE);

	if (p)
		r1 = READ(*p);
}

PROVE_SCENARIO(dead_stack, .threads = { { "l", lend_and_go }, { "b", borrow } });

static void bad_address(void)
{
	*(volatile int *)(8 + prove_arg()) = 1;
}

static void spin(void)
{
	while (!READ(x))
		;
}

PROVE_SCENARIO(crash, .threads = { { "a", bad_address } });
PROVE_SCENARIO(spinning, .threads = { { "a", spin } });

/* Threads that are spawned. */
static void child(void *arg)
{
	add(arg, 1);
}

static void spawn(void)
{
	plain = 1;
	pv_spawn("child", child, &flag, 0, 0, 0);
	wait_for(&flag);
}

PROVE_SCENARIO(spawned, .threads = { { "p", spawn } });

static void spawn_maybe(void)
{
	pv_spawn("timer", child, &count, PV_MAYBE, is_set, &flag);
}

PROVE_SCENARIO(timer, .threads = { { "p", spawn_maybe }, { "w", wake } });
PROVE_SCENARIO(timer_unfired, .threads = { { "p", spawn_maybe } });

static void finish_waits(void)
{
	pv_spawn("work", child, &count, 0, 0, 0);
	wait_for(&count);
	prove_check(count == 1, "the work has not run");
}

PROVE_SCENARIO(finish_waits, .threads = { { "w", wake } }, .finish = finish_waits);
