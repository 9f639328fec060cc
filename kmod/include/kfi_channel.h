/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Completion channels, the comp_channel of verbs, for the CQs of any provider. Not part
 * of kfabric 1.7.
 *
 * A CQ is bound to a channel. kfi_req_notify() requests one event, which the next
 * completion makes, once. kfi_get_cq_event() waits for the next event of any CQ of the
 * channel. kfi_ack_cq_events() acknowledges it: a CQ closes only when all of its events
 * that were got are acknowledged.
 *
 * An event stands for any number of entries, and sometimes for none: after an event, a
 * reader requests the next one and then reads until the CQ is empty.
 */
#ifndef _KFI_CHANNEL_H_
#define _KFI_CHANNEL_H_

#include <kfabric.h>
#include <kfi_domain.h>
#include <kfi_eq.h>

/* The class of a channel; after those of kfabric, with room for more of them. */
#define KFI_CLASS_COMP_CHANNEL	24

/*
 * A flag of an operation: its completion at the target counts as solicited. In a
 * completion that a provider reports: this one does. Never set in an entry that a
 * reader gets.
 */
#define KFI_SOLICITED		BIT_ULL(61)

/* Flags of kfi_req_notify(). The first two together are KFI_CQ_NEXT_COMP. */
#define KFI_CQ_SOLICITED	BIT(0)	/* solicited or failed completions */
#define KFI_CQ_NEXT_COMP	BIT(1)	/* any completion */
#define KFI_CQ_REPORT_MISSED	BIT(2)	/* return 1 for earlier entries */

/* The most unread events of one CQ. */
#define KFI_CQ_EVENTS_MAX	1024

/**
 * struct kfid_comp_channel - a completion channel
 * @fid: its base; kfi_close() ends it
 */
struct kfid_comp_channel {
	struct kfid fid;
};

int kfi_comp_channel_open(struct kfid_fabric *fabric,
			  struct kfid_comp_channel **channel, void *context);
int kfi_cq_bind_channel(struct kfid_cq *cq, struct kfid_comp_channel *channel);
int kfi_req_notify(struct kfid_cq *cq, u32 flags);
int kfi_get_cq_event(struct kfid_comp_channel *channel, struct kfid_cq **cq,
		     void **context, int timeout);
int kfi_ack_cq_events(struct kfid_cq *cq, unsigned int nevents);

#endif /* _KFI_CHANNEL_H_ */
