/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Event queues, completion queues and counters, which report events, and the
 * sets that threads wait on: wait sets and poll sets. kfi_domain.h has the
 * calls that open CQs, counters, wait sets and poll sets.
 *
 * Blocking calls have a timeout in milliseconds. 0 means one check without
 * sleeping. A negative value means no limit. Any other value counts from the
 * call, which never ends early. With kfabric.ko's parameter sread_zero_blocks,
 * 0 means no limit in the sread calls, for older ULPs.
 *
 * Blocking calls sleep interruptibly. If the condition does not hold, they
 * return -EINTR when a signal is pending or the kthread is being stopped. On an
 * object without a wait object, or in a wait set, they return -KFI_EINVAL.
 */
#ifndef _KFI_EQ_H_
#define _KFI_EQ_H_

#include <kfabric.h>
#include <kfi_errno.h>

/* Wait objects: how a thread can wait until an object or set is ready. */
enum kfi_wait_obj {
	KFI_WAIT_NONE,		/* none: read or poll */
	KFI_WAIT_UNSPEC,	/* internal: blocking calls only */
	KFI_WAIT_SET,		/* the wait set in wait_set */
	/*
	 * A wait_queue_head_t, from KFI_GETWAIT. The condition to wait for on
	 * it is kfi_wait(set, 0) != -KFI_ETIMEDOUT. 0 means ready, -KFI_ENODEV
	 * means that the set will never be ready again.
	 */
	KFI_WAIT_QUEUE,

	/* Not in kfabric 1.7. */
	KFI_WAIT_MUTEX_COND,	/* a mutex and a condition */
	KFI_WAIT_FD,		/* a file descriptor */
	KFI_WAIT_POLLFD,	/* one file descriptor for each member */
	KFI_WAIT_YIELD		/* none: yield the CPU and check again */
};

struct kfi_wait_attr {
	enum kfi_wait_obj wait_obj;
	uint64_t flags;			/* 0 */
};

/*
 * Flag for kfi_control(KFI_SETFIDFLAG) on a wait set: each publication wakes
 * one waiter instead of all. The flag can change only while no thread waits
 * (else -EBUSY). With the flag, KFI_GETWAIT is refused. Not in kfabric 1.7.
 *
 * A woken thread must read, or call kfi_wait() again. If it does neither, the
 * other waiters sleep until the next publication. This includes a thread that
 * is killed on its way back to user space.
 */
#define KFI_WAIT_EXCLUSIVE	BIT_ULL(60)

/* Result of KFI_GETWAIT for KFI_WAIT_MUTEX_COND. Not in kfabric 1.7. */
struct kfi_cond;

struct kfi_mutex_cond {
	struct mutex *mutex;		/* the caller locks and unlocks it */
	struct kfi_cond *cond;
};

/* Exported by kfabric.ko and documented there. */
int kfi_cond_wait(struct kfi_cond *cond, int timeout);

struct kfi_ops_wait {
	size_t size;
	int (*wait)(struct kfid_wait *waitset, int timeout);
};

struct kfid_wait {
	struct kfid kfid;		/* not fid, unlike all others */
	struct kfi_ops_wait *ops;
};

/*
 * Most poll sets that one CQ, EQ or counter may be in, and most profiles of one endpoint
 * that has events: each event visits all of them with interrupts off.
 */
#define KFI_OBSERVERS_MAX 64

struct kfi_poll_attr {
	uint64_t flags;			/* 0 */
};

struct kfi_ops_poll {
	size_t size;
	int (*poll)(struct kfid_poll *pollset, void **context, int count);
	int (*poll_add)(struct kfid_poll *pollset, struct kfid *event_kfid,
			uint64_t flags);
	int (*poll_del)(struct kfid_poll *pollset, struct kfid *event_kfid,
			uint64_t flags);
};

struct kfid_poll {
	struct kfid fid;
	struct kfi_ops_poll *ops;
};

/* NULL attributes: the provider's default size, and KFI_WAIT_UNSPEC. */
struct kfi_eq_attr {
	size_t size;			/* events of the user; 0: the provider's choice */
	uint64_t flags;			/* 0 */
	enum kfi_wait_obj wait_obj;
	int signaling_vector;		/* a CPU, with KFI_AFFINITY */
	struct kfid_wait *wait_set;	/* with KFI_WAIT_SET */
};

/* Events, with the struct that their payload begins with. */
enum {
	KFI_NOTIFY,		/* provider-specific */
	KFI_CONNREQ,		/* kfi_eq_cm_entry; fid is the passive endpoint */
	KFI_CONNECTED,		/* kfi_eq_cm_entry */
	KFI_SHUTDOWN,		/* kfi_eq_cm_entry; connection ended */
	KFI_MR_COMPLETE,	/* kfi_eq_entry; fid is the region */
	KFI_AV_COMPLETE,	/* kfi_eq_entry; data: number inserted */
	KFI_JOIN_COMPLETE	/* kfi_eq_entry; fid is the group */
};

struct kfi_eq_entry {
	struct kfid *fid;		/* the object of the event */
	void *context;			/* of the object or the call */
	uint64_t data;
};

struct kfi_eq_err_entry {
	struct kfid *fid;
	void *context;
	uint64_t data;			/* AV: index of the address */
	int err;			/* positive errno */
	int prov_errno;			/* kfi_eq_strerror() */
	void *err_data;			/* a rejecting peer's private data */
	size_t err_data_size;		/* bytes */
};

struct kfi_eq_cm_entry {
	struct kfid *fid;
	struct kfi_info *info;		/* KFI_CONNREQ; the reader frees it */
	uint8_t data[];			/* private data, to the event's end */
};

struct kfi_ops_eq {
	size_t size;
	ssize_t (*read)(struct kfid_eq *eq, uint32_t *event, void *buf,
			size_t len, uint64_t flags);
	ssize_t (*readerr)(struct kfid_eq *eq, struct kfi_eq_err_entry *buf,
			   uint64_t flags);
	ssize_t (*write)(struct kfid_eq *eq, uint32_t event, const void *buf,
			 size_t len, uint64_t flags);
	ssize_t (*sread)(struct kfid_eq *eq, uint32_t *event, void *buf,
			 size_t len, int timeout, uint64_t flags);
	const char *(*strerror)(struct kfid_eq *eq, int prov_errno,
				const void *err_data, char *buf, size_t len);
};

struct kfid_eq {
	struct kfid fid;
	struct kfi_ops_eq *ops;
	kfi_event_handler event_handler;
};

/* The format of the entries of a CQ; see the structs below. */
enum kfi_cq_format {
	KFI_CQ_FORMAT_UNSPEC,	/* as KFI_CQ_FORMAT_CONTEXT */
	KFI_CQ_FORMAT_CONTEXT,
	KFI_CQ_FORMAT_MSG,
	KFI_CQ_FORMAT_DATA,
	KFI_CQ_FORMAT_TAGGED
};

/* Each entry struct begins with the fields of the one before. */
struct kfi_cq_entry {
	void *op_context;
};

struct kfi_cq_msg_entry {
	void *op_context;
	uint64_t flags;			/* KFI_MSG | KFI_RECV and so on */
	size_t len;			/* bytes received */
};

struct kfi_cq_data_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;			/* position in a multi-receive buffer */
	uint64_t data;			/* with KFI_REMOTE_CQ_DATA */
};

struct kfi_cq_tagged_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	uint64_t tag;
};

struct kfi_cq_err_entry {
	void *op_context;
	uint64_t flags;
	size_t len;			/* bytes that arrived */
	void *buf;
	uint64_t data;
	uint64_t tag;
	size_t olen;			/* bytes that did not fit */
	int err;			/* positive errno */
	int prov_errno;			/* kfi_cq_strerror() */
	void *err_data;			/* valid until the next read */
	size_t err_data_size;		/* bytes */
};

/* When kfi_cq_sread() wakes up, and the meaning of its cond. */
enum kfi_cq_wait_cond {
	KFI_CQ_COND_NONE,		/* at the first entry; cond is unused */
	KFI_CQ_COND_THRESHOLD		/* at cond entries, a size_t by value */
};

/* NULL attributes: the provider's default size, and KFI_WAIT_UNSPEC. */
struct kfi_cq_attr {
	size_t size;			/* entries; 0: the provider's choice */
	uint64_t flags;			/* KFI_AFFINITY */
	enum kfi_cq_format format;
	enum kfi_wait_obj wait_obj;
	int signaling_vector;		/* a CPU, with KFI_AFFINITY */
	enum kfi_cq_wait_cond wait_cond;
	struct kfid_wait *wait_set;	/* with KFI_WAIT_SET */
};

struct kfi_ops_cq {
	size_t size;
	ssize_t (*read)(struct kfid_cq *cq, void *buf, size_t count);
	ssize_t (*readfrom)(struct kfid_cq *cq, void *buf, size_t count,
			    kfi_addr_t *src_addr);
	ssize_t (*readerr)(struct kfid_cq *cq, struct kfi_cq_err_entry *buf,
			   uint64_t flags);
	ssize_t (*sread)(struct kfid_cq *cq, void *buf, size_t count,
			 const void *cond, int timeout);
	ssize_t (*sreadfrom)(struct kfid_cq *cq, void *buf, size_t count,
			     kfi_addr_t *src_addr, const void *cond,
			     int timeout);
	int (*signal)(struct kfid_cq *cq);
	const char *(*strerror)(struct kfid_cq *cq, int prov_errno,
				const void *err_data, char *buf, size_t len);
};

struct kfid_cq {
	struct kfid fid;
	struct kfi_ops_cq *ops;
	kfi_comp_handler comp_handler;
};

enum kfi_cntr_events {
	KFI_CNTR_EVENTS_COMP		/* completed operations */
};

struct kfi_cntr_attr {
	enum kfi_cntr_events events;
	enum kfi_wait_obj wait_obj;
	struct kfid_wait *wait_set;	/* with KFI_WAIT_SET */
	uint64_t flags;			/* 0 */
};

struct kfi_ops_cntr {
	size_t size;
	uint64_t (*read)(struct kfid_cntr *cntr);
	uint64_t (*readerr)(struct kfid_cntr *cntr);
	int (*add)(struct kfid_cntr *cntr, uint64_t value);
	int (*set)(struct kfid_cntr *cntr, uint64_t value);
	int (*wait)(struct kfid_cntr *cntr, uint64_t threshold, int timeout);
	int (*adderr)(struct kfid_cntr *cntr, uint64_t value);
	int (*seterr)(struct kfid_cntr *cntr, uint64_t value);
};

struct kfid_cntr {
	struct kfid fid;
	struct kfi_ops_cntr *ops;
};

#ifdef KFABRIC_DIRECT
#include <kfi_direct_eq.h>
#else /* !KFABRIC_DIRECT */

/**
 * kfi_wait() - wait until a member of a wait set is ready
 * @waitset: the wait set
 * @timeout: milliseconds; 0 checks once, negative has no limit
 *
 * A CQ or EQ is ready when it has an entry or error to read. A counter is ready
 * when it has changed since it was read. The call consumes nothing. A ready
 * member wakes every thread that waits in the set, so another thread may have
 * emptied the member when the call returns.
 *
 * Context: Process context. May sleep, except with @timeout 0.
 * Return: 0 if a member is or was ready, -KFI_ETIMEDOUT, -EINTR, -KFI_ENODEV if
 *	the devices of all members are lost and the members are drained. A set with
 *	an EQ never returns that, because an EQ has no device.
 */
static inline int kfi_wait(struct kfid_wait *waitset, int timeout)
{
	return waitset->ops->wait(waitset, timeout);
}

/**
 * kfi_poll() - get the ready members of a poll set
 * @pollset: the poll set
 * @context: array for the contexts that the members were opened with
 * @count: room in @context, elements; more than 0
 *
 * Makes progress on the members first. Each change of a counter is reported
 * once. Members that did not fit into @context come first in the next call.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: Number of contexts stored, 0 if nothing is ready, -KFI_EINVAL.
 */
static inline int kfi_poll(struct kfid_poll *pollset, void **context, int count)
{
	return pollset->ops->poll(pollset, context, count);
}

/**
 * kfi_poll_add() - add a CQ, EQ or counter to a poll set
 * @pollset: the poll set
 * @event_kfid: the new member; pinned until it is deleted
 * @flags: reserved, 0
 *
 * If the new member is ready, the next kfi_poll() reports it.
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL if the object is of another kind or of another domain
 *	or fabric, or if flags are given, -KFI_EALREADY if it is a member,
 *	-KFI_ENOSPC if it is in KFI_OBSERVERS_MAX sets, -KFI_ENOMEM.
 */
static inline int kfi_poll_add(struct kfid_poll *pollset,
			       struct kfid *event_kfid, uint64_t flags)
{
	return pollset->ops->poll_add(pollset, event_kfid, flags);
}

/**
 * kfi_poll_del() - remove a member from a poll set
 * @pollset: the poll set
 * @event_kfid: the member; after the call, kfi_poll() never returns its context
 * @flags: reserved, 0
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL if it is not a member or flags are given.
 */
static inline int kfi_poll_del(struct kfid_poll *pollset,
			       struct kfid *event_kfid, uint64_t flags)
{
	return pollset->ops->poll_del(pollset, event_kfid, flags);
}

/**
 * kfi_eq_open() - open an event queue
 * @fabric: the fabric
 * @attr: size and wait object, or NULL. Objects that are bound to the queue add room
 *	for their own events.
 * @eq: where the queue is stored
 * @event_handler: called when the queue becomes readable, or NULL
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL for a bad attribute, -KFI_ENOSYS if the wait object is
 *	not supported, -KFI_ENOMEM.
 */
static inline int kfi_eq_open(struct kfid_fabric *fabric,
			      struct kfi_eq_attr *attr, struct kfid_eq **eq,
			      kfi_event_handler event_handler, void *context)
{
	return fabric->ops->eq_open(fabric, attr, eq, event_handler, context);
}

/**
 * kfi_eq_read() - read one event
 * @eq: the event queue
 * @event: where the event, KFI_CONNREQ and so on, is stored
 * @buf: where the payload is stored
 * @len: room in @buf, bytes
 * @flags: 0, or KFI_PEEK to leave the event in the queue
 *
 * An event that was left may be gone at the next read, and with it what it points to: it
 * is taken back when its object is closed, or when the peer of a KFI_CONNREQ gives up.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: Bytes stored in @buf, -KFI_EAGAIN if the queue is empty, -KFI_EAVAIL
 *	if an error is first, -KFI_ETOOSMALL if @len is too small (the event
 *	stays).
 */
static inline ssize_t kfi_eq_read(struct kfid_eq *eq, uint32_t *event,
				  void *buf, size_t len, uint64_t flags)
{
	return eq->ops->read(eq, event, buf, len, flags);
}

/**
 * kfi_eq_readerr() - read one error entry
 * @eq: the event queue
 * @buf: where the entry is stored
 * @flags: 0, or KFI_PEEK to leave the entry in the queue
 *
 * On input, err_data and err_data_size may describe a buffer for the data.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: sizeof(struct kfi_eq_err_entry), -KFI_EAGAIN if no error is first.
 */
static inline ssize_t kfi_eq_readerr(struct kfid_eq *eq,
				     struct kfi_eq_err_entry *buf,
				     uint64_t flags)
{
	return eq->ops->readerr(eq, buf, flags);
}

/**
 * kfi_eq_write() - put a user event into the queue
 * @eq: the event queue
 * @event: any number
 * @buf: payload
 * @len: bytes of @buf, more than 0
 * @flags: reserved, 0
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: @len, -KFI_EAGAIN if as many events of the user are unread as the queue
 *	holds, -KFI_EINVAL, -KFI_ENOSYS.
 */
static inline ssize_t kfi_eq_write(struct kfid_eq *eq, uint32_t event,
				   const void *buf, size_t len, uint64_t flags)
{
	return eq->ops->write(eq, event, buf, len, flags);
}

/**
 * kfi_eq_sread() - wait for an event and read it
 * @eq: the event queue
 * @event: where the event, KFI_CONNREQ and so on, is stored
 * @buf: where the payload is stored
 * @len: room in @buf, bytes
 * @timeout: milliseconds; 0 checks once, negative has no limit
 * @flags: 0, or KFI_PEEK to leave the event in the queue
 *
 * Context: Process context. May sleep, except with @timeout 0.
 * Return: As kfi_eq_read(), but -KFI_ETIMEDOUT at the deadline, and -EINTR.
 */
static inline ssize_t kfi_eq_sread(struct kfid_eq *eq, uint32_t *event,
				   void *buf, size_t len, int timeout,
				   uint64_t flags)
{
	return eq->ops->sread(eq, event, buf, len, timeout, flags);
}

/**
 * kfi_eq_strerror() - text for an error entry
 * @eq: the event queue
 * @prov_errno: of the entry
 * @err_data: of the entry, may be NULL
 * @buf: buffer for a copy of the text, or NULL
 * @len: room in @buf, bytes
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: The text, or NULL if the provider has none.
 */
static inline const char *kfi_eq_strerror(struct kfid_eq *eq, int prov_errno,
					  const void *err_data, char *buf,
					  size_t len)
{
	return eq->ops->strerror(eq, prov_errno, err_data, buf, len);
}

/**
 * kfi_cq_read() - read completions
 * @cq: the completion queue
 * @buf: array of entries in the format of the CQ
 * @count: room in @buf, entries
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: Number of entries stored, -KFI_EAGAIN if there is none, -KFI_EAVAIL if
 *	an error is first, -KFI_EOVERRUN if completions were lost (then the CQ
 *	can only be closed).
 */
static inline ssize_t kfi_cq_read(struct kfid_cq *cq, void *buf, size_t count)
{
	return cq->ops->read(cq, buf, count);
}

/**
 * kfi_cq_readfrom() - read completions and their source addresses
 * @cq: the completion queue
 * @buf: array of entries in the format of the CQ
 * @count: room in @buf and @src_addr, entries
 * @src_addr: array for the sources; KFI_ADDR_NOTAVAIL if unknown
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: As kfi_cq_read().
 */
static inline ssize_t kfi_cq_readfrom(struct kfid_cq *cq, void *buf,
				      size_t count, kfi_addr_t *src_addr)
{
	return cq->ops->readfrom(cq, buf, count, src_addr);
}

/**
 * kfi_cq_readerr() - read the error entry that is first
 * @cq: the completion queue
 * @buf: where the entry is stored
 * @flags: 0, or KFI_PEEK to leave the entry in the queue
 *
 * On input, err_data and err_data_size may describe a buffer for the provider's
 * data. Otherwise err_data points to the data, which is valid until the next
 * read.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 1, -KFI_EAGAIN if no error is first.
 */
static inline ssize_t kfi_cq_readerr(struct kfid_cq *cq,
				     struct kfi_cq_err_entry *buf,
				     uint64_t flags)
{
	return cq->ops->readerr(cq, buf, flags);
}

/**
 * kfi_cq_sread() - wait for completions and read them
 * @cq: the completion queue
 * @buf: array of entries in the format of the CQ
 * @count: room in @buf, entries
 * @cond: argument of the wait_cond of the CQ, or NULL
 * @timeout: milliseconds; 0 checks once, negative has no limit
 *
 * Context: Process context. May sleep, except with @timeout 0.
 * Return: As kfi_cq_read(), but -KFI_ETIMEDOUT at the deadline, -KFI_EAGAIN
 *	after kfi_cq_signal(), and -EINTR.
 */
static inline ssize_t kfi_cq_sread(struct kfid_cq *cq, void *buf, size_t count,
				   const void *cond, int timeout)
{
	return cq->ops->sread(cq, buf, count, cond, timeout);
}

/**
 * kfi_cq_sreadfrom() - kfi_cq_sread() with the source addresses
 * @cq: the completion queue
 * @buf: array of entries in the format of the CQ
 * @count: room in @buf and @src_addr, entries
 * @src_addr: array for the sources; KFI_ADDR_NOTAVAIL if unknown
 * @cond: argument of the wait_cond of the CQ, or NULL
 * @timeout: milliseconds; 0 checks once, negative has no limit
 *
 * Context: Process context. May sleep, except with @timeout 0.
 * Return: As kfi_cq_sread().
 */
static inline ssize_t kfi_cq_sreadfrom(struct kfid_cq *cq, void *buf,
				       size_t count, kfi_addr_t *src_addr,
				       const void *cond, int timeout)
{
	return cq->ops->sreadfrom(cq, buf, count, src_addr, cond, timeout);
}

/**
 * kfi_cq_signal() - wake all threads that wait on a CQ
 * @cq: the completion queue
 *
 * The call also wakes the threads that wait in the CQ's wait set. It has no
 * effect on a thread that begins to wait later.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_EINVAL if the CQ has no wait object.
 */
static inline int kfi_cq_signal(struct kfid_cq *cq)
{
	return cq->ops->signal(cq);
}

/**
 * kfi_cq_strerror() - text for an error entry
 * @cq: the completion queue
 * @prov_errno: of the entry
 * @err_data: of the entry, may be NULL
 * @buf: buffer for a copy of the text, or NULL
 * @len: room in @buf, bytes
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: The text, or NULL if the provider has none.
 */
static inline const char *kfi_cq_strerror(struct kfid_cq *cq, int prov_errno,
					  const void *err_data, char *buf,
					  size_t len)
{
	return cq->ops->strerror(cq, prov_errno, err_data, buf, len);
}

/**
 * kfi_cntr_read() - number of successful operations
 * @cntr: the counter
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: The value, 64 bits that wrap.
 */
static inline uint64_t kfi_cntr_read(struct kfid_cntr *cntr)
{
	return cntr->ops->read(cntr);
}

/**
 * kfi_cntr_readerr() - number of failed operations
 * @cntr: the counter
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: The value, 64 bits that wrap.
 */
static inline uint64_t kfi_cntr_readerr(struct kfid_cntr *cntr)
{
	return cntr->ops->readerr(cntr);
}

/**
 * kfi_cntr_add() - add to the success value
 * @cntr: the counter
 * @value: amount to add
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_ENOSYS.
 */
static inline int kfi_cntr_add(struct kfid_cntr *cntr, uint64_t value)
{
	return cntr->ops->add(cntr, value);
}

/**
 * kfi_cntr_adderr() - add to the error value
 * @cntr: the counter
 * @value: amount to add
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_ENOSYS, also if the provider predates the call.
 */
static inline int kfi_cntr_adderr(struct kfid_cntr *cntr, uint64_t value)
{
	if (!KFI_CHECK_OP(cntr->ops, struct kfi_ops_cntr, adderr))
		return -KFI_ENOSYS;

	return cntr->ops->adderr(cntr, value);
}

/**
 * kfi_cntr_set() - set the success value
 * @cntr: the counter
 * @value: the new value
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_ENOSYS.
 */
static inline int kfi_cntr_set(struct kfid_cntr *cntr, uint64_t value)
{
	return cntr->ops->set(cntr, value);
}

/**
 * kfi_cntr_seterr() - set the error value
 * @cntr: the counter
 * @value: the new value
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_ENOSYS, also if the provider predates the call.
 */
static inline int kfi_cntr_seterr(struct kfid_cntr *cntr, uint64_t value)
{
	if (!KFI_CHECK_OP(cntr->ops, struct kfi_ops_cntr, seterr))
		return -KFI_ENOSYS;

	return cntr->ops->seterr(cntr, value);
}

/**
 * kfi_cntr_wait() - wait until a counter has reached a value
 * @cntr: the counter
 * @threshold: the success value to reach
 * @timeout: milliseconds; 0 checks once, negative has no limit
 *
 * Context: Process context. May sleep, except with @timeout 0.
 * Return: 0 if the success value was at least @threshold, -KFI_EAVAIL if the
 *	error value changed first, -KFI_ETIMEDOUT, -EINTR.
 */
static inline int kfi_cntr_wait(struct kfid_cntr *cntr, uint64_t threshold,
				int timeout)
{
	return cntr->ops->wait(cntr, threshold, timeout);
}

#endif /* !KFABRIC_DIRECT */

#endif /* _KFI_EQ_H_ */
