// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A wait set from user space, in C:
 *
 *	wait_set ADDRESS
 *
 * ADDRESS is the IPv4 address of an RDMA link. An endpoint without a connection sends a message
 * to itself. Its completion queue and its counter are in one wait set, and the program sleeps in
 * that set until both have reported the message. docs/uapi.md has the commands.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <linux/kfabric.h>

#define PORT	"7472"	/* of the endpoint, among those without a connection */
#define ROOM	4096	/* bytes of the buffer: the inbox, then the outbox */
#define OUTBOX	2048
#define SECONDS	10	/* for all waits together */
#define TEXT	"hello"

static int fd;
static __u32 domain, set, cq, cntr, ep;	/* handles */

/* The end of the process closes all objects, children before parents. */
static int call(unsigned long request, const char *name, void *arg)
{
	int ret = ioctl(fd, request, arg);

	if (ret < 0)
		err(1, "%s", name);
	return ret;
}

#define CALL(name, arg) call(KFAB_IOC_##name, #name, arg)

static void get_info(const char *address, struct kfab_info *info)
{
	struct kfab_info hints = { .size = sizeof(hints), .ep_type = KFAB_EP_RDM };
	struct kfab_getinfo arg = {
		.size = sizeof(arg), .getinfo_flags = KFAB_SOURCE | KFAB_NUMERICHOST,
		.node = (unsigned long)address, .service = (unsigned long)PORT,
		.hints = (unsigned long)&hints, .infos = (unsigned long)info,
		.info_size = sizeof(*info), .count = 1,
	};

	strcpy((char *)hints.prov_name, "verbs");
	info->size = sizeof(*info);
	CALL(GETINFO, &arg);
}

static void open_set(struct kfab_info *info)
{
	struct kfab_fabric_open fabric = { .size = sizeof(fabric), .info = (unsigned long)info };
	struct kfab_domain_open dom = { .size = sizeof(dom), .info = (unsigned long)info };
	struct kfab_wait_open wait = { .size = sizeof(wait), .wait_obj = KFAB_WAIT_UNSPEC };

	CALL(FABRIC_OPEN, &fabric);
	dom.fabric = fabric.out_handle;
	CALL(DOMAIN_OPEN, &dom);
	domain = dom.out_handle;
	wait.fabric = fabric.out_handle;
	CALL(WAIT_OPEN, &wait);
	set = wait.out_handle;
}

/* Their opens name the set, so it comes first. */
static void open_members(void)
{
	struct kfab_cq_open queue = { .size = sizeof(queue), .wait_obj = KFAB_WAIT_SET };
	struct kfab_cntr_open counter = { .size = sizeof(counter), .wait_obj = KFAB_WAIT_SET };

	queue.domain = domain;
	queue.wait_set = set;
	CALL(CQ_OPEN, &queue);
	cq = queue.out_handle;
	counter.domain = domain;
	counter.wait_set = set;
	CALL(CNTR_OPEN, &counter);
	cntr = counter.out_handle;
}

static void bind_to_ep(__u32 to, __u64 flags)
{
	struct kfab_bind arg = { .size = sizeof(arg), .handle = ep, .to = to, .bind_flags = flags };

	CALL(BIND, &arg);
}

/* Returns the endpoint's address in an address vector of its own. */
static __u64 open_ep(const char *address, struct kfab_info *info)
{
	struct kfab_av_open av = { .size = sizeof(av), .domain = domain };
	struct kfab_ep_open arg = {
		.size = sizeof(arg), .domain = domain, .info = (unsigned long)info,
	};
	struct kfab_control enable = { .size = sizeof(enable), .command = KFAB_ENABLE };
	struct kfab_av_insertsvc self = {
		.size = sizeof(self),
		.node = (unsigned long)address, .service = (unsigned long)PORT,
	};

	CALL(AV_OPEN, &av);
	CALL(EP_OPEN, &arg);
	ep = arg.out_handle;
	bind_to_ep(av.out_handle, 0);
	bind_to_ep(cq, KFAB_TRANSMIT | KFAB_RECV);
	bind_to_ep(cntr, KFAB_RECV);
	enable.handle = ep;
	CALL(CONTROL, &enable);
	self.av = av.out_handle;
	CALL(AV_INSERTSVC, &self);
	return self.out_addr;
}

/* Returns the inbox. A send from a copy (INJECT) leaves no completion. */
static char *post(__u64 self)
{
	struct kfab_buf_alloc buf = { .size = sizeof(buf), .length = ROOM };
	struct kfab_iov iov = { .len = OUTBOX };
	struct kfab_msg msg = {
		.size = sizeof(msg), .ep = ep, .iov = (unsigned long)&iov, .iov_count = 1,
		.addr = KFAB_ADDR_UNSPEC,
	};
	char *memory;

	CALL(BUF_ALLOC, &buf);
	memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, buf.out_offset);
	if (memory == MAP_FAILED)
		err(1, "mmap");
	strcpy(memory + OUTBOX, TEXT);
	iov.buf = buf.out_handle;
	CALL(RECV, &msg);
	iov.offset = OUTBOX;
	iov.len = sizeof(TEXT);
	msg.addr = self;
	msg.flags = KFAB_POST_INJECT;
	CALL(SEND, &msg);
	return memory;
}

/* A wait does not say which member is ready, and one that stays unread ends the next wait. */
static void wait_for_both(const char *inbox)
{
	struct kfab_wait wait = { .size = sizeof(wait), .wait = set };
	struct kfab_cq_entry entry;
	struct kfab_cq_read read = {
		.size = sizeof(read), .flags = KFAB_CQ_REPORT_EMPTY, .cq = cq,
		.entries = (unsigned long)&entry, .count = 1,
	};
	struct kfab_cntr count = { .size = sizeof(count), .cntr = cntr };
	struct timespec now;
	int entries = 0;

	clock_gettime(CLOCK_MONOTONIC, &now);
	wait.deadline = (now.tv_sec + SECONDS) * 1000000000LL + now.tv_nsec;
	while (!entries || !count.value) {
		CALL(WAIT, &wait);
		entries += CALL(CQ_READ, &read) & ~KFAB_CQ_EMPTY;
		CALL(CNTR_READ, &count);
		printf("a wait has ended: completions %d, counter %llu\n", entries, count.value);
	}
	printf("received: %s, %llu bytes\n", inbox, entry.len);
}

int main(int argc, char **argv)
{
	struct kfab_info info;

	if (argc != 2)
		errx(2, "usage: wait_set ADDRESS");
	fd = open("/dev/kfabric", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		err(1, "/dev/kfabric");
	get_info(argv[1], &info);
	open_set(&info);
	open_members();
	wait_for_both(post(open_ep(argv[1], &info)));
	close(fd);
	return 0;
}
