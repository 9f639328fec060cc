/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Domains and the objects opened on them: address vectors, memory regions, CQs,
 * counters, wait sets and poll sets.
 *
 * Memory registration: @access names the use of the region, as a local buffer
 * or as a remote target. A peer needs the key and the remote address. With
 * KFI_MR_ENDPOINT in the domain's mr_mode, a region is unusable until it is
 * bound and enabled. If an EQ is bound to the domain with KFI_REG_MR, it gets
 * KFI_MR_COMPLETE (kfi_eq_entry: fid and context of the region) for each region
 * that has become usable: one whose registration, or with KFI_MR_ENDPOINT whose
 * kfi_mr_enable(), returns 0. The region is stored before the event can be read.
 *
 * The errors of registration are -KFI_EINVAL (access, offset, pointers, gaps
 * between the segments), -KFI_EBADFLAGS, -KFI_EKEYREJECTED (key out of range),
 * -KFI_ENOKEY (key in use; a provider may report this only when the region is
 * enabled), -KFI_ENOMEM and -KFI_ENODEV.
 */
#ifndef _KFI_DOMAIN_H_
#define _KFI_DOMAIN_H_

#include <linux/bvec.h>
#include <linux/scatterlist.h>
#include <linux/uio.h>

#include <kfabric.h>
#include <kfi_eq.h>

struct kfi_av_attr {
	enum kfi_av_type type;
	int rx_ctx_bits;		/* top bits for the receive context */
	size_t count;			/* expected number of addresses */
	size_t ep_per_node;		/* addresses on one node; 0: unknown */
	const char *name;		/* of a shared AV */
	void *map_addr;			/* of a shared AV */
	uint64_t flags;			/* KFI_EVENT, KFI_READ, KFI_SYMMETRIC */
};

struct kfi_ops_av {
	size_t size;
	int (*insert)(struct kfid_av *av, const void *addr, size_t count,
		      kfi_addr_t *kfi_addr, uint64_t flags, void *context);
	int (*insertsvc)(struct kfid_av *av, const char *node,
			 const char *service, kfi_addr_t *kfi_addr,
			 uint64_t flags, void *context);
	int (*insertsym)(struct kfid_av *av, const char *node, size_t nodecnt,
			 const char *service, size_t svccnt,
			 kfi_addr_t *kfi_addr, uint64_t flags, void *context);
	int (*remove)(struct kfid_av *av, kfi_addr_t *kfi_addr, size_t count,
		      uint64_t flags);
	int (*lookup)(struct kfid_av *av, kfi_addr_t kfi_addr, void *addr,
		      size_t *addrlen);
	const char *(*straddr)(struct kfid_av *av, const void *addr, char *buf,
			       size_t *len);
};

struct kfid_av {
	struct kfid fid;
	struct kfi_ops_av *ops;
};

struct kfid_mr {
	struct kfid fid;
	void *mem_desc;			/* kfi_mr_desc() */
	uint64_t key;			/* kfi_mr_key() */
	uint64_t iova;			/* remote address, KFI_MR_VIRT_ADDR */
};

/* Description of a region; type selects the pointer. */
struct kfi_mr_attr {
	enum kfi_iov_type type;
	union {
		const struct kvec *mr_iov;
		const struct bio_vec *mr_biov;
		const struct scatterlist *mr_sgl;
	};
	size_t iov_count;		/* segments */
	uint64_t access;
	uint64_t offset;		/* 0 */
	uint64_t requested_key;
	void *context;
	size_t auth_key_size;		/* bytes */
	uint8_t *auth_key;
};

struct kfi_mr_modify {
	uint64_t flags;
	struct kfi_mr_attr attr;	/* mr_iov and iov_count; type is 0 */
};

/* Elements of atomics. */
enum kfi_datatype {
	KFI_INT8,
	KFI_UINT8,
	KFI_INT16,
	KFI_UINT16,
	KFI_INT32,
	KFI_UINT32,
	KFI_INT64,
	KFI_UINT64,
	KFI_FLOAT,
	KFI_DOUBLE,
	KFI_FLOAT_COMPLEX,
	KFI_DOUBLE_COMPLEX,
	KFI_LONG_DOUBLE,
	KFI_LONG_DOUBLE_COMPLEX,
	KFI_DATATYPE_LAST		/* their number */
};

/* The operation of an atomic on each remote element. */
enum kfi_op {
	KFI_MIN,
	KFI_MAX,
	KFI_SUM,
	KFI_PROD,
	KFI_LOR,			/* L: logical, B: bitwise */
	KFI_LAND,
	KFI_BOR,
	KFI_BAND,
	KFI_LXOR,
	KFI_BXOR,
	KFI_ATOMIC_READ,
	KFI_ATOMIC_WRITE,
	KFI_CSWAP,			/* swap if equal */
	KFI_CSWAP_NE,			/* swap if not equal, and so on */
	KFI_CSWAP_LE,
	KFI_CSWAP_LT,
	KFI_CSWAP_GE,
	KFI_CSWAP_GT,
	KFI_MSWAP,			/* swap the bits set in compare */
	KFI_ATOMIC_OP_LAST		/* their number */
};

struct kfi_atomic_attr;

struct kfi_ops_domain {
	size_t size;
	int (*av_open)(struct kfid_domain *domain, struct kfi_av_attr *attr,
		       struct kfid_av **av, void *context);
	int (*cq_open)(struct kfid_domain *domain, struct kfi_cq_attr *attr,
		       struct kfid_cq **cq, kfi_comp_handler comp_handler,
		       void *context);
	int (*endpoint)(struct kfid_domain *domain, struct kfi_info *info,
			struct kfid_ep **ep, void *context);
	int (*scalable_ep)(struct kfid_domain *domain, struct kfi_info *info,
			   struct kfid_ep **sep, void *context);
	int (*cntr_open)(struct kfid_domain *domain, struct kfi_cntr_attr *attr,
			 struct kfid_cntr **cntr, void *context);
	int (*poll_open)(struct kfid_domain *domain, struct kfi_poll_attr *attr,
			 struct kfid_poll **pollset);
	int (*stx_ctx)(struct kfid_domain *domain, struct kfi_tx_attr *attr,
		       struct kfid_stx **stx, void *context);
	int (*srx_ctx)(struct kfid_domain *domain, struct kfi_rx_attr *attr,
		       struct kfid_ep **rx_ep, void *context);
	int (*query_atomic)(struct kfid_domain *domain,
			    enum kfi_datatype datatype, enum kfi_op op,
			    struct kfi_atomic_attr *attr, uint64_t flags);
};

struct kfi_ops_mr {
	size_t size;
	int (*reg)(struct kfid *fid, const void *buf, size_t len,
		   uint64_t access, uint64_t offset, uint64_t requested_key,
		   uint64_t flags, struct kfid_mr **mr, void *context);
	int (*regv)(struct kfid *fid, const struct kvec *iov, size_t count,
		    uint64_t access, uint64_t offset, uint64_t requested_key,
		    uint64_t flags, struct kfid_mr **mr, void *context);
	int (*regbv)(struct kfid *fid, const struct bio_vec *biov, size_t count,
		     uint64_t access, uint64_t offset, uint64_t requested_key,
		     uint64_t flags, struct kfid_mr **mr, void *context);
	int (*regattr)(struct kfid *fid, const struct kfi_mr_attr *attr,
		       uint64_t flags, struct kfid_mr **mr);
	int (*regsgl)(struct kfid *fid, const struct scatterlist *sgl,
		      size_t count, uint64_t access, uint64_t offset,
		      uint64_t requested_key, uint64_t flags,
		      struct kfid_mr **mr, void *context);
};

struct kfid_domain {
	struct kfid fid;
	struct kfi_ops_domain *ops;
	struct kfi_ops_mr *mr;
};

#ifdef KFABRIC_DIRECT
#include <kfi_direct_domain.h>
#else /* !KFABRIC_DIRECT */

/**
 * kfi_domain() - open a domain (a device and port)
 * @fabric: the fabric
 * @info: from kfi_getinfo(); domain_attr selects the domain
 * @domain: where the domain is stored
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL, -KFI_ENODEV or -KFI_ENODATA if the device is lost,
 *	-KFI_ENOMEM.
 */
static inline int kfi_domain(struct kfid_fabric *fabric, struct kfi_info *info,
			     struct kfid_domain **domain, void *context)
{
	return fabric->ops->domain(fabric, info, domain, context);
}

/**
 * kfi_domain_bind() - bind an event queue to a domain
 * @domain: the domain
 * @fid: the EQ
 * @flags: KFI_REG_MR: each later registration reports KFI_MR_COMPLETE there
 *
 * The EQ cannot be closed (-KFI_EBUSY) before the domain.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL if it is not an EQ, or of another fabric, or an EQ is
 *	bound already, -KFI_ENOSYS for other flags.
 */
static inline int kfi_domain_bind(struct kfid_domain *domain, struct kfid *fid,
				  uint64_t flags)
{
	return domain->fid.ops->bind(&domain->fid, fid, flags);
}

/**
 * kfi_cq_open() - open a completion queue
 * @domain: the domain
 * @attr: size, format and wait object, or NULL
 * @cq: where the queue is stored
 * @comp_handler: called when the queue becomes readable, or NULL
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL for a bad attribute, -KFI_ENOSYS if a flag or the wait
 *	object is not supported, -KFI_ENOSPC, -KFI_ENOMEM.
 */
static inline int kfi_cq_open(struct kfid_domain *domain,
			      struct kfi_cq_attr *attr, struct kfid_cq **cq,
			      kfi_comp_handler comp_handler, void *context)
{
	return domain->ops->cq_open(domain, attr, cq, comp_handler, context);
}

/**
 * kfi_cntr_open() - open a counter
 * @domain: the domain
 * @attr: events to count and wait object, or NULL
 * @cntr: where the counter is stored
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL for a bad attribute, -KFI_ENOSYS if the wait object or
 *	counters are not supported, -KFI_ENOMEM.
 */
static inline int kfi_cntr_open(struct kfid_domain *domain,
				struct kfi_cntr_attr *attr,
				struct kfid_cntr **cntr, void *context)
{
	return domain->ops->cntr_open(domain, attr, cntr, context);
}

/**
 * kfi_wait_open() - open a wait set
 * @fabric: the fabric
 * @attr: the wait object: KFI_WAIT_UNSPEC, KFI_WAIT_QUEUE or
 *	KFI_WAIT_MUTEX_COND; NULL is KFI_WAIT_UNSPEC
 * @waitset: where the set is stored
 *
 * An object joins the set when it is opened with KFI_WAIT_SET and this set.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL for a bad attribute, -KFI_ENOSYS if the wait object or
 *	wait sets are not supported, -KFI_ENOMEM.
 */
static inline int kfi_wait_open(struct kfid_fabric *fabric,
				struct kfi_wait_attr *attr,
				struct kfid_wait **waitset)
{
	return fabric->ops->wait_open(fabric, attr, waitset);
}

/**
 * kfi_poll_open() - open a poll set
 * @domain: the domain
 * @attr: flags, 0
 * @pollset: where the set is stored
 *
 * Before closing, kfi_poll_del() each member: kfi_close() of a set with members, or of a
 * member, returns -KFI_EBUSY.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL if flags are given, -KFI_ENOSYS, -KFI_ENOMEM.
 */
static inline int kfi_poll_open(struct kfid_domain *domain,
				struct kfi_poll_attr *attr,
				struct kfid_poll **pollset)
{
	return domain->ops->poll_open(domain, attr, pollset);
}

/**
 * kfi_mr_reg() - register one buffer
 * @domain: the domain
 * @buf: kernel virtual address
 * @len: bytes
 * @access: KFI_SEND, KFI_RECV, KFI_READ, KFI_WRITE, KFI_REMOTE_READ,
 *	KFI_REMOTE_WRITE
 * @offset: reserved, 0
 * @requested_key: remote key to use, unless the domain has KFI_MR_PROV_KEY
 * @flags: reserved, 0
 * @mr: where the region is stored
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, or an error of registration, see the top of kfi_domain.h.
 */
static inline int kfi_mr_reg(struct kfid_domain *domain, const void *buf,
			     size_t len, uint64_t access, uint64_t offset,
			     uint64_t requested_key, uint64_t flags,
			     struct kfid_mr **mr, void *context)
{
	return domain->mr->reg(&domain->fid, buf, len, access, offset,
			       requested_key, flags, mr, context);
}

/**
 * kfi_mr_regv() - register buffers as one region
 * @domain: the domain
 * @iov: the buffers; a peer sees one range, in this order
 * @count: number of buffers
 * @access: KFI_SEND, KFI_RECV, KFI_READ, KFI_WRITE, KFI_REMOTE_READ,
 *	KFI_REMOTE_WRITE
 * @offset: reserved, 0
 * @requested_key: remote key to use, unless the domain has KFI_MR_PROV_KEY
 * @flags: reserved, 0
 * @mr: where the region is stored
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, or an error of registration, see the top of kfi_domain.h.
 */
static inline int kfi_mr_regv(struct kfid_domain *domain,
			      const struct kvec *iov, size_t count,
			      uint64_t access, uint64_t offset,
			      uint64_t requested_key, uint64_t flags,
			      struct kfid_mr **mr, void *context)
{
	return domain->mr->regv(&domain->fid, iov, count, access, offset,
				requested_key, flags, mr, context);
}

/**
 * kfi_mr_regbv() - register pages as one region
 * @domain: the domain
 * @biov: the pages; a peer sees one range, in this order
 * @count: number of elements
 * @access: KFI_SEND, KFI_RECV, KFI_READ, KFI_WRITE, KFI_REMOTE_READ,
 *	KFI_REMOTE_WRITE
 * @offset: reserved, 0
 * @requested_key: remote key to use, unless the domain has KFI_MR_PROV_KEY
 * @flags: reserved, 0
 * @mr: where the region is stored
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, or an error of registration, see the top of kfi_domain.h.
 */
static inline int kfi_mr_regbv(struct kfid_domain *domain,
			       const struct bio_vec *biov, size_t count,
			       uint64_t access, uint64_t offset,
			       uint64_t requested_key, uint64_t flags,
			       struct kfid_mr **mr, void *context)
{
	return domain->mr->regbv(&domain->fid, biov, count, access, offset,
				 requested_key, flags, mr, context);
}

/**
 * kfi_mr_regsgl() - register a scatterlist as one region
 * @domain: the domain
 * @sgl: the list, DMA mapped by the caller
 * @count: number of mapped elements
 * @access: KFI_SEND, KFI_RECV, KFI_READ, KFI_WRITE, KFI_REMOTE_READ,
 *	KFI_REMOTE_WRITE
 * @offset: reserved, 0
 * @requested_key: remote key to use, unless the domain has KFI_MR_PROV_KEY
 * @flags: reserved, 0
 * @mr: where the region is stored
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, or an error of registration, see the top of kfi_domain.h.
 */
static inline int kfi_mr_regsgl(struct kfid_domain *domain,
				const struct scatterlist *sgl, size_t count,
				uint64_t access, uint64_t offset,
				uint64_t requested_key, uint64_t flags,
				struct kfid_mr **mr, void *context)
{
	return domain->mr->regsgl(&domain->fid, sgl, count, access, offset,
				  requested_key, flags, mr, context);
}

/**
 * kfi_mr_regattr() - register a region by its attributes
 * @domain: the domain
 * @attr: the region, its key, context and authorization key
 * @flags: reserved, 0
 * @mr: where the region is stored
 *
 * Context: Process context. May sleep.
 * Return: 0, or an error of registration, see the top of kfi_domain.h.
 */
static inline int kfi_mr_regattr(struct kfid_domain *domain,
				 const struct kfi_mr_attr *attr, uint64_t flags,
				 struct kfid_mr **mr)
{
	return domain->mr->regattr(&domain->fid, attr, flags, mr);
}

/**
 * kfi_mr_desc() - descriptor of a local buffer for the data calls
 * @mr: the region
 *
 * Context: Any.
 * Return: Opaque value; required with KFI_LOCAL_MR or KFI_MR_LOCAL.
 */
static inline void *kfi_mr_desc(struct kfid_mr *mr)
{
	return mr->mem_desc;
}

/**
 * kfi_mr_key() - remote key of a region
 * @mr: the region
 *
 * With KFI_MR_ENDPOINT, the key is valid after the region is enabled.
 *
 * Context: Any.
 * Return: The key, or KFI_KEY_NOTAVAIL.
 */
static inline uint64_t kfi_mr_key(struct kfid_mr *mr)
{
	return mr->key;
}

/**
 * kfi_mr_raw_attr() - get a key that is longer than 64 bits
 * @mr: the region
 * @base_addr: where the remote address is stored
 * @raw_key: where the key is stored
 * @key_size: bytes; in: room in @raw_key, out: the key's length
 * @flags: reserved, 0
 *
 * Only with KFI_MR_RAW in the domain's mr_mode.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ETOOSMALL if @key_size is too small, -KFI_ENOSYS.
 */
static inline int kfi_mr_raw_attr(struct kfid_mr *mr, uint64_t *base_addr,
				  uint8_t *raw_key, size_t *key_size,
				  uint64_t flags)
{
	struct kfi_mr_raw_attr attr = {
		.flags = flags,
		.base_addr = base_addr,
		.raw_key = raw_key,
		.key_size = key_size,
	};

	return mr->fid.ops->control(&mr->fid, KFI_GET_RAW_MR, &attr);
}

/**
 * kfi_mr_map_raw() - make a peer's raw key usable
 * @domain: the domain
 * @base_addr: remote address, from the peer
 * @raw_key: the key, from the peer
 * @key_size: bytes of @raw_key
 * @key: where the key for the RMA calls is stored
 * @flags: reserved, 0
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOSYS.
 */
static inline int kfi_mr_map_raw(struct kfid_domain *domain, uint64_t base_addr,
				 uint8_t *raw_key, size_t key_size,
				 uint64_t *key, uint64_t flags)
{
	struct kfi_mr_map_raw map = {
		.flags = flags,
		.base_addr = base_addr,
		.raw_key = raw_key,
		.key_size = key_size,
		.key = key,
	};

	return domain->fid.ops->control(&domain->fid, KFI_MAP_RAW_MR, &map);
}

/**
 * kfi_mr_unmap_key() - release a key of kfi_mr_map_raw()
 * @domain: the domain
 * @key: the key
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOSYS.
 */
static inline int kfi_mr_unmap_key(struct kfid_domain *domain, uint64_t key)
{
	return domain->fid.ops->control(&domain->fid, KFI_UNMAP_KEY, &key);
}

/**
 * kfi_mr_bind() - bind a region to an endpoint, receive context or counter
 * @mr: the region
 * @bfid: the object
 * @flags: 0, or KFI_REMOTE_WRITE for a counter
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL if already bound, -KFI_EBADFLAGS, -KFI_ENOSYS for a
 *	wrong kind of object.
 */
static inline int kfi_mr_bind(struct kfid_mr *mr, struct kfid *bfid,
			      uint64_t flags)
{
	return mr->fid.ops->bind(&mr->fid, bfid, flags);
}

/**
 * kfi_mr_refresh() - report that the pages of a part of a region have changed
 * @mr: the region
 * @iov: the changed parts
 * @count: number of parts
 * @flags: provider-specific
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOSYS.
 */
static inline int kfi_mr_refresh(struct kfid_mr *mr, const struct kvec *iov,
				 size_t count, uint64_t flags)
{
	struct kfi_mr_modify modify = {
		.flags = flags,
		.attr.mr_iov = iov,
		.attr.iov_count = count,
	};

	return mr->fid.ops->control(&mr->fid, KFI_REFRESH, &modify);
}

/**
 * kfi_mr_enable() - make a bound region usable
 * @mr: the region
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL if not bound, -KFI_ENOKEY if the key is in use,
 *	-KFI_ENOSYS.
 */
static inline int kfi_mr_enable(struct kfid_mr *mr)
{
	return mr->fid.ops->control(&mr->fid, KFI_ENABLE, NULL);
}

/**
 * kfi_av_open() - open an address vector
 * @domain: the domain
 * @attr: type and size; the provider replaces KFI_AV_UNSPEC by its choice
 * @av: where the vector is stored
 * @context: the caller's, kept in fid.context
 *
 * With KFI_EVENT in attr->flags, every insertion is asynchronous.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL for a bad attribute, -KFI_ENOSYS, -KFI_ENOMEM.
 */
static inline int kfi_av_open(struct kfid_domain *domain,
			      struct kfi_av_attr *attr, struct kfid_av **av,
			      void *context)
{
	return domain->ops->av_open(domain, attr, av, context);
}

/**
 * kfi_av_bind() - bind an event queue to an address vector
 * @av: the address vector
 * @fid: the EQ
 * @flags: reserved, 0
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL if it is not an EQ or an EQ is bound already,
 *	-KFI_ENOSYS.
 */
static inline int kfi_av_bind(struct kfid_av *av, struct kfid *fid,
			      uint64_t flags)
{
	return av->fid.ops->bind(&av->fid, fid, flags);
}

/**
 * kfi_av_insert() - insert addresses
 * @av: the address vector
 * @addr: array of addresses in the domain's format
 * @count: number of addresses
 * @kfi_addr: where one kfi_addr_t per address is stored
 * @flags: 0, KFI_MORE, or KFI_SYNC_ERR
 * @context: of the event; with KFI_SYNC_ERR an array of int for the errors
 *
 * With KFI_EVENT, @kfi_addr stays in use until KFI_AV_COMPLETE.
 *
 * Context: Process context. May sleep.
 * Return: Number of addresses inserted, or of insertions started; -KFI_EINVAL,
 *	-KFI_ENOEQ if the vector is asynchronous and has no EQ, -KFI_EAGAIN if it is
 *	and too many of its events are unread.
 */
static inline int kfi_av_insert(struct kfid_av *av, const void *addr,
				size_t count, kfi_addr_t *kfi_addr,
				uint64_t flags, void *context)
{
	return av->ops->insert(av, addr, count, kfi_addr, flags, context);
}

/**
 * kfi_av_insertsvc() - insert an address given as text
 * @av: the address vector
 * @node: as for kfi_getinfo()
 * @service: as for kfi_getinfo()
 * @kfi_addr: where the kfi_addr_t is stored
 * @flags: 0, KFI_MORE, or KFI_SYNC_ERR
 * @context: of the event; with KFI_SYNC_ERR an int for the error
 *
 * Context: Process context. May sleep.
 * Return: 1, -KFI_EINVAL, -KFI_ENOEQ if the vector is asynchronous and has no
 *	EQ, -KFI_EAGAIN as kfi_av_insert(), -KFI_ENOSYS.
 */
static inline int kfi_av_insertsvc(struct kfid_av *av, const char *node,
				   const char *service, kfi_addr_t *kfi_addr,
				   uint64_t flags, void *context)
{
	return av->ops->insertsvc(av, node, service, kfi_addr, flags, context);
}

/**
 * kfi_av_insertsym() - insert all pairs of a range of nodes and of services
 * @av: the address vector
 * @node: the first node; the number at its end is incremented
 * @nodecnt: number of nodes
 * @service: the first service; it is incremented
 * @svccnt: number of services for each node
 * @kfi_addr: where one kfi_addr_t per address is stored
 * @flags: 0, KFI_MORE, or KFI_SYNC_ERR
 * @context: of the event; with KFI_SYNC_ERR an array of int for the errors
 *
 * Context: Process context. May sleep.
 * Return: Number of addresses inserted, or of insertions started; -KFI_EINVAL,
 *	-KFI_ENOEQ, -KFI_ENOSYS.
 */
static inline int kfi_av_insertsym(struct kfid_av *av, const char *node,
				   size_t nodecnt, const char *service,
				   size_t svccnt, kfi_addr_t *kfi_addr,
				   uint64_t flags, void *context)
{
	return av->ops->insertsym(av, node, nodecnt, service, svccnt, kfi_addr,
				  flags, context);
}

/**
 * kfi_av_remove() - remove addresses
 * @av: the address vector
 * @kfi_addr: array of addresses in the vector
 * @count: number of addresses
 * @flags: reserved, 0
 *
 * No posted directed receive may name one of them.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL.
 */
static inline int kfi_av_remove(struct kfid_av *av, kfi_addr_t *kfi_addr,
				size_t count, uint64_t flags)
{
	return av->ops->remove(av, kfi_addr, count, flags);
}

/**
 * kfi_av_lookup() - get the address of a kfi_addr_t
 * @av: the address vector
 * @kfi_addr: an address in the vector
 * @addr: where the address is stored, truncated to the room
 * @addrlen: bytes; in: room in @addr, out: the full length
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_EINVAL if it is not in the vector.
 */
static inline int kfi_av_lookup(struct kfid_av *av, kfi_addr_t kfi_addr,
				void *addr, size_t *addrlen)
{
	return av->ops->lookup(av, kfi_addr, addr, addrlen);
}

/**
 * kfi_av_straddr() - format an address as text
 * @av: the address vector
 * @addr: an address in the vector's format, which need not be in the vector
 * @buf: where the text is stored, truncated to the room
 * @len: bytes; in: room in @buf, out: needed
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: @buf.
 */
static inline const char *kfi_av_straddr(struct kfid_av *av, const void *addr,
					 char *buf, size_t *len)
{
	return av->ops->straddr(av, addr, buf, len);
}

/**
 * kfi_rx_addr() - address of one receive context of a scalable endpoint
 * @kfi_addr: address of the endpoint
 * @rx_index: index of the context
 * @rx_ctx_bits: attribute of the address vector, more than 0
 *
 * Context: Any.
 * Return: The address of the context.
 */
static inline kfi_addr_t kfi_rx_addr(kfi_addr_t kfi_addr, int rx_index,
				     int rx_ctx_bits)
{
	return ((kfi_addr_t)rx_index << (64 - rx_ctx_bits)) | kfi_addr;
}

#endif /* !KFABRIC_DIRECT */

#endif /* _KFI_DOMAIN_H_ */
