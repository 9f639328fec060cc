/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/* RDM endpoints: addresses and buffers. See rdm.h. */
#ifndef _KFV_RDM_BUF_H_
#define _KFV_RDM_BUF_H_

#include <linux/scatterlist.h>

#include "../kfi_verbs.h"

/**
 * struct kfr_addr - of an endpoint
 * @ip: of its node
 * @id: its number there: a sockaddr_in's port, an 8-byte address's pid
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
 * struct kfr_format - how a domain writes addresses
 * @format: KFI_SOCKADDR_IN or KFI_ADDR_CXI
 * @ip: of the node
 * @base: the IP address whose nic is 0, host order
 */
struct kfr_format {
	u32 format;
	__be32 ip;
	u32 base;
};

/**
 * struct kfr_buf - a ULP's buffer, described in memory of ours
 * @type: KFI_KVEC or KFI_BVEC
 * @count: pieces
 * @len: bytes
 * @kvec: the pieces, or @bvec; in @room, or in memory of their own
 * @bvec: the same
 * @pieces: the same
 * @room: for few of them
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
 * struct kfr_map - a part of a buffer, as the device sees it
 * @sgt: its pages
 * @nents: entries that the device has
 * @dir: which way the data goes
 * @sg: where to go on
 * @at: bytes of @sg that are done
 */
struct kfr_map {
	struct sg_table sgt;
	int nents;
	enum dma_data_direction dir;
	struct scatterlist *sg;
	unsigned int at;
};

/* addr.c */
int kfr_port_ip(struct ib_device *ib, u32 port, unsigned int nth, __be32 *ip,
		char *netdev);
int kfr_base(__be32 ip, u32 *base);
int kfr_parse_node(const struct kfr_format *format, const char *node,
		   __be32 *ip);
int kfr_parse_service(const struct kfr_format *format, const char *service,
		      u16 *id);
size_t kfr_addr_size(const struct kfr_format *format);
int kfr_addr_read(const struct kfr_format *format, const void *from,
		  struct kfr_addr *addr);
void kfr_addr_write(const struct kfr_format *format, struct kfr_addr addr,
		    void *to);
int kfr_addr_print(const struct kfr_format *format, struct kfr_addr addr,
		   char *buf, size_t room);

/* Charged to who posts; what the kernel keeps for emergencies is not for it. */
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
void kfr_map_end(struct kfr_map *map, struct ib_device *ib);
struct kfr_buf *kfr_bounce_new(size_t len);
void kfr_bounce_free(struct kfr_buf *bounce);

#endif /* _KFV_RDM_BUF_H_ */
