// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Makes slab allocations fail, of one thread or all that must not sleep, on
 * kernels that were built without CONFIG_FAILSLAB: ftrace answers for the
 * allocator. x86 only.
 *
 * A kprobe would not do. It is skipped if an interrupt comes while another
 * kprobe is handled on the same CPU, and then an allocation succeeds that must
 * fail. ftrace has no such limit.
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
#include <linux/ftrace.h>
#include <linux/gfp.h>
#include <linux/kallsyms.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/stacktrace.h>
#include <linux/string.h>
#include <linux/uaccess.h>

/* Whether functions that get a node get a bucket, too. */
#define FS_BUCKET	IS_ENABLED(CONFIG_SLAB_BUCKETS)

/* A function that may say no to an allocation. */
struct fs_point {
	struct ftrace_ops ops;
	char *name;
	unsigned int gfp;	/* which of its arguments has the flags, from 0 */
	long no;		/* what it returns then */
};

/* Both functions change where the traced function goes on. */
#define FS_OPS(_func) {							\
	.func = (_func),						\
	.flags = FTRACE_OPS_FL_SAVE_REGS | FTRACE_OPS_FL_IPMODIFY,	\
}

#define FS_POINT(_name, _gfp, _no) {					\
	.ops = FS_OPS(fs_asked),					\
	.name = (_name),						\
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

static void notrace fs_asked(unsigned long ip, unsigned long parent_ip,
			     struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	const struct fs_point *point = container_of(ops, struct fs_point, ops);
	struct pt_regs *regs = ftrace_get_regs(fregs);

	if (!fs_fails((__force gfp_t)regs_get_kernel_argument(regs, point->gfp)))
		return;
	regs_set_return_value(regs, point->no);
	instruction_pointer_set(regs, (unsigned long)fs_return);
}

static void notrace fs_warned(unsigned long ip, unsigned long parent_ip,
			      struct ftrace_ops *ops, struct ftrace_regs *fregs)
{
	if (fs_is_meant())
		instruction_pointer_set(ftrace_get_regs(fregs),
					(unsigned long)fs_return);
}

/* Where vmalloc() reports that it had no memory for its own records. */
static struct ftrace_ops fs_warning = FS_OPS(fs_warned);

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

static int fs_register_ops(struct ftrace_ops *ops, char *name)
{
	int err = ftrace_set_filter(ops, name, strlen(name), 1);

	if (!err)
		err = register_ftrace_function(ops);
	if (err)
		ftrace_free_filter(ops);
	return err;
}

static void fs_unregister_ops(struct ftrace_ops *ops)
{
	if (!(ops->flags & FTRACE_OPS_FL_ENABLED))
		return;
	unregister_ftrace_function(ops);
	ftrace_free_filter(ops);
}

static void fs_unregister(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(fs_points); i++)
		fs_unregister_ops(&fs_points[i].ops);
	fs_unregister_ops(&fs_question.ops);
	fs_unregister_ops(&fs_warning);
}

/* ftrace_set_filter() refuses a function that the kernel does not have. */
static int fs_register_points(void)
{
	unsigned int i;
	int err = fs_register_ops(&fs_question.ops, fs_question.name);

	if (err != -EINVAL)
		return err;
	err = 0;
	for (i = 0; !err && i < ARRAY_SIZE(fs_points); i++)
		err = fs_register_ops(&fs_points[i].ops, fs_points[i].name);
	return err;
}

static int fs_register(void)
{
	int err = fs_register_ops(&fs_warning, "warn_alloc");

	if (!err)
		err = fs_register_points();
	if (err)
		fs_unregister();
	return err;
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
