// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Receives and messages that look for each other. Nothing here knows of devices,
 * nor sleeps, nor takes a lock: the caller's protects all of it.
 *
 * A message takes the receive that was posted first of those that match; a
 * receive takes the message that came first. Receives of one tag are found by
 * hashing, whatever their number; only those with bits to ignore are gone
 * through. Each receive has a number in the order of posting, which decides
 * between the two.
 */
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "rdm.h"

#define KFR_EXACT_MIN	16
#define KFR_EXACT_MAX	16384

/**
 * kfr_match_init() - begin with nothing
 * @match: zeroed
 * @size: receives that will be posted at most
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int kfr_match_init(struct kfr_match *match, unsigned int size)
{
	unsigned int i, n = clamp_t(unsigned int, roundup_pow_of_two(size),
				    KFR_EXACT_MIN, KFR_EXACT_MAX);

	match->exact = kvmalloc_array(n, sizeof(*match->exact),
				      GFP_KERNEL_ACCOUNT);
	if (!match->exact)
		return -ENOMEM;
	for (i = 0; i < n; i++)
		INIT_LIST_HEAD(&match->exact[i]);
	match->nexact = n;
	INIT_LIST_HEAD(&match->plain);
	INIT_LIST_HEAD(&match->wild);
	INIT_LIST_HEAD(&match->kept);
	INIT_LIST_HEAD(&match->kept_tagged);
	return 0;
}

void kfr_match_fini(struct kfr_match *match)
{
	kvfree(match->exact);
	match->exact = NULL;
}

static struct list_head *kfr_match_bucket(struct kfr_match *match, u64 tag)
{
	return &match->exact[hash_64(tag, ilog2(match->nexact))];
}

/* The receive waits, behind those that were posted before. */
void kfr_match_post(struct kfr_match *match, struct kfr_recv *recv)
{
	struct list_head *list;

	recv->order = match->order++;
	if (!recv->tagged)
		list = &match->plain;
	else if (recv->ignore)
		list = &match->wild;
	else
		list = kfr_match_bucket(match, recv->tag);
	list_add_tail(&recv->link, list);
}

static bool kfr_match_fits(const struct kfr_recv *recv, u64 tag,
			   struct kfr_addr src)
{
	if (recv->tagged && (recv->tag ^ tag) & ~recv->ignore)
		return false;
	return !recv->directed || kfr_addr_same(recv->src, src);
}

static struct kfr_recv *kfr_match_list(struct list_head *list, u64 tag,
				       struct kfr_addr src)
{
	struct kfr_recv *recv;

	list_for_each_entry(recv, list, link)
		if (kfr_match_fits(recv, tag, src))
			return recv;
	return NULL;
}

/**
 * kfr_match_find() - the receive for a message
 * @match: where
 * @tagged: it has a tag
 * @tag: the tag
 * @src: whence it comes
 *
 * Return: the receive, which stays posted, or NULL.
 */
struct kfr_recv *kfr_match_find(struct kfr_match *match, bool tagged, u64 tag,
				struct kfr_addr src)
{
	struct kfr_recv *exact, *wild;

	if (!tagged)
		return kfr_match_list(&match->plain, 0, src);
	exact = kfr_match_list(kfr_match_bucket(match, tag), tag, src);
	wild = kfr_match_list(&match->wild, tag, src);
	if (!exact || !wild)
		return exact ? exact : wild;
	return exact->order < wild->order ? exact : wild;
}

static struct kfr_recv *kfr_match_in(struct list_head *list,
				     const void *context)
{
	struct kfr_recv *recv;

	list_for_each_entry(recv, list, link)
		if (recv->context == context)
			return recv;
	return NULL;
}

/* A posted receive with that context, or NULL. */
struct kfr_recv *kfr_match_context(struct kfr_match *match, const void *context)
{
	struct kfr_recv *recv;
	unsigned int i;

	recv = kfr_match_in(&match->plain, context);
	if (!recv)
		recv = kfr_match_in(&match->wild, context);
	for (i = 0; !recv && i < match->nexact; i++)
		recv = kfr_match_in(&match->exact[i], context);
	return recv;
}

static void kfr_match_empty(struct list_head *list)
{
	struct kfr_recv *recv, *next;

	list_for_each_entry_safe(recv, next, list, link)
		list_del_init(&recv->link);
}

/* No receive is posted any more. */
void kfr_match_unpost(struct kfr_match *match)
{
	unsigned int i;

	kfr_match_empty(&match->plain);
	kfr_match_empty(&match->wild);
	for (i = 0; i < match->nexact; i++)
		kfr_match_empty(&match->exact[i]);
}

/* The message waits, behind those that came before. */
void kfr_match_keep(struct kfr_match *match, struct kfr_unexp *unexp)
{
	bool tagged = unexp->hdr.flags & KFR_F_TAGGED;

	unexp->order = match->came++;
	match->nkept++;
	list_add_tail(&unexp->link,
		      tagged ? &match->kept_tagged : &match->kept);
}

/* The mirror of it: the message is on no list, and the caller's. */
void kfr_match_unkeep(struct kfr_match *match, struct kfr_unexp *unexp)
{
	list_del_init(&unexp->link);
	match->nkept--;
}

/**
 * kfr_match_kept() - the message for a receive
 * @match: where
 * @recv: the receive, not posted
 *
 * Return: the message, which stays kept, or NULL.
 */
struct kfr_unexp *kfr_match_kept(struct kfr_match *match,
				 const struct kfr_recv *recv)
{
	struct list_head *list = recv->tagged ? &match->kept_tagged :
						&match->kept;
	struct kfr_unexp *unexp;

	list_for_each_entry(unexp, list, link)
		if (kfr_match_fits(recv, le64_to_cpu(unexp->hdr.tag),
				   unexp->src))
			return unexp;
	return NULL;
}
