// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Reading the variables of a profile: their values now, or their values when
 * kfi_profile_start_reads() was called.
 */
#include <linux/slab.h>

#include "profile.h"

/**
 * kfi_profile_var() - one variable of a profile
 * @p: the profile
 * @i: less than kfi_profile_nvars(); the core's come first, then the provider's
 *
 * Context: any; takes no lock.
 * Return: its description, which is constant.
 */
const struct kfi_profile_desc *kfi_profile_var(const struct kfi_profile *p,
					       size_t i)
{
	size_t core = kfi_core_vars(p->target->fclass);

	return i < core ? kfi_core_var(p->target->fclass, i) :
			  &p->ops->vars[i - core];
}

/**
 * kfi_profile_nvars() - the number of variables of a profile
 * @p: the profile
 *
 * Context: any; takes no lock.
 * Return: the core's and the provider's.
 */
size_t kfi_profile_nvars(const struct kfi_profile *p)
{
	return kfi_core_vars(p->target->fclass) + (p->ops ? p->ops->nvars : 0);
}

/**
 * struct kfi_profile_found - the place of a variable
 * @desc: its description
 * @core: of a core's variable: its offset in struct kfi_counts
 * @prov: of a provider's variable: its index in the provider's table; SIZE_MAX for a
 *	  core's
 */
struct kfi_profile_found {
	const struct kfi_profile_desc *desc;
	size_t core;
	size_t prov;
};

static int kfi_profile_find(const struct kfi_profile *p, u32 id,
			    struct kfi_profile_found *var)
{
	const size_t core = kfi_core_vars(p->target->fclass);
	size_t i;

	for (i = 0; i < kfi_profile_nvars(p); i++) {
		var->desc = kfi_profile_var(p, i);
		if (var->desc->id != id)
			continue;
		var->core = kfi_core_offset(id);
		var->prov = i < core ? SIZE_MAX : i - core;
		return 0;
	}
	return -KFI_EINVAL;
}

static bool kfi_profile_provides(const struct kfi_profile_found *var)
{
	return var->prov != SIZE_MAX;
}

/*
 * The value now. For a provider's variable the caller holds the endpoint's
 * profile_lock. Return: its size, of which @size bytes were written.
 */
static size_t kfi_profile_live_locked(struct kfi_profile *p,
				      const struct kfi_profile_found *var,
				      void *buf, size_t size)
{
	struct kfi_counts counts;

	if (!kfi_profile_provides(var)) {
		kfi_fid_counts(p->target, &counts);
		memcpy(buf, (void *)&counts + var->core, var->desc->size);
		return var->desc->size;
	}
	lockdep_assert_held(kfi_profile_ep(p)->profile_lock);
	return p->ops->read(kfi_profile_ep(p), var->desc->id, buf, size);
}

/* The value now, as kfi_profile_live_locked(). Takes the lock where it is needed. */
static size_t kfi_profile_live(struct kfi_profile *p,
			       const struct kfi_profile_found *var, void *buf,
			       size_t size)
{
	unsigned long flags;
	size_t n;

	if (!kfi_profile_provides(var))
		return kfi_profile_live_locked(p, var, buf, size);
	flags = kfi_profile_lock(p);
	n = kfi_profile_live_locked(p, var, buf, size);
	kfi_profile_unlock(p, flags);
	return n;
}

/* The value when kfi_profile_start_reads() was called. The caller holds p->lock. */
static size_t kfi_profile_past(const struct kfi_profile *p,
			       const struct kfi_profile_found *var, void *buf,
			       size_t size)
{
	const struct kfi_profile_snap *snap = p->snap;
	const void *from = snap->data;
	size_t i;

	lockdep_assert_held(&p->lock);
	if (!kfi_profile_provides(var)) {
		memcpy(buf, (void *)&snap->counts + var->core, var->desc->size);
		return var->desc->size;
	}
	for (i = 0; i < var->prov; i++)
		from += snap->lens[i];
	memcpy(buf, from, min(size, snap->lens[i]));
	return snap->lens[i];
}

static size_t kfi_profile_value(struct kfi_profile *p,
				const struct kfi_profile_found *var, void *buf,
				size_t size)
{
	unsigned long flags;
	size_t n = 0;
	bool taken;

	/* A callback reads the values that its event has produced; it has the lock. */
	if (kfi_in_callback())
		return kfi_profile_live_locked(p, var, buf, size);

	spin_lock_irqsave(&p->lock, flags);
	taken = p->snap;
	if (taken)
		n = kfi_profile_past(p, var, buf, size);
	spin_unlock_irqrestore(&p->lock, flags);
	return taken ? n : kfi_profile_live(p, var, buf, size);
}

/**
 * kfi_profile_read() - the value of a variable
 * @prof: the profile
 * @var_id: one of those that kfi_profile_query_vars() lists
 * @buf: where to write it
 * @size: in: bytes of @buf: the size in the description; of a list, at least its
 *	  current size; out: bytes of the value
 *
 * Context: any; takes profile->lock, or the locks of kfi_fid_counts() or profile_lock.
 * A callback may read variables of its own profile.
 * Return: 0; -EINVAL for a variable that is not listed or a missing argument;
 * -ETOOSMALL for another size: @size returns the right one, and the contents of @buf
 * are undefined; -EBUSY in a callback of another profile.
 */
int kfi_profile_read(struct kfid_profile *prof, uint32_t var_id, void *buf,
		     size_t *size)
{
	struct kfi_profile *p = kfi_profile_of(prof);
	struct kfi_profile_found var;
	size_t room, n;
	int ret;

	if (kfi_in_callback() && !kfi_in_callback_of(p))
		return -KFI_EBUSY;
	if (!size || (!buf && *size))
		return -KFI_EINVAL;
	ret = kfi_profile_find(p, var_id, &var);
	if (ret)
		return ret;
	room = *size;
	if (!(var.desc->flags & KFI_PROFILE_LIST) && room != var.desc->size) {
		*size = var.desc->size;
		return -KFI_ETOOSMALL;
	}
	n = kfi_profile_value(p, &var, buf, room);
	*size = n;
	return n > room ? -KFI_ETOOSMALL : 0;
}
EXPORT_SYMBOL_GPL(kfi_profile_read);

/**
 * kfi_profile_read_u64() - the value of a variable that is one u64
 * @prof: the profile
 * @var_id: one of those that kfi_profile_query_vars() lists
 * @data: where to write it
 *
 * Context: as kfi_profile_read().
 * Return: as kfi_profile_read(); -ETOOSMALL for a variable of another type.
 */
int kfi_profile_read_u64(struct kfid_profile *prof, uint32_t var_id,
			 uint64_t *data)
{
	struct kfi_profile_found var;
	size_t size = sizeof(*data);
	int ret;

	ret = kfi_profile_find(kfi_profile_of(prof), var_id, &var);
	if (ret)
		return ret;
	if (var.desc->datatype_sel != kfi_primitive_type ||
	    var.desc->datatype.primitive != KFI_UINT64)
		return -KFI_ETOOSMALL;
	return data ? kfi_profile_read(prof, var_id, data, &size) : -KFI_EINVAL;
}
EXPORT_SYMBOL_GPL(kfi_profile_read_u64);

/* Take all values at one instant, if there is room. Return: the room they need. */
static size_t kfi_profile_take(struct kfi_profile *p,
			       struct kfi_profile_snap *snap)
{
	unsigned long flags;
	size_t i, n, at = 0;

	if (!p->ops) {
		kfi_fid_counts(p->target, &snap->counts);
		return 0;
	}
	/* profile_lock stops all changes of an endpoint but those of two atomics. */
	flags = kfi_profile_lock(p);
	kfi_fid_counts(p->target, &snap->counts);
	for (i = 0; i < p->ops->nvars; i++) {
		n = at < snap->room ? snap->room - at : 0;
		snap->lens[i] = p->ops->read(kfi_profile_ep(p),
					     p->ops->vars[i].id,
					     snap->data + at, n);
		at += snap->lens[i];
	}
	kfi_profile_unlock(p, flags);
	return at;
}

/**
 * kfi_profile_snap_free() - free a snapshot
 * @snap: no profile points to it any more; may be NULL
 *
 * Context: process, may sleep; takes no lock.
 */
void kfi_profile_snap_free(struct kfi_profile_snap *snap)
{
	if (!snap)
		return;
	kvfree(snap->lens);
	kvfree(snap);
}

static struct kfi_profile_snap *kfi_snap_alloc(struct kfi_profile *p, size_t room)
{
	const size_t n = p->ops ? p->ops->nvars : 0;
	struct kfi_profile_snap *snap;

	snap = kvzalloc(struct_size(snap, data, room), GFP_KERNEL_ACCOUNT);
	if (!snap)
		return NULL;
	snap->room = room;
	snap->lens = kvcalloc(n ?: 1, sizeof(*snap->lens), GFP_KERNEL_ACCOUNT);
	if (!snap->lens) {
		kvfree(snap);
		return NULL;
	}
	return snap;
}

/* A list may grow while memory is allocated for it; retry until it fits. */
static struct kfi_profile_snap *kfi_profile_snapshot(struct kfi_profile *p)
{
	struct kfi_profile_snap *snap;
	size_t room = 512, need;

	for (;;) {
		snap = kfi_snap_alloc(p, room);
		if (!snap)
			return NULL;
		need = kfi_profile_take(p, snap);
		if (need <= room)
			return snap;
		kfi_profile_snap_free(snap);
		room = need + need / 4;
	}
}

static int kfi_profile_set_snap(struct kfi_profile *p,
				struct kfi_profile_snap *snap,
				struct kfi_profile_snap **old)
{
	int ret = 0;

	spin_lock_irq(&p->lock);
	*old = p->snap;
	if (snap && p->snap)
		ret = -KFI_EBUSY;
	else
		p->snap = snap;
	spin_unlock_irq(&p->lock);
	return ret;
}

/**
 * kfi_profile_start_reads() - from now on read the values of this moment
 * @prof: the profile
 * @flags: 0
 *
 * All values of one object are of one instant; a domain's sums are taken object by
 * object. Until kfi_profile_end_reads(), every read of this profile by any thread
 * returns them, except a read in a callback.
 *
 * Context: process, may sleep; not in a callback; takes profile_lock, and
 * profile->lock.
 * Return: 0; -EBUSY if it was started already, or in a callback; -EINVAL for flags;
 * -ENOMEM.
 */
int kfi_profile_start_reads(struct kfid_profile *prof, uint64_t flags)
{
	struct kfi_profile *p = kfi_profile_of(prof);
	struct kfi_profile_snap *snap, *old;
	int ret;

	if (kfi_in_callback())
		return -KFI_EBUSY;
	if (flags)
		return -KFI_EINVAL;
	snap = kfi_profile_snapshot(p);
	if (!snap)
		return -KFI_ENOMEM;
	ret = kfi_profile_set_snap(p, snap, &old);
	if (ret)
		kfi_profile_snap_free(snap);
	return ret;
}
EXPORT_SYMBOL_GPL(kfi_profile_start_reads);

/**
 * kfi_profile_end_reads() - the mirror of kfi_profile_start_reads()
 * @prof: the profile
 * @flags: 0
 *
 * Context: process, may sleep; not in a callback; takes profile->lock.
 * Return: 0; -EINVAL for flags, or if it was not started; -EBUSY in a callback.
 */
int kfi_profile_end_reads(struct kfid_profile *prof, uint64_t flags)
{
	struct kfi_profile_snap *old;

	if (kfi_in_callback())
		return -KFI_EBUSY;
	if (flags)
		return -KFI_EINVAL;
	kfi_profile_set_snap(kfi_profile_of(prof), NULL, &old);
	kfi_profile_snap_free(old);
	return old ? 0 : -KFI_EINVAL;
}
EXPORT_SYMBOL_GPL(kfi_profile_end_reads);
