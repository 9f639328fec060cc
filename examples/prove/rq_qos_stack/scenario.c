// SPDX-License-Identifier: GPL-2.0-only OR BSD-3-Clause
/*
 * The token is taken at the start. One thread waits for it, the holder puts it back.
 */
#include <prove.h>

#include "token.h"

static struct token token;

static void setup(void)
{
	token_init(&token);
	token_get(&token);
}

static void waiter(void)
{
	token_get(&token);
}

static void holder(void)
{
	token_put(&token);
}

static void finish(void)
{
	prove_check(atomic_read(&token.free) == 0, "the waiter has the token");
}

PROVE_SCENARIO(token_handed_over, .says = "a thread waits for the token that its holder puts back",
	       .setup = setup, .finish = finish,
	       .threads = { { "waiter", waiter }, { "holder", holder } });
