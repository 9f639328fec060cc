// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Interleavings drawn at random, and one that is given.
 *
 * MODE_RANDOM draws each step.  MODE_PCT (Burckhardt and others, ASPLOS 2010)
 * gives processes random priorities, and lowers that of the running one at a few
 * random steps.  Each execution has its own generator, seeded by the seed and
 * the execution's number.
 *
 * A schedule is a list of process numbers: "0x3,1" is process 0 three times, then
 * process 1; "1=2" is a step of process 1 that chooses 2.  In front, "u" says that
 * unlocks are steps, and "r404040" that the execution goes on past data races at this
 * address, where plain accesses are steps.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define MAX_CHANGES	16

struct turn {
	uint8_t process;
	uint16_t choice;
};

static ENGINE_STATE uint64_t state;
static ENGINE_STATE int priority[MAX_PROCESSES];
static ENGINE_STATE int changes[MAX_CHANGES];
static ENGINE_STATE int nchanges;
static ENGINE_STATE struct turn *turns;
static ENGINE_STATE int nturns;

/* splitmix64 */
static uint64_t draw(void)
{
	uint64_t z = state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

void sample_reset(void)
{
	int length = engine.deepest ? engine.deepest : 64;

	state = engine.options.seed * 0x2545f4914f6cdd1dULL + engine.executed;
	if (engine.options.mode != MODE_PCT)
		return;
	for (int i = 0; i < MAX_PROCESSES; i++)
		priority[i] = MAX_CHANGES + draw() % (1 << 20);
	nchanges = engine.options.bound < MAX_CHANGES ? engine.options.bound : MAX_CHANGES;
	for (int i = 0; i < nchanges; i++)
		changes[i] = draw() % length;
}

static int draw_process(set_t enabled)
{
	int n = draw() % __builtin_popcountll(enabled);

	while (n--)
		enabled &= enabled - 1;
	return FIRST(enabled);
}

static int highest_priority(set_t enabled)
{
	int best = FIRST(enabled);

	for (int i = 0; i < nchanges; i++)
		if (changes[i] == engine.depth && engine.depth)
			priority[engine.step[engine.depth - 1].process] = i;
	for (set_t s = enabled; s; s &= s - 1)
		if (priority[FIRST(s)] > priority[best])
			best = FIRST(s);
	return best;
}

static int given_process(set_t enabled)
{
	int process;

	if (engine.depth < nturns)
		process = turns[engine.depth].process;
	else
		process = enabled & BIT(engine.last) && engine.last >= 0 ? engine.last :
			  FIRST(enabled);
	if (enabled & BIT(process))
		return process;
	fprintf(stderr, "prove: the schedule does not fit: process %d cannot run at step %d\n",
		process, engine.depth);
	exit(2);
}

int sample_process(set_t enabled)
{
	struct step *s = &engine.step[engine.depth];

	if (!enabled)
		return -1;
	s->enabled = enabled;
	s->choice = 0;
	switch (engine.options.mode) {
	case MODE_RANDOM:
		return draw_process(enabled);
	case MODE_PCT:
		return highest_priority(enabled);
	default:
		s->choice = engine.depth < nturns ? turns[engine.depth].choice : 0;
		return given_process(enabled);
	}
}

int sample_value(int choices)
{
	struct step *s = &engine.step[engine.depth - 1];

	if (engine.options.mode != MODE_REPLAY)
		s->choice = draw() % choices;
	return s->choice;
}

/* One part of a schedule; false if it is none. */
static bool parse_turns(char *part)
{
	char *end;
	unsigned long process = strtoul(part, &end, 10), choice = 0, times = 1;

	if (!nturns && !strcmp(part, "u")) {
		engine.unlocks_are_steps = true;
		return true;
	}
	if (!nturns && *part == 'r') {
		learn_race(strtoul(part + 1, &end, 16));
		engine.options.past_races = true;
		return end > part + 1 && !*end;
	}
	if (end == part || process >= MAX_PROCESSES)
		return false;
	if (*end == 'x')
		times = strtoul(end + 1, &end, 10);
	else if (*end == '=')
		choice = strtoul(end + 1, &end, 10);
	if (*end || !times || nturns + times > MAX_STEPS)
		return false;
	while (times--)
		turns[nturns++] = (struct turn){ .process = process, .choice = choice };
	return true;
}

static void make_turns(void)
{
	turns = calloc(MAX_STEPS, sizeof(*turns));
	if (!turns)
		abort();
	nturns = 0;
}

bool replay_parse(const char *schedule)
{
	char *copy = strdup(schedule), *save = NULL;
	bool good = true;

	make_turns();
	for (char *part = strtok_r(copy, ",", &save); part && good;
	     part = strtok_r(NULL, ",", &save))
		good = parse_turns(part);
	free(copy);
	return good;
}

/* The next execution will be what the last one was. */
void replay_recorded(void)
{
	make_turns();
	for (int i = 0; i < engine.depth; i++)
		turns[nturns++] = (struct turn){
			.process = engine.step[i].process, .choice = engine.step[i].choice,
		};
	engine.options.mode = MODE_REPLAY;
}

void print_schedule(FILE *out)
{
	print_races(out);
	fprintf(out, engine.unlocks_are_steps ? "u," : "");
	for (int i = 0; i < engine.depth;) {
		const struct step *s = &engine.step[i];
		int from = i++;

		fprintf(out, "%s%d", from ? "," : "", s->process);
		if (s->op.choices) {
			if (s->choice)
				fprintf(out, "=%d", s->choice);
			continue;
		}
		while (i < engine.depth && engine.step[i].process == s->process &&
		       !engine.step[i].op.choices)
			i++;
		if (i - from > 1)
			fprintf(out, "x%d", i - from);
	}
}
