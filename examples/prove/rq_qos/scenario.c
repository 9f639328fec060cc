// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * One slot, taken at the start. Two callers want it, its request ends.
 */
#include <prove.h>

#include "throttle.h"

static struct throttle throttle;

static void setup(void)
{
	throttle_init(&throttle, 1);
	throttle_enter(&throttle);
}

static void caller(void)
{
	throttle_enter(&throttle);
	throttle_leave(&throttle);
}

static void holder(void)
{
	throttle_leave(&throttle);
}

static void finish(void)
{
	prove_check(atomic_read(&throttle.inflight) == 0, "every slot is free again");
}

PROVE_SCENARIO(throttle_two_callers, .says = "two callers enter while the only slot becomes free",
	       .setup = setup, .finish = finish,
	       .threads = { { "first", caller }, { "second", caller }, { "holder", holder } });
