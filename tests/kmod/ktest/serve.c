// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* The loop of docs/getting-started.md: sleep in a wait set, ask a poll set. */
#include "ktest.h"

/* The context of each member of the two sets. */
struct member {
	int (*read)(struct member *member);
};

static int serve(struct kfid_wait *set, struct kfid_poll *pollset)
{
	void *ready[8];
	int err, i, count;

	while (!kthread_should_stop()) {
		err = kfi_wait(set, -1);
		if (err)
			return err;
		count = kfi_poll(pollset, ready, ARRAY_SIZE(ready));
		for (i = 0; i < count; i++) {
			struct member *member = ready[i];

			/* Reads entries and errors until -KFI_EAGAIN. */
			err = member->read(member);
			if (err)
				return err;
		}
	}
	return 0;
}

#define KT_COMPLETIONS	2

struct kt_member {
	struct member member;
	struct kt *kt;
};

/* The event comes last. */
static int kt_read_completions(struct member *member)
{
	struct kt *kt = container_of(member, struct kt_member, member)->kt;
	struct kfi_cq_msg_entry entry;

	while (kfi_cq_read(kt->cq, &entry, 1) == 1)
		atomic_inc(&kt->seen);
	return 0;
}

static int kt_read_events(struct member *member)
{
	struct kt *kt = container_of(member, struct kt_member, member)->kt;
	struct kfi_eq_entry entry;
	u32 event;

	while (kfi_eq_read(kt->eq, &event, &entry, sizeof(entry), 0) > 0)
		complete(&kt->called);
	return 0;
}

static int kt_serve(struct kt *kt)
{
	return serve(kt->wait, kt->poll);
}

static void kt_serve_loop(struct kt *kt)
{
	struct kt_member cq = { { kt_read_completions }, kt };
	struct kt_member eq = { { kt_read_events }, kt };
	struct kfi_eq_entry entry = { .data = 497 };

	KT_EQ(kt, kt_open(kt, KFI_WAIT_SET), 0);
	kt->cq->fid.context = &cq.member;
	kt->eq->fid.context = &eq.member;
	KT_EQ(kt, kfi_poll_open(kt->domain, NULL, &kt->poll), 0);
	KT_EQ(kt, kfi_poll_add(kt->poll, &kt->cq->fid, 0), 0);
	KT_EQ(kt, kfi_poll_add(kt->poll, &kt->eq->fid, 0), 0);
	KT_EQ(kt, kt_start(kt, kt_serve, false), 0);
	KT_EQ(kt, kt_until_asleep(kt), 0);
	KT_EQ(kt, kt_command(kt, "inject %u send %d", kt_ep_id(kt), KT_COMPLETIONS), 0);
	KT_EQ(kt, kfi_eq_write(kt->eq, KFI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
	KT_CHECK(kt, wait_for_completion_timeout(&kt->called, KT_DEADLINE));
	KT_EQ(kt, kt_until_asleep(kt), 0);
	KT_EQ(kt, atomic_read(&kt->seen), KT_COMPLETIONS);
	KT_EQ(kt, kt_stop(kt), 0);
	KT_EQ(kt, kfi_poll_del(kt->poll, &kt->cq->fid, 0), 0);
	KT_EQ(kt, kfi_poll_del(kt->poll, &kt->eq->fid, 0), 0);
}

const struct kt_case kt_serve_cases[] = {
	{ "serve_loop", kt_serve_loop },
	{ }
};
