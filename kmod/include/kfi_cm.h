/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Addresses, connections and multicast groups.
 *
 * Connecting: kfi_listen() on a passive endpoint, kfi_connect() on an endpoint;
 * KFI_CONNREQ arrives on the EQ of the listener, who opens an endpoint with the
 * event's info and calls kfi_accept(), or kfi_reject() with info->handle; both
 * sides get KFI_CONNECTED, or the connecting one an error entry. Private data
 * that the protocol has no room for is cut.
 */
#ifndef _KFI_CM_H_
#define _KFI_CM_H_

#include <kfi_endpoint.h>
#include <kfi_errno.h>

struct kfid_mc {
	struct kfid fid;
	kfi_addr_t addr;		/* kfi_mc_addr() */
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
#include <kfi_direct_cm.h>
#else /* !KFABRIC_DIRECT */

/**
 * kfi_setname() - set the local address
 * @fid: fid of an endpoint or passive endpoint
 * @addr: the address, in the addr_format of the info
 * @addrlen: bytes of @addr
 *
 * Before the endpoint is enabled or listens.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL, -KFI_EADDRINUSE, -KFI_ENOSYS.
 */
static inline int kfi_setname(struct kfid *fid, void *addr, size_t addrlen)
{
	struct kfid_ep *ep = container_of(fid, struct kfid_ep, fid);

	return ep->cm->setname(fid, addr, addrlen);
}

/**
 * kfi_getname() - get the local address
 * @fid: fid of an endpoint or passive endpoint
 * @addr: where the address is stored
 * @addrlen: bytes; in: room in @addr, out: the full length
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ETOOSMALL @addrlen, -KFI_EOPBADSTATE there is none yet,
 *	-KFI_ENOSYS.
 */
static inline int kfi_getname(struct kfid *fid, void *addr, size_t *addrlen)
{
	struct kfid_ep *ep = container_of(fid, struct kfid_ep, fid);

	return ep->cm->getname(fid, addr, addrlen);
}

/**
 * kfi_getpeer() - get the peer's address
 * @ep: the endpoint
 * @addr: where the address is stored
 * @addrlen: bytes; in: room in @addr, out: the full length
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ETOOSMALL @addrlen, -KFI_ENOTCONN, -KFI_ENOSYS.
 */
static inline int kfi_getpeer(struct kfid_ep *ep, void *addr, size_t *addrlen)
{
	return ep->cm->getpeer(ep, addr, addrlen);
}

/**
 * kfi_listen() - start to take connection requests
 * @pep: the passive endpoint, bound to an EQ
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOEQ, -KFI_EADDRINUSE, -KFI_ENOSYS.
 */
static inline int kfi_listen(struct kfid_pep *pep)
{
	return pep->cm->listen(pep);
}

/**
 * kfi_connect() - ask a listener for a connection
 * @ep: the endpoint
 * @addr: where it listens; NULL takes dest_addr of the info
 * @param: private data for the listener, or NULL
 * @paramlen: bytes of @param
 *
 * Enables the endpoint. The answer is an event.
 *
 * Context: Process context. May sleep.
 * Return: 0 on its way, -KFI_EINVAL, -KFI_EOPBADSTATE, -KFI_ENOEQ, -KFI_ENOSYS.
 */
static inline int kfi_connect(struct kfid_ep *ep, const void *addr,
			      const void *param, size_t paramlen)
{
	return ep->cm->connect(ep, addr, param, paramlen);
}

/**
 * kfi_accept() - accept a connection request
 * @ep: opened with the info of the KFI_CONNREQ
 * @param: private data for the peer, or NULL
 * @paramlen: bytes of @param
 *
 * Enables the endpoint. The connection stands with KFI_CONNECTED.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL, -KFI_EOPBADSTATE, -KFI_ENOEQ, -KFI_ENOSYS.
 */
static inline int kfi_accept(struct kfid_ep *ep, const void *param,
			     size_t paramlen)
{
	return ep->cm->accept(ep, param, paramlen);
}

/**
 * kfi_reject() - turn a connection request down
 * @pep: the passive endpoint
 * @connreq: info->handle of the KFI_CONNREQ
 * @param: private data, err_data at the peer, or NULL
 * @paramlen: bytes of @param
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL, -KFI_ENOSYS.
 */
static inline int kfi_reject(struct kfid_pep *pep, kfid_t connreq,
			     const void *param, size_t paramlen)
{
	return pep->cm->reject(pep, connreq, param, paramlen);
}

/**
 * kfi_shutdown() - end a connection
 * @ep: the endpoint
 * @flags: 0; KFI_READ or KFI_WRITE for one direction
 *
 * The peer gets KFI_SHUTDOWN.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOTCONN, -KFI_EBADFLAGS, -KFI_ENOSYS.
 */
static inline int kfi_shutdown(struct kfid_ep *ep, uint64_t flags)
{
	return ep->cm->shutdown(ep, flags);
}

/**
 * kfi_join() - join a multicast group
 * @ep: the endpoint
 * @addr: the group
 * @flags: the directions, KFI_SEND or KFI_RECV; 0 is both
 * @mc: where the membership is stored
 * @context: the caller's, kept in fid.context and in KFI_JOIN_COMPLETE
 *
 * Closing the membership leaves the group.
 *
 * Context: Process context. May sleep.
 * Return: 0 on its way, -KFI_ENOSYS also from providers too old to have the
 *	call.
 */
static inline int kfi_join(struct kfid_ep *ep, const void *addr, uint64_t flags,
			   struct kfid_mc **mc, void *context)
{
	if (!KFI_CHECK_OP(ep->cm, struct kfi_ops_cm, join))
		return -KFI_ENOSYS;

	return ep->cm->join(ep, addr, flags, mc, context);
}

/**
 * kfi_mc_addr() - what to send to in order to reach a group
 * @mc: the joined group
 *
 * Context: Any. After KFI_JOIN_COMPLETE.
 * Return: The group's address for the data calls.
 */
static inline kfi_addr_t kfi_mc_addr(struct kfid_mc *mc)
{
	return mc->addr;
}

#endif /* !KFABRIC_DIRECT */

#endif /* _KFI_CM_H_ */
