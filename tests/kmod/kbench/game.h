/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * A game of ping-pong between two kthreads (game.c), and the ways to play it
 * (pingpong.c, trip.c). The arguments of each are
 *
 *	POLICY ROUNDS CPU CPU TIMEOUT
 *
 * POLICY is "normal", or "batch": then a thread that was woken never preempts the
 * other one, so every wake-up ends a sleep. TIMEOUT is that of each wait, in
 * milliseconds; negative: none.
 */
#ifndef _KFI_BENCH_GAME_H_
#define _KFI_BENCH_GAME_H_

#include "kbench.h"

struct kb_side;

/**
 * struct kb_kind - a way to wake the other side, and to sleep until it does
 * @name: in the line
 * @open: make what both sides need, in their @end
 * @close: the reverse; also after an @open that failed half-way
 * @send: wake @to; also called by another thread, to end a game
 * @receive: sleep until something was sent
 */
struct kb_kind {
	const char *name;
	int (*open)(struct kb *kb, struct kb_side *sides, const char *addr);
	void (*close)(struct kb *kb, struct kb_side *sides);
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
 * @end: its kind's
 * @played: its turns so far
 * @empty: waits that returned 0 although nothing had been sent
 * @slept: times that it gave up its CPU
 * @err: why it stopped early
 */
struct kb_side {
	struct kb_game *game;
	struct kb_side *peer;
	struct task_struct *task;
	void *end;
	unsigned long played;
	unsigned long empty;
	unsigned long slept;
	int err;
};

/* @addr: of a link, or NULL if the kind needs none */
int kb_game(struct kb *kb, const struct kb_kind *kind, const char *addr,
	    const char *args);

#endif /* _KFI_BENCH_GAME_H_ */
