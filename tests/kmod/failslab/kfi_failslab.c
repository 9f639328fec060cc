// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Makes slab allocations of one thread fail, on kernels that were built without
 * CONFIG_FAILSLAB: their allocator asks should_failslab(), too, and a kprobe
 * answers for it. x86 only.
 *
 * /sys/kernel/debug/kfi_failslab: write "TID N": the Nth allocation from now
 * on that this thread makes in process context fails, once; "TID atomic": all
 * of its allocations fail that must not sleep. Reading ends it, and gives how
 * many were seen and how many failed.
 */
#include <linux/debugfs.h>
#include <linux/gfp.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/uaccess.h>

static struct {
	pid_t tid;
	unsigned long nth;
	bool atomic;
	unsigned long seen;
	unsigned long failed;
} fs;

static struct dentry *fs_file;

/* Only the thread itself comes here with its id, so no two do at once. */
static bool fs_fails(gfp_t gfp)
{
	if (!in_task() || current->pid != READ_ONCE(fs.tid))
		return false;
	fs.seen++;
	if (fs.atomic ? !gfpflags_allow_blocking(gfp) : fs.seen == fs.nth) {
		fs.failed++;
		return true;
	}
	return false;
}

/* Where should_failslab() goes on when its answer is there: to its caller. */
static noinline notrace void fs_return(void)
{
	barrier();
}

/* int should_failslab(struct kmem_cache *s, gfp_t gfpflags) */
static int fs_asked(struct kprobe *probe, struct pt_regs *regs)
{
	const gfp_t gfp = (__force gfp_t)regs_get_kernel_argument(regs, 1);

	if (!fs_fails(gfp))
		return 0;
	regs_set_return_value(regs, -ENOMEM);
	instruction_pointer_set(regs, (unsigned long)fs_return);
	return 1;
}

NOKPROBE_SYMBOL(fs_asked);

static struct kprobe fs_probe = {
	.symbol_name = "should_failslab",
	.pre_handler = fs_asked,
};

static ssize_t fs_write(struct file *file, const char __user *buf, size_t len,
			loff_t *pos)
{
	unsigned long nth = 0;
	char text[32] = { };
	char *word;
	pid_t tid;

	if (len >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, len))
		return -EFAULT;
	word = strim(text);
	word = strchr(word, ' ');
	if (!word)
		return -EINVAL;
	*word++ = '\0';
	if (kstrtoint(strim(text), 10, &tid))
		return -EINVAL;
	if (strcmp(word, "atomic") && kstrtoul(word, 10, &nth))
		return -EINVAL;

	WRITE_ONCE(fs.tid, 0);
	fs.nth = nth;
	fs.atomic = !strcmp(word, "atomic");
	fs.seen = 0;
	fs.failed = 0;
	WRITE_ONCE(fs.tid, tid);
	return len;
}

static ssize_t fs_read(struct file *file, char __user *buf, size_t len,
		       loff_t *pos)
{
	char text[48];
	int n;

	WRITE_ONCE(fs.tid, 0);
	n = scnprintf(text, sizeof(text), "%lu %lu\n", fs.seen, fs.failed);
	return simple_read_from_buffer(buf, len, pos, text, n);
}

static const struct file_operations fs_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = fs_read,
	.write = fs_write,
	.llseek = noop_llseek,
};

static int __init fs_init(void)
{
	int err = register_kprobe(&fs_probe);

	if (err)
		return err;
	fs_file = debugfs_create_file("kfi_failslab", 0600, NULL, NULL,
				      &fs_fops);
	return 0;
}

static void __exit fs_exit(void)
{
	debugfs_remove(fs_file);
	unregister_kprobe(&fs_probe);
}

module_init(fs_init);
module_exit(fs_exit);

MODULE_DESCRIPTION("Fails slab allocations of one thread, for tests");
MODULE_AUTHOR("kfabric developers");
MODULE_LICENSE("Dual BSD/GPL");
