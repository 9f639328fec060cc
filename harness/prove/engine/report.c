// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * What is printed: lines of JSON on standard output.
 *
 * Steps are printed only when an execution is played again for its trace.
 */
#include <stdarg.h>
#include <string.h>

#include "internal.h"
#include "layout.h"
#include "switch.h"

#define MAX_NAMES	256
#define MAX_FRAMES	24

static const char *const finding_names[] = {
	[PV_ASLEEP] = "asleep",
	[PV_ASLEEP_READY] = "asleep-beside-ready",
	[PV_DEADLOCK] = "deadlock",
	[PV_CHECK] = "check",
	[PV_RACE] = "race",
	[PV_USE_AFTER_FREE] = "use-after-free",
	[PV_OUT_OF_BOUNDS] = "out-of-bounds",
	[PV_DOUBLE_FREE] = "double-free",
	[PV_BAD_FREE] = "bad-free",
	[PV_LEAK] = "leak",
	[PV_DEAD_STACK] = "dead-stack",
	[PV_LOCK_ORDER] = "lock-order",
	[PV_SELF_LOCK] = "self-lock",
	[PV_NOT_HELD] = "not-held",
	[PV_HELD_AT_END] = "held-at-end",
	[PV_ATOMIC_SLEEP] = "atomic-sleep",
	[PV_IRQ_UNSAFE] = "irq-unsafe",
	[PV_WARN] = "warn",
	[PV_BUG] = "bug",
	[PV_CRASH] = "crash",
	[PV_STEPS] = "steps",
	[PV_LIMIT] = "limit",
};

static const char *const kind_names[] = {
	[OP_START] = "start", [OP_READ] = "read", [OP_WRITE] = "write",
	[OP_UPDATE] = "update", [OP_FENCE] = "fence", [OP_LOCK] = "lock",
	[OP_TRYLOCK] = "trylock", [OP_UNLOCK] = "unlock", [OP_SLEEP] = "sleep",
	[OP_CHOICE] = "choice", [OP_HOOK] = "hook", [OP_DRAIN] = "drain",
	[OP_WAKE] = "wake", [OP_ALLOC] = "alloc", [OP_FREE] = "free",
	[OP_EVENT] = "event", [OP_END] = "end", [OP_UNLOCKED] = "unlocked",
	[OP_PLAIN_READ] = "plain-read", [OP_PLAIN_WRITE] = "plain-write",
	[OP_RACE] = "race",
};

static const char *const mode_names[] = {
	[MODE_DPOR] = "dpor", [MODE_BOUND] = "bound", [MODE_ENUMERATE] = "enumerate",
	[MODE_RANDOM] = "random", [MODE_PCT] = "pct", [MODE_REPLAY] = "replay",
};

static const char *const memory_names[] = {
	[MEMORY_SC] = "sc", [MEMORY_TSO] = "tso", [MEMORY_PSO] = "pso",
	[MEMORY_WEAK] = "weak",
};

/* What an object is part of: an allocation, a frame of a stack, or neither. */
struct part {
	const void *start;		/* of the allocation; the end of the frame */
	unsigned long size;		/* of the allocation; 0: a frame */
	const void *place;		/* of the allocation; in the function of the frame */
};

struct row {
	bool pending;
	int n;
	int thread;
	enum kind kind;
	const void *object;
	struct part part;
	const char *text;
	unsigned long size;		/* of a plain access */
	bool has_value;
	bool writes;			/* a plain write, after this row */
	uint64_t value;
	bool older;			/* a read of a store that is not the newest */
	uint64_t newest;
	const void *place;
	int frames;
	const void *stack[MAX_FRAMES];
};

static ENGINE_STATE struct row row;
static ENGINE_STATE struct {
	const void *object;
	const char *name;
} names[MAX_NAMES];
static ENGINE_STATE int nnames;
static ENGINE_STATE const void *finding_stack[MAX_FRAMES];
static ENGINE_STATE int finding_frames;
/* What a race is about, as it was then. */
static ENGINE_STATE struct {
	const void *object;
	struct part part;
	char name[128];
} raced;

/* The frame that an address in a thread's stack is in, by frame pointers. */
static struct part find_frame(int thread, const void *p)
{
	void **frame = thread == world.running ? __builtin_frame_address(0) :
		       pv_saved_frame(world.thread[thread].sp);
	uintptr_t low, high;

	thread_stack(thread, &low, &high);
	while ((uintptr_t)frame >= low && (uintptr_t)frame < high - 16 && frame[1]) {
		void **caller = frame[0];
		void *end = pv_end_of_frame(caller);

		if (caller <= frame || !end)
			break;
		if (p < end)
			return (struct part){ .start = end, .place = frame[1] };
		frame = caller;
	}
	return (struct part){ 0 };
}

static struct part find_part(const void *object)
{
	int owner = stack_owner((uintptr_t)object);
	struct part part = { 0 };

	part.start = heap_block(object, &part.size, &part.place);
	if (part.start || owner < 0 || owner >= world.nthreads)
		return part;
	if (owner != world.running && stack_is_dead(owner, (uintptr_t)object))
		return part;
	return find_frame(owner, object);
}

/*
 * Return addresses, by frame pointers, as far as the running thread's stack goes.
 * A signal handler's frames, on another stack, are passed over.
 */
static int walk_stack(const void **stack)
{
	void **frame = __builtin_frame_address(0);
	uintptr_t low, high;
	int n = 0;

	if (world.running < 0)
		return 0;
	thread_stack(world.running, &low, &high);
	for (int i = 0; i < 4 && ((uintptr_t)frame < low || (uintptr_t)frame >= high); i++)
		frame = frame[0];
	while ((uintptr_t)frame >= low && (uintptr_t)frame < high - 16 && frame[1] &&
	       n < MAX_FRAMES) {
		stack[n++] = frame[1];
		if ((void **)frame[0] <= frame)
			break;
		frame = frame[0];
	}
	return n;
}

void pv_fail(enum pv_finding kind, const char *format, ...)
{
	va_list args;

	if (!engine.finding) {
		engine.finding = kind;
		if (kind == PV_WARN || kind == PV_BUG)
			engine.place = PLACE;
		finding_frames = walk_stack(finding_stack);
		if (world.running >= 0)
			engine.finder = world.running;
		if (kind != PV_RACE)
			raced.object = NULL;
		if (kind == PV_CRASH && row.size)	/* of the access in the last row */
			row.has_value = row.writes = false;
		va_start(args, format);
		vsnprintf(engine.text, sizeof(engine.text), format, args);
		va_end(args);
	}
	leave();
}

static void print_string(const char *s)
{
	putchar('"');
	for (; s && *s; s++) {
		if (*s == '"' || *s == '\\')
			printf("\\%c", *s);
		else if ((unsigned char)*s < ' ')
			printf("\\u%04x", *s);
		else
			putchar(*s);
	}
	putchar('"');
}

static void print_member(const char *key, const char *value)
{
	printf("\"%s\":", key);
	if (value)
		print_string(value);
	else
		printf("null");
	putchar(',');
}

static void print_dashed(const char *key, const char *name)
{
	printf("\"%s\":\"", key);
	for (; *name; name++)
		putchar(*name == '_' ? '-' : *name);
	printf("\",");
}

static void print_place(const char *key, const void *place)
{
	if (place)
		printf("\"%s\":\"%p\",", key, place);
	else
		print_member(key, NULL);
}

static void print_stack(const void *const *stack, int frames)
{
	printf("\"stack\":[");
	for (int i = 0; i < frames; i++)
		printf("%s\"%p\"", i ? "," : "", stack[i]);
	putchar(']');
}

static const char *thread_title(int thread)
{
	if (thread >= 0)
		return world.thread[thread].name;
	return world.alone.name;
}

void pv_name(const void *object, const char *name)
{
	for (int i = 0; i < nnames; i++)
		if (names[i].object == object) {
			names[i].name = name;
			return;
		}
	if (nnames < MAX_NAMES) {
		names[nnames].object = object;
		names[nnames++].name = name;
	}
}

static bool name_given(const void *object, char *out, size_t size)
{
	for (int i = 0; i < nnames; i++)
		if (names[i].object == object) {
			snprintf(out, size, "%s", names[i].name);
			return true;
		}
	return false;
}

static bool name_symbol(const void *object, char *out, size_t size)
{
	unsigned long offset;
	const char *name = symbol_at(object, &offset);

	if (name)
		snprintf(out, size, offset ? "%s+%lu" : "%s", name, offset);
	return name;
}

void name_object(const void *object, char *out, size_t size)
{
	int owner = stack_owner((uintptr_t)object);
	uintptr_t low, high;

	if (name_given(object, out, size) || heap_describe(object, out, size) ||
	    name_symbol(object, out, size))
		return;
	if (owner >= 0 && owner < world.nthreads) {
		thread_stack(owner, &low, &high);
		snprintf(out, size, "%s-stack-%lu", world.thread[owner].name,
			 high - (uintptr_t)object);
		return;
	}
	snprintf(out, size, "%p", object);
}

/* Where an object lies, unless it has a name. */
static void print_memory(const void *object, const struct part *part)
{
	char name[128];

	if (!object || name_given(object, name, sizeof(name)))
		return;
	printf("\"memory\":{");
	print_place("address", object);
	print_place("start", part->start);
	print_place("place", part->place);
	printf("\"size\":%lu},", part->size);
}

static void print_value(void)
{
	/* Done since, though a row comes before the next point. */
	if (row.kind == OP_UPDATE && engine.updated)
		row.value = value_at(engine.updated, engine.step[engine.depth - 1].op.size);
	if (row.writes)
		row.value = value_at(row.object, row.size);
	if (row.has_value)
		printf("\"value\":%llu,", (pv_u64)row.value);
	else
		print_member("value", NULL);
	if (row.older)
		printf("\"newest\":%llu,", (pv_u64)row.newest);
	if (row.size)
		printf("\"size\":%lu,", row.size);
}

static void print_row(void)
{
	char name[128];

	if (!row.pending)
		return;
	row.pending = false;
	printf("{\"type\":\"step\",\"n\":%d,", row.n);
	print_member("thread", thread_title(row.thread));
	print_member("op", kind_names[row.kind]);
	if (row.object)
		name_object(row.object, name, sizeof(name));
	print_member("object", row.text ? row.text : row.object ? name : NULL);
	print_memory(row.object, &row.part);
	print_value();
	print_place("place", row.place);
	print_stack(row.stack, row.frames);
	printf("}\n");
}

void trace_as(int thread, enum kind kind, const void *object, uint64_t value, const void *place)
{
	if (!engine.tracing)
		return;
	print_row();
	row.pending = true;
	row.n = engine.depth - 1;
	row.thread = thread;
	row.kind = kind;
	row.object = kind == OP_HOOK ? NULL : object;
	row.text = kind == OP_HOOK ? object : NULL;
	row.part = row.object ? find_part(row.object) : (struct part){ 0 };
	row.value = value;
	row.has_value = true;
	row.size = 0;
	row.writes = false;
	row.older = false;
	row.place = place;
	row.frames = thread == world.running ? walk_stack(row.stack) : 0;
}

void trace(enum kind kind, const void *object, uint64_t value, const void *place)
{
	if (engine.tracing)
		trace_as(world.running, kind, object, value, place);
}

static bool is_number(unsigned long size)
{
	return size == 1 || size == 2 || size == 4 || size == 8;
}

/* A plain access, which is about to be done. */
void trace_access(const volatile void *p, unsigned long size, bool write, bool marked,
		  const void *place)
{
	if (marked || world.phase != PHASE_PLAY || world.running < 0)
		return;
	trace(write ? OP_PLAIN_WRITE : OP_PLAIN_READ, (const void *)p, 0, place);
	row.size = size;
	row.has_value = is_number(size);
	row.writes = write && row.has_value;
	if (!write && row.has_value)
		row.value = value_at(p, size);
}

/* An access that races. It is not done any more, unless executions go on past races. */
void trace_race(const void *at, bool write, bool marked, const void *place)
{
	static const enum kind kinds[2][2] = {
		{ OP_PLAIN_READ, OP_PLAIN_WRITE }, { OP_READ, OP_WRITE },
	};

	if (engine.options.past_races) {
		trace(OP_RACE, at, 0, place);
		return;
	}
	raced.object = at;
	raced.part = find_part(at);
	name_object(at, raced.name, sizeof(raced.name));
	trace(kinds[marked][write], at, 0, place);
	row.has_value = false;
}

/* The last row was an update: now its result is known. */
void trace_update(uint64_t value)
{
	if (row.pending && row.kind == OP_UPDATE)
		row.value = value;
}

/* The last row was a read, under weak, of a store that is not the newest. */
void trace_older(uint64_t newest)
{
	row.older = true;
	row.newest = newest;
}

static void print_number(const struct pv_field *f, const void *at)
{
	pv_u64 value = value_at(at, f->size);

	if (f->kind == PV_SIGNED && f->size < 8 && value >> (8 * f->size - 1))
		value |= ~0ULL << 8 * f->size;
	printf(f->kind == PV_SIGNED ? "%lld" : "%llu", value);
}

static void print_field(const struct pv_field *f, const char *fields)
{
	const void *at = fields + f->offset;
	char name[128];

	printf("\"%s\":", f->name);
	switch (f->kind) {
	case PV_POINTER:
		name_object(*(void *const *)at, name, sizeof(name));
		print_string(name);
		break;
	case PV_STRING:
		snprintf(name, sizeof(name), "%.*s", f->size, (const char *)at);
		print_string(name);
		break;
	case PV_STRING_POINTER:
		print_string(*(const char *const *)at);
		break;
	default:
		print_number(f, at);
	}
}

void trace_event(const struct pv_event_type *type, const void *fields)
{
	if (!engine.tracing && !engine.recording)
		return;
	print_row();
	printf("{\"type\":\"record\",\"execution\":%ld,\"n\":%d,", engine.executed, engine.depth - 1);
	print_member("name", type->name);
	print_member("thread", thread_title(world.running));
	printf("\"fields\":{");
	for (int i = 0; i < type->count; i++) {
		if (i)
			putchar(',');
		print_field(&type->fields[i], fields);
	}
	printf("}}\n");
}

static void print_finding(void)
{
	if (!engine.finding) {
		printf("null");
		return;
	}
	putchar('{');
	print_member("kind", finding_names[engine.finding]);
	print_member("text", engine.text);
	print_member("thread", thread_title(engine.finder));
	print_place("place", engine.place);
	print_place("other_place", engine.other_place);
	print_member("object", raced.object ? raced.name : NULL);
	print_memory(raced.object, &raced.part);
	print_stack(finding_stack, finding_frames);
	putchar(',');
	printf("\"schedule\":\"");
	print_schedule(stdout);
	printf("\"}");
}

/* The trace of the finding: the same execution, played again. */
void report_trace(void)
{
	enum pv_finding found = engine.finding;
	enum mode mode = engine.options.mode;
	long steps = engine.steps;

	if (!found || !engine.executed)
		return;
	replay_recorded();
	engine.tracing = true;
	play_again();
	print_row();
	engine.tracing = false;
	engine.options.mode = mode;
	engine.steps = steps;
	if (engine.finding != found) {
		engine.finding = PV_BUG;
		snprintf(engine.text, sizeof(engine.text),
			 "the execution is another one when it is repeated: what is not put back?");
	}
}

void report_result(bool complete, const char *why_not, double seconds)
{
	const struct options *o = &engine.options;

	printf("{\"type\":\"result\",");
	print_dashed("scenario", o->scenario->name);
	print_member("mode", mode_names[o->mode]);
	print_member("memory", memory_names[o->memory]);
	printf("\"bound\":%d,\"seed\":%llu,\"executions\":%ld,\"pruned\":%ld,\"steps\":%ld,",
	       o->bound, (pv_u64)o->seed, engine.executed, engine.pruned, engine.steps);
	printf("\"depth\":%d,\"complete\":%s,", engine.deepest, complete ? "true" : "false");
	print_member("why_not", why_not);
	printf("\"seconds\":%.3f,\"finding\":", seconds);
	print_finding();
	printf("}\n");
}

void report_scenario(const struct prove_scenario *s)
{
	printf("{\"type\":\"scenario\",");
	print_dashed("name", s->name);
	print_member("says", s->says);
	print_member("rules", s->rules);
	print_member("tables", s->tables);
	printf("\"threads\":[");
	for (int i = 0; i < PROVE_MAX_THREADS && s->threads[i].name; i++) {
		printf("%s", i ? "," : "");
		print_string(s->threads[i].name);
	}
	printf("],\"bound\":%d,\"fails\":%d,", s->bound, s->fails);
	print_member("file", s->file);
	printf("\"line\":%d}\n", s->line);
}
