/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Automatically generated C representation of kfi_wait automaton
 * For further information about this format, see kernel documentation:
 *   Documentation/trace/rv/deterministic_automata.rst
 */

enum states_kfi_wait {
	outside_kfi_wait = 0,
	owed_kfi_wait,
	waiting_kfi_wait,
	woken_kfi_wait,
	state_max_kfi_wait
};

#define INVALID_STATE state_max_kfi_wait

enum events_kfi_wait {
	begin_kfi_wait = 0,
	cover_kfi_wait,
	end_kfi_wait,
	end_woken_kfi_wait,
	publish_kfi_wait,
	wake_kfi_wait,
	event_max_kfi_wait
};

struct automaton_kfi_wait {
	char *state_names[state_max_kfi_wait];
	char *event_names[event_max_kfi_wait];
	unsigned char function[state_max_kfi_wait][event_max_kfi_wait];
	unsigned char initial_state;
	bool final_states[state_max_kfi_wait];
};

static struct automaton_kfi_wait automaton_kfi_wait = {
	.state_names = {
		"outside",
		"owed",
		"waiting",
		"woken"
	},
	.event_names = {
		"begin",
		"cover",
		"end",
		"end_woken",
		"publish",
		"wake"
	},
	.function = {
		{       waiting_kfi_wait,          INVALID_STATE,          INVALID_STATE,          INVALID_STATE,          INVALID_STATE,          INVALID_STATE },
		{          INVALID_STATE,       waiting_kfi_wait,          INVALID_STATE,          INVALID_STATE,          owed_kfi_wait,         woken_kfi_wait },
		{          INVALID_STATE,          INVALID_STATE,       outside_kfi_wait,          INVALID_STATE,          owed_kfi_wait,         woken_kfi_wait },
		{          INVALID_STATE,          INVALID_STATE,       outside_kfi_wait,       outside_kfi_wait,          owed_kfi_wait,         woken_kfi_wait },
	},
	.initial_state = outside_kfi_wait,
	.final_states = { 1, 0, 0, 0 },
};
