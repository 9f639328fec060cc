// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Two readers with different levels, and an interrupt that fills the buffer to the
 * lower one. The reader with the higher level may sleep for ever.
 */
#include <prove.h>

#include "watermark.h"

static struct watermark mark;

static void setup(void)
{
	watermark_init(&mark);
}

static void low(void)
{
	watermark_wait(&mark, 1);
}

static void high(void)
{
	watermark_wait(&mark, 2);
}

static void writer(void)
{
	watermark_write(&mark);
}

PROVE_SCENARIO(watermark_two_levels,
	       .says = "readers wait for one unit and for two; one is written",
	       .setup = setup,
	       .threads = { { "low", low },
			    { "high", high, PROVE_STAYS },
			    { "writer", writer, PROVE_IRQ } });
