// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Addresses of RDM endpoints, in two notations: sockaddr_in, or 8 bytes with a
 * nic and a pid. Both name the same endpoint: nic = IP address - base, and pid
 * + 1 is the port, that is the endpoint's number. Inside this folder an address
 * is a kfr_addr; this file converts at the API, and nothing here keeps state.
 */
#include <linux/in.h>
#include <linux/inet.h>
#include <linux/inetdevice.h>
#include <rdma/ib_cache.h>

#include "rdm.h"

#define KFR_NIC_MAX	0xfffff

static char *addr_base = "";
module_param(addr_base, charp, 0444);
MODULE_PARM_DESC(addr_base, "IPv4 address of nic 0 in 8-byte addresses (default: the first host of a device's subnet)");

static int kfr_gid_ip(struct ib_device *ib, u32 port, int i, __be32 *ip,
		      char *netdev)
{
	const struct ib_gid_attr *gid = rdma_get_gid_attr(ib, port, i);
	const struct in6_addr *addr;
	struct net_device *ndev;
	int err = -EADDRNOTAVAIL;

	if (IS_ERR(gid))
		return PTR_ERR(gid);
	addr = (const struct in6_addr *)&gid->gid;
	if (gid->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP &&
	    ipv6_addr_v4mapped(addr)) {
		*ip = addr->s6_addr32[3];
		netdev[0] = '\0';
		rcu_read_lock();
		ndev = rcu_dereference(gid->ndev);
		if (ndev)
			strscpy(netdev, ndev->name, IFNAMSIZ);
		rcu_read_unlock();
		err = 0;
	}
	rdma_put_gid_attr(gid);
	return err;
}

/**
 * kfr_port_ip() - an IPv4 address of a port
 * @ib: the device
 * @port: its port
 * @nth: which of its addresses, from 0
 * @ip: out: the address
 * @netdev: out: the name of the network device, IFNAMSIZ bytes
 *
 * Context: process, may sleep.
 * Return: 0, or -EADDRNOTAVAIL: it has fewer.
 */
int kfr_port_ip(struct ib_device *ib, u32 port, unsigned int nth, __be32 *ip,
		char *netdev)
{
	struct ib_port_attr attr;
	int i;

	if (ib_query_port(ib, port, &attr))
		return -EADDRNOTAVAIL;
	for (i = 0; i < attr.gid_tbl_len; i++)
		if (!kfr_gid_ip(ib, port, i, ip, netdev) && !nth--)
			return 0;
	return -EADDRNOTAVAIL;
}

static __be32 kfr_netmask(__be32 ip)
{
	const struct in_ifaddr *ifa;
	struct net_device *dev;
	struct in_device *in;
	__be32 mask = 0;

	dev = ip_dev_find(&init_net, ip);
	if (!dev)
		return 0;
	rcu_read_lock();
	in = __in_dev_get_rcu(dev);
	if (in)
		in_dev_for_each_ifa_rcu(ifa, in)
			if (ifa->ifa_local == ip)
				mask = ifa->ifa_mask;
	rcu_read_unlock();
	dev_put(dev);
	return mask;
}

/**
 * kfr_base() - the IP address of nic 0
 * @ip: the node's own address
 * @base: out: the address, host order
 *
 * The default is the same on all nodes of a subnet.
 *
 * Context: process, may sleep.
 * Return: 0; -EINVAL: the module parameter is no address; -EADDRNOTAVAIL: the
 * own address is not among the 2^20 from the base on.
 */
int kfr_base(__be32 ip, u32 *base)
{
	__be32 set;

	if (*addr_base) {
		if (!in4_pton(addr_base, -1, (u8 *)&set, -1, NULL))
			return -EINVAL;
		*base = be32_to_cpu(set);
	} else {
		*base = be32_to_cpu(ip & kfr_netmask(ip)) + 1;
	}
	return be32_to_cpu(ip) - *base <= KFR_NIC_MAX ? 0 : -EADDRNOTAVAIL;
}

static int kfr_parse_node(const struct kfr_format *format, const char *node,
			  __be32 *ip)
{
	u32 nic;

	if (strchr(node, '.'))
		return in4_pton(node, -1, (u8 *)ip, -1, NULL) ? 0 :
								-KFI_ENODATA;
	if (kstrtou32(node, 0, &nic) || nic > KFR_NIC_MAX)
		return -KFI_ENODATA;
	*ip = cpu_to_be32(format->base + nic);
	return 0;
}

static int kfr_parse_service(const struct kfr_format *format,
			     const char *service, u16 *id)
{
	u32 number;

	*id = 0;
	if (!service)
		return 0;
	if (kstrtou32(service, 0, &number))
		return -KFI_ENODATA;
	if (format->format == KFI_ADDR_CXI) {
		/* 0 is a valid pid, but not a valid number. */
		*id = number % KFR_PID_MAX + 1;
		return 0;
	}
	if (number > U16_MAX)
		return -KFI_ENODATA;
	*id = number;
	return 0;
}

/**
 * kfr_addr_parse() - the address that two strings name
 * @format: notation of the domain
 * @node: dotted, or a nic in decimal or 0x...; NULL: the IP address does not change
 * @service: the number, with 8-byte addresses a pid, modulo the number of pids; NULL
 *	for any
 * @addr: out: the address; id 0 for any
 *
 * Context: any.
 * Return: 0 or -KFI_ENODATA.
 */
int kfr_addr_parse(const struct kfr_format *format, const char *node,
		   const char *service, struct kfr_addr *addr)
{
	int err = node ? kfr_parse_node(format, node, &addr->ip) : 0;

	return err ? err : kfr_parse_service(format, service, &addr->id);
}

/**
 * kfr_addr_size() - the size of an address
 * @format: its notation
 *
 * Context: any.
 * Return: bytes.
 */
size_t kfr_addr_size(const struct kfr_format *format)
{
	return format->format == KFI_ADDR_CXI ? sizeof(struct kcxi_addr) :
						sizeof(struct sockaddr_in);
}

static int kfr_read_cxi(const struct kfr_format *format,
			const struct kcxi_addr *from, struct kfr_addr *addr)
{
	if (from->flags || from->qw >> 42)
		return -EINVAL;
	if (from->pid != KFR_PID_ANY && from->pid >= KFR_PID_MAX)
		return -EINVAL;
	addr->ip = cpu_to_be32(format->base + (u32)from->nic);
	addr->id = from->pid == KFR_PID_ANY ? 0 : from->pid + 1;
	return 0;
}

/**
 * kfr_addr_read() - convert an address of the ULP
 * @format: its notation
 * @from: kfr_addr_size() bytes, need not be aligned
 * @addr: out: the address; id 0 for any
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int kfr_addr_read(const struct kfr_format *format, const void *from,
		  struct kfr_addr *addr)
{
	struct sockaddr_in sin;
	struct kcxi_addr cxi;

	if (format->format == KFI_ADDR_CXI) {
		memcpy(&cxi, from, sizeof(cxi));
		return kfr_read_cxi(format, &cxi, addr);
	}
	memcpy(&sin, from, sizeof(sin));
	if (sin.sin_family != AF_INET)
		return -EINVAL;
	addr->ip = sin.sin_addr.s_addr;
	addr->id = ntohs(sin.sin_port);
	return 0;
}

/**
 * kfr_addr_write() - convert an address for the ULP
 * @format: the notation
 * @addr: the address
 * @to: out: kfr_addr_size() bytes, need not be aligned
 *
 * Context: any.
 */
void kfr_addr_write(const struct kfr_format *format, struct kfr_addr addr,
		    void *to)
{
	struct sockaddr_in sin = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = addr.ip,
		.sin_port = htons(addr.id),
	};
	struct kcxi_addr cxi = { };

	if (format->format != KFI_ADDR_CXI) {
		memcpy(to, &sin, sizeof(sin));
		return;
	}
	cxi.nic = be32_to_cpu(addr.ip) - format->base;
	cxi.pid = addr.id ? addr.id - 1 : KFR_PID_ANY;
	memcpy(to, &cxi, sizeof(cxi));
}

/**
 * kfr_addr_print() - an address as readable text
 * @format: the notation
 * @addr: the address
 * @buf: out
 * @room: bytes there
 *
 * Context: any.
 * Return: the length of the text, also if it is longer than @room - 1.
 */
int kfr_addr_print(const struct kfr_format *format, struct kfr_addr addr,
		   char *buf, size_t room)
{
	if (format->format != KFI_ADDR_CXI)
		return snprintf(buf, room, "%pI4:%u", &addr.ip, addr.id);
	return snprintf(buf, room, "0x%x:%d",
			be32_to_cpu(addr.ip) - format->base, addr.id - 1);
}
