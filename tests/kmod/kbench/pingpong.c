// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * pingpong KIND POLICY ROUNDS CPU CPU TIMEOUT: two kthreads wake each other in
 * turn.
 *
 *	flag	a count, wake_up() and wait_event(): nothing is stored
 *	bare	a completion is counted on a kfabric counter that nobody can wait
 *		for, and the threads use wake_up() and wait_event()
 *	kfi	the counter is in a wait set, and the threads use kfi_wait()
 *
 * So "bare" and "kfi" store, wake, sleep and read, and differ in the sleep and
 * the wake only. POLICY is "normal", or "batch": then a thread that was woken
 * never preempts the other one, so every wake-up ends a sleep. TIMEOUT is that
 * of each wait, in milliseconds; negative: none.
 */
#include <linux/sched.h>
#include <linux/wait.h>

#include "kbench.h"

/* Not measured: caches and branch predictors learn. */
#define KB_WARM_UP	100

struct kb_side;

/* A way to wake the other side, and to sleep until it does. */
struct kb_kind {
	const char *name;
	bool queue;		/* has a counter */
	bool set;		/* in a wait set */
	void (*send)(struct kb_side *to);
	int (*receive)(struct kb_side *me);
};

struct kb_game {
	const struct kb_kind *kind;
	unsigned long rounds;
	int timeout;
	bool patient;
	bool over;
	bool stalled;
	struct completion done;
	atomic_t playing;
	struct kb_clock clock;
};

/**
 * struct kb_side - one of the two threads
 * @game: the game
 * @peer: the other one
 * @task: the thread
 * @head: "flag" and "bare": where it sleeps
 * @mail: "flag" and "bare": sent to it and not yet received
 * @queue: its own, completed to by @peer
 * @seen: the counter when it was last read
 * @played: its turns so far
 * @empty: waits that returned 0 although nothing had been sent
 * @slept: times that it gave up its CPU
 * @err: why it stopped early
 */
struct kb_side {
	struct kb_game *game;
	struct kb_side *peer;
	struct task_struct *task;
	wait_queue_head_t head;
	atomic_t mail;
	struct kb_queue queue;
	u64 seen;
	unsigned long played;
	unsigned long empty;
	unsigned long slept;
	int err;
};

static void kb_flag_send(struct kb_side *to)
{
	atomic_inc(&to->mail);
	wake_up(&to->head);
}

static int kb_flag_wait(struct kb_side *me)
{
	int timeout = me->game->timeout;

	if (timeout < 0) {
		wait_event(me->head, atomic_read(&me->mail));
		return 0;
	}
	return wait_event_hrtimeout(me->head, atomic_read(&me->mail),
				    ms_to_ktime(timeout));
}

static int kb_flag_receive(struct kb_side *me)
{
	int err = kb_flag_wait(me);

	if (!err)
		atomic_dec(&me->mail);
	return err;
}

static void kb_bare_send(struct kb_side *to)
{
	kb_complete(to->queue.ep, false);
	kb_flag_send(to);
}

static int kb_bare_receive(struct kb_side *me)
{
	int err = kb_flag_receive(me);

	if (!err)
		me->seen = kfi_cntr_read(me->queue.cntr);
	return err;
}

static void kb_kfi_send(struct kb_side *to)
{
	kb_complete(to->queue.ep, false);
}

static int kb_kfi_receive(struct kb_side *me)
{
	u64 value;
	int err;

	for (;;) {
		err = kfi_wait(me->queue.wait, me->game->timeout);
		value = kfi_cntr_read(me->queue.cntr);
		if (err || value != me->seen)
			break;
		me->empty++;
	}
	me->seen = value;
	return err;
}

static const struct kb_kind kb_kinds[] = {
	{ "flag", false, false, kb_flag_send, kb_flag_receive },
	{ "bare", true, false, kb_bare_send, kb_bare_receive },
	{ "kfi", true, true, kb_kfi_send, kb_kfi_receive },
};

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

static int kb_side_init(struct kb *kb, struct kb_side *me, int cpu,
			int (*body)(void *arg))
{
	const struct kb_kind *kind = me->game->kind;
	struct task_struct *task;
	int err;

	init_waitqueue_head(&me->head);
	if (kind->queue) {
		err = kb_queue_open(kb, &me->queue, kind->set);
		if (err)
			return err;
	}
	task = kb_thread(body, me, cpu, me->game->patient,
			 "kfi_bench");
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

static int kb_game(struct kb *kb, struct kb_game *game, const int *cpus)
{
	struct kb_side sides[2] = { };
	int err, i;

	for (i = 0; i < 2; i++) {
		sides[i].game = game;
		sides[i].peer = &sides[!i];
	}
	err = kb_side_init(kb, &sides[0], cpus[0], kb_server);
	if (!err)
		err = kb_side_init(kb, &sides[1], cpus[1], kb_returner);
	if (!err)
		err = kb_play(sides);
	for (i = 0; i < 2; i++) {
		if (sides[i].task)
			kb_stop(sides[i].task);
	}
	for (i = 0; i < 2; i++)
		kb_queue_close(&sides[i].queue);
	if (!err)
		kb_tell(kb, sides);
	return err;
}

int kb_pingpong(struct kb *kb, const char *args)
{
	struct kb_game game = { .playing = ATOMIC_INIT(2) };
	char name[8], policy[8];
	int cpus[2];
	size_t i;

	if (sscanf(args, "%7s %7s %lu %d %d %d", name, policy, &game.rounds,
		   &cpus[0], &cpus[1], &game.timeout) != 6)
		return -EINVAL;
	game.patient = !strcmp(policy, "batch");
	if (!cpu_online(cpus[0]) || !cpu_online(cpus[1]))
		return -EINVAL;
	init_completion(&game.done);
	for (i = 0; i < ARRAY_SIZE(kb_kinds); i++) {
		if (strcmp(name, kb_kinds[i].name))
			continue;
		game.kind = &kb_kinds[i];
		return kb_game(kb, &game, cpus);
	}
	return -EINVAL;
}
