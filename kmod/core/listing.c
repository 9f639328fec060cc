// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The list of all objects with an id, of all users, with their counts:
 * /sys/kernel/debug/kfabric/objects, for root. One line an object: its class, then
 * name=value, by the names of the profile variables. A fabric, a passive endpoint and a
 * completion channel have none: they count nothing. Objects are named by their ids,
 * never by an address. Times are measured while the file is open.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>

#include <kfi_channel.h>

#include "profile.h"

static DEFINE_MUTEX(kfi_listed_lock);	/* the list below */
static LIST_HEAD(kfi_listed_objects);
static struct dentry *kfi_listing_dir;

/**
 * kfi_listed_add() - list a new object
 * @listed: inside it
 * @fid: its base
 *
 * Context: process, may sleep; takes kfi_listed_lock.
 */
void kfi_listed_add(struct kfi_listed *listed, struct kfid *fid)
{
	listed->fid = fid;
	listed->pid = task_tgid_nr(current);
	get_task_comm(listed->comm, current);
	mutex_lock(&kfi_listed_lock);
	list_add_tail(&listed->link, &kfi_listed_objects);
	mutex_unlock(&kfi_listed_lock);
}

/**
 * kfi_listed_del() - the mirror of kfi_listed_add()
 * @listed: as added
 *
 * On return no reader looks at the object any more.
 *
 * Context: process, may sleep; takes kfi_listed_lock.
 */
void kfi_listed_del(struct kfi_listed *listed)
{
	mutex_lock(&kfi_listed_lock);
	list_del(&listed->link);
	mutex_unlock(&kfi_listed_lock);
}

static const char *kfi_class_name(size_t fclass)
{
	switch (fclass) {
	case KFI_CLASS_DOMAIN:
		return "domain";
	case KFI_CLASS_EQ:
		return "eq";
	case KFI_CLASS_CQ:
		return "cq";
	case KFI_CLASS_CNTR:
		return "cntr";
	case KFI_CLASS_WAIT:
		return "wait";
	case KFI_CLASS_POLL:
		return "poll";
	case KFI_CLASS_FABRIC:
		return "fabric";
	case KFI_CLASS_PEP:
		return "pep";
	case KFI_CLASS_COMP_CHANNEL:
		return "channel";
	default:
		return "ep";
	}
}

static u32 kfi_listed_parent(struct kfid *fid)
{
	struct kfi_source *src = kfi_fid_source(fid);

	if (kfi_is_ep(fid->fclass))
		return container_of(fid, struct kfi_ep_base, ep.fid)->domain->id;
	if (src)
		return src->domain ? src->domain->id : src->fabric->id;
	return 0;
}

/* The id of the wait set that an object is a member of, or 0. */
static u32 kfi_listed_set(struct kfid *fid)
{
	struct kfi_source *src = kfi_fid_source(fid);

	return src && src->set ? src->queue->id : 0;
}

static void kfi_show_var(struct seq_file *seq, const struct kfi_profile_desc *var,
			 const struct kfi_counts *counts)
{
	const u64 *value = (void *)counts + kfi_core_offset(var->id);
	size_t i, n = var->size / sizeof(*value);

	seq_printf(seq, " %s=", var->name);
	for (i = 0; i < n; i++)
		seq_printf(seq, "%s%llu", i ? "," : "", value[i]);
}

/* The class whose variables are printed: EQs and counters count like CQs. */
static size_t kfi_listed_class(size_t fclass)
{
	return fclass == KFI_CLASS_EQ || fclass == KFI_CLASS_CNTR ?
		       KFI_CLASS_CQ : fclass;
}

/* seq_file holds kfi_listed_lock from start to stop. */
static int kfi_listing_show(struct seq_file *seq, void *at)
{
	struct kfi_listed *listed = list_entry(at, struct kfi_listed, link);
	struct kfid *fid = listed->fid;
	size_t i, fclass = kfi_listed_class(fid->fclass);
	struct kfi_counts counts;
	bool counted;

	lockdep_assert_held(&kfi_listed_lock);
	counted = !kfi_fid_counts(fid, &counts);
	seq_printf(seq, "%s id=%u parent=%u set=%u pid=%d comm=",
		   kfi_class_name(fid->fclass), kfi_fid_id(fid),
		   kfi_listed_parent(fid), kfi_listed_set(fid), listed->pid);
	seq_escape(seq, listed->comm, "\t\n\\= ");
	for (i = 0; counted && i < kfi_core_vars(fclass); i++)
		kfi_show_var(seq, kfi_core_var(fclass, i), &counts);
	seq_putc(seq, '\n');
	return 0;
}

/* While the list is locked, no object on it can be freed. */
static void *kfi_listing_start(struct seq_file *seq, loff_t *pos)
{
	mutex_lock(&kfi_listed_lock);
	return seq_list_start(&kfi_listed_objects, *pos);
}

static void *kfi_listing_next(struct seq_file *seq, void *at, loff_t *pos)
{
	lockdep_assert_held(&kfi_listed_lock);
	return seq_list_next(at, &kfi_listed_objects, pos);
}

static void kfi_listing_stop(struct seq_file *seq, void *at)
{
	mutex_unlock(&kfi_listed_lock);
}

static const struct seq_operations kfi_listing_ops = {
	.start = kfi_listing_start,
	.next = kfi_listing_next,
	.stop = kfi_listing_stop,
	.show = kfi_listing_show,
};

static int kfi_listing_open(struct inode *inode, struct file *file)
{
	int ret = seq_open(file, &kfi_listing_ops);

	if (!ret)
		kfi_timing_on();
	return ret;
}

static int kfi_listing_release(struct inode *inode, struct file *file)
{
	kfi_timing_off();
	return seq_release(inode, file);
}

static const struct file_operations kfi_listing_fops = {
	.owner = THIS_MODULE,
	.open = kfi_listing_open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = kfi_listing_release,
};

/**
 * kfi_listing_init() - make the file; does nothing in a kernel without debugfs
 *
 * Context: process, may sleep.
 */
void kfi_listing_init(void)
{
	kfi_listing_dir = debugfs_create_dir("kfabric", NULL);
	debugfs_create_file("objects", 0400, kfi_listing_dir, NULL,
			    &kfi_listing_fops);
}

/**
 * kfi_listing_exit() - remove the file; returns when no reader is inside any more
 *
 * Context: process, may sleep.
 */
void kfi_listing_exit(void)
{
	debugfs_remove(kfi_listing_dir);
}
