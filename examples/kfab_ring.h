/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Read the completions of a ring (KFAB_IOC_CQ_RING) in C, one thread at a time:
 *
 *	while ((entry = kfab_ring_first(ring)))
 *		if (entry->err)
 *			... KFAB_IOC_CQ_READERR, then kfab_ring_next(ring)
 *		else
 *			... use the entry, then kfab_ring_next(ring)
 *
 * If nothing is left, make a call: WAIT, TRYWAIT before poll(), or CQ_READ of 0 entries. The
 * kernel learns by it what was read.
 */
#ifndef KFAB_RING_H
#define KFAB_RING_H

#include <stddef.h>

#include <linux/kfabric.h>

/**
 * kfab_ring_first() - the oldest entry that was not read
 * @ring: the ring, mapped
 *
 * Return: the entry, which stays as it is until kfab_ring_next(); or NULL.
 */
static inline const struct kfab_cq_entry *kfab_ring_first(const struct kfab_ring *ring)
{
	/* Acquire: who sees the count finds the entry. */
	if (ring->head == __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE))
		return NULL;
	return &ring->entries[ring->head & ring->mask];
}

/**
 * kfab_ring_next() - the oldest entry was read
 * @ring: the ring, in which kfab_ring_first() has found an entry
 */
static inline void kfab_ring_next(struct kfab_ring *ring)
{
	/* Release: the entry is read before the kernel may store another one in its place. */
	__atomic_store_n(&ring->head, ring->head + 1, __ATOMIC_RELEASE);
}

/**
 * kfab_ring_overrun() - were completions lost?
 * @ring: the ring
 *
 * Return: not 0 if completions came when the queue was full, and all before them were read.
 */
static inline int kfab_ring_overrun(const struct kfab_ring *ring)
{
	/* In this order, as entries may have come before the loss was noted. */
	return __atomic_load_n(&ring->overrun, __ATOMIC_ACQUIRE) && !kfab_ring_first(ring);
}

#endif /* KFAB_RING_H */
