// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Threads that wait for a bit of a word to be clear. All of them share one queue: the
 * kernel has a table, and its hash may give any two bits the same queue.
 */
#include <linux/errno.h>
#include <linux/wait_bit.h>

struct bit_waiter {
	struct wait_queue_entry entry;
	unsigned long *word;
	int bit;
};

static DECLARE_WAIT_QUEUE_HEAD(bit_queue);

static bool bit_is_set(const struct bit_waiter *waiter)
{
	/* Pairs with clear_bit_unlock(). */
	return smp_load_acquire(&waiter->word[BIT_WORD(waiter->bit)]) & BIT_MASK(waiter->bit);
}

/* Another thread may have set the bit again: then nobody wakes for it. */
static int wake_for_bit(struct wait_queue_entry *entry, unsigned int mode, int flags,
			void *key)
{
	const struct bit_waiter *waiter = container_of(entry, struct bit_waiter, entry);
	const struct bit_waiter *clear = key;

	if (waiter->word != clear->word || waiter->bit != clear->bit || bit_is_set(waiter))
		return 0;
	return autoremove_wake_function(entry, mode, flags, key);
}

static void bit_waiter_init(struct bit_waiter *waiter, unsigned long *word, int bit)
{
	init_wait(&waiter->entry);
	waiter->entry.func = wake_for_bit;
	waiter->word = word;
	waiter->bit = bit;
}

static int bit_sleep(unsigned int mode)
{
	schedule();
	return signal_pending_state(mode, current) ? -EINTR : 0;
}

int wait_on_bit(unsigned long *word, int bit, unsigned int mode)
{
	struct bit_waiter waiter;
	int ret = 0;

	might_sleep();
	bit_waiter_init(&waiter, word, bit);
	while (!ret && bit_is_set(&waiter)) {
		prepare_to_wait(&bit_queue, &waiter.entry, mode);
		if (bit_is_set(&waiter))
			ret = bit_sleep(mode);
	}
	finish_wait(&bit_queue, &waiter.entry);
	return ret;
}

/*
 * A thread that a signal ends has left the queue before it looks for the last time, so
 * that it takes the bit, or the wake-up goes to another one.
 */
int wait_on_bit_lock(unsigned long *word, int bit, unsigned int mode)
{
	struct bit_waiter waiter;
	int ret = 0;

	might_sleep();
	bit_waiter_init(&waiter, word, bit);
	while (test_and_set_bit(bit, word)) {
		if (ret)
			return ret;
		prepare_to_wait_exclusive(&bit_queue, &waiter.entry, mode);
		if (bit_is_set(&waiter))
			ret = bit_sleep(mode);
		if (ret)
			finish_wait(&bit_queue, &waiter.entry);
	}
	finish_wait(&bit_queue, &waiter.entry);
	return 0;
}

void wake_up_bit(void *word, int bit)
{
	struct bit_waiter clear = { .word = word, .bit = bit };

	/* The barrier is the caller's. */
	if (waitqueue_active(&bit_queue))
		__wake_up(&bit_queue, TASK_NORMAL, 1, &clear);
}
