// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The state file: /sys/kernel/debug/kfi_mock/state. It has one line for each
 * object: the kind, then name=value pairs. Objects of a kind are in the order
 * of opening. The id 0 means no object.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include "mock.h"
#include <kfi_test.h>

static struct dentry *kfm_dir;

#ifdef KFABRIC_TEST
static void kfm_show_test(struct seq_file *seq)
{
	enum kfi_hook hook;

	seq_puts(seq, "build test=1\n");
	seq_printf(seq, "poll looks=%llu\n", kfi_test_looks());
	for (hook = KFI_HOOK_D1; hook < KFI_HOOK_MAX; hook++)
		seq_printf(seq, "hook name=D%d stopped=%d\n", hook,
			   kfi_test_hook_stopped(hook));
}
#else
static void kfm_show_test(struct seq_file *seq)
{
	seq_puts(seq, "build test=0\n");
}
#endif

static u32 kfm_id(const struct kfid *fid)
{
	return fid ? kfi_fid_id(fid) : 0;
}

static void kfm_show_ep(struct seq_file *seq, struct kfm_ep *ep)
{
	const struct kfi_ep_base *base = &ep->base;
	unsigned long irq;
	int kind;

	lockdep_assert_held(&kfm_lock);
	seq_printf(seq, "ep id=%u domain=%u enabled=%d tx_cq=%u rx_cq=%u eq=%u",
		   base->id, base->domain->id, base->enabled,
		   base->tx_cq ? kfm_id(&base->tx_cq->fid) : 0,
		   base->rx_cq ? kfm_id(&base->rx_cq->fid) : 0,
		   base->eq ? kfm_id(&base->eq->fid) : 0);
	spin_lock_irqsave(&ep->lock, irq);
	for (kind = 0; kind < KFM_POSTED; kind++)
		seq_printf(seq, " %s=%zu", kfm_kind_name[kind],
			   ep->pending[kind]);
	seq_printf(seq, " unexp=%zu", ep->nunexp);
	spin_unlock_irqrestore(&ep->lock, irq);
	seq_putc(seq, '\n');
}

static int kfm_state_show(struct seq_file *seq, void *unused)
{
	struct kfm_domain *domain;
	struct kfm_ep *ep;
	struct kfm_eq *eq;
	struct kfm_mr *mr;

	kfm_show_test(seq);
	mutex_lock(&kfm_lock);
	list_for_each_entry(domain, &kfm_domains, link)
		seq_printf(seq, "domain id=%u fabric=%u lost=%d pending=%d\n",
			   domain->base.id, domain->base.fabric->id,
			   READ_ONCE(domain->base.lost),
			   !llist_empty(&domain->deferred));
	list_for_each_entry(eq, &kfm_eqs, link)
		seq_printf(seq, "eq id=%u\n", kfm_id(&eq->eq->fid));
	list_for_each_entry(ep, &kfm_eps, link)
		kfm_show_ep(seq, ep);
	list_for_each_entry(mr, &kfm_mrs, link)
		seq_printf(seq, "mr domain=%u key=%llu len=%zu\n",
			   mr->domain->id, mr->mr.key, mr->len);
	mutex_unlock(&kfm_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(kfm_state);

/**
 * kfm_debugfs_init() - create the command file and the state file
 *
 * A kernel without debugfs has no files. Test modules use kfi_mock_ops there.
 *
 * Context: Process context. May sleep.
 */
void kfm_debugfs_init(void)
{
	kfm_dir = debugfs_create_dir("kfi_mock", NULL);
	debugfs_create_file("command", 0200, kfm_dir, NULL, &kfm_command_fops);
	debugfs_create_file("state", 0400, kfm_dir, NULL, &kfm_state_fops);
}

/**
 * kfm_debugfs_exit() - remove the files
 *
 * Waits for running commands and readers.
 *
 * Context: Process context. May sleep.
 */
void kfm_debugfs_exit(void)
{
	debugfs_remove(kfm_dir);
}
