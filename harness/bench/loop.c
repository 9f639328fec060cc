// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The user-space loops that the bench compares, without an interpreter between the calls.
 * TSC cycles are instructions in a guest that counts them.
 */
#include <sys/ioctl.h>

#include <linux/kfabric.h>

#include "kfab_ring.h"
#include <x86intrin.h>

/*
 * Repeat an ioctl on /dev/kfabric. Returns the cycles; @wrong is the number of calls that did not
 * return @want.
 */
unsigned long long loop_ioctl(int fd, unsigned long request, void *arg, int want,
			      unsigned long calls, unsigned long *wrong)
{
	unsigned long long start = __rdtsc();
	unsigned long i;

	*wrong = 0;
	for (i = 0; i < calls; i++)
		*wrong += ioctl(fd, request, arg) != want;
	return __rdtsc() - start;
}

/* The same for fi_poll(), which is a call through a table. */
unsigned long long loop_poll(int (*poll)(void *set, void **context, int count),
			     void *set, void **context, int count, int want,
			     unsigned long calls, unsigned long *wrong)
{
	unsigned long long start = __rdtsc();
	unsigned long i;

	*wrong = 0;
	for (i = 0; i < calls; i++)
		*wrong += poll(set, context, count) != want;
	return __rdtsc() - start;
}

/* Make the posts of a turn, and wait until its read has returned an entry. */
static int turn_fails(int fd, struct kfab_batch *turn)
{
	const struct kfab_batch_call *read = (const void *)turn->reads;

	do {
		if (ioctl(fd, KFAB_IOC_BATCH, turn) < 0 || turn->out_post_err || turn->out_wait_err)
			return 1;
	} while (turn->read_count && read->out_result < 1);
	return 0;
}

/*
 * One side of a ping-pong: @turn posts a receive and a message, sleeps in a wait set, and reads
 * the message that came. The side that @answers waits first. Returns the cycles; @wrong is the
 * number of turns that were not made.
 */
unsigned long long loop_talk(int fd, struct kfab_batch *turn, int answers, unsigned long rounds,
			     unsigned long *wrong)
{
	unsigned long long start = __rdtsc();
	struct kfab_batch last = *turn;

	last.read_count = 0;
	last.wait = 0;
	last.deadline = 0;
	for (*wrong = rounds; *wrong; --*wrong) {
		/* Posts that were made are skipped. */
		turn->posted = answers && *wrong == rounds ? turn->post_count : 0;
		if (turn_fails(fd, turn))
			return 0;
	}
	if (answers && turn_fails(fd, &last))
		++*wrong;
	return __rdtsc() - start;
}

/* A ring, and a call that sleeps until its queue has an entry. */
struct flow_end {
	struct kfab_ring *ring;
	struct kfab_batch *wait;
};

/* Take so many entries from a ring. */
static int ring_fails(int fd, const struct flow_end *end, unsigned int count)
{
	const struct kfab_cq_entry *entry;

	while (count) {
		entry = kfab_ring_first(end->ring);
		if (!entry) {
			if (ioctl(fd, KFAB_IOC_BATCH, end->wait) < 0 || end->wait->out_wait_err)
				return 1;
			continue;
		}
		if (entry->err)
			return 1;
		kfab_ring_next(end->ring);
		count--;
	}
	return 0;
}

/*
 * Batches of messages from one end to another one: @batch posts @count receives and as many
 * sends. Both rings are read until each has had as many completions. Returns the cycles; @wrong
 * is the number of rounds that were not played.
 */
unsigned long long loop_flow(int fd, struct kfab_batch *batch, const struct flow_end *from,
			     const struct flow_end *to, unsigned int count, unsigned long rounds,
			     unsigned long *wrong)
{
	unsigned long long start = __rdtsc();

	for (*wrong = rounds; *wrong; --*wrong) {
		batch->posted = 0;
		if (ioctl(fd, KFAB_IOC_BATCH, batch) < 0 || batch->out_post_err ||
		    ring_fails(fd, to, count) || ring_fails(fd, from, count))
			return 0;
	}
	return __rdtsc() - start;
}
