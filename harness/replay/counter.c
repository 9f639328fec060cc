// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A plugin for QEMU's TCG that counts how often a guest executes an instruction, the first one
 * of a function. It may also tell which of the calls returned a value, or how often another
 * instruction was executed before one of the calls.
 *
 *	argument	meaning
 *	board=FILE	shared with the harness, see struct board
 *	address=HEX	of the instruction
 *	near=N		from the Nth one on each takes 50 ms, so that the guest can be stopped
 *			soon after it; 0: never
 *	value=N		what a call returns; 0: none is looked for
 *	end=HEX		of the function that returns it
 *	other=HEX	of the other instruction; 0: there is none
 *	at=N		the call before which it is counted
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
	uint64_t returned;	/* the first call that returned the value; 0: none */
	uint64_t others;	/* how often the other one came before the call */
};

/* Calls in progress: an interrupt may come in each of them, and calls the function, too. */
#define DEPTH	8

struct call {
	uint64_t stack;		/* the stack pointer, on which the return address is */
	uint64_t number;
};

static struct board *board;
static uint64_t address, end;
static uint64_t near;
static uint64_t value;
static uint64_t other, at, others;
static struct qemu_plugin_register *result, *stack;
static struct call in_progress[DEPTH];

/* A replay has one CPU. */
static void begun(qemu_plugin_id_t id, unsigned int cpu)
{
	GArray *known = qemu_plugin_get_registers();
	const qemu_plugin_reg_descriptor *one = (void *)known->data;
	unsigned int i;

	(void)id;
	(void)cpu;
	for (i = 0; i < known->len; i++) {
		if (!strcmp(one[i].name, "rax"))
			result = one[i].handle;
		else if (!strcmp(one[i].name, "rsp"))
			stack = one[i].handle;
	}
	g_array_free(known, 1);
}

static uint64_t contents(struct qemu_plugin_register *reg)
{
	GByteArray *bytes = g_byte_array_new();
	uint64_t number = 0;

	if (reg && qemu_plugin_read_register(reg, bytes) == sizeof(number))
		memcpy(&number, bytes->data, sizeof(number));
	g_byte_array_free(bytes, 1);
	return number;
}

/* A call is over once the stack is above it. */
static void note(uint64_t number)
{
	struct call call = { .stack = contents(stack), .number = number };
	int i = 0;

	while (i < DEPTH - 1 && in_progress[i].stack > call.stack)
		i++;
	in_progress[i++] = call;
	while (i < DEPTH)
		in_progress[i++].stack = 0;
}

static void called(unsigned int cpu, void *data)
{
	static const struct timespec nap = { .tv_nsec = 50000000 };
	uint64_t calls = board->calls + 1;

	(void)cpu;
	(void)data;
	__atomic_store_n(&board->calls, calls, __ATOMIC_RELAXED);
	if (value)
		note(calls);
	if (calls == at)
		board->others = others;
	if (near && calls >= near && !__atomic_load_n(&board->stopped, __ATOMIC_RELAXED))
		nanosleep(&nap, NULL);
}

static void other_called(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	others++;
}

static void returns(unsigned int cpu, void *data)
{
	uint64_t above;
	int i;

	(void)cpu;
	(void)data;
	if (board->returned || contents(result) != value)
		return;
	above = contents(stack);
	for (i = 0; i < DEPTH; i++)
		if (above && in_progress[i].stack == above)
			board->returned = in_progress[i].number;
}

/* ret, or a jump out of the function: to another one, or to the thunk that returns. */
static bool leaves(const struct qemu_plugin_insn *insn)
{
	uint64_t at = qemu_plugin_insn_vaddr(insn);
	unsigned char code[5];
	int32_t far;

	if (at < address || at >= end)
		return false;
	if (qemu_plugin_insn_data(insn, code, sizeof(code)) == 1)
		return code[0] == 0xc3;
	if (code[0] != 0xe9)
		return false;
	memcpy(&far, code + 1, sizeof(far));
	at += sizeof(code) + far;
	return at < address || at >= end;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	const int access = value ? QEMU_PLUGIN_CB_R_REGS : QEMU_PLUGIN_CB_NO_REGS;
	size_t i, n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		if (qemu_plugin_insn_vaddr(insn) == address)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, called, access, NULL);
		if (other && qemu_plugin_insn_vaddr(insn) == other)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, other_called, access, NULL);
		if (value && leaves(insn))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, returns, access, NULL);
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
		else if (!strncmp(argv[i], "value=", 6))
			value = strtoull(argv[i] + 6, NULL, 10);
		else if (!strncmp(argv[i], "end=", 4))
			end = strtoull(argv[i] + 4, NULL, 16);
		else if (!strncmp(argv[i], "other=", 6))
			other = strtoull(argv[i] + 6, NULL, 16);
		else if (!strncmp(argv[i], "at=", 3))
			at = strtoull(argv[i] + 3, NULL, 10);
	}
	if (!board || !address || strcmp(info->target_name, "x86_64")) {
		fprintf(stderr, "kfabric: the plugin has no board or no address, or no x86-64 guest\n");
		return -1;
	}
	if (value && info->version.cur < READS) {
		fprintf(stderr, "kfabric: this QEMU lets no plugin read registers\n");
		return -1;
	}
	if (value)
		qemu_plugin_register_vcpu_init_cb(id, begun);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
