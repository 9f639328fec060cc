// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Profiles. Users have types of their own, which contain no kernel address. Variables
 * and events whose type has no translation are not listed.
 */
#include <linux/slab.h>

#include <kfi_profile.h>

#include "kfd.h"

/* Events of one look. */
#define KFD_EVENTS_CHUNK 16

static bool kfd_is_msg(const struct kfi_profile_desc *desc)
{
	return desc->datatype_sel == kfi_defined_type &&
	       desc->datatype.defined == KFI_TYPE_CQ_ERR_ENTRY;
}

static bool kfd_is_u64(const struct kfi_profile_desc *desc)
{
	return desc->datatype_sel == kfi_primitive_type &&
	       desc->datatype.primitive == KFI_UINT64;
}

static struct kfid_profile *kfd_prof_of(const struct kfd_profile *p)
{
	return container_of(p->obj.fid, struct kfid_profile, fid);
}

/* Keep the entries whose type users have. Takes the array over. */
static void kfd_list_keep(struct kfd_profile_list *list,
			  struct kfi_profile_desc *descs, size_t n)
{
	size_t i;

	list->descs = descs;
	for (i = 0; i < n; i++)
		if (kfd_is_msg(&descs[i]) || kfd_is_u64(&descs[i]))
			descs[list->count++] = descs[i];
}

/* The list does not change while the profile is open. */
static int kfd_list_load(struct kfid_profile *prof, struct kfd_profile_list *list,
			 ssize_t (*query)(struct kfid_profile *prof,
					  struct kfi_profile_desc *descs,
					  size_t *count))
{
	struct kfi_profile_desc *descs;
	size_t count = 0;
	ssize_t n;

	n = query(prof, NULL, &count);
	if (n < 0)
		return n;
	descs = kcalloc(count ?: 1, sizeof(*descs), GFP_KERNEL_ACCOUNT);
	if (!descs)
		return -ENOMEM;
	n = query(prof, descs, &count);
	kfd_list_keep(list, descs, max_t(ssize_t, n, 0));
	return min_t(ssize_t, n, 0);
}

/**
 * kfd_profile_open() - KFAB_IOC_PROFILE_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_profile_open.
 */
long kfd_profile_open(struct kfd_call *call)
{
	struct kfab_profile_open *arg = call->arg;
	struct kfid_profile *prof;
	struct kfd_obj *target, *obj;
	struct kfd_profile *p;
	int ret;

	target = kfd_pin(call, arg->handle, ~0U);
	if (IS_ERR(target))
		return PTR_ERR(target);
	if (!target->fid)
		return -EOPNOTSUPP;
	obj = kfd_open_begin(call, KFI_CLASS_PROFILE, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	p = container_of(obj, struct kfd_profile, obj);
	ret = kfi_profile_open(target->fid, 0, &prof, obj);
	if (ret)
		return ret;
	kfd_open_done(obj, &prof->fid, &arg->out_handle, &arg->out_id);
	ret = kfd_list_load(prof, &p->vars, kfi_profile_query_vars) ?:
	      kfd_list_load(prof, &p->events, kfi_profile_query_events);
	/* Without events there is nothing to wait for. */
	obj->wait_obj = p->events.count ? KFI_WAIT_FD : KFI_WAIT_NONE;
	return ret;
}

/**
 * kfd_profile_free() - free what the structure of a profile holds
 * @p: the profile
 *
 * Context: Process.
 */
void kfd_profile_free(struct kfd_profile *p)
{
	kfree(p->vars.descs);
	kfree(p->events.descs);
}

static struct kfd_profile *kfd_pin_profile(struct kfd_call *call, u32 handle)
{
	struct kfd_obj *obj = kfd_pin(call, handle, KFD_CLASS(KFI_CLASS_PROFILE));

	return IS_ERR(obj) ? ERR_CAST(obj) :
			     container_of(obj, struct kfd_profile, obj);
}

static const struct kfi_profile_desc *
kfd_list_find(const struct kfd_profile_list *list, u32 id)
{
	size_t i;

	for (i = 0; i < list->count; i++)
		if (list->descs[i].id == id)
			return &list->descs[i];
	return NULL;
}

static u32 kfd_user_type(const struct kfi_profile_desc *desc)
{
	return desc->datatype_sel == kfi_primitive_type ?
		       (u32)desc->datatype.primitive :
		       (u32)desc->datatype.defined;
}

static u32 kfd_user_size(const struct kfi_profile_desc *desc)
{
	return kfd_is_msg(desc) ? sizeof(struct kfab_profile_msg) : desc->size;
}

static void kfd_desc_fill(struct kfab_profile_desc *to,
			  const struct kfi_profile_desc *from)
{
	*to = (struct kfab_profile_desc) {
		.id = from->id,
		.datatype_sel = from->datatype_sel,
		.datatype = kfd_user_type(from),
		.var_flags = from->flags,
		.var_size = kfd_user_size(from),
	};
	strscpy(to->name, from->name, sizeof(to->name));
	strscpy(to->desc, from->desc, sizeof(to->desc));
}

/**
 * kfd_profile_query() - KFAB_IOC_PROFILE_QUERY
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: the number of entries written, or a negative errno as listed at struct
 * kfab_profile_query.
 */
long kfd_profile_query(struct kfd_call *call)
{
	struct kfab_profile_query *arg = call->arg;
	void __user *to = u64_to_user_ptr(arg->descs);
	struct kfd_profile *p = kfd_pin_profile(call, arg->profile);
	const struct kfd_profile_list *list;
	struct kfab_profile_desc desc;
	void __user *at;
	u32 i, n;

	if (IS_ERR(p))
		return PTR_ERR(p);
	/* The bytes after an entry are cleared, so their number has a limit. */
	if (arg->what > KFAB_PROFILE_EVENTS ||
	    (arg->descs && (arg->desc_size < sizeof(desc) ||
			    arg->desc_size > PAGE_SIZE)))
		return -EINVAL;
	list = arg->what == KFAB_PROFILE_VARS ? &p->vars : &p->events;
	n = arg->descs ? min_t(u32, arg->count, list->count) : 0;
	for (i = 0; i < n; i++) {
		kfd_desc_fill(&desc, &list->descs[i]);
		at = to + (size_t)i * arg->desc_size;
		/* Fields that only a newer library knows are 0. */
		if (copy_to_user(at, &desc, sizeof(desc)) ||
		    clear_user(at + sizeof(desc), arg->desc_size - sizeof(desc)))
			return -EFAULT;
	}
	arg->count = list->count;
	return n;
}

static void kfd_msg_fill(struct kfab_profile_msg *to,
			 const struct kfi_cq_err_entry *from)
{
	*to = (struct kfab_profile_msg) {
		.msg_flags = from->flags,
		.len = from->len,
		.data = from->data,
		.tag = from->tag,
	};
}

/* Translate entries in place: the user's type is not longer than the kernel's. */
static void kfd_msgs_translate(void *buf, size_t n)
{
	struct kfi_cq_err_entry *from = buf;
	struct kfab_profile_msg *to = buf, msg;
	size_t i;

	BUILD_BUG_ON(sizeof(*to) > sizeof(*from));
	for (i = 0; i < n; i++) {
		kfd_msg_fill(&msg, &from[i]);
		to[i] = msg;
	}
}

/**
 * struct kfd_value - a value on its way to the user
 * @buf: the value
 * @room: entries that fit into it
 * @entry: bytes of one entry in the user's type
 * @kernel_entry: bytes of one entry in the kernel's type
 */
struct kfd_value {
	void *buf;
	size_t room;
	size_t entry;
	size_t kernel_entry;
};

static int kfd_value_read(struct kfd_profile *p, struct kfab_profile_read *arg,
			  struct kfd_value *value)
{
	size_t size = value->room * value->kernel_entry;
	size_t n;
	int ret;

	ret = kfi_profile_read(kfd_prof_of(p), arg->id, value->buf, &size);
	if (ret && ret != -KFI_ETOOSMALL)
		return ret;
	n = size / value->kernel_entry;
	arg->buf_size = n * value->entry;
	if (ret)
		return ret;
	if (value->entry != value->kernel_entry)
		kfd_msgs_translate(value->buf, n);
	if (copy_to_user(u64_to_user_ptr(arg->buf), value->buf, arg->buf_size))
		return -EFAULT;
	return 0;
}

/**
 * kfd_profile_read() - KFAB_IOC_PROFILE_READ
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_profile_read.
 */
long kfd_profile_read(struct kfd_call *call)
{
	struct kfab_profile_read *arg = call->arg;
	struct kfd_profile *p = kfd_pin_profile(call, arg->profile);
	const struct kfi_profile_desc *desc;
	struct kfd_value value = { };
	int ret = -KFI_ETOOSMALL;

	if (IS_ERR(p))
		return PTR_ERR(p);
	desc = kfd_list_find(&p->vars, arg->id);
	if (!desc)
		return -EINVAL;
	value.entry = kfd_user_size(desc);
	value.kernel_entry = desc->size;
	value.room = min_t(size_t, arg->buf_size / value.entry,
			   KFAB_PROFILE_LIST_MAX);
	if (!(desc->flags & KFI_PROFILE_LIST) && arg->buf_size != value.entry) {
		arg->buf_size = value.entry;
		return kfd_answer(call) ?: ret;
	}
	value.buf = kvmalloc_array(value.room ?: 1, value.kernel_entry, GFP_KERNEL_ACCOUNT);
	if (!value.buf)
		return -ENOMEM;
	ret = kfd_value_read(p, arg, &value);
	kvfree(value.buf);
	if (ret == -KFI_ETOOSMALL)
		return kfd_answer(call) ?: ret;
	return ret;
}

/**
 * kfd_profile_control() - KFAB_IOC_PROFILE_CONTROL
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_profile_control.
 */
long kfd_profile_control(struct kfd_call *call)
{
	const struct kfab_profile_control *arg = call->arg;
	struct kfd_profile *p = kfd_pin_profile(call, arg->profile);
	struct kfid_profile *prof;

	if (IS_ERR(p))
		return PTR_ERR(p);
	prof = kfd_prof_of(p);
	switch (arg->command) {
	case KFAB_PROFILE_KEEP:
	case KFAB_PROFILE_DISCARD:
		if (!kfd_list_find(&p->events, arg->id))
			return -EINVAL;
		return kfi_profile_keep(prof, arg->id,
					arg->command == KFAB_PROFILE_KEEP);
	}
	if (arg->id)
		return -EINVAL;
	switch (arg->command) {
	case KFAB_PROFILE_START_READS:
		return kfi_profile_start_reads(prof, 0);
	case KFAB_PROFILE_END_READS:
		return kfi_profile_end_reads(prof, 0);
	case KFAB_PROFILE_RESET:
		return kfi_profile_reset(prof, 0);
	default:
		return -EINVAL;
	}
}

/**
 * struct kfd_events_take - one read of events
 * @call: the call
 * @p: the profile
 */
struct kfd_events_take {
	struct kfd_call *call;
	struct kfd_profile *p;
};

static void kfd_event_fill(struct kfab_profile_event *to,
			   const struct kfi_profile_record *from)
{
	*to = (struct kfab_profile_event) {
		.seq = from->seq,
		.id = from->desc->id,
		.datatype_sel = from->desc->datatype_sel,
		.datatype = kfd_user_type(from->desc),
	};
	if (!from->size)
		return;
	to->data_size = kfd_user_size(from->desc);
	if (kfd_is_msg(from->desc))
		kfd_msg_fill(&to->data.msg, (const void *)from->data);
	else
		to->data.value = *(const u64 *)from->data;
}

static int kfd_events_put(const struct kfab_profile_events *arg,
			  const struct kfi_profile_record *records, size_t n)
{
	struct kfab_profile_event __user *to = u64_to_user_ptr(arg->events);
	struct kfab_profile_event event;
	size_t i;

	for (i = 0; i < n; i++) {
		kfd_event_fill(&event, &records[i]);
		if (copy_to_user(&to[i], &event, sizeof(event)))
			return -EFAULT;
	}
	return 0;
}

/* Look, copy out, answer, and only then remove. */
static ssize_t kfd_events_locked(struct kfd_events_take *take)
{
	struct kfab_profile_events *arg = take->call->arg;
	struct kfid_profile *prof = kfd_prof_of(take->p);
	struct kfi_profile_record *records;
	ssize_t n, ret;

	lockdep_assert_held(&take->p->obj.readers);
	records = kmalloc_array(KFD_EVENTS_CHUNK, sizeof(*records),
				GFP_KERNEL_ACCOUNT);
	if (!records)
		return -ENOMEM;
	n = kfi_profile_peek(prof, records,
			     min_t(u32, arg->count, KFD_EVENTS_CHUNK),
			     &arg->out_dropped);
	ret = n ? kfd_events_put(arg, records, n) : -EAGAIN;
	kfree(records);
	if (!ret)
		ret = kfd_answer(take->call);
	if (!ret)
		kfi_profile_consume(prof, n);
	return ret ?: n;
}

static ssize_t kfd_events_take(void *p)
{
	struct kfd_events_take *take = p;
	ssize_t ret;

	if (kfd_read_lock(&take->p->obj.readers))
		return -EINTR;
	ret = kfd_events_locked(take);
	mutex_unlock(&take->p->obj.readers);
	return ret;
}

/**
 * kfd_profile_events() - KFAB_IOC_PROFILE_EVENTS
 * @call: the call in progress
 *
 * Context: Process; sleeps without a lock of this module. Takes obj->readers for each attempt.
 * Return: the number of entries written, or a negative errno as listed at struct
 * kfab_profile_events.
 */
long kfd_profile_events(struct kfd_call *call)
{
	const struct kfab_profile_events *arg = call->arg;
	struct kfd_events_take take = {
		.call = call,
		.p = kfd_pin_profile(call, arg->profile),
	};
	ktime_t deadline;
	ssize_t ret;

	if (IS_ERR(take.p))
		return PTR_ERR(take.p);
	ret = kfd_deadline(arg->deadline, &deadline);
	if (ret)
		return ret;
	if (!arg->count || !arg->events)
		return -EINVAL;
	ret = kfi_profile_wait_take(kfd_prof_of(take.p), deadline,
				    kfd_events_take, &take);
	return ret == -ETIMEDOUT ? -EAGAIN : ret;
}
