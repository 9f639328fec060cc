/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_DEBUGFS_H
#define PROVE_SHIM_LINUX_DEBUGFS_H

#include <linux/fs.h>

/* A kernel without debugfs. */
static inline struct dentry *debugfs_create_dir(const char *name,
						struct dentry *parent)
{
	return NULL;
}

static inline struct dentry *
debugfs_create_file(const char *name, umode_t mode, struct dentry *parent,
		    void *data, const struct file_operations *operations)
{
	return NULL;
}

static inline void debugfs_remove(struct dentry *dentry)
{
}

#endif /* PROVE_SHIM_LINUX_DEBUGFS_H */
