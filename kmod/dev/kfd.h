/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Inside kfabric_dev.ko: /dev/kfabric on top of the in-kernel API.
 *
 * DOC: Locks, in this order
 *
 *   client->closing	a close in progress; an event that is being read. Events
 *			name objects by address: while one is translated, no
 *			object may go.
 *     ep->sem		endpoints: what alters one against what posts on it
 *     obj->readers	readers of one CQ or counter, calls on one poll set: what
 *			is looked at is copied out, then removed, by one of them;
 *			what alters one address vector
 *       xa_lock	client->objects: ids, users, sums. A spinlock, a leaf.
 *
 * The first three are taken so that a signal ends the wait, and never while the
 * thread sleeps in a wait of kfabric's.
 *
 * DOC: Lifetime
 *
 * An id is reserved, the object filled, and only then visible. obj->users is 1
 * for the handle, plus one for each call in progress that looked it up and for
 * each object of ours that needs it. Closing takes it from 1 to 0, and back if
 * kfabric refuses. Every call holds the open file, so release comes last.
 *
 * Two classes close in their own way. A completion channel goes under the threads
 * that sleep in it: closing takes away the handle's user, and the last call frees.
 * A CQ of a channel waits for acks: meanwhile it is draining, still has its handle,
 * and is found by acks and by who closes it again.
 */
#ifndef _KFABRIC_DEV_KFD_H_
#define _KFABRIC_DEV_KFD_H_

#include <linux/fs.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/rwsem.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
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

/* Classes of ours, behind those of kfabric. */
enum {
	KFD_CLASS_BUF = KFI_CLASS_PROFILE + 1,
	KFD_CLASS_MAX = KFI_CLASS_COMP_CHANNEL + 1
};

#define KFD_CLASS(c) BIT(c)

/* A table or slot that the provider left out is a call that it does not have. */
#define KFD_HAS(_ops, _slot) ({						\
	__auto_type __ops = (_ops);					\
									\
	__ops && KFI_CHECK_OP(__ops, typeof(*__ops), _slot);		\
})

/* What can be posted on. */
#define KFD_SENDERS (KFD_CLASS(KFI_CLASS_EP) | KFD_CLASS(KFI_CLASS_TX_CTX))
#define KFD_RECEIVERS (KFD_CLASS(KFI_CLASS_EP) | KFD_CLASS(KFI_CLASS_RX_CTX))
#define KFD_ENDPOINTS \
	(KFD_SENDERS | KFD_RECEIVERS | KFD_CLASS(KFI_CLASS_SEP))

#define KFD_SOURCES \
	(KFD_CLASS(KFI_CLASS_CQ) | KFD_CLASS(KFI_CLASS_EQ) | KFD_CLASS(KFI_CLASS_CNTR))

/**
 * struct kfd_client - one open file
 * @objects: id to object; its lock protects the fields below and obj->users
 * @closing: see the top of this file
 * @last_id: the id given out last; none is given twice
 * @count: ids in use or reserved
 * @bytes: buffer memory
 */
struct kfd_client {
	struct xarray objects;
	struct mutex closing;	/* against close, while an event is read */
	u32 last_id;
	u32 count;
	u64 bytes;
};

/**
 * struct kfd_obj - what a handle stands for
 * @client: whose
 * @id: the handle
 * @fclass: KFI_CLASS_* or KFD_CLASS_*
 * @users: see the top of this file; 0 while it is being closed
 * @closing: a channel is being closed, whatever @users says
 * @draining: a CQ's close waits for acks
 * @gone: closed; the last user frees it
 * @wait_obj: as the user asked for; kfabric knows some as KFI_WAIT_UNSPEC
 * @changes: of a wait set: how often members came or went; client->objects' lock
 * @set: the wait set that it is a member of, or NULL
 * @context: the user's
 * @fid: the kfabric object, whose context is this structure; or NULL
 * @readers: see the top of this file
 */
struct kfd_obj {
	struct kfd_client *client;
	u32 id;
	u32 fclass;
	u32 users;
	bool closing;
	bool draining;
	bool gone;
	u32 wait_obj;
	u32 changes;
	struct kfd_obj *set;
	u64 context;
	struct kfid *fid;
	struct mutex readers;	/* from look to removal */
};

/**
 * struct kfd_buf - a message buffer
 * @obj: the handle
 * @refs: the handle, mappings, endpoints that it was posted on
 * @addr: physically contiguous kernel memory
 * @len: bytes, whole pages
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
 * @sem: read to post, write to alter
 * @bufs: buffers that were posted, by id. Whether an operation still uses one
 *	  cannot be known (a success may leave no trace), so each stays allocated
 *	  until the endpoint is gone.
 */
struct kfd_ep {
	struct kfd_obj obj;
	struct rw_semaphore sem;
	struct xarray bufs;
};

/**
 * struct kfd_cq - a completion queue
 * @obj: the handle
 * @format: of its entries
 * @cond: does a blocking read take a threshold?
 */
struct kfd_cq {
	struct kfd_obj obj;
	enum kfi_cq_format format;
	enum kfi_cq_wait_cond cond;
};

/**
 * struct kfd_channel - a completion channel
 * @obj: the handle; @obj.readers: handing out one event at a time
 * @channel: the same as @obj.fid, and held beyond its close
 */
struct kfd_channel {
	struct kfd_obj obj;
	struct kfid_comp_channel *channel;
};

/**
 * struct kfd_eq - an event queue
 * @obj: the handle
 * @fabric: what it was opened on; open as long as the queue is
 */
struct kfd_eq {
	struct kfd_obj obj;
	struct kfd_obj *fabric;
};

/**
 * struct kfd_mr - a memory region
 * @obj: the handle
 * @bufs: what it is made of, pinned against close
 * @nbufs: how many
 */
struct kfd_mr {
	struct kfd_obj obj;
	struct kfd_buf **bufs;
	unsigned int nbufs;
};

/**
 * struct kfd_poll - a poll set
 * @obj: the handle; @obj.readers protects the rest
 * @members: by id
 * @owed: counters that kfabric has reported and that could not be copied out
 * @nowed: how many
 */
struct kfd_poll {
	struct kfd_obj obj;
	struct xarray members;
	struct kfd_obj **owed;
	unsigned int nowed;
};

/**
 * struct kfd_connreq - a connection request that was read
 * @obj: the handle
 * @info: from the event, owned; its handle is the request
 * @fabric: pinned: a provider drops the requests of a fabric that closes
 */
struct kfd_connreq {
	struct kfd_obj obj;
	struct kfi_info *info;
	struct kfd_obj *fabric;
};

/**
 * struct kfd_vec - the pieces of buffers that a call names
 * @kvec: where they are
 * @desc: their local descriptors
 * @buf: the buffers, pinned
 * @mr: the regions behind @desc, pinned, or NULL
 * @n: how many pieces
 */
struct kfd_vec {
	struct kvec *kvec;
	void **desc;
	struct kfd_buf **buf;
	struct kfd_obj **mr;
	unsigned int n;
};

typedef ssize_t (*kfd_post_fn)(struct kfid_ep *ep, const struct kfd_vec *vec,
			       const void *arg);

/**
 * struct kfd_profile_list - variables or events that users can have
 * @descs: what they are
 * @count: how many
 */
struct kfd_profile_list {
	struct kfi_profile_desc *descs;
	size_t count;
};

/**
 * struct kfd_profile - a profile
 * @obj: the handle; @obj.readers: one reader of events at a time
 * @vars: its variables, constant
 * @events: its events, constant
 */
struct kfd_profile {
	struct kfd_obj obj;
	struct kfd_profile_list vars;
	struct kfd_profile_list events;
};

struct kfd_ioctl;

/**
 * struct kfd_call - one ioctl in progress
 * @client: whose
 * @op: which
 * @uarg: the caller's structure
 * @usize: its size there
 * @arg: our copy
 * @answered: the answer was written already
 * @fresh: object being opened: visible on success, undone otherwise
 * @set: wait set that an object is opened on
 * @pins: objects that are used until the call ends
 * @npins: how many
 */
struct kfd_call {
	struct kfd_client *client;
	const struct kfd_ioctl *op;
	void __user *uarg;
	u32 usize;
	void *arg;
	bool answered;
	struct kfd_obj *fresh;
	struct kfd_obj *set;
	struct kfd_obj *pins[4];
	unsigned int npins;
};

/* main.c */
int kfd_answer(struct kfd_call *call);

/* objects.c */
struct kfd_client *kfd_client_new(void);
void kfd_client_free(struct kfd_client *client);
void kfd_client_sums(struct kfd_client *client, struct kfab_version *out);
struct kfd_obj *kfd_obj_new(struct kfd_client *client, u32 fclass);
void kfd_obj_finalize(struct kfd_obj *obj);
void kfd_obj_abort(struct kfd_obj *obj);
struct kfd_obj *kfd_get(struct kfd_client *client, u32 id, u32 classes);
struct kfd_obj *kfd_get_nowait(struct kfd_client *client, u32 id, u32 classes);
void kfd_hold(struct kfd_obj *obj);
void kfd_put(struct kfd_obj *obj);
struct kfd_obj *kfd_pin(struct kfd_call *call, u32 id, u32 classes);
struct kfd_obj *kfd_open_begin(struct kfd_call *call, u32 fclass);
struct kfd_obj *kfd_claim(struct kfd_client *client, u32 id, u32 classes);
void kfd_claim_end(struct kfd_obj *obj, bool gone);
int kfd_obj_close(struct kfd_client *client, u32 id, bool discard);
extern unsigned int kfd_max_objects;
extern unsigned long kfd_max_bytes;

/* info.c */
struct kfi_info *kfd_info_get(u64 uaddr);
char *kfd_node_get(u64 uaddr);
int kfd_info_put(void __user *to, u32 usize, const struct kfi_info *info);
long kfd_getinfo(struct kfd_call *call);

/* setup.c */
long kfd_version(struct kfd_call *call);
long kfd_close(struct kfd_call *call);
long kfd_bind(struct kfd_call *call);
long kfd_control(struct kfd_call *call);
long kfd_strerror(struct kfd_call *call);
long kfd_fabric_open(struct kfd_call *call);
long kfd_domain_open(struct kfd_call *call);
long kfd_eq_open(struct kfd_call *call);
long kfd_wait_open(struct kfd_call *call);
long kfd_cq_open(struct kfd_call *call);
long kfd_cntr_open(struct kfd_call *call);
long kfd_poll_open(struct kfd_call *call);

/* cm.c */
long kfd_pep_open(struct kfd_call *call);
long kfd_ep_open(struct kfd_call *call);
long kfd_listen(struct kfd_call *call);
long kfd_connect(struct kfd_call *call);
long kfd_accept(struct kfd_call *call);
long kfd_reject(struct kfd_call *call);
long kfd_shutdown(struct kfd_call *call);
long kfd_getname(struct kfd_call *call);
long kfd_getpeer(struct kfd_call *call);

/* buf.c */
long kfd_buf_alloc(struct kfd_call *call);
void kfd_buf_put(struct kfd_buf *buf);
int kfd_buf_hold(struct kfd_ep *ep, struct kfd_buf *buf);
void kfd_ep_release_bufs(struct kfd_ep *ep);
u32 kfd_buf_find(struct kfd_client *client, const void *addr, u64 *offset);
int kfd_mmap(struct file *filp, struct vm_area_struct *vma);

/* data.c */
int kfd_vec_get(struct kfd_client *client, struct kfd_vec *vec, u64 uaddr,
		u32 count);
void kfd_vec_put(struct kfd_vec *vec);
int kfd_vec_hold(struct kfd_ep *ep, const struct kfd_vec *vec);
long kfd_post(struct kfd_ep *ep, const struct kfd_vec *vec, bool hold,
	      kfd_post_fn post, const void *arg);
long kfd_mr_reg(struct kfd_call *call);
void kfd_mr_release_bufs(struct kfd_mr *mr);
long kfd_recv(struct kfd_call *call);
long kfd_send(struct kfd_call *call);
long kfd_read(struct kfd_call *call);
long kfd_write(struct kfd_call *call);

/* tagged.c */
long kfd_trecv(struct kfd_call *call);
long kfd_tsend(struct kfd_call *call);

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

/* sep.c */
long kfd_sep_open(struct kfd_call *call);
long kfd_tx_ctx_open(struct kfd_call *call);
long kfd_rx_ctx_open(struct kfd_call *call);
long kfd_cancel(struct kfd_call *call);
long kfd_getopt(struct kfd_call *call);
long kfd_setopt(struct kfd_call *call);

/* cq.c */
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
int kfd_cq_drain(struct kfd_obj *obj);
void kfd_channel_free(struct kfd_obj *obj);

/* eq.c */
long kfd_eq_read(struct kfd_call *call);
long kfd_eq_sread(struct kfd_call *call);
long kfd_eq_readerr(struct kfd_call *call);
long kfd_eq_write(struct kfd_call *call);

/* waitobj.c */
enum kfi_wait_obj kfd_set_kind(u32 wait_obj);
int kfd_wait_kind(struct kfd_call *call, u32 wait_obj, u32 handle,
		  enum kfi_wait_obj *kind, struct kfid_wait **wait_set);
void kfd_waits_by(struct kfd_call *call, struct kfd_obj *obj, u32 wait_obj);
long kfd_wait_control(struct kfd_call *call);
long kfd_pollfd(struct kfd_call *call);
long kfd_trywait(struct kfd_call *call);

/* wait.c */
int kfd_deadline(s64 deadline, ktime_t *out);
int kfd_err_data_put(u64 to, u32 *size, const void *data, size_t len);
long kfd_cntr_read(struct kfd_call *call);
long kfd_cntr_readerr(struct kfd_call *call);
long kfd_cntr_add(struct kfd_call *call);
long kfd_cntr_set(struct kfd_call *call);
long kfd_cntr_adderr(struct kfd_call *call);
long kfd_cntr_seterr(struct kfd_call *call);
long kfd_cntr_wait(struct kfd_call *call);
long kfd_wait(struct kfd_call *call);
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

/* A context that kfabric carries for the user: no address of ours. */
static inline void *kfd_user_context(u64 context)
{
	return (void *)(uintptr_t)context;
}

#endif /* _KFABRIC_DEV_KFD_H_ */
