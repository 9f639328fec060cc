// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A plugin for QEMU's TCG that holds virtual CPUs at points of a guest's modules.
 *
 * A point is the beginning of a translated block of code, about a basic block: what happens
 * between two calls or jumps. The guest decides which points hold a CPU, how often and for how
 * long. It writes that to the board, a file that both use, when it has loaded a module. The
 * plugin counts there what it did.
 *
 * No CPU is held for more than half of any WINDOW_NS, or of a longest hold, and every hold ends
 * soon, since QEMU may wait for all CPUs to leave the guest's code.
 *
 * The board is read without a lock. The end of a module's code is written after everything that
 * concerns it, and is 0 while the rest changes.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "tcg_plugin.h"

EXPORT int qemu_plugin_version = INTERFACE;

/* Where x86-64 kernels load modules; those that are built with KASLR begin later. */
#define MODULES_BEGIN 0xffffffffa0000000ULL
#define MODULES_END 0xffffffffff000000ULL

#define WINDOW_NS 50000000ULL
#define MODULES 16
#define POINTS (1U << 22)	/* bytes of code of all modules */

struct module {
	char name[56];
	uint64_t first;		/* the number of its first point */
	uint64_t points;
	uint64_t begin;
	uint64_t end;
};

struct point {
	uint32_t visits;
	uint32_t holds;
	uint64_t held_ns;
};

/* As harness/steer/board.py writes and reads it. */
struct board {
	uint64_t seed;
	uint64_t one_visit_of;		/* that many holds a CPU */
	uint64_t longest_ns;
	struct module modules[MODULES];
	uint8_t chosen[POINTS / 8];	/* one bit for each point: does it hold CPUs? */
	struct point points[POINTS];
};

static struct board *board;

/* Of a virtual CPU, each of which has a thread of QEMU's. */
static __thread uint64_t state;
static __thread uint64_t window_ns;	/* when the present window began */
static __thread uint64_t held_ns;	/* in it */

/* splitmix64, by Sebastiano Vigna, in the public domain. */
static uint64_t mix(uint64_t z)
{
	z += 0x9e3779b97f4a7c15ULL;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static uint64_t draw(unsigned int cpu)
{
	if (!state)
		state = mix(board->seed ^ (cpu + 1ULL) << 32);
	state = mix(state);
	return state;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static void hold(unsigned int cpu, struct point *point)
{
	uint64_t begin = now_ns(), took;
	struct timespec nap = { .tv_nsec = draw(cpu) % board->longest_ns };

	if (begin - window_ns > WINDOW_NS) {
		window_ns = begin;
		held_ns = 0;
	}
	if (held_ns > (begin - window_ns) / 2 + board->longest_ns)
		return;
	nanosleep(&nap, NULL);
	took = now_ns() - begin;
	held_ns += took;
	__atomic_add_fetch(&point->holds, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&point->held_ns, took, __ATOMIC_RELAXED);
}

static const struct module *module_of(uint64_t pc)
{
	const struct module *module;

	for (module = board->modules; module < board->modules + MODULES && *module->name;
	     module++)
		if (pc < __atomic_load_n(&module->end, __ATOMIC_ACQUIRE) && pc >= module->begin)
			return module;
	return NULL;
}

/* A CPU is about to execute the block at @data. */
static void passes(unsigned int cpu, void *data)
{
	uint64_t pc = (uintptr_t)data;
	const struct module *module = module_of(pc);
	uint64_t index;

	if (!module)
		return;
	index = module->first + (pc - module->begin);
	if (index >= POINTS)
		return;
	__atomic_add_fetch(&board->points[index].visits, 1, __ATOMIC_RELAXED);
	if (board->chosen[index / 8] >> index % 8 & 1 && draw(cpu) % board->one_visit_of == 0)
		hold(cpu, &board->points[index]);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	uint64_t pc = qemu_plugin_tb_vaddr(tb);

	(void)id;
	if (pc >= MODULES_BEGIN && pc < MODULES_END)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, passes, QEMU_PLUGIN_CB_NO_REGS,
						     (void *)(uintptr_t)pc);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
			       char **argv)
{
	if (argc == 1 && !strncmp(argv[0], "board=", 6))
		board = make_board(argv[0] + 6, sizeof(*board));
	if (!board || strcmp(info->target_name, "x86_64")) {
		fprintf(stderr, "kfabric: the plugin has no board, or no x86-64 guest\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
