// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The variables that the core keeps, and the events and variables that are defined
 * for every provider.
 */
#include "profile.h"

#define KFI_HAS(_class) BIT(KFI_CLASS_##_class)

/* The classes that have a variable. */
#define KFI_OF_QUEUES	(KFI_HAS(WAIT) | KFI_HAS(CQ) | KFI_HAS(DOMAIN))
#define KFI_OF_SETS	(KFI_OF_QUEUES | KFI_HAS(POLL))
#define KFI_OF_REPORTS	(KFI_ENDPOINTS | KFI_HAS(CQ) | KFI_HAS(DOMAIN))

#define KFI_U64(_id, _name, _flags, _desc) {				\
	.id = (_id),							\
	.datatype_sel = kfi_primitive_type,				\
	.datatype.primitive = KFI_UINT64,				\
	.flags = (_flags),						\
	.size = sizeof(u64),						\
	.name = (_name),						\
	.desc = (_desc),						\
}

#define KFI_UNEXP_COUNT							\
	KFI_U64(KFI_VAR_UNEXP_MSG_CNT, "unexp_msg_cnt", 0,		\
		"messages that wait for a receive to be posted")

#define KFI_UNEXP_ENTRY(_id, _name, _flags, _desc) {			\
	.id = (_id),							\
	.datatype_sel = kfi_defined_type,				\
	.datatype.defined = KFI_TYPE_CQ_ERR_ENTRY,			\
	.flags = (_flags),						\
	.size = sizeof(struct kfi_cq_err_entry),			\
	.name = (_name),						\
	.desc = (_desc),						\
}

/* Variables of endpoints that keep messages until a receive is posted. */
const struct kfi_profile_desc kfi_unexp_vars[2] = {
	KFI_UNEXP_COUNT,
	KFI_UNEXP_ENTRY(KFI_VAR_UNEXP_MSG_QUEUE, "unexp_msg_queue",
			KFI_PROFILE_LIST,
			"the messages that wait for a receive, oldest first"),
};
EXPORT_SYMBOL_GPL(kfi_unexp_vars);

/* Events of the same endpoints. */
const struct kfi_profile_desc kfi_unexp_events[2] = {
	KFI_UNEXP_ENTRY(KFI_EVENT_UNEXP_MSG_RECVD, "unexp_msg_recvd", 0,
			"a message came for which no receive was posted"),
	KFI_UNEXP_ENTRY(KFI_EVENT_UNEXP_MSG_MATCHED, "unexp_msg_matched", 0,
			"a message that had waited was given to a receive"),
};
EXPORT_SYMBOL_GPL(kfi_unexp_events);

/**
 * struct kfi_core_var - a variable that the core keeps
 * @desc: as it is listed
 * @offset: its place in struct kfi_counts
 * @classes: bits of the classes that have it
 */
struct kfi_core_var {
	struct kfi_profile_desc desc;
	size_t offset;
	u32 classes;
};

#define KFI_COUNT(_classes, _var, _field, _name, _flags, _desc) {	\
	.desc = KFI_U64(KFI_VAR_##_var, _name, _flags, _desc),		\
	.offset = offsetof(struct kfi_counts, _field),			\
	.classes = (_classes),						\
}

static const struct kfi_core_var kfi_vars[] = {
	{
		.desc = KFI_UNEXP_COUNT,
		.offset = offsetof(struct kfi_counts, unexp),
		.classes = KFI_HAS(DOMAIN),
	},
	KFI_COUNT(KFI_OF_REPORTS, COMPLETIONS, completions, "completions",
		  KFI_PROFILE_RESETS,
		  "operations that were reported; of a CQ, entries stored"),
	KFI_COUNT(KFI_OF_REPORTS, ERRORS, errors, "errors", KFI_PROFILE_RESETS,
		  "completions that failed"),
	KFI_COUNT(KFI_OF_SETS, SIGNALS, signals, "signals", KFI_PROFILE_RESETS,
		  "publications on what threads sleep on; of a poll set, on members"),
	KFI_COUNT(KFI_OF_SETS, WAKES, wakes, "wakes", KFI_PROFILE_RESETS,
		  "sleepers that were woken; of a poll set, members reported"),
	KFI_COUNT(KFI_OF_SETS, OVERTAKEN, overtaken, "overtaken",
		  KFI_PROFILE_RESETS,
		  "wake-ups for an entry that another reader had taken by then"),
	KFI_COUNT(KFI_OF_SETS, SPURIOUS, spurious, "spurious",
		  KFI_PROFILE_RESETS,
		  "wake-ups for nothing; of a poll set, members reported in vain"),
	KFI_COUNT(KFI_OF_SETS, TIMEOUTS, timeouts, "timeouts",
		  KFI_PROFILE_RESETS, "calls that their deadline ended"),
	KFI_COUNT(KFI_OF_SETS, INTERRUPTS, interrupts, "interrupts",
		  KFI_PROFILE_RESETS, "calls that a signal ended"),
	KFI_COUNT(KFI_OF_SETS, HANDED_ON, handed_on, "handed_on",
		  KFI_PROFILE_RESETS,
		  "wake-ups handed on by a thread that did not use its own"),
	KFI_COUNT(KFI_OF_SETS, OVERRUNS, overruns, "overruns",
		  KFI_PROFILE_RESETS, "publications that found no room"),
	KFI_COUNT(KFI_OF_SETS, DEEPEST_FILL, deepest, "deepest_fill",
		  KFI_PROFILE_RESETS,
		  "most entries at a time; of a set, most members ready"),
	KFI_COUNT(KFI_OF_QUEUES, SLEEPS, sleeps, "sleeps", KFI_PROFILE_RESETS,
		  "times that a thread went to sleep"),
	KFI_COUNT(KFI_OF_QUEUES, ASLEEP, asleep, "asleep", 0,
		  "threads that sleep now"),
	KFI_COUNT(KFI_OF_QUEUES, MOST_ASLEEP, most_asleep, "most_asleep",
		  KFI_PROFILE_RESETS, "most threads asleep at a time"),
	KFI_COUNT(KFI_OF_QUEUES, ASLEEP_NS, asleep_ns, "asleep_ns",
		  KFI_PROFILE_RESETS,
		  "nanoseconds that threads have slept, added up"),
	KFI_COUNT(KFI_OF_QUEUES, LONGEST_NS, longest_ns, "longest_ns", 0,
		  "nanoseconds that the longest sleeper has slept so far"),
	{
		.desc = {
			.id = KFI_VAR_LATENCY,
			.datatype_sel = kfi_primitive_type,
			.datatype.primitive = KFI_UINT64,
			.flags = KFI_PROFILE_RESETS,
			.size = sizeof(u64[KFI_PROFILE_BUCKETS]),
			.name = "latency",
			.desc = "times from signal to return: [n] counts 2^n ns to 2^(n+1)",
		},
		.offset = offsetof(struct kfi_counts, latency),
		.classes = KFI_OF_SETS,
	},
};

static bool kfi_class_has(size_t fclass, const struct kfi_core_var *var)
{
	return fclass < 32 && (var->classes & BIT(fclass));
}

/**
 * kfi_core_vars() - how many variables the core keeps for a class
 * @fclass: KFI_CLASS_*
 *
 * Context: any; takes no lock.
 * Return: their number; 0: objects of the class cannot be profiled.
 */
size_t kfi_core_vars(size_t fclass)
{
	size_t i, n = 0;

	for (i = 0; i < ARRAY_SIZE(kfi_vars); i++)
		n += kfi_class_has(fclass, &kfi_vars[i]);
	return n;
}

/**
 * kfi_core_var() - one variable of a class
 * @fclass: KFI_CLASS_*
 * @i: less than kfi_core_vars()
 *
 * Context: any; takes no lock.
 * Return: its description, which is constant.
 */
const struct kfi_profile_desc *kfi_core_var(size_t fclass, size_t i)
{
	const struct kfi_core_var *var = kfi_vars;

	while (!kfi_class_has(fclass, var) || i--)
		var++;
	return &var->desc;
}

/**
 * kfi_core_offset() - the place of a variable in struct kfi_counts
 * @id: of the variable
 *
 * Context: any; takes no lock.
 * Return: the offset; without meaning for a provider's variable.
 */
size_t kfi_core_offset(u32 id)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kfi_vars); i++)
		if (kfi_vars[i].desc.id == id)
			return kfi_vars[i].offset;
	return 0;
}
