// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The objects, calls and checks that the scenarios of kmod/core share.
 */
#include <engine.h>

#include "support.h"

struct record records[RECORDS];
struct kfi_fabric_base *fabric;
struct kfi_domain_base *domain;
struct kfi_ep_base *ep;
struct kfid_wait *set;
struct kfid_cq *cq[2];
struct kfid_cntr *cntr;
struct kfid_eq *eq;
struct kfid_comp_channel *channel;
bool unplugged;

struct record *mine(void)
{
	int self = prove_self();

	return &records[self < 0 ? REST : self];
}

/* kfi_fid_get() and kfi_fid_put() only compare with zero. */
static void count_references(struct kfid *fid)
{
	prove_references(&fid->ref_cnt);
}

static void free_fabric(struct kfi_fabric_base *base)
{
	kfree(base);
}

static void free_domain(struct kfi_domain_base *base)
{
	kfree(base);
}

void open_domain(void)
{
	fabric = kzalloc(sizeof(*fabric), GFP_KERNEL);
	domain = kzalloc(sizeof(*domain), GFP_KERNEL);
	prove_check(!kfi_fabric_base_init(fabric, NULL, NULL, free_fabric, 0, NULL),
		    "the fabric opens");
	prove_check(!kfi_domain_base_init(domain, &fabric->fabric, NULL, NULL,
					  free_domain, NULL),
		    "the domain opens");
	count_references(&fabric->fabric.fid);
	count_references(&domain->domain.fid);
}

void open_set(enum kfi_wait_obj wait_obj)
{
	struct kfi_wait_attr attr = { .wait_obj = wait_obj };

	prove_check(!kfi_core_wait_open(&fabric->fabric, &attr, &set),
		    "the wait set opens");
	count_references(&set->kfid);
}

void make_exclusive(void)
{
	u64 flags = KFI_WAIT_EXCLUSIVE;

	prove_check(!kfi_control(&set->kfid, KFI_SETFIDFLAG, &flags),
		    "the wait set becomes exclusive");
}

int try_open_cq(int i, size_t size, enum kfi_cq_wait_cond cond,
		kfi_comp_handler handler)
{
	struct kfi_cq_attr attr = {
		.size = size,
		.format = KFI_CQ_FORMAT_CONTEXT,
		.wait_obj = set ? KFI_WAIT_SET : KFI_WAIT_UNSPEC,
		.wait_set = set,
		.wait_cond = cond,
	};
	int err;

	err = kfi_core_cq_open(&domain->domain, &attr, &cq[i], handler, &cq[i]);
	if (!err)
		count_references(&cq[i]->fid);
	return err;
}

void open_cq(int i)
{
	prove_check(!try_open_cq(i, 4, KFI_CQ_COND_NONE, NULL), "the CQ opens");
}

void open_threshold_cq(int i)
{
	prove_check(!try_open_cq(i, 4, KFI_CQ_COND_THRESHOLD, NULL), "the CQ opens");
}

void open_waitless_cq(int i)
{
	struct kfi_cq_attr attr = { .size = 4, .wait_obj = KFI_WAIT_NONE };

	prove_check(!kfi_core_cq_open(&domain->domain, &attr, &cq[i], NULL, &cq[i]),
		    "the CQ opens");
	count_references(&cq[i]->fid);
}

void open_cntr(void)
{
	struct kfi_cntr_attr attr = {
		.wait_obj = set ? KFI_WAIT_SET : KFI_WAIT_UNSPEC,
		.wait_set = set,
	};

	prove_check(!kfi_core_cntr_open(&domain->domain, &attr, &cntr, &cntr),
		    "the counter opens");
	count_references(&cntr->fid);
}

void open_eq(size_t size)
{
	struct kfi_eq_attr attr = {
		.size = size,
		.wait_obj = set ? KFI_WAIT_SET : KFI_WAIT_UNSPEC,
		.wait_set = set,
	};

	prove_check(!kfi_core_eq_open(&fabric->fabric, &attr, &eq, NULL, &eq),
		    "the EQ opens");
	count_references(&eq->fid);
}

void open_channel(void)
{
	prove_check(!kfi_comp_channel_open(&fabric->fabric, &channel, &channel),
		    "the channel opens");
	count_references(&channel->fid);
}

void note_threshold(int i, size_t threshold)
{
	struct kfi_cq_entry entry;

	prove_check(kfi_cq_sread(cq[i], &entry, 1, (void *)threshold, 0) < 0,
		    "the CQ is empty");
}

void setup_one_cq(void)
{
	open_domain();
	open_cq(0);
	note_threshold(0, 1);
}

void setup_one_member(void)
{
	open_domain();
	open_set(KFI_WAIT_UNSPEC);
	open_cq(0);
}

static int close_ep(struct kfid *fid)
{
	struct kfi_ep_base *base = container_of(fid, struct kfi_ep_base, ep.fid);
	int ret = kfi_fid_kill(fid);

	if (ret)
		return ret;
	kfi_ep_base_fini(base);
	kfree(base);
	return 0;
}

static struct kfi_ops ep_ops = { .size = sizeof(ep_ops), .close = close_ep };

void open_ep(void)
{
	ep = kzalloc(sizeof(*ep), GFP_KERNEL);
	prove_check(!kfi_ep_base_init(ep, &domain->domain, KFI_CLASS_EP, &ep_ops, NULL),
		    "the endpoint opens");
	count_references(&ep->ep.fid);
}

void must_close(struct kfid *fid)
{
	prove_check(!kfi_close(fid), "an object that is not in use closes");
}

void close_all(void)
{
	unsigned int i;

	if (ep)
		must_close(&ep->ep.fid);
	for (i = 0; i < ARRAY_SIZE(cq); i++)
		if (cq[i])
			must_close(&cq[i]->fid);
	if (cntr)
		must_close(&cntr->fid);
	if (eq)
		must_close(&eq->fid);
	if (channel)
		must_close(&channel->fid);
	if (set)
		must_close(&set->kfid);
	if (domain)
		must_close(&domain->domain.fid);
	must_close(&fabric->fabric.fid);
}

void close_cq(int i)
{
	must_close(&cq[i]->fid);
	cq[i] = NULL;
}

static bool nobody_sleeps(void *arg)
{
	const struct kfi_waitq *q = arg;

	return list_empty(&q->head.head);
}

/* Threads that can run do so while finish() waits, each to its end. */
void end_sleepers(struct kfi_waitq *q)
{
	int i;

	for (i = 0; i < REST; i++)
		prove_signal(i);
	pv_block(q, nobody_sleeps, q, "the sleepers' end");
}

unsigned long entry_number(unsigned int publisher, unsigned int i)
{
	return publisher * SERIES + i;
}

void complete_op(int i, unsigned long number, int err)
{
	const struct kfi_completion comp = {
		.context = (void *)number,
		.flags = KFI_RECV,
		.err = err,
	};
	struct kfi_target target = { };

	kfi_cq_store(cq[i], &comp, &target);
	kfi_publish(&target, 1);
}

void publish(int i, unsigned int n)
{
	unsigned int k;

	for (k = 1; k <= n; k++)
		complete_op(i, entry_number(prove_self(), k), 0);
}

void publish_one(void)
{
	publish(0, 1);
}

void publish_two(void)
{
	publish(0, 2);
}

void publish_second(void)
{
	publish(1, 1);
}

void publish_error(void)
{
	complete_op(0, entry_number(prove_self(), 1), KFI_EIO);
}

void signal_first(void)
{
	prove_signal(0);
}

void count_op(enum kfi_why why)
{
	struct kfi_target target = { };

	kfi_cntr_count(cntr, why, &target);
	kfi_publish(&target, 1);
}

void lose_device(void)
{
	kfi_domain_lose(domain);
}

void unplug(void)
{
	unplugged = true;
	lose_device();
}

ssize_t note(struct record *r, const struct kfi_cq_entry *entry, ssize_t n)
{
	ssize_t i;

	for (i = 0; i < n && r->n < ENTRIES; i++)
		r->entry[r->n++] = (unsigned long)entry[i].op_context;
	r->ret = n;
	return n;
}

ssize_t read_cq(int i, size_t count)
{
	struct kfi_cq_entry entry[ENTRIES] = { };

	return note(mine(), entry, kfi_cq_read(cq[i], entry, count));
}

ssize_t sread_cq(int i, size_t count, size_t threshold, int timeout)
{
	struct kfi_cq_entry entry[ENTRIES] = { };
	ssize_t n = kfi_cq_sread(cq[i], entry, count, (void *)threshold, timeout);

	return note(mine(), entry, n);
}

void read_one(void)
{
	sread_cq(0, 1, 1, FOREVER);
	mine()->done = true;
}

void check_deadline(ktime_t began, ssize_t ret)
{
	if (ret == -KFI_ETIMEDOUT)
		prove_check(ktime_get() == ktime_add_ms(began, SOME_TIME),
			    "a call ends at its deadline, neither before nor after it");
}

void read_one_in_time(void)
{
	ktime_t began = ktime_get();

	check_deadline(began, sread_cq(0, 1, 1, SOME_TIME));
	mine()->done = true;
}

void wait_and_read(void)
{
	int ret;

	do {
		ret = kfi_wait(set, FOREVER);
		if (ret) {
			mine()->ret = ret;
			return;
		}
	} while (read_cq(0, 1) != 1);
	mine()->done = true;
}

bool cq_is_ready(void)
{
	return kfi_cq_source(cq[0])->ready;
}

bool set_is_ready(void)
{
	return kfi_wait_queue(set)->nready.counter > 0;
}

unsigned int asleep_in(struct kfi_waitq *q)
{
	unsigned long flags;
	unsigned int n;

	spin_lock_irqsave(&q->head.lock, flags);
	n = q->sleepers;
	spin_unlock_irqrestore(&q->head.lock, flags);
	return n;
}

unsigned int read_rest(int i)
{
	struct kfi_cq_entry entry[ENTRIES] = { };
	struct record *r = &records[REST];
	unsigned int before = r->n;
	ssize_t n;

	do {
		n = note(r, entry, kfi_cq_read(cq[i], entry, 1));
	} while (n == 1);
	return r->n - before;
}

unsigned int times_read(unsigned long number)
{
	unsigned int i, k, n = 0;

	for (i = 0; i < RECORDS; i++)
		for (k = 0; k < records[i].n; k++)
			n += records[i].entry[k] == number;
	return n;
}

/* In one record, entries of one publisher come in the order of their numbers. */
static bool in_order(const struct record *r)
{
	unsigned int i, k;

	for (i = 0; i < r->n; i++)
		for (k = i + 1; k < r->n; k++)
			if (r->entry[i] / SERIES == r->entry[k] / SERIES &&
			    r->entry[i] >= r->entry[k])
				return false;
	return true;
}

/* What is left is younger than what was read of the same publisher. */
static bool rest_is_youngest(void)
{
	const struct record *rest = &records[REST];
	unsigned int i, k, r;

	for (r = 0; r < REST; r++)
		for (i = 0; i < records[r].n; i++)
			for (k = 0; k < rest->n; k++)
				if (records[r].entry[i] / SERIES == rest->entry[k] / SERIES &&
				    records[r].entry[i] > rest->entry[k])
					return false;
	return true;
}

void check_entries(unsigned int publisher, unsigned int n)
{
	unsigned int i;

	for (i = 1; i <= n; i++)
		prove_check(times_read(entry_number(publisher, i)) == 1,
			    "each entry is read exactly once");
	for (i = 0; i < RECORDS; i++)
		prove_check(in_order(&records[i]), "entries come in order");
	prove_check(rest_is_youngest(), "the oldest entries are read first");
}

static void check_two_readers(void)
{
	prove_check(records[0].n == 1 && records[1].n == 1, "each thread reads one entry");
	prove_check(!read_rest(0), "nothing is left");
}

void finish_two_entries(void)
{
	check_two_readers();
	check_entries(2, 2);
	close_all();
}

void finish_two_publishers(void)
{
	check_two_readers();
	check_entries(2, 1);
	check_entries(3, 1);
	close_all();
}

struct kfi_counts counts_of(struct kfi_waitq *q)
{
	struct kfi_counts counts;

	kfi_waitq_counts(q, &counts);
	return counts;
}

struct kfi_waitq *cq_queue(void)
{
	return &kfi_cq_source(cq[0])->own;
}

struct kfi_waitq *cntr_queue(void)
{
	return &kfi_cntr_source(cntr)->own;
}

struct kfi_waitq *eq_queue(void)
{
	return &kfi_eq_source(eq)->own;
}
