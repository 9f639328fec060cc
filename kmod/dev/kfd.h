/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Inside kfabric_dev.ko: /dev/kfabric on top of the in-kernel API.
 *
 * DOC: Lock order
 *
 *   mmap_lock			of the caller's memory, in kfd_mmap() and faults
 *     client->objects' xa_lock
 *
 *   ep->sem			an endpoint: read to post, write to alter
 *   obj->readers		one CQ, EQ, counter, channel, profile or poll set: look,
 *				copy out, remove is done by one thread at a time.
 *				For an address vector and a memory region: alter. For an
 *				endpoint: search what may be cancelled
 *     mmap_lock		faults while an answer is copied out
 *       client->objects' xa_lock
 *				handles, users, sums; a spinlock taken with interrupts
 *				on. Not a leaf, see below.
 *     poll->members' xa_lock	(leaf)
 *     ep->ops_lock		(leaf) also taken by reports, with interrupts off and with
 *				locks of a provider held
 *     client->rings_lock	(leaf) the list of rings: also read at the begin of each
 *				ioctl(), with no other lock held
 *
 * The sleeping locks are taken in this order, and none of them while the thread sleeps
 * in a wait of kfabric's, or waits for a close. A caller that waits for one can be
 * interrupted by a signal, or killed where an interrupted call could not be repeated.
 * Only a ring's begin and end wait for looks at rings in any case: they do not sleep. A
 * provider's functions are called with ep->sem held and may sleep.
 *
 * The locks of kmod/core/core.h come after those of this file: no function of this
 * module runs with one of them held, but those that store in a ring, which take no
 * lock. Below client->objects' xa_lock these are taken:
 *
 *   channel->lock		kfi_ack_cq_events(), kfi_cq_discard_events()
 *   queue->head.lock		the same two, after channel->lock was released: they
 *				wake a close that waits for acknowledgments
 *     watch->head.lock
 *
 * So nothing that is called with channel->lock or a queue's lock held may take the
 * xa_lock.
 *
 * DOC: Lifetime
 *
 * An id is reserved, the object filled, and only then visible. obj->users counts the
 * handle, each other object of this module that needs the object, and each blocking call
 * that looked it up: a close is refused unless the handle is the only one. obj->calls
 * counts the other calls in progress that looked it up: a close waits for them. Every call
 * holds the open file, so the release of the file comes after the last call. It closes
 * the objects itself in the process that has opened the file, else in a work item.
 *
 *	KFD_OPEN	lookups find it
 *	KFD_ENDING	a close waits until obj->calls is 0. A call that begins now waits
 *			for the outcome. A call that has looked up another object
 *			already gets this one: the close waits for it, too
 *	KFD_CLOSING	the close asks kfabric, which may refuse; every lookup waits
 *	KFD_GONE	closed; the last user frees it
 *
 * No two threads wait for each other. A close in KFD_ENDING waits for calls. Such a call
 * waits for no close in KFD_ENDING, because it holds a reference, but perhaps for one in
 * KFD_CLOSING, and that one waits for no call. Closes of different objects run side by
 * side. A batch uses its wait set as a blocking call does. Its posts and reads are calls
 * with references of their own: while one of them waits for a close, a close of the wait
 * set is refused and does not wait.
 *
 * Two classes close differently. A completion channel closes while threads sleep in
 * it: the sleeping calls end, and the last of them frees the object. A CQ of a channel
 * waits for acknowledgments: meanwhile it is draining, keeps its handle, and only
 * KFAB_IOC_ACK_CQ_EVENTS and another close find it.
 */
#ifndef _KFABRIC_DEV_KFD_H_
#define _KFABRIC_DEV_KFD_H_

#include <linux/completion.h>
#include <linux/fs.h>
#include <linux/lockdep.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include <kfabric.h>
#include <kfi_atomic.h>
#include <kfi_channel.h>
#include <kfi_core.h>
#include <kfi_cm.h>
#include <kfi_domain.h>
#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <kfi_rma.h>
#include <kfi_tagged.h>
#include <kfi_test.h>

#include <linux/kfabric.h>

/* Classes of this module, numbered after those of kfabric. */
enum {
	KFD_CLASS_BUF = KFI_CLASS_PROFILE + 1,
	KFD_CLASS_MAX = KFI_CLASS_COMP_CHANNEL + 1
};

#define KFD_CLASS(c) BIT(c)

/* A provider leaves out the table, or the slot, of a call that it does not have. */
#define KFD_HAS(_ops, _slot) ({						\
	__auto_type __ops = (_ops);					\
									\
	__ops && KFI_CHECK_OP(__ops, typeof(*__ops), _slot);		\
})

/* Classes that operations are posted on. */
#define KFD_SENDERS (KFD_CLASS(KFI_CLASS_EP) | KFD_CLASS(KFI_CLASS_TX_CTX))
#define KFD_RECEIVERS (KFD_CLASS(KFI_CLASS_EP) | KFD_CLASS(KFI_CLASS_RX_CTX))
#define KFD_ENDPOINTS \
	(KFD_SENDERS | KFD_RECEIVERS | KFD_CLASS(KFI_CLASS_SEP))

#define KFD_SOURCES \
	(KFD_CLASS(KFI_CLASS_CQ) | KFD_CLASS(KFI_CLASS_EQ) | KFD_CLASS(KFI_CLASS_CNTR))

struct kfd_user;
struct kfd_ring;

/**
 * struct kfd_client - one open file
 * @refs: the file, until its objects are closed, and a thread that waits for that; atomic
 * @user: the user that has opened it; constant
 * @opener: the process that has opened it, referenced; constant
 * @work: closes the objects if another process has released the file
 * @closed: completed when the objects are closed
 * @objects: id to object; its xa_lock protects what is marked (xa_lock) here and in
 *	     struct kfd_obj
 * @last_id: the id given out last; none is given twice (xa_lock)
 * @count: ids in use or reserved (xa_lock; kfd_pollfd_room() reads it without)
 * @bytes: buffer memory; atomic, as a report may release it
 * @rings_lock: protects @rings; held for reading to look at each of them
 * @rings: rings of CQs whose close has not begun
 */
struct kfd_client {
	refcount_t refs;
	struct kfd_user *user;
	struct pid *opener;
	struct work_struct work;
	struct completion closed;
	struct xarray objects;
	u32 last_id;
	u32 count;
	atomic64_t bytes;
	struct rw_semaphore rings_lock;	/* rings */
	struct list_head rings;
};

/* How far an object is, see the top of this file. */
enum kfd_life {
	KFD_OPEN,
	KFD_ENDING,
	KFD_CLOSING,
	KFD_GONE,
};

/* What a lookup waits for. */
enum kfd_lookup {
	KFD_FIRST,	/* any close in progress: the call holds no reference */
	KFD_FURTHER,	/* a close that asks kfabric: the call holds references */
	KFD_NOWAIT,	/* no close: the caller must not sleep */
};

/**
 * struct kfd_obj - the object behind a handle
 * @client: the client that owns it; constant
 * @id: the handle; constant
 * @fclass: KFI_CLASS_* or KFD_CLASS_*; constant
 * @life: see the top of this file (xa_lock)
 * @users: what a close is refused for (xa_lock)
 * @calls: calls in progress that a close waits for (xa_lock)
 * @waiters: threads that wait for the end of a close (xa_lock)
 * @draining: the close of a CQ waits for acknowledgments (xa_lock)
 * @idle: completed when @calls is 0, of the close that waits; or NULL (xa_lock)
 * @wait_obj: as the user asked for; kfabric has KFI_WAIT_UNSPEC in place of some.
 *	      Constant once the object is visible
 * @changes: of a wait set: how often a member was added or removed (xa_lock)
 * @set: the wait set that it is a member of, held, or NULL; constant once visible
 * @context: the user's number; constant once visible
 * @fid: the kfabric object, or NULL; constant once visible
 * @readers: see the top of this file
 *
 * (xa_lock) is that of @client->objects.
 */
struct kfd_obj {
	struct kfd_client *client;
	u32 id;
	u32 fclass;
	enum kfd_life life;
	u32 users;
	u32 calls;
	struct list_head waiters;
	bool draining;
	struct completion *idle;
	u32 wait_obj;
	u32 changes;
	struct kfd_obj *set;
	u64 context;
	struct kfid *fid;
	struct mutex readers;	/* look, copy out, remove */
};

/**
 * struct kfd_buf - a message buffer
 * @obj: the handle
 * @refs: atomic: the handle, each mapping, each use by an operation in flight, a ring
 * @addr: physically contiguous kernel memory; constant once visible
 * @len: bytes, whole pages; constant once visible
 */
struct kfd_buf {
	struct kfd_obj obj;
	refcount_t refs;
	void *addr;
	size_t len;
};

/**
 * struct kfd_ep - an endpoint of any kind, or a context of a scalable one
 * @obj: the handle
 * @sem: held for reading to post, for writing to alter
 * @ops_lock: protects @ops and @last_op
 * @ops: operations in flight, oldest first
 * @last_op: number of the last one
 */
struct kfd_ep {
	struct kfd_obj obj;
	struct rw_semaphore sem;
	spinlock_t ops_lock;	/* also of reports, with interrupts off */
	struct list_head ops;
	u64 last_op;
};

/**
 * struct kfd_cq - a completion queue
 * @obj: the handle
 * @format: of its entries; constant once visible
 * @cond: whether a blocking read takes a threshold; constant once visible
 * @ring: shows its entries; or NULL. Set once under @obj.readers
 */
struct kfd_cq {
	struct kfd_obj obj;
	enum kfi_cq_format format;
	enum kfi_cq_wait_cond cond;
	struct kfd_ring *ring;
};

/**
 * struct kfd_channel - a completion channel
 * @obj: the handle; @obj.readers: one thread at a time hands out an event
 * @channel: the same as @obj.fid; referenced until this structure is freed, so a call
 *	     may use it after the close. Constant once visible
 */
struct kfd_channel {
	struct kfd_obj obj;
	struct kfid_comp_channel *channel;
};

/**
 * struct kfd_eq - an event queue
 * @obj: the handle
 * @fabric: the fabric that it was opened on, which cannot close before it; constant
 *	    once visible
 */
struct kfd_eq {
	struct kfd_obj obj;
	struct kfd_obj *fabric;
};

/**
 * struct kfd_mr - a memory region
 * @obj: the handle
 * @bufs: the buffers that it covers, held; constant once visible
 * @nbufs: how many; constant once visible
 */
struct kfd_mr {
	struct kfd_obj obj;
	struct kfd_buf **bufs;
	unsigned int nbufs;
};

/**
 * struct kfd_poll - a poll set
 * @obj: the handle
 * @members: by id (obj.readers)
 * @pending: counters that kfabric has reported and whose report could not be copied
 *	     out (obj.readers)
 * @npending: how many (obj.readers)
 */
struct kfd_poll {
	struct kfd_obj obj;
	struct xarray members;
	struct kfd_obj **pending;
	unsigned int npending;
};

/**
 * struct kfd_connreq - a connection request that was read
 * @obj: the handle
 * @info: from the event, owned; its handle is the request. Constant once visible
 * @fabric: held, because a provider drops the requests of a fabric that closes;
 *	    constant once visible
 */
struct kfd_connreq {
	struct kfd_obj obj;
	struct kfi_info *info;
	struct kfd_obj *fabric;
};

/**
 * struct kfd_vec - the pieces of buffers that one call names; used by that call only
 * @kvec: their addresses and lengths
 * @desc: their local descriptors
 * @buf: the buffers, pinned
 * @mr: the regions that the descriptors come from, pinned, or NULL
 * @n: number of pieces
 * @one: where all this is for a single piece, as most calls name: an allocation takes as long
 *	 as the look-up
 */
struct kfd_vec {
	struct kvec *kvec;
	void **desc;
	struct kfd_buf **buf;
	struct kfd_obj **mr;
	unsigned int n;
	struct {
		struct kvec kvec;
		void *desc;
		struct kfd_buf *buf;
		struct kfd_obj *mr;
	} one;
};

struct kfd_op;

/* @context: the operation, or NULL to inject. */
typedef ssize_t (*kfd_post_fn)(struct kfid_ep *ep, const struct kfd_vec *vec,
			       void *context, const void *arg);

/**
 * struct kfd_profile_list - variables or events that are listed to users
 * @descs: their descriptions
 * @count: how many
 */
struct kfd_profile_list {
	struct kfi_profile_desc *descs;
	size_t count;
};

/**
 * struct kfd_profile - a profile
 * @obj: the handle; @obj.readers: one reader of events at a time
 * @vars: its variables; constant once visible
 * @events: its events; constant once visible
 */
struct kfd_profile {
	struct kfd_obj obj;
	struct kfd_profile_list vars;
	struct kfd_profile_list events;
};

/**
 * struct kfd_class - the differences between the classes of objects
 * @size: of the structure that contains the struct kfd_obj
 * @rank: at the release of a client, lower ranks are closed first
 * @ends_calls: a call in progress does not keep it from closing, but ends
 * @init: prepares the structure, or NULL
 * @close: closes the object; NULL: kfi_close() of obj->fid
 * @free: frees what the structure holds, after the close or a failed open
 */
struct kfd_class {
	size_t size;
	unsigned int rank;
	bool ends_calls;
	void (*init)(struct kfd_obj *obj);
	int (*close)(struct kfd_obj *obj);
	void (*free)(struct kfd_obj *obj);
};

#define KFD_RANKS 8

extern const struct kfd_class kfd_classes[KFD_CLASS_MAX];

struct kfd_ioctl;

/* The parts of a batch that are calls of their own. */
enum kfd_part {
	KFD_PART_NONE,
	KFD_PART_POST,
	KFD_PART_READ,
};

/**
 * struct kfd_call - one ioctl in progress; used by its thread only
 * @client: the open file
 * @op: the table entry of the ioctl
 * @uarg: the caller's structure
 * @usize: its size there
 * @arg: the kernel's copy
 * @answered: the answer was written, or must not be
 * @blocks: the call may sleep until something happens, so it uses its objects
 * @fresh: the object being opened: made visible on success, undone otherwise
 * @set: the wait set that an object is opened on
 * @pins: objects that are referenced until the call ends
 * @npins: how many
 */
struct kfd_call {
	struct kfd_client *client;
	const struct kfd_ioctl *op;
	void __user *uarg;
	u32 usize;
	void *arg;
	bool answered;
	bool blocks;
	struct kfd_obj *fresh;
	struct kfd_obj *set;
	struct kfd_obj *pins[4];
	unsigned int npins;
};

/* user.c */
struct kfd_user *kfd_user_get(void);
void kfd_user_put(struct kfd_user *user);
bool kfd_user_is_current(const struct kfd_user *user);
u64 kfd_user_owner(const struct kfd_user *user);
bool kfd_user_add_object(struct kfd_user *user, u32 fclass);
void kfd_user_drop_object(struct kfd_user *user, u32 fclass);
bool kfd_user_lock_memory(struct kfd_user *user, size_t bytes);
void kfd_user_unlock_memory(struct kfd_user *user, size_t bytes);
extern unsigned int kfd_max_user_objects;
extern unsigned int kfd_max_user_listeners;

/* main.c */
int kfd_answer(struct kfd_call *call);
long kfd_call_part(struct kfd_client *client, enum kfd_part part, u32 cmd, u64 uarg);

/* batch.c */
long kfd_batch(struct kfd_call *call);

/* copy.c */
int kfd_deadline(s64 deadline, ktime_t *out);
void *kfd_dup_user(u64 uaddr, size_t len);
char *kfd_string_user(u64 uaddr);
void *kfd_bytes_user(u64 uaddr, u32 len);
void *kfd_addr_user(u64 uaddr, u32 len);
int kfd_addr_put(u64 to, u32 *room, const void *addr, size_t len);
long kfd_text_put(u64 to, u32 room, const char *text);
int kfd_err_data_put(u64 to, u32 *size, const void *data, size_t len);

/* objects.c */
struct kfd_client *kfd_client_new(void);
void kfd_client_free(struct kfd_client *client);
void kfd_client_put(struct kfd_client *client);
long kfd_version(struct kfd_call *call);
struct kfd_obj *kfd_obj_new(struct kfd_client *client, u32 fclass);
void kfd_obj_finalize(struct kfd_obj *obj);
void kfd_obj_abort(struct kfd_obj *obj);
struct kfd_obj *kfd_get(struct kfd_client *client, u32 id, u32 classes,
			enum kfd_lookup how);
void kfd_put(struct kfd_obj *obj);
void kfd_hold(struct kfd_obj *obj);
void kfd_unhold(struct kfd_obj *obj);
int kfd_wait_closed(struct kfd_obj *obj);
struct kfd_obj *kfd_pin(struct kfd_call *call, u32 id, u32 classes);
void kfd_unpin_all(struct kfd_call *call);
struct kfd_obj *kfd_open_begin(struct kfd_call *call, u32 fclass, u64 context);
void kfd_open_done(struct kfd_obj *obj, struct kfid *fid, u32 *handle, u32 *id);
struct kfd_obj *kfd_claim(struct kfd_client *client, u32 id, u32 classes);
void kfd_claim_end(struct kfd_obj *obj, bool gone);
int kfd_obj_close(struct kfd_client *client, u32 id, bool discard);
int kfd_read_lock(struct mutex *readers);
extern unsigned int kfd_max_objects;
extern unsigned long kfd_max_bytes;

/* info.c */
struct kfi_info *kfd_info_get(u64 uaddr);
int kfd_info_put(void __user *to, u32 usize, const struct kfi_info *info);
long kfd_getinfo(struct kfd_call *call);

/* fid.c */
long kfd_close(struct kfd_call *call);
long kfd_bind(struct kfd_call *call);
long kfd_control(struct kfd_call *call);
long kfd_strerror(struct kfd_call *call);

/* fabric.c, domain.c */
long kfd_fabric_open(struct kfd_call *call);
long kfd_domain_open(struct kfd_call *call);

/* ep.c */
long kfd_ep_open(struct kfd_call *call);
long kfd_cancel(struct kfd_call *call);
long kfd_getopt(struct kfd_call *call);
long kfd_setopt(struct kfd_call *call);

/* pep.c */
long kfd_pep_open(struct kfd_call *call);
long kfd_listen(struct kfd_call *call);
long kfd_reject(struct kfd_call *call);

/* sep.c */
long kfd_sep_open(struct kfd_call *call);
long kfd_tx_ctx_open(struct kfd_call *call);
long kfd_rx_ctx_open(struct kfd_call *call);

/* cm.c */
long kfd_connect(struct kfd_call *call);
long kfd_accept(struct kfd_call *call);
long kfd_shutdown(struct kfd_call *call);
long kfd_getname(struct kfd_call *call);
long kfd_getpeer(struct kfd_call *call);

/* buf.c */
long kfd_buf_alloc(struct kfd_call *call);
void kfd_buf_put(struct kfd_buf *buf);
void kfd_buf_hold(struct kfd_buf *buf);
struct kfd_buf *kfd_buf_open(struct kfd_call *call, size_t len, u32 *handle, u64 *offset);
bool kfd_buf_has(const struct kfd_buf *buf, const void *addr);
void *kfd_buf_name(const struct kfd_buf *buf, const void *addr);
u32 kfd_buf_name_id(const void *name);
u64 kfd_buf_name_offset(const void *name);
u32 kfd_buf_named(struct kfd_client *client, const void *name, u64 *offset);
int kfd_mmap(struct file *filp, struct vm_area_struct *vma);

/* vec.c */
int kfd_vec_get(struct kfd_client *client, struct kfd_vec *vec, u64 uaddr,
		u32 count);
void kfd_vec_put(struct kfd_vec *vec);

/* op.c */
struct kfd_op *kfd_op_new(u64 context, unsigned int room);
void kfd_op_hold(struct kfd_op *op, const struct kfd_vec *vec);
void kfd_op_put(struct kfd_op *op);
void kfd_op_begin(struct kfd_ep *ep, struct kfd_op *op);
void kfd_op_end(struct kfd_ep *ep, struct kfd_op *op);
void kfd_op_report(struct kfid_ep *fid, struct kfi_completion *comp);
long kfd_op_cancel(struct kfd_ep *ep, u64 context);
void kfd_ep_release_ops(struct kfd_ep *ep);

/* mr.c */
long kfd_mr_reg(struct kfd_call *call);
void kfd_mr_release_bufs(struct kfd_mr *mr);

/* msg.c */
long kfd_post_msg(struct kfd_call *call, struct kfd_obj *obj, bool hold,
		  kfd_post_fn post, const void *arg);
long kfd_recv(struct kfd_call *call);
long kfd_send(struct kfd_call *call);
long kfd_trecv(struct kfd_call *call);
long kfd_tsend(struct kfd_call *call);

/* rma.c */
long kfd_read(struct kfd_call *call);
long kfd_write(struct kfd_call *call);

/* atomic.c */
long kfd_atomic(struct kfd_call *call);
long kfd_fetch_atomic(struct kfd_call *call);
long kfd_compare_atomic(struct kfd_call *call);
long kfd_atomic_valid(struct kfd_call *call);

/* av.c */
long kfd_av_open(struct kfd_call *call);
long kfd_av_insert(struct kfd_call *call);
long kfd_av_insertsvc(struct kfd_call *call);
long kfd_av_remove(struct kfd_call *call);
long kfd_av_lookup(struct kfd_call *call);
long kfd_av_straddr(struct kfd_call *call);

/* cq.c */
long kfd_cq_open(struct kfd_call *call);
long kfd_cq_read(struct kfd_call *call);
long kfd_cq_sread(struct kfd_call *call);
long kfd_cq_readerr(struct kfd_call *call);
long kfd_cq_signal(struct kfd_call *call);

/* channel.c */
long kfd_channel_open(struct kfd_call *call);
long kfd_channel_bind(struct kfd_call *call);
long kfd_req_notify(struct kfd_call *call);
long kfd_get_cq_event(struct kfd_call *call);
long kfd_ack_cq_events(struct kfd_call *call);
int kfd_cq_close(struct kfd_obj *obj);
long kfd_cq_ring(struct kfd_call *call);
int kfd_rings_look(struct kfd_client *client);
void kfd_ring_end(struct kfd_cq *cq);
void kfd_ring_release(struct kfd_cq *cq);
int kfd_cq_drain(struct kfd_obj *obj);
void kfd_channel_free(struct kfd_obj *obj);

/* eq.c */
long kfd_eq_open(struct kfd_call *call);
long kfd_eq_read(struct kfd_call *call);
long kfd_eq_sread(struct kfd_call *call);
long kfd_eq_readerr(struct kfd_call *call);
long kfd_eq_write(struct kfd_call *call);

/* waitobj.c */
enum kfi_wait_obj kfd_set_kind(u32 wait_obj);
int kfd_wait_kind(struct kfd_call *call, u32 wait_obj, u32 handle,
		  enum kfi_wait_obj *kind, struct kfid_wait **wait_set);
void kfd_wait_obj_set(struct kfd_call *call, struct kfd_obj *obj, u32 wait_obj);
long kfd_wait_control(struct kfd_call *call);
long kfd_pollfd(struct kfd_call *call);
long kfd_trywait(struct kfd_call *call);

/* cntr.c */
long kfd_cntr_open(struct kfd_call *call);
long kfd_cntr_read(struct kfd_call *call);
long kfd_cntr_readerr(struct kfd_call *call);
long kfd_cntr_add(struct kfd_call *call);
long kfd_cntr_set(struct kfd_call *call);
long kfd_cntr_adderr(struct kfd_call *call);
long kfd_cntr_seterr(struct kfd_call *call);
long kfd_cntr_wait(struct kfd_call *call);

/* wait.c */
long kfd_wait_open(struct kfd_call *call);
long kfd_wait(struct kfd_call *call);

/* poll.c */
long kfd_poll_open(struct kfd_call *call);
long kfd_poll_add(struct kfd_call *call);
long kfd_poll_del(struct kfd_call *call);
long kfd_poll(struct kfd_call *call);
void kfd_poll_drain(struct kfd_poll *poll);

/* profile.c */
long kfd_profile_open(struct kfd_call *call);
long kfd_profile_query(struct kfd_call *call);
long kfd_profile_read(struct kfd_call *call);
long kfd_profile_control(struct kfd_call *call);
long kfd_profile_events(struct kfd_call *call);
void kfd_profile_free(struct kfd_profile *p);

static inline struct kfid_fabric *kfd_fabric_of(const struct kfd_obj *obj)
{
	return container_of(obj->fid, struct kfid_fabric, fid);
}

static inline struct kfid_domain *kfd_domain_of(const struct kfd_obj *obj)
{
	return container_of(obj->fid, struct kfid_domain, fid);
}

static inline struct kfid_ep *kfd_ep_of(const struct kfd_obj *obj)
{
	return container_of(obj->fid, struct kfid_ep, fid);
}

static inline struct kfid_pep *kfd_pep_of(const struct kfd_obj *obj)
{
	return container_of(obj->fid, struct kfid_pep, fid);
}

static inline struct kfid_av *kfd_av_of(const struct kfd_obj *obj)
{
	return container_of(obj->fid, struct kfid_av, fid);
}

static inline struct kfid_mr *kfd_mr_of(const struct kfd_obj *obj)
{
	return container_of(obj->fid, struct kfid_mr, fid);
}

static inline struct kfid_cq *kfd_cq_of(const struct kfd_obj *obj)
{
	return container_of(obj->fid, struct kfid_cq, fid);
}

static inline struct kfid_eq *kfd_eq_of(const struct kfd_obj *obj)
{
	return container_of(obj->fid, struct kfid_eq, fid);
}

static inline struct kfid_cntr *kfd_cntr_of(const struct kfd_obj *obj)
{
	return container_of(obj->fid, struct kfid_cntr, fid);
}

static inline struct kfid_wait *kfd_wait_of(const struct kfd_obj *obj)
{
	return container_of(obj->fid, struct kfid_wait, kfid);
}

static inline struct kfid_poll *kfd_poll_of(const struct kfd_obj *obj)
{
	return container_of(obj->fid, struct kfid_poll, fid);
}

static inline struct kfd_ep *kfd_ep_obj(struct kfd_obj *obj)
{
	return container_of(obj, struct kfd_ep, obj);
}

/* The piece of a vector of at most one. */
static inline struct kvec kfd_vec_first(const struct kfd_vec *vec)
{
	return vec->n ? vec->kvec[0] : (struct kvec) {};
}

/* An injected message has at most one piece, and no flag but that of remote data. */
static inline bool kfd_msg_injectable(const struct kfab_msg *msg)
{
	return msg->iov_count <= 1 && !(msg->op_flags & ~KFI_REMOTE_CQ_DATA);
}

/* A context that kfabric carries for the user: a number, not a kernel address. */
static inline void *kfd_user_context(u64 context)
{
	return (void *)(uintptr_t)context;
}

#endif /* _KFABRIC_DEV_KFD_H_ */
