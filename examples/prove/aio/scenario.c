// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * One reader wants two events; the device completes them one after the other.
 */
#include <prove.h>

#include "events.h"

static struct events events;

static bool something_ready(void)
{
	return events.ready > 0;
}

static void setup(void)
{
	events_init(&events);
	prove_ready(something_ready);
}

static void reader(void)
{
	events_read(&events, 2);
}

static void device(void)
{
	events_complete(&events);
	events_complete(&events);
}

static void finish(void)
{
	prove_check(events.ready == 0, "the reader took both events");
}

PROVE_SCENARIO(events_for_two, .says = "one reader wants two events, the device completes two",
	       .setup = setup, .finish = finish,
	       .threads = { { "reader", reader }, { "device", device, PROVE_IRQ } });
