// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Profiling of receive contexts: number, content and events of kept messages.
 *
 * The core reads under kfr_rx.lock, which it got as the endpoint's
 * profile_lock, so the lists do not change meanwhile. Events are reported under
 * the same lock, right after the change.
 *
 * Long messages and tagged RMA are kept like others, though their data is still
 * at the sender. A message that leaves without a receive (its sender is gone or
 * closes, or the time for tagged RMA is over) leaves without an event.
 */
#include <kfi_profile.h>

#include "rdm.h"

/* The entry goes to user space: it contains no kernel address. */
static void kfr_unexp_entry(const struct kfr_unexp *unexp,
			    struct kfi_cq_err_entry *entry)
{
	const struct kfr_hdr *hdr = &unexp->hdr;

	*entry = (struct kfi_cq_err_entry) {
		.flags = kfr_completion_flags(hdr),
		.len = le32_to_cpu(hdr->len),
	};
	if (hdr->flags & KFR_F_TAGGED)
		entry->tag = le64_to_cpu(hdr->tag);
	if (hdr->flags & KFR_F_DATA)
		entry->data = le64_to_cpu(hdr->data);
}

/**
 * kfr_rx_profile_event() - report a change of kept messages to profiles
 * @rx: the context; its lists have changed already
 * @id: KFI_EVENT_UNEXP_MSG_RECVD or _MATCHED
 * @unexp: the message
 *
 * Context: any; the caller holds the context's lock.
 */
void kfr_rx_profile_event(struct kfr_rx *rx, u32 id,
			  const struct kfr_unexp *unexp)
{
	struct kfi_cq_err_entry entry;

	lockdep_assert_held(&rx->lock);
	if (list_empty(&rx->base->profiles))
		return;
	kfr_unexp_entry(unexp, &entry);
	kfi_profile_event(rx->base, id, &entry, sizeof(entry));
}

/* Merges the two lists, each of which is in the order of arrival. */
static size_t kfr_read_queue(const struct kfr_rx *rx,
			     struct kfi_cq_err_entry *to, size_t size)
{
	const struct kfr_match *match = &rx->match;
	const size_t n = min_t(size_t, size / sizeof(*to), match->nkept);
	const struct list_head *plain = match->kept.next;
	const struct list_head *tagged = match->kept_tagged.next;
	const struct kfr_unexp *unexp, *other;
	size_t i;

	lockdep_assert_held(&rx->lock);
	for (i = 0; i < n; i++) {
		unexp = list_entry(plain, struct kfr_unexp, link);
		other = list_entry(tagged, struct kfr_unexp, link);
		if (plain == &match->kept ||
		    (tagged != &match->kept_tagged &&
		     other->order < unexp->order)) {
			unexp = other;
			tagged = tagged->next;
		} else {
			plain = plain->next;
		}
		kfr_unexp_entry(unexp, &to[i]);
	}
	return match->nkept * sizeof(*to);
}

static size_t kfr_profile_read(struct kfi_ep_base *base, u32 id, void *buf,
			       size_t size)
{
	const struct kfr_rx *rx = kfr_face_of(&base->ep)->rx;
	const u64 count = rx->match.nkept;

	lockdep_assert_held(&rx->lock);
	if (id == KFI_VAR_UNEXP_MSG_QUEUE)
		return kfr_read_queue(rx, buf, size);
	memcpy(buf, &count, min(size, sizeof(count)));
	return sizeof(count);
}

static const struct kfi_profile_ops kfr_profile_ops = {
	.vars = kfi_unexp_vars,
	.nvars = ARRAY_SIZE(kfi_unexp_vars),
	.events = kfi_unexp_events,
	.nevents = ARRAY_SIZE(kfi_unexp_events),
	.read = kfr_profile_read,
};

/**
 * kfr_rx_profile() - let a context be profiled
 * @rx: the context; its handle is initialised, but the ULP does not have it yet
 *
 * It may be read before it is enabled: it has no messages then.
 *
 * Context: process; no lock held but those of open.
 */
void kfr_rx_profile(struct kfr_rx *rx)
{
	kfi_ep_base_profile(rx->base, &kfr_profile_ops, &rx->lock);
}
