/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_SEQ_FILE_H
#define PROVE_SHIM_LINUX_SEQ_FILE_H

#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mutex.h>

/* Iterates as in the kernel, and drops the text. */
struct seq_file {
	const struct seq_operations *op;
	void *private;
};

struct seq_operations {
	void *(*start)(struct seq_file *seq, loff_t *at);
	void *(*next)(struct seq_file *seq, void *entry, loff_t *at);
	void (*stop)(struct seq_file *seq, void *entry);
	int (*show)(struct seq_file *seq, void *entry);
};

int seq_open(struct file *file, const struct seq_operations *operations);
int seq_release(struct inode *inode, struct file *file);
ssize_t seq_read(struct file *file, char *to, size_t size, loff_t *at);
loff_t seq_lseek(struct file *file, loff_t at, int whence);
struct list_head *seq_list_start(struct list_head *head, loff_t at);
struct list_head *seq_list_next(void *entry, struct list_head *head, loff_t *at);

static inline __printf(2, 3) void seq_printf(struct seq_file *seq,
					     const char *format, ...)
{
}

static inline void seq_putc(struct seq_file *seq, char c)
{
}

static inline void seq_puts(struct seq_file *seq, const char *text)
{
}

static inline void seq_escape(struct seq_file *seq, const char *text,
			      const char *escaped)
{
}

#endif /* PROVE_SHIM_LINUX_SEQ_FILE_H */
