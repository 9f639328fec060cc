// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A ping-pong of two processes by libfabric's verbs provider: connected endpoints, and a CQ that
 * each side sleeps in with fi_cq_sread().
 *
 *	fi_talk ADDRESS ROUNDS SIZE
 *
 * Prints the nanoseconds of all rounds. The status is 1 if something failed; what, is on stderr.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define VERSION FI_VERSION(1, 17)
#define LIMIT_S 60
#define DEPTH 64
/* A send in so many has a completion: the provider frees the places of those before, too. */
#define COMPLETES 16

static unsigned long rounds;
static size_t size;

struct end {
	struct fid_fabric *fabric;
	struct fid_eq *eq;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	char *buf;		/* what is received, then what is sent */
};

static void check(const char *what, long ret)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "fi_talk: %s: %s\n", what, fi_strerror(-ret));
	exit(1);
}

static struct fi_info *info_of(const char *node, const char *service, uint64_t flags)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	hints->caps = FI_MSG;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->ep_attr->type = FI_EP_MSG;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR |
				      FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup("verbs");
	check("fi_getinfo", fi_getinfo(VERSION, node, service, flags, hints, &info));
	fi_freeinfo(hints);
	return info;
}

static void open_eq(struct end *end, struct fi_info *info)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	check("fi_fabric", fi_fabric(info->fabric_attr, &end->fabric, NULL));
	check("fi_eq_open", fi_eq_open(end->fabric, &attr, &end->eq, NULL));
}

static void post_receive(struct end *end)
{
	check("fi_recv", fi_recv(end->ep, end->buf, size, fi_mr_desc(end->mr), 0, end->buf));
}

static void open_ep(struct end *end, struct fi_info *info)
{
	struct fi_cq_attr attr = {
		.size = 2 * DEPTH,
		.format = FI_CQ_FORMAT_CONTEXT,
		.wait_obj = FI_WAIT_UNSPEC,
	};

	end->buf = calloc(2, size);
	check("fi_domain", fi_domain(end->fabric, info, &end->domain, NULL));
	check("fi_mr_reg", fi_mr_reg(end->domain, end->buf, 2 * size, FI_SEND | FI_RECV, 0, 0, 0,
				     &end->mr, NULL));
	check("fi_cq_open", fi_cq_open(end->domain, &attr, &end->cq, NULL));
	check("fi_endpoint", fi_endpoint(end->domain, info, &end->ep, NULL));
	check("fi_ep_bind", fi_ep_bind(end->ep, &end->eq->fid, 0));
	check("fi_ep_bind", fi_ep_bind(end->ep, &end->cq->fid,
				       FI_TRANSMIT | FI_SELECTIVE_COMPLETION));
	check("fi_ep_bind", fi_ep_bind(end->ep, &end->cq->fid, FI_RECV));
	check("fi_enable", fi_enable(end->ep));
	post_receive(end);
}

/* Returns the info of a connection request, or NULL. */
static struct fi_info *wait_for(struct end *end, uint32_t wanted)
{
	struct fi_eq_cm_entry entry = { };
	uint32_t event = 0;

	check("fi_eq_sread", fi_eq_sread(end->eq, &event, &entry, sizeof(entry), -1, 0));
	if (event != wanted) {
		fprintf(stderr, "fi_talk: event %u instead of %u\n", event, wanted);
		exit(1);
	}
	return event == FI_CONNREQ ? entry.info : NULL;
}

static void listen_and_accept(struct end *end, const char *address, int port_to)
{
	struct fi_info *info = info_of(address, NULL, FI_SOURCE);
	struct sockaddr_in name = { };
	size_t len = sizeof(name);
	struct fid_pep *pep;

	open_eq(end, info);
	check("fi_passive_ep", fi_passive_ep(end->fabric, info, &pep, NULL));
	check("fi_pep_bind", fi_pep_bind(pep, &end->eq->fid, 0));
	check("fi_listen", fi_listen(pep));
	check("fi_getname", fi_getname(&pep->fid, &name, &len));
	if (write(port_to, &name.sin_port, sizeof(name.sin_port)) < 0)
		exit(1);
	open_ep(end, wait_for(end, FI_CONNREQ));
	check("fi_accept", fi_accept(end->ep, NULL, 0));
	wait_for(end, FI_CONNECTED);
}

static void connect_to(struct end *end, const char *address, int port_from)
{
	struct fi_info *info;
	char service[8];
	in_port_t port;

	if (read(port_from, &port, sizeof(port)) != sizeof(port))
		exit(1);
	snprintf(service, sizeof(service), "%u", ntohs(port));
	info = info_of(address, service, 0);
	open_eq(end, info);
	open_ep(end, info);
	check("fi_connect", fi_connect(end->ep, info->dest_addr, NULL, 0));
	wait_for(end, FI_CONNECTED);
}

static void send_one(struct end *end, unsigned long number)
{
	struct iovec iov = { end->buf + size, size };
	void *desc = fi_mr_desc(end->mr);
	struct fi_msg msg = { .msg_iov = &iov, .desc = &desc, .iov_count = 1 };

	check("fi_sendmsg", fi_sendmsg(end->ep, &msg, number % COMPLETES ? 0 : FI_COMPLETION));
}

static void wait_for_message(struct end *end)
{
	struct fi_cq_entry entry;
	ssize_t ret;

	do {
		ret = fi_cq_sread(end->cq, &entry, 1, NULL, -1);
		if (ret == -FI_EAGAIN)
			continue;
		check("fi_cq_sread", ret);
	} while (ret < 1 || entry.op_context != end->buf);
}

static void talk(struct end *end, int answers)
{
	unsigned long i;

	for (i = 0; i < rounds; i++) {
		if (answers)
			wait_for_message(end);
		/* One receive is posted already. */
		if (i + 1 < rounds)
			post_receive(end);
		send_one(end, i);
		if (!answers)
			wait_for_message(end);
	}
}

static long long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

int main(int argc, char **argv)
{
	struct end end = { };
	int ends[2], status;
	long long began;
	pid_t child;

	if (argc != 4 || pipe(ends))
		return 2;
	rounds = strtoul(argv[2], NULL, 10);
	size = strtoul(argv[3], NULL, 10);
	/* Before the device is opened, which a fork would not survive. */
	child = fork();
	if (child < 0)
		return 1;
	alarm(LIMIT_S);
	if (!child) {
		connect_to(&end, argv[1], ends[0]);
		began = now_ns();
		talk(&end, 0);
		printf("%lld\n", now_ns() - began);
		return 0;
	}
	listen_and_accept(&end, argv[1], ends[1]);
	talk(&end, 1);
	waitpid(child, &status, 0);
	return status != 0;
}
