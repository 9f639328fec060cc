// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The command file: /sys/kernel/debug/kfi_mock/command. A write is one command
 * and returns its result. Commands name objects by their tracing ids.
 *
 *   complete EP KIND [N] [len=] [data=] [err= [prov=] [olen=]] [solicited=] [context=]
 *   inject EP KIND [N] [the same] [entry=]
 *   arrive EP [N] [len=] [data=] [context=]
 *   event ID NUMBER [data=] [context=]
 *   eqerr ID err= [prov=] [data=] [context=]
 *   lose DOMAIN
 * and in the build with KFABRIC_TEST=1
 *   hook arm D1..D14 ID
 *   hook go D1..D14
 *   fault none|lost|late|herd|spurious|stall ID [ARG]
 *
 * KIND: send, recv, read, write, remote_read, remote_write.
 * context: process, softirq, workqueue. docs/mock.md has the details.
 *
 * A command is checked as a whole before it has any effect.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "mock.h"
#include <kfi_test.h>

#define KFM_LINE	256
#define KFM_WORDS	5
#define KFM_COUNT_MAX	BIT(20)
/* A longer softirq would cause stall warnings. */
#define KFM_SOFTIRQ_MAX	1024

enum kfm_key {
	KFM_LEN,
	KFM_OLEN,
	KFM_DATA,
	KFM_ERR,
	KFM_PROV,
	KFM_ENTRY,
	KFM_IS_SOLICITED,
	KFM_CONTEXT,
	KFM_KEYS
};

static const struct {
	const char *name;
	u64 min;
	u64 max;
} kfm_keys[KFM_KEYS] = {
	[KFM_LEN] = { "len", 0, SIZE_MAX },
	[KFM_OLEN] = { "olen", 0, SIZE_MAX },
	[KFM_DATA] = { "data", 0, U64_MAX },
	[KFM_ERR] = { "err", 1, MAX_ERRNO },
	[KFM_PROV] = { "prov", 0, INT_MAX },
	[KFM_ENTRY] = { "entry", 0, 1 },
	[KFM_IS_SOLICITED] = { "solicited", 0, 1 },
	[KFM_CONTEXT] = { "context" },
};

static const char * const kfm_contexts[] = {
	[KFM_PROCESS] = "process",
	[KFM_SOFTIRQ] = "softirq",
	[KFM_WORKQUEUE] = "workqueue",
};

/**
 * struct kfm_args - a parsed command line
 * @word: the words without "=", the command first
 * @words: number of words
 * @value: values of the keys
 * @seen: bit mask of the keys that were given
 */
struct kfm_args {
	char *word[KFM_WORDS];
	int words;
	u64 value[KFM_KEYS];
	u32 seen;
};

static bool kfm_seen(const struct kfm_args *args, enum kfm_key key)
{
	return args->seen & BIT(key);
}

static int kfm_parse_value(struct kfm_args *args, enum kfm_key key,
			   const char *text)
{
	u64 value;
	int i;

	if (key == KFM_CONTEXT) {
		i = match_string(kfm_contexts, ARRAY_SIZE(kfm_contexts), text);
		if (i < 0)
			return -EINVAL;
		args->value[key] = i;
		return 0;
	}
	if (kstrtou64(text, 0, &value) || value < kfm_keys[key].min ||
	    value > kfm_keys[key].max)
		return -EINVAL;
	args->value[key] = value;
	return 0;
}

static int kfm_parse_key(struct kfm_args *args, char *word, char *equals)
{
	int key;

	*equals = '\0';
	for (key = 0; key < KFM_KEYS; key++) {
		if (strcmp(word, kfm_keys[key].name))
			continue;
		if (kfm_seen(args, key))
			return -EINVAL;
		args->seen |= BIT(key);
		return kfm_parse_value(args, key, equals + 1);
	}
	return -EINVAL;
}

static int kfm_parse_word(struct kfm_args *args, char *word)
{
	if (args->words == KFM_WORDS)
		return -EINVAL;
	args->word[args->words++] = word;
	return 0;
}

static int kfm_parse(char *line, struct kfm_args *args)
{
	char *word, *equals;
	int err;

	while ((word = strsep(&line, " "))) {
		if (!*word)
			continue;
		equals = strchr(word, '=');
		if (equals)
			err = kfm_parse_key(args, word, equals);
		else
			err = kfm_parse_word(args, word);
		if (err)
			return err;
	}
	return args->words ? 0 : -EINVAL;
}

static int kfm_parse_u32(const char *word, u32 min, u32 max, u32 *value)
{
	if (kstrtou32(word, 0, value) || *value < min || *value > max)
		return -EINVAL;
	return 0;
}

static int kfm_parse_id(const char *word, u32 *id)
{
	return kfm_parse_u32(word, 1, U32_MAX, id);
}

/* The positional arguments of "complete" and "inject". */
struct kfm_completion_args {
	u32 ep;
	enum kfm_kind kind;
	u32 count;
};

static int kfm_parse_completion(struct kfm_args *args,
				struct kfm_completion_args *what)
{
	u32 max = KFM_COUNT_MAX;
	int kind;

	kind = match_string(kfm_kind_name, KFM_KINDS, args->word[2]);
	if (kind < 0 || kfm_parse_id(args->word[1], &what->ep))
		return -EINVAL;
	what->kind = kind;
	what->count = 1;
	if (args->value[KFM_CONTEXT] == KFM_SOFTIRQ)
		max = KFM_SOFTIRQ_MAX;
	if (args->words > 3 &&
	    kfm_parse_u32(args->word[3], 1, max, &what->count))
		return -EINVAL;
	if (!kfm_seen(args, KFM_ERR) &&
	    (kfm_seen(args, KFM_PROV) || kfm_seen(args, KFM_OLEN)))
		return -EINVAL;
	if (kfm_seen(args, KFM_DATA) && kind != KFM_RECV &&
	    kind != KFM_REMOTE_WRITE)
		return -EINVAL;
	return 0;
}

/* The length of a failed operation is 0 unless the command has len=. */
static void kfm_fill_completion(const struct kfm_args *args,
				struct kfi_completion *comp)
{
	if (kfm_seen(args, KFM_ERR)) {
		comp->err = args->value[KFM_ERR];
		comp->prov_errno = args->value[KFM_PROV];
		comp->olen = args->value[KFM_OLEN];
		comp->len = 0;
	}
	if (kfm_seen(args, KFM_LEN))
		comp->len = args->value[KFM_LEN];
	if (kfm_seen(args, KFM_DATA)) {
		comp->flags |= KFI_REMOTE_CQ_DATA;
		comp->data = args->value[KFM_DATA];
	}
	if (kfm_seen(args, KFM_IS_SOLICITED) && args->value[KFM_IS_SOLICITED])
		comp->flags |= KFI_SOLICITED;
}

static int kfm_run_complete(struct kfm_report *report)
{
	struct kfm_op *op;

	list_for_each_entry(op, &report->ops, link)
		kfi_ep_complete(&report->ep->base, &op->comp, op->want_entry);
	return 0;
}

static int kfm_run_inject(struct kfm_report *report)
{
	size_t i;

	for (i = 0; i < report->count; i++) {
		kfi_ep_complete(&report->ep->base, &report->comp,
				report->want_entry);
		if (!report->atomic)
			cond_resched();
	}
	return 0;
}

/* A new report on an endpoint, which must be enabled. */
static int kfm_completion_report(struct kfm_report **ret, u32 id,
				 int (*run)(struct kfm_report *report))
{
	struct kfm_report *report = kfm_report_new(run);
	int err = 0;

	if (!report)
		return -ENOMEM;
	report->by_progress = true;
	report->ep = kfm_ep_get(id);
	if (!report->ep)
		err = -ENOENT;
	else if (!report->ep->base.enabled)
		err = -KFI_EOPBADSTATE;
	if (err) {
		kfm_report_put(report);
		return err;
	}
	*ret = report;
	return 0;
}

static int kfm_cmd_complete(struct kfm_args *args)
{
	struct kfm_completion_args what;
	struct kfm_report *report;
	struct kfm_op *op;
	int err;

	err = kfm_parse_completion(args, &what);
	if (err)
		return err;
	if (what.kind >= KFM_POSTED)
		return -EINVAL;
	err = kfm_completion_report(&report, what.ep, kfm_run_complete);
	if (err)
		return err;
	err = kfm_ep_take(report->ep, what.kind, what.count, &report->ops);
	if (err) {
		kfm_report_put(report);
		return err;
	}
	list_for_each_entry(op, &report->ops, link)
		kfm_fill_completion(args, &op->comp);
	return kfm_report_submit(report, args->value[KFM_CONTEXT]);
}

static int kfm_cmd_inject(struct kfm_args *args)
{
	struct kfm_completion_args what;
	struct kfm_report *report;
	int err;

	err = kfm_parse_completion(args, &what);
	if (err)
		return err;
	err = kfm_completion_report(&report, what.ep, kfm_run_inject);
	if (err)
		return err;
	/* A deferred report may run in softirq context. */
	if (report->ep->base.domain->progress && what.count > KFM_SOFTIRQ_MAX) {
		kfm_report_put(report);
		return -EINVAL;
	}
	report->comp.flags = kfm_kind_flags[what.kind];
	report->comp.src = KFI_ADDR_NOTAVAIL;
	kfm_fill_completion(args, &report->comp);
	report->count = what.count;
	report->want_entry = !kfm_seen(args, KFM_ENTRY) ||
			     args->value[KFM_ENTRY];
	return kfm_report_submit(report, args->value[KFM_CONTEXT]);
}

static int kfm_run_arrive(struct kfm_report *report)
{
	struct kfm_op *msg, *next;

	list_for_each_entry_safe(msg, next, &report->ops, link) {
		list_del(&msg->link);
		kfm_unexp_arrive(report->ep, msg);
	}
	return 0;
}

/* Allocates all messages before the first of them arrives. */
static int kfm_arrive_prepare(struct kfm_args *args, struct kfm_report *report,
			      u32 count)
{
	struct kfm_op *msg;
	u32 i;

	for (i = 0; i < count; i++) {
		msg = kzalloc(sizeof(*msg), GFP_KERNEL);
		if (!msg)
			return -ENOMEM;
		msg->comp.flags = KFI_MSG | KFI_RECV;
		kfm_fill_completion(args, &msg->comp);
		list_add_tail(&msg->link, &report->ops);
	}
	return 0;
}

static int kfm_cmd_arrive(struct kfm_args *args)
{
	struct kfm_report *report;
	u32 id, count = 1;
	int err;

	if (kfm_parse_id(args->word[1], &id))
		return -EINVAL;
	if (args->words > 2 &&
	    kfm_parse_u32(args->word[2], 1, KFM_UNEXP_MAX, &count))
		return -EINVAL;
	err = kfm_completion_report(&report, id, kfm_run_arrive);
	if (err)
		return err;
	report->by_progress = false;
	err = kfm_arrive_prepare(args, report, count);
	if (!err && READ_ONCE(report->ep->nunexp) + count > KFM_UNEXP_MAX)
		err = -ENOBUFS;
	if (err) {
		kfm_report_put(report);
		return err;
	}
	return kfm_report_submit(report, args->value[KFM_CONTEXT]);
}

/* A new report on an EQ, or on an endpoint with a bound EQ. */
static int kfm_event_report(struct kfm_report **ret, u32 id,
			    int (*run)(struct kfm_report *report))
{
	struct kfm_report *report = kfm_report_new(run);
	int err = 0;

	if (!report)
		return -ENOMEM;
	report->eq = kfm_eq_get(id);
	if (!report->eq)
		report->ep = kfm_ep_get(id);
	if (!report->eq && !report->ep)
		err = -ENOENT;
	else if (report->ep && !report->ep->base.eq)
		err = -KFI_ENOEQ;
	if (err) {
		kfm_report_put(report);
		return err;
	}
	*ret = report;
	return 0;
}

static struct kfid *kfm_report_fid(struct kfm_report *report)
{
	return report->ep ? &report->ep->base.ep.fid : &report->eq->eq->fid;
}

static int kfm_run_event(struct kfm_report *report)
{
	struct kfi_event event = {
		.event = report->event,
		.buf = &report->payload,
		.len = report->payload_len,
	};

	if (report->ep)
		return kfi_ep_report(&report->ep->base, &event);
	return kfi_eq_report(report->eq->eq, NULL, &event);
}

static int kfm_run_eqerr(struct kfm_report *report)
{
	if (report->ep)
		return kfi_ep_report_err(&report->ep->base, &report->err);
	return kfi_eq_report_err(report->eq->eq, NULL, &report->err);
}

/* Connection events have a kfi_eq_cm_entry, others a kfi_eq_entry. */
static void kfm_fill_event(const struct kfm_args *args,
			   struct kfm_report *report)
{
	struct kfid *fid = kfm_report_fid(report);

	if (report->event == KFI_CONNECTED || report->event == KFI_SHUTDOWN) {
		report->payload.cm.fid = fid;
		report->payload_len = sizeof(report->payload.cm);
		return;
	}
	report->payload.entry.fid = fid;
	report->payload.entry.context = fid->context;
	report->payload.entry.data = args->value[KFM_DATA];
	report->payload_len = sizeof(report->payload.entry);
}

static int kfm_cmd_event(struct kfm_args *args)
{
	struct kfm_report *report;
	u32 id, number;
	int err;

	/* KFI_CONNREQ would need a passive endpoint and a handle. */
	if (kfm_parse_id(args->word[1], &id) ||
	    kfm_parse_u32(args->word[2], 0, U32_MAX, &number) ||
	    number == KFI_CONNREQ)
		return -EINVAL;
	err = kfm_event_report(&report, id, kfm_run_event);
	if (err)
		return err;
	report->event = number;
	kfm_fill_event(args, report);
	return kfm_report_submit(report, args->value[KFM_CONTEXT]);
}

static int kfm_cmd_eqerr(struct kfm_args *args)
{
	struct kfm_report *report;
	struct kfid *fid;
	u32 id;
	int err;

	if (kfm_parse_id(args->word[1], &id) || !kfm_seen(args, KFM_ERR))
		return -EINVAL;
	err = kfm_event_report(&report, id, kfm_run_eqerr);
	if (err)
		return err;
	fid = kfm_report_fid(report);
	report->err.fid = fid;
	report->err.context = fid->context;
	report->err.data = args->value[KFM_DATA];
	report->err.err = args->value[KFM_ERR];
	report->err.prov_errno = args->value[KFM_PROV];
	return kfm_report_submit(report, args->value[KFM_CONTEXT]);
}

static int kfm_cmd_lose(struct kfm_args *args)
{
	struct kfm_domain *domain;
	u32 id;
	int err;

	if (kfm_parse_id(args->word[1], &id))
		return -EINVAL;
	domain = kfm_domain_get(id);
	if (!domain)
		return -ENOENT;
	err = kfm_domain_lose(domain);
	kfi_fid_put(&domain->base.domain.fid);
	return err;
}

#ifdef KFABRIC_TEST

static int kfm_parse_hook(const char *word, enum kfi_hook *hook)
{
	u32 number;

	if (*word != 'D' ||
	    kfm_parse_u32(word + 1, KFI_HOOK_D1, KFI_HOOK_MAX - 1, &number))
		return -EINVAL;
	*hook = number;
	return 0;
}

static int kfm_cmd_hook(struct kfm_args *args)
{
	enum kfi_hook hook;
	u32 id;

	if (kfm_parse_hook(args->word[2], &hook))
		return -EINVAL;
	if (!strcmp(args->word[1], "go") && args->words == 3)
		return kfi_test_hook_go(hook);
	/* Object 0 means any object. */
	if (!strcmp(args->word[1], "arm") && args->words == 4 &&
	    !kfm_parse_u32(args->word[3], 0, U32_MAX, &id))
		return kfi_test_hook_arm(hook, id);
	return -EINVAL;
}

static const char * const kfm_faults[KFI_FAULT_MAX] = {
	[KFI_FAULT_NONE] = "none",
	[KFI_FAULT_LOST] = "lost",
	[KFI_FAULT_LATE] = "late",
	[KFI_FAULT_HERD] = "herd",
	[KFI_FAULT_SPURIOUS] = "spurious",
	[KFI_FAULT_STALL] = "stall",
};

static int kfm_cmd_fault(struct kfm_args *args)
{
	u64 arg = 0;
	u32 id;
	int fault;

	fault = match_string(kfm_faults, KFI_FAULT_MAX, args->word[1]);
	if (fault < 0 || kfm_parse_id(args->word[2], &id))
		return -EINVAL;
	if (args->words > 3 && kstrtou64(args->word[3], 0, &arg))
		return -EINVAL;
	return kfi_test_fault_arm(fault, id, arg);
}

#endif /* KFABRIC_TEST */

#define KFM_REPORT_KEYS	(BIT(KFM_ERR) | BIT(KFM_PROV) | BIT(KFM_DATA) | \
			 BIT(KFM_CONTEXT))
#define KFM_COMPLETION_KEYS (KFM_REPORT_KEYS | BIT(KFM_LEN) | BIT(KFM_OLEN) | \
			     BIT(KFM_IS_SOLICITED))

static const struct kfm_command {
	const char *name;
	int min_words;
	int max_words;
	u32 keys;
	int (*run)(struct kfm_args *args);
} kfm_commands[] = {
	{ "complete", 3, 4, KFM_COMPLETION_KEYS, kfm_cmd_complete },
	{ "inject", 3, 4, KFM_COMPLETION_KEYS | BIT(KFM_ENTRY), kfm_cmd_inject },
	{ "arrive", 2, 3, BIT(KFM_LEN) | BIT(KFM_DATA) | BIT(KFM_CONTEXT),
	  kfm_cmd_arrive },
	{ "event", 3, 3, BIT(KFM_DATA) | BIT(KFM_CONTEXT), kfm_cmd_event },
	{ "eqerr", 2, 2, KFM_REPORT_KEYS, kfm_cmd_eqerr },
	{ "lose", 2, 2, 0, kfm_cmd_lose },
#ifdef KFABRIC_TEST
	{ "hook", 3, 4, 0, kfm_cmd_hook },
	{ "fault", 3, 4, 0, kfm_cmd_fault },
#endif
};

static int kfm_dispatch(struct kfm_args *args)
{
	const struct kfm_command *cmd = kfm_commands;
	int i;

	for (i = 0; i < ARRAY_SIZE(kfm_commands); i++, cmd++) {
		if (strcmp(args->word[0], cmd->name))
			continue;
		if (args->words < cmd->min_words ||
		    args->words > cmd->max_words || (args->seen & ~cmd->keys))
			return -EINVAL;
		return cmd->run(args);
	}
	return -EINVAL;
}

/**
 * kfm_command() - run one command
 * @text: the line, with or without its newline
 * @len: bytes of @text
 *
 * Context: Process context. May sleep.
 * Return: 0 or a negative errno, see docs/mock.md.
 */
int kfm_command(const char *text, size_t len)
{
	struct kfm_args args = {};
	char *line;
	int err;

	if (len && text[len - 1] == '\n')
		len--;
	if (!len || len >= KFM_LINE || strnlen(text, len) != len)
		return -EINVAL;
	line = kmemdup_nul(text, len, GFP_KERNEL);
	if (!line)
		return -ENOMEM;
	err = kfm_parse(line, &args);
	if (!err)
		err = kfm_dispatch(&args);
	kfree(line);
	return err;
}

static ssize_t kfm_command_write(struct file *file, const char __user *buf,
				 size_t len, loff_t *pos)
{
	char text[KFM_LINE];
	int err;

	if (len > sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, len))
		return -EFAULT;
	err = kfm_command(text, len);
	return err ? -kfi_errno_to_user(-err) : len;
}

const struct file_operations kfm_command_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = kfm_command_write,
	.llseek = noop_llseek,
};
