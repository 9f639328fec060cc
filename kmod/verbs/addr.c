// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * IPv4 addresses: copying, parsing, and the route to one.
 */
#include <linux/capability.h>
#include <linux/in.h>
#include <linux/inet.h>
#include <linux/slab.h>
#include <net/route.h>

#include "kfi_verbs.h"
#include "rdm/rdm.h"

/**
 * kfv_port_check() - may the caller use a port for connected endpoints?
 * @sin: the address with the port
 *
 * At the port of RDM endpoints a peer takes this machine for its node. The node carries
 * the messages of all users, so that no single user may stand in for it: as at a port
 * below 1024, whose check is in RDMA CM.
 *
 * Context: process; the capability is that of the calling thread.
 * Return: 0 or -EACCES.
 */
int kfv_port_check(const struct sockaddr_in *sin)
{
	if (sin->sin_port == kfr_cm_port() && !capable(CAP_NET_BIND_SERVICE))
		return -EACCES;
	return 0;
}

/**
 * kfv_bind_addr() - bind an id to the address of a connected endpoint
 * @id: the id
 * @sin: the address; all zeros is any. RDMA CM chooses the port if it is 0
 *
 * The port that is chosen may be that of RDM endpoints, too.
 *
 * Context: process; the capability is that of the calling thread. The caller destroys
 * @id after an error.
 * Return: 0; -EACCES; -EADDRNOTAVAIL: no RDMA device has the address; what
 * rdma_bind_addr() returns.
 */
int kfv_bind_addr(struct rdma_cm_id *id, const struct sockaddr_in *sin)
{
	struct sockaddr_in addr = *sin;
	int err;

	addr.sin_family = AF_INET;
	err = kfv_port_check(&addr);
	if (err)
		return err;
	err = rdma_bind_addr(id, (struct sockaddr *)&addr);
	if (err)
		return err == -ENODEV ? -EADDRNOTAVAIL : err;
	return kfv_port_check((struct sockaddr_in *)&id->route.addr.src_addr);
}

/**
 * kfv_info_addr() - put an address into an info
 * @addr: where the info points to its copy, which kfi_freeinfo() frees
 * @addrlen: its length
 * @sin: the address
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int kfv_info_addr(void **addr, size_t *addrlen, const struct sockaddr_in *sin)
{
	*addr = kmemdup(sin, sizeof(*sin), GFP_KERNEL);
	if (!*addr)
		return -ENOMEM;
	*addrlen = sizeof(*sin);
	return 0;
}

/**
 * kfv_copy_addr() - answer kfi_getname() and kfi_getpeer()
 * @addr: the caller's room; may be NULL if @addrlen is 0
 * @addrlen: its size; on return the size of the whole address
 * @sin: the address
 *
 * Context: any.
 * Return: 0; -KFI_ETOOSMALL: as much was copied as there is room; -EINVAL.
 */
int kfv_copy_addr(void *addr, size_t *addrlen, const struct sockaddr_in *sin)
{
	size_t room;

	if (!addrlen || (!addr && *addrlen))
		return -EINVAL;
	room = *addrlen;
	memcpy(addr, sin, min(room, sizeof(*sin)));
	*addrlen = sizeof(*sin);
	return room < sizeof(*sin) ? -KFI_ETOOSMALL : 0;
}

/**
 * kfv_addr_parse() - read an address from strings
 * @sin: the address
 * @node: dotted address, or NULL for any; kernel code has no resolver
 * @service: port number, or NULL for 0
 *
 * Context: any.
 * Return: 0 or -KFI_ENODATA.
 */
int kfv_addr_parse(struct sockaddr_in *sin, const char *node,
		   const char *service)
{
	u16 port = 0;

	memset(sin, 0, sizeof(*sin));
	sin->sin_family = AF_INET;
	if (node && !in4_pton(node, -1, (u8 *)&sin->sin_addr.s_addr, -1, NULL))
		return -KFI_ENODATA;
	if (service && kstrtou16(service, 10, &port))
		return -KFI_ENODATA;
	sin->sin_port = htons(port);
	return 0;
}

/**
 * kfv_addr_hint() - read an address from a hint
 * @sin: the address; not changed without a hint
 * @addr: a struct sockaddr_in, or NULL
 * @len: its length, or 0, which ULPs pass that have no other kind of address
 *
 * Context: any.
 * Return: 0; -KFI_ENODATA: too short, or of another family.
 */
int kfv_addr_hint(struct sockaddr_in *sin, const void *addr, size_t len)
{
	if (!addr)
		return 0;
	if (len && len < sizeof(*sin))
		return -KFI_ENODATA;
	memcpy(sin, addr, sizeof(*sin));
	return sin->sin_family == AF_INET ? 0 : -KFI_ENODATA;
}

/**
 * kfv_route_source() - the local address that a route starts from
 * @to: where the route leads
 * @from: the address
 *
 * Routing reports a lack of memory as ENOBUFS: __mkroute_output() in
 * net/ipv4/route.c. kfi_getinfo() reports it as ENOMEM.
 *
 * Context: process.
 * Return: 0; -KFI_ENODATA: no route; -ENOMEM.
 */
int kfv_route_source(__be32 to, __be32 *from)
{
	struct flowi4 fl4 = { .daddr = to };
	struct rtable *rt = ip_route_output_key(&init_net, &fl4);

	if (IS_ERR(rt))
		return PTR_ERR(rt) == -ENOBUFS || PTR_ERR(rt) == -ENOMEM ?
		       -ENOMEM : -KFI_ENODATA;
	ip_rt_put(rt);
	*from = fl4.saddr;
	return 0;
}
