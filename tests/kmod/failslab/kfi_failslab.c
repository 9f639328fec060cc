// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Makes slab allocations fail, of one thread or all that must not sleep, on
 * kernels that were built without CONFIG_FAILSLAB: kprobes answer for the
 * allocator. x86 only.
 *
 * /sys/kernel/debug/kfi_failslab: write "TID N": the Nth allocation from now
 * on that this thread makes in process context fails, once; "TID N-": so do all
 * behind it, also where somebody tries again; "TID atomic": all of its
 * allocations fail that must not sleep; "0 atomic": so do everybody's, in any
 * context; "0 atomic MODULE": so do those that code of that module makes itself,
 * not in other modules; "-1 N": the Nth that a kernel thread makes fails.
 * Reading ends it, and gives how many were seen and how many failed. What the
 * kernel would say of them is not said.
 */
#include <linux/debugfs.h>
#include <linux/gfp.h>
#include <linux/kallsyms.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>
#include <linux/string.h>
#include <linux/uaccess.h>

/* Whether functions that get a node get a bucket, too. */
#define FS_BUCKET	IS_ENABLED(CONFIG_SLAB_BUCKETS)

/* A function that may say no to an allocation. */
struct fs_point {
	struct kprobe probe;
	unsigned int gfp;	/* which of its arguments has the flags, from 0 */
	long no;		/* what it returns then */
};

#define FS_POINT(name, _gfp, _no) {					\
	.probe = { .symbol_name = (name), .pre_handler = fs_asked },	\
	.gfp = (_gfp),							\
	.no = (_no),							\
}

/* Whose allocations fail. */
#define FS_EVERYBODY	0
#define FS_KTHREADS	-1
#define FS_NOBODY	-2

#define FS_FRAMES	24	/* of a stack, until the first of a module */

static struct {
	pid_t tid;
	char module[32];	/* with brackets; or empty: of any */
	unsigned long nth;
	bool atomic;
	bool on;		/* all from the nth on */
	atomic_long_t seen;
	atomic_long_t failed;
} fs = { .tid = FS_NOBODY };

static struct dentry *fs_file;

static bool fs_is_meant(void)
{
	pid_t tid = READ_ONCE(fs.tid);

	if (tid == FS_EVERYBODY)
		return true;
	if (!in_task())
		return false;
	return tid == FS_KTHREADS ? current->flags & PF_KTHREAD :
				    current->pid == tid;
}

/* Is the caller of the allocator, the first function of a module, in that one? */
static bool fs_is_modules(void)
{
	unsigned long frames[FS_FRAMES];
	char name[KSYM_SYMBOL_LEN];
	unsigned int i, n;
	const char *found;

	if (!fs.module[0])
		return true;
	n = stack_trace_save(frames, FS_FRAMES, 0);
	for (i = 0; i < n; i++) {
		sprint_symbol(name, frames[i]);
		found = strchr(name, '[');
		if (found && !strstr(found, KBUILD_MODNAME))
			return !strncmp(found, fs.module, strlen(fs.module));
	}
	return false;
}

static bool fs_fails(gfp_t gfp)
{
	unsigned long seen;

	if (!fs_is_meant())
		return false;
	seen = atomic_long_inc_return(&fs.seen);
	if (fs.atomic ? gfpflags_allow_blocking(gfp) :
	    fs.on ? seen < fs.nth : seen != fs.nth)
		return false;
	if (!fs_is_modules())
		return false;
	atomic_long_inc(&fs.failed);
	return true;
}

/* Where a function goes on when its answer is there: to its caller. */
static noinline notrace void fs_return(void)
{
	barrier();
}

static int fs_asked(struct kprobe *probe, struct pt_regs *regs)
{
	const struct fs_point *point = container_of(probe, struct fs_point,
						    probe);

	if (!fs_fails((__force gfp_t)regs_get_kernel_argument(regs, point->gfp)))
		return 0;
	regs_set_return_value(regs, point->no);
	instruction_pointer_set(regs, (unsigned long)fs_return);
	return 1;
}

NOKPROBE_SYMBOL(fs_asked);

static int fs_warned(struct kprobe *probe, struct pt_regs *regs)
{
	if (!fs_is_meant())
		return 0;
	instruction_pointer_set(regs, (unsigned long)fs_return);
	return 1;
}

NOKPROBE_SYMBOL(fs_warned);

/* Where vmalloc() reports that it had no memory for its own records. */
static struct kprobe fs_warning = {
	.symbol_name = "warn_alloc",
	.pre_handler = fs_warned,
};

/* All allocations ask it; newer kernels have it only with CONFIG_FAILSLAB. */
static struct fs_point fs_question = FS_POINT("should_failslab", 1, -ENOMEM);

/* Where allocations begin on those without (6.12). */
static struct fs_point fs_points[] = {
	FS_POINT("kmem_cache_alloc_noprof", 1, 0),
	FS_POINT("kmem_cache_alloc_lru_noprof", 2, 0),
	FS_POINT("kmem_cache_alloc_node_noprof", 1, 0),
	FS_POINT("__kmalloc_noprof", 1, 0),
	FS_POINT("__kmalloc_cache_noprof", 1, 0),
	FS_POINT("__kmalloc_cache_node_noprof", 1, 0),
	FS_POINT("__kmalloc_node_noprof", 1 + FS_BUCKET, 0),
	FS_POINT("__kmalloc_node_track_caller_noprof", 1 + FS_BUCKET, 0),
};

static int fs_register_points(void)
{
	unsigned int i;
	int err = register_kprobe(&fs_question.probe);

	if (err != -ENOENT)
		return err;
	fs_question.probe.symbol_name = NULL;
	for (i = 0; i < ARRAY_SIZE(fs_points); i++) {
		err = register_kprobe(&fs_points[i].probe);
		if (err)
			break;
	}
	while (err && i--)
		unregister_kprobe(&fs_points[i].probe);
	return err;
}

static void fs_unregister_points(void)
{
	unsigned int i;

	if (fs_question.probe.symbol_name) {
		unregister_kprobe(&fs_question.probe);
		return;
	}
	for (i = 0; i < ARRAY_SIZE(fs_points); i++)
		unregister_kprobe(&fs_points[i].probe);
}

static int fs_register(void)
{
	int err = register_kprobe(&fs_warning);

	if (err)
		return err;
	err = fs_register_points();
	if (err)
		unregister_kprobe(&fs_warning);
	return err;
}

static void fs_unregister(void)
{
	fs_unregister_points();
	unregister_kprobe(&fs_warning);
}

static ssize_t fs_write(struct file *file, const char __user *buf, size_t len,
			loff_t *pos)
{
	unsigned long nth = 0;
	char text[32] = { };
	char *word, *last, *name;
	bool on = false;
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
	last = strchr(word, '-');
	if (last) {
		*last = '\0';
		on = true;
	}
	if (kstrtoint(strim(text), 10, &tid))
		return -EINVAL;
	name = strchr(word, ' ');
	if (name)
		*name++ = '\0';
	if (strcmp(word, "atomic") && (name || kstrtoul(word, 10, &nth)))
		return -EINVAL;
	if (tid <= FS_NOBODY || (tid == FS_EVERYBODY && nth))
		return -EINVAL;

	WRITE_ONCE(fs.tid, FS_NOBODY);
	fs.nth = nth;
	fs.on = on;
	fs.atomic = !strcmp(word, "atomic");
	fs.module[0] = '\0';
	if (name)
		snprintf(fs.module, sizeof(fs.module), "[%s]", name);
	atomic_long_set(&fs.seen, 0);
	atomic_long_set(&fs.failed, 0);
	WRITE_ONCE(fs.tid, tid);
	return len;
}

static ssize_t fs_read(struct file *file, char __user *buf, size_t len,
		       loff_t *pos)
{
	char text[48];
	int n;

	WRITE_ONCE(fs.tid, FS_NOBODY);
	n = scnprintf(text, sizeof(text), "%ld %ld\n",
		      atomic_long_read(&fs.seen), atomic_long_read(&fs.failed));
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
	int err = fs_register();

	if (err)
		return err;
	fs_file = debugfs_create_file("kfi_failslab", 0600, NULL, NULL,
				      &fs_fops);
	return 0;
}

static void __exit fs_exit(void)
{
	debugfs_remove(fs_file);
	fs_unregister();
}

module_init(fs_init);
module_exit(fs_exit);

MODULE_DESCRIPTION("Fails slab allocations, for tests");
MODULE_AUTHOR("kfabric developers");
MODULE_LICENSE("Dual BSD/GPL");
