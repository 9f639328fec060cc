// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Between two RDM endpoints of the device with that address:
 *
 * rdmread ADDR SIZE READS DEPTH: remote reads of SIZE bytes by key, DEPTH of them
 * at a time; rawread.c does the same without kfabric.
 *
 * tags ADDR POSTED OTHERS MESSAGES: messages of 8 bytes, one at a time, each for
 * another one of POSTED receives, which is posted again. No tag has bits to ignore.
 * OTHERS is the number of idle endpoints on the same node.
 */
#include <linux/in.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include <kfi_cm.h>
#include <kfi_rma.h>
#include <kfi_tagged.h>

#include "kbench.h"

#define KB_KEY		497
#define KB_RX_SIZE	16384	/* receives, however many are posted */
#define KB_OTHERS_MAX	1024
#define KB_OTHER_SIZE	16	/* receives of an idle endpoint */
#define KB_STRIDE	7919	/* prime: consecutive tags are far apart */
#define KB_WARM		16	/* messages that are not measured */

/* One endpoint; the fabric and the domain are those of the other one, too. */
struct kb_peer {
	struct kfid_av *av;
	struct kfid_cq *cq;
	struct kfid_ep *ep;
	u8 *buf;
	kfi_addr_t other;
};

/* Idle endpoints; they share the queue and the addresses of the near peer. */
struct kb_others {
	struct kfi_info *info;
	struct kfid_ep **eps;
	unsigned int count;
};

struct kb_pair {
	struct kb *kb;
	struct kb_peer near;
	struct kb_peer far;
	struct kb_others others;
};

void kb_reads_fill(u8 *buf, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		buf[i] = i % 251;
}

void kb_reads_tell(struct kb *kb, const struct kb_reads *reads,
		   const struct kb_clock *clock, const u8 *from, const u8 *to)
{
	seq_buf_printf(kb->out, "cycles=%llu ns=%llu wrong=%d\n", clock->cycles,
		       clock->ns, !!memcmp(from, to, reads->size));
}

int kb_reads_parse(struct kb_reads *reads, const char *args)
{
	return sscanf(args, "%15s %zu %u %u", reads->addr, &reads->size,
		      &reads->count, &reads->depth) != 4 ||
	       !reads->size || reads->size > KB_READ_MAX || !reads->count ||
	       !reads->depth || reads->depth > KB_DEPTH_MAX ? -EINVAL : 0;
}

static int kb_rdm_getinfo(struct kb *kb, const char *addr)
{
	struct kfi_info *hints = kfi_allocinfo();
	int err = -ENOMEM;

	if (!hints)
		return err;
	hints->addr_format = KFI_SOCKADDR_IN;
	hints->ep_attr->type = KFI_EP_RDM;
	hints->rx_attr->size = KB_RX_SIZE;
	hints->fabric_attr->prov_name = kstrdup("verbs", GFP_KERNEL);
	if (hints->fabric_attr->prov_name)
		err = kfi_getinfo(kfi_version(), addr, NULL, KFI_SOURCE, hints,
				  &kb->info);
	kfi_freeinfo(hints);
	return err;
}

static int kb_peer_open(struct kb *kb, struct kb_peer *peer, size_t size)
{
	struct kfi_av_attr av_attr = { .type = KFI_AV_MAP };
	struct kfi_cq_attr cq_attr = {
		.size = 1024,
		.format = KFI_CQ_FORMAT_TAGGED,
		.wait_obj = KFI_WAIT_UNSPEC,
	};
	int err;

	peer->buf = vzalloc(size);
	if (!peer->buf)
		return -ENOMEM;
	err = kfi_av_open(kb->domain, &av_attr, &peer->av, NULL);
	if (!err)
		err = kfi_cq_open(kb->domain, &cq_attr, &peer->cq, NULL, NULL);
	if (!err)
		err = kfi_endpoint(kb->domain, kb->info, &peer->ep, NULL);
	if (!err)
		err = kfi_ep_bind(peer->ep, &peer->av->fid, 0);
	if (!err)
		err = kfi_ep_bind(peer->ep, &peer->cq->fid,
				  KFI_TRANSMIT | KFI_RECV);
	return err ?: kfi_enable(peer->ep);
}

static void kb_peer_close(struct kb_peer *peer)
{
	if (peer->ep)
		WARN_ON(kfi_close(&peer->ep->fid));
	if (peer->cq)
		WARN_ON(kfi_close(&peer->cq->fid));
	if (peer->av)
		WARN_ON(kfi_close(&peer->av->fid));
	vfree(peer->buf);
}

static int kb_other_open(struct kb_pair *pair)
{
	struct kb_others *others = &pair->others;
	struct kfid_ep *ep;
	int err;

	err = kfi_endpoint(pair->kb->domain, others->info, &ep, NULL);
	if (err)
		return err;
	others->eps[others->count++] = ep;
	err = kfi_ep_bind(ep, &pair->near.av->fid, 0);
	if (!err)
		err = kfi_ep_bind(ep, &pair->near.cq->fid,
				  KFI_TRANSMIT | KFI_RECV);
	return err ?: kfi_enable(ep);
}

/* kb_others_close() also if it fails. */
static int kb_others_open(struct kb_pair *pair, unsigned int count)
{
	struct kb_others *others = &pair->others;
	int err = 0;

	if (!count)
		return 0;
	others->info = kfi_dupinfo(pair->kb->info);
	others->eps = kvcalloc(count, sizeof(*others->eps), GFP_KERNEL);
	if (!others->info || !others->eps)
		return -ENOMEM;
	others->info->rx_attr->size = KB_OTHER_SIZE;
	while (!err && others->count < count)
		err = kb_other_open(pair);
	return err;
}

static void kb_others_close(struct kb_others *others)
{
	while (others->count)
		WARN_ON(kfi_close(&others->eps[--others->count]->fid));
	kvfree(others->eps);
	kfi_freeinfo(others->info);
}

/*
 * kb_pair_close() also if it fails; kb_close() closes the rest. The far peer is
 * the last one of its node, so a search from the first one passes the others.
 */
static int kb_pair_open(struct kb_pair *pair, const char *addr, size_t size,
			unsigned int others)
{
	struct kb *kb = pair->kb;
	struct sockaddr_in name;
	size_t len = sizeof(name);
	int err;

	err = kb_rdm_getinfo(kb, addr);
	if (!err)
		err = kb_open_domain(kb);
	if (!err)
		err = kb_peer_open(kb, &pair->near, size);
	if (!err)
		err = kb_others_open(pair, others);
	if (!err)
		err = kb_peer_open(kb, &pair->far, size);
	if (!err)
		err = kfi_getname(&pair->far.ep->fid, &name, &len);
	if (err)
		return err;
	return kfi_av_insert(pair->near.av, &name, 1, &pair->near.other, 0,
			     NULL) == 1 ? 0 : -EADDRNOTAVAIL;
}

static void kb_pair_close(struct kb_pair *pair)
{
	kb_others_close(&pair->others);
	kb_peer_close(&pair->near);
	kb_peer_close(&pair->far);
}

static int kb_entry(struct kfid_cq *cq, struct kfi_cq_tagged_entry *entry)
{
	ssize_t n = kfi_cq_sread(cq, entry, 1, NULL, KB_DEADLINE_MS);

	return n == 1 ? 0 : n < 0 ? n : -EIO;
}

/* Never more than @depth are under way. */
static int kb_reads(struct kb_pair *pair, const struct kb_reads *reads,
		    unsigned int count, unsigned int depth)
{
	struct kfi_cq_tagged_entry entry;
	unsigned int posted = 0, done = 0;
	int err = 0;

	while (!err && done < count) {
		if (posted < count && posted - done < depth) {
			err = kfi_read(pair->near.ep, pair->near.buf,
				       reads->size, NULL, pair->near.other, 0,
				       KB_KEY, NULL);
			posted++;
		} else {
			err = kb_entry(pair->near.cq, &entry);
			done++;
		}
	}
	return err;
}

static int kb_rdmread_run(struct kb_pair *pair, const struct kb_reads *reads)
{
	struct kb_clock clock;
	struct kfid_mr *mr;
	int err;

	kb_reads_fill(pair->far.buf, reads->size);
	err = kfi_mr_reg(pair->kb->domain, pair->far.buf, reads->size,
			 KFI_REMOTE_READ, 0, KB_KEY, 0, &mr, NULL);
	if (err)
		return err;
	/* The first one connects. */
	err = kb_reads(pair, reads, 1, 1);
	kb_clock_start(&clock);
	if (!err)
		err = kb_reads(pair, reads, reads->count, reads->depth);
	kb_clock_stop(&clock);
	if (!err)
		kb_reads_tell(pair->kb, reads, &clock, pair->far.buf,
			      pair->near.buf);
	WARN_ON(kfi_close(&mr->fid));
	return err;
}

int kb_rdmread(struct kb *kb, const char *args)
{
	struct kb_pair pair = { .kb = kb };
	struct kb_reads reads;
	int err;

	if (kb_reads_parse(&reads, args))
		return -EINVAL;
	err = kb_pair_open(&pair, reads.addr, reads.size, 0);
	if (!err)
		err = kb_rdmread_run(&pair, &reads);
	kb_pair_close(&pair);
	return err;
}

static int kb_tag_post(struct kb_pair *pair, u64 tag)
{
	return kfi_trecv(pair->far.ep, pair->far.buf, 8, NULL, KFI_ADDR_UNSPEC,
			 tag, 0, NULL);
}

/* Return: 0; 1: another receive took it; or an error. */
static int kb_tag_once(struct kb_pair *pair, u64 tag)
{
	struct kfi_cq_tagged_entry entry;
	int err;

	err = kfi_tinject(pair->near.ep, pair->near.buf, 8, pair->near.other,
			  tag);
	if (!err)
		err = kb_entry(pair->far.cq, &entry);
	if (!err)
		err = kb_tag_post(pair, tag);
	return err ? err : entry.tag != tag;
}

static int kb_tags_some(struct kb_pair *pair, unsigned int posted,
			unsigned int messages, unsigned int *wrong)
{
	unsigned int i;
	int ret;

	for (i = 0; i < messages; i++) {
		ret = kb_tag_once(pair, (u64)i * KB_STRIDE % posted);
		if (ret < 0)
			return ret;
		*wrong += ret;
	}
	return 0;
}

static int kb_tags_run(struct kb_pair *pair, unsigned int posted,
		       unsigned int messages)
{
	unsigned int i, wrong = 0;
	struct kb_clock clock;
	int err = 0;

	for (i = 0; !err && i < posted; i++)
		err = kb_tag_post(pair, i);
	if (!err)
		err = kb_tags_some(pair, posted, KB_WARM, &wrong);
	kb_clock_start(&clock);
	if (!err)
		err = kb_tags_some(pair, posted, messages, &wrong);
	kb_clock_stop(&clock);
	if (!err)
		seq_buf_printf(pair->kb->out, "cycles=%llu ns=%llu wrong=%u\n",
			       clock.cycles, clock.ns, wrong);
	return err;
}

int kb_tags(struct kb *kb, const char *args)
{
	unsigned int posted, others, messages;
	struct kb_pair pair = { .kb = kb };
	char addr[KB_ADDR_MAX];
	int err;

	if (sscanf(args, "%15s %u %u %u", addr, &posted, &others, &messages) != 4 ||
	    !posted || posted > KB_RX_SIZE || others > KB_OTHERS_MAX || !messages)
		return -EINVAL;
	err = kb_pair_open(&pair, addr, PAGE_SIZE, others);
	if (!err)
		err = kb_tags_run(&pair, posted, messages);
	kb_pair_close(&pair);
	return err;
}
