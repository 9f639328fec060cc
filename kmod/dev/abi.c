// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Values and layouts that the user's and the kernel's interface have in common, checked
 * at compile time. There is no code here.
 */
#include <linux/build_bug.h>

#include "kfd.h"

#define SAME(name) static_assert((u64)KFAB_##name == (u64)KFI_##name)

SAME(OBSERVERS_MAX);
SAME(PROFILE_LIST);
SAME(PROFILE_RESETS);
SAME(PROFILE_BUCKETS);
SAME(VAR_UNEXP_MSG_CNT);
SAME(VAR_UNEXP_MSG_QUEUE);
SAME(EVENT_UNEXP_MSG_RECVD);
SAME(EVENT_UNEXP_MSG_MATCHED);
SAME(UINT64);
SAME(TYPE_CQ_ERR_ENTRY);
SAME(MSG);
SAME(RMA);
SAME(TAGGED);
SAME(ATOMIC);
SAME(MULTICAST);
SAME(TAGGED_RMA);
SAME(READ);
SAME(WRITE);
SAME(RECV);
SAME(SEND);
SAME(TRANSMIT);
SAME(REMOTE_READ);
SAME(REMOTE_WRITE);
SAME(MULTI_RECV);
SAME(REMOTE_CQ_DATA);
SAME(MORE);
SAME(PEEK);
SAME(TRIGGER);
SAME(FENCE);
SAME(COMPLETION);
SAME(INJECT);
SAME(INJECT_COMPLETE);
SAME(TRANSMIT_COMPLETE);
SAME(DELIVERY_COMPLETE);
SAME(AFFINITY);
SAME(COMMIT_COMPLETE);
SAME(LOCAL_COMM);
SAME(REMOTE_COMM);
SAME(RESTRICTED_COMP);
SAME(SHARED_AV);
SAME(NOTIFY_FLAGS_ONLY);
SAME(PROV_ATTR_ONLY);
SAME(LOCAL_MR);
SAME(NUMERICHOST);
SAME(RMA_EVENT);
SAME(RX_CQ_DATA);
SAME(ASYNC_IOV);
SAME(SOURCE);
SAME(MSG_PREFIX);
SAME(NAMED_RX_CTX);
SAME(CONTEXT);
SAME(DIRECTED_RECV);
SAME(SELECTIVE_COMPLETION);
SAME(MR_LOCAL);
SAME(MR_RAW);
SAME(MR_VIRT_ADDR);
SAME(MR_PROV_KEY);
SAME(MR_RMA_EVENT);
SAME(MR_ENDPOINT);
SAME(ORDER_NONE);
SAME(ORDER_RAR);
SAME(ORDER_RAW);
SAME(ORDER_RAS);
SAME(ORDER_WAR);
SAME(ORDER_WAW);
SAME(ORDER_WAS);
SAME(ORDER_SAR);
SAME(ORDER_SAW);
SAME(ORDER_SAS);
SAME(ORDER_STRICT);
SAME(ORDER_DATA);
SAME(FORMAT_UNSPEC);
SAME(SOCKADDR);
SAME(SOCKADDR_IN);
SAME(SOCKADDR_IN6);
SAME(SOCKADDR_IB);
SAME(ADDR_GNI);
SAME(ADDR_CXI);
SAME(EP_UNSPEC);
SAME(EP_MSG);
SAME(EP_DGRAM);
SAME(EP_RDM);
SAME(PROTO_UNSPEC);
SAME(PROTO_RDMA_CM_IB_RC);
SAME(PROTO_IWARP);
SAME(THREAD_UNSPEC);
SAME(THREAD_SAFE);
SAME(THREAD_FID);
SAME(THREAD_DOMAIN);
SAME(THREAD_COMPLETION);
SAME(THREAD_ENDPOINT);
SAME(PROGRESS_UNSPEC);
SAME(PROGRESS_AUTO);
SAME(PROGRESS_MANUAL);
SAME(RM_UNSPEC);
SAME(RM_DISABLED);
SAME(RM_ENABLED);
SAME(AV_UNSPEC);
SAME(AV_MAP);
SAME(AV_TABLE);
SAME(WAIT_NONE);
SAME(WAIT_UNSPEC);
SAME(WAIT_SET);
SAME(WAIT_QUEUE);
SAME(WAIT_MUTEX_COND);
SAME(WAIT_FD);
SAME(WAIT_POLLFD);
SAME(WAIT_YIELD);
SAME(WAIT_EXCLUSIVE);
SAME(SOLICITED);
SAME(CQ_FORMAT_UNSPEC);
SAME(CQ_FORMAT_CONTEXT);
SAME(CQ_FORMAT_MSG);
SAME(CQ_FORMAT_DATA);
SAME(CQ_FORMAT_TAGGED);
SAME(CQ_COND_NONE);
SAME(CQ_COND_THRESHOLD);
SAME(CNTR_EVENTS_COMP);
SAME(NOTIFY);
SAME(CONNREQ);
SAME(CONNECTED);
SAME(SHUTDOWN);
SAME(MR_COMPLETE);
SAME(AV_COMPLETE);
SAME(JOIN_COMPLETE);
SAME(GETFIDFLAG);
SAME(SETFIDFLAG);
SAME(GETWAIT);
SAME(ENABLE);
SAME(GETWAITOBJ);
SAME(OPT_ENDPOINT);
SAME(OPT_MIN_MULTI_RECV);
SAME(OPT_CM_DATA_SIZE);
SAME(OPT_KEEPALIVE);
SAME(MIN);
SAME(MAX);
SAME(SUM);
SAME(PROD);
SAME(LOR);
SAME(LAND);
SAME(BOR);
SAME(BAND);
SAME(LXOR);
SAME(BXOR);
SAME(ATOMIC_READ);
SAME(ATOMIC_WRITE);
SAME(CSWAP);
SAME(CSWAP_NE);
SAME(CSWAP_LE);
SAME(CSWAP_LT);
SAME(CSWAP_GE);
SAME(CSWAP_GT);
SAME(MSWAP);
SAME(INT8);
SAME(UINT8);
SAME(INT16);
SAME(UINT16);
SAME(INT32);
SAME(UINT32);
SAME(INT64);
SAME(UINT64);
SAME(FLOAT);
SAME(DOUBLE);
SAME(FLOAT_COMPLEX);
SAME(DOUBLE_COMPLEX);
SAME(LONG_DOUBLE);
SAME(LONG_DOUBLE_COMPLEX);
SAME(ADDR_UNSPEC);
SAME(ADDR_NOTAVAIL);
SAME(KEY_NOTAVAIL);

static_assert(KFAB_DEADLINE_NOW == KFI_DEADLINE_NOW);
static_assert(KFAB_DEADLINE_NONE == KFI_DEADLINE_NONE);
static_assert(KFAB_NOTIFY_SOLICITED == KFI_CQ_SOLICITED);
static_assert(KFAB_NOTIFY_NEXT == KFI_CQ_NEXT_COMP);
static_assert(KFAB_NOTIFY_MISSED == KFI_CQ_REPORT_MISSED);
static_assert(KFAB_CM_DATA_MAX == KFI_EQ_DATA_MAX);
static_assert(KFAB_NAME_MAX == KFI_NAME_MAX);

/* Copied without translation. */
static_assert(sizeof(struct kfab_rma_iov) == sizeof(struct kfi_rma_iov));
static_assert(offsetof(struct kfab_rma_iov, addr) == offsetof(struct kfi_rma_iov, addr));
static_assert(offsetof(struct kfab_rma_iov, len) == offsetof(struct kfi_rma_iov, len));
static_assert(offsetof(struct kfab_rma_iov, key) == offsetof(struct kfi_rma_iov, key));

static_assert(sizeof(struct kfi_rma_ioc) == sizeof(struct kfi_rma_iov));
static_assert(offsetof(struct kfi_rma_ioc, addr) == offsetof(struct kfi_rma_iov, addr));
static_assert(offsetof(struct kfi_rma_ioc, count) == offsetof(struct kfi_rma_iov, len));
static_assert(offsetof(struct kfi_rma_ioc, key) == offsetof(struct kfi_rma_iov, key));
static_assert(sizeof(struct kfi_ioc) == sizeof(struct kvec));
static_assert(offsetof(struct kfi_ioc, addr) == offsetof(struct kvec, iov_base));
static_assert(offsetof(struct kfi_ioc, count) == offsetof(struct kvec, iov_len));

/* struct kfab_tmsg and struct kfab_rma begin with the fields of struct kfab_msg. */
#define SAME_AS_MSG(type, _field)					\
	static_assert(offsetof(struct type, _field) ==			\
		      offsetof(struct kfab_msg, _field))

SAME_AS_MSG(kfab_tmsg, flags);
SAME_AS_MSG(kfab_tmsg, ep);
SAME_AS_MSG(kfab_tmsg, iov_count);
SAME_AS_MSG(kfab_tmsg, op_flags);
SAME_AS_MSG(kfab_tmsg, context);
SAME_AS_MSG(kfab_tmsg, data);
SAME_AS_MSG(kfab_tmsg, addr);
SAME_AS_MSG(kfab_tmsg, iov);

SAME_AS_MSG(kfab_rma, flags);
SAME_AS_MSG(kfab_rma, ep);
SAME_AS_MSG(kfab_rma, iov_count);
SAME_AS_MSG(kfab_rma, op_flags);
SAME_AS_MSG(kfab_rma, context);
SAME_AS_MSG(kfab_rma, data);
SAME_AS_MSG(kfab_rma, addr);
SAME_AS_MSG(kfab_rma, iov);

/* The same layout for 32-bit callers: no holes, and a multiple of eight bytes. */
static_assert(sizeof(struct kfab_info) % 8 == 0);
static_assert(sizeof(struct kfab_iov) == 24);
static_assert(sizeof(struct kfab_cq_entry) == 64);
static_assert(offsetof(struct kfab_ring, head) == 64);
static_assert(offsetof(struct kfab_ring, entries) == 128);
static_assert(sizeof(struct kfab_poll_entry) == 16);
