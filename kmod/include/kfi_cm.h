/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Addresses, connections and multicast groups.
 *
 * To connect, the listener calls kfi_listen() on a passive endpoint, and the
 * connector calls kfi_connect() on an endpoint. The listener's EQ gets
 * KFI_CONNREQ. The listener opens an endpoint with the event's info and calls
 * kfi_accept(), or calls kfi_reject() with info->handle. After kfi_accept(),
 * both sides get KFI_CONNECTED. After kfi_reject(), the connector gets an error
 * entry.
 * Private data is truncated to the protocol's limit.
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
 * Must come before the endpoint is enabled or listens.
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
 * Return: 0, -KFI_ETOOSMALL if @addrlen is too small, -KFI_EOPBADSTATE if there
 *	is no address yet, -KFI_ENOSYS.
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
 * Return: 0, -KFI_ETOOSMALL if @addrlen is too small, -KFI_ENOTCONN,
 *	-KFI_ENOSYS.
 */
static inline int kfi_getpeer(struct kfid_ep *ep, void *addr, size_t *addrlen)
{
	return ep->cm->getpeer(ep, addr, addrlen);
}

/**
 * kfi_listen() - start to accept connection requests
 * @pep: the passive endpoint, bound to an EQ
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_ENOEQ, -KFI_EADDRINUSE, -KFI_EACCES if the port is reserved,
 *	-KFI_ENOSYS.
 */
static inline int kfi_listen(struct kfid_pep *pep)
{
	return pep->cm->listen(pep);
}

/**
 * kfi_connect() - request a connection
 * @ep: the endpoint
 * @addr: address of the listener; NULL: dest_addr of the info
 * @param: private data for the listener, or NULL
 * @paramlen: bytes of @param
 *
 * Enables the endpoint. An event reports the result.
 *
 * Context: Process context. May sleep.
 * Return: 0 if the request was started, -KFI_EINVAL, -KFI_EOPBADSTATE,
 *	-KFI_ENOEQ, -KFI_EACCES if a port is reserved, -KFI_EAGAIN if as many
 *	connections of the user wait for a peer as may, -KFI_ENOSYS.
 */
static inline int kfi_connect(struct kfid_ep *ep, const void *addr,
			      const void *param, size_t paramlen)
{
	return ep->cm->connect(ep, addr, param, paramlen);
}

/**
 * kfi_accept() - accept a connection request
 * @ep: the endpoint, opened with the info of the KFI_CONNREQ
 * @param: private data for the peer, or NULL
 * @paramlen: bytes of @param
 *
 * Enables the endpoint. The connection is ready with KFI_CONNECTED.
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
 * kfi_reject() - reject a connection request
 * @pep: the passive endpoint
 * @connreq: info->handle of the KFI_CONNREQ
 * @param: private data, the err_data of the peer's error entry, or NULL
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
 * Return: 0, -KFI_ENOTCONN, -KFI_EAGAIN as for kfi_connect(), -KFI_EBADFLAGS,
 *	-KFI_ENOSYS.
 */
static inline int kfi_shutdown(struct kfid_ep *ep, uint64_t flags)
{
	return ep->cm->shutdown(ep, flags);
}

/**
 * kfi_join() - join a multicast group
 * @ep: the endpoint
 * @addr: the group
 * @flags: the directions, KFI_SEND or KFI_RECV; 0: both
 * @mc: where the membership is stored
 * @context: the caller's, kept in fid.context and in KFI_JOIN_COMPLETE
 *
 * Closing the membership leaves the group.
 *
 * Context: Process context. May sleep.
 * Return: 0 if the join was started, -KFI_ENOSYS, also if the provider predates
 *	the call.
 */
static inline int kfi_join(struct kfid_ep *ep, const void *addr, uint64_t flags,
			   struct kfid_mc **mc, void *context)
{
	if (!KFI_CHECK_OP(ep->cm, struct kfi_ops_cm, join))
		return -KFI_ENOSYS;

	return ep->cm->join(ep, addr, flags, mc, context);
}

/**
 * kfi_mc_addr() - destination address of a multicast group
 * @mc: the joined group
 *
 * Valid after KFI_JOIN_COMPLETE.
 *
 * Context: Any.
 * Return: The group's address for the data calls.
 */
static inline kfi_addr_t kfi_mc_addr(struct kfid_mc *mc)
{
	return mc->addr;
}

#endif /* !KFABRIC_DIRECT */

#endif /* _KFI_CM_H_ */
