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

/* Types of variables and of the data of events: selector and type. */
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

/* Buckets of a histogram: [n] counts 2^n ns to 2^(n+1) ns, the last one all above. */
#define KFAB_PROFILE_BUCKETS	32

#define KFAB_DESC_MAX		96
/* Most unread events that one profile keeps. */
#define KFAB_PROFILE_KEPT	256
/* Most entries of a list that one call reads. */
#define KFAB_PROFILE_LIST_MAX	65536

/**
 * struct kfab_profile_open - profile an object
 * @size: sizeof(struct kfab_profile_open)
 * @flags: must be 0
 * @handle: a domain, endpoint, wait set, poll set or CQ
 * @out_handle: the profile
 * @context: a number of the caller
 * @out_id: its id in tracepoints
 * @__reserved: must be 0
 *
 * Open a profile of an object. The object cannot be closed before its profiles.
 *
 * Errors:
 *
 *  - EMFILE: the client has as many objects as it may have
 *  - ENOSPC: the client has used up all handles; an endpoint that has events has
 *    KFAB_OBSERVERS_MAX profiles
 *  - EOPNOTSUPP: @handle is of a class that has no profile
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
 * @datatype: the type of the value, or of the data of the event
 * @var_flags: KFAB_PROFILE_LIST: a list, and @var_size is that of one entry;
 *	       KFAB_PROFILE_RESETS: KFAB_PROFILE_RESET makes it 0
 * @var_size: bytes of the value; if a multiple of the size of the type, an array
 * @__reserved: 0
 * @name: the name, with a zero byte at the end
 * @desc: its meaning, with a zero byte at the end
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
 * struct kfab_profile_query - list variables or events
 * @size: sizeof(struct kfab_profile_query)
 * @flags: must be 0
 * @profile: the profile
 * @what: KFAB_PROFILE_VARS or KFAB_PROFILE_EVENTS
 * @descs: address of an array of struct kfab_profile_desc, or 0 to get the number only
 * @desc_size: distance between two entries: sizeof(struct kfab_profile_desc)
 * @count: in: entries that fit into @descs; out: entries that exist
 *
 * List the variables or events of a profile. The same name has the same @id in every
 * profile.
 *
 * Return: the number of entries written.
 *
 * Errors:
 *
 *  - EINVAL: @what is unknown; @desc_size is too small or more than a page; a handle
 *    of another class
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
 * struct kfab_profile_msg - a message that arrived before a receive was posted
 * @msg_flags: KFAB_MSG and so on, as a CQ entry will show them
 * @len: bytes
 * @data: remote CQ data, with KFAB_REMOTE_CQ_DATA
 * @tag: of a tagged message
 *
 * Value of a variable, and data of an event; no ioctl by itself.
 */
struct kfab_profile_msg {
	__u64 msg_flags;
	__u64 len;
	__u64 data;
	__u64 tag;
};

/**
 * struct kfab_profile_read - read the value of a variable
 * @size: sizeof(struct kfab_profile_read)
 * @flags: must be 0
 * @profile: the profile
 * @id: the variable
 * @buf: address of the room for the value
 * @buf_size: in: bytes at @buf: @var_size of the description, for a list no less than
 *	      there is; out: bytes of the value
 * @__reserved: must be 0
 *
 * Read the value of a variable. One call reads at most KFAB_PROFILE_LIST_MAX entries
 * of a list. A list of type KFAB_TYPE_CQ_ERR_ENTRY is an array of struct
 * kfab_profile_msg.
 *
 * Errors:
 *
 *  - EINVAL: @id is not listed, or a handle of another class
 *  - KFAB_ETOOSMALL: @buf_size is wrong; it is written all the same and has the size
 *    that would do, and @buf is not written
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
 * struct kfab_profile_control - a command on a profile
 * @size: sizeof(struct kfab_profile_control)
 * @flags: must be 0
 * @profile: the profile
 * @command: KFAB_PROFILE_START_READS: until KFAB_PROFILE_END_READS every PROFILE_READ
 *	     of the profile returns the values of this moment. KFAB_PROFILE_RESET: the
 *	     object counts from 0, for all. KFAB_PROFILE_KEEP: keep events of kind @id
 *	     for PROFILE_EVENTS. KFAB_PROFILE_DISCARD: keep no more of them; those that
 *	     are kept stay
 * @id: KFAB_PROFILE_KEEP, KFAB_PROFILE_DISCARD: the event; else 0
 * @__reserved: must be 0
 *
 * A command on a profile.
 *
 * Errors:
 *
 *  - EINVAL: an unknown command; @id is not 0 for the first three commands, or not
 *    listed for the others; KFAB_PROFILE_END_READS without KFAB_PROFILE_START_READS;
 *    a handle of another class
 *  - EBUSY: KFAB_PROFILE_START_READS: it is in effect already
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
 * @seq: its number among the kept events of the profile, from 1; a dropped event leaves
 *	 a gap
 * @id: id of the event
 * @datatype_sel: as in the event's description
 * @datatype: the same
 * @data_size: bytes of its data, 0 without data
 * @data.msg: data of type KFAB_TYPE_CQ_ERR_ENTRY
 * @data.value: data of a primitive type
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
 * @deadline: the deadline
 * @out_dropped: events of this profile that were dropped so far, because
 *		 KFAB_PROFILE_KEPT others were unread
 *
 * Read events that were kept, oldest first, waiting for the first one. Events are
 * numbered by @seq, dropped ones included.
 *
 * Return: the number of entries written, perhaps fewer than there are.
 *
 * Errors:
 *
 *  - EINVAL: @deadline is negative; @count is 0; no @events; a profile without
 *    events; a handle of another class
 *  - EINTR: a handler without SA_RESTART ran
 *  - EAGAIN: no event, and the deadline has passed
 *  - ENODEV: the device is gone and no event is left
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
