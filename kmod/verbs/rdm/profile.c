// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What profiles show of a receive context: the messages that wait for a receive.
 * The context's lock holds them still; the core takes it.
 *
 * Large messages and tagged RMA wait like others, though their data is still at
 * the peer. What ends without a receive (its sender is gone, or has closed, or
 * nobody posted one in time) leaves the queue without an event.
 */
#include <kfi_profile.h>

#include "rdm.h"

/* It goes to users: no address of ours. */
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
 * kfr_rx_profile_event() - tell who profiles a context of a kept message
 * @rx: the context; caller holds its lock, and has changed its lists
 * @id: KFI_EVENT_UNEXP_MSG_RECVD or _MATCHED
 * @unexp: the message
 *
 * Context: any.
 */
void kfr_rx_profile_event(struct kfr_rx *rx, u32 id, const struct kfr_unexp *unexp)
{
	struct kfi_cq_err_entry entry;

	lockdep_assert_held(&rx->lock);
	if (list_empty(&rx->base->profiles))
		return;
	kfr_unexp_entry(unexp, &entry);
	kfi_profile_event(rx->base, id, &entry, sizeof(entry));
}

/* The two lists are in order, each by itself. */
static size_t kfr_read_queue(const struct kfr_match *match,
			     struct kfi_cq_err_entry *to, size_t size)
{
	const size_t n = min_t(size_t, size / sizeof(*to), match->nkept);
	const struct list_head *plain = match->kept.next;
	const struct list_head *tagged = match->kept_tagged.next;
	const struct kfr_unexp *unexp, *other;
	size_t i;

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
		return kfr_read_queue(&rx->match, buf, size);
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
 * kfr_rx_profile() - let a context's messages be profiled
 * @rx: the context; its face is begun, and not given to the ULP yet
 *
 * Context: process.
 */
void kfr_rx_profile(struct kfr_rx *rx)
{
	kfi_ep_base_profile(rx->base, &kfr_profile_ops, &rx->lock);
}
