// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Matching of receives and messages: lists and their order, nothing else. This
 * file knows no devices, does not sleep, and takes no lock: the lock that
 * kfr_match_init() got protects all of it, and every function asserts it.
 *
 * A message takes the receive that was posted first among those that match; a
 * receive takes the message that came first. A receive of one tag is found in a
 * hash table, so their number does not matter; only receives with bits to
 * ignore are searched one by one. @order, the number of a receive in the order
 * of posting, decides between the two kinds.
 *
 * The functions hand out pointers and never references: entries belong to their
 * context, which keeps them as long as its lock is held and they are listed.
 */
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "rdm.h"

#define KFR_EXACT_MIN	16
#define KFR_EXACT_MAX	16384

/**
 * kfr_match_init() - prepare the lists of a context that is being enabled
 * @match: zeroed, or after kfr_match_fini()
 * @size: receives that will be posted at most
 * @lock: the owner's lock, which the other functions assert
 *
 * Context: process, may sleep. No lock: nothing finds the context yet.
 * Return: 0 or -ENOMEM.
 */
int kfr_match_init(struct kfr_match *match, unsigned int size,
		   spinlock_t *lock)
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
	match->lock = lock;
	INIT_LIST_HEAD(&match->plain);
	INIT_LIST_HEAD(&match->wild);
	INIT_LIST_HEAD(&match->kept);
	INIT_LIST_HEAD(&match->kept_tagged);
	return 0;
}

/**
 * kfr_match_fini() - free the hash table
 * @match: initialised or zeroed; its lists are not used any more
 *
 * Context: process. No lock: the context is not enabled, or closed.
 */
void kfr_match_fini(struct kfr_match *match)
{
	kvfree(match->exact);
	match->exact = NULL;
}

static struct list_head *kfr_match_bucket(struct kfr_match *match, u64 tag)
{
	lockdep_assert_held(match->lock);
	return &match->exact[hash_64(tag, ilog2(match->nexact))];
}

/**
 * kfr_match_post() - make a receive the last one on its list
 * @match: the lists
 * @recv: filled in, on no list
 *
 * Messages can take it as soon as the caller drops the lock.
 *
 * Context: any; the lock is held.
 */
void kfr_match_post(struct kfr_match *match, struct kfr_recv *recv)
{
	struct list_head *list;

	lockdep_assert_held(match->lock);
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
 * kfr_match_find() - find the receive for a message
 * @match: the lists
 * @tagged: the message has a tag
 * @tag: its tag
 * @src: its source
 *
 * Context: any; the lock is held.
 * Return: the first matching receive, still posted, or NULL.
 */
struct kfr_recv *kfr_match_find(struct kfr_match *match, bool tagged, u64 tag,
				struct kfr_addr src)
{
	struct kfr_recv *exact, *wild;

	lockdep_assert_held(match->lock);
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

/**
 * kfr_match_context() - find a receive by the ULP's context
 * @match: the lists
 * @context: as given when the receive was posted
 *
 * Context: any; the lock is held. All posted receives may be visited.
 * Return: a receive, still posted, or NULL. Of several, any one.
 */
struct kfr_recv *kfr_match_context(struct kfr_match *match, const void *context)
{
	struct kfr_recv *recv;
	unsigned int i;

	lockdep_assert_held(match->lock);
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

/**
 * kfr_match_unpost() - take all receives off their lists
 * @match: the lists
 *
 * Used by close, which drops posted receives without a completion.
 * Multi-receives that are being filled end with the last of their messages.
 *
 * Context: any; the lock is held.
 */
void kfr_match_unpost(struct kfr_match *match)
{
	unsigned int i;

	lockdep_assert_held(match->lock);
	kfr_match_empty(&match->plain);
	kfr_match_empty(&match->wild);
	for (i = 0; i < match->nexact; i++)
		kfr_match_empty(&match->exact[i]);
}

/**
 * kfr_match_keep() - make a message the last one on its list
 * @match: the lists
 * @unexp: filled in, on no list
 *
 * Context: any; the lock is held.
 */
void kfr_match_keep(struct kfr_match *match, struct kfr_unexp *unexp)
{
	bool tagged = unexp->hdr.flags & KFR_F_TAGGED;

	lockdep_assert_held(match->lock);
	unexp->order = match->came++;
	match->nkept++;
	list_add_tail(&unexp->link,
		      tagged ? &match->kept_tagged : &match->kept);
}

/**
 * kfr_match_unkeep() - take a message off its list
 * @match: the lists
 * @unexp: a kept message
 *
 * The caller owns it afterwards, also without the lock.
 *
 * Context: any; the lock is held.
 */
void kfr_match_unkeep(struct kfr_match *match, struct kfr_unexp *unexp)
{
	lockdep_assert_held(match->lock);
	list_del_init(&unexp->link);
	match->nkept--;
}

/**
 * kfr_match_kept() - find the message for a receive
 * @match: the lists
 * @recv: the receive, not posted
 *
 * Context: any; the lock is held.
 * Return: the first matching message, still kept, or NULL.
 */
struct kfr_unexp *kfr_match_kept(struct kfr_match *match,
				 const struct kfr_recv *recv)
{
	struct list_head *list = recv->tagged ? &match->kept_tagged :
						&match->kept;
	struct kfr_unexp *unexp;

	lockdep_assert_held(match->lock);
	list_for_each_entry(unexp, list, link)
		if (kfr_match_fits(recv, le64_to_cpu(unexp->hdr.tag),
				   unexp->src))
			return unexp;
	return NULL;
}
