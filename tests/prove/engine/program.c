// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * A scenario whose threads run programs from the environment variable PROGRAM, to
 * compare modes: each execution's final state is a record.
 *
 * Threads are separated by "|".  An instruction is three characters: a letter, the
 * variable or lock (0 or 1), and a value.
 */
#include <stdlib.h>
#include <string.h>

#include "marked.h"

#define THREADS	4
#define LENGTH	16

static char program[THREADS][3 * LENGTH + 1];
static int variable[2], lock[2];
static const char *const names[THREADS] = { "a", "b", "c", "d" };
static unsigned char result[THREADS][LENGTH], ended[THREADS];

static const struct pv_class *const classes[] = { &class_a, &class_b };

static UNCHECKED void set_bits(int *p, int bits)
{
	pv_update(p, sizeof(*p), PV_RELAXED);
	*(volatile int *)p |= bits;
}

static void child(void *arg)
{
	WRITE(*(int *)arg, 3);
}

/* References to a variable: taken, dropped, and ended if there is one. */
static UNCHECKED int take(int *p)
{
	pv_add(p, sizeof(*p), 1, PV_FULL);
	if (*(volatile int *)p)
		return ++*(volatile int *)p > 0;
	return 0;
}

static UNCHECKED int drop(int *p)
{
	pv_add(p, sizeof(*p), -1, PV_FULL);
	return --*(volatile int *)p <= 0;
}

static UNCHECKED int end(int *p)
{
	pv_update(p, sizeof(*p), PV_FULL);
	if (*(volatile int *)p != 1)
		return 0;
	*(volatile int *)p = 0;
	return 1;
}

static int try_section(int which, int value)
{
	if (!pv_trylock(&lock[which], classes[which], 0))
		return 0;
	WRITE(variable[which], value);
	pv_unlock(&lock[which]);
	return 1;
}

/* Instructions that only act; false if it is none of them. */
static int act(char letter, int which, int value)
{
	int *p = &variable[which];

	if (letter == 'W')
		WRITE(*p, value);
	else if (letter == 'Q')
		WRITE_RELEASE(*p, value);
	else if (letter == 'H')
		pv_store(p, value, 2, PV_RELAXED);
	else if (letter == 'J')
		pv_store((char *)p + 2, value, 2, PV_RELAXED);
	else if (letter == 'U')
		set_bits(p, value);
	else if (letter == 'D')
		pv_fence(PV_FENCE_READ);
	else if (letter == 'B')
		BARRIER();
	else if (letter == 'F')
		pv_fence(PV_FENCE_WRITE);
	else if (letter == 'L')
		pv_lock(&lock[which], classes[which], 0);
	else if (letter == 'K')
		pv_unlock(&lock[which]);
	else if (letter == 'S')
		wait_for(p);
	else if (letter == 'E')
		prove_check(READ(*p) != value, "the value");
	else if (letter == 'P')
		pv_spawn("child", child, p, 0, 0, 0);
	else
		return 0;
	return 1;
}

/* Returns what the instruction has seen. */
static int run(char letter, int which, int value)
{
	if (act(letter, which, value))
		return 0;
	switch (letter) {
	case 'R':
		return READ(variable[which]);
	case 'G':
		return READ_ACQUIRE(variable[which]);
	case 'A':
		return add(&variable[which], value);
	case 'T':
		return try_section(which, value);
	case 'C':
		return prove_choose(2);
	case 'X':
		return take(&variable[which]);
	case 'Y':
		return drop(&variable[which]);
	case 'Z':
		return end(&variable[which]);
	}
	prove_failed("no such instruction");
	return 0;
}

/* "I" skips the next instruction unless the last result is 0. */
static void interpret(void *own)
{
	const char *at = own;
	int me = (at - program[0]) / sizeof(program[0]), last = 0;

	for (int i = 0; *at; at += 3, i++) {
		if (*at == 'I') {
			if (last)
				at += 3;
			continue;
		}
		last = run(at[0], at[1] - '0', at[2] - '0');
		result[me][i] = last;
	}
	ended[me] = 1;
}

/* "X" and "Y" are about a count of references, which begins with one. */
static void declare_counts(const char *text)
{
	for (; text && (text = strpbrk(text, "XY")); text++) {
		int *p = &variable[text[1] - '0'];

		if (!*p)
			prove_references(p);
		*p = 1;
	}
}

static void setup(void)
{
	const char *text = getenv("PROGRAM");

	declare_counts(text);
	for (int i = 0; text && *text && i < THREADS; i++) {
		size_t length = strcspn(text, "|");

		memcpy(program[i], text, length < 3 * LENGTH ? length : 3 * LENGTH);
		text += length + (text[length] == '|');
		pv_spawn(names[i], interpret, program[i], PROVE_STAYS, 0, 0);
	}
}

struct final {
	char text[THREADS * (LENGTH + 2) + 8];
};

static const struct pv_field final_fields[] = {
	{ "text", 0, sizeof(struct final), PV_STRING },
};
static const struct pv_event_type final_type = { "final", sizeof(struct final), 1, final_fields };

static UNCHECKED void finish(void)
{
	struct final f = { "" };
	char *at = f.text;

	*at++ = 'a' + variable[0];
	*at++ = 'a' + variable[1];
	for (int i = 0; i < THREADS && program[i][0]; i++) {
		*at++ = ended[i] ? '.' : '!';
		for (unsigned int j = 0; j < strlen(program[i]) / 3; j++)
			*at++ = 'a' + result[i][j];
	}
	pv_event(&final_type, &f);
}

PROVE_SCENARIO(program, .setup = setup, .finish = finish);
