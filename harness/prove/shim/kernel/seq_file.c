// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Files of one record a line: one read() goes over all records, and copies no text.
 */
#include <linux/seq_file.h>
#include <linux/slab.h>

int seq_open(struct file *file, const struct seq_operations *operations)
{
	struct seq_file *seq = kzalloc(sizeof(*seq), GFP_KERNEL);

	if (!seq)
		return -ENOMEM;
	seq->op = operations;
	file->private_data = seq;
	return 0;
}

int seq_release(struct inode *inode, struct file *file)
{
	kfree(file->private_data);
	return 0;
}

ssize_t seq_read(struct file *file, char *to, size_t size, loff_t *at)
{
	struct seq_file *seq = file->private_data;
	void *entry = seq->op->start(seq, at);

	while (entry && !seq->op->show(seq, entry))
		entry = seq->op->next(seq, entry, at);
	seq->op->stop(seq, entry);
	return 0;
}

loff_t seq_lseek(struct file *file, loff_t at, int whence)
{
	return at;
}

struct list_head *seq_list_start(struct list_head *head, loff_t at)
{
	struct list_head *entry;

	list_for_each(entry, head)
		if (!at--)
			return entry;
	return NULL;
}

struct list_head *seq_list_next(void *entry, struct list_head *head, loff_t *at)
{
	struct list_head *next = ((struct list_head *)entry)->next;

	++*at;
	return next == head ? NULL : next;
}
