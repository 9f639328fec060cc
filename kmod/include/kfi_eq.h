/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * What tells a caller that something has happened: event queues, completion
 * queues and counters, and what to sleep on: wait sets and poll sets.
 *
 * Blocking calls take milliseconds: 0 looks once and does not sleep, a negative
 * value has no limit, anything else counts from the call and never ends early.
 * (With kfabric.ko's parameter sread_zero_blocks, 0 has no limit either in the
 * sread calls, as older code expects.) They are refused with -KFI_EINVAL on an
 * object without a wait object or in a wait set, sleep interruptibly, and end
 * with -EINTR if nothing is there and a signal is pending or the kthread is to
 * stop.
 *
 * CQs, counters, wait sets and poll sets are opened by kfi_domain.h.
 */
#ifndef _KFI_EQ_H_
#define _KFI_EQ_H_

#include <kfabric.h>
#include <kfi_errno.h>

/* What a thread can sleep on until an object or a set is ready. */
enum kfi_wait_obj {
	KFI_WAIT_NONE,		/* nothing: read or poll */
	KFI_WAIT_UNSPEC,	/* something that only our own calls use */
	KFI_WAIT_SET,		/* the wait set in wait_set */
	/*
	 * A wait_queue_head; KFI_GETWAIT gives it. One waits for
	 * kfi_wait(set, 0) != -KFI_ETIMEDOUT: 0 is ready, -KFI_ENODEV never
	 * again.
	 */
	KFI_WAIT_QUEUE,

	/* Not in kfabric 1.7. */
	KFI_WAIT_MUTEX_COND,	/* a mutex and a condition */
	KFI_WAIT_FD,		/* a file descriptor */
	KFI_WAIT_POLLFD,	/* one file descriptor for each member */
	KFI_WAIT_YIELD		/* nothing: give the CPU away, look again */
};

struct kfi_wait_attr {
	enum kfi_wait_obj wait_obj;
	uint64_t flags;			/* 0 */
};

/*
 * For kfi_control(KFI_SETFIDFLAG) on a wait set: each publication wakes one
 * sleeper, not all. Who was woken owes a read or another kfi_wait(); a thread that
 * does neither (also one that is killed on its way back to user space) leaves the
 * others asleep until the next publication. Only while
 * nobody sleeps (else -EBUSY); there is no KFI_GETWAIT then. Not in kfabric 1.7.
 */
#define KFI_WAIT_EXCLUSIVE	BIT_ULL(60)

/* What KFI_GETWAIT gives for KFI_WAIT_MUTEX_COND. Not in kfabric 1.7. */
struct kfi_cond;

struct kfi_mutex_cond {
	struct mutex *mutex;		/* the caller's to lock */
	struct kfi_cond *cond;
};

int kfi_cond_wait(struct kfi_cond *cond, int timeout);

struct kfi_ops_wait {
	size_t size;
	int (*wait)(struct kfid_wait *waitset, int timeout);
};

struct kfid_wait {
	struct kfid kfid;		/* not fid, unlike all others */
	struct kfi_ops_wait *ops;
};

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

/* Without attributes: the provider's own size, and KFI_WAIT_UNSPEC. */
struct kfi_eq_attr {
	size_t size;			/* events; 0: the provider's choice */
	uint64_t flags;			/* 0 */
	enum kfi_wait_obj wait_obj;
	int signaling_vector;		/* a CPU, with KFI_AFFINITY */
	struct kfid_wait *wait_set;	/* with KFI_WAIT_SET */
};

/* Events, with what the payload begins with. */
enum {
	KFI_NOTIFY,		/* the provider's own */
	KFI_CONNREQ,		/* kfi_eq_cm_entry; fid is the passive endpoint */
	KFI_CONNECTED,		/* kfi_eq_cm_entry */
	KFI_SHUTDOWN,		/* kfi_eq_cm_entry; the peer is gone */
	KFI_MR_COMPLETE,	/* kfi_eq_entry; fid is the region */
	KFI_AV_COMPLETE,	/* kfi_eq_entry; data is how many went in */
	KFI_JOIN_COMPLETE	/* kfi_eq_entry; fid is the group */
};

struct kfi_eq_entry {
	struct kfid *fid;		/* what the event is about */
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

/* Which of the entries below a CQ holds. */
enum kfi_cq_format {
	KFI_CQ_FORMAT_UNSPEC,
	KFI_CQ_FORMAT_CONTEXT,
	KFI_CQ_FORMAT_MSG,
	KFI_CQ_FORMAT_DATA,
	KFI_CQ_FORMAT_TAGGED
};

/* Each entry is the beginning of the next. */
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
	void *buf;			/* where in a multi-receive buffer */
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

/* When kfi_cq_sread() wakes up, and what its cond is. */
enum kfi_cq_wait_cond {
	KFI_CQ_COND_NONE,		/* at the first entry; cond is unused */
	KFI_CQ_COND_THRESHOLD		/* at cond entries, a size_t by value */
};

/* Without attributes: the provider's own size, and KFI_WAIT_UNSPEC. */
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
 * kfi_wait() - sleep until a member of a wait set is ready
 * @waitset: the wait set
 * @timeout: milliseconds; 0 checks once, negative has no limit
 *
 * Ready is a CQ or EQ with something to read, and a counter that has moved
 * since it was read. Nothing is consumed. Every thread that sleeps in the set
 * is woken; the others may have emptied the member by then.
 *
 * Context: Process context. May sleep, except with @timeout 0.
 * Return: 0 a member is or was ready, -KFI_ETIMEDOUT, -EINTR, -KFI_ENODEV the
 *	devices of all members are gone.
 */
static inline int kfi_wait(struct kfid_wait *waitset, int timeout)
{
	return waitset->ops->wait(waitset, timeout);
}

/**
 * kfi_poll() - find out which members of a poll set have something to read
 * @pollset: the poll set
 * @context: array for the contexts given when the members were opened
 * @count: room in @context, elements; more than 0
 *
 * Makes progress on the members first. A counter is reported once for a change.
 * Members that did not fit come first in the next call.
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
 * What is ready already is reported by the next kfi_poll().
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL another kind of object, of another domain, or flags
 *	given, -KFI_EALREADY it is a member.
 */
static inline int kfi_poll_add(struct kfid_poll *pollset,
			       struct kfid *event_kfid, uint64_t flags)
{
	return pollset->ops->poll_add(pollset, event_kfid, flags);
}

/**
 * kfi_poll_del() - take a member out of a poll set
 * @pollset: the poll set
 * @event_kfid: the member; after the call its context is not reported any more
 * @flags: reserved, 0
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL not a member, or flags given.
 */
static inline int kfi_poll_del(struct kfid_poll *pollset,
			       struct kfid *event_kfid, uint64_t flags)
{
	return pollset->ops->poll_del(pollset, event_kfid, flags);
}

/**
 * kfi_eq_open() - open an event queue
 * @fabric: the fabric
 * @attr: size and wait object, or NULL
 * @eq: where the queue is stored
 * @event_handler: called when the queue becomes readable, or NULL
 * @context: the caller's, kept in fid.context
 *
 * Context: Process context. May sleep.
 * Return: 0, -KFI_EINVAL bad attribute, -KFI_ENOSYS wait object not
 *	supported, -KFI_ENOMEM.
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
 * Context: Process or softirq context. Does not sleep.
 * Return: Bytes stored in @buf, -KFI_EAGAIN empty, -KFI_EAVAIL an error is
 *	first, -KFI_ETOOSMALL @len (the event stays), -KFI_EOVERRUN events were
 *	lost.
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
 * On input err_data and err_data_size may name a buffer for the data.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: sizeof(struct kfi_eq_err_entry), -KFI_EAGAIN no error is first,
 *	-KFI_EOVERRUN events were lost.
 */
static inline ssize_t kfi_eq_readerr(struct kfid_eq *eq,
				     struct kfi_eq_err_entry *buf,
				     uint64_t flags)
{
	return eq->ops->readerr(eq, buf, flags);
}

/**
 * kfi_eq_write() - put an event of one's own into the queue
 * @eq: the event queue
 * @event: any number
 * @buf: payload
 * @len: bytes of @buf, more than 0
 * @flags: reserved, 0
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: @len, -KFI_EAGAIN full, -KFI_EINVAL, -KFI_ENOSYS.
 */
static inline ssize_t kfi_eq_write(struct kfid_eq *eq, uint32_t event,
				   const void *buf, size_t len, uint64_t flags)
{
	return eq->ops->write(eq, event, buf, len, flags);
}

/**
 * kfi_eq_sread() - sleep until there is an event and read it
 * @eq: the event queue
 * @event: where the event, KFI_CONNREQ and so on, is stored
 * @buf: where the payload is stored
 * @len: room in @buf, bytes
 * @timeout: milliseconds; 0 checks once, negative has no limit
 * @flags: 0, or KFI_PEEK to leave the event in the queue
 *
 * Context: Process context. May sleep, except with @timeout 0.
 * Return: As kfi_eq_read(), but -KFI_ETIMEDOUT when time is up, and -EINTR.
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
 * @buf: where the text is copied to, or NULL
 * @len: room in @buf, bytes
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: The text; NULL from providers without any.
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
 * Return: Number of entries stored, -KFI_EAGAIN none, -KFI_EAVAIL an error is
 *	first, -KFI_EOVERRUN completions were lost and the CQ is of no more use.
 */
static inline ssize_t kfi_cq_read(struct kfid_cq *cq, void *buf, size_t count)
{
	return cq->ops->read(cq, buf, count);
}

/**
 * kfi_cq_readfrom() - read completions and where they came from
 * @cq: the completion queue
 * @buf: array of entries in the format of the CQ
 * @count: room in @buf and @src_addr, entries
 * @src_addr: array for the sources; KFI_ADDR_NOTAVAIL where none is known
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
 * On input err_data and err_data_size may name a buffer for the provider's
 * data; otherwise err_data points to it, until the next read.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 1, -KFI_EAGAIN no error is first.
 */
static inline ssize_t kfi_cq_readerr(struct kfid_cq *cq,
				     struct kfi_cq_err_entry *buf,
				     uint64_t flags)
{
	return cq->ops->readerr(cq, buf, flags);
}

/**
 * kfi_cq_sread() - sleep until there are completions and read them
 * @cq: the completion queue
 * @buf: array of entries in the format of the CQ
 * @count: room in @buf, entries
 * @cond: what wait_cond of the CQ says; else NULL
 * @timeout: milliseconds; 0 checks once, negative has no limit
 *
 * Context: Process context. May sleep, except with @timeout 0.
 * Return: As kfi_cq_read(), but -KFI_ETIMEDOUT when time is up, -KFI_EAGAIN
 *	after kfi_cq_signal(), and -EINTR.
 */
static inline ssize_t kfi_cq_sread(struct kfid_cq *cq, void *buf, size_t count,
				   const void *cond, int timeout)
{
	return cq->ops->sread(cq, buf, count, cond, timeout);
}

/**
 * kfi_cq_sreadfrom() - kfi_cq_sread() that tells the sources as well
 * @cq: the completion queue
 * @buf: array of entries in the format of the CQ
 * @count: room in @buf and @src_addr, entries
 * @src_addr: array for the sources; KFI_ADDR_NOTAVAIL where none is known
 * @cond: what wait_cond of the CQ says; else NULL
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
 * kfi_cq_signal() - wake all threads that sleep on a CQ
 * @cq: the completion queue
 *
 * Those in the CQ's wait set wake up too. A thread that comes later sleeps.
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_EINVAL nobody can block on it.
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
 * @buf: where the text is copied to, or NULL
 * @len: room in @buf, bytes
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: The text; NULL from providers without any.
 */
static inline const char *kfi_cq_strerror(struct kfid_cq *cq, int prov_errno,
					  const void *err_data, char *buf,
					  size_t len)
{
	return cq->ops->strerror(cq, prov_errno, err_data, buf, len);
}

/**
 * kfi_cntr_read() - number of operations that succeeded
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
 * kfi_cntr_readerr() - number of operations that failed
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
 * @value: what to add
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
 * @value: what to add
 *
 * Context: Process or softirq context. Does not sleep.
 * Return: 0, -KFI_ENOSYS also from providers too old to have the call.
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
 * Return: 0, -KFI_ENOSYS also from providers too old to have the call.
 */
static inline int kfi_cntr_seterr(struct kfid_cntr *cntr, uint64_t value)
{
	if (!KFI_CHECK_OP(cntr->ops, struct kfi_ops_cntr, seterr))
		return -KFI_ENOSYS;

	return cntr->ops->seterr(cntr, value);
}

/**
 * kfi_cntr_wait() - sleep until a counter has reached a value
 * @cntr: the counter
 * @threshold: the success value to reach
 * @timeout: milliseconds; 0 checks once, negative has no limit
 *
 * Context: Process context. May sleep, except with @timeout 0.
 * Return: 0 the success value was at least @threshold, -KFI_EAVAIL the error
 *	value changed first, -KFI_ETIMEDOUT, -EINTR.
 */
static inline int kfi_cntr_wait(struct kfid_cntr *cntr, uint64_t threshold,
				int timeout)
{
	return cntr->ops->wait(cntr, threshold, timeout);
}

#endif /* !KFABRIC_DIRECT */

#endif /* _KFI_EQ_H_ */
