/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * The interface of qemu-plugin.h as far as it is used, the same in versions 1 to 4: Debian 12 has
 * no package with that header. QEMU refuses a plugin whose version it does not know (INTERFACE).
 */
#ifndef TCG_PLUGIN_H
#define TCG_PLUGIN_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info {
	const char *target_name;
	struct {
		int min;
		int cur;
	} version;
	bool system_emulation;
};

enum { QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_CB_R_REGS };

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
					   void (*cb)(qemu_plugin_id_t id,
						      struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
					  void (*cb)(unsigned int cpu, void *data),
					  int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn,
					    void (*cb)(unsigned int cpu, void *data),
					    int flags, void *data);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t number);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

/* The version from which on registers can be read, and what that needs. */
#define READS	3

struct qemu_plugin_register;
typedef struct {
	struct qemu_plugin_register *handle;
	const char *name;
	const char *feature;
} qemu_plugin_reg_descriptor;

/* GLib's. */
typedef struct {
	char *data;
	unsigned int len;
} GArray;
typedef struct {
	uint8_t *data;
	unsigned int len;
} GByteArray;
char *g_array_free(GArray *array, int all);
GByteArray *g_byte_array_new(void);
uint8_t *g_byte_array_free(GByteArray *array, int all);

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t id,
				       void (*cb)(qemu_plugin_id_t id, unsigned int cpu));
/* Weak: an older QEMU has none of them, or another one of that name. */
GArray *qemu_plugin_get_registers(void) __attribute__((weak));
int qemu_plugin_read_register(struct qemu_plugin_register *handle, GByteArray *bytes)
	__attribute__((weak));
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t room)
	__attribute__((weak));

#define EXPORT __attribute__((visibility("default")))

/* Map a file of zeros that the harness reads; NULL on failure. */
static inline void *make_board(const char *path, size_t size)
{
	void *map = MAP_FAILED;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	if (fd < 0)
		return NULL;
	if (!ftruncate(fd, size))
		map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return map == MAP_FAILED ? NULL : map;
}

#endif
