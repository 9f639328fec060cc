// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A part of the tracer's program, after state.bpf.c: waits on a bit, a variable, a folio or
 * a futex.
 *
 * The kernel puts such a sleeper on one of 256 wait queues, by a hash of its key: the
 * address of a word (or a folio), and the number of a bit (-1 for a variable). Sleepers with
 * other keys share that queue. Here each key is a queue of its own, with an address that is
 * made from the key: its top bit is clear, as in no address of the kernel.
 */

/* The key in struct wait_bit_key and struct wait_page_key. */
enum { KEY_WORD = 0, KEY_BIT = 8 };
/* The distance from a key to the sleeper's entry, after it in the same structure. */
enum { BIT_TO_ENTRY = 24, FOLIO_TO_ENTRY = 16 };
enum { BIT_MASK = 0x7f, BIT_WIDTH = 7, VARIABLE = -1 };
#define KEY_CLEAR (1ULL << 63)
/* Variables of the kernel and of modules are above, all other memory is below. */
#define VARIABLES_BEGIN 0xffffffff80000000ULL

static __always_inline int is_key(u64 address)
{
	return !(address & KEY_CLEAR);
}

static __always_inline u64 address_of_key(u64 word, u32 bit)
{
	return (word << BIT_WIDTH | (bit & BIT_MASK)) & ~KEY_CLEAR;
}

static __always_inline u64 key_at(u64 place)
{
	return address_of_key(load64(place + KEY_WORD), load32(place + KEY_BIT));
}

/* The memory that a queue's sleepers wait for: the word of its key, or the queue. */
static __always_inline u64 memory_of(u64 address)
{
	if (is_key(address))
		return (s64)(address | KEY_CLEAR) >> BIT_WIDTH;
	return address;
}

/* Memory that is freed sooner or later, so that there is no limit to such keys. */
static __always_inline int short_lived(u64 address)
{
	return is_key(address) && memory_of(address) < VARIABLES_BEGIN;
}

/* Waits for a bit and for a folio make their entries later; the thread's id takes its place. */
static __always_inline u64 entry_of_thread(u32 tid, u8 kind)
{
	return (u64)kind << 32 | tid;
}

/* Does the entry belong to a wait on a bit or on a variable? */
static __always_inline int waits_for_bit(u64 entry)
{
	u64 function = load64(entry + ENTRY_FUNCTION);

	return function && (function == WAKE_BIT || function == WAKE_VARIABLE);
}

static __always_inline int has_bit_entry(struct regs *ctx)
{
	return IN(ctx, WAIT_ON_BIT) || IN(ctx, WAIT_ON_BIT_LOCK);
}

static __always_inline int has_bit(struct regs *ctx)
{
	return IN(ctx, OUT_OF_LINE) || IN(ctx, OUT_OF_LINE_TIMEOUT) ||
	       IN(ctx, OUT_OF_LINE_LOCK);
}

/* Their common part has no probe: it is an inline function. */
static __always_inline int waits_for_folio(struct regs *ctx)
{
	return IN(ctx, FOLIO_BIT) || IN(ctx, FOLIO_BIT_KILLABLE) || IN(ctx, FOLIO_LOCK) ||
	       IN(ctx, FOLIO_LOCK_KILLABLE) || IN(ctx, FOLIO_PUT);
}

static __always_inline u32 folio_bit(struct regs *ctx)
{
	return IN(ctx, FOLIO_BIT) || IN(ctx, FOLIO_BIT_KILLABLE) ? ctx->si : 0;
}

/* The kind of the sleepers on a wait queue that are woken by their key; 0: of any other. */
static __always_inline u8 kind_of_table(u64 queue)
{
	if (queue - BIT_TABLE < BIT_TABLE_SIZE)
		return KIND_BIT;
	return queue - FOLIO_TABLE < FOLIO_TABLE_SIZE ? KIND_FOLIO : 0;
}

/* The kernel's hash of a key, which selects a wait queue of the table. */
static __always_inline u64 bit_queue(u64 word, u32 bit)
{
	u64 value = bit == (u32)VARIABLE ? word : word << 6 | bit;

	return BIT_TABLE + (value * 0x61c8864680b583ebULL >> 56) * QUEUE_BYTES;
}

/* The number of threads on a wait queue that wait for a key. */
static __always_inline u32 count_keyed(u64 queue, u64 key, u8 kind)
{
	u64 head = queue + QUEUE_LIST, node = load64(head);
	u64 back = ENTRY_LIST + (kind == KIND_BIT ? BIT_TO_ENTRY : FOLIO_TO_ENTRY);
	u32 n = 0;

#pragma clang loop unroll(disable)
	for (int i = 0; i < LIST_LIMIT; i++) {
		if (!node || node == head)
			break;
		n += key_at(node - back) == key;
		node = load64(node);
	}
	return n;
}

static __always_inline int is_call_for(struct call *call, u64 key)
{
	return call->address == key && call->tid == (u32)bpf_get_current_pid_tgid() &&
	       call->context == context_below(BREAKPOINT);
}

/*
 * wake_up_bit() and wake_up_var() call the kernel's wake function only if the wait queue has
 * an entry. So the call is noted at their begin, and __wake_up_common() is a part of it.
 */
static __always_inline struct call *noted_call(struct cpu *c, u64 key)
{
	struct call *call = is_call_for(&c->call, key) ? &c->call : &c->outer;

	if (!c->noted || !is_call_for(call, key))
		return NULL;
	c->noted = 0;
	return call;
}

/*
 * A futex is known by its process and its address there. The queue's address is made of
 * both, and the futex's own address is kept as the queue's site. A futex in a shared file
 * has other addresses in other processes, so it is left out.
 */
enum { FUTEX_ADDRESS = 8, FUTEX_OFFSET = 16, FUTEX_OF_FILE = 1, FUTEX_FLAGS = 3 };
/* FLAGS_SHARED before 6.7 and since; the other meaning of bit 0 is a size that is refused. */
enum { FUTEX_SHARED = 0x11 };
enum { FUTEX_PROCESS_BITS = 22 };
#define FUTEX_WORD_MASK ((1ULL << 40) - 1)

static __always_inline u64 address_of_futex(u64 address, u32 tgid)
{
	u64 word = (address >> 2 ^ address >> 42) & FUTEX_WORD_MASK;

	return word << FUTEX_PROCESS_BITS | tgid;
}

static __always_inline int waits_for_futex(struct regs *ctx)
{
	return IN(ctx, FUTEX_QUEUE) || IN(ctx, FUTEX_DO);
}

/* The threads on a futex that no call has woken yet. */
static __always_inline u32 count_on_futex(struct queue *q)
{
	return q->depth > q->awake ? q->depth - q->awake : 0;
}
