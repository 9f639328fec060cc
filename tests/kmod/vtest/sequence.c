// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Everything that connected endpoints do, one after the other over a single
 * connection, in the manner of older ULPs: an info on the stack as hints, each
 * side told of the other's region in private data, a queue for each direction,
 * reads of them with timeout 0 (kfabric.ko has sread_zero_blocks set).
 */
#include "vtest.h"

#define VS_MSG		2048
#define VS_PIECES	4
#define VS_PIECE	64512
#define VS_BULK	((size_t)VS_PIECES * VS_PIECE)

/* Waits without a limit for the one completion that is due. */
static int vs_done(struct kfid_cq *cq, u64 flags,
		   struct kfi_cq_data_entry *entry)
{
	struct kfi_cq_err_entry err = { };
	ssize_t n = kfi_cq_sread(cq, entry, 1, NULL, 0);

	if (n == -KFI_EAVAIL)
		return kfi_cq_readerr(cq, &err, 0) == 1 ? -err.err : -EIO;
	if (n != 1)
		return n;
	return entry->flags == flags ? 0 : -EPROTO;
}

static int vs_sent(struct vt_side *side, u64 flags)
{
	struct kfi_cq_data_entry entry;

	return vs_done(side->cq, flags, &entry);
}

static int vs_received(struct vt_side *side, size_t len)
{
	struct kfi_cq_data_entry entry;
	int err = vs_done(side->rx_cq, KFI_MSG | KFI_RECV, &entry);

	return err ?: entry.len == len ? 0 : -EPROTO;
}

static void vs_vec(const struct vt_side *side, struct kvec *iov, void **desc)
{
	int i;

	for (i = 0; i < VS_PIECES; i++) {
		iov[i].iov_base = side->buf + i * VS_PIECE;
		iov[i].iov_len = VS_PIECE;
		desc[i] = kfi_mr_desc(side->mr);
	}
}

/* A message, and a short one back that says that it has come. */
static void vs_message(struct vt *vt)
{
	void *a = kfi_mr_desc(vt->a.mr), *b = kfi_mr_desc(vt->b.mr);

	vt_fill(vt->a.buf, VS_MSG, 1);
	VT_EQ(vt, kfi_recv(vt->b.ep, vt->b.buf, VS_MSG, b, 0, NULL), 0);
	VT_EQ(vt, kfi_recv(vt->a.ep, vt->a.buf + VS_MSG, 8, a, 0, NULL), 0);
	VT_EQ(vt, kfi_send(vt->a.ep, vt->a.buf, VS_MSG, a, 0, NULL), 0);
	VT_EQ(vt, vs_sent(&vt->a, KFI_MSG | KFI_SEND), 0);
	VT_EQ(vt, vs_received(&vt->b, VS_MSG), 0);
	VT_CHECK(vt, vt_filled(vt->b.buf, VS_MSG, 1));
	VT_EQ(vt, kfi_send(vt->b.ep, vt->b.buf, 8, b, 0, NULL), 0);
	VT_EQ(vt, vs_sent(&vt->b, KFI_MSG | KFI_SEND), 0);
	VT_EQ(vt, vs_received(&vt->a, 8), 0);
}

static void vs_vector(struct vt *vt)
{
	struct kvec iov[VS_PIECES];
	void *desc[VS_PIECES];

	vt_fill(vt->a.buf, VS_BULK, 2);
	vs_vec(&vt->b, iov, desc);
	VT_EQ(vt, kfi_recvv(vt->b.ep, iov, desc, VS_PIECES, 0, NULL), 0);
	vs_vec(&vt->a, iov, desc);
	VT_EQ(vt, kfi_sendv(vt->a.ep, iov, desc, VS_PIECES, 0, NULL), 0);
	VT_EQ(vt, vs_sent(&vt->a, KFI_MSG | KFI_SEND), 0);
	VT_EQ(vt, vs_received(&vt->b, VS_BULK), 0);
	VT_CHECK(vt, vt_filled(vt->b.buf, VS_BULK, 2));
}

static void vs_data(struct vt *vt)
{
	struct kfi_cq_data_entry entry;

	VT_EQ(vt, kfi_recv(vt->b.ep, vt->b.buf, VS_MSG,
			   kfi_mr_desc(vt->b.mr), 0, NULL), 0);
	VT_EQ(vt, kfi_senddata(vt->a.ep, vt->a.buf, VS_MSG,
			       kfi_mr_desc(vt->a.mr), 0xfedcba98, 0, NULL), 0);
	VT_EQ(vt, vs_sent(&vt->a, KFI_MSG | KFI_SEND), 0);
	VT_EQ(vt, vs_done(vt->b.rx_cq, KFI_MSG | KFI_RECV |
			   KFI_REMOTE_CQ_DATA, &entry), 0);
	VT_EQ(vt, entry.data, 0xfedcba98);
	VT_EQ(vt, entry.len, VS_MSG);
}

static void vs_write(struct vt *vt)
{
	struct kvec iov[VS_PIECES];
	void *desc[VS_PIECES];

	vt_fill(vt->a.buf, VS_BULK, 3);
	vs_vec(&vt->a, iov, desc);
	VT_EQ(vt, kfi_write(vt->a.ep, vt->a.buf, VS_MSG, desc[0], 0,
			    vt->a.peer.addr, vt->a.peer.key, NULL), 0);
	VT_EQ(vt, vs_sent(&vt->a, KFI_RMA | KFI_WRITE), 0);
	VT_CHECK(vt, vt_filled(vt->b.buf, VS_MSG, 3));
	VT_EQ(vt, kfi_writev(vt->a.ep, iov, desc, VS_PIECES, 0,
			     vt->a.peer.addr, vt->a.peer.key, NULL), 0);
	VT_EQ(vt, vs_sent(&vt->a, KFI_RMA | KFI_WRITE), 0);
	VT_CHECK(vt, vt_filled(vt->b.buf, VS_BULK, 3));
}

/* The value takes a receive at the target, whose buffer it leaves alone. */
static void vs_write_data(struct vt *vt)
{
	struct kfi_cq_data_entry entry;

	vt_fill(vt->a.buf, VS_MSG, 4);
	vt_fill(vt->b.buf + VS_MSG, 8, 5);
	VT_EQ(vt, kfi_recv(vt->b.ep, vt->b.buf + VS_MSG, 8,
			   kfi_mr_desc(vt->b.mr), 0, NULL), 0);
	VT_EQ(vt, kfi_writedata(vt->a.ep, vt->a.buf, VS_MSG,
				kfi_mr_desc(vt->a.mr), 0x12345678, 0,
				vt->a.peer.addr, vt->a.peer.key, NULL), 0);
	VT_EQ(vt, vs_sent(&vt->a, KFI_RMA | KFI_WRITE), 0);
	VT_EQ(vt, vs_done(vt->b.rx_cq, KFI_RMA | KFI_REMOTE_WRITE |
			   KFI_REMOTE_CQ_DATA, &entry), 0);
	VT_EQ(vt, entry.data, 0x12345678);
	VT_CHECK(vt, vt_filled(vt->b.buf, VS_MSG, 4));
	VT_CHECK(vt, vt_filled(vt->b.buf + VS_MSG, 8, 5));
}

static void vs_read(struct vt *vt)
{
	struct kvec iov[VS_PIECES];
	void *desc[VS_PIECES];

	vt_fill(vt->b.buf, VS_BULK, 6);
	vs_vec(&vt->a, iov, desc);
	VT_EQ(vt, kfi_read(vt->a.ep, vt->a.buf, VS_MSG, desc[0], 0,
			   vt->a.peer.addr, vt->a.peer.key, NULL), 0);
	VT_EQ(vt, vs_sent(&vt->a, KFI_RMA | KFI_READ), 0);
	VT_CHECK(vt, vt_filled(vt->a.buf, VS_MSG, 6));
	VT_EQ(vt, kfi_readv(vt->a.ep, iov, desc, VS_PIECES, 0,
			    vt->a.peer.addr, vt->a.peer.key, NULL), 0);
	VT_EQ(vt, vs_sent(&vt->a, KFI_RMA | KFI_READ), 0);
	VT_CHECK(vt, vt_filled(vt->a.buf, VS_BULK, 6));
}

static void vs_atomic_write(struct vt *vt, u64 *word)
{
	const struct kfi_rma_iov *peer = &vt->a.peer;
	size_t count;

	VT_EQ(vt, kfi_atomicvalid(vt->a.ep, KFI_UINT64, KFI_ATOMIC_WRITE,
				  &count), 0);
	VT_EQ(vt, count, 1);
	word[0] = 997;
	VT_EQ(vt, kfi_atomic(vt->a.ep, word, 1, kfi_mr_desc(vt->a.mr), 0,
			     peer->addr, peer->key, KFI_UINT64,
			     KFI_ATOMIC_WRITE, NULL), 0);
	VT_EQ(vt, vs_sent(&vt->a, KFI_ATOMIC | KFI_WRITE), 0);
	VT_EQ(vt, *(u64 *)vt->b.buf, 997);
}

static void vs_atomic_fetch(struct vt *vt, u64 *word)
{
	const struct kfi_rma_iov *peer = &vt->a.peer;
	void *desc = kfi_mr_desc(vt->a.mr);

	VT_EQ(vt, kfi_fetch_atomic(vt->a.ep, NULL, 1, NULL, word + 1, desc, 0,
				   peer->addr, peer->key, KFI_UINT64,
				   KFI_ATOMIC_READ, NULL), 0);
	VT_EQ(vt, vs_sent(&vt->a, KFI_ATOMIC | KFI_READ), 0);
	VT_EQ(vt, word[1], 997);
	word[0] = 2;
	VT_EQ(vt, kfi_fetch_atomic(vt->a.ep, word, 1, desc, word + 1, desc, 0,
				   peer->addr, peer->key, KFI_UINT64, KFI_SUM,
				   NULL), 0);
	VT_EQ(vt, vs_sent(&vt->a, KFI_ATOMIC | KFI_READ), 0);
	VT_EQ(vt, word[1], 997);
	VT_EQ(vt, *(u64 *)vt->b.buf, 999);
}

/* Once where it compares equal and once where it does not. */
static void vs_atomic_compare(struct vt *vt, u64 *word)
{
	const struct kfi_rma_iov *peer = &vt->a.peer;
	void *desc = kfi_mr_desc(vt->a.mr);
	u64 before;

	for (before = 999; before < 1001; before++) {
		word[0] = 7;
		word[2] = 999;
		*(u64 *)vt->b.buf = before;
		VT_EQ(vt, kfi_compare_atomic(vt->a.ep, word, 1, desc, word + 2,
					     desc, word + 1, desc, 0,
					     peer->addr, peer->key, KFI_UINT64,
					     KFI_CSWAP, NULL), 0);
		VT_EQ(vt, vs_sent(&vt->a, KFI_ATOMIC | KFI_READ), 0);
		VT_EQ(vt, word[1], before);
		VT_EQ(vt, *(u64 *)vt->b.buf, before == 999 ? 7 : before);
	}
}

/* The peer hears of it, and only the peer. */
static void vs_shutdown(struct vt *vt)
{
	VT_EQ(vt, kfi_shutdown(vt->a.ep, 0), 0);
	VT_EQ(vt, vt_shutdown_event(&vt->b), 0);
}

static void (* const vs_steps[])(struct vt *vt) = {
	vs_message, vs_vector, vs_data, vs_write, vs_write_data, vs_read,
};

/* vt_close() then closes in the order that these ULPs have. */
static void vt_sequence(struct vt *vt)
{
	u64 *word;
	int i;

	BUILD_BUG_ON(VS_BULK > VT_BUF_SIZE);
	vt->regions = true;
	VT_EQ(vt, vt_connect(vt), 0);
	VT_EQ(vt, vt->a.peer.key, kfi_mr_key(vt->b.mr));
	for (i = 0; i < ARRAY_SIZE(vs_steps) && !vt->failed; i++)
		vs_steps[i](vt);
	word = (u64 *)(vt->a.buf + PAGE_SIZE);
	if (!vt->failed)
		vs_atomic_write(vt, word);
	if (!vt->failed)
		vs_atomic_fetch(vt, word);
	if (!vt->failed)
		vs_atomic_compare(vt, word);
	if (!vt->failed)
		vs_shutdown(vt);
}

const struct vt_case vt_sequence_cases[] = {
	{ "sequence", vt_sequence },
	{ }
};
