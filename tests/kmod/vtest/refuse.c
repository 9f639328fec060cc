// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* What the provider does not do, and says so. */
#include <linux/slab.h>

#include "vtest.h"

/* Addresses that are nobody's memory, or a user's. */
static void vt_bad_memory(struct vt *vt)
{
	struct kfid_mr *mr;
	void *user = (void *)0x10000;

	VT_EQ(vt, vt_connect(vt), 0);
	VT_EQ(vt, kfi_send(vt->a.ep, user, 8, NULL, 0, NULL), -EINVAL);
	VT_EQ(vt, kfi_send(vt->a.ep, NULL, 8, NULL, 0, NULL), -EINVAL);
	VT_EQ(vt, kfi_recv(vt->a.ep, user, 8, NULL, 0, NULL), -EINVAL);
	VT_EQ(vt, kfi_sendv(vt->a.ep, NULL, NULL, 1, 0, NULL), -EINVAL);
	VT_EQ(vt, kfi_mr_reg(vt->a.domain, user, 8, KFI_REMOTE_READ, 0, 0, 0,
			     &mr, NULL), -EINVAL);
}

static void vt_mr_arguments(struct vt *vt)
{
	struct kfid_mr *mr;
	void *buf;

	VT_EQ(vt, vt_connect(vt), 0);
	buf = vt->a.buf;
	VT_EQ(vt, kfi_mr_reg(vt->a.domain, buf, 8, KFI_REMOTE_READ, 0, 0, 1,
			     &mr, NULL), -KFI_EBADFLAGS);
	VT_EQ(vt, kfi_mr_reg(vt->a.domain, buf, 8, KFI_REMOTE_READ, 1, 0, 0,
			     &mr, NULL), -EINVAL);
	VT_EQ(vt, kfi_mr_reg(vt->a.domain, buf, 8, KFI_MSG, 0, 0, 0, &mr,
			     NULL), -EINVAL);
	VT_EQ(vt, kfi_mr_reg(vt->a.domain, buf, 8, 0, 0, 0, 0, &mr, NULL),
	      -EINVAL);
	VT_EQ(vt, kfi_mr_regsgl(vt->a.domain, NULL, 0, KFI_REMOTE_READ, 0, 0,
				0, &mr, NULL), -KFI_ENOSYS);
}

static void vt_bad_flags(struct vt *vt)
{
	struct kvec iov = { };
	struct kfi_msg msg = { .type = KFI_KVEC, .msg_iov = &iov };
	struct kfi_rma_iov rma = { };
	struct kfi_msg_rma read = {
		.type = KFI_KVEC,
		.rma_iov = &rma,
		.rma_iov_count = 1,
	};

	VT_EQ(vt, vt_connect(vt), 0);
	VT_EQ(vt, kfi_sendmsg(vt->a.ep, &msg, KFI_PEEK), -KFI_EBADFLAGS);
	VT_EQ(vt, kfi_recvmsg(vt->a.ep, &msg, KFI_MULTI_RECV), -KFI_EBADFLAGS);
	VT_EQ(vt, kfi_readmsg(vt->a.ep, &read, KFI_INJECT), -KFI_EBADFLAGS);
	msg.type = 0;
	VT_EQ(vt, kfi_sendmsg(vt->a.ep, &msg, 0), -EINVAL);
	msg.type = KFI_SGL;
	VT_EQ(vt, kfi_sendmsg(vt->a.ep, &msg, 0), -KFI_ENOSYS);
	VT_EQ(vt, kfi_shutdown(vt->a.ep, KFI_READ), -KFI_ENOSYS);
	VT_EQ(vt, kfi_shutdown(vt->a.ep, KFI_PEEK), -EINVAL);
}

/* Every slot is filled: callers jump through them without looking. */
static void vt_not_supported(struct vt *vt)
{
	struct kfid_ep *ep;
	struct kfid_av *av;

	VT_EQ(vt, vt_connect(vt), 0);
	ep = vt->a.ep;
	VT_EQ(vt, kfi_tsend(ep, NULL, 0, NULL, 0, 0, NULL), -KFI_ENOSYS);
	VT_EQ(vt, kfi_cancel(&ep->fid, NULL), -KFI_ENOSYS);
	VT_EQ(vt, kfi_av_open(vt->a.domain, NULL, &av, NULL), -KFI_ENOSYS);
	VT_EQ(vt, kfi_scalable_ep(vt->a.domain, vt->a.info, &ep, NULL),
	      -KFI_ENOSYS);
	VT_EQ(vt, kfi_listen((struct kfid_pep *)vt->a.ep), -KFI_ENOSYS);
}

/* One element of eight bytes, aligned, and what there is to do with it. */
static void vt_atomic_arguments(struct vt *vt)
{
	u64 *word;
	size_t count = 0;
	void *odd;

	VT_EQ(vt, vt_connect(vt), 0);
	word = (u64 *)vt->a.buf;
	odd = vt->a.buf + 4;
	VT_EQ(vt, kfi_atomic(vt->a.ep, word, 1, NULL, 0, 0, 0, KFI_UINT64,
			     KFI_PROD, NULL), -KFI_EOPNOTSUPP);
	VT_EQ(vt, kfi_atomic(vt->a.ep, word, 1, NULL, 0, 0, 0, KFI_UINT32,
			     KFI_SUM, NULL), -KFI_EOPNOTSUPP);
	VT_EQ(vt, kfi_atomic(vt->a.ep, word, 2, NULL, 0, 0, 0, KFI_UINT64,
			     KFI_SUM, NULL), -KFI_EMSGSIZE);
	VT_EQ(vt, kfi_atomic(vt->a.ep, word, 0, NULL, 0, 0, 0, KFI_UINT64,
			     KFI_SUM, NULL), -EINVAL);
	VT_EQ(vt, kfi_atomic(vt->a.ep, NULL, 1, NULL, 0, 0, 0, KFI_UINT64,
			     KFI_SUM, NULL), -EINVAL);
	VT_EQ(vt, kfi_atomic(vt->a.ep, word, 1, NULL, 0, 4, 0, KFI_UINT64,
			     KFI_SUM, NULL), -EINVAL);
	VT_EQ(vt, kfi_fetch_atomic(vt->a.ep, word, 1, NULL, odd, NULL, 0, 0, 0,
				   KFI_UINT64, KFI_SUM, NULL), -EINVAL);
	VT_EQ(vt, kfi_fetch_atomic(vt->a.ep, word, 1, NULL, NULL, NULL, 0, 0,
				   0, KFI_UINT64, KFI_SUM, NULL), -EINVAL);
	VT_EQ(vt, kfi_compare_atomic(vt->a.ep, word, 1, NULL, NULL, NULL, word,
				     NULL, 0, 0, 0, KFI_UINT64, KFI_CSWAP,
				     NULL), -EINVAL);
	VT_EQ(vt, kfi_compare_atomicvalid(vt->a.ep, KFI_INT64, KFI_CSWAP,
					  &count), 0);
	VT_EQ(vt, count, 1);
	VT_EQ(vt, kfi_compare_atomicvalid(vt->a.ep, KFI_INT64, KFI_SUM,
					  &count), -KFI_EOPNOTSUPP);
}

static void vt_query_atomic(struct vt *vt)
{
	struct kfi_atomic_attr attr = { };

	VT_EQ(vt, vt_connect(vt), 0);
	VT_EQ(vt, kfi_query_atomic(vt->a.domain, KFI_UINT64, KFI_CSWAP, &attr,
				   0), 0);
	VT_EQ(vt, attr.count, 1);
	VT_EQ(vt, attr.size, 8);
	VT_EQ(vt, kfi_query_atomic(vt->a.domain, KFI_UINT32, KFI_CSWAP, &attr,
				   0), -KFI_EOPNOTSUPP);
	VT_EQ(vt, kfi_query_atomic(vt->a.domain, KFI_UINT64, KFI_CSWAP, NULL,
				   0), -EINVAL);
	VT_EQ(vt, kfi_query_atomic(vt->a.domain, KFI_UINT64, KFI_CSWAP, &attr,
				   KFI_PEEK), -KFI_EBADFLAGS);
}

/* Off, until somebody asks for it. */
static void vt_keepalive(struct vt *vt, struct kfid *fid)
{
	const size_t week = 7 * 86400;
	size_t value = 77, len = sizeof(value);

	VT_EQ(vt, kfi_getopt(fid, KFI_OPT_ENDPOINT, KFI_OPT_KEEPALIVE, &value,
			     &len), 0);
	VT_EQ(vt, value, 0);
	value = 1;
	VT_EQ(vt, kfi_setopt(fid, KFI_OPT_ENDPOINT, KFI_OPT_KEEPALIVE, &value,
			     len), 0);
	VT_EQ(vt, kfi_setopt(fid, KFI_OPT_ENDPOINT, KFI_OPT_KEEPALIVE, &week,
			     len), -E2BIG);
	VT_EQ(vt, kfi_setopt(fid, KFI_OPT_ENDPOINT, KFI_OPT_KEEPALIVE, &value,
			     1), -KFI_ETOOSMALL);
	VT_EQ(vt, kfi_setopt(fid, KFI_OPT_ENDPOINT, KFI_OPT_KEEPALIVE, NULL,
			     len), -EINVAL);
	value = 77;
	VT_EQ(vt, kfi_getopt(fid, KFI_OPT_ENDPOINT, KFI_OPT_KEEPALIVE, &value,
			     &len), 0);
	VT_EQ(vt, value, 1);
}

static void vt_options(struct vt *vt)
{
	size_t size = 0, len = sizeof(size);
	u64 flags = KFI_TRANSMIT | KFI_COMPLETION | KFI_INJECT;
	struct kfid *fid;

	VT_EQ(vt, vt_connect(vt), 0);
	fid = &vt->a.ep->fid;
	VT_EQ(vt, kfi_getopt(fid, KFI_OPT_ENDPOINT, KFI_OPT_CM_DATA_SIZE, &size,
			     &len), 0);
	VT_EQ(vt, size, 56);
	VT_EQ(vt, kfi_setopt(fid, KFI_OPT_ENDPOINT, KFI_OPT_CM_DATA_SIZE, &size,
			     len), -KFI_ENOPROTOOPT);
	vt_keepalive(vt, fid);
	VT_EQ(vt, kfi_control(fid, KFI_SETOPSFLAG, &flags), 0);
	flags = KFI_TRANSMIT;
	VT_EQ(vt, kfi_control(fid, KFI_GETOPSFLAG, &flags), 0);
	VT_EQ(vt, flags, KFI_COMPLETION | KFI_INJECT);
	flags = KFI_COMPLETION;
	VT_EQ(vt, kfi_control(fid, KFI_SETOPSFLAG, &flags), -EINVAL);
	flags = KFI_RECV | KFI_INJECT;
	VT_EQ(vt, kfi_control(fid, KFI_SETOPSFLAG, &flags), -EINVAL);
	VT_EQ(vt, kfi_control(fid, KFI_BACKLOG, NULL), -KFI_ENOSYS);
}

/* A name is cut to the caller's room, and its length told. */
static void vt_names(struct vt *vt)
{
	struct sockaddr_in sin = { };
	size_t len = 4;

	VT_EQ(vt, vt_connect(vt), 0);
	VT_EQ(vt, kfi_getname(&vt->a.ep->fid, &sin, &len), -KFI_ETOOSMALL);
	VT_EQ(vt, len, sizeof(sin));
	VT_CHECK(vt, !sin.sin_addr.s_addr);
	VT_EQ(vt, kfi_getname(&vt->a.ep->fid, &sin, &len), 0);
	VT_CHECK(vt, sin.sin_addr.s_addr == vt_address());
	VT_EQ(vt, kfi_setname(&vt->a.ep->fid, &sin, len), -KFI_EOPBADSTATE);
}

/* Asks for what cannot be had. Return: false if there is no wish @n. */
static bool vt_wish_ep(struct kfi_info *h, int n)
{
	switch (n) {
	case 0:
		h->caps = KFI_TAGGED;
		return true;
	case 1:
		h->addr_format = KFI_SOCKADDR_IN6;
		return true;
	case 2:
		h->ep_attr->type = KFI_EP_DGRAM;
		return true;
	case 3:
		h->ep_attr->protocol = KFI_PROTO_UDP;
		return true;
	case 4:
		h->ep_attr->max_msg_size = SIZE_MAX;
		return true;
	case 5:
		h->ep_attr->auth_key_size = 4;
		return true;
	case 6:
		h->tx_attr->inject_size = 4096;
		return true;
	case 7:
		h->tx_attr->iov_limit = 256;
		return true;
	case 8:
		h->tx_attr->size = SIZE_MAX;
		return true;
	case 9:
		h->tx_attr->op_flags = KFI_DELIVERY_COMPLETE;
		return true;
	case 10:
		h->rx_attr->iov_limit = 256;
		return true;
	case 11:
		h->rx_attr->size = SIZE_MAX;
		return true;
	case 12:
		h->rx_attr->op_flags = KFI_MULTI_RECV;
		return true;
	case 13:
		h->rx_attr->total_buffered_recv = 1;
		return true;
	default:
		return false;
	}
}

static bool vt_wish_domain(struct kfi_info *h, int n)
{
	switch (n) {
	case 0:
		h->domain_attr->mr_mode = KFI_MR_LOCAL;
		return true;
	case 1:
		h->domain_attr->mr_key_size = 8;
		return true;
	case 2:
		h->domain_attr->cq_data_size = 8;
		return true;
	case 3:
		h->domain_attr->data_progress = KFI_PROGRESS_MANUAL;
		return true;
	case 4:
		h->domain_attr->av_type = KFI_AV_MAP;
		return true;
	case 5:
		h->domain_attr->tclass = KFI_TC_NETWORK_CTRL + 1;
		return true;
	case 6:
		h->domain_attr->domain = (struct kfid_domain *)h;
		return true;
	case 7:
		h->fabric_attr->fabric = (struct kfid_fabric *)h;
		return true;
	case 8:
		h->domain_attr->mr_mode = KFI_MR_VIRT_ADDR | KFI_MR_PROV_KEY | 1;
		return true;
	default:
		return false;
	}
}

typedef bool (*vt_wish)(struct kfi_info *hints, int n);

/* Return: as kfi_getinfo(), or 1 if there is no wish @n. */
static int vt_ask(vt_wish wish, int n, const char *node)
{
	struct kfi_info *hints = kfi_allocinfo(), *info;
	int err = 1;

	if (!hints)
		return -ENOMEM;
	hints->fabric_attr->prov_name = kstrdup("verbs", GFP_KERNEL);
	hints->ep_attr->type = KFI_EP_MSG;
	if (!wish || wish(hints, n))
		err = kfi_getinfo(0, node, NULL, KFI_SOURCE, hints, &info);
	if (!err)
		kfi_freeinfo(info);
	hints->ep_attr->auth_key_size = 0;
	kfi_freeinfo(hints);
	return err;
}

static void vt_ask_all(struct vt *vt, vt_wish wish, const char *what)
{
	int err, n = 0;

	while ((err = vt_ask(wish, n, NULL)) != 1) {
		if (err != -KFI_ENODATA) {
			seq_printf(vt->seq, "%s wish %d: %d\n", what, n, err);
			vt->failed = true;
		}
		n++;
	}
}

/* What cannot be had is not offered; without the wish there is an offer. */
static void vt_getinfo_wishes(struct vt *vt)
{
	VT_EQ(vt, vt_ask(NULL, 0, NULL), 0);
	vt_ask_all(vt, vt_wish_ep, "endpoint");
	vt_ask_all(vt, vt_wish_domain, "domain");
	VT_EQ(vt, vt_ask(NULL, 0, "no.such.name"), -KFI_ENODATA);
	VT_EQ(vt, vt_ask(NULL, 0, "192.0.2.1"), -KFI_ENODATA);
}

/* Open objects are named in later offers, and can be asked for. */
static void vt_getinfo_open(struct vt *vt)
{
	struct kfi_info *hints, *info;

	VT_EQ(vt, vt_connect(vt), 0);
	VT_EQ(vt, vt_getinfo(0, &info), 0);
	hints = kfi_dupinfo(info);
	VT_CHECK(vt, info->fabric_attr->fabric == vt->fabric);
	VT_CHECK(vt, info->domain_attr->domain == vt->a.domain);
	kfi_freeinfo(info);
	VT_CHECK(vt, hints);
	hints->domain_attr->domain = vt->b.domain;
	info = NULL;
	VT_EQ(vt, kfi_getinfo(0, NULL, NULL, 0, hints, &info), 0);
	VT_CHECK(vt, info->domain_attr->domain == vt->b.domain);
	kfi_freeinfo(info);
	kfi_freeinfo(hints);
}

/* What is asked for comes back, and what it implies, but nothing else. */
static void vt_getinfo_caps(struct vt *vt)
{
	const u64 comm = KFI_LOCAL_COMM | KFI_REMOTE_COMM;
	struct kfi_info hints = { .caps = KFI_MSG }, *info = NULL;
	struct kfi_ep_attr ep = { .type = KFI_EP_MSG };
	u64 caps, tx, rx;

	hints.ep_attr = &ep;
	VT_EQ(vt, kfi_getinfo(0, NULL, NULL, 0, &hints, &info), 0);
	caps = info->caps;
	tx = info->tx_attr->caps;
	rx = info->rx_attr->caps;
	kfi_freeinfo(info);
	VT_EQ(vt, caps, KFI_MSG | KFI_SEND | KFI_RECV | comm);
	VT_EQ(vt, tx, KFI_MSG | KFI_SEND);
	VT_EQ(vt, rx, KFI_MSG | KFI_RECV);
}

const struct vt_case vt_refuse_cases[] = {
	{ "bad_memory", vt_bad_memory },
	{ "mr_arguments", vt_mr_arguments },
	{ "bad_flags", vt_bad_flags },
	{ "not_supported", vt_not_supported },
	{ "atomic_arguments", vt_atomic_arguments },
	{ "query_atomic", vt_query_atomic },
	{ "options", vt_options },
	{ "names", vt_names },
	{ "getinfo_wishes", vt_getinfo_wishes },
	{ "getinfo_open", vt_getinfo_open },
	{ "getinfo_caps", vt_getinfo_caps },
	{ }
};
