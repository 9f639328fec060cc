/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
#ifndef PROVE_SHIM_LINUX_TYPES_H
#define PROVE_SHIM_LINUX_TYPES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

typedef s8 __s8;
typedef s16 __s16;
typedef s32 __s32;
typedef s64 __s64;
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;

typedef u16 __be16;
typedef u16 __le16;
typedef u32 __be32;
typedef u32 __le32;
typedef u64 __be64;
typedef u64 __le64;

#define __aligned_u64	__u64 __attribute__((aligned(8)))

typedef unsigned int gfp_t;
typedef unsigned int __poll_t;
typedef unsigned short umode_t;

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

typedef atomic64_t atomic_long_t;

struct list_head {
	struct list_head *next, *prev;
};

struct hlist_node {
	struct hlist_node *next, **pprev;
};

struct hlist_head {
	struct hlist_node *first;
};

struct rcu_head {
	struct rcu_head *next;
	void (*func)(struct rcu_head *head);
};

#endif /* PROVE_SHIM_LINUX_TYPES_H */
