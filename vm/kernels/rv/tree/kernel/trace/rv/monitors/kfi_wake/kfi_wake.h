/* SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause */
/*
 * Automatically generated C representation of kfi_wake automaton
 * For further information about this format, see kernel documentation:
 *   Documentation/trace/rv/deterministic_automata.rst
 */

enum states_kfi_wake {
	quiet_kfi_wake = 0,
	waking_kfi_wake,
	state_max_kfi_wake
};

#define INVALID_STATE state_max_kfi_wake

enum events_kfi_wake {
	leave_kfi_wake = 0,
	publish_kfi_wake,
	publish_none_kfi_wake,
	wake_kfi_wake,
	event_max_kfi_wake
};

struct automaton_kfi_wake {
	char *state_names[state_max_kfi_wake];
	char *event_names[event_max_kfi_wake];
	unsigned char function[state_max_kfi_wake][event_max_kfi_wake];
	unsigned char initial_state;
	bool final_states[state_max_kfi_wake];
};

static struct automaton_kfi_wake automaton_kfi_wake = {
	.state_names = {
		"quiet",
		"waking"
	},
	.event_names = {
		"leave",
		"publish",
		"publish_none",
		"wake"
	},
	.function = {
		{         quiet_kfi_wake,        waking_kfi_wake,         quiet_kfi_wake,          INVALID_STATE },
		{         quiet_kfi_wake,        waking_kfi_wake,         quiet_kfi_wake,        waking_kfi_wake },
	},
	.initial_state = quiet_kfi_wake,
	.final_states = { 1, 0 },
};
