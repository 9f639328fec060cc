// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* The file: a line in, figures out. */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "kbench.h"

static const struct kb_command {
	const char *name;
	int (*run)(struct kb *kb, const char *args);
	bool device;	/* no objects of the mock provider */
} kb_commands[] = {
	{ "pingpong ", kb_pingpong },
	{ "poll ", kb_poll },
	{ "herd ", kb_herd },
	{ "flood ", kb_flood },
	{ "memory ", kb_memory },
	{ "rdmread ", kb_rdmread, true },
	{ "rawread ", kb_rawread, true },
	{ "tags ", kb_tags, true },
	{ "trip ", kb_trip, true },
};

static struct dentry *kb_file;
static DEFINE_MUTEX(kb_lock);	/* one measurement at a time */

static int kb_run(const char *line, struct seq_buf *out)
{
	struct kb kb = { .out = out };
	size_t i, len;
	int err;

	for (i = 0; i < ARRAY_SIZE(kb_commands); i++) {
		len = str_has_prefix(line, kb_commands[i].name);
		if (!len)
			continue;
		err = kb_commands[i].device ? 0 : kb_open(&kb);
		if (!err)
			err = kb_commands[i].run(&kb, line + len);
		kb_close(&kb);
		return err;
	}
	return -EINVAL;
}

static ssize_t kb_write(struct file *file, const char __user *from, size_t size,
			loff_t *pos)
{
	char *reply, *line = simple_transaction_get(file, from, size);
	struct seq_buf out;
	int err;

	if (IS_ERR(line))
		return PTR_ERR(line);
	reply = kzalloc(SIMPLE_TRANSACTION_LIMIT, GFP_KERNEL);
	if (!reply)
		return -ENOMEM;
	seq_buf_init(&out, reply, SIMPLE_TRANSACTION_LIMIT);
	err = mutex_lock_interruptible(&kb_lock);
	if (!err) {
		err = kb_run(line, &out);
		mutex_unlock(&kb_lock);
	}
	if (!err) {
		memcpy(line, reply, seq_buf_used(&out));
		simple_transaction_set(file, seq_buf_used(&out));
	}
	kfree(reply);
	return err ?: size;
}

static const struct file_operations kb_fops = {
	.owner = THIS_MODULE,
	.write = kb_write,
	.read = simple_transaction_read,
	.release = simple_transaction_release,
	.llseek = generic_file_llseek,
};

static int __init kb_init(void)
{
	kb_file = debugfs_create_file("kfi_bench", 0600, NULL, NULL, &kb_fops);
	return PTR_ERR_OR_ZERO(kb_file);
}

static void __exit kb_exit(void)
{
	debugfs_remove(kb_file);
}

module_init(kb_init);
module_exit(kb_exit);

MODULE_DESCRIPTION("Measurements of kfabric from inside the kernel");
MODULE_AUTHOR("The kfabric authors");
MODULE_LICENSE("Dual BSD/GPL");
MODULE_SOFTDEP("pre: kfi_mock kfi_verbs");
