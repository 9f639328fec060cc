// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * One reader and one message; and two readers with a message each.
 */
#include <prove.h>

#include "mailbox.h"

static struct mailbox box;

static bool something_ready(void)
{
	return box.messages > 0;
}

static void setup(void)
{
	mailbox_init(&box);
	prove_ready(something_ready);
}

static void reader(void)
{
	mailbox_take(&box);
}

static void poster(void)
{
	mailbox_post(&box);
}

static void finish(void)
{
	prove_check(box.messages == 0, "every message was taken");
}

PROVE_SCENARIO(mailbox_one, .says = "one reader, one message",
	       .setup = setup, .finish = finish,
	       .threads = { { "reader", reader }, { "poster", poster } });

static void poster_of_two(void)
{
	mailbox_post(&box);
	mailbox_post(&box);
}

PROVE_SCENARIO(mailbox_two, .says = "two readers, and a message for each",
	       .setup = setup, .finish = finish,
	       .threads = { { "first", reader },
			    { "second", reader },
			    { "poster", poster_of_two } });
