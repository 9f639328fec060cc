// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* The game of all ping-pongs: two kthreads that send, and sleep until they are sent. */
#include <linux/cpumask.h>

#include "game.h"

/* Not measured: caches and branch predictors learn. */
#define KB_WARM_UP	100

static void kb_side_end(struct kb_side *me, int err)
{
	me->err = err;
	me->slept = current->nvcsw - me->slept;
	if (atomic_dec_and_test(&me->game->playing))
		complete(&me->game->done);
}

static int kb_serve(struct kb_side *me, unsigned long rounds)
{
	const struct kb_kind *kind = me->game->kind;
	int err = 0;

	while (!err && rounds-- && !READ_ONCE(me->game->over)) {
		kind->send(me->peer);
		err = kind->receive(me);
		WRITE_ONCE(me->played, me->played + 1);
	}
	return err;
}

static int kb_return(struct kb_side *me, unsigned long rounds)
{
	const struct kb_kind *kind = me->game->kind;
	int err = 0;

	while (!err && rounds-- && !READ_ONCE(me->game->over)) {
		err = kind->receive(me);
		if (!err)
			kind->send(me->peer);
	}
	return err;
}

/* The one who serves measures. */
static int kb_server(void *arg)
{
	struct kb_side *me = arg;
	struct kb_game *game = me->game;
	int err;

	err = kb_serve(me, KB_WARM_UP);
	me->slept = current->nvcsw;
	kb_clock_start(&game->clock);
	if (!err)
		err = kb_serve(me, game->rounds);
	kb_clock_stop(&game->clock);
	kb_side_end(me, err);
	return 0;
}

static int kb_returner(void *arg)
{
	struct kb_side *me = arg;
	int err;

	err = kb_return(me, KB_WARM_UP);
	me->slept = current->nvcsw;
	if (!err)
		err = kb_return(me, me->game->rounds);
	kb_side_end(me, err);
	return 0;
}

static int kb_side_init(struct kb_side *me, int cpu,
			int (*body)(void *arg))
{
	struct task_struct *task;

	task = kb_thread(body, me, cpu, me->game->patient, "kfi_bench");
	if (IS_ERR(task))
		return PTR_ERR(task);
	me->task = task;
	return 0;
}

/* Whoever still plays is sent something, finds that it is over, and ends. */
static void kb_call_off(struct kb_side *sides)
{
	WRITE_ONCE(sides->game->over, true);
	sides->game->kind->send(&sides[0]);
	sides->game->kind->send(&sides[1]);
}

/*
 * A wait that is not woken ends at its timeout as if it had been, or never. So it
 * is the game that shows it: it comes to a standstill.
 */
static int kb_play(struct kb_side *sides)
{
	struct kb_game *game = sides->game;
	unsigned long before;
	long left;

	wake_up_process(sides[0].task);
	wake_up_process(sides[1].task);
	do {
		before = READ_ONCE(sides[0].played);
		left = wait_for_completion_interruptible_timeout(&game->done,
								 KB_DEADLINE);
	} while (!left && READ_ONCE(sides[0].played) != before);
	if (left > 0)
		return 0;
	game->stalled = !left;
	kb_call_off(sides);
	return left;
}

static void kb_tell(struct kb *kb, const struct kb_side *sides)
{
	const struct kb_game *game = sides->game;

	seq_buf_printf(kb->out,
		       "cycles=%llu ns=%llu slept=%lu empty=%lu stalled=%d error=%d\n",
		       game->clock.cycles, game->clock.ns,
		       sides[0].slept + sides[1].slept,
		       sides[0].empty + sides[1].empty,
		       game->stalled, sides[0].err ?: sides[1].err);
}

static int kb_sides_play(struct kb_side *sides, const int *cpus)
{
	int err, i;

	err = kb_side_init(&sides[0], cpus[0], kb_server);
	if (!err)
		err = kb_side_init(&sides[1], cpus[1], kb_returner);
	if (!err)
		err = kb_play(sides);
	for (i = 0; i < 2; i++) {
		if (sides[i].task)
			kb_stop(sides[i].task);
	}
	return err;
}

int kb_game(struct kb *kb, const struct kb_kind *kind, const char *addr,
	    const char *args)
{
	struct kb_game game = { .kind = kind, .playing = ATOMIC_INIT(2) };
	struct kb_side sides[2] = {
		{ .game = &game, .peer = &sides[1] },
		{ .game = &game, .peer = &sides[0] },
	};
	char policy[8];
	int cpus[2];
	int err;

	if (sscanf(args, "%7s %lu %d %d %d", policy, &game.rounds, &cpus[0],
		   &cpus[1], &game.timeout) != 5)
		return -EINVAL;
	game.patient = !strcmp(policy, "batch");
	if (!cpu_online(cpus[0]) || !cpu_online(cpus[1]))
		return -EINVAL;
	init_completion(&game.done);
	err = kind->open(kb, sides, addr);
	if (!err)
		err = kb_sides_play(sides, cpus);
	kind->close(kb, sides);
	if (!err)
		kb_tell(kb, sides);
	return err;
}
