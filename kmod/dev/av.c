// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Address vectors. The provider gets one address at a time, because the distance
 * between two addresses is the caller's and a provider might read beyond it.
 *
 * obj->readers is held from an insert until its answer is written. So no other call can
 * remove an address that may have to be taken back, and no other address can get its
 * kfi_addr meanwhile.
 */
#include <linux/pagemap.h>
#include <linux/slab.h>

#include "kfd.h"

static struct kfd_obj *kfd_pin_av(struct kfd_call *call, u32 handle)
{
	return kfd_pin(call, handle, KFD_CLASS(KFI_CLASS_AV));
}

/**
 * kfd_av_open() - KFAB_IOC_AV_OPEN
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_av_open.
 */
long kfd_av_open(struct kfd_call *call)
{
	struct kfab_av_open *arg = call->arg;
	struct kfi_av_attr attr = {
		.type = arg->type,
		.rx_ctx_bits = arg->rx_ctx_bits,
		.count = arg->count,
		.ep_per_node = arg->ep_per_node,
	};
	struct kfd_obj *domain, *obj;
	struct kfid_domain *fid;
	struct kfid_av *av;
	int ret;

	if (arg->type > KFI_AV_TABLE || arg->rx_ctx_bits > 63)
		return -EINVAL;
	/* Users have no asynchronous inserts. */
	if (arg->av_flags)
		return arg->av_flags == KFI_EVENT ? -EOPNOTSUPP : -EINVAL;
	domain = kfd_pin(call, arg->domain, KFD_CLASS(KFI_CLASS_DOMAIN));
	if (IS_ERR(domain))
		return PTR_ERR(domain);
	fid = kfd_domain_of(domain);
	if (!KFD_HAS(fid->ops, av_open))
		return -EOPNOTSUPP;
	obj = kfd_open_begin(call, KFI_CLASS_AV, arg->context);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	ret = kfi_av_open(fid, &attr, &av, obj);
	if (!ret)
		kfd_open_done(obj, &av->fid, &arg->out_handle, &arg->out_id);
	return ret;
}

/* Undo an insert. A failure is a bug and changes nothing for the caller. */
static void kfd_av_take_back(struct kfd_obj *obj, kfi_addr_t addr)
{
	lockdep_assert_held(&obj->readers);
	if (addr != KFI_ADDR_NOTAVAIL)
		WARN_ON_ONCE(kfi_av_remove(kfd_av_of(obj), &addr, 1, 0));
}

/* Filled up with zeros, for a provider that reads a longer address. */
static int kfd_av_insert_one(struct kfid_av *av, const void *from, u32 len,
			     u64 flags, kfi_addr_t *out)
{
	u64 addr[KFAB_ADDR_MAX / sizeof(u64)] = {};
	int ret, err = 0;

	memcpy(addr, from, len);
	ret = kfi_av_insert(av, addr, 1, out, flags | KFI_SYNC_ERR, &err);
	return ret ?: -err;
}

/* Return: how many were inserted; if none, the error of the last one. */
static long kfd_av_insert_all(struct kfid_av *av,
			      const struct kfab_av_insert *arg,
			      const void *addrs, kfi_addr_t *out)
{
	long done = 0;
	int ret = 0;
	u32 i;

	for (i = 0; i < arg->count; i++) {
		ret = kfd_av_insert_one(av, addrs + (size_t)i * arg->addr_len,
					arg->addr_len, arg->insert_flags,
					&out[i]);
		if (ret > 0)
			done += ret;
		else
			out[i] = KFI_ADDR_NOTAVAIL;
		cond_resched();
	}
	return done ?: ret;
}

static long kfd_av_insert_out(struct kfd_obj *obj,
			      const struct kfab_av_insert *arg,
			      const void *addrs, kfi_addr_t *out)
{
	char __user *to = u64_to_user_ptr(arg->out_addrs);
	long done;
	u32 i;

	lockdep_assert_held(&obj->readers);
	/*
	 * Undoing an insert does not undo that its slot of a table was used, so find
	 * out before whether the answer can be written. This changes nothing there.
	 */
	if (fault_in_safe_writeable(to, arg->count * sizeof(*out)))
		return -EFAULT;
	done = kfd_av_insert_all(kfd_av_of(obj), arg, addrs, out);
	if (done < 0)
		return done;
	if (!copy_to_user(to, out, arg->count * sizeof(*out)))
		return done;
	for (i = 0; i < arg->count; i++)
		kfd_av_take_back(obj, out[i]);
	return -EFAULT;
}

/**
 * kfd_av_insert() - KFAB_IOC_AV_INSERT
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers.
 * Return: the number of addresses inserted, or a negative errno as listed at struct
 * kfab_av_insert.
 */
long kfd_av_insert(struct kfd_call *call)
{
	const struct kfab_av_insert *arg = call->arg;
	struct kfd_obj *obj;
	kfi_addr_t *out;
	void *addrs;
	long ret;

	if (!arg->count || arg->count > KFAB_AV_INSERT_MAX || !arg->addr_len ||
	    arg->addr_len > KFAB_ADDR_MAX || arg->insert_flags & ~KFI_MORE)
		return -EINVAL;
	obj = kfd_pin_av(call, arg->av);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (!KFD_HAS(kfd_av_of(obj)->ops, insert))
		return -EOPNOTSUPP;
	out = kcalloc(arg->count, sizeof(*out), GFP_KERNEL_ACCOUNT);
	if (!out)
		return -ENOMEM;
	addrs = kfd_dup_user(arg->addrs, (size_t)arg->count * arg->addr_len);
	ret = PTR_ERR_OR_ZERO(addrs);
	if (!ret) {
		ret = mutex_lock_killable(&obj->readers);
		if (!ret) {
			ret = kfd_av_insert_out(obj, arg, addrs, out);
			mutex_unlock(&obj->readers);
		}
		kvfree(addrs);
	}
	kfree(out);
	return ret;
}

static long kfd_av_insert_text(struct kfd_call *call, struct kfd_obj *obj,
			       const char *node, const char *service)
{
	struct kfab_av_insertsvc *arg = call->arg;
	kfi_addr_t addr = KFI_ADDR_NOTAVAIL;
	int ret, err = EINVAL;

	lockdep_assert_held(&obj->readers);
	ret = kfd_answer(call);
	if (ret)
		return ret;
	call->answered = false;
	ret = kfi_av_insertsvc(kfd_av_of(obj), node, service, &addr,
			       arg->insert_flags | KFI_SYNC_ERR, &err);
	if (ret < 1)
		return ret ?: -err;
	arg->out_addr = addr;
	/* The caller does not learn the address's kfi_addr, so it must not stay. */
	if (!kfd_answer(call))
		return ret;
	kfd_av_take_back(obj, addr);
	return -EFAULT;
}

/**
 * kfd_av_insertsvc() - KFAB_IOC_AV_INSERTSVC
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers.
 * Return: 1, or a negative errno as listed at struct kfab_av_insertsvc.
 */
long kfd_av_insertsvc(struct kfd_call *call)
{
	struct kfab_av_insertsvc *arg = call->arg;
	char *node, *service;
	struct kfd_obj *obj;
	long ret;

	if (arg->insert_flags & ~KFI_MORE)
		return -EINVAL;
	obj = kfd_pin_av(call, arg->av);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (!KFD_HAS(kfd_av_of(obj)->ops, insertsvc))
		return -EOPNOTSUPP;
	node = kfd_string_user(arg->node);
	if (IS_ERR(node))
		return PTR_ERR(node);
	service = kfd_string_user(arg->service);
	if (IS_ERR(service)) {
		kfree(node);
		return PTR_ERR(service);
	}
	ret = mutex_lock_killable(&obj->readers);
	if (!ret) {
		ret = kfd_av_insert_text(call, obj, node, service);
		mutex_unlock(&obj->readers);
	}
	kfree(service);
	kfree(node);
	return ret;
}

/**
 * kfd_av_remove() - KFAB_IOC_AV_REMOVE
 * @call: the call in progress
 *
 * Context: Process, may sleep. Takes obj->readers.
 * Return: 0, or a negative errno as listed at struct kfab_av_remove.
 */
long kfd_av_remove(struct kfd_call *call)
{
	const struct kfab_av_remove *arg = call->arg;
	struct kfd_obj *obj;
	kfi_addr_t *addrs;
	int ret;

	if (!arg->count || arg->count > KFAB_AV_INSERT_MAX || arg->remove_flags)
		return -EINVAL;
	obj = kfd_pin_av(call, arg->av);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (!KFD_HAS(kfd_av_of(obj)->ops, remove))
		return -EOPNOTSUPP;
	addrs = kfd_dup_user(arg->addrs, arg->count * sizeof(*addrs));
	if (IS_ERR(addrs))
		return PTR_ERR(addrs);
	ret = mutex_lock_killable(&obj->readers);
	if (!ret) {
		ret = kfi_av_remove(kfd_av_of(obj), addrs, arg->count, 0);
		mutex_unlock(&obj->readers);
	}
	kvfree(addrs);
	return ret;
}

/**
 * kfd_av_lookup() - KFAB_IOC_AV_LOOKUP
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: 0, or a negative errno as listed at struct kfab_av_lookup.
 */
long kfd_av_lookup(struct kfd_call *call)
{
	struct kfab_av_lookup *arg = call->arg;
	u64 addr[KFAB_ADDR_MAX / sizeof(u64)] = {};
	size_t len = sizeof(addr);
	struct kfd_obj *obj;
	int ret;

	obj = kfd_pin_av(call, arg->av);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (!KFD_HAS(kfd_av_of(obj)->ops, lookup))
		return -EOPNOTSUPP;
	ret = kfi_av_lookup(kfd_av_of(obj), arg->kfi_addr, addr, &len);
	if (ret)
		return ret;
	return kfd_addr_put(arg->addr, &arg->addr_len, addr, min(len, sizeof(addr)));
}

/**
 * kfd_av_straddr() - KFAB_IOC_AV_STRADDR
 * @call: the call in progress
 *
 * Context: Process, may sleep.
 * Return: the length of the text, or a negative errno as listed at struct
 * kfab_av_straddr.
 */
long kfd_av_straddr(struct kfd_call *call)
{
	const struct kfab_av_straddr *arg = call->arg;
	u64 addr[KFAB_ADDR_MAX / sizeof(u64)] = {};
	char text[2 * KFAB_ADDR_MAX] = "";
	size_t len = sizeof(text);
	struct kfd_obj *obj;

	if (!arg->buf_size || !arg->addr_len || arg->addr_len > KFAB_ADDR_MAX)
		return -EINVAL;
	obj = kfd_pin_av(call, arg->av);
	if (IS_ERR(obj))
		return PTR_ERR(obj);
	if (!KFD_HAS(kfd_av_of(obj)->ops, straddr))
		return -EOPNOTSUPP;
	if (copy_from_user(addr, u64_to_user_ptr(arg->addr), arg->addr_len))
		return -EFAULT;
	kfi_av_straddr(kfd_av_of(obj), addr, text, &len);
	text[sizeof(text) - 1] = 0;
	return kfd_text_put(arg->buf, arg->buf_size, text);
}
