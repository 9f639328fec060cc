// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Addresses of RDM endpoints: sockaddr_in, or 8 bytes with a nic and a pid. The
 * two are spellings of the same: a nic is an IP address counted from a base, a
 * pid is the number of the endpoint, as a port is.
 */
#include <linux/in.h>
#include <linux/inet.h>
#include <linux/inetdevice.h>
#include <rdma/ib_cache.h>

#include "rdm.h"

#define KFR_NIC_MAX	0xfffff

static char *addr_base = "";
module_param(addr_base, charp, 0444);
MODULE_PARM_DESC(addr_base, "IPv4 address that 8-byte addresses call nic 0 (default: the first host of a device's subnet)");

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
 * @ip: the address
 * @netdev: room for IFNAMSIZ bytes: the name of the network device
 *
 * Context: process.
 * Return: 0, or -EADDRNOTAVAIL: it has no more.
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
 * kfr_base() - what IP address is nic 0, seen from one's own
 * @ip: the own address
 * @base: host order
 *
 * Without configuration all nodes of a subnet agree.
 *
 * Context: process.
 * Return: 0; -EINVAL: the parameter is no address; -EADDRNOTAVAIL: own address
 * is not among the 2^20 from the base on.
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

/**
 * kfr_parse_node() - what IP address a node string means
 * @format: of the one that reads it
 * @node: dotted, or a nic in decimal or 0x...
 * @ip: the address
 *
 * Context: any.
 * Return: 0 or -KFI_ENODATA.
 */
int kfr_parse_node(const struct kfr_format *format, const char *node,
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

/**
 * kfr_parse_service() - what endpoint number a service string means
 * @format: of the one that reads it
 * @service: a decimal number, or NULL: none in particular
 * @id: the number, 0 for any
 *
 * Of an 8-byte address a service is a pid, modulo the pids that there are.
 *
 * Context: any.
 * Return: 0 or -KFI_ENODATA.
 */
int kfr_parse_service(const struct kfr_format *format, const char *service,
		      u16 *id)
{
	u32 number;

	*id = 0;
	if (!service)
		return 0;
	if (kstrtou32(service, 0, &number))
		return -KFI_ENODATA;
	if (format->format == KFI_ADDR_CXI) {
		/* 0 is a pid, but not a port: numbers are one above pids. */
		*id = number % KFR_PID_MAX + 1;
		return 0;
	}
	if (number > U16_MAX)
		return -KFI_ENODATA;
	*id = number;
	return 0;
}

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
 * kfr_addr_read() - understand an address
 * @format: how it is written
 * @from: the address
 * @addr: what it means; id 0 for any
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

/* The opposite; @to has kfr_addr_size() bytes. */
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

/* For people. Return: bytes needed without the end, as snprintf() does. */
int kfr_addr_print(const struct kfr_format *format, struct kfr_addr addr,
		   char *buf, size_t room)
{
	if (format->format != KFI_ADDR_CXI)
		return snprintf(buf, room, "%pI4:%u", &addr.ip, addr.id);
	return snprintf(buf, room, "0x%x:%d",
			be32_to_cpu(addr.ip) - format->base, addr.id - 1);
}
