// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * pingpong KIND POLICY ROUNDS CPU CPU TIMEOUT: two kthreads wake each other in
 * turn (game.h).
 *
 *	flag	a count, wake_up() and wait_event(): nothing is stored
 *	bare	a completion is counted on a kfabric counter that nobody can wait
 *		for, and the threads use wake_up() and wait_event()
 *	kfi	the counter is in a wait set, and the threads use kfi_wait()
 *
 * So "bare" and "kfi" store, wake, sleep and read, and differ in the sleep and
 * the wake only.
 */
#include <linux/slab.h>
#include <linux/wait.h>

#include "game.h"

/**
 * struct kb_hand - what a side sleeps on
 * @head: "flag" and "bare": where it sleeps
 * @mail: "flag" and "bare": sent to it and not yet received
 * @queue: its own, completed to by the other side
 * @seen: the counter when it was last read
 */
struct kb_hand {
	wait_queue_head_t head;
	atomic_t mail;
	struct kb_queue queue;
	u64 seen;
};

static void kb_flag_send(struct kb_side *to)
{
	struct kb_hand *hand = to->end;

	atomic_inc(&hand->mail);
	wake_up(&hand->head);
}

static int kb_flag_wait(struct kb_hand *hand, int timeout)
{
	if (timeout < 0) {
		wait_event(hand->head, atomic_read(&hand->mail));
		return 0;
	}
	return wait_event_hrtimeout(hand->head, atomic_read(&hand->mail),
				    ms_to_ktime(timeout));
}

static int kb_flag_receive(struct kb_side *me)
{
	struct kb_hand *hand = me->end;
	int err = kb_flag_wait(hand, me->game->timeout);

	if (!err)
		atomic_dec(&hand->mail);
	return err;
}

static void kb_bare_send(struct kb_side *to)
{
	struct kb_hand *hand = to->end;

	kb_complete(hand->queue.ep, false);
	kb_flag_send(to);
}

static int kb_bare_receive(struct kb_side *me)
{
	struct kb_hand *hand = me->end;
	int err = kb_flag_receive(me);

	if (!err)
		hand->seen = kfi_cntr_read(hand->queue.cntr);
	return err;
}

static void kb_kfi_send(struct kb_side *to)
{
	struct kb_hand *hand = to->end;

	kb_complete(hand->queue.ep, false);
}

static int kb_kfi_receive(struct kb_side *me)
{
	struct kb_hand *hand = me->end;
	u64 value;
	int err;

	for (;;) {
		err = kfi_wait(hand->queue.wait, me->game->timeout);
		value = kfi_cntr_read(hand->queue.cntr);
		if (err || value != hand->seen)
			break;
		me->empty++;
	}
	hand->seen = value;
	return err;
}

static int kb_hand_open(struct kb_side *me)
{
	struct kb_hand *hand = kzalloc(sizeof(*hand), GFP_KERNEL);

	if (!hand)
		return -ENOMEM;
	init_waitqueue_head(&hand->head);
	me->end = hand;
	return 0;
}

static int kb_flag_open(struct kb *kb, struct kb_side *sides, const char *addr)
{
	int err = kb_hand_open(&sides[0]);

	return err ?: kb_hand_open(&sides[1]);
}

static int kb_queues_open(struct kb *kb, struct kb_side *sides, bool set)
{
	struct kb_hand *hand;
	int err, i;

	err = kb_flag_open(kb, sides, NULL);
	for (i = 0; !err && i < 2; i++) {
		hand = sides[i].end;
		err = kb_queue_open(kb, &hand->queue, set);
	}
	return err;
}

static int kb_bare_open(struct kb *kb, struct kb_side *sides, const char *addr)
{
	return kb_queues_open(kb, sides, false);
}

static int kb_kfi_open(struct kb *kb, struct kb_side *sides, const char *addr)
{
	return kb_queues_open(kb, sides, true);
}

static void kb_hands_close(struct kb *kb, struct kb_side *sides)
{
	struct kb_hand *hand;
	int i;

	for (i = 0; i < 2; i++) {
		hand = sides[i].end;
		if (hand)
			kb_queue_close(&hand->queue);
		kfree(hand);
	}
}

static const struct kb_kind kb_kinds[] = {
	{ "flag", kb_flag_open, kb_hands_close, kb_flag_send, kb_flag_receive },
	{ "bare", kb_bare_open, kb_hands_close, kb_bare_send, kb_bare_receive },
	{ "kfi", kb_kfi_open, kb_hands_close, kb_kfi_send, kb_kfi_receive },
};

int kb_pingpong(struct kb *kb, const char *args)
{
	size_t i, len;

	for (i = 0; i < ARRAY_SIZE(kb_kinds); i++) {
		len = str_has_prefix(args, kb_kinds[i].name);
		if (len)
			return kb_game(kb, &kb_kinds[i], NULL, args + len);
	}
	return -EINVAL;
}
