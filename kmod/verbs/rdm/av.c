// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Address vectors: insert, remove and look up addresses of endpoints.
 *
 * An address is packed into one word, an entry of an xarray: a vector needs no
 * memory of its own for it, and a lookup while posting or reporting takes no
 * lock (RCU, inside xa_load()). A second xarray leads from address to index,
 * for the source of a completion. Changes are serialised by kfr_av.lock; a
 * lookup may see one xarray changed and the other one not yet.
 */
#include <linux/slab.h>

#include "rdm.h"

#define KFR_AV_MAX	BIT(20)
#define KFR_AV_FLAGS	(KFI_MORE | KFI_SYNC_ERR)

static struct kfr_av *kfr_av_of(struct kfid_av *av)
{
	return container_of(av, struct kfr_av, av);
}

/**
 * kfr_av_find() - look up the ULP's name of an endpoint
 * @av: the vector
 * @addr: as returned by insertion, perhaps with a receive context in it
 * @to: out: the endpoint's address
 * @rx: out: the index of the receive context
 *
 * Context: any; no lock needed. A concurrent removal may be seen or not.
 * Return: 0 or -EINVAL: it is not in the vector.
 */
int kfr_av_find(const struct kfr_av *av, kfi_addr_t addr,
		struct kfr_addr *to, u16 *rx)
{
	kfi_addr_t base = addr;
	void *entry;

	*rx = 0;
	if (av->rx_bits) {
		*rx = addr >> (64 - av->rx_bits);
		base = addr << av->rx_bits >> av->rx_bits;
	}
	entry = base < KFR_AV_MAX ?
		xa_load((struct xarray *)&av->addrs, base) : NULL;
	if (!entry)
		return kfv_refuse(-EINVAL, "no such address in the vector");
	*to = kfr_addr_unpack(xa_to_value(entry));
	return 0;
}

/**
 * kfr_av_source() - the ULP's name for the source of a message
 * @av: the vector
 * @addr: the source
 *
 * Context: any; no lock needed.
 * Return: the name, or KFI_ADDR_NOTAVAIL: it was not inserted.
 */
kfi_addr_t kfr_av_source(struct kfr_av *av, struct kfr_addr addr)
{
	void *entry = xa_load(&av->index, kfr_addr_pack(addr));

	return entry ? xa_to_value(entry) : KFI_ADDR_NOTAVAIL;
}

/* A table uses indices in the order of calls, a map the lowest free one. */
static int kfr_av_store(struct kfr_av *av, unsigned long packed, u32 *index)
{
	void *value = xa_mk_value(packed);

	lockdep_assert_held(&av->lock);
	if (av->type == KFI_AV_MAP)
		return xa_alloc(&av->addrs, index, value,
				XA_LIMIT(0, KFR_AV_MAX - 1), GFP_KERNEL);
	*index = av->next;
	return xa_err(xa_store(&av->addrs, *index, value, GFP_KERNEL));
}

static int kfr_av_add(struct kfr_av *av, struct kfr_addr addr, u32 *index)
{
	unsigned long packed = kfr_addr_pack(addr);
	int err;

	lockdep_assert_held(&av->lock);
	if (!addr.ip || !addr.id)
		return -EINVAL;
	err = kfr_av_store(av, packed, index);
	if (err)
		return err;
	/* Of several indices of one endpoint, the first is reported as source. */
	err = xa_insert(&av->index, packed, xa_mk_value(*index), GFP_KERNEL);
	if (err == -EBUSY) {
		av->more++;
		return 0;
	}
	if (err)
		xa_erase(&av->addrs, *index);
	return err;
}

/**
 * struct kfr_insert - one call that inserts, on its stack
 * @av: the vector
 * @context: the ULP's
 * @to: out: the names; may be NULL with a table
 * @errors: out: with KFI_SYNC_ERR: an errno for each address
 * @at: addresses handled so far
 * @done: addresses inserted so far
 */
struct kfr_insert {
	struct kfr_av *av;
	void *context;
	kfi_addr_t *to;
	int *errors;
	size_t at;
	size_t done;
};

/*
 * If the EQ's own slots are full, the event is left out: the completion's count of
 * addresses shows that one has failed, and KFI_ADDR_NOTAVAIL which.
 */
static void kfr_insert_failed(struct kfr_insert *in, int err)
{
	struct kfi_eq_err_entry entry = {
		.fid = &in->av->av.fid,
		.context = in->context,
		.data = in->at,
		.err = -err,
	};

	lockdep_assert_held(&in->av->lock);
	if (in->av->events)
		kfi_eq_report_err(in->av->eq, NULL, &entry);
}

/*
 * Inserts one address, or reports @err for it. Either way it uses up an index.
 */
static void kfr_insert_one(struct kfr_insert *in, struct kfr_addr addr, int err)
{
	struct kfr_av *av = in->av;
	u32 index = 0;

	lockdep_assert_held(&av->lock);
	if (!err && av->type == KFI_AV_TABLE && av->next == KFR_AV_MAX)
		err = -ENOSPC;
	if (!err)
		err = kfr_av_add(av, addr, &index);
	if (in->to)
		in->to[in->at] = err ? KFI_ADDR_NOTAVAIL : index;
	if (in->errors)
		in->errors[in->at] = -err;
	if (err)
		kfr_insert_failed(in, err);
	else
		in->done++;
	if (av->type == KFI_AV_TABLE && av->next < KFR_AV_MAX)
		av->next++;
	in->at++;
}

/* Checks the call, and takes the lock; kfr_insert_end() drops it. */
static int kfr_insert_begin(struct kfr_insert *in, struct kfid_av *fid,
			    kfi_addr_t *to, u64 flags, void *context)
{
	struct kfr_av *av = kfr_av_of(fid);

	if (flags & ~KFR_AV_FLAGS)
		return -KFI_EBADFLAGS;
	if (av->events && !av->eq)
		return -KFI_ENOEQ;
	if (!to && av->type == KFI_AV_MAP)
		return -EINVAL;
	if (flags & KFI_SYNC_ERR && (av->events || !context))
		return -EINVAL;
	in->av = av;
	in->context = context;
	in->to = to;
	if (flags & KFI_SYNC_ERR)
		in->errors = context;
	if (mutex_lock_killable(&av->lock))
		return -EINTR;
	/* The lock keeps the slot that is seen free here for kfr_insert_end(). */
	if (av->events && kfi_eq_share_full(av->eq, &av->completions)) {
		mutex_unlock(&av->lock);
		return -EAGAIN;
	}
	return 0;
}

/*
 * Return: addresses inserted; with events, addresses handled, as each is
 * reported.
 */
static int kfr_insert_end(struct kfr_insert *in)
{
	struct kfr_av *av = in->av;
	struct kfi_eq_entry entry = {
		.fid = &av->av.fid,
		.context = in->context,
		.data = in->done,
	};
	struct kfi_event event = {
		.event = KFI_AV_COMPLETE,
		.buf = &entry,
		.len = sizeof(entry),
	};

	int handled = av->events ? in->at : in->done;

	lockdep_assert_held(&av->lock);
	/*
	 * Whoever reads the event may close the AV. The close waits for the lock, and RCU
	 * for the rest of mutex_unlock().
	 */
	rcu_read_lock();
	if (av->events)
		kfi_eq_report(av->eq, &av->completions, &event);
	mutex_unlock(&av->lock);
	rcu_read_unlock();
	return handled;
}

static int kfr_av_insert(struct kfid_av *fid, const void *addr, size_t count,
			 kfi_addr_t *to, u64 flags, void *context)
{
	struct kfr_insert in = { };
	const struct kfr_format *format;
	struct kfr_addr one;
	int err;

	if (!addr || count > KFR_AV_MAX)
		return -EINVAL;
	err = kfr_insert_begin(&in, fid, to, flags, context);
	if (err)
		return err;
	format = &in.av->rdm->format;
	while (in.at < count) {
		err = kfr_addr_read(format, addr, &one);
		kfr_insert_one(&in, one, err);
		addr += kfr_addr_size(format);
	}
	return kfr_insert_end(&in);
}

static int kfr_av_insertsvc(struct kfid_av *fid, const char *node,
			    const char *service, kfi_addr_t *to, u64 flags,
			    void *context)
{
	struct kfr_insert in = { };
	struct kfr_addr addr = { };
	int err;

	if (!node || !service)
		return -EINVAL;
	err = kfr_insert_begin(&in, fid, to, flags, context);
	if (err)
		return err;
	if (kfr_addr_parse(&in.av->rdm->format, node, service, &addr))
		err = -EINVAL;
	kfr_insert_one(&in, addr, err);
	if (!in.av->events && err) {
		mutex_unlock(&in.av->lock);
		return err;
	}
	return kfr_insert_end(&in);
}

/* All services, counting up, for each node, counting up. */
static int kfr_av_insertsym(struct kfid_av *fid, const char *node,
			    size_t nodecnt, const char *service, size_t svccnt,
			    kfi_addr_t *to, u64 flags, void *context)
{
	struct kfr_addr first = { }, addr;
	struct kfr_insert in = { };
	size_t n, s;
	int err;

	if (!node || !service || !nodecnt || !svccnt ||
	    nodecnt > KFR_AV_MAX || svccnt > KFR_AV_MAX / nodecnt)
		return -EINVAL;
	err = kfr_insert_begin(&in, fid, to, flags, context);
	if (err)
		return err;
	if (kfr_addr_parse(&in.av->rdm->format, node, service, &first))
		err = -EINVAL;
	for (n = 0; n < nodecnt; n++) {
		for (s = 0; s < svccnt; s++) {
			addr.ip = cpu_to_be32(be32_to_cpu(first.ip) + n);
			addr.id = first.id + s;
			kfr_insert_one(&in, addr, err ? err :
				       first.id + s > U16_MAX ? -EINVAL : 0);
		}
	}
	return kfr_insert_end(&in);
}

/*
 * The reported index of an address is removed: find another one, if there may
 * be one. Searching all is rare: only with addresses that were inserted twice.
 */
static void kfr_av_rename(struct kfr_av *av, unsigned long packed)
{
	unsigned long index;
	void *entry;

	lockdep_assert_held(&av->lock);
	if (!av->more) {
		xa_erase(&av->index, packed);
		return;
	}
	xa_for_each(&av->addrs, index, entry) {
		cond_resched();
		if (xa_to_value(entry) != packed)
			continue;
		xa_store(&av->index, packed, xa_mk_value(index), GFP_KERNEL);
		av->more--;
		return;
	}
	xa_erase(&av->index, packed);
}

static void kfr_av_remove_one(struct kfr_av *av, unsigned long index)
{
	unsigned long packed;
	void *entry;

	lockdep_assert_held(&av->lock);
	entry = xa_erase(&av->addrs, index);
	if (!entry)
		return;
	packed = xa_to_value(entry);
	entry = xa_load(&av->index, packed);
	if (entry && xa_to_value(entry) == index)
		kfr_av_rename(av, packed);
	else
		av->more--;
}

static int kfr_av_remove(struct kfid_av *fid, kfi_addr_t *addrs, size_t count,
			 u64 flags)
{
	struct kfr_av *av = kfr_av_of(fid);
	size_t i;

	if (flags || !addrs)
		return -EINVAL;
	if (mutex_lock_killable(&av->lock))
		return -EINTR;
	for (i = 0; i < count; i++)
		if (addrs[i] >= KFR_AV_MAX || !xa_load(&av->addrs, addrs[i]))
			break;
	if (i < count) {
		mutex_unlock(&av->lock);
		return -EINVAL;
	}
	/*
	 * A removal may search all addresses, so a killed task stops early. It
	 * does not learn how many are gone; the first one always is.
	 */
	for (i = 0; i < count && !(i && fatal_signal_pending(current)); i++)
		kfr_av_remove_one(av, addrs[i]);
	mutex_unlock(&av->lock);
	return i < count ? -EINTR : 0;
}

static int kfr_av_lookup(struct kfid_av *fid, kfi_addr_t addr, void *to,
			 size_t *len)
{
	const struct kfr_av *av = kfr_av_of(fid);
	const struct kfr_format *format = &av->rdm->format;
	u8 room[sizeof(struct sockaddr_in)];
	struct kfr_addr found;
	u16 rx;

	if (!len || (!to && *len) || kfr_av_find(av, addr, &found, &rx))
		return -EINVAL;
	kfr_addr_write(format, found, room);
	if (to)
		memcpy(to, room, min(*len, kfr_addr_size(format)));
	*len = kfr_addr_size(format);
	return 0;
}

static const char *kfr_av_straddr(struct kfid_av *fid, const void *addr,
				  char *buf, size_t *len)
{
	const struct kfr_av *av = kfr_av_of(fid);
	struct kfr_addr read;
	size_t need;

	if (!addr || !len || (!buf && *len))
		return NULL;
	if (kfr_addr_read(&av->rdm->format, addr, &read))
		need = snprintf(buf, *len, "(no address)");
	else
		need = kfr_addr_print(&av->rdm->format, read, buf, *len);
	*len = need + 1;
	return buf;
}

static struct kfi_ops_av kfr_av_ops = {
	.size = sizeof(struct kfi_ops_av),
	.insert = kfr_av_insert,
	.insertsvc = kfr_av_insertsvc,
	.insertsym = kfr_av_insertsym,
	.remove = kfr_av_remove,
	.lookup = kfr_av_lookup,
	.straddr = kfr_av_straddr,
};

static int kfr_av_bind_eq(struct kfr_av *av, struct kfid_eq *eq)
{
	int err;

	lockdep_assert_held(&av->lock);
	if (av->eq)
		return -EINVAL;
	err = kfi_eq_share_init(&av->completions, kfi_eq_size(eq));
	if (err)
		return err;
	if (!kfi_fid_get(&eq->fid)) {
		kfi_eq_share_fini(&av->completions);
		return -EINVAL;
	}
	av->eq = eq;
	return 0;
}

static int kfr_av_bind(struct kfid *fid, struct kfid *bfid, u64 flags)
{
	struct kfr_av *av = container_of(fid, struct kfr_av, av.fid);
	int err;

	if (!bfid || bfid->fclass != KFI_CLASS_EQ || flags)
		return -EINVAL;
	mutex_lock(&av->lock);
	err = kfr_av_bind_eq(av, container_of(bfid, struct kfid_eq, fid));
	mutex_unlock(&av->lock);
	return err;
}

/* xa_destroy() frees what is left, with interrupts off: nothing, for a big vector. */
static void kfr_av_empty(struct xarray *xa)
{
	unsigned long i;
	void *entry;

	xa_for_each(xa, i, entry) {
		xa_erase(xa, i);
		cond_resched();
	}
	xa_destroy(xa);
}

static int kfr_av_close(struct kfid *fid)
{
	struct kfr_av *av = container_of(fid, struct kfr_av, av.fid);
	int err;

	err = kfi_fid_kill(fid);
	if (err)
		return err;
	/* An insertion whose event was read may not have returned: kfr_insert_end(). */
	mutex_lock(&av->lock);
	mutex_unlock(&av->lock);
	if (av->eq) {
		kfi_eq_forget(av->eq, &av->completions, fid);
		kfi_eq_forget(av->eq, NULL, fid);
		kfi_eq_share_fini(&av->completions);
		kfi_fid_put(&av->eq->fid);
	}
	kfr_av_empty(&av->addrs);
	kfr_av_empty(&av->index);
	mutex_destroy(&av->lock);
	kfi_fid_put(&av->rdm->domain->base.domain.fid);
	kfree_rcu(av, rcu);
	return 0;
}

static struct kfi_ops kfr_av_fid_ops = {
	.size = sizeof(struct kfi_ops),
	.close = kfr_av_close,
	.bind = kfr_av_bind,
	.control = kfi_no_control,
	.ops_open = kfi_no_ops_open,
};

static int kfr_av_check(const struct kfi_av_attr *attr)
{
	if (attr->type > KFI_AV_TABLE || attr->rx_ctx_bits < 0 ||
	    attr->rx_ctx_bits > KFR_RX_BITS_MAX)
		return -EINVAL;
	return attr->name || attr->map_addr || attr->flags & ~KFI_EVENT ||
	       attr->count > KFR_AV_MAX ? -EINVAL : 0;
}

/**
 * kfr_av_open() - kfi_av_open() for RDM endpoints
 * @fid: a domain
 * @attr: attributes; out: the type
 * @ret: out: the vector
 * @context: the ULP's
 *
 * It holds a reference to the domain, and endpoints to it: so it closes after
 * them.
 *
 * Context: process, may sleep; no lock held.
 * Return: 0; -KFI_ENOSYS: a domain of connected endpoints; -EINVAL: unsupported
 * attributes; -ENODEV; -ENOMEM.
 */
int kfr_av_open(struct kfid_domain *fid, struct kfi_av_attr *attr,
		struct kfid_av **ret, void *context)
{
	struct kfv_domain *domain = kfv_domain_of(fid);
	struct kfr_av *av;

	if (!domain->rdm)
		return -KFI_ENOSYS;
	if (!attr || !ret || kfr_av_check(attr))
		return -EINVAL;
	if (kfv_gone(domain->dev))
		return -ENODEV;
	av = kzalloc(sizeof(*av), GFP_KERNEL_ACCOUNT);
	if (!av)
		return -ENOMEM;
	if (!kfi_fid_get(&fid->fid)) {
		kfree(av);
		return -EINVAL;
	}
	attr->type = attr->type ? attr->type : KFI_AV_MAP;
	kfi_fid_init(&av->av.fid, KFI_CLASS_AV, context, &kfr_av_fid_ops);
	av->av.ops = &kfr_av_ops;
	av->rdm = domain->rdm;
	av->type = attr->type;
	av->rx_bits = attr->rx_ctx_bits;
	av->events = attr->flags & KFI_EVENT;
	mutex_init(&av->lock);
	xa_init_flags(&av->addrs, XA_FLAGS_ALLOC | XA_FLAGS_ACCOUNT);
	xa_init_flags(&av->index, XA_FLAGS_ACCOUNT);
	*ret = &av->av;
	return 0;
}
