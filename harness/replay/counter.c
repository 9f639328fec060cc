// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A plugin for QEMU's TCG that counts how often a guest executes an instruction, the first one
 * of a function.
 *
 *	argument	meaning
 *	board=FILE	shared with the harness, see struct board
 *	address=HEX	of the instruction
 *	near=N		from the Nth one on each takes 50 ms, so that the guest can be stopped
 *			soon after it; 0: never
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tcg_plugin.h"

EXPORT int qemu_plugin_version = INTERFACE;

/* As harness/replay/counter.py reads and writes it. */
struct board {
	uint64_t calls;
	uint64_t stopped;	/* the harness has what it wanted: the guest is fast again */
};

static struct board *board;
static uint64_t address;
static uint64_t near;

/* A replay has one CPU. */
static void called(unsigned int cpu, void *data)
{
	static const struct timespec nap = { .tv_nsec = 50000000 };
	uint64_t calls = board->calls + 1;

	(void)cpu;
	(void)data;
	__atomic_store_n(&board->calls, calls, __ATOMIC_RELAXED);
	if (near && calls >= near && !__atomic_load_n(&board->stopped, __ATOMIC_RELAXED))
		nanosleep(&nap, NULL);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_vaddr(insn) == address)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, called,
							       QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
			       char **argv)
{
	int i;

	for (i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "board=", 6))
			board = make_board(argv[i] + 6, sizeof(*board));
		else if (!strncmp(argv[i], "address=", 8))
			address = strtoull(argv[i] + 8, NULL, 16);
		else if (!strncmp(argv[i], "near=", 5))
			near = strtoull(argv[i] + 5, NULL, 10);
	}
	if (!board || !address || strcmp(info->target_name, "x86_64")) {
		fprintf(stderr, "kfabric: the plugin has no board or no address, or no x86-64 guest\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
