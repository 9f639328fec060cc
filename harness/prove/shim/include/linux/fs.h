/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_FS_H
#define PROVE_SHIM_LINUX_FS_H

#include <linux/err.h>
#include <linux/kernel.h>
#include <linux/types.h>

struct dentry;
struct poll_table_struct;

struct inode {
	void *i_private;
};

struct file {
	void *private_data;
	unsigned int f_flags;
};

struct file_operations {
	struct module *owner;
	int (*open)(struct inode *inode, struct file *file);
	ssize_t (*read)(struct file *file, char *to, size_t size, loff_t *at);
	loff_t (*llseek)(struct file *file, loff_t at, int whence);
	__poll_t (*poll)(struct file *file, struct poll_table_struct *wait);
	int (*release)(struct inode *inode, struct file *file);
};

#endif /* PROVE_SHIM_LINUX_FS_H */
