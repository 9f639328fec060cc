/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * RDM endpoints: addresses and buffers. Nothing here has a lock: the structure
 * that contains one of these names it. See rdm.h.
 */
#ifndef _KFV_RDM_BUF_H_
#define _KFV_RDM_BUF_H_

#include <linux/scatterlist.h>

#include "../kfi_verbs.h"

/**
 * struct kfr_addr - the address of an endpoint
 * @ip: of its node
 * @id: its number there: the port of a sockaddr_in, or the pid of an 8-byte
 *	address plus one; 0: none yet, or any
 */
struct kfr_addr {
	__be32 ip;
	u16 id;
};

static inline unsigned long kfr_addr_pack(struct kfr_addr addr)
{
	return (unsigned long)be32_to_cpu(addr.ip) << 16 | addr.id;
}

static inline struct kfr_addr kfr_addr_unpack(unsigned long packed)
{
	return (struct kfr_addr){ cpu_to_be32(packed >> 16), packed & 0xffff };
}

static inline bool kfr_addr_same(struct kfr_addr a, struct kfr_addr b)
{
	return a.ip == b.ip && a.id == b.id;
}

/**
 * struct kfr_format - the notation of addresses in a domain
 * @format: KFI_SOCKADDR_IN or KFI_ADDR_CXI
 * @ip: of the node
 * @base: the IP address of nic 0, host order
 */
struct kfr_format {
	u32 format;
	__be32 ip;
	u32 base;
};

/**
 * struct kfr_buf - description of a buffer of the ULP
 * @type: KFI_KVEC or KFI_BVEC
 * @count: number of pieces
 * @len: bytes
 * @kvec: the pieces, if @type is KFI_KVEC
 * @bvec: the pieces, if @type is KFI_BVEC
 * @pieces: either of them; points to @room or to allocated memory
 * @room: room for a few pieces
 *
 * The description belongs to this structure, the memory to the ULP until the
 * operation has been reported. @pieces may point into the structure itself: a
 * copy of the structure describes nothing once the original has changed.
 */
struct kfr_buf {
	enum kfi_iov_type type;
	unsigned int count;
	size_t len;
	union {
		struct kvec *kvec;
		struct bio_vec *bvec;
		void *pieces;
	};
	union {
		struct kvec kv[KFR_IOV_INLINE];
		struct bio_vec bv[KFR_IOV_INLINE];
	} room;
};

/**
 * struct kfr_map - a part of a buffer, mapped for DMA
 * @ib: the device
 * @sgt: its pages
 * @nents: entries after mapping
 * @dir: direction of the data
 * @held: each page has a reference until kfr_map_end()
 * @sg: position: the entry
 * @at: position: bytes of @sg that are done
 *
 * The position belongs to kfr_job_sges(). Each kfr_map_make() is paired with
 * one kfr_map_end(), before the buffer is reported to the ULP.
 */
struct kfr_map {
	struct ib_device *ib;
	struct sg_table sgt;
	int nents;
	enum dma_data_direction dir;
	bool held;
	struct scatterlist *sg;
	unsigned int at;
};

/* addr.c */
int kfr_port_ip(struct ib_device *ib, u32 port, unsigned int nth, __be32 *ip,
		char *netdev);
int kfr_base(__be32 ip, u32 *base);
int kfr_addr_parse(const struct kfr_format *format, const char *node,
		   const char *service, struct kfr_addr *addr);
size_t kfr_addr_size(const struct kfr_format *format);
int kfr_addr_read(const struct kfr_format *format, const void *from,
		  struct kfr_addr *addr);
void kfr_addr_write(const struct kfr_format *format, struct kfr_addr addr,
		    void *to);
int kfr_addr_print(const struct kfr_format *format, struct kfr_addr addr,
		   char *buf, size_t room);

/*
 * Allocations while posting, from any context: they are charged to the posting
 * task's memory cgroup, and do not use the kernel's emergency reserves.
 */
#define KFR_GFP_POST (GFP_NOWAIT | __GFP_NOWARN | __GFP_ACCOUNT)

/* buf.c */
int kfr_buf_init(struct kfr_buf *buf, enum kfi_iov_type type,
		 const void *pieces, size_t count, gfp_t gfp);
void kfr_buf_fini(struct kfr_buf *buf);
void kfr_buf_read(const struct kfr_buf *buf, size_t at, void *to, size_t len);
void kfr_buf_write(const struct kfr_buf *buf, size_t at, const void *from,
		   size_t len);
void *kfr_buf_addr(const struct kfr_buf *buf, size_t at);
int kfr_map_make(struct kfr_map *map, struct ib_device *ib,
		 const struct kfr_buf *buf, size_t at, size_t len,
		 enum dma_data_direction dir);
void kfr_map_hold(struct kfr_map *map);
void kfr_map_end(struct kfr_map *map);
struct kfr_buf *kfr_bounce_new(size_t len);
void kfr_bounce_free(struct kfr_buf *bounce);

#endif /* _KFV_RDM_BUF_H_ */
