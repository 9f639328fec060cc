// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/* Moving data that is not a user's buffer. */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "vtest.h"

/* Two stretches of pages go into one, and one into two. */
static void vt_bvec_message(struct vt *vt)
{
	struct kfi_cq_data_entry entry;
	struct bio_vec from[2], to[2];

	VT_EQ(vt, vt_connect(vt), 0);
	vt_fill(vt->a.buf, VT_BUF_SIZE, 1);
	/* The first one begins behind its page's end: a bvec may. */
	from[0].bv_page = vt->a.pages;
	from[0].bv_offset = PAGE_SIZE + 100;
	from[0].bv_len = 2 * PAGE_SIZE;
	from[1].bv_page = vt->a.pages;
	from[1].bv_offset = 0;
	from[1].bv_len = 10;
	to[0].bv_page = vt->b.pages + 1;
	to[0].bv_offset = 5;
	to[0].bv_len = 2 * PAGE_SIZE;
	to[1].bv_page = vt->b.pages;
	to[1].bv_offset = 0;
	to[1].bv_len = 10;
	VT_EQ(vt, kfi_recvbv(vt->b.ep, to, NULL, 2, 0, NULL), 0);
	VT_EQ(vt, kfi_sendbv(vt->a.ep, from, NULL, 2, 0, NULL), 0);
	VT_EQ(vt, vt_entry(&vt->b, &entry), 0);
	VT_EQ(vt, entry.len, 2 * PAGE_SIZE + 10);
	VT_CHECK(vt, !memcmp(vt->b.buf + PAGE_SIZE + 5,
			     vt->a.buf + PAGE_SIZE + 100, 2 * PAGE_SIZE));
	VT_CHECK(vt, !memcmp(vt->b.buf, vt->a.buf, 10));
}

/* A region of pages, reached with bvecs in both directions. */
static void vt_bvec_region(struct vt *vt)
{
	struct kfi_cq_data_entry entry;
	struct bio_vec target, local;
	struct kfid_mr *mr;

	VT_EQ(vt, vt_connect(vt), 0);
	target.bv_page = vt->b.pages;
	target.bv_offset = 100;
	target.bv_len = 2 * PAGE_SIZE;
	VT_EQ(vt, kfi_mr_regbv(vt->b.domain, &target, 1,
			       KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0, 0, 0,
			       &mr, NULL), 0);
	vt_fill(vt->a.buf, PAGE_SIZE, 2);
	local.bv_page = vt->a.pages;
	local.bv_offset = 0;
	local.bv_len = PAGE_SIZE;
	VT_EQ(vt, kfi_writebv(vt->a.ep, &local, NULL, 1, 0, mr->iova + 50,
			      mr->key, NULL), 0);
	VT_EQ(vt, vt_entry(&vt->a, &entry), 0);
	VT_CHECK(vt, vt_filled(vt->b.buf + 150, PAGE_SIZE, 2));

	local.bv_page = vt->a.pages + 2;
	VT_EQ(vt, kfi_readbv(vt->a.ep, &local, NULL, 1, 0, mr->iova + 50,
			     mr->key, NULL), 0);
	VT_EQ(vt, vt_entry(&vt->a, &entry), 0);
	VT_CHECK(vt, vt_filled(vt->a.buf + 2 * PAGE_SIZE, PAGE_SIZE, 2));
	VT_EQ(vt, kfi_close(&mr->fid), 0);
}

/* What is injected may lie anywhere, also on the stack. */
static void vt_inject(struct vt *vt)
{
	struct kfi_cq_data_entry entry;
	struct kfid_mr *mr;
	u8 word[8];

	VT_EQ(vt, vt_connect(vt), 0);
	VT_EQ(vt, kfi_mr_reg(vt->b.domain, vt->b.buf, PAGE_SIZE,
			     KFI_REMOTE_WRITE, 0, 0, 0, &mr, NULL), 0);
	VT_EQ(vt, kfi_recv(vt->b.ep, vt->b.buf + PAGE_SIZE, 8, NULL, 0, NULL),
	      0);
	VT_EQ(vt, kfi_recv(vt->b.ep, NULL, 0, NULL, 0, NULL), 0);
	vt_fill(word, sizeof(word), 3);
	VT_EQ(vt, kfi_inject_write(vt->a.ep, word, 8, 0, mr->iova, mr->key), 0);
	vt_fill(word, sizeof(word), 4);
	VT_EQ(vt, kfi_injectdata(vt->a.ep, word, 8, 77, 0), 0);
	vt_fill(word, sizeof(word), 5);
	VT_EQ(vt, kfi_inject_writedata(vt->a.ep, word, 8, 78, 0, mr->iova + 8,
				       mr->key), 0);
	memset(word, 0, sizeof(word));

	VT_EQ(vt, vt_entry(&vt->b, &entry), 0);
	VT_EQ(vt, entry.data, 77);
	VT_EQ(vt, vt_entry(&vt->b, &entry), 0);
	VT_EQ(vt, entry.data, 78);
	VT_EQ(vt, entry.flags,
	      KFI_RMA | KFI_REMOTE_WRITE | KFI_REMOTE_CQ_DATA);
	VT_CHECK(vt, vt_filled(vt->b.buf, 8, 3));
	VT_CHECK(vt, vt_filled(vt->b.buf + PAGE_SIZE, 8, 4));
	VT_CHECK(vt, vt_filled(vt->b.buf + 8, 8, 5));
	VT_EQ(vt, kfi_cq_read(vt->a.cq, &entry, 1), -KFI_EAGAIN);
	VT_EQ(vt, kfi_close(&mr->fid), 0);
}

/* The message forms take flags, and vmalloc memory like any other. */
static void vt_vmalloc_message(struct vt *vt)
{
	const size_t len = 3 * PAGE_SIZE + 17;
	u8 *from = vmalloc(len), *to = vmalloc(len);
	struct kfi_cq_data_entry entry;
	struct kvec iov = { .iov_base = from + 1, .iov_len = len - 1 };
	struct kfi_msg msg = {
		.type = KFI_KVEC,
		.msg_iov = &iov,
		.iov_count = 1,
		.context = vt,
		.data = 79,
	};
	int err = -ENOMEM;

	if (from && to)
		err = vt_connect(vt);
	if (!err) {
		vt_fill(from, len, 6);
		err = kfi_recv(vt->b.ep, to + 1, len - 1, NULL, 0, NULL);
	}
	if (!err)
		err = kfi_sendmsg(vt->a.ep, &msg, KFI_REMOTE_CQ_DATA);
	if (!err)
		err = vt_entry(&vt->b, &entry);
	if (!err && (entry.data != 79 || memcmp(from + 1, to + 1, len - 1)))
		err = -EPROTO;
	/* What is still posted must not outlive the memory. */
	vt_close(vt);
	vfree(from);
	vfree(to);
	VT_EQ(vt, err, 0);
}

#define VT_ECHOES 211

/* Answers each message with itself; the work is done in the handler. */
static void vt_echo(struct kfid_cq *cq, void *context)
{
	struct vt *vt = context;
	struct kfi_cq_data_entry entry;

	while (kfi_cq_read(cq, &entry, 1) == 1) {
		if (!(entry.flags & KFI_RECV))
			continue;
		/* The send is in order before the next message lands. */
		if (kfi_inject(vt->b.ep, vt->b.buf, entry.len, 0) ||
		    kfi_recv(vt->b.ep, vt->b.buf, 8, NULL, 0, NULL))
			complete(&vt->done);
		atomic_inc(&vt->calls);
	}
}

/* Posting is legal in a completion handler. */
static void vt_handler_posts(struct vt *vt)
{
	struct kfi_cq_data_entry entry;
	u64 i;

	vt->handler = vt_echo;
	VT_EQ(vt, vt_connect(vt), 0);
	VT_EQ(vt, kfi_recv(vt->b.ep, vt->b.buf, 8, NULL, 0, NULL), 0);
	for (i = 0; i < VT_ECHOES; i++) {
		VT_EQ(vt, kfi_recv(vt->a.ep, vt->a.buf, 8, NULL, 0, NULL), 0);
		VT_EQ(vt, kfi_inject(vt->a.ep, &i, sizeof(i), 0), 0);
		VT_EQ(vt, vt_entry(&vt->a, &entry), 0);
		VT_EQ(vt, *(u64 *)vt->a.buf, i);
	}
	VT_CHECK(vt, !completion_done(&vt->done));
	VT_EQ(vt, atomic_read(&vt->calls), VT_ECHOES);
}

const struct vt_case vt_data_cases[] = {
	{ "bvec_message", vt_bvec_message },
	{ "bvec_region", vt_bvec_region },
	{ "inject", vt_inject },
	{ "vmalloc_message", vt_vmalloc_message },
	{ "handler_posts", vt_handler_posts },
	{ }
};
