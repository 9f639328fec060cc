// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * Two readers, one message, and a signal for the first reader after the message.
 */
#include <prove.h>

#include "pipe.h"

static struct message_pipe pipe;

static bool something_ready(void)
{
	return pipe.used > 0;
}

static void setup(void)
{
	pipe_init(&pipe);
	prove_ready(something_ready);
}

static void reader(void)
{
	pipe_read(&pipe);
}

static void writer(void)
{
	pipe_write(&pipe);
	prove_signal(0);
}

PROVE_SCENARIO(pipe_signalled_reader, .says = "a message wakes a reader, which gets a signal then",
	       .setup = setup,
	       .threads = { { "first", reader },
			    { "second", reader, PROVE_STAYS },
			    { "writer", writer } });
