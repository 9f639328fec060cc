// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Descriptors: poll(2) never sleeps beside a ready object, and a watch outlives its object.
 */
#include "support.h"

#include <linux/poll.h>

enum { FIRST, SECOND, THIRD };

static struct kfi_watch *watch;

/* A thread in poll(2): one entry on the queue that the descriptor names. */
struct poller {
	poll_table table;
	struct wait_queue_entry entry;
	wait_queue_head_t *head;
};

static void enter_poll(struct file *file, wait_queue_head_t *head, poll_table *table)
{
	struct poller *p = container_of(table, struct poller, table);

	p->head = head;
	init_waitqueue_func_entry(&p->entry, default_wake_function);
	p->entry.private = current;
	add_wait_queue(head, &p->entry);
}

/* Sleeps until the descriptor shows one of @events. */
static __poll_t poll_for(__poll_t events)
{
	struct poller p = { .head = NULL };
	__poll_t mask;

	init_poll_funcptr(&p.table, enter_poll);
	mask = kfi_watch_poll(watch, NULL, &p.table);
	for (;;) {
		set_current_state(TASK_INTERRUPTIBLE);
		mask = kfi_watch_poll(watch, NULL, NULL);
		if (mask & events)
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	remove_wait_queue(p.head, &p.entry);
	return mask;
}

static void poll_in(void)
{
	mine()->ret = poll_for(EPOLLIN | EPOLLERR | EPOLLHUP);
	mine()->done = true;
}

static void watch_object(struct kfid *fid)
{
	watch = kfi_watch_get(fid);
	prove_check(!IS_ERR(watch), "the object is watched");
}

static bool readable(void)
{
	return kfi_cq_source(cq[0])->ready;
}

static void setup(void)
{
	open_domain();
	open_cq(0);
	watch_object(&cq[0]->fid);
	prove_ready(readable);
}

static void end(void)
{
	read_rest(0);
	kfi_watch_put(watch);
	close_all();
}

static void finish(void)
{
	prove_check(records[FIRST].ret == (EPOLLIN | EPOLLRDNORM),
		    "the descriptor is readable");
	end();
}

PROVE_SCENARIO(watch_one, .rules = "W8 V3 W2", .tables = "15",
	       .says = "a thread in poll(2) and a publication",
	       .setup = setup, .finish = finish,
	       .threads = { { "poller", poll_in }, { "publisher", publish_one } });

static void finish_two(void)
{
	prove_check(records[FIRST].ret == (EPOLLIN | EPOLLRDNORM) &&
		    records[SECOND].ret == (EPOLLIN | EPOLLRDNORM),
		    "the descriptor is readable for both");
	end();
}

PROVE_SCENARIO(watch_two, .rules = "W8 V3", .tables = "15",
	       .says = "two threads in poll(2): one publication wakes both",
	       .setup = setup, .finish = finish_two,
	       .threads = { { "poller 1", poll_in }, { "poller 2", poll_in },
			    { "publisher", publish_one } });

/* The descriptor of a member: the publication wakes another queue, that of the set. */
static void setup_member(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_cq(0);
	watch_object(&cq[0]->fid);
	prove_ready(readable);
}

PROVE_SCENARIO(watch_member, .rules = "W8 T3", .tables = "15",
	       .says = "the descriptor of a member of a wait set",
	       .setup = setup_member, .finish = finish,
	       .threads = { { "poller", poll_in }, { "publisher", publish_one } });

static void setup_set(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_cq(0);
	watch_object(&set->kfid);
	prove_ready(readable);
}

PROVE_SCENARIO(watch_set, .rules = "W8 T3", .tables = "15",
	       .says = "the descriptor of a wait set",
	       .setup = setup_set, .finish = finish,
	       .threads = { { "poller", poll_in }, { "publisher", publish_one } });

/* One reader cannot take away what another thread waits for: it sleeps on beside nothing. */
static void read_once(void)
{
	read_cq(0, 1);
}

PROVE_SCENARIO(watch_beside_reader, .rules = "W8 V3", .tables = "15 6",
	       .says = "a reader takes the first entry; the second one ends the poll",
	       .setup = setup, .finish = finish,
	       .threads = { { "poller", poll_in }, { "reader", read_once },
			    { "publisher", publish_two } });

/* The documented loop: trywait, block, read until empty. */
static void try_and_block(void)
{
	while (!mine()->n) {
		bool ready = atomic_read(&kfi_cq_source(cq[0])->own.nready) > 0;
		int ret = kfi_fid_trywait(&fabric->fabric, &cq[0]->fid);

		prove_check(ret == -KFI_EAGAIN || (!ret && !ready),
			    "0 means that nothing is readable");
		if (!ret)
			poll_for(EPOLLIN);
		read_cq(0, 1);
	}
}

static void finish_loop(void)
{
	prove_check(records[FIRST].n == 1, "the loop reads the entry");
	end();
}

PROVE_SCENARIO(watch_trywait, .rules = "T1 T3 V3", .tables = "15",
	       .says = "the loop of trywait, poll(2) and read",
	       .setup = setup, .finish = finish_loop,
	       .threads = { { "reader", try_and_block }, { "publisher", publish_one } });

static void setup_quiet(void)
{
	open_domain();
	open_cq(0);
	watch_object(&cq[0]->fid);
}

static void close_first(void)
{
	close_cq(0);
}

static void finish_closed(void)
{
	prove_check(records[FIRST].ret == (EPOLLERR | EPOLLHUP), "the close hangs up");
	kfi_watch_put(watch);
	close_all();
}

PROVE_SCENARIO(watch_close, .rules = "W8 V7 O4", .tables = "15 11",
	       .says = "an object is closed under a thread in poll(2)",
	       .setup = setup_quiet, .finish = finish_closed,
	       .threads = { { "poller", poll_in }, { "closer", close_first } });

/* The thread in poll(2) has got an event, and acknowledges it after the hang-up. */
static void setup_unacked(void)
{
	struct kfid_cq *of;

	setup_quiet();
	open_channel();
	prove_check(!kfi_cq_bind_channel(cq[0], channel), "the CQ is bound");
	prove_check(!kfi_req_notify(cq[0], KFI_CQ_NEXT_COMP), "the request is made");
	complete_op(0, 1, 0);
	prove_check(!kfi_get_cq_event(channel, &of, NULL, 0), "the event is there");
	read_rest(0);
}

static void poll_and_ack(void)
{
	poll_in();
	prove_check(!kfi_ack_cq_events(cq[0], 1), "the event is acknowledged");
}

static void close_unacked(void)
{
	must_close(&cq[0]->fid);
}

static void finish_unacked(void)
{
	cq[0] = NULL;
	finish_closed();
}

PROVE_SCENARIO(watch_close_unacked, .rules = "W8 V7 E3", .tables = "15 19",
	       .says = "a close waits for an ack of the thread that it ends in poll(2)",
	       .setup = setup_unacked, .finish = finish_unacked,
	       .threads = { { "poller", poll_and_ack }, { "closer", close_unacked } });

static void publish_and_close(void)
{
	publish(0, 1);
	close_first();
}

static void finish_published_and_closed(void)
{
	const ssize_t mask = records[FIRST].ret;

	prove_check(mask == (EPOLLERR | EPOLLHUP) || mask == (EPOLLIN | EPOLLRDNORM),
		    "the descriptor shows the entry or the end");
	kfi_watch_put(watch);
	close_all();
}

PROVE_SCENARIO(watch_publish_and_close, .rules = "W8 V8", .tables = "15 11",
	       .says = "an object gets an entry and is closed under a thread in poll(2)",
	       .setup = setup_quiet, .finish = finish_published_and_closed,
	       .threads = { { "poller", poll_in }, { "owner", publish_and_close } });

/* More entries than a publisher wakes itself, KFI_WATCH_FEW of them; nobody waits there. */
static struct poller crowd[5];

static int wake_nobody(struct wait_queue_entry *entry, unsigned int mode, int flags,
		       void *key)
{
	return 0;
}

static void enter_crowd(struct file *file, wait_queue_head_t *head, poll_table *table)
{
	struct poller *p = container_of(table, struct poller, table);

	p->head = head;
	init_waitqueue_func_entry(&p->entry, wake_nobody);
	add_wait_queue(head, &p->entry);
}

static void fill_crowd(void)
{
	struct poller *p;

	for (p = crowd; p < crowd + ARRAY_SIZE(crowd); p++) {
		init_poll_funcptr(&p->table, enter_crowd);
		kfi_watch_poll(watch, NULL, &p->table);
	}
}

static void empty_crowd(void)
{
	struct poller *p;

	for (p = crowd; p < crowd + ARRAY_SIZE(crowd); p++)
		remove_wait_queue(p->head, &p->entry);
}

static void setup_crowd(void)
{
	setup();
	fill_crowd();
}

static void finish_crowd(void)
{
	empty_crowd();
	finish();
}

PROVE_SCENARIO(watch_many, .rules = "W8 V3 W2", .tables = "15",
	       .says = "a thread among many in poll(2): a work item wakes it",
	       .setup = setup_crowd, .finish = finish_crowd,
	       .threads = { { "poller", poll_in }, { "publisher", publish_one } });

static void setup_quiet_crowd(void)
{
	setup_quiet();
	fill_crowd();
}

static void finish_closed_crowd(void)
{
	empty_crowd();
	finish_published_and_closed();
}

PROVE_SCENARIO(watch_many_close, .rules = "W8 V8 O4", .tables = "15 11",
	       .says = "an object with many in poll(2) gets an entry and is closed",
	       .setup = setup_quiet_crowd, .finish = finish_closed_crowd,
	       .threads = { { "poller", poll_in }, { "owner", publish_and_close } });

/* The descriptor goes as the object goes: the last of the two frees the watch. */
static void put_watch(void)
{
	kfi_watch_put(watch);
}

PROVE_SCENARIO(watch_put, .rules = "V8 W8", .tables = "15 11",
	       .says = "a descriptor and its object are closed at once",
	       .setup = setup_quiet, .finish = close_all,
	       .threads = { { "descriptor", put_watch }, { "closer", close_first } });

static void setup_unwatched(void)
{
	open_domain();
	open_cq(0);
}

static struct kfi_watch *watches[2];

static void get_watch(void)
{
	watches[prove_self()] = kfi_watch_get(&cq[0]->fid);
}

static void finish_two_watches(void)
{
	prove_check(!IS_ERR(watches[0]) && watches[0] == watches[1], "an object has one watch");
	kfi_watch_put(watches[0]);
	kfi_watch_put(watches[1]);
	read_rest(0);
	close_all();
}

PROVE_SCENARIO(watch_get, .rules = "W8", .tables = "15",
	       .says = "two descriptors of one object are made beside a publication",
	       .setup = setup_unwatched, .finish = finish_two_watches,
	       .threads = { { "descriptor 1", get_watch }, { "descriptor 2", get_watch },
			    { "publisher", publish_one } });

static void get_and_poll(void)
{
	watch = kfi_watch_get(&cq[0]->fid);
	poll_in();
}

static void setup_new(void)
{
	open_domain();
	open_cq(0);
	prove_ready(readable);
}

PROVE_SCENARIO(watch_new, .rules = "W8 W2", .tables = "15",
	       .says = "a descriptor is made and polled as an entry is published",
	       .setup = setup_new, .finish = finish,
	       .threads = { { "poller", get_and_poll }, { "publisher", publish_one } });

/* A poller that asks only for the end of the object. */
static void poll_hang_up(void)
{
	mine()->ret = poll_for(EPOLLERR | EPOLLHUP);
}

static void finish_lost(void)
{
	prove_check(records[FIRST].ret & EPOLLERR, "the loss of the device shows");
	end();
}

PROVE_SCENARIO(watch_loss, .rules = "O5 W8 V7", .tables = "15 12",
	       .says = "the device goes under a thread in poll(2)",
	       .setup = setup_quiet, .finish = finish_lost,
	       .threads = { { "poller", poll_hang_up }, { "device", lose_device } });

static void setup_channel(void)
{
	open_domain();
	open_channel();
	watch_object(&channel->fid);
}

static void close_channel(void)
{
	must_close(&channel->fid);
	channel = NULL;
}

PROVE_SCENARIO(watch_channel_close, .rules = "W8 E5", .tables = "15 18",
	       .says = "a channel is closed under a thread in poll(2)",
	       .setup = setup_channel, .finish = finish_closed,
	       .threads = { { "poller", poll_in }, { "closer", close_channel } });

/* One completion for two members of a set; the descriptor of the second one is polled. */
static bool counted(void)
{
	return kfi_fid_source(&cntr->fid)->ready;
}

static void setup_second_member(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_cq(0);
	open_cntr();
	open_ep();
	prove_check(!kfi_ep_base_bind(ep, &cq[0]->fid, KFI_TRANSMIT | KFI_RECV),
		    "the CQ is bound");
	prove_check(!kfi_ep_base_bind(ep, &cntr->fid, KFI_RECV), "the counter is bound");
	watch_object(&cntr->fid);
	prove_ready(counted);
}

static void complete_and_count(void)
{
	const struct kfi_completion comp = {
		.context = (void *)entry_number(prove_self(), 1),
		.flags = KFI_RECV,
	};

	kfi_ep_complete(ep, &comp, true);
}

static void finish_second_member(void)
{
	prove_check(records[FIRST].done, "poll(2) returns");
	kfi_cntr_read(cntr);
	end();
}

PROVE_SCENARIO(watch_second_member, .rules = "W8 Q8 W2", .tables = "15 2",
	       .says = "a completion for two members of a set, the second one's descriptor is polled",
	       .setup = setup_second_member, .finish = finish_second_member,
	       .threads = { { "poller", poll_in }, { "provider", complete_and_count } });
