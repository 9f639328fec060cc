// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Attributes and flags in words, for logs.
 *
 * Several bits have another meaning in modes than in capabilities and
 * operations, hence two tables of bits.
 */
#include <linux/seq_buf.h>

#include <kfi_endpoint.h>
#include <kfi_trigger.h>

#include "core.h"

struct kfi_name {
	u64 value;
	const char *name;
};

#define NAME(x) { KFI_##x, "KFI_" #x }

static const struct kfi_name kfi_ep_types[] = {
	NAME(EP_UNSPEC), NAME(EP_MSG), NAME(EP_DGRAM), NAME(EP_RDM),
	NAME(EP_SOCK_STREAM), NAME(EP_SOCK_DGRAM), { }
};

static const struct kfi_name kfi_addr_formats[] = {
	NAME(FORMAT_UNSPEC), NAME(SOCKADDR), NAME(SOCKADDR_IN),
	NAME(SOCKADDR_IN6), NAME(SOCKADDR_IB), NAME(ADDR_GNI), NAME(ADDR_CXI),
	{ }
};

static const struct kfi_name kfi_threadings[] = {
	NAME(THREAD_UNSPEC), NAME(THREAD_SAFE), NAME(THREAD_FID),
	NAME(THREAD_DOMAIN), NAME(THREAD_COMPLETION), NAME(THREAD_ENDPOINT), { }
};

static const struct kfi_name kfi_progresses[] = {
	NAME(PROGRESS_UNSPEC), NAME(PROGRESS_AUTO), NAME(PROGRESS_MANUAL), { }
};

static const struct kfi_name kfi_protocols[] = {
	NAME(PROTO_UNSPEC), NAME(PROTO_RDMA_CM_IB_RC), NAME(PROTO_IWARP),
	NAME(PROTO_IB_UD), NAME(PROTO_UDP), NAME(PROTO_SOCK_TCP),
	NAME(PROTO_IWARP_RDM), NAME(PROTO_IB_RDM), NAME(PROTO_GNI),
	NAME(PROTO_CXI), { }
};

static const struct kfi_name kfi_av_types[] = {
	NAME(AV_UNSPEC), NAME(AV_MAP), NAME(AV_TABLE), { }
};

static const struct kfi_name kfi_datatypes[] = {
	NAME(INT8), NAME(UINT8), NAME(INT16), NAME(UINT16), NAME(INT32),
	NAME(UINT32), NAME(INT64), NAME(UINT64), NAME(FLOAT), NAME(DOUBLE),
	NAME(FLOAT_COMPLEX), NAME(DOUBLE_COMPLEX), NAME(LONG_DOUBLE),
	NAME(LONG_DOUBLE_COMPLEX), { }
};

static const struct kfi_name kfi_ops_names[] = {
	NAME(MIN), NAME(MAX), NAME(SUM), NAME(PROD), NAME(LOR), NAME(LAND),
	NAME(BOR), NAME(BAND), NAME(LXOR), NAME(BXOR), NAME(ATOMIC_READ),
	NAME(ATOMIC_WRITE), NAME(CSWAP), NAME(CSWAP_NE), NAME(CSWAP_LE),
	NAME(CSWAP_LT), NAME(CSWAP_GE), NAME(CSWAP_GT), NAME(MSWAP), { }
};

static const struct kfi_name kfi_eq_events[] = {
	NAME(NOTIFY), NAME(CONNREQ), NAME(CONNECTED), NAME(SHUTDOWN),
	NAME(MR_COMPLETE), NAME(AV_COMPLETE), NAME(JOIN_COMPLETE), { }
};

static const struct kfi_name kfi_op_types[] = {
	NAME(OP_RECV), NAME(OP_SEND), NAME(OP_TRECV), NAME(OP_TSEND),
	NAME(OP_READ), NAME(OP_WRITE), NAME(OP_ATOMIC), NAME(OP_FETCH_ATOMIC),
	NAME(OP_COMPARE_ATOMIC), NAME(OP_CNTR_SET), NAME(OP_CNTR_ADD), { }
};

static const struct kfi_name kfi_flags[] = {
	NAME(MSG), NAME(RMA), NAME(TAGGED), NAME(ATOMIC), NAME(MULTICAST),
	NAME(TAGGED_RMA), NAME(READ), NAME(WRITE), NAME(RECV), NAME(SEND),
	NAME(REMOTE_READ), NAME(REMOTE_WRITE), NAME(MULTI_RECV),
	NAME(REMOTE_CQ_DATA), NAME(MORE), NAME(PEEK), NAME(TRIGGER),
	NAME(FENCE), NAME(COMPLETION), NAME(INJECT), NAME(INJECT_COMPLETE),
	NAME(TRANSMIT_COMPLETE), NAME(DELIVERY_COMPLETE), NAME(AFFINITY),
	NAME(COMMIT_COMPLETE), NAME(TAGGED_MULTI_RECV), NAME(RMA_PMEM),
	NAME(SOURCE_ERR), NAME(LOCAL_COMM), NAME(REMOTE_COMM), NAME(SHARED_AV),
	NAME(RMA_EVENT), NAME(SOURCE), NAME(NAMED_RX_CTX), NAME(DIRECTED_RECV),
	{ }
};

static const struct kfi_name kfi_modes[] = {
	NAME(CONTEXT), NAME(MSG_PREFIX), NAME(ASYNC_IOV), NAME(RX_CQ_DATA),
	NAME(LOCAL_MR), NAME(NOTIFY_FLAGS_ONLY), NAME(RESTRICTED_COMP),
	NAME(CONTEXT2), { }
};

static const struct kfi_name kfi_mr_modes[] = {
	NAME(MR_LOCAL), NAME(MR_RAW), NAME(MR_VIRT_ADDR), NAME(MR_PROV_KEY),
	NAME(MR_RMA_EVENT), NAME(MR_ENDPOINT), { }
};

static const struct kfi_name kfi_orders[] = {
	NAME(ORDER_RAR), NAME(ORDER_RAW), NAME(ORDER_RAS), NAME(ORDER_WAR),
	NAME(ORDER_WAW), NAME(ORDER_WAS), NAME(ORDER_SAR), NAME(ORDER_SAW),
	NAME(ORDER_SAS), NAME(ORDER_DATA), { }
};

/* One of several values: its name, or its number. */
static void kfi_put_name(struct seq_buf *s, const struct kfi_name *names,
			 u64 value)
{
	for (; names->name; names++) {
		if (names->value == value) {
			seq_buf_printf(s, "%s", names->name);
			return;
		}
	}
	seq_buf_printf(s, "%llu", value);
}

/* A set: names of the bits that have one, the others in one number. */
static void kfi_put_bits(struct seq_buf *s, const struct kfi_name *names,
			 u64 bits)
{
	const char *sep = "";

	if (!bits)
		seq_buf_printf(s, "0");
	for (; names->name; names++) {
		if (!(bits & names->value))
			continue;
		seq_buf_printf(s, "%s%s", sep, names->name);
		bits &= ~names->value;
		sep = "|";
	}
	if (bits)
		seq_buf_printf(s, "%s0x%llx", sep, bits);
}

static void kfi_put_field(struct seq_buf *s, const char *field,
			  const struct kfi_name *names, u64 bits)
{
	seq_buf_printf(s, " %s=", field);
	kfi_put_bits(s, names, bits);
}

static void kfi_put_tx_attr(struct seq_buf *s, const struct kfi_tx_attr *a)
{
	seq_buf_printf(s, "tx_attr:");
	kfi_put_field(s, "caps", kfi_flags, a->caps);
	kfi_put_field(s, "mode", kfi_modes, a->mode);
	kfi_put_field(s, "op_flags", kfi_flags, a->op_flags);
	kfi_put_field(s, "msg_order", kfi_orders, a->msg_order);
	seq_buf_printf(s, " inject_size=%zu size=%zu iov_limit=%zu rma_iov_limit=%zu",
		       a->inject_size, a->size, a->iov_limit, a->rma_iov_limit);
}

static void kfi_put_rx_attr(struct seq_buf *s, const struct kfi_rx_attr *a)
{
	seq_buf_printf(s, "rx_attr:");
	kfi_put_field(s, "caps", kfi_flags, a->caps);
	kfi_put_field(s, "mode", kfi_modes, a->mode);
	kfi_put_field(s, "op_flags", kfi_flags, a->op_flags);
	kfi_put_field(s, "msg_order", kfi_orders, a->msg_order);
	seq_buf_printf(s, " total_buffered_recv=%zu size=%zu iov_limit=%zu",
		       a->total_buffered_recv, a->size, a->iov_limit);
}

static void kfi_put_ep_attr(struct seq_buf *s, const struct kfi_ep_attr *a)
{
	seq_buf_printf(s, "ep_attr: type=");
	kfi_put_name(s, kfi_ep_types, a->type);
	seq_buf_printf(s, " protocol=");
	kfi_put_name(s, kfi_protocols, a->protocol);
	seq_buf_printf(s, " max_msg_size=%zu tx_ctx_cnt=%zu rx_ctx_cnt=%zu",
		       a->max_msg_size, a->tx_ctx_cnt, a->rx_ctx_cnt);
}

static void kfi_put_domain_attr(struct seq_buf *s,
				const struct kfi_domain_attr *a)
{
	seq_buf_printf(s, "domain_attr: name=%s threading=", a->name ?: "-");
	kfi_put_name(s, kfi_threadings, a->threading);
	seq_buf_printf(s, " control_progress=");
	kfi_put_name(s, kfi_progresses, a->control_progress);
	seq_buf_printf(s, " data_progress=");
	kfi_put_name(s, kfi_progresses, a->data_progress);
	kfi_put_field(s, "mr_mode", kfi_mr_modes, a->mr_mode);
	seq_buf_printf(s, " cq_data_size=%zu cq_cnt=%zu ep_cnt=%zu mr_iov_limit=%zu",
		       a->cq_data_size, a->cq_cnt, a->ep_cnt, a->mr_iov_limit);
}

static void kfi_put_fabric_attr(struct seq_buf *s,
				const struct kfi_fabric_attr *a)
{
	seq_buf_printf(s, "fabric_attr: name=%s prov_name=%s prov_version=%u.%u",
		       a->name ?: "-", a->prov_name ?: "-",
		       KFI_MAJOR(a->prov_version), KFI_MINOR(a->prov_version));
}

static void kfi_put_info(struct seq_buf *s, const struct kfi_info *info)
{
	seq_buf_printf(s, "info:");
	kfi_put_field(s, "caps", kfi_flags, info->caps);
	kfi_put_field(s, "mode", kfi_modes, info->mode);
	seq_buf_printf(s, " addr_format=");
	kfi_put_name(s, kfi_addr_formats, info->addr_format);
	seq_buf_printf(s, "; ");
	if (info->fabric_attr)
		kfi_put_fabric_attr(s, info->fabric_attr);
	seq_buf_printf(s, "; ");
	if (info->domain_attr)
		kfi_put_domain_attr(s, info->domain_attr);
	seq_buf_printf(s, "; ");
	if (info->ep_attr)
		kfi_put_ep_attr(s, info->ep_attr);
	seq_buf_printf(s, "; ");
	if (info->tx_attr)
		kfi_put_tx_attr(s, info->tx_attr);
	seq_buf_printf(s, "; ");
	if (info->rx_attr)
		kfi_put_rx_attr(s, info->rx_attr);
}

/* Return: false if @type is not a structure. */
static bool kfi_put_struct(struct seq_buf *s, const void *data,
			   enum kfi_type type)
{
	switch (type) {
	case KFI_TYPE_INFO:
		kfi_put_info(s, data);
		return true;
	case KFI_TYPE_TX_ATTR:
		kfi_put_tx_attr(s, data);
		return true;
	case KFI_TYPE_RX_ATTR:
		kfi_put_rx_attr(s, data);
		return true;
	case KFI_TYPE_EP_ATTR:
		kfi_put_ep_attr(s, data);
		return true;
	case KFI_TYPE_DOMAIN_ATTR:
		kfi_put_domain_attr(s, data);
		return true;
	case KFI_TYPE_FABRIC_ATTR:
		kfi_put_fabric_attr(s, data);
		return true;
	default:
		return false;
	}
}

/* Types that are printed by name: the names, the bytes of the data, is it a set? */
static const struct {
	const struct kfi_name *names;
	u8 size;
	bool bits;
} kfi_scalars[] = {
	[KFI_TYPE_EP_TYPE] = { kfi_ep_types, 4, false },
	[KFI_TYPE_CAPS] = { kfi_flags, 8, true },
	[KFI_TYPE_OP_FLAGS] = { kfi_flags, 8, true },
	[KFI_TYPE_ADDR_FORMAT] = { kfi_addr_formats, 4, false },
	[KFI_TYPE_THREADING] = { kfi_threadings, 4, false },
	[KFI_TYPE_PROGRESS] = { kfi_progresses, 4, false },
	[KFI_TYPE_PROTOCOL] = { kfi_protocols, 4, false },
	[KFI_TYPE_MSG_ORDER] = { kfi_orders, 8, true },
	[KFI_TYPE_MODE] = { kfi_modes, 8, true },
	[KFI_TYPE_AV_TYPE] = { kfi_av_types, 4, false },
	[KFI_TYPE_ATOMIC_TYPE] = { kfi_datatypes, 4, false },
	[KFI_TYPE_ATOMIC_OP] = { kfi_ops_names, 4, false },
	[KFI_TYPE_EQ_EVENT] = { kfi_eq_events, 4, false },
	[KFI_TYPE_CQ_EVENT_FLAGS] = { kfi_flags, 8, true },
	[KFI_TYPE_MR_MODE] = { kfi_mr_modes, 4, true },
	[KFI_TYPE_OP_TYPE] = { kfi_op_types, 4, false },
};

static void kfi_put_scalar(struct seq_buf *s, const void *data,
			   enum kfi_type type)
{
	u64 value;

	if (type >= ARRAY_SIZE(kfi_scalars) || !kfi_scalars[type].names) {
		seq_buf_printf(s, "unknown type");
		return;
	}
	value = kfi_scalars[type].size == 8 ? *(const u64 *)data :
					      *(const u32 *)data;
	if (kfi_scalars[type].bits)
		kfi_put_bits(s, kfi_scalars[type].names, value);
	else
		kfi_put_name(s, kfi_scalars[type].names, value);
}

/**
 * kfi_tostr() - an attribute or a set of flags in words
 * @data: the value; may be NULL for KFI_TYPE_VERSION
 * @datatype: the type that it points to
 *
 * Context: any, without a lock: concurrent calls share the result, so the caller
 * serialises them.
 * Return: a static string, overwritten by the next call; truncated if it is too long.
 */
char *kfi_tostr(const void *data, enum kfi_type datatype)
{
	static char text[2048];
	struct seq_buf s;

	seq_buf_init(&s, text, sizeof(text) - 1);
	if (datatype == KFI_TYPE_VERSION)
		seq_buf_printf(&s, "%u.%u", KFI_MAJOR_VERSION, KFI_MINOR_VERSION);
	else if (!data)
		seq_buf_printf(&s, "(null)");
	else if (!kfi_put_struct(&s, data, datatype))
		kfi_put_scalar(&s, data, datatype);
	text[min_t(size_t, s.len, sizeof(text) - 1)] = '\0';
	return text;
}
EXPORT_SYMBOL_GPL(kfi_tostr);
