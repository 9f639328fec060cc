/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef _KFI_CM_H_
#define _KFI_CM_H_

#include <linux/errno.h>

#include <kfi_endpoint.h>

struct kfid_mc {
	struct kfid fid;
	kfi_addr_t addr;
};

struct kfi_ops_cm {
	size_t size;
	int (*setname)(kfid_t fid, void *addr, size_t addrlen);
	int (*getname)(struct kfid *fid, void *addr, size_t *addrlen);
	int (*getpeer)(struct kfid_ep *ep, void *addr, size_t *addrlen);
	int (*connect)(struct kfid_ep *ep, const void *addr, const void *param,
		       size_t paramlen);
	int (*listen)(struct kfid_pep *pep);
	int (*accept)(struct kfid_ep *ep, const void *param, size_t paramlen);
	int (*reject)(struct kfid_pep *pep, kfid_t handle, const void *param,
		      size_t paramlen);
	int (*shutdown)(struct kfid_ep *ep, uint64_t flags);
	int (*join)(struct kfid_ep *ep, const void *addr, uint64_t flags,
		    struct kfid_mc **mc, void *context);
};

#ifdef KFABRIC_DIRECT
#include <direct/kfi_direct_cm.h>
#else /* !KFABRIC_DIRECT */

static inline int kfi_setname(struct kfid *fid, void *addr, size_t addrlen)
{
	struct kfid_ep *ep = container_of(fid, struct kfid_ep, fid);

	return ep->cm->setname(fid, addr, addrlen);
}

static inline int kfi_getname(struct kfid *fid, void *addr, size_t *addrlen)
{
	struct kfid_ep *ep = container_of(fid, struct kfid_ep, fid);

	return ep->cm->getname(fid, addr, addrlen);
}

static inline int kfi_getpeer(struct kfid_ep *ep, void *addr, size_t *addrlen)
{
	return ep->cm->getpeer(ep, addr, addrlen);
}

static inline int kfi_listen(struct kfid_pep *pep)
{
	return pep->cm->listen(pep);
}

static inline int kfi_connect(struct kfid_ep *ep, const void *addr,
			      const void *param, size_t paramlen)
{
	return ep->cm->connect(ep, addr, param, paramlen);
}

static inline int kfi_accept(struct kfid_ep *ep, const void *param,
			     size_t paramlen)
{
	return ep->cm->accept(ep, param, paramlen);
}

static inline int kfi_reject(struct kfid_pep *pep, kfid_t connreq,
			     const void *param, size_t paramlen)
{
	return pep->cm->reject(pep, connreq, param, paramlen);
}

static inline int kfi_shutdown(struct kfid_ep *ep, uint64_t flags)
{
	return ep->cm->shutdown(ep, flags);
}

static inline int kfi_join(struct kfid_ep *ep, const void *addr, uint64_t flags,
			   struct kfid_mc **mc, void *context)
{
	if (!KFI_CHECK_OP(ep->cm, struct kfi_ops_cm, join))
		return -ENOSYS;

	return ep->cm->join(ep, addr, flags, mc, context);
}

static inline kfi_addr_t kfi_mc_addr(struct kfid_mc *mc)
{
	return mc->addr;
}

#endif /* !KFABRIC_DIRECT */

#endif /* _KFI_CM_H_ */
