/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR BSD-3-Clause */
/*
 * /dev/kfabric: profiles. Part of <linux/kfabric.h>, whose rules hold here;
 * include that one.
 */
#ifndef _UAPI_LINUX_KFABRIC_PROFILE_H
#define _UAPI_LINUX_KFABRIC_PROFILE_H

#ifndef _UAPI_LINUX_KFABRIC_H
#error "include <linux/kfabric.h>"
#endif

/* Types of variables and of what events carry: selector and type. */
#define KFAB_PRIMITIVE_TYPE	0
#define KFAB_DEFINED_TYPE	1
#define KFAB_UINT64		7
/* An entry is a struct kfab_profile_msg. */
#define KFAB_TYPE_CQ_ERR_ENTRY	23

/* var_flags of a struct kfab_profile_desc. */
#define KFAB_PROFILE_LIST	0x1
#define KFAB_PROFILE_RESETS	0x2

/* What KFAB_IOC_PROFILE_QUERY lists. */
#define KFAB_PROFILE_VARS	0
#define KFAB_PROFILE_EVENTS	1

/* Commands of KFAB_IOC_PROFILE_CONTROL. */
#define KFAB_PROFILE_START_READS 0
#define KFAB_PROFILE_END_READS	1
#define KFAB_PROFILE_RESET	2
#define KFAB_PROFILE_KEEP	3
#define KFAB_PROFILE_DISCARD	4

/* Ids that are defined for every provider. */
#define KFAB_VAR_UNEXP_MSG_CNT	0
#define KFAB_VAR_UNEXP_MSG_QUEUE 1
#define KFAB_EVENT_UNEXP_MSG_RECVD 0
#define KFAB_EVENT_UNEXP_MSG_MATCHED 1

/* Buckets of a histogram: [n] counts 2^n ns to 2^(n+1), the last all beyond. */
#define KFAB_PROFILE_BUCKETS	32

#define KFAB_DESC_MAX		96
/* Events of one profile that are kept until they are read. */
#define KFAB_PROFILE_KEPT	256
/* Entries of a list that one call reads. */
#define KFAB_PROFILE_LIST_MAX	65536

/**
 * struct kfab_profile_open - profile an object
 * @size: sizeof(struct kfab_profile_open)
 * @flags: must be 0
 * @handle: a domain, endpoint, wait set, poll set or CQ
 * @out_handle: the profile
 * @context: user's number
 * @out_id: its name in tracepoints
 * @__reserved: must be 0
 *
 * The object cannot be closed before its profiles. EOPNOTSUPP: another class.
 */
struct kfab_profile_open {
	__u32 size;
	__u32 flags;
	__u32 handle;
	__u32 out_handle;
	__u64 context;
	__u32 out_id;
	__u32 __reserved;
};

#define KFAB_IOC_PROFILE_OPEN _IOWR(KFAB_IOC_MAGIC, 0x78, struct kfab_profile_open)

/*
 * struct kfab_profile_desc - a variable or an event
 * @id: the same name has the same id wherever it is listed
 * @datatype_sel: KFAB_PRIMITIVE_TYPE or KFAB_DEFINED_TYPE
 * @datatype: which; of an event: what it carries
 * @var_flags: KFAB_PROFILE_LIST: @var_size is of one entry of many;
 *	       KFAB_PROFILE_RESETS: KFAB_PROFILE_RESET makes it 0
 * @var_size: bytes of the value; a multiple of the type's: an array
 * @__reserved: 0
 * @name: with a zero byte at the end
 * @desc: what it means, in the same way
 *
 * Part of KFAB_IOC_PROFILE_QUERY, no ioctl by itself.
 */
struct kfab_profile_desc {
	__u32 id;
	__u32 datatype_sel;
	__u32 datatype;
	__u32 var_flags;
	__u32 var_size;
	__u32 __reserved;
	__u8 name[KFAB_NAME_MAX];
	__u8 desc[KFAB_DESC_MAX];
};

/**
 * struct kfab_profile_query - which variables or events there are
 * @size: sizeof(struct kfab_profile_query)
 * @flags: must be 0
 * @profile: the profile
 * @what: KFAB_PROFILE_VARS or KFAB_PROFILE_EVENTS
 * @descs: address of an array of struct kfab_profile_desc, or 0: only count
 * @desc_size: distance between two entries: sizeof(struct kfab_profile_desc)
 * @count: in: entries that fit into @descs; out: entries that exist
 *
 * Return: the number of entries written.
 */
struct kfab_profile_query {
	__u32 size;
	__u32 flags;
	__u32 profile;
	__u32 what;
	__aligned_u64 descs;
	__u32 desc_size;
	__u32 count;
};

#define KFAB_IOC_PROFILE_QUERY _IOWR(KFAB_IOC_MAGIC, 0x79, struct kfab_profile_query)

/*
 * struct kfab_profile_msg - a message that no receive was posted for
 * @msg_flags: KFAB_MSG and so on, as a CQ entry will show them
 * @len: bytes
 * @data: remote CQ data, with KFAB_REMOTE_CQ_DATA
 * @tag: of a tagged message
 *
 * Value of a variable, and what an event carries; no ioctl by itself.
 */
struct kfab_profile_msg {
	__u64 msg_flags;
	__u64 len;
	__u64 data;
	__u64 tag;
};

/**
 * struct kfab_profile_read - the value of a variable
 * @size: sizeof(struct kfab_profile_read)
 * @flags: must be 0
 * @profile: the profile
 * @id: the variable
 * @buf: address of room for the value
 * @buf_size: in: bytes of @buf: what the description says, of a list no less than
 *	      there is; out: bytes of the value
 * @__reserved: must be 0
 *
 * KFAB_ETOOSMALL: @buf_size is wrong; then it is written all the same, and says
 * what would be right, and @buf is left alone.
 */
struct kfab_profile_read {
	__u32 size;
	__u32 flags;
	__u32 profile;
	__u32 id;
	__aligned_u64 buf;
	__u32 buf_size;
	__u32 __reserved;
};

#define KFAB_IOC_PROFILE_READ _IOWR(KFAB_IOC_MAGIC, 0x7a, struct kfab_profile_read)

/**
 * struct kfab_profile_control - the small commands
 * @size: sizeof(struct kfab_profile_control)
 * @flags: must be 0
 * @profile: the profile
 * @command: KFAB_PROFILE_START_READS: until _END_READS every read of the profile
 *	     has the values of this moment; EBUSY: that is so already.
 *	     KFAB_PROFILE_END_READS: EINVAL: it is not.
 *	     KFAB_PROFILE_RESET: the object counts from 0, for all.
 *	     KFAB_PROFILE_KEEP, KFAB_PROFILE_DISCARD: keep events of this kind for
 *	     KFAB_IOC_PROFILE_EVENTS, or no more.
 * @id: the event, else 0
 * @__reserved: must be 0
 */
struct kfab_profile_control {
	__u32 size;
	__u32 flags;
	__u32 profile;
	__u32 command;
	__u32 id;
	__u32 __reserved;
};

#define KFAB_IOC_PROFILE_CONTROL _IOWR(KFAB_IOC_MAGIC, 0x7b, struct kfab_profile_control)

/*
 * struct kfab_profile_event - an event
 * @seq: its number among the kept events of the profile, from 1; one that was
 *	 dropped leaves a gap
 * @id: which event
 * @datatype_sel: as in the event's description
 * @datatype: the same
 * @data_size: bytes of what it carries, 0 for nothing
 * @data.msg: what it carries, of type KFAB_TYPE_CQ_ERR_ENTRY
 * @data.value: what it carries, of a primitive type
 *
 * Part of KFAB_IOC_PROFILE_EVENTS, no ioctl by itself.
 */
struct kfab_profile_event {
	__u64 seq;
	__u32 id;
	__u32 datatype_sel;
	__u32 datatype;
	__u32 data_size;
	union {
		struct kfab_profile_msg msg;
		__u64 value;
	} data;
};

/**
 * struct kfab_profile_events - read events that were kept
 * @size: sizeof(struct kfab_profile_events)
 * @flags: must be 0
 * @profile: the profile
 * @count: room in @events, at least 1
 * @events: address of an array of struct kfab_profile_event
 * @deadline: how long to wait for the first
 * @out_dropped: events that found KFAB_PROFILE_KEPT others unread, so far
 *
 * The profile has descriptors as an object of KFAB_WAIT_FD.
 *
 * Return: the number of entries written, oldest first. EAGAIN: there was none up
 * to the deadline.
 */
struct kfab_profile_events {
	__u32 size;
	__u32 flags;
	__u32 profile;
	__u32 count;
	__aligned_u64 events;
	__aligned_s64 deadline;
	__u64 out_dropped;
};

#define KFAB_IOC_PROFILE_EVENTS _IOWR(KFAB_IOC_MAGIC, 0x7c, struct kfab_profile_events)

#endif /* _UAPI_LINUX_KFABRIC_PROFILE_H */
